//! No two commands disagree: the same packages as a lock of envlock, as locks of other tools and as an environment get the same
//! verdict on the same machine, and what `resolve` locks for a machine runs on it.

use std::collections::BTreeSet;

use envlock::compatibility::check_host;
use envlock::formats::{ForeignLock, Tool};
use envlock::lockfile::{self, Lockfile, Target};
use envlock::model::finding::{Code, Severity};
use envlock::model::host::{Driver, Gpu, Host};
use envlock::model::installed::{Distribution, Installed, InstalledVersion, Traces};
use envlock::model::level::Level;
use envlock::model::native::Native;
use envlock::model::platform::{Libc, Platform};
use envlock::model::request::{Preferences, Request};
use envlock::model::solution::Answer;
use envlock::model::wheel::Python;
use envlock::registry::Registry;
use envlock::solver::solve_stack;
use envlock::verify::{self, Contents, Facts, Locked};

use super::shipped::drivers;
use super::worlds::{Random, requirement};

const PLATFORM: Platform = Platform::LINUX_X86_64;

/// A package as the formats state it.
#[derive(Debug, Clone)]
struct Stated {
    name: String,
    /// Public version.
    version: String,
    /// `cu128`, of the index of that name.
    variant: Option<String>,
    /// What else its version says behind the `+`.
    local: Option<String>,
}

impl Stated {
    fn full(&self) -> String {
        let local = self.local.as_ref().or(self.variant.as_ref());
        local.map_or_else(|| self.version.clone(), |local| format!("{}+{local}", self.version))
    }

    fn index(&self) -> String {
        self.variant.as_ref().map_or_else(
            || "https://index.example/simple".to_owned(),
            |variant| format!("https://wheels.example/whl/{variant}"),
        )
    }
}

/// torch with companions and extensions, of which many do not fit, and a Python that torch has a wheel for.
fn packages(random: &mut Random, registry: &Registry) -> (Vec<Stated>, Python) {
    let builds: Vec<_> = registry.builds().iter().filter(|build| build.platform == PLATFORM).collect();
    let torch = builds[random.below(builds.len())];
    let of = |name: &str, version: String, variant: Option<&str>, local: Option<String>| Stated {
        name: name.to_owned(),
        version,
        variant: variant.map(str::to_owned),
        local,
    };
    let mut out = vec![of("torch", torch.version.to_string(), Some(&torch.variant), None)];
    if random.one_in(2) {
        let other = builds[random.below(builds.len())];
        let fits = random.one_in(2);
        let build = if fits { torch } else { other };
        let version = build.torchvision.as_ref().map(ToString::to_string);
        out.extend(version.map(|version| of("torchvision", version, Some(&build.variant), None)));
    }
    for name in ["vllm", "xformers", "sglang", "torchtext"] {
        if random.one_in(4) {
            let torch_of = ["0.6.0", "0.0.26.post1", "0.10.0", "0.5.22", "0.16.2", "0.0.35"];
            out.push(of(name, (*random.pick(&torch_of)).to_owned(), None, None));
        }
    }
    if random.one_in(3) {
        let label =
            random.pick(&["cu118", "cu121", "cu130", "cu12torch2.9cxx11abitrue", "pt28cu128", "cpu", "v2"]);
        out.push(of("corp-kernels", "1.4.0".to_owned(), None, Some((*label).to_owned())));
    }
    if random.one_in(3) {
        out.push(of("flash-attn", (*random.pick(&["2.8.3", "1.0.9", "2.3.0"])).to_owned(), None, None));
    }
    if random.one_in(3) {
        out.push(of("numpy", (*random.pick(&["1.26.4", "2.3.1"])).to_owned(), None, None));
    }
    let newest = torch.pythons.as_ref().and_then(|minors| minors.last()).copied();
    (out, Python::new(newest.unwrap_or(12)))
}

/// A machine that there can be.
fn machine(random: &mut Random, registry: &Registry, drivers: &[Driver]) -> Host {
    loop {
        let host = any_machine(random, registry, drivers);
        if check_host(registry, &host).is_ok() {
            return host;
        }
    }
}

fn any_machine(random: &mut Random, registry: &Registry, drivers: &[Driver]) -> Host {
    let mut host = Host::open(PLATFORM, "proof");
    host.system.libc = Some(Libc::Glibc((*random.pick(&["2.17", "2.28", "2.35"])).parse().unwrap()));
    if !random.one_in(6) {
        host.driver = Some(drivers[random.below(drivers.len())].clone());
    }
    host.gpus = match random.below(8) {
        0 => None,
        1 => Some(Vec::new()),
        _ => {
            let gpus: Vec<_> = registry.gpus().iter().collect();
            let gpu = gpus[random.below(gpus.len())];
            Some(vec![Gpu { name: Some(gpu.name.clone()), ..Gpu::of_capability(gpu.capability, "proof") }])
        }
    };
    host
}

fn lock_of(tool: Tool, packages: &[Stated], python: Python) -> String {
    let mut out = match tool {
        Tool::Requirements => String::new(),
        Tool::Pylock => "lock-version = \"1.0\"\ncreated-by = \"proof\"\n".to_owned(),
        _ => format!(
            "version = 1\nrequires-python = \"=={python}.*\"\n\n[[package]]\nname = \"own\"\nversion = \"0\"\nsource = {{ virtual = \".\" }}\ndependencies = [\n"
        ),
    };
    if tool == Tool::Uv {
        packages.iter().for_each(|one| out.push_str(&format!("    {{ name = \"{}\" }},\n", one.name)));
        out.push_str("]\n");
    }
    for one in packages {
        let (name, version, index) = (&one.name, one.full(), one.index());
        out.push_str(&match tool {
            Tool::Requirements => format!("{name}=={version}\n"),
            Tool::Pylock => {
                format!("[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\nindex = \"{index}\"\n")
            }
            _ => format!(
                "\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = {{ registry = \"{index}\" }}\n"
            ),
        });
    }
    out
}

/// What was found, as far as every form has the facts for it.
fn found(facts: &Facts<'_>, without: &[Code]) -> BTreeSet<(Code, Severity, Option<String>)> {
    let common = [
        Code::DriverTooOld,
        Code::DriverTooNew,
        Code::GpuNotCovered,
        Code::BrokenRequirement,
        Code::KnownIncompatible,
        Code::WrongPlatform,
    ];
    let areas = verify::judge(facts);
    let all = areas.into_iter().flat_map(|area| area.findings);
    all.filter(|found| common.contains(&found.code) && !without.contains(&found.code))
        .map(|found| (found.code, found.severity, found.r#where))
        .collect()
}

#[test]
fn every_form_of_the_same_packages_has_one_verdict() {
    let registry = Registry::embedded();
    let drivers = drivers(&registry);
    let mut with_findings = 0;
    for seed in 0..super::worlds(500) {
        let mut random = Random::new(seed);
        let (packages, python) = packages(&mut random, &registry);
        let host = machine(&mut random, &registry, &drivers);
        let told = || format!("seed {seed}: {packages:#?}\n{:?} {:?}", host.driver, host.gpus);
        let mut first: Option<BTreeSet<_>> = None;
        let mut target: Option<Target> = None;
        for tool in [Tool::Requirements, Tool::Pylock, Tool::Uv] {
            let text = lock_of(tool, &packages, python);
            let lock = ForeignLock::parse(tool, &text).unwrap_or_else(|e| panic!("{e}: {}\n{text}", told()));
            let environments = lock.environments(PLATFORM, Some(python));
            let locked = Locked::of_tool(&environments[0], PLATFORM, &registry);
            let own = found(&Facts::of_lock(&locked, &registry).on(&host), &[]);
            match &first {
                None => first = Some(own),
                Some(first) => assert_eq!(*first, own, "{tool:?}: {}", told()),
            }
            target = Some(locked.target.into_owned());
        }
        let (first, target) = (first.unwrap(), target.unwrap());
        with_findings += usize::from(!first.is_empty());
        // The same as envlock writes and reads it. A framework without CUDA is not what it says of one.
        let lock = Lockfile {
            format: lockfile::FORMAT,
            registry_digest: registry.digest().to_owned(),
            registry_date: registry.meta().date.clone(),
            packages_in: None,
            request: lockfile::request_lines(&Request::default()),
            files: Vec::new(),
            targets: vec![target],
        };
        let own = Locked::own(&lock.targets[0], &registry);
        let is_cpu = lock.targets[0].stack.as_ref().is_none_or(|stack| stack.cuda.is_none());
        let uncovered: &[Code] = if is_cpu { &[Code::GpuNotCovered] } else { &[] };
        let of_own = found(&Facts::of_lock(&own, &registry).on(&host), uncovered);
        let expected: BTreeSet<_> =
            first.iter().filter(|(code, ..)| !uncovered.contains(code)).cloned().collect();
        assert_eq!(expected, of_own, "envlock.lock: {}", told());
        // Installed, the code is read from the libraries, of which this environment has none.
        let installed = environment(&packages, python);
        let (traces, native) = (Traces::default(), Native::default());
        let contents = Contents {
            platform: PLATFORM,
            installed: &installed,
            traces: &traces,
            native: &native,
            outside: &[],
        };
        let facts = Facts { contents: Some(contents), ..Facts::none(&registry).on(&host) };
        let code = [Code::GpuNotCovered, Code::DriverTooOld];
        let of_installed = found(&facts, &[Code::GpuNotCovered]);
        let is_code = |(found, ..): &&(Code, Severity, Option<String>)| code.contains(found);
        let rest = |all: &BTreeSet<(Code, Severity, Option<String>)>| -> BTreeSet<_> {
            all.iter().filter(|one| !is_code(one)).cloned().collect()
        };
        assert_eq!(rest(&first), rest(&of_installed), "environment: {}", told());
        let too_old = |all: &BTreeSet<(Code, Severity, Option<String>)>| {
            all.iter().any(|(code, ..)| *code == Code::DriverTooOld)
        };
        let is_covered = !first.iter().any(|(code, ..)| *code == Code::GpuNotCovered);
        if is_covered && !is_cpu {
            assert_eq!(too_old(&first), too_old(&of_installed), "environment: {}", told());
        }
        // Beside its lock, an environment that is as locked has what was found without.
        let facts = Facts { contents: Some(contents), ..Facts::of_lock(&own, &registry).on(&host) };
        assert_eq!(of_own, found(&facts, uncovered), "environment with its lock: {}", told());
    }
    assert!(with_findings > 50, "{with_findings} worlds have findings");
}

/// The packages as they are installed. METADATA names torch only where a version does, without its release.
fn environment(packages: &[Stated], python: Python) -> Installed {
    let of = |one: &Stated| Distribution {
        name: one.name.clone(),
        version: InstalledVersion::from(one.full().as_str()),
        variant: one.variant.clone(),
        requires: one
            .local
            .iter()
            .filter(|local| local.contains("torch"))
            .map(|_| "torch".to_owned())
            .collect(),
        record_readable: true,
        ..Distribution::default()
    };
    Installed {
        distributions: packages.iter().map(of).collect(),
        python: Some(python),
        ..Installed::default()
    }
}

#[test]
fn what_is_locked_for_a_machine_runs_on_it() {
    let registry = Registry::embedded();
    let drivers = drivers(&registry);
    let mut solved = 0;
    for seed in 0..super::worlds(500) {
        let mut random = Random::new(seed);
        let host = machine(&mut random, &registry, &drivers);
        let torch = random.pick(&["torch", "torch<2.12", "torch<2.7", "torch==2.9.*"]);
        let request = Request { requirements: vec![requirement(torch)], ..Request::default() };
        let answer = solve_stack(&registry, &host, &request, &Preferences::default());
        let Answer::Solution(solution) = answer else { continue };
        solved += 1;
        let target = Target::new("default", &solution, &host, Level::Stack);
        let locked = Locked::own(&target, &registry);
        let areas = verify::judge(&Facts::of_lock(&locked, &registry).on(&host));
        let errors: Vec<_> = areas
            .iter()
            .flat_map(|area| &area.findings)
            .filter(|found| found.severity == Severity::Error)
            .collect();
        assert!(errors.is_empty(), "seed {seed}: {torch} on {host:?}: {errors:#?}");
    }
    assert!(solved > 100, "{solved} solved");
}
