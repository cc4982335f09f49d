//! A problem ready to search: the request, the machine and the candidates.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::MarkerEnvironment;

use super::budget::{Budget, Share};
use super::inputs::{Depth, Inputs, allowed_pythons};
use super::machine_rows::Machine;
use super::memory::{Applying, Doubtful, KnownOf, Memory, Search, Sets, Wish};
use super::node::Node;
use super::question::Question;
use super::tables::{BuildRow, RuntimeRow, Set, TRITON_PACKAGE, Tables, ordinals, runtime_rows};
use super::universe::Universe;
use crate::compatibility::Policy;
use crate::model::capability::{ComputeCapability, Via};
use crate::model::marker::marker_environment;
use crate::model::project::{ProjectPage, Release};
use crate::model::request::{Preferences, Request, UserRequirement};
use crate::model::requirement::{names_prerelease, pins};
use crate::model::solution::Need;
use crate::model::variant::CPU;
use crate::model::wheel::Python;
use crate::registry::{Advisory, Cited, Registry};

/// For which Pythons a release has wheels for the platform, whatever their libc.
#[derive(Debug, Clone, Copy)]
pub(super) struct WheelsOf {
    /// For one of the problem's.
    pub here: bool,
    /// For none of those, and for another one that can have the newest torch.
    pub elsewhere: bool,
}

/// A candidate of an ordinary package: a release on an index.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'p> {
    pub index: &'p str,
    pub page: &'p Arc<ProjectPage>,
    pub release: &'p Release,
}

/// The release that stands for a build of a stack package, and its page; `None` if its index does not have it.
pub(super) type OfBuild<'p> = Option<(&'p Arc<ProjectPage>, &'p Release)>;

/// What one release excludes from above: by package, the newest candidate it admits and its requirement as written.
pub(super) type Tops = Rc<BTreeMap<String, (u32, String)>>;

/// The newest final release of each minor line of a package, newest first, down to a candidate.
pub(super) struct Lines {
    pub from: u32,
    pub newest: Vec<(Vec<u64>, u32)>,
}

/// Groups of torch versions that are equivalent in a problem, each with its representative. Used in the search for a
/// proof.
pub(super) struct EquivalentVersions {
    /// For each version, the newest equivalent version.
    pub representative_of: Vec<u32>,
}

impl EquivalentVersions {
    /// The representatives of all groups.
    pub fn representatives(&self) -> Set {
        ordinals(self.representative_of.len(), |v| self.representative_of[v] == v as u32)
    }

    /// The versions that a representative stands for, including itself.
    pub fn all(&self, version: u32) -> impl Iterator<Item = u32> {
        (0..self.representative_of.len() as u32)
            .filter(move |v| *v == version || self.representative_of[*v as usize] == version)
    }
}

/// The request, the preferences and the depth of the solve.
pub(super) struct Asked<'a> {
    pub request: &'a Request,
    pub preferences: &'a Preferences,
    pub depth: Depth,
    /// What the search wants beyond the request.
    pub wish: Wish,
    /// What the search admits.
    pub admits: Doubtful,
    /// Whether a release may be built wherever one of the series could build it. What all series together exclude, each one
    /// excludes only then.
    pub is_permissive: bool,
    /// Whether requirements that are not known count as none. A proof that needs none of them says more than one that ends
    /// at the old release whose requirements are not known.
    pub takes_unknown_as_none: bool,
    /// What the search may take, if it is not what its wish is worth.
    pub share: Option<Share>,
    /// Versions of packages that go together: a search that starts from them seldom has to step back. They decide how fast
    /// it ends, not whether there is an answer.
    pub near: Option<&'a BTreeMap<String, Version>>,
}

/// The Python series that are candidates, each with its marker environment.
pub(super) struct Pythons {
    /// All series that the request allows, not only those of this problem.
    pub allowed: Vec<Python>,
    pub series: Vec<Python>,
    pub environments: Vec<MarkerEnvironment>,
}

/// Cached results, and the needs that the search found.
#[derive(Default)]
pub(super) struct Memo<'a> {
    /// Sets of candidates, shared with other problems.
    pub sets: Sets,
    /// Requirements that apply on the Pythons of the problem, shared with other problems.
    pub applying: Applying,
    /// By package: the user's specifiers that admit releases which are not candidates otherwise.
    pub admitting: HashMap<String, String>,
    /// Candidates by package.
    pub listed: RefCell<HashMap<String, Rc<[Candidate<'a>]>>>,
    /// The releases that stand for builds of a stack package, by number of the build.
    pub of_builds: RefCell<HashMap<String, HashMap<usize, OfBuild<'a>>>>,
    /// What is known of candidates, shared with other problems about the question.
    pub known: std::cell::OnceCell<KnownOf>,
    /// For which Pythons a release has wheels, by its address in its page.
    pub wheels_of: RefCell<HashMap<*const Release, WheelsOf>>,
    /// The wheels that stand in for archives which were not read, by the address of the release in its page: their places among
    /// its files.
    pub stand_ins: RefCell<HashMap<*const Release, Option<usize>>>,
    /// See [`Problem::named`].
    pub named: std::cell::OnceCell<RequestNames<'a>>,
    /// The frameworks that the request names.
    pub requested_frameworks: std::cell::OnceCell<Vec<String>>,
    /// See [`Problem::pythons_of_newest_torch`].
    pub pythons_of_newest_torch: std::cell::OnceCell<Vec<Python>>,
    /// The newest release of a page that has a wheel for another allowed Python only.
    pub wheels_elsewhere: RefCell<HashMap<*const Arc<ProjectPage>, Option<usize>>>,
    /// The newest releases of minor lines, by package.
    pub lines: RefCell<HashMap<String, Lines>>,
    /// What releases exclude from above, by package and candidate.
    pub tops: RefCell<HashMap<(String, u32), Tops>>,
    /// Pages and METADATA that the search needs and that are not in the universe.
    pub needs: RefCell<BTreeSet<Need>>,
}

/// The packages that the request names.
pub(super) struct RequestNames<'a> {
    /// Those of its requirements.
    pub requested: HashSet<&'a str>,
    /// The constraints that apply in all environments of the problem, by package.
    pub bounds: HashMap<&'a str, Vec<UserBound<'a>>>,
}

/// A constraint of the user, and what it says.
pub(super) type UserBound<'a> = (&'a UserRequirement, &'a VersionSpecifiers);

/// A problem ready to search.
pub(super) struct Problem<'a> {
    pub registry: &'a Registry,
    pub universe: &'a Universe<'a>,
    pub asked: Asked<'a>,
    pub machine: Machine<'a>,
    pub pythons: Pythons,
    /// Equivalent torch versions, in the search for a proof.
    pub alike: Option<EquivalentVersions>,
    /// The registry rows of frameworks other than torch.
    pub runtimes: Vec<RuntimeRow<'a>>,
    /// Advisories that constrain.
    pub advisories: Vec<&'a Cited<Advisory>>,
    pub memo: Memo<'a>,
    /// The searches that already ended.
    pub memory: &'a Memory,
    /// What the searches of the command may take.
    pub budget: &'a Budget,
    tables: Rc<Tables<'a>>,
}

impl<'a> std::ops::Deref for Problem<'a> {
    type Target = Tables<'a>;

    fn deref(&self) -> &Tables<'a> {
        &self.tables
    }
}

impl<'a> Problem<'a> {
    /// A problem for the given Python series over shared tables.
    pub fn new(
        inputs: &Inputs<'a>,
        tables: &Rc<Tables<'a>>,
        depth: Depth,
        pythons: Vec<Python>,
    ) -> Problem<'a> {
        let registry = inputs.catalogue.registry;
        let machine =
            Machine::new(registry, &inputs.question.host, Policy::of(&inputs.question.request), tables);
        let capabilities: Vec<ComputeCapability> = machine.gpus.iter().map(|(_, c)| *c).collect();
        let platform = machine.platform;
        let constrains = |a: &&Cited<Advisory>| {
            a.effect.requirement().is_some()
                && a.applies_to(platform, machine.gpus.iter().map(|(_, capability)| *capability))
        };
        let advisories = registry.advisories().iter().filter(constrains).collect();
        Problem {
            registry,
            universe: inputs.universe,
            asked: Asked {
                request: &inputs.question.request,
                preferences: &inputs.question.preferences,
                depth,
                wish: Wish::Nothing,
                admits: Doubtful::ALL,
                is_permissive: false,
                takes_unknown_as_none: false,
                share: None,
                near: None,
            },
            alike: None,
            runtimes: runtime_rows(registry, &inputs.question.host, &inputs.question.request, &capabilities),
            memo: Memo {
                sets: match depth {
                    Depth::Stack => Sets::default(),
                    Depth::Full => inputs.memory.sets(&inputs.question.request),
                },
                applying: match depth {
                    Depth::Stack => Applying::default(),
                    Depth::Full => inputs.memory.applying(platform, &pythons),
                },
                admitting: match depth {
                    Depth::Stack => HashMap::new(),
                    Depth::Full => admitting(&inputs.question.request),
                },
                ..Memo::default()
            },
            machine,
            pythons: Pythons {
                environments: pythons.iter().map(|p| marker_environment(*p, platform)).collect(),
                series: pythons,
                allowed: allowed_pythons(registry, &inputs.question.request),
            },
            advisories,
            memory: inputs.memory,
            budget: inputs.budget,
            tables: tables.clone(),
        }
    }
}

/// By package: the user's specifiers that admit yanked releases or pre-releases.
fn admitting(request: &Request) -> HashMap<String, String> {
    let mut out: HashMap<String, String> = HashMap::new();
    for user in request.requirements.iter().chain(&request.constraints) {
        let Some(specifiers) = user.specifiers() else { continue };
        if pins(specifiers) || names_prerelease(specifiers) {
            let text = out.entry(user.name().to_owned()).or_default();
            text.push_str(&format!(" {specifiers}"));
        }
    }
    out
}

impl Problem<'_> {
    /// What is solved, for whom.
    pub fn question(&self) -> Question<'_> {
        Question::new(self.machine.host, self.asked.request, self.asked.preferences)
    }

    /// What distinguishes the problem from others about the same question.
    pub fn search(&self) -> Search {
        let at_hand = match self.asked.depth {
            Depth::Full => self.universe.indexes_with(TRITON_PACKAGE).len(),
            Depth::Stack => self.avoided_of_the_stack().map_or(0, |avoided| avoided.len()),
        };
        Search { wish: self.asked.wish.clone(), at_hand, ..self.kind() }
    }

    /// The same without its wish and what it found at hand: what is known of candidates depends on neither.
    pub fn kind(&self) -> Search {
        Search {
            depth: self.asked.depth,
            series: self.pythons.series.clone(),
            wish: Wish::Nothing,
            admits: self.asked.admits,
            is_permissive: self.asked.is_permissive,
            at_hand: 0,
        }
    }

    /// Whether a CPU build is preferred: the machine is known to have no GPU, or the CPU variant is pinned.
    pub fn prefers_cpu(&self) -> bool {
        self.machine.host.has_no_gpu() || self.asked.request.variant.as_ref().is_some_and(|v| v.value == CPU)
    }

    /// Whether the allowed indexes have a CPU build of a torch for one of the Pythons.
    pub fn has_cpu_build(&self, version: &pep440_rs::Version) -> bool {
        let Some(table) = self.stack.get("torch") else { return false };
        let is_one = |build: &&BuildRow<'_>| {
            self.variants[build.variant as usize].name == CPU
                && build.version == *version
                && self.index_allowed(&self.indexes[build.index as usize])
                && !self.build_pythons(build).is_empty()
        };
        table.builds.iter().any(|build| is_one(&build))
    }

    /// The nodes whose limits in the request do not admit a torch build; empty if all do.
    pub fn outside_limits(&self, build: &BuildRow<'_>) -> Vec<Node> {
        let request = self.asked.request;
        let variant = &self.variants[build.variant as usize];
        let (cudnn, nccl) =
            build.torch.map_or((None, None), |torch| (torch.cudnn.as_ref(), torch.nccl.as_ref()));
        let cuda = variant.cuda.as_ref();
        let checks = [
            (Node::Variant, request.variant.as_ref().is_none_or(|l| l.value == variant.name)),
            (Node::Variant, request.cuda.as_ref().is_none_or(|l| cuda.is_some_and(|c| l.value.contains(c)))),
            (Node::Cudnn, request.cudnn.as_ref().is_none_or(|l| cudnn.is_some_and(|v| l.value.contains(v)))),
            (
                Node::build("torch"),
                request.nccl.as_ref().is_none_or(|l| nccl.is_some_and(|v| l.value.contains(v))),
            ),
        ];
        checks.into_iter().filter(|(_, admits)| !admits).map(|(node, _)| node).collect()
    }

    /// Whether a CPU build is not acceptable: the machine is known to have GPUs or a driver.
    pub fn wants_gpu_build(&self) -> bool {
        !self.prefers_cpu() && (!self.machine.gpus.is_empty() || self.machine.host.driver.is_some())
    }

    /// Whether every driver that supports a variant is too new for a GPU. Only relevant if the driver is unknown; a
    /// known driver was already checked against the GPUs.
    pub fn driver_too_new_for_gpu(&self, variant: u32, capability: ComputeCapability) -> bool {
        let cuda = self.variants[variant as usize].cuda.as_ref();
        cuda.is_some_and(|cuda| self.machine.cuda_too_new_for_gpu(cuda, capability))
    }

    /// Whether a build does not support GPU number `gpu`. Unknown targets exclude the GPU for torch, but not for
    /// companions.
    pub fn gpu_excludes(&self, build: &BuildRow<'_>, gpu: usize) -> bool {
        if self.variants[build.variant as usize].cuda.is_none() {
            return build.torch.is_some() && !self.prefers_cpu();
        }
        match &build.targets {
            None => build.torch.is_some(),
            Some(_) => match self.machine.coverage[build.kind][gpu] {
                None => true,
                Some(Via::Sass) => false,
                Some(Via::Ptx) => !self.machine.is_native(build.variant),
            },
        }
    }

    /// Whether a torch build is compatible with driver, GPUs, cuDNN, libc, allowed indexes and Pythons.
    pub fn machine_allows(&self, build: &BuildRow<'_>) -> bool {
        self.machine_allows_on_some_python(build)
            && self.pythons.series.iter().any(|p| build.pythons >> p.minor.min(63) & 1 == 1)
    }

    /// [`Problem::machine_allows`], whatever Pythons have a wheel.
    pub fn machine_allows_on_some_python(&self, build: &BuildRow<'_>) -> bool {
        let cpu = self.variants[build.variant as usize].cuda.is_none();
        self.machine.driver_suffices(build.variant)
            && !(cpu && self.wants_gpu_build())
            && self.index_allowed(&self.indexes[build.index as usize])
            && (0..self.machine.gpus.len()).all(|i| {
                let capability = self.machine.gpus[i].1;
                !self.gpu_excludes(build, i)
                    && self.machine.cudnn_supports(self.cudnn[build.cudnn as usize].as_ref(), capability)
                    && !self.driver_too_new_for_gpu(build.variant, capability)
            })
            && build.torch.and_then(|t| t.glibc.as_ref()).is_none_or(|need| self.machine.glibc_suffices(need))
    }

    /// The Python series (ordinals) that a torch row has wheels for.
    pub fn build_pythons(&self, build: &BuildRow<'_>) -> Set {
        ordinals(self.pythons.series.len(), |i| {
            let python = self.pythons.series[i];
            let by_series = build.pythons >> python.minor.min(63) & 1 == 1;
            // A patch release is compared with Requires-Python itself.
            by_series
                && (python.patch.is_none()
                    || build
                        .torch
                        .and_then(|t| t.requires_python.as_ref())
                        .is_none_or(|r| crate::model::project::specifiers_allow(r, python)))
        })
    }
}
