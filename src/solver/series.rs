//! What the registry alone says of a framework beside torch: which releases a machine runs, and with which CUDA.
//!
//! The registry knows what series of releases were built for, not which releases there are, nor for which Pythons. So
//! the answer names a series, and there is nothing in it that could be locked.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use version_ranges::Ranges;

use crate::compatibility::{
    CPU, DriverFit, DriverSpan, Needs, Policy, Violation, check_host, envelope_of_framework, required_driver,
};
use crate::model::conflict::{Change, Conflict, Party, Reason, ReasonKind, WayOut};
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::request::{Request, UserRequirement};
use crate::model::solution::{DriverMode, Series};
use crate::model::text::clean;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::{CudaFrom, FrameworkBuild, Registry};

/// Why there is no series to name.
#[derive(Debug, Clone, PartialEq)]
pub enum NoSeries {
    /// The registry has no row for what is asked.
    Unknown {
        /// The requirement as it was written.
        requirement: String,
        /// The series that it has for the platform, newest first.
        known: Vec<String>,
    },
    /// The machine runs none of those that are asked for.
    Conflict(Box<Conflict>),
}

/// For each requirement of a framework beside torch the newest series that the machine runs.
///
/// # Errors
/// The first requirement that no series answers.
pub fn newest_series(registry: &Registry, host: &Host, request: &Request) -> Result<Vec<Series>, NoSeries> {
    let of_frameworks = request.requirements.iter().filter(|user| {
        let name: &str = user.requirement.name.as_ref();
        registry.frameworks().iter().any(|row| is_of(row, name))
    });
    let asked = of_frameworks.map(|user| Asked { registry, host, request, user });
    asked.map(|asked| asked.answer()).collect()
}

/// Whether a row speaks of what a requirement of this name asks for.
fn is_of(row: &FrameworkBuild, name: &str) -> bool {
    row.package == name || ask(row).is_some_and(|ask| ask.name.as_ref() as &str == name)
}

/// How one asks for a row's releases with CUDA, where the bare name is not it.
fn ask(row: &FrameworkBuild) -> Option<Requirement<VerbatimUrl>> {
    row.ask.as_ref()?.parse().ok()
}

/// One requirement of a framework on one machine.
struct Asked<'a> {
    registry: &'a Registry,
    host: &'a Host,
    request: &'a Request,
    user: &'a UserRequirement,
}

impl<'a> Asked<'a> {
    fn name(&self) -> &'a str {
        self.user.requirement.name.as_ref()
    }

    /// The rows of the platform for the extras that are asked for, newest series first.
    fn rows(&self) -> Vec<&'a FrameworkBuild> {
        let platform = self.host.system.platform;
        let of_platform = |row: &&FrameworkBuild| row.platform == platform && is_of(row, self.name());
        let mut rows: Vec<&FrameworkBuild> = self.registry.frameworks().iter().filter(of_platform).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((lowest(&row.versions), row.cuda.clone())));
        rows
    }

    /// Whether a row's releases are what the extras of the requirement bring.
    fn has_extras_of(&self, row: &FrameworkBuild) -> bool {
        let extras = &self.user.requirement.extras;
        ask(row).is_some_and(|ask| !ask.extras.is_empty() && ask.extras.iter().all(|e| extras.contains(e)))
    }

    /// How the requirement has to be written for a row's releases to use CUDA, where it is not written so.
    fn other_ask(&self, row: &FrameworkBuild) -> Option<String> {
        let ask = ask(row)?;
        (ask.name == self.user.requirement.name && !self.has_extras_of(row)).then(|| row.ask.clone())?
    }

    /// The releases that the requirement and the bounds on the package leave. As ranges, which treat local versions
    /// otherwise than PEP 440 does: TensorFlow's and JAX's releases have none.
    fn wanted(&self) -> Ranges<Version> {
        let of_package = |user: &&UserRequirement| user.requirement.name == self.user.requirement.name;
        let bounds = self.request.constraints.iter().filter(of_package);
        let specifiers =
            bounds.chain([self.user]).filter_map(|user| match &user.requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(Ranges::from(specifiers.clone())),
                _ => None,
            });
        specifiers.fold(Ranges::full(), |all, one| all.intersection(&one))
    }

    fn answer(&self) -> Result<Series, NoSeries> {
        let (rows, wanted) = (self.rows(), self.wanted());
        let fits = |row: &&&FrameworkBuild| !Ranges::from(row.versions.clone()).is_disjoint(&wanted);
        let mut asked: Vec<&FrameworkBuild> = rows.iter().filter(fits).copied().collect();
        if asked.iter().any(|row| self.has_extras_of(row)) {
            asked.retain(|row| self.has_extras_of(row));
        }
        let Some(newest) = asked.first() else {
            return Err(NoSeries::Unknown {
                requirement: clean(&self.user.requirement.to_string(), 100),
                known: rows.iter().map(|row| series_name(&row.versions)).collect(),
            });
        };
        match asked.iter().find(|row| self.runs_on(row, self.host)) {
            Some(row) => Ok(self.series(row)),
            None => Err(NoSeries::Conflict(Box::new(self.conflict(newest, &asked, &rows)))),
        }
    }

    /// Whether a CPU is all that the framework is to run on.
    fn for_cpu(&self) -> bool {
        self.host.has_no_gpu() || self.request.variant.as_ref().is_some_and(|v| v.value == CPU)
    }

    fn runs_on(&self, row: &FrameworkBuild, host: &Host) -> bool {
        let policy = Policy::of(self.request);
        self.for_cpu() || Needs::of_framework(row).violations(self.registry, host, policy).is_empty()
    }

    fn series(&self, row: &FrameworkBuild) -> Series {
        let fit = DriverFit::of(self.registry, self.host, Some(&row.cuda), Policy::of(self.request));
        let mode = if fit.native { DriverMode::Native } else { DriverMode::Compatibility };
        let os = self.host.system.platform.os;
        let native = required_driver(self.registry, &row.cuda, os, Policy::Native);
        Series {
            name: row.framework.clone(),
            package: row.package.clone(),
            releases: series_name(&row.versions),
            ask: self.other_ask(row),
            cuda: row.cuda.clone(),
            cudnn: row.cudnn.clone(),
            cuda_from_system: row.cuda_from == CudaFrom::System,
            conda: row.conda.clone(),
            evidence: row.evidence,
            driver_mode: (self.host.driver.is_some() && !self.for_cpu()).then_some(mode),
            native_driver: native.map(|driver| driver.value),
            envelope: envelope_of_framework(self.registry, row),
        }
    }

    /// Why the machine runs none of `asked`, told of the newest of them; the ways out are held against `rows`.
    fn conflict(
        &self,
        newest: &FrameworkBuild,
        asked: &[&FrameworkBuild],
        rows: &[&'a FrameworkBuild],
    ) -> Conflict {
        let name = self.name();
        let series = series_name(&newest.versions);
        let fact = |text: String, parties: &[Party], source: String| Reason {
            kind: ReasonKind::Fact,
            text,
            parties: parties.to_vec(),
            source,
        };
        let own = self.registry.source_text(&newest.source);
        let uses = format!("{} {series} uses CUDA {}", newest.package, cuda_short(&newest.cuda));
        let mut reasons = vec![fact(uses, &[Party::package(&newest.package), Party::Cuda], own)];
        let needs = Needs::of_framework(newest);
        let mut parties: Vec<Party> = Vec::new();
        for violation in needs.violations(self.registry, self.host, Policy::of(self.request)) {
            let (told, party) = self.told(newest, &violation);
            reasons.extend(told.into_iter().map(|(text, parties, source)| fact(text, &parties, source)));
            parties.push(party);
        }
        reasons.dedup_by(|a, b| a.text == b.text);
        if asked.len() > 1 {
            let text = match asked.len() {
                2 => "the older series that is asked for does not run here either".to_owned(),
                n => format!("the {} older series that are asked for do not run here either", n - 1),
            };
            reasons.push(fact(text, &[Party::package(name)], "registry".to_owned()));
        }
        let text = format!("you ask for {}", clean(&self.user.requirement.to_string(), 100));
        reasons.push(Reason {
            kind: ReasonKind::Asked {
                origin: self.user.origin.clone(),
                bounds_above: self.user.bounds_above(),
            },
            text,
            parties: vec![Party::package(name)],
            source: self.user.origin.to_string(),
        });
        let driver = parties.contains(&Party::Driver).then_some(self.host.driver.as_ref()).flatten();
        let gpus: Vec<String> = self.host.gpus.iter().flatten().map(|gpu| gpu.label()).collect();
        let on = match driver {
            Some(driver) => format!("driver {}", driver.version),
            None => gpus.join(" and "),
        };
        Conflict {
            headline: format!("no {} runs on {on}", clean(&self.user.requirement.to_string(), 60)),
            target: "default".to_owned(),
            reasons,
            would_work_if: self.ways_out(asked, rows),
        }
    }

    /// A violation in sentences, and who is at fault.
    #[allow(clippy::type_complexity)]
    fn told(
        &self,
        row: &FrameworkBuild,
        violation: &Violation<'_>,
    ) -> (Vec<(String, Vec<Party>, String)>, Party) {
        let package = Party::package(&row.package);
        let own = || self.registry.source_text(&row.source);
        let name = &row.package;
        let of_gpu = |text: String| (vec![(text, vec![package.clone(), Party::Gpu], own())], Party::Gpu);
        match violation {
            Violation::DriverTooOld(floor, source) => {
                let native = if self.request.native_driver_only.is_some() { " for native mode" } else { "" };
                let cuda = cuda_short(&row.cuda);
                let mut out = Vec::new();
                let Some(driver) = &self.host.driver else { return (out, Party::Driver) };
                if driver.user_mode() < floor {
                    let text = format!("CUDA {cuda} needs driver >= {floor}{native}");
                    out.push((text, vec![Party::Cuda, Party::Driver], self.registry.source_text(source)));
                }
                for gpu in self.host.gpus.iter().flatten() {
                    let Some(capability) = gpu.capability else { continue };
                    let first = DriverSpan::of(self.registry, capability).from;
                    let Some(first) = first.filter(|first| driver.version < *first) else { continue };
                    let branch = first.major();
                    let text =
                        format!("{} is known to drivers from branch {branch} on (inferred)", gpu.label());
                    let architecture = self.registry.architecture(capability);
                    let source =
                        architecture.map(|a| self.registry.source_text(&a.source)).unwrap_or_default();
                    out.push((text, vec![Party::Gpu, Party::Driver], source));
                }
                let text = format!("the driver is {}", driver.user_mode());
                out.push((text, vec![Party::Driver], driver.found_by.to_string()));
                (out, Party::Driver)
            }
            Violation::DriverUnknown(cuda) => {
                let text = format!("which driver CUDA {} needs is not known", cuda_short(cuda));
                (vec![(text, vec![Party::Cuda, Party::Driver], "registry".to_owned())], Party::Driver)
            }
            Violation::NoCode(gpu) => of_gpu(format!("{name} has no code for {}", gpu.label())),
            Violation::CodeUnknown(gpu) => {
                of_gpu(format!("whether {name} has code for {} is not known", gpu.label()))
            }
            Violation::PtxTooNew(gpu) => of_gpu(format!(
                "{name} has only PTX for {}, which needs the driver of its own CUDA",
                gpu.label()
            )),
            Violation::CudnnDropsGpu(gpu, floor, source) => {
                let cudnn = row.cudnn.as_ref().map(ToString::to_string).unwrap_or_default();
                let label = gpu.label();
                let text = format!(
                    "cuDNN {cudnn}, which {name} needs, serves GPUs from {floor} on; {label} is below"
                );
                let parties = vec![Party::Cudnn, Party::Gpu, package];
                (vec![(text, parties, self.registry.source_text(source))], Party::Gpu)
            }
            Violation::NoDriverForGpu(gpu) => of_gpu(format!(
                "every driver for CUDA {} is too new for {}",
                cuda_short(&row.cuda),
                gpu.label()
            )),
            // Rows of other platforms are left out before, and rows are of builds with CUDA and of no known glibc.
            Violation::Platform => (Vec::new(), Party::Platform),
            Violation::CpuBuild => (Vec::new(), Party::Gpu),
            Violation::LibcTooOld(_) => (Vec::new(), Party::Glibc),
        }
    }

    /// The lowest driver with which a series that is asked for runs, and the newest series that runs as it is.
    fn ways_out(&self, asked: &[&FrameworkBuild], rows: &[&'a FrameworkBuild]) -> Vec<WayOut> {
        let mut out = Vec::new();
        let mut offer = |change: Change, party: Party, row: &FrameworkBuild| {
            let (releases, cuda) = (series_name(&row.versions), cuda_short(&row.cuda));
            let gives = format!("{} {releases} with CUDA {cuda}", row.package);
            let stack = [(row.package.clone(), releases), ("cuda".to_owned(), cuda)].into();
            out.push(WayOut { change, party, release: None, level: Level::Stack, stack, gives, set: None });
        };
        if let Some((driver, row)) = self.driver_that_helps(asked) {
            offer(Change::Driver(driver), Party::Driver, row);
        }
        if let Some(row) = rows.iter().find(|row| self.runs_on(row, self.host)) {
            // Where no extras are asked for, none are missing.
            let extras = !self.user.requirement.extras.is_empty();
            let package = self.other_ask(row).filter(|_| extras).unwrap_or_else(|| self.name().to_owned());
            let change = Change::Series { package, releases: series_name(&row.versions) };
            offer(change, Party::package(self.name()), row);
        }
        out
    }

    fn driver_that_helps<'r>(
        &self,
        asked: &[&'r FrameworkBuild],
    ) -> Option<(DottedVersion, &'r FrameworkBuild)> {
        let driver = self.host.driver.as_ref()?;
        let (os, policy) = (self.host.system.platform.os, Policy::of(self.request));
        let floors = asked.iter().flat_map(|row| [policy, Policy::Native].map(|policy| (policy, &row.cuda)));
        let floors = floors.filter_map(|(policy, cuda)| required_driver(self.registry, cuda, os, policy));
        let gpus = self.host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
        let firsts = gpus.filter_map(|capability| DriverSpan::of(self.registry, capability).from);
        let mut drivers: Vec<DottedVersion> = floors.map(|floor| floor.value).chain(firsts).collect();
        drivers.retain(|version| *version > driver.version);
        drivers.sort();
        drivers.dedup();
        drivers.into_iter().find_map(|version| {
            let mut host = self.host.clone();
            let newer = host.driver.as_mut()?;
            newer.version.clone_from(&version);
            newer.cuda = None;
            newer.compat = None;
            check_host(self.registry, &host).ok()?;
            let row = asked.iter().find(|row| self.runs_on(row, &host))?;
            Some((version, *row))
        })
    }
}

/// The lowest release that specifiers name; nothing where they have no lower bound.
fn lowest(specifiers: &VersionSpecifiers) -> Option<Version> {
    specifiers.iter().map(|s| s.version().clone()).min()
}

/// Specifiers as the name of a series: `2.9.*` for `==2.9.*`, `>=0.6, <0.7.1` as they are.
fn series_name(specifiers: &VersionSpecifiers) -> String {
    let text = specifiers.to_string();
    let mut list = specifiers.iter();
    match (list.next(), list.next()) {
        (Some(_), None) => text.trim_start_matches("==").trim().to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::Origin;
    use crate::solver::tests::host;

    /// The series of each requirement with its CUDA and cuDNN, or the parties and ways out of the conflict.
    fn told(asked: &str, gpu: &str, driver: &str) -> String {
        let registry = Registry::embedded();
        let host = host(Some(&[gpu]), Some(driver));
        let requirements =
            vec![UserRequirement { requirement: asked.parse().unwrap(), origin: Origin::CommandLine }];
        let request = Request { requirements, ..Request::default() };
        match newest_series(&registry, &host, &request) {
            Ok(series) => {
                let one = |s: &Series| {
                    let cudnn = s.cudnn.as_ref().map(ToString::to_string).unwrap_or_default();
                    let ask = s.ask.as_ref().map(|ask| format!(" as {ask}")).unwrap_or_default();
                    format!("{} {}: CUDA {}, cuDNN {cudnn}{ask}", s.package, s.releases, cuda_short(&s.cuda))
                };
                series.iter().map(one).collect::<Vec<_>>().join("; ")
            }
            Err(NoSeries::Unknown { requirement, .. }) => format!("unknown: {requirement}"),
            Err(NoSeries::Conflict(conflict)) => {
                let ways: Vec<String> = conflict.would_work_if.iter().map(|w| w.change.to_string()).collect();
                format!("{}; {}", conflict.headline, ways.join(" or "))
            }
        }
    }

    #[test]
    fn the_registry_alone_answers_for_frameworks_beside_torch() {
        let table = [
            ("tensorflow==2.9.*", "T4", "450.80.02", "tensorflow 2.9.*: CUDA 11.2, cuDNN 8.1"),
            ("tensorflow==2.9.1", "T4", "450.80.02", "tensorflow 2.9.*: CUDA 11.2, cuDNN 8.1"),
            ("tensorflow>=2.8,<2.9.2", "T4", "450.80.02", "tensorflow 2.9.*: CUDA 11.2, cuDNN 8.1"),
            (
                "tensorflow==2.9.*",
                "T4",
                "450.36.06",
                "no tensorflow==2.9.* runs on driver 450.36.06; driver >= 450.80.02 or tensorflow 2.3.*",
            ),
            (
                "tensorflow>=2.19,<2.20",
                "T4",
                "550.54.14",
                "tensorflow 2.19.*: CUDA 12.5, cuDNN 9.3 as tensorflow[and-cuda]",
            ),
            (
                "jax[cuda13]",
                "T4",
                "535.54.03",
                "no jax[cuda13] runs on driver 535.54.03; driver >= 580.65.06 or jax[cuda12] >=0.11.2, <0.13",
            ),
            ("tensorflow==1.15", "T4", "450.80.02", "unknown: tensorflow==1.15"),
            ("numpy", "T4", "450.80.02", ""),
        ];
        for (asked, gpu, driver, expected) in table {
            assert_eq!(told(asked, gpu, driver), expected, "{asked} on {gpu} with {driver}");
        }
    }
}
