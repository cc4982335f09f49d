# JAX: convolutions, forward and backward, and a matrix product, compared with float64 in NumPy.
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
    # JAX logs which library it did not find, and continues without a GPU.
    add("device", "cuda", bool(gpus), "%d visible" % len(gpus))
devices = gpus or jax.devices("cpu")[:1]

layer("reference", "cpu")
x, w, y, dx, dw = problem()


def convolution(name, where, device, tolerance, dtype, precision, layout="NCHW"):
    layer(name, where)
    order = [("NCHW".index(axis)) for axis in layout]

    def convolve(image, filters):
        return jax.lax.conv_general_dilated(
            image, filters, (1, 1), "SAME", dimension_numbers=(layout, "OIHW", layout), precision=precision
        )

    def loss(image, filters):
        out = convolve(image, filters).astype("float32")
        return (out * out).sum()

    image = jax.device_put(jax.numpy.asarray(x.transpose(order), dtype), device)
    filters = jax.device_put(jax.numpy.asarray(w, dtype), device)
    by_image, by_filters = jax.grad(loss, argnums=(0, 1))(image, filters)
    got = [jax.numpy.asarray(a, "float32") for a in (convolve(image, filters), by_image, by_filters)]
    judged(name, where, worst_of(zip(got, (y.transpose(order), dx.transpose(order), dw))), tolerance)


highest = jax.lax.Precision.HIGHEST
random = numpy.random.RandomState(21)
for index, device in enumerate(devices):
    name = "cuda:%d" % index if gpus else "cpu"
    convolution("conv-fp32", name, device, FP32, "float32", highest)
    convolution("conv-channels-last", name, device, FP32, "float32", highest, "NHWC")
    layer("matmul-fp32", name)
    a = random.standard_normal((256, 512))
    product = jax.numpy.matmul(
        jax.device_put(a.astype("float32"), device), jax.device_put(a.T.astype("float32"), device), precision="highest"
    )
    judged("matmul-fp32", name, worst_of([(product, a @ a.T)]), FP32)
    convolution("conv-bf16", name, device, BF16, "bfloat16", None)
    if gpus:
        convolution("conv-fp16", name, device, FP16, "float16", None)
        # JAX's default: TF32 if the GPU supports it.
        convolution("conv-tf32", name, device, TF32, "float32", jax.lax.Precision.DEFAULT)
if len(gpus) > 1:
    layer("nccl", "cuda")
    ones = numpy.arange(1.0, len(gpus) + 1.0, dtype="float32")
    sums = jax.pmap(lambda value: jax.lax.psum(value, "all"), axis_name="all", devices=gpus)(ones)
    right = bool((numpy.asarray(sums) == ones.sum()).all())
    add("nccl", "cuda", right, "all-reduce over %d GPUs" % len(gpus))
layer("done", None)
