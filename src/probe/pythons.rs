//! Finds Pythons and installers on this machine. Used by `sync`, which runs what it finds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ask;
use crate::model::patches::WantedPython;
use crate::model::wheel::Python;

/// Prints what a Python is: implementation, version, and the ABI flags, which have a `t` without the global interpreter
/// lock.
const WHO: &str = "import sys; v = sys.version_info; \
                   print(sys.implementation.name, '%d.%d.%d' % v[:3], getattr(sys, 'abiflags', '') or '-')";

/// Where programs are looked for.
pub struct Places<'p> {
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Reads an environment variable.
    pub variable: &'p dyn Fn(&str) -> Option<String>,
}

impl Places<'_> {
    /// The same places without the folders of `PATH` that lie below a folder, or are relative.
    pub fn outside(&self, folder: &Path) -> Self {
        let is_outside = |path: &PathBuf| is_outside(path, folder);
        Self {
            path: self.path.iter().filter(|path| is_outside(path)).cloned().collect(),
            home: self.home.clone(),
            variable: self.variable,
        }
    }

    /// The path in an environment variable.
    fn named_by(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// A path below the user's home folder.
    fn below_home(&self, path: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(path))
    }
}

/// Whether a path leads to a place that is not below a folder, links followed.
fn is_outside(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    path.is_absolute() && !real(path).starts_with(real(folder))
}

/// An interpreter and what it said it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPython {
    /// Its path.
    pub path: PathBuf,
    /// Its series and patch release.
    pub version: Python,
}

/// A CPython that is wanted, by running those that are found: on `PATH`, of uv, pyenv and conda.
pub fn python(places: &Places<'_>, wanted: WantedPython) -> Option<FoundPython> {
    let mut candidates = candidates(places, wanted.python.minor).into_iter();
    candidates.find_map(|path| who(&path).filter(|found| wanted.allows(found.version)))
}

/// The series (3.N) of the Pythons on `PATH`, of uv and of pyenv, by their file names: none is run.
pub fn series(places: &Places<'_>) -> BTreeSet<u32> {
    let on_path = folders(places)
        .flat_map(|folder| MINORS.map(move |minor| folder.join(program(&format!("python3.{minor}")))));
    let of_installers = installers(places).into_iter().flat_map(|(folder, _)| newest_first(&folder, ""));
    let series_of = |path: PathBuf| -> Option<u32> {
        // Links such as `python` lead to the file that is called by its series.
        let file = std::fs::canonicalize(path).ok()?;
        let name = file.file_name()?.to_str()?.strip_suffix(std::env::consts::EXE_SUFFIX)?;
        name.strip_prefix("python3.")?.parse().ok()
    };
    on_path.chain(of_installers.map(|folder| interpreter(&folder))).filter_map(series_of).collect()
}

/// The series that a Python may be of.
const MINORS: std::ops::Range<u32> = 6..40;

/// What a file says that it is, if it is a CPython with the global interpreter lock.
pub fn who(path: &Path) -> Option<FoundPython> {
    let mut command = Command::new(path);
    // Isolated and without site: nothing of an environment or a folder is run.
    command.args(["-I", "-S", "-c", WHO]);
    let (true, text) = ask(command).ok()? else { return None };
    let mut words = text.split_whitespace();
    let ("cpython", Some(version), Some(flags)) = (words.next()?, words.next(), words.next()) else {
        return None;
    };
    let version = version.parse().ok().filter(|_| !flags.contains('t'))?;
    Some(FoundPython { path: path.to_path_buf(), version })
}

/// The folder that a Python installs into: `sys.prefix`.
pub fn prefix_of(python: &Path) -> Option<PathBuf> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", "import sys; print(sys.prefix)"]);
    let (true, text) = ask(command).ok()? else { return None };
    Some(PathBuf::from(text.trim_end_matches(['\n', '\r'])))
}

/// `uv` on `PATH`, or where its installers put it.
pub fn uv(places: &Places<'_>) -> Option<PathBuf> {
    let usual = [".local/bin", ".cargo/bin"];
    let usual = places.home.iter().flat_map(|home| usual.iter().map(|folder| home.join(folder)));
    folders(places).chain(usual).map(|folder| folder.join(program("uv"))).find(|path| path.is_file())
}

/// The Python that uv takes for a project without an environment: the first that it finds outside the project and of what
/// the project `requires`. None is downloaded, and nothing below the project is run: neither by uv, nor uv itself.
pub fn of_uv(places: &Places<'_>, project: &Path, requires: Option<&str>) -> Option<FoundPython> {
    let outside = places.outside(project);
    let mut command = Command::new(uv(&outside)?);
    command.args(["python", "find", "--no-project", "--offline", "--no-python-downloads"]);
    command.args(requires);
    // An environment above the current folder would be one too.
    command.current_dir(Path::new("/")).env("PATH", std::env::join_paths(&outside.path).ok()?);
    for name in
        ["VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_PROJECT", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY"]
    {
        command.env_remove(name);
    }
    let (true, path) = ask(command).ok()? else { return None };
    let path = PathBuf::from(path.trim());
    is_outside(&path, project).then(|| who(&path))?
}

/// `pixi` on `PATH`, or where its installer puts it.
pub fn pixi(places: &Places<'_>) -> Option<PathBuf> {
    let usual = places.home.iter().map(|home| home.join(".pixi/bin"));
    folders(places).chain(usual).map(|folder| folder.join(program("pixi"))).find(|path| path.is_file())
}

/// The Python on `PATH` that has a pip, and pip's version. It can install into other environments since 22.3.
pub fn pip(places: &Places<'_>) -> Option<(PathBuf, (u32, u32))> {
    let pythons =
        folders(places).flat_map(|folder| ["python3", "python"].map(|name| folder.join(program(name))));
    pythons.filter(|path| path.is_file()).find_map(|path| {
        let mut command = Command::new(&path);
        command.args(["-I", "-m", "pip", "--version"]);
        let (true, text) = ask(command).ok()? else { return None };
        // `pip 25.3 from /usr/lib/...`
        let version = text.split_whitespace().nth(1)?;
        let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
        let version = (parts.next()?, parts.next().unwrap_or(0));
        (version >= (22, 3)).then_some((path, version))
    })
}

/// The folders of `PATH`, without relative ones: these belong to whoever wrote the current folder.
fn folders<'p>(places: &'p Places<'_>) -> impl Iterator<Item = PathBuf> + 'p {
    places.path.iter().filter(|folder| folder.is_absolute()).cloned()
}

fn program(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

/// The files that may be the Python, the likely ones first.
fn candidates(places: &Places<'_>, minor: u32) -> Vec<PathBuf> {
    let name = format!("python3.{minor}");
    let mut found: Vec<PathBuf> = folders(places).map(|folder| folder.join(program(&name))).collect();
    for (folder, start) in installers(places) {
        let of_series = newest_first(&folder, &format!("{start}3.{minor}."));
        found.extend(of_series.into_iter().map(|folder| interpreter(&folder)));
    }
    found.extend(["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"].map(|f| Path::new(f).join(&name)));
    found.extend(folders(places).flat_map(|f| ["python3", "python"].map(|name| f.join(program(name)))));
    let conda = places.named_by("CONDA_EXE").and_then(|exe| Some(exe.parent()?.parent()?.to_path_buf()));
    let usual = ["miniconda3", "anaconda3", "miniforge3", "mambaforge"].map(|name| places.below_home(name));
    for root in conda.into_iter().chain(usual.into_iter().flatten()) {
        found.push(interpreter(&root));
        found.extend(newest_first(&root.join("envs"), "").iter().map(|folder| interpreter(folder)));
    }
    // A path that was found twice is asked once.
    let mut seen = BTreeSet::new();
    found.retain(|path| path.is_file() && seen.insert(path.clone()));
    found
}

/// The folders in which uv and pyenv have a folder for each Python, and what its name has before the version.
fn installers(places: &Places<'_>) -> Vec<(PathBuf, &'static str)> {
    let uv = places.named_by("UV_PYTHON_INSTALL_DIR").or_else(|| places.below_home(".local/share/uv/python"));
    let pyenv = places.named_by("PYENV_ROOT").or_else(|| places.below_home(".pyenv"));
    let pyenv = pyenv.map(|root| root.join("versions"));
    [(uv, "cpython-"), (pyenv, "")].into_iter().filter_map(|(folder, start)| Some((folder?, start))).collect()
}

/// The Python of an environment or an installation.
pub fn interpreter(prefix: &Path) -> PathBuf {
    match cfg!(windows) {
        // A venv has it in `Scripts`, an installation and a conda environment at the top.
        true => [prefix.join("Scripts").join("python.exe"), prefix.join("python.exe")]
            .into_iter()
            .find(|path| path.is_file())
            .unwrap_or_else(|| prefix.join("Scripts").join("python.exe")),
        false => prefix.join("bin").join("python"),
    }
}

/// The folders whose names start so, by the numbers in their names, greatest first.
fn newest_first(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = |name: &str| -> Vec<u32> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.starts_with(start).then(|| (numbers(&name), entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::model::patches::Patches;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program that says that it is a Python.
    fn fake(path: &Path, says: &str) {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, format!("#!/bin/sh\necho {says}\n")).unwrap();
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn pythons_are_found_where_tools_put_them() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fake(&home.join("bin/python3"), "cpython 3.3.7 -");
        fake(&home.join("shims/python3.4"), "");
        fake(&home.join(".pyenv/versions/3.4.9/bin/python"), "cpython 3.4.9 -");
        fake(&home.join(".pyenv/versions/3.4.10/bin/python"), "cpython 3.4.10 -");
        fake(&home.join(".local/share/uv/python/cpython-3.5.1-linux/bin/python"), "cpython 3.5.1 -");
        fake(&home.join("miniforge3/envs/a/bin/python"), "cpython 3.6.2 -");
        fake(&home.join(".pyenv/versions/3.7.0t/bin/python"), "cpython 3.7.0 t");
        let places = Places {
            path: vec![PathBuf::from("relative"), home.join("shims"), home.join("bin")],
            home: Some(home.to_path_buf()),
            variable: &|_| None,
        };
        for (wanted, found) in [
            ("3.3", Some("3.3.7")),
            ("3.4", Some("3.4.10")),
            ("3.4.9", Some("3.4.9")),
            ("3.4.8", None),
            ("3.5", Some("3.5.1")),
            ("3.6", Some("3.6.2")),
            ("3.7", None),
        ] {
            let wanted = WantedPython { python: wanted.parse().unwrap(), patches: Patches::default() };
            let own = python(&places, wanted).map(|found| found.version.to_string());
            assert_eq!(own.as_deref(), found, "{wanted}");
        }
        let limited = |from, below| {
            let wanted = WantedPython { python: Python::new(4), patches: Patches { from, below } };
            python(&places, wanted).and_then(|found| found.version.patch)
        };
        assert_eq!([limited(10, None), limited(0, Some(10)), limited(11, None)], [Some(10), Some(9), None]);
    }
}
