#!/usr/bin/env python3
"""Resolve every pip command that `envlock diagnose` prints for given cases.

usage: fix-commands.py CASES.jsonl... [--envlock PATH] [--uv PATH] [--show]

Each case is given as its reporter would paste it. Where the text names no Python, that of the fix counts. A command for
PyPI is resolved by `uv pip compile` for the Python and the system of its answer; one for the PyTorch index is checked
against registry/torch: a build of that release, variant and platform has to be there. Commands with a placeholder
(PACKAGE), a git address or a page of links are counted, not judged.
Exit status 1 if a command cannot be resolved.
"""
import argparse, collections, concurrent.futures, json, pathlib, re, shlex, subprocess, sys, tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTORCH = "https://download.pytorch.org/whl/"


def text_of(case, folder):
    parts = [(folder / case["dump"]).read_text()] if case.get("dump") else [case["env"]] if case.get("env") else []
    return "\n\n".join(parts + ([case["log"]] if case.get("log") else [])) + "\n"


def builds():
    """(release, variant, platform) of each build on the pytorch index, with its companions by package."""
    out = {}
    for file in sorted((ROOT / "registry/torch").glob("*.toml")):
        for row in tomllib.loads(file.read_text())["build"]:
            if "pytorch" in (row["index"], *row.get("also_on", [])):
                key = (row["version"], row["variant"], row["platform"])
                out[key] = {name: row[name] for name in ("torchvision", "torchaudio") if name in row}
    return out


def installs(command):
    """The arguments of each `pip install` in a command line."""
    for part in re.split(r"&&|;|`", command):
        try:
            words = shlex.split(part)
        except ValueError:
            continue
        words = [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]
        for at, word in enumerate(words):
            if word == "pip" and words[at + 1:at + 2] == ["install"]:
                yield words[at + 2:]


def parsed(words):
    """Requirements, index, whether another source is named, and whether dependencies are left out."""
    wanted, index, other, skip = [], None, False, None
    for word in words:
        if skip:
            index, other, skip = (word, other, None) if skip == "--index-url" else (index, True, None)
        elif word in ("--index-url", "-f", "--find-links", "--python", "--extra-index-url"):
            skip = word
        elif not word.startswith("-"):
            wanted.append(word)
    return wanted, index, other, "--no-deps" in words


def judge_pytorch(wanted, index, platform, known):
    variant = index[len(PYTORCH):].strip("/")
    pins = dict(word.split("==", 1) for word in wanted if "==" in word)
    release = pins.get("torch", "").split("+")[0]
    if not release:
        return None
    companions = known.get((release, variant, platform))
    if companions is None:
        return f"no build {release}+{variant} for {platform}"
    wrong = [name for name in ("torchvision", "torchaudio")
             if name in pins and name in companions and pins[name].split("+")[0] != companions[name]]
    return f"{wrong[0]} is not that of torch {release}" if wrong else None


def resolved(uv, wanted, no_deps, python, system):
    """Why it cannot be resolved for a Python; of an unknown one, for none of these."""
    if not python:
        faults = [resolved(uv, wanted, no_deps, one, system) for one in ("3.12", "3.10", "3.8")]
        return faults[0] if all(faults) else None
    command = [uv, "pip", "compile", "-q", "--no-header", "--python-version", python, "--python-platform", system, "-"]
    ended = subprocess.run(command + (["--no-deps"] if no_deps else []), input="\n".join(wanted), text=True, capture_output=True)
    return None if ended.returncode == 0 else ended.stderr.strip().splitlines()[-1][:160]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("cases", nargs="+", type=pathlib.Path)
    ap.add_argument("--envlock", default=ROOT / "target/release/envlock")
    ap.add_argument("--uv", default="uv")
    ap.add_argument("--show", action="store_true")
    a = ap.parse_args()
    known, counts, wrong, to_resolve = builds(), collections.Counter(), [], {}
    for path in a.cases:
        for line in path.read_text().splitlines():
            case = json.loads(line)
            run = subprocess.run([a.envlock, "diagnose", "--json", "-"], input=text_of(case, path.parent), text=True,
                                 capture_output=True)
            answer = json.loads(run.stdout)
            text = json.dumps(answer["facts"]) + text_of(case, path.parent)
            windows = re.search(r"Windows|[A-Z]:\\", text) and not re.search(r"WSL|microsoft-standard", text)
            python = re.search(r"3\.\d+", answer["facts"]["python"] or "")
            for cause in answer["causes"]:
                for fix in cause["fix"]:
                    for words in installs(fix.split("   # ")[0]):
                        wanted, index, other, no_deps = parsed(words)
                        if not wanted:
                            continue
                        if other or any("PACKAGE" in w or w.startswith("git+") or "$" in w for w in wanted):
                            counts["not judged"] += 1
                        elif index and index.startswith(PYTORCH):
                            counts["pytorch index"] += 1
                            platform = "windows-x86_64" if windows else "linux-aarch64" if "aarch64" in text else "linux-x86_64"
                            fault = judge_pytorch(wanted, index, platform, known)
                            if fault:
                                wrong.append((case["id"], fix, fault))
                        elif index:
                            counts["other index"] += 1
                        else:
                            counts["PyPI"] += 1
                            stated = re.search(r"(?:needs|to) Python (3\.\d+)|to (3\.\d+)", fix)
                            stated = stated and (stated[1] or stated[2])
                            # Of Python 3.6, torch takes 3.6.2 and newer.
                            python_of = (stated or (python and python[0]) or "").replace("3.6", "3.6.15")
                            key = (tuple(wanted), no_deps, python_of, "windows" if windows else "linux")
                            to_resolve.setdefault(key, (case["id"], fix))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        faults = pool.map(lambda key: resolved(a.uv, list(key[0]), *key[1:]), to_resolve)
        wrong += [(*to_resolve[key], f"Python {key[2] or '3.12'}, {key[3]}: {fault}") for key, fault in zip(to_resolve, faults) if fault]
    for case, fix, fault in wrong:
        print(f"- {case}: {fix}\n  {fault}")
    print("; ".join(f"{name} {count}" for name, count in counts.items())
          + f"; {len(to_resolve)} resolved by uv; {len(wrong)} cannot be resolved")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
