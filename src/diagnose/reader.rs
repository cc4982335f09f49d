//! Reads facts from a text, line by line. Skips irrelevant lines, strips colours and prefixes, masks secrets.

use std::collections::BTreeMap;

use super::cause::MAX_EVIDENCE_TEXT;
use super::facts::{Event, Fact, Facts, Said};
use super::fields;
use super::mention;
use super::traceback::{Told, Traceback, series_of_torch};
use super::unexplained;
use super::wrapping;
use crate::model::secrets::masked;
use crate::model::text::clean;
use crate::model::version::DottedVersion;

/// The maximum length of a line in bytes; the rest is ignored, because it is usually data.
pub const MAX_LINE: usize = 4_096;
/// The maximum length of a line of which the parts are read: those of a JSON record, and the states of a progress bar.
pub const MAX_LONG_LINE: usize = 1 << 20;
/// The maximum number of lines kept as evidence for one rule.
const MAX_EVENTS_PER_RULE: u32 = 20;

/// How many lines an error is below the import statement that raised it: Python marks the place in between.
const STATEMENT_REACH: usize = 3;
/// How many lines an error is below the last frame of its traceback, which shows the code and marks.
const FRAME_REACH: usize = 6;
/// The maximum number of lines that are read as one line which was broken to fit a terminal.
const MAX_BROKEN: usize = 3;
/// How much deeper, in columns, the rest of a broken line is indented, where the line means something without it.
const DEEPER: usize = 4;
/// The lengths in bytes of a line that may have been broken.
const BROKEN_LENGTHS: std::ops::RangeInclusive<usize> = 40..=160;

/// The maximum number of error lines kept that match no rule.
const MAX_UNEXPLAINED: usize = 3;

/// An expression in an interactive Python session.
#[derive(Debug, Clone, Copy)]
enum Expression {
    /// `torch.cuda.is_available()`
    Available,
    /// `torch.__version__`
    Torch,
    /// `torch.version.cuda`
    TorchCuda,
    /// `torch.cuda.get_device_name(0)`
    Gpu,
}

impl Expression {
    fn of(lower: &str) -> Option<Expression> {
        // At the end of a session's line, or of `python -c "..."`.
        let asked = lower.trim_end().trim_end_matches([')', '"', '\'']);
        if asked.ends_with("is_available(") {
            Some(Expression::Available)
        } else if asked.ends_with("torch.__version__") {
            Some(Expression::Torch)
        } else if asked.ends_with("torch.version.cuda") {
            Some(Expression::TorchCuda)
        } else if asked.ends_with("get_device_name(0") || asked.ends_with("get_device_name(") {
            Some(Expression::Gpu)
        } else {
            None
        }
    }
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It reports nothing.
    Described,
    /// A rule matches it.
    Explained,
    /// It reports an error, and no rule matches it.
    Unexplained,
}

/// Reads lines one after another.
pub struct Reader<'r> {
    rules: &'r super::Matcher,
    facts: Facts,
    line: usize,
    /// The interactive expression on the line before.
    asked: Option<Expression>,
    /// The number of matching lines of each rule.
    seen: BTreeMap<usize, u32>,
    /// The line in lower case.
    lower: Vec<u8>,
    /// The lines before, joined, if the text may have been broken there to fit a terminal.
    broken: String,
    /// The number of lines in `broken`.
    broken_lines: usize,
    /// The events of the line in `broken`, if rules match it: an indented line after it may be its rest.
    open_events: std::ops::Range<usize>,
    /// The columns that the line in `broken` is indented by.
    indent: usize,
    /// The last import statement of a traceback, and its line.
    statement: (usize, String),
    /// The last installed module of a traceback, and its line.
    frame: (usize, String),
    /// The modules of the traceback.
    traceback: Traceback,
    /// What the line is.
    state: State,
}

impl<'r> Reader<'r> {
    /// A reader that uses a matcher.
    pub fn new(rules: &'r super::Matcher) -> Reader<'r> {
        Reader {
            rules,
            facts: Facts::default(),
            line: 0,
            asked: None,
            seen: BTreeMap::new(),
            lower: Vec::new(),
            broken: String::new(),
            broken_lines: 0,
            open_events: 0..0,
            indent: 0,
            statement: (0, String::new()),
            frame: (0, String::new()),
            traceback: Traceback::default(),
            state: State::Described,
        }
    }

    /// Reads a line, given without its line ending.
    pub fn line(&mut self, raw: &[u8]) {
        self.line += 1;
        if raw.len() <= MAX_LINE {
            return self.part(raw);
        }
        self.facts.has_other_lines |= raw.len() > MAX_LONG_LINE;
        let raw = &raw[..raw.len().min(MAX_LONG_LINE)];
        if raw.contains(&b'\r') {
            // A progress bar rewrites its line: what it printed last is an error, perhaps.
            for part in raw.split(|byte| *byte == b'\r') {
                self.part(part);
            }
        } else if let Some(texts) = wrapping::record(raw) {
            for text in texts {
                self.part(text.as_bytes());
            }
        } else {
            self.part(raw);
        }
    }

    /// Reads a line, or a part of a long one.
    fn part(&mut self, raw: &[u8]) {
        self.facts.has_other_lines |= raw.len() > MAX_LINE;
        let raw = &raw[..raw.len().min(MAX_LINE)];
        if let Some(question) = self.asked.take() {
            self.answer(question, raw);
        }
        self.lower.clear();
        self.lower.extend_from_slice(raw);
        self.lower.make_ascii_lowercase();
        if !self.facts.has_other_lines {
            self.facts.has_other_lines =
                !self.rules.descriptions.describes(&String::from_utf8_lossy(&self.lower));
        }
        // Most lines of a long log are irrelevant.
        let is_of_interest = self.rules.is_of_interest(&self.lower);
        if !is_of_interest && self.broken.is_empty() {
            return;
        }
        let decoded = String::from_utf8_lossy(raw);
        let text = if is_plain(&decoded) { decoded } else { plain(&decoded).into() };
        let pieces = wrapping::unwrapped(&text);
        self.state = State::Described;
        let events = self.facts.events.len();
        if is_of_interest {
            pieces.iter().for_each(|piece| self.piece(piece.trim()));
        }
        self.across(pieces.first().map_or("", |piece| piece), events);
    }

    /// Reads what a traceback says of the places that it came through.
    fn place_in_traceback(&mut self, line: &str) {
        if line.starts_with("import ") || line.starts_with("from ") {
            self.statement = (self.line, clean(line, 120));
        }
        if let Some(module) = installed_module(line) {
            self.frame = (self.line, clean(module, 60));
        }
        match self.traceback.read(line) {
            Some(Told::Python(series)) => self.facts.python = self.facts.python.take().or(Some(series)),
            Some(Told::Two(one, other)) if self.facts.two_pythons.is_none() => {
                self.facts.two_pythons = Some((one, other));
                let said = Said { line: self.line, text: masked(&clean(line, MAX_EVIDENCE_TEXT)) };
                self.facts.said.insert(Fact::TwoPythons, said);
            }
            _ => {}
        }
    }

    /// Reads a line as the rest of the lines before, if they may have been broken to fit a terminal. `events`: those before this line.
    fn across(&mut self, line: &str, events: usize) {
        let text = line.trim();
        let mut joined = std::mem::take(&mut self.broken);
        let open = std::mem::replace(&mut self.open_events, 0..0);
        let indent = std::mem::replace(&mut self.indent, indent_of(line));
        let is_rest = open.is_empty() || indent_of(line) >= indent + DEEPER && !text.starts_with("File \"");
        if !joined.is_empty() && !text.is_empty() && is_rest {
            let place = joined.to_lowercase().len();
            joined.push(' ');
            joined.push_str(text);
            let rules = self.rules.find_across(&joined.to_lowercase(), place);
            for event in &mut self.facts.events[open] {
                event.text = clean(&format!("{} {}", event.text, masked(text)), MAX_LINE);
            }
            if !rules.is_empty() {
                self.state = State::Explained;
                let line = self.line;
                self.facts.unexplained.retain(|said| said.line + MAX_BROKEN <= line);
                self.report(rules, &joined);
            }
        }
        if !may_be_broken(text) {
            return;
        }
        match self.state {
            State::Explained => {
                (self.broken, self.broken_lines) = (text.to_owned(), 1);
                self.open_events = events..self.facts.events.len();
            }
            State::Unexplained => (self.broken, self.broken_lines) = (text.to_owned(), 1),
            State::Described if joined.is_empty() || self.broken_lines + 1 == MAX_BROKEN => {}
            State::Described => (self.broken, self.broken_lines) = (joined, self.broken_lines + 1),
        }
    }

    /// Reads a line of the program.
    fn piece(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.place_in_traceback(text);
        let lower = text.to_lowercase();
        self.asked = Expression::of(&lower);
        let before = self.facts.known();
        let mut found = self.rules.find(&lower);
        if !found.rules.is_empty() && mention::is_mention(&lower) {
            // Not a report, but whoever writes of errors need not have a healthy machine.
            self.facts.complains = true;
            found.rules.clear();
        }
        if found.rules.is_empty() && unexplained::is_error(&lower) {
            self.state = State::Unexplained;
            self.unexplained(text);
        }
        self.facts.complains |= self.rules.is_complaint(&lower);
        self.report(found.rules, text);
        self.facts.surroundings.extend(found.surroundings);
        self.facts.extensions.extend(found.extensions);
        if self.facts.torch_pythons.len() < 2 {
            self.facts.torch_pythons.extend(series_of_torch(text));
        }
        let gpus = self.facts.gpus.len();
        if self.rules.is_gpu_alone(&lower) {
            fields::gpus::push_alone(text, &mut self.facts);
        }
        for cell in fields::listed::cells(text).into_iter().flatten() {
            if self.rules.is_gpu_alone(&cell.to_lowercase()) {
                fields::gpus::push_alone(cell, &mut self.facts);
            }
        }
        fields::read(text, &lower, &mut self.facts);
        let said = || Said { line: self.line, text: masked(&clean(text, MAX_EVIDENCE_TEXT)) };
        for name in self.facts.gpus.iter().skip(gpus) {
            self.facts.said_of_gpus.entry(name.clone()).or_insert_with(said);
        }
        for name in std::mem::take(&mut self.facts.new_packages) {
            let said = Said { line: self.line, text: masked(&clean(text, MAX_EVIDENCE_TEXT)) };
            self.facts.said_of.insert(name, said);
        }
        let new = self.facts.known() & !before;
        for fact in Fact::ALL.iter().filter(|fact| new >> **fact as u32 & 1 == 1) {
            let said = Said { line: self.line, text: masked(&clean(text, MAX_EVIDENCE_TEXT)) };
            self.facts.said.entry(*fact).or_insert(said);
        }
    }

    /// Keeps a line that matches rules.
    fn report(&mut self, rules: Vec<usize>, text: &str) {
        if !rules.is_empty() {
            self.state = State::Explained;
        }
        for rule in rules {
            let seen = self.seen.entry(rule).or_default();
            *seen += 1;
            if *seen <= MAX_EVENTS_PER_RULE {
                let (line, statement) = &self.statement;
                let is_above = self.line - line <= STATEMENT_REACH;
                let statement = if is_above { statement.clone() } else { String::new() };
                let (line, frame) = &self.frame;
                let is_above = self.line - line <= FRAME_REACH;
                let frame = if is_above { frame.clone() } else { String::new() };
                // What is shown is cut; what is judged is not.
                let text = masked(&clean(text, MAX_LINE));
                self.facts.events.push(Event { rule, line: self.line, text, statement, frame });
            }
        }
    }

    /// Keeps an error line that no rule explains.
    fn unexplained(&mut self, text: &str) {
        let said = Said { line: self.line, text: masked(&clean(text, MAX_EVIDENCE_TEXT)) };
        // The last one is often the one that ended the program.
        self.facts.unexplained.truncate(MAX_UNEXPLAINED - 1);
        self.facts.unexplained.push(said);
    }

    /// Reads the result of an interactive expression, which is on the next line.
    fn answer(&mut self, question: Expression, raw: &[u8]) {
        let text = String::from_utf8_lossy(raw.trim_ascii()).trim_matches(['\'', '"']).to_owned();
        let (fact, is_new) = match question {
            Expression::Available if self.facts.available.is_none() => {
                // A comment may follow: `False  # why?`
                self.facts.available = match text.split(' ').next().unwrap_or_default() {
                    "True" => Some(true),
                    "False" => Some(false),
                    _ => None,
                };
                (Fact::Available, self.facts.available.is_some())
            }
            Expression::Torch if self.facts.torch.is_none() => {
                self.facts.torch = text.parse::<pep440_rs::Version>().is_ok().then(|| clean(&text, 60));
                (Fact::Torch, self.facts.torch.is_some())
            }
            Expression::TorchCuda if self.facts.torch_cuda.is_none() => {
                let is_release = text.split('.').count() == 2 && text.parse::<DottedVersion>().is_ok();
                self.facts.torch_cuda =
                    (text == "None").then(String::new).or(is_release.then_some(text.clone()));
                (Fact::TorchCuda, self.facts.torch_cuda.is_some())
            }
            Expression::Gpu => {
                fields::gpus::push_answer(&text, &mut self.facts);
                (Fact::Gpu, !self.facts.gpus.is_empty())
            }
            Expression::Available | Expression::Torch | Expression::TorchCuda => return,
        };
        if is_new {
            self.facts.said.insert(fact, Said { line: self.line, text: clean(&text, 60) });
        }
    }

    /// Returns the facts of all lines.
    pub fn finish(mut self) -> Facts {
        // Warnings name the file that warns, without a traceback.
        let of_torch = &mut self.facts.torch_pythons;
        if self.facts.python.is_none() && of_torch.len() == 1 {
            self.facts.python = of_torch.pop_first();
        }
        self.facts
    }
}

/// The module of an installed package in a path: `vllm` of `/opt/lib/python3.12/site-packages/vllm/config.py`.
fn installed_module(line: &str) -> Option<&str> {
    let folders = ["site-packages", "dist-packages"];
    let (at, folder) = folders.iter().filter_map(|name| Some((line.rfind(name)?, name))).max()?;
    let rest = line[at + folder.len()..].trim_start_matches(['/', '\\']);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

/// The columns that a line is indented by; a tab has four.
fn indent_of(line: &str) -> usize {
    let spaces = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    spaces.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// Whether a line may go on in the next one: it is about as long as a terminal is wide, and ends in a word.
fn may_be_broken(line: &str) -> bool {
    let ends_in_word = line.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | ':' | '\'' | '`'));
    ends_in_word && BROKEN_LENGTHS.contains(&line.len())
}

/// Whether [`plain`] would leave a line unchanged.
fn is_plain(line: &str) -> bool {
    line.bytes().all(|b| (0x20..0x7f).contains(&b)) && !line.contains(" | ")
}

/// A line without colours, full-width punctuation and the prefixes of log collectors.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // CSI sequences: ESC [ ... letter.
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
                }
            }
            '：' => out.push(':'),
            '，' => out.push(','),
            '（' => out.push('('),
            '）' => out.push(')'),
            '\u{3000}' | '\u{a0}' | '\t' => out.push(' '),
            c if c.is_control() && c != '\r' => {}
            c => out.push(c),
        }
    }
    // `web-1  | Traceback ...` of docker compose.
    match out.split_once(" | ") {
        Some((name, rest)) if name.len() < 40 && !name.starts_with('|') && !name.trim().contains(' ') => {
            rest.to_owned()
        }
        _ => out,
    }
}
