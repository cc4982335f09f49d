//! What installers say of the releases that they can see.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use crate::diagnose::facts::Facts;
use crate::model::platform::{Os, Platform};
use crate::model::surroundings::Surrounding;
use crate::model::version::public;
use crate::registry::Registry;

/// The limit of releases that are read.
const MAX_RELEASES: usize = 1000;

/// Reads pip's `Could not find a version that satisfies the requirement torch==9 (from versions: 2.9.0, 2.9.1)`: the releases
/// that have a wheel for this Python and platform.
pub(super) fn read(text: &str, facts: &mut Facts) {
    let Some((_, asked)) = text.split_once("satisfies the requirement torch") else { return };
    let Some((bounds, list)) = asked.split_once("(from versions: ") else { return };
    if bounds.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_') {
        return;
    }
    // A list that was cut says nothing of the newest.
    let Some((list, _)) = list.split_once(')') else { return };
    let versions = list.split(", ").take(MAX_RELEASES).filter_map(|version| version.parse::<Version>().ok());
    facts.offered_torch = versions.collect();
}

/// Completes the facts by what the releases that pip sees say of its Python and platform: those whose wheels they are, where the
/// data have no others with the same releases.
pub(in crate::diagnose) fn infer(facts: &mut Facts, registry: &Registry) {
    let builds = || registry.builds().iter().filter(|build| build.on_pypi);
    let known: BTreeSet<&Version> = builds().map(|build| &build.version).collect();
    let offered: BTreeSet<Version> = facts.offered_torch.iter().map(public).collect();
    let offered: BTreeSet<&Version> = offered.iter().filter(|version| known.contains(version)).collect();
    // Builds with a local version are of another index than the data compare with.
    if offered.is_empty() || facts.offered_torch.iter().any(Version::is_local) {
        return;
    }
    let mut wheels: BTreeMap<(Platform, u32), BTreeSet<&Version>> = BTreeMap::new();
    for build in builds() {
        for minor in build.pythons.iter().flatten() {
            wheels.entry((build.platform, *minor)).or_default().insert(&build.version);
        }
    }
    wheels.retain(|_, own| *own == offered);
    let platforms: BTreeSet<Platform> = wheels.keys().map(|(platform, _)| *platform).collect();
    let minors: BTreeSet<u32> = wheels.keys().map(|(_, minor)| *minor).collect();
    if let (None, [minor]) = (&facts.python, minors.into_iter().collect::<Vec<_>>().as_slice()) {
        facts.python = Some(format!("3.{minor}"));
    }
    if let [platform] = platforms.into_iter().collect::<Vec<_>>().as_slice() {
        facts.platform = Some(*platform);
        facts.surroundings.extend(match platform.os {
            Os::Macos => Some(Surrounding::Macos),
            Os::Windows => Some(Surrounding::Windows),
            Os::Linux => None,
        });
    }
}

/// The build of torch that an installer did not find: `1.13.1` and `cu116` of `torch==1.13.1+cu116`.
pub(in crate::diagnose) fn asked_build(text: &str) -> Option<(Version, String)> {
    let (_, asked) = text.split_once("torch==")?;
    let end = asked.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '+'));
    let (version, local) = asked[..end.unwrap_or(asked.len())].trim_end_matches('.').split_once('+')?;
    Some((version.parse().ok()?, local.to_owned()))
}

/// The release of torch that an installer did not find.
pub(in crate::diagnose) fn asked_release(text: &str) -> Option<Version> {
    let (_, asked) = text.split_once("torch==")?;
    let end = asked.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    asked[..end.unwrap_or(asked.len())].trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists are those of PyPI: the last wheels for a Mac with an Intel processor are of 2.2.2, Python 3.12 begins at 2.2.0.
    #[test]
    fn the_place_by_its_releases() {
        let of = |list: &str| {
            let mut facts = Facts::default();
            let line = "ERROR: Could not find a version that satisfies the requirement torch==9";
            read(&format!("{line} (from versions: {list})"), &mut facts);
            infer(&mut facts, &Registry::embedded());
            (facts.platform.map(|platform| platform.to_string()), facts.python)
        };
        let intel = |python: &str| (Some("macos-x86_64".to_owned()), Some(python.to_owned()));
        assert_eq!(of("2.2.0, 2.2.1, 2.2.2"), intel("3.12"));
        assert_eq!(of("2.0.0, 2.0.1, 2.1.0, 2.1.1, 2.1.2, 2.2.0, 2.2.1, 2.2.2"), intel("3.11"));
        assert_eq!(of("2.9.1"), (None, None));
        assert_eq!(of("none"), (None, None));
        assert_eq!(of("2.2.0+cu121, 2.2.1+cu121, 2.2.2+cu121"), (None, None));
    }

    #[test]
    fn releases_that_pip_sees() {
        let of = |text: &str| {
            let mut facts = Facts::default();
            read(text, &mut facts);
            facts.offered_torch.iter().max().map(ToString::to_string)
        };
        let start = "ERROR: Could not find a version that satisfies the requirement";
        let some = |version: &str| Some(version.to_owned());
        assert_eq!(
            of(&format!("{start} torch==2.15.0 (from versions: 1.13.1, 2.10.0, 2.9.1)")),
            some("2.10.0")
        );
        assert_eq!(of(&format!("{start} torch (from versions: none)")), None);
        assert_eq!(of(&format!("{start} torch==2.15.0 (from versions: 1.13.1, 2.1")), None);
        assert_eq!(of(&format!("{start} torchvision==9 (from versions: 0.1.6)")), None);
        assert_eq!(of(&format!("{start} torch-scatter==9 (from versions: 2.1.2)")), None);
        let build = |text: &str| asked_build(text).map(|(version, local)| format!("{version} {local}"));
        assert_eq!(build("no matching distribution found for torch==1.13.1+cu116"), some("1.13.1 cu116"));
        assert_eq!(build("there is no version of torch==2.9.1+cu128, we can"), some("2.9.1 cu128"));
        assert_eq!(build("torch==2.9.1"), None);
        assert_eq!(asked_release("found for torch==2.15.0 x").map(|v| v.to_string()), some("2.15.0"));
    }
}
