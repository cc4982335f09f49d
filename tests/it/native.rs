//! `verify` and `inspect` on real ELF files: a small torch environment built by gcc, and what can go wrong in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::Digest;

use super::common::installed::base64;
use super::context::{Run, TestContext, skipped};

/// Device code: one container for each list, `2` machine code or `1` PTX (ISA 8.7), with targets as fatbins
/// write them.
pub fn fatbin(containers: &[&[(u16, u32)]]) -> Vec<u8> {
    let mut out = Vec::new();
    for entries in containers {
        let mut body = Vec::new();
        for (kind, target) in *entries {
            let mut entry = vec![0; 72];
            entry[..2].copy_from_slice(&kind.to_le_bytes());
            entry[4] = 64;
            entry[8] = 8;
            entry[24] = 7;
            entry[26] = 8;
            entry[28..32].copy_from_slice(&target.to_le_bytes());
            entry[40] = 0x11;
            body.extend(entry);
        }
        out.extend([0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
    }
    out
}

/// How a library is built.
#[derive(Default)]
pub struct Build<'a> {
    pub needs: &'a [&'a str],
    /// Linker flags: `-rpath,...`.
    pub rpath: Option<&'a str>,
    pub runpath: Option<&'a str>,
    pub code: &'a [&'a [(u16, u32)]],
    pub source: &'a str,
    /// Another name than the file's.
    pub soname: Option<&'a str>,
}

/// An environment with a torch of machine code for 8.0 and 9.0, cuDNN 9.10.2 and what they need.
pub struct Environment {
    pub context: TestContext,
    pub site: PathBuf,
    prefix: String,
    build: tempfile::TempDir,
}

const CUDNN: [&str; 8] = [
    "libcudnn.so.9",
    "libcudnn_graph.so.9",
    "libcudnn_ops.so.9",
    "libcudnn_cnn.so.9",
    "libcudnn_adv.so.9",
    "libcudnn_heuristic.so.9",
    "libcudnn_engines_precompiled.so.9",
    "libcudnn_engines_runtime_compiled.so.9",
];
/// `major << 16 | minor << 8 | patch`, 9.10.2.
const GRAPH: &str = "const unsigned cudnn_graph_version = 0x00090a02;";
const RPATH: &str = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cuda_runtime/lib:\
                     $ORIGIN/../../nvidia/cusparse/lib:$ORIGIN";

impl Environment {
    /// Nothing where there is no gcc.
    pub fn new() -> Option<Environment> {
        if !Command::new("gcc").arg("--version").output().is_ok_and(|o| o.status.success()) {
            skipped("no gcc here");
            return None;
        }
        let context = TestContext::new();
        let prefix = context.dir.path().join("env");
        let site = prefix.join("lib/python3.12/site-packages");
        std::fs::create_dir_all(&site).unwrap();
        let env = Environment {
            context,
            site,
            prefix: prefix.display().to_string(),
            build: tempfile::tempdir().unwrap(),
        };
        env.library("../../../bin/python", &Build::default());
        let own: &[(u16, u32)] = &[(2, 80), (2, 90)];
        let torch = Build { rpath: Some(RPATH), ..Build::default() };
        env.library(
            "torch/lib/libc10.so",
            &Build { source: "int _ZN3c105known4callEv(void) { return 1; }", ..torch },
        );
        env.library("torch/lib/libtorch_global_deps.so", &Build { needs: &["libcudart.so.12"], ..torch });
        let needs = &["libc10.so", "libcudnn.so.9", "libcusparse.so.12", "libcudart.so.12"];
        env.library("torch/lib/libtorch_cuda.so", &Build { needs, code: &[own, own, &[(2, 89)]], ..torch });
        env.library("torch/lib/libtorch_cuda_linalg.so", &Build { code: &[own; 12], ..torch });
        let source = "const char list[] = \"sm_80 sm_90\";";
        env.library("torch/lib/libtorch_python.so", &Build { needs: &["libtorch_cuda.so"], source, ..torch });
        env.library(
            "torch/_C.cpython-312-x86_64-linux-gnu.so",
            &Build { needs: &["libtorch_python.so"], rpath: Some("$ORIGIN/lib"), ..Build::default() },
        );
        env.put("torch/version.py", "__version__ = '2.9.1+cu128'\n");
        env.record("torch", "2.9.1", &[]);
        for name in CUDNN {
            let source = if name == "libcudnn_graph.so.9" { GRAPH } else { "int x;" };
            let path = format!("nvidia/cudnn/lib/{name}");
            env.library(&path, &Build { runpath: Some("$ORIGIN"), source, ..Build::default() });
        }
        env.record("nvidia-cudnn-cu12", "9.10.2.21", &[]);
        let runpath = Some("$ORIGIN/../../nvjitlink/lib");
        let needs = &["libnvJitLink.so.12"];
        env.library("nvidia/cusparse/lib/libcusparse.so.12", &Build { needs, runpath, ..Build::default() });
        env.record("nvidia-cusparse-cu12", "12.5.8.93", &[]);
        env.library("nvidia/nvjitlink/lib/libnvJitLink.so.12", &Build::default());
        env.record("nvidia-nvjitlink-cu12", "12.8.93", &[]);
        env.library("nvidia/cuda_runtime/lib/libcudart.so.12", &Build::default());
        env.record("nvidia-cuda-runtime-cu12", "12.8.90", &[]);
        Some(env)
    }

    /// Builds a library at a path below site-packages, or at an absolute one.
    pub fn library(&self, path: &str, how: &Build<'_>) -> PathBuf {
        let full = self.site.join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        let folder = self.build.path();
        let mut source = how.source.to_owned();
        if !how.code.is_empty() {
            let bytes: Vec<String> = fatbin(how.code).iter().map(ToString::to_string).collect();
            source.push_str(&format!(
                "\n__attribute__((section(\".nv_fatbin\"), used)) static const unsigned char code[] = {{{}}};\n",
                bytes.join(",")
            ));
        }
        std::fs::write(folder.join("l.c"), format!("{source}\n")).unwrap();
        let stubs = folder.join("stubs");
        std::fs::create_dir_all(&stubs).unwrap();
        let name = how.soname.unwrap_or_else(|| path.rsplit('/').next().unwrap());
        let mut arguments: Vec<String> = ["-shared", "-fPIC", "-nostdlib", "-o"].map(str::to_owned).to_vec();
        arguments.extend([full.display().to_string(), folder.join("l.c").display().to_string()]);
        arguments.extend([format!("-Wl,-soname,{name}"), format!("-L{}", stubs.display())]);
        arguments.extend(["-Wl,--no-as-needed".to_owned(), "-Wl,--allow-shlib-undefined".to_owned()]);
        for need in how.needs {
            let stub = stubs.join(need);
            if !stub.exists() {
                let soname = format!("-Wl,-soname,{need}");
                let out = stub.display().to_string();
                gcc(&["-shared", "-nostdlib", "-o", &out, "-x", "c", "/dev/null", &soname]);
            }
            arguments.push(format!("-l:{need}"));
        }
        for (paths, kind) in [(how.rpath, "disable"), (how.runpath, "enable")] {
            if let Some(paths) = paths {
                arguments.push(format!("-Wl,-rpath,{paths},--{kind}-new-dtags"));
            }
        }
        gcc(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        full
    }

    pub fn put(&self, path: &str, text: &str) {
        let full = self.site.join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    }

    /// Writes a package's dist-info: it owns what lies in its folders and nobody else records.
    pub fn record(&self, name: &str, version: &str, needs: &[&str]) {
        let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
        let needs: String = needs.iter().map(|n| format!("Requires-Dist: {n}\n")).collect();
        self.put(
            &format!("{info}/METADATA"),
            &format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"),
        );
        self.put(&format!("{info}/INSTALLER"), "pip\n");
        let mut record = format!("{info}/RECORD,,\n");
        let folder = match name.strip_prefix("nvidia-") {
            Some(part) => {
                format!("nvidia/{}", part.rsplit_once("-cu").map_or(part, |(p, _)| p).replace('-', "_"))
            }
            None => name.replace('-', "_"),
        };
        for file in
            files_below(&self.site.join(folder)).into_iter().chain([self.site.join(&info).join("METADATA")])
        {
            let bytes = std::fs::read(&file).unwrap();
            let path = file.strip_prefix(&self.site).unwrap().display().to_string();
            record.push_str(&format!(
                "{path},sha256={},{}\n",
                base64(&sha2::Sha256::digest(&bytes)),
                bytes.len()
            ));
        }
        self.put(&format!("{info}/RECORD"), &record);
    }

    pub fn verify(&self, rest: &[&str]) -> Run {
        let mut arguments = vec!["verify", "--prefix", &self.prefix, "--smoke", "off"];
        arguments.extend(rest);
        self.context.run(&arguments)
    }

    /// The codes of what is wrong: infos left out.
    pub fn codes(&self, rest: &[&str]) -> Vec<String> {
        let json = self.verify(&[&["--json"], rest].concat()).json();
        let findings = json["findings"].as_array().unwrap().iter();
        findings.filter(|f| f["severity"] != "info").map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    }

    pub fn host(&self, capability: &str, driver: &str) -> String {
        let text = format!(
            "schema = 1\n[driver]\nversion = \"{driver}\"\n[[gpu]]\ncompute_capability = \"{capability}\"\n"
        );
        self.context.write("host.toml", &text).display().to_string()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.context.dir.path().join(name)
    }
}

pub fn gcc(arguments: &[&str]) {
    let out = Command::new("gcc").args(arguments).output().unwrap();
    assert!(out.status.success(), "gcc {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { out.push(path) }
        }
    }
    out.sort();
    out
}

#[test]
fn a_healthy_environment() {
    let Some(env) = Environment::new() else { return };
    env.verify(&[]).expect(0);
    let host = env.host("9.0", "580.159.04");
    let run = env.verify(&["--host", &host]).expect(0);
    insta::assert_snapshot!("native_healthy", run.shown().replace(&static_part(&run.stdout), "[TIME]"));
    assert_eq!(env.codes(&["--host", &host]), [""; 0]);
}

/// The last line's figures.
fn static_part(text: &str) -> String {
    text.lines().find(|l| l.starts_with("clean, ")).unwrap_or_default().to_owned()
}

/// As a person sees it; each fault by its code is in tests/fixtures/prefixes.
#[test]
fn a_shadowed_part_of_cudnn() {
    let Some(mut env) = Environment::new() else { return };
    let alien = env.folder("alien/libcudnn_graph.so.9").display().to_string();
    let source = "const unsigned cudnn_graph_version = 0x00090501;";
    env.library(&alien, &Build { source, ..Build::default() });
    let folder = env.folder("alien").display().to_string();
    env.context.set("LD_LIBRARY_PATH", &folder);
    let host = env.host("9.0", "580.159.04");
    insta::assert_snapshot!("native_shadowed", env.verify(&["--host", &host]).flat());
}

/// Each part alone, and all together, of an older release; what failed was seen on a GPU (docs/gpu-runs.md).
#[test]
fn what_parts_of_another_cudnn_make_fail() {
    const ALL: [&str; 7] =
        ["adv", "cnn", "engines_precompiled", "engines_runtime_compiled", "graph", "heuristic", "ops"];
    let seen = "convolutions, batch normalization, recurrent layers and CTC loss would fail";
    let refused = "recurrent layers would fail: torch refuses a cuDNN older";
    let table: [(&[&str], Option<&str>); 8] = [
        (&["adv"], Some("recurrent layers and CTC loss would fail")),
        (&["cnn"], None),
        (&["engines_precompiled"], Some(seen)),
        (&["engines_runtime_compiled"], Some("convolutions and fused attention would fail")),
        (&["heuristic"], Some(seen)),
        (&["ops"], Some("recurrent layers, CTC loss and batch normalization would fail")),
        (&["graph", "engines_precompiled", "engines_runtime_compiled", "heuristic"], Some("would fail")),
        (&ALL, Some(refused)),
    ];
    for (parts, effect) in table {
        let Some(mut env) = Environment::new() else { return };
        for part in parts {
            let name = format!("libcudnn_{part}.so.9");
            let file = env.folder(&format!("alien/{name}.8.0")).display().to_string();
            let source =
                if *part == "graph" { "const unsigned cudnn_graph_version = 0x00090800;" } else { "int x;" };
            env.library(&file, &Build { source, soname: Some(&name), ..Build::default() });
            #[cfg(unix)]
            std::os::unix::fs::symlink(&file, env.folder(&format!("alien/{name}"))).unwrap();
        }
        let folder = env.folder("alien").display().to_string();
        env.context.set("LD_LIBRARY_PATH", &folder);
        let host = env.host("9.0", "580.159.04");
        let shown = env.verify(&["--host", &host]).flat();
        let found = shown.matches("[shadowed-library]").count();
        assert_eq!(found, 1, "{parts:?}: {shown}");
        match effect {
            Some(effect) => assert!(
                shown.contains("error[shadowed-library]") && shown.contains(effect),
                "{parts:?}: {shown}"
            ),
            None => assert!(shown.contains("warning[shadowed-library]"), "{parts:?}: {shown}"),
        }
    }
}

#[test]
fn extensions_that_nobody_imports_are_no_fault() {
    let Some(env) = Environment::new() else { return };
    // As bitsandbytes and torio do: one library for each CUDA and FFmpeg, of which one is opened.
    env.library("bnb/libbnb_cuda118.so", &Build { needs: &["libcudart.so.11.0"], ..Build::default() });
    env.library("bnb/_ffmpeg6.so", &Build { needs: &["libavutil.so.58"], ..Build::default() });
    // And as extensions do that name a library beside them.
    let helper = env.library("bnb/libhelper.so", &Build::default());
    env.library(
        "bnb/_ext.so",
        &Build { needs: &["libhelper.so"], rpath: Some("${ORIGIN}"), ..Build::default() },
    );
    assert!(helper.exists());
    env.record("bnb", "1.0", &["torch"]);
    let host = env.host("9.0", "580.159.04");
    assert_eq!(env.codes(&["--host", &host]), [""; 0]);
    let told = env.verify(&["--host", &host]).expect(0).flat();
    assert!(
        told.contains("optional parts of bnb need libraries that are not installed: libavutil.so.58"),
        "{told}"
    );
    assert!(!told.contains("libhelper") && !told.contains("cuda118"), "{told}");
}

/// torchaudio loads its own libraries in `__init__`, where the loader would not find them; torch_c_dlpack_ext brings one
/// library for each release of torch and chooses.
#[test]
fn what_a_package_loads_itself_is_no_fault() {
    let Some(env) = Environment::new() else { return };
    env.library("torchaudio/lib/libtorchaudio.so", &Build::default());
    let extension = Build { needs: &["libtorchaudio.so"], ..Build::default() };
    env.library("torchaudio/lib/_torchaudio.so", &extension);
    env.record("torchaudio", "2.6.0", &["torch"]);
    let foreign = Build {
        needs: &["libc10.so"],
        source: "extern int _ZN3c104gone4callEv(void); int use(void) { return _ZN3c104gone4callEv(); }",
        ..Build::default()
    };
    for torch in ["24", "25", "26", "27"] {
        env.library(&format!("dlpack/libdlpack_addon_torch{torch}-cpu.so"), &foreign);
    }
    env.record("dlpack", "1.0", &[]);
    let host = env.host("9.0", "580.159.04");
    assert_eq!(env.codes(&["--host", &host]), [""; 0]);
    // One library alone is not one of several.
    env.library("single/_ext.so", &foreign);
    env.record("single", "1.0", &[]);
    assert_eq!(env.codes(&["--host", &host]), ["extension-abi"]);
}

/// The hash in a name says that auditwheel copied the library into the wheel. A package that loads libraries itself does not find
/// one that does not exist. A library is never empty.
#[test]
fn libraries_that_are_nowhere() {
    let Some(env) = Environment::new() else { return };
    let grafted = Build { needs: &["libopenblas-56d6093b.so"], ..Build::default() };
    env.library("numpy/_core/_umath.cpython-312-x86_64-linux-gnu.so", &grafted);
    env.put("numpy/__init__.py", "try:\n    from ._core import _umath\nexcept ImportError:\n    pass\n");
    env.record("numpy", "2.4.6", &[]);
    // A library that Python opens, with a dependency that needs the lost one.
    let inner = Build { needs: &["libz-eb09ad1d.so.1.2.3"], ..Build::default() };
    env.library("decord/libavcodec-5e6b81c2.so.62", &inner);
    let outer = Build { needs: &["libavcodec-5e6b81c2.so.62"], rpath: Some("$ORIGIN"), ..Build::default() };
    env.library("decord/libdecord.so", &outer);
    env.put("decord/__init__.py", "");
    env.record("decord", "0.6.0", &[]);
    // RECORD may lack a line of a library that is there.
    let whole =
        Build { needs: &["libx-deadbeef.so"], rpath: Some("$ORIGIN/../whole.libs"), ..Build::default() };
    env.library("whole/_c.cpython-312-x86_64-linux-gnu.so", &whole);
    env.library("whole.libs/libx-deadbeef.so", &Build::default());
    env.put("whole/__init__.py", "from whole import _c\n");
    env.record("whole", "1.0", &[]);
    env.library(
        "cupy/_core.cpython-312-x86_64-linux-gnu.so",
        &Build { needs: &["libcublas.so.11"], ..Build::default() },
    );
    env.put("cupy/__init__.py", "from cupy import _environment\nfrom cupy import _core\n");
    env.put("cupy/_environment.py", "import ctypes\nctypes.CDLL('libother.so')\n");
    env.record("cupy", "12.3.0", &[]);
    env.put("pil/_imaging.cpython-312-x86_64-linux-gnu.so", "");
    env.put("pil/__init__.py", "");
    env.record("pil", "1.0", &[]);
    let host = env.host("9.0", "580.159.04");
    let told = env.verify(&["--host", &host]).expect(1).flat();
    for expected in [
        "_umath.cpython-312-x86_64-linux-gnu.so of numpy fails: it needs libopenblas-56d6093b.so, a missing part of numpy",
        "decord/libavcodec-5e6b81c2.so.62 of decord fails: it needs libz-eb09ad1d.so.1.2.3, a missing part of decord",
        "importing cupy fails: cupy/_core.cpython-312-x86_64-linux-gnu.so needs libcublas.so.11",
        "fix: install a build of cupy for the CUDA version of this environment, or the CUDA toolkit with libcublas.so.11",
        "pil/_imaging.cpython-312-x86_64-linux-gnu.so of pil cannot be read: it is empty",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains("whole"), "{told}");
}

#[test]
fn files_that_packages_open_by_path() {
    let Some(mut env) = Environment::new() else { return };
    env.context = env.context.with_shipped_registry();
    let host = env.host("9.0", "580.159.04");
    let opener = Build {
        needs: &["libc10.so", "libcudart.so.12"],
        rpath: Some(RPATH),
        source: "const char *linalg = \"libtorch_cuda_linalg.so\";",
        ..Build::default()
    };
    env.library("torch/lib/libtorch_cuda.so", &opener);
    env.library("bitsandbytes/libbitsandbytes_cuda118.so", &Build::default());
    env.library("bitsandbytes/libbitsandbytes_cuda126.so", &Build::default());
    env.put("triton/backends/nvidia/bin/ptxas", "");
    let ptxas = env.site.join("triton/backends/nvidia/bin/ptxas");
    set_mode(&ptxas, 0o755);
    let record = || {
        for (name, version) in [("torch", "2.9.1"), ("triton", "3.1.0"), ("bitsandbytes", "0.50.2")] {
            env.record(name, version, &[]);
        }
    };
    record();
    let expected = [
        "error[missing-file]: torch/lib/libtorch_cuda_linalg.so of torch is missing",
        "warning[missing-file]: bitsandbytes has no bitsandbytes/libbitsandbytes_cuda12*.so",
        "error[altered-file]: triton/backends/nvidia/bin/ptxas of triton is not executable",
    ];
    let told = env.verify(&["--host", &host]).flat();
    for text in expected {
        assert!(!told.contains(text), "{text}: {told}");
    }
    // Only a part of what uses torch needs triton.
    assert!(told.contains("warning[known-incompatible]: triton 2.1 to 3.2 imports `setuptools`"), "{told}");
    std::fs::remove_file(env.site.join("torch/lib/libtorch_cuda_linalg.so")).unwrap();
    std::fs::remove_file(env.site.join("bitsandbytes/libbitsandbytes_cuda126.so")).unwrap();
    set_mode(&ptxas, 0o644);
    record();
    let told = env.verify(&["--host", &host]).expect(1).flat();
    for text in expected {
        assert!(told.contains(text), "{text}: {told}");
    }
    // Without the name in its opener, the file does not belong to the release.
    env.library("torch/lib/libtorch_cuda.so", &Build { source: "int x;", ..opener });
    record();
    let told = env.verify(&["--host", &host]).flat();
    assert!(!told.contains(expected[0]), "{told}");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

/// torch loads libraries itself before its module; for another Python the module fails all the same.
#[test]
fn a_framework_for_another_python_cannot_be_imported() {
    let Some(env) = Environment::new() else { return };
    let of = |tag: &str| env.site.join(format!("torch/_C.cpython-{tag}-x86_64-linux-gnu.so"));
    std::fs::rename(of("312"), of("311")).unwrap();
    env.put("torch/__init__.py", "import ctypes\nctypes.CDLL('x')\nfrom torch import _C\n");
    env.record("torch", "2.9.1", &[]);
    let told = env.verify(&["--host", &env.host("9.0", "580.159.04")]).expect(1).flat();
    assert!(told.contains("(cpython-311-x86_64-linux-gnu): importing torch fails"), "{told}");
}

/// A package can bring a part for torch without requiring torch; only its import needs it.
#[test]
fn a_part_for_an_absent_torch_is_no_fault() {
    let Some(env) = Environment::new() else { return };
    for folder in ["torch-2.9.1.dist-info", "torch"] {
        std::fs::remove_dir_all(env.site.join(folder)).unwrap();
    }
    let part = Build {
        source: "extern int _ZN3c104gone4callEv(void); int use(void) { return _ZN3c104gone4callEv(); }",
        ..Build::default()
    };
    env.library("either/torch_part.so", &part);
    env.put("either/__init__.py", "");
    env.record("either", "1.0", &[]);
    let host = env.host("9.0", "580.159.04");
    assert_eq!(env.codes(&["--host", &host]), [""; 0]);
}

#[test]
fn pipes_and_devices_are_not_waited_for() {
    let Some(mut env) = Environment::new() else { return };
    let pipe = env.folder("pipes/libcudnn_graph.so.9");
    std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    env.context.run(&["inspect", &pipe.display().to_string()]).expect(2);
    env.context.set("LD_LIBRARY_PATH", &env.folder("pipes").display().to_string());
    env.verify(&[]).expect(0);
    let metadata = env.site.join("torch-2.9.1.dist-info/METADATA");
    std::fs::remove_file(&metadata).unwrap();
    assert!(Command::new("mkfifo").arg(&metadata).status().unwrap().success());
    env.verify(&["--deep"]).expect(1);
}

#[test]
fn code_for_each_gpu() {
    let Some(env) = Environment::new() else { return };
    // 8.9 runs 8.0's code; 7.5, 10.0 have none; PTX needs a driver of its CUDA.
    for (capability, expected) in
        [("8.9", None), ("7.5", Some("no-kernel-image")), ("10.0", Some("no-kernel-image"))]
    {
        let host = env.host(capability, "580.159.04");
        let codes = env.codes(&["--host", &host]);
        assert_eq!(
            codes.iter().any(|c| c == "no-kernel-image"),
            expected.is_some(),
            "{capability}: {codes:?}"
        );
    }
    let source = "const char list[] = \"sm_80 compute_80\";";
    let needs = &["libtorch_cuda.so"];
    env.library(
        "torch/lib/libtorch_python.so",
        &Build { needs, source, rpath: Some(RPATH), ..Build::default() },
    );
    let needs = &["libc10.so", "libcudnn.so.9", "libcusparse.so.12", "libcudart.so.12"];
    let code: &[&[(u16, u32)]] = &[&[(2, 80), (1, 80)]];
    env.library("torch/lib/libtorch_cuda.so", &Build { needs, code, rpath: Some(RPATH), ..Build::default() });
    env.record("torch", "2.9.1", &[]);
    // The PTX is of ISA 8.7: CUDA 12.8, driver branch 570.
    for (driver, code) in [("580.159.04", "compiled-at-first-use"), ("535.129.03", "no-kernel-image")] {
        let host = env.host("9.0", driver);
        let codes = env.codes(&["--host", &host]);
        assert!(codes.iter().any(|c| c == code), "{driver}: {codes:?}");
    }
}

/// Frameworks beside torch are loaded as they load themselves: JAX names the files, TensorFlow leaves it to the loader.
#[test]
fn frameworks_beside_torch_have_a_process_too() {
    for jax in [true, false] {
        let Some(mut env) = Environment::new() else { return };
        for gone in
            ["torch", "torch-2.9.1.dist-info", "nvidia/cusparse", "nvidia_cusparse_cu12-12.5.8.93.dist-info"]
        {
            std::fs::remove_dir_all(env.site.join(gone)).unwrap();
        }
        let code: &[&[(u16, u32)]] = &[&[(2, 80), (2, 90)]];
        if jax {
            let plugin = "jax_cuda12_pjrt/xla_cuda_plugin.so";
            env.library("jax_plugins/xla_cuda12/xla_cuda_plugin.so", &Build { code, ..Build::default() });
            env.library(plugin, &Build::default());
            env.record("jax-cuda12-pjrt", "0.12.0", &[]);
            let record = env.site.join("jax_cuda12_pjrt-0.12.0.dist-info/RECORD");
            let text = std::fs::read_to_string(&record).unwrap();
            std::fs::write(record, format!("{text}jax_plugins/xla_cuda12/xla_cuda_plugin.so,,\n")).unwrap();
        } else {
            let runpath = Some("$ORIGIN/../nvidia/cudnn/lib:$ORIGIN/../nvidia/cuda_runtime/lib");
            let library = Build { code, runpath, ..Build::default() };
            env.library("tensorflow/libtensorflow_framework.so.2", &library);
            let needs = &["libtensorflow_framework.so.2"];
            let runpath = Some("$ORIGIN/..");
            let python = "tensorflow/python/_pywrap_tensorflow_internal.so";
            env.library(python, &Build { needs, runpath, ..Build::default() });
            env.record("tensorflow", "2.21.0", &[]);
        }
        let told = env.verify(&[]).flat();
        assert!(told.contains("libraries ok cuDNN 9.10.2, one copy"), "{jax}: {told}");
        assert!(told.contains("has code for 8.0 9.0"), "{jax}: {told}");
        // A part of another cuDNN in front: found here as it is with torch.
        let alien = env.folder("alien/libcudnn_graph.so.9").display().to_string();
        let source = "const unsigned cudnn_graph_version = 0x00090501;";
        env.library(&alien, &Build { source, ..Build::default() });
        let folder = env.folder("alien").display().to_string();
        env.context.set("LD_LIBRARY_PATH", &folder);
        assert_eq!(env.codes(&[])[0], "shadowed-library", "{jax}");
    }
}

#[test]
fn an_extension_with_ptx_alone() {
    let Some(env) = Environment::new() else { return };
    let code: &[&[(u16, u32)]] = &[&[(2, 80), (1, 80)]];
    env.library("ext/_C.so", &Build { code, ..Build::default() });
    env.record("ext", "1.0", &["torch"]);
    // ISA 8.7 is CUDA 12.8's: branch 570 compiles it, 535 does not, and 8.x runs the machine code.
    for (capability, driver, expected) in
        [("9.0", "570.26", None), ("9.0", "535.129.03", Some("gpu-code-hole")), ("8.6", "535.129.03", None)]
    {
        let host = env.host(capability, driver);
        let codes = env.codes(&["--host", &host]);
        assert_eq!(codes.first().map(String::as_str), expected, "{capability} {driver}: {codes:?}");
    }
    let told = env.verify(&["--host", &env.host("9.0", "535.129.03")]).flat();
    assert!(told.contains("_C.so of ext has only PTX for") && told.contains("(error 222)"), "{told}");
}

/// What one RECORD would list is nobody's leftover while it cannot be read: CUDA 13's wheels share a folder.
#[test]
fn without_a_record_nothing_is_called_left_over() {
    let Some(env) = Environment::new() else { return };
    env.library("nvidia/cudnn/lib/libother.so.1", &Build::default());
    let host = env.host("9.0", "580.159.04");
    assert_eq!(env.codes(&["--host", &host]), ["leftover-folder"]);
    let metadata = "Metadata-Version: 2.1\nName: nvidia-other-cu12\nVersion: 1.0\n";
    env.put("nvidia_other_cu12-1.0.dist-info/METADATA", metadata);
    let host = env.host("9.0", "580.159.04");
    assert_eq!(env.codes(&["--host", &host]), ["unreadable-record"]);
}

/// Containers put cuda-compat into the loader's cache: what the loader takes decides, not how it finds it.
#[test]
fn cuda_compat_without_a_variable() {
    let Some(env) = Environment::new() else { return };
    let write = |path: &str, text: &str| {
        let path = env.folder("sysroot").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("sys/module/nvidia/version", "535.129.03\n");
    ["dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0"].iter().for_each(|path| write(path, ""));
    let card = "sys/bus/pci/devices/0000:17:00.0";
    for (file, text) in [("vendor", "0x10de\n"), ("class", "0x030200\n"), ("device", "0x2335\n")] {
        write(&format!("{card}/{file}"), text);
    }
    let folder = env.folder("sysroot/usr/lib/x86_64-linux-gnu");
    let library = folder.join("libcuda.so.570.172.08").display().to_string();
    env.library(&library, &Build { soname: Some("libcuda.so.1"), ..Build::default() });
    std::os::unix::fs::symlink("libcuda.so.570.172.08", folder.join("libcuda.so.1")).unwrap();
    // An H200 on branch 535, which that cuda-compat is made for.
    assert_eq!(env.codes(&[]), [""; 0], "{}", env.verify(&[]).shown());
    // On a consumer's card it does not start.
    write(&format!("{card}/device"), "0x2684\n");
    assert!(env.codes(&[]).contains(&"driver-mismatch".to_owned()), "{}", env.verify(&[]).shown());
}

#[test]
fn the_drivers_library_and_its_module() {
    let Some(env) = Environment::new() else { return };
    // WSL's library, after the advice that goes round, has a name that says no release.
    let wsl = env.folder("sysroot/usr/lib/wsl/lib/libcuda.so.1.1").display().to_string();
    env.library(&wsl, &Build { soname: Some("libcuda.so.1"), ..Build::default() });
    let link = env.folder("sysroot/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&wsl, &link).unwrap();
    assert_eq!(env.codes(&["--host", &env.host("9.0", "570.26")]), [""; 0]);
    std::fs::remove_file(link).unwrap();
    let folder = env.folder("sysroot/usr/lib/x86_64-linux-gnu");
    let library = folder.join("libcuda.so.570.26").display().to_string();
    env.library(&library, &Build::default());
    std::os::unix::fs::symlink("libcuda.so.570.26", folder.join("libcuda.so.1")).unwrap();
    assert_eq!(env.codes(&["--host", &env.host("9.0", "570.26")]), [""; 0]);
    assert_eq!(env.codes(&["--host", &env.host("9.0", "580.65.06")]), ["driver-mismatch"]);
}

#[test]
fn other_copies_are_told_briefly() {
    let Some(env) = Environment::new() else { return };
    for version in ["12.1", "12.4"] {
        let library =
            env.folder(&format!("sysroot/usr/local/cuda-{version}/lib64/libcudart.so.{version}.99"));
        env.library(&library.display().to_string(), &Build { source: "int x;", ..Build::default() });
    }
    let run = env.verify(&[]).expect(0);
    assert!(
        run.flat().contains("not used by the loader: [DIR]/sysroot/usr/local/cuda-12.1"),
        "{}",
        run.shown()
    );
}

#[test]
fn inspect_reads_libraries_folders_and_wheels() {
    let Some(env) = Environment::new() else { return };
    let lib = env.site.join("torch/lib").display().to_string();
    let run = env.context.run(&["inspect", &format!("{lib}/libtorch_cuda.so")]).expect(0);
    insta::assert_snapshot!(
        "inspect_library",
        run.shown().replace("[DIR]/env/lib/python3.12/site-packages/", "")
    );
    let json = env.context.run(&["inspect", "--json", &lib]).expect(0).json();
    let files = json["files"].as_array().unwrap();
    assert_eq!(files.len(), 5);
    let cuda = files.iter().find(|f| f["soname"] == "libtorch_cuda.so").unwrap();
    assert_eq!(cuda["sass"], serde_json::json!(["8.0", "8.9", "9.0"]));
    assert_eq!((&cuda["containers"], &cuda["counts"]["sass"]["8.9"]), (&3.into(), &1.into()));
    assert_eq!(cuda["version"], serde_json::Value::Null);
    let python = files.iter().find(|f| f["soname"] == "libtorch_python.so").unwrap();
    assert_eq!(python["arch_list"]["sass"], serde_json::json!(["8.0", "9.0"]));
    let graph = env.site.join("nvidia/cudnn/lib/libcudnn_graph.so.9").display().to_string();
    assert_eq!(
        env.context.run(&["inspect", "--json", &graph]).expect(0).json()["files"][0]["version"],
        "9.10.2"
    );
    // What is no library is refused, a folder without any is not.
    let text = env.context.write("a.so", "text").display().to_string();
    let refused = env.context.run(&["inspect", &text]).expect(2);
    assert!(refused.flat().contains("not a 64-bit ELF file"), "{}", refused.shown());
    env.context.run(&["inspect", "nowhere"]).expect(2);
    env.context.run(&["inspect", "."]).expect(0);
    let wheel = env.context.write("x-1.0-py3-none-any.whl", "no zip").display().to_string();
    env.context.run(&["inspect", &wheel]).expect(2);
    env.context.run(&["inspect", "http://127.0.0.1:9/nothing.txt"]).expect(2);
}

/// What a library does not say of itself its wheel does; and where the two differ, somebody exchanged the file.
#[test]
fn versions_out_of_records() {
    let Some(env) = Environment::new() else { return };
    let version = |path: &str| {
        let file = env.site.join(path).display().to_string();
        let json = env.context.run(&["inspect", "--json", &file]).expect(0).json()["files"][0].clone();
        (
            json["version"].clone(),
            json["recorded"]["agrees"].clone(),
            env.context.run(&["inspect", &file]).flat(),
        )
    };
    let (text, agrees, told) = version("nvidia/cuda_runtime/lib/libcudart.so.12");
    assert_eq!((&text, &agrees), (&"12.8.90".into(), &true.into()), "{told}");
    let (text, agrees, _) = version("nvidia/cudnn/lib/libcudnn_graph.so.9");
    assert_eq!((&text, &agrees), (&"9.10.2".into(), &true.into()));
    let source = "const unsigned cudnn_graph_version = 0x00090501;";
    env.library("nvidia/cudnn/lib/libcudnn_graph.so.9", &Build { source, ..Build::default() });
    let (text, agrees, told) = version("nvidia/cudnn/lib/libcudnn_graph.so.9");
    assert_eq!((&text, &agrees), (&"9.5.1".into(), &false.into()));
    assert!(
        told.contains("it is in the RECORD of nvidia-cudnn-cu12 9.10.2.21: the file was replaced"),
        "{told}"
    );
}

/// A wheel of torch, from the folder that `ENVLOCK_TEST_WHEELS` names, fetched there by pip where it is not yet.
fn torch_wheel(version: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("ENVLOCK_TEST_WHEELS")?);
    let find = || {
        let mut files = std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
        files.find(|f| {
            f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("torch-{version}-")))
        })
    };
    find().or_else(|| {
        let requirement = format!("torch=={version}");
        let arguments =
            ["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11"];
        let platforms = ["manylinux1_x86_64", "manylinux_2_28_x86_64"].map(|p| format!("--platform={p}"));
        let command = Command::new("python3")
            .args(arguments)
            .args(platforms)
            .arg("-d")
            .arg(&folder)
            .arg(requirement)
            .status();
        command.is_ok_and(|status| status.success()).then(find).flatten()
    })
}

/// What `inspect` reads out of torch's wheels of three CUDA majors, against a scan that was made by another program
/// (tests/fixtures/torch-wheels.json). Two gigabytes: `ENVLOCK_TEST_WHEELS=DIR cargo test -- --ignored wheels_of`.
#[test]
#[ignore = "needs torch's wheels"]
fn wheels_of_three_cuda_majors() {
    let expected: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../fixtures/torch-wheels.json")).unwrap();
    for version in ["2.0.1", "2.9.1", "2.15.0"] {
        let Some(wheel) = torch_wheel(version) else {
            return skipped("ENVLOCK_TEST_WHEELS names no folder with wheels");
        };
        let context = TestContext::new();
        let json = context.run(&["inspect", "--json", &wheel.display().to_string()]).expect(0).json();
        let files = json["files"].as_array().unwrap();
        let rows: Vec<_> = expected.iter().filter(|row| row["version"] == version).collect();
        assert!(rows.len() > 5, "{version}");
        for row in rows {
            let file = files.iter().find(|f| f["path"] == row["library"]).unwrap_or_else(|| panic!("{row}"));
            for key in ["containers", "entries", "soname", "needed", "rpath", "runpath"] {
                assert_eq!(file[key], row[key], "{version} {} {key}", row["library"]);
            }
            for key in ["sass", "ptx"] {
                assert_eq!(file["counts"][key], row[key], "{version} {} {key}", row["library"]);
            }
        }
        let python = files.iter().find(|f| f["soname"] == "libtorch_python.so").unwrap();
        let list = python["arch_list"]["sass"].as_array().unwrap();
        let cuda = files.iter().find(|f| f["path"] == "torch/lib/libtorch_cuda.so").unwrap();
        // torch's own list is what each of its containers has.
        let in_all =
            cuda["counts"]["sass"].as_object().unwrap().iter().filter(|(_, n)| **n == cuda["containers"]);
        assert_eq!(in_all.count(), list.len(), "{version}: {list:?}");
    }
}

/// The number of entries for each target, against NVIDIA's own cuobjdump out of the triton wheel, on the libraries of
/// the environment that `ENVLOCK_TEST_TORCH` names.
#[test]
#[ignore = "needs an installed torch with triton"]
fn as_cuobjdump_lists_it() {
    let Some(prefix) = std::env::var_os("ENVLOCK_TEST_TORCH").map(PathBuf::from) else {
        return skipped("ENVLOCK_TEST_TORCH names no environment");
    };
    let site = std::fs::read_dir(prefix.join("lib")).unwrap().flatten().find_map(|entry| {
        let site = entry.path().join("site-packages");
        site.is_dir().then_some(site)
    });
    let site = site.unwrap();
    let cuobjdump = site.join("triton/backends/nvidia/bin/cuobjdump");
    for library in
        ["torch/lib/libtorch_cuda_linalg.so", "nvidia/cudnn/lib/libcudnn_ops.so.9", "torchvision/_C.so"]
    {
        let file = site.join(library);
        let out = Command::new(&cuobjdump).arg("--list-elf").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        // ELF file    1: libtorch_cuda_linalg.1.sm_80.cubin
        let mut theirs: std::collections::BTreeMap<String, u64> = Default::default();
        for name in text.lines().filter_map(|line| line.split(".sm_").nth(1)?.split('.').next()) {
            *theirs.entry(name.to_owned()).or_default() += 1;
        }
        let context = TestContext::new();
        let json = context.run(&["inspect", "--json", &file.display().to_string()]).expect(0).json();
        let ours = json["files"][0]["counts"]["sass"].as_object().unwrap();
        let spelled = |target: &str| target.replace('.', "");
        assert!(!theirs.is_empty(), "{library}: {text}");
        for (target, containers) in ours {
            // One cubin for each container that has the target, in the libraries named here.
            assert_eq!(
                theirs.get(&spelled(target)),
                containers.as_u64().as_ref(),
                "{library} {target}: {theirs:?}"
            );
        }
        assert_eq!(theirs.len(), ours.len(), "{library}: {theirs:?}");
    }
}

#[test]
fn a_wheel_on_a_server() {
    use std::io::Write as _;
    let Some(env) = Environment::new() else { return };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut zip = zip::ZipWriter::new(&mut bytes);
    let library = std::fs::read(env.site.join("nvidia/cudnn/lib/libcudnn_graph.so.9")).unwrap();
    let stored = zip::write::SimpleFileOptions::default();
    zip.start_file("nvidia/cudnn/lib/libcudnn_graph.so.9", stored).unwrap();
    zip.write_all(&library).unwrap();
    zip.finish().unwrap();
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let address = format!("http://{}/a-1.0-py3-none-any.whl", server.server_addr());
    let body = bytes.into_inner();
    let serving = std::thread::spawn(move || {
        for request in server.incoming_requests().take(2) {
            match request.url().ends_with("a-1.0-py3-none-any.whl") {
                true => request.respond(tiny_http::Response::from_data(body.clone())).unwrap(),
                false => request.respond(tiny_http::Response::empty(404)).unwrap(),
            }
        }
    });
    let json = env.context.run(&["inspect", "--json", &address]).expect(0).json();
    assert_eq!(json["files"][0]["version"], "9.10.2");
    let missing = env.context.run(&["inspect", &address.replace("a-1.0", "b-1.0")]).expect(3);
    assert!(missing.flat().contains("the server answered 404"), "{}", missing.shown());
    serving.join().unwrap();
    env.context.run(&["inspect", "--offline", &address]).expect(3);
}
