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

/// What the names of a file may stand for beside what it imports.
#[derive(Default)]
struct Names<'t> {
    /// How often a name is bound in any scope: variables, functions, classes, parameters.
    bound: HashMap<&'t str, usize>,
    /// Attributes that are assigned, and objects whose attributes `setattr` sets.
    patched: HashSet<&'t str>,
    /// Whether it puts other modules into `sys.modules`.
    replaces_modules: bool,
}

impl<'t> Slice<'t> {
    /// The dotted names that are certainly used, each with the names that it may have instead: a module that is
    /// imported in one of two ways has two. `entered` are the functions that a caller of the file calls.
    pub fn certain_uses(&self, entered: &BTreeSet<String>) -> BTreeSet<Vec<String>> {
        let names = self.names();
        let mut out = BTreeSet::new();
        if names.replaces_modules {
            return out;
        }
        let runs = self.running(entered, &names);
        let reads = self.reads_of_locals();
        let is_certain =
            |node: Node<'t>| self.scope_that_runs(node).is_some_and(|scope| runs.contains(&scope));
        for node in descendants(self.root) {
            if out.len() >= MAX_NAMES {
                break;
            }
            match node.kind() {
                "import_statement" | "import_from_statement" if is_certain(node) => {
                    out.extend(self.imported_by(node).into_iter().map(|name| vec![name]));
                }
                "attribute" if is_certain(node) => out.extend(self.names_of(node, &names)),
                "call" if self.opens_with_mode_u(node, &names) && is_certain(node) => {
                    out.insert(vec![OPEN_WITH_MODE_U.to_owned()]);
                }
                "call" if self.is_call_of(node, "exec", 1) && is_certain(node) => {
                    let is_read = reads.get(&self.scope(node)).is_some_and(|last| *last > node.end_byte());
                    out.extend(is_read.then(|| vec![LOCALS_AFTER_EXEC.to_owned()]));
                }
                _ => {}
            }
        }
        out.retain(|names| names.iter().all(|name| name.len() <= MAX_NAME));
        out
    }

    /// What the names of the file stand for.
    fn names(&self) -> Names<'t> {
        let mut out = Names::default();
        for ((_, name), bindings) in &self.bindings {
            *out.bound.entry(*name).or_default() += bindings.len();
        }
        for (_, name) in &self.parameters {
            *out.bound.entry(*name).or_default() += 1;
        }
        for node in descendants(self.root) {
            let field = |name| node.child_by_field_name(name);
            match node.kind() {
                "class_definition" => {
                    let name = field("name").map(|name| self.of(name));
                    *out.bound.entry(name.unwrap_or_default()).or_default() += 1;
                }
                "assignment" => {
                    let Some(left) = field("left") else { continue };
                    match left.kind() {
                        "attribute" => out.patched.extend([self.of(left)]),
                        "subscript" if self.of(left).starts_with("sys.modules") => {
                            out.replaces_modules = true;
                        }
                        _ => {}
                    }
                }
                "call" => {
                    let function = field("function").map(|function| self.of(function)).unwrap_or_default();
                    match function {
                        "setattr" => {
                            let object = field("arguments").and_then(|arguments| arguments.named_child(0));
                            out.patched.extend(object.map(|object| self.of(object)));
                        }
                        "sys.modules.setdefault" | "sys.modules.update" => out.replaces_modules = true,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// The scopes that run: the module, the functions that are `entered`, and those that these certainly call. A name
    /// that may be something else than its only function is not followed.
    fn running(&self, entered: &BTreeSet<String>, names: &Names<'t>) -> HashSet<usize> {
        let mut functions: HashMap<&str, usize> = HashMap::new();
        for (id, function) in &self.functions {
            let name = function.child_by_field_name("name").map(|name| self.of(name)).unwrap_or_default();
            let is_only = names.bound.get(name) == Some(&1) && !self.imported.contains_key(name);
            let is_async = self.of(*function).starts_with("async");
            let is_generator = own_descendants(*function).any(|node| node.kind() == "yield");
            if is_only && !is_async && !is_generator && self.scope_that_runs(*function).is_some() {
                functions.insert(name, *id);
            }
        }
        let mut called: HashMap<usize, Vec<usize>> = HashMap::new();
        for call in descendants(self.root).filter(|node| node.kind() == "call") {
            let name = call.child_by_field_name("function").map(|function| self.of(function));
            let function = name.and_then(|name| functions.get(name));
            if let (Some(function), Some(scope)) = (function, self.scope_that_runs(call)) {
                called.entry(scope).or_default().push(*function);
            }
        }
        let mut queue: Vec<usize> =
            entered.iter().filter_map(|name| functions.get(name.as_str())).copied().collect();
        queue.push(self.root.id());
        let mut out = HashSet::new();
        while let Some(scope) = queue.pop() {
            if out.insert(scope) {
                queue.extend(called.remove(&scope).into_iter().flatten());
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
                    let is_main = self.is_main(condition);
                    let is_first =
                        parent.child_by_field_name("consequence").is_some_and(|c| c.id() == child.id());
                    if !(is_main && is_first || condition.id() == child.id()) {
                        return None;
                    }
                }
                // Another context manager may end its body without an error.
                "with_statement" if !self.only_opens(parent) => return None,
                kind if UNGUARDED.contains(&kind) => {}
                _ => return None,
            }
            child = parent;
        }
        None
    }

    /// `__name__ == '__main__'`, which holds where setuptools runs the file.
    fn is_main(&self, condition: Node<'t>) -> bool {
        let text = self.of(condition).replace('"', "'");
        let text: String = text.chars().filter(|c| !c.is_whitespace() && !"()".contains(*c)).collect();
        text == "__name__=='__main__'"
    }

    /// Whether a `with` statement opens files and nothing else.
    fn only_opens(&self, with: Node<'t>) -> bool {
        let mut cursor = with.walk();
        let clause = with.named_children(&mut cursor).find(|child| child.kind() == "with_clause");
        clause.is_some_and(|clause| {
            let mut cursor = clause.walk();
            clause.named_children(&mut cursor).filter(|item| item.kind() == "with_item").all(|item| {
                let call = descendants(item).find(|node| node.kind() == "call");
                let function = call.and_then(|call| call.child_by_field_name("function"));
                function.is_some_and(|function| self.of(function).rsplit('.').next() == Some("open"))
            })
        })
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
    fn names_of(&self, attribute: Node<'t>, names: &Names<'t>) -> Option<Vec<String>> {
        let is_inner = attribute.parent().is_some_and(|parent| parent.kind() == "attribute");
        let (base, rest) = self.dotted(attribute).filter(|_| !is_inner)?;
        // A parameter, a variable or a class of the same name is no module.
        let is_else = names.bound.contains_key(base);
        let is_patched = names.patched.contains(self.of(attribute)) || names.patched.contains(base);
        let modules = self.imported.get(base).filter(|_| !is_else && !is_patched)?;
        Some(modules.iter().map(|module| format!("{module}.{rest}")).collect())
    }

    /// `open(path, 'rU')`
    fn opens_with_mode_u(&self, call: Node<'t>, names: &Names<'t>) -> bool {
        let field = |name| call.child_by_field_name(name);
        let (Some(function), Some(arguments)) = (field("function"), field("arguments")) else { return false };
        let is_else = ["open", "io", "codecs"].iter().any(|name| names.bound.contains_key(name));
        if is_else || !["open", "io.open", "codecs.open"].contains(&self.of(function)) {
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

    /// By function, where the last certain `locals()['name']` of a name begins that the function does not bind.
    fn reads_of_locals(&self) -> HashMap<usize, usize> {
        let mut out = HashMap::new();
        for node in descendants(self.root).filter(|node| self.is_call_of(*node, "locals", 0)) {
            let Some(parent) = node.parent().filter(|parent| parent.kind() == "subscript") else { continue };
            let key = parent.child_by_field_name("subscript").and_then(|key| string(key, self.text));
            let scope = self.scope(node);
            let Some(key) = key else { continue };
            let is_own = self.bindings.contains_key(&(scope, key.as_str()))
                || self.parameters.contains(&(scope, key.as_str()));
            let is_target = parent.parent().is_some_and(|statement| {
                let left = statement.child_by_field_name("left");
                left.is_some_and(|left| left.id() == parent.id())
            });
            let is_read = !is_own && !is_target && self.functions.contains_key(&scope);
            if is_read && self.scope_that_runs(node).is_some() {
                out.insert(scope, node.start_byte());
            }
        }
        out
    }

    /// Whether a node calls a plain name with a number of arguments.
    fn is_call_of(&self, node: Node<'t>, name: &str, arguments: usize) -> bool {
        let field = |field| node.child_by_field_name(field);
        node.kind() == "call"
            && field("function").is_some_and(|function| self.of(function) == name)
            && field("arguments").is_some_and(|found| found.named_child_count() == arguments)
    }
}
