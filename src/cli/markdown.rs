//! Text of others in Markdown, for pull requests and tickets.

use crate::model::text::clean;

/// A text as it stands in a cell of a table: one line, and nothing in it is Markdown or HTML.
pub(super) fn cell(text: &str) -> String {
    /// Maximum number of characters of a cell.
    const LONGEST: usize = 2_000;
    let mut out = String::new();
    for c in clean(text, LONGEST).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            // A name of a person or of an issue would be told, or linked.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A table, without rows nothing.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &mut dyn Iterator<Item = String>| {
        format!("| {} |\n", cells.collect::<Vec<String>>().join(" | "))
    };
    let mut out = line(&mut head.iter().map(|head| (*head).to_owned()));
    out.push_str(&line(&mut head.iter().map(|_| "---".to_owned())));
    for row in rows {
        out.push_str(&line(&mut row.iter().cloned()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_text() {
        for (text, expected) in [
            ("torch 2.9.1+cu128", "torch 2.9.1+cu128"),
            ("a|b\n`c`", "a\\|b\\`c\\`"),
            ("<img src=x>", "&lt;img src=x>"),
            ("[x](javascript:y)", "\\[x\\](javascript:y)"),
            ("@all #1 &amp; _a_", "&#64;all &#35;1 &amp;amp; \\_a\\_"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
