//! The envelope of a target as a constraint of a scheduler.
//!
//! [`Machines`] is the set of GPU machines that run a target: sets of compute capabilities with the drivers that serve them.
//! Each scheduler publishes some of these facts. Its exporter is exact on them; machines that differ in other facts only are one
//! class, and a class of which only some members run the target is admitted on demand alone (`--admit-undecided`).

mod htcondor;
mod kubernetes;
mod slurm;

use std::collections::BTreeMap;

use crate::model::capability::ComputeCapability;
use crate::model::platform::Platform;
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;

pub use htcondor::{Stated, htcondor};
pub use kubernetes::{Cluster, NodesBy, kubernetes};
pub use slurm::{KindVerdict, NodesOfKind, slurm};

/// The start of every Kubernetes manifest that envlock writes.
pub const KUBERNETES_MARK: &str = "# Written by envlock as kubernetes";

/// The start of every submit description that envlock writes.
pub const HTCONDOR_MARK: &str = "# Written by envlock as htcondor";

/// The second line of every batch script that envlock writes, below the line that names the shell.
pub const SLURM_MARK: &str = "#!/bin/bash\n# Written by envlock as slurm";

/// The machines that run a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Machines {
    /// Operating system and processor.
    pub platform: Platform,
    /// The lowest glibc, if a wheel needs one.
    pub glibc: Option<DottedVersion>,
    /// GPUs and the drivers that serve them. No capability is in two of them.
    pub spans: Vec<Span>,
    /// Whether the data say for which GPUs the code is: else `spans` has one span for any GPU.
    pub code_is_known: bool,
}

/// GPUs that the same drivers serve.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The compute capabilities, in ascending order. Empty: any.
    pub capabilities: Vec<ComputeCapability>,
    /// The lowest driver.
    pub from: Option<DottedVersion>,
    /// The first branch that no longer serves them.
    pub below: Option<DottedVersion>,
}

impl Machines {
    /// The machines that an envelope admits. `code_is_known`: whether it lists all GPUs that the code is for.
    pub fn of(envelope: &Envelope, code_is_known: bool) -> Machines {
        let mut spans: Vec<Span> = Vec::new();
        for row in envelope.coverage.iter().filter(|_| code_is_known) {
            let is_same = |span: &&mut Span| span.from == row.driver_min && span.below == row.driver_below;
            match spans.iter_mut().find(is_same) {
                Some(span) => span.capabilities.push(row.compute_capability),
                None => spans.push(Span {
                    capabilities: vec![row.compute_capability],
                    from: row.driver_min.clone(),
                    below: row.driver_below.clone(),
                }),
            }
        }
        for span in &mut spans {
            span.capabilities.sort_unstable();
            span.capabilities.dedup();
        }
        if !code_is_known {
            spans.push(Span { capabilities: Vec::new(), from: envelope.driver.clone(), below: None });
        }
        Machines { platform: envelope.platform, glibc: envelope.glibc.clone(), spans, code_is_known }
    }

    /// What they are, a line for each set of GPUs: `compute capability 8.0, 8.6: driver >= 525.60.13`.
    pub fn lines(&self) -> Vec<String> {
        self.spans.iter().map(Span::line).collect()
    }
}

impl Span {
    fn line(&self) -> String {
        let gpus = match self.capabilities.is_empty() {
            true => "any GPU".to_owned(),
            false => format!("compute capability {}", list(&self.capabilities)),
        };
        let from = self.from.iter().map(|from| format!("driver >= {from}"));
        let below = self.below.iter().map(|below| format!("driver < {below}"));
        let drivers: Vec<String> = from.chain(below).collect();
        match drivers.is_empty() {
            true => gpus,
            false => format!("{gpus}: {}", drivers.join(", ")),
        }
    }

    /// The minors of its capabilities by major, in ascending order.
    fn by_major(&self) -> BTreeMap<u8, Vec<u8>> {
        let mut all: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for capability in &self.capabilities {
            all.entry(capability.major).or_default().push(capability.minor);
        }
        all
    }
}

/// Values with commas between them.
fn list(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A job that is exported: how it is called, and what it runs in.
#[derive(Debug, Clone)]
pub struct Job {
    /// A name for its objects: lower-case letters, digits and `-`.
    pub name: String,
    /// ` --target NAME`, where the lock has several targets.
    pub target: String,
    /// GPUs of a job; on a cluster, of each node.
    pub gpus: u32,
    /// Nodes of a job.
    pub nodes: u32,
    /// The container image that it runs in.
    pub image: Option<String>,
    /// Whether classes of machines are admitted of which only some run the target.
    pub admit_undecided: bool,
}

/// A text as the name of a Kubernetes object: lower-case letters, digits and `-`, at most 50 of them.
pub fn object_name(text: &str) -> String {
    let words: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(50)
        .collect();
    let words = words.trim_matches('-');
    if words.is_empty() { "envlock".to_owned() } else { words.to_owned() }
}

/// Why a constraint cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No GPU is needed.
    #[error("the target needs no GPU, so there is nothing to ask of a scheduler")]
    NoGpu,
    /// No known machine runs it.
    #[error("no GPU and driver that envlock's data knows runs the target")]
    NoMachine,
    /// Every class that a scheduler could tell apart is mixed.
    #[error(
        "{scheduler} does not publish {facts}: whether a machine that it offers runs the target is undecided"
    )]
    Undecided {
        /// The scheduler.
        scheduler: &'static str,
        /// What it does not publish.
        facts: String,
        /// What the site can state to decide it.
        stated_by: Option<&'static str>,
    },
    /// No kind of node runs it.
    #[error("no kind of node runs the target: {0}")]
    NoKind(String),
    /// The text is no name of an image.
    #[error("`{0}` is not an image name")]
    NotAnImage(String),
    /// The scheduler refuses constraints that are so long.
    #[error("the constraint has {length} characters, and {scheduler} takes {limit}")]
    TooLong {
        /// The scheduler.
        scheduler: &'static str,
        /// Characters of the constraint.
        length: usize,
        /// Its limit.
        limit: usize,
    },
    /// The nodes run another system.
    #[error("the target is for {0}, and such nodes run Linux")]
    NotLinux(Platform),
}
