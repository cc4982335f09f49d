//! Direct references of a request: reads what they point to, once for each command.

use std::path::Path;

use pep440_rs::Version;
use pep508_rs::MarkerEnvironment;
use sha2::{Digest, Sha256};

use super::failure::Failure;
use super::files;
use super::metadata_overrides::MetadataOverrides;
use crate::git::{self, GitError};
use crate::index::IndexClient;
use crate::model::direct::{Direct, may_be_commit, shown_repository};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::request::{Preferences, Request, UserRequirement};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::sdist::{self, Contents, Unreadable};
use crate::solver::Universe;

/// The direct references of a request.
pub(crate) fn requirements(request: &Request) -> impl Iterator<Item = &UserRequirement> {
    request.requirements.iter().filter(|user| user.direct().is_some())
}

/// Adds the packages of direct references to the universe, if they are not there yet and their marker holds in one of the
/// environments. A repository keeps the commit of the old lock.
///
/// # Errors
/// If two references of one package apply, a server or repository does not answer, a file is not what the reference states, or metadata cannot be read.
pub(crate) fn add(
    client: &IndexClient,
    universe: &mut Universe<'_>,
    overrides: &MetadataOverrides<'_>,
    request: &Request,
    preferences: &Preferences,
    environments: &[MarkerEnvironment],
) -> Result<(), Failure> {
    let applies = |user: &&UserRequirement| {
        environments.iter().any(|environment| user.requirement.marker.evaluate(environment, &[]))
    };
    let applicable: Vec<&UserRequirement> = requirements(request).filter(applies).collect();
    for user in &applicable {
        let name = user.name().to_owned();
        let is_other = |other: &&&UserRequirement| {
            other.requirement.name == user.requirement.name && other.direct() != user.direct()
        };
        if let Some(other) = applicable.iter().find(is_other) {
            let hint = "name one Python, so that one of their markers applies: `--python 3.11`";
            return Err(Failure::usage(format!(
                "`{name}` has two direct references: `{}` and `{}`",
                user.line(),
                other.line()
            ))
            .hint(hint));
        }
        let Some(direct) = user.direct().filter(|_| universe.direct(&name).is_none()) else { continue };
        let stated = stated_version(request, &name);
        let found = match &direct {
            Direct::Archive { url, sha256 } => archive(client, &name, url, sha256.as_deref())?,
            Direct::Git { repository, revision, subdirectory } => {
                let locked = preferences.commits.get(&name).map(String::as_str);
                let is_asked =
                    |commit: &&str| revision.as_deref().is_none_or(|asked| may_be_commit(asked, commit));
                let locked = locked.filter(is_asked);
                let wanted = locked.or(revision.as_deref());
                let project = request.folder.as_deref().unwrap_or(Path::new("."));
                git_tree(repository, wanted, subdirectory.as_deref(), stated, project)?
            }
            Direct::Path(path) => local(path, request.folder.as_deref(), stated)?,
        };
        let Found { source, metadata, file } = found;
        if metadata.name != user.requirement.name {
            return Err(Failure::input(format!(
                "`{direct}` is the project `{}`, not `{name}`",
                metadata.name
            ))
            .hint(format!("write `{} @ {direct}`", metadata.name)));
        }
        let python = metadata.requires_python.as_ref().map(ToString::to_string);
        let filename = file.filename.unwrap_or_else(|| format!("{name}-{}.tar.gz", metadata.version));
        let raw =
            RawFile { filename: filename.clone(), requires_python: python, url: String::new(), ..file.raw };
        let page = ProjectPage::from_files(&name, [raw]);
        if page.releases().is_empty() {
            return Err(Failure::input(format!(
                "`{direct}` is not a wheel or source distribution of `{name}`"
            )));
        }
        let metadata = overrides.apply(metadata.into(), &filename);
        universe.add_direct(&name, source, page, [(filename, metadata)]);
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

fn archive(client: &IndexClient, name: &str, url: &str, sha256: Option<&str>) -> Result<Found, Failure> {
    let (metadata, file) = client.read_direct(name, url, sha256).map_err(|error| match error {
        crate::index::IndexError::Direct { .. } => Failure::input(error.to_string()),
        other => Failure::network(other.to_string()),
    })?;
    let source = Source::Url(crate::model::direct::without_login(url));
    Ok(Found { source, metadata, file: File { filename: Some(file.filename.clone()), raw: file } })
}

/// Name and version that the user states of a project whose build computes its version.
pub(crate) fn stated_version<'r>(request: &'r Request, name: &str) -> Option<(&'r str, &'r Version)> {
    let row = request.metadata.iter().find(|row| row.name == name)?;
    Some((row.name.as_str(), row.version.as_ref()?))
}

/// The metadata of a source tree.
fn tree_metadata(
    mut contents: Contents,
    stated: Option<(&str, &Version)>,
) -> Result<CoreMetadata, Unreadable> {
    if let Some((name, version)) = stated {
        contents.state(name, &version.to_string());
    }
    sdist::read(&contents)?.metadata()
}

fn git_tree(
    repository: &str,
    revision: Option<&str>,
    subdirectory: Option<&str>,
    stated: Option<(&str, &Version)>,
    project: &Path,
) -> Result<Found, Failure> {
    let checkout = git::read(repository, revision, subdirectory, project).map_err(|error| match error {
        GitError::NoGit(_) => Failure::usage(error.to_string()).hint("install git"),
        GitError::Failed { .. } | GitError::Submodules { .. } => {
            Failure::network(error.to_string()).hint("check the network, the URL and the revision")
        }
    })?;
    let repository = shown_repository(repository);
    let metadata = tree_metadata(checkout.contents, stated).map_err(|why| {
        let text = format!("the project in `{repository}` cannot be read: {}", clean(&why.to_string(), 200));
        Failure::input(text).hint(way_out(&why, "a wheel's URL, or a released version, needs no repository"))
    })?;
    let subdirectory = subdirectory.map(|folder| folder.trim_matches('/').to_owned());
    let source = Source::Git { repository, commit: checkout.commit, subdirectory };
    Ok(Found { source, metadata, file: File::default() })
}

/// What helps where a tree cannot be read.
fn way_out(why: &Unreadable, otherwise: &'static str) -> &'static str {
    match why {
        Unreadable::ComputedVersion(_) => {
            "state it in envlock.toml: a table `[[metadata]]` with `name`, `version` and `requires-dist`"
        }
        Unreadable::Other(_) => otherwise,
    }
}

/// The metadata of a folder or file on this machine, relative to `folder`, and the SHA-256 of a file.
///
/// # Errors
/// If it is absent or cannot be read.
pub(crate) fn project_at(
    path: &str,
    folder: &Path,
    stated: Option<(&str, &Version)>,
) -> Result<(CoreMetadata, Option<String>), Failure> {
    let found = local(path, Some(folder), stated)?;
    Ok((found.metadata, found.file.raw.sha256))
}

fn local(path: &str, folder: Option<&Path>, stated: Option<(&str, &Version)>) -> Result<Found, Failure> {
    let folder = folder.unwrap_or(Path::new("."));
    let place = folder.join(path);
    let unreadable =
        |why: String| Failure::input(format!("`{}` cannot be read: {}", clean(path, 200), clean(&why, 200)));
    let source = Source::Path(files::path_from(&place, folder).trim_start_matches("./").to_owned());
    if place.is_dir() {
        let contents = Contents::of_folder(&place).map_err(|e| unreadable(e.to_string()))?;
        let metadata = tree_metadata(contents, stated).map_err(|why| {
            let hint =
                way_out(&why, "a folder with a static `[project]` in its `pyproject.toml` can be read");
            unreadable(why.to_string()).hint(hint)
        })?;
        return Ok(Found { source, metadata, file: File::default() });
    }
    if !place.is_file() {
        return Err(unreadable("there is no such file or folder".to_owned()));
    }
    let filename = place.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let open = || fs_err::File::open(&place).map_err(|e| unreadable(e.to_string()));
    let mut hasher = Sha256::new();
    let size =
        std::io::copy(&mut open()?, &mut Hashing(&mut hasher)).map_err(|e| unreadable(e.to_string()))?;
    let sha256 = Some(hex::encode(hasher.finalize()));
    let raw = RawFile { sha256, size: Some(size), ..RawFile::default() };
    let reader = std::io::BufReader::new(open()?);
    let metadata = match filename.ends_with(".whl") {
        true => crate::index::metadata_of_wheel(reader, &filename).map_err(unreadable)?,
        false => {
            let tree = sdist::read_archive(reader, &filename).map_err(|e| unreadable(e.to_string()))?;
            tree.metadata().map_err(|e| unreadable(e.to_string()))?
        }
    };
    let filename = filename.ends_with(".whl").then_some(filename);
    Ok(Found { source, metadata, file: File { filename, raw } })
}

/// A writer that only hashes.
struct Hashing<'h>(&'h mut Sha256);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
