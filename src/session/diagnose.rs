//! Finds the cause of a failure in a log or a dump, beside this machine and the active environment where that is asked.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::failure::Failure;
use super::options::Global;
use super::settings::{self, Project};
use super::verify::{self, Place, Question};
use super::{chosen_host, project_lock};
use crate::diagnose::{self, DiagnoseContext, Diagnosis, Facts, Matcher, Reader};
use crate::lockfile;
use crate::lockfile::Target;
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::host::Host;
use crate::model::request::{Origin, STACK_PACKAGES, UserRequirement};
use crate::model::text::shell_word;
use crate::registry::Registry;

/// Size limit of a line in bytes; the rest of a longer line is skipped. One more than is read: such a line is known to be cut.
const MAX_LINE: u64 = diagnose::MAX_LONG_LINE as u64 + 1;

/// Judges a text: a file, or standard input where none or `-` is named. `here`: beside this machine, which alone is judged where
/// there is no text.
///
/// # Errors
/// When the text or the environment cannot be read.
pub(crate) fn diagnose(
    global: &Global,
    (file, here): (Option<&Path>, bool),
    registry: &Registry,
) -> Result<Diagnosis, Failure> {
    let mut facts = match (file, here) {
        (Some(path), _) if path.as_os_str() != "-" => {
            let metadata = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
            if metadata.is_dir() {
                return Err(Failure::input(format!("`{}` is a folder", path.display())));
            }
            read(std::fs::File::open(path).map_err(|e| unreadable(path, &e))?, registry)?
        }
        (None, true) if !is_piped() => Facts::default(),
        _ => read(std::io::stdin().lock(), registry)?,
    };
    let here = if here { Some(Here::look(global, &mut facts, registry)?) } else { None };
    let findings: Vec<&Finding> = here.iter().flat_map(|here| &here.findings).collect();
    let pytorch_index = settings::pytorch_index();
    let around = DiagnoseContext {
        host: here.as_ref().map(|here| &here.host),
        findings: &findings,
        pytorch_index: &pytorch_index,
    };
    Ok(diagnose::judge(facts, around, registry))
}

/// What the first fix is in the project here, if it has a lock of envlock's own.
pub(crate) fn in_project(global: &Global, diagnosis: &Diagnosis) -> Option<String> {
    let first = diagnosis.causes.first()?.fix.iter().find_map(|fix| match fix {
        Fix::Command { command, .. } => Some(command.as_str()),
        Fix::Advice(_) => None,
    })?;
    let asked = installed_by(first)?;
    let project = Project::find(global, true).ok()?;
    let lock = project_lock::read(&project).ok().flatten()?;
    if project.manifest.is_none() || lock.packages_in.is_some() {
        return None;
    }
    let is_of_stack = |user: &UserRequirement| STACK_PACKAGES.contains(&user.name());
    if asked.iter().any(is_of_stack) {
        // What else a project states of its stack, such as the companions and the machine, decides with it.
        let only = lockfile::read_request(&lock.request).ok().and_then(|request| request.only_index);
        let only = only.map(|only| format!(" --only-index {}", only.value)).unwrap_or_default();
        return Some(format!(
            "`envlock resolve --dry-run{only}` with `--gpu` and `--driver` of that machine tells which torch and companions it chooses for it, or what stands against it"
        ));
    }
    let is_locked = |user: &UserRequirement| {
        let locked = |target: &Target| {
            let package = target.package(user.name());
            package.is_some_and(|own| user.specifiers().is_none_or(|bounds| bounds.contains(&own.version)))
        };
        lock.targets.iter().all(locked)
    };
    if asked.iter().all(is_locked) {
        return Some("it has a release that fits, which `envlock sync` installs".to_owned());
    }
    let words: String = asked.iter().map(|user| format!(" {}", shell_word(&user.line()))).collect();
    Some(format!("`envlock add{words}`, then `envlock sync`, which undoes what pip installs beside the lock"))
}

/// The requirements of a command that only installs some from the usual index: `pip install 'numpy<1.24'`.
fn installed_by(command: &str) -> Option<Vec<UserRequirement>> {
    let words = shlex::split(command)?;
    let at = words.iter().position(|word| word == "install")?;
    if !words[..at].iter().any(|word| word.ends_with("pip")) {
        return None;
    }
    let read = |word: &String| UserRequirement::parse(word, Origin::Question).ok();
    let asked: Vec<UserRequirement> = words[at + 1..].iter().map(read).collect::<Option<_>>()?;
    (!asked.is_empty()).then_some(asked)
}

/// Whether standard input is a pipe or a file, so that somebody gave a text.
fn is_piped() -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let metadata = std::fs::metadata("/dev/stdin");
        metadata.is_ok_and(|m| m.file_type().is_fifo() || m.is_file())
    }
    #[cfg(not(unix))]
    {
        use std::io::IsTerminal as _;
        !std::io::stdin().is_terminal()
    }
}

fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("cannot read `{}`: {error}", path.display()))
}

/// Reads line by line; memory does not grow with the input.
fn read(input: impl Read + 'static, registry: &Registry) -> Result<Facts, Failure> {
    let matcher = Matcher::new(registry);
    let mut reader = Reader::new(&matcher);
    let failed = |e: std::io::Error| Failure::input(format!("cannot read the text: {e}"));
    let mut input = diagnose::decoded(BufReader::with_capacity(1 << 18, input)).map_err(failed)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
        if n == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if n as u64 == MAX_LINE {
            skip_line(&mut input).map_err(failed)?;
        }
        reader.line(&line);
    }
    Ok(reader.finish())
}

/// Skips to the end of the line, in pieces.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (used, done) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}

/// This machine, and the findings about the active environment.
struct Here {
    host: Host,
    /// What `verify` finds without running anything.
    findings: Vec<Finding>,
}

impl Here {
    /// Inspects the machine and the environment, and adds the facts that the text did not state.
    fn look(global: &Global, facts: &mut Facts, registry: &Registry) -> Result<Here, Failure> {
        // Without an environment the machine alone is looked at.
        let Ok(environment) = verify::environment(None, global) else {
            return Ok(Here { host: chosen_host::probed(registry, &[])?, findings: Vec::new() });
        };
        let prefix = environment.prefix;
        let project = Project::find(global, true)?;
        let lock = project_lock::read(&project)?;
        let place = Place::here();
        let question = Question {
            place: &place,
            prefix: &prefix,
            read: None,
            host: None,
            target: None,
            deep: false,
            require_gpu: false,
            parts: None,
            without_machine: false,
            exact: false,
            stale: None,
        };
        let judged = verify::judge(&question, &project, lock.as_ref().into(), registry)?;
        for distribution in &judged.installed.distributions {
            if distribution.name == "torch" && facts.torch.is_none() {
                let flavour = distribution.variant.as_ref().map(|v| format!("+{v}")).unwrap_or_default();
                let plain = match distribution.version.valid() {
                    Some(version) => version.clone().without_local().to_string(),
                    None => distribution.version.to_string(),
                };
                facts.torch = Some(format!("{plain}{flavour}"));
            }
            let entry = (distribution.version.to_string(), String::new());
            facts.packages.entry(distribution.name.clone()).or_insert(entry);
        }
        if facts.python.is_none() {
            facts.python = judged.installed.python.map(|python| python.to_string());
        }
        let findings = judged.areas.into_iter().flat_map(|area| area.findings).collect();
        Ok(Here { host: judged.machine, findings })
    }
}
