//! Companions of torch that may exist although no row has them.

use std::fmt;

use pep440_rs::{Version, VersionSpecifiers};

/// A companion that the request needs for its torch, where a row is missing that could meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadCompanion {
    /// `torchvision`, `torchaudio`.
    pub package: &'static str,
    /// The newest known torch that the request admits.
    pub torch: Option<Version>,
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
    /// A known release that needs a torch which is not known.
    pub(super) fn of_torch(
        package: &'static str,
        version: &Version,
        bounds: VersionSpecifiers,
    ) -> UnreadCompanion {
        UnreadCompanion { package, torch: None, lacks: LackingRow::OfTorch(version.clone(), bounds) }
    }

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
        let torch = torch.as_ref().map(|torch| format!(" {torch}")).unwrap_or_default();
        match lacks {
            LackingRow::OfCompanion => {
                write!(f, "the registry has no row of a {package} for torch{torch}, which may exist")
            }
            LackingRow::OfOlderCompanion(oldest) => write!(
                f,
                "the registry begins with {package} {oldest}, and an older one may run with torch{torch}"
            ),
            LackingRow::OfTorch(version, bounds) => write!(
                f,
                "{package} {version} needs torch{bounds}, and the registry has no row of one that it runs with"
            ),
        }
    }
}
