//! What the wheels of PyPI's packages link: kept from an earlier run, else read from the wheels.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::{Purpose, Session};
use crate::compatibility::is_built_for_cuda;
use crate::index::Wheel;
use crate::learn::{self, LinkedStore};
use crate::model::built_for::BuiltFor;
use crate::model::linked::Linked;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::solution::{ChosenFile, ChosenPackage};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::registry::{Cited, Companion};

/// Maximum size of a wheel that is read, in bytes, if its metadata or the registry says that it uses torch or CUDA.
const MAX_CUDA_WHEEL: u64 = 1 << 30;
/// Maximum size of any other wheel that is read, in bytes.
const MAX_WHEEL: u64 = 512 << 20;
/// Maximum size of a wheel that is read for a solve that may not be the answer, in bytes.
pub(super) const MAX_TRIED_WHEEL: u64 = 64 << 20;
/// The size of all wheels from which on it is said that they are read, in bytes.
const TOLD_FROM: u64 = 100 << 20;

/// What is known of the machine code of a package.
#[derive(Debug, Clone)]
pub(in crate::session::fetch) enum WheelCode {
    /// What it links.
    Read(Rc<Linked>),
    /// Why it was not read.
    Unread(String),
    /// It is too large to be read for a cause of a conflict.
    NotTried,
}

/// What was read in this run, by the name and the hash of the file.
pub(in crate::session::fetch) type CodeOfWheels = BTreeMap<(String, Option<String>), WheelCode>;

impl Session<'_> {
    /// What some wheels link, each with its package. `folder`: that of the request, for wheels on this machine.
    pub(super) fn code_of(
        &mut self,
        wheels: &[(&ChosenPackage, &ChosenFile)],
        folder: &Path,
    ) -> Vec<WheelCode> {
        let store = LinkedStore::new(self.client.cache_dir());
        let mut wanted: Vec<(&ChosenFile, Arc<ProjectPage>, u64)> = Vec::new();
        for (package, file) in wheels {
            if self.code.contains_key(&key(file)) {
                continue;
            }
            if let Some(linked) = file.sha256.as_ref().and_then(|hash| store.get(hash)) {
                self.code.insert(key(file), WheelCode::Read(Rc::new(linked)));
                continue;
            }
            if let Source::Path(path) = &package.source {
                let code = of_local(&folder.join(path), file, &store);
                self.code.insert(key(file), code);
                continue;
            }
            match self.readable(package, file) {
                Ok((page, limit)) => wanted.push((file, page, limit)),
                Err(Some(why)) => {
                    self.code.insert(key(file), WheelCode::Unread(why));
                }
                // Too large for a solve that may not be the answer.
                Err(None) => {}
            }
        }
        self.read(&wanted, &store);
        let unread = || match self.purpose {
            Purpose::Cause => WheelCode::NotTried,
            _ => WheelCode::Unread(format!("it is larger than {} MiB", MAX_TRIED_WHEEL >> 20)),
        };
        wheels.iter().map(|(_, file)| self.code.get(&key(file)).cloned().unwrap_or_else(unread)).collect()
    }

    /// The page that has the file of a package, and the largest size up to which it is read; else why it is not read, if that
    /// holds for the whole run.
    fn readable(
        &self,
        package: &ChosenPackage,
        file: &ChosenFile,
    ) -> Result<(Arc<ProjectPage>, u64), Option<String>> {
        let limit = if self.uses_torch_or_cuda(package) { MAX_CUDA_WHEEL } else { MAX_WHEEL };
        let is_larger = |limit: u64| file.size.is_some_and(|size| size > limit);
        if is_larger(limit) {
            return Err(Some(format!("it is larger than {} MiB", limit >> 20)));
        }
        if self.purpose != Purpose::Answer && is_larger(MAX_TRIED_WHEEL) {
            return Err(None);
        }
        let Some(page) = self.page_of(package, file).filter(|page| page.find(&file.name).is_some()) else {
            return Err(Some("it is on no page of an index".to_owned()));
        };
        Ok((page, limit))
    }

    /// Reads wheels, and keeps what they link.
    fn read(&mut self, wanted: &[(&ChosenFile, Arc<ProjectPage>, u64)], store: &LinkedStore) {
        let files = wanted.iter().filter_map(|(file, page, limit)| {
            Some((*file, Wheel { file: page.find(&file.name)?, limit: *limit }))
        });
        let (files, wheels): (Vec<&ChosenFile>, Vec<Wheel<'_>>) = files.unzip();
        if wheels.is_empty() {
            return;
        }
        let total: u64 = files.iter().filter_map(|file| file.size).sum();
        if total >= TOLD_FROM && !self.client.is_offline() {
            self.interface.note(&format!(
                "reading {:.0} MB of wheels, once: what their machine code links has to fit conda's torch",
                total as f64 / 1e6
            ));
        }
        let bar = self.interface.progress("reading what wheels link");
        bar.set_length(wheels.len() as u64);
        let code = &mut self.code;
        self.client.download_each(&wheels, &mut |at, wheel| {
            bar.inc(1);
            let read =
                wheel.and_then(|file| learn::linked(BufReader::new(file)).map_err(|error| error.to_string()));
            let read = match read {
                Ok(linked) => {
                    // The hash that the download was compared with.
                    wheels[at].file.sha256.iter().for_each(|hash| store.keep(hash, &linked));
                    WheelCode::Read(Rc::new(linked))
                }
                Err(why) => WheelCode::Unread(why),
            };
            code.insert(key(files[at]), read);
        });
        bar.finish_and_clear();
    }

    /// Whether a package is known to use torch or CUDA, before its code is read.
    pub(super) fn uses_torch_or_cuda(&self, package: &ChosenPackage) -> bool {
        // What one release links, others do as well.
        let is_one = |row: &&Cited<Companion>| row.package == package.name;
        let uses = |row: &Cited<Companion>| {
            row.torch.is_some() || row.targets.is_some() || !row.links_cuda.is_empty()
        };
        package.requires.iter().any(|edge| edge.to == "torch" || self.registry.is_of_nvidia(&edge.to))
            || BuiltFor::of(&package.version).is_some()
            || is_built_for_cuda(self.registry, package)
            || self.registry.companions().iter().filter(is_one).any(uses)
    }

    /// The page with the selected file of a package.
    fn page_of(&self, package: &ChosenPackage, file: &ChosenFile) -> Option<Arc<ProjectPage>> {
        match &package.source {
            Source::Index(index) => self.client.page_at_hand(index, &package.name).ok()?,
            Source::Url(url) => {
                let raw = RawFile {
                    filename: file.name.clone(),
                    url: url.clone(),
                    sha256: file.sha256.clone(),
                    size: file.size,
                    ..RawFile::default()
                };
                Some(Arc::new(ProjectPage::from_files(&package.name, [raw])))
            }
            Source::Git { .. } | Source::Path(_) => None,
        }
    }
}

/// What a wheel on this machine links.
fn of_local(path: &Path, file: &ChosenFile, store: &LinkedStore) -> WheelCode {
    let read = || {
        let wheel = fs_err::File::open(path).map_err(|error| error.to_string())?;
        learn::linked(BufReader::new(wheel)).map_err(|error| error.to_string())
    };
    match read() {
        Ok(linked) => {
            // The hash was made of the file in this run.
            file.sha256.iter().for_each(|hash| store.keep(hash, &linked));
            WheelCode::Read(Rc::new(linked))
        }
        Err(why) => WheelCode::Unread(clean(&why, 200)),
    }
}

fn key(file: &ChosenFile) -> (String, Option<String>) {
    (file.name.clone(), file.sha256.clone())
}
