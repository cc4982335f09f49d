//! Credentials from index URLs and netrc. They are sent only to their host and never printed or written.

use std::path::PathBuf;
use std::sync::OnceLock;

use url::Url;

/// User name and password for HTTP basic authentication.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub user: String,
    pub password: String,
}

// Keeps the password out of `{:?}` output.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(..)")
    }
}

/// The sources of credentials.
#[derive(Debug)]
pub(super) struct Credentials {
    netrc: Option<PathBuf>,
    /// Logins in the URLs of configured indexes. They apply to the whole origin, including the files of a
    /// private index.
    indexes: Vec<(url::Origin, Login)>,
    /// The hosts of configured indexes, which netrc's `default` entry is for.
    hosts: Vec<String>,
    /// The hosts of indexes that are read without TLS: to no other a login of netrc is sent without it.
    plain: Vec<String>,
    entries: OnceLock<Vec<(Option<String>, Login)>>,
    /// Why the netrc file cannot be read, if it is there.
    unread: OnceLock<String>,
}

impl Credentials {
    pub fn new(netrc: Option<PathBuf>, addresses: &[(String, String)]) -> Credentials {
        let urls: Vec<Url> = addresses.iter().filter_map(|(_, address)| Url::parse(address).ok()).collect();
        Credentials {
            netrc,
            indexes: urls.iter().filter_map(|url| Some((url.origin(), own_login(url)?))).collect(),
            hosts: urls.iter().filter_map(|url| url.host_str().map(str::to_owned)).collect(),
            plain: urls
                .iter()
                .filter(|url| url.scheme() == "http")
                .filter_map(|url| url.host_str().map(str::to_owned))
                .collect(),
            entries: OnceLock::new(),
            unread: OnceLock::new(),
        }
    }

    /// The login for a URL: in the URL itself, else of an index with the same origin, else from netrc. netrc names hosts
    /// alone, so that its logins are sent without TLS only to indexes that have none.
    pub fn login(&self, url: &Url) -> Option<Login> {
        if let Some(login) = own_login(url) {
            return Some(login);
        }
        if let Some((_, login)) = self.indexes.iter().find(|(origin, _)| *origin == url.origin()) {
            return Some(login.clone());
        }
        let host = url.host_str()?;
        if url.scheme() == "http" && !self.plain.iter().any(|index| index == host) {
            return None;
        }
        let entries = self.entries.get_or_init(|| match self.netrc.as_ref().map(fs_err::read_to_string) {
            Some(Ok(text)) => parse_netrc(&text),
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                let _ = self.unread.set(error.to_string());
                Vec::new()
            }
            _ => Vec::new(),
        });
        entries
            .iter()
            .find(|(machine, _)| machine.as_deref() == Some(host))
            .or_else(|| {
                let is_index = self.hosts.iter().any(|index| index == host);
                entries.iter().find(|(machine, _)| machine.is_none() && is_index)
            })
            .map(|(_, login)| login.clone())
    }
}

impl Credentials {
    /// Why the logins of the netrc file are not known, if they are not: for a server that asks for one.
    pub fn unread(&self) -> Option<&str> {
        self.unread.get().map(String::as_str)
    }
}

/// The login in a URL.
fn own_login(url: &Url) -> Option<Login> {
    (!url.username().is_empty())
        .then(|| Login { user: decode(url.username()), password: decode(url.password().unwrap_or_default()) })
}

/// The URL without user and password.
pub(super) fn without_login(url: &Url) -> Url {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Entries `machine NAME login USER password WORD` of a netrc file; `default` has no machine.
fn parse_netrc(text: &str) -> Vec<(Option<String>, Login)> {
    let mut entries: Vec<(Option<String>, Login)> = Vec::new();
    let text: Vec<&str> =
        text.lines().filter(|l| !l.trim_start().starts_with('#')).flat_map(str::split_whitespace).collect();
    let mut words = text.into_iter();
    let empty = || Login { user: String::new(), password: String::new() };
    while let Some(word) = words.next() {
        match word {
            "machine" => entries.push((words.next().map(str::to_owned), empty())),
            "default" => entries.push((None, empty())),
            "login" => {
                if let (Some(entry), Some(user)) = (entries.last_mut(), words.next()) {
                    user.clone_into(&mut entry.1.user);
                }
            }
            "password" => {
                if let (Some(entry), Some(password)) = (entries.last_mut(), words.next()) {
                    password.clone_into(&mut entry.1.password);
                }
            }
            _ => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netrc() {
        let entries =
            parse_netrc("# c\nmachine a.example login me password s3cret\ndefault login any password x\n");
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].0.as_deref(), Some("a.example"));
        assert_eq!(entries[0].1.password, "s3cret");
        assert_eq!(format!("{:?}", entries[0].1), "Login(..)");
        assert!(parse_netrc("machine").len() == 1 && parse_netrc("login x").is_empty());
    }

    #[test]
    fn netrc_is_for_indexes_and_not_for_plain_http() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("netrc");
        fs_err::write(&path, "machine files.example login me password a\ndefault login any password b\n")
            .unwrap();
        let user = |index: &str, url: &str| {
            let c = Credentials::new(Some(path.clone()), &[("corp".to_owned(), index.to_owned())]);
            c.login(&Url::parse(url).unwrap()).map(|login| login.user)
        };
        let https = "https://index.example/simple";
        for (index, url, expected) in [
            (https, "https://index.example/simple/a/", Some("any")),
            (https, "https://files.example/a.whl", Some("me")),
            (https, "http://files.example/a.whl", None),
            (https, "https://elsewhere.example/a.whl", None),
            ("http://index.example/simple", "http://files.example/a.whl", None),
            ("http://files.example/simple", "http://files.example/a.whl", Some("me")),
        ] {
            assert_eq!(user(index, url).as_deref(), expected, "{url} of {index}");
        }
    }

    #[test]
    fn logins_in_addresses() {
        let c = Credentials::new(None, &[]);
        let login = c.login(&Url::parse("https://me:p%40w@h.example/").unwrap()).unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("me", "p@w"));
        assert_eq!(decode("a%zz%4"), "a%zz%4");
    }
}
