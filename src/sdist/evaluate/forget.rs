//! What is no longer known after code that may have run, or not, or in another way.

use std::collections::HashSet;

use tree_sitter::Node;

use super::Evaluator;
use super::effects::leaves_files_alone;
use super::value::Value;
use crate::sdist::slice::descendants;

/// Functions that change files.
const WRITERS: [&str; 14] = [
    "rmtree",
    "write_text",
    "write_bytes",
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "move",
    "rename",
    "unlink",
    "remove",
    "symlink",
    "touch",
    "chdir",
];
/// Functions that the evaluation knows: who replaces one of them means something else by it.
const REPLACEABLE: [&str; 14] = [
    "setup",
    "join",
    "dirname",
    "abspath",
    "realpath",
    "normpath",
    "exists",
    "isfile",
    "open",
    "search",
    "match",
    "findall",
    "parse_requirements",
    "run_path",
];

/// Functions that may bind any name.
pub(super) const REBINDERS: [&str; 8] =
    ["exec", "execfile", "eval", "compile", "globals", "locals", "vars", "setattr"];

impl<'t> Evaluator<'t, '_> {
    /// Forgets what a piece of code may change: the names that it binds, the lists that it mentions, also in the
    /// functions that it mentions, and the files that it writes.
    pub(super) fn forget(&mut self, code: Node<'t>) {
        self.forget_what(code, true);
    }

    /// The same for the body of a function or class, whose names are its own.
    pub(super) fn forget_body(&mut self, code: Node<'t>) {
        self.forget_what(code, false);
    }

    fn forget_what(&mut self, code: Node<'t>, is_own: bool) {
        let mut queue = vec![(code, is_own)];
        let mut seen = HashSet::new();
        while let Some((code, is_own)) = queue.pop() {
            for node in descendants(code) {
                self.steps += 1;
                match node.kind() {
                    "identifier" => {
                        let name = self.of(node);
                        // In any scope: a function may have been defined in another one.
                        let frames = self.locals.iter().map(|frame| &frame.names).chain([&self.globals]);
                        let values: Vec<Value> =
                            frames.filter_map(|names| names.get(name).cloned()).collect();
                        for value in values {
                            value.forget();
                            if matches!(&value, Value::Imported(full) if full.ends_with(".setup"))
                                && !is_imported(node)
                            {
                                self.passed = Some(None);
                            }
                            if let Value::Function(id) = value
                                && seen.insert(id)
                                && let Some(function) = self.functions.get(&id)
                            {
                                queue.push((*function, false));
                            }
                        }
                        // More than the targets of assignments: what is only read becomes unknown where it is bound
                        // here too, and a function or module that is only called stays.
                        if is_own && is_target(node) {
                            self.bind(name, Value::Unknown);
                        }
                        if name == "setup" && !is_imported(node) {
                            self.passed = Some(None);
                        }
                    }
                    "global_statement" | "nonlocal_statement" => self.forget_names(node),
                    "named_expression" => self.forget_names(node),
                    "assignment" => {
                        let left = node.child_by_field_name("left");
                        if let Some(name) = left.and_then(|left| left.child_by_field_name("attribute")) {
                            self.replaced(self.of(name));
                        }
                    }
                    "call" => {
                        let function = node.child_by_field_name("function").map(|function| self.of(function));
                        if function.is_some_and(|name| REBINDERS.contains(&name)) {
                            self.forget_all();
                        }
                        self.is_tree_unknown |= self.may_write(node) || !self.is_harmless(node);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Forgets the names in a statement, in every scope: of `global`, `nonlocal` and `:=`.
    pub(super) fn forget_names(&mut self, statement: Node<'t>) {
        let mut cursor = statement.walk();
        let names = statement.named_children(&mut cursor).filter(|child| child.kind() == "identifier");
        let names: Vec<&str> = names.map(|name| self.of(name)).collect();
        for scope in self.locals.iter_mut().map(|frame| &mut frame.names).chain([&mut self.globals]) {
            for name in &names {
                if let Some(value) = scope.get_mut(*name) {
                    value.forget();
                    *value = Value::Unknown;
                }
            }
        }
        for name in names {
            self.globals.entry(name.to_owned()).or_insert(Value::Unknown);
        }
    }

    /// What an assignment to an attribute means: a module may work in another way then.
    pub(super) fn replaced(&mut self, attribute: &str) {
        if REPLACEABLE.contains(&attribute) {
            self.passed = Some(None);
        }
    }

    /// Forgets all names but those of functions and modules.
    pub(super) fn forget_all(&mut self) {
        let is_code = |value: &Value| matches!(value, Value::Function(_) | Value::Imported(_));
        let frames = self.locals.iter_mut().map(|frame| &mut frame.names);
        for names in frames.chain([&mut self.globals]) {
            names.values().for_each(Value::forget);
            names.values_mut().filter(|value| !is_code(value)).for_each(|value| *value = Value::Unknown);
        }
    }

    /// Whether what is called is no function of a module that may change files.
    fn is_harmless(&self, call: Node<'t>) -> bool {
        let Some(function) = call.child_by_field_name("function") else { return true };
        let (first, rest) = match self.of(function).split_once('.') {
            Some((first, rest)) => (first, format!(".{rest}")),
            None => (self.of(function), String::new()),
        };
        match self.lookup(first) {
            Some(Value::Imported(module)) => leaves_files_alone(&format!("{module}{rest}")),
            _ => true,
        }
    }

    /// Whether a call may change a file.
    pub(super) fn may_write(&self, call: Node<'t>) -> bool {
        let Some(function) = call.child_by_field_name("function") else { return false };
        let name = self.of(function).rsplit('.').next().unwrap_or_default();
        let arguments = call.child_by_field_name("arguments").map(|list| self.of(list)).unwrap_or_default();
        // `path.replace(other)`; that of texts has two arguments.
        if name == "replace" && !arguments.contains(',') {
            return true;
        }
        // A mode of reading has neither letter.
        let has_mode =
            |c: char| arguments.contains(&format!("'{c}")) || arguments.contains(&format!("\"{c}"));
        WRITERS.contains(&name) || name == "open" && ['w', 'a', 'x'].into_iter().any(has_mode)
    }
}

/// Whether an identifier is bound where it stands.
fn is_target(node: Node<'_>) -> bool {
    let mut child = node;
    while let Some(parent) = child.parent() {
        let is_field =
            |field| parent.child_by_field_name(field).is_some_and(|found| found.id() == child.id());
        match parent.kind() {
            "assignment" | "augmented_assignment" | "for_statement" | "for_in_clause" => {
                return is_field("left");
            }
            "named_expression" | "function_definition" | "class_definition" => return is_field("name"),
            "as_pattern_target" | "delete_statement" | "import_statement" | "import_from_statement" => {
                return true;
            }
            "pattern_list"
            | "tuple_pattern"
            | "list_pattern"
            | "list_splat_pattern"
            | "tuple"
            | "list"
            | "dotted_name"
            | "aliased_import"
            | "parenthesized_expression" => child = parent,
            _ => return false,
        }
    }
    false
}

/// Whether an identifier stands in an import.
fn is_imported(node: Node<'_>) -> bool {
    let mut parent = node.parent();
    while let Some(at) = parent {
        match at.kind() {
            "import_statement" | "import_from_statement" => return true,
            "dotted_name" | "aliased_import" => parent = at.parent(),
            _ => return false,
        }
    }
    false
}
