//! `envlock diagnose [FILE|-]`: finds the cause of a failure in a log or a dump, and the fix.

use std::io::{BufRead, BufReader, Read};

use crate::cli::args::DiagnoseArgs;
use crate::cli::printer::{DIM, ERROR, GOOD, Printer, wrap};
use crate::diagnose::{self, Cause, DiagnoseContext, Diagnosis, Facts, Matcher, Reader, SURE, Verdict};
use crate::lockfile::Target;
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::host::Host;
use crate::model::request::{Origin, STACK_PACKAGES, UserRequirement};
use crate::model::text::{clean, shell_word};
use crate::registry::{Registry, explain};
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::verify::{self, Place, Question};
use crate::session::{chosen_host, lock};

/// Size limit of a line in bytes; the rest of a longer line is skipped. One more than is read: such a line is known to be cut.
const MAX_LINE: u64 = diagnose::MAX_LONG_LINE as u64 + 1;

pub(super) fn run(global: &Global, args: &DiagnoseArgs, printer: &Printer) -> Result<u8, Failure> {
    let registry = settings::registry_here(global)?;
    if let Some(code) = &args.explain {
        return explained(code, &registry, printer);
    }
    let mut facts = match (&args.file, args.here) {
        (Some(path), _) if path.as_os_str() != "-" => {
            let metadata = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
            if metadata.is_dir() {
                return Err(Failure::input(format!("`{}` is a folder", path.display())));
            }
            read(std::fs::File::open(path).map_err(|e| unreadable(path, &e))?, &registry)?
        }
        (None, true) if !is_piped() => Facts::default(),
        _ => read(std::io::stdin().lock(), &registry)?,
    };
    let here = if args.here { Some(Here::look(global, &mut facts, &registry)?) } else { None };
    let findings: Vec<&Finding> = here.iter().flat_map(|here| &here.findings).collect();
    let pytorch_index = settings::pytorch_index();
    let around = DiagnoseContext {
        host: here.as_ref().map(|here| &here.host),
        findings: &findings,
        pytorch_index: &pytorch_index,
    };
    let diagnosis = diagnose::judge(facts, around, &registry);
    if printer.json {
        printer.json(&diagnosis);
    } else {
        print_text(printer, &diagnosis);
        if let Some(what) = in_project(global, &diagnosis) {
            printer.hint(&format!("this project has a lock: {what}"));
        }
    }
    Ok(match diagnosis.verdict {
        Verdict::Problem => exit::NO,
        Verdict::Healthy => exit::YES,
        Verdict::Unknown => exit::NOT_KNOWN,
    })
}

/// Explains the code of a cause by its rule, or by the page that explains the findings of `verify` and what is derived.
fn explained(code: &str, registry: &Registry, printer: &Printer) -> Result<u8, Failure> {
    let text = match explain::rule(registry, code) {
        Some(rule) => Some(explain::text(registry, rule)),
        None => explain::of_page(include_str!("../../../docs/diagnostics.md"), code),
    };
    let Some(text) = text else {
        let near = explain::nearest(registry, code);
        let hint = (!near.is_empty()).then(|| format!("near it: `{}`", near.join("`, `")));
        return Err(Failure {
            exit: exit::NO,
            hint,
            ..Failure::input(format!("no cause has the code `{}`", clean(code, 80)))
        });
    };
    match printer.json {
        true => printer.json(&serde_json::json!({ "code": code, "text": text })),
        false => printer.raw(&text),
    }
    Ok(exit::YES)
}

/// What the first fix is in the project here, if it has a lock of envlock's own.
fn in_project(global: &Global, diagnosis: &Diagnosis) -> Option<String> {
    let first = diagnosis.causes.first()?.fix.iter().find_map(|fix| match fix {
        Fix::Command { command, .. } => Some(command.as_str()),
        Fix::Advice(_) => None,
    })?;
    let asked = installed_by(first)?;
    let project = Project::find(global, true).ok()?;
    let lock = lock::read(&project).ok().flatten()?;
    if project.manifest.is_none() || lock.packages_in.is_some() {
        return None;
    }
    let is_of_stack = |user: &UserRequirement| STACK_PACKAGES.contains(&user.name());
    if asked.iter().any(is_of_stack) {
        // What else a project states of its stack, such as the companions and the machine, decides with it.
        return Some(
            "`envlock resolve --dry-run` with `--gpu` and `--driver` of that machine tells which torch and companions it chooses for it, or what stands against it".to_owned(),
        );
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
        let lock = lock::read(&project)?;
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

/// `sure`, `probable`, `possible`.
fn sureness(confidence: f64) -> &'static str {
    match confidence {
        c if c >= SURE => "sure",
        c if c >= 0.6 => "probable",
        _ => "possible",
    }
}

/// Width of the left column.
const INDENT: usize = 7;

fn print_text(p: &Printer, diagnosis: &Diagnosis) {
    let name =
        |text: &str| format!("{}{}", p.paint(DIM, text), " ".repeat(INDENT.saturating_sub(text.len())));
    let line = |label: &str, text: &str| p.out(&format!("{}{}", name(label), wrap(text, INDENT)));
    let Some((first, others)) = diagnosis.causes.split_first() else {
        match diagnosis.verdict {
            Verdict::Healthy => p.out(&format!("{} no problem found", p.paint(GOOD, "healthy"))),
            Verdict::Problem | Verdict::Unknown => {
                p.out("unknown: no known cause found");
                for (i, evidence) in diagnosis.unexplained.iter().enumerate() {
                    let text = format!("line {}  {}", evidence.line, evidence.text);
                    line(if i == 0 { "seen" } else { "" }, &text);
                }
                for (i, text) in diagnosis.excluded.iter().enumerate() {
                    line(if i == 0 { "fine" } else { "" }, text);
                }
                if let Some(command) = diagnosis.ask {
                    p.hint(&format!("add the output of `{command}` to the text, and ask again"));
                }
            }
        }
        return;
    };
    let sure = |cause: &Cause| format!("({}, {})", cause.component, sureness(cause.confidence));
    let title = wrap(&format!("{} {}", first.message, sure(first)), INDENT);
    p.out(&format!("{}  {}", p.paint(ERROR, "cause"), title));
    let width = first.evidence.iter().map(|e| e.line.to_string().len()).max().unwrap_or(0);
    for (i, evidence) in first.evidence.iter().enumerate() {
        let text = match evidence.decoded.as_slice() {
            [] => evidence.text.clone(),
            decoded => format!("{} [{}]", evidence.text, decoded.join("; ")),
        };
        let head = format!("line {:<width$}  ", evidence.line);
        p.out(&format!(
            "{}{head}{}",
            name(if i == 0 { "seen" } else { "" }),
            wrap(&text, INDENT + head.len())
        ));
    }
    for (i, fix) in first.fix.iter().enumerate() {
        let label = if i == 0 { "fix" } else { "" };
        match fix {
            // A command stays on one line so that it can be copied; its explanation follows below.
            Fix::Command { command, why } => {
                p.out(&format!("{}{command}", name(label)));
                if let Some(why) = why {
                    line("", &format!("({why})"));
                }
            }
            Fix::Advice(text) => line(label, text),
        }
    }
    let others: Vec<&Cause> = others.iter().filter(|other| other.confidence >= 0.4).take(2).collect();
    for (i, other) in others.iter().enumerate() {
        line(if i == 0 { "or" } else { "" }, &format!("{} {}", other.message, sure(other)));
        let fixes = if first.confidence < 0.85 { 1 } else { 0 };
        for fix in other.fix.iter().take(fixes) {
            p.out(&format!("{}{fix}", name("")));
        }
    }
    if let Some(check) = &first.check
        && (!others.is_empty() || first.confidence < 0.85)
    {
        p.out(&format!("{}{check}", name("check")));
    }
}
