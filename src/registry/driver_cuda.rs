//! The CUDA that a driver supports natively.

use std::fmt;

use semver::Version as Semver;

use crate::model::version::cuda_short;

/// The newest CUDA that a driver supports natively; a lower bound if its branch is newer than the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverCuda<'r> {
    /// The CUDA of the newest known branch that is not newer than the driver's.
    pub cuda: &'r Semver,
    /// The driver's branch, if the registry has only older ones: then the driver's CUDA may be newer.
    pub newer_branch: Option<u32>,
}

impl DriverCuda<'_> {
    /// Whether the driver's CUDA may be newer.
    pub fn is_bound(&self) -> bool {
        self.newer_branch.is_some()
    }
}

/// `13.2`, or `>= 13.5; branch 630 is newer than the registry`.
impl fmt::Display for DriverCuda<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cuda = cuda_short(self.cuda);
        match self.newer_branch {
            None => f.write_str(&cuda),
            Some(branch) => write!(f, ">= {cuda}; branch {branch} is newer than the registry"),
        }
    }
}
