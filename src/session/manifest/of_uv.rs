//! `[tool.uv]` of a pyproject.toml that is envlock's manifest: what bounds versions, and where packages come from, counts for
//! envlock too. Entries that envlock wrote itself are left out.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Manifest, OwnBounds};
use crate::formats::uv::{Settings, UvTables, Workspace};
use crate::model::cutoff::Cutoff;
use crate::model::request::{Limit, PythonRequest, UserRequirement};
use crate::session::clock;
use crate::session::disk::Disk;
use crate::session::failure::Failure;
use crate::session::files;

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
    let settings = settings_in(text);
    let root = settings.sources();
    // Which parts exclude each other is stated by member; none of them is then locked.
    let has_conflicts = settings.conflicts.is_some();
    let mut pythons = Vec::new();
    for path in workspace.members(&Disk).into_keys() {
        let below = files::path_from(&path, folder);
        let name = format!("{below}/{}", files::PYPROJECT);
        let text = files::read(&path.join(files::PYPROJECT))?.unwrap_or_default();
        let member = super::parse(&text, &name)?;
        let mut sources = root.clone();
        sources.extend(settings_in(&text).sources().below(&below));
        let requirements = member.request.requirements.into_iter();
        let kept = requirements.filter(|user| !has_conflicts || user.part.is_none());
        let redirected = kept.flat_map(|user| sources.requirement(user, &member_of(folder)));
        manifest.request.requirements.extend(redirected);
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

/// What a pyproject.toml tells uv. What uv itself would refuse is left to uv.
fn settings_in(text: &str) -> Settings {
    Settings::of_pyproject(text).ok().flatten().unwrap_or_default()
}

/// Finds the path of a member of the workspace that a folder belongs to.
fn member_of(folder: &Path) -> impl Fn(&str) -> Option<String> {
    move |package| {
        let found = Workspace::of(&Disk, folder)?.member(&Disk, package)?;
        Some(files::path_from(&found, folder))
    }
}

/// Applies the tables to a manifest that was read from this text, in this folder.
pub(crate) fn apply(manifest: &mut Manifest, text: &str, folder: &Path) {
    let lines = |list: &[UserRequirement]| list.iter().map(UserRequirement::line).collect();
    manifest.own_bounds = OwnBounds {
        constraints: lines(&manifest.request.constraints),
        overrides: lines(&manifest.request.overrides),
    };
    let Ok(users) = UvTables::default().written_into(text) else { return };
    let settings = settings_in(&users);
    let request = &mut manifest.request;
    for (own, lines) in [
        (&mut request.constraints, &settings.constraint_dependencies),
        (&mut request.overrides, &settings.override_dependencies),
    ] {
        let parsed =
            lines.iter().filter_map(|line| UserRequirement::parse(line, files::PYPROJECT.into()).ok());
        for bound in parsed.filter(|bound| bound.direct().is_none()) {
            if !own.iter().any(|own| own.line() == bound.line()) {
                own.push(bound);
            }
        }
    }
    let cutoff = settings.exclude_newer.as_ref().and_then(toml::Value::as_str);
    let cutoff = cutoff.and_then(|text| Cutoff::parse(text, clock::now()).ok());
    if let Some(value) = cutoff.filter(|_| request.exclude_newer.general.is_none()) {
        request.exclude_newer.general = Some(Limit { value, origin: files::PYPROJECT.into() });
        manifest.cutoff_is_of_uv = true;
    }
    let (sources, member) = (settings.sources(), member_of(folder));
    let requirements = std::mem::take(&mut request.requirements).into_iter();
    request.requirements = requirements.flat_map(|user| sources.requirement(user, &member)).collect();
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
