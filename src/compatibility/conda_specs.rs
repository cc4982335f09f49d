//! What conda packages ask of a machine, as an envelope has it.

use pep440_rs::Version;
use semver::Version as Semver;

use super::driver::{Policy, required_driver};
use super::runtime::cuda_of_package;
use crate::model::conda::machine_spec;
use crate::model::platform::Os;
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// What the envelope of conda packages does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadSpec {
    /// A package needs a driver for a CUDA version whose driver is not known.
    Cuda {
        /// conda's name of the package.
        package: String,
        /// As its spec has it: `14.2`.
        cuda: DottedVersion,
    },
    /// The highest level of the processor that a package needs, `x86_64_v3`, which a host does not state.
    Processor(String),
}

/// How a package asks for a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    /// By a match spec of conda on `__cuda`, of its requirements or its `constrains`: `__cuda >=12.4`.
    Spec(String),
    /// By the CUDA that it brings or was built for.
    Cuda(Semver),
}

/// The driver that a package asks for beyond what the frameworks need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedDriver {
    /// The package with its version: `ffmpeg 7.1.0`.
    pub package: String,
    /// How it asks for it.
    pub asks: Asks,
    /// The first driver that will do.
    pub driver: DottedVersion,
}

impl AskedDriver {
    /// The package that asks for the newest driver by the CUDA that it brings or was built for.
    pub fn of_packages<'p>(
        registry: &Registry,
        os: Os,
        packages: impl Iterator<Item = (&'p str, &'p Version)>,
    ) -> Option<AskedDriver> {
        let of = |(name, version): (&str, &Version)| {
            let cuda = cuda_of_package(registry, name, version)?;
            let driver = required_driver(registry, &cuda, os, Policy::Minor)?.value;
            Some(AskedDriver { package: format!("{name} {version}"), asks: Asks::Cuda(cuda), driver })
        };
        packages.filter_map(of).max_by(|one, other| one.driver.cmp(&other.driver))
    }

    /// The one that asks for the newer driver, if that is newer than the one that the frameworks need anyway.
    pub fn newest(
        all: impl IntoIterator<Item = AskedDriver>,
        floor: Option<&DottedVersion>,
    ) -> Option<AskedDriver> {
        let newest = all.into_iter().max_by(|one, other| one.driver.cmp(&other.driver))?;
        floor.is_none_or(|floor| newest.driver > *floor).then_some(newest)
    }
}

/// The newest driver that packages ask for. `specs`: each with the name and version of its package.
pub fn asked_driver<'s>(
    registry: &Registry,
    os: Os,
    specs: impl IntoIterator<Item = (String, &'s str)>,
) -> Option<AskedDriver> {
    let mut out: Option<AskedDriver> = None;
    for (package, text) in specs {
        let cuda = machine_spec(text).filter(|spec| spec.name == "__cuda").and_then(|spec| spec.at_least);
        let Some(cuda) = cuda else { continue };
        let version = Semver::new(u64::from(cuda.major()), u64::from(cuda.minor()), 0);
        let Some(driver) = required_driver(registry, &version, os, Policy::Native) else { continue };
        if out.as_ref().is_none_or(|known| known.driver < driver.value) {
            out = Some(AskedDriver {
                package,
                asks: Asks::Spec(text.split_whitespace().collect::<Vec<_>>().join(" ")),
                driver: driver.value,
            });
        }
    }
    out
}

/// Adds what match specs ask of a machine to an envelope: `__glibc >=2.28`, and `__cuda >=12.8`, which is a driver that
/// supports CUDA 12.8 itself. `specs`: each with the name of its package, of requirements and of `constrains`.
pub fn with_machine_specs<'s>(
    registry: &Registry,
    envelope: &mut Envelope,
    specs: impl IntoIterator<Item = (&'s str, &'s str)>,
) -> Vec<UnreadSpec> {
    let mut unread = Vec::new();
    let mut levels: Vec<String> = Vec::new();
    for (package, text) in specs {
        let Some(spec) = machine_spec(text) else { continue };
        match (spec.name.as_str(), spec.at_least) {
            ("__cuda", Some(cuda)) => {
                let version = Semver::new(u64::from(cuda.major()), u64::from(cuda.minor()), 0);
                match required_driver(registry, &version, envelope.platform.os, Policy::Native) {
                    Some(driver) => {
                        let floor = Some(driver.value);
                        for row in &mut envelope.coverage {
                            row.driver_min = row.driver_min.take().max(floor.clone());
                        }
                        envelope.driver = envelope.driver.take().max(floor);
                    }
                    None => unread.push(UnreadSpec::Cuda { package: package.to_owned(), cuda }),
                }
            }
            ("__glibc", at_least @ Some(_)) => envelope.glibc = envelope.glibc.take().max(at_least),
            ("__archspec", _) => levels.extend(spec.build.filter(|level| level.contains("_v"))),
            _ => {}
        }
    }
    unread.extend(levels.into_iter().max().map(UnreadSpec::Processor));
    unread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::platform::Platform;

    #[test]
    fn what_specs_add() {
        let registry = Registry::embedded();
        let platform = Platform::LINUX_X86_64;
        let mut envelope = Envelope { driver: None, coverage: Vec::new(), glibc: None, platform };
        let specs = [
            ("cuda-version", "__cuda >=12"),
            ("a", "__cuda >=12.8"),
            ("a", "__glibc >=2.28,<3.0.a0"),
            ("b", "__glibc >=2.17"),
            ("c", "__cuda >=99"),
            ("d", "__archspec 1 x86_64_v3"),
            ("d", "python >=3.12"),
        ];
        let named = specs.map(|(package, spec)| (package.to_owned(), spec));
        let asked = asked_driver(&registry, platform.os, named).unwrap();
        assert_eq!((asked.package.as_str(), asked.asks), ("a", Asks::Spec("__cuda >=12.8".to_owned())));
        let unread = with_machine_specs(&registry, &mut envelope, specs);
        assert_eq!(envelope.glibc.unwrap().as_str(), "2.28");
        let native = required_driver(&registry, &Semver::new(12, 8, 0), platform.os, Policy::Native);
        assert_eq!(envelope.driver, native.map(|driver| driver.value));
        let package = "c".to_owned();
        assert_eq!(
            unread,
            [
                UnreadSpec::Cuda { package, cuda: "99".parse().unwrap() },
                UnreadSpec::Processor("x86_64_v3".to_owned())
            ]
        );
    }
}
