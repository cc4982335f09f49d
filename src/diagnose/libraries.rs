//! Who brings a file: the package of NVIDIA on PyPI with the library that a line misses.

use super::facts::Event;
use super::place::for_setup;
use super::situation::Situation;
use crate::model::fix::Fix;
use crate::model::platform::Os;
use crate::model::surroundings::Surrounding;
use crate::registry::{Cited, CudaLibraries};

/// Adds the folders of NVIDIA's packages to those that the loader searches.
const ADD_FOLDERS: &str = r#"export LD_LIBRARY_PATH="$(python -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))'):$LD_LIBRARY_PATH""#;

/// The command that installs the package with a missing library; nothing if no line names one that a package has.
pub(super) fn bring(situation: &Situation<'_>, events: &[&Event]) -> Vec<Fix> {
    let named = events.iter().flat_map(|event| names(&event.text));
    let found = named.into_iter().find_map(|name| Some((name, package(situation, name)?)));
    let Some((library, row)) = found else { return Vec::new() };
    let package = match &row.versions {
        Some(versions) => format!("\"{}{}\"", row.package, versions.to_string().replace(' ', "")),
        None => row.package.clone(),
    };
    let name = row.names.iter().chain(&row.dlls).find(|own| own.eq_ignore_ascii_case(library));
    let name = name.map_or("the library", String::as_str);
    let install = Fix::command_that(format!("pip install {package}"), format!("brings {name}"));
    let install = for_setup(situation, install);
    let path = match situation.platform().os == Os::Windows {
        true => Fix::advice("add the folder `bin` of that package, below `site-packages\\nvidia`, to PATH"),
        false => Fix::command_that(ADD_FOLDERS, "the loader finds what pip installed"),
    };
    // torch loads them from there by itself.
    let is_of_torch = events.iter().any(|event| event.frame == "torch");
    if is_of_torch { vec![install] } else { vec![install, path] }
}

/// The row of a library: of several, that of torch's CUDA, else the newest.
fn package<'a>(situation: &Situation<'a>, name: &str) -> Option<&'a Cited<CudaLibraries>> {
    // A Jetson has the libraries of its JetPack.
    if situation.facts.is_in(Surrounding::Jetson) {
        return None;
    }
    let major = situation.facts.build_cuda().and_then(|cuda| cuda.split('.').next()?.parse::<u64>().ok());
    let rows: Vec<_> = situation.registry.packages_with(name).collect();
    let of_torch = rows.iter().find(|row| Some(row.cuda) == major);
    of_torch.or_else(|| rows.iter().max_by_key(|row| row.cuda)).copied()
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
    use super::names;

    #[test]
    fn libraries_in_a_line() {
        let of = |line| names(line).collect::<Vec<&str>>();
        assert_eq!(of("OSError: libcudart.so.12: cannot open shared object file"), ["libcudart.so.12"]);
        assert_eq!(of("Could not locate nvrtc64_120_0.dll. Please"), ["nvrtc64_120_0.dll"]);
        assert_eq!(of("'/a/b/libx.so': libcuda.so.1: no"), ["libx.so", "libcuda.so.1"]);
        assert!(of("nothing of the kind").is_empty());
    }
}
