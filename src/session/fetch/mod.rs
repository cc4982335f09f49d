//! The loop between solver and index: solve, fetch the missing data, solve again.

mod completing;
mod failure;
mod no_answer;
#[cfg(feature = "conda")]
mod with_conda;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pep440_rs::Version;

use completing::{fill_hashes, fill_sizes, missing_builds};
pub(crate) use failure::index_error;

use super::Interface;
use super::direct;
use super::failure::Failure;
use super::metadata_overrides::MetadataOverrides;
use super::settings::{self, Project};
use crate::index::{Fetched, Guess, IndexClient, IndexConfig, IndexError};
use crate::model::marker::marker_environment;
use crate::model::metadata::CoreMetadata;
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, ReleaseFile};
use crate::model::request::{Preferences, Request, StatedMetadata};
use crate::model::solution::{Answer, Need, Solution};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::model::wheel::Python;
use crate::registry::Registry;
use crate::registry::STACK_PACKAGES;
use crate::session::options::Global;
use crate::session::variables;
use crate::solver::{
    AtHand, Budget, Catalogue, Depth, Edit, Inputs, Memory, Question, Universe, allowed_pythons, solve,
};

/// Limit of rounds, above what any real request needs.
const MAX_ROUNDS: usize = 400;

/// How long the search for ways out of a conflict may wait for indexes at least; it may also take twice the time that
/// passed until the conflict was known. A build without optimization is slower by an order of magnitude.
const WAYS_OUT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 100 } else { 5 });
/// The same as long as there is no way out yet: the first one is worth more waiting than a second.
const FIRST_WAY_OUT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 200 } else { 30 });

/// An index client for a project.
///
/// It lives until the process ends: to free the thousands of files of its pages takes a fifth of the time of a solve.
pub(crate) fn client(
    global: &Global,
    project: &Project,
    index_url: Option<&str>,
) -> Result<&'static IndexClient, Failure> {
    let (addresses, pypi) = settings::indexes(project, index_url);
    if pypi.is_none() && !global.offline {
        return Err(Failure::usage("no URL is known for the index `pypi`").hint(
            "set `ENVLOCK_INDEX_URL` (or `PIP_INDEX_URL`), pass `--index-url`, or set it in envlock.toml",
        ));
    }
    Ok(Box::leak(Box::new(with_addresses(global, settings::as_urls(project, addresses), None))))
}

/// The same for something that can be done without: it waits for no channel longer than that.
pub(crate) fn client_for(
    global: &Global,
    project: &Project,
    index_url: Option<&str>,
    patience: Duration,
) -> IndexClient {
    let (addresses, _) = settings::indexes(project, index_url);
    with_addresses(global, settings::as_urls(project, addresses), Some(Instant::now() + patience))
}

/// A client for files that the user names by URL. It needs no index.
pub(crate) fn client_of_addresses(global: &Global) -> IndexClient {
    with_addresses(global, Vec::new(), None)
}

fn with_addresses(global: &Global, addresses: Vec<(String, String)>, until: Option<Instant>) -> IndexClient {
    let timeout_s = variables::number("ENVLOCK_HTTP_TIMEOUT").unwrap_or(30);
    IndexClient::new(IndexConfig {
        addresses,
        cache_dir: settings::cache_dir(global),
        offline: global.offline,
        netrc: settings::netrc(),
        certificates: settings::certificates(),
        timeout_s,
        until,
    })
}

/// Solves requests with the data of the indexes. What was fetched for one solve stays for the next.
pub(crate) struct Session<'s> {
    client: &'s IndexClient,
    registry: &'s Registry,
    interface: &'s dyn Interface,
    overrides: MetadataOverrides<'s>,
    universe: Universe<'s>,
    /// What the searches of the command may take.
    budget: &'s Budget,
    /// The candidates of the registry for each platform, and what was found with them.
    platforms: Vec<(Platform, Rc<Catalogue<'s>>, Rc<Memory>)>,
    /// What was answered, with this registry and with one that knows less.
    answered: Vec<(Question<'static>, Box<Solution>)>,
    answered_before: Vec<(Question<'static>, Box<Solution>)>,
    /// What was read of conda channels.
    #[cfg(feature = "conda")]
    records: Vec<(with_conda::Reach, std::rc::Rc<crate::conda::Records>)>,
    /// What was read of wheels beside a torch from channels.
    #[cfg(feature = "conda")]
    code: with_conda::CodeOfWheels,
    /// What a solve over both halves is for.
    #[cfg(feature = "conda")]
    purpose: with_conda::Purpose,
    /// When the search for causes and ways out over both halves ends.
    #[cfg(feature = "conda")]
    explains_until: Option<Instant>,
    /// How long the solves of conda's half took until now.
    #[cfg(feature = "conda")]
    solved_for: Duration,
}

/// What the cache holds, as a solve reads it.
struct Cached<'s> {
    client: &'s IndexClient,
    overrides: MetadataOverrides<'s>,
}

impl AtHand for Cached<'_> {
    fn page(&self, index: &str, project: &str) -> Option<Arc<ProjectPage>> {
        self.client.page_at_hand(index, project).ok().flatten()
    }

    fn metadata(&self, index: &str, file: &ReleaseFile) -> Option<Result<Arc<CoreMetadata>, String>> {
        let found = self.client.metadata_at_hand(index, file)?;
        Some(found.map(|metadata| self.overrides.apply(metadata.into(), &file.filename)))
    }

    fn has_metadata(&self, index: &str, file: &ReleaseFile) -> bool {
        self.client.has_metadata_at_hand(index, file)
    }
}

impl<'s> Session<'s> {
    /// A session whose requests all state the same metadata by hand.
    pub fn new(
        client: &'s IndexClient,
        registry: &'s Registry,
        interface: &'s dyn Interface,
        stated: &'s [StatedMetadata],
        budget: &'s Budget,
    ) -> Session<'s> {
        let overrides = MetadataOverrides { stated, registry };
        Session {
            client,
            registry,
            interface,
            overrides,
            universe: Universe::beside(Cached { client, overrides }),
            budget,
            platforms: Vec::new(),
            answered: Vec::new(),
            answered_before: Vec::new(),
            #[cfg(feature = "conda")]
            records: Vec::new(),
            #[cfg(feature = "conda")]
            code: with_conda::CodeOfWheels::new(),
            #[cfg(feature = "conda")]
            purpose: with_conda::Purpose::Answer,
            #[cfg(feature = "conda")]
            explains_until: None,
            #[cfg(feature = "conda")]
            solved_for: Duration::ZERO,
        }
    }

    /// The same data for a registry that knows more of packages: what it excludes besides. An answer that it does not exclude
    /// stays the best one.
    pub fn with_registry<'r>(self, registry: &'r Registry) -> Session<'r>
    where
        's: 'r,
    {
        let overrides = MetadataOverrides { registry, ..self.overrides };
        let (answered_before, answered) = (self.answered, Vec::new());
        Session { registry, overrides, platforms: Vec::new(), answered, answered_before, ..self }
    }

    /// [`Session::solve`], and again with what `learned` adds to the registry about the packages of that answer, if it adds
    /// something.
    ///
    /// # Errors
    /// Those of [`Session::solve`].
    pub fn solve_as_learned(
        &mut self,
        question: &Question<'_>,
        learned: &dyn Fn(&Solution) -> Option<Registry>,
    ) -> Result<Answer, Failure> {
        let answer = self.solve(question)?;
        let more = match &answer {
            Answer::Solution(solution) => learned(solution),
            _ => None,
        };
        match more {
            None => Ok(answer),
            Some(more) => {
                let stated = self.overrides.stated;
                Session::new(self.client, &more, self.interface, stated, self.budget).solve(question)
            }
        }
    }

    /// Solves all packages for a machine, and fetches the data that the solver needs.
    ///
    /// # Errors
    /// If an index does not answer, unless the conflict can be told without it.
    pub fn solve(&mut self, question: &Question<'_>) -> Result<Answer, Failure> {
        #[cfg(feature = "conda")]
        if !question.request.conda.is_empty() {
            return self.solve_both(question);
        }
        let bar = self.interface.progress("reading the index");
        let answer = match self.confirmed(question, &bar) {
            Ok(Some(solution)) => Ok(Answer::Solution(solution)),
            Ok(None) => self.rounds(question, &bar),
            Err(error) => Err(error),
        };
        bar.finish_and_clear();
        if let Ok(Answer::Solution(solution)) = &answer {
            self.answered.push((question.by_ref().into_owned(), solution.clone()));
        }
        answer
    }

    /// The answer that the question had before, if this registry does not exclude it.
    fn confirmed(
        &mut self,
        question: &Question<'_>,
        bar: &ProgressBar,
    ) -> Result<Option<Box<Solution>>, Failure> {
        let before = self.answered_before.iter().find(|(own, _)| own == question);
        let Some((_, before)) = before.cloned() else { return Ok(None) };
        let kept = Preferences {
            versions: before.packages.iter().map(|own| (own.name.clone(), own.version.clone())).collect(),
            python: Some(before.python),
            variant: before.stack.as_ref().map(|stack| stack.variant.clone()),
            ..question.preferences.clone().into_owned()
        };
        let Answer::Solution(now) = self.rounds(&question.with(&Edit::Keep(Box::new(kept))), bar)? else {
            return Ok(None);
        };
        let chosen = |solution: &Solution| -> Vec<(String, Version, Source)> {
            let packages = solution.packages.iter();
            packages.map(|own| (own.name.clone(), own.version.clone(), own.source.clone())).collect()
        };
        // A framework of which nothing was known has other notes now.
        let is_same = now.python == before.python
            && now.frameworks == before.frameworks
            && chosen(&now) == chosen(&before);
        // What is kept is compared with nothing newer.
        let Solution { behind, newer_python, python_alone, mut notes, .. } = *before;
        notes.retain(|note| !now.notes.contains(note));
        notes.splice(0..0, now.notes.clone());
        Ok(is_same.then(|| Box::new(Solution { behind, newer_python, python_alone, notes, ..*now })))
    }

    /// The candidates for a platform, and what earlier questions found with them.
    fn for_platform(&mut self, platform: Platform) -> (Rc<Catalogue<'s>>, Rc<Memory>) {
        if let Some((_, catalogue, memory)) = self.platforms.iter().find(|(own, ..)| *own == platform) {
            return (catalogue.clone(), memory.clone());
        }
        let catalogue = Rc::new(Catalogue::new(self.registry, platform));
        let memory = Rc::new(Memory::default());
        self.platforms.push((platform, catalogue.clone(), memory.clone()));
        (catalogue, memory)
    }

    /// Solve, fetch what is missing, solve again.
    fn rounds(&mut self, asked: &Question<'_>, bar: &ProgressBar) -> Result<Answer, Failure> {
        let request = &*asked.request;
        let platform = asked.host.system.platform;
        let (catalogue, memory) = self.for_platform(platform);
        memory.forget_prereleases();
        let pythons = allowed_pythons(self.registry, request);
        let environments: Vec<_> = pythons.into_iter().map(|p| marker_environment(p, platform)).collect();
        direct::add(
            self.client,
            &mut self.universe,
            &self.overrides,
            request,
            &asked.preferences,
            &environments,
        )?;
        let mut guess = guess(&catalogue, self.registry, asked);
        // Indexes that did not answer during the search for ways out of a conflict.
        let mut silent: BTreeSet<String> = BTreeSet::new();
        let start = Instant::now();
        // When the conflict was known, and how long that took.
        let mut known: Option<(Instant, Duration)> = None;
        for _ in 0..MAX_ROUNDS {
            let inputs = Inputs {
                catalogue: &catalogue,
                universe: &self.universe,
                memory: &memory,
                budget: self.budget,
                question: asked,
            };
            let (needs, so_far) = match solve(&inputs, Depth::Full) {
                Answer::NeedMetadata(needs) => (needs, None),
                Answer::ConflictSoFar(conflict, needs) => (needs, Some(conflict)),
                Answer::Solution(solution) => return self.completed(solution, request, bar),
                Answer::Conflict(conflict) => {
                    return Ok(Answer::Conflict(self.told_without(silent, conflict, asked)));
                }
                answer => return Ok(answer),
            };
            // Another run may have refreshed the cache since the need was noted.
            let needs: Vec<Need> = needs.into_iter().filter(|need| !self.universe.has(need)).collect();
            if needs.is_empty() {
                continue;
            }
            if let Some(python) = memory.searched() {
                guess = guess.for_python(python);
            }
            let fetched = match so_far {
                Some(conflict) => {
                    let (since, took) = *known.get_or_insert((Instant::now(), start.elapsed()));
                    let patience = if conflict.has_way_out() { WAYS_OUT } else { FIRST_WAY_OUT };
                    if since.elapsed() >= patience.max(2 * took) {
                        let conflict = self.told_without(silent, conflict, asked);
                        return Ok(Answer::Conflict(Box::new(conflict.cut())));
                    }
                    bar.set_message(format!("{}; looking for ways out", conflict.headline));
                    let fetched = self.fetch_for_ways_out(&needs, &guess, &mut silent, bar);
                    if needs.iter().all(|need| silent.contains(need.index())) {
                        return Ok(Answer::Conflict(self.told_without(silent, conflict, asked)));
                    }
                    fetched
                }
                None => {
                    if start.elapsed() > Duration::from_secs(1) {
                        tell_search(bar, memory.searched(), &needs);
                    }
                    match self.fetch(&needs, &guess, bar) {
                        Ok(fetched) => fetched,
                        Err(error) => {
                            bar.finish_and_clear();
                            return match self.conflict_on_pypi_alone(asked)? {
                                Some(conflict) => Ok(Answer::Conflict(conflict)),
                                None => Err(index_error(&error, Some(request))),
                            };
                        }
                    }
                }
            };
            self.keep(fetched, needs.into_iter().filter(|need| !silent.contains(need.index())));
        }
        Err(Failure::internal(format!("no answer after {MAX_ROUNDS} rounds")))
    }

    /// A solution with the sizes and hashes of its files.
    fn completed(
        &self,
        mut solution: Box<Solution>,
        request: &Request,
        bar: &ProgressBar,
    ) -> Result<Answer, Failure> {
        fill_sizes(self.client, &mut solution);
        fill_hashes(self.client, &mut solution, bar).map_err(|e| index_error(&e, Some(request)))?;
        solution.notes.extend(missing_builds(&self.universe));
        Ok(Answer::Solution(solution))
    }

    fn fetch(&self, needs: &[Need], guess: &Guess, bar: &ProgressBar) -> Result<Vec<Fetched>, IndexError> {
        let mut tell = onward(bar);
        self.client.fetch(needs, Some(guess), &mut tell)
    }

    /// Fetches what the ways out of a final conflict need. Those of an index that does not answer are left out.
    fn fetch_for_ways_out(
        &self,
        needs: &[Need],
        guess: &Guess,
        silent: &mut BTreeSet<String>,
        bar: &ProgressBar,
    ) -> Vec<Fetched> {
        let mut fetched = Vec::new();
        let indexes: BTreeSet<&str> = needs.iter().map(Need::index).collect();
        for index in indexes {
            if silent.contains(index) {
                continue;
            }
            let of_index: Vec<Need> = needs.iter().filter(|n| n.index() == index).cloned().collect();
            match self.fetch(&of_index, guess, bar) {
                Ok(answers) => fetched.extend(answers),
                Err(_) => {
                    silent.insert(index.to_owned());
                }
            }
        }
        fetched
    }

    /// Keeps the answers of the indexes. What an index that answered did not send counts as absent, so that it is not
    /// requested again.
    fn keep(&self, fetched: Vec<Fetched>, needs: impl Iterator<Item = Need>) {
        let universe = &self.universe;
        for answer in fetched {
            match answer {
                Fetched::Page { index, project, page } => universe.add_page(&index, &project, page),
                Fetched::Metadata { index, filename, metadata } => {
                    let metadata = metadata.map(|found| self.overrides.apply(found, &filename));
                    universe.add_metadata(&index, &filename, metadata);
                }
            }
        }
        for need in needs {
            if !universe.has(&need) {
                match need {
                    Need::Page { index, project } => universe.add_page(&index, &project, None),
                    Need::Metadata { index, filename, .. } => {
                        universe.add_metadata(&index, &filename, Err("the index did not send it".to_owned()));
                    }
                }
            }
        }
    }
}

/// Says what is searched: the first package that the solver has to know more of.
fn tell_search(bar: &ProgressBar, python: Option<Python>, needs: &[Need]) {
    let Some(Need::Page { project, .. } | Need::Metadata { project, .. }) = needs.first() else { return };
    let python = python.map(|python| format!(" for Python {python}")).unwrap_or_default();
    bar.set_message(format!("searching{python}: {}", clean(project, 30)));
}

/// Moves a bar on from where it is: it counts the requests of all rounds, and never goes back.
fn onward(bar: &ProgressBar) -> impl FnMut(usize, usize) {
    let (bar, before) = (bar.clone(), bar.length().unwrap_or(0));
    move |done, total| {
        bar.set_length(before + total as u64);
        bar.set_position(before + done as u64);
    }
}

/// What the solver will probably need, for the Python that a stack-only solve chooses.
fn guess(catalogue: &Catalogue<'_>, registry: &Registry, asked: &Question<'_>) -> Guess {
    let (host, request) = (&*asked.host, &*asked.request);
    let inputs = Inputs {
        catalogue,
        universe: &Universe::default(),
        memory: &Memory::default(),
        budget: &Budget::default(),
        question: asked,
    };
    let python = match solve(&inputs, Depth::Stack) {
        Answer::Solution(solution) => solution.python,
        _ => Python::new(registry.pythons().last().copied().unwrap_or(12)),
    };
    let platform = host.system.platform;
    Guess {
        python,
        platform,
        libc: host.system.libc.clone(),
        environment: marker_environment(python, platform),
        not_prefetched: STACK_PACKAGES
            .iter()
            .map(|package| (*package).to_owned())
            .chain(direct::requirements(request).map(|user| user.name().to_owned()))
            .collect(),
        owners: request.owners.clone(),
        exclude_newer: request.exclude_newer.clone(),
        takes_sources: request.no_sources.is_none(),
        wanted: request
            .requirements
            .iter()
            .chain(&request.constraints)
            .filter_map(|r| match &r.requirement.version_or_url {
                Some(pep508_rs::VersionOrUrl::VersionSpecifier(s)) => Some((r.name().to_owned(), s.clone())),
                _ => None,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_never_goes_back() {
        let bar = ProgressBar::hidden();
        bar.set_length(0);
        let mut seen = Vec::new();
        for round in [[(0, 10), (9, 10)], [(0, 15), (15, 15)], [(0, 1), (1, 1)]] {
            let mut tell = onward(&bar);
            for (done, total) in round {
                tell(done, total);
                seen.push((bar.position(), bar.length().unwrap()));
            }
        }
        assert!(seen.is_sorted_by(|one, next| one.0 <= next.0 && one.1 <= next.1), "{seen:?}");
        assert_eq!(seen.last(), Some(&(26, 26)));
    }
}
