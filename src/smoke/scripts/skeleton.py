# The common start of envlock's smoke scripts; the framework's part follows. It rewrites a JSON document, the file
# named by the first argument, after each step, so that a crash preserves the state. The second argument is auto, cpu
# or cuda. It runs on every Python 3 that a framework supported, with every NumPy.
import json
import sys
import time
import traceback

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


def add(name, device, passed, detail, figure=None):
    # JSON has neither NaN nor infinity.
    figure = figure if figure is None or abs(figure) < float("inf") else None
    check = {"name": name, "layer": state["layer"], "device": device, "passed": bool(passed), "detail": detail}
    checks.append(dict(check, figure=figure))
    save()


def first_line(error):
    """The first line of an exception's text, without the advice that frameworks add below it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "%s: %s" % (type(error).__name__, lines[0]) if lines else type(error).__name__


def print_error(kind, error, trace):
    # envlock quotes the last line.
    traceback.print_exception(kind, error, trace)
    sys.stderr.write(first_line(error) + "\n")


sys.excepthook = print_error


def judged(name, device, worst, tolerance):
    # NaN must fail: `not worst > tolerance` would pass.
    add(name, device, worst <= tolerance, "relative error %.1e, allowed %.0e" % (worst, tolerance), worst)


def largest(errors):
    """The largest error, or NaN if any is NaN: max() ignores NaN unless it comes first."""
    errors = list(errors)
    return next((e for e in errors if e != e), max(errors))


def worst_of(pairs):
    """The largest relative error of arrays, compared with float64."""
    import numpy

    return largest(float(numpy.abs(numpy.asarray(a, numpy.float64) - b).max() / numpy.abs(b).max()) for a, b in pairs)


def problem():
    """An image (1 x 3 x 64 x 64), 8 filters of 3 x 3, their convolution and its gradients, in float64 by NumPy.

    The gradients are those of the sum of squares, with respect to image and filters.
    """
    import numpy

    random = numpy.random.RandomState(20)
    x, w = random.standard_normal((1, 3, 64, 64)), random.standard_normal((8, 3, 3, 3)) / 5.0
    padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant")
    taps = [(i, j, padded[:, :, i : i + 64, j : j + 64]) for i in range(3) for j in range(3)]
    y = sum(numpy.einsum("nchw,fc->nfhw", seen, w[:, :, i, j]) for i, j, seen in taps)
    dx, dw = numpy.zeros_like(padded), numpy.zeros_like(w)
    for i, j, seen in taps:
        dw[:, :, i, j] = numpy.einsum("nchw,nfhw->fc", seen, 2.0 * y)
        dx[:, :, i : i + 64, j : j + 64] += numpy.einsum("nfhw,fc->nchw", 2.0 * y, w[:, :, i, j])
    return x, w, y, dx[:, :, 1:-1, 1:-1], dw


# Tolerances. fp32 sums 147 products forward and up to 12544 backward: 1e-4 is a margin of two digits.
# TF32 and fp16 have a 10-bit fraction: 2**-10 is 1e-3, and 1e-2 is a margin of one digit. bf16 has 7 bits: 2**-7 is
# 8e-3, and 8e-2 is a margin of one digit.
FP32, TF32, FP16, BF16 = 1e-4, 1e-2, 1e-2, 8e-2
