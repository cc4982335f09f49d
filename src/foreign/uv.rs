//! `uv.lock`: a graph whose edges have markers. An environment is what a walk from the project reaches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerTree};
use serde::Deserialize;

use super::document::{file_name, git, holds, index, invalid, marker, name, url, version, wheel};
use super::{Environment, ForeignError, MAX_PACKAGES, Package, python_for};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::project::specifiers_allow;
use crate::model::solution::{ChosenFile, Edge};
use crate::model::source::Source;
use crate::model::wheel::Python;

/// Maximum number of extras and groups that become environments.
const MAX_CHOICES: usize = 64;
/// The group that uv installs unless it is told not to.
const DEFAULT_GROUP: &str = "dev";

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawLock {
    version: u64,
    requires_python: Option<String>,
    #[serde(default)]
    manifest: RawManifest,
    #[serde(default)]
    package: Vec<RawPackage>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct RawManifest {
    #[serde(default)]
    members: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawPackage {
    name: String,
    version: Option<String>,
    source: RawSource,
    #[serde(default)]
    resolution_markers: Vec<String>,
    #[serde(default)]
    dependencies: Vec<RawDependency>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<RawDependency>>,
    #[serde(default)]
    dev_dependencies: BTreeMap<String, Vec<RawDependency>>,
    sdist: Option<toml::Value>,
    #[serde(default)]
    wheels: Vec<RawWheel>,
}

#[derive(Deserialize, Default, Clone, PartialEq)]
struct RawSource {
    registry: Option<String>,
    git: Option<String>,
    url: Option<String>,
    path: Option<String>,
    directory: Option<String>,
    editable: Option<String>,
    r#virtual: Option<String>,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    version: Option<String>,
    source: Option<RawSource>,
    #[serde(default)]
    extra: Vec<String>,
    marker: Option<String>,
}

#[derive(Deserialize)]
struct RawWheel {
    url: Option<String>,
    path: Option<String>,
    filename: Option<String>,
    hash: Option<String>,
    size: Option<u64>,
}

/// The graph of a `uv.lock`.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    requires_python: Option<VersionSpecifiers>,
    nodes: Vec<Node>,
    by_name: HashMap<String, Vec<usize>>,
    /// The project, or the members of a workspace that is no package itself.
    roots: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Node {
    name: String,
    /// `None` for a folder whose version is dynamic.
    version: Option<Version>,
    source: Source,
    /// Its own folder is no package: only its dependencies are installed.
    is_virtual: bool,
    markers: Vec<MarkerTree>,
    dependencies: Vec<Dependency>,
    extras: BTreeMap<String, Vec<Dependency>>,
    groups: BTreeMap<String, Vec<Dependency>>,
    wheels: Vec<ChosenFile>,
    has_source: bool,
}

#[derive(Debug, Clone)]
struct Dependency {
    name: String,
    version: Option<Version>,
    source: Option<Source>,
    extras: Vec<String>,
    marker: MarkerTree,
}

/// The extras and groups of the project that are installed.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen {
    extras: BTreeSet<String>,
    groups: BTreeSet<String>,
}

pub(super) fn parse(text: &str) -> Result<Graph, ForeignError> {
    let raw: RawLock =
        toml::from_str(text).map_err(|error| ForeignError::Syntax(error.message().to_owned()))?;
    if raw.version != 1 {
        return Err(ForeignError::Version(raw.version.to_string(), "1"));
    }
    if raw.package.len() > MAX_PACKAGES {
        return Err(ForeignError::TooLarge(MAX_PACKAGES));
    }
    let requires_python = match &raw.requires_python {
        Some(text) => Some(text.parse().map_err(|_| invalid("requires-python", text))?),
        None => None,
    };
    let nodes = raw.package.iter().map(node).collect::<Result<Vec<Node>, _>>()?;
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        by_name.entry(node.name.clone()).or_default().push(at);
    }
    let is_here = |source: &RawSource| {
        [&source.editable, &source.r#virtual].into_iter().flatten().any(|folder| folder == ".")
    };
    let mut roots: Vec<usize> =
        raw.package.iter().enumerate().filter(|(_, p)| is_here(&p.source)).map(|(at, _)| at).collect();
    if roots.is_empty() {
        let members = raw.manifest.members.iter().filter_map(|member| name(member).ok());
        roots = members.filter_map(|member| by_name.get(&member)?.first().copied()).collect();
    }
    Ok(Graph { requires_python, nodes, by_name, roots })
}

fn node(raw: &RawPackage) -> Result<Node, ForeignError> {
    let package = name(&raw.name)?;
    let of_files = |raw: &RawWheel| {
        let named =
            raw.filename.clone().or_else(|| raw.url.as_deref().or(raw.path.as_deref()).map(file_name))?;
        wheel(named, raw.hash.as_deref(), raw.size)
    };
    let dependencies = |all: &[RawDependency]| all.iter().map(dependency).collect::<Result<Vec<_>, _>>();
    let named = |all: &BTreeMap<String, Vec<RawDependency>>| {
        all.iter()
            .map(|(key, list)| Ok((key.clone(), dependencies(list)?)))
            .collect::<Result<BTreeMap<_, _>, ForeignError>>()
    };
    let markers = raw.resolution_markers.iter().map(|text| marker(&package, Some(text)));
    Ok(Node {
        version: raw.version.as_deref().map(|text| version(&package, text)).transpose()?,
        source: source(&raw.source),
        is_virtual: raw.source.r#virtual.is_some(),
        markers: markers.collect::<Result<_, _>>()?,
        dependencies: dependencies(&raw.dependencies)?,
        extras: named(&raw.optional_dependencies)?,
        groups: named(&raw.dev_dependencies)?,
        wheels: raw.wheels.iter().filter_map(of_files).collect(),
        has_source: raw.sdist.is_some() || raw.source.registry.is_none(),
        name: package,
    })
}

fn source(raw: &RawSource) -> Source {
    match raw {
        RawSource { registry: Some(address), .. } => index(address),
        RawSource { git: Some(address), .. } => git(address),
        RawSource { url: Some(address), .. } => url(address),
        RawSource { path, directory, editable, r#virtual, .. } => {
            let folder = [path, directory, editable, r#virtual].into_iter().flatten().next();
            Source::Path(crate::model::text::clean(folder.map_or("", String::as_str), 200))
        }
    }
}

fn dependency(raw: &RawDependency) -> Result<Dependency, ForeignError> {
    let package = name(&raw.name)?;
    Ok(Dependency {
        version: raw.version.as_deref().map(|text| version(&package, text)).transpose()?,
        source: raw.source.as_ref().map(source),
        extras: raw.extra.clone(),
        marker: marker(&package, raw.marker.as_deref())?,
        name: package,
    })
}

/// The names by which uv writes an extra or a group of a package in markers of conflicting extras.
fn encoded(kind: &str, package: &str, choice: &str) -> Option<ExtraName> {
    format!("{kind}-{}-{package}-{choice}", package.len()).parse().ok()
}

impl Graph {
    pub fn allows(&self, python: Python) -> bool {
        self.requires_python.as_ref().is_none_or(|allowed| specifiers_allow(allowed, python))
    }

    /// The extras and groups of the roots, but for the default group.
    fn choices(&self) -> Vec<(String, Chosen)> {
        let mut extras = BTreeSet::new();
        let mut groups = BTreeSet::new();
        for root in &self.roots {
            extras.extend(self.nodes[*root].extras.keys().cloned());
            groups.extend(self.nodes[*root].groups.keys().filter(|group| *group != DEFAULT_GROUP).cloned());
        }
        let of_extra = |extra: String| {
            (format!("extra {extra}"), Chosen { extras: BTreeSet::from([extra]), ..Chosen::default() })
        };
        let of_group = |group: String| {
            (format!("group {group}"), Chosen { groups: BTreeSet::from([group]), ..Chosen::default() })
        };
        extras.into_iter().map(of_extra).chain(groups.into_iter().map(of_group)).take(MAX_CHOICES).collect()
    }

    /// What uv installs without options, then each extra and group added to it.
    pub fn environments(&self, platform: Platform, python: Option<Python>) -> Vec<Environment> {
        let plain = ("default".to_owned(), Chosen::default());
        let choices = std::iter::once(plain).chain(self.choices());
        let of = |(name, chosen): (String, Chosen)| {
            let python = python_for(python, platform, |python| {
                self.allows(python).then(|| self.environment(platform, python, &chosen))
            });
            Environment { name, ..self.environment(platform, python, &chosen) }
        };
        choices.map(of).collect()
    }

    /// The environment with the extras and groups that were installed: those all of whose packages are there, then those
    /// that explain most of what no other explains, so that a package that is missing of them is missed.
    pub fn installed(
        &self,
        platform: Platform,
        python: Python,
        has: &dyn Fn(&str, &Version) -> bool,
    ) -> Environment {
        let plain = self.environment(platform, python, &Chosen::default());
        let is_there = |package: &Package| has(&package.name, &package.version);
        let mut all = Chosen::default();
        let mut named: Vec<String> = Vec::new();
        let mut explained: Vec<Package> = plain.packages.clone();
        let mut partial: Vec<(String, Chosen, Vec<Package>)> = Vec::new();
        for (name, chosen) in self.choices() {
            let mut added = self.environment(platform, python, &chosen).packages;
            added.retain(|package| !plain.packages.contains(package));
            if added.is_empty() {
                continue;
            }
            if added.iter().all(is_there) {
                all.extras.extend(chosen.extras);
                all.groups.extend(chosen.groups);
                named.push(name);
                explained.extend(added);
            } else {
                partial.push((name, chosen, added));
            }
        }
        for (name, chosen, mut own) in partial {
            own.retain(|package| !explained.contains(package));
            let installed = own.iter().filter(|package| is_there(package)).count();
            if installed >= 2 && installed * 2 > own.len() {
                all.extras.extend(chosen.extras);
                all.groups.extend(chosen.groups);
                named.push(name);
                explained.extend(own);
            }
        }
        let name = if named.is_empty() { plain.name.clone() } else { named.join(", ") };
        Environment { name, ..self.environment(platform, python, &all) }
    }

    /// What a walk from the roots reaches.
    pub fn environment(&self, platform: Platform, python: Python, chosen: &Chosen) -> Environment {
        let machine = marker_environment(python, platform);
        let mut extras: Vec<ExtraName> = Vec::new();
        for root in self.roots.iter().map(|root| &self.nodes[*root]) {
            extras.extend(chosen.extras.iter().filter_map(|extra| encoded("extra", &root.name, extra)));
            let groups = chosen.groups.iter().map(String::as_str).chain([DEFAULT_GROUP]);
            extras.extend(groups.filter_map(|group| encoded("group", &root.name, group)));
        }
        let mut walk = Walk {
            graph: self,
            machine: &machine,
            extras: &extras,
            queue: Vec::new(),
            seen: BTreeSet::new(),
        };
        for root in &self.roots {
            walk.reach(*root, None);
            let node = &self.nodes[*root];
            for extra in &chosen.extras {
                walk.reach(*root, Some(extra.clone()));
            }
            let groups = chosen.groups.iter().map(String::as_str).chain([DEFAULT_GROUP]);
            for dependency in groups.filter_map(|group| node.groups.get(group)).flatten() {
                walk.follow(dependency);
            }
        }
        while let Some((at, extra)) = walk.queue.pop() {
            let node = &self.nodes[at];
            let list = match &extra {
                None => Some(&node.dependencies),
                Some(extra) => node.extras.get(extra),
            };
            for dependency in list.into_iter().flatten() {
                walk.follow(dependency);
            }
        }
        let reached: BTreeSet<usize> = walk.seen.iter().map(|(at, _)| *at).collect();
        let mut packages: Vec<Package> =
            reached.into_iter().filter_map(|at| self.nodes[at].package()).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Environment { name: "default".to_owned(), python, packages, conda: Vec::new() }
    }
}

struct Walk<'g> {
    graph: &'g Graph,
    machine: &'g MarkerEnvironment,
    extras: &'g [ExtraName],
    queue: Vec<(usize, Option<String>)>,
    seen: BTreeSet<(usize, Option<String>)>,
}

impl Walk<'_> {
    fn reach(&mut self, at: usize, extra: Option<String>) {
        if self.seen.insert((at, extra.clone())) {
            self.queue.push((at, extra));
        }
    }

    fn follow(&mut self, dependency: &Dependency) {
        if !holds(&dependency.marker, self.machine, self.extras) {
            return;
        }
        let Some(at) = self.target(dependency) else { return };
        self.reach(at, None);
        for extra in &dependency.extras {
            self.reach(at, Some(extra.clone()));
        }
    }

    /// The package of an edge: of several with the name, the one of its version and source, else the one whose markers hold.
    fn target(&self, dependency: &Dependency) -> Option<usize> {
        let named = self.graph.by_name.get(&dependency.name)?;
        let nodes = &self.graph.nodes;
        let fits = |at: &&usize| {
            let node = &nodes[**at];
            dependency.version.as_ref().is_none_or(|version| node.version.as_ref() == Some(version))
                && dependency.source.as_ref().is_none_or(|source| node.source == *source)
        };
        let mut fitting: Vec<&usize> = named.iter().filter(fits).collect();
        if fitting.len() > 1 {
            let here = |at: &&usize| {
                let markers = &nodes[**at].markers;
                markers.is_empty() || markers.iter().any(|marker| holds(marker, self.machine, self.extras))
            };
            let of_markers: Vec<&usize> = fitting.iter().copied().filter(here).collect();
            if !of_markers.is_empty() {
                fitting = of_markers;
            }
        }
        fitting.first().map(|at| **at)
    }
}

impl Node {
    fn package(&self) -> Option<Package> {
        if self.is_virtual {
            return None;
        }
        let edge = |dependency: &Dependency| Edge {
            to: dependency.name.clone(),
            requirement: dependency.name.clone(),
        };
        Some(Package {
            name: self.name.clone(),
            version: self.version.clone()?,
            source: self.source.clone(),
            wheels: self.wheels.clone(),
            has_source: self.has_source,
            requires: self.dependencies.iter().map(edge).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
version = 1
revision = 3
requires-python = ">=3.10, <3.13"
conflicts = [[{ package = "demo", extra = "cpu" }, { package = "demo", extra = "gpu" }]]

[[package]]
name = "demo"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "numpy" },
    { name = "colorama", marker = "sys_platform == 'win32'" },
    { name = "torch", version = "2.9.1", source = { registry = "https://index.example/simple" }, marker = "extra != 'extra-4-demo-cpu' and extra != 'extra-4-demo-gpu'" },
    { name = "torch", version = "2.9.1+cpu", source = { registry = "https://wheels.example/whl/cpu" }, marker = "extra == 'extra-4-demo-cpu'" },
    { name = "torch", version = "2.9.1+cu128", source = { registry = "https://wheels.example/whl/cu128" }, marker = "extra == 'extra-4-demo-gpu'" },
]

[package.optional-dependencies]
cpu = [{ name = "torch", version = "2.9.1+cpu", source = { registry = "https://wheels.example/whl/cpu" } }]
gpu = [{ name = "torch", version = "2.9.1+cu128", source = { registry = "https://wheels.example/whl/cu128" } }]

[package.dev-dependencies]
dev = [{ name = "pytest" }]
docs = [{ name = "numpy", extra = ["doc"] }]

[[package]]
name = "colorama"
version = "0.4.6"
source = { registry = "https://index.example/simple" }

[[package]]
name = "numpy"
version = "2.3.5"
source = { registry = "https://index.example/simple" }
sdist = { url = "https://files.example/numpy-2.3.5.tar.gz", hash = "sha256:00", size = 1 }
wheels = [
    { url = "https://files.example/numpy-2.3.5-cp312-cp312-manylinux_2_27_x86_64.whl", hash = "sha256:aa", size = 1 },
]
[package.optional-dependencies]
doc = [{ name = "sphinx" }]

[[package]]
name = "pytest"
version = "9.0"
source = { registry = "https://index.example/simple" }

[[package]]
name = "sphinx"
version = "8.0"
source = { git = "https://login:word@code.example/sphinx?rev=v8#0123456789012345678901234567890123456789" }

[[package]]
name = "torch"
version = "2.9.1"
source = { registry = "https://index.example/simple" }
wheels = [{ url = "https://files.example/torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl", hash = "sha256:00" }]

[[package]]
name = "torch"
version = "2.9.1+cpu"
source = { registry = "https://wheels.example/whl/cpu" }
wheels = [{ url = "https://files.example/torch-2.9.1%2Bcpu-cp312-cp312-manylinux_2_28_x86_64.whl" }]

[[package]]
name = "torch"
version = "2.9.1+cu128"
source = { registry = "https://wheels.example/whl/cu128" }
wheels = [{ url = "https://files.example/torch-2.9.1%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl" }]
"#;

    fn shown(environment: &Environment) -> String {
        let packages = environment.packages.iter().map(|p| format!("{}=={}", p.name, p.version));
        format!("{} {}: {}", environment.name, environment.python, packages.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_choice_is_an_environment() {
        let graph = parse(LOCK).unwrap();
        let all: Vec<String> =
            graph.environments(Platform::LINUX_X86_64, Some(Python::new(12))).iter().map(shown).collect();
        assert_eq!(
            all,
            [
                "default 3.12: numpy==2.3.5 pytest==9.0 torch==2.9.1",
                "extra cpu 3.12: numpy==2.3.5 pytest==9.0 torch==2.9.1+cpu",
                "extra gpu 3.12: numpy==2.3.5 pytest==9.0 torch==2.9.1+cu128",
                "group docs 3.12: numpy==2.3.5 pytest==9.0 sphinx==8.0 torch==2.9.1",
            ]
        );
        let python = super::super::ForeignLock::parse(super::super::Tool::Uv, LOCK).unwrap();
        // The newest Python that is allowed and has wheels.
        assert_eq!(python.environments(Platform::LINUX_X86_64, None)[0].python, Python::new(12));
        assert!(!graph.allows(Python::new(13)) && graph.allows(Python::new(10)));
    }

    #[test]
    fn what_is_installed_says_which_extras() {
        let graph = parse(LOCK).unwrap();
        let named = |installed: &[&str]| {
            let has =
                |name: &str, version: &Version| installed.contains(&format!("{name}=={version}").as_str());
            graph.installed(Platform::LINUX_X86_64, Python::new(12), &has).name
        };
        assert_eq!(named(&["numpy==2.3.5", "torch==2.9.1"]), "default");
        assert_eq!(named(&["numpy==2.3.5", "torch==2.9.1+cu128"]), "extra gpu");
        assert_eq!(named(&["torch==2.9.1+cu128", "sphinx==8.0"]), "extra gpu, group docs");
    }

    #[test]
    fn logins_do_not_stay() {
        let graph = parse(LOCK).unwrap();
        let sphinx = graph.nodes.iter().find(|node| node.name == "sphinx").unwrap();
        assert_eq!(
            sphinx.source.to_string(),
            "git+https://code.example/sphinx@0123456789012345678901234567890123456789"
        );
        assert_eq!(graph.nodes.last().unwrap().source, Source::Index("whl/cu128".to_owned()));
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        for (text, message) in [
            ("version = 2\n", "its format is version 2; envlock reads 1"),
            ("version = 1\n[[package]]\nname = \"a b\"\nsource = {}\n", "`name` is `a b`"),
            (
                "version = 1\n[[package]]\nname = \"a\"\nversion = \"x y\"\nsource = {}\n",
                "`version of a` is `x y`",
            ),
            ("version = 1\nrequires-python = \"=\"\n", "`requires-python` is `=`"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
        let deep = format!(
            "version = 1\n[[package]]\nname = \"a\"\nsource = {{}}\nresolution-markers = [\"{}x\"]\n",
            "(".repeat(9000)
        );
        assert!(parse(&deep).is_err());
    }

    /// A cycle of packages, and of a package with itself, ends.
    #[test]
    fn cycles_end() {
        let text = "version = 1\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = { editable = \".\" }\ndependencies = [{ name = \"b\" }]\n[[package]]\nname = \"b\"\nversion = \"1\"\nsource = { registry = \"x\" }\ndependencies = [{ name = \"a\", extra = [\"z\"] }, { name = \"b\" }, { name = \"gone\" }]\n";
        let environments = parse(text).unwrap().environments(Platform::LINUX_X86_64, Some(Python::new(12)));
        assert_eq!(shown(&environments[0]), "default 3.12: a==1 b==1");
    }
}
