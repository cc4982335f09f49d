//! Recorded files against the disk.

use super::{Area, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::installed::{FileFault, Installed};
use crate::model::text::clean;

/// No more findings of one kind per package than this; the rest is counted.
const MOST: usize = 3;

pub(super) fn check(installed: &Installed) -> Area {
    let mut findings = Vec::new();
    for distribution in &installed.distributions {
        let name = &distribution.name;
        let conda = distribution.installer.as_deref() == Some("conda");
        if !distribution.record_readable && !conda {
            findings.push(Finding {
                r#where: Some(distribution.dist_info.clone()),
                ..finding(Code::UnreadableRecord, Severity::Warning, format!("{name} has no readable RECORD: its files could not be checked"))
            });
        }
        let fix = Some(format!("pip install --force-reinstall --no-deps {name}=={}", distribution.version));
        let mut told: Vec<(Code, Vec<(String, String)>)> = Vec::new();
        let mut add = |code: Code, path: &str, message: String| {
            match told.iter_mut().find(|(c, _)| *c == code) {
                Some((_, list)) => list.push((path.to_owned(), message)),
                None => told.push((code, vec![(path.to_owned(), message)])),
            }
        };
        for fault in &distribution.faults {
            match fault {
                FileFault::Missing(path) => add(Code::MissingFile, path, format!("{} of {name} is gone", clean(path, 160))),
                FileFault::Size(path, recorded, found) => add(
                    Code::AlteredFile,
                    path,
                    format!("{} of {name} has {found} bytes, {recorded} are recorded", clean(path, 160)),
                ),
                FileFault::Hash(path) => add(
                    Code::AlteredFile,
                    path,
                    format!("{} of {name} is not the file that was installed: its SHA-256 differs", clean(path, 160)),
                ),
                FileFault::OwnedTwice(path, other) => add(
                    Code::FileOwnedTwice,
                    path,
                    format!("{} belongs to {name} and to {other}: one overwrote the other", clean(path, 160)),
                ),
            }
        }
        for (code, list) in told {
            let more = list.len().saturating_sub(MOST);
            for (i, (path, message)) in list.into_iter().take(MOST).enumerate() {
                let last = i + 1 == MOST && more > 0;
                let tail = if last { format!(" (and {more} more files of {name})") } else { String::new() };
                findings.push(Finding {
                    fix: fix.clone(),
                    r#where: Some(path),
                    ..finding(code, Severity::Error, format!("{message}{tail}"))
                });
            }
        }
    }
    Area {
        name: "files",
        findings,
        summary: format!("{} present, sizes as recorded", thousands(installed.files_seen)),
    }
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::installed::Distribution;

    #[test]
    fn many_faults_are_counted() {
        let installed = Installed {
            distributions: vec![Distribution {
                name: "a".into(),
                record_readable: true,
                faults: (0..10).map(|i| FileFault::Missing(format!("f{i}"))).collect(),
                ..Distribution::default()
            }],
            ..Installed::default()
        };
        let area = check(&installed);
        assert_eq!(area.findings.len(), 3);
        assert!(area.findings[2].message.ends_with("(and 7 more files of a)"));
        assert_eq!(thousands(1234567), "1,234,567");
    }
}
