//! What building a source tree makes and needs: Python files, machine code, GPU code; or nothing, for a stub that fetches
//! another file.

use super::archive::Contents;
use super::pyproject::Pyproject;
use super::setup_py::SetupPy;
use crate::model::source::BuildKind;
use crate::model::text::{clean, requirement_name, without_logins};

/// Build backends that compile.
const NATIVE_BACKENDS: [&str; 5] = ["maturin", "mesonpy", "scikit_build_core", "setuptools_rust", "skbuild"];
/// Build requirements of projects that compile.
const COMPILERS: [&str; 12] = [
    "cython",
    "pybind11",
    "nanobind",
    "cmake",
    "ninja",
    "scikit-build",
    "scikit-build-core",
    "setuptools-rust",
    "maturin",
    "cffi",
    "meson-python",
    "pythran",
];
/// Suffixes of source files that a C, C++, Fortran, Cython or Rust compiler reads.
const COMPILED: [&str; 9] = ["c", "cc", "cpp", "cxx", "pyx", "f", "f90", "rs", "m"];
/// Frameworks whose versions a build must share with the environment.
const FRAMEWORKS: [&str; 3] = ["torch", "tensorflow", "jax"];

/// What building a tree makes.
pub(super) fn of(contents: &Contents, pyproject: &Pyproject, setup_py: Option<&SetupPy>) -> BuildKind {
    let backend = pyproject.backend.as_deref().unwrap_or("");
    let compiles = NATIVE_BACKENDS.iter().any(|native| backend.starts_with(native))
        || setup_py.is_some_and(|setup| setup.has_extensions)
        || (setup_py.is_none() && lists(pyproject, &COMPILERS) && contents.has_suffix(&COMPILED));
    let text = setup_py.map_or("", |setup| setup.text.as_str());
    let names_cuda =
        ["CUDAExtension", "CUDA_HOME", "nvcc", "CUDA_PATH"].iter().any(|word| text.contains(word));
    match (compiles, contents.has_suffix(&["cu", "cuh"]) || names_cuda) {
        (true, true) => BuildKind::Cuda,
        (true, false) => BuildKind::Native,
        (false, _) => BuildKind::Pure,
    }
}

/// The frameworks that the build imports.
pub(super) fn frameworks(pyproject: &Pyproject, setup_py: Option<&SetupPy>) -> Vec<String> {
    let needs = |framework: &&str| {
        setup_py.is_some_and(|setup| setup.imports(framework)) || lists(pyproject, &[framework])
    };
    FRAMEWORKS.iter().copied().filter(needs).map(str::to_owned).collect()
}

/// What a stub fetches when it is built: `wheel-stub` takes a wheel from the index that it names, older stubs call pip,
/// and placeholders only fail.
pub(super) fn fetches(pyproject: &Pyproject, setup_py: Option<&SetupPy>) -> Option<String> {
    let is_stub = pyproject.backend.as_deref().is_some_and(|backend| backend.starts_with("wheel_stub"));
    if is_stub || lists(pyproject, &["wheel-stub", "nvidia-pyindex"]) {
        return Some("a wheel from another index".to_owned());
    }
    let setup = setup_py?;
    if setup.is_placeholder {
        return Some("nothing: it is a placeholder for a package of another index".to_owned());
    }
    (setup.calls_pip && !setup.has_extensions).then(|| "other packages by pip".to_owned())
}

/// The index that a stub of wheel-stub names: `[tool.wheel_stub] index_url`.
pub(super) fn index_of_stub(pyproject: &Pyproject) -> Option<String> {
    let stated = pyproject.tool_at(&["wheel_stub", "index_url"])?.as_str()?;
    let url = url::Url::parse(stated).ok().filter(|url| url.scheme() == "https" && url.host().is_some())?;
    Some(clean(&without_logins(url.as_str()), 200))
}

/// Whether `[build-system] requires` has one of these packages.
fn lists(pyproject: &Pyproject, packages: &[&str]) -> bool {
    let mut names = pyproject.requires.iter().flatten().map(|line| requirement_name(line));
    names.any(|name| packages.contains(&name.as_str()))
}
