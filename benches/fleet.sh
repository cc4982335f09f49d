#!/usr/bin/env bash
# `fleet hosts` over generated host files: time and peak memory for 1,000 and for 10,000 nodes, with a lock.
#
#   LOCK=uv.lock benches/fleet.sh
#
# LOCK is any lock that envlock reads. Needs `cargo build --profile dist` and GNU time.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
envlock=${ENVLOCK:-$here/target/dist/envlock}
nodes=$(mktemp -d); trap 'rm -rf "$nodes"' EXIT
for count in 1000 10000; do
  python3 - "$nodes" "$count" <<'PY'
import sys
folder, count = sys.argv[1], int(sys.argv[2])
gpus = [("NVIDIA H100 80GB HBM3", "9.0", 81559, 4), ("NVIDIA A100-SXM4-80GB", "8.0", 81920, 8)]
drivers = ["580.65.06", "570.86.15", "535.129.03", "470.129.06"]
for n in range(1, count + 1):
    name, capability, memory, many = gpus[n % 2]
    text = 'schema = 1\n[driver]\nversion = "%s"\n' % drivers[n // 250 % 4]
    for gpu in range(many):
        text += '[[gpu]]\nname = "%s"\ncompute_capability = "%s"\nmemory_mib = %d\nuuid = "GPU-%d-%d"\n' % (name, capability, memory, n, gpu)
    open("%s/n%d.toml" % (folder, n), "w").write(text + '[system]\nglibc = "2.35"\n')
PY
  for _ in 1 2 3; do
    /usr/bin/time -f "$count nodes: %e s, %M KiB" "$envlock" fleet hosts "$nodes" --lock "$LOCK" >/dev/null || true
  done
done
