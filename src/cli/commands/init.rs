//! `envlock init`

use crate::cli::args::{GlobalArgs, InitArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::Printer;
use crate::cli::{files, manifest};
use crate::model::request::UserRequirement;
use crate::model::text::{clean, toml_string as quote};
use crate::solver::STACK_PACKAGES;

pub(super) fn run(global: &GlobalArgs, args: &InitArgs, printer: &Printer) -> Result<u8, CliError> {
    let folder = match &global.project {
        Some(folder) => folder.clone(),
        None => std::env::current_dir()?,
    };
    let path = folder.join(files::MANIFEST);
    if path.exists() && !args.force {
        return Err(CliError::new("files", format!("`{}` exists", path.display()))
            .hint("edit it, or pass `--force` to replace it"));
    }
    let from = match &args.from {
        None => Vec::new(),
        Some(file) => requirements_of(file)?,
    };
    let mut stack: Vec<(String, String)> = Vec::new();
    let mut dependencies: Vec<String> = Vec::new();
    for (written, requirement) in from {
        let name = requirement.requirement.name.to_string();
        let plain = requirement.requirement.extras.is_empty() && requirement.requirement.marker.is_true();
        if STACK_PACKAGES.contains(&name.as_str()) && plain {
            let text = requirement.requirement.to_string();
            let spec = text[name.len()..].trim().to_owned();
            stack.push((name, if spec.is_empty() { "*".to_owned() } else { spec }));
        } else {
            dependencies.push(written);
        }
    }
    if let Some(spec) = &args.torch {
        stack.retain(|(name, _)| name != "torch");
        stack.insert(0, ("torch".to_owned(), spec.trim().to_owned()));
    } else if stack.is_empty() {
        stack.push(("torch".to_owned(), "*".to_owned()));
    }
    let name = std::path::absolute(&folder)
        .ok()
        .and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "project".to_owned());
    let mut text = format!("[project]\nname = {}\n", quote(&clean(&name, 60)));
    if let Some(python) = &args.python {
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
    text.push_str("\n[stack]\n");
    for (package, spec) in &stack {
        text.push_str(&format!("{package} = {}\n", quote(spec)));
    }
    // What is written must be what can be read.
    manifest::parse(&text, files::MANIFEST)?;
    files::write(&path, &text)?;
    printer.out(&format!("wrote {}", path.display()));
    printer.hint("run `envlock resolve`");
    Ok(exit::YES)
}

/// The requirements of a requirements.txt as written and parsed; options are left out.
fn requirements_of(file: &std::path::Path) -> Result<Vec<(String, UserRequirement)>, CliError> {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.ends_with(".txt") && !name.ends_with(".in") {
        return Err(CliError::new("usage", format!("`{}` is not a requirements.txt", clean(&name, 80)))
            .hint("pyproject.toml and environment.yml are not read yet"));
    }
    let text = files::read(file)?
        .ok_or_else(|| CliError::new("input", format!("`{}` does not exist", file.display())))?;
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut out = Vec::new();
    for line in joined.lines() {
        let line = line.split(" #").next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('-') && !line.starts_with("-e") {
            continue;
        }
        // Hashes belong to the lock.
        let line = line.split(" --").next().unwrap_or(line).trim();
        let requirement =
            manifest::requirement(line, &name).map_err(|m| CliError::new("input", format!("{name}: {m}")))?;
        out.push((line.to_owned(), requirement));
    }
    Ok(out)
}
