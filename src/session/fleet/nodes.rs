//! What the nodes are: from host files, or from the nodes of a Slurm cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Found, Named, Slurm, Unanswered, environment};
use crate::fleet;
use crate::model::count::Count;
use crate::model::text::clean;
use crate::probe::host_file;
use crate::session::Interface;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::session::threads::in_threads;
use crate::slurm::{self, Reply, SlurmError};

/// The nodes that the host files of a folder describe.
pub(crate) fn of_folder(folder: &Path) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    let read = in_threads(&paths, &|path| chosen_host::read_saved_host(path));
    for (path, read) in paths.iter().zip(read) {
        let node = clean(&path.file_stem().unwrap_or_default().to_string_lossy(), 100);
        match read {
            Ok(host) => found.nodes.push((node, host)),
            Err(error) => found.unanswered.push(Unanswered { node, why: error.message }),
        }
    }
    if found.nodes.is_empty() && found.unanswered.is_empty() {
        return Err(Failure::input(format!("`{}` contains no host files", folder.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`"));
    }
    Ok(found)
}

/// Asks the nodes of a Slurm cluster that can answer now.
pub(crate) fn of_slurm(args: &Slurm, locks: &[&Named], interface: &dyn Interface) -> Result<Found, Failure> {
    let failed = |error: SlurmError| Failure::host(error.to_string());
    let (partition, list) = (args.partition.as_deref(), args.nodes.as_deref());
    let all = slurm::nodes(partition, list).map_err(failed)?;
    if all.is_empty() {
        return Err(Failure::host("Slurm knows no such nodes".to_owned()).hint("`sinfo -N` lists them"));
    }
    let (ready, busy): (Vec<_>, Vec<_>) = all.into_iter().partition(slurm::Node::can_answer);
    let not_asked = |node: slurm::Node| Unanswered {
        node: node.name,
        why: format!("not asked: {}", clean(&node.state, 100)),
    };
    let mut found = Found { unanswered: busy.into_iter().map(not_asked).collect(), ..Found::default() };
    if ready.is_empty() {
        return Ok(found);
    }
    let program = std::env::current_exe()?;
    let program = args.program.as_deref().unwrap_or(&program).to_string_lossy().into_owned();
    let names: Vec<String> = ready.iter().map(|node| node.name.clone()).collect();
    interface.note(&format!("asking {}: {}", Count(names.len()).of("node"), fleet::node_list(&names)));
    let cluster = Cluster { nodes: &ready, limit: Duration::from_secs(args.timeout) };
    // The same folder on every node, wherever the job starts.
    let prefix = args.prefix.as_ref().map(std::path::absolute).transpose()?;
    let prefix = prefix.map(|prefix| prefix.to_string_lossy().into_owned());
    let mut command = vec![program.clone(), "probe".to_owned(), "--save".to_owned(), "-".to_owned()];
    if let Some(prefix) = &prefix {
        command.extend(["--prefix".to_owned(), prefix.clone()]);
    }
    let mut answers = cluster.ask(&command).map_err(failed)?;
    if let Some(prefix) = prefix {
        let answers = cluster.ask(&environment::question(&program, &prefix, locks)?).map_err(failed)?;
        found.environment = Some(environment::fold(prefix, &names, answers));
    }
    for name in names {
        let answer = answers.remove(&name).unwrap_or_else(Cluster::silence);
        match host_file::parse_saved(&answer.text, &name) {
            Ok(host) => found.nodes.push((name, host)),
            Err(_) if answer.text.trim().is_empty() && answer.error.is_none() => {
                let why = "the program ended without an answer".to_owned();
                found.unanswered.push(Unanswered { node: name, why });
            }
            Err(error) => {
                let why = answer.error.unwrap_or_else(|| clean(&error, 160));
                found.unanswered.push(Unanswered { node: name, why });
            }
        }
    }
    Ok(found)
}

/// The nodes that are asked. One `srun` takes the nodes of one partition.
struct Cluster<'n> {
    nodes: &'n [slurm::Node],
    limit: Duration,
}

impl Cluster<'_> {
    /// Maximum number of times that `srun` is started for one question, besides once for each partition.
    const MAX_AGAIN: usize = 6;

    /// Runs a command on each node. Nodes that Slurm refuses in one partition are asked in the next that they belong to, and
    /// then in halves, so that one node does not hide the others. What is refused in the end has the reason as its error.
    ///
    /// # Errors
    /// When `srun` cannot be started, or refuses all nodes.
    fn ask(&self, command: &[String]) -> Result<BTreeMap<String, Reply>, SlurmError> {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let task = slurm::Task { program: &command, limit: self.limit };
        let mut all = BTreeMap::new();
        let mut refused = None;
        let mut again = 0;
        let mut queue: Vec<(usize, Vec<&slurm::Node>)> =
            by_partition(0, &self.nodes.iter().collect::<Vec<_>>());
        while let Some((place, nodes)) = queue.pop() {
            let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
            let partition = &nodes[0].partitions[place];
            match slurm::ask(&fleet::node_list(&names), &nodes, partition, task) {
                Ok(answers) => all.extend(answers),
                Err(error @ SlurmError::NotThere(_)) => return Err(error),
                // Its nodes have no answer.
                Err(SlurmError::Late(..)) => {}
                Err(error) => {
                    let (others, rest): (Vec<_>, Vec<_>) =
                        nodes.iter().partition(|node| node.partitions.len() > place + 1);
                    if !others.is_empty() && again < Self::MAX_AGAIN {
                        again += 1;
                        queue.extend(by_partition(place + 1, &others));
                        if !rest.is_empty() {
                            queue.push((place, rest));
                        }
                        continue;
                    }
                    if nodes.len() > 1 && again + 2 <= Self::MAX_AGAIN {
                        again += 2;
                        let (first, second) = nodes.split_at(nodes.len() / 2);
                        queue.extend([(place, first.to_vec()), (place, second.to_vec())]);
                        continue;
                    }
                    let answer = Reply { text: String::new(), error: Some(error.to_string()) };
                    all.extend(names.iter().map(|name| (name.clone(), answer.clone())));
                    refused = Some((refused.map_or(0, |(count, _)| count) + names.len(), error));
                }
            }
        }
        match refused {
            Some((count, error)) if count == self.nodes.len() => Err(error),
            _ => Ok(all),
        }
    }

    /// The answer of a node that gave none.
    fn silence() -> Reply {
        Reply { text: String::new(), error: Some(environment::NO_ANSWER.to_owned()) }
    }
}

/// Nodes by their partition of this place.
fn by_partition<'n>(place: usize, nodes: &[&'n slurm::Node]) -> Vec<(usize, Vec<&'n slurm::Node>)> {
    let mut found: BTreeMap<&slurm::Partition, Vec<&slurm::Node>> = BTreeMap::new();
    for node in nodes {
        found.entry(&node.partitions[place]).or_default().push(node);
    }
    found.into_values().map(|nodes| (place, nodes)).collect()
}
