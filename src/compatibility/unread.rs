//! Builds of torch that may exist although no row has them: what the data does not know is no "no".

use std::fmt;

use pep440_rs::Version;

use crate::model::platform::Platform;
use crate::registry::Build;

/// What no row says of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Whether it exists.
    Build,
    /// Whether it exists: all known builds of the release are for the CPU.
    CudaBuild,
    /// Whether it exists: all known builds of the release are on PyPI.
    OtherIndex,
    /// For which GPUs it has code, or which driver its CUDA needs.
    Needs,
    /// Whether a release that is newer than all known ones runs.
    Newer,
    /// Whether it runs: it is older than all that the registry is about.
    Older,
    /// Whether its code runs on a GPU of a compute capability that no row is about.
    Gpu,
}

/// A build of torch that the request may mean and of which too little is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadBuild {
    /// What is not known.
    pub what: Unread,
    /// The release, if the request pins one.
    pub version: Option<Version>,
    /// The bounds of the request on its releases instead: `>=2.99`; empty if there are none.
    pub bounds: String,
    /// The CUDA variant, if the request pins one.
    pub variant: Option<String>,
    /// The limit on its CUDA, if the request has one instead.
    pub cuda: Option<String>,
    /// For which platform.
    pub platform: Platform,
    /// Of known builds, the newest whose GPU code nobody read, as `registry learn` takes it: `2.9.1+cu126`.
    pub newest: Option<Version>,
    /// Of a release that is older than all known ones, the oldest of those.
    pub known_from: Option<Version>,
    /// The variants that it may be of; empty if it is a known build.
    pub variants: Vec<String>,
}

impl UnreadBuild {
    /// A known build whose GPU code nobody read.
    pub(super) fn of(build: &Build) -> UnreadBuild {
        UnreadBuild {
            what: Unread::Needs,
            version: Some(build.version.clone()),
            bounds: String::new(),
            variant: Some(build.variant.clone()),
            cuda: None,
            platform: build.platform,
            newest: Some(build.version_on_index()),
            known_from: None,
            variants: Vec::new(),
        }
    }

    /// The commands that read it, as a hint.
    pub fn how_to_read(&self) -> String {
        let command = |release: String| command_to_learn(&format!("torch=={release}"), self.platform);
        if self.what == Unread::Newer {
            return "`envlock resolve` reads what its indexes have".to_owned();
        }
        if let Some(oldest) = &self.known_from {
            let known = format!("`torch>={oldest}` asks for one that is known");
            return match self.version {
                Some(_) => known,
                None => format!("`torch<{oldest}` in the place of `torch` reads the older ones, and {known}"),
            };
        }
        // No wheel says which driver its CUDA needs.
        if self.what == Unread::Gpu || self.what == Unread::Needs && self.newest.is_none() {
            return "`envlock registry update` looks for newer data".to_owned();
        }
        if let Some(newest) = &self.newest {
            let index = if newest.is_local() { "the pytorch index" } else { "PyPI" };
            return format!("{} reads the build of {index}", command(newest.to_string()));
        }
        match (&self.version, &self.variant) {
            (Some(version), Some(variant)) => {
                format!("{} reads the build of the pytorch index", command(format!("{version}+{variant}")))
            }
            (Some(version), None) if self.what != Unread::OtherIndex => {
                format!("{} reads the release of PyPI", command(version.to_string()))
            }
            _ => "`envlock resolve` reads what its indexes have".to_owned(),
        }
    }
}

/// The command that reads a release, `torch==2.15.0`, from its wheel for a platform.
pub fn command_to_learn(release: &str, platform: Platform) -> String {
    match platform {
        Platform::LINUX_X86_64 => format!("`envlock registry learn {release}`"),
        other => format!("`envlock registry learn {release} --platform {other}`"),
    }
}

/// `the registry has no row of torch 2.9.0 cu129 for linux-x86_64, which may exist`.
impl fmt::Display for UnreadBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Unread::Newer, Some(newest)) = (self.what, &self.version) {
            let platform = self.platform;
            return write!(
                f,
                "a torch newer than {newest}, the newest in the registry for {platform}, may run"
            );
        }
        if let Some(oldest) = &self.known_from {
            write!(f, "the registry begins with torch {oldest}, and older releases may run: ")?;
        }
        f.write_str(match self.what {
            Unread::Older => "torch",
            Unread::Build | Unread::Newer => "the registry has no row of torch",
            Unread::CudaBuild => "the registry has no row of a CUDA build of torch",
            Unread::OtherIndex => "the registry has no row of a build on the pytorch index of torch",
            Unread::Gpu => "nothing is known of a GPU of this machine, on which it may run: torch",
            Unread::Needs => "the registry does not say which GPUs and drivers these builds run on: torch",
        })?;
        match &self.version {
            Some(version) => write!(f, " {version}")?,
            None => f.write_str(&self.bounds)?,
        }
        if let Some(variant) = &self.variant {
            write!(f, " {variant}")?;
        }
        if let Some(cuda) = &self.cuda {
            write!(f, " with CUDA {cuda}")?;
        }
        write!(f, " for {}", self.platform)?;
        f.write_str(match self.what {
            Unread::Needs | Unread::Gpu | Unread::Older => "",
            Unread::Build | Unread::CudaBuild | Unread::OtherIndex | Unread::Newer => ", which may exist",
        })
    }
}
