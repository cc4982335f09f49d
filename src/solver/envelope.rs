//! The envelope (minimum host requirements) of a selection.

use super::node::{Node, Selected};
use super::problem::Problem;
use crate::compatibility::{both, envelope_of, envelope_of_framework};
use crate::model::platform::Os;
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;

/// The envelope of the selected torch build and of other frameworks, if any.
pub(super) fn of_selection(
    problem: &Problem<'_>,
    selected: &Selected,
    glibc: Option<DottedVersion>,
) -> Envelope {
    let torch =
        selected.get(&Node::build("torch")).and_then(|i| problem.stack["torch"].builds[*i as usize].torch);
    let torch = torch.filter(|build| build.cuda.is_some()).map(|build| envelope_of(problem.registry, build));
    let frameworks = selected.iter().filter_map(|(node, row)| match node {
        Node::Runtime(_) => {
            Some(envelope_of_framework(problem.registry, problem.runtimes[*row as usize].build))
        }
        _ => None,
    });
    let nothing =
        Envelope { driver: None, coverage: Vec::new(), glibc: None, platform: problem.machine.platform };
    let together = torch.into_iter().chain(frameworks).reduce(both).unwrap_or(nothing);
    // The release in macOS's tags is that of the system.
    let glibc = glibc.filter(|_| problem.machine.os() == Os::Linux);
    Envelope { glibc, ..together }
}
