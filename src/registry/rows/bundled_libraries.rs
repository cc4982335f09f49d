//! The rows of libraries.toml: libraries that wheels bring along, and how their content names them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::registry::table::Fault;

/// A library of others that wheels bring along: the project that it is of.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BundledLibrary {
    /// The project: `openssl`.
    pub name: String,
    /// The stems of its files, which end before `.so`; `*` at the end stands for any rest: `libcrypto`, `libav*`.
    pub sonames: Vec<String>,
    /// Names by which bills of materials and distributions call it too: `openssl-libs`.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Vendor and product in the National Vulnerability Database: `openssl:openssl`.
    pub cpe: Option<String>,
    /// Its release by the numbers behind `.so.`, for these stems (with `*` likewise): `{0}.{1}.{2}`, or `1.6.{1}` where the first
    /// is of the interface.
    /// `3:` before it: only where that is the first number.
    #[serde(default)]
    pub file: BTreeMap<String, String>,
    /// The releases by the numbers behind `.so.`, for these stems (with `*` likewise), each line the numbers and the releases that have
    /// them: `7.2.0 1.6.0`.
    #[serde(default)]
    pub numbers: BTreeMap<String, Vec<String>>,
    /// How its content states its release, which `{v}` stands for: `OpenSSL {v} `; `{day}` for one of eight digits.
    #[serde(default)]
    pub text: Vec<String>,
    /// Whether its content has its release as a text of its own, and no other of three numbers.
    #[serde(default)]
    pub bare: bool,
    /// Packages on PyPI that are this library: their version is its release; `*` at the end stands for any rest.
    #[serde(default)]
    pub wheels: Vec<String>,
    /// Whether modules of packages that link it statically are known by that text too.
    #[serde(default)]
    pub modules: bool,
}

impl BundledLibrary {
    /// What is wrong with a row.
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        let has_place = |text: &String| {
            let parts = text.split_once("{v}").or_else(|| text.split_once("{day}"));
            parts.is_some_and(|(before, _)| before.len() >= 3)
        };
        let is_line = |line: &String| {
            let mut words = line.split(' ');
            let numbers = words.next().unwrap_or_default();
            let all: Vec<&str> = words.collect();
            !all.is_empty()
                && numbers.split('.').all(|part| part.parse::<u32>().is_ok())
                && all.iter().all(|release| release.starts_with(|c: char| c.is_ascii_digit()))
        };
        if !self.numbers.values().flatten().all(is_line) {
            return Some(Fault::at(
                "numbers",
                "each line of `numbers` must be numbers and the releases that have them",
            ));
        }
        if self.text.iter().any(|text| !has_place(text)) {
            return Some(Fault::at("text", "each `text` must have `{v}` behind at least three characters"));
        }
        if self.cpe.as_ref().is_some_and(|cpe| cpe.split(':').filter(|part| !part.is_empty()).count() != 2) {
            return Some(Fault::at("cpe", "`cpe` must be `vendor:product`"));
        }
        if self.sonames.is_empty() {
            return Some(Fault::at("sonames", "`sonames` must not be empty"));
        }
        (self.modules && self.text.is_empty()).then(|| Fault::at("modules", "`modules` needs a `text`"))
    }
}
