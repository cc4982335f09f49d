//! Why a request has no solution, and which changes resolve it.

use crate::model::count::Count;
use std::collections::BTreeMap;
use std::fmt;

use pep440_rs::Version;
use serde::{Serialize, Serializer};

use super::capability::ComputeCapability;
use super::level::Level;
use super::request::{Origin, UserRequirement};
use super::text::clean;
use super::version::DottedVersion;
use super::wheel::Python;

/// Why there is no solution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// The headline.
    #[serde(skip)]
    pub headline: String,
    /// The target without a solution.
    pub target: String,
    /// Two to seven facts.
    pub reasons: Vec<Reason>,
    /// Changes that were solved and work, with the other causes out of the way.
    pub would_work_if: Vec<WayOut>,
    /// The other causes, each of which excludes a solution by itself. They have no further ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Conflict>,
    /// Changes that were solved and remove every cause, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resolves_all: Vec<WayOut>,
    /// The other targets that the compatibility data alone refuse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_targets: Vec<RefusedTarget>,
    /// The indexes that did not answer while changes and other causes were looked for: there may be more of both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
    /// Whether the search for changes and other causes ended at its limit: there may be more of both.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// What counts as a fault in it only because it is not known.
    #[serde(skip)]
    pub not_known: NotKnown,
}

/// A target without a solution, beside the one that a conflict explains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RefusedTarget {
    /// Its name.
    pub target: String,
    /// The headline of its own conflict.
    pub headline: String,
}

/// What is not known of the builds that a proof excludes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotKnown {
    /// For which GPUs the code of one is.
    pub code: bool,
    /// Which driver the CUDA of one needs.
    pub driver: bool,
}

/// A component that a fact is about, or that a change affects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The NVIDIA driver.
    Driver,
    /// A GPU.
    Gpu,
    /// The C library.
    Glibc,
    /// Operating system and processor architecture.
    Platform,
    /// The Python series.
    Python,
    /// The CUDA release of a build.
    Cuda,
    /// cuDNN.
    Cudnn,
    /// NCCL.
    Nccl,
    /// The pinned CUDA variant.
    Variant,
    /// The index that packages come from.
    Index,
    /// A package, by normalized name.
    Package(String),
}

impl Party {
    /// The party of a package.
    pub fn package(name: impl Into<String>) -> Party {
        Party::Package(name.into())
    }

    /// Whether it is part of the machine, including its Python.
    pub fn is_machine_fact(&self) -> bool {
        matches!(self, Party::Driver | Party::Gpu | Party::Glibc | Party::Platform | Party::Python)
    }

    /// The stable name in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Party::Driver => "driver",
            Party::Gpu => "gpu",
            Party::Glibc => "glibc",
            Party::Platform => "platform",
            Party::Python => "python",
            Party::Cuda => "cuda",
            Party::Cudnn => "cudnn",
            Party::Nccl => "nccl",
            Party::Variant => "variant",
            Party::Index => "index",
            Party::Package(name) => name,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Party {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One fact of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The kind of fact.
    #[serde(skip)]
    pub kind: ReasonKind,
    /// One sentence.
    pub text: String,
    /// The parties that the fact is about.
    pub parties: Vec<Party>,
    /// The source of the fact.
    pub source: String,
}

/// The kind of a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasonKind {
    /// A fact about builds, packages or the machine, independent of the request.
    Fact,
    /// The available releases of a package.
    Available,
    /// The index has no package of this name.
    NoProject {
        /// A known package of nearly the same name.
        nearest: Option<String>,
        /// The command with that name, as a line for a shell.
        command: Option<String>,
    },
    /// The requirements of a package that exists only as source cannot be known.
    UnknownMetadata {
        /// The package.
        package: String,
    },
    /// Packages exist only as stubs, which name the index that has them.
    Stub {
        /// The packages.
        packages: Vec<String>,
        /// The URL of the index.
        index: String,
    },
    /// A part of the request.
    Asked {
        /// Where it was written.
        origin: Origin,
        /// Whether it has an upper bound.
        bounds_above: bool,
    },
}

/// A change that was solved and works.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WayOut {
    /// The change.
    pub change: Change,
    /// The party that has to change.
    pub party: Party,
    /// How much of the graph was solved.
    pub level: Level,
    /// The resulting stack.
    pub stack: BTreeMap<String, String>,
    /// The resulting release of the party, if the party is a package.
    #[serde(skip)]
    pub release: Option<Version>,
    /// The environment variable setting that makes the change, if there is one.
    pub set: Option<String>,
    /// The command of envlock that makes the change, as a line for a shell, if there is one.
    pub command: Option<String>,
    /// The edit of a file that makes it, where no command does: `in requirements.txt: torch==2.8.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<String>,
    /// A short summary of the result.
    #[serde(skip)]
    pub gives: String,
    /// It is offered only because another version of the package is not known to work yet. Where the search ends before
    /// that is known, it is no answer.
    #[serde(skip)]
    pub is_provisional: bool,
    /// A requested package is far behind its newest release in it: it is solved, and seldom what is meant.
    #[serde(skip)]
    pub is_far_behind: bool,
    /// A requested framework has no CUDA in it, though the machine has a GPU.
    #[serde(skip)]
    pub is_less: bool,
    /// Another target has no solution with it: no command makes it for all.
    #[serde(skip)]
    pub is_of_one_target: bool,
    /// The index of the stack's build: `pypi`, `pytorch/cu126`.
    #[serde(skip)]
    pub index: Option<String>,
}

impl Reason {
    /// A fact: of its parties and its source nothing is said yet.
    pub fn fact(text: impl Into<String>) -> Reason {
        Reason::new(ReasonKind::Fact, text)
    }

    /// A reason of a kind.
    pub fn new(kind: ReasonKind, text: impl Into<String>) -> Reason {
        Reason { kind, text: text.into(), parties: Vec::new(), source: String::new() }
    }

    /// A part of the request, which is its own source. `bounds_above`: whether it has an upper bound.
    pub fn asked(origin: &Origin, bounds_above: bool, text: impl Into<String>) -> Reason {
        Reason::new(ReasonKind::Asked { origin: origin.clone(), bounds_above }, text).by(origin.to_string())
    }

    /// The same about these parties.
    pub fn about(mut self, parties: impl IntoIterator<Item = Party>) -> Reason {
        self.parties.extend(parties);
        self
    }

    /// The same about a package.
    pub fn about_package(self, name: impl Into<String>) -> Reason {
        self.about([Party::package(name)])
    }

    /// The same with its source.
    pub fn by(mut self, source: impl Into<String>) -> Reason {
        self.source = source.into();
        self
    }
}

impl WayOut {
    /// A change of a party that was solved, and what it gives in words.
    pub fn new(change: Change, party: Party, level: Level, gives: impl Into<String>) -> WayOut {
        WayOut {
            change,
            party,
            level,
            stack: BTreeMap::new(),
            release: None,
            set: None,
            command: None,
            edit: None,
            gives: gives.into(),
            is_provisional: false,
            is_far_behind: false,
            is_less: false,
            is_of_one_target: false,
            index: None,
        }
    }

    /// The same with a part of the stack that it gives: `torch`, `2.9.1`.
    pub fn with(mut self, parts: impl IntoIterator<Item = (String, String)>) -> WayOut {
        self.stack.extend(parts);
        self
    }
}

impl Conflict {
    /// A conflict, in one line. Its reasons and the ways out of it follow.
    pub fn of(headline: impl Into<String>) -> Conflict {
        Conflict {
            headline: headline.into(),
            target: "default".to_owned(),
            reasons: Vec::new(),
            would_work_if: Vec::new(),
            also: Vec::new(),
            resolves_all: Vec::new(),
            other_targets: Vec::new(),
            silent: Vec::new(),
            cut: false,
            not_known: NotKnown::default(),
        }
    }

    /// The same with more reasons.
    pub fn because(mut self, reasons: impl IntoIterator<Item = Reason>) -> Conflict {
        self.reasons.extend(reasons);
        self
    }

    /// The same with more ways out, each of which was solved.
    pub fn with_ways(mut self, ways: impl IntoIterator<Item = WayOut>) -> Conflict {
        self.would_work_if.extend(ways);
        self
    }

    /// What is not known of it and of the other causes.
    pub fn all_not_known(&self) -> NotKnown {
        let all = std::iter::once(self).chain(&self.also).map(|conflict| conflict.not_known);
        all.fold(NotKnown::default(), |a, b| NotKnown {
            code: a.code || b.code,
            driver: a.driver || b.driver,
        })
    }

    /// Leaves out all ways out.
    pub fn forget_ways(&mut self) {
        self.would_work_if.clear();
        self.resolves_all.clear();
        self.also.iter_mut().for_each(Conflict::forget_ways);
    }

    /// Takes over the ways out of another conflict about the same request: those of all of it, and those of each cause that both
    /// have.
    pub fn take_ways_of(&mut self, mut other: Conflict) {
        let of_all = match other.also.is_empty() {
            true => std::mem::take(&mut other.would_work_if),
            false => std::mem::take(&mut other.resolves_all),
        };
        if self.also.is_empty() {
            self.would_work_if = of_all;
            return;
        }
        self.resolves_all = of_all;
        let mut known = std::mem::take(&mut other.also);
        known.push(other);
        let ways_of = |reasons: &[Reason]| -> Vec<WayOut> {
            let same = known.iter().find(|cause| asked(&cause.reasons) == asked(reasons));
            same.map(|cause| cause.would_work_if.clone()).unwrap_or_default()
        };
        self.would_work_if = ways_of(&self.reasons);
        for cause in &mut self.also {
            cause.would_work_if = ways_of(&cause.reasons);
        }
    }

    /// Whether the system or its Python has a part in it, beside the GPUs and the driver.
    pub fn involves_system(&self) -> bool {
        let is_of_system = |party: &Party| matches!(party, Party::Python | Party::Glibc | Party::Platform);
        self.reasons.iter().flat_map(|reason| &reason.parties).any(is_of_system)
    }

    /// Whether a change is known that resolves all of it.
    pub fn has_way_out(&self) -> bool {
        let ways = if self.also.is_empty() { &self.would_work_if } else { &self.resolves_all };
        ways.iter().any(|way| !way.is_provisional)
    }

    /// The same after a search that ended at its limit.
    pub fn cut(mut self) -> Conflict {
        self.would_work_if.retain(|way| !way.is_provisional);
        self.also = self.also.into_iter().map(Conflict::cut).collect();
        self.cut = true;
        self
    }
}

/// What the user asked for that a conflict rests on.
fn asked(reasons: &[Reason]) -> Vec<&str> {
    let is_asked = |reason: &&Reason| matches!(reason.kind, ReasonKind::Asked { .. });
    reasons.iter().filter(is_asked).map(|reason| reason.text.as_str()).collect()
}

/// One change of the machine or of the request.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A driver of at least this version.
    Driver(DottedVersion),
    /// A cuda-compat package on a kernel driver of this branch.
    CudaCompat {
        /// `cuda-compat-12-4`.
        package: String,
        /// The kernel driver's branch.
        branch: u32,
    },
    /// A lower release of a package.
    Below {
        /// The package.
        package: String,
        /// The first release that does not work.
        version: Version,
    },
    /// Another release of a package.
    Release {
        /// The package.
        package: String,
        /// The release that works.
        version: Version,
    },
    /// Another series of a package's releases.
    Series {
        /// The package.
        package: String,
        /// The series: `2.9.*`.
        releases: String,
    },
    /// A package with other extras.
    Extras {
        /// The package.
        package: String,
        /// The extras.
        extras: Vec<String>,
    },
    /// A package without one of its extras.
    WithoutExtra {
        /// The package.
        package: String,
        /// The extra.
        extra: String,
    },
    /// The request without a package.
    WithoutRequest(String),
    /// The request without a constraint.
    WithoutConstraint(Box<UserRequirement>),
    /// The request without an override, as written.
    WithoutOverride(String),
    /// Source distributions are built: without `--no-sources` and `sources = false`.
    AllowSources,
    /// The request without a limit on the stack: `cuda`, `>=12.6`.
    WithoutLimit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        value: String,
    },
    /// A CUDA variant.
    Variant(String),
    /// Any CUDA variant but one.
    OtherVariant(String),
    /// Minor-version compatibility is allowed: `driver-policy = "minor"`.
    AllowCompatibilityMode,
    /// A Python series.
    Python(Python),
    /// Packages from more indexes, by name.
    AllowIndexes(Vec<String>),
    /// A package from PyPI, and not from conda.
    FromPypi(String),
    /// A conda package from another channel than the first that has it.
    FromChannel {
        /// The channel: `conda-forge`.
        channel: String,
        /// The match spec without it: `foo >2`.
        spec: String,
    },
    /// torch and its companions from a conda channel, or from PyPI: `source = "conda-forge"`.
    StackFrom(String),
    /// Only some of the machine's GPUs.
    OnlyGpus {
        /// NVML indexes.
        indexes: Vec<u32>,
        /// Their labels.
        labels: Vec<String>,
    },
    /// A GPU with another compute capability: those that work, in order. A range would include some that do not.
    OtherGpu(Vec<ComputeCapability>),
    /// A glibc of at least this version.
    Glibc(DottedVersion),
    /// Several changes: with one of them less there is no solution.
    Together(Vec<Change>),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Driver(floor) => write!(f, "driver >= {floor}"),
            Change::CudaCompat { package, branch } => write!(f, "{package} on driver {branch}"),
            Change::Below { package, version } => write!(f, "{package} <{version}"),
            Change::Release { package, version } => write!(f, "{package} {version}"),
            Change::Series { package, releases } => write!(f, "{package} {releases}"),
            Change::Extras { package, extras } => write!(f, "{package}[{}]", extras.join(",")),
            Change::WithoutExtra { package, extra } => write!(f, "{package} without [{extra}]"),
            Change::WithoutRequest(package) => write!(f, "without {package}"),
            Change::WithoutConstraint(bound) => {
                write!(f, "without the constraint {}", clean(&bound.requirement.to_string(), 60))
            }
            Change::WithoutOverride(text) => write!(f, "without the override {text}"),
            Change::AllowSources => f.write_str("with builds from source"),
            Change::WithoutLimit { what, value } => write!(f, "without {what} {value}"),
            Change::Variant(name) => write!(f, "variant {name}"),
            Change::OtherVariant(name) => write!(f, "a variant other than {name}"),
            Change::AllowCompatibilityMode => f.write_str("driver-policy = \"minor\""),
            Change::Python(python) => write!(f, "Python {python}"),
            Change::AllowIndexes(names) => write!(f, "allow the {} index", names.join(" and ")),
            Change::FromPypi(package) => write!(f, "{package} from PyPI, not conda"),
            Change::FromChannel { channel, spec } => write!(f, "{channel}::{spec}"),
            Change::StackFrom(channel) => write!(f, "source = \"{channel}\""),
            Change::OnlyGpus { indexes, labels } => {
                let s = Count(indexes.len()).s();
                let numbers: Vec<String> = indexes.iter().map(ToString::to_string).collect();
                write!(f, "GPU{s} {} alone ({})", numbers.join(", "), labels.join(", "))
            }
            Change::OtherGpu(capabilities) => {
                let all: Vec<String> = capabilities.iter().map(ToString::to_string).collect();
                write!(f, "a GPU with compute capability {}", all.join(", "))
            }
            Change::Glibc(floor) => write!(f, "glibc >= {floor}"),
            Change::Together(changes) => {
                for (i, change) in changes.iter().enumerate() {
                    let before = match i {
                        0 => "",
                        _ if i + 1 == changes.len() => " and ",
                        _ => ", ",
                    };
                    write!(f, "{before}{change}")?;
                }
                Ok(())
            }
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(asked: &str, ways: &[&str]) -> Conflict {
        let origin = Origin::CommandLine;
        let ways = ways.iter().map(|name| {
            let change = Change::WithoutRequest((*name).to_owned());
            WayOut::new(change, Party::package(*name), Level::Full, "")
        });
        Conflict::of("no").because([Reason::asked(&origin, false, asked)]).with_ways(ways)
    }

    #[test]
    fn ways_of_the_same_causes_are_taken_over() {
        let named = |ways: &[WayOut]| ways.iter().map(|way| way.party.to_string()).collect::<Vec<_>>();
        let known = Conflict {
            also: vec![conflict("b", &["y"])],
            resolves_all: conflict("", &["all"]).would_work_if,
            ..conflict("a", &["x"])
        };
        // In another order, and with one that the other does not have.
        let mut own = Conflict { also: vec![conflict("a", &[]), conflict("c", &[])], ..conflict("b", &[]) };
        own.take_ways_of(known.clone());
        assert_eq!(named(&own.would_work_if), ["y"]);
        assert_eq!(named(&own.also[0].would_work_if), ["x"]);
        assert_eq!(named(&own.also[1].would_work_if), [""; 0]);
        assert_eq!(named(&own.resolves_all), ["all"]);
        let mut one = conflict("a", &[]);
        one.take_ways_of(known);
        assert_eq!(named(&one.would_work_if), ["all"]);
    }
}
