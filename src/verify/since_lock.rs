//! What changed on the machine since the lock was made: informational, never an error.

use super::facts::Facts;
use super::paths::loaded_versions;
use super::{Area, AreaKind, findings};
use crate::model::host::{Gpu, Host};

/// Compares the machine that a target was locked for with this one, and the cuDNN that is loaded with the locked one. Facts
/// unknown on either side are skipped.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let (target, host) = (&facts.stack?.target, facts.machine.filter(|_| facts.role.is_here)?);
    // Where the manifest describes a kind of machines, none of them was looked at.
    let seen = (!facts.role.is_described).then_some(host);
    let mut changes = seen.map(|host| machine_changes(&target.host, host)).unwrap_or_default();
    let loaded_cudnn = facts.contents.and_then(|contents| loaded_versions(contents.native).0);
    // The installed packages may match the lock while the loader takes another cuDNN.
    if let (Some(then), Some(now)) = (target.stack.as_ref().and_then(|s| s.cudnn.as_ref()), &loaded_cudnn)
        && !(then.as_str() == now || then.as_str().starts_with(&format!("{now}.")))
    {
        changes.push(format!("cuDNN {then} when locked, {now} would be loaded now"));
    }
    if changes.is_empty() {
        return None;
    }
    let summary = match changes.len() {
        1 => "1 change since the lock was made, which is not an error".to_owned(),
        n => format!("{n} changes since the lock was made, none of them an error"),
    };
    let findings = changes.into_iter().map(findings::drift).collect();
    Some(Area { as_locked: None, kind: AreaKind::Drift, findings, summary })
}

/// Whether two names may mean the same product, one of them more specific.
fn may_be_same(a: &str, b: &str) -> bool {
    let words = |name: &str| -> String {
        let name = name.to_lowercase();
        name.trim_start_matches("nvidia").chars().filter(char::is_ascii_alphanumeric).collect()
    };
    let (a, b) = (words(a), words(b));
    a.starts_with(&b) || b.starts_with(&a)
}

/// The differences of the machine that was looked at or described when the lock was made, and this one.
fn machine_changes(locked: &Host, host: &Host) -> Vec<String> {
    let mut changes = Vec::new();
    if let (Some(then), Some(now)) = (&locked.driver, &host.driver)
        && then.version != now.version
    {
        changes.push(format!("driver {} when locked, {} now", then.version, now.version));
    }
    // The host check reports a machine without GPUs.
    if let (Some(then), Some(now)) = (&locked.gpus, host.gpus.as_ref().filter(|now| !now.is_empty())) {
        let labels = |gpus: &[Gpu]| {
            let mut labels: Vec<String> = gpus.iter().map(Gpu::label).collect();
            labels.sort();
            labels
        };
        let capabilities = |gpus: &[Gpu]| {
            let mut all: Vec<_> = gpus.iter().filter_map(|gpu| gpu.capability).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let names = |gpus: &[Gpu]| gpus.iter().filter_map(|gpu| gpu.name.clone()).collect::<Vec<_>>();
        let (known_then, known_now) = (names(then), names(now));
        // One name may be more specific: `NVIDIA A100` and `A100-SXM4-80GB` are the same product.
        let renamed = !known_then.is_empty()
            && known_now.iter().any(|name| !known_then.iter().any(|other| may_be_same(name, other)));
        if capabilities(then) != capabilities(now) || renamed || then.len() > 1 && then.len() != now.len() {
            let then = if then.is_empty() { "none".to_owned() } else { labels(then).join(", ") };
            changes.push(format!("GPU {then} when locked, {} now", labels(now).join(", ")));
        }
    }
    if let (Some(then), Some(now)) = (&locked.system.libc, &host.system.libc)
        && (then.key(), then.version()) != (now.key(), now.version())
    {
        changes.push(format!("{then} when locked, {now} now"));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::may_be_same;

    #[test]
    fn products() {
        for (a, b, same) in [
            ("NVIDIA A100", "NVIDIA A100-SXM4-80GB", true),
            ("NVIDIA H200", "NVIDIA H100 80GB HBM3", false),
            ("Tesla T4", "Tesla T4", true),
            ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3090", false),
        ] {
            assert_eq!(may_be_same(a, b), same, "{a} {b}");
        }
    }
}
