#!/usr/bin/env bash
# `resolve` with a [conda] part over a generated channel of 150,000 records: time and peak memory, with an empty cache and with
# the channel in it.
#
#   benches/conda.sh
#
# Needs `cargo build --profile dist` and GNU time. The channel is served on loopback, and no PyPI package is asked for.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
envlock=${ENVLOCK:-$here/target/dist/envlock}
work=$(mktemp -d); server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
python3 - "$work/channel/conda-forge" <<'PY'
import json, os, random, sys

random.seed(1)
records = {}


def add(name, version, build, depends):
    records["%s-%s-%s.conda" % (name, version, build)] = {
        "name": name, "version": version, "build": build, "build_number": 0, "subdir": "linux-64",
        "depends": depends, "constrains": [], "sha256": "%064x" % random.getrandbits(256),
        "md5": "%032x" % random.getrandbits(128), "size": random.randint(1000, 10**6),
        "timestamp": 1700000000000, "license": "MIT",
    }


for i in range(15000):
    for release in range(10):
        needs = ["pkg%d >=%d" % (random.randint(0, i - 1), random.randint(0, 3))
                 for _ in range(random.randint(0, 4)) if i > 10]
        needs.append("python >=3.12,<3.13.0a0" if i % 3 == 0 else "libgcc >=13")
        add("pkg%d" % i, "%d.%d.0" % (release, i % 7), "h%d_0" % release, needs)
for version in ("3.12.1", "3.12.7"):
    add("python", version, "h0_0_cpython", ["libgcc >=13"])
add("libgcc", "14.1", "h0_0", [])
add("pip", "25.0", "h0_0", ["python >=3.12,<3.13.0a0"])
for subdir, packages in (("linux-64", records), ("noarch", {})):
    folder = os.path.join(sys.argv[1], subdir)
    os.makedirs(folder)
    with open(os.path.join(folder, "repodata.json"), "w") as out:
        json.dump({"info": {"subdir": subdir}, "packages": {}, "packages.conda": packages}, out)
print(len(records), "records")
PY
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$work/channel" >"$work/served" 2>/dev/null & server=$!
until port=$(grep -oE 'port [0-9]+' "$work/served" | cut -d' ' -f2) && [ -n "$port" ]; do sleep 0.1; done
mkdir "$work/project"; cd "$work/project"
export ENVLOCK_CONDA_CHANNEL_ALIAS=http://127.0.0.1:$port ENVLOCK_CACHE_DIR=$work/cache
# Everything can be reached from the first request; from the second, 67 packages, as from a real one.
for asked in '"pkg14997", "pkg14999"' '"pkg300"'; do
  printf '[project]\nname = "bench"\npython = "3.12"\ndependencies = []\n[conda]\nchannels = ["conda-forge"]\ndependencies = [%s]\n' "$asked" >envlock.toml
  rm -rf "$work/cache"
  for state in empty full full full; do
    rm -f envlock.lock environment.yml
    /usr/bin/time -f "$asked, cache $state: %e s, %M KiB" "$envlock" resolve --gpu none -q
  done
done
