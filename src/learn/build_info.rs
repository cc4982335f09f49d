//! Parses `build_info.py` of TensorFlow: one dictionary, which its build writes.
//!
//! Of the capabilities in its list, `sm_80` is machine code, `compute_90` machine code and PTX: so the device code of the
//! releases 2.5 to 2.21 has it (read by `envlock inspect`). Nightly builds of 2.23 list none.

use crate::model::capability::{CodeTarget, CodeTargets};

/// Values of a `build_info.py`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BuildInfo {
    /// Whether it was built with CUDA.
    pub is_cuda_build: Option<bool>,
    /// The CUDA, `12.5.1`.
    pub cuda: Option<String>,
    /// `sm_80`, `compute_90`.
    pub capabilities: Vec<String>,
}

impl BuildInfo {
    /// The GPU code that the list stands for; `None` without one, or if a word of it is not understood.
    pub fn targets(&self) -> Option<CodeTargets> {
        let mut out = CodeTargets::default();
        for word in &self.capabilities {
            let number = word.strip_prefix("sm_").or_else(|| word.strip_prefix("compute_"))?;
            let target: CodeTarget = format!("sm_{number}").parse().ok()?;
            out.sass.push(target);
            if word.starts_with("compute_") {
                out.ptx.push(target);
            }
        }
        (!out.sass.is_empty()).then_some(out)
    }
}

/// Parses the dictionary without running the code.
pub(super) fn parse(text: &str) -> BuildInfo {
    let value = |key: &str| {
        let after = ["'", "\""]
            .into_iter()
            .find_map(|quote| Some(text.split_once(&format!("{quote}{key}{quote}"))?.1.trim_start()))?;
        Some(after.strip_prefix([',', ':'])?.trim_start())
    };
    let quoted = |text: &str| {
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (word, _) = text[1..].split_once(quote)?;
        let is_plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b));
        (is_plain && word.len() < 40).then(|| word.to_owned())
    };
    let list = |text: &str| {
        let (inside, _) = text.strip_prefix('[')?.split_once(']')?;
        inside.split(',').map(|word| quoted(word.trim())).collect::<Option<Vec<String>>>()
    };
    let is_cuda_build =
        value("is_cuda_build").and_then(|text| match (text.starts_with("True"), text.starts_with("False")) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        });
    BuildInfo {
        is_cuda_build,
        cuda: value("cuda_version").and_then(quoted),
        capabilities: value("cuda_compute_capabilities").and_then(list).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_builds() {
        let head = "\"\"\"Auto-generated module.\"\"\"\nimport collections\n\nbuild_info = collections.OrderedDict([";
        for (record, is_cuda, cuda, targets) in [
            (
                "('cpu_compiler', 'clang'), ('cuda_compute_capabilities', ['sm_60', 'sm_89', 'compute_90']), \
                 ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)",
                Some(true),
                Some("12.5.1"),
                "6.0 8.9 9.0; 9.0",
            ),
            ("('is_cuda_build', True), ('is_rocm_build', False)", Some(true), None, ""),
            ("('is_cuda_build', False)", Some(false), None, ""),
            ("(\"cuda_compute_capabilities\", [\"sm_90a\", \"compute_120\"])", None, None, "9.0a 12.0; 12.0"),
            // What is not understood is not known.
            ("('cuda_compute_capabilities', ['sm_90', all()]), ('is_cuda_build', None)", None, None, ""),
            ("('cuda_compute_capabilities', ['sm_90', 'gfx942'])", None, None, ""),
            ("('cuda_version', os.environ['X'])", None, None, ""),
            ("('cuda_version', '12.5", None, None, ""),
        ] {
            let info = parse(&format!("{head}{record}])\n"));
            let words =
                |list: &[CodeTarget]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            let shown = info
                .targets()
                .map(|all| format!("{}; {}", words(&all.sass), words(&all.ptx)))
                .unwrap_or_default();
            assert_eq!(
                (info.is_cuda_build, info.cuda.as_deref(), shown.as_str()),
                (is_cuda, cuda, targets),
                "{record}"
            );
        }
    }
}
