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
    /// A folder of packages cannot be listed, with the reason.
    #[error("`{0}` cannot be read: {1}")]
    Unreadable(String, String),
    /// It has more packages than the limit.
    #[error("`{0}` has more than {1} installed packages, which is the limit")]
    TooMany(String, usize),
    /// Its packages have more requirements than the limit.
    #[error("the packages of `{0}` have more than {1} requirements, which is the limit")]
    TooManyRequirements(String, usize),
}

/// The folders of an environment that packages are installed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sites {
    /// Its site-packages; of several, the one with the packages for its Python.
    pub main: PathBuf,
    /// Those that Python searches after it: where a system has `lib` and `lib64`, packages with and without machine code are
    /// apart.
    pub others: Vec<PathBuf>,
    /// Its Python series, if known.
    pub python: Option<Python>,
}

/// The Python series of an environment, by its files; `None` if it is none, or they do not tell.
pub fn python_of(tree: &dyn FileTree, prefix: &Path) -> Option<Python> {
    sites(tree, prefix).ok()?.python
}

/// The site-packages folders and the Python series of an environment.
///
/// # Errors
/// When the folder is none, or has no site-packages.
pub(super) fn sites(tree: &dyn FileTree, prefix: &Path) -> Result<Sites, PrefixError> {
    let shown = || prefix.display().to_string();
    if !tree.is_folder(prefix) {
        return Err(PrefixError::NoFolder(shown()));
    }
    let windows = prefix.join("Lib").join("site-packages");
    if tree.is_folder(&windows) {
        return Ok(Sites { main: windows, others: Vec::new(), python: configured_python(tree, prefix) });
    }
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    let mut linked: Vec<(u32, PathBuf)> = Vec::new();
    for lib in ["lib", "lib64", "local/lib", "local/lib64"] {
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
                if !tree.is_folder(&folder) || !belongs(tree, prefix, &folder, minor) {
                    continue;
                }
                let is_linked = tree.is_link(&lib.join(&name)) || tree.is_link(&lib);
                if is_linked { &mut linked } else { &mut found }.push((minor, folder));
            }
        }
    }
    // Conda links `python3.1` to the real folder, venvs link lib64 to lib: a link counts where the folder lies elsewhere.
    for (minor, folder) in linked {
        let real = tree.real(&folder).ok();
        if !found.iter().any(|(_, known)| tree.real(known).ok() == real) {
            found.push((minor, folder));
        }
    }
    let configured = configured_python(tree, prefix).or_else(|| interpreter(tree, prefix));
    // The packages that Debian's Python has in `/usr/local` are for the Python of `/usr`.
    let of_usr =
        || prefix.parent().filter(|_| prefix.ends_with("local")).and_then(|usr| interpreter(tree, usr));
    let configured = configured.or_else(of_usr).map(|python| python.minor);
    // A folder without packages is what an installation of Debian's Python leaves.
    found.sort_by_cached_key(|(minor, folder)| (found::has_packages(tree, folder), *minor));
    let of_python = found.iter().rfind(|(minor, _)| configured == Some(*minor));
    let (minor, main) = of_python.or(found.last()).ok_or_else(|| PrefixError::NoSitePackages(shown()))?;
    let beside = |folder: &Path| {
        let swapped = |from: &str, to: &str| {
            let path =
                main.to_string_lossy().replacen(&format!("/{from}/python"), &format!("/{to}/python"), 1);
            Path::new(&path) == folder
        };
        swapped("lib", "lib64") || swapped("lib64", "lib")
    };
    let others = found.iter().filter(|(series, folder)| series == minor && folder != main && beside(folder));
    let others = others.map(|(_, folder)| folder.clone()).collect();
    Ok(Sites { main: main.clone(), others, python: Some(Python::new(*minor)) })
}

/// Whether a folder of packages is one that the Python of a prefix searches. Only Debian's Python, in `/usr`, searches
/// `dist-packages`, also those in `/usr/local`; a Python that was built in `/usr/local` has its own `site-packages` there.
fn belongs(tree: &dyn FileTree, prefix: &Path, folder: &Path, minor: u32) -> bool {
    let has_python = |prefix: &Path| tree.is_file(&prefix.join(format!("bin/python3.{minor}")));
    let is_of_debian = folder.ends_with("dist-packages");
    let local = prefix.join("local");
    if prefix.ends_with("local") {
        return !(is_of_debian && has_python(prefix));
    }
    !(folder.starts_with(&local) && !is_of_debian && has_python(&local))
}

/// The site-packages folder of an environment; `None` if it has none.
pub fn site_packages_of(tree: &dyn FileTree, prefix: &Path) -> Option<PathBuf> {
    sites(tree, prefix).ok().map(|sites| sites.main)
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
        assert!(matches!(sites(&ThisMachine, &dir.path().join("x")), Err(PrefixError::NoFolder(_))));
        assert!(matches!(sites(&ThisMachine, dir.path()), Err(PrefixError::NoSitePackages(_))));
        fs_err::create_dir_all(dir.path().join("lib/python3.9/site-packages")).unwrap();
        fs_err::create_dir_all(dir.path().join("lib/python3.12/site-packages")).unwrap();
        assert_eq!(sites(&ThisMachine, dir.path()).unwrap().python, Some(Python::new(12)));
        fs_err::write(dir.path().join("pyvenv.cfg"), "home = /usr\nversion = 3.9.2\n").unwrap();
        assert_eq!(sites(&ThisMachine, dir.path()).unwrap().python, Some(Python::new(9)));
    }
}
