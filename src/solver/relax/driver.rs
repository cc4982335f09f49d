//! Changes of the driver: a newer one, a newer one together with a change of the request, or a cuda-compat package.

use super::{Relaxer, Ways};
use crate::compatibility::{DriverSpan, Policy, check_host, required_driver};
use crate::model::conflict::{Change, Party, WayOut};
use crate::model::host::{Gpu, Host};
use crate::model::level::Level;
use crate::model::platform::Os;
use crate::model::version::DottedVersion;
use crate::solver::inputs::{Depth, Inputs};

impl Relaxer<'_, '_> {
    /// Offers the lowest newer driver that helps and still supports the host's GPUs.
    pub(super) fn driver(&mut self) {
        for (floor, host) in self.newer_drivers() {
            if let Some(solution) = self.solve(&host, self.inputs.request) {
                self.offer(Change::Driver(floor), Party::Driver, &solution);
                return;
            }
        }
    }

    /// Offers the lowest newer driver with which a change of the request helps, together with that: a GPU that is newer than
    /// both needs both.
    pub(super) fn driver_and_request(&mut self) {
        for (floor, host) in self.newer_drivers() {
            let inputs = Inputs { host: &host, ..*self.inputs };
            let level = if self.depth == Depth::Stack { Level::Stack } else { Level::Full };
            let mut beside =
                Relaxer::new(&inputs, self.tables, level, self.asked, self.core.clone(), self.limit);
            beside.requirements();
            beside.constraints();
            beside.limits();
            if beside.ways.found.is_empty() {
                beside.sets();
            }
            let Ways { found, needs, cut } = beside.ways;
            self.ways.needs.extend(needs);
            self.ways.cut |= cut;
            let ways = found.into_iter().map(|way| {
                let mut changes = vec![Change::Driver(floor.clone())];
                match way.change {
                    Change::Together(more) => changes.extend(more),
                    one => changes.push(one),
                }
                WayOut { change: Change::Together(changes), party: Party::Driver, release: None, ..way }
            });
            let before = self.ways.found.len();
            self.ways.found.extend(ways);
            if self.ways.found.len() > before || self.ways.cut {
                return;
            }
        }
    }

    /// The machine with each driver that is newer than its own and supports its GPUs, the oldest first.
    pub(super) fn newer_drivers(&self) -> Vec<(DottedVersion, Host)> {
        let Some(driver) = &self.inputs.host.driver else {
            return Vec::new();
        };
        let registry = self.inputs.catalogue.registry;
        let os = self.inputs.host.system.platform.os;
        let policy = Policy::of(self.inputs.request);
        let mut floors: Vec<DottedVersion> = registry
            .toolkits()
            .iter()
            .filter_map(|t| required_driver(registry, &t.version, os, policy))
            .map(|driver| driver.value)
            .chain(self.first_branches())
            .filter(|v| *v > driver.version)
            .collect();
        floors.sort();
        floors.dedup();
        let with_driver = |floor: DottedVersion| {
            let mut host = self.inputs.host.clone();
            if let Some(driver) = &mut host.driver {
                // A branch alone is open to each of its releases, and the offer is for the first one.
                let first = format!("{floor}.0").parse().ok().filter(|_| !floor.as_str().contains('.'));
                driver.version = first.unwrap_or_else(|| floor.clone());
                driver.cuda = None;
            }
            check_host(registry, &host).is_ok().then_some((floor, host))
        };
        floors.into_iter().map_while(with_driver).collect()
    }

    /// Offers the oldest cuda-compat package that helps, if it supports the kernel driver's branch and every GPU is
    /// known to be a data-centre GPU (forward compatibility is limited to these).
    pub(super) fn forward_compatibility(&mut self) {
        let registry = self.inputs.catalogue.registry;
        let host = self.inputs.host;
        let (Some(driver), Os::Linux) = (&host.driver, host.system.platform.os) else { return };
        let data_centre = |gpu: &Gpu| gpu.name.as_ref().is_some_and(|name| registry.is_data_centre(name));
        let gpus = host.gpus.as_deref().unwrap_or_default();
        if gpus.is_empty() || !gpus.iter().all(data_centre) {
            return;
        }
        let branch = driver.version.major();
        for row in registry.forward_compatibility().iter().filter(|row| row.bases.contains(&branch)) {
            let Some(user_mode) = required_driver(registry, &row.cuda, Os::Linux, Policy::Native) else {
                continue;
            };
            let mut newer = host.clone();
            if let Some(driver) = &mut newer.driver {
                driver.compat = Some(user_mode.value);
                driver.cuda = None;
            }
            if let Some(solution) = self.solve(&newer, self.inputs.request) {
                let change = Change::CudaCompat { package: row.package.clone(), branch };
                self.offer(change, Party::Driver, &solution);
                return;
            }
        }
    }

    /// The first driver branches that support the host's GPUs.
    fn first_branches(&self) -> Vec<DottedVersion> {
        let registry = self.inputs.catalogue.registry;
        let gpus = self.inputs.host.gpus.iter().flatten();
        gpus.filter_map(|gpu| DriverSpan::of(registry, gpu.capability?).from).collect()
    }
}
