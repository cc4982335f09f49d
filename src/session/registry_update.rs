//! Takes newer compatibility data than the program's, signed, from the index `pypi` or a file.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use minisign_verify::PublicKey;
use sha2::{Digest as _, Sha256};

use super::data_folder::{self, Outcome};
use super::failure::{Failure, FailureKind};
use super::fetch;
use super::files;
use super::learning;
use super::options::Global;
use super::settings::Project;
use crate::model::project::{ProjectPage, ReleaseFile};
use crate::model::text::clean;
use crate::registry::signed::{self, MAX_PAYLOAD, PROJECT, Statement};

/// Where the data come from, and who signed them.
pub(crate) struct DataSource<'f> {
    /// A wheel in place of the index.
    pub file: Option<&'f Path>,
    /// The file of a public key in place of those of releases.
    pub key: Option<&'f Path>,
    /// The address of the index `pypi`.
    pub index_url: Option<&'f str>,
}

/// Stores newer data, and says what they are; `None` where there are no newer ones.
///
/// # Errors
/// When the data are not signed by one of the keys, are older, or cannot be used; when they cannot be read.
pub(crate) fn update(global: &Global, from: &DataSource<'_>) -> Result<Option<Statement>, Failure> {
    if global.registry.is_some() {
        return Err(Failure::usage("`registry update` changes the data that are used without `--registry`")
            .hint("leave out `--registry`"));
    }
    let keys = keys(from.key)?;
    let offered = match from.file {
        Some(file) => Some(of_file(file)?),
        None => of_index(global, from.index_url)?,
    };
    let Some(Offered { name, bytes, version }) = offered else { return Ok(None) };
    let refused = |why: String| {
        Failure::registry(format!("`{name}` is refused: {why}"))
            .hint("the data in use did not change; `envlock registry show` names them")
    };
    let wheel = signed::read(std::io::Cursor::new(&bytes)).map_err(|e| refused(e.to_string()))?;
    let statement = wheel.verified(&keys).map_err(|why| refused(why.to_string()))?;
    if version.is_some_and(|version| version != statement.version()) {
        return Err(refused(format!("the data in it are of {}", statement.date)));
    }
    let registry = wheel.registry(&statement).map_err(|why| refused(why.to_string()))?;
    match data_folder::store(&wheel, &statement, &registry)? {
        Outcome::Older(current) => {
            Err(refused(format!("it is of {}, older than the data in use, of {current}", statement.date)))
        }
        Outcome::Ahead => Err(refused(format!("it is of {}, a day to come", statement.date))),
        Outcome::OtherOfDay => Err(refused(format!("other data of {} are in use", statement.date))),
        Outcome::Stored => Ok(Some(statement)),
        Outcome::Same => Ok(None),
    }
}

/// A data wheel that was found.
struct Offered {
    /// The file's name, for messages.
    name: String,
    bytes: Vec<u8>,
    /// The version that the index states.
    version: Option<String>,
}

/// The keys that may have signed the data.
fn keys(file: Option<&Path>) -> Result<Vec<PublicKey>, Failure> {
    let Some(path) = file else {
        let keys = signed::release_keys();
        return match keys.is_empty() {
            false => Ok(keys),
            true => Err(Failure::usage(
                "this build of envlock has no keys of releases: it cannot tell whose data it takes",
            )
            .hint(
                "name the public key that signed the data: `envlock registry update --from FILE --key FILE`",
            )),
        };
    };
    Ok(vec![key(path)?])
}

fn of_file(path: &Path) -> Result<Offered, Failure> {
    let shown = path.display().to_string();
    let failed = |why: String| Failure::input(format!("cannot read `{shown}`: {why}"));
    if files::is_device(path) {
        return Err(failed("it is not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(|e| failed(e.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Offered { name: clean(&name, 120), bytes: read_all(file).map_err(failed)?, version: None })
}

/// The newest data wheel of the index, if it is newer than the data in use.
fn of_index(global: &Global, index_url: Option<&str>) -> Result<Option<Offered>, Failure> {
    if global.offline {
        return Err(Failure::network("the index pypi is not asked: `--offline` is set")
            .hint("data from a file: `envlock registry update --from FILE`"));
    }
    let project = Project::find(global, false)?;
    let client = fetch::client(global, &project, index_url)?;
    let page = learning::page(client, learning::PYPI, PROJECT)?.ok_or_else(|| {
        Failure::new(FailureKind::Network, format!("the index pypi has no `{PROJECT}`"))
            .hint("data from elsewhere: `envlock registry update --from FILE`")
    })?;
    let Some((version, file)) = newest(&page) else {
        return Err(Failure::network(format!("the index pypi has no wheel of `{PROJECT}`")));
    };
    // What is stored and cannot be used is no reason to keep it.
    let in_use = data_folder::registry().ok().map(|registry| Statement::of(&registry).version());
    let is_newer = in_use.and_then(|own| own.parse().ok()).is_none_or(|own| *version > own);
    if !is_newer {
        return Ok(None);
    }
    if let Some(size) = file.size.filter(|size| *size > MAX_PAYLOAD) {
        return Err(refused_wheel(
            file,
            &format!("it has {size} bytes, more than {} MiB", MAX_PAYLOAD >> 20),
        ));
    }
    let downloaded =
        client.download_up_to(&file.url, MAX_PAYLOAD).map_err(|error| fetch::index_error(&error, None))?;
    let failed =
        |why: String| Failure::network(format!("cannot read `{}`: {why}", clean(&file.filename, 120)));
    let bytes = read_all(downloaded).map_err(failed)?;
    if let Some(stated) = &file.sha256
        && hex::encode(Sha256::digest(&bytes)) != *stated
    {
        return Err(refused_wheel(file, "it does not have the hash that the index states"));
    }
    Ok(Some(Offered { name: clean(&file.filename, 120), bytes, version: Some(version.to_string()) }))
}

fn refused_wheel(file: &ReleaseFile, why: &str) -> Failure {
    Failure::registry(format!("`{}` is refused: {why}", clean(&file.filename, 120)))
        .hint("the data in use did not change")
}

/// The newest release with a wheel for every Python.
fn newest(page: &ProjectPage) -> Option<(&pep440_rs::Version, &ReleaseFile)> {
    let releases = page.releases().iter().rev().filter(|release| !release.version.any_prerelease());
    releases
        .flat_map(|release| page.files(release).iter().map(move |file| (&release.version, file)))
        .find(|(_, file)| !file.yanked && file.filename.ends_with("-py3-none-any.whl"))
}

/// All bytes of a file, up to the limit of data.
fn read_all(mut file: File) -> Result<Vec<u8>, String> {
    file.rewind().map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_PAYLOAD + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    match bytes.len() as u64 > MAX_PAYLOAD {
        true => Err(format!("it has more than {} MiB", MAX_PAYLOAD >> 20)),
        false => Ok(bytes),
    }
}

/// A public key in a file.
///
/// # Errors
/// When there is none.
pub(crate) fn key(path: &Path) -> Result<PublicKey, Failure> {
    let text =
        files::read(path)?.ok_or_else(|| Failure::input(format!("there is no file `{}`", path.display())))?;
    signed::key(&text).map_err(|why| Failure::input(format!("`{}`: {why}", path.display())))
}
