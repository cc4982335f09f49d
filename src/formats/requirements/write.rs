//! `requirements.txt` with hashes: for `pip install --require-hashes` and `uv pip sync`.

use std::fmt::Write as _;

use super::builds::build_requirements;
use crate::formats::written::REQUIREMENTS_MARK;
use crate::formats::written::{
    ExportError, extra_indexes, in_two_steps, index_option, installable, open_indexes, pinned,
    pip_constrains_builds, without_hash,
};
use crate::lockfile::Target;
use crate::model::text::shell_word;

/// The requirements of a target, with what the second step requires to build. `addresses` are the URLs of the indexes
/// other than `pypi`; the URL of `pypi` is left to the installer's own configuration. `file`: the name that its commands have.
///
/// # Errors
/// See [`ExportError`].
pub fn requirements(
    target: &Target,
    addresses: &[(String, String)],
    file: &str,
) -> Result<String, ExportError> {
    let mut out = packages(target, addresses, file)?;
    if let Some(lines) = build_requirements(target, target) {
        out.push_str("# What requirements-build.txt requires to build:\n");
        let is_hashed = without_hash(&in_two_steps(&installable(target)?).0).is_empty();
        for line in lines.lines() {
            let (requirement, _) = line.split_once(' ').filter(|_| !is_hashed).unwrap_or((line, ""));
            let _ = writeln!(out, "{requirement}");
        }
    }
    Ok(out)
}

/// Whether two requirements files install the same: comments and empty lines do not count.
pub fn same_requirements(a: &str, b: &str) -> bool {
    fn installs(text: &str) -> impl Iterator<Item = &str> {
        let lines = text.split('\n').map(str::trim_end);
        lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'))
    }
    installs(a).eq(installs(b))
}

/// The packages of a target that are installed in one step.
///
/// # Errors
/// See [`ExportError`].
pub fn packages(target: &Target, addresses: &[(String, String)], file: &str) -> Result<String, ExportError> {
    let file = shell_word(file);
    let packages = installable(target)?;
    let (first, built) = in_two_steps(&packages);
    let unhashed = without_hash(&first);
    let hashes = if unhashed.is_empty() { "--require-hashes " } else { "" };
    let constraints = match first.iter().any(|p| p.build.as_ref().is_some_and(|b| !b.requires.is_empty())) {
        true => "--build-constraint build-constraints.txt ",
        false => "",
    };
    let has_pip = constraints.is_empty() || pip_constrains_builds(target);
    // `sync` would remove what the second step built.
    let uv = match built.is_empty() {
        true => format!("sync {constraints}"),
        false => format!("install {hashes}{constraints}-r "),
    };
    let mut out = format!(
        "{}, from envlock.lock: Python {}, {}. Install with{}\n",
        REQUIREMENTS_MARK,
        target.python,
        target.platform,
        if has_pip { " one of" } else { "" },
    );
    if has_pip {
        let _ = writeln!(out, "#   pip install {hashes}{constraints}-r {file}");
    }
    let _ = writeln!(out, "#   uv pip {uv}{file}");
    if !built.is_empty() {
        let names: Vec<&str> = built.iter().map(|package| package.name.as_str()).collect();
        let _ = writeln!(out, "# Then requirements-build.txt: {}", names.join(", "));
    }
    if !unhashed.is_empty() {
        let names = unhashed.join(", ");
        let _ =
            writeln!(out, "# No hashes: {names} has none, and pip checks those of all packages or of none.");
        open_indexes(&mut out, &packages, "#");
    }
    for framework in target.frameworks.iter().filter(|framework| framework.cuda_from_system) {
        let cudnn = framework.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
        let cuda = crate::model::version::cuda_short(&framework.cuda);
        let _ = writeln!(
            out,
            "# {} opens CUDA {cuda}{cudnn} by name, and no package contains them: install them separately.",
            framework.package
        );
    }
    for (index, package) in extra_indexes(&packages) {
        if let Some(option) = index_option(addresses, index, package)? {
            let _ = writeln!(out, "{option}");
        }
    }
    for package in first {
        let (requirement, hashes) = pinned(package, addresses)?;
        out.push_str(&requirement);
        for hash in hashes.iter().filter(|_| unhashed.is_empty()) {
            let _ = write!(out, " \\\n    --hash=sha256:{hash}");
        }
        out.push('\n');
    }
    Ok(out)
}
