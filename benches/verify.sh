#!/usr/bin/env bash
# verify, inspect, run and verify --deep beside what people use today, in one run.
#
#   PREFIX=... PROJECT=... benches/verify.sh
#
# PREFIX is a venv with torch that was installed from PROJECT's lock. Needs hyperfine, `cargo build --profile dist`, and for inspect's
# neighbour the triton package in PREFIX (its cuobjdump).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
envlock=${ENVLOCK:-$here/target/dist/envlock}
site=$(ls -d "$PREFIX"/lib/python3.*/site-packages)
cd "$PROJECT"
median() { python3 -c "import json,sys; print(*['%-44s %9.1f ms' % (r['command'], r['median'] * 1e3) for r in json.load(open(sys.argv[1]))['results']], sep='\n')" "$1"; }
out=$(mktemp); trap 'rm -f "$out"' EXIT

hyperfine -N -w 2 -r 11 --export-json "$out" \
  -n "verify --smoke off" "$envlock verify --prefix $PREFIX --smoke off --quiet" >/dev/null 2>&1; median "$out"
hyperfine -N -w 1 -r 5 --export-json "$out" \
  -n "python -m torch.utils.collect_env" "$PREFIX/bin/python -m torch.utils.collect_env" >/dev/null 2>&1; median "$out"
hyperfine -N -w 2 -r 11 --export-json "$out" \
  -n "inspect libtorch_cuda.so" "$envlock inspect $site/torch/lib/libtorch_cuda.so" >/dev/null 2>&1; median "$out"
cuobjdump=$site/triton/backends/nvidia/bin/cuobjdump
if [ -x "$cuobjdump" ]; then
  hyperfine -N -w 1 -r 3 -i --export-json "$out" \
    -n "cuobjdump --list-elf libtorch_cuda.so" "$cuobjdump --list-elf $site/torch/lib/libtorch_cuda.so" >/dev/null 2>&1; median "$out"
fi
"$envlock" run --prefix "$PREFIX" -- true
hyperfine -N -w 3 -r 31 --export-json "$out" \
  -n "true" "true" -n "run -- true, unchanged" "$envlock run --prefix $PREFIX -- true" >/dev/null 2>&1; median "$out"
# Memory of its own, without the pages of mapped libraries.
python3 - "$envlock" verify --prefix "$PREFIX" --smoke off --quiet <<'PY'
import subprocess, sys
child, most = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL), 0
while child.poll() is None:
    try:
        lines = open("/proc/%d/status" % child.pid).readlines()
        most = max([most] + [int(line.split()[1]) for line in lines if line.startswith("RssAnon")])
    except OSError:
        pass
print("verify: %.1f MB of memory of its own" % (most / 1024))
PY
bytes=$(find "$site" -type f -not -name '*.pyc' -printf '%s\n' | awk '{s += $1} END {print s}')
hyperfine -N -w 1 -r 5 --export-json "$out" \
  -n "verify --deep" "$envlock verify --prefix $PREFIX --smoke off --deep --quiet" >/dev/null 2>&1; median "$out"
python3 -c "import json,sys; r = json.load(open(sys.argv[1]))['results'][0]; print('verify --deep: %.2f GB/s' % ($bytes / 1e9 / r['median']))" "$out"
(cd "$here" && cargo bench --quiet --locked --bench sha2) | sed 's/^/two threads of sha2: /'
