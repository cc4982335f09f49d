//! `envlock init`

use std::path::Path;

use crate::cli::args::{GlobalArgs, InitArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::Printer;
use crate::cli::{files, manifest};
use crate::model::request::UserRequirement;
use crate::model::text::{clean, toml_string as quote};

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
    let mut from = FromFile::default();
    if let Some(file) = &args.from {
        from.read(file, false, 0)?;
    }
    for option in &from.left_out {
        printer.warning(&format!(
            "`{option}` has no place in envlock.toml and is left out; indexes go into `[[index]]`"
        ));
    }
    let mut stack: Vec<(String, String)> = Vec::new();
    let mut dependencies: Vec<String> = Vec::new();
    for (written, requirement) in from.requirements {
        match manifest::stack_specifier(&requirement) {
            Some(specifier) => stack.push((requirement.requirement.name.to_string(), specifier)),
            None => dependencies.push(written),
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
    if !from.constraints.is_empty() {
        text.push_str("constraints = [\n");
        for constraint in &from.constraints {
            text.push_str(&format!("    {},\n", quote(constraint)));
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

/// What a requirements.txt asks for.
#[derive(Default)]
struct FromFile {
    requirements: Vec<(String, UserRequirement)>,
    constraints: Vec<String>,
    /// Options that have no place in a manifest.
    left_out: Vec<String>,
}

impl FromFile {
    /// Reads a file, and those that it includes with `-r` and `-c`.
    fn read(&mut self, file: &Path, constraints: bool, depth: usize) -> Result<(), CliError> {
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if depth > 8 {
            return Err(CliError::new("input", format!("`{}` includes itself", clean(&name, 80))));
        }
        if !name.ends_with(".txt") && !name.ends_with(".in") {
            return Err(CliError::new("usage", format!("`{}` is not a requirements.txt", clean(&name, 80)))
                .hint("pyproject.toml and environment.yml are not read yet"));
        }
        let text = files::read(file)?
            .ok_or_else(|| CliError::new("input", format!("`{}` does not exist", file.display())))?;
        for line in text.replace("\\\r\n", " ").replace("\\\n", " ").lines() {
            let line = line.split(" #").next().unwrap_or("").trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let option = |names: [&str; 2]| {
                names
                    .iter()
                    .find_map(|n| line.strip_prefix(n)?.trim_start_matches('=').split_whitespace().next())
            };
            let included = option(["--requirement", "-r"]).map(|f| (f, constraints));
            if let Some((other, kind)) =
                included.or_else(|| option(["--constraint", "-c"]).map(|f| (f, true)))
            {
                let other = file.parent().unwrap_or(Path::new(".")).join(other);
                self.read(&other, kind, depth + 1)?;
                continue;
            }
            if line.starts_with('-') && !line.starts_with("-e") {
                self.left_out.push(clean(line.split_whitespace().next().unwrap_or(line), 60));
                continue;
            }
            // Hashes belong to the lock.
            let line = line.split(" --").next().unwrap_or(line).trim();
            let parsed = manifest::requirement(line, &name)
                .map_err(|m| CliError::new("input", format!("{name}: {m}")))?;
            if constraints {
                self.constraints.push(line.to_owned());
            } else {
                self.requirements.push((line.to_owned(), parsed));
            }
        }
        Ok(())
    }
}
