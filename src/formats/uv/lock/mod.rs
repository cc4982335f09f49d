//! `uv.lock`: a graph whose edges have markers. An environment is what a walk from the project reaches ([`walk`]).

use std::collections::{BTreeMap, HashMap};

mod walk;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::MarkerTree;
use serde::Deserialize;

use crate::formats::document::{file_name, git, index, invalid, marker, name, of_toml, url, version, wheel};
use crate::formats::error::{ForeignError, MAX_PACKAGES};
use crate::formats::types::{Package, SourceArchive};
use crate::model::solution::{ChosenFile, Edge};
use crate::model::source::Source;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawLock {
    version: u64,
    requires_python: Option<String>,
    #[serde(default)]
    supported_markers: Vec<String>,
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
    /// Groups of a workspace root that is no package.
    #[serde(default)]
    dependency_groups: BTreeMap<String, Vec<RawRequirement>>,
    #[serde(default)]
    overrides: Vec<RawRequirement>,
    /// Requirements that are left out: names.
    excludes: Option<toml::Value>,
    /// Tables with the `name` of a package whose own requirements are replaced.
    dependency_metadata: Option<toml::Value>,
}

impl RawManifest {
    /// The packages on which requirements are replaced or left out, and those whose own are.
    fn overridden(&self) -> Vec<String> {
        let listed = |value: &Option<toml::Value>| -> Vec<String> {
            let all = value.iter().filter_map(toml::Value::as_array).flatten();
            let names = all.filter_map(|one| one.as_str().or_else(|| one.get("name")?.as_str()));
            names.map(str::to_owned).collect()
        };
        let overrides = self.overrides.iter().map(|one| one.name.clone());
        let all = overrides.chain(listed(&self.excludes)).chain(listed(&self.dependency_metadata));
        all.filter_map(|text| name(&text).ok()).collect()
    }
}

#[derive(Deserialize)]
struct RawRequirement {
    name: String,
    #[serde(default)]
    extras: Vec<String>,
    marker: Option<String>,
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
pub(in crate::formats) struct Graph {
    requires_python: Option<VersionSpecifiers>,
    supported: Vec<MarkerTree>,
    nodes: Vec<Node>,
    by_name: HashMap<String, Vec<usize>>,
    /// The project, or the members of a workspace that is no package itself.
    roots: Vec<usize>,
    /// The other members of the workspace.
    members: Vec<usize>,
    /// The packages whose requirements are replaced by an override.
    overridden: Vec<String>,
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
    archive: SourceArchive,
}

#[derive(Debug, Clone)]
struct Dependency {
    name: String,
    version: Option<Version>,
    source: Option<Source>,
    extras: Vec<String>,
    marker: MarkerTree,
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
pub(in crate::formats) fn parse(text: &str) -> Result<Graph, ForeignError> {
    let raw: RawLock = of_toml(text)?;
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
    let mut nodes = raw.package.iter().map(node).collect::<Result<Vec<Node>, _>>()?;
    let of_workspace = workspace_root(&raw.manifest)?;
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        by_name.entry(node.name.clone()).or_default().push(at);
    }
    for node in &nodes {
        let of_parts = node.extras.values().chain(node.groups.values()).flatten();
        // What a merge or a cut takes away would be missing without a word; uv refuses the file.
        if let Some(gone) =
            node.dependencies.iter().chain(of_parts).find(|one| !by_name.contains_key(&one.name))
        {
            return Err(ForeignError::Absent(node.name.clone(), gone.name.clone()));
        }
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
    let members = raw.manifest.members.iter().filter_map(|member| name(member).ok());
    let members = members.filter_map(|member| by_name.get(&member)?.first().copied());
    let members: Vec<usize> = members.filter(|member| !roots.contains(member)).collect();
    if let Some(root) = of_workspace {
        roots.push(nodes.len());
        nodes.push(root);
    }
    let supported = raw.supported_markers.iter().map(|text| marker("supported-markers", Some(text)));
    let supported = supported.collect::<Result<_, _>>()?;
    let overridden = raw.manifest.overridden();
    Ok(Graph { requires_python, supported, nodes, by_name, roots, members, overridden })
}

/// A node for the groups of a workspace root that is no package.
fn workspace_root(manifest: &RawManifest) -> Result<Option<Node>, ForeignError> {
    let requirement = |raw: &RawRequirement| {
        let package = name(&raw.name)?;
        let marker = marker(&package, raw.marker.as_deref())?;
        Ok(Dependency { name: package, version: None, source: None, extras: raw.extras.clone(), marker })
    };
    let groups = manifest.dependency_groups.iter().map(|(group, list)| {
        Ok((group.clone(), list.iter().map(requirement).collect::<Result<Vec<_>, ForeignError>>()?))
    });
    let groups = groups.collect::<Result<BTreeMap<_, _>, ForeignError>>()?;
    Ok((!groups.is_empty()).then(|| Node {
        name: String::new(),
        version: None,
        source: Source::Path(String::new()),
        is_virtual: true,
        markers: Vec::new(),
        dependencies: Vec::new(),
        extras: BTreeMap::new(),
        groups,
        wheels: Vec::new(),
        archive: SourceArchive::Absent,
    }))
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
        archive: match raw.sdist.is_some() || (raw.source.registry.is_none() && raw.wheels.is_empty()) {
            true => SourceArchive::Named,
            false => SourceArchive::Absent,
        },
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

impl Graph {
    pub fn mentions(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
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
            archive: self.archive,
            requires: self.dependencies.iter().map(edge).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Environment;
    use crate::model::platform::Platform;
    use crate::model::wheel::Python;

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
                "default 3.12: numpy==2.3.5 torch==2.9.1",
                "extra cpu 3.12: numpy==2.3.5 torch==2.9.1+cpu",
                "extra gpu 3.12: numpy==2.3.5 torch==2.9.1+cu128",
                "group dev 3.12: numpy==2.3.5 pytest==9.0 torch==2.9.1",
                "group docs 3.12: numpy==2.3.5 sphinx==8.0 torch==2.9.1",
            ]
        );
        let python = crate::formats::ForeignLock::parse(crate::formats::Tool::Uv, LOCK).unwrap();
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

    /// The members of a workspace are environments of their own, and its root can have groups without being a package.
    #[test]
    fn members_and_groups_of_a_workspace() {
        let text = r#"
version = 1
supported-markers = ["sys_platform == 'linux'"]
[manifest]
members = ["root", "tool"]
[manifest.dependency-groups]
lint = [{ name = "six", specifier = ">=1" }]
[[package]]
name = "root"
version = "1"
source = { virtual = "." }
[[package]]
name = "tool"
version = "1"
source = { editable = "tool" }
dependencies = [{ name = "six" }]
[package.optional-dependencies]
more = [{ name = "idna" }]
[[package]]
name = "six"
version = "1.17"
source = { registry = "x" }
[[package]]
name = "idna"
version = "3"
source = { registry = "x" }
"#;
        let graph = parse(text).unwrap();
        let linux = Some(Python::new(12));
        let all: Vec<String> = graph.environments(Platform::LINUX_X86_64, linux).iter().map(shown).collect();
        assert_eq!(
            all,
            [
                "default 3.12: ",
                "group lint 3.12: six==1.17",
                "package tool 3.12: six==1.17 tool==1",
                "package tool extra more 3.12: idna==3 six==1.17 tool==1",
            ]
        );
        let mac = graph.environments("macos-arm64".parse().unwrap(), linux);
        assert!(mac[0].excluded.as_ref().is_some_and(|why| why.contains("does not support")), "{:?}", mac[0]);
        let named = |installed: &[&str]| {
            let has = |name: &str, _: &Version| installed.contains(&name);
            graph.installed(Platform::LINUX_X86_64, Python::new(12), &has).name
        };
        assert_eq!(named(&["six", "tool"]), "package tool");
        assert_eq!(named(&["six", "tool", "idna"]), "package tool, package tool extra more");
    }

    /// A cycle of packages, and of a package with itself, ends.
    #[test]
    fn cycles_end() {
        let text = "version = 1\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = { editable = \".\" }\ndependencies = [{ name = \"b\" }]\n[[package]]\nname = \"b\"\nversion = \"1\"\nsource = { registry = \"x\" }\ndependencies = [{ name = \"a\", extra = [\"z\"] }, { name = \"b\" }]\n";
        let environments = parse(text).unwrap().environments(Platform::LINUX_X86_64, Some(Python::new(12)));
        assert_eq!(shown(&environments[0]), "default 3.12: a==1 b==1");
    }

    /// A merge or a cut took the package away: uv refuses such a file.
    #[test]
    fn what_is_required_is_there() {
        let text = "version = 1\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = { editable = \".\" }\ndependencies = [{ name = \"torch\" }]\n";
        assert_eq!(parse(text).err(), Some(ForeignError::Absent("a".to_owned(), "torch".to_owned())));
    }
}
