//! Holds an environment and a machine against a lock, or against each other, without running anything.

use std::collections::BTreeSet;
use std::path::Path;

use super::foreign;
use super::place::Place;
use crate::formats::{ForeignLock, other_builds};
use crate::inspect;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::installed::{Distribution, Installed, Traces};
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::owner::Owner;
use crate::model::text::{clean, shell_word};
use crate::model::version::DottedVersion;
use crate::probe::conda_client::{self, CondaClient};
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::options::Parts;
use crate::session::owner::Current;
use crate::session::settings::{self, Project};
use crate::session::{chosen_host, lock, owner};
use crate::verify::{self, Area, Contents, Demands, Facts, LockFacts, Locked};

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
    /// A package that is not locked is an error.
    pub exact: bool,
    /// Why the lock is not that of the manifest.
    pub stale: Option<&'q str>,
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
    let of_tool = match (lock, &held) {
        (Against::Foreign(lock, path), _) => {
            Some(foreign::of(lock, path, question.target, &mut installed, &machine, registry)?)
        }
        (_, Some(held)) => {
            Some(of_held(held, project, question.parts, &mut installed, (&machine, registry))?)
        }
        _ => None,
    };
    let target = match (lock, question.target) {
        (Against::Nothing | Against::Foreign(..), _) => None,
        (Against::Lock(lock), Some(name)) => Some(lock::target(lock, Some(name))?),
        (Against::Lock(lock), None) => verify::installed_target(lock, &installed, question.require_gpu),
    };
    installed.sync_options = question.options();
    if let (Some(target), None) = (target, &of_tool) {
        // `sync` would remove what is installed of a group that it is not asked for.
        let parts = Parts::of(verify::installed_parts(target, &installed));
        installed.sync_options.push_str(&parts.options());
    }
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
    let own = target.map(|target| Locked::own(target, registry));
    // The machine is held against the stack that was chosen; without one, what is locked of an extra is judged.
    let chosen = own.as_ref().filter(|own| of_tool.is_none() || own.target.has_framework());
    let packages = of_tool.as_ref().or(own.as_ref());
    let traces = traces(question, &installed, registry, depth);
    let pins = packages.map(Locked::conda_pins).unwrap_or_default();
    installed.conda = verify::conda_here(&traces, conda_client(place), &pins);
    let frameworks = installed.distributions.iter().filter(|own| is_framework(&own.name));
    let outside: Vec<String> =
        frameworks.filter_map(|own| imported_from(own, &installed, question)).collect();
    let lock_facts = LockFacts {
        mentions: mentioned(lock, held.as_ref(), &installed),
        stale: question.stale.map(str::to_owned),
        changed: held.as_ref().zip(target).and_then(|(held, target)| match lock {
            Against::Lock(own) if own.packages_in.as_ref() != Some(&held.state) => {
                let others = other_builds(&held.lock, target, registry);
                Some((held.state.owner, others.into_iter().next()))
            }
            _ => None,
        }),
    };
    // The state of a described machine is unknown.
    let mut state = is_here.then(chosen_host::state);
    if let (Some(state), Some(gpus)) = (&mut state, &machine.gpus) {
        // GPUs that the manifest ignores or that are hidden from programs are not checked.
        state.cards.retain(|card| gpus.iter().any(|gpu| gpu.index == card.index));
    }
    let remove = match lock {
        Against::Lock(_) if installed.is_environment => {
            let prefix = shell_word(installed.prefix.trim_end_matches('/'));
            Some(format!("envlock sync --prefix {prefix}{} --exact", question.options()))
        }
        _ => None,
    };
    let areas = verify::judge(&Facts {
        registry,
        stack: chosen.or(packages),
        packages,
        lock: Some(&lock_facts),
        contents: Some(Contents {
            platform: machine.system.platform,
            installed: &installed,
            traces: &traces,
            native: &native,
            outside: &outside,
        }),
        image: None,
        machine: (!question.without_machine).then_some(&machine),
        state: state.as_ref(),
        place: verify::Place {
            of_root: (!place.is_here()).then_some(platform),
            is_here,
            // A target of the manifest is a kind of machines, of which none was looked at.
            is_described: matches!(lock, Against::Lock(own) if lockfile::names_targets(&own.request)),
        },
        demands: Demands { gpu: question.require_gpu, exact: question.exact.then_some(remove.as_deref()) },
    });
    let not_granted = machine.notes.iter().any(|note| matches!(note, HostNote::NoAccess { .. }));
    let given_no_gpu = not_granted || state.as_ref().is_some_and(MachineState::container_has_no_devices);
    let shown = target.or(of_tool.as_ref().map(|locked| &*locked.target));
    let against = against(lock, shown);
    let of_stack = chosen.or(packages).map(|locked| &locked.target);
    let locked_cudnn = of_stack.and_then(|target| target.stack.as_ref()?.cudnn.clone());
    let locked_frameworks = of_stack.iter().flat_map(|t| &t.frameworks).map(|f| f.package.clone()).collect();
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

/// What the lock of the tool that holds a project's packages has installed.
fn of_held(
    held: &Current,
    project: &Project,
    parts: Option<&Parts>,
    installed: &mut Installed,
    (machine, registry): (&Host, &Registry),
) -> Result<Locked<'static>, Failure> {
    let mut locked = foreign::of(&held.lock, &held.path, None, installed, machine, registry)?;
    if held.state.owner == Owner::Uv {
        let (none, usual) = (Parts::default(), owner::default_groups(project));
        let parts = (parts.unwrap_or(&none), &usual);
        foreign::add_parts(&mut locked, &held.lock, parts, installed, registry)?;
    }
    // The project itself may be left out (`sync --no-project`).
    let own = project.package();
    locked.target.to_mut().packages.retain(|package| own.as_ref() != Some(&package.name));
    // `envlock sync` runs that command.
    installed.lock_command = None;
    Ok(locked)
}

/// How an environment was installed.
fn traces(
    question: &Question<'_>,
    installed: &Installed,
    registry: &Registry,
    depth: inspect::Depth,
) -> Traces {
    let place = question.place;
    let is_installed = |name: &str| installed.distributions.iter().any(|own| own.name == name);
    let stdlib: Vec<(&str, &[String])> = registry
        .stdlib_imports()
        .iter()
        .filter(|row| is_installed(&row.package))
        .map(|row| (row.package.as_str(), row.modules.as_slice()))
        .collect();
    let places = (place.root.as_path(), place.working_folder.as_path());
    inspect::traces(place.tree, installed, &stdlib, places, &|name| place.variable(name), depth)
}

/// The program of the conda client that repairs an environment.
fn conda_client(place: &Place<'_>) -> &'static str {
    let in_use = CondaClient::in_use(&|name| place.variable(name).map(Into::into)).map(CondaClient::name);
    in_use
        .or_else(|| owner::with_places(conda_client::program).map(|program| program.name))
        .unwrap_or("conda")
}

/// The installed packages that another tool's lock has in any of its environments.
fn mentioned(lock: Against<'_>, held: Option<&Current>, installed: &Installed) -> BTreeSet<String> {
    let lock = match (lock, held) {
        (Against::Foreign(lock, _), _) => lock,
        (_, Some(held)) => &held.lock,
        _ => return BTreeSet::new(),
    };
    let own = installed.distributions.iter().map(|own| &own.name);
    let all = own.chain(installed.eggs.iter().map(|egg| &egg.name));
    all.filter(|name| lock.mentions(name)).cloned().collect()
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
