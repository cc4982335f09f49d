//! `envlock diagnose [FILE|-]`: the cause in a log or a dump, and what fixes it.

use std::io::{BufRead, BufReader, Read};

use serde_json::json;

use crate::cli::args::{DiagnoseArgs, GlobalArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::{ERROR, GOOD, Printer, wrap};
use crate::cli::report::label;
use crate::cli::{host, settings};
use crate::diagnose::{self, Diagnosis, Facts, Matcher, Reader};
use crate::inspect;
use crate::registry::Registry;

/// A line is kept no further than this, in bytes; the rest of it is skipped.
const MAX_LINE: u64 = 8 << 10;

pub(super) fn run(global: &GlobalArgs, args: &DiagnoseArgs, printer: &Printer) -> Result<u8, CliError> {
    let registry = settings::registry(global)?;
    let mut facts = match (&args.file, args.here) {
        (Some(path), _) if path.as_os_str() != "-" => {
            let metadata = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
            if metadata.is_dir() {
                return Err(CliError::new("input", format!("`{}` is a folder", path.display())));
            }
            read(std::fs::File::open(path).map_err(|e| unreadable(path, &e))?, &registry)?
        }
        (None, true) => Facts::default(),
        _ => read(std::io::stdin().lock(), &registry)?,
    };
    let machine = match args.here {
        true => {
            installed_here(&mut facts);
            Some(host::probed(&registry, &[])?)
        }
        false => None,
    };
    let diagnosis = diagnose::judge(facts, machine.as_ref(), &registry);
    if printer.json {
        print_json(printer, &diagnosis);
    } else {
        print_text(printer, &diagnosis);
    }
    Ok(if diagnosis.causes.is_empty() { exit::YES } else { exit::NO })
}

fn unreadable(path: &std::path::Path, error: &std::io::Error) -> CliError {
    CliError::new("input", format!("cannot read `{}`: {error}", path.display()))
}

/// Reads line by line; memory does not grow with the input.
fn read(input: impl Read, registry: &Registry) -> Result<Facts, CliError> {
    let matcher = Matcher::new(registry.errors());
    let mut reader = Reader::new(&matcher);
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let failed = |e: std::io::Error| CliError::new("input", format!("cannot read the text: {e}"));
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

/// What the active environment has of torch.
fn installed_here(facts: &mut Facts) {
    let Some(prefix) = inspect::find_prefix(None, &|name| std::env::var(name).ok()) else { return };
    let Ok(installed) = inspect::read(&prefix, inspect::Depth::Sizes) else { return };
    for distribution in &installed.distributions {
        if distribution.name == "torch" && facts.torch.is_none() {
            let flavour = distribution.variant.as_ref().map(|v| format!("+{v}")).unwrap_or_default();
            let plain = distribution.version.split('+').next().unwrap_or_default();
            facts.torch = Some(format!("{plain}{flavour}"));
        }
        let entry = (distribution.version.clone(), String::new());
        facts.packages.entry(distribution.name.clone()).or_insert(entry);
    }
}

fn print_json(printer: &Printer, diagnosis: &Diagnosis) {
    let facts = &diagnosis.facts;
    printer.json(&json!({
        "verdict": verdict(diagnosis),
        "causes": diagnosis.causes,
        "facts": {
            "torch": facts.torch,
            "torch_cuda": facts.build_cuda(),
            "cudnn": facts.cudnn,
            "gpus": facts.gpus,
            "driver": facts.driver,
            "python": facts.python,
            "os": facts.os,
        },
    }));
}

fn verdict(diagnosis: &Diagnosis) -> &'static str {
    match (diagnosis.causes.is_empty(), diagnosis.healthy) {
        (false, _) => "problem",
        (true, true) => "healthy",
        (true, false) => "unknown",
    }
}

/// `sure`, `probable`, `possible`.
fn sureness(confidence: f64) -> &'static str {
    match confidence {
        c if c >= 0.85 => "sure",
        c if c >= 0.6 => "probable",
        _ => "possible",
    }
}

fn print_text(p: &Printer, diagnosis: &Diagnosis) {
    let line = |name: &str, text: &str| p.out(&format!("{}{}", label(p, name), wrap(text, 15)));
    let Some((first, others)) = diagnosis.causes.split_first() else {
        match diagnosis.healthy {
            true => p.out(&format!("{}nothing in it is at fault", p.paint(GOOD, "healthy  "))),
            false => {
                p.out("unknown: nothing in it names a cause that envlock knows");
                p.hint("add the output of `python -m torch.utils.collect_env` and `nvidia-smi`");
            }
        }
        return;
    };
    p.out(&p.paint(ERROR, &wrap(&first.message, 0)));
    line("component", &format!("{} ({})", first.component, sureness(first.confidence)));
    for (i, evidence) in first.evidence.iter().enumerate() {
        line(if i == 0 { "seen" } else { "" }, &format!("line {}: {}", evidence.line, evidence.text));
    }
    for (i, fix) in first.fix.iter().enumerate() {
        p.out(&format!("{}{fix}", label(p, if i == 0 { "fix" } else { "" })));
    }
    for (i, other) in others.iter().filter(|other| other.confidence >= 0.4).take(2).enumerate() {
        let text = format!("{} ({}, {})", other.message, other.component, sureness(other.confidence));
        line(if i == 0 { "or" } else { "" }, &text);
    }
}
