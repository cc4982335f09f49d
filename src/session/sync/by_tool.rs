//! `sync` in a project whose packages another tool holds: that tool installs what its lock says, then envlock verifies.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::target_environment::{self, AtWork, MARK, OWN_FOLDER, mark_of};
use super::types::{Outcome, Plan, SyncOptions, Synced, in_the_way};
use crate::formats::uv::{Settings, Workspace};
use crate::formats::{Environment, OtherBuild, Package, other_builds};
use crate::inspect;
use crate::lockfile::Target;
use crate::model::direct::Direct;
use crate::model::installed::{DirectOrigin, Installed};
use crate::model::owner::Owner;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::normalized_name;
use crate::model::text::shell_line;
use crate::probe::pythons;
use crate::registry::Registry;
use crate::session::Interface;
use crate::session::disk::Disk;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::Global;
use crate::session::owner::{self, Current};
use crate::session::settings::Project;
use crate::session::variables;
use crate::session::{files, write};
use crate::sync::{self, Changes};
use crate::verify::Locked;

/// A project, its tool's lock, and the environment that the tool installs into.
pub(super) struct ByTool<'o> {
    pub global: &'o Global,
    pub options: &'o SyncOptions,
    pub project: &'o Project,
    pub target: &'o Target,
    pub owner: Owner,
    pub current: Current,
    pub registry: &'o Registry,
    /// Whether the lock is that of the request and of the tool's lock; else the tool is asked in any case.
    pub is_current: bool,
    /// The Pythons that could be locked instead.
    pub others: target_environment::Others<'o>,
    pub interface: &'o dyn Interface,
}

/// What the commands of a run have in common.
struct Steps<'s> {
    program: &'s Path,
    /// The Python to make the environment with.
    python: Option<&'s Path>,
    prefix: &'s Path,
    /// Whether what is not locked is removed.
    is_exact: bool,
    /// The packages that may be built.
    builds: &'s [String],
}

impl ByTool<'_> {
    /// Installs. Returns the environment, and whether this run made it; for a dry run, what is to be done.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let program = owner::program(self.owner, None)?;
        let prefix = target_environment::from_here(self.prefix());
        if prefix.join("condabin").is_dir() {
            return Err(Failure::new(
                FailureKind::Installer,
                format!("`{}` is conda's base environment, which contains conda itself", prefix.display()),
            ));
        }
        self.tell_active(&prefix);
        if !self.options.dry_run {
            target_environment::remove_interrupted(&self.prefix(), self.project)?;
        }
        let is_empty = std::fs::read_dir(&prefix).is_ok_and(|mut entries| entries.next().is_none());
        let is_new = is_empty || fs_err::symlink_metadata(&prefix).is_err() || self.is_cut_short(&prefix);
        if !is_new {
            target_environment::refuse_other_places(&prefix, self.options)?;
        }
        let installed = inspect::read(&inspect::ThisMachine, &prefix, inspect::Depth::Sizes).ok();
        let mark = files::read(&prefix.join(OWN_FOLDER).join(MARK)).ok().flatten();
        let is_ours = is_new || mark.is_some_and(|text| text == mark_of(&self.project.folder));
        let is_exact = is_ours || self.options.exact;
        self.refuse_other_stack()?;
        self.refuse_other_python(&prefix, installed.as_ref(), is_ours)?;
        let python = self.python(installed.as_ref())?;
        let environments = self.environments();
        let changes = self.changes(&environments, installed.as_ref(), is_exact);
        let builds = self.builds(&environments, &changes)?;
        let work = Steps {
            program: &program,
            python: python.as_deref(),
            prefix: &prefix,
            is_exact,
            builds: &builds,
        };
        if self.options.dry_run {
            let nothing = self.is_done(&changes, installed.as_ref());
            let commands = if nothing { Vec::new() } else { self.commands(&work, &changes) };
            let installer = (!commands.is_empty()).then_some(self.owner.program());
            return Ok(Outcome::Planned(Plan {
                installer,
                prefix,
                is_begun: false,
                made_with: None,
                commands,
                changes,
                writes: None,
            }));
        }
        if self.is_done(&changes, installed.as_ref()) {
            return Ok(self.outcome(prefix, false));
        }
        self.execute(&work, &changes)?;
        let is_made = is_new;
        if !is_made {
            self.restore(&work, &environments)?;
        }
        if is_made && prefix.is_dir() {
            fs_err::create_dir_all(prefix.join(OWN_FOLDER))?;
            write::write(&prefix.join(OWN_FOLDER).join(MARK), &mark_of(&self.project.folder))?;
        }
        let seconds = start.elapsed().as_secs_f64();
        self.interface.done(&format!("installed with {} in {seconds:.1} s", self.owner.program()));
        Ok(self.outcome(prefix, is_made))
    }

    /// Whether uv was killed while it made the environment: it writes `pyvenv.cfg` last, and a whole Python has a binary.
    fn is_cut_short(&self, prefix: &Path) -> bool {
        let kind = |path: &Path| fs_err::symlink_metadata(path).ok().map(|there| there.file_type());
        let python = kind(&pythons::interpreter(prefix));
        kind(prefix).is_some_and(|kind| kind.is_dir())
            && python.is_none_or(|python| python.is_symlink())
            && !prefix.join("pyvenv.cfg").exists()
            && target_environment::is_unfinished(prefix)
    }

    fn outcome(&self, prefix: PathBuf, is_made: bool) -> Outcome {
        let runs_its_code = is_made || self.options.prefix.is_some();
        Outcome::Synced(Synced { prefix, target: self.target.name.clone(), runs_its_code, installed: None })
    }

    /// The environment of the tool: the named one, else the one that the tool itself takes.
    fn prefix(&self) -> PathBuf {
        if let Some(prefix) = &self.options.prefix {
            return prefix.clone();
        }
        self.project.folder.join(owner::environment(&self.project.folder))
    }

    /// Says that the active environment is another one: `uv run` does not use it either.
    fn tell_active(&self, prefix: &Path) {
        let active =
            ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().find_map(|name| variables::raw(name)).map(PathBuf::from);
        let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if let Some(active) = active.filter(|active| real(active) != real(prefix)) {
            self.interface.note(&format!(
                "the active environment {} is not changed: {} installs into {}",
                active.display(),
                self.owner.program(),
                prefix.display()
            ));
        }
    }

    /// Refuses to install another stack than the one that was chosen.
    fn refuse_other_stack(&self) -> Result<(), Failure> {
        let others = other_builds(&self.current.lock, self.target, self.registry);
        let Some(OtherBuild { package, theirs, ours }) = others.into_iter().next() else { return Ok(()) };
        let theirs = theirs.map_or_else(|| format!("no {package}"), |version| format!("{package} {version}"));
        let file = self.owner.file();
        Err(Failure::lock(format!("`{file}` has {theirs}, and envlock.lock has {ours}"))
            .hint("`envlock resolve` chooses the stack again and lets the tool lock it"))
    }

    /// Refuses to replace an environment that somebody else made with another Python: uv would make it anew.
    fn refuse_other_python(
        &self,
        prefix: &Path,
        installed: Option<&Installed>,
        is_ours: bool,
    ) -> Result<(), Failure> {
        let Some(own) = installed.and_then(|installed| installed.python).filter(|_| !is_ours) else {
            return Ok(());
        };
        let wanted = self.target.wanted_python();
        match own.minor == wanted.python.minor || self.owner == Owner::Pixi {
            true => Ok(()),
            false => Err(target_environment::of_another_python(prefix, own, wanted)),
        }
    }

    /// The Python to make the environment with: the named one, or one of the locked series that is here. `None` where the
    /// environment has it, or pixi brings its own.
    fn python(&self, installed: Option<&Installed>) -> Result<Option<PathBuf>, Failure> {
        let wanted = self.target.wanted_python();
        let has = installed
            .and_then(|installed| installed.python)
            .is_some_and(|own| own.minor == wanted.python.minor);
        match (&self.options.python, self.owner) {
            (_, Owner::Pixi) => Ok(None),
            (Some(named), _) => {
                target_environment::named_python(named, wanted, self.others).map(|found| Some(found.path))
            }
            (None, _) if has => Ok(None),
            (None, _) => target_environment::any_python(wanted, self.others).map(|found| Some(found.path)),
        }
    }

    /// What is to be installed: the project, with the extras and groups that are asked for.
    fn environments(&self) -> Vec<Environment> {
        let all = self.current.lock.environments(self.target.platform, Some(self.target.python));
        let parts = &self.options.parts;
        let default_groups = owner::default_groups(self.project);
        let has = |names: &[String], name: &str| {
            names.iter().any(|own| normalized_name(own) == normalized_name(name))
        };
        let is_asked = |name: &str| match name.split_once(' ') {
            None => name == "default",
            Some(("extra", extra)) => parts.all_extras || has(&parts.extra, extra),
            Some(("group", group)) => {
                parts.all_groups || has(&parts.group, group) || default_groups.has(&normalized_name(group))
            }
            _ => false,
        };
        all.into_iter().filter(|environment| is_asked(&environment.name)).collect()
    }

    fn changes(
        &self,
        environments: &[Environment],
        installed: Option<&Installed>,
        is_exact: bool,
    ) -> Changes {
        let mut target = self.target.clone();
        target.packages.clear();
        for environment in environments {
            let locked = Locked::of_tool(environment, self.target.platform, self.registry);
            for package in locked.target.into_owned().packages {
                if target.package(&package.name).is_none() {
                    target.packages.push(package);
                }
            }
        }
        let keeps: Vec<String> = self.project.package().into_iter().collect();
        let is_elsewhere = |package: &ChosenPackage, direct: &DirectOrigin| {
            super::is_elsewhere(self.project, package, direct)
        };
        sync::changes(&target, installed, is_exact.then_some(keeps.as_slice()), &is_elsewhere)
    }

    /// Whether nothing is to be installed or removed.
    fn is_done(&self, changes: &Changes, installed: Option<&Installed>) -> bool {
        let Some(installed) = installed else { return false };
        let own = self.project.package().filter(|_| !self.options.no_project);
        let has_own = |name: &String| {
            installed.distributions.iter().any(|own| own.name == *name && own.direct.is_some())
        };
        // What conda packages of pixi's are, envlock does not compare here.
        self.owner == Owner::Uv && self.is_current && changes.is_empty() && own.as_ref().is_none_or(has_own)
    }

    /// The packages that may be built, by name: those that the project allows, and its own folders. uv builds no other.
    ///
    /// # Errors
    /// When others would be built, as far as it can be seen: which runs code that nobody allowed.
    fn builds(&self, environments: &[Environment], changes: &Changes) -> Result<Vec<String>, Failure> {
        let allowed = self.project.allowed_builds();
        let is_allowed = |name: &str| allowed.iter().any(|own| own == name);
        let (python, platform) = (self.target.python, self.target.platform);
        let real = |path: &Path| fs_err::canonicalize(path).ok();
        let root = self.current.path.parent().unwrap_or(&self.project.folder);
        let folders = own_folders(self.project, root);
        let is_own = |package: &Package| match &package.source {
            Source::Path(path) => {
                let own = real(&root.join(path));
                own.zip(real(root)).is_some_and(|(own, root)| folders.contains(&own) && own.starts_with(root))
            }
            _ => false,
        };
        let is_built = |package: &Package| match &package.source {
            Source::Path(_) | Source::Git { .. } => true,
            Source::Index(_) | Source::Url(_) => package.is_built(python, platform),
        };
        if !self.options.build {
            let built =
                environments.iter().flat_map(|environment| &environment.packages).filter(|p| is_built(p));
            let refused = built.filter(|package| changes.puts(&package.name) && !is_own(package));
            let mut names: Vec<&str> = refused.map(|package| package.name.as_str()).collect();
            names.retain(|name| !is_allowed(name));
            names.sort_unstable();
            names.dedup();
            if !names.is_empty() {
                return Err(super::not_allowed(&names, self.project));
            }
        }
        // What the prediction does not see, uv refuses: a marker that it evaluates in another way, a wheel that does not fit.
        // uv allows a build by name alone: of a name that is another package in another extra, none is.
        let all = self.current.lock.environments(platform, Some(python));
        let packages = || all.iter().flat_map(|environment| &environment.packages);
        let may_be_built = |package: &Package| is_own(package) || is_allowed(&package.name);
        let is_free = |name: &str| packages().filter(|own| own.name == name).all(may_be_built);
        let built = packages().filter(|package| is_own(package) || is_built(package));
        let lifted = built.filter(|package| may_be_built(package) && is_free(&package.name));
        let mut lifted: Vec<String> = lifted.map(|package| package.name.clone()).collect();
        lifted.sort_unstable();
        lifted.dedup();
        if self.owner == Owner::Uv && !self.options.build {
            let mut others = owner::built_by_settings(self.project)?;
            others.retain(|name| !is_allowed(name) && !lifted.contains(name));
            if let Some(name) = others.first() {
                return Err(Failure::new(
                    FailureKind::Installer,
                    format!("uv's setting `no-binary-package` builds `{name}` from source, which runs its code and was not allowed"),
                )
                .hint(format!("remove it there, or {}", super::how_to_allow(&[name.as_str()], self.project))));
            }
        }
        Ok(lifted)
    }

    /// Looks again: removes what the new packages share libraries with, and installs again what lost files to a package that went.
    fn restore(&self, work: &Steps<'_>, environments: &[Environment]) -> Result<(), Failure> {
        let left = inspect::read(&inspect::ThisMachine, work.prefix, inspect::Depth::Sizes).ok();
        let more = self.changes(environments, left.as_ref(), work.is_exact);
        // What uv did not install, by a marker that it reads in another way, it does not install the second time.
        match self.owner == Owner::Uv && !(more.replace.is_empty() && more.remove.is_empty()) {
            true => self.execute(work, &more),
            false => Ok(()),
        }
    }

    fn execute(&self, work: &Steps<'_>, changes: &Changes) -> Result<(), Failure> {
        if self.owner == Owner::Uv && !work.is_exact {
            in_the_way(changes, self.interface);
        }
        let at_work = AtWork::begin(work.prefix, changes)?;
        let done = self.commands(work, changes).iter().try_for_each(|command| self.start(work, command));
        at_work.end(&done);
        done
    }

    /// The commands that install: what is in the way goes first.
    fn commands(&self, work: &Steps<'_>, changes: &Changes) -> Vec<Vec<String>> {
        let removes = self.owner == Owner::Uv && !work.is_exact && !changes.remove.is_empty();
        let remove = removes.then(|| {
            let start = [&*work.program.to_string_lossy(), "pip", "uninstall", "--python"].map(str::to_owned);
            // uv runs in the project's folder.
            let prefix = std::path::absolute(work.prefix).unwrap_or_else(|_| work.prefix.to_path_buf());
            let prefix = prefix.to_string_lossy().into_owned();
            start.into_iter().chain([prefix]).chain(changes.remove.clone()).collect()
        });
        remove.into_iter().chain([self.command(work, changes)]).collect()
    }

    /// The command that installs.
    fn command(&self, work: &Steps<'_>, changes: &Changes) -> Vec<String> {
        let Steps { python, is_exact, builds, .. } = *work;
        let mut command = vec![work.program.to_string_lossy().into_owned()];
        let mut add = |words: &[&str]| command.extend(words.iter().map(|word| (*word).to_owned()));
        match self.owner {
            Owner::Uv => {
                add(&["sync", "--locked"]);
                if let Some(python) = python {
                    add(&["--python", &python.to_string_lossy()]);
                }
                if !self.options.build {
                    add(&["--no-build"]);
                    builds.iter().for_each(|name| add(&["--no-binary-package", name]));
                }
                // uv leaves a package of the locked version as it is, whatever happened to its files.
                for name in &changes.again {
                    add(&["--reinstall-package", name]);
                }
                for extra in &self.options.parts.extra {
                    add(&["--extra", extra]);
                }
                for group in &self.options.parts.group {
                    add(&["--group", group]);
                }
                let given = [
                    (self.options.parts.all_extras, "--all-extras"),
                    (self.options.parts.all_groups, "--all-groups"),
                    (self.options.no_project, "--no-install-project"),
                    (!is_exact, "--inexact"),
                    (self.global.offline, "--offline"),
                    (!self.interface.shows_progress(), "--no-progress"),
                    (self.interface.is_quiet(), "--quiet"),
                ];
                given.iter().filter(|(given, _)| *given).for_each(|(_, option)| add(&[option]));
            }
            Owner::Pixi => {
                add(&["install", "--locked"]);
                if !self.interface.shows_progress() {
                    add(&["--no-progress"]);
                }
                if self.interface.is_quiet() {
                    add(&["--quiet"]);
                }
            }
        }
        command
    }

    fn start(&self, work: &Steps<'_>, command: &[String]) -> Result<(), Failure> {
        let shown = shell_line(command);
        if self.interface.is_verbose() {
            self.interface.note(&shown);
        }
        let hint = match self.is_current {
            true => format!(
                "the command was `{shown}`; where `{}` is behind the manifest, `envlock resolve` lets {} lock again",
                self.owner.file(),
                self.owner.program()
            ),
            false => "the lock is stale: `envlock resolve` makes it current".to_owned(),
        };
        // The environment is named, or the tool's own.
        let mut variables: Vec<(&str, OsString)> = Vec::new();
        if self.owner == Owner::Uv && self.options.prefix.is_some() {
            variables.push((owner::UV_ENVIRONMENT, std::path::absolute(work.prefix)?.into()));
        }
        let started = owner::start(work.program, &command[1..], self.project, &variables, self.interface);
        let failed = |error: Failure| Failure { hint: error.hint.or(Some(hint.clone())), ..error };
        match started.map_err(failed)? {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Installer,
                format!("{} could not install the packages", self.owner.program()),
            )
            .hint(hint)),
        }
    }
}

/// The folders and files that a project of uv names itself: its own, the members of its workspace, and what they require by path.
/// What `uv.lock` alone names is not among them.
fn own_folders(project: &Project, root: &Path) -> BTreeSet<PathBuf> {
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    let mut folders: BTreeSet<PathBuf> = [root, &project.folder].into_iter().filter_map(real).collect();
    if let Some(workspace) = Workspace::of(&Disk, root) {
        folders.extend(workspace.members(&Disk).keys().filter_map(|folder| real(folder)));
    }
    let mut out = folders.clone();
    for folder in &folders {
        let text = files::read(&folder.join(files::PYPROJECT)).ok().flatten().unwrap_or_default();
        let settings = Settings::of_pyproject(&text).ok().flatten().unwrap_or_default();
        out.extend(settings.sources().paths().iter().filter_map(|path| real(&folder.join(path))));
    }
    let request = project.manifest.as_ref().map(|manifest| &manifest.request);
    for user in request.into_iter().flat_map(|request| &request.requirements) {
        if let Some(Direct::Path(path)) = user.direct() {
            out.extend(real(&project.folder.join(path)));
        }
    }
    out
}
