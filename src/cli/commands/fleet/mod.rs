//! `envlock fleet`: which nodes can run which locks.

mod rehearsal;
mod report;

use crate::cli::args::{AnswerFormat, FleetArgs, FleetCommand, FleetRehearseArgs};
use crate::cli::printer::Printer;
use crate::fleet::Effect;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::fleet::{Change, Fleet, Nodes, Rehearsed, Slurm, fleet, rehearse};
use crate::session::options::Global;
use crate::verify::Verdict;

pub(super) fn run(global: &Global, args: &FleetArgs, printer: &Printer) -> Result<u8, Failure> {
    let (nodes, locks) = match &args.command {
        FleetCommand::Hosts(args) => (Nodes::Folder(&args.folder), &args.lock),
        FleetCommand::Slurm(args) => {
            let slurm = Slurm {
                partition: args.partition.clone(),
                nodes: args.nodes.clone(),
                prefix: args.prefix.clone(),
                timeout: args.timeout,
                program: args.program.clone(),
            };
            (Nodes::Slurm(slurm), &args.lock)
        }
        FleetCommand::Rehearse(args) => return rehearsed(global, args, printer),
    };
    let (answer, registry) = fleet(global, &nodes, locks, printer)?;
    match printer.json {
        true => report::json(printer, &answer),
        false => report::text(printer, &answer, &registry),
    }
    Ok(exit(&answer))
}

fn rehearsed(global: &Global, args: &FleetRehearseArgs, printer: &Printer) -> Result<u8, Failure> {
    let (nodes, partition, only) = match &args.folder {
        Some(folder) => (Nodes::Folder(folder), args.partition.as_deref(), args.nodes.as_deref()),
        // Only these are asked.
        None => {
            let slurm = Slurm {
                partition: args.partition.clone(),
                nodes: args.nodes.clone(),
                prefix: None,
                timeout: args.timeout,
                program: args.program.clone(),
            };
            (Nodes::Slurm(slurm), None, None)
        }
    };
    let change = Change {
        nodes,
        partition,
        only,
        driver: args.driver.as_deref(),
        gpus: &args.gpu,
        locks: &args.lock,
        against: &args.against,
    };
    let answer = rehearse(global, &change, printer)?;
    match args.format {
        _ if printer.json => rehearsal::json(printer, &answer),
        AnswerFormat::Text | AnswerFormat::Json => rehearsal::text(printer, &answer),
        AnswerFormat::Markdown => rehearsal::markdown(printer, &answer),
    }
    Ok(exit_of_change(&answer))
}

/// 1 where a lock stops, else 2 where one that runs is not known to run after the change, or a node did not answer.
fn exit_of_change(answer: &Rehearsed) -> u8 {
    let outcomes = || answer.locks.iter().flat_map(|lock| &lock.outcomes);
    if outcomes().any(|outcome| outcome.effect == Effect::Stops) {
        exit::NO
    } else if !answer.unanswered.is_empty() || outcomes().any(|outcome| outcome.effect == Effect::NotKnown) {
        exit::CANNOT_ANSWER
    } else {
        exit::YES
    }
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
