//! The file system of an image: its layers, applied one over the other, in memory. Contents that are kept lie in one
//! temporary file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek as _, SeekFrom, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::needed_files::{self, Kept};
use crate::inspect::{About, Entry, Kind, Opened, Part, Store, WithoutPayloads, resolve};
use crate::tarball::{self, Member};

/// Maximum number of files of all layers together.
const MAX_FILES: usize = 1_000_000;
/// Maximum size of what is kept, in bytes.
const MAX_SPOOLED: u64 = 64 << 30;
/// Maximum length of a path or a link's target, in bytes, as in Linux.
const MAX_PATH: usize = 4_096;
/// Maximum number of links in one path; Linux follows 40.
const MAX_LINKS: usize = 40;
/// Maximum length of a name in a folder, in bytes, as in Linux.
const MAX_NAME: usize = 255;
/// Maximum number of steps from an entry to the next while all members are applied: a million files ten folders deep take ten million.
const MAX_STEPS: u64 = 40_000_000;
/// Maximum size of all names and targets of links together, in bytes.
const MAX_TEXT: usize = 256 << 20;
/// Where a content begins in the temporary file: at a page, so that holes and maps are whole pages.
const PAGE: u64 = 4_096;
/// Size of the pieces in which contents are copied, in bytes.
const PIECE: usize = 1 << 18;
/// A file that hides the one of that name in the layers below.
const WHITEOUT: &str = ".wh.";
/// A file that hides all files of its folder in the layers below.
const OPAQUE: &str = ".wh..wh..opq";

/// The merged layers of an image.
#[derive(Debug)]
pub struct Merged {
    nodes: Vec<Node>,
    /// Without a name: nothing is left behind, however this program ends.
    spool: File,
    /// Where the next content begins.
    end: u64,
    /// Contents that were not kept under their first name and are under another: by layer and number of the member the nodes.
    again: BTreeMap<usize, Wanted>,
    /// Where the contents of layers begin that are listed several times, by first layer and member.
    repeated: HashMap<(usize, u32, Kept), u64>,
    /// How many steps were taken.
    steps: AtomicU64,
    /// How many bytes the names and targets have.
    text: usize,
}

/// By the number of a member in its layer, the nodes that have its content.
type Wanted = BTreeMap<u32, Vec<usize>>;

#[derive(Debug)]
struct Node {
    what: What,
    mode: u32,
    /// In seconds since 1970.
    modified: u64,
    /// The last layer that wrote it, or for a folder something in it.
    layer: usize,
}

#[derive(Debug, Clone)]
enum What {
    /// The nodes of its entries.
    Folder(BTreeMap<Box<str>, usize>),
    /// Its size, where its content lies in the temporary file if it is kept, and where it comes from.
    File(u64, Option<u64>, Origin),
    Link(Box<str>),
    Other,
}

/// The member that a content was read from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    layer: usize,
    member: u32,
}

/// A layer that is being applied.
pub(super) struct Layer<'m> {
    merged: &'m mut Merged,
    number: usize,
    /// How many members were applied.
    members: u32,
    /// The folders of which nothing is left from the layers below.
    opaque: HashSet<usize>,
    /// The second time: only these contents.
    again: Option<Wanted>,
    /// The number under which the same bytes are a layer first, if they are one several times.
    first: Option<usize>,
}

impl Merged {
    /// A file system without files.
    pub(super) fn new() -> Result<Merged> {
        let root = Node { what: What::Folder(BTreeMap::new()), mode: 0o755, modified: 0, layer: 0 };
        Ok(Merged {
            nodes: vec![root],
            spool: tempfile::tempfile()?,
            end: 0,
            again: BTreeMap::new(),
            repeated: HashMap::new(),
            steps: AtomicU64::new(0),
            text: 0,
        })
    }

    /// The next layer. `first`: the number under which the same bytes are a layer first, if they are one several times: their
    /// contents are kept once.
    pub(super) fn layer(&mut self, number: usize, first: Option<usize>) -> Layer<'_> {
        Layer { merged: self, number, members: 0, opaque: HashSet::new(), again: None, first }
    }

    /// The layers that must be read again, for contents whose first name did not say that they matter: another name or a
    /// link does.
    ///
    /// # Errors
    /// When links take too many steps.
    pub(super) fn layers_to_read_again(&mut self) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        let mut queue = vec![(String::new(), 0)];
        while let Some((folder, at)) = queue.pop() {
            let What::Folder(entries) = &self.nodes[at].what else { continue };
            for (name, child) in entries {
                let path = format!("{folder}/{name}");
                match &self.nodes[*child].what {
                    What::Folder(_) => queue.push((path, *child)),
                    What::Link(_) if needed_files::of(&path, 0) != Kept::No => {
                        // The name of the link counts, whatever its target is called.
                        let real = resolve(Path::new(&path), &|real| self.link(real));
                        self.step(0)?;
                        if let Ok(real) = real
                            && let Some(target) = self.at(&real)
                            && let What::File(size, None, origin) = self.nodes[target].what
                            && needed_files::of(&path, size) != Kept::No
                        {
                            found.push((origin, target));
                        }
                    }
                    _ => {}
                }
            }
        }
        found.into_iter().for_each(|(origin, node)| self.want(origin, node));
        Ok(self.again.keys().copied().collect())
    }

    /// Counts steps from an entry to the next.
    fn step(&self, count: usize) -> Result<()> {
        let before = self.steps.fetch_add(count as u64, Ordering::Relaxed);
        match before + count as u64 > MAX_STEPS {
            true => Err(Error::other(format!("its paths and links take more than {MAX_STEPS} steps"))),
            false => Ok(()),
        }
    }

    fn want(&mut self, origin: Origin, node: usize) {
        let nodes = self.again.entry(origin.layer).or_default().entry(origin.member).or_default();
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }

    /// A layer that is read again.
    pub(super) fn again(&mut self, number: usize) -> Layer<'_> {
        let wanted = self.again.remove(&number);
        Layer { merged: self, number, members: 0, opaque: HashSet::new(), again: wanted, first: None }
    }

    /// No layer follows: the temporary file gets its full size, which may end in a hole.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.spool.set_len(self.end)
    }

    /// The space that the temporary file takes on disk, in bytes.
    pub(super) fn spooled(&self) -> u64 {
        let metadata = self.spool.metadata();
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            metadata.map_or(0, |metadata| metadata.blocks() * 512)
        }
        #[cfg(not(unix))]
        {
            metadata.map_or(0, |metadata| metadata.len())
        }
    }

    /// The node of a real path.
    fn at(&self, real: &Path) -> Option<usize> {
        let mut at = 0;
        for component in real.components() {
            // That they are too many is the error of the next call that can fail.
            let _ = self.step(1);
            if let Component::Normal(part) = component {
                let What::Folder(entries) = &self.nodes[at].what else { return None };
                at = *entries.get(part.to_str()?)?;
            }
        }
        Some(at)
    }

    fn node(&self, real: &Path) -> Result<&Node> {
        self.at(real).map(|at| &self.nodes[at]).ok_or_else(|| Error::from(ErrorKind::NotFound))
    }
}

impl Layer<'_> {
    /// Applies a member, whose content follows in `archive`.
    ///
    /// # Errors
    /// When the member leaves the root, has no place in the layers below, or a limit is reached.
    pub fn apply(&mut self, member: &Member, archive: &mut impl Read) -> Result<()> {
        let path = String::from_utf8_lossy(&member.path);
        let target = match &member.kind {
            tarball::Kind::Symlink(target) | tarball::Kind::HardLink(target) => target.len(),
            _ => 0,
        };
        if path.len().max(target) > MAX_PATH {
            return Err(Error::other(format!("a path is longer than {MAX_PATH} bytes")));
        }
        let origin = Origin { layer: self.number, member: self.members };
        self.members += 1;
        if let Some(wanted) = &mut self.again {
            let nodes = wanted.remove(&origin.member).unwrap_or_default();
            if !nodes.is_empty() {
                let start = self.keep(Kept::WithoutPayloads, member.size, archive)?;
                for at in nodes {
                    self.merged.nodes[at].what = What::File(member.size, Some(start), origin);
                }
            }
            return Ok(());
        }
        if path.split('/').any(|part| part.len() > MAX_NAME) {
            return Err(Error::other(format!("a name is longer than {MAX_NAME} bytes")));
        }
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(Error::other(format!("`{}` leaves the root", crate::model::text::clean(&path, 200))));
        }
        let Some(name) = parts.pop() else {
            // The root itself.
            return Ok(());
        };
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            // Where there is no folder, there is nothing to hide.
            match self.folder(&parts.join("/"), false) {
                Ok(folder) if name == OPAQUE => {
                    self.hide_all(folder)?;
                }
                Ok(folder) => self.hide(folder, hidden)?,
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
            return Ok(());
        }
        let folder = self.folder(&parts.join("/"), true)?;
        let what = match &member.kind {
            tarball::Kind::Folder => match self.child(folder, name) {
                Some(at) if matches!(self.merged.nodes[at].what, What::Folder(_)) => {
                    let node = &mut self.merged.nodes[at];
                    (node.mode, node.modified, node.layer) = (member.mode, member.modified, self.number);
                    return Ok(());
                }
                _ => What::Folder(BTreeMap::new()),
            },
            tarball::Kind::File => {
                let full = format!("/{}/{name}", parts.join("/"));
                let start = match needed_files::of_file(&full, member.size, member.mode) {
                    Kept::No => None,
                    kept => Some(self.keep_once(kept, member.size, origin.member, archive)?),
                };
                What::File(member.size, start, origin)
            }
            // Its content is not put together.
            tarball::Kind::Sparse(size) => What::File(*size, None, origin),
            tarball::Kind::Symlink(target) => What::Link(String::from_utf8_lossy(target).into()),
            tarball::Kind::HardLink(target) => {
                let full = format!("/{}/{name}", parts.join("/"));
                let (what, mode, modified) = self.linked(&String::from_utf8_lossy(target), &full)?;
                return self.put(folder, name, what, mode, modified);
            }
            tarball::Kind::Other => What::Other,
        };
        self.put(folder, name, what, member.mode, member.modified)
    }

    /// What a hard link of the name `full` leads to, with its mode and time. Its content is read in the next round where
    /// only the name of the link needs it.
    ///
    /// # Errors
    /// Where the link leads to nothing, or to a folder.
    fn linked(&mut self, target: &str, full: &str) -> Result<(What, u32, u64)> {
        let (above, last) = target.rsplit_once('/').unwrap_or(("", target));
        let found = self.folder(above, false).ok().and_then(|above| self.child(above, last));
        let node = match found.map(|at| &self.merged.nodes[at]) {
            Some(Node { what: What::Folder(_), .. }) | None => {
                let target = crate::model::text::clean(target, 200);
                return Err(Error::other(format!("a hard link leads to `{target}`, which is no file")));
            }
            Some(node) => node,
        };
        let (what, mode, modified) = (node.what.clone(), node.mode, node.modified);
        if let What::File(size, None, origin) = what
            && needed_files::of_file(full, size, mode) != Kept::No
        {
            self.merged.want(origin, self.merged.nodes.len());
        }
        Ok((what, mode, modified))
    }

    fn child(&self, folder: usize, name: &str) -> Option<usize> {
        match &self.merged.nodes[folder].what {
            What::Folder(entries) => entries.get(name).copied(),
            _ => None,
        }
    }

    fn put(&mut self, folder: usize, name: &str, what: What, mode: u32, modified: u64) -> Result<()> {
        if self.merged.nodes.len() >= MAX_FILES {
            return Err(Error::other(format!("the image has more than {MAX_FILES} files")));
        }
        let target = match &what {
            What::Link(target) => target.len(),
            _ => 0,
        };
        self.merged.text += name.len() + target;
        if self.merged.text > MAX_TEXT {
            return Err(Error::other(format!("its names and links have more than {} MiB", MAX_TEXT >> 20)));
        }
        let at = self.merged.nodes.len();
        self.merged.nodes.push(Node { what, mode, modified, layer: self.number });
        let parent = &mut self.merged.nodes[folder];
        parent.layer = self.number;
        match &mut parent.what {
            What::Folder(entries) => drop(entries.insert(name.into(), at)),
            _ => return Err(Error::other("a file lies below another file")),
        }
        Ok(())
    }

    /// The node of a folder, with links followed as a runtime does when it unpacks a layer over the others. What is missing
    /// of it is made, or an error without `make`.
    fn folder(&mut self, path: &str, make: bool) -> Result<usize> {
        // The folders from the root to where the walk is.
        let mut above = vec![0];
        let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        self.merged.step(left.len())?;
        let mut links = 0;
        while let Some(part) = left.pop() {
            let at = above[above.len() - 1];
            match part.as_str() {
                "" | "." => continue,
                // As the kernel does at the root, `..` stays there.
                ".." => {
                    if above.len() > 1 {
                        above.pop();
                    }
                    continue;
                }
                _ => {}
            }
            let child = self.child(at, &part);
            match child.map(|child| &self.merged.nodes[child].what) {
                Some(What::Folder(_)) => above.extend(child),
                Some(What::Link(target)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Error::other("too many levels of symbolic links"));
                    }
                    if target.starts_with('/') {
                        above.truncate(1);
                    }
                    let before = left.len();
                    left.extend(target.split('/').rev().map(str::to_owned));
                    self.merged.step(left.len() - before)?;
                }
                _ if !make => return Err(Error::from(ErrorKind::NotFound)),
                // A file of a layer below gives way to a folder.
                _ => {
                    self.put(at, &part, What::Folder(BTreeMap::new()), 0o755, 0)?;
                    above.push(self.merged.nodes.len() - 1);
                }
            }
        }
        if make {
            above.iter().for_each(|at| self.merged.nodes[*at].layer = self.number);
        }
        Ok(above[above.len() - 1])
    }

    /// Removes an entry that comes from the layers below.
    fn hide(&mut self, folder: usize, name: &str) -> Result<()> {
        let Some(child) = self.child(folder, name) else { return Ok(()) };
        if self.merged.nodes[child].layer == self.number {
            // Written anew in this layer; what it has from below goes.
            self.hide_all(child)?;
        } else if let What::Folder(entries) = &mut self.merged.nodes[folder].what {
            entries.remove(name);
        }
        Ok(())
    }

    /// Removes all entries of a folder that come from the layers below, the first time in a layer.
    fn hide_all(&mut self, folder: usize) -> Result<()> {
        if !self.opaque.insert(folder) {
            return Ok(());
        }
        let mut queue = vec![folder];
        while let Some(at) = queue.pop() {
            let What::Folder(entries) = &mut self.merged.nodes[at].what else { continue };
            let entries = std::mem::take(entries);
            self.merged.step(entries.len())?;
            let (number, nodes) = (self.number, &self.merged.nodes);
            let left: BTreeMap<Box<str>, usize> =
                entries.into_iter().filter(|(_, child)| nodes[*child].layer == number).collect();
            queue.extend(left.values().filter(|child| matches!(nodes[**child].what, What::Folder(_))));
            self.merged.nodes[at].what = What::Folder(left);
        }
        Ok(())
    }

    /// [`Layer::keep`], once for all places of the same layer.
    fn keep_once(&mut self, kept: Kept, size: u64, member: u32, archive: &mut impl Read) -> Result<u64> {
        let Some(first) = self.first else { return self.keep(kept, size, archive) };
        let key = (first, member, kept);
        if let Some(start) = self.merged.repeated.get(&key) {
            return Ok(*start);
        }
        let start = self.keep(kept, size, archive)?;
        self.merged.repeated.insert(key, start);
        Ok(start)
    }

    /// Copies a content into the temporary file, in which pages of zeros are holes. Returns where it begins.
    fn keep(&mut self, kept: Kept, size: u64, archive: &mut impl Read) -> Result<u64> {
        let start = self.merged.end.next_multiple_of(PAGE);
        let end = start.checked_add(size).filter(|end| *end <= MAX_SPOOLED);
        self.merged.end = end.ok_or_else(|| {
            Error::other(format!("the libraries of the image have more than {} GiB", MAX_SPOOLED >> 30))
        })?;
        let file = &mut self.merged.spool;
        file.seek(SeekFrom::Start(start))?;
        let mut failure = None;
        let mut give = |part: Part<'_>| {
            let done = match part {
                Part::Bytes(bytes) => write_with_holes(file, bytes),
                Part::Payload(count) => {
                    i64::try_from(count).map_err(Error::other).and_then(|count| file.seek_relative(count))
                }
            };
            failure = failure.take().or(done.err());
        };
        let mut stream = WithoutPayloads::default();
        let mut piece = vec![0; PIECE];
        let mut left = size;
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            let count = archive.read(&mut piece[..wanted])?;
            if count == 0 {
                return Err(Error::from(ErrorKind::UnexpectedEof));
            }
            left -= count as u64;
            match kept {
                Kept::WithoutPayloads => stream.feed(&piece[..count], &mut give),
                _ => give(Part::Bytes(&piece[..count])),
            }
        }
        stream.finish(&mut give);
        match failure {
            Some(why) => Err(Error::other(format!("the temporary file cannot be written: {why}"))),
            None => Ok(start),
        }
    }
}

/// Writes bytes to a place that nothing was written to: what is zero is left out, in whole pages.
fn write_with_holes(file: &mut File, bytes: &[u8]) -> Result<()> {
    let is_hole = |page: &[u8]| page.iter().all(|byte| *byte == 0);
    let pages: Vec<&[u8]> = bytes.chunks(PAGE as usize).collect();
    let mut at = 0;
    for run in pages.chunk_by(|one, other| is_hole(one) == is_hole(other)) {
        let length: usize = run.iter().map(|page| page.len()).sum();
        match is_hole(run[0]) {
            true => file.seek_relative(i64::try_from(length).map_err(Error::other)?)?,
            false => file.write_all(&bytes[at..at + length])?,
        }
        at += length;
    }
    Ok(())
}

impl Store for Merged {
    fn link(&self, real: &Path) -> Result<Option<PathBuf>> {
        match &self.node(real)?.what {
            What::Link(target) => Ok(Some(PathBuf::from(&**target))),
            _ => Ok(None),
        }
    }

    fn about(&self, real: &Path) -> Result<About> {
        let node = self.node(real)?;
        let modified = i128::from(node.modified) * 1_000_000_000;
        // When its metadata was changed is not recorded; a later layer was written later.
        let changed = i128::try_from(node.layer).unwrap_or(i128::MAX);
        let about = |kind, size| About { kind, size, mode: node.mode, modified, changed, links: 1 };
        Ok(match &node.what {
            What::Folder(_) => about(Kind::Folder, 0),
            What::File(size, ..) => about(Kind::File, *size),
            What::Link(_) => about(Kind::Link, 0),
            What::Other => about(Kind::Other, 0),
        })
    }

    fn list(&self, real: &Path, limit: usize) -> Result<Vec<Entry>> {
        let What::Folder(entries) = &self.node(real)?.what else {
            return Err(Error::from(ErrorKind::NotADirectory));
        };
        let kind = |at: usize| match self.nodes[at].what {
            What::Folder(_) => Kind::Folder,
            What::File(..) => Kind::File,
            What::Link(_) => Kind::Link,
            What::Other => Kind::Other,
        };
        let entries = entries.iter().take(limit);
        Ok(entries.map(|(name, at)| Entry { name: (**name).into(), kind: kind(*at) }).collect())
    }

    fn open(&self, real: &Path) -> Result<Opened> {
        match &self.node(real)?.what {
            What::File(size, Some(start), _) => {
                Ok(Opened { file: self.spool.try_clone()?, start: *start, size: *size })
            }
            What::File(..) => Err(Error::other("its content was not kept")),
            _ => Err(Error::other("not a regular file")),
        }
    }
}
