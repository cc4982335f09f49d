//! A machine as conda sees it: virtual packages. What is not known of it limits nothing, as in every solve.
//!
//! Sources: conda's manual, "Managing virtual packages"; CEP 30 (virtual packages), CEP 46 (`__cuda_arch`).

use crate::model::host::Host;
use crate::model::platform::{Arch, Libc, Os};
use crate::registry::Registry;

/// A version that no package asks more than.
const OPEN: &str = "999";
/// The same of glibc: packages exclude a glibc 3 that does not exist.
const OPEN_GLIBC: &str = "2.999";

/// Whether a version stands for what is not known.
pub(super) fn is_open(version: &str) -> bool {
    [OPEN, OPEN_GLIBC].contains(&version)
}

/// One virtual package: name, version, build string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualPackage {
    /// `__cuda`.
    pub name: &'static str,
    /// `12.2`.
    pub version: String,
    /// `0`, or the processor of `__archspec`.
    pub build: String,
}

/// The virtual packages of a machine.
pub fn virtual_packages(host: &Host, registry: &Registry) -> Vec<VirtualPackage> {
    let of = |name: &'static str, version: &str, build: &str| VirtualPackage {
        name,
        version: version.to_owned(),
        build: build.to_owned(),
    };
    let platform = host.system.platform;
    let mut out = Vec::new();
    match platform.os {
        Os::Linux => {
            out.push(of("__unix", "0", "0"));
            out.push(of("__linux", OPEN, "0"));
            match &host.system.libc {
                Some(Libc::Glibc(version)) => out.push(of("__glibc", version.as_str(), "0")),
                // Packages of musl's world ask for it by another name.
                Some(_) => {}
                None => out.push(of("__glibc", OPEN_GLIBC, "0")),
            }
        }
        Os::Macos => {
            out.push(of("__unix", "0", "0"));
            let version =
                host.system.libc.as_ref().map_or(OPEN.to_owned(), |libc| libc.version().to_string());
            out.push(of("__osx", &version, "0"));
        }
        Os::Windows => out.push(of("__win", OPEN, "0")),
    }
    // The least that every processor of the architecture has: a lock is for more machines than one.
    let processor = match platform.arch {
        Arch::X86_64 => "x86_64",
        Arch::Aarch64 => "aarch64",
    };
    out.push(of("__archspec", "1", processor));
    if let Some(cuda) = cuda(host, registry) {
        out.push(of("__cuda", &cuda, "0"));
        // One that is not known is less than any.
        let lowest = host.capabilities().into_iter().min().flatten();
        out.push(of("__cuda_arch", &lowest.map_or(OPEN.to_owned(), |lowest| lowest.to_string()), "0"));
    }
    out
}

/// A machine on which nothing limits one virtual package.
pub fn opened(machine: &[VirtualPackage], name: &'static str) -> Vec<VirtualPackage> {
    let mut out: Vec<VirtualPackage> = machine.iter().filter(|own| own.name != name).cloned().collect();
    let version = if name == "__glibc" { OPEN_GLIBC } else { OPEN };
    out.push(VirtualPackage { name, version: version.to_owned(), build: "0".to_owned() });
    out
}

/// The newest CUDA that the driver supports; `None` without GPU, [`OPEN`] where the driver is not known.
fn cuda(host: &Host, registry: &Registry) -> Option<String> {
    if host.has_no_gpu() || host.gpus.is_none() && host.driver.is_none() {
        return None;
    }
    let Some(driver) = &host.driver else { return Some(OPEN.to_owned()) };
    let of_driver = || registry.cuda_of_driver(driver.user_mode());
    match (driver.compat.is_none().then_some(driver.cuda.as_ref()).flatten(), of_driver()) {
        (Some(told), _) => Some(told.to_string()),
        (None, Some(known)) => Some(format!("{}.{}", known.cuda.major, known.cuda.minor)),
        (None, None) => Some(OPEN.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::host::{Driver, Gpu};
    use crate::model::platform::Platform;

    #[test]
    fn what_is_not_known_limits_nothing() {
        let registry = crate::registry::frozen();
        let gpu = |capability: &str| Gpu {
            index: 0,
            name: None,
            capability: Some(capability.parse().unwrap()),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "test".into(),
        };
        let driver = |version: &str| Driver {
            version: version.parse().unwrap(),
            cuda: None,
            compat: None,
            found_by: "test".into(),
        };
        let open = Host::open(Platform::LINUX_X86_64, "test");
        let of = |host: &Host| {
            let all = virtual_packages(host, &registry);
            let version = |name: &str| all.iter().find(|one| one.name == name).map(|one| one.version.clone());
            (version("__cuda"), version("__cuda_arch"), version("__glibc"))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of(&open), (None, None, some(OPEN_GLIBC)));
        let none = Host { gpus: Some(vec![]), driver: Some(driver("535.129.03")), ..open.clone() };
        assert_eq!(of(&none).0, None);
        let two = Host {
            gpus: Some(vec![gpu("9.0"), gpu("7.0")]),
            driver: Some(driver("535.129.03")),
            ..open.clone()
        };
        assert_eq!(of(&two), (some("12.2"), some("7.0"), some(OPEN_GLIBC)));
        let described = Host { gpus: Some(vec![gpu("8.0")]), ..open };
        assert_eq!(of(&described).0, some(OPEN));
        let of_driver = Host { gpus: None, driver: Some(driver("535.129.03")), ..described };
        assert_eq!(of(&of_driver), (some("12.2"), some(OPEN), some(OPEN_GLIBC)));
    }
}
