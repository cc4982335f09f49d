#!/usr/bin/env python3
"""Figures of the source: lines of code by module, long functions, files of one name, environment variables.

Usage: tests/figures.py [SRC]. A line of code is one that is neither blank nor a comment, outside `#[cfg(test)]` modules and
files named tests.rs. Run it on two commits to compare them.
"""

import collections
import pathlib
import re
import sys

SRC = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")
# Folders whose parts are of one kind (a format, a command), so that files of one name in them count once.
PARALLEL = {"formats", "cli/commands"}


def code(path):
    """The lines of code of a file, each with its number."""
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("#[cfg(test)]") and "mod tests" in " ".join(lines[number : number + 3]):
            return
        if line.strip() and not line.strip().startswith("//"):
            yield number, line


def functions(path):
    """The functions of a file with their lengths in lines of code."""
    lines = list(code(path))
    for at, (_, line) in enumerate(lines):
        found = re.match(r"( *)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \"C\" )*fn (\w+)", line)
        if not found or line.rstrip().endswith(";"):
            continue
        end = next((i for i in range(at, len(lines)) if lines[i][1] == found[1] + "}"), at)
        yield found[2], end - at + 1


def main():
    by_module, long, places, variables = collections.Counter(), [], collections.defaultdict(set), collections.Counter()
    for path in sorted(SRC.rglob("*.rs")):
        if path.name == "tests.rs" or "tests" in path.parts:
            continue
        module = path.relative_to(SRC).parts[0].removesuffix(".rs")
        lines = list(code(path))
        by_module[module] += len(lines)
        long += [(length, f"{path.relative_to(SRC)}::{name}") for name, length in functions(path) if length > 80]
        if path.name not in ("mod.rs", "types.rs"):
            folder = path.relative_to(SRC).parent
            kind = next((kind for kind in PARALLEL if folder.is_relative_to(kind)), None)
            places[path.stem].add(kind or folder)
        uses = sum(len(re.findall(r"env::var(?:_os|s|s_os)?\b", line)) for _, line in lines)
        if uses:
            variables[str(path.relative_to(SRC))] += uses
    print(f"{sum(by_module.values()):7,}  lines of code")
    for module, count in by_module.most_common():
        print(f"{count:7,}  {module}")
    over = [one for one in long if one[0] > 100]
    print(f"\n{len(over)} functions above 100 lines, {len(long) - len(over)} more above 80")
    for length, name in sorted(over, reverse=True):
        print(f"{length:5}  {name}")
    many = sorted(f"{len(folders)} {name}" for name, folders in places.items() if len(folders) > 2)
    print("\nfiles of one name, more than two: " + (", ".join(many) or "none"))
    print(f"reads of environment variables: {sum(variables.values())} in {len(variables)} files")


try:
    main()
except BrokenPipeError:
    sys.stderr.close()
