//! Simulates glibc's dynamic loader: which file it takes for each name. Nothing is loaded.
//!
//! Search order for a name without a slash (ld.so(8)): an object already loaded under that name; `DT_RPATH` of the
//! requesting object, of the object that loaded it, and so on up to the program, unless the requesting object has a
//! `DT_RUNPATH`; `LD_LIBRARY_PATH`; `DT_RUNPATH` of the requesting object; the cache; the default folders. In each
//! folder, subfolders for newer processors come first (`glibc-hwcaps`). Files for another architecture are skipped.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::elf::{Dynamic, Elf, ElfError, Mapped};
use super::ld_cache::{self, Entry, MAX_CACHE};
use super::tree::{FileTree, ThisMachine};
use crate::model::process::{FindsBy, How, Missing, Object, Process};

/// Maximum number of objects in a process.
const MAX_OBJECTS: usize = 4_096;
/// Maximum number of missing names.
const MAX_MISSING: usize = 10_000;
/// Maximum size of `/etc/ld.so.preload`, in bytes.
const MAX_PRELOAD: u64 = 1 << 16;
/// Maximum number of folders read from a search path.
const MAX_FOLDERS: usize = 1_024;

/// The libraries that `/etc/ld.so.preload` names. `#` begins a comment.
pub(super) fn preloaded(tree: &dyn FileTree, root: &Path) -> Vec<String> {
    let text = tree.text(&root.join("etc/ld.so.preload"), MAX_PRELOAD).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The loader's input other than the libraries.
#[derive(Clone)]
pub struct Surroundings<'t> {
    /// The file system that is read.
    pub tree: &'t dyn FileTree,
    /// The root folder for `/etc` and the default folders: `/`, or another folder in a test.
    pub root: PathBuf,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<String>,
    /// `LD_PRELOAD`.
    pub preload: Option<String>,
    /// conda's library folders, which are searched for copies of CUDA libraries.
    pub conda: Vec<PathBuf>,
    /// The program's working folder: the meaning of an empty entry in a search path.
    pub working_folder: PathBuf,
}

impl Default for Surroundings<'_> {
    /// Nothing but the file system of this machine.
    fn default() -> Self {
        Surroundings {
            tree: &ThisMachine,
            root: PathBuf::new(),
            library_path: None,
            preload: None,
            conda: Vec::new(),
            working_folder: PathBuf::new(),
        }
    }
}

/// Builds a [`Process`].
pub struct Loader<'t> {
    tree: &'t dyn FileTree,
    root: PathBuf,
    library_path: Vec<PathBuf>,
    preload: Vec<String>,
    cache: Vec<Entry>,
    cache_by_name: HashMap<String, Vec<usize>>,
    default_folders: Vec<PathBuf>,
    hwcaps: Vec<String>,
    machine: String,
    library_folder: &'static str,
    working_folder: PathBuf,
    /// Cache of file headers; `None` for unreadable files.
    seen: HashMap<PathBuf, Option<Header>>,
    /// Cache of which folders exist.
    folders: HashMap<PathBuf, bool>,
    process: Process,
    dynamics: Vec<Dynamic>,
    /// For each object, whether it was opened at run time by a library, which may resolve calls later.
    lazy: Vec<bool>,
    /// Whether the objects that are added now are.
    adds_lazy: bool,
    /// The missing names that were recorded, with the object that needs them.
    told: HashSet<(String, usize)>,
    by_name: HashMap<String, usize>,
    by_file: HashMap<PathBuf, usize>,
}

#[derive(Debug, Clone)]
struct Header {
    dynamic: Dynamic,
    machine: String,
}

impl<'t> Loader<'t> {
    /// Starts a process with a program and the libraries that it needs.
    ///
    /// # Errors
    /// When the program's file cannot be read.
    pub fn start(program: &Path, around: &Surroundings<'t>) -> Result<Loader<'t>, ElfError> {
        let tree = around.tree;
        // `$ORIGIN` is the program's real folder: the kernel resolves symlinks.
        let program = tree.real(program)?;
        let header = read(tree, &program)?;
        let machine = header.machine.clone();
        let multiarch = format!("{machine}-linux-gnu");
        let library_folder = match tree.is_folder(&around.root.join("lib").join(&multiarch)) {
            true if machine == "aarch64" => "lib/aarch64-linux-gnu",
            true => "lib/x86_64-linux-gnu",
            false => "lib64",
        };
        let default_folders = [format!("lib/{multiarch}"), format!("usr/lib/{multiarch}")]
            .into_iter()
            .chain(["lib64", "usr/lib64", "lib", "usr/lib"].map(str::to_owned))
            .map(|folder| around.root.join(folder))
            .collect();
        let mut cache = Vec::new();
        if let Some(bytes) = tree.start(&around.root.join("etc/ld.so.cache"), MAX_CACHE) {
            cache = ld_cache::parse(&bytes, &machine);
        }
        let mut cache_by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, entry) in cache.iter().enumerate() {
            cache_by_name.entry(entry.name.clone()).or_default().push(i);
        }
        let mut preload: Vec<String> = Vec::new();
        let named = around.preload.iter().flat_map(|list| list.split([':', ' ']));
        preload.extend(named.filter(|name| !name.is_empty()).map(str::to_owned));
        preload.extend(preloaded(tree, &around.root));
        preload.truncate(MAX_FOLDERS);
        let mut loader = Loader {
            tree,
            root: around.root.clone(),
            library_path: Vec::new(),
            preload,
            cache,
            cache_by_name,
            default_folders,
            hwcaps: hwcaps(&machine),
            machine,
            library_folder,
            working_folder: around.working_folder.clone(),
            seen: HashMap::new(),
            folders: HashMap::new(),
            process: Process::default(),
            dynamics: Vec::new(),
            lazy: Vec::new(),
            adds_lazy: false,
            told: HashSet::new(),
            by_name: HashMap::new(),
            by_file: HashMap::new(),
        };
        let origin = program.parent().map(Path::to_path_buf).unwrap_or_default();
        if let Some(list) = around.library_path.as_ref().filter(|list| !list.is_empty()) {
            let entries = list.split([':', ';']).take(MAX_FOLDERS);
            loader.library_path = entries.map(|entry| loader.expanded(entry, &origin)).collect();
        }
        let name = program.display().to_string();
        loader.add(program, name, None, How::Program, header);
        for name in loader.preload.clone() {
            // The loader only warns about a missing preload library.
            let _ = loader.find_and_add(&name, Some(0), true);
        }
        loader.needs_from(0);
        Ok(loader)
    }

    /// Loads a file by its path with its dependencies, as an import or `dlopen` with a path does.
    ///
    /// # Errors
    /// When the file is not a library that the loader accepts.
    pub fn open_file(&mut self, path: &Path) -> Result<usize, ElfError> {
        let real = self.tree.real(path)?;
        if let Some(at) = self.by_file.get(&real) {
            return Ok(*at);
        }
        let header = read(self.tree, &real)?;
        if header.machine != self.machine {
            return Err(ElfError::Machine(header.machine));
        }
        let next = self.process.objects.len();
        if next >= MAX_OBJECTS {
            return Err(ElfError::Damaged("the process has too many objects"));
        }
        let name = path.display().to_string();
        let at = self.add(path.to_path_buf(), name, Some(0), How::Path, header);
        self.needs_from(next);
        Ok(at)
    }

    /// Loads the first of `names` that is found, as `dlopen` in an object does. If none is found, the last name is
    /// recorded as missing.
    pub fn open(&mut self, names: &[String], by: usize) -> Option<usize> {
        if let Some(at) = names.iter().find_map(|name| self.open_if_there(name, by)) {
            return Some(at);
        }
        let missing = Missing { name: names.last()?.clone(), by: Some(by), later: true };
        if !self.process.missing.contains(&missing) {
            self.process.missing.push(missing);
        }
        None
    }

    /// Loads a library by name if it is found. A library that is not found is not recorded as missing.
    pub fn open_if_there(&mut self, name: &str, by: usize) -> Option<usize> {
        let next = self.process.objects.len();
        self.adds_lazy = true;
        let at = self.find_and_add(name, Some(by), false);
        if at.is_some() {
            self.needs_from(next);
        }
        self.adds_lazy = false;
        at
    }

    /// The direct and indirect dependencies of an object, itself first; `None` if one of them is missing.
    pub fn dependencies(&self, of: usize) -> Option<Vec<usize>> {
        let mut seen = vec![false; self.dynamics.len()];
        seen[of] = true;
        let mut out = vec![of];
        let mut next = 0;
        while let Some(at) = out.get(next).copied() {
            next += 1;
            for name in &self.dynamics[at].needed {
                let needed = *self.by_name.get(name)?;
                if !std::mem::replace(&mut seen[needed], true) {
                    out.push(needed);
                }
            }
        }
        Some(out)
    }

    /// The names that an object or its dependencies need and that are not found.
    pub fn missing_below(&self, of: usize) -> Vec<String> {
        let (mut seen, mut queue, mut out) = (vec![false; self.dynamics.len()], vec![of], Vec::new());
        while let Some(at) = queue.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            for name in &self.dynamics[at].needed {
                match self.by_name.get(name) {
                    Some(needed) => queue.push(*needed),
                    // Beyond the limits, names are not searched for.
                    None if self.told.contains(&(name.clone(), at)) => out.push(name.clone()),
                    None => {}
                }
            }
        }
        out.sort();
        out.dedup();
        out
    }

    /// Whether a library opened an object at run time, so that its calls may be resolved later.
    pub fn is_opened_lazily(&self, at: usize) -> bool {
        self.lazy[at]
    }

    /// The architecture of the program.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// The files of the cache entries whose names start with a prefix.
    pub fn cached(&self, prefix: &str) -> Vec<PathBuf> {
        self.cache.iter().filter(|e| e.name.starts_with(prefix)).map(|e| self.under_root(&e.path)).collect()
    }

    /// The folders of `LD_LIBRARY_PATH`, expanded.
    pub fn library_path(&self) -> &[PathBuf] {
        &self.library_path
    }

    /// The process so far.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Loads the dependencies of each object from `first` on, breadth first as the loader does.
    fn needs_from(&mut self, first: usize) {
        let mut at = first;
        while at < self.process.objects.len() && self.process.objects.len() < MAX_OBJECTS {
            for name in self.dynamics[at].needed.clone() {
                if self.find_and_add(&name, Some(at), false).is_none()
                    && self.process.missing.len() < MAX_MISSING
                    && self.told.insert((name.clone(), at))
                {
                    self.process.missing.push(Missing { name, by: Some(at), later: false });
                }
            }
            at += 1;
        }
    }

    fn find_and_add(&mut self, name: &str, by: Option<usize>, preload: bool) -> Option<usize> {
        if let Some(at) = self.by_name.get(name) {
            return Some(*at);
        }
        let (path, how) = if name.contains('/') {
            let origin = self.origin(by.unwrap_or(0));
            (self.expanded(name, &origin), if preload { How::Preload } else { How::Path })
        } else {
            let (path, how) = self.search(name, by?)?;
            (path, if preload { How::Preload } else { how })
        };
        let real = self.tree.real(&path).ok()?;
        if let Some(at) = self.by_file.get(&real).copied() {
            // A file is loaded once, even under several names.
            self.by_name.insert(name.to_owned(), at);
            return Some(at);
        }
        let header = self.header(&path)?;
        Some(self.add(path, name.to_owned(), by, how, header))
    }

    fn add(&mut self, path: PathBuf, name: String, by: Option<usize>, how: How, header: Header) -> usize {
        let at = self.process.objects.len();
        let file = self.tree.real(&path).unwrap_or_else(|_| path.clone());
        self.by_file.insert(file.clone(), at);
        for known in std::iter::once(&name).chain(&header.dynamic.soname) {
            self.by_name.entry(known.clone()).or_insert(at);
        }
        let soname = header.dynamic.soname.clone();
        let finds_by = match (header.dynamic.rpath.is_empty(), header.dynamic.runpath.is_empty()) {
            (_, false) => FindsBy::Runpath,
            (false, true) => FindsBy::Rpath,
            (true, true) => FindsBy::Nothing,
        };
        self.process.objects.push(Object { path, file, name, soname, by, how, finds_by });
        self.dynamics.push(header.dynamic);
        self.lazy.push(self.adds_lazy);
        at
    }

    /// The file that the loader takes for a name.
    fn search(&mut self, name: &str, by: usize) -> Option<(PathBuf, How)> {
        self.places(name, by).into_iter().find_map(|(place, how)| {
            let found = match place {
                Place::Folder(folder) => self.in_folder(&folder, name),
                Place::File(path) => self.usable(&path).then_some(path),
            };
            found.map(|path| (path, how))
        })
    }

    /// The places where the loader searches for a name, in order.
    fn places(&self, name: &str, by: usize) -> Vec<(Place, How)> {
        let mut out = Vec::new();
        if self.dynamics[by].runpath.is_empty() {
            let mut at = Some(by);
            let mut reached_program = false;
            // Each object is loaded by an earlier one, so the chain ends.
            while let Some(object) = at {
                out.extend(self.own_path(&self.dynamics[object].rpath, object, How::Rpath));
                reached_program |= object == 0;
                at = self.process.objects[object].by.filter(|parent| *parent < object);
            }
            if !reached_program {
                out.extend(self.own_path(&self.dynamics[0].rpath, 0, How::Rpath));
            }
        }
        out.extend(self.library_path.iter().map(|f| (Place::Folder(f.clone()), How::LibraryPath(f.clone()))));
        out.extend(self.own_path(&self.dynamics[by].runpath, by, How::Runpath));
        let in_default = |path: &Path| self.default_folders.iter().any(|f| path.starts_with(f));
        let no_default = self.dynamics[by].no_default_folders;
        for i in self.cache_by_name.get(name).into_iter().flatten() {
            let path = self.under_root(&self.cache[*i].path);
            if self.suits(&path) && !(no_default && in_default(&path)) {
                out.push((Place::File(path), How::Cache));
            }
        }
        if !no_default {
            let folders = self.default_folders.iter();
            out.extend(folders.map(|f| (Place::Folder(f.clone()), How::Default(f.clone()))));
        }
        out
    }

    /// The folders in an object's RPATH or RUNPATH.
    fn own_path(&self, list: &[String], of: usize, how: fn(usize) -> How) -> Vec<(Place, How)> {
        let origin = self.origin(of);
        let entries = list.iter().take(MAX_FOLDERS);
        entries.map(|entry| (Place::Folder(self.expanded(entry, &origin)), how(of))).collect()
    }

    /// Whether this processor supports the `glibc-hwcaps` level in a path, if there is one.
    fn suits(&self, path: &Path) -> bool {
        let mut parts = path.components().filter_map(|c| match c {
            Component::Normal(part) => part.to_str(),
            _ => None,
        });
        match parts.find(|part| *part == "glibc-hwcaps").and_then(|_| parts.next()) {
            Some(level) => self.hwcaps.iter().any(|known| known == level),
            None => true,
        }
    }

    fn in_folder(&mut self, folder: &Path, name: &str) -> Option<PathBuf> {
        let exists = match self.folders.get(folder) {
            Some(exists) => *exists,
            None => {
                let exists = self.tree.is_folder(folder);
                self.folders.insert(folder.to_path_buf(), exists);
                exists
            }
        };
        if !exists {
            return None;
        }
        let newer = folder.join("glibc-hwcaps");
        let has_newer = match self.folders.get(&newer) {
            Some(exists) => *exists,
            None => {
                let exists = self.tree.is_folder(&newer);
                self.folders.insert(newer.clone(), exists);
                exists
            }
        };
        if has_newer {
            for level in self.hwcaps.clone() {
                let path = newer.join(level).join(name);
                if self.usable(&path) {
                    return Some(path);
                }
            }
        }
        let path = folder.join(name);
        self.usable(&path).then_some(path)
    }

    /// Whether a file exists and is for this architecture.
    fn usable(&mut self, path: &Path) -> bool {
        self.header(path).is_some_and(|header| header.machine == self.machine)
    }

    fn header(&mut self, path: &Path) -> Option<Header> {
        if let Some(seen) = self.seen.get(path) {
            return seen.clone();
        }
        let header = read(self.tree, path).ok();
        self.seen.insert(path.to_path_buf(), header.clone());
        header
    }

    fn origin(&self, of: usize) -> PathBuf {
        self.process.objects[of].path.parent().map(Path::to_path_buf).unwrap_or_default()
    }

    /// Expands `$ORIGIN`, `$LIB` and `$PLATFORM` in an entry of a search path. An empty entry is the working
    /// folder.
    fn expanded(&self, entry: &str, origin: &Path) -> PathBuf {
        if entry.is_empty() {
            return self.working_folder.clone();
        }
        let origin = origin.display().to_string();
        let values = [("ORIGIN", origin.as_str()), ("LIB", self.library_folder), ("PLATFORM", &self.machine)];
        let mut out = String::new();
        let mut rest = entry;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let tail = &rest[at + 1..];
            let found = values.iter().find_map(|(name, value)| {
                if let Some(after) = tail.strip_prefix('{') {
                    return Some((*value, after.strip_prefix(name)?.strip_prefix('}')?));
                }
                let after = tail.strip_prefix(name)?;
                // `$LIBRARY` is not `$LIB`.
                let ends = !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                ends.then_some((*value, after))
            });
            match found {
                Some((value, after)) => {
                    out.push_str(value);
                    rest = after;
                }
                None => {
                    out.push('$');
                    rest = tail;
                }
            }
        }
        out.push_str(rest);
        PathBuf::from(out)
    }

    /// An absolute path below the root folder.
    fn under_root(&self, path: &Path) -> PathBuf {
        if self.root == Path::new("/") || path.starts_with(&self.root) {
            return path.to_path_buf();
        }
        path.strip_prefix("/").map_or_else(|_| path.to_path_buf(), |inside| self.root.join(inside))
    }
}

enum Place {
    Folder(PathBuf),
    File(PathBuf),
}

fn read(tree: &dyn FileTree, path: &Path) -> Result<Header, ElfError> {
    let mapped = Mapped::open(tree, path)?;
    let elf = Elf::parse(mapped.bytes())?;
    Ok(Header { machine: elf.machine(), dynamic: elf.dynamic })
}

/// The x86-64 levels of this processor (psABI), the highest first.
fn hwcaps(machine: &str) -> Vec<String> {
    let mut levels: Vec<&str> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if machine == "x86_64" {
        let v2 = std::is_x86_feature_detected!("sse4.2")
            && std::is_x86_feature_detected!("popcnt")
            && std::is_x86_feature_detected!("ssse3");
        let v3 = v2
            && std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c")
            && std::is_x86_feature_detected!("movbe")
            && std::is_x86_feature_detected!("lzcnt");
        let v4 = v3
            && std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512cd")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl");
        levels.extend(
            [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")].iter().filter(|l| l.0).map(|l| l.1),
        );
    }
    let _ = machine;
    levels.into_iter().map(str::to_owned).collect()
}
