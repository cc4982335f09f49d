//! The data folder: `ENVLOCK_DATA_DIR`, else the user's. It holds the registry that `registry update` stored. It is not
//! the cache, since cleaning that must not bring older data back.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::cache_folder;
use super::clock;
use super::error::CliError;
use super::files;
use super::files::home;
use super::write;
use crate::lockfile::Lockfile;
use crate::model::timestamp::days_since;
use crate::registry::Registry;
use crate::registry::signed::{self, DataWheel, MAX_PAYLOAD, Statement};

/// The file with the stored data: the signed wheel as it came.
const STORED: &str = "registry.whl";
/// The same as this program reads it fastest; made again from the wheel by whoever cannot use it.
const READY: &str = "registry.json";
/// Who holds its lock compares with what is stored, and stores.
const LOCK: &str = "registry.lock";

/// The data folder; `None` if the user has no home.
fn folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let users = || {
        variable("XDG_DATA_HOME")
            // A relative folder is invalid, by the XDG base directory specification.
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("envlock"))
            .or_else(|| home().map(|home| home.join(".local/share/envlock")))
    };
    variable("ENVLOCK_DATA_DIR").or_else(users)
}

/// The registry to answer from: the newer of the one in the program and the one that is stored.
///
/// # Errors
/// What is stored cannot be used: to answer from older data without a word would be wrong.
pub(super) fn registry() -> Result<Registry, CliError> {
    let embedded = Registry::embedded();
    let Some(folder) = folder() else { return Ok(embedded) };
    let place = folder.join(STORED);
    let unusable = |why: String| {
        CliError::registry(format!(
            "the data of `registry update` in `{}` cannot be used: {why}",
            place.display()
        ))
        .hint("run `envlock registry update`, or answer from the program's own: `--registry embedded`")
    };
    let Some(wheel) = stored(&folder).map_err(&unusable)? else { return Ok(embedded) };
    let statement = wheel.stated().map_err(|why| unusable(why.to_string()))?;
    if statement.date <= embedded.meta().date {
        return Ok(embedded);
    }
    if let Ok(Some(text)) = files::read(&folder.join(READY))
        && let Ok(registry) = Registry::from_compact(&text, &statement.sha256)
    {
        return Ok(registry);
    }
    let registry = wheel.registry(&statement).map_err(|why| unusable(why.to_string()))?;
    keep_ready(&folder, &registry);
    Ok(registry)
}

/// Keeps the form that is read fastest. Without it each run takes longer, and nothing else.
fn keep_ready(folder: &Path, registry: &Registry) {
    if let Ok(text) = registry.to_compact() {
        let _ = write::replace(&folder.join(READY), &text);
    }
}

/// What a registry is called: its date, and whether it was stored.
pub(super) fn named(registry: &Registry) -> String {
    let date = &registry.meta().date;
    let embedded = Registry::embedded();
    match registry.digest() == embedded.digest() {
        true => date.clone(),
        false => format!("{date}, updated; {} in the program", embedded.meta().date),
    }
}

/// Data of this age are said to be old, in days: torch has a release in less.
const OLD: i64 = 90;

/// That the data are old, for an answer that leant on them; `None` if they are not.
pub(super) fn age(registry: &Registry) -> Option<String> {
    let date = &registry.meta().date;
    let days = days_since(date, clock::today()).filter(|days| *days > OLD)?;
    Some(format!(
        "the compatibility data are of {date}, {days} days ago: of what was released since, only what wheels say is known; {}",
        newer()
    ))
}

/// How to take newer data, as a phrase.
pub(super) fn newer() -> &'static str {
    match signed::release_keys().is_empty() {
        false => "`envlock registry update` takes newer ones",
        true => "`envlock registry update --from FILE --key FILE` takes newer ones",
    }
}

/// What a lock says that these data, older than those it was made with, can neither confirm nor deny.
pub(super) fn behind(lock: &Lockfile, registry: &Registry) -> String {
    format!(
        "the lock was made with newer compatibility data, of {}; these are of {}, and do not know all of its builds",
        lock.registry_date,
        registry.meta().date
    )
}

/// The wheel in a data folder; `None` if there is none.
fn stored(folder: &Path) -> Result<Option<DataWheel>, String> {
    let place = folder.join(STORED);
    let Ok(about) = fs_err::symlink_metadata(&place) else { return Ok(None) };
    cache_folder::check(folder).map_err(|why| format!("the folder {why}"))?;
    if !about.is_file() || about.len() > MAX_PAYLOAD {
        return Err("it is no regular file, or too large".to_owned());
    }
    let file = File::open(&place).map_err(|e| e.to_string())?;
    signed::read(file).map(Some).map_err(|e| e.to_string())
}

/// What came of data that was offered.
pub(super) enum Outcome {
    /// It is stored, and used from now on.
    Stored,
    /// These are the data in use.
    Same,
    /// They are older than the data in use, of this date.
    Older(String),
    /// They are of the same day as the data in use, and other data.
    OtherOfDay,
}

/// Stores a data wheel whose statement was verified and whose rows were read, if it is newer than the data in use. Of two
/// processes the second sees what the first stored.
///
/// # Errors
/// The folder cannot be used or written to.
pub(super) fn store(bytes: &[u8], statement: &Statement, registry: &Registry) -> Result<Outcome, CliError> {
    let folder = folder().ok_or_else(|| {
        CliError::files("no folder for data is known").hint("set `ENVLOCK_DATA_DIR` to a folder of your own")
    })?;
    let failed = |e: std::io::Error| {
        CliError::files(format!("cannot write to the data folder `{}`: {e}", folder.display()))
            .hint("set `ENVLOCK_DATA_DIR` to a folder of your own; the data in use did not change")
    };
    private_folder(&folder).map_err(failed)?;
    if let Err(why) = cache_folder::check(&folder) {
        return Err(CliError::files(format!("the data folder `{}` {why}", folder.display()))
            .hint("set `ENVLOCK_DATA_DIR` to a folder of your own"));
    }
    let lock = File::create(folder.join(LOCK)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    // What cannot be read is replaced.
    let other = stored(&folder).ok().flatten().and_then(|wheel| wheel.stated().ok());
    let embedded = Statement::of(&Registry::embedded());
    let current = other.filter(|other| other.date > embedded.date).unwrap_or(embedded);
    match statement.date.cmp(&current.date) {
        std::cmp::Ordering::Less => return Ok(Outcome::Older(current.date)),
        std::cmp::Ordering::Equal if *statement == current => return Ok(Outcome::Same),
        std::cmp::Ordering::Equal => return Ok(Outcome::OtherOfDay),
        std::cmp::Ordering::Greater => {}
    }
    write::write_bytes(&folder.join(STORED), bytes)?;
    keep_ready(&folder, registry);
    Ok(Outcome::Stored)
}

/// Makes a folder that only this user may read, if there is none.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
