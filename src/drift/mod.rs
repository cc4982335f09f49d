//! What changed on a machine between two looks at it, the most harmful first, and what it breaks.
//!
//! Facts that one of the two looks does not know are not compared.

mod gpu_changes;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::model::finding::Severity;
use crate::model::host::Driver;
use crate::model::saved_host::{EnvironmentFacts, LoaderFacts, SavedHost};
use crate::model::version::DottedVersion;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What changed: `driver`, `gpus`, `variable LD_LIBRARY_PATH`, `library libcudnn.so.9`, `package torch`.
    pub fact: String,
    /// What it was; `None` if there was none.
    pub before: Option<String>,
    /// What it is; `None` if there is none.
    pub after: Option<String>,
    /// How much it matters.
    pub severity: Severity,
    /// What it means for programs, as one sentence without a full stop.
    pub effect: String,
}

/// A fact because of which the lock no longer runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The fact: `driver`, `gpus`, `libc`, `platform`.
    pub fact: &'static str,
    /// Why, as one sentence without a full stop.
    pub why: String,
}

/// The changes between two looks at a machine. `broken`: the lock ran before, and does not run on the machine as it is now.
pub fn between(before: &SavedHost, after: &SavedHost, broken: Option<&Broken>) -> Vec<Change> {
    let mut out = of_machine(before, after);
    if let Some(Broken { fact, why }) = broken {
        match out.iter_mut().find(|change| change.fact == *fact) {
            Some(change) => {
                change.severity = Severity::Error;
                change.effect = format!("the lock ran before and does not run now: {why}");
            }
            // The fact was not stated before, or is none of those that are compared.
            None => {
                let effect = format!("the lock does not run: {why}");
                let (then, now) = (stated(fact, before), stated(fact, after));
                out.push(change(fact, then, now, Severity::Error, &effect));
            }
        }
    }
    of_modes(before, after, &mut out);
    let machines = (&before.host, &after.host);
    if let (Some(before), Some(after)) = (&before.loader, &after.loader) {
        of_variables(before, after, &mut out);
        let drivers = (release(&machines.0.driver), release(&machines.1.driver));
        of_libraries((before, after), drivers, &mut out);
    }
    if let (Some(before), Some(after)) = (&before.environment, &after.environment) {
        of_environment(before, after, &mut out);
    }
    out.sort_by_key(|change| std::cmp::Reverse(change.severity));
    out
}

/// A fact of a machine as text; `unknown` where nobody stated it.
fn stated(fact: &str, saved: &SavedHost) -> String {
    let unknown = || "unknown".to_owned();
    let host = &saved.host;
    match fact {
        "driver" => host.driver.as_ref().map_or_else(unknown, |driver| driver.version.to_string()),
        "libc" => host.system.libc.as_ref().map_or_else(unknown, ToString::to_string),
        "platform" if saved.unstated.platform => unknown(),
        "platform" => host.system.platform.to_string(),
        "gpus" => host.gpus.as_deref().map_or_else(unknown, gpu_changes::shown),
        _ => String::new(),
    }
}

/// The version of a driver, if it is a whole one.
fn release(driver: &Option<Driver>) -> Option<&DottedVersion> {
    driver.as_ref().filter(|driver| is_release(driver)).map(|driver| &driver.version)
}

/// The environment that was kept is no longer there.
pub fn environment_gone(prefix: &str) -> Change {
    let effect = "the folder is gone: what was installed in it cannot be imported";
    change("environment", prefix.to_owned(), String::new(), Severity::Error, effect)
}

fn change(fact: &str, before: String, after: String, severity: Severity, effect: &str) -> Change {
    let some = |text: String| (!text.is_empty()).then_some(text);
    Change {
        fact: fact.to_owned(),
        before: some(before),
        after: some(after),
        severity,
        effect: effect.to_owned(),
    }
}

/// The changes of driver, GPUs and system.
fn of_machine(before: &SavedHost, after: &SavedHost) -> Vec<Change> {
    let mut out = Vec::new();
    let is_compat_known = !before.unstated.compat && !after.unstated.compat;
    let is_platform_known = !before.unstated.platform && !after.unstated.platform;
    let (before, after) = (&before.host, &after.host);
    match (&before.driver, &after.driver) {
        (Some(then), Some(now)) => of_driver(then, now, is_compat_known, &mut out),
        // Without a GPU either, a missing driver is no unknown one.
        (Some(then), None) if after.has_no_gpu() => out.push(change(
            "driver",
            then.version.to_string(),
            String::new(),
            Severity::Error,
            "no program can use a GPU",
        )),
        _ => {}
    }
    if let (Some(then), Some(now)) = (&before.gpus, &after.gpus) {
        gpu_changes::changes(then, now, &mut out);
    }
    if is_platform_known && before.system.platform != after.system.platform {
        let text = "what was installed for the other platform does not run";
        let (then, now) = (before.system.platform.to_string(), after.system.platform.to_string());
        out.push(change("platform", then, now, Severity::Error, text));
    }
    if let (Some(then), Some(now)) = (&before.system.libc, &after.system.libc)
        && then != now
    {
        let (severity, effect) = match (then.key() == now.key(), now.version() < then.version()) {
            (false, _) => (Severity::Error, "programs for the other C library do not start"),
            (true, true) => (Severity::Warning, "programs that need the newer one do not start"),
            (true, false) => (Severity::Info, "programs for the older one run as before"),
        };
        let fact = if now.key() == "macos" { "macos" } else { "libc" };
        out.push(change(fact, then.to_string(), now.to_string(), severity, effect));
    }
    out
}

/// Whether a version is a whole one: neither a branch, which is open, nor the placeholder of a driver of which only CUDA is
/// known.
fn is_release(driver: &Driver) -> bool {
    driver.version.as_str().contains('.')
}

fn of_driver(then: &Driver, now: &Driver, is_compat_known: bool, out: &mut Vec<Change>) {
    let cuda = |driver: &Driver| driver.cuda.as_ref().map(|cuda| format!("CUDA {cuda}"));
    let is_open = |driver: &Driver| !is_release(driver);
    let is_placeholder = |driver: &Driver| driver.version == Driver::unknown_version();
    let is_known = !is_placeholder(then) && !is_placeholder(now);
    // A branch is open: within it, nothing is known to have changed.
    let is_other = match is_open(then) || is_open(now) {
        true => then.version.major() != now.version.major(),
        false => then.version != now.version,
    };
    if is_known && is_other {
        let (severity, effect) = match (cuda(then), cuda(now), now.version < then.version) {
            (Some(then), Some(now), true) if then != now => {
                (Severity::Warning, format!("it supports {now}; programs for {then} may not start"))
            }
            (_, _, true) => (Severity::Warning, "programs for a newer CUDA may not start".to_owned()),
            (Some(then), Some(now), false) if then != now => {
                (Severity::Info, format!("it supports {now} instead of {then}"))
            }
            (_, _, false) => (Severity::Info, "a newer driver".to_owned()),
        };
        out.push(change("driver", then.version.to_string(), now.version.to_string(), severity, &effect));
    } else if let (Some(older), Some(newer)) = (&then.cuda, &now.cuda)
        && older != newer
    {
        let (severity, effect) = match newer < older {
            true => (Severity::Warning, "programs for a newer CUDA may not start"),
            false => (Severity::Info, "programs are started with another libcuda.so.1 than before"),
        };
        out.push(change("cuda of the driver", older.to_string(), newer.to_string(), severity, effect));
    }
    if is_compat_known && then.compat != now.compat {
        let shown =
            |compat: &Option<DottedVersion>| compat.as_ref().map(ToString::to_string).unwrap_or_default();
        let effect = "programs are started with another libcuda.so.1 than before";
        out.push(change("cuda-compat", shown(&then.compat), shown(&now.compat), Severity::Warning, effect));
    }
}

/// Changes of how the GPUs are set, where both looks found the same ones, in any order.
fn of_modes(before: &SavedHost, after: &SavedHost, out: &mut Vec<Change>) {
    let pairs: Vec<(u32, u32)> = match (&before.host.gpus, &after.host.gpus) {
        (Some(then), Some(now)) => {
            let pairs = gpu_changes::pairs(then, now).unwrap_or_default();
            pairs.into_iter().map(|(then, now)| (then.index, now.index)).collect()
        }
        (None, None) => before.modes.keys().map(|index| (*index, *index)).collect(),
        _ => return,
    };
    let word = |is_on: bool| if is_on { "on" } else { "off" };
    for (then, index) in &pairs {
        let (Some(then), Some(now)) = (before.modes.get(then), after.modes.get(index)) else { continue };
        let ecc = "memory errors are no longer corrected";
        let no_ecc = "memory errors are corrected";
        let mig = "programs see MIG instances instead of the GPU";
        let no_mig = "programs see the GPU instead of its MIG instances";
        let rows = [("ecc", then.ecc, now.ecc, no_ecc, ecc), ("mig", then.mig, now.mig, mig, no_mig)];
        for (name, then, now, on, off) in rows {
            if let (Some(then), Some(now)) = (then, now)
                && then != now
            {
                let effect = if now { on } else { off };
                let fact = format!("{name} of GPU {index}");
                out.push(change(
                    &fact,
                    word(then).to_owned(),
                    word(now).to_owned(),
                    Severity::Warning,
                    effect,
                ));
            }
        }
    }
}

fn of_variables(before: &LoaderFacts, after: &LoaderFacts, out: &mut Vec<Change>) {
    let names: BTreeSet<&String> = before.variables.keys().chain(after.variables.keys()).collect();
    for name in names {
        let (then, now) = (before.variables.get(name), after.variables.get(name));
        if then == now {
            continue;
        }
        let effect = match name.as_str() {
            "LD_LIBRARY_PATH" if now.is_none() => "the loader no longer searches these folders",
            "LD_PRELOAD" | "LD_AUDIT" if now.is_none() => "programs no longer load these libraries",
            "LD_LIBRARY_PATH" => {
                "the loader searches these folders before those of a library's RUNPATH and the system's"
            }
            "LD_PRELOAD" | "LD_AUDIT" => "every program loads these libraries first",
            "CUDA_VISIBLE_DEVICES" if now.is_some_and(String::is_empty) => "programs see no GPU",
            "CUDA_VISIBLE_DEVICES" | "CUDA_DEVICE_ORDER" => "programs see other GPUs, or in another order",
            "NVIDIA_VISIBLE_DEVICES" => "in a container, programs may see other GPUs",
            "CUDA_HOME" | "CUDA_PATH" => "extensions are built with another toolkit",
            _ => "Python finds other packages",
        };
        let text = |value: Option<&String>| match value.map(String::as_str) {
            Some("") => "(empty)".to_owned(),
            value => value.unwrap_or_default().to_owned(),
        };
        out.push(change(&format!("variable {name}"), text(then), text(now), Severity::Warning, effect));
    }
}

/// `drivers`: the versions of the driver then and now, where they are known. Its own libraries change with it, which is one
/// change; those of another version than it are a change of their own, whether they changed or were left behind.
fn of_libraries(
    (before, after): (&LoaderFacts, &LoaderFacts),
    drivers: (Option<&DottedVersion>, Option<&DottedVersion>),
    out: &mut Vec<Change>,
) {
    let names: BTreeSet<&String> = before.libraries.keys().chain(after.libraries.keys()).collect();
    let has_other_driver = drivers.0 != drivers.1;
    // A library of cuda-compat is meant to be of another version.
    let is_foreign = |file: &String, driver: Option<&DottedVersion>| {
        driver.is_some_and(|driver| {
            !file.contains("compat") && driver_of_file(file).is_some_and(|version| version != *driver)
        })
    };
    for name in names {
        let (then, now) = (before.libraries.get(name), after.libraries.get(name));
        let (severity, effect) = match (then, now) {
            (Some(then), Some(now))
                if is_half(name) && is_foreign(now, drivers.1) && !is_foreign(then, drivers.0) =>
            {
                let text =
                    "its version is not that of the driver: programs that load it do not start (error 803)";
                (Severity::Error, text)
            }
            _ if then == now => continue,
            (Some(_), Some(_)) if has_other_driver && is_of_driver(name) => continue,
            (Some(_), None) if name.starts_with("libcuda.so") => {
                (Severity::Error, "the loader does not find the driver's library: no program can use a GPU")
            }
            (Some(_), None) => (Severity::Warning, "programs that take it from the system do not find it"),
            (None, _) => (Severity::Info, "programs without a copy of their own find it"),
            (Some(_), Some(_)) => {
                (Severity::Warning, "programs that take it from the system load another file")
            }
        };
        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
        out.push(change(&format!("library {name}"), text(then), text(now), severity, effect));
    }
}

/// The version in the name of a file of the driver: `libcuda.so.580.65.06`.
fn driver_of_file(file: &str) -> Option<DottedVersion> {
    let (_, version) = file.rsplit_once(".so.")?;
    version.contains('.').then(|| version.parse().ok()).flatten()
}

/// Whether a library is one of those that must be of the kernel module's version. Others of NVIDIA's have numbers of their
/// own: libnvidia-container.
fn is_half(name: &str) -> bool {
    name.starts_with("libcuda.so") || name.starts_with("libnvidia-ml.so")
}

/// Whether a library belongs to the driver.
fn is_of_driver(name: &str) -> bool {
    name.starts_with("libcuda.so") || name.starts_with("libnvidia-")
}

fn of_environment(before: &EnvironmentFacts, after: &EnvironmentFacts, out: &mut Vec<Change>) {
    if before.prefix != after.prefix {
        let effect = "two environments: their packages are not compared";
        let (then, now) = (before.prefix.clone(), after.prefix.clone());
        out.push(change("environment", then, now, Severity::Info, effect));
        return;
    }
    let count = out.len();
    let names: BTreeSet<&String> = before.packages.keys().chain(after.packages.keys()).collect();
    for name in names {
        let (then, now) = (before.packages.get(name), after.packages.get(name));
        let effect = match (then, now) {
            _ if then == now => continue,
            (Some(_), None) => "uninstalled: what imports it fails",
            (None, _) => "installed",
            (Some(_), Some(_)) => "another version is imported",
        };
        let severity = if now.is_none() || then.is_some() { Severity::Warning } else { Severity::Info };
        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
        out.push(change(&format!("package {name}"), text(then), text(now), severity, effect));
    }
    if out.len() == count && before.digest != after.digest {
        let effect =
            "the files of its packages changed, and their versions did not: `envlock verify` says which";
        let (then, now) = (before.digest.clone(), after.digest.clone());
        out.push(change("environment", then, now, Severity::Warning, effect));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::host::{Gpu, Host};
    use crate::model::platform::{Libc, Platform};
    use crate::model::saved_host::GpuMode;

    fn machine(driver: &str, gpus: &[&str]) -> SavedHost {
        let mut host = Host::open(Platform::LINUX_X86_64, "test");
        let version: DottedVersion = driver.parse().unwrap();
        host.driver = Some(Driver { version, cuda: None, compat: None, found_by: "test".into() });
        let gpu = |name: &&str| Gpu {
            index: 0,
            name: Some((*name).to_owned()),
            capability: None,
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "test".into(),
        };
        host.gpus = Some(gpus.iter().map(gpu).collect());
        host.system.libc = Some(Libc::Glibc("2.36".parse().unwrap()));
        host.into()
    }

    #[test]
    fn changes_of_a_machine() {
        let old = || machine("580.65.06", &["A", "A"]);
        let table: [(SavedHost, &[(&str, Severity)]); 6] = [
            (old(), &[]),
            (machine("535.129.03", &["A", "A"]), &[("driver", Severity::Warning)]),
            (machine("590.1", &["A", "A"]), &[("driver", Severity::Info)]),
            (machine("535.129.03", &["A"]), &[("gpus", Severity::Error), ("driver", Severity::Warning)]),
            (machine("580.65.06", &["A", "B"]), &[("gpus", Severity::Warning)]),
            (machine("580.65.06", &["A", "A", "A"]), &[("gpus", Severity::Info)]),
        ];
        for (after, expected) in table {
            let found = between(&old(), &after, None);
            let found: Vec<_> = found.iter().map(|change| (change.fact.as_str(), change.severity)).collect();
            assert_eq!(found, expected);
        }
        let why = Broken { fact: "driver", why: "the driver is too old".to_owned() };
        let broken = between(&old(), &machine("470.1", &["A", "A"]), Some(&why));
        assert_eq!((broken[0].severity, broken.len()), (Severity::Error, 1));
        // Open facts: a branch, a driver of which only CUDA is known, a compat package that was not stated.
        for version in ["580", "0"] {
            assert_eq!(between(&old(), &machine(version, &["A", "A"]), None), [], "{version}");
        }
        let mut compat = old();
        compat.host.driver.as_mut().unwrap().compat = "595.45.04".parse().ok();
        assert_eq!(between(&old(), &compat, None).len(), 1);
        let unstated = SavedHost {
            unstated: crate::model::saved_host::Unstated { compat: true, platform: true },
            ..old()
        };
        assert_eq!(between(&unstated, &compat, None), []);
        // What one look does not know is no change.
        let unknown: SavedHost = Host::open(Platform::LINUX_X86_64, "test").into();
        assert_eq!(between(&old(), &unknown, None), []);
    }

    #[test]
    fn changes_of_how_gpus_are_set() {
        let set = |ecc: Option<bool>, mig: Option<bool>| SavedHost {
            modes: BTreeMap::from([(0, GpuMode { ecc, mig })]),
            ..machine("580.65.06", &["A"])
        };
        let found = between(&set(Some(true), Some(false)), &set(Some(false), Some(true)), None);
        let facts: Vec<&str> = found.iter().map(|change| change.fact.as_str()).collect();
        assert_eq!(facts, ["ecc of GPU 0", "mig of GPU 0"]);
        assert_eq!(between(&set(None, None), &set(Some(false), Some(true)), None), []);
    }

    #[test]
    fn changes_of_what_programs_find() {
        let facts = |variable: &str, library: &str, torch: &str, digest: &str| {
            let pairs = |name: &str, value: &str| match value {
                "" => BTreeMap::new(),
                value => BTreeMap::from([(name.to_owned(), value.to_owned())]),
            };
            SavedHost {
                loader: Some(LoaderFacts {
                    variables: pairs("LD_LIBRARY_PATH", variable),
                    libraries: pairs("libcuda.so.1", library),
                }),
                environment: Some(EnvironmentFacts {
                    prefix: "/v".to_owned(),
                    digest: digest.to_owned(),
                    packages: pairs("torch", torch),
                }),
                ..machine("580.65.06", &["A"])
            }
        };
        let old = facts("", "/l/libcuda.so.580.65.06", "2.9.1", "a");
        let table: [(SavedHost, &[(&str, Severity)]); 5] = [
            (
                facts("/x", "/l/libcuda.so.580.65.06", "2.9.1", "a"),
                &[("variable LD_LIBRARY_PATH", Severity::Warning)],
            ),
            (facts("", "", "2.9.1", "a"), &[("library libcuda.so.1", Severity::Error)]),
            (facts("", "/l/libcuda.so.580.65.06", "2.10.0", "b"), &[("package torch", Severity::Warning)]),
            (facts("", "/l/libcuda.so.580.65.06", "2.9.1", "b"), &[("environment", Severity::Warning)]),
            (machine("580.65.06", &["A"]), &[]),
        ];
        for (after, expected) in table {
            let found = between(&old, &after, None);
            let found: Vec<_> = found.iter().map(|change| (change.fact.as_str(), change.severity)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn libraries_of_another_version_than_the_driver() {
        let with = |driver: &str, name: &str, file: &str| SavedHost {
            loader: Some(LoaderFacts {
                variables: BTreeMap::new(),
                libraries: BTreeMap::from([(name.to_owned(), file.to_owned())]),
            }),
            ..machine(driver, &["A"])
        };
        for (name, before, after, is_error) in [
            // With the driver, left behind, led elsewhere.
            ("libcuda.so.1", "/l/libcuda.so.580.65.06", "/l/libcuda.so.590.48.01", false),
            ("libcuda.so.1", "/l/libcuda.so.580.65.06", "/l/libcuda.so.580.65.06", true),
            ("libnvidia-ml.so.1", "/l/libnvidia-ml.so.580.65.06", "/l/libnvidia-ml.so.470.57.02", true),
            // cuda-compat is meant to be newer, and the container toolkit has numbers of its own.
            ("libcuda.so.1", "/l/libcuda.so.580.65.06", "/usr/local/cuda/compat/libcuda.so.595.45.04", false),
            (
                "libnvidia-container.so.1",
                "/l/libnvidia-container.so.1.17.8",
                "/l/libnvidia-container.so.1.18.0",
                false,
            ),
        ] {
            let found = between(&with("580.65.06", name, before), &with("590.48.01", name, after), None);
            let errors = found.iter().filter(|change| change.severity == Severity::Error).count();
            assert_eq!(errors, usize::from(is_error), "{before} -> {after}: {found:?}");
        }
        // Of the driver before only the branch is known.
        let name = "libnvidia-container.so.1";
        let toolkit =
            |driver: &str, version: &str| with(driver, name, &format!("/l/libnvidia-container.so.{version}"));
        let found = between(&toolkit("580", "1.17.8"), &toolkit("590.48.01", "1.18.0"), None);
        assert!(found.iter().all(|change| change.severity != Severity::Error), "{found:?}");
    }
}
