//! Several requested packages: none is sacrificed for another.
//!
//! The ranked solve decides torch first, and lets the other requested packages step back: `torch vllm` would give the
//! newest torch and a vllm of years ago, which had no upper bound yet. So packages are decided in groups: those that
//! depend on other requested packages before these, each the newest that is possible then. Packages of a group do not
//! depend on each other; the answer is the one whose largest step back, counted in minor lines (x.y), is the smallest.

use std::rc::Rc;

use super::deciding::Deciding;
use super::groups::groups;
use super::inputs::{Depth, Inputs, allowed_pythons};
use super::problem::Problem;
use super::pythons::{Newest, Outcome, attempt, with_all_newest};
use super::requested_packages::asked;
use super::tables::{Tables, is_stack_package};

/// Like [`attempt`], but no requested package is sacrificed for another.
pub(super) fn attempt_fairly<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Outcome {
    let names = || inputs.question.request.requirements.iter().map(|user| user.name());
    if depth == Depth::Stack || names().count() < 2 || names().all(is_stack_package) {
        return attempt(inputs, tables, depth);
    }
    // All packages but the stack at their newest releases, with the best stack that this allows.
    let mut others_are_newest = false;
    let first = match names().any(is_stack_package) {
        true => match with_all_newest(inputs, tables) {
            Err(needs) => return Outcome::Need(needs),
            Ok(Newest::Best(solution)) => return Outcome::Solved(solution),
            Ok(Newest::OlderStack(solution)) => {
                others_are_newest = true;
                Outcome::Solved(solution)
            }
            Ok(Newest::None) => attempt(inputs, tables, Depth::Full),
        },
        false => attempt(inputs, tables, Depth::Full),
    };
    let Outcome::Solved(first) = first else { return first };
    let pythons = allowed_pythons(inputs.catalogue.registry, &inputs.question.request);
    let problem = Problem::new(inputs, tables, Depth::Full, pythons);
    let decided = asked(&problem).and_then(|asked| {
        let groups = groups(&asked, &first);
        let mut deciding = Deciding::new(inputs, tables, first);
        for group in &groups {
            let is_stack = group.iter().all(|one| is_stack_package(&one.name));
            if !(is_stack && others_are_newest) {
                deciding.decide(group)?;
            }
        }
        Ok(deciding.end())
    });
    decided.map_or_else(Outcome::Need, Outcome::Solved)
}
