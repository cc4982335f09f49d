//! Reads the compatibility data of a wheel: a file, an address, or a release of an index.

use std::fs::File;
use std::path::Path;
use std::str::FromStr as _;

use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use super::Interface;
use super::exit;
use super::failure::Failure;
use super::fetch;
use super::learned_rows;
use super::learning::{self, ReadProgress};
use super::options::Global;
use super::settings::Project;
use crate::compatibility::command_to_learn;
use crate::learn::{self, Learned, LearnedFramework, Wanted};
use crate::model::index_owner::index_of;
use crate::model::platform::Platform;
use crate::model::request::STACK_PACKAGES;
use crate::model::text::clean;
use crate::model::wheel::{NEWEST_MINOR, WheelName};
use crate::registry::Registry;

/// Reads what is named: a path or an address of a wheel, or a requirement such as `torch==2.15.0`, whose newest release with a
/// wheel for the platform is read from the index.
///
/// # Errors
/// When it names no wheel, or that cannot be read.
pub(crate) fn learn(
    global: &Global,
    registry: &Registry,
    (what, index_url): (&str, Option<&str>),
    platform: Option<Platform>,
    interface: &dyn Interface,
) -> Result<Learned, Failure> {
    if what.contains("://") {
        from_address(global, what, (registry, platform), interface).and_then(whole)
    } else if what.ends_with(".whl") {
        from_file(Path::new(what), (registry, platform), interface).and_then(whole)
    } else {
        let platform = platform.unwrap_or(Platform::LINUX_X86_64);
        from_index(global, (what, index_url), (registry, platform), interface)
    }
}

/// What one wheel says, if that is all.
///
/// # Errors
/// The GPU code is in another one.
fn whole(learned: Learned) -> Result<Learned, Failure> {
    let code_in = learned.framework.as_ref().and_then(LearnedFramework::code_in);
    match code_in.filter(|_| learned.targets.is_none()) {
        None => Ok(learned),
        Some(package) => {
            let release = format!("{}=={}", learned.project, learned.version);
            Err(Failure::registry(format!(
                "the GPU code of {} is in the wheel of {package}",
                learned.project
            ))
            .hint(format!("{} reads both from the index", command_to_learn(&release, learned.platform))))
        }
    }
}

/// The platform of a wheel by its name: of several, the most used one. One that is stated has to be among them.
fn platform_of(name: &str, stated: Option<Platform>) -> Result<Platform, Failure> {
    // What is wrong with such a name is said where the wheel is read.
    let Ok(wheel) = name.parse::<WheelName>() else { return Ok(stated.unwrap_or(Platform::LINUX_X86_64)) };
    let fits =
        |platform: &Platform| (0..=NEWEST_MINOR).any(|minor| wheel.fit(minor, *platform, None).is_some());
    let shown = clean(name, 120);
    match stated {
        Some(stated) if !fits(&stated) => {
            Err(Failure::usage(format!("`{shown}` is not a wheel for {stated}")))
        }
        Some(stated) => Ok(stated),
        None => Platform::ALL.into_iter().find(fits).ok_or_else(|| {
            let all = Platform::ALL.map(|platform| platform.to_string()).join(", ");
            Failure::usage(format!("`{shown}` is a wheel for none of {all}"))
        }),
    }
}

fn from_file(
    path: &Path,
    (registry, platform): (&Registry, Option<Platform>),
    interface: &dyn Interface,
) -> Result<Learned, Failure> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|e| Failure::input(format!("cannot read `{shown}`: {e}")))?;
    let bytes = file.metadata().map(|m| m.len()).ok();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let platform = platform_of(&name, platform)?;
    let mut progress = ReadProgress::new(interface, bytes);
    let like = learning::frameworks_like(&name, registry, platform);
    let wanted = Wanted { frameworks: &like, ..Wanted::all(&name, platform) };
    let read = learn::read(std::io::BufReader::new(file), wanted, &mut progress);
    let mut learned = progress.finish(read, &name)?;
    learned.files.bytes = bytes;
    Ok(learned)
}

fn from_address(
    global: &Global,
    url: &str,
    (registry, platform): (&Registry, Option<Platform>),
    interface: &dyn Interface,
) -> Result<Learned, Failure> {
    if let Err(error) = ::url::Url::parse(url) {
        return Err(Failure::usage(format!("`{}` is not a valid URL: {error}", clean(url, 200))));
    }
    let client = fetch::client_of_addresses(global);
    let name =
        url.split(['?', '#']).next().unwrap_or(url).rsplit('/').next().unwrap_or(url).replace("%2B", "+");
    let platform = platform_of(&name, platform)?;
    let like = learning::frameworks_like(&name, registry, platform);
    let wanted = Wanted { frameworks: &like, ..Wanted::all(&name, platform) };
    learning::address(&client, (url, None), wanted, interface)
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn from_index(
    global: &Global,
    (what, index_url): (&str, Option<&str>),
    (registry, platform): (&Registry, Platform),
    interface: &dyn Interface,
) -> Result<Learned, Failure> {
    let shown = clean(what, 80);
    let wrong = |why: &str| {
        Failure::usage(format!("`{shown}` {why}"))
            .hint("pass a requirement such as `torch==2.15.0`, or the path or URL of a wheel")
    };
    let requirement =
        Requirement::<VerbatimUrl>::from_str(what).map_err(|_| wrong("is not a valid requirement"))?;
    let specifiers = match &requirement.version_or_url {
        None => None,
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
        Some(VersionOrUrl::Url(_)) => return Err(wrong("is a requirement with a URL")),
    };
    let project = Project::find(global, false)?;
    let client = fetch::client(global, &project, index_url)?;
    let name = requirement.name.to_string();
    // A local version names a build of the pytorch index: `torch==2.15.0+cu130`.
    let local = specifiers.and_then(|all| all.iter().find(|one| one.version().is_local()));
    let index = local.map_or(learning::PYPI.to_owned(), |one| index_of(one.version()));
    let page = learning::page(client, &index, &name)?;
    let page = page.ok_or_else(|| Failure {
        exit: exit::NO,
        ..Failure::network(format!("the index {index} has no `{name}`"))
    })?;
    let Some(found) = page.newest_for(platform, specifiers) else {
        return Err(Failure {
            exit: exit::NO,
            ..Failure::registry(format!(
                "no release of {name} that `{shown}` allows has a wheel for {platform}"
            ))
        });
    };
    let learned = learning::release(client, (&index, &page), found, (registry, platform), interface)?;
    // Other commands know it from now on, as they do what `resolve` reads.
    if STACK_PACKAGES.contains(&learned.project.as_str()) || learned.framework.is_some() {
        let store = learned_rows::store(global);
        let kept =
            store.place(&learned.project, &found.0.version, platform).share(&learning::row_of(&learned)?);
        if let Err(why) = kept {
            interface.warning(&format!("the row could not be kept, so other commands do not know it: {why}"));
        }
    }
    Ok(learned)
}
