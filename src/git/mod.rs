//! Reads a project from a git repository with the system's `git`: one commit, without a work tree.
//!
//! Nothing of the repository is run: hooks, filters and submodules belong to checkouts, and there is none. git asks no
//! question on a terminal. Only https, http, ssh and file are spoken (`ext::` would run a command).

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;

use crate::child::{self, Limits, Silent};
use crate::model::direct::shown_repository;
use crate::model::text::clean;
use crate::sdist::Contents;

/// Time limit of one git command.
const LIMIT: Duration = Duration::from_secs(120);
/// That of a command that transfers all files of a commit.
const LONG: Duration = Duration::from_secs(1800);
/// Maximum size of a file that is read, in bytes.
const MAX_TEXT: u64 = 4 << 20;
/// Maximum size of a listing, in bytes.
const MAX_LISTING: u64 = 64 << 20;

/// A commit of a repository, and the project in it.
#[derive(Debug)]
pub struct Checkout {
    /// The commit, 40 or 64 hexadecimal digits.
    pub commit: String,
    /// The files that describe the project.
    pub contents: Contents,
}

/// Why a repository could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// `git` is not installed.
    #[error("`git` is needed to read `{0}`, and is not installed")]
    NoGit(String),
    /// A commit has other repositories in it.
    #[error("the commit `{commit}` of `{repository}` has submodules, which are other repositories")]
    Submodules {
        /// Its URL, without login.
        repository: String,
        /// The commit.
        commit: String,
    },
    /// The server did not answer, or has no such revision.
    #[error("cannot read the repository `{repository}`{}: {why}", revision.as_ref().map(|r| format!(" at `{r}`")).unwrap_or_default())]
    Failed {
        /// Its URL, without login.
        repository: String,
        /// The revision that was asked for.
        revision: Option<String>,
        /// What git said.
        why: String,
    },
}

/// Reads the project in a folder of a repository at a revision: a branch, a tag, a commit, or the default branch. Nothing
/// below `project` is run, neither as git nor by it.
///
/// # Errors
/// See [`GitError`].
pub fn read(
    repository: &str,
    revision: Option<&str>,
    subdirectory: Option<&str>,
    project: &Path,
) -> Result<Checkout, GitError> {
    let failed = |why: String| GitError::Failed {
        repository: shown_repository(repository),
        revision: revision.map(str::to_owned),
        why,
    };
    let folder = tempfile::tempdir().map_err(|e| failed(e.to_string()))?;
    let program = Program::outside(project).ok_or_else(|| GitError::NoGit(shown_repository(repository)))?;
    let git = |arguments: &[&str], limit: u64| run(&program, folder.path(), repository, arguments, limit);
    let told = |error: Failure| error.into_error(shown_repository(repository), &failed);
    git(&["init", "--quiet", "--bare", "."], MAX_TEXT).map_err(told)?;
    let fetch = |what: &str, depth: bool| {
        let mut arguments =
            vec!["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--filter=blob:none"];
        arguments.extend(depth.then_some("--depth=1"));
        arguments.extend(["origin", what]);
        git(&arguments, MAX_TEXT)
    };
    let wanted = revision.unwrap_or("HEAD");
    let commit = match fetch(wanted, true) {
        Ok(_) => "FETCH_HEAD".to_owned(),
        Err(Failure::NoGit) => return Err(told(Failure::NoGit)),
        // An abbreviated commit, or a server that does not send single commits: all branches, without their files.
        Err(first) if is_commit(wanted) => match fetch("+refs/heads/*:refs/heads/*", false) {
            Ok(_) => wanted.to_owned(),
            Err(_) => return Err(told(first)),
        },
        Err(first) => return Err(told(first)),
    };
    let parsed =
        git(&["rev-parse", "--verify", "--end-of-options", &format!("{commit}^{{commit}}")], MAX_TEXT);
    let commit = String::from_utf8_lossy(&parsed.map_err(told)?).trim().to_owned();
    if ![40, 64].contains(&commit.len()) || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(failed("git named no commit".to_owned()));
    }
    let prefix = subdirectory.map(|s| format!("{}/", s.trim_matches('/'))).unwrap_or_default();
    let listed = git(&["ls-tree", "-r", "-z", &commit], MAX_LISTING).map_err(told)?;
    let mut contents = Contents::default();
    let mut paths = HashSet::new();
    for entry in listed.split(|byte| *byte == 0) {
        // `100644 blob ID<tab>path`; links are not followed.
        let Some((kind, path)) = std::str::from_utf8(entry).ok().and_then(|entry| entry.split_once('\t'))
        else {
            continue;
        };
        let Some(inner) = path.strip_prefix(&prefix).filter(|inner| !inner.is_empty()) else { continue };
        if !kind.starts_with("100") {
            continue;
        }
        paths.insert(inner.to_owned());
        if !contents.wants(inner) {
            continue;
        }
        let text = git(&["cat-file", "blob", &format!("{commit}:{path}")], MAX_TEXT).map_err(told)?;
        contents.put(inner, &text);
    }
    let mut failure = None;
    contents.complete(|inner| {
        if failure.is_some() || !paths.contains(inner) {
            return None;
        }
        let text = git(&["cat-file", "blob", &format!("{commit}:{prefix}{inner}")], MAX_TEXT);
        text.map(|text| String::from_utf8_lossy(&text).into_owned())
            .map_err(|error| failure = Some(error))
            .ok()
    });
    if let Some(error) = failure {
        return Err(told(error));
    }
    Ok(Checkout { commit, contents })
}

/// A file of a folder's repository at a revision, relative to the folder; `None` if the revision does not have it. The
/// repository's own configuration is read, as git does, but nothing that it names is run: no hook, filter or transport.
///
/// # Errors
/// See [`GitError`]: the folder is in no repository, or there is no such revision.
pub fn file_at(folder: &Path, revision: &str, name: &str) -> Result<Option<String>, GitError> {
    let shown = folder.display().to_string();
    let failed = |why: String| GitError::Failed {
        repository: shown.clone(),
        revision: Some(revision.to_owned()),
        why,
    };
    let program = Program::outside(folder).ok_or_else(|| GitError::NoGit(shown.clone()))?;
    let git = |arguments: &[&str]| {
        let mut command = program.command(&[("core.hooksPath", "/dev/null")]);
        // What a partial clone lacks is not fetched: its configuration names the program that would do it.
        command
            .args(arguments)
            .current_dir(folder)
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("GIT_NO_LAZY_FETCH", "1");
        answer(command, MAX_TEXT).map_err(|error| match error {
            Failure::NoGit => GitError::NoGit(shown.clone()),
            Failure::Other(why) => failed(why),
        })
    };
    let commit = git(&["rev-parse", "--verify", "--end-of-options", &format!("{revision}^{{commit}}")])?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let listed = git(&["ls-tree", "-z", &commit, "--", name])?;
    // `100644 blob ID<tab>path`; nothing if there is none.
    let Some(id) = std::str::from_utf8(&listed).ok().and_then(|line| line.split([' ', '\t']).nth(2)) else {
        return Ok(None);
    };
    let text = git(&["cat-file", "blob", id])?;
    String::from_utf8(text).map(Some).map_err(|error| failed(format!("`{name}`: {error}")))
}

/// Writes one commit of a repository, with all its files and without its history, as one packfile.
///
/// # Errors
/// See [`GitError`]; also if the commit has submodules, which are other repositories.
pub fn pack(repository: &str, commit: &str, project: &Path, to: &Path) -> Result<(), GitError> {
    let failed = |why: String| GitError::Failed {
        repository: shown_repository(repository),
        revision: Some(commit.to_owned()),
        why,
    };
    let told = |error: Failure| error.into_error(shown_repository(repository), &failed);
    if !is_commit(commit) {
        return Err(failed("it is not a commit".to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|e| failed(e.to_string()))?;
    let program = Program::outside(project).ok_or_else(|| GitError::NoGit(shown_repository(repository)))?;
    let git = |arguments: &[&str]| {
        let (address, header) = login_apart(repository);
        let settings = settings_of_remote(&address, header.as_deref());
        let mut command = remote(&program, folder.path(), &settings);
        command.args(arguments);
        answer_within(command, LONG, MAX_LISTING).map_err(told)
    };
    git(&["init", "--quiet", "--bare", "."])?;
    let fetch = |what: &[&str]| {
        let start = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"];
        git(&[&start[..], what].concat())
    };
    let written = |e: std::io::Error| failed(e.to_string());
    let heads = folder.path().join("refs/heads");
    // A server that does not send single commits sends its branches.
    if let Err(first) = fetch(&["--depth=1", "origin", commit]) {
        if fetch(&["origin", "+refs/heads/*:refs/heads/*"]).is_err() {
            return Err(first);
        }
        fs_err::remove_dir_all(&heads).map_err(written)?;
        fs_err::create_dir(&heads).map_err(written)?;
        fs_err::write(folder.path().join("shallow"), format!("{commit}\n")).map_err(written)?;
    }
    if !git(&["ls-tree", commit, "--", ".gitmodules"])?.is_empty() {
        let repository = shown_repository(repository);
        return Err(GitError::Submodules { repository, commit: commit.to_owned() });
    }
    git(&["update-ref", "refs/heads/main", commit])?;
    // One thread: the same commit has the same bytes.
    git(&["-c", "pack.threads=1", "pack-objects", "--quiet", "--revs", "--all", "--shallow", "made"])?;
    let made = fs_err::read_dir(folder.path()).map_err(written)?.filter_map(Result::ok);
    let made = made.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "pack"));
    let made = made.ok_or_else(|| failed("git wrote no packfile".to_owned()))?;
    fs_err::copy(made, to).map_err(written)?;
    Ok(())
}

/// Puts a commit into the repository in a folder, out of a packfile of [`pack`]; an empty folder becomes a repository. git computes
/// the names of all objects from their content, so that the commit's name vouches for its files. Nothing of it is configuration.
///
/// # Errors
/// See [`GitError`]: the packfile is damaged, or is of another commit.
pub fn unpack(pack: &Path, commit: &str, project: &Path, folder: &Path) -> Result<(), GitError> {
    let shown = || pack.display().to_string();
    let failed =
        |why: String| GitError::Failed { repository: shown(), revision: Some(commit.to_owned()), why };
    let told = |error: Failure| error.into_error(shown(), &failed);
    let program = Program::outside(project).ok_or_else(|| GitError::NoGit(shown()))?;
    let written = |e: std::io::Error| failed(e.to_string());
    let git = |arguments: &[&str]| {
        let mut command = remote(&program, folder, &settings_of_remote("", None));
        command.args(arguments);
        answer(command, MAX_TEXT).map_err(told)
    };
    git(&["init", "--quiet", "--bare", "--initial-branch=main", "."])?;
    // Its history is not there.
    let shallow = folder.join("shallow");
    let others = fs_err::read_to_string(&shallow).unwrap_or_default();
    fs_err::write(&shallow, format!("{others}{commit}\n")).map_err(written)?;
    let place = format!("objects/pack/pack-{commit}.pack");
    fs_err::copy(pack, folder.join(&place)).map_err(written)?;
    git(&["index-pack", "--fsck-objects", &place])?;
    git(&["update-ref", &format!("refs/heads/{commit}"), commit])?;
    // All that the commit names is there.
    git(&["rev-list", "--objects", "--quiet", commit])?;
    git(&["config", "uploadpack.allowAnySHA1InWant", "true"])?;
    Ok(())
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

enum Failure {
    NoGit,
    Other(String),
}

impl Failure {
    /// The error of a repository, by the name that is shown.
    fn into_error(self, repository: String, failed: &dyn Fn(String) -> GitError) -> GitError {
        match self {
            Failure::NoGit => GitError::NoGit(repository),
            Failure::Other(why) => failed(why),
        }
    }
}

/// The system's git, and the folders in which it finds ssh and its helpers.
struct Program {
    git: PathBuf,
    path: OsString,
}

impl Program {
    /// The first git on `PATH` that is not below a folder.
    fn outside(project: &Path) -> Option<Program> {
        let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let project = real(project);
        let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?)
            .filter(|folder| folder.is_absolute() && !real(folder).starts_with(&project))
            .collect();
        let name = if cfg!(windows) { "git.exe" } else { "git" };
        let found = folders.iter().map(|folder| folder.join(name));
        let git = found.filter(|git| git.is_file()).find(|git| !real(git).starts_with(&project))?;
        Some(Program { git, path: std::env::join_paths(folders).ok()? })
    }

    /// A call of git with settings, which are variables because other users see arguments.
    fn command(&self, settings: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.git);
        command.env("PATH", &self.path).env_remove("GIT_EXEC_PATH");
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (i, (key, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{i}"), key).env(format!("GIT_CONFIG_VALUE_{i}"), value);
        }
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(variable);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        command
    }
}

/// A repository's address without its login, and the login as the header that git sends instead: git hands the address to
/// its helper as an argument, which other users see. That of ssh has a user, and no password.
fn login_apart(repository: &str) -> (String, Option<String>) {
    let address = url::Url::parse(repository).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(mut address) = address.filter(|url| !url.username().is_empty() || url.password().is_some())
    else {
        return (repository.to_owned(), None);
    };
    let plain = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let login = format!("{}:{}", plain(address.username()), plain(address.password().unwrap_or_default()));
    // Neither can fail for an address with a host.
    let _ = address.set_password(None);
    let _ = address.set_username("");
    let header = format!("Authorization: Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
    (address.to_string(), Some(header))
}

/// Runs git in a folder; the first `limit` bytes that it prints. The remote `origin` is the repository: configured by
/// variables, because arguments are visible to other users.
fn run(
    program: &Program,
    folder: &Path,
    repository: &str,
    arguments: &[&str],
    limit: u64,
) -> Result<Vec<u8>, Failure> {
    // Blobs are fetched when they are read: a repository with weights or videos stays cheap.
    let (address, header) = login_apart(repository);
    let mut settings = settings_of_remote(&address, header.as_deref());
    settings.extend([("remote.origin.promisor", "true"), ("remote.origin.partialclonefilter", "blob:none")]);
    let mut command = remote(program, folder, &settings);
    command.args(arguments);
    answer(command, limit)
}

/// What is configured of the remote `origin`, and for every call.
fn settings_of_remote<'s>(address: &'s str, header: Option<&'s str>) -> Vec<(&'static str, &'s str)> {
    let mut settings = vec![
        ("remote.origin.url", address),
        ("core.hooksPath", "/dev/null"),
        ("protocol.ext.allow", "never"),
    ];
    settings.extend(header.map(|header| ("http.extraHeader", header)));
    settings
}

/// A call of git in a bare repository.
fn remote(program: &Program, folder: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = program.command(settings);
    if std::env::var_os("GIT_SSH_COMMAND").is_none() {
        command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
    }
    command.current_dir(folder).env("GIT_ALLOW_PROTOCOL", "https:http:ssh:file").env("GIT_DIR", folder);
    command
}

/// The first `limit` bytes that git prints.
fn answer(command: Command, limit: u64) -> Result<Vec<u8>, Failure> {
    answer_within(command, LIMIT, limit)
}

fn answer_within(command: Command, time: Duration, limit: u64) -> Result<Vec<u8>, Failure> {
    let limits = Limits { time, out: limit, errors: 64 << 10 };
    let answer = child::answer(command, limits).map_err(|silent| match silent {
        Silent::NotStarted(e) if e.kind() == std::io::ErrorKind::NotFound => Failure::NoGit,
        Silent::NotStarted(e) => Failure::Other(e.to_string()),
        Silent::Late(_) => Failure::Other(format!("git took longer than {} s", time.as_secs())),
    })?;
    if answer.is_success {
        return Ok(answer.out);
    }
    let said = answer.error_text();
    let line = said.lines().rev().find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    let line = line.or_else(|| said.lines().next_back()).unwrap_or("git failed");
    let line = line.trim_start_matches("fatal: ").trim_start_matches("error: ");
    Err(Failure::Other(clean(&crate::model::text::without_logins(line), 200)))
}

#[cfg(test)]
mod tests {
    use super::login_apart;

    #[test]
    fn a_login_is_no_argument_of_gits_helper() {
        let header = |text: &str| Some(format!("Authorization: Basic {text}"));
        for (repository, address, login) in [
            ("https://host/a/b.git", "https://host/a/b.git", None),
            // `me:p@w`
            ("https://me:p%40w@host/a/b.git", "https://host/a/b.git", header("bWU6cEB3")),
            // `token:`
            ("http://token@host:8080/a", "http://host:8080/a", header("dG9rZW46")),
            ("ssh://git@host/a", "ssh://git@host/a", None),
            ("file:///a/b", "file:///a/b", None),
        ] {
            assert_eq!(login_apart(repository), (address.to_owned(), login), "{repository}");
        }
    }
}
