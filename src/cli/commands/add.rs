//! `envlock add` and `envlock remove`: edit envlock.toml keeping its formatting, then resolve.

use toml_edit::{Array, DocumentMut, Item, Value, value};

use super::resolve::NewManifest;
use crate::cli::args::{AddArgs, GlobalArgs};
use crate::cli::error::CliError;
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::{files, manifest};
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
                let list = dependencies(document)?;
                remove_from(list, &name);
                list.push(parsed.requirement.to_string());
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
    let project = Project::with_manifest(folder, name, &after)?;
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

fn remove_from(list: &mut Array, name: &str) -> bool {
    let before = list.len();
    list.retain(|item| {
        item.as_str()
            .and_then(|t| UserRequirement::parse(t, Origin::CommandLine).ok())
            .is_none_or(|r| (r.requirement.name.as_ref() as &str) != name)
    });
    list.len() < before
}
