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

/// The CUDA release of a variant, as major and minor: `(13, 0)` for `cu130`.
pub fn cuda_of_variant(variant: &str) -> Option<(u32, u32)> {
    let digits = variant.strip_prefix("cu")?;
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
