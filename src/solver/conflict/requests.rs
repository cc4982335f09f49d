//! Conflict reasons from the user's request.

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifier};
use pep508_rs::VersionOrUrl;

use super::available::since;
use super::{Explainer, Order};
use crate::compatibility::ImpossibleVariant;
use crate::model::conflict::Party;
use crate::model::count::Count;
use crate::model::request::UserRequirement;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::{Build, Cited};
use crate::solver::explain::{phrase, span};
use crate::solver::node::Node;
use crate::solver::tables::is_stack_package;

impl Explainer<'_, '_> {
    /// Adds the parts of the request that the proof refers to.
    pub(super) fn requests(&mut self) {
        let mut asked: Vec<Node> = self
            .leaves
            .needs
            .keys()
            .filter(|(parent, _)| *parent == Node::Root)
            .map(|(_, d)| d.clone())
            .collect();
        asked.extend(self.limits_on_builds());
        for node in asked {
            match &node {
                Node::Package(name) | Node::Extra(name, _) => self.lines_about(name),
                Node::Build(name) => {
                    self.lines_about(name);
                    self.limit_on_nccl(name);
                }
                Node::Variant => {
                    self.limit_on_cuda();
                    self.limit_on_variant();
                }
                Node::Cudnn => self.limit_on_cudnn(),
                Node::StackIndex => self.limit_on_index(),
                _ => {}
            }
        }
    }

    /// All lines about a package: the proof has them as one.
    fn lines_about(&mut self, name: &str) {
        let p = self.problem;
        // A line for another Python has no part in it.
        let applies = |user: &&UserRequirement| {
            let marker = &user.requirement.marker;
            p.pythons.environments.iter().any(|environment| marker.evaluate(environment, &[]))
        };
        let of_name = |user: &&UserRequirement| user.name() == name && applies(user);
        let users: Vec<&UserRequirement> = p.asked.request.requirements.iter().filter(of_name).collect();
        let says_nothing = |user: &UserRequirement| {
            user.specifiers().is_none_or(|s| s.is_empty()) && user.requirement.extras.is_empty()
        };
        let is_plain = users.iter().all(|user| says_nothing(user));
        let shown = users.into_iter().enumerate().filter(|(place, user)| match is_plain {
            true => *place == 0,
            false => !says_nothing(user),
        });
        for (_, user) in shown {
            let text = crate::model::text::clean(&user.line().replace(" @ path:", " @ "), 100);
            let text = format!("you require {text}");
            self.asked(Order::Requests, text, Party::package(name), &user.origin, user.bounds_above());
        }
        self.unsatisfiable_request(name);
    }

    /// Adds the limit to some indexes, if there is one.
    pub(super) fn limit_on_index(&mut self) {
        if let Some(limit) = &self.problem.asked.request.only_index {
            let text = format!("only {} may be used", limit.value.in_words());
            self.asked(Order::Index, text, Party::Index, &limit.origin, true);
        }
    }

    fn limit_on_nccl(&mut self, name: &str) {
        let Some(limit) = &self.problem.asked.request.nccl else { return };
        let text = format!("you require NCCL {}", limit.value);
        let above = limit.value.bounds_above();
        self.asked(Order::Requests, text, Party::package(name), &limit.origin, above);
        self.none_within("NCCL", Party::Nccl, |build| build.nccl.clone(), &|v| limit.value.contains(v));
    }

    fn limit_on_cudnn(&mut self) {
        let Some(limit) = &self.problem.asked.request.cudnn else { return };
        let text = format!("you require cuDNN {}", limit.value);
        self.asked(Order::Requests, text, Party::Cudnn, &limit.origin, limit.value.bounds_above());
        self.none_within("cuDNN", Party::Cudnn, |build| build.cudnn.clone(), &|v| limit.value.contains(v));
    }

    fn limit_on_cuda(&mut self) {
        let p = self.problem;
        let Some(limit) = &p.asked.request.cuda else { return };
        let text = format!("you require CUDA {}", limit.value);
        self.asked(Order::Requests, text, Party::Cuda, &limit.origin, limit.value.bounds_above());
        let all: BTreeSet<_> = p.variants.iter().filter_map(|v| v.cuda.as_ref()).collect();
        if !all.iter().any(|cuda| limit.value.contains(cuda)) {
            let names: Vec<String> = all.iter().map(|cuda| cuda_short(cuda)).collect();
            let text =
                format!("the builds of torch for {} are for CUDA {}", p.machine.platform, names.join(", "));
            let parties = [Party::package("torch"), Party::Cuda];
            self.say(Order::Choices, text, &parties, p.registry.stack_label());
        }
    }

    fn limit_on_variant(&mut self) {
        let p = self.problem;
        let Some(limit) = &p.asked.request.variant else { return };
        let text = format!("you pin the variant {}", limit.value);
        self.asked(Order::Requests, text, Party::Variant, &limit.origin, true);
        if !p.variants.iter().any(|v| v.name == limit.value) {
            let names: Vec<_> = p.variants.iter().map(|v| v.name.clone()).collect();
            let names = names.join(", ");
            let text = match p.registry.has_stack_of_channels() {
                true => format!("the builds of the channels for this machine are {names}"),
                false => format!("the variants for {} are {names}", p.machine.platform),
            };
            self.say(Order::Choices, text, &[Party::Variant], p.registry.stack_label());
        }
    }

    /// Which versions of a library the builds of torch have, if a limit admits none of them.
    fn none_within(
        &mut self,
        library: &str,
        party: Party,
        version: impl Fn(&Cited<Build>) -> Option<DottedVersion>,
        is_within: &dyn Fn(&DottedVersion) -> bool,
    ) {
        let p = self.problem;
        let of = |admitted: &dyn Fn(u32) -> bool| -> BTreeSet<DottedVersion> {
            let rows = p.stack["torch"].builds.iter().filter(|row| admitted(row.version_ordinal));
            rows.filter_map(|row| version(row.torch?)).collect()
        };
        let all = of(&|_| true);
        let text = if all.iter().any(is_within) {
            // Those that the rest of the request admits.
            let ordinals = self.stack_versions("torch");
            let own = of(&|ordinal| ordinals.contains(&ordinal));
            if own.is_empty() || own.iter().any(is_within) {
                return;
            }
            let table = &p.stack["torch"];
            let named: Vec<Version> = ordinals.iter().map(|i| table.versions[*i as usize].clone()).collect();
            let has = Count(named.len()).has();
            let own: Vec<&DottedVersion> = own.iter().collect();
            format!("{} {has} {library} {}", phrase("torch", &named, &table.versions), span(&own))
        } else if !all.is_empty() {
            let names: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!("the builds of torch for {} have {library} {}", p.machine.platform, names.join(", "))
        } else {
            return;
        };
        self.say(Order::Choices, text, &[Party::package("torch"), party], p.registry.stack_label());
    }

    /// The limits of the request that exclude torch builds of the proof without being the root's dependencies.
    fn limits_on_builds(&self) -> Vec<Node> {
        let p = self.problem;
        let torch = Node::build("torch");
        let Some(set) = self.leaves.needs.get(&(torch.clone(), Node::Variant)) else { return Vec::new() };
        let builds = p.members(&torch, set).into_iter().map(|at| &p.stack["torch"].builds[at as usize]);
        builds.flat_map(|build| p.outside_limits(build)).collect::<BTreeSet<Node>>().into_iter().collect()
    }

    /// The message if releases that a request admits are yanked.
    fn only_yanked(&self, user: &UserRequirement) -> Option<String> {
        let name = user.name();
        let specifiers = match &user.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        };
        if is_stack_package(name) {
            return None;
        }
        let candidates = self.problem.candidates(name).ok()?;
        let admitted = candidates
            .iter()
            .filter(|c| c.release.cut.is_none() && specifiers.is_none_or(|s| s.contains(&c.release.version)));
        let yanked: Vec<_> = admitted.filter(|c| c.release.yanked).map(|c| &c.release.version).collect();
        let verb = Count(yanked.len()).is();
        (!yanked.is_empty()).then(|| {
            format!(
                "{name} {} {verb} yanked; a yanked release is used only if pinned with `==`",
                span(&yanked)
            )
        })
    }

    /// The message if the cutoff excludes releases that a request admits.
    pub(super) fn cut_off(&self, user: &UserRequirement) -> Option<String> {
        let name = user.name();
        let candidates = self.problem.candidates(name).ok()?;
        let specifiers = user.specifiers();
        let admitted =
            candidates.iter().filter(|c| specifiers.is_none_or(|s| s.contains(&c.release.version)));
        let cut: Vec<_> =
            admitted.filter_map(|c| Some((self.problem.cut(c, name)?, &c.release.version))).collect();
        // The newest says it: the index that states no times states none at all.
        let (why, _) = cut.last()?;
        let same: Vec<_> =
            cut.iter().filter(|(other, _)| other == why).map(|(_, version)| *version).collect();
        let versions: Vec<Version> = same.iter().map(|version| (*version).clone()).collect();
        let first = self.first_late(name, &versions);
        let late = since(first, same.len());
        Some(match same.as_slice() {
            [one] => format!("{name} {one} {}{late}", why.of(false)),
            many => format!("{name} {} {}{late}", span(many), why.of(true)),
        })
    }

    /// Whether each bound of a requirement admits a version, and together they admit none.
    fn exclude_each_other(&self, user: &UserRequirement) -> bool {
        let Some(specifiers) = user.specifiers().filter(|_| user.is_contradiction()) else { return false };
        let versions = self.problem.all_versions(&Node::package(user.name()));
        let admits = |bound: &VersionSpecifier| versions.iter().any(|version| bound.contains(version));
        specifiers.iter().all(admits) && !versions.iter().any(|version| specifiers.contains(version))
    }

    /// For a request that no version satisfies, adds the available versions or variants.
    pub(super) fn unsatisfiable_request(&mut self, name: &str) {
        let of_name = |user: &&UserRequirement| user.name() == name;
        let users: Vec<UserRequirement> =
            self.problem.asked.request.requirements.iter().filter(of_name).cloned().collect();
        users.iter().for_each(|user| self.unsatisfiable(user, name));
    }

    fn unsatisfiable(&mut self, user: &UserRequirement, name: &str) {
        let p = self.problem;
        let Ok(Ok(list)) = p.requirement(&user.requirement) else { return };
        if list.iter().any(|(n, s)| *n == Node::package(name) && s.is_empty()) {
            match self.cut_off(user).or_else(|| self.only_yanked(user)) {
                Some(text) => self.say(Order::Packages, text, &[Party::package(name)], "index"),
                None if self.exclude_each_other(user) => {
                    let bounds: Vec<String> = user
                        .specifiers()
                        .into_iter()
                        .flat_map(|all| all.iter())
                        .map(ToString::to_string)
                        .collect();
                    let text = format!("no version of {name} is {} at once", bounds.join(" and "));
                    self.say(Order::Packages, text, &[Party::package(name)], "");
                }
                None => {
                    let text = self
                        .neighbours_text(name, user.specifiers())
                        .unwrap_or_else(|| self.available_text(name, user.specifiers()));
                    self.available(text, name);
                }
            }
        } else if list.iter().any(|(n, s)| *n == Node::build(name) && s.is_empty())
            && let Some((_, versions)) = list.iter().find(|(n, _)| *n == Node::package(name))
        {
            let table = &p.stack[name];
            let mut flavours: Vec<&str> = Vec::new();
            for build in table.builds.iter().filter(|b| versions.contains(&b.version_ordinal)) {
                let variant = p.variants[build.variant as usize].name.as_str();
                if !flavours.contains(&variant) {
                    flavours.push(variant);
                }
            }
            // What the machine cannot run needs no row to be known.
            let pinned = p.asked.request.pinned_variant(name);
            let impossible =
                pinned.and_then(|variant| ImpossibleVariant::of(p.registry, p.machine.host, &variant));
            let (text, source) = match impossible {
                Some(why) => (why.to_string(), p.registry.source_text(why.source())),
                None => {
                    let named = p.name_versions(&Node::package(name), versions);
                    let text =
                        format!("{named} is available as {} for {}", flavours.join(", "), p.machine.platform);
                    (text, "registry".to_owned())
                }
            };
            self.say(Order::Packages, text, &[Party::package(name), Party::Variant], source);
        }
    }
}
