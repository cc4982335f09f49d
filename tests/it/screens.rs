//! What a person sees of each command: its main answer, its main refusal, and a wrong call, each as a whole.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{little_pypi, little_pytorch, wheel};

/// A locked project for a V100, and a folder without anything.
struct World {
    _server: IndexServer,
    project: TestContext,
    empty: TestContext,
}

impl World {
    fn new() -> World {
        let mut all = little_pypi();
        all.extend(little_pytorch());
        all.push(("pypi", wheel("tool", "1.0").needs("requests").needs("idna<3.12")));
        let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
        let project = TestContext::with_index(&server);
        let manifest = "[project]\nname = \"demo\"\ndependencies = [\"tool\"]\n[stack]\ntorch = \">=2.8\"\n";
        project.write("envlock.toml", manifest);
        let machine = ["--gpu", "V100", "--driver", "580.65.06", "--only-index", "pypi", "--python", "3.12"];
        project.run(&[&["resolve"], &machine[..]].concat()).expect(0);
        let host = "schema = 1\n[driver]\nversion = \"DRIVER\"\n[[gpu]]\nname = \"Tesla V100-SXM2-16GB\"\ncompute_capability = \"7.0\"\n[system]\nos = \"linux\"\narch = \"x86_64\"\nglibc = \"2.35\"\n";
        for (name, driver) in [("old", "580.65.06"), ("new", "470.57.02")] {
            for folder in ["", "hosts/"] {
                project.write(&format!("{folder}{name}.toml"), &host.replace("DRIVER", driver));
            }
        }
        World { _server: server, project, empty: TestContext::new() }
    }

    fn shown(&self, arguments: &[&str]) -> String {
        self.project.run(arguments).shown()
    }

    fn without_lock(&self, arguments: &[&str]) -> String {
        self.empty.run(arguments).shown()
    }
}

#[test]
fn start() {
    let world = World::new();
    insta::assert_snapshot!(world.without_lock(&["init", "--torch", ">=2.8"]), @r"
    exit 0
    --- stdout
    wrote [DIR]/project/envlock.toml
    --- stderr
    hint: run `envlock resolve`
    ");
    insta::assert_snapshot!(world.without_lock(&["init"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: `[DIR]/project/envlock.toml` already exists

    hint: edit it, or pass `--force` to replace it
    ");
    insta::assert_snapshot!(world.without_lock(&["init", "--conda"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --from <FILE>

    Usage: envlock init --from <FILE> --conda

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["add", "filelock", "--dry-run"]), @r"
    exit 0
    --- stdout
    host   NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64 [--driver];
           kept from the lock, `--redetect` detects it again
    solved 8 packages, 9 kB to download in [TIME]

      torch         2.10.0+cu128  kept from the lock; code for 7.0
      cuda          12.8          native: driver >= 570.26
      cudnn         9.10.2.21     pinned by torch
      nccl          2.27.5        pinned by torch
      triton        3.6.0         pinned by torch
      python        3.12          asked for
      filelock      3.20.0        kept from the lock
      tool          1.0           kept from the lock

    runs on        driver >= 525.60.13; compute capability 7.5, 8.0, 8.6, 8.9, 9.0;
                   7.0 with driver < 590; 10.0, 12.0 with driver >= 570; 10.3, 12.1
                   with driver >= 575; glibc >= 2.28; linux-x86_64
    wrote          nothing (--dry-run)
    --- stderr
    note: --python 3.12, --only-index pypi kept from the lock; `--redetect` drops
          such options
    ");
    insta::assert_snapshot!(world.shown(&["add", "nosuch", "--dry-run"]), @r"
    exit 1
    --- stdout
    host   NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64 [--driver];
           kept from the lock, `--redetect` detects it again
    error: the requirements cannot be satisfied

      the index pypi has no `nosuch`  [index]
      you require nosuch  [command line]

    ways out, each of them solved:
      without nosuch            torch 2.10.0 cu128
    --- stderr
    note: --python 3.12, --only-index pypi kept from the lock; `--redetect` drops
          such options
    hint: apply one of these changes to the request
    ");
    insta::assert_snapshot!(world.shown(&["add"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <PKG>...

    Usage: envlock add <PKG>...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["remove", "nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: `nosuch` is not in the dependencies of envlock.toml
    ");
    insta::assert_snapshot!(world.shown(&["remove"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <PKG>...

    Usage: envlock remove <PKG>...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["probe", "--gpu", "V100", "--driver", "580.65.06"]), @r"
    exit 0
    --- stdout
    driver  580.65.06     [--driver]
    gpu 0   NVIDIA V100 (7.0)     [--gpu]
    system  linux-x86_64, libc unknown     [described]
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["probe", "--gpu", "V999"]), @r#"
        exit 2
        --- stdout
        --- stderr
        error: unknown GPU `V999`

        hint: the nearest names are `NVIDIA V100`, `NVIDIA A10`, `NVIDIA A100`; or pass
              its compute capability, as in `--gpu 8.6`: on its machine
              `nvidia-smi --query-gpu=compute_cap --format=csv` prints it
        "#);
    insta::assert_snapshot!(world.shown(&["probe", "--prefix", "x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --save <FILE>

    Usage: envlock probe --save <FILE> --prefix <DIR>

    For more information, try '--help'.
    ");
}

#[test]
fn solve() {
    let world = World::new();
    insta::assert_snapshot!(world.shown(&["resolve", "--dry-run"]), @r"
    exit 0
    --- stdout
    host   NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64 [--driver];
           kept from the lock, `--redetect` detects it again
    solved 8 packages, 9 kB to download in [TIME]

      torch         2.10.0+cu128  kept from the lock; code for 7.0
      cuda          12.8          native: driver >= 570.26
      cudnn         9.10.2.21     pinned by torch
      nccl          2.27.5        pinned by torch
      triton        3.6.0         pinned by torch
      python        3.12          asked for
      tool          1.0           kept from the lock

    runs on        driver >= 525.60.13; compute capability 7.5, 8.0, 8.6, 8.9, 9.0;
                   7.0 with driver < 590; 10.0, 12.0 with driver >= 570; 10.3, 12.1
                   with driver >= 575; glibc >= 2.28; linux-x86_64
    wrote          nothing (--dry-run)
    --- stderr
    note: --python 3.12, --only-index pypi kept from the lock; `--redetect` drops
          such options
    ");
    insta::assert_snapshot!(world.shown(&["resolve", "--variant", "cu130", "--dry-run"]), @r"
    exit 1
    --- stdout
    host   NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64 [--driver];
           kept from the lock, `--redetect` detects it again
    error: the requirements cannot be satisfied

      torch 2.8.0 to 2.15.0 are built for CUDA 12.6, 12.8, 12.9, 13.0, 13.2
        [file list of the project on PyPI, read 2026-11-21]
      torch 2.12.0 to 2.15.0 as cu132, 2.9.0 to 2.14.1 as cu130, 2.13.0 as cu129,
        and some as cu128 (code for 7.5 to 12.0) have no code for NVIDIA V100 (7.0)
        [file list of the project on PyPI, read 2026-11-21]
      you pin the variant cu130  [--variant]
      you require torch>=2.8  [envlock.toml]

    ways out, each of them solved:
      variant cu126             torch 2.14.1 cu126
          envlock resolve --variant cu126 --dry-run
    --- stderr
    note: beside other options, those that the lock was made with are dropped:
          --python 3.12, --only-index pypi
    hint: `envlock plan -v --gpu 'NVIDIA V100' --driver 580.65.06` lists every build
          that can run
    ");
    insta::assert_snapshot!(world.shown(&["resolve", "--gpu"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: a value is required for '--gpu <NAME>' but none was supplied

    For more information, try '--help'.
    ");
    let v100 = ["--gpu", "V100", "--driver", "580.65.06"];
    let plan = |torch: &str| world.shown(&[&["plan", torch], &v100[..]].concat());
    insta::assert_snapshot!(plan("torch>=2.8,<2.9"), @r"
    exit 0
    --- stdout
    host   NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64 [--driver]

      torch  variant  cudnn      index  driver  evidence
      2.8.0  cu128    9.10.2.21  pypi   native  measured
      and 2 more builds; `-v` or `--json` shows all

    --- stderr
    ");
    insta::assert_snapshot!(plan("torch==1.99"), @r"
    exit 3
    --- stdout
    host   NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64 [--driver]

    not known whether a build of `torch==1.99` runs on this machine
    unknown        the registry has no row of torch 1.99 for linux-x86_64, which may
                   exist

    --- stderr
    hint: `envlock registry learn torch==1.99` reads the release of PyPI
    ");
    insta::assert_snapshot!(plan("numpy"), @r"
    exit 2
    --- stdout
    --- stderr
    error: `plan` lists builds of torch, not of `numpy`
    ");
    insta::assert_snapshot!(world.shown(&["outdated"]), @r"
    exit 0
    --- stdout
    torch          2.10.0 cu128  locked
                   2.14.1 cu126  would run here, but the request limits torch, CUDA
                                 or the index
    packages       none can be newer unless another one or the request changes
    --- stderr
    ");
    insta::assert_snapshot!(world.without_lock(&["outdated"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["outdated", "--target", "nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the lock has no target `nosuch`

    hint: its targets are default
    ");
}

#[test]
fn ask() {
    let world = World::new();
    insta::assert_snapshot!(world.shown(&["why", "idna"]), @r"
    exit 0
    --- stdout
    idna 3.11, from pypi: newest compatible with requests and 1 more

    required by    requests 2.32.0 requires idna>=3
                   tool 1.0 requires idna<3.12
    newer          idna 3.12 is yanked; a yanked release is used only if pinned with
                   `==`
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["why", "nosuch"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: the lock has no package `nosuch`

    hint: `envlock list` names the locked packages
    ");
    insta::assert_snapshot!(world.shown(&["why"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <PKG>

    Usage: envlock why <PKG>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["tree", "--depth", "1"]), @r"
    exit 0
    --- stdout
    host     NVIDIA V100 (7.0), driver 580.65.06 (CUDA 13.0), linux-x86_64
             [--driver]
    runs on  driver >= 525.60.13; compute capability 7.5, 8.0, 8.6, 8.9, 9.0; 7.0
             with driver < 590; 10.0, 12.0 with driver >= 570; 10.3, 12.1 with
             driver >= 575; glibc >= 2.28; linux-x86_64
    ├── torch 2.10.0+cu128
    │   ├── filelock 3.20.0
    │   ├── nvidia-cudnn-cu12 9.10.2.21
    │   ├── triton 3.6.0
    │   └── typing-extensions 4.15.0
    └── tool 1.0
        ├── idna 3.11
        └── requests 2.32.0
    --- stderr
    ");
    insta::assert_snapshot!(world.without_lock(&["tree"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["tree", "--depth", "x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'x' for '--depth <N>': invalid digit found in string

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.without_lock(&["graph"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["graph", "--format", "x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'x' for '--format <FORMAT>'
      [possible values: text, dot, mermaid, svg, html]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["diff", "envlock.lock", "envlock.lock"]), @r"
    exit 0
    --- stdout
    no change in packages or in requirements on the machine
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["diff", "nosuch.lock", "envlock.lock"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: `nosuch.lock` is no file, and to read a commit there is no `git` on the
           PATH

    hint: name two locks: `envlock diff OLD.lock envlock.lock`
    ");
    insta::assert_snapshot!(world.shown(&["diff"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: `HEAD` is no file, and to read a commit there is no `git` on the PATH

    hint: name two locks: `envlock diff OLD.lock envlock.lock`
    ");
    insta::assert_snapshot!(world.shown(&["diff", "a", "b", "c"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: `diff` compares two locks

    hint: `envlock diff` compares the last commit with the working tree
    ");
    insta::assert_snapshot!(world.shown(&["list"]), @r"
    exit 0
    --- stdout
    filelock           3.20.0        pypi
    idna               3.11          pypi
    nvidia-cudnn-cu12  9.10.2.21     pypi
    requests           2.32.0        pypi
    tool               1.0           pypi
    torch              2.10.0+cu128  pypi
    triton             3.6.0         pypi
    typing-extensions  4.15.0        pypi
    --- stderr
    ");
    insta::assert_snapshot!(world.without_lock(&["list"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["list", "torch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: unexpected argument 'torch' found

    Usage: envlock list [OPTIONS]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["tree", "torch"]), @r"
    exit 0
    --- stdout
    └── torch 2.10.0+cu128
        ├── filelock 3.20.0
        ├── nvidia-cudnn-cu12 9.10.2.21
        ├── triton 3.6.0
        └── typing-extensions 4.15.0
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["tree", "--invert", "Idna"]), @r"
    exit 0
    --- stdout
    └── idna 3.11
        ├── requests 2.32.0
        │   └── tool 1.0
        └── tool 1.0
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["tree", "--invert"]), @r"
    exit 0
    --- stdout
    ├── filelock 3.20.0
    │   └── torch 2.10.0+cu128
    ├── idna 3.11
    │   ├── requests 2.32.0
    │   │   └── tool 1.0
    │   └── tool 1.0
    ├── nvidia-cudnn-cu12 9.10.2.21
    │   └── torch 2.10.0+cu128
    ├── triton 3.6.0
    │   └── torch 2.10.0+cu128
    └── typing-extensions 4.15.0
        └── torch 2.10.0+cu128
    --- stderr
    ");
    assert_eq!(world.shown(&["tree", "nosuch", "--json"]).lines().next(), Some("exit 1"));
    insta::assert_snapshot!(world.shown(&["tree", "nosuch"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: the lock has no package `nosuch`

    hint: `envlock list` names the locked packages
    ");
}

#[test]
fn install() {
    let world = World::new();
    insta::assert_snapshot!(world.shown(&["install", "numpy"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: what is installed is what the lock says, and no package is named

    hint: `envlock add numpy` takes it into the lock; then `envlock sync`
    ");
    insta::assert_snapshot!(world.without_lock(&["sync"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["sync", "--python"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: a value is required for '--python <FILE>' but none was supplied

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.without_lock(&["export", "requirements.txt"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["export", "conda-lock.yml"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'conda-lock.yml' for '<FORMAT>'
      [possible values: environment.yml, requirements.txt, requirements-build.txt, build-constraints.txt, pylock.toml, Dockerfile, conda-explicit, uv, pixi, pixi.lock, github, pre-commit, devcontainer, kubernetes, slurm, htcondor]

      tip: a similar value exists: 'conda-explicit'

    For more information, try '--help'.
    ");
}

#[test]
fn check() {
    let world = World::new();
    insta::assert_snapshot!(world.shown(&["verify", "--host", "old.toml"]), @r"
    exit 0
    --- stdout
    yes  old.toml  Tesla V100-SXM2-16GB (7.0), driver 580.65.06 >= 525.60.13, glibc 2.35 >= 2.28
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["verify", "--host", "new.toml"]), @r"
    exit 1
    --- stdout
    no   new.toml  driver 470.57.02 is below 525.60.13, which Tesla V100-SXM2-16GB (7.0) needs for this stack
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["verify"]), @r"
    exit 3
    --- stdout
    --- stderr
    error: no environment is active, and the project has none in `.venv`

    hint: `envlock sync` makes it; or name one with `--prefix DIR`, or activate it
          first
    ");
    insta::assert_snapshot!(world.shown(&["verify", "--smoke", "x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'x' for '--smoke <SMOKE>'
      [possible values: auto, cpu, cuda, off]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["run", "--", "python"]), @r"
    exit 125
    --- stdout
    --- stderr
    error: no environment is active, and the project has none in `.venv`

    hint: `envlock sync` makes it; or name one with `--prefix DIR`, or activate it
          first
    ");
    insta::assert_snapshot!(world.shown(&["run"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <CMD>...

    Usage: envlock run -- <CMD>...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.without_lock(&["guard"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: there is no envlock.lock

    hint: create it with `envlock resolve`; where there is no envlock.toml yet,
          `envlock init` writes one
    ");
    insta::assert_snapshot!(world.shown(&["guard", "--nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: unexpected argument '--nosuch' found

    Usage: envlock guard [OPTIONS]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["drift", "old.toml", "old.toml"]), @r"
    exit 0
    --- stdout
    nothing changed
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["drift", "old.toml", "new.toml"]), @r"
    exit 1
    --- stdout
    error: driver: 580.65.06 -> 470.57.02: the lock ran before and does not run
      now: driver 470.57.02 is below 525.60.13, which Tesla V100-SXM2-16GB (7.0)
      needs for this stack
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["drift"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <OLD>

    Usage: envlock drift <OLD> [NEW]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["fleet", "hosts", "hosts"]), @r"
    exit 1
    --- stdout
    2 nodes of 2 kinds, 0 without an answer

    lock envlock.lock
    no       new
             driver 470.57.02 is below 525.60.13, which Tesla V100-SXM2-16GB (7.0)
             needs for this stack
             with driver 525.60.13 or newer, below 590, they would run it
    yes      old
             Tesla V100-SXM2-16GB (7.0), driver 580.65.06 >= 525.60.13, glibc 2.35
             >= 2.28

    differences
      driver       470.57.02: new
                   580.65.06: old
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["fleet", "hosts", "nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: failed to read directory `nosuch`: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(world.shown(&["fleet"]), @r"
    exit 2
    --- stdout
    --- stderr
    Check which nodes can run which locks

    Usage: envlock fleet [OPTIONS] <COMMAND>

    Commands:
      hosts     From saved host files, one for each node
      slurm     From the nodes of a Slurm cluster that can answer now
      rehearse  What another driver, other GPUs or another lock would change, before anybody changes it
      help      Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
          --project <DIR>    Project folder
          --registry <DIR>   Use this registry instead of the program's; `embedded`: without its updates
          --cache-dir <DIR>  Cache folder
          --offline          Do not use the network; answer from the cache
          --json             Print one JSON document
      -q, --quiet            Print the verdict only: no notes, warnings, hints and progress bars
      -v, --verbose          Show more: every package with the reason for its version, every build
          --color <COLOR>    When to use colour [default: auto] [possible values: auto, always, never]
          --no-progress      Hide progress bars
    ");
    insta::assert_snapshot!(world.shown(&["image", "nosuch.tar"]), @r#"
        exit 2
        --- stdout
        --- stderr
        error: `nosuch.tar` does not exist

        hint: an image in a registry or a daemon is saved to a file first:
              `docker save nosuch.tar -o image.tar`,
              `skopeo copy docker://nosuch.tar oci-archive:image.tar`
        "#);
    insta::assert_snapshot!(world.shown(&["image"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <PATH>

    Usage: envlock image <PATH>

    For more information, try '--help'.
    ");
    world
        .project
        .write("log.txt", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB\n");
    insta::assert_snapshot!(world.shown(&["diagnose", "log.txt"]), @r"
    exit 3
    --- stdout
    unknown: no known cause found
    seen   line 1  torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to
           allocate 20.00 GiB
    --- stderr
    hint: add the output of `python -m torch.utils.collect_env` to the text, and ask
          again
    ");
    insta::assert_snapshot!(world.shown(&["diagnose", "nosuch.txt"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: cannot read `nosuch.txt`: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(world.shown(&["diagnose", "--explain"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: a value is required for '--explain <CODE>' but none was supplied

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["inspect", "nosuch.so"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: cannot read `nosuch.so`: No such file or directory (os error 2)

    hint: `inspect` reads shared libraries, folders with libraries, and wheels
    ");
    insta::assert_snapshot!(world.shown(&["inspect"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <PATH>...

    Usage: envlock inspect <PATH>...

    For more information, try '--help'.
    ");
}

#[test]
fn data() {
    let world = World::new();
    insta::assert_snapshot!(world.shown(&["registry", "show", "gpu", "V100"]), @r"
    exit 0
    --- stdout
    NVIDIA V100  compute capability 7.0
      architecture Volta, driver branches 384 (inferred) to 580
      torch        1.13.0 cu116 to 2.14.1 cu126 have code for it (linux-x86_64)
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["registry", "show", "torch", "1.99"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: the registry has no torch `1.99`
    ");
    insta::assert_snapshot!(world.shown(&["registry", "lint"]), @r"
    exit 0
    --- stdout
    305 torch builds, 44 GPUs, 130 sources: no problems
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["registry", "learn", "torch @ x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: `torch @ x` is not a valid requirement

    hint: pass a requirement such as `torch==2.15.0`, or the path or URL of a wheel
    ");
    insta::assert_snapshot!(world.shown(&["registry"]), @r#"
    exit 2
    --- stdout
    --- stderr
    Show, check and extend the compatibility data

    Usage: envlock registry [OPTIONS] <COMMAND>

    Commands:
      lint    Check the compatibility data for errors
      show    Show the rows of a subject: `torch 2.9.1`, `gpu A100`, `driver 535`; without one, which
              data are used
      learn   Read a wheel and print its compatibility data as a registry row
      update  Take newer compatibility data, signed, from the index `pypi`; used from then on
      pack    Write the compatibility data to sign, or with their signature the wheel that `update`
              takes
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
          --project <DIR>    Project folder
          --registry <DIR>   Use this registry instead of the program's; `embedded`: without its updates
          --cache-dir <DIR>  Cache folder
          --offline          Do not use the network; answer from the cache
          --json             Print one JSON document
      -q, --quiet            Print the verdict only: no notes, warnings, hints and progress bars
      -v, --verbose          Show more: every package with the reason for its version, every build
          --color <COLOR>    When to use colour [default: auto] [possible values: auto, always, never]
          --no-progress      Hide progress bars
    "#);
    insta::assert_snapshot!(world.shown(&["schema", "nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'nosuch' for '<NAME>'
      [possible values: manifest, host, lock]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["cache", "dir"]), @r"
    exit 0
    --- stdout
    [DIR]/cache
    --- stderr
    ");
    insta::assert_snapshot!(world.shown(&["cache", "nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'nosuch'

    Usage: envlock cache [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(world.shown(&["completions", "nosuch"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'nosuch' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

    For more information, try '--help'.
    ");
}
