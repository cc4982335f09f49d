//! Findings about what conda installed: packages that pip installed over conda's, files that differ from conda's records,
//! two records of one package. The records are read in `inspect/conda`.

use std::collections::BTreeSet;
use std::path::Path;

use super::facts::{Contents, Facts};
use super::findings::{self, AlteredFiles, MissingFiles, Startup, Unreadable};
use super::locked::CondaPin;
use super::record_files::{Group, thousands};
use super::{Area, AreaKind};
use crate::lockfile::PREINSTALLED_PACKAGES;
use crate::model::conda::CONDA_FORGE;
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::installed::{
    CondaHere, CondaPackage, Distribution, FileFault, Installed, Traces, is_executed,
};
use crate::registry::conda_names::{framework_of, pypi_name};

/// Records do not always say their channel in a form that names it; names are those of conda-forge nearly everywhere.
const CHANNEL: &str = CONDA_FORGE;

/// What conda installed, for the commands that repair it. `client`: the program of the client; `locked`: the packages that a
/// lock takes from channels.
pub fn conda_here(traces: &Traces, client: &str, locked: &[CondaPin<'_>]) -> CondaHere {
    let specs = traces.conda.iter().filter_map(|own| Some((pypi_name(CHANNEL, &own.name)?, own.spec()?)));
    let is_other =
        |own: &&CondaPackage| locked.iter().any(|locked| locked.name == own.name && !locked.is(own));
    let other = traces.conda.iter().filter(is_other).map(|own| own.name.clone());
    let names = locked.iter().filter_map(|package| pypi_name(CHANNEL, package.name));
    CondaHere {
        client: client.to_owned(),
        specs: specs.collect(),
        locked: names.collect(),
        other: other.collect(),
    }
}

/// How many of the files that conda's records name are there.
pub(super) fn files_of_records(facts: &Facts<'_>) -> Option<Area> {
    let traces = facts.contents.map(|contents| contents.traces).filter(|traces| !traces.conda.is_empty())?;
    let wrong = traces.conda.iter().flat_map(CondaPackage::damage).count();
    let found = match wrong {
        0 => String::new(),
        _ => format!(", {} missing or altered", thousands(wrong)),
    };
    let summary = format!("{} of conda's records{found}", thousands(traces.conda_files));
    Some(Area { summary, ..Area::of(AreaKind::Files) })
}

/// Checks what conda installed.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let Contents { installed, traces, .. } = facts.contents?;
    let mut found = Vec::new();
    of_records(installed, traces, &mut found);
    Some(Area { findings: found, ..Area::of(AreaKind::Install) })
}

pub(super) fn of_records(installed: &Installed, traces: &Traces, found: &mut Vec<Finding>) {
    let site = installed.site_packages.strip_prefix(&installed.prefix).unwrap_or(&installed.site_packages);
    let faults = installed.distributions.iter().flat_map(|own| &own.faults);
    let told: BTreeSet<&Path> = faults.map(|fault| Path::new(fault.path())).collect();
    let is_told = |path: &str| Path::new(path).strip_prefix(site).is_ok_and(|in_site| told.contains(in_site));
    let mut deleted = Group::default();
    for package in &traces.conda {
        match over(package, installed) {
            Some(own) if PREINSTALLED_PACKAGES.contains(&own.name.as_str()) => {}
            Some(own) => found.push(findings::mixed_installers(package, own, installed)),
            // Another one is to be installed in its place.
            None if installed.conda.other.contains(&package.name) => {}
            None => files(package, installed, &is_told, (&mut deleted, found)),
        }
    }
    let deleted = deleted.message("conda's packages", "missing");
    found.extend(deleted.map(|group| findings::missing_file(MissingFiles::CondaData { group })));
    twice(traces, installed, found);
    for name in &traces.conda_unread {
        found.push(findings::unreadable_record(&Unreadable::Conda(name)));
    }
    for sets in &traces.activation {
        found.push(findings::startup_code(&Startup::Activation { sets, prefix: &installed.prefix }));
    }
}

/// The distribution that another installer put over a conda package.
fn over<'i>(package: &CondaPackage, installed: &'i Installed) -> Option<&'i Distribution> {
    // PyPI's torch replaces packages that hold no Python package of their own too.
    let framework = || framework_of(&package.name).map(|one| one.framework.to_owned());
    let name = pypi_name(CHANNEL, &package.name).or_else(framework)?;
    let own = installed.distributions.iter().find(|own| own.name == name)?;
    own.is_by_another_than_conda().then_some(own)
}

/// Files of a package that are missing or differ from its record. `is_told`: those that RECORD tells already.
fn files(
    package: &CondaPackage,
    installed: &Installed,
    is_told: &dyn Fn(&str) -> bool,
    (deleted, found): (&mut Group, &mut Vec<Finding>),
) {
    let mut missing = Group::default();
    let mut altered = Group::default();
    let mut edited = Group::default();
    for fault in package.faults.iter().filter(|fault| !is_told(fault.path())) {
        // People edit settings, add certificates, and delete what they do not need: only what is executed makes programs
        // fail.
        let is_executed = is_executed(fault.path());
        match fault {
            FileFault::Missing(path) if is_executed => missing.add(path, String::new()),
            FileFault::Size(path, recorded, size)
            | FileFault::AsPublished(path, recorded, size)
            | FileFault::Extended(path, recorded, size) => {
                // Nobody empties a file to edit it.
                let group = if is_executed || *size == 0 { &mut altered } else { &mut edited };
                group.add(path, format!(" has {size} bytes, conda's record says {recorded}"));
            }
            FileFault::Hash(path) => {
                let group = if is_executed { &mut altered } else { &mut edited };
                group.add(path, " has a different SHA-256 than conda's record".to_owned());
            }
            FileFault::Unreadable(path, why) if is_executed => {
                altered.add(path, format!(" cannot be read: {why}"));
            }
            FileFault::Missing(path) if path.ends_with(".pyc") => {}
            FileFault::Missing(path) => deleted.add(path, String::new()),
            FileFault::Unreadable(..) | FileFault::NoHash(_) | FileFault::OwnedTwice(..) => {}
        }
    }
    let missing = missing.message(&package.name, "missing");
    found.extend(
        missing.map(|group| findings::missing_file(MissingFiles::Conda { group, package, installed })),
    );
    for (group, are_executed) in [(altered, true), (edited, false)] {
        let group = group.message(&package.name, "different from conda's record");
        found.extend(group.map(|group| {
            findings::altered_file(AlteredFiles::Conda { group, package, are_executed, installed })
        }));
    }
}

/// Packages of which conda has two records: an update that was interrupted, or folders that were copied together.
fn twice(traces: &Traces, installed: &Installed, found: &mut Vec<Finding>) {
    for records in traces.conda.chunk_by(|one, other| one.name == other.name) {
        if let [first, _, ..] = records {
            let versions: Vec<String> =
                records.iter().map(|p| format!("{} {}", p.version, p.build).trim().to_owned()).collect();
            let twice = findings::duplicate_package(&format!("conda's {}", first.name), &versions);
            // `sync` installs it again, where a lock has conda's packages.
            let has_lock = !installed.conda.locked.is_empty();
            let fix = has_lock.then(|| Fix::command(findings::install_lock(installed)));
            found.push(Finding { fix, ..twice });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::Severity;
    use crate::model::installed::Activation;

    fn package(name: &str, faults: Vec<FileFault>) -> CondaPackage {
        let (version, build) = ("1.0".into(), "h1_0".into());
        CondaPackage { name: name.into(), version, build, channel: Some("conda-forge".into()), faults }
    }

    #[test]
    fn files_of_conda_packages() {
        let installed = Installed {
            prefix: "/opt/conda".into(),
            site_packages: "/opt/conda/lib/python3.12/site-packages".into(),
            distributions: vec![Distribution {
                name: "numpy".into(),
                installer: Some("conda".into()),
                faults: vec![FileFault::Missing("numpy/core.py".into())],
                ..Distribution::default()
            }],
            ..Installed::default()
        };
        let of_record = FileFault::Missing("lib/python3.12/site-packages/numpy/core.py".into());
        let traces = Traces {
            conda: vec![
                package("ca-certificates", vec![FileFault::Size("ssl/cacert.pem".into(), 1, 2)]),
                package("libstdcxx", vec![FileFault::Missing("lib/libstdc++.so.6.0.34".into())]),
                package(
                    "numpy",
                    vec![
                        of_record,
                        FileFault::Size("lib/x.so".into(), 1, 2),
                        // RECORD has no hash of it, or there is no RECORD.
                        FileFault::Size("lib/python3.12/site-packages/numpy/egg.py".into(), 1, 2),
                        FileFault::Missing("include/x.h".into()),
                        FileFault::Missing("lib/python3.12/test/x.py".into()),
                    ],
                ),
            ],
            ..Traces::default()
        };
        let mut found = Vec::new();
        of_records(&installed, &traces, &mut found);
        let told: Vec<(Severity, String)> =
            found.iter().map(|finding| (finding.severity, finding.message.clone())).collect();
        let expected = [
            (Severity::Info, "ssl/cacert.pem of ca-certificates has 2 bytes, conda's record says 1"),
            (Severity::Error, "lib/libstdc++.so.6.0.34 of libstdcxx is missing"),
            (
                Severity::Error,
                "2 files of numpy are different from conda's record: lib/x.so has 2 bytes, conda's record says 1; lib/python3.12/site-packages/numpy/egg.py has 2 bytes, conda's record says 1",
            ),
            // People delete what is no code.
            (
                Severity::Info,
                "2 files of conda's packages are missing: include/x.h; lib/python3.12/test/x.py",
            ),
        ];
        assert_eq!(told, expected.map(|(severity, text)| (severity, text.to_owned())));
        let fix = found[1].fix.as_ref().unwrap().to_string();
        assert_eq!(
            fix,
            "conda install -p /opt/conda --override-channels -c conda-forge --force-reinstall --no-deps libstdcxx=1.0=h1_0"
        );
    }

    #[test]
    fn two_records_of_one_package() {
        let mut old = package("numpy", Vec::new());
        old.version = "0.9".into();
        let traces = Traces { conda: vec![old, package("numpy", Vec::new())], ..Traces::default() };
        let mut found = Vec::new();
        of_records(&Installed::default(), &traces, &mut found);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "conda's numpy is installed 2 times: 0.9 h1_0, 1.0 h1_0");
    }
    #[test]
    fn activation_and_records_that_cannot_be_read() {
        let traces = Traces {
            conda_unread: vec!["broken.json".into()],
            activation: vec![
                Activation::Script {
                    path: "etc/conda/activate.d/a.sh".into(),
                    line: "export LD_PRELOAD=x".into(),
                    name: "LD_PRELOAD".into(),
                    package: None,
                },
                Activation::Script {
                    path: "etc/conda/activate.d/b.sh".into(),
                    line: "export A=1 LD_LIBRARY_PATH=x".into(),
                    name: "LD_LIBRARY_PATH".into(),
                    package: Some("activ".into()),
                },
                Activation::Variable { name: "PYTHONPATH".into(), value: "/mine".into() },
            ],
            ..Traces::default()
        };
        let mut found = Vec::new();
        of_records(&Installed { prefix: "/opt/my env".into(), ..Installed::default() }, &traces, &mut found);
        let told: Vec<String> = found
            .iter()
            .map(|finding| format!("{} | {}", finding.message, finding.fix.as_ref().unwrap()))
            .collect();
        let first = "libraries or modules of other folders may be found first";
        assert_eq!(
            told,
            [
                "conda-meta/broken.json cannot be read as a record: the files of its package could not be checked | \
                 delete it, and install its package again with conda if it is needed"
                    .to_owned(),
                format!(
                    "activating the environment runs `export LD_PRELOAD=x` of etc/conda/activate.d/a.sh: {first} | \
                     remove the line from '/opt/my env/etc/conda/activate.d/a.sh'"
                ),
                format!(
                    "activating the environment runs `export A=1 LD_LIBRARY_PATH=x` of etc/conda/activate.d/b.sh, which \
                     conda's activ has: {first} | unset LD_LIBRARY_PATH after activation, or remove activ from the \
                     environment"
                ),
                format!(
                    "activating the environment sets PYTHONPATH to `/mine`: {first} | conda env config vars unset -p \
                     '/opt/my env' PYTHONPATH"
                ),
            ]
        );
    }
}
