//! conda's records of an environment: `conda-meta/*.json`, one for each package, with its files as they were linked.
//!
//! Source of the format: conda's and rattler's prefix records (`paths_data`, version 1).

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Component, Path};

use serde::Deserialize;

use super::record_check::{Depth, digest};
use super::tree::{FileTree, Kind};
use crate::model::conda::channel_place;
use crate::model::installed::{Activation, CondaPackage, FileFault};
use crate::model::text::{channel_without_secrets, clean};

/// Maximum number of records that are read.
const MAX_RECORDS: usize = 20_000;
/// Maximum size of a record, in bytes: that of torch has several MB.
const MAX_RECORD: u64 = 64 << 20;
/// Maximum number of files that are looked at, of all packages together.
const MAX_FILES: usize = 2_000_000;

/// Folders whose files other programs update: npm's packages, R's.
const OF_OTHERS: [&str; 2] = ["lib/node_modules/", "lib/R/library/"];

#[derive(Deserialize)]
struct Record {
    name: String,
    version: String,
    #[serde(default)]
    build: String,
    /// `conda-forge`, or the address of the channel with its platform.
    channel: Option<String>,
    paths_data: Option<PathsData>,
    /// The paths alone, as older records have them.
    #[serde(default)]
    files: Vec<String>,
}

#[derive(Deserialize)]
struct PathsData {
    #[serde(default)]
    paths: Vec<Entry>,
}

#[derive(Deserialize, Default)]
struct Entry {
    #[serde(rename = "_path")]
    path: String,
    path_type: Option<String>,
    /// Of the package's file.
    sha256: Option<String>,
    /// Of the file as it was linked.
    sha256_in_prefix: Option<String>,
    /// Before a prefix was replaced. A number, or what other programs wrote.
    size_in_bytes: Option<serde_json::Value>,
    /// The folder that is replaced by the environment's; the file has another length then.
    prefix_placeholder: Option<String>,
    /// `text` or `binary`: a binary file keeps its length.
    file_mode: Option<String>,
}

/// Maximum size of the history that is read, in bytes.
const MAX_HISTORY: u64 = 16 << 20;
/// Maximum number of scripts that are read, and their size in bytes.
const MAX_SCRIPTS: usize = 500;
const MAX_SCRIPT: u64 = 1 << 20;
/// The variables that decide which libraries and modules are found first.
const SEARCHES: [&str; 4] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME"];

/// The variables of an environment, as `conda env config vars set` writes them.
#[derive(Deserialize)]
struct State {
    #[serde(default)]
    env_vars: BTreeMap<String, serde_json::Value>,
}

/// Where the scripts are that are run when an environment is activated.
const ACTIVATION: &str = "etc/conda/activate.d";

/// What the activation of an environment sets of [`SEARCHES`].
pub(super) fn activation(tree: &dyn FileTree, prefix: &Path, records: &CondaRecords) -> Vec<Activation> {
    let folder = ACTIVATION;
    let names =
        tree.names(&prefix.join(folder), MAX_SCRIPTS).into_iter().filter(|name| name.ends_with(".sh"));
    let mut out: Vec<Activation> = names
        .filter_map(|name| {
            let path = format!("{folder}/{name}");
            let text = tree.text(&prefix.join(&path), MAX_SCRIPT)?;
            let (line, name) =
                text.lines().map(str::trim).find_map(|line| Some((line, search_set_by(line)?)))?;
            let package = records.owner_of(&path).map(str::to_owned);
            let (path, line) = (clean(&path, 200), clean(line, 120));
            Some(Activation::Script { path, line, name: name.to_owned(), package })
        })
        .collect();
    let state = tree.text(&prefix.join("conda-meta/state"), MAX_SCRIPT);
    let state = state.and_then(|text| serde_json::from_str::<State>(&text).ok());
    let set = state.into_iter().flat_map(|state| state.env_vars);
    // conda's mark for a variable that was unset again.
    let is_set = |value: &serde_json::Value| {
        value.as_str().is_none_or(|text| !text.is_empty() && text != "***unset***")
    };
    let set = set.filter(|(_, value)| is_set(value));
    let of_state = set.filter(|(name, _)| SEARCHES.contains(&name.as_str())).map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Activation::Variable { name, value: clean(&value, 120) }
    });
    out.extend(of_state);
    out.sort();
    out
}

/// The last command that changed an environment after the one that made it, by `conda-meta/history`: `conda install scipy`.
///
/// Source of the format: conda's `history.py`; each revision starts with `==> DATE <==`, then `# cmd: COMMAND`.
pub(super) fn last_change(tree: &dyn FileTree, prefix: &Path) -> Option<String> {
    let text = tree.text(&prefix.join("conda-meta/history"), MAX_HISTORY)?;
    let mut commands = text.lines().filter_map(|line| line.strip_prefix("# cmd: "));
    commands.next()?;
    let last = commands.next_back()?;
    let (program, arguments) = last.split_once(' ').unwrap_or((last, ""));
    let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
    Some(clean(&channel_without_secrets(&format!("{program} {arguments}")), 100))
}

/// The variable of [`SEARCHES`] that a line of a shell script gives a value: `export LD_LIBRARY_PATH=/opt/lib`.
fn search_set_by(line: &str) -> Option<&'static str> {
    line.split(['&', ';', '|']).find_map(|command| {
        let command = command.trim();
        let exported =
            ["export ", "declare -x ", "typeset -x "].iter().find_map(|by| command.strip_prefix(by));
        let mut words = exported.unwrap_or(command).split_whitespace();
        // Before a command, `NAME=VALUE` is for that command alone.
        if command.starts_with('#') || exported.is_none() && words.clone().any(|word| !word.contains('=')) {
            return None;
        }
        words.find_map(|word| {
            let (name, value) = word.split_once('=')?;
            let name = name.trim_end_matches('+');
            let has_value = !value.trim_matches(['"', '\'']).is_empty();
            SEARCHES.into_iter().find(|search| has_value && *search == name)
        })
    })
}

/// What conda's records say.
#[derive(Debug, Default)]
pub struct CondaRecords {
    /// The packages, with the faults of their files, sorted by name.
    pub packages: Vec<CondaPackage>,
    /// The files that cannot be read as records, by name.
    pub unread: Vec<String>,
    /// How many files the packages have.
    pub files: usize,
    /// The scripts of [`ACTIVATION`] and their packages.
    scripts: BTreeMap<String, String>,
}

impl CondaRecords {
    /// The package that has a script of [`ACTIVATION`].
    fn owner_of(&self, path: &str) -> Option<&str> {
        self.scripts.get(path).map(String::as_str)
    }
}

/// Reads the records of an environment, and compares the files with them.
pub fn conda_records(tree: &dyn FileTree, prefix: &Path, depth: Depth) -> CondaRecords {
    let folder = prefix.join("conda-meta");
    let names = tree.names(&folder, MAX_RECORDS).into_iter().filter(|name| name.ends_with(".json"));
    let mut unread = Vec::new();
    // One after the other: that of torch alone has several MB.
    let records = names.filter_map(|name| {
        let text = tree.text(&folder.join(&name), MAX_RECORD);
        let record = text.and_then(|text| serde_json::from_str::<Record>(&text).ok());
        if record.is_none() {
            unread.push(clean(&name, 200));
        }
        record
    });
    // The paths that are as some record has them: a file of two packages is that of the one that was linked last.
    let mut whole: HashSet<String> = HashSet::new();
    let mut left = MAX_FILES;
    let mut scripts: BTreeMap<String, String> = BTreeMap::new();
    let mut out: Vec<CondaPackage> = records
        .map(|record| {
            let mut package = CondaPackage {
                name: clean(&record.name, 100),
                version: clean(&record.version, 60),
                build: clean(&record.build, 60),
                channel: record.channel.as_deref().map(|text| channel_without_secrets(channel_place(text))),
                ..CondaPackage::default()
            };
            let paths = record.paths_data.map(|data| data.paths).unwrap_or_default();
            let names = if paths.is_empty() { record.files } else { Vec::new() };
            let named = names.into_iter().map(|path| Entry { path, ..Entry::default() });
            for entry in paths.into_iter().chain(named) {
                let Some(more) = left.checked_sub(1) else { break };
                left = more;
                if !stays_inside(&entry.path) || OF_OTHERS.iter().any(|folder| entry.path.starts_with(folder))
                {
                    continue;
                }
                if entry.path.starts_with(ACTIVATION) {
                    scripts.insert(entry.path.clone(), package.name.clone());
                }
                match fault(tree, prefix, depth, &entry) {
                    Some(fault) => package.faults.push(fault),
                    None => {
                        whole.insert(entry.path);
                    }
                }
            }
            package
        })
        .collect();
    for package in &mut out {
        package.faults.retain(|fault| !whole.contains(fault.path()));
    }
    out.sort_by(|a, b| (&a.name, &a.version, &a.build).cmp(&(&b.name, &b.version, &b.build)));
    unread.sort();
    CondaRecords { packages: out, unread, files: MAX_FILES - left, scripts }
}

/// Whether a recorded path is one below the environment: records are untrusted.
fn stays_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn fault(tree: &dyn FileTree, prefix: &Path, depth: Depth, entry: &Entry) -> Option<FileFault> {
    let path = prefix.join(&entry.path);
    let found = match tree.about(&path) {
        Ok(found) => found,
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            return Some(FileFault::Unreadable(entry.path.clone(), "permission denied".to_owned()));
        }
        // A link of the package may lead to what another package has not installed.
        Err(_) if tree.is_link(&path) && entry.path_type.as_deref() == Some("softlink") => return None,
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Some(FileFault::Missing(entry.path.clone()));
        }
        Err(why) => return Some(FileFault::Unreadable(entry.path.clone(), clean(&why.to_string(), 80))),
    };
    let kind = entry.path_type.as_deref();
    // Python writes `.pyc` files again.
    if kind == Some("softlink") || kind == Some("directory") || entry.path.ends_with(".pyc") {
        return None;
    }
    if found.kind != Kind::File {
        return Some(FileFault::Unreadable(entry.path.clone(), "not a regular file".to_owned()));
    }
    let size = entry.size_in_bytes.as_ref().and_then(serde_json::Value::as_u64)?;
    // The folder of the environment was written into it: size and hash are of another text. mamba's records have no
    // placeholder, but two hashes.
    let has_placeholder = entry.prefix_placeholder.as_deref().is_some_and(|folder| !folder.is_empty());
    let has_two = entry.sha256.is_some()
        && entry.sha256_in_prefix.as_ref().is_some_and(|hash| entry.sha256.as_ref() != Some(hash));
    if has_placeholder || has_two {
        // A binary file keeps its length.
        let is_cut = entry.file_mode.as_deref() == Some("binary") && size != found.size || found.size == 0;
        if is_cut && size > 0 {
            return Some(FileFault::Size(entry.path.clone(), size, found.size));
        }
        return altered(tree, &path, (depth, found.size), entry.sha256_in_prefix.as_ref()?, entry);
    }
    if size != found.size {
        return Some(FileFault::Size(entry.path.clone(), size, found.size));
    }
    altered(tree, &path, (depth, found.size), entry.sha256.as_ref()?, entry)
}

/// Whether the hash of a file is not the recorded one, 64 hexadecimal digits.
fn altered(
    tree: &dyn FileTree,
    path: &Path,
    (depth, size): (Depth, u64),
    expected: &str,
    entry: &Entry,
) -> Option<FileFault> {
    if depth != Depth::Hashes || expected.len() != 64 {
        return None;
    }
    let hex = |bytes: Vec<u8>| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    match digest(tree, path, size).map(hex) {
        Ok(hash) if hash.eq_ignore_ascii_case(expected) => None,
        Ok(_) => Some(FileFault::Hash(entry.path.clone())),
        Err(why) => Some(FileFault::Unreadable(entry.path.clone(), clean(&why.to_string(), 80))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;

    fn record(prefix: &Path, name: &str, entries: &str) {
        let text = format!(
            r#"{{"name": "{name}", "version": "1.0", "build": "h1_0", "paths_data": {{"paths": [{entries}]}}}}"#
        );
        fs_err::create_dir_all(prefix.join("conda-meta")).unwrap();
        fs_err::write(prefix.join(format!("conda-meta/{name}-1.0-h1_0.json")), text).unwrap();
    }

    #[test]
    fn the_last_command_after_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("conda-meta/history");
        fs_err::create_dir_all(dir.path().join("conda-meta")).unwrap();
        assert_eq!(last_change(&ThisMachine, dir.path()), None);
        let made =
            "==> 2026-01-01 10:00:00 <==\n# cmd: /opt/conda/bin/conda create -n x --file l\n+c::a-1-0\n";
        fs_err::write(&history, made).unwrap();
        assert_eq!(last_change(&ThisMachine, dir.path()), None);
        let more = "==> 2026-01-02 10:00:00 <==\n# cmd: /opt/conda/bin/conda install -c https://u:secret@host/c scipy\n";
        fs_err::write(&history, format!("{made}{more}")).unwrap();
        let last = last_change(&ThisMachine, dir.path()).unwrap();
        assert!(
            last.starts_with("conda install") && last.ends_with(" scipy") && !last.contains("secret"),
            "{last}"
        );
    }

    #[test]
    fn files_as_they_were_linked() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        fs_err::create_dir_all(prefix.join("lib")).unwrap();
        for (name, text) in [
            ("whole", "abc"),
            ("cut", "a"),
            ("moved", "longer than before"),
            ("both", "xy"),
            ("mamba", "abcd"),
            ("placed", "/new/bin"),
        ] {
            fs_err::write(prefix.join("lib").join(name), text).unwrap();
        }
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let placed = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(b"/new/bin"));
        record(
            prefix,
            "one",
            &format!(
                r#"{{"_path": "lib/whole", "path_type": "hardlink", "sha256": "{sha}", "size_in_bytes": 3}},
                {{"_path": "lib/cut", "size_in_bytes": 3}},
                {{"_path": "lib/moved", "size_in_bytes": 3, "prefix_placeholder": "/old", "file_mode": "text"}},
                {{"_path": "lib/gone.so", "size_in_bytes": "3", "path_type": null}},
                {{"_path": "lib/mamba", "sha256": "{sha}", "sha256_in_prefix": "00", "size_in_bytes": 9}},
                {{"_path": "lib/placed", "sha256_in_prefix": "{placed}", "size_in_bytes": 8, "prefix_placeholder": "/old",
                "file_mode": "text"}},
                {{"_path": "lib/node_modules/x.so", "size_in_bytes": 3}}, {{"_path": "../../etc/passwd", "size_in_bytes": 3}},
                {{"_path": "/etc/passwd", "size_in_bytes": 3}}, {{"_path": "lib/both", "size_in_bytes": 9}}"#
            ),
        );
        record(prefix, "two", r#"{"_path": "lib/both", "size_in_bytes": 2}, {"_path": "lib/gone.so"}"#);
        fs_err::write(prefix.join("conda-meta/broken.json"), "{").unwrap();
        let CondaRecords { packages: found, unread, .. } = conda_records(&ThisMachine, prefix, Depth::Hashes);
        assert_eq!(unread, ["broken.json"]);
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        let expected = [FileFault::Size("lib/cut".into(), 3, 1), FileFault::Missing("lib/gone.so".into())];
        assert_eq!(found[0].faults, expected);
        assert_eq!(found[1].faults, [FileFault::Missing("lib/gone.so".into())]);

        fs_err::write(prefix.join("lib/whole"), "abd").unwrap();
        assert_eq!(conda_records(&ThisMachine, prefix, Depth::Sizes).packages[0].faults, expected);
        fs_err::write(prefix.join("lib/placed"), "/new/sbi").unwrap();
        let deep = conda_records(&ThisMachine, prefix, Depth::Hashes).packages;
        assert!(deep[0].faults.contains(&FileFault::Hash("lib/placed".into())), "{deep:?}");
        assert!(deep[0].faults.contains(&FileFault::Hash("lib/whole".into())), "{deep:?}");
    }

    #[test]
    fn what_activation_sets() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("etc/conda/activate.d");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::create_dir_all(dir.path().join("conda-meta")).unwrap();
        for (name, text) in [
            (
                "a.sh",
                "# LD_LIBRARY_PATH=/no\nif true; then\n  export LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH\nfi\n",
            ),
            (
                "b.sh",
                "export CC=gcc\necho LD_LIBRARY_PATH=x\nunset PYTHONPATH\nexport PYTHONHOME=\"\"\nPYTHONPATH=/x make\n",
            ),
            ("d.sh", "true && export A=1 PYTHONPATH+=:/opt/z\n"),
            ("c.fish", "set -gx LD_LIBRARY_PATH /opt/lib\n"),
        ] {
            fs_err::write(folder.join(name), text).unwrap();
        }
        let state =
            r#"{"env_vars": {"CUDA_HOME": "/x", "PYTHONPATH": "/mine", "PYTHONHOME": "***unset***"}}"#;
        fs_err::write(dir.path().join("conda-meta/state"), state).unwrap();
        let expected = [
            Activation::Script {
                path: "etc/conda/activate.d/a.sh".to_owned(),
                line: "export LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH".to_owned(),
                name: "LD_LIBRARY_PATH".to_owned(),
                package: Some("cuda".to_owned()),
            },
            Activation::Script {
                path: "etc/conda/activate.d/d.sh".to_owned(),
                line: "true && export A=1 PYTHONPATH+=:/opt/z".to_owned(),
                name: "PYTHONPATH".to_owned(),
                package: None,
            },
            Activation::Variable { name: "PYTHONPATH".to_owned(), value: "/mine".to_owned() },
        ];
        record(dir.path(), "cuda", r#"{"_path": "etc/conda/activate.d/a.sh"}"#);
        let records = conda_records(&ThisMachine, dir.path(), Depth::Sizes);
        assert_eq!(activation(&ThisMachine, dir.path(), &records), expected);
    }
}
