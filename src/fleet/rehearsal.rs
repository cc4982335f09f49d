//! What a change does to the machines and locks of a fleet, before anybody makes it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::cover::{Cover, smallest_cover};
use super::natural;
use crate::model::host::{Driver, Gpu, Host};
use crate::model::host_note::HostNote;
use crate::verify::{CodePath, Verdict};

/// What is changed on machines with GPUs. Machines that are known to have none stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HardwareChange {
    /// Another driver.
    pub driver: Option<Driver>,
    /// Other GPUs in place of all.
    pub gpus: Option<Vec<Gpu>>,
}

impl HardwareChange {
    /// The machine after the change; `None` where it stays as it is.
    pub fn of(&self, host: &Host) -> Option<Host> {
        // Of what is not known to have a GPU, nothing can be said.
        let is_known = host.driver.is_some() || host.gpus.is_some();
        if host.has_no_gpu() || !is_known || (self.driver.is_none() && self.gpus.is_none()) {
            return None;
        }
        let mut after = host.clone();
        let mut compat = host.driver.as_ref().and_then(|driver| driver.compat.clone());
        // Whether an installed cuda-compat works there is another question for another driver or GPU.
        after.notes.retain(|note| match note {
            HostNote::CompatUnsupported { release, .. } => {
                compat = Some(release.clone());
                false
            }
            _ => true,
        });
        if let Some(gpus) = self.gpus.as_ref().filter(|_| host.gpus.is_some()) {
            after.gpus = Some(gpus.clone());
        }
        match (&self.driver, &mut after.driver) {
            (Some(driver), _) => after.driver = Some(Driver { compat, ..driver.clone() }),
            (None, Some(driver)) => driver.compat = compat,
            (None, None) => {}
        }
        Some(after)
    }
}

/// How a lock fares on a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fare {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, or what is well: one line.
    pub line: String,
    /// By which code and driver it runs, where it does.
    pub path: Option<CodePath>,
}

/// What a change does to a lock on a machine, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It runs before it, and not after it.
    Stops,
    /// It runs before it, and whether it does after it is not known.
    NotKnown,
    /// It does not run before it, and does after it.
    Starts,
    /// Whether it runs is not known before it, and is after it; or it does not run before it, and that is not known after it.
    Unclear,
    /// It runs as before, but by other code or another driver's way: [`CodePath`].
    Path,
    /// As before.
    Same,
}

impl Effect {
    /// The effect of a change.
    pub fn of(before: &Fare, after: &Fare) -> Effect {
        match (before.verdict, after.verdict) {
            (Verdict::Ok, Verdict::Ok) if before.path != after.path => Effect::Path,
            (one, other) if one == other => Effect::Same,
            (Verdict::Ok, Verdict::Differs) => Effect::Stops,
            (Verdict::Ok, _) => Effect::NotKnown,
            (Verdict::Differs, Verdict::Ok) => Effect::Starts,
            _ => Effect::Unclear,
        }
    }
}

/// What a change does to a lock on one class of machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The machines, by their place among the classes.
    pub class: usize,
    /// Before the change.
    pub before: Fare,
    /// After it.
    pub after: Fare,
}

/// Machines on which a change does the same to a lock.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What it does.
    pub effect: Effect,
    /// The places of the classes, ascending.
    pub classes: Vec<usize>,
    /// Before the change, on the first of them.
    pub before: Fare,
    /// After it, on the first of them.
    pub after: Fare,
}

/// Folds the classes on which a lock fares alike, the worst effect first. Where nothing changes, only the verdict counts.
pub fn outcomes(judged: Vec<Judged>) -> Vec<Outcome> {
    let mut folded: BTreeMap<(Effect, Verdict, Option<(Fare, Fare)>), Outcome> = BTreeMap::new();
    for Judged { class, before, after } in judged {
        let effect = Effect::of(&before, &after);
        let shown = |fare: &Fare| Fare { line: told(fare), ..fare.clone() };
        let whole = (effect != Effect::Same).then(|| (shown(&before), shown(&after)));
        let new = || Outcome { effect, classes: Vec::new(), before, after: after.clone() };
        folded.entry((effect, after.verdict, whole)).or_insert_with(new).classes.push(class);
    }
    folded.into_values().collect()
}

/// What distinguishes one fare from another: the path where it runs, else why it does not.
fn told(fare: &Fare) -> String {
    if fare.path.is_some() { String::new() } else { fare.line.clone() }
}

/// The smallest set of machines that shows every change once for each kind of GPU: one of each of few classes. `classes`: the kind
/// and the names of each; `locks`: the outcomes of each lock.
pub fn first_to_change(classes: &[(String, Vec<String>)], locks: &[&[Outcome]]) -> (Vec<String>, bool) {
    let mut shown: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); classes.len()];
    let all = locks.iter().flat_map(|outcomes| outcomes.iter());
    let mut changes: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for (place, outcome) in all.filter(|outcome| outcome.effect != Effect::Same).enumerate() {
        for class in &outcome.classes {
            let next = changes.len();
            shown[*class].insert(*changes.entry((place, classes[*class].0.as_str())).or_insert(next));
        }
    }
    let Cover { chosen, is_smallest } = smallest_cover(&shown);
    let mut names: Vec<String> =
        chosen.iter().filter_map(|class| classes[*class].1.first().cloned()).collect();
    names.sort_by_cached_key(|name| natural(name));
    (names, is_smallest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::capability::Via;
    use crate::model::host_note::UnsupportedBy;
    use crate::model::platform::Platform;

    fn fare(verdict: Verdict, minor_version: bool) -> Fare {
        let path = CodePath { target: None, via: Some(Via::Sass), minor_version, compat: None };
        Fare { verdict, line: format!("{verdict:?}"), path: (verdict == Verdict::Ok).then_some(path) }
    }

    #[test]
    fn effects_are_of_the_verdict_and_the_path() {
        use Verdict::{Differs, Ok, Unknown};
        for (before, after, effect) in [
            (Ok, Differs, Effect::Stops),
            (Unknown, Differs, Effect::Unclear),
            (Ok, Unknown, Effect::NotKnown),
            (Differs, Unknown, Effect::Unclear),
            (Differs, Ok, Effect::Starts),
            (Unknown, Ok, Effect::Unclear),
            (Ok, Ok, Effect::Same),
            (Differs, Differs, Effect::Same),
        ] {
            assert_eq!(Effect::of(&fare(before, false), &fare(after, false)), effect, "{before:?} {after:?}");
        }
        assert_eq!(Effect::of(&fare(Ok, true), &fare(Ok, false)), Effect::Path);
    }

    #[test]
    fn few_machines_show_every_change() {
        let judged = |class, before, after| Judged { class, before, after };
        let (yes, no) = (fare(Verdict::Ok, false), fare(Verdict::Differs, false));
        let one = outcomes(vec![
            judged(0, yes.clone(), no.clone()),
            judged(1, no.clone(), yes.clone()),
            judged(2, yes.clone(), no.clone()),
            judged(3, yes.clone(), yes.clone()),
        ]);
        let effects: Vec<_> = one.iter().map(|outcome| (outcome.effect, outcome.classes.clone())).collect();
        let expected = [(Effect::Stops, vec![0, 2]), (Effect::Starts, vec![1]), (Effect::Same, vec![3])];
        assert_eq!(effects, expected);
        let other = outcomes(vec![
            judged(0, yes.clone(), yes.clone()),
            judged(1, yes.clone(), yes.clone()),
            judged(2, no.clone(), yes.clone()),
            judged(3, yes.clone(), yes),
        ]);
        let classes = ["a", "b", "c", "d"]
            .map(|name| ("A100".to_owned(), vec![format!("{name}10"), format!("{name}2")]));
        assert_eq!(
            first_to_change(&classes, &[&one, &other]),
            (vec!["b10".to_owned(), "c10".to_owned()], true)
        );
        assert_eq!(first_to_change(&classes, &[]), (vec![], true));
    }

    #[test]
    fn another_driver_asks_again_whether_cuda_compat_works() {
        let driver = |version: &str| Driver {
            version: version.parse().unwrap(),
            cuda: None,
            compat: None,
            found_by: "t".into(),
        };
        let mut host = Host::open(Platform::LINUX_X86_64, "t");
        let change = HardwareChange { driver: Some(driver("580.65.06")), gpus: None };
        host.driver = Some(driver("470.57.02"));
        host.notes.push(HostNote::CompatUnsupported {
            release: "590.44.01".parse().unwrap(),
            what: UnsupportedBy::Branch(470),
        });
        let after = change.of(&host).unwrap();
        let driver = after.driver.unwrap();
        assert_eq!((driver.version.as_str(), driver.compat.unwrap().as_str()), ("580.65.06", "590.44.01"));
        assert_eq!(after.notes, []);
        host.gpus = Some(Vec::new());
        assert_eq!(change.of(&host), None);
        host.gpus = None;
        assert_eq!(HardwareChange::default().of(&host), None);
        host.driver = None;
        assert_eq!(change.of(&host), None, "nobody knows whether it has a GPU");
    }
}
