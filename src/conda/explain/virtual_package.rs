//! Requirements of the machine: virtual packages, which no channel has.

use rattler_conda_types::Version;

use super::Explainer;
use crate::conda::spec::{admits, parse};
use crate::conda::virtual_packages::{VirtualPackage, is_open};
use crate::model::conda::name_of_spec;
use crate::model::conflict::Party;

/// What the machine has instead of what a spec of a virtual package asks for, and who that is about. `None` if the machine has
/// it, or the spec is of another package.
pub(super) fn fault(explainer: &Explainer<'_>, spec: &str) -> Option<(String, Party)> {
    let name = name_of_spec(spec);
    if !name.starts_with("__") {
        return None;
    }
    let own = explainer.question.machine.iter().find(|own| own.name == name);
    if own.is_some_and(|own| fits(spec, own)) {
        return None;
    }
    let driver = explainer.asked.driver;
    Some(match (name, own) {
        ("__cuda" | "__cuda_arch", None) => (explainer.asked.without_gpu.to_owned(), Party::Gpu),
        (_, None) => (format!("the machine has no `{name}`"), Party::Platform),
        (_, Some(own)) if is_open(&own.version) => {
            (format!("the machine's `{name}` is not stated, and the newest is assumed"), party(name))
        }
        ("__cuda", Some(own)) => (format!("{driver} supports CUDA {}", own.version), Party::Driver),
        ("__cuda_arch", Some(own)) => {
            (format!("a GPU of the machine has compute capability {}", own.version), Party::Gpu)
        }
        ("__glibc", Some(own)) => (format!("the machine has glibc {}", own.version), Party::Glibc),
        (_, Some(own)) => {
            (format!("the machine has `{name} {} {}`", own.version, own.build), Party::Platform)
        }
    })
}

fn party(name: &str) -> Party {
    match name {
        "__cuda" => Party::Driver,
        "__cuda_arch" => Party::Gpu,
        "__glibc" => Party::Glibc,
        _ => Party::Platform,
    }
}

/// Whether a virtual package is what a spec asks for.
fn fits(spec: &str, own: &VirtualPackage) -> bool {
    let (Ok(parsed), Ok(version)) = (parse(spec), own.version.parse::<Version>()) else { return true };
    admits(&parsed, &version, &own.build)
}
