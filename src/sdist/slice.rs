//! Which parts of the machine a value in a Python file depends on, from its syntax tree: a backward slice.
//!
//! From an expression, the names in it are followed to their assignments, to the changes of them (`append`, `+=`), to
//! the conditions around those, and into the local functions that compute them. Where this meets the environment, the
//! platform, the Python version, an installed package or a child process, the value is not the same on every machine.
//! Conditions on the Python version that hold for every Python 3 are decided; the branch of Python 2 is left out.

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

/// Maximum depth of a syntax tree: the functions below climb and recurse.
const MAX_DEPTH: usize = 300;
/// Maximum number of syntax nodes that a slice visits.
const MAX_STEPS: usize = 200_000;
/// The oldest and newest minor of Python 3 for which a condition must have the same value.
const PYTHON_MINORS: std::ops::RangeInclusive<u64> = 6..=20;

/// What makes a value depend on the machine: dotted names, of which everything below counts too.
const OF_THE_MACHINE: [&str; 48] = [
    "os.environ",
    "os.getenv",
    "os.name",
    "os.uname",
    "os.system",
    "os.popen",
    "os.cpu_count",
    "sys.platform",
    "sys.version",
    "sys.version_info",
    "sys.maxsize",
    "sys.argv",
    "sys.implementation",
    "platform",
    "subprocess",
    "sysconfig",
    "distutils.sysconfig",
    "distutils.spawn",
    "ctypes",
    "shutil.which",
    "socket",
    "urllib",
    "requests",
    "datetime",
    "time",
    "torch",
    "tensorflow",
    "jax",
    "paddle",
    "cupy",
    "pkg_resources",
    "importlib.metadata",
    "importlib.util",
    "git",
    "getpass",
    "sys.executable",
    "sys.prefix",
    "sys.base_prefix",
    "sys.byteorder",
    "sys.hexversion",
    "sys.modules",
    "multiprocessing",
    "psutil",
    "struct.calcsize",
    "packaging.tags",
    "packaging.markers",
    "distutils.util.get_platform",
    "numpy",
];

/// Modules that a list of requirements may be read with. What another module computes is not known.
const READERS: [&str; 26] = [
    "os",
    "sys",
    "re",
    "io",
    "codecs",
    "json",
    "ast",
    "glob",
    "pathlib",
    "itertools",
    "functools",
    "collections",
    "configparser",
    "textwrap",
    "string",
    "typing",
    "operator",
    "copy",
    "tokenize",
    "setuptools",
    "distutils",
    "pip",
    "pkg_resources",
    "tomllib",
    "shlex",
    "__future__",
];

/// Built-in functions and names that mean the same on every machine.
const BUILTINS: [&str; 71] = [
    "open",
    "str",
    "list",
    "dict",
    "set",
    "tuple",
    "sorted",
    "len",
    "range",
    "enumerate",
    "zip",
    "map",
    "filter",
    "any",
    "all",
    "print",
    "int",
    "float",
    "bool",
    "isinstance",
    "repr",
    "format",
    "sum",
    "min",
    "max",
    "reversed",
    "iter",
    "next",
    "type",
    "Exception",
    "ImportError",
    "ModuleNotFoundError",
    "IOError",
    "OSError",
    "KeyError",
    "ValueError",
    "IndexError",
    "AttributeError",
    "FileNotFoundError",
    "RuntimeError",
    "SystemExit",
    "UnicodeDecodeError",
    "NameError",
    "TypeError",
    "None",
    "True",
    "False",
    "self",
    "cls",
    "__file__",
    "__name__",
    "__doc__",
    "object",
    "super",
    "frozenset",
    "bytes",
    "hasattr",
    "callable",
    "staticmethod",
    "property",
    "classmethod",
    "unicode",
    "basestring",
    "chr",
    "ord",
    "abs",
    "round",
    "slice",
    "exit",
    "quit",
    "_",
];

/// `pkg_resources` functions that read text, not the environment.
const HARMLESS: [&str; 3] =
    ["pkg_resources.parse_requirements", "pkg_resources.parse_version", "pkg_resources.Requirement"];

/// Methods that change the list or dict that they are called on.
const CHANGES: [&str; 12] = [
    "append",
    "extend",
    "insert",
    "update",
    "remove",
    "setdefault",
    "add",
    "pop",
    "clear",
    "discard",
    "popitem",
    "__iadd__",
];

/// A place where a name gets or changes its value.
#[derive(Clone, Copy)]
struct Binding<'t> {
    /// What decides the value; a function definition for functions.
    value: Node<'t>,
    /// The statement, for the conditions around it.
    place: Node<'t>,
    /// The key of `name["key"] = value`.
    key: Option<Node<'t>>,
}

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
}

/// The value of a plain string literal; adjacent ones are joined.
pub(super) fn string(node: Node<'_>, text: &str) -> Option<String> {
    match node.kind() {
        "concatenated_string" | "parenthesized_expression" => {
            let mut cursor = node.walk();
            node.named_children(&mut cursor).map(|part| string(part, text)).collect()
        }
        "string" => {
            let mut cursor = node.walk();
            let mut out = String::new();
            for part in node.named_children(&mut cursor) {
                match part.kind() {
                    "interpolation" => return None,
                    "string_content" if part.named_child_count() == 0 => {
                        out.push_str(&text[part.byte_range()])
                    }
                    // An escape sequence: requirements have none.
                    "string_content" => return None,
                    _ => {}
                }
            }
            Some(out)
        }
        _ => None,
    }
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

    /// The text of a node.
    pub fn text_of(&self, node: Node<'t>) -> &'t str {
        self.of(node)
    }

    fn of(&self, node: Node<'t>) -> &'t str {
        &self.text[node.byte_range()]
    }

    /// Records parameters, `global` declarations and calls of `setup`.
    fn declare(&mut self, node: Node<'t>) {
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
    fn bind(&mut self, node: Node<'t>) {
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

    fn bind_target(&mut self, target: Node<'t>, value: Node<'t>, place: Node<'t>) {
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

    fn bind_import(&mut self, node: Node<'t>) {
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

    /// The number of times that a name is used.
    pub fn uses(&self, name: &str) -> usize {
        descendants(self.root).filter(|node| node.kind() == "identifier" && self.of(*node) == name).count()
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

    /// The arguments of a call with these names, also those passed as `**dict`.
    pub fn arguments(&self, call: Node<'t>, names: &[&'static str]) -> Vec<(&'static str, Node<'t>)> {
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
                        out.extend(named(self.of(name)).map(|name| (name, value)));
                    }
                }
                "pair" => {
                    if let (Some(key), Some(value)) = (field("key"), field("value")) {
                        let key = string(key, self.text).unwrap_or_default();
                        out.extend(named(&key).map(|name| (name, value)));
                    }
                }
                "identifier" => {
                    for binding in self.bound(self.of(node), self.scope(node)) {
                        if !self.may_contain(binding, names) {
                            continue;
                        }
                        let mut conditions = Vec::new();
                        match self.branch(binding.place, &mut conditions) {
                            Branch::Dead => continue,
                            Branch::Guess(_) => out.extend(names.first().map(|name| (*name, binding.place))),
                            Branch::Live => {
                                out.extend(conditions.into_iter().filter_map(|c| Some((*names.first()?, c))));
                            }
                        }
                        match binding.key.map(|key| string(key, self.text)) {
                            Some(Some(key)) => out.extend(named(&key).map(|name| (name, binding.value))),
                            // A computed key may be any of them.
                            Some(None) => out.extend(names.first().map(|name| (*name, binding.value))),
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
                            out.extend(names.first().map(|name| (*name, node)));
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
                _ => out.extend(names.first().map(|name| (*name, node))),
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

    /// The bindings of a name in a scope or the scopes around it.
    fn bound(&self, name: &str, scope: usize) -> Vec<Binding<'t>> {
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
    fn scope(&self, node: Node<'t>) -> usize {
        let mut parent = node.parent();
        while let Some(node) = parent {
            if node.kind() == "function_definition" {
                return node.id();
            }
            parent = node.parent();
        }
        self.root.id()
    }

    /// Whether a statement is in a branch that Python 3 takes; adds the conditions that are not decided.
    fn branch(&self, place: Node<'t>, conditions: &mut Vec<Node<'t>>) -> Branch {
        let mut child = place;
        while let Some(parent) = child.parent() {
            match parent.kind() {
                "function_definition" | "module" => break,
                "if_statement" | "elif_clause" | "conditional_expression" | "while_statement" => {
                    // In `a if condition else b` the condition is the second of three.
                    let condition = match parent.kind() {
                        "conditional_expression" => parent.named_child(1),
                        _ => parent.child_by_field_name("condition"),
                    };
                    if let Some(condition) = condition.filter(|c| c.id() != child.id()) {
                        let is_else = ["elif_clause", "else_clause"].contains(&child.kind());
                        match self.constant(condition) {
                            Some(value) if value == is_else => return Branch::Dead,
                            Some(_) => {}
                            None => conditions.push(condition),
                        }
                    }
                }
                "match_statement" => conditions.extend(parent.child_by_field_name("subject")),
                "boolean_operator" => {
                    let left = parent.child_by_field_name("left");
                    conditions.extend(left.filter(|left| left.id() != child.id()));
                }
                "with_statement"
                    if !self.of(parent).lines().next().unwrap_or_default().contains("suppress") => {}
                "try_statement" | "with_statement" => {
                    // Whether the body fails decides between this branch and the next.
                    let body = parent.child_by_field_name("body");
                    conditions.extend(
                        body.filter(|body| child.id() != body.id() || parent.kind() == "try_statement"),
                    );
                    let imports = body.into_iter().flat_map(own_descendants);
                    for import in imports.filter(|n| n.kind().starts_with("import_")) {
                        if let Some(what) = self.of_machine_import(import) {
                            return Branch::Guess(format!(
                                "whether `{what}` can be imported (line {})",
                                import.start_position().row + 1
                            ));
                        }
                    }
                }
                _ => {}
            }
            child = parent;
        }
        Branch::Live
    }

    /// The module of an import whose success depends on the machine.
    fn of_machine_import(&self, import: Node<'t>) -> Option<String> {
        let module =
            import.child_by_field_name("module_name").or_else(|| import.child_by_field_name("name"))?;
        of_the_machine(self.of(module)).map(str::to_owned)
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

    /// The value of a condition on the Python version, if all versions of Python 3 give the same.
    fn constant(&self, condition: Node<'t>) -> Option<bool> {
        match condition.kind() {
            "true" => Some(true),
            "false" => Some(false),
            "parenthesized_expression" => self.constant(condition.named_child(0)?),
            "not_operator" => self.constant(condition.child_by_field_name("argument")?).map(|value| !value),
            "boolean_operator" => {
                let left = self.constant(condition.child_by_field_name("left")?);
                let right = self.constant(condition.child_by_field_name("right")?);
                let is_and = self.of(condition.child_by_field_name("operator")?) == "and";
                match (left, right) {
                    (Some(a), Some(b)) => Some(if is_and { a && b } else { a || b }),
                    (Some(decides), None) | (None, Some(decides)) if decides != is_and => Some(decides),
                    _ => None,
                }
            }
            "call" => {
                // `sys.version.startswith("3.4")`
                let function = self.of(condition.child_by_field_name("function")?);
                let prefix = condition.child_by_field_name("arguments")?.named_child(0)?;
                let prefix = string(prefix, self.text).filter(|_| function == "sys.version.startswith")?;
                let values: HashSet<bool> =
                    PYTHON_MINORS.map(|minor| format!("3.{minor}.").starts_with(&prefix)).collect();
                (values.len() == 1).then(|| values.contains(&true))
            }
            "attribute" | "identifier" => {
                let text = self.of(condition);
                let is_of_six = |name: &str| {
                    let full = self.imported.get(name).into_iter().flatten();
                    text == format!("six.{name}")
                        || full.into_iter().any(|full| *full == format!("six.{name}"))
                };
                match (is_of_six("PY2"), is_of_six("PY3")) {
                    (true, _) => Some(false),
                    (_, true) => Some(true),
                    // A name for a comparison.
                    _ if condition.kind() == "identifier" => match self.literal(condition)? {
                        value if value.kind() == "comparison_operator" => self.constant(value),
                        _ => None,
                    },
                    _ => None,
                }
            }
            "comparison_operator" if condition.named_child_count() == 2 => {
                let left = self.of(condition.named_child(0)?).replace([' ', '\n'], "");
                if left == "__name__" {
                    let operator = self.of(condition.child_by_field_name("operators")?);
                    let name = string(condition.named_child(1)?, self.text)?;
                    return (operator == "==" && name == "__main__").then_some(true);
                }
                let operator = self.of(condition.child_by_field_name("operators")?);
                let other = self.of(condition.named_child(1)?);
                if left == "sys.hexversion" {
                    let other = [u64::from_str_radix(other.strip_prefix("0x")?, 16).ok()?];
                    let of = |minor: u64| compare(&[0x0300_0000 + (minor << 16)], operator, &other);
                    let values: HashSet<bool> = PYTHON_MINORS.map(of).collect::<Option<_>>()?;
                    return (values.len() == 1).then(|| values.contains(&true));
                }
                let right = integers(other)?;
                let values: HashSet<bool> = PYTHON_MINORS
                    .map(|minor| {
                        let version: Vec<u64> = match left.as_str() {
                            "sys.version_info" | "version_info" => vec![3, minor, 99],
                            "sys.version_info[:2]" => vec![3, minor],
                            "sys.version_info[0]" | "sys.version_info.major" | "sys.version_info[:1]" => {
                                vec![3]
                            }
                            _ => return None,
                        };
                        compare(&version, operator, &right)
                    })
                    .collect::<Option<_>>()?;
                (values.len() == 1).then(|| values.contains(&true))
            }
            _ => None,
        }
    }
}

/// Whether a statement is executed.
enum Branch {
    /// Never with Python 3.
    Dead,
    /// If the conditions hold that were added.
    Live,
    /// It depends on this.
    Guess(String),
}

fn compare(version: &[u64], operator: &str, other: &[u64]) -> Option<bool> {
    Some(match operator {
        "<" => version < other,
        "<=" => version <= other,
        ">" => version > other,
        ">=" => version >= other,
        "==" => version == other,
        "!=" => version != other,
        _ => return None,
    })
}

/// `3`, `(3, 6)` or `[3, 6]`.
fn integers(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    inner.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect()
}

/// The row of [`OF_THE_MACHINE`] that a dotted name is or lies below.
fn of_the_machine(name: &str) -> Option<&'static str> {
    let is_below =
        |row: &str| name.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if HARMLESS.iter().any(|row| is_below(row)) {
        return None;
    }
    OF_THE_MACHINE.iter().copied().find(|row| is_below(row))
}

/// Whether a tree is deeper than [`MAX_DEPTH`].
fn is_too_deep(root: Node<'_>) -> bool {
    let mut cursor = root.walk();
    let mut depth = 0;
    loop {
        if cursor.goto_first_child() {
            depth += 1;
            if depth > MAX_DEPTH {
                return true;
            }
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
            depth -= 1;
        }
    }
}

/// Whether an identifier is not a name that is looked up: an attribute, a keyword, a parameter.
fn is_label(node: Node<'_>) -> bool {
    let Some(parent) = node.parent() else { return false };
    let is_field = |field| parent.child_by_field_name(field).is_some_and(|child| child.id() == node.id());
    match parent.kind() {
        "attribute" => is_field("attribute"),
        "keyword_argument" | "default_parameter" => is_field("name"),
        "parameters" | "lambda_parameters" | "global_statement" | "nonlocal_statement" => true,
        "typed_parameter"
        | "dotted_name"
        | "aliased_import"
        | "list_splat_pattern"
        | "dictionary_splat_pattern" => true,
        _ => false,
    }
}

/// A node and everything below it, in the order of the text.
fn descendants(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    walk(root, |_| true)
}

/// Like [`descendants`], but not into nested functions: they count where they are called.
fn own_descendants(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    walk(root, move |node| node.id() == root.id() || node.kind() != "function_definition")
}

/// Walks a tree without recursion: a hostile file nests deeper than the stack allows.
fn walk<'t>(root: Node<'t>, enter: impl Fn(Node<'t>) -> bool) -> impl Iterator<Item = Node<'t>> {
    let mut cursor = root.walk();
    let mut is_done = false;
    std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        let node = cursor.node();
        if !(enter(node) && cursor.goto_first_child()) {
            loop {
                if cursor.node().id() == root.id() {
                    is_done = true;
                    break;
                }
                if cursor.goto_next_sibling() {
                    break;
                }
                if !cursor.goto_parent() {
                    is_done = true;
                    break;
                }
            }
        }
        Some(node)
    })
}
