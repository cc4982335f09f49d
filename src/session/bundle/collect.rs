//! The files of a bundle: what is there, and what is downloaded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::open::OpenBundle;
use super::{BundleOptions, archived_python, not_downloaded, shown};
use crate::bundle::{self, BundledFile, Commit, From, Manifest, Needs, Role, Wanted};
use crate::git::{self, GitError};
use crate::index::{Download, Fetched, IndexClient, metadata_text_of_wheel, sha256_of};
use crate::lockfile::Target;
use crate::model::licence::Licence;
use crate::model::platform::Platform;
use crate::model::solution::Need;
use crate::model::wheel::Python;
use crate::session::Interface;
use crate::session::failure::Failure;
use crate::session::scratch::Scratch;
use crate::session::{fetch, learning, settings};

/// A file besides the lock's.
#[derive(Debug, Clone)]
pub(super) struct Extra {
    pub name: String,
    pub role: Role,
    pub sha256: String,
    pub size: Option<u64>,
    pub targets: Vec<String>,
    pub from: Place,
}

/// Where it is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Here(PathBuf),
    At(String),
}

/// All that a bundle has.
pub(super) struct Collected<'c> {
    pub needs: &'c Needs,
    pub extras: &'c [Extra],
    /// An older bundle, whose files the other side has.
    pub before: Option<&'c OpenBundle>,
}

/// One file, whatever asks for it.
struct Item<'c> {
    name: &'c str,
    sha256: &'c str,
    size: Option<u64>,
    from: ItemFrom<'c>,
}

enum ItemFrom<'c> {
    Lock(&'c From),
    Extra(&'c Place),
}

impl Collected<'_> {
    /// Sizes and targets of all files, before anything is fetched.
    pub fn sizes(&self) -> impl Iterator<Item = (Option<u64>, &Vec<String>)> {
        let wanted = self.wanted().iter().map(|own| (own.size, &own.targets));
        // How large a commit is, its repository says when it is packed.
        let commits = self.needs.commits.iter().map(|own| (None, &own.targets));
        wanted.chain(self.extras.iter().map(|own| (own.size, &own.targets))).chain(commits)
    }

    fn wanted(&self) -> &[Wanted] {
        &self.needs.files
    }

    /// How many files the older bundle has.
    pub fn kept_of_older(&self) -> usize {
        self.items().iter().filter(|item| self.is_before(item)).count()
    }

    fn is_before(&self, item: &Item<'_>) -> bool {
        let has = |before: &&OpenBundle| before.manifest.files.iter().any(|own| own.sha256 == item.sha256);
        self.before.as_ref().is_some_and(has)
    }

    /// Each file once.
    fn items(&self) -> Vec<Item<'_>> {
        let mut seen = BTreeSet::new();
        let wanted = self.wanted().iter().map(|own| Item {
            name: &own.name,
            sha256: &own.sha256,
            size: own.size,
            from: ItemFrom::Lock(&own.from),
        });
        let extras = self.extras.iter().map(|own| Item {
            name: &own.name,
            sha256: &own.sha256,
            size: own.size,
            from: ItemFrom::Extra(&own.from),
        });
        wanted
            .chain(extras)
            .filter(|item| seen.insert((item.sha256.to_owned(), item.name.to_owned())))
            .collect()
    }

    /// Puts all files where they belong, by hash and name. Returns how many were there before.
    pub fn fill(
        &self,
        place: &dyn Fn(&str, &str) -> PathBuf,
        client: &IndexClient,
        interface: &dyn Interface,
    ) -> Result<usize, Failure> {
        let place = |item: &Item<'_>| place(item.sha256, item.name);
        let is_there = |item: &Item<'_>| {
            self.is_before(item) || sha256_of(&place(item)).is_ok_and(|found| found == item.sha256)
        };
        let (kept, missing): (Vec<Item<'_>>, Vec<Item<'_>>) = self.items().into_iter().partition(is_there);
        self.put(&missing, &place, client, interface)?;
        Ok(kept.len())
    }

    fn put(
        &self,
        missing: &[Item<'_>],
        place: &dyn Fn(&Item<'_>) -> PathBuf,
        client: &IndexClient,
        interface: &dyn Interface,
    ) -> Result<(), Failure> {
        let pages = pages(missing, client, interface)?;
        let alias = settings::conda_channel_alias();
        let mut downloads = Vec::new();
        for item in missing {
            let path = place(item);
            if let Some(folder) = path.parent() {
                fs_err::create_dir_all(folder)?;
            }
            let url = match &item.from {
                ItemFrom::Extra(Place::Here(file)) => {
                    fs_err::copy(file, &path)?;
                    continue;
                }
                ItemFrom::Extra(Place::At(url)) => url.clone(),
                ItemFrom::Lock(From::Url(url)) => url.clone(),
                ItemFrom::Lock(From::Conda { channel, subdir }) => {
                    format!("{}/{channel}/{subdir}/{}", alias.trim_end_matches('/'), item.name)
                }
                ItemFrom::Lock(From::Index { index, project }) => {
                    let page = pages.get(&(index.clone(), project.clone())).and_then(Option::as_ref);
                    page.and_then(|page| page.find(item.name)).map(|file| file.url.clone()).ok_or_else(
                        || {
                            Failure::network(format!("the index `{index}` no longer has `{}`", item.name))
                                .hint("`envlock resolve` locks what it has")
                        },
                    )?
                }
            };
            downloads.push(Download { url, path, sha256: item.sha256.to_owned(), size: item.size });
        }
        let bar = interface.progress("downloading");
        bar.set_length(downloads.iter().filter_map(|one| one.size).sum());
        let mut arrived = 0;
        let done = client.download_to(&downloads, &mut |bytes| {
            arrived += bytes;
            bar.set_position(arrived);
        });
        bar.finish_and_clear();
        done.map_err(|error| not_downloaded(&error, client.is_offline()))
    }

    /// The files as the manifest has them, with the sizes that they have.
    pub fn files(&self, folder: &Path) -> Result<Vec<BundledFile>, Failure> {
        let wanted = self.wanted().iter().map(|own| (&own.name, &own.sha256, own.role, &own.targets));
        let extras = self.extras.iter().map(|own| (&own.name, &own.sha256, own.role, &own.targets));
        let mut all = Vec::new();
        for (name, sha256, role, targets) in wanted.chain(extras) {
            let mut file = BundledFile {
                name: name.clone(),
                sha256: sha256.clone(),
                size: 0,
                role,
                targets: targets.clone(),
            };
            let before = self.before.and_then(|before| {
                before.manifest.files.iter().find(|own| own.sha256 == file.sha256 && own.name == file.name)
            });
            file.size = match fs_err::metadata(folder.join(file.place())) {
                Ok(there) => there.len(),
                Err(error) => before.ok_or(error)?.size,
            };
            all.push(file);
        }
        Ok(all)
    }
}

/// The pages of the projects that files come from.
type Pages = HashMap<(String, String), Option<std::sync::Arc<crate::model::project::ProjectPage>>>;

fn pages(items: &[Item<'_>], client: &IndexClient, interface: &dyn Interface) -> Result<Pages, Failure> {
    let mut needs: BTreeSet<Need> = BTreeSet::new();
    for item in items {
        if let ItemFrom::Lock(From::Index { index, project }) = &item.from {
            needs.insert(Need::Page { index: index.clone(), project: project.clone() });
        }
    }
    let needs: Vec<Need> = needs.into_iter().collect();
    let bar = interface.progress("reading URLs from the index");
    let fetched = client
        .fetch(&needs, None, &mut |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        })
        .map_err(|error| fetch::index_error(&error, None))?;
    bar.finish_and_clear();
    let of_page = |one| match one {
        Fetched::Page { index, project, page } => Some(((index, project), page)),
        Fetched::Metadata { .. } => None,
    };
    Ok(fetched.into_iter().filter_map(of_page).collect())
}

/// What a bundle has besides the lock's files: the installer of each platform, a Python, envlock itself.
pub(super) fn extras(
    options: &BundleOptions,
    targets: &[&Target],
    client: &IndexClient,
    interface: &dyn Interface,
) -> Result<Vec<Extra>, Failure> {
    let mut all = Vec::new();
    let mut by_platform: BTreeMap<String, (Platform, Vec<String>)> = BTreeMap::new();
    for target in targets {
        let of = by_platform.entry(target.platform.to_string()).or_insert((target.platform, Vec::new()));
        of.1.push(target.name.clone());
    }
    let names = || targets.iter().map(|target| target.name.clone()).collect::<Vec<_>>();
    let page = learning::page(client, learning::PYPI, INSTALLER)?;
    for (platform, names) in by_platform.into_values() {
        let newest = page.as_ref().and_then(|page| page.newest_for(platform, None));
        match newest.and_then(|(_, file)| Some((file, file.sha256.clone()?))) {
            Some((file, sha256)) => all.push(Extra {
                name: file.filename.clone(),
                role: Role::Installer,
                sha256,
                size: file.size,
                targets: names,
                from: Place::At(file.url.clone()),
            }),
            None => interface.warning(&format!(
                "the index pypi has no wheel of `{INSTALLER}` for {platform}: uv or pip has to be there"
            )),
        }
    }
    let of_here = |path: &Path, role, name: &str| -> Result<Extra, Failure> {
        let sha256 = sha256_of(path)?;
        let size = Some(fs_err::metadata(path)?.len());
        let from = Place::Here(path.to_owned());
        Ok(Extra { name: name.to_owned(), role, sha256, size, targets: names(), from })
    };
    match options.python.as_deref() {
        Some("none") => {}
        Some(path) => {
            let path = Path::new(path);
            let targets = for_python(path, targets)?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            all.push(Extra { targets, ..of_here(path, Role::Python, &name)? });
        }
        None => {
            let series: BTreeSet<Python> = targets.iter().map(|target| target.python).collect();
            let series: Vec<String> = series.iter().map(ToString::to_string).collect();
            interface.note(&format!("no Python is bundled: Python {} has to be there", series.join(" and ")));
            interface.hint("`--python ARCHIVE` bundles one, `--python none` says that none is meant");
        }
    }
    if options.own_program {
        all.push(of_here(&std::env::current_exe()?, Role::Program, "envlock")?);
    }
    Ok(all)
}

/// The targets that a Python in an archive is for.
fn for_python(path: &Path, targets: &[&Target]) -> Result<Vec<String>, Failure> {
    let hint = "take one of python-build-standalone (`install_only`); `--python none` bundles none";
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.ends_with(".tar.gz") || !path.is_file() {
        let text = format!("`{}` is not an archive `NAME.tar.gz` with a Python", shown(path));
        return Err(Failure::usage(text).hint(hint));
    }
    let packed = archived_python::look(path).map_err(|why| {
        Failure::usage(format!("`{}` is not an archive with a Python: {why}", shown(path))).hint(hint)
    })?;
    let is_for =
        |target: &&&Target| (target.python.minor, target.platform) == (packed.minor, packed.platform);
    let names: Vec<String> = targets.iter().filter(is_for).map(|target| target.name.clone()).collect();
    match names.is_empty() {
        false => Ok(names),
        true => Err(Failure::usage(format!(
            "`{}` has Python 3.{} for {}, and no target is for it",
            shown(path),
            packed.minor,
            packed.platform
        ))
        .hint(format!("Python {} for {} is locked", targets[0].python, targets[0].platform))),
    }
}

/// What helps where a commit cannot be had.
const WHEEL_INSTEAD: &str =
    "build a wheel of it, put it into a folder, and name the folder as an `[[index]]`";

/// The packfile of a commit in a bundle.
fn packed(bundle: &OpenBundle, commit: &Commit) -> Option<PathBuf> {
    let name = commit.file();
    let file = bundle.manifest.files.iter().find(|file| file.role == Role::Git && file.name == name)?;
    let place = bundle.place(file);
    sha256_of(&place).is_ok_and(|hash| hash == file.sha256).then_some(place)
}

/// The commits of git repositories, packed in a folder that is removed with the value.
pub(super) struct Packs<'c> {
    folder: Option<Scratch>,
    commits: &'c [Commit],
}

impl<'c> Packs<'c> {
    /// Fetches and packs commits. What an earlier bundle has is taken from there: its repository may be gone.
    ///
    /// # Errors
    /// When git is not here, or a repository does not give the commit.
    pub fn of(commits: &'c [Commit], project: &Path, earlier: &[&OpenBundle]) -> Result<Packs<'c>, Failure> {
        let folder = match commits {
            [] => None,
            _ => Some(Scratch::new("git")?),
        };
        for commit in commits {
            let to = folder.as_ref().map(|folder| folder.path().join(commit.file())).unwrap_or_default();
            if let Some(own) = earlier.iter().find_map(|bundle| packed(bundle, commit)) {
                fs_err::copy(own, &to)?;
                continue;
            }
            git::pack(&commit.repository, &commit.commit, project, &to).map_err(|error| match error {
                GitError::NoGit(_) => Failure::usage(error.to_string()).hint("install git"),
                GitError::Submodules { .. } => Failure::export(error.to_string()).hint(WHEEL_INSTEAD),
                GitError::Failed { .. } => Failure::network(error.to_string())
                    .hint(format!("check the network and the repository; else {WHEEL_INSTEAD}")),
            })?;
        }
        Ok(Packs { folder, commits })
    }

    /// The packfiles.
    pub fn extras(&self) -> Result<Vec<Extra>, Failure> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let of = |commit: &Commit| -> Result<Extra, Failure> {
            let path = folder.path().join(commit.file());
            Ok(Extra {
                name: commit.file(),
                role: Role::Git,
                sha256: sha256_of(&path)?,
                size: Some(fs_err::metadata(&path)?.len()),
                targets: commit.targets.clone(),
                from: Place::Here(path),
            })
        };
        self.commits.iter().map(of).collect()
    }
}

/// The project of the program that installs.
const INSTALLER: &str = "uv";

/// Removes what an earlier run bundled and this one does not: other releases, and what an interruption left.
pub(super) fn remove_others(folder: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let hashes: BTreeSet<&str> = manifest.files.iter().map(|file| file.sha256.as_str()).collect();
    let Ok(entries) = fs_err::read_dir(folder.join(bundle::FILES)) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_own = hashes.contains(name.as_str());
        if !is_own && entry.file_type()?.is_dir() {
            fs_err::remove_dir_all(entry.path())?;
        } else if !is_own {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The wheels whose metadata say that their licence is proprietary: it may forbid to pass them on.
pub(super) fn proprietary(folder: &Path, manifest: &Manifest) -> Vec<String> {
    let wheels = manifest.files.iter().filter(|file| file.name.ends_with(".whl"));
    let is_proprietary = |file: &&BundledFile| {
        let Ok(wheel) = fs_err::File::open(folder.join(file.place())) else { return false };
        let text = metadata_text_of_wheel(std::io::BufReader::new(wheel), &file.name);
        text.is_ok_and(|text| Licence::of_metadata(&text).is_proprietary())
    };
    let mut names: Vec<String> = wheels.filter(is_proprietary).map(|file| file.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}
