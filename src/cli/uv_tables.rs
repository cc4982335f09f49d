//! `[tool.uv]` of a pyproject.toml that is envlock's manifest: what bounds versions, and where packages come from, counts for
//! envlock too. Entries that envlock wrote itself are left out.

use std::path::Path;

use super::clock;
use super::files;
use super::manifest::{Manifest, OwnBounds};
use super::uv_sources::redirect;
use super::workspace::Workspace;
use crate::export::UvTables;
use crate::model::cutoff::Cutoff;
use crate::model::request::{Limit, UserRequirement};
use crate::model::text::normalized_name;

/// Applies the tables to a manifest that was read from this text, in this folder. What uv itself would refuse is left to
/// uv.
pub(super) fn apply(manifest: &mut Manifest, text: &str, folder: &Path) {
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
    let Some(sources) = uv.get("sources").and_then(toml::Value::as_table) else { return };
    let member = |package: &str| {
        let found = Workspace::of(folder)?.member(package)?;
        Some(files::path_from(&found, folder))
    };
    let redirected = |user: UserRequirement| -> Vec<UserRequirement> {
        let name = normalized_name(user.requirement.name.as_ref());
        let row = sources.iter().find(|(key, _)| normalized_name(key) == name).map(|(_, row)| row);
        let Some(row) = row.filter(|_| user.direct().is_none()) else { return vec![user] };
        let redirected = redirect(&user.line(), &name, row, &member);
        let lines = redirected.lines.iter();
        let parsed: Vec<UserRequirement> = lines
            .filter_map(|line| UserRequirement::parse(line, user.origin.clone()).ok())
            .map(|own| own.of_part(user.part.clone()))
            .collect();
        let stays = parsed.is_empty() || !redirected.indexes.is_empty();
        parsed.into_iter().chain(stays.then_some(user)).collect()
    };
    request.requirements =
        std::mem::take(&mut request.requirements).into_iter().flat_map(redirected).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::manifest;

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
