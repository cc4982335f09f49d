//! conda's half of an environment: which records it lacks, and the commands of a client that installs them from an explicit
//! file, without solving and without asking a channel.

use std::collections::BTreeSet;
use std::path::Path;

use super::changes::Changes;
use super::steps::{Purpose, Step, Talk};
use crate::lockfile::PREINSTALLED_PACKAGES;
use crate::model::installed::{CondaPackage as Installed, Distribution};
use crate::model::source::CondaPackage;

/// What conda's half of an environment lacks of a lock. `records`: the names of its records, `numpy-2.4.6-py314h2b28147_0`;
/// `installed`: what they say. `removes`: whether packages that are not locked are removed.
pub fn conda_changes(
    locked: &[CondaPackage],
    records: &BTreeSet<String>,
    installed: &[Installed],
    removes: bool,
) -> Changes {
    let names: BTreeSet<&str> = records.iter().filter_map(|record| name_of(record)).collect();
    let is_one = |package: &CondaPackage, own: &Installed| {
        own.name == package.name && own.version == package.version && own.build == package.build
    };
    let is_whole = |package: &&CondaPackage| {
        let mut all = installed.iter().filter(|own| own.name == package.name);
        let has_record = records.contains(record_of(package));
        let is_sound = |own: &Installed| is_one(package, own) && own.damage().next().is_none();
        has_record && all.next().is_some_and(is_sound) && all.next().is_none()
    };
    let mut changes = Changes::default();
    for package in locked.iter().filter(|package| !is_whole(package)) {
        match names.contains(package.name.as_str()) {
            true => {
                // A client leaves what has the locked record as it is.
                if installed.iter().any(|own| is_one(package, own)) {
                    changes.again.push(package.name.clone());
                }
                changes.replace.push(package.name.clone());
            }
            false => changes.install.push(package.name.clone()),
        }
    }
    if removes {
        let is_locked = |name: &str| locked.iter().any(|package| package.name == name);
        let extra = names.into_iter().filter(|name| !is_locked(name));
        changes.remove = extra.map(str::to_owned).collect();
    }
    changes
}

/// The packages that pip or uv put over what conda installed. `of_conda`: the names on PyPI of what the lock takes from conda.
pub fn put_over<'i>(
    of_conda: &BTreeSet<String>,
    distributions: impl Iterator<Item = &'i Distribution>,
) -> BTreeSet<String> {
    let is_over = |own: &&Distribution| {
        own.is_by_another_than_conda()
            && of_conda.contains(&own.name)
            && !PREINSTALLED_PACKAGES.contains(&own.name.as_str())
    };
    distributions.filter(is_over).map(|own| own.name.clone()).collect()
}

/// The name of a package's record: that of its file.
fn record_of(package: &CondaPackage) -> &str {
    let file = package.file.as_str();
    file.strip_suffix(".conda").or_else(|| file.strip_suffix(".tar.bz2")).unwrap_or(file)
}

/// `numpy` of `numpy-2.4.6-py314h2b28147_0`: version and build have no hyphen.
fn name_of(record: &str) -> Option<&str> {
    record.rsplitn(3, '-').nth(2)
}

/// The commands that make the changes in a prefix. `list`: the explicit file with what is installed or replaced.
pub fn conda_steps(
    program: &Path,
    prefix: &Path,
    is_new: bool,
    changes: &Changes,
    list: &Path,
    talk: Talk,
) -> Vec<Step> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let command = |what: &str| {
        let mut words = vec![text(program), what.to_owned(), "--yes".to_owned()];
        let options = [("--quiet", talk.quiet || talk.no_progress), ("--offline", talk.offline)];
        words.extend(options.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()));
        words.extend(["-p".to_owned(), text(prefix)]);
        words
    };
    let mut steps = Vec::new();
    let removed: Vec<&String> = changes.remove.iter().chain(&changes.again).collect();
    if !removed.is_empty() {
        let mut words = command("remove");
        words.push("--force".to_owned());
        words.extend(removed.into_iter().cloned());
        steps.push(Step { purpose: Purpose::Remove, command: words });
    }
    if !changes.install.is_empty() || !changes.replace.is_empty() {
        let (what, purpose) = match is_new {
            true => ("create", Purpose::MakeEnvironment),
            false => ("install", Purpose::Install),
        };
        let mut words = command(what);
        words.extend(["--file".to_owned(), text(list)]);
        steps.push(Step { purpose, command: words });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::installed::FileFault;

    fn package(name: &str, file: &str) -> CondaPackage {
        CondaPackage { name: name.to_owned(), file: file.to_owned(), ..CondaPackage::default() }
    }

    fn installed(name: &str, faults: Vec<FileFault>) -> Installed {
        Installed { name: name.to_owned(), faults, ..Installed::default() }
    }

    #[test]
    fn changes_by_the_names_of_records() {
        let locked = [
            package("numpy", "numpy-2.4.6-py314_0.conda"),
            package("gcc_linux-64", "gcc_linux-64-14.3.0-h1.tar.bz2"),
            package("zlib", "zlib-1.3.1-h1.conda"),
        ];
        let records = ["numpy-2.4.5-py314_0", "gcc_linux-64-14.3.0-h1", "extra-1.0-0"];
        let records = records.map(str::to_owned).into();
        let here = [installed("gcc_linux-64", Vec::new()), installed("numpy", Vec::new())];
        let changes = conda_changes(&locked, &records, &here, true);
        assert_eq!((changes.install, changes.replace), (vec!["zlib".to_owned()], vec!["numpy".to_owned()]));
        assert_eq!(changes.remove, ["extra"]);
        assert!(conda_changes(&locked, &records, &here, false).remove.is_empty());
    }

    #[test]
    fn damage_is_repaired() {
        let locked = [package("tool", "tool-2.0-0.conda")];
        let records: BTreeSet<String> = ["tool-2.0-0".to_owned()].into();
        let replaced = |here: &[Installed]| conda_changes(&locked, &records, here, false).replace;
        let missing = |path: &str| vec![FileFault::Missing(path.to_owned())];
        assert!(replaced(&[installed("tool", Vec::new())]).is_empty());
        assert!(replaced(&[installed("tool", missing("share/doc/tool.txt"))]).is_empty());
        for broken in [
            vec![installed("tool", missing("bin/tool"))],
            // Its record cannot be read, or says something else.
            vec![],
            vec![Installed { version: "1.0".into(), ..installed("tool", Vec::new()) }],
            vec![installed("tool", Vec::new()), installed("tool", Vec::new())],
        ] {
            assert_eq!(replaced(&broken), ["tool"], "{broken:?}");
        }
    }

    #[test]
    fn what_pip_put_over_condas_packages() {
        let of = |name: &str, installer: Option<&str>| Distribution {
            name: name.to_owned(),
            installer: installer.map(str::to_owned),
            ..Distribution::default()
        };
        let here = [
            of("numpy", Some("pip")),
            of("numpy", Some("conda")),
            // conda's packages may have no INSTALLER.
            of("scipy", None),
            of("pip", Some("pip")),
            of("idna", Some("uv")),
        ];
        let of_conda = ["numpy", "scipy", "pip"].map(str::to_owned).into();
        assert_eq!(put_over(&of_conda, here.iter()), ["numpy".to_owned()].into());
    }

    #[test]
    fn commands_of_a_client() {
        let changes = Changes {
            install: vec!["zlib".to_owned()],
            remove: vec!["extra".to_owned()],
            ..Changes::default()
        };
        let shown = |is_new, changes: &Changes, talk| -> Vec<String> {
            let (program, prefix, list) = (Path::new("/o/mamba"), Path::new("e"), Path::new("l.txt"));
            let steps = conda_steps(program, prefix, is_new, changes, list, talk);
            steps.iter().map(|step| step.command.join(" ")).collect()
        };
        let talk = Talk { no_progress: true, offline: true, ..Talk::default() };
        assert_eq!(
            shown(false, &changes, Talk::default()),
            ["/o/mamba remove --yes -p e --force extra", "/o/mamba install --yes -p e --file l.txt"]
        );
        // What is damaged is removed first.
        let damaged = Changes {
            replace: vec!["zlib".to_owned()],
            again: vec!["zlib".to_owned()],
            ..Changes::default()
        };
        assert_eq!(
            shown(false, &damaged, Talk::default()),
            ["/o/mamba remove --yes -p e --force zlib", "/o/mamba install --yes -p e --file l.txt"]
        );
        let new = Changes { remove: Vec::new(), ..changes };
        assert_eq!(shown(true, &new, talk), ["/o/mamba create --yes --quiet --offline -p e --file l.txt"]);
        assert!(shown(false, &Changes::default(), talk).is_empty());
    }
}
