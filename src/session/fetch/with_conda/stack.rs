//! The stack from channels: which build of conda-forge's pytorch the machine runs is decided by envlock's solver, together
//! with what PyPI's packages require of torch; conda's half installs that build.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pep440_rs::Version;

use super::channels::other_interpreters;
use super::conflict_text::{cut_off, required, tell_tried};
use super::messages::{newer_unknown, twice, with_unknown, without_gpu};
use super::on_python::Tally;
use super::requests::of_pypi;
use super::{Half, OfPython, Purpose, Session};
use crate::compatibility::{both, cudnn_drops, envelope_of};
use crate::conda::{Bound, Records, Stack, StackChoice, VirtualPackage, is_of_variant, opened, stack_spec};
use crate::model::conda::{CUDNN, NCCL};
use crate::model::conflict::{Change, Conflict, Party, Reason};
use crate::model::level::Level;
use crate::model::metadata::CoreMetadata;
use crate::model::platform::Platform;
use crate::model::request::{Origin, Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::source::CondaPackage;
use crate::model::variant::{CPU, cuda_of_variant};
use crate::model::version::DottedVersion;
use crate::registry::conda_builds::{CondaBuildOf, OF_CHANNEL, PYTORCH};
use crate::registry::conda_names::pypi_name;
use crate::registry::{Build, COMPANIONS, Registry};
use crate::session::failure::Failure;
use crate::solver::Question;

/// conda's package of torch's libraries.
const LIBTORCH: &str = "libtorch";

/// The build that conda's half installs.
pub(super) struct ChosenStack {
    pub choice: StackChoice,
    /// The registry with this build of torch alone.
    pub registry: Registry,
    pub stack: Stack,
}

impl ChosenStack {
    /// The CUDA libraries are of the major version that torch was built with, whatever its record says.
    pub fn cuda_bound(&self) -> Option<Bound> {
        let StackChoice { version, variant, .. } = &self.choice;
        let (major, _) = cuda_of_variant(variant)?;
        Some(Bound {
            spec: format!("cuda-version >={major},<{}", major + 1),
            why: format!("torch {version} {variant} needs the libraries of CUDA {major}"),
        })
    }

    /// Which build it is, as a reason of a conflict.
    pub fn reason(&self) -> Reason {
        let StackChoice { version, variant, .. } = &self.choice;
        let text = format!("torch {version} {variant} is the build that was chosen for the machine");
        Reason::fact(text).about_package("torch").by(OF_CHANNEL)
    }

    /// A machine on which a build for CUDA can be installed: what is not known of it limits nothing.
    pub fn machine(&self, machine: Vec<VirtualPackage>) -> Vec<VirtualPackage> {
        match self.choice.variant != CPU && !machine.iter().any(|own| own.name == "__cuda") {
            true => opened(&machine, "__cuda"),
            false => machine,
        }
    }
}

impl Session<'_> {
    /// Solves both halves with the stack from the channels: PyPI's half alone chooses a build that the machine runs; if
    /// conda's half cannot install it, it is left out and another one is chosen. `excluded_cuda_majors`: only builds for other CUDA major
    /// versions than these are there.
    ///
    /// # Errors
    /// Those of [`Session::solve_both`].
    pub(super) fn with_build(
        &mut self,
        asked: &Question<'_>,
        excluded_cuda_majors: &BTreeSet<u64>,
    ) -> Result<Answer, Failure> {
        let platform = asked.host.system.platform;
        let records = self.records(&asked.request, platform)?;
        let specs: Vec<&str> = asked.request.conda.specs.iter().map(|spec| spec.text.as_str()).collect();
        let mut left_out: BTreeSet<StackChoice> = BTreeSet::new();
        let mut first: Option<Box<Conflict>> = None;
        let (mut tally, mut is_cut) = (Tally::default(), false);
        while !tally.is_over() {
            let mut stack = self.stack_of(&records, asked, &left_out, &specs);
            if !excluded_cuda_majors.is_empty() {
                let is_left = |cuda: &semver::Version| !excluded_cuda_majors.contains(&cuda.major);
                stack.builds.retain(|build| build.cuda.as_ref().is_some_and(is_left));
            }
            let answer = self.stack_with_requirements(asked, &stack, &records)?;
            let solution = match answer {
                Answer::Solution(solution) => solution,
                Answer::Conflict(_) | Answer::ConflictSoFar(..) if first.is_some() => break,
                Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => {
                    let mut conflict =
                        with_unknown(*conflict, &stack, &records, &asked.request.conda.channels);
                    if asked.host.has_no_gpu() {
                        without_gpu(&mut conflict, &stack, &asked.request.conda.channels);
                    }
                    self.with_specs(&mut conflict, &records, asked, &specs)?;
                    return Ok(Answer::Conflict(Box::new(conflict)));
                }
                open => return Ok(open),
            };
            if solution.stack.is_none() {
                return self.without_torch(asked);
            }
            let python = solution.python;
            let unknown = stack.unknown.clone();
            let half = solution.stack.map(|own| {
                let choice = StackChoice { version: own.version, variant: own.variant, python: python.minor };
                let (builds, companions) = stack.only(&choice);
                let registry = self.registry.with_stack(builds, companions);
                Half {
                    specs: specs_of(&choice, &own.companions),
                    stack: ChosenStack { choice, registry, stack },
                }
            });
            let excluded = self.excluded_by_stack(&records, asked, half.as_ref());
            match self.on_python(&records, asked, python, &mut tally, (half.as_ref(), &excluded))? {
                OfPython::Solved(mut solution) => {
                    solution.notes.extend(twice(&solution, self.registry));
                    if let Some(half) = &half {
                        self.complete(&mut solution, &asked.request.conda.channels);
                        solution.notes.extend(newer_unknown(&unknown, &half.stack.choice, &asked.request));
                    }
                    return Ok(Answer::Solution(solution));
                }
                OfPython::Open(answer) => return Ok(answer),
                OfPython::Conflict { conflict, is_cut: is_cut_here } => {
                    is_cut |= is_cut_here;
                    first = first.or(Some(tell_tried(conflict, python)));
                }
                OfPython::NoConda { is_cut: is_cut_here } if first.is_none() => {
                    is_cut |= is_cut_here;
                    let told = (half.as_ref(), &excluded);
                    first = Some(Box::new(self.conflict_of_conda(
                        &records,
                        asked,
                        tally.left_out.clone(),
                        told,
                    )?));
                }
                OfPython::NoConda { is_cut: is_cut_here } => is_cut |= is_cut_here,
            }
            tally.rounds += 1;
            left_out.extend(half.map(|half| half.stack.choice));
        }
        let Some(mut conflict) = first else {
            return Err(Failure::internal("no answer of the channels and no conflict"));
        };
        if is_cut || tally.is_over() {
            return Ok(Answer::Conflict(Box::new(cut_off(*conflict))));
        }
        self.without_limits(&mut conflict, asked)?;
        Ok(Answer::Conflict(conflict))
    }

    /// Adds the limits on cuDNN and NCCL without which there is an answer, as reasons and as ways out.
    fn without_limits(&mut self, conflict: &mut Conflict, asked: &Question<'_>) -> Result<(), Failure> {
        // A way out needs none of its own.
        if self.purpose == Purpose::Way {
            return Ok(());
        }
        type Lift = fn(&mut Request);
        let own = &*asked.request;
        let limits: [((&'static str, &str), Party, _, Lift); 2] = [
            (("cudnn", "cuDNN"), Party::Cudnn, own.cudnn.as_ref(), |request| request.cudnn = None),
            (("nccl", "NCCL"), Party::Nccl, own.nccl.as_ref(), |request| request.nccl = None),
        ];
        for ((what, shown), party, limit, lift) in limits {
            let Some(limit) = limit else { continue };
            let mut request = own.clone();
            lift(&mut request);
            let lifted = asked.with_request(&request);
            let answer = self.for_purpose(Purpose::Way, |session| session.solve_with_stack(&lifted))?;
            let Answer::Solution(solution) = answer else { continue };
            if solution.stack.is_none() {
                continue;
            }
            let text = format!("you require {shown} {}", limit.value);
            let asked = Reason::asked(&limit.origin, limit.value.bounds_above(), text);
            conflict.reasons.push(asked.about([party.clone()]));
            let change = Change::WithoutLimit { what, value: limit.value.to_string() };
            conflict.would_work_if.push(solution.reached_by(change, party, Level::Full));
        }
        Ok(())
    }

    /// The builds in the channels that may be chosen. conda installs none for CUDA where there is no GPU.
    fn stack_of(
        &self,
        records: &Records,
        asked: &Question<'_>,
        left_out: &BTreeSet<StackChoice>,
        specs: &[&str],
    ) -> Stack {
        let platform = asked.host.system.platform;
        let mut stack = Stack::of(records, self.registry, platform, left_out, specs);
        if asked.host.has_no_gpu() {
            stack.builds.retain(|build| build.cuda.is_none());
        }
        stack
    }

    /// Both halves of a request that nothing requires torch for. If a conda package does, torch is asked for.
    fn without_torch(&mut self, asked: &Question<'_>) -> Result<Answer, Failure> {
        let answer = self.solve_beside_stack(asked)?;
        let needs_torch = match &answer {
            Answer::Solution(solution) => solution.conda.iter().any(|package| package.name == PYTORCH),
            _ => false,
        };
        if !needs_torch {
            return Ok(answer);
        }
        let mut request = asked.request.clone().into_owned();
        let torch = UserRequirement::parse("torch", Origin::Question);
        request.requirements.extend(torch.map_err(|error| Failure::internal(error.to_string())));
        self.solve_with_stack(&asked.with_request(&request))
    }

    /// Adds the match specs that bound the stack to a conflict about it, and as ways out those without which there is an
    /// answer.
    fn with_specs(
        &mut self,
        conflict: &mut Conflict,
        records: &Records,
        asked: &Question<'_>,
        specs: &[&str],
    ) -> Result<(), Failure> {
        let is_of_stack = |name: &str| name == PYTORCH || COMPANIONS.contains(&name);
        for spec in asked.request.conda.specs.iter().filter(|spec| is_of_stack(spec.name())) {
            if spec.text == spec.name() {
                continue;
            }
            conflict.reasons.push(required(spec));
            let others: Vec<&str> = specs.iter().copied().filter(|text| *text != spec.text).collect();
            let stack = self.stack_of(records, asked, &BTreeSet::new(), &others);
            if let Answer::Solution(solution) = self.stack_alone(asked, &asked.request, &stack)?
                && solution.stack.is_some()
            {
                let change = Change::WithoutRequest(spec.text.clone());
                let party = Party::package(spec.name());
                conflict.would_work_if.push(solution.reached_by(change, party, Level::Stack));
            }
        }
        Ok(())
    }

    /// PyPI's half with the stack of the channels. Where PyPI has no answer, without the requirements that a record of the
    /// channels meets: conda's half may bring the release that PyPI lacks, and is solved with them.
    fn stack_with_requirements(
        &mut self,
        asked: &Question<'_>,
        stack: &Stack,
        records: &Records,
    ) -> Result<Answer, Failure> {
        let answer = self.stack_alone(asked, &asked.request, stack)?;
        if !matches!(answer, Answer::Conflict(_) | Answer::ConflictSoFar(..)) {
            return Ok(answer);
        }
        let mut request = asked.request.clone().into_owned();
        let channels = &asked.request.conda.channels;
        request.requirements.retain(|user| !is_met_by(user, records, channels));
        if request.requirements.len() == asked.request.requirements.len() {
            return Ok(answer);
        }
        Ok(match self.stack_alone(asked, &request, stack)? {
            Answer::Solution(solution) => Answer::Solution(solution),
            _ => answer,
        })
    }

    /// PyPI's half with the stack of the channels, without conda's packages.
    fn stack_alone(
        &mut self,
        asked: &Question<'_>,
        request: &Request,
        stack: &Stack,
    ) -> Result<Answer, Failure> {
        let registry = self.registry.with_stack(stack.builds.clone(), stack.companions.clone());
        let request = of_pypi(request);
        let mut session =
            Session::new(self.client, &registry, self.interface, self.overrides.stated, self.budget);
        session.add_stack(stack)?;
        session.solve(&asked.with_request(&request))
    }

    /// Adds the pages of the stack, as if PyPI had them. conda's packages require nothing of PyPI.
    pub(super) fn add_stack(&self, stack: &Stack) -> Result<(), Failure> {
        for (name, page, files) in stack.pages() {
            for (file, version) in files {
                let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
                let metadata = CoreMetadata::parse(&text, String::new())
                    .map_err(|error| Failure::input(format!("conda's `{name}`: {error}")))?;
                self.universe.add_metadata("pypi", &file, Ok(Arc::new(metadata)));
            }
            self.universe.add_page("pypi", name, Some(Arc::new(page)));
        }
        Ok(())
    }

    /// The major version of the cuDNN that all builds of a choice link, if it is known.
    fn cudnn_of(&self, choice: &StackChoice, records: &Records, platform: Platform) -> Option<u64> {
        let is_chosen = |package: &CondaPackage| {
            package.version.parse::<Version>().is_ok_and(|version| version == choice.version)
                && is_of_variant(&package.build, &choice.variant)
        };
        let chosen = records.of(PYTORCH).into_iter().filter(is_chosen);
        let all: Option<BTreeSet<u64>> =
            chosen.map(|package| self.registry.cudnn_of_conda(&package, platform)).collect();
        all.filter(|all| all.len() == 1)?.pop_first()
    }

    /// Files that must not be chosen beside a build: other variants of the stack, and a cuDNN or NCCL that the GPUs or the
    /// request exclude.
    fn excluded_by_stack(
        &self,
        records: &Records,
        asked: &Question<'_>,
        half: Option<&Half>,
    ) -> BTreeMap<String, String> {
        let mut out = other_interpreters(records);
        let Some(half) = half else { return out };
        let variant = &half.stack.choice.variant;
        // Also the library that pytorch is a part of: a record may require another one than its build string says.
        for package in [PYTORCH, LIBTORCH].into_iter().chain(COMPANIONS).flat_map(|name| records.of(name)) {
            if !is_of_variant(&package.build, variant) {
                let why = format!("{} {} is not of the variant {variant}", package.name, package.build);
                out.insert(package.file, why);
            }
        }
        let cudnn = self.cudnn_of(&half.stack.choice, records, asked.host.system.platform);
        for package in CUDNN.into_iter().flat_map(|name| records.of(name)) {
            let Ok(version) = package.version.parse::<DottedVersion>() else { continue };
            let dropped = asked.host.capabilities().into_iter().flatten().find_map(|capability| {
                Some((capability, cudnn_drops(self.registry, Some(&version), capability)?))
            });
            if let Some((capability, floor)) = dropped {
                let why = format!(
                    "cuDNN {version} requires compute capability >= {}; the GPU has {capability}",
                    floor.min
                );
                out.insert(package.file, why);
            } else if let Some(own) = cudnn.filter(|own| *own != u64::from(version.major())) {
                out.insert(
                    package.file,
                    format!("torch {} is built with cuDNN {own}", half.stack.choice.version),
                );
            } else if let Some(limit) =
                asked.request.cudnn.as_ref().filter(|limit| !limit.value.contains(&version))
            {
                out.insert(package.file, format!("cuDNN {version} is excluded by `cudnn {}`", limit.value));
            }
        }
        for package in records.of(NCCL) {
            let Ok(version) = package.version.parse::<DottedVersion>() else { continue };
            if let Some(limit) = asked.request.nccl.as_ref().filter(|limit| !limit.value.contains(&version)) {
                out.insert(package.file, format!("NCCL {version} is excluded by `nccl {}`", limit.value));
            }
        }
        out
    }

    /// Completes a solution with what conda installs of the stack.
    fn complete(&self, solution: &mut Solution, channels: &[String]) {
        let of = |name: &str| solution.conda.iter().find(|package| package.name == name);
        let version =
            |package: Option<&CondaPackage>| package.and_then(|package| package.version.parse().ok());
        let cudnn: Option<DottedVersion> = version(CUDNN.iter().find_map(|name| of(name)));
        let (nccl, triton) = (version(of(NCCL)), of("triton").map(|package| package.version.clone()));
        let pytorch = of(PYTORCH);
        let channel = pytorch.map_or_else(|| channels.join(" "), |package| package.channel.clone());
        let built = pytorch.map(|package| self.registry.build_of_conda(package, solution.platform));
        let companions: BTreeMap<String, Version> = COMPANIONS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), of(name)?.version.parse().ok()?)))
            .collect();
        let Some(own) = &mut solution.stack else { return };
        own.cudnn = cudnn.filter(|_| own.cuda.is_some());
        own.nccl = nccl.filter(|_| own.cuda.is_some());
        own.triton = triton.map(|version| format!("triton=={version}"));
        own.companions = companions;
        own.index = channel;
        if let Some(CondaBuildOf::Known(build)) = built
            && build.cuda.is_some()
        {
            let build = build.map(|row| Build { cudnn: own.cudnn.clone(), ..row });
            solution.envelope = both(solution.envelope.clone(), envelope_of(self.registry, &build));
        }
    }
}

/// Whether a record of the channels is a release that a requirement admits.
fn is_met_by(user: &UserRequirement, records: &Records, channels: &[String]) -> bool {
    let name = user.name();
    if STACK_PACKAGES.contains(&name) {
        return false;
    }
    let admits = |package: &CondaPackage| {
        let version = package.version.parse::<Version>();
        pypi_name(&package.channel, &package.name).is_some_and(|own| own == name)
            && version.is_ok_and(|version| user.specifiers().is_none_or(|bounds| bounds.contains(&version)))
    };
    let has_name =
        |package: &str| channels.iter().any(|of| pypi_name(of, package).is_some_and(|own| own == name));
    records.named(has_name).iter().any(admits)
}

/// What conda's half is asked for: the build, and the companions that PyPI's half has with it.
fn specs_of(choice: &StackChoice, companions: &BTreeMap<String, Version>) -> Vec<String> {
    let of = |(name, version): (&String, &Version)| stack_spec(name, version, &choice.variant);
    let torch = stack_spec(PYTORCH, &choice.version, &choice.variant);
    std::iter::once(torch).chain(companions.iter().map(of)).collect()
}
