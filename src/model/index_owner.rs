//! Which index a package is taken from. The URL of each index is found in `index/locate.rs` and the manifest.

use pep440_rs::Version;
use pep508_rs::PackageName;

use super::text::{clean, normalized_name};

/// The index that has builds of torch by CUDA variant, each variant in a sub-index of its own: `pytorch/cu126`.
pub const PYTORCH: &str = "pytorch";

/// Where the pytorch index is, unless a manifest says otherwise.
pub const PYTORCH_INDEX: &str = "https://download.pytorch.org/whl";

/// The index of a release of torch: the sub-index of its local version, `pytorch/cu126` of `2.9.1+cu126`. PyPI takes no local
/// versions.
pub fn index_of(version: &Version) -> String {
    match version.is_local() {
        true => format!("{PYTORCH}/{}", local_of(version)),
        false => "pypi".to_owned(),
    }
}

/// `cu126` of `2.9.1+cu126`; empty of others.
pub fn local_of(version: &Version) -> String {
    version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

/// An index that owns the packages matching its patterns: they are taken only from this index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOwner {
    /// The index's name in envlock.toml.
    pub index: String,
    /// Package names; `*` at the end matches any suffix.
    pub patterns: Vec<String>,
}

/// A pattern that is neither a package name nor a prefix with `*`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a package name nor a prefix such as `corp-*`")]
pub struct InvalidPattern(String);

impl IndexOwner {
    /// An owner. Patterns are package names, or the start of names followed by `*`.
    ///
    /// # Errors
    /// The first pattern that is neither: it would match nothing, and the packages would come from elsewhere.
    pub fn new(index: &str, patterns: &[String]) -> Result<IndexOwner, InvalidPattern> {
        let pattern = |text: &String| {
            let invalid = || InvalidPattern(clean(text, 80));
            let (name, end) = text.strip_suffix('*').map_or((text.as_str(), ""), |prefix| (prefix, "*"));
            // A prefix may end in a separator, which a name may not.
            let whole = if end.is_empty() { name.to_owned() } else { format!("{name}x") };
            if whole.is_empty() || PackageName::new(whole).is_err() {
                return Err(invalid());
            }
            Ok(format!("{}{end}", normalized_name(name)))
        };
        let patterns = patterns.iter().map(pattern).collect::<Result<_, _>>()?;
        Ok(IndexOwner { index: index.to_owned(), patterns })
    }

    /// Whether the index owns `package`.
    pub fn owns(&self, package: &PackageName) -> bool {
        let name: &str = package.as_ref();
        self.patterns.iter().any(|p| match p.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == p,
        })
    }
}

/// The index of a package: the first owner whose patterns match, otherwise `pypi`.
pub fn owner<'o>(package: &str, owners: &'o [IndexOwner]) -> &'o str {
    let owned = package.parse().ok().and_then(|name| owners.iter().find(|o| o.owns(&name)));
    owned.map_or("pypi", |o| &o.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_or_prefixes() {
        for (pattern, owned) in [
            ("corp-*", Some("corp-tool")),
            ("Corp_*", Some("corp-tool")),
            ("corp*", Some("corporate")),
            ("Corp.Tool", Some("corp-tool")),
            ("*", Some("anything")),
            ("c*p-pkg", None),
            ("corp-?kg", None),
            ("corp-pkg ", None),
            ("corp-[ab]", None),
            ("**", None),
            ("", None),
            ("-corp", None),
        ] {
            let owner = IndexOwner::new("corp", &[pattern.to_owned()]);
            assert_eq!(owner.is_ok(), owned.is_some(), "`{pattern}`");
            if let (Ok(owner), Some(name)) = (owner, owned) {
                assert!(owner.owns(&name.parse().unwrap()), "`{pattern}` owns {name}");
            }
        }
    }
}
