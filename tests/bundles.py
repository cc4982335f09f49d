"""Bundles of real projects, installed without a network: `python3 tests/bundles.py PROGRAM PROJECTS [--torch N] [--other N]
[--build]`.

PROJECTS is a folder of projects with requirements files, a pyproject.toml or an environment.yml. Each that locks on the live index
is bundled and installed by `sync --bundle` in a network namespace without interfaces, with an empty cache of uv, and by `sync` with
the network; the files of packages are compared. Needs root (`unshare -n`) and a Python of the series that is here.
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

NAMES = ["requirements*.txt", "pyproject.toml", "environment*.yml"]
# What installers and the run write themselves.
RECORDS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"}


def run(command, folder, environment=None, timeout=1800):
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, timeout=timeout, check=False
    )


def files_of(prefix):
    """The files of packages below site-packages, with their content's size and, where they are small, the content."""
    (site,) = prefix.glob("lib/python*/site-packages")
    found = {}
    owners = collections.Counter()
    for record in site.glob("*.dist-info/RECORD"):
        owners.update({line.split(",")[0].strip('"') for line in record.read_text(errors="replace").splitlines()})
    for path in site.rglob("*"):
        if not path.is_file() or "__pycache__" in path.parts or path.name in RECORDS:
            continue
        # Which of two owners writes last is chance.
        if owners[str(path.relative_to(site))] > 1:
            continue
        size = path.stat().st_size
        found[str(path.relative_to(site))] = (size, path.read_bytes() if size < 1 << 20 else sample(path, size))
    return found


def owned_by(work, info):
    """The files of a package in either environment."""
    for record in work.glob(f"o*/lib/python*/site-packages/{info}/RECORD"):
        yield from (line.split(",")[0].strip('"') for line in record.read_text(errors="replace").splitlines())


def built(lock, work):
    """The folders of the packages that are built from source distributions."""
    names = {p["name"] for p in tomllib.loads(lock)["package"] if not p["files"][0]["name"].endswith(".whl")}
    for info in work.glob("off/lib/python*/site-packages/*.dist-info"):
        if info.name.split("-")[0].lower().replace("_", "-") in names:
            yield info.name


def sample(path, size):
    with path.open("rb") as file:
        parts = []
        for at in (0, size // 3, size // 2, size - 65536):
            file.seek(at)
            parts.append(file.read(65536))
        return parts


def project(program, source, work, options):
    """Bundles one project and installs it twice. Returns what happened, and whether it has torch."""
    names = [path for pattern in NAMES for path in sorted(source.glob(pattern))]
    if not names:
        return "no file", False
    machine = ["--gpu", "H100", "--driver", "580.159.04", "--python", f"3.{sys.version_info.minor}"]
    option = "-r" if names[0].suffix == ".txt" else "--from"
    if option == "--from":
        done = run([program, "init", "--from", str(names[0])], work)
        if done.returncode:
            return "init: " + done.stderr[:120], False
        option = None
    files = [option, str(names[0])] if option else []
    done = run([program, "resolve", *files, "--only-index", "pypi", *machine], work)
    if done.returncode:
        return "resolve: " + " ".join(done.stderr.split())[:100], False
    lock = (work / "envlock.lock").read_text()
    has_torch = '\nname = "torch"\n' in lock
    done = run([program, "bundle", "--dry-run", "--json"], work)
    if done.returncode:
        return "bundle: " + " ".join(done.stderr.split())[:120], has_torch
    size = json.loads(done.stdout)["bytes"]
    if size > 6 << 30:
        return f"{size >> 20} MiB are too many", has_torch
    start = time.monotonic()
    done = run([program, "bundle", "-o", "bundle", "--python", "none", *(["--build"] if options.build else [])], work)
    if done.returncode:
        return "FAILED bundle: " + done.stderr[-300:], has_torch
    bundled = time.monotonic() - start
    environment = {"PATH": os.environ["PATH"], "HOME": str(work), "UV_CACHE_DIR": str(work / "cache-off"),
                   "ENVLOCK_CACHE_DIR": str(work / "cache-off-e")}
    start = time.monotonic()
    done = run(["unshare", "-n", program, "sync", "--bundle", "bundle", "--prefix", "off", "--build", "--smoke", "off"],
               work, environment)
    offline = time.monotonic() - start
    if done.returncode and "which was not found here" in done.stderr:
        return "another Python is locked", has_torch
    without = done
    shutil.rmtree(work / "cache-off", ignore_errors=True)
    shutil.rmtree(work / "bundle")
    done = run([program, "sync", "--prefix", "on", "--build", "--no-project", "--smoke", "off"], work)
    if without.returncode != done.returncode:
        return f"FAILED: {without.returncode} without a network, {done.returncode} with one: " + without.stderr[-600:], has_torch
    if done.returncode:
        return "cannot be installed with a network either: " + " ".join(done.stdout.split())[-160:], has_torch
    off, on = files_of(work / "off"), files_of(work / "on")
    differ = {name for name in off.keys() | on.keys() if off.get(name) != on.get(name)}
    # Where the lock admits several wheels of a release, an installer that may choose takes the one of the newest glibc, and the bundle
    # has the one that installs on the oldest.
    others = {name.split("/")[0] for name in differ if name.endswith(".dist-info/WHEEL")}
    owned = {name for info in others for name in owned_by(work, info)}
    # What is compiled here is not the same each time.
    owned |= {name for info in built(lock, work) for name in owned_by(work, info)}
    if differ - owned:
        return f"FAILED: {len(differ - owned)} files differ: {sorted(differ - owned)[:4]}", has_torch
    other = f", {len(others)} packages by another wheel of the same release" if others else ""
    told = f"{len(on)} files, {size >> 20} MiB, bundled in {bundled:.0f} s, installed in {offline:.0f} s{other}"
    return f"ok: {told}", has_torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("projects", type=Path)
    parser.add_argument("--torch", type=int, default=5)
    parser.add_argument("--other", type=int, default=15)
    parser.add_argument("--build", action="store_true", help="wheels of sources in the bundle")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    left = {True: options.torch, False: options.other}
    failed = 0
    for source in sorted(path for path in options.projects.resolve().iterdir() if path.is_dir()):
        text = "".join(p.read_text(errors="replace") for n in NAMES for p in source.glob(n))
        if not any(left.values()) or not left["torch" in text]:
            continue
        with tempfile.TemporaryDirectory(prefix="bundles-") as work:
            try:
                told, has_torch = project(program, source, Path(work), options)
            except (subprocess.TimeoutExpired, ValueError) as error:
                told, has_torch = f"FAILED: {error}", False
        print(f"{source.name:<24} {'torch' if has_torch else '':<6} {told}", flush=True)
        failed += told.startswith("FAILED")
        if told.startswith("ok"):
            left[has_torch] -= 1
    print(f"left: {left[True]} with torch, {left[False]} without; {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
