//! `why --not SPEC`: the proof that a requirement cannot be met, or the solution that meets it.

use pep440_rs::Version;
use serde::Serialize;

use super::{Subject, is_the_question, question};
use crate::cli::conflict::{self, Unknown};
use crate::cli::error::CliError;
use crate::cli::printer::Printer;
use crate::cli::{exit, manifest};
use crate::model::conflict::{Change, Party, Reason, WayOut};
use crate::model::request::{Origin, Preferences, Request};
use crate::model::solution::{Answer, Solution};
use crate::model::text::clean;

/// Whether a requirement can be met.
#[derive(Serialize)]
pub(super) struct NotAnswer {
    possible: bool,
    #[serde(flatten)]
    met_by: Option<MetBy>,
    /// What stands against it; nothing if it is possible.
    reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_work_if: Option<Vec<WayOut>>,
    /// As in a conflict: the indexes that did not answer, and whether the search for changes ended at its limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    silent: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    /// The requirement, for the text.
    #[serde(skip)]
    spec: String,
}

/// The solution that meets the requirement.
#[derive(Serialize)]
struct MetBy {
    python: String,
    torch: Option<Version>,
    /// The version of the package in question.
    version: Option<Version>,
    /// What the text names: `: numpy 2.1.0, with torch 2.9.1 cu128, Python 3.12`.
    #[serde(skip)]
    text: String,
    /// What is known to fail in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fails: Vec<String>,
    /// Whether `envlock add` with the requirement gives this solution.
    #[serde(skip)]
    can_be_added: bool,
}

impl NotAnswer {
    /// The requirement cannot be met: yes, that is proved.
    pub(super) fn exit(&self) -> u8 {
        if self.possible { exit::NO } else { exit::YES }
    }

    pub(super) fn print(&self, p: &Printer) {
        let Some(met) = &self.met_by else {
            p.out(&format!("`{}` is impossible:", self.spec));
            p.out("");
            conflict::reasons(p, &self.reasons);
            let unknown = Unknown { silent: &self.silent, cut: self.cut };
            let ways = self.would_work_if.as_deref().unwrap_or_default();
            conflict::ways_out(p, ways, unknown, conflict::SOLVED);
            return;
        };
        p.out(&format!("`{}` is possible{}", self.spec, met.text));
        for failure in &met.fails {
            p.warning(failure);
        }
        if met.can_be_added {
            p.hint(&format!("add it with `envlock add '{}'`", self.spec));
        }
    }
}

impl Subject<'_> {
    pub(super) fn why_not(&self, spec: &str) -> Result<NotAnswer, CliError> {
        let (request, party) = self.with_the_question(spec)?;
        let text = clean(spec, 60);
        match self.solve(&request, &party, &Preferences::default())? {
            Answer::Solution(solution) => {
                let asked = match &party {
                    Party::Package(name) => solution.packages.iter().find(|p| p.name == *name),
                    _ => None,
                };
                let got = asked.map(|p| format!(": {} {}", p.name, p.version)).unwrap_or_default();
                // The hint puts the specifier in single quotes, so one that contains a single quote gets no hint.
                // Neither does a lock with several targets: another target may not allow it.
                let added = request.requirements.len() > self.request.requirements.len();
                let met = MetBy {
                    python: solution.python.to_string(),
                    torch: solution.stack.as_ref().map(|stack| stack.version.clone()),
                    version: asked.map(|package| package.version.clone()),
                    text: format!("{got}{}", stack_of(&solution)),
                    fails: solution.known_failures.iter().map(|note| note.text.clone()).collect(),
                    can_be_added: added && !self.alone && !spec.contains('\''),
                };
                Ok(NotAnswer {
                    possible: true,
                    met_by: Some(met),
                    reasons: Vec::new(),
                    would_work_if: None,
                    silent: Vec::new(),
                    cut: false,
                    spec: text,
                })
            }
            Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => {
                // Dropping the requirement in question is not a way out.
                let limits = request.requirements.len() == self.request.requirements.len();
                let (silent, cut) = (conflict.silent, conflict.cut);
                let (mut reasons, mut ways) = (conflict.reasons, conflict.would_work_if);
                ways.retain(|way| {
                    let is_set = matches!(way.change, Change::Together(_));
                    way.party != party || is_set || (!limits && answers(way, &request))
                });
                reasons.retain(|reason| !is_the_question(reason));
                Ok(NotAnswer {
                    possible: false,
                    met_by: None,
                    reasons,
                    would_work_if: Some(ways),
                    silent,
                    cut,
                    spec: text,
                })
            }
            Answer::TooLong | Answer::NeedMetadata(_) => {
                Err(CliError::internal("resolution exceeded the step limit"))
            }
        }
    }

    /// The request with the requirement in question, and what it is about.
    fn with_the_question(&self, spec: &str) -> Result<(Request, Party), CliError> {
        let mut request = self.request.clone();
        let limited = ["cuda", "cudnn", "nccl"].iter().find(|name| {
            spec.trim()
                .strip_prefix(**name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        });
        if let Some(limited) = limited.filter(|_| self.target.stack.is_none()) {
            return Err(CliError::usage(format!(
                "`{limited}` limits the builds of torch, and the lock has no torch"
            ))
            .hint("registry/frameworks lists what each release is built with; request another release"));
        }
        let party = match manifest::stack_limit(&mut request, spec, &Origin::Question) {
            Some(limited) => limited.map_err(CliError::usage)?,
            None => {
                let asked = question(spec)?;
                let name = asked.requirement.name.to_string();
                if ["driver", "gpu", "glibc"].contains(&name.as_str()) {
                    return Err(CliError::usage(format!(
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
