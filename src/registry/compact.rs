//! A checked registry as JSON: what `registry update` stored is read on each run without being parsed and checked again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rows::Meta;
use super::table::{Row, Rows, is_in};
use super::tables::Tables;
use super::{Cited, Parts, Registry, document, embedded};

/// The length of the shortest row as JSON: `{"evidence":"","source":[]}`.
const SHORTEST_ROW: usize = 27;

/// The tables of a registry.
#[derive(Serialize, Deserialize)]
struct Compact {
    /// The program that checked it.
    program: String,
    /// The digest of the rows.
    sha256: String,
    schema: String,
    date: String,
    sources: BTreeMap<String, String>,
    /// File, table, how many rows it has, and the rows.
    tables: Vec<(String, String, usize, Box<RawValue>)>,
}

/// The program: another one may read rows otherwise.
fn program() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), embedded::digest())
}

impl Registry {
    /// The registry as [`Registry::from_compact`] of the same program reads it.
    ///
    /// # Errors
    /// Its files are not at hand.
    pub fn to_compact(&self) -> Result<String, String> {
        let meta = self.meta();
        let mut tables = Vec::new();
        for file in self.files() {
            for table in document::tables(&file.text).map_err(|e| e.message().to_owned())? {
                let rows = RawValue::from_string(table.json).map_err(|e| e.to_string())?;
                tables.push((file.path.to_string(), table.name, table.rows, rows));
            }
        }
        let compact = Compact {
            program: program(),
            sha256: self.digest().to_owned(),
            schema: meta.schema.to_string(),
            date: meta.date.clone(),
            sources: self.sources().clone(),
            tables,
        };
        serde_json::to_string(&compact).map_err(|e| e.to_string())
    }

    /// Reads a registry that this program has checked. It has no [`Registry::files`].
    ///
    /// # Errors
    /// It is of another program, is not the one with this digest, or is damaged.
    pub fn from_compact(text: &str, sha256: &str) -> Result<Registry, String> {
        let mut compact: Compact = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if compact.program != program() || compact.sha256 != sha256 {
            return Err("it was made by another program, or of other data".to_owned());
        }
        let meta = Meta::new(&compact.schema, Some(&compact.date), &compact.sources)?;
        let tables = Tables::read(&mut compact)?;
        if tables.tegra.get().is_none_or(Vec::is_empty) {
            return Err("the table `tegra` is missing".to_owned());
        }
        let (meta, sources, digest) = (meta.into(), compact.sources.into(), compact.sha256.into());
        let parts = Parts { meta, sources, digest, tables, ..Parts::default() };
        Ok(Registry { parts: Arc::new(parts), stack: None })
    }
}

impl Rows for Compact {
    fn rows<R: Row>(&mut self) -> Result<Vec<Cited<R>>, String> {
        let is_of = |path: &str, table: &str| table == R::TABLE && is_in(path, R::STEM);
        let of_table = self.tables.iter().filter(|(path, table, ..)| is_of(path, table));
        let mut all = Vec::new();
        for (path, _, rows, json) in of_table {
            // The count is not checked: more rows than the text can have are not made room for.
            all.reserve((*rows).min(json.get().len() / SHORTEST_ROW));
            embedded::read_into(json.get(), &mut all).map_err(|e| format!("{path}: {e}"))?;
        }
        Ok(all)
    }
}
