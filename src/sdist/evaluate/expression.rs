//! Expressions.

use tree_sitter::Node;

use super::path::append;
use super::statement::has_several_keys;
use super::value::{Shared, Value, dict_of, flat, list_of, put};
use super::{Evaluator, Frame, MAX_SIZE};
use crate::sdist::slice::string;

impl<'t> Evaluator<'t, '_> {
    /// The value of an expression. What it calls may change lists and files.
    pub(super) fn value(&mut self, node: Node<'t>) -> Value {
        if !self.may_go_on() {
            self.passed = Some(None);
            return Value::Unknown;
        }
        self.depth += 1;
        let value = self.value_of_kind(node);
        self.depth -= 1;
        self.charge(value.size());
        value
    }

    fn value_of_kind(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "string" | "concatenated_string" => self.string(node),
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "none" => Value::None,
            "identifier" => match self.of(node) {
                "__name__" => Value::Text("__main__".to_owned()),
                "__file__" => Value::Path("setup.py".to_owned()),
                name => self.lookup(name).unwrap_or(Value::Unknown),
            },
            "parenthesized_expression" => {
                node.named_child(0).map_or(Value::Unknown, |inner| self.value(inner))
            }
            "set" => {
                // Its order is another one in every run.
                self.forget(node);
                Value::Unknown
            }
            "list" | "tuple" => self.list(node),
            "dictionary" => self.dictionary(node),
            "list_comprehension" | "generator_expression" => {
                self.comprehension(node).map_or(Value::Unknown, list_of)
            }
            "dictionary_comprehension" => self.dictionary_comprehension(node),
            "pair" => self.pair(node),
            "attribute" => self.attribute(node),
            "subscript" => self.subscript(node),
            "binary_operator" => self.binary(node),
            "not_operator" => {
                let inner = field("argument").map_or(Value::Unknown, |inner| self.value(inner));
                inner.is_true().map_or(Value::Unknown, |is| Value::Bool(!is))
            }
            "boolean_operator" => self.boolean(node),
            "conditional_expression" => self.conditional(node),
            "comparison_operator" => self.comparison(node),
            "call" => self.call(node),
            _ => {
                self.forget(node);
                Value::Unknown
            }
        }
    }

    /// A list or a tuple.
    fn list(&mut self, node: Node<'t>) -> Value {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let mut items = Vec::new();
        for child in children.into_iter().filter(|child| child.kind() != "comment") {
            match child.kind() {
                "list_splat" => {
                    let inner = child.named_child(0).map_or(Value::Unknown, |inner| self.value(inner));
                    match self.items_of(&inner) {
                        Some(more) => items.extend(more),
                        None => return Value::Unknown,
                    }
                }
                _ => items.push(self.value(child)),
            }
        }
        list_of(items)
    }

    /// An item of a list, or the value of a key.
    fn subscript(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        let (Some(object), Some(key)) = (field("value"), field("subscript")) else {
            return Value::Unknown;
        };
        let index = self.of(key).parse::<i64>().ok();
        let object = self.value(object);
        if has_several_keys(node) {
            object.forget();
            return Value::Unknown;
        }
        if let (Value::List(_), Some(i)) = (&object, index) {
            let items = self.items_of(&object).unwrap_or_default();
            let at = if i < 0 { items.len() as i64 + i } else { i };
            let item = usize::try_from(at).ok().and_then(|at| items.get(at).cloned());
            return item.unwrap_or(Value::Unknown);
        }
        if let (Value::Row(texts), Some(i)) = (&object, index) {
            let item = usize::try_from(i).ok().and_then(|at| texts.get(at));
            return item.map_or(Value::Unknown, |text| Value::Text(text.clone()));
        }
        let key = self.value(key);
        let found = match (&object, &key) {
            (Value::Dict(_), Value::Text(key)) => object
                .entries()
                .and_then(|entries| entries.into_iter().find(|(known, _)| known == key))
                .map(|(_, value)| value),
            _ => None,
        };
        found.unwrap_or_else(|| {
            // What it is may be changed through this name.
            object.forget();
            Value::Unknown
        })
    }

    /// A sum, or a part below a path.
    fn binary(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        let (Some(left), Some(right)) = (field("left"), field("right")) else {
            return Value::Unknown;
        };
        let (left, right) = (self.value(left), self.value(right));
        match field("operator").map(|operator| self.of(operator)) {
            Some("+") => self.sum(&left, &right),
            Some("/") => match (&left, right.text()) {
                (Value::Path(path), Some(part))
                    if !part.starts_with('/') && !part.contains("..") && matches!(right, Value::Text(_)) =>
                {
                    append(path, &format!("/{part}"))
                }
                _ => Value::Unknown,
            },
            _ => Value::Unknown,
        }
    }

    /// `and` and `or`.
    fn boolean(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        let (Some(left), Some(right)) = (field("left"), field("right")) else {
            return Value::Unknown;
        };
        let is_and = field("operator").is_some_and(|operator| self.of(operator) == "and");
        let left = self.value(left);
        match left.is_true() {
            Some(is) if is == is_and => self.value(right),
            Some(_) => left,
            None => {
                left.forget();
                self.forget(right);
                Value::Unknown
            }
        }
    }

    /// `yes if condition else no`.
    fn conditional(&mut self, node: Node<'t>) -> Value {
        let mut cursor = node.walk();
        let parts: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let [yes, condition, no] = parts.as_slice() else {
            self.forget(node);
            return Value::Unknown;
        };
        match self.value(*condition).is_true() {
            Some(true) => self.value(*yes),
            Some(false) => self.value(*no),
            None => {
                self.forget(*yes);
                self.forget(*no);
                Value::Unknown
            }
        }
    }

    fn string(&mut self, node: Node<'t>) -> Value {
        if let Some(text) = string(node, self.text).filter(|_| !self.of(node).starts_with(['b', 'B'])) {
            // `{{` in a text with places.
            return if self.of(node).starts_with(['f', 'F']) { Value::Unknown } else { Value::Text(text) };
        }
        let mut out = Value::Text(String::new());
        let mut cursor = node.walk();
        let parts: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        for part in parts {
            let next = match part.kind() {
                "string" => self.string(part),
                "string_start" | "string_end" => continue,
                // Escapes: those of line ends are in use.
                "string_content" => match unescaped(self.of(part)) {
                    Some(text) => Value::Text(text),
                    None => return Value::Unknown,
                },
                _ => return Value::Unknown,
            };
            out = self.sum(&out, &next);
        }
        match self.of(node).starts_with(['b', 'B', 'r', 'R', 'u', 'U', 'f', 'F']) {
            true => Value::Unknown,
            false => out,
        }
    }

    fn dictionary(&mut self, node: Node<'t>) -> Value {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let mut entries: Vec<(String, Value)> = Vec::new();
        let mut is_known = true;
        for child in children.into_iter().filter(|child| child.kind() != "comment") {
            let (Some(key), Some(value)) =
                (child.child_by_field_name("key"), child.child_by_field_name("value"))
            else {
                let inner = child.named_child(0).map_or(Value::Unknown, |inner| self.value(inner));
                match inner.entries().filter(|_| child.kind() == "dictionary_splat") {
                    Some(more) => more.into_iter().for_each(|(key, value)| put(&mut entries, key, value)),
                    None => is_known = false,
                }
                continue;
            };
            let (key, value) = (self.value(key), self.value(value));
            match key {
                Value::Text(key) if entries.len() < MAX_ENTRIES => put(&mut entries, key, value),
                _ => {
                    value.forget();
                    is_known = false;
                }
            }
        }
        match is_known {
            true => dict_of(entries),
            false => {
                entries.iter().for_each(|(_, value)| value.forget());
                Value::Unknown
            }
        }
    }

    /// A key and its value in a comprehension, as a tuple of texts.
    fn pair(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        let (Some(key), Some(value)) = (field("key"), field("value")) else { return Value::Unknown };
        match (self.value(key), self.value(value)) {
            (Value::Text(key), Value::Text(value)) => Value::Row([key, value].into()),
            (key, value) => {
                key.forget();
                value.forget();
                Value::Unknown
            }
        }
    }

    fn dictionary_comprehension(&mut self, node: Node<'t>) -> Value {
        let Some(items) = self.comprehension(node) else { return Value::Unknown };
        let mut entries: Vec<(String, Value)> = Vec::new();
        for item in items {
            match &item {
                Value::Row(pair) if pair.len() == 2 && entries.len() < MAX_ENTRIES => {
                    put(&mut entries, pair[0].clone(), Value::Text(pair[1].clone()));
                }
                _ => return Value::Unknown,
            }
        }
        dict_of(entries)
    }

    /// The values of a comprehension; `None` if they are not known.
    fn comprehension(&mut self, node: Node<'t>) -> Option<Vec<Value>> {
        let mut cursor = node.walk();
        let clauses: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let (Some(body), [_, first, conditions @ ..]) =
            (node.child_by_field_name("body"), clauses.as_slice())
        else {
            return None;
        };
        let field = |name| first.child_by_field_name(name);
        let is_simple = first.kind() == "for_in_clause" && conditions.iter().all(|c| c.kind() == "if_clause");
        let (Some(left), Some(right), true) = (field("left"), field("right"), is_simple) else {
            self.forget(node);
            return None;
        };
        let source = self.value(right);
        let Some(items) = self.items_of(&source) else {
            source.forget();
            self.forget(node);
            return None;
        };
        let size = source.size();
        self.locals.push(Frame::default());
        let mut out = Some(Vec::new());
        for item in items {
            self.assign(left, item);
            let mut is_taken = Some(true);
            for condition in conditions {
                if is_taken == Some(true) {
                    let value = condition.named_child(0).map_or(Value::Unknown, |inner| self.value(inner));
                    is_taken = value.is_true();
                }
            }
            match is_taken {
                Some(true) => {
                    let value = self.value(body);
                    if let Some(out) = &mut out {
                        out.push(value);
                    }
                }
                Some(false) => {}
                None => {
                    self.forget(body);
                    out = None;
                }
            }
        }
        self.locals.pop();
        if source.size() != size {
            // It changed on the way: Python sees that, this loop does not.
            source.forget();
            self.forget(node);
            return None;
        }
        out
    }

    fn attribute(&mut self, node: Node<'t>) -> Value {
        let field = |name| node.child_by_field_name(name);
        let (Some(object), Some(name)) = (field("object"), field("attribute")) else { return Value::Unknown };
        let name = self.of(name);
        match self.value(object) {
            Value::Imported(module) => Value::Imported(format!("{module}.{name}")),
            Value::Path(path) if name == "parent" && !path.is_empty() => {
                Value::Path(super::path::folder(&path))
            }
            other => {
                other.forget();
                Value::Unknown
            }
        }
    }

    fn comparison(&mut self, node: Node<'t>) -> Value {
        let mut cursor = node.walk();
        let parts: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let [left, right] = parts.as_slice() else {
            self.forget(node);
            return Value::Unknown;
        };
        let operator = self.text[left.end_byte()..right.start_byte()].split_whitespace().collect::<Vec<_>>();
        let (left, right) = (self.value(*left), self.value(*right));
        let known = match operator.join(" ").as_str() {
            // Equal texts need not be the same.
            "is" | "is not" if left.text().is_some() && right.text().is_some() => None,
            "==" | "is" => left.equals(&right),
            "!=" | "is not" => left.equals(&right).map(|is| !is),
            "in" => contains(&right, &left),
            "not in" => contains(&right, &left).map(|is| !is),
            _ => None,
        };
        known.map_or(Value::Unknown, Value::Bool)
    }

    /// The sum of two values, as a new one.
    pub(super) fn sum(&mut self, left: &Value, right: &Value) -> Value {
        match (left, right) {
            (Value::Text(a), Value::Text(b)) if a.len() + b.len() <= MAX_SIZE => {
                Value::Text(format!("{a}{b}"))
            }
            (Value::Path(path), Value::Text(text)) => append(path, text),
            (Value::List(_), Value::List(_)) => match (left.items(), right.items()) {
                (Some(mut a), Some(b)) if a.len() + b.len() <= MAX_SIZE / 16 => {
                    self.charge(64 * (a.len() + b.len()));
                    a.extend(b);
                    list_of(a)
                }
                _ => Value::Unknown,
            },
            _ => Value::Unknown,
        }
    }

    /// Adds items to a list in place.
    pub(super) fn extend(&mut self, list: &Shared<Vec<Value>>, more: Vec<Value>) {
        let more: Vec<Value> = more.into_iter().map(flat).collect();
        let mut items = list.borrow_mut();
        match items.as_mut() {
            Some(known) if known.len() + more.len() <= MAX_SIZE / 16 => known.extend(more),
            _ => *items = None,
        }
    }

    /// What iterating over a value gives; `None` if that is not known.
    pub(super) fn items_of(&mut self, value: &Value) -> Option<Vec<Value>> {
        match value {
            Value::List(_) => value.items(),
            Value::Dict(_) => Some(value.entries()?.into_iter().map(|(key, _)| Value::Text(key)).collect()),
            Value::File(path, is_at_end) => {
                if is_at_end.replace(true) {
                    return None;
                }
                let text = self.read(path)?;
                Some(text.split_inclusive('\n').map(|line| Value::Text(line.to_owned())).collect())
            }
            _ => None,
        }
    }
}

fn contains(whole: &Value, part: &Value) -> Option<bool> {
    match (whole, part) {
        (Value::Text(text), Value::Text(part)) => Some(text.contains(part.as_str())),
        (Value::List(_), Value::Text(_)) => {
            let found: Option<Vec<bool>> = whole.items()?.iter().map(|item| item.equals(part)).collect();
            Some(found?.into_iter().any(|is| is))
        }
        (Value::Dict(_), Value::Text(part)) => Some(whole.entries()?.iter().any(|(key, _)| key == part)),
        _ => None,
    }
}

/// Maximum number of keys of a dictionary literal.
const MAX_ENTRIES: usize = 1000;

/// The text of a literal without its escapes; `None` for those that are not read.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                c @ ('\\' | '\'' | '"') => out.push(c),
                '\n' => {}
                'a' | 'b' | 'f' | 'r' | 'v' | 'x' | 'u' | 'U' | 'N' | '0'..='7' => return None,
                // Python leaves any other escape as it is.
                other => out.extend(['\\', other]),
            },
            c => out.push(c),
        }
    }
    Some(out)
}
