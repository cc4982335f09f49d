//! Companions of torch that may exist although no row has them.

use std::fmt;

use pep440_rs::{Version, VersionSpecifiers};

/// A companion that the request needs for its torch, where a row is missing that could meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadCompanion {
    /// `torchvision`, `torchaudio`.
    pub package: &'static str,
    /// The bounds of the request on it: `==0.20.*`; empty if there are none.
    pub bounds: String,
    /// The newest known torch that the request admits, where it bounds torch.
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
        let lacks = LackingRow::OfTorch(version.clone(), bounds);
        UnreadCompanion { package, bounds: String::new(), torch: None, lacks }
    }

    /// The command that reads it, as a hint.
    pub fn how_to_read(&self) -> String {
        let package = self.package;
        match &self.lacks {
            LackingRow::OfCompanion => {
                match self.bounds.strip_prefix("==").filter(|own| !own.contains(['*', ','])) {
                    Some(version) => {
                        format!("`envlock registry learn {package}=={version}` reads the release of PyPI")
                    }
                    None => "`envlock resolve` reads what its indexes have".to_owned(),
                }
            }
            LackingRow::OfOlderCompanion(oldest) => {
                format!("`{package}>={oldest}` asks for one that is known")
            }
            LackingRow::OfTorch(_, bounds) => {
                format!("`envlock registry learn 'torch{bounds}'` reads a release of PyPI")
            }
        }
    }
}

impl fmt::Display for UnreadCompanion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnreadCompanion { package, bounds, torch, lacks } = self;
        let with =
            |word: &str| torch.as_ref().map(|torch| format!(" {word} torch {torch}")).unwrap_or_default();
        match lacks {
            LackingRow::OfCompanion => {
                write!(f, "the registry has no row of {package}{bounds}{}, which may exist", with("for"))
            }
            LackingRow::OfOlderCompanion(oldest) => write!(
                f,
                "the registry begins with {package} {oldest}, and an older one may run{}",
                with("with")
            ),
            LackingRow::OfTorch(version, bounds) => write!(
                f,
                "{package} {version} needs torch{bounds}, and the registry has no row of one that it runs with"
            ),
        }
    }
}
