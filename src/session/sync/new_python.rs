//! `--install-python`: the locked Python by uv, where none of its series is here.

use std::path::Path;

use crate::lockfile::Target;
use crate::model::patches::WantedPython;
use crate::model::wheel::Python;
use crate::probe::pythons;
use crate::session::Interface;
use crate::session::failure::{Failure, FailureKind};
use crate::session::installers;
use crate::session::owner::{self, with_places};
use crate::sync::env_allowlist::{self, EnvAllowlist};
use crate::sync::{Purpose, Step, Talk};

/// The command that installs the Python that a target is for; `None` if the environment at `prefix` has it, or one is found.
///
/// # Errors
/// When uv is not here.
pub(super) fn command(target: &Target, prefix: &Path, talk: Talk) -> Result<Option<Step>, Failure> {
    let wanted = target.wanted_python();
    let is_there = pythons::who(&pythons::interpreter(prefix)).is_some_and(|own| wanted.allows(own.version));
    if is_there || with_places(|places| pythons::python(places, wanted)).is_some() {
        return Ok(None);
    }
    let Some(uv) = with_places(pythons::uv) else {
        return Err(Failure::new(
            FailureKind::Installer,
            format!("Python {wanted} is installed by uv, which was not found here"),
        )
        .hint("install uv, for example with `pip install uv`"));
    };
    let mut words =
        vec![uv.display().to_string(), "python".to_owned(), "install".to_owned(), request(wanted)];
    let flags = [(talk.offline, "--offline"), (talk.quiet, "--quiet"), (talk.no_progress, "--no-progress")];
    words.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned()));
    Ok(Some(Step { purpose: Purpose::InstallPython, command: words }))
}

/// Installs the Python of a target.
///
/// # Errors
/// When uv cannot.
pub(super) fn install(step: &Step, interface: &dyn Interface) -> Result<(), Failure> {
    let mut command = installers::command(&step.command);
    let passing = EnvAllowlist { purpose: env_allowlist::Purpose::Install, builds: false, more: &[] };
    owner::restrict(&mut command, passing, interface);
    // A file of the project could name another place to load it from.
    command.env("UV_NO_CONFIG", "1");
    installers::run(command, step, "uv", interface)
}

/// What uv is asked for: `3.13`, or the patch releases that are allowed.
pub(super) fn request(wanted: WantedPython) -> String {
    let series = Python::new(wanted.python.minor);
    match wanted.patches.specifiers(series.minor) {
        None => wanted.python.to_string(),
        Some(patches) => format!("{patches},=={series}.*"),
    }
}
