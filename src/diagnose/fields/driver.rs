//! The driver version: from nvidia-smi's banner, the kernel module's line, sentences and integers.

use super::{digits, gpus, short, version_in};
use crate::diagnose::facts::Facts;
use crate::diagnose::integers;

/// Reads nvidia-smi's banner, the kernel module's line, and sentences such as `driver 470.57.02`.
pub(super) fn read(text: &str, lower: &str, facts: &mut Facts) {
    if let Some(version) = of_query(lower) {
        set(version, facts);
    }
    let speaks_of_it = ["driver", "nvidia-", "kernel module"].iter().any(|word| lower.contains(word));
    if !speaks_of_it && !lower.contains("found version ") {
        return;
    }
    for key in [
        "driver version:",
        "driver version ",
        "nvidia-smi ",
        "kernel module ",
        "kernel module for x86_64 ",
        "driver ",
        "nvidia-utils: ",
    ] {
        let Some(at) = lower.find(key) else { continue };
        let Some(rest) = text.get(at + key.len()..) else { continue };
        if let Some(version) = version_in(rest).filter(|v| is_driver(v))
            && rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '=' || c == ':')
        {
            set(&version, facts);
        }
    }
    if lower.contains("cuda version:") || lower.contains("cuda umd version") {
        let at = lower.find("cuda version:").or_else(|| lower.find("cuda umd version")).unwrap_or(0);
        if let Some(version) = text.get(at..).and_then(version_in)
            && lower.contains("driver")
            && facts.driver_cuda.is_none()
        {
            facts.driver_cuda = Some(short(&version));
        }
    }
    // The driver's CUDA as an integer: 11040 is 11.4.
    if let Some(at) = lower.find("found version ")
        && let Some(cuda) = digits(&lower[at + 14..]).parse().ok().and_then(integers::cuda)
    {
        facts.driver_cuda = Some(cuda);
    }
}

/// The driver in a line of `nvidia-smi --query-gpu=driver_version,name --format=csv`: `550.144.03, NVIDIA RTX A5000`.
fn of_query(lower: &str) -> Option<&str> {
    let mut cells = lower.split(", ").map(str::trim);
    let is_version = |cell: &&str| cell.bytes().all(|b| b.is_ascii_digit() || b == b'.') && is_driver(cell);
    cells.clone().any(gpus::is_gpu).then(|| cells.find(is_version)).flatten()
}

/// Sets the driver version, if it is valid and the first.
pub(super) fn set(version: &str, facts: &mut Facts) {
    if facts.driver.is_none() && is_driver(version) {
        facts.driver = Some(version.to_owned());
        facts.no_driver_seen = false;
    }
}

fn is_driver(version: &str) -> bool {
    let mut parts = version.split('.');
    let branch = parts.next().and_then(|p| p.parse::<u32>().ok());
    branch.is_some_and(|branch| (300..1_000).contains(&branch)) && parts.next().is_some()
}
