//! Findings about a container image as a whole.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::image_digest::ImageDigest;

/// An image is another one than the target of a lock names. `stated`: the digests that it has.
pub fn wrong_image(target: &str, locked: &ImageDigest, stated: &[&str]) -> Finding {
    let text = format!(
        "the target {target} is locked for the image {locked}, and this one is {}",
        stated.join(", ")
    );
    finding(Code::WrongImage, Severity::Error, text).fixed_by(Fix::advice(
        "name this image in `[target]` and run `envlock resolve`, or take the locked one; the digest of an index of several platforms names no single image",
    ))
}

/// An image demands what a machine does not have. A warning: NVIDIA's container toolkit checks it in its legacy mode alone.
pub fn image_requirement(variable: &str, demanded: &str, machine: &str) -> Finding {
    let text = format!(
        "the image demands `{demanded}` ({variable}), and the machine has {machine}: in its legacy mode, NVIDIA's container toolkit does not start it"
    );
    finding(Code::ImageRequirement, Severity::Warning, text).at(variable).fixed_by(Fix::advice(
        "update the driver; or set `NVIDIA_DISABLE_REQUIRE=1` for the container, if the environment is judged to run with this driver",
    ))
}
