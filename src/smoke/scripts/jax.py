# JAX: one convolution, forward and backward, and a matrix product, held against float64 in NumPy.
layer("import", "cpu")
import numpy

import jax

add("import", "cpu", True, "jax " + jax.__version__)

layer("device", "cuda")
if wanted == "cpu":
    jax.config.update("jax_platforms", "cpu")
try:
    gpus = [] if wanted == "cpu" else [d for d in jax.devices() if d.platform in ("gpu", "cuda")]
except RuntimeError as failed:
    gpus = []
    add("device", "cuda", False, str(failed)[:200])
if wanted == "cuda" and not any(check["name"] == "device" for check in checks):
    add("device", "cuda", bool(gpus), "%d visible" % len(gpus))
devices = gpus or jax.devices("cpu")[:1]

random = numpy.random.default_rng(20)
x = random.standard_normal((1, 3, 64, 64))
w = random.standard_normal((8, 3, 3, 3)) / 5.0


def reference():
    layer("reference", "cpu")
    padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = numpy.einsum("nchwij,fcij->nfhw", windows, w)
    # The gradient of a sum of squares with respect to the filters.
    return y, numpy.einsum("nchwij,nfhw->fcij", windows, 2.0 * y)


def convolution(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), precision=jax.lax.Precision.HIGHEST
    )


y, dw = reference()
for index, device in enumerate(devices):
    name = "cuda:%d" % index if gpus else "cpu"
    layer("conv-fp32", name)
    xs, ws = jax.device_put(x.astype("float32"), device), jax.device_put(w.astype("float32"), device)
    got = convolution(xs, ws)
    gradient = jax.grad(lambda filters: (convolution(xs, filters) ** 2).sum())(ws)
    judged("conv-fp32", name, worst_of([(got, y), (gradient, dw)]), FP32)
    layer("matmul-fp32", name)
    a = random.standard_normal((256, 512))
    product = jax.numpy.matmul(
        jax.device_put(a.astype("float32"), device), jax.device_put(a.T.astype("float32"), device), precision="highest"
    )
    judged("matmul-fp32", name, worst_of([(product, a @ a.T)]), FP32)
layer("done", None)
