//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Locks a PyTorch environment together with the hardware it runs on.
///
/// envlock solves framework, CUDA, cuDNN, driver, GPU and every Python package as one graph, writes
/// envlock.lock and environment.yml, and verifies what is installed.
#[derive(Debug, Parser)]
#[command(name = "envlock", max_term_width = 100, disable_help_subcommand = true)]
pub(super) struct Args {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Everywhere")]
pub(super) struct GlobalArgs {
    /// The project's folder
    #[arg(long, global = true, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Use this registry instead of the embedded one
    #[arg(long, global = true, value_name = "DIR")]
    pub registry: Option<PathBuf>,
    /// The cache folder
    #[arg(long, global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Use no network: answer from the cache
    #[arg(long, global = true)]
    pub offline: bool,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Say only what was asked for
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more: every package and why it is there
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Colour
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    /// No progress bars
    #[arg(long, global = true)]
    pub no_progress: bool,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write envlock.toml
    Init(InitArgs),
    /// Add packages to envlock.toml, then resolve
    Add(AddArgs),
    /// Remove packages from envlock.toml, then resolve
    Remove(AddArgs),
    /// Show this machine: driver, GPUs, system, each fact with how it was found
    Probe(ProbeArgs),
    /// Solve, and write envlock.lock and environment.yml
    Resolve(ResolveArgs),
    /// Show every stack that a machine can run, and why not the others, from the registry alone
    Plan(PlanArgs),
    /// Say why a package is locked in its version, or why something cannot be
    Why(WhyArgs),
    /// Show the locked packages as a tree, the machine on top
    Tree(TreeArgs),
    /// Draw the locked graph, the machine on top
    Graph(GraphArgs),
    /// Show what changed between two locks
    Diff(DiffArgs),
    /// Show what newer stack the locked machine could run, and newer packages
    Outdated(OutdatedArgs),
    /// Write the lock in another format
    Export(ExportArgs),
    /// Hold the environment and the machine against the lock
    Verify(VerifyArgs),
    /// Name the cause in a log or a dump, and what fixes it
    Diagnose(DiagnoseArgs),
    /// Verify without running anything, then run a command in its place
    Run(RunArgs),
    /// Print a preflight check for the top of a training script
    Guard(GuardArgs),
    /// Read libraries and wheels: names, search paths, versions, GPU code
    Inspect(InspectArgs),
    /// The compatibility data
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// The cache of index pages and metadata
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, ClapArgs)]
pub(super) struct InitArgs {
    /// torch's version specifier, `>=2.8`
    #[arg(long, value_name = "SPEC")]
    pub torch: Option<String>,
    /// Python's, `>=3.11,<3.14`
    #[arg(long, value_name = "SPEC")]
    pub python: Option<String>,
    /// Take the dependencies from requirements.txt, pyproject.toml, environment.yml or pixi.toml
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Ask for exactly what is installed in a venv or conda environment, and lock it
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub from_prefix: Option<PathBuf>,
    /// With --from-prefix: write envlock.toml alone
    #[arg(long)]
    pub no_lock: bool,
    /// Replace an existing envlock.toml, and with --from-prefix its lock
    #[arg(long)]
    pub force: bool,
    /// The address of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct AddArgs {
    /// Packages (PEP 508 for `add`, names for `remove`)
    #[arg(required = true, value_name = "PKG")]
    pub packages: Vec<String>,
    #[command(flatten)]
    pub solve: SolveArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ProbeArgs {
    /// Write the facts to a host file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Replace a file that envlock did not write
    #[arg(long)]
    pub force: bool,
}

/// Which machine to solve for.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Machine (any of these describes another machine; nothing is probed)")]
pub(super) struct HostArgs {
    /// A host file, as `probe --save` writes it
    #[arg(long, value_name = "FILE")]
    pub host: Option<PathBuf>,
    /// A GPU: product name, `sm_86`, `8.6`, or `none`; repeatable
    #[arg(long, value_name = "NAME")]
    pub gpu: Vec<String>,
    /// The NVIDIA driver, `535.129.03`
    #[arg(long, value_name = "V")]
    pub driver: Option<String>,
    /// glibc's version, `2.28`
    #[arg(long, value_name = "V")]
    pub glibc: Option<String>,
    /// Operating system and processor, `linux-x86_64`
    #[arg(long, value_name = "P")]
    pub platform: Option<String>,
}

impl HostArgs {
    pub fn describe_a_machine(&self) -> bool {
        self.host.is_some()
            || !self.gpu.is_empty()
            || self.driver.is_some()
            || self.glibc.is_some()
            || self.platform.is_some()
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct ResolveArgs {
    /// Packages to solve for, where there is no envlock.toml (PEP 508)
    #[arg(value_name = "PKG")]
    pub packages: Vec<String>,
    #[command(flatten)]
    pub solve: SolveArgs,
}

/// How to solve.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct SolveArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// The Python series, `3.12`
    #[arg(long, value_name = "V", help_heading = "Solve")]
    pub python: Option<String>,
    /// The CUDA flavour, `cu126` or `cpu`
    #[arg(long, value_name = "NAME", help_heading = "Solve")]
    pub variant: Option<String>,
    /// Take packages from this index only
    #[arg(long, value_name = "NAME", help_heading = "Solve")]
    pub only_index: Option<String>,
    /// The address of the index `pypi`
    #[arg(long, value_name = "URL", help_heading = "Solve")]
    pub index_url: Option<String>,
    /// Write nothing; ask whether the lock is current
    #[arg(long, help_heading = "Solve")]
    pub locked: bool,
    /// Take the newest of everything, or of one package
    #[arg(long, value_name = "PKG", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Solve")]
    pub upgrade: Vec<String>,
    /// Look at this machine again instead of keeping the lock's
    #[arg(long, help_heading = "Solve")]
    pub redetect: bool,
    /// Solve and show, write nothing
    #[arg(long, help_heading = "Solve")]
    pub dry_run: bool,
    /// Solve hardware, CUDA and builds from the registry alone, without network and hashes
    #[arg(long, help_heading = "Solve")]
    pub stack_only: bool,
    /// Leave out releases that the registry does not know instead of reading their wheels
    #[arg(long, help_heading = "Solve")]
    pub no_learn: bool,
    /// Replace files that envlock did not write
    #[arg(long, help_heading = "Solve")]
    pub force: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct PlanArgs {
    /// torch, with the versions to look at: `torch>=2.6`
    #[arg(value_name = "SPEC")]
    pub torch: Option<String>,
    /// Say what is inside a container image, and whether the machine can run it
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["torch", "python", "variant", "only_index"])]
    pub image: Option<String>,
    #[command(flatten)]
    pub host: HostArgs,
    /// The Python series, `3.12`
    #[arg(long, value_name = "V", help_heading = "Limits")]
    pub python: Option<String>,
    /// The CUDA flavour, `cu126` or `cpu`
    #[arg(long, value_name = "NAME", help_heading = "Limits")]
    pub variant: Option<String>,
    /// Builds of this index only
    #[arg(long, value_name = "NAME", help_heading = "Limits")]
    pub only_index: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct WhyArgs {
    /// A locked package, or `driver`, `gpu`, `cuda`, `cudnn`, `glibc`
    #[arg(value_name = "PKG", required_unless_present = "not", conflicts_with = "not")]
    pub package: Option<String>,
    /// Prove that this cannot be: `torch==2.15.0`
    #[arg(long, value_name = "SPEC")]
    pub not: Option<String>,
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// The address of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DiagnoseArgs {
    /// A log, a `collect_env` dump, what a terminal showed; `-` or nothing is standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Look at this machine and the active environment too
    #[arg(long)]
    pub here: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct RunArgs {
    /// The environment's folder; else the active one
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Start the command without a look
    #[arg(long)]
    pub no_verify: bool,
    /// What cannot be judged for want of a GPU is an error
    #[arg(long)]
    pub require_gpu: bool,
    /// Watch the GPUs while it runs, and say at its end what they did
    #[arg(long)]
    pub monitor: bool,
    /// Write what was seen, once a second: CSV, or JSON where the name ends in .json
    #[arg(long, value_name = "FILE")]
    pub monitor_out: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct GuardArgs {
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct InspectArgs {
    /// Shared libraries, folders of them, wheels, or addresses of wheels
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct TreeArgs {
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// How deep to go below what was asked for
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct GraphArgs {
    /// How to draw
    #[arg(long, value_enum, default_value_t = GraphFormat::Text)]
    pub format: GraphFormat,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GraphFormat {
    /// The tree, for a terminal
    Text,
    /// Graphviz
    Dot,
    /// Mermaid, for Markdown
    Mermaid,
    /// A picture
    Svg,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DiffArgs {
    /// Two locks; or the seven arguments that git gives to a diff driver
    #[arg(required = true, value_name = "LOCK")]
    pub files: Vec<PathBuf>,
    /// Exit with 1 when something changed
    #[arg(long)]
    pub exit_code: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct OutdatedArgs {
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// The address of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ExportArgs {
    /// The format
    #[arg(value_enum, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// The image to build on (for Dockerfile): by digest it stays the same
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
    /// The address of the index `pypi` (for pylock.toml)
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
    /// Replace a file that envlock did not write
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    #[value(name = "environment.yml")]
    Environment,
    #[value(name = "requirements.txt")]
    Requirements,
    #[value(name = "pylock.toml")]
    Pylock,
    #[value(name = "Dockerfile")]
    Dockerfile,
}

#[derive(Debug, ClapArgs)]
pub(super) struct VerifyArgs {
    /// The environment's folder; else the active one
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Judge the lock for this host file instead of this machine
    #[arg(long, value_name = "FILE|DIR")]
    pub host: Option<PathBuf>,
    /// The convolution that really runs
    #[arg(long, value_enum, default_value_t = SmokeChoice::Auto)]
    pub smoke: SmokeChoice,
    /// Hash every file instead of comparing sizes
    #[arg(long)]
    pub deep: bool,
    /// What cannot be judged for want of a GPU is an error
    #[arg(long)]
    pub require_gpu: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = VerifyFormat::Text)]
    pub format: VerifyFormat,
    /// Which target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SmokeChoice {
    /// On every GPU, on the CPU where there is none
    Auto,
    /// On the CPU
    Cpu,
    /// On every GPU
    Cuda,
    /// Never start Python
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum VerifyFormat {
    Text,
    Json,
    /// JUnit's XML
    Junit,
    /// SARIF 2.1.0
    Sarif,
    /// GitHub's workflow commands
    Github,
}

#[derive(Debug, Subcommand)]
pub(super) enum RegistryCommand {
    /// Check the data
    Lint,
    /// Show the rows about something: `torch 2.9.1`, `gpu "RTX 4090"`, `driver 535`
    Show {
        /// What: torch, gpu, driver
        subject: String,
        /// Which
        which: Option<String>,
    },
    /// Read a wheel and print what it says of itself, as the row to append
    Learn(LearnArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct LearnArgs {
    /// A requirement such as `torch==2.15.0`, a wheel's path, or its address
    #[arg(value_name = "REQUIREMENT|WHEEL")]
    pub wheel: String,
    /// The platform whose wheel is read
    #[arg(long, value_name = "PLATFORM")]
    pub platform: Option<crate::model::platform::Platform>,
    /// Address of the index in PyPI's place
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Print the cache folder
    Dir,
    /// Remove everything in it
    Clean,
}
