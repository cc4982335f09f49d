//! `envlock verify`: reads the environment, checks it and, if there are no errors, runs the smoke test.

mod foreign;
mod formats;
mod here;
mod hosts;
mod output;
mod place;
mod report;
mod smoke;
mod stale;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cli::args::{GlobalArgs, Only, PartArgs, SmokeChoice, Unknown, VerifyArgs, VerifyFormat};
use crate::cli::clock;
use crate::cli::error::{CliError, Failure};
use crate::cli::exit;
use crate::cli::lock::AnyLock;
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::{files, host, lock, owner};
use crate::compatibility::is_cuda;
use crate::foreign::{ForeignLock, other_builds};
use crate::inspect::{self, Environment, NoEnvironment, Rooted};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::fix::Fix;
use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::installed::Installed;
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::owner::Owner;
use crate::model::part::Part;
use crate::model::text::{clean, shell_word};
use crate::model::version::DottedVersion;
use crate::probe::conda::CondaClient;
use crate::registry::Registry;
use crate::verify::findings::{self, WrongPlatform};
use crate::verify::{self, Area, AreaKind};

pub(super) use hosts::{Candidates, best_on, has_other_libc, impossible, needed_driver};
pub(super) use output::two_formats;
pub(super) use place::Place;
pub(super) use report::{findings, verdict_word};
pub(super) use stale::{Stale, report_of_error, report_of_lock};

pub(super) fn run(global: &GlobalArgs, args: &VerifyArgs, printer: &Printer) -> Result<u8, CliError> {
    of_read(global, args, None, printer)
}

/// `verify` of an environment that was just read, with the sizes of its files.
pub(super) fn of_read(
    global: &GlobalArgs,
    args: &VerifyArgs,
    read: Option<&Installed>,
    printer: &Printer,
) -> Result<u8, CliError> {
    let result = check(global, args, read, printer);
    // With `--json` the caller prints it.
    if let Err(error) = &result
        && !printer.json
        && let Some(text) =
            formats::of_error(args.format, error, &files::folder_of(global), (formats::VERIFY, printer))
    {
        // Who reads the report reads nothing else. What cannot be written either is said with the error.
        let _ = output::put(&text, args, printer);
    }
    match (result, args.unknown) {
        (Ok(exit::NOT_KNOWN), Unknown::Ok) => Ok(exit::YES),
        (Err(error), Unknown::Ok) if error.exit == exit::NOT_KNOWN => {
            error.print(printer);
            Ok(exit::YES)
        }
        (result, _) => result,
    }
}

/// Refuses options that contradict each other.
fn refuse_contradictions(args: &VerifyArgs) -> Result<(), CliError> {
    if args.root.is_some() {
        let other = match args.smoke {
            _ if args.only == Some(Only::Machine) => "--only machine",
            _ if args.host == Some(None) => "--host without a value",
            SmokeChoice::Cpu | SmokeChoice::Cuda => "--smoke",
            _ => return Ok(()),
        };
        return Err(CliError::usage(format!("`--root` contradicts `{other}`"))
            .hint("`--root DIR` reads the environment in DIR, runs nothing, and judges it for this machine or `--host FILE`"));
    }
    let (only, option) = match args.only {
        Some(Only::Machine) if args.described().is_some() => {
            return Err(CliError::usage(
                "`--only machine` looks at this machine: the state of a described one is unknown",
            )
            .hint("without `--only machine`, `--host FILE` judges the lock for the described machine"));
        }
        Some(Only::Machine) if args.prefix.is_some() => ("machine", "--prefix"),
        Some(Only::Machine) if args.lock.is_some() => ("machine", "--lock"),
        Some(Only::Machine) if args.target.is_some() => ("machine", "--target"),
        Some(Only::Machine) if args.deep => ("machine", "--deep"),
        Some(Only::Machine) if args.exact => ("machine", "--exact"),
        Some(Only::Machine) if !args.parts.is_empty() => ("machine", "--extra or --group"),
        Some(Only::Environment) if args.host.is_some() => ("environment", "--host"),
        Some(Only::Environment) if args.require_gpu => ("environment", "--require-gpu"),
        Some(Only::Environment) if args.smoke == SmokeChoice::Cuda => ("environment", "--smoke cuda"),
        _ => return Ok(()),
    };
    Err(CliError::usage(format!("`--only {only}` contradicts `{option}`")).hint("remove one of them"))
}

fn check(
    global: &GlobalArgs,
    args: &VerifyArgs,
    read: Option<&Installed>,
    printer: &Printer,
) -> Result<u8, CliError> {
    refuse_contradictions(args)?;
    let format = output::format(args, printer)?;
    let start = Instant::now();
    if args.only == Some(Only::Machine) {
        // Whatever the folder's project says.
        return here::soundness(args, printer);
    }
    let project = Project::find(global, true)?;
    let registry = settings::registry(global)?;
    let lock = match &args.lock {
        Some(path) => Some(lock::read_any(path)?),
        None => lock::read(&project)?.map(AnyLock::Own),
    };
    let stale = match (&lock, &args.lock) {
        (Some(AnyLock::Own(lock)), None) => lock::staleness(&project, lock, &registry),
        _ => None,
    };
    // Of an environment it is one of the findings.
    let judges_environment = !args.asks_this_machine()
        && (args.described().is_none() || args.prefix.is_some() || args.root.is_some());
    if let Some(first) = stale.as_ref().filter(|_| !judges_environment) {
        printer.warning(&lock::stale_text(first));
    }
    if let (Some(AnyLock::Own(own)), None, false) = (&lock, &args.lock, judges_environment)
        && let Some(held) = owner::held(&project, own)?
        && own.packages_in.as_ref() != Some(&held.state)
    {
        let others = own.targets.iter().flat_map(|target| other_builds(&held.lock, target, &registry));
        let first = others.into_iter().next();
        printer.warning(&findings::package_lock_changed(held.state.owner, first.as_ref()).message);
    }
    let lock = match lock {
        Some(AnyLock::Own(lock)) => Some(AnyLock::Own(lock::as_installed(lock, &args.parts)?)),
        None if !args.parts.is_empty() => return Err(lock::missing()),
        _ if !args.parts.is_empty() => {
            return Err(CliError::usage("`--extra` and `--group` select parts of an envlock.lock")
                .hint("of another tool's lock, `--target \"extra NAME\"` names an environment"));
        }
        other => other,
    };
    if args.asks_this_machine() {
        let name =
            args.lock.as_ref().map_or(files::LOCK.to_owned(), |path| clean(&path.display().to_string(), 200));
        let lock = lock.as_ref().ok_or_else(|| {
            lock::missing().hint("`--only machine` asks whether this machine is sound, without a lock")
        })?;
        return here::judge((lock, &name), &ignored(&project), &registry, args, printer);
    }
    if let (Some(path), None, None) = (args.described(), &args.prefix, &args.root) {
        let candidates = match lock.as_ref().ok_or_else(lock::missing)? {
            AnyLock::Own(lock) => hosts::Candidates::of_own(lock, args)?,
            AnyLock::Foreign(lock) => hosts::Candidates::Foreign(lock, args.target.as_deref()),
        };
        return hosts::judge(path, &candidates, &ignored(&project), &registry, args, printer);
    }
    let tree = args.root.as_deref().map(rooted).transpose()?;
    let place = match &tree {
        Some(tree) => Place::rooted(tree, BTreeMap::new(), PathBuf::from("/")),
        None => Place::here(),
    };
    let environment = match &args.root {
        Some(root) => {
            let shown = clean(&root.display().to_string(), 200);
            place.environment(args.prefix.as_deref(), &shown)?
        }
        None => environment(args.prefix.as_deref(), global)?,
    };
    let question = Question {
        place: &place,
        prefix: &environment.prefix,
        read,
        host: args.described(),
        target: args.target.as_deref(),
        deep: args.deep,
        require_gpu: args.require_gpu,
        parts: Some(&args.parts),
        without_machine: args.only == Some(Only::Environment),
    };
    let against = match (&lock, &args.lock) {
        (Some(AnyLock::Own(lock)), _) => Against::Lock(lock),
        (Some(AnyLock::Foreign(lock)), Some(path)) => Against::Foreign(lock, path),
        _ => Against::Nothing,
    };
    let mut judged = judge(&question, &project, against, &registry)?;
    if let (Some(first), Some(area)) =
        (stale, judged.areas.iter_mut().find(|area| area.kind == AreaKind::Packages))
    {
        area.findings.insert(0, findings::stale_lock(&first, None, false));
    }
    if args.exact {
        let is_own = matches!(against, Against::Lock(_)) && judged.installed.is_environment;
        let prefix = shell_word(judged.installed.prefix.trim_end_matches('/'));
        let fix = format!("envlock sync --prefix {prefix}{} --exact", question.options());
        verify::exactly(&mut judged.areas, is_own.then_some(&fix));
    }
    judged.fixes_of_project(printer);
    if args.only == Some(Only::Environment) {
        judged.areas.retain(|area| ![AreaKind::Host, AreaKind::GpuCode].contains(&area.kind));
    }
    let static_ms = start.elapsed().as_millis();
    // A smoke test with wrong files would prove nothing.
    let has_framework = !verify::smoke::frameworks(&judged.installed).is_empty();
    let wanted = match args.smoke {
        SmokeChoice::Off => false,
        // Nothing can be run for a described machine, and nothing runs in an environment that nobody named or activated.
        SmokeChoice::Auto => {
            has_framework && args.described().is_none() && args.root.is_none() && environment.is_explicit()
        }
        SmokeChoice::Cpu | SmokeChoice::Cuda => true,
    };
    let run_it = wanted && !judged.has_errors();
    let smoke = match args.only {
        Some(_) if args.smoke == SmokeChoice::Auto => SmokeChoice::Cpu,
        _ => args.smoke,
    };
    let outcome = run_it.then(|| smoke::run(&environment.prefix, &judged, smoke, printer));
    // Without a framework there may have been nothing to run, which is no success.
    let outcome = outcome.filter(|outcome| !outcome.checks.is_empty() || !outcome.passed());
    if let Some(outcome) = &outcome {
        judged.areas.push(verify::smoke::check(outcome, judged.locked_cudnn.as_ref()));
    }
    let report = report::Report { judged: &judged, outcome: outcome.as_ref(), args, printer };
    let verdict = if judged.has_errors() { verify::Verdict::Differs } else { verify::Verdict::Ok };
    let answer = formats::Answer { node: None, verdict, areas: &judged.areas };
    let put = |text: &str| output::put(text, args, printer);
    match format {
        VerifyFormat::Text => report.text(&environment, start, static_ms),
        VerifyFormat::Json => output::put_json(&report.json(), args, printer)?,
        VerifyFormat::Github => put(&formats::github(&judged.areas, |_| None))?,
        VerifyFormat::Junit => put(&formats::junit(&judged.areas, formats::VERIFY))?,
        VerifyFormat::Sarif => {
            let lock = files::lock_in_repository(&project.folder);
            put(&formats::sarif(&judged.areas, |_| lock.clone()))?
        }
        VerifyFormat::Line => put(&formats::line(&answer))?,
        VerifyFormat::Prometheus => {
            let prefix = environment.prefix.display().to_string();
            let labels = [("question", "environment"), ("prefix", prefix.as_str())];
            put(&formats::prometheus(&[answer], &labels, clock::now().seconds()))?;
        }
    }
    Ok(if judged.has_errors() { exit::NO } else { exit::YES })
}

/// The root file system in a folder.
///
/// # Errors
/// When it cannot be read.
pub(super) fn rooted(root: &Path) -> Result<Rooted, CliError> {
    Rooted::new(root)
        .map_err(|why| CliError::input(format!("`{}`: {why}", clean(&root.display().to_string(), 200))))
}

/// What to check.
pub(super) struct Question<'q> {
    /// The file system that the environment lies in.
    pub place: &'q Place<'q>,
    pub prefix: &'q Path,
    /// What was just read of the environment, with the sizes of its files.
    pub read: Option<&'q Installed>,
    /// A host file that describes another machine than this one.
    pub host: Option<&'q Path>,
    pub target: Option<&'q str>,
    /// Every file is hashed.
    pub deep: bool,
    pub require_gpu: bool,
    /// The extras and groups that must be installed of what another tool holds.
    pub parts: Option<&'q PartArgs>,
    /// Driver and GPUs play no part.
    pub without_machine: bool,
}

impl Question<'_> {
    /// The target and the parts as options of a command about the same.
    fn options(&self) -> String {
        let target = self.target.map(|name| format!(" --target {}", shell_word(name))).unwrap_or_default();
        format!("{target}{}", self.parts.map(PartArgs::options).unwrap_or_default())
    }
}

/// What an environment and a machine are held against.
#[derive(Clone, Copy)]
pub(super) enum Against<'l> {
    /// Only against each other.
    Nothing,
    Lock(&'l Lockfile),
    /// Another tool's lock, with its path.
    Foreign(&'l ForeignLock, &'l Path),
}

impl<'l> From<Option<&'l Lockfile>> for Against<'l> {
    fn from(lock: Option<&'l Lockfile>) -> Against<'l> {
        lock.map_or(Against::Nothing, Against::Lock)
    }
}

/// What was read from an environment and a machine, and the findings, without running anything.
pub(super) struct Judged {
    pub installed: Installed,
    pub native: Native,
    pub machine: Host,
    pub areas: Vec<Area>,
    /// The cuDNN version that torch is locked with.
    pub locked_cudnn: Option<DottedVersion>,
    /// The packages with GPU code of the locked frameworks other than torch.
    pub locked_frameworks: Vec<String>,
    /// The value of `CUDA_VISIBLE_DEVICES` that shows programs the GPUs that were checked; `None` if all were.
    pub visible: Option<String>,
    /// Whether the machine has GPUs, but none is granted to this process or its container.
    pub given_no_gpu: bool,
    /// What the environment was checked against, for display.
    pub against: String,
}

impl Judged {
    pub fn has_errors(&self) -> bool {
        self.areas.iter().any(Area::has_errors)
    }

    /// Makes the commands of the findings those for the project that `--project` names.
    pub fn fixes_of_project(&mut self, printer: &Printer) {
        for found in self.areas.iter_mut().flat_map(|area| &mut area.findings) {
            if let Some(Fix::Command { command, .. }) = &mut found.fix {
                *command = printer.command(command);
            }
        }
    }
}

/// The environment that a command is about ([`Environment::choose`]).
///
/// # Errors
/// When none is named, active or beside the lock.
pub(super) fn environment(named: Option<&Path>, global: &GlobalArgs) -> Result<Environment, CliError> {
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
        CliError::new(Failure::Environment, none.to_string()).hint(hint)
    })?;
    if !chosen.is_explicit() {
        // Its Python may be run: nobody else may have put it there.
        files::check_owner(&chosen.prefix)?;
    }
    Ok(chosen)
}

fn ignored(project: &Project) -> Vec<String> {
    project.manifest.as_ref().map(|m| m.request.ignored_gpus.clone()).unwrap_or_default()
}

/// Checks an environment and a machine against the lock, or against each other, without running anything.
///
/// # Errors
/// When the environment or the host file cannot be read.
pub(super) fn judge(
    question: &Question<'_>,
    project: &Project,
    lock: Against<'_>,
    registry: &Registry,
) -> Result<Judged, CliError> {
    let ignored = ignored(project);
    let seen = match question.host {
        Some(path) => host::read_host_file(path)?,
        None if question.without_machine => host::bare(),
        None => host::seen(),
    };
    let place = question.place;
    let is_here = question.host.is_none() && !question.without_machine && place.is_here();
    let all_gpus = seen.gpus.as_ref().map_or(0, Vec::len);
    let mut machine = host::without(seen, &ignored, registry)?;
    let platform = machine.system.platform;
    if !place.is_here() {
        // Its programs run with its own C library.
        machine.system.libc = None;
        machine.system = place.system(question.prefix).unwrap_or(machine.system);
        if let Some(driver) = &mut machine.driver {
            driver.compat = None;
        }
    }
    let depth = if question.deep { inspect::Depth::Hashes } else { inspect::Depth::Sizes };
    let of_tree = || inspect::read(place.tree, question.prefix, depth);
    let read = question.read.filter(|_| !question.deep).cloned();
    let mut installed = read.map_or_else(of_tree, Ok).map_err(|error| match &error {
        inspect::PrefixError::NoFolder(_) if place.is_here() && !question.prefix.exists() => {
            let prefix = shell_word(&question.prefix.display().to_string());
            CliError::input(error.to_string()).hint(format!("`envlock sync --prefix {prefix}` makes it"))
        }
        _ => CliError::input(error.to_string()),
    })?;
    let variable = |name: &str| place.variable(name);
    installed.pytorch_index = settings::pytorch_index();
    let editable = || installed.editable_of(&project.folder).map(str::to_owned);
    installed.own_package = project.package().or_else(editable);
    if let Against::Lock(own) = lock {
        let overrides = lockfile::read_request(&own.request).unwrap_or_default().overrides;
        installed.overridden = overrides.iter().map(|user| user.requirement.name.to_string()).collect();
    }
    installed.visible = inspect::visible(place.tree, &installed, &place.root, &variable);
    let held = match lock {
        Against::Lock(own) => owner::held(project, own)?,
        _ => None,
    };
    let foreign = match (lock, &held) {
        (Against::Foreign(lock, path), _) => {
            Some(foreign::of(lock, path, question.target, &mut installed, &machine, registry)?)
        }
        (_, Some(held)) => {
            let mut judged = foreign::of(&held.lock, &held.path, None, &mut installed, &machine, registry)?;
            if held.state.owner == Owner::Uv {
                let (none, usual) = (PartArgs::default(), owner::default_groups(project));
                let parts = (question.parts.unwrap_or(&none), usual.as_slice());
                foreign::add_parts(&mut judged, &held.lock, parts, &installed, registry)?;
            }
            // The project itself may be left out (`sync --no-project`).
            let own = project.package();
            judged.target.packages.retain(|package| own.as_ref() != Some(&package.name));
            // `envlock sync` runs that command.
            installed.lock_command = None;
            Some(judged)
        }
        _ => None,
    };
    let target = match (lock, question.target) {
        (Against::Nothing, _) => None,
        (Against::Foreign(..), _) => foreign.as_ref().map(|judged| &judged.target),
        (Against::Lock(lock), Some(name)) => Some(lock::target(lock, Some(name))?),
        (Against::Lock(lock), None) => verify::installed_target(lock, &installed, question.require_gpu),
    };
    installed.sync_options = question.options();
    if let (Some(target), None) = (target, &foreign) {
        // `sync` would remove what is installed of a group that it is not asked for.
        for part in verify::installed_parts(target, &installed) {
            installed.sync_options.push_str(&option_of(&part));
        }
    }
    // The target that has the packages.
    let packages_of = foreign.as_ref().map(|judged| &judged.target).or(target);
    // Python imports from every folder of its path: a framework is judged wherever it lies.
    let is_framework = |name: &str| {
        verify::smoke::is_framework(name) || registry.framework_loads().iter().any(|row| row.package == name)
    };
    inspect::add_visible(place.tree, &mut installed, &is_framework, depth);
    let loads = inspect::Loads {
        frameworks: registry.framework_loads(),
        opened: registry.opened_by_name(),
        providers: registry.providers(),
    };
    let native = inspect::native(&installed, &place.surroundings(), &loads);
    // The libcuda that the loader finds decides, however it finds it: containers put cuda-compat into its cache.
    if (is_here || !place.is_here())
        && let Some(driver) = &mut machine.driver
        && let Some(release) = verify::driver_release(&native)
    {
        driver.compat = Some(release).filter(|release| *release > driver.version);
    }
    let machine = host::filled(machine, registry)?;
    let is_installed = |name: &str| installed.distributions.iter().any(|own| own.name == name);
    let stdlib: Vec<(&str, &[String])> = registry
        .stdlib_imports()
        .iter()
        .filter(|row| is_installed(&row.package))
        .map(|row| (row.package.as_str(), row.modules.as_slice()))
        .collect();
    let places = (place.root.as_path(), place.working_folder.as_path());
    let traces = inspect::traces(place.tree, &installed, &stdlib, places, &variable, depth);
    let client = CondaClient::in_use(&|name| variable(name).map(Into::into));
    let client = client.map_or("conda", CondaClient::name);
    let locked = target.map_or(&[] as &[_], |target| target.conda.as_slice());
    installed.conda = verify::conda_here(&traces, client, locked);
    let mut areas = match (&foreign, target) {
        (Some(judged), _) => {
            let elsewhere = |name: &str| match (lock, &held) {
                (Against::Foreign(lock, _), _) => lock.mentions(name),
                (_, Some(held)) => held.lock.mentions(name),
                _ => false,
            };
            verify::against_foreign(judged, &machine, &installed, &traces, &elsewhere, question.require_gpu)
        }
        (None, Some(target)) => {
            verify::against_lock(target, &machine, (&installed, &traces), registry, question.require_gpu)
        }
        (None, None) => verify::without_lock(registry, &machine, &installed, question.require_gpu),
    };
    if let (Some(held), Against::Lock(own), Some(target)) = (&held, lock, target) {
        verify::add_stack(&mut areas, target, &machine, registry, question.require_gpu);
        verify::add_changes(&mut areas, own, target, (&held.lock, &held.state), registry);
    }
    if let Some(packages) = areas.iter_mut().find(|area| area.kind == AreaKind::Packages) {
        let of_environment =
            place.tree.real(question.prefix).unwrap_or_else(|_| question.prefix.to_path_buf());
        for own in installed.distributions.iter().filter(|own| is_framework(&own.name)) {
            let folder = installed.site_of(own);
            if !place.tree.real(folder).is_ok_and(|real| real.starts_with(&of_environment))
                && !folder.starts_with(question.prefix)
            {
                let folder = crate::model::text::clean(&folder.display().to_string(), 200);
                packages.summary.push_str(&format!("; {} is imported from {folder}", own.name));
            }
        }
    }
    if !question.without_machine && machine.system.platform != platform {
        let wrong = WrongPlatform::Root(machine.system.platform, platform);
        let found = findings::wrong_platform(wrong);
        match areas.iter_mut().find(|area| area.kind == AreaKind::Host) {
            Some(area) => area.findings.push(found),
            None => areas.push(Area { findings: vec![found], ..Area::of(AreaKind::Host) }),
        }
    }
    areas.push(verify::install(&installed, &traces, registry, &|name| {
        packages_of.is_none_or(|target| target.package(name).is_some())
    }));
    // The state of a described machine is unknown.
    let state = is_here.then(host::state);
    let not_granted = machine.notes.iter().any(|note| matches!(note, HostNote::NoAccess { .. }));
    let given_no_gpu = not_granted || state.as_ref().is_some_and(MachineState::container_has_no_devices);
    // Without device files, the missing device files are reported instead of the driver library.
    let expect_driver_library = state.as_ref().is_some_and(MachineState::has_device_files);
    areas.extend(verify::native(&native, &installed, &machine, expect_driver_library, registry));
    if let Some(mut state) = state {
        if let Some(gpus) = &machine.gpus {
            // GPUs that the manifest ignores or that are hidden from programs are not checked.
            state.cards.retain(|card| gpus.iter().any(|gpu| gpu.index == card.index));
        }
        let needs_gpu = uses_cuda(target, &installed);
        areas.extend(verify::machine(&state, needs_gpu, question.require_gpu));
        // A target of the manifest is a kind of machines, of which none was looked at.
        let is_described = matches!(lock, Against::Lock(own) if lockfile::names_targets(&own.request));
        let seen = (!is_described).then_some(&machine);
        areas.extend(target.and_then(|target| verify::drift(target, seen, &native)));
    }
    if uses_cuda(target, &installed) {
        verify::add_notes(&mut areas, &machine);
    }
    areas.sort_by(|a, b| a.kind.cmp(&b.kind));
    let against = against(lock, target);
    let locked_cudnn = target.and_then(|target| target.stack.as_ref()?.cudnn.clone());
    let locked_frameworks = target.iter().flat_map(|t| &t.frameworks).map(|f| f.package.clone()).collect();
    // The smoke test must see exactly the GPUs that were checked.
    let left = machine.gpus.iter().flatten();
    let uuids: Option<Vec<String>> = left.map(|gpu| gpu.uuid.clone()).collect();
    let is_part = machine.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty() && gpus.len() < all_gpus);
    let visible = uuids.filter(|_| is_part).map(|uuids| uuids.join(","));
    Ok(Judged {
        installed,
        native,
        machine,
        areas,
        locked_cudnn,
        locked_frameworks,
        visible,
        given_no_gpu,
        against,
    })
}

/// An extra or a group as an option: ` --group dev`.
fn option_of(part: &Part) -> String {
    match part {
        Part::Extra(name) => format!(" --extra {}", shell_word(name)),
        Part::Group(name) => format!(" --group {}", shell_word(name)),
    }
}

/// Whether the locked packages use a GPU, or without a lock the installed ones.
fn uses_cuda(target: Option<&Target>, installed: &Installed) -> bool {
    match target {
        Some(target) => target.uses_cuda(),
        None => installed.distributions.iter().any(|d| {
            d.name.starts_with("jax-cuda")
                || d.name.starts_with("nvidia-cuda-runtime")
                || d.variant.as_deref().is_some_and(is_cuda)
        }),
    }
}

/// What the environment is checked against, for display.
fn against(lock: Against<'_>, target: Option<&Target>) -> String {
    match (lock, target) {
        (Against::Lock(lock), target) => {
            let several = lock.targets.len() > 1;
            let target = target.filter(|_| several).map(|target| format!(", target {}", target.name));
            let held = lock.packages_in.iter().map(|held| format!(" and {}", held.owner.file()));
            format!("lock envlock.lock{}{}", held.collect::<String>(), target.unwrap_or_default())
        }
        (Against::Foreign(_, path), Some(target)) => {
            format!("lock {} ({})", clean(&path.display().to_string(), 120), target.name)
        }
        (Against::Foreign(_, path), None) => format!("lock {}", clean(&path.display().to_string(), 120)),
        (Against::Nothing, _) => "no lock: checked for consistency and against this machine".to_owned(),
    }
}
