//! What SHA-256 reaches on buffers in memory with two threads: the measure for `verify --deep`.

use std::time::Instant;

use sha2::{Digest, Sha256};

/// Bytes of a buffer; each thread hashes its own several times.
const SIZE: usize = 256 << 20;
const TIMES: usize = 4;
const THREADS: usize = 2;

fn main() {
    let buffers: Vec<Vec<u8>> = (0..THREADS).map(|i| vec![i as u8; SIZE]).collect();
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for buffer in &buffers {
                    scope.spawn(move || {
                        for _ in 0..TIMES {
                            std::hint::black_box(Sha256::digest(std::hint::black_box(buffer)));
                        }
                    });
                }
            });
            (SIZE * TIMES * THREADS) as f64 / 1e9 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{:.2} GB/s, the median of {} ({:.2} to {:.2})", rates[2], rates.len(), rates[0], rates[4]);
}
