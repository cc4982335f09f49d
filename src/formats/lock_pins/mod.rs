//! Locks whose versions bound what the manifest beside them requires: of uv and poetry, of pixi and conda-lock.

pub(super) mod conda_locks;
pub(super) mod python;

use std::collections::{BTreeMap, BTreeSet};

use super::imported::Imported;
use crate::model::nvidia::is_of_nvidia;
use crate::model::text::clean;

/// Packages that the build of torch brings with it: their versions follow from the build, which the hardware decides.
fn is_of_a_build(name: &str) -> bool {
    is_of_nvidia(name) || name.starts_with("cuda-") || ["triton", "pytorch-triton"].contains(&name)
}

/// Bounds the packages that a lock has in one version. Returns those that it has in several.
fn bound(out: &mut Imported, versions: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut several = Vec::new();
    for (name, versions) in versions {
        match versions.len() {
            1 => out.constraints.extend(versions.into_iter().map(|version| format!("{name}=={version}"))),
            _ => several.push(name),
        }
    }
    several
}

/// Says which packages a lock has in several versions.
fn leave_out_several(out: &mut Imported, several: &[String], name: &str) {
    if several.is_empty() {
        return;
    }
    let why = format!("{} has several of each, for different machines", clean(name, 80));
    out.leave_out_because(&format!("the version of {}", several.join(", ")), &why);
}
