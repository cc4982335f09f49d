//! The options of `export`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::session::export::Format;
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
}
