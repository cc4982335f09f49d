//! A process as the dynamic loader would build it: which file it takes for each name, and why that one.

use std::path::PathBuf;

/// The objects of a process in the order of their loading, and what would be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// The program first, then what it and the others need.
    pub objects: Vec<Object>,
    /// Names for which no file is found.
    pub missing: Vec<Missing>,
}

/// One loaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The file, as it was found.
    pub path: PathBuf,
    /// The file behind all links.
    pub file: PathBuf,
    /// The name under which it was asked for: a SONAME, or a path.
    pub name: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// Who asked for it first, by place in [`Process::objects`]; nobody for the program.
    pub by: Option<usize>,
    /// What led to this file.
    pub how: How,
    /// By which of its own paths it finds others.
    pub finds_by: FindsBy,
}

/// The search path that an object names itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindsBy {
    /// `DT_RPATH`, which is looked at before `LD_LIBRARY_PATH`.
    Rpath,
    /// `DT_RUNPATH`, which is looked at after it.
    Runpath,
    /// It names none.
    Nothing,
}

/// What made the loader take a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It is the program.
    Program,
    /// It was asked for by path.
    Path,
    /// `LD_PRELOAD` or `/etc/ld.so.preload` names it.
    Preload,
    /// `DT_RPATH` of an object, by place in [`Process::objects`].
    Rpath(usize),
    /// A folder of `LD_LIBRARY_PATH`.
    LibraryPath(PathBuf),
    /// `DT_RUNPATH` of who asked.
    Runpath(usize),
    /// `/etc/ld.so.cache`.
    Cache,
    /// A default folder.
    Default(PathBuf),
}

/// A name that the loader does not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The name.
    pub name: String,
    /// Who asks for it, by place in [`Process::objects`].
    pub by: Option<usize>,
    /// Whether it is opened later, by `dlopen`: then the failure comes with the first use.
    pub later: bool,
}
