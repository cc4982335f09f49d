//! The search for an answer that sacrifices no requested package, group by group.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pep440_rs::Version;

use super::best::{Tried, best, lowest};
use super::edit::Edit;
use super::inputs::{Depth, Inputs, allowed_pythons};
use super::memory::{Doubtful, Ended, Wish};
use super::node::Node;
use super::problem::Problem;
use super::pythons::{Outcome, attempt_with};
use super::question::Question;
use super::requested_packages::{Asked, steps_back, version_of};
use super::search;
use super::tables::{Set, Tables, is_stack_package};
use crate::model::solution::{Need, Note, Solution};
use crate::model::version::{minor_line, public};
use crate::model::wheel::Python;

/// The search for a better answer, group by group.
pub(super) struct Deciding<'i, 'a> {
    inputs: &'i Inputs<'a>,
    tables: &'i Rc<Tables<'a>>,
    /// The question, and the versions that are decided.
    question: Question<'i>,
    best: Box<Solution>,
    is_cut: bool,
}

impl<'i, 'a> Deciding<'i, 'a> {
    /// Starts from an answer.
    pub fn new(inputs: &'i Inputs<'a>, tables: &'i Rc<Tables<'a>>, first: Box<Solution>) -> Deciding<'i, 'a> {
        Deciding { inputs, tables, question: inputs.question.by_ref(), best: first, is_cut: false }
    }

    /// The best answer that was found.
    pub fn end(mut self) -> Box<Solution> {
        if self.is_cut {
            let text = "the search for newer releases of the requested packages ended at its limit: there may be some";
            self.best.notes.push(Note { text: text.to_owned(), source: None });
        }
        self.best
    }

    /// Decides a group: the smallest largest step back, then each package in turn the newest that is possible.
    pub fn decide(&mut self, group: &[&Asked<'_>]) -> Result<(), Vec<Need>> {
        // What the old lock holds is kept where it fits.
        let (kept, open): (Vec<_>, Vec<_>) = group.iter().copied().partition(|one| self.is_kept(one));
        for one in kept {
            self.pin(one);
        }
        // An answer in which one of them steps back further is not better.
        let largest = largest_step(&open, &self.best);
        within(&open, largest).apply(&mut self.question);
        match self.can_be_newer(&open, &[])? {
            Some(hopeless) => self.renew_all(&open, hopeless)?,
            None => open.iter().for_each(|one| self.pin(one)),
        }
        Ok(())
    }

    /// Makes each package of a group in turn the newest that is possible. On the `hopeless` series none of them can be
    /// newer.
    fn renew_all(&mut self, group: &[&Asked<'_>], mut hopeless: Vec<Python>) -> Result<(), Vec<Need>> {
        if group.len() > 1 {
            self.reduce_largest_step(group, &mut hopeless)?;
        }
        for (i, one) in group.iter().enumerate() {
            let of_one = match group.len() {
                1 => Some(hopeless.clone()),
                _ => self.can_be_newer(&group[i..=i], &hopeless)?,
            };
            if let Some(of_one) = of_one {
                let before = self.best.clone();
                self.renew(one, &of_one)?;
                self.keep_if_none_is_older(&mut hopeless, group, &before);
            }
            self.pin(one);
        }
        Ok(())
    }

    /// Forgets the hopeless series if a package of the group is older than before: there, newer than now is not newer than
    /// it was.
    fn keep_if_none_is_older(&self, hopeless: &mut Vec<Python>, group: &[&Asked<'_>], before: &Solution) {
        if group.iter().any(|one| is_newer(before, &self.best, one)) {
            hopeless.clear();
        }
    }

    fn is_kept(&self, one: &Asked<'_>) -> bool {
        let kept = self.inputs.question.preferences.versions.get(&one.name);
        kept.is_some() && version_of(&self.best, &one.name) == kept
    }

    /// Whether one of the packages can be newer beside what is decided: if so, the series on which none can. Those of
    /// `hopeless` are known to be such.
    fn can_be_newer(
        &mut self,
        group: &[&Asked<'_>],
        hopeless: &[Python],
    ) -> Result<Option<Vec<Python>>, Vec<Need>> {
        let newer = |one: &&Asked<'_>| {
            let chosen = version_of(&self.best, &one.name)?;
            one.newer_than(&public(chosen)).map(|set: Set| (Node::package(&one.name), set))
        };
        let alternatives: Vec<(Node, Set)> = group.iter().filter_map(newer).collect();
        if alternatives.is_empty() {
            return Ok(None);
        }
        let inputs = self.inputs.about(&self.question);
        let near: BTreeMap<String, Version> =
            self.best.packages.iter().map(|own| (own.name.clone(), own.version.clone())).collect();
        let mut pythons = allowed_pythons(inputs.catalogue.registry, &self.question.request);
        pythons.retain(|python| !hopeless.contains(python));
        let mut hopeless = hopeless.to_vec();
        let search = |pythons: &[Python], wish: &Wish| {
            let mut problem = Problem::new(&inputs, self.tables, Depth::Full, pythons.to_vec());
            problem.asked.near = Some(&near);
            problem.asked.is_permissive = pythons.len() > 1;
            problem.asked.admits = Doubtful::default();
            problem.asked.wish = wish.clone();
            search::ranked(&problem)
        };
        // Mostly the requested packages alone prove that it is impossible.
        let alone = Wish::Better { alternatives: alternatives.clone(), not_older: Vec::new() };
        let whole = Wish::OneOf(alternatives);
        let find = |pythons: &[Python]| match search(pythons, &alone)? {
            ended @ Ended::Impossible(_) => Ok(ended),
            Ended::Selected(_) | Ended::TooLong => search(pythons, &whole),
        };
        // What all Pythons together exclude, each one does: only requirements of all of them count then.
        if let Ended::Impossible(_) = find(&pythons)? {
            return Ok(None);
        }
        let (own, others): (Vec<&[Python]>, Vec<&[Python]>) =
            pythons.chunks(1).rev().partition(|one| one[0].minor == self.best.python.minor);
        let found = best(own.into_iter().chain(others).enumerate(), |(i, python), _| {
            Ok::<_, Vec<Need>>(match find(python)? {
                Ended::Selected(_) => Tried::Last((), ()),
                Ended::TooLong => {
                    self.is_cut = true;
                    // It would not end on the others either.
                    if i == 0 { Tried::Over } else { Tried::NotBetter }
                }
                Ended::Impossible(_) => {
                    hopeless.extend(python);
                    Tried::NotBetter
                }
            })
        })?;
        Ok(found.map(|_| hopeless))
    }

    /// Finds the answer in which the largest step back of the packages is the smallest. Where torch is one of them, and
    /// its step is not larger then, it is as new as it can be. A series stays in `hopeless` while none of the packages can be
    /// newer there than in the answer.
    fn reduce_largest_step(
        &mut self,
        group: &[&Asked<'_>],
        hopeless: &mut Vec<Python>,
    ) -> Result<(), Vec<Need>> {
        let is_stack = |one: &&&Asked<'_>| is_stack_package(&one.name);
        let before = self.best.clone();
        let most = lowest(0..largest_step(group, &self.best), |step| -> Result<Option<usize>, Vec<Need>> {
            let Some(solution) = self.solve(&within(group, step), hopeless)? else { return Ok(None) };
            let reached = largest_step(group, &solution);
            self.best = solution;
            Ok(Some(reached))
        })?;
        within(group, most).apply(&mut self.question);
        let stack: Vec<&Asked<'_>> = group.iter().filter(is_stack).copied().collect();
        self.keep_if_none_is_older(hopeless, group, &before);
        if let Some(of_stack) = self.can_be_newer(&stack, hopeless)? {
            let before = self.best.clone();
            if let Some(solution) = self.solve(&Edit::Together(Vec::new()), &of_stack)?
                && stack.iter().any(|one| is_newer(&solution, &self.best, one))
            {
                self.best = solution;
                self.keep_if_none_is_older(hopeless, group, &before);
            }
        }
        Ok(())
    }

    /// Finds the newest release of a package that is possible; on the `hopeless` series there is none that is newer.
    fn renew(&mut self, one: &Asked<'_>, hopeless: &[Python]) -> Result<(), Vec<Need>> {
        let Some(reached) = version_of(&self.best, &one.name).map(public) else { return Ok(()) };
        let newer: Vec<&Version> = one.versions().take_while(|version| public(version) > reached).collect();
        lowest(0..newer.len(), |tried| -> Result<Option<usize>, Vec<Need>> {
            let Some(not_older) = Edit::bound(&one.name, ">=", newer[tried]) else { return Ok(None) };
            let Some(solution) = self.solve(&not_older, hopeless)? else { return Ok(None) };
            let found = version_of(&solution, &one.name).map(public);
            let place = newer.iter().position(|version| found.as_ref() == Some(&public(version)));
            self.best = solution;
            Ok(Some(place.unwrap_or(tried)))
        })?;
        Ok(())
    }

    /// Adds the version that a package has in the answer.
    fn pin(&mut self, one: &Asked<'_>) {
        let Some(version) = version_of(&self.best, &one.name) else { return };
        let public = public(version);
        let pinned =
            Edit::bound(&one.name, "==", if is_stack_package(&one.name) { &public } else { version });
        pinned.iter().for_each(|edit| edit.apply(&mut self.question));
    }

    /// Solves the question after an edit; `None` if it has no answer, or none within the budget. On the `hopeless` series it
    /// is known to have none.
    fn solve(&mut self, edit: &Edit, hopeless: &[Python]) -> Result<Option<Box<Solution>>, Vec<Need>> {
        if self.inputs.budget.is_improved() {
            self.is_cut = true;
            return Ok(None);
        }
        let question = self.question.with(edit);
        // An answer that admits something doubtful is not better.
        match attempt_with(
            &self.inputs.about(&question),
            self.tables,
            Depth::Full,
            Doubtful::default(),
            hopeless,
        ) {
            Outcome::Solved(solution) => Ok(Some(solution)),
            Outcome::Need(needs) => Err(needs),
            Outcome::Impossible => Ok(None),
            Outcome::TooLong => {
                self.is_cut = true;
                Ok(None)
            }
        }
    }
}

/// The largest step back of some packages, in minor lines.
fn largest_step(group: &[&Asked<'_>], solution: &Solution) -> usize {
    group.iter().map(|one| steps_back(one, solution)).max().unwrap_or(0)
}

/// Packages at most so many minor lines behind their newest releases.
fn within(group: &[&Asked<'_>], step: usize) -> Edit {
    let oldest = |one: &&Asked<'_>| {
        // Those of all newer releases.
        let mut lines = BTreeSet::new();
        let within = one.versions().take_while(|version| {
            let is_within = lines.len() <= step;
            lines.insert(minor_line(version));
            is_within
        });
        Edit::bound(&one.name, ">=", within.last()?)
    };
    Edit::Together(group.iter().filter_map(oldest).collect())
}

/// Whether a package is newer in one solution than in another.
fn is_newer(a: &Solution, b: &Solution, one: &Asked<'_>) -> bool {
    match (version_of(a, &one.name), version_of(b, &one.name)) {
        (Some(a), Some(b)) => public(a) > public(b),
        _ => false,
    }
}
