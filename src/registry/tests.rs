//! The registry of the tests: a small copy of `registry/` as it was on a day, in `tests/fixtures/registry`. A new
//! release of torch changes the shipped rows and their lint, not the expected values of tests of the code.

use std::path::Path;

use super::{GpuLookupError, Registry, RegistryFile};
use crate::model::platform::Platform;
use crate::model::wheel::Python;

/// The frozen registry.
pub(crate) fn frozen() -> Registry {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/registry");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the fixture is part of the repository") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative =
                    path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path).expect("a readable file");
                files.push(RegistryFile { path: relative.into(), text: text.into() });
            }
        }
    }
    Registry::from_files(files).expect("the fixture has no problem")
}

/// A row of the pytorch index that states no Pythons has those of the release's wheels on PyPI for its platform.
#[test]
fn pythons_that_a_row_does_not_state() {
    let registry = Registry::embedded();
    for (version, variant, platform, pythons, inferred) in [
        ("1.13.1", "cu116", "linux-x86_64", vec![7, 8, 9, 10, 11], true),
        ("1.13.1", "cu117", "linux-x86_64", vec![7, 8, 9, 10, 11], false),
        ("1.13.1", "cu117", "windows-x86_64", vec![7, 8, 9, 10], true),
        ("2.9.1", "cu126", "linux-x86_64", vec![10, 11, 12, 13, 14], true),
    ] {
        let build = registry.build(&version.parse().unwrap(), variant, platform.parse().unwrap()).unwrap();
        assert_eq!((build.pythons.as_ref(), build.wheels_inferred), (Some(&pythons), inferred), "{version}");
    }
}

#[test]
fn what_a_release_needs_and_does_not_require() {
    let of = |version: &str| Registry::embedded().undeclared("jax", &version.parse().unwrap());
    assert_eq!(of("0.4.26"), ["jaxlib>=0.4.20,<=0.4.26"]);
    assert_eq!(of("0.4.14"), ["jaxlib>=0.4.11"]);
    assert!(of("0.4.30").is_empty());
}

#[test]
fn what_the_standard_library_lost() {
    let registry = Registry::embedded();
    let since = |name: &str| registry.removed(name).map(|row| row.python.to_string());
    assert_eq!(since("imp.load_source").as_deref(), Some("3.12"));
    assert_eq!(since("configparser.SafeConfigParser").as_deref(), Some("3.12"));
    for name in ["importlib", "configparser.ConfigParser", "configparser", "urllib.quote_plus"] {
        assert_eq!(since(name), None, "{name}");
    }
}

#[test]
fn names_that_drivers_and_hypervisors_print() {
    let registry = Registry::embedded();
    for (name, expected) in [
        ("NVIDIA L40S-48C", "8.9"),
        ("NVIDIA A10-24Q", "8.6"),
        ("GRID A100X-40C", "8.0"),
        ("GRID A100DX-4-20C", "8.0"),
        ("GRID T4-16Q", "7.5"),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "8.0"),
        ("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", "8.0"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "9.0"),
        ("GeForce GTX 1050 Ti with Max-Q Design", "6.1"),
        ("TITAN X (Pascal)", "6.1"),
        ("NVIDIA Thor", "11.0"),
        ("Orin (nvgpu)", "8.7"),
        ("4090", "8.9"),
        ("T4", "7.5"),
    ] {
        let found = registry.find_gpu(name).map(|found| found.capability.to_string());
        assert_eq!(found.as_deref(), Ok(expected), "{name}");
    }
    assert!(matches!(registry.find_gpu("NVIDIA A16-4B"), Err(GpuLookupError::DisplayProfile { .. })));
    // An unknown suffix and an unknown board are asked for.
    for name in [
        "NVIDIA L40S-48Z",
        "NVIDIA L20Y",
        "NVIDIA X999-8C",
        "NVIDIA A100-SXM4-80GB MIG 9g.999gb",
        "NVIDIA A100-SXM4-80GB MIG big",
        "Tesla T4 MIG 1g.5gb",
        // Parts of `T10-8` and `D15M2-10`.
        "8",
        "10",
    ] {
        assert!(matches!(registry.find_gpu(name), Err(GpuLookupError::Unknown { .. })), "{name}");
    }
}

#[test]
fn the_cuda_of_a_newer_branch_is_a_bound() {
    let registry = frozen();
    let cuda = |driver: &str| registry.cuda_of_driver(&driver.parse().unwrap()).unwrap().to_string();
    assert_eq!(cuda("535.129.03"), "12.2");
    let newest = registry.branches().last().unwrap();
    let bound = format!(
        ">= {}; branch 999 is newer than the registry",
        crate::model::version::cuda_short(&newest.cuda)
    );
    assert_eq!(cuda("999.10"), bound);
}

/// A series of less than two years before the registry's date is for what needs it.
#[test]
fn pythons_that_can_be_had() {
    let registry = Registry::embedded();
    let settled: Vec<u32> =
        registry.pythons().iter().copied().filter(|minor| registry.is_settled(Python::new(*minor))).collect();
    assert_eq!(settled, [6, 7, 8, 9, 10, 11, 12, 13], "on {}", registry.meta().date);
    // Of one that the registry does not have, and where it states no days, nothing is said.
    assert!(
        registry.is_settled(Python::new(40))
            && frozen().pythons().iter().all(|m| frozen().is_settled(Python::new(*m)))
    );
}

/// A GPU that the builds of the last series have no code for had its last series before.
#[test]
fn the_last_series_for_a_gpu_runs_on_it() {
    let registry = Registry::embedded();
    let last =
        |capability: &str| registry.last_build(capability.parse().unwrap()).map(|row| row.torch.as_str());
    assert_eq!(
        [last("3.7"), last("6.1"), last("7.0"), last("8.0")],
        [None, Some("2.14"), Some("2.14"), None]
    );
}

/// A release without a row is like the known ones on both sides of it.
#[test]
fn a_framework_without_a_row_is_like_its_neighbours() {
    let registry = frozen();
    for (package, version, expected) in [
        ("jax-cuda13-plugin", "0.12.0", &[">=0.10.2, <0.13"][..]),
        ("jax-cuda13-plugin", "0.13.0", &[">=0.10.2, <0.13"]),
        ("jax-cuda13-plugin", "0.7.1", &[">=0.7.2, <0.10.2"]),
        ("tensorflow", "2.99.0", &["==2.21.*"]),
        ("tensorflow", "2.0.0", &["==2.1.*"]),
        ("torch", "2.9.1", &[]),
    ] {
        let version = version.parse().unwrap();
        let like = registry.frameworks_like(package, &version, Platform::LINUX_X86_64);
        let shown: Vec<String> = like.iter().map(|row| row.versions.to_string()).collect();
        assert_eq!(shown, expected, "{package} {version}");
    }
}
