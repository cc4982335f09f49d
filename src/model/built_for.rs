//! What a wheel says in its version that it was built for: `2.8.3+cu12torch2.9cxx11abiTRUE`, `2.1.2+pt29cu128`.

use pep440_rs::Version;

/// The builds of torch that a wheel was compiled against, where its local version says so. The names are a custom of
/// projects that publish one wheel for each torch (flash-attn, mamba-ssm, PyG, PyTorch3D), no standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltFor {
    /// The line of torch, 2 and 9 of `torch2.9`.
    pub torch: (u64, u64),
    /// The CUDA major, 12 of `cu128`.
    pub cuda_major: Option<u64>,
    /// Whether it uses the C++11 ABI of libstdc++.
    pub cxx11_abi: Option<bool>,
}

impl BuiltFor {
    /// What a version says; `None` if it does not name a torch.
    pub fn of(version: &Version) -> Option<BuiltFor> {
        let text = version.to_string();
        let (_, local) = text.split_once('+')?;
        let (mut torch, mut cuda_major, mut cxx11_abi) = (None, None, None);
        for (word, number) in words(local) {
            match word {
                "torch" | "pt" => torch = torch_line(word, number),
                "cu" => cuda_major = major_of_cuda(number),
                "abitrue" => cxx11_abi = Some(true),
                "abifalse" => cxx11_abi = Some(false),
                _ => {}
            }
        }
        Some(BuiltFor { torch: torch?, cuda_major, cxx11_abi })
    }

    /// The CUDA that a local version names, major and minor: `cu130`, `cu12.8`, `cu12torch2.9` (12.0, as no minor is stated).
    pub fn cuda_in(local: &str) -> Option<(u64, u64)> {
        let (_, number) = words(local).into_iter().find(|(word, _)| *word == "cu" || *word == "cuda")?;
        let major = major_of_cuda(number)?;
        let rest = number.strip_prefix(&major.to_string())?;
        let minor = rest.strip_prefix('.').unwrap_or(rest);
        // `cu1281` has a patch release too, as CUDA's minors have one digit.
        let minor =
            minor.split('.').next().and_then(|minor| minor.get(..1)).and_then(|minor| minor.parse().ok());
        (major >= 7).then_some((major, minor.unwrap_or(0)))
    }

    /// The requirement that follows, as a line of metadata.
    pub fn requirement(&self) -> String {
        format!("torch=={}.{}.*", self.torch.0, self.torch.1)
    }
}

/// The letters of a local version, each with the dotted number behind them.
fn words(local: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    let mut rest = local;
    while !rest.is_empty() {
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(letters);
        let is_part = |(i, c): (usize, char)| {
            let next = behind[i + c.len_utf8()..].chars().next();
            c.is_ascii_digit() || c == '.' && i > 0 && next.is_some_and(|next| next.is_ascii_digit())
        };
        let end = behind.char_indices().find(|at| !is_part(*at)).map_or(behind.len(), |(i, _)| i);
        let (number, after) = behind.split_at(end);
        out.push((word, number));
        // Separators, and whatever else is no letter.
        rest = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    }
    out
}

/// `2.9` and `2.9.1`; without a dot `29`, and of three or four digits what the word makes of them: `pt210` is 2.10 (mmcv, PyTorch3D),
/// `torch260` is 2.6.0 and `torch2100` 2.10.0 (NATTEN). torch had no two-digit major yet.
fn torch_line(word: &str, number: &str) -> Option<(u64, u64)> {
    let (major, minor) = match number.split_once('.') {
        Some((major, rest)) => (major, rest.split('.').next()?),
        None => {
            let (major, rest) = number.split_at_checked(1)?;
            let has_patch = word == "torch" && rest.len() > 1;
            (major, if has_patch { rest.get(..rest.len() - 1)? } else { rest })
        }
    };
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `12`, `12.8`, `128` and, of CUDA before 10, `92`.
fn major_of_cuda(number: &str) -> Option<u64> {
    let whole = number.split('.').next()?;
    let digits = if whole.starts_with(['7', '8', '9']) { 1 } else { 2 };
    whole.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_versions_in_use() {
        let of =
            |text: &str| BuiltFor::of(&text.parse().unwrap()).map(|b| (b.torch, b.cuda_major, b.cxx11_abi));
        let table = [
            ("2.8.3+cu12torch2.9cxx11abiTRUE", Some(((2, 9), Some(12), Some(true)))),
            ("2.3.6+cu118torch2.0cxx11abiFALSE", Some(((2, 0), Some(11), Some(false)))),
            ("2.8.3.post1+cu13torch2.10cxx11abitrue", Some(((2, 10), Some(13), Some(true)))),
            ("2.8.3+cu128torch2.9", Some(((2, 9), Some(12), None))),
            ("2.1.2+pt29cu128", Some(((2, 9), Some(12), None))),
            ("2.1.2+pt210cu130", Some(((2, 10), Some(13), None))),
            ("2.1.0+pt112cpu", Some(((1, 12), None, None))),
            ("0.6.17+pt110cu102", Some(((1, 10), Some(10), None))),
            ("0.6+pt16cu92", Some(((1, 6), Some(9), None))),
            ("0.7.8+pt2.5.1cu121", Some(((2, 5), Some(12), None))),
            ("0.17.5+torch260cu126", Some(((2, 6), Some(12), None))),
            ("0.21.0+torch2100cu130", Some(((2, 10), Some(13), None))),
            ("1.0+torch29", Some(((2, 9), None, None))),
            ("1.0+torch2.9.cu12.8", Some(((2, 9), Some(12), None))),
            ("1.0+cu128", None),
            ("1.0+torch2", None),
            ("1.0+torch", None),
            ("1.0+pt2.", None),
            ("1.0+focus12", None),
            ("1.0", None),
        ];
        for (text, expected) in table {
            let Ok(version) = text.parse::<Version>() else { continue };
            assert_eq!(of(&version.to_string()), expected, "{text}");
        }
        for (local, cuda) in [
            ("cu130", Some((13, 0))),
            ("cu128", Some((12, 8))),
            ("cu12", Some((12, 0))),
            ("cu12.8", Some((12, 8))),
            ("cuda121", Some((12, 1))),
            ("cu12torch2.9cxx11abitrue", Some((12, 0))),
            ("pt29cu128", Some((12, 8))),
            ("cu92", Some((9, 2))),
            ("cu1", None),
            ("cu", None),
            ("cpu", None),
            ("focus12", None),
            ("rocm6.4", None),
            ("", None),
        ] {
            assert_eq!(BuiltFor::cuda_in(local), cuda, "{local}");
        }
        assert_eq!(BuiltFor::of(&"1+pt29cu128".parse().unwrap()).unwrap().requirement(), "torch==2.9.*");
    }
}
