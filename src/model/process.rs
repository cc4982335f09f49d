//! A simulated process: which file the dynamic loader loads for each name, and why.

use std::path::PathBuf;

/// The objects of a process in load order, and the names that are not found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// The program first, then its direct and indirect dependencies.
    pub objects: Vec<Object>,
    /// Names for which no file is found.
    pub missing: Vec<Missing>,
}

/// One loaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The file, as it was found.
    pub path: PathBuf,
    /// The file with all symbolic links resolved.
    pub file: PathBuf,
    /// The name by which it was loaded: a SONAME, or a path.
    pub name: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// The index in [`Process::objects`] of the first object that required it; `None` for the program.
    pub by: Option<usize>,
    /// How the loader found this file.
    pub how: How,
    /// The kind of search path that it has.
    pub finds_by: FindsBy,
}

/// The search path of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindsBy {
    /// `DT_RPATH`, which is searched before `LD_LIBRARY_PATH`.
    Rpath,
    /// `DT_RUNPATH`, which is searched after `LD_LIBRARY_PATH`.
    Runpath,
    /// It has none.
    Nothing,
}

/// How the loader found a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It is the program.
    Program,
    /// It was loaded by path.
    Path,
    /// It is in `LD_PRELOAD` or `/etc/ld.so.preload`.
    Preload,
    /// `DT_RPATH` of an object, by index in [`Process::objects`].
    Rpath(usize),
    /// A directory in `LD_LIBRARY_PATH`.
    LibraryPath(PathBuf),
    /// `DT_RUNPATH` of the object that required it, by index in [`Process::objects`].
    Runpath(usize),
    /// `/etc/ld.so.cache`.
    Cache,
    /// A default directory.
    Default(PathBuf),
}

/// A name that the loader does not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The name.
    pub name: String,
    /// The index in [`Process::objects`] of the object that requires it.
    pub by: Option<usize>,
    /// Whether it is opened with `dlopen`, so that the first use fails instead of the import.
    pub later: bool,
}
