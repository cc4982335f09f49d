//! Files that packages open or start by their path: which are missing, and which programs are not executable.

use std::path::Path;

use memchr::memmem;

use super::elf::Mapped;
use super::loader::Loader;
use super::tree::FileTree;
use crate::model::cited::Cited;
use crate::model::installed::{Distribution, FileFault, Installed};
use crate::model::native::{FileByPath, OwnLibrary, UnusableFile, WhyUnusable};

/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 20_000;

/// The files that packages open or start by their path and cannot use. A missing file that RECORD lists is reported as such,
/// and is not in the result.
pub(super) fn unusable(
    tree: &dyn FileTree,
    installed: &Installed,
    own: &[OwnLibrary],
    rows: &[Cited<FileByPath>],
) -> Vec<UnusableFile> {
    let of_row = |row: &Cited<FileByPath>| {
        let distribution = installed.distributions.iter().find(|own| own.name == row.package)?;
        // conda puts libraries and programs in folders of its own.
        let is_elsewhere =
            distribution.installer.as_deref() == Some("conda") || !distribution.record_readable;
        let site = installed.site_of(distribution);
        let wanted = wanted(row, own).filter(|_| !is_elsewhere)?;
        let fault = |path: &str, why: WhyUnusable| UnusableFile {
            package: row.package.clone(),
            path: path.to_owned(),
            why,
            file: site.join(path),
            effect: row.effect.clone(),
        };
        let Some(path) = find(tree, site, &wanted) else {
            // Not every release has each file: the opener's text says whether it opens one, or torch's CUDA version does.
            let of_opener = |opener: &String| contains_name(tree, site, opener, &wanted);
            let is_of_cuda = wanted != row.file;
            let why = if is_of_cuda { WhyUnusable::NotForCuda } else { WhyUnusable::Gone };
            let is_opened = is_of_cuda || row.named_in.as_ref().is_some_and(of_opener);
            return (is_opened && !is_recorded(distribution, &wanted)).then(|| fault(&wanted, why));
        };
        let mode = tree.about(&site.join(&path)).ok()?.mode;
        (row.program && mode & 0o111 == 0).then(|| fault(&path, WhyUnusable::NotExecutable))
    };
    rows.iter().filter_map(of_row).collect()
}

/// The files that importing a package opens by their path, and the names that these need and the loader does not find.
pub(super) fn missing_at_import(
    loader: &mut Loader<'_>,
    tree: &dyn FileTree,
    installed: &Installed,
    rows: &[Cited<FileByPath>],
) -> Vec<(String, String, Vec<String>)> {
    let mut out = Vec::new();
    for row in rows.iter().filter(|row| row.at_import) {
        let Some(distribution) = installed.distributions.iter().find(|own| own.name == row.package) else {
            continue;
        };
        let site = installed.site_of(distribution);
        let Some(path) = find(tree, site, &row.file) else { continue };
        if let Ok(at) = loader.open_file(&site.join(&path)) {
            out.push((row.package.clone(), path, loader.missing_below(at)));
        }
    }
    out
}

/// The file of a row, with the CUDA major version of torch; `None` where the row needs one and torch has none.
fn wanted(row: &FileByPath, own: &[OwnLibrary]) -> Option<String> {
    if !row.file.contains("{cuda}") {
        return Some(row.file.clone());
    }
    let of_torch = own.iter().filter(|library| library.package == "torch");
    let mut runtimes = of_torch
        .flat_map(|library| &library.library.needed)
        .filter_map(|name| name.strip_prefix("libcudart.so."));
    let major = runtimes.next()?.split('.').next()?;
    Some(row.file.replace("{cuda}", major))
}

/// The first file that a pattern matches, relative to the folder of the packages.
fn find(tree: &dyn FileTree, site: &Path, pattern: &str) -> Option<String> {
    let path = Path::new(pattern);
    let (Some((start, end)), Some(folder)) = (pattern.split_once('*'), path.parent()) else {
        return tree.exists(&site.join(path)).then(|| pattern.to_owned());
    };
    let mut names = tree.names(&site.join(folder), MAX_ENTRIES);
    names.sort();
    let paths = names.iter().map(|name| folder.join(name).to_string_lossy().into_owned());
    let is_it = |path: &String| {
        path.len() >= start.len() + end.len() && path.starts_with(start) && path.ends_with(end)
    };
    paths.into_iter().find(is_it)
}

/// Whether a file that is there has the name of another in it. The name ends where a pattern has `*`.
fn contains_name(tree: &dyn FileTree, site: &Path, opener: &str, wanted: &str) -> bool {
    let Some(opener) = find(tree, site, opener) else { return false };
    let Ok(mapped) = Mapped::open(tree, &site.join(opener)) else { return false };
    let name = wanted.rsplit('/').next().unwrap_or(wanted);
    let name = name.split('*').next().unwrap_or(name);
    let bytes = mapped.bytes();
    mapped.read_ahead((0, bytes.len()));
    memmem::find(bytes, name.as_bytes()).is_some()
}

/// Whether RECORD lists the file and it is missing.
fn is_recorded(distribution: &Distribution, wanted: &str) -> bool {
    let start = wanted.split('*').next().unwrap_or(wanted);
    distribution
        .faults
        .iter()
        .any(|fault| matches!(fault, FileFault::Missing(path) if path.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use std::path::PathBuf;

    use super::*;
    use crate::model::evidence::Evidence;
    use crate::model::library::Library;

    #[test]
    fn a_missing_file_is_reported_if_its_opener_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        let row = |file: &str, named_in: Option<&str>, program: bool| FileByPath {
            package: "x".to_owned(),
            file: file.to_owned(),
            named_in: named_in.map(str::to_owned),
            program,
            at_import: false,
            effect: "it fails".to_owned(),
        };
        let installed = Installed {
            site_packages: dir.path().to_path_buf(),
            distributions: vec![Distribution {
                name: "x".to_owned(),
                record_readable: true,
                faults: vec![FileFault::Missing("x/told.so.1".to_owned())],
                ..Distribution::default()
            }],
            ..Installed::default()
        };
        write("x/libmain.so.13", &"opens libpart-13.so.13.2 ".repeat(4));
        write("x/bin/tool", "");
        write("x/x_cuda128.so", "");
        let torch = |needed: &str| OwnLibrary {
            package: "torch".to_owned(),
            file: PathBuf::new(),
            library: Library { needed: vec![needed.to_owned()], ..Library::default() },
        };
        let found = |row: FileByPath, own: &[OwnLibrary]| {
            let rows = [Cited::new(row, Evidence::Measured, Vec::new())];
            let found = unusable(&ThisMachine, &installed, own, &rows);
            found.first().map(|fault| (fault.path.clone(), fault.why))
        };
        let gone = |path: &str| Some((path.to_owned(), WhyUnusable::Gone));
        assert_eq!(
            found(row("x/libpart-13.so.*", Some("x/libmain.so.*"), false), &[]),
            gone("x/libpart-13.so.*")
        );
        assert_eq!(found(row("x/libother.so", Some("x/libmain.so.*"), false), &[]), None);
        assert_eq!(found(row("x/libpart-13.so.*", Some("x/absent.so"), false), &[]), None);
        assert_eq!(found(row("x/told.so.*", None, false), &[]), None);
        assert_eq!(
            found(row("x/bin/tool", None, true), &[]),
            Some(("x/bin/tool".to_owned(), WhyUnusable::NotExecutable))
        );
        assert_eq!(found(row("x/x_cuda{cuda}*.so", None, false), &[torch("libcudart.so.12")]), None);
        assert_eq!(
            found(row("x/x_cuda{cuda}*.so", None, false), &[torch("libcudart.so.13")]),
            Some(("x/x_cuda13*.so".to_owned(), WhyUnusable::NotForCuda))
        );
        assert_eq!(found(row("x/x_cuda{cuda}*.so", None, false), &[]), None);
    }
}
