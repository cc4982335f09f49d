//! Findings about a bundle.

use super::finding;
use crate::bundle::Fault;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// What is wrong with a bundle.
pub fn bundle_differs(fault: &Fault, bundle: &str) -> Finding {
    let fix = match fault {
        Fault::Extra(place) => format!("remove `{place}` from the bundle"),
        Fault::Foreign { .. } | Fault::NoTarget(_) | Fault::NotListed(_) | Fault::NotLocked(_) => {
            "bundle this lock, where there is a network: `envlock bundle`".to_owned()
        }
        Fault::LockChanged
        | Fault::Missing(_)
        | Fault::Changed(_)
        | Fault::Size(_)
        | Fault::UnknownTarget(_) => {
            "copy the bundle again, or run `envlock bundle` into it: what is whole is kept".to_owned()
        }
    };
    finding(Code::BundleDiffers, Severity::Error, fault.to_string()).at(bundle).fixed_by(Fix::advice(fix))
}
