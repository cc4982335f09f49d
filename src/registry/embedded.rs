//! The registry that is in the program: made by `build.rs` from the files of `registry/`.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};

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
    let is_of = |path: &str, table: &str| table == R::TABLE && is_in(path, R::STEM);
    let of_table = || TABLES.iter().filter(|(path, table, ..)| is_of(path, table));
    // A list that grows is copied, and each of its sizes takes pages of its own.
    let mut rows = Vec::with_capacity(of_table().map(|(_, _, rows, _)| rows).sum());
    for (path, _, _, json) in of_table() {
        read_into(json, &mut rows).unwrap_or_else(|e| panic!("the registry was checked: {path}: {e}"));
    }
    rows
}

/// Reads a table of rows, or the one row of a table such as `[tegra]`.
pub(super) fn read_into<R: Row>(json: &str, rows: &mut Vec<Cited<R>>) -> Result<(), serde_json::Error> {
    if !json.starts_with('[') {
        rows.push(serde_json::from_str(json)?);
        return Ok(());
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_seq(Onto(rows))?;
    reader.end()
}

/// Puts the rows of a list behind those that there are.
struct Onto<'v, R>(&'v mut Vec<Cited<R>>);

impl<'de, R: Row> Visitor<'de> for Onto<'_, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element()? {
            self.0.push(row);
        }
        Ok(())
    }
}

/// The value of a key at the top of a file.
pub(super) fn value<T: DeserializeOwned>(file: &str, key: &str) -> Option<T> {
    let (path, _, _, json) = TABLES.iter().find(|(path, table, ..)| *path == file && *table == key)?;
    Some(serde_json::from_str(json).unwrap_or_else(|e| panic!("the registry was checked: {path}: {e}")))
}
