//! Paths in a source tree, whose folder is the working directory of a build.

use super::value::Value;

/// A path below the tree's folder, without `.` and `..`; `None` if it is outside.
pub(in crate::sdist) fn inside(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains(['\\', '\0', ':']) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The folder of a path.
pub(super) fn folder(path: &str) -> String {
    path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned()
}

/// Joins parts as `os.path.join` does.
pub(super) fn join(parts: &[Value]) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(Value::text).collect();
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return Value::Unknown };
    if texts.iter().skip(1).any(|text| text.starts_with('/')) {
        return Value::Unknown;
    }
    let joined: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    let joined = joined.join("/");
    match &parts[0] {
        // Outside the tree nothing is read.
        Value::Path(_) => inside(&joined).map_or(Value::Unknown, Value::Path),
        _ => Value::Text(joined),
    }
}

/// A text behind a path: `here + "/requirements.txt"`.
pub(super) fn append(path: &str, rest: &str) -> Value {
    // The folder of the tree has no name here.
    if path.is_empty() && !rest.is_empty() && !rest.starts_with('/') {
        return Value::Unknown;
    }
    let joined = format!("{path}{rest}");
    inside(joined.trim_start_matches('/')).map_or(Value::Unknown, Value::Path)
}
