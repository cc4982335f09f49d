//! The names of channels as rattler has them: addresses.

/// Where channels are, in the records: never the address that served them.
const CANONICAL: &str = "https://conda.anaconda.org";

/// A channel as match specs and records name it.
pub(super) fn canonical(channel: &str) -> String {
    format!("{CANONICAL}/{channel}/")
}

/// The name of a channel that a record names.
pub(super) fn name_of(canonical: &str) -> &str {
    canonical.strip_prefix(CANONICAL).unwrap_or(canonical).trim_matches('/')
}
