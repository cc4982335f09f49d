//! Which variables reach a program that installs or builds. An allow-list: a variable of pip, uv or conda that nobody here
//! has heard of does not change what is installed, or where.
//!
//! It is code, and not a row of the registry, since data must not widen it.

/// What a program is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It installs packages from envlock's lists, by address and hash.
    Install,
    /// It is the tool that holds the project's packages: where it looks for them is its own.
    OfTheProject,
}

/// Variables for one reason. A name that ends in `*` stands for all that begin so.
pub struct Group {
    /// What they are for, as SECURITY.md says it.
    pub what: &'static str,
    /// Their names, in capitals; those of proxies are taken in small letters too.
    pub names: &'static [&'static str],
    /// For whom: for every program if `None`.
    purpose: Option<Purpose>,
    /// Only where something may be built.
    for_builds: bool,
}

const fn group(what: &'static str, names: &'static [&'static str]) -> Group {
    Group { what, names, purpose: None, for_builds: false }
}

/// All of them.
pub const GROUPS: [Group; 13] = [
    group(
        "the system: programs, folders, language, terminal",
        &[
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "LANG",
            "LANGUAGE",
            "LC_*",
            "TZ",
            "TERM",
            "COLORTERM",
            "COLUMNS",
            "NO_COLOR",
            "FORCE_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "TMPDIR",
            "TEMP",
            "TMP",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_RUNTIME_DIR",
            "LD_LIBRARY_PATH",
            "SOURCE_DATE_EPOCH",
            "CI",
        ],
    ),
    group(
        "Windows",
        &[
            "SYSTEMROOT",
            "SYSTEMDRIVE",
            "WINDIR",
            "COMSPEC",
            "PATHEXT",
            "APPDATA",
            "LOCALAPPDATA",
            "PROGRAMDATA",
            "PROGRAMFILES*",
            "USERPROFILE",
            "HOMEDRIVE",
            "HOMEPATH",
            "USERNAME",
            "NUMBER_OF_PROCESSORS",
            "PROCESSOR_ARCHITECTURE",
        ],
    ),
    group("proxies", &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]),
    group(
        "certificates",
        &[
            "SSL_CERT_*",
            "SSL_CLIENT_CERT",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "PIP_CERT",
            "PIP_CLIENT_CERT",
            "UV_SYSTEM_CERTS",
            "UV_NATIVE_TLS",
            "GIT_SSL_CAINFO",
            "CONDA_SSL_VERIFY",
        ],
    ),
    group(
        "logins of indexes",
        &[
            "UV_INDEX_*_USERNAME",
            "UV_INDEX_*_PASSWORD",
            "UV_KEYRING_PROVIDER",
            "UV_CREDENTIALS_DIR",
            "PIP_KEYRING_PROVIDER",
            "PYTHON_KEYRING_BACKEND",
            "DBUS_SESSION_BUS_ADDRESS",
            "NETRC",
            "RATTLER_AUTH_FILE",
        ],
    ),
    group(
        "caches, links, concurrency",
        &[
            "UV_CACHE_DIR",
            "UV_NO_CACHE",
            "UV_LINK_MODE",
            "UV_CONCURRENT_*",
            "UV_COMPILE_BYTECODE",
            "UV_LOCK_TIMEOUT",
            "PIP_CACHE_DIR",
            "PIP_NO_CACHE_DIR",
            "CONDA_PKGS_DIRS",
            "RATTLER_CACHE_DIR",
            "PIXI_CACHE_DIR",
        ],
    ),
    group(
        "time limits and retries",
        &[
            "UV_HTTP_TIMEOUT",
            "UV_REQUEST_TIMEOUT",
            "UV_HTTP_CONNECT_TIMEOUT",
            "UV_HTTP_RETRIES",
            "PIP_TIMEOUT",
            "PIP_DEFAULT_TIMEOUT",
            "PIP_RETRIES",
            "CONDA_REMOTE_*",
        ],
    ),
    group(
        "what is shown",
        &["UV_NO_PROGRESS", "PIP_PROGRESS_BAR", "PIP_NO_COLOR", "PIP_DISABLE_PIP_VERSION_CHECK"],
    ),
    group(
        "Pythons and clients that are here, and no download",
        &[
            "UV_PYTHON_INSTALL_DIR",
            "UV_PYTHON_DOWNLOADS",
            "UV_OFFLINE",
            "CONDA_EXE",
            "CONDA_ROOT",
            "MAMBA_EXE",
            "MAMBA_ROOT_PREFIX",
            "CONDA_OVERRIDE_*",
            "CONDA_OFFLINE",
            "PIXI_HOME",
        ],
    ),
    group(
        "git and ssh",
        &["SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_TERMINAL_PROMPT"],
    ),
    group(
        "logins of clouds",
        &[
            "AWS_*",
            "AZURE_*",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "CLOUDSDK_*",
            "IDENTITY_ENDPOINT",
            "IDENTITY_HEADER",
        ],
    ),
    Group {
        what: "builds that are allowed",
        names: &["CC", "CXX", "CUDA_HOME", "CUDA_PATH", "MAX_JOBS", "TORCH_CUDA_ARCH_LIST"],
        purpose: None,
        for_builds: true,
    },
    Group {
        what: "the indexes, the Python and the environment of a project that uv or pixi holds",
        names: &[
            "UV_DEFAULT_INDEX",
            "UV_INDEX",
            "UV_INDEX_URL",
            "UV_EXTRA_INDEX_URL",
            "UV_FIND_LINKS",
            "UV_INSECURE_HOST",
            "UV_PYTHON",
            "UV_PROJECT_ENVIRONMENT",
        ],
        purpose: Some(Purpose::OfTheProject),
        for_builds: false,
    },
];

/// How to pass variables on.
#[derive(Debug, Clone, Copy)]
pub struct EnvAllowlist<'p> {
    /// What the program is started for.
    pub purpose: Purpose,
    /// Whether it may build something.
    pub builds: bool,
    /// Names that the project adds: `[sync] pass-env`.
    pub more: &'p [String],
}

impl EnvAllowlist<'_> {
    /// Whether a variable reaches the program.
    pub fn allows(&self, name: &str) -> bool {
        let upper = name.to_ascii_uppercase();
        let groups = GROUPS.iter().filter(|group| {
            (self.builds || !group.for_builds) && group.purpose.is_none_or(|purpose| purpose == self.purpose)
        });
        groups.flat_map(|group| group.names).any(|pattern| {
            // Elsewhere than on Windows `http_proxy` and `HTTP_PROXY` are two variables, and both are read.
            (cfg!(windows) || name == upper || pattern.ends_with("_PROXY")) && matches(pattern, &upper)
        }) || self.more.iter().any(|own| own == name || cfg!(windows) && own.eq_ignore_ascii_case(name))
    }
}

/// Whether a name matches a pattern in which one `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => {
            name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_an_installer() {
        let more = ["CMAKE_ARGS".to_owned()];
        let install = EnvAllowlist { purpose: Purpose::Install, builds: false, more: &[] };
        let build = EnvAllowlist { builds: true, more: &more, ..install };
        let uv = EnvAllowlist { purpose: Purpose::OfTheProject, ..install };
        for (name, expected) in [
            ("PATH", [true; 3]),
            ("LC_ALL", [true; 3]),
            ("https_proxy", [true; 3]),
            ("SSL_CERT_FILE", [true; 3]),
            ("UV_INDEX_CORP_PASSWORD", [true; 3]),
            ("AWS_PROFILE", [true; 3]),
            ("CC", [false, true, false]),
            ("MAX_JOBS", [false, true, false]),
            ("CMAKE_ARGS", [false, true, false]),
            ("UV_DEFAULT_INDEX", [false, false, true]),
            ("path", [cfg!(windows); 3]),
            ("LC_", [false; 3]),
            ("UV_CONFIG_FILE", [false; 3]),
            ("UV_EXCLUDE", [false; 3]),
            ("UV_WORKING_DIRECTORY", [false; 3]),
            ("UV_INDEX_STRATEGY", [false; 3]),
            ("PIP_TARGET", [false; 3]),
            ("PYTHONPATH", [false; 3]),
            ("LD_PRELOAD", [false; 3]),
            ("CONDA_PREFIX", [false; 3]),
        ] {
            assert_eq!([install, build, uv].map(|passing| passing.allows(name)), expected, "{name}");
        }
    }

    /// What is promised is what the code does.
    #[test]
    fn the_list_is_the_one_in_security_md() {
        let text = include_str!("../../SECURITY.md");
        let table: Vec<&str> =
            text.lines().skip_while(|line| *line != "| Variables | Names |").skip(2).collect();
        let rows = table.iter().take_while(|line| line.starts_with('|')).map(|line| (*line).to_owned());
        let expected = GROUPS.iter().map(|group| {
            let names: Vec<String> = group.names.iter().map(|name| format!("`{name}`")).collect();
            format!("| {} | {} |", group.what, names.join(", "))
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
