"""What is well: each fact that envlock states, against another program that knows it."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

from table import Program, digits, python

PREFIX = ["--prefix", sys.prefix]
SITE = [path for path in sys.path if path.endswith("site-packages")]


def selftest(envlock, table, out):
    """The driver itself: which code it loads."""
    run = envlock("selftest", "--gpu", "--json")
    if out:
        with open(os.path.join(out, "selftest.json"), "w", encoding="utf-8") as file:
            file.write(run.out + run.err)
    found = run.json()
    table.add("selftest", "exit", 0, run.code)
    for gpu in found.get("gpus", []):
        for fact in gpu["facts"]:
            said = sorted("%s (%s)" % (value, source) for source, value in fact["by"].items())
            table.add("selftest", fact["fact"], "the same by all", ", ".join(said), fact["agrees"])
        tried = gpu["kernels"]
        for kernel in (k for k in tried if k["agrees"] is False):
            table.add("selftest", "%(form)s %(target)s of CUDA %(cuda)s" % kernel, kernel["expected"], kernel["seen"], False)
        ran = sum(k["seen"] == "ran" for k in tried)
        table.add("selftest", "kernels", "as the data says", "%d ran, %d refused" % (ran, len(tried) - ran),
                  all(k["agrees"] is not False for k in tried) and ran > 0)
        for form, kernels in ((f, [k for k in tried if k["form"] == f]) for f in ("SASS", "PTX")):
            kinds = {k["expected"] for k in kernels}
            for kind in ("runs", "no-code") + (("ptx-too-new",) if form == "PTX" else ()):
                if kind not in kinds:
                    table.not_shown("selftest", "%s: %s" % (form, kind), "the driver is as new as every kernel")


def probe(envlock, table, out):
    """nvidia-smi and torch describe the same machine."""
    import torch

    query = "name,memory.total,driver_version,uuid,compute_cap"
    smi = Program(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits"])
    found = envlock("probe", "--json").json()
    if smi.code is None:
        table.not_shown("probe", "nvidia-smi", smi.err)
    rows = [line.split(", ") for line in smi.out.splitlines()] if smi.code == 0 else []
    for gpu, row in zip(found["gpus"], rows):
        name, memory, driver, uuid, capability = row
        for what, expected, seen in (
            ("name", name, gpu["name"]), ("memory", memory, str(gpu["memory_mib"])),
            ("driver", driver, found["driver"]["version"]), ("uuid", digits(uuid), digits(gpu["uuid"])),
            ("capability", capability, gpu["compute_capability"]),
        ):
            table.add("probe", "%s by nvidia-smi" % what, expected, seen)
    banner = re.search(r"CUDA (?:UMD )?Version: *([\d.]+)", Program(["nvidia-smi"]).out)
    if banner:
        table.add("probe", "CUDA by nvidia-smi", banner[1], found["driver"]["cuda"])
    table.add("probe", "GPUs by torch", torch.cuda.device_count(), len(found["gpus"]))
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        uuid = digits(str(getattr(properties, "uuid", "")))
        same = [gpu for gpu in found["gpus"] if not uuid or digits(gpu["uuid"]) == uuid]
        seen = same and (same[0]["name"], same[0]["compute_capability"])
        table.add("probe", "GPU %d by torch" % index, (properties.name, "%d.%d" % (properties.major, properties.minor)), seen)
    table.add("probe", "verify --only machine", 0, envlock("verify", "--only", "machine").code)


def solved(envlock, table, out):
    """The installed torch is one that the machine can run; the lock for it is what the other checks use."""
    import torch

    version, _, variant = torch.__version__.partition("+")
    asked = ["torch==" + version, "--stack-only", "--python", "%d.%d" % sys.version_info[:2]]
    asked += ["--variant", variant] if variant else []
    run = envlock("resolve", *asked)
    table.add("resolve", "the installed torch", 0, run.code)
    if run.code != 0:
        print(run.out + run.err)
    plan = envlock("plan", "--json").json()
    runs = {(row.get("torch"), row.get("variant")) for row in plan.get("runs", [])}
    table.add("plan", "the installed torch runs", True, (version, variant or "cu" + (torch.version.cuda or "").replace(".", "")) in runs)


def smoke(envlock, table, out):
    """Every layer from the driver up to a compiled kernel."""
    run = envlock("verify", *PREFIX, "--smoke", "cuda", "--require-gpu", "--json")
    with open(os.path.join(out, "verify.json"), "w", encoding="utf-8") as file:
        file.write(run.out + run.err)
    found = run.json()
    smoked = found.get("smoke") or {"checks": []}
    errors = [f["message"] for f in found.get("findings", []) if f["severity"] == "error"]
    table.add("verify", "verdict", ("ok", []), (found.get("verdict"), errors))
    layers = list(dict.fromkeys(check["layer"] for check in smoked["checks"]))
    for layer in ("driver", "runtime", "cublas", "cudnn", "torch", "compile"):
        table.add("smoke", layer + " ran", True, layer in layers)
    for name, module in (("tensorflow", "tensorflow"), ("jax", "jax")):
        installed = any(glob.glob(os.path.join(site, module, "__init__.py")) for site in SITE)
        if installed:
            table.add("smoke", name + " ran", True, name in layers)
        else:
            table.not_shown("smoke", name, "not installed")
    for check in smoked["checks"]:
        what = "%s %s on %s" % (check["layer"], check["name"], check["device"])
        table.add("smoke", what, "passes", check["detail"], check["passed"])


CUDNN = """
import time, torch
x = torch.randn(32, 128, 56, 56, device="cuda", requires_grad=True); w = torch.randn(128, 128, 3, 3, device="cuda", requires_grad=True)
def batch(on):
    with torch.backends.cudnn.flags(enabled=on, benchmark=on, allow_tf32=True):
        start = time.perf_counter()
        for _ in range(10): torch.nn.functional.conv2d(x, w, padding=1).sum().backward()
        torch.cuda.synchronize(); return time.perf_counter() - start
for on in (True, False, True, False): batch(on)
print(sorted(batch(False) for _ in range(5))[2] / sorted(batch(True) for _ in range(5))[2])
"""


def cudnn(envlock, table, out):
    """How much cuDNN gives, by a measurement of its own beside envlock's."""
    run = python(CUDNN)
    try:
        ratio = float(run.last_line())
    except ValueError:
        table.add("cudnn", "measured", "a figure", run.last_line(), False)
        return
    with open(os.path.join(out, "verify.json"), encoding="utf-8") as file:
        checks = (json.load(file).get("smoke") or {"checks": []})["checks"]
    said = [check["figure"] for check in checks if check["name"] == "speed-training"]
    table.add("cudnn", "is faster", "> 1.2 times", "%.1f times here, envlock: %s" % (ratio, said), ratio > 1.2 and bool(said) and said[0] > 1.2)


def gpu_code(envlock, table, out):
    """cuobjdump lists the same machine code and PTX."""
    if not shutil.which("cuobjdump"):
        table.not_shown("inspect", "cuobjdump", "not installed")
        return
    names = ("torch/lib/libtorch_cuda.so", "nvidia/*/lib/libcudnn_*.so*", "nvidia/*/lib/libnccl.so*", "nvidia/*/lib/libcublasLt.so*",
             "nvidia/*/lib/libcusparse.so*", "torchvision/_C*.so", "torchaudio/lib/*.so", "cupy/**/*.so", "jaxlib/**/*.so", "jax_plugins/**/*.so")
    paths = [path for site in SITE for name in names for path in sorted(glob.glob(os.path.join(site, name), recursive=True))]
    seen = set()
    for path in paths:
        if os.path.realpath(path) in seen or os.path.getsize(path) > 700 << 20:
            continue
        seen.add(os.path.realpath(path))
        found = envlock("inspect", path, "--json").json().get("files", [{}])[0].get("counts", {})
        for form, option in (("sass", "--list-elf"), ("ptx", "--list-ptx")):
            listed = subprocess.run("cuobjdump %s '%s' 2>/dev/null | grep -o 'sm_[0-9]*a\\?' | sort | uniq -c" % (option, path), shell=True,
                                    stdout=subprocess.PIPE, check=False).stdout.decode()
            expected = {name: int(count) for count, name in (line.split() for line in listed.splitlines())}
            own = {}
            for target, count in found.get(form, {}).items():
                # cuobjdump names the code of a family as that of its capability.
                name = "sm_" + target.replace(".", "").rstrip("f")
                own[name] = own.get(name, 0) + count
            if expected or own:
                table.add("inspect", "%s of %s" % (form, os.path.basename(path)), expected, own)


BUSY = """
import time, torch
a = torch.randn(8192, 8192, device="cuda"); start = time.time()
while time.time() - start < 8:
    for _ in range(5): a @ a
    torch.cuda.synchronize()
"""
IDLE = "import time, torch; a = torch.randn(8192, 8192, device='cuda'); time.sleep(8)"


def monitor(envlock, table, out):
    """A loop that computes and one that waits."""
    for name, text, right in (("busy", BUSY, lambda sm: sm > 60), ("idle", IDLE, lambda sm: sm < 25)):
        path = os.path.join(out, "monitor-%s.json" % name)
        run = envlock("run", *PREFIX, "--no-verify", "--monitor-out", path, "--", sys.executable, "-c", text)
        try:
            with open(path, encoding="utf-8") as file:
                samples = [s["sm_percent"] for s in json.load(file)["samples"] if s["gpu"] == 0 and s["sm_percent"] is not None]
            samples = samples[len(samples) // 2:]  # torch is imported by then
            mean = sum(samples) / len(samples)
        except (OSError, ValueError, KeyError, ZeroDivisionError) as error:
            table.add("monitor", name, "samples", "%r, exit %s: %s" % (error, run.code, run.last_line()), False)
            continue
        table.add("monitor", name, "busy" if name == "busy" else "waits", "%d samples, SM %.0f %%; %s" % (len(samples), mean, run.last_line()),
                  right(mean) and run.code == 0 and "SM" in run.err)


def whole(envlock, table, out):
    """Commands that have nothing to say on a sound machine."""
    run = envlock("run", *PREFIX, "--require-gpu", "--", sys.executable, "-c", "import torch; print(torch.cuda.get_device_name(0))")
    table.add("run", "starts the program", 0, run.code)
    if run.code:
        print(run.err)
    guard = os.path.join(envlock.folder, "guard.py")
    table.add("guard", "is written", 0, envlock("guard", "-o", guard).code)
    with open(guard, encoding="utf-8") as file:
        text = file.read()
    table.add("guard", "passes", 0, Program([sys.executable, guard]).code)
    import torch

    version = torch.__version__.partition("+")[0]
    with open(guard, "w", encoding="utf-8") as file:
        file.write(text.replace(version, "9.9.9"))
    run = Program([sys.executable, guard])
    table.add("guard", "stops another torch", (1, True), (run.code, "9.9.9" in run.err + run.out))
    run = envlock("diagnose", "--here", VIRTUAL_ENV=sys.prefix, CONDA_PREFIX=None)
    table.add("diagnose", "--here finds nothing", 0, run.code)
    if run.code:
        print(run.out + run.err)
    saved = os.path.join(envlock.folder, "host.toml")
    table.add("probe", "--save", 0, envlock("probe", "--save", saved, *PREFIX).code)
    run = envlock("drift", saved)
    table.add("drift", "nothing", (0, "nothing changed"), (run.code, run.out.strip()))


def mig(envlock, table, out):
    """The slices that nvidia-smi lists."""
    listed = [line.strip() for line in Program(["nvidia-smi", "-L"]).out.splitlines() if line.strip().startswith("MIG")]
    if not listed:
        table.not_shown("probe", "MIG", "no GPU is divided")
        return
    run = envlock("probe", "-v")
    table.add("probe", "MIG", "named", run.out + run.err, "MIG" in run.out + run.err)


ALL = [selftest, probe, solved, smoke, cudnn, gpu_code, monitor, whole, mig]
