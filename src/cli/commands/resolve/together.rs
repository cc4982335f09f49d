//! All targets of a lock solved, with one torch for all of them where there is one.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::machines::Machine;
use crate::cli::error::CliError;
use crate::cli::fetch;
use crate::cli::printer::Printer;
use crate::index::IndexClient;
use crate::model::conflict::{Conflict, Party};
use crate::model::request::{Origin, Preferences, Request, UserRequirement};
use crate::model::solution::{Answer, Note, Solution};
use crate::registry::Registry;
use crate::solver::{Universe, newest_common, solve_stack};

/// One torch for all targets is not worth going back further, in minor lines of torch.
const MOST_LINES_BACK: usize = 2;

/// What the targets came to.
pub(super) enum Joint {
    /// A solution for each machine, in their order.
    Solved(Vec<Solution>),
    /// The first machine that cannot be served.
    Conflict(Box<Conflict>),
    /// The search was given up.
    TooLong,
}

/// Solves for all machines. `client` is there where the Python closure is solved too.
pub(super) struct Together<'a> {
    pub machines: &'a [Machine],
    pub request: &'a Request,
    /// What the old lock holds for each machine.
    pub preferences: Vec<Preferences>,
    pub registry: &'a Registry,
    pub client: Option<&'a IndexClient>,
    pub printer: &'a Printer,
    pub universe: Universe,
}

/// One machine's answer.
enum One {
    Solved(Box<Solution>),
    Conflict(Box<Conflict>),
    TooLong,
}

impl Together<'_> {
    pub fn solve(mut self) -> Result<Joint, CliError> {
        let stack_alone: Vec<Option<Version>> = match self.machines {
            // One machine needs nobody's consent.
            [_] => vec![None],
            machines => (0..machines.len()).map(|i| torch_of(self.stack(i, None).as_ref())).collect(),
        };
        // What the registry alone can tell comes first: it costs no network.
        let bound = match stack_alone.iter().cloned().collect::<Option<Vec<Version>>>() {
            Some(alone) => newest_common(alone.clone(), |i, most| {
                Ok::<_, CliError>(torch_of(self.stack(i, Some(most)).as_ref()))
            })?
            .filter(|common| self.is_near(common, &alone)),
            None => None,
        };
        let mut solutions: Vec<Solution> = Vec::new();
        for i in 0..self.machines.len() {
            let one = match self.one(i, bound.as_ref(), &solutions)? {
                // The bound itself may be what other packages cannot live with.
                One::Conflict(_) if bound.is_some() => self.one(i, None, &solutions)?,
                one => one,
            };
            match one {
                One::Solved(solution) => solutions.push(*solution),
                One::Conflict(conflict) => return Ok(Joint::Conflict(self.named(i, conflict))),
                One::TooLong => return Ok(Joint::TooLong),
            }
        }
        let Some(now) = solutions.iter().map(|s| torch_of(Some(s))).collect::<Option<Vec<Version>>>() else {
            return Ok(Joint::Solved(solutions));
        };
        let mut tried: BTreeMap<usize, Solution> = BTreeMap::new();
        let common = newest_common(now, |i, most| {
            Ok::<_, CliError>(match self.one(i, Some(most), &[])? {
                One::Solved(solution) => {
                    let version = torch_of(Some(&solution));
                    tried.insert(i, *solution);
                    version
                }
                One::Conflict(_) | One::TooLong => None,
            })
        })?;
        let alone: Vec<Version> = stack_alone.iter().flatten().cloned().collect();
        match common {
            Some(common) if self.is_near(&common, &alone) => {
                for (i, solution) in tried {
                    solutions[i] = solution;
                }
                self.tell_who_came_down(&common, &stack_alone, &mut solutions);
            }
            common => {
                // Nobody comes down for an agreement that there is not.
                for (i, solution) in solutions.iter_mut().enumerate() {
                    if let One::Solved(alone) = self.one(i, None, &[])? {
                        *solution = *alone;
                    }
                }
                self.tell_why_they_differ(common.as_ref(), &mut solutions);
            }
        }
        Ok(Joint::Solved(solutions))
    }

    /// Whether one torch for all is worth it: no target goes back further than [`MOST_LINES_BACK`] minor lines, or the
    /// manifest asks for it whatever it costs.
    fn is_near(&self, common: &Version, alone: &[Version]) -> bool {
        self.request.same_torch || alone.iter().all(|alone| self.lines_back(common, alone) <= MOST_LINES_BACK)
    }

    /// How many minor lines of torch (`2.9`, `2.10`) lie between two releases.
    fn lines_back(&self, older: &Version, newer: &Version) -> usize {
        let line = |version: &Version| version.release().iter().take(2).copied().collect::<Vec<u64>>();
        let (from, to) = (line(older), line(newer));
        let lines: BTreeSet<Vec<u64>> = self.registry.builds().iter().map(|b| line(&b.version)).collect();
        lines.iter().filter(|line| **line > from && **line <= to).count()
    }

    /// The request as a machine sees it: with its own Python, and a bound on torch.
    fn request_of(&self, i: usize, torch: Option<(&str, &Version)>) -> Request {
        let mut request = self.request.clone();
        if let Some(python) = &self.machines[i].python {
            request.python = Some(python.clone());
        }
        if let Some((operator, version)) = torch
            && let Ok(requirement) = format!("torch{operator}{version}").parse()
        {
            // A bound of the search: no reason ever quotes it.
            request.constraints.push(UserRequirement { requirement, origin: Origin::Question });
        }
        request
    }

    /// The stack of a machine from the registry alone.
    fn stack(&self, i: usize, most: Option<&Version>) -> Option<Solution> {
        match self.stack_answer(i, most.map(|v| ("<=", v))) {
            Answer::Solution(solution) => Some(*solution),
            _ => None,
        }
    }

    fn stack_answer(&self, i: usize, torch: Option<(&str, &Version)>) -> Answer {
        let request = self.request_of(i, torch);
        solve_stack(self.registry, &self.machines[i].host, &request, &self.preferences[i])
    }

    /// One machine, as deep as it is asked for. What earlier targets took is taken again where it fits,
    /// so that the lock shares it.
    fn one(&mut self, i: usize, most: Option<&Version>, earlier: &[Solution]) -> Result<One, CliError> {
        let request = self.request_of(i, most.map(|v| ("<=", v)));
        let mut preferences = self.preferences[i].clone();
        // What an earlier target took under limits of its own is no model for this one.
        for (solution, _) in earlier.iter().zip(self.machines).filter(|(_, m)| m.python.is_none()) {
            preferences.python = preferences.python.or(Some(solution.python));
            for package in &solution.packages {
                preferences.versions.entry(package.name.clone()).or_insert(package.version.clone());
            }
        }
        let host = &self.machines[i].host;
        let answer = match self.client {
            None => self.stack_answer(i, most.map(|v| ("<=", v))),
            Some(client) => fetch::solve_full(
                client,
                &mut self.universe,
                self.registry,
                host,
                &request,
                &preferences,
                self.printer,
            )?,
        };
        Ok(match answer {
            Answer::Solution(solution) => One::Solved(solution),
            Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => One::Conflict(conflict),
            Answer::TooLong => One::TooLong,
            Answer::NeedMetadata(_) => {
                return Err(CliError::internal("the solver stopped without an answer"));
            }
        })
    }

    fn named(&self, i: usize, mut conflict: Box<Conflict>) -> Box<Conflict> {
        conflict.target.clone_from(&self.machines[i].name);
        if self.machines.len() > 1 {
            conflict.headline = format!("{} (target `{}`)", conflict.headline, self.machines[i].name);
        }
        conflict
    }

    /// Which targets gave something up for the others, and for whom.
    fn tell_who_came_down(&self, common: &Version, alone: &[Option<Version>], solutions: &mut [Solution]) {
        let came_down: Vec<usize> =
            (0..solutions.len()).filter(|i| alone[*i].as_ref().is_some_and(|v| v > common)).collect();
        let Some(first) = came_down.first() else { return };
        let could: Vec<String> = came_down
            .iter()
            .filter_map(|i| Some(format!("`{}` could have {}", self.machines[*i].name, alone[*i].as_ref()?)))
            .collect();
        let newest = came_down.iter().filter_map(|i| alone[*i].as_ref()).max().unwrap_or(common);
        let why = (0..self.machines.len()).find_map(|other| {
            let reason = self.why_not(other, ("==", newest))?;
            Some(format!("; `{}` cannot: {reason}", self.machines[other].name))
        });
        let text =
            format!("torch {common} for all targets; alone {}{}", could.join(", "), why.unwrap_or_default());
        solutions[*first].notes.push(Note { text, source: None });
    }

    /// Why targets have different releases: what keeps each from the newest of them, and where one release would serve
    /// all, how far that would take the others back.
    fn tell_why_they_differ(&self, common: Option<&Version>, solutions: &mut [Solution]) {
        let versions: Vec<Option<Version>> = solutions.iter().map(|s| torch_of(Some(s))).collect();
        let Some(highest) = versions.iter().flatten().max().cloned() else { return };
        for (i, solution) in solutions.iter_mut().enumerate() {
            let Some(version) = versions[i].as_ref().filter(|v| **v < highest) else { continue };
            let why = self.why_not(i, ("==", &highest));
            let why = why.map(|w| format!(": {w}")).unwrap_or_default();
            let name = &self.machines[i].name;
            let text = match common {
                None => format!("no torch serves all targets: `{name}` has {version}, not {highest}{why}"),
                Some(common) => format!(
                    "torch differs between targets: `{name}` has {version}, not {highest}{why}; {common} would serve all, {} minor lines back (`same = true` under `[stack]`)",
                    self.lines_back(common, &highest)
                ),
            };
            solution.notes.push(Note { text, source: None });
        }
    }

    /// The fact that keeps a machine from a torch, by the registry; a hardware's before a package's.
    fn why_not(&self, i: usize, torch: (&str, &Version)) -> Option<String> {
        let Answer::Conflict(conflict) = self.stack_answer(i, Some(torch)) else { return None };
        let of_machine = |parties: &[Party]| parties.iter().any(Party::is_of_machine);
        let reasons = &conflict.reasons;
        reasons.iter().find(|r| of_machine(&r.parties)).or(reasons.first()).map(|r| r.text.clone())
    }
}

/// The torch of a solution, without its flavour.
fn torch_of(solution: Option<&Solution>) -> Option<Version> {
    Some(solution?.stack.as_ref()?.version.clone())
}
