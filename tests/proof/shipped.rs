//! The shipped registry: every GPU it names, every driver branch from 450 on, with and without the pytorch
//! index.

use std::time::Instant;

use envlock::compatibility::check_host;
use envlock::model::host::{Driver, Gpu, Host};
use envlock::model::platform::{Libc, Platform};
use envlock::model::request::{Limit, Preferences, Request};
use envlock::model::solution::Answer;
use envlock::registry::Registry;
use envlock::solver::{self, Budget, Catalogue, Depth, Inputs, Memory, Universe, solve};

use super::rules::BruteForce;
use super::stack::differs;
use super::worlds::{driver, requirement};

/// The oldest branch that is looked at.
const FIRST_BRANCH: u32 = 450;

/// A driver of each branch: the newest that some toolkit came with, else the branch's end.
pub fn drivers(registry: &Registry) -> Vec<Driver> {
    let branches = registry.branches().iter().map(|b| b.branch).filter(|b| *b >= FIRST_BRANCH);
    branches
        .map(|branch| {
            let own = registry.toolkits().iter().filter_map(|t| t.linux.clone());
            let newest = own.filter(|v| v.major() == branch).max();
            driver(&newest.map_or_else(|| format!("{branch}.99"), |v| v.to_string()))
        })
        .collect()
}

fn request(only: Option<&str>) -> Request {
    let only_index = only.map(|name| Limit { value: name.parse().unwrap(), origin: "proof".into() });
    Request { requirements: vec![requirement("torch")], only_index, ..Request::default() }
}

/// Asks solver and brute force about every `step`-th combination; returns how many were asked, how many
/// of them solved, and how many machines cannot be.
fn compare(step: usize, offset: usize) -> (usize, usize, usize) {
    let registry = Registry::embedded();
    let catalogue = Catalogue::new(&registry, Platform::LINUX_X86_64);
    let (mut asked, mut solved, mut impossible) = (0, 0, 0);
    let requests = [request(Some("pypi")), request(None)];
    let drivers = drivers(&registry);
    let combinations =
        registry.gpus().iter().flat_map(|g| drivers.iter().flat_map(move |d| [(g, d, 0), (g, d, 1)]));
    for (gpu, driver, index) in combinations.skip(offset).step_by(step) {
        let mut host = Host::open(Platform::LINUX_X86_64, "proof");
        host.system.libc = Some(Libc::Glibc("2.35".parse().unwrap()));
        host.driver = Some(driver.clone());
        host.gpus = Some(vec![Gpu {
            index: 0,
            name: Some(gpu.name.clone()),
            capability: Some(gpu.capability),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "proof".into(),
        }]);
        if check_host(&registry, &host).is_err() {
            impossible += 1;
            continue;
        }
        asked += 1;
        let request = &requests[index];
        let nothing_kept = Preferences::default();
        let inputs = Inputs {
            catalogue: &catalogue,
            universe: &Universe::default(),
            memory: &Memory::default(),
            budget: &Budget::default(),
            question: &solver::Question::new(&host, request, &nothing_kept),
        };
        let best = BruteForce { registry: &registry, host: &host, request }.best();
        let place =
            || format!("{} ({}), driver {}, indexes {index}", gpu.name, gpu.capability, driver.version);
        match (solve(&inputs, Depth::Stack), best) {
            (Answer::Solution(solution), Some(best)) => {
                solved += 1;
                assert_eq!(differs(&solution, &best), None, "{}: {best:?}", place());
            }
            (Answer::Conflict(conflict), None) => assert!(!conflict.reasons.is_empty(), "{}", place()),
            (answer, best) => panic!("{}: {answer:?}, brute force {best:?}", place()),
        }
    }
    (asked, solved, impossible)
}

#[test]
fn a_part_of_the_shipped_registry() {
    let (asked, solved, _) = compare(101, 0);
    assert!(asked > 100 && solved > 100, "{asked} asked, {solved} solved");
}

/// All of it, on two threads: `cargo test --release --test proof -- --ignored --nocapture`.
#[test]
#[ignore = "minutes without --release"]
fn all_of_the_shipped_registry() {
    let start = Instant::now();
    let parts: Vec<(usize, usize, usize)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|part| scope.spawn(move || compare(2, part))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let sum = |of: fn(&(usize, usize, usize)) -> usize| parts.iter().map(of).sum::<usize>();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} combinations asked of both, {} solved, {} machines that cannot be, {seconds:.1} s, {:.0} a minute",
        sum(|p| p.0),
        sum(|p| p.1),
        sum(|p| p.2),
        sum(|p| p.0) as f64 * 60.0 / seconds
    );
}
