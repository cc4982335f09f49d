//! Findings about how the environment was installed: mixed installers, leftovers, shadowed packages, start-up code,
//! toolkit. What is found on disk is read in `inspect/traces`.

use super::facts::{Contents, Facts};
use super::findings::{self, Leftover, Startup, WrongPython};
use super::{Area, AreaKind};
use crate::model::finding::Finding;
use crate::model::installed::{Installed, SearchedFirst, Shadowing, Traces};

/// Checks how the environment was installed.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let Contents { installed, traces, .. } = facts.contents?;
    let torch = installed.distributions.iter().find(|d| d.name == "torch");
    // Maps `cu128` to CUDA 12.8; a variant that the registry does not know is not compared.
    let cuda = torch.and_then(|d| {
        let variant = d.variant.as_deref()?;
        let build = facts.registry.builds().iter().find(|b| b.variant == variant)?;
        build.cuda.as_ref()
    });
    Some(of_traces(installed, traces, cuda, &|name| facts.is_locked(name)))
}

/// `locked`: whether a package is in the lock; true for every package without a lock.
fn of_traces(
    installed: &Installed,
    traces: &Traces,
    torch_cuda: Option<&semver::Version>,
    locked: &dyn Fn(&str) -> bool,
) -> Area {
    let mut area = Area::of(AreaKind::Install);
    shadowing(installed, traces, locked, &mut area.findings);
    let site = &installed.site_packages;
    let renamed = traces.leftovers.iter().map(|name| (Leftover::Renamed, name));
    let unrecorded = traces.unrecorded.iter().map(|path| (Leftover::Unrecorded, path));
    let left = renamed.chain(unrecorded);
    area.findings.extend(left.map(|(kind, path)| findings::leftover_folder(kind, path, site)));
    area.findings.extend(traces.home.as_ref().map(findings::missing_interpreter));
    let by_python = |(path, line): &(String, String)| {
        findings::startup_code(&Startup::Python { path, line, site_packages: site })
    };
    let startup = traces.startup.iter().map(by_python);
    area.findings.extend(startup);
    // Those of CUDA and torch are judged by what they take the place of.
    let is_judged = |path: &str| super::paths::is_ours(path.rsplit('/').next().unwrap_or(path));
    let forced = traces.forced.iter().filter(|forced| !is_judged(&forced.path));
    area.findings.extend(forced.map(|forced| findings::startup_code(&Startup::Forced(forced))));
    if let (Some(interpreter), Some(python)) = (installed.interpreter, installed.python)
        && interpreter.minor != python.minor
    {
        area.findings.push(findings::wrong_python(WrongPython::Interpreter { interpreter, python }));
    }
    toolkit(traces, torch_cuda, &mut area.findings);
    area.summary = installer_counts(installed);
    if let Some(change) = &traces.conda_change {
        area.summary.push_str(&format!("; changed since it was made, last by `{change}`"));
    }
    area
}

/// The number of packages by installer: `55 by pip, 3 by conda`.
fn installer_counts(installed: &Installed) -> String {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for distribution in &installed.distributions {
        *counts.entry(distribution.installer.as_deref().unwrap_or("an unknown installer")).or_default() += 1;
    }
    counts.iter().map(|(who, n)| format!("{n} by {who}")).collect::<Vec<_>>().join(", ")
}

fn shadowing(
    installed: &Installed,
    traces: &Traces,
    locked: &dyn Fn(&str) -> bool,
    found: &mut Vec<Finding>,
) {
    let counts = |shadowing: &&Shadowing| shadowing.of_stdlib.is_some() || locked(&shadowing.name);
    for shadowing in traces.shadowing.iter().filter(counts) {
        let own = installed.distributions.iter().find(|d| d.name == shadowing.name);
        // What is installed from a folder is its own package there.
        let url = own.and_then(|own| own.direct.as_ref()).map(|direct| direct.url.trim_end_matches('/'));
        if shadowing.by == SearchedFirst::WorkingFolder
            && url.is_some_and(|url| url == format!("file://{}", shadowing.folder))
        {
            continue;
        }
        let version = own.map(|d| d.version.clone()).unwrap_or_default();
        let is_framework = ["torch", "tensorflow", "jax"].contains(&shadowing.name.as_str());
        found.push(findings::shadowed_package(shadowing, &version, is_framework, installed.python));
    }
}

/// Compares the CUDA toolkit for building extensions with torch's CUDA version.
fn toolkit(traces: &Traces, torch_cuda: Option<&semver::Version>, found: &mut Vec<Finding>) {
    let (Some(toolkit), Some(cuda)) = (&traces.toolkit, torch_cuda) else { return };
    if u64::from(toolkit.version.major()) != cuda.major {
        found.push(findings::toolkit_mismatch(toolkit, cuda));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::{Code, Severity};
    use crate::model::installed::{CondaPackage, Distribution, SearchedFirst, Shadowing, Toolkit};

    #[test]
    fn faults_of_installation() {
        let torch = Distribution {
            name: "torch".into(),
            version: "2.9.1".into(),
            installer: Some("pip".into()),
            ..Distribution::default()
        };
        let installed = Installed { distributions: vec![torch], ..Installed::default() };
        let shadow = |version: Option<&str>| Traces {
            shadowing: vec![Shadowing {
                name: "torch".into(),
                version: version.map(Into::into),
                folder: "/x".into(),
                by: SearchedFirst::PythonPath,
                of_stdlib: None,
            }],
            ..Traces::default()
        };
        let conda = |name: &str| Traces {
            conda: vec![CondaPackage {
                name: name.into(),
                version: "2.5.1".into(),
                build: "py3.12_cuda12.4_cudnn9.1.0_0".into(),
                ..CondaPackage::default()
            }],
            ..Traces::default()
        };
        let toolkit = |version: &str| Traces {
            toolkit: Some(Toolkit {
                by: "CUDA_HOME".into(),
                home: "/cuda".into(),
                version: version.parse().unwrap(),
            }),
            ..Traces::default()
        };
        let table: Vec<(Traces, &[(Code, Severity)])> = vec![
            (Traces::default(), &[]),
            (shadow(Some("2.9.1")), &[(Code::ShadowedPackage, Severity::Warning)]),
            (shadow(Some("2.5.0")), &[(Code::ShadowedPackage, Severity::Error)]),
            (shadow(None), &[(Code::ShadowedPackage, Severity::Error)]),
            (conda("pytorch"), &[(Code::MixedInstallers, Severity::Error)]),
            (conda("numpy"), &[]),
            (toolkit("12.1"), &[]),
            (toolkit("11.8"), &[(Code::ToolkitMismatch, Severity::Info)]),
            (
                Traces { leftovers: vec!["~orch".into()], ..Traces::default() },
                &[(Code::LeftoverFolder, Severity::Warning)],
            ),
        ];
        for (traces, expected) in table {
            let mut area = of_traces(&installed, &traces, Some(&semver::Version::new(12, 8, 0)), &|_| true);
            super::super::conda_records::of_records(&installed, &traces, &mut area.findings);
            let found: Vec<_> = area.findings.iter().map(|f| (f.code, f.severity)).collect();
            assert_eq!(found, expected, "{traces:?}");
        }
        assert!(of_traces(&installed, &shadow(None), None, &|_| false).findings.is_empty());
    }
}
