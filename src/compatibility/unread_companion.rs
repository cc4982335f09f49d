//! Companions of torch that may exist although no row has them.

use std::fmt;

use pep440_rs::{Version, VersionSpecifiers};
use version_ranges::Ranges;

use crate::model::platform::Platform;
use crate::model::request::Request;
use crate::registry::{Build, COMPANIONS, Companion, Registry};

/// A companion that the request needs for its torch, where a row is missing that could meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadCompanion {
    /// `torchvision`, `torchaudio`.
    pub package: &'static str,
    /// The newest torch that the request admits.
    pub torch: Version,
    /// What no row has.
    pub lacks: LackingRow,
}

/// The row that is missing of a pair of torch and a companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LackingRow {
    /// A companion for the torch that is known.
    OfCompanion,
    /// A companion that is older than all known ones, of which this is the oldest.
    OfOlderCompanion(Version),
    /// The torch that a known release of the companion needs.
    OfTorch(Version, VersionSpecifiers),
}

impl UnreadCompanion {
    /// The command that reads it, as a hint.
    pub fn how_to_read(&self) -> String {
        let package = self.package;
        match &self.lacks {
            LackingRow::OfCompanion => {
                format!("`envlock registry learn {package}==VERSION` reads a release of PyPI")
            }
            LackingRow::OfOlderCompanion(oldest) => {
                format!("`{package}>={oldest}` asks for one that is known")
            }
            LackingRow::OfTorch(..) => {
                "`envlock registry learn torch==VERSION` reads a release of PyPI".to_owned()
            }
        }
    }
}

impl fmt::Display for UnreadCompanion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnreadCompanion { package, torch, lacks } = self;
        match lacks {
            LackingRow::OfCompanion => {
                write!(f, "the registry has no row of a {package} for torch {torch}, which may exist")
            }
            LackingRow::OfOlderCompanion(oldest) => write!(
                f,
                "the registry begins with {package} {oldest}, and an older one may run with torch {torch}"
            ),
            LackingRow::OfTorch(version, bounds) => write!(
                f,
                "{package} {version} needs torch{bounds}, and the registry has no row of one that it runs with"
            ),
        }
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
    let rows: Vec<&Build> = registry
        .builds()
        .iter()
        .map(|build| &**build)
        .filter(|build| build.platform == platform && build.yanked.is_none())
        .filter(|build| wanted.as_ref().is_none_or(|wanted| wanted.contains(&build.version)))
        .collect();
    let torch = rows.iter().map(|build| &build.version).max()?.clone();
    COMPANIONS.into_iter().find_map(|package| {
        let bounds = request.bounds_on(package)?;
        let asked =
            WantedCompanion { registry, platform, package, bounds, wanted: wanted.as_ref(), rows: &rows };
        let lacks = asked.lacks(has_read_index)?;
        Some(UnreadCompanion { package, torch: torch.clone(), lacks })
    })
}

/// What a request asks of one companion.
struct WantedCompanion<'a> {
    registry: &'a Registry,
    platform: Platform,
    package: &'static str,
    bounds: VersionSpecifiers,
    /// The bounds of the request on torch.
    wanted: Option<&'a VersionSpecifiers>,
    /// The known builds of torch that these admit.
    rows: &'a [&'a Build],
}

impl<'a> WantedCompanion<'a> {
    fn of_package(&self) -> impl Iterator<Item = &'a Companion> {
        let package = self.package;
        self.registry.companions().iter().map(|row| &**row).filter(move |row| row.package == package)
    }

    /// The rows of releases that are asked for.
    fn of_releases(&self) -> impl Iterator<Item = &'a Companion> {
        self.of_package().filter(|row| row.platform == self.platform && self.bounds.contains(&row.version))
    }

    /// Whether a release of the companion is known to run with a known build of torch.
    fn is_known(&self) -> bool {
        self.rows.iter().any(|build| {
            build.companion(self.package).is_some() || self.of_package().any(|row| self.is_pair(row, build))
        })
    }

    /// Whether a release of the companion is for a build of torch: by the build's own row, else by PyPI's wheel of the companion.
    fn is_pair(&self, row: &Companion, build: &Build) -> bool {
        match build.companion(self.package) {
            Some(own) => *own == row.version,
            None => {
                row.platform == self.platform
                    && row.variant.as_ref() == Some(&build.variant)
                    && row.torch.as_ref().is_none_or(|bounds| bounds.contains(&build.version))
            }
        }
    }

    fn lacks(&self, has_read_index: bool) -> Option<LackingRow> {
        let of_builds = self.registry.builds().iter().filter_map(|build| build.companion(self.package));
        let read: Vec<&Version> = self.of_package().map(|row| &row.version).chain(of_builds).collect();
        // One that only a build of torch names may be for others, too.
        let has_row = |version: &Version| self.of_package().any(|row| row.version == *version);
        let is_named_only = read.iter().any(|own| self.bounds.contains(own) && !has_row(own));
        let is_read = read.iter().any(|own| self.bounds.contains(own) && has_row(own));
        if let Some((version, bounds)) = self.unread_torch(has_read_index) {
            return Some(LackingRow::OfTorch(version, bounds));
        }
        // One that was read is known.
        let is_settled = self.is_known() && is_read;
        let admitted = Ranges::from(self.bounds.clone());
        let oldest = self.registry.oldest_release(self.package, self.platform);
        let is_older = |oldest: &Version| admitted.is_disjoint(&Ranges::higher_than(oldest.clone()));
        if let Some(oldest) = oldest.filter(|oldest| is_older(oldest) && !is_settled) {
            return Some(LackingRow::OfOlderCompanion(oldest));
        }
        // Between the known ones there are none: what may exist is newer.
        let newer = read.into_iter().max().cloned().map_or_else(Ranges::full, Ranges::strictly_higher_than);
        let is_open = is_named_only || !admitted.is_disjoint(&newer);
        (!has_read_index && is_open && !is_settled).then_some(LackingRow::OfCompanion)
    }

    /// A release and the torch that it needs, where no known one will do and one may exist that no row has: a newer one if no index was
    /// asked, or one that is older than all known ones.
    fn unread_torch(&self, has_read_index: bool) -> Option<(Version, VersionSpecifiers)> {
        let newest = self.registry.newest_release("torch", self.platform)?;
        let oldest = self.registry.oldest_release("torch", self.platform)?;
        let older = Ranges::strictly_lower_than(oldest);
        let unread = match has_read_index {
            true => older,
            false => older.union(&Ranges::strictly_higher_than(newest)),
        };
        let unread = match self.wanted {
            Some(wanted) => unread.intersection(&Ranges::from(wanted.clone())),
            None => unread,
        };
        let is_open = |bounds: &VersionSpecifiers| !unread.is_disjoint(&Ranges::from(bounds.clone()));
        if self.of_releases().any(|row| self.rows.iter().any(|build| self.is_pair(row, build))) {
            return None;
        }
        let needs = |row: &'a Companion| Some((row.version.clone(), row.torch.clone()?));
        self.of_releases().filter_map(needs).find(|(_, bounds)| is_open(bounds))
    }
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
                lacks: LackingRow::OfCompanion,
            };
            assert_eq!(found, is_open.then_some(expected), "{lines:?}");
        }
    }

    #[test]
    fn a_torch_that_a_known_companion_needs_may_exist() {
        let frozen = crate::registry::frozen();
        let row = |version: &str, torch: &str| {
            let row = format!(
                "[[companion]]\npackage = \"torchvision\"\nversion = \"{version}\"\ntorch = \"{torch}\"\n\
                 variant = \"cu130\"\nplatform = \"linux-x86_64\"\nevidence = \"measured\"\nsource = []\n"
            );
            LearnedRow::parse("torchvision", row).unwrap()
        };
        let learned = frozen.with_rows(&[row("0.6.1", "==1.5.1"), row("0.99.0", "==2.98.0")]);
        for (lines, has_read_index, lacks) in [
            (&["torchvision==0.6.1"][..], true, Some(("0.6.1", "==1.5.1"))),
            (&["torchvision==0.99.0"], false, Some(("0.99.0", "==2.98.0"))),
            // The index was asked: what is newer was read.
            (&["torchvision==0.99.0"], true, None),
            // The request excludes that torch.
            (&["torchvision==0.99.0", "torch<2.98"], false, None),
        ] {
            let requirements =
                lines.iter().map(|line| UserRequirement::parse(line, Origin::Question).unwrap()).collect();
            let request = Request { requirements, ..Request::default() };
            let found = unread_companion(&learned, Platform::LINUX_X86_64, &request, has_read_index);
            let lacks = lacks.map(|(version, bounds)| {
                LackingRow::OfTorch(version.parse().unwrap(), bounds.parse().unwrap())
            });
            assert_eq!(found.map(|found| found.lacks), lacks, "{lines:?}");
        }
    }
}
