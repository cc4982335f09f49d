//! The file system that is read: this machine's, or one that lies in a folder as a root file system. An image's layers are
//! a third one.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

/// Maximum number of links in one path; Linux follows 40.
const MAX_LINKS: usize = 40;
/// Maximum number of components of a path while its links are followed.
const MAX_COMPONENTS: usize = 4_096;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symlink; only where links are not followed.
    Link,
    /// A device, a pipe or a socket: never opened.
    Other,
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its kind, with links followed.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits, as in `chmod`; 0 where there are none.
    pub mode: u32,
    /// When its content was changed, in ns since 1970.
    pub modified: i128,
    /// When its metadata was changed, as a number to compare with another file's: in ns since 1970, or where that is not
    /// recorded what is known of the order.
    pub changed: i128,
    /// How many names it has: installers link files of their cache into environments.
    pub links: u64,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the folder.
    pub name: OsString,
    /// Its kind, with links not followed.
    pub kind: Kind,
}

/// An open file: a part of a file of this machine.
#[derive(Debug)]
pub struct Opened {
    /// The file that the content lies in.
    pub file: File,
    /// Where it begins, in bytes.
    pub start: u64,
    /// How long it is, in bytes.
    pub size: u64,
}

impl Opened {
    /// A whole file.
    ///
    /// # Errors
    /// When its size cannot be read.
    pub fn whole(file: File) -> Result<Opened> {
        let size = file.metadata()?.len();
        Ok(Opened { file, start: 0, size })
    }

    /// A reader of its content, from the start.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn reader(self) -> Result<impl std::io::Read> {
        Ok(Positioned { file: self.file, at: self.start, left: self.size })
    }
}

/// A reader that does not move the file's own position, which other readers of the file share.
struct Positioned {
    file: File,
    at: u64,
    left: u64,
}

impl std::io::Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        #[cfg(unix)]
        let count = std::os::unix::fs::FileExt::read_at(&self.file, &mut buffer[..wanted], self.at)?;
        #[cfg(windows)]
        let count = std::os::windows::fs::FileExt::seek_read(&self.file, &mut buffer[..wanted], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// A file system. Paths are absolute in it, and links are followed in it.
pub trait FileTree: Sync {
    /// The path with all links resolved.
    ///
    /// # Errors
    /// When it does not exist or cannot be read, as all functions here.
    fn real(&self, path: &Path) -> Result<PathBuf>;

    /// What a path leads to.
    ///
    /// # Errors
    /// As [`FileTree::real`].
    fn about(&self, path: &Path) -> Result<About>;

    /// Whether a path is a link itself, wherever it leads.
    fn is_link(&self, path: &Path) -> bool;

    /// The first `limit` entries of a folder, in any order.
    ///
    /// # Errors
    /// As [`FileTree::real`].
    fn list(&self, folder: &Path, limit: usize) -> Result<Vec<Entry>>;

    /// Opens a regular file.
    ///
    /// # Errors
    /// As [`FileTree::real`]; when it is not a regular file.
    fn open(&self, path: &Path) -> Result<Opened>;

    /// Whether a path leads to a regular file.
    fn is_file(&self, path: &Path) -> bool {
        self.about(path).is_ok_and(|about| about.kind == Kind::File)
    }

    /// Whether a path leads to a folder.
    fn is_folder(&self, path: &Path) -> bool {
        self.about(path).is_ok_and(|about| about.kind == Kind::Folder)
    }

    /// Whether a path leads to anything.
    fn exists(&self, path: &Path) -> bool {
        self.about(path).is_ok()
    }

    /// The size of a file, in bytes; `None` if there is none.
    fn size(&self, path: &Path) -> Option<u64> {
        self.about(path).ok().map(|about| about.size)
    }

    /// The names in a folder; empty if it cannot be read.
    fn names(&self, folder: &Path, limit: usize) -> Vec<String> {
        let entries = self.list(folder, limit).unwrap_or_default();
        entries.into_iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
    }

    /// The first `limit` bytes of a regular file; `None` if it cannot be read.
    fn start(&self, path: &Path, limit: u64) -> Option<Vec<u8>> {
        let about = self.about(path).ok()?;
        let file = self.open(path).ok()?.reader().ok()?;
        let mut bytes = Vec::with_capacity(usize::try_from(about.size.min(limit)).unwrap_or(0));
        file.take(limit).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a regular file; `None` if it is larger than `limit` bytes or cannot be read. Invalid UTF-8 is replaced.
    fn text(&self, path: &Path, limit: u64) -> Option<String> {
        let about = self.about(path).ok()?;
        if about.size > limit {
            return None;
        }
        self.start(path, limit).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The file system of this machine.
#[derive(Debug, Clone, Copy)]
pub struct ThisMachine;

impl FileTree for ThisMachine {
    fn real(&self, path: &Path) -> Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn about(&self, path: &Path) -> Result<About> {
        std::fs::metadata(path).map(|metadata| of_metadata(&metadata))
    }

    fn is_link(&self, path: &Path) -> bool {
        path.is_symlink()
    }

    fn list(&self, folder: &Path, limit: usize) -> Result<Vec<Entry>> {
        let entries = std::fs::read_dir(folder)?.flatten().take(limit);
        let kind = |entry: &std::fs::DirEntry| entry.file_type().map_or(Kind::Other, of_type);
        Ok(entries.map(|entry| Entry { kind: kind(&entry), name: entry.file_name() }).collect())
    }

    fn open(&self, path: &Path) -> Result<Opened> {
        // Checked before opening: opening a named pipe would block.
        match std::fs::metadata(path)?.is_file() {
            true => Opened::whole(File::open(path)?),
            false => Err(Error::other("not a regular file")),
        }
    }
}

fn of_type(kind: std::fs::FileType) -> Kind {
    match kind {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    }
}

fn of_metadata(metadata: &std::fs::Metadata) -> About {
    #[cfg(unix)]
    let (mode, modified, changed, links) = {
        use std::os::unix::fs::MetadataExt as _;
        let moment =
            |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        (
            metadata.mode() & 0o7777,
            moment(metadata.mtime(), metadata.mtime_nsec()),
            moment(metadata.ctime(), metadata.ctime_nsec()),
            metadata.nlink(),
        )
    };
    #[cfg(not(unix))]
    let (mode, modified, changed, links) = {
        let since = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX));
        (0o755, modified, modified, 1)
    };
    About { kind: of_type(metadata.file_type()), size: metadata.len(), mode, modified, changed, links }
}

/// A store of files whose links envlock follows itself ([`Linked`]). Its paths are absolute and have no links in their
/// folders.
pub trait Store: Sync {
    /// Where a path leads if it is a link.
    ///
    /// # Errors
    /// When it does not exist or cannot be read, as all functions here.
    fn link(&self, real: &Path) -> Result<Option<PathBuf>>;

    /// What is at a path that is no link.
    ///
    /// # Errors
    /// As [`Store::link`].
    fn about(&self, real: &Path) -> Result<About>;

    /// The first `limit` entries of a folder.
    ///
    /// # Errors
    /// As [`Store::link`].
    fn list(&self, real: &Path, limit: usize) -> Result<Vec<Entry>>;

    /// Opens a regular file.
    ///
    /// # Errors
    /// As [`Store::link`]; when it is not a regular file.
    fn open(&self, real: &Path) -> Result<Opened>;
}

/// A file system with a root of its own: links in it, absolute ones too, lead to places in it, and `..` does not leave it.
#[derive(Debug)]
pub struct Linked<S> {
    store: S,
    /// Folders whose links were resolved: many files lie in few folders.
    known: Mutex<HashMap<PathBuf, PathBuf>>,
}

/// A root file system in a folder of this machine: a mounted image, an unpacked sandbox, a chroot.
pub type Rooted = Linked<InFolder>;

impl Rooted {
    /// The file system in a folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(folder: &Path) -> Result<Rooted> {
        let folder = std::fs::canonicalize(folder)?;
        match folder.is_dir() {
            true => Ok(Linked::of(InFolder(folder))),
            false => Err(Error::from(ErrorKind::NotADirectory)),
        }
    }
}

impl<S: Store> Linked<S> {
    /// The file system of a store.
    pub fn of(store: S) -> Linked<S> {
        Linked { store, known: Mutex::default() }
    }

    /// The real path of a folder.
    fn real_folder(&self, folder: &Path) -> Result<PathBuf> {
        let known = self.known.lock().ok().and_then(|known| known.get(folder).cloned());
        if let Some(real) = known {
            return Ok(real);
        }
        let real = resolve(folder, &|path| self.store.link(path))?;
        if let Ok(mut known) = self.known.lock() {
            known.insert(folder.to_path_buf(), real.clone());
        }
        Ok(real)
    }
}

impl<S: Store> FileTree for Linked<S> {
    fn real(&self, path: &Path) -> Result<PathBuf> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return resolve(path, &|path| self.store.link(path));
        };
        let path = self.real_folder(folder)?.join(name);
        match self.store.link(&path)? {
            Some(_) => resolve(&path, &|path| self.store.link(path)),
            None => Ok(path),
        }
    }

    fn about(&self, path: &Path) -> Result<About> {
        self.store.about(&self.real(path)?)
    }

    fn is_link(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let link = self.real_folder(folder).and_then(|folder| self.store.link(&folder.join(name)));
        link.is_ok_and(|link| link.is_some())
    }

    fn list(&self, folder: &Path, limit: usize) -> Result<Vec<Entry>> {
        self.store.list(&self.real_folder(folder)?, limit)
    }

    fn open(&self, path: &Path) -> Result<Opened> {
        self.store.open(&self.real(path)?)
    }
}

/// The files below a folder of this machine.
#[derive(Debug)]
pub struct InFolder(PathBuf);

impl InFolder {
    /// Where a real path lies on this machine.
    fn place(&self, real: &Path) -> PathBuf {
        self.0.join(real.strip_prefix("/").unwrap_or(real))
    }
}

impl Store for InFolder {
    fn link(&self, real: &Path) -> Result<Option<PathBuf>> {
        let place = self.place(real);
        match std::fs::symlink_metadata(&place)?.is_symlink() {
            true => std::fs::read_link(place).map(Some),
            false => Ok(None),
        }
    }

    fn about(&self, real: &Path) -> Result<About> {
        std::fs::symlink_metadata(self.place(real)).map(|metadata| of_metadata(&metadata))
    }

    fn list(&self, real: &Path, limit: usize) -> Result<Vec<Entry>> {
        ThisMachine.list(&self.place(real), limit)
    }

    fn open(&self, real: &Path) -> Result<Opened> {
        let place = self.place(real);
        match std::fs::symlink_metadata(&place)?.is_file() {
            true => Opened::whole(File::open(place)?),
            false => Err(Error::other("not a regular file")),
        }
    }
}

/// Resolves the links of a path in a file system with a root of its own. `link` returns where a path leads if it is a link;
/// the path has none in its folders.
///
/// # Errors
/// Those of `link`, and when there are too many links.
pub fn resolve(path: &Path, link: &dyn Fn(&Path) -> Result<Option<PathBuf>>) -> Result<PathBuf> {
    let mut left: VecDeque<PathBuf> = parts(path);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part == Path::new("..") {
            // As the kernel does at the root, `..` stays there.
            real.pop();
            continue;
        }
        real.push(&part);
        let Some(target) = link(&real)? else { continue };
        links += 1;
        if links > MAX_LINKS || left.len() > MAX_COMPONENTS {
            return Err(Error::other("too many levels of symbolic links"));
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for part in parts(&target).into_iter().rev() {
            left.push_front(part);
        }
    }
    Ok(real)
}

/// The components of a path that lead somewhere.
fn parts(path: &Path) -> VecDeque<PathBuf> {
    let leads = |component: Component<'_>| match component {
        Component::Normal(part) => Some(PathBuf::from(part)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    };
    path.components().filter_map(leads).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_the_root_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs_err::create_dir_all(root.join("opt/lib")).unwrap();
        fs_err::write(dir.path().join("secret"), "outside").unwrap();
        fs_err::write(root.join("secret"), "inside").unwrap();
        fs_err::write(root.join("opt/lib/x"), "x").unwrap();
        for (target, name) in [
            ("/secret", "absolute"),
            ("../../../../secret", "up"),
            ("opt/lib/../../../secret", "through"),
            ("/opt/lib", "folder"),
            ("loop", "loop"),
            ("/nowhere", "dangling"),
            (dir.path().join("secret").to_str().unwrap(), "host"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        // `..` after a link leads to the folder above the link's target.
        symlink("opt/lib", root.join("deep")).unwrap();
        symlink("deep/../../secret", root.join("zigzag")).unwrap();
        let tree = Rooted::new(&root).unwrap();
        let text = |path: &str| tree.text(Path::new(path), 100);
        for path in
            ["/secret", "/absolute", "/up", "/through", "/zigzag", "/../secret", "/folder/../../secret"]
        {
            assert_eq!(text(path).as_deref(), Some("inside"), "{path}");
        }
        assert_eq!(text("/folder/x").as_deref(), Some("x"));
        assert_eq!(tree.real(Path::new("/folder/x")).unwrap(), Path::new("/opt/lib/x"));
        for path in ["/loop", "/dangling", "/host", "/opt", "/nowhere/x"] {
            assert_eq!(text(path), None, "{path}");
        }
        assert!(tree.is_link(Path::new("/dangling")) && !tree.exists(Path::new("/dangling")));
        assert_eq!(tree.names(Path::new("/folder"), 10), ["x"]);
        assert!(Rooted::new(&root.join("secret")).is_err());
    }
}
