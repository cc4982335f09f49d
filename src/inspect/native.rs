//! Reads an environment's libraries and simulates the process that imports its frameworks.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use super::alternatives;
use super::copies::{copies, library_folders, version_of};
use super::elf::ElfError;
use super::files_by_path;
use super::imports::Imports;
use super::library::{Detail, library};
use super::loader::{self, Loader};
use super::process::{Loads, open_other_modules, process};
use super::symbols;
use super::tree::FileTree;
use crate::model::cited::Cited;
use crate::model::installed::Installed;
use crate::model::library::{Library, is_grafted};
use crate::model::native::{
    FileByPath, InterpreterFault, Native, OtherMachine, OwnLibrary, Provider, UndefinedSymbols, Unimportable,
    Unreadable, UnreadableLibrary, UnusableProvider,
};
use crate::model::process::How;

/// Maximum number of threads that read libraries; the work is limited by the disk.
const MAX_THREADS: usize = 8;

/// Reads the libraries of an environment and simulates its process.
pub fn native(installed: &Installed, around: &loader::Surroundings<'_>, loads: &Loads<'_>) -> Native {
    let tree = around.tree;
    let (own, unreadable) = own_libraries(tree, installed);
    let mut native = Native { own, unreadable, ..Native::default() };
    let python = Path::new(&installed.prefix).join("bin/python");
    native.interpreter = interpreter(tree, Path::new(&installed.prefix), &python);
    native.unusable = files_by_path::unusable(tree, installed, &native.own, loads.by_path);
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
                native.versions = objects.iter().map(|o| version_of(tree, &o.path)).collect();
                native.missing_versions = super::symbol_versions::missing(tree, loader.process());
                native.copies = copies(&loader, around, Path::new(&installed.prefix));
                native.process = Some(loader.process().clone());
            }
            open_other_modules(&mut loader, installed, &native.own);
            let mut imports = Imports::new(tree, &installed.sites(), installed.python);
            native.other_machine = other_machine(&loader, installed, &native.own, &mut imports);
            native.foreign_modules = super::modules::foreign(installed, loader.machine(), &mut imports);
            native.built_for_numpy1 = super::modules::built_for_numpy1(tree, installed, &mut imports);
            native.providers = unusable_providers(&mut loader, &native.own, loads.providers);
            let mut unimportable = lost_libraries(&mut loader, &native.own);
            // What packages outside site-packages load is unknown.
            if installed.visible.is_empty() {
                let own = (native.own.as_slice(), unimportable.as_slice());
                let found =
                    self::unimportable(&mut loader, around, installed, own, (&mut imports, loads.by_path));
                unimportable.extend(found);
                native.undefined = undefined(tree, &loader, installed, &native, of_framework.0, &mut imports);
            }
            native.unimportable = unimportable;
        }
        Err(why) if has_framework => native.not_done = Some(why),
        Err(_) => {}
    }
    native
}

/// Why `bin/python` does not run the environment.
fn interpreter(tree: &dyn FileTree, prefix: &Path, python: &Path) -> Option<InterpreterFault> {
    if tree.is_link(python) && !tree.exists(python) {
        return Some(InterpreterFault::Missing);
    }
    let is_environment = ["pyvenv.cfg", "conda-meta"].iter().any(|name| tree.exists(&prefix.join(name)));
    let is_windows = tree.is_folder(&prefix.join("Lib"));
    let is_python = |name: &String| name == "python" || name.starts_with("python3");
    if is_environment && !is_windows && !tree.names(&prefix.join("bin"), 100_000).iter().any(is_python) {
        return Some(InterpreterFault::Absent);
    }
    if tree.about(python).ok()?.mode & 0o111 == 0 {
        return Some(InterpreterFault::NotExecutable);
    }
    // A Python that was installed here, and conda's, lies in the prefix.
    let leads_to = tree.real(python).ok()?;
    let inside = leads_to.starts_with(tree.real(prefix).ok()?);
    let is_known = tree.exists(&prefix.join("pyvenv.cfg")) || tree.is_folder(&prefix.join("conda-meta"));
    (!inside && !is_known).then_some(InterpreterFault::Detached)
}

/// The libraries with undefined symbols. Those that no import certainly loads are marked.
fn undefined(
    tree: &dyn FileTree,
    loader: &Loader<'_>,
    installed: &Installed,
    native: &Native,
    of_framework: usize,
    imports: &mut Imports<'_>,
) -> Vec<UndefinedSymbols> {
    // The symbols that an unreadable library defines are unknown.
    let is_unreadable = |package: &str| native.unreadable.iter().any(|library| library.package == package);
    let mut out = symbols::undefined(tree, loader, &native.own, threads());
    out.retain(|found| !is_unreadable(&found.package));
    out.retain(|found| !found.of_torch || !is_unreadable("torch"));
    let framework: Vec<&Path> =
        loader.process().objects.iter().take(of_framework).map(|object| object.file.as_path()).collect();
    // Without torch, a package's part for it is not imported, unless its import says so.
    let has_torch = installed.distributions.iter().any(|distribution| distribution.name == "torch");
    for found in &mut out {
        found.imported = (found.of_torch && has_torch)
            || framework.contains(&found.file.as_path())
            || imports.load(&found.path);
    }
    // A file in a folder that is no package, such as the parts of an application that a package can build, is no module.
    let sites = installed.sites();
    let is_in_package = |path: &str| {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        sites.iter().any(|site| tree.is_file(&site.join(folder).join("__init__.py")))
    };
    out.retain(|found| found.imported || is_in_package(&found.path));
    out
}

/// Whether a library of a package has a name or SONAME.
fn has_library(own: &[OwnLibrary], name: &str) -> bool {
    own.iter().any(|library| {
        library.library.soname.as_deref() == Some(name)
            || library.library.path.rsplit('/').next() == Some(name)
    })
}

/// The packages that lost a library which `auditwheel` copied into their wheel: for each the first library that needs one.
fn lost_libraries(loader: &mut Loader<'_>, own: &[OwnLibrary]) -> Vec<Unimportable> {
    let mut out: Vec<Unimportable> = Vec::new();
    for library in own {
        let package = &library.package;
        // A file that RECORD does not list is not among the packages' libraries: the loader decides.
        let mut absent =
            library.library.needed.iter().filter(|name| is_grafted(name) && !has_library(own, name));
        let Some(name) = absent.next().filter(|_| out.iter().all(|known| known.package != *package)) else {
            continue;
        };
        let Ok(at) = loader.open_file(&library.file) else { continue };
        if loader.missing_below(at).contains(name) {
            let path = library.library.path.clone();
            out.push(Unimportable { package: package.clone(), path, missing: name.clone(), is_own: true });
        }
    }
    out
}

/// The modules that an import loads and that need a library which does not exist here. The framework's own modules are judged
/// elsewhere, and so are the packages of `known`.
fn unimportable(
    loader: &mut Loader<'_>,
    around: &loader::Surroundings<'_>,
    installed: &Installed,
    (own, known): (&[OwnLibrary], &[Unimportable]),
    (imports, by_path): (&mut Imports<'_>, &[Cited<FileByPath>]),
) -> Vec<Unimportable> {
    let tree = around.tree;
    // A package may load a library of the environment itself, before the module that needs it.
    let below = Path::new(&installed.prefix).join("lib");
    let is_there = |name: &str| {
        has_library(own, name) || name.starts_with("libcuda.so") || tree.exists(&below.join(name))
    };
    // A package that loads libraries itself may search folders that the loader does not.
    let elsewhere = library_folders(around);
    let is_elsewhere = |name: &str| elsewhere.iter().any(|folder| tree.exists(&folder.join(name)));
    let mut out: Vec<Unimportable> = Vec::new();
    for (package, path, missing) in files_by_path::missing_at_import(loader, tree, installed, by_path) {
        let mut missing = missing.into_iter().filter(|name| !is_there(name) && !is_elsewhere(name));
        out.extend(missing.next().map(|missing| Unimportable { package, path, missing, is_own: false }));
    }
    for (at, object) in loader.process().objects.iter().enumerate().filter(|(_, o)| o.how == How::Path) {
        let missing = loader.missing_below(at);
        let Some(missing) = missing.into_iter().find(|name| !is_there(name)) else { continue };
        let Some(module) = own.iter().find(|library| library.file == object.file) else { continue };
        let (package, path) = (&module.package, &module.library.path);
        if out.iter().chain(known).any(|known| known.package == *package) {
            continue;
        }
        if imports.load(path) || (!is_elsewhere(&missing) && imports.load_somehow(path)) {
            let (package, path) = (package.clone(), path.clone());
            out.push(Unimportable { package, path, missing, is_own: false });
        }
    }
    out.retain(|found| known.iter().all(|known| known.package != found.package));
    out
}

/// The libraries for the GPU that a package cannot open, since the environment has CUDA libraries of another number. Without
/// any CUDA library, the package may be meant for the CPU, or a program may provide them.
fn unusable_providers(
    loader: &mut Loader<'_>,
    own: &[OwnLibrary],
    providers: &[Cited<Provider>],
) -> Vec<UnusableProvider> {
    let names = |library: &OwnLibrary| {
        let file = library.library.path.rsplit('/').next().unwrap_or_default().to_owned();
        library.library.soname.clone().unwrap_or(file)
    };
    let there: BTreeSet<String> = own.iter().map(names).collect();
    let mut out = Vec::new();
    for row in providers {
        let is_it =
            |library: &&OwnLibrary| library.package == row.package && library.library.path == row.library;
        let Some(library) = own.iter().find(is_it) else { continue };
        let Ok(at) = loader.open_file(&library.file) else { continue };
        let other_number = |name: &str| {
            let stem = &name[..name.find(".so.")? + ".so.".len()];
            there.iter().find(|other| other.starts_with(stem) && *other != name).cloned()
        };
        // A program can load what the environment has before it: torch does.
        let mut absent = loader.missing_below(at).into_iter().filter(|name| !there.contains(name));
        if let Some((missing, found)) = absent.find_map(|name| Some((name.clone(), other_number(&name)?))) {
            let (package, path, effect) = (row.package.clone(), row.library.clone(), row.effect.clone());
            out.push(UnusableProvider { package, path, missing, found, effect });
        }
    }
    out
}

/// Libraries for another processor whose name the process does not find, and modules that an import loads.
fn other_machine(
    loader: &Loader<'_>,
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

fn own_libraries(tree: &dyn FileTree, installed: &Installed) -> (Vec<OwnLibrary>, Vec<UnreadableLibrary>) {
    let mut all: Vec<(&str, &str, &Path)> = Vec::new();
    for distribution in &installed.distributions {
        let site = installed.site_of(distribution);
        let libraries = distribution.libraries.iter();
        all.extend(libraries.map(|path| (distribution.name.as_str(), path.as_str(), site)));
    }
    // Largest first, so that the threads finish at about the same time.
    all.sort_by_cached_key(|(_, path, site)| std::cmp::Reverse(tree.size(&site.join(path)).unwrap_or(0)));
    let queue = Mutex::new(all.iter());
    let done: Mutex<Vec<OwnLibrary>> = Mutex::default();
    let broken: Mutex<Vec<UnreadableLibrary>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                loop {
                    let Some((package, path, site)) = queue.lock().ok().and_then(|mut q| q.next()) else {
                        return;
                    };
                    let file = site.join(path);
                    let found = match library(tree, &file, Detail::Code) {
                        Ok(found) => found,
                        // A missing file is reported as missing, not as unreadable.
                        Err(_) if !tree.exists(&file) => continue,
                        Err(why) => {
                            if let Ok(mut broken) = broken.lock() {
                                broken.push(UnreadableLibrary {
                                    package: (*package).to_owned(),
                                    path: (*path).to_owned(),
                                    why: unreadable(tree, &why, &file),
                                });
                            }
                            continue;
                        }
                    };
                    let library = Library { path: (*path).to_owned(), ..found };
                    let file = tree.real(&file).unwrap_or(file);
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

fn unreadable(tree: &dyn FileTree, error: &ElfError, file: &Path) -> Unreadable {
    match error {
        // A `.so` file may be a linker script, which is text.
        ElfError::NotElf if is_of_another_kind(tree, file) => Unreadable::NotElf,
        ElfError::NotElf if tree.size(file) == Some(0) => Unreadable::Damaged("it is empty".to_owned()),
        ElfError::NotElf => Unreadable::Damaged("its ELF header is missing or damaged".to_owned()),
        other => Unreadable::Damaged(crate::model::text::clean(&other.to_string(), 100)),
    }
}

/// Whether a file is of another kind than a 64-bit ELF file: text, empty, a 32-bit library, or one for another system.
fn is_of_another_kind(tree: &dyn FileTree, file: &Path) -> bool {
    const MAGICS: [&[u8]; 7] = [
        b"\x7fELF\x01",
        b"MZ",
        b"!<arch>",
        b"\xcf\xfa\xed\xfe",
        b"\xce\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
        b"\xfe\xed\xfa",
    ];
    let head = tree.start(file, 64).unwrap_or_default();
    // An empty file is not a linker script: its content was lost.
    let is_text =
        !head.is_empty() && head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    is_text || MAGICS.iter().any(|magic| head.starts_with(magic))
}
