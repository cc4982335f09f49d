//! What is asked of an image.

use std::path::PathBuf;

use crate::model::platform::Platform;

/// The image, and what it is held against.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageOptions {
    /// Archive of `docker save`, archive or folder with an OCI layout, SIF or SquashFS file.
    pub path: PathBuf,
    /// The lock to compare its environment with.
    pub lock: Option<PathBuf>,
    /// The host file of the machine that it will run on.
    pub host: Option<PathBuf>,
    /// The environment to judge, as a path in the image.
    pub prefix: Option<PathBuf>,
    /// The tag, where the archive contains several images.
    pub tag: Option<String>,
    /// The platform, where the archive contains several.
    pub platform: Option<Platform>,
    /// The target of the lock.
    pub target: Option<String>,
}
