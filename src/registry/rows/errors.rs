//! Rules for log lines, and the words that indicate surroundings.

use std::str::FromStr;

use serde::Deserialize;

use super::RowError;
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;
use crate::registry::table::Fault;

/// The placeholders in texts of causes and fixes, which are replaced with facts.
const PLACEHOLDERS: &[&str] = &[
    "torch",
    "torchvision",
    "torchaudio",
    "cuda",
    "cuda-major",
    "cuda-suffix",
    "named-suffix",
    "asked-torch",
    "asked-variant",
    "asked-last",
    "asked-platform",
    "asked-python",
    "asked-pythons",
    "pytorch-index",
    "driver",
    "driver-cuda",
    "cudnn",
    "gpu",
    "extension",
    "extension-pin",
    "extension-version",
    "triton-below",
    "toolkit-major",
    "driver-branch",
    "python",
    "capability",
    "capabilities",
    "variant",
    "arch",
    "arch-cuda",
    "newest-gcc",
    "legacy-branch",
    "torch-nccl",
    "free-share",
    "cuda-dashed",
    "symbol-cuda",
    "symbol-suffix",
    "likely-cuda-major",
    "needed-cudnn",
    "jaxlib",
    "built-for-torch",
    "built-for-variant",
];

/// The least letters of a pattern.
const SHORTEST: usize = 4;

/// A rule for log lines.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawErrorRule")]
pub struct ErrorRule {
    /// The code of the cause, for programs.
    pub id: String,
    /// Alternative patterns. The pieces of one must occur in this order in a line, in lower case.
    pub alternatives: Vec<Vec<String>>,
    /// The meaning if no case applies.
    pub answer: ErrorAnswer,
    /// Meanings that depend on other facts; the first case that holds applies.
    pub cases: Vec<ErrorCase>,
    /// Less probable alternative meanings, each with conditions that must hold.
    pub others: Vec<(Vec<Condition>, ErrorAnswer)>,
    /// A command that distinguishes the possible causes.
    pub check: Option<String>,
    /// Whether the program goes on after the line: alone it is no problem.
    pub is_notice: bool,
    /// The ids of the rules that do not count on a line of this notice: they match what it quotes.
    pub hides: Vec<String>,
}

/// A possible cause of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorAnswer {
    /// The component at fault, one of a closed list (docs/diagnostics.md).
    pub component: Component,
    /// The cause, as one sentence.
    pub cause: String,
    /// Fixes, with placeholders.
    pub fix: Vec<Fix>,
    /// Additional fixes that are computed.
    pub offer: Vec<Offer>,
    /// The confidence, between 0 and 1.
    pub weight: f64,
}

/// A fix that is computed from the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offer {
    /// Install a torch that runs on the GPUs and the driver of the facts.
    Torch,
    /// The same, with a CUDA that the driver is not older than: it compiles PTX too.
    NativeTorch,
    /// Install one that is newer than the installed release too.
    NewerTorch,
    /// Update the driver.
    Driver,
    /// Start a container with GPUs, in the form of the engine.
    Container,
    /// Install a CUDA toolkit.
    Toolkit,
    /// Install the package that brings a missing library.
    Library,
    /// Install the companions that were built for the installed torch.
    Companions,
    /// Install the build of the program that failed for the torch, CUDA and GPU of the facts.
    Extension,
}

/// A meaning that depends on other facts. Absent fields are those of the rule.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorCase {
    /// All conditions must hold.
    pub conditions: Vec<Condition>,
    /// Replaces the component.
    pub component: Option<Component>,
    /// Replaces the cause.
    pub cause: Option<String>,
    /// Replaces the fixes.
    pub fix: Option<Vec<Fix>>,
    /// Replaces the offers.
    pub offer: Option<Vec<Offer>>,
    /// Replaces the weight.
    pub weight: Option<f64>,
}

/// A condition, written `wsl` or `!wsl`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// It holds if the predicate does not.
    pub negated: bool,
    /// The predicate.
    pub predicate: Predicate,
}

/// A predicate on the facts.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// The text indicates these surroundings.
    Surrounding(Surrounding),
    /// `seen:ID`: another rule matches a line.
    Seen(String),
    /// `says:WORDS`: a line that matches a rule contains these words, in lower case.
    Says(String),
    /// `line:WORDS|OTHERS`: a line that matches this rule contains one of these words, in lower case.
    Line(Vec<String>),
    /// The import statement that a traceback shows above a line that this rule matched contains one of these words.
    Import(Vec<String>),
    /// `package:tensorflow>=2.11`: the text states a version of the package that the specifiers admit.
    Package(String, pep440_rs::VersionSpecifiers),
    /// A check against the compatibility data.
    Mechanics(Mechanics),
}

/// Checks of the facts against the compatibility data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanics {
    /// torch's own kernels have code for every GPU.
    CodeForGpu,
    /// They have no code for at least one GPU.
    NoCodeForGpu,
    /// They have no code for a newer GPU, but another variant of the same series has.
    OtherVariantHasCode,
    /// The installer lists the release that was asked for, without the build.
    ReleaseOffered,
    /// Another variant of the same series has code for newer GPUs.
    OtherVariantIsNewer,
    /// The package with its own GPU code that failed is known.
    FailedKnown,
    /// A GPU or a compute capability is known.
    GpuKnown,
    /// The driver's version is known.
    DriverKnown,
    /// The driver is of the newest CUDA major version, or of the one before: too old for few programs.
    RecentDriver,
    /// Packages for two CUDA majors are installed.
    TwoCudaMajors,
    /// The text has the folder of a toolkit of torch's CUDA.
    ToolkitIsThere,
    /// A library that is reported missing has an absolute path elsewhere in the text.
    LibraryIsThere,
    /// One allocation asks for more memory than the card has.
    MemoryBeyondCard,
    /// Other processes hold the memory.
    MemoryHeldByOthers,
    /// Other processes hold enough for what was asked for, and less than this one.
    MemoryShared,
    /// torch has reserved enough memory, in pieces.
    MemoryInPieces,
    /// A package other than torch and its companions is a build for torch's CUDA: `vllm 0.13.0+cu130`.
    OthersOfTorchsCuda,
    /// torch and Python are those that an extension says it was built for.
    AsBuiltFor,
    /// A missing library is of torch's own CUDA, whose packages torch requires.
    LibraryOfTorchsCuda,
    /// torch is a CPU build.
    CpuTorch,
    /// torch is a CUDA build.
    CudaTorch,
    /// A matched line names the file of a module of Python's standard library, and it is not Python's own.
    OtherModule,
}

/// The codes of one library: what its functions return, by name and by text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawCodes")]
pub struct CodeFamily {
    /// The library: `cudnn`.
    pub family: String,
    /// A rule for each code.
    pub rules: Vec<ErrorRule>,
}

/// The words that indicate surroundings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawSurroundings")]
pub struct SurroundingWords {
    /// The surroundings.
    pub surrounding: Surrounding,
    /// Words of which one must be in a line, in lower case.
    pub words: Vec<String>,
    /// Words that must not be in the same line: `ROCM used to build PyTorch: N/A`.
    pub unless: Vec<String>,
}

/// Words by which `diagnose` reads lines, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// What they say of a line.
    pub of: WordsOf,
    /// The words.
    pub words: Vec<String>,
}

/// What words say of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordsOf {
    /// Somebody has a problem without an error: a run that is slow or stands still.
    Complaint,
    /// The beginning of a line of a collector, before a value.
    DescriptionKey,
    /// A part of such a line.
    DescriptionPart,
    /// The beginning of such a line without a key.
    DescriptionStart,
    /// The line is worth a look.
    Relevant,
    /// What stands behind a key is no value.
    Trouble,
}

/// The keys of a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawErrorRule {
    id: String,
    component: String,
    #[serde(rename = "match")]
    matches: Vec<String>,
    cause: String,
    #[serde(default)]
    fix: Vec<String>,
    #[serde(default)]
    offer: Vec<String>,
    weight: f64,
    check: Option<String>,
    #[serde(default)]
    notice: bool,
    #[serde(default)]
    hides: Vec<String>,
    /// The threads that the rule was learned from; empty if it is derived from a definition.
    #[serde(default)]
    #[allow(dead_code, reason = "read by tests/diagnose-score.py")]
    from: Vec<String>,
    #[serde(default)]
    when: Vec<RawErrorCase>,
    #[serde(default)]
    or: Vec<RawErrorAnswer>,
}

/// The keys of a family of codes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCodes {
    family: String,
    /// How programs print a code's text: `CUDA error: {}`.
    #[serde(default)]
    prints: Vec<String>,
    rows: Vec<RawCode>,
}

/// A code: its name, its text (empty if it is not distinctive), the component at fault, how sure the code alone makes
/// that, and the cause.
#[derive(Debug, Deserialize)]
struct RawCode(String, String, String, f64, String);

/// The keys of another meaning.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawErrorAnswer {
    #[serde(default, rename = "if")]
    conditions: Vec<String>,
    component: String,
    /// That of the rule if absent.
    cause: Option<String>,
    #[serde(default)]
    fix: Vec<String>,
    #[serde(default)]
    offer: Vec<String>,
    weight: f64,
}

/// The keys of a case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawErrorCase {
    #[serde(rename = "if")]
    conditions: Vec<String>,
    component: Option<String>,
    cause: Option<String>,
    fix: Option<Vec<String>>,
    offer: Option<Vec<String>>,
    weight: Option<f64>,
}

/// The keys of a row of words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSurroundings {
    name: String,
    words: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
}

impl ErrorRule {
    /// What is wrong with a rule by itself.
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if self.id.is_empty() || !self.id.chars().all(is_id) {
            return Some(Fault::at("id", "`id` has small letters, digits and `-`"));
        }
        if self.alternatives.iter().any(|all| all.iter().map(String::len).sum::<usize>() < SHORTEST) {
            let text =
                format!("`match` has a pattern of less than {SHORTEST} letters, which any line may have");
            return Some(Fault::at("match", text));
        }
        // It is said of every text; the cause of a case, only where the text gives the value.
        if self.answer.cause.contains('{') {
            return Some(Fault::at("cause", "a rule's own `cause` has no placeholder: put it into a case"));
        }
        (!self.is_notice && !self.hides.is_empty()).then(|| Fault::at("hides", "`hides` without `notice`"))
    }
}

impl Offer {
    pub(super) fn parse(text: &str) -> Result<Offer, RowError> {
        match text {
            "torch" => Ok(Offer::Torch),
            "native-torch" => Ok(Offer::NativeTorch),
            "newer-torch" => Ok(Offer::NewerTorch),
            "driver" => Ok(Offer::Driver),
            "container" => Ok(Offer::Container),
            "toolkit" => Ok(Offer::Toolkit),
            "library" => Ok(Offer::Library),
            "companions" => Ok(Offer::Companions),
            "extension" => Ok(Offer::Extension),
            _ => Err(format!(
                "`{text}` is not a valid offer: expected `torch`, `native-torch`, `newer-torch`, `driver`, `container`, `toolkit`, `library`, `companions` or `extension`"
            )),
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
            "release-offered" => Some(Mechanics::ReleaseOffered),
            "other-flavour-has-code" => Some(Mechanics::OtherVariantHasCode),
            "other-flavour-is-newer" => Some(Mechanics::OtherVariantIsNewer),
            "failed-known" => Some(Mechanics::FailedKnown),
            "gpu-known" => Some(Mechanics::GpuKnown),
            "driver-known" => Some(Mechanics::DriverKnown),
            "recent-driver" => Some(Mechanics::RecentDriver),
            "two-cuda-majors" => Some(Mechanics::TwoCudaMajors),
            "toolkit-is-there" => Some(Mechanics::ToolkitIsThere),
            "library-is-there" => Some(Mechanics::LibraryIsThere),
            "memory-beyond-card" => Some(Mechanics::MemoryBeyondCard),
            "memory-held-by-others" => Some(Mechanics::MemoryHeldByOthers),
            "memory-shared" => Some(Mechanics::MemoryShared),
            "as-built-for" => Some(Mechanics::AsBuiltFor),
            "library-of-torchs-cuda" => Some(Mechanics::LibraryOfTorchsCuda),
            "others-of-torchs-cuda" => Some(Mechanics::OthersOfTorchsCuda),
            "memory-in-pieces" => Some(Mechanics::MemoryInPieces),
            "cpu-torch" => Some(Mechanics::CpuTorch),
            "cuda-torch" => Some(Mechanics::CudaTorch),
            "other-module" => Some(Mechanics::OtherModule),
            _ => None,
        };
        let predicate = match (mechanics, name.split_once(':'), name.parse()) {
            (Some(mechanics), ..) => Predicate::Mechanics(mechanics),
            (_, Some(("seen", id)), _) => Predicate::Seen(id.to_owned()),
            (_, Some(("line", words)), _) if !words.split('|').any(str::is_empty) => {
                Predicate::Line(words.to_lowercase().split('|').map(str::to_owned).collect())
            }
            (_, Some(("import", words)), _) if !words.split('|').any(str::is_empty) => {
                Predicate::Import(words.to_lowercase().split('|').map(str::to_owned).collect())
            }
            (_, Some(("package", requirement)), _) => {
                let at = requirement.find(['<', '>', '=', '!', '~']).ok_or("`package:` has no version")?;
                let (name, specifiers) = requirement.split_at(at);
                let specifiers =
                    specifiers.parse().map_err(|e| format!("`{text}` has no valid version: {e}"))?;
                Predicate::Package(name.to_owned(), specifiers)
            }
            (_, Some(("says", words)), _) if !words.is_empty() && !words.contains('|') => {
                Predicate::Says(words.to_lowercase())
            }
            (.., Ok(surrounding)) => Predicate::Surrounding(surrounding),
            _ => return Err(format!("`if`: `{text}` is no condition; docs/diagnostics.md lists them")),
        };
        Ok(Condition { negated, predicate })
    }
}

fn component(text: &str) -> Result<Component, RowError> {
    text.parse().map_err(|()| {
        let all: Vec<&str> = Component::ALL.iter().map(|one| one.as_str()).collect();
        format!("`component`: `{text}` is none of {}", all.join(", "))
    })
}

fn weight(value: f64) -> Result<f64, RowError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err("`weight` must be between 0 and 1".to_owned()),
    }
}

/// Checks that all placeholders of a text are known.
fn template(text: &str) -> Result<String, RowError> {
    for piece in text.split('{').skip(1) {
        let name = piece.split('}').next().unwrap_or_default();
        if !PLACEHOLDERS.contains(&name) {
            return Err(format!("`{{{name}}}` is not a valid placeholder"));
        }
    }
    Ok(text.to_owned())
}

pub(super) fn fixes(texts: &[String]) -> Result<Vec<Fix>, RowError> {
    texts.iter().map(|text| template(text).map(|text| Fix::parse(&text))).collect()
}

impl TryFrom<&RawErrorCase> for ErrorCase {
    type Error = RowError;

    fn try_from(raw: &RawErrorCase) -> Result<Self, RowError> {
        if raw.conditions.is_empty() {
            return Err("`if` has no condition".to_owned());
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

/// Another meaning with its conditions.
fn other(raw: &RawErrorAnswer, cause_of_rule: &str) -> Result<(Vec<Condition>, ErrorAnswer), RowError> {
    let conditions = raw.conditions.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let answer = ErrorAnswer {
        component: component(&raw.component)?,
        cause: template(raw.cause.as_deref().unwrap_or(cause_of_rule))?,
        fix: fixes(&raw.fix)?,
        offer: Offer::list(&raw.offer)?,
        weight: weight(raw.weight)?,
    };
    Ok((conditions, answer))
}

impl TryFrom<RawErrorRule> for ErrorRule {
    type Error = RowError;

    fn try_from(raw: RawErrorRule) -> Result<Self, RowError> {
        let alternatives: Vec<Vec<String>> = raw
            .matches
            .iter()
            .map(|text| text.to_lowercase().split(" ... ").map(str::to_owned).collect())
            .collect();
        if alternatives.is_empty() || alternatives.iter().flatten().any(String::is_empty) {
            return Err("`match` has an empty pattern".to_owned());
        }
        Ok(ErrorRule {
            id: raw.id,
            alternatives,
            answer: ErrorAnswer {
                component: component(&raw.component)?,
                cause: template(&raw.cause)?,
                fix: fixes(&raw.fix)?,
                offer: Offer::list(&raw.offer)?,
                weight: weight(raw.weight)?,
            },
            cases: raw.when.iter().map(ErrorCase::try_from).collect::<Result<_, _>>()?,
            others: raw.or.iter().map(|raw_or| other(raw_or, &raw.cause)).collect::<Result<_, _>>()?,
            check: raw.check,
            is_notice: raw.notice,
            hides: raw.hides,
        })
    }
}

impl TryFrom<RawCodes> for CodeFamily {
    type Error = RowError;

    fn try_from(raw: RawCodes) -> Result<Self, RowError> {
        let rule = |RawCode(name, text, component, weight, cause): RawCode| {
            let printed =
                raw.prints.iter().filter(|_| !text.is_empty()).map(|print| print.replace("{}", &text));
            ErrorRule::try_from(RawErrorRule {
                id: name.to_lowercase().replace('_', "-"),
                component,
                matches: std::iter::once(name).chain(printed).collect(),
                cause,
                fix: Vec::new(),
                offer: Vec::new(),
                weight,
                check: None,
                notice: false,
                hides: Vec::new(),
                when: Vec::new(),
                or: Vec::new(),
                from: Vec::new(),
            })
        };
        Ok(CodeFamily {
            family: raw.family,
            rules: raw.rows.into_iter().map(rule).collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<RawSurroundings> for SurroundingWords {
    type Error = RowError;

    fn try_from(raw: RawSurroundings) -> Result<Self, RowError> {
        let surrounding =
            raw.name.parse().map_err(|()| format!("`{}` is not a valid name of surroundings", raw.name))?;
        if raw.words.is_empty() || raw.words.iter().any(String::is_empty) {
            return Err("`words` is empty or has an empty word".to_owned());
        }
        let lower = |words: &[String]| words.iter().map(|word| word.to_lowercase()).collect();
        Ok(SurroundingWords { surrounding, words: lower(&raw.words), unless: lower(&raw.unless) })
    }
}
