//! Findings about a bundle.

use super::finding;
use crate::bundle::Fault;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// What is wrong with a bundle. `command` makes it whole, where there is a network.
pub fn bundle_differs(fault: &Fault, bundle: &str, command: &str) -> Finding {
    let fix = match fault {
        Fault::Extra(place) => format!("remove `{place}` from the bundle"),
        Fault::Foreign { .. } | Fault::NoTarget(_) | Fault::NotListed(_) | Fault::NotLocked(_) => {
            format!("bundle this lock, where there is a network: `{command}`")
        }
        Fault::LockChanged
        | Fault::NoLock
        | Fault::NoFile(_)
        | Fault::Missing(_)
        | Fault::Changed(_)
        | Fault::Size(_)
        | Fault::UnknownTarget(_) => {
            format!(
                "copy the bundle again, or run `{command}` where there is a network: what is whole is kept"
            )
        }
    };
    finding(Code::BundleDiffers, Severity::Error, fault.to_string()).at(bundle).fixed_by(Fix::advice(fix))
}
