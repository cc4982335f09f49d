//! Calls: of functions of the file, and of what Python has for texts, lists, files and paths.

use std::rc::Rc;

use tree_sitter::Node;

use super::effects::leaves_files_alone;
use super::flow::Flow;
use super::forget::REBINDERS;
use super::path::{folder, inside, join, plain_path};
use super::value::{Value, dict_of, into_dict, list_of, put};
use super::{Evaluator, Frame, MAX_SIZE, Passed, lines_of_requirements};

/// The arguments of a call.
struct Arguments {
    plain: Vec<Value>,
    named: Vec<(String, Value)>,
    /// Whether `*` or `**` of something unknown is among them.
    is_open: bool,
}

impl Arguments {
    fn all(&self) -> impl Iterator<Item = &Value> {
        self.plain.iter().chain(self.named.iter().map(|(_, value)| value))
    }

    fn named(&self, key: &str) -> Option<&Value> {
        self.named.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

impl<'t> Evaluator<'t, '_> {
    pub(super) fn call(&mut self, node: Node<'t>) -> Value {
        let (Some(function), Some(list)) =
            (node.child_by_field_name("function"), node.child_by_field_name("arguments"))
        else {
            return Value::Unknown;
        };
        if function.kind() == "attribute"
            && let (Some(object), Some(name)) =
                (function.child_by_field_name("object"), function.child_by_field_name("attribute"))
        {
            let object = self.value(object);
            let name = self.of(name);
            let arguments = self.arguments(list);
            return match &object {
                Value::Imported(module) => self.imported(&format!("{module}.{name}"), node, arguments),
                _ => self.method(&object, name, node, arguments),
            };
        }
        let is_name = function.kind() == "identifier";
        let name = self.of(function);
        let value = match is_name {
            true => self.lookup(name),
            false => Some(self.value(function)),
        };
        let arguments = self.arguments(list);
        match value {
            None if self.has_star_import => self.unknown(node, &arguments),
            None => self.builtin(name, node, arguments),
            Some(Value::Imported(full)) => self.imported(&full, node, arguments),
            Some(Value::Function(id)) => self.function(id, arguments),
            Some(_) => self.unknown_object(node, &arguments),
        }
    }

    fn arguments(&mut self, list: Node<'t>) -> Arguments {
        let mut out = Arguments { plain: Vec::new(), named: Vec::new(), is_open: false };
        if list.kind() == "generator_expression" {
            out.plain.push(self.value(list));
            return out;
        }
        let mut cursor = list.walk();
        let children: Vec<Node<'t>> = list.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "comment" => {}
                "keyword_argument" => {
                    let field = |name| child.child_by_field_name(name);
                    let (Some(name), Some(value)) = (field("name"), field("value")) else { continue };
                    let value = self.value(value);
                    out.named.push((self.of(name).to_owned(), value));
                }
                "dictionary_splat" => {
                    let inner = child.named_child(0).map_or(Value::Unknown, |inner| self.value(inner));
                    match inner.entries() {
                        Some(entries) => out.named.extend(entries),
                        None => out.is_open = true,
                    }
                }
                "list_splat" => {
                    self.forget(child);
                    out.is_open = true;
                }
                _ => {
                    let value = self.value(child);
                    out.plain.push(value);
                }
            }
        }
        out
    }

    /// A call of something that is not evaluated: it may change the lists that it gets, and the files that its name
    /// speaks of.
    fn unknown(&mut self, node: Node<'t>, arguments: &Arguments) -> Value {
        for value in arguments.all() {
            value.forget();
            // It may call what it gets.
            if let Value::Function(id) = value
                && let Some(function) = self.functions.get(id)
            {
                self.forget_body(*function);
            }
        }
        if self.may_write(node) {
            self.is_tree_unknown = true;
        }
        Value::Unknown
    }

    /// A call of what may have an object of a class of the file, whose methods may run.
    fn unknown_object(&mut self, node: Node<'t>, arguments: &Arguments) -> Value {
        let classes = self.opaque.iter().filter_map(|id| self.functions.get(id));
        let classes: Vec<Node<'t>> =
            classes.filter(|code| code.kind() == "class_definition").copied().collect();
        for class in classes {
            self.forget_body(class);
        }
        self.unknown(node, arguments)
    }

    /// A function of the file.
    fn function(&mut self, id: usize, arguments: Arguments) -> Value {
        let Some(function) = self.functions.get(&id).copied() else { return Value::Unknown };
        if self.opaque.contains(&id) {
            arguments.all().for_each(Value::forget);
            self.forget_body(function);
            return Value::Unknown;
        }
        let field = |name| function.child_by_field_name(name);
        let (Some(parameters), Some(body)) = (field("parameters"), field("body")) else {
            return Value::Unknown;
        };
        let mut frame = Frame { is_function: true, ..Frame::default() };
        let mut plain = arguments.plain.iter().cloned();
        let mut is_plain = !arguments.is_open && self.depth < super::MAX_DEPTH / 2;
        let mut cursor = parameters.walk();
        let all: Vec<Node<'t>> = parameters.named_children(&mut cursor).collect();
        for parameter in all.into_iter().filter(|parameter| parameter.kind() != "comment") {
            if let ("list_splat_pattern", Some(rest)) = (parameter.kind(), parameter.named_child(0)) {
                frame.names.insert(self.of(rest).to_owned(), list_of(plain.by_ref().collect()));
                continue;
            }
            let name = match parameter.kind() {
                "identifier" => Some(parameter),
                "typed_parameter" => parameter.named_child(0).filter(|child| child.kind() == "identifier"),
                "default_parameter" | "typed_default_parameter" => parameter.child_by_field_name("name"),
                _ => None,
            };
            let Some(name) = name.map(|name| self.of(name)) else {
                is_plain = false;
                continue;
            };
            let given = plain.next().or_else(|| arguments.named(name).cloned());
            // An open file can be read once, here or there.
            let given = given.map(|value| if let Value::File(..) = value { Value::Unknown } else { value });
            let value = match (given, parameter.child_by_field_name("value")) {
                (Some(value), _) => value,
                // Another one was evaluated where the function is defined.
                (None, Some(default)) if ["string", "none", "true", "false"].contains(&default.kind()) => {
                    self.value(default)
                }
                (None, Some(_)) => Value::Unknown,
                (None, None) => Value::Unknown,
            };
            frame.names.insert(name.to_owned(), value);
        }
        if !is_plain || plain.next().is_some() {
            arguments.all().for_each(Value::forget);
            self.forget_body(function);
            return Value::Unknown;
        }
        self.locals.push(frame);
        self.depth += 1;
        let flow = self.block(body);
        self.depth -= 1;
        self.locals.pop();
        match flow {
            Flow::Return(value) => value,
            Flow::Next => Value::None,
            // It raised: nothing behind the call runs.
            Flow::Stop => {
                self.passed = Some(None);
                Value::Unknown
            }
            _ => Value::Unknown,
        }
    }

    fn builtin(&mut self, name: &str, node: Node<'t>, arguments: Arguments) -> Value {
        let first = arguments.plain.first();
        match (name, first) {
            ("open", _) => self.open(node, &arguments),
            ("str", Some(value @ Value::Text(_))) if arguments.plain.len() == 1 => value.clone(),
            ("list" | "tuple", Some(value)) if arguments.plain.len() == 1 => {
                let value = value.clone();
                self.items_of(&value).map_or(Value::Unknown, list_of)
            }
            ("list" | "tuple", None) => Value::list(Vec::new()),
            ("dict", None) if !arguments.is_open => dict_of(arguments.named),
            ("print" | "len" | "isinstance" | "bool" | "int", _) => Value::Unknown,
            _ if REBINDERS.contains(&name) => {
                self.forget_all();
                self.unknown(node, &arguments)
            }
            _ => self.unknown(node, &arguments),
        }
    }

    fn imported(&mut self, full: &str, node: Node<'t>, arguments: Arguments) -> Value {
        let first = arguments.plain.first();
        match full {
            "setuptools.setup" | "distutils.core.setup" | "skbuild.setup" => {
                self.setup_called(arguments);
                Value::Unknown
            }
            "os.path.join" => join(&arguments.plain),
            "os.path.dirname" => match first {
                // The folder around the tree is not part of it.
                Some(Value::Path(path)) if !path.is_empty() => Value::Path(folder(path)),
                _ => Value::Unknown,
            },
            "os.path.abspath" | "os.path.realpath" | "os.path.normpath" | "pathlib.Path"
                if arguments.plain.len() != 1 =>
            {
                self.unknown(node, &arguments)
            }
            "os.path.abspath" | "os.path.realpath" | "os.path.normpath" | "pathlib.Path" => match first {
                Some(Value::Path(path)) => Value::Path(path.clone()),
                // Relative to the working directory, which is the tree's folder.
                Some(Value::Text(path)) => {
                    let read = if full == "pathlib.Path" { plain_path(path) } else { inside(path) };
                    read.map_or(Value::Unknown, Value::Path)
                }
                _ => Value::Unknown,
            },
            "os.path.exists" | "os.path.isfile" => match first.and_then(Value::text).and_then(plain_path) {
                // What is not there may not have been read yet.
                Some(path) if self.read(&path).is_some() => Value::Bool(true),
                _ => Value::Unknown,
            },
            "os.chdir" if matches!(first, Some(Value::Path(path)) if path.is_empty()) => Value::None,
            "os.getcwd" | "pathlib.Path.cwd" => Value::Path(String::new()),
            "io.open" => self.open(node, &arguments),
            "codecs.open" => match self.open(node, &arguments) {
                // It leaves the ends of lines as they are.
                Value::File(path, _) if (self.files)(&path).is_some_and(|text| text.contains('\r')) => {
                    Value::Unknown
                }
                file => file,
            },
            "re.findall" => match arguments.plain.as_slice() {
                [Value::Text(pattern), Value::Text(text)] if arguments.named.is_empty() => {
                    // Each match may look at the rest of the text.
                    self.charge(64 * text.len() + text.len() * text.len() / 16);
                    matches_of(pattern, text).unwrap_or(Value::Unknown)
                }
                _ => Value::Unknown,
            },
            "pkg_resources.parse_requirements" => {
                let lines = match first {
                    Some(Value::Text(text)) => lines_of_requirements(text),
                    Some(value) => {
                        let value = value.clone();
                        self.items_of(&value).and_then(|items| {
                            let texts: Option<Vec<String>> =
                                items.iter().map(|item| item.plain_text().map(str::to_owned)).collect();
                            lines_of_requirements(&texts?.join("\n"))
                        })
                    }
                    None => None,
                };
                // Requirements are written in another way than they were read, and no list is empty.
                let is_same = |line: &String| !line.contains(char::is_whitespace) || line.contains(';');
                let lines = lines.filter(|lines| !lines.is_empty() && lines.iter().all(is_same));
                lines.map_or(Value::Unknown, Value::texts)
            }
            _ => {
                // What it does to the files of the tree is not known.
                self.is_tree_unknown |= !leaves_files_alone(full);
                self.unknown(node, &arguments)
            }
        }
    }

    /// `open(path)`: a file of the tree, unless it is opened for writing.
    fn open(&mut self, node: Node<'t>, arguments: &Arguments) -> Value {
        let path = arguments.plain.first().or_else(|| arguments.named("file"));
        let path = path.and_then(Value::text).and_then(plain_path);
        let is_utf8 = |value: &Value| {
            value.plain_text().is_some_and(|name| ["utf-8", "utf8"].contains(&name.to_lowercase().as_str()))
        };
        let is_read_otherwise = arguments.plain.len() > 2 || !arguments.named("encoding").is_none_or(is_utf8);
        let mode = arguments.plain.get(1).or_else(|| arguments.named("mode"));
        let is_read = match mode {
            None => true,
            Some(Value::Text(mode)) => !mode.contains(['w', 'a', 'x', '+', 'b']),
            Some(_) => false,
        };
        match path.filter(|_| !arguments.is_open) {
            Some(_) if is_read && is_read_otherwise => Value::Unknown,
            Some(path) if is_read => Value::File(path, Rc::default()),
            Some(path) => {
                self.written.insert(path);
                Value::Unknown
            }
            None if is_read && !self.may_write(node) => Value::Unknown,
            None => {
                self.is_tree_unknown = true;
                Value::Unknown
            }
        }
    }

    fn method(&mut self, object: &Value, name: &str, node: Node<'t>, arguments: Arguments) -> Value {
        let plain = arguments.plain.as_slice();
        let is_closed = arguments.named.is_empty() && !arguments.is_open;
        match (object, name, plain) {
            (Value::Text(text), ..) if is_closed => {
                self.charge(text.len());
                method_of_text(text, name, plain)
            }
            (Value::File(path, is_at_end), "read", []) => match is_at_end.replace(true) {
                true => Value::Unknown,
                false => self.read(path).map_or(Value::Unknown, Value::Text),
            },
            (Value::File(..), "readlines", []) => self.items_of(object).map_or(Value::Unknown, list_of),
            (Value::Path(path), "read_text", []) => self.read(path).map_or(Value::Unknown, Value::Text),
            (Value::Path(path), "exists" | "is_file", []) => match self.read(path) {
                Some(_) => Value::Bool(true),
                None => Value::Unknown,
            },
            (Value::Path(path), "resolve" | "absolute", []) => Value::Path(path.clone()),
            (Value::Path(path), "joinpath", parts) => join(&[&[Value::Path(path.clone())], parts].concat()),
            (Value::Path(path), "open", _) => {
                let mut all = vec![Value::Path(path.clone())];
                all.extend(arguments.plain.iter().cloned());
                self.open(node, &Arguments { plain: all, ..arguments })
            }
            (Value::List(list), "append", [item]) => {
                self.extend(list, vec![item.clone()]);
                Value::None
            }
            (Value::List(list), "extend", [more]) => {
                let more = more.clone();
                match self.items_of(&more) {
                    Some(items) => self.extend(list, items),
                    None => object.forget(),
                }
                Value::None
            }
            (Value::List(_), "copy", []) => self.items_of(object).map_or(Value::Unknown, list_of),
            (Value::Dict(_), "copy", []) => object.entries().map_or(Value::Unknown, dict_of),
            (Value::Dict(_), "get", [Value::Text(key)]) => match object.entries() {
                Some(entries) => {
                    entries.into_iter().find(|(known, _)| known == key).map_or(Value::None, |(_, v)| v)
                }
                None => Value::Unknown,
            },
            (Value::Dict(_), "keys", []) => self.items_of(object).map_or(Value::Unknown, list_of),
            (Value::Dict(known), "update", [more]) if is_closed => {
                match more.entries() {
                    Some(more) => {
                        let more: Vec<(String, Value)> =
                            more.into_iter().map(|(key, value)| (key, into_dict(value))).collect();
                        if let Some(entries) = known.borrow_mut().as_mut() {
                            more.into_iter().for_each(|(key, value)| put(entries, key, value));
                        }
                    }
                    None => object.forget(),
                }
                Value::None
            }
            (Value::Unknown, ..) => self.unknown_object(node, &arguments),
            _ => {
                object.forget();
                self.is_tree_unknown |= matches!(object, Value::Path(_));
                self.unknown(node, &arguments)
            }
        }
    }

    fn setup_called(&mut self, arguments: Arguments) {
        self.passed = Some(match self.passed {
            None => {
                let is_whole = !arguments.is_open && arguments.plain.is_empty();
                let arguments =
                    arguments.named.into_iter().map(|(key, value)| (key, as_passed(value))).collect();
                Some(Passed { arguments, is_whole, ..Passed::default() })
            }
            Some(_) => None,
        });
    }
}

/// A value as it is now: what is changed later was not passed.
fn as_passed(value: Value) -> Value {
    match &value {
        Value::List(_) => value.items().map_or(Value::Unknown, Value::list),
        Value::Dict(_) => match value.entries() {
            Some(entries) => {
                Value::dict(entries.into_iter().map(|(key, value)| (key, as_passed(value))).collect())
            }
            None => Value::Unknown,
        },
        _ => value,
    }
}

/// `re.findall`, for what this engine and Python's read alike: short plain texts and patterns of ASCII with literals, classes,
/// groups that are not repeated, and single quantifiers. `None` otherwise.
fn matches_of(pattern: &str, text: &str) -> Option<Value> {
    const QUANTIFIERS: [char; 4] = ['*', '+', '?', '{'];
    let is_line = |text: &str| text.is_ascii() && !text.contains(|c: char| c.is_ascii_control());
    // Without what is escaped: a class or place (`\d`, `\b`, `\<`) and a reference to a group are not read.
    let mut bare = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none_or(|c| c.is_ascii_alphanumeric() || c == '<' || c == '>') => {
                return None;
            }
            '\\' => bare.push('.'),
            c => bare.push(c),
        }
    }
    let is_shared = bare.matches("(?").count() == bare.matches("(?:").count()
        && !["[[", "[^[", "[:", "&&", "--", "~~", "||"].iter().any(|part| bare.contains(part));
    let pairs = || bare.chars().zip(bare.chars().skip(1));
    // `a*?`, `a++`, `(a*)+`; `(?:` and `)?` are read.
    let is_stacked = pairs().any(|(c, next)| {
        QUANTIFIERS.contains(&next) && (['*', '+', '?', '}'].contains(&c) || c == ')' && next != '?')
    });
    let is_short = pattern.len() <= 200 && text.len() <= 1_000;
    if !is_line(pattern) || !is_line(text) || !is_shared || is_stacked || !is_short {
        return None;
    }
    let regex = regex_lite::RegexBuilder::new(pattern).size_limit(1 << 16).nest_limit(20).build().ok()?;
    // After an empty match the two go on in other ways.
    if regex.is_match("") {
        return None;
    }
    let mut out = Vec::new();
    for found in regex.captures_iter(text) {
        // An empty match is followed by another one in Python.
        let whole = found.get(0).filter(|whole| !whole.is_empty())?;
        let groups = found.iter().skip(1).map(|group| group.map_or("", |group| group.as_str()).to_owned());
        out.push(match found.len() {
            1 => Value::Text(whole.as_str().to_owned()),
            2 => Value::Text(groups.last().unwrap_or_default()),
            _ => Value::Row(groups.collect()),
        });
    }
    Some(list_of(out))
}

/// The methods of texts that projects use for lists of requirements and versions.
fn method_of_text(text: &str, name: &str, arguments: &[Value]) -> Value {
    let texts: Vec<&str> = arguments.iter().filter_map(Value::plain_text).collect();
    if texts.len() != arguments.len() {
        return match (name, arguments) {
            ("join", [list]) => {
                let Some(items) = list.items() else { return Value::Unknown };
                let parts: Option<Vec<&str>> = items.iter().map(Value::plain_text).collect();
                let is_small = |parts: &Vec<&str>| {
                    parts.iter().map(|part| part.len() + text.len()).sum::<usize>() <= MAX_SIZE
                };
                let parts = parts.filter(is_small);
                parts.map_or(Value::Unknown, |parts| Value::Text(parts.join(text)))
            }
            _ => Value::Unknown,
        };
    }
    match (name, texts.as_slice()) {
        ("strip", []) => Value::Text(text.trim().to_owned()),
        ("lstrip", []) => Value::Text(text.trim_start().to_owned()),
        ("rstrip", []) => Value::Text(text.trim_end().to_owned()),
        ("strip", [set]) => Value::Text(text.trim_matches(|c| set.contains(c)).to_owned()),
        ("lstrip", [set]) => Value::Text(text.trim_start_matches(|c| set.contains(c)).to_owned()),
        ("rstrip", [set]) => Value::Text(text.trim_end_matches(|c| set.contains(c)).to_owned()),
        ("lower", []) => Value::Text(text.to_lowercase()),
        ("encode" | "decode", _) => Value::Unknown,
        ("splitlines", []) => Value::texts(text.lines().map(str::to_owned)),
        ("split", []) => Value::texts(text.split_whitespace().map(str::to_owned)),
        ("split", [by]) if !by.is_empty() => Value::texts(text.split(by).map(str::to_owned)),
        ("replace", [from, to]) if !from.is_empty() && text.len() * (to.len() + 1) <= MAX_SIZE => {
            Value::Text(text.replace(from, to))
        }
        ("startswith", [start]) => Value::Bool(text.starts_with(start)),
        ("endswith", [end]) => Value::Bool(text.ends_with(end)),
        _ => Value::Unknown,
    }
}
