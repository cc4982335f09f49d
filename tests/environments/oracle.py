#!/usr/bin/env python3
"""Predicts from files alone which packages can be imported, then imports them, and prints how often that was right.

    oracle.py ENVLOCK PREFIX...

A package counts as predicted to fail if `envlock verify` reports an error about it whose code is about imports. Then each
of its top-level modules is imported in the environment's own Python, in a process of its own, on the CPU.
"""

import json
import os
import re
import subprocess
import sys

CODES = {"undefined-symbol", "missing-library", "extension-abi", "unreadable-library", "missing-file", "missing-symbol-version",
         "broken-requirement", "known-incompatible", "shadowed-package", "file-owned-twice"}


def modules(site, info):
    """The packages with an `__init__.py` and the modules that a RECORD lists."""
    found = set()
    with open(os.path.join(site, info, "RECORD"), encoding="utf-8") as record:
        for line in record:
            path = line.split(",")[0].strip('"')
            parts = path.split("/")
            if len(parts) == 2 and parts[1] == "__init__.py":
                found.add(parts[0])
            elif len(parts) == 1 and path.endswith(".py"):
                found.add(path[:-3])
    return sorted(name for name in found if name.isidentifier() and not name.startswith("_"))


def main(envlock, prefixes):
    counts = {"right failures": 0, "wrong failures": 0, "missed": 0, "right": 0}
    for prefix in prefixes:
        out = subprocess.run([envlock, "verify", "--prefix", prefix, "--smoke", "off", "--json"], capture_output=True, text=True)
        errors = [f for f in json.loads(out.stdout)["findings"] if f["severity"] == "error" and f["code"] in CODES]
        lib = os.path.join(prefix, "lib")
        site = os.path.join(lib, next(d for d in os.listdir(lib) if d.startswith("python3")), "site-packages")
        for info in sorted(d for d in os.listdir(site) if d.endswith(".dist-info")):
            package = info.split("-")[0].replace("_", "-").lower()
            word = re.compile(r"(?<![\w.-])%s(?![\w-])" % re.escape(package))
            told = [f for f in errors if word.search(f["message"].lower().replace("_", "-"))]
            for module in modules(site, info):
                try:
                    run = subprocess.run([os.path.join(prefix, "bin/python"), "-c", "import " + module], cwd="/",
                                         capture_output=True, text=True, timeout=180)
                    failure = None if run.returncode == 0 else (run.stderr.strip().splitlines() or ["?"])[-1]
                except subprocess.TimeoutExpired:
                    continue
                kind = {(True, True): "right failures", (True, False): "wrong failures", (False, True): "missed",
                        (False, False): "right"}[bool(told), failure is not None]
                counts[kind] += 1
                if kind != "right":
                    print("%s: %s: %s: %s" % (kind, package, module, failure or told[0]["message"]))
    predicted = counts["right failures"] + counts["wrong failures"]
    real = counts["right failures"] + counts["missed"]
    print(counts)
    print("precision %d of %d, recall %d of %d" % (counts["right failures"], predicted, counts["right failures"], real))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
