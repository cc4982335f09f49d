"""See ../on-gpu.sh."""

import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import checks
import failures
from table import Envlock, Table


def main():
    program, out = sys.argv[1], os.path.abspath(sys.argv[2])
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="envlock-on-gpu-") as folder:
        envlock, table = Envlock(program, folder), Table()
        probe = envlock("probe", "--json").json()
        if not probe.get("gpus"):
            print("no GPU here: %s" % probe)
            return 3
        steps = [step for step in checks.ALL + failures.ALL if not sys.argv[3:] or step.__name__ in sys.argv[3:]]
        for step in steps:
            step(envlock, table, out)
        head = {"envlock": envlock("--version").out.strip(), "machine": probe, "seconds": round(time.monotonic() - start)}
        table.save(os.path.join(out, "on-gpu.json"), head)
    differ = len(table.differences())
    shown = sum(row[4] is not None for row in table.rows)
    print("\n%d of %d as expected, %d not shown here, %d s" % (shown - differ, shown, len(table.rows) - shown, head["seconds"]))
    return 1 if differ else 0


sys.exit(main())
