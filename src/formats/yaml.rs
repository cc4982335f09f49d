//! Values of YAML documents, and of the workflows of GitHub Actions, in which `${{ }}` is an expression wherever it stands.

/// A text as a value: as it is where YAML reads it so, else in double quotes.
pub(crate) fn value(text: &str) -> String {
    match is_plain(text) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// A text in double quotes, on one line wherever it stands: a string of JSON is one of YAML, which ends lines at more characters.
pub(crate) fn quoted(text: &str) -> String {
    let ends_lines = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let mut out = String::new();
    for c in serde_json::Value::from(text).to_string().chars() {
        match ends_lines(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// The same, of a command that a workflow runs: what looks like an expression in it is none.
pub(crate) fn command(text: &str) -> String {
    value(&without_expressions(text))
}

/// A command on a line of its own below `run: |`, at this indentation; in quotes where it is more than a line.
pub(crate) fn block(text: &str, indentation: &str) -> String {
    match text.contains(|c: char| c.is_control()) {
        true => command(text),
        false => format!("|\n{indentation}{}", without_expressions(text)),
    }
}

/// A folder as a pattern of files in a string of an expression. What means something there stands for any character.
pub(crate) fn pattern(folder: &str) -> String {
    let plain = |c: char| match c {
        '\'' | '{' | '}' | '[' | ']' | '*' | '!' | '\\' => '?',
        c if c.is_control() => '?',
        c => c,
    };
    folder.chars().map(plain).collect()
}

fn without_expressions(text: &str) -> String {
    text.replace("${{", "${{ '${{' }}")
}

/// Whether a text is a plain scalar on one line, and stays a text: nothing in it is read as another type or a comment.
fn is_plain(text: &str) -> bool {
    let starts = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '.' | '_' | '$');
    text.starts_with(starts)
        && !text.contains(|c: char| c.is_control() || c == '\u{85}' || c == '\u{2028}' || c == '\u{2029}')
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && text.parse::<f64>().is_err()
        && ![".inf", ".nan", "true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_would_read_in_another_way_is_quoted() {
        for (text, expected) in [
            ("envlock sync --target a", "envlock sync --target a"),
            // Numbers, dates and words of YAML.
            ("123", "\"123\""),
            ("1.5", "\"1.5\""),
            (".inf", "\".inf\""),
            ("null", "\"null\""),
            ("Yes", "\"Yes\""),
            ("2026-01-01", "\"2026-01-01\""),
            ("!tag", "\"!tag\""),
            ("a\u{85}b\u{2028}c", "\"a\\u0085b\\u2028c\""),
            ("envlock --project 'a: b' sync", "\"envlock --project 'a: b' sync\""),
            ("envlock --project 'a #b' sync", "\"envlock --project 'a #b' sync\""),
            ("a\nb", "\"a\\nb\""),
            ("{ a }", "\"{ a }\""),
            ("no", "\"no\""),
            ("1e3", "\"1e3\""),
            ("", "\"\""),
            ("x '${{ github.token }}'", "x '${{ '${{' }} github.token }}'"),
        ] {
            assert_eq!(command(text), expected);
        }
        assert_eq!(block("{ a; }", "    "), "|\n    { a; }");
        assert_eq!(block("a\nb", "    "), "\"a\\nb\"");
        assert_eq!(pattern("it's/${{ x }}"), "it?s/$?? x ??");
    }
}
