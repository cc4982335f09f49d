//! Why a package has the version it has.

use std::fmt;

use pep440_rs::Version;

/// Why a package has the version it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The request names the version.
    Asked,
    /// The newest that fits.
    Newest,
    /// The newest of those that the request's specifiers allow.
    NewestAllowed(String),
    /// The newest that packages need.
    NewestFor {
        /// The first of them.
        package: String,
        /// How many more there are.
        others: usize,
    },
    /// Another package names the version.
    PinnedBy {
        /// The package.
        package: String,
        /// How, where it names a series: `~=3.8.0`.
        series: Option<String>,
    },
    /// The registry says that it was built beside this torch.
    BuiltWithTorch(Version),
    /// The newest whose wheel asks for this torch.
    FitsTorch {
        /// torch's version.
        torch: Version,
        /// What the wheel asks for: `torch>=2.0`.
        needs: String,
    },
    /// The newest; its wheel names no torch.
    NamesNoTorch,
    /// The lock held it, and it still fits.
    Kept,
    /// What a lock of another envlock says.
    Said(String),
}

impl Choice {
    /// Whether nothing but its age decided for it.
    pub fn is_newest(&self) -> bool {
        matches!(
            self,
            Choice::Newest
                | Choice::NewestAllowed(_)
                | Choice::NewestFor { .. }
                | Choice::FitsTorch { .. }
                | Choice::NamesNoTorch
        )
    }

    /// The form in a lock: a kebab-case word, then what it is about.
    pub fn code(&self) -> String {
        match self {
            Choice::Asked => "asked-for".to_owned(),
            Choice::Newest => "newest".to_owned(),
            Choice::NewestAllowed(specifiers) => format!("newest-allowed:{specifiers}"),
            Choice::NewestFor { package, others: 0 } => format!("newest-for:{package}"),
            Choice::NewestFor { package, others } => format!("newest-for:{package}+{others}"),
            Choice::PinnedBy { package, series: None } => format!("pinned-by:{package}"),
            Choice::PinnedBy { package, series: Some(series) } => format!("pinned-by:{package}{series}"),
            Choice::BuiltWithTorch(version) => format!("built-with-torch:{version}"),
            Choice::FitsTorch { torch, needs } => format!("fits-torch:{torch}:{needs}"),
            Choice::NamesNoTorch => "names-no-torch".to_owned(),
            Choice::Kept => "kept".to_owned(),
            Choice::Said(text) => text.clone(),
        }
    }

    /// Reads the form in a lock. What is none of this envlock's is kept as it is: older locks have sentences.
    pub fn of_code(code: &str) -> Choice {
        let read = || {
            let (word, about) = code.split_once(':').unwrap_or((code, ""));
            Some(match (word, about.is_empty()) {
                ("asked-for", true) => Choice::Asked,
                ("newest", true) => Choice::Newest,
                ("names-no-torch", true) => Choice::NamesNoTorch,
                ("kept", true) => Choice::Kept,
                ("newest-allowed", false) => Choice::NewestAllowed(about.to_owned()),
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
        // A code that would be written otherwise is no code.
        read().filter(|choice| choice.code() == code).unwrap_or_else(|| Choice::Said(code.to_owned()))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Asked => f.write_str("asked for"),
            Choice::Newest => f.write_str("newest that fits"),
            Choice::NewestAllowed(specifiers) => write!(f, "newest that `{specifiers}` allows"),
            Choice::NewestFor { package, others: 0 } => write!(f, "newest for {package}"),
            Choice::NewestFor { package, others } => write!(f, "newest for {package} and {others} more"),
            Choice::PinnedBy { package, series: None } => write!(f, "pinned by {package}"),
            Choice::PinnedBy { package, series: Some(series) } => write!(f, "pinned by {package} ({series})"),
            Choice::BuiltWithTorch(version) => write!(f, "built with torch {version}"),
            Choice::FitsTorch { torch, needs } => write!(f, "newest for torch {torch} (needs {needs})"),
            Choice::NamesNoTorch => f.write_str("newest that fits; its wheel names no torch"),
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
            Choice::NewestFor { package: package(), others: 0 },
            Choice::NewestFor { package: package(), others: 3 },
            Choice::PinnedBy { package: package(), series: None },
            Choice::PinnedBy { package: package(), series: Some("~=3.8.0".to_owned()) },
            Choice::BuiltWithTorch("2.9.1".parse().unwrap()),
            Choice::FitsTorch { torch: "2.9.1".parse().unwrap(), needs: "torch>=2.0".to_owned() },
            Choice::NamesNoTorch,
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
