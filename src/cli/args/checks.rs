//! The options of `verify` and `fleet`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use crate::model::platform::Platform;
use crate::session::options::{Parts, ReportFormat};
use crate::session::verify::{On, Only, SmokeChoice, VerifyOptions};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct SelftestArgs {
    /// Load and run prebuilt kernels of many code targets on every GPU
    #[arg(long, required = true)]
    pub gpu: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct VerifyArgs {
    /// Environment folder (default: the active environment, or .venv beside the lock)
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Folder with the root file system that the environment lies in: a mounted image, an unpacked sandbox
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Judge the lock for a machine, without an environment: a host file, a folder of them, or without a value this machine
    #[arg(long, value_name = "FILE|DIR", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "an option whose value is optional")]
    pub host: Option<Option<PathBuf>>,
    /// Check only whether this machine is sound, or only the environment
    #[arg(long, value_enum, value_name = "WHAT")]
    pub only: Option<Only>,
    /// Check a bundle (`envlock bundle`) against the lock, without an environment
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prefix", "root", "host", "only", "lock"])]
    pub bundle: Option<PathBuf>,
    /// Public key that must have signed the bundle
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub pubkey: Option<PathBuf>,
    /// Where to run the smoke test
    #[arg(long, value_enum, default_value_t = SmokeChoice::Auto)]
    pub smoke: SmokeChoice,
    /// Hash every file instead of comparing sizes
    #[arg(long)]
    pub deep: bool,
    /// Fail if a package is installed that the lock does not have
    #[arg(long)]
    pub exact: bool,
    /// Fail if a check needs a GPU and none is present
    #[arg(long)]
    pub require_gpu: bool,
    /// Lock to compare with (default: envlock.lock): also uv.lock, pylock.toml, pixi.lock, conda-lock.yml, requirements
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the output to a file, at once and as a whole
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE although envlock did not write it
    #[arg(long, requires = "output")]
    pub force: bool,
    /// What an unknown answer counts as
    #[arg(long, value_enum, value_name = "AS", default_value_t = Unknown::Fail)]
    pub unknown: Unknown,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    #[command(flatten)]
    pub parts: Parts,
    /// Whether `prefix` was found, and not named: for `sync`.
    #[arg(skip)]
    pub is_found: bool,
    /// Whether a smoke test that fails is annotated beside the text: for `sync`, whose later steps do not run one.
    #[arg(skip)]
    pub annotates_smoke: bool,
}

impl VerifyArgs {
    /// What is asked, without how it is told.
    pub fn options(&self) -> VerifyOptions {
        VerifyOptions {
            prefix: self.prefix.clone(),
            root: self.root.clone(),
            bundle: self.bundle.clone(),
            pubkey: self.pubkey.clone(),
            host: self.host.clone().map(|path| path.map_or(On::ThisMachine, On::Described)),
            only: self.only,
            smoke: self.smoke,
            deep: self.deep,
            exact: self.exact,
            require_gpu: self.require_gpu,
            lock: self.lock.clone(),
            target: self.target.clone(),
            parts: self.parts.clone(),
            is_found: self.is_found,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ImageArgs {
    /// Archive of `docker save`, archive or folder with an OCI layout, SIF or SquashFS file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Lock to compare the image's environment with: also uv.lock, pylock.toml, pixi.lock, conda-lock.yml, requirements
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Host file of the machine that the image will run on (default: no machine is judged)
    #[arg(long, value_name = "FILE")]
    pub host: Option<PathBuf>,
    /// Environment to judge, as a path in the image (default: all with a framework; with a lock the one of its `python`)
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Tag or reference name, where the archive contains several images
    #[arg(long, value_name = "NAME")]
    pub tag: Option<String>,
    /// Platform, where the archive contains several: linux-x86_64, linux-aarch64
    #[arg(long, value_name = "NAME")]
    pub platform: Option<Platform>,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum FleetCommand {
    /// From saved host files, one for each node
    Hosts(FleetHostsArgs),
    /// From the nodes of a Slurm cluster that can answer now
    Slurm(FleetSlurmArgs),
    /// What another driver, other GPUs or another lock would change, before anybody changes it
    Rehearse(FleetRehearseArgs),
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct FleetHostsArgs {
    /// Folder of host files (`envlock probe --save`)
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Lock to judge, or a folder of locks; can be repeated (default: the project's envlock.lock)
    #[arg(long, value_name = "FILE|DIR")]
    pub lock: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct FleetSlurmArgs {
    /// Only the nodes of this partition
    #[arg(short, long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Only these nodes, in Slurm's notation: `n[1-8]`
    #[arg(short = 'w', long, value_name = "NODES")]
    pub nodes: Option<String>,
    /// Lock to judge, or a folder of locks; can be repeated (default: the project's envlock.lock)
    #[arg(long, value_name = "FILE|DIR")]
    pub lock: Vec<PathBuf>,
    /// Verify this environment on every node too: against the lock, if one is judged, else against itself
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Seconds that a node may take
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// The envlock program on the nodes (default: the path of this one)
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct FleetRehearseArgs {
    /// Folder of host files (default: the nodes of the Slurm cluster are asked)
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Driver that the nodes would have: a version, or a branch, which means its oldest release
    #[arg(long, value_name = "VERSION")]
    pub driver: Option<String>,
    /// GPU that the nodes would have: a product or a compute capability; can be repeated
    #[arg(long, value_name = "NAME")]
    pub gpu: Vec<String>,
    /// Lock to judge, or a folder of locks; can be repeated (default: the project's envlock.lock)
    #[arg(long, value_name = "FILE|DIR")]
    pub lock: Vec<PathBuf>,
    /// Lock that it replaces: a file, a folder, or a git revision of envlock.lock; can be repeated
    #[arg(long, value_name = "FILE|DIR|REVISION")]
    pub against: Vec<PathBuf>,
    /// Change only the nodes of this partition of Slurm
    #[arg(short, long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Change only these nodes: `n1,n2`, or Slurm's notation
    #[arg(short = 'w', long, value_name = "NODES")]
    pub nodes: Option<String>,
    /// Seconds that a node may take
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// The envlock program on the nodes (default: the path of this one)
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    pub format: AnswerFormat,
}

/// The form of an answer that people and programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum AnswerFormat {
    /// For a terminal
    Text,
    /// The same as `--json`
    Json,
    /// For a pull request or a ticket
    Markdown,
}

/// What exit code 3 of `verify`, "not known", becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Unknown {
    /// Exit code 3
    Fail,
    /// Exit code 0
    Ok,
}
