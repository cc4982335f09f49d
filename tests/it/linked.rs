//! Wheels of PyPI with machine code beside conda's torch: what they link decides, read from real libraries built by gcc.

use std::path::Path;
use std::process::Command;

use super::channels::Channels;
use super::context::{IndexServer, Run, Shape, TestContext, skipped};
use super::native::gcc;
use super::wheels::{Wheel, wheel};

/// A function of torch that takes a `std::string`, by the ABI of libstdc++.
const OLD: &str = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs";
const CXX11: &str =
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";

/// A library that needs others by name, and uses a symbol that none of them defines.
fn library(needs: &[&str], symbol: Option<&str>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut arguments: Vec<String> = Vec::new();
    for name in needs {
        std::fs::write(folder.path().join("empty.c"), "").unwrap();
        gcc(&["-shared", "-nostdlib", &format!("-Wl,-soname,{name}"), "-o", &at(name), &at("empty.c")]);
        arguments.push(at(name));
    }
    let source = match symbol {
        Some(symbol) => format!("extern int {symbol}(void); int own(void) {{ return {symbol}(); }}"),
        None => "int own(void) { return 1; }".to_owned(),
    };
    std::fs::write(folder.path().join("own.c"), source).unwrap();
    let (own, out) = (at("own.c"), at("own.so"));
    let mut all = vec!["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", "-o", &out, &own];
    all.extend(arguments.iter().map(String::as_str));
    gcc(&all);
    std::fs::read(out).unwrap()
}

fn linux(name: &str, version: &str, path: &str, code: &[u8]) -> Wheel {
    wheel(name, version).tags("cp313-cp313-manylinux_2_17_x86_64").bytes(path, code)
}

struct World {
    context: TestContext,
    _index: IndexServer,
    _channels: Channels,
}

impl World {
    /// An index with wheels beside the channel in a folder; nothing where there is no gcc.
    fn of(folder: &Path) -> Option<World> {
        if !Command::new("gcc").arg("--version").output().is_ok_and(|out| out.status.success()) {
            skipped("no gcc here");
            return None;
        }
        let gpu = ["libc10.so", "libc10_cuda.so", "libcudart.so.12"];
        let (plain, cuda_13) = (library(&[], None), library(&["libcudart.so.13"], None));
        let of_each = |major: u64| library(&[&format!("libcudart.so.{major}")], None);
        let several = [11, 12, 13].iter().fold(
            wheel("several", "1.0").tags("py3-none-manylinux_2_17_x86_64").needs("torch"),
            |wheel, major| wheel.bytes(&format!("several/libown_cuda{major}.so"), &of_each(*major)),
        );
        let all = vec![
            ("pypi", linux("plain", "1.0", "plain/_C.so", &plain)),
            (
                "pypi",
                linux("fits", "1.0", "fits/_C.so", &library(&gpu, Some(CXX11))).needs("torch==2.*,>=2.9"),
            ),
            (
                "pypi",
                linux("pinned", "1.0", "pinned/_C.so", &library(&gpu, Some(CXX11))).needs("torch==2.9.*"),
            ),
            ("pypi", linux("silent", "1.0", "silent/_C.so", &library(&["libc10.so"], Some(OLD)))),
            // Extension modules may leave torch's libraries to the one who imports them.
            ("pypi", linux("unnamed", "1.0", "unnamed/_C.so", &library(&[], Some(OLD)))),
            ("pypi", wheel("user", "1.0").needs("silent<2")),
            ("pypi", linux("newer", "2.0", "newer/_C.so", &cuda_13)),
            ("pypi", linux("newer", "1.0", "newer/_C.so", &of_each(12))),
            ("pypi", linux("only-13", "1.0", "only_13/_C.so", &cuda_13)),
            ("pypi", several),
            // Two wheels of one release: pip may take either.
            ("pypi", linux("two", "1.0", "two/_C.so", &of_each(12))),
            (
                "pypi",
                wheel("two", "1.0").tags("cp313-cp313-manylinux_2_28_x86_64").bytes("two/_C.so", &cuda_13),
            ),
            // The package loads the one for its CUDA.
            (
                "pypi",
                linux("pair", "1.0", "pair/_C_cu12.so", &of_each(12)).bytes("pair/_C_cu13.so", &cuda_13),
            ),
            (
                "pypi",
                linux("shim", "1.0", "shim/_C.so", &library(&["libtorch_cpu.so"], Some("torch_from_blob"))),
            ),
            ("pypi", linux("own-copy", "1.0", "own/_C.so", &cuda_13).bytes("own/libcudart.so.13", &plain)),
        ];
        let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
        let channels = Channels::start(folder.to_path_buf());
        let mut context = TestContext::with_index(&index).with_shipped_registry();
        context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
        Some(World { context, _index: index, _channels: channels })
    }

    fn resolve(&self, dependency: &str, options: &[&str]) -> Run {
        let text = format!(
            "[project]\nname = \"x\"\ndependencies = [\"{dependency}\"]\n[stack]\nsource = \"conda-forge\"\ntorch = \"*\"\n"
        );
        self.context.write("envlock.toml", &text);
        let _ = std::fs::remove_file(self.context.project().join("envlock.lock"));
        let gpu = ["--gpu", "H100", "--driver", "580.65.06", "--glibc", "2.35"];
        let host = if options.contains(&"none") { &gpu[4..] } else { &gpu[..] };
        let fixed = ["resolve", "--only-index", "pypi,conda-forge", "--force"];
        self.context.run(&[&fixed, host, options].concat())
    }
}

#[test]
fn what_wheels_link_decides() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda");
    let Some(world) = World::of(&folder) else { return };
    for dependency in ["plain", "fits", "pinned", "several", "own-copy", "two", "pair"] {
        let run = world.resolve(dependency, &[]).expect(0);
        assert!(run.flat().contains("torch 2.9.1+cu129 from conda-forge"), "{}", run.shown());
        // torch's C++ functions differ between releases, and what was built for none that is stated is told.
        let is_told = run.flat().contains("the release of torch that fits was built with is not stated");
        assert_eq!((run.flat().contains("warning"), is_told), (dependency == "fits", dependency == "fits"));
    }
    let old = "which passes strings of libstdc++'s old ABI (before C++11) to torch; conda-forge's torch uses the C++11 ABI";
    for (dependency, expected) in [
        ("silent", format!("the wheel of silent 1.0 has `silent/_C.so`, {old}")),
        ("unnamed", format!("the wheel of unnamed 1.0 has `unnamed/_C.so`, {old}")),
        ("silent", "silent 1.0 of PyPI is not built for conda's torch".to_owned()),
        ("only-13", "only-13 1.0 of PyPI is not built for conda's CUDA".to_owned()),
        ("only-13", "needs `libcudart.so.13` of CUDA 13; conda installs CUDA 12".to_owned()),
    ] {
        let run = world.resolve(dependency, &[]).expect(1);
        assert!(run.flat().contains(&expected), "{expected}: {}", run.shown());
    }
    let run = world.resolve("user", &[]).expect(1);
    for expected in ["user 1.0 needs silent<2", "you require user", "without user torch 2.9.1 cu129"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    let run = world.resolve("shim", &[]).expect(1);
    let expected = "has `shim/_C.so`, which uses `torch_from_blob`, which torch has since 2.11; conda installs torch 2.9.1";
    assert!(run.flat().contains(expected), "{}", run.shown());
    // The one without another release is at fault.
    let run = world.resolve("newer\", \"only-13", &[]).expect(1);
    assert!(run.flat().contains("only-13 1.0 of PyPI is not built for conda's CUDA"), "{}", run.shown());
    // Only the wheel that fits is locked.
    world.resolve("two", &[]).expect(0);
    let lock = world.context.read("envlock.lock");
    assert!(
        lock.contains("two-1.0-cp313-cp313-manylinux_2_17_x86_64.whl") && !lock.contains("manylinux_2_28")
    );
    // The newest release that fits.
    let run = world.resolve("newer", &[]).expect(0);
    for expected in ["newer 1.0", "newer 1.0 was chosen, not 2.0: the wheel of newer 2.0 has `newer/_C.so`"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    let run = world.resolve("newer>=2", &[]).expect(1);
    assert!(run.flat().contains("newer 2.0 of PyPI is not built for conda's CUDA"), "{}", run.shown());
}

/// What was read is kept by the wheel's hash.
#[test]
fn wheels_are_read_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda");
    let Some(world) = World::of(&folder) else { return };
    world.resolve("fits", &[]).expect(0);
    world.resolve("plain", &[]).expect(0);
    world.resolve("fits", &["--offline"]).expect(0);
    std::fs::remove_dir_all(world.context.dir.path().join("cache/learned")).unwrap();
    let run = world.resolve("fits", &["--offline"]).expect(1);
    for expected in [
        "fits 1.0 of PyPI is not known to be built for conda's torch",
        "what it links was not read: nothing is downloaded with `--offline`",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    let run = world.resolve("plain", &["--offline"]).expect(0);
    assert!(
        run.flat().contains(
            "the libraries that plain links were not read (nothing is downloaded with `--offline`)"
        ),
        "{}",
        run.shown()
    );
}

/// Another build of the same torch is tried first.
#[test]
fn a_build_for_the_cuda_of_a_wheel() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, version: &str, build: &str, depends: &[&str]| {
        let file = format!("{name}-{version}-{build}.conda");
        let value = serde_json::json!({
            "name": name, "version": version, "build": build, "build_number": 301, "depends": depends,
            "sha256": "0".repeat(64), "md5": "0".repeat(32), "size": 10, "subdir": "linux-64", "timestamp": 0,
        });
        (file, value)
    };
    let python = ["python >=3.13,<3.14.0a0", "__cuda"];
    let records: serde_json::Map<String, serde_json::Value> = [
        record("python", "3.13.9", "h0_cp313", &[]),
        record("pytorch", "2.10.0", "cpu_mkl_py313_h0_101", &python[..1]),
        record("pytorch", "2.10.0", "cuda129_mkl_py313_h0_301", &python),
        record("pytorch", "2.10.0", "cuda130_mkl_py313_h0_301", &[&python[..], &["cudnn"]].concat()),
        record("cudnn", "9.13.1.26", "h0_0", &[]),
        record("cudnn", "10.1.0.5", "h0_0", &[]),
    ]
    .into_iter()
    .collect();
    let channel = folder.path().join("conda-forge");
    for (subdir, records) in [("linux-64", records), ("noarch", serde_json::Map::new())] {
        std::fs::create_dir_all(channel.join(subdir)).unwrap();
        let text = serde_json::json!({"info": {"subdir": subdir}, "packages.conda": records});
        std::fs::write(channel.join(subdir).join("repodata.json"), text.to_string()).unwrap();
    }
    let Some(world) = World::of(folder.path()) else { return };
    for (dependency, variant) in
        [("plain", "cu130"), ("only-13", "cu130"), ("fits", "cu129"), ("newer", "cu130")]
    {
        let run = world.resolve(dependency, &[]).expect(0);
        let expected = format!("torch 2.10.0+{variant} from conda-forge");
        assert!(run.flat().contains(&expected), "{dependency}: {}", run.shown());
        let is_told =
            run.flat().contains("torch 2.10.0+cu129 was chosen, not a build for CUDA 13: the wheel of fits");
        assert_eq!(is_told, dependency == "fits", "{}", run.shown());
        // The recipe has cuDNN 9, and the record no bound.
        assert_eq!(run.flat().contains("cudnn 9.13.1.26"), variant == "cu130", "{}", run.shown());
    }
    // One needs CUDA 12, and the newest release of the other CUDA 13.
    let run = world.resolve("fits\", \"newer", &[]).expect(0);
    for expected in ["torch 2.10.0+cu129", "newer 1.0 was chosen, not 2.0"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    // A build for the CPU has no code for CUDA. A package that uses CUDA beside torch may do without.
    let run = world.resolve("fits", &["--gpu", "none"]).expect(1);
    let expected = "which needs `libc10_cuda.so`, which this build of torch does not have";
    assert!(run.flat().contains(expected), "{}", run.shown());
    let run = world.resolve("only-13", &["--gpu", "none"]).expect(0);
    for expected in [
        "torch 2.10.0+cpu",
        "only-13 1.0 has `only_13/_C.so`, which needs `libcudart.so.13`, and nothing in the environment brings CUDA",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
}
