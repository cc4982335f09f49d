//! Constructors of all findings of `verify`: one for each code, with the code's name.
//!
//! Message, severity and fix are defined here; the checks only decide when a finding applies. Tests ensure that each
//! code has a constructor and that a constructor uses only its own code.

mod bundle;
mod files;
mod gpu_code;
mod host;
mod image;
mod installer;
mod libraries;
mod machine;
mod packages;
mod smoke;

pub use bundle::*;
pub use files::*;
pub use gpu_code::*;
pub use host::*;
pub use image::*;
pub use libraries::*;
pub use machine::*;
pub use packages::*;
pub use smoke::*;

pub(super) use installer::{install, install_lock, install_of_conda_forge, reinstall, system_package};

use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// A finding without `where` and fix.
fn finding(code: Code, severity: Severity, message: impl Into<String>) -> Finding {
    Finding { code, severity, message: message.into(), fix: None, r#where: None }
}

impl Finding {
    /// Sets `where`: a file, a package or a device.
    fn at(self, place: impl Into<String>) -> Finding {
        Finding { r#where: Some(place.into()), ..self }
    }

    /// Sets the fix.
    fn fixed_by(self, fix: Fix) -> Finding {
        Finding { fix: Some(fix), ..self }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::finding::Code;

    const SOURCES: [&str; 9] = [
        include_str!("bundle.rs"),
        include_str!("files.rs"),
        include_str!("gpu_code.rs"),
        include_str!("host.rs"),
        include_str!("image.rs"),
        include_str!("libraries.rs"),
        include_str!("machine.rs"),
        include_str!("packages.rs"),
        include_str!("smoke.rs"),
    ];

    #[test]
    fn every_code_has_one_constructor_of_its_name() {
        let functions: Vec<&str> = SOURCES
            .iter()
            .flat_map(|text| text.split("\npub fn ").skip(1))
            .filter_map(|text| text.split(['(', '<']).next())
            .collect();
        let mut expected: Vec<String> = Code::ALL.iter().map(|c| c.as_str().replace('-', "_")).collect();
        let mut found: Vec<String> = functions.iter().map(|name| (*name).to_owned()).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }

    /// A constructor uses the code of its own name and no other.
    #[test]
    fn constructors_make_their_own_code() {
        for text in SOURCES {
            for function in text.split("\npub fn ").skip(1) {
                let name = function.split(['(', '<']).next().unwrap_or_default();
                let made: Vec<&str> = function
                    .split("finding(Code::")
                    .skip(1)
                    .filter_map(|rest| rest.split([',', ' ']).next())
                    .collect();
                let own = Code::ALL.iter().find(|code| code.as_str().replace('-', "_") == name);
                let own = format!("{:?}", own.expect("checked by the other test"));
                assert!(!made.is_empty() && made.iter().all(|code| *code == own), "{name}: {made:?}");
            }
        }
    }
}
