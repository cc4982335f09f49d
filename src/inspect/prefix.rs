//! Finds a Python environment's site-packages and Python version.

use std::path::{Path, PathBuf};

use super::found;
use super::tree::FileTree;
use crate::model::wheel::Python;

/// Maximum size of pyvenv.cfg, in bytes.
const MAX_CONFIG: u64 = 1 << 16;
/// Maximum number of entries of a library folder.
const MAX_ENTRIES: usize = 100_000;

/// Why a folder is not a Python environment.
#[derive(Debug, thiserror::Error)]
pub enum PrefixError {
    /// It does not exist or is not a folder.
    #[error("`{0}` is not a folder")]
    NoFolder(String),
    /// It has no site-packages.
    #[error("`{0}` is not a Python environment: it has no site-packages")]
    NoSitePackages(String),
    /// It has more packages than the limit.
    #[error("`{0}` has more than {1} installed packages, which is the limit")]
    TooMany(String, usize),
}

/// The site-packages folder and the Python version, if known.
pub(super) fn site_packages(
    tree: &dyn FileTree,
    prefix: &Path,
) -> Result<(PathBuf, Option<Python>), PrefixError> {
    let shown = || prefix.display().to_string();
    if !tree.is_folder(prefix) {
        return Err(PrefixError::NoFolder(shown()));
    }
    let windows = prefix.join("Lib").join("site-packages");
    if tree.is_folder(&windows) {
        return Ok((windows, configured_python(tree, prefix)));
    }
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for lib in ["lib", "lib64", "local/lib"] {
        let lib = prefix.join(lib);
        for name in tree.names(&lib, MAX_ENTRIES) {
            let of_debian = || {
                (name == "python3" && lib == prefix.join("lib")).then(|| interpreter(tree, prefix)).flatten()
            };
            let minor = name.strip_prefix("python3.").and_then(|m| m.parse::<u32>().ok());
            // Debian's packages for its one Python are in `python3`.
            let Some(minor) = minor.or_else(|| Some(of_debian()?.minor)) else { continue };
            for packages in ["site-packages", "dist-packages"] {
                let folder = lib.join(&name).join(packages);
                // Skips symlinks: conda links `python3.1` to the real folder, venvs link lib64 to lib.
                let linked = tree.is_link(&lib.join(&name)) || tree.is_link(&lib);
                if !linked && tree.is_folder(&folder) {
                    found.push((minor, folder));
                }
            }
        }
    }
    let configured = configured_python(tree, prefix).or_else(|| interpreter(tree, prefix)).map(|p| p.minor);
    // A folder without packages is what an installation of Debian's Python leaves.
    found.sort_by_cached_key(|(minor, folder)| (found::has_packages(tree, folder), *minor));
    let of_python = found.iter().rfind(|(minor, _)| configured == Some(*minor));
    of_python
        .or(found.last())
        .map(|(minor, folder)| (folder.clone(), Some(Python::new(*minor))))
        .ok_or_else(|| PrefixError::NoSitePackages(shown()))
}

/// The site-packages folder of an environment; `None` if it has none.
pub fn site_packages_of(tree: &dyn FileTree, prefix: &Path) -> Option<PathBuf> {
    site_packages(tree, prefix).ok().map(|(folder, _)| folder)
}

/// The series of the interpreter that `bin/python` leads to, by its file name: `/usr/bin/python3.12`.
pub(super) fn interpreter(tree: &dyn FileTree, prefix: &Path) -> Option<Python> {
    ["bin/python", "bin/python3"].iter().find_map(|python| {
        let file = tree.real(&prefix.join(python)).ok()?;
        let name = file.file_name()?.to_str()?;
        let name = name.strip_prefix("platform-").unwrap_or(name);
        let minor: String = name.strip_prefix("python3.")?.chars().take_while(char::is_ascii_digit).collect();
        Some(Python::new(minor.parse().ok()?))
    })
}

/// The patch release that pyvenv.cfg states: 9 of `version = 3.11.9`.
pub(super) fn patch(tree: &dyn FileTree, prefix: &Path) -> Option<u32> {
    configured_version(tree, prefix)?.split('.').nth(2)?.parse().ok()
}

/// The Python version in pyvenv.cfg.
fn configured_python(tree: &dyn FileTree, prefix: &Path) -> Option<Python> {
    let version = configured_version(tree, prefix)?;
    let mut parts = version.split('.');
    (parts.next()? == "3").then_some(())?;
    Some(Python::new(parts.next()?.parse().ok()?))
}

fn configured_version(tree: &dyn FileTree, prefix: &Path) -> Option<String> {
    setting(tree, prefix, "version").or_else(|| setting(tree, prefix, "version_info"))
}

/// Whether a venv also uses the packages of the base Python.
pub(super) fn with_system_packages(tree: &dyn FileTree, prefix: &Path) -> bool {
    setting(tree, prefix, "include-system-site-packages")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// A value in pyvenv.cfg. Python compares the keys without regard to case.
pub(super) fn setting(tree: &dyn FileTree, prefix: &Path, key: &str) -> Option<String> {
    let text = tree.text(&prefix.join("pyvenv.cfg"), MAX_CONFIG)?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case(key).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;

    #[test]
    fn environments_and_other_folders() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(site_packages(&ThisMachine, &dir.path().join("x")), Err(PrefixError::NoFolder(_))));
        assert!(matches!(site_packages(&ThisMachine, dir.path()), Err(PrefixError::NoSitePackages(_))));
        fs_err::create_dir_all(dir.path().join("lib/python3.9/site-packages")).unwrap();
        fs_err::create_dir_all(dir.path().join("lib/python3.12/site-packages")).unwrap();
        assert_eq!(site_packages(&ThisMachine, dir.path()).unwrap().1, Some(Python::new(12)));
        fs_err::write(dir.path().join("pyvenv.cfg"), "home = /usr\nversion = 3.9.2\n").unwrap();
        assert_eq!(site_packages(&ThisMachine, dir.path()).unwrap().1, Some(Python::new(9)));
    }
}
