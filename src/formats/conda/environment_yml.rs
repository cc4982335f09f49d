//! conda's environment.yml: converts conda names and specifiers to those of PyPI, or keeps them.

use std::path::Path;

use serde::Deserialize;

use super::conda_section::{self, OF_ANACONDA};
use super::match_spec::Spec;
use super::translated::{Names, conda};
use crate::formats::imported::{CondaPart, Context, ImportError, Imported};
use crate::formats::requirements;
use crate::model::text::{channel_without_secrets, clean};

#[derive(Deserialize)]
struct Environment {
    name: Option<serde_json::Value>,
    prefix: Option<serde_json::Value>,
    channels: Option<serde_json::Value>,
    dependencies: Option<serde_json::Value>,
    #[serde(default)]
    variables: Option<serde_json::Map<String, serde_json::Value>>,
    platforms: Option<serde_json::Value>,
}

/// The list below a key; an absent one is empty.
fn list_of(
    value: Option<serde_json::Value>,
    key: &str,
    name: &str,
) -> Result<Vec<serde_json::Value>, ImportError> {
    match value {
        None | Some(serde_json::Value::Null) => Ok(Vec::new()),
        Some(serde_json::Value::Array(list)) => Ok(list),
        Some(other) => {
            let shown = clean(&other.to_string(), 40);
            Err(ImportError::input(format!("{}: `{key}` is {shown}, not a list", clean(name, 80)))
                .hint(format!("a list has a line for each entry: `{key}:`, then `  - ...`")))
        }
    }
}

/// A match spec without what conda takes for a comment, which a quoted text of YAML has. An explicit address has its hash there.
fn without_comment(spec: &str) -> &str {
    let comment = spec.find('#').filter(|_| !spec.contains("://"));
    spec[..comment.unwrap_or(spec.len())].trim()
}

/// Maximum number of dependencies. 25,000 took 1.6 s, and the time grows with the square.
const MAX_SPECS: usize = 20_000;

/// Reads an environment.yml.
pub(in crate::formats) fn environment(
    mut out: Imported,
    context: Context<'_>,
    text: &str,
    (name, base): (&str, &Path),
    part: CondaPart,
) -> Result<Imported, ImportError> {
    let document: Option<Environment> =
        serde_saphyr::from_str(text).map_err(|error| unreadable_yaml(name, &error))?;
    let Some(document) = document else {
        return Err(ImportError::input(format!("{}: the file is empty", clean(name, 80)))
            .hint("an environment file has `dependencies:` and a list below it"));
    };
    let channels = list_of(document.channels, "channels", name)?;
    let dependencies = list_of(document.dependencies, "dependencies", name)?;
    let platforms = list_of(document.platforms, "platforms", name)?;
    if document.name.as_ref().is_some_and(|name| name == "base") {
        out.leave_out_because("name: base", "it is the environment of conda itself");
    }
    if let Some(prefix) = document.prefix.as_ref().and_then(serde_json::Value::as_str) {
        out.leave_out_because(&format!("prefix: {}", clean(prefix, 80)), "it is where the environment was");
    }
    let of_project =
        document.name.as_ref().and_then(serde_json::Value::as_str).filter(|name| *name != "base");
    out.name = out.name.take().or(of_project.map(|name| clean(name, 60)));
    if let Some(names) = document.variables.as_ref().filter(|names| !names.is_empty()) {
        let names = names.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        out.leave_out_because(&format!("variables: {names}"), "envlock sets no variables of the environment");
    }
    if !platforms.is_empty() {
        let names = platforms.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(", ");
        out.leave_out_because(&format!("platforms: {names}"), "a `[target.NAME]` table describes a machine");
    }
    if let Some(other) = channels.iter().find(|channel| !channel.is_string()) {
        let shown = clean(&other.to_string(), 40);
        return Err(ImportError::input(format!(
            "{}: `channels` has `{shown}`, which is not a text",
            clean(name, 80)
        ))
        .hint("a channel is a name or an address: `- conda-forge`"));
    }
    if let Some(other) = document.name.as_ref().filter(|name| !name.is_string() && !name.is_null()) {
        out.leave_out_because(&format!("name: {other}"), "it is not a text");
    }
    let channels = channels.iter().filter_map(serde_json::Value::as_str);
    let mut specs: Vec<String> = Vec::new();
    let mut of_pip = Imported::into_folder(&out.folder);
    for dependency in dependencies {
        match dependency {
            serde_json::Value::String(spec) => {
                let spec = without_comment(&spec);
                if let Some((why, hint)) = no_spec(spec) {
                    let shown = clean(spec, 80);
                    return Err(
                        ImportError::input(format!("{}: `{shown}` {why}", clean(name, 80))).hint(hint)
                    );
                }
                specs.push(spec.to_owned());
                if specs.len() > MAX_SPECS {
                    return Err(ImportError::input(format!(
                        "{}: more than {MAX_SPECS} dependencies",
                        clean(name, 80)
                    )));
                }
            }
            // `- pip:` and its list, which may be empty.
            serde_json::Value::Object(map) => {
                for (installer, list) in map {
                    let Some(list) = list.as_array().map(Vec::as_slice).or(list.is_null().then_some(&[]))
                    else {
                        return Err(ImportError::input(format!(
                            "{}: `{}` is not a list",
                            clean(name, 80),
                            clean(&installer, 40)
                        )));
                    };
                    for item in list {
                        match item.as_str() {
                            Some(item) if installer == "pip" => {
                                pip_line(&mut of_pip, context, item, (name, base))?
                            }
                            Some(item) => {
                                let what = format!("{installer}: {item}");
                                out.leave_out_because(&what, "envlock installs packages of conda and PyPI");
                            }
                            None => out.leave_out(&item.to_string()),
                        }
                    }
                }
            }
            other => out.leave_out(&other.to_string()),
        }
    }
    conda_part(&mut out, context, (&specs, channels), name, part)?;
    out.join(of_pip);
    Ok(out)
}

/// Why a text is no match spec, and what to write instead; `None` if nothing is wrong with its form.
fn no_spec(spec: &str) -> Option<(&'static str, &'static str)> {
    let (brackets, closed) = (spec.matches('[').count(), spec.trim_end().ends_with(']'));
    let is_address = spec.contains("://");
    let words = Spec::of(spec).build.map_or(0, |build| build.split_whitespace().count());
    if spec.is_empty() {
        return Some(("is an empty entry of `dependencies`", "remove the line, or name a package"));
    }
    if brackets > 0 && !closed {
        return Some(("has a `[` that is not closed", "write `name[version='>=1',build=...]`"));
    }
    if !is_address && words > 1 {
        return Some(("has more than a name, a version and a build", "write `name version build`"));
    }
    let (before, operator) = spec.split_at(spec.trim_end_matches(['=', '<', '>', '!', '~']).len());
    if operator == "=" && before.contains(['=', ' ']) {
        return Some(("names no build after its last `=`", "write the build, or no `=` after the version"));
    }
    (!operator.is_empty())
        .then_some(("names no version after its operator", "write the version, or the name alone"))
}

/// An error of YAML, in words about the file.
fn unreadable_yaml(name: &str, error: &serde_saphyr::Error) -> ImportError {
    let error = error.without_snippet();
    let line = error.location().map(|place| format!(":{}", place.line())).unwrap_or_default();
    let why = match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("`{}` is there twice", clean(key, 60))
        }
        serde_saphyr::Error::DuplicateMappingKey { key: None, .. } => "a key is there twice".to_owned(),
        serde_saphyr::Error::MultipleDocuments { .. } => {
            "the file has more than one YAML document".to_owned()
        }
        serde_saphyr::Error::Budget { .. } => "the file is too large or too deeply nested".to_owned(),
        other => {
            let message = other.to_string();
            let first = message.lines().next().unwrap_or("").trim_start_matches("error: ");
            return ImportError::input(format!("{}: {}", clean(name, 80), clean(first, 200)));
        }
    };
    ImportError::input(format!("{}{line}: {why}", clean(name, 80)))
}

/// The conda packages of a file: as PyPI's, or kept as they are.
pub(in crate::formats) fn conda_part<'t>(
    out: &mut Imported,
    context: Context<'_>,
    (specs, channels): (&[String], impl Iterator<Item = &'t str>),
    name: &str,
    part: CondaPart,
) -> Result<(), ImportError> {
    let channels: Vec<String> = channels.map(str::to_owned).collect();
    let mut names = Names::of_channels(context.channel_alias, channels.iter().map(String::as_str));
    let mut translated = Imported::into_folder(&out.folder);
    for spec in specs {
        conda(&mut translated, &mut names, spec, name)?;
    }
    let is_kept = match part {
        CondaPart::Conda => true,
        CondaPart::Pypi => false,
        CondaPart::Auto => {
            cfg!(feature = "conda") && !(names.without_python.is_empty() && names.uncertain.is_empty())
        }
    };
    let own_python = out.python.take();
    if is_kept {
        names.clear();
        conda_section::keep(out, &mut names, (specs, &channels), name)?;
        out.python = both_pythons(own_python, out.python.take());
        limit_stack(out);
        return Ok(());
    }
    out.python = own_python;
    for channel in channels.iter().filter(|channel| names.is_of_anaconda(channel)) {
        translated.leave_out_because(&format!("channels: {}", channel_without_secrets(channel)), OF_ANACONDA);
    }
    let channels: Vec<String> =
        channels.into_iter().filter(|channel| !names.is_of_anaconda(channel)).collect();
    for channel in channels.iter().filter(|channel| names.channel(channel).is_none()) {
        let why = "the packages are PyPI's of the same names: check that they are the ones of this channel";
        translated.leave_out_because(&format!("channels: {}", channel_without_secrets(channel)), why);
    }
    let named =
        channels.iter().filter(|channel| names.channel(channel).is_some_and(|own| own != "nodefaults"));
    let named: Vec<String> = named.map(|channel| channel_without_secrets(channel)).collect();
    if !named.is_empty() && !specs.is_empty() {
        let keeps = if cfg!(feature = "conda") { "; `--conda` keeps them as conda's" } else { "" };
        let why = format!("the conda packages became PyPI's, for which no channel is read{keeps}");
        translated.leave_out_because(&format!("channels: {}", named.join(", ")), &why);
    }
    names.leave_out_others(&mut translated);
    names.leave_out_without_python(&mut translated);
    out.python = both_pythons(out.python.take(), translated.python.take());
    limit_stack(&mut translated);
    out.join(translated);
    Ok(())
}

/// What two places of a file say of Python: one series, else both bounds.
fn both_pythons(one: Option<String>, other: Option<String>) -> Option<String> {
    let is_range = |text: &String| text.starts_with(['<', '>', '!', '~']);
    match (one, other) {
        (Some(one), Some(other)) if one != other && is_range(&one) && is_range(&other) => {
            let known: Vec<&str> = one.split(',').map(str::trim).collect();
            let more = other.split(',').map(str::trim).filter(|bound| !known.contains(bound));
            Some(known.iter().copied().chain(more).collect::<Vec<_>>().join(","))
        }
        (one, Some(other)) if !is_range(&other) || one.is_none() => Some(other),
        (one, _) => one,
    }
}

/// Leaves out the limits that contradict the stack: a CPU build has no CUDA, and torch's wheels have a cuDNN of their own.
fn limit_stack(out: &mut Imported) {
    let is_for_cpu = out.limits.contains(&("variant", "cpu".to_owned()));
    let has_torch = out.requirements.iter().any(|(_, user)| user.name() == "torch");
    for (key, value) in std::mem::take(&mut out.limits) {
        match key {
            "cuda" if is_for_cpu => {
                out.leave_out_because(&format!("cuda {value}"), "the file asks for torch's CPU build");
            }
            "cudnn" if has_torch => {
                let why = "torch's wheels bring the cuDNN that they were built with";
                out.leave_out_because(&format!("cudnn {value}"), why);
            }
            _ => out.limits.push((key, value)),
        }
    }
}

/// One line of the pip section: as in a requirements file.
fn pip_line(
    out: &mut Imported,
    context: Context<'_>,
    item: &str,
    (name, base): (&str, &Path),
) -> Result<(), ImportError> {
    // As in a requirements file, ` #` begins a comment.
    let item = item.split(" #").next().unwrap_or(item).trim();
    let included = ["--requirement", "--constraint", "-r", "-c"].iter().find_map(|o| item.strip_prefix(o));
    if let Some(file) = included {
        let is_bound = item.starts_with("-c") || item.starts_with("--c");
        let file = file.trim_start_matches('=').trim();
        return requirements::include(out, context, &base.join(file), is_bound);
    }
    if item.starts_with('-') && !item.starts_with("-e") && !item.starts_with("--editable") {
        out.option(item);
        return Ok(());
    }
    let line = requirements::without_options(out, item);
    out.push_line(context, &line, base, name)
}

#[cfg(test)]
mod tests;
