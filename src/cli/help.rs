//! The help text: commands in groups by task, and examples.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::args::Args;

/// The commands by task.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["init", "add", "remove", "probe"]),
    ("Solve", &["resolve", "upgrade", "plan", "outdated"]),
    ("Ask", &["why", "list", "tree", "graph", "diff", "sbom"]),
    ("Install", &["sync", "export", "bundle"]),
    ("Check", &["verify", "run", "guard", "drift", "fleet", "image", "diagnose", "inspect", "selftest"]),
    ("Data and shell", &["registry", "schema", "cache", "completions", "man", "help"]),
];

/// What people type, by command.
const EXAMPLES: [(&str, &str); 4] = [
    (
        "resolve",
        "Examples:\n  envlock resolve                            the project, for this machine\n  \
         envlock resolve torch --gpu \"NVIDIA A100\" --driver 535.129.03\n  \
         envlock resolve --locked                   is the lock current? (for CI)",
    ),
    (
        "sync",
        "Examples:\n  envlock sync                               .venv, or the active environment\n  \
         envlock sync --dry-run                     the commands, without running them\n  \
         envlock sync --prefix /opt/env --exact     and remove what is not locked",
    ),
    (
        "verify",
        "Examples:\n  envlock verify                             .venv, or the active environment\n  \
         envlock verify --prefix .venv --smoke cpu  with a convolution on the CPU\n  \
         envlock verify --host node.toml            would the lock run on that node?",
    ),
    (
        "diagnose",
        "Examples:\n  envlock diagnose train.log\n  python train.py 2>&1 | envlock diagnose\n  \
         python -m torch.utils.collect_env | envlock diagnose --here",
    ),
];

/// The command line with its help texts.
pub(super) fn command() -> Command {
    let mut command = Args::command();
    // Adds `help`, and fills in what clap knows of each command.
    command.build();
    let groups = groups(&command);
    let options = title(&command, "Options");
    // Without a long help of its own, each option is a line.
    let mut command = Args::command().help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}\n{{options}}\n\n\
         `envlock help COMMAND` shows a command with its options.\n"
    ));
    for (name, examples) in EXAMPLES {
        command = command.mut_subcommand(name, |sub| sub.after_help(examples));
    }
    command
}

/// A heading as clap writes its own.
fn title(command: &Command, text: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{text}:{style:#}")
}

fn groups(command: &Command) -> String {
    let mut out = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(out, "{}", self::title(command, title));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let _ = writeln!(out, "  {name:<12} {}", about.map(ToString::to_string).unwrap_or_default());
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_has_a_group() {
        let mut command = Args::command();
        command.build();
        let all: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let grouped: BTreeSet<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(all, grouped);
        let count: usize = GROUPS.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(count, grouped.len(), "no command is in two groups");
        let text = groups(&command);
        let mut rows = text.lines().filter(|line| line.starts_with("  "));
        assert!(rows.all(|row| row.chars().count() <= 80), "{text}");
    }
}
