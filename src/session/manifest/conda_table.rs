//! `[conda]`: packages from conda channels beside those of PyPI.

use serde::Deserialize;
use toml::Spanned;

use super::Source;
use crate::model::conda::{CONDA_FORGE, CondaRequest, CondaSpec, is_channel_name, name_of_spec};
use crate::model::request::{Request, STACK_PACKAGES, UserRequirement};
use crate::model::text::{channel_without_secrets, clean, is_line};
use crate::registry::conda_names::{OfFramework, framework_of, is_of_anaconda};
use crate::session::failure::Failure;

/// The keys of the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConda {
    #[serde(default)]
    channels: Vec<Spanned<String>>,
    #[serde(default)]
    dependencies: Vec<Spanned<String>>,
}

/// Reads the table, and where the stack comes from: `source` under `[stack]`.
///
/// # Errors
/// With the line: a channel that is no name, a match spec that conda would not read, a package of the stack that another
/// source has.
pub(super) fn read(
    raw: Option<&RawConda>,
    stack: Option<&Spanned<toml::Value>>,
    request: &mut Request,
    source: &Source<'_>,
) -> Result<(), Failure> {
    let of_channels = match stack {
        None => None,
        Some(item) => {
            let place = item.span().start;
            let text = item.as_ref().as_str().unwrap_or_default();
            is_of_channels(text).map_err(|why| source.error(place, &why))?.then_some(place)
        }
    };
    let none = RawConda::default();
    let Some(raw) = raw.or(of_channels.map(|_| &none)) else { return Ok(()) };
    let mut out = CondaRequest { channels: channels(raw, source)?, ..CondaRequest::default() };
    if let Some(place) = of_channels {
        if !out.channels.iter().any(|channel| channel == CONDA_FORGE) {
            return Err(
                source.error(place, &format!("`channels` under `[conda]` does not name `{CONDA_FORGE}`"))
            );
        }
        check_feature().map_err(|why| source.error(place, &why))?;
        out.stack = Some(source.name.into());
    }
    for item in &raw.dependencies {
        let text = item.as_ref().trim();
        let wrong = |why: String| source.error(item.span().start, &why);
        let name = name_of_spec(text).to_lowercase();
        match framework_of(&name) {
            Some(one) if one.framework != "torch" => {
                return Err(wrong(format!(
                    "`{name}` belongs to {}, which comes from PyPI: ask for it under `dependencies` of `[project]`",
                    one.framework
                )));
            }
            Some(_) if out.stack.is_none() => {
                return Err(wrong(format!(
                    "`{name}` belongs to the stack, which comes from PyPI and the pytorch index: ask for it under `[stack]` or `dependencies`, or set `source = \"{CONDA_FORGE}\"` under `[stack]`"
                )));
            }
            // Its build is chosen for the machine, like one that is asked for under `[stack]`.
            Some(one) => ask_for(one, request, source)?,
            None => {}
        }
        // Every conda environment has it: asked for by itself it says that there is one.
        if text == "python" && raw.dependencies.len() > 1 {
            continue;
        }
        if name == "python" && text != name {
            return Err(wrong("state Python under `[project]`: `python = \">=3.11\"`".to_owned()));
        }
        if !is_line(text) || name.is_empty() {
            return Err(wrong(format!("`{}` is not a match spec of conda", clean(text, 80))));
        }
        check(text, &out.channels).map_err(wrong)?;
        out.specs.push(CondaSpec::new(text, source.name.into()));
    }
    request.conda = out;
    Ok(())
}

/// The channels that are named, each once; conda-forge where none is.
fn channels(raw: &RawConda, source: &Source<'_>) -> Result<Vec<String>, Failure> {
    let mut out: Vec<String> = Vec::new();
    for channel in &raw.channels {
        let wrong = |why: &str| Err(source.error(channel.span().start, why));
        let name = channel.as_ref().trim().trim_matches('/');
        if is_of_anaconda(name) {
            return wrong(&format!(
                "`{}` is Anaconda's channel, whose terms of use ask companies for a licence; `{CONDA_FORGE}` has the same packages",
                clean(&channel_without_secrets(name), 60)
            ));
        }
        if !is_channel_name(name) {
            return wrong(&format!(
                "`{}` is not the name of a channel; where channels are is `ENVLOCK_CONDA_CHANNEL_ALIAS`",
                clean(&channel_without_secrets(name), 60)
            ));
        }
        if !out.iter().any(|own| own == name) {
            out.push(name.to_owned());
        }
    }
    if out.is_empty() {
        out.push(CONDA_FORGE.to_owned());
    }
    Ok(out)
}

/// Whether a value of `source` takes the stack from channels.
///
/// # Errors
/// What the value may be.
pub(super) fn is_of_channels(source: &str) -> Result<bool, String> {
    match source {
        "pypi" => Ok(false),
        CONDA_FORGE => Ok(true),
        _ => Err(format!("`source` must be `pypi` or `{CONDA_FORGE}`")),
    }
}

/// Adds the requirement that a conda package of torch's stack stands for, if the request does not have it.
fn ask_for(package: OfFramework, request: &mut Request, source: &Source<'_>) -> Result<(), Failure> {
    let name = STACK_PACKAGES.into_iter().find(|name| *name == package.name).unwrap_or("torch");
    if request.find(name).is_none() {
        let asked = UserRequirement::parse(name, source.name.into());
        request.requirements.push(asked.map_err(|error| Failure::internal(error.to_string()))?);
    }
    Ok(())
}

/// Whether conda reads a match spec, and its channel is one of the request.
#[cfg(feature = "conda")]
fn check(text: &str, channels: &[String]) -> Result<(), String> {
    crate::conda::parse_request(text).map_err(|error| error.to_string())?;
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
    check_feature()
}

/// Whether this program solves conda packages.
fn check_feature() -> Result<(), String> {
    match cfg!(feature = "conda") {
        true => Ok(()),
        false => {
            Err("this envlock was built without conda packages: a build with the default features has them"
                .to_owned())
        }
    }
}
