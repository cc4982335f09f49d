//! Reads installed distributions: metadata, installer, and differences between RECORD and the files on disk.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};

use super::prefix::{PrefixError, Sites, interpreter, patch, sites};
use super::record_check::{Depth, MAX_FILES, Owned, files};
use super::record_file::{Entry, MAX_RECORD, entries};
use super::tree::FileTree;
use super::visible::{egg_info, egg_link};
use crate::model::installed::{
    CondaHere, DPKG, DirectOrigin, Distribution, FileFault, Installed, InstalledVersion, Visible,
};
use crate::model::metadata::CoreMetadata;
use crate::model::text::{clean, normalized_name, requirement_name};

/// Maximum size of METADATA that is read, in bytes.
const MAX_METADATA: u64 = 16 << 20;
/// Maximum number of entries of site-packages.
const MAX_ENTRIES: usize = 100_000;

/// Maximum number of packages of an environment. The largest real ones have some thousand; packages are compared with each
/// other.
const MAX_DISTRIBUTIONS: usize = 10_000;

/// Maximum number of requirements of all packages of an environment. 59 packages of a real one have 820.
const MAX_REQUIREMENTS: usize = 200_000;

/// The folder of Debian's packages, in which nothing else installs (Debian's Python policy).
const OF_DPKG: &str = "lib/python3/dist-packages";

/// Reads an environment.
///
/// # Errors
/// When the folder is not a Python environment, or has too many packages or requirements.
pub fn read(tree: &dyn FileTree, prefix: &Path, depth: Depth) -> Result<Installed, PrefixError> {
    let Sites { main: site, others, python } = sites(tree, prefix)?;
    let (mut folders, mut eggs) = (Vec::new(), Vec::new());
    for site in std::iter::once(&site).chain(&others) {
        // A folder that may not be listed is not empty.
        let entries = tree
            .list(site, MAX_ENTRIES)
            .map_err(|why| PrefixError::Unreadable(site.display().to_string(), why.kind().to_string()))?;
        // pip renames what it fails to remove to `~name` and ignores it from then on.
        let kept = entries.into_iter().filter(|entry| !entry.name.to_string_lossy().starts_with('~'));
        let (mut of_site, of_eggs): (Vec<PathBuf>, Vec<PathBuf>) = kept
            .map(|entry| site.join(entry.name))
            .filter(|path| {
                path.extension().is_some_and(|e| e == "dist-info" || e == "egg-info" || e == "egg-link")
            })
            .partition(|path| path.extension().is_some_and(|e| e == "dist-info"));
        eggs.extend(of_eggs);
        of_site.sort();
        folders.extend(of_site);
    }
    if folders.len() > MAX_DISTRIBUTIONS {
        return Err(PrefixError::TooMany(prefix.display().to_string(), MAX_DISTRIBUTIONS));
    }
    let Some(mut done) = read_all(tree, &folders, prefix, depth) else {
        return Err(PrefixError::TooManyRequirements(prefix.display().to_string(), MAX_REQUIREMENTS));
    };
    let names: Vec<String> = done.iter().map(|(d, ..)| d.name.clone()).collect();
    // In the order of the folders, whatever order the threads had: a file belongs to all earlier packages that record
    // another content. Equal content is harmless (nvidia/__init__.py).
    let mut owners: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
    let mut twice: Vec<(u32, String)> = Vec::new();
    for (at, (distribution, _, owned)) in done.iter_mut().enumerate() {
        for (path_key, hash_key, number) in std::mem::take(owned) {
            let known = owners.entry(path_key).or_default();
            for (other_hash, other) in known.iter().filter(|(_, other)| names[*other] != names[at]) {
                if *other_hash != hash_key {
                    twice.push((number, names[*other].clone()));
                }
            }
            known.push((hash_key, at));
        }
        // The paths are read again: few files have two owners, and all paths together are large.
        if !twice.is_empty() {
            let record = distribution.site.join(&distribution.dist_info).join("RECORD");
            let text = tree.text(&record, MAX_RECORD).unwrap_or_default();
            let wanted: HashSet<u32> = twice.iter().map(|(number, _)| *number).collect();
            let lines = (0..).zip(entries(&text)).filter(|(number, _)| wanted.contains(number));
            let paths: HashMap<u32, String> =
                lines.map(|(number, entry)| (number, entry.path.into_owned())).collect();
            for (number, other) in twice.drain(..) {
                let path = paths.get(&number).cloned();
                distribution.faults.extend(path.map(|path| FileFault::OwnedTwice(path, other)));
            }
        }
    }
    // Of a package in two folders Python imports the one of the first.
    let of_main: HashSet<String> =
        done.iter().filter(|(d, ..)| d.site == site).map(|(d, ..)| d.name.clone()).collect();
    done.retain(|(d, ..)| d.site == site || !of_main.contains(&d.name));
    let files_seen = done.iter().map(|(_, seen, _)| seen).sum();
    let mut distributions: Vec<Distribution> = done.into_iter().map(|(d, ..)| d).collect();
    distributions.sort_by(|a, b| a.name.cmp(&b.name));
    // conda's packages and a system's have such files beside records of their own.
    if !tree.is_file(&prefix.join("pyvenv.cfg")) || tree.exists(&prefix.join("conda-meta")) {
        eggs.clear();
    }
    let eggs = unrecorded(tree, &eggs, &distributions);
    Ok(Installed {
        prefix: prefix.display().to_string(),
        site_packages: site,
        python,
        patch: patch(tree, prefix),
        interpreter: interpreter(tree, prefix),
        distributions,
        visible: Vec::new(),
        eggs,
        is_environment: ["pyvenv.cfg", "conda-meta"].iter().any(|name| tree.exists(&prefix.join(name))),
        own_package: None,
        overridden: Vec::new(),
        pytorch_index: String::new(),
        lock_command: None,
        sync_options: String::new(),
        conda: CondaHere::default(),
        files_seen,
    })
}

/// The packages of `.egg-link` files, and of `.egg-info` folders and files that no RECORD lists: some wheels carry one.
fn unrecorded(tree: &dyn FileTree, eggs: &[PathBuf], distributions: &[Distribution]) -> Vec<Visible> {
    let mut recorded: HashSet<String> = HashSet::new();
    for own in distributions.iter().filter(|_| !eggs.is_empty()) {
        let text = tree.text(&own.site.join(&own.dist_info).join("RECORD"), MAX_RECORD).unwrap_or_default();
        let first = |entry: Entry<'_>| entry.path.split('/').next().unwrap_or_default().to_owned();
        recorded.extend(entries(&text).map(first).filter(|name| name.ends_with(".egg-info")));
    }
    let package = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let folder = path.parent()?.to_path_buf();
        if let Some(stem) = name.strip_suffix(".egg-link") {
            let (version, folder) = egg_link(tree, path, stem)?;
            let (package, version) = (normalized_name(stem), version.as_str().into());
            return Some(Visible { name: package, version, folder, dist_info: Some(name) });
        }
        let info = Some(name).filter(|name| !recorded.contains(name));
        let (name, version) = egg_info(tree, path, info.as_ref()?.strip_suffix(".egg-info")?)?;
        Some(Visible { name, version: version.as_str().into(), folder, dist_info: info })
    };
    let mut out: Vec<Visible> = eggs.iter().filter_map(package).collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

/// Adds packages that Python imports from other folders ([`Installed::visible`]), with their files: the frameworks among
/// them, and what the frameworks require. Their metadata folders are those of these names.
pub fn add_visible(
    tree: &dyn FileTree,
    installed: &mut Installed,
    is_framework: &dyn Fn(&str) -> bool,
    depth: Depth,
) {
    let mut wanted: Vec<String> = Vec::new();
    let required =
        |lines: &[String]| -> Vec<String> { lines.iter().map(|line| requirement_name(line)).collect() };
    for own in installed.distributions.iter().filter(|own| is_framework(&own.name)) {
        wanted.extend(required(&own.requires));
    }
    wanted.extend(installed.visible.iter().map(|one| one.name.clone()).filter(|name| is_framework(name)));
    let mut at = 0;
    while let Some(name) = wanted.get(at).cloned() {
        at += 1;
        let Some(place) =
            installed.visible.iter().position(|one| one.name == name && one.dist_info.is_some())
        else {
            continue;
        };
        let one = installed.visible.remove(place);
        let folder = one.folder.join(one.dist_info.unwrap_or_default());
        // Recorded scripts lie in `bin`, beside `lib`.
        let prefix = one.folder.ancestors().nth(3).filter(|_| one.folder.parent().is_some_and(is_of_series));
        let prefix = prefix.unwrap_or(&one.folder).to_path_buf();
        for (distribution, seen, _) in read_all(tree, &[folder], &prefix, depth).unwrap_or_default() {
            installed.files_seen += seen;
            for name in required(&distribution.requires) {
                if !wanted.contains(&name) {
                    wanted.push(name);
                }
            }
            installed.distributions.push(distribution);
        }
    }
    installed.distributions.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Whether a folder is `lib/python3.12`.
fn is_of_series(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
}

/// Reads packages by their metadata folders, in the order of these: each with the number of its checked files, and those
/// that it records with a hash. `None` if they have too many requirements together.
fn read_all(
    tree: &dyn FileTree,
    folders: &[PathBuf],
    prefix: &Path,
    depth: Depth,
) -> Option<Vec<(Distribution, usize, Vec<Owned>)>> {
    // Largest first, so that the threads finish at about the same time.
    let mut order: Vec<(u64, usize)> =
        folders.iter().enumerate().map(|(i, f)| (tree.size(&f.join("RECORD")).unwrap_or(0), i)).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let (left, requirements) = (AtomicUsize::new(MAX_FILES), AtomicUsize::new(0));
    let queue = Mutex::new(order.into_iter());
    let done: Mutex<Vec<(usize, Distribution, usize, Vec<Owned>)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some((_, i)) = queue.lock().ok().and_then(|mut q| q.next()) else { return };
                    let site = folders[i].parent().unwrap_or(&folders[i]);
                    let mut distribution = header(tree, &folders[i], site);
                    let own = distribution.requires.len();
                    if requirements.fetch_add(own, Ordering::Relaxed) + own > MAX_REQUIREMENTS {
                        return;
                    }
                    let (seen, owned) =
                        files(tree, &mut distribution, &folders[i], site, (prefix, depth), &left);
                    if let Ok(mut done) = done.lock() {
                        done.push((i, distribution, seen, owned));
                    }
                }
            });
        }
    });
    if requirements.into_inner() > MAX_REQUIREMENTS {
        return None;
    }
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(i, ..)| *i);
    Some(done.into_iter().map(|(_, distribution, seen, owned)| (distribution, seen, owned)).collect())
}

fn header(tree: &dyn FileTree, folder: &Path, site: &Path) -> Distribution {
    let dist_info = folder.file_name().map(|n| clean(&n.to_string_lossy(), 200)).unwrap_or_default();
    let stem = dist_info.trim_end_matches(".dist-info");
    let (name, version) = stem.split_once('-').unwrap_or((stem, ""));
    let mut distribution = Distribution {
        name: normalized_name(name),
        version: version.into(),
        dist_info: dist_info.clone(),
        site: site.to_path_buf(),
        installer: tree
            .start(&folder.join("INSTALLER"), 200)
            .map(|b| clean(String::from_utf8_lossy(&b).trim(), 40))
            .or_else(|| site.ends_with(OF_DPKG).then(|| DPKG.to_owned())),
        ..Distribution::default()
    };
    if let Some(bytes) = tree.start(&folder.join("METADATA"), MAX_METADATA) {
        let digest = hex::encode(Sha256::digest(&bytes));
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(metadata) = CoreMetadata::parse(&text, digest.clone()) {
            distribution.name = metadata.name.to_string();
            distribution.version = InstalledVersion::Valid(metadata.version.clone());
            distribution.requires = metadata.lines().map(str::to_owned).collect();
        }
        distribution.metadata_sha256 = Some(digest);
    } else if tree.exists(&folder.join("METADATA")) {
        // What the package requires is not known.
        let path = format!("{dist_info}/METADATA");
        distribution.faults.push(FileFault::Unreadable(path, "it is too large, or not a file".to_owned()));
    }
    distribution.direct = direct_origin(tree, &folder.join("direct_url.json"));
    if let Some(bytes) = tree.start(&folder.join("WHEEL"), 1 << 16) {
        let text = String::from_utf8_lossy(&bytes);
        let tags = text.lines().filter_map(|line| line.strip_prefix("Tag:"));
        distribution.tags = tags.map(|tag| clean(tag.trim(), 120)).collect();
    }
    if ["torch", "torchvision", "torchaudio"].contains(&distribution.name.as_str()) {
        distribution.variant = variant(tree, &site.join(&distribution.name).join("version.py"));
    }
    distribution
}

/// Reads `direct_url.json`. One that cannot be read still says that the package is not from an index.
fn direct_origin(tree: &dyn FileTree, path: &Path) -> Option<DirectOrigin> {
    #[derive(serde::Deserialize)]
    struct Recorded {
        url: String,
        vcs_info: Option<Repository>,
        dir_info: Option<Folder>,
        archive_info: Option<Archive>,
    }
    /// The hash in the form of today, and that of before.
    #[derive(serde::Deserialize)]
    struct Archive {
        hashes: Option<HashMap<String, String>>,
        hash: Option<String>,
    }
    #[derive(serde::Deserialize)]
    struct Repository {
        commit_id: Option<String>,
    }
    #[derive(serde::Deserialize)]
    struct Folder {
        editable: Option<bool>,
    }
    if !tree.is_file(path) {
        return None;
    }
    let recorded =
        tree.start(path, 1 << 16).and_then(|bytes| serde_json::from_slice::<Recorded>(&bytes).ok());
    Some(recorded.map_or_else(DirectOrigin::default, |recorded| {
        let is_editable = recorded.dir_info.and_then(|folder| folder.editable).unwrap_or(false);
        let folder = url::Url::parse(&recorded.url).ok().and_then(|url| url.to_file_path().ok());
        let gone = folder.filter(|folder| is_editable && !tree.exists(folder));
        DirectOrigin {
            url: clean(&recorded.url, 400),
            commit: recorded.vcs_info.and_then(|repository| repository.commit_id),
            sha256: recorded.archive_info.and_then(|archive| {
                let old = || archive.hash.as_ref()?.strip_prefix("sha256=").map(str::to_owned);
                archive.hashes.as_ref().and_then(|all| all.get("sha256").cloned()).or_else(old)
            }),
            is_editable,
            gone: gone.map(|folder| clean(&folder.to_string_lossy(), 300)),
        }
    }))
}

/// The CUDA variant in a package's `version.py`; METADATA on PyPI does not contain it.
fn variant(tree: &dyn FileTree, path: &Path) -> Option<String> {
    let bytes = tree.start(path, 1 << 16)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find(|l| l.trim_start().starts_with("__version__"))?;
    let value = line.split(['\'', '"']).nth(1)?;
    value.split_once('+').map(|(_, local)| clean(local, 40))
}

#[cfg(test)]
mod tests {
    use super::super::record_file::encode;
    use super::super::tree::ThisMachine;
    use super::*;
    use crate::model::installed::FileFault;

    fn install(site: &Path, name: &str, files: &[(&str, &str)]) {
        let info = format!("{name}-1.0.dist-info");
        let mut record = String::new();
        for (path, text) in files {
            let full = site.join(path);
            fs_err::create_dir_all(full.parent().unwrap()).unwrap();
            fs_err::write(&full, text).unwrap();
            record.push_str(&format!("{path},{},{}\n", encode(&Sha256::digest(text.as_bytes())), text.len()));
        }
        record.push_str(&format!(
            "{info}/RECORD,,\n../../../../etc/passwd,sha256=x,1\n/etc/passwd,sha256=x,1\n"
        ));
        fs_err::create_dir_all(site.join(&info)).unwrap();
        fs_err::write(site.join(&info).join("RECORD"), record).unwrap();
        fs_err::write(
            site.join(&info).join("METADATA"),
            format!("Name: {name}\nVersion: 1.0\nRequires-Dist: other\n"),
        )
        .unwrap();
    }

    #[test]
    fn debians_packages_are_those_of_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        for (folder, expected) in [
            ("usr/lib/python3/dist-packages", Some("dpkg")),
            ("usr/local/lib/python3.12/dist-packages", None),
            ("env/lib/python3.12/site-packages", None),
        ] {
            let site = dir.path().join(folder);
            install(&site, "yaml", &[("yaml/_c.so", "x")]);
            let found = header(&ThisMachine, &site.join("yaml-1.0.dist-info"), &site);
            assert_eq!(found.installer.as_deref(), expected, "{folder}");
            fs_err::write(site.join("yaml-1.0.dist-info/INSTALLER"), "pip\n").unwrap();
            let found = header(&ThisMachine, &site.join("yaml-1.0.dist-info"), &site);
            assert_eq!(found.installer.as_deref(), Some("pip"), "{folder}");
        }
    }

    #[test]
    fn faults_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("lib/python3.11/site-packages");
        fs_err::create_dir_all(&site).unwrap();
        install(
            &site,
            "a",
            &[("a/x.py", "one"), ("a/y.py", "two"), ("shared/__init__.py", ""), ("clash.py", "of a")],
        );
        install(&site, "b", &[("b/x.py", "three"), ("shared/__init__.py", ""), ("clash.py", "of b")]);
        let clean = read(&ThisMachine, dir.path(), Depth::Hashes).unwrap();
        assert_eq!(clean.distributions.len(), 2);
        assert_eq!(clean.distributions[1].faults, [FileFault::OwnedTwice("clash.py".into(), "a".into())]);
        assert_eq!(clean.distributions[0].requires, ["other"]);
        fs_err::remove_file(site.join("a/x.py")).unwrap();
        fs_err::write(site.join("a/y.py"), "longer").unwrap();
        fs_err::write(site.join("b/x.py"), "THREE").unwrap();
        let broken = read(&ThisMachine, dir.path(), Depth::Sizes).unwrap();
        assert!(broken.distributions[0].faults.contains(&FileFault::Missing("a/x.py".into())));
        assert!(broken.distributions[0].faults.contains(&FileFault::Size("a/y.py".into(), 3, 6)));
        assert!(!broken.distributions[1].faults.contains(&FileFault::Hash("b/x.py".into())));
        let deep = read(&ThisMachine, dir.path(), Depth::Hashes).unwrap();
        assert!(deep.distributions[1].faults.contains(&FileFault::Hash("b/x.py".into())));
    }

    #[test]
    fn certificates_may_be_appended() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("lib/python3.11/site-packages");
        fs_err::create_dir_all(&site).unwrap();
        install(
            &site,
            "a",
            &[("a/cacert.pem", "authority"), ("a/other.pem", "authority"), ("a/x.py", "pass")],
        );
        fs_err::write(site.join("a/cacert.pem"), "authority and ours").unwrap();
        fs_err::write(site.join("a/other.pem"), "Authority and ours").unwrap();
        fs_err::write(site.join("a/x.py"), "pass # and ours").unwrap();
        let expected = [
            FileFault::Extended("a/cacert.pem".into(), 9, 18),
            FileFault::Size("a/other.pem".into(), 9, 18),
            FileFault::Size("a/x.py".into(), 4, 15),
        ];
        for depth in [Depth::Sizes, Depth::Hashes] {
            let found = read(&ThisMachine, dir.path(), depth).unwrap();
            assert_eq!(found.distributions[0].faults, expected);
        }
    }

    /// A file of three packages, a leftover of pip, and an installation from a folder.
    #[test]
    fn owners_do_not_depend_on_threads() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("lib/python3.11/site-packages");
        fs_err::create_dir_all(&site).unwrap();
        for name in ["a", "b", "c", "~d"] {
            install(&site, name, &[("cv2/x.so", name)]);
        }
        fs_err::write(site.join("b-1.0.dist-info/direct_url.json"), "{}").unwrap();
        for _ in 0..20 {
            let found = read(&ThisMachine, dir.path(), Depth::Hashes).unwrap().distributions;
            let names: Vec<&str> = found.iter().map(|d| d.name.as_str()).collect();
            assert_eq!(names, ["a", "b", "c"]);
            let twice = |other: &str| FileFault::OwnedTwice("cv2/x.so".into(), other.into());
            assert!(!found[0].faults.iter().any(|f| matches!(f, FileFault::OwnedTwice(..))));
            assert!(found[1].faults.contains(&twice("a")) && !found[1].faults.contains(&twice("c")));
            assert!(found[2].faults.contains(&twice("a")) && found[2].faults.contains(&twice("b")));
            assert!(found[1].direct.is_some() && found[0].direct.is_none());
        }
    }

    /// A wheel whose own RECORD is wrong: installers write the files first and RECORD last.
    #[test]
    fn a_file_older_than_its_record_is_as_published() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("lib/python3.11/site-packages");
        fs_err::create_dir_all(&site).unwrap();
        install(&site, "a", &[("a/x.so", "one"), ("a/y.so", "two")]);
        let info = site.join("a-1.0.dist-info/RECORD");
        let record = fs_err::read_to_string(&info).unwrap().replace(",3\n", ",4\n");
        let record = record.replace("a-1.0.dist-info/RECORD,,\n", "a-1.0.dist-info/RECORD,,0\n");
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs_err::write(&info, record).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs_err::write(site.join("a/y.so"), "replaced").unwrap();
        let faults = read(&ThisMachine, dir.path(), Depth::Sizes).unwrap().distributions.remove(0).faults;
        assert!(faults.contains(&FileFault::AsPublished("a/x.so".into(), 4, 3)), "{faults:?}");
        assert!(faults.contains(&FileFault::Size("a/y.so".into(), 4, 8)), "{faults:?}");
        // A link to a file that is older.
        #[cfg(unix)]
        {
            let x = site.join("a/x.so");
            fs_err::rename(&x, dir.path().join("old.so")).unwrap();
            std::os::unix::fs::symlink(dir.path().join("old.so"), &x).unwrap();
            let faults = read(&ThisMachine, dir.path(), Depth::Sizes).unwrap().distributions.remove(0).faults;
            assert!(faults.contains(&FileFault::Size("a/x.so".into(), 4, 3)), "{faults:?}");
            fs_err::rename(dir.path().join("old.so"), &x).unwrap();
        }
        // Another name of a file, as uv gives it to each environment, changes nothing in it.
        #[cfg(unix)]
        {
            std::fs::hard_link(site.join("a/x.so"), dir.path().join("another")).unwrap();
            let faults = read(&ThisMachine, dir.path(), Depth::Sizes).unwrap().distributions.remove(0).faults;
            assert!(faults.contains(&FileFault::AsPublished("a/x.so".into(), 4, 3)), "{faults:?}");
        }
    }

    /// `tar` and caches of CI unpack an environment with the times of its contents.
    #[test]
    #[cfg(unix)]
    fn an_environment_that_was_unpacked_is_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("lib/python3.11/site-packages");
        fs_err::create_dir_all(&site).unwrap();
        install(&site, "a", &[("a/x.so", "one")]);
        let info = site.join("a-1.0.dist-info/RECORD");
        let record = fs_err::read_to_string(&info).unwrap().replace(",3\n", ",4\n");
        fs_err::write(&info, record).unwrap();
        for (path, seconds) in [(site.join("a/x.so"), 100), (info, 200)] {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
        let faults = read(&ThisMachine, dir.path(), Depth::Sizes).unwrap().distributions.remove(0).faults;
        assert!(faults.contains(&FileFault::AsPublished("a/x.so".into(), 4, 3)), "{faults:?}");
    }

    #[test]
    fn variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("version.py");
        fs_err::write(
            &path,
            "from typing import Optional\n__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n",
        )
        .unwrap();
        assert_eq!(variant(&ThisMachine, &path).as_deref(), Some("cu128"));
        fs_err::write(&path, "nothing here").unwrap();
        assert_eq!(variant(&ThisMachine, &path), None);
    }
}
