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

/// A path that is written as it is: without `..`, which links and missing folders turn elsewhere, and not with `/` at its
/// end, as only folders are.
pub(super) fn plain_path(path: &str) -> Option<String> {
    inside(path).filter(|_| !path.ends_with('/') && !path.split('/').any(|part| part == ".."))
}

/// The folder of a path.
pub(super) fn folder(path: &str) -> String {
    path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned()
}

/// Joins parts as `os.path.join` does.
pub(super) fn join(parts: &[Value]) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(Value::text).collect();
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return Value::Unknown };
    // A later part may be absolute; `..` and a `/` at the end mean more than their text.
    let is_odd =
        |text: &str| text.starts_with('/') || text.ends_with('/') || text.is_empty() || text.contains("..");
    let has_path = parts.iter().skip(1).any(|part| matches!(part, Value::Path(_)));
    if has_path || texts.iter().skip(1).any(|text| is_odd(text)) || texts[0].ends_with('/') {
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
