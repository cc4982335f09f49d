//! Specs that hold alone and not together: a package of which each part needs releases that the other does not admit.
//!
//! What is told is proved: without the records that a requirement admits, the part that has it has no answer. The solver
//! decides, so that it holds for every release of the packages between, not only for those of one answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Explainer, virtual_package};
use crate::conda::solve::{CondaError, CondaQuestion, Solved};
use crate::model::conda::name_of_spec;
use crate::model::conflict::Reason;
use crate::model::source::CondaPackage;
use crate::model::text::clean;
use crate::registry::conda_builds::OF_CHANNEL;

/// Maximum number of packages that are looked at for a dispute: each costs solves.
const MAX_NAMES: usize = 24;
/// Maximum number of series of a package of which each is tried.
const MAX_SERIES: usize = 30;
/// How deep the requirements of a package that cannot be installed are followed.
const MAX_DEPTH: usize = 24;

/// How a package bounds another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// It depends on it.
    Needs,
    /// It constrains it, if it is there.
    AdmitsOnly,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Needs => "needs",
            Verb::AdmitsOnly => "admits only",
        })
    }
}

/// One part of a core, and an answer for it alone.
struct Part {
    specs: Vec<String>,
    answer: Vec<CondaPackage>,
}

/// What a part requires of one package.
struct Need {
    /// As it is written.
    spec: String,
    /// The files of the records that it admits.
    admits: BTreeSet<String>,
    /// How it comes about, one requirement after the other; empty if it is one of the part's own specs.
    steps: Vec<String>,
}

impl Explainer<'_> {
    /// What the parts of a core need of one package, of which they cannot have the same release. `None` if no package
    /// alone is in dispute.
    pub(super) fn between(&self, core: &[usize]) -> Result<Option<Vec<Reason>>, CondaError> {
        if self.is_of_one_package(core) {
            return Ok(None);
        }
        let divisions = if core.len() == 2 { 1 } else { core.len() };
        for at in (0..divisions).filter(|_| core.len() > 1) {
            let rest: Vec<usize> = core.iter().copied().filter(|i| *i != core[at]).collect();
            let (Some(one), Some(other)) = (self.part(&[core[at]])?, self.part(&rest)?) else { continue };
            let names = disputable(&one, &other);
            // Python decides which builds of the others there are.
            for name in names.iter().filter(|name| *name == "python") {
                if let Some(found) = self.by_requirements(name, [&one, &other])? {
                    return Ok(Some(found));
                }
                if let Some(found) = self.by_series(name, [&one, &other])? {
                    return Ok(Some(found));
                }
            }
            for name in names.iter().filter(|name| *name != "python") {
                if let Some(found) = self.by_requirements(name, [&one, &other])? {
                    return Ok(Some(found));
                }
            }
            for name in names.iter().filter(|name| *name != "python") {
                if let Some(found) = self.by_series(name, [&one, &other])? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Of a spec that does not hold alone, or specs of one package: what the newest release that they admit needs that does not
    /// hold together.
    pub(super) fn within(&self, specs: &[String]) -> Result<Vec<Reason>, CondaError> {
        let releases = self.admitted(specs)?;
        let Some(newest) = releases.last() else { return Ok(Vec::new()) };
        // One that leads back to itself, or that was not explained before, is explained by something else.
        let is_new = self.tried.borrow_mut().insert(newest.file.clone());
        if !is_new || self.depth >= MAX_DEPTH {
            return Ok(Vec::new());
        }
        let versions: BTreeSet<&str> = releases.iter().map(|release| release.version.as_str()).collect();
        let all = self.records.of(&newest.name);
        let which = match all.last() {
            _ if versions.len() == 1 => "",
            Some(last) if last.version == newest.version => ", the newest,",
            _ => ", the newest that fits,",
        };
        let found = self.why_not(newest, which)?;
        if !found.is_empty() {
            self.tried.borrow_mut().remove(&newest.file);
        }
        Ok(found)
    }

    /// The releases of a package that specs of it admit together, without those that the question excludes.
    pub(super) fn admitted(&self, specs: &[String]) -> Result<Vec<CondaPackage>, CondaError> {
        let Some(first) = specs.first() else { return Ok(Vec::new()) };
        let mut releases = self.records.of(&name_of_spec(first).to_lowercase());
        releases.retain(|package| !self.question.excluded.contains_key(&package.file));
        for spec in specs {
            let own = self.files(spec)?;
            releases.retain(|package| own.contains(&package.file));
        }
        Ok(releases)
    }

    /// The files of the records that a spec admits.
    fn files(&self, spec: &str) -> Result<BTreeSet<String>, CondaError> {
        Ok(self.records.matching(spec)?.into_iter().map(|package| package.file).collect())
    }

    /// Why a package cannot be installed. `which` stands behind its name.
    fn why_not(&self, package: &CondaPackage, which: &str) -> Result<Vec<Reason>, CondaError> {
        let told = |verb: Verb, need: &str| {
            let text = format!("{}{which} {verb} {}", self.shown(package, need), clean(need, 60));
            self.fact(text, name_of_spec(need))
        };
        for (verb, need) in requirements(package) {
            if let Some((has, party)) = virtual_package::fault(self, need) {
                let mut reason = told(verb, need);
                reason.text.push_str(&format!(", and {has}"));
                reason.parties.push(party);
                return Ok(vec![reason]);
            }
            if name_of_spec(need) == package.name && !self.files(need)?.contains(&package.file) {
                return Ok(vec![told(verb, need)]);
            }
        }
        // A bound on what is needed anyway is a requirement.
        let needed: BTreeSet<&str> = package.depends.iter().map(|need| name_of_spec(need)).collect();
        let of_others: Vec<(Verb, &String)> = requirements(package)
            .filter(|(verb, need)| *verb == Verb::Needs || needed.contains(name_of_spec(need)))
            .filter(|(_, need)| !name_of_spec(need).starts_with("__") && name_of_spec(need) != package.name)
            .collect();
        let specs = of_others.iter().map(|(_, need)| (*need).clone()).collect();
        let question = CondaQuestion { specs, ..self.question.clone() };
        let own = Explainer { question: &question, depth: self.depth + 1, ..*self };
        let all: Vec<usize> = (0..question.specs.len()).collect();
        if own.solve(own.specs(&all), &question.machine)?.is_some() {
            // Its requirements hold together, and it does not hold with them.
            return self.beside_its_needs(package, &of_others, told);
        }
        for is_backwards in [false, true] {
            let core = own.core(is_backwards)?;
            let mut out = own.facts(&core)?;
            if !out.is_empty() || own.is_of_disjoint_specs(&core)? {
                let is_told = |name: &str| {
                    core.iter()
                        .any(|i| of_others[*i].0 == Verb::Needs && name_of_spec(of_others[*i].1) == name)
                };
                for (verb, need) in core.iter().map(|i| of_others[*i]) {
                    out.push(told(verb, need));
                    // What it admits matters because it needs it.
                    let needs = package.depends.iter().filter(|own| {
                        !is_told(name_of_spec(need)) && name_of_spec(own) == name_of_spec(need)
                    });
                    out.extend(needs.take(1).map(|own| told(Verb::Needs, own)));
                }
                return Ok(out);
            }
        }
        Ok(Vec::new())
    }

    /// What a package needs that does not admit the package itself, or that it does not admit.
    fn beside_its_needs(
        &self,
        package: &CondaPackage,
        needs: &[(Verb, &String)],
        told: impl Fn(Verb, &str) -> Reason,
    ) -> Result<Vec<Reason>, CondaError> {
        // By itself, or with the others.
        let alone = needs.iter().map(|need| vec![*need]);
        for own in alone.chain([needs.to_vec()]) {
            let specs: Vec<String> = own.iter().map(|(_, need)| (*need).clone()).collect();
            let Some(answer) = self.solve(specs.clone(), &self.question.machine)? else { continue };
            let part = Part { specs, answer };
            let of_needs = || own.iter().map(|(verb, need)| told(*verb, need));
            for refusing in self.needs(&part, &package.name)? {
                if !refusing.admits.contains(&package.file)
                    && self.cannot_have_without(&part, &package.name, &refusing.admits)?
                {
                    let first = self.fact(refusing.steps.join(", "), &package.name);
                    return Ok([first].into_iter().chain(of_needs()).collect());
                }
            }
            for bound in &package.constrains {
                let name = name_of_spec(bound);
                let admitted = self.files(bound)?;
                for need in self.needs(&part, name)? {
                    if need.admits.is_disjoint(&admitted) && self.cannot_without(&part, &need.admits)? {
                        let way = (!need.steps.is_empty()).then(|| self.fact(need.steps.join(", "), name));
                        let facts = way.into_iter().chain([told(Verb::AdmitsOnly, bound)]);
                        return Ok(facts.chain(of_needs()).collect());
                    }
                }
            }
        }
        Ok(Vec::new())
    }

    fn part(&self, which: &[usize]) -> Result<Option<Part>, CondaError> {
        let specs = self.specs(which);
        let answer = self.solve(specs.clone(), &self.question.machine)?;
        Ok(answer.map(|answer| Part { specs, answer }))
    }

    /// Two requirements of a package that no record meets both of, if each part has no answer without its own.
    fn by_requirements(&self, name: &str, parts: [&Part; 2]) -> Result<Option<Vec<Reason>>, CondaError> {
        let [ours, theirs] = [self.needs(parts[0], name)?, self.needs(parts[1], name)?];
        // Who only admits some releases of a package need not have it.
        let all: BTreeSet<String> = self.records.of(name).into_iter().map(|record| record.file).collect();
        if !self.cannot_without(parts[0], &all)? && !self.cannot_without(parts[1], &all)? {
            return Ok(None);
        }
        for own in &ours {
            for other in theirs.iter().filter(|other| other.admits.is_disjoint(&own.admits)) {
                if self.cannot_have_without(parts[0], name, &own.admits)?
                    && self.cannot_have_without(parts[1], name, &other.admits)?
                {
                    let mut told = Vec::new();
                    for need in [own, other].into_iter().filter(|need| !need.steps.is_empty()) {
                        told.push(self.fact(need.steps.join(", "), name));
                        // No release at all meets it.
                        let absent = need.admits.is_empty().then(|| self.absent(&need.spec)).transpose()?;
                        told.extend(absent.flatten());
                    }
                    return Ok(Some(told));
                }
            }
        }
        Ok(None)
    }

    /// The requirements of a package in a part, with the way to each.
    fn needs(&self, part: &Part, name: &str) -> Result<Vec<Need>, CondaError> {
        let mut out = Vec::new();
        for spec in part.specs.iter().filter(|spec| name_of_spec(spec) == name) {
            out.push(Need { spec: spec.clone(), admits: self.files(spec)?, steps: Vec::new() });
        }
        for package in &part.answer {
            // What is asked for by name comes about by itself.
            let is_asked = part.specs.iter().any(|spec| name_of_spec(spec) == package.name);
            let way = |spec: &String| self.chain(name_of_spec(spec), &package.name, &part.answer);
            let ways = part.specs.iter().filter(|_| !is_asked).filter_map(way);
            let before = ways.min_by_key(Vec::len).unwrap_or_default();
            for (verb, specs) in [(Verb::Needs, &package.depends), (Verb::AdmitsOnly, &package.constrains)] {
                for spec in specs.iter().filter(|spec| name_of_spec(spec) == name) {
                    let own = format!(
                        "{} {verb} {}{}",
                        self.shown(package, spec),
                        clean(spec, 60),
                        self.no_other_build(package, spec)
                    );
                    let steps: Vec<String> = before.iter().cloned().chain([own]).collect();
                    out.push(Need { spec: spec.clone(), admits: self.files(spec)?, steps });
                }
            }
        }
        // The shortest explanation first.
        out.sort_by_key(|need| need.steps.len());
        Ok(out)
    }

    /// Whether a part that has a package has no answer without some files of it.
    fn cannot_have_without(
        &self,
        part: &Part,
        name: &str,
        files: &BTreeSet<String>,
    ) -> Result<bool, CondaError> {
        let specs = part.specs.iter().cloned().chain([name.to_owned()]).collect();
        self.cannot_without(&Part { specs, answer: Vec::new() }, files)
    }

    /// Whether a part has no answer without some files.
    fn cannot_without(&self, part: &Part, files: &BTreeSet<String>) -> Result<bool, CondaError> {
        let mut excluded = self.question.excluded.clone();
        excluded.extend(files.iter().map(|file| (file.clone(), String::new())));
        let question = CondaQuestion { specs: part.specs.clone(), excluded, ..self.question.clone() };
        Ok(self.answer(&question)? == Solved::Impossible)
    }

    /// The series of a package that each part can be installed with, if they have none in common and one part needs it.
    fn by_series(&self, name: &str, parts: [&Part; 2]) -> Result<Option<Vec<Reason>>, CondaError> {
        let mut all: Vec<(String, BTreeSet<String>)> = Vec::new();
        for record in self.records.of(name) {
            let series = series(&record.version);
            match all.last_mut().filter(|(last, _)| *last == series) {
                Some((_, files)) => _ = files.insert(record.file),
                None => all.push((series, BTreeSet::from([record.file]))),
            }
        }
        if all.len() > MAX_SERIES {
            return Ok(None);
        }
        let files: BTreeSet<String> = all.iter().flat_map(|(_, files)| files.iter().cloned()).collect();
        let needs = [self.cannot_without(parts[0], &files)?, self.cannot_without(parts[1], &files)?];
        if needs == [false, false] {
            return Ok(None);
        }
        let mut found = Vec::new();
        for part in parts {
            let mut fits = Vec::new();
            for (_, own) in &all {
                let others = files.difference(own).cloned().collect();
                fits.push(!self.cannot_have_without(part, name, &others)?);
            }
            found.push(fits);
        }
        if found[0].iter().zip(&found[1]).any(|(a, b)| *a && *b) {
            return Ok(None);
        }
        let names: Vec<&str> = all.iter().map(|(series, _)| series.as_str()).collect();
        let mut told = Vec::new();
        for ((part, needs_it), fits) in parts.into_iter().zip(needs).zip(&found) {
            let (own, others): (Vec<&String>, Vec<&String>) =
                part.specs.iter().partition(|spec| name_of_spec(spec) == name);
            // What is asked for by name stands in the request, as far as all of it can be installed.
            let own: Vec<String> = own.into_iter().cloned().collect();
            if others.is_empty() && !own.is_empty() {
                let admitted: BTreeSet<String> =
                    self.admitted(&own)?.into_iter().map(|one| one.file).collect();
                if all.iter().zip(fits).all(|((_, files), fits)| *fits || files.is_disjoint(&admitted)) {
                    continue;
                }
            }
            let specs: Vec<String> = part.specs.iter().map(|spec| clean(spec, 60)).collect();
            let specs = specs.join(" with ");
            let series = runs(&names, fits);
            let text = match needs_it {
                _ if series.is_empty() => format!("{specs} cannot be installed with {name}"),
                true => format!("{specs} can only be installed with {name} {series}"),
                false => format!("{specs} can only be installed with {name} {series} or without it"),
            };
            told.push(self.fact(text, name));
        }
        Ok((!told.is_empty()).then_some(told))
    }

    fn fact(&self, text: String, name: &str) -> Reason {
        Reason::fact(text).about_package(name).by(OF_CHANNEL)
    }
}

/// The packages that both parts have to do with: install in unlike releases or builds, or one installs and the other bounds.
fn disputable(one: &Part, other: &Part) -> Vec<String> {
    let files = |part: &Part| -> BTreeMap<String, String> {
        part.answer.iter().map(|package| (package.name.clone(), package.file.clone())).collect()
    };
    let (ours, theirs) = (files(one), files(other));
    let bounds = |part: &Part, name: &str| {
        let mut constrains = part.answer.iter().flat_map(|package| &package.constrains);
        constrains.any(|spec| name_of_spec(spec) == name)
    };
    let is_unlike = |name: &&String| match (ours.get(*name), theirs.get(*name)) {
        (Some(own), Some(other)) => own != other,
        (Some(_), None) => bounds(other, name),
        (None, Some(_)) => bounds(one, name),
        (None, None) => false,
    };
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    names.into_iter().filter(is_unlike).take(MAX_NAMES).cloned().collect()
}

/// What a package requires and what it admits, with the verb.
fn requirements(package: &CondaPackage) -> impl Iterator<Item = (Verb, &String)> {
    let needs = package.depends.iter().map(|spec| (Verb::Needs, spec));
    needs.chain(package.constrains.iter().map(|spec| (Verb::AdmitsOnly, spec)))
}

/// `3.13` of `3.13.9`.
fn series(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// `3.9 to 3.11, 3.13`: those of a list that fit, in its order.
fn runs(names: &[&str], fits: &[bool]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < names.len() {
        let length = fits[at..].iter().take_while(|fits| **fits).count();
        match length {
            0 => {}
            1 => out.push(names[at].to_owned()),
            _ => out.push(format!("{} to {}", names[at], names[at + length - 1])),
        }
        at += length.max(1);
    }
    out.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_told_as_runs() {
        let names = ["3.9", "3.10", "3.11", "3.12"];
        for (fits, expected) in [
            ([true, true, false, true], "3.9 to 3.10, 3.12"),
            ([false, false, true, true], "3.11 to 3.12"),
            ([false; 4], ""),
            ([true; 4], "3.9 to 3.12"),
        ] {
            assert_eq!(runs(&names, &fits), expected);
        }
    }
}
