# Compiled kernels: one function through torch.compile, which builds it with Triton.
layer("compile", "cuda:0")
import torch

try:
    from torch.utils._triton import has_triton
except ImportError:
    # A torch before 2.1 does not say.
    has_triton = None
if has_triton is not None and not has_triton():
    # torch knows from which capability on its Triton makes kernels; below it nothing is wrong.
    add("triton", "cuda:0", True, "not run: torch says that its Triton does not serve this GPU")
    layer("done", None)
    sys.exit()


def function(x):
    return torch.sin(x) * 2 + x


x = torch.linspace(-3, 3, 65536, device="cuda:0")
got = torch.compile(function)(x).cpu().double()
reference = x.cpu().double()
reference = torch.sin(reference) * 2 + reference
error = float((got - reference).abs().max())
judged("triton", "cuda:0", error, 1e-5)
layer("done", None)
