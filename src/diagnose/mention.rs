//! Lines that speak of an error and do not report one: the result of a test, source code, advice, the help of a program, a
//! setting, a history of changes, an attempt that is made again.

use super::unexplained;

/// What begins a sentence about an error that somebody may get.
const SUPPOSES: [&str; 13] = [
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
const OF_REPORTS: [&str; 7] = ["cuda", "cudnn", "cublas", "nccl", "nvidia", ".so", "out of memory"];

/// The outcomes of a test that did not fail.
const OUTCOMES: [&str; 4] = ["passed", "skipped", "xfail", "xpass"];

/// What calls of functions that print begin with, up to the parenthesis or the name of the function.
const PRINTS: [&str; 6] = ["logger.", "logging.", "log.", "print", "printf", "warnings.warn"];

/// Beginnings of other source code that has the text of an error as a literal.
const CODE: [&str; 7] = ["// ", "assert ", "self.assert", "grep ", "echo ", "#define ", "throw std::"];

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
    supposes(line)
        || is_result_of_test(line)
        || is_code(line)
        || !unexplained::is_error(line)
            && (is_help(line) || is_setting(line) || is_history(line) || is_tried_again(line))
}

/// `If you see CUDA error ..., install ...`: nothing before these words reports an error.
fn supposes(line: &str) -> bool {
    let at = SUPPOSES.iter().filter_map(|words| line.find(words)).min();
    at.is_some_and(|at| {
        let before = &line[..at];
        !unexplained::WORDS.iter().chain(&OF_REPORTS).any(|word| before.contains(word))
    })
}

/// `tests/test_ops.py::test_x SKIPPED (...)`, `PASSED tests/...::test_x`, `test_x (ops.Test) ... ok`, `--- PASS: TestX`.
fn is_result_of_test(line: &str) -> bool {
    // The reason that a whole file was skipped is an error of its import.
    if line.contains("could not import") {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(40).collect();
    let is_outcome = |word: &&str| OUTCOMES.contains(word);
    let is_test = |word: &&str| word.contains("::");
    let is_named = words.windows(2).any(|pair| is_test(&pair[0]) && is_outcome(&pair[1]));
    let is_listed = words.first().is_some_and(is_outcome) && words.get(1).is_some_and(is_test);
    let ends = ["... ok", "... skipped"];
    is_named
        || is_listed
        || line.starts_with("skipped [")
        || ["--- pass:", "--- skip:", "[       ok ]"].iter().any(|start| line.starts_with(start))
        || ends.iter().any(|end| line.ends_with(end))
        || line.contains("... skipped '")
}

fn is_code(line: &str) -> bool {
    let is_label = |word: &str| line.starts_with(word) || line.contains(&format!(": {word}"));
    let behind_prompt = line.strip_prefix("$ ").unwrap_or(line);
    let prints = PRINTS.iter().any(|start| {
        // `logger.error(`: a name, then the parenthesis.
        let rest = line.strip_prefix(start).unwrap_or_default();
        let called = rest.split_once('(').map(|(name, _)| name);
        called.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    });
    line.ends_with(':') && (is_label("case ") || line.starts_with("except "))
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
    is_of_errors && is_short && VALUES.contains(&value.trim())
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
    ["fix ", "fixes ", "fix:", "fix("].iter().any(|start| line.starts_with(start)) || is_commit()
}

/// `Caught CUDA out of memory, reducing batch size`, `checking for libcudnn.so.8 ... not found, trying ...`
fn is_tried_again(line: &str) -> bool {
    let again = ["reducing batch size", "halving", "retrying with", "not found, trying"];
    let is_last = ["giving up", "abort", "failed"].iter().any(|words| line.contains(words));
    let tried = ["caught ", "out of memory", "checking for "];
    again.iter().any(|words| line.contains(words))
        && tried.iter().any(|words| line.contains(words))
        && !is_last
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
        ] {
            assert!(!is_mention(&line.to_lowercase()), "{line}");
        }
    }
}
