//! Parses requirements (PEP 508) from outside.
//!
//! The parser of markers is recursive: 12,000 nested parentheses overflow the stack. It also panics on some texts: a name
//! or an extra that ends in a separator (`a- >=1`), and a marker with characters that are not ASCII. So texts are limited
//! here before they are parsed, and nothing else calls the parser.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use pep440_rs::{Operator, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl};
use serde::{Deserialize, Deserializer};

/// Length limit of a requirement in bytes. The longest on PyPI have some hundred.
const MAX_LENGTH: usize = 16 * 1024;
/// Limit of nested parentheses and brackets. Real markers have two or three levels.
const MAX_DEPTH: usize = 64;

/// Limit of different comparisons in a marker that joins them by `and` and by `or`. The parser makes a decision diagram of them,
/// which grows with the square: 100 of them take 280 MB. Of 1,525 markers in METADATA the largest has 6, and 11 in a `uv.lock`
/// with ten extras that exclude each other.
const MAX_COMPARISONS: usize = 48;
/// Limit of the different markers of a run with more than [`FEW`] comparisons, as the sum of their squares, about 1 GB: the parser
/// keeps the diagrams.
const MAX_SQUARES: usize = 35_000;
/// So few comparisons are not counted.
const FEW: usize = 8;

/// Why a text is not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// Longer than the limit.
    #[error("it is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// More nested than the limit.
    #[error("its parentheses are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// Its marker has more comparisons than the limit, or markers of so many were too many.
    #[error("its marker joins more comparisons by `and` and `or` than envlock reads")]
    TooManyComparisons,
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
    if text.split_once(';').is_some_and(|(_, marker)| !is_small(marker)) {
        return Err(InvalidRequirement::TooManyComparisons);
    }
    text.parse().map_err(|error: pep508_rs::Pep508Error| {
        let message = error.message.to_string();
        let first = super::secrets::masked(message.lines().next().unwrap_or(""));
        InvalidRequirement::Syntax(super::text::clean(&first, 120))
    })
}

/// Whether the decision diagram of a marker is small, beside those of the markers before it.
fn is_small(marker: &str) -> bool {
    /// The markers that were counted, and the sum of their squares.
    static COUNTED: Mutex<(BTreeSet<String>, usize)> = Mutex::new((BTreeSet::new(), 0));
    let words = || marker.split([' ', '(', ')', '\t', '\n']).filter(|word| !word.is_empty());
    if words().filter(|word| matches!(*word, "and" | "or")).count() < FEW {
        return true;
    }
    let words: Vec<&str> = words().collect();
    let is_mixed = words.contains(&"and") && words.contains(&"or");
    // A text that has these words is cut at them: it counts as more comparisons than it has.
    let comparisons: BTreeSet<&[&str]> = words.split(|word| matches!(*word, "and" | "or")).collect();
    let count = comparisons.len();
    if !is_mixed || count <= FEW {
        return true;
    }
    if count > MAX_COMPARISONS {
        return false;
    }
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let (known, sum) = &mut *counted;
    if known.contains(marker) {
        return true;
    }
    let is_within = *sum + count * count <= MAX_SQUARES;
    if is_within {
        *sum += count * count;
        known.insert(marker.to_owned());
    }
    is_within
}

/// Parses a requirement that a package published, or the same with its specifiers repaired where that is how installers of
/// the time read them: then with the text that was parsed.
///
/// # Errors
/// See [`InvalidRequirement`].
pub fn parse_published(text: &str) -> Result<(Requirement<VerbatimUrl>, Option<String>), InvalidRequirement> {
    let error = match parse_requirement(text) {
        Ok(requirement) => return Ok((requirement, None)),
        Err(error @ InvalidRequirement::Syntax(_)) => error,
        Err(error) => return Err(error),
    };
    let (head, marker) = match text.split_once(';') {
        Some((head, marker)) => (head, Some(marker)),
        None => (text, None),
    };
    let Some(start) = head.find(['<', '>', '=', '!', '~', '(']).filter(|_| !head.contains('@')) else {
        return Err(error);
    };
    let (name, specifiers) = head.split_at(start);
    let specifiers = specifiers.trim().trim_start_matches('(').trim_end_matches(')');
    let marker = marker.map(|marker| format!(" ;{marker}")).unwrap_or_default();
    let repaired = format!("{}{}{marker}", name.trim(), repaired_specifiers(specifiers));
    match parse_requirement(&repaired) {
        Ok(requirement) => Ok((requirement, Some(repaired))),
        Err(_) => Err(error),
    }
}

/// Parses the specifiers of a `Requires-Python`, or the same repaired.
pub fn parse_published_specifiers(text: &str) -> Option<VersionSpecifiers> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    text.parse().or_else(|_| repaired_specifiers(text).parse()).ok()
}

/// Specifiers as installers read them before they followed the standard strictly (setuptools before 66, pip before 24.1), and
/// as uv does: no `.*` behind an ordering, no empty specifier, a comma between two.
fn repaired_specifiers(text: &str) -> String {
    let is_operator = |c: char| "<>=!~".contains(c);
    let mut out: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        // `>=1.0 <2.0`, `>=1.0<2.0`
        let mut rest = piece;
        while !rest.is_empty() {
            let version = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            let end = rest[version..].find(is_operator).map_or(rest.len(), |at| version + at);
            let (one, next) = rest.split_at(end);
            let (operator, version) = one.split_at(version);
            let version = version.trim();
            let version = match operator {
                "<" | "<=" | ">" | ">=" => version.strip_suffix(".*").unwrap_or(version),
                _ => version,
            };
            out.push(format!("{operator}{version}"));
            rest = next;
        }
    }
    out.join(",")
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

/// A requirement in a file, read by [`parse_requirement`] and not by the parser's own implementation of serde.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Stated(Requirement<VerbatimUrl>);

impl TryFrom<String> for Stated {
    type Error = InvalidRequirement;

    fn try_from(text: String) -> Result<Stated, InvalidRequirement> {
        parse_requirement(&text).map(Stated)
    }
}

/// Deserializes a list of requirements.
///
/// # Errors
/// A text that is none.
pub fn listed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Requirement<VerbatimUrl>>, D::Error> {
    let all = Vec::<Stated>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Stated(requirement)| requirement).collect())
}

/// Deserializes a requirement that may be absent.
///
/// # Errors
/// A text that is none.
pub fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Requirement<VerbatimUrl>>, D::Error> {
    Ok(Option::<Stated>::deserialize(deserializer)?.map(|Stated(requirement)| requirement))
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
    fn published_requirements_are_repaired_as_installers_did() {
        for (text, expected) in [
            ("torch (>=1.9.*)", Some("torch>=1.9")),
            ("PyYAML (>=5.1.*)", Some("PyYAML>=5.1")),
            ("pa>=1.0,", Some("pa>=1.0")),
            ("pa (>=1.0 <2.0)", Some("pa>=1.0,<2.0")),
            ("pa>=1.0<2.0; python_version < '3'", Some("pa>=1.0,<2.0 ; python_version < '3'")),
            ("pa[x] >1.*,!=1.5.*", Some("pa[x]>1,!=1.5.*")),
            ("pa>=1", None),
            ("pa==1.*", None),
        ] {
            let (requirement, repaired) = parse_published(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(repaired.as_deref(), expected, "{text}");
            assert_eq!(requirement, parse_requirement(expected.unwrap_or(text)).unwrap());
        }
        for text in ["pa>=one", "pa>=1 foo", "a- >=1.*", "=", "pa~=1.0.*"] {
            assert!(parse_published(text).is_err(), "{text}");
        }
        assert_eq!(parse_published_specifiers(">=3.6.*"), ">=3.6".parse().ok());
        assert_eq!(parse_published_specifiers("three"), None);
    }

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
        let joined = |n: usize| {
            let parts = (0..n).map(|i| format!("(os_name=='{i}' or extra=='e{i}')"));
            format!("x ; {}", parts.collect::<Vec<_>>().join(" and "))
        };
        assert!(parse_requirement(&joined(5)).is_ok());
        // The same one is counted once.
        assert!((0..1_000).all(|_| parse_requirement(&joined(10)).is_ok()));
        assert_eq!(parse_requirement(&joined(100)), Err(InvalidRequirement::TooManyComparisons));
        let names: Vec<String> = (0..200).map(|i| format!("extra == 'e{i}'")).collect();
        assert!(parse_requirement(&format!("x ; {}", names.join(" or "))).is_ok());
        let long = format!("x{}", " or x".repeat(10_000));
        assert_eq!(parse_requirement(&long), Err(InvalidRequirement::TooLong));
    }
}
