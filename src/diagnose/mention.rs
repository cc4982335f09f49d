//! Lines that speak of an error and do not report one: the result of a test, source code, advice, the help of a program, a
//! setting, a history of changes, an attempt that is made again.

use super::unexplained;

/// What begins a sentence about an error that somebody may get.
const SUPPOSES: [&str; 16] = [
    "to avoid ",
    "to prevent ",
    "this may cause ",
    "if you see ",
    "if you get ",
    "if you encounter ",
    "if you run into ",
    "if you receive ",
    "if you hit ",
    "in case of ",
    "may raise ",
    "might raise ",
    "would raise ",
    "does not raise ",
    "doesn't raise ",
    "no longer raises ",
];

/// Words of a report: a sentence behind one of them is about what happened.
const OF_REPORTS: [&str; 12] = [
    "cuda",
    "cudnn",
    "cublas",
    "nccl",
    "nvidia",
    "gpu",
    ".so",
    "out of memory",
    "crash",
    "unable",
    "died",
    "stopped",
];

/// The outcomes of a test that did not fail.
const OUTCOMES: [&str; 4] = ["passed", "skipped", "xfail", "xpass"];

/// What calls of functions that print begin with, up to the parenthesis or the name of the function.
const PRINTS: [&str; 6] = ["logger.", "logging.", "log.", "print", "printf", "warnings.warn"];

/// Beginnings of other source code that has the text of an error as a literal.
const CODE: [&str; 9] = [
    "// ",
    "assert \"",
    "assert '",
    "self.assert",
    "grep ",
    "echo \"",
    "echo '",
    "#define ",
    "throw std::runtime_error(",
];

/// Values of a setting.
const VALUES: [&str; 4] = ["enabled", "disabled", "true", "false"];

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
    if has_level(line) {
        return false;
    }
    supposes(line)
        || is_result_of_test(line)
        || is_code(line)
        || !unexplained::is_error(line)
            && (is_help(line) || is_setting(line) || is_history(line) || is_tried_again(line))
}

/// Whether a line begins with the level of a message that reports a failure: `[ERROR]`, `| CRITICAL |`, `level=error`, glog's
/// `E0301`, C++'s `what():`.
fn has_level(line: &str) -> bool {
    // Not `error:`, which ends `CUDA error:` too.
    let is_level = |word: &str| {
        let word = word.trim_matches(['[', ']', '|', '-', ',', '"']);
        ["error", "err", "fatal", "critical", "level=error", "level=fatal"].contains(&word)
            || word.starts_with("error/")
    };
    let is_glog = |word: &str| {
        word.len() == 5 && word.starts_with(['e', 'f']) && word[1..].bytes().all(|byte| byte.is_ascii_digit())
    };
    let starts = ["error:", "fatal:", "critical:", "what():"];
    starts.iter().any(|start| line.starts_with(start))
        || line.split_whitespace().take(6).any(is_level)
        || line.split_whitespace().take(1).any(is_glog)
}

/// `If you see CUDA error ..., install ...`: nothing before these words reports an error, and they are not about `this` one.
fn supposes(line: &str) -> bool {
    let found = SUPPOSES.iter().filter_map(|words| Some((line.find(words)?, *words))).min();
    found.is_some_and(|(at, words)| {
        let (before, behind) = (&line[..at], &line[at + words.len()..]);
        let is_of_this =
            ["this", "that", "again", "the message", "it "].iter().any(|word| behind.starts_with(word));
        !is_of_this && !unexplained::WORDS.iter().chain(&OF_REPORTS).any(|word| before.contains(word))
    })
}

/// `tests/test_ops.py::test_x SKIPPED (...)`, `PASSED tests/...::test_x`, `test_x (ops.Test) ... ok`, `--- PASS: TestX`.
fn is_result_of_test(line: &str) -> bool {
    // The reason that a whole file was skipped is an error of its import.
    if line.contains(" import ") || line.contains("cannot open shared object file") {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(40).collect();
    let is_test = |word: &str| word.contains("::");
    let is_named = match words.as_slice() {
        [test, outcome, rest @ ..] => {
            let ends = |last: &str| last.starts_with('(') || last == "-" || last.starts_with('[');
            let is_rest = rest.is_empty() || ends(rest[0]) && !line.contains("%]") || line.ends_with("%]");
            is_test(test) && OUTCOMES.contains(outcome) && is_rest
        }
        _ => false,
    };
    let is_listed =
        matches!(words.as_slice(), [outcome, test, ..] if OUTCOMES.contains(outcome) && is_test(test));
    let is_of_unittest = line.starts_with("test")
        && (line.ends_with("... ok") || line.ends_with("... skipped") || line.contains("... skipped '"));
    is_named
        || is_listed
        || is_of_unittest
        || line.starts_with("skipped [")
        || ["--- pass:", "--- skip:", "[       ok ]", "[ run      ]"]
            .iter()
            .any(|start| line.starts_with(start))
}

fn is_code(line: &str) -> bool {
    let is_label = line.strip_suffix(':').is_some_and(|label| {
        let case = label.strip_prefix("case ").or_else(|| Some(label.rsplit_once(": case ")?.1));
        case.is_some_and(|name| !name.contains(' ')) || label.starts_with("except ")
    });
    let behind_prompt = line.strip_prefix("$ ").unwrap_or(line);
    let prints = PRINTS.iter().any(|start| {
        // `logger.error("`: a name, then the parenthesis and a literal.
        let rest = line.strip_prefix(start).unwrap_or_default();
        rest.split_once('(').is_some_and(|(name, literal)| {
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            is_name && literal.trim_start_matches('f').starts_with(['"', '\''])
        })
    });
    is_label
        || line.contains("pytest.raises(")
        || prints && line.trim_end_matches(';').ends_with(')')
        || CODE.iter().any(|start| behind_prompt.starts_with(start))
        || is_constant(line)
}

/// `CUDA_ERROR_NO_DEVICE = 100`
fn is_constant(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let value = value.trim().trim_end_matches([',', ';']);
    let is_name = STATUS.iter().any(|start| name.starts_with(start)) && !name.trim().contains(' ');
    is_name && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// `--on-oom MODE  what to do on ...`
fn is_help(line: &str) -> bool {
    let option = line.strip_prefix("--").and_then(|rest| rest.chars().next());
    option.is_some_and(|c| c.is_ascii_lowercase()) && line.contains("  ")
}

/// `CUDA out of memory handling: enabled`, `INFO: retry_on_error=true`: a few words and a value, and nothing else.
fn is_setting(line: &str) -> bool {
    let line = ["info: ", "[info] ", "debug: ", "[debug] "]
        .iter()
        .find_map(|level| line.strip_prefix(level))
        .unwrap_or(line);
    let Some((key, value)) = line.rsplit_once([':', '=']) else { return false };
    let is_of_errors =
        key.contains("out of memory") || unexplained::WORDS.iter().any(|word| key.contains(word));
    let is_short = key.split_whitespace().count() <= 5 && !key.contains([':', '=', ',', ';', '.']);
    // `CUDA out of memory: True` may report it.
    let is_name = !key.trim().ends_with("out of memory");
    is_of_errors && is_name && is_short && VALUES.contains(&value.trim())
}

/// A line of a history of changes.
fn is_history(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '*', ' ']);
    let is_commit = || {
        let mut words = line.strip_prefix("commit ").unwrap_or(line).split(' ');
        let is_digest =
            |word: &str| (7..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        words.next().is_some_and(is_digest)
            && words.next().is_some_and(|verb| ["fix", "fixes", "fixed"].contains(&verb))
    };
    let is_quoted = line.contains(['`', '\'', '"']) || line.contains("(#");
    is_quoted && ["fix ", "fixes ", "fix:", "fix("].iter().any(|start| line.starts_with(start)) || is_commit()
}

/// `Caught CUDA out of memory, reducing batch size`, `checking for libcudnn.so.8 ... not found, trying ...`
fn is_tried_again(line: &str) -> bool {
    let again = [", reducing batch size", ", halving ", ", retrying with", "not found, trying"];
    let is_last = ["giving up", "abort", "failed"].iter().any(|words| line.contains(words));
    let tried = ["caught ", "out of memory", "checking for "];
    // What is tried again stands before: a report behind these words is one.
    let at = again.iter().filter_map(|words| line.find(words)).min();
    at.is_some_and(|at| tried.iter().any(|words| line[..at].contains(words))) && !is_last
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
            "PASSED tests/test_a.py::test_oom[CUDA out of memory]",
            "--- PASS: TestArch no kernel image is available (0.00s)",
            "self.assertIn('CUDA out of memory', error)",
            "To avoid CUDA out of memory, lower gpu_memory_utilization.",
            "tests/a.py::x PASSED                              [ 50%]",
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
            "2025-03-01 10:00:00 [error    ] RuntimeError: CUDA error: no kernel image is available [trainer] rank=0",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB on device: 0",
            "level=error msg=\"nvidia-container-cli: initialization error: driver not loaded\" attempt=0",
            "AssertionError: Torch not compiled with CUDA enabled; torch.cuda.is_available()=False",
            "log.txt:118: RuntimeError: no kernel image is available",
            "logger.go:42: 09:10:11 | gpu-job | no kernel image is available",
            "//usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
            "FAILED tests/test_ops.py::test_gemm[x passed] - no kernel image is available",
            "  what():  my::launch(): no kernel image is available for execution on the device (args passed: 3)",
            "SKIPPED [41] tests/conftest.py:3: could not import 'torch': libcudnn.so.9: cannot open shared object file",
            "CUDA driver version is insufficient for CUDA runtime version. If you see this in a container, start it again",
            "fixed seed 42; no kernel image is available",
            "a1b2c3d4e5f6 fixed-gpu-job no kernel image is available",
            "CUDA out of memory: tried 3 times, trying to allocate 20 GiB on cuda:1 and giving up",
            "print(\"x\") raised RuntimeError: No CUDA GPUs are available",
            "CUDNN_STATUS_NOT_INITIALIZED in cudnnCreate status=1",
            "2025-03-01 10:00:00,123 - trainer - ERROR - CUDA out of memory. Try reducing batch size.",
            "10:00:00.123 [main] ERROR c.e.Trainer - CUDA out of memory, retrying with less",
            "CUDA out of memory. Tried to allocate 2.00 GiB. Please try reducing batch size.",
            "  what():  CUDA out of memory, reducing batch size",
            "log.cu(12): CUDA driver version is insufficient for CUDA runtime version (35)",
            "printDeviceInfo(): CUDA driver version is insufficient for CUDA runtime version (error 35)",
            "warnings.warn(msg): no CUDA-capable device is detected (Triggered internally at x.cpp:108.)",
            "Assert failed: CUDA driver version is insufficient for CUDA runtime version",
            "tests/a.py::x PASSED tests/a.py::y ERROR no kernel image is available",
            "tests/a.py::x PASSED     [ 50%]CUDA error: no kernel image is available",
            "ops::gemm  skipped 3 tiles: no kernel image is available",
            "SKIPPED [1] tests/test_gpu.py:5: Unable to import torch: libcudnn.so.9: cannot open shared object file",
            "Unable to start (if you run into this regularly contact support): no CUDA-capable device is detected",
            "If you see this message, GPU init has failed: no CUDA-capable device is detected",
            "25/03/01 WARN TaskSetManager: Lost task 0.0, retrying with stage 2: CUDA out of memory",
            "fix your LD_LIBRARY_PATH: libcudnn.so.9: cannot open shared object file",
            "modprobe nvidia ... no CUDA-capable device is detected ... ok",
            "echo $CUDA_VISIBLE_DEVICES; python: no CUDA-capable device is detected",
        ] {
            assert!(!is_mention(&line.to_lowercase()), "{line}");
        }
    }
}
