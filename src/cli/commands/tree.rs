//! `envlock tree`: the machine, then the requested packages with their dependencies; or packages with what requires them.

use std::collections::BTreeSet;

use crate::cli::args::TreeArgs;
use crate::cli::printer::{DIM, Printer, wrap};
use crate::cli::report;
use crate::lockfile::{self, Target};
use crate::model::solution::{ChosenPackage, Edge};
use crate::model::text::{clean, normalized_name};
use crate::registry::Registry;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::project_lock;
use crate::session::settings::{self};

pub(super) fn run(global: &Global, args: &TreeArgs, printer: &Printer) -> Result<u8, Failure> {
    let (project, registry, lock) = project_lock::of_project(global)?;
    let target = project_lock::target(&lock, args.target.as_deref())?;
    let request = settings::request_of_lock(&project, &lock, &registry)?;
    let locked = || target.packages.iter().map(|package| package.name.as_str());
    let mut requested: Vec<&str> = locked().filter(|name| request.find(name).is_some()).collect();
    let unneeded = lockfile::unneeded(target, requested.iter().copied());
    // The framework comes first, because the machine constrains it.
    requested.sort_by_key(|name| (*name != "torch", *name));
    let roots = roots(target, args, &requested)?;
    if printer.json {
        let unneeded: Vec<&str> = unneeded.iter().map(|p| p.name.as_str()).collect();
        printer.json(&serde_json::json!({
            "target": target.name, "asked": requested, "unneeded": unneeded, "packages": packages(target),
        }));
        return Ok(exit::YES);
    }
    let mut tree = Tree {
        target,
        printer,
        is_inverted: args.invert,
        seen: BTreeSet::new(),
        depth: args.depth.unwrap_or(usize::MAX),
        cut: false,
    };
    let is_whole = args.packages.is_empty() && !args.invert;
    if is_whole {
        tell_machine(target, &registry, printer);
    }
    tree.nodes(&roots);
    if is_whole && !unneeded.is_empty() {
        printer.out("needed by no request");
        tree.nodes(&unneeded.iter().map(|package| package.name.as_str()).collect::<Vec<_>>());
    }
    if tree.cut {
        printer.out(&printer.paint(DIM, "(*) shown above"));
    }
    Ok(exit::YES)
}

/// The packages that the tree begins with: those that were named, else the requested ones, and upside down those that
/// require nothing.
fn roots<'t>(target: &'t Target, args: &TreeArgs, requested: &[&'t str]) -> Result<Vec<&'t str>, Failure> {
    let named = |name: &String| {
        let package = target.package(&normalized_name(name));
        package.map(|own| own.name.as_str()).ok_or_else(|| project_lock::has_no_package(name, target.level))
    };
    match (args.packages.is_empty(), args.invert) {
        (false, _) => args.packages.iter().map(named).collect(),
        (true, false) => Ok(requested.to_vec()),
        (true, true) => {
            let names = target.packages.iter().map(|package| package.name.as_str());
            Ok(names.filter(|name| required_by(target, name).is_empty()).collect())
        }
    }
}

fn tell_machine(target: &Target, registry: &Registry, printer: &Printer) {
    printer.out(&format!("host     {}", wrap(&report::host_line(&target.host, registry), 9)));
    printer.out(&format!("runs on  {}", wrap(&report::runs_on(&target.envelope), 9)));
}

/// The packages with what they require, for `--json`.
fn packages(target: &Target) -> Vec<serde_json::Value> {
    let requires = |package: &ChosenPackage| {
        let edge = |edge: &Edge| serde_json::json!({"name": edge.to, "requirement": edge.requirement});
        package.requires.iter().map(edge).collect::<Vec<_>>()
    };
    let row = |package: &ChosenPackage| {
        serde_json::json!({
            "name": package.name, "version": package.version, "requires": requires(package),
        })
    };
    target.packages.iter().map(row).collect()
}

/// The locked packages that a package requires, by name.
fn required_by<'t>(target: &'t Target, name: &str) -> Vec<&'t str> {
    let edges = target.package(name).into_iter().flat_map(|package| &package.requires);
    let locked = edges.filter(|edge| edge.to != name).filter_map(|edge| target.package(&edge.to));
    let names: BTreeSet<&str> = locked.map(|package| package.name.as_str()).collect();
    names.into_iter().collect()
}

struct Tree<'t> {
    target: &'t Target,
    printer: &'t Printer,
    /// Whether what requires a package stands below it.
    is_inverted: bool,
    /// Packages that were shown with what is below them.
    seen: BTreeSet<&'t str>,
    depth: usize,
    /// Whether what is below a repeated package was left out.
    cut: bool,
}

impl<'t> Tree<'t> {
    fn nodes(&mut self, roots: &[&str]) {
        for (i, root) in roots.iter().enumerate() {
            self.node(root, "", i + 1 == roots.len(), 0);
        }
    }

    fn below(&self, name: &str) -> Vec<&'t str> {
        match self.is_inverted {
            false => required_by(self.target, name),
            true => {
                let above = lockfile::needed_by(self.target, name);
                above.into_iter().map(|(from, _)| from).collect::<BTreeSet<_>>().into_iter().collect()
            }
        }
    }

    fn node(&mut self, name: &str, indent: &str, last: bool, depth: usize) {
        let Some(package) = self.target.package(name) else { return };
        let below = self.below(name);
        let again = !below.is_empty() && !self.seen.insert(&package.name);
        let (branch, stem) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let mark = if again { self.printer.paint(DIM, " (*)") } else { String::new() };
        self.printer.out(&format!(
            "{}{} {}{mark}",
            self.printer.paint(DIM, &format!("{indent}{branch}")),
            clean(&package.name, 80),
            clean(&package.version_with_variant(), 60)
        ));
        self.cut |= again;
        if again || depth >= self.depth {
            return;
        }
        let indent = format!("{indent}{stem}");
        for (i, child) in below.iter().enumerate() {
            self.node(child, &indent, i + 1 == below.len(), depth + 1);
        }
    }
}
