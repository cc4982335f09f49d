//! Requests with conda packages: conda's half is solved first, and PyPI's on top of it, with what conda installs as fixed
//! packages. Python is chosen over both.

mod causes;
mod checked;
mod code;
mod conflict;
mod linked;
mod stack;
mod stepping;
mod told;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use pep440_rs::Version;

pub(super) use self::code::CodeOfWheels;
use self::conflict::{
    cut_off, named_by, names_all, rests_on_tried, tell_of_conda, tell_tried, without_pythons,
};
use self::stack::ChosenStack;
use self::stepping::{Admitted, AtHand, Provided, excluded_by};
use super::{Asked, Session};
use crate::cli::error::CliError;
use crate::cli::settings;
use crate::compatibility::with_machine_specs;
use crate::conda::{Bound, CondaError, Question, Records, Repodata, Solved, virtual_packages};
use crate::index::ChannelFolder;
use crate::model::conda::{is_python_package, specs_of};
use crate::model::conflict::Conflict;
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::request::{Origin, PythonAllowed, PythonRequest, Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::{Answer, Note, Solution};
use crate::model::source::CondaPackage;
use crate::model::text::{channel_without_secrets, clean};
use crate::model::wheel::Python;
use crate::registry::COMPANIONS;
use crate::registry::conda_builds::PYTORCH;
use crate::registry::conda_names::{OfFramework, framework_packages, pypi_name};
use crate::solver::allowed_pythons;

/// How often a conda package that PyPI's half excludes is left out and conda's half is solved again.
const MAX_ROUNDS: usize = 20;

/// The build of the stack that conda's half installs, if it comes from the channels.
struct Half {
    /// What is asked of conda's half besides.
    specs: Vec<String>,
    stack: ChosenStack,
}

/// How long a solve of conda's half may take.
const SOLVE: Duration = Duration::from_secs(60);
/// How long the causes of a conflict of both halves and its ways out are looked for. A build without optimization is slower by an
/// order of magnitude.
const EXPLAINING: Duration = Duration::from_secs(if cfg!(debug_assertions) { 300 } else { 30 });

/// What a solve over both halves is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The answer.
    Answer,
    /// Another cause of a conflict: large wheels are not read, and taken for ones that fit.
    Cause,
    /// A way out of a conflict: large wheels are not read, and are not offered.
    Way,
}

/// What records were read from, and for which names.
pub(super) struct Reach {
    platform: Platform,
    channels: Vec<String>,
    names: BTreeSet<String>,
}

impl Reach {
    /// Whether everything that another one reaches is in the records of this one.
    fn includes(&self, other: &Reach) -> bool {
        self.platform == other.platform
            && self.channels == other.channels
            && self.names.is_superset(&other.names)
    }
}

/// What PyPI's half came to for one Python.
enum OfPython {
    Solved(Box<Solution>),
    /// There is no answer of conda's half, and whether the search ended at its limit.
    NoConda {
        is_cut: bool,
    },
    /// The conflict of PyPI's half, and whether the search ended at its limit.
    Conflict {
        conflict: Box<Conflict>,
        is_cut: bool,
    },
    Open(Answer),
}

impl Session<'_> {
    /// Solves both halves. A conflict has the ways out that lie between them.
    ///
    /// # Errors
    /// When a channel does not answer or is not there, and those of PyPI's half.
    pub(super) fn solve_both(&mut self, asked: &Asked<'_>) -> Result<Answer, CliError> {
        let conflict = match self.both(asked)? {
            Answer::Conflict(conflict) => conflict,
            answer => return Ok(answer),
        };
        let until = Instant::now() + EXPLAINING;
        self.explains_until = Some(until);
        let mut conflict = self.for_purpose(Purpose::Cause, |session| session.every_cause(conflict, asked));
        self.explains_until = None;
        conflict.cut |= Instant::now() >= until;
        Ok(Answer::Conflict(conflict))
    }

    /// Says that what is solved is offered as a way out of a conflict.
    pub(in crate::cli) fn is_for_a_way_out(&mut self) {
        self.purpose = Purpose::Way;
    }

    /// Does something for another purpose.
    fn for_purpose<T>(&mut self, purpose: Purpose, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.purpose, purpose);
        let out = act(self);
        self.purpose = before;
        out
    }

    /// The time that is left for one solve of conda's half.
    fn time_left(&self) -> Duration {
        let left = self.explains_until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(SOLVE, |left| left.clamp(Duration::from_secs(1), SOLVE))
    }

    /// Solves both halves.
    fn both(&mut self, asked: &Asked<'_>) -> Result<Answer, CliError> {
        if self.explains_until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Answer::TooLong);
        }
        match asked.request.conda.stack.is_some() {
            true => self.solve_with_stack(asked),
            false => self.solve_beside_stack(asked),
        }
    }

    /// Solves both halves where the stack, if there is one, is PyPI's.
    fn solve_beside_stack(&mut self, asked: &Asked<'_>) -> Result<Answer, CliError> {
        let platform = asked.host.system.platform;
        let records = self.records(asked.request, platform)?;
        let others = other_interpreters(&records);
        let mut first: Option<(Python, Box<Conflict>)> = None;
        let mut is_cut = false;
        let mut rounds = 0;
        let mut unfit: BTreeMap<String, String> = BTreeMap::new();
        for python in self.pythons(asked, &records)? {
            match self.on_python(&records, asked, python, (&mut rounds, &mut unfit), (None, &others))? {
                OfPython::Solved(solution) => return Ok(Answer::Solution(solution)),
                OfPython::Open(answer) => return Ok(answer),
                OfPython::NoConda { is_cut: is_cut_here } => is_cut |= is_cut_here,
                OfPython::Conflict { conflict, is_cut: is_cut_here } => {
                    is_cut |= is_cut_here;
                    // One that another Python has too says more than that this Python does not fit.
                    let is_worse = |(_, before): &(Python, Box<Conflict>)| {
                        rests_on_tried(before) && !rests_on_tried(&conflict)
                    };
                    if first.as_ref().is_none_or(is_worse) {
                        first = Some((python, conflict));
                    }
                }
            }
        }
        if let Some((python, conflict)) = first {
            let conflict = tell_tried(conflict, python);
            return Ok(Answer::Conflict(match is_cut || rounds >= MAX_ROUNDS {
                true => Box::new(cut_off(*conflict)),
                false => conflict,
            }));
        }
        let conflict = self.conflict_of_conda(&records, asked, unfit, (None, &others))?;
        Ok(Answer::Conflict(Box::new(if is_cut { cut_off(conflict) } else { conflict })))
    }

    /// The Pythons to try: that of PyPI's half alone, then the others, the newest first.
    fn pythons(&mut self, asked: &Asked<'_>, records: &Records) -> Result<Vec<Python>, CliError> {
        let mut out = allowed_pythons(self.registry, asked.request);
        let of_channels: BTreeSet<u32> =
            records.of("python").iter().filter_map(|python| series(&python.version)).collect();
        out.retain(|python| of_channels.contains(&python.minor));
        out.sort_unstable();
        out.reverse();
        let kept = asked.preferences.python;
        let wished = match kept {
            Some(python) => Some(python),
            None if asked.request.requirements.is_empty() => None,
            None => {
                let alone = asked.request.of_indexes();
                match self.solve(asked.host, &alone, asked.preferences)? {
                    Answer::Solution(solution) => Some(solution.python),
                    // It has no answer with conda's packages either, and says better why.
                    _ => None,
                }
            }
        };
        if let Some(at) = wished.and_then(|wished| out.iter().position(|python| python.minor == wished.minor))
        {
            let wished = out.remove(at);
            out.insert(0, wished);
        }
        Ok(out)
    }

    /// Both halves for one Python series. A record that PyPI's half excludes is left out, and conda's half solved again.
    fn on_python(
        &mut self,
        records: &Records,
        asked: &Asked<'_>,
        python: Python,
        (rounds, left_out): (&mut usize, &mut BTreeMap<String, String>),
        (half, others): (Option<&Half>, &BTreeMap<String, String>),
    ) -> Result<OfPython, CliError> {
        // What the request says of conda's packages bounds them from the start.
        let platform = asked.host.system.platform;
        let channels = &asked.request.conda.channels;
        let constraints = applicable(&asked.request.constraints, &[python], platform);
        let requirements = applicable(&asked.request.requirements, &[python], platform);
        let by_constraints = excluded_by(records, &constraints, channels, python);
        let by_requirements = excluded_by(records, &requirements, channels, python);
        let mut excluded = others.clone();
        excluded.extend(by_constraints.clone());
        excluded.extend(by_requirements.clone());
        let has_bounds = !by_constraints.is_empty() || !by_requirements.is_empty();
        let mut is_within = true;
        let mut first: Option<Box<Conflict>> = None;
        let mut admitted = Admitted::default();
        let mut is_cut = false;
        let mut last: Vec<CondaPackage> = Vec::new();
        // What else may be left out, the next last: of packages that do not go together, each is tried.
        let mut open: Vec<BTreeMap<String, String>> = Vec::new();
        let mut stepped_back: BTreeSet<String> = BTreeSet::new();
        let impossible = |first: Option<Box<Conflict>>, is_cut: bool| match first {
            None => OfPython::NoConda { is_cut },
            Some(conflict) => OfPython::Conflict { conflict, is_cut },
        };
        loop {
            let mut left = excluded.clone();
            left.extend(admitted.others(records));
            let question = question(asked, Some(python), &left, (self, !records.of("pip").is_empty()), half);
            let solved = match records.solve(&question) {
                Err(CondaError::TooLong) => return Ok(impossible(first, true)),
                solved => solved.map_err(unsolved)?,
            };
            let packages = match solved {
                Solved::Packages(packages) => packages,
                Solved::Impossible
                    if *rounds < MAX_ROUNDS
                        && self.admits_others(
                            &last,
                            (asked, python),
                            (records, &excluded, half),
                            &mut admitted,
                        )? =>
                {
                    *rounds += 1;
                    continue;
                }
                // Without the bounds, the conflict of PyPI's half tells who stands against them.
                Solved::Impossible if is_within && has_bounds && first.is_none() => {
                    is_within = false;
                    left_out.extend(by_constraints.clone());
                    excluded.retain(|file, _| others.contains_key(file) || by_constraints.contains_key(file));
                    continue;
                }
                Solved::Impossible if *rounds < MAX_ROUNDS && !open.is_empty() => {
                    excluded = open.pop().unwrap_or(excluded);
                    *rounds += 1;
                    continue;
                }
                Solved::Impossible => return Ok(impossible(first, is_cut || !open.is_empty())),
            };
            let unfit = self.unfit(&packages, records, &constraints);
            if !unfit.is_empty() {
                if *rounds >= MAX_ROUNDS {
                    return Ok(impossible(first, true));
                }
                left_out.extend(unfit.clone());
                excluded.extend(unfit);
                *rounds += 1;
                continue;
            }
            let mut provided = provided(&packages);
            refuse_what_conda_lacks(&requirements, &provided)?;
            if half.is_some() {
                // These are builds, which the solver knows by the registry.
                provided.retain(|name, _| !STACK_PACKAGES.contains(&name.as_str()));
            }
            let request = of_python(asked.request, half, &packages, python);
            let alone = Asked { request: &request, ..*asked };
            let answer = self.beside(half, &provided, &BTreeMap::new())?.solve(
                asked.host,
                &request,
                asked.preferences,
            )?;
            let conflict = match answer {
                Answer::Solution(mut solution) => {
                    let twice = installed_twice(&packages, &solution);
                    if !twice.is_empty() {
                        left_out.extend(twice.clone());
                        excluded.extend(twice);
                        *rounds += 1;
                        if *rounds >= MAX_ROUNDS {
                            return Ok(impossible(first, true));
                        }
                        continue;
                    }
                    solution.packages.retain(|package| {
                        let is_of_stack = half.is_some() && STACK_PACKAGES.contains(&package.name.as_str());
                        !provided.contains_key(&package.name) && !is_of_stack
                    });
                    widen(&mut solution, &packages, self.registry);
                    solution.python = Python::new(python.minor);
                    if asked.request.exclude_newer.general.is_some() {
                        let text = "`exclude-newer` does not bound conda packages".to_owned();
                        solution.notes.push(Note { text, source: None });
                    }
                    solution.notes.extend(unread_records(asked.request, records));
                    solution.conda = packages;
                    return Ok(OfPython::Solved(solution));
                }
                Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => conflict,
                open => return Ok(OfPython::Open(open)),
            };
            let named = named_by(&conflict, &provided);
            if named.is_empty() {
                // Another release of what was left out may go with packages that this one does not bring.
                let again: Vec<&CondaPackage> =
                    packages.iter().filter(|package| stepped_back.contains(&package.name)).collect();
                // Another patch release of Python may be one that the package takes.
                let release = packages.iter().find(|package| package.name == "python");
                let is_same =
                    |record: &&CondaPackage| release.is_some_and(|release| record.version == release.version);
                if again.is_empty() && rests_on_tried(&conflict) && *rounds < MAX_ROUNDS {
                    first = first.or(Some(without_pythons(conflict)));
                    excluded.extend(records.of("python").iter().filter(is_same).map(does_not_fit));
                    *rounds += 1;
                    continue;
                }
                if again.is_empty() || *rounds >= MAX_ROUNDS {
                    first = first.or(Some(without_pythons(conflict)));
                    match open.pop().filter(|_| *rounds < MAX_ROUNDS) {
                        Some(next) => excluded = next,
                        None => return Ok(impossible(first, is_cut)),
                    }
                    *rounds += 1;
                    continue;
                }
                excluded.extend(again.into_iter().map(does_not_fit));
                *rounds += 1;
                continue;
            }
            let told = tell_of_conda(without_pythons(conflict), &named, &provided, (asked, &packages));
            first = first.or(Some(told));
            *rounds += 1;
            if !is_within || *rounds >= MAX_ROUNDS {
                return Ok(impossible(first, is_cut));
            }
            let names: Vec<&String> = named.iter().map(|(name, _)| *name).collect();
            // What the request excludes is PyPI's half to tell.
            let left = without_keys(&excluded, [&by_requirements, &by_constraints]);
            let at = AtHand { records, excluded: &left, python, half, provided: &provided };
            let (is_new, conflict) = self.admit(&alone, at, &names, &mut admitted)?;
            // It may have another one at fault, who needs another release.
            let told = conflict.map(|conflict| {
                let named = named_by(&conflict, &provided);
                tell_of_conda(without_pythons(conflict), &named, &provided, (asked, &packages))
            });
            let says_more = |told: &Conflict| first.as_ref().is_none_or(|first| !names_all(first, told));
            if let Some(told) = told.filter(|told| says_more(told)) {
                first = Some(told);
            }
            for (_, (_, package)) in &named {
                stepped_back.insert(package.name.clone());
            }
            is_cut |= admitted.is_cut;
            // Each of them is admitted, and not all together: one has to be another release.
            if !is_new {
                let without = |package: &CondaPackage| {
                    let same =
                        records.of(&package.name).into_iter().filter(|own| own.version == package.version);
                    let mut out = excluded.clone();
                    out.extend(same.map(|own| does_not_fit(&own)));
                    out
                };
                open.extend(named.iter().rev().map(|(_, (_, package))| without(package)));
                excluded = open.pop().unwrap_or(excluded);
            }
            last = packages;
        }
    }

    /// Looks for more releases that PyPI's half admits, beside what conda's half installed last.
    fn admits_others(
        &self,
        last: &[CondaPackage],
        (asked, python): (&Asked<'_>, Python),
        (records, excluded, half): (&Records, &BTreeMap<String, String>, Option<&Half>),
        admitted: &mut Admitted,
    ) -> Result<bool, CliError> {
        let mut provided = provided(last);
        if half.is_some() {
            provided.retain(|name, _| !STACK_PACKAGES.contains(&name.as_str()));
        }
        let request = of_python(asked.request, half, last, python);
        let at = AtHand { records, excluded, python, half, provided: &provided };
        self.admit_others(&Asked { request: &request, ..*asked }, at, admitted)
    }

    /// Records that PyPI's half cannot take: a constraint excludes the version of one that was chosen, and of others of its name.
    fn unfit(
        &self,
        packages: &[CondaPackage],
        records: &Records,
        constraints: &[&UserRequirement],
    ) -> BTreeMap<String, String> {
        let why = |package: &CondaPackage| {
            let bound = excluding(constraints, package)?;
            let text = format!("{} {} is excluded by `{}`", package.name, package.version, bound.line());
            Some((package.file.clone(), text))
        };
        let chosen = packages.iter().filter(|package| excluding(constraints, package).is_some());
        chosen.flat_map(|package| records.of(&package.name)).filter_map(|record| why(&record)).collect()
    }

    /// The records that the request can reach, read once for the requests of all targets and of their ways out.
    fn records(&mut self, request: &Request, platform: Platform) -> Result<Rc<Records>, CliError> {
        let names = request.conda.specs.iter().map(|spec| spec.name().to_owned());
        let names = names.chain(["python".to_owned(), "pip".to_owned()]);
        let of_stack = [PYTORCH].into_iter().chain(COMPANIONS).map(str::to_owned);
        let names = names.chain(of_stack.filter(|_| request.conda.stack.is_some()));
        let reach = Reach { platform, channels: request.conda.channels.clone(), names: names.collect() };
        if let Some((_, known)) = self.records.iter().find(|(known, _)| known.includes(&reach)) {
            return Ok(Rc::clone(known));
        }
        let alias = settings::conda_channel_alias();
        let bar = self.printer.progress("reading the channels");
        let mut channels = Vec::new();
        let mut has_platform = false;
        for channel in &request.conda.channels {
            let before = channels.len();
            let (mut is_of_platform, mut is_refused) = (false, false);
            for folder in [platform.conda_subdir(), "noarch"] {
                bar.set_message(format!("reading {channel}/{folder}"));
                let text = self.client.repodata(&alias, channel, folder);
                let text = text.map_err(|error| {
                    CliError::network(error.to_string()).hint(format!(
                        "channels are below `{}`; `ENVLOCK_CONDA_CHANNEL_ALIAS` names a mirror",
                        clean(&channel_without_secrets(&alias), 100)
                    ))
                })?;
                let text = match text {
                    ChannelFolder::Records(text) => text,
                    ChannelFolder::Absent => continue,
                    ChannelFolder::Refused => {
                        is_refused = true;
                        continue;
                    }
                };
                is_of_platform |= folder != "noarch";
                let parsed = Repodata::parse(channel, folder, text);
                channels.push(parsed.map_err(|why| {
                    CliError::input(format!(
                        "the records of the channel `{channel}` ({folder}) cannot be read: {why}"
                    ))
                })?);
            }
            has_platform |= is_of_platform;
            if channels.len() == before {
                bar.finish_and_clear();
                if is_refused {
                    let text = format!("the server of the channel `{channel}` refuses access (403)");
                    return Err(CliError::network(text).hint(
                        "is the channel's name right, and is there a login for its host in `~/.netrc`?",
                    ));
                }
                return Err(CliError::input(format!("there is no channel `{channel}` for {platform}"))
                    .hint("`channels` under `[conda]` names channels as conda does: `conda-forge`"));
            }
        }
        bar.finish_and_clear();
        if !has_platform {
            let names = request.conda.channels.join(", ");
            return Err(CliError::input(format!("{names} has no packages for {platform}, only `noarch` ones"))
                .hint("`channels` under `[conda]` must name a channel with that platform, Python among its packages"));
        }
        let records = Records::reachable(&channels, reach.names.iter().cloned());
        let records = Rc::new(records.map_err(|why| CliError::input(why.to_string()))?);
        self.records.push((reach, Rc::clone(&records)));
        Ok(records)
    }
}

/// That a channel lists records of what is asked for that cannot be locked.
fn unread_records(request: &Request, records: &Records) -> Option<Note> {
    let names = request.conda.specs.iter().map(|spec| spec.name()).filter(|name| records.is_unread(name));
    let names: BTreeSet<&str> = names.collect();
    let text = format!(
        "some records of {} are left out: they have no SHA-256 or no size, or another form",
        names.iter().copied().collect::<Vec<_>>().join(", ")
    );
    (!names.is_empty()).then_some(Note { text, source: None })
}

/// The files of a map that none of two others has.
fn without_keys(
    files: &BTreeMap<String, String>,
    others: [&BTreeMap<String, String>; 2],
) -> BTreeMap<String, String> {
    let is_left = |(file, _): &(&String, &String)| others.iter().all(|other| !other.contains_key(*file));
    files.iter().filter(is_left).map(|(file, why)| (file.clone(), why.clone())).collect()
}

/// The request for PyPI's half, for the release of Python that conda installs.
fn of_python(request: &Request, half: Option<&Half>, packages: &[CondaPackage], python: Python) -> Request {
    let release = packages.iter().find(|package| package.name == "python");
    let release = release.and_then(|package| package.version.parse::<Python>().ok());
    let exact = PythonRequest {
        allowed: PythonAllowed::Exact(release.unwrap_or(Python::new(python.minor))),
        text: format!("3.{}", python.minor),
        origin: Origin::Question,
    };
    let alone = match half {
        Some(_) => stack::of_pypi(request),
        None => request.of_indexes(),
    };
    Request { python: Some(exact), ..alone }
}

/// A file that PyPI's half excludes, and why.
fn does_not_fit(package: &CondaPackage) -> (String, String) {
    let why = format!("{} {} does not fit the packages of PyPI", package.name, package.version);
    (package.file.clone(), why)
}

/// The first of some lines of the request that a package of conda does not meet.
fn excluding<'r>(lines: &[&'r UserRequirement], package: &CondaPackage) -> Option<&'r UserRequirement> {
    if !is_python_package(package) {
        return None;
    }
    // One that Python does not read takes part in PyPI's half only where that installs the package too.
    let version = package.version.parse::<Version>().ok()?;
    let name = pypi_name(&package.channel, &package.name)?;
    let excludes = |user: &&UserRequirement| {
        user.requirement.name.as_ref() as &str == name
            && user.specifiers().is_some_and(|specifiers| !specifiers.contains(&version))
    };
    lines.iter().copied().find(|user| excludes(user))
}

/// The lines that apply to one of some Pythons on a platform.
fn applicable<'r>(
    lines: &'r [UserRequirement],
    pythons: &[Python],
    platform: Platform,
) -> Vec<&'r UserRequirement> {
    let environments: Vec<_> = pythons.iter().map(|python| marker_environment(*python, platform)).collect();
    let applies = |user: &&UserRequirement| {
        environments.iter().any(|environment| user.requirement.marker.evaluate(environment, &[]))
    };
    lines.iter().filter(applies).collect()
}

/// The question of conda's half.
fn question(
    asked: &Asked<'_>,
    python: Option<Python>,
    excluded: &BTreeMap<String, String>,
    (session, has_pip): (&Session<'_>, bool),
    half: Option<&Half>,
) -> Question {
    let mut specs: Vec<String> = asked.request.conda.specs.iter().map(|spec| spec.text.clone()).collect();
    specs.extend(half.iter().flat_map(|half| half.specs.clone()));
    let machine = virtual_packages(asked.host, session.registry);
    specs.extend(python.map(|python| format!("python 3.{}.*", python.minor)));
    specs.extend(has_pip.then(|| "pip".to_owned()));
    // The stack comes from PyPI and the pytorch index, and two of them would be installed.
    let is_of_torch = |one: &OfFramework| one.has_code && one.framework == "torch";
    let is_of_pypi = half.is_none() && asked.request.conda.stack.is_none();
    let not_beside_pypi = framework_packages().filter(|one| is_of_pypi && is_of_torch(one));
    let not_beside_pypi = not_beside_pypi.map(|one| Bound {
        spec: format!("{} <0a0", one.name),
        why: format!("conda's {} is not installed beside the stack of PyPI", one.name),
    });
    let bounds = not_beside_pypi.chain(half.and_then(|half| half.stack.cuda_bound())).collect();
    Question {
        specs,
        bounds,
        machine: half.map_or(machine.clone(), |half| half.stack.machine(machine)),
        excluded: excluded.clone(),
        kept: asked.preferences.conda.clone(),
        limit: Some(session.time_left()),
    }
}

/// Adds what conda packages need of a machine. What the registry has no driver for is in the records alone.
fn widen(solution: &mut Solution, packages: &[CondaPackage], registry: &crate::registry::Registry) {
    with_machine_specs(registry, &mut solution.envelope, specs_of(packages));
}

/// The minor version of a Python 3.
fn series(version: &str) -> Option<u32> {
    version.strip_prefix("3.")?.split('.').next()?.parse().ok()
}

/// The files of Pythons that PyPI's wheels are not chosen for: PyPy, and those without the global interpreter lock.
fn other_interpreters(records: &Records) -> BTreeMap<String, String> {
    let is_other = |package: &CondaPackage| {
        let build = package.build.as_str();
        let is_free = build.split('_').any(|part| part.starts_with("cp3") && part.ends_with('t'));
        is_free || build.contains("pypy") || build.contains("graalpy")
    };
    let others = records.of("python").into_iter().filter(|package| is_other(package));
    others.map(|package| (package.file, format!("python {} is another interpreter", package.build))).collect()
}

/// Refuses what conda does not install of a package that it installs: extras, which conda packages do not have, and the file or
/// folder that the request names.
fn refuse_what_conda_lacks(
    requirements: &[&UserRequirement],
    provided: &BTreeMap<String, (Version, &CondaPackage)>,
) -> Result<(), CliError> {
    let of = |user: &UserRequirement| provided.get(user.requirement.name.as_ref() as &str);
    for user in requirements {
        let Some((version, package)) = of(user) else { continue };
        if user.direct().is_some() {
            return Err(CliError::usage(format!(
                "`{}` is asked for, and conda installs {} {version} of {}",
                clean(&user.line(), 120),
                package.name,
                package.channel
            ))
            .hint("remove one of the two: the requirement, or the entry under `[conda]` that installs the package"));
        }
        if !user.requirement.extras.is_empty() {
            return Err(CliError::usage(format!(
                "`{}` asks for extras, and conda installs `{}`, whose packages have none",
                user.line(),
                user.requirement.name
            ))
            .hint("ask for what the extra needs by itself, without the extra"));
        }
    }
    Ok(())
}

/// What conda's packages install of PyPI's: by name on PyPI, the version and the package.
fn provided(packages: &[CondaPackage]) -> Provided<'_> {
    let python = packages.iter().filter(|package| is_python_package(package));
    python
        .filter_map(|package| {
            Some((pypi_name(&package.channel, &package.name)?, (package.version.parse().ok()?, package)))
        })
        .collect()
}

/// The packages of conda with a version that Python does not read, and that PyPI's half installs a second time: it could not know
/// that they are there.
fn installed_twice(packages: &[CondaPackage], solution: &Solution) -> BTreeMap<String, String> {
    let is_unread =
        |package: &&CondaPackage| is_python_package(package) && package.version.parse::<Version>().is_err();
    let is_of_pypi = |package: &&CondaPackage| {
        let name = pypi_name(&package.channel, &package.name);
        name.is_some_and(|name| solution.packages.iter().any(|own| own.name == name))
    };
    let why = |package: &CondaPackage| {
        format!("{} {} has a version that Python does not read", package.name, package.version)
    };
    let all = packages.iter().filter(is_unread).filter(is_of_pypi);
    all.map(|package| (package.file.clone(), why(package))).collect()
}

fn unsolved(error: CondaError) -> CliError {
    match error {
        CondaError::TooLong | CondaError::Solvable | CondaError::Unsupported(_) => {
            CliError::internal(error.to_string())
        }
        CondaError::Spec(_) | CondaError::Repodata(_) | CondaError::Duplicate(_) => {
            CliError::input(error.to_string())
        }
    }
}
