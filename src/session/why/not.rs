//! `why --not SPEC`: the proof that a requirement cannot be met, or the solution that meets it.

use pep440_rs::Version;
use serde::Serialize;

use super::{Subject, is_the_question, question};
use crate::model::conflict::{Change, Conflict, Party, Reason, WayOut};
use crate::model::level::Level;
use crate::model::request::{Origin, Preferences, PythonRequest, Request, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::text::clean;
use crate::model::wheel::Python;
use crate::session::exit;
use crate::session::failure::{Failure, FailureKind};
use crate::session::files;
use crate::session::manifest::{self, narrowed};
use crate::session::options::SolveOptions;
use crate::session::retry::{Form, TypedRequest};
use crate::solver::open_question;

/// Whether a requirement can be met.
#[derive(Serialize)]
pub(crate) struct NotAnswer {
    pub possible: bool,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The requirement, for the text.
    #[serde(skip)]
    pub spec: String,
    /// The request with the requirement.
    #[serde(skip)]
    pub request: Request,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    /// It can be met.
    Met {
        #[serde(flatten)]
        by: MetBy,
        /// What stands against it: nothing.
        reasons: [(); 0],
    },
    /// It cannot.
    Conflict(Box<Conflict>),
}

/// The solution that meets the requirement.
#[derive(Serialize)]
pub(crate) struct MetBy {
    pub python: String,
    pub torch: Option<Version>,
    /// The version of the package in question.
    pub version: Option<Version>,
    /// What the text names: `: numpy 2.1.0, with torch 2.9.1 cu128, Python 3.12`.
    #[serde(skip)]
    pub text: String,
    /// What is known to fail in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fails: Vec<String>,
    /// Whether the lock meets it as it is.
    #[serde(skip)]
    pub is_locked: bool,
    /// Whether `envlock add` with the requirement gives this solution.
    #[serde(skip)]
    pub can_be_added: bool,
}

impl NotAnswer {
    /// The requirement cannot be met: yes, that is proved.
    pub(crate) fn exit(&self) -> u8 {
        if self.possible { exit::NO } else { exit::YES }
    }
}

impl Subject<'_> {
    pub(super) fn why_not(&self, spec: &str) -> Result<NotAnswer, Failure> {
        let (mut request, party) = self.with_the_question(spec)?;
        let limit = match party {
            Party::Python => self.beside_own_python(&mut request),
            _ => None,
        };
        let answer = self.answer_of(&request, &party)?;
        let outcome = match (limit, answer) {
            (Some(limit), answer) => {
                let mut series = self.registry.pythons().iter().map(|minor| Python::new(*minor));
                let asked = request.python.as_ref();
                let series = series.find(|series| asked.is_some_and(|asked| asked.allows(*series)));
                Outcome::Conflict(Box::new(beside_the_limit(answer, limit, series, self.target.level)?))
            }
            (None, Answer::Solution(solution)) => match overridden(&request, &party, &solution) {
                Some(conflict) => Outcome::Conflict(Box::new(conflict)),
                None => Outcome::Met { by: self.met_by(spec, &request, &party, &solution), reasons: [] },
            },
            (None, Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _)) => {
                Outcome::Conflict(Box::new(self.against(*conflict, &request, &party)))
            }
            (None, Answer::TooLong | Answer::NeedMetadata(_)) => return Err(Failure::too_long()),
        };
        let outcome = match outcome {
            Outcome::Conflict(mut conflict) => {
                self.name_commands(spec, &request, &mut conflict);
                Outcome::Conflict(conflict)
            }
            met => met,
        };
        let possible = matches!(outcome, Outcome::Met { .. });
        Ok(NotAnswer { possible, outcome, spec: clean(spec, 60), request })
    }

    /// Names the commands of the ways out, where the question can be added to a manifest. Of a lock with several targets another
    /// one may not allow it.
    fn name_commands(&self, spec: &str, request: &Request, conflict: &mut Conflict) {
        let is_requirement = request.requirements.len() > self.request.requirements.len();
        let Some(manifest) = self.project.manifest.as_ref().filter(|_| is_requirement && !self.alone) else {
            return;
        };
        let mut typed = request.clone();
        for question in typed.requirements.iter_mut().filter(|own| own.origin == Origin::Question) {
            question.origin = Origin::CommandLine;
        }
        let typed = TypedRequest {
            global: self.global,
            request: &typed,
            options: &SolveOptions::default(),
            manifest_name: files::manifest_in(&self.project.folder),
            manifest_python: manifest.request.python.as_ref(),
            has_python_of_target: manifest.targets.iter().any(|row| row.python.is_some()),
            form: Form::Added,
            packages: &[],
            files: &[],
        };
        typed.name_commands_of_question(spec, conflict);
    }

    /// Asks about the Pythons that the project admits too. Where it admits none of them, its limit is returned and the question
    /// asked without it: it is still worth an answer.
    fn beside_own_python(&self, request: &mut Request) -> Option<&PythonRequest> {
        let own = self.request.python.as_ref()?;
        let asked = request.python.take()?;
        let both = narrowed(Some(own), Some(asked.clone())).ok().flatten();
        let has_one = |both: &PythonRequest| {
            self.registry.pythons().iter().any(|minor| both.allows(Python::new(*minor)))
        };
        let both = both.filter(has_one);
        let limit = both.is_none().then_some(own);
        request.python = both.or(Some(asked));
        limit
    }

    /// The answer without the lock's preferences.
    fn answer_of(&self, request: &Request, party: &Party) -> Result<Answer, Failure> {
        let nothing_kept = Preferences::default();
        let answer = self.solve(request, party, &nothing_kept)?;
        let Answer::Conflict(conflict) = &answer else { return Ok(answer) };
        // What no row says is not proved impossible.
        if let Some(open) = open_question(self.registry, &self.host, request, false) {
            return Err(
                Failure::new(FailureKind::UnknownRow, format!("not known: {open}")).hint(open.how_to_read())
            );
        }
        // What the stack alone allows, the other packages may not; without their indexes it is offered for the stack.
        let is_for_stack = conflict.would_work_if.iter().any(|way| way.level == Level::Stack);
        if self.target.level == Level::Full && is_for_stack && request.has_others() {
            return Ok(self.solve_with_indexes(request, &nothing_kept).unwrap_or(answer));
        }
        Ok(answer)
    }

    /// What meets the question.
    fn met_by(&self, spec: &str, request: &Request, party: &Party, solution: &Solution) -> MetBy {
        let asked = match party {
            Party::Package(name) => solution.packages.iter().find(|p| p.name == *name),
            _ => None,
        };
        let got = asked.map(|p| format!(": {} {}", p.name, p.version)).unwrap_or_default();
        let question = request.requirements.iter().rfind(|own| own.origin == Origin::Question);
        let bounds = question.and_then(UserRequirement::specifiers);
        let locked = match party {
            Party::Package(name) => self.target.packages.iter().find(|own| own.name == *name),
            _ => None,
        };
        // The hint puts the specifier in single quotes, so one that contains a single quote gets no hint.
        // Neither does a lock with several targets: another target may not allow it.
        let added = request.requirements.len() > self.request.requirements.len();
        MetBy {
            python: solution.python.to_string(),
            torch: solution.stack.as_ref().map(|stack| stack.version.clone()),
            version: asked.map(|package| package.version.clone()),
            text: format!("{got}{}", stack_of(solution)),
            fails: solution.known_failures.iter().map(|note| note.text.clone()).collect(),
            is_locked: locked.is_some_and(|own| bounds.is_some_and(|b| b.contains(&own.version))),
            can_be_added: added && !self.alone && !spec.contains('\''),
        }
    }

    /// What stands against the question, and the ways out that still answer it.
    fn against(&self, mut conflict: Conflict, request: &Request, party: &Party) -> Conflict {
        // What stands against it beside the project's own requirement.
        if conflict.would_work_if.is_empty()
            && let Some(beside) = self.without_own_requirement(request, party)
            // Of what no row says, nothing is told but what the project itself requires.
            && open_question(self.registry, &self.host, &beside, false).is_none()
            && let Ok(Answer::Conflict(other) | Answer::ConflictSoFar(other, _)) =
                self.solve(&beside, party, &Preferences::default())
        {
            // Where the same stands against it, the project's own requirement has no part in it.
            let is_told = |reason: &Reason| conflict.reasons.iter().any(|own| own.text == reason.text);
            match other.reasons.iter().all(is_told) && other.also.is_empty() {
                true => conflict = *other,
                false => conflict.also.push(*other),
            }
        }
        // Dropping the requirement in question is not a way out.
        let limits = request.requirements.len() == self.request.requirements.len();
        let is_way = |way: &WayOut| {
            let is_set = matches!(way.change, Change::Together(_));
            way.party != *party || is_set || (!limits && answers(way, request))
        };
        without_the_question(conflict, &is_way)
    }

    /// The request without what the project requires of the package in question; `None` if it requires nothing.
    fn without_own_requirement(&self, request: &Request, party: &Party) -> Option<Request> {
        let Party::Package(name) = party else { return None };
        let mut out = request.clone();
        let is_own = |user: &UserRequirement| user.origin != Origin::Question && user.name() == name;
        out.requirements.retain(|user| !is_own(user));
        out.constraints.retain(|user| !is_own(user));
        let lines = |request: &Request| request.requirements.len() + request.constraints.len();
        (lines(&out) < lines(request)).then_some(out)
    }

    /// The request with the requirement in question, and what it is about.
    fn with_the_question(&self, spec: &str) -> Result<(Request, Party), Failure> {
        let mut request = self.request.clone();
        let limited = ["cuda", "cudnn", "nccl"].iter().find(|name| {
            spec.trim()
                .strip_prefix(**name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        });
        if let Some(limited) = limited.filter(|_| self.target.stack.is_none()) {
            return Err(Failure::usage(format!(
                "`{limited}` limits the builds of torch, and the lock has no torch"
            ))
            .hint("registry/frameworks lists what each release is built with; request another release"));
        }
        let party = match manifest::stack_limit(&mut request, spec, &Origin::Question) {
            Some(limited) => limited.map_err(Failure::usage)?,
            None => {
                let asked = question(spec)?;
                let name = asked.name().to_owned();
                if ["driver", "gpu", "glibc"].contains(&name.as_str()) {
                    return Err(Failure::usage(format!(
                        "`{name}` belongs to the machine, not to the request"
                    ))
                    .hint("`envlock plan --gpu NAME --driver V` lists what another machine can run"));
                }
                request.requirements.push(asked);
                Party::package(name)
            }
        };
        Ok((request, party))
    }
}

/// That an override stands in the place of what is asked, too.
fn overridden(request: &Request, party: &Party, solution: &Solution) -> Option<Conflict> {
    let Party::Package(name) = party else { return None };
    let user = request.overrides.iter().find(|own| own.name() == name)?;
    let got = solution.packages.iter().find(|own| own.name == *name)?;
    let question = request.requirements.iter().rfind(|own| own.origin == Origin::Question)?;
    if question.specifiers().is_none_or(|bounds| bounds.contains(&got.version)) {
        return None;
    }
    let text = format!("you override it with `{}`", clean(&user.line(), 120));
    let reason = Reason::asked(&user.origin, user.bounds_above(), text).about([party.clone()]);
    Some(Conflict::of("").because([reason]))
}

/// A Python outside the project's limit: that limit, and what else stands against it. `answer` is that without the limit,
/// `series` the first Python of the question.
fn beside_the_limit(
    answer: Answer,
    limit: &PythonRequest,
    series: Option<Python>,
    level: Level,
) -> Result<Conflict, Failure> {
    let text = format!("you require Python {}", limit.text);
    let own = Reason::asked(&limit.origin, limit.bounds_above(), text).about([Party::Python]);
    let way = |python: Python, gives: String| {
        let way = WayOut::new(Change::Python(python), Party::Python, level, gives);
        way.with([("python".to_owned(), python.to_string())])
    };
    let alone = Conflict::of("").because([own]);
    match answer {
        Answer::Solution(solution) => {
            let gives = match &solution.stack {
                Some(stack) => format!("{} {} {}", stack.framework, stack.version, stack.variant),
                None => String::new(),
            };
            Ok(alone.with_ways([way(solution.python, gives)]))
        }
        Answer::Conflict(other) | Answer::ConflictSoFar(other, _) => {
            // Another Python is not what is asked about.
            let mut other = without_the_question(*other, &|way| !changes_python(&way.change));
            let with_python = |mut way: WayOut| {
                let mut changes: Vec<Change> = series.map(Change::Python).into_iter().collect();
                match way.change {
                    Change::Together(more) => changes.extend(more),
                    one => changes.push(one),
                }
                way.change = Change::Together(changes);
                way
            };
            if other.also.is_empty() {
                let would_work_if = other.would_work_if.into_iter().map(with_python).collect();
                let reasons = alone.reasons.into_iter().chain(other.reasons).collect();
                return Ok(Conflict { reasons, would_work_if, ..other });
            }
            let (more, of_all) = (std::mem::take(&mut other.also), std::mem::take(&mut other.resolves_all));
            Ok(Conflict {
                would_work_if: series.map(|series| way(series, String::new())).into_iter().collect(),
                resolves_all: of_all.into_iter().map(with_python).collect(),
                silent: other.silent.clone(),
                cut: other.cut,
                also: std::iter::once(other).chain(more).collect(),
                ..alone
            })
        }
        Answer::TooLong | Answer::NeedMetadata(_) => Err(Failure::too_long()),
    }
}

/// Whether a change is one of Python.
fn changes_python(change: &Change) -> bool {
    match change {
        Change::Python(_) => true,
        Change::Together(changes) => changes.iter().any(changes_python),
        _ => false,
    }
}

/// A conflict without the requirement in question among its reasons, and with these ways out.
fn without_the_question(mut conflict: Conflict, is_way: &impl Fn(&WayOut) -> bool) -> Conflict {
    conflict.reasons.retain(|reason| !is_the_question(reason));
    conflict.would_work_if.retain(is_way);
    conflict.resolves_all.retain(is_way);
    conflict.also = conflict.also.into_iter().map(|other| without_the_question(other, is_way)).collect();
    conflict
}

/// Whether a way out still satisfies the requirement in question, which is the last of the request.
fn answers(way: &WayOut, request: &Request) -> bool {
    let Some(asked) = request.requirements.last() else { return false };
    asked
        .specifiers()
        .zip(way.release.as_ref())
        .is_some_and(|(specifiers, release)| specifiers.contains(release))
}

/// `, with torch 2.9.1 cu128, Python 3.12`
fn stack_of(solution: &Solution) -> String {
    let stack = solution.stack.as_ref().map(|s| format!("{} {} {}, ", s.framework, s.version, s.variant));
    format!(", with {}Python {}", stack.unwrap_or_default(), solution.python)
}
