//! Holds an environment and a machine against a lock, or against each other, without running anything.

use std::path::Path;

use super::foreign;
use super::place::Place;
use crate::formats::ForeignLock;
use crate::inspect;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::installed::{Distribution, Installed};
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::nvidia::is_cuda_runtime;
use crate::model::owner::Owner;
use crate::model::text::{clean, shell_word};
use crate::model::variant::is_cuda;
use crate::model::version::DottedVersion;
use crate::probe::conda_client::{self, CondaClient};
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::options::Parts;
use crate::session::settings::{self, Project};
use crate::session::{chosen_host, lock, owner};
use crate::verify::findings::{self, WrongPlatform};
use crate::verify::{self, Area, AreaKind};

/// What to check.
pub(crate) struct Question<'q> {
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
    pub parts: Option<&'q Parts>,
    /// Driver and GPUs play no part.
    pub without_machine: bool,
}

impl Question<'_> {
    /// The target and the parts as options of a command about the same.
    pub fn options(&self) -> String {
        let target = self.target.map(|name| format!(" --target {}", shell_word(name))).unwrap_or_default();
        format!("{target}{}", self.parts.map(Parts::options).unwrap_or_default())
    }
}

/// What an environment and a machine are held against.
#[derive(Clone, Copy)]
pub(crate) enum Against<'l> {
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
pub(crate) struct Judged {
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
    /// Whether anything is wrong.
    pub fn has_errors(&self) -> bool {
        self.areas.iter().any(Area::has_errors)
    }
}

/// The GPUs that the manifest ignores.
pub(crate) fn ignored(project: &Project) -> Vec<String> {
    project.manifest.as_ref().map(|m| m.request.ignored_gpus.clone()).unwrap_or_default()
}

/// Checks an environment and a machine against the lock, or against each other, without running anything.
///
/// # Errors
/// When the environment or the host file cannot be read.
pub(crate) fn judge(
    question: &Question<'_>,
    project: &Project,
    lock: Against<'_>,
    registry: &Registry,
) -> Result<Judged, Failure> {
    let ignored = ignored(project);
    let seen = match question.host {
        Some(path) => chosen_host::read_host_file(path)?,
        None if question.without_machine => chosen_host::bare(),
        None => chosen_host::seen(),
    };
    let place = question.place;
    let is_here = question.host.is_none() && !question.without_machine && place.is_here();
    let all_gpus = seen.gpus.as_ref().map_or(0, Vec::len);
    let mut machine = chosen_host::without(seen, &ignored, registry)?;
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
            let options = question.options();
            Failure::input(error.to_string())
                .hint(format!("`envlock sync --prefix {prefix}{options}` makes it"))
        }
        _ => Failure::input(error.to_string()),
    })?;
    let variable = |name: &str| place.variable(name);
    installed.pytorch_index = settings::pytorch_index();
    let editable = || installed.editable_of(&project.folder).map(str::to_owned);
    installed.own_package = project.package().or_else(editable);
    if let Against::Lock(own) = lock {
        let overrides = lockfile::read_request(&own.request).unwrap_or_default().overrides;
        installed.overridden = overrides.iter().map(|user| user.name().to_owned()).collect();
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
                let (none, usual) = (Parts::default(), owner::default_groups(project));
                let parts = (question.parts.unwrap_or(&none), &usual);
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
        let parts = Parts::of(verify::installed_parts(target, &installed));
        installed.sync_options.push_str(&parts.options());
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
    let machine = chosen_host::filled(machine, registry)?;
    let is_installed = |name: &str| installed.distributions.iter().any(|own| own.name == name);
    let stdlib: Vec<(&str, &[String])> = registry
        .stdlib_imports()
        .iter()
        .filter(|row| is_installed(&row.package))
        .map(|row| (row.package.as_str(), row.modules.as_slice()))
        .collect();
    let places = (place.root.as_path(), place.working_folder.as_path());
    let traces = inspect::traces(place.tree, &installed, &stdlib, places, &variable, depth);
    let in_use = CondaClient::in_use(&|name| variable(name).map(Into::into)).map(CondaClient::name);
    let client = in_use.or_else(|| owner::with_places(conda_client::program).map(|program| program.name));
    let client = client.unwrap_or("conda");
    let locked = match (&foreign, target) {
        (Some(judged), _) => verify::locked_records(judged),
        (None, Some(target)) => verify::locked_packages(&target.conda),
        (None, None) => Vec::new(),
    };
    installed.conda = verify::conda_here(&traces, client, &locked);
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
        let frameworks = installed.distributions.iter().filter(|own| is_framework(&own.name));
        let elsewhere = frameworks.filter_map(|own| imported_from(own, &installed, question));
        packages.summary.extend(elsewhere.map(|from| format!("; {from}")));
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
    verify::add_conda_files(&mut areas, &traces);
    // The state of a described machine is unknown.
    let state = is_here.then(chosen_host::state);
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
    verify::what_follows(&mut areas);
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

/// Where a distribution that lies outside the environment is imported from, for display.
fn imported_from(own: &Distribution, installed: &Installed, question: &Question<'_>) -> Option<String> {
    let prefix = question.prefix;
    let folder = installed.site_of(own);
    let tree = question.place.tree;
    let of_environment = tree.real(prefix).unwrap_or_else(|_| prefix.to_path_buf());
    let is_inside =
        folder.starts_with(prefix) || tree.real(folder).is_ok_and(|real| real.starts_with(&of_environment));
    let shown = || clean(&folder.display().to_string(), 200);
    (!is_inside).then(|| format!("{} is imported from {}", own.name, shown()))
}

/// Whether the locked packages use a GPU, or without a lock the installed ones.
fn uses_cuda(target: Option<&Target>, installed: &Installed) -> bool {
    match target {
        Some(target) => target.uses_cuda(),
        None => installed.distributions.iter().any(|d| {
            d.name.starts_with("jax-cuda")
                || is_cuda_runtime(&d.name)
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
