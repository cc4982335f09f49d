//! A project whose packages pixi holds: its manifest gets the machines, pixi locks, and what it locked is judged for each of
//! them. All or none: where pixi refuses, or its lock does not run, the files are as they were.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cli::printer::{Printer, wrap};
use crate::cli::report::{self, label};
use crate::formats::{Environment, Judged, judge};
use crate::formats::{PixiError, PixiMachine, with_machines};
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::Severity;
use crate::model::owner::Owner;
use crate::model::request::Request;
use crate::model::version::cuda_short;
use crate::registry::Registry;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::SolveOptions;
use crate::session::owner::{self, Current};
use crate::session::resolve::machines::{Machine, machines};
use crate::session::resolve::{Asked, owned};
use crate::session::settings::Project;
use crate::session::{exit, files, write};
use crate::verify;

/// A project whose packages pixi holds.
struct OfPixi<'p> {
    project: &'p Project,
    args: &'p SolveOptions,
    request: &'p Request,
    registry: &'p Registry,
    printer: &'p Printer,
}

pub(super) fn run(asked: &Asked<'_>, printer: &Printer) -> Result<u8, Failure> {
    let Asked { project, options, request, registry, .. } = asked;
    OfPixi { project, args: options, request, registry, printer }.run(asked.old.as_ref())
}

/// What pixi locked for a machine.
struct Answer {
    judged: Judged,
    area: verify::Area,
}

/// Whether what pixi locked does not run on one of the machines.
fn refuses(answers: &[Answer]) -> bool {
    answers.iter().any(|answer| answer.area.has_errors())
}

impl OfPixi<'_> {
    fn run(&self, old: Option<&Lockfile>) -> Result<u8, Failure> {
        let start = Instant::now();
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
            for row in rows.iter().filter(|row| row.cuda.is_some()) {
                let cuda = row.cuda.as_deref().unwrap_or_default();
                self.printer.out(&format!(
                    "{}{} with CUDA {cuda}",
                    label(self.printer, "platform"),
                    row.subdir
                ));
            }
            self.printer.out(&format!("{}nothing (--dry-run)", label(self.printer, "wrote")));
            return Ok(exit::YES);
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
        let answers = write::uninterrupted(|| {
            let answers = self.locked(&pixi, &machines, (after != before).then_some((&path, &after)));
            if !answers.as_ref().is_ok_and(|answers| !refuses(answers)) {
                undo();
            }
            answers
        })?;
        if refuses(&answers) {
            return Ok(self.refuse(&machines, &answers));
        }
        let mut written = vec![files::LOCK.to_owned(), Owner::Pixi.file().to_owned()];
        written.extend((after != before).then_some(name));
        self.tell(&machines, &answers, &written, start);
        Ok(exit::YES)
    }

    /// Lets pixi lock with a changed manifest, judges what it locked, and writes the lock of the stack where it runs on all
    /// machines.
    fn locked(
        &self,
        pixi: &Path,
        machines: &[Machine],
        manifest: Option<(&PathBuf, &String)>,
    ) -> Result<Vec<Answer>, Failure> {
        if let Some((path, text)) = manifest {
            write::replace(path, text)?;
        }
        self.start(pixi)?;
        let current = owner::read(self.project, Owner::Pixi)?
            .ok_or_else(|| Failure::new(FailureKind::Installer, "pixi wrote no `pixi.lock`"))?;
        let answers = machines.iter().map(|machine| self.answer(&current, machine));
        let answers: Vec<Answer> = answers.collect::<Result<_, _>>()?;
        if refuses(&answers) {
            return Ok(answers);
        }
        let targets = machines.iter().zip(&answers).map(|(machine, answer)| Target {
            name: machine.name.clone(),
            host: machine.seen.clone(),
            ..answer.judged.target.clone()
        });
        let (digest, date) = (self.registry.digest(), &self.registry.meta().date);
        let lock = Lockfile::new(self.request, digest, date, targets.collect());
        owned::write_lock(
            self.project,
            &lock.with_packages_in(current.state, &std::collections::BTreeSet::new()),
        )?;
        Ok(answers)
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
            (self.printer.no_progress, "--no-progress"),
            (self.printer.quiet || self.printer.json, "--quiet"),
        ];
        let options = given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option.to_owned());
        let path = [owner::path_outside(self.project)];
        match owner::start(pixi, &options.collect::<Vec<_>>(), self.project, &path, self.printer)? {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Installer,
                "`pixi lock` does not lock the project for these machines",
            )
            .hint("what pixi says above names the packages; the files are as they were")),
        }
    }

    /// What pixi locked for a machine, judged for it.
    fn answer(&self, current: &Current, machine: &Machine) -> Result<Answer, Failure> {
        let platform = machine.host.system.platform;
        let environments = current.lock.environments(platform, None);
        let own = format!("default ({})", machine.name);
        let named = |name: &str| environments.iter().find(|environment| environment.name == name);
        let environment: &Environment =
            named(&own).or(named("default")).or(environments.first()).ok_or_else(|| {
                Failure::input(format!("`pixi.lock` has no environment for {platform}"))
                    .hint("name the platform in `platforms` under `[workspace]`")
            })?;
        let judged = judge(environment, platform, self.registry);
        let area = verify::foreign_host(&judged, &machine.host, false);
        Ok(Answer { judged, area })
    }

    fn refuse(&self, machines: &[Machine], answers: &[Answer]) -> u8 {
        let findings = || answers.iter().flat_map(|answer| &answer.area.findings);
        if self.printer.json {
            let findings: Vec<_> = findings().collect();
            self.printer.json(&serde_json::json!({ "status": "conflict", "findings": findings }));
            return exit::NO;
        }
        self.printer
            .error("what pixi locks does not run on these machines; the files are as they were", None);
        for (machine, answer) in machines.iter().zip(answers) {
            self.tell_machine(machine, answer);
        }
        exit::NO
    }

    fn tell_machine(&self, machine: &Machine, answer: &Answer) {
        let printer = self.printer;
        let line = report::host_line(&machine.host, self.registry);
        printer.out(&format!("{}{}", label(printer, &machine.name), wrap(&line, 15)));
        for finding in answer.area.findings.iter().filter(|finding| finding.severity >= Severity::Info) {
            printer.out(&format!("{}{}", " ".repeat(15), wrap(&finding.message, 15)));
        }
    }

    fn tell(&self, machines: &[Machine], answers: &[Answer], written: &[String], start: Instant) {
        let printer = self.printer;
        if printer.json {
            let targets: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
            return printer.json(&serde_json::json!({ "status": "solved", "targets": targets }));
        }
        printer.out(&format!("locked by pixi, and judged, in {:.1} s", start.elapsed().as_secs_f64()));
        printer.out("");
        for (machine, answer) in machines.iter().zip(answers) {
            self.tell_machine(machine, answer);
            let conda = answer.judged.conda.iter().filter(|record| record.is_package()).count();
            let packages = answer.judged.target.packages.len();
            printer.out(&format!("{}{conda} conda packages, {packages} of PyPI", " ".repeat(15)));
        }
        printer.out("");
        printer.out(&format!("{}{}", label(printer, "wrote"), wrap(&written.join(", "), 15)));
        printer.out(&format!("{}{}", label(printer, "next"), printer.command("envlock sync")));
    }
}
