//! What `verify` and the commands that judge as it does read of an environment and a machine, and what they find.

pub(crate) mod candidates;
mod foreign;
mod judge;
mod place;
pub(crate) mod smoke;

use std::path::Path;

use super::failure::{Failure, FailureKind};
use super::options::Global;
use super::{files, owner};
use crate::inspect::{Environment, NoEnvironment, Rooted};
use crate::model::text::{clean, shell_word};

pub(crate) use candidates::{Candidates, best_on, has_other_libc, impossible, needed_driver};
pub(crate) use judge::{Against, Judged, Question, ignored, judge};
pub(crate) use place::Place;

/// The root file system in a folder.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn rooted(root: &Path) -> Result<Rooted, Failure> {
    Rooted::new(root)
        .map_err(|why| Failure::input(format!("`{}`: {why}", clean(&root.display().to_string(), 200))))
}

/// The environment that a command is about ([`Environment::choose`]).
///
/// # Errors
/// When none is named, active or beside the lock.
pub(crate) fn environment(named: Option<&Path>, global: &Global) -> Result<Environment, Failure> {
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
        Failure::new(FailureKind::Environment, none.to_string()).hint(hint)
    })?;
    if !chosen.is_explicit() {
        // Its Python may be run: nobody else may have put it there.
        files::check_owner(&chosen.prefix)?;
    }
    Ok(chosen)
}
