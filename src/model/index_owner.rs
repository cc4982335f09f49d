//! Which index a package is taken from. The URL of each index is found in `index/locate.rs` and the manifest.

use pep508_rs::PackageName;

/// An index that owns the packages matching its patterns: they are taken only from this index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOwner {
    /// The index's name in envlock.toml.
    pub index: String,
    /// Package names; `*` at the end matches any suffix.
    pub patterns: Vec<String>,
}

impl IndexOwner {
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
