//! The conda part of a file kept as conda packages: `[conda]` of envlock.toml.

use super::channel::{ELSEWHERE, NO_CHANNEL};
use super::match_spec::Spec;
use super::translated::{Names, conda, is_translated};
use crate::formats::imported::{ImportError, Imported, Kept};
use crate::model::conda::{CONDA_FORGE, is_channel_name};
use crate::model::text::{channel_without_secrets, is_line};
use crate::registry::conda_names::{framework_of, is_channel_of_torch, is_of_anaconda};

/// Why a channel of Anaconda's is left out.
pub(super) const OF_ANACONDA: &str =
    "the channel is Anaconda's, whose terms of use ask companies for a licence; conda-forge has the packages";

/// Why a channel is left out that no client finds.
const NO_NAME: &str = "that is not the name of a channel";

/// Keeps the conda part of a file. Python, torch and what belongs to it become what envlock.toml has for them.
pub(super) fn keep(
    out: &mut Imported,
    names: &mut Names,
    (specs, channels): (&[String], &[String]),
    origin: &str,
) -> Result<(), ImportError> {
    let mut kept = Kept::default();
    let of_torch = |spec: &&String| {
        let package = Spec::of(spec).package.to_ascii_lowercase();
        framework_of(&package).is_some_and(|one| one.framework == "torch" && one.name != "pytorch-cuda")
    };
    // The channel `pytorch` has builds of its own, for which PyPI's are the newer ones.
    let is_of_old_channel = channels.iter().any(|own| names.channel(own).is_some_and(|own| own == "pytorch"));
    kept.has_stack = !is_of_old_channel && specs.iter().any(|spec| of_torch(&spec));
    keep_channels(out, names, channels, &mut kept);
    // What `conda env export` writes has a build for each package, and those of Anaconda's channels are not on conda-forge.
    let is_of_other_builds = channels.iter().any(|channel| names.is_of_anaconda(channel));
    let mut dropped = 0;
    for spec in specs {
        let Spec { channel, package, .. } = Spec::of(spec);
        let package = package.to_ascii_lowercase();
        if is_translated(&package, kept.has_stack) {
            conda(out, names, spec, origin)?;
            continue;
        }
        let plain = spec.rsplit_once("::").map_or(spec.as_str(), |(_, rest)| rest).trim();
        let bare = without_build(plain).filter(|_| is_of_other_builds && channel.is_none());
        dropped += usize::from(bare.is_some());
        let plain = bare.as_deref().unwrap_or(plain);
        let text = match channel.map(|channel| names.channel(channel)) {
            None => plain.to_owned(),
            Some(None) => {
                out.leave_out_because(&channel_without_secrets(spec), ELSEWHERE);
                continue;
            }
            Some(Some(name)) if is_of_anaconda(&name) || is_channel_of_torch(&name) => {
                let why = format!("its channel is not taken: the package is that of {CONDA_FORGE}");
                out.leave_out_because(&format!("{name}::{package}"), &why);
                plain.to_owned()
            }
            Some(Some(name)) if !is_channel_name(&name) => {
                out.leave_out_because(&channel_without_secrets(spec), NO_NAME);
                continue;
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
    if dropped > 0 {
        let why = "those of Anaconda's channels are on no other, and the file does not say which they are: the versions are kept";
        out.leave_out_because(&format!("the builds of {dropped} conda packages"), why);
    }
    names.leave_out_others(out);
    out.conda = Some(kept);
    Ok(())
}

/// The channels of a file that are kept; conda-forge in the place of those that are not taken.
fn keep_channels(out: &mut Imported, names: &mut Names, channels: &[String], kept: &mut Kept) {
    let mut is_without_defaults = false;
    for channel in channels {
        let mut leave_out =
            |why| out.leave_out_because(&format!("channels: {}", channel_without_secrets(channel)), why);
        match names.channel(channel) {
            _ if names.is_of_anaconda(channel) => {
                is_without_defaults = true;
                leave_out(OF_ANACONDA);
            }
            None => leave_out(ELSEWHERE),
            Some(name) if is_channel_of_torch(&name) => leave_out(match kept.has_stack {
                true => "torch and its CUDA come from conda-forge",
                false => "torch comes from PyPI and brings its CUDA",
            }),
            Some(name) if name.is_empty() || NO_CHANNEL.contains(&name.as_str()) => {}
            Some(name) if kept.channels.contains(&name) => {}
            Some(name) if !is_channel_name(&name) => leave_out(NO_NAME),
            Some(name) => kept.channels.push(name),
        }
    }
    let needs_conda_forge = kept.has_stack || is_without_defaults;
    if kept.channels.is_empty() || needs_conda_forge && !kept.channels.iter().any(|own| own == CONDA_FORGE) {
        kept.channels.push(CONDA_FORGE.to_owned());
    }
}

/// A match spec without the one build that it names: `numpy=1.26.4` of `numpy=1.26.4=py311h64a7726_0`. `None` for others, as
/// `pytorch=*=cuda*`.
fn without_build(spec: &str) -> Option<String> {
    let Spec { package, build, .. } = Spec::of(spec);
    let version = Spec::of(spec).written();
    let is_one = |text: &str| !text.contains(['*', '<', '>', '!', '~', '|', ',']);
    (build.is_some_and(is_one) && !version.is_empty() && is_one(version))
        .then(|| format!("{package}=={version}"))
}

/// Whether conda reads a match spec.
fn is_spec(text: &str) -> bool {
    #[cfg(feature = "conda")]
    return crate::conda::parse(text).is_ok() && !text.contains("://");
    #[cfg(not(feature = "conda"))]
    return !text.is_empty();
}
