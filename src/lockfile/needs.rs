//! What a lock requires of the machine and of CUDA (`why driver`, `gpu`, `cuda`, `cudnn`, `nccl`, `glibc`, `python`): facts from the lock
//! and the registry, each with its source.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Target, needed_by};
use crate::compatibility::{Policy, cuda_runtime, required_driver};
use crate::model::capability::Via;
use crate::model::conda::{CUDNN, NCCL, machine_spec, name_of_spec};
use crate::model::host::Host;
use crate::model::nvidia::{is_cuda_runtime, is_cudnn};
use crate::model::solution::{ChosenPackage, Coverage};
use crate::model::source::CondaPackage;
use crate::model::version::{DottedVersion, cuda_short};
use crate::model::wheel::WheelName;
use crate::registry::conda_builds::CondaBuildOf;
use crate::registry::{Build, Cited, Registry};

/// The parts that a lock can require something of: the subjects of `why` that are not packages.
pub const MACHINE_PARTS: [&str; 7] = ["driver", "gpu", "cuda", "cudnn", "nccl", "glibc", "python"];

/// conda's names of the CUDA runtime: from CUDA 12 on, and before.
const CUDA_RUNTIME: [&str; 2] = ["cuda-cudart", "cudatoolkit"];

/// At most this many packages with the same requirement are listed.
const NAMED: usize = 4;

/// What a lock requires of a part of the machine.
#[derive(Debug, Serialize)]
pub struct MachineNeed {
    /// The part: `driver`.
    pub name: String,
    /// What the lock has or requires of it: `driver >= 525.60.13`; `None` if nothing requires it.
    pub needs: Option<String>,
    /// The reasons, one sentence each.
    pub reasons: Vec<Because>,
}

/// The kind of a fact. `--json` has the words of the first release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum NeedKind {
    /// A build or package that requires it.
    #[serde(rename = "needed by")]
    RequiredBy,
    /// A limit of a GPU on the driver.
    #[serde(rename = "gpu")]
    Gpu,
    /// What the machine has.
    #[serde(rename = "machine")]
    Machine,
    /// GPU code in a build or package.
    #[serde(rename = "code")]
    Code,
    /// A package that contains it.
    #[serde(rename = "brought by")]
    ProvidedBy,
    /// What it requires in turn.
    #[serde(rename = "asks for")]
    Requires,
    /// The version that a build was made with.
    #[serde(rename = "built with")]
    BuiltWith,
    /// What the locked version supports.
    #[serde(rename = "serves")]
    Supports,
    /// The user's own limit.
    #[serde(rename = "asked")]
    Requested,
    /// Whether a newer one is possible.
    #[serde(rename = "newer")]
    Newer,
}

impl NeedKind {
    /// The label of the line.
    pub fn label(self) -> &'static str {
        match self {
            NeedKind::RequiredBy => "required by",
            NeedKind::Gpu => "gpu",
            NeedKind::Machine => "machine",
            NeedKind::Code => "code",
            NeedKind::ProvidedBy => "provided by",
            NeedKind::Requires => "requires",
            NeedKind::BuiltWith => "built with",
            NeedKind::Supports => "supports",
            NeedKind::Requested => "requested",
            NeedKind::Newer => "newer",
        }
    }
}

/// One fact.
#[derive(Debug, Serialize)]
pub struct Because {
    /// The kind of fact.
    pub kind: NeedKind,
    /// The sentence.
    pub text: String,
    /// The source, if it is not the lock.
    pub source: Option<String>,
}

/// A build that uses CUDA: of torch or of another framework.
struct User<'t> {
    /// `torch 2.9.1+cu128`.
    name: String,
    cuda: Cow<'t, semver::Version>,
    cudnn: Option<&'t DottedVersion>,
    nccl: Option<&'t DottedVersion>,
    native: Option<&'t DottedVersion>,
    from_system: bool,
    /// It is the CUDA runtime itself.
    is_runtime: bool,
}

fn users<'t>(target: &'t Target, registry: &Registry) -> Vec<User<'t>> {
    let torch = target.stack.iter().filter_map(|stack| {
        Some(User {
            name: format!("{} {}+{}", stack.framework, stack.version, stack.variant),
            cuda: Cow::Borrowed(stack.cuda.as_ref()?),
            cudnn: stack.cudnn.as_ref(),
            nccl: stack.nccl.as_ref(),
            native: stack.native_driver.as_ref(),
            from_system: false,
            is_runtime: false,
        })
    });
    let others = target.frameworks.iter().map(|framework| User {
        name: format!("{} {}", framework.package, framework.version),
        cuda: Cow::Borrowed(&framework.cuda),
        cudnn: framework.cudnn.as_ref(),
        nccl: None,
        native: framework.native_driver.as_ref(),
        from_system: framework.cuda_from_system,
        is_runtime: false,
    });
    let mut users: Vec<User<'_>> = torch.chain(others).collect();
    if users.is_empty()
        && let Some((package, cuda)) = cuda_runtime(registry, &target.packages)
    {
        let name = format!("{} {}", package.name, package.version);
        users.push(User {
            name,
            cuda: Cow::Owned(cuda),
            cudnn: None,
            nccl: None,
            native: None,
            from_system: false,
            is_runtime: true,
        });
    }
    users
}

/// What the lock requires of a subject, which is one of [`MACHINE_PARTS`].
pub fn machine_need(name: &str, target: &Target, host: &Host, registry: &Registry) -> MachineNeed {
    let asked = Asked { target, host, registry, users: users(target, registry) };
    let told = match name {
        "driver" => asked.driver(),
        "gpu" => asked.gpu(),
        "cuda" => asked.cuda(),
        "cudnn" => asked.cudnn(),
        "nccl" => asked.library("NCCL", "nvidia-nccl-cu", &[NCCL], |user| user.nccl.map(ToString::to_string)),
        "glibc" => asked.glibc(),
        "python" => Some(asked.python()),
        _ => None,
    };
    let (needs, reasons) = told.unzip();
    MachineNeed { name: name.to_owned(), needs, reasons: reasons.unwrap_or_default() }
}

struct Asked<'a> {
    target: &'a Target,
    host: &'a Host,
    registry: &'a Registry,
    users: Vec<User<'a>>,
}

type Told = Option<(String, Vec<Because>)>;

impl Asked<'_> {
    fn driver(&self) -> Told {
        let lowest = self.target.envelope.driver.as_ref()?;
        let os = self.target.platform.os;
        let mut out = Vec::new();
        for user in &self.users {
            let cuda = cuda_short(&user.cuda);
            let Some(driver) = required_driver(self.registry, &user.cuda, os, Policy::Minor) else {
                continue;
            };
            let (floor, source) = (driver.value, driver.source);
            let text = match user.native {
                Some(native) if *native > floor => format!(
                    "{} is built with CUDA {cuda}: machine code of CUDA {} needs driver >= {floor} (minor-version compatibility), PTX of CUDA {cuda} needs driver >= {native}",
                    user.name, user.cuda.major
                ),
                _ => format!(
                    "{} is {} CUDA {cuda}, which needs driver >= {floor}",
                    user.name,
                    if user.is_runtime { "the runtime of" } else { "built with" }
                ),
            };
            out.push(self.sourced(NeedKind::RequiredBy, text, source));
        }
        out.extend(self.of_virtual("__cuda", |at_least| at_least.is_some()));
        let mut by_need: BTreeMap<&DottedVersion, Vec<String>> = BTreeMap::new();
        let mut ends: BTreeMap<&DottedVersion, Vec<String>> = BTreeMap::new();
        for row in &self.target.envelope.coverage {
            let capability = row.compute_capability.to_string();
            if let Some(min) = row.driver_min.as_ref().filter(|min| *min > lowest) {
                by_need.entry(min).or_default().push(capability.clone());
            }
            if let Some(below) = &row.driver_below {
                ends.entry(below).or_default().push(capability);
            }
        }
        for (driver, gpus) in by_need {
            out.push(plain(NeedKind::Gpu, format!("{}: needs driver >= {driver}", listed(&gpus))));
        }
        for (driver, gpus) in ends {
            out.push(plain(
                NeedKind::Gpu,
                format!("{}: needs driver < {driver}, which no longer supports it", listed(&gpus)),
            ));
        }
        if let Some(driver) = &self.host.driver {
            let version = driver.user_mode();
            let native = self.users.iter().filter_map(|user| user.native).max();
            let mode = match native {
                _ if version < lowest => ": too old",
                Some(native) if version < native => ": machine code runs, PTX of that CUDA does not",
                Some(_) => ": machine code and PTX run",
                None => "",
            };
            // A table of the manifest has brackets of its own.
            let found_by = driver.found_by.to_string();
            let found_by = found_by.trim_start_matches('[').trim_end_matches(']');
            out.push(plain(NeedKind::Machine, format!("driver {version} [{found_by}]{mode}")));
        }
        Some((format!("driver >= {lowest}"), out))
    }

    fn gpu(&self) -> Told {
        let coverage = &self.target.envelope.coverage;
        if coverage.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        for gpu in self.host.gpus.iter().flatten() {
            let Some(capability) = gpu.capability else { continue };
            let row = coverage.iter().find(|row| row.compute_capability == capability);
            out.push(plain(
                NeedKind::Machine,
                format!("{}: {}", gpu.label(), row.map_or("not supported".to_owned(), Coverage::support)),
            ));
        }
        // A full lock has the targets in its package; a stack-only lock has no packages.
        let in_lock = self.target.package("torch").is_some_and(|package| package.targets.is_some());
        if let Some(build) = self.torch_build().filter(|_| !in_lock)
            && let Some(targets) = &build.targets
        {
            let text = format!("torch {}+{} has code for {}", build.version, build.variant, targets);
            out.push(plain(NeedKind::Code, text));
        }
        for package in &self.target.packages {
            if let Some((targets, evidence)) = &package.targets {
                let of = package.version_with_variant();
                out.push(plain(
                    NeedKind::Code,
                    format!("{} {of} has code for {targets} ({evidence})", package.name),
                ));
            }
        }
        let ptx: Vec<String> = coverage
            .iter()
            .filter(|row| row.via == Via::Ptx)
            .map(|row| row.compute_capability.to_string())
            .collect();
        if !ptx.is_empty() {
            out.push(plain(
                NeedKind::Code,
                format!("{}: through PTX, which the driver compiles at first use", listed(&ptx)),
            ));
        }
        out.extend(self.cudnn_floor());
        let all: Vec<String> = coverage.iter().map(|row| row.compute_capability.to_string()).collect();
        Some((format!("compute capability {}", all.join(", ")), out))
    }

    fn cuda(&self) -> Told {
        if self.users.is_empty() {
            let records = self.of_virtual("__cuda", |at_least| at_least.is_some());
            return (!records.is_empty()).then(|| ("a driver for CUDA".to_owned(), records));
        }
        let mut versions: Vec<String> = self.users.iter().map(|user| cuda_short(&user.cuda)).collect();
        versions.dedup();
        let mut out = Vec::new();
        for user in self.users.iter().filter(|user| !user.is_runtime) {
            let text = match user.from_system {
                true => format!(
                    "{} is built with it, but no package contains it: it must be installed on the machine",
                    user.name
                ),
                false => format!("{} is built with it", user.name),
            };
            out.push(plain(NeedKind::RequiredBy, text));
        }
        // The runtime in these wheels is loaded, not the one of a toolkit.
        for package in self.packages(is_cuda_runtime) {
            out.push(plain(NeedKind::ProvidedBy, format!("{} {}", package.name, package.version)));
        }
        for record in CUDA_RUNTIME.iter().filter_map(|name| self.conda(name)) {
            let text = format!("{} {} of {}", record.name, record.version, record.channel);
            out.push(plain(NeedKind::ProvidedBy, text));
        }
        for user in &self.users {
            let os = self.target.platform.os;
            if let Some(driver) = required_driver(self.registry, &user.cuda, os, Policy::Minor) {
                let (floor, source) = (driver.value, driver.source);
                out.push(self.sourced(
                    NeedKind::Requires,
                    format!("driver >= {floor}, for CUDA {}", cuda_short(&user.cuda)),
                    source,
                ));
            }
        }
        Some((format!("CUDA {}", versions.join(" and ")), out))
    }

    /// `shown`: cuDNN. `wheels`: what the names of PyPI's packages of it begin with. `of_conda`: its names in channels.
    fn library(
        &self,
        shown: &str,
        wheels: &str,
        of_conda: &[&str],
        built_with: impl Fn(&User<'_>) -> Option<String>,
    ) -> Told {
        let packages: Vec<&ChosenPackage> = self.packages(|name| name.starts_with(wheels)).collect();
        let mut records = of_conda.iter().filter_map(|name| self.conda(name));
        let record = records.next();
        let locked = packages.first().map(|package| package.version.to_string());
        let version = locked
            .or_else(|| record.map(|record| record.version.clone()))
            .or_else(|| self.users.iter().find_map(&built_with))?;
        let mut out = Vec::new();
        for package in &packages {
            for (from, edge) in needed_by(self.target, &package.name) {
                let of = self.target.package(from).map(|p| p.version_with_variant()).unwrap_or_default();
                out.push(plain(NeedKind::RequiredBy, format!("{from} {of} requires {}", edge.requirement)));
            }
        }
        if let Some(record) = record {
            let specs =
                self.target.conda.iter().flat_map(|from| from.depends.iter().map(move |spec| (from, spec)));
            for (from, spec) in specs.filter(|(_, spec)| name_of_spec(spec) == record.name).take(NAMED) {
                out.push(plain(
                    NeedKind::RequiredBy,
                    format!("{} {} requires {spec}", from.name, from.version),
                ));
            }
            let text = format!("{} {} of {}", record.name, record.version, record.channel);
            out.push(plain(NeedKind::ProvidedBy, text));
        }
        let is_brought = !packages.is_empty() || record.is_some();
        for user in &self.users {
            let Some(built) = built_with(user).filter(|built| !is_brought || *built != version) else {
                continue;
            };
            let kind = if is_brought { NeedKind::BuiltWith } else { NeedKind::RequiredBy };
            out.push(plain(kind, format!("{} was built with {built}", user.name)));
        }
        Some((format!("{shown} {version}"), out))
    }

    fn cudnn(&self) -> Told {
        let built_with = |user: &User<'_>| user.cudnn.map(ToString::to_string);
        let (needs, mut out) = self.library("cuDNN", "nvidia-cudnn-cu", &CUDNN, built_with)?;
        out.extend(self.cudnn_floor());
        Some((needs, out))
    }

    /// The packages of conda that require a virtual package in a version: `libcublas 12.9.1 requires __glibc >=2.28,<3.0.a0`.
    fn of_virtual(&self, name: &str, is_told: impl Fn(Option<&DottedVersion>) -> bool) -> Vec<Because> {
        let is_one = |spec: &&String| {
            let read = machine_spec(spec).filter(|spec| spec.name == name);
            read.is_some_and(|spec| is_told(spec.at_least.as_ref()))
        };
        let told = |package: &CondaPackage| {
            let spec = package.depends.iter().chain(&package.constrains).find(is_one)?;
            Some(plain(NeedKind::RequiredBy, format!("{} {} requires {spec}", package.name, package.version)))
        };
        self.target.conda.iter().filter_map(told).take(NAMED).collect()
    }

    /// The locked package of conda with a name.
    fn conda(&self, name: &str) -> Option<&CondaPackage> {
        self.target.conda.iter().find(|package| package.name == name)
    }

    fn glibc(&self) -> Told {
        let floor = self.target.envelope.glibc.as_ref()?;
        let platform = self.target.platform;
        let asking = self.target.packages.iter().filter(|package| {
            let wheel = package.files.first().and_then(|file| file.name.parse::<WheelName>().ok());
            wheel.and_then(|wheel| wheel.libc_need(platform, None)).flatten().as_ref() == Some(floor)
        });
        let names: Vec<String> = asking.map(|p| format!("{} {}", p.name, p.version)).collect();
        let mut out = Vec::new();
        out.extend(self.of_virtual("__glibc", |at_least| at_least == Some(floor)));
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMED);
            let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
            let [major, minor] = [floor.as_str().split('.').next(), floor.as_str().split('.').nth(1)];
            let tag = format!("manylinux_{}_{}", major.unwrap_or_default(), minor.unwrap_or_default());
            out.push(plain(NeedKind::RequiredBy, format!("the wheels of {shown}{tail}, tagged {tag}")));
        } else if let Some(build) = self.torch_build().filter(|_| self.target.conda.is_empty()) {
            out.push(plain(
                NeedKind::RequiredBy,
                format!("the wheel of torch {}+{}", build.version, build.variant),
            ));
        }
        if let Some(libc) = &self.host.system.libc {
            out.push(plain(NeedKind::Machine, libc.to_string()));
        }
        Some((format!("glibc >= {floor}"), out))
    }

    fn python(&self) -> (String, Vec<Because>) {
        let python = self.target.python;
        // Wheels of the stable ABI are for this series and later ones.
        let only = |package: &&ChosenPackage| {
            let wheels: Vec<WheelName> =
                package.files.iter().filter_map(|file| file.name.parse().ok()).collect();
            wheels.iter().any(|wheel| wheel.accepts_python(python.minor).is_some())
                && !wheels.iter().any(|wheel| wheel.accepts_python(python.minor + 1).is_some())
        };
        let names: Vec<String> =
            self.target.packages.iter().filter(only).map(|p| format!("{} {}", p.name, p.version)).collect();
        let more = names.len().saturating_sub(NAMED);
        let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        let reason = format!("the locked wheels of {shown}{tail}, which are for Python {python} alone");
        let reasons = (!names.is_empty()).then(|| plain(NeedKind::RequiredBy, reason));
        (format!("python {python}"), reasons.into_iter().collect())
    }

    /// The GPUs that the locked cuDNN supports, or the one that a framework was built with.
    fn cudnn_floor(&self) -> Option<Because> {
        let locked = self.packages(is_cudnn).next();
        let version: DottedVersion = match locked {
            Some(package) => DottedVersion::of_release(&package.version)?,
            None => self.users.iter().find_map(|user| user.cudnn)?.clone(),
        };
        let floor = self.registry.cudnn_floor(&version)?;
        let text = format!("cuDNN {version} supports compute capability >= {}", floor.min);
        Some(self.sourced(NeedKind::Supports, text, &floor.source))
    }

    /// The build of torch: of a channel or of an index, whichever it is locked from.
    fn torch_build(&self) -> Option<Cow<'_, Cited<Build>>> {
        let (stack, platform) = (self.target.stack.as_ref()?, self.target.platform);
        let Some(record) = self.target.pytorch_of_conda() else {
            return self.registry.build(&stack.version, &stack.variant, platform).map(Cow::Borrowed);
        };
        match self.registry.build_of_conda(record, platform) {
            CondaBuildOf::Known(build) => Some(Cow::Owned(*build)),
            CondaBuildOf::UnknownCode | CondaBuildOf::Other => None,
        }
    }

    fn packages<'s>(&'s self, wanted: impl Fn(&str) -> bool + 's) -> impl Iterator<Item = &'s ChosenPackage> {
        self.target.packages.iter().filter(move |package| wanted(&package.name))
    }

    fn sourced(&self, kind: NeedKind, text: String, ids: &[String]) -> Because {
        let source = Some(self.registry.source_text(ids)).filter(|text| !text.is_empty());
        Because { kind, text, source }
    }
}

fn plain(kind: NeedKind, text: String) -> Because {
    Because { kind, text, source: None }
}

fn listed(capabilities: &[String]) -> String {
    format!("compute capability {}", capabilities.join(", "))
}
