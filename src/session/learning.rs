//! Reads compatibility data that the registry does not have from wheels; for `registry learn` and `resolve`.

use std::sync::Arc;

use indicatif::ProgressBar;
use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::Interface;
use super::exit;
use super::failure::{Failure, FailureKind};
use super::fetch;
use crate::index::{Fetched, IndexClient, RemoteFile};
use crate::inspect::WheelError;
use crate::learn::{self, FileFacts, LearnError, Learned, LearnedFramework, Wanted};
use crate::model::bytes::Bytes;
use crate::model::count::Count;
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, Release, ReleaseFile};
use crate::model::requirement::parse_requirement;
use crate::model::solution::Need;
use crate::model::text::{clean, normalized_name};
use crate::model::wheel::WheelName;
use crate::registry::{FrameworkBuild, LearnedRow, Registry};

/// The index of packages that no other one is named for.
pub(crate) const PYPI: &str = "pypi";

/// A project's page on an index (`pypi`, `pytorch/cu126`); `None` if there is none.
///
/// # Errors
/// When the index does not answer.
pub(crate) fn page(
    client: &IndexClient,
    index: &str,
    name: &str,
) -> Result<Option<Arc<ProjectPage>>, Failure> {
    let need = Need::Page { index: index.to_owned(), project: name.to_owned() };
    let fetched =
        client.fetch(&[need], None, &mut |_, _| {}).map_err(|error| fetch::index_error(&error, None))?;
    Ok(fetched.into_iter().find_map(|answer| match answer {
        Fetched::Page { page, .. } => page,
        Fetched::Metadata { .. } => None,
    }))
}

/// The newest final release of a package of the stack on the index pypi that is newer than `above` and of which the registry has
/// no row.
///
/// # Errors
/// The index cannot be read.
pub(crate) fn newest_unread(
    client: &IndexClient,
    registry: &Registry,
    (name, platform): (&str, Platform),
    above: &Version,
) -> Result<Option<Version>, Failure> {
    let Some(page) = page(client, PYPI, name)? else { return Ok(None) };
    let is_unread = |version: &Version| {
        version > above && !version.any_prerelease() && !registry.has_release(name, version, platform)
    };
    Ok(page.newest_first(platform, is_unread).next().map(|(release, _)| release.version.clone()))
}

/// Reads a release from its best wheel, and the names and sizes of its other wheels.
///
/// # Errors
/// When the wheel cannot be read or contradicts itself.
pub(crate) fn release(
    client: &IndexClient,
    (index, page): (&str, &ProjectPage),
    (release, file): (&Release, &ReleaseFile),
    known: (&Registry, Platform),
    interface: &dyn Interface,
) -> Result<Learned, Failure> {
    let like = frameworks_like(&file.filename, known.0, known.1);
    let wanted = Wanted { frameworks: &like, ..Wanted::all(&file.filename, known.1) };
    let mut learned = address(client, (&file.url, file.size), wanted, interface)?;
    learned.sha256.clone_from(&file.sha256);
    if learned.framework.is_some() {
        read_code_beside(client, &mut learned, interface)?;
        return Ok(learned);
    }
    let platform = known.1;
    let siblings = page.files(release);
    learned.files = FileFacts::of(siblings.iter(), platform);
    // If the page states no sizes, ask the server.
    if siblings.iter().any(|file| file.size.is_none()) {
        let needs: Vec<Need> = siblings
            .iter()
            .filter(|file| file.wheel().is_some_and(|wheel| wheel.libc_need(platform, None).is_some()))
            .map(|file| Need::Metadata {
                index: index.to_owned(),
                project: learned.project.clone(),
                filename: file.filename.clone(),
            })
            .collect();
        learned.files.bytes = client.sizes(&needs).into_values().max();
    }
    Ok(learned)
}

/// The known releases of a framework that a wheel may be like.
pub(crate) fn frameworks_like(file: &str, registry: &Registry, platform: Platform) -> Vec<FrameworkBuild> {
    let Ok(name) = file.parse::<WheelName>() else { return Vec::new() };
    let like = registry.frameworks_like(&normalized_name(&name.project), &name.version, platform);
    like.into_iter().map(|row| (**row).clone()).collect()
}

/// Reads a wheel at a URL, of a size if it is known, with HTTP range requests.
///
/// # Errors
/// When it cannot be read or contradicts itself.
pub(crate) fn address(
    client: &IndexClient,
    (url, size): (&str, Option<u64>),
    wanted: Wanted<'_>,
    interface: &dyn Interface,
) -> Result<Learned, Failure> {
    let read =
        |file: &mut RemoteFile<'_>, progress: &mut ReadProgress<'_>| learn::read(file, wanted, progress);
    opened(client, (url, size), wanted.file, interface, read)
}

/// Reads the GPU code of a framework that another package of the release has.
fn read_code_beside(
    client: &IndexClient,
    learned: &mut Learned,
    interface: &dyn Interface,
) -> Result<(), Failure> {
    let package = learned.framework.as_ref().and_then(LearnedFramework::code_in);
    let Some(package) = package.filter(|_| learned.targets.is_none()) else { return Ok(()) };
    let version = &learned.version;
    let found = page(client, PYPI, package)?;
    let found =
        found.as_ref().and_then(|page| page.newest_first(learned.platform, |own| own == version).next());
    let Some((_, file)) = found else {
        let of = &learned.project;
        let message =
            format!("the index has no wheel of {package} {version}, which has the GPU code of {of}");
        return Err(Failure::new(FailureKind::Registry, message));
    };
    let of_release = format!("{package} {version}");
    let read = |file: &mut RemoteFile<'_>, progress: &mut ReadProgress<'_>| {
        learn::code_of(file, &of_release, progress)
    };
    learned.targets = Some(opened(client, (&file.url, file.size), &file.filename, interface, read)?);
    Ok(())
}

/// Reads of a wheel on an index, with a progress bar.
fn opened<T>(
    client: &IndexClient,
    (url, size): (&str, Option<u64>),
    name: &str,
    interface: &dyn Interface,
    read: impl FnOnce(&mut RemoteFile<'_>, &mut ReadProgress<'_>) -> Result<T, LearnError>,
) -> Result<T, Failure> {
    let mut file = client.open(url).map_err(|e| Failure::network(e.to_string()))?;
    let mut progress = ReadProgress::new(interface, size.or(file.size()));
    let read = read(&mut file, &mut progress);
    let learned = progress.finish(read, name)?;
    interface.note(&format!("downloaded {} of {name}", Bytes(file.fetched())));
    Ok(learned)
}

/// What was read, as a row of the registry.
///
/// # Errors
/// A value that the registry does not take.
pub(crate) fn row_of(learned: &Learned) -> Result<LearnedRow, Failure> {
    LearnedRow::parse(&learned.project, learn::render(learned)).map_err(|why| {
        let file = clean(&learned.file, 120);
        Failure::new(
            FailureKind::Registry,
            format!("the data read from `{file}` does not fit the registry: {why}"),
        )
    })
}

/// The bounds that a release has on a package, by its METADATA; `None` if it has none, or METADATA cannot be read.
pub(crate) fn requirement_on(
    client: &IndexClient,
    (project, version): (&str, &Version),
    package: &str,
    platform: Platform,
) -> Option<VersionSpecifiers> {
    let page = page(client, PYPI, project).ok().flatten()?;
    let (_, file) = page.newest_first(platform, |own| own == version).next()?;
    let need = Need::Metadata {
        index: "pypi".to_owned(),
        project: project.to_owned(),
        filename: file.filename.clone(),
    };
    let fetched = client.fetch(&[need], None, &mut |_, _| {}).ok()?;
    fetched.into_iter().find_map(|answer| match answer {
        Fetched::Metadata { metadata: Ok(metadata), .. } => {
            let mut all = metadata.lines().filter_map(|line| parse_requirement(line).ok());
            match all.find(|r| r.name.as_ref() as &str == package)?.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
                _ => None,
            }
        }
        _ => None,
    })
}

/// Reports what will be read, and the progress.
pub(crate) struct ReadProgress<'p> {
    interface: &'p dyn Interface,
    bar: ProgressBar,
    size: Option<u64>,
}

impl<'p> ReadProgress<'p> {
    /// For a wheel of `size` bytes, if known.
    pub fn new(interface: &'p dyn Interface, size: Option<u64>) -> ReadProgress<'p> {
        ReadProgress { interface, bar: interface.progress("reading, MiB"), size }
    }

    /// Ends the progress bar and returns what was read.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn finish<T>(self, read: Result<T, LearnError>, name: &str) -> Result<T, Failure> {
        self.bar.finish_and_clear();
        read.map_err(|error| {
            let message = format!("could not read compatibility data from `{}`: {error}", clean(name, 120));
            match error {
                LearnError::NoCode(_) => {
                    Failure { exit: exit::NO, ..Failure::new(FailureKind::NoCode, message) }
                }
                // The server may answer the next time.
                LearnError::Wheel(WheelError::Io(_) | WheelError::Unpack { .. }) => Failure::network(message),
                _ => Failure::new(FailureKind::Registry, message),
            }
        })
    }
}

impl learn::Progress for ReadProgress<'_> {
    fn will_read(&mut self, packed: u64, members: usize) {
        let of = self.size.map(|size| format!(" of {}", Bytes(size))).unwrap_or_default();
        let s = Count(members).word("y", "ies");
        self.interface.note(&format!("reading {}{of}: {members} librar{s}", Bytes(packed)));
    }

    fn unpacked(&mut self, done: u64, total: u64) {
        self.bar.set_length(total >> 20);
        self.bar.set_position(done >> 20);
    }
}
