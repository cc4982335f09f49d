//! How an environment was installed: by two hands, over an older one, behind other packages.

use super::{Area, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::installed::{CondaPackage, Installed, SearchedFirst, Traces};
use crate::model::text::shell_word;
use crate::model::version::cuda_short;

/// conda's names of what pip calls otherwise.
const CONDA_NAMES: [(&str, &str); 4] = [
    ("pytorch", "torch"),
    ("pytorch-gpu", "torch"),
    ("libtorch", "torch"),
    ("tensorflow-base", "tensorflow"),
];

/// `locked` tells whether a package is in the lock; without a lock, any is.
pub(super) fn check(
    installed: &Installed,
    traces: &Traces,
    torch_cuda: Option<&semver::Version>,
    locked: &dyn Fn(&str) -> bool,
) -> Area {
    let mut area = Area { name: "install".into(), ..Area::default() };
    shadowing(installed, traces, locked, &mut area.findings);
    two_hands(installed, traces, &mut area.findings);
    for name in &traces.leftovers {
        area.findings.push(Finding {
            fix: Some(format!("rm -r {}", shell_word(&installed.site_packages.join(name).to_string_lossy()))),
            r#where: Some(name.clone()),
            ..finding(
                Code::LeftoverFolder,
                Severity::Warning,
                format!("`{name}` is left of a package that pip did not get to remove"),
            )
        });
    }
    for path in &traces.unrecorded {
        area.findings.push(Finding {
            fix: Some(format!("rm {}", shell_word(&installed.site_packages.join(path).to_string_lossy()))),
            r#where: Some(path.clone()),
            ..finding(
                Code::LeftoverFolder,
                Severity::Warning,
                format!("{path} is recorded by no package: it is left of another release, and the loader may find it"),
            )
        });
    }
    toolkit(traces, torch_cuda, &mut area.findings);
    area.summary = by_whom(installed);
    area
}

/// `55 by pip, 3 by conda`
fn by_whom(installed: &Installed) -> String {
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
    findings: &mut Vec<Finding>,
) {
    for found in traces.shadowing.iter().filter(|found| locked(&found.name)) {
        let own = installed.distributions.iter().find(|d| d.name == found.name);
        let own_version = own.map(|d| d.version.clone()).unwrap_or_default();
        let same = found.version.as_ref() == Some(&own_version);
        let other = match &found.version {
            Some(version) => format!("{} {version}", found.name),
            None => format!("a folder `{}`", found.name.replace('-', "_")),
        };
        let fix = match found.by {
            SearchedFirst::PythonPath => format!("unset PYTHONPATH, or remove {} from it", found.folder),
            SearchedFirst::UserSite => {
                format!("export PYTHONNOUSERSITE=1, or remove {} from {}", found.name, found.folder)
            }
        };
        findings.push(Finding {
            fix: Some(fix),
            r#where: Some(found.name.clone()),
            ..finding(
                Code::ShadowedPackage,
                if same { Severity::Warning } else { Severity::Error },
                format!(
                    "{other} in {} is imported instead of {} {own_version} of the environment: {} comes first",
                    found.folder, found.name, found.by
                ),
            )
        });
    }
}

/// One package installed by conda and by pip: each overwrote some of the other's files.
fn two_hands(installed: &Installed, traces: &Traces, findings: &mut Vec<Finding>) {
    for CondaPackage { name, version, build } in &traces.conda {
        let pip_name = CONDA_NAMES.iter().find(|(conda, _)| conda == name).map(|(_, pip)| (*pip).to_owned());
        let pip_name = pip_name.unwrap_or_else(|| crate::model::text::normalized_name(name));
        if super::FURNITURE.contains(&pip_name.as_str()) {
            continue;
        }
        let own = installed.distributions.iter().find(|d| d.name == pip_name);
        let Some(own) = own.filter(|d| d.installer.as_deref().is_some_and(|i| i != "conda")) else {
            continue;
        };
        let build = if build.is_empty() { String::new() } else { format!(" ({build})") };
        findings.push(Finding {
            fix: Some(format!(
                "conda remove --force {} && pip install --force-reinstall {}",
                shell_word(name),
                shell_word(&format!("{pip_name}=={}", own.version))
            )),
            r#where: Some(pip_name.clone()),
            ..finding(
                Code::MixedInstallers,
                Severity::Error,
                format!(
                    "conda installed {name} {version}{build}, {} installed {pip_name} {} over it",
                    own.installer.as_deref().unwrap_or("pip"),
                    own.version
                ),
            )
        });
    }
}

/// The toolkit that extensions would be built with, beside the CUDA that torch was built with.
fn toolkit(traces: &Traces, torch_cuda: Option<&semver::Version>, findings: &mut Vec<Finding>) {
    let (Some(toolkit), Some(cuda)) = (&traces.toolkit, torch_cuda) else { return };
    if u64::from(toolkit.version.major()) == cuda.major {
        return;
    }
    findings.push(Finding {
        fix: Some(format!("set CUDA_HOME to a toolkit of CUDA {}", cuda.major)),
        r#where: Some(toolkit.home.clone()),
        ..finding(
            Code::ToolkitMismatch,
            Severity::Info,
            format!(
                "the toolkit in {} is CUDA {}, torch was built with {}: it matters only where extensions are built",
                toolkit.home,
                toolkit.version,
                cuda_short(cuda)
            ),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::installed::{Distribution, Shadowing, Toolkit};

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
            }],
            ..Traces::default()
        };
        let conda = |name: &str| Traces {
            conda: vec![CondaPackage {
                name: name.into(),
                version: "2.5.1".into(),
                build: "py3.12_cuda12.4_cudnn9.1.0_0".into(),
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
            let area = check(&installed, &traces, Some(&semver::Version::new(12, 8, 0)), &|_| true);
            let found: Vec<_> = area.findings.iter().map(|f| (f.code, f.severity)).collect();
            assert_eq!(found, expected, "{traces:?}");
        }
        assert!(check(&installed, &shadow(None), None, &|_| false).findings.is_empty());
    }
}
