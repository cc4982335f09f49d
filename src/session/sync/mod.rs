//! `envlock sync`: makes an environment be what the lock says, by the installer that is there.

mod bundled;
mod by_tool;
mod conda_packages;
mod installer;
mod lists;
mod new_python;
mod start;
mod target_environment;
mod targets;
mod types;
mod work;

use std::borrow::Cow;
use std::path::Path;
use std::time::Instant;

use super::Interface;
use super::alone::alone;
use super::failure::{Failure, FailureKind};
use super::options::Global;
use super::settings::{self, Project};
use super::{chosen_host, files, owner, project_lock, variables};
use crate::bundle::{is_source, is_wheel_of};
use crate::inspect::{self, Environment};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::direct::Direct;
use crate::model::installed::{DirectOrigin, Installed};
use crate::model::owner::{Owner, PackageLock};
use crate::model::request::Request;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::bundle::{OpenBundle, Wheelhouse};
use crate::solver::allowed_pythons;
use crate::sync::{self, Changes, Installer, Talk};
use target_environment::{ChosenEnvironment, OtherLocks, OwnProject};
use types::in_the_way;
use work::Work;

pub use types::{MadeWith, Outcome, Plan, SyncOptions, Synced};

/// Makes an environment be what the lock says.
///
/// # Errors
/// When there is no lock, no target for this machine, no installer or Python; when it would run code that nobody allowed, or change
/// what is another's; when the installer fails.
pub fn sync(global: &Global, options: &SyncOptions, interface: &dyn Interface) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let named = options.prefix.as_deref().and_then(Path::parent).filter(|parent| parent.is_dir());
    let _alone = match options.dry_run {
        true => None,
        false => alone(named.unwrap_or(&project.folder), "envlock sync", interface)?,
    };
    let bundle = options
        .bundle
        .as_deref()
        .map(|path| OpenBundle::open(path, options.pubkey.as_deref()))
        .transpose()?;
    let (lock, of_bundle) = match (project_lock::read(&project)?, &bundle) {
        (Some(lock), _) => (lock, None),
        (None, Some(bundle)) => bundle.own_lock().map(|(lock, text)| (lock, Some(text)))?,
        (None, None) => return Err(project_lock::missing()),
    };
    project_lock::warn_if_stale(&project, &lock, &registry, interface);
    // uv has extras and groups that envlock does not lock.
    let lock =
        if lock.packages_in.is_some() { lock } else { project_lock::with_parts(lock, &options.parts)? };
    let chosen = targets::choose(&lock, options, &project, &registry)?;
    let target = chosen.target;
    if let Some(why) = chosen.why() {
        interface.note(&format!("the target is `{}`: {why}; `--target` names another one", target.name));
    }
    let wheelhouse = bundle
        .map(|bundle| {
            let lock = (&lock, of_bundle.as_deref());
            bundled::opened(&bundle, &project, lock, target, (options, interface))
        })
        .transpose()?;
    let talk = Talk {
        quiet: interface.is_quiet(),
        no_progress: !interface.shows_progress(),
        offline: global.offline || wheelhouse.is_some(),
    };
    // conda and pixi bring the Python of their environments.
    let brings_python =
        !target.conda.is_empty() || lock.packages_in.as_ref().is_some_and(|held| held.owner == Owner::Pixi);
    if options.install_python && options.python.is_none() && !brings_python {
        let prefix = target_environment::chosen(options, &project, false)?.prefix;
        match new_python::command(target, &prefix, talk)? {
            // What follows, the Python decides.
            Some(step) if options.dry_run => {
                interface.note("the commands that follow are known when that Python is there");
                let commands = vec![step.command];
                return Ok(Outcome::Planned(Plan { prefix, commands, is_begun: true, ..Plan::default() }));
            }
            Some(step) => new_python::install(&step, interface)?,
            None => {}
        }
    }
    let with_python;
    let options = match (&wheelhouse, &options.python) {
        (Some(own), None) if !brings_python => match bundled::python(own, target, options, &project)? {
            Some(_) if options.dry_run => {
                interface.note("the environment is made with the bundle's Python, which is not unpacked yet; the commands that follow are known then");
                return Ok(Outcome::Planned(Plan {
                    prefix: target_environment::chosen(options, &project, false)?.prefix,
                    is_begun: true,
                    ..Plan::default()
                }));
            }
            Some(path) => {
                with_python = SyncOptions { python: Some(path), ..options.clone() };
                &with_python
            }
            None => options,
        },
        _ => options,
    };
    let wheelhouse = wheelhouse.as_ref();
    let (project, lock, registry) = (&project, &lock, &registry);
    let run = Run { options, project, lock, registry, talk, start, interface, wheelhouse };
    if let (Some(held), Some(current)) = (&lock.packages_in, owner::held(project, lock)?) {
        return run.owned(global, target, (held, current));
    }
    run.in_two_parts(target)
}

/// A run: what is asked, and what it is about.
struct Run<'r> {
    options: &'r SyncOptions,
    project: &'r Project,
    lock: &'r Lockfile,
    registry: &'r Registry,
    talk: Talk,
    start: Instant,
    interface: &'r dyn Interface,
    /// The files of a bundle, in place of all indexes.
    wheelhouse: Option<&'r Wheelhouse>,
}

/// What a run compares: the environment as it was found, and what is to change in it.
struct Compared {
    found: ChosenEnvironment,
    own: Option<OwnProject>,
    changes: Changes,
}

impl Run<'_> {
    /// In a project whose packages uv or pixi holds.
    fn owned(
        &self,
        global: &Global,
        target: &Target,
        (held, current): (&PackageLock, owner::Current),
    ) -> Result<Outcome, Failure> {
        let others = || self.other_locks(target);
        let is_stale =
            self.project.manifest.as_ref().is_some_and(|manifest| {
                !lockfile::stale(self.lock, &manifest.request, self.registry).is_empty()
            });
        let owned = by_tool::ByTool {
            global,
            options: self.options,
            project: self.project,
            target,
            owner: held.owner,
            is_current: !is_stale && *held == current.state,
            current,
            registry: self.registry,
            others: &others,
            interface: self.interface,
        };
        owned.run()
    }

    /// conda's packages first, where there are any, then PyPI's.
    fn in_two_parts(&self, target: &Target) -> Result<Outcome, Failure> {
        let half = match target.conda.is_empty() {
            true => None,
            false => Some(self.conda_half(target)?),
        };
        if let Some(half) = half.as_ref().filter(|_| !self.options.dry_run) {
            if half.is_made() {
                // What PyPI's half would refuse is refused before anything is installed.
                self.check(&sync::changes(target, None, None, &|_, _| false), target)?;
            }
            half.execute(self.project, self.start, self.interface)?;
        }
        // conda's half is there.
        let own = &Target { conda: Vec::new(), ..target.clone() };
        let compared = self.compare(own, target, half.as_ref())?;
        self.check(&compared.changes, own)?;
        let is_to_do = !compared.changes.is_empty()
            || compared.own.as_ref().is_some_and(|own| !own.is_installed)
            || compared.found.place.make.is_some();
        if self.options.dry_run {
            return self.plan(own, &compared, half.as_ref(), is_to_do).map(Outcome::Planned);
        }
        let mut is_as_read = half.as_ref().is_none_or(|half| half.steps.is_empty());
        let mut installed = None;
        if is_to_do {
            installed = self.install(own, target, &compared)?;
            is_as_read = false;
        }
        let found = compared.found;
        Ok(Outcome::Synced(Synced {
            target: target.name.clone(),
            runs_its_code: found.runs_its_code() || half.is_some_and(|half| half.is_made()),
            prefix: found.place.prefix,
            installed: installed.or_else(|| found.installed.filter(|_| is_as_read)),
        }))
    }

    /// conda's part.
    fn conda_half(&self, target: &Target) -> Result<conda_packages::Half, Failure> {
        let alias = self.wheelhouse.map_or_else(settings::conda_channel_alias, Wheelhouse::channel_alias);
        conda_packages::half(self.options, self.project, target, (self.talk, &alias))
    }

    /// Compares the environment with PyPI's part of a target. `whole`: with conda's.
    fn compare(
        &self,
        target: &Target,
        whole: &Target,
        half: Option<&conda_packages::Half>,
    ) -> Result<Compared, Failure> {
        let others = || self.other_locks(target);
        let environment = match half {
            Some(half) => half.environment.clone(),
            None => target_environment::chosen(self.options, self.project, false)?,
        };
        let to_come = half.filter(|_| self.options.dry_run).and_then(conda_packages::Half::to_come);
        let found = match to_come {
            Some(found) => found,
            None => target_environment::find(self.options, self.project, target, environment, &others)?,
        };
        if !found.is_ours && target_environment::was_interrupted(&found.place.prefix) {
            self.interface.warning(
                "an earlier `envlock sync` was interrupted while it replaced packages: old files of theirs may be left here",
            );
        }
        let own = found.own_project(self.project, self.options);
        let editable = found.installed.as_ref().and_then(|i| i.editable_of(&self.project.folder));
        let keeps = own.as_ref().map(|own| own.name.clone()).or(editable.map(str::to_owned));
        let keeps: Vec<String> = keeps.into_iter().collect();
        let removes = found.is_ours || self.options.exact;
        let keeps = removes.then_some(keeps.as_slice());
        let is_elsewhere =
            |package: &ChosenPackage, direct: &DirectOrigin| is_elsewhere(self.project, package, direct);
        let mut changes = sync::changes(target, found.installed.as_ref(), keeps, &is_elsewhere);
        if !removes && !self.options.dry_run {
            in_the_way(&changes, self.interface);
        }
        let distributions = found.installed.iter().flat_map(|installed| &installed.distributions);
        let mut over = sync::put_over(&conda_packages::names_on_pypi(&whole.conda), distributions);
        over.retain(|name| !changes.remove.contains(name));
        changes.remove.extend(over);
        Ok(Compared { found, own, changes })
    }

    fn work<'w>(&'w self, target: &'w Target, compared: &'w Compared) -> Result<Work<'w>, Failure> {
        let Compared { found, own, changes } = compared;
        let missing = own.as_ref().filter(|own| !own.is_installed);
        let installer = match self.wheelhouse.and_then(|own| own.uv.clone()) {
            Some(uv) => Installer::Uv(uv),
            None => installer::choose(found)?,
        };
        let of_git = self.wheelhouse.and_then(|own| own.repositories.keys().next());
        if let (Some(repository), Installer::Pip(..)) = (of_git, &installer) {
            let text = format!(
                "a commit of `{repository}` in a bundle is installed by uv, which was not found here"
            );
            return Err(Failure::new(FailureKind::Installer, text)
                .hint("install uv, or bundle with the index that has it"));
        }
        let (addresses, pypi) = settings::indexes(self.project, self.options.index_url.as_deref());
        Ok(Work {
            installer,
            addresses: (settings::as_urls(self.project, addresses), pypi),
            talk: self.talk,
            target,
            found,
            changes,
            project: missing.map(|own| own.folder.clone()),
            passed: self.project.passed_variables(),
            folder: &self.project.folder,
            wheelhouse: self.wheelhouse,
        })
    }

    fn plan(
        &self,
        target: &Target,
        compared: &Compared,
        half: Option<&conda_packages::Half>,
        is_to_do: bool,
    ) -> Result<Plan, Failure> {
        let half = half.filter(|half| !half.steps.is_empty());
        if let Some(own) = self.wheelhouse.filter(|_| half.is_some() || is_to_do) {
            let folder = own.folder().display();
            self.interface.note(&format!("`{folder}` is laid out while `sync` runs, and removed at its end"));
        }
        match (half, is_to_do) {
            (Some(half), true) => half.plan(Some(&self.work(target, compared)?)),
            (Some(half), false) => half.plan(None),
            (None, true) => self.work(target, compared)?.plan(),
            (None, false) => Ok(compared.found.plan()),
        }
    }

    /// Installs PyPI's part. Returns what is installed, where it was looked at and nothing was missing.
    fn install(
        &self,
        target: &Target,
        whole: &Target,
        compared: &Compared,
    ) -> Result<Option<Installed>, Failure> {
        if compared.found.place.make.is_none() {
            target_environment::check_python(&compared.found.place)?;
        }
        let work = self.work(target, compared)?;
        let is_alone = self.talk.offline && self.wheelhouse.is_none();
        if is_alone && matches!(work.installer, Installer::Pip(..)) {
            return Err(Failure::new(FailureKind::Installer, "pip cannot install with `--offline`")
                .hint("uv installs from its cache: `pip install uv`"));
        }
        work.execute(self.start, self.interface)?;
        let seen = self.restore(&work)?;
        if whole.conda.is_empty() {
            return Ok(seen);
        }
        // What was removed had taken the place of files of conda's packages.
        let again = self.conda_half(whole)?;
        again.execute(self.project, self.start, self.interface)?;
        Ok(None)
    }

    /// Removes what the new packages share libraries with, and installs again what lost files to a package that went: those that both
    /// had with the same content (`nvidia/__init__.py`) are no fault before. Returns what is installed, where it was looked at and
    /// nothing was missing.
    fn restore(&self, work: &Work<'_>) -> Result<Option<Installed>, Failure> {
        if work.found.installed.is_none() || work.changes.is_empty() {
            return Ok(None);
        }
        let environment = Environment { prefix: work.found.place.prefix.clone(), chosen: work.found.chosen };
        let others = || self.other_locks(work.target);
        let left = target_environment::find(self.options, self.project, work.target, environment, &others)?;
        let is_elsewhere =
            |package: &ChosenPackage, direct: &DirectOrigin| is_elsewhere(self.project, package, direct);
        let more = sync::changes(work.target, left.installed.as_ref(), None, &is_elsewhere);
        if more.is_empty() {
            return Ok(left.installed);
        }
        self.check(&more, work.target)?;
        in_the_way(&more, self.interface);
        let (installer, addresses) = (work.installer.clone(), work.addresses.clone());
        Work { installer, addresses, found: &left, changes: &more, project: None, ..*work }
            .execute(self.start, self.interface)?;
        let prefix = &left.place.prefix;
        let Ok(installed) = inspect::read(&inspect::ThisMachine, prefix, inspect::Depth::Sizes) else {
            return Ok(None);
        };
        // pip takes a package of the system for installed where the environment shows it, and Python imports it.
        let root = chosen_host::root();
        let visible =
            inspect::visible(&inspect::ThisMachine, &installed, &root, &|name| variables::text(name));
        let missing = sync::changes(work.target, Some(&installed), None, &is_elsewhere).install;
        match missing.iter().find(|name| visible.iter().all(|visible| visible.name != **name)) {
            None => Ok(None),
            Some(name) => Err(Failure::new(
                FailureKind::Installer,
                format!("{} did not install `{}`, and says it did", work.installer.name(), clean(name, 80)),
            )
            .hint(format!("remove `{}`, and make it again with `envlock sync`", prefix.display()))),
        }
    }

    /// The Python series that the request allows besides the locked one, newest first, with the options that are given again.
    fn other_locks(&self, target: &Target) -> OtherLocks {
        let Run { project, lock, registry, .. } = *self;
        let before = lockfile::read_request(&lock.request).unwrap_or_default();
        let (_, options) = Request::default().keeping_options_of(&Request { python: None, ..before });
        let options = options.iter().map(|option| format!(" {option}")).collect();
        let Ok(request) = settings::request_of_target(project, lock, target, registry) else {
            return OtherLocks { pythons: Vec::new(), options };
        };
        let allowed = allowed_pythons(registry, &request.without_options()).into_iter().rev();
        OtherLocks {
            pythons: allowed.filter(|python| python.minor != target.python.minor).collect(),
            options,
        }
    }

    /// Whether the bundle has a wheel in the place of a source distribution.
    fn has_wheel_of(&self, package: &ChosenPackage) -> bool {
        let wheels = self.wheelhouse.map(|own| own.built.as_slice()).unwrap_or_default();
        is_source(package)
            && wheels.iter().any(|file| is_wheel_of(&file.name, (&package.name, &package.version)))
    }

    /// Refuses changes that would break something, or that run code nobody allowed.
    fn check(&self, changes: &Changes, target: &Target) -> Result<(), Failure> {
        if let Some(name) = changes.conda_owns.first() {
            return Err(Failure::new(
                FailureKind::Installer,
                format!(
                    "conda installed `{name}`, and another build of it is locked: pip would write over its files"
                ),
            )
            .hint("use an environment of its own: `envlock sync --prefix .venv`"));
        }
        let to_come = changes.install.iter().chain(&changes.replace).filter_map(|name| target.package(name));
        let of_folder = to_come.filter_map(|own| match &own.source {
            Source::Path(path) => Some((own, path)),
            _ => None,
        });
        let is_gone = |path: &str| !self.project.folder.join(path).exists();
        if let Some((own, path)) = of_folder.into_iter().find(|(_, path)| is_gone(path)) {
            return Err(Failure::new(
                FailureKind::Installer,
                format!("`{}` is locked as `{}`, which is not there", own.name, clean(path, 200)),
            )
            .hint("copy it beside the lock: what is a part of the project is in no index and in no bundle"));
        }
        if self.options.build {
            return Ok(());
        }
        let mut refused = sync::needs_permission(
            &target.packages,
            changes,
            self.project.allowed_builds(),
            &|name, path| is_own(self.project, self.lock, name, path),
        );
        // A wheel of the bundle stands for it.
        let is_built = |name: &str| target.package(name).is_some_and(|own| self.has_wheel_of(own));
        refused.retain(|name| !is_built(name));
        if refused.is_empty() {
            return Ok(());
        }
        Err(not_allowed(&refused, self.project))
    }
}

/// Whether a folder is the project's own: the request names it for this package, and it is there, below the project.
fn is_own(project: &Project, lock: &Lockfile, name: &str, path: &str) -> bool {
    let of_manifest = project.manifest.as_ref().map(|manifest| Cow::Borrowed(&manifest.request));
    // Without a manifest the request of the lock is all there is.
    let Some(request) = of_manifest.or_else(|| lockfile::read_request(&lock.request).ok().map(Cow::Owned))
    else {
        return false;
    };
    let folder = &project.folder;
    let from_folder = |path: &str| files::path_from(&folder.join(path), folder);
    let is_named = request.requirements.iter().any(|user| {
        user.name() == name
            && matches!(user.direct(), Some(Direct::Path(named)) if from_folder(&named) == from_folder(path))
    });
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    let is_below =
        real(&folder.join(path)).zip(real(folder)).is_some_and(|(own, root)| own.starts_with(root));
    is_named && is_below
}

/// Whether a package that is locked from a folder or file was installed from another one.
fn is_elsewhere(project: &Project, package: &ChosenPackage, direct: &DirectOrigin) -> bool {
    let Source::Path(path) = &package.source else { return false };
    let url = url::Url::parse(&direct.url).ok();
    let Some(installed) = url.and_then(|url| url.to_file_path().ok()) else { return true };
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    let locked = project.folder.join(path);
    match real(&locked).zip(real(&installed)) {
        Some((locked, installed)) => locked != installed,
        // A folder that is gone is told elsewhere; only what is certain is replaced.
        None => !installed.exists() && locked.exists(),
    }
}

/// The error of packages that would be built.
fn not_allowed(refused: &[&str], project: &Project) -> Failure {
    let names = refused.join("`, `");
    let (exist, their) = if refused.len() == 1 { ("exists", "its") } else { ("exist", "their") };
    Failure::new(
        FailureKind::Installer,
        format!("`{names}` {exist} only as source, and building runs {their} code, which was not allowed"),
    )
    .hint(how_to_allow(refused, project))
}

/// How builds are allowed.
fn how_to_allow(names: &[&str], project: &Project) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "allow it once with `--build`, or in {}: `[{}sync]` with `allow-build = [{}]`",
        project.manifest_name(),
        if project.manifest_name() == files::MANIFEST { "" } else { "tool.envlock." },
        listed.join(", ")
    )
}
