//! What rows of several tables must say together.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::Linter;
use crate::model::capability::ComputeCapability;
use crate::registry::rows::*;
use crate::registry::table::Placed;
use crate::registry::tables::PlacedTables;

impl Linter<'_> {
    pub(super) fn together(&mut self, tables: &PlacedTables) {
        if self.is_sound(&["drivers"]) {
            self.drivers(tables);
        }
        if self.is_sound(&["drivers", "gpus"]) {
            self.gpus(tables);
        }
        self.builds(tables);
        if self.is_sound(&["torch"]) {
            self.companions(tables);
        }
        if self.is_sound(&["errors"]) {
            self.errors(tables);
            self.codes_as_rules(tables);
        }
    }

    /// Branches that rows refer to exist, and a capability has one architecture.
    fn drivers(&mut self, tables: &PlacedTables) {
        let known: BTreeSet<u32> = tables.branches.iter().map(|placed| placed.row.branch).collect();
        let of_forward = tables
            .forward
            .iter()
            .flat_map(|Placed { row, path, line }| row.bases.iter().map(move |branch| (path, line, *branch)));
        let of_architectures = tables.architectures.iter().flat_map(|Placed { row, path, line }| {
            let bounds = [row.first_branch, row.last_branch].into_iter().flatten();
            bounds.map(move |branch| (path, line, branch))
        });
        for (path, line, branch) in of_forward.chain(of_architectures) {
            if !known.contains(&branch) {
                self.problem(path, *line, format!("driver branch {branch} has no row in drivers.toml"));
            }
        }
        let mut seen = BTreeSet::new();
        for Placed { row, path, line } in &tables.architectures {
            for capability in row.capabilities.iter().filter(|capability| !seen.insert(**capability)) {
                self.problem(path, *line, format!("{capability} belongs to two architectures"));
            }
        }
    }

    fn gpus(&mut self, tables: &PlacedTables) {
        let architectures = tables.architectures.iter().flat_map(|placed| placed.row.capabilities.iter());
        let tegra = tables.tegra.iter().flat_map(|placed| placed.row.capabilities.iter());
        let known: BTreeSet<&ComputeCapability> = architectures.chain(tegra).collect();
        match tables.tegra.first() {
            Some(Placed { row, path, line }) => self.cite(path, *line, &row.note_source),
            None => self.problem("gpus.toml", 1, "the table `tegra` is missing"),
        }
        let mut by_pci: BTreeMap<&str, (ComputeCapability, usize)> = BTreeMap::new();
        for Placed { row, path, line } in &tables.node_labels {
            if !tables.gpus.iter().any(|gpu| gpu.row.name == row.gpu) {
                self.problem(path, *line, format!("`gpu`: no row has the name `{}`", row.gpu));
            }
        }
        for Placed { row, path, line } in &tables.gpus {
            if !known.contains(&row.capability) {
                let text = format!("no architecture in drivers.toml has the capability {}", row.capability);
                self.problem(path, *line, text);
            }
            for pci in &row.pci {
                let other = by_pci.insert(pci, (row.capability, *line));
                if let Some((_, other)) = other.filter(|(capability, _)| *capability != row.capability) {
                    let text = format!("the PCI id {pci} has another compute capability in line {other}");
                    self.problem(path, *line, text);
                }
            }
        }
    }

    /// A build is in the file of its series, and its CUDA, cuDNN and code fit together.
    fn builds(&mut self, tables: &PlacedTables) {
        if tables.builds.is_empty() {
            self.untidy("torch", 1, "there are no torch builds");
        }
        for Placed { row, path, line } in &tables.builds {
            let series = path.trim_start_matches("torch/").trim_end_matches(".toml");
            if !row.version.to_string().starts_with(&format!("{series}.")) {
                let own: Vec<String> =
                    row.version.release().iter().take(2).map(ToString::to_string).collect();
                let text = format!("torch {} belongs in torch/{}.toml", row.version, own.join("."));
                self.in_row(path, *line, "version", text);
            }
            if !row.targets_source.is_empty() {
                self.cite(path, *line, &row.targets_source);
            }
            if self.is_sound(&["cudnn"])
                && let Some(text) = cudnn_of(row, tables)
            {
                self.in_row(path, *line, "cudnn", text);
            }
            if self.is_sound(&["cuda"]) {
                for (key, text) in code_of(row, tables) {
                    self.in_row(path, *line, key, text);
                }
            }
        }
    }

    fn companions(&mut self, tables: &PlacedTables) {
        let torch: BTreeSet<&Version> = tables.builds.iter().map(|placed| &placed.row.version).collect();
        for Placed { row, path, line } in &tables.companions {
            if let Some(specifier) = &row.torch
                && !torch.is_empty()
                && !torch.iter().any(|version| specifier.contains(version))
            {
                self.in_row(path, *line, "torch", format!("no torch row satisfies `{specifier}`"));
            }
        }
    }

    /// Rules that other rules name exist.
    fn errors(&mut self, tables: &PlacedTables) {
        let of_codes = tables.codes.iter().flat_map(|placed| &placed.row.rules);
        let ids: BTreeSet<&str> = tables
            .errors
            .iter()
            .map(|placed| &*placed.row)
            .chain(of_codes)
            .map(|rule| rule.id.as_str())
            .collect();
        for Placed { row, path, line } in &tables.errors {
            for id in row.hides.iter().filter(|id| !ids.contains(id.as_str())) {
                self.problem(path, *line, format!("`hides`: unknown rule `{id}`"));
            }
            for condition in row.cases.iter().flat_map(|case| &case.conditions) {
                if let Predicate::Seen(id) = &condition.predicate
                    && !ids.contains(id.as_str())
                {
                    self.problem(path, *line, format!("`seen:{id}`: unknown rule"));
                }
            }
        }
    }

    /// A code is no rule of its own besides.
    fn codes_as_rules(&mut self, tables: &PlacedTables) {
        let mut seen: BTreeSet<&str> = tables.errors.iter().map(|placed| placed.row.id.as_str()).collect();
        for Placed { row, path, line } in &tables.codes {
            for rule in row.rules.iter().filter(|rule| !seen.insert(&rule.id)) {
                self.problem(path, *line, format!("duplicate id `{}`", rule.id));
            }
        }
    }
}

/// What is wrong with the cuDNN of a build.
fn cudnn_of(row: &Build, tables: &PlacedTables) -> Option<String> {
    let version = row.cudnn.as_ref()?;
    let Some(release) = tables.cudnn_releases.iter().find(|placed| &placed.row.version == version) else {
        return Some(format!("cuDNN {version} has no row in cudnn.toml"));
    };
    let (majors, own) = (&release.row.cuda_majors, row.cuda.as_ref()?.major);
    (!majors.is_empty() && !majors.contains(&own))
        .then(|| format!("cuDNN {version} is not built for CUDA {own}"))
}

/// What is wrong with the CUDA of a build and the code that its compiler made.
fn code_of(row: &Build, tables: &PlacedTables) -> Vec<(&'static str, String)> {
    let Some(cuda) = &row.cuda else { return Vec::new() };
    let same = |v: &semver::Version| (v.major, v.minor) == (cuda.major, cuda.minor);
    let mut problems = Vec::new();
    if !tables.toolkits.iter().any(|placed| same(&placed.row.version)) {
        problems
            .push(("cuda", format!("CUDA {}.{} has no `[[toolkit]]` in cuda.toml", cuda.major, cuda.minor)));
    }
    let Some(toolkit) = tables.toolkit_targets.iter().find(|placed| same(&placed.row.cuda)) else {
        return problems;
    };
    for target in row.targets.iter().flat_map(|t| t.sass.iter().chain(&t.ptx)) {
        let makeable = match &toolkit.row.targets {
            Some(list) => list.iter().any(|t| t.capability == target.capability),
            None => (toolkit.row.min..=toolkit.row.max).contains(&target.capability),
        };
        if !makeable {
            problems
                .push(("targets", format!("CUDA {}.{} cannot compile for {target}", cuda.major, cuda.minor)));
        }
    }
    problems
}
