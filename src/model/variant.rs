//! Variants of builds by name: `cpu`, `cu118`, `cu126`.

use std::fmt;

/// The name of the variant without CUDA.
pub const CPU: &str = "cpu";

/// What a build of torch or of a package beside it computes with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variant {
    /// Nothing but the CPU.
    Cpu,
    /// A CUDA release, as major and minor: `cu126` is 12.6.
    Cuda(u64, u64),
    /// Something else, by its name: `rocm6.4`, `xpu`.
    Other(String),
}

impl Variant {
    /// The variant of a name.
    ///
    /// ```
    /// use envlock::model::variant::Variant;
    /// assert_eq!(Variant::of("cu126"), Variant::Cuda(12, 6));
    /// assert_eq!(Variant::of("cu92"), Variant::Cuda(9, 2));
    /// assert_eq!(Variant::of("cu"), Variant::Other("cu".to_owned()));
    /// assert_eq!(Variant::of_cuda("12.8.1").unwrap().to_string(), "cu128");
    /// ```
    pub fn of(name: &str) -> Variant {
        let cuda = || {
            let digits = name.strip_prefix("cu").filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
            let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
            Some(Variant::Cuda(major.parse().ok()?, minor.parse().ok()?))
        };
        match name {
            CPU => Variant::Cpu,
            name => cuda().unwrap_or_else(|| Variant::Other(name.to_owned())),
        }
    }

    /// The variant of a CUDA release: `12.8`, `12.8.1`.
    pub fn of_cuda(release: &str) -> Option<Variant> {
        let mut parts = release.split('.');
        Some(Variant::Cuda(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// The CUDA release, as major and minor.
    pub fn cuda(&self) -> Option<(u64, u64)> {
        match self {
            Variant::Cuda(major, minor) => Some((*major, *minor)),
            Variant::Cpu | Variant::Other(_) => None,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::Cpu => f.write_str(CPU),
            Variant::Cuda(major, minor) => write!(f, "cu{major}{minor}"),
            Variant::Other(name) => f.write_str(name),
        }
    }
}

/// Whether a name is that of a CUDA variant: `cu126`, and not `rocm6.4`, `xpu` or `cpu`.
pub fn is_cuda(name: &str) -> bool {
    cuda_of_variant(name).is_some()
}

/// The CUDA release of a variant by its name, as major and minor: `(13, 0)` of `cu130`.
pub fn cuda_of_variant(name: &str) -> Option<(u64, u64)> {
    Variant::of(name).cuda()
}
