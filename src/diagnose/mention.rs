//! Lines that speak of an error and do not report one: the result of a test, source code, advice, the help of a program, a
//! setting, a history of changes, an attempt that is made again.

use super::unexplained;

/// What begins a sentence about an error that somebody may get.
const SUPPOSES: [&str; 18] = [
    "if you see ",
    "if you get ",
    "if you encounter ",
    "if you run into ",
    "if you receive ",
    "if you hit ",
    "in case you ",
    "in case of ",
    "when you see ",
    "when you get ",
    "may raise ",
    "might raise ",
    "can raise ",
    "would raise ",
    "should raise ",
    "does not raise ",
    "doesn't raise ",
    "no longer raises ",
];

/// What a result of a test ends with, or contains beside the name of the test.
const PASSED: [&str; 4] = [" passed", " skipped", " xfail", " xpass"];

/// Beginnings of source code that handles an error or has its text as a literal.
const CODE: [&str; 9] =
    ["//", "logger.", "logging.", "log.", "print(", "printf(", "fprintf(", "assert ", "grep "];

/// Values of a setting.
const VALUES: [&str; 10] = ["enabled", "disabled", "true", "false", "on", "off", "none", "0", "yes", "no"];

/// Beginnings of the names of status codes.
const STATUS: [&str; 7] = [
    "cuda_error_",
    "cudaerror",
    "cublas_status_",
    "cudnn_status_",
    "cusolver_status_",
    "cusparse_status_",
    "nvml_error_",
];

/// Whether a line, given in lower case, speaks of an error and does not report one.
pub(super) fn is_mention(lower: &str) -> bool {
    let line = lower.trim();
    supposes(line)
        || is_result_of_test(line)
        || is_code(line)
        || is_help(line)
        || is_setting(line)
        || is_history(line)
        || is_tried_again(line)
}

/// `If you see CUDA error ..., install ...`: nothing before these words reports an error.
fn supposes(line: &str) -> bool {
    let at = SUPPOSES.iter().filter_map(|words| line.find(words)).min();
    at.is_some_and(|at| {
        let before = &line[..at];
        !unexplained::WORDS.iter().any(|word| before.contains(word)) && !before.contains("out of memory")
    })
}

/// `tests/test_ops.py::test_x SKIPPED (...)`, `test_x (ops.Test) ... ok`.
fn is_result_of_test(line: &str) -> bool {
    let ends = ["... ok", "... skipped"];
    line.contains("::") && PASSED.iter().any(|word| line.contains(word)) && !line.contains(" failed")
        || line.starts_with("skipped [")
        || ends.iter().any(|end| line.ends_with(end))
        || line.contains("... skipped '")
}

fn is_code(line: &str) -> bool {
    let is_label = |word: &str| line.starts_with(word) || line.contains(&format!(": {word}"));
    let behind_prompt = line.strip_prefix("$ ").unwrap_or(line);
    line.ends_with(':') && (is_label("case ") || line.starts_with("except "))
        || line.contains("pytest.raises(")
        || line.contains("assertraises")
        || CODE.iter().any(|start| behind_prompt.starts_with(start))
        || is_constant(line)
}

/// `CUDA_ERROR_NO_DEVICE = 100`
fn is_constant(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let value = value.trim().trim_end_matches([',', ';']);
    STATUS.iter().any(|start| name.starts_with(start)) && !value.is_empty() && is_number(value)
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `--on-oom MODE  what to do on ...`
fn is_help(line: &str) -> bool {
    let option = line.strip_prefix("--").and_then(|rest| rest.chars().next());
    option.is_some_and(|c| c.is_ascii_lowercase()) && line.contains("  ")
}

/// `CUDA out of memory handling: enabled`, `retry_on_error=true`
fn is_setting(line: &str) -> bool {
    let Some((key, value)) = line.rsplit_once([':', '=']) else { return false };
    let is_of_errors =
        key.contains("out of memory") || unexplained::WORDS.iter().any(|word| key.contains(word));
    is_of_errors && VALUES.contains(&value.trim())
}

/// A line of a history of changes.
fn is_history(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '*', ' ']);
    let is_commit = || {
        let mut words = line.strip_prefix("commit ").unwrap_or(line).split(' ');
        let is_digest =
            |word: &str| (7..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        words.next().is_some_and(is_digest) && words.next().is_some_and(|verb| verb.starts_with("fix"))
    };
    ["fix ", "fixes ", "fixed ", "fix:", "fix("].iter().any(|start| line.starts_with(start)) || is_commit()
}

/// `Caught CUDA out of memory, reducing batch size`, `checking for libcudnn.so.8 ... not found, trying ...`
fn is_tried_again(line: &str) -> bool {
    let again = ["reducing batch size", "halving", "retrying with", ", retrying", ", trying "];
    let is_again = again.iter().any(|words| line.contains(words));
    let tried = ["caught ", "out of memory", "checking for ", "not found, trying"];
    is_again && tried.iter().any(|words| line.contains(words)) && !unexplained::is_error(line)
}

#[cfg(test)]
mod tests {
    use super::is_mention;

    #[test]
    fn lines_that_report_no_error() {
        for line in [
            "CUDA out of memory handling: enabled",
            "INFO: retry_on_cuda_error=True",
            "tests/test_ops.py::test_arch SKIPPED (no kernel image is available for execution)",
            "SKIPPED [1] test_ops.py:12: CUDA driver version is insufficient",
            "test_arch (ops.Test) ... skipped 'no kernel image is available'",
            "> If you see `CUDA error: no kernel image is available`, install a newer torch.",
            "In case of CUDA out of memory, lower the batch size.",
            "    except torch.cuda.OutOfMemoryError:",
            "src/a.cc:12: case CUBLAS_STATUS_NOT_INITIALIZED:",
            "with pytest.raises(RuntimeError, match='CUDA out of memory'):",
            "logger.error('no kernel image is available for execution on the device')",
            "CUDA_ERROR_NO_DEVICE = 100,",
            "--on-oom MODE  what to do on CUDA out of memory",
            "- Fix `CUDA driver version is insufficient` on old drivers (#12)",
            "1a2b3c4d Fix CUDA driver version is insufficient",
            "[INFO] Caught CUDA out of memory, reducing batch size from 64 to 32",
            "Ran out of memory when regular VAE encoding, retrying with tiled VAE encoding.",
            "DEBUG checking for libcudnn.so.8 ... not found, trying libcudnn.so.9 ... found",
        ] {
            assert!(is_mention(&line.to_lowercase()), "{line}");
        }
    }

    #[test]
    fn lines_that_report_one() {
        for line in [
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB. If you get this often, lower it",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. See documentation to avoid fragmentation",
            "FAILED tests/test_ops.py::test_arch - RuntimeError: no kernel image is available",
            "tests/test_ops.py::test_arch FAILED",
            "GPU available: False, used: False",
            "CUDA: disabled",
            "CUDA available: False",
            "    raise AssertionError(\"Torch not compiled with CUDA enabled\")",
            "status: CUDA_ERROR_NO_DEVICE (100)",
            "Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file",
            "> RuntimeError: CUDA error: invalid device function",
            "-- Could NOT find CUDA: disabled",
            "CUDA_VISIBLE_DEVICES=0",
        ] {
            assert!(!is_mention(&line.to_lowercase()), "{line}");
        }
    }
}
