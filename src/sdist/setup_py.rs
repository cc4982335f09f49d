//! `setup.py` as a syntax tree: what it states, and whether that depends on the machine. It is never run.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::published::Requirements;
use super::slice::{Slice, string};
use crate::model::text::{clean, requirement_name};

/// Maximum size of a `setup.py` that is followed, in bytes. flash-attn's, among the largest, has 60 kB.
const MAX_TEXT: usize = 512 << 10;
/// Maximum depth of brackets.
const MAX_BRACKETS: i32 = 150;
/// How long the parser may take: quadratic in some texts that are no Python.
const MAX_TIME: Duration = Duration::from_secs(3);
/// Maximum number of lines that continue the one before. The parser cannot be stopped among them.
const MAX_CONTINUATIONS: usize = 2000;
/// Maximum number of operators in a row. The parser cannot be stopped while it looks for an operand.
const MAX_OPERATORS: usize = 200;

/// The arguments of `setup` that decide what is installed.
const DECIDING: [&str; 4] = ["install_requires", "extras_require", "version", "name"];

/// What a `setup.py` says.
#[derive(Debug, Default)]
pub(super) struct SetupPy {
    /// `name`, if it is a literal.
    pub name: Option<String>,
    /// `version`, if it is a literal.
    pub version: Option<String>,
    /// `install_requires` and `extras_require`, if they are literals.
    pub stated: Option<Requirements>,
    /// `setup_requires`, if it is a literal: setuptools tells installers of it as a build requirement.
    pub setup_requires: Vec<String>,
    /// Whether it builds extension modules.
    pub has_extensions: bool,
    /// Whether it says that it stands for a package of another index.
    pub is_placeholder: bool,
    /// Whether it calls pip as a child process.
    pub calls_pip: bool,
    /// Its text.
    pub text: String,
    /// All modules that it imports; `true` for imports at the top level without a guard.
    imports: Vec<(String, bool)>,
    /// The dotted names that it certainly uses, each with its alternatives.
    pub uses: BTreeSet<Vec<String>>,
    /// Why what it states depends on the machine.
    doubt: Option<String>,
    /// Requirements that it states for Python 2 only.
    python2: Vec<String>,
}

impl SetupPy {
    /// Parses the text. Syntax errors (a `print` statement of Python 2) affect only what contains them.
    pub fn parse(text: &str) -> SetupPy {
        let mut out = SetupPy { text: text.to_owned(), ..SetupPy::default() };
        let tree = syntax_tree(text);
        let slice = tree.as_ref().and_then(|tree| Slice::new(tree.root_node(), text));
        let Some(slice) = slice else {
            out.doubt = Some("it is too large or too deeply nested to follow".to_owned());
            return out;
        };
        out.imports = slice.imports();
        out.uses = slice.certain_uses(&BTreeSet::new());
        out.calls_pip = slice.calls_pip();
        out.is_placeholder =
            ["nvidia-pyindex", "placeholder project", "ERROR.txt"].iter().any(|word| slice.says(word));
        let calls: Vec<Node<'_>> = slice.calls_of("setup").collect();
        out.has_extensions = ["ext_modules", "rust_extensions", "cffi_modules", "CMakeExtension"]
            .iter()
            .any(|word| text.contains(word));
        let mut python2 = Vec::new();
        if calls.is_empty() {
            out.doubt = Some("it calls `setup` by another name".to_owned());
        }
        if text.contains("distribution.install_requires") {
            out.doubt = Some("a class of its own computes them".to_owned());
        }
        for call in &calls {
            out.doubt = out.doubt.or_else(|| {
                let taint = slice.guards(*call)?;
                Some(format!("which `setup` is called depends on {taint}"))
            });
            for (key, value) in slice.arguments(*call, &DECIDING) {
                let is_strict = ["install_requires", "extras_require"].contains(&key);
                let found = slice.depends_on(value, is_strict, &mut python2);
                out.doubt = out.doubt.or_else(|| Some(format!("`{key}` depends on {}", found?)));
            }
        }
        out.python2 =
            python2.iter().map(|text| requirement_name(text)).filter(|name| !name.is_empty()).collect();
        if let [call] = calls.as_slice() {
            let argument = |key| slice.arguments(*call, &[key]).into_iter().next().map(|(_, value)| value);
            let literal = |key| string(slice.literal(argument(key)?)?, text);
            out.setup_requires =
                argument("setup_requires").and_then(|node| strings(&slice, text, node)).unwrap_or_default();
            out.name = literal("name");
            out.version = literal("version");
            let is_plain = ["**", "cmdclass", "pbr"].iter().all(|word| !slice.text_of(*call).contains(word));
            let is_used_once = |key| {
                argument(key).is_none_or(|value: Node<'_>| {
                    value.kind() != "identifier" || slice.uses(slice.text_of(value)) == 2
                })
            };
            let is_whole = is_plain && is_used_once("install_requires") && is_used_once("extras_require");
            if is_whole {
                out.stated = stated(&slice, text, argument("install_requires"), argument("extras_require"));
            }
            if let Some(stated) = &mut out.stated {
                stated.requires_python = literal("python_requires");
            }
        }
        out
    }

    /// Why the requirements that were published need not be those that a build here writes.
    pub fn doubt(&self, published: &[String]) -> Option<String> {
        if let Some(doubt) = &self.doubt {
            return Some(format!("its setup.py computes them: {}", clean(doubt, 160)));
        }
        let unconditional = published.iter().filter(|line| !line.contains(';'));
        let of_python2 =
            unconditional.map(|line| requirement_name(line)).find(|name| self.python2.contains(name))?;
        Some(format!("they were published with Python 2 (`{}`)", clean(&of_python2, 60)))
    }

    /// Whether it imports a module anywhere.
    pub fn imports(&self, module: &str) -> bool {
        self.imports.iter().any(|(name, _)| name.split('.').next() == Some(module))
    }

    /// The dotted names that running it certainly uses: its own, and those of the module `versioneer` beside it, of which
    /// it calls functions.
    pub fn uses_with(&self, versioneer: Option<&str>) -> BTreeSet<Vec<String>> {
        let mut out = self.uses.clone();
        let Some(text) = versioneer else { return out };
        let called = self.uses.iter().flatten().filter_map(|name| name.strip_prefix("versioneer."));
        let called: BTreeSet<String> = called.map(str::to_owned).collect();
        let tree = syntax_tree(text).filter(|_| !called.is_empty());
        if let Some(slice) = tree.as_ref().and_then(|tree| Slice::new(tree.root_node(), text)) {
            out.extend(slice.certain_uses(&called));
        }
        out
    }

    /// The modules that it imports at its top level without a guard, their first part, sorted.
    pub fn modules(&self) -> Vec<String> {
        let certain = self.imports.iter().filter(|(_, is_certain)| *is_certain);
        let mut out: Vec<String> =
            certain.filter_map(|(name, _)| name.split('.').next().map(str::to_owned)).collect();
        out.sort();
        out.dedup();
        out
    }
}

/// The syntax tree; `None` if the text is too large or takes too long to parse.
fn syntax_tree(text: &str) -> Option<Tree> {
    if text.len() > MAX_TEXT || nests_too_deeply(text) || is_no_python(text) {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_python::LANGUAGE.into()).ok()?;
    let start = Instant::now();
    let mut limit = |_: &ParseState| match start.elapsed() > MAX_TIME {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut limit);
    parser.parse_with_options(
        &mut |start, _| text.as_bytes().get(start..).unwrap_or_default(),
        None,
        Some(options),
    )
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

/// The lines of a list of requirements, or of one text, where it is a literal.
fn strings(slice: &Slice<'_>, text: &str, node: Node<'_>) -> Option<Vec<String>> {
    let node = slice.literal(node)?;
    if node.kind() == "string" {
        return Some(
            string(node, text)?.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect(),
        );
    }
    if !["list", "tuple"].contains(&node.kind()) {
        return None;
    }
    let mut cursor = node.walk();
    let items = node.named_children(&mut cursor).filter(|child| child.kind() != "comment");
    items.map(|item| string(item, text)).collect()
}

/// `install_requires` and `extras_require` where both are literals. A missing argument means none.
fn stated(
    slice: &Slice<'_>,
    text: &str,
    requires: Option<Node<'_>>,
    extras: Option<Node<'_>>,
) -> Option<Requirements> {
    let strings = |node| strings(slice, text, node);
    let mut out = Requirements::default();
    if let Some(requires) = requires {
        out.lines = strings(requires)?;
    }
    let Some(extras) = extras else { return Some(out) };
    let extras = slice.literal(extras)?;
    if extras.kind() != "dictionary" {
        return None;
    }
    let mut cursor = extras.walk();
    for pair in extras.named_children(&mut cursor).filter(|child| child.kind() != "comment") {
        let key = string(pair.child_by_field_name("key")?, text)?;
        // `extra`, `:marker` or `extra:marker`.
        let (extra, condition) = key.split_once(':').unwrap_or((&key, ""));
        let of_extra = (!extra.is_empty()).then(|| format!("extra == '{extra}'"));
        let condition = (!condition.is_empty()).then(|| format!("({condition})"));
        for line in strings(pair.child_by_field_name("value")?)? {
            let (line, own) = line.split_once(';').unwrap_or((&line, ""));
            let own = (!own.trim().is_empty()).then(|| format!("({})", own.trim()));
            let parts: Vec<String> =
                [own, condition.clone(), of_extra.clone()].into_iter().flatten().collect();
            let marker = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(" and ")) };
            out.lines.push(format!("{}{marker}", line.trim()));
        }
        out.extras.extend((!extra.is_empty()).then(|| extra.to_owned()));
    }
    Some(out)
}
