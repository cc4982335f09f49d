//! Finds relevant lines and the rules that match them, with one Aho-Corasick pass over each line.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::description::Descriptions;
use super::fields::gpus::alone;
use super::unexplained;
use crate::model::surroundings::Surrounding;
use crate::registry::{Registry, WordsOf};

/// The longest line that is looked at as the name of a GPU and nothing else, in bytes.
const LONGEST_NAME: usize = 32;

/// How many bytes of a pattern the automaton looks for; the rest is compared where they are found. An automaton of whole
/// patterns takes longer to build than most logs take to read.
const ANCHOR: usize = 12;

/// Finds lines that match rules, and lines that may contain facts.
#[derive(Debug)]
pub struct Matcher {
    texts: AhoCorasick,
    /// The pattern that each of the first texts begins; the texts behind them only make a line relevant.
    patterns: Vec<Pattern>,
    /// The rules whose lines alone are no problem, and those that do not count beside them.
    notices: Vec<(usize, Vec<usize>)>,
    /// What data-centre GPUs are called in short, in lower case: `v100`.
    gpus: BTreeSet<String>,
    /// What somebody writes whose run is slow or stands still, in lower case.
    complaints: Vec<String>,
    /// Lines that only describe.
    pub(super) descriptions: Descriptions,
}

#[derive(Debug)]
enum Pattern {
    /// A rule by its index, what follows its anchor at once, and the pieces that must follow in the line.
    Rule(usize, String, Vec<String>),
    /// Surroundings, and the words that must not be in the line.
    Surrounding(Surrounding, Vec<String>),
    /// A package with its own GPU code.
    Extension(String),
}

/// The registry entries that match a line.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The indexes of the rules, each once.
    pub rules: Vec<usize>,
    /// The surroundings that it indicates.
    pub surroundings: Vec<Surrounding>,
    /// The packages with their own GPU code that it names.
    pub extensions: Vec<String>,
}

impl Matcher {
    /// A matcher for a registry's rules and words.
    pub fn new(registry: &Registry) -> Matcher {
        let mut texts: Vec<&str> = Vec::new();
        let mut patterns = Vec::new();
        for (i, rule) in registry.errors().iter().enumerate() {
            for alternative in &rule.alternatives {
                let Some((first, rest)) = alternative.split_first() else { continue };
                let (anchor, tail) = first.split_at(first.floor_char_boundary(ANCHOR));
                texts.push(anchor);
                patterns.push(Pattern::Rule(i, tail.to_owned(), rest.to_vec()));
            }
        }
        for row in registry.surroundings() {
            for word in &row.words {
                texts.push(word);
                patterns.push(Pattern::Surrounding(row.surrounding, row.unless.clone()));
            }
        }
        for row in registry.extensions() {
            for word in &row.modules {
                texts.push(word);
                patterns.push(Pattern::Extension(row.package.clone()));
            }
        }
        let words = |of| registry.words(of).iter().map(String::as_str);
        texts.extend(words(WordsOf::Relevant).chain(words(WordsOf::Complaint)));
        texts.extend(unexplained::WORDS);
        // Lines are compared in lower case: an automaton for both cases takes several times as long to build.
        let texts = AhoCorasick::new(&texts).expect("some thousand short words");
        let place = |id: &String| registry.errors().iter().position(|rule| rule.id == *id);
        let rules = registry.errors().iter().enumerate().filter(|(_, rule)| rule.is_notice);
        let notices = rules.map(|(i, rule)| (i, rule.hides.iter().filter_map(place).collect())).collect();
        // `Tesla V100-SXM2` is `V100` for short.
        let short = |name: &str| {
            let mut words = name.split([' ', '-']);
            words.find(|word| word.contains(|c: char| c.is_ascii_digit())).map(str::to_lowercase)
        };
        let gpus = registry.gpus().iter().filter(|row| row.class.as_deref() == Some("datacenter"));
        let gpus = gpus.filter_map(|row| short(&row.name)).collect();
        let complaints = registry.words(WordsOf::Complaint).to_vec();
        Matcher { texts, patterns, notices, gpus, complaints, descriptions: Descriptions::of(registry) }
    }

    /// Whether a line, given with ASCII letters in lower case, may match a rule or state a fact.
    pub(super) fn is_of_interest(&self, line: &[u8]) -> bool {
        let is_gpu =
            || line.len() <= LONGEST_NAME && str::from_utf8(line).is_ok_and(|l| self.is_gpu_alone(l));
        self.texts.is_match(line) || is_gpu()
    }

    /// Whether a line, in lower case, is of somebody who has a problem without an error.
    pub(super) fn is_complaint(&self, lower: &str) -> bool {
        self.complaints.iter().any(|word| lower.contains(word.as_str()))
    }

    /// Whether a line, in lower case, is the name of a data-centre GPU and nothing else: no word of a collector stands beside it.
    pub(super) fn is_gpu_alone(&self, line: &str) -> bool {
        let board = |word: &str| word.split('-').next().is_some_and(|board| self.gpus.contains(board));
        line.len() <= LONGEST_NAME && alone(line).is_some_and(board)
    }

    /// The rules of which a piece of the pattern stands on both sides of a place: a line that was broken there to fit a
    /// terminal. Notices are not looked for.
    pub(super) fn find_across(&self, lower: &str, place: usize) -> Vec<usize> {
        let mut out = Vec::new();
        for found in self.texts.find_overlapping_iter(lower) {
            let Some(Pattern::Rule(rule, tail, rest)) = self.patterns.get(found.pattern().as_usize()) else {
                continue;
            };
            let spans = |piece: &Range<usize>| piece.start < place && place + 1 < piece.end;
            if !out.contains(rule)
                && !self.notices.iter().any(|(notice, _)| notice == rule)
                && pieces_at(lower, found.start(), found.end(), tail, rest)
                    .is_some_and(|pieces| pieces.iter().any(spans))
            {
                out.push(*rule);
            }
        }
        out
    }

    /// The entries that match a line, given in lower case.
    pub(super) fn find(&self, lower: &str) -> Found {
        let mut out = Found::default();
        for found in self.texts.find_overlapping_iter(lower) {
            let Some(pattern) = self.patterns.get(found.pattern().as_usize()) else { continue };
            match pattern {
                Pattern::Rule(rule, tail, rest) => {
                    // `RuntimeError: Unable to initialize backend 'tpu'`: an exception ended the program.
                    let is_raised = || found.start() > 0 && unexplained::is_error(lower);
                    let is_notice = || self.notices.iter().any(|(notice, _)| notice == rule);
                    if !out.rules.contains(rule)
                        && pieces_at(lower, found.start(), found.end(), tail, rest).is_some()
                        && !(is_notice() && is_raised())
                    {
                        out.rules.push(*rule);
                    }
                }
                Pattern::Surrounding(surrounding, unless) => {
                    let is_word = begins_word(lower, found.start());
                    if is_word && !unless.iter().any(|word| lower.contains(word.as_str())) {
                        out.surroundings.push(*surrounding);
                    }
                }
                Pattern::Extension(package) => {
                    if begins_word(lower, found.start()) && !out.extensions.contains(package) {
                        out.extensions.push(package.clone());
                    }
                }
            }
        }
        // `Unable to initialize backend 'tpu': libtpu.so: cannot open ...`: what it quotes is no error of its own.
        let seen = self.notices.iter().filter(|(notice, _)| out.rules.contains(notice));
        let hidden: Vec<usize> = seen.flat_map(|(_, hidden)| hidden).copied().collect();
        out.rules.retain(|rule| !hidden.contains(rule));
        out
    }
}

/// Where the pieces of a pattern stand in a line whose anchor was found; `None` if one is missing.
fn pieces_at(
    lower: &str,
    start: usize,
    end: usize,
    tail: &str,
    rest: &[String],
) -> Option<Vec<Range<usize>>> {
    lower[end..].starts_with(tail).then_some(())?;
    let mut at = end + tail.len();
    is_whole_number(lower, start..at).then_some(())?;
    let first = start..at;
    let mut out = Vec::from([first]);
    for piece in rest {
        let mut places = lower[at..].match_indices(piece.as_str()).map(|(found, _)| at + found);
        let found = places.find(|found| is_whole_number(lower, *found..found + piece.len()))?;
        at = found + piece.len();
        out.push(found..at);
    }
    Some(out)
}

/// Whether a piece that ends with a number of its own, as `error 100` does, ends where the number of the line does: `error 1001` is
/// another one. The digits of a name (`_zn3c10`) or of a version (`python 3.1`) may go on.
fn is_whole_number(lower: &str, piece: Range<usize>) -> bool {
    let bytes = lower.as_bytes();
    let digits = lower[piece.clone()].bytes().rev().take_while(u8::is_ascii_digit).count();
    let before = piece.end.checked_sub(digits + 1).filter(|at| *at >= piece.start).map(|at| bytes[at]);
    let is_number = digits > 0 && before.is_some_and(|byte| b" =:#(".contains(&byte));
    !is_number || !bytes.get(piece.end).is_some_and(u8::is_ascii_digit)
}

/// Whether a word begins at a place: `tegra` is none in `integrated`.
fn begins_word(lower: &str, at: usize) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_lowercase);
    let bytes = lower.as_bytes();
    !(is_letter(bytes.get(at)) && at > 0 && is_letter(bytes.get(at - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_those_of_the_line_do() {
        for (line, piece, expected) in [
            ("cuda error 100", "error 100", true),
            ("cuda error 1001", "error 100", false),
            ("error=35,", "error=35", true),
            ("error=355", "error=35", false),
            ("_zn3c105errorc2", "_zn3c10", true),
            ("on python 3.12", "python 3.1", true),
            ("winerror 126]", "winerror 126", true),
            ("100", "100", true),
        ] {
            let at = line.find(piece).unwrap();
            assert_eq!(is_whole_number(line, at..at + piece.len()), expected, "{line}");
        }
    }

    #[test]
    fn an_anchor_alone_is_no_match() {
        let matcher = Matcher::new(&Registry::embedded());
        assert!(!matcher.find("nvidia driver on your system is too old").rules.is_empty());
        for text in
            ["nvidia driver on your system is too new", "nvidia drive", "nvidia driver on your system"]
        {
            assert!(matcher.find(text).rules.is_empty(), "{text}");
        }
    }

    #[test]
    fn surroundings_are_words() {
        let matcher = Matcher::new(&Registry::embedded());
        for (text, expected) in [
            ("gpu: intel iris xe (integrated)", Surrounding::Jetson),
            ("from ajax import x", Surrounding::Jax),
        ] {
            assert!(!matcher.find(text).surroundings.contains(&expected), "{text}");
        }
        for (text, expected) in [
            ("linux tegra-ubuntu 5.10.104-tegra", Surrounding::Jetson),
            ("/opt/miniconda3/envs/a", Surrounding::Conda),
            ("/home/me/anaconda3/lib", Surrounding::Conda),
            ("libtensorflow_framework.so.2", Surrounding::Tensorflow),
            ("torch 2.4.0+rocm6.1", Surrounding::Rocm),
        ] {
            assert!(matcher.find(text).surroundings.contains(&expected), "{text}");
        }
    }

    #[test]
    fn each_pattern_of_each_rule_is_found() {
        let registry = Registry::embedded();
        let matcher = Matcher::new(&registry);
        for (i, rule) in registry.errors().iter().enumerate() {
            for pieces in &rule.alternatives {
                let line = format!("2026: {} end", pieces.join(" x "));
                assert!(matcher.is_of_interest(line.as_bytes()), "{line}");
                assert!(matcher.find(&line).rules.contains(&i), "`{}`: {line}", rule.id);
            }
        }
    }
}
