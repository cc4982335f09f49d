//! A lock on described machines: `verify --host FILE`, and of a folder each.

use std::path::{Path, PathBuf};

use super::on_machine::{Candidates, OnMachine, on_machine};
use crate::model::finding::Finding;
use crate::model::text::clean;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::verify::findings::{self, NotJudged};
use crate::verify::{self, Area, AreaKind, Facts, Verdict};

/// A machine that a host file describes, and what was found.
pub(crate) struct Node {
    pub file: PathBuf,
    /// The path of its file, for people.
    pub name: String,
    /// The name of its file without the extension.
    pub stem: String,
    pub areas: Vec<Area>,
    pub verdict: Verdict,
    /// Whether its file could be read.
    pub is_read: bool,
}

impl Node {
    /// Everything that was found.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.areas.iter().flat_map(|area| &area.findings)
    }

    /// The verdict in one line.
    pub fn line(&self) -> String {
        verify::line(self.verdict, &self.areas)
    }
}

/// The verdict on several machines: an error on one decides, then a fact that is missing.
pub(crate) fn verdict(nodes: &[Node]) -> Verdict {
    let any = |verdict: Verdict| nodes.iter().any(|node| node.verdict == verdict);
    match () {
        () if any(Verdict::Differs) => Verdict::Differs,
        () if any(Verdict::Unknown) => Verdict::Unknown,
        () => Verdict::Ok,
    }
}

/// Whether what is locked runs on the machines of a host file, or of those in a folder.
///
/// # Errors
/// When the only file cannot be read, or there is none.
pub(super) fn judge(
    path: &Path,
    candidates: &Candidates<'_>,
    ignored: &[String],
    base: &Facts<'_>,
) -> Result<Vec<Node>, Failure> {
    let paths = host_files(path)?;
    let one = |file: &PathBuf| {
        let described = chosen_host::read_host_file(file)
            .and_then(|host| chosen_host::without(host, ignored, base.registry));
        let (OnMachine { areas, verdict, .. }, is_read) = match described {
            Ok(machine) => (on_machine(&machine, candidates, base), true),
            // One file that cannot be read must not hide the verdicts on the others.
            Err(error) if paths.len() == 1 => return Err(error),
            Err(error) => {
                let unread = findings::not_judged(NotJudged::HostFile(error.message), true);
                let areas = vec![Area { findings: vec![unread], ..Area::of(AreaKind::Host) }];
                (OnMachine { areas, verdict: Verdict::Unknown, path: None }, false)
            }
        };
        Ok(Node {
            file: file.clone(),
            name: clean(&file.display().to_string(), 200),
            stem: clean(&file.file_stem().unwrap_or_default().to_string_lossy(), 100),
            areas,
            verdict,
            is_read,
        })
    };
    paths.iter().map(one).collect()
}

/// The host file, or those in a folder.
fn host_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|e| e == "toml") {
            paths.push(file);
        }
    }
    paths.sort();
    match paths.is_empty() {
        true => Err(Failure::input(format!("`{}` contains no host files", path.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`")),
        false => Ok(paths),
    }
}
