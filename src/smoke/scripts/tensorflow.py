# TensorFlow: convolutions, forward and backward, and a matrix product, compared with float64 in NumPy.
layer("import", "cpu")
import numpy

import tensorflow as tf

add("import", "cpu", True, "tensorflow " + tf.__version__)
if tf.__version__.startswith("1."):
    # Operations run when they are called, as in TensorFlow 2.
    tf.compat.v1.enable_v2_behavior()

layer("device", "cuda")
# Before TensorFlow 2.1 it is experimental.
devices = tf.config if hasattr(tf.config, "list_physical_devices") else tf.config.experimental
gpus = [] if wanted == "cpu" else devices.list_physical_devices("GPU")
if wanted == "cuda":
    # TensorFlow logs which library it did not find, and continues without a GPU.
    add("device", "cuda", bool(gpus), "%d visible" % len(gpus))
# TensorFlow before 2.4 has neither this switch nor TF32.
tf32 = getattr(tf.config.experimental, "enable_tensor_float_32_execution", lambda on: None)
tf32(False)

layer("reference", "cpu")
x, w, y, dx, dw = problem()
LAST = (0, 2, 3, 1)


def convolution(name, where, tolerance, dtype="float32", channels_last=True):
    layer(name, where)
    order = LAST if channels_last else (0, 1, 2, 3)
    image = tf.Variable(tf.cast(x.transpose(order), dtype))
    filters = tf.Variable(tf.cast(w.transpose((2, 3, 1, 0)), dtype))
    with tf.GradientTape() as tape:
        layout = "NHWC" if channels_last else "NCHW"
        got = tf.nn.conv2d(image, filters, strides=1, padding="SAME", data_format=layout)
        single = tf.cast(got, "float32")
        loss = tf.reduce_sum(single * single)
    by_image, by_filters = tape.gradient(loss, [image, filters])
    got = [tf.cast(t, "float32").numpy() for t in (got, by_image, by_filters)]
    expected = (y.transpose(order), dx.transpose(order), dw.transpose((2, 3, 1, 0)))
    judged(name, where, worst_of(zip(got, expected)), tolerance)


random = numpy.random.RandomState(21)
for index in range(max(len(gpus), 1)):
    name = "cuda:%d" % index if gpus else "cpu"
    with tf.device("/GPU:%d" % index if gpus else "/CPU:0"):
        convolution("conv-fp32", name, FP32)
        layer("matmul-fp32", name)
        a = random.standard_normal((256, 512))
        product = tf.linalg.matmul(a.astype("float32"), a.T.astype("float32"))
        judged("matmul-fp32", name, worst_of([(product.numpy(), a @ a.T)]), FP32)
        if gpus:
            # The CPU kernels do not support this layout or, in older releases, these types.
            convolution("conv-channels-first", name, FP32, channels_last=False)
            convolution("conv-fp16", name, FP16, "float16")
            tf32(True)
            convolution("conv-tf32", name, TF32)
            tf32(False)
layer("done", None)
