//! Findings about files that differ from RECORD. The comparison is in `inspect/dist_info`.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::findings::{self, AlteredFiles, FileGroup, MissingFiles, Unreadable};
use super::{Area, AreaKind};
use crate::model::count::Count;
use crate::model::finding::Finding;
use crate::model::installed::{Distribution, FileFault, Installed, is_imported};
use crate::model::text::clean;

/// Maximum number of files named in one finding; the rest are counted.
const MAX_NAMED: usize = 3;

/// Checks the files of what is installed. Of two packages that record a file, the locked one is kept.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let installed = facts.contents?.installed;
    Some(of_installed(installed, &|name| facts.is_locked(name)))
}

/// `locked`: whether a package is in the lock.
fn of_installed(installed: &Installed, locked: &dyn Fn(&str) -> bool) -> Area {
    let mut found = Vec::new();
    let mut wrong = 0;
    let shared = shared_files(installed);
    for distribution in &installed.distributions {
        let name = &distribution.name;
        if distribution.is_of_system() {
            continue;
        }
        let conda = distribution.installer.as_deref() == Some("conda");
        // conda's package of that name is the locked one, and what another installer put over it is told as such.
        let is_over = |other: &Distribution| other.name == *name && other.is_by_another_than_conda();
        if installed.conda.locked.contains(name) && installed.distributions.iter().any(is_over) {
            continue;
        }
        if !distribution.record_readable && !conda {
            let dist_info = &distribution.dist_info;
            found.push(findings::unreadable_record(&Unreadable::Record { name, dist_info, installed }));
        }
        if let Some(folder) = distribution.direct.as_ref().and_then(|direct| direct.gone.as_deref()) {
            found.push(findings::missing_file(MissingFiles::Editable { name, folder }));
        }
        let faults = Faults::of(distribution, &|fault| {
            shared.iter().any(|pair| pair.explains(name, fault, installed))
        });
        wrong += faults.missing.0.len() + faults.altered.0.len();
        found.extend(faults.findings(name, installed));
    }
    for pair in &shared {
        let (keep, other) = pair.keep(installed, locked);
        let mut group = Group::default();
        pair.files.iter().for_each(|path| group.add(path, String::new()));
        let text = format!("also recorded by {other}");
        if let Some(group) = group.message(keep, &text) {
            let is_whole = !pair.is_altered(keep, installed);
            found.push(findings::file_owned_twice(group, keep, other, is_whole, installed));
        }
    }
    let of_system = installed.distributions.iter().filter(|own| own.is_of_system()).count();
    let summary = if of_system > 0 && wrong == 0 {
        format!("files of {of_system} system {} not compared", Count(of_system).word("package", "packages"))
    } else if wrong == 0 {
        format!("{} present, sizes as recorded", thousands(installed.files_seen))
    } else {
        format!("{} checked, {} missing or altered", thousands(installed.files_seen), thousands(wrong))
    };
    Area { kind: AreaKind::Files, findings: found, summary, as_locked: None }
}

/// The faulty files of one package, by what is wrong with them.
#[derive(Default)]
struct Faults {
    missing: Group,
    altered: Group,
    /// As the wheel has them, whose RECORD is wrong.
    published: Group,
    extended: Group,
    unhashed: Group,
}

impl Faults {
    /// `is_shared`: whether a fault is that of a file of two packages, which is one fault, reported for the pair.
    fn of(distribution: &Distribution, is_shared: &dyn Fn(&FileFault) -> bool) -> Faults {
        let mut out = Faults::default();
        // conda states the hashes in records of its own.
        let conda = distribution.installer.as_deref() == Some("conda");
        for fault in distribution.faults.iter().filter(|fault| !is_shared(fault)) {
            match fault {
                FileFault::Missing(path) => out.missing.add(path, String::new()),
                FileFault::Size(path, recorded, found) => {
                    out.altered.add(path, format!(" has {found} bytes, RECORD says {recorded}"));
                }
                FileFault::Unreadable(path, why) => out.altered.add(path, format!(" cannot be read: {why}")),
                FileFault::Hash(path) => {
                    out.altered.add(path, " has a different SHA-256 than RECORD".to_owned());
                }
                // pip compiles modules when it installs them, whatever a wheel has of them.
                FileFault::AsPublished(path, ..) if path.ends_with(".pyc") => {}
                FileFault::AsPublished(path, recorded, found) => {
                    out.published.add(path, format!(" has {found} bytes, RECORD says {recorded}"));
                }
                FileFault::Extended(path, recorded, found) => {
                    let more = found - recorded;
                    out.extended.add(path, format!(" has {more} bytes more than RECORD says, appended"));
                }
                FileFault::NoHash(path) if !conda => out.unhashed.add(path, String::new()),
                FileFault::NoHash(_) | FileFault::OwnedTwice(..) => {}
            }
        }
        out
    }

    fn findings(self, name: &str, installed: &Installed) -> Vec<Finding> {
        let altered = |as_published| {
            move |group| {
                findings::altered_file(AlteredFiles::Recorded { group, name, as_published, installed })
            }
        };
        let missing = self.missing.message(name, "missing");
        let missing =
            missing.map(|group| findings::missing_file(MissingFiles::Recorded { group, name, installed }));
        let different = self.altered.message(name, "different from RECORD").map(altered(false));
        let published = self.published.message(name, "different from RECORD").map(altered(true));
        let extended = self.extended.message(name, "longer than RECORD says");
        let extended = extended.map(|group| findings::altered_file(AlteredFiles::Extended { group }));
        let unhashed = self.unhashed.message(name, "without a SHA-256 in RECORD, and not compared");
        let unhashed = unhashed
            .map(|group| findings::unreadable_record(&Unreadable::Hashes { group: &group, name, installed }));
        [missing, different, published, extended, unhashed].into_iter().flatten().collect()
    }
}

/// Two packages and the files that both record, with different contents, and that programs import.
struct Shared<'i> {
    one: &'i str,
    other: &'i str,
    files: Vec<&'i str>,
}

fn shared_files(installed: &Installed) -> Vec<Shared<'_>> {
    let mut pairs: Vec<Shared<'_>> = Vec::new();
    for distribution in &installed.distributions {
        for fault in &distribution.faults {
            let FileFault::OwnedTwice(path, other) = fault else { continue };
            match pairs.iter_mut().find(|pair| pair.one == distribution.name && pair.other == other) {
                Some(pair) => pair.files.push(path),
                None => pairs.push(Shared { one: &distribution.name, other, files: vec![path] }),
            }
        }
    }
    // A file of a third package is neither's to restore.
    let is_whole = |name: &str, path: &str| !altered_paths(name, installed).any(|altered| altered == path);
    let owners = |path: &str| -> BTreeSet<&str> {
        let of_path = pairs.iter().filter(|pair| pair.files.contains(&path));
        of_path.flat_map(|pair| [pair.one, pair.other]).collect()
    };
    let thirds: Vec<Vec<bool>> = pairs
        .iter()
        .map(|pair| {
            let is_of_pair = |path: &str| is_whole(pair.one, path) || is_whole(pair.other, path);
            let of_third =
                |path: &&str| !is_of_pair(path) && owners(path).iter().any(|name| is_whole(name, path));
            pair.files.iter().map(of_third).collect()
        })
        .collect();
    for (pair, of_third) in pairs.iter_mut().zip(thirds) {
        let mut of_third = of_third.into_iter();
        pair.files.retain(|path| {
            let is_elsewhere = of_third.next().unwrap_or(false);
            is_imported(path) && !is_elsewhere
        });
    }
    pairs
}

impl<'i> Shared<'i> {
    /// Whether a fault of a package's file comes from the other package, which has overwritten it.
    fn explains(&self, package: &str, fault: &FileFault, installed: &Installed) -> bool {
        let path = match fault {
            FileFault::Size(path, ..)
            | FileFault::AsPublished(path, ..)
            | FileFault::Extended(path, ..)
            | FileFault::Hash(path) => path,
            FileFault::OwnedTwice(..) => return true,
            FileFault::Missing(_) | FileFault::NoHash(_) | FileFault::Unreadable(..) => return false,
        };
        let of_pair = [self.one, self.other].contains(&package);
        // Altered for both, it is neither's.
        let other = if package == self.one { self.other } else { self.one };
        let is_both = || altered_paths(other, installed).any(|altered| altered == path);
        let is_shared = || {
            let faults =
                installed.distributions.iter().filter(|d| [self.one, self.other].contains(&d.name.as_str()));
            faults
                .flat_map(|d| &d.faults)
                .any(|f| matches!(f, FileFault::OwnedTwice(shared, _) if shared == path))
        };
        of_pair && is_shared() && !is_both()
    }

    fn is_altered(&self, package: &str, installed: &Installed) -> bool {
        altered_paths(package, installed).any(|path| self.files.contains(&path))
    }

    /// Which of the two to keep, and the other: the locked one; the GPU build of the same package; the newer major
    /// version; else the one whose files are in place, for nothing says that the other one is wanted.
    fn keep(&self, installed: &Installed, locked: &dyn Fn(&str) -> bool) -> (&'i str, &'i str) {
        let of = |name: &str| installed.distributions.iter().find(|d| d.name == name);
        let is_gpu_build = |name: &str, other: &str| name.strip_suffix("-gpu") == Some(other);
        // Versions of unrelated packages say nothing about each other.
        let family = |name: &str| name.split('-').next().unwrap_or(name).to_owned();
        let is_family = family(self.one) == family(self.other);
        let rank = |name: &str, other: &str| {
            let newer = of(name).filter(|_| is_family);
            let major = newer.and_then(|d| d.version.valid()?.release().first().copied());
            (locked(name), is_gpu_build(name, other), major, !self.is_altered(name, installed))
        };
        match rank(self.one, self.other) > rank(self.other, self.one) {
            true => (self.one, self.other),
            false => (self.other, self.one),
        }
    }
}

/// The files of a package that differ from its RECORD.
fn altered_paths<'i>(package: &str, installed: &'i Installed) -> impl Iterator<Item = &'i str> {
    let of = installed.distributions.iter().filter(move |d| d.name == package);
    of.flat_map(|d| &d.faults).filter_map(|fault| match fault {
        FileFault::Size(path, ..) | FileFault::AsPublished(path, ..) | FileFault::Hash(path) => {
            Some(path.as_str())
        }
        _ => None,
    })
}

/// Files with the same fault, each with a detail for the message.
#[derive(Default)]
pub(super) struct Group(Vec<(String, String)>);

impl Group {
    pub(super) fn add(&mut self, path: &str, detail: String) {
        self.0.push((clean(path, 160), detail));
    }

    /// One message for all files, libraries first; `None` for an empty group.
    pub(super) fn message(mut self, package: &str, what: &str) -> Option<FileGroup> {
        self.0.sort_by_key(|(path, _)| !path.contains(".so"));
        let first = self.0.first()?.0.clone();
        let text = match self.0.as_slice() {
            [(path, detail)] if detail.is_empty() => format!("{path} of {package} is {what}"),
            [(path, detail)] => format!("{path} of {package}{detail}"),
            many => {
                let named: Vec<String> =
                    many.iter().take(MAX_NAMED).map(|(p, d)| format!("{p}{d}")).collect();
                let more = many.len().saturating_sub(MAX_NAMED);
                let tail = if more > 0 { format!(", and {more} more") } else { String::new() };
                format!("{} files of {package} are {what}: {}{tail}", many.len(), named.join("; "))
            }
        };
        Some(FileGroup { text, first })
    }
}

pub(super) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::{Code, Severity};
    use crate::model::installed::Distribution;

    /// Two packages that record `files` with different contents; `altered` says of which package the file on disk is not.
    fn pair(files: &[&str], altered: &str) -> Installed {
        let of = |name: &str, version: &str, twice: bool| {
            let mut faults: Vec<FileFault> = Vec::new();
            for file in files {
                if name == altered {
                    faults.push(FileFault::Size((*file).into(), 1, 2));
                }
                if twice {
                    faults.push(FileFault::OwnedTwice((*file).into(), "onnxruntime".into()));
                }
            }
            Distribution {
                name: name.into(),
                version: version.into(),
                record_readable: true,
                faults,
                ..Distribution::default()
            }
        };
        Installed {
            distributions: vec![of("onnxruntime", "1.31.1", false), of("onnxruntime-gpu", "1.31.1", true)],
            ..Installed::default()
        }
    }

    #[test]
    fn a_file_of_two_packages_is_one_finding_that_keeps_the_gpu_build() {
        let files = ["onnxruntime/__init__.py", "onnxruntime/capi/x.so"];
        let broken = of_installed(&pair(&files, "onnxruntime-gpu"), &|_| true).findings;
        assert_eq!(broken.len(), 1, "{broken:#?}");
        assert_eq!(broken[0].severity, Severity::Error);
        let fix = broken[0].fix.as_ref().unwrap().to_string();
        assert_eq!(fix, "/bin/python -m pip install --force-reinstall --no-deps onnxruntime-gpu==1.31.1");
        // The GPU build is in place: worth knowing, not an error.
        let whole = of_installed(&pair(&files, "onnxruntime"), &|_| true).findings;
        assert_eq!(whole.len(), 1, "{whole:#?}");
        assert_eq!((whole[0].severity, &whole[0].fix), (Severity::Info, &None));
        // Where nothing says which one is wanted, the one in place is.
        for altered in ["onnxruntime", "opencv-python"] {
            let mut pair = pair(&["cv2/cv2.abi3.so"], altered);
            pair.distributions[1].name = "opencv-python".into();
            let finding = of_installed(&pair, &|_| true).findings.remove(0);
            let is_one = altered == "onnxruntime";
            let kept = if is_one { "of opencv-python are" } else { "of onnxruntime are" };
            assert_eq!(finding.severity, Severity::Info, "{finding:?}");
            assert!(finding.message.contains(kept), "{finding:?}");
        }
        // A newer major version decides between packages of one family alone.
        for (name, is_error) in [("onnxruntime-extra", true), ("semver", false)] {
            let mut pair = pair(&["shared.py"], name);
            pair.distributions[1].name = name.into();
            pair.distributions[1].version = "2.0".into();
            pair.distributions[1].faults.push(FileFault::Size("shared.py".into(), 1, 2));
            let severity = of_installed(&pair, &|_| true).findings[0].severity;
            assert_eq!(severity == Severity::Error, is_error, "{name}");
        }
        // What nobody imports is not a fault, whoever overwrote it.
        for altered in ["onnxruntime", "onnxruntime-gpu", ""] {
            let harmless =
                of_installed(&pair(&["build_backend.py", "tests/__init__.py"], altered), &|_| true);
            assert!(harmless.findings.is_empty(), "{:#?}", harmless.findings);
        }
        // A file that is neither's is altered.
        let mut both = pair(&files, "onnxruntime");
        both.distributions[1].faults.push(FileFault::Size(files[0].into(), 1, 2));
        let codes: Vec<Code> = of_installed(&both, &|_| true).findings.iter().map(|f| f.code).collect();
        assert!(codes.contains(&Code::AlteredFile), "{codes:?}");
    }

    #[test]
    fn a_file_of_a_third_package_is_not_restored_for_the_others() {
        let of = |name: &str, altered: bool, others: &[&str]| Distribution {
            name: name.into(),
            version: "1.0".into(),
            record_readable: true,
            faults: altered
                .then(|| FileFault::Size("cv2/x.so".into(), 1, 2))
                .into_iter()
                .chain(others.iter().map(|o| FileFault::OwnedTwice("cv2/x.so".into(), (*o).into())))
                .collect(),
            ..Distribution::default()
        };
        let distributions = vec![of("a", true, &[]), of("b", true, &["a"]), of("c", false, &["a", "b"])];
        let installed = Installed { distributions, ..Installed::default() };
        let found = of_installed(&installed, &|_| true).findings;
        assert!(found.iter().all(|f| f.severity == Severity::Info), "{found:#?}");
    }

    /// Debian strips libraries after RECORD is written, and rpm's packages have no RECORD.
    #[test]
    fn files_of_system_packages_are_not_compared() {
        let of = |installer: &str| {
            let faults = vec![FileFault::Size("yaml/_c.so".into(), 2, 1)];
            let own = Distribution {
                name: "yaml".into(),
                installer: Some(installer.into()),
                faults,
                ..Distribution::default()
            };
            let installed = Installed { distributions: vec![own], ..Installed::default() };
            let area = of_installed(&installed, &|_| true);
            (area.findings.len(), area.summary)
        };
        for installer in ["dpkg", "rpm"] {
            let expected = "files of 1 system package not compared";
            assert_eq!(of(installer), (0, expected.to_owned()));
        }
        assert_eq!(of("pip").0, 2);
    }

    #[test]
    fn many_faults_are_counted() {
        let installed = Installed {
            distributions: vec![Distribution {
                name: "a".into(),
                record_readable: true,
                faults: (0..10).map(|i| FileFault::Missing(format!("f{i}"))).collect(),
                ..Distribution::default()
            }],
            ..Installed::default()
        };
        let area = of_installed(&installed, &|_| true);
        assert_eq!(area.findings.len(), 1);
        assert_eq!(area.findings[0].message, "10 files of a are missing: f0; f1; f2, and 7 more");
        assert_eq!(thousands(1234567), "1,234,567");
    }
}
