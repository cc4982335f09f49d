//! The options of what hands a lock on: `export`, `bundle`, `sbom`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

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

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct BundleArgs {
    /// Folder, or an archive NAME.tar (default: envlock-bundle beside the lock)
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Target of the lock; can be repeated (default: all)
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Archive NAME.tar.gz with a Python to take along, or `none`
    #[arg(long, value_name = "PATH|none")]
    pub python: Option<String>,
    /// Take this envlock along
    #[arg(long = "self")]
    pub own_program: bool,
    /// Sign the manifest with a secret key of minisign
    #[arg(long, value_name = "KEY")]
    pub sign: Option<PathBuf>,
    /// Build wheels of source distributions here, which runs their code
    #[arg(long)]
    pub build: bool,
    /// Leave out the files that an older bundle has: to be laid over it
    #[arg(long, value_name = "PATH")]
    pub since: Option<PathBuf>,
    /// Write a flat folder for plain pip and uv instead, for their `--find-links`
    #[arg(long)]
    pub wheelhouse: bool,
    /// Print files and sizes by target, and download nothing
    #[arg(long)]
    pub dry_run: bool,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct SbomArgs {
    /// Wheels to describe (default: the project's lock, with what is in its environment)
    #[arg(value_name = "WHEEL")]
    pub wheels: Vec<PathBuf>,
    /// Format of the bill
    #[arg(long, value_enum, default_value_t = SbomFormat::Cyclonedx)]
    pub format: SbomFormat,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Target of the lock
    #[arg(long, value_name = "NAME", conflicts_with = "wheels")]
    pub target: Option<String>,
    /// Environment whose files are read (default: the active environment, or .venv beside the lock)
    #[arg(long, value_name = "DIR", conflicts_with = "wheels")]
    pub prefix: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum SbomFormat {
    /// CycloneDX 1.7 in JSON
    Cyclonedx,
}
