//! Lines that only describe a machine or an environment: dumps of collectors, lists of packages, tables of nvidia-smi, and
//! what a session prints of versions. Any other line may say that something went wrong, in words that nobody listed.

use crate::registry::{Registry, WordsOf};

/// What such lines look like: how the lines of collectors begin, and what no value of one has.
#[derive(Debug)]
pub(super) struct Descriptions {
    /// Before a value.
    keys: Vec<String>,
    /// Where there is no key.
    starts: Vec<String>,
    /// Somewhere in the line.
    parts: Vec<String>,
    trouble: Vec<String>,
}

impl Descriptions {
    /// Those that a registry lists.
    pub fn of(registry: &Registry) -> Descriptions {
        let words = |of| registry.words(of).to_vec();
        Descriptions {
            keys: words(WordsOf::DescriptionKey),
            starts: words(WordsOf::DescriptionStart),
            parts: words(WordsOf::DescriptionPart),
            trouble: words(WordsOf::Trouble),
        }
    }

    /// Whether a line, given in lower case, only describes.
    pub fn describes(&self, lower: &str) -> bool {
        let line = lower.trim();
        let line = line.strip_prefix("- ").map_or(line, |rest| if rest.contains(':') { rest } else { line });
        let line = line.trim_start_matches('`');
        let has_letter = line.chars().any(char::is_alphabetic);
        if line.is_empty() || (!has_letter && !line.bytes().all(|b| b.is_ascii_digit() || b == b'-')) {
            // A version, a rule of a table, a capability such as `(8, 6)`: a lone number may be an exit status.
            return !line.starts_with("[]") && !line.starts_with("()");
        }
        let bare = line.trim_matches(['\'', '"']);
        let is_version = bare.starts_with(|c: char| c.is_ascii_digit())
            && bare.contains('.')
            && !bare.contains([' ', '/']);
        if is_version
            || is_path(line)
            || matches!(line, "true" | "none" | "n/a")
            || is_listed(line)
            || is_clock(line)
        {
            return true;
        }
        self.starts.iter().any(|start| line.starts_with(start))
            || self.parts.iter().any(|part| self.says_only(line, part))
            || is_version_of(line)
            || self.keys.iter().any(|key| line.strip_prefix(key).is_some_and(|rest| self.is_value(rest)))
            || line.split_once(": ").is_some_and(|(name, version)| is_listed(&format!("{name}=={version}")))
    }

    /// Whether a line has a part, and no word of trouble beside it.
    fn says_only(&self, line: &str, part: &str) -> bool {
        line.split_once(part).is_some_and(|(before, behind)| {
            !self.trouble.iter().any(|word| before.contains(word.as_str()) || behind.contains(word.as_str()))
        })
    }

    /// Whether what stands behind a key is its value: `gpu 0: x`, and no `gpus are gone`.
    fn is_value(&self, rest: &str) -> bool {
        if self.trouble.iter().any(|word| rest.contains(word.as_str())) {
            return false;
        }
        let rest = rest.trim_start_matches([')', '`', '"', '\'']);
        let Some((head, _)) = rest.split_once([':', '=']) else {
            // A number, or a column.
            let value = rest.trim_start();
            return value.is_empty()
                || rest.starts_with("  ")
                || value.starts_with(|c: char| c.is_ascii_digit());
        };
        // `gpu 0`, `version`, `compiler`: few words stand before the value.
        (head.is_empty() || head.starts_with([' ', '(', '_'])) && head.split_whitespace().count() <= 4
    }
}

/// A library that a collector found: a path and nothing else.
fn is_path(line: &str) -> bool {
    let is_windows = line.as_bytes().get(1..3) == Some(b":\\");
    line.starts_with('/') && !line.contains(char::is_whitespace) || is_windows && line.ends_with(".dll")
}

/// `TorchCAM version: 0.3.1`.
fn is_version_of(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, version)| {
        let is_number = version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains(' ');
        name.ends_with(" version") && name.split(' ').count() <= 4 && is_number
    })
}

/// `torch==2.9.1`, and `torch 2.9.1 py3.12_0 pytorch` of `pip list` and `conda list`.
fn is_listed(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (Some(name), second) = (words.next(), words.next()) else { return false };
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._-[]".contains(c));
    let is_version = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.') && !text.contains('/')
    };
    match (name.split_once("=="), second) {
        (Some((name, version)), None) => is_name(name) && is_version(version),
        (None, Some(version)) => is_name(name) && is_version(version) && words.count() <= 3,
        _ => false,
    }
}

/// `Sun Nov 20 08:01:27 2022` above nvidia-smi's table.
fn is_clock(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words.as_slice(), [day, month, _, time, year]
        if day.len() == 3 && month.len() == 3 && time.matches(':').count() == 2 && year.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::Descriptions;
    use crate::registry::Registry;

    #[test]
    fn lines_that_describe() {
        let all = Descriptions::of(&Registry::embedded());
        let describes = |line: &str| all.describes(line);
        for line in [
            "PyTorch version: 2.9.1+cu128",
            "Is CUDA available: True",
            "GPU 0: NVIDIA A100-SXM4-80GB",
            "Vulnerability Itlb multihit:        Not affected",
            "CPU(s):                             64",
            "[pip3] torch==2.9.1",
            "numpy==1.26.4",
            "torch                 2.9.1",
            "pytorch   2.1.0  py3.10_cuda12.1_cudnn8.9.2_0  pytorch",
            "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |",
            "+-----------------------------------------------------------------------+",
            "- `transformers` version: 4.46.0",
            "- Platform: Linux-5.15",
            ">>> torch.cuda.is_available()",
            "True",
            "'2.9.1+cu128'",
            "(8, 6)",
            "Sun Nov 20 08:01:27 2022",
            "driver 550.54.15",
            "TorchCAM version: 0.3.1",
            "L2CacheSize=2048",
            "XLA_PYTHON_CLIENT_PREALLOCATE=false",
            "INFO 02-28 18:13:24 __init__.py:190] Automatically detected platform cuda.",
            "flashinfer: Module Not Found",
            "root@node:/workspace# python collect_env.py",
            "# python -m torch.utils.collect_env",
            "<frozen runpy>:128: RuntimeWarning: 'torch.utils.collect_env' found in sys.modules after import of package 'torch.utils'",
            "  - C++ Version: 201402",
            "        System Info",
            "Length: 24353 (24K) [text/plain]",
            "OS: Ubuntu 22.04",
            "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7",
            "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.4\\bin\\cudnn64_9.dll",
            "",
        ] {
            assert!(describes(&line.to_lowercase()), "{line}");
        }
        for line in [
            "Process finished with exit code 137 (interrupted by signal 9:SIGKILL)",
            "Bus error",
            "zsh: killed     python train.py",
            "139",
            "The kernel for train.ipynb appears to have died. It will restart automatically.",
            "Reason: OOMKilled",
            "train-0   0/1   CrashLoopBackOff   7",
            "bash: python: command not found",
            "1 failed, 2 passed",
            "loss nan",
            "DRAM Uncorrectable : 17",
            "[]",
            "[CpuDevice(id=0)]",
            "False",
            "段错误 (核心已转储)",
            "when I call model.to('cuda') it never returns",
            "the GPU is at 0%",
            "pip: command not found",
            "python: can't open file 'train.py'",
            "Memory cgroup out of memory: Killed process 1234 (python)",
            "/usr/bin/bash: line 3: 1234 Killed python train.py",
            "GPU 0: lost",
            "Out[3]: False",
            "Python crashed",
            "Python environment is broken",
            "ModuleNotFoundError: No module named 'zmq'",
            "import error: module not found",
            "python collect_env.py crashed",
            "length mismatch: 3",
        ] {
            assert!(!describes(&line.to_lowercase()), "{line}");
        }
    }
}
