//! requirements.txt, with the files that it includes.

use std::path::{Component, Path, PathBuf};

use super::requirement_lines;
use crate::formats::imported::{Context, ImportError, Imported, folder_of};
use crate::model::text::clean;

/// Includes that are nested deeper than this are treated as a cycle.
const MAX_INCLUDE_DEPTH: usize = 8;

pub(in crate::formats) fn read(
    mut out: Imported,
    context: Context<'_>,
    file: &Path,
) -> Result<Imported, ImportError> {
    let shown = shown(file);
    read_into(&mut out, context, (file, &shown, None), (false, 0))?;
    Ok(out)
}

/// Adds the requirements or constraints of a file that another file includes.
pub(in crate::formats) fn include(
    out: &mut Imported,
    context: Context<'_>,
    file: &Path,
    constraints: bool,
) -> Result<(), ImportError> {
    read_into(out, context, (file, &shown(file), None), (constraints, 1))
}

/// A file as a person named it: with its folder, if that is below this one.
fn shown(file: &Path) -> PathBuf {
    let is_below = file.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match is_below {
        true => file.to_owned(),
        false => file.file_name().map_or(PathBuf::new(), PathBuf::from),
    }
}

/// Reads a file, and those that it includes with `-r` and `-c`. With the file, how it is shown, and the line that includes it.
fn read_into(
    out: &mut Imported,
    context: Context<'_>,
    (file, shown, included_at): (&Path, &Path, Option<&str>),
    (constraints, depth): (bool, usize),
) -> Result<(), ImportError> {
    let name = shown.display().to_string();
    if depth > MAX_INCLUDE_DEPTH {
        return Err(ImportError::input(format!("`{}` includes itself", clean(&name, 80))));
    }
    let text = context.text(file).map_err(|error| match included_at {
        Some(place) => error.included_at(place),
        None => error,
    })?;
    for (number, line) in requirement_lines(&text) {
        let place = format!("{name}:{number}");
        let line = line.as_str();
        let (files, others) = included(line);
        for (other, is_constraint) in &files {
            let beside = |one: &Path| one.parent().unwrap_or(Path::new("")).join(other);
            let other = (&*beside(file), &*beside(shown), Some(place.as_str()));
            read_into(out, context, other, (constraints || *is_constraint, depth + 1))?;
        }
        if !files.is_empty() {
            others.iter().for_each(|option| out.option(option));
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
                false => {
                    out.places.entry(line.to_owned()).or_insert(place);
                    out.constraints.push(line.to_owned());
                }
            }
        } else {
            out.push_line(context, line, &folder_of(file), &place)?;
        }
    }
    Ok(())
}

/// The other files that a line of options includes, and whether each is of constraints; and the line's other options, with their
/// values. A requirement includes none.
fn included(line: &str) -> (Vec<(String, bool)>, Vec<String>) {
    let (mut files, mut others) = (Vec::new(), Vec::<String>::new());
    if !line.starts_with('-') {
        return (files, others);
    }
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        let option = [("--requirement", false), ("-r", false), ("--constraint", true), ("-c", true)]
            .into_iter()
            .find_map(|(name, is_constraint)| Some((word.strip_prefix(name)?, is_constraint)));
        match (option, others.last_mut()) {
            (Some((value, is_constraint)), _) => {
                let value = value.trim_start_matches('=');
                let next = if value.is_empty() { words.next() } else { Some(value) };
                files.extend(next.map(|value| (value.to_owned(), is_constraint)));
            }
            (None, Some(last)) if !word.starts_with('-') => {
                last.push(' ');
                last.push_str(word);
            }
            (None, _) => others.push(word.to_owned()),
        }
    }
    (files, others)
}

/// A requirement without its options. The lock has hashes of its own; a direct reference keeps the stated one.
pub(in crate::formats) fn without_options(out: &mut Imported, line: &str) -> String {
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
