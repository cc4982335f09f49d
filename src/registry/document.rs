//! A file of the registry as TOML, with the file's defaults in its rows; and its tables as JSON, which is read ten times
//! faster. Used by the build script, too.

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};

/// What a file may state once for all its rows, in the table `default`.
pub const DEFAULTS: [&str; 2] = ["evidence", "source"];

/// How many sources a row has at most.
pub const MOST_SOURCES: usize = 20;

/// Parses a file. Each row that does not state its evidence or its source has those of the file's table `default`. What
/// else `default` has remains in it.
pub fn parse(text: &str) -> Result<DeTable<'_>, Error> {
    let mut document = DeTable::parse(text)?.into_inner();
    let Some(DeValue::Table(default)) = document.get_mut("default").map(Spanned::get_mut) else {
        return Ok(document);
    };
    // A long list in each of many rows would fill the memory.
    let is_short = |key: &&&str| {
        default.get(**key).is_some_and(|value| match value.get_ref() {
            DeValue::Array(ids) => ids.len() <= MOST_SOURCES,
            _ => true,
        })
    };
    let keys: Vec<&str> = DEFAULTS.iter().filter(is_short).copied().collect();
    let shared: Vec<_> = keys.into_iter().filter_map(|key| default.remove_entry(key)).collect();
    if default.is_empty() {
        document.remove("default");
    }
    for (_, value) in document.iter_mut().filter(|(name, _)| name.get_ref() != "default") {
        let rows = match value.get_mut() {
            DeValue::Array(rows) => rows.iter_mut().collect(),
            _ => vec![value],
        };
        for row in rows {
            let DeValue::Table(row) = row.get_mut() else { continue };
            for (key, value) in &shared {
                if !row.contains_key(key.get_ref().as_ref()) {
                    row.insert(key.clone(), value.clone());
                }
            }
        }
    }
    Ok(document)
}

/// A table of a file.
pub struct Table {
    pub name: String,
    /// How many rows it has; 1 for a table that is no list.
    pub rows: usize,
    pub json: String,
}

/// The tables of a file.
pub fn tables(text: &str) -> Result<Vec<Table>, Error> {
    let table = |(name, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let value = toml::Value::deserialize(ValueDeserializer::from(value))?;
        let name: std::borrow::Cow<'_, str> = name.into_inner();
        Ok(Table {
            name: name.into_owned(),
            rows: value.as_array().map_or(1, Vec::len),
            json: serde_json::to_string(&value).expect("TOML is JSON"),
        })
    };
    parse(text)?.into_iter().map(table).collect()
}

/// The line of a byte offset, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}
