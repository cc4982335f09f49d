//! Random registries, machines and requests: the solver and brute force must say the same.

use envlock::compatibility::check_host;
use envlock::model::conflict::Conflict;
use envlock::model::host::Host;
use envlock::model::request::{Preferences, Request};
use envlock::model::solution::{Answer, Solution};
use envlock::registry::Registry;
use envlock::solver::solve_stack;

use super::rules::{BruteForce, Choice};
use super::worlds::{DRIVERS, Random, common_files, driver, host, registry, request, shuffled};

/// Questions asked of each registry.
const QUESTIONS: u64 = 4;

pub fn ask(registry: &Registry, host: &Host, request: &Request) -> Result<Box<Solution>, Box<Conflict>> {
    match solve_stack(registry, host, request, &Preferences::default()) {
        Answer::Solution(solution) => Ok(solution),
        Answer::Conflict(conflict) => Err(conflict),
        other => panic!("the registry alone answers every question: {other:?}"),
    }
}

/// Why a solution is not the choice of brute force.
pub fn differs(solution: &Solution, choice: &Choice) -> Option<String> {
    let stack = solution.stack.as_ref()?;
    let same = stack.version == choice.torch
        && stack.variant == choice.variant
        && stack.index == choice.index
        && solution.python.minor == choice.python
        && choice.companions.iter().all(|(name, version)| stack.companions.get(name) == Some(version));
    (!same).then(|| format!("{stack:?} on Python {}", solution.python))
}

/// A world as a person reads it.
pub fn told(registry: &Registry, host: &Host, request: &Request) -> String {
    let gpus =
        host.gpus.as_ref().map(|l| l.iter().map(|g| g.capability.unwrap().to_string()).collect::<Vec<_>>());
    let mut out = format!(
        "driver {:?}, GPUs {gpus:?}, libc {:?}\n",
        host.driver.as_ref().map(|d| d.version.to_string()),
        host.system.libc
    );
    for line in envlock::lockfile::request_lines(request) {
        out.push_str(&format!("{line}\n"));
    }
    let own =
        |f: &&envlock::registry::RegistryFile| f.path.starts_with("torch/") || f.path == "companions.toml";
    registry.files().iter().filter(own).for_each(|f| out.push_str(&f.text));
    out
}

/// The longest of these tests, and the last to end: it takes both processors.
const PARTS: usize = 2;

#[test]
fn the_solver_says_what_brute_force_says() {
    let parts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PARTS).map(|part| scope.spawn(move || compared(part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let solved: usize = parts.iter().map(|(solved, _)| solved).sum();
    let conflicts: usize = parts.iter().map(|(_, conflicts)| conflicts).sum();
    assert!(solved > 1000 && conflicts > 1000, "{solved} solved, {conflicts} conflicts");
}

/// Compares the solver with brute force in a part of the worlds; returns how many requests had a solution, and how many none.
fn compared(part: usize) -> (usize, usize) {
    let common = common_files();
    let (mut solved, mut conflicts) = (0, 0);
    for seed in (0..super::worlds(10_000) / QUESTIONS).skip(part).step_by(PARTS) {
        let mut random = Random::new(seed);
        let registry = registry(&mut random, &common);
        for n in 0..QUESTIONS {
            let (host, request) = (host(&mut random), request(&mut random));
            if check_host(&registry, &host).is_err() {
                continue;
            }
            let best = BruteForce { registry: &registry, host: &host, request: &request }.best();
            let place = || format!("world {seed}, question {n}:\n{}", told(&registry, &host, &request));
            match (ask(&registry, &host, &request), best) {
                (Ok(solution), Some(best)) => {
                    solved += 1;
                    if let Some(difference) = differs(&solution, &best) {
                        panic!("{difference}, brute force takes {best:#?}\n{}", place());
                    }
                }
                (Err(conflict), None) => {
                    conflicts += 1;
                    assert!(!conflict.reasons.is_empty(), "{}", place());
                }
                (Ok(solution), None) => panic!("{:?} where nothing fits\n{}", solution.stack, place()),
                (Err(conflict), Some(best)) => panic!("{conflict:#?}, but {best:#?} runs\n{}", place()),
            }
        }
    }
    (solved, conflicts)
}

#[test]
fn a_newer_driver_that_knows_the_gpus_loses_nothing() {
    let common = common_files();
    for seed in 0..super::worlds(10_000) / 50 {
        let mut random = Random::new(seed ^ 0xd1);
        let registry = registry(&mut random, &common);
        let (mut host, request) = (host(&mut random), request(&mut random));
        let mut solved_by: Option<&str> = None;
        for version in DRIVERS {
            host.driver = Some(driver(version));
            if check_host(&registry, &host).is_err() {
                break;
            }
            match (ask(&registry, &host, &request), solved_by) {
                (Ok(_), _) => solved_by = Some(version),
                (Err(conflict), Some(older)) => {
                    panic!("world {seed}: driver {older} solves, {version} does not: {conflict:#?}")
                }
                (Err(_), None) => {}
            }
        }
    }
}

#[test]
fn letting_go_of_a_request_loses_nothing() {
    let common = common_files();
    for seed in 0..super::worlds(10_000) / 50 {
        let mut random = Random::new(seed ^ 0x1e7);
        let registry = registry(&mut random, &common);
        let (host, request) = (host(&mut random), request(&mut random));
        if check_host(&registry, &host).is_err() || ask(&registry, &host, &request).is_err() {
            continue;
        }
        let mut easier: Vec<Request> = Vec::new();
        for i in 0..request.requirements.len() {
            let mut one = request.clone();
            one.requirements[i].requirement.version_or_url = None;
            easier.push(one);
            if request.requirements.len() > 1 {
                let mut one = request.clone();
                one.requirements.remove(i);
                easier.push(one);
            }
        }
        easier.push(Request { constraints: Vec::new(), ..request.clone() });
        easier.push(Request { python: None, ..request.clone() });
        easier.push(Request { cuda: None, cudnn: None, nccl: None, ..request.clone() });
        easier.push(Request { only_index: None, native_driver_only: None, ..request.clone() });
        for easier in easier {
            assert!(ask(&registry, &host, &easier).is_ok(), "world {seed}: {easier:#?}");
        }
    }
}

#[test]
fn the_order_of_rows_changes_nothing() {
    let common = common_files();
    for seed in 0..super::worlds(10_000) / 100 {
        let mut random = Random::new(seed ^ 0x0f11e);
        let registry = registry(&mut random, &common);
        let shuffled = shuffled(&mut random, &registry);
        assert_ne!(registry.digest(), shuffled.digest(), "world {seed} is the same");
        for _ in 0..QUESTIONS {
            let (host, request) = (host(&mut random), request(&mut random));
            if check_host(&registry, &host).is_err() {
                continue;
            }
            let (one, other) = (ask(&registry, &host, &request), ask(&shuffled, &host, &request));
            assert_eq!(one, other, "world {seed}:\n{}", told(&registry, &host, &request));
        }
    }
}

#[test]
fn the_order_of_requests_changes_nothing() {
    let common = common_files();
    for seed in 0..super::worlds(10_000) / 50 {
        let mut random = Random::new(seed ^ 0x0dde);
        let registry = registry(&mut random, &common);
        let (host, request) = (host(&mut random), request(&mut random));
        if check_host(&registry, &host).is_err() {
            continue;
        }
        let mut turned = request.clone();
        turned.requirements.reverse();
        turned.constraints.reverse();
        let (a, b) = (ask(&registry, &host, &request), ask(&registry, &host, &turned));
        match (a, b) {
            (Ok(a), Ok(b)) => assert_eq!(a, b, "world {seed}"),
            (Err(a), Err(b)) => {
                let texts = |c: &Conflict| {
                    let mut list: Vec<String> = c.reasons.iter().map(|r| r.text.clone()).collect();
                    list.sort();
                    list
                };
                assert_eq!(texts(&a), texts(&b), "world {seed}");
            }
            (a, b) => panic!("world {seed}: {a:?} {b:?}"),
        }
    }
}
