//! The workspace of uv that a project belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::formats::imported::Files;
use crate::model::text::normalized_name;

/// Maximum number of folders, from the project's own upwards, that are searched for its workspace.
const MAX_ABOVE: usize = 8;
/// Maximum number of folders that one pattern may match.
const MAX_MEMBERS: usize = 10_000;

/// The root of a workspace and its patterns of members: `packages/*`.
pub struct Workspace {
    root: PathBuf,
    members: Vec<String>,
    exclude: Vec<String>,
    /// Whether the root has no `[project]`, so that all members are installed together.
    pub is_virtual: bool,
}

impl Workspace {
    /// The workspace of the project in a folder: its own, or that of a folder above.
    pub fn of(files: &dyn Files, folder: &Path) -> Option<Workspace> {
        files.absolute(folder).ancestors().take(MAX_ABOVE).find_map(|root| {
            let document = manifest(files, root)?;
            let table = document.get("tool")?.get("uv")?.get("workspace")?;
            let patterns = |key: &str| {
                let list = table.get(key).and_then(toml::Value::as_array).into_iter().flatten();
                list.filter_map(|pattern| pattern.as_str().map(str::to_owned)).collect()
            };
            Some(Workspace {
                root: root.to_owned(),
                members: patterns("members"),
                exclude: patterns("exclude"),
                is_virtual: !document.contains_key("project"),
            })
        })
    }

    /// The normalized names of the members and their folders, in the order of their folders.
    pub fn members(&self, files: &dyn Files) -> BTreeMap<PathBuf, String> {
        let excluded: BTreeSet<PathBuf> = self.folders(files, &self.exclude).collect();
        let name = |folder: PathBuf| {
            let manifest = manifest(files, &folder)?;
            let name = normalized_name(manifest.get("project")?.get("name")?.as_str()?);
            Some((folder, name))
        };
        self.folders(files, &self.members)
            .filter(|folder| !excluded.contains(folder))
            .filter_map(name)
            .collect()
    }

    fn folders(&self, files: &dyn Files, patterns: &[String]) -> impl Iterator<Item = PathBuf> {
        patterns.iter().flat_map(|pattern| matching(files, &self.root, pattern))
    }

    /// The folder of the member with this name.
    pub fn member(&self, files: &dyn Files, package: &str) -> Option<PathBuf> {
        let own = manifest(files, &self.root).and_then(|root| {
            let name = root.get("project")?.get("name")?.as_str().map(normalized_name)?;
            Some((self.root.clone(), name))
        });
        self.members(files).into_iter().chain(own).find(|(_, name)| name == package).map(|(folder, _)| folder)
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a folder is its root.
    pub fn is_root(&self, files: &dyn Files, folder: &Path) -> bool {
        files.absolute(folder) == self.root
    }
}

fn manifest(files: &dyn Files, folder: &Path) -> Option<toml::Table> {
    let bytes = files.bytes(&folder.join("pyproject.toml")).ok()??;
    toml::from_str(std::str::from_utf8(&bytes).ok()?).ok()
}

/// The folders that a pattern names: each part is a name, or a name with `*`.
fn matching(files: &dyn Files, root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
        let mut next = Vec::new();
        for folder in found {
            if !part.contains('*') {
                next.push(folder.join(part));
                continue;
            }
            let (start, end) = part.split_once('*').unwrap_or_default();
            let end = end.trim_start_matches('*');
            next.extend(files.folders_in(&folder).into_iter().filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            }));
        }
        next.sort();
        next.truncate(MAX_MEMBERS);
        found = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::imported::Texts;

    #[test]
    fn members_by_pattern() {
        let files = Texts::of(&[
            (
                "/w/pyproject.toml",
                "[project]\nname = \"root\"\n[tool.uv.workspace]\nmembers = [\"packages/*\", \"one\"]\n",
            ),
            ("/w/packages/b-folder/pyproject.toml", "[project]\nname = \"My_Client\"\n"),
            ("/w/one/pyproject.toml", "[project]\nname = \"one\"\n"),
        ]);
        let workspace = Workspace::of(&files, Path::new("/w/one")).unwrap();
        let member = |name: &str| workspace.member(&files, name);
        assert_eq!(member("my-client"), Some(PathBuf::from("/w/packages/b-folder")));
        assert_eq!(member("one"), Some(PathBuf::from("/w/one")));
        assert_eq!(member("root"), Some(PathBuf::from("/w")));
        assert_eq!(member("other"), None);
        assert!(Workspace::of(&files, Path::new("/nonexistent/x")).is_none());
    }
}
