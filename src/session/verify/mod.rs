//! `verify`: gathers the facts that the checks need, and has them judged.
//!
//! ```
//! use envlock::session::Silent;
//! use envlock::session::options::Global;
//! use envlock::session::verify::{Only, VerifyOptions, verify};
//!
//! // Is this machine sound? No lock, no environment.
//! let options = VerifyOptions { only: Some(Only::Machine), ..VerifyOptions::default() };
//! let verified = verify(&Global::default(), &options, None, &Silent)?;
//! assert!(!verified.areas().is_empty());
//! # Ok::<(), envlock::session::failure::Failure>(())
//! ```

mod described_machines;
mod foreign;
mod gather;
mod judge;
mod lock_on_machine;
mod of_bundle;
mod on_machine;
mod options;
mod place;
mod question;
pub(crate) mod smoke_run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Interface;
use super::failure::{Failure, FailureKind};
use super::options::Global;
use super::project_lock::{self, AnyLock};
use super::settings::Project;
use super::{chosen_host, exit, files, learned_rows, owner};
use crate::formats::other_builds;
use crate::inspect::{Environment, NoEnvironment, Rooted};
use crate::model::installed::Installed;
use crate::model::smoke_test::SmokeOutcome;
use crate::model::text::{clean, shell_word};
use crate::registry::Registry;
use crate::verify::smoke::Wanted;
use crate::verify::{self as checks, Area, Demands, Facts, Verdict, findings};

pub(crate) use described_machines::{Node, verdict};
pub(crate) use judge::{Judged, judge};
pub(crate) use lock_on_machine::{Locks, OfLock, lock_on_machine};
pub(crate) use on_machine::{Candidates, OnMachine, judged, needed_driver, on_machine};
pub use options::{On, Only, SmokeChoice, VerifyOptions};
pub(crate) use place::Place;
pub(crate) use question::{Against, Question, ignored};

/// What `verify` found.
pub struct Verified(pub(crate) Answer);

/// What `verify` found, by what was asked.
pub(crate) enum Answer {
    /// This machine, without an environment.
    Machine {
        verdict: Verdict,
        areas: Vec<Area>,
        /// The lock that was asked about, for display; `None` for the machine alone.
        lock: Option<String>,
    },
    /// A bundle.
    Bundle {
        areas: Vec<Area>,
        /// Its path, for display.
        path: String,
    },
    /// Described machines.
    Nodes(Vec<Node>),
    /// An environment.
    Environment(Box<OfEnvironment>),
}

/// What was found in an environment.
pub(crate) struct OfEnvironment {
    pub environment: Environment,
    pub judged: Judged,
    /// What the smoke test did, if it ran.
    pub outcome: Option<SmokeOutcome>,
    /// The project's folder.
    pub folder: PathBuf,
    /// How long everything but the smoke test took, in ms.
    pub static_ms: u128,
    /// How long all of it took.
    pub elapsed: Duration,
}

impl Verified {
    /// What was found, by subject.
    pub fn areas(&self) -> Vec<&Area> {
        match &self.0 {
            Answer::Machine { areas, .. } | Answer::Bundle { areas, .. } => areas.iter().collect(),
            Answer::Nodes(nodes) => nodes.iter().flat_map(|node| &node.areas).collect(),
            Answer::Environment(one) => one.judged.areas.iter().collect(),
        }
    }

    /// The exit code.
    pub fn exit(&self) -> u8 {
        let of = |verdict| match verdict {
            Verdict::Ok => exit::YES,
            Verdict::Differs => exit::NO,
            Verdict::Unknown => exit::NOT_KNOWN,
        };
        match &self.0 {
            Answer::Machine { verdict, .. } => of(*verdict),
            Answer::Bundle { areas, .. } if checks::has_errors(areas) => exit::NO,
            Answer::Bundle { .. } => exit::YES,
            Answer::Nodes(nodes) if nodes.iter().any(|node| !node.is_read) => exit::CANNOT_ANSWER,
            Answer::Nodes(nodes) => of(verdict(nodes)),
            Answer::Environment(one) if one.judged.has_errors() => exit::NO,
            Answer::Environment(_) => exit::YES,
        }
    }
}

/// Checks an environment, a machine or a lock. `read`: what was just read of the environment, with the sizes of its files.
///
/// # Errors
/// When options contradict each other, or what is asked about cannot be read.
pub fn verify(
    global: &Global,
    options: &VerifyOptions,
    read: Option<&Installed>,
    interface: &dyn Interface,
) -> Result<Verified, Failure> {
    refuse_contradictions(options)?;
    let start = Instant::now();
    if options.only == Some(Only::Machine) {
        // Whatever the folder's project says.
        return Ok(Verified(soundness(options)));
    }
    if let Some(path) = &options.bundle {
        return of_bundle::check(global, path, options).map(Verified);
    }
    let subject = Subject::read(global, options, interface)?;
    let Subject { project, registry, lock, .. } = &subject;
    if options.asks_this_machine() {
        let lock = lock.as_ref().ok_or_else(|| {
            project_lock::missing()
                .hint("`--only machine` asks whether this machine is sound, without a lock")
        })?;
        return here(lock, &ignored(project), registry, options).map(Verified);
    }
    let demands = Demands { gpu: options.require_gpu, exact: None };
    if let (Some(path), None, None) = (options.described(), &options.prefix, &options.root) {
        let lock = lock.as_ref().ok_or_else(project_lock::missing)?;
        let candidates = Candidates::of(lock, options.target.as_deref(), options.require_gpu)?;
        let base = Facts::none(registry).with(demands);
        return Ok(Verified(Answer::Nodes(described_machines::judge(
            path,
            &candidates,
            &ignored(project),
            &base,
        )?)));
    }
    let tree = options.root.as_deref().map(rooted).transpose()?;
    let place = match &tree {
        Some(tree) => Place::rooted(tree, BTreeMap::new(), PathBuf::from("/")),
        None => Place::here(),
    };
    let environment = match &options.root {
        Some(root) => {
            let shown = clean(&root.display().to_string(), 200);
            place.environment(options.prefix.as_deref(), &shown)?
        }
        None => environment(options.prefix.as_deref(), global)?,
    };
    let mut judged = subject.judge((&place, &environment.prefix), options, read)?;
    let static_ms = start.elapsed().as_millis();
    let outcome = smoke_test(&environment, &judged, options, interface);
    if let Some(outcome) = &outcome {
        judged.areas.push(checks::smoke::check(outcome, judged.locked_cudnn.as_ref()));
    }
    let folder = subject.project.folder.clone();
    let one = OfEnvironment { environment, judged, outcome, folder, static_ms, elapsed: start.elapsed() };
    Ok(Verified(Answer::Environment(Box::new(one))))
}

/// Whether this machine is sound, whatever runs on it. Only that may take a node out of service: one wrong lock must not empty a
/// cluster.
fn soundness(options: &VerifyOptions) -> Answer {
    let (state, machine) = chosen_host::soundness_facts();
    let registry = Registry::embedded();
    let demands = Demands { gpu: options.require_gpu, exact: None };
    let facts = Facts { state: Some(&state), demands, ..Facts::none(&registry).on(&machine) };
    let areas = checks::judge(&facts);
    let verdict = Verdict::of(areas.iter().flat_map(|area| &area.findings), false);
    Answer::Machine { verdict, areas, lock: None }
}

/// Whether a lock runs on this machine.
fn here(
    lock: &AnyLock,
    ignored: &[String],
    registry: &Registry,
    options: &VerifyOptions,
) -> Result<Answer, Failure> {
    let machine = chosen_host::without(chosen_host::seen(), ignored, registry)?;
    let candidates = Candidates::of(lock, options.target.as_deref(), options.require_gpu)?;
    let is_described = matches!(lock, AnyLock::Own(own) if crate::lockfile::names_targets(&own.request));
    // Where nothing uses a GPU, no fault of one matters.
    let uses_gpu = candidates.locked(&machine, registry).iter().any(|locked| locked.target.uses_cuda());
    let state = uses_gpu.then(|| chosen_host::soundness_facts().0);
    let base = Facts {
        state: state.as_ref(),
        role: checks::MachineRole { of_root: None, is_here: true, is_described },
        ..Facts::none(registry).with(Demands { gpu: options.require_gpu, exact: None })
    };
    let OnMachine { areas, verdict, .. } = on_machine(&machine, &candidates, &base);
    let named = options.lock.as_ref().map(|path| clean(&path.display().to_string(), 200));
    let name = named.unwrap_or_else(|| files::LOCK.to_owned());
    Ok(Answer::Machine { verdict, areas, lock: Some(name) })
}

/// Refuses options that contradict each other.
fn refuse_contradictions(options: &VerifyOptions) -> Result<(), Failure> {
    if options.root.is_some() {
        let other = match options.smoke {
            _ if options.only == Some(Only::Machine) => "--only machine",
            _ if options.host == Some(On::ThisMachine) => "--host without a value",
            SmokeChoice::Cpu | SmokeChoice::Cuda => "--smoke",
            _ => return Ok(()),
        };
        return Err(Failure::usage(format!("`--root` contradicts `{other}`"))
            .hint("`--root DIR` reads the environment in DIR, runs nothing, and judges it for this machine or `--host FILE`"));
    }
    let (only, option) = match options.only {
        Some(Only::Machine) if options.described().is_some() => {
            return Err(Failure::usage(
                "`--only machine` looks at this machine: the state of a described one is unknown",
            )
            .hint("without `--only machine`, `--host FILE` judges the lock for the described machine"));
        }
        Some(Only::Machine) if options.prefix.is_some() => ("machine", "--prefix"),
        Some(Only::Machine) if options.lock.is_some() => ("machine", "--lock"),
        Some(Only::Machine) if options.target.is_some() => ("machine", "--target"),
        Some(Only::Machine) if options.deep => ("machine", "--deep"),
        Some(Only::Machine) if options.exact => ("machine", "--exact"),
        Some(Only::Machine) if !options.parts.is_empty() => ("machine", "--extra or --group"),
        Some(Only::Environment) if options.host.is_some() => ("environment", "--host"),
        Some(Only::Environment) if options.require_gpu => ("environment", "--require-gpu"),
        Some(Only::Environment) if options.smoke == SmokeChoice::Cuda => ("environment", "--smoke cuda"),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("`--only {only}` contradicts `{option}`")).hint("remove one of them"))
}

/// What an environment or a machine is compared with.
struct Subject {
    project: Project,
    registry: Registry,
    lock: Option<AnyLock>,
    /// Why the lock is not that of the manifest.
    stale: Option<String>,
}

impl Subject {
    /// Reads the lock that is named, else the project's. That it is stale is said where it is no finding.
    fn read(global: &Global, options: &VerifyOptions, interface: &dyn Interface) -> Result<Subject, Failure> {
        let project = Project::find(global, true)?;
        let registry = project.registry(global)?;
        let lock = match &options.lock {
            Some(path) => Some(project_lock::read_any(path)?),
            None => project_lock::read(&project)?.map(AnyLock::Own),
        };
        let stale = match (&lock, &options.lock) {
            (Some(AnyLock::Own(lock)), None) => project_lock::staleness(&project, lock, &registry),
            _ => None,
        };
        // Of an environment it is one of the findings.
        let judges_environment = !options.asks_this_machine()
            && (options.described().is_none() || options.prefix.is_some() || options.root.is_some());
        if let Some(first) = stale.as_ref().filter(|_| !judges_environment) {
            interface.warning(&project_lock::stale_text(first));
        }
        if let (Some(AnyLock::Own(own)), None, false) = (&lock, &options.lock, judges_environment)
            && let Some(held) = owner::held(&project, own)?
            && own.packages_in.as_ref() != Some(&held.state)
        {
            let others = own.targets.iter().flat_map(|target| other_builds(&held.lock, target, &registry));
            let first = others.into_iter().next();
            interface.warning(&findings::package_lock_changed(held.state.owner, first.as_ref()).message);
        }
        let lock = match lock {
            Some(AnyLock::Own(lock)) => Some(AnyLock::Own(project_lock::as_installed(lock, &options.parts)?)),
            None if !options.parts.is_empty() => return Err(project_lock::missing()),
            _ if !options.parts.is_empty() => {
                return Err(Failure::usage("`--extra` and `--group` select parts of an envlock.lock")
                    .hint("of another tool's lock, `--target \"extra NAME\"` names an environment"));
            }
            other => other,
        };
        let mentions = |name: &str| lock.as_ref().is_some_and(|lock| lock.mentions(name));
        let registry = learned_rows::with_rows_of(global, registry, &mentions);
        Ok(Subject { project, registry, lock, stale })
    }

    /// Judges an environment without running anything.
    fn judge(
        &self,
        (place, prefix): (&Place<'_>, &Path),
        options: &VerifyOptions,
        read: Option<&Installed>,
    ) -> Result<Judged, Failure> {
        let question = Question {
            place,
            prefix,
            read,
            host: options.described(),
            target: options.target.as_deref(),
            deep: options.deep,
            require_gpu: options.require_gpu,
            parts: Some(&options.parts),
            without_machine: options.only == Some(Only::Environment),
            exact: options.exact,
            stale: self.stale.as_deref(),
        };
        let against = match (&self.lock, &options.lock) {
            (Some(AnyLock::Own(lock)), _) => Against::Lock(lock),
            (Some(AnyLock::Foreign(lock)), Some(path)) => Against::Foreign(lock, path),
            _ => Against::Nothing,
        };
        judge(&question, &self.project, against, &self.registry)
    }
}

/// Runs the smoke test where it is wanted and nothing is wrong: with wrong files it would prove nothing.
fn smoke_test(
    environment: &Environment,
    judged: &Judged,
    options: &VerifyOptions,
    interface: &dyn Interface,
) -> Option<SmokeOutcome> {
    let is_wanted = match options.smoke {
        SmokeChoice::Off => false,
        // Nothing can be run for a described machine, and nothing runs in an environment that nobody named or activated.
        SmokeChoice::Auto => {
            let has_framework = !checks::smoke::frameworks(&judged.installed).is_empty();
            let may_run = environment.is_explicit() && !options.is_found;
            has_framework && options.described().is_none() && options.root.is_none() && may_run
        }
        SmokeChoice::Cpu | SmokeChoice::Cuda => true,
    };
    if !is_wanted || judged.has_errors() {
        return None;
    }
    let wanted = match options.smoke {
        SmokeChoice::Auto if options.only.is_some() => Wanted::Cpu,
        SmokeChoice::Cpu => Wanted::Cpu,
        SmokeChoice::Cuda => Wanted::Cuda,
        SmokeChoice::Auto | SmokeChoice::Off => Wanted::Auto,
    };
    let outcome = smoke_run::run(&environment.prefix, judged, wanted, interface);
    // Without a framework there may have been nothing to run, which is no success.
    (!outcome.checks.is_empty() || !outcome.passed()).then_some(outcome)
}

/// The root file system in a folder.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn rooted(root: &Path) -> Result<Rooted, Failure> {
    Rooted::new(root)
        .map_err(|why| Failure::input(format!("`{}`: {why}", clean(&root.display().to_string(), 200))))
}

/// The environment that a command is about ([`Environment::choose`]).
///
/// # Errors
/// When none is named, active or beside the lock.
pub(crate) fn environment(named: Option<&Path>, global: &Global) -> Result<Environment, Failure> {
    let folder = files::project_folder(global.project.as_deref(), true)?;
    let own = owner::environment(&folder);
    let variable = owner::variable_of(own == Path::new(owner::CONDA_ENVIRONMENT));
    let chosen = Environment::choose(named, (&folder, &own), &variable).map_err(|none| {
        let hint = match &none {
            NoEnvironment::None(_) => {
                "`envlock sync` makes it; or name one with `--prefix DIR`, or activate it first".to_owned()
            }
            NoEnvironment::CondaBase(base) => {
                format!("activate another one, or name it: `--prefix {}`", shell_word(base))
            }
        };
        Failure::new(FailureKind::Environment, none.to_string()).hint(hint)
    })?;
    if !chosen.is_explicit() {
        // Its Python may be run: nobody else may have put it there.
        files::check_owner(&chosen.prefix)?;
    }
    Ok(chosen)
}
