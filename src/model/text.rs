//! Functions on untrusted text: sanitizing for output, and normalization by standards.

/// `text` without control characters and cut to `limit` characters, for messages.
///
/// Names, summaries and versions come from untrusted indexes and files; escape sequences in them must not reach the
/// terminal.
///
/// ```
/// use envlock::model::text::clean;
/// assert_eq!(clean("evil\x1b[31m name\n", 40), "evil[31m name");
/// ```
pub fn clean(text: &str, limit: usize) -> String {
    let mut out: String =
        text.chars().filter(|c| !c.is_control() && !is_format_control(*c)).take(limit).collect();
    if text.chars().filter(|c| !c.is_control()).nth(limit).is_some() {
        out.push('…');
    }
    out
}

/// Whether a text is one line without characters that are not shown or that end a line.
pub fn is_line(text: &str) -> bool {
    // Almost all texts are of these characters alone.
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        || !text.chars().any(|c| c.is_control() || is_format_control(c))
}

/// The lines of a text, as [`str::lines`] gives them. Pages and METADATA have hundreds of long lines, which are found
/// several times as fast by vector instructions.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let (line, tail) = match memchr::memchr(b'\n', text.as_bytes()) {
            Some(end) => (&text[..end], Some(&text[end + 1..]).filter(|tail| !tail.is_empty())),
            None => {
                rest = None;
                return Some(text);
            }
        };
        rest = tail;
        Some(line.strip_suffix('\r').unwrap_or(line))
    })
}

/// Invisible characters that reorder, end or hide text (bidirectional overrides, zero-width marks, separators of lines,
/// tags), and those that XML does not have.
pub fn is_format_control(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Encodes a TOML basic string.
///
/// ```
/// assert_eq!(envlock::model::text::toml_string("a\"b"), "\"a\\\"b\"");
/// ```
pub fn toml_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `text` as one shell word, quoted if necessary. File names and package versions are untrusted and must not inject
/// commands into suggested command lines.
///
/// ```
/// use envlock::model::text::shell_word;
/// assert_eq!(shell_word("/opt/env/~orch"), "'/opt/env/~orch'");
/// assert_eq!(shell_word("numpy==2.4.6"), "numpy==2.4.6");
/// assert_eq!(shell_word("1.0; rm -rf ~"), "'1.0; rm -rf ~'");
/// ```
pub fn shell_word(text: &str) -> String {
    // `clean` also removes NUL bytes, which a shell argument cannot contain.
    let text = clean(text, 4_096);
    // `=` inside a word is not special to a shell, and requirements are more readable without quotes.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=+@%-".contains(c);
    if !text.is_empty() && !text.starts_with(['=', '-']) && text.chars().all(is_plain) {
        return text;
    }
    shlex::try_quote(&text).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// Where Python ends a line, and so pip in a requirements file and `site` in a `.pth` file. Source: Python's library reference,
/// `str.splitlines`.
pub const PYTHON_LINE_ENDS: [char; 10] =
    ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// `text` without the credentials in URLs: `https://me:pw@host/` becomes `https://host/`.
///
/// ```
/// use envlock::model::text::without_logins;
/// assert_eq!(without_logins("see https://me:p/w@host/x or b"), "see https://host/x or b");
/// assert_eq!(without_logins("git+https://me:pw@host/x@v1 https://host/x@v1"), "git+https://host/x@v1 https://host/x@v1");
/// ```
pub fn without_logins(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let end = tail.find(|c: char| c.is_whitespace() || c == '"' || c == '\'').unwrap_or(tail.len());
        let (address, after) = tail.split_at(end);
        // A password may contain `/`; then the last `@` ends it. Behind a plain host an `@` is part of the path: the
        // revision of a repository.
        let authority = address.split('/').next().unwrap_or_default();
        let is_port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let has_password = authority.split_once(':').is_some_and(|(_, rest)| !is_port(rest));
        let login_end = match authority.rfind('@') {
            Some(at) => at + 1,
            None if has_password && !authority.starts_with('[') => address.rfind('@').map_or(0, |at| at + 1),
            None => 0,
        };
        out.push_str(&address[login_end..]);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Whether a lock can name a file so: a wheel or source distribution whose name has no other characters than those of
/// versions and tags.
pub fn is_file_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 300
        && !text.starts_with(['-', '.'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+!".contains(&b))
}

/// A text without the logins and tokens in the addresses of conda channels: `https://host/t/TOKEN/channel` is conda's way to write
/// a token. A local path may have a folder `t`.
///
/// ```
/// use envlock::model::text::channel_without_secrets;
/// assert_eq!(channel_without_secrets("conda install -c https://me:pw@host/t/abc/c x"), "conda install -c https://host/c x");
/// assert_eq!(channel_without_secrets("https://host/conda/t/abc"), "https://host/conda");
/// assert_eq!(channel_without_secrets("-c file:///srv/t/abc -c /srv/t/abc"), "-c file:///srv/t/abc -c /srv/t/abc");
/// ```
pub fn channel_without_secrets(text: &str) -> String {
    let word = |word: &str| match word.split_once("/t/").filter(|(before, _)| before.contains("http")) {
        Some((before, after)) => {
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
            format!("{before}{}", &after[end.unwrap_or(after.len())..])
        }
        None => word.to_owned(),
    };
    without_logins(text).split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A normalized project name (PEP 503): lower case, runs of `-`, `_` and `.` replaced by one `-`.
///
/// ```
/// assert_eq!(envlock::model::text::normalized_name("Zope.Interface__x"), "zope-interface-x");
/// ```
pub fn normalized_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// The normalized name at the start of a requirement.
///
/// ```
/// assert_eq!(envlock::model::text::requirement_name("Typing_Extensions>=4; python_version < '3.11'"), "typing-extensions");
/// ```
pub fn requirement_name(text: &str) -> String {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(text.len());
    normalized_name(&text[..end])
}

/// An address as it can stand in lists of requirements, in YAML and in TOML: pip expands `${NAME}` and reads what follows a space as
/// another option.
///
/// ```
/// use envlock::model::text::plain_address;
/// assert_eq!(plain_address("https://host.example/${A} --pre"), "https://host.example/%24%7BA%7D%20--pre");
/// ```
pub fn plain_address(text: &str) -> String {
    const PLAIN: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b':')
        .remove(b'/')
        .remove(b'@')
        .remove(b'!')
        .remove(b'*')
        .remove(b'+')
        .remove(b',')
        .remove(b'=')
        .remove(b'%')
        .remove(b'?')
        .remove(b'&')
        .remove(b'(')
        .remove(b')')
        .remove(b'#')
        .remove(b'[')
        .remove(b']');
    percent_encoding::utf8_percent_encode(text.trim(), PLAIN).to_string()
}

/// About how many values, parts of keys and lines a TOML document has: each takes some 80 bytes while it is read.
pub fn toml_values(text: &str) -> usize {
    // Every second part lies between quotes, where addresses have dots.
    let dots = text.split('"').step_by(2).flat_map(str::bytes).filter(|byte| *byte == b'.').count();
    dots + text.bytes().filter(|byte| b",\n=[".contains(byte)).count()
}

/// Maximum number of [`toml_values`] of a document. A lock of 600,000 files has nine for each.
pub const MAX_VALUES: usize = 3_000_000;

/// A command as one types it: `uv pip install 'a b'`.
pub fn shell_line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// The line of the first conflict marker that git left in a text, counted from 1.
pub fn conflict_marker(text: &str) -> Option<usize> {
    let is_marker = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    text.lines().position(is_marker).map(|line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_overrides_are_removed() {
        assert_eq!(clean("a\u{202e}b\x07c", 10), "abc");
        assert_eq!(clean("abcdef", 3), "abc…");
    }

    #[test]
    fn lines_are_those_of_the_standard_library() {
        for text in ["", "\n", "a", "a\n", "a\r\n\nb", "\r\n", "\r", "a\rb\r\r\n\r", "\n\n"] {
            assert!(lines(text).eq(text.lines()), "{text:?}");
        }
    }
}
