//! What envlock writes into the manifest of a project whose packages pixi holds: the machines, so that pixi takes builds for
//! CUDA and not for a newer CUDA than the driver runs. The packages are pixi's to choose.

use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use crate::formats::own_entries::{Entries, in_its_form};
use crate::model::text::clean;

/// Why the machines cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PixiError {
    /// The file is not TOML.
    #[error("{0}")]
    Syntax(String),
    /// There is no list of platforms to write them into.
    #[error("it has no `platforms` under `[workspace]`")]
    NoPlatforms,
}

/// A machine, as pixi 0.71 and newer describe one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name, where several machines have one platform.
    pub name: Option<String>,
    /// conda's name of its platform: `linux-64`.
    pub subdir: &'static str,
    /// The newest CUDA that its driver runs: `12.2`; `None` without a GPU.
    pub cuda: Option<String>,
}

/// A `pixi.toml`, or a `pyproject.toml` with pixi's tables (`is_pyproject`), whose platforms are these machines. A platform
/// that the user described in a table stays as it is.
///
/// # Errors
/// See [`PixiError`].
pub fn with_machines(text: &str, is_pyproject: bool, machines: &[Machine]) -> Result<String, PixiError> {
    in_its_form(text, &|text| written(text, is_pyproject, machines))
}

fn written(text: &str, is_pyproject: bool, machines: &[Machine]) -> Result<String, PixiError> {
    let mut document: DocumentMut =
        text.parse().map_err(|e: toml_edit::TomlError| PixiError::Syntax(clean(e.message(), 200)))?;
    let root: &mut dyn TableLike = document.as_table_mut();
    let pixi = match is_pyproject {
        false => Some(root),
        true => inner(root, "tool").and_then(|tool| inner(tool, "pixi")),
    };
    let pixi = pixi.ok_or(PixiError::NoPlatforms)?;
    // `[project]` is what `[workspace]` was called.
    let key = if pixi.contains_key("workspace") { "workspace" } else { "project" };
    let workspace = inner(pixi, key).ok_or(PixiError::NoPlatforms)?;
    let platforms =
        workspace.get_mut("platforms").and_then(Item::as_value_mut).ok_or(PixiError::NoPlatforms)?;
    let mut entries = Entries::of(platforms.as_array().ok_or(PixiError::NoPlatforms)?);
    let before = entries.take_own();
    let described: Vec<String> =
        entries.values().filter(|value| value.is_inline_table()).filter_map(of).collect();
    let new: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.cuda.is_some() && !described.iter().any(|own| own == machine.subdir))
        .collect();
    if before.is_empty() && new.is_empty() {
        return Ok(text.to_owned());
    }
    let is_new = |subdir: &str| new.iter().any(|machine| machine.subdir == subdir);
    entries.take(|value| value.as_str().is_some_and(is_new));
    for machine in &new {
        entries.push_own(table(machine));
    }
    // What an earlier run described stays a platform.
    let mut left: Vec<String> = before.iter().filter_map(of).filter(|subdir| !is_new(subdir)).collect();
    left.dedup();
    for subdir in left {
        entries.push_plain(subdir);
    }
    entries.put_into(platforms);
    Ok(document.to_string())
}

/// The subdir of an entry of `platforms`.
fn of(value: &Value) -> Option<String> {
    let table = value.as_inline_table();
    let text = |key: &str| table.and_then(|table| table.get(key)?.as_str());
    value.as_str().or(text("platform")).or(text("name")).map(str::to_owned)
}

fn table(machine: &Machine) -> Value {
    let mut table = InlineTable::new();
    if let Some(name) = &machine.name {
        table.insert("name", Value::from(name.as_str()));
    }
    table.insert("platform", Value::from(machine.subdir));
    if let Some(cuda) = &machine.cuda {
        table.insert("cuda", Value::from(cuda.as_str()));
    }
    Value::InlineTable(table)
}

fn inner<'t>(table: &'t mut dyn TableLike, key: &str) -> Option<&'t mut dyn TableLike> {
    table.get_mut(key)?.as_table_like_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: Option<&str>, subdir: &'static str, cuda: Option<&str>) -> Machine {
        Machine { name: name.map(str::to_owned), subdir, cuda: cuda.map(str::to_owned) }
    }

    #[test]
    fn the_platform_of_a_machine_gets_its_cuda() {
        let text = "[workspace]\nchannels = [\"conda-forge\"] # one\nplatforms = [\"linux-64\", \"osx-arm64\"]\n\n[dependencies]\npytorch = \"*\"\n";
        let one = [machine(None, "linux-64", Some("12.2"))];
        let written = with_machines(text, false, &one).unwrap();
        assert_eq!(
            written,
            "[workspace]\nchannels = [\"conda-forge\"] # one\nplatforms = [\n    \"osx-arm64\",\n    { platform = \"linux-64\", cuda = \"12.2\" }, # envlock\n]\n\n[dependencies]\npytorch = \"*\"\n"
        );
        assert_eq!(with_machines(&written, false, &one).unwrap(), written);
        // A newer driver.
        let newer = with_machines(&written, false, &[machine(None, "linux-64", Some("13.0"))]).unwrap();
        assert!(newer.contains("cuda = \"13.0\" }, # envlock") && !newer.contains("12.2"), "{newer}");
        // Without a GPU the platform is a plain one again.
        let without = with_machines(&written, false, &[machine(None, "linux-64", None)]).unwrap();
        assert!(without.contains("    \"linux-64\",\n]"), "{without}");
        // Two machines of one platform have names.
        let two =
            [machine(Some("a"), "linux-64", Some("12.2")), machine(Some("b"), "linux-64", Some("13.0"))];
        let written = with_machines(text, false, &two).unwrap();
        assert!(
            written.contains("{ name = \"b\", platform = \"linux-64\", cuda = \"13.0\" }, # envlock"),
            "{written}"
        );
    }

    #[test]
    fn what_the_user_described_stays() {
        let text =
            "[tool.pixi.project]\nplatforms = [{ platform = \"linux-64\", cuda = \"12\" }, \"win-64\"]\n";
        assert_eq!(with_machines(text, true, &[machine(None, "linux-64", Some("13.0"))]).unwrap(), text);
        assert_eq!(with_machines(text, false, &[]), Err(PixiError::NoPlatforms));
        assert!(matches!(with_machines("x", false, &[]), Err(PixiError::Syntax(_))));
        assert_eq!(with_machines("workspace = 1\n", false, &[]), Err(PixiError::NoPlatforms));
        assert_eq!(
            with_machines("[workspace]\nplatforms = \"linux-64\"\n", false, &[]),
            Err(PixiError::NoPlatforms)
        );
    }
}
