//! Releases that may be between, below and above known ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};
use version_ranges::Ranges;

/// The releases that bounds admit. `==2.9.1+cu126` is one of release 2.9.1.
pub(super) fn admitted(bounds: &VersionSpecifiers) -> Ranges<Version> {
    let plain = |one: &VersionSpecifier| match one.operator() {
        Operator::Equal if one.version().is_local() => {
            VersionSpecifier::equals_version(one.version().clone().without_local())
        }
        _ => one.clone(),
    };
    Ranges::from(bounds.iter().map(plain).collect::<VersionSpecifiers>())
}

/// The release that bounds pin, without its local version.
pub(super) fn pinned(bounds: &VersionSpecifiers) -> Option<Version> {
    let pin = bounds.iter().find(|one| {
        matches!(one.operator(), Operator::Equal | Operator::ExactEqual)
            && bounds.iter().all(|other| other.contains(one.version()))
    })?;
    Some(pin.version().clone().without_local())
}

/// A release of each part of ranges, numbered as projects do.
pub(super) fn one_of_each(ranges: &Ranges<Version>) -> Vec<Version> {
    ranges.iter().filter_map(|(low, high)| one_between(low, high)).collect()
}

fn one_between(low: &Bound<Version>, high: &Bound<Version>) -> Option<Version> {
    let within = Ranges::<Version>::from_range_bounds((low.clone(), high.clone()));
    let mut open = Vec::new();
    if let Bound::Included(own) | Bound::Excluded(own) = low {
        open.extend([
            Version::new(own.release().iter().copied()),
            next_patch(own),
            own.clone().without_local(),
        ]);
    }
    if let Bound::Included(own) | Bound::Excluded(own) = high {
        open.extend([
            previous(own),
            Version::new(own.release().iter().copied()),
            own.clone().without_local(),
        ]);
    }
    // No package of the stack is older than its first release.
    open.push(Version::new([1]));
    open.into_iter().find(|version| within.contains(version))
}

/// `2.9.2` of 2.9.1, `2.9.1` of 2.9.
fn next_patch(version: &Version) -> Version {
    let mut parts = numbers(version);
    if let Some(last) = parts.last_mut() {
        *last = last.saturating_add(1);
    }
    Version::new(parts)
}

/// A release that is older: `1.7.99` of 1.8.0.
fn previous(version: &Version) -> Version {
    let mut parts = numbers(version);
    if let Some(at) = parts.iter().rposition(|part| *part > 0) {
        parts[at] -= 1;
        parts[at + 1..].fill(99);
    }
    Version::new(parts)
}

/// At least three numbers.
fn numbers(version: &Version) -> Vec<u64> {
    let mut parts = version.release().to_vec();
    parts.resize(parts.len().max(3), 0);
    parts
}

/// Where releases are missing among known ones: a minor line between two of a major version, or a patch below another one of its
/// line. Each hole with the known releases on both sides; there is none below the first.
pub(super) fn holes(known: &BTreeSet<Version>) -> Vec<(Version, Version)> {
    let mut patches: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut found = Vec::new();
    let mut before: Option<&Version> = None;
    for version in known.iter().filter(|version| !version.any_prerelease()) {
        let parts = numbers(version);
        let (line, patch) = ((parts[0], parts[1]), parts[2]);
        let expected = patches.get(&line).map_or(0, |last| last + 1);
        // The first known release may be the first of all.
        if let Some(before) = before {
            let old = numbers(before);
            if old[0] == line.0 && old[1] + 1 < line.1 || patch > expected {
                found.push((before.clone(), version.clone()));
            }
        }
        patches.insert(line, patch);
        before = Some(version);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_release_of_each_part() {
        for (bounds, expected) in [
            ("==2.99.0", "2.99.0"),
            ("==2.9.1+cu126", "2.9.1"),
            ("==2.15.*", "2.15"),
            (">2.15.0", "2.15.1"),
            (">=2.16", "2.16"),
            ("<1.8", "1.7.99"),
            ("<=1.5.1", "1.5.0"),
            (">1.6,<1.8", "1.6.1"),
            ("==2.6.0.dev20241112", "2.6.0.dev20241112"),
            ("<2,>=2", ""),
        ] {
            let found = one_of_each(&admitted(&bounds.parse().unwrap()));
            let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(shown.join(" "), expected, "{bounds}");
        }
    }

    #[test]
    fn holes_are_where_a_number_is_missing() {
        for (known, expected) in [
            ("2.0.0 2.0.1 2.1.0", ""),
            ("1.13.1 2.0.0", ""),
            ("2.4.0 2.6.0", "2.4.0-2.6.0"),
            ("2.4.0 2.4.2 2.5.0", "2.4.0-2.4.2"),
            ("2.4.0 2.5.1", "2.4.0-2.5.1"),
            ("2.4.1 2.5.0", ""),
        ] {
            let known: BTreeSet<Version> = known.split(' ').map(version).collect();
            let shown: Vec<String> =
                holes(&known).into_iter().map(|(low, high)| format!("{low}-{high}")).collect();
            assert_eq!(shown.join(" "), expected, "{known:?}");
        }
    }
}
