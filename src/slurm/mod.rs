//! Asks the nodes of a Slurm cluster: `sinfo` says which can answer now, one `srun` runs a program on them.
//!
//! What comes back is text from other machines: labelled by task, limited in size, and parsed by whoever asked.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use crate::child::{self, Limits, Silent};
use crate::model::text::clean;

/// Maximum size of one node's answer and of its errors, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Maximum size of everything that is read, in bytes.
const MAX_OUTPUT: u64 = 64 << 20;
/// How long Slurm may take to start the tasks.
const START: Duration = Duration::from_secs(20);

/// A node and its state, as Slurm names it: `idle`, `allocated`, `drained`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The state, without the signs that Slurm appends.
    pub state: String,
    /// A partition that it belongs to.
    pub partition: String,
}

impl Node {
    /// Whether a task can start on it now.
    pub fn can_answer(&self) -> bool {
        self.state == "idle" || self.state == "mixed"
    }
}

/// Why the cluster was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlurmError {
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
pub struct Answer {
    /// What the program wrote.
    pub text: String,
    /// The last line of its errors.
    pub error: Option<String>,
}

/// The nodes of the cluster: of a partition, or these, in Slurm's notation.
///
/// # Errors
/// When `sinfo` cannot be started or refuses.
pub fn nodes(partition: Option<&str>, list: Option<&str>) -> Result<Vec<Node>, SlurmError> {
    let mut command = Command::new("sinfo");
    command.args(["--noheader", "--Node", "--format=%N|%T|%R"]);
    command.args(partition.map(|name| format!("--partition={name}")));
    command.args(list.map(|list| format!("--nodes={list}")));
    let (ok, out, errors) = run("sinfo", command, START)?;
    if !ok {
        return Err(SlurmError::Refused("sinfo", last_line(&errors)));
    }
    Ok(states(&out))
}

/// Parses `sinfo`'s lines; a node of several partitions is in several.
fn states(text: &str) -> Vec<Node> {
    let mut out: Vec<Node> = Vec::new();
    for line in text.lines() {
        let mut parts = line.trim().splitn(3, '|');
        let (Some(name), Some(state), partition) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let state = state.trim_end_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
        if is_name && !out.iter().any(|known| known.name == name) {
            let partition = partition.unwrap_or_default().to_owned();
            out.push(Node { name: name.to_owned(), state, partition });
        }
    }
    out
}

/// Runs a program on each of these nodes of one partition once, and returns the answers by node. `nodes` is in Slurm's
/// notation, `count` its number. A node that does not end within `limit` after the first has no answer.
///
/// # Errors
/// When `srun` cannot be started, gets no nodes, or does not end.
pub fn ask(
    nodes: &str,
    count: usize,
    partition: Option<&str>,
    program: &[&str],
    limit: Duration,
) -> Result<BTreeMap<String, Answer>, SlurmError> {
    /// Names the node before its answer: tasks answer in any order, and hosts may share a name.
    const SCRIPT: &str = r##"echo "# node ${SLURMD_NODENAME:-$(hostname)}"; exec "$@""##;
    let seconds = limit.as_secs().max(1);
    let mut command = Command::new("srun");
    command.args([
        "--label",
        "--quiet",
        "--job-name=envlock-fleet",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
    ]);
    command.args(["--kill-on-bad-exit=0", "--input=none"]);
    // Slurm ends what is left of it, if this program is killed.
    command.arg(format!("--time={}", (START + limit * 2).as_secs() / 60 + 1));
    command.arg(format!("--immediate={}", START.as_secs())).arg(format!("--wait={seconds}"));
    command
        .arg(format!("--nodes={count}"))
        .arg(format!("--ntasks={count}"))
        .arg(format!("--nodelist={nodes}"));
    command.args(partition.map(|name| format!("--partition={name}")));
    command.args(["sh", "-c", SCRIPT, "envlock-fleet"]).args(program);
    let (ok, out, errors) = run("srun", command, START + limit * 2 + Duration::from_secs(10))?;
    let answers = answers(&out, &errors);
    // A task that fails makes srun fail; without any answer, it is srun that refused.
    if answers.is_empty() && !ok {
        return Err(SlurmError::Refused("srun", last_line(&errors)));
    }
    Ok(answers)
}

/// Collects labelled lines, `12: text`, by the node that the first line of each task names. Of two tasks that name one node,
/// neither is believed.
fn answers(out: &str, errors: &str) -> BTreeMap<String, Answer> {
    let labelled = |line: &str| -> Option<(u64, String)> {
        let (task, text) = line.split_once(':')?;
        Some((task.trim().parse().ok()?, text.strip_prefix(' ').unwrap_or(text).to_owned()))
    };
    let mut by_task: BTreeMap<u64, (Option<String>, Answer)> = BTreeMap::new();
    for (task, text) in out.lines().filter_map(labelled) {
        let (node, answer) = by_task.entry(task).or_default();
        match (&node, text.strip_prefix("# node ")) {
            (None, Some(name)) => *node = Some(clean(name.trim(), 100)),
            _ if answer.text.len() + text.len() < MAX_ANSWER => {
                answer.text.push_str(&text);
                answer.text.push('\n');
            }
            _ => {}
        }
    }
    for (task, text) in errors.lines().filter_map(labelled) {
        if let Some((_, answer)) = by_task.get_mut(&task) {
            answer.error = Some(clean(&text, 160));
        }
    }
    let mut by_node: BTreeMap<String, Answer> = BTreeMap::new();
    let mut twice: Vec<String> = Vec::new();
    for (node, answer) in by_task.into_values() {
        let Some(node) = node else { continue };
        if by_node.insert(node.clone(), answer).is_some() {
            twice.push(node);
        }
    }
    for node in twice {
        let error = Some("two nodes answered by this name".to_owned());
        by_node.insert(node, Answer { text: String::new(), error });
    }
    by_node
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    clean(line.trim().trim_start_matches("srun: ").trim_start_matches("error: "), 160)
}

/// Runs a command to its end, or to the limit. Returns whether it succeeded, its output and its errors.
fn run(name: &'static str, command: Command, limit: Duration) -> Result<(bool, String, String), SlurmError> {
    let limits = Limits { time: limit, out: MAX_OUTPUT, errors: MAX_OUTPUT };
    let answer = child::answer(command, limits).map_err(|silent| match silent {
        Silent::NotStarted(_) => SlurmError::NotThere(name),
        Silent::Late => SlurmError::Late(name, limit.as_secs()),
    })?;
    Ok((answer.is_success, answer.text(), answer.error_text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_nodes() {
        let found =
            states("n1|idle\nn2|mixed\nn1|idle\nn3|allocated\nn4|idle*\nn5|drained\n|idle\nn 6|idle\nbad\n");
        let shown: Vec<String> =
            found.iter().map(|node| format!("{} {} {}", node.name, node.state, node.can_answer())).collect();
        assert_eq!(
            shown,
            ["n1 idle true", "n2 mixed true", "n3 allocated false", "n4 idle true", "n5 drained false"]
        );
    }

    #[test]
    fn lines_belong_to_the_node_that_their_task_names() {
        let out = "1: # node n2\n0: # node n1\n0: schema = 1\n1: schema = 1\n 0: [driver]\nnoise\n2: lost\n";
        let found = answers(out, "1: sh: envlock: not found\nsrun: error: n2: task 1: Exited\n");
        let names: Vec<&String> = found.keys().collect();
        assert_eq!(names, ["n1", "n2"]);
        assert_eq!(found["n1"].text, "schema = 1\n[driver]\n");
        assert_eq!(found["n2"].error.as_deref(), Some("sh: envlock: not found"));
        let twice = answers("0: # node n1\n0: a\n1: # node n1\n1: b\n", "");
        assert_eq!(
            twice["n1"],
            Answer { text: String::new(), error: Some("two nodes answered by this name".into()) }
        );
        assert_eq!(answers("", ""), BTreeMap::new());
    }
}
