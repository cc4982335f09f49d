//! How programs that install or build are started: with the variables that reach them, and without a question.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Interface;
use super::exit;
use super::failure::{Failure, FailureKind};
use super::{owner, scratch, settings, variables};
use crate::index::locate::Located;
use crate::model::text::shell_line;
use crate::sync::env_allowlist::EnvAllowlist;
use crate::sync::{Purpose, Step};

/// Gives a command of an installer the variables that reach it, the certificates and the address of the index `pypi`, and no
/// configuration file: such a file could redirect packages to another folder, and what they say of indexes was read already.
pub(super) fn isolate(
    command: &mut Command,
    passing: EnvAllowlist<'_>,
    pypi: Option<&Located>,
    interface: &dyn Interface,
) {
    owner::restrict(command, passing, interface);
    command
        .env("PIP_CONFIG_FILE", if cfg!(windows) { "nul" } else { "/dev/null" })
        .env("UV_NO_CONFIG", "1")
        .env("PIP_NO_INPUT", "1");
    if let Some(certificates) = settings::certificates().first() {
        command.env("PIP_CERT", certificates).env("SSL_CERT_FILE", certificates);
    } else if openssl_probe::probe().cert_file.is_some() {
        // uv trusts those that it brings, unless it is told to trust the system's, as envlock and pip do.
        for name in UV_TRUSTS_SYSTEM.iter().filter(|name| variables::raw(name).is_none()) {
            command.env(name, "1");
        }
    }
    if let Some(pypi) = pypi {
        // In variables, because other users can read a command line, and the URL may have a login.
        command.env("UV_DEFAULT_INDEX", &pypi.url).env("PIP_INDEX_URL", &pypi.url);
    }
}

/// uv's variables for the system's certificates, the newer one first. Source: uv's documentation, "Environment variables".
const UV_TRUSTS_SYSTEM: [&str; 2] = ["UV_SYSTEM_CERTS", "UV_NATIVE_TLS"];

/// A command that asks nothing and whose output is progress.
pub(super) fn command(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map(String::as_str).unwrap_or_default());
    command.args(words.iter().skip(1)).stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
    command
}

/// Runs a command of an installer, and says what failed.
pub(super) fn run(
    mut command: Command,
    step: &Step,
    name: &str,
    interface: &dyn Interface,
) -> Result<(), Failure> {
    let shown = shell_line(&step.command);
    if interface.is_verbose() {
        interface.note(&shown);
    }
    let failed =
        |why: String| Failure::new(FailureKind::Installer, why).hint(format!("the command was `{shown}`"));
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| {
        let failure = failed(format!("cannot start `{program}`: {error}"));
        match error.kind() == ErrorKind::PermissionDenied && scratch::has(Path::new(&program)) {
            true => failure.hint(scratch::INSTEAD),
            false => failure,
        }
    })?;
    if status.success() {
        return Ok(());
    }
    if let Some(signal) = exit::signal_of(status) {
        return Err(Failure::killed(&program, signal).hint(format!("the command was `{shown}`")));
    }
    Err(failed(match step.purpose {
        Purpose::InstallPython => format!("{name} could not install the locked Python"),
        Purpose::MakeEnvironment => "the environment could not be made".to_owned(),
        Purpose::Remove => {
            format!("{name} could not remove packages that are not locked, or that are installed again")
        }
        Purpose::Install | Purpose::InstallBuildRequirements => {
            format!("{name} could not install the packages")
        }
        Purpose::Build => format!("{name} could not build a package"),
        Purpose::InstallProject => format!("{name} could not install the project itself"),
    }))
}
