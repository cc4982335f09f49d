//! Simulates the process that imports an environment's frameworks and modules.

use std::path::{Path, PathBuf};

use super::alternatives;
use super::copies::version_of;
use super::found::interpreter_of;
use super::loader::{self, Loader};
use super::tree::FileTree;
use crate::model::cited::Cited;
use crate::model::installed::{Distribution, Installed};
use crate::model::native::{FileByPath, FrameworkLoads, Opened, OwnLibrary, Provider};
use crate::model::nvidia::is_of_nvidia;
use crate::model::wheel::is_for_python;

/// Which libraries are loaded at import and at run time, from the registry.
pub struct Loads<'r> {
    /// The libraries that importing a framework loads.
    pub frameworks: &'r [Cited<FrameworkLoads>],
    /// The libraries that other libraries open by name.
    pub opened: &'r [Cited<Opened>],
    /// The libraries that packages open at run time to use the GPU.
    pub providers: &'r [Cited<Provider>],
    /// The files that packages open or start by their path.
    pub by_path: &'r [Cited<FileByPath>],
}

/// The name of musl's C library, which is `libc.so.6` in glibc.
const MUSL: &str = "libc.musl-";

/// Simulates the process: imports of each framework, libraries that these open by name, then extensions built against
/// torch.
pub(super) fn process<'t>(
    installed: &Installed,
    own: &[OwnLibrary],
    around: &loader::Surroundings<'t>,
    loads: &Loads<'_>,
) -> Result<(Loader<'t>, (usize, usize)), String> {
    let prefix = Path::new(&installed.prefix);
    let site = &installed.site_packages;
    let python = interpreter_of(around.tree, prefix, site);
    let python = python.ok_or("the environment has no interpreter, so its process could not be built")?;
    let mut loader = Loader::start(&python, around)
        .map_err(|why| format!("the interpreter `{}` cannot be read: {why}", python.display()))?;
    if loader.process().missing.iter().any(|missing| missing.name.starts_with(MUSL))
        || loader.process().objects.iter().any(|object| object.name.starts_with(MUSL))
    {
        return Err("its interpreter is built for musl, whose loader is not simulated".to_owned());
    }
    // torch first: the other frameworks reuse the libraries that it loads.
    let (torch, others): (Vec<_>, Vec<_>) = loads.frameworks.iter().partition(|row| row.package == "torch");
    for row in torch.into_iter().chain(others) {
        import(&mut loader, installed, own, row);
        open_by_name(around.tree, &mut loader, loads.opened);
    }
    let of_framework = (loader.process().objects.len(), loader.process().missing.len());
    for distribution in installed.distributions.iter().filter(|d| is_on_torch(d, own)) {
        let modules = alternatives::modules(&distribution.libraries, installed.python);
        for file in
            modules.iter().filter(|path| !alternatives::is_one_of_several(path, &distribution.libraries))
        {
            // A package loads its own libraries before the module that needs them, where the loader would not find
            // them: torchaudio and others call `load_library` in `__init__`.
            for beside in needed_from(own, distribution, file) {
                let _ = loader.open_file(&beside);
            }
            let _ = loader.open_file(&installed.site_of(distribution).join(file));
        }
    }
    Ok((loader, of_framework))
}

/// Whether a package uses torch: it says so, or one of its libraries needs torch's.
fn is_on_torch(distribution: &Distribution, own: &[OwnLibrary]) -> bool {
    let says =
        || distribution.requires.iter().any(|line| crate::model::text::requirement_name(line) == "torch");
    let of_it = || own.iter().filter(|library| library.package == distribution.name);
    distribution.name != "torch" && (says() || of_it().any(needs_torch))
}

fn needs_torch(library: &OwnLibrary) -> bool {
    library.library.needed.iter().any(|n| n.starts_with("libtorch") || n.starts_with("libc10"))
}

/// The package's own libraries that a module of it needs, directly or through each other, dependencies first.
fn needed_from(own: &[OwnLibrary], distribution: &Distribution, module: &str) -> Vec<PathBuf> {
    let of_package: Vec<&OwnLibrary> =
        own.iter().filter(|library| library.package == distribution.name).collect();
    let mut out: Vec<PathBuf> = Vec::new();
    let mut queue: Vec<&OwnLibrary> =
        of_package.iter().copied().filter(|library| library.library.path == module).collect();
    let mut seen = 0;
    while let Some(library) = queue.get(seen).copied() {
        seen += 1;
        for name in &library.library.needed {
            let file_name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
            let named = |l: &&&OwnLibrary| file_name(&l.library.path) == *name;
            if let Some(beside) = of_package.iter().find(named)
                && !queue.iter().any(|known| known.file == beside.file)
            {
                queue.push(beside);
                out.insert(0, beside.file.clone());
            }
        }
    }
    out
}

/// Loads the libraries that importing a framework loads.
fn import(loader: &mut Loader<'_>, installed: &Installed, own: &[OwnLibrary], row: &FrameworkLoads) {
    let Some(distribution) = installed.distributions.iter().find(|d| d.name == row.package) else { return };
    // The environment's NVIDIA libraries with the name `{start}.so*`.
    let of_nvidia = |start: &str| {
        let begins = |name: &str| name.strip_prefix(start).is_some_and(|rest| rest.starts_with(".so"));
        own.iter()
            .filter(|library| is_of_nvidia(&library.package))
            .filter(|library| library.library.path.rsplit('/').next().is_some_and(begins))
            .collect::<Vec<_>>()
    };
    if row.by_path {
        for library in row.opens.iter().flat_map(|start| of_nvidia(start)) {
            let _ = loader.open_file(&library.file);
        }
    }
    let site = installed.site_of(distribution);
    let is_apart = |own: &Distribution| is_of_nvidia(&own.name) && installed.site_of(own) != site;
    if installed.distributions.iter().any(is_apart) {
        for library in row.preloads.iter().flat_map(|start| of_nvidia(start)) {
            let _ = loader.open_file(&library.file);
        }
    }
    let mut starts: Vec<(usize, &String)> =
        distribution.libraries.iter().filter_map(|path| Some((row.place(path)?, path))).collect();
    starts.sort();
    for (_, path) in starts {
        // The file check reports a missing or damaged file.
        let _ = loader.open_file(&installed.site_of(distribution).join(path));
    }
    if row.by_path {
        return;
    }
    let objects = &loader.process().objects;
    let named = |start: &String| {
        objects.iter().position(|o| o.name.rsplit('/').next().is_some_and(|n| n.starts_with(start)))
    };
    let looking: Vec<usize> = row.from.iter().filter_map(named).collect();
    for library in row.opens.iter().flat_map(|start| of_nvidia(start)) {
        // The framework opens the SONAME for which it was built.
        let file = library.library.path.rsplit('/').next().unwrap_or(&library.library.path);
        let name = library.library.soname.as_deref().unwrap_or(file);
        let _ = looking.iter().find_map(|by| loader.open_if_there(name, *by));
    }
}

/// Loads the libraries that the objects of a process open by name, and those that these open in turn.
fn open_by_name(tree: &dyn FileTree, loader: &mut Loader<'_>, opened: &[Cited<Opened>]) {
    let mut at = 0;
    while let Some(object) = loader.process().objects.get(at).cloned() {
        let soname = object.soname.as_deref().unwrap_or(&object.name);
        for row in opened.iter().filter(|row| row.by == soname) {
            let is_there = || {
                let from = row.from.as_ref()?;
                let version = version_of(tree, &object.path)?.text.parse().ok()?;
                Some(*from <= version)
            };
            if row.from.is_some() && is_there() != Some(true) {
                continue;
            }
            if row.required {
                loader.open(&names(tree, row, &object.path), at);
            } else {
                loader.open_if_there(&row.name, at);
            }
        }
        at += 1;
    }
}

/// The names tried for a row, in order: `libcudnn_ops.so.9.10.2`, `libcudnn_ops.so.9.10`, `libcudnn_ops.so.9`.
fn names(tree: &dyn FileTree, row: &Opened, opener: &Path) -> Vec<String> {
    let plain = || vec![row.name.clone()];
    if !row.versioned {
        return plain();
    }
    // cuDNN's main library does not contain its version; libcudnn_graph in the same folder does.
    let major = row.name.rsplit('.').next().unwrap_or_default();
    let beside = opener.with_file_name(format!("libcudnn_graph.so.{major}"));
    let Some(version) = version_of(tree, opener).or_else(|| version_of(tree, &beside)) else {
        return plain();
    };
    let Some(stem) = row.name.strip_suffix(&format!(".{major}")) else { return plain() };
    let parts: Vec<&str> = version.text.split('.').take(3).collect();
    if parts.first() != Some(&major) || parts.len() < 3 {
        return plain();
    }
    (1..=3).rev().map(|count| format!("{stem}.{}", parts[..count].join("."))).collect()
}

/// Loads the modules of the packages that do not use torch, and the libraries that packages register with torch. They
/// are no part of the process that is judged, but their symbols must be defined.
pub(super) fn open_other_modules(loader: &mut Loader<'_>, installed: &Installed, own: &[OwnLibrary]) {
    for distribution in &installed.distributions {
        let site = installed.site_of(distribution);
        let modules = alternatives::modules(&distribution.libraries, installed.python);
        let on_torch = own.iter().filter(|l| l.package == distribution.name && needs_torch(l));
        let registered = on_torch.map(|library| &library.library.path);
        let registered = registered.filter(|path| is_for_python(path, installed.python));
        let all = modules.into_iter().chain(registered);
        for path in all.filter(|path| !alternatives::is_one_of_several(path, &distribution.libraries)) {
            let _ = loader.open_file(&site.join(path));
        }
    }
}
