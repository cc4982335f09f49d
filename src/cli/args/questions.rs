//! The commands that answer questions and write nothing but a page or drawing.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::AnswerFormat;
use crate::session::options::MachineOptions;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct PlanArgs {
    /// Requirement on torch, such as `torch>=2.6`
    #[arg(value_name = "SPEC")]
    pub torch: Option<String>,
    /// Show what a container image contains, and whether the machine can run it
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["torch", "python", "variant", "only_index"])]
    pub image: Option<String>,
    /// Show whether a lock runs on the machine: envlock.lock, uv.lock, pylock.toml, pixi.lock, conda-lock.yml, or
    /// requirements with exact versions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["torch", "image", "variant", "only_index"])]
    pub lock: Option<PathBuf>,
    /// Write a page that answers for every GPU and driver, for a browser without a network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["torch", "image", "lock", "python", "variant", "only_index"])]
    pub html: Option<PathBuf>,
    /// Replace a file that envlock did not write
    #[arg(long, requires = "html")]
    pub force: bool,
    /// Environment, extra or target of the lock
    #[arg(long, value_name = "NAME", requires = "lock")]
    pub target: Option<String>,
    #[command(flatten)]
    pub host: MachineOptions,
    /// Python version, such as `3.12`
    #[arg(long, value_name = "V", help_heading = "Limits")]
    pub python: Option<String>,
    /// CUDA variant, such as `cu126` or `cpu`
    #[arg(long, value_name = "NAME", help_heading = "Limits")]
    pub variant: Option<String>,
    /// Use only builds of these indexes
    #[arg(long, value_name = "NAME", help_heading = "Limits")]
    pub only_index: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct WhyArgs {
    /// A locked package, or `driver`, `gpu`, `cuda`, `cudnn`, `nccl`, `glibc`, `python`
    #[arg(value_name = "PKG", required_unless_present = "not", conflicts_with = "not")]
    pub package: Option<String>,
    /// Prove that a requirement cannot be met, such as `torch==2.15.0`
    #[arg(long, value_name = "SPEC")]
    pub not: Option<String>,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ListArgs {
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
}

#[derive(Debug, Default, ClapArgs)]
pub(in crate::cli) struct TreeArgs {
    /// Locked packages to begin with (default: the requested ones)
    #[arg(value_name = "PKG")]
    pub packages: Vec<String>,
    /// Show what requires a package below it, instead of what it requires
    #[arg(long, short)]
    pub invert: bool,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Maximum depth below the packages that it begins with
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct GraphArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = GraphFormat::Text)]
    pub format: GraphFormat,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw every package; else the dependencies of many packages stand in groups
    #[arg(long)]
    pub all: bool,
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum GraphFormat {
    /// Tree, for a terminal
    Text,
    /// Graphviz
    Dot,
    /// Mermaid, for Markdown
    Mermaid,
    /// SVG image
    Svg,
    /// A page in which a click on a package shows its paths
    Html,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct DiffArgs {
    /// Old and new lock, each a file or a git revision (default: the last commit, and the project's lock); or the seven
    /// arguments that git passes to a diff driver
    #[arg(value_name = "LOCK")]
    pub locks: Vec<PathBuf>,
    /// Exit with code 1 if something changed
    #[arg(long)]
    pub exit_code: bool,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    pub format: AnswerFormat,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct OutdatedArgs {
    /// Target of the lock
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// URL of the index `pypi`
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,
}
