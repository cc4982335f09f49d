//! Reads what the checks of an environment need: the machine, what is installed, its libraries, how it was installed.

use super::place::Place;
use super::question::{Against, Question, ignored};
use crate::inspect;
use crate::model::host::Host;
use crate::model::installed::{Installed, Traces};
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::platform::Platform;
use crate::model::text::shell_word;
use crate::probe::conda_client::{self, CondaClient};
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::settings::{self, Project};
use crate::session::{chosen_host, owner, project_lock};
use crate::verify;

/// The machine that is asked about.
pub(super) struct Seen {
    /// Without the GPUs that the manifest ignores; for programs of another root, with the system of these.
    pub machine: Host,
    /// How many GPUs it has with those.
    pub all_gpus: usize,
    /// Its own platform.
    pub platform: Platform,
}

pub(super) fn seen(question: &Question<'_>, project: &Project, registry: &Registry) -> Result<Seen, Failure> {
    let seen = match question.host {
        Some(path) => chosen_host::read_host_file(path)?,
        None if question.without_machine => chosen_host::bare(),
        None => chosen_host::seen(),
    };
    let all_gpus = seen.gpus.as_ref().map_or(0, Vec::len);
    let mut machine = chosen_host::without(seen, &ignored(project), registry)?;
    let platform = machine.system.platform;
    if !question.place.is_here() {
        // Its programs run with its own C library.
        machine.system.libc = None;
        machine.system = question.place.system_or_stated(question.prefix).unwrap_or(machine.system);
        if let Some(driver) = &mut machine.driver {
            driver.compat = None;
        }
    }
    Ok(Seen { machine, all_gpus, platform })
}

/// What is installed, and what is known of it by the project.
pub(super) fn read(
    question: &Question<'_>,
    project: &Project,
    against: Against<'_>,
    depth: inspect::Depth,
) -> Result<Installed, Failure> {
    let place = question.place;
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
    installed.pytorch_index = settings::pytorch_index();
    let editable = || installed.editable_of(&project.folder).map(str::to_owned);
    installed.own_package = project.package().or_else(editable);
    if let Against::Lock(own) = against {
        installed.overridden = project_lock::overridden(own);
    }
    let variable = |name: &str| place.variable(name);
    installed.visible = inspect::visible(place.tree, &installed, &place.root, &variable);
    Ok(installed)
}

/// Whether a package is judged wherever it lies on Python's path, not only in the environment.
pub(super) fn is_framework(name: &str, registry: &Registry) -> bool {
    verify::smoke::is_framework(name) || registry.framework_loads().iter().any(|row| row.package == name)
}

/// The libraries of an environment. Python imports from every folder of its path: frameworks of others are added to what is
/// installed.
pub(super) fn libraries(
    question: &Question<'_>,
    installed: &mut Installed,
    registry: &Registry,
    depth: inspect::Depth,
) -> Native {
    inspect::add_visible(question.place.tree, installed, &|name| is_framework(name, registry), depth);
    let loads = inspect::Loads {
        frameworks: registry.framework_loads(),
        opened: registry.opened_by_name(),
        providers: registry.providers(),
        by_path: registry.files_by_path(),
    };
    inspect::native(installed, &question.place.surroundings(), &loads)
}

/// How an environment was installed.
pub(super) fn traces(
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
pub(super) fn conda_client(place: &Place<'_>) -> &'static str {
    let in_use = CondaClient::in_use(&|name| place.variable(name).map(Into::into)).map(CondaClient::name);
    in_use
        .or_else(|| owner::with_places(conda_client::program).map(|program| program.name))
        .unwrap_or("conda")
}

/// The state of this machine, without the GPUs that are not checked: those that the manifest ignores or that are hidden from
/// programs.
pub(super) fn state(machine: &Host) -> MachineState {
    let mut state = chosen_host::state();
    if let Some(gpus) = &machine.gpus {
        state.cards.retain(|card| gpus.iter().any(|gpu| gpu.index == card.index));
    }
    state
}
