//! The workspace of uv that a project belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::model::text::normalized_name;
use crate::session::files;

/// Maximum number of folders, from the project's own upwards, that are searched for its workspace.
const MAX_ABOVE: usize = 8;
/// Maximum number of folders that one pattern may match.
const MAX_MEMBERS: usize = 10_000;

/// The root of a workspace and its patterns of members: `packages/*`.
pub(crate) struct Workspace {
    root: PathBuf,
    members: Vec<String>,
    exclude: Vec<String>,
    /// Whether the root has no `[project]`, so that all members are installed together.
    pub is_virtual: bool,
}

impl Workspace {
    /// The workspace of the project in a folder: its own, or that of a folder above.
    pub fn of(folder: &Path) -> Option<Workspace> {
        let folder = std::path::absolute(folder).ok()?;
        folder.ancestors().take(MAX_ABOVE).find_map(|root| {
            let document = manifest(root)?;
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
    pub fn members(&self) -> BTreeMap<PathBuf, String> {
        let excluded: BTreeSet<PathBuf> = self.folders(&self.exclude).collect();
        let name = |folder: PathBuf| {
            let manifest = manifest(&folder)?;
            let name = normalized_name(manifest.get("project")?.get("name")?.as_str()?);
            Some((folder, name))
        };
        self.folders(&self.members).filter(|folder| !excluded.contains(folder)).filter_map(name).collect()
    }

    fn folders(&self, patterns: &[String]) -> impl Iterator<Item = PathBuf> {
        patterns.iter().flat_map(|pattern| matching(&self.root, pattern))
    }

    /// The folder of the member with this name.
    pub fn member(&self, package: &str) -> Option<PathBuf> {
        let own = manifest(&self.root).and_then(|root| {
            let name = root.get("project")?.get("name")?.as_str().map(normalized_name)?;
            Some((self.root.clone(), name))
        });
        self.members().into_iter().chain(own).find(|(_, name)| name == package).map(|(folder, _)| folder)
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a folder is its root.
    pub fn is_root(&self, folder: &Path) -> bool {
        std::path::absolute(folder).is_ok_and(|folder| folder == self.root)
    }
}

fn manifest(folder: &Path) -> Option<toml::Table> {
    let text = files::read(&folder.join(files::PYPROJECT)).ok()??;
    toml::from_str(&text).ok()
}

/// The folders that a pattern names: each part is a name, or a name with `*`.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
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
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            next.extend(entries.filter(|entry| entry.path().is_dir()).filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let fits =
                    name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
                fits.then(|| entry.path())
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

    #[test]
    fn members_by_pattern() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        write(
            "pyproject.toml",
            "[project]\nname = \"root\"\n[tool.uv.workspace]\nmembers = [\"packages/*\", \"one\"]\n",
        );
        write("packages/b-folder/pyproject.toml", "[project]\nname = \"My_Client\"\n");
        write("one/pyproject.toml", "[project]\nname = \"one\"\n");
        let workspace = Workspace::of(&dir.path().join("one")).unwrap();
        let member = |name: &str| {
            workspace.member(name).map(|folder| folder.strip_prefix(dir.path()).unwrap().to_owned())
        };
        assert_eq!(member("my-client"), Some(PathBuf::from("packages/b-folder")));
        assert_eq!(member("one"), Some(PathBuf::from("one")));
        assert_eq!(member("root"), Some(PathBuf::new()));
        assert_eq!(member("other"), None);
        assert!(Workspace::of(Path::new("/nonexistent/x")).is_none());
    }
}
