//! The options that commands share, as clap reads them and as the session takes them.

use clap::builder::PossibleValue;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};

use super::parts::PartArgs;
use super::{BundleArgs, ExportArgs, GlobalArgs, HostArgs, InstallArgs, PlanArgs, ScheduleArgs, SolveArgs};
use crate::export::schedule::NodesBy;
use crate::session::bundle::BundleOptions;
use crate::session::export::{ExportOptions, Format, ScheduleOptions};
use crate::session::options::{Global, MachineOptions, Parts, ReportFormat, SolveOptions};
use crate::session::plan::PlanOptions;
use crate::session::sync::SyncOptions;
use crate::session::verify::{Only, SmokeChoice};

/// Lets a command have the settled options as a field: clap reads the arguments, which become them.
macro_rules! settled {
    ($($args:ident => $options:ident { $($field:ident),* $(,)? })*) => {$(
        impl From<$args> for $options {
            fn from($args { $($field),* }: $args) -> $options {
                $options { $($field),* }
            }
        }

        impl Args for $options {
            fn augment_args(command: Command) -> Command {
                $args::augment_args(command)
            }

            fn augment_args_for_update(command: Command) -> Command {
                $args::augment_args_for_update(command)
            }
        }

        impl FromArgMatches for $options {
            fn from_arg_matches(matches: &ArgMatches) -> Result<$options, Error> {
                $args::from_arg_matches(matches).map($options::from)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = $options::from_arg_matches(matches)?;
                Ok(())
            }
        }
    )*};
}

settled! {
    GlobalArgs => Global { project, registry, cache_dir, offline }
    HostArgs => MachineOptions { host, gpu, driver, glibc, platform }
    SolveArgs => SolveOptions { host, python, variant, cuda, only_index, index_url, no_sources, exclude_newer, strict_metadata, locked, check_hashes, format, upgrade, redetect, dry_run, stack_only, no_learn, force }
    ExportArgs => ExportOptions { format, output, target, all_targets, parts, loose, base, index_url, force, bundle, schedule }
    ScheduleArgs => ScheduleOptions { nodes_by, gpus, nodes, mig, job_image, admit_undecided }
    PlanArgs => PlanOptions { torch, image, lock, html, force, target, host, python, variant, only_index }
    PartArgs => Parts { extra, group, all_extras, all_groups }
    InstallArgs => SyncOptions { prefix, python, install_python, dry_run, exact, build, no_project, target, parts, index_url, bundle, pubkey }
    BundleArgs => BundleOptions { output, target, python, own_program, sign, build, since, wheelhouse, dry_run, index_url }
}

impl ValueEnum for ReportFormat {
    fn value_variants<'a>() -> &'a [ReportFormat] {
        use ReportFormat::*;
        &[Text, Json, Junit, Sarif, Github, Line, Prometheus]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            ReportFormat::Text => PossibleValue::new("text"),
            ReportFormat::Json => PossibleValue::new("json"),
            ReportFormat::Junit => PossibleValue::new("junit").help("JUnit XML"),
            ReportFormat::Sarif => PossibleValue::new("sarif").help("SARIF 2.1.0"),
            ReportFormat::Github => PossibleValue::new("github").help("GitHub workflow commands"),
            ReportFormat::Line => PossibleValue::new("line").help("One ASCII line of at most 80 bytes"),
            ReportFormat::Prometheus => PossibleValue::new("prometheus")
                .help("Metrics for Prometheus (node_exporter's textfile collector)"),
        })
    }
}

impl ValueEnum for SmokeChoice {
    fn value_variants<'a>() -> &'a [SmokeChoice] {
        use SmokeChoice::*;
        &[Auto, Cpu, Cuda, Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            SmokeChoice::Auto => {
                PossibleValue::new("auto").help("On every GPU, or on the CPU if there is none")
            }
            SmokeChoice::Cpu => PossibleValue::new("cpu").help("On the CPU"),
            SmokeChoice::Cuda => PossibleValue::new("cuda").help("On every GPU"),
            SmokeChoice::Off => PossibleValue::new("off").help("Do not run it"),
        })
    }
}

impl ValueEnum for Only {
    fn value_variants<'a>() -> &'a [Only] {
        &[Only::Machine, Only::Environment]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Only::Machine => PossibleValue::new("machine").help(
                "Is this machine sound? The driver, its two halves, every GPU; no lock, no environment",
            ),
            Only::Environment => PossibleValue::new("environment")
                .help("Is the environment as locked? Nothing about driver and GPUs"),
        })
    }
}

impl ValueEnum for NodesBy {
    fn value_variants<'a>() -> &'a [NodesBy] {
        &[NodesBy::Dra, NodesBy::Gfd, NodesBy::Gke, NodesBy::Karpenter]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            NodesBy::Dra => PossibleValue::new("dra")
                .help("NVIDIA's driver for dynamic resource allocation: driver and capability of each GPU"),
            NodesBy::Gfd => PossibleValue::new("gfd")
                .help("NVIDIA's GPU feature discovery: labels of nodes, for `nvidia.com/gpu`"),
            NodesBy::Gke => PossibleValue::new("gke")
                .help("Google's Kubernetes Engine: a label with the GPU; drivers are not published"),
            NodesBy::Karpenter => PossibleValue::new("karpenter").help("Karpenter on AWS: likewise"),
        })
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        &Format::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let about = self.about();
        let value = PossibleValue::new(about.name).aliases(about.alias);
        Some(match about.help {
            Some(help) => value.help(help),
            None => value,
        })
    }
}
