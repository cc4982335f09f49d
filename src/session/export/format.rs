//! The formats that a lock is exported to: how each is named, and how it begins.

use crate::export::{self, schedule};
use crate::formats::write;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// conda's environment.yml.
    Environment,
    /// pip's requirements.txt, with hashes.
    Requirements,
    /// What is built against a framework, to install after it.
    RequirementsBuild,
    /// What builds are held to.
    BuildConstraints,
    /// PEP 751.
    Pylock,
    /// A container image's.
    Dockerfile,
    /// conda's list of addresses.
    CondaExplicit,
    /// Tables for uv.
    Uv,
    /// pixi's manifest.
    Pixi,
    /// pixi's lock.
    PixiLock,
    /// A GitHub Actions workflow.
    Github,
    /// pre-commit's configuration.
    PreCommit,
    /// devcontainer.json.
    Devcontainer,
    /// A claim for GPUs, or an affinity.
    Kubernetes,
    /// A batch script.
    Slurm,
    /// A submit description.
    Htcondor,
}

/// What is known of a format beside its text.
pub struct About {
    /// Its name on the command line.
    pub name: &'static str,
    /// Another name of it.
    pub alias: Option<&'static str>,
    /// What it is, where the name does not say it.
    pub help: Option<&'static str>,
    /// The name of its file.
    pub file: &'static str,
    /// The start of every file of it that envlock writes.
    pub mark: &'static str,
    /// Whether it is made to be edited: the file states what it was when envlock wrote it.
    pub is_edited: bool,
}

impl Format {
    /// Every format, in the order of the help.
    pub const ALL: [Format; 16] = {
        use Format::*;
        [
            Environment,
            Requirements,
            RequirementsBuild,
            BuildConstraints,
            Pylock,
            Dockerfile,
            CondaExplicit,
            Uv,
            Pixi,
            PixiLock,
            Github,
            PreCommit,
            Devcontainer,
            Kubernetes,
            Slurm,
            Htcondor,
        ]
    };

    /// What is known of it.
    pub fn about(self) -> About {
        let plain = |name, mark| About { name, alias: None, help: None, file: name, mark, is_edited: false };
        let with_help = |name, mark, help| About { help: Some(help), ..plain(name, mark) };
        let edited = |name, mark, help| About { is_edited: true, ..with_help(name, mark, help) };
        match self {
            Format::Environment => plain("environment.yml", write::ENVIRONMENT_MARK),
            Format::Requirements => plain("requirements.txt", write::REQUIREMENTS_MARK),
            Format::RequirementsBuild => plain("requirements-build.txt", write::REQUIREMENTS_BUILD_MARK),
            Format::BuildConstraints => plain("build-constraints.txt", write::BUILD_CONSTRAINTS_MARK),
            Format::Pylock => plain("pylock.toml", write::PYLOCK_MARK),
            Format::Dockerfile => plain("Dockerfile", export::DOCKERFILE_MARK),
            Format::CondaExplicit => {
                let help = "conda's `@EXPLICIT` file: the conda packages by URL and hash";
                let file = "conda-explicit.txt";
                About { alias: Some(file), file, ..with_help("conda-explicit", write::EXPLICIT_MARK, help) }
            }
            Format::Uv => {
                let help = "Tables of pyproject.toml, by which uv resolves to what is locked";
                with_help("uv", write::UV_MARK, help)
            }
            Format::Pixi => {
                let file = "pixi.toml";
                About { alias: Some(file), file, ..with_help("pixi", write::PIXI_MARK, file) }
            }
            Format::PixiLock => {
                let help = "pixi.lock, of a lock with conda packages: every file by URL and hash";
                with_help("pixi.lock", write::PIXI_LOCK_MARK, help)
            }
            Format::Github => edited("github", export::GITHUB_MARK, "GitHub Actions workflow"),
            Format::PreCommit => edited("pre-commit", export::PRE_COMMIT_MARK, "Configuration of pre-commit"),
            Format::Devcontainer => edited("devcontainer", export::DEVCONTAINER_MARK, "devcontainer.json"),
            Format::Kubernetes => {
                let help = "GPUs that run the lock: a claim (resource.k8s.io/v1), or an affinity to labels";
                About { file: "kubernetes.yaml", ..with_help("kubernetes", schedule::KUBERNETES_MARK, help) }
            }
            Format::Slurm => {
                let help = "Batch script for the nodes of `[schedule.slurm]` that run the lock";
                About { file: "job.sh", ..with_help("slurm", schedule::SLURM_MARK, help) }
            }
            Format::Htcondor => {
                let help = "Submit description with the GPUs that run the lock";
                About { file: "job.sub", ..with_help("htcondor", schedule::HTCONDOR_MARK, help) }
            }
        }
    }
}
