//! Changes of the GPUs between two looks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, change};
use crate::model::finding::Severity;
use crate::model::host::Gpu;

/// Adds the changes of the GPUs. What one look does not know of a GPU is not compared.
pub(super) fn changes(then: &[Gpu], now: &[Gpu], out: &mut Vec<Change>) {
    let is_silent = |gpu: &&Gpu| gpu.name.is_none() && gpu.capability.is_none();
    if let Some(silent) = now.iter().find(is_silent).filter(|_| !then.iter().any(|gpu| is_silent(&gpu))) {
        let effect = "it does not say what it is: `envlock verify --only machine` asks whether it answers";
        let before = then.iter().find(|gpu| gpu.index == silent.index).map(Gpu::label).unwrap_or_default();
        out.push(change("gpus", before, format!("GPU {}", silent.index), Severity::Warning, effect));
        return;
    }
    let Some(pairs) = pairs(then, now) else {
        let (severity, effect) = effect(then, now);
        out.push(change("gpus", shown(then), shown(now), severity, &effect));
        return;
    };
    for (then, now) in &pairs {
        if let (Some(before), Some(after)) = (then.memory_mib, now.memory_mib)
            && before != after
        {
            let (severity, effect) = match after < before {
                true => (Severity::Warning, "programs that filled its memory fail"),
                false => (Severity::Info, "more memory"),
            };
            let fact = format!("memory of GPU {}", now.index);
            out.push(change(&fact, format!("{before} MiB"), format!("{after} MiB"), severity, effect));
        }
    }
    let ids =
        |gpus: &[Gpu]| -> Option<BTreeSet<String>> { gpus.iter().map(|gpu| gpu.uuid.clone()).collect() };
    if let (Some(before), Some(after)) = (ids(then), ids(now))
        && before != after
    {
        let list = |ids: BTreeSet<String>| ids.into_iter().collect::<Vec<_>>().join(", ");
        let effect = "another GPU of the same kind";
        out.push(change("identifiers of GPUs", list(before), list(after), Severity::Info, effect));
    }
}

/// Pairs each GPU with one that it may be, as far as both are known; `None` if there is no such pairing.
pub(super) fn pairs<'g>(then: &'g [Gpu], now: &'g [Gpu]) -> Option<Vec<(&'g Gpu, &'g Gpu)>> {
    if then.len() != now.len() {
        return None;
    }
    fn may_be<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
    let mut left: Vec<&Gpu> = then.iter().collect();
    // Those that are known best take theirs first.
    let mut order: Vec<&Gpu> = now.iter().collect();
    order.sort_by_key(|gpu| (gpu.name.is_none(), gpu.capability.is_none()));
    let mut out = Vec::new();
    for gpu in order {
        let fits =
            |other: &&Gpu| may_be(&gpu.name, &other.name) && may_be(&gpu.capability, &other.capability);
        let known = |other: &&Gpu| fits(other) && other.name.is_some() == gpu.name.is_some();
        let at = left.iter().position(known).or_else(|| left.iter().position(fits))?;
        out.push((left.remove(at), gpu));
    }
    Some(out)
}

/// What other GPUs mean for programs.
fn effect(then: &[Gpu], now: &[Gpu]) -> (Severity, String) {
    let kinds = |gpus: &[Gpu]| -> BTreeSet<String> { gpus.iter().map(Gpu::label).collect() };
    let capabilities =
        |gpus: &[Gpu]| -> Option<BTreeSet<_>> { gpus.iter().map(|gpu| gpu.capability).collect() };
    let is_known_kind = kinds(now).is_subset(&kinds(then));
    let needs_other_code = match (capabilities(then), capabilities(now)) {
        (Some(then), Some(now)) => !now.is_subset(&then),
        _ => !is_known_kind,
    };
    let count = (then.len(), now.len());
    match () {
        () if now.is_empty() => (Severity::Error, "no program can use a GPU".to_owned()),
        () if is_known_kind && count.1 < count.0 => {
            (Severity::Error, format!("programs find {} of {} GPUs", count.1, count.0))
        }
        () if is_known_kind && count.1 > count.0 => (Severity::Info, "more GPUs".to_owned()),
        () if is_known_kind => (Severity::Warning, "as many GPUs, and others of these kinds".to_owned()),
        () if needs_other_code => {
            (Severity::Warning, "programs need machine code for another compute capability".to_owned())
        }
        () => (Severity::Warning, "other GPUs".to_owned()),
    }
}

/// `2 x NVIDIA A100 (8.0), NVIDIA H100 (9.0)`.
pub(super) fn shown(gpus: &[Gpu]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    gpus.iter().for_each(|gpu| *counts.entry(gpu.label()).or_default() += 1);
    let all = counts
        .iter()
        .map(|(label, count)| if *count == 1 { label.clone() } else { format!("{count} x {label}") });
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `A100/8.0/81920/GPU-1`; an empty part is unknown.
    fn gpus(texts: &[&str]) -> Vec<Gpu> {
        let gpu = |(text, index): (&&str, u32)| {
            let parts: Vec<&str> = text.split('/').chain(std::iter::repeat("")).take(4).collect();
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Gpu {
                index,
                name: some(parts[0]),
                capability: parts[1].parse().ok(),
                memory_mib: parts[2].parse().ok(),
                uuid: some(parts[3]),
                pci_id: None,
                found_by: "t".into(),
            }
        };
        texts.iter().zip(0..).map(gpu).collect()
    }

    #[test]
    fn what_is_unknown_is_not_changed() {
        let full = ["A100/8.0/81920/GPU-1", "A100/8.0/81920/GPU-2"];
        for (then, now, expected) in [
            (&full[..], &full[..], &[][..]),
            (&full, &["A100", "A100"], &[]),
            (&full, &["/8.0", "/8.0"], &[]),
            (&["A100/8.0", "H100/9.0"], &["H100/9.0", "A100/8.0"], &[]),
            (&["A100/8.0", "H100/9.0"], &["/9.0", "A100"], &[]),
            (
                &full,
                &["A100/8.0", "/"],
                &["it does not say what it is: `envlock verify --only machine` asks whether it answers"],
            ),
            (&full, &["A100/8.0"], &["programs find 1 of 2 GPUs"]),
            (&full, &[], &["no program can use a GPU"]),
            (
                &["A/8.0", "A/8.0", "H/9.0"],
                &["A/8.0", "H/9.0", "H/9.0"],
                &["as many GPUs, and others of these kinds"],
            ),
            (
                &["V100/7.0"; 8],
                &["H100/9.0"; 4],
                &["programs need machine code for another compute capability"],
            ),
            (&["A100/8.0"], &["A30/8.0"], &["other GPUs"]),
            (&["A100/8.0"], &["A100/8.0", "A100/8.0"], &["more GPUs"]),
            (&["A100/8.0/81920"], &["A100/8.0/40960"], &["programs that filled its memory fail"]),
            (&["A100/8.0/81920/GPU-1"], &["A100/8.0/81920/GPU-2"], &["another GPU of the same kind"]),
        ] {
            let mut out = Vec::new();
            changes(&gpus(then), &gpus(now), &mut out);
            let effects: Vec<&str> = out.iter().map(|change| change.effect.as_str()).collect();
            assert_eq!(effects, expected, "{then:?} -> {now:?}");
        }
    }
}
