//! CycloneDX 1.7 in JSON. Source: <https://cyclonedx.org/docs/1.7/json/>.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Bill, File, Package, Part};
use crate::model::licence::Licence;
use crate::model::solution::Envelope;

/// The document. Equal bills give equal documents: it has no time, and its serial number comes from its content.
pub fn document(bill: &Bill, tool_version: &str) -> Value {
    let mut components: Vec<Value> = bill.packages.iter().map(component).collect();
    components.sort_by_key(|component| component["bom-ref"].as_str().unwrap_or_default().to_owned());
    let mut root = json!({ "type": "application", "bom-ref": "root", "name": bill.name });
    if let Some(envelope) = &bill.envelope {
        root["properties"] = Value::Array(needs(envelope));
    }
    let mut out = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {
            "tools": { "components": [{ "type": "application", "name": "envlock", "version": tool_version }] },
            "component": root,
        },
        "components": components,
        "dependencies": dependencies(bill),
    });
    let digest = hex::encode(Sha256::digest(out.to_string().as_bytes()));
    out["serialNumber"] = Value::String(serial(&digest));
    out
}

/// A UUID of the form that is left to applications (RFC 9562, version 8), from a digest in hexadecimal.
fn serial(digest: &str) -> String {
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    format!("urn:uuid:{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// The package URL of a package.
fn purl(package: &Package) -> String {
    format!("pkg:{}/{}@{}", package.kind, escaped(&package.name), escaped(&package.version))
}

/// Percent-encoded, as package URLs demand it for all but letters, digits, `.`, `-`, `_`, `~`.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'.' | b'-' | b'_' | b'~' => out.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn property(name: &str, value: impl Into<String>) -> Value {
    json!({ "name": format!("envlock:{name}"), "value": value.into() })
}

/// What the project needs of a machine: platform, driver, glibc, and how each GPU is supported.
fn needs(envelope: &Envelope) -> Vec<Value> {
    let mut out = vec![property("platform", envelope.platform.to_string())];
    out.extend(envelope.driver.iter().map(|driver| property("driver-min", driver.to_string())));
    out.extend(envelope.glibc.iter().map(|glibc| property("glibc-min", glibc.to_string())));
    for row in &envelope.coverage {
        out.push(property("compute-capability", format!("{} by {}", row.compute_capability, row.support())));
    }
    out
}

fn component(package: &Package) -> Value {
    let purl = purl(package);
    let mut out = json!({
        "type": "library", "bom-ref": purl, "name": package.name, "version": package.version, "purl": purl,
    });
    // The first file is the one that was chosen; the others fit too.
    if let Some(File { sha256: Some(sha256), .. }) = package.files.first() {
        out["hashes"] = hashes(sha256);
    }
    if let Some(licences) = licences(&package.licence) {
        out["licenses"] = licences;
    }
    let references: Vec<Value> = package.files.iter().filter_map(reference).collect();
    if !references.is_empty() {
        out["externalReferences"] = Value::Array(references);
    }
    let file = |file: &File| {
        property("file", format!("{} sha256:{}", file.name, file.sha256.as_deref().unwrap_or("unknown")))
    };
    let code = package.gpu_code.iter().map(|code| property("gpu-code", code.clone()));
    let properties: Vec<Value> = package.files.iter().map(file).chain(code).collect();
    if !properties.is_empty() {
        out["properties"] = Value::Array(properties);
    }
    let parts: Vec<Value> =
        package.parts.iter().enumerate().map(|(place, part)| inside(&purl, place, part)).collect();
    if !parts.is_empty() {
        out["components"] = Value::Array(parts);
    }
    out
}

fn hashes(sha256: &str) -> Value {
    json!([{ "alg": "SHA-256", "content": sha256 }])
}

/// Where a file is to be had.
fn reference(file: &File) -> Option<Value> {
    let mut out = json!({ "type": "distribution", "url": file.url.as_deref()?, "comment": file.name });
    if let Some(sha256) = &file.sha256 {
        out["hashes"] = hashes(sha256);
    }
    Some(out)
}

/// The licence as it is declared.
fn licences(licence: &Licence) -> Option<Value> {
    if let Some(expression) = &licence.expression {
        return Some(json!([{ "expression": expression, "acknowledgement": "declared" }]));
    }
    let named = |name: &str| json!({ "license": { "name": name, "acknowledgement": "declared" } });
    let last = |classifier: &String| classifier.rsplit(" :: ").next().unwrap_or(classifier).to_owned();
    let mut names: Vec<String> = licence.classifiers.iter().map(last).collect();
    if names.is_empty() {
        names.extend(licence.name.clone());
    }
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.iter().map(|name| named(name)).collect())
}

/// What is inside a package. Its reference is of the package, because many packages have their own copy of a library.
fn inside(package: &str, place: usize, part: &Part) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), "library".into());
    out.insert("bom-ref".into(), format!("{package}#{place}-{}", escaped(&part.name)).into());
    out.insert("name".into(), part.name.clone().into());
    if let Some(version) = &part.version {
        out.insert("version".into(), version.clone().into());
    }
    let generic = || format!("pkg:generic/{}{}", escaped(&part.name), at(part.version.as_deref()));
    out.insert("purl".into(), part.purl.clone().unwrap_or_else(generic).into());
    if let Some(cpe) = part.cpe.as_deref().and_then(|cpe| self::cpe(cpe, part.version.as_deref())) {
        out.insert("cpe".into(), cpe.into());
    }
    if let Some(licence) = &part.licence {
        out.insert("licenses".into(), json!([{ "expression": licence, "acknowledgement": "declared" }]));
    }
    if let Some(evidence) = evidence(part) {
        out.insert("evidence".into(), evidence);
    }
    let how = match (part.files.is_empty(), part.is_static) {
        (true, _) => "stated by the package",
        (false, true) => "linked statically",
        (false, false) => "shared library",
    };
    out.insert("properties".into(), json!([property("inside", how)]));
    Value::Object(out)
}

fn at(version: Option<&str>) -> String {
    version.map(|version| format!("@{}", escaped(version))).unwrap_or_default()
}

/// The name in the National Vulnerability Database, `cpe:2.3:a:openssl:openssl:1.1.1k:*:*:*:*:*:*:*`; `None` without a version, or
/// with one that would have to be quoted.
fn cpe(product: &str, version: Option<&str>) -> Option<String> {
    let version = version?;
    let plain =
        |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    plain(version).then(|| format!("cpe:2.3:a:{product}:{version}:*:*:*:*:*:*:*"))
}

/// By what it was found. What two sources say is more certain than what one does.
fn evidence(part: &Part) -> Option<Value> {
    /// How certain one source is, and two are.
    const CONFIDENCE: [f64; 2] = [0.8, 0.95];
    if part.files.is_empty() {
        return None;
    }
    let technique = |source: &str| match source {
        "content" | "build folder" => "binary-analysis",
        "file name" => "filename",
        _ => "manifest-analysis",
    };
    let confidence = CONFIDENCE[usize::from(part.sources.len() > 1)];
    let methods: Vec<Value> = part
        .sources
        .iter()
        .map(|source| json!({ "technique": technique(source), "confidence": CONFIDENCE[0], "value": source }))
        .collect();
    let places: Vec<Value> = part.files.iter().map(|file| json!({ "location": file })).collect();
    let mut out = json!({ "occurrences": places });
    if let (Some(version), false) = (&part.version, methods.is_empty()) {
        out["identity"] = json!([{
            "field": "version", "concludedValue": version, "confidence": confidence, "methods": methods,
        }]);
    }
    Some(out)
}

/// Who requires whom.
fn dependencies(bill: &Bill) -> Vec<Value> {
    let reference = |name: &String| bill.packages.iter().find(|package| package.name == *name).map(purl);
    let depends = |from: String, names: &[String]| {
        let mut on: Vec<String> = names.iter().filter_map(reference).filter(|to| *to != from).collect();
        on.sort_unstable();
        on.dedup();
        json!({ "ref": from, "dependsOn": on })
    };
    let mut out = vec![depends("root".to_owned(), &bill.roots)];
    let mut packages: Vec<(String, &Package)> =
        bill.packages.iter().map(|package| (purl(package), package)).collect();
    packages.sort_by(|(one, _), (other, _)| one.cmp(other));
    packages.dedup_by(|(one, _), (other, _)| one == other);
    out.extend(packages.into_iter().map(|(from, package)| depends(from, &package.requires)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_programs_read() {
        assert_eq!(escaped("2.9.1+cu128"), "2.9.1%2Bcu128");
        assert_eq!(escaped("a/b @é"), "a%2Fb%20%40%C3%A9");
        assert_eq!(serial(&"0123456789abcdef".repeat(4)), "urn:uuid:01234567-89ab-8def-8123-456789abcdef");
        let expected = "cpe:2.3:a:openssl:openssl:1.1.1k:*:*:*:*:*:*:*";
        assert_eq!(cpe("openssl:openssl", Some("1.1.1k")).as_deref(), Some(expected));
        assert_eq!((cpe("a:b", None), cpe("a:b", Some("1*:x"))), (None, None));
    }
}
