//! Explains why none of the requested series runs on a machine, and finds changes that help.

use super::{Asked, series_name};
use crate::compatibility::{
    DriverSpan, Needs, Policy, Violation, check_host, envelope_of_framework, required_driver,
};
use crate::model::capability::ComputeCapability;
use crate::model::conflict::{Change, Conflict, Party, Reason, WayOut};
use crate::model::level::Level;
use crate::model::text::clean;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::{Cited, FrameworkBuild};

impl<'a> Asked<'a> {
    /// Why none of `asked` runs on the machine, explained for `newest`. Alternatives are chosen from `rows`.
    pub(super) fn conflict(
        &self,
        newest: &Cited<FrameworkBuild>,
        asked: &[&Cited<FrameworkBuild>],
        rows: &[&'a Cited<FrameworkBuild>],
    ) -> Conflict {
        let name = self.name();
        let series = series_name(&newest.versions);
        let fact = |text: String, parties: &[Party], source: String| {
            Reason::fact(text).about(parties.iter().cloned()).by(source)
        };
        let own = self.registry.source_text(&newest.source);
        let uses = format!("{} {series} uses CUDA {}", newest.package, cuda_short(&newest.cuda));
        let mut reasons = vec![fact(uses, &[Party::package(&newest.package), Party::Cuda], own)];
        let needs = Needs::of_framework(newest);
        let mut parties: Vec<Party> = Vec::new();
        for violation in needs.violations(self.registry, self.host, Policy::of(self.request)) {
            let (told, party) = self.told(newest, &violation);
            reasons.extend(told.into_iter().map(|(text, parties, source)| fact(text, &parties, source)));
            parties.push(party);
        }
        reasons.dedup_by(|a, b| a.text == b.text);
        if asked.len() > 1 {
            let text = match asked.len() {
                2 => "the older requested series does not run on this machine either".to_owned(),
                n => format!("the {} older requested series do not run on this machine either", n - 1),
            };
            reasons.push(fact(text, &[Party::package(name)], "registry".to_owned()));
        }
        for (user, verb) in self
            .users
            .iter()
            .map(|user| (*user, "require"))
            .chain(self.bounds(newest).into_iter().map(|user| (user, "set the constraint")))
        {
            let text = format!("you {verb} {}", clean(&user.requirement.to_string(), 100));
            let asked = Reason::asked(&user.origin, user.bounds_above(), text);
            reasons.push(asked.about_package(user.name()));
        }
        let driver = parties.contains(&Party::Driver).then_some(self.host.driver.as_ref()).flatten();
        let gpus: Vec<String> = self.host.gpus.iter().flatten().map(|gpu| gpu.label()).collect();
        let on = match driver {
            Some(driver) => format!("driver {}", driver.version),
            None => gpus.join(" and "),
        };
        let ways = self.ways_out(asked, rows);
        Conflict::of(format!("no {} runs on {on}", self.written())).because(reasons).with_ways(ways)
    }

    /// A violation as reasons (text, parties, source), and the party at fault.
    fn told(
        &self,
        row: &Cited<FrameworkBuild>,
        violation: &Violation<'_>,
    ) -> (Vec<(String, Vec<Party>, String)>, Party) {
        let package = Party::package(&row.package);
        let own = || self.registry.source_text(&row.source);
        let name = &row.package;
        let of_gpu = |text: String| (vec![(text, vec![package.clone(), Party::Gpu], own())], Party::Gpu);
        match violation {
            Violation::DriverTooOld(floor, source) => {
                let native = if self.request.native_driver_only.is_some() { " for native mode" } else { "" };
                let cuda = cuda_short(&row.cuda);
                let mut out = Vec::new();
                let Some(driver) = &self.host.driver else { return (out, Party::Driver) };
                if driver.user_mode() < floor {
                    let text = format!("CUDA {cuda} needs driver >= {floor}{native}");
                    out.push((text, vec![Party::Cuda, Party::Driver], self.registry.source_text(source)));
                }
                for gpu in self.host.gpus.iter().flatten() {
                    let Some(capability) = gpu.capability else { continue };
                    let first = DriverSpan::of(self.registry, capability).from;
                    let Some(first) = first.filter(|first| driver.version < *first) else { continue };
                    let branch = first.major();
                    let text = format!(
                        "{} is supported by driver branch {branch} and newer (inferred)",
                        gpu.label()
                    );
                    let architecture = self.registry.architecture(capability);
                    let source =
                        architecture.map(|a| self.registry.source_text(&a.source)).unwrap_or_default();
                    out.push((text, vec![Party::Gpu, Party::Driver], source));
                }
                let text = format!("the driver is {}", driver.user_mode());
                out.push((text, vec![Party::Driver], driver.found_by.to_string()));
                (out, Party::Driver)
            }
            Violation::DriverUnknown(cuda) => {
                let text = format!("the driver that CUDA {} requires is unknown", cuda_short(cuda));
                (vec![(text, vec![Party::Cuda, Party::Driver], "registry".to_owned())], Party::Driver)
            }
            Violation::NoCode(gpu) => of_gpu(format!("{name} has no code for {}", gpu.label())),
            Violation::CodeUnknown(gpu) => {
                of_gpu(format!("it is unknown whether {name} has code for {}", gpu.label()))
            }
            Violation::PtxTooNew(gpu) => of_gpu(format!(
                "{name} has only PTX for {}; the driver is too old to compile it",
                gpu.label()
            )),
            Violation::CudnnDropsGpu(gpu, floor, source) => {
                let cudnn = row.cudnn.as_ref().map(ToString::to_string).unwrap_or_default();
                let label = gpu.label();
                let text = format!(
                    "cuDNN {cudnn}, which {name} needs, requires compute capability >= {floor}; the GPU is {label}"
                );
                let parties = vec![Party::Cudnn, Party::Gpu, package];
                (vec![(text, parties, self.registry.source_text(source))], Party::Gpu)
            }
            Violation::NoDriverForGpu(gpu) => {
                let text =
                    format!("every driver for CUDA {} is too new for {}", cuda_short(&row.cuda), gpu.label());
                let architecture = gpu.capability.and_then(|c| self.registry.architecture(c));
                let source = architecture.map(|a| self.registry.source_text(&a.source)).unwrap_or_default();
                (vec![(text, vec![package.clone(), Party::Gpu], source)], Party::Gpu)
            }
            // Cannot occur: `rows` has only rows of this platform, all of them CUDA builds without a glibc requirement.
            Violation::Platform => (Vec::new(), Party::Platform),
            Violation::CpuBuild => (Vec::new(), Party::Gpu),
            Violation::LibcTooOld(_) => (Vec::new(), Party::Glibc),
        }
    }

    /// The changes that help: the lowest driver that runs a requested series, the newest series that runs on this
    /// machine, each constraint whose removal helps, and the compute capabilities that a series supports.
    fn ways_out(&self, asked: &[&Cited<FrameworkBuild>], rows: &[&'a Cited<FrameworkBuild>]) -> Vec<WayOut> {
        let mut out = Vec::new();
        let mut offer = |change: Change, party: Party, row: &Cited<FrameworkBuild>| {
            let (releases, cuda) = (series_name(&row.versions), cuda_short(&row.cuda));
            let gives = format!("{} {releases} with CUDA {cuda}", row.package);
            let stack = [(row.package.clone(), releases), ("cuda".to_owned(), cuda)];
            out.push(WayOut::new(change, party, Level::Stack, gives).with(stack));
        };
        if let Some((driver, row)) = self.driver_that_helps(asked) {
            offer(Change::Driver(driver), Party::Driver, row);
        }
        let runs = |row: &&&Cited<FrameworkBuild>| self.runs_on(row, self.host);
        let within_bounds = |row: &&&Cited<FrameworkBuild>| self.allowed(row, &self.bounds(row));
        if let Some(row) = rows.iter().filter(within_bounds).find(runs) {
            // A request without extras gets a suggestion without extras.
            let extras = !self.extras().is_empty();
            let package =
                self.cuda_requirement(row).filter(|_| extras).unwrap_or_else(|| self.name().to_owned());
            let change = Change::Series { package, releases: series_name(&row.versions) };
            offer(change, Party::package(self.name()), row);
        }
        for (i, bound) in self.request.constraints.iter().enumerate() {
            let mut request = self.request.clone();
            request.constraints.remove(i);
            let without = Asked { request: &request, users: self.users.clone(), ..*self };
            let Some(row) = without.asked(rows).into_iter().find(|row| self.runs_on(row, self.host)) else {
                continue;
            };
            if self.bounds(row).contains(&bound) {
                let party = Party::package(bound.name().to_owned());
                offer(Change::WithoutConstraint(Box::new(bound.clone())), party, row);
            }
        }
        if let Some((capabilities, row)) = self.gpus_that_help(asked) {
            offer(Change::OtherGpu(capabilities), Party::Gpu, row);
        }
        out
    }

    /// The compute capabilities that a requested series supports. `None` if the machine has GPUs of different capabilities.
    fn gpus_that_help<'r>(
        &self,
        asked: &[&'r Cited<FrameworkBuild>],
    ) -> Option<(Vec<ComputeCapability>, &'r Cited<FrameworkBuild>)> {
        let gpus = self.host.gpus.as_ref()?;
        if gpus.windows(2).any(|pair| pair[0].capability != pair[1].capability) {
            return None;
        }
        let with = |capability: ComputeCapability| {
            let mut host = self.host.clone();
            for gpu in host.gpus.iter_mut().flatten() {
                gpu.capability = Some(capability);
            }
            host
        };
        asked.iter().find_map(|row| {
            let covered = envelope_of_framework(self.registry, row).coverage;
            let capabilities = covered.iter().map(|row| row.compute_capability);
            let fit = capabilities.filter(|capability| {
                let host = with(*capability);
                check_host(self.registry, &host).is_ok() && self.runs_on(row, &host)
            });
            let fit: Vec<ComputeCapability> = fit.collect();
            (!fit.is_empty()).then_some((fit, *row))
        })
    }

    fn driver_that_helps<'r>(
        &self,
        asked: &[&'r Cited<FrameworkBuild>],
    ) -> Option<(DottedVersion, &'r Cited<FrameworkBuild>)> {
        let driver = self.host.driver.as_ref()?;
        let (os, policy) = (self.host.system.platform.os, Policy::of(self.request));
        let floors = asked.iter().flat_map(|row| [policy, Policy::Native].map(|policy| (policy, &row.cuda)));
        let floors = floors.filter_map(|(policy, cuda)| required_driver(self.registry, cuda, os, policy));
        let gpus = self.host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
        let firsts = gpus.filter_map(|capability| DriverSpan::of(self.registry, capability).from);
        let mut drivers: Vec<DottedVersion> = floors.map(|floor| floor.value).chain(firsts).collect();
        drivers.retain(|version| *version > driver.version);
        drivers.sort();
        drivers.dedup();
        drivers.into_iter().find_map(|version| {
            let mut host = self.host.clone();
            let newer = host.driver.as_mut()?;
            newer.version.clone_from(&version);
            newer.cuda = None;
            newer.compat = None;
            check_host(self.registry, &host).ok()?;
            let row = asked.iter().find(|row| self.runs_on(row, &host))?;
            Some((version, *row))
        })
    }
}
