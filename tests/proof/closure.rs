//! Random packages: a solution exactly where brute force has one, and never one that breaks a rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use envlock::model::host::Host;
use envlock::model::metadata::CoreMetadata;
use envlock::model::part::Part;
use envlock::model::platform::Platform;
use envlock::model::project::{ProjectPage, RawFile, ReleaseFile};
use envlock::model::request::{Preferences, PythonAllowed, PythonRequest, Request};
use envlock::model::solution::{self, Answer, Solution};
use envlock::registry::Registry;
use envlock::solver::{AtHand, Budget, Catalogue, Depth, Inputs, Memory, Question, Universe, solve};
use pep440_rs::{Version, VersionSpecifiers};

use super::worlds::{Random, requirement};

const PACKAGES: [&str; 4] = ["aa", "bb", "cc", "dd"];
const VERSIONS: [&str; 4] = ["1.0", "1.5", "2.0", "3.0"];
const PYTHONS: [u32; 3] = [10, 11, 12];

/// What a release needs: of which package, within what, for Pythons below which minor, under which extra.
#[derive(Debug, Clone)]
struct Need {
    package: usize,
    specifiers: String,
    below: Option<u32>,
    extra: bool,
    /// Whether it asks for the other's extra.
    with_extra: bool,
}

#[derive(Debug, Clone)]
struct Release {
    version: &'static str,
    /// The only Python it has a wheel for; any without.
    python: Option<u32>,
    needs: Vec<Need>,
}

/// The releases of each package.
type World = Vec<Vec<Release>>;

fn specifiers(random: &mut Random) -> String {
    match random.below(5) {
        0 => format!("=={}", random.pick(&VERSIONS)),
        1 => format!(">={}", random.pick(&VERSIONS)),
        2 => format!("<{}", random.pick(&VERSIONS)),
        3 => format!("!={}", random.pick(&VERSIONS)),
        _ => String::new(),
    }
}

fn world(random: &mut Random) -> World {
    (0..PACKAGES.len())
        .map(|own| {
            let versions = VERSIONS.iter().filter(|_| !random.one_in(4)).copied().collect::<Vec<_>>();
            versions
                .into_iter()
                .map(|version| Release {
                    version,
                    python: random.one_in(3).then(|| PYTHONS[random.below(3)]),
                    needs: (0..random.below(3))
                        .map(|_| Need {
                            package: random.below(PACKAGES.len()),
                            specifiers: specifiers(random),
                            below: random.one_in(4).then(|| 11 + random.below(2) as u32),
                            extra: random.one_in(4),
                            with_extra: random.one_in(4),
                        })
                        .filter(|need| need.package != own)
                        .collect(),
                })
                .collect()
        })
        .collect()
}

fn universe(world: &World) -> Universe<'static> {
    let universe = Universe::default();
    for (name, releases) in PACKAGES.iter().zip(world) {
        let mut files = Vec::new();
        for release in releases {
            let tag = release.python.map_or("py3-none-any".to_owned(), |m| format!("cp3{m}-none-any"));
            let filename = format!("{name}-{}-{tag}.whl", release.version);
            let mut text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {}\n", release.version);
            for need in &release.needs {
                let extra = if need.with_extra { "[x]" } else { "" };
                let mut markers = Vec::new();
                markers.extend(need.below.map(|m| format!("python_version < '3.{m}'")));
                markers.extend(need.extra.then(|| "extra == 'x'".to_owned()));
                let marker =
                    if markers.is_empty() { String::new() } else { format!("; {}", markers.join(" and ")) };
                text.push_str(&format!(
                    "Requires-Dist: {}{extra}{}{marker}\n",
                    PACKAGES[need.package], need.specifiers
                ));
            }
            let metadata = CoreMetadata::parse(&text, "0".repeat(64)).map_err(|e| e.to_string());
            universe.add_metadata("pypi", &filename, Ok(Arc::new(metadata.unwrap())));
            files.push(RawFile {
                url: format!("http://host/{filename}"),
                filename,
                has_metadata: true,
                ..RawFile::default()
            });
        }
        universe.add_page("pypi", name, Some(Arc::new(ProjectPage::from_files(name, files))));
    }
    universe
}

/// The cache of a run: some of a universe is at hand, the rest has to be fetched.
struct Shelf<'u> {
    whole: &'u Universe<'static>,
    seed: u64,
}

impl Shelf<'_> {
    fn holds(&self, name: &str) -> bool {
        name.bytes().fold(self.seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 3 > 0
    }
}

impl AtHand for Shelf<'_> {
    fn page(&self, index: &str, project: &str) -> Option<Arc<ProjectPage>> {
        self.whole.known_page(index, project)?.filter(|_| self.holds(project)).cloned()
    }

    fn metadata(&self, index: &str, file: &ReleaseFile) -> Option<Result<Arc<CoreMetadata>, String>> {
        let found = self.whole.metadata(index, file)?;
        self.holds(&file.filename).then(|| found.cloned().map_err(str::to_owned))
    }

    /// Half of the shelves say so of what they do not have.
    fn has_metadata(&self, _: &str, file: &ReleaseFile) -> bool {
        self.seed.is_multiple_of(2) || self.holds(&file.filename)
    }
}

/// Solves with a cache that holds some of the universe, and fetches what the solver asks for.
fn solve_by_and_by(inputs: &Inputs<'_>, whole: &Universe<'static>, seed: u64) -> Answer {
    let universe = Universe::beside(Shelf { whole, seed });
    let inputs = Inputs { universe: &universe, ..*inputs };
    loop {
        let needs = match solve(&inputs, Depth::Full) {
            Answer::NeedMetadata(needs) | Answer::ConflictSoFar(_, needs) => needs,
            answer => return answer,
        };
        for need in needs {
            assert!(!universe.has(&need), "{need:?} is known");
            match need {
                solution::Need::Page { index, project } => {
                    let page = whole.known_page(&index, &project).unwrap().cloned();
                    universe.add_page(&index, &project, page);
                }
                solution::Need::Metadata { index, project, filename } => {
                    let page = whole.known_page(&index, &project).unwrap().unwrap();
                    let found = whole.metadata(&index, page.find(&filename).unwrap()).unwrap();
                    universe.add_metadata(&index, &filename, found.cloned().map_err(str::to_owned));
                }
            }
        }
    }
}

/// A request: package, specifiers, whether with its extra.
type Asked = (usize, String, bool);

fn admits(specifiers: &str, version: &str) -> bool {
    let specifiers: VersionSpecifiers = specifiers.parse().unwrap();
    specifiers.contains(&version.parse::<Version>().unwrap())
}

/// Whether a choice of a release (or none) for each package meets everything on a Python.
fn holds(world: &World, asked: &[Asked], python: u32, chosen: &[Option<usize>]) -> bool {
    let release = |package: usize| chosen[package].map(|i| &world[package][i]);
    if (0..world.len()).any(|p| release(p).is_some_and(|r| r.python.is_some_and(|only| only != python))) {
        return false;
    }
    // Extras spread along requirements that name them.
    let mut extras = vec![false; world.len()];
    let mut before = None;
    while before.as_ref() != Some(&extras) {
        before = Some(extras.clone());
        for (package, _, with_extra) in asked {
            extras[*package] |= *with_extra;
        }
        for package in 0..world.len() {
            let Some(release) = release(package) else { continue };
            for need in &release.needs {
                let applies = need.below.is_none_or(|m| python < m) && (!need.extra || extras[package]);
                extras[need.package] |= applies && need.with_extra;
            }
        }
    }
    let met =
        |package: usize, specifiers: &str| release(package).is_some_and(|r| admits(specifiers, r.version));
    // An extra that a release does not have is ignored.
    asked.iter().all(|(package, specifiers, _)| met(*package, specifiers))
        && !is_capped(world, asked, python, chosen)
        && (0..world.len()).all(|package| {
            release(package).is_none_or(|r| {
                r.needs.iter().all(|need| {
                    let applies = need.below.is_none_or(|m| python < m) && (!need.extra || extras[package]);
                    !applies || met(need.package, &need.specifiers)
                })
            })
        })
}

/// Whether a requested package is older than a release of its own that excludes another requested package from above.
fn is_capped(world: &World, asked: &[Asked], python: u32, chosen: &[Option<usize>]) -> bool {
    let is_asked = |package: usize| asked.iter().any(|(other, ..)| *other == package);
    asked.iter().any(|(package, specifiers, _)| {
        let newer = world[*package].iter().skip(chosen[*package].map_or(usize::MAX, |i| i + 1));
        let needs = newer.filter(|r| admits(specifiers, r.version)).flat_map(|r| &r.needs);
        needs.filter(|need| !need.extra && need.below.is_none_or(|m| python < m)).any(|need| {
            let Some(beside) = chosen[need.package].filter(|_| is_asked(need.package)) else { return false };
            // A release that is left out is not an upper bound.
            let is_bound = !need.specifiers.is_empty() && !need.specifiers.starts_with("!=");
            let of = &world[need.package];
            let top = (0..of.len()).rev().find(|i| admits(&need.specifiers, of[*i].version));
            is_bound && top.is_some_and(|top| beside > top)
        })
    })
}

/// Every choice that holds on a Python.
fn all(world: &World, asked: &[Asked], python: u32) -> Vec<Vec<Option<usize>>> {
    let mut out = vec![Vec::new()];
    for releases in world {
        let choices: Vec<Option<usize>> =
            std::iter::once(None).chain((0..releases.len()).map(Some)).collect();
        out = out
            .into_iter()
            .flat_map(|head: Vec<Option<usize>>| {
                choices.iter().map(move |c| head.iter().copied().chain([*c]).collect()).collect::<Vec<_>>()
            })
            .collect();
    }
    out.retain(|chosen| holds(world, asked, python, chosen));
    out
}

/// The packages of a choice that some requests need.
fn needed(world: &World, asked: &[&Asked], python: u32, chosen: &[Option<usize>]) -> Vec<bool> {
    let (mut reached, mut extras) = (vec![false; world.len()], vec![false; world.len()]);
    for (package, _, with_extra) in asked {
        reached[*package] = true;
        extras[*package] |= *with_extra;
    }
    // As many rounds as there are steps at most.
    for _ in 0..2 * world.len() {
        for package in (0..world.len()).filter(|p| chosen[*p].is_some()) {
            for need in &world[package][chosen[package].unwrap()].needs {
                let applies = need.below.is_none_or(|m| python < m) && (!need.extra || extras[package]);
                if reached[package] && applies {
                    reached[need.package] = true;
                    extras[need.package] |= need.with_extra;
                }
            }
        }
    }
    reached
}

/// The newest release of a request that any Python in question could have.
fn newest(world: &World, (package, specifiers, _): &Asked) -> Option<usize> {
    let usable = |r: &Release| r.python.is_none_or(|p| PYTHONS.contains(&p));
    (0..world[*package].len())
        .rev()
        .find(|i| usable(&world[*package][*i]) && admits(specifiers, world[*package][*i].version))
}

/// How many of the extras that are asked for are empty on a Python and are not on another one, with the newest releases.
fn empty_extras(world: &World, asked: &[Asked], python: u32) -> usize {
    let is_empty = |asked: &&Asked| {
        let Some(release) = newest(world, asked).map(|i| &world[asked.0][i]) else { return false };
        let needs = |python: u32| {
            let has_file = release.python.is_none_or(|only| only == python);
            has_file && release.needs.iter().any(|n| n.extra && n.below.is_none_or(|m| python < m))
        };
        asked.2 && !needs(python) && PYTHONS.into_iter().any(needs)
    };
    asked.iter().filter(is_empty).count()
}

fn chosen(world: &World, solution: &Solution) -> Vec<Option<usize>> {
    let of: BTreeMap<&str, String> =
        solution.packages.iter().map(|p| (p.name.as_str(), p.version.to_string())).collect();
    (0..world.len())
        .map(|i| of.get(PACKAGES[i]).map(|v| world[i].iter().position(|r| r.version == *v).unwrap()))
        .collect()
}

#[test]
fn packages_are_solved_exactly_where_they_can_be() {
    let registry = Registry::embedded();
    let host = Host::open(Platform::LINUX_X86_64, "proof");
    let catalogue = Catalogue::new(&registry, host.system.platform);
    let (mut solved, mut conflicts, mut steps, mut labelled) = (0, 0, 0, 0);
    for seed in 0..super::worlds(10_000) {
        let mut random = Random::new(seed ^ 0xc105);
        let world = world(&mut random);
        let mut asked: Vec<Asked> = Vec::new();
        for package in 0..PACKAGES.len() {
            if random.one_in(2) {
                asked.push((package, specifiers(&mut random), random.one_in(4)));
            }
        }
        if asked.is_empty() {
            continue;
        }
        let mut request = Request {
            python: Some(PythonRequest {
                allowed: PythonAllowed::Range(">=3.10,<3.13".parse().unwrap()),
                text: ">=3.10,<3.13".into(),
                origin: "proof".into(),
            }),
            ..Request::default()
        };
        let mut random = Random::new(seed ^ 0x9a47);
        let parts: Vec<Option<Part>> = asked
            .iter()
            .map(|_| [None, Some(Part::group("a")), Some(Part::extra("a"))][random.below(3)].clone())
            .collect();
        for ((package, specifiers, extra), part) in asked.iter().zip(&parts) {
            let extra = if *extra { "[x]" } else { "" };
            let requirement = requirement(&format!("{}{extra}{specifiers}", PACKAGES[*package]));
            request.requirements.push(requirement.of_part(part.clone()));
        }
        let whole = universe(&world);
        let nothing_kept = Preferences::default();
        let inputs = Inputs {
            catalogue: &catalogue,
            universe: &whole,
            memory: &Memory::default(),
            budget: &Budget::default(),
            question: &Question::new(&host, &request, &nothing_kept),
        };
        let place = || format!("world {seed}: {asked:?}\n{world:#?}");
        // The Python that is taken where nothing requested has to step back: of those with the fewest extras that are asked
        // for and empty, the newest.
        let has_no_steps = |python: u32| {
            all(&world, &asked, python)
                .iter()
                .any(|chosen| asked.iter().all(|a| chosen[a.0].is_some() && chosen[a.0] == newest(&world, a)))
        };
        let without_steps = PYTHONS
            .iter()
            .filter(|python| has_no_steps(**python))
            .max_by_key(|python| (std::cmp::Reverse(empty_extras(&world, &asked, **python)), **python));
        let any = PYTHONS.iter().any(|python| !all(&world, &asked, *python).is_empty());
        let answer = match seed % 2 {
            0 => solve(&inputs, Depth::Full),
            _ => solve_by_and_by(&inputs, &whole, seed),
        };
        match answer {
            Answer::Solution(solution) => {
                solved += 1;
                assert!(any, "{:?} where nothing fits\n{}", solution.packages, place());
                let chosen = chosen(&world, &solution);
                assert!(holds(&world, &asked, solution.python.minor, &chosen), "{chosen:?}\n{}", place());
                let with = |part: &Option<Part>| {
                    let is_installed = |of: &Option<Part>| of.is_none() || of == part;
                    let asked: Vec<&Asked> =
                        asked.iter().zip(&parts).filter(|(_, of)| is_installed(of)).map(|(a, _)| a).collect();
                    needed(&world, &asked, solution.python.minor, &chosen)
                };
                let always = with(&None);
                for package in &solution.packages {
                    let at = PACKAGES.iter().position(|name| *name == package.name).unwrap();
                    let mut expected = vec![Part::group("a"), Part::extra("a")];
                    expected.retain(|part| !always[at] && with(&Some(part.clone()))[at]);
                    assert_eq!(package.groups, expected, "{} {parts:?}\n{}", package.name, place());
                    labelled += usize::from(!expected.is_empty());
                }
                match without_steps {
                    Some(python) => {
                        assert_eq!(solution.python.minor, *python, "{}", place());
                        assert!(asked.iter().all(|a| chosen[a.0] == newest(&world, a)), "{}", place());
                    }
                    None => steps += 1,
                }
            }
            Answer::Conflict(conflict) => {
                conflicts += 1;
                assert!(!any, "{conflict:#?} where something fits\n{}", place());
                assert!(!conflict.reasons.is_empty(), "{}", place());
            }
            other => panic!("{other:?}\n{}", place()),
        }
    }
    assert!(
        solved > 1000 && conflicts > 500 && steps > 50 && labelled > 500,
        "{solved} {conflicts} {steps} {labelled}"
    );
}
