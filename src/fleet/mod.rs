//! Many machines at once: equal ones folded into classes, and what differs between them.

mod cover;
mod node_list;
mod rehearsal;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::saved_host::{EnvironmentFacts, GpuMode, LoaderFacts, SavedHost, Unstated};

pub use node_list::{expanded, natural, node_list};
pub use rehearsal::{Effect, Fare, HardwareChange, Judged, Outcome, first_to_change, outcomes};

/// Machines with equal facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Their names, in natural order: `n2` before `n10`.
    pub nodes: Vec<String>,
    /// The facts; identifiers of single GPUs are those of the first machine.
    pub host: Host,
    /// What was kept beside them, of the first machine.
    pub loader: Option<LoaderFacts>,
    /// The environment, where one was asked for.
    pub environment: Option<EnvironmentFacts>,
    /// How the GPUs are set, by NVML index.
    pub modes: BTreeMap<u32, GpuMode>,
    /// Which facts nobody stated.
    pub unstated: Unstated,
}

/// A fact that is not the same on all machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `driver`, `cuda-compat`, `gpus`, `platform`, `libc`, `ecc`, `mig`, `system cudnn`, `environment`.
    pub fact: &'static str,
    /// Its values, the most frequent first.
    pub values: Vec<Value>,
}

/// A value of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Value {
    /// The value as text; `unknown` and `none` are values too.
    pub value: String,
    /// The machines that have it.
    pub nodes: Vec<String>,
}

/// Folds machines with equal facts. The largest class comes first.
pub fn classes(nodes: Vec<(String, SavedHost)>) -> Vec<Class> {
    let mut by_facts: BTreeMap<Vec<Option<String>>, Class> = BTreeMap::new();
    for (name, SavedHost { host, loader, environment, modes, unstated }) in nodes {
        let one = Class { nodes: Vec::new(), host, loader, environment, modes, unstated };
        let key: Vec<Option<String>> = facts(&one).into_iter().map(|(_, value)| value).collect();
        by_facts.entry(key).or_insert(one).nodes.push(name);
    }
    let mut out: Vec<Class> = by_facts.into_values().collect();
    for class in &mut out {
        class.nodes.sort_by_cached_key(|name| natural(name));
    }
    out.sort_by_cached_key(|class| {
        (std::cmp::Reverse(class.nodes.len()), class.nodes.first().map(|n| natural(n)))
    });
    out
}

/// What differs between classes, one fact after the other.
pub fn differences(classes: &[Class]) -> Vec<Difference> {
    let mut by_fact: Vec<(&'static str, BTreeMap<String, Vec<String>>)> = Vec::new();
    for class in classes {
        for (place, (fact, value)) in facts(class).into_iter().enumerate() {
            if by_fact.len() == place {
                by_fact.push((fact, BTreeMap::new()));
            }
            let Some(value) = value else { continue };
            by_fact[place].1.entry(value).or_default().extend(class.nodes.iter().cloned());
        }
    }
    by_fact
        .into_iter()
        .filter(|(_, values)| values.len() > 1)
        .map(|(fact, values)| {
            let mut values: Vec<Value> = values
                .into_iter()
                .map(|(value, mut nodes)| {
                    nodes.sort_by_cached_key(|name| natural(name));
                    Value { value, nodes }
                })
                .collect();
            values.sort_by_key(|value| std::cmp::Reverse(value.nodes.len()));
            Difference { fact, values }
        })
        .collect()
}

/// The facts of a machine by which it is compared with others. `None` where a fact does not apply.
fn facts(class: &Class) -> [(&'static str, Option<String>); 9] {
    let host = &class.host;
    let driver = match (&host.driver, host.has_no_gpu()) {
        (Some(driver), _) => driver.version.to_string(),
        (None, true) => "none".to_owned(),
        (None, false) => "unknown".to_owned(),
    };
    let compat = host.driver.as_ref().and_then(|driver| driver.compat.as_ref());
    let gpus = match &host.gpus {
        None => "unknown".to_owned(),
        Some(gpus) if gpus.is_empty() => "none".to_owned(),
        Some(gpus) => {
            let mut counted: BTreeMap<String, usize> = BTreeMap::new();
            for gpu in gpus {
                let memory = gpu.memory_mib.map(|mib| format!(", {mib} MiB")).unwrap_or_default();
                *counted.entry(format!("{}{memory}", gpu.label())).or_default() += 1;
            }
            counted.into_iter().map(|(label, n)| format!("{n}x {label}")).collect::<Vec<_>>().join(" + ")
        }
    };
    let environment = match &class.environment {
        None => "unknown".to_owned(),
        Some(own) => {
            let digest: String = own.digest.chars().take(SHOWN_DIGEST).collect();
            format!("{} packages, {digest}", own.packages.len())
        }
    };
    let libc = host.system.libc.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    let unsupported = host.notes.iter().find_map(|note| match note {
        HostNote::CompatUnsupported { release, .. } => Some(format!("{release}, which does not work there")),
        _ => None,
    });
    let is_compat_unknown = (host.driver.is_none() && !host.has_no_gpu()) || class.unstated.compat;
    let compat = match (compat, unsupported) {
        (Some(compat), _) => compat.to_string(),
        (None, Some(unsupported)) => unsupported,
        (None, None) if is_compat_unknown => "unknown".to_owned(),
        _ => "none".to_owned(),
    };
    let platform = match class.unstated.platform {
        true => "unknown".to_owned(),
        false => host.system.platform.to_string(),
    };
    [
        ("driver", Some(driver)),
        ("cuda-compat", Some(compat)),
        ("gpus", Some(gpus)),
        ("platform", Some(platform)),
        ("libc", Some(libc)),
        ("ecc", mode(class, |mode| mode.ecc)),
        ("mig", mode(class, |mode| mode.mig)),
        ("system cudnn", Some(class.loader.as_ref().map_or_else(|| "unknown".to_owned(), cudnn))),
        ("environment", Some(environment)),
    ]
}

/// A mode of the GPUs: `on`, `off`, `on for 2 of 4`.
fn mode(class: &Class, of: impl Fn(&GpuMode) -> Option<bool>) -> Option<String> {
    let known: Vec<bool> = class.modes.values().filter_map(of).collect();
    let all = class.host.gpus.as_ref().map_or(0, Vec::len).max(known.len());
    let unknown = match all - known.len() {
        0 => String::new(),
        count => format!(", {count} unknown"),
    };
    match (known.len(), known.iter().filter(|is_on| **is_on).count()) {
        (0, _) if class.host.has_no_gpu() => None,
        (0, _) => Some("unknown".to_owned()),
        (known, 0) if known == all => Some("off".to_owned()),
        (known, on) if known == on && known == all => Some("on".to_owned()),
        (_, on) => Some(format!("on for {on} of {all}{unknown}")),
    }
}

/// How many characters of a digest tell it from others: `sha256:` and twelve digits.
const SHOWN_DIGEST: usize = 19;

/// The files of cuDNN's main library that the loader's cache leads to: `libcudnn.so.9.10.2`.
fn cudnn(loader: &LoaderFacts) -> String {
    let main = loader.libraries.iter().filter(|(name, _)| name.starts_with("libcudnn.so"));
    let mut files: Vec<&str> = main.map(|(_, file)| file.rsplit('/').next().unwrap_or(file)).collect();
    files.sort_unstable();
    files.dedup();
    match files.is_empty() {
        true => "none".to_owned(),
        false => files.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::host::Driver;
    use crate::model::platform::Platform;

    fn host(driver: Option<&str>) -> SavedHost {
        let mut host = Host::open(Platform::LINUX_X86_64, "t");
        host.driver = driver.map(|version| Driver {
            version: version.parse().unwrap(),
            cuda: None,
            compat: None,
            found_by: "t".into(),
        });
        host.into()
    }

    #[test]
    fn equal_machines_are_one_class() {
        let nodes =
            (1..=12).map(|n| (format!("n{n}"), host(Some(if n == 7 { "535.54.03" } else { "580.65.06" }))));
        let classes = classes(nodes.rev().collect());
        let shown: Vec<String> = classes.iter().map(|class| node_list(&class.nodes)).collect();
        assert_eq!(shown, ["n[1-6,8-12]", "n7"]);
        let found = differences(&classes);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].fact, found[0].values[0].value.as_str()), ("driver", "580.65.06"));
        assert_eq!(found[0].values[1].nodes, ["n7"]);
        assert_eq!(differences(&classes[..1]), []);
        assert_eq!((super::classes(Vec::new()), differences(&[])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_is_unknown_is_not_what_is_absent() {
        let unknown = host(None);
        let without = Host { gpus: Some(Vec::new()), ..host(None).host };
        let classes = classes(vec![("a".to_owned(), unknown), ("b".to_owned(), without.into())]);
        assert_eq!(classes.len(), 2);
        let facts: Vec<&str> = differences(&classes).iter().map(|difference| difference.fact).collect();
        assert_eq!(facts, ["driver", "cuda-compat", "gpus"]);
    }

    #[test]
    fn libraries_of_the_system_and_environments_differ() {
        let with = |cudnn: &str, digest: &str| SavedHost {
            loader: Some(LoaderFacts {
                variables: BTreeMap::from([("LD_LIBRARY_PATH".to_owned(), digest.to_owned())]),
                libraries: BTreeMap::from([("libcudnn.so.9".to_owned(), format!("/usr/lib/{cudnn}"))]),
            }),
            environment: Some(EnvironmentFacts { digest: digest.to_owned(), ..EnvironmentFacts::default() }),
            ..host(Some("580.65.06"))
        };
        let nodes = vec![
            ("a".to_owned(), with("libcudnn.so.9.10.2", "sha256:0123456789abcdef")),
            ("b".to_owned(), with("libcudnn.so.9.8.0", "sha256:0123456789abcdef")),
            ("c".to_owned(), with("libcudnn.so.9.8.0", "sha256:fedcba9876543210")),
        ];
        let found = differences(&classes(nodes));
        let shown: Vec<_> =
            found.iter().map(|d| (d.fact, d.values[0].value.as_str(), d.values[0].nodes.len())).collect();
        assert_eq!(shown[0], ("system cudnn", "libcudnn.so.9.8.0", 2));
        assert_eq!(shown[1], ("environment", "0 packages, sha256:0123456789ab", 2));
    }

    #[test]
    fn nodes_that_are_set_otherwise_differ() {
        let set = |ecc: &[Option<bool>]| SavedHost {
            modes: (0..).zip(ecc.iter().map(|ecc| GpuMode { ecc: *ecc, mig: Some(false) })).collect(),
            ..host(Some("580.65.06"))
        };
        let nodes = vec![
            ("a".to_owned(), set(&[Some(true), Some(true)])),
            ("b".to_owned(), set(&[Some(true), Some(false)])),
            ("c".to_owned(), set(&[Some(false)])),
            ("d".to_owned(), set(&[None])),
        ];
        let found = differences(&classes(nodes));
        assert_eq!(found.len(), 1);
        let values: Vec<&str> = found[0].values.iter().map(|value| value.value.as_str()).collect();
        assert_eq!((found[0].fact, values), ("ecc", vec!["off", "on", "on for 1 of 2", "unknown"]));
    }
}
