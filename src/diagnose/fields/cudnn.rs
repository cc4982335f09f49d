//! The cuDNN version at run time, not the system copies that a collector lists.

use super::{digits, version_in};
use crate::diagnose::facts::Facts;
use crate::model::version::cudnn_of_integer;

/// Reads cuDNN's version from torch's and TensorFlow's messages, and from Python output.
pub(super) fn read(lower: &str, facts: &mut Facts) {
    if facts.cudnn.is_some() || !lower.contains("cudnn") {
        return;
    }
    // `but found runtime version (8, 3, 3)`
    let tuple = after(lower, "found runtime version").map(|rest| {
        let inside = rest.trim_start_matches([' ', '(']).split(')').next().unwrap_or_default();
        inside.replace([',', ' '], ".").split('.').filter(|p| !p.is_empty()).collect::<Vec<_>>().join(".")
    });
    let loaded = || after(lower, "loaded runtime cudnn library:").and_then(version_in);
    let integer = || {
        let keys = ["cudnn.version()", "linked against", "cudnn_version", "cudnn version:", "cudnn version "];
        keys.iter().filter_map(|key| after(lower, key)).find_map(|rest| {
            let rest = rest.trim_start_matches([' ', ':', '=', '-', '>', ')']);
            cudnn_of_integer(digits(rest).parse().ok()?)
        })
    };
    facts.cudnn = tuple
        .filter(|version| version.parse::<crate::model::version::DottedVersion>().is_ok())
        .or_else(loaded)
        .or_else(integer);
}

fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.find(key).map(|at| &text[at + key.len()..])
}
