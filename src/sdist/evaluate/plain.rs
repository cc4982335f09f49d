//! Which scripts are evaluated at all: plain ones, without what could change a value behind the evaluation's back.
//!
//! Code that runs later (lambdas, classes, decorators, functions passed around), names that are bound by other means than
//! assignments, files that are written or read in part, other modules that are changed: a script with any of these is not
//! evaluated, however harmless it may be.

use std::collections::HashSet;

use tree_sitter::Node;

use crate::sdist::slice::{descendants, string};

/// Syntax that is not evaluated.
const KINDS: [&str; 21] = [
    "lambda",
    "match_statement",
    "named_expression",
    "global_statement",
    "nonlocal_statement",
    "class_definition",
    "decorated_definition",
    "set_comprehension",
    "yield",
    "await",
    "delete_statement",
    "while_statement",
    "finally_clause",
    "exec_statement",
    "wildcard_import",
    "interpolation",
    "list_splat",
    "dictionary_splat_pattern",
    "slice",
    "ERROR",
    "type_alias_statement",
];

/// Names of what changes names, files, modules or the working directory, or reads a file in part; and of what makes
/// setuptools write other metadata than the arguments state.
const NAMES: [&str; 80] = [
    "globals",
    "locals",
    "vars",
    "setattr",
    "delattr",
    "getattr",
    "eval",
    "exec",
    "execfile",
    "compile",
    "copy_file",
    "copy_tree",
    "builtins",
    "modules",
    "inspect",
    "gc",
    "ctypes",
    "runpy",
    "importlib",
    "imp",
    "write",
    "writelines",
    "write_text",
    "write_bytes",
    "system",
    "popen",
    "Popen",
    "subprocess",
    "shutil",
    "rmtree",
    "tempfile",
    "chdir",
    "fchdir",
    "rename",
    "renames",
    "remove",
    "unlink",
    "removedirs",
    "rmdir",
    "makedirs",
    "mkdir",
    "copy",
    "copyfile",
    "copytree",
    "move",
    "touch",
    "symlink",
    "truncate",
    "extract",
    "extractall",
    "seek",
    "readline",
    "readinto",
    "next",
    "iter",
    "keys",
    "values",
    "items",
    "popitem",
    "setdefault",
    "pop",
    "clear",
    "insert",
    "reverse",
    "sort",
    "Distribution",
    "distclass",
    "options",
    "command_options",
    "newline",
    "errors",
    "buffering",
    "opener",
    "path",
    "parents",
    "fdopen",
    "register",
    "pbr",
    "egg_info",
    "dist_info",
];

/// Expressions in which a comment stands in the place of an operand.
const EXPRESSIONS: [&str; 14] = [
    "parenthesized_expression",
    "conditional_expression",
    "binary_operator",
    "boolean_operator",
    "comparison_operator",
    "not_operator",
    "list_comprehension",
    "for_in_clause",
    "if_clause",
    "subscript",
    "attribute",
    "call",
    "assignment",
    "return_statement",
];

/// Whether a script is plain; `has_module` says which modules stand beside it.
pub(super) fn is_plain(root: Node<'_>, text: &str, has_module: &dyn Fn(&str) -> bool) -> bool {
    if text.contains(super::is_unusual)
        || text.contains('\r')
        || text.contains("coding:")
        || text.contains("coding=")
    {
        let is_utf8 = |line: &str| {
            let Some((_, rest)) = line.split_once("coding") else { return true };
            let name = rest.trim_start_matches([':', '=']).trim_start();
            let name =
                name.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default();
            ["utf-8", "utf8"].contains(&name.to_lowercase().as_str())
        };
        let declares_utf8 = text.lines().take(2).all(is_utf8);
        if text.contains(super::is_unusual) || text.contains('\r') || !declares_utf8 {
            return false;
        }
    }
    let of = |node: Node<'_>| &text[node.byte_range()];
    let nodes: Vec<Node<'_>> = descendants(root).collect();
    let functions: HashSet<&str> = nodes
        .iter()
        .filter(|node| node.kind() == "function_definition")
        .filter_map(|node| node.child_by_field_name("name").map(of))
        .collect();
    let has_tuple = nodes.iter().any(|node| {
        ["tuple", "list_splat_pattern"].contains(&node.kind())
            || node.kind() == "identifier" && of(*node) == "tuple"
    });
    nodes.iter().all(|node| {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            kind if KINDS.contains(&kind) => false,
            "comment" => node.parent().is_none_or(|parent| !EXPRESSIONS.contains(&parent.kind())),
            // Python takes other spellings of Unicode for the same name.
            "identifier" if !of(*node).is_ascii() => false,
            "identifier" => is_plain_name(*node, of(*node), text, &functions),
            // Annotations are evaluated too.
            "type" => !descendants(*node).any(|inner| inner.kind() == "call"),
            "import_statement" | "import_from_statement" => {
                let mut cursor = node.walk();
                let modules: Vec<Node<'_>> = match field("module_name") {
                    Some(module) => vec![module],
                    None => node.children_by_field_name("name", &mut cursor).collect(),
                };
                // A module of the tree in place of the one that is meant, or with effects of its own.
                modules.into_iter().all(|module| {
                    let first = of(module).split(['.', ' ']).next().unwrap_or_default();
                    !first.is_empty() && !has_module(first)
                })
            }
            // Its name is seen only from there, and its code sees names of the other.
            "function_definition" => !is_in_function(*node) && !of(*node).starts_with("async"),
            "default_parameter" | "typed_default_parameter" => field("value").is_some_and(|value| {
                string(value, text).is_some() || ["none", "true", "false"].contains(&value.kind())
            }),
            "augmented_assignment" => {
                !has_tuple && field("left").is_some_and(|left| left.kind() == "identifier")
            }
            "assignment" => field("left").is_some_and(|left| match left.kind() {
                "identifier" => field("right").is_none_or(|right| !opens(right, of)),
                "subscript" => {
                    left.child_by_field_name("value").is_some_and(|value| value.kind() == "identifier")
                }
                _ => false,
            }),
            "for_statement" => field("left").is_some_and(|left| left.kind() == "identifier"),
            "for_in_clause" => field("left").is_some_and(|left| is_pattern(left)),
            // What a loop goes over at once; elsewhere its code runs later.
            "generator_expression" => {
                node.parent().is_some_and(|parent| parent.kind() == "for_in_clause") && is_pure(*node, of)
            }
            // `*names` as the last parameter.
            "list_splat_pattern" => node.parent().is_some_and(|parent| {
                let last = parent.named_child(parent.named_child_count().saturating_sub(1) as u32);
                parent.kind() == "parameters" && last.is_some_and(|last| last.id() == node.id())
            }),
            // A file is read once.
            "as_pattern" => node.child_by_field_name("alias").is_some_and(|alias| {
                let body = with_of(*node).and_then(|with| with.child_by_field_name("body"));
                let uses = body
                    .into_iter()
                    .flat_map(descendants)
                    .filter(|inner| inner.kind() == "identifier" && of(*inner) == of(alias));
                with_of(*node).is_none() || uses.count() == 1
            }),
            "keyword_argument" if field("name").is_some_and(|name| of(name) == "encoding") => {
                let value = field("value").and_then(|value| string(value, text)).unwrap_or_default();
                ["utf-8", "utf8"].contains(&value.to_lowercase().as_str())
            }
            "string" => !of(*node).split(['\'', '"']).next().unwrap_or_default().contains(['b', 'B']),
            "escape_sequence" => ["\\n", "\\t", "\\\\", "\\'", "\\\""].contains(&of(*node)),
            _ => true,
        }
    })
}

/// Whether a name is none of those above, and no function that is passed around. `os.path` is the module.
fn is_plain_name(node: Node<'_>, name: &str, text: &str, functions: &HashSet<&str>) -> bool {
    let parent = node.parent();
    let is_field = |kind: &str, field: &str| {
        parent.is_some_and(|parent| {
            parent.kind() == kind
                && parent.child_by_field_name(field).is_some_and(|found| found.id() == node.id())
        })
    };
    if name.starts_with("__") && !["__file__", "__name__", "__version__"].contains(&name) {
        return false;
    }
    let is_bound = is_field("assignment", "left")
        || is_field("for_statement", "left")
        || is_field("for_in_clause", "left");
    if ["__file__", "__name__"].contains(&name) && is_bound {
        return false;
    }
    if name == "path" {
        let of_os = parent.is_some_and(|parent| &text[parent.byte_range()] == "os.path");
        return of_os || !is_field("attribute", "attribute");
    }
    // A folder that an earlier build left.
    if ["shutil", "rmtree"].contains(&name) {
        let is_imported = parent.is_some_and(|parent| {
            parent.kind() == "dotted_name"
                && parent.parent().is_some_and(|of| of.kind() == "import_statement")
        });
        let is_called = parent.is_some_and(|parent| {
            &text[parent.byte_range()] == "shutil.rmtree"
                && parent.parent().is_some_and(|of| of.kind() == "call")
        });
        return is_imported || is_called;
    }
    // Keywords of `setup` have the names of methods.
    if NAMES.contains(&name) {
        return is_field("keyword_argument", "name")
            && !["distclass", "options", "command_options"].contains(&name)
            && !["newline", "errors", "buffering", "opener"].contains(&name);
    }
    if name == "parent" && is_field("attribute", "attribute") {
        let again = parent.and_then(|parent| parent.parent()).is_some_and(|outer| {
            outer.kind() == "attribute" && text[outer.byte_range()].ends_with(".parent")
        });
        return !again;
    }
    let is_import = parent.is_some_and(|parent| ["dotted_name", "aliased_import"].contains(&parent.kind()));
    if name == "open" && !is_import && !is_field("call", "function") && !is_field("attribute", "attribute") {
        return false;
    }
    let is_called = is_field("call", "function") || is_field("function_definition", "name");
    let is_label = is_field("attribute", "attribute") || is_field("keyword_argument", "name");
    is_called || is_label || !functions.contains(name)
}

/// What a generator may call: it runs between the steps of the loop that uses it.
const PURE: [&str; 8] = ["findall", "strip", "lstrip", "rstrip", "split", "lower", "startswith", "endswith"];

fn is_pure<'t>(generator: Node<'t>, of: impl Fn(Node<'t>) -> &'t str) -> bool {
    descendants(generator).filter(|node| node.kind() == "call").all(|call| {
        let function = call.child_by_field_name("function").map(&of).unwrap_or_default();
        function.rsplit_once('.').is_some_and(|(_, name)| PURE.contains(&name))
    })
}

/// Whether the target of a comprehension is a name, or names side by side.
fn is_pattern(left: Node<'_>) -> bool {
    let mut cursor = left.walk();
    left.kind() == "identifier"
        || ["pattern_list", "tuple_pattern"].contains(&left.kind())
            && left.named_children(&mut cursor).all(|name| name.kind() == "identifier")
}

fn is_in_function(node: Node<'_>) -> bool {
    let mut at = node.parent();
    while let Some(parent) = at {
        if ["function_definition", "class_definition"].contains(&parent.kind()) {
            return true;
        }
        at = parent.parent();
    }
    false
}

/// Whether an expression is an open file.
fn opens<'t>(node: Node<'t>, of: impl Fn(Node<'t>) -> &'t str) -> bool {
    node.kind() == "call"
        && node
            .child_by_field_name("function")
            .is_some_and(|function| of(function).rsplit('.').next() == Some("open"))
}

/// The `with` statement of an item.
fn with_of(node: Node<'_>) -> Option<Node<'_>> {
    let mut at = node.parent();
    while let Some(parent) = at {
        match parent.kind() {
            "with_statement" => return Some(parent),
            "with_item" | "with_clause" => at = parent.parent(),
            _ => return None,
        }
    }
    None
}
