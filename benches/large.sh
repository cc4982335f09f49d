#!/usr/bin/env bash
# Large requests and families of packages that pin each other: `envlock resolve` beside `uv pip compile` in one run, both
# offline with a warm cache and the same Python.
#
#   benches/large.sh
#
# Needs uv and a Python >= 3.11 on PATH (a shim in front of the Python adds to uv's time), `cargo build --profile dist`
# (ENVLOCK names another one) and the requests (LARGE; default ../shared/projects/large). The host is an A100 with driver
# 580.65.06; only PyPI is asked. Each time is the median of RUNS (default 3) runs, beside the user CPU time of the last.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export ENVLOCK=${ENVLOCK:-$here/../target/dist/envlock}
export LARGE=${LARGE:-$here/../../shared/projects/large} RUNS=${RUNS:-3}
exec python3 - <<'PYTHON'
import os, pathlib, resource, statistics, subprocess, tempfile, time

ENVLOCK, ROOT, RUNS = os.environ["ENVLOCK"], pathlib.Path(os.environ["LARGE"]).resolve(), int(os.environ["RUNS"])
HOST = ["--gpu", "NVIDIA A100", "--driver", "580.65.06", "--glibc", "2.35", "--platform", "linux-x86_64",
        "--only-index", "pypi", "--dry-run", "--quiet"]
PYTHON = "3.13"


def run(command):
    """Seconds and user CPU seconds of a run in an empty folder, where no earlier answer is kept."""
    with tempfile.TemporaryDirectory() as work:
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        ended = subprocess.run(command, cwd=work, capture_output=True, timeout=300)
        took = time.monotonic() - start
        return ended.returncode, took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def median(command):
    code, *_ = run(command)
    runs = [run([*command, "--offline"]) for _ in range(RUNS)]
    code = code or runs[-1][0]
    return code, statistics.median(took for _, took, _ in runs), runs[-1][2]


lines = (ROOT / "families.txt").read_text().splitlines()
requests = [("ml-shop.in", ROOT / "ml-shop.in")] + [(line, None) for line in lines if line.strip()]
print(f"{'request':60} {'envlock s':>9} {'CPU':>6} {'uv s':>7} {'CPU':>6} {'ratio':>6}")
for name, file in requests:
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write(file.read_text() if file else "\n".join(name.split()))
        source.flush()
        code, own, own_cpu = median([ENVLOCK, "resolve", "-r", source.name, "--python", PYTHON, *HOST])
        uv = ["uv", "pip", "compile", "-q", "--generate-hashes", "--python-version", PYTHON, "-o", "out.txt", source.name]
        uv_code, other, other_cpu = median(uv)
    marks = f"  exit {code} and {uv_code}" if code or uv_code else ""
    print(f"{name[:60]:60} {own:9.2f} {own_cpu:6.2f} {other:7.2f} {other_cpu:6.2f} {own / other:6.1f}{marks}", flush=True)
PYTHON
