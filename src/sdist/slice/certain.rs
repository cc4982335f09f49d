//! What a file certainly uses when it runs: imports and dotted names that no condition guards.

use std::collections::{BTreeSet, HashMap, HashSet};

use tree_sitter::Node;

use super::Slice;
use super::syntax::{descendants, own_descendants, string};

/// Maximum number of names, and the maximum length of one in bytes. Real files have about 30.
const MAX_NAMES: usize = 500;
const MAX_NAME: usize = 80;

/// Syntax that always runs if what is around it runs.
const UNGUARDED: [&str; 23] = [
    "argument_list",
    "as_pattern",
    "assignment",
    "attribute",
    "augmented_assignment",
    "binary_operator",
    "block",
    "call",
    "dictionary",
    "dictionary_splat",
    "expression_statement",
    "keyword_argument",
    "list",
    "list_splat",
    "module",
    "pair",
    "parenthesized_expression",
    "return_statement",
    "subscript",
    "tuple",
    "with_clause",
    "with_item",
    "with_statement",
];

/// What changed in Python that is no name. The words stand in the registry.
const LOCALS_AFTER_EXEC: &str = "locals() after exec()";
const OPEN_WITH_MODE_U: &str = "open() with mode U";

impl<'t> Slice<'t> {
    /// The dotted names that are certainly used, each with the names that it may have instead: a module that is
    /// imported in one of two ways has two. `entered` are the functions that a caller of the file calls.
    pub fn certain_uses(&self, entered: &BTreeSet<String>) -> BTreeSet<Vec<String>> {
        let runs = self.running(entered);
        let is_certain =
            |node: Node<'t>| self.scope_that_runs(node).is_some_and(|scope| runs.contains(&scope));
        let mut out = BTreeSet::new();
        for node in descendants(self.root) {
            if out.len() >= MAX_NAMES {
                break;
            }
            match node.kind() {
                "import_statement" | "import_from_statement" if is_certain(node) => {
                    out.extend(self.imported_by(node).into_iter().map(|name| vec![name]));
                }
                "attribute" if is_certain(node) => out.extend(self.names_of(node)),
                "call" if self.opens_with_mode_u(node) && is_certain(node) => {
                    out.insert(vec![OPEN_WITH_MODE_U.to_owned()]);
                }
                "call" if self.reads_locals_after_exec(node) && is_certain(node) => {
                    out.insert(vec![LOCALS_AFTER_EXEC.to_owned()]);
                }
                _ => {}
            }
        }
        out.retain(|names| names.iter().all(|name| name.len() <= MAX_NAME));
        out
    }

    /// The scopes that run: the module, the functions that are `entered`, and those that these certainly call.
    fn running(&self, entered: &BTreeSet<String>) -> HashSet<usize> {
        let mut functions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (id, function) in &self.functions {
            let name = function.child_by_field_name("name").map(|name| self.of(name));
            if let Some(name) = name.filter(|_| self.scope_that_runs(*function).is_some()) {
                functions.entry(name).or_default().push(*id);
            }
        }
        let mut called: HashMap<usize, Vec<&str>> = HashMap::new();
        for call in descendants(self.root).filter(|node| node.kind() == "call") {
            let name = call.child_by_field_name("function").map(|function| self.of(function));
            if let (Some(name), Some(scope)) = (name, self.scope_that_runs(call)) {
                called.entry(scope).or_default().push(name);
            }
        }
        let named = |name: &str| functions.get(name).into_iter().flatten().copied();
        let mut queue: Vec<usize> = entered.iter().flat_map(|name| named(name)).collect();
        queue.push(self.root.id());
        let mut out = HashSet::new();
        while let Some(scope) = queue.pop() {
            if out.insert(scope) {
                queue.extend(called.remove(&scope).into_iter().flatten().flat_map(named));
            }
        }
        out
    }

    /// The function, or else the module, whose body always runs a node; `None` if it may be left out.
    fn scope_that_runs(&self, node: Node<'t>) -> Option<usize> {
        let mut child = node;
        while let Some(parent) = child.parent() {
            match parent.kind() {
                "module" => return Some(parent.id()),
                "function_definition" => {
                    let is_body = parent.child_by_field_name("body").is_some_and(|b| b.id() == child.id());
                    let end = self.first_returns.get(&parent.id());
                    let is_before = end.is_none_or(|end| node.start_byte() < *end);
                    return (is_body && is_before).then_some(parent.id());
                }
                "if_statement" => {
                    let condition = parent.child_by_field_name("condition")?;
                    let is_main = self.of(condition).contains("__main__");
                    let is_first =
                        parent.child_by_field_name("consequence").is_some_and(|c| c.id() == child.id());
                    if !(is_main && is_first || condition.id() == child.id()) {
                        return None;
                    }
                }
                "with_statement" => {
                    let heading = self.of(parent).lines().next().unwrap_or_default();
                    if heading.contains("suppress") {
                        return None;
                    }
                }
                kind if UNGUARDED.contains(&kind) => {}
                _ => return None,
            }
            child = parent;
        }
        None
    }

    /// The modules and names that an import statement imports.
    fn imported_by(&self, statement: Node<'t>) -> Vec<String> {
        let module = statement.child_by_field_name("module_name").map(|module| self.of(module));
        let mut cursor = statement.walk();
        let names = statement.children_by_field_name("name", &mut cursor);
        let paths = names.map(|name| self.of(name.child_by_field_name("name").unwrap_or(name)));
        let mut out: Vec<String> = paths
            .map(|path| module.map_or_else(|| path.to_owned(), |module| format!("{module}.{path}")))
            .collect();
        // `from module import *`
        out.extend(module.filter(|_| out.is_empty()).map(str::to_owned));
        out
    }

    /// The dotted names that an attribute of an imported module may have.
    fn names_of(&self, attribute: Node<'t>) -> Option<Vec<String>> {
        let is_inner = attribute.parent().is_some_and(|parent| parent.kind() == "attribute");
        let (base, rest) = self.dotted(attribute).filter(|_| !is_inner)?;
        // A parameter or a variable of the same name is no module.
        let scope = self.scope(attribute);
        let is_else = self.parameters.contains(&(scope, base)) || !self.bound(base, scope).is_empty();
        let modules = self.imported.get(base).filter(|_| !is_else)?;
        Some(modules.iter().map(|module| format!("{module}.{rest}")).collect())
    }

    /// `open(path, 'rU')`
    fn opens_with_mode_u(&self, call: Node<'t>) -> bool {
        let field = |name| call.child_by_field_name(name);
        let (Some(function), Some(arguments)) = (field("function"), field("arguments")) else { return false };
        if !["open", "io.open", "codecs.open"].contains(&self.of(function)) {
            return false;
        }
        let mode = arguments.named_child(1).and_then(|mode| match mode.kind() {
            "keyword_argument" if mode.child_by_field_name("name").map(|n| self.of(n)) == Some("mode") => {
                mode.child_by_field_name("value")
            }
            "keyword_argument" => None,
            _ => Some(mode),
        });
        mode.and_then(|mode| string(mode, self.text)).is_some_and(|mode| mode.contains('U'))
    }

    /// `exec(text)` in a function, and `locals()['name']` after it.
    fn reads_locals_after_exec(&self, call: Node<'t>) -> bool {
        let is_call_of = |node: Node<'t>, name: &str, arguments: usize| {
            let field = |field| node.child_by_field_name(field);
            node.kind() == "call"
                && field("function").is_some_and(|function| self.of(function) == name)
                && field("arguments").is_some_and(|found| found.named_child_count() == arguments)
        };
        if !is_call_of(call, "exec", 1) {
            return false;
        }
        let Some(function) = self.functions.get(&self.scope(call)) else { return false };
        let is_read = |node: Node<'t>| {
            is_call_of(node, "locals", 0)
                && node.parent().is_some_and(|parent| parent.kind() == "subscript")
                && self.scope_that_runs(node).is_some()
        };
        own_descendants(*function).any(|node| node.start_byte() > call.end_byte() && is_read(node))
    }
}
