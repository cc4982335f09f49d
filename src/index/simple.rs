//! The simple API: parses PEP 503 HTML and PEP 691 JSON into a list of files.

use serde::Deserialize;
use url::Url;

use crate::model::project::RawFile;

/// Maximum size of a project page, in bytes.
pub(super) const MAX_PAGE: u64 = 200 << 20;

#[derive(Deserialize)]
struct JsonPage<'a> {
    #[serde(borrow)]
    files: Vec<JsonFile<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile<'a> {
    #[serde(borrow)]
    filename: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    url: std::borrow::Cow<'a, str>,
    #[serde(default)]
    hashes: Hashes,
    size: Option<u64>,
    #[serde(default)]
    requires_python: Option<String>,
    #[serde(default)]
    yanked: Yanked,
    // Three names of one key; PyPI sends two of them.
    #[serde(default)]
    core_metadata: CoreMetadataHint,
    #[serde(default)]
    data_dist_info_metadata: CoreMetadataHint,
    #[serde(default)]
    dist_info_metadata: CoreMetadataHint,
}

#[derive(Deserialize, Default)]
struct Hashes {
    sha256: Option<String>,
}

/// `false`, `true` or a reason.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Yanked {
    Flag(bool),
    Reason(#[allow(dead_code, reason = "only its presence counts")] String),
    #[default]
    Absent,
}

/// `false`, `true` or the METADATA file's hashes.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum CoreMetadataHint {
    Flag(bool),
    Hashes(Hashes),
    #[default]
    Absent,
}

/// Parses a page according to its content type.
///
/// # Errors
/// What is wrong with the page, one phrase.
pub(super) fn parse(body: &[u8], content_type: &str, page: &Url) -> Result<Vec<RawFile>, String> {
    let kind = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if kind.ends_with("json") {
        parse_json(body, page)
    } else if kind.ends_with("html") || kind.is_empty() {
        parse_html(&String::from_utf8_lossy(body), page)
    } else {
        Err(format!("unsupported content type `{}`", crate::model::text::clean(&kind, 60)))
    }
}

fn parse_json(body: &[u8], page: &Url) -> Result<Vec<RawFile>, String> {
    let parsed: JsonPage<'_> = serde_json::from_slice(body)
        .map_err(|e| format!("invalid JSON (line {}, column {})", e.line(), e.column()))?;
    Ok(parsed
        .files
        .into_iter()
        .filter_map(|f| {
            let url = page.join(&f.url).ok()?;
            let hints = [f.core_metadata, f.data_dist_info_metadata, f.dist_info_metadata];
            let hint = hints.into_iter().find(|h| !matches!(h, CoreMetadataHint::Absent));
            let (has_metadata, metadata_sha256) = match hint {
                Some(CoreMetadataHint::Flag(flag)) => (flag, None),
                Some(CoreMetadataHint::Hashes(h)) => (true, digest(h.sha256)),
                Some(CoreMetadataHint::Absent) | None => (false, None),
            };
            Some(RawFile {
                filename: f.filename.into_owned(),
                url: url.to_string(),
                sha256: digest(f.hashes.sha256),
                size: f.size,
                requires_python: f.requires_python.filter(|r| !r.is_empty()),
                yanked: !matches!(f.yanked, Yanked::Flag(false) | Yanked::Absent),
                has_metadata,
                metadata_sha256,
            })
        })
        .collect())
}

fn parse_html(text: &str, page: &Url) -> Result<Vec<RawFile>, String> {
    let dom = tl::parse(text, tl::ParserOptions::default()).map_err(|e| format!("invalid HTML ({e})"))?;
    let mut base = page.clone();
    let mut files = Vec::new();
    let mut is_html = false;
    for tag in dom.nodes().iter().filter_map(|n| n.as_tag()) {
        let name = tag.name().as_utf8_str();
        is_html |= name.eq_ignore_ascii_case("html") || name.eq_ignore_ascii_case("body");
        let attribute = |key: &str| -> Option<String> {
            tag.attributes().get(key).map(|v| v.map(|b| unescape(&b.as_utf8_str())).unwrap_or_default())
        };
        if name.eq_ignore_ascii_case("base")
            && let Some(href) = attribute("href")
            && let Ok(joined) = page.join(&href)
        {
            base = joined;
        }
        if !name.eq_ignore_ascii_case("a") {
            continue;
        }
        is_html = true;
        let Some(href) = attribute("href") else { continue };
        let Ok(mut url) = base.join(&href) else { continue };
        let sha256 = url.fragment().and_then(|f| f.strip_prefix("sha256=")).map(str::to_owned);
        url.set_fragment(None);
        let filename =
            url.path_segments().and_then(|mut s| s.next_back()).map(percent_decode).unwrap_or_default();
        let metadata = attribute("data-core-metadata").or_else(|| attribute("data-dist-info-metadata"));
        files.push(RawFile {
            filename,
            url: url.to_string(),
            sha256: digest(sha256),
            size: None,
            requires_python: attribute("data-requires-python").filter(|r| !r.is_empty()),
            yanked: attribute("data-yanked").is_some(),
            has_metadata: metadata.as_deref().is_some_and(|m| m != "false"),
            metadata_sha256: digest(metadata.and_then(|m| m.strip_prefix("sha256=").map(str::to_owned))),
        });
    }
    if is_html { Ok(files) } else { Err("not an index page".to_owned()) }
}

/// A SHA-256 in lower-case hexadecimal; `None` if the text is not one.
fn digest(text: Option<String>) -> Option<String> {
    text.map(|t| t.to_ascii_lowercase()).filter(|t| t.len() == 64 && t.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The entities that index pages use in attributes.
fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#x27;", "'")
        .replace("&#43;", "+")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Url {
        Url::parse("https://index.example/simple/demo/").unwrap()
    }

    #[test]
    fn html_and_json_say_the_same() {
        let digest = "a".repeat(64);
        let html = format!(
            "<!DOCTYPE html><html><body><a href=\"../../files/demo-1.0%2Bcu118-py3-none-any.whl#sha256={digest}\" \
             data-requires-python=\"&gt;=3.8\" data-yanked=\"broken\" data-core-metadata=\"sha256={digest}\">demo</a></body></html>"
        );
        let json = format!(
            "{{\"files\": [{{\"filename\": \"demo-1.0+cu118-py3-none-any.whl\", \"url\": \"../../files/demo-1.0%2Bcu118-py3-none-any.whl\", \
             \"hashes\": {{\"sha256\": \"{digest}\"}}, \"requires-python\": \">=3.8\", \"yanked\": \"broken\", \
             \"core-metadata\": {{\"sha256\": \"{digest}\"}}}}]}}"
        );
        let a = parse(html.as_bytes(), "text/html; charset=utf-8", &page()).unwrap();
        let b = parse(json.as_bytes(), "application/vnd.pypi.simple.v1+json", &page()).unwrap();
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
        assert_eq!(a[0].filename, "demo-1.0+cu118-py3-none-any.whl");
        assert_eq!(a[0].url, "https://index.example/files/demo-1.0%2Bcu118-py3-none-any.whl");
        assert!(a[0].yanked && a[0].has_metadata);
    }

    #[test]
    fn every_spelling_of_the_metadata_key() {
        for (keys, expected) in [
            ("\"core-metadata\": true, \"data-dist-info-metadata\": true", true),
            ("\"core-metadata\": false, \"data-dist-info-metadata\": false", false),
            ("\"dist-info-metadata\": true", true),
            ("\"data-dist-info-metadata\": {\"sha256\": \"00\"}", true),
        ] {
            let json = format!(
                "{{\"files\": [{{\"filename\": \"a-1-py3-none-any.whl\", \"url\": \"x\", {keys}}}]}}"
            );
            let files = parse(json.as_bytes(), "application/json", &page()).unwrap();
            assert_eq!(files[0].has_metadata, expected, "{keys}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        assert!(parse(b"\x00\x01garbage", "text/html", &page()).is_err());
        assert!(parse(b"{\"files\": [", "application/json", &page()).is_err());
        assert!(parse(b"%PDF", "application/pdf", &page()).is_err());
        // A hash of the wrong length is ignored.
        let json = b"{\"files\": [{\"filename\": \"a-1-py3-none-any.whl\", \"url\": \"x\", \"hashes\": {\"sha256\": \"ab\"}, \"yanked\": false}]}";
        let files = parse(json, "application/json", &page()).unwrap();
        assert!(files[0].sha256.is_none() && !files[0].yanked);
    }
}
