//! Entries that envlock writes into a TOML file of the user's: each is followed by the comment `# envlock`, by which the
//! next run knows it. Everything else in the file stays as it is.

use toml_edit::{Array, RawString, Value};

/// The comment after every entry that envlock wrote.
pub(in crate::formats) const OWN: &str = "# envlock";

/// Whether the text after an entry says that envlock wrote it.
pub(in crate::formats) fn is_own(suffix: Option<&RawString>) -> bool {
    suffix.and_then(|suffix| suffix.as_str()).is_some_and(|suffix| suffix.trim() == OWN)
}

/// The entries of an array, with the text around them.
pub(crate) struct Entries {
    /// What stands behind the opening bracket: a comment.
    start: String,
    entries: Vec<Entry>,
    /// What stands before the closing bracket.
    end: String,
}

/// An entry with the text around it.
pub(crate) struct Entry {
    /// Lines above it.
    above: String,
    pub value: Value,
    /// What follows on its line: a comment.
    after: String,
}

impl Entry {
    /// Whether envlock wrote it.
    pub fn is_own(&self) -> bool {
        self.after.trim() == OWN
    }
}

impl Entries {
    /// Reads an array.
    pub fn of(array: &Array) -> Entries {
        let text = |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or_default().to_owned();
        let mut entries: Vec<Entry> = Vec::new();
        let mut gap = String::new();
        let mut start = String::new();
        for value in array.iter() {
            gap.push_str(&text(value.decor().prefix()));
            let (after, above) = split_line(&gap);
            match entries.last_mut() {
                Some(last) => last.after = after,
                None => start = after,
            }
            entries.push(Entry { above, value: value.clone(), after: String::new() });
            gap = text(value.decor().suffix());
        }
        gap.push_str(array.trailing().as_str().unwrap_or_default());
        let (after, end) = split_line(&gap);
        match entries.last_mut() {
            Some(last) => last.after = after,
            None => start = after,
        }
        Entries { start, entries, end }
    }

    /// Takes out the entries that envlock wrote.
    pub fn take_own(&mut self) -> Vec<Value> {
        let (own, users) = std::mem::take(&mut self.entries).into_iter().partition(Entry::is_own);
        self.entries = users;
        let own: Vec<Entry> = own;
        own.into_iter().map(|entry| entry.value).collect()
    }

    /// Takes out the entries of the user that fulfil a condition.
    pub fn take(&mut self, is_wanted: impl Fn(&Value) -> bool) {
        self.entries.retain(|entry| !is_wanted(&entry.value));
    }

    /// Puts a value in the place of the entry that fulfils a condition, with its comments, or at the end. Of several the first
    /// stays.
    pub fn set(&mut self, is_wanted: impl Fn(&Value) -> bool, value: impl Into<Value>) {
        let value = value.into();
        let Some(at) = self.entries.iter().position(|entry| is_wanted(&entry.value)) else {
            return self.push_plain(value);
        };
        self.entries[at].value = value;
        let mut place = 0;
        self.entries.retain(|entry| {
            place += 1;
            place - 1 <= at || !is_wanted(&entry.value)
        });
    }

    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.entries.iter().map(|entry| &entry.value)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry of envlock's.
    pub fn push_own(&mut self, value: impl Into<Value>) {
        self.push(value, format!(" {OWN}"));
    }

    /// Adds an entry that counts as the user's.
    pub fn push_plain(&mut self, value: impl Into<Value>) {
        self.push(value, String::new());
    }

    fn push(&mut self, value: impl Into<Value>, after: String) {
        self.entries.push(Entry { above: String::new(), value: value.into(), after });
    }

    /// Puts the entries in place of an array, whose place and comments stay.
    pub fn put_into(self, there: &mut Value) {
        let decor = there.decor().clone();
        *there = Value::Array(self.written());
        *there.decor_mut() = decor;
    }

    /// The array, one entry on each line.
    pub fn written(self) -> Array {
        let mut array = Array::new();
        let mut before = self.start;
        // Indented as those that are there.
        let indents = self.entries.iter().filter_map(|entry| entry.above.rsplit_once('\n'));
        let indent = indents.map(|(_, indent)| indent.to_owned()).find(|indent| indent.trim().is_empty());
        let indent = indent.unwrap_or_else(|| "    ".to_owned());
        for Entry { above, mut value, after } in self.entries {
            let above = if above.contains('\n') { above } else { format!("\n{indent}") };
            value.decor_mut().set_prefix(format!("{before}{above}"));
            value.decor_mut().set_suffix("");
            array.push_formatted(value);
            before = after;
        }
        let end = if self.end.contains('\n') { self.end } else { "\n".to_owned() };
        array.set_trailing(format!("{before}{end}"));
        array.set_trailing_comma(true);
        array
    }
}

/// The text between two entries: what stands on the line of the first, and the lines above the second.
fn split_line(gap: &str) -> (String, String) {
    match gap.find('\n') {
        Some(at) => (gap[..at].trim_end().to_owned(), gap[at..].to_owned()),
        None => (String::new(), gap.to_owned()),
    }
}

/// Changes a text in the form that it has: with `\r\n` at the ends of lines, and with a byte order mark.
pub(crate) fn in_its_form<E>(text: &str, change: &dyn Fn(&str) -> Result<String, E>) -> Result<String, E> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let is_windows = body.contains("\r\n");
    let changed = change(&body.replace("\r\n", "\n"))?;
    let changed = if is_windows { changed.replace('\n', "\r\n") } else { changed };
    Ok(format!("{mark}{changed}"))
}
