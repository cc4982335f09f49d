//! conda's `environment.yml` (CEP 24): Python from conda-forge, the closure through pip, by hash.

use std::fmt::Write as _;

use super::{ExportError, address, extra_indexes, installable};
use crate::lockfile::Target;

/// The environment of a target, called `name`.
///
/// # Errors
/// See [`ExportError`].
pub fn conda_environment(
    target: &Target,
    name: &str,
    addresses: &[(String, String)],
) -> Result<String, ExportError> {
    let packages = installable(target)?;
    let mut out = format!("{}; change envlock.toml and run `envlock resolve`.\n", super::ENVIRONMENT_MARK);
    if let Some(stack) = &target.stack {
        let _ = writeln!(out, "# torch {} {} for {}", stack.version, stack.variant, target.platform);
    }
    if let Some(driver) = &target.envelope.driver {
        let _ = writeln!(out, "# needs an NVIDIA driver >= {driver}");
    }
    let _ = write!(
        out,
        "name: {}\nchannels:\n  - conda-forge\n  - nodefaults\ndependencies:\n  - python={}\n  - pip\n",
        environment_name(name),
        target.python
    );
    if packages.is_empty() {
        return Ok(out);
    }
    out.push_str("  - pip:\n");
    for (index, package) in extra_indexes(packages) {
        let _ = writeln!(out, "      - --extra-index-url {}", address(addresses, index, package)?);
    }
    for package in packages {
        let hashes: String = package
            .files
            .iter()
            .filter_map(|f| f.sha256.as_ref())
            .map(|h| format!(" --hash=sha256:{h}"))
            .collect();
        let _ = writeln!(out, "      - {}=={}{hashes}", package.name, package.version);
    }
    Ok(out)
}

/// A name that conda accepts: no `/`, space, `:`, `#`, and not `base` or `root`.
pub fn environment_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' })
        .collect();
    match clean.trim_matches('-') {
        "" | "base" | "root" => "envlock".to_owned(),
        good => good.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::environment_name;

    #[test]
    fn names() {
        for (given, expected) in
            [("demo", "demo"), ("a b/c", "a-b-c"), ("base", "envlock"), ("", "envlock"), ("#x", "x")]
        {
            assert_eq!(environment_name(given), expected);
        }
    }
}
