//! Solve time from the registry alone, and with ten times the rows.
//!
//! `cargo bench --bench solve`. Whole commands are timed against uv by `benches/against-uv.sh`.

use envlock::model::host::{Driver, Gpu, Host};
use envlock::model::platform::Platform;
use envlock::model::request::{Preferences, Request, UserRequirement};
use envlock::registry::{Registry, RegistryFile};
use envlock::solver::{Budget, Catalogue, Depth, Inputs, Memory, Question, Universe, solve};

fn main() {
    divan::main();
}

/// The embedded registry with each torch build repeated under other patch numbers.
fn times(factor: u64) -> Registry {
    let files: Vec<RegistryFile> = Registry::embedded()
        .files()
        .iter()
        .map(|file| {
            if !file.path.starts_with("torch/") {
                return file.clone();
            }
            let (head, rows) = file.text.split_once("[[build]]\n").unwrap();
            let mut blocks: Vec<String> = rows.split("[[build]]\n").map(str::to_owned).collect();
            let originals = blocks.clone();
            for k in 1..factor {
                blocks.extend(originals.iter().map(|block| {
                    let line = block.lines().next().unwrap();
                    let version = line.trim_start_matches("version = \"").trim_end_matches('"');
                    let (series, patch) = version.rsplit_once('.').unwrap();
                    let patch: u64 = patch.parse::<u64>().unwrap() + 20 * k;
                    block.replacen(line, &format!("version = \"{series}.{patch}\""), 1)
                }));
            }
            let rows: String = blocks.iter().map(|b| format!("[[build]]\n{b}")).collect();
            RegistryFile { path: file.path.clone(), text: format!("{head}{rows}").into() }
        })
        .collect();
    Registry::from_files(files).unwrap_or_else(|problems| panic!("{:?}", problems.first()))
}

fn host(gpu: &str, driver: &str) -> Host {
    let found = Registry::embedded().find_gpu(gpu).unwrap();
    let mut host = Host::open(Platform::LINUX_X86_64, "bench");
    host.driver =
        Some(Driver { version: driver.parse().unwrap(), cuda: None, compat: None, found_by: "bench".into() });
    host.gpus = Some(vec![Gpu {
        index: 0,
        name: Some(found.name),
        capability: Some(found.capability),
        memory_mib: None,
        uuid: None,
        pci_id: None,
        found_by: "bench".into(),
    }]);
    host
}

fn request(text: &str) -> Request {
    Request {
        requirements: vec![UserRequirement::new(text.parse().unwrap(), "bench".into())],
        ..Request::default()
    }
}

fn run(bencher: divan::Bencher, factor: u64, gpu: &str, driver: &str, requirement: &str) {
    let registry = times(factor);
    let (host, request) = (host(gpu, driver), request(requirement));
    let (universe, preferences) = (Universe::default(), Preferences::default());
    let catalogue = Catalogue::new(&registry, host.system.platform);
    let inputs = Inputs {
        catalogue: &catalogue,
        universe: &universe,
        memory: &Memory::default(),
        budget: &Budget::default(),
        question: &Question::new(&host, &request, &preferences),
    };
    // Parsing and numbering the rows is done once per command and is not part of the figure.
    solve(&inputs, Depth::Stack);
    bencher.bench_local(|| solve(&inputs, Depth::Stack));
}

#[divan::bench(args = [1, 10])]
fn newest_torch_on_an_h200(bencher: divan::Bencher, factor: u64) {
    run(bencher, factor, "NVIDIA H200", "580.159.04", "torch");
}

#[divan::bench(args = [1, 10])]
fn conflict_with_an_old_driver(bencher: divan::Bencher, factor: u64) {
    run(bencher, factor, "NVIDIA A100", "470.129.06", "torch>=2.8");
}
