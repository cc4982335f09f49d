//! Channels as files state them: by name, or by an address of their own.

use crate::model::conda::channel_name;

/// Why a channel with an address is left out: another server may have another channel of that name.
pub(super) const ELSEWHERE: &str = "envlock.toml names channels of one server, whose address is ENVLOCK_CONDA_CHANNEL_ALIAS; this one has an address of its own";

/// The name of a channel that a file states, as [`channel_name`] has it. `None` also for another label, which is a channel of
/// its own.
pub(super) fn name_of_channel(text: &str) -> Option<String> {
    let name = channel_name(text)?;
    (!name.contains('/')).then(|| name.to_owned())
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
        }
    }
}
