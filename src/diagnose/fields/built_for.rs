//! Reads what programs say of the builds that they were made for: xFormers' report, torch's and DeepSpeed's check of a toolkit.

use pep440_rs::Version;

use super::{short, version_in};
use crate::diagnose::facts::Facts;
use crate::model::text::clean;

/// What stands before the CUDA of torch where it is compared with a toolkit's.
const BEFORE_CUDA_OF_TORCH: [&str; 2] =
    ["version torch was compiled with ", "version that was used to compile pytorch ("];

/// `PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.1.0+cpu)`, `Python  3.9.13 (you have 3.9.13)`.
pub(super) fn read(lower: &str, facts: &mut Facts) {
    let of_torch = BEFORE_CUDA_OF_TORCH.iter().find_map(|words| Some(lower.split_once(words)?.1));
    // torch's message goes over two lines.
    let broken = || lower.strip_prefix("pytorch (").filter(|rest| rest.contains("same cuda versions"));
    let of_torch = of_torch.or_else(broken);
    if let Some(cuda) = of_torch.and_then(version_in)
        && facts.torch_cuda.is_none()
    {
        facts.torch_cuda = Some(short(&cuda));
    }
    let Some((before, have)) = lower.split_once("(you have ") else { return };
    let have = have.split(')').next().unwrap_or_default().trim();
    let mut words = before.split_whitespace();
    match words.next() {
        Some("python") => {
            let is_version = have.starts_with("3.") && have.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            if facts.python.is_none() && is_version {
                facts.python = Some(clean(have, 20));
            }
            compare(words.next(), have, facts);
        }
        Some("pytorch") => {
            let stated = words.next();
            compare(stated, have, facts);
            let parsed = stated.and_then(|text| text.parse::<Version>().ok());
            if let Some(version) = parsed.filter(Version::is_local) {
                let variant: Vec<String> = version.local().iter().map(ToString::to_string).collect();
                facts.built_for = Some((version.without_local(), variant.join(".")));
            }
            if facts.torch.is_none() && have.parse::<Version>().is_ok() {
                facts.torch = Some(clean(have, 60));
            }
        }
        _ => {}
    }
}

/// Whether what there is is what something was built for; one difference is one.
fn compare(built_for: Option<&str>, have: &str, facts: &mut Facts) {
    let is_same = built_for.is_some_and(|built_for| built_for == have);
    facts.is_as_built_for = Some(is_same && facts.is_as_built_for.unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cuda_of_torch_beside_a_toolkit() {
        for line in [
            "installed cuda version 12.2 does not match the version torch was compiled with 11.7, unable to compile",
            "the detected cuda version (12.2) mismatches the version that was used to compile pytorch (11.7). please",
            "pytorch (11.7). please make sure to use the same cuda versions.",
        ] {
            let mut facts = Facts::default();
            read(line, &mut facts);
            assert_eq!(facts.torch_cuda.as_deref(), Some("11.7"), "{line}");
        }
    }

    #[test]
    fn what_it_was_built_for_and_what_there_is() {
        let mut facts = Facts::default();
        read("pytorch 2.1.2+cu121 with cuda 1201 (you have 2.1.0+cpu)", &mut facts);
        read("python  3.9.13 (you have 3.9.13)", &mut facts);
        let (version, variant) = facts.built_for.unwrap();
        assert_eq!((version.to_string().as_str(), variant.as_str()), ("2.1.2", "cu121"));
        assert_eq!(facts.is_as_built_for, Some(false));
        assert_eq!((facts.torch.as_deref(), facts.python.as_deref()), (Some("2.1.0+cpu"), Some("3.9.13")));
    }

    #[test]
    fn what_there_is_is_what_it_was_built_for() {
        let mut facts = Facts::default();
        read("pytorch 2.0.1 with cuda 1106 (you have 2.0.1)", &mut facts);
        read("python  3.9.16 (you have 3.9.16)", &mut facts);
        assert_eq!(facts.is_as_built_for, Some(true));
    }
}
