//! The licence that a package's metadata state.

/// What METADATA say of the licence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Licence {
    /// `License-Expression`: an SPDX expression (PEP 639).
    pub expression: Option<String>,
    /// `License`, its first line: a name in older metadata, which may be the start of a whole text.
    pub name: Option<String>,
    /// The classifiers of licences, without `License ::`: `OSI Approved :: MIT License`.
    pub classifiers: Vec<String>,
}

/// The classifier of licences that are none of those. Source: the list of classifiers on PyPI.
const PROPRIETARY: &str = "Other/Proprietary License";
/// The longest value that is kept, in bytes.
const MAX_VALUE: usize = 300;

impl Licence {
    /// Reads the headers of METADATA.
    pub fn of_metadata(text: &str) -> Licence {
        let mut licence = Licence::default();
        // A line of spaces continues a header: older tools put whole texts of licences there.
        let headers = text.lines().take_while(|line| !line.trim_end_matches('\r').is_empty());
        let headers = headers.filter(|line| !line.starts_with([' ', '\t']));
        for (key, value) in headers.filter_map(|line| line.split_once(':')) {
            let value = super::text::clean(value.trim(), MAX_VALUE);
            if value.is_empty() || value == "UNKNOWN" {
                continue;
            }
            if key.eq_ignore_ascii_case("License-Expression") {
                licence.expression = Some(value);
            } else if key.eq_ignore_ascii_case("License") {
                licence.name = Some(value);
            } else if key.eq_ignore_ascii_case("Classifier")
                && let Some(own) = value.strip_prefix("License :: ")
            {
                licence.classifiers.push(own.to_owned());
            }
        }
        licence
    }

    /// Whether they say that it is proprietary: it may forbid to pass the files on.
    pub fn is_proprietary(&self) -> bool {
        let names = self.expression.iter().chain(&self.name);
        self.classifiers.iter().any(|own| own == PROPRIETARY)
            || names.into_iter().any(|name| name.to_ascii_lowercase().contains("proprietary"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_metadata_say() {
        for (text, expression, name, is_proprietary) in [
            ("Name: a\nLicense-Expression: MIT\n\nLicense: none\n", Some("MIT"), None, false),
            ("License: NVIDIA Proprietary Software\n", None, Some("NVIDIA Proprietary Software"), true),
            ("Classifier: License :: Other/Proprietary License\nLicense: UNKNOWN\n", None, None, true),
            (
                "license-expression: LicenseRef-NVIDIA-Proprietary\n",
                Some("LicenseRef-NVIDIA-Proprietary"),
                None,
                true,
            ),
            ("Classifier: License :: OSI Approved :: BSD License\n", None, None, false),
            (
                "License: A text\n        \n        License: Proprietary\nClassifier: x\n",
                None,
                Some("A text"),
                false,
            ),
        ] {
            let found = Licence::of_metadata(text);
            assert_eq!((found.expression.as_deref(), found.name.as_deref()), (expression, name), "{text}");
            assert_eq!(found.is_proprietary(), is_proprietary, "{text}");
        }
    }
}
