//! pyproject.toml: PEP 621, and the tables of uv and poetry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::parts::{self, Entry, Lists};
use crate::formats::imported::{Context, ImportError, Imported, Optional, pytorch_index, unreadable};
use crate::formats::poetry::Poetry;
use crate::formats::uv::{self, UvTables, Workspace};
use crate::formats::{requirements, setup};
use crate::model::cutoff::Cutoff;
use crate::model::listing::Listing;
use crate::model::part::Part;
use crate::model::text::{clean, normalized_name, requirement_name};

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Document {
    project: Option<Project>,
    #[serde(default)]
    dependency_groups: BTreeMap<String, Vec<toml::Value>>,
    #[serde(default)]
    tool: Tool,
}

impl Document {
    /// Whether one of its tables can state requirements.
    fn states_requirements(&self) -> bool {
        self.project.is_some()
            || !self.dependency_groups.is_empty()
            || !self.tool.poetry.dependencies.is_empty()
            || !self.tool.pdm.dev_dependencies.is_empty()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Project {
    name: Option<String>,
    requires_python: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    dynamic: Vec<String>,
}

#[derive(Deserialize, Default)]
struct Tool {
    #[serde(default)]
    uv: uv::Settings,
    #[serde(default)]
    poetry: Poetry,
    #[serde(default)]
    pdm: Pdm,
    #[serde(default)]
    setuptools: toml::Table,
    #[serde(default)]
    hatch: toml::Table,
    #[serde(default)]
    rye: toml::Table,
    /// The tables of envlock.toml, where this file is the manifest.
    #[serde(default)]
    envlock: toml::Table,
}

impl Tool {
    /// Takes note of the indexes that the tables of the tools name.
    fn indexes(&self, out: &mut Imported) {
        let rye = self.rye.get("sources").and_then(toml::Value::as_array);
        for (what, rows) in [
            ("[[tool.uv.index]]", self.uv.index.as_slice()),
            ("[[tool.poetry.source]]", &self.poetry.source),
            ("[[tool.pdm.source]]", &self.pdm.source),
            ("[[tool.rye.sources]]", rye.map_or(&[], Vec::as_slice)),
        ] {
            rows.iter().for_each(|row| out.indexes(what, row, Listing::Index));
        }
        let pip = self.uv.others.get("pip").and_then(toml::Value::as_table);
        for (table, values) in [("[tool.uv]", Some(&self.uv.others)), ("[tool.uv.pip]", pip)] {
            for key in ["index-url", "extra-index-url", "find-links"] {
                if let Some(value) = values.and_then(|values| values.get(key)) {
                    out.indexes(&format!("{table} {key}"), value, Listing::of_option(key));
                }
            }
        }
    }
}

/// From where packages are taken.
struct Sources<'d> {
    rows: uv::Sources,
    /// The names of the indexes that are the pytorch index.
    pytorch: BTreeSet<&'d str>,
}

impl Sources<'_> {
    fn of(settings: &uv::Settings) -> Sources<'_> {
        let is_pytorch = |index: &&toml::Value| {
            let url = index.get("url").and_then(toml::Value::as_str);
            url.is_some_and(|url| pytorch_index(url).is_some())
        };
        let named = settings.index.iter().filter(is_pytorch).filter_map(|index| index.get("name")?.as_str());
        Sources { rows: settings.sources(), pytorch: named.collect() }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Pdm {
    #[serde(default)]
    dev_dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    source: Vec<toml::Value>,
}

/// Reads a pyproject.toml; `base` is its folder.
pub(in crate::formats) fn read(
    mut out: Imported,
    context: Context<'_>,
    text: &str,
    (name, base): (&str, &Path),
    optional: &Optional,
) -> Result<Imported, ImportError> {
    let document: Document = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    // What envlock wrote for uv is no wish of the user.
    let users = UvTables::default().written_into(text).ok();
    let document = users.and_then(|users| toml::from_str(&users).ok()).unwrap_or(document);
    // Without tables that state requirements, setuptools reads those of setup.py and setup.cfg.
    if !document.states_requirements() && setup::is_in(context, base) {
        return setup::read(out, context, (name, base), optional);
    }
    let project = document.project.unwrap_or_default();
    out.name.clone_from(&project.name);
    out.python.clone_from(&project.requires_python);
    if !document.tool.envlock.is_empty() {
        out.leave_out_because("[tool.envlock]", "this file is a manifest of envlock, which needs no import");
    }
    let sources = &Sources::of(&document.tool.uv);
    for dependency in &project.dependencies {
        sourced(&mut out, context, dependency, sources, (name, base))?;
    }
    if project.dynamic.iter().any(|key| key == "dependencies") {
        let files = files_of_dependencies(&document.tool);
        if files.is_empty() {
            match context.files.requirements_of(base) {
                Ok(stated) => setup::add(&mut out, &stated, name, &Optional::default())?,
                Err(why) => {
                    out.leave_out_because("[project] dependencies", &format!("they are dynamic: {why}"))
                }
            }
        }
        for file in files {
            requirements::include(&mut out, context, &base.join(file), false)?;
        }
    }
    let own = project.name.as_deref().map(normalized_name);
    let mut lists: Lists<()> = Lists::new();
    for (extra, lines) in &project.optional_dependencies {
        lists.insert(Part::extra(extra), lines.iter().map(|line| (Entry::Line(line.clone()), ())).collect());
    }
    for (group, values) in &document.dependency_groups {
        lists.insert(Part::group(group), values.iter().map(|value| (Entry::of_group(value), ())).collect());
    }
    for (group, value) in &document.tool.pdm.dev_dependencies {
        let values = value.as_array().into_iter().flatten();
        lists
            .entry(Part::group(group))
            .or_insert_with(|| values.map(|value| (Entry::of_group(value), ())).collect());
    }
    let mut asked: Vec<Part> = optional.extras.iter().map(|extra| Part::extra(extra)).collect();
    asked.extend(optional.groups.iter().map(|group| Part::group(group)));
    // Extras and groups of poetry are in tables of its own.
    let poetry = &document.tool.poetry;
    let of_poetry: Vec<Part> =
        poetry.extras().map(|extra| Part::extra(extra)).chain(poetry.groups().map(Part::group)).collect();
    if let Some(part) = asked.iter().find(|part| !lists.contains_key(*part) && !of_poetry.contains(part)) {
        let known = lists.keys().chain(&of_poetry);
        return Err(unknown(part, known, name));
    }
    asked.retain(|part| lists.contains_key(part));
    if optional.all_extras {
        asked.extend(lists.keys().filter(|part| matches!(part, Part::Extra(_))).cloned());
    }
    let parts = parts::expand(&lists, own.as_deref(), asked);
    for (line, ()) in &parts.lines {
        sourced(&mut out, context, line, sources, (name, base))?;
    }
    for entry in &parts.other {
        out.leave_out(entry);
    }
    for part in &parts.unknown {
        out.leave_out_because(&part.to_string(), &format!("{name} does not have it"));
    }
    let extras =
        project.optional_dependencies.keys().filter(|extra| !parts.read.contains(&Part::extra(extra)));
    let extras: Vec<&str> = extras.map(String::as_str).collect();
    out.leave_out_parts("[project.optional-dependencies]", "an extra", "--extra", &extras);
    let groups = document.dependency_groups.keys().chain(document.tool.pdm.dev_dependencies.keys());
    let groups: Vec<&str> =
        groups.filter(|group| !parts.read.contains(&Part::group(group))).map(String::as_str).collect();
    out.leave_out_parts("[dependency-groups]", "a dependency group", "--group", &groups);
    document.tool.indexes(&mut out);
    out.constraints.extend(document.tool.uv.constraint_dependencies.iter().cloned());
    out.overrides.extend(document.tool.uv.override_dependencies.iter().cloned());
    match document.tool.uv.exclude_newer.as_ref().map(toml::Value::as_str) {
        Some(Some(text)) if Cutoff::parse(text, context.now).is_ok() => {
            out.exclude_newer = Some(text.to_owned());
        }
        Some(_) => out.leave_out("[tool.uv] exclude-newer"),
        None => {}
    }
    if document.tool.uv.exclude_newer_package.is_some() {
        out.leave_out("[tool.uv] exclude-newer-package");
    }
    document.tool.poetry.add(&mut out, context, (name, base), optional)?;
    Ok(out)
}

/// An unknown extra or group, with those that exist.
fn unknown<'p>(part: &Part, known: impl Iterator<Item = &'p Part>, name: &str) -> ImportError {
    let is_same_kind = |other: &&Part| std::mem::discriminant(*other) == std::mem::discriminant(part);
    let known: Vec<&str> = known.filter(is_same_kind).map(Part::name).collect();
    let kind = match part {
        Part::Extra(_) => "extra",
        Part::Group(_) => "dependency group",
    };
    let error = ImportError::usage(format!("{} has no {kind} `{}`", clean(name, 80), clean(part.name(), 60)));
    match known.is_empty() {
        true => error.hint(format!("it has no {kind} at all")),
        false => error.hint(format!("it has {}", known.join(", "))),
    }
}

/// The files that setuptools or hatch read the dependencies from.
fn files_of_dependencies(tool: &Tool) -> Vec<String> {
    let of_setuptools =
        tool.setuptools.get("dynamic").and_then(|d| d.get("dependencies")).and_then(|d| d.get("file"));
    let hooks = tool.hatch.get("metadata").and_then(|m| m.get("hooks"));
    let of_hatch = hooks.and_then(|h| h.get("requirements_txt")).and_then(|h| h.get("files"));
    let mut out = Vec::new();
    for value in [of_setuptools, of_hatch].into_iter().flatten() {
        match value {
            toml::Value::String(file) => out.push(file.clone()),
            other => out
                .extend(other.as_array().into_iter().flatten().filter_map(|f| f.as_str().map(str::to_owned))),
        }
    }
    out
}

/// Imports a dependency, from where `[tool.uv.sources]` takes it.
fn sourced(
    out: &mut Imported,
    context: Context<'_>,
    line: &str,
    sources: &Sources<'_>,
    (name, base): (&str, &Path),
) -> Result<(), ImportError> {
    let package = requirement_name(line);
    let Some(row) = sources.rows.row(&package).filter(|_| !line.contains(" @ ")) else {
        return out.push_line(context, line, base, name);
    };
    let member = |package: &str| {
        let folder = Workspace::of(context.files, base)?.member(context.files, package)?;
        Some(context.path_from(&folder, base))
    };
    let redirected = uv::redirect(line, &package, row, &member);
    if redirected.is_lost_member {
        // A package of this name on an index is another one.
        out.leave_out_because(line, "it is a member of the workspace, and its folder is not there");
    }
    if redirected.indexes.iter().any(|index| !sources.pytorch.contains(index.as_str())) {
        out.leave_out_index(&format!("[tool.uv.sources] {package}"), Listing::Index);
    }
    for line in &redirected.lines {
        out.push_line(context, line, base, name)?;
    }
    // Another index: the requirement stays.
    if redirected.indexes.is_empty() { Ok(()) } else { out.push_line(context, line, base, name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::imported::nothing;

    #[test]
    fn every_dialect_in_one_file() {
        let text = r#"
[project]
requires-python = ">=3.11"
dependencies = ["torch>=2.8", "numpy"]
[project.optional-dependencies]
dev = ["pytest"]
[tool.uv]
constraint-dependencies = ["numpy<3"]
[tool.uv.sources]
torch = { index = "x" }
[tool.poetry.dependencies]
python = "^3.10"
requests = { version = "^2.30", extras = ["socks"] }
mine = { git = "https://x/" }
"#;
        let read = |text| {
            super::read(
                Imported::default(),
                nothing(),
                text,
                ("pyproject.toml", Path::new(".")),
                &Optional::default(),
            )
        };
        let out = read(text).unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["torch>=2.8", "numpy", "mine @ git+https://x/", "requests[socks]>=2.30,<3"]);
        assert_eq!(
            (out.python.as_deref(), out.constraints.as_slice()),
            (Some(">=3.11"), ["numpy<3".to_owned()].as_slice())
        );
        assert_eq!(
            out.left_out,
            [
                "`[tool.uv.sources] torch`: an index has a table of its own in envlock.toml",
                "`[project.optional-dependencies] dev`: an extra; `--extra dev` imports it",
            ]
        );
        let error = read("[project]\ndependencies = 3\n").unwrap_err();
        assert!(error.message.starts_with("pyproject.toml:2: "), "{}", error.message);
    }

    #[test]
    fn no_index_is_dropped_in_silence() {
        for (setting, what) in [
            ("[tool.uv]\nindex-url = URL", "[tool.uv] index-url"),
            ("[tool.uv]\nextra-index-url = [URL]", "[tool.uv] extra-index-url"),
            ("[tool.uv]\nfind-links = [URL]", "[tool.uv] find-links"),
            ("[tool.uv.pip]\nextra-index-url = [URL]", "[tool.uv.pip] extra-index-url"),
            ("[[tool.uv.index]]\nname = \"a\"\nurl = URL", "[[tool.uv.index]]"),
            ("[[tool.poetry.source]]\nname = \"a\"\nurl = URL", "[[tool.poetry.source]]"),
            ("[[tool.pdm.source]]\nname = \"a\"\nurl = URL", "[[tool.pdm.source]]"),
            ("[[tool.rye.sources]]\nname = \"a\"\nurl = URL", "[[tool.rye.sources]]"),
        ] {
            let read = |url: &str| {
                let text =
                    format!("[project]\nname = \"x\"\n{}\n", setting.replace("URL", &format!("\"{url}\"")));
                super::read(
                    Imported::default(),
                    nothing(),
                    &text,
                    ("pyproject.toml", Path::new(".")),
                    &Optional::default(),
                )
            };
            let other = read("https://h.example/simple").unwrap();
            let why = match what.contains("find-links") {
                true => {
                    "an `[[index]]` table with this URL and the packages that come from it takes its place"
                }
                false => "an index has a table of its own in envlock.toml",
            };
            let told = format!("`{what} https://h.example/simple`: {why}");
            assert!(
                other.left_out_index != what.contains("find-links") && other.left_out == [told],
                "{setting}: {:?}",
                other.left_out
            );
            let pytorch = read("https://download.pytorch.org/whl/cu126").unwrap();
            assert!(pytorch.left_out.is_empty() && !pytorch.left_out_index, "{setting}");
            assert!(pytorch.pytorch_index.is_some_and(|found| found.contains("cu126")), "{setting}");
        }
    }
}
