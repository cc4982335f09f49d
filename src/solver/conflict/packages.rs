//! Conflict reasons about packages: requirements between them, and missing or unusable releases.

use std::collections::BTreeSet;

use pep508_rs::VersionOrUrl;

use super::available::{first_upload, since};
use super::{Order, Telling};
use crate::model::built_for::BuiltFor;
use crate::model::conflict::{Party, ReasonKind};
use crate::model::count::Count;
use crate::model::project::specifiers_allow;
use crate::model::request::{Origin, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::text::{clean, requirement_name};
use crate::solver::closure::Unusable;
use crate::solver::explain::span;
use crate::solver::node::Node;
use crate::solver::problem::Candidate;
use crate::solver::tables::{Set, is_stack_package};

/// The maximum number of ranges of Python in a message.
const MAX_STATED: usize = 2;
/// The maximum number of extras in a message.
const MAX_LISTED_EXTRAS: usize = 12;

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

impl Telling<'_, '_> {
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
                    let overrides = &p.asked.request.overrides;
                    if let Some(user) = overrides.iter().find(|o| o.name() == &**to) {
                        let text =
                            format!("you override {to} with `{}`", clean(&user.requirement.to_string(), 120));
                        self.asked(Order::Limits, text, Party::package(&**to), &user.origin, true);
                        self.no_release(to, user.specifiers());
                        continue;
                    }
                    let parties = [Party::package(&**from), Party::package(&**to)];
                    if let Some(text) = self.needs_text(&parent, &set, to) {
                        self.say(Order::Packages, text, &parties, self.who_says(&parent, &set, to));
                    }
                    if let Some(text) = self.cap_text(&parent, &set, to) {
                        self.say(Order::Packages, text, &parties, "its metadata");
                    }
                    if let Some(newest) = self.requires_missing_version(&parent, &set, to) {
                        let needed = self.requirement_text(&parent, newest, to);
                        let needed = UserRequirement::parse(&needed, Origin::Question).ok();
                        match needed.as_ref().and_then(|needed| self.cut_off(needed)) {
                            Some(text) => self.say(Order::Packages, text, &[Party::package(&**to)], "index"),
                            None => {
                                let text = self.available_text(
                                    to,
                                    needed.as_ref().and_then(UserRequirement::specifiers),
                                );
                                self.available(text, to);
                            }
                        }
                    }
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
                    let Some(table) = p.stack.get(from.as_ref()) else { continue };
                    let rows: Vec<_> = p
                        .members(&parent, &set)
                        .iter()
                        .filter_map(|i| table.builds.get(*i as usize))
                        .filter(|build| build.torch.is_some_and(|torch| torch.cudnn.is_some()))
                        .collect();
                    let versions: BTreeSet<_> =
                        rows.iter().filter_map(|build| build.torch?.cudnn.clone()).collect();
                    let versions: Vec<_> = versions.into_iter().collect();
                    if !versions.is_empty() && !self.involves_gpu() {
                        // Each variant has its own cuDNN.
                        let rows: Vec<_> = rows.iter().collect();
                        let verb = Count(rows.len()).is();
                        self.say(
                            Order::Gpus,
                            format!(
                                "{} {verb} built with cuDNN {}",
                                self.by_variant(from, &rows),
                                span(&versions)
                            ),
                            &[Party::package(&**from), Party::Cudnn],
                            "registry",
                        );
                    }
                }
                _ => {}
            }
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

    /// Adds candidates that do not exist or cannot be used.
    pub(super) fn absent(&mut self) {
        let p = self.problem;
        let unusable: Vec<(Node, Vec<(Set, Unusable)>)> =
            self.leaves.unusable.iter().map(|(n, l)| (n.clone(), l.clone())).collect();
        for (node, list) in unusable {
            let Some(party) = node.party() else { continue };
            // Merge releases with the same reason.
            let mut told: Vec<(Set, Unusable)> = Vec::new();
            for (set, why) in list.into_iter().rev() {
                match told.iter_mut().find(|(_, known)| *known == why) {
                    Some((all, _)) => *all = all.union(&set),
                    None => told.push((set, why)),
                }
            }
            for (set, why) in told.iter().take(2) {
                if let Unusable::NoExtra(extra) = why {
                    self.no_extra(&node, set, extra);
                    continue;
                }
                let mut parties = vec![party.clone()];
                if matches!(why, Unusable::NotOnIndex(_) | Unusable::IndexNotAllowed(_)) {
                    parties.push(Party::Index);
                }
                let versions = p.versions(&node, set);
                let late = match (why, &node) {
                    (Unusable::Late(_), Node::Build(name)) => {
                        let builds = p.members(&node, set).into_iter();
                        let builds = builds.filter_map(|at| p.build_candidate(name, at as usize).ok()?);
                        builds.filter_map(|own| first_upload(&own)).min()
                    }
                    (Unusable::Late(_), _) => {
                        node.package_name().and_then(|name| self.first_late(name, &versions))
                    }
                    _ => None,
                };
                let late = since(late, versions.len());
                let text = format!("{} {}{late}", p.name_versions(&node, set), why.of(versions.len() > 1));
                let kind = match (why, node.package_name()) {
                    (Unusable::UnknownMetadata(_) | Unusable::UnknownHere(_), Some(name)) => {
                        ReasonKind::UnknownMetadata { package: name.to_string() }
                    }
                    (Unusable::Stub { index: Some(index), .. }, Some(name)) => {
                        ReasonKind::Stub { package: name.to_string(), index: index.clone() }
                    }
                    _ => ReasonKind::Fact,
                };
                self.add(Order::Packages, kind, text, &parties, "index".to_owned());
            }
        }
        let missing: Vec<(Node, Set)> =
            self.leaves.missing.iter().map(|(n, s)| (n.clone(), s.clone())).collect();
        for (node, set) in missing {
            let Node::Package(name) = &node else { continue };
            let members = p.members(&node, &set);
            // Candidates that are unusable for another reason were reported above.
            if is_stack_package(name) || members.is_empty() || self.leaves.unusable.contains_key(&node) {
                continue;
            }
            let candidates = p.candidates(name).unwrap_or_default();
            let is_source = |i: &u32| candidates.get(*i as usize).is_some_and(|c| !c.release.has_wheel);
            if let (Some(limit), true) = (&p.asked.request.no_sources, members.iter().all(is_source)) {
                let exist = Count(members.len()).verb("exist");
                let text = format!(
                    "{} {exist} only as source, and source distributions are refused",
                    p.name_versions(&node, &set)
                );
                self.say(Order::Packages, text, &[Party::package(&**name)], limit.origin.to_string());
            } else if members.iter().all(|i| !self.usable(&node, *i)) {
                let parties = [Party::package(&**name), Party::Python];
                if let Some(text) = self.refused_by_python(&node, &set) {
                    self.say(Order::Packages, text, &parties, "index");
                    continue;
                }
                let named = p.name_versions(&node, &set);
                let has = Count(members.len()).has();
                let fits_newer_libc = |i: &u32| {
                    let candidate = &candidates[*i as usize];
                    let page = candidate.page;
                    let mut series = p.pythons.series.iter();
                    series.any(|python| page.has_usable(candidate.release, *python, p.machine.platform, None))
                };
                if let Some(libc) = p.machine.libc.as_ref().filter(|_| members.iter().all(fits_newer_libc)) {
                    let text =
                        format!("{named} {has} only wheels for a newer C library than the machine's {libc}");
                    self.say(Order::Packages, text, &[Party::package(&**name), Party::Glibc], "wheel tags");
                    continue;
                }
                let series = span(&p.pythons.series);
                let text = format!("{named} {has} no wheel for Python {series} on {}", p.machine.platform);
                self.say(Order::Packages, text, &parties, "wheel tags");
            }
        }
    }

    /// `demo 1.0 requires Python <=3.9`, if `Requires-Python` alone keeps releases from the Pythons of the problem. Of several
    /// that state more than that, the newest is told.
    pub(super) fn refused_by_python(&self, node: &Node, set: &Set) -> Option<String> {
        let p = self.problem;
        let name = node.package_name().filter(|name| !is_stack_package(name))?;
        let candidates = p.candidates(name).ok()?;
        let (platform, libc) = (p.machine.platform, p.machine.libc.as_ref());
        let members = p.members(node, set);
        let mut stated: Vec<String> = Vec::new();
        for candidate in members.iter().map(|i| candidates.get(*i as usize)) {
            let candidate = candidate?;
            for python in &p.pythons.series {
                let of_index = candidate.page.refusal(candidate.release, *python, platform, libc);
                let of_metadata = || {
                    let metadata = p.metadata_of(candidate, name).ok()?.ok()?;
                    metadata.requires_python.as_ref().filter(|range| !specifiers_allow(range, *python))
                };
                let refusal = of_index.or_else(of_metadata)?.to_string();
                if !stated.contains(&refusal) {
                    stated.push(refusal);
                }
            }
        }
        let requires = Count(members.len()).verb("require");
        let named = p.name_versions(node, set);
        match stated.as_slice() {
            [] => None,
            several if several.len() <= MAX_STATED => {
                Some(format!("{named} {requires} Python {}", several.join(" or ")))
            }
            [.., newest] => Some(format!("{named} {requires} other Pythons, the newest {newest}")),
        }
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

    /// Reports that releases lack an extra, and lists the extras of the newest of them.
    fn no_extra(&mut self, node: &Node, set: &Set, extra: &str) {
        let p = self.problem;
        let (Node::Package(name) | Node::Extra(name, _)) = node else { return };
        let plain = Node::Package(name.clone());
        let has = Count(p.versions(&plain, set).len()).has();
        let mut text = format!("{} {has} no extra `{extra}`", p.name_versions(&plain, set));
        let candidates = p.candidates(name).unwrap_or_default();
        let newest = p.members(&plain, set).last().and_then(|i| candidates.get(*i as usize).copied());
        if let Some(Ok(Ok(metadata))) = newest.map(|candidate| p.metadata_of(&candidate, name)) {
            let offered: Vec<&str> = metadata.extras().take(MAX_LISTED_EXTRAS).collect();
            if !offered.is_empty() {
                let whose = match (p.versions(&plain, set).as_slice(), newest) {
                    ([_, _, ..], Some(newest)) => format!("the extras of {}", newest.release.version),
                    _ => "its extras".to_owned(),
                };
                text.push_str(&format!("; {whose}: {}", offered.join(", ")));
            }
        }
        self.say(Order::Packages, text, &[Party::package(&**name)], "its metadata");
    }

    pub(super) fn usable(&self, node: &Node, ordinal: u32) -> bool {
        let Node::Package(name) = node else { return true };
        let candidates = self.problem.candidates(name).unwrap_or_default();
        candidates
            .get(ordinal as usize)
            .is_some_and(|c| self.problem.pythons.series.iter().any(|py| self.problem.has_usable(c, *py)))
    }
}
