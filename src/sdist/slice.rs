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
const OF_THE_MACHINE: [&str; 35] = [
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
];

/// `pkg_resources` functions that read text, not the environment.
const HARMLESS: [&str; 3] =
    ["pkg_resources.parse_requirements", "pkg_resources.parse_version", "pkg_resources.Requirement"];

/// Methods that change the list or dict that they are called on.
const CHANGES: [&str; 7] = ["append", "extend", "insert", "update", "remove", "setdefault", "add"];

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
    /// The dotted name of an imported name.
    imported: HashMap<&'t str, String>,
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
        };
        let nodes: Vec<Node<'t>> = descendants(root).collect();
        for node in nodes {
            out.bind(node);
        }
        Some(out)
    }

    fn of(&self, node: Node<'t>) -> &'t str {
        &self.text[node.byte_range()]
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
            "import_statement" | "import_from_statement" => self.bind_import(node),
            _ => {}
        }
    }

    fn bind_target(&mut self, target: Node<'t>, value: Node<'t>, place: Node<'t>) {
        let mut queue = vec![(target, None)];
        while let Some((target, key)) = queue.pop() {
            match target.kind() {
                "identifier" => {
                    let scope = self.scope(place);
                    let binding = Binding { value, place, key };
                    self.bindings.entry((scope, self.of(target))).or_default().push(binding);
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
            match (alias, module) {
                (Some(alias), _) => self.imported.insert(self.of(alias), full),
                (None, Some(_)) => self.imported.insert(path, full),
                // `import a.b` binds `a`.
                (None, None) => {
                    let first = path.split('.').next().unwrap_or(path);
                    self.imported.insert(first, first.to_owned())
                }
            };
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

    /// Whether the file starts pip as a child process: a list with the word `pip` is passed to a call.
    pub fn calls_pip(&self) -> bool {
        let words = descendants(self.root).filter(|node| string(*node, self.text).as_deref() == Some("pip"));
        words.filter_map(|word| word.parent()).any(|list| {
            let call = std::iter::successors(list.parent(), |node| node.parent()).take(4);
            list.kind() == "list" && call.into_iter().any(|node| node.kind() == "argument_list")
        })
    }

    /// The calls of a function: `setup(...)`, `setuptools.setup(...)`.
    pub fn calls_of(&self, function: &'t str) -> impl Iterator<Item = Node<'t>> {
        descendants(self.root).filter(move |node| {
            let called = node.child_by_field_name("function").filter(|_| node.kind() == "call");
            called.is_some_and(|called| self.of(called).rsplit('.').next() == Some(function))
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
                _ => {}
            }
        }
        out
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
    pub fn depends_on(&self, expression: Node<'t>, python2: &mut Vec<String>) -> Option<String> {
        let mut queue = vec![expression];
        let mut seen = HashSet::new();
        while let Some(start) = queue.pop() {
            if !seen.insert(start.id()) {
                continue;
            }
            if seen.len() > MAX_STEPS {
                return Some("too much to follow".to_owned());
            }
            for node in own_descendants(start) {
                if let Some(found) = self.of_machine(node) {
                    return Some(format!("`{found}` (line {})", node.start_position().row + 1));
                }
                if node.kind() != "identifier" || is_label(node) {
                    continue;
                }
                for binding in self.bound(self.of(node), self.scope(node)) {
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
        conditions.into_iter().find_map(|condition| self.depends_on(condition, &mut Vec::new()))
    }

    /// Adds what a function returns, and the conditions around it.
    fn returned(&self, function: Node<'t>, queue: &mut Vec<Node<'t>>) -> Option<String> {
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
                "try_statement" => {
                    // Whether the body fails decides between this branch and the next.
                    let body = parent.child_by_field_name("body");
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

    /// The part of the machine that a name or an attribute refers to.
    fn of_machine(&self, node: Node<'t>) -> Option<String> {
        match node.kind() {
            "identifier" if is_label(node) => None,
            "identifier" => {
                // Only as the base of an attribute does more of the name follow.
                let is_base = node.parent().is_some_and(|p| p.kind() == "attribute");
                let full = self.imported.get(self.of(node))?;
                (!is_base).then(|| of_the_machine(full).map(str::to_owned))?
            }
            "attribute" => {
                let is_inner = node.parent().is_some_and(|p| p.kind() == "attribute");
                if is_inner {
                    return None;
                }
                let text = self.of(node);
                let (base, rest) = text.split_once('.')?;
                let full = self.imported.get(base.trim())?;
                of_the_machine(&format!("{full}.{rest}")).map(str::to_owned)
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
            "attribute" | "identifier" => match self.of(condition) {
                "six.PY2" | "PY2" => Some(false),
                "six.PY3" | "PY3" => Some(true),
                _ => None,
            },
            "comparison_operator" if condition.named_child_count() == 2 => {
                let left = self.of(condition.named_child(0)?).replace([' ', '\n'], "");
                if left == "__name__" {
                    return Some(true);
                }
                let right = integers(self.of(condition.named_child(1)?))?;
                let operator = self.of(condition.child_by_field_name("operators")?);
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
        "parameters" => true,
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
