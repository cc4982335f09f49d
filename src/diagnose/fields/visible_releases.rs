//! What installers say of the releases that they can see.

use pep440_rs::Version;

use crate::diagnose::facts::Facts;

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
