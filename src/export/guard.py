# envlock guard: fails early if the environment or the machine does not match the lock. Written by envlock for
# the target @TARGET@; regenerate it when the lock changes. Needs only the standard library and the frameworks.
def _envlock_guard():
    import importlib
    import os
    import re
    import sys

    locked = @LOCKED@
    found = []

    def error(code, message):
        found.append("error[%s]: %s" % (code, message))

    def version(text):
        return tuple(int(part) for part in re.findall(r"\d+", text))

    def drivers():
        """The version of the kernel module, and of the driver that programs use."""
        module = None
        for path in ("/sys/module/nvidia/version", "/proc/driver/nvidia/version"):
            if module is None and os.path.exists(path):
                match = re.search(r"\d+\.\d+(\.\d+)?", open(path).read())
                module = match.group(0) if match else None
        # cuda-compat: the library of a newer driver, found by LD_LIBRARY_PATH.
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
            library = os.path.join(folder, "libcuda.so.1")
            if folder and os.path.exists(library):
                match = re.match(r"libcuda\.so\.(\d{3,}\..+)$", os.path.basename(os.path.realpath(library)))
                if match and module and version(match.group(1)) > version(module):
                    return module, match.group(1)
                break
        return module, module

    def torch_gpus(torch):
        try:
            cudnn = torch.backends.cudnn.version()
            if None not in (locked["cudnn"], cudnn) and cudnn != locked["cudnn"]:
                error("shadowed-library", "cuDNN %d is loaded, %d is locked" % (cudnn, locked["cudnn"]))
        except RuntimeError as failed:
            # torch refuses a cuDNN older than the one that it was built with.
            error("shadowed-library", str(failed).split("\n")[0])
        if not torch.cuda.is_available():
            return []
        cards = range(torch.cuda.device_count())
        return [(torch.cuda.get_device_name(i), "%d.%d" % torch.cuda.get_device_capability(i)) for i in cards]

    def tensorflow_gpus(tensorflow):
        # TensorFlow before 2.4 does not report GPU details.
        details = getattr(tensorflow.config.experimental, "get_device_details", lambda card: {})
        cards = [details(card) for card in tensorflow.config.list_physical_devices("GPU")]
        capabilities = [card.get("compute_capability") for card in cards]
        return [(card.get("device_name", "GPU"), c and "%d.%d" % c) for card, c in zip(cards, capabilities)]

    def jax_gpus(jax):
        try:
            return [(card.device_kind, getattr(card, "compute_capability", None)) for card in jax.devices("gpu")]
        except RuntimeError:
            return []

    python = "%d.%d" % sys.version_info[:2]
    if python != locked["python"]:
        error("wrong-python", "the environment has Python %s, the lock is for %s" % (python, locked["python"]))
    kernel_module, release = drivers()
    for framework in locked["frameworks"]:
        name = framework["import"]
        try:
            imported = importlib.import_module(name)
        except Exception as failed:  # A missing library is an OSError, a broken installation anything.
            error("missing-package", "%s cannot be imported: %s: %s" % (name, type(failed).__name__, failed))
            continue
        # A folder or a file of that name before the framework in sys.path.
        if not isinstance(getattr(imported, "__version__", None), str):
            place = getattr(imported, "__file__", None) or list(getattr(imported, "__path__", ["unknown"]))[0]
            error("shadowed-package", "`import %s` finds %s, which is not %s: rename or remove it" % (name, place, name))
            continue
        parts = imported.__version__.split("+")
        if parts[0] != framework["version"]:
            error("wrong-version", "%s %s is installed, %s is locked" % (name, parts[0], framework["version"]))
        if name == "torch" and len(parts) > 1 and parts[1] != locked["variant"]:
            error("wrong-variant", "torch is built for %s, %s is locked" % (parts[1], locked["variant"]))
        if not framework["gpu"]:
            continue
        try:
            gpus = {"torch": torch_gpus, "tensorflow": tensorflow_gpus, "jax": jax_gpus}[name](imported)
        except Exception as failed:
            error("not-judged", "%s cannot query the GPUs: %s: %s" % (name, type(failed).__name__, failed))
            continue
        if not gpus:
            # `envlock verify` reports the same with --require-gpu.
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
            hidden = "" if hidden is None else ", CUDA_VISIBLE_DEVICES is %r" % hidden
            error("not-judged", "%s finds no GPU, but the lock needs one%s. Check: `nvidia-smi` lists the GPUs; "
                  "CUDA_VISIBLE_DEVICES does not hide them; a container is started with `--gpus all`" % (name, hidden))
        for label, capability in gpus:
            if capability is None:
                continue
            label = "%s (%s)" % (label, capability)
            if capability not in locked["coverage"]:
                error("gpu-not-covered", "%s is not supported: the stack supports %s" % (label, " ".join(locked["coverage"])))
                continue
            floor, below = locked["coverage"][capability]
            if release and floor and version(release) < version(floor):
                error("driver-too-old", "driver %s is below %s, which %s needs for this stack" % (release, floor, label))
            # The kernel module decides which GPUs are supported, not the user-mode library.
            if kernel_module and below and version(kernel_module) >= version(below):
                text = "driver %s no longer supports %s: it needs a driver older than %s"
                error("driver-too-new", text % (kernel_module, label, below))
    if found:
        raise SystemExit("\n".join(found + ["details: envlock verify --require-gpu"]))


_envlock_guard()
