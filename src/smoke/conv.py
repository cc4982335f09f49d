# The smoke test of envlock: one convolution, forward and backward, held against float64.
# Writes one JSON document to the file named by the first argument.
import json
import sys

out_path, wanted = sys.argv[1], sys.argv[2]
checks = []
state = {"layer": "start", "device": None}


def save():
    with open(out_path, "w") as out:
        json.dump({"checks": checks, "reached": state}, out)


def layer(name, device):
    state["layer"], state["device"] = name, device
    save()


def add(name, device, passed, detail):
    checks.append({"name": name, "layer": state["layer"], "device": device, "passed": bool(passed), "detail": detail})
    save()


layer("import", "cpu")
import torch

add("import", "cpu", True, "torch " + torch.__version__)


def problem(device, dtype):
    generator = torch.Generator().manual_seed(20)
    x = torch.randn(1, 3, 224, 224, generator=generator, dtype=torch.float64)
    w = torch.randn(64, 3, 7, 7, generator=generator, dtype=torch.float64) / 12.0
    x = x.to(device=device, dtype=dtype).requires_grad_(True)
    w = w.to(device=device, dtype=dtype).requires_grad_(True)
    y = torch.nn.functional.conv2d(x, w, stride=2, padding=3)
    (y * y).sum().backward()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return [t.detach().to("cpu", torch.float64) for t in (y, x.grad, w.grad)]


layer("reference", "cpu")
reference = problem("cpu", torch.float64)


def error(device):
    got = problem(device, torch.float32)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(got, reference))


def convolution(name, device, tolerance):
    layer(name, device)
    worst = error(device)
    add(name, device, worst <= tolerance, "relative error %.1e, allowed %.0e" % (worst, tolerance))


# fp32 sums 147 products forward and up to 12544 backward: 1e-4 leaves two digits to spare.
# TF32 keeps 10 bits of the operands' fractions: 2**-10 is 1e-3; 1e-2 leaves a digit to spare.
FP32, TF32 = 1e-4, 1e-2

layer("device", "cuda")
available = wanted != "cpu" and torch.cuda.is_available()
if wanted == "cuda" or available:
    add("device", "cuda", available, "%d visible" % torch.cuda.device_count() if available else "torch.cuda.is_available() is False")
if available:
    layer("cudnn", "cuda")
    add("cudnn", "cuda", torch.backends.cudnn.is_available(), "cuDNN %s" % torch.backends.cudnn.version())
    for index in range(torch.cuda.device_count()):
        device = "cuda:%d" % index
        layer("name", device)
        add("name", device, True, "%s (%d.%d)" % ((torch.cuda.get_device_name(index),) + torch.cuda.get_device_capability(index)))
        torch.backends.cudnn.allow_tf32 = False
        convolution("conv-fp32", device, FP32)
        torch.backends.cudnn.allow_tf32 = True
        convolution("conv-tf32", device, TF32)
else:
    convolution("conv-fp32", "cpu", FP32)
layer("done", None)
