//! The variables of the environment: nothing else of the session reads them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// A variable as it is.
pub(crate) fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A variable that is text.
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A variable that names a path; an empty one names none.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    raw(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The paths of a variable that lists some, such as `PATH`.
pub(crate) fn paths(name: &str) -> Vec<PathBuf> {
    raw(name).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default()
}

/// A variable that is a number.
pub(crate) fn number<N: FromStr>(name: &str) -> Option<N> {
    text(name)?.parse().ok()
}

/// All variables.
pub(crate) fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}
