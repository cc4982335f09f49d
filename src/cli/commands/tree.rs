//! `envlock tree`: the machine, then the requested packages with their dependencies.

use std::collections::BTreeSet;

use crate::cli::args::TreeArgs;
use crate::cli::printer::{DIM, Printer, wrap};
use crate::cli::report;
use crate::lockfile::{self, Target};
use crate::model::text::clean;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::{lock, owner};

pub(super) fn run(global: &Global, args: &TreeArgs, printer: &Printer) -> Result<u8, Failure> {
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    let lock = owner::with_packages(&project, lock, &registry)?;
    let target = lock::target(&lock, args.target.as_deref())?;
    let request = settings::request_of_lock(&project, &lock, &registry)?;
    let mut roots: Vec<&str> =
        target.packages.iter().map(|p| p.name.as_str()).filter(|name| request.find(name).is_some()).collect();
    let unneeded = lockfile::unneeded(target, roots.iter().copied());
    // The framework comes first, because the machine constrains it.
    roots.sort_by_key(|name| (*name != "torch", *name));
    if printer.json {
        let packages: Vec<_> = target
            .packages
            .iter()
            .map(|p| {
                serde_json::json!({
                    "name": p.name,
                    "version": p.version,
                    "requires": p.requires.iter().map(|e| serde_json::json!({"name": e.to, "requirement": e.requirement})).collect::<Vec<_>>(),
                })
            })
            .collect();
        let unneeded: Vec<&str> = unneeded.iter().map(|p| p.name.as_str()).collect();
        printer.json(&serde_json::json!({
            "target": target.name, "asked": roots, "unneeded": unneeded, "packages": packages,
        }));
        return Ok(exit::YES);
    }
    printer.out(&format!("host     {}", wrap(&report::host_line(&target.host, &registry), 9)));
    printer.out(&format!("runs on  {}", wrap(&report::runs_on(&target.envelope), 9)));
    let mut tree =
        Tree { target, printer, seen: BTreeSet::new(), depth: args.depth.unwrap_or(usize::MAX), cut: false };
    for (i, root) in roots.iter().enumerate() {
        tree.node(root, "", i + 1 == roots.len(), 0);
    }
    if !unneeded.is_empty() {
        printer.out("needed by no request");
    }
    for (i, package) in unneeded.iter().enumerate() {
        tree.node(&package.name, "", i + 1 == unneeded.len(), 0);
    }
    if tree.cut {
        printer.out(&printer.paint(DIM, "(*) shown above"));
    }
    Ok(exit::YES)
}

struct Tree<'t> {
    target: &'t Target,
    printer: &'t Printer,
    /// Packages that were shown with their dependencies.
    seen: BTreeSet<&'t str>,
    depth: usize,
    /// Whether the dependencies of a repeated package were left out.
    cut: bool,
}

impl<'t> Tree<'t> {
    fn node(&mut self, name: &str, indent: &str, last: bool, depth: usize) {
        let Some(package) = self.target.package(name) else { return };
        let mut below: Vec<&'t str> = package
            .requires
            .iter()
            .filter(|e| self.target.package(&e.to).is_some() && e.to != package.name)
            .map(|e| e.to.as_str())
            .collect();
        below.sort_unstable();
        below.dedup();
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
