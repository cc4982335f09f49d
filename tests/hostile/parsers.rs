//! What comes from outside, broken in every way that chance finds: no parser may panic, hang or take memory beyond
//! its limits. The seeds are the files of `corpus/`, and libraries built by gcc where there is one; each round
//! changes some bytes of one. A run takes some seconds; `ENVLOCK_FUZZ_SECONDS=600` makes a longer one. An input that
//! breaks something goes into the corpus.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use envlock::inspect::{self, Detail};
use envlock::model::metadata::CoreMetadata;
use envlock::registry::{Registry, RegistryFile};

/// How many inputs are tried at least.
fn least() -> usize {
    std::env::var("ENVLOCK_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// How long each parser is tried.
fn limit() -> Duration {
    let seconds = std::env::var("ENVLOCK_FUZZ_SECONDS").ok().and_then(|t| t.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// No single input may take longer, on a machine that does other things too.
const ONE: Duration = Duration::from_secs(20);

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// A seed with some bytes changed, cut, doubled or moved.
    fn broken(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut out = seed.to_vec();
        for _ in 0..1 + self.below(6) {
            if out.is_empty() {
                return out;
            }
            let at = self.below(out.len());
            match self.below(8) {
                0 => out[at] = self.below(256) as u8,
                1 => out[at] ^= 1 << self.below(8),
                2 => out.truncate(at),
                3 => {
                    let end = (at + 1 + self.below(64)).min(out.len());
                    let piece = out[at..end].to_vec();
                    let to = self.below(out.len());
                    out.splice(to..to, piece);
                }
                4 => {
                    let end = (at + 1 + self.below(64)).min(out.len());
                    out.drain(at..end);
                }
                // Numbers that overflow what is added to them.
                kind => {
                    let width = [1, 2, 4, 8][self.below(4)].min(out.len() - at);
                    let value: u64 = [u64::MAX, 0, i64::MAX as u64, 1 << 31, out.len() as u64][self.below(5)];
                    let bytes = if kind == 5 { value.to_le_bytes() } else { value.to_be_bytes() };
                    out[at..at + width].copy_from_slice(&bytes[..width]);
                }
            }
        }
        out
    }
}

fn corpus(kind: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/corpus");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let of_kind = files.into_iter().filter(|f| f.file_name().unwrap().to_str().unwrap().starts_with(kind));
    of_kind.map(|file| std::fs::read(file).unwrap()).collect()
}

/// Tries a parser on every seed and on broken ones, until the time is up.
fn try_on(kind: &str, seeds: Vec<Vec<u8>>, parse: impl Fn(&[u8])) {
    assert!(!seeds.is_empty(), "no seeds of {kind}");
    seeds.iter().for_each(|seed| parse(seed));
    let start = Instant::now();
    let mut random = Random(0xe1f);
    let mut rounds = 0;
    // On a busy machine the time is up early; some rounds are run all the same.
    while start.elapsed() < limit() || rounds < least() {
        let seed = random.below(seeds.len());
        let input = random.broken(&seeds[seed]);
        let before = Instant::now();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| parse(&input)));
        if outcome.is_err() || before.elapsed() > ONE {
            let kept = std::env::temp_dir().join(format!("envlock-{kind}-{rounds}"));
            std::fs::write(&kept, &input).unwrap();
            panic!("{kind}: an input that breaks it is in {}; add it to the corpus", kept.display());
        }
        rounds += 1;
    }
    println!("{kind}: {rounds} inputs in {} s", start.elapsed().as_secs());
}

/// A library with device code, sections and symbols, built here.
fn built_library() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("l.c");
    std::fs::write(
        &source,
        "const unsigned cudnn_graph_version = 0x00090a02; const char list[] = \"sm_80 sm_90a compute_90\";\n\
         __attribute__((section(\".nv_fatbin\"), used)) static const unsigned char code[] = {\n\
         0x50,0xed,0x55,0xba,1,0,16,0, 72,0,0,0,0,0,0,0,\n\
         2,0,1,1, 64,0,0,0, 8,0,0,0,0,0,0,0, 0,0,0,0, 0,0,0,0, 7,0,1,0, 80,0,0,0, 0,0,0,0, 0,0,0,0,\n\
         0x11,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0, 1,2,3,4,5,6,7,8};\n",
    )
    .unwrap();
    let out = folder.path().join("libcudnn_graph.so.9");
    let flags =
        ["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libcudnn_graph.so.9", "-Wl,-rpath,$ORIGIN/x:$ORIGIN"];
    let built = std::process::Command::new("gcc").args(flags).arg("-o").arg(&out).arg(&source).status();
    built.is_ok_and(|status| status.success()).then(|| std::fs::read(&out).unwrap())
}

#[test]
fn libraries() {
    let mut seeds = corpus("elf");
    seeds.extend(built_library());
    try_on("elf", seeds, |bytes| {
        for name in ["libcudnn_graph.so.9", "libtorch_python.so", "libcudart.so.12"] {
            let _ = inspect::library_of_bytes(bytes, name, Detail::All);
        }
    });
}

#[test]
fn device_code() {
    let whole = inspect::device_code(&corpus("fatbin-many").concat());
    assert_eq!((whole.containers, whole.fault), (4, None), "the seed is what it seems");
    try_on("fatbin", corpus("fatbin"), |bytes| drop(inspect::device_code(bytes)));
}

#[test]
fn versions_of_symbols() {
    let seeds = corpus("elf-versions");
    let (needed, defined) = inspect::symbol_versions_of_bytes(&seeds[0]).unwrap();
    assert!(needed.iter().any(|(file, names)| file == "libc.so.6" && !names.is_empty()), "{needed:?}");
    assert_eq!(defined[1..], ["A_1.0", "A_1.1"]);
    try_on("versions", seeds, |bytes| drop(inspect::symbol_versions_of_bytes(bytes)));
}

#[test]
fn metadata() {
    try_on("metadata", corpus("metadata"), |bytes| {
        let _ = CoreMetadata::parse(&String::from_utf8_lossy(bytes), "x".to_owned());
    });
}

#[test]
fn locks() {
    try_on("lock", corpus("lock"), |bytes| {
        let _ = envlock::lockfile::parse(&String::from_utf8_lossy(bytes));
    });
}

/// Requirements as packages and people write them.
#[test]
fn requirements() {
    try_on("requirement", corpus("requirement"), |bytes| {
        for line in String::from_utf8_lossy(bytes).lines() {
            let _ = envlock::model::requirement::parse_requirement(line);
        }
    });
}

/// Addresses, repositories and folders that are asked for.
#[test]
fn direct_references() {
    use envlock::model::request::{Origin, UserRequirement};
    try_on("direct", corpus("direct"), |bytes| {
        for line in String::from_utf8_lossy(bytes).lines() {
            let _ = envlock::model::direct::Direct::parse(line);
            let _ = UserRequirement::parse(line, Origin::CommandLine);
        }
    });
}

/// Pages of an index, as HTML and as JSON.
#[test]
fn pages_of_an_index() {
    let page = url::Url::parse("https://index.example/simple/torch/").unwrap();
    for (kind, content_type) in
        [("page-html", "text/html"), ("page-json", "application/vnd.pypi.simple.v1+json")]
    {
        try_on(kind, corpus(kind), |bytes| {
            let _ = envlock::index::files_of_page(bytes, content_type, &page);
        });
    }
}

/// Logs, with bytes of every encoding.
#[test]
fn logs() {
    use envlock::diagnose::{DiagnoseContext, Matcher, Reader, decoded, judge};
    use std::io::BufRead as _;
    let registry = Registry::embedded();
    let matcher = Matcher::new(&registry);
    try_on("log", corpus("log"), |bytes| {
        let Ok(text) = decoded(std::io::Cursor::new(bytes.to_vec())) else { return };
        let mut reader = Reader::new(&matcher);
        text.split(b'\n').map_while(Result::ok).for_each(|line| reader.line(&line));
        let around =
            DiagnoseContext { host: None, findings: &[], pytorch_index: "https://wheels.example/whl" };
        judge(reader.finish(), around, &registry);
    });
}

/// Source distributions: the archive, and the texts in it.
#[test]
fn source_distributions() {
    let archive = |path: &str, text: &[u8]| {
        let packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut tar = tar::Builder::new(packed);
        for (name, bytes) in
            [(path, text), ("PKG-INFO", b"Metadata-Version: 2.1\nName: a\nVersion: 1.0\n".as_slice())]
        {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append_data(&mut header, format!("a-1.0/{name}"), bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    };
    let read = |bytes: &[u8]| {
        if let Ok(tree) = envlock::sdist::read_archive(std::io::Cursor::new(bytes), "a-1.0.tar.gz") {
            let _ = tree.metadata();
        }
    };
    try_on(
        "sdist archive",
        vec![archive("setup.py", b"from setuptools import setup\nsetup(name='a')\n")],
        read,
    );
    for (kind, path) in [
        ("sdist-setup", "setup.py"),
        ("sdist-pyproject", "pyproject.toml"),
        ("sdist-requires", "a.egg-info/requires.txt"),
        ("sdist-pkginfo", "a.egg-info/PKG-INFO"),
    ] {
        try_on(kind, corpus(kind), |bytes| read(&archive(path, bytes)));
    }
}

/// Locks of other tools.
#[test]
fn foreign_locks() {
    use envlock::formats::{ForeignLock, Tool};
    use envlock::model::platform::Platform;
    let tools = [
        ("foreign-uv", Tool::Uv),
        ("foreign-pylock", Tool::Pylock),
        ("foreign-pixi", Tool::Pixi),
        ("foreign-conda", Tool::CondaLock),
        ("foreign-requirements", Tool::Requirements),
    ];
    for (kind, tool) in tools {
        try_on(kind, corpus(kind), |bytes| {
            if let Ok(lock) = ForeignLock::parse(tool, &String::from_utf8_lossy(bytes)) {
                lock.environments(Platform::LINUX_X86_64, None);
            }
        });
    }
}

#[test]
fn host_files() {
    try_on("host", corpus("host"), |bytes| {
        let _ = envlock::probe::host_file::parse(&String::from_utf8_lossy(bytes), "host.toml");
    });
}

#[test]
fn records() {
    let folder = tempfile::tempdir().unwrap();
    let info = folder.path().join("lib/python3.12/site-packages/a-1.0.dist-info");
    std::fs::create_dir_all(&info).unwrap();
    try_on("record", corpus("record"), |bytes| {
        std::fs::write(info.join("RECORD"), bytes).unwrap();
        let _ = inspect::read(&inspect::ThisMachine, folder.path(), inspect::Depth::Hashes);
    });
}

#[test]
fn caches_of_the_loader() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("etc")).unwrap();
    let around = inspect::loader::Surroundings { root: folder.path().to_path_buf(), ..Default::default() };
    let Some(library) = built_library() else { return };
    let program = folder.path().join("program");
    std::fs::write(&program, library).unwrap();
    try_on("ldcache", corpus("ldcache"), |bytes| {
        std::fs::write(folder.path().join("etc/ld.so.cache"), bytes).unwrap();
        let _ = inspect::loader::Loader::start(&program, &around);
    });
}

#[test]
fn wheels() {
    try_on("wheel", corpus("wheel"), |bytes| {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        if let Ok(mut archive) = inspect::open_wheel(file) {
            let _ = inspect::wheel(&mut archive, &|_| true, Detail::All, &mut |_, _| {});
        }
    });
}

#[test]
fn registries() {
    let files = Registry::embedded().files().to_vec();
    // Every file but those of torch's series, which are alike.
    let is_tried = |file: &RegistryFile| !file.path.starts_with("torch/") || file.path == "torch/2.9.toml";
    let small: Vec<RegistryFile> = files.into_iter().filter(is_tried).collect();
    let head = |file: &RegistryFile| format!("# {}\n{}", file.path, file.text).into_bytes();
    let seeds: Vec<Vec<u8>> = small.iter().map(head).collect();
    let bad = "[[same_file]]\nevidence = \"measured\"\nfile = \"a\"\npackages = [\"faiss- >=1\", \"b[c- ]\"]\nsource = [\"x\"]\n";
    let seeds = seeds.into_iter().chain([format!("# loading.toml\n{bad}").into_bytes()]).collect();
    try_on("registry", seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        // Rows are read before what is missing of the others is told.
        let Some(changed) = small.iter().find(|file| first == format!("# {}", file.path)) else { return };
        let is_head = |file: &&RegistryFile| file.path == "registry.toml" && file.path != changed.path;
        let mut files: Vec<RegistryFile> = small.iter().filter(is_head).cloned().collect();
        files.push(RegistryFile { path: changed.path.clone(), text: rest.to_owned().into() });
        let _ = Registry::from_files(files);
    });
}

/// Says nothing.
struct Silent;

impl envlock::image::Progress for Silent {
    fn layer(&self, _: usize, _: usize, _: u64) {}
    fn read(&self, _: u64) {}
}

/// A tar archive of these files; the names are as hostile as their lengths allow.
fn archive(files: &[(&str, tar::EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind, link, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Makes the checksums of all headers right again: what is behind them is to be tried.
fn with_checksums(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

fn digest(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(bytes))
}

#[test]
fn layers_of_images() {
    use tar::EntryType::{Directory, GNULongName, Link, Regular, Symlink, XHeader};
    let site = "v/lib/python3.12/site-packages";
    let library = built_library().unwrap_or_default();
    let seed = archive(&[
        ("v/bin", Directory, "", b""),
        ("v/bin/python", Symlink, "../../usr/bin/python3", b""),
        ("x", XHeader, "", b"30 path=v/lib/python3.12/site.py\n18 size=000000004\n"),
        ("y", Regular, "", b"abcd"),
        ("z", GNULongName, "", b"v/lib/python3.12/site-packages/a-1.0.dist-info/METADATA\0"),
        ("a", Regular, "", b"Metadata-Version: 2.1\nName: a\nVersion: 1.0\n"),
        ("v/lib/python3.12/site-packages/libx.so", Regular, "", &library),
        ("hard.so", Link, "v/lib/python3.12/site-packages/libx.so", b""),
        ("v/.wh.bin", Regular, "", b""),
        ("v/lib/.wh..wh..opq", Regular, "", b""),
        ("loop", Symlink, "loop/loop", b""),
        ("loop/x", Regular, "", b""),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image.tar");
    try_on("layer", vec![seed], |bytes| {
        let mut layer = bytes.to_vec();
        with_checksums(&mut layer);
        let config = format!(
            "{{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{{\"diff_ids\":[\"sha256:{}\"]}}}}",
            digest(&layer)
        );
        let name = format!("{}.json", digest(config.as_bytes()));
        let manifest = format!("[{{\"Config\":\"{name}\",\"RepoTags\":null,\"Layers\":[\"l\"]}}]");
        let saved = archive(&[
            ("l", Regular, "", &layer),
            (&name, Regular, "", config.as_bytes()),
            ("manifest.json", Regular, "", manifest.as_bytes()),
        ]);
        std::fs::write(&path, saved).unwrap();
        if let Ok(image) = envlock::image::read(&path, &envlock::image::Choice::default(), &Silent) {
            inspect::environments(&image.tree);
            let _ = inspect::read(&image.tree, Path::new("/v"), inspect::Depth::Sizes);
            let library = Path::new("/").join(site).join("libx.so");
            let _ = inspect::library(&image.tree, &library, Detail::All);
        }
    });
}

#[test]
fn documents_of_images() {
    use tar::EntryType::Regular;
    let config = b"{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":[\"A=b\"],\"WorkingDir\":\"/w\"},\"rootfs\":{\"diff_ids\":[]}}";
    let name = format!("{}.json", digest(config));
    let manifest = format!("[{{\"Config\":\"{name}\",\"RepoTags\":[\"a:1\"],\"Layers\":[]}}]");
    let index = format!(
        "{{\"schemaVersion\":2,\"manifests\":[{{\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"digest\":\"sha256:{}\",\"platform\":{{\"architecture\":\"amd64\",\"os\":\"linux\"}}}}]}}",
        digest(config)
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image.tar");
    let seeds = vec![
        archive(&[(&name, Regular, "", config), ("manifest.json", Regular, "", manifest.as_bytes())]),
        archive(&[("index.json", Regular, "", index.as_bytes())]),
    ];
    try_on("image", seeds, |bytes| {
        let mut bytes = bytes.to_vec();
        with_checksums(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let _ = envlock::image::read(&path, &envlock::image::Choice::default(), &Silent);
    });
}
