//! Finds a Python environment's site-packages and Python version.

use std::path::{Path, PathBuf};

use super::text_file::text_file;
use crate::model::wheel::Python;

/// Maximum size of pyvenv.cfg, in bytes.
const MAX_CONFIG: u64 = 1 << 16;

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
pub(super) fn site_packages(prefix: &Path) -> Result<(PathBuf, Option<Python>), PrefixError> {
    let shown = || prefix.display().to_string();
    if !prefix.is_dir() {
        return Err(PrefixError::NoFolder(shown()));
    }
    let windows = prefix.join("Lib").join("site-packages");
    if windows.is_dir() {
        return Ok((windows, configured_python(prefix)));
    }
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for lib in ["lib", "lib64", "local/lib"] {
        let Ok(entries) = fs_err::read_dir(prefix.join(lib)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(minor) = name.strip_prefix("python3.").and_then(|m| m.parse::<u32>().ok()) else {
                continue;
            };
            for packages in ["site-packages", "dist-packages"] {
                let folder = entry.path().join(packages);
                // Skips symlinks: conda links `python3.1` to the real folder, venvs link lib64 to lib.
                let linked = entry.path().is_symlink() || prefix.join(lib).is_symlink();
                if folder.is_dir() && !linked {
                    found.push((minor, folder));
                }
            }
        }
    }
    let configured = configured_python(prefix).map(|p| p.minor);
    found.sort();
    found
        .iter()
        .find(|(minor, _)| configured == Some(*minor))
        .or(found.last())
        .map(|(minor, folder)| (folder.clone(), Some(Python::new(*minor))))
        .ok_or_else(|| PrefixError::NoSitePackages(shown()))
}

/// The series of the interpreter that `bin/python` leads to, by its file name: `/usr/bin/python3.12`.
pub(super) fn interpreter(prefix: &Path) -> Option<Python> {
    let file = std::fs::canonicalize(prefix.join("bin/python")).ok()?;
    let name = file.file_name()?.to_str()?;
    let minor: String = name.strip_prefix("python3.")?.chars().take_while(char::is_ascii_digit).collect();
    Some(Python::new(minor.parse().ok()?))
}

/// The patch release that pyvenv.cfg states: 9 of `version = 3.11.9`.
pub(super) fn patch(prefix: &Path) -> Option<u32> {
    configured_version(prefix)?.split('.').nth(2)?.parse().ok()
}

/// The Python version in pyvenv.cfg.
fn configured_python(prefix: &Path) -> Option<Python> {
    let version = configured_version(prefix)?;
    let mut parts = version.split('.');
    (parts.next()? == "3").then_some(())?;
    Some(Python::new(parts.next()?.parse().ok()?))
}

fn configured_version(prefix: &Path) -> Option<String> {
    setting(prefix, "version").or_else(|| setting(prefix, "version_info"))
}

/// Whether a venv also uses the packages of the base Python.
pub(super) fn with_system_packages(prefix: &Path) -> bool {
    setting(prefix, "include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// A value in pyvenv.cfg. Python compares the keys without regard to case.
pub(super) fn setting(prefix: &Path, key: &str) -> Option<String> {
    let text = text_file(&prefix.join("pyvenv.cfg"), MAX_CONFIG)?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case(key).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_and_other_folders() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(site_packages(&dir.path().join("x")), Err(PrefixError::NoFolder(_))));
        assert!(matches!(site_packages(dir.path()), Err(PrefixError::NoSitePackages(_))));
        fs_err::create_dir_all(dir.path().join("lib/python3.9/site-packages")).unwrap();
        fs_err::create_dir_all(dir.path().join("lib/python3.12/site-packages")).unwrap();
        assert_eq!(site_packages(dir.path()).unwrap().1, Some(Python::new(12)));
        fs_err::write(dir.path().join("pyvenv.cfg"), "home = /usr\nversion = 3.9.2\n").unwrap();
        assert_eq!(site_packages(dir.path()).unwrap().1, Some(Python::new(9)));
    }
}
