//! `envlock fleet`: which nodes can run which locks, equal nodes folded.

mod environment;
mod judge;
mod nodes;
mod report;

use std::path::{Path, PathBuf};

use crate::cli::args::{FleetArgs, FleetCommand};
use crate::cli::printer::Printer;
use crate::fleet::{self, Class, Difference, natural};
use crate::model::saved_host::SavedHost;
use crate::model::text::clean;
use crate::session::error::CliError;
use crate::session::lock::{self, AnyLock};
use crate::session::options::Global;
use crate::session::settings::Project;
use crate::session::{exit, files, host};
use crate::verify::Verdict;

pub(super) fn run(global: &Global, args: &FleetArgs, printer: &Printer) -> Result<u8, CliError> {
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let locks = locks(global, args.command.locks())?;
    let found = match &args.command {
        FleetCommand::Hosts(args) => nodes::of_folder(&args.folder)?,
        FleetCommand::Slurm(args) => nodes::of_slurm(args, &locks, printer)?,
    };
    let (mut unanswered, environment) = (found.unanswered, found.environment);
    let mut nodes: Vec<(String, SavedHost)> = Vec::new();
    // As the project's own `verify --host` does.
    let ignored = project.manifest.map(|m| m.request.ignored_gpus).unwrap_or_default();
    for (name, described) in found.nodes {
        // Facts that the registry adds belong to the kind of a node: the driver of a CUDA version, capabilities.
        let completed =
            host::without(described.host, &ignored, &registry).and_then(|host| host::filled(host, &registry));
        match completed {
            Ok(host) => nodes.push((name, SavedHost { host, ..described })),
            Err(error) => unanswered.push(Unanswered { node: name, why: error.message }),
        }
    }
    unanswered.sort_by_cached_key(|node| natural(&node.node));
    let classes = fleet::classes(nodes);
    let differences = fleet::differences(&classes);
    let judged = judge::all(&locks, &classes, &registry);
    let answer = Fleet { classes, judged, environment, unanswered, differences };
    match printer.json {
        true => report::json(printer, &answer),
        false => report::text(printer, &answer, &registry),
    }
    Ok(answer.exit())
}

/// A node that did not say what it is.
struct Unanswered {
    node: String,
    why: String,
}

/// What the nodes said.
#[derive(Default)]
struct Found {
    nodes: Vec<(String, SavedHost)>,
    unanswered: Vec<Unanswered>,
    environment: Option<environment::OnNodes>,
}

/// The whole answer.
struct Fleet {
    classes: Vec<Class>,
    /// For each lock, the verdict on each class.
    judged: Vec<judge::OfLock>,
    /// The environment of `--prefix` on the nodes.
    environment: Option<environment::OnNodes>,
    unanswered: Vec<Unanswered>,
    differences: Vec<Difference>,
}

impl Fleet {
    /// 1 where a node cannot run a lock, else 2 where it is not known or a node did not answer.
    fn exit(&self) -> u8 {
        let of_locks = || self.judged.iter().flat_map(|lock| &lock.verdicts).map(|verdict| verdict.verdict);
        let of_environment =
            || self.environment.iter().flat_map(|own| &own.classes).map(|class| class.verdict);
        let verdicts = || of_locks().chain(of_environment());
        if verdicts().any(|verdict| verdict == Verdict::Differs) {
            exit::NO
        } else if !self.unanswered.is_empty() || verdicts().any(|verdict| verdict == Verdict::Unknown) {
            exit::CANNOT_ANSWER
        } else {
            exit::YES
        }
    }
}

/// A lock to judge.
struct Named {
    /// Its path as it is shown.
    shown: String,
    path: PathBuf,
    lock: AnyLock,
}

/// The locks to judge; without a name, the project's own, if there is one.
fn locks(global: &Global, named: &[PathBuf]) -> Result<Vec<Named>, CliError> {
    let mut out = Vec::new();
    for path in named {
        for file in of_folder(path)? {
            let shown = clean(&file.display().to_string(), 200);
            out.push(Named { shown, lock: lock::read_any(&file)?, path: file });
        }
    }
    if named.is_empty() {
        let project = Project::find(global, true)?;
        let own = |lock| Named {
            shown: files::LOCK.to_owned(),
            path: project.lock_path(),
            lock: AnyLock::Own(lock),
        };
        out.extend(lock::read(&project)?.map(own));
    }
    Ok(out)
}

/// A lock, or the locks in a folder: files with the names that tools give them, and `NAME.lock`.
fn of_folder(path: &Path) -> Result<Vec<PathBuf>, CliError> {
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
        return Err(CliError::input(format!("`{}` contains no lock", path.display()))
            .hint("name the files: `--lock FILE` can be repeated"));
    }
    Ok(found)
}
