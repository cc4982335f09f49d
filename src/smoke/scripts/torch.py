# torch: convolutions, forward and backward, and a matrix product, compared with float64 on the CPU.
layer("import", "cpu")
import torch

add("import", "cpu", True, "torch " + torch.__version__)


def problem(device, dtype, channels_last=False):
    generator = torch.Generator().manual_seed(20)
    x = torch.randn(1, 3, 224, 224, generator=generator, dtype=torch.float64)
    w = torch.randn(64, 3, 7, 7, generator=generator, dtype=torch.float64) / 12.0
    layout = torch.channels_last if channels_last else torch.contiguous_format
    x = x.to(device=device, dtype=dtype).contiguous(memory_format=layout).requires_grad_(True)
    w = w.to(device=device, dtype=dtype).contiguous(memory_format=layout).requires_grad_(True)
    y = torch.nn.functional.conv2d(x, w, stride=2, padding=3)
    # The gradients of a sum of squares, scaled to the range of half precision.
    (y.float() * y.float() / 1024.0 if dtype in (torch.float16, torch.bfloat16) else y * y / 1024.0).sum().backward()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return [t.detach().to("cpu", torch.float64) for t in (y, x.grad, w.grad)]


layer("reference", "cpu")
reference = problem("cpu", torch.float64)


def relative(got, expected):
    return largest(float((a - b).abs().max() / b.abs().max()) for a, b in zip(got, expected))


def convolution(name, device, tolerance, dtype=torch.float32, channels_last=False):
    layer(name, device)
    worst = relative(problem(device, dtype, channels_last), reference)
    judged(name, device, worst, tolerance)


def product(name, device, tolerance):
    layer(name, device)
    generator = torch.Generator().manual_seed(21)
    a = torch.randn(256, 512, generator=generator, dtype=torch.float64)
    b = torch.randn(512, 256, generator=generator, dtype=torch.float64)
    got = (a.to(device, torch.float32) @ b.to(device, torch.float32)).to("cpu", torch.float64)
    worst = relative([got], [a @ b])
    judged(name, device, worst, tolerance)


# The convolutions timed with and without cuDNN: a network's first layer, and a middle layer in training.
CASES = (("first-layer", (32, 3, 224, 224), (64, 3, 3, 3), False), ("training", (32, 128, 56, 56), (128, 128, 3, 3), True))
# Number of batches of each kind, and of calls in a batch.
BATCHES, CALLS = 7, 5


def cudnn_is(on):
    return torch.backends.cudnn.flags(enabled=on, benchmark=on, allow_tf32=True)


def kernels(once, device):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        once()
        torch.cuda.synchronize(device)
    # The launches are CPU events; only CUDA events are kernels.
    return sorted({e.key for e in recorded.key_averages() if str(e.device_type).endswith("CUDA")})


def with_and_without_cudnn(device):
    for name, x_shape, w_shape, backward in CASES:
        layer("speed-" + name, device)
        x = torch.randn(x_shape, device=device, requires_grad=backward)
        w = torch.randn(w_shape, device=device, requires_grad=backward)

        def once():
            y = torch.nn.functional.conv2d(x, w, padding=1)
            if backward:
                y.sum().backward()

        def batch(on):
            with cudnn_is(on):
                start = time.perf_counter()
                for _ in range(CALLS):
                    once()
                torch.cuda.synchronize(device)
                return (time.perf_counter() - start) / CALLS

        # Warm-up: the first batch of each kind chooses algorithms and loads code.
        batch(True), batch(False)
        case = {"case": name, "device": device, "with": [], "without": []}
        for _ in range(BATCHES):
            # Alternate, so that other load on the machine affects both kinds.
            case["with"].append(batch(True))
            case["without"].append(batch(False))
        try:
            for on, key in ((True, "kernels_with"), (False, "kernels_without")):
                with cudnn_is(on):
                    case[key] = kernels(once, device)
        except Exception:
            # The profiler needs permissions that a container may lack; the kernels stay unknown.
            pass
        compared.append(case)
        save()


def all_reduce(count):
    layer("nccl", "cuda")
    # One process for all GPUs: needs no ports and ranks.
    tensors = [torch.full((1024,), float(i + 1), device="cuda:%d" % i) for i in range(count)]
    torch.cuda.nccl.all_reduce(tensors)
    for i in range(count):
        torch.cuda.synchronize(i)
    expected = count * (count + 1) / 2
    passed = all(bool((t == expected).all()) for t in tensors)
    add("nccl", "cuda", passed, "all-reduce over %d GPUs, NCCL %s" % (count, ".".join(map(str, torch.cuda.nccl.version()))))


layer("device", "cuda")
available = wanted != "cpu" and torch.cuda.is_available()
if wanted == "cuda" or available:
    add("device", "cuda", available, "%d visible" % torch.cuda.device_count() if available else "torch.cuda.is_available() is False")
if available:
    count = torch.cuda.device_count()
    layer("cudnn", "cuda")
    if not torch.backends.cudnn.is_available():
        add("cudnn", "cuda", False, "this torch has no cuDNN, or cannot use it: convolutions run on torch's own kernels")
    elif not torch.backends.cudnn.enabled:
        add("cudnn", "cuda", False, "torch.backends.cudnn.enabled is False from the start: a sitecustomize or .pth file sets it")
    else:
        version = torch.backends.cudnn.version()
        # 8902 is 8.9.2, 91900 is 9.19.0.
        base = 10000 if version >= 90000 else 1000
        numbers = (version // base, version % base // 100, version % 100)
        add("cudnn", "cuda", True, "cuDNN %d.%d.%d" % numbers, version)
    for index in range(count):
        device = "cuda:%d" % index
        layer("name", device)
        capability = torch.cuda.get_device_capability(index)
        add("name", device, True, "%s (%d.%d)" % ((torch.cuda.get_device_name(index),) + capability))
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        convolution("conv-fp32", device, FP32)
        convolution("conv-channels-last", device, FP32, channels_last=True)
        with torch.backends.cudnn.flags(enabled=False):
            convolution("conv-without-cudnn", device, FP32)
        product("matmul-fp32", device, FP32)
        convolution("conv-fp16", device, FP16, dtype=torch.float16)
        # Below 8.0, bf16 is emulated or unsupported.
        if capability >= (8, 0):
            convolution("conv-bf16", device, BF16, dtype=torch.bfloat16)
        torch.backends.cudnn.allow_tf32 = True
        convolution("conv-tf32", device, TF32)
        with_and_without_cudnn(device)
    if count > 1:
        all_reduce(count)
else:
    convolution("conv-fp32", "cpu", FP32)
    convolution("conv-channels-last", "cpu", FP32, channels_last=True)
    product("matmul-fp32", "cpu", FP32)
    convolution("conv-bf16", "cpu", BF16, dtype=torch.bfloat16)
layer("done", None)
