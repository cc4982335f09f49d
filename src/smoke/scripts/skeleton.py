# The skeleton of envlock's smoke scripts; a framework's own part follows it. It writes one JSON document to the file
# named by the first argument, anew after each step: a crash leaves what was reached. The second argument is auto,
# cpu or cuda. Any Python 3 that a framework ever ran on runs it, with any NumPy.
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
    # JSON has no word for what is no number.
    figure = figure if figure is None or abs(figure) < float("inf") else None
    check = {"name": name, "layer": state["layer"], "device": device, "passed": bool(passed), "detail": detail}
    checks.append(dict(check, figure=figure))
    save()


def first_line(error):
    """What an exception says, without the advice that frameworks print below it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "%s: %s" % (type(error).__name__, lines[0]) if lines else type(error).__name__


def told(kind, error, trace):
    # The last line is the one that envlock quotes.
    traceback.print_exception(kind, error, trace)
    sys.stderr.write(first_line(error) + "\n")


sys.excepthook = told


def judged(name, device, worst, tolerance):
    # Not a number is larger than nothing: said the other way round it would pass.
    add(name, device, worst <= tolerance, "relative error %.1e, allowed %.0e" % (worst, tolerance), worst)


def largest(errors):
    """The largest; what is no number is larger than all, which max() forgets unless it comes first."""
    errors = list(errors)
    return next((e for e in errors if e != e), max(errors))


def worst_of(pairs):
    """The largest relative error of arrays of NumPy's kind against float64."""
    import numpy

    return largest(float(numpy.abs(numpy.asarray(a, numpy.float64) - b).max() / numpy.abs(b).max()) for a, b in pairs)


def problem():
    """An image, filters, their convolution and its gradients, in float64 by NumPy: 1 x 3 x 64 x 64, 8 filters of 3 x 3.

    The gradients are those of the sum of squares, by image and by filters.
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


# fp32 sums 147 products forward and up to 12544 backward: 1e-4 leaves two digits to spare.
# TF32 and fp16 keep 10 bits of a fraction: 2**-10 is 1e-3, and 1e-2 leaves a digit to spare. bf16 keeps 7:
# 2**-7 is 8e-3, and 8e-2 leaves a digit to spare.
FP32, TF32, FP16, BF16 = 1e-4, 1e-2, 1e-2, 8e-2
