//! `envlock add` and `envlock remove`: edit envlock.toml keeping its formatting, then resolve.

use toml_edit::{Array, DocumentMut, Item, Value, value};

use super::resolve::NewManifest;
use crate::cli::args::{AddArgs, GlobalArgs};
use crate::cli::error::CliError;
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::{files, manifest};
use crate::export::Entries;
use crate::model::owner::Owner;
use crate::model::request::{Origin, UserRequirement};

pub(super) fn add(global: &GlobalArgs, args: &AddArgs, printer: &Printer) -> Result<u8, CliError> {
    edit(global, args, printer, |document| {
        for text in &args.packages {
            let parsed = settings::requirement(text)?;
            let name = parsed.requirement.name.to_string();
            if let Some(specifier) = manifest::stack_specifier(&parsed) {
                stack(document)[&name] = value(specifier);
            } else {
                put_into(dependencies(document)?, &name, &parsed.requirement.to_string());
            }
        }
        Ok(())
    })
}

pub(super) fn remove(global: &GlobalArgs, args: &AddArgs, printer: &Printer) -> Result<u8, CliError> {
    edit(global, args, printer, |document| {
        for text in &args.packages {
            let parsed = settings::requirement(text)?;
            let name = parsed.requirement.name.to_string();
            let in_stack =
                stack(document).as_table_like_mut().is_some_and(|table| table.remove(&name).is_some());
            let in_list = remove_from(dependencies(document)?, &name);
            if !in_stack && !in_list {
                return Err(CliError::usage(format!("`{name}` is not in envlock.toml")));
            }
        }
        Ok(())
    })
}

fn edit(
    global: &GlobalArgs,
    args: &AddArgs,
    printer: &Printer,
    change: impl Fn(&mut DocumentMut) -> Result<(), CliError>,
) -> Result<u8, CliError> {
    let folder = files::project_folder(global.project.as_deref(), false)?;
    let name = files::manifest_in(&folder)
        .ok_or_else(|| CliError::usage("there is no envlock.toml here").hint("start with `envlock init`"))?;
    if files::owner_in(&folder) == Some(Owner::Pixi) {
        let asked = args.packages.join(" ");
        return Err(CliError::usage("pixi holds the packages (`pixi.lock`)")
            .hint(format!("`pixi add {asked}`, or `pixi remove`, then `envlock resolve`")));
    }
    let path = folder.join(name);
    let before = files::read(&path)?.unwrap_or_default();
    manifest::parse(&before, name)?;
    let mut document: DocumentMut = before
        .parse()
        .map_err(|e: toml_edit::TomlError| CliError::input(format!("{name}: {}", e.message())))?;
    change(&mut document)?;
    let after = document.to_string();
    let mut project = Project::with_manifest(folder, name, &after)?;
    // What was typed is not in the file yet.
    if let Some(manifest) = &mut project.manifest {
        let typed: Vec<UserRequirement> =
            args.packages.iter().filter_map(|text| settings::requirement(text).ok()).collect();
        for user in &mut manifest.request.requirements {
            if typed.iter().any(|own| own.requirement.name == user.requirement.name) {
                user.origin = Origin::CommandLine;
            }
        }
    }
    // The manifest is written together with the lock, after a successful solve.
    super::resolve::run_in(
        global,
        &project,
        &[],
        &args.solve,
        Some(NewManifest { path, before, after }),
        printer,
    )
}

/// The table `[stack]`, in a pyproject.toml `[tool.envlock.stack]`.
fn stack(document: &mut DocumentMut) -> &mut Item {
    match document.get("tool").and_then(|tool| tool.get("envlock")).is_some() {
        true => &mut document["tool"]["envlock"]["stack"],
        false => &mut document["stack"],
    }
}

fn dependencies(document: &mut DocumentMut) -> Result<&mut Array, CliError> {
    let project = document.entry("project").or_insert(toml_edit::table());
    let project = project
        .as_table_like_mut()
        .ok_or_else(|| CliError::input("envlock.toml: `project` is not a table"))?;
    project
        .entry("dependencies")
        .or_insert(Item::Value(Value::Array(Array::new())))
        .as_array_mut()
        .ok_or_else(|| CliError::input("envlock.toml: `dependencies` is not an array"))
}

/// Whether an entry is a requirement on a package.
fn is_about(entry: &Value, name: &str) -> bool {
    let parsed = entry.as_str().and_then(|text| UserRequirement::parse(text, Origin::CommandLine).ok());
    parsed.is_some_and(|user| user.requirement.name.as_ref() as &str == name)
}

/// Whether an array has its entries on lines of their own.
fn has_lines(list: &Array) -> bool {
    let texts = list.iter().filter_map(|entry| entry.decor().prefix()).chain([list.trailing()]);
    texts.filter_map(|text| text.as_str()).any(|text| text.contains('\n'))
}

/// Puts a requirement in the place of one on the same package, or at the end.
fn put_into(list: &mut Array, name: &str, text: &str) {
    if has_lines(list) {
        let mut entries = Entries::of(list);
        entries.set(|entry| is_about(entry, name), text);
        return replace(list, entries);
    }
    let there = list.iter().position(|entry| is_about(entry, name));
    match there {
        Some(at) => {
            list.replace(at, text);
            let mut place = 0;
            list.retain(|entry| {
                place += 1;
                place - 1 <= at || !is_about(entry, name)
            });
        }
        None => list.push(text),
    }
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
