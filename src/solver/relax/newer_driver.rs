//! Changes of the driver: a newer one, a newer one together with a change of the request, or a cuda-compat package.

use super::{Relaxer, Ways};
use crate::compatibility::{DriverSpan, Policy, check_host, required_driver};
use crate::model::conflict::{Change, Party, WayOut};
use crate::model::host::Gpu;
use crate::model::level::Level;
use crate::model::platform::Os;
use crate::model::version::DottedVersion;
use crate::solver::edit::Edit;
use crate::solver::inputs::Depth;

impl Relaxer<'_, '_> {
    /// Offers the lowest newer driver that helps and still supports the host's GPUs.
    pub(super) fn driver(&mut self) {
        for driver in self.newer_drivers() {
            if self.offer_if_solved(&driver) {
                return;
            }
        }
    }

    /// Offers the lowest newer driver with which a change of the request helps, together with that: a GPU that is newer than
    /// both needs both.
    pub(super) fn driver_and_request(&mut self) {
        for driver in self.newer_drivers() {
            let question = self.inputs.question.with(&driver);
            let inputs = self.inputs.about(&question);
            let level = if self.depth == Depth::Stack { Level::Stack } else { Level::Full };
            let mut beside = Relaxer::new(&inputs, self.tables, level, self.asked, self.core.clone());
            beside.requirements();
            beside.constraints();
            beside.limits();
            if beside.ways.found.is_empty() {
                beside.sets();
            }
            let Ways { found, needs, cut } = beside.ways;
            self.ways.needs.extend(needs);
            self.ways.cut |= cut;
            let Edit::Driver(floor) = driver else { continue };
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

    /// Each driver that is newer than the machine's and supports its GPUs, the oldest first.
    pub(super) fn newer_drivers(&self) -> Vec<Edit> {
        let question = self.inputs.question;
        let Some(driver) = &question.host.driver else {
            return Vec::new();
        };
        let registry = self.inputs.catalogue.registry;
        let os = question.host.system.platform.os;
        let policy = Policy::of(&question.request);
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
        let is_possible = |edit: &Edit| check_host(registry, &question.with(edit).host).is_ok();
        floors.into_iter().map(Edit::Driver).take_while(is_possible).collect()
    }

    /// Offers the oldest cuda-compat package that helps, if it supports the kernel driver's branch and every GPU is
    /// known to be a data-centre GPU (forward compatibility is limited to these).
    pub(super) fn forward_compatibility(&mut self) {
        let registry = self.inputs.catalogue.registry;
        let host = &self.inputs.question.host;
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
            let package = row.package.clone();
            if self.offer_if_solved(&Edit::CudaCompat { package, branch, user_mode: user_mode.value }) {
                return;
            }
        }
    }

    /// The first driver branches that support the host's GPUs.
    fn first_branches(&self) -> Vec<DottedVersion> {
        let registry = self.inputs.catalogue.registry;
        let gpus = self.inputs.question.host.gpus.iter().flatten();
        gpus.filter_map(|gpu| DriverSpan::of(registry, gpu.capability?).from).collect()
    }
}
