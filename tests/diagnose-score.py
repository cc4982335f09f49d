#!/usr/bin/env python3
"""Scores `envlock diagnose` on a folder of real cases: plain, and leaving one theme out.

usage: tests/diagnose-score.py --cases DIR [--envlock PATH] [--registry DIR]

A rule that was learned from public threads names them in `from`. For the second figure, each theme's cases are diagnosed
without the rules whose `from` lies wholly in that theme: what remains is derived from definitions or learned elsewhere.
DIR holds `cases.jsonl`: one object a line with `source`, `theme`, `component` (`none` for a healthy machine) and the texts
`env`, `log`, `dump` (a file). Run by hand; prints a line for each theme that loses cases, then the figures.
"""
import argparse, collections, json, pathlib, re, shutil, subprocess, tempfile, tomllib


def text_of(case, folder):
    parts = [(folder / case["dump"]).read_text()] if case.get("dump") else [case.get("env") or ""]
    return "\n\n".join(parts + [case.get("log") or ""]) + "\n"


def is_right(case, folder, command):
    run = subprocess.run(command, input=text_of(case, folder), capture_output=True, text=True, timeout=60)
    answer = json.loads(run.stdout)
    if case["component"] == "none":
        return answer["verdict"] != "problem"
    return bool(answer["causes"]) and answer["causes"][0]["component"] == case["component"]


def without(registry, target, sources):
    """Copies a registry; the rules learned from these sources alone match nothing in the copy."""
    shutil.copytree(registry, target, dirs_exist_ok=True)
    gone = 0
    for path in [target / "errors.toml", *(target / "errors").glob("*.toml")]:
        text = path.read_text()
        for rule in tomllib.loads(text).get("error", []):
            learned = rule.get("from", [])
            if learned and set(learned) <= sources:
                start = text.index(f'id = "{rule["id"]}"')
                text = text[:start] + re.sub(r"match = \[.*?\]\n", 'match = ["\\\\u0001"]\n', text[start:], count=1, flags=re.S)
                gone += 1
        path.write_text(text)
    return gone


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--envlock", default=str(root / "target" / "release" / "envlock"))
    parser.add_argument("--registry", type=pathlib.Path, default=root / "registry")
    args = parser.parse_args()
    cases = [json.loads(line) for line in (args.cases / "cases.jsonl").read_text().splitlines() if line.strip()]
    themes = collections.defaultdict(list)
    for case in cases:
        themes[case["theme"]].append(case)
    plain, held_out, failures = 0, 0, 0
    for theme, members in sorted(themes.items()):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder)
            gone = without(args.registry, target, {case["source"] for case in members})
            judged = [case for case in members if case["component"] != "none"]
            failures += len(judged)
            own = sum(is_right(c, args.cases, [args.envlock, "diagnose", "--json", "-"]) for c in judged)
            left = own
            if gone:
                command = [args.envlock, "--registry", folder, "diagnose", "--json", "-"]
                left = sum(is_right(c, args.cases, command) for c in judged)
            if left != own:
                print(f"{theme:24} {own} of {len(judged)}, without its {gone} rules {left}")
            plain, held_out = plain + own, held_out + left
    print(f"failures {plain}/{failures} = {plain / failures:.2f}; leaving one theme out {held_out}/{failures} = {held_out / failures:.2f}")


if __name__ == "__main__":
    main()
