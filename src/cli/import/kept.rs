//! The conda part of a file kept as conda packages: `[conda]` of envlock.toml.

use super::Imported;
use super::match_spec::Spec;
use super::translated::{Names, conda, is_translated};
use crate::cli::error::CliError;
use crate::model::conda::CONDA_FORGE;
use crate::model::text::is_line;
use crate::registry::conda_names::{framework_of, is_of_anaconda};

/// Which packages a conda file becomes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum CondaPart {
    /// Those of PyPI where all of them are there, else conda's.
    #[default]
    Auto,
    /// conda's.
    Conda,
    /// PyPI's, without what is not there.
    Pypi,
}

/// What is kept as conda packages.
#[derive(Debug, Default, PartialEq)]
pub(in crate::cli) struct Kept {
    /// The channels, the most preferred first.
    pub channels: Vec<String>,
    /// Match specs.
    pub specs: Vec<String>,
    /// Whether torch comes from conda-forge.
    pub has_stack: bool,
}

/// Keeps the conda part of a file. Python, torch and what belongs to it become what envlock.toml has for them.
pub(super) fn keep(
    out: &mut Imported,
    names: &mut Names,
    (specs, channels): (&[String], &[String]),
    origin: &str,
) -> Result<(), CliError> {
    let mut kept = Kept::default();
    for channel in channels {
        let mut leave_out =
            |why| out.leave_out_because(&format!("channels: {}", without_token(channel)), why);
        match name_of_channel(channel) {
            None => leave_out(ELSEWHERE),
            Some(name) if is_of_anaconda(&name) => leave_out(
                "the channel is Anaconda's, whose terms of use ask companies for a licence; conda-forge has the packages",
            ),
            Some(name) if is_of_torch(&name) => {
                leave_out("torch comes from PyPI and brings its CUDA; the channel `pytorch` ended with 2.5.1")
            }
            Some(name) if ["nodefaults", "local", ""].contains(&name.as_str()) => {}
            Some(name) if kept.channels.contains(&name) => {}
            Some(name) => kept.channels.push(name),
        }
    }
    let of_torch = |spec: &&String| {
        let package = Spec::of(spec).package.to_ascii_lowercase();
        framework_of(&package).is_some_and(|one| one.framework == "torch" && one.name != "pytorch-cuda")
    };
    // The channel `pytorch` has builds of its own, for which PyPI's are the newer ones.
    let is_of_old_channel = channels.iter().any(|channel| channel == "pytorch");
    kept.has_stack = !is_of_old_channel && specs.iter().any(|spec| of_torch(&spec));
    if kept.channels.is_empty() || kept.has_stack && !kept.channels.iter().any(|own| own == CONDA_FORGE) {
        kept.channels.push(CONDA_FORGE.to_owned());
    }
    for spec in specs {
        let Spec { channel, package, .. } = Spec::of(spec);
        let package = package.to_ascii_lowercase();
        if is_translated(&package, kept.has_stack) {
            conda(out, names, spec, origin)?;
            continue;
        }
        let plain = spec.rsplit_once("::").map_or(spec.as_str(), |(_, rest)| rest).trim();
        let text = match channel.map(name_of_channel) {
            None => plain.to_owned(),
            Some(None) => {
                out.leave_out_because(&without_token(spec), ELSEWHERE);
                continue;
            }
            Some(Some(name)) if is_of_anaconda(&name) || is_of_torch(&name) => {
                let why = format!("its channel is not taken: the package is that of {CONDA_FORGE}");
                out.leave_out_because(&format!("{name}::{package}"), &why);
                plain.to_owned()
            }
            Some(Some(name)) => {
                if !kept.channels.contains(&name) {
                    kept.channels.push(name.clone());
                }
                format!("{name}::{plain}")
            }
        };
        let has_name = package.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        match has_name && is_line(&text) && is_spec(&text) {
            true => kept.specs.push(text),
            false => out.leave_out(spec),
        }
    }
    out.conda = Some(kept);
    Ok(())
}

/// Why a channel with an address is left out: another server may have another channel of that name.
const ELSEWHERE: &str = "envlock.toml names channels of one server, whose address is ENVLOCK_CONDA_CHANNEL_ALIAS; this one has an address of its own";

/// Whether a channel had torch of its own, or what torch's wheels bring.
fn is_of_torch(channel: &str) -> bool {
    ["pytorch", "nvidia"].contains(&channel)
}

/// The name of a channel that a file states: of `https://conda.anaconda.org/bioconda/linux-64` and `bioconda/label/main` it is
/// `bioconda`. `None` for another address, and for another label, which is a channel of its own.
fn name_of_channel(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let path = match text.split_once("://") {
        None => text,
        Some((_, rest)) => rest.strip_prefix(HOST_OF_NAMES)?.strip_prefix('/')?,
    };
    let is_platform = |part: &str| part == "noarch" || part.starts_with("linux-") || part.starts_with("osx-");
    let path = path.rsplit_once('/').filter(|(_, last)| is_platform(last)).map_or(path, |(path, _)| path);
    let name = path.strip_suffix("/label/main").unwrap_or(path);
    (!name.contains(['/', ':', '\\'])).then(|| name.to_owned())
}

/// An address without its token: `https://host/t/TOKEN/channel`.
fn without_token(text: &str) -> String {
    match text.split_once("/t/").map(|(before, after)| (before, after.split_once('/'))) {
        Some((before, Some((_, after)))) => format!("{before}/t/***/{after}"),
        Some((before, None)) => format!("{before}/t/***"),
        None => text.to_owned(),
    }
}

/// The server whose channels conda names without an address.
const HOST_OF_NAMES: &str = "conda.anaconda.org";

/// Whether a match spec names one build: `numpy=1.26.4=py311h64a7726_0`, not `pytorch=*=cuda*`.
pub(super) fn names_a_build(spec: &str) -> bool {
    let spec = Spec::of(spec);
    let is_one = |text: &str| !text.contains(['*', '<', '>', '!', '~', '|', ',']);
    spec.build.is_some_and(is_one) && !spec.written().is_empty() && is_one(spec.written())
}

/// Whether conda reads a match spec.
fn is_spec(text: &str) -> bool {
    #[cfg(feature = "conda")]
    return crate::conda::parse(text).is_ok();
    #[cfg(not(feature = "conda"))]
    return !text.is_empty();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_with_an_address_keep_no_name() {
        for (text, name) in [
            ("conda-forge", Some("conda-forge")),
            ("https://conda.anaconda.org/bioconda/linux-64/", Some("bioconda")),
            ("https://conda.anaconda.org/conda-forge", Some("conda-forge")),
            ("bioconda/label/main", Some("bioconda")),
            ("conda-forge/label/rust_dev", None),
            ("https://repo.example.com/conda/custom", None),
            ("https://repo.example.com/custom", None),
            ("https://conda.anaconda.org.example.com/custom", None),
            ("file:///srv/channel", None),
            ("C:\\channel", None),
            ("/srv/channel", None),
            ("https://conda.anaconda.org/t/token/mine", None),
        ] {
            assert_eq!(name_of_channel(text).as_deref(), name, "{text}");
            assert!(!without_token(text).contains("token"), "{text}");
        }
    }
}
