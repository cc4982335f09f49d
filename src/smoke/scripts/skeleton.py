# The skeleton of envlock's smoke scripts; a framework's own part follows it. It writes one JSON document to the file
# named by the first argument, anew after each step: a crash leaves what was reached. The second argument is auto,
# cpu or cuda.
import json
import sys
import time

out_path, wanted = sys.argv[1], sys.argv[2]
checks = []
# Timings that envlock judges: see speed.rs.
compared = []
state = {"layer": "start", "device": None}


def save():
    with open(out_path, "w") as out:
        json.dump({"checks": checks, "compared": compared, "reached": state}, out)


def layer(name, device):
    state["layer"], state["device"] = name, device
    save()


def add(name, device, passed, detail):
    checks.append({"name": name, "layer": state["layer"], "device": device, "passed": bool(passed), "detail": detail})
    save()


def judged(name, device, worst, tolerance):
    # Not a number is larger than nothing: said the other way round it would pass.
    add(name, device, worst <= tolerance, "relative error %.1e, allowed %.0e" % (worst, tolerance))


def largest(errors):
    """The largest; what is no number is larger than all, which max() forgets unless it comes first."""
    errors = list(errors)
    return next((e for e in errors if e != e), max(errors))


def worst_of(pairs):
    """The largest relative error of arrays of NumPy's kind against float64."""
    import numpy

    return largest(float(numpy.abs(numpy.asarray(a, numpy.float64) - b).max() / numpy.abs(b).max()) for a, b in pairs)


# fp32 sums 147 products forward and up to 12544 backward: 1e-4 leaves two digits to spare.
# TF32 and fp16 keep 10 bits of a fraction: 2**-10 is 1e-3, and 1e-2 leaves a digit to spare. bf16 keeps 7:
# 2**-7 is 8e-3, and 8e-2 leaves a digit to spare.
FP32, TF32, FP16, BF16 = 1e-4, 1e-2, 1e-2, 8e-2
