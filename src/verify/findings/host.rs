//! Findings about the machine: platform, C library, driver, GPUs, and changes since the lock was made.

use super::super::locked::{NoCuda, WithoutCuda};
use super::finding;
use crate::compatibility::UnknownGpu;
use crate::compatibility::{AskedDriver, Asks};
use crate::model::capability::ComputeCapability;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::host_note::HostNote;
use crate::model::patches::WantedPython;
use crate::model::platform::{Libc, Platform};
use crate::model::text::clean;
use crate::model::version::{DottedVersion, cuda_short};
use crate::model::wheel::Python;

/// Why a lock cannot be installed on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongPlatform {
    /// The locked platform, and the machine's.
    Locked(Platform, Platform),
    /// The platform of an image's or another root's programs, and the machine's.
    Root(Platform, Platform),
    /// The platform of an image's programs, and the one that the image states.
    Stated(Platform, Platform),
    /// It has no file for the platform: the sentence that says of what.
    NoFile(String),
    /// A conda package asks for a driver (`__cuda`), and the machine has none: the package, or `None` for the lock's platform.
    NoDriver(Option<String>),
}

/// The platform differs from the locked one, or the lock cannot be installed on it.
pub fn wrong_platform(wrong: WrongPlatform) -> Finding {
    let text = match wrong {
        WrongPlatform::Locked(locked, here) => format!("the lock is for {locked}, this machine is {here}"),
        WrongPlatform::Root(programs, here) => {
            format!("the programs in it are for {programs}, the machine is {here}")
        }
        WrongPlatform::Stated(programs, stated) => {
            format!(
                "the image says that it is for {stated}, and its Python is for {programs}: nothing runs in it"
            )
        }
        WrongPlatform::NoFile(text) => text,
        WrongPlatform::NoDriver(package) => format!(
            "{} requires `__cuda`, and this machine has no NVIDIA driver: conda and pixi refuse to install it",
            package.as_deref().unwrap_or("the platform of the lock")
        ),
    };
    finding(Code::WrongPlatform, Severity::Error, text)
}

/// Which Python is the wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongPython {
    /// The environment's, for the lock.
    Lock {
        /// The environment's.
        installed: Python,
        /// The lock's.
        locked: WantedPython,
    },
    /// The interpreter that `bin/python` leads to, for the environment.
    Interpreter {
        /// Its series.
        interpreter: Python,
        /// The series that the packages are installed for.
        python: Python,
    },
}

/// The Python series is not the locked one, or not that of the environment's packages.
pub fn wrong_python(wrong: WrongPython) -> Finding {
    let (text, python) = match wrong {
        WrongPython::Lock { installed, locked } => {
            (format!("the environment has Python {installed}, the lock is for {locked}"), locked.to_string())
        }
        WrongPython::Interpreter { interpreter, python } => (
            format!(
                "bin/python is Python {interpreter}, and the packages are installed for Python {python}: it does not find them"
            ),
            python.to_string(),
        ),
    };
    finding(Code::WrongPython, Severity::Error, text)
        .fixed_by(Fix::advice(format!("recreate the environment with Python {python}")))
}

/// glibc is older than the version that the wheels need, or the C library is musl.
pub fn libc_too_old(have: &Libc, need: &DottedVersion) -> Finding {
    let text = match have {
        Libc::Glibc(have) => format!("glibc {have} is older than the {need} that the wheels need"),
        other => format!("the wheels need glibc {need}, and the C library is {other}"),
    };
    finding(Code::LibcTooOld, Severity::Error, text)
}

/// How something is locked, or installed, for another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relock {
    /// envlock locks it.
    Own,
    /// Another tool does.
    OfTool {
        /// Whether its torch is known.
        has_torch: bool,
        /// Whether it uses CUDA.
        has_cuda: bool,
    },
    /// It is installed without a lock.
    Installed {
        /// Whether torch is among it.
        has_torch: bool,
        /// Whether a GPU has to be used.
        gpu_is_required: bool,
    },
}

impl Relock {
    /// What to do, as a sentence.
    fn sentence(self) -> String {
        let plan = |has_torch| match has_torch {
            true => " of torch; `envlock plan` lists those that run there",
            false => "",
        };
        match self {
            Relock::Own => "lock for this machine: add a `[target.NAME]` to the manifest, or run `envlock resolve --redetect` on it, which replaces the machine that was locked".to_owned(),
            Relock::OfTool { has_torch, has_cuda } => {
                let what = if has_cuda { "another release or build" } else { "a build for CUDA" };
                format!("lock {what}{}", plan(has_torch))
            }
            Relock::Installed { has_torch, .. } => {
                format!("install another release or build{}", plan(has_torch))
            }
        }
    }
}

/// The driver is older than the minimum for a GPU with this stack.
///
/// `asked`: the newest driver that a package asks for; it is at fault if it is this minimum.
pub fn driver_too_old(
    driver: &DottedVersion,
    floor: &DottedVersion,
    gpu: &str,
    asked: Option<&AskedDriver>,
    relock: Relock,
) -> Finding {
    if let Some(AskedDriver { package, asks, .. }) = asked.filter(|asked| asked.driver == *floor) {
        let why = match asks {
            Asks::Spec(spec) => format!("conda's {package} asks for (`{}`)", clean(spec, 60)),
            Asks::Cuda(cuda) => format!("{package} needs for CUDA {}", cuda_short(cuda)),
        };
        let text = format!("driver {driver} is below {floor}, which {why}");
        let name = package.split(' ').next().unwrap_or(package);
        let fix = format!(
            "update the NVIDIA driver on the host to {floor} or newer, or lock another release or build of {name}"
        );
        return finding(Code::DriverTooOld, Severity::Error, text).at(name).fixed_by(Fix::advice(fix));
    }
    let text = format!("driver {driver} is below {floor}, which {gpu} needs for this stack");
    let fix = format!("update the NVIDIA driver on the host to {floor} or newer, or {}", relock.sentence());
    finding(Code::DriverTooOld, Severity::Error, text).fixed_by(Fix::advice(fix))
}

/// Why a driver is too new for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverTooNew {
    /// The envelope in the lock has an upper bound for the driver.
    Envelope {
        /// The version of the kernel module.
        driver: DottedVersion,
        /// The first driver branch that does not support the GPU.
        below: DottedVersion,
        /// The GPU.
        gpu: String,
        /// How it is locked for another machine.
        relock: Relock,
    },
    /// The described machine is impossible: the driver does not support the GPU. The message.
    Described(String),
}

/// The driver no longer supports a GPU.
pub fn driver_too_new(what: &DriverTooNew) -> Finding {
    let found = |text: String| finding(Code::DriverTooNew, Severity::Error, text);
    match what {
        DriverTooNew::Envelope { driver, below, gpu, relock } => {
            let text = format!("driver {driver} no longer supports {gpu}: it needs a driver before {below}");
            match relock {
                Relock::Own => found(text),
                other => found(text).fixed_by(Fix::advice(other.sentence())),
            }
        }
        DriverTooNew::Described(why) => found(why.clone()),
    }
}

/// The driver runs the stack by minor-version compatibility.
pub fn compatibility_mode(driver: &DottedVersion, native: &DottedVersion) -> Finding {
    let text = format!(
        "minor-version compatibility, which is normal: driver {driver} is below {native}, which only PTX that this CUDA makes needs"
    );
    finding(Code::CompatibilityMode, Severity::Info, text)
}

/// Why a stack does not use a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCovered<'a> {
    /// The CUDA of the stack does not compile for it: `13.0`.
    Toolkit(&'a str),
    /// It has code for other compute capabilities, these.
    Code(&'a [String]),
    /// The cuDNN beside it supports compute capabilities from this one on.
    Cudnn(&'a DottedVersion, ComputeCapability),
    /// It is locked without CUDA.
    WithoutCuda(&'a WithoutCuda),
}

/// The stack does not support a GPU of the machine.
pub fn gpu_not_covered(gpu: &str, why: NotCovered<'_>, relock: Relock) -> Finding {
    let text = match why {
        NotCovered::Code(covered) => {
            format!("{gpu} is not covered: the stack supports compute capability {}", covered.join(", "))
        }
        NotCovered::Toolkit(cuda) => format!("{gpu} is not covered: CUDA {cuda} has no code for it"),
        NotCovered::Cudnn(version, min) => {
            format!(
                "{gpu} is not covered: cuDNN {version}, which is locked, needs compute capability >= {min}"
            )
        }
        NotCovered::WithoutCuda(WithoutCuda { framework, why, .. }) => match why {
            NoCuda::CpuBuild => format!("{framework} is a CPU build: it runs, but does not use {gpu}"),
            NoCuda::OtherVendor(_) => format!("{framework} is not built for NVIDIA GPUs such as {gpu}"),
            NoCuda::NoPlugin { ask } => format!(
                "{framework} is locked without its CUDA packages (`{ask}` brings them): it runs, but does not use {gpu}"
            ),
            NoCuda::NoPackages { cuda, ask } => format!(
                "{framework} is locked without CUDA packages (`{ask}` brings them): it uses {gpu} only if CUDA {cuda} is installed on the machine"
            ),
        },
    };
    // What is installed runs on the CPU, which may be what it is for; a lock was asked about with the GPU.
    let severity = match (why, relock) {
        (NotCovered::WithoutCuda(_), Relock::Installed { gpu_is_required: false, .. }) => Severity::Warning,
        _ => Severity::Error,
    };
    let fix = match relock {
        Relock::Own => format!(
            "{}; `envlock plan` lists what runs there, which a pin of the manifest may exclude",
            relock.sentence()
        ),
        other => other.sentence(),
    };
    finding(Code::GpuNotCovered, severity, text).at(gpu).fixed_by(Fix::advice(fix))
}

/// An environment variable or a limit of the process hides GPUs from programs.
pub fn hidden_gpus(note: &HostNote, hides_all: bool) -> Finding {
    let severity = if hides_all { Severity::Warning } else { Severity::Info };
    finding(Code::HiddenGpus, severity, note.to_string())
}

/// What could not be checked on this machine, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotJudged {
    /// The GPUs of the machine are unknown.
    GpusUnknown,
    /// The machine has no NVIDIA GPU.
    NoGpu,
    /// The driver version is unknown.
    DriverUnknown,
    /// The compute capability of a GPU is unknown, or no row is about it.
    UnknownGpu(UnknownGpu),
    /// The driver is loaded, and NVIDIA's management library was not asked: why.
    NoManagement(String),
    /// This is a container without GPUs on a host with an NVIDIA driver.
    ContainerWithoutGpus,
    /// A note of the probe.
    Note(HostNote),
    /// The libraries could not be read: why.
    Libraries(String),
    /// A host file cannot be read: why.
    HostFile(String),
    /// Only the branch of the driver is known: the branch, and the release that is needed.
    DriverBranch(DottedVersion, DottedVersion),
    /// A container image cannot be compared with the locked one: why.
    Image(String),
    /// Another tool's lock has something that the registry does not know: what.
    Locked(String),
    /// Another tool's lock has a release of which nothing is known: which.
    Release(String),
}

/// Something could not be checked. With `required` this is an error.
pub fn not_judged(what: NotJudged, required: bool) -> Finding {
    let severity = match (required, &what) {
        (true, _) => Severity::Error,
        (false, NotJudged::Release(_)) => Severity::Warning,
        (false, _) => Severity::Info,
    };
    let text = match &what {
        NotJudged::GpusUnknown => {
            "the GPUs of this machine are unknown: GPUs and driver were not checked".to_owned()
        }
        NotJudged::NoGpu => "no NVIDIA GPU found: driver and GPU code were not checked".to_owned(),
        NotJudged::DriverUnknown => "the driver version is unknown: it was not checked".to_owned(),
        NotJudged::DriverBranch(branch, need) => {
            format!("only the branch of driver {branch} is known, and {need} or newer is needed")
        }
        NotJudged::UnknownGpu(gpu) => gpu.to_string(),
        NotJudged::NoManagement(why) => format!("whether the GPUs answer is not known: {why}"),
        NotJudged::ContainerWithoutGpus => super::machine::NO_GPU_GIVEN.to_owned(),
        NotJudged::Note(note) => note.to_string(),
        NotJudged::Libraries(why)
        | NotJudged::HostFile(why)
        | NotJudged::Image(why)
        | NotJudged::Locked(why)
        | NotJudged::Release(why) => why.clone(),
    };
    let found = finding(Code::NotJudged, severity, text);
    match what {
        NotJudged::ContainerWithoutGpus => {
            found.fixed_by(Fix::advice(super::machine::GIVE_THE_CONTAINER_GPUS))
        }
        _ => found,
    }
}

/// The machine changed since the lock was made: one fact, then and now.
pub fn drift(change: impl Into<String>) -> Finding {
    finding(Code::Drift, Severity::Info, change)
}
