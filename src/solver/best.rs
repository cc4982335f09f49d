//! The loop that solves a question again, and keeps the best answer.

use std::ops::Range;

/// What one try came to. `K` is how good an answer is: greater is better.
pub(super) enum Tried<K, T> {
    /// An answer.
    Answer(K, T),
    /// An answer than which no later one is better.
    Last(K, T),
    /// There is no answer, or none that is better than the best so far.
    NotBetter,
    /// Neither this try nor a later one has a better answer.
    Over,
}

/// Solves for each of `tries` in turn, and returns the best answer; of equal ones the first. `solve` gets the best so far:
/// what cannot be better need not be solved.
pub(super) fn best<I, K: PartialOrd, T, E>(
    tries: impl IntoIterator<Item = I>,
    mut solve: impl FnMut(I, Option<&(K, T)>) -> Result<Tried<K, T>, E>,
) -> Result<Option<(K, T)>, E> {
    let mut best: Option<(K, T)> = None;
    for one in tries {
        let (found, is_last) = match solve(one, best.as_ref())? {
            Tried::Answer(key, answer) => ((key, answer), false),
            Tried::Last(key, answer) => ((key, answer), true),
            Tried::NotBetter => continue,
            Tried::Over => break,
        };
        if best.as_ref().is_none_or(|(key, _)| found.0 > *key) {
            best = Some(found);
        }
        if is_last {
            break;
        }
    }
    Ok(best)
}

/// The smallest number of a range that has an answer; its end if none has. What has an answer for one number has one for each
/// larger. `solve` returns the smallest number that its answer answers for.
///
/// The last number is tried first: where there is nothing better, which is the most frequent case, that ends it.
pub(super) fn lowest<E>(
    range: Range<usize>,
    mut solve: impl FnMut(usize) -> Result<Option<usize>, E>,
) -> Result<usize, E> {
    let Range { start: mut first, end: mut answered } = range;
    let mut tried = answered.saturating_sub(1);
    while first < answered {
        match solve(tried)? {
            Some(smallest) => answered = smallest.min(tried),
            None => first = tried + 1,
        }
        tried = first + (answered.max(first) - first) / 2;
    }
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_is_the_first_of_the_greatest(keys in prop::collection::vec(prop::option::of(0u8..4), 0..8)) {
            let found = best(keys.iter().enumerate(), |(i, key), _| {
                Ok::<_, Infallible>(key.map_or(Tried::NotBetter, |key| Tried::Answer(key, i)))
            });
            let greatest = keys.iter().flatten().max();
            let expected = greatest.map(|key| (*key, keys.iter().position(|own| own.as_ref() == Some(key)).unwrap()));
            prop_assert_eq!(found.unwrap(), expected);
        }

        #[test]
        fn the_lowest_is_found_in_few_tries(length in 0usize..200, first in 0usize..200, jump in 0usize..5) {
            let mut tries = 0;
            let found = lowest(0..length, |n| {
                tries += 1;
                Ok::<_, Infallible>((n >= first).then(|| n.saturating_sub(jump).max(first)))
            });
            prop_assert_eq!(found.unwrap(), first.min(length));
            prop_assert!(tries <= 10, "{} tries", tries);
        }
    }

    #[test]
    fn nothing_is_solved_after_the_last() {
        let tried = |ends: fn(u8) -> Tried<u8, u8>| {
            let mut solved = Vec::new();
            let found = best([1, 2, 3], |n, _| {
                solved.push(n);
                Ok::<_, Infallible>(if n == 2 { ends(n) } else { Tried::Answer(n, n) })
            });
            (found.unwrap(), solved)
        };
        assert_eq!(tried(|n| Tried::Last(n, n)), (Some((2, 2)), vec![1, 2]));
        assert_eq!(tried(|_| Tried::Last(0, 0)), (Some((1, 1)), vec![1, 2]));
        assert_eq!(tried(|_| Tried::Over), (Some((1, 1)), vec![1, 2]));
        assert_eq!(tried(|_| Tried::NotBetter), (Some((3, 3)), vec![1, 2, 3]));
    }
}
