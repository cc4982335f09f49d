//! The registry that is in the program: made by `build.rs` from the files of `registry/`.

use serde::de::DeserializeOwned;

use super::Cited;
use super::table::{Row, is_in};

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// The files, by path, with their texts.
pub(super) fn files() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// SHA-256 over the files.
pub(super) fn digest() -> &'static str {
    DIGEST
}

/// The rows of a table, in the order of the files. A test reads every table.
pub(super) fn rows<R: Row>() -> Vec<Cited<R>> {
    let mut rows = Vec::new();
    let is_of = |path: &str, table: &str| table == R::TABLE && is_in(path, R::STEM);
    for (path, _, json) in TABLES.iter().filter(|(path, table, _)| is_of(path, table)) {
        read_into(json, &mut rows).unwrap_or_else(|e| panic!("the registry was checked: {path}: {e}"));
    }
    rows
}

/// Reads a table of rows, or the one row of a table such as `[tegra]`.
pub(super) fn read_into<R: Row>(json: &str, rows: &mut Vec<Cited<R>>) -> Result<(), serde_json::Error> {
    match json.starts_with('[') {
        true => rows.extend(serde_json::from_str::<Vec<Cited<R>>>(json)?),
        false => rows.push(serde_json::from_str(json)?),
    }
    Ok(())
}

/// The value of a key at the top of a file.
pub(super) fn value<T: DeserializeOwned>(file: &str, key: &str) -> Option<T> {
    let (path, _, json) = TABLES.iter().find(|(path, table, _)| *path == file && *table == key)?;
    Some(serde_json::from_str(json).unwrap_or_else(|e| panic!("the registry was checked: {path}: {e}")))
}
