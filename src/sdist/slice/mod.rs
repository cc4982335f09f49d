//! Which parts of the machine a value in a Python file depends on, from its syntax tree: a backward slice.
//!
//! From an expression, the names in it are followed to their assignments, to the changes of them (`append`, `+=`), to
//! the conditions around those, and into the local functions that compute them. Where this meets the environment, the
//! platform, the Python version, an installed package or a child process, the value is not the same on every machine.
//! Conditions on the Python version that hold for every Python 3 are decided; the branch of Python 2 is left out.

mod bindings;
mod calls;
mod certain;
mod condition;
mod names;
mod parse;
mod syntax;

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

use bindings::Binding;
use condition::Branch;
use names::{BUILTINS, READERS, of_the_machine};
pub(super) use parse::syntax_tree;
pub(super) use syntax::{descendants, own_descendants, string};
use syntax::{is_label, is_too_deep};

/// Maximum number of syntax nodes that a slice visits.
const MAX_STEPS: usize = 200_000;

/// The tree of one file with its bindings.
pub(super) struct Slice<'t> {
    root: Node<'t>,
    text: &'t str,
    /// By scope (the id of the function definition, or of the module) and name.
    bindings: HashMap<(usize, &'t str), Vec<Binding<'t>>>,
    /// Function definitions by id.
    functions: HashMap<usize, Node<'t>>,
    /// The dotted names of an imported name, in any scope.
    imported: HashMap<&'t str, Vec<String>>,
    /// The parameters of functions, by the id of the function, and of lambdas.
    parameters: HashSet<(usize, &'t str)>,
    /// Names that functions declare `global`, by the id of the function.
    globals: HashSet<(usize, &'t str)>,
    /// The functions that contain a call of `setup`.
    with_setup: HashSet<usize>,
    /// Where the first `return` of a function ends, in bytes: what follows it may not run.
    first_returns: HashMap<usize, usize>,
}

impl<'t> Slice<'t> {
    /// Collects the bindings of a file; `None` if it nests too deeply.
    pub fn new(root: Node<'t>, text: &'t str) -> Option<Slice<'t>> {
        if is_too_deep(root) {
            return None;
        }
        let mut out = Slice {
            root,
            text,
            bindings: HashMap::new(),
            functions: HashMap::new(),
            imported: HashMap::new(),
            parameters: HashSet::new(),
            globals: HashSet::new(),
            with_setup: HashSet::new(),
            first_returns: HashMap::new(),
        };
        let nodes: Vec<Node<'t>> = descendants(root).collect();
        for node in &nodes {
            out.declare(*node);
        }
        for node in nodes {
            out.bind(node);
        }
        Some(out)
    }

    fn of(&self, node: Node<'t>) -> &'t str {
        &self.text[node.byte_range()]
    }

    /// The first part of the machine that an expression depends on. Strings in branches of Python 2 are added to
    /// `python2`.
    ///
    /// `is_strict`: names whose value is not in the file count too.
    pub fn depends_on(
        &self,
        expression: Node<'t>,
        is_strict: bool,
        python2: &mut Vec<String>,
    ) -> Option<String> {
        let mut queue = vec![expression];
        let mut seen = HashSet::new();
        let mut steps = 0;
        while let Some(start) = queue.pop() {
            if !seen.insert(start.id()) {
                continue;
            }
            for node in own_descendants(start) {
                steps += 1;
                if steps > MAX_STEPS {
                    return Some("too much to follow".to_owned());
                }
                if self.is_decided(node, start) {
                    continue;
                }
                if let Some(found) = self.of_machine(node) {
                    return Some(format!("`{found}` (line {})", node.start_position().row + 1));
                }
                if node.kind() != "identifier" || is_label(node) {
                    continue;
                }
                let bound = self.bound(self.of(node), self.scope(node));
                if is_strict
                    && bound.is_empty()
                    && let Some(what) = self.unknown_name(node)
                {
                    return Some(format!("{what} (line {})", node.start_position().row + 1));
                }
                steps += bound.len();
                for binding in bound {
                    if seen.contains(&binding.value.id()) {
                        continue;
                    }
                    match self.branch(binding.place, &mut queue) {
                        Branch::Dead => {
                            let literals = descendants(binding.value).filter_map(|n| string(n, self.text));
                            python2.extend(literals);
                        }
                        Branch::Guess(what) => return Some(what),
                        Branch::Live => match binding.value.kind() {
                            "function_definition" => {
                                if let Some(what) = self.returned(binding.value, &mut queue) {
                                    return Some(what);
                                }
                            }
                            _ => queue.push(binding.value),
                        },
                    }
                }
            }
        }
        None
    }

    /// Whether a part of an expression does not count, since Python 3 decides it: a condition that is the same for every
    /// Python 3, or what it does not choose.
    fn is_decided(&self, part: Node<'t>, expression: Node<'t>) -> bool {
        let mut child = part;
        while child.id() != expression.id()
            && let Some(parent) = child.parent()
        {
            if parent.kind() == "conditional_expression"
                && let Some(condition) = parent.named_child(1)
                && let Some(value) = self.constant(condition)
            {
                // `a if condition else b`
                let place = (0..3).find(|i| parent.named_child(*i).is_some_and(|own| own.id() == child.id()));
                if place == Some(1) || place == Some(if value { 2 } else { 0 }) {
                    return true;
                }
            }
            child = parent;
        }
        false
    }

    /// What the conditions around a call depend on.
    pub fn guards(&self, call: Node<'t>) -> Option<String> {
        let mut conditions = Vec::new();
        if let Branch::Guess(what) = self.branch(call, &mut conditions) {
            return Some(what);
        }
        conditions.into_iter().find_map(|condition| self.depends_on(condition, false, &mut Vec::new()))
    }

    /// What an identifier without a binding may be that is not in the file.
    fn unknown_name(&self, node: Node<'t>) -> Option<String> {
        let name = self.of(node);
        if let Some(modules) = self.imported.get(name) {
            let root =
                |full: &String| full.trim_start_matches('.').split('.').next().unwrap_or_default().to_owned();
            let other = modules.iter().map(root).find(|root| !READERS.contains(&root.as_str()))?;
            return Some(format!("the module `{other}`"));
        }
        let scope = self.scope(node);
        if self.parameters.contains(&(0, name)) {
            return None;
        }
        if self.parameters.contains(&(scope, name)) {
            // The values are at the calls, unless `setup` itself is called here.
            return self.with_setup.contains(&scope).then(|| format!("the parameter `{name}`"));
        }
        let is_known = BUILTINS.contains(&name)
            || self.functions.values().any(|f| self.parameters.contains(&(f.id(), name)));
        (!is_known).then(|| format!("`{name}`, which the file does not define"))
    }

    /// Adds what a function returns, and the conditions around it.
    fn returned(&self, function: Node<'t>, queue: &mut Vec<Node<'t>>) -> Option<String> {
        queue.extend(function.child_by_field_name("parameters"));
        let body = function.child_by_field_name("body")?;
        for node in own_descendants(body).filter(|n| ["return_statement", "yield"].contains(&n.kind())) {
            match self.branch(node, queue) {
                Branch::Dead => {}
                Branch::Guess(what) => return Some(what),
                Branch::Live => queue.push(node),
            }
        }
        None
    }

    /// The name at the start of an attribute, and the names behind it.
    fn dotted(&self, attribute: Node<'t>) -> Option<(&'t str, String)> {
        let mut names = Vec::new();
        let mut node = attribute;
        loop {
            match node.kind() {
                "attribute" => {
                    names.push(self.of(node.child_by_field_name("attribute")?));
                    node = node.child_by_field_name("object")?;
                }
                "parenthesized_expression" => node = node.named_child(0)?,
                "identifier" => {
                    names.reverse();
                    return Some((self.of(node), names.join(".")));
                }
                _ => return None,
            }
        }
    }

    /// The part of the machine that a name or an attribute refers to.
    fn of_machine(&self, node: Node<'t>) -> Option<String> {
        match node.kind() {
            "identifier" if is_label(node) => None,
            "identifier" => {
                // Only as the base of an attribute does more of the name follow.
                let is_base = node.parent().is_some_and(|p| p.kind() == "attribute");
                let full = self.imported.get(self.of(node)).filter(|_| !is_base)?;
                full.iter().find_map(|full| of_the_machine(full)).map(str::to_owned)
            }
            "attribute" => {
                let is_inner = node.parent().is_some_and(|p| p.kind() == "attribute");
                let (base, rest) = self.dotted(node).filter(|_| !is_inner)?;
                let full = self.imported.get(base)?;
                full.iter().find_map(|full| of_the_machine(&format!("{full}.{rest}"))).map(str::to_owned)
            }
            "call" => {
                let function = node.child_by_field_name("function").map(|f| self.of(f))?;
                let is_import =
                    ["__import__", "import_module", "importlib.import_module"].contains(&function);
                let module = node.child_by_field_name("arguments").and_then(|a| a.named_child(0))?;
                let module = string(module, self.text).filter(|_| is_import)?;
                of_the_machine(&module).map(str::to_owned)
            }
            _ => None,
        }
    }
}
