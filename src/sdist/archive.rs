//! The files of a source tree that say something about it, from an archive or a folder, under limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::path::Path;

use super::{Unreadable, unreadable};
use crate::tarball::{Kind, Members};

/// Maximum size of a file that is kept, in bytes. Real ones have a few kB.
const MAX_TEXT: u64 = 4 << 20;
/// Maximum number of files in an archive.
const MAX_FILES: usize = 200_000;
/// Maximum unpacked size of an archive, in bytes.
const MAX_UNPACKED: u64 = 4 << 30;
/// The module beside `setup.py` that many projects carry a copy of, and that breaks with new Pythons.
pub(super) const VERSIONEER: &str = "versioneer.py";
/// Maximum depth of folders in a source tree.
const MAX_DEPTH: usize = 12;

/// What a source tree contains: the texts that describe it, and the suffixes of all files.
#[derive(Debug, Default)]
pub struct Contents {
    /// By path below the tree's folder.
    texts: BTreeMap<String, String>,
    /// The suffixes of all files but tests, without the dot: `cu`, `pyx`.
    suffixes: BTreeSet<String>,
    /// The modules and packages beside `setup.py`, which it can import.
    modules: BTreeSet<String>,
    /// The names of all modules, which it can import after a change of `sys.path`.
    modules_below: BTreeSet<String>,
    /// Other files whose texts are of interest.
    wanted: BTreeSet<String>,
}

impl Contents {
    /// The text of a file, by its path below the tree's folder.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// The texts below folders whose name ends in `.egg-info`, by path.
    pub(super) fn egg_info(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(|(path, _)| path.contains(".egg-info/"))
            .map(|(p, t)| (p.as_str(), t.as_str()))
    }

    /// Whether a file has one of these suffixes.
    pub(super) fn has_suffix(&self, suffixes: &[&str]) -> bool {
        suffixes.iter().any(|suffix| self.suffixes.contains(*suffix))
    }

    /// Whether a module or package stands beside `setup.py`.
    pub(super) fn has_module(&self, name: &str) -> bool {
        self.modules.contains(name)
    }

    /// Whether a module of this name stands in any folder.
    pub(super) fn has_module_below(&self, name: &str) -> bool {
        self.modules_below.contains(name)
    }

    /// Reads a gzipped tar archive as a stream.
    pub(super) fn of_tar(archive: impl Read, wanted: &BTreeSet<String>) -> Result<Contents, Unreadable> {
        let mut limited = Limited { inner: flate2::read::MultiGzDecoder::new(archive), left: MAX_UNPACKED };
        let mut members = Members::new(&mut limited);
        let mut out = Contents { wanted: wanted.clone(), ..Contents::default() };
        let mut folder = None;
        for count in 0.. {
            let member = members.member().map_err(|e| match e.to_string().contains(TOO_LARGE) {
                true => Unreadable::from(TOO_LARGE),
                false => unreadable(&e),
            })?;
            let Some(member) = member else { break };
            if count >= MAX_FILES {
                return Err("the archive has too many files".into());
            }
            let Ok(path) = String::from_utf8(member.path) else { continue };
            let is_link = match member.kind {
                Kind::File => false,
                Kind::Symlink(_) | Kind::HardLink(_) => true,
                Kind::Folder | Kind::Sparse(_) | Kind::Other => continue,
            };
            let Some(inner) = inside(&path, &mut folder)? else { continue };
            if is_link {
                if describes(&inner) {
                    return Err(Unreadable::Other(format!("its `{inner}` is a link")));
                }
                continue;
            }
            out.add(&inner, member.size, &mut members)?;
        }
        Ok(out)
    }

    /// Reads a zip archive.
    pub(super) fn of_zip(
        archive: impl Read + Seek,
        wanted: &BTreeSet<String>,
    ) -> Result<Contents, Unreadable> {
        let mut zip = zip::ZipArchive::new(archive)
            .map_err(|e| Unreadable::Other(format!("the archive is not a zip file: {e}")))?;
        if zip.len() > MAX_FILES {
            return Err("the archive has too many files".into());
        }
        let mut out = Contents { wanted: wanted.clone(), ..Contents::default() };
        let mut folder = None;
        for i in 0..zip.len() {
            let mut entry = zip.by_index(i).map_err(|e| unreadable(&e))?;
            if !entry.is_file() {
                continue;
            }
            let Ok(path) = entry.name().map(|name| name.to_string()) else { continue };
            let Some(inner) = inside(&path, &mut folder)? else { continue };
            let size = entry.size();
            out.add(&inner, size, &mut entry)?;
        }
        Ok(out)
    }

    /// Reads a folder: the files that describe it, and the suffixes of the others. Links are not followed.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn of_folder(root: &Path) -> Result<Contents, Unreadable> {
        let mut out = Contents::default();
        out.list(root)?;
        out.complete(|path| text_below(root, path));
        Ok(out)
    }

    /// States name and version of a tree that has no PKG-INFO.
    pub fn state(&mut self, name: &str, version: &str) {
        let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        self.texts.entry("PKG-INFO".to_owned()).or_insert(text);
    }

    /// Reads the files that it takes to know what the tree declares.
    pub fn complete(&mut self, mut read: impl FnMut(&str) -> Option<String>) {
        // What an earlier build left in a folder: the next one writes it anew.
        self.texts.retain(|path, _| path != "PKG-INFO" && !path.contains(".egg-info/"));
        let mut asked = BTreeSet::new();
        for _ in 0..super::MAX_ROUNDS {
            let more: Vec<String> =
                super::wanted(self).into_iter().filter(|path| asked.insert(path.clone())).collect();
            if more.is_empty() {
                break;
            }
            for path in more {
                if let Some(text) = read(&path) {
                    self.texts.insert(path, text);
                }
            }
        }
    }

    fn list(&mut self, root: &Path) -> Result<(), Unreadable> {
        let mut queue = vec![(root.to_owned(), String::new(), 0)];
        let mut count = 0;
        while let Some((folder, prefix, depth)) = queue.pop() {
            let listed = fs_err::read_dir(&folder).map_err(|e| Unreadable::Other(e.to_string()))?;
            for entry in listed.flatten() {
                count += 1;
                if count > MAX_FILES {
                    return Ok(());
                }
                let Ok(name) = entry.file_name().into_string() else { continue };
                let Ok(kind) = entry.file_type() else { continue };
                let path = format!("{prefix}{name}");
                let skipped = name.starts_with('.')
                    || ["node_modules", "build", "dist", "venv"].contains(&name.as_str());
                if kind.is_dir() && depth < MAX_DEPTH && !skipped {
                    queue.push((entry.path(), format!("{path}/"), depth + 1));
                } else if kind.is_file()
                    && let Ok(mut file) = fs_err::File::open(entry.path())
                {
                    let size = file.metadata().map_or(0, |m| m.len());
                    self.add(&path, size, &mut file)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the text of a file is of interest. Its suffix is noted.
    pub fn wants(&mut self, path: &str) -> bool {
        self.note_name(path);
        describes(path) || path == VERSIONEER
    }

    /// Adds the text of a file that is of interest.
    pub fn put(&mut self, path: &str, text: &[u8]) {
        self.texts.insert(path.to_owned(), String::from_utf8_lossy(text).into_owned());
    }

    /// Reads a tree from the texts of its files, by path below its folder.
    pub fn of_texts(texts: impl IntoIterator<Item = (String, String)>) -> Contents {
        let mut out = Contents::default();
        for (path, text) in texts {
            out.note_name(&path);
            out.texts.insert(path, text);
        }
        out
    }

    fn note_name(&mut self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_package = path.strip_suffix("/__init__.py").and_then(|folder| folder.rsplit('/').next());
        self.modules_below.extend(is_package.or(name.strip_suffix(".py")).map(str::to_owned));
        match path.split_once('/') {
            Some((folder, rest)) if !rest.contains('/') && rest.ends_with(".py") => {
                self.modules.insert(folder.to_owned());
            }
            Some(_) => {}
            None => self.modules.extend(name.strip_suffix(".py").map(str::to_owned)),
        }
        // Tests are not built: numpy carries those of meson, among them some for CUDA.
        let is_test = path.rsplit('/').skip(1).any(|folder| folder.starts_with("test"));
        if let Some((_, suffix)) = name.rsplit_once('.').filter(|_| !is_test)
            && suffix.len() <= 8
        {
            self.suffixes.insert(suffix.to_ascii_lowercase());
        }
    }

    fn add(&mut self, path: &str, size: u64, file: &mut dyn Read) -> Result<(), Unreadable> {
        self.note_name(path);
        let is_extra = path == VERSIONEER || self.wanted.contains(path);
        if !describes(path) && (!is_extra || size > MAX_TEXT) {
            return Ok(());
        }
        if size > MAX_TEXT {
            return Err(Unreadable::Other(format!("its `{path}` is larger than {} MB", MAX_TEXT >> 20)));
        }
        let mut bytes = Vec::new();
        file.take(MAX_TEXT).read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if self.texts.insert(path.to_owned(), text).is_some() {
            return Err(Unreadable::Other(format!("it has two files `{path}`")));
        }
        Ok(())
    }
}

/// The text of a file below a folder; links out of it are not followed.
fn text_below(root: &Path, path: &str) -> Option<String> {
    let (root, file) = (fs_err::canonicalize(root).ok()?, fs_err::canonicalize(root.join(path)).ok()?);
    if !file.starts_with(&root) || !file.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs_err::File::open(&file).ok()?.take(MAX_TEXT + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_TEXT).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a file describes the tree; `path` is below its folder.
fn describes(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    match parts.next() {
        None => matches!(name, "PKG-INFO" | "pyproject.toml" | "setup.py" | "setup.cfg"),
        // `name.egg-info/`, `src/name.egg-info/`.
        Some(folder) => {
            folder.ends_with(".egg-info")
                && matches!(name, "PKG-INFO" | "requires.txt")
                && path.matches('/').count() <= 2
        }
    }
}

/// The path below the only top-level folder of an archive; `None` for files beside it. The first entry decides which
/// folder that is.
fn inside(path: &str, folder: &mut Option<String>) -> Result<Option<String>, Unreadable> {
    let path = path.replace("/./", "/");
    let path = path.strip_prefix("./").unwrap_or(&path);
    let is_outside = path.starts_with('/') || path.contains('\\') || path.split('/').any(|part| part == "..");
    if is_outside {
        return Err("it has an entry outside its folder".into());
    }
    let Some((top, rest)) = path.split_once('/') else { return Ok(None) };
    let folder = folder.get_or_insert_with(|| top.to_owned());
    Ok((folder == top && !rest.is_empty()).then(|| rest.to_owned()))
}

/// The message of an archive that unpacks to more than [`MAX_UNPACKED`].
const TOO_LARGE: &str = "the archive unpacks to more than 4 GiB";

/// A reader that fails after a number of bytes.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(n as u64).ok_or_else(|| std::io::Error::other(TOO_LARGE))?;
        Ok(n)
    }
}
