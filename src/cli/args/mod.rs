//! The command-line interface: commands, options and their help texts.

mod checks;
mod export;
mod into_options;
mod parts;
mod questions;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::session::bundle::BundleOptions;
use crate::session::editing::List;
use crate::session::export::ExportOptions;
use crate::session::options::{Global, MachineOptions, Parts, ReportFormat, SolveOptions};
use crate::session::plan::PlanOptions;
use crate::session::sync::SyncOptions;
use crate::session::verify::SmokeChoice;

pub(super) use checks::*;
pub(super) use export::*;
pub(super) use questions::*;

/// Locks a PyTorch environment together with the hardware it runs on.
#[derive(Debug, Parser)]
#[command(name = "envlock", max_term_width = 100)]
pub(super) struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(flatten)]
    pub talk: TalkArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Project folder
    #[arg(long, global = true, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Use this registry instead of the program's; `embedded`: without its updates
    #[arg(long, global = true, value_name = "DIR")]
    pub registry: Option<PathBuf>,
    /// Cache folder
    #[arg(long, global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Do not use the network; answer from the cache
    #[arg(long, global = true)]
    pub offline: bool,
}

/// How much is said, and how.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub(super) struct TalkArgs {
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Print the verdict only: no notes, warnings, hints and progress bars
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Show more: every package with the reason for its version, every build
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    /// Hide progress bars
    #[arg(long, global = true)]
    pub no_progress: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write envlock.toml, or `[tool.envlock]` of a pyproject.toml
    Init(InitArgs),
    /// Add packages to the manifest, then resolve
    Add(AddArgs),
    /// Remove packages from the manifest, then resolve
    Remove(AddArgs),
    /// Show a machine: driver, GPUs, system, each fact with its source
    Probe(ProbeArgs),
    /// Solve, and write envlock.lock and environment.yml
    #[command(visible_alias = "lock")]
    Resolve(ResolveArgs),
    /// Take newer versions into the lock: of all packages, or of some
    Upgrade(UpgradeArgs),
    /// List the torch builds that a machine can run, and why not others
    Plan(PlanOptions),
    /// Explain a locked version, or prove that a version is impossible
    Why(WhyArgs),
    /// List the locked packages, one on each line
    List(ListArgs),
    /// Show the locked packages as a tree, with the machine at the top
    Tree(TreeArgs),
    /// Draw the locked dependency graph, with what it needs of a machine
    Graph(GraphArgs),
    /// Show what changed on a machine since a host file was saved
    Drift(DriftArgs),
    /// Show what changed between two locks
    Diff(DiffArgs),
    /// Show newer stacks and packages for the locked machine
    Outdated(OutdatedArgs),
    /// Write the lock in another format
    Export(ExportOptions),
    /// Install what the lock says into an environment, then verify it
    #[command(visible_alias = "install")]
    Sync(SyncArgs),
    /// Pack all that the lock needs, for machines without a network
    Bundle(BundleOptions),
    /// Write a bill of materials: packages and the libraries inside them
    Sbom(SbomArgs),
    /// Check the environment and the machine against the lock
    Verify(VerifyArgs),
    /// Check which nodes can run which locks
    Fleet(FleetArgs),
    /// Find the cause in a log or a `collect_env` dump, and the fix
    Diagnose(DiagnoseArgs),
    /// Verify without the smoke test, then execute a command
    Run(RunArgs),
    /// Print a preflight check for the top of a training script
    Guard(GuardArgs),
    /// Show versions, search paths and GPU code of libraries and wheels
    Inspect(InspectArgs),
    /// Check a container image without running it
    Image(ImageArgs),
    /// Check on this machine that the compatibility data is true
    Selftest(SelftestArgs),
    /// Show, check and extend the compatibility data
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// Print the JSON Schema of a file format, for editors and checkers
    Schema {
        /// File format
        #[arg(value_enum)]
        name: super::schema::Schema,
    },
    /// Manage the cache of index pages and metadata
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Print a completion script
    Completions {
        /// Shell to print the script for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

impl Command {
    /// Whether the command does its work with the cache. The others read what they find in it.
    pub fn needs_cache(&self) -> bool {
        !matches!(
            self,
            Command::Init(_)
                | Command::Probe(_)
                | Command::Plan(_)
                | Command::List(_)
                | Command::Tree(_)
                | Command::Graph(_)
                | Command::Diff(_)
                | Command::Sbom(_)
                | Command::Verify(_)
                | Command::Fleet(_)
                | Command::Diagnose(_)
                | Command::Guard(_)
                | Command::Selftest(_)
                | Command::Schema { .. }
                | Command::Completions { .. }
                | Command::Man
        )
    }

    /// Whether the answer is asked for as JSON by a form of its own.
    pub fn has_json_format(&self) -> bool {
        let format = match self {
            Command::Diff(args) => Some(args.format),
            Command::Fleet(FleetArgs { command: FleetCommand::Rehearse(args) }) => Some(args.format),
            _ => None,
        };
        format == Some(AnswerFormat::Json)
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct InitArgs {
    /// Version specifier of torch, such as `>=2.8`
    #[arg(long, value_name = "SPEC")]
    pub torch: Option<String>,
    /// Version specifier of Python, such as `>=3.11,<3.14`
    #[arg(long, value_name = "SPEC")]
    pub python: Option<String>,
    /// Import the dependencies from requirements.txt, pyproject.toml, environment.yml, pixi.toml, or a lock of uv, poetry, pixi or conda-lock
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Import what is installed in a venv or conda environment, with exact versions, and lock it
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub from_prefix: Option<PathBuf>,
    /// With --from pyproject.toml: import this extra too
    #[arg(long, value_name = "NAME", requires = "from")]
    pub extra: Vec<String>,
    /// With --from pyproject.toml: import this dependency group too
    #[arg(long, value_name = "NAME", requires = "from")]
    pub group: Vec<String>,
    /// With --from pyproject.toml: import all extras
    #[arg(long, requires = "from")]
    pub all_extras: bool,
    /// With --from environment.yml or pixi.toml: keep the conda packages as conda packages
    #[arg(long, requires = "from")]
    pub conda: bool,
    /// With --from environment.yml or pixi.toml: take the conda packages that PyPI has from there, and leave out the others
    #[arg(long, requires = "from", conflicts_with = "conda")]
    pub pypi: bool,
    /// With --from pixi.toml: import this environment
    #[arg(long, value_name = "NAME", requires = "from")]
    pub environment: Option<String>,
    /// With --from-prefix: write only envlock.toml
    #[arg(long)]
    pub no_lock: bool,
    /// Replace an existing envlock.toml, and with --from-prefix its lock
    #[arg(long)]
    pub force: bool,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
    #[command(flatten)]
    pub host: MachineOptions,
}

#[derive(Debug, ClapArgs)]
pub(super) struct AddArgs {
    /// Packages (PEP 508 for `add`, names for `remove`)
    #[arg(required = true, value_name = "PKG")]
    pub packages: Vec<String>,
    /// Edit the constraints: bounds on a package, whoever requires it
    #[arg(long)]
    pub constraint: bool,
    #[command(flatten)]
    pub solve: SolveOptions,
}

impl AddArgs {
    /// The list of the manifest that is meant.
    pub fn list(&self) -> List {
        if self.constraint { List::Constraints } else { List::Dependencies }
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct ProbeArgs {
    /// Write the machine to a host file; `-` prints it
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Replace a file that envlock did not write
    #[arg(long)]
    pub force: bool,
    /// Keep the packages of this environment in the host file too, for `drift`
    #[arg(long, value_name = "DIR", requires = "save")]
    pub prefix: Option<PathBuf>,
    #[command(flatten)]
    pub host: MachineOptions,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DriftArgs {
    /// Host file of before (`envlock probe --save`)
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// Host file of after (default: this machine now)
    #[arg(value_name = "NEW")]
    pub new: Option<PathBuf>,
    /// Environment to compare with the one that OLD keeps (default: the same folder)
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
}

/// Which machine to solve for.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Machine (with any of these options, this machine is not probed)")]
struct HostArgs {
    /// Host file written by `envlock probe --save`
    #[arg(long, value_name = "FILE")]
    pub host: Option<PathBuf>,
    /// GPU: product name, `sm_86`, `8.6`, or `none` (repeatable)
    #[arg(long, value_name = "NAME")]
    pub gpu: Vec<String>,
    /// NVIDIA driver version, such as `535.129.03`
    #[arg(long, value_name = "V")]
    pub driver: Option<String>,
    /// glibc version, such as `2.28`
    #[arg(long, value_name = "V")]
    pub glibc: Option<String>,
    /// Platform, such as `linux-x86_64`
    #[arg(long, value_name = "P")]
    pub platform: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ResolveArgs {
    /// Packages to solve for (PEP 508), if there is no envlock.toml
    #[arg(value_name = "PKG")]
    pub packages: Vec<String>,
    /// Also solve for the packages of a requirements file, if there is no envlock.toml
    #[arg(short, long = "requirements", value_name = "FILE")]
    pub requirements: Vec<PathBuf>,
    #[command(flatten)]
    pub solve: SolveOptions,
}

#[derive(Debug, ClapArgs)]
#[command(mut_arg("upgrade", |option| option.hide(true)))]
pub(super) struct UpgradeArgs {
    /// Packages to upgrade (default: all)
    #[arg(value_name = "PKG")]
    pub packages: Vec<String>,
    #[command(flatten)]
    pub solve: SolveOptions,
}

/// How to solve.
#[derive(Debug, Clone, Default, ClapArgs)]
struct SolveArgs {
    #[command(flatten)]
    pub host: MachineOptions,
    /// Python version, such as `3.12`
    #[arg(long, value_name = "V", help_heading = "Solve")]
    pub python: Option<String>,
    /// CUDA variant, such as `cu126` or `cpu`
    #[arg(long, value_name = "NAME", help_heading = "Solve")]
    pub variant: Option<String>,
    /// CUDA version: `12.6` for any 12.6, `13`, `>=12.4`
    #[arg(long, value_name = "SPEC", help_heading = "Solve")]
    pub cuda: Option<String>,
    /// Use only these indexes and channels: `pypi`, `pypi,conda-forge`
    #[arg(long, value_name = "NAME", help_heading = "Solve")]
    pub only_index: Option<String>,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL", help_heading = "Solve")]
    pub index_url: Option<String>,
    /// Take no package from a source distribution
    #[arg(long, help_heading = "Solve")]
    pub no_sources: bool,
    /// Leave out files uploaded after this: `2026-11-01`, `2026-11-01T12:00:00Z`, `7 days`
    #[arg(long, value_name = "DATE", help_heading = "Solve")]
    pub exclude_newer: Option<String>,
    /// Refuse source distributions whose requirements are not stated statically
    #[arg(long, help_heading = "Solve")]
    pub strict_metadata: bool,
    /// Check that the lock is current; write nothing
    #[arg(long, help_heading = "Solve")]
    pub locked: bool,
    /// Check that the lock is current, and ask the indexes whether they state its hashes; write nothing
    #[arg(long, conflicts_with = "stack_only", help_heading = "Solve")]
    pub check_hashes: bool,
    /// With --locked: the format of the answer
    #[arg(long, value_parser = of_lock(), value_name = "FORMAT", help_heading = "Solve")]
    pub format: Option<ReportFormat>,
    /// Upgrade all packages, or only PKG
    #[arg(long, value_name = "PKG", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Solve")]
    pub upgrade: Vec<String>,
    /// Detect this machine again instead of using the one in the lock
    #[arg(long, help_heading = "Solve")]
    pub redetect: bool,
    /// Print the solution without writing files
    #[arg(long, help_heading = "Solve")]
    pub dry_run: bool,
    /// Solve only hardware, CUDA and framework builds, from the registry, without network or hashes
    #[arg(long, help_heading = "Solve")]
    pub stack_only: bool,
    /// Skip releases that the registry does not have, instead of reading their wheels
    #[arg(long, help_heading = "Solve")]
    pub no_learn: bool,
    /// Replace files that envlock did not write
    #[arg(long, help_heading = "Solve")]
    pub force: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DiagnoseArgs {
    /// Log, `collect_env` dump or terminal output; `-` or no argument reads standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Also inspect this machine and the active environment
    #[arg(long)]
    pub here: bool,
    /// Explain the code of a cause (in its `--json`), or list those of a component: `driver`
    #[arg(long, value_name = "CODE", conflicts_with_all = ["file", "here"])]
    pub explain: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct RunArgs {
    /// Environment folder (default: the active environment, or .venv beside the lock)
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    #[command(flatten)]
    pub parts: Parts,
    /// Skip verification
    #[arg(long)]
    pub no_verify: bool,
    /// Fail if a check needs a GPU and none is present
    #[arg(long)]
    pub require_gpu: bool,
    /// Monitor the GPUs while the command runs, and print a summary at the end
    #[arg(long)]
    pub monitor: bool,
    /// Monitor, and write the samples to FILE: JSON if the name ends in .json, else CSV
    #[arg(long, value_name = "FILE")]
    pub monitor_out: Option<PathBuf>,
    /// Command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct GuardArgs {
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file that envlock did not write
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct InspectArgs {
    /// Shared libraries, folders with libraries, wheels, or URLs of wheels
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Folder with a root file system: paths and their links are resolved in it
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// The formats of what stopped `sync`.
fn of_errors() -> impl TypedValueParser<Value = ReportFormat> {
    let read = |text: String| ReportFormat::from_str(&text, true);
    PossibleValuesParser::new(["github"]).try_map(read)
}

/// The formats of the answer of `resolve --locked`.
fn of_lock() -> impl TypedValueParser<Value = ReportFormat> {
    let read = |text: String| ReportFormat::from_str(&text, true);
    PossibleValuesParser::new(["text", "json", "junit", "sarif", "github"]).try_map(read)
}

#[derive(Debug, ClapArgs)]
pub(super) struct SyncArgs {
    /// Refused with a hint: `pip install PKG` is a habit
    #[arg(value_name = "PKG", hide = true)]
    pub packages: Vec<String>,
    #[command(flatten)]
    pub sync: SyncOptions,
    /// Where to run the smoke test
    #[arg(long, value_enum)]
    pub smoke: Option<SmokeChoice>,
    /// Also print what stopped it as an annotation of GitHub
    #[arg(long, value_name = "FORMAT", value_parser = of_errors())]
    pub format: Option<ReportFormat>,
}

/// What is to be installed, and where.
#[derive(Debug, ClapArgs)]
struct InstallArgs {
    /// Environment folder, made if it does not exist (default: the active environment, or .venv beside the lock,
    /// .envlock/env for conda packages)
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Python to make the environment with
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,
    /// Let uv install the locked Python where it is not found
    #[arg(long, conflicts_with = "python")]
    pub install_python: bool,
    /// Print the commands and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Remove packages that are not locked, also from an environment that sync did not make
    #[arg(long)]
    pub exact: bool,
    /// Build the packages that exist only as source, which runs their code
    #[arg(long)]
    pub build: bool,
    /// Do not install the project itself
    #[arg(long)]
    pub no_project: bool,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    #[command(flatten)]
    pub parts: Parts,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
    /// Install from a bundle (`envlock bundle`), without a network
    #[arg(long, value_name = "PATH")]
    pub bundle: Option<PathBuf>,
    /// Public key that must have signed the bundle
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub pubkey: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RegistryCommand {
    /// Check the compatibility data for errors
    Lint,
    /// Show the rows of a subject: `torch 2.9.1`, `gpu A100`, `driver 535`; without one, which data are used
    Show {
        /// Subject: torch, gpu or driver
        subject: Option<String>,
        /// Version of torch, GPU name or driver branch
        which: Option<String>,
    },
    /// Read a wheel and print its compatibility data as a registry row
    Learn(LearnArgs),
    /// Take newer compatibility data, signed, from the index `pypi`; used from then on
    Update(UpdateArgs),
    /// Write the compatibility data to sign, or with their signature the wheel that `update` takes
    Pack(PackArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct UpdateArgs {
    /// Take the data from a wheel instead of the index
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Public key that signed the data, as minisign writes it, instead of those of releases
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub index_url: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct PackArgs {
    /// File to write: the data to sign, or with `--signature` the wheel
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Signature of the data, as minisign writes it
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
    /// Public key to check the signature with, instead of those of releases
    #[arg(long, value_name = "FILE", requires = "signature")]
    pub key: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct LearnArgs {
    /// Requirement such as `torch==2.15.0`, or the path or URL of a wheel
    #[arg(value_name = "REQUIREMENT|WHEEL")]
    pub wheel: String,
    /// Platform of the wheel
    #[arg(long, value_name = "PLATFORM")]
    pub platform: Option<crate::model::platform::Platform>,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Print the path of the cache folder
    Dir,
    /// Print how much is in the cache
    Size,
    /// Remove what other versions of envlock left, and what is older than 90 days
    Prune,
    /// Remove the cached index pages and metadata
    Clean,
}
