//! Who failed: the package with its own GPU code that an error is about.

use super::facts::Event;
use super::situation::Situation;
use crate::registry::{Cited, Extension};

/// The package with its own GPU code that failed: that of the line, that of the traceback above it, or the only one that the
/// text names.
pub(super) fn failed<'a>(situation: &Situation<'a>, events: &[&Event]) -> Option<&'a Cited<Extension>> {
    let rows = situation.registry.extensions();
    let names = |text: &str| {
        let text = text.to_lowercase();
        rows.iter().find(|row| row.modules.iter().any(|word| has_word(&text, word)))
    };
    let of_line = events.iter().find_map(|event| names(&event.text));
    let of_frame = || events.iter().find_map(|event| names(&event.frame));
    let of_statement = || events.iter().find_map(|event| names(&event.statement));
    let of_text = || {
        let mut named = rows.iter().filter(|row| situation.facts.extensions.contains(&row.package));
        named.next().filter(|_| named.next().is_none())
    };
    of_line.or_else(of_frame).or_else(of_statement).or_else(of_text)
}

/// Whether a text has a word that no letter or digit stands beside: `vllm` in `/vllm/` and `vllm._C`, not in `myvllm`.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !is_part(c));
        let after = text[at + word.len()..].chars().next().is_none_or(|c| !is_part(c));
        before && after
    })
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn words_stand_alone() {
        for (text, expected) in [
            ("/site-packages/vllm/_c.abi3.so", true),
            ("from vllm._c import x", true),
            ("myvllm", false),
            ("vllm2", false),
            ("comfyui-llama-cpp_vllm", true),
        ] {
            assert_eq!(has_word(text, "vllm"), expected, "{text}");
        }
    }
}
