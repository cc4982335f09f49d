//! The output of `verify`: text and JSON.

use serde_json::json;

use super::{output, report_formats};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::export::reports;
use crate::inspect::{Chosen, Environment};
use crate::model::count::Count;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::smoke_test::{End, SmokeOutcome};
use crate::session::clock;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::ReportFormat;
use crate::session::verify::{Judged, OfEnvironment, SmokeChoice};
use crate::verify::{Area, AreaKind, Verdict, another_lock, in_order, is_folded};

/// The result of `verify` and how to print it.
struct Report<'r> {
    one: &'r OfEnvironment,
    judged: &'r Judged,
    outcome: Option<&'r SmokeOutcome>,
    args: &'r VerifyArgs,
    printer: &'r Printer,
}

/// Prints what was found in an environment.
pub(super) fn show(
    one: &OfEnvironment,
    format: ReportFormat,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<(), Failure> {
    let report = Report { one, judged: &one.judged, outcome: one.outcome.as_ref(), args, printer };
    let areas = &one.judged.areas;
    match format {
        ReportFormat::Text => {
            report.text();
            if one.outcome.is_some() && args.annotates_smoke && !printer.json {
                let of_smoke = |area: &&Area| area.kind == AreaKind::Smoke;
                let smoke: Vec<Area> = areas.iter().filter(of_smoke).cloned().collect();
                output::put(&reports::github(&smoke, |_| None), args, printer)?;
            }
            Ok(())
        }
        ReportFormat::Json => output::put_json(&report.json(), args, printer),
        ReportFormat::Github => output::put(&reports::github(areas, |_| None), args, printer),
        ReportFormat::Junit => output::put(&reports::junit(areas, report_formats::VERIFY), args, printer),
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(&one.folder);
            output::put(&reports::sarif(areas, |_| lock.clone()), args, printer)
        }
        ReportFormat::Line => output::put(&reports::line(&report.named()), args, printer),
        ReportFormat::Prometheus => {
            let prefix = one.environment.prefix.display().to_string();
            let labels = [("question", "environment"), ("prefix", prefix.as_str())];
            let seconds = clock::now().seconds();
            output::put(&reports::prometheus(&[report.named()], &labels, seconds), args, printer)
        }
    }
}

impl Report<'_> {
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        in_order(&self.judged.areas)
    }

    fn has_framework(&self) -> bool {
        !crate::verify::smoke::frameworks(&self.judged.installed).is_empty()
    }

    fn named(&self) -> reports::NamedAreas<'_> {
        let verdict = if self.judged.has_errors() { Verdict::Differs } else { Verdict::Ok };
        reports::NamedAreas { node: None, verdict, areas: &self.judged.areas }
    }

    fn json(&self) -> serde_json::Value {
        let differs = self.judged.has_errors();
        let smoke = self.outcome.map(|o| {
            json!({ "ran": !matches!(o.end, End::NotStarted(_)), "passed": o.passed(), "checks": o.checks })
        });
        json!({
            "verdict": if differs { Verdict::Differs } else { Verdict::Ok },
            "findings": self.findings().collect::<Vec<_>>(),
            "smoke": smoke,
            "hosts": [],
        })
    }

    fn text(&self) {
        let p = self.printer;
        let environment = &self.one.environment;
        let verdict = self.verdict(environment);
        if p.quiet {
            return p.out(&verdict);
        }
        let against = &self.judged.against;
        let python = self.judged.installed.python.map(|v| format!(" (Python {v})")).unwrap_or_default();
        let chosen = match environment.chosen {
            Chosen::Named => "",
            Chosen::ActiveVenv | Chosen::ActiveConda => ", active",
            Chosen::Found if self.args.root.is_some() => ", the only one in that root",
            Chosen::Found => ", the project's own",
        };
        p.out(&format!("environment {}{python}{chosen}, {against}", environment.prefix.display()));
        for area in &self.judged.areas {
            let word = verdict_word(area, p);
            p.out(&format!("  {:<10}  {word}  {}", area.kind, wrap(&area.summary, 23)));
        }
        let foreign = another_lock(&self.judged.areas).filter(|_| !p.verbose);
        if let Some(sentence) = &foreign {
            p.out("");
            let text = format!("error: {sentence} (`-v` lists the differences)");
            p.out(&format!("{}{}", p.paint(ERROR, "error:"), &wrap(&text, 2)["error:".len()..]));
        }
        findings(p, self.findings().filter(|f| foreign.is_none() || !is_folded(f)));
        p.out("");
        p.out(&wrap(&verdict, 2));
    }

    /// The last line: whether the environment passes.
    fn verdict(&self, environment: &Environment) -> String {
        let p = self.printer;
        let errors = self.findings().filter(|f| f.severity == Severity::Error).count();
        let (total, static_ms) = (self.one.elapsed.as_secs_f64(), self.one.static_ms);
        let smoke = match (self.outcome, errors) {
            (None, 0) if self.args.smoke == SmokeChoice::Auto && self.args.root.is_some() => {
                "; smoke test not run: nothing in another root is run"
            }
            (None, 0)
                if self.args.smoke == SmokeChoice::Auto
                    && self.args.host.as_ref().is_some_and(Option::is_some) =>
            {
                "; smoke test not run: the machine is described"
            }
            (None, 0)
                if self.args.smoke == SmokeChoice::Auto
                    && self.has_framework()
                    && (!environment.is_explicit() || self.args.is_found) =>
            {
                "; smoke test not run, as the environment is not active: `--smoke cpu` or `cuda` runs it"
            }
            (None, 0) if self.args.smoke == SmokeChoice::Off => "; smoke test off",
            (None, 0) => "; smoke test not run: no framework installed",
            (None, _) if self.args.smoke != SmokeChoice::Off => "; smoke test not run",
            _ => "",
        };
        let warnings = self.findings().filter(|f| f.severity == Severity::Warning).count();
        let clean = match warnings {
            0 => p.paint(GOOD, "clean"),
            1 => p.paint(WARN, "passed with 1 warning"),
            n => p.paint(WARN, &format!("passed with {n} warnings")),
        };
        if errors == 0 {
            format!("{clean}, {total:.1} s (static part {static_ms} ms){smoke}")
        } else {
            format!("{}{smoke}", Count(errors).of("error"))
        }
    }
}

/// Up to this many findings that differ only in the package are printed one by one. Of more, the first is printed and
/// the others are listed.
const ROW: usize = 4;
/// Limit of the packages listed for a longer row, and of the findings printed for other codes.
const NAMED: usize = 20;

/// The verdict on an area, in a column of its own.
pub(in crate::cli::commands) fn verdict_word(area: &Area, p: &Printer) -> String {
    if area.has_errors() {
        p.paint(ERROR, "differs")
    } else if area.findings.iter().any(|f| f.severity == Severity::Warning) {
        p.paint(WARN, "warns  ")
    } else {
        p.paint(GOOD, "ok     ")
    }
}

/// Prints the findings, the most severe first, each with its fix.
pub(in crate::cli::commands) fn findings<'f>(p: &Printer, all: impl Iterator<Item = &'f Finding>) {
    let mut findings: Vec<&Finding> = all.filter(|f| f.severity != Severity::Info || !p.quiet).collect();
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    let mut rest = findings.as_slice();
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|f| {
            (f.severity, f.code, &f.fix, f.r#where.is_some())
                == (first.severity, first.code, &first.fix, first.r#where.is_some())
        });
        let count = alike.count();
        let (row, others) = rest.split_at(count);
        rest = others;
        // For these codes the name is enough; the messages of other codes differ in more than the name.
        let same = [Code::MissingPackage, Code::ExtraPackage].contains(&first.code);
        let told_in_full = match same && row.len() > ROW {
            true => 1,
            false => NAMED,
        };
        row.iter().take(told_in_full).for_each(|finding| told(p, finding));
        if row.len() > told_in_full {
            p.out(&format!("  {}", wrap(&besides(&row[told_in_full..]), 2)));
        }
        // A fix that several findings share is printed once, after the last of them.
        let next_fix = rest.first().and_then(|next| next.fix.as_ref());
        if let Some(fix) = first.fix.as_ref().filter(|fix| next_fix != Some(*fix)) {
            match fix {
                // A command stays on one line so that it can be copied.
                Fix::Command { .. } => p.out(&format!("fix: {fix}")),
                Fix::Advice(text) => p.out(&format!("fix: {}", wrap(text, 5))),
            }
        }
    }
}

/// One finding, without its fix.
fn told(p: &Printer, finding: &Finding) {
    let (word, style) = match finding.severity {
        Severity::Error => ("error", ERROR),
        Severity::Warning => ("warning", WARN),
        Severity::Info => ("info", GOOD),
    };
    p.out("");
    let head = format!("{word}[{}]:", finding.code.as_str());
    let text = wrap(&format!("{head} {}", finding.message), 2);
    p.out(&format!("{}{}", p.paint(style, &head), &text[head.len()..]));
}

/// `and 54 more: anyio, click, ... (--json has each)`.
fn besides(row: &[&Finding]) -> String {
    let places = row.iter().take(NAMED).filter_map(|f| f.r#where.as_deref());
    let places: Vec<String> = places.map(|place| crate::model::text::clean(place, 100)).collect();
    let more = if row.len() > NAMED { ", ..." } else { "" };
    format!("and {} more: {}{more} (--json has each)", row.len(), places.join(", "))
}

/// Makes the commands of the findings those for the project that `--project` names.
pub(in crate::cli::commands) fn fixes_of_project(areas: &mut [Area], printer: &Printer) {
    for found in areas.iter_mut().flat_map(|area| &mut area.findings) {
        if let Some(Fix::Command { command, .. }) = &mut found.fix {
            *command = printer.command(command);
        }
    }
}
