//! Extensions that were compiled before another package changed its C interface, as NumPy 2 did.

use super::closure::{Dependencies, Missing};
use super::node::Node;
use super::problem::{Candidate, Problem};
use crate::model::metadata::CoreMetadata;
use crate::model::project::FileName;
use crate::model::solution::{ChosenPackage, Note};
use crate::model::version::public;
use crate::registry::AbiBreak;

impl Problem<'_> {
    /// The packages that a release needs at a version with the C interface of its time; none where known failures are
    /// admitted.
    pub(super) fn of_its_interfaces(
        &self,
        candidate: &Candidate<'_>,
        metadata: &CoreMetadata,
    ) -> Result<Dependencies, Missing> {
        let mut out = Vec::new();
        if self.asked.admits.known_failures {
            return Ok(out);
        }
        for row in self.registry.abi_breaks().iter().filter(|row| self.is_older(candidate, metadata, row)) {
            self.memory.leave_out_known_failures();
            let new = self.matching(&row.package, Some(&row.versions))?;
            out.push((Node::package(&row.package), new.complement()));
        }
        Ok(out)
    }

    /// Whether a release has extensions for a package's C interface, all from the time before it changed.
    fn is_older(&self, candidate: &Candidate<'_>, metadata: &CoreMetadata, row: &AbiBreak) -> bool {
        let (page, release) = (candidate.page, candidate.release);
        let is_old = |file| page.uploaded(release, file).is_some_and(|at| at < row.built_before);
        let is_requirement = |line: &str| crate::model::text::requirement_name(line) == row.package;
        let (platform, libc) = (self.machine.platform, self.machine.libc.as_ref());
        metadata.lines().any(is_requirement)
            && self.pythons.series.iter().all(|python| {
                let file = page.best_usable(release, *python, platform, libc);
                // `none`: no extension of Python, whatever else the wheel has.
                file.is_some_and(|file| match &file.parsed {
                    FileName::Wheel(wheel) => wheel.abis.iter().all(|abi| abi != "none") && is_old(file),
                    FileName::Source(_) => false,
                })
            })
    }

    /// The packages whose extensions are older than the C interface of another package at a version.
    pub(super) fn older_than<'p>(
        &self,
        packages: &'p [ChosenPackage],
        row: &AbiBreak,
    ) -> Vec<&'p ChosenPackage> {
        let is_older = |package: &&ChosenPackage| {
            let Ok(candidates) = self.candidates(&package.name) else { return false };
            let candidate = candidates.iter().find(|c| c.release.version == package.version);
            candidate.is_some_and(|candidate| match self.metadata_of(candidate, &package.name) {
                Ok(Ok(metadata)) => self.is_older(candidate, metadata, row),
                _ => false,
            })
        };
        let others = packages.iter().filter(|package| !self.stack.contains_key(package.name.as_str()));
        others.filter(is_older).collect()
    }

    /// One note for each locked package whose C interface is newer than extensions that are locked beside it.
    pub(super) fn old_interfaces(&self, packages: &[ChosenPackage]) -> Vec<Note> {
        let of_row = |row: &AbiBreak| {
            let new = packages.iter().find(|p| p.name == row.package && row.versions.contains(&p.version))?;
            let older = self.older_than(packages, row);
            let first = older.first()?;
            let more = match older.len() - 1 {
                0 => String::new(),
                1 => " and 1 more package".to_owned(),
                n => format!(" and {n} more packages"),
            };
            let (were, they) = if older.len() == 1 { ("was", "it") } else { ("were", "they") };
            let text = format!(
                "{} {}{more} {were} compiled for the C interface of {} {}: {they} may not load beside {} {}",
                first.name,
                public(&first.version),
                row.package,
                before(row),
                new.name,
                public(&new.version)
            );
            Some(Note { text, source: Some(self.registry.source_text(&row.source)) })
        };
        self.registry.abi_breaks().iter().filter_map(of_row).collect()
    }
}

/// The releases before those of a row, as a range: `<2`.
pub(super) fn before(row: &AbiBreak) -> String {
    row.versions.to_string().replacen(">=", "<", 1)
}
