//! The smallest choice of sets that together have every element of all.

use std::collections::BTreeSet;

/// A choice of sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// The places of the chosen sets, ascending.
    pub chosen: Vec<usize>,
    /// Whether none is smaller; else the search ended at its limit.
    pub is_smallest: bool,
}

/// How many choices are tried before the best one so far is taken.
const STEPS: usize = 50_000;

/// The fewest of these sets that together have every element of all of them; of equals, the ones that come first.
pub fn smallest_cover(sets: &[BTreeSet<usize>]) -> Cover {
    // What another set has too is no choice.
    let mut distinct: Vec<usize> = Vec::new();
    let mut seen: BTreeSet<&BTreeSet<usize>> = BTreeSet::new();
    for (place, set) in sets.iter().enumerate() {
        if !set.is_empty() && seen.insert(set) {
            distinct.push(place);
        }
    }
    let is_part = |one: usize, of: usize| one != of && sets[one].is_subset(&sets[of]);
    let choices: Vec<usize> =
        distinct.iter().copied().filter(|one| !distinct.iter().any(|of| is_part(*one, *of))).collect();
    let open: BTreeSet<usize> = choices.iter().flat_map(|place| sets[*place].iter().copied()).collect();
    let best = greedy(sets, &choices, &open);
    let mut search = Search { sets, choices: &choices, best, steps: 0 };
    search.cover(&open, &mut Vec::new());
    let Search { mut best, steps, .. } = search;
    best.sort_unstable();
    Cover { chosen: best, is_smallest: steps < STEPS }
}

/// A good choice at once: always the set that has most of what is left.
fn greedy(sets: &[BTreeSet<usize>], choices: &[usize], all: &BTreeSet<usize>) -> Vec<usize> {
    let (mut open, mut chosen) = (all.clone(), Vec::new());
    while !open.is_empty() {
        let covers = |place: &&usize| sets[**place].intersection(&open).count();
        // Of equals the first, as `max_by_key` takes the last.
        let Some(best) = choices.iter().rev().max_by_key(covers) else { break };
        open.retain(|element| !sets[*best].contains(element));
        chosen.push(*best);
    }
    chosen
}

/// A search that keeps the best choice.
struct Search<'s> {
    sets: &'s [BTreeSet<usize>],
    choices: &'s [usize],
    best: Vec<usize>,
    steps: usize,
}

impl Search<'_> {
    fn cover(&mut self, open: &BTreeSet<usize>, chosen: &mut Vec<usize>) {
        if open.is_empty() {
            if chosen.len() < self.best.len() {
                self.best.clone_from(chosen);
            }
            return;
        }
        self.steps += 1;
        let largest = self.choices.iter().map(|place| self.sets[*place].intersection(open).count()).max();
        let at_least = open.len().div_ceil(largest.unwrap_or(1).max(1));
        if self.steps >= STEPS || chosen.len() + at_least >= self.best.len() {
            return;
        }
        // One of the sets that have the rarest element has to be chosen.
        let having = |element: &usize| {
            let has = |place: &&usize| self.sets[**place].contains(element);
            self.choices.iter().filter(has).copied().collect::<Vec<usize>>()
        };
        let Some(of_rarest) = open.iter().map(having).min_by_key(Vec::len) else { return };
        for place in of_rarest {
            let left = open.difference(&self.sets[place]).copied().collect();
            chosen.push(place);
            self.cover(&left, chosen);
            chosen.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The size of the smallest cover, by trying every choice.
    fn by_force(sets: &[BTreeSet<usize>]) -> usize {
        let all: BTreeSet<usize> = sets.iter().flatten().copied().collect();
        let covers = |choice: &u32| {
            let chosen = sets.iter().enumerate().filter(|(place, _)| choice >> place & 1 == 1);
            chosen.flat_map(|(_, set)| set).collect::<BTreeSet<_>>().len() == all.len()
        };
        (0..1u32 << sets.len()).filter(covers).map(|choice| choice.count_ones() as usize).min().unwrap()
    }

    #[test]
    fn the_largest_set_is_not_always_chosen() {
        let sets = [vec![0, 1, 2, 3], vec![0, 1, 4], vec![2, 3, 5], vec![], vec![0, 1, 4]];
        let sets = sets.map(BTreeSet::from_iter);
        assert_eq!(smallest_cover(&sets), Cover { chosen: vec![1, 2], is_smallest: true });
        assert_eq!(smallest_cover(&[]), Cover { chosen: vec![], is_smallest: true });
    }

    proptest! {
        #[test]
        fn no_cover_is_smaller(sets in prop::collection::vec(prop::collection::btree_set(0..10usize, 0..5), 0..10)) {
            let cover = smallest_cover(&sets);
            let has: BTreeSet<usize> = cover.chosen.iter().flat_map(|place| &sets[*place]).copied().collect();
            prop_assert_eq!(has, sets.iter().flatten().copied().collect::<BTreeSet<_>>());
            prop_assert!(cover.is_smallest);
            prop_assert_eq!(cover.chosen.len(), by_force(&sets));
        }
    }
}
