//! `--only-index` and `only-index`: whether they name all that a request is solved from.

use super::failure::Failure;
use crate::model::conda::CONDA_FORGE;
use crate::model::only::{InvalidOnly, Only};
use crate::model::request::{Limit, Origin, Request, STACK_PACKAGES, UserRequirement};
use crate::model::text::clean;

/// The value of `--only-index`.
pub(crate) fn parse(text: &str) -> Result<Limit<Only>, Failure> {
    let value =
        text.parse().map_err(|error: InvalidOnly| Failure::usage(format!("`--only-index`: {error}")))?;
    Ok(Limit { value, origin: Origin::Option("--only-index") })
}

/// Rejects names that are no index and no channel of the request, and channels that it needs and does not name: none is
/// opened that is not named.
pub(crate) fn check(request: &Request, is_index: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let Some(only) = &request.only_index else { return Ok(()) };
    let conda = &request.conda;
    let needs_channels = !conda.is_empty() || request.has_stack_of_conda();
    let channels: &[String] = if needs_channels { &conda.channels } else { &[] };
    let is_known = |name: &str| {
        let is_channel = name == CONDA_FORGE || channels.iter().any(|own| own == name);
        is_channel || is_index(name.split('/').next().unwrap_or_default())
    };
    if let Some(unknown) = only.value.names().find(|name| !is_known(name)) {
        let hint = "use `pypi` or `pytorch`, or define the index in envlock.toml";
        return Err(Failure::usage(format!("no index is called `{}`", clean(unknown, 40))).hint(hint));
    }
    // One that nothing is taken from is no index for that.
    let unused = [CONDA_FORGE.to_owned()];
    check_indexes(request, only, if needs_channels { channels } else { &unused })?;
    let closed: Vec<&str> =
        channels.iter().map(String::as_str).filter(|name| !only.value.has_channel(name)).collect();
    if closed.is_empty() {
        return Ok(());
    }
    let whole = only.value.with(channels);
    let hint = match &only.origin {
        Origin::File(name) => {
            let names: Vec<String> = whole.names().map(|name| format!("\"{name}\"")).collect();
            format!("`only-index = [{}]` in {name} names it too", names.join(", "))
        }
        _ => format!("`--only-index {whole}` names it too"),
    };
    let asks = match conda.is_empty() {
        true => "a target takes torch from it",
        false if conda.specs.is_empty() => "torch comes from it",
        false => "`[conda]` asks for packages from it",
    };
    Err(Failure::usage(format!(
        "`only-index` ({}) does not name the channel {}, and {asks}",
        only.value,
        closed.join(", ")
    ))
    .hint(hint))
}

/// Rejects a list without the index that the request cannot be solved without.
fn check_indexes(request: &Request, only: &Limit<Only>, channels: &[String]) -> Result<(), Failure> {
    let of_index = |user: &&UserRequirement| {
        let name = user.name();
        !(request.has_stack_of_conda() && STACK_PACKAGES.contains(&name)) && user.direct().is_none()
    };
    let why = match only.value.without(channels) {
        None => {
            request.requirements.iter().find(of_index).map(|user| format!("{} comes from one", user.line()))
        }
        Some(indexes) => (request.has_stack_of_conda() && !indexes.admits("pypi"))
            .then(|| "torch of a channel is solved together with PyPI".to_owned()),
    };
    let Some(why) = why else { return Ok(()) };
    let whole = Only::pypi().with(&only.value.names().map(str::to_owned).collect::<Vec<_>>());
    Err(Failure::usage(format!(
        "`only-index` ({}) does not name the index that is needed: {why}",
        only.value
    ))
    .hint(match request.find("torch").is_some() && !request.has_stack_of_conda() && only.value.has_channel(CONDA_FORGE) {
        true => format!(
            "`--only-index {whole}` names it too; `source = \"conda-forge\"` in `[stack]` takes torch from the channel"
        ),
        false => format!("`--only-index {whole}` names it too"),
    }))
}
