//! Statements, in the order in which they run.

use tree_sitter::Node;

use super::Evaluator;
use super::flow::Flow;
use super::value::{Value, into_dict, put};
use crate::sdist::slice::{descendants, own_descendants};

/// How much of a list is looked at in the time of a step, in the units of [`Value::size`].
const LOOKED_AT_A_STEP: usize = 1 << 10;

impl<'t> Evaluator<'t, '_> {
    /// Runs the statements of a block or module.
    pub(super) fn block(&mut self, block: Node<'t>) -> Flow {
        let mut cursor = block.walk();
        let statements: Vec<Node<'t>> = block.named_children(&mut cursor).collect();
        let mut unsure = false;
        for statement in statements {
            if unsure {
                self.forget(statement);
                continue;
            }
            match self.statement(statement) {
                Flow::Next => {}
                Flow::Unsure => unsure = true,
                flow => return flow,
            }
        }
        if unsure { Flow::Unsure } else { Flow::Next }
    }

    fn statement(&mut self, node: Node<'t>) -> Flow {
        if !self.may_go_on() {
            // What follows is not known, least of all whether it calls `setup`.
            self.passed = Some(None);
            return Flow::Stop;
        }
        self.depth += 1;
        let flow = self.statement_of_kind(node);
        self.depth -= 1;
        flow
    }

    fn statement_of_kind(&mut self, node: Node<'t>) -> Flow {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "expression_statement" => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    self.value_of_statement(child);
                }
            }
            "if_statement" => return self.condition(node),
            "for_statement" => return self.loop_over(node),
            "with_statement" => return self.with(node),
            "try_statement" => return self.attempt(node),
            "function_definition" | "class_definition" => self.define(node, true),
            "decorated_definition" => {
                if let Some(definition) = field("definition") {
                    self.define(definition, false);
                }
            }
            "import_statement" | "import_from_statement" | "future_import_statement" => self.import(node),
            "return_statement" => {
                let value = node.named_child(0).map_or(Value::None, |value| self.value(value));
                return Flow::Return(value);
            }
            "break_statement" => return Flow::Break,
            "continue_statement" => return Flow::Continue,
            "raise_statement" => return Flow::Stop,
            "global_statement" | "nonlocal_statement" => self.forget_names(node),
            "pass_statement" | "comment" => {}
            _ => return self.unsure(node),
        }
        Flow::Next
    }

    /// What code does that may run or not.
    fn unsure(&mut self, node: Node<'t>) -> Flow {
        self.forget(node);
        let leaves = ["return_statement", "break_statement", "continue_statement"];
        match own_descendants(node).any(|inner| leaves.contains(&inner.kind())) {
            true => Flow::Unsure,
            false => Flow::Next,
        }
    }

    /// An expression that stands alone, or an assignment; its value.
    fn value_of_statement(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "assignment" => {
                let (Some(left), Some(right)) = (field("left"), field("right")) else { return Value::None };
                let value = match right.kind() {
                    "assignment" | "augmented_assignment" => self.value_of_statement(right),
                    _ => self.value(right),
                };
                self.assign(left, value.clone());
                value
            }
            "augmented_assignment" => {
                let (Some(left), Some(right)) = (field("left"), field("right")) else { return Value::None };
                let added = self.value(right);
                let is_sum = field("operator").is_some_and(|operator| self.of(operator) == "+=");
                let old = self.value(left);
                match (&old, added.items()) {
                    (Value::List(items), Some(more)) if is_sum => self.extend(items, more),
                    _ => {
                        old.forget();
                        let new = if is_sum { self.sum(&old, &added) } else { Value::Unknown };
                        self.assign(left, new);
                    }
                }
                Value::None
            }
            _ => self.value(node),
        }
    }

    pub(super) fn assign(&mut self, target: Node<'t>, value: Value) {
        let field = |name| target.child_by_field_name(name);
        match target.kind() {
            "identifier" => self.bind(self.of(target), value),
            "subscript" => {
                let (Some(object), Some(key)) = (field("value"), field("subscript")) else { return };
                let (object, key) = (self.value(object), self.value(key));
                match (&object, key) {
                    (Value::Dict(entries), Value::Text(key)) if !has_several_keys(target) => {
                        // It may be the same dictionary, which is forgotten then.
                        let value = into_dict(value);
                        if let Some(entries) = entries.borrow_mut().as_mut() {
                            put(entries, key, value);
                        }
                    }
                    _ => {
                        object.forget();
                        value.forget();
                    }
                }
            }
            "attribute" => {
                value.forget();
                if let Some(name) = field("attribute") {
                    self.replaced(self.of(name));
                }
            }
            "pattern_list" | "tuple_pattern" => {
                let mut cursor = target.walk();
                let names: Vec<Node<'t>> = target.named_children(&mut cursor).collect();
                match &value {
                    Value::Row(texts) if texts.len() == names.len() => {
                        for (name, text) in names.into_iter().zip(texts.iter()) {
                            self.assign(name, Value::Text(text.clone()));
                        }
                    }
                    _ => {
                        value.forget();
                        for name in names {
                            self.assign(name, Value::Unknown);
                        }
                    }
                }
            }
            _ => self.forget(target),
        }
    }

    /// A function or class. A function that is not evaluated (in a function, decorated, a generator) and a class are known
    /// by their code, which counts as run when they are called.
    fn define(&mut self, node: Node<'t>, is_bare: bool) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let is_plain = is_bare
            && node.kind() == "function_definition"
            && self.locals.is_empty()
            && !self.of(node).starts_with("async")
            && !own_descendants(node).any(|inner| inner.kind() == "yield");
        self.functions.insert(node.id(), node);
        if !is_plain {
            self.opaque.insert(node.id());
        }
        if node.kind() == "class_definition" || !is_bare {
            // Its body, or its decorator, runs now.
            self.forget_body(node.parent().filter(|_| !is_bare).unwrap_or(node));
        }
        self.bind(self.of(name), Value::Function(node.id()));
    }

    fn import(&mut self, node: Node<'t>) {
        let mut cursor = node.walk();
        if node.named_children(&mut cursor).any(|child| child.kind() == "wildcard_import") {
            self.forget_all();
            self.has_star_import = true;
            return;
        }
        let module = node.child_by_field_name("module_name").map(|name| self.of(name));
        let mut cursor = node.walk();
        let names: Vec<Node<'t>> = node.children_by_field_name("name", &mut cursor).collect();
        for name in names {
            let field = |field| name.child_by_field_name(field);
            let (full, alias) = match name.kind() {
                "aliased_import" => (field("name").map(|n| self.of(n)), field("alias").map(|n| self.of(n))),
                _ => (Some(self.of(name)), None),
            };
            let Some(full) = full else { continue };
            let (bound, value) = match (module, alias) {
                (Some(module), alias) => (alias.unwrap_or(full), format!("{module}.{full}")),
                (None, Some(alias)) => (alias, full.to_owned()),
                // `import os.path` binds `os`.
                (None, None) => {
                    let first = full.split('.').next().unwrap_or(full);
                    (first, first.to_owned())
                }
            };
            self.bind(bound, Value::Imported(value));
        }
    }

    fn condition(&mut self, node: Node<'t>) -> Flow {
        let mut cursor = node.walk();
        let mut branches = vec![node];
        branches.extend(node.children_by_field_name("alternative", &mut cursor));
        for (i, branch) in branches.iter().enumerate() {
            let field = |name| branch.child_by_field_name(name);
            if branch.kind() == "else_clause" {
                return field("body").map_or(Flow::Next, |body| self.block(body));
            }
            let is_true = field("condition").and_then(|condition| self.value(condition).is_true());
            match is_true {
                Some(true) => return field("consequence").map_or(Flow::Next, |body| self.block(body)),
                Some(false) => {}
                None => {
                    let mut flow = Flow::Next;
                    let own = field("consequence");
                    for body in own.into_iter().chain(branches[i + 1..].iter().copied()) {
                        if let Flow::Unsure = self.unsure(body) {
                            flow = Flow::Unsure;
                        }
                    }
                    return flow;
                }
            }
        }
        Flow::Next
    }

    fn loop_over(&mut self, node: Node<'t>) -> Flow {
        let field = |name| node.child_by_field_name(name);
        let (Some(left), Some(right), Some(body)) = (field("left"), field("right"), field("body")) else {
            return self.unsure(node);
        };
        let source = self.value(right);
        if field("alternative").is_some() {
            return self.unsure(node);
        }
        let Some(items) = self.items_of(&source) else {
            self.forget(left);
            self.assign(left, Value::Unknown);
            return match self.unsure(body) {
                Flow::Unsure if !returns(body) => Flow::Next,
                flow => flow,
            };
        };
        let size = source.size();
        for item in items {
            // The comparison below looks at the whole list.
            self.steps += size / LOOKED_AT_A_STEP;
            if !self.may_go_on() {
                self.passed = Some(None);
                return Flow::Unsure;
            }
            self.assign(left, item);
            let flow = self.block(body);
            if source.size() != size {
                // It changed on the way: Python sees that, this loop does not.
                source.forget();
                self.forget(body);
                return if returns(body) { Flow::Unsure } else { Flow::Next };
            }
            match flow {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                Flow::Unsure => {
                    self.forget(body);
                    self.assign(left, Value::Unknown);
                    return if returns(body) { Flow::Unsure } else { Flow::Next };
                }
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn with(&mut self, node: Node<'t>) -> Flow {
        let mut cursor = node.walk();
        let clause = node.named_children(&mut cursor).find(|child| child.kind() == "with_clause");
        if let Some(clause) = clause {
            let mut cursor = clause.walk();
            let items: Vec<Node<'t>> = clause.named_children(&mut cursor).collect();
            // Another context manager may end its body where it raises.
            if !items.iter().all(|item| self.opens(*item)) {
                return self.unsure(node);
            }
            for item in items.into_iter().filter_map(|item| item.child_by_field_name("value")) {
                match item.kind() {
                    "as_pattern" => {
                        let value = item.named_child(0).map_or(Value::Unknown, |value| self.value(value));
                        let target = item.child_by_field_name("alias").and_then(|alias| alias.named_child(0));
                        if let Some(target) = target {
                            self.assign(target, value);
                        }
                    }
                    _ => {
                        self.value(item);
                    }
                }
            }
        }
        node.child_by_field_name("body").map_or(Flow::Next, |body| self.block(body))
    }

    /// Whether an item of `with` opens a file.
    fn opens(&self, item: Node<'t>) -> bool {
        let call = descendants(item).find(|node| node.kind() == "call");
        let function = call.and_then(|call| call.child_by_field_name("function"));
        function.is_some_and(|function| self.of(function).rsplit('.').next() == Some("open"))
    }

    /// `try` around imports alone runs as if they succeed: `setup` is imported from one package or the other.
    fn attempt(&mut self, node: Node<'t>) -> Flow {
        let body = node.child_by_field_name("body");
        let mut cursor = node.walk();
        let imports = ["import_statement", "import_from_statement", "comment"];
        let only_imports =
            body.is_some_and(|body| body.named_children(&mut cursor).all(|s| imports.contains(&s.kind())));
        let flow = self.unsure(node);
        if let (true, Some(body)) = (only_imports, body) {
            let mut cursor = body.walk();
            let statements: Vec<Node<'t>> = body.named_children(&mut cursor).collect();
            for statement in statements.into_iter().filter(|s| s.kind() != "comment") {
                self.import_setup(statement);
            }
        }
        flow
    }

    /// Binds `setup` where a statement imports it; other modules may be absent.
    fn import_setup(&mut self, statement: Node<'t>) {
        let text = self.of(statement);
        if text.contains("setuptools") || text.contains("distutils") {
            self.import(statement);
        }
    }
}

/// `d["a", "b"]`
pub(super) fn has_several_keys(subscript: Node<'_>) -> bool {
    let mut cursor = subscript.walk();
    subscript.children_by_field_name("subscript", &mut cursor).count() != 1
}

/// Whether a block may leave the function.
fn returns(block: Node<'_>) -> bool {
    own_descendants(block).any(|node| node.kind() == "return_statement")
}
