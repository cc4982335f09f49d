//! GPU names in lists and tables, and compute capabilities in sentences.

use super::digits;
use crate::diagnose::facts::Facts;
use crate::model::text::clean;

/// What stands before an entry of a list or table.
const BULLETS: [char; 4] = ['-', '*', '|', ' '];

/// Reads the GPUs and the compute capability in a line.
pub(super) fn read(text: &str, lower: &str, facts: &mut Facts) {
    names(text, lower, facts);
    capability(lower, facts);
}

/// `capability sm_120`, `of cuda capability 7.0`.
fn capability(lower: &str, facts: &mut Facts) {
    if let Some(at) = lower.find("capability") {
        let rest = &lower[at..];
        let named = rest.find("sm_").map(|at| format!("sm_{}", digits(&rest[at + 3..])));
        let plain = rest.split_whitespace().find(|w| {
            w.contains('.')
                && w.trim_end_matches('.')
                    .split('.')
                    .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
        });
        let found = named.or_else(|| plain.map(|w| w.trim_end_matches('.').to_owned()));
        if facts.capability.is_none() {
            facts.capability =
                found.filter(|c| c.parse::<crate::model::capability::ComputeCapability>().is_ok());
        }
    }
}

/// Whether a text in small letters begins with the name of a product: `rtx 3090`, `geforce gtx 1080`.
fn names_product(head: &str) -> bool {
    let product = ["geforce ", "tesla ", "quadro ", "rtx ", "gtx ", "titan "];
    product.iter().any(|p| head.starts_with(p)) && head.contains(|c: char| c.is_ascii_digit())
}

/// Whether a cell of a list, in small letters, is a GPU: `rtx 3090`, `nvidia a10g`.
pub(super) fn is_gpu(cell: &str) -> bool {
    let of_nvidia = cell.strip_prefix("nvidia ").filter(|rest| !rest.starts_with("driver"));
    names_product(cell) || of_nvidia.is_some_and(|rest| rest.contains(|c: char| c.is_ascii_digit()))
}

/// `GPU 0: NVIDIA A100`, `GPU models and configuration: GPU 0: TITAN Xp`, `GPU 0,1   GeForce GTX TITAN X (arch=5.2)`.
fn names(text: &str, lower: &str, facts: &mut Facts) {
    if lower.starts_with("gpu models and configuration")
        && (lower.contains("could not collect") || lower.contains("no cuda"))
    {
        facts.no_driver_seen |= lower.contains("could not collect");
        return;
    }
    if facts.gpus.len() >= 64 {
        return;
    }
    if let Some(name) = of_lspci(text, lower) {
        push_gpu(name, facts);
        return;
    }
    let head = lower.trim_start_matches(BULLETS);
    let is_list = |head: &str| {
        let rest = head.strip_prefix("gpu").unwrap_or("-");
        ["device name", "device=", "found gpu"].iter().any(|start| head.starts_with(start))
            || rest.starts_with([' ', ':', '0'])
            || rest.starts_with("s:")
    };
    // A row of nvidia-smi's table: `|   0  Tesla K80           Off  | 00000000:05:00.0`.
    let row = head.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_row = lower.starts_with('|') && row.len() < head.len() && {
        let name = row.trim_start();
        name.starts_with("nvidia ") || names_product(name)
    };
    let at_start = names_product(head.strip_prefix("nvidia ").unwrap_or(head))
        || is_list(head)
        || is_row
        || super::printed_torch(text).is_some();
    if !at_start && !lower.contains("with cuda capability") && !lower.contains("| nvidia ") {
        return;
    }
    let names = ["geforce", "tesla", "quadro", "titan", "nvidia ", "rtx ", "rtx a", "gtx "];
    let Some(at) = names.iter().filter_map(|n| lower.find(n)).min() else {
        // `GPU 0: A100-SXM4-40GB`
        if let Some((head, rest)) = text.split_once(':')
            && head.trim().to_lowercase().starts_with("gpu ")
            && head.len() < 12
        {
            push_gpu(rest, facts);
        }
        return;
    };
    if let Some(rest) = text.get(at..) {
        push_gpu(rest, facts);
    }
}

/// The name of a GPU on a line of its own, in lower case, without what people write behind it: `v100` of `- V100 (7.0)`,
/// `T4 GPU`, `* H100 80GB`.
pub(in crate::diagnose) fn alone(lower: &str) -> Option<&str> {
    let head = lower.trim_start_matches(BULLETS).trim_end();
    let word = head.split([' ', '(']).next().filter(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    let rest = head[word.len()..].trim_start();
    let is_memory = |text: &str| {
        let amount = text.split([' ', ',', '(', ')']).next().unwrap_or_default();
        amount.strip_suffix("gb").is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_name = rest.is_empty() || rest.starts_with('(') || rest.starts_with("gpu") || is_memory(rest);
    is_name.then_some(word)
}

/// Notes the GPU that a session answers with: `'Tesla P100-PCIE-16GB'`.
pub(in crate::diagnose) fn push_answer(text: &str, facts: &mut Facts) {
    push_gpu(text.trim_matches(['(', ')', '\'', '"', ' ']), facts);
}

/// Notes the name of a GPU that stands on a line of its own.
pub(in crate::diagnose) fn push_alone(text: &str, facts: &mut Facts) {
    push_gpu(text.trim_start_matches(BULLETS), facts);
}

/// The product in a line of lspci: `01:00.0 VGA compatible controller: NVIDIA Corporation GB202 [GeForce RTX 5090] (rev a1)`.
/// One for several products (`[GeForce GTX 1070 / ...]`) names none.
fn of_lspci<'t>(text: &'t str, lower: &str) -> Option<&'t str> {
    let classes = ["vga compatible controller", "3d controller", "display controller"];
    if !lower.contains("nvidia corporation") || !classes.iter().any(|class| lower.contains(class)) {
        return None;
    }
    let (_, after) = text.split_once("orporation")?;
    let (name, _) = after.split_once('[')?.1.split_once(']')?;
    (!name.contains('/')).then_some(name.trim())
}

fn push_gpu(text: &str, facts: &mut Facts) {
    let ends = [" (", " with cuda", " which", "  ", " |", ",", " x", ";"];
    let lower = text.to_lowercase();
    let end = ends.iter().filter_map(|e| lower.find(e)).filter(|at| *at > 3).min().unwrap_or(text.len());
    let name = text.get(..end).unwrap_or(text).trim().trim_end_matches(['.', ':']);
    if name.len() > 2 && !facts.gpus.iter().any(|known| known == name) {
        facts.gpus.push(clean(name, 80));
    }
}

#[cfg(test)]
mod tests {
    use super::alone;

    #[test]
    fn a_word_and_what_people_write_behind_it() {
        for (line, word) in [
            ("v100 (7.0)", Some("v100")),
            ("- t4 gpu", Some("t4")),
            ("* h100 80gb\r", Some("h100")),
            ("a10g (24gb)", Some("a10g")),
            ("p2p disabled", None),
            ("b1 = 3", None),
            ("a1111 webui", None),
            ("t4 = x", None),
            ("", None),
        ] {
            assert_eq!(alone(line), word, "{line}");
        }
    }
}
