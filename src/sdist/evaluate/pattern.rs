//! Regular expressions, with which projects find a version in a module.

use regex::{Regex, RegexBuilder};

use super::value::Value;

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// A regular expression of Python, as `re.compile` takes it; unknown where it means something else here.
pub(super) fn compile(arguments: &[Value]) -> Value {
    let (Some(Value::Text(pattern)), flags) = (arguments.first(), arguments.get(1..).unwrap_or_default())
    else {
        return Value::Unknown;
    };
    let mut letters = String::new();
    for flag in flags {
        letters.push(match flag {
            Value::Imported(name) => match name.as_str() {
                "re.M" | "re.MULTILINE" => 'm',
                "re.I" | "re.IGNORECASE" => 'i',
                "re.S" | "re.DOTALL" => 's',
                _ => return Value::Unknown,
            },
            _ => return Value::Unknown,
        });
    }
    // Python's `$` also matches in front of a last newline, unless it is for each line.
    if pattern.contains('$') && !letters.contains('m') {
        return Value::Unknown;
    }
    let whole = if letters.is_empty() { pattern.clone() } else { format!("(?{letters}){pattern}") };
    if parsed(&whole).is_some() { Value::Pattern(whole) } else { Value::Unknown }
}

fn parsed(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build().ok()
}

/// `search`, `match` and `findall` of a pattern.
pub(super) fn find(pattern: &str, method: &str, text: &str) -> Value {
    let Some(regex) = parsed(pattern) else { return Value::Unknown };
    match method {
        "search" | "match" => {
            let found = regex
                .captures(text)
                .filter(|found| method == "search" || found.get(0).is_some_and(|whole| whole.start() == 0));
            // Another match may begin at the start.
            if found.is_none() && method == "match" && regex.is_match(text) {
                return Value::Unknown;
            }
            found.map_or(Value::None, |found| {
                Value::Groups(
                    found.iter().map(|group| group.map(|group| group.as_str().to_owned())).collect(),
                )
            })
        }
        "findall" if regex.captures_len() <= 2 => {
            let all = regex.captures_iter(text).map(|found| found.get(found.len() - 1));
            Value::texts(all.map(|group| group.map_or_else(String::new, |group| group.as_str().to_owned())))
        }
        _ => Value::Unknown,
    }
}
