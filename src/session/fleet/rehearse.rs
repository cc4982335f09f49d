//! `fleet rehearse`: what a new driver, other GPUs or a new lock do to every node and lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::{Found, Named, Nodes, Unanswered, asked, locks};
use crate::fleet::{
    self, Class, Effect, Fare, HardwareChange, Judged, Outcome, first_to_change, natural, outcomes,
};
use crate::model::count::Count;
use crate::model::host::{Gpu, Host};
use crate::model::platform::Platform;
use crate::model::saved_host::SavedHost;
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::compared;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::project_lock::AnyLock;
use crate::session::threads::in_threads;
use crate::session::verify::{Candidates, OnMachine, judged};
use crate::session::{Interface, chosen_host};
use crate::slurm;
use crate::verify::{self, Facts, Locked, Verdict};

/// What is to be changed, and where.
pub(crate) struct Change<'c> {
    /// Where the nodes are.
    pub nodes: Nodes<'c>,
    /// Only the nodes of this partition, of those that host files describe.
    pub partition: Option<&'c str>,
    /// Only these nodes, likewise: names, or Slurm's notation.
    pub only: Option<&'c str>,
    /// Another driver: a version or a branch.
    pub driver: Option<&'c str>,
    /// Other GPUs.
    pub gpus: &'c [String],
    /// The locks, after the change.
    pub locks: &'c [PathBuf],
    /// The locks before it; none where they stay.
    pub against: &'c [PathBuf],
}

/// What the change does.
pub(crate) struct Rehearsed {
    /// The driver after it, where it changes.
    pub driver: Option<DottedVersion>,
    /// The GPUs after it, where they change.
    pub gpus: Option<Vec<String>>,
    /// How many nodes the change is about.
    pub concerned: usize,
    /// The nodes, by class.
    pub classes: Vec<Class>,
    /// How many nodes get the driver or the GPUs.
    pub changed: usize,
    pub locks: Vec<OfLock>,
    /// The nodes on which a lock runs, and stops or is not known to run any more.
    pub drain: Vec<String>,
    /// The nodes to try it on first: they show every change once.
    pub first: Vec<String>,
    /// Whether no smaller set of nodes does.
    pub is_smallest: bool,
    pub unanswered: Vec<Unanswered>,
}

/// What it does to a lock.
pub(crate) struct OfLock {
    pub file: String,
    /// The lock before, where it changes.
    pub against: Option<String>,
    pub outcomes: Vec<Outcome>,
}

impl Rehearsed {
    /// The nodes of an outcome, sorted.
    pub fn nodes(&self, outcome: &Outcome) -> Vec<String> {
        let all = outcome.classes.iter().flat_map(|class| self.classes[*class].nodes.iter().cloned());
        let mut names: Vec<String> = all.collect();
        names.sort_by_cached_key(|name| natural(name));
        names
    }

    /// On how many nodes a lock runs: before and after.
    pub fn runs(&self, lock: &OfLock) -> (usize, usize) {
        let count = |fare: fn(&Outcome) -> &Fare| {
            let runs = lock.outcomes.iter().filter(|outcome| fare(outcome).verdict == Verdict::Ok);
            runs.flat_map(|outcome| &outcome.classes).map(|class| self.classes[*class].nodes.len()).sum()
        };
        (count(|outcome| &outcome.before), count(|outcome| &outcome.after))
    }
}

/// A lock, and the one that it replaces.
struct Pair {
    new: Named,
    old: Option<Named>,
}

/// Says what a change does, without making it.
///
/// # Errors
/// When nothing is changed, what is named does not exist, or the nodes cannot be read.
pub(crate) fn rehearse(
    global: &Global,
    change: &Change<'_>,
    interface: &dyn Interface,
) -> Result<Rehearsed, Failure> {
    if change.driver.is_none() && change.gpus.is_empty() && change.against.is_empty() {
        return Err(Failure::usage("nothing is to be changed").hint(
            "name a driver (`--driver 580.65.06`), GPUs (`--gpu H100`), or the lock of before (`--against HEAD`)",
        ));
    }
    let pairs = pairs(global, change, interface)?;
    let all: Vec<&Named> =
        pairs.iter().flat_map(|pair| std::iter::once(&pair.new).chain(&pair.old)).collect();
    let (found, registry) = asked(global, &change.nodes, &all, interface)?;
    let Found { nodes, mut unanswered, .. } = found;
    let concerned = concerned(change, &nodes, &mut unanswered)?;
    let hardware = HardwareChange {
        driver: change
            .driver
            .map(|text| chosen_host::driver_named(text, "--driver", &registry))
            .transpose()?,
        gpus: match change.gpus {
            [] => None,
            names => Some(chosen_host::gpus(names, "--gpu", &registry)?),
        },
    };
    let is_concerned = |name: &String| concerned.as_ref().is_none_or(|names| names.contains(name));
    let (changing, staying): (Vec<(String, SavedHost)>, Vec<_>) =
        nodes.into_iter().partition(|(name, _)| is_concerned(name));
    let changing = fleet::classes(changing);
    let mut after: Vec<Option<Host>> = changing.iter().map(|class| hardware.of(&class.host)).collect();
    let mut classes = changing;
    let count = |(class, after): (&Class, &Option<Host>)| after.as_ref().map_or(0, |_| class.nodes.len());
    let changed = classes.iter().zip(&after).map(count).sum();
    // Nodes elsewhere keep their locks too.
    let staying_from = classes.len();
    classes.extend(fleet::classes(staying));
    after.resize(classes.len(), None);
    let one = |pair: &Pair| {
        let outcomes = of_pair(pair, &classes, &after, staying_from, &registry)?;
        let against = pair.old.as_ref().map(|old| old.shown.clone());
        Ok(OfLock { file: pair.new.shown.clone(), against, outcomes })
    };
    let judged = in_threads(&pairs, &one).into_iter().collect::<Result<Vec<OfLock>, Failure>>()?;
    let stops = |outcome: &&Outcome| matches!(outcome.effect, Effect::Stops | Effect::NotKnown);
    let stopped = judged.iter().flat_map(|lock| &lock.outcomes).filter(stops).flat_map(|one| &one.classes);
    let stopped: BTreeSet<usize> = stopped.copied().collect();
    let mut drain: Vec<String> = stopped.iter().flat_map(|class| classes[*class].nodes.clone()).collect();
    drain.sort_by_cached_key(|name| natural(name));
    let kind = |class: &Class| {
        let labels: BTreeSet<String> = class.host.gpus.iter().flatten().map(Gpu::label).collect();
        (labels.into_iter().collect::<Vec<_>>().join(" + "), class.nodes.clone())
    };
    let names: Vec<(String, Vec<String>)> = classes.iter().map(kind).collect();
    if changed == 0 && change.against.is_empty() {
        interface.note("no node changes: none of them is known to have a GPU");
    }
    let of_locks: Vec<&[Outcome]> = judged.iter().map(|lock| lock.outcomes.as_slice()).collect();
    let (first, is_smallest) = first_to_change(&names, &of_locks);
    unanswered.sort_by_cached_key(|node| natural(&node.node));
    Ok(Rehearsed {
        driver: hardware.driver.map(|driver| driver.version),
        gpus: hardware.gpus.map(|gpus| gpus.iter().map(Gpu::label).collect()),
        concerned: classes.iter().take(staying_from).map(|class| class.nodes.len()).sum(),
        classes,
        changed,
        locks: judged,
        drain,
        first,
        is_smallest,
        unanswered,
    })
}

/// The locks with those that they replace: of two folders by the files' names, else in order.
fn pairs(global: &Global, change: &Change<'_>, interface: &dyn Interface) -> Result<Vec<Pair>, Failure> {
    let new = locks(global, change.locks)?;
    if new.is_empty() {
        return Err(Failure::lock("there is no lock to judge".to_owned())
            .hint("name one with `--lock FILE`, or run it in the folder of a project that has one"));
    }
    if change.against.is_empty() {
        return Ok(new.into_iter().map(|new| Pair { new, old: None }).collect());
    }
    let mut old = Vec::new();
    for path in change.against {
        old.extend(before(global, path)?);
    }
    if !change.against.iter().any(|path| path.is_dir()) {
        if old.len() != new.len() {
            let count = Count(new.len());
            let message =
                format!("{} {} compared with {}", count.of("lock"), count.is(), Count(old.len()).of("lock"));
            return Err(Failure::usage(message)
                .hint("name as many locks with `--against` as with `--lock`, or a folder with each"));
        }
        return Ok(new.into_iter().zip(old).map(|(new, old)| Pair { new, old: Some(old) }).collect());
    }
    let name = |named: &Named| named.path.file_name().map(ToOwned::to_owned);
    let mut by_name: BTreeMap<_, Named> = old.into_iter().map(|named| (name(&named), named)).collect();
    let mut out = Vec::new();
    for new in new {
        match by_name.remove(&name(&new)) {
            Some(old) => out.push(Pair { new, old: Some(old) }),
            None => interface.note(&format!("`{}` is new: nothing is compared with it", new.shown)),
        }
    }
    for gone in by_name.values() {
        interface.note(&format!("`{}` is gone: nothing is compared with it", gone.shown));
    }
    if out.is_empty() {
        return Err(Failure::input("no lock has the same name in both folders".to_owned())
            .hint("name the files: `--lock NEW --against OLD`"));
    }
    Ok(out)
}

/// The locks before the change: files, or those of a folder or of a revision of git.
fn before(global: &Global, path: &Path) -> Result<Vec<Named>, Failure> {
    if path.exists() {
        return locks(global, std::slice::from_ref(&path.to_owned()));
    }
    let shown = clean(&path.display().to_string(), 200);
    let found = compared::named(global, path)
        .map_err(|error| error.hint("name the lock of before by a file or a commit: `--against OLD.lock`"))?;
    let lock = found.ok_or_else(|| {
        Failure::lock(format!("`{shown}` has no envlock.lock"))
            .hint("`git log envlock.lock` names the commits that changed it")
    })?;
    Ok(vec![Named { shown, path: path.to_owned(), lock: AnyLock::Own(lock) }])
}

/// The names of the nodes that are changed; `None` for all. Those without a host file have no answer.
fn concerned(
    change: &Change<'_>,
    nodes: &[(String, SavedHost)],
    unanswered: &mut Vec<Unanswered>,
) -> Result<Option<BTreeSet<String>>, Failure> {
    let names: BTreeSet<String> = match (change.partition, change.only) {
        (None, None) => return Ok(None),
        (None, Some(list)) => {
            let names = fleet::expanded(list).ok_or_else(|| {
                Failure::usage(format!("`{}` is no list of nodes", clean(list, 100)))
                    .hint("such as `n1,n2` or `n[1-8]`")
            })?;
            names.into_iter().collect()
        }
        (partition, list) => {
            let all = slurm::nodes(partition, list).map_err(|error| Failure::host(error.to_string()))?;
            all.into_iter().map(|node| node.name).collect()
        }
    };
    let known: BTreeSet<&String> = nodes.iter().map(|(name, _)| name).collect();
    if !names.iter().any(|name| known.contains(name)) {
        return Err(Failure::input(match names.len() {
            0 => "Slurm knows no such nodes".to_owned(),
            1 => "the node that is named has no host file".to_owned(),
            count => format!("none of the {count} nodes that are named has a host file"),
        })
        .hint("host files are called as the nodes are: `envlock probe --save NODE.toml`"));
    }
    let is_unread =
        |name: &&String| !known.contains(name) && !unanswered.iter().any(|one| one.node == **name);
    let missing: Vec<String> = names.iter().filter(is_unread).cloned().collect();
    unanswered
        .extend(missing.into_iter().map(|node| Unanswered { node, why: "it has no host file".to_owned() }));
    Ok(Some(names))
}

/// What the change does to one lock, on each class. From `staying_from` on nothing changes, the lock neither.
fn of_pair(
    pair: &Pair,
    classes: &[Class],
    after: &[Option<Host>],
    staying_from: usize,
    registry: &Registry,
) -> Result<Vec<Outcome>, Failure> {
    let mut new = Judge::of(&pair.new.lock, registry)?;
    let mut old = pair.old.as_ref().map(|old| Judge::of(&old.lock, registry)).transpose()?;
    let mut all = Vec::new();
    for (place, class) in classes.iter().enumerate() {
        let before = match &mut old {
            Some(old) => old.fare(&class.host),
            None => new.fare(&class.host),
        };
        let after = match &after[place] {
            _ if place >= staying_from => before.clone(),
            Some(host) => new.fare(host),
            None => new.fare(&class.host),
        };
        all.push(Judged { class: place, before, after });
    }
    Ok(outcomes(all))
}

/// Judges a lock for many machines, of which many are alike.
struct Judge<'l> {
    candidates: Candidates<'l>,
    registry: &'l Registry,
    /// What is locked for a platform.
    locked: BTreeMap<Platform, Vec<Locked<'l>>>,
    /// By the machine as it is written: `535` and `535.0` are equal versions, and only one is open within its branch.
    known: HashMap<String, Fare>,
}

impl<'l> Judge<'l> {
    fn of(lock: &'l AnyLock, registry: &'l Registry) -> Result<Judge<'l>, Failure> {
        let candidates = Candidates::of(lock, None, false)?;
        Ok(Judge { candidates, registry, locked: BTreeMap::new(), known: HashMap::new() })
    }

    fn fare(&mut self, host: &Host) -> Fare {
        let host = as_judged(host);
        let key = format!("{host:?}");
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let of_platform = || self.candidates.locked(&host, self.registry);
        let locked = self.locked.entry(host.system.platform).or_insert_with(of_platform);
        let OnMachine { areas, verdict, path } = judged(&host, locked, &Facts::none(self.registry));
        let fare = Fare { verdict, line: verify::line(verdict, &areas), path };
        self.known.insert(key, fare.clone());
        fare
    }
}

/// A machine without what no verdict depends on: how many equal GPUs it has, where each is, and how large.
fn as_judged(host: &Host) -> Host {
    let mut host = host.clone();
    for gpu in host.gpus.iter_mut().flatten() {
        (gpu.index, gpu.memory_mib, gpu.uuid, gpu.pci_id) = (0, None, None, None);
    }
    host.gpus.iter_mut().for_each(|gpus| gpus.dedup());
    host
}
