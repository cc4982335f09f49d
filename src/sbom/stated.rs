//! The bills of materials that a wheel brings along in `.dist-info/sboms` (PEP 770): CycloneDX in JSON, of any version.

use serde::Deserialize;

use crate::model::text::clean;

/// A component that a bill inside a package states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// Its package URL.
    pub purl: Option<String>,
    /// Its licence: an SPDX expression or identifier.
    pub licence: Option<String>,
    /// The file of the bill.
    pub bill: String,
}

/// Maximum number of components of a bill.
const MAX_COMPONENTS: usize = 20_000;
/// How deep components may be nested.
const MAX_DEPTH: usize = 8;

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "bomFormat")]
    format: String,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    #[serde(default)]
    name: String,
    version: Option<String>,
    purl: Option<String>,
    #[serde(default)]
    licenses: Vec<LicenceChoice>,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct LicenceChoice {
    expression: Option<String>,
    license: Option<NamedLicence>,
}

#[derive(Deserialize)]
struct NamedLicence {
    id: Option<String>,
}

/// The components of a bill, those of the package itself left out; `None` where it is no CycloneDX document in JSON.
pub fn stated(text: &str, bill: &str, package: &str) -> Option<Vec<Stated>> {
    let document: Document = serde_json::from_str(text).ok()?;
    if document.format != "CycloneDX" {
        return None;
    }
    let mut out = Vec::new();
    add(&document.components, bill, package, 0, &mut out);
    Some(out)
}

fn add(components: &[Component], bill: &str, package: &str, depth: usize, out: &mut Vec<Stated>) {
    if depth > MAX_DEPTH {
        return;
    }
    for component in components.iter().take(MAX_COMPONENTS) {
        let own = component.purl.as_deref().is_some_and(|purl| is_of(purl, package));
        if !own && !component.name.is_empty() && out.len() < MAX_COMPONENTS {
            let licence = component.licenses.iter().find_map(|choice| {
                choice.expression.clone().or_else(|| choice.license.as_ref().and_then(|one| one.id.clone()))
            });
            out.push(Stated {
                name: clean(&component.name, 200),
                version: component.version.as_deref().map(|version| clean(version, 100)),
                purl: component.purl.as_deref().filter(|purl| is_purl(purl)).map(str::to_owned),
                licence: licence.map(|licence| clean(&licence, 200)),
                bill: clean(bill, 300),
            });
        }
        add(&component.components, bill, package, depth + 1, out);
    }
}

/// Whether a package URL is of this package on PyPI, or of a module in it.
fn is_of(purl: &str, package: &str) -> bool {
    let Some(rest) = purl.strip_prefix("pkg:pypi/") else { return false };
    let name = rest.split(['@', '?', '#']).next().unwrap_or(rest);
    name.to_ascii_lowercase().replace(['_', '.'], "-") == package
}

/// Whether a text can be a package URL: one word of visible ASCII.
fn is_purl(text: &str) -> bool {
    text.starts_with("pkg:") && text.len() <= 500 && text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_package_itself() {
        let text = r#"{"bomFormat": "CycloneDX", "specVersion": "1.4", "components": [
            {"name": "opencv_python", "version": "5", "purl": "pkg:pypi/opencv_python@5?file_name=x"},
            {"name": "libpng", "version": "1.6.34-9.el8", "purl": "pkg:rpm/almalinux/libpng@1.6.34-9.el8",
             "licenses": [{"license": {"name": "x"}}, {"license": {"id": "Libpng"}}],
             "components": [{"name": "in\u001bner", "purl": "pkg:a b"}]}, {}]}"#;
        let found = stated(text, "b", "opencv-python").unwrap();
        let names: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.purl.is_some())).collect();
        assert_eq!(names, [("libpng", true), ("inner", false)]);
        assert_eq!(found[0].licence.as_deref(), Some("Libpng"));
        for text in
            ["", "{}", "[]", r#"{"bomFormat": "SPDX"}"#, r#"{"bomFormat": "CycloneDX", "components": 1}"#]
        {
            assert_eq!(stated(text, "b", "p"), None, "{text}");
        }
    }
}
