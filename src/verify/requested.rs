//! What an installed environment was asked for: the packages that no other one requires, with the extras whose
//! requirements are installed.
//!
//! Nothing on disk records it (pip's REQUESTED is written by uv for every package), so it is derived from the
//! requirements: markers are evaluated, extras too. Every installed package is requested or required by a requested one.

use std::collections::{BTreeMap, BTreeSet};

use pep508_rs::{ExtraName, MarkerEnvironment, Requirement, VerbatimUrl, VersionOrUrl};

use crate::lockfile::PREINSTALLED_PACKAGES;
use crate::model::installed::{Distribution, Installed};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;

/// At most this many extras of a package are considered: each costs a look at all of its requirements.
const MAX_EXTRAS: usize = 500;

/// A package that was asked for, with extras.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requested {
    /// Normalized name.
    pub name: String,
    /// Extras, sorted.
    pub extras: BTreeSet<String>,
}

/// The packages that an environment was asked for, sorted by name. Installers are left out unless something requires
/// them.
pub fn requested(installed: &Installed, platform: Platform) -> Vec<Requested> {
    let environment = marker_environment(installed.marker_python(), platform);
    let mut graph = Graph::new(installed, environment);
    graph.activate_required_extras();
    graph.activate_satisfied_extras();
    graph.roots()
}

type Line = Requirement<VerbatimUrl>;

struct Graph<'i> {
    environment: MarkerEnvironment,
    packages: BTreeMap<&'i str, (&'i Distribution, Vec<Line>)>,
    /// The extras of each package that are installed.
    active: BTreeMap<&'i str, BTreeSet<String>>,
    /// Packages that others require, and that were asked for with extras.
    asked: BTreeSet<&'i str>,
}

impl<'i> Graph<'i> {
    fn new(installed: &'i Installed, environment: MarkerEnvironment) -> Graph<'i> {
        let lines =
            |d: &'i Distribution| d.requires.iter().filter_map(|line| parse_requirement(line).ok()).collect();
        let packages = installed.distributions.iter().map(|d| (d.name.as_str(), (d, lines(d)))).collect();
        Graph { environment, packages, active: BTreeMap::new(), asked: BTreeSet::new() }
    }

    /// The requirements of a package that apply with some extras.
    fn lines<'g>(
        &'g self,
        name: &str,
        extras: &BTreeSet<String>,
    ) -> impl Iterator<Item = &'g Line> + use<'g, 'i> {
        let extras: Vec<ExtraName> = extras.iter().filter_map(|extra| extra.parse().ok()).collect();
        let lines = self.packages.get(name).map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        lines.iter().filter(move |line| line.marker.evaluate(&self.environment, &extras))
    }

    /// The names that an installed package requires, with its active extras; never itself.
    fn required<'g>(&'g self, name: &'g str) -> impl Iterator<Item = &'g str> + use<'g, 'i> {
        let none = BTreeSet::new();
        let extras = self.active.get(name).unwrap_or(&none);
        let names = self.lines(name, extras).map(|line| line.name.as_ref());
        names.filter(move |other: &&str| *other != name)
    }

    /// Extras that a requirement names: `jax-cuda12-plugin[with-cuda]`.
    fn activate_required_extras(&mut self) {
        loop {
            let mut found: Vec<(&'i str, String)> = Vec::new();
            for name in self.packages.keys() {
                let none = BTreeSet::new();
                for line in self.lines(name, self.active.get(name).unwrap_or(&none)) {
                    let to: &str = line.name.as_ref();
                    let Some((to, _)) = self.packages.get_key_value(to) else { continue };
                    let is_new = |extra: &&ExtraName| {
                        self.active.get(to).is_none_or(|known| !known.contains(&extra.to_string()))
                    };
                    found.extend(line.extras.iter().filter(is_new).map(|extra| (*to, extra.to_string())));
                }
            }
            if found.is_empty() {
                return;
            }
            for (name, extra) in found {
                self.active.entry(name).or_default().insert(extra);
            }
        }
    }

    /// Extras whose requirements are all installed, and without which a package would be required by nothing.
    fn activate_satisfied_extras(&mut self) {
        for name in self.packages.keys().copied().collect::<Vec<_>>() {
            let mut candidates: Vec<(usize, String)> = extras_of(&self.packages[name].0.requires)
                .into_iter()
                .take(MAX_EXTRAS)
                .filter_map(|extra| Some((self.satisfied(name, &extra)?, extra)))
                .collect();
            // The largest first; of equal ones the more exact name, `cuda12` before `cuda`.
            candidates.sort_by_key(|(added, extra)| std::cmp::Reverse((*added, extra.len(), extra.clone())));
            for (_, extra) in candidates {
                let orphans = self.orphans();
                let mut with = self.active.get(name).cloned().unwrap_or_default();
                with.insert(extra.clone());
                let adopts = self.lines(name, &with).any(|line| {
                    let to: &str = line.name.as_ref();
                    to != name && orphans.contains(to)
                });
                if !adopts {
                    continue;
                }
                let before = self.active.clone();
                self.active.insert(name, with);
                self.activate_required_extras();
                if orphans.contains(name) {
                    continue;
                }
                // A package that others require was asked for itself only if that explains more than one package:
                // `jax[cuda12]` beside flax does, an extra that names a common package does not.
                let left = self.orphans();
                match orphans.iter().filter(|orphan| !left.contains(*orphan)).count() {
                    0 | 1 => self.active = before,
                    _ => {
                        self.asked.insert(name);
                    }
                }
            }
        }
    }

    /// How many requirements and extras of others an extra adds; nothing if it adds none, or if one of them is not
    /// installed.
    fn satisfied(&self, name: &str, extra: &str) -> Option<usize> {
        let with: BTreeSet<String> = [extra.to_owned()].into();
        let plain: BTreeSet<String> = self.lines(name, &BTreeSet::new()).map(ToString::to_string).collect();
        let added: Vec<&Line> =
            self.lines(name, &with).filter(|line| !plain.contains(&line.to_string())).collect();
        let is_met = |line: &&Line| {
            let to: &str = line.name.as_ref();
            let Some((other, _)) = self.packages.get(to) else { return false };
            match (&line.version_or_url, other.version.valid()) {
                (Some(VersionOrUrl::VersionSpecifier(specifiers)), Some(version)) => {
                    specifiers.contains(version)
                }
                (Some(VersionOrUrl::VersionSpecifier(_)), None) => false,
                _ => true,
            }
        };
        (!added.is_empty() && added.iter().all(is_met))
            .then(|| added.iter().map(|line| 1 + line.extras.len()).sum())
    }

    /// Packages that nothing requires.
    fn orphans(&self) -> BTreeSet<&'i str> {
        let required: BTreeSet<&str> = self.packages.keys().flat_map(|name| self.required(name)).collect();
        self.packages.keys().copied().filter(|name| !required.contains(name)).collect()
    }

    fn roots(&self) -> Vec<Requested> {
        let is_installer = |name: &&&str| !PREINSTALLED_PACKAGES.contains(*name);
        let orphans = self.orphans();
        let mut roots: BTreeSet<&str> =
            orphans.iter().chain(&self.asked).filter(is_installer).copied().collect();
        // Packages that require each other in a circle have no orphan among them: the one that reaches most is it.
        loop {
            let reached: BTreeSet<&str> = roots.iter().flat_map(|root| self.reach(root)).collect();
            let left = self
                .packages
                .keys()
                .copied()
                .filter(|name| !reached.contains(name) && !PREINSTALLED_PACKAGES.contains(name));
            let Some(next) = left.max_by_key(|name| (self.reach(name).len(), std::cmp::Reverse(*name)))
            else {
                break;
            };
            roots.insert(next);
        }
        let extras = |name: &str| self.active.get(name).cloned().unwrap_or_default();
        roots.into_iter().map(|name| Requested { name: name.to_owned(), extras: extras(name) }).collect()
    }

    /// A package and everything that it requires, directly or through others.
    fn reach(&self, name: &'i str) -> BTreeSet<&str> {
        let mut seen: BTreeSet<&str> = [name].into();
        let mut stack = vec![name];
        while let Some(at) = stack.pop() {
            for next in self.required(at).collect::<Vec<_>>() {
                if let Some((next, _)) = self.packages.get_key_value(next)
                    && seen.insert(next)
                {
                    stack.push(next);
                }
            }
        }
        seen
    }
}

/// The extras that markers name: `extra == "cuda12"`.
fn extras_of(lines: &[String]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for line in lines {
        let marker = line.split_once(';').map_or("", |(_, marker)| marker);
        for after in marker.split("extra").skip(1) {
            let Some(value) = after.trim_start().strip_prefix("==") else { continue };
            let value = value.trim_start();
            let Some(quote) = value.chars().next().filter(|c| ['"', '\''].contains(c)) else { continue };
            if let Some(Ok(extra)) = value[1..].split(quote).next().map(str::parse::<ExtraName>) {
                out.insert(extra.to_string());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::Python;

    fn installed(packages: &[(&str, &str, &[&str])]) -> Installed {
        let distributions = packages
            .iter()
            .map(|(name, version, requires)| Distribution {
                name: (*name).to_owned(),
                version: (*version).into(),
                requires: requires.iter().map(|line| (*line).to_owned()).collect(),
                ..Distribution::default()
            })
            .collect();
        Installed { distributions, python: Some(Python::new(12)), ..Installed::default() }
    }

    fn names(packages: &[(&str, &str, &[&str])]) -> Vec<String> {
        let shown = |r: Requested| match r.extras.is_empty() {
            true => r.name,
            false => format!("{}[{}]", r.name, r.extras.into_iter().collect::<Vec<_>>().join(",")),
        };
        requested(&installed(packages), Platform::LINUX_X86_64).into_iter().map(shown).collect()
    }

    #[test]
    fn extras_are_requested_where_their_packages_are_installed() {
        let jax: &[&str] = &[
            "jaxlib==0.12.0",
            "jax-cuda12-plugin[with-cuda]>=0.12 ; extra == \"cuda\"",
            "jax-cuda12-plugin[with-cuda]>=0.12 ; extra == \"cuda12\"",
            "jax-cuda12-plugin>=0.12 ; extra == 'cuda12-local'",
            "jaxlib==0.11.2 ; extra == \"minimum-jaxlib\"",
        ];
        let plugin: &[&str] = &["jax-cuda12-pjrt", "nvidia-cublas-cu12; extra == 'with-cuda'"];
        let packages = [
            ("jax", "0.12.0", jax),
            ("jaxlib", "0.12.0", &[]),
            ("jax-cuda12-plugin", "0.12.0", plugin),
            ("jax-cuda12-pjrt", "0.12.0", &[]),
            ("nvidia-cublas-cu12", "12.9", &[]),
            ("pip", "26.0", &[]),
        ];
        assert_eq!(names(&packages), ["jax[cuda12]"]);
        // Beside a package that requires jax, it was still asked for with its extra.
        let flax: &[&str] = &["jax>=0.6"];
        let with_flax: Vec<_> = packages.iter().copied().chain([("flax", "0.10", flax)]).collect();
        assert_eq!(names(&with_flax), ["flax", "jax[cuda12]"]);
        // Without the plugin nobody asked for it.
        assert_eq!(names(&packages[..2]), ["jax"]);
    }

    #[test]
    fn an_extra_of_a_package_that_nobody_asked_for_explains_no_other() {
        let narwhals: &[&str] = &["pyarrow>=13; extra == 'pyarrow'", "pandas; extra == 'pandas'"];
        let packages: [(&str, &str, &[&str]); 3] =
            [("plotly", "6.0", &["narwhals>=1.15"]), ("narwhals", "2.0", narwhals), ("pyarrow", "24.0", &[])];
        assert_eq!(names(&packages), ["plotly", "pyarrow"]);
    }

    #[test]
    fn a_marker_that_does_not_hold_requires_nothing() {
        let packages: [(&str, &str, &[&str]); 3] = [
            ("torchcodec", "0.17", &["numpy; extra == 'dev'", "pytest; extra == 'dev'"]),
            ("numpy", "2.5", &[]),
            ("six", "1.0", &["numpy; python_version < '3.8'"]),
        ];
        assert_eq!(names(&packages), ["numpy", "six", "torchcodec"]);
    }

    #[test]
    fn packages_that_require_each_other_have_a_root() {
        let packages: [(&str, &str, &[&str]); 4] = [
            ("tensorflow", "2.15.1", &["tensorflow-io-gcs-filesystem>=0.23", "numpy<2"]),
            ("tensorflow-io-gcs-filesystem", "0.37.1", &["tensorflow <2.17,>=2.16 ; extra == 'tensorflow'"]),
            ("numpy", "1.26", &[]),
            ("a", "1.0", &["b"]),
        ];
        assert_eq!(names(&packages), ["a", "tensorflow"]);
        let circle: [(&str, &str, &[&str]); 3] =
            [("a", "1.0", &["b"]), ("b", "1.0", &["a", "c"]), ("c", "1.0", &[])];
        assert_eq!(names(&circle), ["a"]);
    }
}
