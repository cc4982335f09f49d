//! `[stack]`: framework, companions, and limits on CUDA, cuDNN, NCCL, CUDA variant and driver.

use pep508_rs::VersionOrUrl;

use crate::model::conflict::Party;
use crate::model::request::{Limit, Origin, PythonRequest, Request, UserRequirement};
use crate::model::text::clean;
use crate::registry::STACK_PACKAGES;

/// A specifier, or a table with extras.
#[derive(Debug)]
pub(super) struct StackItem {
    spec: String,
    extras: Vec<String>,
}

/// Reads one value of `[stack]` by hand, because serde's message for an untagged enum is not helpful.
pub(super) fn stack_value(key: &str, value: &toml::Value) -> Result<StackItem, String> {
    let wrong = || {
        format!(
            "`{key}` must be a specifier such as `\">=2.8\"`, or `{{ version = \"...\", extras = [...] }}`"
        )
    };
    match value {
        toml::Value::String(spec) => Ok(StackItem { spec: spec.clone(), extras: Vec::new() }),
        toml::Value::Table(table) if table.keys().all(|k| k == "version" || k == "extras") => {
            let spec = match table.get("version") {
                None => "*".to_owned(),
                Some(version) => version.as_str().ok_or_else(wrong)?.to_owned(),
            };
            let extras = match table.get("extras") {
                None => Vec::new(),
                Some(list) => list
                    .as_array()
                    .and_then(|l| l.iter().map(|e| e.as_str().map(str::to_owned)).collect())
                    .ok_or_else(wrong)?,
            };
            Ok(StackItem { spec, extras })
        }
        _ => Err(wrong()),
    }
}

/// `ignore-gpus`: product names or compute capabilities.
pub(super) fn gpu_names(value: &toml::Value) -> Result<Vec<String>, String> {
    let names =
        value.as_array().and_then(|list| list.iter().map(|v| v.as_str().map(str::to_owned)).collect());
    names.ok_or_else(|| "`ignore-gpus` must be a list of product names or compute capabilities".to_owned())
}

pub(super) fn stack_item(
    request: &mut Request,
    key: &str,
    item: &StackItem,
    origin: &Origin,
) -> Result<(), String> {
    let (spec, extras) = (item.spec.as_str(), item.extras.as_slice());
    fn limit<T: std::str::FromStr<Err = crate::model::version::InvalidVersion>>(
        spec: &str,
        origin: &Origin,
    ) -> Result<Limit<T>, String> {
        Ok(Limit {
            value: spec.parse().map_err(|e: crate::model::version::InvalidVersion| e.to_string())?,
            origin: origin.clone(),
        })
    }
    match key {
        "cuda" => request.cuda = Some(limit(spec, origin)?),
        "cudnn" => request.cudnn = Some(limit(spec, origin)?),
        "nccl" => request.nccl = Some(limit(spec, origin)?),
        "nvcc" => {
            return Err("`nvcc` cannot be locked yet: envlock does not install compilers".to_owned());
        }
        "variant" => {
            request.variant = Some(Limit { value: spec.trim().to_owned(), origin: origin.clone() });
        }
        "driver-policy" => match spec {
            "minor" => {}
            "native" => request.native_driver_only = Some(Limit { value: (), origin: origin.clone() }),
            other => {
                return Err(format!(
                    "`driver-policy` must be `minor` or `native`, not `{}`",
                    clean(other, 40)
                ));
            }
        },
        package => {
            let spec = spec.trim();
            let version = if spec == "*" || spec.is_empty() {
                String::new()
            } else if spec.starts_with(|c: char| c.is_ascii_digit()) {
                if spec.contains('+') {
                    format!("=={spec}")
                } else {
                    format!("=={}.*", spec.trim_end_matches(".*"))
                }
            } else {
                spec.to_owned()
            };
            let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
            let text = format!("{package}{extras}{version}");
            let parsed = UserRequirement::parse(&text, origin.clone()).map_err(|e| e.to_string())?;
            request.requirements.push(parsed);
        }
    }
    Ok(())
}

/// Adds a limit on the stack that is written like a requirement, `cuda>=13`, to a request. Returns the party that
/// is limited; `None` if the text is about something else.
pub(crate) fn stack_limit(
    request: &mut Request,
    text: &str,
    origin: &Origin,
) -> Option<Result<Party, String>> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = (text[..end].to_lowercase(), text[end..].trim());
    // `==13` means the same as a bare `13` in `[stack]`: any version of 13.
    let spec = rest.strip_prefix("==").unwrap_or(rest).trim();
    let party = match name.as_str() {
        "cuda" => Party::Cuda,
        "cudnn" => Party::Cudnn,
        "nccl" => Party::Nccl,
        "python" => Party::Python,
        _ => return None,
    };
    let limited = match party {
        Party::Python => PythonRequest::parse(spec, origin.clone())
            .map(|python| request.python = Some(python))
            .map_err(|e| e.to_string()),
        _ => stack_item(request, &name, &StackItem { spec: spec.to_owned(), extras: Vec::new() }, origin),
    };
    Some(limited.map(|()| party))
}

/// The specifier under `[stack]` for a requirement, `*` if it has none. `None` if the requirement is on another
/// package or has an extra or a marker: such requirements belong to the dependencies.
pub(crate) fn stack_specifier(requirement: &UserRequirement) -> Option<String> {
    let requirement = &requirement.requirement;
    let name: &str = requirement.name.as_ref();
    let plain = requirement.extras.is_empty() && requirement.marker.is_true();
    (STACK_PACKAGES.contains(&name) && plain).then(|| match &requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.to_string(),
        _ => "*".to_owned(),
    })
}
