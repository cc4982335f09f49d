//! requirements.txt, with the files that it includes.

use std::path::Path;

use super::{Imported, text};
use crate::model::text::clean;
use crate::session::error::CliError;

/// Includes that are nested deeper than this are treated as a cycle.
const MAX_INCLUDE_DEPTH: usize = 8;

pub(super) fn read(mut out: Imported, file: &Path) -> Result<Imported, CliError> {
    read_into(&mut out, file, false, 0)?;
    Ok(out)
}

/// Adds the requirements or constraints of a file that another file includes.
pub(super) fn include(out: &mut Imported, file: &Path, constraints: bool) -> Result<(), CliError> {
    read_into(out, file, constraints, 1)
}

/// Reads a file, and those that it includes with `-r` and `-c`.
fn read_into(out: &mut Imported, file: &Path, constraints: bool, depth: usize) -> Result<(), CliError> {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if depth > MAX_INCLUDE_DEPTH {
        return Err(CliError::input(format!("`{}` includes itself", clean(&name, 80))));
    }
    for (number, line) in logical_lines(&text(file)?) {
        let place = format!("{name}:{number}");
        let line = line.split(" #").next().unwrap_or("").split("\t#").next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let option = |names: [&str; 2]| {
            names.iter().find_map(|n| line.strip_prefix(n)?.trim_start_matches('=').split_whitespace().next())
        };
        let included = option(["--requirement", "-r"]).map(|f| (f, constraints));
        if let Some((other, kind)) = included.or_else(|| option(["--constraint", "-c"]).map(|f| (f, true))) {
            let other = file.parent().unwrap_or(Path::new(".")).join(other);
            read_into(out, &other, kind, depth + 1)?;
            continue;
        }
        let is_editable = line.starts_with("-e") || line.starts_with("--editable");
        if line.starts_with('-') && !is_editable {
            out.option(line);
            continue;
        }
        let line = &without_options(out, line);
        if constraints && !is_editable {
            let mut bound = Imported::default();
            bound.push(line, &place)?;
            match bound.requirements.iter().any(|(_, parsed)| parsed.direct().is_some()) {
                true => out.leave_out_because(line, "a direct reference cannot bound versions"),
                false => out.constraints.push(line.to_owned()),
            }
        } else {
            out.push_line(line, &super::reference::folder_of(file), &place)?;
        }
    }
    Ok(())
}

/// The lines of a file with those that a backslash continues, each with the number of its first one, from 1.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (i, line) in text.lines().enumerate() {
        let (content, is_continued) = match line.strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        match out.last_mut().filter(|_| goes_on) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(content);
            }
            None => out.push((i + 1, content.to_owned())),
        }
        goes_on = is_continued;
    }
    out
}

/// A requirement without its options. The lock has hashes of its own; a direct reference keeps the stated one.
pub(super) fn without_options(out: &mut Imported, line: &str) -> String {
    let mut parts = line.split(" --");
    let mut requirement = parts.next().unwrap_or(line).trim().to_owned();
    for option in parts {
        match option.trim().strip_prefix("hash=sha256:") {
            Some(digest) if requirement.contains("://") && !requirement.contains(['#', ';']) => {
                requirement.push_str(&format!("#sha256={}", digest.trim()));
            }
            Some(_) => out.leave_out_hashes(),
            None if option.starts_with("hash") => out.leave_out_hashes(),
            None => out.option(&format!("--{}", option.trim())),
        }
    }
    requirement
}
