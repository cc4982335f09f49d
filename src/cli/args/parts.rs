//! The extras and dependency groups that a command is about.

use clap::Args as ClapArgs;

use crate::model::part::Part;
use crate::model::text::shell_word;

/// The extras and dependency groups of the lock that are installed.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(in crate::cli) struct PartArgs {
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

impl PartArgs {
    /// The options as they are given, for a command about the same parts: ` --group dev`.
    pub fn options(&self) -> String {
        let named = |option: &str, names: &[String]| {
            names.iter().map(|name| format!(" {option} {}", shell_word(name))).collect::<String>()
        };
        let all = |option: &str, given: bool| if given { format!(" {option}") } else { String::new() };
        [
            named("--extra", &self.extra),
            named("--group", &self.group),
            all("--all-extras", self.all_extras),
            all("--all-groups", self.all_groups),
        ]
        .concat()
    }

    /// The options that select these parts.
    pub fn of(parts: impl IntoIterator<Item = Part>) -> PartArgs {
        let mut out = PartArgs::default();
        for part in parts {
            match part {
                Part::Extra(name) => out.extra.push(name),
                Part::Group(name) => out.group.push(name),
            }
        }
        out
    }

    /// Reads what [`Self::options`] wrote; words that it does not write are passed over.
    pub fn of_options(text: &str) -> PartArgs {
        let mut out = PartArgs::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--all-extras" => out.all_extras = true,
                "--all-groups" => out.all_groups = true,
                "--extra" => out.extra.extend(words.next().map(str::to_owned)),
                "--group" => out.group.extend(words.next().map(str::to_owned)),
                _ => {}
            }
        }
        out
    }

    /// Whether no extra or group is asked for.
    pub fn is_empty(&self) -> bool {
        self.extra.is_empty() && self.group.is_empty() && !self.all_extras && !self.all_groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_back() {
        let parts = PartArgs {
            extra: vec!["gpu".into()],
            group: vec!["dev".into(), "test-all".into()],
            all_extras: false,
            all_groups: true,
        };
        assert_eq!(parts.options(), " --extra gpu --group dev --group test-all --all-groups");
        assert_eq!(PartArgs::of_options(&parts.options()).options(), parts.options());
        assert!(PartArgs::of_options(" --unknown x --group").is_empty());
    }
}
