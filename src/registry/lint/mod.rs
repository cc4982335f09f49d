//! Checks the registry's data and reports all problems with file and line.

mod loading;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::rows::*;
use super::schema::SourcesFile;
use super::{Registry, RegistryFile};
use crate::model::capability::ComputeCapability;
use crate::model::requirement::parse_requirement;
use crate::model::text::clean;
use crate::model::version::DottedVersion;

/// One problem in the registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, inside the registry.
    pub path: String,
    /// The line of the row, from 1.
    pub line: usize,
    /// The description.
    pub text: String,
    /// Whether it affects only readability: rows are sorted when loaded, so a row that is out of order has no
    /// other effect.
    pub harmless: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// All problems of a registry, sorted by file and line; empty if it is valid.
pub fn check(registry: &Registry) -> Vec<Problem> {
    let mut linter = Linter::default();
    linter.sources(registry);
    if let Some(file) = linter.require(registry, "registry.toml") {
        linter.parse::<Meta>(file);
    }
    let cuda = linter.cuda(registry);
    let branches = linter.drivers(registry);
    let cudnn = linter.cudnn(registry);
    let versions = linter.builds(registry, &cuda, &cudnn);
    linter.companions(registry, &versions);
    let capabilities = linter.architectures_against_branches(registry, &branches);
    linter.gpus(registry, &capabilities);
    linter.rest(registry);
    linter.unknown_files(registry);
    linter.unknown_tables(registry);
    linter.unknown_sources();
    linter.problems.sort();
    linter.problems
}

#[derive(Default)]
struct Linter {
    problems: Vec<Problem>,
    /// `None` if sources.toml cannot be parsed: then citations are not checked.
    known_sources: Option<BTreeSet<String>>,
    /// The rows that cite each unknown source.
    unknown_sources: BTreeMap<String, Vec<(String, usize)>>,
    cited: BTreeSet<String>,
    /// Tables that a check has read, by file.
    tables_read: BTreeSet<(String, String)>,
    files_seen: BTreeSet<String>,
}

/// A row with its position.
struct Placed<T> {
    row: T,
    path: String,
    line: usize,
}

impl Linter {
    fn problem(&mut self, path: &str, line: usize, text: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), line, text: text.into(), harmless: false });
    }

    /// A problem that makes no answer wrong.
    fn untidy(&mut self, path: &str, line: usize, text: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), line, text: text.into(), harmless: true });
    }

    fn parse<F: DeserializeOwned>(&mut self, file: &RegistryFile) -> Option<F> {
        self.files_seen.insert(file.path.to_string());
        match toml::from_str(&file.text) {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                let offset = error.span().map_or(0, |s| s.start);
                self.problem(&file.path, line_of(&file.text, offset), error.message());
                None
            }
        }
    }

    fn require<'a>(&mut self, registry: &'a Registry, path: &str) -> Option<&'a RegistryFile> {
        let file = registry.files().iter().find(|f| f.path == path);
        if file.is_none() {
            self.problem(path, 1, "the file is missing");
        }
        file
    }

    fn sources(&mut self, registry: &Registry) {
        if let Some(file) = self.require(registry, "sources.toml")
            && let Some(parsed) = self.parse::<SourcesFile>(file)
        {
            self.known_sources = Some(parsed.sources.into_keys().collect());
        }
    }

    /// The valid rows of a table; a row that is not valid is reported where its mistake is.
    fn rows<T: Row>(&mut self, file: &RegistryFile, table: &str) -> Vec<Placed<T>> {
        self.tables_read.insert((file.path.to_string(), table.to_owned()));
        let Some(parsed) = self.document(file) else { return Vec::new() };
        let Some(DeValue::Array(rows)) = parsed.get(table).map(Spanned::get_ref) else { return Vec::new() };
        let mut out = Vec::new();
        for row in rows.iter() {
            let start = row.span().start;
            match T::deserialize(ValueDeserializer::from(row.clone())) {
                Ok(row) => {
                    let line = line_of(&file.text, start);
                    self.cite(&file.path, line, row.source());
                    out.push(Placed { row, path: file.path.to_string(), line });
                }
                Err(error) => {
                    let place = error.span().map_or(start, |span| span.start);
                    let line = line_of(&file.text, place);
                    let text = file.text.lines().nth(line - 1).unwrap_or_default();
                    let message = match text.split_once(" = ") {
                        Some((key, value)) => format!("`{key} = {}`: {}", clean(value, 60), error.message()),
                        None => error.message().to_owned(),
                    };
                    self.problem(&file.path, line, message);
                }
            }
        }
        out
    }

    /// A file as TOML; one that is not TOML is reported once.
    fn document<'f>(&mut self, file: &'f RegistryFile) -> Option<DeTable<'f>> {
        let is_first = self.files_seen.insert(file.path.to_string());
        match DeTable::parse(&file.text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                if is_first {
                    let offset = error.span().map_or(0, |s| s.start);
                    self.problem(&file.path, line_of(&file.text, offset), error.message());
                }
                None
            }
        }
    }

    /// Reports tables that no check has read: a misspelled name would drop its rows.
    fn unknown_tables(&mut self, registry: &Registry) {
        for file in registry.files() {
            if ["registry.toml", "sources.toml"].contains(&file.path.as_ref()) {
                continue;
            }
            let Ok(table) = DeTable::parse(&file.text) else { continue };
            for name in table.get_ref().keys() {
                let key = (file.path.to_string(), name.get_ref().to_string());
                if !self.tables_read.contains(&key) {
                    let line = line_of(&file.text, name.span().start);
                    self.problem(&file.path, line, format!("unknown table `{}`", name.get_ref()));
                }
            }
        }
    }

    fn cite(&mut self, path: &str, line: usize, ids: &[String]) {
        if ids.is_empty() {
            self.problem(path, line, "the row names no source");
        }
        for id in ids {
            if self.known_sources.as_ref().is_some_and(|known| !known.contains(id)) {
                self.unknown_sources.entry(id.clone()).or_default().push((path.to_owned(), line));
            }
            self.cited.insert(id.clone());
        }
    }

    /// Reports cited sources that are not in sources.toml, each once, at the first row that cites it.
    fn unknown_sources(&mut self) {
        for (id, mut places) in std::mem::take(&mut self.unknown_sources) {
            places.sort();
            let more = match places.len() {
                1 => String::new(),
                n => format!(" ({} more rows cite it)", n - 1),
            };
            let (path, line) = &places[0];
            self.problem(path, *line, format!("the source `{id}` is not in sources.toml{more}"));
        }
    }

    /// Checks that the rows of a file are unique and in order.
    fn ordered<T, K: Ord>(&mut self, rows: &[Placed<T>], key: impl Fn(&T) -> K) {
        let mut seen = BTreeSet::new();
        let mut highest: Option<K> = None;
        for row in rows {
            let key_of_row = key(&row.row);
            if highest.as_ref().is_some_and(|highest| key_of_row < *highest) {
                self.untidy(&row.path, row.line, "the row is out of order");
            } else {
                highest = Some(key(&row.row));
            }
            if !seen.insert(key_of_row) {
                self.problem(&row.path, row.line, "duplicate row");
            }
        }
    }

    fn cuda(&mut self, registry: &Registry) -> CudaRows {
        let mut rows = CudaRows {
            compatibility: Vec::new(),
            runtime_packages: Vec::new(),
            last_builds: Vec::new(),
            toolkits: Vec::new(),
            targets: Vec::new(),
        };
        if let Some(file) = self.require(registry, "cuda.toml") {
            let compatibility = self.rows(file, "minor_version_compatibility");
            self.ordered(&compatibility, |r: &MinorVersionCompatibility| r.cuda_major);
            let toolkits = self.rows(file, "toolkit");
            self.ordered(&toolkits, |r: &ToolkitDriver| r.version.clone());
            let last_builds: Vec<Placed<LastBuild>> = self.rows(file, "last_build");
            self.ordered(&last_builds, |r| r.capability_below);
            let runtimes: Vec<Placed<RuntimePackage>> = self.rows(file, "runtime_package");
            self.ordered(&runtimes, |r| r.package.clone());
            let targets = self.rows(file, "targets");
            self.ordered(&targets, |r: &ToolkitTargets| r.cuda.clone());
            rows.compatibility.extend(compatibility.into_iter().map(|p| p.row));
            rows.toolkits.extend(toolkits.into_iter().map(|p| p.row));
            rows.targets.extend(targets.into_iter().map(|p| p.row));
        }
        rows
    }

    fn drivers(&mut self, registry: &Registry) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        if let Some(file) = self.require(registry, "drivers.toml") {
            let branches = self.rows(file, "branch");
            self.ordered(&branches, |r: &Branch| r.branch);
            numbers.extend(branches.iter().map(|b| b.row.branch));
            let forward = self.rows(file, "forward_compatibility");
            self.ordered(&forward, |r: &ForwardCompatibility| r.cuda.clone());
            for Placed { row, path, line } in forward {
                for base in row.bases.iter().filter(|base| !numbers.contains(base)) {
                    self.problem(&path, line, format!("driver branch {base} has no row"));
                }
            }
        }
        numbers
    }

    /// Checks that the branches of architectures exist. Returns the capabilities that belong to an architecture.
    fn architectures_against_branches(
        &mut self,
        registry: &Registry,
        branches: &BTreeSet<u32>,
    ) -> BTreeSet<ComputeCapability> {
        let mut seen = BTreeSet::new();
        let Some(file) = registry.files().iter().find(|f| f.path == "drivers.toml") else {
            return seen;
        };
        let rows = self.rows(file, "architecture");
        for Placed { row, path, line } in rows {
            let row: Architecture = row;
            if row.first_branch.is_some() != row.first_branch_evidence.is_some() {
                let text = "`first_branch` and `first_branch_evidence` must be set together";
                self.problem(&path, line, text);
            }
            for bound in [row.first_branch, row.last_branch].into_iter().flatten() {
                if !branches.contains(&bound) {
                    self.problem(&path, line, format!("driver branch {bound} has no row"));
                }
            }
            for capability in row.capabilities {
                if !seen.insert(capability) {
                    self.problem(&path, line, format!("{capability} belongs to two architectures"));
                }
            }
        }
        seen
    }

    fn cudnn(&mut self, registry: &Registry) -> Vec<CudnnRelease> {
        let Some(file) = self.require(registry, "cudnn.toml") else {
            return Vec::new();
        };
        let floors = self.rows(file, "floor");
        self.ordered(&floors, |r: &CudnnFloor| r.from.clone());
        let releases = self.rows(file, "release");
        self.ordered(&releases, |r: &CudnnRelease| r.version.clone());
        releases.into_iter().map(|p| p.row).collect()
    }

    fn builds(
        &mut self,
        registry: &Registry,
        cuda: &CudaRows,
        cudnn: &[CudnnRelease],
    ) -> BTreeSet<pep440_rs::Version> {
        let mut versions = BTreeSet::new();
        let cudnn: BTreeMap<&DottedVersion, &CudnnRelease> = cudnn.iter().map(|r| (&r.version, r)).collect();
        let files: Vec<RegistryFile> = registry.texts("torch/").cloned().collect();
        if files.is_empty() {
            self.untidy("torch", 1, "there are no torch builds");
        }
        for file in &files {
            let series = file.path.trim_start_matches("torch/").trim_end_matches(".toml");
            let rows: Vec<Placed<Build>> = self.rows(file, "build");
            self.ordered(&rows, |b| (b.version.clone(), b.platform.to_string(), b.cuda.clone()));
            for Placed { row, path, line } in rows {
                if !row.version.to_string().starts_with(&format!("{series}.")) {
                    self.problem(&path, line, format!("torch {} does not belong in this file", row.version));
                }
                self.build(&row, cuda, &cudnn, &path, line);
                versions.insert(row.version);
            }
        }
        versions
    }

    fn build(
        &mut self,
        row: &Build,
        cuda: &CudaRows,
        cudnn: &BTreeMap<&DottedVersion, &CudnnRelease>,
        path: &str,
        line: usize,
    ) {
        if row.targets.is_some() != row.targets_evidence.is_some() {
            self.problem(path, line, "`targets` and `targets_evidence` must be set together");
        }
        if !row.targets_source.is_empty() {
            self.cite(path, line, &row.targets_source);
        }
        if let Some(version) = &row.cudnn {
            match cudnn.get(version) {
                None => self.problem(path, line, format!("cuDNN {version} has no row")),
                Some(release) => {
                    if let Some(cuda) = &row.cuda
                        && !release.cuda_majors.is_empty()
                        && !release.cuda_majors.contains(&cuda.major)
                    {
                        self.problem(
                            path,
                            line,
                            format!("cuDNN {version} is not built for CUDA {}", cuda.major),
                        );
                    }
                }
            }
        }
        let Some(version) = &row.cuda else {
            return;
        };
        let same = |v: &semver::Version| (v.major, v.minor) == (version.major, version.minor);
        if !cuda.toolkits.iter().any(|t| same(&t.version)) {
            self.problem(path, line, format!("CUDA {version} has no toolkit row"));
        }
        let Some(toolkit) = cuda.targets.iter().find(|t| same(&t.cuda)) else {
            return;
        };
        for target in row.targets.iter().flat_map(|t| t.sass.iter().chain(&t.ptx)) {
            let makeable = match &toolkit.targets {
                Some(list) => list.iter().any(|t| t.capability == target.capability),
                None => (toolkit.min..=toolkit.max).contains(&target.capability),
            };
            if !makeable {
                self.problem(
                    path,
                    line,
                    format!("CUDA {}.{} cannot compile for {target}", version.major, version.minor),
                );
            }
        }
    }

    fn companions(&mut self, registry: &Registry, torch: &BTreeSet<pep440_rs::Version>) {
        let Some(file) = self.require(registry, "companions.toml") else {
            return;
        };
        let rows: Vec<Placed<Companion>> = self.rows(file, "companion");
        let mut seen = BTreeSet::new();
        for Placed { row, path, line } in rows {
            if !seen.insert((row.package.clone(), row.version.clone())) {
                self.problem(&path, line, "duplicate row");
            }
            if let Some(specifier) = &row.torch
                && !torch.is_empty()
                && !torch.iter().any(|v| specifier.contains(v))
            {
                self.problem(&path, line, format!("no torch row satisfies `{specifier}`"));
            }
        }
    }

    fn gpus(&mut self, registry: &Registry, architectures: &BTreeSet<ComputeCapability>) {
        let Some(file) = self.require(registry, "gpus.toml") else {
            return;
        };
        let mut known = architectures.clone();
        self.tables_read.insert(("gpus.toml".to_owned(), "tegra".to_owned()));
        let tegra = self.document(file).and_then(|mut table| table.remove("tegra"));
        match tegra.map(|table| Tegra::deserialize(ValueDeserializer::from(table))) {
            Some(Ok(tegra)) => {
                self.cite("gpus.toml", 1, &tegra.source);
                self.cite("gpus.toml", 1, &tegra.note_source);
                known.extend(tegra.capabilities);
            }
            Some(Err(error)) => {
                let line = line_of(&file.text, error.span().map_or(0, |span| span.start));
                self.problem("gpus.toml", line, error.message());
            }
            None => self.problem("gpus.toml", 1, "the table `tegra` is missing"),
        }
        self.tables_read.insert(("gpus.toml".to_owned(), "names".to_owned()));
        let names = self.document(file).and_then(|mut table| table.remove("names"));
        match names.map(|table| GpuNames::deserialize(ValueDeserializer::from(table))) {
            Some(Ok(names)) => self.cite("gpus.toml", 1, &names.source),
            Some(Err(error)) => {
                let line = line_of(&file.text, error.span().map_or(0, |span| span.start));
                self.problem("gpus.toml", line, error.message());
            }
            None => {}
        }
        let rows: Vec<Placed<GpuRow>> = self.rows(file, "gpu");
        let mut seen = BTreeSet::new();
        let mut by_pci: BTreeMap<String, ComputeCapability> = BTreeMap::new();
        for Placed { row, path, line } in rows {
            if !known.contains(&row.capability) {
                let text = format!("no architecture in drivers.toml has the capability {}", row.capability);
                self.problem(&path, line, text);
            }
            if !seen.insert((row.name.clone(), row.capability)) {
                self.problem(&path, line, "duplicate row");
            }
            for pci in &row.pci {
                if pci.len() != 4 || !pci.bytes().all(|b| b.is_ascii_hexdigit()) {
                    self.problem(&path, line, format!("`{pci}` is not a valid PCI device id"));
                }
                if by_pci.insert(pci.clone(), row.capability).is_some_and(|c| c != row.capability) {
                    self.problem(&path, line, format!("the PCI id {pci} has two compute capabilities"));
                }
            }
        }
    }

    fn rest(&mut self, registry: &Registry) {
        if let Some(file) = self.require(registry, "python.toml") {
            let rows: Vec<Placed<PythonRow>> = self.rows(file, "python");
            self.ordered(&rows, |row| row.version);
        }
        if let Some(file) = self.require(registry, "errors.toml") {
            let mut rows: Vec<Placed<ErrorRule>> = self.rows(file, "error");
            for file in registry.texts("errors/").cloned().collect::<Vec<_>>() {
                rows.extend(self.rows::<ErrorRule>(&file, "error"));
                for Placed { row, path, line } in self.rows::<CodeFamily>(&file, "codes") {
                    rows.extend(row.rules.into_iter().map(|row| Placed { row, path: path.clone(), line }));
                }
            }
            let ids: BTreeSet<String> = rows.iter().map(|placed| placed.row.id.clone()).collect();
            let mut seen = BTreeSet::new();
            for Placed { row, path, line } in rows {
                if !seen.insert(row.id.clone()) {
                    self.problem(&path, line, format!("duplicate id `{}`", row.id));
                }
                if !row.is_notice && !row.hides.is_empty() {
                    self.problem(&path, line, "`hides` without `notice`".to_owned());
                }
                for id in row.hides.iter().filter(|id| !ids.contains(*id)) {
                    self.problem(&path, line, format!("`hides`: unknown rule `{id}`"));
                }
                for condition in row.cases.iter().flat_map(|case| &case.conditions) {
                    if let Predicate::Seen(id) = &condition.predicate
                        && !ids.contains(id)
                    {
                        self.problem(&path, line, format!("`seen:{id}`: unknown rule"));
                    }
                }
            }
            let words: Vec<Placed<SurroundingWords>> = self.rows(file, "surroundings");
            self.ordered(&words, |r| (r.surrounding, Reverse(r.words.len())));
        }
        if let Some(file) = registry.files().iter().find(|file| file.path == "conda.toml") {
            let builds: Vec<Placed<CondaBuild>> = self.rows(file, "build");
            self.ordered(&builds, |r| {
                let numbers: Vec<u64> = r.version.split('.').filter_map(|part| part.parse().ok()).collect();
                (r.package.clone(), numbers, r.platform.to_string(), r.cuda.clone(), r.builds.clone())
            });
            let abis: Vec<Placed<CondaCxx11Abi>> = self.rows(file, "cxx11_abi");
            self.ordered(&abis, |r| (r.package.clone(), r.versions.to_string()));
        }
        // A registry of an older program has no such file.
        if let Some(file) = registry.files().iter().find(|file| file.path == "packages.toml") {
            let sources: Vec<Placed<SourcePackage>> = self.rows(file, "source_package");
            self.ordered(&sources, |r| (r.package.clone(), r.versions.to_string()));
            let modules: Vec<Placed<BuildModule>> = self.rows(file, "build_module");
            self.ordered(&modules, |r| r.module.clone());
            let backports: Vec<Placed<Backport>> = self.rows(file, "backport");
            self.ordered(&backports, |r| r.package.clone());
            let removed: Vec<Placed<Removed>> = self.rows(file, "removed");
            self.ordered(&removed, |r| r.name.clone());
            let limits: Vec<Placed<PythonLimit>> = self.rows(file, "python_limit");
            self.ordered(&limits, |r| (r.package.clone(), r.versions.to_string()));
            let undeclared: Vec<Placed<Undeclared>> = self.rows(file, "undeclared");
            self.ordered(&undeclared, |r| (r.package.clone(), r.requires.clone()));
            for Placed { row, path, line } in undeclared {
                let example = row.requires.replace("{version}", "1.0");
                if parse_requirement(&example).is_err() {
                    self.problem(&path, line, format!("`{}` is not a requirement", row.requires));
                }
            }
            let conda: Vec<Placed<CondaName>> = self.rows(file, "conda");
            self.ordered(&conda, |r| r.name.clone());
            let prebuilt: Vec<Placed<Prebuilt>> = self.rows(file, "prebuilt");
            self.ordered(&prebuilt, |r| (r.package.clone(), r.versions.to_string()));
            for Placed { row, path, line } in prebuilt {
                let places = ["{version}", "{cuda}", "{torch}", "{abi}", "{python}", "{machine}"];
                let bare = places.iter().fold(row.url.clone(), |url, place| url.replace(place, ""));
                if bare.contains(['{', '}']) || !row.url.starts_with("http") {
                    self.problem(&path, line, format!("`{}` is not a URL with known places", row.url));
                }
            }
            let _: Vec<Placed<Cxx11Abi>> = self.rows(file, "cxx11_abi");
        }
        if let Some(file) = self.require(registry, "loading.toml") {
            self.loading(file);
        }
        let files: Vec<RegistryFile> = registry.texts("frameworks/").cloned().collect();
        for file in &files {
            let rows: Vec<Placed<FrameworkBuild>> = self.rows(file, "build");
            self.ordered(&rows, |r| {
                (
                    r.package.clone(),
                    r.cuda.clone(),
                    r.cudnn.clone(),
                    r.versions.to_string(),
                    r.platform.to_string(),
                )
            });
        }
        let containers: Vec<RegistryFile> = registry.texts("containers.toml").cloned().collect();
        for file in &containers {
            let rows: Vec<Placed<Image>> = self.rows(file, "image");
            self.ordered(&rows, |r| (r.repository.clone(), r.tag.clone()));
            let never: Vec<Placed<NonexistentImage>> = self.rows(file, "never");
            self.ordered(&never, |r| (r.repository.clone(), r.tag.clone()));
        }
        let mut ids = BTreeSet::new();
        let files: Vec<RegistryFile> = registry.texts("advisories/").cloned().collect();
        for file in &files {
            let rows: Vec<Placed<Advisory>> = self.rows(file, "advisory");
            for Placed { row, path, line } in rows {
                if !ids.insert(row.id.clone()) {
                    self.problem(&path, line, format!("duplicate id `{}`", row.id));
                }
            }
            let breaks: Vec<Placed<AbiBreak>> = self.rows(file, "abi_break");
            self.ordered(&breaks, |r| (r.package.clone(), r.built_before));
        }
    }

    fn unknown_files(&mut self, registry: &Registry) {
        for file in registry.files() {
            if !self.files_seen.contains(file.path.as_ref()) {
                self.problem(&file.path, 1, "unknown registry file");
            }
        }
        let known = self.known_sources.clone().unwrap_or_default();
        let unused: Vec<String> = known.difference(&self.cited).cloned().collect();
        for id in unused {
            self.untidy("sources.toml", 1, format!("no row cites `{id}`"));
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
