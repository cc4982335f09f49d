//! What people list of a machine on one line: `onnxruntime-gpu 1.18.0, Python 3.10.14, torch 2.3.1+cu121, A10G`.

use super::gpus;
use super::listings::{add_package, is_name, is_watched};
use super::version_in;
use crate::diagnose::facts::Facts;

/// The longest line that is read as a list, in bytes.
const LONGEST: usize = 600;

/// Reads the versions in a list, if there are at least two, of which one is of something known.
pub(super) fn read(text: &str, facts: &mut Facts) {
    let Some(cells) = cells(text) else { return };
    let cells: Vec<&str> = cells.collect();
    let stated: Vec<(String, String, &str)> = cells.iter().copied().filter_map(versioned).collect();
    // `loss 0.41, lr 0.001` is of no machine.
    let is_known = |name: &str| ["python", "cuda", "driver"].contains(&name) || is_watched(name);
    if stated.len() < 2 || !stated.iter().any(|(name, ..)| is_known(name)) {
        return;
    }
    for cell in cells.iter().filter(|cell| gpus::is_gpu(&cell.to_lowercase())) {
        gpus::push_alone(cell, facts);
    }
    for (name, version, behind) in stated {
        match name.as_str() {
            "python" => {
                facts.python.get_or_insert(version);
            }
            // Whose CUDA it is, torch's, the driver's or a toolkit's, is said behind it or not at all.
            "cuda" | "cuda toolkit" | "nvcc" => {
                let is_toolkit =
                    name != "cuda" || ["nvcc", "toolkit"].iter().any(|word| behind.contains(word));
                if is_toolkit && facts.toolkits.len() < super::MAX_TOOLKITS {
                    facts.toolkits.insert(super::short(&version));
                }
            }
            // Read wherever they are named.
            "driver" | "nvidia driver" | "cudnn" => {}
            name if is_name(name) => add_package(name, &version, "", facts),
            _ => {}
        }
    }
}

/// The cells of a list; `None` if the line is none.
pub(in crate::diagnose) fn cells(text: &str) -> Option<impl Iterator<Item = &str>> {
    if text.len() > LONGEST {
        return None;
    }
    let separator =
        [", ", "; ", " | ", " / ", " · "].into_iter().find(|separator| text.contains(separator))?;
    // A label may stand in front: `Environment: torch 2.3.1, ...`.
    let is_label = |label: &str| label.len() < 24 && !label.contains(|c: char| c.is_ascii_digit());
    let body = text.split_once(": ").filter(|(label, _)| is_label(label)).map_or(text, |(_, body)| body);
    Some(body.split(separator).map(|cell| cell.trim().trim_end_matches('.')))
}

/// `torch 2.3.1+cu121`, `CUDA 12.4 (nvcc)`, `NVIDIA driver 550.54`, `vllm==0.8.3`: the name in small letters, its version, and
/// what stands behind it.
fn versioned(cell: &str) -> Option<(String, String, &str)> {
    let cell = cell.trim_start_matches(['-', '*', '(', ' ']);
    let at = cell.find([' ', '=', ':', '@'])?;
    let mut name_end = at;
    let mut rest = cell[at..].trim_start_matches([' ', '=', ':', '@']);
    // A second word: `NVIDIA driver`, `CUDA toolkit`.
    if rest.starts_with("driver") || rest.starts_with("toolkit") {
        let word = rest.find(' ')?;
        name_end = cell.len() - rest.len() + word;
        rest = rest[word..].trim_start_matches([' ', '=', ':']);
    }
    let rest = rest.strip_prefix('v').unwrap_or(rest);
    rest.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    let (value, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    let version = version_in(value).filter(|version| *version == value.trim_end_matches([')', ',']))?;
    // A number alone is rather a count.
    let is_told = behind.is_empty() || behind.starts_with('(');
    (version.contains('.') && is_told).then(|| (cell[..name_end].to_lowercase(), version, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_a_list() {
        let read_of = |text: &str| {
            let mut facts = Facts::default();
            read(text, &mut facts);
            let packages: Vec<String> =
                facts.packages.iter().map(|(name, (version, _))| format!("{name} {version}")).collect();
            let toolkits = facts.toolkits.iter().map(|cuda| format!("toolkit {cuda}"));
            let python = facts.python.iter().map(|python| format!("python {python}"));
            let gpus = facts.gpus.iter().cloned();
            packages.into_iter().chain(toolkits).chain(python).chain(gpus).collect::<Vec<_>>().join(", ")
        };
        for (line, read) in [
            (
                "onnxruntime-gpu 1.18.0, Python 3.10.14, CUDA 12.4 (nvcc), torch 2.3.1+cu121, Ubuntu 22.04, A10G",
                "onnxruntime-gpu 1.18.0, torch 2.3.1+cu121, ubuntu 22.04, toolkit 12.4, python 3.10.14",
            ),
            ("Env: PyTorch 2.6.0 / CUDA 12.4 / vllm v0.8.3", "pytorch 2.6.0, vllm 0.8.3"),
            ("torch 2.6.0, RTX 5090, driver 570.86", "torch 2.6.0, RTX 5090"),
            ("torch 2.6.0 | NVIDIA A10G (24 GB) | NVIDIA driver 570.86", "torch 2.6.0, NVIDIA A10G"),
            ("- torch==2.8.0; python=3.12.1; CUDA toolkit 12.8", "torch 2.8.0, toolkit 12.8, python 3.12.1"),
            // One version is no list, and sentences are none.
            ("torch 2.9.1, which is the newest", ""),
            ("I tried torch 2.8.0 and then, after a day, torch 2.9.1 with the same result", ""),
            ("loss 0.41, step 12, lr 0.001", ""),
        ] {
            assert_eq!(read_of(line), read, "{line}");
        }
    }
}
