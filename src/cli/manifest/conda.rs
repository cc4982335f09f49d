//! `[conda]`: packages from conda channels beside those of PyPI.

use serde::Deserialize;
use toml::Spanned;

use super::Source;
use crate::cli::error::CliError;
use crate::model::conda::{CondaRequest, CondaSpec, name_of_spec};
use crate::model::text::{clean, is_line};
use crate::registry::conda_names::framework_of;

/// The channel if none is named.
const CONDA_FORGE: &str = "conda-forge";

/// The keys of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConda {
    #[serde(default)]
    channels: Vec<Spanned<String>>,
    #[serde(default)]
    dependencies: Vec<Spanned<String>>,
}

/// Reads the table.
///
/// # Errors
/// With the line: a channel that is no name, a match spec that conda would not read, a package of the stack.
pub(super) fn read(raw: &RawConda, source: &Source<'_>) -> Result<CondaRequest, CliError> {
    let mut out = CondaRequest::default();
    for channel in &raw.channels {
        let name = channel.as_ref().trim();
        let wrong = |why: &str| Err(source.error(channel.span().start, why));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let name = name.trim_matches('/');
        let first = name.split('/').next().unwrap_or_default().to_lowercase();
        if ["defaults", "main", "anaconda", "pkgs", "r", "msys2", "free", "pro"].contains(&first.as_str()) {
            return wrong(&format!(
                "`{name}` is Anaconda's channel, whose terms of use ask companies for a licence; `{CONDA_FORGE}` has the same packages"
            ));
        }
        if name.is_empty()
            || !name.chars().all(is_plain)
            || name.contains("..")
            || name.starts_with(['/', '.', '-'])
        {
            return wrong(&format!(
                "`{}` is not the name of a channel; where channels are is `ENVLOCK_CONDA_CHANNEL_ALIAS`",
                clean(name, 60)
            ));
        }
        if !out.channels.iter().any(|own| own == name) {
            out.channels.push(name.to_owned());
        }
    }
    if out.channels.is_empty() {
        out.channels.push(CONDA_FORGE.to_owned());
    }
    for item in &raw.dependencies {
        let text = item.as_ref().trim();
        let wrong = |why: String| source.error(item.span().start, &why);
        let name = name_of_spec(text).to_lowercase();
        if framework_of(&name).is_some() {
            return Err(wrong(format!(
                "`{name}` belongs to the stack, which comes from PyPI and the pytorch index: ask for it under `[stack]` or `dependencies`"
            )));
        }
        if name == "python" {
            return Err(wrong("state Python under `[project]`: `python = \">=3.11\"`".to_owned()));
        }
        if !is_line(text) || name.is_empty() {
            return Err(wrong(format!("`{}` is not a match spec of conda", clean(text, 80))));
        }
        check(text, &out.channels).map_err(wrong)?;
        out.specs.push(CondaSpec { text: text.to_owned(), origin: source.name.into() });
    }
    Ok(out)
}

/// Whether conda reads a match spec, and its channel is one of the request.
#[cfg(feature = "conda")]
fn check(text: &str, channels: &[String]) -> Result<(), String> {
    crate::conda::parse(text).map_err(|error| error.to_string())?;
    match crate::conda::channel_of_spec(text) {
        Some(channel) if !channels.contains(&channel) => Err(format!(
            "`{}` names the channel `{}`, which is not one of `channels`",
            clean(text, 80),
            clean(&channel, 60)
        )),
        _ => Ok(()),
    }
}

#[cfg(not(feature = "conda"))]
fn check(_text: &str, _channels: &[String]) -> Result<(), String> {
    Err("this envlock was built without conda packages: wheels have them, and `cargo install --features conda`".to_owned())
}
