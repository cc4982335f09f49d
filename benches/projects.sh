#!/usr/bin/env bash
# Real dependency files: `envlock resolve` beside `uv pip compile` in one run, both with a warm cache, the same Python.
#
#   benches/projects.sh [PROJECT...]
#
# Both run offline, from caches that a first run filled: the time that an index takes to answer is not measured. Needs
# uv and a Python >= 3.11 on PATH (a shim in front of the Python adds to uv's time), `cargo build --profile dist` (ENVLOCK names
# another one) and the projects (PROJECTS; default ../shared/projects). The host is an A100 with driver 580.65.06; only
# PyPI is asked. Each time is the median of RUNS (default 3) runs. uv gets the same requirements and the Python that
# envlock chose; it may build source distributions, which envlock never does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export ENVLOCK=${ENVLOCK:-$here/../target/dist/envlock}
export PROJECTS=${PROJECTS:-$here/../../shared/projects} RUNS=${RUNS:-3}
exec python3 - "$@" <<'PYTHON'
import json, os, pathlib, statistics, subprocess, sys, tempfile, time, tomllib

ENVLOCK, ROOT, RUNS = os.environ["ENVLOCK"], pathlib.Path(os.environ["PROJECTS"]), int(os.environ["RUNS"])
HOST = ["--gpu", "NVIDIA A100", "--driver", "580.65.06", "--glibc", "2.35", "--platform", "linux-x86_64",
        "--only-index", "pypi"]
LIMIT_S = 300


def timed(command, cwd):
    start = time.monotonic()
    try:
        code = subprocess.run(command, cwd=cwd, capture_output=True, timeout=LIMIT_S).returncode
    except subprocess.TimeoutExpired:
        code = 124
    return code, time.monotonic() - start


def median(command, cwd):
    """The status of a run that may ask the index, and the median time of runs that may not."""
    code, _ = timed(command, cwd)
    return code, statistics.median(timed([*command, "--offline"], cwd)[1] for _ in range(RUNS))


def requirements(manifest):
    """The lines of a manifest as uv reads them."""
    lines = list(manifest.get("project", {}).get("dependencies", []))
    for name, value in manifest.get("stack", {}).items():
        table = value if isinstance(value, dict) else {"version": value}
        if name in ("cuda", "cudnn", "nccl", "nvcc", "variant", "driver-policy", "same", "source"):
            continue
        version = table.get("version", "*")
        extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
        lines.append(name + extras + ("" if version == "*" else version))
    return lines


print(f"{'project':26} {'python':>6} {'envlock s':>9} {'uv s':>7} {'ratio':>6}")
ratios, slower = [], []
for project in json.load(open(ROOT / "projects.json")):
    name = project["name"]
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    with tempfile.TemporaryDirectory() as work:
        source = ROOT / name / project["file"]
        subprocess.run([ENVLOCK, "init", "--from", source], cwd=work, capture_output=True)
        stated = ["--python", project["python"]] if project.get("python") else []
        resolve = [ENVLOCK, "--no-progress", "resolve", *HOST, *stated]
        code, _ = timed(resolve, work)
        lock = pathlib.Path(work, "envlock.lock")
        if code or not lock.exists():
            again, ours = median(resolve, work)
            print(f"{name:26} {'':6} {ours:9.2f} {'':7} {'':6}  refused ({again})")
            continue
        python = tomllib.load(open(lock, "rb"))["target"][0]["python"]
        manifest = tomllib.load(open(pathlib.Path(work, "envlock.toml"), "rb"))
        pathlib.Path(work, "requirements.in").write_text("\n".join(requirements(manifest)) + "\n")
        lock.unlink()
        code, ours = median([*resolve, "--dry-run"], work)
        # `--python` spares uv the search for an interpreter of that version.
        uv = ["uv", "pip", "compile", "-q", "--generate-hashes", "--python", sys.executable, "--python-version", python, "--python-platform",
              "x86_64-manylinux_2_35", "requirements.in", "-o", "out.txt", "--upgrade"]
        code_uv, theirs = median(uv, work)
    if code_uv:
        print(f"{name:26} {python:>6} {ours:9.2f} {theirs:7.2f} {'':6}  uv refused ({code_uv})")
        continue
    ratios.append(ours / theirs)
    slower += [name] if ours > theirs else []
    print(f"{name:26} {python:>6} {ours:9.2f} {theirs:7.2f} {ours / theirs:6.2f}", flush=True)
if ratios:
    print(f"{len(ratios)} projects: median ratio {statistics.median(ratios):.2f}, largest {max(ratios):.2f}, "
          f"slower than uv: {', '.join(slower) or 'none'}")
PYTHON
