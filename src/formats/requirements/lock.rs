//! A requirements file that pins every package, as pip-compile and uv write it.

use pep508_rs::{MarkerTree, VersionOrUrl};

use crate::formats::document::{holds, index, quoted, url};
use crate::formats::error::{ForeignError, MAX_PACKAGES};
use crate::formats::types::{Environment, Package, SourceArchive};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;
use crate::model::source::Source;
use crate::model::text::{MAX_VALUES, PYTHON_LINE_ENDS, normalized_name};
use crate::model::wheel::Python;

/// A pinned package and the condition under which it is installed.
#[derive(Debug, Clone)]
pub(in crate::formats) struct Pinned {
    /// Of a line that names none, the line.
    name: String,
    what: What,
    condition: MarkerTree,
    is_hashed: bool,
    has_extras: bool,
}

/// What a line says of a package.
#[derive(Debug, Clone)]
enum What {
    Package(Package),
    /// A repository, a folder or a source archive: the line states no version.
    Unversioned,
    /// A folder or a repository, for editing: the line does not say which package it is.
    Unnamed,
}

pub(in crate::formats) fn parse(text: &str) -> Result<Vec<Pinned>, ForeignError> {
    if text.bytes().filter(|byte| *byte == b'\n').count() > MAX_VALUES {
        return Err(ForeignError::TooManyValues(MAX_VALUES));
    }
    let mut out: Vec<Pinned> = Vec::new();
    let mut address: Option<String> = None;
    let (mut has_index, mut built): (bool, Vec<String>) = (true, Vec::new());
    for (number, line) in requirement_lines(text) {
        // Another file would have to be read for a whole answer; a project itself and constraints lock nothing.
        if line.starts_with('-') && line.split_whitespace().any(includes) {
            return Err(ForeignError::Includes(number, quoted(&line)));
        }
        let options = ["--index-url", "-i", "--extra-index-url"];
        if let Some(value) = options.iter().find_map(|option| line.strip_prefix(option)) {
            // Of several indexes, one of torch's own says which build is meant.
            let value = value.trim_start_matches(['=', ' ']).to_owned();
            if address.is_none() || value.contains("/whl/") {
                address = Some(value);
            }
            continue;
        }
        if line.starts_with('-') {
            has_index &= !line.starts_with("--no-index");
            if let Some(names) = line.strip_prefix("--no-binary") {
                let names = names.trim_start_matches(['=', ' ']).split(',');
                built.extend(names.map(|name| normalized_name(name.trim())));
            }
            if line.split_whitespace().any(is_editable) {
                let name = quoted(&line);
                out.push(Pinned {
                    name,
                    what: What::Unnamed,
                    condition: MarkerTree::TRUE,
                    is_hashed: true,
                    has_extras: false,
                });
            }
            continue;
        }
        let requirement = line.split(" --").next().unwrap_or(&line).trim();
        let parsed = parse_requirement(requirement).map_err(|error| {
            ForeignError::Requirement(format!("line {number}"), quoted(requirement), error)
        })?;
        let not_exact = || ForeignError::NotExact(number, quoted(requirement));
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
                let file = crate::formats::document::file_name(&link.to_string());
                let wheel: Result<crate::model::wheel::WheelName, _> = file.parse();
                let Ok(wheel) = wheel else {
                    let name = parsed.name.to_string();
                    let (condition, is_hashed) = (parsed.marker, line.contains("--hash="));
                    let has_extras = !parsed.extras.is_empty();
                    out.push(Pinned { name, what: What::Unversioned, condition, is_hashed, has_extras });
                    continue;
                };
                (
                    wheel.version.clone(),
                    Some((url(&link.to_string()), crate::formats::document::wheel(file, None, None))),
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
            archive: file.as_ref().map_or(SourceArchive::Unnamed, |_| SourceArchive::Absent),
            wheels: file.into_iter().collect(),
            requires: Vec::new(),
        };
        let (name, what) = (package.name.clone(), What::Package(package));
        let (is_hashed, has_extras) = (line.contains("--hash="), !parsed.extras.is_empty());
        out.push(Pinned { name, what, condition: parsed.marker, is_hashed, has_extras });
    }
    for pinned in &mut out {
        let What::Package(package) = &mut pinned.what else { continue };
        let is_built = || built.iter().any(|name| *name == package.name || name == ":all:");
        // Which build pip takes then is not that of an index.
        let option = (!has_index).then_some("--no-index").or_else(|| is_built().then_some("--no-binary"));
        match (option, &address) {
            _ if package.source.is_direct() => {}
            (Some(option), _) => package.source = Source::Index(option.to_owned()),
            (None, Some(address)) => package.source = index(address),
            (None, None) => {}
        }
    }
    Ok(out)
}

/// Whether a word of a line is pip's option for another file: `-r`, `-rother.txt`, `--requirement=other.txt`.
fn includes(word: &str) -> bool {
    word.strip_prefix("-r").is_some() || word.starts_with("--req")
}

/// Whether a word of a line is pip's option for a folder or repository that is installed for editing.
fn is_editable(word: &str) -> bool {
    word.starts_with("-e") || word.starts_with("--edit")
}

/// Maximum size of a line with those that continue it, in bytes: a package with 1,000 files has 100,000.
const MAX_LINE: usize = 1 << 20;

/// The lines of a requirements file as pip reads them, each with the number of its first: continued lines joined, comments removed,
/// without the empty ones.
pub fn requirement_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let (mut whole, mut first) = (String::new(), None);
            while !rest.is_empty() && whole.len() <= MAX_LINE {
                let line = without_comment(next_line(&mut rest));
                number += 1;
                first.get_or_insert(number);
                match line.strip_suffix('\\') {
                    Some(part) => whole.push_str(part),
                    None => {
                        whole.push_str(line);
                        break;
                    }
                }
            }
            let line = whole.trim();
            if !line.is_empty() {
                return Some((first?, line.to_owned()));
            }
            first?;
        }
    })
}

/// The next line of a text, which is not empty, without its end. `\r\n` is one end.
fn next_line<'t>(rest: &mut &'t str) -> &'t str {
    let end = rest.find(PYTHON_LINE_ENDS).unwrap_or(rest.len());
    let (line, tail) = rest.split_at(end);
    let mut tail = tail.chars();
    if tail.next() == Some('\r') && tail.as_str().starts_with('\n') {
        tail.next();
    }
    *rest = tail.as_str();
    line
}

/// A line without its comment: `#` at its start or behind a space.
fn without_comment(line: &str) -> &str {
    let starts = |at: &usize| *at == 0 || line[..*at].ends_with(char::is_whitespace);
    let at = line.match_indices('#').map(|(at, _)| at).find(starts);
    line[..at.unwrap_or(line.len())].trim_end()
}

pub(in crate::formats) fn environment(pinned: &[Pinned], platform: Platform, python: Python) -> Environment {
    let machine = marker_environment(python, platform);
    let here = pinned.iter().filter(|pinned| holds(&pinned.condition, &machine, &[]));
    let mut out = Environment::new("default", python);
    for pinned in here {
        match &pinned.what {
            What::Package(package) => {
                out.with_extras.extend(pinned.has_extras.then(|| package.name.clone()));
                out.packages.push(package.clone());
            }
            What::Unversioned => out.unversioned.push(pinned.name.clone()),
            What::Unnamed => out.unnamed.push(pinned.name.clone()),
        }
    }
    out.packages.sort_by(|a, b| a.name.cmp(&b.name));
    let twice =
        out.packages.windows(2).find(|two| two[0].name == two[1].name && two[0].version != two[1].version);
    out.excluded = twice.map(|two| {
        let [a, b] = [&two[0].version, &two[1].version];
        format!("pip refuses the file: it has `{}` as {a} and as {b}", two[0].name)
    });
    out
}

pub(in crate::formats) fn has_hashes(pinned: &[Pinned]) -> bool {
    pinned.iter().all(|pinned| pinned.is_hashed)
}

pub(in crate::formats) fn mentions(pinned: &[Pinned], name: &str) -> bool {
    pinned.iter().any(|pinned| pinned.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_pip_reads_them() {
        let lines = |text: &str| requirement_lines(text).collect::<Vec<_>>();
        let of = |all: &[(usize, &str)]| -> Vec<(usize, String)> {
            all.iter().map(|(number, line)| (*number, (*line).to_owned())).collect()
        };
        for (text, expected) in [
            ("", of(&[])),
            ("\u{feff}a\r\n\r\nb", of(&[(1, "a"), (3, "b")])),
            ("a \\\n  --hash=x\nb", of(&[(1, "a   --hash=x"), (3, "b")])),
            ("a # b\u{2028}c\td\t# e\u{c}f", of(&[(1, "a"), (2, "c\td"), (3, "f")])),
            ("x @ https://h/x.zip#egg=x", of(&[(1, "x @ https://h/x.zip#egg=x")])),
            ("a \\", of(&[(1, "a")])),
        ] {
            assert_eq!(lines(text), expected, "{text:?}");
        }
    }

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

    /// A line that is continued without end does not become one text.
    #[test]
    fn a_line_has_a_limit() {
        let text = "six==1.17.0 \\\n".repeat(1_000_000);
        assert!(requirement_lines(&text).next().unwrap().1.len() < 2 * MAX_LINE);
    }

    /// Where pip takes no file of an index, which build a version is is not known; of others it is.
    #[test]
    fn options_that_lead_away_from_the_index() {
        for (options, sources) in [
            ("", ["", ""]),
            ("--no-index\n--find-links /wheels\n", ["--no-index", "--no-index"]),
            ("--no-binary :all:\n", ["--no-binary", "--no-binary"]),
            ("--no-binary=Six,other\n", ["--no-binary", ""]),
        ] {
            let pinned = parse(&format!("{options}six==1.17.0\ntorch==2.9.1\n")).unwrap();
            let environment = environment(&pinned, Platform::LINUX_X86_64, Python::new(12));
            let found: Vec<String> = environment.packages.iter().map(|own| own.source.to_string()).collect();
            assert_eq!(found, sources, "{options}");
        }
    }

    #[test]
    fn two_versions_of_a_package_are_refused_by_pip() {
        let excluded =
            |text: &str| environment(&parse(text).unwrap(), Platform::LINUX_X86_64, Python::new(12)).excluded;
        assert!(excluded("torch==2.9.1\ntorch==2.8.0\n").is_some_and(|why| why.contains("2.8.0")));
        assert_eq!(excluded("torch==2.9.1\ntorch==2.8.0 ; sys_platform == 'win32'\n"), None);
    }

    /// Markers that only one Python fulfils say which one it is.
    #[test]
    fn the_python_of_the_markers() {
        let one =
            "torch==2.9.1 ; python_full_version == '3.12.*'\nsix==1.17.0 ; python_full_version == '3.12.*'\n";
        let lock = crate::formats::ForeignLock::parse(crate::formats::Tool::Requirements, one).unwrap();
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
            ("a b\n", "`line 1` is `a b`: "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
