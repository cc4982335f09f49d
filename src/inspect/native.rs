//! Reads an environment's libraries and simulates the process that imports its frameworks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::alternatives;
use super::elf::ElfError;
use super::imports::Imports;
use super::library::{Detail, library};
use super::loader::{self, Loader};
use super::symbols;
use crate::model::installed::{Distribution, Installed};
use crate::model::library::Library;
use crate::model::native::{
    Copy, FrameworkLoads, Native, Opened, OtherMachine, OwnLibrary, UndefinedSymbols, Unimportable,
    Unreadable, UnreadableLibrary,
};
use crate::model::process::How;

/// Name prefixes of the libraries that are searched for outside the environment.
const KINDS: [&str; 5] = ["libcudnn", "libcudart.so", "libcublas", "libnccl.so", "libnvJitLink.so"];
/// Usual folders of CUDA toolkits and cuDNN, in addition to the loader's folders.
const USUAL_PLACES: [&str; 6] = [
    "usr/local/cuda/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/lib",
    "opt/conda/lib",
];
/// Maximum number of copies listed.
const MAX_COPIES: usize = 200;
/// Maximum number of threads that read libraries; the work is limited by the disk.
const MAX_THREADS: usize = 8;

/// Which libraries are loaded at import and at run time, from the registry.
pub struct Loads<'r> {
    /// The libraries that importing a framework loads.
    pub frameworks: &'r [FrameworkLoads],
    /// The libraries that other libraries open by name.
    pub opened: &'r [Opened],
}

/// Reads the libraries of an environment and simulates its process.
pub fn native(installed: &Installed, around: &loader::Surroundings, loads: &Loads<'_>) -> Native {
    let (own, unreadable) = own_libraries(installed);
    let mut native = Native { own, unreadable, ..Native::default() };
    let python = Path::new(&installed.prefix).join("bin/python");
    native.interpreter_missing = python.is_symlink() && !python.exists();
    if native.own.is_empty() {
        return native;
    }
    // Without a readable library of a framework, only modules are looked at; the file check reports damaged ones.
    let is_framework = |own: &OwnLibrary| loads.frameworks.iter().any(|row| row.package == own.package);
    let has_framework = native.own.iter().any(is_framework);
    match process(installed, &native.own, around, loads) {
        Ok((mut loader, of_framework)) => {
            if has_framework {
                native.of_framework = of_framework;
                let objects = &loader.process().objects;
                native.versions = objects.iter().map(|o| version_of(&o.path)).collect();
                native.missing_versions = super::symbol_versions::missing(loader.process());
                native.copies = copies(&loader, around, Path::new(&installed.prefix));
                native.process = Some(loader.process().clone());
            }
            open_other_modules(&mut loader, installed, &native.own);
            let mut imports = Imports::new(&installed.site_packages);
            native.other_machine = other_machine(&loader, installed, &native.own, &mut imports);
            native.unimportable = unimportable(&loader, &native.own, of_framework.1, &mut imports);
            native.undefined = undefined(&loader, &native, of_framework.0, &mut imports);
        }
        Err(why) if has_framework => native.not_done = Some(why),
        Err(_) => {}
    }
    native
}

/// Loads the modules of the packages that do not use torch, and the libraries that packages register with torch. They
/// are no part of the process that is judged, but their symbols must be defined.
fn open_other_modules(loader: &mut Loader, installed: &Installed, own: &[OwnLibrary]) {
    let site = &installed.site_packages;
    for distribution in &installed.distributions {
        let modules = alternatives::modules(&distribution.libraries, installed.python);
        let on_torch = own.iter().filter(|l| l.package == distribution.name && needs_torch(l));
        let registered = on_torch.map(|library| &library.library.path);
        let registered = registered.filter(|path| alternatives::is_for(path, installed.python));
        let all = modules.into_iter().chain(registered);
        for path in all.filter(|path| !alternatives::is_one_of_several(path, &distribution.libraries)) {
            let _ = loader.open_file(&site.join(path));
        }
    }
}

/// The libraries with undefined symbols. Those that no import certainly loads are marked.
fn undefined(
    loader: &Loader,
    native: &Native,
    of_framework: usize,
    imports: &mut Imports<'_>,
) -> Vec<UndefinedSymbols> {
    // The symbols that an unreadable library defines are unknown.
    let is_unreadable = |package: &str| native.unreadable.iter().any(|library| library.package == package);
    let mut out = symbols::undefined(loader, &native.own, threads());
    out.retain(|found| !is_unreadable(&found.package));
    out.retain(|found| !found.of_torch || !is_unreadable("torch"));
    let framework: Vec<&Path> =
        loader.process().objects.iter().take(of_framework).map(|object| object.file.as_path()).collect();
    for found in &mut out {
        found.imported =
            found.of_torch || framework.contains(&found.file.as_path()) || imports.load(&found.path);
    }
    out
}

/// The modules that an import loads and that need a library that is nowhere. The framework's own are judged elsewhere: the
/// first `of_framework` missing ones.
fn unimportable(
    loader: &Loader,
    own: &[OwnLibrary],
    of_framework: usize,
    imports: &mut Imports<'_>,
) -> Vec<Unimportable> {
    let process = loader.process();
    let mut out: Vec<Unimportable> = Vec::new();
    for missing in process.missing.iter().skip(of_framework).filter(|missing| !missing.later) {
        // A package may load a library of the environment itself, before the module that needs it.
        let is_own = own.iter().any(|library| {
            library.library.soname.as_ref() == Some(&missing.name)
                || library.library.path.rsplit('/').next() == Some(&missing.name)
        });
        if is_own || missing.name.starts_with("libcuda.so") {
            continue;
        }
        // The module that was opened, and through it the library that needs the missing one.
        let mut object = missing.by.and_then(|by| process.objects.get(by));
        while let Some(by) = object.filter(|object| object.how != How::Path).and_then(|object| object.by) {
            object = process.objects.get(by);
        }
        let module = object.and_then(|object| own.iter().find(|library| library.file == object.file));
        let Some(module) = module.filter(|module| imports.load(&module.library.path)) else { continue };
        if !out.iter().any(|known| known.package == module.package && known.missing == missing.name) {
            out.push(Unimportable {
                package: module.package.clone(),
                path: module.library.path.clone(),
                missing: missing.name.clone(),
            });
        }
    }
    out
}

/// Libraries for another processor whose name the process does not find, and modules that an import loads.
fn other_machine(
    loader: &Loader,
    installed: &Installed,
    own: &[OwnLibrary],
    imports: &mut Imports<'_>,
) -> Vec<OtherMachine> {
    let missing: BTreeSet<&str> = loader.process().missing.iter().map(|m| m.name.as_str()).collect();
    let mut wanted = |library: &&OwnLibrary| {
        let path = &library.library.path;
        let file = path.rsplit('/').next().unwrap_or_default();
        let soname = library.library.soname.as_deref();
        // A package may bring modules for several processors; their names say for which.
        let is_named_so = file.contains(library.library.machine.as_str());
        let is_module = !alternatives::modules(std::slice::from_ref(path), installed.python).is_empty();
        missing.contains(file)
            || soname.is_some_and(|soname| missing.contains(soname))
            || (is_module && !is_named_so && imports.load(path))
    };
    let other = own.iter().filter(|library| library.library.machine != loader.machine());
    let found = other.filter(|library| wanted(library)).map(|library| OtherMachine {
        package: library.package.clone(),
        path: library.library.path.clone(),
        machine: library.library.machine.clone(),
        interpreter: loader.machine().to_owned(),
    });
    found.collect()
}

/// The number of threads that read libraries.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(1, MAX_THREADS)
}

/// The version of a library in [`KINDS`]; `None` for other libraries.
fn version_of(path: &Path) -> Option<crate::model::library::LibraryVersion> {
    let name = path.file_name()?.to_str()?;
    if !KINDS.iter().any(|kind| name.starts_with(kind)) {
        return None;
    }
    library(path, Detail::Headers).ok()?.version
}

fn own_libraries(installed: &Installed) -> (Vec<OwnLibrary>, Vec<UnreadableLibrary>) {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for distribution in &installed.distributions {
        all.extend(distribution.libraries.iter().map(|path| (distribution.name.as_str(), path.as_str())));
    }
    // Largest first, so that the threads finish at about the same time.
    let size = |path: &str| std::fs::metadata(installed.site_packages.join(path)).map_or(0, |m| m.len());
    all.sort_by_cached_key(|(_, path)| std::cmp::Reverse(size(path)));
    let queue = Mutex::new(all.iter());
    let done: Mutex<Vec<OwnLibrary>> = Mutex::default();
    let broken: Mutex<Vec<UnreadableLibrary>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                loop {
                    let Some((package, path)) = queue.lock().ok().and_then(|mut q| q.next()) else { return };
                    let file = installed.site_packages.join(path);
                    let found = match library(&file, Detail::Code) {
                        Ok(found) => found,
                        // A missing file is reported as missing, not as unreadable.
                        Err(_) if !file.exists() => continue,
                        Err(why) => {
                            if let Ok(mut broken) = broken.lock() {
                                broken.push(UnreadableLibrary {
                                    package: (*package).to_owned(),
                                    path: (*path).to_owned(),
                                    why: unreadable(&why, &file),
                                });
                            }
                            continue;
                        }
                    };
                    let library = Library { path: (*path).to_owned(), ..found };
                    let file = std::fs::canonicalize(&file).unwrap_or(file);
                    if let Ok(mut done) = done.lock() {
                        done.push(OwnLibrary { package: (*package).to_owned(), file, library });
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by(|a, b| a.library.path.cmp(&b.library.path));
    let mut broken = broken.into_inner().unwrap_or_default();
    broken.sort_by(|a, b| (&a.package, &a.path).cmp(&(&b.package, &b.path)));
    (done, broken)
}

fn unreadable(error: &ElfError, file: &Path) -> Unreadable {
    match error {
        // A `.so` file may be a linker script, which is text.
        ElfError::NotElf if is_text(file) => Unreadable::NotElf,
        ElfError::NotElf => Unreadable::Damaged("its ELF header is missing or damaged".to_owned()),
        other => Unreadable::Damaged(crate::model::text::clean(&other.to_string(), 100)),
    }
}

/// Whether a file begins with text, or is empty.
fn is_text(file: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 64];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    head[..read].iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Simulates the process: imports of each framework, libraries that these open by name, then extensions built against
/// torch.
fn process(
    installed: &Installed,
    own: &[OwnLibrary],
    around: &loader::Surroundings,
    loads: &Loads<'_>,
) -> Result<(Loader, (usize, usize)), String> {
    let prefix = Path::new(&installed.prefix);
    let site = &installed.site_packages;
    let python = ["bin/python", "bin/python3"].iter().map(|p| prefix.join(p)).find(|p| p.exists());
    let python = python.ok_or("the environment has no interpreter, so its process could not be built")?;
    let mut loader = Loader::start(&python, around)
        .map_err(|why| format!("the interpreter `{}` cannot be read: {why}", python.display()))?;
    // torch first: the other frameworks reuse the libraries that it loads.
    let (torch, others): (Vec<_>, Vec<_>) = loads.frameworks.iter().partition(|row| row.package == "torch");
    for row in torch.into_iter().chain(others) {
        import(&mut loader, installed, own, row);
        open_by_name(&mut loader, loads.opened);
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
            let _ = loader.open_file(&site.join(file));
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
fn import(loader: &mut Loader, installed: &Installed, own: &[OwnLibrary], row: &FrameworkLoads) {
    let Some(distribution) = installed.distributions.iter().find(|d| d.name == row.package) else { return };
    // The environment's NVIDIA libraries with the name `{start}.so*`.
    let of_nvidia = |start: &str| {
        let begins = |name: &str| name.strip_prefix(start).is_some_and(|rest| rest.starts_with(".so"));
        own.iter()
            .filter(|library| library.package.starts_with("nvidia-"))
            .filter(|library| library.library.path.rsplit('/').next().is_some_and(begins))
            .collect::<Vec<_>>()
    };
    if row.by_path {
        for library in row.opens.iter().flat_map(|start| of_nvidia(start)) {
            let _ = loader.open_file(&library.file);
        }
    }
    let mut starts: Vec<(usize, &String)> =
        distribution.libraries.iter().filter_map(|path| Some((row.place(path)?, path))).collect();
    starts.sort();
    for (_, path) in starts {
        // The file check reports a missing or damaged file.
        let _ = loader.open_file(&installed.site_packages.join(path));
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
fn open_by_name(loader: &mut Loader, opened: &[Opened]) {
    let mut at = 0;
    while let Some(object) = loader.process().objects.get(at).cloned() {
        let soname = object.soname.as_deref().unwrap_or(&object.name);
        for row in opened.iter().filter(|row| row.by == soname) {
            let is_there = || {
                let from = row.from.as_ref()?;
                let version = version_of(&object.path)?.text.parse().ok()?;
                Some(*from <= version)
            };
            if row.from.is_some() && is_there() != Some(true) {
                continue;
            }
            if row.required {
                loader.open(&names(row, &object.path), at);
            } else {
                loader.open_if_there(&row.name, at);
            }
        }
        at += 1;
    }
}

/// The names tried for a row, in order: `libcudnn_ops.so.9.10.2`, `libcudnn_ops.so.9.10`, `libcudnn_ops.so.9`.
fn names(row: &Opened, opener: &Path) -> Vec<String> {
    let plain = || vec![row.name.clone()];
    if !row.versioned {
        return plain();
    }
    // cuDNN's main library does not contain its version; libcudnn_graph in the same folder does.
    let major = row.name.rsplit('.').next().unwrap_or_default();
    let beside = opener.with_file_name(format!("libcudnn_graph.so.{major}"));
    let Some(version) = version_of(opener).or_else(|| version_of(&beside)) else { return plain() };
    let Some(stem) = row.name.strip_suffix(&format!(".{major}")) else { return plain() };
    let parts: Vec<&str> = version.text.split('.').take(3).collect();
    if parts.first() != Some(&major) || parts.len() < 3 {
        return plain();
    }
    (1..=3).rev().map(|count| format!("{stem}.{}", parts[..count].join("."))).collect()
}

/// CUDA and cuDNN libraries outside the environment: in the loader's folders and the usual places.
fn copies(loader: &Loader, around: &loader::Surroundings, prefix: &Path) -> Vec<Copy> {
    let prefix = std::fs::canonicalize(prefix).unwrap_or_else(|_| prefix.to_path_buf());
    let mut files: Vec<PathBuf> = KINDS.iter().flat_map(|kind| loader.cached(kind)).collect();
    let mut folders: Vec<PathBuf> = loader.library_path().to_vec();
    folders.extend(USUAL_PLACES.iter().map(|place| around.root.join(place)));
    folders.extend(around.conda.iter().cloned());
    if let Ok(list) = std::fs::read_dir(around.root.join("usr/local")) {
        let toolkits = list.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("cuda-"));
        folders.extend(toolkits.map(|e| e.path().join("lib64")));
    }
    for folder in folders {
        let Ok(list) = std::fs::read_dir(&folder) else { continue };
        let names = list.flatten().map(|entry| entry.path());
        files.extend(names.filter(|path| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            KINDS.iter().any(|kind| name.starts_with(kind)) && super::is_library(&name)
        }));
    }
    // Symlinks to the same file count as one copy.
    let mut real: Vec<PathBuf> = files.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    real.sort();
    real.dedup();
    real.retain(|path| !path.starts_with(&prefix));
    real.truncate(MAX_COPIES);
    real.into_iter().map(|path| Copy { version: version_of(&path), path }).collect()
}
