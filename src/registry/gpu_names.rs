//! Finds GPUs by product name and PCI device id.

use std::collections::HashMap;
use std::sync::Mutex;

use super::rows::{GpuRow, OtherMaker};
use super::{Cited, Registry};
use crate::model::capability::ComputeCapability;
use crate::model::text;

/// A GPU found by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuMatch {
    /// The registry's name for it.
    pub name: String,
    /// Its capability.
    pub capability: ComputeCapability,
    /// Its class, if known.
    pub class: Option<String>,
}

/// A GPU name without a unique compute capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuLookupError {
    /// Unknown product.
    #[error("unknown GPU `{name}`")]
    Unknown {
        /// As given.
        name: String,
        /// The nearest names.
        nearest: Vec<String>,
    },
    /// A product of another maker than NVIDIA.
    #[error("`{name}` is a GPU of {maker}, which runs no CUDA")]
    OfOtherMaker {
        /// As given.
        name: String,
        /// The maker: `AMD`.
        maker: String,
        /// The options that ask for a machine with such a GPU.
        instead: String,
    },
    /// A vGPU profile for displays.
    #[error("`{name}` is a vGPU profile for displays, which in general has no CUDA")]
    DisplayProfile {
        /// As given.
        name: String,
    },
    /// Products with different compute capabilities match the name.
    #[error("`{name}` matches GPUs with different compute capabilities: {}", readings.join(", "))]
    Ambiguous {
        /// As given.
        name: String,
        /// The matching products, `GeForce GTX 860M (5.0)`.
        readings: Vec<String>,
    },
}

/// Names that were looked up, with what they mean.
#[derive(Debug, Default)]
pub(super) struct Found(Mutex<HashMap<String, Option<Result<GpuMatch, GpuLookupError>>>>);

impl Found {
    /// Maximum number of names that are kept.
    const MOST: usize = 4_096;

    fn of(
        &self,
        name: &str,
        look_up: impl FnOnce() -> Option<Result<GpuMatch, GpuLookupError>>,
    ) -> Option<Result<GpuMatch, GpuLookupError>> {
        // What another thread left behind when it failed is whole: each entry is written at once.
        let known = || self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(found) = known().get(name) {
            return found.clone();
        }
        let found = look_up();
        let mut kept = known();
        if kept.len() < Self::MOST {
            kept.insert(name.to_owned(), found.clone());
        }
        found
    }
}

/// What a name that is not a product's stands for.
enum Board {
    /// A board, the likeliest name first.
    Named(Vec<String>),
    /// A profile for displays.
    ForDisplays,
}

impl Registry {
    /// Finds a GPU by product name, ignoring case and the prefixes NVIDIA, Tesla and GeForce. A part of a name
    /// suffices if all matching products have the same compute capability. A MIG instance and a vGPU profile for compute have
    /// the capability of their board.
    ///
    /// # Errors
    /// The name is unknown, matches products with different compute capabilities, or is a vGPU profile for displays.
    pub fn find_gpu(&self, name: &str) -> Result<GpuMatch, GpuLookupError> {
        self.known_gpu(name).unwrap_or_else(|| Err(self.unknown_gpu(name)))
    }

    /// Like [`Registry::find_gpu`], but returns `None` for unknown names without searching for the nearest names.
    pub fn known_gpu(&self, name: &str) -> Option<Result<GpuMatch, GpuLookupError>> {
        self.parts.gpus_found.of(name, || self.look_up(name))
    }

    fn look_up(&self, name: &str) -> Option<Result<GpuMatch, GpuLookupError>> {
        if let Some(found) = self.known_product(name) {
            return Some(found);
        }
        match self.board_of(name)? {
            Board::Named(boards) => boards.iter().find_map(|board| self.known_product(board)),
            Board::ForDisplays => Some(Err(GpuLookupError::DisplayProfile { name: text::clean(name, 80) })),
        }
    }

    /// The board in a name that a driver or a hypervisor made of it; `None` if it is not such a name.
    fn board_of(&self, name: &str) -> Option<Board> {
        // `NVIDIA A100-SXM4-80GB MIG 3g.40gb`
        if let Some((board, instance)) = name.split_once(" MIG ") {
            let product = is_mig_instance(instance).then(|| self.known_product(board))?;
            // Boards before Ampere have no instances.
            let has_mig = matches!(product, Some(Ok(found)) if found.capability >= FIRST_WITH_MIG);
            return has_mig.then(|| Board::Named(vec![board.to_owned()]));
        }
        let names = self.gpu_names()?;
        let lower = name.to_lowercase();
        if let Some(board) =
            names.added.iter().find_map(|added| lower.trim().strip_suffix(&added.to_lowercase()))
        {
            return Some(Board::Named(vec![board.to_owned()]));
        }
        // `NVIDIA L40S-48C`, `GRID A100DX-4-20C`: the board, the slices of MIG, the memory in GB and a letter.
        let (board, profile) = name.trim().rsplit_once('-')?;
        let letters = profile.trim_start_matches(|c: char| c.is_ascii_digit());
        if letters.len() == profile.len() {
            return None;
        }
        let letter = letters.get(..1)?;
        if names.vgpu_display.iter().any(|known| known == letter) {
            return Some(Board::ForDisplays);
        }
        if letters.len() != 1 || !names.vgpu_compute.iter().any(|known| known == letter) {
            return None;
        }
        let board = board.strip_prefix("GRID ").unwrap_or(board);
        let board = match board.rsplit_once('-') {
            Some((board, slices)) if slices.bytes().all(|b| b.is_ascii_digit()) => board,
            _ => board,
        };
        let variants = names.vgpu_board.iter().filter_map(|variant| board.strip_suffix(variant.as_str()));
        Some(Board::Named([board].into_iter().chain(variants).map(str::to_owned).collect()))
    }

    fn known_product(&self, name: &str) -> Option<Result<GpuMatch, GpuLookupError>> {
        let found = |rows: Vec<&Cited<GpuRow>>| -> Result<GpuMatch, GpuLookupError> {
            let mut readings: Vec<(ComputeCapability, &Cited<GpuRow>)> =
                rows.iter().map(|r| (r.capability, *r)).collect();
            // Of products of one capability the plain one is meant: not `Engineering Sample`, not `SUPER`.
            readings.sort_by_key(|r| (r.0, normalize_gpu(&r.1.name).split(' ').count()));
            readings.dedup_by_key(|r| r.0);
            match readings.as_slice() {
                [(capability, row)] => {
                    Ok(GpuMatch { name: row.name.clone(), capability: *capability, class: row.class.clone() })
                }
                several => Err(GpuLookupError::Ambiguous {
                    name: text::clean(name, 80),
                    readings: several.iter().map(|(c, r)| format!("{} ({c})", r.name)).collect(),
                }),
            }
        };
        let wanted: Vec<&str> = words(name).collect();
        let is_same = |row: &&Cited<GpuRow>| is_same_words(words(&row.name), &wanted);
        let exact: Vec<&Cited<GpuRow>> = self.gpus().iter().filter(is_same).collect();
        if !exact.is_empty() {
            return Some(found(exact));
        }
        if !wanted.iter().any(|word| names_a_model(word)) {
            return None;
        }
        let has_all = |row: &&Cited<GpuRow>| wanted.iter().all(|word| has_word(&row.name, word));
        let partial: Vec<&Cited<GpuRow>> = self.gpus().iter().filter(has_all).collect();
        (!partial.is_empty()).then(|| found(partial))
    }

    /// The error for an unknown name: another maker's, or with the nearest names.
    fn unknown_gpu(&self, name: &str) -> GpuLookupError {
        let is_of = |maker: &&Cited<OtherMaker>| maker.words.iter().any(|word| has_word(name, word));
        if let Some(maker) = self.other_makers().iter().find(is_of) {
            let (maker, instead) = (maker.maker.clone(), maker.instead.clone());
            return GpuLookupError::OfOtherMaker { name: text::clean(name, 80), maker, instead };
        }
        let wanted = normalize_gpu(name);
        let words: Vec<&str> = words(name).collect();
        // A name with all the words is nearer than one with a small edit distance.
        let mut nearest: Vec<(bool, usize, &str)> = self
            .gpus()
            .iter()
            .map(|g| {
                let name = normalize_gpu(&g.name);
                let lacks = words.iter().any(|word| !has_word(&g.name, word));
                (lacks || words.is_empty(), strsim::levenshtein(&name, &wanted), g.name.as_str())
            })
            .collect();
        nearest.sort_unstable();
        GpuLookupError::Unknown {
            name: text::clean(name, 80),
            nearest: nearest.into_iter().take(3).map(|(_, _, n)| n.to_owned()).collect(),
        }
    }

    /// Whether a product is in the data-centre class: by its own row, or if that has no class, by all products whose
    /// name starts with its name (`NVIDIA A100` by `A100 PCIe 40GB` and others). False if unknown.
    pub fn is_data_centre(&self, name: &str) -> bool {
        let Ok(found) = self.find_gpu(name) else { return false };
        let data_centre = |class: &str| class == "datacenter";
        if let Some(class) = &found.class {
            return data_centre(class);
        }
        let family = format!("{} ", normalize_gpu(&found.name));
        let mut classes = self
            .gpus()
            .iter()
            .filter(|g| normalize_gpu(&g.name).starts_with(&family))
            .filter_map(|g| g.class.as_deref());
        let mut any = false;
        classes.all(|class| {
            any = true;
            data_centre(class)
        }) && any
    }

    /// Whether a product is known to be a consumer GPU, which cuda-compat does not support. False if unknown: some
    /// workstation GPUs are supported, and not every row has a class.
    pub fn is_consumer(&self, name: &str) -> bool {
        let class = self.find_gpu(name).ok().and_then(|found| found.class);
        class.is_some_and(|class| ["geforce", "mining"].contains(&class.as_str()))
    }

    /// Finds a GPU by PCI device id (`2335`, vendor 10de).
    pub fn find_gpu_by_pci(&self, device: &str) -> Option<&Cited<GpuRow>> {
        let device = device.to_ascii_lowercase();
        self.gpus().iter().find(|g| g.pci.contains(&device))
    }
}

/// The words that a product name may begin with.
const PREFIXES: [&str; 3] = ["nvidia", "tesla", "geforce"];

/// The first compute capability with MIG.
const FIRST_WITH_MIG: ComputeCapability = ComputeCapability::new(8, 0);

/// Whether a text is the profile of a MIG instance: `3g.40gb`, `1c.3g.20gb`, `1g.10gb+me`.
fn is_mig_instance(text: &str) -> bool {
    let (profile, extra) = text.trim().split_once(['+', '-']).unwrap_or((text.trim(), "me"));
    let number = |part: &str, unit: &str| part.strip_suffix(unit)?.parse::<u32>().ok();
    let mut parts = profile.split('.').rev();
    let memory = parts.next().and_then(|part| number(part, "gb"));
    let slices = parts.next().and_then(|part| number(part, "g"));
    let of_compute = parts.next().map(|part| number(part, "c"));
    extra.starts_with("me")
        && memory.is_some_and(|gb| (1..=512).contains(&gb))
        && slices.is_some_and(|slices| (1..=8).contains(&slices))
        && of_compute.is_none_or(|slices| slices.is_some_and(|slices| (1..=8).contains(&slices)))
        && parts.next().is_none()
}

/// Whether two product names are equal, ignoring case and vendor prefix.
///
/// ```
/// assert!(envlock::registry::is_same_gpu_name("GT 1030", "NVIDIA GeForce GT 1030"));
/// assert!(envlock::registry::is_same_gpu_name("Tesla_T4\r", "t4"));
/// ```
pub fn is_same_gpu_name(a: &str, b: &str) -> bool {
    normalize_gpu(a) == normalize_gpu(b)
}

/// The words of a product name, between spaces, `-`, `_` and brackets, without the vendor's.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || ['-', '_', '(', ')'].contains(&c);
    let all = || name.split(is_between).filter(|word| !word.is_empty());
    let is_prefix = |word: &&str| PREFIXES.iter().any(|prefix| prefix.eq_ignore_ascii_case(word));
    let prefixes = all().take_while(is_prefix).count();
    // A name of prefixes alone is its last word.
    all().skip(prefixes.min(all().count().saturating_sub(1)))
}

/// Whether words are the same, ignoring case.
fn is_same_words<'w>(mut own: impl Iterator<Item = &'w str>, wanted: &[&str]) -> bool {
    wanted.iter().all(|word| own.next().is_some_and(|own| own.eq_ignore_ascii_case(word)))
        && own.next().is_none()
}

/// Whether a word tells one model from others: `T4`, `4090`. `RTX` stands in half of the table; a short number is a count or
/// a size in one name (`T10-8`, `D15M2-10`), and a major capability in a person's head.
fn names_a_model(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits > 2 || (digits > 0 && digits < word.len())
}

/// Whether a product name has a word, ignoring case.
fn has_word(name: &str, word: &str) -> bool {
    words(name).any(|own| own.eq_ignore_ascii_case(word))
}

/// A normalized product name: lower case, words with single spaces, without vendor prefixes.
fn normalize_gpu(name: &str) -> String {
    words(name).collect::<Vec<_>>().join(" ").to_lowercase()
}
