//! Converts the selected candidates to a solution.

use std::collections::BTreeMap;

use pep440_rs::{Version, VersionSpecifiers};

use super::behind;
use super::choices;
use super::empty_extras;
use super::envelope;
use super::failures;
use super::inputs::Depth;
use super::node::{Node, Selected};
use super::part_members;
use super::problem::Problem;
use super::rank::StackQuality;
use super::release;
use super::runtime;
use super::tables::is_stack_package;
use super::universe::DIRECT;
use crate::compatibility::{Policy, command_to_learn, required_driver, unknown_cuda_user, with_code_of};
use crate::model::choice::Choice;
use crate::model::evidence::Evidence;
use crate::model::nvidia::is_cuda_runtime;
use crate::model::patches::Patches;
use crate::model::platform::Platform;
use crate::model::request::PythonAllowed;
use crate::model::requirement::pins;
use crate::model::solution::{ChosenFile, ChosenPackage, DriverMode, Edge, Framework, Note, Solution, Stack};
use crate::model::source::{Source, SourceBuild};
use crate::model::text::clean;
use crate::model::variant::CPU;
use crate::model::version::{DottedVersion, public};
use crate::registry::{COMPANIONS, CudaFrom, Effect, Registry};

/// The rank of a selection's framework build.
pub(super) fn stack_quality(problem: &Problem<'_>, selected: &Selected) -> Option<StackQuality> {
    let ordinal = *selected.get(&Node::build("torch"))?;
    let build = &problem.stack["torch"].builds[ordinal as usize];
    Some(StackQuality {
        locked: problem.asked.preferences.versions.get("torch").map(public).as_ref() == Some(&build.version),
        version: build.version_ordinal,
        build: problem.build_rank("torch", ordinal),
    })
}

/// Converts a selection to a solution.
pub(super) fn solution(problem: &Problem<'_>, selected: &Selected) -> Solution {
    let python = problem.pythons.series[0];
    let mut packages: Vec<ChosenPackage> = selected
        .keys()
        .filter_map(|node| match node {
            Node::Package(name) => chosen(problem, selected, name),
            _ => None,
        })
        .collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    part_members::label(problem, selected, &mut packages);
    choices::of_requirements(problem, &mut packages);
    choices::of_companions(problem, selected, &mut packages);
    let stack = stack(problem, selected);
    let frameworks = frameworks(problem, selected, &packages);
    let glibc = packages.iter().filter_map(|p| glibc_need(problem, p)).max();
    let envelope = envelope::of_selection(problem, selected, glibc);
    let envelope = with_code_of(problem.registry, envelope, &packages);
    let mut notes = notes(problem, selected, stack.as_ref(), &frameworks);
    let mut known_failures = failures::notes(problem, &packages);
    known_failures.extend(other_cuda(problem, selected, &packages));
    notes.extend(known_failures.iter().cloned());
    if stack.is_none() && frameworks.is_empty() && !problem.prefers_cpu() {
        notes.extend(unknown_cuda_user(problem.registry, &packages).map(|text| Note { text, source: None }));
    }
    notes.extend(runtime::notes_of_files(problem.registry, &packages));
    notes.extend(empty_extras::notes(problem, selected));
    let behind = behind::notes(problem, &packages);
    let patches = patches(problem, selected, &packages);
    Solution {
        conda: Vec::new(),
        python,
        newer_python: None,
        python_alone: None,
        patches,
        platform: problem.machine.platform,
        stack,
        frameworks,
        envelope,
        packages,
        notes,
        known_failures,
        behind,
    }
}

fn chosen(problem: &Problem<'_>, selected: &Selected, name: &str) -> Option<ChosenPackage> {
    let python = problem.pythons.series[0];
    let build = release::build(selected, name).map(|i| (i, &problem.stack[name].builds[i]));
    let variant = build.map(|(_, b)| problem.variants[b.variant as usize].name.clone());
    let candidate = release::candidate(problem, selected, name);
    let metadata = release::metadata(problem, selected, name);
    let mut files = Vec::new();
    if let Some(candidate) = &candidate {
        let usable = candidate.page.usable(
            candidate.release,
            python,
            problem.machine.platform,
            problem.machine.libc.as_ref(),
        );
        let source = usable.is_empty().then(|| problem.source(candidate)).flatten();
        files = usable
            .into_iter()
            .chain(source)
            .map(|f| ChosenFile {
                name: f.filename.clone(),
                sha256: f.sha256.clone(),
                // Of a direct reference, only a file that was downloaded has a size.
                hash_computed: candidate.index == DIRECT && f.size.is_some(),
                size: f.size,
            })
            .collect();
    }
    if matches!(problem.universe.direct(name), Some(Source::Git { .. } | Source::Path(_))) {
        // A repository is locked by its commit, a folder is not hashed; a file is.
        files.retain(|file| file.sha256.is_some());
    }
    let version = match (&candidate, &build) {
        (Some(candidate), _) => candidate.release.version.clone(),
        (None, Some((_, build))) => build.version_on_index(variant.as_deref()),
        // At stack depth only stack packages are decided.
        (None, None) => return None,
    };
    let extras = release::extras(selected, name);
    let environment = &problem.pythons.environments[0];
    let mut requires: Vec<Edge> = metadata.iter().flat_map(|m| m.edges(environment, &extras)).collect();
    requires.retain(|edge| !problem.is_left_out(&edge.to));
    let targets =
        problem.registry.targets_of(name, &public(&version), variant.as_deref(), problem.machine.platform);
    Some(ChosenPackage {
        name: name.to_owned(),
        version,
        source: match (problem.universe.direct(name), &candidate, &build) {
            (Some(direct), ..) => direct.clone(),
            (None, Some(candidate), _) => Source::Index(candidate.index.to_owned()),
            (None, None, Some((_, build))) => Source::Index(problem.indexes[build.index as usize].clone()),
            (None, None, None) => Source::Index("pypi".to_owned()),
        },
        build: metadata
            .and_then(|m| problem.build_of(m))
            .map(|build| SourceBuild { newest_wheel: problem.newest_wheel(name), ..build }),
        groups: Vec::new(),
        files,
        metadata_sha256: metadata.map(|m| m.sha256.clone()),
        requires,
        reason: Choice::Newest,
        targets,
        variant,
    })
}

/// The lowest glibc that any usable file of a package needs.
fn glibc_need(problem: &Problem<'_>, package: &ChosenPackage) -> Option<DottedVersion> {
    if package.files.is_empty() {
        // Without files, use the registry row.
        let plain = public(&package.version);
        return problem
            .registry
            .build(&plain, package.variant.as_deref()?, problem.machine.platform)
            .filter(|_| package.name == "torch")
            .and_then(|b| b.glibc.clone());
    }
    package
        .files
        .iter()
        .filter_map(|f| f.name.parse::<crate::model::wheel::WheelName>().ok())
        .filter_map(|w| w.libc_need(problem.machine.platform, problem.machine.libc.as_ref()))
        .min()
        .flatten()
}

/// The lowest driver on which all code built with a CUDA release works, PTX included.
fn native_driver(problem: &Problem<'_>, cuda: &semver::Version) -> Option<DottedVersion> {
    required_driver(problem.registry, cuda, problem.machine.os(), Policy::Native).map(|driver| driver.value)
}

fn stack(problem: &Problem<'_>, selected: &Selected) -> Option<Stack> {
    let build = &problem.stack["torch"].builds[*selected.get(&Node::build("torch"))? as usize];
    let torch = build.torch?;
    let cuda = torch.cuda.clone();
    let native = cuda.as_ref().and_then(|cuda| native_driver(problem, cuda));
    let driver_mode = match (&cuda, &problem.machine.host.driver) {
        (Some(_), Some(_)) if !problem.machine.host.has_no_gpu() => {
            Some(if problem.machine.is_native(build.variant) {
                DriverMode::Native
            } else {
                DriverMode::Compatibility
            })
        }
        _ => None,
    };
    let companions: BTreeMap<String, Version> = COMPANIONS
        .iter()
        .filter_map(|name| {
            let ordinal = selected.get(&Node::package(name))?;
            Some(((*name).to_owned(), problem.stack[name].versions[*ordinal as usize].clone()))
        })
        .collect();
    Some(Stack {
        framework: "torch".to_owned(),
        version: build.version.clone(),
        variant: torch.variant.clone(),
        cuda,
        cudnn: torch.cudnn.clone(),
        nccl: torch.nccl.clone(),
        triton: torch.triton.clone(),
        companions,
        index: torch.index(),
        evidence: torch.weakest_evidence(!problem.machine.gpus.is_empty()),
        driver_mode,
        native_driver: native,
        wheel_bytes: torch.wheel_bytes,
    })
}

/// The frameworks other than torch that use CUDA.
fn frameworks(problem: &Problem<'_>, selected: &Selected, packages: &[ChosenPackage]) -> Vec<Framework> {
    let mut out: Vec<Framework> = selected
        .iter()
        .filter_map(|(node, row)| match node {
            Node::Runtime(package) => Some((package, &problem.runtimes[*row as usize])),
            _ => None,
        })
        .filter_map(|(package, runtime)| {
            let build = runtime.build;
            let version = packages.iter().find(|p| p.name == **package).map(|p| p.version.clone())?;
            let has_driver = problem.machine.host.driver.is_some() && !problem.machine.host.has_no_gpu();
            let mode = if runtime.flavour.native { DriverMode::Native } else { DriverMode::Compatibility };
            let weakest = match problem.machine.gpus.is_empty() {
                true => build.evidence,
                false => build.targets_evidence.min(build.evidence),
            };
            Some(Framework {
                name: build.framework.clone(),
                package: package.to_string(),
                version,
                cuda: build.cuda.clone(),
                cudnn: build.cudnn.clone(),
                cuda_from_system: match build.cuda_from {
                    CudaFrom::System => true,
                    // `jax[cuda12-local]` installs the plugin without CUDA.
                    CudaFrom::Packages => !packages.iter().any(|p| is_cuda_runtime(&p.name)),
                    CudaFrom::Extra(_) => false,
                },
                conda: build.conda.clone(),
                evidence: weakest,
                driver_mode: has_driver.then_some(mode),
                native_driver: native_driver(problem, &build.cuda),
            })
        })
        .collect();
    out.sort_by(|a, b| a.package.cmp(&b.package));
    out
}

/// Notes about frameworks: one is locked without CUDA, or a release is not in the registry.
fn framework_notes(problem: &Problem<'_>, selected: &Selected, frameworks: &[Framework]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    if problem.prefers_cpu() || problem.asked.depth == Depth::Stack {
        return notes;
    }
    let rows = problem.registry.frameworks();
    let version_of = |package: &str| -> Option<Version> {
        let ordinal = *selected.get(&Node::package(package))?;
        let candidates = problem.candidates(package).ok()?;
        candidates.get(ordinal as usize).map(|candidate| candidate.release.version.clone())
    };
    let mut packages: Vec<&str> = rows.iter().map(|row| row.package.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    for package in packages {
        let Some(version) = version_of(package) else { continue };
        if selected.contains_key(&Node::Runtime(package.into())) {
            continue;
        }
        // Required without its extra, or the registry has no row for this release and platform.
        let row = problem.registry.framework(package, &version, problem.machine.platform);
        let text = match row.and_then(|row| row.ask.as_deref()) {
            Some(ask) => format!("{package} {version} is locked without CUDA; to use a GPU, require `{ask}`"),
            None => unchecked(problem.registry, (package, &version), problem.machine.platform),
        };
        notes.push(Note { text, source: None });
    }
    // JAX has its CUDA support in other packages; without any of them it has no CUDA.
    let mut entries: Vec<&str> =
        rows.iter().filter(|row| row.package != row.framework).map(|row| row.framework.as_str()).collect();
    entries.dedup();
    for entry in entries.into_iter().filter(|entry| rows.iter().all(|row| row.package != *entry)) {
        let of_entry = || rows.iter().filter(|row| row.framework == entry);
        let has_one = of_entry().any(|row| selected.contains_key(&Node::package(&row.package)));
        let Some(version) = version_of(entry).filter(|_| !has_one) else { continue };
        let mut asks: Vec<&str> = of_entry().filter_map(|row| row.ask.as_deref()).collect();
        asks.sort_unstable();
        asks.dedup();
        let text = format!(
            "{entry} {version} is locked without CUDA; to use a GPU, require `{}`",
            asks.join("` or `")
        );
        notes.push(Note { text, source: None });
    }
    for framework in frameworks.iter().filter(|framework| framework.cuda_from_system) {
        let cudnn = framework.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
        let place = match framework.conda.is_empty() {
            true => "install them on the system",
            false => "environment.yml lists them for conda; without conda, install them on the system",
        };
        let cuda = crate::model::version::cuda_short(&framework.cuda);
        let text =
            format!("{} loads CUDA {cuda}{cudnn} from outside its packages: {place}", framework.package);
        notes.push(Note { text, source: None });
    }
    notes
}

/// That no row is about a release of a framework, and what reads one.
fn unchecked(registry: &Registry, (package, version): (&str, &Version), platform: Platform) -> String {
    let command = match registry.is_unread_framework(package, version, platform) {
        true => {
            let command = command_to_learn(&format!("{package}=={version}"), platform);
            format!("; {command} reads it from its wheel")
        }
        false => String::new(),
    };
    format!(
        "driver and GPU compatibility of {package} {version} on {platform} was not checked: it is not in the registry{command}"
    )
}

/// The patch releases of Python that the request and the selected files allow.
fn patches(problem: &Problem<'_>, selected: &Selected, packages: &[ChosenPackage]) -> Patches {
    let python = problem.pythons.series[0];
    let mut limits: Vec<VersionSpecifiers> = packages
        .iter()
        .filter_map(|package| {
            let candidate = release::candidate(problem, selected, &package.name)?;
            let chosen = &package.files.first()?.name;
            let mut files = candidate.page.files(candidate.release).iter();
            files.find(|file| file.filename == *chosen)?.requires_python.clone()
        })
        .collect();
    if let Some(PythonAllowed::Range(range)) = problem.asked.request.python.as_ref().map(|p| &p.allowed) {
        limits.push(range.clone());
    }
    limits.sort_by_key(ToString::to_string);
    limits.dedup();
    match python.patch {
        // One patch release is locked.
        Some(_) => Patches::default(),
        None => problem.patches_by_markers(selected, packages, Patches::of(python.minor, limits.iter())),
    }
}

/// The extras that the user requires and that the selected releases do not have, each with its source.
fn absent_extras(problem: &Problem<'_>, selected: &Selected) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for user in problem.user_requirements().filter(|user| !user.requirement.extras.is_empty()) {
        let name = user.name();
        let Some(metadata) = release::metadata(problem, selected, name) else { continue };
        for extra in user.requirement.extras.iter().filter(|extra| !metadata.has_extra(extra)) {
            let known: Vec<&str> = metadata.extras().collect();
            let known = match known.is_empty() {
                true => "it has none".to_owned(),
                false => format!("its extras: {}", known.join(", ")),
            };
            let version = &metadata.version;
            let text = format!("{name} {version} has no extra `{extra}`, which is ignored; {known}");
            out.push((text, "its metadata".to_owned()));
        }
    }
    out.dedup();
    out
}

/// The packages whose GPU libraries link another CUDA than torch brings, or use another C++ ABI.
fn other_cuda<'n>(
    problem: &'n Problem<'_>,
    selected: &'n Selected,
    packages: &'n [ChosenPackage],
) -> impl Iterator<Item = Note> + 'n {
    let torch = selected.get(&Node::build("torch"));
    packages.iter().filter_map(move |package| {
        let builds = problem.builds_it_is_for(&package.name, &package.version)?;
        let build = &problem.stack["torch"].builds[*torch.filter(|torch| !builds.contains(torch))? as usize];
        let cuda = problem.variants[build.variant as usize].cuda.as_ref();
        let majors = problem.linked_cuda(&package.name, &package.version);
        let what = format!("the GPU libraries of {} {} cannot be loaded", package.name, package.version);
        let text = if cuda.is_none_or(|cuda| !majors.contains(&cuda.major)) && !majors.is_empty() {
            let has = cuda.map_or("no CUDA".to_owned(), |cuda| format!("CUDA {}", cuda.major));
            let links: Vec<String> = majors.iter().map(|major| format!("CUDA {major}")).collect();
            format!(
                "{what}: they link the runtime of {}, and torch {} brings {has}",
                links.join(" or "),
                build.version
            )
        } else {
            format!("{what}: they are built for another C++ ABI than torch {}", build.version)
        };
        let row = problem.registry.companion(&package.name, &package.version);
        let source = row.filter(|row| !row.links_cuda.is_empty());
        Some(Note { text, source: source.map(|row| problem.registry.source_text(&row.source)) })
    })
}

/// Requirements that were read although they are not written as the standard says: pip refuses such packages from 24.1 on.
fn repaired_requirements(problem: &Problem<'_>, selected: &Selected) -> Vec<Note> {
    let of_package = |node: &Node| {
        let Node::Package(name) = node else { return None };
        let metadata = release::metadata(problem, selected, name)?;
        let line = metadata.repaired()?;
        let text = format!(
            "{name} {} requires `{}`, which is not valid today: uv installs it, pip from 24.1 on refuses it",
            metadata.version,
            clean(line, 80)
        );
        Some(Note { text, source: None })
    };
    let mut notes: Vec<Note> = selected.keys().filter_map(of_package).collect();
    notes.sort_by(|a, b| a.text.cmp(&b.text));
    notes
}

/// Releases that their projects withdrew, and that are taken because a requirement names them or the lock has them.
fn yanked(problem: &Problem<'_>, selected: &Selected) -> Vec<Note> {
    let of_package = |(node, ordinal): (&Node, &u32)| {
        let Node::Package(name) = node else { return None };
        let candidates = problem.candidates(name).ok()?;
        let release = candidates.get(*ordinal as usize)?.release;
        let mut users = problem.user_requirements().filter(|user| user.name() == &**name);
        let is_named = users.any(|user| user.specifiers().is_some_and(pins));
        let is_kept = !is_named && problem.kept_though_yanked(name) == Ok(Some(*ordinal));
        let why = match is_kept {
            true => {
                format!("it is kept from the lock; `envlock resolve --upgrade={name}` takes another release")
            }
            false => "it is taken because a requirement names it".to_owned(),
        };
        let text = format!("{name} {} is yanked: its project withdrew it, and {why}", release.version);
        release.yanked.then_some(Note { text, source: None })
    };
    let is_listed = |(node, _): &(&Node, &u32)| match node {
        Node::Package(name) => !is_stack_package(name),
        _ => false,
    };
    let mut notes: Vec<Note> = selected.iter().filter(is_listed).filter_map(of_package).collect();
    notes.sort_by(|a, b| a.text.cmp(&b.text));
    notes
}

/// Releases that the lock has and that are on no index any more.
fn gone(problem: &Problem<'_>, selected: &Selected) -> Vec<Note> {
    let of_package = |(name, locked): (&String, &Version)| {
        let ordinal = selected.get(&Node::package(name)).filter(|_| !is_stack_package(name))?;
        let candidates = problem.candidates(name).ok().filter(|_| problem.universe.direct(name).is_none())?;
        let taken = candidates.get(*ordinal as usize)?;
        let is_there =
            candidates.iter().any(|candidate| public(&candidate.release.version) == public(locked));
        let text = format!(
            "{name} {locked} -> {}: the index {} no longer has {locked}",
            taken.release.version, taken.index
        );
        (!is_there).then_some(Note { text, source: None })
    };
    problem.asked.preferences.versions.iter().filter_map(of_package).collect()
}

/// The notes of a solution.
fn notes(
    problem: &Problem<'_>,
    selected: &Selected,
    stack: Option<&Stack>,
    frameworks: &[Framework],
) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |text: String, source: Option<String>| notes.push(Note { text, source });
    for advisory in problem.registry.advisories() {
        let applies = advisory.effect == Effect::Warn
            && advisory.applies_to(problem.machine.platform, problem.machine.gpus.iter().map(|(_, c)| *c))
            && selected
                .get(&Node::package(&advisory.package))
                .and_then(|i| problem.stack.get(advisory.package.as_str()).map(|t| &t.versions[*i as usize]))
                .is_some_and(|v| advisory.versions.contains(v));
        if applies {
            say(advisory.text.clone(), Some(problem.registry.source_text(&advisory.source)));
        }
    }
    for (text, source) in absent_extras(problem, selected) {
        say(text, Some(source));
    }
    for gpu in problem.machine.host.gpus.iter().flatten().filter(|g| g.capability.is_none()) {
        say(format!("{} is ignored: its compute capability is unknown", gpu.label()), None);
    }
    notes.extend(repaired_requirements(problem, selected));
    notes.extend(yanked(problem, selected));
    notes.extend(gone(problem, selected));
    notes.extend(framework_notes(problem, selected, frameworks));
    let Some(stack) = stack else {
        return notes;
    };
    let mut say = |text: String, source: Option<String>| notes.push(Note { text, source });
    if stack.evidence == Evidence::Inferred {
        say(
            format!(
                "the data for torch {} {} is inferred, not read from the wheel",
                stack.version, stack.variant
            ),
            None,
        );
    }
    if problem.prefers_cpu() && stack.variant != CPU {
        let size = stack
            .wheel_bytes
            .map(|b| format!(", a download of {} MB for torch alone", b / 1_000_000))
            .unwrap_or_default();
        let why = match problem.has_cpu_build(&stack.version) {
            // It is kept, or another package asks for it.
            true => {
                // The option is about all targets.
                let several = problem.asked.request.targets.len() > 1;
                let how = if several { "" } else { ": `--variant cpu` asks for a CPU build" };
                format!(
                    "torch {} {} is a CUDA build{size}, although there is no GPU{how}",
                    stack.version, stack.variant
                )
            }
            false => format!(
                "the allowed indexes have no CPU build of torch {} for {}: this is a CUDA build{size}",
                stack.version, problem.machine.platform
            ),
        };
        say(why, None);
    }
    notes
}
