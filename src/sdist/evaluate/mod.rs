//! What a `setup.py` passes to `setup`, by evaluating the part of Python that needs nothing but the source tree: texts,
//! lists, dictionaries, files of the tree, functions of the file. Nothing runs.
//!
//! Whatever else there is (the environment, the platform, installed packages, child processes) is an unknown value, and
//! so is all that it may have changed: in a branch on an unknown condition every name that is bound, and every list that
//! is mentioned, is unknown from then on. So a value that is known is the same on every machine.

mod call;
mod effects;
mod expression;
mod flow;
mod forget;
mod path;
mod plain;
mod statement;
#[cfg(test)]
mod tests;
mod value;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tree_sitter::Node;

use super::slice::{descendants, string, syntax_tree};
use crate::model::metadata::SourceRequirements;
pub(super) use path::inside;
use value::Value;

/// Maximum number of syntax nodes that are evaluated, repetitions included.
const MAX_STEPS: usize = 100_000;
/// Maximum depth of expressions, statements and calls.
const MAX_DEPTH: usize = 120;
/// Maximum size of a text or list, in bytes and items.
const MAX_SIZE: usize = 1 << 20;

/// The texts of the files of a tree, by path.
pub(super) type Files<'f> = &'f dyn Fn(&str) -> Option<&'f str>;

/// What is passed to `setup`.
#[derive(Debug, Default)]
pub(super) struct Passed {
    arguments: BTreeMap<String, Value>,
    /// Whether all arguments have a name: there is no `**` of an unknown dictionary.
    is_whole: bool,
    /// The files of the tree that it reads and that were not given.
    pub wanted: BTreeSet<String>,
}

/// One argument of `setup`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Argument<T> {
    Known(T),
    /// It is not passed.
    Absent,
    #[default]
    Unknown,
}

impl<T> Argument<T> {
    fn of(value: Option<T>) -> Argument<T> {
        value.map_or(Argument::Unknown, Argument::Known)
    }
}

impl Passed {
    /// What is empty counts as absent: setup.cfg takes its place.
    fn get(&self, key: &str) -> Argument<&Value> {
        match self.arguments.get(key) {
            Some(value) => match value.is_true() {
                Some(true) => Argument::Known(value),
                Some(false) => Argument::Absent,
                None => Argument::Unknown,
            },
            None if self.is_whole => Argument::Absent,
            None => Argument::Unknown,
        }
    }

    /// A text: `name`, `version`.
    pub fn text(&self, key: &str) -> Argument<String> {
        match self.get(key) {
            Argument::Absent => Argument::Absent,
            Argument::Known(Value::Text(text)) => Argument::Known(text.clone()),
            _ => Argument::Unknown,
        }
    }

    /// `install_requires`.
    pub fn requires(&self) -> Argument<Vec<String>> {
        match self.get("install_requires") {
            Argument::Absent => Argument::Absent,
            Argument::Known(value) => Argument::of(requirement_lines(value)),
            Argument::Unknown => Argument::Unknown,
        }
    }

    /// `extras_require`: the lines with their extra, and the extras.
    pub fn extras(&self) -> Argument<SourceRequirements> {
        let entries = match self.get("extras_require") {
            Argument::Absent => return Argument::Absent,
            Argument::Known(value) => value.entries(),
            Argument::Unknown => return Argument::Unknown,
        };
        let Some(entries) = entries else { return Argument::Unknown };
        let mut out = SourceRequirements::default();
        for (key, value) in entries {
            let Some(lines) = requirement_lines(&value) else { return Argument::Unknown };
            out.add_extra(&key, &lines);
        }
        Argument::Known(out)
    }
}

/// Requirements as setuptools reads them: a text of lines, or a list of such texts, with comments.
fn requirement_lines(value: &Value) -> Option<Vec<String>> {
    let texts: Vec<String> = match value {
        Value::Text(text) => vec![text.clone()],
        Value::List(_) => value
            .items()?
            .into_iter()
            .map(|item| if let Value::Text(text) = item { Some(text) } else { None })
            .collect::<Option<_>>()?,
        _ => return None,
    };
    lines_of_requirements(&texts.join("\n"))
}

/// The requirements of a text; `None` if it has a line that is an option of pip.
pub(super) fn lines_of_requirements(text: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        match line {
            "" => {}
            line if line.starts_with('#') => {}
            line if line.starts_with('-') || line.ends_with('\\') => return None,
            line => out.push(line.to_owned()),
        }
    }
    Some(out)
}

/// Evaluates a `setup.py`.
pub(super) fn setup(
    root: Node<'_>,
    text: &str,
    files: Files<'_>,
    has_module: &dyn Fn(&str) -> bool,
) -> Passed {
    if !plain::is_plain(root, text, has_module) {
        return Passed::default();
    }
    let mut evaluator = Evaluator::new(text, files);
    evaluator.block(root);
    let wanted = evaluator.wanted;
    match evaluator.passed {
        Some(Some(passed)) => Passed { wanted, ..passed },
        _ => Passed { wanted, ..Passed::default() },
    }
}

/// The version that a module states: the only assignment of a name, at its top level, of a plain text. What reads it
/// takes the first assignment, or the last, or imports the module.
pub(super) fn attribute(text: &str, name: &str) -> Option<String> {
    let tree = syntax_tree(text).filter(|_| !text.contains(is_unusual))?;
    let of = |node: Node<'_>| &text[node.byte_range()];
    let named = descendants(tree.root_node()).filter(|node| node.kind() == "identifier" && of(*node) == name);
    let named: Vec<Node<'_>> = named.collect();
    let [only] = named.as_slice() else { return None };
    let assignment = only.parent().filter(|parent| parent.kind() == "assignment")?;
    let statement = assignment.parent()?;
    let is_at_top = statement.parent()?.kind() == "module";
    let is_left = assignment.child_by_field_name("left")?.id() == only.id();
    let lines = text.lines().filter(|line| line.trim_start().starts_with(name)).count();
    string(assignment.child_by_field_name("right")?, text).filter(|_| is_at_top && is_left && lines == 1)
}

/// The names of a call or comprehension.
#[derive(Default)]
struct Frame {
    names: HashMap<String, Value>,
    /// Whether names of the frames around it are not seen.
    is_function: bool,
}

/// The state of an evaluation.
struct Evaluator<'t, 'f> {
    text: &'t str,
    files: Files<'f>,
    globals: HashMap<String, Value>,
    /// The names of the functions that are being called, and of comprehensions, innermost last.
    locals: Vec<Frame>,
    functions: HashMap<usize, Node<'t>>,
    /// Functions that are not evaluated, and classes.
    opaque: HashSet<usize>,
    /// Whether any name may be another than the builtin.
    has_star_import: bool,
    /// Files that the script writes: what they contain is not what the tree has.
    written: BTreeSet<String>,
    /// Whether it may write any file.
    is_tree_unknown: bool,
    wanted: BTreeSet<String>,
    /// The arguments of `setup` once it was called; the inner is `None` if it was called twice, or perhaps.
    passed: Option<Option<Passed>>,
    steps: usize,
    depth: usize,
}

impl<'t, 'f> Evaluator<'t, 'f> {
    fn new(text: &'t str, files: Files<'f>) -> Evaluator<'t, 'f> {
        Evaluator {
            text,
            files,
            globals: HashMap::new(),
            locals: Vec::new(),
            functions: HashMap::new(),
            opaque: HashSet::new(),
            has_star_import: false,
            written: BTreeSet::new(),
            is_tree_unknown: false,
            wanted: BTreeSet::new(),
            passed: None,
            steps: 0,
            depth: 0,
        }
    }

    fn of(&self, node: Node<'t>) -> &'t str {
        &self.text[node.byte_range()]
    }

    /// Counts the work on a text or list of a size.
    fn charge(&mut self, size: usize) {
        self.steps += size / 64;
    }

    /// Counts a step; `false` where the limits are reached.
    fn may_go_on(&mut self) -> bool {
        self.steps += 1;
        self.steps < MAX_STEPS && self.depth < MAX_DEPTH
    }

    fn lookup(&self, name: &str) -> Option<Value> {
        for frame in self.locals.iter().rev() {
            if let Some(value) = frame.names.get(name) {
                return Some(value.clone());
            }
            if frame.is_function {
                break;
            }
        }
        self.globals.get(name).cloned()
    }

    fn bind(&mut self, name: &str, value: Value) {
        let names = self.locals.last_mut().map_or(&mut self.globals, |frame| &mut frame.names);
        names.insert(name.to_owned(), value);
    }

    /// The text of a file of the tree.
    fn read(&mut self, path: &str) -> Option<String> {
        if self.is_tree_unknown || self.written.contains(path) {
            return None;
        }
        match (self.files)(path) {
            // What Python decodes, strips or splits in another way.
            Some(text) if text.contains(is_unusual) => None,
            Some(text) => {
                self.charge(text.len());
                Some(text.replace("\r\n", "\n").replace('\r', "\n"))
            }
            None => {
                self.wanted.insert(path.to_owned());
                None
            }
        }
    }
}

/// Whether a character ends a line or is white space for Python and not here, or stands for bytes that are no text.
fn is_unusual(c: char) -> bool {
    matches!(
        c,
        '\u{b}' | '\u{c}' | '\u{1c}'
            ..='\u{1f}' | '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffd}'
    )
}
