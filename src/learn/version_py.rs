//! Parses `torch/version.py` and similar files: assignments that the build generates.

use crate::model::variant::Variant;

/// Values of a `version.py`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VersionPy {
    /// `__version__`, `2.9.1+cu128`.
    pub version: Option<String>,
    /// `cuda`, `12.8`.
    pub cuda: Option<String>,
    /// `hip`, the version of ROCm.
    pub hip: Option<String>,
}

impl VersionPy {
    /// The CUDA variant: from the version's local part, else from `cuda`.
    pub fn variant(&self) -> Option<String> {
        let local = self.version.as_ref().and_then(|v| v.split_once('+')).map(|(_, local)| local.to_owned());
        let known = |name: &String| !matches!(Variant::of(name), Variant::Other(_));
        let of_cuda = || Some(Variant::of_cuda(self.cuda.as_ref()?)?.to_string());
        local.filter(known).or_else(of_cuda)
    }
}

/// Parses the assignments without running the code.
pub(super) fn parse(text: &str) -> VersionPy {
    let value = |names: &[&str]| {
        text.lines().find_map(|line| {
            let (left, right) = line.split_once('=')?;
            let name = left.split(':').next().unwrap_or(left).trim();
            let right = right.trim();
            let quoted = right.trim_matches(['\'', '"']);
            let is_text = quoted.len() + 2 == right.len();
            let is_version = quoted.bytes().all(|b| b.is_ascii_alphanumeric() || b".+".contains(&b));
            (names.contains(&name) && is_text && is_version && quoted.len() < 60).then(|| quoted.to_owned())
        })
    };
    VersionPy { version: value(&["__version__", "version"]), cuda: value(&["cuda"]), hip: value(&["hip"]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments() {
        for (text, version, cuda, variant) in [
            (
                "__version__ = '2.15.0+cu132'\ndebug = False\ncuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n",
                "2.15.0+cu132",
                "13.2",
                "cu132",
            ),
            ("__version__ = \"2.0.1+cu117\"\ncuda = '11.7'\n", "2.0.1+cu117", "11.7", "cu117"),
            ("__version__ = '1.10.2'\ncuda = '10.2'\n", "1.10.2", "10.2", "cu102"),
            ("__version__ = '2.9.1+cpu'\ncuda: Optional[str] = None\n", "2.9.1+cpu", "", "cpu"),
            ("__version__ = get_version()\ncuda = None\n", "", "", ""),
            ("__version__ = '2.9.1'; os.system('x')\n", "", "", ""),
        ] {
            let says = parse(text);
            let found = [&says.version, &says.cuda, &says.variant()].map(|v| v.clone().unwrap_or_default());
            assert_eq!(found, [version, cuda, variant], "{text}");
        }
    }
}
