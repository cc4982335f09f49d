//! The compatibility explorer: one HTML page over the registry that answers, for a GPU and a driver, which torch builds
//! run, which do not, and why. It needs no network and no server, and opens with an example.
//!
//! What runs is decided here, by the rules of [`plan`], once for each compute capability; the page only compares the
//! driver that is typed with the floors that stand in it.

mod source;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::compatibility::{DriverSpan, Policy, required_driver};
use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;
use crate::model::host::{Gpu, Host};
use crate::model::index_owner::PYTORCH_INDEX;
use crate::model::platform::Platform;
use crate::model::request::Request;
use crate::model::version::{DottedVersion, cuda_short};
use crate::model::wheel::Python;
use crate::registry::{Build, Cited, Registry};
use crate::solver::{Catalogue, plan};
use source::Piece;

/// The page, with a place for the data.
const PAGE: &str = include_str!("page.html");
/// The place for the data.
const PLACE: &str = "__DATA__";

/// What every page contains, to know it by.
pub const MARK: &str = "<title>Which torch runs here? envlock compatibility explorer</title>";

/// What the page contains.
#[derive(Debug, Serialize)]
struct Data {
    /// Date of the registry.
    registry: String,
    platform: Platform,
    builds: Vec<BuildRow>,
    gpus: Vec<Product>,
    machines: Vec<Machine>,
    /// Why builds do not run: texts that answers refer to by number.
    texts: Vec<String>,
    /// What rows refer to by number as their source.
    sources: Vec<Vec<Piece>>,
    branches: Vec<BranchRow>,
    /// What the form is filled with at first.
    example: Example,
    /// The address below which the builds of another index than PyPI are.
    pytorch: &'static str,
}

/// A machine to begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Example {
    /// The name of its GPU, a compute capability, or `none`.
    gpu: String,
    /// Its driver; `None` if any is meant.
    driver: Option<String>,
}

impl Example {
    /// A machine by its first GPU; `None` if that is none of the page's, or nothing is known of its GPUs.
    fn of(host: &Host, machines: &[Machine], gpus: &[Product]) -> Option<Example> {
        let Some(gpu) = host.gpus.as_ref()?.first() else {
            return Some(Example { gpu: "none".to_owned(), driver: None });
        };
        let capability = gpu.capability.filter(|own| machines.iter().any(|m| m.capability == Some(*own)))?;
        let is_listed = |name: &&String| gpus.iter().filter(|gpu| gpu.name == **name).count() == 1;
        let name = gpu.name.as_ref().filter(is_listed).cloned();
        Some(Example { gpu: name.unwrap_or_else(|| capability.to_string()), driver: driver_of(host) })
    }
}

/// A torch build.
#[derive(Debug, Serialize)]
struct BuildRow {
    torch: String,
    variant: String,
    cuda: Option<String>,
    cudnn: Option<DottedVersion>,
    index: String,
    pythons: Option<String>,
    glibc: Option<DottedVersion>,
    /// The driver from which PTX of its CUDA runs too.
    native: Option<DottedVersion>,
    evidence: Evidence,
    /// The number of its source.
    source: usize,
}

/// A GPU by its product name.
#[derive(Debug, Serialize)]
struct Product {
    name: String,
    capability: ComputeCapability,
}

/// A machine with GPUs of one compute capability, or without a GPU.
#[derive(Debug, Serialize)]
struct Machine {
    /// `None`: no NVIDIA GPU.
    capability: Option<ComputeCapability>,
    /// The first driver branch that no longer supports it.
    below: Option<DottedVersion>,
    /// For each build: the lowest driver, or the number of the reason why it does not run.
    builds: Vec<Answer>,
}

/// What a build does on a machine with a new enough driver.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Answer {
    /// It runs from this driver on; `null` without a GPU, where no driver is needed.
    Runs { driver: Option<DottedVersion> },
    /// It does not run, or, where the fact that decides is not in the data, may run.
    Out {
        reason: usize,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
    },
}

/// A driver branch.
#[derive(Debug, Serialize)]
struct BranchRow {
    branch: u32,
    /// Its oldest known release, which a branch stands for as in `--driver`; `null` if none is known.
    release: Option<DottedVersion>,
    cuda: String,
    kind: Option<String>,
}

/// Whether the page has rows about GPUs of a compute capability.
pub fn has_capability(registry: &Registry, capability: ComputeCapability) -> bool {
    capabilities(registry).contains(&capability)
}

/// The compute capabilities that the page is about: those of GPUs in cards.
fn capabilities(registry: &Registry) -> BTreeSet<ComputeCapability> {
    let of_architectures = registry.architectures().iter();
    let all = of_architectures.flat_map(|architecture| architecture.capabilities.iter().copied());
    all.filter(|capability| !registry.tegra().capabilities.contains(capability)).collect()
}

fn driver_of(host: &Host) -> Option<String> {
    host.driver.as_ref().map(|driver| driver.version.to_string())
}

/// The page for a platform. It opens with the machine `example` if the page has its GPU, else with one of the data.
pub fn page(registry: &Registry, platform: Platform, example: Option<&Host>) -> String {
    let data = data(registry, platform, example);
    // `</script>` in a text would end the data.
    let json = serde_json::to_string(&data).expect("texts and numbers").replace('<', "\\u003c");
    PAGE.replacen(PLACE, &json, 1)
}

fn data(registry: &Registry, platform: Platform, example: Option<&Host>) -> Data {
    let (mut texts, mut sources) = (Texts::default(), Texts::default());
    let is_shown = |build: &&Cited<Build>| build.platform == platform && build.yanked.is_none();
    let mut builds: Vec<&Cited<Build>> = registry.builds().iter().filter(is_shown).collect();
    builds.sort_by(|a, b| (&b.version, &b.cuda).cmp(&(&a.version, &a.cuda)));
    let capabilities = capabilities(registry);
    let catalogue = Catalogue::new(registry, platform);
    let hosts = std::iter::once(None).chain(capabilities.iter().copied().map(Some));
    let hosts = hosts.map(|capability| (capability, host(platform, capability)));
    let machines: Vec<Machine> = hosts
        .map(|(capability, host)| {
            let span = capability.map(|capability| DriverSpan::of(registry, capability));
            let first = span.as_ref().and_then(|span| span.from.clone());
            let builds = answers(&catalogue, &host, &builds, first.as_ref(), &mut texts);
            Machine { capability, below: span.and_then(|span| span.below), builds }
        })
        .collect();
    let row = |build: &&Cited<Build>| row(registry, platform, build, &mut sources);
    let builds = builds.iter().map(row).collect();
    let mut gpus: Vec<Product> = registry
        .gpus()
        .iter()
        .filter(|gpu| capabilities.contains(&gpu.capability))
        .map(|gpu| Product { name: gpu.name.clone(), capability: gpu.capability })
        .collect();
    // A name may stand for chips of two generations: then it is listed with each.
    gpus.sort_by(|a, b| (&a.name, a.capability).cmp(&(&b.name, b.capability)));
    gpus.dedup_by(|a, b| (&a.name, a.capability) == (&b.name, b.capability));
    let branches = registry.branches().iter().rev();
    let branches: Vec<BranchRow> = branches
        .map(|branch| BranchRow {
            branch: branch.branch,
            release: registry.oldest_of_branch(branch.branch, platform.os).unwrap_or_default(),
            cuda: cuda_short(&branch.cuda),
            kind: branch.kind.clone(),
        })
        .collect();
    Data {
        registry: registry.meta().date.to_string(),
        platform,
        builds,
        example: example
            .and_then(|host| Example::of(host, &machines, &gpus))
            .unwrap_or_else(|| usual(&machines, &gpus, &branches, example.and_then(driver_of))),
        pytorch: PYTORCH_INDEX,
        machines,
        gpus,
        branches,
        texts: texts.all,
        sources: sources.all.iter().map(|text| source::pieces(text)).collect(),
    }
}

/// The GPU that the page opens with where no machine is given: one that many have and all ask about.
const USUAL_GPU: &str = "NVIDIA H100";

/// The usual GPU on a driver, or on the newest long-term branch of which a release is known.
fn usual(machines: &[Machine], gpus: &[Product], branches: &[BranchRow], driver: Option<String>) -> Example {
    let runs = |machine: &&Machine| {
        machine.builds.iter().filter(|answer| matches!(answer, Answer::Runs { .. })).count()
    };
    let of_gpu = gpus.iter().find(|gpu| gpu.name == USUAL_GPU).map(|gpu| gpu.capability);
    let known = machines.iter().find(|machine| of_gpu.is_some() && machine.capability == of_gpu);
    let gpu = match known.filter(|machine| runs(machine) > 0) {
        Some(_) => USUAL_GPU.to_owned(),
        None => {
            let most = machines.iter().filter(|machine| machine.capability.is_some()).max_by_key(runs);
            let most = most.and_then(|machine| machine.capability);
            most.map_or("none".to_owned(), |capability| capability.to_string())
        }
    };
    let long_term = branches.iter().filter(|branch| branch.kind.as_deref() == Some("LTS"));
    let release = long_term.filter_map(|branch| branch.release.as_ref()).next();
    Example { gpu, driver: driver.or(release.map(ToString::to_string)) }
}

fn row(registry: &Registry, platform: Platform, build: &Cited<Build>, sources: &mut Texts) -> BuildRow {
    let native = build.cuda.as_ref();
    let native = native.and_then(|cuda| required_driver(registry, cuda, platform.os, Policy::Native));
    BuildRow {
        torch: build.version.to_string(),
        variant: build.variant.clone(),
        cuda: build.cuda.as_ref().map(cuda_short),
        cudnn: build.cudnn.clone(),
        index: build.index(),
        pythons: build.pythons.as_deref().map(series),
        glibc: build.glibc.clone(),
        native: native.map(|native| native.value),
        evidence: build.weakest_evidence(true),
        source: sources.number(&registry.source_text(&build.source)),
    }
}

/// A machine with GPUs of one compute capability, or none, and any driver.
fn host(platform: Platform, capability: Option<ComputeCapability>) -> Host {
    let gpus = capability.map(|capability| Gpu::of_capability(capability, "explorer")).into_iter().collect();
    Host { gpus: Some(gpus), ..Host::open(platform, "explorer") }
}

/// What each build does on a machine whose GPUs are supported from driver `first` on.
fn answers(
    catalogue: &Catalogue<'_>,
    host: &Host,
    builds: &[&Cited<Build>],
    first: Option<&DottedVersion>,
    texts: &mut Texts,
) -> Vec<Answer> {
    let found = plan(catalogue, host, &Request::default());
    let mut answers: BTreeMap<(&str, &str), Answer> = BTreeMap::new();
    for out in &found.out {
        let answer = Answer::Out { reason: texts.number(&out.reason), unknown: out.is_unknown };
        for build in &out.builds {
            answers.extend(
                build.torch.iter().map(|torch| ((torch.as_str(), build.variant.as_str()), answer.clone())),
            );
        }
    }
    for row in &found.runs {
        let floor = row.driver_min.as_ref().filter(|_| !host.has_no_gpu() && row.cuda.is_some());
        let driver = floor.map(|floor| first.map_or(floor, |first| first.max(floor)).clone());
        answers.insert((&row.torch, &row.variant), Answer::Runs { driver });
    }
    let unknown = texts.number("is not in the compatibility data for this machine");
    let answer = |build: &&Cited<Build>| {
        let torch = build.version.to_string();
        let known = answers.get(&(torch.as_str(), build.variant.as_str()));
        known.cloned().unwrap_or(Answer::Out { reason: unknown, unknown: true })
    };
    builds.iter().map(answer).collect()
}

/// `3.9 to 3.13`, or a list where a series is missing in between.
fn series(minors: &[u32]) -> String {
    let mut minors = minors.to_vec();
    minors.sort_unstable();
    let name = |minor: u32| Python::new(minor).to_string();
    match minors.as_slice() {
        [first, .., last] if (last - first) as usize + 1 == minors.len() => {
            format!("{} to {}", name(*first), name(*last))
        }
        all => all.iter().map(|minor| name(*minor)).collect::<Vec<_>>().join(", "),
    }
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        self.all.iter().position(|known| known == text).unwrap_or_else(|| {
            self.all.push(text.to_owned());
            self.all.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_plan_says() {
        let registry = Registry::embedded();
        let data = data(&registry, Platform::LINUX_X86_64, None);
        let find = |torch: &str, variant: &str, capability: Option<&str>| {
            let build = data.builds.iter().position(|b| b.torch == torch && b.variant == variant).unwrap();
            let capability = capability.map(|text| text.parse().unwrap());
            let machine = data.machines.iter().find(|m| m.capability == capability).unwrap();
            match &machine.builds[build] {
                Answer::Runs { driver } => driver.as_ref().map_or("runs".to_owned(), ToString::to_string),
                Answer::Out { reason, .. } => data.texts[*reason].clone(),
            }
        };
        assert_eq!(find("2.9.1", "cu128", Some("9.0")), "525.60.13");
        assert_eq!(find("2.9.1", "cu128", Some("6.1")), "has no code for a GPU with compute capability 6.1");
        assert_eq!(find("2.9.1", "cpu", Some("9.0")), "is a CPU build");
        assert_eq!(find("2.9.1", "cpu", None), "runs");
        // The larger of two floors: that of the GPU, that of the CUDA.
        assert_eq!(find("2.0.1", "cu118", Some("8.9")), "520");
        assert_eq!(find("2.9.1", "cu128", Some("8.9")), "525.60.13");
        let of = |name: &str| data.gpus.iter().filter(|gpu| gpu.name == name).count();
        assert_eq!(of("GeForce GTX 750 Ti"), 2, "a name of two generations");
        assert!(data.machines.iter().all(|machine| machine.builds.len() == data.builds.len()));
        // What nobody read is not known, and not a no.
        for answer in data.machines.iter().flat_map(|machine| &machine.builds) {
            if let Answer::Out { reason, unknown } = answer {
                let is_open =
                    data.texts[*reason].contains("unknown") || data.texts[*reason].contains("not in the");
                assert_eq!(*unknown, is_open, "{}", data.texts[*reason]);
            }
        }
        assert!(data.texts.iter().any(|text| text == "has unknown code targets"));
    }

    #[test]
    fn the_data_cannot_end_its_element() {
        let page = page(&Registry::embedded(), Platform::LINUX_X86_64, None);
        assert!(!page.contains(PLACE) && page.matches("</script>").count() == 2);
        assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("fetch("));
    }

    #[test]
    fn python_series_as_a_range() {
        assert_eq!(series(&[10, 11, 12]), "3.10 to 3.12");
        assert_eq!(series(&[8, 10]), "3.8, 3.10");
        assert_eq!(series(&[9]), "3.9");
    }
}
