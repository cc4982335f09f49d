//! CUDA variants by name: `cpu`, `cu118`, `cu126`.

/// The variant without CUDA.
pub const CPU: &str = "cpu";

/// Whether a variant is a CUDA variant, such as `cu126`. `rocm6.4`, `xpu` and `cpu` are not.
///
/// ```
/// use envlock::compatibility::is_cuda;
/// assert!(is_cuda("cu126") && is_cuda("cu92"));
/// assert!(!is_cuda("cpu") && !is_cuda("rocm6.4") && !is_cuda("cu") && !is_cuda("custom"));
/// ```
pub fn is_cuda(variant: &str) -> bool {
    variant.strip_prefix("cu").is_some_and(|n| n.len() >= 2 && n.bytes().all(|b| b.is_ascii_digit()))
}
