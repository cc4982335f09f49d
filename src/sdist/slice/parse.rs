//! Parsing Python under limits.

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

use super::syntax::is_too_deep;

/// Maximum size of a `setup.py` that is followed, in bytes. flash-attn's, among the largest, has 60 kB.
const MAX_TEXT: usize = 512 << 10;
/// Maximum depth of brackets.
const MAX_BRACKETS: i32 = 150;
/// How often the parser may say that it goes on, which it does at every hundredth step: 12,000 times for 500 kB of Python, and
/// quadratically often for some texts that are none. No clock: an answer does not depend on what else the machine does.
const MAX_CALLS: usize = 50_000;
/// Maximum number of lines that continue the one before. The parser cannot be stopped among them.
const MAX_CONTINUATIONS: usize = 2000;
/// Maximum number of operators in a row. The parser cannot be stopped while it looks for an operand.
const MAX_OPERATORS: usize = 200;

/// The syntax tree; `None` if the text is too large, nests too deeply or takes too long to parse.
pub(in crate::sdist) fn syntax_tree(text: &str) -> Option<Tree> {
    if text.len() > MAX_TEXT || nests_too_deeply(text) || is_no_python(text) {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_python::LANGUAGE.into()).ok()?;
    let mut calls = 0;
    let mut limit = |_: &ParseState| {
        calls += 1;
        if calls > MAX_CALLS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut limit);
    let mut read = |start, _| text.as_bytes().get(start..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    (!is_too_deep(tree.root_node())).then_some(tree)
}

/// Whether a text has what no Python has and what the parser takes quadratic time on: operators without operands, lines
/// without an end. Comments and strings are skipped.
fn is_no_python(text: &str) -> bool {
    if text.matches("\\\n").count() > MAX_CONTINUATIONS {
        return true;
    }
    let bytes = text.as_bytes();
    let (mut at, mut operators) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at),
            quote @ (b'"' | b'\'') => {
                let triple = [quote; 3];
                let end: &[u8] = if bytes[at..].starts_with(&triple) { &triple } else { &triple[..1] };
                at += end.len();
                while at < bytes.len() && !bytes[at..].starts_with(end) {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += end.len();
                operators = 0;
                continue;
            }
            b'*' | b'+' | b'-' | b'/' | b'%' | b'@' | b'&' | b'|' | b'^' | b'~' | b'<' | b'>' | b'='
            | b'!' | b':' | b',' | b';' | b'.' | b'?' | b'$' | b'`' | b'\\' => operators += 1,
            byte if byte.is_ascii_whitespace() => {}
            _ => operators = 0,
        }
        if operators > MAX_OPERATORS {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether brackets nest deeper than in any real file. The parser takes quadratic time on them.
fn nests_too_deeply(text: &str) -> bool {
    let mut depth = 0i32;
    text.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        depth > MAX_BRACKETS
    })
}
