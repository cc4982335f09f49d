# Compiled kernels: torch.compile builds one function with Triton.
layer("compile", "cuda:0")
import os
import shutil
import sysconfig

import torch


def not_run(why):
    # If torch reports that it cannot compile here, that is not a failure.
    add("triton", "cuda:0", True, "not run: " + why)
    layer("done", None)
    sys.exit()


try:
    from torch.utils._triton import has_triton
except ImportError:
    # torch before 2.1 has no has_triton; its Triton supports 7.0 and newer (torch/_inductor of 2.0).
    def has_triton():
        return torch.cuda.get_device_capability(0) >= (7, 0)


if not torch.cuda.is_available() or not has_triton():
    not_run("torch reports that its Triton does not support this GPU")
# The compilers that Triton's runtime/build.py looks for; its launcher includes Python.h.
compilers = [os.environ.get("CC", "").split(" ")[0], "gcc", "clang"]
if not any(name and shutil.which(name) for name in compilers):
    not_run("Triton needs a C compiler to build its launcher, and none was found")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    not_run("Triton needs Python's headers to build its launcher, and they are not installed (python3-dev)")


def function(x):
    return torch.sin(x) * 2 + x


x = torch.linspace(-3, 3, 65536, device="cuda:0")
try:
    got = torch.compile(function)(x).cpu().double()
except Exception as error:
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if "not supported on Python" in str(root) or "not yet supported for torch.compile" in str(root):
        not_run(first_line(root))
    add("triton", "cuda:0", False, first_line(root))
    layer("done", None)
    sys.exit()
reference = x.cpu().double()
reference = torch.sin(reference) * 2 + reference
error = float((got - reference).abs().max())
judged("triton", "cuda:0", error, 1e-5)
layer("done", None)
