//! Channels as files state them: by name, or by an address of their own.

use crate::model::conda::is_platform_folder;

/// Why a channel with an address is left out: another server may have another channel of that name.
pub(super) const ELSEWHERE: &str = "envlock.toml names channels of one server, whose address is ENVLOCK_CONDA_CHANNEL_ALIAS; this one has an address of its own";

/// The name of a channel that a file states: of `https://conda.anaconda.org/bioconda/linux-64` and `bioconda/label/main` it is
/// `bioconda`. `None` for another address, and for another label, which is a channel of its own.
pub(super) fn name_of_channel(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let path = match text.split_once("://") {
        None => text,
        Some((_, rest)) => rest.strip_prefix(HOST_OF_NAMES)?.strip_prefix('/')?,
    };
    let path =
        path.rsplit_once('/').filter(|(_, last)| is_platform_folder(last)).map_or(path, |(path, _)| path);
    let name = path.strip_suffix("/label/main").unwrap_or(path);
    (!name.contains(['/', ':', '\\'])).then(|| name.to_owned())
}

/// An address without its token: `https://host/t/TOKEN/channel`.
pub(super) fn without_token(text: &str) -> String {
    match text.split_once("/t/").map(|(before, after)| (before, after.split_once('/'))) {
        Some((before, Some((_, after)))) => format!("{before}/t/***/{after}"),
        Some((before, None)) => format!("{before}/t/***"),
        None => text.to_owned(),
    }
}

/// The server whose channels conda names without an address.
const HOST_OF_NAMES: &str = "conda.anaconda.org";

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
