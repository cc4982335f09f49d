//! The native side of an environment: its libraries, the process they would make, and what else of their kind
//! lies on the machine.

use std::path::PathBuf;

use super::library::{Library, LibraryVersion};
use super::process::Process;
use super::version::DottedVersion;

/// What of an environment's native side was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Native {
    /// The libraries that installed packages own.
    pub own: Vec<OwnLibrary>,
    /// The process that importing the framework would make; nothing where there is no framework or no
    /// interpreter.
    pub process: Option<Process>,
    /// How many objects and missing names are of the framework itself; the rest come with extensions, which may be
    /// for other machines and never be imported.
    pub of_framework: (usize, usize),
    /// Libraries of packages that could not be read, sorted by package and path.
    pub unreadable: Vec<UnreadableLibrary>,
    /// The interpreter is a link that leads nowhere.
    pub interpreter_gone: bool,
    /// For each object of the process, its version, where its file tells.
    pub versions: Vec<Option<LibraryVersion>>,
    /// Libraries of CUDA and cuDNN on the machine, outside the environment.
    pub copies: Vec<Copy>,
    /// Extensions that ask for symbols which the installed torch does not define.
    pub foreign: Vec<ForeignSymbols>,
    /// Versions of symbols that an object asks for and the file taken for the name does not define.
    pub missing_versions: Vec<MissingVersion>,
    /// What could not be done, one phrase.
    pub not_done: Option<String>,
}

/// A library that a package owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLibrary {
    /// The package.
    pub package: String,
    /// The file on disk.
    pub file: PathBuf,
    /// What it says; its path is relative to site-packages.
    pub library: Library,
}

/// A file of a package that is called a library and cannot be read as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableLibrary {
    /// The package.
    pub package: String,
    /// The file, relative to site-packages.
    pub path: String,
    /// Why not.
    pub why: Unreadable,
}

/// Why a library cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not a 64-bit ELF file: a text for the linker, another system's.
    NotElf,
    /// It is one, and broken, or could not be opened: why.
    Damaged(String),
}

/// A library outside the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The file.
    pub path: PathBuf,
    /// Its version, where the file tells.
    pub version: Option<LibraryVersion>,
}

/// An extension that was built for another torch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignSymbols {
    /// The package.
    pub package: String,
    /// The extension, relative to site-packages.
    pub path: String,
    /// How many symbols nobody defines.
    pub count: usize,
    /// One of them, as the linker writes it.
    pub example: String,
}

/// A version of symbols that nobody defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingVersion {
    /// Who asks for it, by place in the process.
    pub by: usize,
    /// The file that was taken for the name, by place in the process.
    pub of: usize,
    /// The last of them, `GLIBCXX_3.4.30`.
    pub version: String,
    /// How many of that file's are missing.
    pub count: usize,
}

/// A library that another opens by name while it runs: it stands in no `DT_NEEDED`.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// SONAME of who opens.
    pub by: String,
    /// The name that is opened.
    pub name: String,
    /// From this version of the opener on.
    pub from: Option<DottedVersion>,
    /// Whether it fails without.
    pub required: bool,
    /// Whether the name with the opener's whole version is tried before.
    pub versioned: bool,
}

/// What importing a framework loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkLoads {
    /// The package: `torch`, `jax-cuda13-pjrt`.
    pub package: String,
    /// Its own libraries that Python loads first, below site-packages; `*` stands for any text inside a name.
    pub starts: Vec<String>,
    /// How names begin of CUDA's libraries that it opens itself, in order.
    pub opens: Vec<String>,
    /// Whether it names the files in NVIDIA's wheels; else the loader looks for them by name.
    pub by_path: bool,
    /// How names begin of those of its libraries that look by name.
    pub from: Vec<String>,
}

impl FrameworkLoads {
    /// Which of [`FrameworkLoads::starts`] a path below site-packages is.
    pub fn place(&self, path: &str) -> Option<usize> {
        self.starts.iter().position(|pattern| match pattern.split_once('*') {
            Some((head, tail)) => {
                path.len() >= head.len() + tail.len() && path.starts_with(head) && path.ends_with(tail)
            }
            None => path == pattern,
        })
    }
}
