//! A preflight check for the top of a training script: the checks of `verify` for versions, driver and GPUs, in
//! standalone Python.

use serde_json::{Value, json};

use crate::lockfile::Target;
use crate::model::variant::is_cuda;
use crate::model::version::DottedVersion;

const SNIPPET: &str = include_str!("guard.py");

/// The snippet of a target.
///
/// # Errors
/// A message if the lock has no framework to check.
pub fn guard(target: &Target) -> Result<String, String> {
    let version_of = |name: &str| target.package(name).map(|package| package.version.clone());
    // A target for machines without a GPU runs on the CPU, whatever its builds are for.
    let needs_gpu = !target.host.has_no_gpu();
    let mut frameworks = Vec::new();
    if let Some(stack) = &target.stack {
        let gpu = needs_gpu && is_cuda(&stack.variant);
        frameworks.push(json!({ "import": "torch", "version": stack.version, "gpu": gpu }));
    }
    for framework in &target.frameworks {
        // JAX's GPU code is in a separate plugin; scripts import `jax`.
        let version = version_of(&framework.name).unwrap_or_else(|| framework.version.clone());
        frameworks.push(json!({ "import": framework.name, "version": version, "gpu": needs_gpu }));
    }
    if frameworks.is_empty() {
        return Err("the lock has no framework that the snippet can check".to_owned());
    }
    let stack = target.stack.as_ref();
    let coverage: serde_json::Map<String, serde_json::Value> = target
        .envelope
        .coverage
        .iter()
        .map(|row| {
            let text = |v: &Option<DottedVersion>| v.as_ref().map(ToString::to_string);
            (row.compute_capability.to_string(), json!([text(&row.driver_min), text(&row.driver_below)]))
        })
        .collect();
    let locked = json!({
        "python": target.python.to_string(),
        "frameworks": frameworks,
        "variant": stack.map(|stack| &stack.variant),
        "cudnn": stack.and_then(|stack| cudnn_number(stack.cudnn.as_ref()?)),
        "coverage": coverage,
    });
    let mut text = String::new();
    python_literal(&locked, 1, &mut text);
    Ok(SNIPPET.replace("@TARGET@", &target.name).replace("@LOCKED@", &text))
}

/// A value as a literal of Python, one line for each entry of a dictionary; `depth` in steps of four spaces.
fn python_literal(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        // JSON's numbers and strings are Python's.
        Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                python_literal(item, depth, out);
            }
            out.push(']');
        }
        Value::Object(entries) if entries.is_empty() => out.push_str("{}"),
        Value::Object(entries) => {
            out.push_str("{\n");
            for (key, item) in entries {
                let indent = "    ".repeat(depth + 1);
                out.push_str(&format!("{indent}{}: ", Value::from(key.as_str())));
                python_literal(item, depth + 1, out);
                out.push_str(",\n");
            }
            out.push_str(&format!("{}}}", "    ".repeat(depth)));
        }
    }
}

/// cuDNN's version as `torch.backends.cudnn.version()` reports it: 8.9.2 is 8902, 9.10.2 is 91002.
fn cudnn_number(version: &DottedVersion) -> Option<u64> {
    let mut parts = version.as_str().split('.').map(|part| part.parse::<u64>().ok());
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    Some(if major >= 9 { major * 10_000 + minor * 100 + patch } else { major * 1_000 + minor * 100 + patch })
}

#[cfg(test)]
mod tests {
    use super::{cudnn_number, python_literal};

    #[test]
    fn values_as_python_writes_them() {
        let value = serde_json::json!({"a": null, "b": [true, "x: true, null"], "c": {}});
        let mut text = String::new();
        python_literal(&value, 0, &mut text);
        assert_eq!(text, "{\n    \"a\": None,\n    \"b\": [True, \"x: true, null\"],\n    \"c\": {},\n}");
    }

    #[test]
    fn numbers() {
        let number = |text: &str| cudnn_number(&text.parse().unwrap());
        assert_eq!((number("8.9.2.26"), number("9.10.2.21"), number("9.1")), (Some(8902), Some(91002), None));
    }
}
