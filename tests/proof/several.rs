//! Several requested packages, held against the order of preference: dependants first, each the newest possible;
//! unrelated ones by the smallest largest step back, counted in minor lines.
//!
//! In these worlds all releases of a package require the same packages, in different versions, so that who depends on
//! whom is a fact of the world.

use std::collections::BTreeSet;
use std::sync::Arc;

use envlock::model::host::Host;
use envlock::model::metadata::CoreMetadata;
use envlock::model::platform::Platform;
use envlock::model::project::{ProjectPage, RawFile};
use envlock::model::request::{Preferences, PythonAllowed, PythonRequest, Request};
use envlock::model::solution::Answer;
use envlock::registry::Registry;
use envlock::solver::{Budget, Catalogue, Depth, Inputs, Memory, Question, Universe, solve};

use super::worlds::{Random, requirement};

const PACKAGES: [&str; 7] = ["aa", "bb", "cc", "dd", "ee", "ff", "gg"];
/// Version and minor line.
const VERSIONS: [(&str, u32); 5] = [("1.0", 10), ("1.1", 11), ("1.1.4", 11), ("1.3", 13), ("2.0", 20)];
const PYTHONS: [u32; 2] = [11, 12];

/// A release: the number of its version, the only Python that has it, and what it admits of each package it requires.
#[derive(Debug)]
struct Release {
    version: usize,
    python: Option<u32>,
    needs: Vec<(usize, String, BTreeSet<usize>)>,
}

#[derive(Debug)]
struct World {
    releases: Vec<Vec<Release>>,
    /// Which packages each one requires.
    edges: Vec<Vec<usize>>,
    /// The requested packages and what the request admits of each.
    asked: Vec<(usize, String, BTreeSet<usize>)>,
}

fn specifiers(random: &mut Random) -> (String, BTreeSet<usize>) {
    let at = random.below(VERSIONS.len());
    let version = VERSIONS[at].0;
    let all = 0..VERSIONS.len();
    match random.below(6) {
        0 => (format!("=={version}"), BTreeSet::from([at])),
        1 => (format!(">={version}"), all.filter(|i| *i >= at).collect()),
        2 | 3 => (format!("<={version}"), all.filter(|i| *i <= at).collect()),
        _ => (String::new(), all.collect()),
    }
}

fn world(random: &mut Random) -> World {
    let count = 3 + random.below(PACKAGES.len() - 2);
    let mut edges: Vec<Vec<usize>> =
        (0..count).map(|own| (own + 1..count).filter(|_| random.one_in(3)).collect()).collect();
    for list in &mut edges {
        list.truncate(3);
    }
    let releases = (0..count)
        .map(|own| {
            let versions = (0..VERSIONS.len()).filter(|_| !random.one_in(4)).collect::<Vec<_>>();
            let release = |version| Release {
                version,
                python: random.one_in(6).then(|| PYTHONS[random.below(2)]),
                needs: edges[own]
                    .iter()
                    .map(|to| {
                        let (text, admitted) = specifiers(random);
                        (*to, text, admitted)
                    })
                    .collect(),
            };
            versions.into_iter().map(release).collect()
        })
        .collect();
    let mut asked = Vec::new();
    for package in 0..count {
        if asked.len() < 6 && !random.one_in(4) {
            let (text, admitted) = match random.one_in(4) {
                true => specifiers(random),
                false => (String::new(), (0..VERSIONS.len()).collect()),
            };
            asked.push((package, text, admitted));
        }
    }
    World { releases, edges, asked }
}

fn universe(world: &World) -> Universe<'static> {
    let universe = Universe::default();
    for (name, releases) in PACKAGES.iter().zip(&world.releases) {
        let mut files = Vec::new();
        for release in releases {
            let version = VERSIONS[release.version].0;
            let tag = release.python.map_or("py3-none-any".to_owned(), |m| format!("cp3{m}-none-any"));
            let filename = format!("{name}-{version}-{tag}.whl");
            let mut text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
            for (to, specifiers, _) in &release.needs {
                text.push_str(&format!("Requires-Dist: {}{specifiers}\n", PACKAGES[*to]));
            }
            let metadata = CoreMetadata::parse(&text, "0".repeat(64)).map_err(|e| e.to_string());
            universe.add_metadata("pypi", &filename, Ok(Arc::new(metadata.unwrap())));
            let url = format!("http://host/{filename}");
            files.push(RawFile { url, filename, has_metadata: true, ..RawFile::default() });
        }
        universe.add_page("pypi", name, Some(Arc::new(ProjectPage::from_files(name, files))));
    }
    universe
}

impl World {
    /// Every choice of a release for each package that holds on some Python; those that nothing requires have none.
    fn all(&self) -> Vec<Vec<Option<usize>>> {
        let mut out = Vec::new();
        for python in PYTHONS {
            self.extend(python, &mut vec![None; self.releases.len()], 0, &mut out);
        }
        out.retain(|chosen| !self.is_capped(chosen));
        out.sort();
        out.dedup();
        out
    }

    /// Whether a requested package is older than a release of its own that excludes another requested package from above.
    fn is_capped(&self, chosen: &[Option<usize>]) -> bool {
        self.asked.iter().any(|(package, _, admitted)| {
            let own = &self.releases[*package];
            let later: Vec<&Release> = own.iter().skip(chosen[*package].unwrap() + 1).collect();
            let later: Vec<&Release> = later.into_iter().filter(|r| admitted.contains(&r.version)).collect();
            // The newest of each minor line counts.
            let is_last = |i: usize| {
                let line = |release: &Release| VERSIONS[release.version].1;
                later.get(i + 1).is_none_or(|next| line(next) != line(later[i]))
            };
            let counting = later.iter().enumerate().filter(|(i, _)| is_last(*i));
            counting.flat_map(|(_, release)| &release.needs).any(|(to, _, needed)| {
                let is_asked = self.asked.iter().any(|(other, ..)| other == to);
                let releases = || self.releases[*to].iter().map(|release| release.version);
                let top = releases().filter(|version| needed.contains(version)).max();
                let beside = chosen[*to].map(|i| self.releases[*to][i].version);
                is_asked && top.is_some() && beside > top
            })
        })
    }

    /// Packages are decided in order: only earlier ones require later ones.
    fn extend(
        &self,
        python: u32,
        chosen: &mut Vec<Option<usize>>,
        package: usize,
        out: &mut Vec<Vec<Option<usize>>>,
    ) {
        if package == self.releases.len() {
            out.push(chosen.clone());
            return;
        }
        let asked = self.asked.iter().filter(|(asked, ..)| *asked == package).map(|(.., admitted)| admitted);
        let required = (0..package).filter_map(|from| Some(&self.releases[from][chosen[from]?]));
        let required = required.flat_map(|release| &release.needs).filter(|(to, ..)| *to == package);
        let bounds: Vec<&BTreeSet<usize>> = asked.chain(required.map(|(.., admitted)| admitted)).collect();
        if bounds.is_empty() {
            self.extend(python, chosen, package + 1, out);
            return;
        }
        for (i, release) in self.releases[package].iter().enumerate() {
            let is_usable = release.python.is_none_or(|only| only == python);
            if is_usable && bounds.iter().all(|admitted| admitted.contains(&release.version)) {
                chosen[package] = Some(i);
                self.extend(python, chosen, package + 1, out);
                chosen[package] = None;
            }
        }
    }

    /// The minor lines in which a requested package has newer releases than the chosen one.
    fn step(&self, (package, _, admitted): &(usize, String, BTreeSet<usize>), chosen: usize) -> usize {
        let newer = self.releases[*package].iter().skip(chosen + 1).map(|release| release.version);
        newer.filter(|v| admitted.contains(v)).map(|v| VERSIONS[v].1).collect::<BTreeSet<_>>().len()
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        self.edges[from].iter().any(|next| *next == to || self.reaches(*next, to))
    }

    /// How long the longest chain of requested packages is that depends on a requested package.
    fn depth(&self, package: usize) -> usize {
        let above = self.asked.iter().map(|(other, ..)| *other).filter(|other| self.reaches(*other, package));
        above.map(|other| 1 + self.depth(other)).max().unwrap_or(0)
    }
}

#[test]
fn no_requested_package_is_sacrificed_for_another() {
    let registry = Registry::embedded();
    let host = Host::open(Platform::LINUX_X86_64, "proof");
    let catalogue = Catalogue::new(&registry, host.system.platform);
    let (mut solved, mut steps_back, mut conflicts) = (0, 0, 0);
    for seed in 0..super::worlds(6_000) {
        let mut random = Random::new(seed ^ 0x5e7e_7a15);
        let world = world(&mut random);
        if world.asked.is_empty() {
            continue;
        }
        let mut request = Request {
            python: Some(PythonRequest {
                allowed: PythonAllowed::Range(">=3.11,<3.13".parse().unwrap()),
                text: ">=3.11,<3.13".into(),
                origin: "proof".into(),
            }),
            ..Request::default()
        };
        for (package, specifiers, _) in &world.asked {
            request.requirements.push(requirement(&format!("{}{specifiers}", PACKAGES[*package])));
        }
        let universe = universe(&world);
        let nothing_kept = Preferences::default();
        let inputs = Inputs {
            catalogue: &catalogue,
            universe: &universe,
            memory: &Memory::default(),
            budget: &Budget::default(),
            question: &Question::new(&host, &request, &nothing_kept),
        };
        let all = world.all();
        let solution = match solve(&inputs, Depth::Full) {
            Answer::Solution(solution) => solution,
            Answer::Conflict(_) => {
                assert!(all.is_empty(), "world {seed}: refused\n{world:?}");
                conflicts += 1;
                continue;
            }
            other => panic!("world {seed}: {other:?}"),
        };
        let chosen: Vec<Option<usize>> = (0..world.releases.len())
            .map(|package| {
                let of = solution.packages.iter().find(|p| p.name == PACKAGES[package])?;
                let version = of.version.to_string();
                world.releases[package].iter().position(|r| VERSIONS[r.version].0 == version)
            })
            .collect();
        let shown = |chosen: &[Option<usize>]| -> Vec<String> {
            let text = |(package, ..): &(usize, String, _)| {
                let release = &world.releases[*package][chosen[*package].unwrap()];
                format!("{} {}", PACKAGES[*package], VERSIONS[release.version].0)
            };
            world.asked.iter().map(text).collect()
        };
        solved += 1;
        // No other answer has each of them as new and one newer.
        let better = all.iter().find(|other| {
            let of = |chosen: &[Option<usize>]| -> Vec<Option<usize>> {
                world.asked.iter().map(|(package, ..)| chosen[*package]).collect()
            };
            let (ours, theirs) = (of(&chosen), of(other));
            ours != theirs && ours.iter().zip(&theirs).all(|(a, b)| a <= b)
        });
        assert!(
            better.is_none(),
            "world {seed}: {:?} although {:?} fits\n{world:?}",
            shown(&chosen),
            better.map(|b| shown(b))
        );
        // Dependants first; among those of one depth the smallest largest step.
        let mut candidates: Vec<&Vec<Option<usize>>> = all.iter().collect();
        let depths: BTreeSet<usize> = world.asked.iter().map(|(package, ..)| world.depth(*package)).collect();
        for depth in depths {
            let group = || world.asked.iter().filter(|(package, ..)| world.depth(*package) == depth);
            let largest = |chosen: &[Option<usize>]| {
                group().map(|one| world.step(one, chosen[one.0].unwrap())).max().unwrap_or(0)
            };
            let least = candidates.iter().map(|other| largest(other)).min().unwrap();
            let best = candidates.iter().find(|other| largest(other) == least).unwrap();
            assert_eq!(
                largest(&chosen),
                least,
                "world {seed}, depth {depth}: {:?} although {:?} fits\n{world:?}",
                shown(&chosen),
                shown(best)
            );
            steps_back += usize::from(least > 0);
            candidates.retain(|other| group().all(|(package, ..)| other[*package] == chosen[*package]));
        }
    }
    assert!(solved > 1000 && conflicts > 200 && steps_back > 300, "{solved} {conflicts} {steps_back}");
}
