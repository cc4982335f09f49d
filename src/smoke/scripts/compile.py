# Compiled kernels: one function through torch.compile, which builds it with Triton.
layer("compile", "cuda:0")
import os
import shutil
import sysconfig

import torch


def not_run(why):
    # Nothing is wrong where torch says itself that it does not compile here.
    add("triton", "cuda:0", True, "not run: " + why)
    layer("done", None)
    sys.exit()


try:
    from torch.utils._triton import has_triton
except ImportError:
    # A torch before 2.1 does not say; its Triton makes kernels from 7.0 on (torch/_inductor of 2.0).
    def has_triton():
        return torch.cuda.get_device_capability(0) >= (7, 0)


if not torch.cuda.is_available() or not has_triton():
    not_run("torch says that its Triton does not serve this GPU")
# What Triton's runtime/build.py looks for, and what its launcher includes.
compilers = [os.environ.get("CC", "").split(" ")[0], "gcc", "clang"]
if not any(name and shutil.which(name) for name in compilers):
    not_run("Triton builds its launcher with a C compiler, and none is here")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    not_run("Triton builds its launcher with Python's headers, and they are not here (python3-dev)")


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
