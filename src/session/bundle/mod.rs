//! `envlock bundle`: collects what a lock's targets need, for machines without a network; and what reads a bundle.

mod archived_python;
mod builder;
mod built;
mod collect;
mod open;
mod pack;
mod sign;
mod wheelhouse;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Interface;
use super::alone::alone;
use super::failure::{Failure, FailureKind};
use super::options::Global;
use super::settings::Project;
use super::{fetch, files, project_lock, write};
use crate::bundle::{self, BundledFile, Manifest, Needs, NotBundled};
use crate::lockfile::Lockfile;
use crate::model::text::clean;
use collect::Collected;
use sign::Signer;

pub(crate) use archived_python::unpacked as unpacked_python;
pub(crate) use open::OpenBundle;
pub(crate) use wheelhouse::Wheelhouse;

/// What is bundled, and where.
#[derive(Debug, Clone, Default)]
pub struct BundleOptions {
    /// The folder, or an archive `NAME.tar`; else `envlock-bundle` beside the lock.
    pub output: Option<PathBuf>,
    /// The targets; else all.
    pub target: Vec<String>,
    /// An archive with a Python; `none` for none.
    pub python: Option<String>,
    /// Whether envlock itself is bundled.
    pub own_program: bool,
    /// The secret key of minisign that signs the manifest.
    pub sign: Option<PathBuf>,
    /// Whether wheels of source distributions are built here, which runs their code.
    pub build: bool,
    /// An older bundle, whose files the other side has.
    pub since: Option<PathBuf>,
    /// Whether a flat folder for pip and uv is made instead.
    pub wheelhouse: bool,
    /// Whether nothing is downloaded, and the answer is what would be.
    pub dry_run: bool,
    /// The address of the index `pypi`.
    pub index_url: Option<String>,
}

/// What was bundled, or would be.
#[derive(Debug)]
pub struct Bundled {
    /// Where.
    pub place: PathBuf,
    /// Whether nothing was done.
    pub is_planned: bool,
    /// By target: its name, the number of files, their bytes, and how many files of unknown size are among them.
    pub targets: Vec<OfTarget>,
    /// Files, each once.
    pub files: usize,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// Files whose size is not known before they are downloaded.
    pub unmeasured: usize,
    /// Whether packages are built from source on the other side.
    pub builds_there: bool,
    /// Of these files, those that were there before, here or in the older bundle.
    pub kept: usize,
    /// Files whose metadata say that their licence is proprietary.
    pub proprietary: Vec<String>,
}

/// What a target needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfTarget {
    /// Its name.
    pub name: String,
    /// Its files.
    pub files: usize,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// Files whose size is not known before they are downloaded.
    pub unmeasured: usize,
}

/// The folder of a bundle without a name.
const DEFAULT: &str = "envlock-bundle";

/// Bundles what the targets of a project's lock need.
///
/// # Errors
/// When there is no lock, a package has no file with a hash, a file cannot be downloaded or written.
pub(crate) fn bundle(
    global: &Global,
    options: &BundleOptions,
    interface: &dyn Interface,
) -> Result<Bundled, Failure> {
    let project = Project::find(global, true)?;
    let own = project_lock::read(&project)?.ok_or_else(project_lock::missing)?;
    project_lock::warn_if_stale(&project, &own, &project.registry(global)?, interface);
    if let Some(held) = &own.packages_in {
        return Err(Failure::export(format!("`{}` holds the packages", held.owner.file())).hint(
            "bundle a lock of envlock's own: `envlock init --from` in another folder, then `envlock resolve`",
        ));
    }
    let targets = chosen(&own, &options.target)?;
    let needs = Needs::of(&targets).map_err(not_bundled)?;
    let place = options.output.clone().unwrap_or_else(|| project.folder.join(DEFAULT));
    let archive = match options.wheelhouse {
        true => wheelhouse::check(options, &place, &targets).map(|()| None)?,
        false => pack::archive_of(&place)?,
    };
    let signer = options.sign.as_deref().map(|path| Signer::open(path, interface)).transpose()?;
    tell_folders(&targets, interface);
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let before = options.since.as_deref().map(|path| OpenBundle::open(path, None)).transpose()?;
    let client = fetch::client(global, &project, options.index_url.as_deref())?;
    if options.wheelhouse {
        let collected = Collected { needs: &needs, extras: &[], before: None };
        return wheelhouse::make(&place, &collected, (client, &targets), options, interface);
    }
    let extras = collect::extras(options, &targets, client, interface)?;
    let collected = Collected { needs: &needs, extras: &extras, before: before.as_ref() };
    if options.dry_run {
        let builds_there = built::tell(&targets, options.build, interface);
        tell_commits(&needs, interface);
        return Ok(Bundled { builds_there, ..planned(place, &names, &collected) });
    }
    let folder = archive.map_or_else(|| place.clone(), |archive| with_suffix(archive, ".parts"));
    refuse_foreign(&folder)?;
    fs_err::create_dir_all(&folder)?;
    let _alone = alone(&folder, "envlock bundle", interface)?;
    pack::unpack_earlier(archive, &folder)?;
    let earlier = OpenBundle::open(&folder, None).ok();
    let bundles: Vec<&OpenBundle> = earlier.iter().chain(&before).collect();
    let packs = collect::Packs::of(&needs.commits, &project.folder, &bundles)?;
    let extras = [extras.as_slice(), packs.extras()?.as_slice()].concat();
    let collected = Collected { extras: &extras, ..collected };
    let lock_text = fs_err::read(project.lock_path())?;
    let by_hash = |hash: &str, name: &str| folder.join(bundle::FILES).join(hash).join(name);
    let kept = collected.fill(&by_hash, client, interface)?;
    let builds_there = built::tell(&targets, options.build, interface);
    let built = match options.build {
        true => {
            let of = built::OfBundle { folder: &folder, before: before.as_ref(), extras: &extras };
            built::wheels(&of, (&project, &targets, &needs), (global, options), interface)?
        }
        false => built::Wheels::default(),
    };
    let nothing = Needs::default();
    Collected { needs: &nothing, extras: &built.extras, before: None }.fill(&by_hash, client, interface)?;
    let extras = [extras.as_slice(), built.extras.as_slice()].concat();
    let collected = Collected { extras: &extras, ..collected };
    let files = collected.files(&folder)?;
    let superseded = before.as_ref().map(|before| before.superseded_by(&files)).unwrap_or_default();
    let manifest = Manifest { lock: open::digest_of(&lock_text), targets: names.clone(), files, superseded };
    collect::remove_others(&folder, &manifest)?;
    write::write_bytes(&folder.join(bundle::LOCK), &lock_text)?;
    // That of an older manifest.
    let _ = fs_err::remove_file(folder.join(bundle::SIGNATURE));
    let text = manifest.render();
    // Last: a bundle without it is not complete.
    write::write(&folder.join(bundle::MANIFEST), &text)?;
    if let Some(signer) = &signer {
        write::write(&folder.join(bundle::SIGNATURE), &signer.sign(&text, &manifest.lock)?)?;
    }
    let proprietary = collect::proprietary(&folder, &manifest);
    if let Some(archive) = archive {
        pack::pack(&folder, &manifest, archive)?;
        fs_err::remove_dir_all(&folder)?;
    }
    let place = place.clone();
    Ok(Bundled { place, builds_there, proprietary, kept, ..counted(&names, &manifest.files) })
}

/// The targets that are meant.
fn chosen<'l>(own: &'l Lockfile, names: &[String]) -> Result<Vec<&'l crate::lockfile::Target>, Failure> {
    match names {
        [] => Ok(own.targets.iter().collect()),
        names => names.iter().map(|name| project_lock::target(own, Some(name))).collect(),
    }
}

/// A package that has no file with a hash, and what helps.
fn not_bundled(error: NotBundled) -> Failure {
    let hint = match &error {
        NotBundled::StackOnly => "run `envlock resolve` without it first",
        NotBundled::NoHash(_) => "`envlock resolve --check-hashes` computes the hashes of such files",
        NotBundled::NoFile { .. } => {
            "build a wheel of it, put it into a folder, and name the folder as an `[[index]]`"
        }
    };
    Failure::export(error.to_string()).hint(hint)
}

/// Packages that are folders of the project come with it, and not with the bundle.
fn tell_folders(targets: &[&crate::lockfile::Target], interface: &dyn Interface) {
    let mut names: Vec<&str> = targets
        .iter()
        .flat_map(|target| &target.packages)
        .filter(|package| matches!(package.source, crate::model::source::Source::Path(_)))
        .map(|package| package.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        interface.note(&format!(
            "`{}`: a folder of the project, which is to be beside the lock there",
            names.join("`, `")
        ));
    }
}

/// Says what is not known before a repository is read.
fn tell_commits(needs: &Needs, interface: &dyn Interface) {
    let names: Vec<String> = needs.commits.iter().map(|own| format!("`{}`", own.package)).collect();
    if !names.is_empty() {
        let text = "no repository is read in a dry run, and a commit with submodules cannot be bundled";
        interface.note(&format!("from git: {}; {text}", names.join(", ")));
    }
}

/// A folder that has other things than a bundle's is left alone.
fn refuse_foreign(folder: &Path) -> Result<(), Failure> {
    let Ok(mut entries) = fs_err::read_dir(folder) else { return Ok(()) };
    let is_of_bundle = |name: &std::ffi::OsStr| {
        [bundle::FILES, bundle::LOCK, bundle::MANIFEST, bundle::SIGNATURE].iter().any(|own| name == *own)
    };
    let mut foreign = entries.find_map(|entry| entry.ok().filter(|entry| !is_of_bundle(&entry.file_name())));
    // What is in `files` and not of a bundle would be removed.
    if let (None, Ok(mut entries)) = (&foreign, fs_err::read_dir(folder.join(bundle::FILES))) {
        let is_of_bundle = |name: &std::ffi::OsStr| name.to_str().is_some_and(bundle::is_hash);
        foreign = entries.find_map(|entry| entry.ok().filter(|entry| !is_of_bundle(&entry.file_name())));
    }
    match foreign {
        None => Ok(()),
        Some(entry) => Err(Failure::files(format!(
            "`{}` is no bundle: it has `{}`",
            folder.display(),
            clean(&entry.file_name().to_string_lossy(), 80)
        ))
        .hint("name a folder of its own: `envlock bundle -o DIR`")),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

/// What would be bundled.
fn planned(place: PathBuf, names: &[String], collected: &Collected<'_>) -> Bundled {
    let mut targets = Vec::new();
    for name in names {
        let mut of = OfTarget { name: name.clone(), files: 0, bytes: 0, unmeasured: 0 };
        for (size, of_target) in collected.sizes() {
            if of_target.contains(name) {
                of.files += 1;
                of.bytes += size.unwrap_or(0);
                of.unmeasured += usize::from(size.is_none());
            }
        }
        targets.push(of);
    }
    let files = collected.sizes().count();
    let bytes = collected.sizes().filter_map(|(size, _)| size).sum();
    let unmeasured = collected.sizes().filter(|(size, _)| size.is_none()).count();
    let kept = collected.kept_of_older();
    let (builds_there, proprietary) = (false, Vec::new());
    Bundled { place, is_planned: true, targets, files, bytes, unmeasured, builds_there, kept, proprietary }
}

/// What is in a bundle, by target.
fn counted(names: &[String], files: &[BundledFile]) -> Bundled {
    let of = |name: &String| {
        let own = || files.iter().filter(move |file| file.targets.contains(name));
        OfTarget {
            name: name.clone(),
            files: own().count(),
            bytes: own().map(|file| file.size).sum(),
            unmeasured: 0,
        }
    };
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for file in files {
        places.insert(file.place(), file.size);
    }
    Bundled {
        place: PathBuf::new(),
        is_planned: false,
        targets: names.iter().map(of).collect(),
        files: places.len(),
        bytes: places.values().sum(),
        unmeasured: 0,
        builds_there: false,
        kept: 0,
        proprietary: Vec::new(),
    }
}

/// The error of a file that could not be had.
fn not_downloaded(error: &crate::index::NotDownloaded, is_offline: bool) -> Failure {
    if error.is_changed {
        return Failure::new(FailureKind::Files, error.to_string())
            .hint("`envlock resolve` reads anew what the index has");
    }
    Failure::new(FailureKind::Network, error.to_string()).hint(match is_offline {
        true => "leave out `--offline`: a bundle is made where there is a network",
        false => "run the command again: what arrived is kept",
    })
}

/// A file that belongs to the project, for messages.
fn shown(path: &Path) -> String {
    clean(&path.display().to_string(), 200)
}

/// What a lock's targets need, for whoever holds a bundle against it.
pub(crate) fn needs_of(own: &Lockfile, names: &[&str]) -> Result<Needs, Failure> {
    let targets: Vec<&crate::lockfile::Target> =
        own.targets.iter().filter(|target| names.contains(&target.name.as_str())).collect();
    Needs::of(&targets).map_err(not_bundled)
}

/// Whether a path names an archive.
fn is_archive(path: &Path) -> bool {
    files::is_device(path) || path.is_file()
}
