//! A project whose packages pixi holds: its manifest gets the machines, pixi locks, and what it locked is judged for each of
//! them. All or none: where pixi refuses, or its lock does not run, the files are as they were.

use std::path::{Path, PathBuf};

use super::machines::{Machine, machines};
use super::{ResolveRun, with_uv};
use crate::formats::Environment;
use crate::formats::{PixiError, PixiMachine, with_machines};
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::Finding;
use crate::model::owner::Owner;
use crate::model::request::Request;
use crate::model::version::cuda_short;
use crate::registry::Registry;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::SolveOptions;
use crate::session::owner::{self, Current};
use crate::session::settings::Project;
use crate::session::{Interface, files, signals, write};
use crate::verify::{self, Area, Facts, Locked, has_errors};

/// A project whose packages pixi holds.
struct WithPixi<'p> {
    project: &'p Project,
    args: &'p SolveOptions,
    request: &'p Request,
    registry: &'p Registry,
    interface: &'p dyn Interface,
}

/// What came of it.
pub(crate) enum PixiAnswer {
    /// The platforms that pixi's manifest would get, with `--dry-run`.
    Planned(Vec<PixiMachine>),
    /// What pixi locks does not run on one of the machines: nothing is written.
    Refused(Vec<PixiLocked>),
    /// What pixi locked, and the files that were written.
    Written(Vec<PixiLocked>, Vec<String>),
}

/// What pixi locked for a machine.
pub(crate) struct PixiLocked {
    pub machine: Machine,
    pub locked: Locked<'static>,
    /// What is wrong with it there.
    pub areas: Vec<Area>,
}

impl PixiLocked {
    /// What is wrong with it there.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.areas.iter().flat_map(|area| &area.findings)
    }
}

/// Whether what pixi locked does not run on one of the machines.
fn refuses(locked: &[PixiLocked]) -> bool {
    locked.iter().any(|locked| has_errors(&locked.areas))
}

/// Lets pixi lock for the machines that are asked about.
///
/// # Errors
/// When a machine or the manifest cannot be read, pixi is not here, or does not lock.
pub(crate) fn run(asked: &ResolveRun<'_>) -> Result<PixiAnswer, Failure> {
    let ResolveRun { project, options, request, registry, interface, .. } = asked;
    WithPixi { project, args: options, request, registry, interface: *interface }.run(asked.old.as_ref())
}

impl WithPixi<'_> {
    fn run(&self, old: Option<&Lockfile>) -> Result<PixiAnswer, Failure> {
        let machines = machines(self.project, self.args, old, self.registry)?;
        let pixi = owner::program(Owner::Pixi, Some(self.project))?;
        let (path, is_pyproject) = self.manifest();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let lock_path = self.project.folder.join(Owner::Pixi.file());
        let before = files::read(&path)?.unwrap_or_default();
        let lock_before = files::read(&lock_path)?;
        let rows = self.rows(&machines)?;
        let after = with_machines(&before, is_pyproject, &rows).map_err(|error| {
            let hint = match &error {
                PixiError::Syntax(_) => "`pixi info` says what it does not read",
                PixiError::NoPlatforms => "name the platforms: `platforms = [\"linux-64\"]`",
            };
            Failure::input(format!("{name}: {error}")).hint(hint)
        })?;
        if self.args.dry_run {
            return Ok(PixiAnswer::Planned(rows));
        }
        let undo = || {
            for (path, text) in [(&path, Some(&before)), (&lock_path, lock_before.as_ref())] {
                if let Some(text) =
                    text.filter(|text| files::read(path).ok().flatten().as_ref() != Some(*text))
                {
                    let _ = write::replace(path, text);
                }
            }
        };
        // A signal waits until the files are as they were, or all new.
        let locked = signals::uninterrupted(|| {
            let locked = self.locked(&pixi, machines, (after != before).then_some((&path, &after)));
            if !locked.as_ref().is_ok_and(|locked| !refuses(locked)) {
                undo();
            }
            locked
        })?;
        if refuses(&locked) {
            return Ok(PixiAnswer::Refused(locked));
        }
        let mut written = vec![files::LOCK.to_owned(), Owner::Pixi.file().to_owned()];
        written.extend((after != before).then_some(name));
        Ok(PixiAnswer::Written(locked, written))
    }

    /// Lets pixi lock with a changed manifest, judges what it locked, and writes the lock of the stack where it runs on all
    /// machines.
    fn locked(
        &self,
        pixi: &Path,
        machines: Vec<Machine>,
        manifest: Option<(&PathBuf, &String)>,
    ) -> Result<Vec<PixiLocked>, Failure> {
        if let Some((path, text)) = manifest {
            write::replace(path, text)?;
        }
        self.start(pixi)?;
        let current = owner::read(self.project, Owner::Pixi)?
            .ok_or_else(|| Failure::new(FailureKind::Installer, "pixi wrote no `pixi.lock`"))?;
        let locked = machines.into_iter().map(|machine| self.judged(&current, machine));
        let locked: Vec<PixiLocked> = locked.collect::<Result<_, _>>()?;
        if refuses(&locked) {
            return Ok(locked);
        }
        let targets = locked.iter().map(|PixiLocked { machine, locked, .. }| Target {
            name: machine.name.clone(),
            host: machine.seen.clone(),
            ..locked.target.clone().into_owned()
        });
        let (digest, date) = (self.registry.digest(), &self.registry.meta().date);
        let lock = Lockfile::new(self.request, digest, date, targets.collect());
        with_uv::write_lock(
            self.project,
            &lock.with_packages_in(current.state, &std::collections::BTreeSet::new()),
        )?;
        Ok(locked)
    }

    /// pixi's manifest, and whether it is a pyproject.toml.
    fn manifest(&self) -> (PathBuf, bool) {
        let own = self.project.folder.join(files::PIXI);
        match own.is_file() {
            true => (own, false),
            false => (self.project.folder.join(files::PYPROJECT), true),
        }
    }

    /// The machines as pixi describes them: a driver runs every CUDA up to its own.
    fn rows(&self, machines: &[Machine]) -> Result<Vec<PixiMachine>, Failure> {
        let row = |machine: &Machine| {
            let host = &machine.host;
            let several =
                machines.iter().filter(|one| one.host.system.platform == host.system.platform).count() > 1;
            let cuda = match &host.driver {
                _ if host.has_no_gpu() => None,
                Some(driver) => {
                    let newest = driver.compat.as_ref().unwrap_or(&driver.version);
                    self.registry.cuda_of_driver(newest).map(|known| cuda_short(known.cuda))
                }
                None => {
                    return Err(Failure::usage(format!(
                        "the driver of `{}` is not known, and pixi chooses CUDA by it",
                        machine.name
                    ))
                    .hint("name it: `--driver 535.129.03`, or `driver` in the target's table"));
                }
            };
            Ok(PixiMachine {
                name: several.then(|| machine.name.clone()),
                subdir: host.system.platform.conda_subdir(),
                cuda,
            })
        };
        machines.iter().map(row).collect()
    }

    fn start(&self, pixi: &Path) -> Result<(), Failure> {
        let given = [
            (true, "lock"),
            (!self.interface.shows_progress(), "--no-progress"),
            (self.interface.is_quiet(), "--quiet"),
        ];
        let options = given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option.to_owned());
        let path = [owner::path_outside(self.project)];
        match owner::start(pixi, &options.collect::<Vec<_>>(), self.project, &path, self.interface)? {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Installer,
                "`pixi lock` does not lock the project for these machines",
            )
            .hint("what pixi says above names the packages; the files are as they were")),
        }
    }

    /// What pixi locked for a machine, judged for it.
    fn judged(&self, current: &Current, machine: Machine) -> Result<PixiLocked, Failure> {
        let platform = machine.host.system.platform;
        let environments = current.lock.environments(platform, None);
        let own = format!("default ({})", machine.name);
        let named = |name: &str| environments.iter().find(|environment| environment.name == name);
        let environment: &Environment =
            named(&own).or(named("default")).or(environments.first()).ok_or_else(|| {
                Failure::input(format!("`pixi.lock` has no environment for {platform}"))
                    .hint("name the platform in `platforms` under `[workspace]`")
            })?;
        let locked = Locked::of_tool(environment, platform, self.registry);
        let areas = verify::judge(&Facts::of_lock(&locked, self.registry).on(&machine.host));
        Ok(PixiLocked { machine, locked, areas })
    }
}
