//! What a file imports, calls and passes to a call.

use std::collections::HashSet;

use tree_sitter::Node;

use super::bindings::Binding;
use super::condition::Branch;
use super::syntax::{descendants, string};
use super::{MAX_STEPS, Slice};

impl<'t> Slice<'t> {
    /// The modules that the file imports, and whether the import is at the top level without a guard.
    pub fn imports(&self) -> Vec<(String, bool)> {
        let mut out = Vec::new();
        for node in descendants(self.root) {
            let is_certain = node.parent().is_some_and(|parent| parent.kind() == "module");
            match node.kind() {
                "import_from_statement" => {
                    let module = node.child_by_field_name("module_name").map(|m| self.of(m).to_owned());
                    out.extend(module.map(|module| (module, is_certain)));
                }
                "import_statement" => {
                    let mut cursor = node.walk();
                    for name in node.children_by_field_name("name", &mut cursor) {
                        let path = name.child_by_field_name("name").unwrap_or(name);
                        out.push((self.of(path).to_owned(), is_certain));
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// Whether a string of the file contains a text.
    pub fn says(&self, text: &str) -> bool {
        descendants(self.root).any(|node| node.kind() == "string" && self.of(node).contains(text))
    }

    /// Whether the file starts pip as a child process: a list with the word `pip` is passed to a call.
    pub fn calls_pip(&self) -> bool {
        let words = descendants(self.root).filter(|node| string(*node, self.text).as_deref() == Some("pip"));
        words.filter_map(|word| word.parent()).any(|list| {
            let call = std::iter::successors(list.parent(), |node| node.parent()).take(4);
            let function = self.functions.get(&self.scope(list)).and_then(|f| f.child_by_field_name("name"));
            // A function that nobody calls does nothing.
            let is_used = function.is_none_or(|name| {
                let same = |n: &Node<'t>| n.kind() == "identifier" && self.of(*n) == self.of(name);
                self.of(name).starts_with("run") || descendants(self.root).filter(same).count() > 1
            });
            is_used && list.kind() == "list" && call.into_iter().any(|node| node.kind() == "argument_list")
        })
    }

    /// The calls of a function: `setup(...)`, `setuptools.setup(...)`.
    pub fn calls_of(&self, function: &'t str) -> impl Iterator<Item = Node<'t>> {
        descendants(self.root).filter(move |node| {
            let called = node.child_by_field_name("function").filter(|_| node.kind() == "call");
            let is_alias = |name: &str| {
                let full = self.imported.get(name).into_iter().flatten();
                full.into_iter().any(|full| full.rsplit('.').next() == Some(function))
            };
            called
                .map(|called| self.of(called))
                .is_some_and(|called| called.rsplit('.').next() == Some(function) || is_alias(called))
        })
    }

    /// The arguments of a call with these names, also those passed as `**dict`. Without a name: what may be any of them.
    pub fn arguments(&self, call: Node<'t>, names: &[&'static str]) -> Vec<(Option<&'static str>, Node<'t>)> {
        let mut out = Vec::new();
        let mut queue: Vec<Node<'t>> = call.child_by_field_name("arguments").into_iter().collect();
        let mut seen = HashSet::new();
        let named = |text: &str| names.iter().copied().find(|name| *name == text);
        while let Some(node) = queue.pop() {
            if !seen.insert(node.id()) || seen.len() > MAX_STEPS {
                continue;
            }
            let field = |name| node.child_by_field_name(name);
            match node.kind() {
                "keyword_argument" => {
                    if let (Some(name), Some(value)) = (field("name"), field("value")) {
                        out.extend(named(self.of(name)).map(|name| (Some(name), value)));
                    }
                }
                "pair" => {
                    if let (Some(key), Some(value)) = (field("key"), field("value")) {
                        let key = string(key, self.text).unwrap_or_default();
                        out.extend(named(&key).map(|name| (Some(name), value)));
                    }
                }
                "identifier" => {
                    for binding in self.bound(self.of(node), self.scope(node)) {
                        if !self.may_contain(binding, names) {
                            continue;
                        }
                        // A computed key may be any of them.
                        let key = binding.key.and_then(|key| string(key, self.text));
                        let name = key.and_then(|key| named(&key));
                        let mut conditions = Vec::new();
                        match self.branch(binding.place, &mut conditions) {
                            Branch::Dead => continue,
                            Branch::Guess(_) => out.push((name, binding.place)),
                            Branch::Live => out.extend(conditions.into_iter().map(|c| (name, c))),
                        }
                        match binding.key {
                            Some(_) => out.push((name, binding.value)),
                            None => queue.push(binding.value),
                        }
                    }
                }
                "call" => {
                    let is_dict = field("function").is_some_and(|f| self.of(f) == "dict");
                    match is_dict {
                        true => queue.extend(field("arguments")),
                        false if node.id() != call.id() => {
                            // A function makes the dict: everything in it counts.
                            out.push((None, node));
                        }
                        false => {}
                    }
                }
                "argument_list" | "dictionary" | "dictionary_splat" | "parenthesized_expression" => {
                    let mut cursor = node.walk();
                    queue.extend(node.named_children(&mut cursor));
                }
                "string" | "integer" | "comment" | "true" | "false" | "none" | "list" | "tuple" => {}
                // A dict that is made in another way: everything in it counts.
                _ => out.push((None, node)),
            }
        }
        out
    }

    /// Whether a binding may put one of these keys into a dict: not if it is a literal with other keys.
    fn may_contain(&self, binding: Binding<'t>, names: &[&'static str]) -> bool {
        let is_named = |key: Option<String>| key.is_none_or(|key| names.contains(&key.as_str()));
        if let Some(key) = binding.key {
            return is_named(string(key, self.text));
        }
        let is_dict = binding.value.kind() == "dictionary"
            || binding.value.child_by_field_name("function").is_some_and(|f| self.of(f) == "dict");
        let mut cursor = binding.value.walk();
        let items: Vec<Node<'t>> = match binding.value.child_by_field_name("arguments").filter(|_| is_dict) {
            Some(arguments) => arguments.named_children(&mut cursor).collect(),
            None if is_dict => binding.value.named_children(&mut cursor).collect(),
            None => return true,
        };
        items.iter().any(|item| match item.kind() {
            "comment" => false,
            "pair" => is_named(item.child_by_field_name("key").and_then(|key| string(key, self.text))),
            "keyword_argument" => {
                is_named(item.child_by_field_name("name").map(|name| self.of(name).to_owned()))
            }
            _ => true,
        })
    }

    /// The literal that an expression is: itself, or that of a name which is bound once.
    pub fn literal(&self, node: Node<'t>) -> Option<Node<'t>> {
        match node.kind() {
            "identifier" => {
                let bound = self.bound(self.of(node), self.scope(node));
                match bound.as_slice() {
                    [one] if one.key.is_none() && one.place.kind() == "assignment" => {
                        (one.value.kind() != "identifier").then_some(one.value)
                    }
                    _ => None,
                }
            }
            _ => Some(node),
        }
    }
}
