//! The extras and dependency groups that a command is about.

use clap::Args as ClapArgs;

/// The extras and dependency groups of the lock that are installed.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(super) struct PartArgs {
    /// With an extra of the project
    #[arg(long, value_name = "NAME")]
    pub extra: Vec<String>,
    /// With a dependency group of the project
    #[arg(long, value_name = "NAME")]
    pub group: Vec<String>,
    /// With all extras
    #[arg(long)]
    pub all_extras: bool,
    /// With all dependency groups
    #[arg(long)]
    pub all_groups: bool,
}
