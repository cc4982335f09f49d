//! Sets of candidate ordinals.

use std::fmt;

use pubgrub::VersionSet;
use smallvec::SmallVec;

/// The end of a span without an upper bound.
const OPEN: u32 = u32::MAX;

/// Ordinals as ascending spans `start..end` with gaps between them.
///
/// Neighbours are one span: what a search finds out about releases one by one is no larger than what it finds out about all
/// of them. In ranges of versions, which know no neighbours, a thousand releases with one requirement are a thousand
/// segments.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Set {
    spans: SmallVec<[(u32, u32); 2]>,
}

impl Set {
    /// No ordinal.
    pub const fn empty() -> Set {
        Set { spans: SmallVec::new_const() }
    }

    /// All ordinals.
    pub fn full() -> Set {
        Set::between(0, OPEN)
    }

    /// One ordinal.
    pub fn singleton(ordinal: u32) -> Set {
        Set::between(ordinal, ordinal + 1)
    }

    /// Those from `start` on and below `end`.
    pub fn between(start: u32, end: u32) -> Set {
        let mut set = Set::empty();
        set.push(start, end);
        set
    }

    /// Those from an ordinal on.
    pub fn higher_than(ordinal: u32) -> Set {
        Set::between(ordinal, OPEN)
    }

    /// Those above an ordinal.
    pub fn strictly_higher_than(ordinal: u32) -> Set {
        Set::between(ordinal + 1, OPEN)
    }

    /// Those below an ordinal.
    pub fn strictly_lower_than(ordinal: u32) -> Set {
        Set::between(0, ordinal)
    }

    /// Adds a span that begins at or behind the end of the last one.
    fn push(&mut self, start: u32, end: u32) {
        match self.spans.last_mut() {
            _ if start >= end => {}
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => self.spans.push((start, end)),
        }
    }

    /// Whether it has no ordinal.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether it has an ordinal.
    pub fn contains(&self, ordinal: &u32) -> bool {
        // Most sets have one span.
        match self.spans.as_slice() {
            [] => false,
            [(start, end)] => start <= ordinal && ordinal < end,
            spans => {
                let behind = spans.partition_point(|(start, _)| start <= ordinal);
                behind > 0 && *ordinal < spans[behind - 1].1
            }
        }
    }

    /// Its ordinals below `count`, ascending.
    pub fn below(&self, count: u32) -> impl DoubleEndedIterator<Item = u32> {
        self.spans.iter().flat_map(move |(start, end)| *start..(*end).min(count))
    }

    /// The number of its spans.
    pub fn spans(&self) -> usize {
        self.spans.len()
    }

    /// The ordinals that it does not have.
    pub fn complement(&self) -> Set {
        let mut out = Set::empty();
        let mut from = 0;
        for (start, end) in &self.spans {
            out.push(from, *start);
            from = *end;
        }
        out.push(from, OPEN);
        out
    }

    /// The ordinals that both have.
    pub fn intersection(&self, other: &Set) -> Set {
        let mut out = Set::empty();
        self.overlaps(other, |start, end| {
            out.push(start, end);
            true
        });
        out
    }

    /// The ordinals that one of them has.
    pub fn union(&self, other: &Set) -> Set {
        let mut out = Set::empty();
        let (mut own, mut others) = (self.spans.iter().peekable(), other.spans.iter().peekable());
        loop {
            let next = match (own.peek(), others.peek()) {
                (Some(a), Some(b)) if a.0 <= b.0 => own.next(),
                (_, Some(_)) => others.next(),
                (_, None) => own.next(),
            };
            match next {
                Some((start, end)) => out.push(*start, *end),
                None => return out,
            }
        }
    }

    /// Whether they share no ordinal.
    pub fn is_disjoint(&self, other: &Set) -> bool {
        self.overlaps(other, |_, _| false)
    }

    /// Calls with each overlap, ascending, until the call returns `false`. Returns whether it never did.
    fn overlaps(&self, other: &Set, mut with: impl FnMut(u32, u32) -> bool) -> bool {
        let (mut own, mut others) = (self.spans.as_slice(), other.spans.as_slice());
        while let ([a, rest_a @ ..], [b, rest_b @ ..]) = (own, others) {
            let (start, end) = (a.0.max(b.0), a.1.min(b.1));
            if start < end && !with(start, end) {
                return false;
            }
            match a.1 < b.1 {
                true => own = rest_a,
                false => others = rest_b,
            }
        }
        true
    }

    /// Whether another set has all its ordinals.
    pub fn subset_of(&self, other: &Set) -> bool {
        let mut others = other.spans.as_slice();
        self.spans.iter().all(|(start, end)| {
            while let [(_, last), rest @ ..] = others
                && last < end
            {
                others = rest;
            }
            others.first().is_some_and(|(first, _)| first <= start)
        })
    }
}

impl FromIterator<u32> for Set {
    /// Of ascending ordinals.
    fn from_iter<I: IntoIterator<Item = u32>>(ordinals: I) -> Set {
        let mut set = Set::empty();
        for ordinal in ordinals {
            set.push(ordinal, ordinal + 1);
        }
        set
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.spans.iter().map(|(start, end)| *start..*end)).finish()
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl VersionSet for Set {
    type V = u32;

    fn empty() -> Set {
        Set::empty()
    }

    fn singleton(ordinal: u32) -> Set {
        Set::singleton(ordinal)
    }

    fn complement(&self) -> Set {
        Set::complement(self)
    }

    fn intersection(&self, other: &Set) -> Set {
        Set::intersection(self, other)
    }

    fn contains(&self, ordinal: &u32) -> bool {
        Set::contains(self, ordinal)
    }

    fn full() -> Set {
        Set::full()
    }

    fn union(&self, other: &Set) -> Set {
        Set::union(self, other)
    }

    fn is_disjoint(&self, other: &Set) -> bool {
        Set::is_disjoint(self, other)
    }

    fn subset_of(&self, other: &Set) -> bool {
        Set::subset_of(self, other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const COUNT: u32 = 12;

    fn members(set: &Set) -> BTreeSet<u32> {
        (0..COUNT).filter(|ordinal| set.contains(ordinal)).collect()
    }

    #[test]
    fn neighbours_are_one_span() {
        let set = Set::singleton(3).union(&Set::singleton(5)).union(&Set::singleton(4));
        assert_eq!(set, Set::between(3, 6));
        assert_eq!(set.complement().complement(), set);
        assert_eq!(set.complement().union(&set), Set::full());
        assert_eq!(set.below(5).rev().collect::<Vec<_>>(), [4, 3]);
    }

    proptest! {
        #[test]
        fn the_operations_are_those_of_sets(
            a in prop::collection::btree_set(0..COUNT, 0..10),
            b in prop::collection::btree_set(0..COUNT, 0..10),
            is_open in any::<bool>(),
        ) {
            let (mut own, other) = (a.iter().copied().collect::<Set>(), b.iter().copied().collect::<Set>());
            let mut a = a;
            if is_open {
                own = own.union(&Set::higher_than(COUNT - 2));
                a.extend([COUNT - 2, COUNT - 1]);
            }
            prop_assert_eq!(members(&own), a.clone());
            prop_assert_eq!(own.below(COUNT).collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(members(&own.intersection(&other)), &a & &b);
            prop_assert_eq!(members(&own.union(&other)), &a | &b);
            prop_assert_eq!(members(&own.complement()), &(0..COUNT).collect::<BTreeSet<_>>() - &a);
            prop_assert_eq!(own.is_disjoint(&other), a.is_disjoint(&b));
            prop_assert_eq!(other.subset_of(&own), b.is_subset(&a));
            prop_assert_eq!(own.is_empty(), a.is_empty());
            // One set has one form.
            prop_assert_eq!(own.complement().complement(), own);
        }
    }
}
