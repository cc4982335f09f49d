//! Direct references (PEP 440, PEP 508): `name @ https://…whl`, `name @ git+https://…@tag`, `name @ ./folder`.

use std::fmt;

use super::secrets::secret_parameter;
use super::text::without_logins;
use super::wheel::WheelName;

/// The scheme that stands for a path in [`Direct::url`]: PEP 508 has none for relative paths.
const PATH: &str = "path:";

/// A package that is not taken from an index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direct {
    /// A wheel or an archive on a server.
    Archive {
        /// Its http or https URL, without fragment.
        url: String,
        /// The SHA-256 that the reference states, 64 lower-case hexadecimal digits.
        sha256: Option<String>,
    },
    /// A git repository.
    Git {
        /// Its URL: https, http, ssh or file.
        repository: String,
        /// A branch, tag or commit; the default branch if absent.
        revision: Option<String>,
        /// The folder of the project in the repository.
        subdirectory: Option<String>,
    },
    /// A folder or file on this machine.
    Path(String),
}

/// Why a text is not a direct reference that envlock reads; one phrase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDirect(pub &'static str);

impl Direct {
    /// Whether a text looks like a direct reference: a URL, a repository or a path.
    pub fn is_one(text: &str) -> bool {
        let text = text.trim();
        text.contains("://")
            || text.starts_with("git+")
            || text.starts_with(['.', '/'])
            || text.starts_with(PATH)
            || text.starts_with("file:")
    }

    /// Parses a URL, `git+URL@REVISION#subdirectory=FOLDER`, or a path.
    ///
    /// # Errors
    /// If the scheme is another one, or a part is not valid.
    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    pub fn parse(text: &str) -> Result<Direct, InvalidDirect> {
        let text = text.trim();
        if text.is_empty() || text.len() > 2000 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(InvalidDirect("it is empty, too long, or has white space"));
        }
        if text.contains("://") && secret_parameter(text).is_some() {
            return Err(InvalidDirect(
                "its URL has a token or a signature as a parameter, which expires, and which a committed file would hold: use an address without one, with the login in netrc",
            ));
        }
        if let Some(rest) = text.strip_prefix("git+") {
            return git(rest);
        }
        if let Some(path) = text.strip_prefix(PATH).or_else(|| text.strip_prefix("file:")) {
            if text.starts_with(PATH) {
                return local(path.to_owned());
            }
            let path = path.strip_prefix("//localhost").or_else(|| path.strip_prefix("//")).unwrap_or(path);
            let path = percent_encoding::percent_decode_str(path).decode_utf8();
            let path = path.map_err(|_| InvalidDirect("its path is not UTF-8"))?;
            return local(path.into_owned());
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
            let stated = fragment.split('&').find_map(|part| part.strip_prefix("sha256="));
            let is_digest = |d: &&str| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit());
            if stated.is_some_and(|digest| !is_digest(&digest)) {
                return Err(InvalidDirect("its `sha256` is not 64 hexadecimal digits"));
            }
            url::Url::parse(url).map_err(|_| InvalidDirect("its URL is not valid"))?;
            return Ok(Direct::Archive { url: url.to_owned(), sha256: stated.map(str::to_ascii_lowercase) });
        }
        if text.contains("://") || text.contains('+') && text.contains(':') {
            return Err(InvalidDirect("supported are https, http, `git+` and paths"));
        }
        local(text.to_owned())
    }

    /// The reference as the URL of a PEP 508 requirement.
    pub fn url(&self) -> String {
        match self {
            Direct::Path(path) => format!("{PATH}{path}"),
            other => other.to_string(),
        }
    }

    /// The name of the package, as far as the reference tells: a wheel's file name, `#egg=`, a repository's name.
    pub fn name(&self, text: &str) -> Option<String> {
        let egg =
            text.split_once("#").and_then(|(_, f)| f.split('&').find_map(|part| part.strip_prefix("egg=")));
        if let Some(egg) = egg {
            return Some(egg.split('[').next().unwrap_or(egg).to_owned());
        }
        let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        match self {
            Direct::Archive { url, .. } => {
                let file = percent_encoding::percent_decode_str(&last(url)).decode_utf8_lossy().into_owned();
                match file.parse::<WheelName>() {
                    Ok(wheel) => Some(wheel.project),
                    Err(_) => {
                        let stem =
                            [".tar.gz", ".tgz", ".zip"].iter().find_map(|end| file.strip_suffix(end))?;
                        stem.rsplit_once('-').map(|(name, _)| name.to_owned())
                    }
                }
            }
            Direct::Git { repository, subdirectory, .. } => {
                let place = subdirectory.as_deref().unwrap_or(repository);
                Some(last(place).trim_end_matches(".git").to_owned())
            }
            Direct::Path(_) => None,
        }
    }
}

/// A folder or file, if a lock and its exports can hold its path as it is.
fn local(path: String) -> Result<Direct, InvalidDirect> {
    match is_plain_path(&path) {
        true => Ok(Direct::Path(path)),
        false => Err(InvalidDirect(
            "its path has a space, a quote, one of `# : $ & ; < > | * ? [ ] { }`, a backslash, a backtick, or a part that begins with `-`: a requirements file cannot hold it",
        )),
    }
}

/// Whether a path can stand in a requirements file as it is.
pub fn is_plain_path(path: &str) -> bool {
    super::text::is_line(path)
        && !path.contains([
            '\\', ':', '#', '"', '\'', '$', '&', ';', '<', '>', '|', '*', '?', '[', ']', '{', '}', '`',
        ])
        && !path.contains(char::is_whitespace)
        && !path.split('/').any(|part| part.starts_with('-'))
}

/// `https://host/owner/name.git@tag#subdirectory=folder`
fn git(rest: &str) -> Result<Direct, InvalidDirect> {
    let (location, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let scheme = location.split("://").next().unwrap_or_default();
    if !["https", "http", "ssh", "file"].contains(&scheme) || !location.contains("://") {
        return Err(InvalidDirect("a git repository needs an https, http, ssh or file URL"));
    }
    // An `@` before the path belongs to the login.
    let path_start = location.find("://").map_or(0, |i| i + 3);
    let path_start = location[path_start..].find('/').map_or(location.len(), |i| path_start + i);
    let (repository, revision) = match location[path_start..].rsplit_once('@') {
        Some((path, revision)) => (format!("{}{path}", &location[..path_start]), Some(revision.to_owned())),
        None => (location.to_owned(), None),
    };
    let is_revision = |r: &str| {
        !r.is_empty()
            && !r.starts_with('-')
            && r.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-+".contains(&b))
    };
    if revision.as_deref().is_some_and(|r| !is_revision(r)) {
        return Err(InvalidDirect("its revision is not a branch, tag or commit"));
    }
    let subdirectory = fragment.split('&').find_map(|part| part.strip_prefix("subdirectory="));
    let is_inside =
        |s: &str| !s.starts_with('/') && !s.split('/').any(|part| part == ".." || part.starts_with('-'));
    if subdirectory.is_some_and(|s| !is_inside(s)) {
        return Err(InvalidDirect("its subdirectory is outside the repository"));
    }
    Ok(Direct::Git { repository, revision, subdirectory: subdirectory.map(str::to_owned) })
}

/// Whether a revision may mean a commit: one in hexadecimal digits, also abbreviated, means those that begin so. `20261127` and
/// `feedbeef` may be a tag and a branch as well.
///
/// ```
/// use envlock::model::direct::may_be_commit;
/// let commit = "7b970123456789abcdef0123456789abcdef0123";
/// assert!(may_be_commit("7B97012", commit) && may_be_commit("main", commit));
/// assert!(may_be_commit("20261127", commit) && may_be_commit("feedbeef", commit));
/// assert!(!may_be_commit("7b97013", commit));
/// ```
pub fn may_be_commit(revision: &str, commit: &str) -> bool {
    let is_hex = (7..=64).contains(&revision.len()) && revision.bytes().all(|b| b.is_ascii_hexdigit());
    let has = |is: fn(&u8) -> bool| revision.as_bytes().iter().any(is);
    let is_whole = [40, 64].contains(&revision.len());
    let is_commit = is_hex && (is_whole || has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic));
    !is_commit || commit.starts_with(&revision.to_ascii_lowercase())
}

/// A repository's URL without login; the user name of ssh is no secret, and needed.
pub fn shown_repository(repository: &str) -> String {
    match repository.strip_prefix("ssh://").and_then(|rest| rest.split_once('@')) {
        Some((login, rest)) => format!("ssh://{}@{rest}", login.split(':').next().unwrap_or_default()),
        None => without_login(repository),
    }
}

/// A reference that may not be valid, without login.
pub fn without_login(reference: &str) -> String {
    let (scheme, rest) = reference.strip_prefix("git+").map_or(("", reference), |rest| ("git+", rest));
    match url::Url::parse(rest) {
        Ok(mut url) if url.has_host() => {
            // Neither can fail for a URL with a host.
            let _ = url.set_password(None);
            let _ = url.set_username("");
            format!("{scheme}{url}")
        }
        _ => without_logins(reference),
    }
}

/// As written, without logins.
impl fmt::Display for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Direct::Archive { url, sha256 } => {
                f.write_str(&without_login(url))?;
                sha256.iter().try_for_each(|digest| write!(f, "#sha256={digest}"))
            }
            Direct::Git { repository, revision, subdirectory } => {
                write!(f, "git+{}", shown_repository(repository))?;
                revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
                subdirectory.iter().try_for_each(|folder| write!(f, "#subdirectory={folder}"))
            }
            Direct::Path(path) => f.write_str(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let digest = "a".repeat(64);
        for (text, shown, name) in [
            ("https://h/x/demo-1.0-py3-none-any.whl", "https://h/x/demo-1.0-py3-none-any.whl", Some("demo")),
            (
                &format!("https://me:pw@h/demo-1.0.tar.gz#sha256={digest}"),
                &format!("https://h/demo-1.0.tar.gz#sha256={digest}"),
                Some("demo"),
            ),
            ("git+https://h/o/my-demo.git", "git+https://h/o/my-demo.git", Some("my-demo")),
            ("git+https://h/o/demo@v1.2", "git+https://h/o/demo@v1.2", Some("demo")),
            (
                "git+https://tok@h/o/demo@main#egg=other&subdirectory=a/b",
                "git+https://h/o/demo@main#subdirectory=a/b",
                Some("other"),
            ),
            ("git+ssh://git@h/o/demo.git@main", "git+ssh://git@h/o/demo.git@main", Some("demo")),
            ("./libs/demo", "./libs/demo", None),
            ("file:///srv/demo", "/srv/demo", None),
        ] {
            let direct = Direct::parse(text).unwrap();
            assert_eq!((direct.to_string().as_str(), direct.name(text).as_deref()), (shown, name), "{text}");
            assert_eq!(Direct::parse(&direct.url()).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_line_keeps_the_revision_and_no_login() {
        let line =
            |text: &str| super::super::request::UserRequirement::parse(text, "t".into()).unwrap().line();
        for (text, expected) in [
            (
                "mine[x] @ git+https://me:pw@h/o/mine@v1 ; python_version < '3.9'",
                "mine[x] @ git+https://h/o/mine@v1 ; python_full_version < '3.9'",
            ),
            ("https://me:pw@h/demo-1.0-py3-none-any.whl", "demo @ https://h/demo-1.0-py3-none-any.whl"),
            ("mine @ ../x", "mine @ path:../x"),
            ("torch @ https://h/torch-2.0.1%2Bcu118-cp310-cp310-linux_x86_64.whl", "torch==2.0.1+cu118"),
        ] {
            assert_eq!(line(text), expected);
            assert_eq!(line(&line(text)), expected);
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "git+ext::sh -c x",
            "git+https://h/o/demo@--upload-pack=x",
            "git+git@h:o/demo.git",
            "git+https://h/o/demo#subdirectory=../x",
            "git+https://h/o/demo#subdirectory=/x",
            "hg+https://h/o/demo",
            "ftp://h/x.whl",
            "https://h/x.whl#sha256=ab",
            "https://h/x y.whl",
        ] {
            assert!(Direct::parse(text).is_err(), "{text}");
        }
    }
}
