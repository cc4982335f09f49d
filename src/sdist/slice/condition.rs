//! Which branches Python 3 takes, and what decides between the others.

use std::collections::HashSet;

use tree_sitter::Node;

use super::Slice;
use super::names::of_the_machine;
use super::syntax::{own_descendants, string};

/// The oldest and newest minor of Python 3 for which a condition must have the same value.
const PYTHON_MINORS: std::ops::RangeInclusive<u64> = 6..=20;

/// Whether a statement is executed.
pub(super) enum Branch {
    /// Never with Python 3.
    Dead,
    /// If the conditions hold that were added.
    Live,
    /// It depends on this.
    Guess(String),
}

impl<'t> Slice<'t> {
    /// Whether a statement is in a branch that Python 3 takes; adds the conditions that are not decided.
    pub(super) fn branch(&self, place: Node<'t>, conditions: &mut Vec<Node<'t>>) -> Branch {
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

    /// The value of a condition on the Python version, if all versions of Python 3 give the same.
    pub(super) fn constant(&self, condition: Node<'t>) -> Option<bool> {
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
