//! Wheels of PyPI with machine code beside a torch that conda installs: what they link has to fit.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Operator, Version, VersionSpecifier};

use super::code::{MAX_TRIED_WHEEL, WheelCode};
use super::told::{not_built_for, of_unstated_torch, unread, without_cuda};
use super::{Asked, Session};
use crate::cli::error::CliError;
use crate::compatibility::{LinkTarget, Misfit, MisfitKind, cuda_of_variant, misfit};
use crate::model::built_for::BuiltFor;
use crate::model::conda::CUDNN;
use crate::model::conflict::Conflict;
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{Answer, ChosenPackage, Note, Solution};
use crate::model::version::DottedVersion;
use crate::registry::conda_builds::PYTORCH;

/// How many releases are left out because their wheels do not fit.
const MAX_OLDER: usize = 6;

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

/// What is left out of a request for wheels that do not fit, each with the reason.
#[derive(Default)]
struct LeftOut {
    /// The CUDA major versions of builds of torch.
    cuda: BTreeMap<u64, String>,
    /// Releases of PyPI's packages.
    releases: Vec<(String, Version, String)>,
    /// The release that is left out next.
    next: Option<(String, Version, String)>,
}

impl LeftOut {
    /// Leaves torch's builds out that a wheel does not fit, if it needs another CUDA.
    fn leave_out_cuda(&mut self, unfit: Unfit) -> bool {
        let why = unfit.why();
        if self.next.is_none() {
            self.next = unfit.release.map(|(name, version)| (name, version, why.clone()));
        }
        let Some(major) = unfit.other_than.filter(|major| !self.cuda.contains_key(major)) else {
            return false;
        };
        self.cuda.insert(major, why);
        true
    }

    /// Leaves the release out instead.
    fn leave_out_release(&mut self) -> bool {
        self.cuda.clear();
        let next = self.next.take().filter(|_| self.releases.len() < MAX_OLDER);
        let is_left_out = next.is_some();
        self.releases.extend(next);
        is_left_out
    }

    fn request(&self, request: &Request) -> Request {
        let mut out = request.clone();
        let other = |(name, version, _): &(String, Version, String)| {
            UserRequirement::parse(&format!("{name}!={version}"), Origin::Question).ok()
        };
        out.constraints.extend(self.releases.iter().filter_map(other));
        out
    }

    /// What was chosen instead.
    fn notes(&self, solution: &Solution) -> Vec<Note> {
        let note = |text: String| Note { text, source: None };
        let torch = solution.stack.as_ref();
        let cuda = self.cuda.iter().filter_map(|(major, why)| {
            let (version, variant) = torch.map(|own| (&own.version, &own.variant))?;
            Some(note(format!("torch {version}+{variant} was chosen, not a build for CUDA {major}: {why}")))
        });
        let releases = self.releases.iter().filter_map(|(name, version, why)| {
            let own = solution.packages.iter().find(|package| package.name == *name)?;
            Some(note(format!("{name} {} was chosen, not {version}: {why}", own.version)))
        });
        cuda.chain(releases).collect()
    }
}

impl Session<'_> {
    /// Solves both halves with the stack from the channels. Where the machine code of a wheel of PyPI does not fit the build that
    /// conda's half installs, a build for another CUDA is tried, then another release of the package.
    ///
    /// # Errors
    /// Those of [`Session::solve_both`].
    pub(super) fn solve_with_stack(&mut self, asked: &Asked<'_>) -> Result<Answer, CliError> {
        let mut left_out = LeftOut::default();
        let mut first: Option<Box<Conflict>> = None;
        loop {
            let request = left_out.request(asked.request);
            let excluded = left_out.cuda.keys().copied().collect();
            let answer = self.with_build(&Asked { request: &request, ..*asked }, &excluded)?;
            let goes_on = match answer {
                Answer::Solution(mut solution) => match self.fit_of_wheels(&solution, asked.request) {
                    Fit::Fits(notes) => {
                        let told = left_out.notes(&solution);
                        solution.notes.extend(told.into_iter().chain(notes));
                        return Ok(Answer::Solution(solution));
                    }
                    Fit::Unfit(unfit) => {
                        first.get_or_insert_with(|| Box::new(unfit.conflict.clone()));
                        left_out.leave_out_cuda(*unfit)
                    }
                },
                answer if first.is_none() => return Ok(answer),
                _ => false,
            };
            if !goes_on
                && !left_out.leave_out_release()
                && let Some(conflict) = first
            {
                return Ok(Answer::Conflict(conflict));
            }
        }
    }

    /// Compares what the wheels of PyPI's half link with the build that conda's half installs.
    fn fit_of_wheels(&mut self, solution: &Solution, request: &Request) -> Fit {
        let Some(target) = self.link_target(solution) else { return Fit::Fits(Vec::new()) };
        let has_code = |package: &&ChosenPackage| self.has_code(package);
        let packages: Vec<&ChosenPackage> = solution.packages.iter().filter(has_code).collect();
        let mut not_read: Vec<(&ChosenPackage, String)> = Vec::new();
        let (mut unstated, mut notes) = (Vec::new(), Vec::new());
        for (package, code) in packages.iter().zip(self.code_of(&packages)) {
            let linked = match code {
                WheelCode::Read(linked) => linked,
                WheelCode::Unread(why) if self.uses_torch_or_cuda(package) => {
                    return Fit::Unfit(Box::new(unread_user(package, &why, (solution, request))));
                }
                WheelCode::Unread(why) => {
                    not_read.push((package, why));
                    continue;
                }
            };
            let stated = BuiltFor::of(&package.version).and_then(|built| built.cuda_major);
            let target = LinkTarget { stated, ..target.clone() };
            match misfit(self.registry, &linked, &target) {
                Some(Misfit { kind: MisfitKind::CudaOnCpu { needed }, .. }) => {
                    notes.push(without_cuda(package, &needed));
                }
                Some(misfit) => {
                    return Fit::Unfit(Box::new(unfit(package, &misfit, &target, (solution, request))));
                }
                None => {}
            }
            if linked.libraries.iter().any(|library| library.torch.is_some()) && !states_torch(package) {
                unstated.push(*package);
            }
        }
        notes.extend(of_unstated_torch(&unstated));
        notes.extend(unread(&not_read));
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
        let is_known = torch.channel == crate::model::conda::CONDA_FORGE;
        let cudnn = of_conda(&CUDNN).and_then(|package| package.version.parse::<DottedVersion>().ok());
        let brought: BTreeSet<String> = solution
            .packages
            .iter()
            .flat_map(|package| self.registry.cuda_libraries_of(&package.name, &package.version))
            .map(str::to_owned)
            .collect();
        Some(LinkTarget {
            cuda: cuda_of_variant(&stack.variant).map(|(major, _)| major.into()),
            cudnn: cudnn.map(|version| version.major().into()),
            cxx11_abi: self.registry.cxx11_abi_of_conda(PYTORCH, &stack.version).filter(|_| is_known),
            brought,
            stated: None,
        })
    }

    /// Whether a package is installed from a wheel with machine code. NVIDIA's libraries are what others link.
    fn has_code(&self, package: &ChosenPackage) -> bool {
        let first = package.files.first();
        first.is_some_and(|file| file.name.ends_with(".whl") && !file.name.ends_with("-any.whl"))
            && !self.registry.is_of_nvidia(&package.name)
    }
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
        MisfitKind::Abi { cxx11: true } | MisfitKind::TorchForCuda { .. } | MisfitKind::CudaOnCpu { .. } => {
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
