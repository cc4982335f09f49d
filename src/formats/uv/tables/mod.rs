//! What envlock writes into the `pyproject.toml` of a project whose packages uv holds: which builds of the stack uv takes,
//! and where they come from. Everything else is uv's to choose.
//!
//! Each entry ends with the comment `# envlock`. Such entries are replaced by the next run; all others are the user's.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pep508_rs::MarkerTree;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::formats::own_entries::{Entries, OWN, in_its_form, is_own};
use crate::formats::written::{ExportError, address};
use crate::lockfile::Target;
use crate::model::listing::Listing;
use crate::model::marker::marker_environment;
use crate::model::platform::{Arch, Os, Platform};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::model::wheel::Python;

/// Why the tables cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UvError {
    /// The lock cannot be expressed.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The file is not TOML.
    #[error("pyproject.toml: {0}")]
    Syntax(String),
    /// A key has another type than uv reads.
    #[error("pyproject.toml: `{0}` is not what uv reads there")]
    Type(&'static str),
    /// Two targets are for one platform and have different builds: uv has one per platform.
    #[error(
        "the targets `{first}` and `{second}` are for one platform and need different builds of `{package}`"
    )]
    TwoBuilds {
        /// The first target.
        first: String,
        /// The second target.
        second: String,
        /// The package.
        package: String,
    },
    /// The user says where a package comes from, and the stack needs it from somewhere else.
    #[error(
        "pyproject.toml: `[tool.uv.sources]` takes `{package}` from {theirs}, and the stack needs it from {ours}"
    )]
    OtherSource {
        /// The package.
        package: String,
        /// What the user wrote: `the index "pytorch-cu126"`.
        theirs: String,
        /// The address of the index of the chosen build.
        ours: String,
    },
}

/// What uv is told of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pin {
    package: String,
    /// `2.9.1+cu128`
    version: String,
    /// Where it is installed so.
    marker: String,
    platform: Platform,
    python: Python,
    /// The name and the address of its index, if that is not the default one.
    index: Option<(String, String)>,
}

/// What envlock writes for uv.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UvTables {
    pins: BTreeSet<Pin>,
    constraints: Vec<String>,
    overrides: Vec<String>,
}

/// The Pythons for which uv takes the chosen builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that the project allows.
    EveryPython,
    /// The locked series and newer ones.
    FromTheSeries,
    /// The locked series.
    TheSeries,
}

impl UvTables {
    /// The packages of all targets, which have those of the stack alone ([`Target::of_the_stack`]). `addresses`: the URLs of the indexes by name.
    ///
    /// # Errors
    /// When two targets for one platform need different builds, or an index has no URL.
    pub fn of(targets: &[Target], addresses: &[(String, String)], scope: Scope) -> Result<UvTables, UvError> {
        let mut pins = BTreeSet::new();
        let mut builds: BTreeMap<(String, String), (String, &str)> = BTreeMap::new();
        for target in targets {
            let mut marker = marker(target);
            let minor = target.python.minor;
            match scope {
                Scope::EveryPython => {}
                Scope::FromTheSeries => marker.push_str(&format!(" and python_version >= '3.{minor}'")),
                Scope::TheSeries => marker.push_str(&format!(" and python_version == '3.{minor}'")),
            }
            for package in &target.packages {
                let Source::Index(index) = &package.source else { continue };
                let version = package.version.to_string();
                let place = (target.platform.to_string(), package.name.clone());
                let build = format!("{version} {index}");
                match builds.get(&place) {
                    Some((other, first)) if *other != build => {
                        return Err(UvError::TwoBuilds {
                            first: (*first).to_owned(),
                            second: target.name.clone(),
                            package: package.name.clone(),
                        });
                    }
                    _ => builds.insert(place, (build, &target.name)),
                };
                let index = match index.as_str() {
                    "pypi" => None,
                    index => Some((index.replace('/', "-"), address(addresses, index, &package.name)?)),
                };
                let (platform, python) = (target.platform, target.python);
                let (package, marker) = (package.name.clone(), marker.clone());
                pins.insert(Pin { package, version, marker, platform, python, index });
            }
        }
        Ok(UvTables { pins, ..UvTables::default() })
    }

    /// The tables with bounds of the manifest: constraints, and what replaces requirements.
    #[must_use]
    pub fn with_bounds(self, constraints: &[String], overrides: &[String]) -> UvTables {
        UvTables { constraints: constraints.to_vec(), overrides: overrides.to_vec(), ..self }
    }

    /// A `pyproject.toml` with these tables instead of those that an earlier run wrote.
    ///
    /// # Errors
    /// When the text is not TOML, a table of uv is something else, or the user's entries say something else.
    pub fn written_into(&self, text: &str) -> Result<String, UvError> {
        in_its_form(text, &|text| self.written(text))
    }

    fn written(&self, text: &str) -> Result<String, UvError> {
        let mut document: DocumentMut =
            text.parse().map_err(|e: toml_edit::TomlError| UvError::Syntax(clean(e.message(), 200)))?;
        let tool = table_in(document.as_table_mut(), "tool", "tool", true)?;
        let uv = table_in(tool, "uv", "tool.uv", false)?;
        let names = self.write_indexes(uv)?;
        self.write_sources(uv, &names)?;
        let pins = self.pins.iter().map(|pin| format!("{}=={}; {}", pin.package, pin.version, pin.marker));
        let constraints: Vec<String> = self.constraints.iter().cloned().chain(pins).collect();
        write_list(uv, ("constraint-dependencies", "tool.uv.constraint-dependencies"), &constraints)?;
        write_list(uv, ("override-dependencies", "tool.uv.override-dependencies"), &self.overrides)?;
        let is_empty = uv.is_empty();
        if is_empty {
            tool.remove("uv");
        }
        if tool.is_empty() {
            document.remove("tool");
        }
        Ok(document.to_string())
    }

    /// Writes the indexes. Returns the name of each address: the user's, where the user has it.
    #[expect(clippy::map_err_ignore, reason = "the item that was not converted says no more than its type")]
    fn write_indexes(&self, uv: &mut dyn TableLike) -> Result<BTreeMap<String, String>, UvError> {
        const KEY: &str = "tool.uv.index";
        let mut indexes = match uv.get("index").cloned() {
            None => ArrayOfTables::new(),
            Some(item) => item.into_array_of_tables().map_err(|_| UvError::Type(KEY))?,
        };
        let had = indexes.len();
        indexes.retain(|table| !is_own(table.decor().suffix()));
        let mut is_changed = indexes.len() != had;
        let text = |table: &Table, key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for table in indexes.iter() {
            let name = text(table, "name");
            taken.extend(name.clone());
            if let (Some(name), Some(url)) = (name, text(table, "url")) {
                names.entry(plain(&url)).or_insert(name);
            }
        }
        let ours: BTreeMap<&str, &str> = self
            .pins
            .iter()
            .filter_map(|pin| pin.index.as_ref())
            .map(|(n, url)| (url.as_str(), n.as_str()))
            .collect();
        for (url, name) in ours {
            if names.contains_key(&plain(url)) {
                continue;
            }
            let mut own = name.to_owned();
            while taken.contains(&own) {
                own.insert_str(0, "envlock-");
            }
            let mut table = Table::new();
            table.insert("name", Item::Value(Value::from(own.clone())));
            table.insert("url", Item::Value(Value::from(url)));
            if Listing::of_address(url) == Listing::Links {
                table.insert("format", Item::Value(Value::from("flat")));
            }
            // Without it, uv would take every package from this index that the index has.
            table.insert("explicit", Item::Value(Value::from(true)));
            table.decor_mut().set_prefix("\n");
            table.decor_mut().set_suffix(format!(" {OWN}"));
            taken.insert(own.clone());
            names.insert(plain(url), own);
            indexes.push(table);
            is_changed = true;
        }
        // An inline array stays one where nothing is added to it.
        if is_changed {
            uv.remove("index");
            if !indexes.is_empty() {
                uv.insert("index", Item::ArrayOfTables(indexes));
            }
        }
        Ok(names)
    }

    #[expect(clippy::map_err_ignore, reason = "the item that was not converted says no more than its type")]
    fn write_sources(&self, uv: &mut dyn TableLike, names: &BTreeMap<String, String>) -> Result<(), UvError> {
        const KEY: &str = "tool.uv.sources";
        let mut sources = match uv.get("sources").cloned() {
            None => Table::new(),
            Some(item) => item.into_table().map_err(|_| UvError::Type(KEY))?,
        };
        let own: Vec<String> = sources
            .iter()
            .filter(|(_, item)| item.as_value().is_some_and(|value| is_own(value.decor().suffix())))
            .map(|(key, _)| key.to_owned())
            .collect();
        let mut is_changed = !own.is_empty();
        for key in own {
            sources.remove(&key);
        }
        let mut by_package: BTreeMap<&str, Vec<(&Pin, &str, &str)>> = BTreeMap::new();
        for pin in &self.pins {
            let Some((_, url)) = &pin.index else { continue };
            let name = names.get(&plain(url)).map_or("", String::as_str);
            by_package.entry(&pin.package).or_default().push((pin, url, name));
        }
        for (package, pins) in by_package {
            let theirs = sources.iter().find(|(key, _)| crate::model::text::normalized_name(key) == package);
            if let Some((_, theirs)) = theirs {
                for (pin, url, name) in &pins {
                    if !takes_from(theirs, name, pin) {
                        return Err(UvError::OtherSource {
                            package: package.to_owned(),
                            theirs: shown(theirs),
                            ours: (*url).to_owned(),
                        });
                    }
                }
                continue;
            }
            let source = |(pin, _, name): &(&Pin, &str, &str)| {
                let mut table = InlineTable::new();
                table.insert("index", Value::from(*name));
                table.insert("marker", Value::from(pin.marker.as_str()));
                Value::InlineTable(table)
            };
            let mut value = match pins.as_slice() {
                [only] => source(only),
                all => Value::Array(all.iter().map(source).collect()),
            };
            value.decor_mut().set_prefix(" ");
            value.decor_mut().set_suffix(format!(" {OWN}"));
            sources.insert(package, Item::Value(value));
            is_changed = true;
        }
        if is_changed {
            uv.remove("sources");
            if !sources.is_empty() {
                uv.insert("sources", Item::Table(sources));
            }
        }
        Ok(())
    }
}

/// The marker of a target's platform.
pub(in crate::formats) fn marker(target: &Target) -> String {
    let system = match target.platform.os {
        Os::Linux => "linux",
        Os::Macos => "darwin",
        Os::Windows => "win32",
    };
    let machine = match (target.platform.os, target.platform.arch) {
        (Os::Windows, Arch::X86_64) => "AMD64",
        (Os::Macos, Arch::Aarch64) => "arm64",
        (_, Arch::X86_64) => "x86_64",
        (_, Arch::Aarch64) => "aarch64",
    };
    format!("sys_platform == '{system}' and platform_machine == '{machine}'")
}

/// An address as it is compared.
fn plain(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

/// Whether a source of the user takes the package from an index of this name where the pin applies.
fn takes_from(item: &Item, name: &str, pin: &Pin) -> bool {
    let machine = marker_environment(pin.python, pin.platform);
    let applies = |table: &dyn TableLike| {
        let marker = table.get("marker").and_then(Item::as_str);
        let marker: Option<MarkerTree> = marker.and_then(|text| text.parse().ok());
        marker.is_none_or(|marker| marker.evaluate(&machine, &[]))
    };
    let of = |table: &dyn TableLike| table.get("index").and_then(Item::as_str) == Some(name);
    let tables: Vec<&dyn TableLike> = match item {
        Item::Value(Value::Array(all)) => all
            .iter()
            .filter_map(|value| value.as_inline_table().map(|table| table as &dyn TableLike))
            .collect(),
        _ => item.as_table_like().into_iter().collect(),
    };
    let here: Vec<&dyn TableLike> = tables.into_iter().filter(|table| applies(*table)).collect();
    !here.is_empty() && here.iter().all(|table| of(*table))
}

/// A source of the user in a message.
fn shown(item: &Item) -> String {
    let text = item.to_string();
    format!("`{}`", clean(text.split_whitespace().collect::<Vec<_>>().join(" ").as_str(), 120))
}

/// The table under a key, made if there is none.
fn table_in<'t>(
    parent: &'t mut dyn TableLike,
    key: &str,
    path: &'static str,
    is_implicit: bool,
) -> Result<&'t mut dyn TableLike, UvError> {
    let new = || {
        let mut table = Table::new();
        table.set_implicit(is_implicit);
        Item::Table(table)
    };
    parent.entry(key).or_insert_with(new).as_table_like_mut().ok_or(UvError::Type(path))
}

/// Puts envlock's entries after the user's, instead of those of an earlier run.
fn write_list(
    uv: &mut dyn TableLike,
    (key, path): (&str, &'static str),
    own: &[String],
) -> Result<(), UvError> {
    let mut entries = match uv.get(key) {
        None => Entries::of(&Array::new()),
        Some(item) => Entries::of(item.as_array().ok_or(UvError::Type(path))?),
    };
    if entries.take_own().is_empty() && own.is_empty() {
        return Ok(());
    }
    // An entry whose comment was lost is no second one.
    entries.take(|value| value.as_str().is_some_and(|text| own.iter().any(|entry| entry == text)));
    own.iter().for_each(|entry| entries.push_own(entry.as_str()));
    if entries.is_empty() {
        uv.remove(key);
        return Ok(());
    }
    match uv.get_mut(key) {
        Some(Item::Value(there)) => entries.put_into(there),
        _ => {
            uv.insert(key, Item::Value(Value::Array(entries.written())));
        }
    }
    Ok(())
}
