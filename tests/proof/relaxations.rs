//! Ways out of random conflicts: each offered one works, and none that works is missing.

use std::collections::BTreeSet;

use envlock::compatibility::check_host;
use envlock::model::conflict;
use envlock::model::conflict::{Change, WayOut};
use envlock::model::host::Host;
use envlock::model::limit::{Limit, Origin};
use envlock::model::request::{Request, UserRequirement};
use envlock::model::version::DottedVersion;
use envlock::registry::Registry;

use pep508_rs::VersionOrUrl;

use super::rules::BruteForce;
use super::stack::{ask, told};
use super::worlds::{Random, common_files, driver, host, registry, request};

/// A party and what letting go of it gives: torch, flavour, Python.
type Expected = (String, String, String, String);

struct Conflict<'a> {
    registry: &'a Registry,
    host: &'a Host,
    request: &'a Request,
    expected: Vec<Expected>,
}

impl Conflict<'_> {
    /// Notes what a relaxed question gives, if anything.
    fn relax(&mut self, party: &str, host: &Host, request: &Request) -> bool {
        let best = BruteForce { registry: self.registry, host, request }.best();
        if let Some(best) = &best {
            self.expected.push((
                party.to_owned(),
                best.torch.to_string(),
                best.variant.clone(),
                format!("3.{}", best.python),
            ));
        }
        best.is_some()
    }

    /// The drivers at which anything can change, lowest first.
    fn drivers(&self) -> Vec<DottedVersion> {
        let own = self.registry.toolkits().iter().filter_map(|t| t.linux.clone());
        let floors = self.registry.minor_version_compatibility().iter().map(|r| r.linux.clone());
        let branches = self.registry.architectures().iter().filter_map(|a| a.first_branch);
        let mut all: Vec<DottedVersion> =
            own.chain(floors).chain(branches.map(|b| b.to_string().parse().unwrap())).collect();
        all.sort();
        all
    }

    /// `==2.1.*`, `==2.2.*`, `==2.0.*` and `==2.*` of `==2.1.0`, as far as there are such releases.
    fn lines_of_pin(&self, user: &UserRequirement) -> Vec<String> {
        let text = user.requirement.version_or_url.as_ref().map(ToString::to_string).unwrap_or_default();
        let Some(version) = text.trim().strip_prefix("==").filter(|v| !v.contains([',', '*'])) else {
            return Vec::new();
        };
        let line_of = |version: &str| {
            let parts: Vec<u64> = version.split('.').map(|part| part.parse().unwrap()).collect();
            (parts[0], parts[1])
        };
        let own = line_of(version.trim().split('+').next().unwrap());
        let platform = self.host.system.platform;
        let builds =
            || self.registry.builds().iter().filter(|b| b.platform == platform && b.yanked.is_none());
        let known: BTreeSet<String> = match user.requirement.name.as_ref() {
            "torch" => builds().map(|build| build.version.to_string()).collect(),
            name => {
                let rows = self.registry.companions().iter().filter(|row| row.package == name);
                let of_torch = builds().filter_map(|build| build.companion(name));
                rows.map(|row| row.version.to_string()).chain(of_torch.map(ToString::to_string)).collect()
            }
        };
        let lines: BTreeSet<(u64, u64)> = known.iter().map(|version| line_of(version)).collect();
        // How many lines are between, and whether it is an older one.
        let far = |line: &(u64, u64)| {
            let is_between =
                |other: &&(u64, u64)| **other != own && *other != line && (**other > own) != (*other > line);
            let between = lines.iter().filter(is_between);
            (between.count(), *line < own)
        };
        let mut around: Vec<&(u64, u64)> = lines.iter().filter(|line| **line != own).collect();
        around.sort_by_key(|line| far(line));
        let around = around.into_iter().map(|(major, minor)| format!("=={major}.{minor}.*"));
        std::iter::once(format!("=={}.{}.*", own.0, own.1))
            .chain(around)
            .chain([format!("=={}.*", own.0)])
            .collect()
    }

    fn all(mut self) -> Vec<Expected> {
        let (host, request) = (self.host, self.request);
        if let Some(now) = &host.driver {
            for version in self.drivers().into_iter().filter(|v| *v > now.version) {
                let newer = Host { driver: Some(driver(version.as_str())), ..host.clone() };
                if check_host(self.registry, &newer).is_err() || self.relax("driver", &newer, request) {
                    break;
                }
            }
        }
        for (i, user) in request.requirements.iter().enumerate() {
            let name = user.requirement.name.to_string();
            let mut free = request.clone();
            free.requirements[i].requirement.version_or_url = None;
            let had = user.requirement.version_or_url.is_some();
            // Of a pin, a release of its minor line first, then of those around it, then of its major one.
            let _ = self.lines_of_pin(user).into_iter().any(|line| {
                let mut near = request.clone();
                let specifiers = line.parse().unwrap();
                near.requirements[i].requirement.version_or_url =
                    Some(VersionOrUrl::VersionSpecifier(specifiers));
                self.relax(&name, host, &near)
            });
            if had && self.relax(&name, host, &free) {
                continue;
            }
            let mut without = request.clone();
            without.requirements.remove(i);
            if !without.requirements.is_empty() {
                self.relax(&name, host, &without);
            }
        }
        for i in 0..request.constraints.len() {
            let mut without = request.clone();
            let name = without.constraints.remove(i).requirement.name.to_string();
            self.relax(&name, host, &without);
        }
        let limits: [(&str, bool, Request); 7] = [
            ("cuda", request.cuda.is_some(), Request { cuda: None, ..request.clone() }),
            ("cudnn", request.cudnn.is_some(), Request { cudnn: None, ..request.clone() }),
            ("nccl", request.nccl.is_some(), Request { nccl: None, ..request.clone() }),
            ("variant", request.variant.is_some(), Request { variant: None, ..request.clone() }),
            (
                "driver",
                request.native_driver_only.is_some(),
                Request { native_driver_only: None, ..request.clone() },
            ),
            ("python", request.python.is_some(), Request { python: None, ..request.clone() }),
            ("index", request.only_index.is_some(), Request { only_index: None, ..request.clone() }),
        ];
        for (party, limited, relaxed) in limits {
            if limited {
                self.relax(party, host, &relaxed);
            }
        }
        // Builds that use no GPU, where the releases that are admitted have no others.
        let torch = request.find("torch").filter(|_| request.variant.is_none());
        let admits = |version: &pep440_rs::Version| {
            torch.is_some_and(|user| user.specifiers().is_none_or(|own| own.contains(version)))
        };
        let of_platform = self.registry.builds().iter().filter(|b| b.platform == host.system.platform);
        let admitted: Vec<_> = of_platform.filter(|b| b.yanked.is_none() && admits(&b.version)).collect();
        if !admitted.is_empty() && admitted.iter().all(|build| build.cuda.is_none()) {
            let variant = Some(Limit { value: "cpu".to_owned(), origin: Origin::Question });
            self.relax("variant", host, &Request { variant, ..request.clone() });
        }
        // The sets of GPUs that work and that no larger one contains, by compute capability.
        let kinds: BTreeSet<_> = host.gpus.iter().flatten().filter_map(|g| g.capability).collect();
        let kinds: Vec<_> = kinds.into_iter().collect();
        let mut sets: Vec<Vec<usize>> = (1..(1usize << kinds.len()).saturating_sub(1))
            .map(|bits| (0..kinds.len()).filter(|i| bits >> i & 1 == 1).collect())
            .collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let mut largest: Vec<Vec<usize>> = Vec::new();
        for set in sets {
            let mut fewer = host.clone();
            fewer.gpus.as_mut().unwrap().retain(|g| set.iter().any(|i| Some(kinds[*i]) == g.capability));
            let within = |larger: &Vec<usize>| set.iter().all(|i| larger.contains(i));
            if !largest.iter().any(within) && self.relax("gpu", &fewer, request) {
                largest.push(set);
            }
        }
        if host.system.libc.is_some() {
            let mut open = host.clone();
            open.system.libc = None;
            self.relax("glibc", &open, request);
        }
        // The release near a pin may be the newest one.
        self.expected.dedup();
        self.expected
    }
}

/// Another GPU in place of the only one is offered by the range that serves; it is not compared. Sets of changes are
/// compared on their own.
fn compared(way: &&WayOut) -> bool {
    !matches!(way.change, Change::OtherGpu(..) | Change::Together(_))
}

/// The machine and the request after a change.
fn changed((mut host, mut out): (Host, Request), change: &Change) -> (Host, Request) {
    match change {
        Change::Driver(floor) => host.driver = Some(driver(floor.as_str())),
        Change::AllowIndexes(_) => out.only_index = None,
        Change::WithoutRequest(package) => {
            out.requirements.retain(|user| user.requirement.name.to_string() != *package);
        }
        Change::Release { package, .. } | Change::Below { package, .. } => {
            let meant = out.requirements.iter_mut();
            meant
                .filter(|user| user.requirement.name.to_string() == *package)
                .for_each(|user| user.requirement.version_or_url = None);
        }
        Change::WithoutConstraint(meant) => out.constraints.retain(|bound| bound != &**meant),
        Change::WithoutLimit { what: "cuda", .. } => out.cuda = None,
        Change::WithoutLimit { what: "cudnn", .. } => out.cudnn = None,
        Change::WithoutLimit { what: "nccl", .. } => out.nccl = None,
        Change::Variant(_) | Change::OtherVariant(_) => out.variant = None,
        Change::AllowCompatibilityMode => out.native_driver_only = None,
        Change::Python(_) => out.python = None,
        other => panic!("not part of a set: {other}"),
    }
    (host, out)
}

/// The sets of changes among the ways out: each one works, with one change less none does, and there is one wherever
/// letting go of everything helps. Returns how many there are.
fn sets_are_true(registry: &Registry, host: &Host, request: &Request, ways: &[WayOut]) -> usize {
    let solves = |(host, request): &(Host, Request)| BruteForce { registry, host, request }.best().is_some();
    let start = || (host.clone(), request.clone());
    let sets: Vec<&Vec<Change>> = ways
        .iter()
        .filter_map(|way| if let Change::Together(set) = &way.change { Some(set) } else { None })
        .collect();
    for set in &sets {
        assert!(solves(&set.iter().fold(start(), changed)), "{set:?}\n{}", told(registry, host, request));
        for left_out in 0..set.len() {
            let fewer = set.iter().enumerate().filter(|(i, _)| *i != left_out);
            assert!(!solves(&fewer.fold(start(), |now, (_, change)| changed(now, change))), "{set:?}");
        }
    }
    let mut nothing = Request { constraints: Vec::new(), ..request.clone() };
    (nothing.cuda, nothing.cudnn, nothing.nccl, nothing.variant) = (None, None, None, None);
    (nothing.native_driver_only, nothing.python) = (None, None);
    nothing.requirements.iter_mut().for_each(|user| user.requirement.version_or_url = None);
    assert!(!sets.is_empty() || !ways.is_empty() || !solves(&(host.clone(), nothing)), "no set\n{ways:#?}");
    sets.len()
}

#[test]
fn ways_out_are_true_and_none_is_missing() {
    let common = common_files();
    let (mut seen, mut several, mut sets) = (0, 0, 0);
    for seed in 0..super::worlds(5_000) / 5 {
        let mut random = Random::new(seed ^ 0x3a7);
        let registry = registry(&mut random, &common);
        let (host, request) = (host(&mut random), request(&mut random));
        if check_host(&registry, &host).is_err() {
            continue;
        }
        let Err(conflict) = ask(&registry, &host, &request) else { continue };
        let mut offered: Vec<Expected> = conflict
            .would_work_if
            .iter()
            .filter(compared)
            .map(|w| {
                let of = |key: &str| w.stack.get(key).cloned().unwrap_or_default();
                (w.party.to_string(), of("torch"), of("variant"), of("python"))
            })
            .collect();
        offered.dedup();
        let expected =
            Conflict { registry: &registry, host: &host, request: &request, expected: Vec::new() }.all();
        if !conflict.also.is_empty() {
            // Each cause has ways out of its own, with the others out of the way: a change that makes the whole request
            // work is one for each.
            several += 1;
            for (party, ..) in &expected {
                let offers = |cause: &conflict::Conflict| {
                    cause.would_work_if.iter().any(|way| way.party.to_string() == *party)
                };
                let all = conflict.also.iter().all(offers) && offers(&conflict);
                assert!(all, "world {seed}: {party}\n{conflict:#?}\n{}", told(&registry, &host, &request));
            }
            continue;
        }
        sets += sets_are_true(&registry, &host, &request, &conflict.would_work_if);
        assert_eq!(
            offered,
            expected,
            "world {seed}:\n{:#?}\n{}",
            conflict.would_work_if,
            told(&registry, &host, &request)
        );
        seen += usize::from(!expected.is_empty());
    }
    assert!(seen > 200, "only {seen} conflicts had a way out");
    assert!(sets > 20, "only {sets} sets of changes");
    assert!(several > 20, "only {several} had several causes");
}
