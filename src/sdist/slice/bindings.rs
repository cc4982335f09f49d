//! Where names get and change their values, by scope.

use tree_sitter::Node;

use super::Slice;
use super::names::CHANGES;
use super::syntax::descendants;

/// A place where a name gets or changes its value.
#[derive(Clone, Copy)]
pub(super) struct Binding<'t> {
    /// What decides the value; a function definition for functions.
    pub value: Node<'t>,
    /// The statement, for the conditions around it.
    pub place: Node<'t>,
    /// The key of `name["key"] = value`.
    pub key: Option<Node<'t>>,
}

impl<'t> Slice<'t> {
    /// Records parameters, `global` declarations, calls of `setup` and the first `return`.
    pub(super) fn declare(&mut self, node: Node<'t>) {
        let scope = self.scope(node);
        match node.kind() {
            "parameters" | "lambda_parameters" => {
                let owner = match node.parent() {
                    Some(function) if function.kind() == "function_definition" => function.id(),
                    _ => 0,
                };
                let names = descendants(node).filter(|n| n.kind() == "identifier");
                let names: Vec<&'t str> = names.map(|name| self.of(name)).collect();
                self.parameters.extend(names.into_iter().map(|name| (owner, name)));
            }
            "global_statement" | "nonlocal_statement" => {
                let names = descendants(node).filter(|n| n.kind() == "identifier");
                let names: Vec<&'t str> = names.map(|name| self.of(name)).collect();
                self.globals.extend(names.into_iter().map(|name| (scope, name)));
            }
            "return_statement" => {
                self.first_returns.entry(scope).or_insert(node.end_byte());
            }
            "call" => {
                let function = node.child_by_field_name("function").map(|f| self.of(f));
                if function.is_some_and(|f| f.rsplit('.').next() == Some("setup")) {
                    self.with_setup.insert(scope);
                }
            }
            _ => {}
        }
    }

    /// Records what a statement binds.
    pub(super) fn bind(&mut self, node: Node<'t>) {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "assignment" | "augmented_assignment" | "named_expression" => {
                if let (Some(left), Some(right)) =
                    (field("left").or(field("name")), field("right").or(field("value")))
                {
                    self.bind_target(left, right, node);
                }
            }
            "for_statement" | "for_in_clause" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.bind_target(left, right, node);
                }
            }
            "as_pattern" => {
                if let (Some(value), Some(alias)) = (node.named_child(0), field("alias")) {
                    self.bind_target(alias, value, node);
                }
            }
            "function_definition" => {
                self.functions.insert(node.id(), node);
                if let Some(name) = field("name") {
                    let scope = self.scope(node);
                    let binding = Binding { value: node, place: node, key: None };
                    self.bindings.entry((scope, self.of(name))).or_default().push(binding);
                }
            }
            "call" => {
                // `name.append(value)`
                if let (Some(function), Some(arguments)) = (field("function"), field("arguments"))
                    && function.kind() == "attribute"
                    && let (Some(object), Some(method)) =
                        (function.child_by_field_name("object"), function.child_by_field_name("attribute"))
                    && CHANGES.contains(&self.of(method))
                {
                    self.bind_target(object, arguments, node);
                }
            }
            "delete_statement" => {
                if let Some(target) = node.named_child(0) {
                    self.bind_target(target, target, node);
                }
            }
            "import_statement" | "import_from_statement" => self.bind_import(node),
            _ => {}
        }
    }

    pub(super) fn bind_target(&mut self, target: Node<'t>, value: Node<'t>, place: Node<'t>) {
        let mut queue = vec![(target, None)];
        while let Some((target, key)) = queue.pop() {
            match target.kind() {
                "identifier" => {
                    let (scope, name) = (self.scope(place), self.of(target));
                    let binding = Binding { value, place, key };
                    let is_change = key.is_some() || !["assignment", "for_statement"].contains(&place.kind());
                    // A change may be of a name of the module, also within a function.
                    if scope != self.root.id() && (is_change || self.globals.contains(&(scope, name))) {
                        self.bindings.entry((self.root.id(), name)).or_default().push(binding);
                    }
                    self.bindings.entry((scope, name)).or_default().push(binding);
                }
                "subscript" => {
                    let key = target.child_by_field_name("subscript");
                    queue.extend(target.child_by_field_name("value").map(|object| (object, key)));
                }
                "attribute" => {}
                _ => {
                    let mut cursor = target.walk();
                    queue.extend(target.named_children(&mut cursor).map(|child| (child, key)));
                }
            }
        }
    }

    pub(super) fn bind_import(&mut self, node: Node<'t>) {
        let module = node.child_by_field_name("module_name").map(|m| self.of(m));
        let mut cursor = node.walk();
        for name in node.children_by_field_name("name", &mut cursor) {
            let (path, alias) = match name.kind() {
                "aliased_import" => (name.child_by_field_name("name"), name.child_by_field_name("alias")),
                _ => (Some(name), None),
            };
            let Some(path) = path.map(|p| self.of(p)) else { continue };
            let full = module.map_or_else(|| path.to_owned(), |module| format!("{module}.{path}"));
            let (bound, full) = match (alias, module) {
                (Some(alias), _) => (self.of(alias), full),
                (None, Some(_)) => (path, full),
                // `import a.b` binds `a`.
                (None, None) => {
                    let first = path.split('.').next().unwrap_or(path);
                    (first, first.to_owned())
                }
            };
            self.imported.entry(bound).or_default().push(full);
        }
    }

    /// The bindings of a name in a scope or the scopes around it.
    pub(super) fn bound(&self, name: &str, scope: usize) -> Vec<Binding<'t>> {
        let mut scope = Some(scope);
        while let Some(id) = scope {
            if let Some(found) = self.bindings.get(&(id, name)) {
                return found.clone();
            }
            scope = self.functions.get(&id).map(|function| self.scope(*function));
        }
        Vec::new()
    }

    /// The function that contains a node, or the module.
    pub(super) fn scope(&self, node: Node<'t>) -> usize {
        let mut parent = node.parent();
        while let Some(node) = parent {
            if node.kind() == "function_definition" {
                return node.id();
            }
            parent = node.parent();
        }
        self.root.id()
    }
}
