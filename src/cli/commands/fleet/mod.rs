//! `envlock fleet`: which nodes can run which locks.

mod report;

use crate::cli::args::{FleetArgs, FleetCommand};
use crate::cli::printer::Printer;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::fleet::{Fleet, Nodes, Slurm, fleet};
use crate::session::options::Global;
use crate::verify::Verdict;

pub(super) fn run(global: &Global, args: &FleetArgs, printer: &Printer) -> Result<u8, Failure> {
    let locks = args.command.locks();
    let (answer, registry) = match &args.command {
        FleetCommand::Hosts(args) => fleet(global, &Nodes::Folder(&args.folder), locks, printer)?,
        FleetCommand::Slurm(args) => {
            let slurm = Slurm {
                partition: args.partition.clone(),
                nodes: args.nodes.clone(),
                prefix: args.prefix.clone(),
                timeout: args.timeout,
                program: args.program.clone(),
            };
            fleet(global, &Nodes::Slurm(&slurm), locks, printer)?
        }
    };
    match printer.json {
        true => report::json(printer, &answer),
        false => report::text(printer, &answer, &registry),
    }
    Ok(exit(&answer))
}

/// 1 where a node cannot run a lock, else 2 where it is not known or a node did not answer.
fn exit(answer: &Fleet) -> u8 {
    let of_locks = || answer.judged.iter().flat_map(|lock| &lock.verdicts).map(|verdict| verdict.verdict);
    let of_environment = || answer.environment.iter().flat_map(|own| &own.classes).map(|class| class.verdict);
    let verdicts = || of_locks().chain(of_environment());
    if verdicts().any(|verdict| verdict == Verdict::Differs) {
        exit::NO
    } else if !answer.unanswered.is_empty() || verdicts().any(|verdict| verdict == Verdict::Unknown) {
        exit::CANNOT_ANSWER
    } else {
        exit::YES
    }
}
