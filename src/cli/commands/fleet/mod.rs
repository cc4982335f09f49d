//! `envlock fleet`: which nodes can run which locks, equal nodes folded.

mod judge;
mod report;

use std::path::Path;
use std::time::Duration;

use crate::cli::args::{FleetArgs, FleetCommand, FleetHostsArgs, FleetSlurmArgs, GlobalArgs};
use crate::cli::error::CliError;
use crate::cli::lock::{self, AnyLock};
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::{exit, files, host};
use crate::fleet::{self, Class, Difference, natural};
use crate::model::saved_host::SavedHost;
use crate::model::text::clean;
use crate::probe::host_file;
use crate::slurm;
use crate::verify::Verdict;

pub(super) fn run(global: &GlobalArgs, args: &FleetArgs, printer: &Printer) -> Result<u8, CliError> {
    let registry = settings::registry(global)?;
    let locks = locks(global, args.command.locks())?;
    let found = match &args.command {
        FleetCommand::Hosts(args) => hosts(args)?,
        FleetCommand::Slurm(args) => of_slurm(args, printer)?,
    };
    let mut unanswered = found.unanswered;
    let mut nodes: Vec<(String, SavedHost)> = Vec::new();
    for (name, described) in found.nodes {
        match host::without(described.host, &[], &registry) {
            Ok(host) => nodes.push((name, SavedHost { host, ..described })),
            Err(error) => unanswered.push(Unanswered { node: name, why: error.message }),
        }
    }
    unanswered.sort_by_cached_key(|node| natural(&node.node));
    let classes = fleet::classes(nodes);
    let differences = fleet::differences(&classes);
    let judged = judge::all(&locks, &classes, &registry);
    let answer = Fleet { classes, judged, unanswered, differences };
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
}

/// The whole answer.
struct Fleet {
    classes: Vec<Class>,
    /// For each lock, the verdict on each class.
    judged: Vec<judge::OfLock>,
    unanswered: Vec<Unanswered>,
    differences: Vec<Difference>,
}

impl Fleet {
    /// 1 where a node cannot run a lock, else 2 where it is not known or a node did not answer.
    fn exit(&self) -> u8 {
        let verdicts = || self.judged.iter().flat_map(|lock| &lock.verdicts).map(|verdict| verdict.verdict);
        if verdicts().any(|verdict| verdict == Verdict::Differs) {
            exit::NO
        } else if !self.unanswered.is_empty() || verdicts().any(|verdict| verdict == Verdict::Unknown) {
            exit::CANNOT_ANSWER
        } else {
            exit::YES
        }
    }
}

/// The locks to judge by their names; without a name, the project's own, if there is one.
fn locks(global: &GlobalArgs, named: &[std::path::PathBuf]) -> Result<Vec<(String, AnyLock)>, CliError> {
    let mut out = Vec::new();
    for path in named {
        for file in of_folder(path)? {
            out.push((clean(&file.display().to_string(), 200), lock::read_any(&file)?));
        }
    }
    if named.is_empty() {
        let project = Project::find(global, true)?;
        out.extend(lock::read(&project)?.map(|lock| (files::LOCK.to_owned(), AnyLock::Own(lock))));
    }
    Ok(out)
}

/// A lock, or the locks in a folder: files with the names that tools give them, and `NAME.lock`.
fn of_folder(path: &Path) -> Result<Vec<std::path::PathBuf>, CliError> {
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

/// The nodes that the host files of a folder describe.
fn hosts(args: &FleetHostsArgs) -> Result<Found, CliError> {
    let mut found = Found::default();
    for entry in fs_err::read_dir(&args.folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let node = clean(&path.file_stem().unwrap_or_default().to_string_lossy(), 100);
        match host::read_saved_host(&path) {
            Ok(host) => found.nodes.push((node, host)),
            Err(error) => found.unanswered.push(Unanswered { node, why: error.message }),
        }
    }
    if found.nodes.is_empty() && found.unanswered.is_empty() {
        return Err(CliError::input(format!("`{}` contains no host files", args.folder.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`"));
    }
    Ok(found)
}

/// Asks the nodes of a Slurm cluster that can answer now.
fn of_slurm(args: &FleetSlurmArgs, printer: &Printer) -> Result<Found, CliError> {
    let failed = |error: slurm::SlurmError| CliError::host(error.to_string());
    let (partition, list) = (args.partition.as_deref(), args.nodes.as_deref());
    let all = slurm::nodes(partition, list).map_err(failed)?;
    if all.is_empty() {
        return Err(CliError::host("Slurm knows no such nodes".to_owned()).hint("`sinfo -N` lists them"));
    }
    let (ready, busy): (Vec<_>, Vec<_>) = all.into_iter().partition(slurm::Node::can_answer);
    let not_asked = |node: slurm::Node| Unanswered {
        node: node.name,
        why: format!("not asked: {}", clean(&node.state, 40)),
    };
    let mut found = Found { unanswered: busy.into_iter().map(not_asked).collect(), ..Found::default() };
    if ready.is_empty() {
        return Ok(found);
    }
    let names: Vec<String> = ready.into_iter().map(|node| node.name).collect();
    let program = std::env::current_exe()?;
    let program = args.program.as_deref().unwrap_or(&program).to_string_lossy().into_owned();
    let folded = fleet::node_list(&names);
    let (count, plural) = (names.len(), if names.len() == 1 { "" } else { "s" });
    printer.note(&format!("asking {count} node{plural}: {folded}"));
    let limit = Duration::from_secs(args.timeout);
    let mut command = vec![program.as_str(), "probe", "--save", "-"];
    let prefix = args.prefix.as_ref().map(|prefix| prefix.to_string_lossy().into_owned());
    if let Some(prefix) = &prefix {
        command.extend(["--prefix", prefix]);
    }
    let mut answers = slurm::ask(&folded, names.len(), partition, &command, limit).map_err(failed)?;
    for name in names {
        let Some(answer) = answers.remove(&name) else {
            let why = format!("no answer within {} s", args.timeout);
            found.unanswered.push(Unanswered { node: name, why });
            continue;
        };
        match host_file::parse_saved(&answer.text, &name) {
            Ok(host) => found.nodes.push((name, host)),
            Err(error) => {
                let why =
                    answer.error.unwrap_or_else(|| clean(error.lines().next_back().unwrap_or_default(), 160));
                found.unanswered.push(Unanswered { node: name, why });
            }
        }
    }
    Ok(found)
}
