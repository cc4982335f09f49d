//! A project's page on an index: its releases and their files.
//!
//! A page is stored in a compact text form: a table of its releases, then one line for each file. The files of a
//! release are parsed on first use: a solve uses only a few of the hundreds of releases of a page, and the rest of a
//! page that is memory-mapped from the cache is never read.

mod compact;

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use pep440_rs::{Version, VersionSpecifiers};

use compact::{
    FLAGS, REQUIRES_PYTHON, file_name, parse_line, requires_python, uploaded, write_line, write_release,
};

use super::fitting::{Fitting, Line};
use super::patches;
use super::platform::{Libc, Platform};
use super::text::{is_file_name, lines, normalized_name};
use super::timestamp::Timestamp;
use super::wheel::{Fit, NEWEST_MINOR, Parts, Python, WheelName, may_fit_platform};

/// The releases of one project on one index, oldest first.
#[derive(Debug)]
pub struct ProjectPage {
    /// The compact form.
    text: Bytes,
    /// The lines of the files in `text`.
    lines: Bytes,
    releases: Vec<Release>,
    requirements: PythonRequirements,
}

/// Which Python series the `Requires-Python` of the page accept. The files of a page state few different ones.
#[derive(Debug, Default)]
struct PythonRequirements(Mutex<HashMap<String, Vec<(Python, bool)>>>);

impl PythonRequirements {
    fn accept(&self, text: &str, python: Python) -> bool {
        if text.is_empty() {
            return true;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = known.get(text);
        if let Some((_, answer)) = answers.and_then(|of| of.iter().find(|(asked, _)| *asked == python)) {
            return *answer;
        }
        let answer = requires_python(text).is_none_or(|r| specifiers_allow(&r, python));
        known.entry(text.to_owned()).or_default().push((python, answer));
        answer
    }
}

/// One release: a version and its files.
#[derive(Debug)]
pub struct Release {
    /// The version.
    pub version: Version,
    /// Whether it has a source distribution that can be read: `.tar.gz`, `.tgz` or `.zip`.
    pub has_source: bool,
    /// Whether it has any wheel.
    pub has_wheel: bool,
    /// Whether all its files are yanked (PEP 592).
    pub yanked: bool,
    /// Why a cutoff leaves it without files.
    pub cut: Option<Cut>,
    range: std::ops::Range<usize>,
    files: OnceLock<Vec<ReleaseFile>>,
    fitting: Fitting,
}

/// Why a release has no file before a cutoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All were uploaded later, the first of them then.
    Late(Timestamp),
    /// The index does not state when they were uploaded.
    Undated,
}

/// What a file name says.
#[derive(Debug, Clone)]
pub enum FileName {
    /// A wheel.
    Wheel(WheelName),
    /// A source distribution of this version.
    Source(Version),
}

/// One wheel or source distribution on an index page.
#[derive(Debug, Clone)]
pub struct ReleaseFile {
    /// The file name.
    pub filename: String,
    /// The parsed name.
    pub parsed: FileName,
    /// SHA-256 from the index, 64 hexadecimal digits.
    pub sha256: Option<String>,
    /// Size in bytes, if the index has it.
    pub size: Option<u64>,
    /// PEP 592: do not select unless pinned.
    pub yanked: bool,
    /// `Requires-Python` from the index.
    pub requires_python: Option<VersionSpecifiers>,
    /// PEP 658: the METADATA file can be fetched separately.
    pub has_metadata: bool,
    /// The METADATA file's SHA-256, if the index has it.
    pub metadata_sha256: Option<String>,
    /// The URL of the file.
    pub url: String,
    /// Its place among the lines of the release.
    number: usize,
}

/// A file from an index, before it is added to a page.
#[derive(Debug, Clone, Default)]
pub struct RawFile {
    /// The file name.
    pub filename: String,
    /// Absolute URL.
    pub url: String,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// `Requires-Python`.
    pub requires_python: Option<String>,
    /// PEP 592.
    pub yanked: bool,
    /// PEP 658.
    pub has_metadata: bool,
    /// SHA-256 of the METADATA file (PEP 658).
    pub metadata_sha256: Option<String>,
    /// When it was uploaded (PEP 700).
    pub uploaded: Option<Timestamp>,
}

impl ProjectPage {
    /// Groups the files of an index page by release. Files that are neither wheels nor source distributions with a
    /// PEP 440 version are ignored, as in pip; so are archives that envlock does not read (`.tar.bz2`).
    pub fn from_files(project: &str, files: impl IntoIterator<Item = RawFile>) -> ProjectPage {
        let mut rows: Vec<(Version, bool, RawFile)> = Vec::new();
        for file in files {
            let flat = |c: char| c == '\t' || c == '\n' || c == '\r';
            if !is_file_name(&file.filename) || file.url.contains(flat) {
                continue;
            }
            if file.filename.ends_with(".whl") {
                // Ignore wheels of other projects.
                if let Ok(name) = file.filename.parse::<WheelName>()
                    && normalized_name(&name.project) == normalized_name(project)
                {
                    rows.push((name.version, true, file));
                }
            } else if let Some(version) = source_version(project, &file.filename) {
                rows.push((version, false, file));
            }
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.2.filename.cmp(&b.2.filename)));
        // A page of links may list a file twice.
        rows.dedup_by(|a, b| a.2.filename == b.2.filename);
        let mut table = String::new();
        let mut lines = String::new();
        let mut count = 0;
        let mut start = 0;
        while start < rows.len() {
            let end = start + rows[start..].iter().take_while(|r| r.0 == rows[start].0).count();
            let group = &rows[start..end];
            let before = lines.len();
            for (_, _, file) in group {
                write_line(&mut lines, file);
            }
            let source = group.iter().any(|r| !r.1);
            let wheel = group.iter().any(|r| r.1);
            let yanked = group.iter().all(|r| r.2.yanked);
            write_release(&mut table, &group[0].0, [source, wheel, yanked], lines.len() - before);
            count += 1;
            start = end;
        }
        let text = format!("{count}\n{table}{lines}");
        ProjectPage::parse(text.into()).expect("the compact form just written")
    }

    /// Parses the compact form: the number of releases, a line for each release, then the lines of their files, which
    /// are parsed on first use. `None` if it is invalid (a damaged cache entry).
    pub fn parse(text: Bytes) -> Option<ProjectPage> {
        let mut rest: &[u8] = &text;
        let mut line = || {
            let end = rest.iter().position(|b| *b == b'\n')?;
            let (line, tail) = rest.split_at(end);
            rest = &tail[1..];
            std::str::from_utf8(line).ok()
        };
        let count: usize = line()?.parse().ok()?;
        let mut releases: Vec<Release> = Vec::new();
        let mut position = 0usize;
        for _ in 0..count {
            let mut fields = line()?.split('\t');
            let (version, flags, length) = (fields.next()?, fields.next()?, fields.next()?);
            let end = position.checked_add(length.parse().ok()?)?;
            releases.push(Release {
                version: version.parse().ok()?,
                has_source: flags.contains('s'),
                has_wheel: flags.contains('w'),
                yanked: flags.contains('y'),
                cut: None,
                range: position..end,
                files: OnceLock::new(),
                fitting: Fitting::default(),
            });
            position = end;
        }
        // A truncated entry is damaged.
        (rest.len() == position).then_some(())?;
        let lines = text.slice(text.len() - position..);
        Some(ProjectPage { text, lines, releases, requirements: PythonRequirements::default() })
    }

    /// The page as it was before a time. Releases without a file that was uploaded before it stay in their places,
    /// without files.
    pub fn before(&self, at: Timestamp) -> ProjectPage {
        let mut table = String::new();
        let mut lines = String::new();
        let mut cuts = Vec::new();
        for release in &self.releases {
            let start = lines.len();
            let (mut source, mut wheel, mut yanked) = (false, false, true);
            let mut late: Option<Timestamp> = None;
            for line in self.lines_of(release) {
                let uploaded = uploaded(line);
                let is_late = |time: &Timestamp| *time >= at;
                late = late.into_iter().chain(uploaded.filter(is_late)).min();
                if uploaded.is_none_or(|time| time >= at) {
                    continue;
                }
                let is_wheel = line.split('\t').next().is_some_and(|name| name.ends_with(".whl"));
                wheel |= is_wheel;
                source |= !is_wheel;
                yanked &= line.split('\t').nth(FLAGS).is_some_and(|flags| flags.contains('y'));
                lines.push_str(line);
                lines.push('\n');
            }
            let is_empty = lines.len() == start;
            // A release without files says of itself what it says with all of them.
            yanked = if is_empty { release.yanked } else { yanked };
            cuts.push(is_empty.then(|| late.map_or(Cut::Undated, Cut::Late)));
            write_release(&mut table, &release.version, [source, wheel, yanked], lines.len() - start);
        }
        let text = format!("{}\n{table}{lines}", self.releases.len());
        let mut page = ProjectPage::parse(text.into()).expect("the compact form just written");
        for (release, cut) in page.releases.iter_mut().zip(cuts) {
            release.cut = cut;
        }
        page
    }

    /// When the first file of a release was uploaded, if the index states it.
    pub fn first_upload(&self, release: &Release) -> Option<Timestamp> {
        self.lines_of(release).filter_map(uploaded).min()
    }

    /// When a file of a release was uploaded, if the index states it.
    pub fn uploaded(&self, release: &Release, file: &ReleaseFile) -> Option<Timestamp> {
        self.lines_of(release).nth(file.number).and_then(uploaded)
    }

    /// The compact form, for a cache.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The releases, oldest first.
    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    /// The wheels and source distributions of a release.
    pub fn files<'a>(&'a self, release: &'a Release) -> &'a [ReleaseFile] {
        release.files.get_or_init(|| {
            let lines = self.lines_of(release).enumerate();
            lines.filter_map(|(number, line)| parse_line(number, line, &release.version)).collect()
        })
    }

    fn lines_of(&self, release: &Release) -> impl Iterator<Item = &str> {
        lines(self.text_of(release))
    }

    /// The lines of a release as one text.
    fn text_of(&self, release: &Release) -> &str {
        // Invalid UTF-8 means a damaged cache: treat it as a release without files.
        std::str::from_utf8(&self.lines[release.range.clone()]).unwrap_or_default()
    }

    /// The source distribution of a release, gzip before zip if there are several.
    pub fn source<'a>(&'a self, release: &'a Release) -> Option<&'a ReleaseFile> {
        let is_source = |f: &&ReleaseFile| matches!(f.parsed, FileName::Source(_));
        release.has_source.then(|| {
            let sources = self.files(release).iter().filter(is_source);
            sources.min_by_key(|f| (f.filename.ends_with(".zip"), &f.filename))
        })?
    }

    /// Finds a file by its name. Parses only the files of its release.
    pub fn find(&self, filename: &str) -> Option<&ReleaseFile> {
        let version = match filename.parse::<WheelName>() {
            Ok(wheel) => wheel.version,
            // The name of the project is the same for all files of a page.
            Err(_) => archive_stem(filename)?.rsplit_once('-')?.1.parse().ok()?,
        };
        self.releases
            .iter()
            .filter(|r| r.version == version)
            .flat_map(|r| self.files(r))
            .find(|f| f.filename == filename)
    }

    /// The newest release that specifiers admit, with its best wheel for a platform and the newest Python that has one.
    /// Pre-releases count only where no final release does; yanked releases do not count.
    pub fn newest_for(
        &self,
        platform: Platform,
        specifiers: Option<&VersionSpecifiers>,
    ) -> Option<(&Release, &ReleaseFile)> {
        let is_admitted = |version: &Version| specifiers.is_none_or(|s| s.contains(version));
        let all = || self.newest_first(platform, &is_admitted);
        all().find(|(release, _)| !release.version.any_prerelease()).or_else(|| all().next())
    }

    /// The releases that are admitted, newest first, each with its best wheel for a platform and the newest Python that has
    /// one. Yanked releases and those without such a wheel are left out.
    pub fn newest_first<'a, F: Fn(&Version) -> bool>(
        &'a self,
        platform: Platform,
        is_admitted: F,
    ) -> impl Iterator<Item = (&'a Release, &'a ReleaseFile)> + use<'a, F> {
        self.releases().iter().rev().filter_map(move |release| {
            let is_admitted = !release.yanked && is_admitted(&release.version);
            let wheel = |minor| self.best_usable(release, Python::new(minor), platform, None);
            let wheel = || (0..=NEWEST_MINOR).rev().find_map(wheel);
            Some((release, is_admitted.then(wheel)??))
        })
    }

    /// The wheels of a release that install on a Python series, platform and libc, best first.
    pub fn usable<'a>(
        &'a self,
        release: &'a Release,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> Vec<&'a ReleaseFile> {
        let mut fits: Vec<Fitted<'_>> = self.fitting(release, python, platform, libc).collect();
        fits.sort_by(better_first);
        fits.into_iter().filter_map(|fitted| self.file(release, fitted.name)).collect()
    }

    /// The `Requires-Python` of a file of a release that alone keeps it from a Python: its tags are for it.
    pub fn refusal<'a>(
        &'a self,
        release: &'a Release,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> Option<&'a VersionSpecifiers> {
        let fits = |file: &&ReleaseFile| match &file.parsed {
            FileName::Wheel(name) => name.fit(python.minor, platform, libc).is_some(),
            FileName::Source(_) => true,
        };
        let refused = self.files(release).iter().filter(fits).find(|file| !file.allows_python(python));
        refused?.requires_python.as_ref()
    }

    /// The first of [`ProjectPage::usable`].
    pub fn best_usable<'a>(
        &'a self,
        release: &'a Release,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> Option<&'a ReleaseFile> {
        let number = self.best(release, python, platform, libc)?;
        self.files(release).iter().find(|file| file.number == number)
    }

    /// Whether a release has a wheel that installs on a Python series, platform and libc.
    pub fn has_usable(
        &self,
        release: &Release,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> bool {
        self.best(release, python, platform, libc).is_some()
    }

    /// The number of the line of the wheel that fits best.
    fn best(
        &self,
        release: &Release,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> Option<usize> {
        let lines = || {
            let text = self.text_of(release);
            let start = release.range.start.wrapping_sub(text.as_ptr() as usize);
            let lines = lines(text).enumerate();
            let lines = lines.filter(|(_, line)| may_fit_platform(file_name(line), platform, libc));
            let line = |(number, line): (usize, &str)| {
                let at = start.wrapping_add(line.as_ptr() as usize);
                Line { number, place: at..at + line.len() }
            };
            lines.map(line).collect()
        };
        release.fitting.best(python, platform, libc, lines, |lines| {
            let fitted = |line: &Line| {
                let text = std::str::from_utf8(&self.lines[line.place.clone()]).ok()?;
                self.fitted(line.number, text, python, platform, libc)
            };
            lines.iter().filter_map(fitted).min_by(better_first).map(|fitted| fitted.number)
        })
    }

    /// The wheels of a release that fit.
    fn fitting<'a>(
        &'a self,
        release: &Release,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> impl Iterator<Item = Fitted<'a>> {
        let lines = self.lines_of(release).enumerate();
        lines.filter_map(move |(number, line)| self.fitted(number, line, python, platform, libc))
    }

    /// The wheel of a line, if it fits.
    fn fitted<'a>(
        &self,
        number: usize,
        line: &'a str,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
    ) -> Option<Fitted<'a>> {
        let name = file_name(line);
        let fit = Parts::of(name)?.fit(python.minor, platform, libc)?;
        let mut tabs = memchr::memchr_iter(b'\t', line.as_bytes()).skip(REQUIRES_PYTHON - 1);
        let requires = &line[tabs.next()? + 1..tabs.next()?];
        // A line without its last field is damaged, and no file.
        tabs.nth(1)?;
        self.requirements.accept(requires, python).then_some(Fitted { number, fit, name })
    }

    fn file<'a>(&'a self, release: &'a Release, name: &str) -> Option<&'a ReleaseFile> {
        self.files(release).iter().find(|file| file.filename == name)
    }
}

/// A wheel that installs on a machine.
struct Fitted<'p> {
    /// The number of its line among those of the release.
    number: usize,
    fit: Fit,
    name: &'p str,
}

/// The order of wheels: the better fit first, then the file name.
fn better_first(a: &Fitted<'_>, b: &Fitted<'_>) -> std::cmp::Ordering {
    b.fit.cmp(&a.fit).then_with(|| a.name.cmp(b.name))
}

impl ReleaseFile {
    /// The wheel's name; `None` for a source distribution.
    pub fn wheel(&self) -> Option<&WheelName> {
        match &self.parsed {
            FileName::Wheel(name) => Some(name),
            FileName::Source(_) => None,
        }
    }

    /// The version in the file name.
    pub fn version(&self) -> &Version {
        match &self.parsed {
            FileName::Wheel(name) => &name.version,
            FileName::Source(version) => version,
        }
    }

    /// Whether `Requires-Python` accepts some patch release of the series (or the named patch).
    pub fn allows_python(&self, python: Python) -> bool {
        self.requires_python.as_ref().is_none_or(|r| specifiers_allow(r, python))
    }
}

/// Whether some patch release of the series satisfies the specifiers; the named patch, if any.
///
/// A series stands for any patch release, so `>=3.9.1` and `!=3.9.7` accept `3.9`.
pub fn specifiers_allow(specifiers: &VersionSpecifiers, python: Python) -> bool {
    let version = |patch: u32| Version::new([3, u64::from(python.minor), u64::from(patch)]);
    match python.patch {
        Some(patch) => specifiers.contains(&version(patch)),
        None => {
            patches::to_look_at(specifiers, python.minor).any(|patch| specifiers.contains(&version(patch)))
        }
    }
}

/// The version in a file name, if it is a source distribution of `project`.
fn source_version(project: &str, filename: &str) -> Option<Version> {
    let (name, version) = archive_stem(filename)?.rsplit_once('-')?;
    (normalized_name(name) == normalized_name(project)).then(|| version.parse().ok()).flatten()
}

/// The name of a source distribution without the ending of an archive that can be read.
pub fn archive_stem(filename: &str) -> Option<&str> {
    [".tar.gz", ".tgz", ".zip"].iter().find_map(|suffix| filename.strip_suffix(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::Python;

    fn file(name: &str) -> RawFile {
        RawFile { filename: name.to_owned(), url: format!("http://host/{name}"), ..RawFile::default() }
    }

    #[test]
    fn wheel_variants_leave_the_plain_wheel() {
        // Names of the published test index; PEP 825 puts the label behind the platform tag.
        let page = ProjectPage::from_files(
            "torch",
            [
                file("torch-2.10.0-cp314-cp314-manylinux_2_28_x86_64-cuda13.0.whl"),
                file("torch-2.10.0-cp314-cp314-manylinux_2_28_x86_64-null.whl"),
                file("torch-2.10.0-1-cp314-cp314-manylinux_2_28_x86_64-cuda12.6.whl"),
                file("torch-2.10.0-variants.json"),
                file("torch-2.10.0-cp314-cp314-manylinux_2_28_x86_64.whl"),
            ],
        );
        assert_eq!(page.releases().len(), 1);
        let files: Vec<&str> = page.files(&page.releases()[0]).iter().map(|f| f.filename.as_str()).collect();
        assert_eq!(files, ["torch-2.10.0-cp314-cp314-manylinux_2_28_x86_64.whl"]);
    }

    #[test]
    fn releases_are_sorted_and_source_only_ones_are_known() {
        let page = ProjectPage::from_files(
            "demo-pkg",
            [
                file("demo_pkg-1.10-py3-none-any.whl"),
                file("demo_pkg-1.9-py3-none-any.whl"),
                file("demo-pkg-2.0.tar.gz"),
                file("demo_pkg-nonsense-py3-none-any.whl"),
                file("other-1.0.tar.gz"),
                file("=x-1.0-py3-none-any.whl"),
                file("other-1.0-py3-none-any.whl"),
                RawFile { yanked: true, ..file("demo_pkg-1.11-py3-none-any.whl") },
            ],
        );
        let versions: Vec<String> = page.releases().iter().map(|r| r.version.to_string()).collect();
        assert_eq!(versions, ["1.9", "1.10", "1.11", "2.0"]);
        assert!(
            page.files(&page.releases()[3]).len() == 1
                && page.releases()[3].has_source
                && !page.releases()[3].has_wheel
        );
        assert_eq!(page.source(&page.releases()[3]).unwrap().filename, "demo-pkg-2.0.tar.gz");
        assert!(page.find("demo-pkg-2.0.tar.gz").is_some() && page.source(&page.releases()[0]).is_none());
        assert!(page.releases()[2].yanked && !page.releases()[1].yanked);
        let whole = Bytes::copy_from_slice(page.as_bytes());
        let again = ProjectPage::parse(whole.clone()).unwrap();
        assert_eq!(again.as_bytes(), page.as_bytes());
        assert_eq!(again.files(&again.releases()[1])[0].filename, "demo_pkg-1.10-py3-none-any.whl");
        for cut in 0..whole.len() {
            assert!(ProjectPage::parse(whole.slice(..cut)).is_none(), "cut at {cut}");
        }
        assert!(ProjectPage::parse("99999999999999999999\n".into()).is_none());
        assert!(ProjectPage::parse("1\n1.0\tw\t18446744073709551615\n".into()).is_none());
    }

    #[test]
    fn a_damaged_line_is_no_file() {
        let names = ["demo-1.0-cp311-cp311-win_amd64.whl", "demo-1.0-py3-none-any.whl"];
        let page = ProjectPage::from_files("demo", names.map(file));
        let text = String::from_utf8(page.as_bytes().to_vec()).unwrap();
        let (linux, python) = (Platform::LINUX_X86_64, Python::new(11));
        for (damaged, other) in [(names[0], Some(names[1])), (names[1], None)] {
            let line = text.lines().find(|line| line.starts_with(damaged)).unwrap();
            let text = text.replace(line, &line.replace('\t', " "));
            let page = ProjectPage::parse(text.into()).unwrap();
            let release = &page.releases()[0];
            assert_eq!(page.files(release).len(), 1);
            let best = page.best_usable(release, python, linux, None);
            assert_eq!(best.map(|file| file.filename.as_str()), other);
            assert_eq!(page.has_usable(release, python, linux, None), other.is_some());
        }
    }

    #[test]
    fn requires_python_speaks_of_patches() {
        let allows = |spec: &str, python: Python| specifiers_allow(&spec.parse().unwrap(), python);
        assert!(allows(">=3.9.1", Python::new(9)));
        assert!(allows("!=3.9.7", Python::new(9)));
        assert!(!allows(">=3.10", Python::new(9)));
        assert!(!allows(">=3.9.1", Python { minor: 9, patch: Some(0) }));
        assert!(allows(">=3.8,<3.13", Python::new(12)));
        assert!(!allows("<3.13", Python::new(13)));
        for spec in
            [">=3.11.4,<3.11.9", "==3.11.4", ">3.11.3,<3.11.5", "~=3.11.4,!=3.11.5", "<=3.11.2,>3.11.1"]
        {
            assert!(allows(spec, Python::new(11)) && !allows(spec, Python::new(12)), "{spec}");
        }
        assert!(!allows(">=3.11.9,<3.11.4", Python::new(11)));
    }
}
