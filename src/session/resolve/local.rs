//! Whether the folders and files that a lock names by path are as they were when it was made. A folder is not hashed, but
//! what it requires is locked.

use std::collections::BTreeSet;
use std::path::Path;

use pep508_rs::{ExtraName, MarkerEnvironment, VersionOrUrl};

use crate::lockfile::Target;
use crate::model::marker::marker_environment;
use crate::model::metadata::CoreMetadata;
use crate::model::request::Request;
use crate::model::requirement::parse_requirement;
use crate::model::solution::{ChosenPackage, Edge};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::direct;
use crate::solver::source_build;

/// What differs from the lock, a phrase for each folder or file.
pub(crate) fn differences(
    target: &Target,
    request: &Request,
    registry: &Registry,
    folder: &Path,
) -> Vec<String> {
    let environment = marker_environment(target.python, target.platform);
    let difference = |package: &ChosenPackage| {
        let Source::Path(path) = &package.source else { return None };
        let (found, sha256) =
            match direct::project_at(path, folder, direct::stated_version(request, &package.name)) {
                Ok(found) => found,
                Err(error) => return Some(error.message),
            };
        let found = match request.metadata.iter().find(|row| row.is_about(&package.name, &found.version)) {
            Some(row) => found.with_requirements(&row.requires),
            None => found,
        };
        if sha256.is_some() && sha256 != package.files.first().and_then(|file| file.sha256.clone()) {
            return Some(format!("`{path}` is another file than the locked one"));
        }
        if found.name.as_ref() as &str != package.name {
            return Some(format!("`{path}` is the project `{}`, not `{}`", found.name, package.name));
        }
        if found.version != package.version {
            return Some(format!("`{path}` has version {}, the lock has {}", found.version, package.version));
        }
        let extras = extras(&package.name, &found, target, request, &environment);
        let now = found.edges(&environment, &extras);
        // A backport that Python has as a module is not locked.
        let counts = |edge: &&Edge| !registry.is_of_python(&edge.to, target.python);
        let (now, locked): (Vec<&Edge>, Vec<&Edge>) =
            (now.iter().filter(counts).collect(), package.requires.iter().filter(counts).collect());
        let other = now.iter().find(|edge| !locked.contains(edge)).map(|edge| ("requires", edge));
        let other =
            other.or(locked.iter().find(|edge| !now.contains(edge)).map(|edge| ("no longer requires", edge)));
        other
            .map(|(verb, edge)| format!("`{path}` {verb} `{}`", edge.requirement))
            .or_else(|| Some(format!("`{path}` {}", build_difference(&found, package, target, registry)?)))
    };
    target.packages.iter().filter_map(difference).collect()
}

/// How the build of a tree differs from the locked one, as a verb with its object. What its build requirements require in turn
/// is recorded in the lock alone.
fn build_difference(
    found: &CoreMetadata,
    package: &ChosenPackage,
    target: &Target,
    registry: &Registry,
) -> Option<String> {
    let is_of_python = |name: &str| registry.is_of_python(name, target.python);
    let now = source_build(registry, found, &is_of_python)?;
    let locked = package.build.as_ref()?;
    if now.kind != locked.kind {
        return Some("makes something else when it is built".to_owned());
    }
    if let Some(name) = now.needs.iter().find(|name| !locked.needs.contains(name)) {
        return Some(format!("needs `{name}` to be built"));
    }
    if let Some(name) = locked.needs.iter().find(|name| !now.needs.contains(name)) {
        return Some(format!("does not need `{name}` to be built"));
    }
    let environment = marker_environment(target.python, target.platform);
    let is_met = |line: &&String| {
        let Ok(asked) = parse_requirement(line) else { return true };
        let name: &str = asked.name.as_ref();
        let row = locked.requires.iter().find(|row| row.name == name);
        !asked.marker.evaluate(&environment, &[])
            // A file of which the index states no hash is not locked.
            || row.is_none_or(|row| match &asked.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(all)) => all.contains(&row.version),
                _ => true,
            })
    };
    let unmet = now.asks.iter().find(|line| !is_met(line));
    unmet.map(|line| format!("requires `{}` to be built", clean(line, 80)))
}

/// The extras with which the lock has a package: those that the request, the locked packages and its own extras name.
fn extras(
    name: &str,
    metadata: &CoreMetadata,
    target: &Target,
    request: &Request,
    environment: &MarkerEnvironment,
) -> Vec<ExtraName> {
    let lines = target.packages.iter().flat_map(|package| &package.requires);
    let edges = lines.filter_map(|edge| parse_requirement(&edge.requirement).ok());
    let asked = request.requirements.iter().map(|user| user.requirement.clone());
    let named = asked.chain(edges).filter(|requirement| requirement.name.as_ref() as &str == name);
    let mut extras: BTreeSet<ExtraName> = named.flat_map(|requirement| requirement.extras).collect();
    loop {
        let known: Vec<ExtraName> = extras.iter().cloned().collect();
        let own = metadata.requirements(environment, &known).flatten();
        let own = own.filter(|(requirement, _)| requirement.name.as_ref() as &str == name);
        extras.extend(own.flat_map(|(requirement, _)| requirement.extras.clone()));
        if extras.len() == known.len() {
            return known;
        }
    }
}
