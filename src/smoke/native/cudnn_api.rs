//! Layer 3, the environment's cuDNN: one convolution by its C API, compared with a float64 reference.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use super::cudart::Memory;
use super::{Log, Opened, call};
use crate::model::version::cudnn_of_integer;

/// `CUDNN_TENSOR_NCHW`, `CUDNN_DATA_FLOAT`, `CUDNN_CROSS_CORRELATION`.
const NCHW: c_int = 0;
const FLOAT: c_int = 0;
const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM`: in every release, for every GPU, with almost no workspace.
const IMPLICIT_GEMM: c_int = 0;
/// `CUDNN_FMA_MATH`: fp32 without TF32.
const FMA_MATH: c_int = 3;
/// Allowed relative error: a margin of one digit for sums of 27 products in fp32.
const ALLOWED: f64 = 1e-5;

/// Input 1 x 3 x 32 x 32, 8 filters of 3 x 3, padding 1.
const CHANNELS: usize = 3;
const SIDE: usize = 32;
const FILTERS: usize = 8;
const KERNEL: usize = 3;

pub(super) fn run(log: &mut Log, runtime: &Path, cudnn: &Path) -> Result<(), String> {
    log.layer("cudnn", None);
    let runtime = Opened::new(runtime)?;
    let cudnn = Opened::new(cudnn)?;
    // SAFETY: the function takes no arguments and returns a number.
    let version = unsafe { cudnn.function::<unsafe extern "C" fn() -> usize>("cudnnGetVersion")?() };
    let text = u32::try_from(version).ok().and_then(cudnn_of_integer);
    log.check("version", "cuda", true, format!("cuDNN {}", text.unwrap_or_else(|| version.to_string())));
    let mut count: c_int = 0;
    call!(runtime, "cudaGetErrorString", cudaGetDeviceCount(&raw mut count => *mut c_int))?;
    for index in 0..count.min(64) {
        let device = format!("cuda:{index}");
        log.layer("cudnn", Some(&device));
        call!(runtime, "cudaGetErrorString", cudaSetDevice(index => c_int))?;
        let (input, filter) = problem();
        let got = convolution(&runtime, &cudnn, &input, &filter)?;
        let error = relative_error(&got, &reference(&input, &filter));
        log.check(
            "conv-native",
            &device,
            error <= ALLOWED,
            format!("relative error {error:.1e}, allowed {ALLOWED:.0e}"),
        );
    }
    Ok(())
}

/// Input and filter: pseudo-random numbers between -1 and 1, the same on every machine.
fn problem() -> (Vec<f32>, Vec<f32>) {
    let mut state = 20u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state >> 8) / f64::from(1u32 << 23) - 1.0) as f32
    };
    let input = (0..CHANNELS * SIDE * SIDE).map(|_| next()).collect();
    let filter = (0..FILTERS * CHANNELS * KERNEL * KERNEL).map(|_| next()).collect();
    (input, filter)
}

/// The reference convolution in float64.
fn reference(input: &[f32], filter: &[f32]) -> Vec<f64> {
    let mut out = Vec::with_capacity(FILTERS * SIDE * SIDE);
    for f in 0..FILTERS {
        for y in 0..SIDE {
            for x in 0..SIDE {
                let mut sum = 0f64;
                for c in 0..CHANNELS {
                    for ky in 0..KERNEL {
                        for kx in 0..KERNEL {
                            let (Some(iy), Some(ix)) = ((y + ky).checked_sub(1), (x + kx).checked_sub(1))
                            else {
                                continue;
                            };
                            if iy < SIDE && ix < SIDE {
                                sum += f64::from(input[(c * SIDE + iy) * SIDE + ix])
                                    * f64::from(filter[((f * CHANNELS + c) * KERNEL + ky) * KERNEL + kx]);
                            }
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn relative_error(got: &[f32], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(0f64, |a, b| a.max(b.abs()));
    let worst = got.iter().zip(expected).fold(0f64, |worst, (a, b)| {
        let error = (f64::from(*a) - b).abs();
        // `max` would ignore NaN.
        if error.is_nan() { f64::INFINITY } else { worst.max(error) }
    });
    worst / largest
}

fn convolution(runtime: &Opened, cudnn: &Opened, input: &[f32], filter: &[f32]) -> Result<Vec<f32>, String> {
    let (mut handle, mut x, mut w, mut y, mut convolution) =
        (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
    type Out = *mut *mut c_void;
    type Handle = *mut c_void;
    call!(cudnn, "cudnnGetErrorString", cudnnCreate(&raw mut handle => Out))?;
    call!(cudnn, "cudnnGetErrorString", cudnnCreateTensorDescriptor(&raw mut x => Out))?;
    call!(cudnn, "cudnnGetErrorString", cudnnCreateTensorDescriptor(&raw mut y => Out))?;
    call!(cudnn, "cudnnGetErrorString", cudnnCreateFilterDescriptor(&raw mut w => Out))?;
    call!(cudnn, "cudnnGetErrorString", cudnnCreateConvolutionDescriptor(&raw mut convolution => Out))?;
    for (descriptor, channels) in [(x, CHANNELS), (y, FILTERS)] {
        call!(cudnn, "cudnnGetErrorString", cudnnSetTensor4dDescriptor(
            descriptor => Handle, NCHW => c_int, FLOAT => c_int,
            1 => c_int, channels as c_int => c_int, SIDE as c_int => c_int, SIDE as c_int => c_int
        ))?;
    }
    call!(cudnn, "cudnnGetErrorString", cudnnSetFilter4dDescriptor(
        w => Handle, FLOAT => c_int, NCHW => c_int,
        FILTERS as c_int => c_int, CHANNELS as c_int => c_int, KERNEL as c_int => c_int, KERNEL as c_int => c_int
    ))?;
    call!(cudnn, "cudnnGetErrorString", cudnnSetConvolution2dDescriptor(
        convolution => Handle, 1 => c_int, 1 => c_int, 1 => c_int, 1 => c_int, 1 => c_int, 1 => c_int,
        CROSS_CORRELATION => c_int, FLOAT => c_int
    ))?;
    call!(cudnn, "cudnnGetErrorString", cudnnSetConvolutionMathType(convolution => Handle, FMA_MATH => c_int))?;
    let mut bytes = 0usize;
    call!(cudnn, "cudnnGetErrorString", cudnnGetConvolutionForwardWorkspaceSize(
        handle => Handle, x => Handle, w => Handle, convolution => Handle, y => Handle,
        IMPLICIT_GEMM => c_int, &raw mut bytes => *mut usize
    ))?;
    let input = Memory::of(runtime, input)?;
    let filter = Memory::of(runtime, filter)?;
    let output = Memory::of(runtime, &vec![f32::NAN; FILTERS * SIDE * SIDE])?;
    let workspace = Memory::new(runtime, bytes)?;
    let (one, zero) = (1f32, 0f32);
    call!(cudnn, "cudnnGetErrorString", cudnnConvolutionForward(
        handle => Handle,
        &raw const one => *const f32,
        x => Handle, input.address => Handle,
        w => Handle, filter.address => Handle,
        convolution => Handle, IMPLICIT_GEMM => c_int, workspace.address => Handle, bytes => usize,
        &raw const zero => *const f32,
        y => Handle, output.address => Handle
    ))?;
    call!(runtime, "cudaGetErrorString", cudaDeviceSynchronize())?;
    output.read(FILTERS * SIDE * SIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_convolution() {
        // A filter with a 1 in the middle of one channel returns that channel.
        let (input, _) = problem();
        let mut filter = vec![0f32; FILTERS * CHANNELS * KERNEL * KERNEL];
        filter[KERNEL + 1] = 1.0;
        let out = reference(&input, &filter);
        assert!((0..SIDE * SIDE).all(|i| out[i] == f64::from(input[i])));
        // At the corner, a 3 x 3 filter of ones covers four inputs.
        filter[..9].fill(1.0);
        let corner = reference(&input, &filter)[0];
        let expected: f64 = [0, 1, SIDE, SIDE + 1].iter().map(|i| f64::from(input[*i])).sum();
        assert!((corner - expected).abs() < 1e-12);
        assert_eq!(relative_error(&[1.0, f32::NAN], &[1.0, 1.0]), f64::INFINITY);
    }
}
