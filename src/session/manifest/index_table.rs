//! The `[[index]]` tables.

use serde::Deserialize;

use super::{BUILT_IN, Manifest};
use crate::model::direct::is_plain_path;
use crate::model::index_owner::IndexOwner;
use crate::model::listing::{Listing, is_local, local_path};
use crate::model::request::STACK_PACKAGES;
use crate::model::text::{clean, plain_address};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIndex {
    name: String,
    url: String,
    replaces: Option<String>,
    #[serde(default)]
    packages: Vec<String>,
}

/// Adds an index to a manifest.
///
/// # Errors
/// What is wrong with the table, a sentence.
pub(super) fn add(manifest: &mut Manifest, row: &RawIndex) -> Result<(), String> {
    let name = valid_name(&row.name)?;
    let url = url(row)?;
    let is_built_in = BUILT_IN.contains(&name);
    if !is_built_in && manifest.indexes.iter().any(|(other, _)| other == name) {
        return Err(format!("two indexes are called `{name}`"));
    }
    let role = row.replaces.as_deref().or_else(|| is_built_in.then_some(name));
    match (role, row.packages.is_empty()) {
        (Some(_), true) if Listing::of_address(&url) == Listing::Links => {
            return Err(format!(
                "the index `{name}` is a list of files, which cannot replace an index: give it `packages = [...]`"
            ));
        }
        (Some("pypi"), true) => {
            manifest.pypi = Some(url);
            manifest.redefined.push("pypi".to_owned());
        }
        (Some("pytorch"), true) => {
            manifest.indexes.push(("pytorch".to_owned(), url));
            manifest.redefined.push("pytorch".to_owned());
        }
        (Some(other), true) => {
            let other = clean(other, 40);
            return Err(format!("`replaces = \"{other}\"`: only `pypi` and `pytorch` can be replaced"));
        }
        (Some(_), false) => {
            return Err("an index either replaces another or owns packages, not both".to_owned());
        }
        (None, true) => {
            return Err(format!(
                "the index `{name}` is never used: give it `packages = [...]` or `replaces = \"pypi\"`"
            ));
        }
        (None, false) => {
            let owner = IndexOwner::new(name, &row.packages)
                .map_err(|error| format!("`packages` of the index `{name}`: {error}"))?;
            for package in STACK_PACKAGES.iter().copied().chain(["triton"]) {
                if package.parse().is_ok_and(|name| owner.owns(&name)) {
                    return Err(format!(
                        "the index `{name}` cannot own `{package}`: builds of the stack come from `pypi` and `pytorch`; use `replaces = \"pytorch\"`"
                    ));
                }
            }
            manifest.indexes.push((name.to_owned(), url));
            manifest.request.owners.push(owner);
        }
    }
    Ok(())
}

fn valid_name(name: &str) -> Result<&str, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_valid = name.starts_with(is_first) && name.chars().all(is_name) && name.len() <= 60;
    is_valid.then_some(name).ok_or_else(|| {
        format!(
            "`{}` is not a valid index name: use letters, digits, `-`, `_` and `.`, the first a letter or digit",
            clean(name, 40)
        )
    })
}

/// The URL of an index, or the folder as it is written: relative to the manifest.
fn url(row: &RawIndex) -> Result<String, String> {
    let (name, text) = (&row.name, row.url.as_str());
    let parsed = url::Url::parse(text);
    if !text.contains("://") {
        // `file:wheels`, `https:/host`, `C:\wheels`
        if text.trim().is_empty() || parsed.is_ok() {
            return Err(format!(
                "the URL of the index `{name}` must start with `http://`, `https://` or `file:///`, or be a folder"
            ));
        }
        if !is_plain_path(text) {
            return Err(format!(
                "`{}` cannot stand in a requirements file: name the folder of the index `{name}` by its URL, \
                 `file:///srv/my%20wheels`",
                clean(text, 80)
            ));
        }
        return Ok(url::Url::from_file_path(text).map_or_else(|()| text.to_owned(), String::from));
    }
    let parsed = parsed.map_err(|why| format!("the URL of the index `{name}` is not valid: {why}"))?;
    match parsed.scheme() {
        "http" | "https" => Ok(plain_address(text)),
        // One form for all that reads it: pip does not know `FILE:///`, nor a quote in an option.
        "file" if is_local(text) && local_path(text).is_some() => {
            Ok(parsed.as_str().replace('\'', "%27").replace('$', "%24"))
        }
        "file" => Err(format!(
            "the URL of the index `{name}` names no path on this machine: `file:///srv/wheels` does"
        )),
        _ => Err(format!(
            "the URL of the index `{name}` must start with `http://`, `https://` or `file:///`, or be a folder"
        )),
    }
}
