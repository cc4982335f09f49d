//! Conflict reasons about releases that do not exist or cannot be used.

use std::collections::BTreeSet;

use super::available::{first_upload, since};
use super::{Explainer, Order};
use crate::model::conflict::{Party, ReasonKind};
use crate::model::count::Count;
use crate::model::project::specifiers_allow;
use crate::model::wheel::Python;
use crate::solver::closure::Unusable;
use crate::solver::explain::python_series;
use crate::solver::node::Node;
use crate::solver::tables::{Set, is_stack_package};

/// The maximum number of ranges of Python in a message.
const MAX_STATED: usize = 2;
/// The maximum number of extras in a message.
const MAX_LISTED_EXTRAS: usize = 12;
/// The maximum number of reasons why releases of one package cannot be used.
const MAX_REASONS_EACH: usize = 2;

impl Explainer<'_, '_> {
    /// Adds candidates that do not exist or cannot be used.
    pub(super) fn absent(&mut self) {
        let mut stubs: Vec<(Unusable, Vec<(Node, Set)>)> = Vec::new();
        for (node, list) in self.leaves.unusable.clone() {
            if self.is_excluded_by_bounds(&node) {
                continue;
            }
            // Releases with the same reason are one.
            let mut merged: Vec<(Set, Unusable)> = Vec::new();
            for (set, why) in list.into_iter().rev() {
                match merged.iter_mut().find(|(_, known)| *known == why) {
                    Some((all, _)) => *all = all.union(&set),
                    None => merged.push((set, why)),
                }
            }
            for (set, why) in merged.into_iter().take(MAX_REASONS_EACH) {
                match why {
                    Unusable::NoExtra(extra) => self.no_extra(&node, &set, &extra),
                    // Packages that are stubs often require each other.
                    Unusable::Stub { .. } => match stubs.iter_mut().find(|(known, _)| *known == why) {
                        Some((_, all)) => all.push((node.clone(), set)),
                        None => stubs.push((why, vec![(node.clone(), set)])),
                    },
                    why => self.unusable(&node, &set, &why),
                }
            }
        }
        for (why, releases) in stubs {
            self.stubs(&why, &releases);
        }
        let missing: Vec<(Node, Set)> =
            self.leaves.missing.iter().map(|(n, s)| (n.clone(), s.clone())).collect();
        for (node, set) in missing {
            if !self.is_excluded_by_bounds(&node) {
                self.missing(&node, &set);
            }
        }
    }

    /// Whether constraints that the proof names exclude all versions of a package: what else is wrong with some of them is no
    /// reason.
    fn is_excluded_by_bounds(&self, node: &Node) -> bool {
        node.package_name().is_some_and(|name| {
            self.bounds_on(name).next().is_some()
                && self.problem.asked.request.contradiction_on(name).is_some()
        })
    }

    /// Adds packages that exist only as stubs of one kind.
    fn stubs(&mut self, why: &Unusable, releases: &[(Node, Set)]) {
        let p = self.problem;
        let several =
            releases.len() > 1 || releases.iter().any(|(node, set)| p.versions(node, set).len() > 1);
        let named: Vec<String> = releases.iter().map(|(node, set)| p.name_versions(node, set)).collect();
        let packages: BTreeSet<String> = releases
            .iter()
            .filter_map(|(node, _)| node.package_name())
            .map(|name| name.to_string())
            .collect();
        let parties: Vec<Party> = packages.iter().map(Party::package).collect();
        let kind = match why {
            Unusable::Stub { index: Some(index), .. } => {
                ReasonKind::Stub { packages: packages.into_iter().collect(), index: index.clone() }
            }
            _ => ReasonKind::Fact,
        };
        self.add(
            Order::Packages,
            kind,
            format!("{} {}", in_list(&named), why.of(several)),
            &parties,
            "index".to_owned(),
        );
    }

    /// Adds releases of one package that cannot be used, all for one reason.
    fn unusable(&mut self, node: &Node, set: &Set, why: &Unusable) {
        let p = self.problem;
        let Some(party) = node.party() else { return };
        let mut parties = vec![party];
        if matches!(why, Unusable::NotOnIndex(_) | Unusable::IndexNotAllowed(_)) {
            parties.push(Party::Index);
        }
        if matches!(why, Unusable::NoWheel | Unusable::UnknownHere(_)) {
            parties.push(Party::Python);
        }
        let versions = p.versions(node, set);
        let late = match (why, node) {
            (Unusable::Late(_), Node::Build(name)) => {
                let builds = p.members(node, set).into_iter();
                let builds = builds.filter_map(|at| p.build_candidate(name, at as usize).ok()?);
                builds.filter_map(|own| first_upload(&own)).min()
            }
            (Unusable::Late(_), _) => node.package_name().and_then(|name| self.first_late(name, &versions)),
            _ => None,
        };
        let late = since(late, versions.len());
        let place = self.place_without_wheel(node, set);
        let predicate = why.of_place(versions.len() > 1, &place);
        let text = format!("{} {predicate}{late}", p.name_versions(node, set));
        let kind = match (why, node.package_name()) {
            (Unusable::UnknownMetadata(_) | Unusable::UnknownHere(_), Some(name)) => {
                ReasonKind::UnknownMetadata { package: name.to_string() }
            }
            _ => ReasonKind::Fact,
        };
        self.add(Order::Packages, kind, text, &parties, "index".to_owned());
    }

    /// Adds releases of one package that have no file for the Pythons and the machine.
    fn missing(&mut self, node: &Node, set: &Set) {
        let p = self.problem;
        let (Node::Package(name) | Node::Extra(name, _)) = node else { return };
        let node = &Node::Package(name.clone());
        let members = p.members(node, set);
        // Where some can be used, it is not for want of files.
        if is_stack_package(name) || members.is_empty() || members.iter().any(|i| self.usable(name, *i)) {
            return;
        }
        let candidates = p.candidates(name).unwrap_or_default();
        let is_source = |i: &u32| candidates.get(*i as usize).is_some_and(|c| !c.release.has_wheel);
        if let (Some(limit), true) = (&p.asked.request.no_sources, members.iter().all(is_source)) {
            let exist = Count(members.len()).verb("exist");
            let text = format!(
                "{} {exist} only as source, and source distributions are refused",
                p.name_versions(node, set)
            );
            self.say(Order::Packages, text, &[Party::package(&**name)], limit.origin.to_string());
            return;
        }
        let parties = [Party::package(&**name), Party::Python];
        if let Some(text) = self.refused_by_python(node, set) {
            self.say(Order::Packages, text, &parties, "index");
            return;
        }
        let named = p.name_versions(node, set);
        let has = Count(members.len()).has();
        let fits_newer_libc = |i: &u32| {
            let candidate = &candidates[*i as usize];
            let page = candidate.page;
            let mut series = p.pythons.series.iter();
            series.any(|python| page.has_usable(candidate.release, *python, p.machine.platform, None))
        };
        if let Some(libc) = p.machine.libc.as_ref().filter(|_| members.iter().all(fits_newer_libc)) {
            let unbuilt = match members.iter().any(|i| candidates[*i as usize].release.has_source) {
                true => "; what has a wheel for a Python is not built from source for it",
                false => "",
            };
            let text =
                format!("{named} {has} only wheels for a newer C library than the machine's {libc}{unbuilt}");
            self.say(Order::Packages, text, &[Party::package(&**name), Party::Glibc], "wheel tags");
            return;
        }
        let place = self.place_without_wheel(node, set);
        let text = format!("{named} {has} no wheel for {place}");
        self.say(Order::Packages, text, &parties, "wheel tags");
        // What could be built is refused by the request alone.
        if let Some(limit) = &p.asked.request.no_sources
            && members.iter().any(|i| candidates[*i as usize].release.has_source)
        {
            let text = "builds from source are refused".to_owned();
            self.asked(Order::Limits, text, Party::package(&**name), &limit.origin, true);
        }
    }

    /// The Pythons for which none of some releases has a wheel, and the platform: `Python 3.10 to 3.15 on linux-x86_64`.
    fn place_without_wheel(&self, node: &Node, set: &Set) -> String {
        let p = self.problem;
        let lacks = |python: &&Python| {
            let Some(name) = node.package_name().filter(|name| !is_stack_package(name)) else { return true };
            let candidates = p.candidates(name).unwrap_or_default();
            let members = p.members(node, set);
            !members.iter().filter_map(|i| candidates.get(*i as usize)).any(|own| p.has_wheel(own, **python))
        };
        let minors: BTreeSet<u32> =
            p.pythons.series.iter().filter(lacks).map(|python| python.minor).collect();
        match minors.is_empty() {
            true => format!("this Python on {}", p.machine.platform),
            false => format!("Python {} on {}", python_series(&minors), p.machine.platform),
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

    fn usable(&self, name: &str, ordinal: u32) -> bool {
        let candidates = self.problem.candidates(name).unwrap_or_default();
        candidates
            .get(ordinal as usize)
            .is_some_and(|c| self.problem.pythons.series.iter().any(|py| self.problem.has_usable(c, *py)))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn in_list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
