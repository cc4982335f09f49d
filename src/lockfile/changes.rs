//! What changed between two locks: the stack, its requirements on the machine, packages.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::parse::parse_unchecked;
use super::{Lockfile, Target, read_request};
use crate::model::capability::ComputeCapability;
use crate::model::solution::Coverage;
use crate::model::source::CondaPackage;

/// What changed in a target.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TargetChanges {
    /// The target's name.
    pub name: String,
    /// Whether only the new lock has it.
    pub added: bool,
    /// Whether only the old lock has it.
    pub removed: bool,
    /// The only target of the old lock, which is gone: an added target is compared with it.
    pub instead_of: Option<String>,
    /// torch with its CUDA variant, cuDNN, other frameworks, python, platform, driver floor, glibc floor.
    pub stack: Vec<Change>,
    /// Compute capabilities that the new lock supports and the old one does not.
    pub gains: Vec<String>,
    /// Compute capabilities that the old lock supports and the new one does not.
    pub drops: Vec<String>,
    /// Compute capabilities that both support, but by other code or with other drivers; those that change alike in one row.
    pub coverage: Vec<Change>,
    /// Packages; `None` on one side if added or removed.
    pub packages: Vec<Change>,
    /// Packages with the same version, but other files or another source.
    pub files: Vec<String>,
}

/// A changed value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What changed.
    pub what: String,
    /// In the old lock.
    pub old: Option<String>,
    /// In the new lock.
    pub new: Option<String>,
}

impl TargetChanges {
    /// Whether nothing that is compared has changed.
    pub fn is_empty(&self) -> bool {
        !self.added
            && !self.removed
            && self.stack.is_empty()
            && self.gains.is_empty()
            && self.drops.is_empty()
            && self.coverage.is_empty()
            && self.packages.is_empty()
            && self.files.is_empty()
    }
}

/// What changed from one lock to another, for each target of either; targets without changes are left
/// out. If both locks have one target, the two are compared even if their names differ.
pub fn changes(old: &Lockfile, new: &Lockfile) -> Vec<TargetChanges> {
    if let ([before], [after]) = (old.targets.as_slice(), new.targets.as_slice()) {
        let changes = of_target(before, after);
        return if changes.is_empty() { Vec::new() } else { vec![changes] };
    }
    let mut out = Vec::new();
    // A lock for one machine became one for several.
    let gone = match old.targets.as_slice() {
        [one] if new.target(Some(&one.name)).is_none() => Some(one),
        _ => None,
    };
    for after in &new.targets {
        let name = after.name.clone();
        out.push(match (old.target(Some(&after.name)), gone) {
            (Some(before), _) => of_target(before, after),
            (None, Some(gone)) => {
                let instead_of = Some(gone.name.clone());
                TargetChanges { name, added: true, instead_of, ..of_target(gone, after) }
            }
            (None, None) => TargetChanges { name, added: true, ..TargetChanges::default() },
        });
    }
    let removed = old.targets.iter().filter(|t| gone.is_none() && new.target(Some(&t.name)).is_none());
    for before in removed {
        out.push(TargetChanges { name: before.name.clone(), removed: true, ..TargetChanges::default() });
    }
    out.retain(|c| !c.is_empty());
    out
}

fn of_target(old: &Target, new: &Target) -> TargetChanges {
    let mut stack = Vec::new();
    let mut differs = |what: &str, old: Option<String>, new: Option<String>| {
        if old != new {
            stack.push(Change { what: what.to_owned(), old, new });
        }
    };
    let torch = |t: &Target| t.stack.as_ref().map(|s| format!("{} {}", s.version, s.variant));
    let cudnn = |t: &Target| t.stack.as_ref().and_then(|s| s.cudnn.as_ref()).map(ToString::to_string);
    differs("torch", torch(old), torch(new));
    differs("cudnn", cudnn(old), cudnn(new));
    let mut names: Vec<&str> =
        old.frameworks.iter().chain(&new.frameworks).map(|x| x.package.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let find = |t: &Target| {
            let found = t.frameworks.iter().find(|x| x.package == name);
            found.map(|x| format!("{} with CUDA {}", x.version, crate::model::version::cuda_short(&x.cuda)))
        };
        differs(name, find(old), find(new));
    }
    differs("python", Some(old.python.to_string()), Some(new.python.to_string()));
    differs("platform", Some(old.platform.to_string()), Some(new.platform.to_string()));
    let floor = |v: &Option<crate::model::version::DottedVersion>| v.as_ref().map(|v| format!(">= {v}"));
    differs("driver", floor(&old.envelope.driver), floor(&new.envelope.driver));
    differs("glibc", floor(&old.envelope.glibc), floor(&new.envelope.glibc));
    let covered =
        |t: &Target| -> BTreeSet<_> { t.envelope.coverage.iter().map(|c| c.compute_capability).collect() };
    let (before, after) = (covered(old), covered(new));
    let both_use = !before.is_empty() && !after.is_empty();
    if !both_use {
        // All or none are no GPUs that are new or dropped.
        let need = |all: &BTreeSet<ComputeCapability>| match all.is_empty() {
            true => "none required".to_owned(),
            false => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                format!("compute capability {}", all.join(", "))
            }
        };
        differs("gpu", Some(need(&before)), Some(need(&after)));
    }
    let only = |a: &BTreeSet<_>, b: &BTreeSet<_>| -> Vec<String> {
        a.difference(b).filter(|_| both_use).map(ToString::to_string).collect()
    };
    let (packages, files) = of_packages(old, new);
    TargetChanges {
        name: new.name.clone(),
        stack,
        gains: only(&after, &before),
        drops: only(&before, &after),
        coverage: coverage(old, new),
        packages,
        files,
        ..TargetChanges::default()
    }
}

/// The packages that changed, and those of which only the files or the source did.
fn of_packages(old: &Target, new: &Target) -> (Vec<Change>, Vec<String>) {
    let by_name = |t: &'_ Target| -> BTreeMap<String, usize> {
        t.packages.iter().enumerate().map(|(i, p)| (p.name.clone(), i)).collect()
    };
    let (old_names, new_names) = (by_name(old), by_name(new));
    let names: BTreeSet<&String> = old_names.keys().chain(new_names.keys()).collect();
    let mut packages = Vec::new();
    let mut files = Vec::new();
    for name in names {
        let before = old_names.get(name).map(|i| &old.packages[*i]);
        let after = new_names.get(name).map(|i| &new.packages[*i]);
        let version = |p: Option<&crate::model::solution::ChosenPackage>| p.map(|p| p.version_with_variant());
        if version(before) != version(after) {
            packages.push(Change { what: name.clone(), old: version(before), new: version(after) });
        } else if let (Some(before), Some(after)) = (before, after)
            && (&before.source, &before.files) != (&after.source, &after.files)
        {
            files.push(name.clone());
        }
    }
    let of_conda = |target: &Target| -> BTreeMap<String, String> {
        let shown = |package: &CondaPackage| format!("{} ({})", package.version, package.build);
        target.conda.iter().map(|package| (package.name.clone(), shown(package))).collect()
    };
    let (before_conda, after_conda) = (of_conda(old), of_conda(new));
    for name in before_conda.keys().chain(after_conda.keys()).collect::<BTreeSet<_>>() {
        let (old, new) = (before_conda.get(name).cloned(), after_conda.get(name).cloned());
        if old != new {
            packages.push(Change { what: format!("conda's {name}"), old, new });
        }
    }
    (packages, files)
}

/// How GPUs are supported by both, where it changed. A change of all that the driver's floor says is none of its own.
fn coverage(old: &Target, new: &Target) -> Vec<Change> {
    let at_floor = |row: &Coverage, target: &Target| Coverage {
        driver_min: row.driver_min.clone().filter(|min| Some(min) != target.envelope.driver.as_ref()),
        ..row.clone()
    };
    let mut alike: Vec<(String, String, Vec<String>)> = Vec::new();
    for before in &old.envelope.coverage {
        let mut rows = new.envelope.coverage.iter();
        let Some(after) = rows.find(|row| row.compute_capability == before.compute_capability) else {
            continue;
        };
        if at_floor(before, old) == at_floor(after, new) {
            continue;
        }
        let (from, to) = (before.support(), after.support());
        let capability = before.compute_capability.to_string();
        match alike.iter_mut().find(|(old, new, _)| (old, new) == (&from, &to)) {
            Some((.., all)) => all.push(capability),
            None => alike.push((from, to, vec![capability])),
        }
    }
    let change = |(old, new, all): (String, String, Vec<String>)| Change {
        what: all.join(", "),
        old: Some(old),
        new: Some(new),
    };
    alike.into_iter().map(change).collect()
}

/// The two sides of a lock with merge conflicts, ours and theirs; `None` if there is no conflict, or if a
/// side cannot be parsed.
pub fn sides(text: &str) -> Option<(Lockfile, Lockfile)> {
    #[derive(PartialEq)]
    enum Part {
        Both,
        Ours,
        Base,
        Theirs,
    }
    let (mut ours, mut theirs) = (String::new(), String::new());
    let mut part = Part::Both;
    let mut conflicts = 0;
    for line in text.replace("\r\n", "\n").split_inclusive('\n') {
        let marker = |mark: &str| line.starts_with(mark) && line[mark.len()..].starts_with([' ', '\n']);
        part = match part {
            Part::Both if marker("<<<<<<<") => {
                conflicts += 1;
                Part::Ours
            }
            Part::Ours if marker("|||||||") => Part::Base,
            Part::Ours | Part::Base if marker("=======") => Part::Theirs,
            Part::Theirs if marker(">>>>>>>") => Part::Both,
            same => {
                if matches!(same, Part::Both | Part::Ours) {
                    ours.push_str(line);
                }
                if matches!(same, Part::Both | Part::Theirs) {
                    theirs.push_str(line);
                }
                same
            }
        };
    }
    if conflicts == 0 || part != Part::Both {
        return None;
    }
    // The checksums are not verified: git merged non-conflicting changes, so neither side is a file as written.
    Some((parse_unchecked(&ours).ok()?, parse_unchecked(&theirs).ok()?))
}

/// What is kept of a lock that was changed by hand, where it can be read: its request and its machines, and the lines of the
/// request that cannot be read. Its versions are nobody's answer.
pub fn machines_of_edited(text: &str) -> Option<(Lockfile, Vec<String>)> {
    let mut lock = parse_unchecked(text).ok().or_else(|| parse_unchecked(&without_packages(text)?).ok())?;
    lock.targets.iter_mut().for_each(|target| target.conda.clear());
    for target in &mut lock.targets {
        target.stack = None;
        target.frameworks.clear();
        target.packages.clear();
    }
    let is_read = |line: &String| read_request(std::slice::from_ref(line)).is_ok();
    let (kept, unread) = std::mem::take(&mut lock.request).into_iter().partition(is_read);
    lock.request = kept;
    Some((lock, unread))
}

/// A lock's text without its packages, which may contradict each other after an edit.
fn without_packages(text: &str) -> Option<String> {
    let mut table: toml::Table = text.parse().ok()?;
    for list in ["package", "conda-package"] {
        table.remove(list);
    }
    let targets = table.get_mut("target").and_then(toml::Value::as_array_mut)?;
    for target in targets.iter_mut().filter_map(toml::Value::as_table_mut) {
        for part in ["stack", "framework", "packages"] {
            target.remove(part);
        }
    }
    toml::to_string(&table).ok()
}

/// Merges two locks for the preferences of a new solve: ours, with the packages and targets that only theirs has,
/// and theirs if its version of a package is newer.
pub fn merged(mut ours: Lockfile, theirs: &Lockfile) -> Lockfile {
    for target in &mut ours.targets {
        let Some(other) = theirs.target(Some(&target.name)) else { continue };
        for package in &other.packages {
            match target.packages.iter_mut().find(|p| p.name == package.name) {
                None => target.packages.push(package.clone()),
                Some(own) if own.version < package.version => *own = package.clone(),
                Some(_) => {}
            }
        }
    }
    let more = theirs.targets.iter().filter(|t| ours.target(Some(&t.name)).is_none()).cloned();
    let more: Vec<Target> = more.collect();
    ours.targets.extend(more);
    ours
}
