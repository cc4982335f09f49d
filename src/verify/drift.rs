//! What changed on the machine since the lock was made for it: worth knowing, never wrong by itself.

use super::{Area, finding};
use crate::lockfile::Target;
use crate::model::finding::{Code, Severity};
use crate::model::host::Host;

/// Compares the machine that a target was locked for with the one at hand; facts that either does not know are
/// left out.
pub(super) fn check(target: &Target, host: &Host) -> Option<Area> {
    let locked = &target.host;
    let mut changes: Vec<String> = Vec::new();
    if let (Some(then), Some(now)) = (&locked.driver, &host.driver)
        && then.version != now.version
    {
        changes.push(format!("driver {} when locked, {} now", then.version, now.version));
    }
    // That a machine has no GPU at all is said by the host's own check.
    if let (Some(then), Some(now)) = (&locked.gpus, host.gpus.as_ref().filter(|now| !now.is_empty())) {
        let labels = |gpus: &[crate::model::host::Gpu]| {
            let mut labels: Vec<String> = gpus.iter().map(crate::model::host::Gpu::label).collect();
            labels.sort();
            labels
        };
        let capabilities = |gpus: &[crate::model::host::Gpu]| {
            let mut all: Vec<_> = gpus.iter().filter_map(|gpu| gpu.capability).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        if capabilities(then) != capabilities(now) {
            let then = if then.is_empty() { "none".to_owned() } else { labels(then).join(", ") };
            changes.push(format!("GPU {then} when locked, {} now", labels(now).join(", ")));
        }
    }
    if let (Some(then), Some(now)) = (&locked.system.libc, &host.system.libc)
        && (then.key(), then.version()) != (now.key(), now.version())
    {
        changes.push(format!("{then} when locked, {now} now"));
    }
    if changes.is_empty() {
        return None;
    }
    let findings = changes.iter().map(|text| finding(Code::Drift, Severity::Info, text.clone())).collect();
    Some(Area { name: "drift", findings, summary: "the machine is not as it was when locked".to_owned() })
}
