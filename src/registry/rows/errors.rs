//! Lines of logs and what they mean.

use super::super::schema::RawErrorRule;
use super::RowError;

/// The components that a cause can have.
const COMPONENTS: [&str; 14] = [
    "driver",
    "gpu-arch",
    "torch-build",
    "cuda-runtime",
    "cudnn",
    "nccl",
    "torchvision-pairing",
    "python",
    "glibc",
    "container",
    "path-shadowing",
    "install-mix",
    "extension-abi",
    "other",
];

/// What a line of a log means.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRule {
    /// A word for programs: the cause's code.
    pub id: String,
    /// The component at fault, one of a closed list (docs/diagnostics.md).
    pub component: String,
    /// Ways to say it; of each, the pieces stand in this order in one line, in lower case.
    pub alternatives: Vec<Vec<String>>,
    /// The cause, one sentence.
    pub cause: String,
    /// Commands that help.
    pub fix: Vec<String>,
    /// How sure the line alone makes, between 0 and 1.
    pub weight: f64,
}

impl TryFrom<&RawErrorRule> for ErrorRule {
    type Error = RowError;

    fn try_from(raw: &RawErrorRule) -> Result<Self, RowError> {
        if !COMPONENTS.contains(&raw.component.as_str()) {
            return Err(format!("`{}` is no component", raw.component));
        }
        if !(0.0..=1.0).contains(&raw.weight) {
            return Err("`weight` is between 0 and 1".to_owned());
        }
        let alternatives: Vec<Vec<String>> = raw
            .matches
            .iter()
            .map(|text| text.to_lowercase().split(" ... ").map(str::to_owned).collect())
            .collect();
        if alternatives.is_empty() || alternatives.iter().flatten().any(String::is_empty) {
            return Err("`match` has nothing to look for".to_owned());
        }
        Ok(ErrorRule {
            id: raw.id.clone(),
            component: raw.component.clone(),
            alternatives,
            cause: raw.cause.clone(),
            fix: raw.fix.clone(),
            weight: raw.weight,
        })
    }
}
