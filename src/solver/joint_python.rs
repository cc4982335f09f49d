//! One Python for all targets: a team runs the same tests and the same tools on each.

use std::collections::BTreeSet;

use super::joint::{Joint, Member, One, SolveOne, torch_of};
use crate::model::request::{Origin, PythonAllowed, PythonRequest};
use crate::model::solution::Solution;
use crate::model::wheel::Python;

impl Joint<'_> {
    /// The solutions with one Python for all targets that name none, the newest that takes no torch from any of them; as they are if
    /// there is none.
    ///
    /// # Errors
    /// Those of `solve_one`.
    pub(super) fn on_one_python<E>(
        &self,
        solutions: Vec<Solution>,
        solve_one: SolveOne<'_, E>,
    ) -> Result<Vec<Solution>, E> {
        let names_none = |i: &usize| self.members[*i].python.is_none();
        let chosen = |i: usize| solutions[i].python;
        let targets: Vec<usize> = (0..solutions.len()).filter(names_none).collect();
        let all: BTreeSet<Python> = targets.iter().map(|i| chosen(*i)).collect();
        if all.len() < 2 {
            return Ok(solutions);
        }
        // What the lock holds stays.
        let (held, open): (Vec<usize>, Vec<usize>) =
            targets.into_iter().partition(|i| self.members[*i].preferences.python.is_some());
        let held: BTreeSet<Python> = held.into_iter().map(chosen).collect();
        let candidates = match held.len() {
            0 => all,
            1 => held,
            _ => return Ok(solutions),
        };
        for python in candidates.into_iter().rev() {
            if let Some(moved) = self.moved_to(python, &open, &solutions, solve_one)? {
                return Ok(moved);
            }
        }
        Ok(solutions)
    }

    /// The solutions with these targets on a Python; `None` if that costs one of them its torch, or the Python that is installed here.
    fn moved_to<E>(
        &self,
        python: Python,
        targets: &[usize],
        solutions: &[Solution],
        solve_one: SolveOne<'_, E>,
    ) -> Result<Option<Vec<Solution>>, E> {
        let exact = PythonRequest {
            allowed: PythonAllowed::Exact(python),
            text: python.to_string(),
            origin: Origin::Question,
        };
        let is_admitted = self.request.python.as_ref().is_none_or(|own| own.allows(python));
        if !is_admitted {
            return Ok(None);
        }
        let mut members: Vec<Member<'_>> = self.members.to_vec();
        for i in targets {
            members[*i].python = Some(&exact);
        }
        let joint = Joint { members: &members, ..*self };
        let mut moved = solutions.to_vec();
        for i in targets.iter().copied().filter(|i| solutions[*i].python != python) {
            // What is installed here comes before what others have.
            let installed = &self.members[i].preferences.installed;
            if installed.contains(&solutions[i].python.minor) && !installed.contains(&python.minor) {
                return Ok(None);
            }
            let torch = torch_of(Some(&solutions[i]));
            // What targets with another torch have does not go with this one's.
            let is_alike = moved.iter().all(|other| torch_of(Some(other)) == torch);
            let earlier = if is_alike { &moved[..i] } else { &[] };
            let One::Solved(solution) = joint.one(i, torch.as_ref(), earlier, solve_one)? else {
                return Ok(None);
            };
            if solution.python != python || torch_of(Some(&solution)) != torch {
                return Ok(None);
            }
            moved[i] = Solution { python_alone: Some(solutions[i].python), ..*solution };
        }
        Ok(Some(moved))
    }
}

#[cfg(test)]
mod tests {
    use crate::model::host::{Gpu, Host};
    use crate::model::platform::Platform;
    use crate::model::request::{Origin, Preferences, PythonRequest, Request, UserRequirement};
    use crate::model::wheel::Python;
    use crate::solver::{Joint, JointAnswer, Member, solve_stack};

    #[test]
    fn targets_share_a_python_where_none_loses_its_torch() {
        let registry = crate::registry::frozen();
        let host = |gpu: &str| {
            let mut host = Host::open(Platform::LINUX_X86_64, "t");
            host.gpus = Some(vec![Gpu::of_capability(gpu.parse().unwrap(), "t")]);
            host
        };
        let (old, new) = (host("3.7"), host("9.0"));
        let named = PythonRequest::parse("3.13", Origin::Question).unwrap();
        for (own, held, expected) in [
            (None, None, ["3.12", "3.12"]),
            // One that names its own, and one that the lock holds.
            (Some(&named), None, ["3.12", "3.13"]),
            (None, Some(11), ["3.11", "3.11"]),
        ] {
            let held = Preferences { python: held.map(Python::new), ..Preferences::default() };
            let members = [
                Member { name: "old", host: &old, python: None, preferences: Preferences::default() },
                Member { name: "new", host: &new, python: own, preferences: held },
            ];
            let requirement = UserRequirement::new("torch".parse().unwrap(), Origin::Question);
            let request = Request { requirements: vec![requirement], ..Request::default() };
            let joint = Joint { members: &members, request: &request, registry: &registry };
            let answer = joint.solve::<std::convert::Infallible>(&mut |question| {
                Ok(solve_stack(&registry, &question.host, &question.request, &question.preferences))
            });
            let Ok(JointAnswer::Solved(solutions)) = answer else { panic!("{answer:?}") };
            let pythons: Vec<String> = solutions.iter().map(|one| one.python.to_string()).collect();
            assert_eq!(pythons, expected);
        }
    }
}
