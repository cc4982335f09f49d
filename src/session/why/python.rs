//! `why python`: why no newer Python series is locked.

use super::Subject;
use super::package::{Newer, failures, told};
use crate::lockfile::{Because, NeedKind};
use crate::model::conflict::Party;
use crate::model::project::specifiers_allow;
use crate::model::request::{Origin, PythonAllowed, PythonRequest};
use crate::model::solution::{Answer, Solution};
use crate::model::wheel::Python;
use crate::session::failure::TOO_LONG;

impl Subject<'_> {
    /// What stands against the next Python series, or what changes with it.
    pub(super) fn newer_python(&self) -> Vec<Because> {
        let because = |kind, text: String| Because { kind, text, source: None };
        let next = Python::new(self.target.python.minor + 1);
        if !self.registry.pythons().contains(&next.minor) {
            return vec![because(NeedKind::Newer, "none, this is the newest series".to_owned())];
        }
        let asked = self.request.python.as_ref();
        let is_allowed = asked.is_none_or(|asked| match &asked.allowed {
            PythonAllowed::Exact(python) => *python == next,
            PythonAllowed::Range(range) => specifiers_allow(range, next),
        });
        if let (Some(asked), false) = (asked, is_allowed) {
            return vec![because(NeedKind::Requested, format!("Python {} [{}]", asked.text, asked.origin))];
        }
        let mut request = self.request.clone();
        let allowed = PythonAllowed::Exact(next);
        request.python = Some(PythonRequest { allowed, text: next.to_string(), origin: Origin::Question });
        let newer = match self.solve(&request, &Party::Python, &self.target.preferences()) {
            Ok(Answer::Solution(solution)) if !solution.known_failures.is_empty() => {
                Newer::No(failures(&solution, &Party::Python))
            }
            Ok(Answer::Solution(solution)) => {
                let mut others = self.moved(&solution, "");
                others.extend(self.built_anew(&solution));
                Newer::Fits(solution.python, others)
            }
            Ok(Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _)) => Newer::No(told(*conflict)),
            Ok(Answer::TooLong | Answer::NeedMetadata(_)) => Newer::Unknown(TOO_LONG.to_owned()),
            Err(error) => Newer::Unknown(error.message),
        };
        let texts = match newer {
            Newer::Fits(python, others) if others.is_empty() => vec![format!("{python} would fit")],
            Newer::Fits(python, others) => vec![format!("{python} would fit, with {}", others.join(", "))],
            Newer::No(reasons) => {
                let reasons = reasons.into_iter().map(|reason| reason.text);
                std::iter::once(format!("{next} is not possible:")).chain(reasons).collect()
            }
            Newer::Unknown(why) => vec![format!("not checked: {why}")],
        };
        texts.into_iter().map(|text| because(NeedKind::Newer, text)).collect()
    }

    /// The locked wheels in whose place a solution builds a source distribution.
    fn built_anew(&self, solution: &Solution) -> Vec<String> {
        let has_wheel = |name: &str| self.target.package(name).is_some_and(|locked| locked.build.is_none());
        let built = solution.packages.iter().filter(|p| p.build.is_some() && has_wheel(&p.name));
        built.map(|p| format!("{} {} built from source", p.name, p.version)).collect()
    }
}
