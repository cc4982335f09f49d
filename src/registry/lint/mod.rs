//! Reads the files of a registry and reports all their problems with file and line: first what each row says by itself,
//! then what rows of several tables say together (`together`).

mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::document::{self, line_of};
use super::learned::LEARNED_SOURCE;
use super::rows::Meta;
use super::table::{Order, Placed, PlacedRows, Row, is_in};
use super::tables::{PlacedTables, STEMS, Tables};
use super::{Cited, RegistryFile};
use crate::model::text::{clean, is_line};
use crate::model::timestamp::is_day;

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

/// Size limit of a text in bytes.
const MAX_TEXT: usize = 4_000;

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
    let meta = linter.meta(sources.as_ref());
    let tables = PlacedTables::read(&mut linter);
    linter.unknown();
    // What a row that cannot be read would say is not known: nothing is concluded from its absence.
    linter.broken =
        linter.problems.iter().filter(|p| !p.harmless).map(|p| stem(&p.path).to_owned()).collect();
    linter.together(&tables);
    linter.uncited(sources.as_ref());
    let problems = told_once(linter.problems);
    let read = meta.zip(sources).map(|(meta, sources)| Read { meta, sources, tables: tables.into_tables() });
    (read, problems)
}

/// `torch` of `torch/2.9.toml`, `cuda` of `cuda.toml`.
fn stem(path: &str) -> &str {
    path.split(['/', '.']).next().unwrap_or(path)
}

/// The problems by file and line; one that many rows of a file have, at the first of them.
fn told_once(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort();
    problems.dedup();
    let mut rows: BTreeMap<(String, String), usize> = BTreeMap::new();
    problems.iter().for_each(|one| *rows.entry((one.path.clone(), one.text.clone())).or_default() += 1);
    let mut told: BTreeSet<(String, String)> = BTreeSet::new();
    problems.retain(|one| told.insert((one.path.clone(), one.text.clone())));
    for one in &mut problems {
        let count = rows[&(one.path.clone(), one.text.clone())];
        if count > 1 {
            one.text = format!("{} ({} more rows have this)", one.text, count - 1);
        }
    }
    problems
}

struct Linter<'f> {
    files: Vec<File<'f>>,
    problems: Vec<Problem>,
    /// The files, by stem, with a problem by themselves.
    broken: BTreeSet<String>,
    /// The rows that cite each source.
    cited: BTreeMap<String, Vec<(String, usize)>>,
}

/// A file, as TOML if it is.
struct File<'f> {
    path: &'f str,
    text: &'f str,
    /// The offsets of its line breaks.
    breaks: Vec<usize>,
    document: Option<DeTable<'f>>,
    /// The names of its tables that were read.
    read: BTreeSet<String>,
}

impl File<'_> {
    /// The line of a byte offset, from 1. [`line_of`] counts from the start, which takes too long for each row of a file.
    fn line_of(&self, offset: usize) -> usize {
        self.breaks.partition_point(|at| *at < offset) + 1
    }
}

impl<'f> Linter<'f> {
    fn new(files: &'f [RegistryFile]) -> Linter<'f> {
        let mut linter = Linter {
            files: Vec::new(),
            problems: Vec::new(),
            broken: BTreeSet::new(),
            cited: BTreeMap::new(),
        };
        for RegistryFile { path, text } in files {
            let document = document::parse(text);
            if let Err(error) = &document {
                linter.at_error(path, text, 0, error);
            }
            for value in document.iter().flat_map(|document| document.values()) {
                linter.texts(path, text, value);
            }
            let document = document.ok();
            let breaks = text.match_indices('\n').map(|(at, _)| at).collect();
            linter.files.push(File { path, text, breaks, document, read: BTreeSet::new() });
        }
        linter
    }

    /// Reports texts that are more than a line: they reach terminals and locks.
    fn texts(&mut self, path: &str, text: &str, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::String(own) if own.len() > MAX_TEXT || !is_line(own) => {
                let line = line_of(text, value.span().start);
                let shown = clean(own, 40);
                self.problem(
                    path,
                    line,
                    format!("`{shown}` has control characters, or more than {MAX_TEXT} bytes"),
                );
            }
            DeValue::Array(all) => all.iter().for_each(|one| self.texts(path, text, one)),
            DeValue::Table(table) => table.values().for_each(|one| self.texts(path, text, one)),
            _ => {}
        }
    }

    /// Whether every row of some files could be read.
    fn is_sound(&self, stems: &[&str]) -> bool {
        stems.iter().all(|stem| !self.broken.contains(*stem))
    }

    /// A problem of a row at the line of one of its keys.
    fn in_row(&mut self, path: &str, line: usize, key: &str, text: impl Into<String>) {
        let file = self.files.iter().find(|file| file.path == path);
        let mut lines = file.map_or("", |file| file.text).lines().enumerate().skip(line - 1);
        let first = lines.next().map_or("", |(_, first)| first);
        // A row on one line has no others.
        let mut own =
            lines.take_while(|(_, of_row)| !first.trim_start().starts_with('{') && !of_row.starts_with("[["));
        let of_key = own.find(|(_, of_row)| {
            of_row.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
        });
        self.problem(path, of_key.map_or(line, |(index, _)| index + 1), text);
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
            Some(_) if of_line.trim_start().starts_with('{') && span.start == start => None,
            Some(_) if of_line.trim_start().starts_with('{') => {
                text.get(span.clone()).map(|part| clean(part, 60))
            }
            Some((key, value)) => Some(format!("{} = {}", clean(key, 60), clean(value, 60))),
            None => None,
        };
        let message = in_words(error.message());
        // A conversion of serde has a text alone, which names the key that it refuses, and the place of the row.
        if let Some(key) = message.strip_prefix('`').and_then(|rest| rest.split('`').next())
            && span.start == start
        {
            let key = key.to_owned();
            return self.in_row(path, line, &key, message);
        }
        match shown.filter(|shown| !shown.is_empty()) {
            Some(shown) => self.problem(path, line, format!("`{shown}`: {message}")),
            None => self.problem(path, line, message),
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
        let file = self.files.iter_mut().find(|file| file.path == path)?;
        let value = file.document.as_ref()?.get(key)?.clone();
        file.read.insert(key.to_owned());
        let (text, start) = (file.text, value.span().start);
        T::deserialize(ValueDeserializer::from(value)).map_err(|e| self.at_error(path, text, start, &e)).ok()
    }

    fn meta(&mut self, sources: Option<&BTreeMap<String, String>>) -> Option<Meta> {
        let schema: Option<String> = self.top("registry.toml", "schema");
        let date: Option<String> = self.top("registry.toml", "date");
        if schema.is_none() && self.is_readable("registry.toml") {
            self.problem("registry.toml", 1, "`schema` is missing");
        }
        match Meta::new(&schema?, date.as_deref(), sources?) {
            Ok(meta) => Some(meta),
            Err(why) => {
                self.problem("registry.toml", 1, why);
                None
            }
        }
    }

    /// `None` if they cannot be read: then citations are not checked.
    fn sources(&mut self) -> Option<BTreeMap<String, String>> {
        let sources: BTreeMap<String, String> = self.top("sources.toml", "sources")?;
        for (id, text) in &sources {
            for day in text.match_indices(", read ").filter_map(|(at, sign)| text.get(at + sign.len()..)) {
                let day: String = day.chars().take_while(|c| !c.is_whitespace() && *c != ',').collect();
                let day = day.trim_end_matches([':', '.', ';', ')']);
                if day.starts_with(|c: char| c.is_ascii_digit()) && !is_day(day) {
                    let line = self.line_of_source(id);
                    self.problem(
                        "sources.toml",
                        line,
                        format!("`{}` is not a day such as `2026-11-27`", clean(day, 40)),
                    );
                }
            }
        }
        Some(sources)
    }

    /// The line of a source in sources.toml.
    fn line_of_source(&self, id: &str) -> usize {
        let file = self.files.iter().find(|file| file.path == "sources.toml");
        let mut lines = file.map_or("", |file| file.text).lines();
        let is_it = |line: &str| line.split('=').next().is_some_and(|key| key.trim().trim_matches('"') == id);
        lines.position(is_it).map_or(1, |index| index + 1)
    }

    /// Whether a file is there and is TOML.
    fn is_readable(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path && file.document.is_some())
    }

    /// Checks that the rows of a file are in order.
    fn ordered<R: Row>(&mut self, rows: &[Placed<R>]) {
        let is_after = |one: &Placed<R>, other: &Placed<R>| one.row.compare(&other.row).is_gt();
        for (index, pair) in rows.windows(2).enumerate().filter(|(_, pair)| is_after(&pair[0], &pair[1])) {
            // Which of the two is out of order: the first one, if the second fits behind the row before.
            let fits = index == 0 || !is_after(&rows[index - 1], &pair[1]);
            let (moved, way) = if fits { (&pair[0], "further down") } else { (&pair[1], "further up") };
            self.untidy(&moved.path, moved.line, format!("the row is out of order: it belongs {way}"));
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
        if ids.is_empty() || ids.len() > document::MOST_SOURCES {
            let most = document::MOST_SOURCES;
            self.in_row(path, line, "source", format!("`source`: a row has 1 to {most} sources"));
            return;
        }
        for id in ids {
            self.cited.entry(id.clone()).or_default().push((path.to_owned(), line));
        }
    }

    /// Reports tables and files that nothing has read: a misspelled name would drop its rows.
    fn unknown(&mut self) {
        let (mut problems, mut empty) = (Vec::new(), Vec::new());
        for File { path, text, document, read, .. } in &self.files {
            let Some(document) = document else { continue };
            let is_known = REQUIRED.contains(path) || STEMS.iter().any(|stem| is_in(path, stem));
            if !is_known {
                problems.push((*path, 1, "unknown registry file".to_owned()));
                continue;
            }
            if document.keys().all(|name| name.get_ref() == "default") {
                empty.push(*path);
            }
            for name in document.keys().filter(|name| !read.contains(name.get_ref().as_ref())) {
                let line = line_of(text, name.span().start);
                let text = match name.get_ref().as_ref() {
                    "default" => format!(
                        "`default` can have {}",
                        document::DEFAULTS.map(|key| format!("`{key}`")).join(" and ")
                    ),
                    other if document.get(name.get_ref().as_ref()).is_some_and(is_table) => {
                        format!("unknown table `{}`", clean(other, 60))
                    }
                    other => format!("unknown key `{}`", clean(other, 60)),
                };
                problems.push((*path, line, text));
            }
        }
        problems.into_iter().for_each(|(path, line, text)| self.problem(path, line, text));
        empty.into_iter().for_each(|path| self.untidy(path, 1, "the file has no rows"));
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
                let (path, line) = (path.clone(), *line);
                self.in_row(&path, line, "source", format!("the source `{id}` is not in sources.toml{more}"));
            }
            self.cited.insert(id, Vec::new());
        }
        // Rows that could not be read may cite it.
        let is_cited = |id: &String| id == LEARNED_SOURCE || self.cited.contains_key(id);
        let uncited = sources.keys().filter(|id| self.broken.is_empty() && !is_cited(id));
        for id in uncited.collect::<Vec<_>>() {
            let line = self.line_of_source(id);
            self.untidy("sources.toml", line, format!("no row cites `{id}`"));
        }
    }
}

/// A message of the TOML reader in the words of TOML.
fn in_words(message: &str) -> String {
    let words = [
        ("a sequence", "a list"),
        ("a map", "a table"),
        ("map,", "a table,"),
        ("sequence,", "a list,"),
        ("u64", "a number"),
        ("u32", "a number"),
        ("u16", "a number"),
        ("f64", "a number"),
        ("unknown variant", "unknown value"),
    ];
    let mut text = words.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to));
    // Every row has these two, too.
    if text.starts_with("unknown field") && text.contains("expected ") {
        text.push_str(", `evidence`, `source`");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a value is a table, or a list of tables.
fn is_table(value: &Spanned<DeValue<'_>>) -> bool {
    match value.get_ref() {
        DeValue::Table(_) => true,
        DeValue::Array(rows) => rows.iter().all(|row| matches!(row.get_ref(), DeValue::Table(_))),
        _ => false,
    }
}

impl PlacedRows for Linter<'_> {
    /// The valid rows of a table; a row that is not valid is reported where its mistake is.
    fn table<R: Row>(&mut self) -> Vec<Placed<R>> {
        let mut out = Vec::new();
        for index in 0..self.files.len() {
            let file = &mut self.files[index];
            let (path, text) = (file.path, file.text);
            let value = file.document.as_mut().and_then(|document| document.get_mut(R::TABLE));
            let Some(value) = value.filter(|_| is_in(path, R::STEM)) else { continue };
            file.read.insert(R::TABLE.to_owned());
            let span = value.span();
            // Each table is read once.
            let rows: Vec<Spanned<DeValue<'_>>> =
                match std::mem::replace(value.get_mut(), DeValue::Boolean(true)) {
                    DeValue::Array(rows) => rows.into_iter().collect(),
                    one => vec![Spanned::new(span, one)],
                };
            let lines: Vec<usize> = rows.iter().map(|row| file.line_of(row.span().start)).collect();
            let first = out.len();
            for (row, line) in rows.into_iter().zip(lines) {
                let start = row.span().start;
                match Cited::<R>::deserialize(ValueDeserializer::from(row)) {
                    Ok(row) => {
                        self.cite(path, line, &row.source);
                        for fault in row.problems() {
                            self.in_row(path, line, fault.key, fault.text);
                        }
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
