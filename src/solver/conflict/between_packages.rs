//! Conflict reasons about packages: requirements between them, and missing or unusable releases.

use std::collections::BTreeSet;

use pep508_rs::VersionOrUrl;

use super::{Explainer, Order};
use crate::model::built_for::BuiltFor;
use crate::model::conflict::Party;
use crate::model::count::Count;
use crate::model::request::{Origin, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::text::{clean, requirement_name};
use crate::solver::explain::span;
use crate::solver::node::Node;
use crate::solver::problem::Candidate;
use crate::solver::tables::{Set, is_stack_package};

/// A requirement without regard to how it is written: `a (<2,>=1)` and `a>=1,<2` are the same.
fn meaning(text: &str) -> String {
    let Ok(requirement) = parse_requirement(text) else { return text.to_owned() };
    let Some(VersionOrUrl::VersionSpecifier(specifiers)) = &requirement.version_or_url else {
        return text.to_owned();
    };
    let mut words: Vec<String> = specifiers.iter().map(ToString::to_string).collect();
    words.extend(requirement.extras.iter().map(ToString::to_string));
    words.sort();
    words.join(" ")
}

impl Explainer<'_, '_> {
    /// Adds requirements between packages, the user's constraints and advisories.
    pub(super) fn packages(&mut self) {
        let p = self.problem;
        // A package and its extras are one package: what is required of any of them is one sentence.
        let mut pairs: Vec<(Node, Node, Set)> = Vec::new();
        for ((parent, dependency), set) in &self.leaves.needs {
            let is_same = |(a, b, _): &&mut (Node, Node, Set)| {
                a == parent && b.package_name().is_some() && b.package_name() == dependency.package_name()
            };
            match pairs.iter_mut().find(is_same) {
                Some((.., all)) => *all = all.union(set),
                None => pairs.push((parent.clone(), dependency.clone(), set.clone())),
            }
        }
        for (parent, dependency, set) in pairs {
            let (Node::Build(from) | Node::Package(from) | Node::Extra(from, _)) = &parent else {
                continue;
            };
            match &dependency {
                Node::Package(to) | Node::Extra(to, _) if to != from => {
                    self.requirement(&parent, from, to, &set);
                }
                Node::Bound(_) => {
                    for (bound, specifiers) in p.bounds_on(from) {
                        if bound.origin == Origin::Question {
                            continue;
                        }
                        let text = format!("you constrain {from} to {specifiers}");
                        let above = bound.bounds_above();
                        self.asked(Order::Limits, text, Party::package(&**from), &bound.origin, above);
                        self.no_release(from, Some(specifiers));
                    }
                }
                Node::Advisory(i) => {
                    let advisory = p.advisories[*i];
                    let text = format!("{} (requires {})", advisory.text, p.advisory_requirement(*i));
                    self.say(
                        Order::Packages,
                        text,
                        &[Party::package(&advisory.package), Party::package(&**from)],
                        p.registry.source_text(&advisory.source),
                    );
                }
                Node::Cudnn => {
                    self.built_with_cudnn(&parent, from, &set);
                }
                _ => {}
            }
        }
    }

    /// Adds what releases of one package require of another, or what is said in the place of that.
    fn requirement(&mut self, parent: &Node, from: &str, to: &str, set: &Set) {
        let p = self.problem;
        let overrides = &p.asked.request.overrides;
        if let Some(user) = overrides.iter().find(|o| o.name() == to) {
            let text = format!("you override {to} with `{}`", clean(&user.requirement.to_string(), 120));
            self.asked(Order::Limits, text, Party::package(to), &user.origin, true);
            self.no_release(to, user.specifiers());
            return;
        }
        let parties = [Party::package(from), Party::package(to)];
        if let Some(text) = self.needs_text(parent, set, to) {
            self.say(Order::Packages, text, &parties, self.who_says(parent, set, to));
        }
        if let Some(text) = self.cap_text(parent, set, to) {
            self.say(Order::Packages, text, &parties, "its metadata");
        }
        if let Some(newest) = self.requires_missing_version(parent, set, to) {
            let needed = self.requirement_text(parent, newest, to);
            let needed = UserRequirement::parse(&needed, Origin::Question).ok();
            match needed.as_ref().and_then(|needed| self.cut_off(needed)) {
                Some(text) => self.say(Order::Packages, text, &[Party::package(to)], "index"),
                None => {
                    let text = self.available_text(to, needed.as_ref().and_then(UserRequirement::specifiers));
                    self.available(text, to);
                }
            }
        }
    }

    /// Adds the cuDNN that builds of torch were made with.
    fn built_with_cudnn(&mut self, parent: &Node, from: &str, set: &Set) {
        let p = self.problem;
        let Some(table) = p.stack.get(from) else { return };
        let rows: Vec<_> = p
            .members(parent, set)
            .iter()
            .filter_map(|i| table.builds.get(*i as usize))
            .filter(|build| build.torch.is_some_and(|torch| torch.cudnn.is_some()))
            .collect();
        let versions: BTreeSet<_> = rows.iter().filter_map(|build| build.torch?.cudnn.clone()).collect();
        let versions: Vec<_> = versions.into_iter().collect();
        if !versions.is_empty() && !self.involves_gpu() {
            // Each variant has its own cuDNN.
            let rows: Vec<_> = rows.iter().collect();
            let verb = Count(rows.len()).is();
            self.say(
                Order::Gpus,
                format!("{} {verb} built with cuDNN {}", self.by_variant(from, &rows), span(&versions)),
                &[Party::package(from), Party::Cudnn],
                "registry",
            );
        }
    }

    /// The newest version in a set, if it requires a package in a version that does not exist.
    fn requires_missing_version(&self, parent: &Node, set: &Set, to: &str) -> Option<u32> {
        let p = self.problem;
        let newest = p.members(parent, set).last().copied()?;
        let needed = match parent {
            Node::Build(name) => {
                let candidate = p.build_candidate(name, newest as usize).ok().flatten()?;
                p.required_by(&candidate, name, None)
            }
            Node::Package(name) if !is_stack_package(name) => p.package_dependencies(name, newest, None),
            Node::Extra(name, extra) if !is_stack_package(name) => {
                p.package_dependencies(name, newest, Some(extra))
            }
            _ => return None,
        };
        let list = needed.ok()?.ok()?;
        list.iter().any(|(node, set)| *node == Node::package(to) && set.is_empty()).then_some(newest)
    }

    /// That a later release caps a package for versions in a set that admit more themselves.
    fn cap_text(&self, parent: &Node, set: &Set, to: &str) -> Option<String> {
        let p = self.problem;
        let Node::Package(name) = parent else { return None };
        let node = Node::package(to);
        let cap_of = |i: &u32| {
            let cap = p.caps(name, *i).ok()?.remove(to)?;
            let own = p.package_dependencies(name, *i, None).ok()?.ok()?;
            let mut of_it = own.iter().filter(|(other, _)| *other == node);
            of_it
                .all(|(_, admitted)| !admitted.subset_of(&Set::strictly_lower_than(cap.top + 1)))
                .then_some(cap)
        };
        let cap = p.members(parent, set).iter().rev().find_map(cap_of)?;
        let later = &p.candidates(name).ok()?.get(cap.later as usize)?.release.version;
        let requirement = clean(&cap.requirement, 80);
        Some(format!(
            "{name} {later} needs {requirement}: an older {name} without such a bound is not taken beside a newer {to}"
        ))
    }

    /// What the versions in a set require of a package: the requirement as written, if all of them state the same one or one of
    /// two; else that of the newest, and that the others differ. `None` if they require nothing of it: it is capped for them.
    fn needs_text(&self, parent: &Node, set: &Set, to: &str) -> Option<String> {
        let p = self.problem;
        let need = |part: &Set| Count(p.versions(parent, part).len()).verb("need");
        let mut members = p.members(parent, set);
        if let Node::Package(name) = parent
            && !is_stack_package(name)
        {
            let node = Node::package(to);
            let requires = |i: &u32| {
                let own = p.package_dependencies(name, *i, None).ok().and_then(Result::ok);
                own.is_none_or(|own| own.iter().any(|(other, _)| other.package_name() == node.package_name()))
            };
            members.retain(requires);
            if members.is_empty() {
                return None;
            }
        }
        let text_of = |i: &u32| self.requirement_text(parent, *i, to);
        let meaning_of = |i: &u32| meaning(&text_of(i));
        let Some(newest) = members.last().map(text_of) else {
            return Some(format!("{} {} {to}", p.name_versions(parent, set), need(set)));
        };
        let of = |part: &mut dyn Iterator<Item = &u32>| {
            part.fold(Set::empty(), |all, i| all.union(&Set::singleton(*i)))
        };
        // Representatives stand for versions with the same requirements, so their members are compared as well.
        let same = of(&mut members.iter().filter(|i| meaning_of(i) == meaning(&newest)));
        let others: Vec<u32> =
            members.iter().copied().filter(|i| meaning_of(i) != meaning(&newest)).collect();
        let first = format!("{} {} {newest}", p.name_versions(parent, &same), need(&same));
        let Some(other) = others.last().map(text_of) else { return Some(first) };
        let rest = of(&mut others.iter());
        Some(match others.iter().all(|i| meaning_of(i) == meaning(&other)) {
            true => format!("{first}; {} {} {other}", p.name_versions(parent, &rest), need(&rest)),
            false => {
                let have = Count(p.versions(parent, &rest).len()).has();
                format!("{first}; {} {have} other requirements on {to}", p.name_versions(parent, &rest))
            }
        })
    }

    /// Who says what the newest version in a set requires of a package.
    fn who_says(&self, parent: &Node, set: &Set, to: &str) -> &'static str {
        let p = self.problem;
        let (Node::Package(name) | Node::Extra(name, _)) = parent else { return "its metadata" };
        let candidates = p.candidates(name).unwrap_or_default();
        let newest = p.members(parent, set).last().and_then(|i| candidates.get(*i as usize).copied());
        let Some(version) = newest.map(|candidate| &candidate.release.version) else { return "its metadata" };
        let is_undeclared = |line: &String| requirement_name(line) == to && !is_stack_package(name);
        if to == "torch" && BuiltFor::of(version).is_some() {
            "its version"
        } else if p.registry.undeclared(name, version).iter().any(is_undeclared) {
            "registry"
        } else {
            "its metadata"
        }
    }

    /// The requirement of one candidate on a package, as its metadata states it.
    pub(super) fn requirement_text(&self, parent: &Node, candidate: u32, to: &str) -> String {
        let p = self.problem;
        let extras: Vec<_> = match parent {
            Node::Extra(_, extra) => extra.parse().into_iter().collect(),
            _ => Vec::new(),
        };
        let in_metadata = |candidate: &Candidate<'_>, name: &str| {
            let metadata = p.metadata_of(candidate, name).ok().and_then(Result::ok)?;
            let environment = *p.environments_for(metadata).first()?;
            let all = metadata.requirements(environment, &extras).filter_map(Result::ok);
            let mut lines: Vec<_> = all.filter(|(r, _)| (r.name.as_ref() as &str) == to).collect();
            // A line without a version says nothing beside one with it.
            if lines.iter().any(|(r, _)| r.version_or_url.is_some()) {
                lines.retain(|(r, _)| r.version_or_url.is_some());
            }
            let shown = |text: &str| clean(text.split(';').next().unwrap_or(text).trim(), 80);
            let mut texts: Vec<String> = lines.into_iter().map(|(_, text)| shown(text)).collect();
            texts.dedup();
            (!texts.is_empty()).then(|| texts.join(" and "))
        };
        let text = match parent {
            Node::Build(name) if to == "torch" => p.stack[name.as_ref()].builds[candidate as usize]
                .torch_requirement
                .as_ref()
                .map(|r| format!("torch {r}")),
            Node::Build(name) => {
                let build = p.build_candidate(name, candidate as usize).ok().flatten();
                build.and_then(|build| in_metadata(&build, name))
            }
            Node::Package(name) | Node::Extra(name, _) if !is_stack_package(name) => {
                let candidates = p.candidates(name).unwrap_or_default();
                candidates.get(candidate as usize).and_then(|candidate| in_metadata(candidate, name))
            }
            _ => None,
        };
        text.unwrap_or_else(|| to.to_owned())
    }

    /// Reports the releases that allow some patch releases of the Python series only.
    pub(super) fn patches(&mut self) {
        let p = self.problem;
        let parents: Vec<(Node, Set)> =
            self.leaves.parents_of(&Node::Patch).map(|(n, s)| (n.clone(), s.clone())).collect();
        for (node, set) in parents {
            let Some(name) = node.package_name() else { continue };
            let Ok(candidates) = p.candidates(name) else { continue };
            let members = p.members(&node, &set);
            let files = members.iter().filter_map(|i| candidates.get(*i as usize));
            let mut stated: Vec<String> = files
                .flat_map(|candidate| candidate.page.files(candidate.release))
                .filter_map(|file| file.requires_python.as_ref().map(ToString::to_string))
                .collect();
            stated.sort();
            stated.dedup();
            let requires = Count(members.len()).verb("require");
            let text = format!(
                "{} {requires} Python {}",
                p.name_versions(&node, &set),
                clean(&stated.join(" or "), 120)
            );
            self.say(Order::Wheels, text, &[Party::package(name), Party::Python], "index");
        }
    }
}
