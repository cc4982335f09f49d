//! `envlock resolve`: the request, the machines and the old lock become an answer, and the answer becomes files.

pub(crate) mod chosen_code;
mod contradictions;
mod learning;
pub(crate) mod local;
pub(crate) mod locked;
pub(crate) mod machines;
mod of_conda;
mod old_lock;
mod solving;
mod stack_only;
mod task;
mod typed_names;
mod variants;
pub(crate) mod with_pixi;
pub(crate) mod with_uv;
pub(crate) mod writing;

use std::cell::OnceCell;
use std::time::Instant;

use super::Interface;
use super::failure::{Failure, FailureKind};
use super::options::{Global, SolveOptions};
use super::owner::Current;
use super::settings::{self, Project};
use super::{compared, fetch, files, learned_rows, owner, project_lock, requirements, retry};
use crate::compatibility::{Open, UnknownGpu, Unread};
use crate::lockfile::{self, Lockfile, Target, TargetChanges};
use crate::model::conflict::{Conflict, Party};
use crate::model::level::Level;
use crate::model::owner::Owner;
use crate::model::request::{Preferences, PythonAllowed, Request};
use crate::model::solution::{Series, Solution};
use crate::model::variant::is_cuda;
use crate::model::wheel::Python;
use crate::probe::{pythons, system};
use crate::registry::Registry;
use crate::solver::{Budget, JointAnswer, open_question};
use locked::Comparison;
use machines::Machine;
use stack_only::Beside;
use task::Task;
use variants::Listed;
use with_pixi::PixiAnswer;

pub(crate) use writing::NewManifest;

/// What a project or a request is solved as.
#[derive(Debug)]
pub enum Resolution {
    /// There is an answer; it was written, unless nothing was to be written.
    Solved {
        /// The lock.
        lock: Box<Lockfile>,
        /// The names of the files that were written.
        written: Vec<String>,
    },
    /// There is none: why, and what would help.
    Impossible(Box<Conflict>),
    /// Series of frameworks that the registry alone knows, for each machine: there is nothing to lock.
    Series(Vec<Vec<Series>>),
}

/// Solves a project, or packages where there is no manifest, and writes the lock and its environment files.
///
/// # Errors
/// When the request or the old lock cannot be read, an index does not answer, what is needed is not known, or a file cannot be
/// written; with [`SolveOptions::locked`] or [`SolveOptions::check_hashes`], and where pixi locks the packages: only the command does
/// that.
pub fn resolve(
    global: &Global,
    packages: &[String],
    options: &SolveOptions,
    interface: &dyn Interface,
) -> Result<Resolution, Failure> {
    if options.only_checks() {
        return Err(Failure::usage("`locked` and `check_hashes` compare a lock, and this call writes one")
            .hint("run `envlock resolve --locked`"));
    }
    let project = project(global, packages, &[], options.dry_run, interface)?;
    let asked = ResolveRun::new(global, (&project, packages), options, false, interface)?;
    if asked.is_of_pixi() {
        return Err(Failure::usage("pixi locks the packages of this project").hint("run `envlock resolve`"));
    }
    let (_, answer) = asked.solve(None, &|_| ())?;
    Ok(match answer {
        ResolveAnswer::Resolved(resolved) => {
            Resolution::Solved { lock: Box::new(resolved.lock), written: resolved.written }
        }
        ResolveAnswer::Refused(conflict, _) => Resolution::Impossible(conflict),
        ResolveAnswer::Series(series) => Resolution::Series(series),
    })
}

/// What a run of the command comes to.
pub(crate) enum Outcome<'p> {
    /// How the lock compares with the request, with `--locked` or `--check-hashes`.
    Compared(ResolveRun<'p>, Comparison),
    /// What pixi locked, where it holds the packages.
    ByPixi(ResolveRun<'p>, PixiAnswer),
    /// What was solved.
    Solved(Box<Prepared<'p>>, ResolveAnswer),
}

/// The project to resolve: that of a folder, or what requirements files say.
///
/// # Errors
/// When a manifest, a lock or a file cannot be read.
pub(crate) fn project(
    global: &Global,
    packages: &[String],
    files: &[std::path::PathBuf],
    dry_run: bool,
    interface: &dyn Interface,
) -> Result<Project, Failure> {
    let found = |by_lock: bool| Project::find(global, by_lock);
    if !files.is_empty() {
        let project = if dry_run { found(false)?.beside() } else { found(false)? };
        return requirements::project(
            project,
            (files, packages),
            &settings::registry(global)?,
            Some(interface),
        );
    }
    if dry_run && !packages.is_empty() {
        return Ok(found(false)?.beside());
    }
    let project = found(packages.is_empty())?;
    // A lock that cannot be read is told below.
    let lock = match (&project.manifest, packages) {
        (None, []) => project_lock::read(&project).ok().flatten(),
        _ => None,
    };
    let files = lock.map(|lock| requirements::remembered(&project.folder, &lock)).unwrap_or_default();
    if files.is_empty() {
        return Ok(project);
    }
    requirements::project(project, (&files, &[]), &settings::registry(global)?, Some(interface))
}

/// What is asked, and what the lock has.
pub(crate) struct ResolveRun<'p> {
    pub global: &'p Global,
    pub project: &'p Project,
    pub options: &'p SolveOptions,
    /// The packages of the command line.
    pub packages: &'p [String],
    pub interface: &'p dyn Interface,
    pub registry: Registry,
    pub old: Option<Lockfile>,
    pub request: Request,
    /// The options that are kept from the lock.
    kept: Vec<String>,
    start: Instant,
}

impl<'p> ResolveRun<'p> {
    /// Reads what is asked of a project. `writes_manifest`: whether a changed manifest is to be written.
    ///
    /// # Errors
    /// When the request or the lock cannot be read, or they contradict each other.
    pub fn new(
        global: &'p Global,
        (project, packages): (&'p Project, &'p [String]),
        options: &'p SolveOptions,
        writes_manifest: bool,
        interface: &'p dyn Interface,
    ) -> Result<ResolveRun<'p>, Failure> {
        let start = Instant::now();
        let registry = project.registry(global)?;
        let old = old_lock::read_lock(project, options, interface)?;
        let lines = old.as_ref().map(|l| l.request.as_slice());
        let request = settings::request(project, packages, options, lines, &registry)?;
        with_uv::check(project, options, &request)?;
        if let Some(lines) = lines
            && project.manifest.is_none()
            && packages.is_empty()
            && !writes_manifest
            && lockfile::names_targets(lines)
            && !options.only_checks()
            && !options.force
        {
            return Err(Failure::usage("the lock has targets, and the manifest that described them is not here")
                .hint("restore the manifest from version control; `envlock resolve --force` locks for this machine alone"));
        }
        let (request, kept) = match lines {
            // A run without such options keeps those that the lock was made with.
            Some(lines)
                if packages.is_empty()
                    && !options.redetect
                    && !options.only_checks()
                    && !options.sets_limits() =>
            {
                request.keeping_options_of(&lockfile::read_request(lines)?)
            }
            Some(lines) if options.sets_limits() && packages.is_empty() && !options.only_checks() => {
                let (_, dropped) = request.clone().keeping_options_of(&lockfile::read_request(lines)?);
                if !dropped.is_empty() {
                    interface.note(&format!(
                        "beside other options, those that the lock was made with are dropped: {}",
                        dropped.join(", ")
                    ));
                }
                (request, Vec::new())
            }
            _ => (request, Vec::new()),
        };
        if options.format.is_some() && !options.only_checks() {
            return Err(Failure::usage("`--format` is the format of `--locked`")
                .hint("`--json` prints what was solved"));
        }
        Ok(ResolveRun { global, project, options, packages, interface, registry, old, request, kept, start })
    }

    /// The time since the run began, in seconds.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Whether pixi locks the packages, and envlock judges them.
    fn is_of_pixi(&self) -> bool {
        owner::of(self.project) == Some(Owner::Pixi) && !self.options.stack_only
    }

    /// Compares the lock, lets pixi lock, or solves and writes. `before` is told what is about to be solved.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn run(
        self,
        manifest: Option<NewManifest>,
        before: &dyn Fn(&Prepared<'_>),
    ) -> Result<Outcome<'p>, Failure> {
        if self.options.only_checks() {
            let comparison = locked::compare(&self)?;
            return Ok(Outcome::Compared(self, comparison));
        }
        if self.is_of_pixi() {
            let answer = with_pixi::run(&self)?;
            return Ok(Outcome::ByPixi(self, answer));
        }
        let (prepared, answer) = self.solve(manifest, before)?;
        Ok(Outcome::Solved(Box::new(prepared), answer))
    }

    /// How it was asked. `adds`: whether a changed manifest is not written yet.
    fn as_command(&self, adds: bool) -> retry::TypedRequest<'_> {
        let reads = &self.project.reads;
        let has_manifest = self.project.manifest.is_some() && reads.is_empty();
        let form = match (has_manifest, adds) {
            (false, _) => retry::Form::CommandLine,
            (true, false) => retry::Form::Manifest,
            (true, true) => retry::Form::Added,
        };
        let manifest = self.project.manifest.as_ref();
        retry::TypedRequest {
            global: self.global,
            request: &self.request,
            options: self.options,
            manifest_name: manifest.and_then(|_| files::manifest_in(&self.project.folder)),
            manifest_python: manifest.and_then(|manifest| manifest.request.python.as_ref()),
            has_python_of_target: manifest
                .is_some_and(|manifest| manifest.targets.iter().any(|row| row.python.is_some())),
            form,
            packages: self.packages,
            files: reads,
        }
    }

    fn solve(
        self,
        manifest: Option<NewManifest>,
        before: &dyn Fn(&Prepared<'_>),
    ) -> Result<(Prepared<'p>, ResolveAnswer), Failure> {
        let prepared = self.prepare(manifest)?;
        before(&prepared);
        prepared.solve()
    }

    /// Chooses the machines to lock for, and checks that the answer can be written.
    fn prepare(self, manifest: Option<NewManifest>) -> Result<Prepared<'p>, Failure> {
        let ResolveRun { project, options, interface, request, registry, .. } = &self;
        if options.stack_only && request.has_stack_of_conda() {
            return Err(Failure::usage("`--stack-only` chooses among the builds of PyPI and the pytorch index, and this stack comes from conda-forge")
                .hint("remove `--stack-only`"));
        }
        if options.stack_only && !options.dry_run && stack_only::asks_for_torch(request) {
            old_lock::guard_full_lock(self.old.as_ref(), options.force)?;
        }
        old_lock::check_upgrades((project, registry), self.old.as_ref(), request, options)?;
        let mut machines = machines::machines(project, options, self.old.as_ref(), registry)?;
        if options.redetect && project.manifest.as_ref().is_some_and(|manifest| !manifest.targets.is_empty())
        {
            interface.note("`--redetect` detects no machine: the `[target]` tables describe them");
        }
        let owner = with_uv::owner(project, self.old.as_ref(), options)?.filter(|_| !options.stack_only);
        let held = owner.map(|owner| owner::read(project, owner)).transpose()?.flatten();
        let environments = match options.stack_only || owner.is_some() || !writes_environments(project) {
            true => Vec::new(),
            false => {
                let files = machines.iter().enumerate();
                let files = files.map(|(i, machine)| project_lock::environment_file(i == 0, &machine.name));
                writing::own_environments(project, files, options, *interface)?
            }
        };
        let beside = match options.stack_only {
            false => Beside::Series(Vec::new()),
            true => {
                let read = learned_rows::with_frameworks(self.global, registry);
                stack_only::series_of_other_frameworks(&machines, request, read.as_ref().unwrap_or(registry))?
            }
        };
        if !self.kept.is_empty() {
            let kept = self.kept.join(", ");
            interface.note(&format!("{kept} kept from the lock; `--redetect` drops such options"));
        }
        // What the lock is for stays, unless `.python-version` names another one; an upgrade is for the Python that is here.
        let is_open = self.old.is_none() || !options.upgrade.is_empty();
        let python = match owner {
            Some(Owner::Uv) if is_open || owner::pinned_python(&project.folder).is_some() => {
                owner::python_of_uv(project)
            }
            _ => None,
        };
        if owner == Some(Owner::Uv) {
            self.hold_python(&mut machines, python);
        }
        Ok(Prepared { machines, owner, held, environments, beside, manifest, python, asked: self })
    }
}

/// Whether conda's environment files are written beside the lock.
fn writes_environments(project: &Project) -> bool {
    project.manifest.as_ref().and_then(|manifest| manifest.environment_yml) != Some(false)
}

/// What is asked, the machines, and where the answer goes.
pub(crate) struct Prepared<'p> {
    pub asked: ResolveRun<'p>,
    pub machines: Vec<Machine>,
    /// The tool that holds the packages.
    pub owner: Option<Owner>,
    /// The Python that uv takes, and why, where uv holds the packages.
    pub python: Option<(Python, &'static str)>,
    held: Option<Current>,
    /// The environment file of each machine, if it is written.
    environments: Vec<Option<String>>,
    beside: Beside,
    manifest: Option<NewManifest>,
}

/// The answer.
pub(crate) enum ResolveAnswer {
    /// Solved and, without `--dry-run`, written.
    Resolved(Box<Resolved>),
    /// Impossible, with a hint where another way was found.
    Refused(Box<Conflict>, Option<String>),
    /// Series of frameworks other than torch alone, for each machine: nothing is written.
    Series(Vec<Vec<Series>>),
}

/// What was solved and written.
pub(crate) struct Resolved {
    /// For each machine.
    pub solutions: Vec<Solution>,
    /// What the old lock has, for each machine.
    pub preferences: Vec<Preferences>,
    /// Series of other frameworks, for each machine, with `--stack-only`.
    pub series: Vec<Vec<Series>>,
    pub lock: Lockfile,
    /// The files written, none with `--dry-run`.
    pub written: Vec<String>,
    /// Those of them that are not as they were.
    pub changed: Vec<String>,
    /// What differs from the old lock, if there was one.
    pub changes: Vec<TargetChanges>,
}

impl<'p> Prepared<'p> {
    /// What is solved for: all packages, or the stack alone.
    pub fn level(&self) -> Level {
        if self.asked.options.stack_only { Level::Stack } else { Level::Full }
    }

    /// Solves, and writes the answer.
    ///
    /// # Errors
    /// When an index does not answer, what is needed is not known, or a file cannot be written.
    pub fn solve(mut self) -> Result<(Prepared<'p>, ResolveAnswer), Failure> {
        let series = match std::mem::replace(&mut self.beside, Beside::Series(Vec::new())) {
            Beside::Series(series) => series,
            Beside::Conflict(refused) => {
                refuse_unknown_gpu(&self.asked.registry, refused_by_gpu(&refused, &self.machines))?;
                return Ok((self, ResolveAnswer::Refused(refused, None)));
            }
        };
        let ResolveRun { global, project, options, interface, .. } = self.asked;
        if options.stack_only && !stack_only::asks_for_torch(&self.asked.request) {
            refuse_unknown_gpu(&self.asked.registry, self.machines.iter().filter(|_| !series.is_empty()))?;
            return Ok((self, ResolveAnswer::Series(series)));
        }
        let preferences = self.preferences();
        let client = match options.stack_only {
            true => None,
            false => Some(fetch::client(global, project, options.index_url.as_deref())?),
        };
        let request = &self.asked.request;
        if options.stack_only {
            let beside = stack_only::not_looked_at(request, &self.asked.registry);
            beside.iter().for_each(|text| interface.note(text));
        }
        let task = Task {
            global,
            args: options,
            request,
            machines: &self.machines,
            preferences: &preferences,
            client,
            budget: &Budget::default(),
            interface,
        };
        contradictions::warn(&task);
        let (answer, registry) = task.solve_buildable(self.asked.registry)?;
        let solutions = match answer {
            JointAnswer::Solved(solutions) => solutions,
            JointAnswer::Conflict(refused) => {
                let mut refused = task.proved(&registry, refused)?;
                refuse_unread(&task, &registry)?;
                learning::cite_pypi(&task, &registry, &mut refused);
                let hint = of_conda::offer(&task, project, &mut refused, &registry, self.owner);
                task.hold_ways_against_all(&mut refused, &registry);
                self.asked.registry = registry;
                self.asked.as_command(self.manifest.is_some()).name_commands(&mut refused);
                return Ok((self, ResolveAnswer::Refused(refused, hint)));
            }
            JointAnswer::TooLong => return Err(Failure::too_long()),
        };
        let uses_cuda = |solution: &Solution| {
            let by_torch = solution.stack.as_ref().is_some_and(|stack| is_cuda(&stack.variant));
            by_torch || !solution.frameworks.is_empty()
        };
        let with_cuda = self.machines.iter().zip(&solutions).filter(|(_, solution)| uses_cuda(solution));
        refuse_unknown_gpu(&registry, with_cuda.map(|(machine, _)| machine))?;
        typed_names::warn(&task, &registry, &solutions);
        self.asked.registry = registry;
        let lock = self.lock_of(&solutions);
        let (written, changed) = self.write(&lock)?;
        let changes = self.changes(&lock)?;
        let mut resolved = Resolved { solutions, preferences, series, lock, written, changed, changes };
        if self.owner == Some(Owner::Uv) && !options.dry_run {
            with_uv::as_locked_by_uv(&mut resolved.solutions, project)?;
        }
        Ok((self, ResolveAnswer::Resolved(Box::new(resolved))))
    }

    /// What each machine keeps of the old lock, and takes of what is here.
    fn preferences(&self) -> Vec<Preferences> {
        let ResolveRun { options, request, old, .. } = &self.asked;
        let (own_platform, installed) = (system().platform, OnceCell::new());
        let of = |machine: &Machine| {
            let mut preferences = old_lock::preferences(old.as_ref(), &machine.name, options, request);
            let asked = machine.python.as_ref().or(request.python.as_ref());
            let names_python = asked.is_some_and(|asked| matches!(asked.allowed, PythonAllowed::Exact(_)));
            // This machine, or one without a GPU such as this may be.
            let may_be_here = match request.targets.is_empty() {
                true => options.host.may_be_this_machine(),
                false => machine.host.has_no_gpu() && machine.host.system.platform == own_platform,
            };
            // A machine without a GPU that the lock holds may be this one as well.
            let is_other = machine.kept && !machine.host.has_no_gpu();
            if !names_python && self.owner.is_none() && may_be_here && !is_other {
                preferences.installed = installed.get_or_init(|| owner::with_places(pythons::series)).clone();
            }
            if self.owner.is_some() {
                let held = self.held.as_ref();
                with_uv::prefer(&mut preferences, self.python, held, &machine.host, options);
            }
            preferences
        };
        self.machines.iter().map(of).collect()
    }

    /// What a new lock changes. Where uv holds the packages, they are those of its lock before and after; nothing where that is not
    /// known.
    fn changes(&self, new: &Lockfile) -> Result<Vec<TargetChanges>, Failure> {
        let ResolveRun { project, options, registry, old, .. } = &self.asked;
        let Some(old) = old else { return Ok(Vec::new()) };
        if old.packages_in.is_none() && self.owner.is_none() {
            return Ok(lockfile::changes(old, new));
        }
        let before = match (&old.packages_in, &self.held) {
            (None, _) => old.clone(),
            (Some(_), Some(held)) => owner::filled(old.clone(), held, registry),
            (Some(_), None) => return Ok(Vec::new()),
        };
        // What uv will choose beside the stack, it says when it locks.
        if self.owner.is_some() && options.dry_run {
            let stacks = compared::without_packages;
            return Ok(lockfile::changes(&stacks(old.clone()), &stacks(new.clone())));
        }
        let written = match self.owner.is_some() {
            true => project_lock::read(project)?,
            false => None,
        };
        let after = match written {
            Some(written) => owner::with_packages(project, written, registry)?,
            None => new.clone(),
        };
        Ok(lockfile::changes(&before, &after))
    }

    fn lock_of(&self, solutions: &[Solution]) -> Lockfile {
        let ResolveRun { request, registry, project, .. } = &self.asked;
        let target = |(machine, solution): (&Machine, &Solution)| Target {
            image: request.images.get(&machine.name).cloned(),
            ..Target::new(&machine.name, solution, &machine.seen, self.level())
        };
        let targets = self.machines.iter().zip(solutions).map(target).collect();
        Lockfile::new(request, registry.digest(), &registry.meta().date, targets)
            .stated_in(requirements::that_state(project))
    }

    /// Writes the answer. Returns the files that were written, and those of them that are not as they were.
    fn write(&mut self, lock: &Lockfile) -> Result<(Vec<String>, Vec<String>), Failure> {
        let manifest = self.manifest.take();
        let ResolveRun { global, project, options, registry, interface, .. } = &self.asked;
        match (options.dry_run, self.owner) {
            (true, _) => Ok((Vec::new(), Vec::new())),
            (false, None) => writing::write(project, lock, &self.environments, manifest, options),
            (false, Some(_)) => {
                let owned =
                    with_uv::WithUv { global, project, args: options, registry, interface: *interface };
                let written = owned.write(lock, manifest)?;
                Ok((written.clone(), written))
            }
        }
    }
}

/// The machines, where a GPU stands against the request.
fn refused_by_gpu<'m>(refused: &Conflict, machines: &'m [Machine]) -> impl Iterator<Item = &'m Machine> {
    let is_of_gpu = refused.reasons.iter().any(|reason| reason.parties.contains(&Party::Gpu));
    machines.iter().filter(move |_| is_of_gpu)
}

/// Refuses to say that CUDA programs run on GPUs of which nothing is known, or that they do not.
fn refuse_unknown_gpu<'m>(
    registry: &Registry,
    mut machines: impl Iterator<Item = &'m Machine>,
) -> Result<(), Failure> {
    match machines.find_map(|machine| UnknownGpu::of(registry, &machine.host)) {
        Some(gpu) => Err(not_known(&gpu)),
        None => Ok(()),
    }
}

/// What runs on a GPU of which nothing is known.
fn not_known(gpu: &UnknownGpu) -> Failure {
    Failure::new(FailureKind::UnknownRow, format!("not known: {gpu}")).hint(gpu.what_helps())
}

/// Refuses to call a request impossible that only a build or a companion could meet that nobody has read.
fn refuse_unread(task: &Task<'_>, registry: &Registry) -> Result<(), Failure> {
    let asked = task.client.filter(|_| !task.global.offline);
    for machine in task.machines {
        let Some(open) = open_question(registry, &machine.host, task.request, asked.is_some()) else {
            continue;
        };
        match variants::look_for(asked, task.request, &open) {
            Listed::No => {}
            Listed::Maybe => return Err(unread(&open, task.client.is_some())),
            Listed::Silent(cause) => {
                let message = format!("not known: {open}: {cause}");
                return Err(Failure::new(FailureKind::UnknownRow, message).hint(
                    "run it again when the pytorch index answers, or take PyPI's builds alone: `--only-index pypi`",
                ));
            }
        }
    }
    Ok(())
}

/// A request that only something could meet that nobody has read.
fn unread(open: &Open, has_asked_index: bool) -> Failure {
    let may_be_on_pypi = match open {
        Open::Build(build) => !matches!(build.what, Unread::Needs | Unread::Gpu | Unread::Older),
        Open::Companion(_) => true,
    };
    let read = match has_asked_index || !may_be_on_pypi {
        false => "without `--stack-only` releases of PyPI are read".to_owned(),
        true => open.how_to_read(),
    };
    Failure::new(FailureKind::UnknownRow, format!("not known: {open}"))
        .hint(format!("{read}; `envlock verify` judges an installed build by its files"))
}
