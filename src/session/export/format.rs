//! The formats that a lock is exported to: how each is named, and how it begins.

use crate::export;
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

/// Every format, in the order of the help.
const ALL: [(Format, About); 13] = {
    const fn plain(name: &'static str, mark: &'static str) -> About {
        About { name, alias: None, help: None, file: name, mark, is_edited: false }
    }
    [
        (Format::Environment, plain("environment.yml", write::ENVIRONMENT_MARK)),
        (Format::Requirements, plain("requirements.txt", write::REQUIREMENTS_MARK)),
        (Format::RequirementsBuild, plain("requirements-build.txt", write::REQUIREMENTS_BUILD_MARK)),
        (Format::BuildConstraints, plain("build-constraints.txt", write::BUILD_CONSTRAINTS_MARK)),
        (Format::Pylock, plain("pylock.toml", write::PYLOCK_MARK)),
        (Format::Dockerfile, plain("Dockerfile", export::DOCKERFILE_MARK)),
        (
            Format::CondaExplicit,
            About {
                alias: Some("conda-explicit.txt"),
                help: Some("conda's `@EXPLICIT` file: the conda packages by URL and hash"),
                file: "conda-explicit.txt",
                ..plain("conda-explicit", write::EXPLICIT_MARK)
            },
        ),
        (
            Format::Uv,
            About {
                help: Some("Tables of pyproject.toml, by which uv resolves to what is locked"),
                ..plain("uv", write::UV_MARK)
            },
        ),
        (
            Format::Pixi,
            About {
                alias: Some("pixi.toml"),
                help: Some("pixi.toml"),
                file: "pixi.toml",
                ..plain("pixi", write::PIXI_MARK)
            },
        ),
        (
            Format::PixiLock,
            About {
                help: Some("pixi.lock, of a lock with conda packages: every file by URL and hash"),
                ..plain("pixi.lock", write::PIXI_LOCK_MARK)
            },
        ),
        (
            Format::Github,
            About {
                help: Some("GitHub Actions workflow"),
                is_edited: true,
                ..plain("github", export::GITHUB_MARK)
            },
        ),
        (
            Format::PreCommit,
            About {
                help: Some("Configuration of pre-commit"),
                is_edited: true,
                ..plain("pre-commit", export::PRE_COMMIT_MARK)
            },
        ),
        (
            Format::Devcontainer,
            About {
                help: Some("devcontainer.json"),
                is_edited: true,
                ..plain("devcontainer", export::DEVCONTAINER_MARK)
            },
        ),
    ]
};

impl Format {
    /// Every format, in the order of the help.
    pub const ALL: [Format; ALL.len()] = {
        let mut out = [Format::Environment; ALL.len()];
        let mut i = 0;
        while i < out.len() {
            out[i] = ALL[i].0;
            i += 1;
        }
        out
    };

    /// What is known of it.
    pub fn about(self) -> &'static About {
        static ROWS: [(Format, About); ALL.len()] = ALL;
        &ROWS[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_row() {
        for (i, (format, _)) in ALL.iter().enumerate() {
            assert_eq!(*format as usize, i, "{format:?}");
        }
    }
}
