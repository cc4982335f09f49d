//! Random small registries, machines and requests.

use std::fmt::Write as _;

use envlock::model::host::{Driver, Gpu, Host};
use envlock::model::platform::{Libc, Platform};
use envlock::model::request::{Limit, Request, UserRequirement};
use envlock::registry::{Registry, RegistryFile};

/// splitmix64: small, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.below(list.len())]
    }

    /// Each member with even odds.
    pub fn some<'t>(&mut self, list: &[&'t str]) -> Vec<&'t str> {
        list.iter().copied().filter(|_| self.one_in(2)).collect()
    }
}

const TORCH: [&str; 5] = ["2.0.0", "2.1.0", "2.1.1", "2.2.0", "2.3.0"];
/// Flavour, CUDA, what its compiler can make, cuDNN releases for its major.
const FLAVOURS: [(&str, &str, &[&str], &[&str]); 4] = [
    (
        "cu118",
        "11.8",
        &["3.7", "5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "8.7", "9.0"],
        &["8.7.0.84", "9.1.0.70"],
    ),
    ("cu121", "12.1", &["5.0", "6.0", "7.0", "8.0", "8.6", "9.0", "9.0a"], &["8.9.2.26", "9.1.0.70"]),
    ("cu126", "12.6", &["5.0", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0"], &["9.5.1.17", "9.10.2.21"]),
    (
        "cu130",
        "13.0",
        &["7.5", "8.0", "8.9", "9.0", "10.0", "10.0f", "11.0", "12.0"],
        &["9.12.0.46", "9.13.0.50"],
    ),
];
const VISION: [&str; 4] = ["0.15.0", "0.16.0", "0.16.1", "0.17.0"];
const PYTHONS: [&str; 4] = ["cp39", "cp310", "cp311", "cp312"];
pub const DRIVERS: [&str; 9] = [
    "418.39",
    "450.80.02",
    "470.57.02",
    "520.61.05",
    "525.60.13",
    "535.54.03",
    "560.28.03",
    "580.65.06",
    "590.44.01",
];
const GPUS: [&str; 11] = ["3.7", "5.0", "5.2", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "9.0", "12.0"];

/// The files that random registries share: the real ones, without the GPUs' names.
pub fn common_files() -> Vec<RegistryFile> {
    let embedded = Registry::embedded();
    let real = ["cuda.toml", "cudnn.toml", "drivers.toml", "python.toml", "registry.toml", "sources.toml"];
    let mut files: Vec<RegistryFile> =
        embedded.files().iter().filter(|f| real.contains(&f.path.as_ref())).cloned().collect();
    let gpus = embedded.files().iter().find(|f| f.path == "gpus.toml").unwrap();
    let (_, tables) = gpus.text.split_once("\n[tegra]").unwrap();
    // The labels of clouds name GPUs that are not in it.
    let tables = tables.split_once("\n[[node_label]]").map_or(tables, |(before, _)| before);
    let head = "default = { evidence = \"documented\", source = [\"pci-ids\"] }\n\
                gpu = [{ name = \"A\", capability = \"8.0\" }]\n";
    files.push(RegistryFile { path: "gpus.toml".into(), text: format!("{head}\n[tegra]{tables}").into() });
    // What no solve asks for is not worth reading ten thousand times.
    for path in ["errors.toml", "loading.toml"] {
        files.push(RegistryFile { path: path.into(), text: "".into() });
    }
    // Sources that nothing cites any more would be found by the registry's own check.
    let cited: String = files.iter().filter(|f| f.path != "sources.toml").map(|f| f.text.as_ref()).collect();
    let sources = files.iter_mut().find(|f| f.path == "sources.toml").unwrap();
    let kept = sources.text.lines().filter(|line| match line.split_once(" = ") {
        Some((id, _)) => id == "\"pypi-files\"" || cited.contains(id),
        None => true,
    });
    sources.text = kept.collect::<Vec<_>>().join("\n").into();
    files
}

/// A registry of a few torch builds.
pub fn registry(random: &mut Random, common: &[RegistryFile]) -> Registry {
    let mut files = common.to_vec();
    let mut versions = random.some(&TORCH);
    if versions.is_empty() {
        versions.push("2.1.0");
    }
    let mut rows: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for version in &versions {
        let mut on_pypi = random.one_in(5);
        // A row without CUDA comes first: a version is never without any row.
        let with_cpu = random.one_in(2);
        if with_cpu {
            push_row(random, rows.entry(version).or_default(), version, "pytorch", "variant = \"cpu\"\n");
        }
        for (variant, cuda, makeable, cudnn) in FLAVOURS {
            if random.one_in(2) {
                continue;
            }
            let mut row = format!("variant = \"{variant}\"\ncuda = \"{cuda}\"\n");
            if !random.one_in(6) {
                let _ = writeln!(
                    row,
                    "cudnn = \"{}\"\nnccl = \"2.{}.1\"",
                    random.pick(cudnn),
                    18 + random.below(3)
                );
            }
            if !random.one_in(8) {
                let quoted =
                    |list: Vec<&str>| list.iter().map(|t| format!("\"{t}\"")).collect::<Vec<_>>().join(", ");
                let sass = random.some(makeable);
                let ptx = if random.one_in(3) { vec![random.pick(makeable)] } else { Vec::new() };
                let _ = writeln!(row, "targets = [{}]", quoted(sass));
                if !ptx.is_empty() {
                    let _ = writeln!(row, "ptx = [{}]", quoted(ptx));
                }
                row.push_str("targets_evidence = \"measured\"\n");
            }
            let index = if !on_pypi && random.one_in(2) {
                on_pypi = true;
                "pypi"
            } else {
                "pytorch"
            };
            push_row(random, rows.entry(version).or_default(), version, index, &row);
        }
        if !rows.contains_key(version) {
            push_row(random, rows.entry(version).or_default(), version, "pytorch", "variant = \"cpu\"\n");
        }
    }
    let mut by_series: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    for (version, text) in rows {
        by_series.entry(version.rsplit_once('.').unwrap().0.to_owned()).or_default().push_str(&text);
    }
    for (series, text) in by_series {
        files.push(RegistryFile { path: format!("torch/{series}.toml").into(), text: text.into() });
    }
    let mut companions = String::new();
    for vision in VISION {
        if random.one_in(2) {
            continue;
        }
        let torch = random.pick(&versions);
        let specifier = match random.below(3) {
            0 => format!("=={torch}"),
            1 => format!(">={torch}"),
            _ => format!("<={torch}"),
        };
        let _ = write!(
            companions,
            "[[companion]]\npackage = \"torchvision\"\nversion = \"{vision}\"\ntorch = \"{specifier}\"\n"
        );
        if random.one_in(2) {
            let (variant, _, makeable, _) = FLAVOURS[random.below(4)];
            let _ = writeln!(companions, "variant = \"{variant}\"");
            if random.one_in(3) {
                let sass: Vec<String> = random.some(makeable).iter().map(|t| format!("\"{t}\"")).collect();
                let _ = writeln!(companions, "targets = [{}]", sass.join(", "));
            }
        }
        companions
            .push_str("platform = \"linux-x86_64\"\nevidence = \"measured\"\nsource = [\"pypi-files\"]\n\n");
    }
    if companions.is_empty() {
        companions.push_str("companion = []\n");
    }
    files.push(RegistryFile { path: "companions.toml".into(), text: companions.into() });
    Registry::from_files(files).unwrap_or_else(|problems| panic!("{}", problems[0]))
}

/// The same registry with the rows of every file in another order.
pub fn shuffled(random: &mut Random, registry: &Registry) -> Registry {
    let mut files = registry.files().to_vec();
    for file in &mut files {
        // A row is everything from its `[[` to the next; what stands above the first stays there.
        let mut starts: Vec<usize> = file.text.match_indices("\n[[").map(|(at, _)| at + 1).collect();
        if file.text.starts_with("[[") {
            starts.insert(0, 0);
        }
        let Some(first) = starts.first().copied() else { continue };
        let ends = starts.iter().skip(1).copied().chain([file.text.len()]);
        let mut rows: Vec<&str> =
            starts.iter().zip(ends).map(|(start, end)| file.text[*start..end].trim_end()).collect();
        for last in (1..rows.len()).rev() {
            rows.swap(last, random.below(last + 1));
        }
        file.text = format!("{}{}\n", &file.text[..first], rows.join("\n\n")).into();
    }
    Registry::from_files(files).unwrap_or_else(|problems| panic!("{}", problems[0]))
}

fn push_row(random: &mut Random, out: &mut String, version: &str, index: &str, row: &str) {
    let _ = write!(
        out,
        "[[build]]\nversion = \"{version}\"\nplatform = \"linux-x86_64\"\nindex = \"{index}\"\n{row}"
    );
    if !random.one_in(6) {
        let pythons: Vec<String> = random.some(&PYTHONS).iter().map(|p| format!("\"{p}\"")).collect();
        let _ = writeln!(out, "python = [{}]", pythons.join(", "));
    }
    if random.one_in(3) {
        let _ =
            writeln!(out, "requires_python = \"{}\"", random.pick(&[">=3.9", ">=3.10", "<3.12", ">=3.9.1"]));
    }
    if random.one_in(2) {
        let _ = writeln!(out, "glibc = \"{}\"", random.pick(&["2.17", "2.28", "2.35"]));
    }
    if random.one_in(2) {
        let _ = writeln!(out, "torchvision = \"{}\"", random.pick(&VISION));
    }
    out.push_str("evidence = \"measured\"\nsource = [\"pypi-files\"]\n\n");
}

pub fn driver(version: &str) -> Driver {
    Driver { version: version.parse().unwrap(), cuda: None, compat: None, found_by: "proof".into() }
}

pub fn gpu(index: usize, capability: &str) -> Gpu {
    Gpu {
        index: index as u32,
        name: None,
        capability: Some(capability.parse().unwrap()),
        memory_mib: None,
        uuid: None,
        pci_id: None,
        found_by: "proof".into(),
    }
}

pub fn host(random: &mut Random) -> Host {
    let mut host = Host::open(Platform::LINUX_X86_64, "proof");
    if !random.one_in(4) {
        host.driver = Some(driver(random.pick(&DRIVERS)));
    }
    let count = [0, 1, 1, 1, 2, 3][random.below(6)];
    if count > 0 || random.one_in(2) {
        host.gpus = Some((0..count).map(|i| gpu(i, random.pick(&GPUS))).collect());
    }
    if random.one_in(2) {
        host.system.libc = Some(Libc::Glibc(random.pick(&["2.17", "2.28", "2.39"]).parse().unwrap()));
    }
    host
}

pub fn requirement(text: &str) -> UserRequirement {
    UserRequirement::new(text.parse().unwrap(), "proof".into())
}

fn limit<T: std::str::FromStr>(text: &str) -> Option<Limit<T>> {
    Some(Limit { value: text.parse().ok().unwrap(), origin: "proof".into() })
}

fn specifier(random: &mut Random, versions: &[&str]) -> String {
    match random.below(6) {
        0 => format!("=={}", random.pick(versions)),
        1 => format!(">={}", random.pick(versions)),
        2 => format!("<{}", random.pick(versions)),
        3 => format!("!={}", random.pick(versions)),
        _ => String::new(),
    }
}

pub fn request(random: &mut Random) -> Request {
    let mut request = Request::default();
    if !random.one_in(4) {
        request.requirements.push(requirement(&format!("torch{}", specifier(random, &TORCH))));
    }
    if random.one_in(2) || request.requirements.is_empty() {
        request.requirements.push(requirement(&format!("torchvision{}", specifier(random, &VISION))));
    }
    if random.one_in(6) {
        request.constraints.push(requirement(&format!("torch{}", specifier(random, &TORCH))));
    }
    if random.one_in(3) {
        let text = random.pick(&["3.9", "3.10", "3.12", ">=3.10", "<3.11", ">=3.9,<3.12"]);
        request.python = Some(python(text));
    }
    if random.one_in(6) {
        request.cuda = limit(random.pick(&["12", "12.1", ">=12.1", "<12", ">=11.8,<13"]));
    }
    if random.one_in(8) {
        request.cudnn = limit(random.pick(&["8", ">=9", "9.1", "<9.11"]));
    }
    if random.one_in(10) {
        request.nccl = limit(random.pick(&[">=2.19", "2.18"]));
    }
    if random.one_in(6) {
        let value = random.pick(&["cu118", "cu121", "cu130", "cpu"]).to_owned();
        request.variant = Some(Limit { value, origin: "proof".into() });
    }
    if random.one_in(5) {
        let value = random.pick(&["pypi", "pytorch", "pypi,conda-forge"]).parse().unwrap();
        request.only_index = Some(Limit { value, origin: "proof".into() });
    }
    if random.one_in(6) {
        request.native_driver_only = Some(Limit { value: (), origin: "proof".into() });
    }
    request
}

fn python(text: &str) -> envlock::model::request::PythonRequest {
    use envlock::model::request::{PythonAllowed, PythonRequest};
    let allowed = match text.parse() {
        Ok(range) if !text.starts_with('3') => PythonAllowed::Range(range),
        _ => PythonAllowed::Exact(text.parse().unwrap()),
    };
    PythonRequest { allowed, text: text.to_owned(), origin: "proof".into() }
}
