//! Work on many things at once.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of threads.
const MOST: usize = 16;

/// What a function says of each of many things, on all processors, in their order. Each thread takes the next thing: files differ in
/// size.
pub(crate) fn in_threads<T: Sync, R: Send>(all: &[T], of: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST).min(all.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(place) else { return done };
            done.push((place, of(one)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A panic goes on here.
        let each = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        each.flatten().collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let all: Vec<usize> = (0..1_000).collect();
        assert_eq!(in_threads(&all, &|one| one * 2), all.iter().map(|one| one * 2).collect::<Vec<_>>());
        assert_eq!(in_threads(&[] as &[usize], &|one| *one), Vec::<usize>::new());
    }
}
