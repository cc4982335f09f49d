//! `envlock.toml`, or the same in a `pyproject.toml`: the requirements of the project.

mod conda_table;
mod index_table;
pub(crate) mod of_uv;
mod pyproject;
mod schedule_table;
mod stack_table;
mod target;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;

use super::failure::Failure;
use super::files::{PIXI, PYPROJECT};
use crate::formats::pyproject::parts::{self, Lists};
use crate::model::conda::CONDA_FORGE;
use crate::model::cutoff::Cutoff;
use crate::model::only::{InvalidOnly, Only};
use crate::model::part::Part;
use crate::model::request::{Limit, PythonRequest, Request, StatedMetadata, UserRequirement};
use crate::model::text::{clean, conflict_marker, normalized_name, without_logins};
use crate::model::timestamp::is_day;
use index_table::RawIndex;
pub(crate) use schedule_table::{NodeKind, SiteNodes};
use stack_table::{gpu_names, stack_item, stack_value};
pub(crate) use stack_table::{stack_limit, stack_specifier};
use target::target_row;
pub(crate) use target::{TargetRow, TargetTable, narrowed};

/// The indexes that exist without `[[index]]`.
pub(crate) const BUILT_IN: [&str; 2] = ["pypi", "pytorch"];

/// A manifest, parsed and checked.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub name: Option<String>,
    pub request: Request,
    /// Index names and their URLs.
    pub indexes: Vec<(String, String)>,
    /// The URL that replaces `pypi`'s.
    pub pypi: Option<String>,
    /// Built-in indexes whose URL the manifest replaces.
    pub redefined: Vec<String>,
    /// Described machines, in the order of the file.
    pub targets: Vec<TargetRow>,
    /// Normalized names of the packages that `sync` may build.
    pub allow_build: Vec<String>,
    /// `[export] environment-yml`: whether `resolve` writes conda's environment files, as it does unless this is false.
    pub environment_yml: Option<bool>,
    /// Variables that reach an installer besides the usual ones.
    pub pass_env: Vec<String>,
    /// The day of the oldest compatibility data that the project takes, `2026-11-20`.
    pub registry_minimum: Option<String>,
    /// The bounds of envlock's own tables, where the file has those of another tool too.
    pub own_bounds: OwnBounds,
    /// Whether the time until when files are candidates is that of `[tool.uv]`.
    pub cutoff_is_of_uv: bool,
    /// Lists of requirements in the file that are not part of the request.
    pub not_locked: Vec<NotLocked>,
    /// `[schedule]`: what the site states of its nodes.
    pub schedule: SiteNodes,
}

/// Bounds on versions as lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnBounds {
    /// They ask for nothing.
    pub constraints: Vec<String>,
    /// They replace what packages ask.
    pub overrides: Vec<String>,
}

/// A list of requirements that is not part of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotLocked {
    /// A key of `[project]` that the build computes.
    Dynamic(String),
    /// An extra or group that `[tool.uv] conflicts` excludes from an installation with others.
    Conflicting(Part),
    /// An extra or group that another one names and that does not exist.
    Absent(Part),
    /// An entry of a group that is neither a requirement nor `include-group`.
    Entry(Part, String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    project: Option<RawProject>,
    #[serde(default)]
    stack: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    target: BTreeMap<String, Spanned<TargetTable>>,
    #[serde(default)]
    index: Vec<Spanned<RawIndex>>,
    conda: Option<conda_table::RawConda>,
    resolve: Option<RawResolve>,
    registry: Option<RawRegistry>,
    export: Option<RawExport>,
    sync: Option<RawSync>,
    schedule: Option<schedule_table::RawSchedule>,
    #[serde(default)]
    metadata: Vec<Spanned<RawMetadata>>,
    #[serde(skip)]
    not_locked: Vec<NotLocked>,
    /// The entries of extras and groups, with their places.
    #[serde(skip)]
    parts: Lists<usize>,
    #[serde(skip)]
    conflicting: BTreeSet<Part>,
}

/// Reads `only-index`: a name, or a list of names.
fn only_index(value: &toml::Value) -> Result<Only, String> {
    let name = |value: &toml::Value| value.as_str().map(str::to_owned);
    let names = match value {
        toml::Value::Array(all) => all.iter().map(name).collect::<Option<Vec<_>>>(),
        one => name(one).map(|name| vec![name]),
    };
    let names =
        names.ok_or("`only-index` is a name or a list of names, such as `[\"pypi\", \"conda-forge\"]`")?;
    names.join(",").parse().map_err(|error: InvalidOnly| error.to_string())
}

/// `[resolve]`: how to solve.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawResolve {
    /// `false`: no package is taken from a source distribution.
    sources: Option<bool>,
    #[serde(default)]
    overrides: Vec<Spanned<String>>,
    /// The indexes and channels that alone are used.
    only_index: Option<Spanned<toml::Value>>,
    /// Until when files are candidates.
    exclude_newer: Option<Spanned<String>>,
    /// By package; `false`: at any time.
    #[serde(default)]
    exclude_newer_package: BTreeMap<String, Spanned<toml::Value>>,
    /// Indexes whose files are candidates at any time.
    #[serde(default)]
    exclude_newer_exempt: Vec<Spanned<String>>,
}

/// `[registry]`: which compatibility data the project takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRegistry {
    /// The day of the oldest ones.
    minimum: Option<Spanned<String>>,
}

/// `[export]`: what is written beside the lock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawExport {
    environment_yml: Option<bool>,
}

/// `[sync]`: how to install.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawSync {
    #[serde(default)]
    allow_build: Vec<Spanned<String>>,
    #[serde(default)]
    pass_env: Vec<Spanned<String>>,
}

/// `[[metadata]]`: what a release requires.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawMetadata {
    name: String,
    version: Option<String>,
    requires_dist: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProject {
    name: Option<String>,
    python: Option<Spanned<String>>,
    #[serde(default)]
    dependencies: Vec<Spanned<String>>,
    #[serde(default)]
    constraints: Vec<Spanned<String>>,
}

/// A manifest's name and text, to report positions in messages.
struct Source<'t> {
    name: &'t str,
    text: &'t str,
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text[..offset.min(self.text.len())].matches('\n').count() + 1
    }

    /// `envlock.toml:12`
    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.name, self.line(offset))
    }

    /// An error that shows its line.
    fn error(&self, offset: usize, message: &str) -> Failure {
        let line = self.line(offset);
        let shown = without_logins(&clean(self.text.lines().nth(line - 1).unwrap_or("").trim_end(), 100));
        Failure::input(format!("{}:{line}: {message}", self.name))
            .at(self.name, Some(line))
            .showing(line, &shown)
    }
}

/// Reads a manifest's text.
pub(crate) fn parse(text: &str, name: &str) -> Result<Manifest, Failure> {
    let source = Source { name, text };
    if let Some(line) = conflict_marker(text) {
        return Err(Failure::input(format!("{name}:{line}: the file has conflict markers of a merge"))
            .hint("resolve them in an editor, then run `envlock resolve`, which also merges the sides of envlock.lock")
            .at(name, Some(line)));
    }
    let wrong = |e: toml::de::Error| {
        let offset = e.span().map_or(0, |s| s.start);
        source.error(offset, &clean(e.message(), 200))
    };
    // That of a member of a workspace has the folder in its name.
    let file = name.rsplit('/').next().unwrap_or(name);
    let mut raw: RawManifest = match file {
        PYPROJECT | PIXI => pyproject::parse(text).map_err(wrong)?,
        _ => toml::from_str(text).map_err(wrong)?,
    };
    let not_locked = std::mem::take(&mut raw.not_locked);
    let mut manifest = Manifest { not_locked, ..Manifest::default() };
    if let Some(project) = &raw.project {
        add_project(&mut manifest, project, &source)?;
    }
    add_parts(&mut manifest, &raw.parts, &raw.conflicting, &source)?;
    if let Some(list) = raw.stack.remove("ignore-gpus") {
        manifest.request.ignored_gpus =
            gpu_names(list.as_ref()).map_err(|m| source.error(list.span().start, &m))?;
    }
    if let Some(same) = raw.stack.remove("same") {
        manifest.request.same_torch = Some(
            same.as_ref()
                .as_bool()
                .ok_or_else(|| source.error(same.span().start, "`same` must be `true` or `false`"))?,
        );
    }
    let stack_source = raw.stack.remove("source");
    for (key, item) in &raw.stack {
        stack_value(key, item.as_ref())
            .and_then(|value| stack_item(&mut manifest.request, key, &value, &name.into()))
            .map_err(|m| source.error(item.span().start, &m))?;
    }
    conda_table::read(raw.conda.as_ref(), stack_source.as_ref(), &mut manifest.request, &source)?;
    for index in &raw.index {
        index_table::add(&mut manifest, index.as_ref()).map_err(|m| source.error(index.span().start, &m))?;
    }
    if let Some(resolve) = &raw.resolve {
        if resolve.sources == Some(false) {
            manifest.request.no_sources = Some(Limit { value: (), origin: name.into() });
        }
        if let Some(value) = &resolve.only_index {
            let value = only_index(value.as_ref()).map_err(|why| source.error(value.span().start, &why))?;
            manifest.request.only_index = Some(Limit { value, origin: name.into() });
        }
        for item in &resolve.overrides {
            let parsed = bound(item.as_ref(), name).map_err(|m| source.error(item.span().start, &m))?;
            manifest.request.overrides.push(parsed);
        }
        exclude_newer(&mut manifest.request, resolve, &source)?;
    }
    add_settings(&mut manifest, &raw, &source)?;
    for row in &raw.metadata {
        let stated = stated_metadata(row.as_ref(), name).map_err(|m| source.error(row.span().start, &m))?;
        manifest.request.metadata.push(stated);
    }
    add_targets(&mut manifest, raw.target, &source)?;
    if manifest.request.conda.channels.is_empty() && manifest.request.has_stack_of_conda() {
        manifest.request.conda.channels.push(CONDA_FORGE.to_owned());
    }
    Ok(manifest)
}

/// Adds the table `[project]`.
fn add_project(manifest: &mut Manifest, project: &RawProject, source: &Source<'_>) -> Result<(), Failure> {
    manifest.name = project.name.as_ref().map(|n| clean(n, 100));
    if let Some(python) = &project.python {
        manifest.request.python = Some(
            python_request(python.as_ref(), source.name)
                .map_err(|m| source.error(python.span().start, &m))?,
        );
    }
    for (list, out) in [
        (&project.dependencies, &mut manifest.request.requirements),
        (&project.constraints, &mut manifest.request.constraints),
    ] {
        for item in list {
            out.push(
                requirement(item.as_ref(), source.name).map_err(|m| source.error(item.span().start, &m))?,
            );
        }
    }
    for item in &project.constraints {
        bound(item.as_ref(), source.name).map_err(|m| source.error(item.span().start, &m))?;
    }
    Ok(())
}

/// Adds `[registry]`, `[schedule]`, `[export]` and `[sync]`, which are no part of the request.
#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn add_settings(manifest: &mut Manifest, raw: &RawManifest, source: &Source<'_>) -> Result<(), Failure> {
    if let Some(minimum) = raw.registry.as_ref().and_then(|registry| registry.minimum.as_ref()) {
        if !is_day(minimum.as_ref()) {
            let shown = clean(minimum.as_ref(), 40);
            let text = format!("`{shown}` is not a day such as `2026-11-20`");
            return Err(source.error(minimum.span().start, &text));
        }
        manifest.registry_minimum = Some(minimum.as_ref().clone());
    }
    if let Some(schedule) = &raw.schedule {
        manifest.schedule = schedule_table::read(schedule, source)?;
    }
    manifest.environment_yml = raw.export.as_ref().and_then(|export| export.environment_yml);
    for name in raw.sync.iter().flat_map(|sync| &sync.allow_build) {
        let normalized = normalized_name(name.as_ref());
        normalized
            .parse::<pep508_rs::PackageName>()
            .map_err(|_| format!("`{}` is not a package name", clean(name.as_ref(), 60)))
            .map_err(|m| source.error(name.span().start, &m))?;
        manifest.allow_build.push(normalized);
    }
    for name in raw.sync.iter().flat_map(|sync| &sync.pass_env) {
        let own = name.as_ref();
        if own.is_empty() || !own.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let text = format!("`{}` is not the name of a variable", clean(own, 60));
            return Err(source.error(name.span().start, &text));
        }
        manifest.pass_env.push(own.clone());
    }
    Ok(())
}

/// Adds the `[target]` tables.
fn add_targets(
    manifest: &mut Manifest,
    tables: BTreeMap<String, Spanned<TargetTable>>,
    source: &Source<'_>,
) -> Result<(), Failure> {
    let mut targets: Vec<_> = tables.into_iter().collect();
    // The first target in the file is the default, and the map does not keep the order of the file.
    targets.sort_by_key(|(_, table)| table.span().start);
    for (target, table) in targets {
        let start = table.span().start;
        let row = target_row(&manifest.request, target, table.into_inner(), source.name, source.place(start))
            .map_err(|m| source.error(start, &m))?;
        manifest.request.targets.push(row.table.line(&row.name));
        let image = row.table.image.clone().map(|image| (row.name.clone(), image));
        manifest.request.images.extend(image);
        if let Some(of_channels) = row.of_channels {
            let origin = of_channels.then(|| row.place.as_str().into());
            manifest.request.conda.stack_of_targets.insert(row.name.clone(), origin);
        }
        manifest.targets.push(row);
    }
    Ok(())
}

/// Adds the requirements of extras and groups: all are locked in one solution, so that those are left out that the project
/// says cannot be installed together.
fn add_parts(
    manifest: &mut Manifest,
    lists: &Lists<usize>,
    conflicting: &BTreeSet<Part>,
    source: &Source<'_>,
) -> Result<(), Failure> {
    let own = manifest.name.as_deref().map(normalized_name);
    for part in lists.keys() {
        let expanded = parts::expand(lists, own.as_deref(), vec![part.clone()]);
        let absent = expanded.unknown.into_iter().map(NotLocked::Absent);
        manifest
            .not_locked
            .extend(absent.filter(|one| !manifest.not_locked.contains(one)).collect::<Vec<_>>());
        if !expanded.read.is_disjoint(conflicting) {
            manifest.not_locked.push(NotLocked::Conflicting(part.clone()));
            continue;
        }
        let others = expanded.other.iter().map(|text| NotLocked::Entry(part.clone(), clean(text, 60)));
        manifest.not_locked.extend(others);
        for (line, place) in expanded.lines {
            let parsed = requirement(line, &format!("{}, {part}", source.name))
                .map_err(|message| source.error(*place, &message))?;
            manifest.request.requirements.push(parsed.of_part(Some(part.clone())));
        }
    }
    Ok(())
}

/// Until when files are candidates: for all packages, for one, and the indexes that are exempt.
#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn exclude_newer(request: &mut Request, resolve: &RawResolve, source: &Source<'_>) -> Result<(), Failure> {
    let now = super::clock::now();
    let all = &mut request.exclude_newer;
    if let Some(text) = &resolve.exclude_newer {
        let value =
            Cutoff::parse(text.as_ref(), now).map_err(|e| source.error(text.span().start, &e.to_string()))?;
        all.general = Some(Limit { value, origin: source.name.into() });
    }
    for (package, value) in &resolve.exclude_newer_package {
        let wrong = |message: String| source.error(value.span().start, &message);
        normalized_name(package)
            .parse::<pep508_rs::PackageName>()
            .map_err(|_| wrong(format!("`{}` is not a package name", clean(package, 60))))?;
        let cutoff = match value.as_ref() {
            toml::Value::Boolean(false) => None,
            toml::Value::String(text) => Some(Cutoff::parse(text, now).map_err(|e| wrong(e.to_string()))?),
            _ => return Err(wrong(format!("`{package}` must be a date, a time, an age or `false`"))),
        };
        all.set(package, cutoff);
    }
    for index in &resolve.exclude_newer_exempt {
        let name: &str = index.as_ref();
        let is_known = BUILT_IN.contains(&name) || request.owners.iter().any(|owner| owner.index == name);
        if !is_known {
            return Err(
                source.error(index.span().start, &format!("no index is called `{}`", clean(name, 40)))
            );
        }
        all.exempt.insert(name.to_owned());
    }
    Ok(())
}

/// One row of `[[metadata]]`.
#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn stated_metadata(row: &RawMetadata, origin: &str) -> Result<StatedMetadata, String> {
    let wrong = |text: &str, what: &str| format!("`{}` is not {what}", clean(text, 60));
    row.name.parse::<pep508_rs::PackageName>().map_err(|_| wrong(&row.name, "a package name"))?;
    let version = row.version.as_ref().map(|v| v.parse().map_err(|_| wrong(v, "a version"))).transpose()?;
    for line in &row.requires_dist {
        requirement(line, origin)?;
    }
    Ok(StatedMetadata { name: normalized_name(&row.name), version, requires: row.requires_dist.clone() })
}

/// One requirement of a manifest.
fn requirement(text: &str, origin: &str) -> Result<UserRequirement, String> {
    UserRequirement::parse(text, origin.into()).map_err(|e| e.to_string())
}

/// A requirement that only bounds versions: a constraint or an override.
fn bound(text: &str, origin: &str) -> Result<UserRequirement, String> {
    let parsed = requirement(text, origin)?;
    match parsed.direct() {
        Some(direct) => Err(format!("`{direct}` is a direct reference, which cannot bound versions")),
        None => Ok(parsed),
    }
}

/// A limit on Python of a manifest.
fn python_request(text: &str, origin: &str) -> Result<PythonRequest, String> {
    PythonRequest::parse(text, origin.into()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_manifest() {
        let m = parse(
            r#"
[project]
name = "demo"
python = ">=3.11,<3.14"
dependencies = ["transformers>=4.50", "datasets[audio]; sys_platform == 'linux'"]
constraints = ["numpy<2"]
[stack]
torch = { version = ">=2.8", extras = ["opt-einsum"] }
torchvision = "*"
cuda = ">=12.6"
variant = "cu126"
driver-policy = "native"
[target.cluster]
gpus = ["NVIDIA A100", "sm_90"]
driver = "535.129.03"
[[index]]
name = "corp"
url = "https://corp.example/simple"
packages = ["corp-*"]
[[index]]
name = "mirror"
url = "https://mirror.example/simple"
replaces = "pypi"
"#,
            "envlock.toml",
        )
        .unwrap();
        let names: Vec<String> = m.request.requirements.iter().map(|r| r.requirement.to_string()).collect();
        assert_eq!(
            names,
            [
                "transformers>=4.50",
                "datasets[audio] ; sys_platform == 'linux'",
                "torch[opt-einsum]>=2.8",
                "torchvision"
            ]
        );
        assert!(m.request.native_driver_only.is_some() && m.request.variant.is_some());
        assert_eq!(m.pypi.as_deref(), Some("https://mirror.example/simple"));
        assert!(m.request.owners[0].owns(&"corp-tools".parse().unwrap()));
        assert!(!m.request.owners[0].owns(&"corporate".parse().unwrap()));
        assert_eq!(m.targets.len(), 1);
    }

    #[test]
    fn mistakes_show_their_line() {
        let table = [
            ("[project]\nname = 3\n", "envlock.toml:2: "),
            ("[project]\nnam = \"x\"\n", "unknown field `nam`"),
            ("[stack]\ncuda = \"~12\"\n", "envlock.toml:2: `~12` is not a version range"),
            ("[stack]\ntorch = \">=two\"\n", "envlock.toml:2: `torch>=two` is not a valid requirement"),
            (
                "[project]\ndependencies = [\n  \"numpy\",\n  \"a @ hg+https://x/y\",\n]\n",
                "envlock.toml:4: `a @ hg+https://x/y` is not a direct reference",
            ),
            ("[stack]\ntorch = 3\n", "envlock.toml:2: `torch` must be a specifier such as"),
            ("[stack]\ndriver-policy = \"old\"\n", "`driver-policy` must be `minor` or `native`"),
            ("[[index]]\nname = \"x\"\nurl = \"https://x/\"\n", "is never used"),
            ("[[index]]\nname = \"x y\"\nurl = \"https://x/\"\n", "`x y` is not a valid index name"),
            (
                "[[index]]\nname = \"x\"\nurl = \"ftp://x/\"\npackages = [\"a\"]\n",
                "must start with `http://`",
            ),
            ("not toml", "envlock.toml:1: "),
        ];
        for (text, expected) in table {
            let message = parse(text, "envlock.toml").unwrap_err().message;
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn bare_stack_versions_are_prefixes() {
        let m = parse("[stack]\ntorch = \"2.9\"\n", "e").unwrap();
        assert_eq!(m.request.requirements[0].requirement.to_string(), "torch==2.9.*");
    }
}
