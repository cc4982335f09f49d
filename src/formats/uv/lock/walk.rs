//! The environments of a `uv.lock`: what a walk from the project, with its extras and groups, reaches.

use std::collections::BTreeSet;

use pep440_rs::Version;
use pep508_rs::{ExtraName, MarkerEnvironment};

use super::{Dependency, Graph};
use crate::formats::document::holds;
use crate::formats::types::{Environment, Package, python_for};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::project::specifiers_allow;
use crate::model::wheel::Python;

/// Maximum number of extras, groups and members that become environments.
const MAX_CHOICES: usize = 128;

/// An extra or a group of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Extra,
    Group,
}

/// What is installed: the roots of the walk, and the extras and groups of nodes.
#[derive(Debug, Clone, Default)]
struct Chosen {
    roots: BTreeSet<usize>,
    picks: BTreeSet<(usize, Kind, String)>,
}

impl Chosen {
    fn add(&mut self, other: Chosen) {
        self.roots.extend(other.roots);
        self.picks.extend(other.picks);
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Extra => "extra",
            Kind::Group => "group",
        }
    }
}

/// The name by which uv writes an extra or a group of a package in markers of conflicting ones.
fn encoded(kind: Kind, package: &str, choice: &str) -> Option<ExtraName> {
    format!("{}-{}-{package}-{choice}", kind.word(), package.len()).parse().ok()
}

impl Graph {
    pub(super) fn allows(&self, python: Python) -> bool {
        self.requires_python.as_ref().is_none_or(|allowed| specifiers_allow(allowed, python))
    }

    /// Why uv refuses the lock for a Python on a platform.
    fn refusal(&self, platform: Platform, python: Python) -> Option<String> {
        if let Some(allowed) = self.requires_python.as_ref().filter(|_| !self.allows(python)) {
            return Some(format!("the lock requires Python {allowed}, not {python}"));
        }
        let machine = marker_environment(python, platform);
        let is_here = self.supported.is_empty() || self.supported.iter().any(|one| holds(one, &machine, &[]));
        (!is_here)
            .then(|| format!("the lock does not support Python {python} on {platform} (`environments`)"))
    }

    /// The project without extras and groups. Which groups uv installs when none is named is in the manifest, not in the
    /// lock.
    fn plain(&self) -> Chosen {
        Chosen { roots: self.roots.iter().copied().collect(), ..Chosen::default() }
    }

    /// The extras and groups of these nodes by name.
    fn picks_of(&self, nodes: &[usize]) -> Vec<(String, Chosen)> {
        let mut names: BTreeSet<(Kind, &String)> = BTreeSet::new();
        for node in nodes.iter().map(|at| &self.nodes[*at]) {
            names.extend(node.extras.keys().map(|extra| (Kind::Extra, extra)));
            names.extend(node.groups.keys().map(|group| (Kind::Group, group)));
        }
        let of = |(kind, name): (Kind, &String)| {
            let picks = nodes.iter().map(|at| (*at, kind, name.clone())).collect();
            (format!("{} {name}", kind.word()), Chosen { roots: nodes.iter().copied().collect(), picks })
        };
        names.into_iter().map(of).collect()
    }

    /// The choices beside the plain project: its extras and groups, then each other member of the workspace alone, with its
    /// own.
    fn choices(&self) -> Vec<(String, Chosen)> {
        let mut out = self.picks_of(&self.roots);
        for member in &self.members {
            let name = format!("package {}", self.nodes[*member].name);
            out.push((name.clone(), Chosen { roots: BTreeSet::from([*member]), ..Chosen::default() }));
            let own = self.picks_of(&[*member]).into_iter();
            out.extend(own.map(|(choice, chosen)| (format!("{name} {choice}"), chosen)));
        }
        out.truncate(MAX_CHOICES);
        out
    }

    /// What uv installs of the project alone, then with each extra and group, then of each member.
    pub fn environments(&self, platform: Platform, python: Option<Python>) -> Vec<Environment> {
        let choices = std::iter::once(("default".to_owned(), self.plain())).chain(self.choices());
        let of = |(name, chosen): (String, Chosen)| {
            let python = python_for(python, platform, |python| {
                self.allows(python).then(|| self.environment(platform, python, &chosen))
            });
            Environment { name, ..self.environment(platform, python, &chosen) }
        };
        choices.map(of).collect()
    }

    /// The environment that was installed. The project or the member of which the least is missing; then the extras, groups
    /// and members all of whose packages are there; then those that explain most of what no other explains, so that a
    /// package that is missing of them is missed.
    pub fn installed(
        &self,
        platform: Platform,
        python: Python,
        has: &dyn Fn(&str, &Version) -> bool,
    ) -> Environment {
        let is_there = |package: &Package| has(&package.name, &package.version);
        let packages = |chosen: &Chosen| self.environment(platform, python, chosen).packages;
        let alone = |member: &usize| Chosen { roots: BTreeSet::from([*member]), ..Chosen::default() };
        let bases = std::iter::once(self.plain()).chain(self.members.iter().map(alone));
        let missing = |chosen: &Chosen| {
            let all = packages(chosen);
            let installed = all.iter().filter(|package| is_there(package)).count();
            // Of two that are whole, the project comes before its members, unless it installs nothing itself.
            let comes_later = all.is_empty() || chosen.roots != self.plain().roots;
            (all.len() - installed, comes_later, std::cmp::Reverse(installed))
        };
        let mut all = bases.min_by_key(missing).unwrap_or_else(|| self.plain());
        let mut explained = packages(&all);
        let mut named: Vec<String> = Vec::new();
        if all.roots != self.plain().roots {
            named.extend(all.roots.iter().map(|at| format!("package {}", self.nodes[*at].name)));
        }
        let mut partial: Vec<(String, Chosen, Vec<Package>)> = Vec::new();
        for (name, chosen) in self.choices() {
            let mut added = packages(&chosen);
            added.retain(|package| !explained.contains(package));
            let is_conflicting = |package: &Package| {
                explained.iter().any(|known| known.name == package.name && known.version != package.version)
                    && !is_there(package)
            };
            if added.is_empty() || added.iter().any(is_conflicting) {
                continue;
            }
            if added.iter().all(is_there) {
                all.add(chosen);
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
                all.add(chosen);
                named.push(name);
                explained.extend(own);
            }
        }
        let name = if named.is_empty() { "default".to_owned() } else { named.join(", ") };
        Environment { name, ..self.environment(platform, python, &all) }
    }

    /// What a walk reaches.
    fn environment(&self, platform: Platform, python: Python, chosen: &Chosen) -> Environment {
        let machine = marker_environment(python, platform);
        let picks = chosen.picks.iter();
        let extras: Vec<ExtraName> =
            picks.filter_map(|(at, kind, name)| encoded(*kind, &self.nodes[*at].name, name)).collect();
        let mut walk = Walk {
            graph: self,
            machine: &machine,
            extras: &extras,
            queue: Vec::new(),
            seen: BTreeSet::new(),
        };
        for root in &chosen.roots {
            walk.reach(*root, None);
        }
        for (at, kind, name) in &chosen.picks {
            match kind {
                Kind::Extra => walk.reach(*at, Some(name.clone())),
                Kind::Group => {
                    self.nodes[*at].groups.get(name).into_iter().flatten().for_each(|one| walk.follow(one));
                }
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
        let mut out = Environment::new("default", python);
        out.excluded = self.refusal(platform, python);
        out.overridden.clone_from(&self.overridden);
        let members = self.members.iter().filter(|member| chosen.roots.contains(member));
        out.options.extend(members.map(|member| ("package", self.nodes[*member].name.clone())));
        for (_, kind, name) in &chosen.picks {
            let option = (kind.word(), name.clone());
            if !out.options.contains(&option) {
                out.options.push(option);
            }
        }
        for node in reached.into_iter().map(|at| &self.nodes[at]) {
            if node.version.is_none() && !node.is_virtual {
                out.unversioned.push(node.name.clone());
            }
            out.packages.extend(node.package());
        }
        out.packages.sort_by(|a, b| a.name.cmp(&b.name));
        out
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
