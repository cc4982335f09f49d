//! `requirements.txt` with hashes: for `pip install --require-hashes` and `uv pip sync`.

use std::fmt::Write as _;

use super::{ExportError, address, extra_indexes, in_two_steps, installable, pinned, without_hash};
use crate::lockfile::Target;

/// The requirements of a target. `addresses` are the URLs of the indexes other than `pypi`; the URL of
/// `pypi` is left to the installer's own configuration.
///
/// # Errors
/// See [`ExportError`].
pub fn requirements(target: &Target, addresses: &[(String, String)]) -> Result<String, ExportError> {
    let packages = installable(target)?;
    let (first, built) = in_two_steps(&packages);
    let unhashed = without_hash(&first);
    let hashes = if unhashed.is_empty() { "--require-hashes " } else { "" };
    let constraints = match packages.iter().any(|p| p.build.as_ref().is_some_and(|b| !b.requires.is_empty()))
    {
        true => "--build-constraint build-constraints.txt ",
        false => "",
    };
    // `sync` would remove what the second step built.
    let uv = match built.is_empty() {
        true => format!("sync {constraints}"),
        false => format!("install {hashes}{constraints}-r "),
    };
    let mut out = format!(
        "{}, from envlock.lock: Python {}, {}. Install with one of\n\
         #   pip install {hashes}{constraints}-r requirements.txt\n\
         #   uv pip {uv}requirements.txt\n",
        super::REQUIREMENTS_MARK,
        target.python,
        target.platform
    );
    if !built.is_empty() {
        let names: Vec<&str> = built.iter().map(|package| package.name.as_str()).collect();
        let _ = writeln!(out, "# Then requirements-build.txt: {}", names.join(", "));
    }
    if !unhashed.is_empty() {
        let names = unhashed.join(", ");
        let _ =
            writeln!(out, "# No hashes: {names} has none, and pip checks those of all packages or of none.");
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
        let _ = writeln!(out, "--extra-index-url {}", address(addresses, index, package)?);
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
