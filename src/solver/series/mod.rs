//! Answers from the registry alone for frameworks other than torch: which releases run on a machine, and their CUDA.
//!
//! The registry has data for series of releases. It does not list releases or Python versions. So the answer is a
//! series, which cannot be locked.

mod none_runs;

use std::collections::BTreeMap;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, Requirement, VerbatimUrl, VersionOrUrl};
use version_ranges::Ranges;

use crate::compatibility::{DriverFit, Needs, Policy, envelope_of_framework, required_driver};
use crate::model::conflict::Conflict;
use crate::model::host::Host;
use crate::model::marker::marker_environment;
use crate::model::request::{Request, UserRequirement};
use crate::model::solution::{DriverMode, Series};
use crate::model::text::clean;
use crate::model::variant::CPU;
use crate::model::wheel::Python;
use crate::registry::{Cited, CudaFrom, FrameworkBuild, Registry};

/// Why no series was found.
#[derive(Debug, Clone, PartialEq)]
pub enum NoSeries {
    /// The registry has no row for the request.
    Unknown {
        /// The requirement as written.
        requirement: String,
        /// The series in the registry for the platform, newest first.
        known: Vec<String>,
    },
    /// None of the requested series runs on the machine.
    Conflict(Box<Conflict>),
}

/// The newest series that runs on the machine, for each required framework other than torch.
///
/// # Errors
/// The first requirement for which no series runs on the machine or is known.
pub fn newest_series(registry: &Registry, host: &Host, request: &Request) -> Result<Vec<Series>, NoSeries> {
    let platform = host.system.platform;
    let environments: Vec<_> =
        registry.pythons().iter().map(|minor| marker_environment(Python::new(*minor), platform)).collect();
    let mut by_name: BTreeMap<&str, Vec<&UserRequirement>> = BTreeMap::new();
    for user in &request.requirements {
        let name = user.name();
        if applies(user, &environments) && registry.frameworks().iter().any(|row| is_of(row, name)) {
            by_name.entry(name).or_default().push(user);
        }
    }
    let asked = by_name.into_values().map(|users| Asked {
        registry,
        host,
        request,
        environments: &environments,
        users,
    });
    asked.map(|asked| asked.answer()).collect()
}

/// Whether a row is about the package or framework of this name.
fn is_of(row: &Cited<FrameworkBuild>, name: &str) -> bool {
    row.package == name || ask(row).is_some_and(|ask| ask.name.as_ref() as &str == name)
}

/// Whether a requirement's marker holds in any of these environments.
fn applies(user: &UserRequirement, environments: &[MarkerEnvironment]) -> bool {
    environments.iter().any(|environment| user.requirement.evaluate_markers(environment, &[]))
}

/// The requirement that installs a row's releases with CUDA, if it is not the bare name.
fn ask(row: &Cited<FrameworkBuild>) -> Option<Requirement<VerbatimUrl>> {
    row.ask.as_ref()?.parse().ok()
}

/// The requirements on one package, for one machine.
struct Asked<'a> {
    registry: &'a Registry,
    host: &'a Host,
    request: &'a Request,
    /// The marker environment of each Python series on the platform: the Python is not decided here.
    environments: &'a [MarkerEnvironment],
    /// The requirements of the package, at least one.
    users: Vec<&'a UserRequirement>,
}

impl<'a> Asked<'a> {
    fn name(&self) -> &'a str {
        self.users[0].name()
    }

    /// The extras of all requirements.
    fn extras(&self) -> Vec<&'a ExtraName> {
        let mut extras: Vec<_> = self.users.iter().flat_map(|user| &user.requirement.extras).collect();
        extras.sort();
        extras.dedup();
        extras
    }

    /// The requirements as written.
    fn written(&self) -> String {
        let texts: Vec<String> = self.users.iter().map(|user| user.requirement.to_string()).collect();
        clean(&texts.join(", "), 100)
    }

    /// The rows of the platform, newest series first.
    fn rows(&self) -> Vec<&'a Cited<FrameworkBuild>> {
        let platform = self.host.system.platform;
        let of_platform = |row: &&Cited<FrameworkBuild>| row.platform == platform && is_of(row, self.name());
        let mut rows: Vec<&Cited<FrameworkBuild>> =
            self.registry.frameworks().iter().filter(of_platform).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((lowest(&row.versions), row.cuda.clone())));
        rows
    }

    /// Whether the extras of the requirements select this row.
    fn has_extras_of(&self, row: &Cited<FrameworkBuild>) -> bool {
        let extras = self.extras();
        ask(row).is_some_and(|ask| !ask.extras.is_empty() && ask.extras.iter().all(|e| extras.contains(&e)))
    }

    /// The requirement that selects a row's releases with CUDA, if the user's requirement does not.
    fn cuda_requirement(&self, row: &Cited<FrameworkBuild>) -> Option<String> {
        let ask = ask(row)?;
        (ask.name == self.users[0].requirement.name && !self.has_extras_of(row)).then(|| row.ask.clone())?
    }

    /// The constraints on the package, and on the package with the row's GPU code.
    fn bounds(&self, row: &Cited<FrameworkBuild>) -> Vec<&'a UserRequirement> {
        let of = |user: &&UserRequirement| {
            let name = user.name();
            (name == self.name() || name == row.package) && applies(user, self.environments)
        };
        self.request.constraints.iter().filter(of).collect()
    }

    /// Whether a row has releases that all of these requirements allow. Uses version ranges, which treat local versions
    /// differently from PEP 440; TensorFlow and JAX releases have no local versions.
    fn allowed(&self, row: &Cited<FrameworkBuild>, users: &[&UserRequirement]) -> bool {
        let specifiers = users.iter().filter_map(|user| match &user.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(Ranges::from(specifiers.clone())),
            _ => None,
        });
        specifiers.fold(Ranges::from(row.versions.clone()), |all, one| all.intersection(&one))
            != Ranges::empty()
    }

    /// The rows that match the request: its extras, specifiers and constraints.
    fn asked(&self, rows: &[&'a Cited<FrameworkBuild>]) -> Vec<&'a Cited<FrameworkBuild>> {
        let of_extras: Vec<&Cited<FrameworkBuild>> = match self.extras().len() {
            0 => rows.to_vec(),
            1 => rows.iter().filter(|row| self.has_extras_of(row)).copied().collect(),
            // The registry has no data for combinations of extras.
            _ => Vec::new(),
        };
        let fits = |row: &&Cited<FrameworkBuild>| {
            self.allowed(row, &[self.users.clone(), self.bounds(row)].concat())
        };
        of_extras.into_iter().filter(fits).collect()
    }

    fn answer(&self) -> Result<Series, NoSeries> {
        let rows = self.rows();
        let asked = self.asked(&rows);
        let Some(newest) = asked.first() else {
            let bounds = rows.first().map(|row| self.bounds(row)).unwrap_or_default();
            let bounds: Vec<String> = bounds.iter().map(|user| user.requirement.to_string()).collect();
            let bounds = match bounds.is_empty() {
                true => String::new(),
                false => format!(" with the constraints {}", clean(&bounds.join(", "), 100)),
            };
            return Err(NoSeries::Unknown {
                requirement: format!("{}{bounds}", self.written()),
                known: rows.iter().map(|row| self.series_of(row)).collect(),
            });
        };
        match asked.iter().find(|row| self.runs_on(row, self.host)) {
            Some(row) => Ok(self.series(row)),
            None => Err(NoSeries::Conflict(Box::new(self.conflict(newest, &asked, &rows)))),
        }
    }

    /// A row as the user would write it: `jax[cuda12] >=0.6, <0.7.1`, `2.9.*`.
    fn series_of(&self, row: &Cited<FrameworkBuild>) -> String {
        let series = series_name(&row.versions);
        match self.name() == row.package {
            true => series,
            false => format!("{} {series}", row.ask.as_deref().unwrap_or(&row.package)),
        }
    }

    /// Whether the framework is to run on the CPU only.
    fn for_cpu(&self) -> bool {
        self.host.has_no_gpu() || self.request.variant.as_ref().is_some_and(|v| v.value == CPU)
    }

    fn runs_on(&self, row: &Cited<FrameworkBuild>, host: &Host) -> bool {
        let policy = Policy::of(self.request);
        self.for_cpu() || Needs::of_framework(row).violations(self.registry, host, policy).is_empty()
    }

    fn series(&self, row: &Cited<FrameworkBuild>) -> Series {
        let fit = DriverFit::of(self.registry, self.host, Some(&row.cuda), Policy::of(self.request));
        let mode = if fit.native { DriverMode::Native } else { DriverMode::Compatibility };
        let os = self.host.system.platform.os;
        let native = required_driver(self.registry, &row.cuda, os, Policy::Native);
        Series {
            name: row.framework.clone(),
            package: row.package.clone(),
            releases: series_name(&row.versions),
            ask: self.cuda_requirement(row),
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
}

/// The lowest version in the specifiers; `None` if there are no specifiers.
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
    use crate::model::version::cuda_short;
    use crate::solver::tests::host;

    /// The series of each requirement with its CUDA and cuDNN, or the headline and alternatives of the conflict.
    fn told(asked: &str, gpu: &str, driver: &str) -> String {
        let registry = crate::registry::frozen();
        let host = host(Some(&[gpu]), Some(driver));
        let user = |text: &str| UserRequirement::new(text.parse().unwrap(), Origin::CommandLine);
        // Constraints follow a bar.
        let (asked, bounds) = asked.split_once(" | ").unwrap_or((asked, ""));
        let request = Request {
            requirements: asked.split(" & ").map(user).collect(),
            constraints: bounds.split(" & ").filter(|text| !text.is_empty()).map(user).collect(),
            ..Request::default()
        };
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
                "no tensorflow==2.9.* runs on driver 450.36.06; driver >= 450.80.02 or tensorflow 2.4.*",
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
            ("tensorflow; sys_platform == 'win32'", "T4", "450.80.02", ""),
            (
                "tensorflow>=2.10 & tensorflow<2.12",
                "A100",
                "535.54.03",
                "tensorflow 2.11.*: CUDA 11.2, cuDNN 8.1",
            ),
            ("jax[cuda13]<0.7.2", "A100", "580.65.06", "unknown: jax[cuda13]<0.7.2"),
            (
                "jax[cuda12] | jax-cuda12-plugin<0.6",
                "A100",
                "535.54.03",
                "jax-cuda12-plugin >=0.4.29, <0.6: CUDA 12.3, cuDNN 9.1",
            ),
            (
                "tensorflow | tensorflow>=2.15",
                "K80",
                "470.57.02",
                "no tensorflow runs on driver 470.57.02; without the constraint tensorflow>=2.15",
            ),
            (
                "tensorflow==2.9.* | tensorflow<2; sys_platform == 'win32'",
                "T4",
                "450.80.02",
                "tensorflow 2.9.*: CUDA 11.2, cuDNN 8.1",
            ),
            ("jax[cuda11]", "A100", "580.65.06", "unknown: jax[cuda11]"),
            ("jax[cuda12,cuda13]", "A100", "580.65.06", "unknown: jax[cuda12,cuda13]"),
            ("tensorflow[foo]", "A100", "580.65.06", "unknown: tensorflow[foo]"),
        ];
        for (asked, gpu, driver, expected) in table {
            assert_eq!(told(asked, gpu, driver), expected, "{asked} on {gpu} with {driver}");
        }
    }
}
