//! What has to be installed, replaced and removed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::lockfile::{PREINSTALLED_PACKAGES, Target, differences, same_version};
use crate::model::installed::{DirectOrigin, Distribution, FileFault, Installed, Visible, is_loaded};
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::requirement_name;

/// The changes that make an environment what a lock says, as package names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Locked and not installed.
    pub install: Vec<String>,
    /// Installed and not locked; where others than the locked packages stay, those that own files of a locked one.
    pub remove: Vec<String>,
    /// Installed, but not the locked version or build.
    pub replace: Vec<String>,
    /// Packages to replace that are installed in the same version: an installer would leave them as they are.
    #[serde(skip)]
    pub again: Vec<String>,
    /// The `.dist-info` folders of packages to replace that an installer could not remove: without RECORD, or one of
    /// several; and what tools of old left of a locked package.
    #[serde(skip)]
    pub leftovers: Vec<String>,
    /// Packages to replace that conda installed: pip would write over their files.
    #[serde(skip)]
    pub conda_owns: Vec<String>,
}

impl Changes {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.install.is_empty() && self.remove.is_empty() && self.replace.is_empty()
    }

    /// Whether a package is to be installed or replaced.
    pub fn puts(&self, name: &str) -> bool {
        [&self.install, &self.replace].iter().any(|list| list.iter().any(|own| own == name))
    }
}

/// The changes that make an environment what the target says, without the packages of extras and groups that the target
/// still counts to these. `None` is an environment that does not exist.
///
/// `keeps`: packages that stay although they are not locked, or `None` if all stay that are not in the way of a locked one.
///
/// `is_elsewhere`: whether a package was installed from another folder or repository than the locked one.
pub fn changes(
    target: &Target,
    installed: Option<&Installed>,
    keeps: Option<&[String]>,
    is_elsewhere: &dyn Fn(&ChosenPackage, &DirectOrigin) -> bool,
) -> Changes {
    let none = Installed::default();
    let installed = installed.unwrap_or(&none);
    let by_conda = |own: &&Distribution| own.installer.as_deref() == Some("conda");
    let mut changes = Changes::default();
    for package in target.installed_always() {
        let own: Vec<&Distribution> =
            installed.distributions.iter().filter(|own| own.name == package.name).collect();
        let eggs: Vec<&Visible> = installed.eggs.iter().filter(|egg| egg.name == package.name).collect();
        changes.leftovers.extend(eggs.iter().filter_map(|egg| egg.dist_info.clone()));
        match own.as_slice() {
            [] => {
                changes.install.push(package.name.clone());
                // What an installer takes for the package.
                if !eggs.is_empty() {
                    changes.again.push(package.name.clone());
                }
            }
            [only]
                if eggs.is_empty()
                    && is_whole(only)
                    && differences(package, only).is_empty()
                    && !has_moved(package, only, is_elsewhere) => {}
            all => {
                let lost = |own: &&&Distribution| all.len() > 1 || !own.record_readable;
                changes.leftovers.extend(all.iter().filter(lost).map(|own| own.dist_info.clone()));
                if all.iter().any(|own| same_version(&package.version, &own.version)) {
                    changes.again.push(package.name.clone());
                }
                if all.iter().any(by_conda) {
                    changes.conda_owns.push(package.name.clone());
                }
                changes.replace.push(package.name.clone());
            }
        }
    }
    let Some(keeps) = keeps else {
        changes.remove = in_the_way(target, installed);
        restore_locked_files(&mut changes, target, installed);
        return changes;
    };
    let kept: BTreeSet<&str> = PREINSTALLED_PACKAGES
        .into_iter()
        .chain(target.brought_by_builds())
        .chain(keeps.iter().map(String::as_str))
        .collect();
    let wanted: BTreeSet<&str> = target.installed_always().map(|package| package.name.as_str()).collect();
    let extra = installed.distributions.iter().filter(|own| {
        !wanted.contains(own.name.as_str()) && !kept.contains(own.name.as_str()) && !by_conda(own)
    });
    changes.remove = extra.map(|own| own.name.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    restore_locked_files(&mut changes, target, installed);
    changes
}

/// The files that two packages recorded with different contents: the one, the other, the path; each pair in both orders.
fn shared_files(installed: &Installed) -> BTreeSet<(&str, &str, &str)> {
    // Of two owners one has the fault, which names the other.
    let shared = installed.distributions.iter().flat_map(|own| {
        own.faults.iter().filter_map(|fault| match fault {
            FileFault::OwnedTwice(path, other) => Some((own.name.as_str(), other.as_str(), path.as_str())),
            _ => None,
        })
    });
    shared.flat_map(|(one, other, path)| [(one, other, path), (other, one, path)]).collect()
}

/// The packages that are not locked, own a library or module that a locked one owns with another content, and that nothing which
/// remains requires. Which of the two contents is loaded depends on what was installed last, and whoever removes the one package
/// takes files of the other: such a package goes even where others that are not locked stay.
fn in_the_way(target: &Target, installed: &Installed) -> Vec<String> {
    let locked: BTreeSet<&str> = target.installed_always().map(|package| package.name.as_str()).collect();
    let of_installer = |name: &str| {
        let own = installed.distributions.iter().find(|own| own.name == name);
        own.is_some_and(|own| own.installer.as_deref() != Some("conda") && own.record_readable)
    };
    let mut found: BTreeSet<&str> = shared_files(installed)
        .into_iter()
        .filter(|(own, other, path)| !locked.contains(own) && locked.contains(other) && is_loaded(path))
        .map(|(own, ..)| own)
        .filter(|own| !PREINSTALLED_PACKAGES.contains(own) && of_installer(own))
        .collect();
    // One that stays may require another one.
    loop {
        let remaining = installed.distributions.iter().filter(|own| !found.contains(own.name.as_str()));
        let required: BTreeSet<String> =
            remaining.flat_map(|own| &own.requires).map(|line| requirement_name(line)).collect();
        let before = found.len();
        found.retain(|name| !required.contains(*name));
        if found.len() == before {
            return found.into_iter().map(str::to_owned).collect();
        }
    }
}

/// Adds the locked packages that stay and whose files are another package's, or will be gone with it: an installer removes a file
/// with the first package that recorded it, and the last one that is installed writes it.
fn restore_locked_files(changes: &mut Changes, target: &Target, installed: &Installed) {
    let goes = |name: &str, changes: &Changes| {
        [&changes.remove, &changes.replace].iter().any(|list| list.iter().any(|own| own == name))
    };
    // What conda installed, pip must not write over.
    let of_conda = |name: &str| {
        let own = installed.distributions.iter().find(|own| own.name == name);
        own.is_some_and(|own| own.installer.as_deref() == Some("conda"))
    };
    let shared = shared_files(installed);
    let locked: BTreeSet<&str> = target.installed_always().map(|package| package.name.as_str()).collect();
    for (own, other, path) in &shared {
        let is_altered = installed
            .distributions
            .iter()
            .filter(|d| d.name == *own)
            .flat_map(|d| &d.faults)
            .any(|fault| matches!(fault, FileFault::Size(of, ..) | FileFault::Hash(of) if of == path));
        let loses = locked.contains(own) && !locked.contains(other) && is_loaded(path) && is_altered;
        if loses && !changes.puts(own) && !of_conda(own) {
            changes.replace.push((*own).to_owned());
            changes.again.push((*own).to_owned());
        }
    }
    let pairs: BTreeSet<(&str, &str)> = shared.iter().map(|(one, other, _)| (*one, *other)).collect();
    let mut is_more = true;
    while std::mem::take(&mut is_more) {
        for (goer, stayer) in &pairs {
            let stays = target.installed_always().any(|package| package.name == *stayer)
                && !changes.puts(stayer)
                && !of_conda(stayer);
            if stays && goes(goer, changes) {
                changes.replace.push((*stayer).to_owned());
                changes.again.push((*stayer).to_owned());
                is_more = true;
            }
        }
    }
}

/// Whether the files of a package are there as it recorded them. A file that was published with a wrong RECORD, or that
/// two packages own, is nothing that an installation repairs.
fn is_whole(own: &Distribution) -> bool {
    let is_damage = |fault: &FileFault| match fault {
        FileFault::Missing(_) | FileFault::Size(..) | FileFault::Hash(_) | FileFault::Unreadable(..) => true,
        FileFault::AsPublished(..)
        | FileFault::Extended(..)
        | FileFault::OwnedTwice(..)
        | FileFault::NoHash(_) => false,
    };
    let shared = |fault: &FileFault| match fault {
        FileFault::Size(path, ..) | FileFault::Hash(path) => {
            own.faults.iter().any(|other| matches!(other, FileFault::OwnedTwice(twice, _) if twice == path))
        }
        _ => false,
    };
    let by_conda = own.installer.as_deref() == Some("conda");
    by_conda
        || own.record_readable
            && own.metadata_sha256.is_some()
            && !own.faults.iter().any(|fault| is_damage(fault) && !shared(fault))
}

/// Whether a package was installed from an index and is locked from a repository or a folder, or from another one of these.
/// A package of the pytorch index is installed by URL, so an address says nothing of one from an index.
fn has_moved(
    package: &ChosenPackage,
    own: &Distribution,
    is_elsewhere: &dyn Fn(&ChosenPackage, &DirectOrigin) -> bool,
) -> bool {
    let is_local = |direct: &DirectOrigin| direct.commit.is_some() || direct.url.starts_with("file:");
    match (&package.source, &own.direct) {
        (Source::Git { .. } | Source::Path(_), None) => true,
        (Source::Git { .. }, Some(direct)) => direct.commit.is_none(),
        (Source::Path(_), Some(direct)) => direct.commit.is_some() || is_elsewhere(package, direct),
        (Source::Url(_), Some(direct)) => is_local(direct),
        _ => false,
    }
}

/// The packages to be installed whose build runs code of theirs, that are not `allowed`, and that are not of the project by
/// `is_own`, which gets a package's name and locked folder.
pub fn needs_permission<'p>(
    packages: &'p [ChosenPackage],
    changes: &Changes,
    allowed: &[String],
    is_own: &dyn Fn(&str, &str) -> bool,
) -> Vec<&'p str> {
    let is_own = |package: &ChosenPackage| match &package.source {
        Source::Path(path) => is_own(&package.name, path),
        _ => false,
    };
    packages
        .iter()
        .filter(|package| {
            // What a repository or a folder holds is built, whatever the lock says of it.
            let is_source = matches!(package.source, Source::Git { .. } | Source::Path(_));
            (package.build.is_some() || is_source) && changes.puts(&package.name)
        })
        .filter(|package| !is_own(package) && !allowed.contains(&package.name))
        .map(|package| package.name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::choice::Choice;

    /// A package without a note of how it is built, as a forged lock may have it.
    fn package(name: &str, source: Source) -> ChosenPackage {
        ChosenPackage {
            name: name.to_owned(),
            version: "1.0".parse().unwrap(),
            source,
            build: None,
            groups: Vec::new(),
            files: Vec::new(),
            metadata_sha256: None,
            requires: Vec::new(),
            reason: Choice::Kept,
            targets: None,
            variant: None,
        }
    }

    #[test]
    fn sources_need_permission_whatever_the_lock_says_of_their_build() {
        let git = Source::Git {
            repository: "https://host.example/a.git".to_owned(),
            commit: "0".repeat(40),
            subdirectory: None,
        };
        let packages = [
            package("wheel", Source::Index("pypi".to_owned())),
            package("git", git),
            package("own", Source::Path("libs/own".to_owned())),
            package("above", Source::Path("../above".to_owned())),
        ];
        let all: Vec<String> = packages.iter().map(|package| package.name.clone()).collect();
        let changes = Changes { install: all, ..Changes::default() };
        let is_own = |_: &str, path: &str| path == "libs/own";
        let needed = |changes: &Changes, allowed: &[String]| -> Vec<String> {
            let names = needs_permission(&packages, changes, allowed, &is_own);
            names.into_iter().map(str::to_owned).collect()
        };
        assert_eq!(needed(&changes, &[]), ["git", "above"]);
        assert_eq!(needed(&changes, &["git".to_owned()]), ["above"]);
        // What is installed already is not built.
        assert!(needed(&Changes::default(), &[]).is_empty());
    }
}
