//! `envlock inspect PATH...`: reads names, search paths, versions and GPU code of libraries and wheels, without
//! loading them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::cli::args::{GlobalArgs, InspectArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::fetch;
use crate::cli::printer::{Printer, wrap};
use crate::cli::report::label;
use crate::inspect::{self, Detail, Records};
use crate::model::capability::CodeTarget;
use crate::model::library::{DeviceCode, Library};
use crate::model::text::clean;

/// Maximum number of libraries that are read from a folder.
const MAX_FILES: usize = 100_000;
/// Targets in more than this share of the containers are common and listed first.
const MOST: f64 = 0.5;

pub(super) fn run(global: &GlobalArgs, args: &InspectArgs, printer: &Printer) -> Result<u8, CliError> {
    let mut libraries = Vec::new();
    let mut failure = None;
    for path in &args.paths {
        let text = path.to_string_lossy();
        let found = match text.starts_with("https://") || text.starts_with("http://") {
            true => remote(global, &text, printer),
            false => local(path, printer),
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
    let inspected = libraries.iter().map(|library| Inspected::new(library, &mut records));
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

fn local(path: &Path, printer: &Printer) -> Result<Vec<Library>, CliError> {
    let unreadable = |path: &Path, why: String| {
        CliError::input(format!("cannot read `{}`: {why}", clean(&path.display().to_string(), 300)))
    };
    if path.is_dir() {
        // Files in a folder that are not libraries are not errors.
        let mut found: Vec<PathBuf> = Vec::new();
        walk(path, &mut found, 0);
        found.sort();
        let read = |file: &PathBuf| match inspect::library(file, Detail::All) {
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
        let file = std::fs::File::open(path).map_err(|e| unreadable(path, e.to_string()))?;
        return wheel(file, printer).map_err(|why| unreadable(path, why));
    }
    inspect::library(path, Detail::All).map(|library| vec![library]).map_err(|e| {
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
fn remote(global: &GlobalArgs, url: &str, printer: &Printer) -> Result<Vec<Library>, CliError> {
    if !url.split(['?', '#']).next().is_some_and(|path| path.ends_with(".whl")) {
        return Err(CliError::usage(format!("`{}` is not the URL of a wheel", clean(url, 200)))
            .hint("the URL of a wheel ends in `.whl`"));
    }
    let client = fetch::client_of_addresses(global);
    let bar = printer.progress("downloading");
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let file = client.download(url);
    bar.finish_and_clear();
    let file = file.map_err(|e| CliError::network(e.to_string()))?;
    wheel(file, printer).map_err(|why| CliError::input(format!("cannot read `{}`: {why}", clean(url, 200))))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>, depth: usize) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Symlinks are not followed: they can form cycles, or lead to files that are read anyway.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < 64 {
            walk(&entry.path(), found, depth + 1);
        } else if kind.is_file()
            && found.len() < MAX_FILES
            && inspect::is_library(&entry.file_name().to_string_lossy())
        {
            found.push(entry.path());
        }
    }
}

/// A library, and the package whose RECORD lists it.
struct Inspected<'l> {
    library: &'l Library,
    recorded: Option<Recorded>,
}

#[derive(Serialize)]
struct Recorded {
    package: String,
    version: String,
    /// Whether the library's own version is the package's. One of the two may have fewer components: 12.8 agrees with
    /// 12.8.90.
    agrees: bool,
}

impl<'l> Inspected<'l> {
    fn new(library: &'l Library, records: &mut Records) -> Inspected<'l> {
        let begins = |longer: &str, shorter: &str| {
            longer.strip_prefix(shorter).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let recorded = records.of(Path::new(&library.path)).map(|(package, version)| {
            let own = library.version.as_ref();
            let agrees = own.is_none_or(|own| begins(&version, &own.text) || begins(&own.text, &version));
            Recorded { package, version, agrees }
        });
        Inspected { library, recorded }
    }

    /// `12.8 (by code; nvidia-cuda-runtime-cu12 is 12.8.90)`
    fn version(&self) -> String {
        let Some(own) = &self.library.version else {
            let by = |r: &Recorded| format!("{} (by the RECORD of {})", r.version, r.package);
            return self.recorded.as_ref().map(by).unwrap_or_default();
        };
        let (text, from) = (&own.text, own.from);
        match &self.recorded {
            None => format!("{text} (by {from})"),
            Some(r) if r.agrees && *text == r.version => format!("{text} (by {from})"),
            Some(r) if r.agrees => format!("{text} (by {from}; {} is {})", r.package, r.version),
            Some(r) => format!(
                "{text} (by {from}), but it is in the RECORD of {} {}: the file was replaced",
                r.package, r.version
            ),
        }
    }
}

impl Serialize for Inspected<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Counts {
            sass: BTreeMap<String, usize>,
            ptx: BTreeMap<String, usize>,
        }
        #[derive(Serialize)]
        struct ArchList<'l> {
            sass: &'l [CodeTarget],
            ptx: &'l [CodeTarget],
        }
        #[derive(Serialize)]
        struct View<'l> {
            path: &'l str,
            soname: Option<&'l str>,
            needed: &'l [String],
            rpath: &'l [String],
            runpath: &'l [String],
            sass: Vec<CodeTarget>,
            ptx: Vec<CodeTarget>,
            version: Option<&'l str>,
            version_from: Option<&'l str>,
            recorded: Option<&'l Recorded>,
            machine: &'l str,
            containers: usize,
            entries: usize,
            counts: Counts,
            ptx_isa: BTreeMap<String, String>,
            arch_list: Option<ArchList<'l>>,
            fault: Option<String>,
        }
        let library = self.library;
        let none = DeviceCode::default();
        let code = library.device.as_ref().unwrap_or(&none);
        let (sass, ptx) = (code.counts(|s| &s.sass), code.counts(|s| &s.ptx));
        let targets = |list: &[(CodeTarget, usize)]| list.iter().map(|(target, _)| *target).collect();
        let counts = |list: &[(CodeTarget, usize)]| list.iter().map(|(t, n)| (t.to_string(), *n)).collect();
        let own = library.version.as_ref().map(|v| (v.text.as_str(), v.from));
        let stated = own.or(self.recorded.as_ref().map(|r| (r.version.as_str(), "RECORD")));
        let isa = code.ptx_isa.iter();
        View {
            path: &library.path,
            soname: library.soname.as_deref(),
            needed: &library.needed,
            rpath: &library.rpath,
            runpath: &library.runpath,
            sass: targets(&sass),
            ptx: targets(&ptx),
            version: stated.map(|(text, _)| text),
            version_from: stated.map(|(_, from)| from),
            recorded: self.recorded.as_ref(),
            machine: &library.machine,
            containers: code.containers,
            entries: code.entries,
            counts: Counts { sass: counts(&sass), ptx: counts(&ptx) },
            ptx_isa: isa.map(|(t, (major, minor))| (t.to_string(), format!("{major}.{minor}"))).collect(),
            arch_list: library.arch_list.as_ref().map(|list| ArchList { sass: &list.sass, ptx: &list.ptx }),
            fault: code.fault.map(|fault| fault.to_string()),
        }
        .serialize(serializer)
    }
}

fn show(printer: &Printer, inspected: &Inspected<'_>) {
    let library = inspected.library;
    let line = |name: &str, text: &str| {
        if !text.is_empty() {
            printer.out(&format!("  {}{}", label(printer, name), wrap(&clean(text, 4000), 17)));
        }
    };
    printer.out(&clean(&library.path, 300));
    line("version", &inspected.version());
    line("processor", &library.machine);
    line("soname", library.soname.as_deref().unwrap_or_default());
    line("needs", &library.needed.join(" "));
    line("rpath", &library.rpath.join(" "));
    line("runpath", &library.runpath.join(" "));
    if let Some(list) = &library.arch_list {
        let ptx = list.ptx.iter().map(|t| format!("PTX {t}"));
        let all: Vec<String> = list.sass.iter().map(ToString::to_string).chain(ptx).collect();
        line("torch's list", &all.join(" "));
    }
    match &library.device {
        Some(code) => {
            line("gpu code", &machine_code(code));
            line("ptx", &ptx(code));
            if let Some(fault) = &code.fault {
                line("not read", &format!("{fault}: there may be more code"));
            }
        }
        None => line("gpu code", "none"),
    }
}

/// `7.0 7.5 8.0 in 397 containers, 9.0a in 4, 10.0a in 2`
fn machine_code(code: &DeviceCode) -> String {
    let counts = code.counts(|s| &s.sass);
    let is_common = |n: usize| n as f64 > code.containers as f64 * MOST;
    let (common, rare): (Vec<_>, Vec<_>) = counts.iter().partition(|(_, n)| is_common(*n));
    let mut parts: Vec<String> = Vec::new();
    let all = common.iter().all(|(_, n)| *n == code.containers);
    if !common.is_empty() && all {
        let names: Vec<String> = common.iter().map(|(t, _)| t.to_string()).collect();
        parts.push(format!("{} in each of {} containers", names.join(" "), code.containers));
    } else {
        parts.extend(common.iter().map(|(t, n)| format!("{t} in {n}")));
    }
    parts.extend(rare.iter().map(|(t, n)| format!("{t} in {n}")));
    if !all {
        parts.push(format!("of {} containers", code.containers));
    }
    parts.join(", ")
}

fn ptx(code: &DeviceCode) -> String {
    let isa = |target: CodeTarget| {
        code.ptx_isa.iter().find(|(t, _)| *t == target).map(|(_, (a, b))| format!(" (ISA {a}.{b})"))
    };
    let counts = code.counts(|s| &s.ptx);
    let parts: Vec<String> =
        counts.iter().map(|(t, n)| format!("{t} in {n}{}", isa(*t).unwrap_or_default())).collect();
    parts.join(", ")
}
