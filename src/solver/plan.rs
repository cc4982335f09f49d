//! Checks every torch build of the registry for one machine: which run, and why the others do not.

use std::collections::BTreeMap;

use pep440_rs::{Operator, Version};
use serde::Serialize;

use super::budget::Budget;
use super::inputs::{Catalogue, Depth, Inputs, allowed_pythons};
use super::memory::Memory;
use super::node::Node;
use super::problem::Problem;
use super::question::Question;
use super::tables::BuildRow;
use super::universe::Universe;
use crate::compatibility::{ImpossibleVariant, Needs, Policy, Violation, envelope_of, required_driver};
use crate::model::conflict::Party;
use crate::model::evidence::Evidence;
use crate::model::host::Host;
use crate::model::request::{Preferences, Request};
use crate::model::solution::DriverMode;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::{Build, Cited, Registry};

/// The torch builds that a machine can run, newest first, and those that it cannot.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Builds that run.
    pub runs: Vec<PlanRow>,
    /// Builds that do not run, grouped by reason; the reason with the most builds first.
    pub out: Vec<PlanOut>,
}

/// A torch build that the machine runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanRow {
    /// torch's version.
    pub torch: String,
    /// The CUDA variant.
    pub variant: String,
    /// CUDA it was built with, `12.8`.
    pub cuda: Option<String>,
    /// cuDNN it was built with.
    pub cudnn: Option<DottedVersion>,
    /// Its index.
    pub index: String,
    /// How the machine's driver runs it; `None` if the driver is unknown or not used.
    pub driver_mode: Option<DriverMode>,
    /// The lowest driver that runs it on these GPUs.
    pub driver_min: Option<DottedVersion>,
    /// The evidence of the row.
    pub evidence: Evidence,
}

/// Builds that do not run for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanOut {
    /// The reason, as a predicate: `has no code for 7.0`.
    pub reason: String,
    /// The component: `gpu`, `driver`, `cudnn`, `glibc`, `python`, `index`.
    pub party: Party,
    /// The source of the fact.
    pub source: String,
    /// Whether these may run: the fact that would decide is not in the data.
    #[serde(skip)]
    pub is_unknown: bool,
    /// Variants with their torch versions, newest first.
    pub builds: Vec<PlanOutBuild>,
}

/// The torch versions of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanOutBuild {
    /// The CUDA variant.
    pub variant: String,
    /// torch's versions, newest first.
    pub torch: Vec<String>,
    /// The versions as ranges (oldest, newest). A version of the variant that runs splits a range.
    pub spans: Vec<(String, String)>,
}

/// Checks every build of a catalogue that the request admits on a machine of its platform. Of several reasons against a build
/// the first is reported, in the order GPU, cuDNN, driver, libc, Python, index.
pub fn plan(catalogue: &Catalogue<'_>, host: &Host, request: &Request) -> Plan {
    let preferences = Preferences::default();
    let inputs = Inputs {
        catalogue,
        universe: &Universe::default(),
        memory: &Memory::default(),
        budget: &Budget::default(),
        question: &Question::new(host, request, &preferences),
    };
    let pythons = allowed_pythons(catalogue.registry, request);
    let problem = Problem::new(&inputs, &catalogue.tables, Depth::Stack, pythons);
    let torch = &problem.stack["torch"];
    let mut order: Vec<u32> = (0..torch.builds.len() as u32).collect();
    order.sort_by_key(|i| {
        let build = &torch.builds[*i as usize];
        std::cmp::Reverse((build.version_ordinal, problem.build_rank("torch", *i)))
    });
    // `==1.13.1+cu117` names builds, not only versions.
    let asked = request.find("torch").and_then(|user| problem.requirement(&user.requirement).ok()?.ok());
    let is_asked = |i: u32| {
        asked.iter().flatten().all(|(node, set)| match node {
            Node::Package(name) if &**name == "torch" => {
                set.contains(&torch.builds[i as usize].version_ordinal)
            }
            Node::Build(name) if &**name == "torch" => set.contains(&i),
            _ => true,
        })
    };
    let mut plan = Plan::default();
    let mut out: BTreeMap<(Party, String), (Reason, Vec<(Version, String)>)> = BTreeMap::new();
    for i in order.into_iter().filter(|i| is_asked(*i)) {
        let build = &torch.builds[i as usize];
        let variant = &problem.variants[build.variant as usize].name;
        let other = request.variant.as_ref().is_some_and(|limit| limit.value != *variant);
        if other {
            continue;
        }
        match problem.against(build) {
            Some(reason) => {
                let key = (reason.party.clone(), reason.text.clone());
                let (_, builds) = out.entry(key).or_insert_with(|| (reason, Vec::new()));
                builds.push((build.version.clone(), problem.variants[build.variant as usize].name.clone()));
            }
            None => plan.runs.extend(problem.row(build)),
        }
    }
    plan.out = out
        .into_values()
        .map(|(reason, builds)| PlanOut {
            reason: reason.text,
            party: reason.party,
            source: reason.source,
            is_unknown: reason.is_unknown,
            builds: by_variant(builds, &plan.runs),
        })
        .collect();
    if plan.runs.is_empty() && plan.out.is_empty() {
        plan.out.extend(impossible(catalogue.registry, host, request));
    }
    plan.out.sort_by_key(|o| std::cmp::Reverse(o.builds.iter().map(|b| b.torch.len()).sum::<usize>()));
    plan
}

/// Builds that no row has, of a variant that the machine cannot run.
fn impossible(registry: &Registry, host: &Host, request: &Request) -> Option<PlanOut> {
    let variant = request.pinned_variant("torch")?;
    let why = ImpossibleVariant::of(registry, host, &variant)?;
    let party = match why {
        ImpossibleVariant::Driver(..) => Party::Driver,
        ImpossibleVariant::Code(..) | ImpossibleVariant::Vendor(_) => Party::Gpu,
    };
    let asked = request.bounds_on("torch").filter(|bounds| !bounds.is_empty());
    let asked = asked.map(|bounds| match &*bounds.to_vec() {
        [one] if *one.operator() == Operator::Equal => one.version().clone().without_local().to_string(),
        _ => bounds.to_string(),
    });
    let torch: Vec<String> = asked.into_iter().collect();
    let spans = torch.iter().map(|asked| (asked.clone(), asked.clone())).collect();
    Some(PlanOut {
        reason: why.predicate(),
        party,
        source: registry.source_text(why.source()),
        is_unknown: false,
        builds: vec![PlanOutBuild { variant, torch, spans }],
    })
}

/// Groups builds by variant, newest first.
fn by_variant(builds: Vec<(Version, String)>, runs: &[PlanRow]) -> Vec<PlanOutBuild> {
    let mut out: Vec<(PlanOutBuild, Version)> = Vec::new();
    for (version, variant) in builds {
        let text = version.to_string();
        let Some((found, last)) = out.iter_mut().find(|(b, _)| b.variant == variant) else {
            let spans = vec![(text.clone(), text.clone())];
            out.push((PlanOutBuild { variant, torch: vec![text], spans }, version));
            continue;
        };
        let runs_between = runs
            .iter()
            .filter(|r| r.variant == variant)
            .any(|r| r.torch.parse::<Version>().is_ok_and(|v| version < v && v < *last));
        match found.spans.last_mut().filter(|_| !runs_between) {
            Some((oldest, _)) => oldest.clone_from(&text),
            None => found.spans.push((text.clone(), text.clone())),
        }
        found.torch.push(text);
        *last = version;
    }
    out.into_iter().map(|(builds, _)| builds).collect()
}

/// Why a build is not among those that run.
struct Reason {
    party: Party,
    /// A predicate: `has no code for 7.0`.
    text: String,
    /// The source of the fact.
    source: String,
    /// Whether it may run all the same.
    is_unknown: bool,
}

impl Reason {
    fn new(party: Party, text: impl Into<String>, source: impl Into<String>) -> Reason {
        Reason { party, text: text.into(), source: source.into(), is_unknown: false }
    }
}

impl Problem<'_> {
    /// The first reason against a torch build.
    fn against(&self, build: &BuildRow<'_>) -> Option<Reason> {
        let torch = build.torch?;
        let violations =
            Needs::of_torch(torch).violations(self.registry, self.machine.host, self.machine.policy);
        // What is known against a build decides, not what is unknown.
        let (unknown, known): (Vec<_>, Vec<_>) = violations.into_iter().partition(Violation::is_unknown);
        let of_machine = |violations: Vec<Violation<'_>>| {
            violations.into_iter().find_map(|violation| self.reason(torch, violation))
        };
        of_machine(known).or_else(|| self.elsewhere(build)).or_else(|| of_machine(unknown))
    }

    /// What a violation is as a reason; `None` if it is none here.
    fn reason(&self, torch: &Cited<Build>, violation: Violation<'_>) -> Option<Reason> {
        let source = |ids: &[String]| self.registry.source_text(ids);
        let own = || source(&torch.source);
        let is_unknown = violation.is_unknown();
        let reason = match violation {
            // CPU builds are acceptable if the machine has no GPU.
            Violation::CpuBuild if self.prefers_cpu() => return None,
            // Checked by the available wheels.
            Violation::Platform | Violation::LibcTooOld(_) => return None,
            Violation::CpuBuild => Reason::new(Party::Gpu, "is a CPU build", own()),
            Violation::CodeUnknown(_) if torch.targets.is_none() => {
                Reason::new(Party::Gpu, "has unknown code targets", own())
            }
            Violation::CodeUnknown(gpu) => {
                let text = format!("may run on {}, of which nothing is known", gpu.label());
                Reason::new(Party::Gpu, text, own())
            }
            Violation::NoCode(gpu) | Violation::PtxTooNew(gpu) => {
                let text = format!("has no code for {}", gpu.label());
                Reason::new(Party::Gpu, text, source(torch.code_source()))
            }
            Violation::CudnnDropsGpu(_, min, ids) => {
                let text = format!("has a cuDNN that requires compute capability >= {min}");
                Reason::new(Party::Cudnn, text, source(ids))
            }
            Violation::NoDriverForGpu(gpu) => {
                let text = format!("needs a driver that no longer supports {}", gpu.label());
                Reason::new(Party::Driver, text, own())
            }
            Violation::DriverTooOld(floor, ids) => {
                Reason::new(Party::Driver, format!("needs driver >= {floor}"), source(ids))
            }
            Violation::DriverUnknown(cuda) => {
                let text =
                    format!("is built with CUDA {}, whose minimum driver is unknown", cuda_short(&cuda));
                Reason::new(Party::Driver, text, "")
            }
        };
        Some(Reason { is_unknown, ..reason })
    }

    /// The first reason that does not involve the GPU: glibc, Python, index.
    fn elsewhere(&self, build: &BuildRow<'_>) -> Option<Reason> {
        let torch = build.torch?;
        if let Some(need) = torch.glibc.as_ref().filter(|need| !self.machine.glibc_suffices(need)) {
            let text = format!("needs glibc >= {need}");
            return Some(Reason::new(Party::Glibc, text, torch.wheels_source()));
        }
        if self.build_pythons(build).is_empty() {
            let text = format!("has no wheel for Python {}", super::explain::span(&self.pythons.series));
            return Some(Reason::new(Party::Python, text, torch.wheels_source()));
        }
        let index = &self.indexes[build.index as usize];
        if !self.index_allowed(index) {
            return Some(Reason::new(Party::Index, "is on an index that is not allowed", ""));
        }
        None
    }

    /// The lowest driver that runs a build on the machine's GPUs.
    fn driver_min(&self, build: &BuildRow<'_>) -> Option<DottedVersion> {
        let torch = build.torch?;
        if self.machine.gpus.is_empty() {
            let floor =
                required_driver(self.registry, torch.cuda.as_ref()?, self.machine.os(), Policy::Minor);
            return floor.map(|floor| floor.value);
        }
        let coverage = envelope_of(self.registry, torch).coverage;
        let floors = self.machine.gpus.iter().filter_map(|(_, capability)| {
            coverage.iter().find(|c| c.compute_capability == *capability)?.driver_min.clone()
        });
        floors.max()
    }

    fn row(&self, build: &BuildRow<'_>) -> Option<PlanRow> {
        let torch = build.torch?;
        let gpu = torch.cuda.is_some() && !self.machine.host.has_no_gpu();
        let mode = if self.machine.is_native(build.variant) {
            DriverMode::Native
        } else {
            DriverMode::Compatibility
        };
        Some(PlanRow {
            torch: torch.version.to_string(),
            variant: torch.variant.clone(),
            cuda: torch.cuda.as_ref().map(cuda_short),
            cudnn: torch.cudnn.clone(),
            index: torch.index(),
            driver_mode: (gpu && self.machine.host.driver.is_some()).then_some(mode),
            driver_min: self.driver_min(build),
            evidence: torch.weakest_evidence(!self.machine.gpus.is_empty()),
        })
    }
}
