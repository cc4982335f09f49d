//! Conflict reasons about hardware and builds: CUDA variants, drivers, GPUs, cuDNN, libc, Python.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use pep440_rs::Version;

use super::{Explainer, Order};
use crate::compatibility::{DriverSpan, UnknownFloor};
use crate::model::conflict::Party;
use crate::model::count::Count;
use crate::model::host::Gpu;
use crate::model::only::Only;
use crate::model::version::{cuda_short, public};
use crate::model::wheel::Python;
use crate::registry::conda_builds::OF_CHANNEL;
use crate::registry::{Architecture, Cited, STACK_PACKAGES};
use crate::solver::edit::named_build;
use crate::solver::explain::{phrase, python_series, span};
use crate::solver::node::Node;
use crate::solver::problem::Problem;
use crate::solver::tables::{BuildRow, Set, is_stack_package};

/// The maximum number of sources of a sentence about several builds.
const MAX_SOURCES: usize = 2;

impl Explainer<'_, '_> {
    /// The CUDA versions that the stack builds were built for, and their index.
    pub(super) fn builds(&mut self) {
        let p = self.problem;
        for name in STACK_PACKAGES {
            let versions = self.stack_versions(name);
            if versions.is_empty() {
                continue;
            }
            let table = &p.stack[name];
            let uses_variant = self.leaves.needs.keys().any(|(parent, d)| {
                *d == Node::Variant && (*parent == Node::package(name) || *parent == Node::build(name))
            });
            let by_index = self.involves(&Node::StackIndex) && p.asked.request.only_index.is_some();
            // What each index has matters where the request names a build.
            let names_build = by_index && named_build(p.asked.request).is_some();
            if !uses_variant && !names_build && !self.involves(&Node::Driver) {
                continue;
            }
            let builds: Vec<_> = table
                .builds
                .iter()
                .filter(|b| versions.contains(&b.version_ordinal))
                .filter(|b| !by_index || p.index_allowed(&p.indexes[b.index as usize]))
                .filter(|b| p.variants[b.variant as usize].cuda.is_some())
                .collect();
            if builds.is_empty() {
                continue;
            }
            let mut cuda: Vec<&semver::Version> =
                builds.iter().filter_map(|b| p.variants[b.variant as usize].cuda.as_ref()).collect();
            cuda.sort();
            cuda.dedup();
            let cuda: Vec<String> = cuda.into_iter().map(cuda_short).collect();
            let mut shown: Vec<u32> = builds.iter().map(|b| b.version_ordinal).collect();
            shown.sort_unstable();
            shown.dedup();
            let shown: Vec<Version> = shown.iter().map(|v| table.versions[*v as usize].clone()).collect();
            let place = match (&p.asked.request.only_index, by_index) {
                (Some(only), true) if only.value == Only::pypi() => " on PyPI".to_owned(),
                (Some(only), true) => format!(" on {}", self.index_words(&only.value)),
                _ => String::new(),
            };
            let verb = Count(shown.len()).is();
            let sources: BTreeSet<String> =
                builds.iter().map(|b| p.registry.source_text(&b.source)).collect();
            let source = sources.into_iter().take(MAX_SOURCES).collect::<Vec<_>>().join("; ");
            // A limit may lie between the first and the last.
            let is_limited = p.asked.request.cuda.is_some() || p.asked.request.variant.is_some();
            let cuda = match is_limited && cuda.len() > 2 {
                true => cuda.join(", "),
                false => span(&cuda),
            };
            self.say(
                Order::Builds,
                format!("{}{place} {verb} built for CUDA {cuda}", phrase(name, &shown, &table.versions)),
                &[Party::package(name), Party::Cuda],
                source,
            );
        }
    }

    pub(super) fn driver(&mut self) {
        let p = self.problem;
        let set = self
            .leaves
            .parents_of(&Node::Driver)
            .filter(|(parent, _)| **parent == Node::Variant)
            .fold(Set::empty(), |a, (_, s)| a.union(s));
        let runtimes: Vec<u32> = self
            .leaves
            .parents_of(&Node::Driver)
            .filter(|(parent, _)| matches!(parent, Node::Runtime(_)))
            .flat_map(|(parent, set)| p.members(parent, set))
            .collect();
        let mut cuda: Vec<&semver::Version> = p
            .members(&Node::Variant, &set)
            .iter()
            .filter_map(|i| p.variants[*i as usize].cuda.as_ref())
            .collect();
        cuda.extend(runtimes.iter().map(|i| &p.runtimes[*i as usize].build.cuda));
        let packages: Vec<semver::Version> = self
            .leaves
            .parents_of(&Node::Driver)
            .filter_map(|(parent, set)| match parent {
                Node::Package(name) => Some(p.cuda_of_runtimes(name, parent, set)),
                _ => None,
            })
            .flatten()
            .collect();
        cuda.extend(&packages);
        if cuda.is_empty() {
            return;
        }
        let (mut text, source) = p.driver_floors(&cuda);
        if text.is_empty()
            && let Some(floor) = UnknownFloor::of(p.registry, cuda.iter().copied(), p.machine.platform)
        {
            text = floor.to_string();
        }
        let native = if p.asked.request.native_driver_only.is_some() { " for native mode" } else { "" };
        self.say(Order::DriverFloors, format!("{text}{native}"), &[Party::Cuda, Party::Driver], source);
        let of_newer: Vec<_> = of_newer_drivers(p).collect();
        for (gpu, architecture) in of_newer {
            let Some(first) = architecture.first_branch else { continue };
            let text = format!("{} is supported by driver branch {first} and newer (inferred)", gpu.label());
            let source = p.registry.source_text(&architecture.source);
            self.say(Order::DriverFloors, text, &[Party::Gpu, Party::Driver], source);
        }
        if let Some(driver) = &p.machine.host.driver {
            let compat =
                driver.compat.as_ref().map(|c| format!(", with cuda-compat {c}")).unwrap_or_default();
            let text = format!("the driver is {}{compat}", driver.version);
            self.say(Order::Driver, text, &[Party::Driver], driver.found_by.to_string());
        }
        if let Some(limit) = &p.asked.request.native_driver_only {
            let text = "minor-version compatibility is disabled (driver-policy = \"native\")".to_owned();
            self.asked(Order::Limits, text, Party::Driver, &limit.origin, true);
        }
    }

    pub(super) fn gpus(&mut self) {
        let p = self.problem;
        for (i, (gpu, capability)) in p.machine.gpus.iter().enumerate() {
            let node = Node::Gpu(i);
            let parents: Vec<(Node, Set)> =
                self.leaves.parents_of(&node).map(|(n, s)| (n.clone(), s.clone())).collect();
            for (parent, set) in parents {
                match &parent {
                    Node::Variant => {
                        let cuda = p.cuda_versions(&set);
                        let flavours = p.members(&Node::Variant, &set);
                        let toolkits: Vec<_> =
                            flavours.iter().filter_map(|i| p.variants[*i as usize].cuda.as_ref()).collect();
                        let (floors, source) = p.driver_floors(&toolkits);
                        let last = p
                            .registry
                            .architecture(*capability)
                            .and_then(|a| a.last_branch)
                            .map(|b| format!("; the last driver branch for {} is {b}", gpu.label()))
                            .unwrap_or_default();
                        self.say(
                            Order::Gpus,
                            format!("{floors}{last} (CUDA {})", span(&cuda)),
                            &[Party::Cuda, Party::Gpu, Party::Driver],
                            source,
                        );
                    }
                    Node::Cudnn => {
                        let versions: Vec<_> = p
                            .members(&parent, &set)
                            .iter()
                            .filter_map(|i| p.cudnn[*i as usize].clone())
                            .collect();
                        let floor = versions.last().and_then(|v| p.registry.cudnn_floor(v));
                        if let Some(floor) = floor {
                            self.say(
                                Order::Gpus,
                                format!(
                                    "cuDNN {} requires compute capability >= {}; the GPU is {}",
                                    span(&versions),
                                    floor.min,
                                    gpu.label()
                                ),
                                &[Party::Cudnn, Party::Gpu],
                                p.registry.source_text(&floor.source),
                            );
                        }
                    }
                    Node::Build(name) | Node::Package(name) if is_stack_package(name) => {
                        self.no_code(name, i)
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reports that the builds which are left of a stack package, `last` the newest, are for CPUs.
    fn cpu_builds_alone(&mut self, name: &str, gpu: &str, excluded: &[&BuildRow<'_>], last: &BuildRow<'_>) {
        let p = self.problem;
        let table = &p.stack[name];
        let mut shown: Vec<_> = excluded.iter().map(|b| b.version.clone()).collect();
        shown.dedup();
        let has = Count(shown.len()).has();
        // Those with CUDA fail for another reason, which is told by itself.
        let of_versions = table.builds.iter().filter(|b| shown.contains(&b.version));
        let has_cuda = of_versions.into_iter().any(|b| p.variants[b.variant as usize].cuda.is_some());
        let builds = match has_cuda {
            true => format!("CPU builds besides, which do not use {gpu}"),
            false => format!("only CPU builds for {}; none runs on {gpu}", p.machine.platform),
        };
        self.say(
            Order::Gpus,
            format!("{} {has} {builds}", phrase(name, &shown, &table.versions)),
            &[Party::package(name), Party::Gpu],
            p.registry.source_text(&last.source),
        );
    }

    /// Reports that builds of a stack package have no code for a GPU, and which code they have.
    pub(super) fn no_code(&mut self, name: &str, gpu_index: usize) {
        let p = self.problem;
        let gpu = p.machine.gpus[gpu_index].0;
        let versions = self.stack_versions(name);
        let table = &p.stack[name];
        let mut excluded: Vec<_> = table
            .builds
            .iter()
            .filter(|b| versions.contains(&b.version_ordinal) && p.gpu_excludes(b, gpu_index))
            .collect();
        // Report builds from allowed indexes if there are any, then CUDA builds rather than CPU builds.
        let narrow = |list: &mut Vec<&BuildRow<'_>>, keep: &dyn Fn(&BuildRow<'_>) -> bool| {
            if list.iter().any(|b| keep(b)) {
                list.retain(|b| keep(b));
            }
        };
        narrow(&mut excluded, &|b| p.index_allowed(&p.indexes[b.index as usize]));
        if !excluded.iter().any(|b| p.index_allowed(&p.indexes[b.index as usize])) {
            // Whether they have code makes no difference.
            self.limit_on_index();
            return;
        }
        narrow(&mut excluded, &|b| p.variants[b.variant as usize].cuda.is_some());
        if let Some(last) = excluded.last().filter(|b| p.variants[b.variant as usize].cuda.is_none()) {
            self.cpu_builds_alone(name, &gpu.label(), &excluded, last);
            return;
        }
        let known: Vec<_> = excluded.iter().filter(|b| b.targets.is_some()).collect();
        let Some(newest) = known.last() else {
            if let Some(b) = excluded.last() {
                self.say(
                    Order::Gpus,
                    format!(
                        "the code targets of {name} {} {} are unknown",
                        b.version, p.variants[b.variant as usize].name
                    ),
                    &[Party::package(name), Party::Gpu],
                    p.registry.source_text(&b.source),
                );
            }
            return;
        };
        let mut shown: Vec<_> = known.iter().map(|b| b.version.clone()).collect();
        shown.sort();
        shown.dedup();
        let lowest =
            known.iter().filter_map(|b| b.targets.as_ref()).flat_map(|t| &t.sass).map(|t| t.capability).min();
        let highest =
            known.iter().filter_map(|b| b.targets.as_ref()).flat_map(|t| &t.sass).map(|t| t.capability).max();
        let code = match (lowest, highest) {
            (Some(low), Some(high)) => format!(" (code for {low} to {high})"),
            _ => String::new(),
        };
        let have = Count(shown.len()).has();
        // If another variant of one of these versions has code, name the variants that do not.
        let other = table.builds.iter().any(|b| {
            shown.contains(&b.version)
                && p.variants[b.variant as usize].cuda.is_some()
                && !p.gpu_excludes(b, gpu_index)
        });
        let subject = match other {
            true => self.by_variant(name, &known),
            false => phrase(name, &shown, &table.versions),
        };
        self.say(
            Order::Gpus,
            format!("{subject}{code} {have} no code for {}", gpu.label()),
            &[Party::package(name), Party::Gpu],
            p.registry.source_text(newest.torch.map_or(&newest.source[..], |torch| torch.code_source())),
        );
        let tegra = p.registry.tegra();
        if tegra.capabilities.contains(&p.machine.gpus[gpu_index].1) {
            self.say(
                Order::Gpus,
                tegra.note.clone(),
                &[Party::Gpu],
                p.registry.source_text(&tegra.note_source),
            );
        }
    }

    /// Builds as the subject of a sentence, by variant: `torch 2.12.0 to 2.15.0 as cu132, 2.9.0 to 2.14.1 as cu130`. The
    /// newest variants are listed with their versions, the others named.
    pub(super) fn by_variant(&self, name: &str, builds: &[&&BuildRow<'_>]) -> String {
        /// The maximum number of groups of variants in a message.
        const MAX_GROUPS: usize = 3;
        let p = self.problem;
        let table = &p.stack[name];
        let versions_of = |variant: u32, rows: &mut dyn Iterator<Item = &BuildRow<'_>>| {
            let mut versions: Vec<Version> =
                rows.filter(|b| b.variant == variant).map(|b| b.version.clone()).collect();
            versions.sort();
            versions.dedup();
            versions
        };
        let mut variants: Vec<u32> = builds.iter().map(|b| b.variant).collect();
        variants.sort_unstable_by_key(|variant| Reverse(p.variants[*variant as usize].cuda.clone()));
        variants.dedup();
        // Variants with the same versions are named together.
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for variant in variants {
            let versions = versions_of(variant, &mut builds.iter().map(|b| **b));
            let all = versions_of(variant, &mut table.builds.iter());
            let versions = phrase("", &versions, &all).trim_start().to_owned();
            let variant = p.variants[variant as usize].name.as_str();
            match groups.iter_mut().find(|(known, _)| *known == versions) {
                Some((_, variants)) => variants.push(variant),
                None => groups.push((versions, vec![variant])),
            }
        }
        let listed: Vec<String> = groups
            .iter()
            .take(MAX_GROUPS)
            .map(|(versions, variants)| format!("{versions} as {}", variants.join(", ")))
            .collect();
        let others: Vec<&str> =
            groups.iter().skip(MAX_GROUPS).flat_map(|(_, variants)| variants.iter().copied()).collect();
        let more = match others.is_empty() {
            true => String::new(),
            false => format!(", and some as {}", others.join(", ")),
        };
        format!("{name} {}{more}", listed.join(", "))
    }

    pub(super) fn libc(&mut self) {
        let p = self.problem;
        let parents: Vec<(Node, Set)> =
            self.leaves.parents_of(&Node::Glibc).map(|(n, s)| (n.clone(), s.clone())).collect();
        if parents.is_empty() {
            return;
        }
        for (parent, set) in parents {
            if let Some(party) = parent.party() {
                let need = Count(p.versions(&parent, &set).len()).verb("need");
                let named = p.name_versions(&parent, &set);
                let text = match p.glibc_floor(&parent, &set) {
                    Some(floor) => format!("{named} {need} glibc >= {floor}"),
                    None => format!("{named} {need} a newer C library"),
                };
                let source = if p.is_of_channels(&parent) { OF_CHANNEL } else { "wheel tags" };
                self.say(Order::Wheels, text, &[party, Party::Glibc], source);
            }
        }
        if let Some(libc) = &p.machine.libc {
            self.say(
                Order::Packages,
                format!("the machine has {libc}"),
                &[Party::Glibc],
                p.machine.host.system.found_by.to_string(),
            );
        }
    }

    /// The Python series that the files of some versions of a package are for.
    fn series_of_files(&self, name: &str, versions: &[Version]) -> BTreeSet<u32> {
        let p = self.problem;
        let candidates = p.candidates(name).unwrap_or_default();
        let of_versions = candidates.iter().filter(|c| versions.contains(&public(&c.release.version)));
        let of_versions: Vec<_> = of_versions.collect();
        let has_wheel = |python: &&Python| of_versions.iter().any(|c| p.has_usable(c, **python));
        p.pythons.series.iter().filter(has_wheel).map(|p| p.minor).collect()
    }

    /// The Python minors of the problem for which a candidate in the set has a wheel.
    fn series_with_wheels(&self, name: &str, node: &Node, set: &Set) -> BTreeSet<u32> {
        let p = self.problem;
        if is_stack_package(name) {
            // Its members are releases and builds of the registry, not files of an index.
            return self.series_of_files(name, &p.versions(node, set));
        }
        let candidates = p.candidates(name).unwrap_or_default();
        let members = p.members(node, set);
        let has_wheel = |python| members.iter().any(|i| p.has_usable(&candidates[*i as usize], python));
        p.pythons.series.iter().filter(|python| has_wheel(**python)).map(|p| p.minor).collect()
    }

    /// That releases fail with some of the Pythons, by the registry, and its source.
    fn limit_of_python(&self, name: &str, node: &Node, set: &Set) -> Option<(String, String)> {
        let p = self.problem;
        let versions = p.versions(node, set);
        let limits: Option<Vec<_>> =
            versions.iter().map(|version| p.registry.python_limit(name, version)).collect();
        let row = limits?.into_iter().max_by_key(|row| row.below)?;
        p.pythons.series.iter().any(|python| python.minor >= row.below.minor).then(|| {
            let fails = Count(p.versions(node, set).len()).verb("fail");
            let named = p.name_versions(node, set);
            let text = format!("{named} {fails} with Python {} and newer: {}", row.below, row.why);
            (text, p.registry.source_text(&row.source))
        })
    }

    /// Why a package that is not a wheel fits some Pythons only: a backport of the standard library, or the
    /// `Requires-Python` of its source distributions.
    fn pythons_of_source(&self, name: &str, node: &Node, set: &Set) -> Option<String> {
        let p = self.problem;
        if is_stack_package(name) {
            return None;
        }
        let named = p.name_versions(node, set);
        let is_one = p.versions(node, set).len() == 1;
        if let Some(row) = p.registry.backport(name) {
            let is = if is_one { "is a backport" } else { "are backports" };
            return Some(format!(
                "{named} {is} of `{}`, which Python {} and newer have",
                row.module, row.python
            ));
        }
        let candidates = p.candidates(name).ok()?;
        let mut members = p.members(node, set).into_iter().map(|i| &candidates[i as usize]);
        if !members.all(|candidate| p.source(candidate).is_some()) {
            return None;
        }
        let members = p.members(node, set).into_iter().map(|i| &candidates[i as usize]);
        let removed = members.map(|candidate| {
            let metadata = p.metadata_of(candidate, name).ok()?.ok()?;
            p.fails_from(metadata)
        });
        let removed: Option<Vec<_>> = removed.collect();
        if let Some(rows) = removed
            && let Some(last) = rows.iter().max_by_key(|row| row.python)
            && p.pythons.series.iter().any(|python| *python >= last.python)
        {
            let are = if is_one { "is" } else { "are" };
            let why = match rows.iter().all(|row| row.name == last.name) {
                true => format!("uses `{}`, which Python {} and newer do not have", last.name, last.python),
                false => format!("fails with Python {} and newer", last.python),
            };
            return Some(format!("{named} {are} built by a setup.py that {why}"));
        }
        let series = self.series_with_wheels(name, node, set);
        let is = if is_one { "is" } else { "are" };
        Some(match series.is_empty() {
            true => format!("{named} {is} not for Python {}", span(&p.pythons.series)),
            false => format!("{named} {is} for Python {}", python_series(&series)),
        })
    }

    pub(super) fn pythons(&mut self) {
        let p = self.problem;
        let parents: Vec<(Node, Set)> =
            self.leaves.parents_of(&Node::Python).map(|(n, s)| (n.clone(), s.clone())).collect();
        let mut told = BTreeSet::new();
        for (parent, set) in parents {
            let Some(party) = parent.party() else { continue };
            if !told.insert(party.clone()) {
                continue;
            }
            if let Node::Package(name) = &parent
                && let Some((text, source)) = self.limit_of_python(name, &parent, &set)
            {
                self.say(Order::Wheels, text, &[party, Party::Python], source);
                continue;
            }
            if let Node::Package(name) = &parent
                && !is_stack_package(name)
                && let Some(text) = self.pythons_of_source(name, &parent, &set)
            {
                self.say(Order::Wheels, text, &[party, Party::Python], "index");
                continue;
            }
            if let Some(text) = self.refused_by_python(&parent, &set) {
                self.say(Order::Wheels, text, &[party, Party::Python], "index");
                continue;
            }
            let versions = p.versions(&parent, &set);
            let all: BTreeSet<u32> = match &parent {
                Node::Build(name) | Node::Package(name) if is_stack_package(name) => {
                    let builds = p.stack[name.as_ref()].builds.iter();
                    let of_versions = builds.filter(|b| versions.contains(&b.version));
                    let minors = of_versions.filter_map(|b| b.torch?.pythons.clone()).flatten();
                    let rows: BTreeSet<u32> = minors.collect();
                    match rows.is_empty() {
                        // The rows of companions do not state it; their files do.
                        true => self.series_of_files(name, &versions),
                        false => rows,
                    }
                }
                Node::Package(name) => self.series_with_wheels(name, &parent, &set),
                _ => BTreeSet::new(),
            };
            let is_of_stack =
                matches!(&parent, Node::Build(name) | Node::Package(name) if is_stack_package(name));
            if all.is_empty() && is_of_stack {
                // Which Pythons it has is not known here: that it has none would be false.
                continue;
            }
            let has = Count(versions.len()).has();
            let (file, source) = match p.is_of_channels(&parent) {
                true => ("build", OF_CHANNEL),
                false => ("wheel", "wheel tags"),
            };
            let text = if all.is_empty() {
                format!(
                    "{} {has} no {file} for Python {}",
                    p.name_versions(&parent, &set),
                    span(&p.pythons.series)
                )
            } else {
                format!("{} {has} {file}s for Python {}", p.name_versions(&parent, &set), python_series(&all))
            };
            self.say(Order::Wheels, text, &[party, Party::Python], source);
        }
        self.patches();
    }

    /// Adds the limit on Python, where it has a part in the proof.
    pub(super) fn limit_on_python(&mut self) {
        let p = self.problem;
        let has_part = self.involves(&Node::Python)
            || self.leaves.needs.contains_key(&(Node::Root, Node::Patch))
            || self.involves_party(&Party::Python);
        if has_part && let Some(python) = &p.asked.request.python {
            let text = format!("you require Python {}", python.text);
            self.asked(Order::Limits, text, Party::Python, &python.origin, python.bounds_above());
        }
    }
}

/// The GPUs of the machine whose first driver branch is newer than its driver.
pub(super) fn of_newer_drivers<'p>(
    p: &'p Problem<'_>,
) -> impl Iterator<Item = (&'p Gpu, &'p Cited<Architecture>)> {
    let driver = p.machine.host.driver.as_ref().map(|driver| &driver.version);
    p.machine.gpus.iter().filter_map(move |(gpu, capability)| {
        let from = DriverSpan::of(p.registry, *capability).from?;
        let is_newer = driver.is_some_and(|own| *own < from);
        is_newer.then_some((*gpu, p.registry.architecture(*capability)?))
    })
}
