//! setup.py and setup.cfg: what they state, without running anything.

use std::path::Path;

use pep508_rs::{ExtraName, Requirement};

use super::imported::{Context, ImportError, Imported, Optional};
use crate::model::metadata::SourceRequirements;
use crate::model::requirement::parse_requirement;
use crate::model::text::clean;

/// Whether a folder has files of setuptools.
pub(super) fn is_in(context: Context<'_>, folder: &Path) -> bool {
    ["setup.py", "setup.cfg"].iter().any(|name| context.files.is_file(&folder.join(name)))
}

/// Imports what the tree in a folder requires; `name` is the file that was asked for.
///
/// # Errors
/// When its build computes the requirements, or it lacks an extra that is asked for.
pub(super) fn read(
    mut out: Imported,
    context: Context<'_>,
    (name, folder): (&str, &Path),
    optional: &Optional,
) -> Result<Imported, ImportError> {
    let stated = context.files.requirements_of(folder).map_err(|why| {
        ImportError::input(format!(
            "the requirements in `{}` cannot be read: {}",
            clean(name, 80),
            clean(&why, 200)
        ))
        .hint("install the project into an environment; `envlock init --from-prefix DIR` locks what is there")
    })?;
    add(&mut out, &stated, name, optional)?;
    Ok(out)
}

/// Adds what a tree requires, with the extras that are asked for.
pub(super) fn add(
    out: &mut Imported,
    stated: &SourceRequirements,
    name: &str,
    optional: &Optional,
) -> Result<(), ImportError> {
    out.python = out.python.take().or_else(|| stated.requires_python.clone());
    let extra = |text: &String| text.parse::<ExtraName>().ok();
    let known: Vec<ExtraName> = stated.extras.iter().filter_map(extra).collect();
    let asked: Vec<ExtraName> = match optional.all_extras {
        true => known.clone(),
        false => optional.extras.iter().filter_map(extra).collect(),
    };
    if let Some(unknown) = asked.iter().find(|extra| !known.contains(extra)) {
        let list: Vec<String> = known.iter().map(ToString::to_string).collect();
        let hint = if list.is_empty() {
            "it has no extra at all".to_owned()
        } else {
            format!("it has {}", list.join(", "))
        };
        return Err(ImportError::usage(format!("{} has no extra `{unknown}`", clean(name, 80))).hint(hint));
    }
    for line in &stated.lines {
        let Ok(requirement) = parse_requirement(line) else {
            out.leave_out(line);
            continue;
        };
        // Not for an extra alone that was not asked for.
        if !requirement.marker.evaluate_extras(&asked) {
            continue;
        }
        // Of a requirement of an extra, the marker without the extra is left.
        let plain =
            Requirement { marker: requirement.marker.clone().simplify_extras(&asked), ..requirement.clone() };
        let text = if plain.marker == requirement.marker { line.clone() } else { plain.to_string() };
        out.push(&text, name)?;
    }
    let others: Vec<&str> = known.iter().filter(|extra| !asked.contains(extra)).map(AsRef::as_ref).collect();
    out.leave_out_parts("extras_require", "an extra", "--extra", &others);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_of_extras_by_their_markers() {
        let stated = SourceRequirements {
            lines: [
                "a",
                "b; extra == 'x'",
                "c; extra == 'y' and python_version < '3.13'",
                "d; os_name == 'posix' or extra == 'y'",
            ]
            .map(str::to_owned)
            .to_vec(),
            extras: vec!["x".into(), "y".into()],
            requires_python: Some(">=3.9".into()),
        };
        let imported = |extras: &[&str]| {
            let optional = Optional {
                extras: extras.iter().map(|extra| (*extra).to_owned()).collect(),
                ..Optional::default()
            };
            let mut out = Imported::default();
            add(&mut out, &stated, "setup.py", &optional).map(|()| out)
        };
        let names = |extras: &[&str]| -> Vec<String> {
            let out = imported(extras).unwrap();
            out.requirements.into_iter().map(|(text, _)| text).collect()
        };
        assert_eq!(names(&[]), ["a", "d; os_name == 'posix' or extra == 'y'"]);
        assert_eq!(names(&["y"]), ["a", "c ; python_full_version < '3.13'", "d"]);
        assert_eq!(names(&["x"])[1], "b");
        assert!(imported(&["z"]).is_err());
    }
}
