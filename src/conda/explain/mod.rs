//! Why conda packages cannot be installed together: which of the requests are at fault, which facts of the records stand
//! against them, and the changes that were solved and work.

mod dispute;
#[cfg(test)]
mod tests;
mod virtual_package;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::solve::{CondaError, CondaQuestion, Records, Solved};
use super::spec::{channel_of_spec, parse};
use super::virtual_packages::{VirtualPackage, opened};
use crate::model::conda::{machine_spec, name_of_spec};
use crate::model::conflict::{Change, Conflict, Party, Reason, ReasonKind, WayOut};
use crate::model::count::Count;
use crate::model::level::Level;
use crate::model::request::Origin;
use crate::model::source::CondaPackage;
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::registry::conda_builds::OF_CHANNEL;

/// Maximum number of versions of a package that are listed one by one.
const MAX_LISTED: usize = 4;
/// At most this many solves explain a question.
const MAX_SOLVES: usize = 1000;

/// A conflict, and the specs of the question that it rests on.
#[derive(Debug)]
pub struct Explained {
    /// The conflict.
    pub conflict: Conflict,
    /// The specs that cannot hold together on this machine, by their place in the question.
    pub core: Vec<usize>,
}

/// A part of the request that a spec stands for.
#[derive(Debug, Clone)]
pub struct Written {
    /// As it is told: `numpy <2`, `Python 3.14`.
    pub text: String,
    /// Where it is written.
    pub origin: Origin,
}

/// What a question is asked for.
pub struct Asked<'a> {
    /// What each spec of the question stands for; `None` for those that follow from the rest of the request.
    pub written: &'a [Option<Written>],
    /// The CUDA versions that drivers support, each with the first driver.
    pub drivers: &'a [(String, DottedVersion)],
    /// What is known of the driver, for a sentence: `driver 470.129.06`.
    pub driver: &'a str,
    /// Why the machine has no `__cuda`: `the machine has no NVIDIA GPU`.
    pub without_gpu: &'a str,
    /// The name of the target.
    pub target: &'a str,
    /// The channels, for a sentence.
    pub channels: &'a [String],
    /// How long the next solve may take.
    pub limit: &'a dyn Fn() -> Duration,
}

/// Explains a question without an answer.
///
/// # Errors
/// Those of a solve, when the explanation takes too many of them, and when the question has an answer.
pub fn explain(
    records: &Records,
    question: &CondaQuestion,
    asked: &Asked<'_>,
) -> Result<Explained, CondaError> {
    let (tried, left) = (RefCell::default(), Cell::new(MAX_SOLVES));
    let explainer = Explainer { records, question, asked, depth: 0, tried: &tried, left: &left };
    if explainer.solve(question.specs.clone(), &question.machine)?.is_some() {
        return Err(CondaError::Solvable);
    }
    let core = explainer.core(false)?;
    let mut reasons = explainer.facts(&core)?;
    let is_told_by_request =
        core.iter().all(|i| asked.written[*i].is_some()) && explainer.is_of_disjoint_specs(&core)?;
    if reasons.is_empty() && !is_told_by_request {
        let text = format!(
            "no choice among the records of {} meets all that they require of each other",
            asked.channels.join(", ")
        );
        reasons.push(Reason::fact(text).by(OF_CHANNEL));
    }
    for i in &core {
        if let Some(Written { text, origin }) = &asked.written[*i] {
            let asked = Reason::asked(origin, false, format!("you require {}", clean(text, 120)));
            reasons.push(asked.about_package(name_of_spec(&question.specs[*i])));
        }
    }
    let ways = explainer.ways(&core)?;
    let conflict = Conflict::of(explainer.headline(&core)).because(reasons).with_ways(ways);
    Ok(Explained { conflict: Conflict { target: asked.target.to_owned(), ..conflict }, core })
}

/// Records that another channel keeps from being taken.
struct Shadowed {
    /// The channel that has the name and comes first.
    first: String,
    /// The channel that has them.
    own: String,
}

#[derive(Clone, Copy)]
struct Explainer<'e> {
    records: &'e Records,
    question: &'e CondaQuestion,
    asked: &'e Asked<'e>,
    /// How many packages lead to the question: none to that of the request.
    depth: usize,
    /// The files of packages that are being explained, and of those for which no explanation was found.
    tried: &'e RefCell<BTreeSet<String>>,
    /// How many solves are left.
    left: &'e Cell<usize>,
}

impl Explainer<'_> {
    /// The answer with some of the specs, on a machine.
    fn solve(
        &self,
        specs: Vec<String>,
        machine: &[VirtualPackage],
    ) -> Result<Option<Vec<CondaPackage>>, CondaError> {
        let question = CondaQuestion {
            specs,
            machine: machine.to_vec(),
            kept: BTreeSet::new(),
            ..self.question.clone()
        };
        Ok(match self.answer(&question)? {
            Solved::Packages(packages) => Some(packages),
            Solved::Impossible => None,
        })
    }

    /// One solve of those that are left.
    fn answer(&self, question: &CondaQuestion) -> Result<Solved, CondaError> {
        let left = self.left.get().checked_sub(1).ok_or(CondaError::TooLong)?;
        self.left.set(left);
        self.records.solve(question, (self.asked.limit)())
    }

    fn specs(&self, which: &[usize]) -> Vec<String> {
        which.iter().map(|i| self.question.specs[*i].clone()).collect()
    }

    /// The specs without which there is an answer: from all of them, each is taken away that is not needed for the
    /// contradiction. Backwards, another one may be left.
    fn core(&self, is_backwards: bool) -> Result<Vec<usize>, CondaError> {
        let mut kept: Vec<usize> = (0..self.question.specs.len()).collect();
        // What no record meets explains itself: it stays if it can.
        let mut order = kept.clone();
        if is_backwards {
            order.reverse();
        }
        let mut absent = Vec::new();
        for spec in &self.question.specs {
            absent.push(self.absent(spec)?.is_some());
        }
        order.sort_by_key(|i| absent[*i]);
        for i in order {
            let fewer: Vec<usize> = kept.iter().copied().filter(|k| *k != i).collect();
            if self.solve(self.specs(&fewer), &self.question.machine)?.is_none() {
                kept = fewer;
            }
        }
        Ok(kept)
    }

    fn headline(&self, core: &[usize]) -> String {
        let written = core.iter().filter_map(|i| self.asked.written[*i].as_ref());
        let named: Vec<String> = written.map(|written| clean(&written.text, 60)).collect();
        match named.as_slice() {
            [] => "the conda packages cannot be installed together".to_owned(),
            [one] => format!("no {one} can be installed from {}", self.asked.channels.join(", ")),
            many => format!("{} cannot be installed together", many.join(" and ")),
        }
    }

    /// The facts that stand against the specs of a core.
    fn facts(&self, core: &[usize]) -> Result<Vec<Reason>, CondaError> {
        let mut out = Vec::new();
        for spec in self.specs(core) {
            out.extend(self.absent(&spec)?);
        }
        if !out.is_empty() {
            return Ok(out);
        }
        out.extend(self.machine(core)?);
        if out.is_empty() {
            out.extend(self.left_out(core)?);
        }
        if out.is_empty() {
            out.extend(self.excluded(core)?);
        }
        if out.is_empty() {
            match self.between(core)? {
                Some(found) => return Ok(found),
                None if self.is_of_one_package(core) => out.extend(self.within(&self.specs(core))?),
                None => {}
            }
        }
        Ok(out)
    }

    fn is_of_one_package(&self, core: &[usize]) -> bool {
        core.iter().map(|i| name_of_spec(&self.question.specs[*i])).collect::<BTreeSet<_>>().len() == 1
    }

    /// Whether specs of one package admit no release together: they need no more words.
    fn is_of_disjoint_specs(&self, core: &[usize]) -> Result<bool, CondaError> {
        Ok(core.len() > 1 && self.is_of_one_package(core) && self.admitted(&self.specs(core))?.is_empty())
    }

    /// That no channel has a package, or no release that a spec admits.
    fn absent(&self, spec: &str) -> Result<Option<Reason>, CondaError> {
        let name = name_of_spec(spec).to_lowercase();
        if let Some((has, party)) = virtual_package::fault(self, spec) {
            let text = format!("`{}` is needed, and {has}", clean(spec, 60));
            return Ok(Some(Reason::fact(text).about([party])));
        }
        if name.starts_with("__") {
            return Ok(None);
        }
        let all = self.records.of(&name);
        let channels = self.asked.channels.join(", ");
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            let text = match self.records.is_unread(&name) {
                true => format!(
                    "no record of `{}` in {channels} can be used: they have no SHA-256 or no size, or another form",
                    clean(&name, 60)
                ),
                false => format!("no package `{}` in {channels}", clean(&name, 60)),
            };
            let absent = Reason::new(ReasonKind::NoProject { nearest: None, command: None }, text);
            return Ok(Some(absent.about_package(name).by(OF_CHANNEL)));
        };
        let matching = self.records.matching(spec)?;
        if matching.is_empty() {
            let parsed = parse(spec)?;
            let has_version = || {
                let mut versions = all.iter().filter_map(|own| own.version.parse().ok());
                parsed.version.as_ref().is_none_or(|bounds| versions.any(|own| bounds.matches(&own)))
            };
            let mut versions: Vec<&str> = all.iter().map(|own| own.version.as_str()).collect();
            versions.dedup();
            // A range alone would say that what is asked for is in it.
            let how = match parsed.build.is_some() && has_version() {
                true => ", in other builds",
                false if versions.len() > MAX_LISTED => ", none of which fits",
                false => "",
            };
            let has = match versions.len() {
                ..=MAX_LISTED => versions.join(", "),
                _ => format!("{} to {}", first.version, last.version),
            };
            let unread = if self.records.is_unread(&name) { " (other records cannot be used)" } else { "" };
            let text = format!("{channels} has {name} {has}{how}{unread}");
            let available = Reason::new(ReasonKind::Available, text);
            return Ok(Some(available.about_package(name).by(OF_CHANNEL)));
        }
        let left_out: Vec<&String> =
            matching.iter().filter_map(|package| self.question.excluded.get(&package.file)).collect();
        if left_out.len() == matching.len() {
            return Ok(left_out.first().map(|why| Reason::fact(*why).about_package(name)));
        }
        Ok(self.shadowed(spec, &matching).map(|shadowed| {
            let text = format!(
                "{} has {name} too and comes first, so those of {} are not taken",
                shadowed.first, shadowed.own
            );
            Reason::fact(text).about_package(name).by("the order of the channels")
        }))
    }

    /// The channel whose records of a package are taken, where what matches a spec is in another one: only those of the first
    /// channel that has the name are.
    fn shadowed(&self, spec: &str, matching: &[CondaPackage]) -> Option<Shadowed> {
        let name = name_of_spec(spec).to_lowercase();
        let is_of_channel =
            |own: &String| name_of_spec(own).eq_ignore_ascii_case(&name) && channel_of_spec(own).is_some();
        if channel_of_spec(spec).is_some() || self.question.specs.iter().any(is_of_channel) {
            return None;
        }
        let has_it: BTreeSet<String> = self.records.of(&name).into_iter().map(|own| own.channel).collect();
        let first = self.asked.channels.iter().find(|channel| has_it.contains(*channel))?;
        if matching.iter().any(|own| own.channel == *first) {
            return None;
        }
        let own = matching.first()?.channel.clone();
        Some(Shadowed { first: first.clone(), own })
    }

    /// What the machine does not have without which there is no answer.
    fn machine(&self, core: &[usize]) -> Result<Vec<Reason>, CondaError> {
        for name in ["__cuda", "__glibc"] {
            let open = opened(&self.question.machine, name);
            let Some(answer) = self.solve(self.specs(core), &open)? else { continue };
            for package in &answer {
                let needs = package.depends.iter().map(|spec| ("needs", spec));
                let admits = package.constrains.iter().map(|spec| ("admits only", spec));
                let unfit = needs.chain(admits).filter(|(_, spec)| name_of_spec(spec) == name);
                let mut unfit =
                    unfit.filter_map(|(verb, spec)| Some((verb, spec, virtual_package::fault(self, spec)?)));
                let Some((verb, spec, (has, party))) = unfit.next() else { continue };
                let from = self.specs(core);
                let ways =
                    from.iter().filter_map(|from| self.chain(name_of_spec(from), &package.name, &answer));
                let mut steps = ways.min_by_key(Vec::len).unwrap_or_default();
                steps.push(format!("{} {verb} `{}`", self.shown(package, spec), clean(spec, 60)));
                let text = format!("{}{}, and {has}", steps.join(", "), self.no_other_build(package, spec));
                let fact = Reason::fact(text).about_package(package.name.as_str()).about([party]);
                return Ok(vec![fact.by(OF_CHANNEL)]);
            }
        }
        Ok(Vec::new())
    }

    /// `pytorch 2.9.1`; with the build if another one of that version does not have a requirement: `pytorch 2.9.1 cpu_0`.
    fn shown(&self, package: &CondaPackage, spec: &str) -> String {
        match self.is_of_all_builds(package, spec) {
            true => format!("{} {}", package.name, package.version),
            false => format!("{} {} {}", package.name, package.version, package.build),
        }
    }

    /// What is added to a requirement of one build, where it is proved that the others do not help.
    fn no_other_build(&self, package: &CondaPackage, spec: &str) -> &'static str {
        if self.is_of_all_builds(package, spec) { "" } else { " (no other build will do)" }
    }

    /// Whether every build of a version has a requirement.
    fn is_of_all_builds(&self, package: &CondaPackage, spec: &str) -> bool {
        let is_need = package.depends.iter().any(|text| text == spec);
        let has = |own: &CondaPackage| {
            let specs = if is_need { &own.depends } else { &own.constrains };
            specs.iter().any(|text| text == spec)
        };
        let others = self.records.of(&package.name);
        others.iter().filter(|own| own.version == package.version).all(has)
    }

    /// A file that the question excludes and that every answer with the others has.
    fn excluded(&self, core: &[usize]) -> Result<Option<Reason>, CondaError> {
        let open =
            CondaQuestion { excluded: BTreeMap::new(), specs: self.specs(core), ..self.question.clone() };
        let Solved::Packages(answer) = self.answer(&open)? else { return Ok(None) };
        let mut found = None;
        for package in &answer {
            let Some(why) = self.question.excluded.get(&package.file) else { continue };
            // At fault is the package whose records are all that stands in the way: another release may do for the others.
            let of_name: BTreeSet<String> =
                self.records.of(&package.name).into_iter().map(|record| record.file).collect();
            let mut fewer = self.question.excluded.clone();
            fewer.retain(|file, _| !of_name.contains(file));
            let question =
                CondaQuestion { excluded: fewer, specs: self.specs(core), ..self.question.clone() };
            let is_alone = matches!(self.answer(&question)?, Solved::Packages(_));
            if is_alone {
                found = Some((package, why));
                break;
            }
            found = found.or(Some((package, why)));
        }
        Ok(found.map(|(package, why)| Reason::fact(why).about_package(package.name.as_str())))
    }

    /// A package that a bound of the question leaves out altogether, and what needs it.
    fn left_out(&self, core: &[usize]) -> Result<Option<Reason>, CondaError> {
        let machine = opened(&self.question.machine, "__cuda");
        let open =
            CondaQuestion { bounds: Vec::new(), specs: self.specs(core), machine, ..self.question.clone() };
        let Solved::Packages(answer) = self.answer(&open)? else { return Ok(None) };
        let is_there = |name: &str| answer.iter().any(|package| package.name == name);
        let Some(bound) = self.question.bounds.iter().find(|bound| is_there(name_of_spec(&bound.spec)))
        else {
            return Ok(None);
        };
        let name = name_of_spec(&bound.spec);
        let chains =
            core.iter().filter_map(|i| self.chain(name_of_spec(&self.question.specs[*i]), name, &answer));
        let chain = chains.into_iter().next();
        let text = match chain {
            Some(steps) => format!("{}, and {}", steps.join(", "), bound.why),
            // What is asked for is told as such.
            None => bound.why.clone(),
        };
        Ok(Some(Reason::fact(text).about_package(name).by(OF_CHANNEL)))
    }

    /// The requirements that lead from one package of an answer to another: `ffmpeg 7.1.1 needs x264 >=1!164`. None if they are
    /// the same.
    fn chain(&self, from: &str, to: &str, answer: &[CondaPackage]) -> Option<Vec<String>> {
        let of = |name: &str| answer.iter().find(|package| package.name == name);
        let mut before: BTreeMap<&str, (&CondaPackage, &str)> = BTreeMap::new();
        let mut seen: BTreeSet<&str> = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(name) = (!open.is_empty()).then(|| open.remove(0)) {
            let Some(package) = of(name) else { continue };
            for spec in &package.depends {
                let next = name_of_spec(spec);
                if seen.insert(next) {
                    before.insert(next, (package, spec));
                    open.push(next);
                }
            }
        }
        let mut steps = Vec::new();
        let mut at = to;
        while let Some((package, spec)) = before.get(at) {
            let other = self.no_other_build(package, spec);
            steps.push(format!("{} needs {}{other}", self.shown(package, spec), clean(spec, 60)));
            at = package.name.as_str();
        }
        steps.reverse();
        (!steps.is_empty()).then_some(steps)
    }

    /// The changes that were solved and work.
    fn ways(&self, core: &[usize]) -> Result<Vec<WayOut>, CondaError> {
        let mut out = Vec::new();
        let all: Vec<usize> = (0..self.question.specs.len()).collect();
        if self.question.machine.iter().any(|own| own.name == "__cuda") {
            for (cuda, driver) in self.asked.drivers {
                let mut machine = self.question.machine.clone();
                let mut own = machine.iter_mut().filter(|own| own.name == "__cuda");
                let Some(own) = own.next() else { break };
                let is_newer = number(cuda) > number(&own.version);
                own.version = cuda.clone();
                if !is_newer {
                    continue;
                }
                if let Some(answer) = self.solve(self.specs(&all), &machine)? {
                    out.push(way(Change::Driver(driver.clone()), Party::Driver, &answer));
                    break;
                }
            }
        }
        if let Some(answer) = self.solve(self.specs(&all), &opened(&self.question.machine, "__glibc"))? {
            let specs = answer.iter().flat_map(|package| package.depends.iter().chain(&package.constrains));
            let bounds = specs.filter_map(|spec| machine_spec(spec)).filter(|spec| spec.name == "__glibc");
            let bounds = bounds.filter_map(|spec| spec.at_least);
            out.extend(bounds.max().map(|floor| way(Change::Glibc(floor), Party::Glibc, &answer)));
        }
        let name_of = |i: usize| name_of_spec(&self.question.specs[i]).to_lowercase();
        let asked = core.iter().filter(|i| self.asked.written[**i].is_some());
        for name in asked.map(|i| name_of(*i)).collect::<BTreeSet<String>>() {
            // Those of one name stand or fall together.
            let (own, others): (Vec<usize>, Vec<usize>) = all.iter().partition(|i| name_of(**i) == name);
            let without = self.specs(&others);
            let party = Party::package(name.as_str());
            let is_bounded = own.iter().any(|i| self.question.specs[*i] != name);
            let specs = without.iter().cloned().chain([name.clone()]).collect();
            if is_bounded
                && !name.starts_with("__")
                && let Some(answer) = self.solve(specs, &self.question.machine)?
            {
                let found = answer.iter().find(|package| package.name == name);
                let releases = found.map(|package| package.version.clone()).unwrap_or_default();
                out.push(way(Change::Series { package: name, releases }, party, &answer));
                continue;
            }
            if let Some(answer) = self.solve(without, &self.question.machine)? {
                out.push(way(Change::WithoutRequest(name), party, &answer));
            }
        }
        for i in core.iter().filter(|i| self.asked.written[**i].is_some()) {
            let spec = &self.question.specs[*i];
            let Some(Shadowed { own: channel, .. }) = self.shadowed(spec, &self.records.matching(spec)?)
            else {
                continue;
            };
            let mut specs = self.specs(&all);
            specs[*i] = format!("{channel}::{spec}");
            if let Some(answer) = self.solve(specs, &self.question.machine)? {
                let party = Party::package(name_of_spec(spec));
                out.push(way(Change::FromChannel { channel, spec: spec.clone() }, party, &answer));
            }
        }
        Ok(out)
    }
}

fn number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

fn way(change: Change, party: Party, answer: &[CondaPackage]) -> WayOut {
    let count = answer.len();
    let s = Count(count).s();
    let python = answer.iter().find(|package| package.name == "python");
    let python = python.map(|python| format!(" with Python {}", python.version)).unwrap_or_default();
    WayOut::new(change, party, Level::Full, format!("{count} conda package{s}{python}"))
}
