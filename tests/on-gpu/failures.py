"""What is broken: envlock finds it before, the program fails, and `diagnose` names the cause in its log."""

import glob
import os
import re
import subprocess
import sys

from table import python

PREFIX = ["--prefix", sys.prefix]
CONVOLUTION = """
import torch
x = torch.randn(8, 3, 64, 64, device="cuda"); w = torch.randn(16, 3, 3, 3, device="cuda")
print("sum", float(torch.nn.functional.conv2d(x, w).sum()))
"""


def causes(envlock, out, name, text):
    """The causes that `diagnose` sees in a log, as (component, code)."""
    path = os.path.join(out, name + ".log")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    found = envlock("diagnose", path, "--json").json()
    return [(cause.get("component"), cause.get("code")) for cause in found.get("causes", [])]


def failing(envlock, table, out, name, text, component, **environment):
    """A program that fails, and the component that is at fault."""
    run = python(text, **environment)
    table.add(name, "fails", True, run.code != 0)
    found = causes(envlock, out, name, run.err)
    table.add(name, "diagnose", component, found, bool(found) and found[0][0] in component)


def hidden(envlock, table, out):
    """GPUs that a variable hides."""
    for value in ("", "99", "GPU-00000000"):
        run = envlock("verify", *PREFIX, "--smoke", "off", "--json", CUDA_VISIBLE_DEVICES=value)
        codes = [finding["code"] for finding in run.json().get("findings", [])]
        seen = python("import torch; print(torch.cuda.device_count())", CUDA_VISIBLE_DEVICES=value).last_line()
        table.add("hidden", "CUDA_VISIBLE_DEVICES=`%s`" % value, (True, "0"), ("hidden-gpus" in codes, seen))
        run = envlock("verify", *PREFIX, "--smoke", "off", "--require-gpu", CUDA_VISIBLE_DEVICES=value)
        table.add("hidden", "`%s` with --require-gpu" % value, 1, run.code)
    failing(envlock, table, out, "hidden", CONVOLUTION, ("driver", "other"), CUDA_VISIBLE_DEVICES="99")


# What torch does with cuDNN, each on its own line: `NAME ok` or `NAME failed MESSAGE`.
OPERATIONS = """
import warnings, torch
warnings.simplefilter("ignore")
F, dev = torch.nn.functional, "cuda"
def convolutions():
    x = torch.randn(8, 3, 64, 64, device=dev, requires_grad=True); w = torch.randn(16, 3, 3, 3, device=dev, requires_grad=True)
    F.conv2d(x, w).sum().backward()
    x = torch.randn(8, 64, 56, 56, device=dev, dtype=torch.half).to(memory_format=torch.channels_last)
    F.conv2d(x, torch.randn(64, 64, 3, 3, device=dev, dtype=torch.half))
def batch_normalization():
    torch.nn.BatchNorm2d(64).cuda().train()(torch.randn(8, 64, 32, 32, device=dev, requires_grad=True)).sum().backward()
def recurrent_layers():
    torch.nn.LSTM(32, 64, 2).cuda()(torch.randn(5, 3, 32, device=dev))[0].sum().backward()
for operation in (convolutions, batch_normalization, recurrent_layers):
    name = operation.__name__.replace("_", " ")
    try: operation(); torch.cuda.synchronize(); print(name, "ok")
    except Exception as error: print(name, "failed", str(error).replace(chr(10), " ")[:300])
"""


def shadowed(envlock, table, out):
    """Another cuDNN first on LD_LIBRARY_PATH: all of it, and each part alone. What envlock says would fail, fails; what it
    does not call an error, works."""
    own = {os.path.realpath(p) for site in sys.path for p in glob.glob(os.path.join(site, "nvidia/*/lib/libcudnn*"))}
    listed = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, check=False).stdout.decode()
    other = [path for path in re.findall(r"=> (\S*libcudnn_graph\.so\.\d+)$", listed, re.M) if os.path.realpath(path) not in own]
    if not other or not own:
        table.not_shown("shadowed", "another cuDNN", "there is one copy")
        return
    # Its libraries alone: its folder has many others.
    parts = sorted(glob.glob(os.path.join(os.path.dirname(other[0]), "libcudnn*.so.9")))
    for what, files in [("all", parts)] + [(os.path.basename(part), [part]) for part in parts]:
        folder = os.path.join(envlock.folder, "shadow-" + what)
        os.makedirs(folder, exist_ok=True)
        for path in files:
            os.symlink(path, os.path.join(folder, os.path.basename(path)))
        path = folder + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
        run = envlock("verify", *PREFIX, "--smoke", "off", "--json", LD_LIBRARY_PATH=path)
        errors = [f["message"] for f in run.json().get("findings", []) if "libcudnn" in f["message"] and f["severity"] == "error"]
        real = python(OPERATIONS, LD_LIBRARY_PATH=path)
        lines = [line for line in real.out.splitlines() if " ok" in line or " failed" in line]
        fails = {line.split(" failed")[0] for line in lines if " failed" in line}
        said = {name for name in ("convolutions", "batch normalization", "recurrent layers") if any(name in text for text in errors)}
        table.add("shadowed", what, "fails: %s" % sorted(said), "fails: %s" % sorted(fails), fails == said and len(lines) == 3)
        if fails:
            named = causes(envlock, out, "shadowed-" + what, "\n".join("RuntimeError: " + line.split(" failed ")[1] for line in lines if " failed " in line))
            right = ("cudnn", "path-shadowing")
            table.add("shadowed", what + ", diagnose", right, named, bool(named) and named[0][0] in right)


def compat(envlock, table, out):
    """A cuda-compat of the toolkit: older than the driver it does not start, newer it may."""
    folders = [path for path in glob.glob("/usr/local/cuda*/compat") if os.path.exists(os.path.join(path, "libcuda.so.1"))]
    if not folders:
        table.not_shown("compat", "cuda-compat", "not installed")
        return
    path = folders[0] + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
    run = envlock("verify", *PREFIX, "--smoke", "off", "--json", LD_LIBRARY_PATH=path)
    errors = [f["code"] for f in run.json().get("findings", []) if f["severity"] == "error"]
    real = python(CONVOLUTION, LD_LIBRARY_PATH=path)
    table.add("compat", "verify and the program", "fails" if errors else "works", "%s: %s" % ("fails" if real.code else "works", errors),
              bool(errors) == (real.code != 0))
    if real.code:
        named = causes(envlock, out, "compat", real.err)
        right = ("driver", "path-shadowing")
        table.add("compat", "diagnose", right, named, bool(named) and named[0][0] in right)


def stub(envlock, table, out):
    """The toolkit's stub in place of the driver."""
    stubs = [path for place in ("/usr/local/cuda/lib64/stubs", "/usr/local/cuda/targets/*/lib/stubs") for path in glob.glob(place + "/libcuda.so")]
    if not stubs:
        table.not_shown("stub", "libcuda.so of a toolkit", "no toolkit")
        return
    folder = os.path.join(envlock.folder, "stubs")
    os.makedirs(folder, exist_ok=True)
    os.symlink(stubs[0], os.path.join(folder, "libcuda.so.1"))
    path = folder + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
    run = envlock("verify", *PREFIX, "--smoke", "off", "--json", LD_LIBRARY_PATH=path)
    errors = [f["code"] for f in run.json().get("findings", []) if f["severity"] == "error"]
    table.add("stub", "verify finds it", True, errors, bool(errors))
    failing(envlock, table, out, "stub", CONVOLUTION, ("driver", "path-shadowing"), LD_LIBRARY_PATH=path)


def no_code(envlock, table, out):
    """A library whose code the driver may not use: torch has no PTX, and this variable allows PTX alone."""
    failing(envlock, table, out, "no-code", CONVOLUTION, ("gpu-arch", "torch-build"), CUDA_FORCE_PTX_JIT="1")


def out_of_memory(envlock, table, out):
    """More than the GPU has."""
    failing(envlock, table, out, "memory", "import torch; torch.empty(1 << 50, dtype=torch.uint8, device='cuda')", ("other",))


def assertion(envlock, table, out):
    """An index out of range, seen by a kernel."""
    text = "import torch; x = torch.zeros(4, device='cuda'); print(x[torch.tensor([9], device='cuda')].sum().item())"
    failing(envlock, table, out, "assertion", text, ("other",))


ALL = [hidden, shadowed, compat, stub, no_code, out_of_memory, assertion]
