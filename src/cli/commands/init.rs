//! `envlock init`

use crate::cli::args::{GlobalArgs, InitArgs, SolveArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::import::{self, Imported, Optional};
use crate::cli::printer::Printer;
use crate::cli::settings::Project;
use crate::cli::{files, manifest, write};
use crate::model::text::{clean, toml_string as quote};

pub(super) fn run(global: &GlobalArgs, args: &InitArgs, printer: &Printer) -> Result<u8, CliError> {
    let folder = match &global.project {
        Some(folder) => folder.clone(),
        None => std::env::current_dir()?,
    };
    let path = folder.join(files::MANIFEST);
    if path.exists() && !args.force {
        return Err(CliError::files(format!("`{}` already exists", path.display()))
            .hint("edit it, or pass `--force` to replace it"));
    }
    let from = match (&args.from, &args.from_prefix) {
        (Some(file), _) => {
            let (extras, groups) = (args.extra.clone(), args.group.clone());
            import::read(file, &folder, &Optional { extras, groups, all_extras: args.all_extras })?
        }
        (None, Some(folder)) => import::prefix::read(folder)?,
        (None, None) => Imported::default(),
    };
    for what in &from.left_out {
        printer.warning(&format!("left out: {what}"));
    }
    if from.has_login {
        printer.warning("a URL in the imported file has a login, and envlock.toml would hold it");
        printer.hint("remove it from the URL; envlock reads logins from netrc");
    }
    if from.left_out_index {
        printer.hint("configure indexes under `[[index]]` in envlock.toml");
    }
    let mut stack: Vec<(String, String)> = Vec::new();
    let mut dependencies: Vec<String> = Vec::new();
    for (written, requirement) in from.requirements {
        match manifest::stack_specifier(&requirement) {
            Some(specifier) => stack_row(&mut stack, requirement.requirement.name.to_string(), specifier),
            None => dependencies.push(written),
        }
    }
    if let Some(spec) = &args.torch {
        stack.retain(|(name, _)| name != "torch");
        stack.insert(0, ("torch".to_owned(), spec.trim().to_owned()));
    } else if stack.is_empty() && args.from.is_none() && args.from_prefix.is_none() {
        stack.push(("torch".to_owned(), "*".to_owned()));
    }
    let name = std::path::absolute(&folder)
        .ok()
        .and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "project".to_owned());
    let mut text = format!("[project]\nname = {}\n", quote(&clean(&name, 60)));
    if let Some(python) = args.python.as_ref().or(from.python.as_ref()) {
        text.push_str(&format!("python = {}\n", quote(python.trim())));
    }
    if dependencies.is_empty() {
        text.push_str("dependencies = []            # PEP 508: \"transformers>=4.50\"\n");
    } else {
        text.push_str("dependencies = [\n");
        for dependency in &dependencies {
            text.push_str(&format!("    {},\n", quote(dependency)));
        }
        text.push_str("]\n");
    }
    if !from.constraints.is_empty() {
        text.push_str("constraints = [\n");
        for constraint in &from.constraints {
            text.push_str(&format!("    {},\n", quote(constraint)));
        }
        text.push_str("]\n");
    }
    if !from.overrides.is_empty() {
        let overrides: Vec<String> = from.overrides.iter().map(|text| quote(text)).collect();
        text.push_str(&format!("\n[resolve]\noverrides = [{}]\n", overrides.join(", ")));
    }
    text.push_str("\n[stack]\n");
    for (package, spec) in &stack {
        text.push_str(&format!("{package} = {}\n", quote(spec)));
    }
    let mut limited: Vec<&str> = Vec::new();
    for (key, value) in &from.limits {
        if !limited.contains(key) {
            text.push_str(&format!("{key} = {}\n", quote(value)));
            limited.push(key);
        }
    }
    // The written manifest must be readable.
    manifest::parse(&text, files::MANIFEST)?;
    write::write(&path, &text)?;
    if args.from_prefix.is_none() || args.no_lock {
        printer.out(&format!("wrote {}", path.display()));
        printer.hint("run `envlock resolve`");
        return Ok(exit::YES);
    }
    // The manifest is kept even if it cannot be locked: it still lists what is installed.
    printer.note(&format!("wrote {}", path.display()));
    let project = Project::with_manifest(folder, files::MANIFEST, &text)?;
    let solve = SolveArgs {
        host: args.host.clone(),
        index_url: args.index_url.clone(),
        redetect: true,
        force: args.force,
        ..SolveArgs::default()
    };
    super::resolve::run_in(global, &project, &[], &solve, None, printer)
}

/// Adds a row of `[stack]`. A package that is required twice must satisfy both.
fn stack_row(stack: &mut Vec<(String, String)>, name: String, specifier: String) {
    match stack.iter_mut().find(|(known, _)| *known == name) {
        None => stack.push((name, specifier)),
        Some((_, known)) if *known == specifier || specifier == "*" => {}
        Some((_, known)) if known == "*" => *known = specifier,
        Some((_, known)) => *known = format!("{known},{specifier}"),
    }
}
