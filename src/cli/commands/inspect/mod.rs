//! `envlock inspect PATH...`: reads names, search paths, versions and GPU code of libraries and wheels, without
//! loading them.

mod view;

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::args::InspectArgs;
use crate::cli::printer::Printer;
use crate::inspect::{self, Detail, FileTree, Kind, Records, ThisMachine};
use crate::model::library::Library;
use crate::model::text::clean;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::fetch;
use crate::session::options::Global;
use crate::session::verify;

use crate::session::Interface as _;
use view::{Inspected, show};

/// Maximum number of libraries that are read from a folder.
const MAX_FILES: usize = 100_000;

pub(super) fn run(global: &Global, args: &InspectArgs, printer: &Printer) -> Result<u8, Failure> {
    let mut libraries = Vec::new();
    let mut failure = None;
    let rooted = args.root.as_deref().map(verify::rooted).transpose()?;
    let tree: &dyn FileTree = match &rooted {
        Some(tree) => tree,
        None => &ThisMachine,
    };
    for path in &args.paths {
        let text = path.to_string_lossy();
        let found = match text.starts_with("https://") || text.starts_with("http://") {
            true => remote(global, &text, printer),
            false if rooted.is_some() => local(tree, &Path::new("/").join(path), printer),
            false => local(tree, path, printer),
        };
        match found {
            Ok(found) => libraries.extend(found),
            Err(error) => failure = Some(error),
        }
    }
    // A partial JSON document would look complete.
    if printer.json
        && let Some(error) = failure
    {
        return Err(error);
    }
    let mut records = Records::default();
    let inspected = libraries.iter().map(|library| Inspected::new(tree, library, &mut records));
    let inspected: Vec<Inspected<'_>> = inspected.collect();
    if printer.json {
        printer.json(&json!({ "files": inspected }));
        return Ok(exit::YES);
    }
    for (i, inspected) in inspected.iter().enumerate() {
        if i > 0 {
            printer.out("");
        }
        show(printer, inspected);
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if libraries.is_empty() {
        printer.note("no shared library found");
    }
    Ok(exit::YES)
}

fn local(tree: &dyn FileTree, path: &Path, printer: &Printer) -> Result<Vec<Library>, Failure> {
    let unreadable = |path: &Path, why: String| {
        Failure::input(format!("cannot read `{}`: {why}", clean(&path.display().to_string(), 300)))
    };
    if tree.is_folder(path) {
        // Files in a folder that are not libraries are not errors.
        let mut found: Vec<PathBuf> = Vec::new();
        walk(tree, path, &mut found, 0);
        found.sort();
        let read = |file: &PathBuf| match inspect::library(tree, file, Detail::All) {
            Ok(library) => Some(library),
            Err(inspect::ElfError::NotElf) => None,
            Err(why) => {
                printer.warning(&format!("cannot read `{}`: {why}", clean(&file.display().to_string(), 300)));
                None
            }
        };
        return Ok(found.iter().filter_map(read).collect());
    }
    if path.extension().is_some_and(|e| e == "whl") {
        let file = tree.open(path).map_err(|e| unreadable(path, e.to_string()))?;
        return wheel(file.file, printer).map_err(|why| unreadable(path, why));
    }
    inspect::library(tree, path, Detail::All).map(|library| vec![library]).map_err(|e| {
        unreadable(path, e.to_string())
            .hint("`inspect` reads shared libraries, folders with libraries, and wheels")
    })
}

fn wheel(file: std::fs::File, printer: &Printer) -> Result<Vec<Library>, String> {
    let bar = printer.progress("unpacking, MiB");
    let opened = inspect::open_wheel(std::io::BufReader::new(file));
    let libraries = opened.and_then(|mut archive| {
        inspect::wheel(&mut archive, &|_| true, Detail::All, &mut |done, total| {
            bar.set_length(total >> 20);
            bar.set_position(done >> 20);
        })
    });
    bar.finish_and_clear();
    libraries.map_err(|e| e.to_string())
}

/// Downloads a wheel into a temporary file and reads it.
fn remote(global: &Global, url: &str, printer: &Printer) -> Result<Vec<Library>, Failure> {
    if !url.split(['?', '#']).next().is_some_and(|path| path.ends_with(".whl")) {
        return Err(Failure::usage(format!("`{}` is not the URL of a wheel", clean(url, 200)))
            .hint("the URL of a wheel ends in `.whl`"));
    }
    let client = fetch::client_of_addresses(global);
    let bar = printer.progress("downloading");
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let file = client.download(url);
    bar.finish_and_clear();
    let file = file.map_err(|e| Failure::network(e.to_string()))?;
    wheel(file, printer).map_err(|why| Failure::input(format!("cannot read `{}`: {why}", clean(url, 200))))
}

fn walk(tree: &dyn FileTree, folder: &Path, found: &mut Vec<PathBuf>, depth: usize) {
    for entry in tree.list(folder, usize::MAX).unwrap_or_default() {
        // Symlinks are not followed: they can form cycles, or lead to files that are read anyway.
        if entry.kind == Kind::Folder && depth < 64 {
            walk(tree, &folder.join(&entry.name), found, depth + 1);
        } else if entry.kind == Kind::File
            && found.len() < MAX_FILES
            && inspect::is_library(&entry.name.to_string_lossy())
        {
            found.push(folder.join(&entry.name));
        }
    }
}
