# TensorFlow: one convolution, forward and backward, and a matrix product, held against float64 in NumPy.
layer("import", "cpu")
import numpy

import tensorflow as tf

add("import", "cpu", True, "tensorflow " + tf.__version__)

layer("device", "cuda")
gpus = [] if wanted == "cpu" else tf.config.list_physical_devices("GPU")
if wanted == "cuda":
    # TensorFlow says in its log which library it did not find, and goes on without a GPU.
    add("device", "cuda", bool(gpus), "%d visible" % len(gpus))
tf.config.experimental.enable_tensor_float_32_execution(False)

random = numpy.random.default_rng(20)
x = random.standard_normal((1, 64, 64, 3))
w = random.standard_normal((3, 3, 3, 8)) / 5.0


def reference():
    layer("reference", "cpu")
    padded = numpy.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    y = numpy.einsum("nhwcij,ijcf->nhwf", windows, w)
    # The gradient of a sum of squares with respect to the filters.
    return y, numpy.einsum("nhwcij,nhwf->ijcf", windows, 2.0 * y)


y, dw = reference()
for index in range(max(len(gpus), 1)):
    name = "cuda:%d" % index if gpus else "cpu"
    with tf.device("/GPU:%d" % index if gpus else "/CPU:0"):
        layer("conv-fp32", name)
        filters = tf.Variable(w.astype("float32"))
        with tf.GradientTape() as tape:
            got = tf.nn.conv2d(x.astype("float32"), filters, strides=1, padding="SAME")
            loss = tf.reduce_sum(got * got)
        gradient = tape.gradient(loss, filters)
        judged("conv-fp32", name, worst_of([(got.numpy(), y), (gradient.numpy(), dw)]), FP32)
        layer("matmul-fp32", name)
        a = random.standard_normal((256, 512))
        product = tf.linalg.matmul(a.astype("float32"), a.T.astype("float32"))
        judged("matmul-fp32", name, worst_of([(product.numpy(), a @ a.T)]), FP32)
layer("done", None)
