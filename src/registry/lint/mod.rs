//! Reads the files of a registry and reports all their problems with file and line: first what each row says by itself,
//! then what rows of several tables say together (`together`).

mod together;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::document::{self, line_of};
use super::rows::Meta;
use super::table::{Order, Placed, PlacedRows, Row, is_in};
use super::tables::{PlacedTables, Tables};
use super::{Cited, RegistryFile};
use crate::model::text::clean;

/// The files without which no registry answers anything.
const REQUIRED: [&str; 10] = [
    "companions.toml",
    "cuda.toml",
    "cudnn.toml",
    "drivers.toml",
    "errors.toml",
    "gpus.toml",
    "loading.toml",
    "python.toml",
    "registry.toml",
    "sources.toml",
];

/// One problem in the registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, inside the registry.
    pub path: String,
    /// The line of the row, from 1.
    pub line: usize,
    /// The description.
    pub text: String,
    /// Whether it affects only readability: rows are sorted when loaded, so a row that is out of order has no
    /// other effect.
    pub harmless: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// What the files of a registry say.
pub(super) struct Read {
    pub meta: Meta,
    pub sources: BTreeMap<String, String>,
    pub tables: Tables,
}

/// Reads the files, which are sorted by path: what could be read, and all problems, sorted by file and line.
pub(super) fn read(files: &[RegistryFile]) -> (Option<Read>, Vec<Problem>) {
    let mut linter = Linter::new(files);
    linter.required();
    let sources = linter.sources();
    let meta = linter.meta(sources.as_ref().unwrap_or(&BTreeMap::new()));
    let tables = PlacedTables::read(&mut linter);
    linter.together(&tables);
    linter.unknown();
    linter.uncited(sources.as_ref());
    let mut problems = linter.problems;
    problems.sort();
    problems.dedup();
    let read = meta.zip(sources).map(|(meta, sources)| Read { meta, sources, tables: tables.into_tables() });
    (read, problems)
}

struct Linter<'f> {
    files: Vec<File<'f>>,
    problems: Vec<Problem>,
    /// The rows that cite each source.
    cited: BTreeMap<String, Vec<(String, usize)>>,
}

/// A file, as TOML if it is.
struct File<'f> {
    path: &'f str,
    text: &'f str,
    document: Option<DeTable<'f>>,
    /// The names of its tables that were read.
    read: RefCell<BTreeSet<String>>,
}

impl<'f> Linter<'f> {
    fn new(files: &'f [RegistryFile]) -> Linter<'f> {
        let mut linter = Linter { files: Vec::new(), problems: Vec::new(), cited: BTreeMap::new() };
        for RegistryFile { path, text } in files {
            let document = document::parse(text);
            if let Err(error) = &document {
                linter.at_error(path, text, 0, error);
            }
            let document = document.ok();
            linter.files.push(File { path, text, document, read: RefCell::default() });
        }
        linter
    }

    fn problem(&mut self, path: &str, line: usize, text: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), line, text: text.into(), harmless: false });
    }

    /// A problem that makes no answer wrong.
    fn untidy(&mut self, path: &str, line: usize, text: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), line, text: text.into(), harmless: true });
    }

    /// The problem that TOML has with a value, at the line of the mistake or of the row.
    fn at_error(&mut self, path: &str, text: &str, start: usize, error: &toml::de::Error) {
        let span = error.span().unwrap_or(start..start);
        let line = line_of(text, span.start);
        let of_line = text.lines().nth(line - 1).unwrap_or_default();
        let shown = match of_line.split_once(" = ") {
            // A row on one line: the value or the key alone.
            Some(_) if of_line.trim_start().starts_with('{') => text.get(span).map(|part| clean(part, 60)),
            Some((key, value)) => Some(format!("{} = {}", clean(key, 60), clean(value, 60))),
            None => None,
        };
        match shown.filter(|shown| !shown.is_empty()) {
            Some(shown) => self.problem(path, line, format!("`{shown}`: {}", error.message())),
            None => self.problem(path, line, error.message()),
        }
    }

    fn required(&mut self) {
        for path in REQUIRED {
            if self.files.iter().all(|file| file.path != path) {
                self.problem(path, 1, "the file is missing");
            }
        }
    }

    /// The value of a key at the top of a file.
    fn top<T: serde::de::DeserializeOwned>(&mut self, path: &str, key: &str) -> Option<T> {
        let file = self.files.iter().find(|file| file.path == path)?;
        let value = file.document.as_ref()?.get(key)?.clone();
        file.read.borrow_mut().insert(key.to_owned());
        let (text, start) = (file.text, value.span().start);
        T::deserialize(ValueDeserializer::from(value)).map_err(|e| self.at_error(path, text, start, &e)).ok()
    }

    fn meta(&mut self, sources: &BTreeMap<String, String>) -> Option<Meta> {
        let schema: Option<String> = self.top("registry.toml", "schema");
        let date: Option<String> = self.top("registry.toml", "date");
        match Meta::new(&schema?, date.as_deref(), sources) {
            Ok(meta) => Some(meta),
            Err(why) => {
                self.problem("registry.toml", 1, why);
                None
            }
        }
    }

    /// `None` if they cannot be read: then citations are not checked.
    fn sources(&mut self) -> Option<BTreeMap<String, String>> {
        self.top("sources.toml", "sources")
    }

    /// Checks that the rows of a file are in order.
    fn ordered<R: Row>(&mut self, rows: &[Placed<R>]) {
        let mut highest: Option<&Placed<R>> = None;
        for placed in rows {
            if highest.is_some_and(|highest| placed.row.compare(&highest.row).is_lt()) {
                self.untidy(&placed.path, placed.line, "the row is out of order");
            } else {
                highest = Some(placed);
            }
        }
    }

    /// Checks that no two rows have one key.
    fn unique<R: Row>(&mut self, rows: &[Placed<R>]) {
        let mut sorted: Vec<&Placed<R>> = rows.iter().collect();
        sorted.sort_by(|one, other| one.row.compare(&other.row));
        for pair in sorted.windows(2).filter(|pair| pair[0].row.compare(&pair[1].row).is_eq()) {
            let text = format!("duplicate row: another is at {}:{}", pair[0].path, pair[0].line);
            self.problem(&pair[1].path, pair[1].line, text);
        }
    }

    fn cite(&mut self, path: &str, line: usize, ids: &[String]) {
        if ids.is_empty() {
            self.problem(path, line, "the row names no source");
        }
        for id in ids {
            self.cited.entry(id.clone()).or_default().push((path.to_owned(), line));
        }
    }

    /// Reports tables and files that nothing has read: a misspelled name would drop its rows.
    fn unknown(&mut self) {
        let mut problems = Vec::new();
        for File { path, text, document, read } in &self.files {
            let Some(document) = document else { continue };
            let read = read.borrow();
            let is_known = REQUIRED.contains(path) || document.is_empty() || !read.is_empty();
            if !is_known {
                problems.push((*path, 1, "unknown registry file".to_owned()));
                continue;
            }
            for name in document.keys().filter(|name| !read.contains(name.get_ref().as_ref())) {
                let line = line_of(text, name.span().start);
                let text = match name.get_ref().as_ref() {
                    "default" => format!(
                        "`default` can have {}",
                        document::DEFAULTS.map(|key| format!("`{key}`")).join(" and ")
                    ),
                    other => format!("unknown table `{}`", clean(other, 60)),
                };
                problems.push((*path, line, text));
            }
        }
        problems.into_iter().for_each(|(path, line, text)| self.problem(path, line, text));
    }

    /// Reports cited sources that are not in sources.toml, each once, at the first row that cites it; and sources that no
    /// row cites.
    fn uncited(&mut self, sources: Option<&BTreeMap<String, String>>) {
        let Some(sources) = sources else { return };
        for (id, mut places) in std::mem::take(&mut self.cited) {
            if sources.contains_key(&id) {
                places.clear();
            }
            places.sort();
            let more = match places.len() {
                0 | 1 => String::new(),
                n => format!(" ({} more rows cite it)", n - 1),
            };
            if let Some((path, line)) = places.first() {
                self.problem(path, *line, format!("the source `{id}` is not in sources.toml{more}"));
            }
            self.cited.insert(id, Vec::new());
        }
        for id in sources.keys().filter(|id| !self.cited.contains_key(*id)).collect::<Vec<_>>() {
            self.untidy("sources.toml", 1, format!("no row cites `{id}`"));
        }
    }
}

impl PlacedRows for Linter<'_> {
    /// The valid rows of a table; a row that is not valid is reported where its mistake is.
    fn table<R: Row>(&mut self) -> Vec<Placed<R>> {
        let mut out = Vec::new();
        for index in 0..self.files.len() {
            let File { path, text, document, read } = &self.files[index];
            let (path, text) = (*path, *text);
            let value = document.as_ref().and_then(|document| document.get(R::TABLE));
            let Some(value) = value.filter(|_| is_in(path, R::STEM)) else { continue };
            read.borrow_mut().insert(R::TABLE.to_owned());
            let rows: Vec<Spanned<DeValue<'_>>> = match value.get_ref() {
                DeValue::Array(rows) => rows.iter().cloned().collect(),
                _ => vec![value.clone()],
            };
            let first = out.len();
            for row in rows {
                let start = row.span().start;
                let line = line_of(text, start);
                match Cited::<R>::deserialize(ValueDeserializer::from(row)) {
                    Ok(row) => {
                        self.cite(path, line, &row.source);
                        row.problems().into_iter().for_each(|text| self.problem(path, line, text));
                        out.push(Placed { row, path: path.to_owned(), line });
                    }
                    Err(error) => self.at_error(path, text, start, &error),
                }
            }
            if R::ORDER == Order::Sorted {
                self.ordered(&out[first..]);
            }
        }
        if R::ORDER != Order::First {
            self.unique(&out);
        }
        out
    }
}

#[cfg(test)]
mod tests;
