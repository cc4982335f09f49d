# envlock guard: fails early where the environment or the machine is not the locked one. Written by envlock from
# the target @TARGET@; write it anew when the lock changes. Needs the standard library and the framework only.
def _envlock_guard():
    import os
    import re
    import sys

    locked = @LOCKED@
    found = []

    def error(code, message):
        found.append("error[%s]: %s" % (code, message))

    def version(text):
        return tuple(int(part) for part in re.findall(r"\d+", text))

    python = "%d.%d" % sys.version_info[:2]
    if python != locked["python"]:
        error("wrong-python", "the environment has Python %s, the lock is for %s" % (python, locked["python"]))
    try:
        import torch
    except ImportError as failed:
        error("missing-package", "torch cannot be imported: %s" % failed)
        raise SystemExit("\n".join(found + ["fix: envlock verify"]))
    name = torch.__version__.split("+")
    if name[0] != locked["torch"]:
        error("wrong-version", "torch %s is installed, %s is locked" % (name[0], locked["torch"]))
    if len(name) > 1 and name[1] != locked["variant"]:
        error("wrong-variant", "torch is built for %s, %s is locked" % (name[1], locked["variant"]))
    if locked["variant"] != "cpu":
        cudnn = torch.backends.cudnn.version()
        if locked["cudnn"] is not None and cudnn is not None and cudnn != locked["cudnn"]:
            error("shadowed-library", "cuDNN %d is loaded, %d is locked" % (cudnn, locked["cudnn"]))
        driver = None
        for path in ("/sys/module/nvidia/version", "/proc/driver/nvidia/version"):
            if driver is None and os.path.exists(path):
                match = re.search(r"\d+\.\d+(\.\d+)?", open(path).read())
                driver = match.group(0) if match else None
        if not torch.cuda.is_available():
            # `envlock verify` says the same with --require-gpu.
            error("not-judged", "torch.cuda.is_available() is False, and the lock is for a GPU")
        for index in range(torch.cuda.device_count()):
            capability = "%d.%d" % torch.cuda.get_device_capability(index)
            label = "%s (%s)" % (torch.cuda.get_device_name(index), capability)
            if capability not in locked["coverage"]:
                error("gpu-not-covered", "%s is not covered: the stack serves %s" % (label, " ".join(locked["coverage"])))
                continue
            floor, below = locked["coverage"][capability]
            if driver and floor and version(driver) < version(floor):
                error("driver-too-old", "driver %s is below %s, which %s needs for this stack" % (driver, floor, label))
            if driver and below and version(driver) >= version(below):
                error("driver-too-new", "driver %s no longer knows %s: it needs a driver before %s" % (driver, label, below))
    if found:
        raise SystemExit("\n".join(found + ["fix: envlock verify --require-gpu"]))


_envlock_guard()
