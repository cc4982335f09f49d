#!/usr/bin/env python3
"""What the live index says of releases that the registry has: `registry learn` must give the shipped rows, and a registry
without the newest series must answer as the whole one does. Says so, and exits with 0, where the index does not answer.

usage: live.py ENVLOCK [--aged K ...]
"""
import argparse, json, os, re, shutil, subprocess, sys, tempfile, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "registry")
MACHINES = [
    ["--gpu", "NVIDIA H200", "--driver", "580.65.06"],
    ["--gpu", "NVIDIA GeForce RTX 4090", "--driver", "550.54.15"],
    ["--gpu", "none"],
    ["--gpu", "NVIDIA GB200", "--driver", "580.65.06", "--platform", "linux-aarch64"],
]


def number(series):
    return [int(part) for part in re.findall(r"\d+", series)]


def series():
    return sorted((name[:-5] for name in os.listdir(f"{ROOT}/torch")), key=number)


def builds(name):
    """The rows of a series that PyPI has for Linux on x86-64."""
    rows = open(f"{ROOT}/torch/{name}.toml").read().split("[[build]]")[1:]
    value = lambda row, key: re.search(rf'^{key} = "([^"]*)"', row, re.M).group(1)
    wanted = {"index": "pypi", "platform": "linux-x86_64"}
    return [value(row, "version") for row in rows if all(value(row, key) == v for key, v in wanted.items())]


def run(*command):
    done = subprocess.run([ENVLOCK, *command], capture_output=True, text=True, cwd=WORK)
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except json.JSONDecodeError:
        return done.returncode, None, done.stderr


def learn(release):
    start = time.monotonic()
    code, answer, talk = run("registry", "learn", f"torch=={release}", "--json")
    if code == 3:
        print(f"skipped: the index does not answer: {talk.strip()[:300]}")
        sys.exit(0)
    if code != 0 or answer.get("known") != []:
        sys.exit(f"torch {release}: exit {code}, differs in {answer and answer.get('known')}\n{talk}")
    print(f"torch {release}: as in the registry, {time.monotonic() - start:.1f} s")


def aged(count):
    """A copy of the registry without its newest series and what was released with them."""
    gone = series()[-count:]
    folder = os.path.join(WORK, f"aged-{count}")
    shutil.copytree(ROOT, folder)
    beside = set()
    for name in gone:
        path = f"{folder}/torch/{name}.toml"
        beside |= set(re.findall(r'^torchvision = "([^"]+)"', open(path).read(), re.M))
        os.remove(path)

    def stays(block):
        value = lambda key: (re.search(rf'^{key} = "(?:[=~>]=)?([^"]*)"', block, re.M) or ["", ""])[1]
        minor = lambda version: ".".join(version.split(".")[:2])
        package, version, torch = value("package"), value("version"), value("torch")
        return not (
            minor(torch) in gone
            or package == "torchvision" and version in beside
            or package == "torchaudio" and minor(version) in gone
        )

    path = f"{folder}/companions.toml"
    blocks = re.split(r"(?=^\[\[companion\]\])", open(path).read(), flags=re.M)
    open(path, "w").write("".join(block for block in blocks if stays(block)))
    return folder


def answer(machine, *registry):
    start = time.monotonic()
    asked = ["resolve", "torch", "torchvision", *machine, "--only-index", "pypi", "--dry-run", "--json"]
    code, found, talk = run(*registry, *asked)
    if code != 0:
        sys.exit(f"{machine}: exit {code}\n{talk}")
    target = found["targets"][0]
    return [target[key] for key in ("stack", "envelope", "driver_mode", "python")], time.monotonic() - start


arguments = argparse.ArgumentParser()
arguments.add_argument("envlock")
arguments.add_argument("--aged", type=int, nargs="*", default=[])
arguments = arguments.parse_args()
ENVLOCK = os.path.abspath(arguments.envlock)
with tempfile.TemporaryDirectory() as WORK:
    newest = next(rows for rows in map(builds, reversed(series())) if rows)
    learn(max(newest, key=number))
    learn("2.9.1")
    for count in arguments.aged:
        folder = aged(count)
        for machine in MACHINES:
            whole, _ = answer(machine)
            cache = tempfile.mkdtemp(dir=WORK)
            found, seconds = answer(machine, "--registry", folder, "--cache-dir", cache)
            if found != whole:
                sys.exit(f"without the newest {count}: {machine}\nwhole {whole}\naged  {found}")
            print(f"without the newest {count}: {' '.join(machine)}: the same, {seconds:.1f} s cold")
