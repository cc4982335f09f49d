# Compiled kernels: one function through torch.compile, which builds it with Triton.
layer("compile", "cuda:0")
import torch


def function(x):
    return torch.sin(x) * 2 + x


x = torch.linspace(-3, 3, 65536, device="cuda:0")
got = torch.compile(function)(x).cpu().double()
reference = x.cpu().double()
reference = torch.sin(reference) * 2 + reference
error = float((got - reference).abs().max())
judged("triton", "cuda:0", error, 1e-5)
layer("done", None)
