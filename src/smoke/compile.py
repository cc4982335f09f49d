# The layer of compiled kernels: one function through torch.compile, which builds it with Triton.
import json
import sys

out_path = sys.argv[1]
checks = []
state = {"layer": "compile", "device": "cuda:0"}


def save():
    with open(out_path, "w") as out:
        json.dump({"checks": checks, "reached": state}, out)


save()
import torch


def function(x):
    return torch.sin(x) * 2 + x


x = torch.linspace(-3, 3, 65536, device="cuda:0")
got = torch.compile(function)(x).cpu().double()
reference = x.cpu().double()
reference = torch.sin(reference) * 2 + reference
error = float((got - reference).abs().max())
checks.append({"name": "triton", "layer": "compile", "device": "cuda:0", "passed": error < 1e-5, "detail": "error %.1e, allowed 1e-05" % error})
state["layer"], state["device"] = "done", None
save()
