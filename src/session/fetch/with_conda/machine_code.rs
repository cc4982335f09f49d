//! Wheels of PyPI with machine code beside a torch that conda installs: what they link has to fit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use pep440_rs::{Operator, Version, VersionSpecifier};

use super::Session;
use super::code::{MAX_TRIED_WHEEL, WheelCode};
use super::conflict_text::cut_off;
use super::messages::{not_built_for, of_unstated_torch, unread, without_cuda};
use crate::compatibility::{LinkTarget, Misfit, MisfitKind, misfit};
use crate::model::built_for::BuiltFor;
use crate::model::conda::{CONDA_FORGE, CUDNN};
use crate::model::conflict::Conflict;
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{Answer, ChosenFile, ChosenPackage, Note, Solution};
use crate::model::variant::cuda_of_variant;
use crate::model::version::DottedVersion;
use crate::registry::conda_builds::PYTORCH;
use crate::session::failure::Failure;
use crate::solver::Question;

/// How many sets of releases are left out because of their wheels, one after the other.
const MAX_SETS: usize = 24;

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
    /// The release, where another one may fit and is small enough to be read.
    release: Option<(String, Version)>,
}

impl Unfit {
    /// What is wrong with the wheel.
    fn why(&self) -> String {
        self.conflict.reasons.first().map_or_else(String::new, |reason| reason.text.clone())
    }
}

/// A release of one of PyPI's packages that is left out, and why.
#[derive(Debug, Clone, PartialEq)]
struct LeftOut {
    package: String,
    version: Version,
    why: String,
}

/// What a request comes to without some releases.
enum Tried {
    /// An answer whose wheels fit.
    Answer(Answer),
    /// Wheels that do not fit, for each CUDA that the channels have builds of torch for.
    Unfit {
        /// One for each CUDA.
        unfit: Vec<Unfit>,
        /// Whether a search ended at its limit.
        is_cut: bool,
    },
}

impl Session<'_> {
    /// Solves both halves with the stack from the channels. Where the machine code of a wheel of PyPI does not fit the build that
    /// conda's half installs, a build for another CUDA is tried, then another release of the package.
    ///
    /// # Errors
    /// Those of [`Session::solve_both`].
    pub(super) fn solve_with_stack(&mut self, asked: &Question<'_>) -> Result<Answer, Failure> {
        let mut open: VecDeque<Vec<LeftOut>> = VecDeque::from([Vec::new()]);
        // Of a conflict, the wheel without which there is no answer at all says more than one that has another release.
        let mut last: Option<Box<Conflict>> = None;
        let (mut tried, mut is_cut) = (0, false);
        while let Some(left_out) = open.pop_front() {
            tried += 1;
            let mut unfit = match self.without_releases(asked, &left_out)? {
                Tried::Answer(Answer::Solution(mut solution)) => {
                    let notes = of_left_out(&solution, &left_out);
                    solution.notes.extend(notes);
                    return Ok(Answer::Solution(solution));
                }
                Tried::Answer(answer) if left_out.is_empty() => return Ok(answer),
                Tried::Answer(answer) => {
                    is_cut |= is_cut_short(&answer);
                    continue;
                }
                Tried::Unfit { unfit, is_cut: is_cut_here } => {
                    is_cut |= is_cut_here;
                    unfit
                }
            };
            for one in &unfit {
                let Some((package, version)) = &one.release else { continue };
                let next = LeftOut { package: package.clone(), version: version.clone(), why: one.why() };
                let mut set = left_out.clone();
                set.push(next);
                match tried + open.len() < MAX_SETS {
                    true => open.push_back(set),
                    false => is_cut = true,
                }
            }
            let mut conflict = unfit.remove(0).conflict;
            // A build for another CUDA does not help, and why.
            conflict
                .reasons
                .extend(unfit.into_iter().filter_map(|other| other.conflict.reasons.into_iter().next()));
            last = Some(Box::new(conflict));
        }
        match last {
            Some(conflict) if is_cut => Ok(Answer::Conflict(Box::new(cut_off(*conflict)))),
            Some(conflict) => Ok(Answer::Conflict(conflict)),
            None => Err(Failure::internal("no answer of both halves and no conflict")),
        }
    }

    /// Solves both halves without some releases: with the best build of torch, then with those for another CUDA.
    fn without_releases(&mut self, asked: &Question<'_>, left_out: &[LeftOut]) -> Result<Tried, Failure> {
        let mut request = asked.request.clone().into_owned();
        request.constraints.extend(left_out.iter().filter_map(LeftOut::requirement));
        let mut excluded: BTreeMap<u64, String> = BTreeMap::new();
        let mut unfit: Vec<Unfit> = Vec::new();
        loop {
            let majors = excluded.keys().copied().collect();
            let mut solution = match self.with_build(&asked.with_request(&request), &majors)? {
                Answer::Solution(solution) => solution,
                answer if unfit.is_empty() => return Ok(Tried::Answer(answer)),
                answer => return Ok(Tried::Unfit { unfit, is_cut: is_cut_short(&answer) }),
            };
            let one = match self.fit_of_wheels(&mut solution, &asked.request) {
                Fit::Fits(notes) => {
                    solution.notes.extend(of_other_cuda(&solution, &excluded));
                    solution.notes.extend(notes);
                    return Ok(Tried::Answer(Answer::Solution(solution)));
                }
                Fit::Unfit(one) => *one,
            };
            let major = one.other_than.filter(|major| !excluded.contains_key(major));
            let why = one.why();
            unfit.push(one);
            match major {
                Some(major) => excluded.insert(major, why),
                None => return Ok(Tried::Unfit { unfit, is_cut: false }),
            };
        }
    }

    /// Compares what the wheels of PyPI's half link with the build that conda's half installs. Of several wheels of one release,
    /// those that do not fit are left out of the solution.
    fn fit_of_wheels(&mut self, solution: &mut Solution, request: &Request) -> Fit {
        let Some(target) = self.link_target(solution) else { return Fit::Fits(Vec::new()) };
        let wheels: Vec<(&ChosenPackage, &ChosenFile)> = solution
            .packages
            .iter()
            .filter(|package| !self.registry.is_of_nvidia(&package.name))
            .flat_map(|package| package.files.iter().map(move |file| (package, file)))
            .filter(|(_, file)| has_code(file))
            .collect();
        let mut found: BTreeMap<&str, Vec<(&ChosenFile, WheelCode)>> = BTreeMap::new();
        let folder = request.folder.as_deref().unwrap_or(Path::new("."));
        for ((package, file), code) in wheels.iter().zip(self.code_of(&wheels, folder)) {
            found.entry(&package.name).or_default().push((file, code));
        }
        let mut dropped: Vec<String> = Vec::new();
        let mut not_read: Vec<(&ChosenPackage, String)> = Vec::new();
        let (mut unstated, mut notes) = (Vec::new(), Vec::new());
        for package in &solution.packages {
            let Some(found) = found.get(package.name.as_str()) else { continue };
            let stated = BuiltFor::of(&package.version).and_then(|built| built.cuda_major);
            let target = LinkTarget { stated, ..target.clone() };
            let of = |(file, code): &(&ChosenFile, WheelCode)| match code {
                WheelCode::Read(linked) => {
                    Judged::Read(misfit(self.registry, linked, &target), (*file).clone())
                }
                WheelCode::Unread(why) => Judged::Unread(why.clone()),
                WheelCode::NotTried => Judged::NotTried,
            };
            let judged: Vec<Judged> = found.iter().map(of).collect();
            let some_fit = judged.iter().any(Judged::fits);
            for one in judged {
                match one {
                    Judged::Read(Some(misfit), _) if misfit.may_be_ignored() => {
                        notes.push(without_cuda(package, &misfit));
                    }
                    Judged::Read(None, _) | Judged::NotTried => {}
                    Judged::Read(Some(_), file) if some_fit => dropped.push(file.name),
                    Judged::Read(Some(misfit), _) => {
                        return Fit::Unfit(Box::new(unfit(package, &misfit, &target, (solution, request))));
                    }
                    Judged::Unread(why) if !some_fit && self.uses_torch_or_cuda(package) => {
                        return Fit::Unfit(Box::new(unread_user(package, &why, (solution, request))));
                    }
                    Judged::Unread(why) => not_read.push((package, why)),
                }
            }
            let uses_torch = |(_, code): &(&ChosenFile, WheelCode)| matches!(code, WheelCode::Read(linked) if linked.uses_functions_of_torch());
            if found.iter().any(uses_torch) && !states_torch(package) {
                unstated.push(package);
            }
        }
        notes.dedup();
        notes.extend(of_unstated_torch(&unstated));
        notes.extend(unread(&not_read));
        for package in &mut solution.packages {
            package.files.retain(|file| !dropped.contains(&file.name));
        }
        Fit::Fits(notes)
    }

    /// The torch that conda's half installs, and what is there beside it; `None` without torch.
    fn link_target(&self, solution: &Solution) -> Option<LinkTarget> {
        let stack = solution.stack.as_ref()?;
        let of_conda = |names: &[&str]| {
            let is_meant = |name: &str| names.contains(&name);
            solution.conda.iter().find(|package| is_meant(&package.name))
        };
        let torch = of_conda(&[PYTORCH])?;
        let is_known = torch.channel == CONDA_FORGE;
        let cudnn = of_conda(&CUDNN).and_then(|package| package.version.parse::<DottedVersion>().ok());
        let brought: BTreeSet<String> = solution
            .packages
            .iter()
            .flat_map(|package| self.registry.cuda_libraries_of(&package.name, &package.version))
            .map(str::to_owned)
            .collect();
        Some(LinkTarget {
            torch: Some(stack.version.clone()),
            python: Some(solution.python),
            cuda: cuda_of_variant(&stack.variant).map(|(major, _)| major),
            cudnn: cudnn.map(|version| version.major().into()),
            cxx11_abi: self.registry.cxx11_abi_of_conda(PYTORCH, &stack.version).filter(|_| is_known),
            brought,
            stated: None,
        })
    }
}

/// Whether an answer is one of a search that ended at its limit.
fn is_cut_short(answer: &Answer) -> bool {
    match answer {
        Answer::Solution(_) => false,
        Answer::Conflict(conflict) => conflict.cut,
        Answer::ConflictSoFar(..) | Answer::TooLong | Answer::NeedMetadata(_) => true,
    }
}

/// What came of a wheel.
enum Judged {
    /// What does not fit, if anything, and the file.
    Read(Option<Misfit>, ChosenFile),
    /// Why it was not read.
    Unread(String),
    /// It was not tried, and is taken for one that fits.
    NotTried,
}

impl Judged {
    fn fits(&self) -> bool {
        match self {
            Judged::Read(misfit, _) => misfit.as_ref().is_none_or(Misfit::may_be_ignored),
            Judged::Unread(_) => false,
            Judged::NotTried => true,
        }
    }
}

impl LeftOut {
    fn requirement(&self) -> Option<UserRequirement> {
        UserRequirement::parse(&format!("{}!={}", self.package, self.version), Origin::Question).ok()
    }
}

/// What was chosen instead of the releases that were left out: one note for each package, with the reason of the first.
fn of_left_out(solution: &Solution, left_out: &[LeftOut]) -> Vec<Note> {
    let mut by_package: BTreeMap<&str, Vec<&LeftOut>> = BTreeMap::new();
    for one in left_out {
        by_package.entry(&one.package).or_default().push(one);
    }
    let note = |(name, all): (&str, Vec<&LeftOut>)| {
        let versions: Vec<String> = all.iter().map(|one| one.version.to_string()).collect();
        let (versions, why) = (versions.join(", "), &all.first()?.why);
        let own = solution.packages.iter().find(|package| package.name == name);
        let text = match own {
            Some(own) => format!("{name} {} was chosen, not {versions}: {why}", own.version),
            None => format!("left out: {name} {versions}: {why}"),
        };
        Some(Note { text, source: None })
    };
    by_package.into_iter().filter_map(note).collect()
}

/// Which build was chosen where those for another CUDA were left out.
fn of_other_cuda(solution: &Solution, excluded: &BTreeMap<u64, String>) -> Vec<Note> {
    let Some(torch) = &solution.stack else { return Vec::new() };
    let note = |(major, why): (&u64, &String)| Note {
        text: format!(
            "torch {}+{} was chosen, not a build for CUDA {major}: {why}",
            torch.version, torch.variant
        ),
        source: None,
    };
    excluded.iter().map(note).collect()
}

/// Whether a file is a wheel with machine code.
fn has_code(file: &ChosenFile) -> bool {
    file.name.ends_with(".whl") && !file.name.ends_with("-any.whl")
}

/// Whether a package says which minor release of torch it was built for.
fn states_torch(package: &ChosenPackage) -> bool {
    let names_minor = |one: &VersionSpecifier| match one.operator() {
        Operator::Equal | Operator::ExactEqual => true,
        Operator::EqualStar => one.version().release().len() > 1,
        Operator::TildeEqual => one.version().release().len() > 2,
        _ => false,
    };
    let is_exact = |text: &str| {
        let requirement = parse_requirement(text).ok().map(|r| UserRequirement::new(r, Origin::Question));
        let has = |user: &UserRequirement| user.specifiers().is_some_and(|all| all.iter().any(names_minor));
        requirement.as_ref().is_some_and(has)
    };
    let mut of_torch = package.requires.iter().filter(|edge| edge.to == "torch");
    BuiltFor::of(&package.version).is_some() || of_torch.any(|edge| is_exact(&edge.requirement))
}

/// A wheel that is known to use torch or CUDA, and could not be read.
fn unread_user(package: &ChosenPackage, why: &str, asked: (&Solution, &Request)) -> Unfit {
    let what = format!("machine code for torch or CUDA, and what it links was not read: {why}");
    let headline = "is not known to be built for conda's torch";
    let conflict = not_built_for(package, (what, "its metadata"), headline, asked);
    Unfit { conflict, other_than: None, release: None }
}

fn unfit(
    package: &ChosenPackage,
    misfit: &Misfit,
    target: &LinkTarget,
    asked: (&Solution, &Request),
) -> Unfit {
    let not_for_torch = "is not built for conda's torch";
    let installed = |what: &str, version: Option<u64>| match version {
        Some(version) => format!("; conda installs {what} {version}"),
        None => format!("; conda installs no {what}"),
    };
    let (beside, headline) = match &misfit.kind {
        MisfitKind::OtherCuda { .. } | MisfitKind::UnknownCuda { .. } => {
            (installed("CUDA", target.cuda), "is not built for conda's CUDA")
        }
        MisfitKind::OtherCudnn { .. } => (installed("cuDNN", target.cudnn), "is not built for conda's cuDNN"),
        MisfitKind::Abi { cxx11: false } => {
            ("; conda-forge's torch uses the C++11 ABI".to_owned(), not_for_torch)
        }
        MisfitKind::UnknownAbi | MisfitKind::UnstatedCuda { .. } => {
            (String::new(), "is not known to be built for conda's torch")
        }
        MisfitKind::NewerTorch { .. } => {
            (format!("; conda installs torch {}", version_of_torch(asked.0)), not_for_torch)
        }
        MisfitKind::Abi { cxx11: true } | MisfitKind::OtherTorch { .. } | MisfitKind::CudaOnCpu { .. } => {
            (String::new(), not_for_torch)
        }
    };
    let what = (format!("{misfit}{beside}"), "the libraries of the wheel");
    let is_of_cuda = matches!(misfit.kind, MisfitKind::OtherCuda { .. } | MisfitKind::UnknownCuda { .. });
    let size = package.files.first().and_then(|file| file.size);
    let can_be_another = size.is_some_and(|size| size <= MAX_TRIED_WHEEL) && !package.source.is_direct();
    Unfit {
        conflict: not_built_for(package, what, headline, asked),
        other_than: target.cuda.filter(|_| is_of_cuda),
        release: can_be_another.then(|| (package.name.clone(), package.version.clone())),
    }
}

fn version_of_torch(solution: &Solution) -> String {
    solution.stack.as_ref().map_or_else(String::new, |stack| stack.version.to_string())
}
