//! Asks the nodes of a Slurm cluster: `sinfo` says which can answer now, one `srun` runs a program on them.
//!
//! What comes back is text from other machines: labelled by task, limited in size, and parsed by whoever asked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;
use std::time::Duration;

use crate::child::{self, Limits, Silent};
use crate::fleet::expanded;
use crate::model::text::clean;

/// Maximum size of one node's answer and of its errors, in bytes: a broken environment has thousands of findings.
const MAX_ANSWER: usize = 4 << 20;
/// Maximum size of everything that is read, in bytes.
const MAX_OUTPUT: u64 = 256 << 20;
/// How long Slurm may take to start the tasks.
const START: Duration = Duration::from_secs(20);
/// What a task may use of a node's memory, in MiB. Without a number, it asks for what the cluster's default is: often all of
/// it, which a node that is partly used does not have.
const MEMORY: u64 = 512;
/// Variables of these programs change what they ask for: those of a job that this program runs in, or a person's own.
const VARIABLES: [&str; 5] = ["SLURM_", "SRUN_", "SINFO_", "SBATCH_", "SALLOC_"];
/// Those that say where the cluster is.
const CLUSTER: [&str; 3] = ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS"];

/// A node and its state, as Slurm names it: `idle`, `allocated`, `drained`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The state, without the signs that Slurm appends.
    pub state: String,
    /// The partitions that it belongs to and that take jobs.
    pub partitions: Vec<Partition>,
    /// Its memory as Slurm knows it, in MiB: 1 where nobody configured it.
    pub memory: u64,
}

/// A partition that takes jobs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// How long a job may run in it, in minutes; `None` without a limit.
    pub minutes: Option<u64>,
}

impl Node {
    /// Whether a task can start on it now.
    pub fn can_answer(&self) -> bool {
        ["idle", "mixed"].contains(&self.state.as_str()) && !self.partitions.is_empty()
    }
}

/// Maximum number of nodes. The largest clusters have some ten thousand.
const MAX_NODES: usize = 100_000;

/// Why the cluster was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlurmError {
    /// It has more nodes than are asked.
    #[error("the cluster has more than {0} nodes: name a partition or nodes")]
    TooMany(usize),
    /// `sinfo` or `srun` cannot be started.
    #[error("`{0}` cannot be started: is this a machine with Slurm's commands?")]
    NotThere(&'static str),
    /// A command refused; its last line.
    #[error("`{0}` failed: {1}")]
    Refused(&'static str, String),
    /// A command did not end in time.
    #[error("`{0}` did not answer within {1} s")]
    Late(&'static str, u64),
}

/// One node's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// What the program wrote.
    pub text: String,
    /// The last line of its errors, or what Slurm says of its task.
    pub error: Option<String>,
}

/// The nodes of the cluster: of a partition, or these, in Slurm's notation. Those that Slurm does not know have no partition
/// and the state `not known to Slurm`.
///
/// # Errors
/// When `sinfo` cannot be started or refuses.
pub fn nodes(partition: Option<&str>, list: Option<&str>) -> Result<Vec<Node>, SlurmError> {
    let mut command = Command::new("sinfo");
    command.args(["--noheader", "--Node", "--format=%N|%T|%R|%a|%l|%m"]);
    command.args(partition.map(|name| format!("--partition={name}")));
    command.args(list.map(|list| format!("--nodes={list}")));
    let (ok, out, errors) = run("sinfo", command, START)?;
    if !ok {
        return Err(SlurmError::Refused("sinfo", last_line(&errors)));
    }
    let mut found = states(&out);
    let known: BTreeSet<String> = found.iter().map(|node| node.name.clone()).collect();
    for name in list.and_then(expanded).unwrap_or_default() {
        if !known.contains(&name) {
            let state = match partition {
                Some(partition) => format!("not known to Slurm in partition {}", clean(partition, 60)),
                None => "not known to Slurm".to_owned(),
            };
            found.push(Node { name, state, partitions: Vec::new(), memory: 0 });
        }
    }
    if found.len() > MAX_NODES {
        return Err(SlurmError::TooMany(MAX_NODES));
    }
    Ok(found)
}

/// Parses `sinfo`'s lines; a node of several partitions is in several.
fn states(text: &str) -> Vec<Node> {
    let mut out: Vec<Node> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.trim().split('|').collect();
        let field = |at: usize| parts.get(at).copied().unwrap_or_default();
        let (name, state, partition) = (field(0), field(1), field(2));
        if state.is_empty() {
            continue;
        }
        let state = state.trim_end_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
        if !is_name(name) {
            continue;
        }
        let at = *places.entry(name).or_insert_with(|| {
            let memory = field(5).trim_end_matches('+').parse().unwrap_or(0);
            out.push(Node { name: name.to_owned(), state, partitions: Vec::new(), memory });
            out.len() - 1
        });
        if ["", "up"].contains(&field(3)) {
            out[at].partitions.push(Partition { name: partition.to_owned(), minutes: minutes(field(4)) });
        }
    }
    for node in &mut out {
        if node.partitions.is_empty() {
            node.state = format!("{}, in no partition that takes jobs", node.state);
        }
    }
    out
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// A time limit as `sinfo` writes it, `days-hours:minutes:seconds`, in whole minutes; `None` for `infinite`.
fn minutes(text: &str) -> Option<u64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut parts: Vec<u64> = rest.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    // The seconds are the last.
    let _ = parts.pop();
    let (minutes, hours) = (parts.pop().unwrap_or(0), parts.pop().unwrap_or(0));
    Some(days.parse::<u64>().ok()?.checked_mul(1_440)? + hours * 60 + minutes)
}

/// What is run on nodes: a program, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct Task<'t> {
    /// The program and its arguments.
    pub program: &'t [&'t str],
    /// A node that does not end within this time after the first has no answer.
    pub limit: Duration,
}

/// Runs a task on each of these nodes once, and returns the answers by node. `list` is their names in Slurm's notation; all
/// belong to `partition`.
///
/// # Errors
/// When `srun` cannot be started, gets no nodes, or does not end and nothing was answered.
pub fn ask(
    list: &str,
    nodes: &[&Node],
    partition: &Partition,
    task: Task<'_>,
) -> Result<BTreeMap<String, Reply>, SlurmError> {
    /// Names the node before its answer: tasks answer in any order, and hosts may share a name.
    const SCRIPT: &str = r##"echo "# node ${SLURMD_NODENAME:-$(hostname)}"; exec "$@""##;
    let Task { program, limit } = task;
    let seconds = limit.as_secs().max(1);
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let count = names.len();
    let mut command = Command::new("srun");
    command.args([
        "--label",
        "--quiet",
        "--job-name=envlock-fleet",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
    ]);
    if nodes.iter().all(|node| node.memory > 2 * MEMORY) {
        command.arg(format!("--mem={MEMORY}M"));
    }
    command.args(["--kill-on-bad-exit=0", "--input=none"]);
    // Slurm ends what is left of it, if this program is killed.
    let minutes = (START + limit * 2).as_secs() / 60 + 1;
    command.arg(format!("--time={}", minutes.min(partition.minutes.unwrap_or(minutes).max(1))));
    command.arg(format!("--immediate={}", START.as_secs())).arg(format!("--wait={seconds}"));
    command
        .arg(format!("--nodes={count}"))
        .arg(format!("--ntasks={count}"))
        .arg(format!("--nodelist={list}"));
    if !partition.name.is_empty() {
        command.arg(format!("--partition={}", partition.name));
    }
    command.args(["sh", "-c", SCRIPT, "envlock-fleet"]).args(program);
    let time = START + limit * 2 + Duration::from_secs(10);
    let ended = answer("srun", command, time)?;
    let (Ended::InTime(said) | Ended::Late(said)) = &ended;
    let errors = said.error_text();
    let answers = answers(&said.text(), &errors, &names);
    // A task that fails makes srun fail; without any answer, it is srun that refused.
    match ended {
        _ if !answers.is_empty() => Ok(answers),
        Ended::Late(_) => Err(SlurmError::Late("srun", time.as_secs())),
        Ended::InTime(said) if !said.is_success => Err(SlurmError::Refused("srun", last_line(&errors))),
        Ended::InTime(_) => Ok(answers),
    }
}

/// Collects labelled lines, `12: text`, by the node that the first line of each task names. Of two tasks that name one node,
/// neither is believed.
fn answers(out: &str, errors: &str, names: &[String]) -> BTreeMap<String, Reply> {
    let labelled = |line: &str| -> Option<(u64, String)> {
        let (task, text) = line.split_once(':')?;
        Some((task.trim().parse().ok()?, text.strip_prefix(' ').unwrap_or(text).to_owned()))
    };
    let mut by_task: BTreeMap<u64, (Option<String>, Reply)> = BTreeMap::new();
    for (task, text) in out.lines().filter_map(labelled) {
        let (node, answer) = by_task.entry(task).or_default();
        match (&node, text.strip_prefix("# node ")) {
            (None, Some(name)) => *node = Some(clean(name.trim(), 100)),
            _ if answer.text.len() + text.len() < MAX_ANSWER => {
                answer.text.push_str(&text);
                answer.text.push('\n');
            }
            _ => answer.error = Some(format!("its answer is longer than {} MiB", MAX_ANSWER >> 20)),
        }
    }
    for (task, text) in errors.lines().filter_map(labelled) {
        if let Some((_, answer)) = by_task.get_mut(&task) {
            answer.error = Some(clean(&text, 160));
        }
    }
    let mut by_node: BTreeMap<String, Reply> = BTreeMap::new();
    let mut twice: Vec<String> = Vec::new();
    for (node, answer) in by_task.into_values() {
        let Some(node) = node else { continue };
        let node = asked(node, names);
        if by_node.insert(node.clone(), answer).is_some() {
            twice.push(node);
        }
    }
    for node in twice {
        let error = Some("two nodes answered by this name".to_owned());
        by_node.insert(node, Reply { text: String::new(), error });
    }
    // What srun itself says of a node whose program said nothing.
    for line in errors.lines().filter(|line| line.starts_with("srun: ") || line.starts_with("slurmstepd: ")) {
        let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
        let Some(node) = words.into_iter().find(|word| names.iter().any(|name| name == word)) else {
            continue;
        };
        let known = by_node.entry(node.to_owned()).or_default();
        if known.text.is_empty() && known.error.is_none() {
            known.error = Some(last_line(line));
        }
    }
    by_node
}

/// The node that was asked, where it answered by its full name.
fn asked(node: String, names: &[String]) -> String {
    let short = node.split('.').next().unwrap_or_default();
    match names.iter().find(|name| *name == short).filter(|_| !names.contains(&node)) {
        Some(name) => name.clone(),
        None => node,
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    clean(line.trim().trim_start_matches("srun: ").trim_start_matches("error: "), 160)
}

/// Runs a command to its end. Returns whether it succeeded, its output and its errors.
fn run(name: &'static str, command: Command, limit: Duration) -> Result<(bool, String, String), SlurmError> {
    match answer(name, command, limit)? {
        Ended::InTime(answer) => Ok((answer.is_success, answer.text(), answer.error_text())),
        Ended::Late(_) => Err(SlurmError::Late(name, limit.as_secs())),
    }
}

/// How a command ended, with what it wrote.
enum Ended {
    InTime(child::Output),
    Late(child::Output),
}

/// Runs a command to its end, or to the limit.
fn answer(name: &'static str, mut command: Command, limit: Duration) -> Result<Ended, SlurmError> {
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if VARIABLES.iter().any(|start| text.starts_with(start)) && !CLUSTER.contains(&text.as_ref()) {
            command.env_remove(&variable);
        }
    }
    let limits = Limits { time: limit, out: MAX_OUTPUT, errors: MAX_OUTPUT };
    match child::answer(command, limits) {
        Ok(answer) => Ok(Ended::InTime(answer)),
        Err(Silent::Late(answer)) => Ok(Ended::Late(answer)),
        Err(Silent::NotStarted(_)) => Err(SlurmError::NotThere(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_nodes() {
        let found = states(
            "n1|idle|a|up|infinite\nn2|mixed|a|up|1:00\nn1|idle|b|up|2-03:04:05\nn3|allocated|a|up|x\nn4|idle*|a|up|5\n\
             n5|drained|a|up|1:00:00\n|idle|a|up|1\nn 6|idle|a|up|1\nbad\nn7|idle|c|down|1\n",
        );
        let shown: Vec<String> =
            found.iter().map(|node| format!("{} {} {}", node.name, node.state, node.can_answer())).collect();
        assert_eq!(
            shown,
            [
                "n1 idle true",
                "n2 mixed true",
                "n3 allocated false",
                "n4 idle true",
                "n5 drained false",
                "n7 idle, in no partition that takes jobs false"
            ]
        );
        let limits: Vec<Option<u64>> =
            found[0].partitions.iter().map(|partition| partition.minutes).collect();
        assert_eq!(limits, [None, Some(2 * 1_440 + 3 * 60 + 4)]);
        assert_eq!(found[1].partitions[0].minutes, Some(1));
        assert_eq!(found[4].partitions[0].minutes, Some(60));
    }

    #[test]
    fn lines_belong_to_the_node_that_their_task_names() {
        let out = "1: # node n2\n0: # node n1\n0: schema = 1\n1: schema = 1\n 0: [driver]\nnoise\n2: lost\n";
        let asked = ["n1", "n2", "n3", "n4"].map(str::to_owned);
        let errors = "1: sh: envlock: not found\nsrun: error: n2: task 1: Exited\n\
            srun: error: Task launch for StepId=7.0 failed on node n3: Communication connection failure\nn4: no line of srun\n";
        let found = answers(out, errors, &asked);
        let names: Vec<&String> = found.keys().collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        let said = "Task launch for StepId=7.0 failed on node n3: Communication connection failure";
        assert_eq!(found["n3"].error.as_deref(), Some(said));
        assert_eq!(answers("0: # node n1.cluster.local\n0: a\n", "", &asked)["n1"].text, "a\n");
        assert_eq!(found["n1"].text, "schema = 1\n[driver]\n");
        assert_eq!(found["n2"].error.as_deref(), Some("sh: envlock: not found"));
        let twice = answers("0: # node n1\n0: a\n1: # node n1\n1: b\n", "", &asked);
        assert_eq!(
            twice["n1"],
            Reply { text: String::new(), error: Some("two nodes answered by this name".into()) }
        );
        assert_eq!(answers("", "", &asked), BTreeMap::new());
    }

    #[test]
    fn a_million_lines_take_no_quadratic_time() {
        let text: String = (0..300_000).map(|n| format!("n{n}|idle|p|1:00|100\n")).collect();
        let start = std::time::Instant::now();
        assert_eq!(states(&text).len(), 300_000);
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
