//! Which nodes can run which locks, equal nodes folded.

mod environment;
mod nodes;
mod rehearse;
mod verdicts;

use std::path::{Path, PathBuf};

use super::Interface;
use super::failure::Failure;
use super::options::Global;
use super::project_lock::{self, AnyLock};
use super::settings::Project;
use super::threads::in_threads;
use super::{chosen_host, files, learned_rows};
use crate::fleet::{self, Class, Difference, natural};
use crate::model::saved_host::SavedHost;
use crate::model::text::clean;
use crate::registry::Registry;

pub(crate) use rehearse::{Change, OfLock, Rehearsed, rehearse};

/// Where the nodes are.
pub(crate) enum Nodes<'n> {
    /// Host files in a folder.
    Folder(&'n Path),
    /// The nodes of a cluster, which are asked.
    Slurm(Slurm),
}

/// The nodes of a cluster with Slurm, and what is asked of them.
pub(crate) struct Slurm {
    /// Only the nodes of this partition.
    pub partition: Option<String>,
    /// Only these nodes, in Slurm's notation: `n[1-8]`.
    pub nodes: Option<String>,
    /// The environment to verify on every node too.
    pub prefix: Option<PathBuf>,
    /// How many seconds a node may take.
    pub timeout: u64,
    /// The envlock program on the nodes; else the path of this one.
    pub program: Option<PathBuf>,
}

/// Judges nodes for locks: those that are named, else the project's own. Returns the data that it was judged by, too.
///
/// # Errors
/// When a lock or the nodes cannot be read.
pub(crate) fn fleet(
    global: &Global,
    nodes: &Nodes<'_>,
    named: &[PathBuf],
    interface: &dyn Interface,
) -> Result<(Fleet, Registry), Failure> {
    let locks = locks(global, named)?;
    let (asked, registry) = asked(global, nodes, &locks.iter().collect::<Vec<_>>(), interface)?;
    let classes = fleet::classes(asked.nodes);
    let differences = fleet::differences(&classes);
    let judged = verdicts::all(&locks, &classes, &registry)?;
    let (environment, unanswered) = (asked.environment, asked.unanswered);
    Ok((Fleet { classes, judged, environment, unanswered, differences }, registry))
}

/// The nodes, with what the registry knows of their kinds, and the data that knows the locks' releases.
///
/// # Errors
/// When the nodes cannot be read.
fn asked(
    global: &Global,
    nodes: &Nodes<'_>,
    locks: &[&Named],
    interface: &dyn Interface,
) -> Result<(Found, Registry), Failure> {
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let mentions = |name: &str| locks.iter().any(|named| named.lock.mentions(name));
    let registry = learned_rows::with_rows_of(global, registry, &mentions);
    let mut found = match nodes {
        Nodes::Folder(folder) => nodes::of_folder(folder)?,
        Nodes::Slurm(slurm) => nodes::of_slurm(slurm, locks, interface)?,
    };
    // As the project's own `verify --host` does.
    let ignored = project.manifest.map(|m| m.request.ignored_gpus).unwrap_or_default();
    // Facts that the registry adds belong to the kind of a node: the driver of a CUDA version, capabilities.
    let complete = |(_, described): &(String, SavedHost)| {
        chosen_host::without(described.host.clone(), &ignored, &registry)
            .and_then(|host| chosen_host::filled(host, &registry))
    };
    let nodes = std::mem::take(&mut found.nodes);
    let completed = in_threads(&nodes, &complete);
    for ((name, described), completed) in nodes.into_iter().zip(completed) {
        match completed {
            Ok(host) => found.nodes.push((name, SavedHost { host, ..described })),
            Err(error) => found.unanswered.push(Unanswered { node: name, why: error.message }),
        }
    }
    found.unanswered.sort_by_cached_key(|node| natural(&node.node));
    Ok((found, registry))
}

/// A node that did not say what it is.
pub(crate) struct Unanswered {
    pub node: String,
    pub why: String,
}

/// What the nodes said.
#[derive(Default)]
pub(crate) struct Found {
    pub nodes: Vec<(String, SavedHost)>,
    pub unanswered: Vec<Unanswered>,
    pub environment: Option<environment::OnNodes>,
}

/// The whole answer.
pub(crate) struct Fleet {
    pub classes: Vec<Class>,
    /// For each lock, the verdict on each class.
    pub judged: Vec<verdicts::OfLock>,
    /// The environment of `--prefix` on the nodes.
    pub environment: Option<environment::OnNodes>,
    pub unanswered: Vec<Unanswered>,
    pub differences: Vec<Difference>,
}

/// A lock to judge.
pub(crate) struct Named {
    /// Its path as it is shown.
    pub shown: String,
    pub path: PathBuf,
    pub lock: AnyLock,
}

/// The locks to judge; without a name, the project's own, if there is one.
fn locks(global: &Global, named: &[PathBuf]) -> Result<Vec<Named>, Failure> {
    let mut out = Vec::new();
    for path in named {
        for file in of_folder(path)? {
            let shown = clean(&file.display().to_string(), 200);
            out.push(Named { shown, lock: project_lock::read_any(&file)?, path: file });
        }
    }
    if named.is_empty() {
        let project = Project::find(global, true)?;
        let own = |lock| Named {
            shown: files::LOCK.to_owned(),
            path: project.lock_path(),
            lock: AnyLock::Own(lock),
        };
        out.extend(project_lock::read(&project)?.map(own));
    }
    Ok(out)
}

/// A lock, or the locks in a folder: files with the names that tools give them, and `NAME.lock`.
fn of_folder(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs_err::read_dir(path)? {
        let file = entry?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_lock = name.ends_with(".lock")
            || name.ends_with("conda-lock.yml")
            || (name.starts_with("pylock.") && name.ends_with(".toml"));
        if is_lock && file.is_file() {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Failure::input(format!("`{}` contains no lock", path.display()))
            .hint("name the files: `--lock FILE` can be repeated"));
    }
    Ok(found)
}
