//! The CUDA versions that drivers publish, for schedulers that publish no driver.

use semver::Version as Semver;

use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// CUDA versions of drivers, from the first on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaRun {
    /// The first.
    pub from: Semver,
    /// The first that is too new; `None`: every newer one.
    pub below: Option<Semver>,
}

/// Drivers from a release on, below a branch.
#[derive(Debug, Clone, Copy)]
pub struct Drivers<'d> {
    /// The lowest that is meant.
    pub from: Option<&'d DottedVersion>,
    /// The first branch that is not.
    pub below: Option<&'d DottedVersion>,
    /// The lowest that any machine has, if that is known.
    pub lowest: Option<&'d DottedVersion>,
}

/// How many drivers of a CUDA version are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    Some,
    None,
}

impl Drivers<'_> {
    /// The CUDA versions of which all drivers are among them. `with_mixed`: of which any driver is. A driver has the CUDA of its
    /// branch; of branches that are newer than the data, the CUDA is newer.
    pub fn as_cuda(&self, registry: &Registry, with_mixed: bool) -> Vec<CudaRun> {
        let mut shares: Vec<(&Semver, Share)> = Vec::new();
        for row in registry.branches() {
            let share = self.share(row.branch);
            match shares.last_mut().filter(|(cuda, _)| *cuda == &row.cuda) {
                Some((_, before)) if *before != share => *before = Share::Some,
                Some(_) => {}
                None => shares.push((&row.cuda, share)),
            }
        }
        let mut runs: Vec<CudaRun> = Vec::new();
        let mut is_open = false;
        for (cuda, share) in shares {
            let is_meant = share == Share::All || with_mixed && share == Share::Some;
            match (is_meant, is_open) {
                (true, false) => runs.push(CudaRun { from: cuda.clone(), below: None }),
                (false, true) => runs.last_mut().expect("one is open").below = Some(cuda.clone()),
                _ => {}
            }
            is_open = is_meant;
        }
        runs
    }

    /// How many releases of a branch are among them.
    fn share(&self, branch: u32) -> Share {
        let is_too_new = self.below.is_some_and(|below| branch >= below.major());
        let is_absent = self.lowest.is_some_and(|lowest| branch < lowest.major());
        if is_too_new || is_absent || self.from.is_some_and(|from| branch < from.major()) {
            return Share::None;
        }
        let starts_in = |from: &DottedVersion| {
            let first: Option<DottedVersion> = branch.to_string().parse().ok();
            first.is_some_and(|first| first >= *from) || self.lowest.is_some_and(|lowest| lowest >= from)
        };
        if self.from.is_none_or(starts_in) { Share::All } else { Share::Some }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_that_begins_too_early_is_mixed() {
        let registry = crate::registry::frozen();
        let version = |text: &str| text.parse::<DottedVersion>().unwrap();
        let runs = |from: &str, below: Option<&str>, lowest: Option<&str>, with_mixed| {
            let (from, below, lowest) = (version(from), below.map(version), lowest.map(version));
            let drivers = Drivers { from: Some(&from), below: below.as_ref(), lowest: lowest.as_ref() };
            let shown = |run: &CudaRun| {
                let below = run.below.as_ref().map(|cuda| format!("..{cuda}")).unwrap_or_default();
                format!("{}{below}", run.from)
            };
            drivers.as_cuda(&registry, with_mixed).iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        for (from, below, lowest, with_mixed, expected) in [
            ("525.60.13", None, None, false, "12.1.0"),
            ("525.60.13", None, None, true, "12.0.0"),
            ("525.60.13", None, Some("525.60.13"), false, "12.0.0"),
            ("525.60.13", None, Some("525.60.11"), false, "12.1.0"),
            ("525", None, None, false, "12.0.0"),
            ("525.60.13", Some("590"), None, false, "12.1.0..13.1.0"),
            ("580.65.06", Some("590"), None, false, ""),
            ("580.65.06", Some("590"), None, true, "13.0.0..13.1.0"),
        ] {
            assert_eq!(runs(from, below, lowest, with_mixed), expected, "{from} {below:?} {lowest:?}");
        }
    }
}
