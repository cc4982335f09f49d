//! `envlock add` and `envlock remove`: edit a manifest keeping its formatting.

use pep508_rs::VersionOrUrl;
use toml_edit::{Array, DocumentMut, Item, Value, value};

use super::failure::Failure;
use super::options::{Global, SolveOptions};
use super::resolve::NewManifest;
use super::settings::{self, Project};
use super::{files, manifest};
use crate::formats::{Entries, in_its_form};
use crate::model::owner::Owner;
use crate::model::request::{Origin, UserRequirement};

/// A project with its changed manifest, which is written with the lock.
pub(crate) struct Edited {
    pub project: Project,
    /// How to solve: what the manifest says now is no option.
    pub options: SolveOptions,
    pub manifest: NewManifest,
}

/// Which list of the manifest is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// What the project requires.
    Dependencies,
    /// Bounds on packages, whoever requires them.
    Constraints,
}

/// Adds packages (PEP 508) to a list of the manifest.
///
/// # Errors
/// When there is no manifest, another tool holds the packages, or one is no requirement.
pub(crate) fn add(
    global: &Global,
    packages: &[String],
    list: List,
    options: &SolveOptions,
) -> Result<Edited, Failure> {
    let packages = &joined(packages)?;
    edit(global, packages, options, &|document, name, owner| {
        for text in packages {
            let parsed = settings::requirement(text)?;
            if list == List::Constraints {
                check_bound(&parsed, text)?;
                take_own(document);
                let there = CONSTRAINTS.into_iter().find(|path| bounds(document, path, parsed.name()));
                put_into(constraints(document, name, owner, there)?, &parsed, text.trim())?;
                continue;
            }
            let package = parsed.name().to_owned();
            let specifier = manifest::stack_specifier(&parsed);
            // One that is in the list already stays there.
            let is_listed = dependencies(document, name)?.is_some_and(|list| {
                list.iter().any(|entry| requirement_of(entry).is_some_and(|own| is_named(&own, &package)))
            });
            match specifier.filter(|_| !is_listed) {
                Some(specifier) => put_into_stack(stack(document), &package, &specifier),
                None if !is_listed && extras_in_stack(stack(document), &parsed) => {}
                None => put_into(list_of(document, name)?, &parsed, text.trim())?,
            }
        }
        Ok(())
    })
}

/// What was typed, with the bounds of one package in one requirement: each of them is meant, and a list has one line for a
/// package.
fn joined(packages: &[String]) -> Result<Vec<String>, Failure> {
    let mut out: Vec<(UserRequirement, String)> = Vec::new();
    for text in packages {
        let mut parsed = settings::requirement(text)?;
        let text = text.clone();
        let is_same = |(own, _): &(UserRequirement, String)| {
            let (own_is, is) = (&own.requirement, &parsed.requirement);
            own_is.name == is.name && own_is.marker == is.marker && own_is.extras == is.extras
        };
        if let Some(at) = out.iter().position(is_same)
            && let (Some(before), Some(bounds)) = (out[at].0.specifiers(), parsed.specifiers())
        {
            let both = before.iter().chain(bounds.iter()).cloned().collect();
            parsed.requirement.version_or_url = Some(VersionOrUrl::VersionSpecifier(both));
            let text = parsed.requirement.to_string();
            out[at] = (parsed, text);
            continue;
        }
        out.push((parsed, text));
    }
    Ok(out.into_iter().map(|(_, text)| text).collect())
}

/// Removes packages from a list of the manifest, by name.
///
/// # Errors
/// When there is no manifest, another tool holds the packages, or one is not in it.
pub(crate) fn remove(
    global: &Global,
    packages: &[String],
    list: List,
    options: &SolveOptions,
) -> Result<Edited, Failure> {
    edit(global, packages, options, &|document, name, _| {
        for text in packages {
            let parsed = settings::requirement(text)?;
            let package = parsed.name().to_owned();
            if list == List::Constraints {
                let removed = CONSTRAINTS
                    .map(|path| array_at(document, path).is_some_and(|list| remove_from(list, &package)));
                if !removed.contains(&true) {
                    let what = format!("`{package}` is not in the constraints of {name}");
                    return Err(Failure::usage(what));
                }
                continue;
            }
            let in_stack =
                stack(document).as_table_like_mut().is_some_and(|table| table.remove(&package).is_some());
            let in_list = dependencies(document, name)?.is_some_and(|list| remove_from(list, &package));
            if !in_stack && !in_list {
                return Err(Failure::usage(format!("`{package}` is not in the dependencies of {name}")));
            }
        }
        Ok(())
    })
}

fn edit(
    global: &Global,
    packages: &[String],
    options: &SolveOptions,
    change: &dyn Fn(&mut DocumentMut, &str, Option<Owner>) -> Result<(), Failure>,
) -> Result<Edited, Failure> {
    let folder = files::project_folder(global.project.as_deref(), false)?;
    let name = files::manifest_in(&folder)
        .ok_or_else(|| Failure::usage("there is no envlock.toml here").hint("start with `envlock init`"))?;
    let owner = files::owner_in(&folder);
    if owner == Some(Owner::Pixi) {
        let asked = packages.join(" ");
        return Err(Failure::usage("pixi holds the packages (`pixi.lock`)")
            .hint(format!("`pixi add {asked}`, or `pixi remove`, then `envlock resolve`")));
    }
    // A link to a manifest stays one.
    let path = folder.join(name);
    let path = fs_err::canonicalize(&path).unwrap_or(path);
    let before = files::read(&path)?.unwrap_or_default();
    let old = manifest::parse(&before, name)?.request;
    let is_moved = std::cell::Cell::new(false);
    let after = in_its_form(&before, &|text| {
        let mut document: DocumentMut = text
            .parse()
            .map_err(|e: toml_edit::TomlError| Failure::input(format!("{name}: {}", e.message())))?;
        change(&mut document, name, owner)?;
        // With the old cutoff, what is added would be refused the next time.
        if let Some(cutoff) = &options.exclude_newer
            && move_cutoff(&mut document, cutoff)
        {
            is_moved.set(true);
        }
        Ok::<_, Failure>(document.to_string())
    })?;
    let mut project = Project::with_manifest(folder, name, &after)?;
    // What was typed is not in the file yet.
    if let Some(manifest) = &mut project.manifest {
        let typed: Vec<UserRequirement> =
            packages.iter().filter_map(|text| settings::requirement(text).ok()).collect();
        let request = &mut manifest.request;
        for (list, takes_extras) in [(&mut request.requirements, true), (&mut request.constraints, false)] {
            // Where the manifest requires a package in one new line, that is the typed one, though extras of the table may be added.
            let names: Vec<String> = list.iter().map(|user| user.name().to_owned()).collect();
            let is_new = |user: &UserRequirement| {
                let is_only = names.iter().filter(|own| *own == user.name()).count() == 1;
                takes_extras
                    && is_only
                    && !old.requirements.iter().any(|own| own.requirement == user.requirement)
            };
            for user in list {
                let is_it = |own: &UserRequirement| {
                    own.name() == user.name() && (own.requirement == user.requirement || is_new(user))
                };
                if typed.iter().any(is_it) {
                    user.origin = Origin::CommandLine;
                }
            }
        }
    }
    // What the manifest says is no option.
    let mut options = options.clone();
    options.exclude_newer = options.exclude_newer.filter(|_| !is_moved.get());
    // The manifest is written together with the lock, after a successful solve.
    Ok(Edited { project, options, manifest: NewManifest { path, before, after } })
}

/// Sets the cutoff of the manifest, if it has one. Returns whether it has.
fn move_cutoff(document: &mut DocumentMut, cutoff: &str) -> bool {
    let own = match document.get("tool").and_then(|tool| tool.get("envlock")).is_some() {
        true => document["tool"]["envlock"].get_mut("resolve"),
        false => document.get_mut("resolve"),
    };
    let before = own.and_then(Item::as_table_like_mut).and_then(|table| table.get_mut("exclude-newer"));
    let Some(Item::Value(before)) = before else { return false };
    let decor = before.decor().clone();
    *before = Value::from(cutoff);
    *before.decor_mut() = decor;
    true
}

/// The table `[stack]`, in a pyproject.toml `[tool.envlock.stack]`.
fn stack(document: &mut DocumentMut) -> &mut Item {
    match document.get("tool").and_then(|tool| tool.get("envlock")).is_some() {
        true => &mut document["tool"]["envlock"]["stack"],
        false => &mut document["stack"],
    }
}

/// Where manifests have their constraints: envlock.toml, a pyproject.toml, one of uv.
const CONSTRAINTS: [&[&str]; 3] = [
    &["project", "constraints"],
    &["tool", "envlock", "constraints"],
    &["tool", "uv", "constraint-dependencies"],
];

/// The list at a path of tables; `None` if there is none.
fn array_at<'d>(document: &'d mut DocumentMut, path: &[&str]) -> Option<&'d mut Array> {
    let mut item = document.as_item_mut();
    for key in path {
        item = item.as_table_like_mut()?.get_mut(key)?;
    }
    item.as_array_mut()
}

/// Takes envlock's own entries out of uv's list, which `resolve` writes anew.
fn take_own(document: &mut DocumentMut) {
    if let Some(list) = array_at(document, CONSTRAINTS[2]) {
        let mut entries = Entries::of(list);
        if !entries.take_own().is_empty() {
            replace(list, entries);
        }
    }
}

/// Whether the list at a path has a bound on a package.
fn bounds(document: &mut DocumentMut, path: &[&str], package: &str) -> bool {
    array_at(document, path).is_some_and(|list| list.iter().any(|entry| is_about(entry, package)))
}

/// The list of constraints: the one at the path `there`, else the manifest's, which is made where there is none; uv's own where it
/// holds the packages, so that it has them too.
fn constraints<'d>(
    document: &'d mut DocumentMut,
    name: &str,
    owner: Option<Owner>,
    there: Option<&'static [&'static str]>,
) -> Result<&'d mut Array, Failure> {
    let [of_envlock, of_pyproject, of_uv] = CONSTRAINTS;
    let path = there.unwrap_or(match (name == files::PYPROJECT, owner) {
        (false, _) => of_envlock,
        (true, Some(Owner::Uv)) => of_uv,
        (true, _) => of_pyproject,
    });
    let wrong = || Failure::input(format!("{name}: `{}` is not an array", path.join(".")));
    let (last, tables) = path.split_last().expect("a path has a last part");
    let mut item = document.as_item_mut();
    for key in tables {
        let table = item.as_table_like_mut().ok_or_else(wrong)?;
        item = table.entry(key).or_insert(toml_edit::table());
    }
    let list = item.as_table_like_mut().ok_or_else(wrong)?.entry(last);
    list.or_insert(Item::Value(Value::Array(Array::new()))).as_array_mut().ok_or_else(wrong)
}

/// A constraint has a bound, and no extras or address.
fn check_bound(parsed: &UserRequirement, text: &str) -> Result<(), Failure> {
    let wrong = match (parsed.specifiers(), parsed.requirement.extras.is_empty()) {
        (Some(_), true) => return Ok(()),
        (Some(_), false) => "has extras, which bound no version",
        (None, _) => "bounds no version",
    };
    let shown = crate::model::text::clean(text.trim(), 60);
    Err(Failure::usage(format!("`{shown}` {wrong}"))
        .hint(format!("a constraint is a name with a bound, as `{}<2`", parsed.name())))
}

/// The list of dependencies; `None` if there is none.
///
/// # Errors
/// When it is something else than a list.
fn dependencies<'d>(document: &'d mut DocumentMut, name: &str) -> Result<Option<&'d mut Array>, Failure> {
    let project = document.get_mut("project").and_then(Item::as_table_like_mut);
    let Some(item) = project.and_then(|project| project.get_mut("dependencies")) else { return Ok(None) };
    item.as_array_mut()
        .map(Some)
        .ok_or_else(|| Failure::input(format!("{name}: `dependencies` is not an array")))
}

/// The list of dependencies, which is made where there is none.
///
/// # Errors
/// When the manifest has them somewhere else: a build backend computes them, or the members of a workspace state them.
fn list_of<'d>(document: &'d mut DocumentMut, name: &str) -> Result<&'d mut Array, Failure> {
    let elsewhere = |what: &str, where_: &str| Err(Failure::usage(format!("{name}: {what}")).hint(where_));
    if name == files::PYPROJECT {
        let project = document.get("project").and_then(Item::as_table_like);
        let Some(project) = project else {
            return elsewhere(
                "it has no `[project]`: the members of the workspace state the packages",
                "add the package in the member's pyproject.toml, then run `envlock resolve`",
            );
        };
        let dynamic = project.get("dynamic").and_then(Item::as_array);
        if dynamic.is_some_and(|names| names.iter().any(|name| name.as_str() == Some("dependencies"))) {
            return elsewhere(
                "its `dependencies` are `dynamic`: the build backend provides them",
                "add the package where it reads them, then run `envlock resolve`",
            );
        }
    }
    let project = document.entry("project").or_insert(toml_edit::table());
    let project = project
        .as_table_like_mut()
        .ok_or_else(|| Failure::input(format!("{name}: `project` is not a table")))?;
    project
        .entry("dependencies")
        .or_insert(Item::Value(Value::Array(Array::new())))
        .as_array_mut()
        .ok_or_else(|| Failure::input(format!("{name}: `dependencies` is not an array")))
}

/// Sets the bound of a package of the stack; what else is said of it stays.
fn put_into_stack(stack: &mut Item, package: &str, specifier: &str) {
    if stack.is_none() {
        *stack = toml_edit::table();
    }
    let item = &mut stack[package];
    match item.as_value_mut() {
        Some(Value::InlineTable(table)) => {
            table.insert("version", Value::from(specifier));
        }
        Some(there) => {
            let decor = there.decor().clone();
            *there = Value::from(specifier);
            *there.decor_mut() = decor;
        }
        None => *item = value(specifier),
    }
}

/// Takes a requirement with extras into the table that `[stack]` has of its package; whether it has one.
fn extras_in_stack(stack: &mut Item, parsed: &UserRequirement) -> bool {
    let requirement = &parsed.requirement;
    let table = stack.as_table_like_mut().and_then(|stack| stack.get_mut(parsed.name()));
    let table = table.and_then(Item::as_inline_table_mut);
    let Some(table) = table.filter(|_| requirement.marker.is_true() && parsed.direct().is_none()) else {
        return false;
    };
    let specifier = parsed.specifiers().map_or_else(|| "*".to_owned(), ToString::to_string);
    table.insert("version", Value::from(specifier));
    let mut extras: Vec<String> = table
        .get("extras")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|own| Some(own.as_str()?.to_owned()))
        .collect();
    extras.extend(requirement.extras.iter().map(ToString::to_string));
    extras.sort_unstable();
    extras.dedup();
    if !extras.is_empty() {
        table.insert("extras", Value::Array(extras.into_iter().collect::<Array>()));
    }
    true
}

/// The requirement that an entry is.
fn requirement_of(entry: &Value) -> Option<UserRequirement> {
    UserRequirement::parse(entry.as_str()?, Origin::CommandLine).ok()
}

fn is_named(user: &UserRequirement, package: &str) -> bool {
    user.name() == package
}

/// Whether an entry is a requirement on a package.
fn is_about(entry: &Value, name: &str) -> bool {
    requirement_of(entry).is_some_and(|user| is_named(&user, name))
}

/// Whether an array has its entries on lines of their own.
fn has_lines(list: &Array) -> bool {
    let texts = list.iter().filter_map(|entry| entry.decor().prefix()).chain([list.trailing()]);
    texts.filter_map(|text| text.as_str()).any(|text| text.contains('\n'))
}

/// Puts a requirement in the place of the one on the same package for the same environments, or at the end.
///
/// # Errors
/// When it names no environment, and there are several requirements on the package that do.
fn put_into(list: &mut Array, asked: &UserRequirement, text: &str) -> Result<(), Failure> {
    let name = asked.name();
    let there: Vec<UserRequirement> =
        list.iter().filter_map(requirement_of).filter(|own| is_named(own, name)).collect();
    let same = there.iter().find(|own| own.requirement.marker == asked.requirement.marker);
    let replaced = match (same, there.as_slice()) {
        (Some(same), _) => Some(same),
        (None, [one]) if asked.requirement.marker.is_true() => Some(one),
        (None, several) if several.len() > 1 && asked.requirement.marker.is_true() => {
            let lines: Vec<String> = several.iter().map(|own| format!("`{}`", own.line())).collect();
            return Err(Failure::usage(format!(
                "`{name}` is required for several environments: {}",
                lines.join(", ")
            ))
            .hint("name the one that is meant, with its marker, or edit the file"));
        }
        _ => None,
    };
    let is_it = |entry: &Value| {
        let own = requirement_of(entry);
        own.zip(replaced).is_some_and(|(own, replaced)| own.requirement == replaced.requirement)
    };
    // Other lines on it for the same environments would still bound it.
    let is_other = |entry: &Value| {
        let of_package = requirement_of(entry).filter(|own| is_named(own, name) && !is_it(entry));
        of_package
            .zip(replaced)
            .is_some_and(|(own, replaced)| own.requirement.marker == replaced.requirement.marker)
    };
    if has_lines(list) {
        let mut entries = Entries::of(list);
        entries.take(is_other);
        entries.set(is_it, text);
        replace(list, entries);
        return Ok(());
    }
    if list.iter().any(&is_other) {
        list.retain(|entry| !is_other(entry));
        // What stood behind a comma stands behind the bracket.
        if let Some(first) = list.iter_mut().next() {
            first.decor_mut().set_prefix("");
        }
    }
    let at = list.iter().position(is_it);
    match at {
        Some(at) => {
            list.replace(at, text);
        }
        None => {
            // As the last one: without the space before its bracket.
            let end = list.iter().last().and_then(|last| last.decor().suffix()?.as_str().map(str::to_owned));
            if let Some(last) = list.iter_mut().last() {
                last.decor_mut().set_suffix("");
            }
            list.push(text);
            if let (Some(last), Some(end)) = (list.iter_mut().last(), end) {
                last.decor_mut().set_suffix(end);
            }
        }
    }
    Ok(())
}

/// Puts entries in place of those of an array, whose place and comments stay.
fn replace(list: &mut Array, entries: Entries) {
    let decor = list.decor().clone();
    *list = entries.written();
    *list.decor_mut() = decor;
}

fn remove_from(list: &mut Array, name: &str) -> bool {
    let before = list.len();
    if has_lines(list) {
        let mut entries = Entries::of(list);
        entries.take(|entry| is_about(entry, name));
        replace(list, entries);
    } else {
        list.retain(|entry| !is_about(entry, name));
        // What stood behind a bracket stands behind it again.
        if let Some(first) = list.iter_mut().next() {
            first.decor_mut().set_prefix("");
        }
    }
    list.len() < before
}
