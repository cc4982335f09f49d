//! `host.toml`: a machine description, written by `probe --save` or by hand.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::capability::ComputeCapability;
use crate::model::host::{Driver, Gpu, Host, System};
use crate::model::platform::{Libc, Platform};
use crate::model::saved_host::{EnvironmentFacts, GpuMode, LoaderFacts, SavedHost, Unstated};
use crate::model::secrets::masked;
use crate::model::text::clean as cleaned;
use crate::model::text::toml_string as quote;
use crate::model::version::DottedVersion;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    schema: u32,
    driver: Option<RawDriver>,
    gpu: Option<Vec<RawGpu>>,
    system: Option<RawSystem>,
    loader: Option<RawLoader>,
    environment: Option<RawEnvironment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLoader {
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    libraries: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEnvironment {
    prefix: String,
    digest: String,
    #[serde(default)]
    packages: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDriver {
    version: Option<DottedVersion>,
    #[serde(default, deserialize_with = "version_or_nothing")]
    cuda: Option<DottedVersion>,
    /// `None` if it is not stated, `Some(None)` if there is none.
    #[serde(default, deserialize_with = "stated_version_or_nothing")]
    compat: Option<Option<DottedVersion>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGpu {
    name: Option<String>,
    compute_capability: Option<ComputeCapability>,
    memory_mib: Option<u64>,
    uuid: Option<String>,
    ecc: Option<bool>,
    mig: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSystem {
    #[serde(default = "default_os")]
    os: String,
    #[serde(default = "default_arch")]
    arch: String,
    glibc: Option<DottedVersion>,
    musl: Option<DottedVersion>,
    macos: Option<DottedVersion>,
}

/// A version; an empty text is none.
fn version_or_nothing<'de, D: serde::Deserializer<'de>>(of: D) -> Result<Option<DottedVersion>, D::Error> {
    let text = String::deserialize(of)?;
    match text.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

fn stated_version_or_nothing<'de, D: serde::Deserializer<'de>>(
    of: D,
) -> Result<Option<Option<DottedVersion>>, D::Error> {
    version_or_nothing(of).map(Some)
}

fn default_os() -> String {
    "linux".to_owned()
}

fn default_arch() -> String {
    "x86_64".to_owned()
}

/// The first line of a host file that envlock wrote.
pub const MARK: &str = "# Written by `envlock probe --save`.";

/// Drivers of branches before it are older than CUDA 7.5; smaller numbers are those of CUDA.
const OLDEST_BRANCH: u32 = 100;
/// No machine has as many GPUs.
const MAX_GPUS: usize = 1024;
/// Maximum number of rows of a table that are read.
const MAX_ROWS: usize = 20_000;

/// Parses a host file. A missing key means unknown; `gpu = []` means no GPU.
///
/// # Errors
/// The message, in one line, with the number and the text of the line.
pub fn parse(text: &str, name: &str) -> Result<Host, String> {
    parse_saved(text, name).map(|saved| saved.host)
}

/// Parses a host file with all that `probe --save` keeps.
///
/// # Errors
/// As [`parse`].
pub fn parse_saved(text: &str, name: &str) -> Result<SavedHost, String> {
    let raw: RawHost = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
    if raw.schema != 1 {
        return Err(format!("unsupported schema {} (supported: 1)", raw.schema));
    }
    if raw.gpu.as_ref().is_some_and(|list| list.len() > MAX_GPUS) {
        return Err(format!("it has more than {MAX_GPUS} GPUs"));
    }
    let unstated = Unstated {
        compat: raw.driver.as_ref().is_some_and(|driver| driver.compat.is_none()),
        platform: raw.system.is_none(),
    };
    let system = raw.system.unwrap_or(RawSystem {
        os: default_os(),
        arch: default_arch(),
        glibc: None,
        musl: None,
        macos: None,
    });
    if [&system.glibc, &system.musl, &system.macos].into_iter().flatten().count() > 1 {
        return Err("`[system]` has more than one of `glibc`, `musl` and `macos`".to_owned());
    }
    let platform = format!("{}-{}", system.os, system.arch)
        .parse::<Platform>()
        .map_err(|e| format!("`os` and `arch` of `[system]`: {e}"))?;
    let driver = raw.driver.map(|raw| driver_of(raw, name)).transpose()?.flatten();
    let clean = |list: BTreeMap<String, String>| -> BTreeMap<String, String> {
        let list = list.into_iter().take(MAX_ROWS);
        list.map(|(name, value)| (cleaned(&name, 200), cleaned(&value, 8_192))).collect()
    };
    let loader = raw
        .loader
        .map(|loader| LoaderFacts { variables: clean(loader.variables), libraries: clean(loader.libraries) });
    let environment = raw.environment.map(|environment| EnvironmentFacts {
        prefix: cleaned(&environment.prefix, 1_000),
        digest: cleaned(&environment.digest, 100),
        packages: clean(environment.packages),
    });
    let modes = raw.gpu.iter().flatten().zip(0..).filter_map(|(gpu, index)| {
        let mode = GpuMode { ecc: gpu.ecc, mig: gpu.mig };
        (mode != GpuMode::default()).then_some((index, mode))
    });
    let modes = modes.collect();
    let host = Host {
        driver,
        gpus: raw.gpu.map(|list| {
            list.into_iter()
                .enumerate()
                .map(|(i, g)| Gpu {
                    index: i as u32,
                    name: g.name.map(|n| crate::model::text::clean(&n, 96)),
                    capability: g.compute_capability,
                    memory_mib: g.memory_mib,
                    uuid: g.uuid.filter(|uuid| is_uuid(uuid)),
                    pci_id: None,
                    found_by: name.into(),
                })
                .collect()
        }),
        system: System {
            platform,
            libc: system
                .glibc
                .map(Libc::Glibc)
                .or_else(|| system.musl.map(Libc::Musl))
                .or_else(|| system.macos.map(Libc::Macos)),
            found_by: name.into(),
        },
        notes: Vec::new(),
    };
    Ok(SavedHost { host, loader, environment, modes, unstated })
}

/// Why a text is no host file, with the line where it ends to be one.
fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let why = cleaned(error.message(), 300);
    let Some(span) = error.span() else { return why };
    let number = text[..span.start.min(text.len())].matches('\n').count();
    let line = cleaned(&masked(text.lines().nth(number).unwrap_or_default().trim()), 100);
    // A link may name another file, whose lines are not shown: it may hold secrets.
    let is_host_file =
        text.lines().any(|line| line.split('=').next().is_some_and(|key| key.trim() == "schema"));
    match line.is_empty() || !is_host_file {
        true => format!("line {}: {why}", number + 1),
        false => format!("line {} (`{line}`): {why}", number + 1),
    }
}

/// The driver of `[driver]`; `None` where the table says nothing of it.
fn driver_of(raw: RawDriver, name: &str) -> Result<Option<Driver>, String> {
    if raw.version.as_ref().is_some_and(|version| version.major() < OLDEST_BRANCH) {
        return Err(
            "`version` of `[driver]` is that of a driver, such as `535.129.03`; a CUDA version is `cuda`"
                .to_owned(),
        );
    }
    if let RawDriver { version: None, cuda: None, compat: Some(Some(_)) } = raw {
        return Err("`[driver]` has `compat`, and neither `version` nor `cuda`".to_owned());
    }
    // Without a version, the caller infers it from the CUDA version and the registry.
    let version = raw.version.or_else(|| raw.cuda.as_ref().map(|_| Driver::unknown_version()));
    Ok(version.map(|version| Driver {
        version,
        cuda: raw.cuda,
        compat: raw.compat.flatten(),
        found_by: name.into(),
    }))
}

/// Renders a machine as a host file.
pub fn render(saved: &SavedHost) -> String {
    let host = &saved.host;
    let mut out = format!("{MARK}\nschema = 1\n");
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    if host.has_no_gpu() {
        line("gpu = []".to_owned());
    }
    if let Some(driver) = &host.driver {
        line("\n[driver]".to_owned());
        if driver.version != Driver::unknown_version() {
            line(format!("version = {}", quote(driver.version.as_str())));
        }
        if let Some(cuda) = &driver.cuda {
            line(format!("cuda = {}", quote(cuda.as_str())));
        }
        if !saved.unstated.compat {
            line(format!("compat = {}", quote(driver.compat.as_ref().map_or("", |c| c.as_str()))));
        }
    }
    for gpu in host.gpus.iter().flatten() {
        line("\n[[gpu]]".to_owned());
        if let Some(name) = &gpu.name {
            line(format!("name = {}", quote(name)));
        }
        if let Some(capability) = gpu.capability {
            line(format!("compute_capability = \"{capability}\""));
        }
        if let Some(memory) = gpu.memory_mib {
            line(format!("memory_mib = {memory}"));
        }
        if let Some(uuid) = &gpu.uuid {
            line(format!("uuid = {}", quote(uuid)));
        }
        let mode = saved.modes.get(&gpu.index).copied().unwrap_or_default();
        for (name, value) in [("ecc", mode.ecc), ("mig", mode.mig)] {
            if let Some(value) = value {
                line(format!("{name} = {value}"));
            }
        }
    }
    if !saved.unstated.platform {
        line("\n[system]".to_owned());
        line(format!("os = {}", quote(host.system.platform.os_name())));
        line(format!("arch = {}", quote(host.system.platform.arch_name())));
        if let Some(libc) = &host.system.libc {
            line(format!("{} = {}", libc.key(), quote(libc.version().as_str())));
        }
    }
    let mut table = |name: &str, list: &BTreeMap<String, String>| {
        if !list.is_empty() {
            line(format!("\n[{name}]"));
            list.iter().for_each(|(key, value)| line(format!("{} = {}", quote(key), quote(value))));
        }
    };
    if let Some(loader) = &saved.loader {
        table("loader.variables", &loader.variables);
        table("loader.libraries", &loader.libraries);
    }
    if let Some(environment) = &saved.environment {
        let own = [("prefix", &environment.prefix), ("digest", &environment.digest)];
        table("environment", &own.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect());
        table("environment.packages", &environment.packages);
    }
    // Kept, and nothing was found.
    if saved.loader.as_ref().is_some_and(|loader| loader.variables.is_empty() && loader.libraries.is_empty())
    {
        out.push_str("\n[loader]\n");
    }
    out
}

/// Whether the text is a UUID as the driver writes it, `GPU-...` or `MIG-...`. Checked because UUIDs can become part
/// of a shell command.
fn is_uuid(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 100
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "schema = 1\n\n[driver]\nversion = \"535.129.03\"\ncuda = \"12.2\"\ncompat = \"\"\n\n[[gpu]]\n\
        name = \"NVIDIA A100-SXM4-80GB\"\ncompute_capability = \"8.0\"\nmemory_mib = 81920\n\n[system]\nos = \"linux\"\n\
        arch = \"x86_64\"\nglibc = \"2.35\"\n";

    #[test]
    fn written_and_read_again() {
        let host = parse(FILE, "host.toml").unwrap();
        assert_eq!(render(&host.into()), format!("{MARK}\n{FILE}"));
        let unstated = |text: &str| parse_saved(text, "h").unwrap().unstated;
        assert_eq!(unstated(FILE), Unstated::default());
        assert_eq!(
            unstated("schema = 1\n[driver]\nversion = \"580\""),
            Unstated { compat: true, platform: true }
        );
        let none = parse("schema = 1\ngpu = []\n", "h").unwrap();
        assert!(none.has_no_gpu());
        assert!(render(&none.clone().into()).contains("schema = 1\ngpu = []\n"));
        assert_eq!(parse("schema = 1", "h").unwrap().gpus, None);
    }

    #[test]
    fn what_is_kept_for_drift() {
        let text = format!(
            "{MARK}\n{FILE}\n[loader.variables]\n\"LD_LIBRARY_PATH\" = \"/x:/y\"\n\n[loader.libraries]\n\"libcuda.so.1\" = \"/l/libcuda.so.535.129.03\"\n\n[environment]\n\"digest\" = \"sha256:00\"\n\"prefix\" = \"/v\"\n\n[environment.packages]\n\"torch\" = \"2.9.1\"\n"
        );
        let saved = parse_saved(&text, "h").unwrap();
        assert_eq!(saved.loader.as_ref().unwrap().libraries["libcuda.so.1"], "/l/libcuda.so.535.129.03");
        assert_eq!(saved.environment.as_ref().unwrap().packages["torch"], "2.9.1");
        assert_eq!(render(&saved), text);
        let none = SavedHost { loader: Some(LoaderFacts::default()), ..parse(FILE, "h").unwrap().into() };
        assert_eq!(parse_saved(&render(&none), "h").unwrap().loader, none.loader);
    }

    #[test]
    fn how_gpus_are_set() {
        let text = format!(
            "{MARK}\nschema = 1\n\n[[gpu]]\nname = \"A\"\necc = true\nmig = false\n\n[[gpu]]\nname = \"B\"\n\n[system]\nos = \"linux\"\narch = \"x86_64\"\n"
        );
        let saved = parse_saved(&text, "h").unwrap();
        assert_eq!(saved.modes, BTreeMap::from([(0, GpuMode { ecc: Some(true), mig: Some(false) })]));
        assert_eq!(render(&saved), text);
    }

    #[test]
    fn more_gpus_than_any_machine_has_are_refused() {
        let text = format!("schema = 1\n{}", "[[gpu]]\nname = \"A100\"\n".repeat(MAX_GPUS + 1));
        assert_eq!(parse(&text, "host.toml").unwrap_err(), "it has more than 1024 GPUs");
    }

    #[test]
    fn one_line_says_what_is_wrong() {
        for (bad, part) in [
            ("", "missing field `schema`"),
            ("schema = 2", "unsupported schema 2"),
            ("schema = 1\nfoo = 1", "unknown field `foo`"),
            ("schema = 1\n[driver]\nversion = \"x\"", "`x`"),
            ("schema = 1\n[system]\nos = \"beos\"", "beos"),
            ("schema = 1\n[driver]\ncuda = \"x\"", "line 3 (`cuda = \"x\"`): `x`"),
            ("schema = 1\n[driver]\nversion = \"12.2\"", "`cuda`"),
            ("schema = 1\n[driver]\ncompat = \"580.1\"", "neither `version` nor `cuda`"),
            ("schema = 1\n[system]\nglibc = \"2.3\"\nmusl = \"1.2\"", "more than one of"),
        ] {
            let why = parse(bad, "host.toml").unwrap_err();
            assert!(why.contains(part) && !why.contains('\n'), "{bad}: {why}");
        }
        // The message shows the line, so that the key is named.
        for (bad, key) in [
            ("schema = 1\n[driver]\ncompat = \"x\"", "compat = \"x\""),
            ("schema = 1\n[system]\narch = \"beos\"", "`arch`"),
            ("schema = 1\n[[gpu]]\necc = 1", "ecc = 1"),
        ] {
            let why = parse(bad, "host.toml").unwrap_err();
            assert!(why.contains(key), "{bad}: {why}");
        }
    }
}
