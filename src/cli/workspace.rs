//! The workspace of uv that a project belongs to.

use std::path::{Path, PathBuf};

use crate::cli::files;
use crate::model::text::normalized_name;

/// Maximum number of folders, from the project's own upwards, that are searched for its workspace.
const MAX_ABOVE: usize = 8;
/// Maximum number of folders that one pattern may match.
const MAX_MEMBERS: usize = 10_000;

/// The root of a workspace and its patterns of members: `packages/*`.
pub(super) struct Workspace {
    root: PathBuf,
    members: Vec<String>,
}

impl Workspace {
    /// The workspace of the project in a folder: its own, or that of a folder above.
    pub fn of(folder: &Path) -> Option<Workspace> {
        let folder = std::path::absolute(folder).ok()?;
        folder.ancestors().take(MAX_ABOVE).find_map(|root| {
            let document = manifest(root)?;
            let members = document.get("tool")?.get("uv")?.get("workspace")?.get("members")?.as_array()?;
            let members = members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect();
            Some(Workspace { root: root.to_owned(), members })
        })
    }

    /// The folder of the member with this name.
    pub fn member(&self, package: &str) -> Option<PathBuf> {
        let is_it = |folder: &PathBuf| {
            let name =
                manifest(folder).and_then(|m| Some(m.get("project")?.get("name")?.as_str()?.to_owned()));
            name.is_some_and(|name| normalized_name(&name) == package)
        };
        let folders = self.members.iter().flat_map(|pattern| matching(&self.root, pattern));
        folders.chain([self.root.clone()]).find(is_it)
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
