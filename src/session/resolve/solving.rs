//! Solves the request for all machines together, with what the index knows beyond the registry.

use super::chosen_code;
use super::learning::Learner;
use super::machines::Machine;
use super::task::Task;
use crate::compatibility::{Assumed, Open, UnknownGpu, assumed_in, with_assumed_code, without_unknown_gpus};
use crate::index::IndexClient;
use crate::model::conflict::{Conflict, NotKnown};
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::Solution;
use crate::registry::Registry;
use crate::session::builds;
use crate::session::failure::{Failure, FailureKind};
use crate::session::fetch::Session;
use crate::session::learned_rows;
use crate::session::prebuilt;
use crate::solver::{Joint, JointAnswer, Member, Question, SolveOne, solve_stack};

/// How often sources that cannot be built are left out and the rest is solved again.
const MAX_ROUNDS: usize = 3;
/// How often packages of an answer are read for their machine code, and the question is asked again: each is a download.
const MAX_LEARNED: usize = 16;

impl Task<'_> {
    /// The answer, and the registry with what was learned from wheels.
    pub fn solve(&self, registry: Registry) -> Result<(JointAnswer, Registry), Failure> {
        let Some(client) = self.client else {
            let registry = learned_rows::with_rows_of_stack(self.global, registry);
            let answer = self.joint(&registry, &mut |question| {
                Ok(solve_stack(&registry, &question.host, &question.request, &question.preferences))
            })?;
            return Ok((answer, registry));
        };
        let mut learner = Learner::new(self, client, &registry);
        learner.read_stack()?;
        let mut read = learner.registry();
        let (mut answer, mut more) = self.solve_and_learn(client, read.as_ref().unwrap_or(&registry))?;
        while learner.read_beyond(&answer) {
            read = learner.registry();
            (answer, more) = self.solve_and_learn(client, read.as_ref().unwrap_or(&registry))?;
        }
        match &mut answer {
            JointAnswer::Solved(solutions) => {
                solutions.iter_mut().for_each(|solution| learner.mark(solution));
            }
            // What nobody could read may be what is asked for.
            JointAnswer::Conflict(_) => learner.refuse_unread()?,
            JointAnswer::TooLong => {}
        }
        Ok((answer, more.or(read).unwrap_or(registry)))
    }

    /// The answer, and the registry with the code of companions if it was learned.
    fn solve_and_learn(
        &self,
        client: &IndexClient,
        registry: &Registry,
    ) -> Result<(JointAnswer, Option<Registry>), Failure> {
        let metadata = &self.request.metadata;
        let mut session = Session::new(client, registry, self.interface, metadata, self.budget);
        let mut answer = self.joint(registry, &mut |question| session.solve(question))?;
        let mut first = Some(session);
        let mut learned: Option<Registry> = None;
        // What takes the place of a release whose code does not run here is judged too.
        for _ in 0..MAX_LEARNED {
            let JointAnswer::Solved(solutions) = &answer else { break };
            let known = learned.as_ref().unwrap_or(registry);
            let more = match self.args.no_learn {
                true => None,
                false => chosen_code::with_code_of_chosen(self, client, solutions, known),
            };
            let Some(more) = more else { break };
            let mut again = match first.take() {
                Some(first) => first.with_registry(&more),
                None => Session::new(client, &more, self.interface, metadata, self.budget),
            };
            answer = self.joint(&more, &mut |question| again.solve(question))?;
            drop(again);
            learned = Some(more);
        }
        Ok((answer, learned))
    }

    /// A refusal that does not rest on what is not known.
    ///
    /// # Errors
    /// Where what is not known is as it should be, there is an answer.
    pub fn proved(&self, registry: &Registry, refused: Box<Conflict>) -> Result<Box<Conflict>, Failure> {
        let not_known = refused.all_not_known();
        let is_unknown = |machine: &Machine| UnknownGpu::of(registry, &machine.host).is_some();
        // No way out is known to be one there.
        let mut refused = refused;
        if self.machines.iter().any(is_unknown) {
            refused.forget_ways();
        }
        let unknown_gpu = super::refused_by_gpu(&refused, self.machines)
            .find_map(|machine| UnknownGpu::of(registry, &machine.host));
        if not_known == NotKnown::default() && unknown_gpu.is_none() {
            return Ok(refused);
        }
        let mut machines = self.machines.to_vec();
        for machine in &mut machines {
            machine.host = without_unknown_gpus(registry, machine.host.clone());
            if not_known.driver {
                machine.host.driver = None;
            }
        }
        let assumed = with_assumed_code(registry, machines.iter().map(|machine| &machine.host));
        let task = Task { machines: &machines, ..*self };
        let answer = match self.client {
            Some(client) => task.solve_and_learn(client, &assumed)?.0,
            None => task.joint(&assumed, &mut |question| {
                Ok(solve_stack(&assumed, &question.host, &question.request, &question.preferences))
            })?,
        };
        let solutions = match answer {
            JointAnswer::Solved(solutions) => solutions,
            // Its own ways out rest on the assumptions. Those of the refusal hold with its other causes out of the way.
            JointAnswer::Conflict(mut proved) => {
                proved.forget_ways();
                proved.take_ways_of(*refused);
                return Ok(proved);
            }
            JointAnswer::TooLong => return Err(Failure::too_long()),
        };
        if let Some(gpu) = unknown_gpu {
            return Err(super::not_known(&gpu));
        }
        match solutions.iter().find_map(|solution| assumed_in(registry, solution, solution.platform)) {
            Some(Assumed::Build(build)) => Err(super::unread(&Open::Build(build), true)),
            Some(Assumed::Floor(floor)) => {
                Err(Failure::new(FailureKind::UnknownRow, format!("not known: {floor}"))
                    .hint("`envlock registry update` looks for newer data"))
            }
            None => Ok(refused),
        }
    }

    fn members(&self) -> Vec<Member<'_>> {
        let members = self.machines.iter().zip(self.preferences);
        members.map(|(machine, held)| machine.member(held)).collect()
    }

    fn joint(&self, registry: &Registry, solve_one: SolveOne<'_, Failure>) -> Result<JointAnswer, Failure> {
        Joint { members: &self.members(), request: self.request, registry }.solve(solve_one)
    }

    /// Holds the ways out of a conflict of one target against the others.
    pub fn hold_ways_against_all(&self, conflict: &mut Conflict, registry: &Registry) {
        Joint { members: &self.members(), request: self.request, registry }.hold_ways_against_all(conflict);
    }

    /// The answer with what the builds of source distributions require. Sources whose builds cannot work beside the packages
    /// of the answer are left out, where there is an answer without them.
    pub fn solve_buildable(&self, registry: Registry) -> Result<(JointAnswer, Registry), Failure> {
        let (answer, mut registry) = self.solve(registry)?;
        let JointAnswer::Solved(mut solutions) = answer else { return Ok((answer, registry)) };
        let unbuildable = self.lock_builds(&mut solutions, &registry)?;
        // A newer release is a wheel more often than an older one.
        for operator in [">", "!="] {
            let mut request = self.request.clone();
            let mut left_out = unbuildable.clone();
            for _ in 0..MAX_ROUNDS {
                if left_out.is_empty() {
                    break;
                }
                let bounds = left_out.iter().map(|pin| pin.replacen("==", operator, 1));
                let bounds = bounds.filter_map(|line| UserRequirement::parse(&line, Origin::Question).ok());
                request.constraints.extend(bounds);
                let other = Task { request: &request, ..*self };
                let (answer, more) = other.solve(registry)?;
                registry = more;
                let JointAnswer::Solved(mut without) = answer else { break };
                left_out = other.lock_builds(&mut without, &registry)?;
                if left_out.is_empty() {
                    return Ok((JointAnswer::Solved(without), registry));
                }
            }
        }
        Ok((JointAnswer::Solved(solutions), registry))
    }

    /// Adds what the builds of source distributions require, solved for the machine that builds them. Returns the packages
    /// for whose builds nothing fits the others.
    fn lock_builds(&self, solutions: &mut [Solution], registry: &Registry) -> Result<Vec<String>, Failure> {
        let Some(client) = self.client else { return Ok(Vec::new()) };
        let mut without = Vec::new();
        // What the user states of a package does not change its builds.
        let mut session = Session::new(client, registry, self.interface, &[], self.budget);
        for ((solution, machine), preferences) in
            solutions.iter_mut().zip(self.machines).zip(self.preferences)
        {
            let held = preferences.for_builds();
            let mut solve = |asked: &Request| session.solve(&Question::new(&machine.host, asked, &held));
            without.extend(builds::lock(solution, self.request, &mut solve)?);
            let platform = machine.host.system.platform;
            // They are built against PyPI's torch.
            if self.request.of_target(&machine.name).conda.stack.is_some() {
                continue;
            }
            let offers = prebuilt::offers(solution, self.request, platform, client, registry);
            solution.notes.extend(offers);
        }
        Ok(without)
    }
}
