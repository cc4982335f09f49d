//! `[tool.uv.sources]`: a requirement, as uv takes it from a repository, a folder or a URL.

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::request::UserRequirement;
use crate::model::text::normalized_name;

/// The rows of `[tool.uv.sources]`, by normalized name.
#[derive(Debug, Clone, Default)]
pub struct Sources(BTreeMap<String, toml::Value>);

impl Sources {
    pub(super) fn new(rows: &BTreeMap<String, toml::Value>) -> Sources {
        Sources(rows.iter().map(|(name, row)| (normalized_name(name), row.clone())).collect())
    }

    /// The row of a package, by its normalized name.
    pub fn row(&self, package: &str) -> Option<&toml::Value> {
        self.0.get(package)
    }

    /// The paths that they name.
    pub fn paths(&self) -> Vec<String> {
        let each =
            self.0.values().flat_map(|row| row.as_array().map_or(vec![row], |list| list.iter().collect()));
        each.filter_map(|row| row.get("path")?.as_str().map(str::to_owned)).collect()
    }

    /// With paths that are relative to the folder above, for the file of a folder below it.
    #[must_use]
    pub fn below(mut self, folder: &str) -> Sources {
        let from_above = |row: &mut toml::Value| {
            if let Some(toml::Value::String(path)) = row.get_mut("path")
                && Path::new(path.as_str()).is_relative()
            {
                *path = format!("{}/{path}", relative(folder.to_owned()));
            }
        };
        for row in self.0.values_mut() {
            match row {
                toml::Value::Array(list) => list.iter_mut().for_each(from_above),
                one => from_above(one),
            }
        }
        self
    }

    /// Adds the rows of a member of a workspace, which come before those of the root.
    pub fn extend(&mut self, more: Sources) {
        self.0.extend(more.0);
    }

    /// A requirement, from where its row takes it. `member`: the path of a member of the workspace.
    pub fn requirement(
        &self,
        user: UserRequirement,
        member: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<UserRequirement> {
        let name = normalized_name(user.name());
        let Some(row) = self.row(&name).filter(|_| user.direct().is_none()) else { return vec![user] };
        let redirected = redirect(&user.line(), &name, row, member);
        let lines = redirected.lines.iter();
        let parsed: Vec<UserRequirement> = lines
            .filter_map(|line| UserRequirement::parse(line, user.origin.clone()).ok())
            .map(|own| own.of_part(user.part.clone()))
            .collect();
        let stays = parsed.is_empty() || !redirected.indexes.is_empty();
        parsed.into_iter().chain(stays.then_some(user)).collect()
    }
}

/// A requirement with its row of `[tool.uv.sources]`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Redirected {
    /// The requirements that say where the package comes from.
    pub lines: Vec<String>,
    /// The indexes that it is taken from; then the requirement stays as it is.
    pub indexes: Vec<String>,
    /// Whether it is a member of the workspace whose folder is not there.
    pub is_lost_member: bool,
}

/// The direct reference of a dependency's table (`git`, `path` or poetry's `file`, `url`), as it follows `@` in a
/// requirement; `None` if the table has none.
pub fn reference(table: &toml::Value) -> Option<String> {
    let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
    if let Some(repository) = text("git") {
        let revision = text("rev").or(text("tag")).or(text("branch"));
        let revision = revision.map(|revision| format!("@{revision}")).unwrap_or_default();
        let folder = text("subdirectory").map(|folder| format!("#subdirectory={folder}")).unwrap_or_default();
        return Some(format!("git+{repository}{revision}{folder}"));
    }
    match text("path").or(text("file")) {
        Some(path) => Some(relative(path.to_owned())),
        None => text("url").map(str::to_owned),
    }
}

/// A path that is told from a name by how it begins.
pub fn relative(path: String) -> String {
    if path.starts_with(['.', '/']) { path } else { format!("./{path}") }
}

/// A requirement `line` of a package, from where its row takes it. `member`: the path of a member of the workspace.
pub fn redirect(
    line: &str,
    package: &str,
    row: &toml::Value,
    member: &dyn Fn(&str) -> Option<String>,
) -> Redirected {
    let (head, own) = line.split_once(';').map_or((line, None), |(head, marker)| (head, Some(marker.trim())));
    let extras = head
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(String::new(), |(e, _)| format!("[{e}]"));
    let rows: Vec<&toml::Value> = match row {
        toml::Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    let mut out = Redirected::default();
    for row in rows {
        let text = |key: &str| row.get(key).and_then(toml::Value::as_str);
        let markers: Vec<String> =
            own.into_iter().chain(text("marker")).map(|marker| format!("({marker})")).collect();
        let marker = match (markers.as_slice(), own) {
            ([], _) => String::new(),
            ([_], Some(own)) => format!(" ; {own}"),
            _ => format!(" ; {}", markers.join(" and ")),
        };
        let reference = if let Some(reference) = reference(row) {
            reference
        } else if row.get("workspace").and_then(toml::Value::as_bool) == Some(true) {
            match member(package) {
                Some(folder) => relative(folder),
                None => {
                    out.is_lost_member = true;
                    continue;
                }
            }
        } else {
            out.indexes.push(text("index").unwrap_or_default().to_owned());
            continue;
        };
        out.lines.push(format!("{package}{extras} @ {reference}{marker}"));
    }
    out
}
