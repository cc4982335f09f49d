//! Wheels of PyPI with machine code beside a torch that conda installs: what they link is read from them, and has to fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::told::{not_built_for, unread};
use super::{Asked, Session};
use crate::cli::error::CliError;
use crate::compatibility::{
    LinkTarget, Misfit, MisfitKind, cuda_of_variant, cuda_runtime, is_named_for_cuda, misfit,
};
use crate::index::IndexError;
use crate::learn::{self, LinkedStore};
use crate::model::built_for::BuiltFor;
use crate::model::conflict::Conflict;
use crate::model::linked::Linked;
use crate::model::project::{ProjectPage, RawFile, ReleaseFile};
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::{Answer, ChosenPackage, Note, Solution};
use crate::model::source::Source;
use crate::registry::Companion;
use crate::registry::conda_builds::PYTORCH;

/// Maximum size of a wheel that is read, in bytes, if its metadata or the registry says that it uses torch or CUDA.
const MAX_USER: u64 = 1 << 30;
/// Maximum size of any other wheel that is read, in bytes.
const MAX_OTHER: u64 = 128 << 20;
/// Maximum size of a wheel for which an older release is read if it does not fit, in bytes.
const MAX_AGAIN: u64 = 64 << 20;
/// How many releases are left out because their wheels do not fit.
const MAX_OLDER: usize = 6;

/// What is known of the machine code of a package.
enum Code {
    Read(Linked),
    /// Why it was not read.
    Unread(String),
}

/// How the wheels of a solution fit the torch beside them.
enum Fit {
    /// As far as they could be read.
    Fits(Vec<Note>),
    /// One of them does not fit.
    Unfit(Box<Unfit>),
}

/// A wheel that does not fit the torch beside it.
struct Unfit {
    conflict: Conflict,
    /// The CUDA major version of torch's build, if the wheel needs another one.
    other_than: Option<u64>,
    /// The requirement that leaves the release out, where another one may fit and is small enough to be read.
    without: Option<UserRequirement>,
}

/// What was left out of a request for wheels that do not fit.
#[derive(Default)]
struct LeftOut {
    /// The CUDA major versions of builds of torch, and why.
    cuda: BTreeMap<u64, Note>,
    /// Releases of PyPI's packages, and why.
    releases: Vec<(UserRequirement, Note)>,
    /// The release that is left out next.
    next: Option<(UserRequirement, Note)>,
}

impl LeftOut {
    /// Leaves the builds out that a wheel does not fit, where it needs another CUDA.
    fn cuda_of(&mut self, unfit: Unfit) -> bool {
        let note = |text: &str| Note { text: format!("{text}: {}", why(&unfit.conflict)), source: None };
        if self.next.is_none() {
            let older = unfit.without.map(|without| (without, note("an older release was chosen")));
            self.next = older;
        }
        let Some(major) = unfit.other_than.filter(|major| !self.cuda.contains_key(major)) else {
            return false;
        };
        self.cuda.insert(major, note(&format!("a build of torch for another CUDA than {major} was chosen")));
        true
    }

    /// Leaves the release out instead.
    fn release(&mut self) -> bool {
        self.cuda.clear();
        let next = self.next.take().filter(|_| self.releases.len() < MAX_OLDER);
        let is_left_out = next.is_some();
        self.releases.extend(next);
        is_left_out
    }

    fn request(&self, request: &Request) -> Request {
        let mut out = request.clone();
        out.constraints.extend(self.releases.iter().map(|(without, _)| without.clone()));
        out
    }

    fn notes(self) -> impl Iterator<Item = Note> {
        self.cuda.into_values().chain(self.releases.into_iter().map(|(_, note)| note))
    }
}

/// What a conflict about a wheel says of it.
fn why(conflict: &Conflict) -> &str {
    conflict.reasons.first().map_or("", |reason| &reason.text)
}

impl Session<'_> {
    /// Solves both halves with the stack from the channels. Where the machine code of a wheel of PyPI does not fit the build that
    /// conda's half installs, a build for another CUDA is tried, then an older release of the package.
    ///
    /// # Errors
    /// Those of [`Session::solve_both`].
    pub(super) fn solve_with_stack(&mut self, asked: &Asked<'_>) -> Result<Answer, CliError> {
        let mut left_out = LeftOut::default();
        let mut first: Option<Box<Conflict>> = None;
        loop {
            let request = left_out.request(asked.request);
            let not_for_cuda = left_out.cuda.keys().copied().collect();
            let answer = self.with_build(&Asked { request: &request, ..*asked }, &not_for_cuda)?;
            let goes_on = match answer {
                Answer::Solution(mut solution) => match self.fit_of_wheels(&solution, asked.request) {
                    Fit::Fits(notes) => {
                        solution.notes.extend(left_out.notes().chain(notes));
                        return Ok(Answer::Solution(solution));
                    }
                    Fit::Unfit(unfit) => {
                        first.get_or_insert_with(|| Box::new(unfit.conflict.clone()));
                        left_out.cuda_of(*unfit)
                    }
                },
                answer if first.is_none() => return Ok(answer),
                _ => false,
            };
            if !goes_on
                && !left_out.release()
                && let Some(conflict) = first
            {
                return Ok(Answer::Conflict(conflict));
            }
        }
    }

    /// Reads what the wheels of PyPI's half link, and compares it with the build that conda's half installs.
    fn fit_of_wheels(&self, solution: &Solution, request: &Request) -> Fit {
        let Some(stack) = &solution.stack else { return Fit::Fits(Vec::new()) };
        let torch = solution.conda.iter().find(|package| package.name == PYTORCH);
        let target = LinkTarget {
            cuda: cuda_of_variant(&stack.variant).map(|(major, _)| major.into()),
            cxx11_abi: torch.and_then(|package| self.registry.cxx11_abi_of_conda(package)),
            beside: cuda_runtime(self.registry, &solution.packages)
                .map(|(_, cuda)| cuda.major)
                .into_iter()
                .collect(),
            stated: None,
        };
        let packages: Vec<&ChosenPackage> =
            solution.packages.iter().filter(|package| has_code(package)).collect();
        let mut not_read: Vec<(&ChosenPackage, String)> = Vec::new();
        for (package, code) in packages.iter().zip(self.code_of(&packages)) {
            let stated = BuiltFor::of(&package.version).and_then(|built| built.cuda_major);
            match code {
                Code::Read(linked) => {
                    let target = LinkTarget { stated, ..target.clone() };
                    if let Some(misfit) = misfit(self.registry, &linked, &target) {
                        return unfit(package, &misfit, &target, (solution, request));
                    }
                }
                Code::Unread(why) if self.uses_torch_or_cuda(package) => {
                    let what =
                        format!("machine code for torch or CUDA, and what it links was not read: {why}");
                    let headline = "is not known to be built for conda's torch";
                    let conflict = not_built_for(package, what, headline, (solution, request));
                    return Fit::Unfit(Box::new(Unfit { conflict, other_than: None, without: None }));
                }
                Code::Unread(why) => not_read.push((package, why)),
            }
        }
        Fit::Fits(unread(&not_read))
    }

    /// Whether a package is known to use torch or CUDA, before its code is read.
    fn uses_torch_or_cuda(&self, package: &ChosenPackage) -> bool {
        // What one release links, others do as well.
        let is_one = |row: &&Companion| row.package == package.name;
        let uses =
            |row: &Companion| row.torch.is_some() || row.targets.is_some() || !row.links_cuda.is_empty();
        package.requires.iter().any(|edge| edge.to == "torch" || edge.to.starts_with("nvidia-"))
            || package.targets.is_some()
            || is_named_for_cuda(&package.name)
            || BuiltFor::of(&package.version).is_some()
            || self.registry.companions().iter().filter(is_one).any(uses)
            || self.registry.providers().iter().any(|provider| provider.package == package.name)
    }

    /// What the wheels of some packages link: kept, else read now.
    fn code_of(&self, packages: &[&ChosenPackage]) -> Vec<Code> {
        let store = LinkedStore::new(self.client.cache_dir());
        let hash = |package: &ChosenPackage| package.files.first().and_then(|file| file.sha256.clone());
        let mut out: Vec<Code> = Vec::new();
        let mut pages: BTreeMap<usize, Arc<ProjectPage>> = BTreeMap::new();
        for (at, package) in packages.iter().enumerate() {
            if let Some(kept) = hash(package).and_then(|hash| store.get(&hash)) {
                out.push(Code::Read(kept));
                continue;
            }
            let limit = if self.uses_torch_or_cuda(package) { MAX_USER } else { MAX_OTHER };
            let size = package.files.first().and_then(|file| file.size);
            match self.page_of(package) {
                Some(_) if size.is_some_and(|size| size > limit) => {
                    out.push(Code::Unread(format!("it is larger than {} MiB", limit >> 20)));
                }
                Some(page) => {
                    pages.insert(at, page);
                    out.push(Code::Unread("it could not be read".to_owned()));
                }
                None => out.push(Code::Unread("its index has no address for it".to_owned())),
            }
        }
        let name = |at: usize| packages[at].files.first().map(|file| file.name.as_str());
        let files: Vec<(usize, &ReleaseFile)> =
            pages.iter().filter_map(|(at, page)| Some((*at, page.find(name(*at)?)?))).collect();
        if files.is_empty() {
            return out;
        }
        let bar = self.printer.progress("reading what wheels link");
        bar.set_length(files.len() as u64);
        let only: Vec<&ReleaseFile> = files.iter().map(|(_, file)| *file).collect();
        let done = self.client.download_each(&only, &mut |i, file| {
            bar.inc(1);
            let at = files[i].0;
            let read = file.and_then(|file| {
                learn::linked(std::io::BufReader::new(file)).map_err(|error| error.to_string())
            });
            out[at] = match read {
                Ok(linked) => {
                    hash(packages[at]).iter().for_each(|hash| store.keep(hash, &linked));
                    Code::Read(linked)
                }
                Err(why) => Code::Unread(why),
            };
        });
        bar.finish_and_clear();
        if let Err(error) = done {
            let why = match error {
                IndexError::Offline { .. } => "with `--offline`, nothing is downloaded".to_owned(),
                other => other.to_string(),
            };
            for (at, _) in files {
                out[at] = Code::Unread(why.clone());
            }
        }
        out
    }

    /// The page with the selected file of a package.
    fn page_of(&self, package: &ChosenPackage) -> Option<Arc<ProjectPage>> {
        let file = package.files.first()?;
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

/// Whether a package is installed from a wheel with machine code. NVIDIA's wheels are what others link.
fn has_code(package: &ChosenPackage) -> bool {
    let first = package.files.first();
    first.is_some_and(|file| file.name.ends_with(".whl") && !file.name.ends_with("-any.whl"))
        && !package.name.starts_with("nvidia-")
}

fn unfit(
    package: &ChosenPackage,
    misfit: &Misfit,
    target: &LinkTarget,
    (solution, request): (&Solution, &Request),
) -> Fit {
    let is_of_cuda = matches!(misfit.kind, MisfitKind::OtherCuda { .. } | MisfitKind::UnknownCuda { .. });
    let (beside, headline) = match (&misfit.kind, target.cuda) {
        (MisfitKind::OtherCuda { .. } | MisfitKind::UnknownCuda { .. }, Some(major)) => {
            (format!("; conda installs CUDA {major}"), "is not built for conda's CUDA")
        }
        (MisfitKind::Abi { cxx11: false }, _) => {
            ("; conda-forge's torch uses the C++11 ABI".to_owned(), "is not built for conda's torch")
        }
        (MisfitKind::UnknownAbi | MisfitKind::NoCuda { .. }, _) => {
            (String::new(), "is not known to be built for conda's torch")
        }
        _ => (String::new(), "is not built for conda's torch"),
    };
    let conflict = not_built_for(package, format!("{misfit}{beside}"), headline, (solution, request));
    let is_small = package.files.first().and_then(|file| file.size).is_some_and(|size| size <= MAX_AGAIN);
    let other = format!("{}!={}", package.name, package.version);
    let without = UserRequirement::parse(&other, Origin::Question).ok();
    Fit::Unfit(Box::new(Unfit {
        conflict,
        other_than: target.cuda.filter(|_| is_of_cuda),
        without: without.filter(|_| is_small && !package.source.is_direct()),
    }))
}
