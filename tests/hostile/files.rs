//! Files that people give or that a machine has, with bytes changed at random, read by the program itself: it ends with one
//! of its exit codes and does not panic. The parsers that a library test can call are in `main.rs`.

use std::path::PathBuf;

use super::common::installed::install;
use super::context::TestContext;
use super::wheels::wheel;

/// The rounds for each file.
fn rounds() -> u32 {
    std::env::var("ENVLOCK_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// A small generator: the same bytes in each run of the tests.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// A copy with some bytes changed, a part cut out, doubled, or put elsewhere.
    fn broken(&mut self, text: &str) -> Vec<u8> {
        const SIGNS: [&str; 16] =
            ["\"", "'", "[", "]", "{", "}", "=", ":", "\n", "\\", "\0", "\u{20ac}", "-", "(", "*", "\r\n"];
        let mut out = text.as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(out.len());
            let end = (at + self.below(20)).min(out.len());
            match self.below(5) {
                0 => drop(out.splice(at..at, SIGNS[self.below(SIGNS.len())].bytes())),
                1 => drop(out.drain(at..end)),
                2 => {
                    let part = out[at..end].to_vec();
                    let place = self.below(out.len());
                    out.splice(place..place, part);
                }
                3 if at < out.len() => out[at] = self.below(256) as u8,
                _ => out.truncate(at.max(1)),
            }
        }
        out
    }
}

const MANIFEST: &str = "[project]\nname = \"x\"\npython = \">=3.10\"\ndependencies = [\"requests>=2\", \"tool[a]; python_version < '3.12'\"]\n\n[stack]\ntorch = \">=2.6\"\nsame = true\n\n[[index]]\nname = \"corp\"\nurl = \"https://corp.example/simple\"\npackages = [\"corp-*\"]\n\n[target.a100]\ngpus = [\"NVIDIA A100\"]\ndriver = \"535.129.03\"\nglibc = \"2.31\"\n\n[resolve]\noverrides = [\"numpy<2\"]\n";
const CONDA: &str = "name: x\nchannels: [pytorch, conda-forge]\ndependencies:\n  - python=3.11\n  - pytorch::pytorch=2.1=*cuda12*\n  - numpy>=1.20,<2\n  - pip\n  - pip:\n    - -r more.txt\n    - transformers==4.40 # why\n    - git+https://code.example/a/b@v1\nvariables: {A: b}\n";
const REQUIREMENTS: &str = "--extra-index-url https://wheels.example/whl/cu121\n-c limits.txt\ntorch==2.1.0+cu121 --hash=sha256:aa\nnumpy >=1.20 ; sys_platform == 'linux' # why\n-e .[extra]\ngit+https://code.example/a/b.git@v1#egg=b\n./folder\n${HOME}/x.whl\nrequests \\\n  >= 2\n";
const PYPROJECT: &str = "[project]\nname = \"x\"\nversion = \"1\"\nrequires-python = \">=3.10\"\ndependencies = [\"torch>=2\"]\n[project.optional-dependencies]\ngpu = [\"bitsandbytes\"]\n[dependency-groups]\ndev = [\"pytest\", {include-group = \"lint\"}]\nlint = [\"ruff\"]\n[tool.uv.sources]\ntorch = [{ index = \"t\", marker = \"sys_platform == 'linux'\" }]\n[[tool.uv.index]]\nname = \"t\"\nurl = \"https://wheels.example/whl/cu126\"\n[tool.poetry.dependencies]\npython = \"^3.10\"\nnumpy = { version = \"^1.26\", optional = true }\n";
const PIXI: &str = "[workspace]\nname = \"x\"\nchannels = [\"conda-forge\"]\nplatforms = [\"linux-64\"]\n[dependencies]\npython = \"3.11.*\"\npytorch = { version = \">=2.1\", build = \"cuda*\" }\n[pypi-dependencies]\ntransformers = \"==4.40\"\n[feature.dev.dependencies]\npytest = \"*\"\n";
const DIRECT_URL: &str = "{\"url\": \"https://code.example/a/b\", \"vcs_info\": {\"vcs\": \"git\", \"commit_id\": \"0123456789012345678901234567890123456789\"}, \"dir_info\": {\"editable\": true}}";
const CONDA_RECORD: &str = "{\"name\": \"pytorch\", \"version\": \"2.5.1\", \"build\": \"py3.12_cuda12.4_cudnn9.1.0_0\", \"files\": [\"lib/a.so\"]}";
const DRIVER: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version:  gcc version 12.2.0\n";
const CARD: &str = "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 123\nGPU UUID: \t GPU-01234567-89ab-cdef-0123-456789abcdef\nBus Location: \t 0000:07:00.0\nDevice Minor: \t 0\n";

/// Runs a command on broken copies of a file.
pub fn try_file(context: &TestContext, file: &PathBuf, text: &str, arguments: &[&str]) {
    let mut random = Random(0x9e37_79b9 ^ text.len() as u64);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for round in 0..rounds() {
        let broken = random.broken(text);
        std::fs::write(file, &broken).unwrap();
        let run = context.run(arguments);
        let shown =
            || format!("{arguments:?}, round {round}: {}\n{}", String::from_utf8_lossy(&broken), run.shown());
        assert!([0, 1, 2, 3].contains(&run.code), "{}", shown());
        assert!(!run.stderr.contains("panicked"), "{}", shown());
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn files_that_people_give() {
    let context = TestContext::new();
    let project = context.project();
    let described = ["--gpu", "A100", "--driver", "580.65.06", "--dry-run", "--offline"];
    try_file(&context, &project.join("envlock.toml"), MANIFEST, &[&["resolve"], &described[..]].concat());
    for (name, text) in [
        ("environment.yml", CONDA),
        ("requirements.txt", REQUIREMENTS),
        ("pyproject.toml", PYPROJECT),
        ("pixi.toml", PIXI),
    ] {
        let folder = project.join("given");
        let file = folder.join(name).display().to_string();
        try_file(
            &context,
            &folder.join(name),
            text,
            &["init", "--from", &file, "--offline", "--force", "--gpu", "none"],
        );
    }
}

const BANNER: &str = "| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |\n";
const CARDS: &str = "0, NVIDIA A100-SXM4-80GB, GPU-01234567-89ab-cdef-0123-456789abcdef, 81920, 535.54.03, 0x20B210DE, 8.0\n1, [N/A], [N/A], [N/A], 535.54.03, 0x20B210DE, [N/A]\n";
const COMMIT: &str = "0123456789012345678901234567890123456789\n";
const LISTING: &str = "pyproject.toml\0setup.py\0src/x/__init__.py\0PKG-INFO\0";
const NODES: &str = "n1|idle\nn2|mixed\nn[3-5]|drained*\n";
const ANSWER: &str = "0: # node n1\n0: schema = 1\n0: [driver]\n0: version = \"535.54.03\"\n1: # node n2\n1: sh: envlock: not found\n";

/// Programs that write the contents of a file: nvidia-smi's banner and table, git's answers by command, Slurm's.
#[test]
fn answers_of_programs() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut context = TestContext::new();
    let answers = context.dir.path().join("answers");
    let bin = context.dir.path().join("bin");
    std::fs::create_dir_all(&answers).unwrap();
    std::fs::create_dir_all(&bin).unwrap();
    for (program, cases) in [
        ("nvidia-smi", "*query*) f=table;; *) f=banner;;"),
        ("git", "*rev-parse*) f=commit;; *ls-tree*) f=listing;; *cat-file*) f=blob;; *) f=none;;"),
        ("sinfo", "*) f=nodes;;"),
        ("srun", "*) f=answer;;"),
    ] {
        let path = bin.join(program);
        let folder = answers.display();
        std::fs::write(&path, format!("#!/bin/sh\ncase \"$*\" in {cases} esac\ncat {folder}/$f\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    context.set("PATH", &path);
    let manifest = "[project]\nname = \"x\"\ndependencies = [\"x @ git+https://code.example/a/b\"]\n";
    context.write("envlock.toml", manifest);
    let resolve = ["resolve", "--gpu", "none", "--dry-run", "--index-url", "http://127.0.0.1:9/simple"];
    let texts = [
        ("banner", BANNER, &["probe"][..]),
        ("table", CARDS, &["probe"]),
        ("commit", COMMIT, &resolve),
        ("listing", LISTING, &resolve),
        ("blob", PYPROJECT, &resolve),
        ("nodes", NODES, &["fleet", "slurm"]),
        ("answer", ANSWER, &["fleet", "slurm"]),
        ("none", "", &["probe"]),
    ];
    for (name, text, _) in texts {
        std::fs::write(answers.join(name), text).unwrap();
    }
    for (name, text, arguments) in texts.into_iter().filter(|(_, text, _)| !text.is_empty()) {
        try_file(&context, &answers.join(name), text, arguments);
        std::fs::write(answers.join(name), text).unwrap();
    }
    // The seeds are what they seem.
    let listed = context.run(&["fleet", "slurm"]);
    assert!(listed.flat().contains("535.54.03"), "{}", listed.shown());
}

#[test]
fn files_of_an_environment_and_a_machine() {
    let mut context = TestContext::new();
    let prefix = context.dir.path().join("env");
    let site = prefix.join("lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    install(&site, &wheel("six", "1.17.0").file("six.py", "x = 1\n"));
    let named = prefix.display().to_string();
    let verify = ["verify", "--prefix", &named, "--smoke", "off"];
    let info = site.join("six-1.17.0.dist-info");
    let metadata =
        "Metadata-Version: 2.1\nName: six\nVersion: 1.17.0\nRequires-Dist: idna>=2 ; extra == 'x'\n";
    for (file, text) in [
        (info.join("direct_url.json"), DIRECT_URL),
        (
            info.join("WHEEL"),
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n",
        ),
        (prefix.join("conda-meta/pytorch.json"), CONDA_RECORD),
        (
            prefix.join("pyvenv.cfg"),
            "home = /usr/bin\nversion_info = 3.12.1\ninclude-system-site-packages = false\n",
        ),
        (site.join("a.pth"), "import os; os.environ\n../other\n"),
        (info.join("METADATA"), metadata),
    ] {
        try_file(&context, &file, text, &verify);
    }
    let root = context.dir.path().join("root");
    context.set("ENVLOCK_SYSROOT", &root.display().to_string());
    try_file(&context, &root.join("proc/driver/nvidia/version"), DRIVER, &["probe"]);
    std::fs::create_dir_all(root.join("proc/driver/nvidia")).unwrap();
    std::fs::write(root.join("proc/driver/nvidia/version"), DRIVER).unwrap();
    try_file(&context, &root.join("proc/driver/nvidia/gpus/0000:07:00.0/information"), CARD, &["probe"]);
}
