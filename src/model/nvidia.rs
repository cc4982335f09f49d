//! NVIDIA's packages on PyPI, by their names. A new major of CUDA brings new names, which the rows of the registry do not have yet:
//! what a package is for is told by how its name begins. Source: the projects of NVIDIA on PyPI, `nvidia-cublas-cu12`, and without a
//! suffix since CUDA 13.

/// Whether a package, by its normalized name, is one of NVIDIA's: its libraries are there because another package uses them.
///
/// ```
/// use envlock::model::nvidia::{is_cuda_runtime, is_cudnn, is_of_nvidia};
/// assert!(is_of_nvidia("nvidia-cublas-cu12") && !is_of_nvidia("torch"));
/// assert!(is_cuda_runtime("nvidia-cuda-runtime") && is_cuda_runtime("nvidia-cuda-runtime-cu12"));
/// assert!(is_cudnn("nvidia-cudnn-cu13") && !is_cudnn("nvidia-cudnn-frontend"));
/// ```
pub fn is_of_nvidia(package: &str) -> bool {
    package.starts_with("nvidia-")
}

/// Whether a package brings the CUDA runtime.
pub fn is_cuda_runtime(package: &str) -> bool {
    package.starts_with("nvidia-cuda-runtime")
}

/// Whether a package brings cuDNN.
pub fn is_cudnn(package: &str) -> bool {
    package.starts_with("nvidia-cudnn-cu")
}

/// Whether a package brings NCCL.
pub fn is_nccl(package: &str) -> bool {
    package.starts_with("nvidia-nccl-cu")
}

/// Whether a package brings cuBLAS.
pub fn is_cublas(package: &str) -> bool {
    package.starts_with("nvidia-cublas")
}
