//! What an image demands of a machine in `NVIDIA_REQUIRE_*` variables.
//!
//! The rules are those of NVIDIA's container toolkit (its sources, `internal/requirements` and `cuda_image.go`): all variables
//! must hold; in one, a space separates alternatives and a comma joins conditions; conditions on other properties are ignored;
//! without `NVIDIA_REQUIRE_CUDA`, `CUDA_VERSION` demands its CUDA. `NVIDIA_DISABLE_REQUIRE` turns the check off.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::host::Host;
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// Maximum length of a variable that is read, in bytes. Those of NVIDIA's images have about 1,000.
const MAX_LENGTH: usize = 16 << 10;

/// What an image demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// Whether the machine meets it; `None` if that is not known.
    pub is_met: Option<bool>,
}

/// The demands of an image's variables, judged for a machine.
pub fn demands(variables: &BTreeMap<String, String>, host: &Host, registry: &Registry) -> Vec<Demand> {
    if variables.get("NVIDIA_DISABLE_REQUIRE").is_some_and(|value| is_true(value)) {
        return Vec::new();
    }
    let has = |name: &str| variables.get(name).is_some_and(|value| !value.is_empty());
    let mut texts: Vec<(&str, String)> = variables
        .iter()
        .filter(|(name, _)| {
            name.starts_with("NVIDIA_REQUIRE_") && !name.starts_with("NVIDIA_REQUIRE_JETPACK")
        })
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    if has("CUDA_VERSION") && !has("NVIDIA_REQUIRE_CUDA") {
        let version = variables["CUDA_VERSION"].parse::<DottedVersion>().ok();
        let short: Option<String> = version.map(|version| {
            version.as_str().split('.').chain(std::iter::repeat("0")).take(2).collect::<Vec<_>>().join(".")
        });
        texts.extend(short.map(|short| ("CUDA_VERSION", format!("cuda>={short}"))));
    }
    let known = Known::of(host, registry);
    texts
        .into_iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(variable, value)| Demand {
            is_met: if value.len() > MAX_LENGTH { None } else { any_of(&value, &known) },
            variable: clean(variable, 100),
            value: clean(&value, 400),
        })
        .collect()
}

/// The values that Go reads as true.
fn is_true(text: &str) -> bool {
    ["1", "t", "T", "true", "TRUE", "True"].contains(&text)
}

/// What is known of the machine.
struct Known {
    driver: Option<DottedVersion>,
    /// And whether it is a lower bound.
    cuda: Option<(DottedVersion, bool)>,
    /// The compute capabilities of its GPUs; `None` if one is unknown.
    capabilities: Option<Vec<DottedVersion>>,
}

impl Known {
    fn of(host: &Host, registry: &Registry) -> Known {
        let driver = host.driver.as_ref();
        // The driver's own CUDA: a cuda-compat package on the host is not in the container.
        let of_registry = || {
            let cuda = registry.cuda_of_driver(&driver?.version)?;
            Some((format!("{}.{}", cuda.cuda.major, cuda.cuda.minor).parse().ok()?, cuda.is_bound()))
        };
        let stated = driver.filter(|driver| driver.compat.is_none()).and_then(|driver| driver.cuda.clone());
        let capability = |gpu: &crate::model::host::Gpu| gpu.capability?.to_string().parse().ok();
        Known {
            driver: driver.map(|driver| driver.version.clone()),
            cuda: stated.map(|cuda| (cuda, false)).or_else(of_registry),
            capabilities: host
                .gpus
                .as_ref()
                .filter(|gpus| !gpus.is_empty())
                .and_then(|gpus| gpus.iter().map(capability).collect()),
        }
    }
}

/// Whether one of the alternatives holds.
fn any_of(value: &str, known: &Known) -> Option<bool> {
    let mut answer = Some(false);
    let mut any = false;
    for term in value.split(' ') {
        let conditions: Vec<Option<bool>> =
            term.split(',').filter_map(|condition| holds(condition, known)).collect();
        if conditions.is_empty() {
            continue;
        }
        any = true;
        let all = match () {
            () if conditions.contains(&Some(false)) => Some(false),
            () if conditions.contains(&None) => None,
            () => Some(true),
        };
        answer = match (answer, all) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, _) | (_, None) => None,
            _ => Some(false),
        };
    }
    if any { answer } else { Some(true) }
}

/// Whether a condition holds, `cuda>=12.4`: the inner value is `None` if that is not known. `None` for a condition that is
/// ignored.
fn holds(condition: &str, known: &Known) -> Option<Option<bool>> {
    if condition.trim().is_empty() {
        return None;
    }
    let Some(end) = condition.find(['<', '>', '=', '!']) else { return Some(None) };
    let (property, rest) = condition.split_at(end);
    if !["cuda", "driver", "arch", "brand"].contains(&property) {
        return None;
    }
    let operators: [(&str, fn(Ordering) -> bool); 6] = [
        ("!=", Ordering::is_ne),
        ("<=", Ordering::is_le),
        (">=", Ordering::is_ge),
        ("=", Ordering::is_eq),
        ("<", Ordering::is_lt),
        (">", Ordering::is_gt),
    ];
    let Some((operator, test)) = operators.into_iter().find(|(operator, _)| rest.starts_with(operator))
    else {
        return Some(None);
    };
    // Which brand the driver gives a GPU is not in the data.
    let Ok(value) = rest[operator.len()..].parse::<DottedVersion>() else { return Some(None) };
    let compare = |own: &Option<DottedVersion>| own.as_ref().map(|own| test(own.cmp(&value)));
    // What holds for the bound and for everything above it holds.
    let bound = |own: &DottedVersion| {
        let answer = test(own.cmp(&value));
        let possible = [Ordering::Less, Ordering::Equal, Ordering::Greater];
        possible
            .into_iter()
            .filter(|above| *above >= own.cmp(&value))
            .all(|above| test(above) == answer)
            .then_some(answer)
    };
    Some(match property {
        "cuda" => match &known.cuda {
            Some((own, true)) => bound(own),
            Some((own, false)) => compare(&Some(own.clone())),
            None => None,
        },
        "driver" => compare(&known.driver),
        "arch" => known.capabilities.as_ref().map(|all| all.iter().all(|own| test(own.cmp(&value)))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(driver: &str, cuda: &str, arch: &[&str]) -> Known {
        Known {
            driver: driver.parse().ok(),
            cuda: cuda.parse().ok().map(|cuda| (cuda, false)),
            capabilities: (!arch.is_empty()).then(|| arch.iter().map(|text| text.parse().unwrap()).collect()),
        }
    }

    #[test]
    fn alternatives_and_conditions() {
        let own = known("535.129.03", "12.2", &["8.0", "9.0"]);
        for (text, expected) in [
            ("cuda>=12.2", Some(true)),
            ("cuda>=12.4", Some(false)),
            ("cuda>12.2", Some(false)),
            ("cuda>=12.4 driver>=470,driver<536", Some(true)),
            ("cuda>=12.4 driver>=470,driver<471", Some(false)),
            ("cuda>=12.4 brand=tesla,driver>=470,driver<471", Some(false)),
            ("cuda>=12.4 brand=tesla,driver>=535,driver<536", None),
            ("cuda>=12.4  brand=tesla", None),
            ("arch>=8.0", Some(true)),
            ("arch>=9.0", Some(false)),
            ("colour=red", Some(true)),
            ("colour=red,cuda>=13", Some(false)),
            ("nonsense", None),
            ("cuda==12.2", None),
            ("", Some(true)),
        ] {
            assert_eq!(any_of(text, &own), expected, "{text}");
        }
        let newer = Known { cuda: Some(("13.5".parse().unwrap(), true)), ..known("630.10", "", &[]) };
        for (text, expected) in [
            ("cuda>=13.2", Some(true)),
            ("cuda>=13.6", None),
            ("cuda<13.5", Some(false)),
            ("cuda=13.5", None),
        ] {
            assert_eq!(any_of(text, &newer), expected, "{text}");
        }
        let open = known("", "", &[]);
        assert_eq!(any_of("cuda>=12.4", &open), None);
        assert_eq!(any_of("arch>=9.0 driver>=1", &open), None);
    }

    #[test]
    fn which_variables_count() {
        let registry = crate::registry::Registry::embedded();
        let mut host = Host::open(crate::model::platform::Platform::LINUX_X86_64, "t");
        host.driver = Some(crate::model::host::Driver {
            version: "535.129.03".parse().unwrap(),
            cuda: "12.2".parse().ok(),
            compat: None,
            found_by: "t".into(),
        });
        let found = |pairs: &[(&str, &str)]| -> Vec<(String, Option<bool>)> {
            let all = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            demands(&all, &host, &registry).into_iter().map(|one| (one.value, one.is_met)).collect()
        };
        assert_eq!(found(&[("CUDA_VERSION", "12.8.1")]), [("cuda>=12.8".to_owned(), Some(false))]);
        let with = [("CUDA_VERSION", "12.8.1"), ("NVIDIA_REQUIRE_CUDA", "cuda>=12.2")];
        assert_eq!(found(&with), [("cuda>=12.2".to_owned(), Some(true))]);
        assert_eq!(found(&[("NVIDIA_REQUIRE_CUDA", "cuda>=13"), ("NVIDIA_DISABLE_REQUIRE", "1")]), []);
        assert_eq!(found(&[("NVIDIA_REQUIRE_JETPACK", "x>=1"), ("CUDA_VERSION", "nightly")]), []);
    }
}
