//! Finds the newest torch version that all targets of a lock can have.

use pep440_rs::Version;

/// The newest version that every target can have. `alone` has the version of each target solved alone.
///
/// `at_most` solves the target with this index again with an upper bound and returns its version; `None` if there is
/// no solution. Only targets above the lowest version are solved again, and each result is lower than the one before,
/// so the loop ends.
///
/// ```
/// use envlock::solver::newest_common;
/// # let versions = |list: &[&str]| list.iter().map(|v| v.parse().unwrap()).collect::<Vec<pep440_rs::Version>>();
/// let (old, new) = (versions(&["2.7.1", "2.10.0"]), versions(&["2.7.1", "2.9.1", "2.15.0"]));
/// let choices = [&old, &new];
/// let common = newest_common(versions(&["2.10.0", "2.15.0"]), |target, bound| {
///     Ok::<_, ()>(choices[target].iter().filter(|v| *v <= bound).max().cloned())
/// });
/// assert_eq!(common.unwrap().unwrap().to_string(), "2.7.1");
/// ```
///
/// # Errors
/// Those of `at_most`.
pub fn newest_common<E>(
    alone: Vec<Version>,
    mut at_most: impl FnMut(usize, &Version) -> Result<Option<Version>, E>,
) -> Result<Option<Version>, E> {
    let mut now = alone;
    while let Some(lowest) = now.iter().min().cloned() {
        let Some(above) = now.iter().position(|version| *version > lowest) else {
            return Ok(Some(lowest));
        };
        match at_most(above, &lowest)? {
            // A version above the bound is invalid and would loop forever.
            Some(version) if version <= lowest => now[above] = version,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with the intersection of the targets' versions.
        #[test]
        fn the_newest_of_what_all_have(
            choices in prop::collection::vec(prop::collection::btree_set(0u64..12, 1..8), 1..5)
        ) {
            let version = |n: u64| Version::new([2, n]);
            let alone = choices.iter().map(|c| version(*c.last().unwrap())).collect();
            let found = newest_common(alone, |i, bound| {
                Ok::<_, ()>(choices[i].iter().rev().map(|n| version(*n)).find(|v| v <= bound))
            });
            let expected = (0..12).rev().find(|n| choices.iter().all(|c| c.contains(n))).map(version);
            prop_assert_eq!(found, Ok(expected));
        }
    }
}
