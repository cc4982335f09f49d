//! Parses requirements (PEP 508) from outside.
//!
//! The parser of markers is recursive: 12,000 nested parentheses overflow the stack. It also panics on some texts: a name
//! or an extra that ends in a separator (`a- >=1`), and a marker with characters that are not ASCII. So texts are limited
//! here before they are parsed, and nothing else calls the parser.

use pep440_rs::{Operator, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl};

/// Length limit of a requirement in bytes. The longest on PyPI have some hundred.
const MAX_LENGTH: usize = 16 * 1024;
/// Limit of nested parentheses and brackets. Real markers have two or three levels.
const MAX_DEPTH: usize = 64;

/// Why a text is not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// Longer than the limit.
    #[error("it is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// More nested than the limit.
    #[error("its parentheses are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// The parser cuts a word of a marker by its number of characters, where it needs that of bytes, and panics.
    #[error("its marker has characters that are not ASCII")]
    NotAscii,
    /// Not the syntax of PEP 508; the parser's first line.
    #[error("{0}")]
    Syntax(String),
}

/// Parses a requirement.
///
/// # Errors
/// See [`InvalidRequirement`].
pub fn parse_requirement(text: &str) -> Result<Requirement<VerbatimUrl>, InvalidRequirement> {
    if text.len() > MAX_LENGTH {
        return Err(InvalidRequirement::TooLong);
    }
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(InvalidRequirement::TooDeep);
        }
    }
    if let Some(name) = names(text).find(|name| name.ends_with(['.', '-', '_'])) {
        let message = format!("`{}` ends in a separator", super::text::clean(name, 60));
        return Err(InvalidRequirement::Syntax(message));
    }
    if text.split_once(';').is_some_and(|(_, marker)| !marker.is_ascii()) {
        return Err(InvalidRequirement::NotAscii);
    }
    text.parse().map_err(|error: pep508_rs::Pep508Error| {
        let message = error.message.to_string();
        InvalidRequirement::Syntax(super::text::clean(message.lines().next().unwrap_or(""), 120))
    })
}

/// What the parser reads as names: of the package, then of its extras.
fn names(text: &str) -> impl Iterator<Item = &str> {
    fn is_of_name(c: char) -> bool {
        c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c)
    }
    let text = text.trim_start();
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let extras = rest.trim_start().strip_prefix('[').unwrap_or_default();
    let extras = extras.split(']').next().unwrap_or_default();
    std::iter::once(name).chain(extras.split(|c| !is_of_name(c)).filter(|extra| !extra.is_empty()))
}

/// Whether specifiers name a pre-release, which admits them.
pub fn names_prerelease(specifiers: &VersionSpecifiers) -> bool {
    specifiers.iter().any(|s| s.version().any_prerelease())
}

/// Whether specifiers pin one version, which allows a yanked release (PEP 592).
pub fn pins(specifiers: &VersionSpecifiers) -> bool {
    specifiers.iter().any(|s| matches!(s.operator(), Operator::Equal | Operator::ExactEqual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_before_the_parser() {
        let nested = |n: usize| format!("x ; {}python_version > '3'{}", "(".repeat(n), ")".repeat(n));
        assert!(parse_requirement(&nested(3)).is_ok());
        assert!(parse_requirement(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(parse_requirement(&nested(12_000)), Err(InvalidRequirement::TooLong));
        assert_eq!(parse_requirement(&nested(5_000)), Err(InvalidRequirement::TooDeep));
        assert_eq!(parse_requirement(&"[".repeat(100)), Err(InvalidRequirement::TooDeep));
        assert!(matches!(parse_requirement("a b"), Err(InvalidRequirement::Syntax(_))));
        for text in ["a- >=1", "a. @ https://x.example/a", "a_", "a [b-]", "a[b, c.]", "a[b_ , c]", " a-;x"] {
            assert!(matches!(parse_requirement(text), Err(InvalidRequirement::Syntax(_))), "{text}");
        }
        assert!(parse_requirement(" a-b.c_d [e-f, g] >=1.0; os_name == 'x-'").is_ok());
        assert_eq!(parse_requirement("x ; os_name == 'a' \u{20ac}"), Err(InvalidRequirement::NotAscii));
        let long = format!("x{}", " or x".repeat(10_000));
        assert_eq!(parse_requirement(&long), Err(InvalidRequirement::TooLong));
    }
}
