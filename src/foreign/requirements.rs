//! A requirements file that pins every package, as pip-compile and uv write it.

use pep508_rs::{MarkerTree, VersionOrUrl};

use super::document::{holds, index, invalid, url};
use super::{Environment, ForeignError, MAX_PACKAGES, Package};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;
use crate::model::source::Source;
use crate::model::text::clean;
use crate::model::wheel::Python;

/// A pinned package and the condition under which it is installed.
#[derive(Debug, Clone)]
pub(super) struct Pinned {
    package: Package,
    condition: MarkerTree,
    is_hashed: bool,
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
pub(super) fn parse(text: &str) -> Result<Vec<Pinned>, ForeignError> {
    let mut out: Vec<Pinned> = Vec::new();
    let mut address: Option<String> = None;
    for (number, line) in logical_lines(text) {
        let options = ["--index-url", "-i", "--extra-index-url"];
        if let Some(value) = options.iter().find_map(|option| line.strip_prefix(option)) {
            // Of several indexes, one of torch's own says which build is meant.
            let value = value.trim_start_matches(['=', ' ']).to_owned();
            if address.is_none() || value.contains("/whl/") {
                address = Some(value);
            }
            continue;
        }
        // Another file would have to be read for a whole answer; a project itself and constraints lock nothing.
        if ["-r ", "-r=", "--requirement"].iter().any(|option| line.starts_with(option)) {
            return Err(ForeignError::Includes(number, clean(&line, 80)));
        }
        if line.starts_with('-') {
            continue;
        }
        let requirement = line.split(" --").next().unwrap_or(&line).trim();
        let parsed =
            parse_requirement(requirement).map_err(|_| invalid(format!("line {number}"), requirement))?;
        let not_exact = || ForeignError::NotExact(number, clean(requirement, 80));
        let (version, source) = match &parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => {
                let exact = [pep440_rs::Operator::Equal, pep440_rs::Operator::ExactEqual];
                match specifiers.iter().find(|one| exact.contains(one.operator())) {
                    Some(one) => (one.version().clone(), None),
                    None => return Err(not_exact()),
                }
            }
            // The version of a direct reference is in its file's name.
            Some(VersionOrUrl::Url(link)) => {
                let file = super::document::file_name(&link.to_string());
                let wheel: Result<crate::model::wheel::WheelName, _> = file.parse();
                let Ok(wheel) = wheel else { continue };
                (
                    wheel.version.clone(),
                    Some((url(&link.to_string()), super::document::wheel(file, None, None))),
                )
            }
            None => return Err(not_exact()),
        };
        if out.len() == MAX_PACKAGES {
            return Err(ForeignError::TooLarge(MAX_PACKAGES));
        }
        let (source, file) = source.unwrap_or((Source::Index(String::new()), None));
        let package = Package {
            name: parsed.name.to_string(),
            version,
            source,
            has_source: file.is_none(),
            wheels: file.into_iter().collect(),
            requires: Vec::new(),
        };
        out.push(Pinned { package, condition: parsed.marker, is_hashed: line.contains("--hash=") });
    }
    if let Some(address) = &address {
        for pinned in out.iter_mut().filter(|pinned| !pinned.package.source.is_direct()) {
            pinned.package.source = index(address);
        }
    }
    Ok(out)
}

/// The lines of a requirements file with their numbers: continued lines joined, comments removed.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = match line.trim_start() {
            comment if comment.starts_with('#') => "",
            _ => line.split(" #").next().unwrap_or_default().trim_end(),
        };
        let (number, mut whole) = open.take().unwrap_or((at + 1, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => {
                whole.push_str(part);
                open = Some((number, whole));
            }
            None => {
                whole.push_str(line);
                out.push((number, whole.trim().to_owned()));
            }
        }
    }
    out.extend(open.map(|(number, whole)| (number, whole.trim().to_owned())));
    out.retain(|(_, line)| !line.is_empty());
    out
}

pub(super) fn environment(pinned: &[Pinned], platform: Platform, python: Python) -> Environment {
    let machine = marker_environment(python, platform);
    let here = pinned.iter().filter(|pinned| holds(&pinned.condition, &machine, &[]));
    let mut out = Environment::new("default", python);
    out.packages.extend(here.map(|pinned| pinned.package.clone()));
    out.packages.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

pub(super) fn has_hashes(pinned: &[Pinned]) -> bool {
    pinned.iter().all(|pinned| pinned.is_hashed)
}

pub(super) fn mentions(pinned: &[Pinned], name: &str) -> bool {
    pinned.iter().any(|pinned| pinned.package.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_lines() {
        let text = "# by a tool\n--index-url https://wheels.example/whl/cu126\ntorch==2.9.1+cu126 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\ncolorama==0.4 ; sys_platform == 'win32' --hash=sha256:cc\nown @ https://files.example/own-1.0-py3-none-any.whl --hash=sha256:dd\n-e .\n";
        let pinned = parse(text).unwrap();
        let environment = environment(&pinned, Platform::LINUX_X86_64, Python::new(12));
        let shown: Vec<String> =
            environment.packages.iter().map(|p| format!("{}=={} {}", p.name, p.version, p.source)).collect();
        assert_eq!(
            shown,
            ["own==1.0 https://files.example/own-1.0-py3-none-any.whl", "torch==2.9.1+cu126 whl/cu126"]
        );
    }

    /// Markers that only one Python fulfils say which one it is.
    #[test]
    fn the_python_of_the_markers() {
        let one =
            "torch==2.9.1 ; python_full_version == '3.12.*'\nsix==1.17.0 ; python_full_version == '3.12.*'\n";
        let lock = super::super::ForeignLock::parse(super::super::Tool::Requirements, one).unwrap();
        let environments = lock.environments(Platform::LINUX_X86_64, None);
        assert_eq!((environments[0].python, environments[0].packages.len()), (Python::new(12), 2));
    }

    #[test]
    fn a_file_that_locks_nothing_is_none() {
        for (text, message) in [
            ("numpy\n", "line 1: `numpy` has no exact version, so the file locks nothing"),
            (
                "\nnumpy>=1 --hash=sha256:aa\n",
                "line 2: `numpy>=1` has no exact version, so the file locks nothing",
            ),
            ("a b\n", "`line 1` is `a b`"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }
}
