//! Conda's half on random channels, held against brute force: what can be installed, and every sentence of a conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use envlock::conda::{
    Asked, CondaQuestion, Explained, Records, Repodata, Solved, VirtualPackage, Written, explain,
};
use envlock::model::conflict::{Change, ReasonKind};
use envlock::model::request::Origin;

use super::worlds::Random;

const NAMES: [&str; 8] = ["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"];
const VERSIONS: [u32; 4] = [1, 2, 3, 4];
const BUILDS: [&str; 2] = ["x", "y"];
/// CUDA versions, each with the first driver.
const DRIVERS: [(&str, &str); 3] = [("11", "450.80.02"), ("12", "525.60.13"), ("13", "580.65.06")];
const GLIBC: [&str; 3] = ["2.17", "2.28", "2.35"];

/// What a spec admits of a package.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Any,
    Is(u32),
    AtLeast(u32),
    Below(u32),
    Not(u32),
}

#[derive(Clone, Debug, PartialEq)]
struct Spec {
    name: &'static str,
    bound: Bound,
    build: Option<&'static str>,
}

impl Spec {
    fn admits(&self, version: u32, build: &str) -> bool {
        let fits = match self.bound {
            Bound::Any => true,
            Bound::Is(own) => version == own,
            Bound::AtLeast(own) => version >= own,
            Bound::Below(own) => version < own,
            Bound::Not(own) => version != own,
        };
        fits && self.build.is_none_or(|own| own == build)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.bound {
            Bound::Any if self.build.is_some() => f.write_str(" *")?,
            Bound::Any => {}
            Bound::Is(own) => write!(f, " {own}")?,
            Bound::AtLeast(own) => write!(f, " >={own}")?,
            Bound::Below(own) => write!(f, " <{own}")?,
            Bound::Not(own) => write!(f, " !={own}")?,
        }
        self.build.map_or(Ok(()), |build| write!(f, " {build}"))
    }
}

#[derive(Clone, Debug)]
struct Record {
    name: &'static str,
    version: u32,
    build: &'static str,
    depends: Vec<Spec>,
    constrains: Vec<Spec>,
    /// What it needs of the machine: `__cuda >=12`, as position in [`DRIVERS`]; `__glibc >=2.28`, in [`GLIBC`].
    cuda: Option<usize>,
    glibc: Option<usize>,
}

impl Record {
    /// `depends` as it is written, of the machine too.
    fn needs(&self) -> Vec<String> {
        let own = self.depends.iter().map(Spec::to_string);
        let cuda = self.cuda.map(|at| format!("__cuda >={}", DRIVERS[at].0));
        let glibc = self.glibc.map(|at| format!("__glibc >={}", GLIBC[at]));
        own.chain(cuda).chain(glibc).collect()
    }
}

/// What the machine has, as positions in the tables.
#[derive(Clone, Copy, Debug)]
struct Machine {
    cuda: Option<usize>,
    glibc: usize,
}

impl Machine {
    fn runs(self, record: &Record) -> bool {
        record.cuda.is_none_or(|needed| self.cuda.is_some_and(|own| own >= needed))
            && record.glibc.is_none_or(|needed| self.glibc >= needed)
    }
}

#[derive(Debug)]
struct World {
    records: Vec<Record>,
    specs: Vec<Spec>,
    machine: Machine,
}

fn spec(random: &mut Random, names: &[&'static str]) -> Spec {
    let version = VERSIONS[random.below(VERSIONS.len())];
    let bound = match random.below(8) {
        0 | 1 => Bound::Any,
        2 | 3 => Bound::Is(version),
        4 | 5 => Bound::AtLeast(version),
        6 => Bound::Below(version),
        _ => Bound::Not(version),
    };
    let build = random.one_in(8).then(|| BUILDS[random.below(2)]);
    Spec { name: names[random.below(names.len())], bound, build }
}

fn world(random: &mut Random) -> World {
    let count = 3 + random.below(NAMES.len() - 2);
    let names = &NAMES[..count];
    let mut records = Vec::new();
    for (at, name) in names.iter().enumerate() {
        // The last of the names has no record in some worlds, so that requirements lead nowhere.
        if at + 1 == count && random.one_in(4) {
            continue;
        }
        for version in VERSIONS {
            for build in BUILDS {
                if random.one_in(if build == "x" { 4 } else { 2 }) {
                    continue;
                }
                let depends = (0..random.below(3)).map(|_| spec(random, names)).collect();
                let constrains = (0..random.below(4) / 3).map(|_| spec(random, names)).collect();
                let cuda = random.one_in(12).then(|| random.below(3));
                let glibc = random.one_in(12).then(|| random.below(3));
                let record = Record { name, version, build, depends, constrains, cuda, glibc };
                // One that excludes itself is not read.
                let is_read = |spec: &Spec| spec.name != *name || spec.admits(version, build);
                if record.constrains.iter().all(is_read) {
                    records.push(record);
                }
            }
        }
    }
    let specs = (0..1 + random.below(4)).map(|_| spec(random, names)).collect();
    let machine = Machine { cuda: (!random.one_in(3)).then(|| random.below(3)), glibc: random.below(3) };
    World { records, specs, machine }
}

/// The answer to a question of brute force: one record for each package that is needed.
fn answer<'r>(records: &[&'r Record], specs: &[Spec], machine: Machine) -> Option<Vec<&'r Record>> {
    fn extend<'r>(
        records: &[&'r Record],
        specs: &[Spec],
        machine: Machine,
        chosen: &mut Vec<&'r Record>,
    ) -> bool {
        let bounds = |chosen: &[&'r Record]| -> Vec<Spec> {
            chosen
                .iter()
                .flat_map(|record| record.depends.iter().chain(&record.constrains))
                .cloned()
                .collect()
        };
        let holds = |record: &Record, all: &[Spec]| {
            all.iter()
                .filter(|spec| spec.name == record.name)
                .all(|spec| spec.admits(record.version, record.build))
        };
        let own: Vec<Spec> = specs.iter().cloned().chain(bounds(chosen)).collect();
        if !chosen.iter().all(|record| holds(record, &own)) {
            return false;
        }
        let needed = specs.iter().chain(chosen.iter().flat_map(|record| &record.depends));
        let open = needed.map(|spec| spec.name).find(|name| chosen.iter().all(|record| record.name != *name));
        let Some(open) = open else { return true };
        for record in records.iter().filter(|record| record.name == open && machine.runs(record)) {
            chosen.push(record);
            if extend(records, specs, machine, chosen) {
                return true;
            }
            chosen.pop();
        }
        false
    }
    let mut chosen = Vec::new();
    extend(records, specs, machine, &mut chosen).then_some(chosen)
}

impl World {
    fn solvable(&self, specs: &[Spec], machine: Machine) -> bool {
        answer(&self.records.iter().collect::<Vec<_>>(), specs, machine).is_some()
    }

    fn channel(&self) -> Records {
        let mut packages = serde_json::Map::new();
        for own in &self.records {
            let record = serde_json::json!({
                "name": own.name, "version": own.version.to_string(), "build": own.build, "build_number": 0,
                "subdir": "linux-64", "size": 1, "depends": own.needs(),
                "constrains": own.constrains.iter().map(Spec::to_string).collect::<Vec<_>>(),
                "sha256": "0".repeat(64), "md5": "0".repeat(32),
            });
            packages.insert(format!("{}-{}-{}.conda", own.name, own.version, own.build), record);
        }
        let text = serde_json::json!({"packages": {}, "packages.conda": packages}).to_string();
        let repodata = Repodata::parse("conda-forge", "linux-64", text.into()).unwrap();
        Records::reachable(&[repodata], NAMES.map(str::to_owned)).unwrap()
    }

    fn question(&self) -> CondaQuestion {
        let of =
            |name, version: &str| VirtualPackage { name, version: version.to_owned(), build: "0".into() };
        let cuda = self.machine.cuda.map(|at| of("__cuda", DRIVERS[at].0));
        let machine = cuda.into_iter().chain([of("__glibc", GLIBC[self.machine.glibc])]).collect();
        CondaQuestion {
            specs: self.specs.iter().map(Spec::to_string).collect(),
            machine,
            ..CondaQuestion::default()
        }
    }

    fn explain(&self, records: &Records) -> Explained {
        let written: Vec<Option<Written>> = (self.specs.iter())
            .map(|spec| Some(Written { text: spec.to_string(), origin: Origin::Option("test") }))
            .collect();
        let drivers = DRIVERS.map(|(cuda, driver)| (cuda.to_owned(), driver.parse().unwrap()));
        let asked = Asked {
            without_gpu: "the machine has no NVIDIA GPU",
            written: &written,
            drivers: &drivers,
            driver: "the driver",
            target: "default",
            channels: &["conda-forge".to_owned()],
            limit: &|| Duration::from_secs(60),
        };
        explain(records, &self.question(), &asked).unwrap()
    }

    /// The specs of the request at some places.
    fn some(&self, which: &[usize]) -> Vec<Spec> {
        which.iter().map(|i| self.specs[*i].clone()).collect()
    }

    /// Whether a way out works, in the words in which it does not.
    fn check_way(&self, change: &Change) -> Result<(), String> {
        let without = |name: &str| -> Vec<Spec> {
            self.specs.iter().filter(|spec| spec.name != name).cloned().collect()
        };
        let works = match change {
            Change::WithoutRequest(name) => self.solvable(&without(name), self.machine),
            Change::Series { package, releases } => {
                let name = NAMES.into_iter().find(|own| own == package).unwrap();
                let bound = Bound::Is(releases.parse().map_err(|e| format!("release `{releases}`: {e}"))?);
                let mut specs = without(package);
                specs.push(Spec { name, bound, build: None });
                self.solvable(&specs, self.machine)
            }
            Change::Driver(version) => {
                let at = DRIVERS.iter().position(|(_, driver)| *driver == version.to_string()).unwrap();
                self.solvable(&self.specs, Machine { cuda: Some(at), ..self.machine })
            }
            Change::Glibc(version) => {
                let at = GLIBC.iter().position(|own| *own == version.to_string()).unwrap();
                self.solvable(&self.specs, Machine { glibc: at, ..self.machine })
            }
            other => return Err(format!("an unexpected change: {other}")),
        };
        if works { Ok(()) } else { Err(format!("a way out that does not work: {change}")) }
    }

    /// The requirements that a sentence states, each with the records that are said to have it.
    fn requirements<'w>(&'w self, text: &str) -> Result<Vec<Told<'w>>, String> {
        let is_newest = text.contains(", the newest,");
        let text = text
            .replace(", the newest,", "")
            .replace(", the newest that fits,", "")
            .replace(" (no other build will do)", "");
        let mut out = Vec::new();
        for step in text.split(", ") {
            if let Some(of_machine) = step.strip_prefix("and the ") {
                self.check_machine(of_machine)?;
                continue;
            }
            let words =
                |verb: &str| step.split_once(&format!(" {verb} ")).map(|(own, spec)| (own.to_owned(), spec));
            let (verb, (own, spec)) = match (words("needs"), words("admits only")) {
                (Some(found), _) => ("needs", found),
                (_, Some(found)) => ("admits only", found),
                _ => return Err(format!("a sentence of another form: {step}")),
            };
            let spec = spec.trim_matches('`');
            let parts: Vec<&str> = own.split(' ').collect();
            let (name, version, build) = (parts[0], parts[1], parts.get(2).copied());
            let records: Vec<&Record> = (self.records.iter())
                .filter(|own| own.name == name && own.version.to_string() == version)
                .filter(|own| build.is_none_or(|build| own.build == build))
                .collect();
            let states = |record: &&Record| match verb {
                "needs" => record.needs().iter().any(|own| own == spec),
                _ => record.constrains.iter().any(|own| own.to_string() == spec),
            };
            if records.is_empty() || !records.iter().all(states) {
                return Err(format!("no such requirement: {step}"));
            }
            let newest = self.records.iter().filter(|own| own.name == name).map(|own| own.version).max();
            if is_newest && newest != Some(records[0].version) {
                return Err(format!("not the newest: {step}"));
            }
            out.push(Told { records, spec: spec.to_owned(), is_need: verb == "needs" });
        }
        Ok(out)
    }

    fn check_machine(&self, text: &str) -> Result<(), String> {
        let glibc = format!("machine has glibc {}", GLIBC[self.machine.glibc]);
        let cuda = self.machine.cuda.map(|at| format!("driver supports CUDA {}", DRIVERS[at].0));
        let expected = [glibc, cuda.unwrap_or_else(|| "machine has no NVIDIA GPU".to_owned())];
        if expected.iter().any(|own| own == text) { Ok(()) } else { Err(format!("of the machine: {text}")) }
    }

    /// The sentences of a conflict, each held against the world.
    fn check(&self, explained: &Explained) -> Result<Kind, String> {
        let core = self.some(&explained.core);
        if self.solvable(&core, self.machine) {
            return Err("what is told to be at fault can be installed".into());
        }
        for i in &explained.core {
            let fewer: Vec<usize> = explained.core.iter().copied().filter(|k| k != i).collect();
            if !self.solvable(&self.some(&fewer), self.machine) {
                return Err(format!("`{}` is told to be at fault and is not", self.specs[*i]));
            }
        }
        let ways = &explained.conflict.would_work_if;
        for way in ways {
            self.check_way(&way.change)?;
        }
        for name in core.iter().map(|spec| spec.name).collect::<BTreeSet<_>>() {
            let others: Vec<Spec> = self.specs.iter().filter(|spec| spec.name != name).cloned().collect();
            let is_offered = ways.iter().any(|way| way.party.to_string().contains(name));
            if !is_offered && self.solvable(&others, self.machine) {
                return Err(format!("no way out by {name}"));
            }
        }
        let facts =
            explained.conflict.reasons.iter().filter(|own| !matches!(own.kind, ReasonKind::Asked { .. }));
        let mut told = Vec::new();
        let mut series_of: Vec<(&str, BTreeSet<u32>)> = Vec::new();
        for fact in facts {
            let text = &fact.text;
            if text.starts_with("no choice among the records") {
                return Ok(Kind::Untold);
            } else if let Some(rest) = text.strip_prefix("no package `") {
                if self.records.iter().any(|own| rest.starts_with(own.name)) {
                    return Err(text.clone());
                }
            } else if let Some(rest) = text.strip_prefix("conda-forge has ") {
                self.check_releases(rest)?;
            } else if let Some((specs, series)) = text.split_once(" can only be installed with ") {
                series_of.push(self.check_series(specs, series)?);
            } else if let Some((specs, name)) = text.split_once(" cannot be installed with ") {
                series_of.push(self.check_series(specs, &format!("{name} or without it"))?);
            } else {
                told.extend(self.requirements(text)?);
            }
        }
        if let Some((name, _)) = series_of.first() {
            let is_left = |version: &u32| {
                let asked = core.iter().filter(|spec| spec.name == *name);
                series_of.iter().all(|(_, told)| told.contains(version))
                    && self.records.iter().any(|own| {
                        own.name == *name
                            && own.version == *version
                            && asked.clone().all(|spec| spec.admits(own.version, own.build))
                    })
            };
            // What is said of packages between is not followed.
            return match told.is_empty() && VERSIONS.iter().any(is_left) {
                true => Err("the series do not exclude each other".into()),
                false => Ok(Kind::Series),
            };
        }
        Ok(if self.excludes(&core, &told) { Kind::Facts } else { Kind::Part })
    }

    /// `aa 1 to 4`, `aa 2, in other builds`.
    fn check_releases(&self, text: &str) -> Result<(), String> {
        let text = text.trim_end_matches(", in other builds");
        let (name, range) = text.split_once(' ').unwrap();
        let versions: BTreeSet<u32> =
            self.records.iter().filter(|own| own.name == name).map(|own| own.version).collect();
        let expected = versions.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        if expected == range { Ok(()) } else { Err(format!("conda-forge has {text}")) }
    }

    /// `aa >=2 with bb` and `cc 1 to 2, 4`: with these, and with no others.
    fn check_series(&self, specs: &str, series: &str) -> Result<(&'static str, BTreeSet<u32>), String> {
        let all = || {
            self.specs
                .iter()
                .chain(self.records.iter().flat_map(|own| own.depends.iter().chain(&own.constrains)))
        };
        let specs: Vec<Spec> = (specs.split(" with "))
            .map(|text| all().find(|spec| spec.to_string() == text).cloned())
            .collect::<Option<_>>()
            .ok_or_else(|| format!("specs `{specs}`"))?;
        let (series, is_needed) =
            series.strip_suffix(" or without it").map_or((series, true), |own| (own, false));
        let (name, runs) = series.split_once(' ').unwrap_or((series, ""));
        let name = NAMES.into_iter().find(|own| *own == name).ok_or("no name")?;
        let mut told = BTreeSet::new();
        for run in runs.split(", ").filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once(" to ").unwrap_or((run, run));
            told.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
        }
        for version in VERSIONS {
            let has = self.records.iter().any(|own| own.name == name && own.version == version);
            let with = Spec { name, bound: Bound::Is(version), build: None };
            let works = self.solvable(&specs.iter().cloned().chain([with]).collect::<Vec<_>>(), self.machine);
            if works && !told.contains(&version) || has && !works && told.contains(&version) {
                return Err(format!("of {name} {version}: {series}"));
            }
        }
        let others: Vec<&Record> = self.records.iter().filter(|own| own.name != name).collect();
        match is_needed && answer(&others, &specs, self.machine).is_some() {
            true => Err(format!("{name} is not needed")),
            false => Ok((name, told)),
        }
    }

    /// Whether nothing can be installed with what is told alone: of packages that are told of, the releases and the requirements
    /// that are told; of the others, every release, without requirements.
    fn excludes(&self, core: &[Spec], told: &[Told<'_>]) -> bool {
        let mut of_told: BTreeMap<(&str, u32, &str), Record> = BTreeMap::new();
        for one in told {
            for record in &one.records {
                let bare = Record {
                    depends: Vec::new(),
                    constrains: Vec::new(),
                    cuda: None,
                    glibc: None,
                    ..(*record).clone()
                };
                let own = of_told.entry((record.name, record.version, record.build)).or_insert(bare);
                if one.spec.starts_with("__") {
                    (own.cuda, own.glibc) = (record.cuda, record.glibc);
                    continue;
                }
                own.depends.extend(
                    record.depends.iter().filter(|spec| one.is_need && spec.to_string() == one.spec).cloned(),
                );
                own.constrains.extend(
                    record
                        .constrains
                        .iter()
                        .filter(|spec| !one.is_need && spec.to_string() == one.spec)
                        .cloned(),
                );
            }
        }
        let names: BTreeSet<&str> = of_told.keys().map(|(name, ..)| *name).collect();
        let others = self.records.iter().filter(|own| !names.contains(own.name)).map(|own| Record {
            depends: Vec::new(),
            constrains: Vec::new(),
            cuda: None,
            glibc: None,
            ..own.clone()
        });
        let all: Vec<Record> = of_told.values().cloned().chain(others).collect();
        answer(&all.iter().collect::<Vec<_>>(), core, self.machine).is_none()
    }
}

/// A requirement that a sentence states.
struct Told<'w> {
    records: Vec<&'w Record>,
    spec: String,
    is_need: bool,
}

/// How a conflict is explained.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Kind {
    /// By requirements that exclude each other.
    Facts,
    /// By the releases of a package that each side can be installed with.
    Series,
    /// By requirements that are not all there is to it: in circles.
    Part,
    /// By no more than that there is no choice.
    Untold,
}

#[test]
fn every_sentence_of_a_conflict_is_true() {
    let mut kinds: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in 0..super::worlds(600) {
        let world = world(&mut Random::new(seed));
        let records = world.channel();
        let is_solvable = world.solvable(&world.specs, world.machine);
        let solved = records.solve(&world.question(), Duration::from_secs(60)).unwrap();
        assert_eq!(is_solvable, solved != Solved::Impossible, "world {seed}: {world:#?}");
        if is_solvable {
            continue;
        }
        let explained = world.explain(&records);
        match world.check(&explained) {
            Ok(kind) => *kinds.entry(kind).or_default() += 1,
            Err(why) => wrong.push((seed, why, explained.conflict)),
        }
    }
    for (seed, why, conflict) in wrong.iter().take(8) {
        eprintln!("world {seed}: {why}\n  {}", conflict.headline);
        for reason in &conflict.reasons {
            eprintln!("    {}", reason.text);
        }
        for way in &conflict.would_work_if {
            eprintln!("    works with {}", way.change);
        }
    }
    assert!(wrong.is_empty(), "{} sentences", wrong.len());
    let count = |kind| kinds.get(&kind).copied().unwrap_or_default();
    let all: u32 = kinds.values().sum();
    assert!(all > 100, "{kinds:?}");
    assert!((count(Kind::Part) + count(Kind::Untold)) * 100 < all, "{kinds:?}");
}
