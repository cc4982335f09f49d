//! Imported requirements as the text of an envlock.toml.

use std::path::Path;

use crate::formats::Imported;
use crate::model::request::UserRequirement;
use crate::model::text::{clean, toml_string as quote};
use crate::session::Interface;
use crate::session::manifest;

/// What the command line says beside the imported file.
#[derive(Debug, Default)]
pub(crate) struct Own<'o> {
    /// The specifier of torch.
    pub torch: Option<&'o str>,
    /// The specifier of Python.
    pub python: Option<&'o str>,
    /// Whether nothing was imported: torch is then requested.
    pub is_new: bool,
}

/// Names what an import left out.
pub(crate) fn warn(from: &Imported, interface: &dyn Interface) {
    for what in &from.left_out {
        interface.warning(&format!("left out: {what}"));
    }
    if from.has_login {
        interface.warning("the login in a URL of the imported file was left out: envlock.toml is committed");
        interface.hint("write it to netrc, which envlock, uv, pip and git read");
    }
    if let Some(variants) = &from.pytorch_index {
        interface.note(
            "the pytorch index needs no entry: envlock knows it, and chooses the build of each version for the machine",
        );
        let torch = from.requirements.iter().find(|(_, user)| user.name() == "torch");
        let asks_for_torch = torch.is_some();
        // `==1.13.1+cu116` is that build.
        let is_pinned = torch
            .and_then(|(_, user)| user.specifiers())
            .is_some_and(|specifiers| specifiers.iter().any(|bound| bound.version().is_local()));
        if is_pinned {
            interface.hint("the versions of the file name a build (`+cu...`): without that part, envlock chooses the build");
        }
        let one = variants.first().filter(|_| variants.len() == 1 && asks_for_torch && !is_pinned);
        if let Some(variant) = one {
            interface
                .hint(&format!("`variant = \"{variant}\"` under `[stack]` takes the builds of the file"));
        }
    }
    if let Some(kept) = from.conda.as_ref().filter(|kept| !kept.specs.is_empty() || kept.has_stack) {
        let torch = if kept.has_stack { ", with torch" } else { "" };
        let n = kept.specs.len();
        interface.note(&format!(
            "kept as conda packages: {n}{torch} (`[conda]`); `--pypi` takes what PyPI has from there"
        ));
    }
    if from.left_out_index {
        interface.hint("a table `[[index]]` in envlock.toml has `name`, `url` and `packages = [...]`, those that come from it; `replaces = \"pypi\"` instead of PyPI");
    }
}

/// The text of the manifest.
pub(crate) fn of(from: Imported, folder: &Path, own: &Own<'_>) -> String {
    let mut stack: Vec<(String, String)> = Vec::new();
    let mut dependencies: Vec<String> = Vec::new();
    let all: Vec<UserRequirement> = from.requirements.iter().map(|(_, user)| user.clone()).collect();
    for (written, requirement) in from.requirements {
        if says_less(&requirement, &all) {
            continue;
        }
        match manifest::stack_specifier(&requirement) {
            Some(specifier) => stack_row(&mut stack, requirement.name().to_owned(), specifier),
            None => dependencies.push(written),
        }
    }
    if let Some(spec) = own.torch {
        stack.retain(|(name, _)| name != "torch");
        stack.insert(0, ("torch".to_owned(), spec.trim().to_owned()));
    } else if stack.is_empty() && own.is_new {
        stack.push(("torch".to_owned(), "*".to_owned()));
    }
    let of_folder = || Some(std::path::absolute(folder).ok()?.file_name()?.to_string_lossy().into_owned());
    let name = from.name.or_else(of_folder).unwrap_or_else(|| "project".to_owned());
    let mut text = format!("[project]\nname = {}\n", quote(&clean(&name, 60)));
    if let Some(python) = own.python.or(from.python.as_deref()) {
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
    if !from.overrides.is_empty() || from.exclude_newer.is_some() {
        text.push_str("\n[resolve]\n");
    }
    if !from.overrides.is_empty() {
        let overrides: Vec<String> = from.overrides.iter().map(|text| quote(text)).collect();
        text.push_str(&format!("overrides = [{}]\n", overrides.join(", ")));
    }
    if let Some(cutoff) = &from.exclude_newer {
        text.push_str(&format!("exclude-newer = {}\n", quote(cutoff)));
    }
    text.push_str("\n[stack]\n");
    for (package, spec) in &stack {
        text.push_str(&format!("{package} = {}\n", quote(spec)));
    }
    if from.conda.as_ref().is_some_and(|kept| kept.has_stack) {
        text.push_str("source = \"conda-forge\"\n");
    }
    for (key, value) in &from.limits {
        text.push_str(&format!("{key} = {}\n", quote(value)));
    }
    if let Some(kept) = &from.conda {
        let list = |all: &[String]| all.iter().map(|text| quote(text)).collect::<Vec<_>>();
        text.push_str(&format!("\n[conda]\nchannels = [{}]\n", list(&kept.channels).join(", ")));
        text.push_str("dependencies = [\n");
        for spec in list(&kept.specs) {
            text.push_str(&format!("    {spec},\n"));
        }
        text.push_str("]\n");
    }
    text
}

/// Whether a line is a name alone beside another line that says more of the package for the same environments.
fn says_less(user: &UserRequirement, all: &[UserRequirement]) -> bool {
    let is_bare = user.requirement.version_or_url.is_none() && user.requirement.extras.is_empty();
    is_bare
        && all.iter().any(|other| {
            let (own, other) = (&user.requirement, &other.requirement);
            own.name == other.name && own.marker == other.marker && other.version_or_url.is_some()
        })
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
