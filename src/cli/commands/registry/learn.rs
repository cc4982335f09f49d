//! `envlock registry learn`: prints the compatibility data of a wheel as a registry row.

use std::fs::File;
use std::path::Path;
use std::str::FromStr as _;

use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use serde_json::json;

use crate::cli::args::LearnArgs;
use crate::cli::printer::Printer;
use crate::learn::{self, Learned};
use crate::model::index_owner::index_of;
use crate::model::platform::Platform;
use crate::model::text::clean;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::fetch;
use crate::session::learning::{self, Telling};
use crate::session::options::Global;
use crate::session::settings::{self, Project};

pub(super) fn run(global: &Global, args: &LearnArgs, printer: &Printer) -> Result<u8, Failure> {
    let platform = args.platform.unwrap_or(Platform::LINUX_X86_64);
    let what = args.wheel.as_str();
    let learned = if what.contains("://") {
        from_address(global, what, platform, printer)?
    } else if what.ends_with(".whl") {
        from_file(Path::new(what), platform, printer)?
    } else {
        from_index(global, args, platform, printer)?
    };
    let row = learn::render(&learned);
    let registry = settings::registry(global)?;
    let known = learn::differences(&registry, &learned);
    if printer.json {
        printer.json(&json!({ "row": row, "known": known }));
    } else {
        printer.raw(&row);
        match known {
            Some(differing) if differing.is_empty() => {
                printer.note("the registry has this row with the same data")
            }
            Some(differing) => {
                printer.note(&format!("the registry has this row; it differs in {}", differing.join(", ")))
            }
            None => printer
                .note("the registry does not have it yet; append the row and run `envlock registry lint`"),
        }
    }
    Ok(exit::YES)
}

fn from_file(path: &Path, platform: Platform, printer: &Printer) -> Result<Learned, Failure> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|e| Failure::input(format!("cannot read `{shown}`: {e}")))?;
    let bytes = file.metadata().map(|m| m.len()).ok();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut telling = Telling::new(printer, bytes);
    let read = learn::read(std::io::BufReader::new(file), &name, platform, &mut telling);
    let mut learned = telling.finish(read, &name)?;
    learned.files.bytes = bytes;
    Ok(learned)
}

fn from_address(
    global: &Global,
    url: &str,
    platform: Platform,
    printer: &Printer,
) -> Result<Learned, Failure> {
    if let Err(error) = ::url::Url::parse(url) {
        return Err(Failure::usage(format!("`{}` is not a valid URL: {error}", clean(url, 200))));
    }
    let client = fetch::client_of_addresses(global);
    let name =
        url.split(['?', '#']).next().unwrap_or(url).rsplit('/').next().unwrap_or(url).replace("%2B", "+");
    learning::address(&client, url, &name, None, platform, printer)
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn from_index(
    global: &Global,
    args: &LearnArgs,
    platform: Platform,
    printer: &Printer,
) -> Result<Learned, Failure> {
    let shown = clean(&args.wheel, 80);
    let wrong = |why: &str| {
        Failure::usage(format!("`{shown}` {why}"))
            .hint("pass a requirement such as `torch==2.15.0`, or the path or URL of a wheel")
    };
    let requirement =
        Requirement::<VerbatimUrl>::from_str(&args.wheel).map_err(|_| wrong("is not a valid requirement"))?;
    let specifiers = match &requirement.version_or_url {
        None => None,
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
        Some(VersionOrUrl::Url(_)) => return Err(wrong("is a requirement with a URL")),
    };
    let project = Project::find(global, false)?;
    let client = fetch::client(global, &project, args.index_url.as_deref())?;
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
    learning::release(client, (&index, &page), found, platform, printer)
}
