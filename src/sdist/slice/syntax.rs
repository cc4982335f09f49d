//! Walking a syntax tree, without recursion: a hostile file nests deeper than the stack allows.

use tree_sitter::Node;

/// Maximum depth of a syntax tree: the functions below climb and recurse.
const MAX_DEPTH: usize = 300;

/// The value of a plain string literal; adjacent ones are joined.
pub(in crate::sdist) fn string(node: Node<'_>, text: &str) -> Option<String> {
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

/// Whether a tree is deeper than [`MAX_DEPTH`].
pub(super) fn is_too_deep(root: Node<'_>) -> bool {
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
pub(super) fn is_label(node: Node<'_>) -> bool {
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
pub(in crate::sdist) fn descendants(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    walk(root, |_| true)
}

/// Like [`descendants`], but not into nested functions: they count where they are called.
pub(in crate::sdist) fn own_descendants(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
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
