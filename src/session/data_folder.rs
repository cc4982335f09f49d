//! The data folder: `ENVLOCK_DATA_DIR`, else the user's. It holds the registry that `registry update` stored. It is not
//! the cache, since cleaning that must not bring older data back.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache_folder::{self, Untrusted};
use super::clock;
use super::failure::Failure;
use super::files::home;
use super::write;
use crate::lockfile::Lockfile;
use crate::model::timestamp::days_since;
use crate::registry::signed::{self, DataWheel, MAX_PAYLOAD, Statement};
use crate::registry::{Meta, Registry};
use crate::session::variables;

/// The file with the stored data: a signed wheel.
const STORED: &str = "registry.whl";
/// The same as this program reads it fastest; made again from the wheel by whoever cannot use it.
const READY: &str = "registry.json";
/// Who holds its lock compares with what is stored, and stores.
const LOCK: &str = "registry.lock";
/// How long another update is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Data of this age are said to be old, in days: torch has a release in less.
const OLD: i64 = 90;
/// Data of so many days after today are refused: nothing newer could replace them. Clocks differ by less.
const AHEAD: i64 = 30;

/// The data folder, and whether the user names it; `None` if the user has no home.
fn folder() -> Option<(PathBuf, bool)> {
    let variable = |name: &str| variables::path(name);
    let users = || {
        variable("XDG_DATA_HOME")
            // A relative folder is invalid, by the XDG base directory specification.
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("envlock"))
            .or_else(|| home().map(|home| home.join(".local/share/envlock")))
    };
    variable("ENVLOCK_DATA_DIR").map(|named| (named, true)).or_else(|| users().map(|folder| (folder, false)))
}

/// What is stored.
enum Stored {
    /// Nothing, or what a newer program stored and this one does not read.
    Nothing,
    /// The bytes of a data wheel, and what is stated of them.
    Data(Vec<u8>, Statement),
    /// What is no data wheel, and why: the next update replaces it.
    Damaged(String),
}

/// The registry to answer from: the newer of the one in the program and the one that is stored.
///
/// # Errors
/// What is stored cannot be used: to answer from older data without a word would be wrong.
pub(crate) fn registry() -> Result<Registry, Failure> {
    let embedded = Registry::embedded();
    let Some((folder, is_named)) = folder() else { return Ok(embedded) };
    let unusable = |why: String| {
        let place = folder.join(STORED);
        Failure::registry(format!(
            "the data of `registry update` in `{}` cannot be used: {why}",
            place.display()
        ))
        .hint(format!("{}; `--registry embedded` answers from the program's own", newer()))
    };
    let stored = stored(&folder, is_named).map_err(|e| unusable(e.to_string()))?;
    let (bytes, statement) = match stored {
        Stored::Data(bytes, statement) if statement.date > embedded.meta().date => (bytes, statement),
        Stored::Data(..) | Stored::Nothing => return Ok(embedded),
        Stored::Damaged(why) => return Err(unusable(why)),
    };
    if let Ok(Some(text)) = own_file(&folder.join(READY), MAX_READY)
        && let Ok(text) = String::from_utf8(text)
        && let Ok(registry) = Registry::from_compact(&text, &statement.sha256)
        && Statement::of(&registry) == statement
    {
        return Ok(registry);
    }
    let registry = in_wheel(&bytes, &statement).map_err(unusable)?;
    keep_ready(&folder, &registry);
    Ok(registry)
}

/// The registry in a stored wheel.
fn in_wheel(bytes: &[u8], statement: &Statement) -> Result<Registry, String> {
    let wheel = signed::read(io::Cursor::new(bytes)).map_err(|e| e.to_string())?;
    wheel.registry(statement).map_err(|why| why.to_string())
}

/// Size limit of the form that is read fastest, in bytes.
const MAX_READY: u64 = 64 << 20;

/// Keeps the form that is read fastest. Without it each run takes longer, and nothing else.
fn keep_ready(folder: &Path, registry: &Registry) {
    if let Ok(text) = registry.to_compact()
        && text.len() as u64 <= MAX_READY
    {
        let _ = write::write_private(&folder.join(READY), text.as_bytes());
    }
}

/// What a registry is called: its date, and whether it was stored.
pub(crate) fn named(registry: &Registry) -> String {
    let date = &registry.meta().date;
    let embedded = Registry::embedded();
    match registry.digest() == embedded.digest() {
        true => date.clone(),
        false => format!("{date}, updated; {} in the program", embedded.meta().date),
    }
}

/// That the data are old, for an answer that leant on them; `None` if they are not.
pub(crate) fn age(registry: &Registry) -> Option<String> {
    let date = &registry.meta().date;
    let days = days_since(date, clock::today()).filter(|days| *days > OLD)?;
    Some(format!(
        "the compatibility data are of {date}, {days} days ago: of what was released since, only what wheels say is known; {}",
        newer()
    ))
}

/// How to take newer data, as a phrase.
pub(crate) fn newer() -> &'static str {
    match signed::release_keys().is_empty() {
        false => "`envlock registry update` takes newer ones",
        true => "`envlock registry update --from FILE --key FILE` takes newer ones",
    }
}

/// What a lock says that these data, older than those it was made with, can neither confirm nor deny.
pub(crate) fn behind(lock: &Lockfile, registry: &Registry) -> String {
    format!(
        "the lock was made with newer compatibility data, of {}; these are of {}, and do not know all of its builds",
        lock.registry_date,
        registry.meta().date
    )
}

/// What is in a data folder.
///
/// # Errors
/// It cannot be looked at, or others can write to it.
fn stored(folder: &Path, is_named: bool) -> io::Result<Stored> {
    match fs_err::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::Nothing),
        other => other?,
    };
    match cache_folder::check(folder) {
        // Root with the home of a user, as in containers: these are not its data.
        Err(Untrusted::OtherUser) if !is_named => return Ok(Stored::Nothing),
        Err(why) => return Err(io::Error::other(format!("the folder {why}"))),
        Ok(()) => {}
    }
    let Some(bytes) = own_file(&folder.join(STORED), MAX_PAYLOAD)? else { return Ok(Stored::Nothing) };
    Ok(match signed::stated(io::Cursor::new(&bytes)) {
        Ok(statement) if !Meta::understands(&statement.schema) => Stored::Nothing,
        Ok(statement) => Stored::Data(bytes, statement),
        Err(why) => Stored::Damaged(why),
    })
}

/// The bytes of a file of the data folder; `None` if there is none.
///
/// # Errors
/// It cannot be read, is no regular file, or others can write to it.
fn own_file(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path, std::fs::OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other(format!("it has more than {} MiB", limit >> 20))),
        false => Ok(Some(bytes)),
    }
}

/// Opens a regular file that only its owner can write to; no link, and never a pipe, which would wait.
fn open(path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).mode(0o600);
    }
    let file = options.open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let own = [0, rustix::process::geteuid().as_raw()].contains(&about.uid());
        if !own || about.mode() & 0o022 != 0 {
            return Err(io::Error::other("others can write to it"));
        }
    }
    Ok(file)
}

/// What came of data that was offered.
pub(crate) enum Outcome {
    /// It is stored, and used from now on.
    Stored,
    /// These are the data in use.
    Same,
    /// They are older than the data in use, of this date.
    Older(String),
    /// They are of the same day as the data in use, and other data.
    OtherOfDay,
    /// They are of a day that is still to come.
    Ahead,
}

/// Stores a data wheel whose statement was verified and whose rows were read, if it is newer than the data in use. Of two
/// processes the second sees what the first stored.
///
/// # Errors
/// The folder cannot be used or written to, or what is stored cannot be looked at.
pub(crate) fn store(
    wheel: &DataWheel,
    statement: &Statement,
    registry: &Registry,
) -> Result<Outcome, Failure> {
    let (folder, is_named) = folder().ok_or_else(|| {
        Failure::files("no folder for data is known").hint("set `ENVLOCK_DATA_DIR` to a folder of your own")
    })?;
    let failed = |e: io::Error| {
        Failure::files(format!("cannot write to the data folder `{}`: {e}", folder.display()))
            .hint("set `ENVLOCK_DATA_DIR` to a folder of your own; the data in use did not change")
    };
    private_folder(&folder).map_err(failed)?;
    if let Err(why) = cache_folder::check(&folder) {
        return Err(Failure::files(format!("the data folder `{}` {why}", folder.display()))
            .hint("set `ENVLOCK_DATA_DIR` to a folder of your own"));
    }
    let _locked = locked(&folder.join(LOCK)).map_err(failed)?;
    let embedded = Statement::of(&Registry::embedded());
    let place = folder.join(STORED);
    let current = match stored(&folder, is_named).map_err(failed)? {
        Stored::Data(own, stated) if stated.date > embedded.date => match in_wheel(&own, &stated) {
            Ok(_) => stated,
            // What answers no question is not in use.
            Err(_) => embedded.clone(),
        },
        _ => embedded.clone(),
    };
    let outcome = match statement.date.cmp(&current.date) {
        std::cmp::Ordering::Less => Outcome::Older(current.date),
        std::cmp::Ordering::Equal if *statement == current => Outcome::Same,
        std::cmp::Ordering::Equal => Outcome::OtherOfDay,
        std::cmp::Ordering::Greater if is_ahead(&statement.date, &embedded.date) => Outcome::Ahead,
        std::cmp::Ordering::Greater => {
            let bytes = signed::write(wheel, statement)
                .map_err(|e| Failure::internal(format!("cannot make the wheel: {e}")))?;
            write::write_private(&place, &bytes)?;
            keep_ready(&folder, registry);
            Outcome::Stored
        }
    };
    // Nothing newer is at hand: the program's own are better than what cannot be read.
    if matches!(outcome, Outcome::Same) && statement.date == embedded.date {
        let _ = fs_err::remove_file(&place);
    }
    Ok(outcome)
}

/// The folder of the Pythons that came with bundles, which environments keep needing. Only this user may write to it.
///
/// # Errors
/// It cannot be made, or others can write to it.
pub(crate) fn pythons() -> Result<PathBuf, Failure> {
    let hint = "set `ENVLOCK_DATA_DIR` to a folder of your own";
    let (folder, _) = folder().ok_or_else(|| Failure::files("no folder for data is known").hint(hint))?;
    let own = folder.join("pythons");
    private_folder(&own).map_err(|why| {
        Failure::files(format!("cannot write to the data folder `{}`: {why}", own.display())).hint(hint)
    })?;
    for folder in [&folder, &own] {
        cache_folder::check(folder).map_err(|why| {
            Failure::files(format!("the data folder `{}` {why}", folder.display())).hint(hint)
        })?;
    }
    Ok(own)
}

/// Whether a day is after today by more than clocks differ. A clock that is behind the program is wrong.
fn is_ahead(day: &str, embedded: &str) -> bool {
    let from_today = days_since(day, clock::today()).unwrap_or_default();
    let is_wrong = days_since(embedded, clock::today()).is_some_and(|days| days < 0);
    from_today < -AHEAD && !is_wrong
}

/// The lock of the folder. Another process is waited for, not for ever.
fn locked(path: &Path) -> io::Result<File> {
    let file = open(path, std::fs::OpenOptions::new().write(true).create(true).truncate(false))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(io::Error::other("another `registry update` is running"));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Makes a folder that only this user may read, if there is none.
fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
