//! What a command is asked, settled: the options of the command line, or those of a program that uses the library.

use std::path::PathBuf;

use crate::model::part::Part;
use crate::model::text::shell_word;

/// The options of every command.
#[derive(Debug, Clone, Default)]
pub struct Global {
    /// Project folder
    pub project: Option<PathBuf>,
    /// Use this registry instead of the program's; `embedded`: without its updates
    pub registry: Option<PathBuf>,
    /// Cache folder
    pub cache_dir: Option<PathBuf>,
    /// Do not use the network; answer from the cache
    pub offline: bool,
}

impl Global {
    /// What decides the answer, as it is given: ` --registry DIR --offline`. Of the project, `Printer::command` speaks.
    pub fn given(&self) -> String {
        let registry = self.registry.as_ref().map(|folder| folder.display().to_string());
        let registry = registry.map(|folder| format!(" --registry {}", shell_word(&folder)));
        let offline = if self.offline { " --offline" } else { "" };
        format!("{}{offline}", registry.unwrap_or_default())
    }
}

/// Which machine to solve for.
#[derive(Debug, Clone, Default)]
pub struct MachineOptions {
    /// Host file written by `envlock probe --save`
    pub host: Option<PathBuf>,
    /// GPU: product name, `sm_86`, `8.6`, or `none` (repeatable)
    pub gpu: Vec<String>,
    /// NVIDIA driver version, such as `535.129.03`
    pub driver: Option<String>,
    /// glibc version, such as `2.28`
    pub glibc: Option<String>,
    /// Platform, such as `linux-x86_64`
    pub platform: Option<String>,
}

impl MachineOptions {
    /// The options as they are given, for a command about the same machine: ` --gpu A100 --driver 535.129.03`.
    pub fn given(&self) -> String {
        let host = self.host.as_ref().map(|path| path.display().to_string());
        let gpus = self.gpu.iter().map(|gpu| ("--gpu", gpu.clone()));
        let others = [
            ("--host", host),
            ("--driver", self.driver.clone()),
            ("--glibc", self.glibc.clone()),
            ("--platform", self.platform.clone()),
        ];
        let others = others.into_iter().filter_map(|(option, value)| Some((option, value?)));
        others.chain(gpus).map(|(option, value)| format!(" {option} {}", shell_word(&value))).collect()
    }

    /// Whether the machine is this one, or any without a GPU: nothing else is said of it.
    pub fn may_be_this_machine(&self) -> bool {
        let is_any = self.gpu.iter().all(|gpu| gpu == "none");
        let others = [&self.driver, &self.glibc, &self.platform];
        is_any && self.host.is_none() && others.iter().all(|option| option.is_none())
    }

    /// Whether any option is given.
    pub fn describe_a_machine(&self) -> bool {
        self.host.is_some()
            || !self.gpu.is_empty()
            || self.driver.is_some()
            || self.glibc.is_some()
            || self.platform.is_some()
    }
}

/// How to solve.
#[derive(Debug, Clone, Default)]
pub struct SolveOptions {
    /// The machine
    pub host: MachineOptions,
    /// Python version, such as `3.12`
    pub python: Option<String>,
    /// CUDA variant, such as `cu126` or `cpu`
    pub variant: Option<String>,
    /// CUDA version: `12.6` for any 12.6, `13`, `>=12.4`
    pub cuda: Option<String>,
    /// Use only these indexes and channels: `pypi`, `pypi,conda-forge`
    pub only_index: Option<String>,
    /// URL of the index `pypi`
    pub index_url: Option<String>,
    /// Take no package from a source distribution
    pub no_sources: bool,
    /// Leave out files uploaded after this: `2026-11-01`, `2026-11-01T12:00:00Z`, `7 days`
    pub exclude_newer: Option<String>,
    /// Refuse source distributions whose requirements are not stated statically
    pub strict_metadata: bool,
    /// Check that the lock is current; write nothing
    pub locked: bool,
    /// Check that the lock is current, and ask the indexes whether they state its hashes; write nothing
    pub check_hashes: bool,
    /// With --locked: the format of the answer
    pub format: Option<ReportFormat>,
    /// Upgrade all packages, or only PKG
    pub upgrade: Vec<String>,
    /// Detect this machine again instead of using the one in the lock
    pub redetect: bool,
    /// Print the solution without writing files
    pub dry_run: bool,
    /// Solve only hardware, CUDA and framework builds, from the registry, without network or hashes
    pub stack_only: bool,
    /// Skip releases that the registry does not have, instead of reading their wheels
    pub no_learn: bool,
    /// Replace files that envlock did not write
    pub force: bool,
}

impl SolveOptions {
    /// Whether an option describes the machine or limits the answer.
    pub fn sets_limits(&self) -> bool {
        self.host.describe_a_machine() || !self.limits().is_empty()
    }

    /// The limits as they are given, for a command that asks the same: ` --python 3.12 --no-sources`.
    pub fn limits(&self) -> String {
        let texts = [
            ("--python", &self.python),
            ("--variant", &self.variant),
            ("--cuda", &self.cuda),
            ("--only-index", &self.only_index),
            ("--exclude-newer", &self.exclude_newer),
        ];
        let texts = texts.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
        let texts = texts.map(|(option, value)| format!(" {option} {}", shell_word(value)));
        let flags = [("--no-sources", self.no_sources), ("--strict-metadata", self.strict_metadata)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(option, _)| format!(" {option}"));
        texts.chain(flags).collect()
    }

    /// The machine and the limits as they are given, with the index: ` --gpu H100 --python 3.12`.
    pub fn given(&self) -> String {
        let index = self.index_url.as_ref().map(|url| format!(" --index-url {}", shell_word(url)));
        format!("{}{}{}", self.host.given(), self.limits(), index.unwrap_or_default())
    }

    /// What is solved and written, as it is given: ` --stack-only --dry-run`.
    pub fn modes(&self) -> String {
        let flags = [
            ("--stack-only", self.stack_only),
            ("--no-learn", self.no_learn),
            ("--redetect", self.redetect),
            ("--force", self.force),
            ("--dry-run", self.dry_run),
        ];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(option, _)| format!(" {option}"));
        let upgrades = self.upgrade.iter().map(|name| match name.as_str() {
            "" => " --upgrade".to_owned(),
            name => format!(" --upgrade={}", shell_word(name)),
        });
        flags.chain(upgrades).collect()
    }

    /// Whether the lock is checked and nothing is solved.
    pub fn only_checks(&self) -> bool {
        self.locked || self.check_hashes
    }
}

/// The extras and dependency groups of the lock that are installed.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// With an extra of the project
    pub extra: Vec<String>,
    /// With a dependency group of the project
    pub group: Vec<String>,
    /// With all extras
    pub all_extras: bool,
    /// With all dependency groups
    pub all_groups: bool,
}

impl Parts {
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
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Parts {
        let mut out = Parts::default();
        for part in parts {
            match part {
                Part::Extra(name) => out.extra.push(name),
                Part::Group(name) => out.group.push(name),
            }
        }
        out
    }

    /// Reads what [`Self::options`] wrote; words that it does not write are passed over.
    pub fn of_options(text: &str) -> Parts {
        let mut out = Parts::default();
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

/// A format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// Text for people
    Text,
    /// One JSON document
    Json,
    /// JUnit XML
    Junit,
    /// SARIF 2.1.0
    Sarif,
    /// GitHub workflow commands
    Github,
    /// One ASCII line of at most 80 bytes
    Line,
    /// Metrics for Prometheus (node_exporter's textfile collector)
    Prometheus,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_back() {
        let parts = Parts {
            extra: vec!["gpu".into()],
            group: vec!["dev".into(), "test-all".into()],
            all_extras: false,
            all_groups: true,
        };
        assert_eq!(parts.options(), " --extra gpu --group dev --group test-all --all-groups");
        assert_eq!(Parts::of_options(&parts.options()).options(), parts.options());
        assert!(Parts::of_options(" --unknown x --group").is_empty());
    }
}
