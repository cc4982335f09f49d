//! What packages of conda channels are on PyPI: `registry/conda/*.txt`, from prefix-dev/parselmouth.
//!
//! A conda package and PyPI's package of the same name can be different programs: conda-forge's `xz` is the compressor.
//! The lists hold only the names that differ, in ascending order, so a look-up parses nothing.

use crate::model::text::normalized_name;

/// What a package of a conda channel is on PyPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPypi {
    /// A package of this name.
    Named(&'static str),
    /// Nothing: the conda package holds no Python package.
    Nothing,
    /// The lists know no other name, so the package of the same name.
    SameName,
}

/// A conda package of a framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfFramework {
    /// conda's name: `pytorch`.
    pub name: &'static str,
    /// The framework: `torch`, `tensorflow`, `jax`.
    pub framework: &'static str,
    /// Whether the package has the GPU code itself.
    pub has_code: bool,
}

const ANACONDA: &str = include_str!("../../registry/conda/anaconda-channels.txt");
const CHANNELS: &str = include_str!("../../registry/conda/channels.txt");
const FRAMEWORKS: &str = include_str!("../../registry/conda/frameworks.txt");
const CONDA_FORGE: &str = include_str!("../../registry/conda/conda-forge.txt");
const BIOCONDA: &str = include_str!("../../registry/conda/bioconda.txt");

/// Looks a package up in the list of a channel; channels without one are taken for conda-forge, whose names they share.
pub fn on_pypi(channel: &str, package: &str) -> OnPypi {
    let list = if channel == "bioconda" { BIOCONDA } else { CONDA_FORGE };
    let Some((_, pypi)) = find(list, package) else { return OnPypi::SameName };
    match pypi {
        "" => OnPypi::Nothing,
        name => OnPypi::Named(name),
    }
}

/// The name on PyPI of what a conda package installs, if it installs a Python package. Whether it does is also in its
/// requirements ([`is_python_package`](crate::model::conda::is_python_package)); the lists do not know every package.
pub fn pypi_name(channel: &str, package: &str) -> Option<String> {
    match on_pypi(channel, package) {
        OnPypi::Named(name) => Some(name.to_owned()),
        OnPypi::SameName => Some(normalized_name(package)),
        OnPypi::Nothing => None,
    }
}

/// The conda packages of frameworks: `registry/conda/frameworks.txt`.
pub fn framework_packages() -> impl Iterator<Item = OfFramework> {
    FRAMEWORKS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split(' ');
        let (name, framework) = (words.next()?, words.next()?);
        Some(OfFramework { name, framework, has_code: words.next() == Some("code") })
    })
}

/// The framework that a conda package belongs to.
pub fn framework_of(package: &str) -> Option<OfFramework> {
    framework_packages().find(|one| one.name == package)
}

/// Whether a channel is one of Anaconda's, by the first part of its name or the server in its address:
/// `registry/conda/anaconda-channels.txt`.
pub fn is_of_anaconda(channel: &str) -> bool {
    let channel = channel.trim().trim_matches('/');
    let path = channel.split_once("://").map_or(channel, |(_, path)| path);
    let first = path.split('/').next().unwrap_or(path);
    let first = first.rsplit_once('@').map_or(first, |(_, host)| host);
    ANACONDA.lines().any(|line| line.eq_ignore_ascii_case(first) && !line.starts_with('#'))
}

/// Whether the names of a channel's packages are known: `registry/conda/channels.txt`, and Anaconda's channels.
pub fn has_known_names(channel: &str) -> bool {
    is_of_anaconda(channel) || known_channel(channel).is_some()
}

/// Whether a channel has builds of torch, or the CUDA for them: `registry/conda/channels.txt`.
pub fn is_channel_of_torch(channel: &str) -> bool {
    known_channel(channel).is_some_and(|what| what == "torch")
}

/// What `registry/conda/channels.txt` says of a channel, or of one of its labels, behind the name.
fn known_channel(channel: &str) -> Option<&'static str> {
    let first = channel.split('/').next().unwrap_or(channel);
    let lines = CHANNELS.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .find(|(name, _)| *name == first)
        .map(|(_, what)| what)
}

/// The line of a name: binary search over the text, whose lines are in ascending order below the comment.
fn find<'t>(list: &'t str, package: &str) -> Option<(&'t str, &'t str)> {
    let (mut from, mut to) = (0, list.len());
    while from < to {
        let middle = list.as_bytes()[from..from + (to - from) / 2].iter().rposition(|b| *b == b'\n');
        let start = middle.map_or(from, |at| from + at + 1);
        let end = list[start..].find('\n').map_or(list.len(), |at| start + at);
        let line = &list[start..end];
        let (name, pypi) = line.split_once(' ').unwrap_or((line, ""));
        let order = if line.starts_with('#') { std::cmp::Ordering::Less } else { name.cmp(package) };
        match order {
            std::cmp::Ordering::Equal => return Some((name, pypi)),
            std::cmp::Ordering::Less => from = (end + 1).min(to),
            std::cmp::Ordering::Greater => to = start,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found() {
        for (channel, list) in [("conda-forge", CONDA_FORGE), ("bioconda", BIOCONDA)] {
            let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(lines.len() > 5000 && list.is_ascii());
            for pair in lines.windows(2) {
                let name = |line: &'static str| line.split(' ').next();
                assert!(name(pair[0]) < name(pair[1]), "{pair:?}");
            }
            for line in lines {
                let (name, expected) = match line.split_once(' ') {
                    Some((name, pypi)) => (name, OnPypi::Named(pypi)),
                    None => (line, OnPypi::Nothing),
                };
                assert_eq!(on_pypi(channel, name), expected, "{channel}: {name}");
            }
        }
    }

    #[test]
    fn frameworks() {
        for one in framework_packages() {
            assert!(["torch", "tensorflow", "jax"].contains(&one.framework), "{one:?}");
            assert_eq!(framework_of(one.name), Some(one));
        }
        assert!(framework_of("libtorch").is_some_and(|one| one.has_code && one.framework == "torch"));
        assert!(framework_of("pytorch-gpu").is_some_and(|one| !one.has_code));
        assert_eq!(framework_of("numpy"), None);
    }

    #[test]
    fn names() {
        for (channel, package, expected) in [
            ("conda-forge", "matplotlib-base", OnPypi::Named("matplotlib")),
            ("pytorch", "pytorch", OnPypi::Named("torch")),
            ("conda-forge", "openmpi", OnPypi::Nothing),
            ("bioconda", "samtools", OnPypi::Nothing),
            ("conda-forge", "samtools", OnPypi::SameName),
            ("conda-forge", "numpy", OnPypi::SameName),
            // A metapackage whose content another spelling holds.
            ("conda-forge", "typing-extensions", OnPypi::SameName),
            ("conda-forge", "", OnPypi::SameName),
            ("conda-forge", "#", OnPypi::SameName),
            ("conda-forge", "zzzzzz", OnPypi::SameName),
            ("conda-forge", "\u{e9}", OnPypi::SameName),
        ] {
            assert_eq!(on_pypi(channel, package), expected, "{channel}::{package}");
        }
    }

    #[test]
    fn channels_by_what_they_have() {
        for (channel, is_known, is_of_torch) in [
            ("conda-forge", true, false),
            ("bioconda", true, false),
            ("defaults", true, false),
            ("pytorch", true, true),
            ("nvidia/label/cuda-11.8.0", true, true),
            ("mycorp", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (has_known_names(channel), is_channel_of_torch(channel)),
                (is_known, is_of_torch),
                "{channel}"
            );
        }
    }

    #[test]
    fn channels_of_anaconda() {
        for channel in [
            "defaults",
            "main",
            "pkgs/main",
            "anaconda/label/x",
            "https://repo.anaconda.com/pkgs/main",
            "https://u:p@repo.anaconda.com/pkgs/r/",
        ] {
            assert!(is_of_anaconda(channel), "{channel}");
        }
        for channel in
            ["conda-forge", "https://h.example/main", "https://myrepo.anaconda.com/x", "mainline", ""]
        {
            assert!(!is_of_anaconda(channel), "{channel}");
        }
    }
}
