//! What the data do not know is unknown, or a bound: rows are taken out of the registry at random, and nothing that was
//! true becomes false, nothing that was false true.

use std::collections::{BTreeMap, BTreeSet};

use envlock::compatibility::{Needs, Policy, Violation, check_host};
use envlock::model::host::Host;
use envlock::model::request::{Origin, PythonRequest, Request};
use envlock::registry::{Build, Cited, Registry, RegistryFile};
use envlock::solver::open_question;
use pep440_rs::Version;

use super::stack::ask;
use super::worlds::{Random, driver, gpu, requirement};
use envlock::model::platform::Platform;

/// Questions asked of each registry.
const QUESTIONS: u64 = 20;
/// The tables whose rows are taken out. A row that limits (the lowest capability of a cuDNN, the last driver of an
/// architecture) is not: nothing can show that it is missing.
const TAKEN: [&str; 7] =
    ["build", "companion", "toolkit", "targets", "minor_version_compatibility", "branch", "release"];
const DRIVERS: [&str; 8] =
    ["450.80.02", "470.57.02", "525.60.13", "535.54.03", "550.54.14", "570.26", "580.65.06", "590.44.01"];
const GPUS: [&str; 10] = ["3.7", "5.2", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0", "12.0"];

/// The files of the frozen registry that decide about torch.
fn files() -> Vec<RegistryFile> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/registry");
    let mut files = Vec::new();
    let names = ["companions", "cuda", "cudnn", "drivers", "gpus", "python", "registry", "sources"];
    let series = std::fs::read_dir(format!("{root}/torch")).unwrap();
    let series = series.map(|entry| format!("torch/{}", entry.unwrap().file_name().to_str().unwrap()));
    for path in names.iter().map(|name| format!("{name}.toml")).chain(series) {
        let text = std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        files.push(RegistryFile { path: path.into(), text: text.into() });
    }
    for path in ["errors.toml", "loading.toml"] {
        files.push(RegistryFile { path: path.into(), text: "".into() });
    }
    files
}

/// Where each row of a file begins, with the name of its table, and where the last one ends.
fn rows(text: &str) -> Vec<(usize, usize, String)> {
    let starts: Vec<usize> = text
        .match_indices("[[")
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || text[..*at].ends_with('\n'))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let name = |at: usize| text[at + 2..].split("]]").next().unwrap().to_owned();
    starts.iter().zip(ends).map(|(start, end)| (*start, end, name(*start))).collect()
}

/// The file without some of its rows.
fn without(file: &mut RegistryFile, gone: impl Fn(std::ops::Range<usize>, &str) -> bool) -> usize {
    let text = file.text.clone();
    let all = rows(&text);
    let mut out = text[..all.first().map_or(text.len(), |row| row.0)].to_owned();
    let mut count = 0;
    for (start, end, name) in &all {
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        // The last row has the last line.
        let end_line = if *end == text.len() { usize::MAX } else { line(*end) };
        match gone(line(*start)..end_line, name) {
            true => count += 1,
            false => out.push_str(&text[*start..*end]),
        }
    }
    file.text = out.into();
    count
}

/// The registry of files, without the rows that refer to ones that are gone.
fn sound(mut files: Vec<RegistryFile>) -> Registry {
    loop {
        match Registry::from_files(files.clone()) {
            Ok(registry) => return registry,
            Err(problems) => {
                let mut removed = 0;
                for file in &mut files {
                    let own: Vec<usize> =
                        problems.iter().filter(|p| p.path == file.path).map(|p| p.line).collect();
                    removed += without(file, |lines, _| own.iter().any(|line| lines.contains(line)));
                }
                assert!(removed > 0, "{problems:#?}");
            }
        }
    }
}

/// A registry without some rows, or files, that is sound: what refers to a row that is gone is gone, too.
fn reduced(random: &mut Random, whole: &[RegistryFile]) -> Registry {
    let mut files = whole.to_vec();
    match random.below(4) {
        // The newest series, as in a registry that is old.
        0 => {
            let number = |path: &str| -> Option<u32> {
                path.strip_prefix("torch/2.")?.strip_suffix(".toml")?.parse().ok()
            };
            let newest = files.iter().filter_map(|file| number(&file.path)).max().unwrap();
            let first = newest - random.below(6) as u32;
            files.retain(|file| number(&file.path).is_none_or(|own| own < first));
        }
        1 => {
            let file = random.below(files.len());
            if files[file].path.starts_with("torch/") {
                files.remove(file);
            }
        }
        _ => {}
    }
    // Branches that limit an architecture stay, see `TAKEN`.
    let drivers = whole.iter().find(|file| file.path == "drivers.toml").unwrap();
    let limits = drivers.text.lines().filter(|line| {
        ["first_branch = ", "last_branch = ", "bases = "].iter().any(|key| line.starts_with(key))
    });
    let limits: BTreeSet<String> = limits
        .flat_map(|line| line.split(|c: char| !c.is_ascii_digit()).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_limit = |row: &str| {
        let number = row.lines().find_map(|line| line.strip_prefix("branch = "));
        number.is_some_and(|number| limits.contains(number))
    };
    let share = [2, 10, 60, 400][random.below(4)];
    for file in &mut files {
        let seeds: BTreeMap<usize, bool> = rows(&file.text)
            .iter()
            .map(|(start, end, _)| {
                let line = file.text[..*start].matches('\n').count() + 1;
                (line, random.one_in(share) && !is_limit(&file.text[*start..*end]))
            })
            .collect();
        without(file, |lines, name| TAKEN.contains(&name) && seeds[&lines.start]);
    }
    sound(files)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Yes,
    No,
    Unknown,
}

fn says(registry: &Registry, build: &Cited<Build>, host: &Host) -> Says {
    let violations = Needs::of_torch(build).violations(registry, host, Policy::Minor);
    match (violations.is_empty(), violations.iter().all(Violation::is_unknown)) {
        (true, _) => Says::Yes,
        (_, true) => Says::Unknown,
        _ => Says::No,
    }
}

fn machine(random: &mut Random) -> Host {
    let platform = if random.one_in(4) { "linux-aarch64".parse().unwrap() } else { Platform::LINUX_X86_64 };
    let mut host = Host::open(platform, "proof");
    if !random.one_in(4) {
        host.driver = Some(driver(random.pick(&DRIVERS)));
    }
    host.gpus = Some((0..random.below(3)).map(|i| gpu(i, random.pick(&GPUS))).collect());
    host
}

fn question(random: &mut Random, builds: &[Cited<Build>]) -> Request {
    let mut request = Request::default();
    let version = builds[random.below(builds.len())].version.to_string();
    let torch = match random.below(4) {
        0 => format!("torch=={version}"),
        1 => format!("torch>={version}"),
        2 => format!("torch<={version}"),
        _ => "torch".to_owned(),
    };
    request.requirements.push(requirement(&torch));
    request
}

fn shown(host: &Host, request: &Request) -> String {
    let gpus: Vec<String> =
        host.gpus.iter().flatten().map(|gpu| gpu.capability.unwrap().to_string()).collect();
    let asked: Vec<String> = request.requirements.iter().map(|own| own.requirement.to_string()).collect();
    let driver = host.driver.as_ref().map(|driver| driver.version.to_string());
    let python = request.python.as_ref().map(|python| &python.allowed);
    format!("{}, {python:?}, {gpus:?}, driver {driver:?}, {}", asked.join(" "), host.system.platform)
}

/// What is gone of torch: minor lines (`2.5`), or a release.
#[derive(Debug)]
enum Gone {
    Lines(BTreeSet<(u32, u32)>),
    Release(Version),
}

impl Gone {
    fn has(&self, version: &Version) -> bool {
        match self {
            Gone::Lines(lines) => lines.contains(&line(version)),
            Gone::Release(own) => own == version,
        }
    }
}

fn line(version: &Version) -> (u32, u32) {
    (version.release()[0] as u32, version.release()[1] as u32)
}

/// A registry without one series of torch, without the newest or the oldest ones, or without a release, and the companions of those.
fn without_releases(random: &mut Random, registry: &Registry, whole: &[RegistryFile]) -> (Registry, Gone) {
    let releases: BTreeSet<Version> = registry.builds().iter().map(|build| build.version.clone()).collect();
    let releases: Vec<Version> = releases.into_iter().collect();
    let lines: BTreeSet<(u32, u32)> = releases.iter().map(line).collect();
    let lines: Vec<(u32, u32)> = lines.into_iter().collect();
    let at = random.below(lines.len());
    let gone = match random.below(4) {
        0 => Gone::Lines(lines[at..=at].iter().copied().collect()),
        1 => Gone::Lines(lines[lines.len() - 1 - random.below(6)..].iter().copied().collect()),
        2 => Gone::Lines(lines[..=random.below(4)].iter().copied().collect()),
        _ => Gone::Release(releases[random.below(releases.len())].clone()),
    };
    let is_gone = |row: &str| {
        let of = |key: &str| {
            let value = row.lines().find_map(|line| line.strip_prefix(key))?;
            value.trim_end_matches('"').parse::<Version>().ok()
        };
        let torch = if row.starts_with("[[build]]") { of("version = \"") } else { of("torch = \"==") };
        torch.is_some_and(|torch| gone.has(&torch))
    };
    let mut files = whole.to_vec();
    for file in
        files.iter_mut().filter(|file| file.path == "companions.toml" || file.path.starts_with("torch/"))
    {
        let text = file.text.clone();
        let lines = rows(&text)
            .into_iter()
            .map(|(start, end, _)| (text[..start].matches('\n').count() + 1, is_gone(&text[start..end])));
        let lines: BTreeMap<usize, bool> = lines.collect();
        without(file, |own, _| lines[&own.start]);
    }
    (sound(files), gone)
}

/// What only releases could meet of which the data have no row is not refused, whatever else is asked: they may exist.
#[test]
fn what_is_gone_may_exist() {
    let files = files();
    let whole = Registry::from_files(files.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut missed = 0;
    for seed in 0..super::worlds(1_000) / QUESTIONS {
        let mut random = Random::new(seed ^ 0x5e7);
        let (registry, gone) = without_releases(&mut random, &whole, &files);
        for _ in 0..QUESTIONS {
            let host = machine(&mut random);
            let mut request = question(&mut random, whole.builds());
            // Nothing shows that the last patch of a line is missing, but to who asks for it.
            if let Gone::Release(version) = &gone {
                request.requirements = vec![requirement(&format!("torch=={version}"))];
            }
            if random.one_in(3) {
                let python = format!("3.{}", 6 + random.below(9));
                request.python = Some(PythonRequest::parse(&python, Origin::Question).unwrap());
            }
            if random.one_in(3) {
                request.requirements.push(requirement(random.pick(&["torchvision", "torchaudio"])));
            }
            if random.one_in(6) && request.requirements.len() > 1 {
                request.requirements.remove(0);
            }
            if check_host(&whole, &host).is_err() {
                continue;
            }
            let Ok(solution) = ask(&whole, &host, &request) else { continue };
            let version = &solution.stack.as_ref().unwrap().version;
            if !gone.has(version) || ask(&registry, &host, &request).is_ok() {
                continue;
            }
            missed += 1;
            assert!(
                open_question(&registry, &host, &request, false).is_some(),
                "world {seed} without {gone:?}: {version} runs\n{}",
                shown(&host, &request)
            );
        }
    }
    assert!(missed > 20, "{missed} questions had no other answer");
}

#[test]
fn what_is_not_known_is_neither_true_nor_false() {
    let files = files();
    let whole = Registry::from_files(files.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let (mut same, mut unknown) = (0, 0);
    for seed in 0..super::worlds(10_000) / QUESTIONS {
        let mut random = Random::new(seed ^ 0x9e7);
        let registry = reduced(&mut random, &files);
        for n in 0..QUESTIONS {
            let host = machine(&mut random);
            let request = question(&mut random, whole.builds());
            let place = || format!("world {seed}, question {n}: {}", shown(&host, &request));
            if check_host(&whole, &host).is_err() {
                continue;
            }
            assert!(check_host(&registry, &host).is_ok(), "the machine became impossible\n{}", place());
            for build in registry.builds().iter().filter(|build| build.platform == host.system.platform) {
                let known = whole.build(&build.version, &build.variant, build.platform).unwrap();
                let (before, after) = (says(&whole, known, &host), says(&registry, build, &host));
                match (before, after) {
                    (before, after) if before == after => same += 1,
                    (_, Says::Unknown) => unknown += 1,
                    _ => panic!(
                        "{} {}: {before:?} became {after:?}\n{}",
                        build.version,
                        build.variant,
                        place()
                    ),
                }
            }
        }
    }
    assert!(same > 1000 && unknown > 0, "{same} answers stayed, {unknown} became unknown");
}
