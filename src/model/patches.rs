//! Which patch releases of a Python series are allowed: `Requires-Python: >=3.11.4` excludes 3.11.0 to 3.11.3.

use std::fmt;

use pep440_rs::{Version, VersionSpecifiers};

use super::wheel::Python;

/// A range of patch releases of a series. Releases excluded in between (`!=3.11.5`) are not told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Patches {
    /// The first that is allowed.
    pub from: u32,
    /// The first above it that is not allowed.
    pub below: Option<u32>,
}

/// The number of patch releases that are told apart: no series has had as many.
pub const COUNT: u32 = 100;
/// The newest that there can be.
pub const NEWEST: u32 = COUNT - 1;

/// The patch releases of which some is allowed if any of the series is: the ends, and those beside the ones that the
/// specifiers name.
pub fn to_look_at(specifiers: &VersionSpecifiers, minor: u32) -> impl Iterator<Item = u32> {
    let named = specifiers.iter().filter_map(move |specifier| match specifier.version().release() {
        [3, series, patch, ..] if *series == u64::from(minor) => u32::try_from(*patch).ok(),
        _ => None,
    });
    let named: Vec<u32> = named.filter(|patch| *patch < NEWEST).collect();
    let beside = named.into_iter().flat_map(|patch| patch.saturating_sub(1)..=patch + 1);
    [0, NEWEST].into_iter().chain(beside)
}

impl Patches {
    /// What specifiers allow of a series; all of it if they allow none together.
    pub fn of<'s>(minor: u32, specifiers: impl Iterator<Item = &'s VersionSpecifiers> + Clone) -> Patches {
        let version = |patch: u32| Version::new([3, u64::from(minor), u64::from(patch)]);
        let is_allowed = |patch: &u32| specifiers.clone().all(|s| s.contains(&version(*patch)));
        let from = (0..=NEWEST).find(is_allowed);
        let last = (0..=NEWEST).rev().find(is_allowed);
        match (from, last) {
            (Some(from), Some(last)) => Patches { from, below: (last < NEWEST).then_some(last + 1) },
            _ => Patches::default(),
        }
    }

    /// The part of it for which something holds: the newest release for which it does, and those beside it. Itself where it holds
    /// for none.
    #[must_use]
    pub fn where_it_holds(self, holds: impl Fn(u32) -> bool) -> Patches {
        let end = self.below.unwrap_or(COUNT);
        let Some(last) = (self.from..end).rev().find(|patch| holds(*patch)) else { return self };
        let from = (self.from..last).rev().take_while(|patch| holds(*patch)).last().unwrap_or(last);
        Patches { from, below: if last + 1 == end { self.below } else { Some(last + 1) } }
    }

    /// Whether it allows all patch releases.
    pub fn is_all(self) -> bool {
        self == Patches::default()
    }

    /// Whether it allows a Python of the series; one whose patch release is not known may be allowed.
    pub fn allows(self, python: Python) -> bool {
        python.patch.is_none_or(|patch| patch >= self.from && self.below.is_none_or(|below| patch < below))
    }

    /// The series with its bounds: `>=3.11.4,<3.12`.
    pub fn of_series(self, minor: u32) -> String {
        let from = if self.from > 0 { format!("3.{minor}.{}", self.from) } else { format!("3.{minor}") };
        let below = self.below.map_or(format!("3.{}", minor + 1), |below| format!("3.{minor}.{below}"));
        format!(">={from},<{below}")
    }

    /// `>=3.11.4` or `>=3.11.4,<3.11.9`; nothing if all are allowed.
    pub fn specifiers(self, minor: u32) -> Option<String> {
        let from = (self.from > 0).then(|| format!(">=3.{minor}.{}", self.from));
        let below = self.below.map(|below| format!("<3.{minor}.{below}"));
        let parts: Vec<String> = from.into_iter().chain(below).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }
}

/// The Python that a lock is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedPython {
    /// Its series, or one patch release.
    pub python: Python,
    /// The patch releases of the series that are allowed.
    pub patches: Patches,
}

impl WantedPython {
    /// Whether a Python is one; a patch release that is not known may be.
    pub fn allows(self, found: Python) -> bool {
        let is_release = match (self.python.patch, found.patch) {
            (Some(wanted), Some(found)) => wanted == found,
            _ => true,
        };
        found.minor == self.python.minor && is_release && self.patches.allows(found)
    }
}

impl fmt::Display for WantedPython {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.patches.specifiers(self.python.minor) {
            None => self.python.fmt(f),
            Some(specifiers) => write!(f, "{} ({specifiers})", self.python),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_releases_that_specifiers_allow() {
        for (specifiers, written) in [
            (&[][..], None),
            (&[">=3.11,<3.13"], None),
            (&[">=3.11.4,<3.13"], Some(">=3.11.4")),
            (&[">=3.10.8", ">=3.11.2", "!=3.11.0"], Some(">=3.11.2")),
            (&[">3.11"], Some(">=3.11.1")),
            (&["<3.11.9", ">=3.11.4"], Some(">=3.11.4,<3.11.9")),
            (&["!=3.11.5"], None),
            (&["<3.11.4", ">=3.11.4"], None),
        ] {
            let parsed: Vec<VersionSpecifiers> = specifiers.iter().map(|s| s.parse().unwrap()).collect();
            let patches = Patches::of(11, parsed.iter());
            assert_eq!(patches.specifiers(11).as_deref(), written, "{specifiers:?}");
            let again: Vec<VersionSpecifiers> = written.iter().map(|s| s.parse().unwrap()).collect();
            assert_eq!(Patches::of(11, again.iter()), patches);
        }
        for (own, first, last, expected) in [
            ((0, None), 0, 99, (0, None)),
            ((0, None), 3, 99, (3, None)),
            ((4, None), 3, 99, (4, None)),
            ((0, None), 3, 6, (3, Some(7))),
            ((0, Some(9)), 3, 99, (3, Some(9))),
            ((0, Some(9)), 3, 8, (3, Some(9))),
            ((0, Some(3)), 3, 99, (0, Some(3))),
        ] {
            let found = Patches { from: own.0, below: own.1 }.where_it_holds(|p| (first..=last).contains(&p));
            assert_eq!((found.from, found.below), expected, "{own:?} {first} {last}");
        }
        let patches = Patches { from: 4, below: Some(9) };
        let allowed = |patch| patches.allows(Python { minor: 11, patch });
        assert_eq!([None, Some(3), Some(4), Some(8), Some(9)].map(allowed), [true, false, true, true, false]);
    }
}
