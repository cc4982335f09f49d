//! Which program installs: uv if it is there, else pip.

use super::target_environment::ChosenEnvironment;
use crate::model::installed::Distribution;
use crate::probe::pythons;
use crate::session::failure::{Failure, FailureKind};
use crate::session::owner::with_places;
use crate::sync::Installer;

/// The installer for an environment.
pub(super) fn choose(found: &ChosenEnvironment) -> Result<Installer, Failure> {
    if let Some(uv) = with_places(pythons::uv) {
        return Ok(Installer::Uv(uv));
    }
    let words = |python: &std::path::Path| {
        // Isolated: neither PYTHONPATH nor the user's site-packages decide what is installed already.
        let start = python.to_string_lossy().into_owned();
        [start, "-I".to_owned(), "-m".to_owned(), "pip".to_owned()].to_vec()
    };
    let own = found.installed.iter().flat_map(|i| &i.distributions).find(|own| own.name == "pip");
    if let Some(own) = own {
        return Ok(Installer::Pip(words(&found.place.python), series(own)));
    }
    // A new environment gets the pip that its Python brings, or that conda installs.
    if found.place.make.is_some() || found.installed.is_none() && found.is_ours {
        return Ok(Installer::Pip(words(&found.place.python), None));
    }
    match with_places(pythons::pip) {
        Some((python, version)) => {
            let mut command = words(&python);
            command.extend(["--python".to_owned(), found.place.python.to_string_lossy().into_owned()]);
            Ok(Installer::Pip(command, Some(version)))
        }
        None => Err(Failure::new(FailureKind::Installer, "neither uv nor pip was found")
            .hint("install uv: `pip install uv`, or https://docs.astral.sh/uv")),
    }
}

/// The first two numbers of a version.
fn series(pip: &Distribution) -> Option<(u32, u32)> {
    let release = pip.version.valid()?.release().to_vec();
    let part = |i: usize| release.get(i).and_then(|n| u32::try_from(*n).ok()).unwrap_or(0);
    Some((part(0), part(1)))
}
