//! `[tool.uv]` of a pyproject.toml that is envlock's manifest: what bounds versions, and where packages come from, counts for
//! envlock too. Entries that envlock wrote itself are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::clock;
use super::disk::Disk;
use super::error::Failure;
use super::files;
use super::manifest::{Manifest, OwnBounds};
use crate::formats::UvTables;
use crate::formats::{Workspace, redirect, relative};
use crate::model::cutoff::Cutoff;
use crate::model::request::{Limit, PythonRequest, UserRequirement};
use crate::model::text::normalized_name;

/// Adds what the members of a workspace require whose root is no package: uv locks and installs them together.
///
/// # Errors
/// When the manifest of a member cannot be read.
pub(crate) fn add_members(manifest: &mut Manifest, text: &str, folder: &Path) -> Result<(), Failure> {
    let Some(workspace) =
        Workspace::of(&Disk, folder).filter(|it| it.is_virtual && it.is_root(&Disk, folder))
    else {
        return Ok(());
    };
    let document: toml::Table = text.parse().unwrap_or_default();
    let root = sources(&document, "");
    // Which parts exclude each other is stated by member; none of them is then locked.
    let has_conflicts = document.get("tool").and_then(|tool| tool.get("uv")?.get("conflicts")).is_some();
    let mut pythons = Vec::new();
    for path in workspace.members(&Disk).into_keys() {
        let below = files::path_from(&path, folder);
        let name = format!("{below}/{}", files::PYPROJECT);
        let text = files::read(&path.join(files::PYPROJECT))?.unwrap_or_default();
        let member = super::manifest::parse(&text, &name)?;
        let mut rows = root.clone();
        rows.extend(sources(&text.parse().unwrap_or_default(), &below));
        let requirements = member.request.requirements.into_iter();
        let kept = requirements.filter(|user| !has_conflicts || user.part.is_none());
        manifest.request.requirements.extend(redirected(kept, &rows, folder));
        pythons.extend(member.request.python);
    }
    if manifest.request.python.is_none() && !pythons.is_empty() {
        let texts: BTreeSet<&str> = pythons.iter().map(|python| python.text.as_str()).collect();
        let text = texts.into_iter().collect::<Vec<_>>().join(",");
        let joined = PythonRequest::parse(&text, files::PYPROJECT.into());
        manifest.request.python = Some(joined.unwrap_or_else(|_| pythons.swap_remove(0)));
    }
    Ok(())
}

/// The rows of `[tool.uv.sources]` by normalized name. `below`: the folder of the file, which its paths are relative to.
fn sources(document: &toml::Table, below: &str) -> BTreeMap<String, toml::Value> {
    let Some(rows) = document.get("tool").and_then(|tool| tool.get("uv")?.get("sources")?.as_table()) else {
        return BTreeMap::new();
    };
    let from_root = |row: &mut toml::Value| {
        let path = row.get_mut("path");
        if let Some(toml::Value::String(path)) = path.filter(|_| !below.is_empty())
            && Path::new(path.as_str()).is_relative()
        {
            *path = format!("{}/{path}", relative(below.to_owned()));
        }
    };
    let row = |(name, row): (&String, &toml::Value)| {
        let mut row = row.clone();
        match &mut row {
            toml::Value::Array(list) => list.iter_mut().for_each(from_root),
            one => from_root(one),
        }
        (normalized_name(name), row)
    };
    rows.iter().map(row).collect()
}

/// Requirements, from where the rows take them.
fn redirected(
    requirements: impl IntoIterator<Item = UserRequirement>,
    rows: &BTreeMap<String, toml::Value>,
    folder: &Path,
) -> Vec<UserRequirement> {
    let member = |package: &str| {
        let found = Workspace::of(&Disk, folder)?.member(&Disk, package)?;
        Some(files::path_from(&found, folder))
    };
    let redirected = |user: UserRequirement| -> Vec<UserRequirement> {
        let name = normalized_name(user.name());
        let Some(row) = rows.get(&name).filter(|_| user.direct().is_none()) else { return vec![user] };
        let redirected = redirect(&user.line(), &name, row, &member);
        let lines = redirected.lines.iter();
        let parsed: Vec<UserRequirement> = lines
            .filter_map(|line| UserRequirement::parse(line, user.origin.clone()).ok())
            .map(|own| own.of_part(user.part.clone()))
            .collect();
        let stays = parsed.is_empty() || !redirected.indexes.is_empty();
        parsed.into_iter().chain(stays.then_some(user)).collect()
    };
    requirements.into_iter().flat_map(redirected).collect()
}

/// Applies the tables to a manifest that was read from this text, in this folder. What uv itself would refuse is left to
/// uv.
pub(crate) fn apply(manifest: &mut Manifest, text: &str, folder: &Path) {
    let lines = |list: &[UserRequirement]| list.iter().map(UserRequirement::line).collect();
    manifest.own_bounds = OwnBounds {
        constraints: lines(&manifest.request.constraints),
        overrides: lines(&manifest.request.overrides),
    };
    let Ok(users) = UvTables::default().written_into(text) else { return };
    let Ok(document) = users.parse::<toml::Table>() else { return };
    let Some(uv) = document.get("tool").and_then(|tool| tool.get("uv")?.as_table()) else { return };
    let request = &mut manifest.request;
    let bounds = |key: &str| -> Vec<UserRequirement> {
        let lines = uv.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        let parsed = lines
            .filter_map(|line| UserRequirement::parse(line.as_str()?, files::PYPROJECT.into()).ok())
            .filter(|bound| bound.direct().is_none());
        parsed.collect()
    };
    let new = |list: &[UserRequirement], bound: &UserRequirement| {
        !list.iter().any(|own| own.line() == bound.line())
    };
    for bound in bounds("constraint-dependencies") {
        if new(&request.constraints, &bound) {
            request.constraints.push(bound);
        }
    }
    for bound in bounds("override-dependencies") {
        if new(&request.overrides, &bound) {
            request.overrides.push(bound);
        }
    }
    let cutoff = uv.get("exclude-newer").and_then(|value| Cutoff::parse(value.as_str()?, clock::now()).ok());
    if let Some(value) = cutoff.filter(|_| request.exclude_newer.general.is_none()) {
        request.exclude_newer.general = Some(Limit { value, origin: files::PYPROJECT.into() });
        manifest.cutoff_is_of_uv = true;
    }
    let rows = sources(&document, "");
    request.requirements = redirected(std::mem::take(&mut request.requirements), &rows, folder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::manifest;

    #[test]
    fn what_the_user_tells_uv_counts_for_envlock() {
        let text = r#"
[project]
name = "demo"
dependencies = ["torch", "mine[gpu]>=1; python_version < '4'", "other"]
[project.optional-dependencies]
dev = ["fork"]
[tool.envlock]
[tool.uv]
constraint-dependencies = [
    "numpy<2",
    "torch==2.9.1; sys_platform == 'linux'", # envlock
    "bad @ https://host.example/bad-1-py3-none-any.whl",
]
override-dependencies = ["protobuf>=5"]
[tool.uv.sources]
torch = { index = "gpu" }
Mine = { path = "libs/mine" }
fork = { git = "https://host.example/fork.git", rev = "abc" }
"#;
        let mut manifest = manifest::parse(text, files::PYPROJECT).unwrap();
        apply(&mut manifest, text, Path::new("."));
        let lines = |list: &[UserRequirement]| list.iter().map(UserRequirement::line).collect::<Vec<_>>();
        let request = &manifest.request;
        assert_eq!(lines(&request.constraints), ["numpy<2"]);
        assert_eq!(lines(&request.overrides), ["protobuf>=5"]);
        assert_eq!(
            lines(&request.requirements),
            [
                "torch",
                "mine[gpu] @ path:./libs/mine ; python_full_version < '4'",
                "other",
                "fork @ git+https://host.example/fork.git@abc",
            ]
        );
        assert!(request.requirements[3].part.is_some());
        // Applied twice, it is the same.
        let once = manifest.request.clone();
        apply(&mut manifest, text, Path::new("."));
        assert_eq!(lines(&manifest.request.requirements), lines(&once.requirements));
        assert_eq!(manifest.request.constraints.len(), once.constraints.len());
    }
}
