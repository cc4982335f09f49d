//! The simple API: parses PEP 503 HTML and PEP 691 JSON into a list of files, one file at a time and under limits.

use std::borrow::Cow;

use html5gum::Tokenizer;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use url::Url;

use super::credentials::without_login;
use crate::model::project::RawFile;

/// Maximum size of a project page, in bytes. The largest pages of PyPI have some 10 MiB.
pub(super) const MAX_PAGE: u64 = 64 << 20;
/// Maximum number of files on a page. The largest pages of PyPI list some 10,000.
const MAX_FILES: usize = 100_000;
/// Maximum size of a page's file names, URLs and `Requires-Python`, in bytes.
const MAX_TEXTS: usize = 48 << 20;
/// Maximum length in bytes of a URL and of a file name or specifier. A file beyond it is no file that can be installed.
const MAX_URL: usize = 4096;
const MAX_FIELD: usize = 512;

/// Parses a page according to its content type.
///
/// # Errors
/// What is wrong with the page, one phrase.
pub fn parse(body: &[u8], content_type: &str, page: &Url) -> Result<Vec<RawFile>, String> {
    let kind = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if kind.ends_with("json") {
        parse_json(body, page)
    } else if kind.ends_with("html") || kind.is_empty() {
        parse_html(body, page)
    } else {
        Err(format!("unsupported content type `{}`", crate::model::text::clean(&kind, 60)))
    }
}

/// The files read so far.
#[derive(Default)]
struct Files {
    list: Vec<RawFile>,
    texts: usize,
    /// The limit that the page exceeds.
    exceeded: Option<String>,
}

impl Files {
    /// Adds a file. `url` is relative to `base`; a login in it is removed. A server does not name files of this machine.
    /// Returns whether the page is within its limits.
    fn push(&mut self, base: &Url, url: &str, file: RawFile) -> bool {
        let fits = url.len() <= MAX_URL
            && file.filename.len() <= MAX_FIELD
            && file.requires_python.as_ref().is_none_or(|text| text.len() <= MAX_FIELD);
        let is_reachable = |url: &Url| match url.scheme() {
            "http" | "https" => true,
            scheme => scheme == "file" && base.scheme() == "file",
        };
        let Some(url) = fits
            .then(|| base.join(url).ok())
            .flatten()
            .filter(|url| url.as_str().len() <= MAX_URL && is_reachable(url))
        else {
            return true;
        };
        let file = RawFile {
            url: without_login(&url).into(),
            requires_python: file.requires_python.filter(|text| !text.is_empty()),
            ..file
        };
        self.texts +=
            file.url.len() + file.filename.len() + file.requires_python.as_ref().map_or(0, String::len);
        self.list.push(file);
        if self.list.len() > MAX_FILES {
            self.exceeded = Some(format!("the page lists more than {MAX_FILES} files"));
        } else if self.texts > MAX_TEXTS {
            self.exceeded = Some(format!("the page's URLs are larger than {} MiB", MAX_TEXTS >> 20));
        }
        self.exceeded.is_none()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile<'a> {
    #[serde(borrow)]
    filename: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(default)]
    hashes: Hashes,
    size: Option<u64>,
    #[serde(default, borrow)]
    requires_python: Option<Cow<'a, str>>,
    #[serde(default)]
    yanked: Yanked,
    #[serde(default, borrow)]
    upload_time: Option<Cow<'a, str>>,
    // Three names of one key; PyPI sends two of them.
    #[serde(default)]
    core_metadata: Hint,
    #[serde(default)]
    data_dist_info_metadata: Hint,
    #[serde(default)]
    dist_info_metadata: Hint,
}

#[derive(Deserialize, Default)]
struct Hashes {
    sha256: Option<String>,
}

/// `false`, `true` or a reason.
#[derive(Default)]
struct Yanked(bool);

/// `false`, `true` or the METADATA file's hashes; `None` where the key is absent.
#[derive(Default)]
struct Hint(Option<(bool, Option<String>)>);

impl<'de> Deserialize<'de> for Yanked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Yanked, D::Error> {
        struct FlagOrReason;
        impl<'de> Visitor<'de> for FlagOrReason {
            type Value = Yanked;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a boolean or a reason")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Yanked, E> {
                Ok(Yanked(flag))
            }
            fn visit_str<E>(self, _: &str) -> Result<Yanked, E> {
                Ok(Yanked(true))
            }
            fn visit_unit<E>(self) -> Result<Yanked, E> {
                Ok(Yanked(false))
            }
        }
        deserializer.deserialize_any(FlagOrReason)
    }
}

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hint, D::Error> {
        struct FlagOrHashes;
        impl<'de> Visitor<'de> for FlagOrHashes {
            type Value = Hint;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a boolean or hashes")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Hint, E> {
                Ok(Hint(Some((flag, None))))
            }
            fn visit_unit<E>(self) -> Result<Hint, E> {
                Ok(Hint(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Hint, A::Error> {
                let hashes = Hashes::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Hint(Some((true, digest(hashes.sha256)))))
            }
        }
        deserializer.deserialize_any(FlagOrHashes)
    }
}

/// Reads the page's object.
struct JsonPage<'f> {
    files: &'f mut Files,
    page: &'f Url,
}

/// Reads the list of a page's files, one by one: all of them at once take several times the page's size.
struct JsonFiles<'f>(JsonPage<'f>);

impl<'de> Visitor<'de> for JsonPage<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a project page")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_files = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "files" && !has_files {
                has_files = true;
                map.next_value_seed(JsonFiles(JsonPage { files: self.files, page: self.page }))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if has_files { Ok(()) } else { Err(A::Error::missing_field("files")) }
    }
}

impl<'de> Visitor<'de> for JsonFiles<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of files")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(file) = seq.next_element::<JsonFile<'de>>()? {
            let hints = [file.core_metadata, file.data_dist_info_metadata, file.dist_info_metadata];
            let (has_metadata, metadata_sha256) =
                hints.into_iter().find_map(|hint| hint.0).unwrap_or((false, None));
            let raw = RawFile {
                filename: file.filename.into_owned(),
                url: String::new(),
                sha256: digest(file.hashes.sha256),
                size: file.size,
                requires_python: file.requires_python.map(Cow::into_owned),
                yanked: file.yanked.0,
                has_metadata,
                metadata_sha256,
                uploaded: file.upload_time.and_then(|time| time.parse().ok()),
            };
            if !self.0.files.push(self.0.page, &file.url, raw) {
                return Err(A::Error::custom("too large"));
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for JsonPage<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> DeserializeSeed<'de> for JsonFiles<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

fn parse_json(body: &[u8], page: &Url) -> Result<Vec<RawFile>, String> {
    let mut files = Files::default();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = JsonPage { files: &mut files, page }.deserialize(&mut reader).and_then(|()| reader.end());
    match (files.exceeded, read) {
        (Some(exceeded), _) => Err(exceeded),
        (None, Ok(())) => Ok(files.list),
        (None, Err(e)) => Err(format!("invalid JSON (line {}, column {})", e.line(), e.column())),
    }
}

/// The attributes of an `a` or `base` element that mean something.
#[derive(Default)]
struct Element {
    is_link: bool,
    href: Option<String>,
    requires_python: Option<String>,
    yanked: bool,
    metadata: Option<String>,
}

/// Reads the elements one by one: a tree of all of them takes many times the page's size.
fn parse_html(body: &[u8], page: &Url) -> Result<Vec<RawFile>, String> {
    let mut element: Option<Element> = None;
    let mut attribute = String::new();
    let is_html = std::rc::Rc::new(std::cell::Cell::new(false));
    let seen = std::rc::Rc::clone(&is_html);
    let elements = CallbackEmitter::new(move |event: CallbackEvent<'_>, _: html5gum::Span<()>| {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                seen.set(seen.get() || matches!(name, b"html" | b"body" | b"a"));
                let is_link = name == b"a";
                element = (is_link || name == b"base").then(|| Element { is_link, ..Element::default() });
            }
            CallbackEvent::AttributeName { name } => {
                attribute = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
                if let Some(element) = &mut element {
                    element.yanked |= attribute == "data-yanked";
                }
            }
            CallbackEvent::AttributeValue { value } => {
                let value =
                    || Some(String::from_utf8_lossy(&value[..value.len().min(2 * MAX_URL)]).into_owned());
                if let Some(element) = &mut element {
                    match attribute.as_str() {
                        "href" if element.href.is_none() => element.href = value(),
                        "data-requires-python" => element.requires_python = value(),
                        "data-core-metadata" => element.metadata = value(),
                        "data-dist-info-metadata" if element.metadata.is_none() => element.metadata = value(),
                        _ => {}
                    }
                }
            }
            CallbackEvent::CloseStartTag { .. } => return element.take(),
            _ => {}
        }
        None
    });
    let mut base = page.clone();
    let mut files = Files::default();
    for element in Tokenizer::new_with_emitter(body, elements) {
        let Ok(element) = element;
        let Some(href) = element.href else { continue };
        if !element.is_link {
            // A server does not move the links of its page to this machine.
            let is_allowed = |url: &Url| {
                url.as_str().len() <= MAX_URL && (url.scheme() != "file" || page.scheme() == "file")
            };
            base = page.join(&href).ok().filter(is_allowed).unwrap_or(base);
        } else if !files.push_link(&base, &href, element.requires_python, element.yanked, element.metadata) {
            break;
        }
    }
    match files.exceeded {
        Some(exceeded) => Err(exceeded),
        None if is_html.get() => Ok(files.list),
        None => Err("not an index page".to_owned()),
    }
}

impl Files {
    /// Adds the file of a link: its name is the last part of the URL, its hash the fragment.
    fn push_link(
        &mut self,
        base: &Url,
        href: &str,
        requires_python: Option<String>,
        yanked: bool,
        metadata: Option<String>,
    ) -> bool {
        let (address, fragment) = href.split_once('#').unwrap_or((href, ""));
        let path = address.split('?').next().unwrap_or(address);
        let raw = RawFile {
            filename: percent_decode(path.rsplit('/').next().unwrap_or(path)),
            url: String::new(),
            sha256: digest(fragment.strip_prefix("sha256=").map(str::to_owned)),
            size: None,
            requires_python,
            yanked,
            has_metadata: metadata.as_deref().is_some_and(|m| m != "false"),
            metadata_sha256: digest(metadata.and_then(|m| m.strip_prefix("sha256=").map(str::to_owned))),
            // Only the JSON form has it.
            uploaded: None,
        };
        self.push(base, address, raw)
    }
}

/// A SHA-256 in lower-case hexadecimal; `None` if the text is not one.
fn digest(text: Option<String>) -> Option<String> {
    text.map(|t| t.to_ascii_lowercase()).filter(|t| t.len() == 64 && t.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
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
    fn a_login_in_a_file_address_is_removed() {
        let json = b"{\"files\": [{\"filename\": \"a-1-py3-none-any.whl\", \"url\": \"https://me:pw@h.example/a-1-py3-none-any.whl\"}]}";
        let html = b"<a href='https://me:pw@h.example/a-1-py3-none-any.whl'>a</a>";
        for (body, kind) in [(&json[..], "application/json"), (&html[..], "text/html")] {
            let files = parse(body, kind, &page()).unwrap();
            assert_eq!(files[0].url, "https://h.example/a-1-py3-none-any.whl");
        }
    }

    #[test]
    fn a_page_beyond_its_limits_is_refused() {
        let link = "<a href=a-1-py3-none-any.whl>a</a>";
        assert_eq!(parse(link.repeat(10).as_bytes(), "text/html", &page()).unwrap().len(), 10);
        let many = link.repeat(MAX_FILES + 1);
        let why = parse(many.as_bytes(), "text/html", &page()).unwrap_err();
        assert_eq!(why, "the page lists more than 100000 files");
        let file = "{\"filename\": \"a-1-py3-none-any.whl\", \"url\": \"x\"}";
        let many = format!("{{\"files\": [{}]}}", vec![file; MAX_FILES + 1].join(","));
        assert_eq!(parse(many.as_bytes(), "application/json", &page()).unwrap_err(), why);
        // A base URL that would be repeated for every file.
        let base = format!("<base href='/{}/'>{}", "b".repeat(4000), link.repeat(20_000));
        let why = parse(base.as_bytes(), "text/html", &page()).unwrap_err();
        assert_eq!(why, "the page's URLs are larger than 48 MiB");
        // A file whose URL is too long is no file.
        let long = format!("<a href='{}/a-1-py3-none-any.whl'>a</a>{link}", "b".repeat(MAX_URL));
        assert_eq!(parse(long.as_bytes(), "text/html", &page()).unwrap().len(), 1);
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
