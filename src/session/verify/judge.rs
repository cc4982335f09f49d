//! Holds an environment and a machine against a lock, or against each other, without running anything.

use std::collections::BTreeSet;

use super::foreign;
use super::gather;
use super::question::{Against, Question};
use crate::formats::{OtherBuild, other_builds};
use crate::inspect;
use crate::lockfile::{self, Target};
use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::installed::{Distribution, Installed, Traces};
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::owner::Owner;
use crate::model::text::{clean, shell_word};
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::options::Parts;
use crate::session::owner::Current;
use crate::session::settings::Project;
use crate::session::{chosen_host, owner, project_lock};
use crate::verify::{self, Area, Contents, Demands, Facts, LockFacts, Locked};

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
    let place = question.place;
    let is_here = question.host.is_none() && !question.without_machine && place.is_here();
    let depth = if question.deep { inspect::Depth::Hashes } else { inspect::Depth::Sizes };
    let gather::Seen { mut machine, all_gpus, platform } = gather::seen(question, project, registry)?;
    let mut installed = gather::read(question, project, lock, depth)?;
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
        (Against::Lock(lock), Some(name)) => Some(project_lock::target(lock, Some(name))?),
        (Against::Lock(lock), None) => verify::installed_target(lock, &installed, question.require_gpu),
    };
    installed.sync_options = question.options();
    if let (Some(target), None) = (target, &of_tool) {
        // `sync` would remove what is installed of a group that it is not asked for.
        let parts = Parts::of(verify::installed_parts(target, &installed));
        installed.sync_options.push_str(&parts.options());
    }
    let native = gather::libraries(question, &mut installed, registry, depth);
    // The libcuda that the loader finds decides, however it finds it: containers put cuda-compat into its cache.
    if (is_here || !place.is_here())
        && let Some(driver) = &mut machine.driver
        && let Some(release) = verify::driver_release(&native)
    {
        driver.compat = Some(release).filter(|release| *release > driver.version);
    }
    let machine = chosen_host::filled(machine, registry)?;
    let own = target.map(|target| Locked::own(target, registry).replacing(installed.overridden.clone()));
    // The machine is held against the stack that was chosen; without one, what is locked of an extra is judged.
    let chosen = own.as_ref().filter(|own| of_tool.is_none() || own.target.has_framework());
    let packages = of_tool.as_ref().or(own.as_ref());
    let traces = gather::traces(question, &installed, registry, depth);
    let pins = packages.map(Locked::conda_pins).unwrap_or_default();
    installed.conda = verify::conda_here(&traces, gather::conda_client(place), &pins);
    let outside = outside(&installed, question, registry);
    let lock_facts = LockFacts {
        python: target.map(Target::wanted_python),
        mentions: mentioned(lock, held.as_ref(), &installed, &traces),
        stale: question.stale.map(str::to_owned),
        changed: held.as_ref().and_then(|held| changed(lock, held, target?, registry)),
    };
    // The state of a described machine is unknown.
    let state = is_here.then(|| gather::state(&machine));
    let is_own = matches!(lock, Against::Lock(_)) && installed.is_environment;
    let remove = is_own.then(|| removal(&installed.prefix, question));
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
        role: verify::MachineRole {
            of_root: (!place.is_here()).then_some(platform),
            is_here,
            // A target of the manifest is a kind of machines, of which none was looked at.
            is_described: matches!(lock, Against::Lock(own) if lockfile::names_targets(&own.request)),
        },
        demands: Demands { gpu: question.require_gpu, exact: question.exact.then_some(remove.as_deref()) },
    });
    let not_granted = machine.notes.iter().any(|note| matches!(note, HostNote::NoAccess { .. }));
    let given_no_gpu = not_granted || state.as_ref().is_some_and(MachineState::container_has_no_devices);
    let against = against(lock, target.or(of_tool.as_ref().map(|locked| &*locked.target)));
    let of_stack = chosen.or(packages).map(|locked| &locked.target);
    let locked_cudnn = of_stack.and_then(|target| target.stack.as_ref()?.cudnn.clone());
    let locked_frameworks = of_stack.iter().flat_map(|t| &t.frameworks).map(|f| f.package.clone()).collect();
    Ok(Judged {
        installed,
        native,
        areas,
        visible: visible(&machine, all_gpus),
        machine,
        locked_cudnn,
        locked_frameworks,
        given_no_gpu,
        against,
    })
}

/// The command that removes what is not locked.
fn removal(prefix: &str, question: &Question<'_>) -> String {
    let prefix = shell_word(prefix.trim_end_matches('/'));
    format!("envlock sync --prefix {prefix}{} --exact", question.options())
}

/// The value of `CUDA_VISIBLE_DEVICES` with which the smoke test sees exactly the GPUs that were checked; `None` if that is all.
fn visible(machine: &Host, all_gpus: usize) -> Option<String> {
    let left = machine.gpus.as_ref().filter(|gpus| !gpus.is_empty() && gpus.len() < all_gpus)?;
    let uuids: Option<Vec<String>> = left.iter().map(|gpu| gpu.uuid.clone()).collect();
    uuids.map(|uuids| uuids.join(","))
}

/// That the tool that holds the packages has locked others than those that the stack was chosen for.
fn changed(
    lock: Against<'_>,
    held: &Current,
    target: &Target,
    registry: &Registry,
) -> Option<(Owner, Option<OtherBuild>)> {
    let Against::Lock(own) = lock else { return None };
    (own.packages_in.as_ref() != Some(&held.state)).then(|| {
        let others = other_builds(&held.lock, target, registry);
        (held.state.owner, others.into_iter().next())
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

/// The installed packages that another tool's lock has in any of its environments.
fn mentioned(
    lock: Against<'_>,
    held: Option<&Current>,
    installed: &Installed,
    traces: &Traces,
) -> BTreeSet<String> {
    let lock = match (lock, held) {
        (Against::Foreign(lock, _), _) => lock,
        (_, Some(held)) => &held.lock,
        _ => return BTreeSet::new(),
    };
    let own = installed.distributions.iter().map(|own| &own.name);
    let all = own.chain(installed.eggs.iter().map(|egg| &egg.name));
    let all = all.chain(traces.conda.iter().map(|own| &own.name));
    all.filter(|name| lock.mentions(name)).cloned().collect()
}

/// Where the frameworks that lie outside the environment are imported from, one sentence each.
fn outside(installed: &Installed, question: &Question<'_>, registry: &Registry) -> Vec<String> {
    let frameworks = installed.distributions.iter().filter(|own| gather::is_framework(&own.name, registry));
    frameworks.filter_map(|own| imported_from(own, installed, question)).collect()
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
