//! `[tool.poetry]` of a pyproject.toml: dependencies with alternatives, references, optional ones of extras, groups.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::specifier;
use crate::formats::imported::{Context, ImportError, Imported, Optional, extras_of};
use crate::formats::uv;
use crate::model::text::{clean, normalized_name};

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(in crate::formats) struct Poetry {
    #[serde(default)]
    pub dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    extras: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    group: BTreeMap<String, Group>,
    #[serde(default)]
    dev_dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pub source: Vec<toml::Value>,
}

#[derive(Deserialize, Default)]
struct Group {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
}

impl Poetry {
    /// The names of its extras.
    pub fn extras(&self) -> impl Iterator<Item = &String> {
        self.extras.keys()
    }

    /// The names of its dependency groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let old = (!self.dev_dependencies.is_empty() && !self.group.contains_key("dev")).then_some("dev");
        self.group.keys().map(String::as_str).chain(old)
    }

    /// Adds the dependencies, those of the extras that are asked for, and the groups that are asked for.
    ///
    /// # Errors
    /// When a requirement cannot be parsed.
    pub fn add(
        &self,
        out: &mut Imported,
        context: Context<'_>,
        (name, base): (&str, &Path),
        optional: &Optional,
    ) -> Result<(), ImportError> {
        let asked = |extra: &str| {
            optional.all_extras
                || optional.extras.iter().any(|one| normalized_name(one) == normalized_name(extra))
        };
        let of_asked_extra = |package: &str| {
            self.extras.iter().any(|(extra, packages)| {
                asked(extra) && packages.iter().any(|one| normalized_name(one) == normalized_name(package))
            })
        };
        for (package, value) in &self.dependencies {
            for one in alternatives(value) {
                let is_optional = one.get("optional").and_then(toml::Value::as_bool) == Some(true);
                if !is_optional || of_asked_extra(package) {
                    dependency(out, package, one, (context, name, base))?;
                }
            }
        }
        let others: Vec<&str> =
            self.extras.keys().map(String::as_str).filter(|extra| !asked(extra)).collect();
        out.leave_out_parts("[tool.poetry.extras]", "an extra", "--extra", &others);
        let groups = self.group.iter().map(|(group, table)| (group.as_str(), &table.dependencies));
        let old = [("dev", &self.dev_dependencies)].into_iter().filter(|(_, table)| !table.is_empty());
        let mut others = Vec::new();
        for (group, table) in groups.chain(old) {
            if !optional.groups.iter().any(|one| normalized_name(one) == normalized_name(group)) {
                others.push(group);
                continue;
            }
            for (package, value) in table {
                for one in alternatives(value) {
                    dependency(out, package, one, (context, name, base))?;
                }
            }
        }
        out.leave_out_parts("[tool.poetry.group]", "a dependency group", "--group", &others);
        Ok(())
    }
}

/// One constraint, or several of which each has its marker.
pub(super) fn alternatives(value: &toml::Value) -> Vec<&toml::Value> {
    match value {
        toml::Value::Array(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// A dependency: a specifier, or a table with `version`, `git`, `path` or `url`, `extras`, and conditions.
fn dependency(
    out: &mut Imported,
    package: &str,
    value: &toml::Value,
    (context, name, base): (Context<'_>, &str, &Path),
) -> Result<(), ImportError> {
    let text = |key: &str| value.get(key).and_then(toml::Value::as_str);
    let version = value.as_str().or_else(|| text("version"));
    if package == "python" {
        if let Some(python) = version.map(specifier).filter(|python| !python.is_empty()) {
            out.python.get_or_insert(python);
        }
        return Ok(());
    }
    let extras = extras_of(value);
    let markers: Vec<String> = text("markers")
        .map(|marker| format!("({marker})"))
        .into_iter()
        .chain(text("python").into_iter().flat_map(|python| of_python(&specifier(python))))
        .chain(text("platform").map(|platform| format!("sys_platform == '{}'", clean(platform, 40))))
        .collect();
    let marker = if markers.is_empty() { String::new() } else { format!(" ; {}", markers.join(" and ")) };
    match (uv::reference(value), version) {
        (Some(reference), _) => {
            out.push_line(context, &format!("{package}{extras} @ {reference}{marker}"), base, name)
        }
        (None, Some(version)) if !version.contains("||") => {
            out.push(&format!("{package}{extras}{}{marker}", specifier(version)), name)
        }
        _ => {
            out.leave_out(&format!("[tool.poetry.dependencies] {package}"));
            Ok(())
        }
    }
}

/// The markers of specifiers of Python: `>=3.9,<3.12`.
fn of_python(specifiers: &str) -> Vec<String> {
    let one = |part: &str| {
        let part = part.trim();
        let end = part.find(|c: char| !"<>=!~".contains(c))?;
        let (operator, version) = part.split_at(end);
        let variable = match version.trim_end_matches(".*").matches('.').count() {
            0 | 1 => "python_version",
            _ => "python_full_version",
        };
        Some(format!("{variable} {operator} '{version}'"))
    };
    specifiers.split(',').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::imported::nothing;

    fn imported(text: &str, optional: &Optional) -> (Vec<String>, Vec<String>) {
        let poetry: Poetry = toml::from_str(text).unwrap();
        let mut out = Imported::into_folder(Path::new("."));
        poetry.add(&mut out, nothing(), ("pyproject.toml", Path::new(".")), optional).unwrap();
        (out.requirements.into_iter().map(|(text, _)| text).collect(), out.left_out)
    }

    #[test]
    fn what_poetry_can_say_of_a_dependency() {
        let text = r#"
[dependencies]
python = "^3.10"
a = "^1.2"
b = [{ version = "1.0", markers = "sys_platform == 'win32'" }, { version = ">=2", python = ">=3.11,<3.13" }]
c = { git = "https://x.example/c.git", rev = "abc", extras = ["e"] }
d = { version = "*", optional = true }
e = { version = "^3", platform = "linux" }
f = "^1 || ^2"
[extras]
more = ["d"]
other = ["a"]
[group.test.dependencies]
pytest = "*"
"#;
        let (found, left_out) = imported(text, &Optional::default());
        assert_eq!(
            found,
            [
                "a>=1.2,<2",
                "b==1.0 ; (sys_platform == 'win32')",
                "b>=2 ; python_version >= '3.11' and python_version < '3.13'",
                "c[e] @ git+https://x.example/c.git@abc",
                "e>=3,<4 ; sys_platform == 'linux'",
            ]
        );
        assert_eq!(left_out.len(), 4, "{left_out:?}");
        let optional = Optional {
            extras: vec!["More".into()],
            groups: vec!["test".into()],
            all_extras: false,
            ..Optional::default()
        };
        let (found, _) = imported(text, &optional);
        assert!(found.contains(&"d".to_owned()) && found.contains(&"pytest".to_owned()), "{found:?}");
    }
}
