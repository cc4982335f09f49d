//! Lines of logs and what they mean, and the words that give surroundings away.

use std::str::FromStr;

use super::super::schema::{RawErrorAnswer, RawErrorCase, RawErrorRule, RawSurroundings};
use super::RowError;
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;

/// What the text of a cause or a fix may leave open, in braces: it is filled in from the facts.
const PLACEHOLDERS: [&str; 10] = [
    "torch",
    "cuda",
    "cuda-major",
    "cuda-suffix",
    "named-suffix",
    "driver",
    "driver-cuda",
    "cudnn",
    "gpu",
    "extension",
];

/// What a line of a log means.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRule {
    /// A word for programs: the cause's code.
    pub id: String,
    /// Ways to say it; of each, the pieces stand in this order in one line, in lower case.
    pub alternatives: Vec<Vec<String>>,
    /// What it means when nothing else is known.
    pub answer: ErrorAnswer,
    /// What it means beside other facts: the first case that holds counts.
    pub cases: Vec<ErrorCase>,
    /// What the same line may mean besides, less probably.
    pub others: Vec<ErrorAnswer>,
    /// What tells the possible causes apart.
    pub check: Option<String>,
}

/// A meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorAnswer {
    /// The component at fault, one of a closed list (docs/diagnostics.md).
    pub component: Component,
    /// The cause, one sentence.
    pub cause: String,
    /// What helps, with placeholders.
    pub fix: Vec<Fix>,
    /// What is to be worked out and offered besides.
    pub offer: Vec<Offer>,
    /// How sure it is, between 0 and 1.
    pub weight: f64,
}

/// What is offered as a fix beside fixed commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// A torch that the GPUs and the driver of the facts can run.
    Torch,
    /// A newer driver.
    Driver,
}

/// A meaning beside other facts; what is absent stays as in the rule.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorCase {
    /// All of them hold.
    pub conditions: Vec<Condition>,
    /// The component instead.
    pub component: Option<Component>,
    /// The sentence instead.
    pub cause: Option<String>,
    /// What helps instead.
    pub fix: Option<Vec<Fix>>,
    /// The offers instead.
    pub offer: Option<Vec<Offer>>,
    /// The weight instead.
    pub weight: Option<f64>,
}

/// Something that holds or not, written `wsl` or `!wsl`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// It holds where the predicate does not.
    pub negated: bool,
    /// What is asked.
    pub predicate: Predicate,
}

/// What a condition asks of the facts.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// The text speaks of such surroundings.
    Surrounding(Surrounding),
    /// `seen:ID`: another rule knows a line.
    Seen(String),
    /// `says:WORDS`: a line that a rule knows has these words, in lower case.
    Says(String),
    /// A question that the compatibility data answers.
    Mechanics(Mechanics),
}

/// Questions that the compatibility data answers about the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanics {
    /// torch's own kernels have code for every GPU.
    CodeForGpu,
    /// They have none for one of them.
    NoCodeForGpu,
    /// They have none, and another flavour of the same series has.
    OtherFlavourHasCode,
    /// Another flavour of the same series has code for newer GPUs.
    OtherFlavourIsNewer,
    /// A GPU or a capability is named.
    GpuKnown,
    /// Packages for two CUDA majors are installed.
    TwoCudaMajors,
    /// A library that is missed is named elsewhere with its folder.
    LibraryIsThere,
    /// torch is a build for the CPU.
    CpuTorch,
    /// torch is a build for CUDA.
    CudaTorch,
}

/// The words that give one kind of surroundings away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurroundingWords {
    /// What they give away.
    pub surrounding: Surrounding,
    /// Any of them in a line, in lower case.
    pub words: Vec<String>,
    /// None of these in the same line: `ROCM used to build PyTorch: N/A`.
    pub unless: Vec<String>,
}

#[derive(Debug)]
pub(in crate::registry) struct ErrorRows {
    pub rules: Vec<ErrorRule>,
    pub surroundings: Vec<SurroundingWords>,
}

impl Offer {
    fn parse(text: &str) -> Result<Offer, RowError> {
        match text {
            "torch" => Ok(Offer::Torch),
            "driver" => Ok(Offer::Driver),
            _ => Err(format!("`{text}` is nothing to offer")),
        }
    }

    fn list(texts: &[String]) -> Result<Vec<Offer>, RowError> {
        texts.iter().map(|text| Offer::parse(text)).collect()
    }
}

impl FromStr for Condition {
    type Err = RowError;

    fn from_str(text: &str) -> Result<Self, RowError> {
        let (negated, name) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mechanics = match name {
            "code-for-gpu" => Some(Mechanics::CodeForGpu),
            "no-code-for-gpu" => Some(Mechanics::NoCodeForGpu),
            "other-flavour-has-code" => Some(Mechanics::OtherFlavourHasCode),
            "other-flavour-is-newer" => Some(Mechanics::OtherFlavourIsNewer),
            "gpu-known" => Some(Mechanics::GpuKnown),
            "two-cuda-majors" => Some(Mechanics::TwoCudaMajors),
            "library-is-there" => Some(Mechanics::LibraryIsThere),
            "cpu-torch" => Some(Mechanics::CpuTorch),
            "cuda-torch" => Some(Mechanics::CudaTorch),
            _ => None,
        };
        let predicate = match (mechanics, name.split_once(':'), name.parse()) {
            (Some(mechanics), ..) => Predicate::Mechanics(mechanics),
            (_, Some(("seen", id)), _) => Predicate::Seen(id.to_owned()),
            (_, Some(("says", words)), _) if !words.is_empty() => Predicate::Says(words.to_lowercase()),
            (.., Ok(surrounding)) => Predicate::Surrounding(surrounding),
            _ => return Err(format!("`{text}` is no condition")),
        };
        Ok(Condition { negated, predicate })
    }
}

fn component(text: &str) -> Result<Component, RowError> {
    text.parse().map_err(|()| format!("`{text}` is no component"))
}

fn weight(value: f64) -> Result<f64, RowError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err("`weight` is between 0 and 1".to_owned()),
    }
}

/// A text whose placeholders are all known ones.
fn template(text: &str) -> Result<String, RowError> {
    for piece in text.split('{').skip(1) {
        let name = piece.split('}').next().unwrap_or_default();
        if !PLACEHOLDERS.contains(&name) {
            return Err(format!("`{{{name}}}` is no placeholder"));
        }
    }
    Ok(text.to_owned())
}

fn fixes(texts: &[String]) -> Result<Vec<Fix>, RowError> {
    texts.iter().map(|text| template(text).map(|text| Fix::parse(&text))).collect()
}

impl TryFrom<&RawErrorAnswer> for ErrorAnswer {
    type Error = RowError;

    fn try_from(raw: &RawErrorAnswer) -> Result<Self, RowError> {
        Ok(ErrorAnswer {
            component: component(&raw.component)?,
            cause: template(&raw.cause)?,
            fix: fixes(&raw.fix)?,
            offer: Offer::list(&raw.offer)?,
            weight: weight(raw.weight)?,
        })
    }
}

impl TryFrom<&RawErrorCase> for ErrorCase {
    type Error = RowError;

    fn try_from(raw: &RawErrorCase) -> Result<Self, RowError> {
        if raw.conditions.is_empty() {
            return Err("`if` names no condition".to_owned());
        }
        Ok(ErrorCase {
            conditions: raw.conditions.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
            component: raw.component.as_deref().map(component).transpose()?,
            cause: raw.cause.as_deref().map(template).transpose()?,
            fix: raw.fix.as_deref().map(fixes).transpose()?,
            offer: raw.offer.as_deref().map(Offer::list).transpose()?,
            weight: raw.weight.map(weight).transpose()?,
        })
    }
}

impl TryFrom<&RawErrorRule> for ErrorRule {
    type Error = RowError;

    fn try_from(raw: &RawErrorRule) -> Result<Self, RowError> {
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
            alternatives,
            answer: ErrorAnswer {
                component: component(&raw.component)?,
                cause: template(&raw.cause)?,
                fix: fixes(&raw.fix)?,
                offer: Offer::list(&raw.offer)?,
                weight: weight(raw.weight)?,
            },
            cases: raw.when.iter().map(ErrorCase::try_from).collect::<Result<_, _>>()?,
            others: raw.or.iter().map(ErrorAnswer::try_from).collect::<Result<_, _>>()?,
            check: raw.check.clone(),
        })
    }
}

impl TryFrom<&RawSurroundings> for SurroundingWords {
    type Error = RowError;

    fn try_from(raw: &RawSurroundings) -> Result<Self, RowError> {
        let surrounding = raw.name.parse().map_err(|()| format!("`{}` are no surroundings", raw.name))?;
        if raw.words.is_empty() || raw.words.iter().any(String::is_empty) {
            return Err("`words` has nothing to look for".to_owned());
        }
        let lower = |words: &[String]| words.iter().map(|word| word.to_lowercase()).collect();
        Ok(SurroundingWords { surrounding, words: lower(&raw.words), unless: lower(&raw.unless) })
    }
}
