//! What is known when something is judged: every part may be absent, and what needs it is then not judged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::locked::Locked;
use crate::formats::OtherBuild;
use crate::model::host::Host;
use crate::model::image_digest::ImageDigest;
use crate::model::installed::{Installed, Traces};
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::nvidia::is_cuda_runtime;
use crate::model::owner::Owner;
use crate::model::patches::WantedPython;
use crate::model::platform::Platform;
use crate::model::variant::is_cuda;
use crate::registry::Registry;

/// What is known of a lock, an environment and a machine. Each part may be absent.
#[derive(Clone, Copy)]
pub struct Facts<'f> {
    /// What is known of builds, drivers and GPUs.
    pub registry: &'f Registry,
    /// What is locked: the machine is held against it.
    pub stack: Option<&'f Locked<'f>>,
    /// What is locked: the packages are held against it. Another one than `stack` where the lock of another tool holds them.
    pub packages: Option<&'f Locked<'f>>,
    /// What that lock says beyond one environment.
    pub lock: Option<&'f LockFacts>,
    /// What is installed.
    pub contents: Option<Contents<'f>>,
    /// The container image that it is in.
    pub image: Option<&'f ImageFacts<'f>>,
    /// The machine that is asked about.
    pub machine: Option<&'f Host>,
    /// What runs on it now; only where it is this machine.
    pub state: Option<&'f MachineState>,
    /// How the machine relates to the lock.
    pub role: MachineRole,
    /// What is demanded beyond that.
    pub demands: Demands<'f>,
}

/// What is installed in an environment.
#[derive(Clone, Copy)]
pub struct Contents<'f> {
    /// The platform of its programs.
    pub platform: Platform,
    /// The packages and their files.
    pub installed: &'f Installed,
    /// How they were installed.
    pub traces: &'f Traces,
    /// The libraries.
    pub native: &'f Native,
    /// Which of its packages are imported from outside the environment, each as a sentence.
    pub outside: &'f [String],
}

/// What is known of a container image as a whole.
pub struct ImageFacts<'i> {
    /// What its file is, for display: `the archive`.
    pub file: &'static str,
    /// The digest of its manifest, if it is stated.
    pub manifest_digest: Option<&'i str>,
    /// The digest of its configuration, if it is stated.
    pub config_digest: Option<&'i str>,
    /// The image that each target of a lock names, with the target's name.
    pub pinned: Vec<(&'i str, &'i ImageDigest)>,
    /// The platform that it states.
    pub stated: Option<Platform>,
    /// The platform of its interpreter, if that can be read.
    pub python: Option<Platform>,
    /// The user that its programs run as; empty for root.
    pub user: &'i str,
    /// The program that it starts, with its arguments.
    pub command: &'i [String],
    /// The variables of its programs.
    pub variables: &'i BTreeMap<String, String>,
    /// A folder that its user may not be able to enter.
    pub closed: Option<PathBuf>,
    /// Whether all of it was searched for environments.
    pub is_searched: bool,
    /// The environment that was taken, where it has several and which one the program runs in is not known.
    pub taken: Option<PathBuf>,
}

/// What a lock says beyond one of its environments, and how it relates to what it was made from.
#[derive(Debug, Clone, Default)]
pub struct LockFacts {
    /// The Python that envlock's lock is for, where there is one.
    pub python: Option<WantedPython>,
    /// The installed packages that it has in any of its environments.
    pub mentions: BTreeSet<String>,
    /// Why it is not that of the manifest, as a sentence.
    pub stale: Option<String>,
    /// The tool that holds the packages has locked others than those that the stack was chosen for, and the first of the stack.
    pub changed: Option<(Owner, Option<OtherBuild>)>,
}

/// How the machine relates to what is judged on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineRole {
    /// The platform of the machine, where the programs are those of another root file system, whose platform is the host's.
    pub of_root: Option<Platform>,
    /// Whether the machine is this one: a described one has no present.
    pub is_here: bool,
    /// Whether the manifest describes the machine that was locked: a kind of machines, of which none was looked at.
    pub is_described: bool,
}

/// What is demanded beyond what a lock says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Demands<'f> {
    /// A missing GPU is an error.
    pub gpu: bool,
    /// A package that is not locked is an error, with the command that removes it, where one is known.
    pub exact: Option<Option<&'f str>>,
}

/// A part of the facts that a check needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// What is locked.
    Lock,
    /// What is installed.
    Contents,
    /// The machine.
    Machine,
    /// What runs on it now.
    State,
    /// A container image as a whole.
    Image,
}

impl<'f> Facts<'f> {
    /// What is locked, without anything else.
    pub fn of_lock(locked: &'f Locked<'f>, registry: &'f Registry) -> Facts<'f> {
        Facts { stack: Some(locked), packages: Some(locked), ..Facts::none(registry) }
    }

    /// Nothing but the registry.
    pub fn none(registry: &'f Registry) -> Facts<'f> {
        Facts {
            registry,
            stack: None,
            packages: None,
            lock: None,
            contents: None,
            image: None,
            machine: None,
            state: None,
            role: MachineRole::default(),
            demands: Demands::default(),
        }
    }

    /// The same on a machine.
    #[must_use]
    pub fn on(self, machine: &'f Host) -> Facts<'f> {
        Facts { machine: Some(machine), ..self }
    }

    /// The same, with demands.
    #[must_use]
    pub fn with(self, demands: Demands<'f>) -> Facts<'f> {
        Facts { demands, ..self }
    }

    /// Whether a part is there.
    pub fn has(&self, part: Need) -> bool {
        match part {
            Need::Lock => self.packages.is_some(),
            Need::Contents => self.contents.is_some(),
            Need::Machine => self.machine.is_some(),
            Need::State => self.state.is_some(),
            Need::Image => self.image.is_some(),
        }
    }

    /// Whether a package is locked; without a lock, every one is.
    pub(super) fn is_locked(&self, name: &str) -> bool {
        self.packages.is_none_or(|locked| locked.target.package(name).is_some())
    }

    /// The platform whose packages are meant; `None` where there are none.
    pub(super) fn platform(&self) -> Option<Platform> {
        let of_contents = self.contents.map(|contents| contents.platform);
        of_contents.or_else(|| Some(self.packages?.target.platform))
    }

    /// Whether something installed or locked uses an NVIDIA GPU.
    pub(super) fn uses_cuda(&self) -> bool {
        match (self.stack, self.contents) {
            (Some(locked), _) => locked.target.uses_cuda(),
            (None, Some(contents)) => uses_cuda(contents.installed),
            (None, None) => false,
        }
    }
}

/// Whether what is installed without a lock uses an NVIDIA GPU.
fn uses_cuda(installed: &Installed) -> bool {
    installed.distributions.iter().any(|own| {
        own.name.starts_with("jax-cuda")
            || is_cuda_runtime(&own.name)
            || own.variant.as_deref().is_some_and(is_cuda)
    })
}
