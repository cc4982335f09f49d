//! Tests of solves from the registry alone.

use super::problem::{EquivalentVersions, Problem};
use super::search::Found;
use super::*;
use crate::compatibility::check_host;
use crate::model::capability::ComputeCapability;
use crate::model::conflict::{Conflict, Party};
use crate::model::host::{Driver, Gpu};
use crate::model::platform::{Libc, Platform};
use crate::model::request::Origin;
use crate::model::request::{Limit, UserRequirement};
use crate::model::solution::{DriverMode, Solution};

pub(super) fn host(gpus: Option<&[&str]>, driver: Option<&str>) -> Host {
    let registry = crate::registry::frozen();
    let mut host = Host::open(Platform::LINUX_X86_64, "test");
    host.system.libc = Some(Libc::Glibc("2.35".parse().unwrap()));
    host.driver = driver.map(|v| Driver {
        version: v.parse().unwrap(),
        cuda: None,
        compat: None,
        found_by: "--driver".into(),
    });
    host.gpus = gpus.map(|list| {
        list.iter()
            .enumerate()
            .map(|(i, name)| {
                let found = registry.find_gpu(name).unwrap();
                Gpu {
                    index: i as u32,
                    name: Some(found.name),
                    capability: Some(found.capability),
                    memory_mib: None,
                    uuid: None,
                    pci_id: None,
                    found_by: "--gpu".into(),
                }
            })
            .collect()
    });
    host
}

pub(super) fn ask(requirements: &[&str]) -> Request {
    Request {
        requirements: requirements
            .iter()
            .map(|r| UserRequirement::new(r.parse().unwrap(), Origin::CommandLine))
            .collect(),
        ..Request::default()
    }
}

fn only(index: &str, mut request: Request) -> Request {
    request.only_index =
        Some(Limit { value: index.parse().unwrap(), origin: Origin::Option("--only-index") });
    request
}

fn stack(host: &Host, request: &Request) -> Answer {
    let registry = crate::registry::frozen();
    solve_stack(&registry, host, request, &Preferences::default())
}

fn solved(host: &Host, request: &Request) -> Solution {
    match stack(host, request) {
        Answer::Solution(solution) => *solution,
        Answer::Conflict(conflict) => panic!("{conflict:#?}"),
        other => panic!("{other:?}"),
    }
}

fn conflict(host: &Host, request: &Request) -> Conflict {
    match stack(host, request) {
        Answer::Conflict(conflict) => *conflict,
        other => panic!("{other:#?}"),
    }
}

fn line(s: &Solution) -> String {
    let stack = s.stack.as_ref().unwrap();
    let cudnn = stack.cudnn.as_ref().map_or("-".to_owned(), ToString::to_string);
    format!("{} {} {} {}", stack.version, stack.variant, cudnn, s.python)
}

#[test]
fn the_answers_it_must_give_from_pypi() {
    let table: &[(&str, &str, &str)] = &[
        ("NVIDIA H200", "580.159.04", "2.15.0 cu132 9.26.0.51 3.15"),
        ("Tesla V100", "580.65.06", "2.10.0 cu128 9.10.2.21 3.14"),
        ("GTX 1080 Ti", "535.54.03", "2.7.1 cu126 9.5.1.17 3.13"),
        ("RTX 5090", "570.86.16", "2.10.0 cu128 9.10.2.21 3.14"),
        ("NVIDIA A100", "470.129.06", "2.0.1 cu117 8.5.0.96 3.11"),
    ];
    for (gpu, driver, expected) in table {
        let solution = solved(&host(Some(&[gpu]), Some(driver)), &only("pypi", ask(&["torch"])));
        assert_eq!(line(&solution), *expected, "{gpu} {driver}");
    }
}

#[test]
fn the_h200_runs_in_compatibility_mode() {
    let s = solved(&host(Some(&["H200"]), Some("580.159.04")), &only("pypi", ask(&["torch"])));
    let stack = s.stack.unwrap();
    assert_eq!(stack.driver_mode, Some(DriverMode::Compatibility));
    assert_eq!(stack.native_driver.unwrap().to_string(), "595.45.04");
    assert_eq!(s.envelope.driver.unwrap().to_string(), "580.65.06");
}

#[test]
fn with_the_pytorch_index() {
    let v100 = solved(&host(Some(&["V100"]), Some("580.65.06")), &ask(&["torch"]));
    assert!(line(&v100).starts_with("2.14.1 cu126 9.10.2.21"), "{}", line(&v100));
    assert_eq!(v100.stack.as_ref().unwrap().index, "pytorch/cu126");
    assert_eq!(v100.stack.unwrap().evidence, crate::model::evidence::Evidence::Documented);
    let a100 = solved(&host(Some(&["A100"]), Some("470.129.06")), &ask(&["torch"]));
    assert!(line(&a100).starts_with("2.7.1 cu118"), "{}", line(&a100));
    assert_eq!(a100.stack.unwrap().evidence, crate::model::evidence::Evidence::Inferred);
    let cpu = solved(&host(Some(&[]), None), &ask(&["torch"]));
    assert!(line(&cpu).starts_with("2.15.0 cpu -"), "{}", line(&cpu));
    let cpu = solved(&host(Some(&[]), None), &only("pypi", ask(&["torch"])));
    assert!(line(&cpu).starts_with("2.15.0 cu132"), "{}", line(&cpu));
    assert!(cpu.notes.iter().any(|n| n.text.contains("no CPU build")), "{:?}", cpu.notes);
}

#[test]
fn a_constraint_can_name_a_build() {
    let of = |constraint: &str| {
        let mut request = ask(&["torch"]);
        request.constraints = ask(&[constraint]).requirements;
        request
    };
    let h200 = host(Some(&["H200"]), Some("580.159.04"));
    let s = solved(&h200, &of("torch==2.9.1+cu126"));
    assert!(line(&s).starts_with("2.9.1 cu126"), "{}", line(&s));
    let s = solved(&host(Some(&[]), None), &of("torch==2.9.1+cpu"));
    assert!(line(&s).starts_with("2.9.1 cpu"), "{}", line(&s));
    let c = conflict(&h200, &of("torch==2.9.1+cu111"));
    assert!(c.reasons.iter().any(|reason| reason.text.contains("==2.9.1+cu111")), "{:?}", c.reasons);
}

#[test]
fn an_old_driver_is_named_with_its_ways_out() {
    let c = conflict(&host(Some(&["NVIDIA A100"]), Some("470.129.06")), &only("pypi", ask(&["torch>=2.6"])));
    assert_eq!(c.headline, "no torch>=2.6 of the index pypi runs on driver 470.129.06");
    let texts: Vec<&str> = c.reasons.iter().map(|r| r.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "torch 2.6.0 to 2.15.0 on PyPI are built for CUDA 12.4 to 13.2",
            "CUDA 12 needs driver >= 525.60.13, CUDA 13 >= 580.65.06",
            "the driver is 470.129.06",
            "you require torch>=2.6",
            "only the index pypi may be used",
        ]
    );
    let ways: Vec<String> = c.would_work_if.iter().map(|w| format!("{} -> {}", w.change, w.gives)).collect();
    assert_eq!(
        ways,
        [
            "driver >= 525.60.13 -> torch 2.10.0 cu128",
            "torch <2.6 -> torch 2.0.1 cu117",
            "allow the pytorch index -> torch 2.7.1 cu118 (inferred: not read from the wheel)",
        ]
    );
}

#[test]
fn parties_of_conflicts() {
    let table: &[(&[&str], Option<&str>, Request, &[&str])] = &[
        // CUDA 13 builds and cuDNN 9.11 and newer have no code below 7.5.
        (
            &["V100"],
            Some("580.65.06"),
            Request {
                cuda: Some(Limit { value: ">=13".parse().unwrap(), origin: "t".into() }),
                ..ask(&["torch"])
            },
            &["gpu", "cuda"],
        ),
        (
            &["V100"],
            Some("580.65.06"),
            Request {
                cudnn: Some(Limit { value: ">=9.11".parse().unwrap(), origin: "t".into() }),
                ..ask(&["torch"])
            },
            &["gpu", "cudnn"],
        ),
        (&["RTX 5090"], Some("570.86.16"), ask(&["torch<2.6"]), &["gpu", "torch"]),
        (&["GTX 1080", "RTX 5090"], Some("580.65.06"), ask(&["torch"]), &["gpu", "torch"]),
        (
            &["A100"],
            Some("550.54.14"),
            ask(&["torch==2.5.1", "torchvision==0.16.0"]),
            &["torchvision", "torch"],
        ),
        (&["A100"], Some("550.54.14"), ask(&["torch==2.8.0+cu118"]), &["torch"]),
        (&["A100"], Some("550.54.14"), ask(&["torch>=99"]), &["torch"]),
        (
            &["H100"],
            Some("550.54.14"),
            Request { variant: Some(Limit { value: "cu999".into(), origin: "t".into() }), ..ask(&["torch"]) },
            &["variant"],
        ),
        (
            &["H100"],
            Some("515.43.04"),
            Request {
                native_driver_only: Some(Limit { value: (), origin: "t".into() }),
                ..ask(&["torch>=2.6"])
            },
            &["driver"],
        ),
    ];
    for (gpus, driver, request, parties) in table {
        let c = conflict(&host(Some(gpus), *driver), request);
        let named: Vec<&str> = c.reasons.iter().flat_map(|r| r.parties.iter().map(Party::as_str)).collect();
        for party in *parties {
            assert!(named.contains(party), "{party} is not named: {c:#?}");
        }
        assert!((2..=7).contains(&c.reasons.len()), "{c:#?}");
    }
}

#[test]
fn a_driver_older_than_the_gpu() {
    let c = conflict(&host(Some(&["RTX 5090"]), Some("535.54.03")), &ask(&["torch"]));
    assert!(
        c.reasons.iter().any(|r| r.text.contains("supported by driver branch 570 and newer (inferred)")),
        "{c:#?}"
    );
    assert_eq!(c.would_work_if[0].change.to_string(), "driver >= 570");
    // The offered capabilities do not include the one that failed.
    let c = conflict(&host(Some(&["RTX 5090"]), Some("580.65.06")), &ask(&["torch<2.6"]));
    assert!(
        c.would_work_if.iter().any(|w| w.change.to_string()
            == "a GPU with compute capability 5.0, 5.2, 6.0, 6.1, 7.0, 7.5, 8.0, 8.6, 8.9, 9.0"),
        "{c:#?}"
    );
}

#[test]
fn requirements_split_by_python() {
    let request = ask(&["torch==9.9; python_version>='3.11'", "torch==9.8; python_version<'3.11'"]);
    conflict(&host(Some(&["H200"]), Some("580.65.06")), &request);
}

#[test]
fn a_companion_is_called_built_with_torch_only_where_the_registry_says_so() {
    let reasons = |torch: &str, companion: &str| {
        let s = solved(&host(Some(&["H200"]), Some("580.159.04")), &only("pypi", ask(&[torch, companion])));
        s.packages.iter().find(|p| p.name == companion).unwrap().reason.to_string()
    };
    assert_eq!(reasons("torch==2.13.0", "torchvision"), "built with torch 2.13.0");
    assert_eq!(reasons("torch==2.10.0", "torchaudio"), "built with torch 2.10.0");
    assert_eq!(
        reasons("torch==2.13.0", "torchaudio"),
        "newest compatible version; its wheel does not require torch"
    );
}

#[test]
fn mixed_machines_and_companions() {
    // 7.5 and 8.6 both have code in the newest wheel.
    let s = solved(&host(Some(&["T4", "RTX 3090"]), Some("595.58.03")), &only("pypi", ask(&["torch"])));
    assert_eq!(s.stack.as_ref().unwrap().driver_mode, Some(DriverMode::Native));
    assert!(s.notes.iter().any(|n| n.text.contains("Turing")), "{:?}", s.notes);
    let s = solved(&host(Some(&["H200"]), Some("580.159.04")), &only("pypi", ask(&["torchvision", "torch"])));
    assert_eq!(s.stack.unwrap().companions["torchvision"].to_string(), "0.29.2");
    let s = solved(
        &host(Some(&["H200"]), Some("580.159.04")),
        &only("pypi", ask(&["torch==2.9.1", "torchvision"])),
    );
    assert_eq!(s.stack.unwrap().companions["torchvision"].to_string(), "0.24.1");
}

#[test]
fn impossible_hosts() {
    let registry = crate::registry::frozen();
    let bad = check_host(&registry, &host(Some(&["V100"]), Some("595.45.04"))).unwrap_err().to_string();
    assert!(bad.contains("the last branch for Volta is 580"), "{bad}");
    check_host(&registry, &host(Some(&["V100"]), Some("580.159.04"))).unwrap();
    check_host(&registry, &host(Some(&["K80"]), Some("495.29.05"))).unwrap_err();
}

#[test]
fn order_of_requests_changes_nothing() {
    let h = host(Some(&["A100"]), Some("550.54.14"));
    let a = solved(&h, &ask(&["torch", "torchvision", "torchaudio"]));
    let b = solved(&h, &ask(&["torchaudio", "torchvision", "torch"]));
    assert_eq!(a, b);
}

#[test]
fn an_open_fact_limits_nothing() {
    let s = solved(&host(None, None), &only("pypi", ask(&["torch"])));
    assert_eq!(s.stack.as_ref().unwrap().driver_mode, None);
    assert!(line(&s).starts_with("2.15.0 cu132"));
    let covered: Vec<ComputeCapability> = s.envelope.coverage.iter().map(|c| c.compute_capability).collect();
    assert!(
        covered.contains(&ComputeCapability::new(7, 5)) && !covered.contains(&ComputeCapability::new(7, 0))
    );
    // The driver is unknown, but drivers that no longer support the GPU are excluded.
    let v100 = solved(&host(Some(&["V100"]), None), &ask(&["torch"]));
    let volta = v100.envelope.coverage.iter().find(|c| c.compute_capability.to_string() == "7.0").unwrap();
    assert_eq!(volta.driver_below.as_ref().unwrap().to_string(), "590");
}

/// Grouping equivalent torch versions must not change the conflict.
#[test]
fn a_proof_over_representatives_tells_the_same() {
    let registry = crate::registry::frozen();
    let gpus = ["A100", "V100", "Tesla K80", "GTX 1080 Ti", "RTX 5090", "H200"];
    let drivers = [Some("450.80.02"), Some("470.129.06"), Some("535.54.03"), Some("580.65.06"), None];
    let requests = [
        only("pypi", ask(&["torch>=2.6"])),
        ask(&["torch>=2.12"]),
        ask(&["torch<1.13", "torchvision>=0.20"]),
        only("pypi", ask(&["torchvision", "torch>=2.4"])),
        Request {
            nccl: Some(Limit { value: ">=2.27".parse().unwrap(), origin: "t".into() }),
            ..ask(&["torch<2.5"])
        },
    ];
    let mut conflicts = 0;
    for (gpu, driver) in gpus.iter().flat_map(|g| drivers.iter().map(move |d| (g, d))) {
        let host = host(Some(&[gpu]), *driver);
        if check_host(&registry, &host).is_err() {
            continue;
        }
        let catalogue = Catalogue::new(&registry, host.system.platform);
        for request in &requests {
            let universe = Universe::default();
            let preferences = Preferences::default();
            let inputs = Inputs {
                catalogue: &catalogue,
                universe: &universe,
                memory: &super::Memory::default(),
                budget: &super::Budget::default(),
                question: &super::Question::new(&host, request, &preferences),
            };
            let told = |alike: bool| {
                let pythons = inputs::allowed_pythons(&registry, request);
                let mut problem = Problem::new(&inputs, &catalogue.tables, Depth::Stack, pythons);
                problem.alike = alike.then(|| EquivalentVersions::of(&problem)).flatten();
                match search::unranked(&problem) {
                    Found::Impossible(tree) => Some(conflict::describe(&problem, &tree)),
                    _ => None,
                }
            };
            let (all, representatives) = (told(false), told(true));
            conflicts += usize::from(all.is_some());
            assert_eq!(all, representatives, "{gpu} {driver:?} {:?}", request.requirements);
        }
    }
    assert!(conflicts > 30, "only {conflicts} conflicts were compared");
}

#[test]
fn cuda_compat_is_offered_to_data_centre_gpus_alone() {
    let offered = |gpu: &str, driver: &str| -> Vec<String> {
        let request = only("pypi", ask(&["torch>=2.12"]));
        let ways = conflict(&host(Some(&[gpu]), Some(driver)), &request).would_work_if;
        ways.into_iter().map(|w| w.change.to_string()).filter(|change| change.contains("compat")).collect()
    };
    assert_eq!(offered("A100", "535.129.03"), ["cuda-compat-13-0 on driver 535"]);
    assert_eq!(offered("NVIDIA H200", "570.26"), ["cuda-compat-13-0 on driver 570"]);
    // Not for GeForce, not on a New Feature branch, not on a branch that is missing in the matrix.
    assert_eq!(offered("RTX 3090", "535.129.03"), [""; 0]);
    assert_eq!(offered("A100", "560.28.03"), [""; 0]);
    // An active cuda-compat runs its CUDA natively.
    let mut with = host(Some(&["A100"]), Some("535.129.03"));
    if let Some(driver) = &mut with.driver {
        driver.compat = Some("580.65.06".parse().unwrap());
    }
    let solution = solved(&with, &only("pypi", ask(&["torch>=2.12,<2.15"])));
    let stack = solution.stack.unwrap();
    assert_eq!((stack.variant.as_str(), stack.driver_mode), ("cu130", Some(DriverMode::Native)));
}
