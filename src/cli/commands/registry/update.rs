//! `envlock registry update`: newer compatibility data than the program's, signed, from the index `pypi` or a file.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use minisign_verify::PublicKey;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::cli::args::UpdateArgs;
use crate::cli::printer::Printer;
use crate::model::project::{ProjectPage, ReleaseFile};
use crate::model::text::clean;
use crate::registry::signed::{self, MAX_PAYLOAD, PROJECT, Statement};
use crate::session::data_folder::{self, Outcome};
use crate::session::exit;
use crate::session::failure::{Failure, FailureKind};
use crate::session::fetch;
use crate::session::files;
use crate::session::learning;
use crate::session::options::Global;
use crate::session::settings::Project;

pub(super) fn run(global: &Global, args: &UpdateArgs, printer: &Printer) -> Result<u8, Failure> {
    if global.registry.is_some() {
        return Err(Failure::usage("`registry update` changes the data that are used without `--registry`")
            .hint("leave out `--registry`"));
    }
    let keys = keys(args.key.as_deref())?;
    let offered = match &args.from {
        Some(file) => Some(of_file(file)?),
        None => of_index(global, args)?,
    };
    let Some(Offered { name, bytes, version }) = offered else {
        return told(&Outcome::Same, None, printer);
    };
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
        outcome => told(&outcome, Some(&statement), printer),
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

fn told(outcome: &Outcome, statement: Option<&Statement>, printer: &Printer) -> Result<u8, Failure> {
    let registry = data_folder::registry()?;
    let is_stored = matches!(outcome, Outcome::Stored);
    if printer.json {
        printer.json(&json!({
            "updated": is_stored,
            "date": registry.meta().date,
            "sha256": registry.digest(),
        }));
        return Ok(exit::YES);
    }
    let (builds, gpus) = (registry.builds().len(), registry.gpus().len());
    match (is_stored, statement) {
        (true, Some(statement)) => printer.out(&format!(
            "registry {}: {builds} torch builds, {gpus} GPUs; used from now on",
            statement.date
        )),
        _ => printer.out(&format!("nothing newer: registry {} is in use", registry.meta().date)),
    }
    Ok(exit::YES)
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
    Ok(vec![super::pack::key(path)?])
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
fn of_index(global: &Global, args: &UpdateArgs) -> Result<Option<Offered>, Failure> {
    if global.offline {
        return Err(Failure::network("the index pypi is not asked: `--offline` is set")
            .hint("data from a file: `envlock registry update --from FILE`"));
    }
    let project = Project::find(global, false)?;
    let client = fetch::client(global, &project, args.index_url.as_deref())?;
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
    let downloaded =
        client.download_up_to(&file.url, MAX_PAYLOAD).map_err(|error| fetch::index_error(&error, None))?;
    let failed =
        |why: String| Failure::network(format!("cannot read `{}`: {why}", clean(&file.filename, 120)));
    let bytes = read_all(downloaded).map_err(failed)?;
    if let Some(stated) = &file.sha256
        && hex::encode(Sha256::digest(&bytes)) != *stated
    {
        return Err(Failure::registry(format!(
            "`{}` is refused: it does not have the hash that the index states",
            clean(&file.filename, 120)
        ))
        .hint("the data in use did not change"));
    }
    Ok(Some(Offered { name: clean(&file.filename, 120), bytes, version: Some(version.to_string()) }))
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
