//! Extension modules that cannot be imported: built for another Python, or against another NumPy.

use std::collections::BTreeSet;

use memchr::memmem;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use super::alternatives;
use super::elf::Mapped;
use super::imports::Imports;
use super::tree::FileTree;
use crate::model::installed::{Distribution, Installed};
use crate::model::native::{BuiltForNumpy1, ForeignModules};
use crate::model::requirement::parse_requirement;
use crate::model::wheel::is_for_python;

/// Limits of what is read of one package to see which NumPy it was built for.
const MAX_FILES: usize = 60;
const MAX_BYTES: u64 = 64 << 20;

/// The C API of NumPy under its name of NumPy 1 and that of NumPy 2. What is built against NumPy 2 tries both, and runs
/// with both; what is built against NumPy 1 has the old one alone.
const OF_NUMPY_1: &[u8] = b"numpy.core._multiarray_umath";
const OF_NUMPY_2: &[u8] = b"numpy._core._multiarray_umath";

/// The packages none of whose extension modules this Python can import. `machine` is the interpreter's processor.
pub(super) fn foreign(
    installed: &Installed,
    machine: &str,
    imports: &mut Imports<'_>,
) -> Vec<ForeignModules> {
    let Some(python) = installed.python else { return Vec::new() };
    let mut out = Vec::new();
    for distribution in &installed.distributions {
        // The wheel says what it is for: no installer takes it on this machine.
        if let (Some(tag), Some(path)) =
            (other_platform(&distribution.tags, machine), distribution.libraries.first())
        {
            out.push(ForeignModules {
                package: distribution.name.clone(),
                path: path.clone(),
                tag: tag.to_owned(),
                imported: true,
            });
            continue;
        }
        let tagged: Vec<(&str, &str)> =
            distribution.libraries.iter().filter_map(|path| Some((path.as_str(), tag(path)?))).collect();
        let tags: BTreeSet<&str> = tagged.iter().map(|(_, tag)| *tag).collect();
        // With modules for several Pythons, the package itself decides: one of them is for every Python, or for none with the
        // GIL, and the interpreter takes the one that it can.
        let is_for_any = distribution.libraries.iter().any(|path| path.ends_with(".abi3.so"));
        let (Some((path, tag)), 1, false) = (tagged.first(), tags.len(), is_for_any) else { continue };
        let is_for_it = is_for_python(path, Some(python));
        if is_for_it && is_of_machine(tag, machine) {
            continue;
        }
        out.push(ForeignModules {
            package: distribution.name.clone(),
            path: (*path).to_owned(),
            tag: (*tag).to_owned(),
            imported: tagged.iter().any(|(path, _)| imports.want(path)),
        });
    }
    out
}

/// The platform that an installed wheel is for, if it is for Linux on another processor alone: of
/// `cp311-cp311-manylinux2014_aarch64` the last part.
fn other_platform<'t>(tags: &'t [String], machine: &str) -> Option<&'t str> {
    let platforms: Vec<&str> = tags.iter().filter_map(|tag| tag.rsplit('-').next()).collect();
    let is_other = |platform: &&str| {
        (platform.starts_with("manylinux")
            || platform.starts_with("linux")
            || platform.starts_with("musllinux"))
            && !platform.ends_with(machine)
    };
    platforms.iter().all(is_other).then(|| platforms.first().copied()).flatten()
}

/// The part of a module's name that says what it is for: `cpython-312-x86_64-linux-gnu`.
fn tag(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?.strip_suffix(".so")?;
    name.split('.').find(|part| part.starts_with("cpython-3"))
}

/// Whether a glibc Python of a processor imports modules with a tag. A tag may leave the processor out.
fn is_of_machine(tag: &str, machine: &str) -> bool {
    let mut parts = tag.splitn(3, '-').skip(2);
    match parts.next() {
        None => true,
        Some(triple) if triple.contains("linux") => {
            // A Python of musl is told by its own modules, which are not looked at here.
            triple.starts_with(machine) && (!triple.ends_with("-musl") || !cfg!(target_env = "gnu"))
        }
        Some(_) => true,
    }
}

/// The packages that were built against NumPy 1 and lie beside NumPy 2 or later. A package whose requirement on NumPy is
/// not met is told as such.
pub(super) fn built_for_numpy1(
    tree: &dyn FileTree,
    installed: &Installed,
    imports: &mut Imports<'_>,
) -> Vec<BuiltForNumpy1> {
    let numpy = installed.distributions.iter().find(|d| d.name == "numpy").and_then(|d| d.version.valid());
    let Some(numpy) = numpy.filter(|version| version.release().first().is_some_and(|major| *major >= 2))
    else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for distribution in installed.distributions.iter().filter(|d| d.name != "numpy") {
        let allows = |line: &Requirement<VerbatimUrl>| match &line.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.contains(numpy),
            _ => true,
        };
        let lines = distribution.requires.iter().filter(|line| line.contains("numpy"));
        let mut of_numpy = lines
            .filter_map(|line| parse_requirement(line).ok())
            .filter(|line| line.name.as_ref() == "numpy");
        let allowed = match of_numpy.next() {
            Some(first) => std::iter::once(first).chain(of_numpy).any(|line| allows(&line)),
            // A package that states no requirement at all may use NumPy nevertheless.
            None => distribution.requires.is_empty(),
        };
        if !allowed {
            continue;
        }
        if let Some(path) = of_numpy1(tree, distribution, installed) {
            let imported = imports.load(&path);
            let (package, numpy) = (distribution.name.clone(), numpy.to_string());
            out.push(BuiltForNumpy1 { package, path, numpy, imported });
        }
    }
    out
}

/// A module of a package that was built against NumPy 1. The first module that uses NumPy decides: a wheel is built
/// against one.
fn of_numpy1(tree: &dyn FileTree, distribution: &Distribution, installed: &Installed) -> Option<String> {
    let modules = alternatives::modules(&distribution.libraries, installed.python);
    let site = installed.site_of(distribution);
    let size = |path: &str| tree.size(&site.join(path)).unwrap_or(u64::MAX);
    let mut by_size: Vec<(u64, &String)> = modules.into_iter().map(|path| (size(path), path)).collect();
    by_size.sort();
    let mut left = MAX_BYTES;
    for (size, path) in by_size.into_iter().take(MAX_FILES) {
        left = left.checked_sub(size)?;
        let Ok(mapped) = Mapped::open(tree, &site.join(path)) else { continue };
        let bytes = mapped.bytes();
        mapped.read_ahead((0, bytes.len()));
        if memmem::find(bytes, OF_NUMPY_2).is_some() {
            return None;
        }
        if memmem::find(bytes, OF_NUMPY_1).is_some() {
            return Some(path.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;
    use crate::model::wheel::Python;

    #[test]
    fn what_was_built_against_numpy_1_is_told_by_the_api_that_it_asks_for() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("lib/python3.12/site-packages");
        let old = "..numpy.core._multiarray_umath..";
        let both = "..numpy._core._multiarray_umath..numpy.core._multiarray_umath..";
        let distribution = |name: &str, requires: &str, text: &str| {
            let path = format!("{name}/_c.cpython-312-x86_64-linux-gnu.so");
            fs_err::create_dir_all(site.join(name)).unwrap();
            fs_err::write(site.join(&path), text.repeat(9)).unwrap();
            fs_err::write(site.join(name).join("__init__.py"), "from . import _c\n").unwrap();
            Distribution {
                name: name.to_owned(),
                version: "2.1".into(),
                requires: vec![requires.to_owned()],
                libraries: vec![path],
                ..Distribution::default()
            }
        };
        let found = |numpy: &str| {
            let numpy = Distribution { version: numpy.into(), ..distribution("numpy", "", old) };
            let installed = Installed {
                site_packages: site.clone(),
                python: Some(Python::new(12)),
                distributions: vec![
                    distribution("new", "numpy", both),
                    distribution("old", "numpy>=1.20", old),
                    // Told as a requirement that is not met.
                    distribution("pinned", "numpy<2", old),
                    distribution("without", "six", old),
                    Distribution { requires: Vec::new(), ..distribution("silent", "", old) },
                    numpy,
                ],
                ..Installed::default()
            };
            let mut imports = Imports::new(&ThisMachine, &[site.as_path()], installed.python);
            let found = built_for_numpy1(&ThisMachine, &installed, &mut imports);
            found.into_iter().map(|found| (found.package, found.imported)).collect::<Vec<_>>()
        };
        assert_eq!(found("2.2.6"), [("old".to_owned(), true), ("silent".to_owned(), true)]);
        assert_eq!(found("1.26.4"), []);
    }

    #[test]
    fn a_tag_says_which_python_and_machine() {
        for (path, tagged, fits) in [
            ("a/_c.cpython-312-x86_64-linux-gnu.so", Some("cpython-312-x86_64-linux-gnu"), true),
            ("a/_c.cpython-312-aarch64-linux-gnu.so", Some("cpython-312-aarch64-linux-gnu"), false),
            ("a/_c.cpython-37m-x86_64-linux-gnu.so", Some("cpython-37m-x86_64-linux-gnu"), true),
            ("a/_c.cpython-312.so", Some("cpython-312"), true),
            ("a/_c.cpython-312-darwin.so", Some("cpython-312-darwin"), true),
            ("a/_c.abi3.so", None, true),
            ("a/_c.so", None, true),
        ] {
            assert_eq!(tag(path), tagged, "{path}");
            assert_eq!(tag(path).is_none_or(|tag| is_of_machine(tag, "x86_64")), fits, "{path}");
        }
    }
}
