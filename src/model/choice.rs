//! Why a package has the version it has.

use std::fmt;

use pep440_rs::Version;

/// Why a package has the version it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The request pins the version.
    Asked,
    /// The newest compatible version.
    Newest,
    /// The newest version that runs on all targets, of which some alone could have a newer one.
    NewestForTargets,
    /// The newest version that the request's specifiers allow.
    NewestAllowed(String),
    /// The newest version with known compatibility data: this newer one was not read, or could not be.
    NewestRead {
        /// The newest version without such data.
        unread: Version,
        /// Why it has none. Only the printed answer has it, not the lock.
        cause: Option<String>,
    },
    /// The newest version that is compatible with the packages that require it.
    NewestFor {
        /// The first of them.
        package: String,
        /// How many more there are.
        others: usize,
    },
    /// Another package pins the version.
    PinnedBy {
        /// The package.
        package: String,
        /// The specifier if it pins a series: `~=3.8.0`.
        series: Option<String>,
    },
    /// The registry has it as built with this torch.
    BuiltWithTorch(Version),
    /// The newest version whose wheel accepts this torch.
    FitsTorch {
        /// The torch version.
        torch: Version,
        /// The wheel's requirement: `torch>=2.0`.
        needs: String,
    },
    /// The newest version; its wheel does not require torch.
    NoTorchRequirement,
    /// The locked version, which is still compatible.
    Kept,
    /// The text in a lock that another envlock version wrote.
    Said(String),
}

impl Choice {
    /// Whether it is the newest compatible version.
    pub fn is_newest(&self) -> bool {
        matches!(
            self,
            Choice::Newest
                | Choice::NewestAllowed(_)
                | Choice::NewestFor { .. }
                | Choice::FitsTorch { .. }
                | Choice::NoTorchRequirement
        )
    }

    /// The form in a lock: a kebab-case word and its arguments.
    pub fn code(&self) -> String {
        match self {
            Choice::Asked => "asked-for".to_owned(),
            Choice::Newest => "newest".to_owned(),
            Choice::NewestForTargets => "newest-for-targets".to_owned(),
            Choice::NewestAllowed(specifiers) => format!("newest-allowed:{specifiers}"),
            Choice::NewestRead { unread, .. } => format!("newest-read:{unread}"),
            Choice::NewestFor { package, others: 0 } => format!("newest-for:{package}"),
            Choice::NewestFor { package, others } => format!("newest-for:{package}+{others}"),
            Choice::PinnedBy { package, series: None } => format!("pinned-by:{package}"),
            Choice::PinnedBy { package, series: Some(series) } => format!("pinned-by:{package}{series}"),
            Choice::BuiltWithTorch(version) => format!("built-with-torch:{version}"),
            Choice::FitsTorch { torch, needs } => format!("fits-torch:{torch}:{needs}"),
            Choice::NoTorchRequirement => "names-no-torch".to_owned(),
            Choice::Kept => "kept".to_owned(),
            Choice::Said(text) => text.clone(),
        }
    }

    /// Parses the form in a lock. Unknown text is kept as is: older locks have sentences.
    pub fn of_code(code: &str) -> Choice {
        let read = || {
            let (word, about) = code.split_once(':').unwrap_or((code, ""));
            Some(match (word, about.is_empty()) {
                ("asked-for", true) => Choice::Asked,
                ("newest", true) => Choice::Newest,
                ("newest-for-targets", true) => Choice::NewestForTargets,
                ("names-no-torch", true) => Choice::NoTorchRequirement,
                ("kept", true) => Choice::Kept,
                ("newest-allowed", false) => Choice::NewestAllowed(about.to_owned()),
                ("newest-read", false) => Choice::NewestRead { unread: about.parse().ok()?, cause: None },
                ("newest-for", false) => {
                    let (package, others) = about.split_once('+').unwrap_or((about, "0"));
                    Choice::NewestFor { package: package.to_owned(), others: others.parse().ok()? }
                }
                ("pinned-by", false) => {
                    let (package, series) = about.split_at(about.find('~').unwrap_or(about.len()));
                    let series = (!series.is_empty()).then(|| series.to_owned());
                    Choice::PinnedBy { package: package.to_owned(), series }
                }
                ("built-with-torch", false) => Choice::BuiltWithTorch(about.parse().ok()?),
                ("fits-torch", false) => {
                    let (torch, needs) = about.split_once(':')?;
                    Choice::FitsTorch { torch: torch.parse().ok()?, needs: needs.to_owned() }
                }
                _ => return None,
            })
        };
        // Accept only the canonical form.
        read().filter(|choice| choice.code() == code).unwrap_or_else(|| Choice::Said(code.to_owned()))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Asked => f.write_str("requested"),
            Choice::Newest => f.write_str("newest compatible version"),
            Choice::NewestForTargets => f.write_str("newest that runs on all targets"),
            Choice::NewestAllowed(specifiers) => write!(f, "newest allowed by `{specifiers}`"),
            Choice::NewestRead { unread, cause: None } => {
                write!(f, "newest compatible release with known data; {unread} was not read")
            }
            Choice::NewestRead { unread, cause: Some(cause) } => {
                write!(f, "newest compatible release whose wheel could be read; {unread} was not: {cause}")
            }
            Choice::NewestFor { package, others: 0 } => write!(f, "newest compatible with {package}"),
            Choice::NewestFor { package, others } => {
                write!(f, "newest compatible with {package} and {others} more")
            }
            Choice::PinnedBy { package, series: None } => write!(f, "pinned by {package}"),
            Choice::PinnedBy { package, series: Some(series) } => write!(f, "pinned by {package} ({series})"),
            Choice::BuiltWithTorch(version) => write!(f, "built with torch {version}"),
            Choice::FitsTorch { torch, needs } => {
                write!(f, "newest compatible with torch {torch} (requires {needs})")
            }
            Choice::NoTorchRequirement => {
                f.write_str("newest compatible version; its wheel does not require torch")
            }
            Choice::Kept => f.write_str("kept from the lock"),
            Choice::Said(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_reads_back_as_what_it_was_written_for() {
        let package = || "torch".to_owned();
        for choice in [
            Choice::Asked,
            Choice::Newest,
            Choice::NewestAllowed(">=2,!=2.1".to_owned()),
            Choice::NewestRead { unread: "2.15.0".parse().unwrap(), cause: None },
            Choice::NewestFor { package: package(), others: 0 },
            Choice::NewestFor { package: package(), others: 3 },
            Choice::PinnedBy { package: package(), series: None },
            Choice::PinnedBy { package: package(), series: Some("~=3.8.0".to_owned()) },
            Choice::BuiltWithTorch("2.9.1".parse().unwrap()),
            Choice::FitsTorch { torch: "2.9.1".parse().unwrap(), needs: "torch>=2.0".to_owned() },
            Choice::NoTorchRequirement,
            Choice::NewestForTargets,
            Choice::Kept,
            Choice::Said("newest that fits".to_owned()),
            Choice::Said("pinned by torch".to_owned()),
        ] {
            assert_eq!(Choice::of_code(&choice.code()), choice, "{}", choice.code());
        }
        for odd in
            ["", "newest-for:", "newest-for:x+many", "built-with-torch:?", "newest:x", "fits-torch:2.0"]
        {
            assert_eq!(Choice::of_code(odd), Choice::Said(odd.to_owned()));
        }
    }
}
