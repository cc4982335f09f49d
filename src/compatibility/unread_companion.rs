//! Companions of torch that may exist although no row has them.

use std::fmt;

use pep440_rs::Version;
use version_ranges::Ranges;

use crate::model::platform::Platform;
use crate::model::request::Request;
use crate::registry::{COMPANIONS, Companion, Registry};

/// A companion that the request needs for its torch, and that no row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadCompanion {
    /// `torchvision`, `torchaudio`.
    pub package: &'static str,
    /// The newest torch that the request admits.
    pub torch: Version,
    /// Of releases that are older than all known ones, the oldest of those.
    pub known_from: Option<Version>,
}

impl UnreadCompanion {
    /// The command that reads it, as a hint.
    pub fn how_to_read(&self) -> String {
        if let Some(oldest) = &self.known_from {
            return format!("`{}>={oldest}` asks for one that is known", self.package);
        }
        format!("`envlock registry learn {}==VERSION` reads a release of PyPI", self.package)
    }
}

impl fmt::Display for UnreadCompanion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnreadCompanion { package, torch, known_from } = self;
        if let Some(oldest) = known_from {
            return write!(
                f,
                "the registry begins with {package} {oldest}, and an older one may run with torch {torch}"
            );
        }
        write!(f, "the registry has no row of a {package} for torch {torch}, which may exist")
    }
}

/// The companion that a request names and of which no row is for any torch that it admits, where a release that no row has
/// may be: where the index was asked (`has_read_index`), one that is older than all rows. That it is the cause of a refusal is not
/// said: the request without it may be refused, too.
pub fn unread_companion(
    registry: &Registry,
    platform: Platform,
    request: &Request,
    has_read_index: bool,
) -> Option<UnreadCompanion> {
    if registry.has_stack_of_channels() {
        return None;
    }
    let wanted = request.bounds_on("torch");
    let rows: Vec<_> = registry
        .builds()
        .iter()
        .filter(|build| build.platform == platform && build.yanked.is_none())
        .filter(|build| wanted.as_ref().is_none_or(|wanted| wanted.contains(&build.version)))
        .collect();
    let newest = rows.iter().map(|build| &build.version).max()?;
    // Whether it is open, and from which release on rows are about it if it is older.
    let unread = |package: &str| {
        let bounds = request.bounds_on(package)?;
        let of_package = || registry.companions().iter().filter(|row| row.package == package);
        let is_known = rows.iter().any(|build| {
            let fits = |row: &Companion| {
                row.platform == platform
                    && row.variant.as_ref() == Some(&build.variant)
                    && row.torch.as_ref().is_none_or(|bounds| bounds.contains(&build.version))
            };
            build.companion(package).is_some() || of_package().any(|row| fits(row))
        });
        let of_builds = registry.builds().iter().filter_map(|build| build.companion(package));
        let read: Vec<&Version> = of_package().map(|row| &row.version).chain(of_builds).collect();
        // One that only a build of torch names may be for others, too.
        let has_row = |version: &Version| of_package().any(|row| row.version == *version);
        let is_named_only = read.iter().any(|own| bounds.contains(own) && !has_row(own));
        let is_read = read.iter().any(|own| bounds.contains(own) && has_row(own));
        let oldest = registry.oldest_release(package, platform);
        let is_older =
            |oldest: &Version| Ranges::from(bounds.clone()).is_disjoint(&Ranges::higher_than(oldest.clone()));
        // One that was read is known.
        if let Some(oldest) = oldest.filter(|oldest| is_older(oldest) && !(is_known && is_read)) {
            return Some(Some(oldest));
        }
        // Between the known ones there are none: what may exist is newer.
        let newer = read.into_iter().max().cloned().map_or_else(Ranges::full, Ranges::strictly_higher_than);
        let is_open = is_named_only || !Ranges::from(bounds).is_disjoint(&newer);
        (!has_read_index && is_open && !(is_known && is_read)).then_some(None)
    };
    let mut all = COMPANIONS.into_iter().filter_map(|package| Some((package, unread(package)?)));
    let (package, known_from) = all.next()?;
    Some(UnreadCompanion { package, torch: newest.clone(), known_from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::{Origin, UserRequirement};
    use crate::registry::LearnedRow;

    #[test]
    fn a_companion_without_a_row_may_exist() {
        let frozen = crate::registry::frozen();
        let row = "[[build]]\nversion = \"2.99.0\"\nvariant = \"cpu\"\nplatform = \"linux-x86_64\"\n\
                   index = \"pypi\"\nevidence = \"measured\"\nsource = []\n";
        let learned = frozen.with_rows(&[LearnedRow::parse("torch", row.to_owned()).unwrap()]);
        for (lines, is_open) in [
            (&["torch==2.99.0", "torchvision"][..], true),
            (&["torch==2.99.0", "torchvision>=0.20"], true),
            // Its row is for another torch.
            (&["torch==2.99.0", "torchvision==0.24.1"], false),
            (&["torch==2.99.0", "torchvision<0.25"], false),
            (&["torch==2.99.0"], false),
            (&["torch==2.9.1", "torchvision"], false),
            (&["torch", "torchvision"], false),
        ] {
            let requirements =
                lines.iter().map(|line| UserRequirement::parse(line, Origin::Question).unwrap()).collect();
            let request = Request { requirements, ..Request::default() };
            let found = unread_companion(&learned, Platform::LINUX_X86_64, &request, false);
            let expected = UnreadCompanion {
                package: "torchvision",
                torch: "2.99.0".parse().unwrap(),
                known_from: None,
            };
            assert_eq!(found, is_open.then_some(expected), "{lines:?}");
        }
    }
}
