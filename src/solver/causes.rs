//! Why a request has no solution: every cause that does not depend on another, and for each the changes that remove it.

use std::collections::BTreeSet;
use std::rc::Rc;

use pep508_rs::{Requirement, VerbatimUrl};

use super::edit::Edit;
use super::inputs::{Depth, Inputs};
use super::prove::{self, Cause, cause};
use super::pythons::{Outcome, attempt};
use super::relax;
use super::tables::Tables;
use crate::model::conflict::{Conflict, Party};
use crate::model::request::{Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::{Answer, Need};

/// At most this many causes are looked for.
const MAX: usize = 8;

/// The conflict with the changes that resolve it, and the metadata that must be fetched to check more changes and causes.
/// The error is the answer if there is no proof.
pub(super) fn explain<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    depth: Depth,
) -> Result<(Conflict, Vec<Need>), Answer> {
    // The lock only sets preferences; it must not affect which changes are offered.
    let question = inputs.question.with(&Edit::Keep(Box::default()));
    let inputs = &inputs.about(&question);
    let first = cause(inputs, tables, depth)?;
    // A request for the stack alone is refused without asking an index; its changes are solved for the stack.
    let is_of_stack = |user: &UserRequirement| STACK_PACKAGES.contains(&user.name());
    let depth = match inputs.question.request.requirements.iter().all(is_of_stack) {
        true => Depth::Stack,
        false => depth,
    };
    let Causes { found: mut causes, named, mut needs, mut cut } = independent(inputs, tables, depth, first);
    let mut facts: Vec<BTreeSet<Party>> = Vec::new();
    if let [_] = causes.as_slice() {
        (causes, facts) = of_machine(inputs, tables, depth, causes);
    }
    let of_all_facts: BTreeSet<Party> = facts.iter().flatten().cloned().collect();
    // What removes all of them first: the search for changes may end at its limit.
    let mut of_all = Vec::new();
    if causes.len() > 1 {
        let cores: Option<Vec<_>> = causes.iter().map(|cause| cause.core.clone()).collect();
        let core = cores.map(|cores| cores.into_iter().flatten().collect());
        let ways = relax::ways_out_of_all(inputs, tables, depth, (core, &of_all_facts));
        of_all = ways.found;
        needs.extend(ways.needs);
        cut |= ways.cut;
    }
    // To see what removes one cause, the others are out of the way: their packages in any version, or absent where they
    // cannot be had at all.
    let mut settle: fn(BTreeSet<String>) -> Edit = Edit::AnyVersionOf;
    if causes.len() > 1
        && let settled = inputs.question.with(&settle(named.clone()))
        && let Outcome::Impossible = attempt(&inputs.about(&settled), tables, depth)
    {
        settle = Edit::WithoutPackages;
    }
    let is_part = causes.len() > 1;
    for (i, cause) in causes.iter_mut().enumerate() {
        let own = cause.core.clone().unwrap_or_default();
        let others = named.iter().filter(|name| !own.contains(*name)).cloned().collect();
        let of_others = facts.iter().enumerate().filter(|(k, _)| *k != i).flat_map(|(_, facts)| facts);
        let alone = Edit::Together(vec![settle(others), Edit::without_parties(of_others)]);
        let question = inputs.question.with(&alone);
        let inputs = inputs.about(&question);
        let core = (cause.core.clone(), is_part);
        let ways = relax::ways_out(&inputs, tables, cause.level, depth, core);
        cause.conflict.would_work_if = ways.found;
        needs.extend(ways.needs);
        cut |= ways.cut;
    }
    if let [only] = causes.as_mut_slice()
        && only.core.is_none()
        && let Some(reasons) = prove::of_each_python(inputs, tables, only)
    {
        only.conflict.reasons = reasons;
    }
    let mut conflicts = causes.into_iter().map(|cause| cause.conflict);
    let mut first = conflicts.next().ok_or(Answer::TooLong)?;
    first.resolves_all = of_all;
    first.also = conflicts.collect();
    if cut {
        first = first.cut();
    }
    needs.sort();
    needs.dedup();
    Ok((first, needs))
}

/// The causes that do not rest on the same packages.
struct Causes {
    found: Vec<Cause>,
    /// The packages of the request that they rest on.
    named: BTreeSet<String>,
    /// The metadata that must be fetched to find more.
    needs: Vec<Need>,
    /// Whether the search for more ended at its limit.
    cut: bool,
}

/// Looks for more causes than the first: without the packages that the causes so far rest on, another proof is one of its own.
fn independent<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth, first: Cause) -> Causes {
    let mut causes = Causes { found: vec![first], named: BTreeSet::new(), needs: Vec::new(), cut: false };
    let request = &inputs.question.request;
    while causes.found.len() < MAX {
        let Some(core) = causes.found.last().and_then(|cause| cause.core.as_ref()) else { break };
        let before = causes.named.len();
        causes.named.extend(core.iter().filter(|name| is_requested(request, name)).cloned());
        // A companion in any version requires torch, so it is not out of the way beside them.
        if causes.named.contains("torch") {
            let is_any = |name: &&str| {
                request.find(name).is_some_and(|user| user.requirement.version_or_url.is_none())
            };
            causes.named.extend(STACK_PACKAGES.into_iter().filter(is_any).map(str::to_owned));
        }
        let question = inputs.question.with(&Edit::WithoutPackages(causes.named.clone()));
        if causes.named.len() == before || question.request.requirements.is_empty() {
            break;
        }
        if inputs.budget.is_explained() {
            causes.cut = true;
            break;
        }
        let rest = inputs.about(&question);
        match attempt(&rest, tables, depth) {
            Outcome::Impossible => {}
            Outcome::Need(more) => {
                causes.needs.extend(more);
                break;
            }
            ended => {
                causes.cut = matches!(ended, Outcome::TooLong);
                break;
            }
        }
        match cause(&rest, tables, depth) {
            Ok(next) if next.core.is_some() => causes.found.push(next),
            Err(Answer::NeedMetadata(more)) => {
                causes.needs.extend(more);
                break;
            }
            _ => break,
        }
    }
    causes
}

/// The causes why one package is excluded, by facts of the machine: without those that the causes so far rest on, another proof
/// is one of its own. The second value has the facts of each.
fn of_machine<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    depth: Depth,
    mut causes: Vec<Cause>,
) -> (Vec<Cause>, Vec<BTreeSet<Party>>) {
    let mut known: BTreeSet<Party> = BTreeSet::new();
    while causes.len() < MAX && !inputs.budget.is_explained() {
        let Some(own) = causes.last().map(|cause| replaceable(&cause.conflict)) else { break };
        if own.is_empty() || !own.is_disjoint(&known) {
            break;
        }
        known.extend(own);
        let question = inputs.question.with(&Edit::without_parties(&known));
        let rest = inputs.about(&question);
        let Outcome::Impossible = attempt(&rest, tables, depth) else { break };
        let Ok(next) = cause(&rest, tables, depth) else { break };
        // One that rests on a fact that is out of the way is no other.
        if !replaceable(&next.conflict).is_disjoint(&known) {
            break;
        }
        causes.push(next);
    }
    // One that rests on no fact of the machine is there whatever the machine is.
    if causes.len() > 1
        && let Some(last) = causes.pop_if(|cause| replaceable(&cause.conflict).is_empty())
    {
        return (vec![last], Vec::new());
    }
    // One whose own facts exclude nothing by themselves goes with the others. The last proof needs none of theirs.
    let last = causes.len() - 1;
    let is_own = |i: usize| {
        let own = replaceable(&causes[i].conflict);
        let parties =
            causes.iter().flat_map(|cause| &cause.conflict.reasons).flat_map(|reason| &reason.parties);
        let alone = Edit::without_parties(parties.filter(|party| !own.contains(party)));
        let question = inputs.question.with(&alone);
        i == last || matches!(attempt(&inputs.about(&question), tables, depth), Outcome::Impossible)
    };
    let kept: Vec<bool> = (0..causes.len()).map(is_own).collect();
    let causes: Vec<Cause> =
        causes.into_iter().zip(kept).filter_map(|(cause, is_kept)| is_kept.then_some(cause)).collect();
    let facts = match causes.as_slice() {
        [_] => Vec::new(),
        several => several.iter().map(|cause| replaceable(&cause.conflict)).collect(),
    };
    (causes, facts)
}

/// The facts of the machine that a conflict rests on and that can be otherwise.
fn replaceable(conflict: &Conflict) -> BTreeSet<Party> {
    let parties = conflict.reasons.iter().flat_map(|reason| &reason.parties);
    parties.filter(|party| relax::REPLACEABLE.contains(party)).cloned().collect()
}

/// Whether a request names a package, as a requirement or a constraint.
fn is_requested(request: &Request, name: &str) -> bool {
    let is_of = |requirement: &Requirement<VerbatimUrl>| requirement.name.as_ref() as &str == name;
    request.constraints.iter().any(|bound| is_of(&bound.requirement))
        || request.requirements.iter().map(|user| &user.requirement).any(is_of)
}
