//! A library as `inspect` shows it, for people and as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::cli::printer::{Printer, wrap};
use crate::cli::report::label;
use crate::inspect::{FileTree, Records};
use crate::model::capability::CodeTarget;
use crate::model::library::{DeviceCode, Library};
use crate::model::text::clean;

/// Targets in more than this share of the containers are common and listed first.
const MOST: f64 = 0.5;

/// A library, and the package whose RECORD lists it.
pub(super) struct Inspected<'l> {
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
    pub fn new(tree: &dyn FileTree, library: &'l Library, records: &mut Records) -> Inspected<'l> {
        let begins = |longer: &str, shorter: &str| {
            longer.strip_prefix(shorter).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let recorded = records.of(tree, Path::new(&library.path)).map(|(package, version)| {
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

/// Prints a library.
pub(super) fn show(printer: &Printer, inspected: &Inspected<'_>) {
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
