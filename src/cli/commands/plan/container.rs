//! What `plan --image` prints: what a container image contains, and whether a machine can run it.

use serde::Serialize;
use serde_json::json;

use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::report;
use crate::containers::{Judgement, Verdict};
use crate::model::evidence::Evidence;
use crate::model::version::DottedVersion;
use crate::registry::{Cited, Image};
use crate::session::exit;
use crate::session::plan::Planned;

/// What an image contains.
#[derive(Serialize)]
struct ImageView<'r> {
    name: String,
    framework: &'r str,
    version: Option<&'r String>,
    cuda: Option<&'r DottedVersion>,
    cudnn: Option<&'r DottedVersion>,
    evidence: Evidence,
}

/// Prints an image, and returns the exit code.
pub(super) fn tell(planned: &Planned, image: &Cited<Image>, judged: &Judgement, printer: &Printer) -> u8 {
    let (host, registry) = (&planned.host, &planned.registry);
    let code = match judged.verdict {
        Verdict::Runs => exit::YES,
        Verdict::DoesNotRun => exit::NO,
        Verdict::Unknown => exit::NOT_KNOWN,
    };
    let seen = ImageView {
        name: format!("{}:{}", image.repository, image.tag),
        framework: &image.framework,
        version: image.version.as_ref(),
        cuda: image.cuda.as_ref(),
        cudnn: image.cudnn.as_ref(),
        evidence: image.evidence,
    };
    if printer.json {
        printer.json(&json!({ "image": seen, "verdict": judged.verdict, "reasons": judged.reasons }));
        return code;
    }
    let line = |name: &str, text: &str| {
        printer.out(&format!("{}{}", report::label(printer, name), wrap(text, 15)));
    };
    line("host", &report::host_line(host, registry));
    line("image", &seen.name);
    let unknown = || "unknown".to_owned();
    line("inside", &format!("{} {}", seen.framework, seen.version.map_or_else(unknown, ToString::to_string)));
    line("", &format!("CUDA {}", seen.cuda.map_or_else(unknown, ToString::to_string)));
    line("", &format!("cuDNN {}", seen.cudnn.map_or_else(unknown, ToString::to_string)));
    line("source", &registry.source_text(&image.source));
    let (style, verdict) = match judged.verdict {
        Verdict::Runs => (GOOD, "this machine can run it"),
        Verdict::DoesNotRun => (ERROR, "this machine cannot run it"),
        Verdict::Unknown => (WARN, "unknown: not everything could be checked"),
    };
    printer.out("");
    printer.out(&printer.paint(style, verdict));
    for reason in &judged.reasons {
        printer.out(&format!("  {}", wrap(reason, 2)));
    }
    code
}

/// Prints that the data does not have an image, and those with the nearest names. Returns the exit code.
pub(super) fn absent(message: &str, near: &[String], never_existed: bool, printer: &Printer) -> u8 {
    if printer.json {
        let error = json!({ "code": "image", "message": message, "hint": near.first() });
        printer.json(&json!({ "image": null, "error": error, "near": near }));
    } else {
        printer.out(&wrap(message, 0));
        for (i, name) in near.iter().enumerate() {
            let label = report::label(printer, if i == 0 { "nearest" } else { "" });
            printer.out(&format!("{label}{name}"));
        }
    }
    if never_existed { exit::NO } else { exit::NOT_KNOWN }
}
