//! Packages that an environment's Python can import although they are not in its site-packages with RECORD: those of the
//! base Python of a venv with system packages, of the user's site-packages, of folders in `.pth` files and `PYTHONPATH`, and
//! `.egg-info` and `.egg-link` installations. Only their names and versions are read.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::prefix::{setting, with_system_packages};
use super::tree::FileTree;
use crate::model::installed::{Installed, Visible};
use crate::model::text::{clean, normalized_name};

/// Maximum size of a text file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of folders that are listed.
const MAX_FOLDERS: usize = 200;
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 100_000;

/// The packages, sorted by name; the first folder on Python's path wins. Packages in the environment's own site-packages
/// with a `.dist-info` folder are left out.
pub fn visible(
    tree: &dyn FileTree,
    installed: &Installed,
    root: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Visible> {
    let mut out: BTreeMap<String, Visible> = BTreeMap::new();
    let own: HashSet<&str> = installed.distributions.iter().map(|d| d.name.as_str()).collect();
    let mut add = |(name, version): (String, String), folder: &Path, dist_info: Option<String>| {
        if !own.contains(name.as_str()) && !name.is_empty() {
            let (version, folder) = (version.as_str().into(), folder.to_path_buf());
            out.entry(name.clone()).or_insert(Visible { name, version, folder, dist_info });
        }
    };
    let sites = installed.sites();
    for folder in folders(tree, installed, root, variable).into_iter().take(MAX_FOLDERS) {
        let is_own = sites.contains(&folder.as_path());
        // An `.egg` folder is on Python's path itself.
        if let Some(found) = egg_info(tree, &folder.join("EGG-INFO"), "") {
            add(found, &folder, None);
        }
        for name in tree.names(&folder, MAX_ENTRIES) {
            let found = match name.rsplit_once('.') {
                Some((stem, "dist-info")) if !is_own => named(stem),
                Some((stem, "egg-info")) => egg_info(tree, &folder.join(&name), stem),
                _ => None,
            };
            if let Some(found) = found {
                let dist_info = name.ends_with(".dist-info").then(|| name.clone());
                add(found, &folder, dist_info);
            }
        }
    }
    out.into_values().collect()
}

/// The folders on Python's path, first `PYTHONPATH`, then the environment's, the user's, the base Python's.
fn folders(
    tree: &dyn FileTree,
    installed: &Installed,
    root: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<PathBuf> {
    let named = variable("PYTHONPATH").unwrap_or_default();
    let mut out: Vec<PathBuf> = named.split(':').filter(|f| !f.is_empty()).map(PathBuf::from).collect();
    out.push(installed.site_packages.clone());
    out.extend(added(tree, &installed.site_packages));
    let prefix = Path::new(&installed.prefix);
    let is_open = !tree.is_file(&prefix.join("pyvenv.cfg")) || with_system_packages(tree, prefix);
    let Some(python) = installed.python.filter(|_| is_open) else { return out };
    if variable("PYTHONNOUSERSITE").is_none_or(|v| v.is_empty())
        && let Some(home) = variable("HOME")
    {
        let base = variable("PYTHONUSERBASE").filter(|base| !base.is_empty());
        let base = base.map_or_else(|| PathBuf::from(home).join(".local"), PathBuf::from);
        out.push(base.join(format!("lib/python{python}/site-packages")));
    }
    // Without pyvenv.cfg it is the base Python itself, which may have several folders.
    let base = match setting(tree, prefix, "home") {
        Some(home) => PathBuf::from(home).parent().map(Path::to_path_buf),
        None => Some(prefix.to_path_buf()),
    };
    for base in base.into_iter().map(|base| under(tree, root, &base)) {
        for place in [
            format!("local/lib/python{python}/dist-packages"),
            format!("local/lib/python{python}/site-packages"),
            format!("local/lib64/python{python}/site-packages"),
            "lib/python3/dist-packages".to_owned(),
            format!("lib/python{python}/dist-packages"),
            format!("lib/python{python}/site-packages"),
            format!("lib64/python{python}/site-packages"),
        ] {
            let folder = base.join(place);
            if folder != installed.site_packages {
                out.extend(added(tree, &folder));
                out.push(folder);
            }
        }
    }
    out
}

/// A folder of the base Python below the root of the file system; test roots are not `/`.
fn under(tree: &dyn FileTree, root: &Path, folder: &Path) -> PathBuf {
    let inside = root.join(folder.strip_prefix("/").unwrap_or(folder));
    if tree.is_folder(&inside) { inside } else { folder.to_path_buf() }
}

/// The folders that the `.pth` and `.egg-link` files of a folder add to Python's path.
pub(super) fn added(tree: &dyn FileTree, site: &Path) -> Vec<PathBuf> {
    let names = tree.names(site, MAX_ENTRIES).into_iter();
    let mut files: Vec<PathBuf> = names.map(|name| site.join(name)).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "pth" || e == "egg-link"));
    files.sort();
    let mut out = Vec::new();
    for (file, text) in files.iter().filter_map(|file| Some((file, tree.text(file, MAX_FILE)?))) {
        // The second line of an `.egg-link` file is the way back.
        let count = if file.extension().is_some_and(|e| e == "egg-link") { 1 } else { MAX_FOLDERS };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let folders = lines.filter(|line| !line.starts_with("import ") && !line.starts_with("import\t"));
        out.extend(folders.take(count).map(|line| site.join(line)).filter(|folder| tree.is_folder(folder)));
    }
    out
}

/// The name and version of an `.egg-info` folder or file: from PKG-INFO, else from its name.
pub(super) fn egg_info(tree: &dyn FileTree, path: &Path, stem: &str) -> Option<(String, String)> {
    let file = if tree.is_folder(path) { path.join("PKG-INFO") } else { path.to_path_buf() };
    let text = tree.text(&file, MAX_FILE).unwrap_or_default();
    // The header of a message ends at the first empty line.
    let header = |key: &str| {
        let lines = text.lines().take_while(|line| !line.is_empty());
        lines.filter_map(|line| line.strip_prefix(key)).map(|value| clean(value.trim(), 100)).next()
    };
    match (header("Name:"), header("Version:")) {
        (Some(name), Some(version)) => Some((normalized_name(&name), version)),
        _ => named(stem),
    }
}

/// The version and the folder of what an `.egg-link` file leads to: a project that was installed to be developed.
pub(super) fn egg_link(tree: &dyn FileTree, path: &Path, stem: &str) -> Option<(String, PathBuf)> {
    let text = tree.text(path, MAX_FILE)?;
    let folder = path.parent()?.join(text.lines().next()?.trim());
    let names = tree.names(&folder, MAX_ENTRIES).into_iter();
    let mut infos = names.filter(|name| name.ends_with(".egg-info"));
    let own = infos.find_map(|name| {
        let (package, version) = egg_info(tree, &folder.join(&name), name.strip_suffix(".egg-info")?)?;
        (package == normalized_name(stem)).then_some(version)
    });
    Some((own.unwrap_or_default(), folder))
}

/// The name and version in the name of a metadata folder: `numpy-2.1.0`, `numpy-2.1.0-py3.12`.
fn named(stem: &str) -> Option<(String, String)> {
    let (name, rest) = stem.split_once('-')?;
    let version = rest.split_once("-py").map_or(rest, |(version, _)| version);
    Some((normalized_name(name), clean(version, 100)))
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;
    use crate::model::wheel::Python;

    #[test]
    fn packages_of_the_base_python_and_of_other_folders() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let base = dir.path().join("base");
        let config = |system: &str| {
            let home = base.join("bin").display().to_string();
            write("env/pyvenv.cfg", &format!("home = {home}\nInclude-System-Site-Packages = {system}\n"));
        };
        write("env/lib/python3.12/site-packages/own-1.0.dist-info/METADATA", "");
        write(
            "env/lib/python3.12/site-packages/old-1.2-py3.12.egg-info",
            "Metadata-Version: 1.1\nName: Old\nVersion: 1.2\n",
        );
        write(
            "env/lib/python3.12/site-packages/dev.egg-link",
            &format!("{}\n.", dir.path().join("src").display()),
        );
        write("src/dev.egg-info/PKG-INFO", "Name: dev\nVersion: 3.0\n\nVersion: 9\n");
        write("base/lib/python3/dist-packages/numpy-1.26.4.dist-info/METADATA", "");
        write("base/lib/python3.12/site-packages/numpy-2.0.0.dist-info/METADATA", "");
        write("base/lib/python3.12/site-packages/own-0.5.dist-info/METADATA", "");
        let seen = || -> Vec<String> {
            let installed = Installed {
                prefix: dir.path().join("env").display().to_string(),
                site_packages: dir.path().join("env/lib/python3.12/site-packages"),
                python: Some(Python::new(12)),
                distributions: vec![crate::model::installed::Distribution {
                    name: "own".to_owned(),
                    ..Default::default()
                }],
                ..Installed::default()
            };
            let found = visible(&ThisMachine, &installed, Path::new("/"), &|_| None);
            found.iter().map(|v| format!("{} {}", v.name, v.version)).collect()
        };
        config("false");
        assert_eq!(seen(), ["dev 3.0", "old 1.2"]);
        config("true");
        assert_eq!(seen(), ["dev 3.0", "numpy 1.26.4", "old 1.2"]);
    }
}
