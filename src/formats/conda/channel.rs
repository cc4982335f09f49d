//! Channels as files state them: by name, or by an address of their own.

use crate::model::conda::channel_name;
use crate::registry::conda_names::has_known_names;

/// Why a channel with an address is left out: another server may have another channel of that name.
pub(super) const ELSEWHERE: &str = "envlock.toml names channels of one server, whose address is ENVLOCK_CONDA_CHANNEL_ALIAS; this one has an address of its own";

/// The name of a channel that a file states, as [`channel_name`] has it, also for an address below that of the channels.
/// `alias`: what names of channels are appended to.
pub(super) fn name_of_channel(alias: &str, text: &str) -> Option<String> {
    let below = text.trim().strip_prefix(alias.trim_end_matches('/')).and_then(|path| path.strip_prefix('/'));
    channel_name(below.unwrap_or(text)).map(str::to_owned)
}

/// Words of conda that stand where a channel does.
pub(super) const NO_CHANNEL: [&str; 2] = ["nodefaults", "local"];

/// Whether the names of the packages of a channel that a file states are known.
pub(super) fn names_are_known(alias: &str, channel: &str) -> bool {
    name_of_channel(alias, channel)
        .is_some_and(|name| has_known_names(&name) || NO_CHANNEL.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::conda::CONDA_CHANNELS;

    #[test]
    fn channels_with_an_address_keep_no_name() {
        for (text, name) in [
            ("conda-forge", Some("conda-forge")),
            ("https://conda.anaconda.org/bioconda/linux-64/", Some("bioconda")),
            ("https://conda.anaconda.org/conda-forge", Some("conda-forge")),
            ("bioconda/label/main", Some("bioconda")),
            ("conda-forge/label/rust_dev", Some("conda-forge/label/rust_dev")),
            ("https://conda.anaconda.org/nvidia/label/cuda-11.8.0", Some("nvidia/label/cuda-11.8.0")),
            ("https://repo.example.com/conda/custom", None),
            ("https://repo.example.com/custom", None),
            ("https://conda.anaconda.org.example.com/custom", None),
            ("file:///srv/channel", None),
            ("C:\\channel", None),
            ("/srv/channel", None),
            ("https://conda.anaconda.org/t/token/mine", None),
        ] {
            assert_eq!(name_of_channel(CONDA_CHANNELS, text).as_deref(), name, "{text}");
        }
    }
}
