//! What is said where no cause is known: the error lines that no rule explains, what the facts exclude, and the command
//! whose output would decide.

use super::facts::Facts;
use super::situation::Situation;

/// The words of which one is in every error line, in lower case.
pub(super) const WORDS: [&str; 9] =
    ["error", "exception", "fatal", "traceback", "fault", "failed", "aborted", "core dumped", "panic"];

/// Whether a line reports an error. A line that counts errors, quotes code or names a setting does not.
///
/// `lower` is the line in lower case.
pub(super) fn is_error(lower: &str) -> bool {
    let line = lower.trim();
    let starts = [
        "error:",
        "error ",
        "[error]",
        "fatal:",
        "fatal error",
        "e: ",
        "panic:",
        "traceback (most recent call",
    ];
    if starts.iter().any(|start| line.starts_with(start)) {
        return true;
    }
    if ["segmentation fault", "core dumped", " error: ", "] error:", " fatal error"]
        .iter()
        .any(|w| line.contains(w))
    {
        return true;
    }
    // `RuntimeError: ...`, `torch.cuda.OutOfMemoryError: ...`, `[rank3]: ValueError: ...`
    let is_name = |word: &str| {
        let name = word.strip_suffix(':').unwrap_or_default();
        let is_identifier = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        is_identifier && ["error", "exception"].iter().any(|end| name.ends_with(end)) && name.len() > 5
    };
    line.split(' ').take(4).any(is_name)
}

/// What the facts exclude, one sentence each.
pub(super) fn excluded(situation: &Situation<'_>) -> Vec<String> {
    let facts = situation.facts;
    let mut out = Vec::new();
    if let Some((cuda, floor, driver)) = situation.driver_floor()
        && driver >= floor
    {
        let named = match (&facts.driver, &facts.driver_cuda) {
            (None, Some(cuda)) => format!("a driver for CUDA {cuda}"),
            _ => format!("driver {driver}"),
        };
        out.push(format!("{named} runs CUDA {}.{}, which torch was built with", cuda.major, cuda.minor));
    }
    if let (Some(true), Some(build)) = (situation.covers(), situation.build()) {
        let gpus: Vec<String> =
            situation.gpus().iter().map(|(_, capability)| capability.to_string()).collect();
        out.push(format!(
            "torch {}+{} has code for compute capability {}",
            build.version,
            build.variant,
            gpus.join(", ")
        ));
    }
    if facts.available == Some(true) {
        out.push("torch can use a GPU in this environment".to_owned());
    }
    out
}

/// The command whose output decides next.
pub(super) fn ask(facts: &Facts) -> &'static str {
    if facts.torch.is_none() && facts.packages.is_empty() {
        "python -m torch.utils.collect_env"
    } else if facts.driver.is_none() && facts.gpus.is_empty() {
        "nvidia-smi"
    } else {
        "envlock verify"
    }
}

#[cfg(test)]
mod tests {
    use super::is_error;

    #[test]
    fn lines_that_report_an_error() {
        for line in [
            "RuntimeError: something new",
            "torch.cuda.OutOfMemoryError: x",
            "[rank3]: ValueError: y",
            "ERROR: pip's resolver",
            "foo.cu(12): error: identifier \"x\" is undefined",
            "Segmentation fault (core dumped)",
            "Traceback (most recent call last):",
        ] {
            assert!(is_error(&line.to_lowercase()), "{line}");
        }
        for line in [
            "0 errors, 2 warnings",
            "Is CUDA available: True",
            "Volatile Uncorr. ECC",
            "except ValueError as error",
            "on_error=raise",
            "validation error 0.12",
        ] {
            assert!(!is_error(&line.to_lowercase()), "{line}");
        }
    }
}
