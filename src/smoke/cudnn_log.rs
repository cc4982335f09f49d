//! cuDNN's log: the variables that enable it, and the failing call in it.

/// Environment variables that make cuDNN log errors: those of version 9, then of version 8.
pub(super) const VARIABLES: [(&str, &str); 4] = [
    ("CUDNN_LOGLEVEL_DBG", "2"),
    ("CUDNN_LOGDEST_DBG", "stderr"),
    ("CUDNN_LOGERR_DBG", "1"),
    ("CUDNN_LOGWARN_DBG", "1"),
];

/// The failing call in cuDNN's log: the function and its status. cuDNN 9 logs the function before the status, and
/// rejections of single engines before the final error. So the last error is used.
pub(super) fn failing_call(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let has_status = |line: &str| line.to_lowercase().contains("cudnn_status");
    let is_worse = |line: &str| {
        let lower = line.to_lowercase();
        lower.contains("cudnn") && (lower.contains("error") || lower.contains("warning"))
    };
    let at = lines
        .iter()
        .rposition(|line| has_status(line))
        .or_else(|| lines.iter().rposition(|line| is_worse(line)))?;
    let line = lines[at];
    let text = match function_of(line) {
        Some(_) => line.to_owned(),
        None => match lines[at.saturating_sub(FUNCTION_WITHIN)..at].iter().rev().find_map(|l| function_of(l))
        {
            Some(function) => format!("{function}(): {line}"),
            None => line.to_owned(),
        },
    };
    Some(crate::model::text::clean(&text, 300))
}

/// The function is logged at most this many lines before the status.
const FUNCTION_WITHIN: usize = 8;

/// The cuDNN API function that a line of the log names: `cudnnConvolutionForward`.
fn function_of(line: &str) -> Option<&str> {
    let mut rest = line;
    while let Some(at) = rest.find("cudnn") {
        let name = &rest[at..];
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        if name[5..end].starts_with(|c: char| c.is_ascii_uppercase()) && name[end..].starts_with('(') {
            return Some(&name[..end]);
        }
        rest = &rest[at + 5..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::failing_call;

    #[test]
    fn what_cudnn_says() {
        let log = "I! Loading libcudnn\nE! CuDNN (v91002) function cudnnConvolutionForward() called:\n\
                   e! Error: CUDNN_STATUS_NOT_SUPPORTED; Reason: no engine\n";
        assert_eq!(
            failing_call(log).unwrap(),
            "cudnnConvolutionForward(): e! Error: CUDNN_STATUS_NOT_SUPPORTED; Reason: no engine"
        );
        // A rejected engine is not the failure.
        let two = format!(
            "E! CuDNN (v91002) function cudnnBackendFinalize() called:\ne! Error: CUDNN_STATUS_BAD_PARAM\n{log}"
        );
        assert_eq!(failing_call(&two), failing_call(log));
        let one = "cudnnCreate() failed with CUDNN_STATUS_NOT_INITIALIZED";
        assert_eq!(failing_call(one).as_deref(), Some(one));
        assert_eq!(failing_call("nothing"), None);
    }
}
