//! What is inside a package: the files and the bills that it brings along, put together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Identified, Stated};

/// A library or another part inside a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its project.
    pub name: String,
    /// Its release, the best known.
    pub version: Option<String>,
    /// What said the release: `content`, `file name`, `sboms/auditwheel.cdx.json`. Two of them confirm each other.
    pub sources: Vec<String>,
    /// The files in the package.
    pub files: Vec<String>,
    /// Whether it is linked into a module.
    pub is_static: bool,
    /// Vendor and product in the National Vulnerability Database.
    pub cpe: Option<String>,
    /// The package URL that a bill states.
    pub purl: Option<String>,
    /// The licence that a bill states.
    pub licence: Option<String>,
}

/// Puts together what files of a package are and what its bills state. Files of one project and release are one part.
pub fn parts(files: Vec<Identified>, bills: &[Stated]) -> Vec<Part> {
    let mut by_project: BTreeMap<(String, bool), Vec<Identified>> = BTreeMap::new();
    for file in files {
        by_project.entry((file.name.clone(), file.is_static)).or_default().push(file);
    }
    let mut used = vec![false; bills.len()];
    let mut out = Vec::new();
    for ((name, is_static), files) in by_project {
        let stated: Vec<usize> = (0..bills.len()).filter(|at| is_same(&files[0], &bills[*at])).collect();
        // Several releases of one project in a package are told apart by their files.
        let mut releases: BTreeMap<Option<String>, Vec<&Identified>> = BTreeMap::new();
        let folder = |file: &Identified| file.file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let only = |of_folder: Option<&Identified>| {
            let near = files.iter().filter(|file| of_folder.is_none_or(|own| folder(own) == folder(file)));
            let all: BTreeSet<&String> =
                near.filter_map(|file| file.versions.first()).map(|(version, _)| version).collect();
            (all.len() == 1).then(|| all.into_iter().next().cloned()).flatten()
        };
        for file in &files {
            let own = file.versions.first().map(|(version, _)| version.clone());
            // A library that says nothing is of the release of the others of its project, those beside it first.
            let of_others = || only(Some(file)).or_else(|| only(None));
            releases.entry(own.or_else(of_others)).or_default().push(file);
        }
        for (version, files) in releases {
            let all = || files.iter().flat_map(|file| &file.versions);
            let agrees =
                |other: &str| version.as_deref().is_none_or(|version| is_same_release(version, other));
            let mut sources: Vec<String> =
                all().filter(|(other, _)| agrees(other)).map(|(_, from)| (*from).to_owned()).collect();
            sources.sort_unstable();
            sources.dedup();
            let fitting = stated
                .iter()
                .copied()
                .find(|at| bills[*at].version.as_deref().is_some_and(|other| agrees(upstream(other))));
            // A bill has an entry for each file: of fewer entries than files nobody knows which of them it means.
            let fitting = fitting.filter(|_| version.is_some() || files.len() <= stated.len());
            if fitting.is_some() {
                stated.iter().for_each(|at| used[*at] = true);
            }
            let bill = fitting.map(|at| &bills[at]);
            sources.extend(bill.map(|bill| bill.bill.clone()));
            let release = bill.and_then(|bill| bill.version.as_deref()).map(upstream).unwrap_or_default();
            for (from, all) in files.iter().flat_map(|file| &file.possible) {
                if all.contains(release) && !sources.iter().any(|own| own == from) {
                    sources.push((*from).to_owned());
                }
            }
            let of_bill = || bill.and_then(|bill| bill.version.as_deref()).map(|v| upstream(v).to_owned());
            out.push(Part {
                name: name.clone(),
                version: version.or_else(of_bill),
                sources,
                files: files.iter().map(|file| file.file.clone()).collect(),
                is_static,
                cpe: files[0].cpe.clone(),
                purl: bill.and_then(|bill| bill.purl.clone()),
                licence: bill.and_then(|bill| bill.licence.clone()),
            });
        }
    }
    let rest = bills.iter().zip(used).filter(|(_, used)| !used).map(|(bill, _)| bill);
    let mut others: Vec<Part> = rest.map(of_bill).collect();
    others.sort_by(|a, b| (&a.name, &a.version, &a.purl).cmp(&(&b.name, &b.version, &b.purl)));
    others.dedup_by(|a, b| (&a.name, &a.version, &a.purl) == (&b.name, &b.version, &b.purl));
    out.extend(others);
    out
}

/// What only a bill states.
fn of_bill(bill: &Stated) -> Part {
    Part {
        name: bill.name.clone(),
        version: bill.version.clone(),
        sources: vec![bill.bill.clone()],
        files: Vec::new(),
        is_static: false,
        cpe: None,
        purl: bill.purl.clone(),
        licence: bill.licence.clone(),
    }
}

/// Whether a bill means the project of a file.
fn is_same(file: &Identified, bill: &Stated) -> bool {
    let stated = bill.name.to_ascii_lowercase();
    let bare = |name: &str| name.strip_prefix("lib").unwrap_or(name).to_ascii_lowercase();
    bare(&file.name) == bare(&stated) || file.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(&stated))
}

/// The release of the project in the version of a distribution's package: `1.1.1k` of `1:1.1.1k-15.el8_6`.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.split(['-', '~']).next().unwrap_or(version)
}

/// Whether two texts are of one release: equal, or one more exact than the other.
fn is_same_release(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    short == long || long.strip_prefix(short).is_some_and(|rest| rest.starts_with(['.', '-', '+', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, file: &str, versions: &[(&str, &'static str)]) -> Identified {
        Identified {
            name: name.to_owned(),
            is_known: true,
            file: file.to_owned(),
            is_static: false,
            versions: versions.iter().map(|(version, from)| ((*version).to_owned(), *from)).collect(),
            possible: Vec::new(),
            cpe: None,
            aliases: vec![format!("{name}-libs")],
        }
    }

    fn bill(name: &str, version: &str) -> Stated {
        Stated {
            name: name.to_owned(),
            version: Some(version.to_owned()),
            purl: None,
            licence: None,
            bill: "b".to_owned(),
        }
    }

    #[test]
    fn files_and_bills_confirm_each_other() {
        let files = vec![
            file("openssl", "libcrypto", &[("1.1.1k", "content"), ("1.1.1", "file name")]),
            file("openssl", "libssl", &[]),
            file("libpng", "a", &[("1.6.34", "file name")]),
            file("libpng", "b", &[("1.6.58", "file name")]),
            file("libXau", "x", &[]),
        ];
        let bills = [
            bill("openssl-libs", "1:1.1.1k-15.el8_6"),
            bill("libpng", "1.6.34-9.el8"),
            bill("libxau", "1.0.9-3.el8"),
            bill("other", "2"),
            bill("other", "2"),
        ];
        let found = parts(files, &bills);
        let shown: Vec<String> = found
            .iter()
            .map(|part| {
                let version = part.version.as_deref().unwrap_or("-");
                format!("{} {version} [{}] {}", part.name, part.sources.join(","), part.files.join(","))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "libXau 1.0.9 [b] x",
                "libpng 1.6.34 [file name,b] a",
                "libpng 1.6.58 [file name] b",
                "openssl 1.1.1k [content,b] libcrypto,libssl",
                "other 2 [b] ",
            ]
        );
    }
}
