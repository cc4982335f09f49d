//! Who brings a file: the package of NVIDIA on PyPI with the library that a line misses.

use std::collections::BTreeSet;

use super::facts::Event;
use super::place::for_setup;
use super::situation::Situation;
use crate::model::fix::Fix;
use crate::model::nvidia::is_of_nvidia;
use crate::model::platform::Os;
use crate::model::surroundings::Surrounding;
use crate::registry::{Cited, CudaLibraries};

/// Adds the folders of NVIDIA's packages to those that the loader searches.
const ADD_FOLDERS: &str = r#"export LD_LIBRARY_PATH="$(python -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))'):$LD_LIBRARY_PATH""#;

/// The command that installs the packages with missing libraries, of each line one; nothing if no line names one that a package
/// has.
pub(super) fn bring(situation: &Situation<'_>, events: &[&Event]) -> Vec<Fix> {
    let of_line = |event: &&Event| {
        missing(&event.text).find_map(|name| Some((name.to_owned(), package(situation, name, events)?)))
    };
    let mut found: Vec<(String, &Cited<CudaLibraries>)> = events.iter().filter_map(of_line).collect();
    let mut packages = BTreeSet::new();
    found.retain(|(_, row)| packages.insert(&row.package));
    if found.is_empty() {
        return of_system(situation, events);
    }
    let spec = |row: &CudaLibraries| match &row.versions {
        Some(versions) => format!("\"{}{}\"", row.package, versions.to_string().replace(' ', "")),
        None => row.package.clone(),
    };
    let brought = |(library, row): &(String, &Cited<CudaLibraries>)| {
        let own = row.names.iter().chain(&row.dlls).find(|own| own.eq_ignore_ascii_case(library));
        own.map_or_else(|| "the library".to_owned(), String::clone)
    };
    let specs: Vec<String> = found.iter().map(|(_, row)| spec(row)).collect();
    let brought: Vec<String> = found.iter().map(brought).collect();
    let other = |(library, row): &(String, &Cited<CudaLibraries>)| -> Vec<String> {
        let others = situation.registry.packages_with(library).filter(|other| other.package != row.package);
        others.map(|other| format!("; for CUDA {} {}", other.cuda, other.package)).collect()
    };
    let others: Vec<String> = match is_known(situation, events) {
        true => Vec::new(),
        false => found.iter().flat_map(other).collect(),
    };
    let why = format!("brings {}{}", brought.join(", "), others.concat());
    let install = Fix::command_that(format!("pip install {}", specs.join(" ")), why);
    let install = for_setup(situation, install);
    let path = match situation.platform().os == Os::Windows {
        true => Fix::advice("add the folder `bin` of that package, below `site-packages\\nvidia`, to PATH"),
        false => Fix::command_that(ADD_FOLDERS, "the loader finds what pip installed"),
    };
    // torch loads them from there by itself.
    let is_of_torch = events.iter().any(|event| event.frame == "torch");
    let is_there = is_of_torchs_cuda(situation, events)
        || found.iter().all(|(library, row)| {
            situation.facts.packages.contains_key(&row.package)
                || situation.facts.libraries.iter().any(|own| own.eq_ignore_ascii_case(library))
        });
    match is_there {
        // The loader does not find it.
        true => vec![path, install],
        false if is_of_torch => vec![install],
        false => vec![install, path],
    }
}

/// Whether a missing library is of another CUDA than what is here: then the program is a build for that one, and its other
/// libraries would be missed next. Beside an older toolkit, pip's packages bring a newer CUDA.
pub(super) fn is_of_other_cuda(situation: &Situation<'_>, events: &[&Event]) -> bool {
    let facts = situation.facts;
    let of_libraries = || only(facts.libraries.iter().filter_map(|name| cuda_of(situation, name)));
    let of_toolkits = || {
        let releases = facts.toolkits.iter().chain(&facts.compilers);
        only(releases.filter_map(|release| release.split('.').next()?.parse().ok()))
    };
    let Some(needed) = events.iter().find_map(|event| cuda_of_missing(situation, event)) else {
        return false;
    };
    match stated_cuda(situation) {
        Some(here) => needed != here,
        None => of_libraries().or_else(of_toolkits).is_some_and(|here| needed < here),
    }
}

/// Whether a missing library is of torch's own CUDA: its packages are those that torch requires.
pub(super) fn is_of_torchs_cuda(situation: &Situation<'_>, events: &[&Event]) -> bool {
    let torch = cuda_of_torch(situation);
    torch.is_some() && events.iter().any(|event| cuda_of_missing(situation, event) == torch)
}

/// The CUDA major of the library that a line misses.
fn cuda_of_missing(situation: &Situation<'_>, event: &Event) -> Option<u64> {
    missing(&event.text).find_map(|name| cuda_of(situation, name))
}

/// The CUDA major of torch.
fn cuda_of_torch(situation: &Situation<'_>) -> Option<u64> {
    situation.facts.build_cuda()?.split('.').next()?.parse().ok()
}

/// The CUDA major of a library, where only one has it by this name.
fn cuda_of(situation: &Situation<'_>, library: &str) -> Option<u64> {
    only(situation.registry.packages_with(library).map(|row| row.cuda))
}

/// The number that all are.
fn only(mut numbers: impl Iterator<Item = u64>) -> Option<u64> {
    let first = numbers.next()?;
    numbers.all(|number| number == first).then_some(first)
}

/// The command that installs the package of the system with a missing library.
fn of_system(situation: &Situation<'_>, events: &[&Event]) -> Vec<Fix> {
    let mut named = events.iter().flat_map(|event| missing(&event.text));
    let found = named.find_map(|name| Some((name, situation.registry.debian_package_of(name)?)));
    let install = found.map(|(name, package)| {
        let why = format!("brings {name}, on Debian and Ubuntu; in an image too");
        for_setup(situation, Fix::command_that(format!("sudo apt-get install -y {package}"), why))
    });
    install.into_iter().collect()
}

/// The CUDA major of torch, else of a package whose name has it: `cupy-cuda11x`.
fn stated_cuda(situation: &Situation<'_>) -> Option<u64> {
    let of_name = |name: &String| name.rsplit_once("-cuda")?.1.strip_suffix('x')?.parse().ok();
    cuda_of_torch(situation).or_else(|| situation.facts.packages.keys().find_map(of_name))
}

/// The CUDA major of torch, else the one that a line or the listed packages name.
fn cuda(situation: &Situation<'_>, events: &[&Event]) -> Option<u64> {
    let majors = || situation.registry.minor_version_compatibility().iter().map(|row| row.cuda_major);
    let says = |major: u64| {
        let word = format!("CUDA {major}.");
        events.iter().any(|event| event.text.contains(&word))
    };
    let of_packages = |major: u64| {
        let end = format!("-cu{major}");
        situation.facts.packages.keys().any(|name| is_of_nvidia(name) && name.ends_with(&end))
    };
    stated_cuda(situation)
        .or_else(|| majors().find(|major| says(*major)))
        .or_else(|| majors().find(|major| of_packages(*major)))
}

fn is_known(situation: &Situation<'_>, events: &[&Event]) -> bool {
    cuda(situation, events).is_some()
}

/// The CUDA major of most programs that do not say theirs.
pub(super) const USUAL: u32 = 12;

/// The row of a library: of several, that of the CUDA that the text names, else the usual one.
fn package<'a>(situation: &Situation<'a>, name: &str, events: &[&Event]) -> Option<&'a Cited<CudaLibraries>> {
    // A Jetson has the libraries of its JetPack.
    if situation.facts.is_in(Surrounding::Jetson) {
        return None;
    }
    let major = cuda(situation, events).unwrap_or(USUAL.into());
    let rows: Vec<_> = situation.registry.packages_with(name).collect();
    let of_major = rows.iter().find(|row| row.cuda == major);
    of_major.or_else(|| rows.iter().max_by_key(|row| row.cuda)).copied()
}

/// The names of libraries that a line may miss: the one that it says so of, else all that it has. The loader names the one that
/// it looked for, `libcusolver.so.11; dlerror: libnvJitLink.so.12: cannot open`, and the one that is not there.
fn missing(line: &str) -> impl Iterator<Item = &str> {
    let (before, of_loader) = match line.split_once(": cannot open shared object") {
        Some((before, _)) => (before, true),
        None => (line, false),
    };
    let last = if of_loader { names(before).last() } else { None };
    let others = if last.is_some() { "" } else { line };
    last.into_iter().chain(names(others))
}

/// The names of libraries in a line: `libcudart.so.12`, `cublas64_12.dll`.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    let words = line.split(move |c: char| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| {
        let lower = word.to_ascii_lowercase();
        lower.contains(".so") || lower.ends_with(".dll")
    })
}

#[cfg(test)]
mod tests {
    use super::{missing, names};

    #[test]
    fn libraries_in_a_line() {
        let of = |line| names(line).collect::<Vec<&str>>();
        assert_eq!(of("OSError: libcudart.so.12: cannot open shared object file"), ["libcudart.so.12"]);
        assert_eq!(of("Could not locate nvrtc64_120_0.dll. Please"), ["nvrtc64_120_0.dll"]);
        assert_eq!(of("'/a/b/libx.so': libcuda.so.1: no"), ["libx.so", "libcuda.so.1"]);
        assert!(of("nothing of the kind").is_empty());
        let missed = |line| missing(line).collect::<Vec<&str>>();
        let tensorflow = "Could not load dynamic library 'libcusolver.so.11'; dlerror: libnvJitLink.so.12: cannot open shared object file: No such file or directory";
        assert_eq!(missed(tensorflow), ["libnvJitLink.so.12"]);
        assert_eq!(missed("Could not locate nvrtc64_120_0.dll. Please"), ["nvrtc64_120_0.dll"]);
    }
}
