//! Native code of an environment: its libraries, the process that would load them, and other copies on the machine.

use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

use super::library::{Library, LibraryVersion};
use super::process::Process;
use super::version::DottedVersion;
use super::wheel::Python;

/// Native code of an environment, as far as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Native {
    /// The libraries of installed packages.
    pub own: Vec<OwnLibrary>,
    /// The process after importing the framework; `None` without a framework or interpreter.
    pub process: Option<Process>,
    /// The numbers of objects and missing names of the framework itself. The rest belong to extensions, which may be for
    /// other machines and never be imported.
    pub of_framework: (usize, usize),
    /// Libraries of packages that could not be read, sorted by package and path.
    pub unreadable: Vec<UnreadableLibrary>,
    /// Why the interpreter does not run the environment, if it does not.
    pub interpreter: Option<InterpreterFault>,
    /// Packages whose extension modules are for another Python, C library or processor.
    pub foreign_modules: Vec<ForeignModules>,
    /// Packages that were built for NumPy 1, beside a later one.
    pub built_for_numpy1: Vec<BuiltForNumpy1>,
    /// The version of each object of the process, if found in its file.
    pub versions: Vec<Option<LibraryVersion>>,
    /// Libraries of CUDA and cuDNN on the machine, outside the environment.
    pub copies: Vec<Copy>,
    /// Libraries with symbols that no library defines.
    pub undefined: Vec<UndefinedSymbols>,
    /// Libraries that their package opens at run time to use the GPU, and that need a library of another CUDA version.
    pub providers: Vec<UnusableProvider>,
    /// Modules that importing their package loads, and that need a library that is nowhere.
    pub unimportable: Vec<Unimportable>,
    /// Files that packages open or start by their path, and that they cannot use.
    pub unusable: Vec<UnusableFile>,
    /// Libraries that are loaded, but are for another processor.
    pub other_machine: Vec<OtherMachine>,
    /// Symbol versions that an object requires but the loaded file does not define.
    pub missing_versions: Vec<MissingVersion>,
    /// What could not be checked, as one phrase.
    pub not_done: Option<String>,
}

/// A library of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLibrary {
    /// The package.
    pub package: String,
    /// The file on disk.
    pub file: PathBuf,
    /// Its properties; the path is relative to site-packages.
    pub library: Library,
}

/// A file of a package that is named like a library but cannot be read as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableLibrary {
    /// The package.
    pub package: String,
    /// The file, relative to site-packages.
    pub path: String,
    /// The reason.
    pub why: Unreadable,
}

/// Why a library cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not a 64-bit ELF file: a linker script, or a library for another system.
    NotElf,
    /// The ELF file is damaged or could not be opened, with the reason.
    Damaged(String),
}

/// A library outside the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The file.
    pub path: PathBuf,
    /// Its version, if found in the file.
    pub version: Option<LibraryVersion>,
}

/// A library with symbols that no library defines, so that loading it fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndefinedSymbols {
    /// The package.
    pub package: String,
    /// The library, relative to site-packages.
    pub path: String,
    /// The file, with symlinks resolved.
    pub file: PathBuf,
    /// The number of undefined symbols.
    pub count: usize,
    /// One of them, as the linker writes it.
    pub example: String,
    /// Whether one of them belongs to torch's C++ namespaces.
    pub of_torch: bool,
    /// The loaded library that should define them and is not the one that it was built for.
    pub stale: Option<Stale>,
    /// Whether importing the package loads the library.
    pub imported: bool,
}

/// A module that importing its package certainly loads, and that needs a library that is neither in the environment nor
/// found by the loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unimportable {
    /// The package.
    pub package: String,
    /// The module, relative to site-packages.
    pub path: String,
    /// The missing library.
    pub missing: String,
    /// Whether the package brings that library itself: `libopenblas-56d6093b.so` of `numpy.libs`.
    pub is_own: bool,
}

/// A file that a package opens or starts by its path.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileByPath {
    /// The package.
    pub package: String,
    /// The file, relative to site-packages; `*` in its name matches any text, `{cuda}` is the CUDA major version that torch is
    /// built for.
    pub file: String,
    /// The file that opens it and contains its name. Only a release whose opener contains the name misses the file.
    pub named_in: Option<String>,
    /// Whether it is started as a program.
    #[serde(default)]
    pub program: bool,
    /// Whether importing the package opens it.
    #[serde(default)]
    pub at_import: bool,
    /// What happens without it.
    pub effect: String,
}

/// A [`FileByPath`] that its package cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableFile {
    /// The package.
    pub package: String,
    /// The file, relative to site-packages.
    pub path: String,
    /// What is wrong with it.
    pub why: WhyUnusable,
    /// The file on disk.
    pub file: PathBuf,
    /// What happens without it.
    pub effect: String,
}

/// Why a package cannot use a [`FileByPath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyUnusable {
    /// It is not there.
    Gone,
    /// There is none for the CUDA major version of torch: a release may never have had it.
    NotForCuda,
    /// It may not be executed.
    NotExecutable,
}

/// A library that its package opens at run time to use the GPU; without it the package runs on the CPU.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The package.
    pub package: String,
    /// The library, relative to site-packages.
    pub library: String,
    /// What happens without it.
    pub effect: String,
}

/// A [`Provider`] that needs a CUDA library of another number than the environment has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableProvider {
    /// The package.
    pub package: String,
    /// The library, relative to site-packages.
    pub path: String,
    /// The library that it needs and that is nowhere: `libcudart.so.12`.
    pub missing: String,
    /// The library of another number that the environment has: `libcudart.so.13`.
    pub found: String,
    /// What happens without it.
    pub effect: String,
}

/// A loaded library that lacks symbols which another one requires of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The loaded file.
    pub loaded: PathBuf,
    /// The file of the environment with the same name that has the symbols; `None` if there is none.
    pub instead_of: Option<PathBuf>,
}

/// A library for another processor than the interpreter's, where one for the interpreter's is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherMachine {
    /// The package.
    pub package: String,
    /// The library, relative to site-packages.
    pub path: String,
    /// The processor that it is for: `aarch64`.
    pub machine: String,
    /// The interpreter's processor.
    pub interpreter: String,
}

/// A symbol version that the loaded library does not define.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingVersion {
    /// The index of the object that requires it.
    pub by: usize,
    /// The index of the loaded library.
    pub of: usize,
    /// The last missing version, `GLIBCXX_3.4.30`.
    pub version: String,
    /// The number of missing versions of that library.
    pub count: usize,
}

/// A library that another library opens by name at run time (`dlopen`); it is not in `DT_NEEDED`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// SONAME of the opener.
    pub by: String,
    /// The opened name.
    pub name: String,
    /// The first opener version that opens it.
    pub from: Option<DottedVersion>,
    /// Whether the opener fails without it.
    pub required: bool,
    /// Whether the opener tries the name with its full version first.
    #[serde(default)]
    pub versioned: bool,
    /// Its place among what the opener opens; those without one are opened later.
    #[serde(default = "last")]
    pub order: u8,
}

fn last() -> u8 {
    u8::MAX
}

/// The libraries that importing a framework loads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkLoads {
    /// The package: `torch`, `jax-cuda13-pjrt`.
    pub package: String,
    /// Its own libraries that Python loads first, relative to site-packages; `*` matches any text in a name.
    pub starts: Vec<String>,
    /// Name prefixes of the CUDA libraries that it opens itself, in order.
    pub opens: Vec<String>,
    /// Whether it opens the files in NVIDIA's wheels by path; otherwise the loader searches for them by name.
    #[serde(rename = "by", deserialize_with = "is_path")]
    pub by_path: bool,
    /// Name prefixes of the CUDA libraries that it opens by path, in order, where NVIDIA's wheels lie in another folder of
    /// Python's path than its own.
    #[serde(default)]
    pub preloads: Vec<String>,
    /// Name prefixes of its libraries that open CUDA libraries by name.
    #[serde(default)]
    pub from: Vec<String>,
}

/// `name` or `path`.
fn is_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "name" => Ok(false),
        "path" => Ok(true),
        _ => Err(serde::de::Error::custom("`by` must be `name` or `path`")),
    }
}

impl FrameworkLoads {
    /// The index in [`FrameworkLoads::starts`] that matches a path relative to site-packages.
    pub fn place(&self, path: &str) -> Option<usize> {
        self.starts.iter().position(|pattern| match pattern.split_once('*') {
            Some((head, tail)) => {
                path.len() >= head.len() + tail.len() && path.starts_with(head) && path.ends_with(tail)
            }
            None => path == pattern,
        })
    }
}

/// Why `bin/python` does not run this environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterpreterFault {
    /// It is a link to a file that does not exist.
    Missing,
    /// There is none.
    Absent,
    /// It may not be executed.
    NotExecutable,
    /// `pyvenv.cfg` is gone, so that the Python it leads to does not know of this environment.
    Detached,
    /// `PYTHONHOME` is this folder, which does not have the standard library of this Python: no program starts.
    OtherHome(String, Python),
}

/// A package whose extension modules this Python cannot import: none of them is for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignModules {
    /// The package.
    pub package: String,
    /// One of its modules, relative to site-packages.
    pub path: String,
    /// What they are for, from the name: `cpython-312-x86_64-linux-gnu`.
    pub tag: String,
    /// Whether importing the package certainly imports one of them.
    pub imported: bool,
}

/// A package that was built for NumPy 1 beside NumPy 2 or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltForNumpy1 {
    /// The package.
    pub package: String,
    /// One of its modules, relative to site-packages.
    pub path: String,
    /// The installed NumPy.
    pub numpy: String,
    /// Whether importing the package certainly imports the module.
    pub imported: bool,
}
