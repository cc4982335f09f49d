//! Direct references of a request: reads what they point to, once for each command.

use std::path::Path;

use super::error::CliError;
use crate::git::{self, GitError};
use crate::index::IndexClient;
use crate::model::direct::{Direct, shown_repository};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::request::{Preferences, Request, UserRequirement};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::sdist::{self, Contents};
use crate::solver::Universe;

/// The direct references of a request.
pub(super) fn requirements(request: &Request) -> impl Iterator<Item = &UserRequirement> {
    request.requirements.iter().filter(|user| user.direct().is_some())
}

/// Adds the packages of direct references to the universe, if they are not there yet. A repository keeps the commit of
/// the old lock.
///
/// # Errors
/// If a server or repository does not answer, a file is not what the reference states, or metadata cannot be read.
pub(super) fn add(
    client: &IndexClient,
    universe: &mut Universe,
    request: &Request,
    preferences: &Preferences,
) -> Result<(), CliError> {
    for user in requirements(request) {
        let name = user.requirement.name.to_string();
        let Some(direct) = user.direct().filter(|_| universe.direct(&name).is_none()) else { continue };
        let found = match &direct {
            Direct::Archive { url, sha256 } => archive(client, &name, url, sha256.as_deref())?,
            Direct::Git { repository, revision, subdirectory } => {
                let locked = preferences.commits.get(&name).map(String::as_str);
                let wanted = locked.or(revision.as_deref());
                git_tree(repository, wanted, subdirectory.as_deref())?
            }
            Direct::Path(path) => local(path, request.folder.as_deref())?,
        };
        let Found { source, metadata, file } = found;
        let metadata = match request.metadata.iter().find(|row| row.is_about(&name, &metadata.version)) {
            Some(row) => metadata.with_requirements(&row.requires),
            None => metadata,
        };
        if metadata.name != user.requirement.name {
            return Err(CliError::input(format!(
                "`{direct}` is the project `{}`, not `{name}`",
                metadata.name
            ))
            .hint(format!("write `{} @ {direct}`", metadata.name)));
        }
        let python = metadata.requires_python.as_ref().map(ToString::to_string);
        let filename = file.filename.unwrap_or_else(|| format!("{name}-{}.tar.gz", metadata.version));
        let raw = RawFile { filename, requires_python: python, url: String::new(), ..file.raw };
        let page = ProjectPage::from_files(&name, [raw]);
        if page.releases().is_empty() {
            return Err(CliError::input(format!(
                "`{direct}` is not a wheel or source distribution of `{name}`"
            )));
        }
        universe.add_direct(&name, source, page, metadata);
    }
    Ok(())
}

/// What a reference points to.
struct Found {
    source: Source,
    metadata: CoreMetadata,
    file: File,
}

/// The file of a reference, as an index page would list it.
#[derive(Default)]
struct File {
    /// Its name; that of a source distribution if absent.
    filename: Option<String>,
    raw: RawFile,
}

fn archive(client: &IndexClient, name: &str, url: &str, sha256: Option<&str>) -> Result<Found, CliError> {
    let (metadata, file) = client.read_direct(name, url, sha256).map_err(|error| match error {
        crate::index::IndexError::Direct { .. } => CliError::input(error.to_string()),
        other => CliError::network(other.to_string()),
    })?;
    let source = Source::Url(crate::model::direct::without_login(url));
    Ok(Found { source, metadata, file: File { filename: Some(file.filename.clone()), raw: file } })
}

fn git_tree(repository: &str, revision: Option<&str>, subdirectory: Option<&str>) -> Result<Found, CliError> {
    let checkout = git::read(repository, revision, subdirectory).map_err(|error| match error {
        GitError::NoGit(_) => CliError::usage(error.to_string()).hint("install git"),
        GitError::Failed { .. } => {
            CliError::network(error.to_string()).hint("check the network, the URL and the revision")
        }
    })?;
    let repository = shown_repository(repository);
    let unreadable = |why: &str| {
        CliError::input(format!("the project in `{repository}` cannot be read: {}", clean(why, 200)))
            .hint("a wheel's URL, or a released version, needs no repository")
    };
    let tree = checkout.tree.map_err(|why| unreadable(&why))?;
    let metadata = tree.metadata().map_err(|error| unreadable(&error.to_string()))?;
    let source = Source::Git { repository, commit: checkout.commit };
    Ok(Found { source, metadata, file: File::default() })
}

fn local(path: &str, folder: Option<&Path>) -> Result<Found, CliError> {
    let place = folder.unwrap_or(Path::new(".")).join(path);
    let unreadable =
        |why: String| CliError::input(format!("`{}` cannot be read: {}", clean(path, 200), clean(&why, 200)));
    let metadata = if place.is_dir() {
        let contents = Contents::of_folder(&place).map_err(|e| unreadable(e.to_string()))?;
        let tree = sdist::read(&contents).map_err(|e| unreadable(e.to_string()))?;
        tree.metadata().map_err(|e| unreadable(e.to_string()))?
    } else {
        let filename = place.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let file = fs_err::File::open(&place).map_err(|e| unreadable(e.to_string()))?;
        let reader = std::io::BufReader::new(file);
        if filename.ends_with(".whl") {
            let metadata = crate::index::metadata_of_wheel(reader, &filename).map_err(unreadable)?;
            let source = Source::Path(relative(path));
            return Ok(Found {
                source,
                metadata,
                file: File { filename: Some(filename), raw: RawFile::default() },
            });
        }
        let tree = sdist::read_archive(reader, &filename).map_err(|e| unreadable(e.to_string()))?;
        tree.metadata().map_err(|e| unreadable(e.to_string()))?
    };
    Ok(Found { source: Source::Path(relative(path)), metadata, file: File::default() })
}

/// A path as the lock has it: `.` and `./` in front mean nothing.
fn relative(path: &str) -> String {
    let trimmed = path.trim_start_matches("./").trim_end_matches('/');
    if trimmed.is_empty() { ".".to_owned() } else { trimmed.to_owned() }
}
