//! The options of `export`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::export::schedule::NodesBy;
use crate::session::export::{Format, ScheduleOptions};
use crate::session::options::Parts;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ExportArgs {
    /// Output format
    #[arg(value_enum, value_name = "FORMAT")]
    pub format: Format,
    /// Write to a file instead of stdout; with --all-targets, to this folder
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Write a file for each target of the lock
    #[arg(long, requires = "output", conflicts_with = "target")]
    pub all_targets: bool,
    #[command(flatten)]
    pub parts: Parts,
    /// Leave out the builds of conda packages (for environment.yml), for another system
    #[arg(long)]
    pub loose: bool,
    /// Base image (for Dockerfile); a digest pins it
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
    /// URL of the index `pypi` (for pylock.toml)
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
    /// Replace a file that envlock did not write
    #[arg(long)]
    pub force: bool,
    /// Install from a bundle (`envlock bundle`), without a network (for requirements.txt)
    #[arg(long, value_name = "PATH")]
    pub bundle: Option<PathBuf>,
    #[command(flatten)]
    pub schedule: ScheduleOptions,
}

/// What a scheduler is asked for.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Schedulers")]
pub(in crate::cli) struct ScheduleArgs {
    /// Who publishes the facts of Kubernetes nodes [default: dra]
    #[arg(long, value_name = "BY")]
    pub nodes_by: Option<NodesBy>,
    /// GPUs of the job (of each node) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub gpus: Option<u32>,
    /// Nodes of the job (for slurm) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
    /// MIG devices of this profile in place of GPUs (for kubernetes): `1g.10gb`
    #[arg(long, value_name = "PROFILE")]
    pub mig: Option<String>,
    /// Container image that the job runs in
    #[arg(long, value_name = "IMAGE")]
    pub job_image: Option<String>,
    /// Also admit machines of which the published facts do not decide it
    #[arg(long)]
    pub admit_undecided: bool,
}
