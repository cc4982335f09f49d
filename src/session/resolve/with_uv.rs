//! Writing the answer into a project whose packages uv holds: the tables of `pyproject.toml`, then `uv.lock` by uv itself,
//! then the lock of the stack. All or none: where uv refuses, the files are as they were.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use super::writing::NewManifest;
use crate::formats::uv::{Scope, UvError, UvTables};
use crate::formats::{OtherBuild, failing, other_builds};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::choice::Choice;
use crate::model::level::Level;
use crate::model::owner::Owner;
use crate::model::request::{Preferences, PythonAllowed, Request};
use crate::model::solution::{ChosenPackage, Solution};
use crate::model::text::shell_word;
use crate::model::version::public;
use crate::model::wheel::Python;
use crate::probe::pythons;
use crate::registry::Registry;
use crate::session::Interface;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::{Global, SolveOptions};
use crate::session::owner::{self, Current};
use crate::session::scratch::Scratch;
use crate::session::settings::{self, Project};
use crate::session::{exit, files, requirements, write};
use crate::session::{signals, variables};

/// A project whose packages uv holds.
pub(crate) struct WithUv<'o> {
    pub global: &'o Global,
    pub project: &'o Project,
    pub args: &'o SolveOptions,
    pub registry: &'o Registry,
    pub interface: &'o dyn Interface,
}

impl super::ResolveRun<'_> {
    /// In a project of uv that has a lock, the Python of newer releases.
    pub(super) fn hold_python(
        &self,
        machines: &mut [super::machines::Machine],
        of_uv: Option<(Python, &'static str)>,
    ) {
        let Some(old) = self.old.as_ref() else { return };
        for machine in machines.iter_mut().filter(|machine| machine.python.is_none()) {
            let locked = old.target(Some(&machine.name)).map(|target| target.python);
            machine.python = owner::python_of_upgrade(of_uv, locked, self.request.python.as_ref());
        }
    }
}

/// Adds what the tool's lock and files say to what the old lock holds: the versions of its packages, and the Python that
/// it takes (`python`).
pub(crate) fn prefer(
    preferences: &mut Preferences,
    python: Option<(Python, &str)>,
    current: Option<&Current>,
    machine: &crate::model::host::Host,
    args: &SolveOptions,
) {
    preferences.python = python.map(|(python, _)| python).or(preferences.python);
    if args.upgrade.iter().any(String::is_empty) {
        return;
    }
    let Some(current) = current else { return };
    let environments = current.lock.environments(machine.system.platform, preferences.python);
    let upgraded =
        |name: &str| args.upgrade.iter().any(|asked| crate::model::text::normalized_name(asked) == name);
    for package in environments.into_iter().flat_map(|environment| environment.packages) {
        if !upgraded(&package.name) {
            preferences.versions.entry(package.name).or_insert(package.version);
        }
    }
}

/// The tool that holds the packages: also that of the old lock where the tool's own lock is gone.
///
/// # Errors
/// When the old lock leaves the packages to a tool, and the manifest says nothing of envlock any more.
pub(crate) fn owner(
    project: &Project,
    old: Option<&Lockfile>,
    args: &SolveOptions,
) -> Result<Option<Owner>, Failure> {
    let now = owner::of(project);
    if let Some((owner, old)) = now.zip(old)
        && holds_packages(old)
        && !args.force
    {
        // `uv run` makes one unasked.
        let (file, tool) = (owner.file(), owner.program());
        return Err(Failure::files(format!("`{file}` is new here, and envlock.lock holds the packages")).hint(
            format!("remove `{file}` if envlock is to hold them; `envlock resolve --force` leaves them to {tool} from now on"),
        ));
    }
    let Some(held) = old.and_then(|lock| lock.packages_in.as_ref()).filter(|_| now.is_none() && !args.force)
    else {
        return Ok(now);
    };
    match files::manifest_in(&project.folder) {
        Some(files::PYPROJECT) if held.owner == Owner::Uv => Ok(Some(Owner::Uv)),
        Some(files::MANIFEST) => Ok(None),
        _ => Err(Failure::files(format!(
            "envlock.lock leaves the packages to `{}`, and no manifest has `[tool.envlock]`",
            held.owner.file()
        ))
        .hint(
            "add `[tool.envlock]` again (`envlock init`), or pass `--force` to let envlock hold the packages",
        )),
    }
}

/// Whether a lock has the packages itself, and not the stack alone.
fn holds_packages(lock: &Lockfile) -> bool {
    lock.packages_in.is_none() && lock.targets.iter().any(|target| target.level == Level::Full)
}

/// Refuses what would not reach uv: a time until when files are candidates that is envlock's alone, and a Python that the
/// project does not allow.
pub(crate) fn check(project: &Project, args: &SolveOptions, request: &Request) -> Result<(), Failure> {
    if owner::of(project) != Some(Owner::Uv) {
        return Ok(());
    }
    let is_of_uv = project.manifest.as_ref().is_some_and(|manifest| manifest.cutoff_is_of_uv);
    if request.exclude_newer.general.is_some() && (args.exclude_newer.is_some() || !is_of_uv) {
        return Err(Failure::usage(
            "uv holds the packages, and `exclude-newer` of envlock does not reach it",
        )
        .hint("set `exclude-newer` under `[tool.uv]`: it counts for both"));
    }
    let Some(text) = &args.python else { return Ok(()) };
    let asked = settings::python(text)?;
    let allowed = project.manifest.as_ref().and_then(|manifest| manifest.request.python.as_ref());
    match (&asked.allowed, allowed) {
        (PythonAllowed::Exact(python), Some(allowed)) if !allowed.allows(*python) => {
            Err(Failure::usage(format!("pyproject.toml does not allow Python {python}: `{}`", allowed.text))
                .hint("change `requires-python`, or name another one"))
        }
        _ => Ok(()),
    }
}

/// Gives the packages of solutions the versions that uv locked: those outside the stack are uv's to choose.
pub(crate) fn as_locked_by_uv(solutions: &mut [Solution], project: &Project) -> Result<(), Failure> {
    let Some(current) = owner::read(project, Owner::Uv)? else { return Ok(()) };
    for solution in solutions {
        let environments = current.lock.environments(solution.platform, Some(solution.python));
        for package in &mut solution.packages {
            let mut all = environments.iter().flat_map(|environment| &environment.packages);
            let Some(locked) = all.find(|locked| locked.name == package.name) else { continue };
            if public(&locked.version) != public(&package.version) {
                package.version = locked.version.clone();
                package.reason = Choice::Said("chosen by uv".to_owned());
                package.files = locked.usable(solution.python, solution.platform);
            }
        }
    }
    Ok(())
}

/// The Pythons for which the stack is tried, the most first: a build may not exist for the oldest that a project allows, and
/// the project may ask for another one for newer ones.
const SCOPES: [Scope; 3] = [Scope::EveryPython, Scope::FromTheSeries, Scope::TheSeries];

impl WithUv<'_> {
    /// Writes pyproject.toml, `uv.lock` and the lock of the stack. Returns the names of the files that changed.
    pub fn write(&self, lock: &Lockfile, manifest: Option<NewManifest>) -> Result<Vec<String>, Failure> {
        let uv = owner::program(Owner::Uv, Some(self.project))?;
        self.refuse_other_sources(lock)?;
        // A signal waits until the files are as they were, or all new.
        signals::uninterrupted(|| self.write_all(&uv, lock, manifest))
    }

    fn write_all(
        &self,
        uv: &Path,
        lock: &Lockfile,
        manifest: Option<NewManifest>,
    ) -> Result<Vec<String>, Failure> {
        let folder = &self.project.folder;
        // A link stays one.
        let real = |name: &str| fs_err::canonicalize(folder.join(name)).unwrap_or_else(|_| folder.join(name));
        let (path, lock_path) = (real(files::PYPROJECT), real(Owner::Uv.file()));
        let before = files::read(&path)?.unwrap_or_default();
        if manifest.as_ref().is_some_and(|manifest| manifest.before != before) {
            return Err(Failure::files(format!(
                "`{}` was changed while the packages were resolved",
                path.display()
            ))
            .hint("nothing was changed; run the command again"));
        }
        let lock_before = files::read(&lock_path)?;
        let asked = manifest.map_or(before.clone(), |manifest| manifest.after);
        let undo = || {
            for (path, text) in [(&path, Some(&before)), (&lock_path, lock_before.as_ref())] {
                let Some(text) = text else {
                    let _ = fs_err::remove_file(path);
                    continue;
                };
                if files::read(path).ok().flatten().as_ref() != Some(text) {
                    let _ = write::replace(path, text);
                }
            }
        };
        let written = self.with_what_works(uv, lock, (&path, &asked)).and_then(|(held, also)| {
            write_lock(self.project, &lock.clone().with_packages_in(held.state, &also))
        });
        let is_new = written.inspect_err(|_| undo())?;
        let changed =
            |path: &Path, before: Option<&String>| files::read(path).ok().flatten().as_ref() != before;
        let all = [
            (is_new, files::LOCK),
            (changed(&lock_path, lock_before.as_ref()), Owner::Uv.file()),
            (changed(&path, Some(&before)), files::PYPROJECT),
        ];
        Ok(all.into_iter().filter(|(is_new, _)| *is_new).map(|(_, name)| name.to_owned()).collect())
    }

    /// Lets uv lock with the stack; then again, where what it chose is known to fail beside the stack, with the versions of
    /// those packages that work. Returns their names too.
    fn with_what_works(
        &self,
        uv: &Path,
        lock: &Lockfile,
        (path, asked): (&Path, &str),
    ) -> Result<(Current, BTreeSet<String>), Failure> {
        let mut also = self.stayed(lock);
        let mut held = match self.attempts(uv, (lock, &also), path, asked) {
            // What stayed the last time may be what is in the way now.
            Err(error) if !also.is_empty() && !error.is_killed() => {
                also.clear();
                self.attempts(uv, (lock, &also), path, asked)?
            }
            held => held?,
        };
        let failing: BTreeSet<String> =
            lock.targets.iter().flat_map(|target| failing(&held.lock, target, self.registry)).collect();
        if failing.is_subset(&also) {
            return Ok((held, also));
        }
        let names = failing.iter().cloned().collect::<Vec<_>>().join(", ");
        also.extend(failing);
        match self.attempts(uv, (lock, &also), path, asked) {
            Ok(other) => {
                held = other;
                self.interface.note(&format!(
                    "uv's choice of {names} is known to fail beside the stack: the version that works is a constraint now"
                ));
            }
            Err(error) if error.is_killed() => return Err(error),
            Err(_) => {
                return Err(Failure::new(
                    FailureKind::Installer,
                    format!(
                        "uv locks {names} in a version that is known to fail beside the stack, and no other"
                    ),
                )
                .hint("`envlock why --not` says what is known of it; the files are as they were"));
            }
        }
        Ok((held, also))
    }

    /// The packages beside the stack whose version the old lock fixed, as far as it is chosen again.
    fn stayed(&self, lock: &Lockfile) -> BTreeSet<String> {
        let old = files::read(&self.project.lock_path()).ok().flatten();
        let Some(old) =
            old.and_then(|text| lockfile::parse(&text).ok()).filter(|old| old.packages_in.is_some())
        else {
            return BTreeSet::new();
        };
        let fixed = old.targets.iter().flat_map(|target| {
            let others = target.packages.iter().filter(|package| !target.is_of_the_stack(package));
            others.filter(|package| package.source.index() == Some("pypi"))
        });
        let is_chosen = |package: &&ChosenPackage| {
            let now = lock.targets.iter().filter_map(|target| target.package(&package.name));
            now.into_iter().any(|now| now.version == package.version)
        };
        fixed.filter(is_chosen).map(|package| package.name.clone()).collect()
    }

    /// Lets uv lock with the stack, for fewer Pythons where it cannot for all that the project allows.
    fn attempts(
        &self,
        uv: &Path,
        (lock, also): (&Lockfile, &BTreeSet<String>),
        path: &Path,
        asked: &str,
    ) -> Result<Current, Failure> {
        let targets: Vec<Target> = lock.targets.iter().map(|target| target.of_the_stack(also)).collect();
        let mut first = None;
        let mut tried: Vec<String> = Vec::new();
        for scope in SCOPES {
            let text = self.tables(&targets, asked, scope)?;
            if tried.contains(&text) || (scope != Scope::EveryPython && !self.allows_others(lock)) {
                continue;
            }
            if files::read(path)?.as_deref() != Some(&text) {
                write::replace(path, &text)?;
            }
            match self.locked_by_uv(uv, lock) {
                Ok(held) => {
                    self.tell_scope(scope, lock);
                    return Ok(held);
                }
                Err(error) if error.is_killed() => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
            tried.push(text);
        }
        Err(first.unwrap_or_else(|| Failure::new(FailureKind::Installer, "uv locked nothing")))
    }

    fn tell_scope(&self, scope: Scope, lock: &Lockfile) {
        let Some(python) = lock.targets.first().map(|target| target.python) else { return };
        let (which, others) = match scope {
            Scope::EveryPython => return,
            Scope::FromTheSeries => (format!("Python {python} and newer"), "older ones are"),
            Scope::TheSeries => (format!("Python {python}"), "others are"),
        };
        self.interface.warning(&format!(
            "the stack is locked for {which}; {others} uv's to choose, and not judged: `requires-python` leaves them out"
        ));
    }

    /// A text of pyproject.toml with the tables that the targets need.
    fn tables(&self, targets: &[Target], text: &str, scope: Scope) -> Result<String, Failure> {
        let (addresses, _) = settings::indexes(self.project, self.args.index_url.as_deref());
        written_tables(self.project, targets, text, (&addresses, scope)).map_err(error)
    }

    /// Whether the project allows another Python than a target's. `--python` chose one of those that it allows.
    fn allows_others(&self, lock: &Lockfile) -> bool {
        let limit = self.project.manifest.as_ref().and_then(|manifest| manifest.request.python.as_ref());
        let Some(limit) = limit else { return true };
        let allowed = self.registry.pythons().iter().filter(|minor| limit.allows(Python::new(**minor)));
        let is_other = |minor: &u32| lock.targets.iter().any(|target| target.python.minor != *minor);
        allowed.into_iter().any(is_other)
    }

    /// Refuses a package of the stack that uv takes from a folder, a repository or a URL: which GPUs it has code for is not
    /// known.
    fn refuse_other_sources(&self, lock: &Lockfile) -> Result<(), Failure> {
        let all = lock.targets.iter().flat_map(|target| {
            target
                .packages
                .iter()
                .filter(|package| target.is_of_the_stack(package) && package.source.is_direct())
        });
        match all.into_iter().next() {
            None => Ok(()),
            Some(package) => Err(Failure::usage(format!(
                "`{}` comes from no index, so that which GPUs it has code for is not known",
                package.name
            ))
            .hint("`envlock verify` judges what is installed; envlock chooses builds of PyPI and of the pytorch index")),
        }
    }

    /// Lets uv lock, and reads what it locked.
    fn locked_by_uv(&self, uv: &Path, lock: &Lockfile) -> Result<Current, Failure> {
        let options = self.options();
        // uv runs the Python of an environment that is there, whatever other one is named: it is shown none.
        let folder = Scratch::new("uv")?;
        let mut variables = vec![
            owner::path_outside(self.project),
            (owner::UV_ENVIRONMENT, folder.path().join("none").into_os_string()),
        ];
        variables.extend(self.python(lock));
        if !owner::start(uv, &options, self.project, &variables, self.interface)? {
            let words: Vec<String> = options.iter().map(|word| shell_word(word)).collect();
            let message = format!("`uv {}` failed with this stack", words.join(" "));
            return Err(Failure::new(FailureKind::Installer, message)
                .hint("uv says why above; pyproject.toml and uv.lock are as they were (`git checkout uv.lock` restores a damaged one)"));
        }
        let current = owner::read(self.project, Owner::Uv)?
            .ok_or_else(|| Failure::new(FailureKind::Installer, "uv wrote no `uv.lock`"))?;
        for target in &lock.targets {
            if let Some(other) =
                other_builds(&current.lock, &target.of_the_stack(&BTreeSet::new()), self.registry).first()
            {
                return Err(other_build(other, target));
            }
        }
        Ok(current)
    }

    /// The Python for uv, outside the project: of the series that it would take itself, else of the lock's; if none is here,
    /// the series, which uv may download. `None` where the user names one.
    fn python(&self, lock: &Lockfile) -> Option<(&'static str, OsString)> {
        const VARIABLE: &str = "UV_PYTHON";
        if variables::raw(VARIABLE).is_some() {
            return None;
        }
        let folder = owner::whole(self.project);
        let of_uv = owner::python_of_uv(self.project).map(|(python, _)| python);
        let wanted = lock.targets.first().map(Target::wanted_python);
        let found = owner::with_places(|places| match of_uv {
            Some(python) => {
                let requires = self.project.about().and_then(|own| own.requires_python);
                let series = format!("{}=={python}.*", requires.map(|text| text + ",").unwrap_or_default());
                pythons::of_uv(places, &folder, Some(&series))
            }
            None => pythons::python(&places.outside(&folder), wanted?),
        });
        let series = of_uv.or_else(|| Some(wanted?.python)).map(|python| Python::new(python.minor));
        let value = found.map(|found| found.path.into_os_string());
        Some((VARIABLE, value.or_else(|| Some(series?.to_string().into()))?))
    }

    fn options(&self) -> Vec<String> {
        let mut options = vec!["lock".to_owned()];
        for name in &self.args.upgrade {
            match name.is_empty() {
                true => options.push("--upgrade".to_owned()),
                false => options.extend(["--upgrade-package".to_owned(), name.clone()]),
            }
        }
        let given = [
            (self.global.offline, "--offline"),
            (!self.interface.shows_progress(), "--no-progress"),
            (self.interface.is_quiet(), "--quiet"),
        ];
        options.extend(given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option.to_owned()));
        options
    }
}

/// Writes the lock of the stack, unless the one that is there has the same answer. Returns whether it did.
pub(crate) fn write_lock(project: &Project, lock: &Lockfile) -> Result<bool, Failure> {
    let there = files::read(&project.lock_path())?;
    let is_same =
        there.is_some_and(|text| lockfile::parse(&text).is_ok_and(|old| lockfile::same_answer(&old, lock)));
    if !is_same {
        write::replace(&project.lock_path(), &lockfile::render(lock, &requirements::stated_in(project)))?;
    }
    Ok(!is_same)
}

/// A text of pyproject.toml with envlock's entries: the stack of these targets, and the bounds of envlock's own tables.
fn written_tables(
    project: &Project,
    targets: &[Target],
    text: &str,
    (addresses, scope): (&[(String, String)], Scope),
) -> Result<String, UvError> {
    let bounds = project.manifest.as_ref().map(|manifest| manifest.own_bounds.clone()).unwrap_or_default();
    let tables = UvTables::of(targets, addresses, scope)?.with_bounds(&bounds.constraints, &bounds.overrides);
    tables.written_into(text)
}

/// The tool whose lock appeared beside a lock that has the packages: `uv run` makes one unasked.
pub(crate) fn new_owner(project: &Project, lock: &Lockfile) -> Option<Owner> {
    owner::of(project).filter(|_| lock.packages_in.is_none() && holds_packages(lock))
}

/// Why what the tool holds is not what the stack was chosen for: its lock, or envlock's entries in `pyproject.toml`.
pub(crate) fn changed(project: &Project, lock: &Lockfile) -> Result<Vec<String>, Failure> {
    let Some(held) = &lock.packages_in else {
        return Ok(new_owner(project, lock)
            .map(|owner| {
                format!(
                    "`{}` is new here, and the lock holds the packages (`envlock resolve --force` leaves them to {})",
                    owner.file(),
                    owner.program()
                )
            })
            .into_iter()
            .collect());
    };
    let file = held.owner.file();
    let mut out = Vec::new();
    match owner::read(project, held.owner)? {
        None => out.push(format!("`{file}`, which holds the packages, does not exist")),
        Some(_) if owner::of(project) != Some(held.owner) => {
            out.push(format!(
                "the lock leaves the packages to `{file}`, and its manifest has no `[tool.envlock]`"
            ));
        }
        Some(current) if current.state != *held => {
            out.push(format!("`{file}` changed since the stack was chosen for it"));
        }
        Some(_) => {}
    }
    if held.owner == Owner::Uv {
        let text = files::read(&project.folder.join(files::PYPROJECT))?.unwrap_or_default();
        // They may have been written on a machine with a mirror, or on one without.
        let all = [settings::indexes(project, None).0, settings::usual_indexes(project)];
        let is_as_written = |addresses: &Vec<(String, String)>| {
            SCOPES.iter().any(|scope| {
                written_tables(project, &lock.targets, &text, (addresses, *scope))
                    .is_ok_and(|own| own == text)
            })
        };
        if !all.iter().any(is_as_written) {
            out.push(
                "the entries of envlock under `[tool.uv]` in pyproject.toml are not those of the lock"
                    .to_owned(),
            );
        }
    }
    Ok(out)
}

fn other_build(other: &OtherBuild, target: &Target) -> Failure {
    let OtherBuild { package, theirs, ours } = other;
    let is_absent = theirs.is_none();
    let theirs =
        theirs.as_ref().map_or_else(|| format!("no {package}"), |version| format!("{package} {version}"));
    Failure::new(
        FailureKind::Installer,
        format!("uv locks {theirs} for {}, and the stack is {package} {ours}", target.platform),
    )
    .hint(if is_absent { "make it a dependency: `uv add torch`; the files are as they were" } else { "an entry under `[tool.uv]` in pyproject.toml decides otherwise, for example in `sources` or `override-dependencies`: remove it; the files are as they were" })
}

fn error(error: UvError) -> Failure {
    let hint = match &error {
        UvError::Export(_) => None,
        UvError::Syntax(_) | UvError::Type(_) => Some("https://docs.astral.sh/uv/reference/settings describes the tables".to_owned()),
        UvError::TwoBuilds { .. } => Some(
            "uv.lock has one build per platform: `same = true` under `[tool.envlock.stack]` asks for one that runs on all; else let envlock hold the packages (`envlock init --from pyproject.toml`)".to_owned(),
        ),
        UvError::OtherSource { package, .. } => Some(format!(
            "remove that line, and envlock writes it; or ask for that build: `variant` under `[tool.envlock.stack]` (`{package}` is then taken from there)"
        )),
    };
    let new = match &error {
        UvError::Export(export) => return export.clone().into(),
        UvError::TwoBuilds { .. } => Failure { exit: exit::NO, ..Failure::usage(error.to_string()) },
        _ => Failure::input(error.to_string()),
    };
    Failure { hint, ..new }
}
