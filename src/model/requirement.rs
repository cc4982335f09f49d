//! Parses requirements (PEP 508) from outside.
//!
//! The parser of markers is recursive: 12,000 nested parentheses overflow the stack. So texts are limited here before
//! they are parsed, and nothing else calls the parser.

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
    text.parse().map_err(|error: pep508_rs::Pep508Error| {
        let message = error.message.to_string();
        InvalidRequirement::Syntax(super::text::clean(message.lines().next().unwrap_or(""), 120))
    })
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
        let long = format!("x{}", " or x".repeat(10_000));
        assert_eq!(parse_requirement(&long), Err(InvalidRequirement::TooLong));
    }
}
