//! What there is of a package of which no release is admitted: versions, those next to the one that is asked for, and when they
//! were uploaded.

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};

use super::Explainer;
use crate::compatibility::ImpossibleVariant;
use crate::model::project::Cut;
use crate::model::request::UserRequirement;
use crate::model::text::clean;
use crate::model::timestamp::Timestamp;
use crate::model::version::public;
use crate::solver::explain::span;
use crate::solver::problem::{Candidate, Problem};

/// The cutoff that excludes some release of a package, as written.
fn cutoff_of<'p>(p: &'p Problem<'_>, candidates: &[Candidate<'_>], name: &str) -> Option<&'p str> {
    let cut = candidates.iter().find(|c| c.release.cut.is_some())?;
    p.cutoff(cut.index, name).map(|cutoff| cutoff.text.as_str())
}

impl Explainer<'_, '_> {
    /// Says what there is of a package of which specifiers admit no release at all.
    pub(super) fn no_release(&mut self, name: &str, specifiers: Option<&VersionSpecifiers>) {
        let Some(specifiers) = specifiers.filter(|_| !self.problem.stack.contains_key(name)) else { return };
        let candidates = self.problem.candidates(name).unwrap_or_default();
        if !candidates.is_empty() && !candidates.iter().any(|own| specifiers.contains(&own.release.version)) {
            let text = self.available_text(name, Some(specifiers));
            self.available(text, name);
        }
    }

    /// The first of some releases that a later cutoff would admit, and when it was uploaded.
    pub(super) fn first_late(&self, name: &str, versions: &[Version]) -> Option<(Timestamp, Version)> {
        let candidates = self.problem.candidates(name).ok()?;
        let late = candidates.iter().filter_map(first_upload);
        late.filter(|(_, version)| versions.contains(version)).min()
    }

    /// What the registry has instead of a version of the stack that it does not have: the range, if the version is
    /// outside, else the versions before and after it. `None` if the request is not about one version.
    pub(super) fn neighbours_text(
        &self,
        name: &str,
        specifiers: Option<&VersionSpecifiers>,
    ) -> Option<String> {
        let table = self.problem.stack.get(name)?;
        let (first, last) = (table.versions.first()?, table.versions.last()?);
        let pins = |s: &&VersionSpecifier| {
            matches!(
                s.operator(),
                Operator::Equal | Operator::EqualStar | Operator::ExactEqual | Operator::TildeEqual
            )
        };
        let wanted = public(specifiers?.iter().find(pins)?.version());
        let registry = self.problem.registry;
        let oldest = registry.oldest_release(name, self.problem.machine.platform);
        let covered_from = oldest.as_ref().unwrap_or(first);
        let is_older = wanted < *covered_from && !table.versions.contains(&wanted);
        // An older one that was read and is for another torch.
        let read = registry.companion(name, &wanted).filter(|_| is_older);
        if let Some(bounds) = read.and_then(|row| row.torch.as_ref()) {
            return Some(format!("{name} {wanted} needs torch {bounds}"));
        }
        // Older ones that were read say nothing of those between.
        if is_older {
            return Some(format!("{} {name} from {covered_from}, and {wanted} is older", self.has_words()));
        }
        // One that is there: another part of the request excludes it.
        if table.versions.contains(&wanted) {
            return None;
        }
        // What the machine cannot run needs no row to be known.
        let (registry, host) = (self.problem.registry, self.problem.machine.host);
        let variant = self.problem.asked.request.pinned_variant(name);
        if let Some(why) = variant.and_then(|variant| ImpossibleVariant::of(registry, host, &variant)) {
            return Some(why.to_string());
        }
        let source = self.problem.registry.stack_source();
        if wanted > *last {
            return Some(format!("the newest {name} in {source} is {last}"));
        }
        let shown = |ordinal: usize| {
            let requirement = table.builds_of(ordinal as u32).first()?.torch_requirement.as_deref();
            let torch = requirement.and_then(|r| r.strip_prefix("==")).map(|v| format!(" (for torch {v})"));
            Some(format!("{}{}", table.versions[ordinal], torch.unwrap_or_default()))
        };
        let after = table.versions.iter().position(|version| *version > wanted)?;
        let near: Vec<String> =
            [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(shown).collect();
        Some(format!("{source} has no {name} {wanted}; next to it are {}", near.join(" and ")))
    }

    /// `envlock covers`, or of whose builds the stack is.
    fn has_words(&self) -> &'static str {
        match self.problem.registry.has_stack_of_channels() {
            true => "the channel has",
            false => "envlock covers",
        }
    }

    /// The direct reference by which a request names a package.
    pub(super) fn direct(&self, name: &str) -> Option<&UserRequirement> {
        let of_name = |user: &&UserRequirement| user.name() == name;
        let mut users = self.problem.asked.request.requirements.iter().filter(of_name);
        users.find(|user| user.direct().is_some())
    }

    /// Whether the index has no package of this name.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        !self.problem.stack.contains_key(name) && self.problem.candidates(name).unwrap_or_default().is_empty()
    }

    /// What there is of a package of which a request admits no release.
    pub(super) fn available_text(&self, name: &str, specifiers: Option<&VersionSpecifiers>) -> String {
        let p = self.problem;
        if let Some(table) = p.stack.get(name) {
            return match (table.versions.first(), table.versions.last()) {
                (Some(first), Some(last)) => {
                    format!("{} {name} {first} to {last} for {}", self.has_words(), p.machine.platform)
                }
                _ => format!("{} has no {name} build for {}", p.registry.stack_source(), p.machine.platform),
            };
        }
        let candidates = p.candidates(name).unwrap_or_default();
        if candidates.is_empty() {
            let owner = crate::model::index_owner::owner(name, &p.asked.request.owners);
            return format!("the index {owner} has no `{name}`");
        }
        let is_usable = |c: &&Candidate<'_>| p.pythons.series.iter().any(|py| p.has_usable(c, *py));
        let usable: Vec<_> = candidates.iter().filter(is_usable).map(|c| &c.release.version).collect();
        if let (Some(first), Some(last)) = (usable.first(), usable.last()) {
            let ends = if first == last { vec![*first] } else { vec![*first, *first, *last] };
            let cutoff = cutoff_of(p, &candidates, name);
            let beside = cutoff.map(|text| format!(" with exclude-newer {text}")).unwrap_or_default();
            if let Some(user) = self.direct(name) {
                return format!("{name} is taken from `{}`, which is {first}", clean(&user.line(), 200));
            }
            let near = specifiers.and_then(|specifiers| next_to(&usable, specifiers)).unwrap_or_default();
            return format!("available versions of {name}{beside}: {}{near}", span(&ends));
        }
        let is_cut = |c: &Candidate<'_>| p.cut(c, name);
        if candidates.iter().all(|c| c.release.cut.is_some())
            && let Some(why) = candidates.iter().rev().find_map(is_cut)
        {
            return format!("all releases of {name} {}", why.of(true));
        }
        if candidates.iter().any(|c| c.release.has_wheel) {
            return format!(
                "no version of {name} has a wheel for Python {} on {}",
                span(&p.pythons.series),
                p.machine.platform
            );
        }
        match &p.asked.request.no_sources {
            Some(limit) => {
                format!("`{name}` has only source distributions, which are refused ({})", limit.origin)
            }
            None => {
                format!("no source distribution of {name} is for Python {}", span(&p.pythons.series))
            }
        }
    }
}

/// What is added to the sentence that releases were uploaded later: `, on 2024-12-04`, `, the first (2.0.0) on 2024-06-16`.
pub(super) fn since(first: Option<(Timestamp, Version)>, count: usize) -> String {
    match first {
        Some((time, _)) if count == 1 => format!(", on {}", time.day()),
        Some((time, version)) => format!(", the first ({version}) on {}", time.day()),
        None => String::new(),
    }
}

/// When a release that a cutoff leaves out was uploaded first.
pub(super) fn first_upload(candidate: &Candidate<'_>) -> Option<(Timestamp, Version)> {
    match candidate.release.cut? {
        Cut::Late(time) => Some((time, candidate.release.version.clone())),
        Cut::Undated => None,
    }
}

/// The releases on both sides of the version that a request is about, if it lies between two: a range alone would say that it
/// is among them.
fn next_to(usable: &[&Version], specifiers: &VersionSpecifiers) -> Option<String> {
    let is_from = |specifier: &&VersionSpecifier| {
        use Operator::{Equal, EqualStar, ExactEqual, GreaterThan, GreaterThanEqual, TildeEqual};
        let from = [Equal, EqualStar, ExactEqual, GreaterThan, GreaterThanEqual, TildeEqual];
        from.contains(specifier.operator())
    };
    let wanted = specifiers.iter().find(is_from)?.version();
    let is_final = |version: &&&Version| wanted.any_prerelease() || !version.any_prerelease();
    let mut finals = usable.iter().filter(is_final);
    // What `>1.0` is about lies behind 1.0.
    let before = finals.clone().rfind(|version| **version <= wanted)?;
    let after = finals.find(|version| **version > wanted)?;
    (!specifiers.contains(before)).then(|| match *before == wanted {
        true => format!("; behind {before} comes {after}"),
        false => format!("; next to {wanted} are {before} and {after}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_between_two_is_told_with_them() {
        let all: Vec<Version> =
            ["1.0", "1.2", "2.0rc1", "2.0"].iter().map(|text| text.parse().unwrap()).collect();
        let all: Vec<&Version> = all.iter().collect();
        for (specifiers, expected) in [
            ("==1.1", Some("; next to 1.1 are 1.0 and 1.2")),
            ("==1.5", Some("; next to 1.5 are 1.2 and 2.0")),
            ("==2.0b1", Some("; next to 2.0b1 are 1.2 and 2.0rc1")),
            (">=1.1,<1.2", Some("; next to 1.1 are 1.0 and 1.2")),
            (">1.0,<1.2", Some("; behind 1.0 comes 1.2")),
            ("~=1.1.0", Some("; next to 1.1.0 are 1.0 and 1.2")),
            // Outside of the range, which says it.
            ("==0.9", None),
            (">=3", None),
            ("<1", None),
        ] {
            let read: VersionSpecifiers = specifiers.parse().unwrap();
            assert_eq!(next_to(&all, &read).as_deref(), expected, "{specifiers}");
        }
    }
}
