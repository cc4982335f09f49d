//! Extras that are asked for and that are empty on a Python: `trl[vllm]`, whose lines have `python_version < "3.13"`.

use pep508_rs::ExtraName;

use super::node::{Node, Selected};
use super::problem::Problem;
use super::release;
use super::tables::is_stack_package;
use crate::model::marker::marker_environment;
use crate::model::solution::Note;
use crate::model::wheel::Python;

/// An extra that requires nothing on this Python.
pub(super) struct EmptyExtra {
    name: String,
    extra: String,
    /// The newest Python that the request allows on which it requires something.
    fits: Python,
}

impl Problem<'_> {
    /// The extras that the request asks for and that require nothing on this Python, where they do on another one that it
    /// allows.
    pub fn empty_extras(&self, selected: &Selected) -> Vec<EmptyExtra> {
        let mut out = Vec::new();
        for user in self.user_requirements().filter(|user| !is_stack_package(user.name())) {
            let name = user.name();
            if user.requirement.extras.is_empty() || !selected.contains_key(&Node::package(name)) {
                continue;
            }
            let Some(metadata) = release::metadata(self, selected, name) else { continue };
            let Some(candidate) = release::candidate(self, selected, name) else { continue };
            let requires = |python: &Python, extra: &ExtraName| {
                let environment = marker_environment(*python, self.machine.platform);
                let lines = metadata.applying(&[&environment], Some(extra.clone()));
                lines.is_ok_and(|lines| !lines.is_empty())
            };
            let is_for = |python: &&Python| self.has_usable(&candidate, **python);
            for extra in user.requirement.extras.iter().filter(|extra| metadata.has_extra(extra)) {
                if requires(&self.pythons.series[0], extra) {
                    continue;
                }
                let mut others = self.pythons.allowed.iter().rev().filter(is_for);
                if let Some(fits) = others.find(|python| requires(python, extra)) {
                    out.push(EmptyExtra { name: name.to_owned(), extra: extra.to_string(), fits: *fits });
                }
            }
        }
        out
    }
}

/// One note for each.
pub(super) fn notes(problem: &Problem<'_>, selected: &Selected) -> Vec<Note> {
    let python = problem.pythons.series[0];
    let told = |own: EmptyExtra| {
        let EmptyExtra { name, extra, fits } = own;
        let text = format!("{name}[{extra}] requires nothing on Python {python}; it does on Python {fits}");
        Note { text, source: Some("its metadata".to_owned()) }
    };
    problem.empty_extras(selected).into_iter().map(told).collect()
}
