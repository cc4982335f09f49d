//! `envlock registry learn`: what a wheel says of itself, as the row to append.

use std::fs::File;
use std::path::Path;
use std::str::FromStr as _;

use indicatif::ProgressBar;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use serde_json::json;

use crate::cli::args::{GlobalArgs, LearnArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::fetch;
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::index::{Fetched, IndexClient};
use crate::learn::{self, FileFacts, LearnError, Learned};
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, WheelFile};
use crate::model::solution::Need;
use crate::model::text::clean;
use crate::model::wheel::Python;
use crate::registry::Registry;

pub(super) fn run(global: &GlobalArgs, args: &LearnArgs, printer: &Printer) -> Result<u8, CliError> {
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
    let known = known(&registry, &learned);
    if printer.json {
        printer.json(&json!({ "row": row, "known": known }));
    } else {
        printer.raw(&row);
        match known {
            Some(differing) if differing.is_empty() => {
                printer.note("the registry has this row, the same in all that was read")
            }
            Some(differing) => {
                printer.note(&format!("the registry has this row; it differs in {}", differing.join(", ")))
            }
            None => printer.note(
                "the registry does not have it yet; `envlock registry lint` checks it once it is there",
            ),
        }
    }
    Ok(exit::YES)
}

/// What the registry's own row says differently, by key; nothing where it has none.
fn known(registry: &Registry, learned: &Learned) -> Option<Vec<&'static str>> {
    if learned.project != "torch" {
        let row = registry.companion(&learned.project, &learned.version)?;
        return Some(if row.targets.is_some() && row.targets != learned.targets {
            vec!["targets"]
        } else {
            Vec::new()
        });
    }
    let row = registry.build(&learned.version, learned.variant.as_deref()?, learned.platform)?;
    let text = |v: &Option<crate::model::version::DottedVersion>| v.as_ref().map(ToString::to_string);
    let cuda = row.cuda.as_ref().map(crate::model::version::cuda_short);
    let pairs = [
        ("cuda", cuda == learned.cuda),
        ("cudnn", text(&row.cudnn) == learned.cudnn),
        ("nccl", text(&row.nccl) == learned.nccl),
        ("triton", row.triton == learned.triton),
        ("targets", row.targets == learned.targets),
        ("glibc", text(&row.glibc) == learned.files.glibc),
        ("requires_python", row.requires_python.as_ref().map(ToString::to_string) == learned.requires_python),
    ];
    Some(pairs.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect())
}

fn from_file(path: &Path, platform: Platform, printer: &Printer) -> Result<Learned, CliError> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|e| CliError::new("input", format!("cannot read `{shown}`: {e}")))?;
    let bytes = file.metadata().map(|m| m.len()).ok();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut telling = Telling::new(printer, bytes);
    let read = learn::read(std::io::BufReader::new(file), &name, platform, &mut telling);
    let mut learned = telling.finish(read, &name)?;
    learned.files.bytes = bytes;
    Ok(learned)
}

fn from_address(
    global: &GlobalArgs,
    url: &str,
    platform: Platform,
    printer: &Printer,
) -> Result<Learned, CliError> {
    let client = fetch::client_of_addresses(global);
    let name =
        url.split(['?', '#']).next().unwrap_or(url).rsplit('/').next().unwrap_or(url).replace("%2B", "+");
    read_remote(&client, url, &name, None, platform, printer)
}

fn from_index(
    global: &GlobalArgs,
    args: &LearnArgs,
    platform: Platform,
    printer: &Printer,
) -> Result<Learned, CliError> {
    let shown = clean(&args.wheel, 80);
    let wrong = |why: &str| {
        CliError::new("usage", format!("`{shown}` {why}"))
            .hint("a requirement such as `torch==2.15.0`, a wheel's path, or its address")
    };
    let requirement =
        Requirement::<VerbatimUrl>::from_str(&args.wheel).map_err(|_| wrong("is no requirement"))?;
    let specifiers = match &requirement.version_or_url {
        None => None,
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
        Some(VersionOrUrl::Url(_)) => return Err(wrong("names an address in a requirement")),
    };
    let project = Project::find(global, false)?;
    let client = fetch::client(global, &project, args.index_url.as_deref())?;
    let name = requirement.name.to_string();
    let page = page(&client, &name)?;
    let page = page.ok_or_else(|| CliError::new("network", format!("the index pypi has no `{name}`")))?;
    let fits = |prereleases: bool| {
        page.releases().iter().rev().find_map(|release| {
            let admitted = specifiers.is_none_or(|s| s.contains(&release.version))
                && (prereleases || specifiers.is_some() || !release.version.any_prerelease());
            let wheel = || {
                (0..64).rev().find_map(|minor| {
                    page.usable(release, Python::new(minor), platform, None).into_iter().next()
                })
            };
            Some((release, admitted.then(wheel)??))
        })
    };
    let Some((release, file)) = fits(false).or_else(|| fits(true)) else {
        return Err(CliError {
            exit: exit::NO,
            ..CliError::new(
                "registry",
                format!("no release of {name} that `{shown}` allows has a wheel for {platform}"),
            )
        });
    };
    let mut learned = read_remote(&client, &file.url, &file.filename, file.size, platform, printer)?;
    learned.sha256.clone_from(&file.sha256);
    let siblings: Vec<&WheelFile> = page.files(release).iter().collect();
    let mut files = FileFacts::of(siblings.iter().copied(), platform);
    // A page that states no sizes: the servers do.
    if siblings.iter().any(|file| file.size.is_none()) {
        files.bytes = largest(&client, &name, &siblings, platform);
    }
    learned.files = files;
    Ok(learned)
}

fn largest(client: &IndexClient, project: &str, files: &[&WheelFile], platform: Platform) -> Option<u64> {
    let needs: Vec<Need> = files
        .iter()
        .filter(|file| file.wheel.libc_need(platform, None).is_some())
        .map(|file| Need::Metadata {
            index: "pypi".to_owned(),
            project: project.to_owned(),
            filename: file.filename.clone(),
        })
        .collect();
    client.sizes(&needs).into_values().max()
}

fn page(client: &IndexClient, name: &str) -> Result<Option<std::sync::Arc<ProjectPage>>, CliError> {
    let need = Need::Page { index: "pypi".to_owned(), project: name.to_owned() };
    let fetched = client
        .fetch(&[need], None, &mut |_, _| {})
        .map_err(|e| fetch::index_error(&e, &crate::model::request::Request::default()))?;
    Ok(fetched.into_iter().find_map(|answer| match answer {
        Fetched::Page { page, .. } => page,
        Fetched::Metadata { .. } => None,
    }))
}

fn read_remote(
    client: &IndexClient,
    url: &str,
    name: &str,
    size: Option<u64>,
    platform: Platform,
    printer: &Printer,
) -> Result<Learned, CliError> {
    let mut file = client.open(url).map_err(|e| CliError::new("network", e.to_string()))?;
    let mut telling = Telling::new(printer, size.or(file.size()));
    let read = learn::read(&mut file, name, platform, &mut telling);
    let learned = telling.finish(read, name)?;
    printer.note(&format!("{} of {name} came over the network", mb(file.fetched())));
    Ok(learned)
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Says what will be read before it is, and how far it is.
struct Telling<'p> {
    printer: &'p Printer,
    bar: ProgressBar,
    size: Option<u64>,
}

impl<'p> Telling<'p> {
    fn new(printer: &'p Printer, size: Option<u64>) -> Telling<'p> {
        Telling { printer, bar: printer.progress("reading, MiB"), size }
    }

    fn finish(self, read: Result<Learned, LearnError>, name: &str) -> Result<Learned, CliError> {
        self.bar.finish_and_clear();
        read.map_err(|error| CliError {
            exit: exit::NO,
            ..CliError::new("registry", format!("nothing is learned of `{}`: {error}", clean(name, 120)))
        })
    }
}

impl learn::Progress for Telling<'_> {
    fn will_read(&mut self, packed: u64, members: usize) {
        let of = self.size.map(|size| format!(" of {}", mb(size))).unwrap_or_default();
        let s = if members == 1 { "y" } else { "ies" };
        self.printer.note(&format!("reading {}{of}: {members} librar{s}", mb(packed)));
    }

    fn unpacked(&mut self, done: u64, total: u64) {
        self.bar.set_length(total >> 20);
        self.bar.set_position(done >> 20);
    }
}
