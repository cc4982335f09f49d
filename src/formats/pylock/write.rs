//! `pylock.toml` (PEP 751). URLs are read from the index or its cache at export, because the lock has
//! none. Data without a standard key (driver, GPUs) is under `[tool.envlock]`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::formats::written::PYLOCK_MARK;
use crate::formats::written::{ExportError, address_of_file};
use crate::lockfile::Target;
use crate::model::part::Part;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::{clean, toml_string as quote};

/// The pylock of a target. `url` returns the URL of a file by index, project and file name.
///
/// # Errors
/// See [`ExportError`].
pub fn pylock(
    target: &Target,
    url: &dyn Fn(&str, &str, &str) -> Option<String>,
) -> Result<String, ExportError> {
    crate::formats::written::check(target)?;
    let mut out = String::new();
    let _ = writeln!(out, "{}, from envlock.lock. Install with `uv pip sync pylock.toml`.", PYLOCK_MARK);
    let _ = writeln!(out, "lock-version = \"1.0\"");
    let _ = writeln!(out, "created-by = \"envlock\"");
    let python = match target.patches.is_all() {
        true => format!("=={}.*", target.python),
        false => target.patches.of_series(target.python.minor),
    };
    let _ = writeln!(out, "requires-python = \"{python}\"");
    let _ = writeln!(out, "environments = [{}]", quote(&marker(target)));
    let parts: BTreeSet<&Part> = target.packages.iter().flat_map(|package| &package.groups).collect();
    for (key, is_extra) in [("extras", true), ("dependency-groups", false)] {
        let of_kind = parts.iter().filter(|part| matches!(part, Part::Extra(_)) == is_extra);
        let names: Vec<String> = of_kind.map(|part| quote(part.name())).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "{key} = [{}]", names.join(", "));
        }
    }
    for one in &target.packages {
        package(&mut out, one, target, url)?;
    }
    own_table(&mut out, target);
    Ok(out)
}

/// The row of a package.
fn package(
    out: &mut String,
    package: &ChosenPackage,
    target: &Target,
    url: &dyn Fn(&str, &str, &str) -> Option<String>,
) -> Result<(), ExportError> {
    out.push_str("\n[[packages]]\n");
    let _ = writeln!(out, "name = {}", quote(&package.name));
    let _ = writeln!(out, "version = {}", quote(&package.version.to_string()));
    let groups: Vec<String> = package
        .groups
        .iter()
        .map(|part| match part {
            Part::Extra(name) => format!("'{name}' in extras"),
            Part::Group(name) => format!("'{name}' in dependency_groups"),
        })
        .collect();
    if !groups.is_empty() {
        let _ = writeln!(out, "marker = {}", quote(&groups.join(" or ")));
    }
    let dependencies: Vec<String> = package
        .requires
        .iter()
        .filter(|e| target.package(&e.to).is_some())
        .map(|e| format!("{{ name = {} }}", quote(&e.to)))
        .collect();
    if !dependencies.is_empty() {
        let mut unique = dependencies;
        unique.dedup();
        let _ = writeln!(out, "dependencies = [{}]", unique.join(", "));
    }
    match &package.source {
        Source::Index(_) | Source::Url(_) => {}
        Source::Git { repository, commit, subdirectory } => {
            let folder: String =
                subdirectory.iter().map(|folder| format!(", subdirectory = {}", quote(folder))).collect();
            let _ = writeln!(
                out,
                "vcs = {{ type = \"git\", url = {}, commit-id = {}{folder} }}",
                quote(repository),
                quote(commit)
            );
            return Ok(());
        }
        Source::Path(path) => {
            let _ = match package.files.first().and_then(|file| file.sha256.as_ref()) {
                Some(digest) => writeln!(
                    out,
                    "archive = {{ path = {}, hashes = {{ sha256 = {} }} }}",
                    quote(path),
                    quote(digest)
                ),
                None => writeln!(out, "directory = {{ path = {} }}", quote(path)),
            };
            return Ok(());
        }
    }
    if let (Source::Url(url), Some(file)) = (&package.source, package.files.first()) {
        let sha256 = quote(file.sha256.as_deref().unwrap_or_default());
        let _ = writeln!(out, "archive = {{ url = {}, hashes = {{ sha256 = {sha256} }} }}", quote(url));
        return Ok(());
    }
    let is_built = package.build.is_some();
    out.push_str(if is_built { "sdist = " } else { "wheels = [\n" });
    for file in &package.files {
        let index = package.source.index().unwrap_or_default();
        let address = address_of_file(package, index, url(index, &package.name, &file.name))?;
        out.push_str(if is_built { "" } else { "    " });
        let key = if address.contains("://") { "url" } else { "path" };
        let _ = write!(out, "{{ name = {}, {key} = {}", quote(&file.name), quote(&clean(&address, 2000)));
        if let Some(size) = file.size {
            let _ = write!(out, ", size = {size}");
        }
        let sha256 = quote(file.sha256.as_deref().unwrap_or_default());
        let end = if is_built { "" } else { "," };
        let _ = writeln!(out, ", hashes = {{ sha256 = {sha256} }} }}{end}");
    }
    out.push_str(if is_built { "" } else { "]\n" });
    Ok(())
}

/// envlock's own table: what the target is.
fn own_table(out: &mut String, target: &Target) {
    out.push_str("\n[tool.envlock]\n");
    let _ = writeln!(out, "target = {}", quote(&target.name));
    if let Some(stack) = &target.stack {
        let _ = writeln!(out, "torch = {}", quote(&stack.version.to_string()));
        let _ = writeln!(out, "variant = {}", quote(&stack.variant));
    }
    let taken = ["target", "torch", "variant", "driver-min", "compute-capabilities"];
    for x in target.frameworks.iter().filter(|framework| !taken.contains(&framework.package.as_str())) {
        let _ = writeln!(out, "{} = {}", x.package, quote(&x.version.to_string()));
    }
    if let Some(driver) = &target.envelope.driver {
        let _ = writeln!(out, "driver-min = {}", quote(driver.as_str()));
    }
    let covered: Vec<String> =
        target.envelope.coverage.iter().map(|c| format!("\"{}\"", c.compute_capability)).collect();
    let _ = writeln!(out, "compute-capabilities = [{}]", covered.join(", "));
}

/// The target as an environment marker.
fn marker(target: &Target) -> String {
    let environment = crate::model::marker::marker_environment(target.python, target.platform);
    format!(
        "python_version == '3.{}' and sys_platform == '{}' and platform_machine == '{}'",
        target.python.minor,
        environment.sys_platform(),
        environment.platform_machine()
    )
}
