//! `setup.py` as a syntax tree: what it states, and whether that depends on the machine. It is never run.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::evaluate::{self, Argument};
use super::slice::{Slice, string, syntax_tree};
use crate::model::metadata::SourceRequirements;
use crate::model::requirement::parse_requirement;
use crate::model::text::{clean, requirement_name};

/// The arguments of `setup` that decide what is installed.
const DECIDING: [&str; 4] = ["install_requires", "extras_require", "version", "name"];

/// What a `setup.py` says.
#[derive(Debug, Default)]
pub(super) struct SetupPy {
    /// `name`, if it is a literal.
    pub name: Option<String>,
    /// `version`.
    pub version: Argument<String>,
    /// `install_requires`.
    pub requires: Argument<Vec<String>>,
    /// `extras_require`.
    pub extras: Argument<SourceRequirements>,
    /// `python_requires`.
    pub requires_python: Argument<String>,
    /// Whether a plugin of setuptools may compute a version.
    pub may_have_plugins: bool,
    /// Files of the tree that it reads and that were not given.
    pub wanted: BTreeSet<String>,
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
    /// Whether it certainly passes no requirements: no word of the whole file could be one.
    pub requires_nothing: bool,
    /// Why what it states depends on the machine.
    doubt: Option<Doubt>,
    /// Requirements that it states for Python 2 only.
    python2: Vec<String>,
}

/// Why what a file states depends on the machine.
#[derive(Debug)]
struct Doubt {
    /// Whether it is the version alone that does, as far as is known.
    is_of_version: bool,
    /// In words.
    text: String,
}

impl Doubt {
    fn of(text: impl Into<String>) -> Option<Doubt> {
        Some(Doubt { is_of_version: false, text: text.into() })
    }
}

impl SetupPy {
    /// Parses the text. Syntax errors (a `print` statement of Python 2) affect only what contains them.
    pub fn parse(text: &str, files: evaluate::Files<'_>, has_module: &dyn Fn(&str) -> bool) -> SetupPy {
        // Python reads lines of Windows as others.
        let text = text.replace("\r\n", "\n");
        let text = text.as_str();
        let mut out = SetupPy { text: text.to_owned(), may_have_plugins: true, ..SetupPy::default() };
        let tree = syntax_tree(text);
        let slice = tree.as_ref().and_then(|tree| Slice::new(tree.root_node(), text));
        let Some(slice) = slice else {
            out.doubt = Doubt::of("it is too large or too deeply nested to follow");
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
            out.doubt = Doubt::of("it calls `setup` by another name");
        }
        if text.contains("distribution.install_requires") {
            out.doubt = Doubt::of("a class of its own computes them");
        }
        for call in &calls {
            out.doubt = out.doubt.or_else(|| {
                let taint = slice.guards(*call)?;
                Doubt::of(format!("which `setup` is called depends on {taint}"))
            });
            for (key, value) in slice.arguments(*call, &DECIDING) {
                let is_strict = key.is_none_or(|key| ["install_requires", "extras_require"].contains(&key));
                let found = slice.depends_on(value, is_strict, &mut python2);
                let what = key.map_or("what it passes as `**`".to_owned(), |key| format!("`{key}`"));
                out.doubt = out.doubt.or_else(|| {
                    let text = format!("{what} depends on {}", found?);
                    Some(Doubt { is_of_version: key == Some("version"), text })
                });
            }
        }
        out.requires_nothing = !calls.is_empty() && !names_requirements(text, &slice, has_module);
        out.python2 =
            python2.iter().map(|text| requirement_name(text)).filter(|name| !name.is_empty()).collect();
        if let [call] = calls.as_slice() {
            let argument = |key| slice.arguments(*call, &[key]).into_iter().next().map(|(_, value)| value);
            let literal = |key| string(slice.literal(argument(key)?)?, text);
            out.setup_requires =
                argument("setup_requires").and_then(|node| strings(&slice, text, node)).unwrap_or_default();
            out.name = literal("name");
            let plain = argument("version").and_then(|value| string(value, text));
            out.version = plain.map_or(Argument::Unknown, Argument::Known);
        }
        if let Some(tree) = &tree {
            out.evaluate(tree.root_node(), files, has_module);
        }
        // A list that stands there is what it is, whatever else cannot be followed.
        if let ([call], None, Argument::Unknown) = (calls.as_slice(), &out.doubt, &out.requires)
            && !COMPUTING.iter().any(|word| text.contains(word))
        {
            let argument = |key| slice.arguments(*call, &[key]).into_iter().next();
            // A name may stand for a list that is changed later.
            let is_list = |value: &Node<'_>| ["list", "tuple"].contains(&value.kind());
            let stated = argument("install_requires").filter(|(key, value)| key.is_some() && is_list(value));
            let lines = stated.and_then(|(_, value)| strings(&slice, text, value));
            if let Some(lines) =
                lines.filter(|lines| lines.iter().all(|line| parse_requirement(line).is_ok()))
            {
                out.requires = Argument::Known(lines);
                if argument("extras_require").is_none() {
                    out.extras = Argument::Absent;
                }
                if argument("python_requires").is_none() {
                    out.requires_python = Argument::Absent;
                }
            }
        }
        out
    }

    /// Notes what it passes to `setup`, as far as that is the same on every machine.
    fn evaluate(&mut self, root: Node<'_>, files: evaluate::Files<'_>, has_module: &dyn Fn(&str) -> bool) {
        let text = self.text.clone();
        let passed = evaluate::setup(root, &text, files, has_module);
        if let Argument::Known(name) = passed.text("name") {
            self.name = Some(name);
        }
        // A command, class or plugin of its own may write other metadata than the arguments state.
        let others = [
            "egg_info",
            "dist_info",
            "istribution",
            "distclass",
            "options",
            "pbr",
            "def setup",
            "setup =",
            "setup=",
            "as setup",
        ];
        // `stale_egg_info` is a name of the script's own.
        let stands = |word: &str| text.match_indices(word).any(|(at, _)| !text[..at].ends_with('_'));
        let is_changed = others.into_iter().any(stands);
        if is_changed {
            self.version = Argument::Unknown;
        }
        if !is_changed {
            match passed.text("version") {
                Argument::Unknown => {}
                version => self.version = version,
            }
            self.requires = passed.requires();
            self.extras = passed.extras();
            self.requires_python = passed.text("python_requires");
        }
        let is_absent = |key| passed.text(key) == Argument::Absent;
        self.may_have_plugins =
            is_changed || !["setup_requires", "use_scm_version"].into_iter().all(is_absent);
        self.wanted = passed.wanted;
    }

    /// Why the requirements that were published need not be those that a build here writes.
    pub fn doubt(&self, published: &[String]) -> Option<String> {
        if !published.is_empty() && self.version != Argument::Unknown && self.passes(published) {
            return None;
        }
        if self.requires_nothing && published.is_empty() && !self.computes_version() {
            return None;
        }
        if let Some(doubt) = &self.doubt {
            return Some(format!("its setup.py computes them: {}", clean(&doubt.text, 160)));
        }
        let unconditional = published.iter().filter(|line| !line.contains(';'));
        let of_python2 =
            unconditional.map(|line| requirement_name(line)).find(|name| self.python2.contains(name))?;
        Some(format!("they were published with Python 2 (`{}`)", clean(&of_python2, 60)))
    }

    /// Whether a build on another day or machine may have another version.
    fn computes_version(&self) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| doubt.is_of_version) && self.version == Argument::Unknown
    }

    /// Whether it passes exactly these requirements to `setup`, on every machine.
    fn passes(&self, published: &[String]) -> bool {
        let (Argument::Known(lines), extras) = (&self.requires, &self.extras) else { return false };
        let of_extras: &[String] = match extras {
            Argument::Known(extras) => &extras.lines,
            Argument::Absent => &[],
            Argument::Unknown => return false,
        };
        let meaning = |line: &String| {
            let mut requirement = parse_requirement(line).ok()?;
            requirement.extras.sort();
            Some(requirement.to_string())
        };
        let sorted = |lines: &mut dyn Iterator<Item = &String>| -> Option<BTreeSet<String>> {
            lines.map(meaning).collect()
        };
        let own = sorted(&mut lines.iter().chain(of_extras));
        own.is_some() && own == sorted(&mut published.iter())
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

/// What writes other metadata than the arguments of `setup` state: a command, class or plugin of its own.
const COMPUTING: [&str; 10] = [
    "distclass",
    "egg_info",
    "dist_info",
    ".distribution",
    "pbr",
    "pyscaffold",
    "d2to1",
    "exec(",
    "execfile",
    "eval(",
];

/// Whether a file can pass requirements to `setup`: it has a word for them, or takes the names of arguments from elsewhere.
/// Without both, it passes none, whatever else it computes.
fn names_requirements(text: &str, slice: &Slice<'_>, has_module: &dyn Fn(&str) -> bool) -> bool {
    // `self.distribution.ext_modules` and a class in the file have no word for them either.
    let computes = |word: &&&str| !["distclass", ".distribution"].contains(word);
    let words = ["install_requires", "extras_require", "requires_dist", "requires.txt", "requirements"];
    let is_of_tree = |name: &str| name.starts_with('.') || has_module(name.split('.').next().unwrap_or(name));
    let modules = || slice.imports().into_iter().map(|(name, _)| name);
    words.iter().chain(COMPUTING.iter().filter(computes)).any(|word| text.contains(word))
        || ["**", "distclass"].iter().any(|word| text.contains(word))
            && modules().any(|name| {
                let first = name.split('.').next().unwrap_or(&name).to_owned();
                is_of_tree(&name)
                    || ["json", "yaml", "toml", "tomllib", "configparser"].contains(&first.as_str())
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
