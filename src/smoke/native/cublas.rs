//! The environment's cuBLAS computes `y = 2 x + y`.
//!
//! The runtime layer's PTX compiles for any GPU. This layer runs machine code from the library; without code for the
//! GPU, it fails with "no kernel image".

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use super::cudart::Memory;
use super::{Log, Opened, call};

const COUNT: usize = 4096;

pub(super) fn run(log: &mut Log, runtime: &Path, cublas: &Path) -> Result<(), String> {
    log.layer("cublas", None);
    let runtime = Opened::new(runtime)?;
    let cublas = Opened::new(cublas)?;
    let mut count: c_int = 0;
    call!(runtime, "cudaGetErrorString", cudaGetDeviceCount(&raw mut count => *mut c_int))?;
    for index in 0..count.min(64) {
        let device = format!("cuda:{index}");
        log.layer("cublas", Some(&device));
        call!(runtime, "cudaGetErrorString", cudaSetDevice(index => c_int))?;
        let mut handle: *mut c_void = null_mut();
        call!(cublas, "cublasGetStatusString", cublasCreate_v2(&raw mut handle => *mut *mut c_void))?;
        let mut version: c_int = 0;
        call!(cublas, "cublasGetStatusString", cublasGetVersion_v2(handle => *mut c_void, &raw mut version => *mut c_int))?;
        let data: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
        let x = Memory::of(&runtime, &data)?;
        let y = Memory::of(&runtime, &vec![1f32; COUNT])?;
        let two = 2f32;
        call!(cublas, "cublasGetStatusString", cublasSaxpy_v2(
            handle => *mut c_void,
            COUNT as c_int => c_int,
            &raw const two => *const f32,
            x.address.cast_const() => *const c_void, 1 => c_int,
            y.address => *mut c_void, 1 => c_int
        ))?;
        call!(runtime, "cudaGetErrorString", cudaDeviceSynchronize())?;
        // Integers below 2^24 are exact in fp32, so the result must be equal.
        let right = y.read(COUNT)?.iter().zip(&data).all(|(got, x)| *got == 2.0 * x + 1.0);
        log.check("axpy", &device, right, format!("cuBLAS {}", release(version)));
    }
    Ok(())
}

/// The version of cuBLAS from its integer. cublas_api.h: major * 10000 + minor * 100 + patch from 11.9 on (`120804`
/// is 12.8.4), major * 1000 before (`11605` is 11.6.5).
fn release(version: c_int) -> String {
    let (major, rest) = match version {
        100_000.. => (version / 10_000, version % 10_000),
        _ => (version / 1_000, version % 1_000),
    };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions() {
        assert_eq!(super::release(120_804), "12.8.4");
        assert_eq!(super::release(130_100), "13.1.0");
        assert_eq!(super::release(110_902), "11.9.2");
        assert_eq!(super::release(11_605), "11.6.5");
    }
}
