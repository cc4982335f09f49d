//! The files of a target in one flat folder, as pip and uv read it: what `sync` installs from, and what `--wheelhouse` writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::collect::Collected;
use super::open::OpenBundle;
use super::{BundleOptions, Bundled, OfTarget};
use crate::bundle::{BundledFile, NotBundled, Role, commits, from_one_folder};
use crate::formats::write;
use crate::git::{self, GitError};
use crate::index::IndexClient;
use crate::inspect;
use crate::lockfile::Target;
use crate::model::source::Source;
use crate::model::text::clean;
use crate::session::Interface;
use crate::session::failure::{Failure, FailureKind};
use crate::session::scratch::Scratch;
use crate::session::{self, files};

/// The files of a target, for an installer.
pub(crate) struct Wheelhouse {
    folder: Scratch,
    /// The bundle's installer for this platform.
    pub uv: Option<PathBuf>,
    /// The bundle's Python: the archive, and its entry in the manifest.
    pub python: Option<(PathBuf, BundledFile)>,
    /// The wheels that were built from locked source distributions.
    pub built: Vec<BundledFile>,
    /// Addresses of git repositories, and where they lie here.
    pub repositories: BTreeMap<String, PathBuf>,
}

impl Wheelhouse {
    /// Links the files of a target, and unpacks the installer.
    ///
    /// # Errors
    /// When a file cannot be linked or read.
    pub fn of(bundle: &OpenBundle, target: &Target, project: &Path) -> Result<Wheelhouse, Failure> {
        let folder = Scratch::new("wheels")?;
        let root = std::path::absolute(&bundle.folder)?;
        let wheels = folder.path().join("wheels");
        fs_err::create_dir_all(&wheels)?;
        let (mut uv, mut python, mut built) = (None, None, Vec::new());
        let mut packs = BTreeMap::new();
        for file in bundle.manifest.of_target(&target.name) {
            let from = root.join(file.place());
            match file.role {
                Role::Package | Role::Build => link(&from, &wheels.join(&file.name))?,
                Role::Built => {
                    link(&from, &wheels.join(&file.name))?;
                    built.push(file.clone());
                }
                Role::Git => {
                    packs.insert(file.name.clone(), from);
                }
                Role::Python => {
                    let place = folder.path().join("python.tar.gz");
                    link(&from, &place)?;
                    python = Some((place, file.clone()));
                }
                Role::Conda => {
                    for package in target.conda.iter().filter(|own| own.sha256 == file.sha256) {
                        let place =
                            folder.path().join("channels").join(&package.channel).join(&package.subdir);
                        fs_err::create_dir_all(&place)?;
                        link(&from, &place.join(&package.file))?;
                    }
                }
                Role::Installer => uv = Some(unpacked(&bundle.place(file), &file.name, folder.path())?),
                Role::Program => {}
            }
        }
        let repositories = unpack(&packs, target, project, folder.path())?;
        Ok(Wheelhouse { folder, uv, python, built, repositories })
    }

    /// The folder of this run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder with wheels and source distributions.
    pub fn links(&self) -> PathBuf {
        self.folder.path().join("wheels")
    }

    /// The address below which the channels of conda's packages lie.
    pub fn channel_alias(&self) -> String {
        format!("file://{}", self.folder.path().join("channels").display())
    }
}

/// Makes the repositories that a target's commits are of, out of packfiles by name.
fn unpack(
    packs: &BTreeMap<String, PathBuf>,
    target: &Target,
    project: &Path,
    folder: &Path,
) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut repositories: BTreeMap<String, PathBuf> = BTreeMap::new();
    for commit in commits(&[target]) {
        let Some(pack) = packs.get(&commit.file()) else { continue };
        let count = repositories.len();
        let place = repositories
            .entry(commit.repository.clone())
            .or_insert_with(|| folder.join("git").join(format!("{count}.git")));
        fs_err::create_dir_all(&*place)?;
        git::unpack(pack, &commit.commit, project, place).map_err(|error| match error {
            GitError::NoGit(_) => Failure::usage(error.to_string()).hint("install git"),
            GitError::Failed { .. } | GitError::Submodules { .. } => Failure::input(error.to_string())
                .hint("`envlock bundle` fetches the commit again, where there is a network"),
        })?;
    }
    Ok(repositories)
}

/// A link where the system has them, else a copy.
pub(super) fn link(from: &Path, to: &Path) -> Result<(), Failure> {
    if fs_err::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    if fs_err::hard_link(from, to).is_err() {
        fs_err::copy(from, to)?;
    }
    Ok(())
}

/// The program `uv` out of its wheel.
pub(super) fn unpacked(wheel: &Path, name: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let failed = |why: String| {
        Failure::new(FailureKind::Installer, format!("the bundle's installer `{name}` cannot be used: {why}"))
            .hint("`envlock bundle` fetches another one")
    };
    /// Maximum size of the program, in bytes: that of uv 0.13 has 60 MB.
    const LARGEST: u64 = 1 << 30;
    let opened = std::io::BufReader::new(fs_err::File::open(wheel)?);
    let mut archive = inspect::open_wheel(opened).map_err(|error| failed(error.to_string()))?;
    // `uv-0.9.0.data/scripts/uv`
    let mut members = inspect::members_of_wheel(&mut archive).into_iter();
    let (at, ..) = members
        .find(|(_, name, _)| name.ends_with(".data/scripts/uv"))
        .ok_or_else(|| failed("it has no program `uv`".to_owned()))?;
    let program =
        inspect::bytes_of_wheel(&mut archive, at, LARGEST).map_err(|error| failed(error.to_string()))?;
    let place = folder.join("uv");
    fs_err::write(&place, program)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs_err::set_permissions(&place, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(place)
}

/// Refuses what a wheelhouse cannot be: an archive, a part of a bundle, more than the files of the lock, or less.
pub(super) fn check(options: &BundleOptions, place: &Path, targets: &[&Target]) -> Result<(), Failure> {
    let packages = targets.iter().flat_map(|target| &target.packages);
    let mut folders = packages.filter(|own| matches!(own.source, Source::Path(_)) && own.files.is_empty());
    if let Some(own) = folders.next() {
        // pip's `--require-hashes` takes no folder.
        let (package, from) = (own.name.clone(), "a folder");
        return Err(super::not_bundled(NotBundled::NoFile { package, from }));
    }
    let others = [
        options.since.is_some(),
        options.own_program,
        options.python.is_some(),
        options.sign.is_some(),
        options.build,
    ];
    if others.contains(&true) {
        return Err(Failure::usage("a wheelhouse has the files of the lock alone")
            .hint("leave out `--since`, `--self`, `--python`, `--sign` and `--build`, or `--wheelhouse`"));
    }
    if place.join(crate::bundle::MANIFEST).exists() {
        return Err(Failure::files(format!(
            "`{}` is a bundle, and a wheelhouse in it would break it",
            super::shown(place)
        ))
        .hint("name another folder with `-o`"));
    }
    if place.extension().is_some_and(|extension| extension == "tar") {
        return Err(
            Failure::usage("a wheelhouse is a folder, and no archive").hint("name a folder with `-o`")
        );
    }
    Ok(())
}

/// Makes a flat folder for pip and uv, with the requirements beside the files.
///
/// # Errors
/// When several targets are meant, a lock cannot be expressed, or a file cannot be downloaded.
pub(super) fn make(
    place: &Path,
    collected: &Collected<'_>,
    (client, targets): (&IndexClient, &[&Target]),
    options: &BundleOptions,
    interface: &dyn Interface,
) -> Result<Bundled, Failure> {
    let [target] = targets else {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        return Err(Failure::usage("a wheelhouse is for one target").hint(format!(
            "name one: `--target {}`; the lock has {}",
            names.first().unwrap_or(&""),
            names.join(", ")
        )));
    };
    if !target.conda.is_empty() {
        return Err(write::ExportError::Conda(target.conda[0].name.clone()).into());
    }
    if let Some(commit) = collected.needs.commits.first() {
        let from = "a git repository";
        return Err(super::not_bundled(NotBundled::NoFile { package: commit.package.clone(), from }));
    }
    let part = from_one_folder((*target).clone(), &[]);
    let text = write::requirements(&part, &[], files::REQUIREMENTS)?;
    let constraints = write::build_constraints(&part)?;
    let mut bundled = super::planned(place.to_owned(), std::slice::from_ref(&target.name), collected);
    if options.dry_run {
        return Ok(bundled);
    }
    fs_err::create_dir_all(place)?;
    tell_others(place, collected, interface);
    bundled.kept = collected.fill(&|_, name| place.join(name), client, interface)?;
    for (name, text) in [(files::REQUIREMENTS, Some(text)), ("build-constraints.txt", constraints)] {
        if let Some(text) = text {
            session::write::write(&place.join(name), &text)?;
        }
    }
    bundled.is_planned = false;
    let files = collected.needs.files.iter().filter_map(|own| fs_err::metadata(place.join(&own.name)).ok());
    bundled.bytes = files.map(|about| about.len()).sum();
    bundled.unmeasured = 0;
    bundled.targets = vec![OfTarget { unmeasured: 0, bytes: bundled.bytes, ..bundled.targets.remove(0) }];
    Ok(bundled)
}

/// Names wheels that are there and not locked: `pip install NAME --find-links` would take a newer one of them.
fn tell_others(place: &Path, collected: &Collected<'_>, interface: &dyn Interface) {
    let entries = fs_err::read_dir(place).into_iter().flatten().filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_locked = |name: &String| collected.needs.files.iter().any(|own| own.name == *name);
    let mut others: Vec<String> = names
        .filter(|name| name.ends_with(".whl") && !is_locked(name))
        .map(|name| clean(&name, 100))
        .collect();
    others.sort();
    if !others.is_empty() {
        interface.note(&format!("not of this lock, and left where it is: `{}`", others.join("`, `")));
    }
}
