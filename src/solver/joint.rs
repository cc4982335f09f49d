//! Several targets solved together, with one torch for all of them where there is one near enough.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::together::newest_common;
use super::{Catalogue, Edit, PlanOut, Question, find_stack, plan, solve_stack};
use crate::model::choice::Choice;
use crate::model::conflict::{Conflict, NotKnown, Reason, ReasonKind, RefusedTarget};
use crate::model::host::Host;
use crate::model::marker::marker_environment;
use crate::model::request::{Origin, Preferences, PythonRequest, Request, UserRequirement};
use crate::model::solution::{Answer, Note, Solution};
use crate::model::variant::is_cuda;
use crate::model::version::{minor_line, public};
use crate::model::wheel::Python;
use crate::registry::Registry;

/// How far one torch for all targets may take a target back, in minor releases of torch.
const MAX_MINOR_VERSIONS_BACK: usize = 2;

/// One of the targets.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// Its name in the lock.
    pub name: &'a str,
    /// Its machine.
    pub host: &'a Host,
    /// Its own limit on Python.
    pub python: Option<&'a PythonRequest>,
    /// What the old lock holds for it.
    pub preferences: Preferences,
}

impl Member<'_> {
    /// The torch that the old lock holds for it.
    fn holds_torch(&self) -> Option<&Version> {
        self.preferences.versions.get("torch")
    }

    /// The same with any torch.
    fn without_torch(&self) -> Self {
        let mut out = self.clone();
        out.preferences.versions.remove("torch");
        out.preferences.variant = None;
        out
    }
}

/// What is to be solved.
#[derive(Debug)]
pub struct Joint<'a> {
    /// The targets; the first is the default.
    pub members: &'a [Member<'a>],
    /// What is asked for on all of them.
    pub request: &'a Request,
    /// The compatibility data.
    pub registry: &'a Registry,
}

/// What the targets came to.
#[derive(Debug)]
pub enum JointAnswer {
    /// A solution for each target, in their order.
    Solved(Vec<Solution>),
    /// The conflict of the first target that has no solution.
    Conflict(Box<Conflict>),
    /// The search ended at its limit of steps or time.
    TooLong,
}

/// One target's answer.
pub(super) enum One {
    Solved(Box<Solution>),
    Conflict(Box<Conflict>),
    TooLong,
}

/// Solves one machine as deep as it is asked for, fetching what the solver needs: the caller's edge.
pub type SolveOne<'f, E> = &'f mut dyn FnMut(&Question<'_>) -> Result<Answer, E>;

impl Joint<'_> {
    /// Solves all targets.
    ///
    /// # Errors
    /// Those of `solve_one`.
    pub fn solve<E>(&self, solve_one: SolveOne<'_, E>) -> Result<JointAnswer, E> {
        let answer = self.solve_keeping(solve_one)?;
        let JointAnswer::Solved(solutions) = &answer else { return Ok(answer) };
        let torches: BTreeSet<Version> = solutions.iter().filter_map(|s| torch_of(Some(s))).collect();
        let holds = self.members.iter().any(|member| member.holds_torch().is_some());
        // One torch is asked for: what the lock holds of torch is no reason against it.
        if self.request.same_torch != Some(true) || torches.len() < 2 || !holds {
            return Ok(answer);
        }
        let members: Vec<Member<'_>> = self.members.iter().map(Member::without_torch).collect();
        let free = Joint { members: &members, ..*self };
        match free.solve_keeping(solve_one)? {
            JointAnswer::Solved(solutions) => Ok(JointAnswer::Solved(solutions)),
            _ => Ok(answer),
        }
    }

    /// Solves all targets with what the lock holds.
    fn solve_keeping<E>(&self, solve_one: SolveOne<'_, E>) -> Result<JointAnswer, E> {
        let alone: Vec<Option<Version>> = match self.members {
            [_] => vec![None],
            // Of a channel's builds the registry knows nothing.
            members if self.request.has_stack_of_conda() => vec![None; members.len()],
            members => (0..members.len()).map(|i| torch_of(self.stack(i, None).as_deref())).collect(),
        };
        // The registry alone answers first: it costs no network.
        let bound = match alone.iter().cloned().collect::<Option<Vec<Version>>>() {
            Some(alone) => newest_common(alone.clone(), |i, most| {
                Ok::<_, E>(torch_of(self.stack(i, Some(most)).as_deref()))
            })?
            .filter(|common| self.is_near(common, &alone)),
            None => None,
        };
        let mut solutions: Vec<Solution> = Vec::new();
        for i in 0..self.members.len() {
            let one = match self.one(i, bound.as_ref(), &solutions, solve_one)? {
                // The bound itself may be what excludes the other packages.
                One::Conflict(_) if bound.is_some() => self.one(i, None, &solutions, solve_one)?,
                one => one,
            };
            match one {
                One::Solved(solution) => solutions.push(*solution),
                One::Conflict(conflict) => return Ok(JointAnswer::Conflict(self.named(i, conflict))),
                One::TooLong => return Ok(JointAnswer::TooLong),
            }
        }
        let Some(now) = solutions.iter().map(|s| torch_of(Some(s))).collect::<Option<Vec<Version>>>() else {
            return Ok(JointAnswer::Solved(self.on_one_python(solutions, solve_one)?));
        };
        let mut tried: BTreeMap<usize, Solution> = BTreeMap::new();
        let of_channels = self.request.has_stack_of_conda().then(|| now.clone());
        let common = newest_common(now, |i, most| {
            Ok::<_, E>(match self.one(i, Some(most), &[], solve_one)? {
                One::Solved(solution) => {
                    let version = torch_of(Some(&solution));
                    tried.insert(i, *solution);
                    version
                }
                One::Conflict(_) | One::TooLong => None,
            })
        })?;
        let known = of_channels.unwrap_or_else(|| alone.iter().flatten().cloned().collect());
        match common {
            Some(common) if self.is_near(&common, &known) => {
                for (i, solution) in tried {
                    solutions[i] = solution;
                }
                solutions = self.on_one_python(solutions, solve_one)?;
                self.note_who_steps_back(&common, &alone, &mut solutions);
            }
            common => {
                // Without a common release nobody steps back for one.
                for (i, solution) in solutions.iter_mut().enumerate() {
                    if let One::Solved(alone) = self.one(i, None, &[], solve_one)? {
                        *solution = *alone;
                    }
                }
                solutions = self.on_one_python(solutions, solve_one)?;
                self.note_why_they_differ(common.as_ref(), &mut solutions);
            }
        }
        Ok(JointAnswer::Solved(solutions))
    }

    /// Whether one torch for all takes no target back further than [`MAX_MINOR_VERSIONS_BACK`], or the manifest asks for it
    /// whatever it costs.
    fn is_near(&self, common: &Version, alone: &[Version]) -> bool {
        match self.request.same_torch {
            Some(true) => true,
            // Nobody steps back: the same for all is the newest of each.
            Some(false) => alone.iter().all(|alone| alone == common),
            None => alone.iter().all(|alone| self.lines_back(common, alone) <= MAX_MINOR_VERSIONS_BACK),
        }
    }

    /// How many minor releases of torch (`2.9`, `2.10`) lie between two releases.
    fn lines_back(&self, older: &Version, newer: &Version) -> usize {
        let (from, to) = (minor_line(older), minor_line(newer));
        let lines: BTreeSet<Vec<u64>> =
            self.registry.builds().iter().map(|b| minor_line(&b.version)).collect();
        lines.iter().filter(|line| **line > from && **line <= to).count()
    }

    /// The request as a target sees it, with its own Python.
    fn request_of(&self, i: usize) -> Request {
        let mut request = self.request.of_target(self.members[i].name);
        if let Some(python) = self.members[i].python {
            request.python = Some(python.clone());
        }
        request
    }

    /// The stack of a target from the registry alone, with torch no newer than a release.
    fn stack(&self, i: usize, most: Option<&Version>) -> Option<Box<Solution>> {
        self.stack_after(i, most.and_then(|most| Edit::bound("torch", "<=", most)))
    }

    /// The stack of a target from the registry alone, after an edit.
    pub(super) fn stack_after(&self, i: usize, edit: Option<Edit>) -> Option<Box<Solution>> {
        find_stack(self.registry, &self.question(i, edit))
    }

    /// The answer about the stack of a target from the registry alone, after an edit.
    fn stack_answer(&self, i: usize, edit: Option<Edit>) -> Answer {
        let question = self.question(i, edit);
        solve_stack(self.registry, &question.host, &question.request, &question.preferences)
    }

    /// What is asked for on a target, after an edit.
    fn question(&self, i: usize, edit: Option<Edit>) -> Question<'static> {
        let Member { host, preferences, .. } = &self.members[i];
        after(edit, Question::new(host, &self.request_of(i), preferences))
    }

    /// One target. What earlier targets have is taken again where it fits, so that the lock shares it.
    pub(super) fn one<E>(
        &self,
        i: usize,
        most: Option<&Version>,
        earlier: &[Solution],
        solve_one: SolveOne<'_, E>,
    ) -> Result<One, E> {
        let mut preferences = self.members[i].preferences.clone();
        // A target with a Python of its own is not a model for the others.
        for (solution, _) in earlier.iter().zip(self.members).filter(|(_, m)| m.python.is_none()) {
            preferences.python = preferences.python.or(Some(solution.python));
            for package in &solution.packages {
                preferences.versions.entry(package.name.clone()).or_insert(package.version.clone());
            }
        }
        let edit = most.and_then(|most| Edit::bound("torch", "<=", most));
        let question = after(edit, Question::new(self.members[i].host, &self.request_of(i), &preferences));
        Ok(match solve_one(&question)? {
            Answer::Solution(solution) => One::Solved(solution),
            Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => One::Conflict(conflict),
            // Whoever fetches answers what is needed, so a need that is left is a search without an end.
            Answer::TooLong | Answer::NeedMetadata(_) => One::TooLong,
        })
    }

    fn named(&self, i: usize, mut conflict: Box<Conflict>) -> Box<Conflict> {
        let name = self.members[i].name;
        name.clone_into(&mut conflict.target);
        if self.members.len() > 1 {
            conflict.headline = format!("{} (target `{name}`)", conflict.headline);
        }
        conflict.other_targets = self.refused_after(i);
        conflict
    }

    /// The targets after one that the registry alone refuses.
    fn refused_after(&self, i: usize) -> Vec<RefusedTarget> {
        if self.request.has_stack_of_conda() {
            return Vec::new();
        }
        let refused = |j: usize| match self.stack_answer(j, None) {
            Answer::Conflict(conflict) if conflict.all_not_known() == NotKnown::default() => {
                let target = self.members[j].name.to_owned();
                Some(RefusedTarget { target, headline: conflict.headline })
            }
            _ => None,
        };
        (i + 1..self.members.len()).filter_map(refused).collect()
    }

    /// Which targets step back for the others, and for whom.
    fn note_who_steps_back(&self, common: &Version, alone: &[Option<Version>], solutions: &mut [Solution]) {
        // The builds of a channel are not those that this asks.
        if self.request.has_stack_of_conda() {
            return;
        }
        let back: Vec<usize> =
            (0..solutions.len()).filter(|i| alone[*i].as_ref().is_some_and(|v| v > common)).collect();
        let Some(first) = back.first() else { return };
        let could: Vec<String> = back
            .iter()
            .filter_map(|i| Some(format!("`{}` could use {}", self.members[*i].name, alone[*i].as_ref()?)))
            .collect();
        let newest = back.iter().filter_map(|i| alone[*i].as_ref()).max().unwrap_or(common);
        let why = (0..self.members.len()).find_map(|other| {
            let reason = self.why_not(other, newest, solutions[other].python)?;
            Some(format!("; `{}` cannot: {reason}", self.members[other].name))
        });
        let text =
            format!("torch {common} for all targets; alone, {}{}", could.join(", "), why.unwrap_or_default());
        solutions[*first].notes.push(Note { text, source: None });
        for solution in solutions.iter_mut() {
            let torch = solution.packages.iter_mut().find(|package| package.name == "torch");
            if let Some(torch) = torch.filter(|torch| torch.reason.is_newest()) {
                torch.reason = Choice::NewestForTargets;
            }
        }
    }

    /// Why targets have different releases: what keeps each from the newest of them, and where one release would serve
    /// all, how far that would take the others back.
    fn note_why_they_differ(&self, common: Option<&Version>, solutions: &mut [Solution]) {
        if self.request.has_stack_of_conda() {
            return;
        }
        let versions: Vec<Option<Version>> = solutions.iter().map(|s| torch_of(Some(s))).collect();
        let Some(highest) = versions.iter().flatten().max().cloned() else { return };
        for (i, solution) in solutions.iter_mut().enumerate() {
            let Some(version) = versions[i].as_ref().filter(|v| **v < highest) else { continue };
            let name = self.members[i].name;
            let is_held = self.members[i].holds_torch().is_some_and(|held| public(held) == *version);
            let excluded = self.excluded_by(i, &highest, solution.python);
            // What is written keeps it there, whatever the lock holds.
            let is_kept = is_held && excluded.is_none();
            let why = excluded.or_else(|| self.why_not(i, &highest, solution.python));
            let why = why.map(|w| format!(": {w}")).unwrap_or_default();
            let text = match common {
                None if is_kept => format!(
                    "torch differs between targets: `{name}` keeps {version} from the lock, and another one has {highest}; `envlock resolve --upgrade=torch` chooses again for all"
                ),
                // A release that the lock keeps is no limit of the request.
                None if self.members.iter().any(|member| member.holds_torch().is_some()) => {
                    format!("torch differs between targets: `{name}` has {version}, not {highest}{why}")
                }
                None => format!(
                    "no torch version that the request allows runs on all targets: `{name}` has {version}, not {highest}{why}"
                ),
                Some(common) => format!(
                    "torch differs between targets: `{name}` has {version}, not {highest}{why}; {common} would run on all, {} minor versions back (set `same = true` under `[stack]`)",
                    self.lines_back(common, &highest)
                ),
            };
            solution.notes.push(Note { text, source: None });
        }
    }

    /// What the user wrote that excludes a torch on a target, whatever its machine runs.
    fn excluded_by(&self, i: usize, version: &Version, python: Python) -> Option<String> {
        let environment = marker_environment(python, self.members[i].host.system.platform);
        let request = self.request_of(i);
        let mut asked = request.requirements.iter().chain(&request.constraints);
        let excludes = |user: &&UserRequirement| {
            user.origin != Origin::Question
                && user.name() == "torch"
                && user.requirement.marker.evaluate(&environment, &[])
                && user.specifiers().is_some_and(|specifiers| !specifiers.contains(version))
        };
        asked.find(excludes).map(|user| format!("`{}` excludes it", user.line()))
    }

    /// What keeps a target from a torch, by the registry: the machine, else another part of the request.
    fn why_not(&self, i: usize, version: &Version, python: Python) -> Option<String> {
        let Member { host, .. } = &self.members[i];
        let platform = host.system.platform;
        if let Some(why) = self.excluded_by(i, version, python) {
            return Some(why);
        }
        if let Some(last) = self.registry.newest_release("torch", platform).filter(|last| last < version) {
            return Some(format!("the last torch for {platform} is {last}"));
        }
        let mut request = self.request_of(i);
        request.requirements.retain(|user| user.name() != "torch");
        let asked = format!("torch=={version}").parse().ok()?;
        request.requirements.push(UserRequirement::new(asked, Origin::Question));
        let found = plan(&Catalogue::new(self.registry, platform), host, &request);
        if found.runs.is_empty() {
            // That a CPU build does not use the GPU is obvious beside a build for CUDA.
            let is_cuda = |out: &&PlanOut| out.builds.iter().any(|build| is_cuda(&build.variant));
            let out = found.out.iter().find(is_cuda).or(found.out.first())?;
            let variant = &out.builds.first()?.variant;
            return Some(format!("torch {version}+{variant} {}", out.reason));
        }
        let Answer::Conflict(conflict) = self.stack_answer(i, Edit::bound("torch", "==", version)) else {
            return None;
        };
        let is_fact = |reason: &&Reason| !matches!(reason.kind, ReasonKind::Asked { .. });
        conflict.reasons.iter().find(is_fact).map(|reason| reason.text.clone())
    }
}

/// A question after an edit, if there is one.
fn after(edit: Option<Edit>, question: Question<'_>) -> Question<'static> {
    match edit {
        Some(edit) => question.with(&edit).into_owned(),
        None => question.into_owned(),
    }
}

/// The torch of a solution, without its variant.
pub(super) fn torch_of(solution: Option<&Solution>) -> Option<Version> {
    Some(solution?.stack.as_ref()?.version.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::platform::Platform;

    /// The torch of targets with one GPU each, and the notes; solved from the registry alone.
    fn torches(gpus: &[&str], same: bool) -> (Vec<String>, Vec<String>) {
        let registry = crate::registry::frozen();
        let hosts: Vec<Host> = gpus
            .iter()
            .map(|gpu| {
                let mut host = Host::open(Platform::LINUX_X86_64, "t");
                host.gpus = Some(vec![crate::model::host::Gpu::of_capability(gpu.parse().unwrap(), "t")]);
                host
            })
            .collect();
        let members: Vec<Member<'_>> = hosts
            .iter()
            .map(|host| Member { name: "t", host, python: None, preferences: Preferences::default() })
            .collect();
        let requirement = UserRequirement::new("torch".parse().unwrap(), Origin::Question);
        let only = crate::model::request::Limit {
            value: crate::model::only::Only::pypi(),
            origin: Origin::Question,
        };
        let request = Request {
            requirements: vec![requirement],
            same_torch: same.then_some(same),
            only_index: Some(only),
            ..Request::default()
        };
        let joint = Joint { members: &members, request: &request, registry: &registry };
        let answer = joint.solve::<std::convert::Infallible>(&mut |question| {
            Ok(solve_stack(&registry, &question.host, &question.request, &question.preferences))
        });
        let Ok(JointAnswer::Solved(solutions)) = answer else { panic!("{answer:?}") };
        let torch = solutions.iter().map(|s| torch_of(Some(s)).unwrap().to_string()).collect();
        (torch, solutions.iter().flat_map(|s| &s.notes).map(|n| n.text.clone()).collect())
    }

    /// What a lock holds is no reason to say that there is no torch for all.
    #[test]
    fn a_held_torch_is_let_go_of_for_one_torch() {
        let registry = crate::registry::frozen();
        let host = Host::open(Platform::LINUX_X86_64, "t");
        let held = |version: Option<&str>| {
            let mut preferences = Preferences::default();
            let held = version.map(|version| ("torch".to_owned(), version.parse().unwrap()));
            preferences.versions.extend(held);
            preferences
        };
        let mut blackwell = host.clone();
        blackwell.gpus = Some(vec![crate::model::host::Gpu {
            index: 0,
            name: None,
            capability: Some("10.0".parse().unwrap()),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "t".into(),
        }]);
        for (same, is_one) in [(true, true), (false, false)] {
            let members = [
                Member { name: "old", host: &host, python: None, preferences: held(Some("2.1.0")) },
                Member { name: "new", host: &blackwell, python: None, preferences: held(None) },
            ];
            let request = Request {
                requirements: vec![UserRequirement::new("torch".parse().unwrap(), Origin::Question)],
                same_torch: same.then_some(same),
                ..Request::default()
            };
            let joint = Joint { members: &members, request: &request, registry: &registry };
            let answer = joint.solve::<std::convert::Infallible>(&mut |question| {
                Ok(solve_stack(&registry, &question.host, &question.request, &question.preferences))
            });
            let Ok(JointAnswer::Solved(solutions)) = answer else { panic!("{answer:?}") };
            let versions: BTreeSet<Version> = solutions.iter().filter_map(|s| torch_of(Some(s))).collect();
            assert_eq!(versions.len() == 1, is_one, "{versions:?}");
            let notes: Vec<&str> = solutions.iter().flat_map(|s| &s.notes).map(|n| n.text.as_str()).collect();
            let told = notes.iter().any(|text| text.contains("`old` keeps 2.1.0 from the lock"));
            assert_eq!(told, !is_one, "{notes:?}");
        }
    }

    #[test]
    fn one_torch_only_where_nobody_goes_far_back() {
        let (one, notes) = torches(&["9.0", "9.0"], false);
        assert_eq!(one[0], one[1]);
        assert!(!notes.iter().any(|n| n.contains("targets")), "{notes:?}");
        // Volta's last builds are more than two minor releases back.
        let (apart, notes) = torches(&["9.0", "7.0"], false);
        assert_ne!(apart[0], apart[1]);
        assert!(notes.iter().any(|n| n.contains("torch differs between targets")), "{notes:?}");
        let (same, notes) = torches(&["9.0", "7.0"], true);
        assert_eq!(same[0], same[1]);
        assert_eq!(same[1], apart[1]);
        assert!(notes.iter().any(|n| n.contains("for all targets")), "{notes:?}");
    }
}
