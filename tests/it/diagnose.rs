//! `diagnose` on texts written for it.

use std::io::Write as _;
use std::process::Stdio;

use super::context::{IndexServer, Run, Shape, TestContext};
use super::wheels::wheel;

fn diagnose(context: &TestContext, text: &str, rest: &[&str]) -> Run {
    let mut command = context.command();
    command.arg("diagnose").args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    context.finish(child.wait_with_output().unwrap())
}

/// What is pasted, and the component at fault; nothing where nothing is.
const TABLE: &[(&str, Option<&str>)] = &[
    ("CUDA error: no kernel image is available for execution on the device", Some("gpu-arch")),
    // The numbers say whose kernels: torch's flavour, or an extension's.
    ("torch==2.9.1+cu126\nGPU 0: NVIDIA B200\nCUDA error: no kernel image is available", Some("torch-build")),
    ("torch==2.9.1+cu128\nGPU 0: NVIDIA GeForce GTX 1080 Ti\nno kernel image is available", Some("gpu-arch")),
    (
        "torch==2.9.1+cu128\nGPU 0: NVIDIA H100\nimport vllm\nno kernel image is available",
        Some("extension-abi"),
    ),
    (
        "PyTorch version: 2.9.1+cu128\nIs CUDA available: False\nNvidia driver version: 470.57.02",
        Some("driver"),
    ),
    (
        "PyTorch version: 2.9.1+cu130\nIs CUDA available: True\nNvidia driver version: 580.95.05\nGPU 0: NVIDIA H200",
        None,
    ),
    ("PyTorch version: 2.9.1+cpu\nGPU 0: NVIDIA H100\nNvidia driver version: 550.54.15", Some("torch-build")),
    ("PyTorch version: 2.9.1+cpu\nIs CUDA available: False\nROCM used to build PyTorch: N/A", None),
    // The driver is too old or too new for the GPU.
    (
        "PyTorch version: 2.9.1+cu128\nIs CUDA available: False\nGPU 0: NVIDIA GeForce RTX 5090\nNvidia driver version: 535.183.01",
        Some("driver"),
    ),
    (
        "PyTorch version: 2.7.1+cu126\nIs CUDA available: False\nGPU 0: Tesla V100-SXM2-16GB\nNvidia driver version: 595.45.04",
        Some("driver"),
    ),
    // lspci names a GPU that nvidia-smi does not see.
    (
        "No devices were found\n01:00.0 VGA compatible controller: NVIDIA Corporation GB202 [GeForce RTX 5090] (rev a1)\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12",
        Some("driver"),
    ),
    // Packages that do not go together, without an error.
    (
        "PyTorch version: 1.13.1+cu117\nIs CUDA available: True\n[pip3] numpy==2.1.0\n[pip3] torch==1.13.1",
        Some("extension-abi"),
    ),
    (
        "PyTorch version: 1.13.1+cu117\nIs CUDA available: True\n[pip3] numpy==1.26.4\n[pip3] torch==1.13.1",
        None,
    ),
    ("ModuleNotFoundError: No module named 'numpy._core'", Some("install-mix")),
    ("ModuleNotFoundError: No module named 'vllm._C'", Some("extension-abi")),
    ("ModuleNotFoundError: No module named 'vllm._C_stable_libtorch'", Some("extension-abi")),
    // A platform, not a Python, has no wheel.
    (
        "OS: macOS 14.5 (x86_64)\nPython version: 3.12.3 (main)\nERROR: No matching distribution found for torch==2.6.0",
        Some("torch-build"),
    ),
    // A terminal broke the message; the same words in two messages are none.
    (
        "RuntimeError: Detected that PyTorch and torchvision were compiled with different \nCUDA versions. PyTorch has CUDA Version=12.4 and torchvision has CUDA Version=12.1.",
        Some("torchvision-pairing"),
    ),
    (
        "RuntimeError: DataLoader worker (pid 47) exited. It is possible that its workers are out of\nshared memory. Please raise the limit.",
        Some("container"),
    ),
    // The last import says whose DLL it is.
    (
        "  File \"C:\\w\\run.py\", line 3, in <module>\n    from detectron2 import _C\nImportError: DLL load failed: The specified procedure could not be found.",
        Some("extension-abi"),
    ),
    // What Python itself says of names that it does not have yet, or no longer.
    ("Python 3.8.10\nTypeError: 'type' object is not subscriptable", Some("python")),
    ("Python 3.12.1\nTypeError: 'type' object is not subscriptable", Some("other")),
    (
        "ImportError: cannot import name 'Mapping' from 'collections' (/usr/lib/python3.10/collections/__init__.py)",
        Some("python"),
    ),
    ("Python 3.10.12\nModuleNotFoundError: No module named 'distutils'", Some("python")),
    ("ImportError: cannot import name 'Self' from 'typing' (/home/u/proj/typing.py)", Some("path-shadowing")),
    // A plugin that NCCL does not need.
    (
        "NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory",
        None,
    ),
    ("torch==1.8.0+cu102\nGPU 0: NVIDIA GeForce RTX 2070\nCUDNN_STATUS_NOT_INITIALIZED", Some("torch-build")),
    ("OS: macOS 15.3\nAssertionError: Torch not compiled with CUDA enabled", Some("other")),
    ("AssertionError: Torch not compiled with CUDA enabled", Some("torch-build")),
    (
        "pip install torch --index-url https://download.pytorch.org/whl/cu114\nfrom versions: none)",
        Some("torch-build"),
    ),
    ("The NVIDIA driver on your system is too old (found version 11040)", Some("driver")),
    (
        "NVIDIA Jetson Orin\nThe NVIDIA driver on your system is too old (found version 11040)",
        Some("torch-build"),
    ),
    ("Error 804: forward compatibility was attempted on non supported HW", Some("driver")),
    ("Error 802: system not yet initialized", Some("driver")),
    (
        "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].",
        Some("container"),
    ),
    ("undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12", Some("path-shadowing")),
    ("x.so: undefined symbol: _ZN3c104impl8GPUTrace13gpuTraceStateE", Some("extension-abi")),
    ("RuntimeError: operator torchvision::nms does not exist", Some("torchvision-pairing")),
    ("libc.so.6: version `GLIBC_2.32' not found", Some("glibc")),
    ("x.so: undefined symbol: _ZNSt13runtime_errorC2EPKc", Some("glibc")),
    (
        "GPU: Intel Iris Xe (integrated)\nCUDA driver version is insufficient for CUDA runtime version",
        Some("driver"),
    ),
    (
        "in a singularity container\nCUDA driver version is insufficient for CUDA runtime version",
        Some("container"),
    ),
    ("A matching Triton is not available, some optimizations will not be enabled.", None),
    ("UserWarning: Plan failed with a cudnnException: cudnn_status: CUDNN_STATUS_NOT_SUPPORTED", None),
    (
        "Unable to initialize backend 'tpu': INTERNAL: libtpu.so: cannot open shared object file: No such file",
        None,
    ),
    ("Error 500: named symbol not found", Some("container")),
    // What stands beside a notice counts, and so does an exception with its words.
    ("A matching Triton is not available. Error: CUDA out of memory", Some("other")),
    (
        "Unable to initialize backend 'tpu': ImportError: libcudart.so.12: cannot open shared object file",
        Some("cuda-runtime"),
    ),
    (
        "Unable to initialize backend 'tpu': x; Unable to initialize backend 'cuda': no visible devices",
        Some("install-mix"),
    ),
    (
        "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file",
        None,
    ),
    ("libtpu.so: cannot open shared object file: No such file or directory", None),
    ("NameError: name '_C' is not defined", Some("extension-abi")),
    ("nvcc fatal   : Value 'c++14' is not defined for option 'std'", Some("cuda-runtime")),
    (
        "LD_LIBRARY_PATH=/opt/hpc\nRuntimeError: Unable to load cuSPARSE. Is it installed?\na CUDA-enabled jaxlib is not installed. Falling back to cpu",
        Some("path-shadowing"),
    ),
    (
        "No devices were found\nRuntimeError: cuda runtime error (101) : invalid device ordinal",
        Some("driver"),
    ),
    ("Could not locate zlibwapi.dll. Please make sure it is in your library path!", Some("cudnn")),
    (
        "RuntimeError: Cannot install on Python version 3.11.3; only versions >=3.7,<3.11 are supported.",
        Some("python"),
    ),
    (
        "/opt/conda/envs/a/lib/python3.10/site-packages/torch/lib/../../../../libcublas.so.11: undefined symbol: cublasLtX, version libcublasLt.so.11",
        Some("install-mix"),
    ),
    (
        "/usr/local/cuda-11.1/lib64/libcublas.so: symbol runGemmShortApi, version libcublasLt.so.11 not defined in file",
        Some("path-shadowing"),
    ),
    ("libstdc++.so.6: version `GLIBCXX_3.4.30' not found", Some("path-shadowing")),
    (
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: cannot open shared object file",
        Some("cuda-runtime"),
    ),
    (
        "ls /opt/cuda/lib64/libcudart.so.11.0\nCould not load dynamic library 'libcudart.so.11.0'",
        Some("path-shadowing"),
    ),
    ("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", Some("path-shadowing")),
    ("Loaded runtime CuDNN library: 8.9.2 but source was compiled with: 9.1.0", Some("cudnn")),
    (
        "The detected CUDA version (11.8) mismatches the version that was used to compile",
        Some("cuda-runtime"),
    ),
    ("ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'", Some("gpu-arch")),
    ("AttributeError: _ARRAY_API not found", Some("extension-abi")),
    ("RuntimeError: CUDA error: invalid device ordinal", Some("other")),
    ("undefined symbol: ncclCommRegister", Some("nccl")),
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", Some("other")),
    ("everything went well", None),
    ("", None),
];

/// A line for each rule, and where the facts around it matter, those.
const RULES: &[(&str, &str)] = &[
    ("driver-too-old", "CUDA driver version is insufficient for CUDA runtime version"),
    ("driver-lacks-call", "CUDA error: API call is not supported in the installed CUDA driver"),
    ("no-driver", "RuntimeError: Found no NVIDIA driver on your system."),
    ("no-device", "RuntimeError: No CUDA GPUs are available"),
    (
        "cuinit-failed",
        "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
    ),
    ("driver-state", "could not insert 'nvidia_uvm': No such device"),
    (
        "device-count",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions",
    ),
    ("initialization", "RuntimeError: CUDA error: initialization error"),
    ("fabric-manager", "Error 802: system not yet initialized"),
    ("driver-combination", "Error 803: system has unsupported display driver / cuda driver combination"),
    ("forward-compatibility", "Error 804: forward compatibility was attempted on non supported HW"),
    ("driver-mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
    ("stub-library", "CUDA error: CUDA driver is a stub library"),
    ("nvml-missing", "UserWarning: Can't initialize NVML"),
    ("nvml-unknown", "Failed to initialize NVML: Unknown Error"),
    ("ptx-toolchain", "the provided PTX was compiled with an unsupported toolchain."),
    ("ptx-jit-failed", "CUDA error: a PTX JIT compilation failed"),
    ("ptx-jit-missing", "CUDA error: PTX JIT compiler library not found"),
    ("ptx-jit-off", "CUDA error: PTX JIT compilation was disabled"),
    ("mps", "CUDA error: MPS client failed to connect to the MPS control daemon"),
    ("wsl-memory", "Unexpected error from cudaGetDeviceCount(). Error 2: out of memory"),
    ("rm-init", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0xffff:667)"),
    ("needs-open-modules", "NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
    ("legacy-gpu", "NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please"),
    (
        "module-not-built",
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-79-generic",
    ),
    (
        "mig-without-instances",
        "|  No MIG devices found                                                      |",
    ),
    (
        "no-bfloat16",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
    ),
    (
        "memory-held-at-start",
        "ValueError: Free memory on device (3.41/23.55 GiB) on startup is less than desired GPU memory utilization (0.9, 21.19 GiB).",
    ),
    ("no-node-with-free-gpus", "0/4 nodes are available: 3 Insufficient nvidia.com/gpu."),
    (
        "rootless-cgroups",
        "mount error: failed to add device rules: bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted",
    ),
    ("locked-memory", "NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory"),
    ("xid-bus", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
    ("xid-memory", "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE"),
    ("xid-program", "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python, MMU Fault"),
    ("xid-firmware", "NVRM: Xid (PCI:0000:3b:00): 119, pid=1, Timeout after 6s of waiting for RPC"),
    ("xid-nvlink", "NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error"),
    (
        "not-covered",
        "GPU with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
    ),
    ("no-kernel-image", "CUDA error: no kernel image is available for execution on the device"),
    ("ptxas-too-old", "ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'"),
    ("ptx-jitting", "most of the start is spent ptx-jitting"),
    ("cpu-build", "AssertionError: Torch not compiled with CUDA enabled"),
    (
        "extension-beside-cpu",
        "xFormers was built for: PyTorch 2.9.1+cu128 with CUDA 1208 (you have 2.9.1+cpu)",
    ),
    ("no-hip", "RuntimeError: No HIP GPUs are available"),
    ("conda-cpu", "pytorch-mutex 1.0 cpu pytorch"),
    (
        "no-such-index",
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)",
    ),
    ("no-wheel", "ERROR: No matching distribution found for torch==9.9"),
    ("build-not-on-index", "because there is no version of torch==2.9.1+cu128, we can conclude"),
    ("built-from-source", "ERROR: Failed building wheel for tokenizers"),
    (
        "cudnn-incompatible",
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 1, 0)",
    ),
    ("cudnn-sublibrary", "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"),
    ("cudnn-part-missing", "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"),
    ("cudnn-no-engine", "RuntimeError: GET was unable to find an engine to execute this computation"),
    ("cudnn-drops-gpu", "cuDNN version 91100 is not compatible with devices with SM < 7.5"),
    ("cudnn-runtime-older", "Loaded runtime CuDNN library: 8.9.2 but source was compiled with: 9.1.0"),
    ("cudnn-needs-driver", "Could not load library libcudnn_cnn.so.9. Error: libcuda.so: cannot open"),
    ("cudnn-needs-nvrtc", "Could not load library libcudnn_cnn.so.9. Error: libnvrtc.so: cannot open"),
    ("cudnn-missing", "Could not load library libcudnn_ops_infer.so.8."),
    ("cudnn-status", "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
    ("cublas-status", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    (
        "cublas-pair",
        "libcublas.so.12: undefined symbol: cublasLtGetEnvironmentMode, version libcublasLt.so.12",
    ),
    ("nvjitlink", "undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12"),
    ("tensorflow-no-cudart", "Could not find cuda drivers on your machine, GPU will not be used."),
    ("nccl-symbol", "undefined symbol: ncclCommRegister"),
    ("torchvision-ops", "RuntimeError: operator torchvision::nms does not exist"),
    ("torch-symbol", "flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"),
    ("mkl-symbol", "libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent"),
    ("libtorch-missing", "OSError: libtorch_cuda.so: cannot open shared object file"),
    ("glibc", "libc.so.6: version `GLIBC_2.32' not found"),
    ("libstdcxx", "libstdc++.so.6: version `GLIBCXX_3.4.30' not found"),
    ("libcuda-missing", "ImportError: libcuda.so.1: cannot open shared object file"),
    ("cuda-library-missing", "Could not load dynamic library 'libcudart.so.11.0'"),
    ("libdevice", "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice"),
    ("toolkit-mismatch", "The detected CUDA version (11.8) mismatches the version that was used"),
    ("bitsandbytes-setup", "CUDA Setup failed despite GPU being available"),
    ("numpy-abi", "AttributeError: _ARRAY_API not found"),
    ("pjrt-mismatch", "Mismatched PJRT plugin PJRT API version (0.54) and framework (0.51)"),
    ("jax-outdated", "RuntimeError: Outdated cuBLAS installation found."),
    ("jax-outdated-cudnn", "RuntimeError: Outdated cuDNN installation found."),
    ("jax-library", "RuntimeError: Unable to load cuSPARSE. Is it installed?"),
    ("jax-cpu", "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."),
    ("jax-backend", "RuntimeError: Unable to initialize backend 'cuda'"),
    ("cdi-devices", "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"),
    ("docker-runtime", "could not select device driver \"\" with capabilities: [[gpu]]."),
    ("container-requirement", "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"),
    ("device-ordinal", "RuntimeError: CUDA error: invalid device ordinal"),
    ("device-busy", "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
    ("memory-full", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("illegal-access", "CUDA error: an illegal memory access was encountered"),
    ("device-assert", "RuntimeError: CUDA error: device-side assert triggered"),
    ("not-on-this-gpu", "RuntimeError: CUDA error: operation not supported"),
    ("fork", "RuntimeError: Cannot re-initialize CUDA in forked subprocess."),
    ("mig-uuid", "ValueError: invalid literal for int() with base 10: 'MIG-4f0b'"),
];

/// Dumps without a complaint, and the code of what mechanics find in them.
const MECHANICS: &[(&str, &str)] = &[
    (
        "asked-above-driver",
        "conda install pytorch cudatoolkit=10.2 -c pytorch\n| NVIDIA-SMI 418.67  Driver Version: 418.67  CUDA Version: 10.1 |",
    ),
    ("driver-below-floor", "torch==2.9.1+cu130\nNvidia driver version: 470.57.02"),
    ("driver-of-other-gpus", "GPU 0: NVIDIA GeForce RTX 5090\nNvidia driver version: 535.183.01"),
    ("known-pair", "[pip3] torch==2.2.2\n[pip3] numpy==2.1.0"),
    ("gpu-not-covered", "torch==2.9.1+cu128\nGPU 0: NVIDIA GeForce GTX 1080 Ti"),
    ("cudnn-below-gpu", "torch.backends.cudnn.version(): 91100\nGPU 0: Tesla V100-SXM2-32GB"),
    ("cpu-build", "PyTorch version: 2.9.1+cpu\nGPU 0: NVIDIA H100"),
    ("jetson-build", "Jetson Orin\ntorch.cuda.is_available()\nFalse"),
    ("rocm-build", "GPU: AMD Radeon RX 7900\ntorch.cuda.is_available()\nFalse"),
    (
        "driver-not-working",
        "torch==2.9.1+cu128\nIs CUDA available: False\nNvidia driver version: Could not collect",
    ),
    ("torch-not-importable", "PyTorch version: N/A\nIs CUDA available: N/A"),
    ("torchvision-pair", "torch==2.5.1\ntorchvision==0.16.0"),
    ("jax-plugin-pair", "jaxlib==0.6.1\njax-cuda12-plugin==0.5.3"),
    (
        "two-pythons",
        "Traceback (most recent call last):\n  File \"/opt/hub/lib/python3.6/site-packages/IPython/shell.py\", line 3, in run\n  File \"/home/u/.local/lib/python3.7/site-packages/numpy/core/__init__.py\", line 2, in <module>\nImportError: x",
    ),
    (
        "two-cuda-majors",
        "nvidia-cudnn-cu11==8.7.0.84\nnvidia-cudnn-cu12==9.1.0.70\nCUDNN_STATUS_INTERNAL_ERROR",
    ),
    ("no-such-build", "ERROR: No matching distribution found for torch==2.6.0+cu121"),
    ("no-such-flavour", "pip install torch --index-url https://download.pytorch.org/whl/cu114"),
    (
        "other-than-asked",
        "conda install pytorch cudatoolkit=10.1 -c pytorch\nPyTorch version: 1.0.0\nCUDA used to build PyTorch: 9.0\nIs CUDA available: Yes",
    ),
];

/// The build that failed is not its own fix: where the GPU is not known, it is asked for; where a line is nothing but its name,
/// it is known.
#[test]
fn the_build_that_failed_is_not_offered() {
    let context = TestContext::new().with_shipped_registry();
    let fix = |text: &str| diagnose(&context, text, &[]).flat();
    let kernel = "no kernel image is available for execution on the device\n";
    let offered = fix(kernel);
    let (_, version) = offered.split_once("torch==").unwrap();
    let version = version.split(' ').next().unwrap();
    let (_, cuda) = offered.split_once("(CUDA ").unwrap();
    let variant = format!("cu{}", cuda.split(',').next().unwrap().replace('.', ""));
    let failed = format!("PyTorch version: {version}+{variant}\n{kernel}");
    assert!(fix(&failed).contains("nvidia-smi") && !fix(&failed).contains("pip install"), "{}", fix(&failed));
    for name in ["P100", "- P100 (6.0)", "* P100 16GB"] {
        let fix = fix(&format!("{name}\n{failed}"));
        assert!(fix.contains("code for 6.0"), "{name}: {fix}");
    }
}

/// The smallest step: another build of the installed release; another release where the release itself is at fault, or none of its
/// builds works.
#[test]
fn the_installed_release_is_kept_where_it_can_be() {
    let context = TestContext::new().with_shipped_registry();
    let old = "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).\n";
    let kernel = "CUDA error: no kernel image is available for execution on the device\n";
    let index = "--index-url https://download.pytorch.org/whl";
    for (text, expected) in [
        (format!("PyTorch version: 2.11.0\n{old}"), format!("torch==2.11.0+cu128 {index}/cu128")),
        (format!("PyTorch version: 2.11.0+cu130\n{old}"), format!("torch==2.11.0+cu128 {index}/cu128")),
        (
            "PyTorch version: 2.6.0+cpu\n[pip3] torch==2.6.0\n[pip3] torchvision==0.21.0\nNvidia driver version: 550.54.15\nGPU 0: NVIDIA A100\nTorch not compiled with CUDA enabled\n".to_owned(),
            format!("torch==2.6.0+cu124 torchvision==0.21.0+cu124 {index}/cu124"),
        ),
        // PyPI's build of the same release.
        (
            format!("PyTorch version: 2.7.1+cu118\nGPU 0: NVIDIA B200\n{kernel}"),
            format!("torch==2.7.1+cu128 {index}/cu128"),
        ),
        // No build of it has code for the GPU.
        (format!("PyTorch version: 2.3.0+cu121\nGPU 0: NVIDIA B200\n{kernel}"), "torch==2.1".to_owned()),
        // The build that is installed is no fix, whether its variant is stated or not.
        (format!("PyTorch version: 1.10.2\nCUDA used to build PyTorch: 10.2\n{kernel}"), "torch==2.15.0 ".to_owned()),
        ("PyTorch version: 2.0.1\nAttributeError: module 'torch' has no attribute 'compiler'\n".to_owned(), "torch==2.15.0 ".to_owned()),
        // pip does not see it for this Python.
        (
            "ERROR: Could not find a version that satisfies the requirement torch==1.13.1 (from versions: 2.2.0, 2.3.0)\n".to_owned(),
            "torch==2.3.0".to_owned(),
        ),
    ] {
        let json = diagnose(&context, &text, &["--json"]).json();
        let fixes = json["causes"][0]["fix"].to_string();
        assert!(fixes.contains(&expected), "{text}: {expected}: {fixes}");
    }
}

#[test]
fn each_rule_knows_its_line_and_mechanics_need_none() {
    let context = TestContext::new().with_shipped_registry();
    for (code, text) in RULES.iter().chain(MECHANICS) {
        let json = diagnose(&context, &format!("{text}\n"), &["--json"]).json();
        let causes = json["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["code"] == *code), "{code}: {text}: {json:#}");
        for cause in causes {
            assert!(!cause["evidence"].as_array().unwrap().is_empty(), "no evidence: {text}: {json:#}");
        }
    }
    // The build that was asked for, and two commands of which one installed it.
    for text in [
        "conda install pytorch pytorch-cuda=12.1\ntorch==2.4.1+cu121",
        "pip install torch --index-url https://download.pytorch.org/whl/cu118\n\
         pip install torch --index-url https://download.pytorch.org/whl/cu121\ntorch==2.4.1+cu124",
    ] {
        let json = diagnose(&context, text, &["--json"]).json();
        assert!(!json.to_string().contains("other-than-asked"), "{json:#}");
    }
    // Those of the other files are matched one by one in `diagnose/matcher.rs`.
    let registry = envlock::registry::Registry::embedded();
    let own = registry.files().iter().find(|file| file.path == "errors.toml").unwrap();
    for rule in registry.errors().iter().filter(|rule| own.text.contains(&format!("id = \"{}\"", rule.id))) {
        assert!(RULES.iter().any(|(id, _)| *id == rule.id), "no line is written for `{}`", rule.id);
    }
}

#[test]
fn harmless_lines_have_no_cause() {
    let context = TestContext::new().with_shipped_registry();
    let text = "install libdrm-nouveau2:amd64 <none> 2.4.114\nENV NVIDIA_VISIBLE_DEVICES=all\n\
        CUDA_VISIBLE_DEVICES=0,1 python train.py\nNCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\n\
        cl.exe /c /nologo /O2 foo.cpp\nexport CUDA_PATH=/usr/local/cuda\nRequires-Python: >=3.10\n\
        with driver >= 575; glibc >= 2.28; linux-x86_64\ng++ -L/usr/local/cuda/lib64/stubs -lcuda foo.o\n\
        Singularity> python train.py\n-- Found CUDA: /usr/local/cuda (found version \\\"12.4\\\")\n\
        verify: undefined symbols, libraries for another processor\nepoch 3 step 126 error 0.126\n\
        Successfully installed torch-2.9.1 nvidia-cudnn-cu12-9.10.2.21\n";
    let json = diagnose(&context, text, &["--json"]).expect(3).json();
    assert_eq!(json["causes"], serde_json::json!([]), "{json:#}");
}

#[test]
fn an_exception_with_the_words_of_a_notice_is_quoted() {
    let context = TestContext::new().with_shipped_registry();
    for text in [
        "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed",
        "JAX_PLATFORMS=tpu python t.py\nRuntimeError: Unable to initialize backend 'rocm': ALREADY_EXISTS",
        "RuntimeError: A matching Triton is not available",
    ] {
        let json = diagnose(&context, text, &["--json"]).json();
        assert_eq!(json["verdict"], "unknown", "{json:#}");
        let quoted = json["unexplained"][0]["text"].as_str().unwrap_or_default();
        assert!(text.ends_with(quoted) && !quoted.is_empty(), "{json:#}");
        assert_eq!(json.get("excluded"), None, "{json:#}");
    }
}

#[test]
fn an_unknown_error_is_not_healthy() {
    let context = TestContext::new().with_shipped_registry();
    let dump = "PyTorch version: 2.9.1+cu128\nIs CUDA available: True\nNvidia driver version: 580.65.06\n\
                GPU 0: NVIDIA A100-SXM4-80GB\n";
    let healthy = diagnose(&context, dump, &["--json"]).expect(0).json();
    assert_eq!(healthy["verdict"], "healthy");
    // Nobody can list the words of all failures: only a description is healthy.
    for line in [
        "Process finished with exit code 137 (interrupted by signal 9:SIGKILL)",
        "zsh: killed     python train.py",
        "Bus error",
        "139",
        "Reason: Evicted",
        ">>> jax.devices()\n[CpuDevice(id=0)]",
        "\u{6bb5}\u{9519}\u{8bef} (\u{6838}\u{5fc3}\u{5df2}\u{8f6c}\u{50a8})",
    ] {
        let json = diagnose(&context, &format!("{dump}{line}\n"), &["--json"]).expect(3).json();
        assert_eq!(json["verdict"], "unknown", "{line}");
    }
    // A long line has its error at the end.
    let error = "RuntimeError: CUDA error: no kernel image is available";
    let frames = "  File \\\"x.py\\\", line 1, in f\\n".repeat(300);
    let bar = "\r 10%|###   | 1/10 [00:01<00:09]".repeat(200);
    for line in [format!("{{\"log\": \"Traceback\\n{frames}{error}\\n\"}}"), format!("{bar}\r{error}")] {
        let json = diagnose(&context, &format!("{dump}{line}\n"), &["--json"]).expect(1).json();
        assert_eq!(json["causes"][0]["component"], "extension-abi", "{json:#}");
    }
    let text = format!("{dump}[rank3]: WidgetError: the flux is not what it was\n");
    let json = diagnose(&context, &text, &["--json"]).expect(3).json();
    assert_eq!(json["verdict"], "unknown");
    assert_eq!(json["unexplained"][0]["line"], 5);
    assert_eq!(json["ask"], "envlock verify");
    assert_eq!(json["excluded"][0], "driver 580.65.06 runs CUDA 12.8, which torch was built with");
    let shown = diagnose(&context, &text, &[]).expect(3);
    assert!(
        shown.stdout.contains("WidgetError") && shown.stderr.contains("envlock verify"),
        "{}",
        shown.shown()
    );
}

/// What a fix rests on is said: a GPU that is not known, another Python. NumPy's messages have a direction.
#[test]
fn a_fix_says_what_it_rests_on() {
    let context = TestContext::new().with_shipped_registry();
    let kernel = "RuntimeError: CUDA error: no kernel image is available for execution on the device";
    let machine = "GPU 0: NVIDIA H100 80GB HBM3\nNvidia driver version: 535.129.03";
    let numpy = "may indicate binary incompatibility. Expected 88 from C header, got";
    for (text, told) in [
        (kernel.to_owned(), "the GPU is not known: an older one may need another build"),
        (format!("Python version: 3.7.10\nPyTorch version: 1.13.1+cu117\n{machine}\n{kernel}"), "needs Python 3."),
        (format!("ValueError: numpy.ndarray size changed, {numpy} 80 from PyObject"), "--upgrade \"numpy<2\""),
        (format!("ValueError: numpy.dtype size changed, {numpy} 96 from PyObject"), "runs with NumPy 1"),
        (
            "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."
                .to_owned(),
            "map_location",
        ),
        // PTX needs a driver that is not older than its CUDA.
        (
            format!("PyTorch version: 2.9.1+cu129\n{machine}\nthe provided PTX was compiled with an unsupported toolchain"),
            "whl/cu118 (CUDA 11.8, code for 9.0, runs on driver 535.129.03,",
        ),
        (
            "No devices were found\n01:00.0 3D controller: NVIDIA Corporation GB202 [GeForce RTX 5090] (rev a1)\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01"
                .to_owned(),
            "needs driver >= 570; the driver is 535.183.01",
        ),
        // The GPU without code, of two.
        (
            format!("PyTorch version: 2.11.0+cu130\n{machine}\nGPU 1: Tesla V100-PCIE-16GB\n{kernel}"),
            "10.0 12.0; Tesla V100 PCIe 16GB has compute capability 7.0",
        ),
        (
            "nothing provides __cuda >=12.8 needed by pytorch-gpu\nDriver Version: 550.54.14   CUDA Version: 12.4"
                .to_owned(),
            "'cuda-version<=12.4'",
        ),
        (
            "external/xla/xla/cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.8.0"
                .to_owned(),
            "jax[cuda12]",
        ),
    ] {
        let run = diagnose(&context, &text, &[]);
        assert!(run.flat().contains(told), "{}", run.shown());
    }
}

#[test]
fn a_command_is_told_once() {
    let context = TestContext::new().with_shipped_registry();
    let text = "[pip3] torch==2.2.2\n[pip3] numpy==2.1.0\nRuntimeError: Numpy is not available";
    let run = diagnose(&context, text, &[]);
    assert_eq!(run.stdout.matches("numpy<2").count(), 1, "{}", run.shown());
}

#[test]
fn fixes_fit_the_setup() {
    let context = TestContext::new().with_shipped_registry();
    let gtx = "torch==2.9.1+cu128\nGPU 0: NVIDIA GeForce GTX 1080 Ti\nDriver Version: 535.54.03\n";
    let old = "torch==2.9.1+cu130\nNvidia driver version: 470.57.02\n";
    for (text, expected) in [
        (gtx.to_owned(), "pip install torch=="),
        (format!("{gtx}uv sync\n"), "uv pip install torch=="),
        (format!("{gtx}OS: Microsoft Windows 11 Pro\n"), "python -m pip install torch=="),
        (
            format!("{gtx}[conda] pytorch 2.4.0 py3.11_cuda12.4_cudnn9.1.0_0 pytorch\n"),
            "conda remove --yes pytorch",
        ),
        (format!("{gtx}torchvision==0.24.1\n"), " torchvision=="),
        (format!("{gtx}Python version: 3.9.20\n"), "pip install torch==2.8.0 --index-url"),
        (
            "RuntimeError: Library cublas64_12.dll is not found or cannot be loaded\n".to_owned(),
            "python -m pip install nvidia-cublas-cu12",
        ),
        (old.to_owned(), "update the NVIDIA driver on the host to 580.65.06 or newer"),
        (
            format!("{old}microsoft-standard-WSL2\n"),
            "update the NVIDIA driver on Windows to 580.65.06 or newer",
        ),
        (format!("{old}docker run me\n"), "update the NVIDIA driver on the host to 580.65.06 or newer"),
    ] {
        let json = diagnose(&context, &text, &["--json"]).json();
        let fixes: Vec<&str> =
            json["causes"][0]["fix"].as_array().unwrap().iter().filter_map(|fix| fix.as_str()).collect();
        assert!(fixes.iter().any(|fix| fix.contains(expected)), "{text}: {expected}: {fixes:?}");
    }
    // A Jetson's builds are NVIDIA's: nothing of ours is offered.
    let json =
        diagnose(&context, &format!("{gtx}Jetson\nno kernel image is available\n"), &["--json"]).json();
    assert!(!json["causes"].to_string().contains("pip install torch=="), "{json:#}");
}

/// From the cause to the repair: the package that brings a file, the build of the program that failed, the place where it runs, and
/// the numbers of the message.
#[test]
fn fixes_repair() {
    let context = TestContext::new().with_shipped_registry();
    let missing = "cannot open shared object file: No such file or directory";
    let frame = |module: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/v/lib/python3.12/site-packages/{module}/a.py\", line 1, in f\n"
        )
    };
    let compat = "Error 803: system has unsupported display driver / cuda driver combination";
    for (text, expected) in [
        // Who brings a file.
        (format!("OSError: libcurand.so.10: {missing}\nPyTorch version: 2.9.1+cu128\n"), "pip install nvidia-curand-cu12 "),
        (format!("OSError: libnvJitLink.so.13: {missing}\n"), "pip install \"nvidia-nvjitlink>=13,<14\""),
        (format!("OSError: libcublas.so.12: {missing}\n"), "export LD_LIBRARY_PATH="),
        ("Could not locate cudnn_ops64_9.dll. Please make sure it is in your library path\n".to_owned(), "nvidia-cudnn-cu13"),
        (format!("JetPack 6.2\nOSError: libcudss.so.0: {missing}\n"), "install -y cudss"),
        (format!("JetPack 6.2\nOSError: libcufft.so.11: {missing}\n"), "nvidia-jetpack"),
        ("ldd ./run.exe\n  cufft64_12.dll => not found\n  VCRUNTIME140.dll => C:\\Windows\\SYSTEM32\\VCRUNTIME140.dll (0x1)\n".to_owned(), "nvidia-cufft"),
        ("WSL2\nRuntimeError: Failed to dlopen libcuda.so.1\n".to_owned(), "/usr/lib/wsl/lib"),
        ("OSError: /v/lib/libx.so.1: undefined symbol: timer_create\n".to_owned(), "LD_PRELOAD=librt.so.1"),
        (format!("ImportError: libGL.so.1: {missing}\n"), "sudo apt-get install -y libgl1"),
        ("[sgl_kernel] CRITICAL: Could not load any common_ops library!\nImportError: libnuma.so.1: cannot open shared object file\n".to_owned(), "libnuma1"),
        (format!("nvidia-cublas-cu11==11.10.3.66\nOSError: libcurand.so.10: {missing}\n"), "pip install nvidia-curand-cu11 "),
        // All that are missing.
        (format!("OSError: libcufft.so.11: {missing}\nOSError: libcusparse.so.12: {missing}\n"), "pip install nvidia-cufft-cu12 nvidia-cusparse-cu12 "),
        // Who failed.
        (format!("{}ImportError: x.so: undefined symbol: _ZN3c105ErrorC2E\n", frame("mmcv")), "mim install mmcv"),
        (
            format!("PyTorch version: 2.6.0+cu124\n{}ImportError: x.so: undefined symbol: _ZN2at4_ops\n", frame("torch_cluster")),
            "https://data.pyg.org/whl/torch-2.6.0+cu124.html",
        ),
        (
            format!("{}RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist\n", frame("flashinfer")),
            "VLLM_USE_FLASHINFER_SAMPLER=0",
        ),
        ("PyTorch 2.3.1+cu121 with CUDA 1201 (you have 2.3.0+cpu)\n".to_owned(), "torch==2.3.1 --index-url"),
        ("xFormers can't load C++/CUDA extensions. xFormers was built for:\nPyTorch 2.0.0+cu118 with CUDA 1108 (you have 2.0.1+cu117)\n".to_owned(), "xformers==0.0.22 --index-url https://download.pytorch.org/whl/cu117"),
        (
            format!("PyTorch version: 2.4.0+cu124\n{}ImportError: /lib/libc.so.6: version `GLIBC_2.32' not found (required by /v/flash_attn_2_cuda.so)\n", frame("flash_attn")),
            "FLASH_ATTENTION_FORCE_BUILD=TRUE",
        ),
        ("Collecting flash-attn\n  Getting requirements to build wheel did not run successfully.\nModuleNotFoundError: No module named 'torch'\n".to_owned(), "pip install --no-build-isolation flash-attn"),
        (
            "torch==2.6.0+cu124\nERROR: Failed building wheel for torch-scatter\n".to_owned(),
            "torch-scatter -f https://data.pyg.org/whl/torch-2.6.0+cu124.html",
        ),
        (format!("onnxruntime::ProviderLibrary::Get() Failed to load library: libcublasLt.so.11: {missing}\n"), "onnxruntime.preload_dlls()"),
        ("torch==2.2.0\nctranslate2==4.5.0\nUnable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9}\n".to_owned(), "ctranslate2<4.5"),
        ("torch==2.6.0\nctranslate2==4.4.0\nCould not locate cudnn_ops_infer64_8.dll. Please make sure it is in your library path!\n".to_owned(), "ctranslate2>=4.5"),
        (
            "PyTorch version: 2.7.0+cu128\nGPU 0: NVIDIA GeForce RTX 5090\nCUDA error: no kernel image is available\n".to_owned(),
            "TORCH_CUDA_ARCH_LIST=\"12.0\" pip install",
        ),
        // Where it runs.
        ("docker run a\nSetting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all\n".to_owned(), "nvidia-ctk cdi generate"),
        ("AGX Orin\ndocker run a\nRuntimeError: No CUDA GPUs are available\n".to_owned(), "--runtime nvidia"),
        ("podman run img\nRuntimeError: No CUDA GPUs are available\n".to_owned(), "nvidia-ctk cdi generate"),
        ("kubectl logs a\nRuntimeError: No CUDA GPUs are available\n".to_owned(), "`nvidia.com/gpu: 1`"),
        ("apptainer exec a.sif\nRuntimeError: No CUDA GPUs are available\n".to_owned(), "apptainer exec --nv"),
        (format!("GKE node\n{compat}\n"), "LD_LIBRARY_PATH=/usr/local/nvidia/lib64"),
        (format!("docker run img\n{compat}\n"), "without cuda-compat the driver of the host is used"),
        ("File \"E:\\\\a\\\\b.py\"\nAssertionError: Torch not compiled with CUDA enabled\n".to_owned(), "python -m pip install torch=="),
        ("/content/sam\nRuntimeError: Found no NVIDIA driver on your system.\n".to_owned(), "Change runtime type"),
        ("srun: job 12 queued\nRuntimeError: No CUDA GPUs are available\n".to_owned(), "srun --gres=gpu:1"),
        ("kubectl get pods\nnvml init failed: Driver/library version mismatch\n".to_owned(), "kubectl drain"),
        ("GKE node\n/usr/bin/ld: cannot find -l:libcuda.so.1\n".to_owned(), "TRITON_LIBCUDA_PATH=/usr/local/nvidia/lib64"),
        ("/v/lib/python3.11/site-packages/torch/include/a.h:12:10: fatal error: Python.h: No such file or directory\n".to_owned(), "python3.11-dev"),
        ("C:\\a\\cuda_utils.c:14: error: include file 'Python.h' not found\n".to_owned(), "folders `include` and `libs`"),
        ("pod/train-0 namespace=vision\nDataLoader worker (pid 412) is killed by signal: Bus error.\n".to_owned(), "`medium: Memory`"),
        ("kubectl describe pod a\n  Reason:       OOMKilled\n".to_owned(), "resources.limits.memory"),
        ("microsoft-standard-WSL2\nii  nvidia-driver-550  550.120\nFailed to initialize NVML: GPU access blocked by the operating system\n".to_owned(), "apt-get purge"),
        ("R36, REVISION: 4.3 in nv_tegra_release\n2.6.0+cpu False\nAssertionError: Torch not compiled with CUDA enabled\n".to_owned(), "pypi.jetson-ai-lab.io/jp6/cu126"),
        ("C:\\work> python\nTritonMissing: Cannot find a working triton installation.\n2.7.1+cu126 NVIDIA GeForce RTX 4070\n".to_owned(), "triton-windows<3.4"),
        ("Unit nvidia-fabricmanager.service could not be found.\nDriver Version: 550.127.05\nError 802: system not yet initialized\n".to_owned(), "nvidia-fabricmanager-550"),
        ("docker run a\nnvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update\nDriver Version: 535.230.02\n".to_owned(), "to 570."),
        ("Python 3.12.3\nERROR: Could not find a version that satisfies the requirement torch==2.1.0 (from versions: 2.2.0)\n".to_owned(), "python3.11 -m venv"),
        ("uv pip install -r a\nPython 3.12.3\nERROR: Could not find a version that satisfies the requirement torch==2.1.0 (from versions: 2.2.0)\n".to_owned(), "uv venv --clear --python 3.11"),
        ("2.8.0+cu128 ['sm_70', 'sm_120'] Tesla P40\nCUDA error: no kernel image is available\n".to_owned(), "torch==2.8.0+cu126"),
        ("hint: This error likely indicates that `flash-attn@2.8.3` depends on `torch`, but doesn't declare it as a build dependency.\n".to_owned(), "uv pip install --no-build-isolation flash-attn"),
        ("Because vllm==0.8.5 depends on torch==2.6.0 and you require vllm==0.8.5, we can conclude\n".to_owned(), "leave out the pin"),
        ("torch==2.8.0\ntorchaudio==2.7.0\nOSError: /v/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZNK5torch8autograd4Node4nameB5cxx11Ev\n".to_owned(), "torchaudio==2.8.0"),
        ("torch-scatter==2.1.2\ntorch-sparse==0.6.18\ntorch==2.4.1+cu121\nOSError: /v/torch_scatter/_version_cuda.so: undefined symbol: _ZN3c10\n".to_owned(), "torch-scatter torch-sparse -f"),
        ("conda\nOSError: CUDA_HOME environment variable is not set.\n$ python -c \"import torch; print(torch.version.cuda)\"\n12.1\n".to_owned(), "cuda-version=12.1"),
        ("torch==2.7.0\nflash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E\n".to_owned(), "for torch 2.7.0 where there is one"),
        ("torch==2.10.0\nOSError: /v/site-packages/torchcodec/libtorchcodec_core6.so: undefined symbol: torch_dtype_float4_e2m1fn_x2\n".to_owned(), "torchcodec==0.10.*"),
        ("torch==2.9.1+cu128\nOSError: /v/site-packages/torchcodec/libtorchcodec_core6.so: undefined symbol: _ZN3c10\n".to_owned(), "\"torchcodec>=0.8, <0.10\""),
        ("torch==2.4.1\nOSError: /v/site-packages/torchcodec/libtorchcodec_core6.so: undefined symbol: _ZN3c10\n".to_owned(), "\"torchcodec==0.0.3\""),
        ("torch==2.3.1\nOSError: /v/site-packages/torchcodec/libtorchcodec_core6.so: undefined symbol: _ZN3c10\n".to_owned(), "the torchcodec that goes with the installed torch"),
        ("torch==2.9.0\ntorchaudio==2.11.0\ndlopen(/v/torchaudio/lib/_torchaudio.abi3.so): Symbol not found: _torch_library_impl\n".to_owned(), "torchaudio==2.9.0"),
        (">>> torch.cuda.get_device_name(0)\n'Tesla P100-PCIE-16GB'\n>>> torch.__version__\n'2.10.0+cu128'\nno kernel image is available\n".to_owned(), "torch==2.10.0+cu126"),
        ("uv sync\n[pip3] torch==2.7.0+cpu\nDriver Version: 572.83\nTorch not compiled with CUDA enabled\n".to_owned(), "in pyproject.toml"),
        ("/home/s/miniconda3/envs/a/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x.so)\n".to_owned(), "libstdcxx-ng>=13"),
        ("vllm==0.20.1\ntorch==2.9.0+cu128\nimport vllm._C\nImportError: libcudart.so.13: cannot open shared object file\n".to_owned(), "wheels.vllm.ai/0.20.1/cu129"),
        ("NCCL WARN Bootstrap : no socket interface found\n".to_owned(), "unset NCCL_SOCKET_IFNAME"),
        // What the text has.
        ("vllm==0.9.1\ntorch==2.6.0\nFailed to import from vllm._C: undefined symbol: _ZN3c104cuda9SetDeviceEab\n".to_owned(), "pip install vllm==0.9.1"),
        (format!("CUDA_PATH: /usr/local/cuda-12.5\n{}ImportError: libnvrtc.so.11.2: {missing}\n", frame("cupy")), "pip install cupy-cuda12x"),
        ("ls /usr/local/cuda-11.8\nInstalled CUDA version 12.4 does not match the version torch was compiled with 11.8, unable\n".to_owned(), "export CUDA_HOME=/usr/local/cuda-11.8"),
        ("numba.cuda.cudadrv.driver.LinkerError: CUDA_ERROR_UNSUPPORTED_PTX_VERSION\nDriver Version: 535.216.03   CUDA Version: 12.2\n".to_owned(), "cuda-version=12.2"),
        ("pip show torch | findstr Version\nVersion: 2.5.1\nDriver Version: 566.36\nGPU 0: NVIDIA GeForce RTX 3060\nOS: Microsoft Windows 11\nTorch not compiled with CUDA enabled\n".to_owned(), "torch==2.5.1+cu"),
        ("fabric manager NVIDIA GPU driver interface version 570.133.20 don't match with driver version 570.148.08.\n".to_owned(), "nvidia-fabricmanager-570=570.148.08-1"),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.07  Fri\nNVRM: installed in this system requires use of the NVIDIA open kernel modules.\n".to_owned(), "nvidia-driver-570-open"),
        ("NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n".to_owned(), "nvidia-driver-470 "),
        ("torch 2.6.0, RTX 5090, driver 570.86.10\nCUDA error: no kernel image is available for execution on the device\n".to_owned(), "code for 12.0"),
        ("Python 3.14.0\nERROR: Could not find a version that satisfies the requirement torch==2.6.0 (from versions: none)\nNo matching distribution found for torch==2.6.0\n".to_owned(), "python3.13 -m venv"),
        ("FROM python:3.12-alpine\nERROR: Could not find a version that satisfies the requirement torch (from versions: none)\n".to_owned(), "3.12-slim"),
        ("srun -p gpu --pty bash\nNo devices were found\n".to_owned(), "srun --gres=gpu:1"),
        ("unprivileged LXC\nCUDA unknown error - this may be due to an incorrectly set up environment\n".to_owned(), "/dev/nvidia-uvm-tools"),
        ("conda list\nnumba.cuda.cudadrv.driver.LinkerError: CUDA_ERROR_UNSUPPORTED_PTX_VERSION\n550.144.03, NVIDIA RTX A5000\n".to_owned(), "cuda-version=12.4"),
        (format!("onnxruntime-gpu 1.18.0, CUDA 12.4 (nvcc), torch 2.3.1+cu121\nonnxruntime/x.cc Failed to load library with error: libcublasLt.so.11: {missing}\n"), "onnxruntime-gpu==1.18.0"),
        ("Requested CUDA version: 12.9\nCUDA VERSION MISMATCH\nAttempted to load: libbitsandbytes_cuda129.so\n".to_owned(), "pip install --upgrade bitsandbytes"),
        ("vllm 0.8.3\nBfloat16 is only supported on GPUs with compute capability of at least 8.0.\n".to_owned(), "--dtype half"),
        ("Free memory on device (3.41/23.55 GiB) on startup is less than desired GPU memory utilization (0.9)\n".to_owned(), "--gpu-memory-utilization 0.14"),
        (format!("/nix/store/a\nImportError: libstdc++.so.6: {missing}\n"), "nix-ld"),
        (format!("ImportError: libstdc++.so.6: {missing}\n"), "sudo apt-get install -y libstdc++6"),
        ("Error loading \"C:\\Python311\\Lib\\site-packages\\torch\\lib\\fbgemm.dll\" or one of its dependencies. [WinError 126]\n".to_owned(), "torch>=2.4.1"),
        ("torch==2.3.1+cu121\nC:\\work> python\nNVIDIA GeForce RTX 5070 Ti with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n".to_owned(), "whl/cu132"),
        ("C:\\work> pip install torch==2.1.2\nPython 3.13.1\nERROR: Could not find a version that satisfies the requirement torch==2.1.2 (from versions: 2.6.0)\n".to_owned(), "py -3.11 -m venv .venv; .venv"),
        ("NVIDIA-Linux-x86_64-570.153.02.run\nNVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.153.02  Fri\nNVRM: installed in this system requires use of the NVIDIA open kernel modules.\n".to_owned(), "570.153.02.run --kernel-module-type=open"),
        ("torch 2.8.0+cu128 / torchcodec 0.9.1\nRuntimeError: Could not load libtorchcodec. Likely causes:\n".to_owned(), "torchcodec>=0.6, <0.8"),
        ("nvidia-nccl-cu12==2.21.5\ntorch==2.9.0\nlibtorch_cuda.so: undefined symbol: ncclCommWindowRegister\n".to_owned(), "pip install nvidia-nccl-cu12==2.27.5"),
        ("AttributeError: module 'torchaudio' has no attribute 'list_audio_backends'\n".to_owned(), "torchaudio<2.9"),
        ("Found GPU0 Tesla V100-SXM2-32GB which is of cuda capability 7.0.\nMinimum and Maximum cuda capability supported by this version of PyTorch is (7.5) - (12.0)\n".to_owned(), "whl/cu126"),
        ("NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1 [1]enp65s0f0:10.20.0.12\n".to_owned(), "NCCL_SOCKET_IFNAME=^docker0,lo"),
        ("kubectl logs plugin\ncould not load NVML library: libnvidia-ml.so.1: cannot open shared object file\n".to_owned(), "--runtime=containerd"),
        ("apptainer exec a.sif python\nWARNING: The NVIDIA Driver was not detected. GPU functionality will not be available.\n".to_owned(), "apptainer exec --nv"),
        ("microsoft-standard-WSL2\nFailed to initialize NVML: GPU access blocked by the operating system\n".to_owned(), "wsl --update"),
        // The numbers.
        ("Installed CUDA version 12.2 does not match the version torch was compiled with 12.4, unable to compile\n".to_owned(), "cuda-version=12.4"),
        ("conda\nThe detected CUDA version (12.2) mismatches the version that was used to compile PyTorch (11.7).\n".to_owned(), "-c nvidia/label/cuda-11.7.0 cuda-toolkit"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free.".to_owned(), "find the shape"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n".to_owned(), "compute capability 12.0 needs CUDA 12.8"),
        ("ValueError: numpy.ndarray size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject".to_owned(), "pip install --upgrade numpy"),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.\nollama 0.5\nNVIDIA-SMI 535.54.03 Driver Version: 535.54.03 CUDA Version: 12.2\n".to_owned(), "made with CUDA 12.2 or older"),
        ("#error -- unsupported GNU version! gcc versions later than 13 are not supported!\n".to_owned(), "gcc-13 g++-13"),
        // Numbers and names of the message.
        ("ImportError: /v/libcusolver.so.12: undefined symbol: __nvJitLinkCreate_13_1, version libnvJitLink.so.13\n".to_owned(), "nvidia-nvjitlink>=13.1"),
        ("RuntimeWarning: JAX plugin jax_cuda13_plugin version 0.8.1 is installed, \nbut it is not compatible with the installed jaxlib version 0.8.0, so\n".to_owned(), "jax-cuda13-plugin==0.8.0"),
        ("Loaded runtime CuDNN library: 8.9.4 but source was compiled with: 9.3.0.  CuDNN library needs\n".to_owned(), "nvidia-cudnn-cu12>=9.3.0,<10"),
        ("numba.cuda.cudadrv.driver.LinkerError: [218] Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION\nDriver Version: 580.65.06\n".to_owned(), "numba-cuda[cu13]"),
        ("torch 2.9.1+cpu, torch.version.cuda None, torch.cuda.is_available False\n".to_owned(), "pip install torch==2.9.1"),
        ("nvidia/cuda:13.0.2-devel\nThe detected CUDA version (13.0) mismatches the version that was used to compile PyTorch (12.6).\n".to_owned(), "cuda-toolkit-12-6"),
        ("/usr/include/math.h:79: error: exception specification is incompatible with that of previous function \"sinpif\"\n".to_owned(), "noexcept (true)"),
        ("vllm worker: Cannot re-initialize CUDA in forked subprocess.\n".to_owned(), "VLLM_WORKER_MULTIPROC_METHOD=spawn"),
        ("CUDA error code=803(cudaErrorSystemDriverMismatch)\ndocker run --gpus all img\n".to_owned(), "rm -rf /usr/local/cuda*/compat"),
        ("podman run x\nfailed to parse CDI Spec \"/etc/cdi/nvidia.yaml\": json: unknown field \"netDevices\"\n".to_owned(), "update the container engine"),
        ("nvidia-container-cli: ldcache error: process /sbin/ldconfig.real failed with error code: 1\n".to_owned(), "nvidia-container-runtime.mode=cdi"),
        ("ls: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /.singularity.d/libs/libGLX.so.0)\n".to_owned(), "as new as the host"),
        ("Unable to determine the device handle for GPU0: 0000:17:00.0: Unknown Error\n".to_owned(), "reseat the card"),
        ("[3] NCCL WARN Cuda failure 1 'invalid argument'\n".to_owned(), "pip install --upgrade nvidia-nccl-cu12"),
        // Not the environment.
        ("PermissionError: [Errno 13] Permission denied: '/app/.triton/cache'\n".to_owned(), "TRITON_CACHE_DIR"),
        ("/bin/sh: 1: :/usr/local/cuda/bin/nvcc: not found\n".to_owned(), "export CUDA_HOME=/usr/local/cuda"),
    ] {
        let json = diagnose(&context, &text, &["--json"]).json();
        let fixes = json["causes"][0]["fix"].to_string();
        let expected = serde_json::to_string(expected).unwrap();
        assert!(fixes.contains(expected.trim_matches('"')), "{text}: {expected}: {fixes}");
    }
    // A line longer than what is shown is judged as a whole.
    let long = format!("INFO {} libcudnn.so.9: {missing}\n", "x".repeat(600));
    let json = diagnose(&context, &long, &["--json"]).json();
    assert!(json["causes"][0]["fix"].to_string().contains(">=9,<10"), "{json:#}");
    // Another torch alone would leave vLLM's build without its CUDA: the driver comes first.
    let others = "torch==2.9.1+cu130\nvllm==0.13.0+cu130\nDriver Version: 570.195.03\nThe NVIDIA driver on your system is too old (found version 12080).\n";
    let json = diagnose(&context, others, &["--json"]).json();
    let first = json["causes"][0]["fix"][0].to_string();
    assert!(first.contains("update the NVIDIA driver on the host to 580.65.06"), "{json:#}");
    // No torch for a program that has none, and no other project's package for Apex.
    let ggml = "CUDA error: the provided PTX was compiled with an unsupported toolchain.\nggml-cuda.cu:12\nDriver Version: 550.54.14\n";
    assert!(!diagnose(&context, ggml, &[]).stdout.contains("torch=="));
    let apex = format!("{}ImportError: x.so: undefined symbol: _ZN3c105ErrorC2E\n", frame("apex"));
    assert!(!diagnose(&context, &apex, &[]).stdout.contains("pip install"));
}

/// What the text says of its place and of what is there decides the fix: another CUDA, another distribution, another processor.
#[test]
fn fixes_fit_what_the_text_says() {
    let context = TestContext::new().with_shipped_registry();
    let missing = "cannot open shared object file: No such file or directory";
    let no_torch = "ERROR: Could not find a version that satisfies the requirement torch==2.9.1";
    for (text, expected, never) in [
        // The missing library is the one that the loader names last.
        (format!("Could not load dynamic library 'libcublas.so.11'; dlerror: libcublasLt.so.12: {missing}\n"), "pip install nvidia-cublas-cu12 ", "cu11 "),
        // A library of another CUDA is no package that lacks: the program is another build.
        (format!("cupy-cuda12x==13.6.0\nCuPy\n  File \"/v/lib/python3.12/site-packages/cupy/a.py\", line 1\nImportError: libnvrtc.so.11.2: {missing}\n"), "one build of CuPy", "nvidia-cuda-nvrtc"),
        (format!("Cuda compilation tools, release 12.4, V12.4.99\nOSError: libcublasLt.so.11: {missing}\n"), "another CUDA major version", "pip install nvidia"),
        (format!("PyTorch version: 2.9.1+cu128\nImportError: libnvrtc.so.12: {missing}\n"), "export LD_LIBRARY_PATH=", "not installed"),
        (format!("conda env\nPyTorch version: 2.9.1+cu128\nImportError: libnvrtc.so.12: {missing}\n"), "the library is of torch's own CUDA", "not installed"),
        // The releases that pip sees are those of one processor and one Python.
        (format!("{no_torch} (from versions: 2.0.0, 2.0.1, 2.1.0, 2.1.1, 2.1.2, 2.2.0, 2.2.1, 2.2.2)\n"), "pip install torch==2.2.2 ", "driver >="),
        // No apt where there is none.
        ("OS: Rocky Linux 9.4\nRuntimeError: NVIDIA driver: could not find nvcc\nImportError: libGL.so.1: cannot open shared object file\n".to_owned(), "with the system's own package manager", "libgl1   # brings"),
        (format!("size mismatch for model.fc3.weight in LayerHelper\nRed Hat, Inc. Virtio network device\nImportError: libGL.so.1: {missing}\n"), "libgl1   # brings", "package manager"),
        ("5.10.0 amzn2.x86_64\nError 802: system not yet initialized\n".to_owned(), "rpm -qa 'nvidia-fabric*'", "dpkg"),
        // What is as it was built for is not of another torch.
        ("xFormers can't load C++/CUDA extensions. xFormers was built for:\n    PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.3.0+cu121)\n    Python  3.11.9 (you have 3.11.9)\n".to_owned(), "xformers._C", "another torch"),
        // ROCm.
        ("PyTorch version: 2.7.1+rocm6.3\nIs CUDA available: False\nRuntimeError: No HIP GPUs are available\n".to_owned(), "rocminfo", "not a ROCm build"),
        ("NVIDIA GeForce RTX 3060\nRuntimeError: No HIP GPUs are available\n".to_owned(), "pip install torch==", "rocminfo"),
        ("torch 2.8.0+rocm6.4\nninja: error: nvcc was not found\n".to_owned(), "release for ROCm", "install a CUDA toolkit"),
        // Memory by the numbers.
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 GiB. GPU 0 has a total capacty of 23.69 GiB of which 20.00 GiB is free.\n".to_owned(), "find the shape", "smaller batch"),
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.79 GiB of which 5.00 MiB is free. Process 7 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 6.70 GiB memory in use. Of the allocated memory 6.00 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n".to_owned(), "query-compute-apps", "expandable_segments"),
        // A module that is there and not loaded is no driver that lacks.
        ("$ modinfo -F version nvidia\n570.133.07\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n".to_owned(), "modprobe nvidia", "--gpus all"),
        // The message is about torch, whatever else is named.
        ("installed tensorrt and cuda 12.1\nAssertionError: Torch not compiled with CUDA enabled\n".to_owned(), "pip install torch==", "nothing"),
        ("Found GPU0 Quadro K2000 which is of cuda capability 3.0.\nPyTorch no longer supports this GPU because it is too old.\n".to_owned(), "/cpu", "pip install torch=="),
        // Another driver would do.
        ("NVIDIA GeForce RTX 4090\nNVIDIA driver version: 390.157\nPyTorch version: 2.9.1+cu128\nCUDA error: no kernel image is available\n".to_owned(), "driver", "use another GPU"),
        (format!("Cuda compilation tools, release 11.8, V11.8.89\nOSError: libcublasLt.so.12: {missing}\n"), "pip install nvidia-cublas-cu12", "another CUDA major"),
        ("nvidia-container-cli: initialization error: WSL environment detected but no adapters were found\n".to_owned(), "wsl --update", "nothing"),
        // Names that a release no longer has.
        ("ImportError: cannot import name 'HfFolder' from 'huggingface_hub' (/v/hub.py)\n".to_owned(), "huggingface_hub<1", "pip check"),
        ("ImportError: cannot import name 'cached_download' from 'my_utils' (/v/my_utils.py)\n".to_owned(), "pip check", "huggingface_hub"),
        // torch is listed, and what failed is no build.
        ("torch==2.9.1\n  File \"/v/site-packages/vllm/a.py\", line 1\nModuleNotFoundError: No module named 'torch'\n".to_owned(), "cannot be imported where it is needed", "pip builds vllm"),
        ("torch==2.9.1\n  x Failed to build `flash-attn==2.8.3`\nModuleNotFoundError: No module named 'torch'\n".to_owned(), "--no-build-isolation flash-attn", "not installed"),
        // No wheel of the last release is for this Python.
        ("macOS x86_64\nPython version: 3.13.1\nERROR: No matching distribution found for torch==2.9.1\nOS: macOS 14 (x86_64)\n".to_owned(), "run the program on another system", "pip install torch=="),
        ("cudaErrorPeerAccessUnsupported\n".to_owned(), "--disable-custom-all-reduce", "nothing"),
        ("ERROR: No matching distribution found for jaxlib==0.4.20+cuda11.cudnn86\n".to_owned(), "jax[cuda12]", "pip debug"),
    ] {
        let json = diagnose(&context, &text, &["--json"]).json();
        let answer = json["causes"][0].to_string();
        let has = |word: &str| answer.contains(serde_json::to_string(word).unwrap().trim_matches('"'));
        assert!(has(expected), "{text}: {expected}: {answer}");
        assert!(!has(never), "{text}: {never}: {answer}");
    }
}

/// A line that was broken to fit a terminal, of which the first part means something by itself.
#[test]
fn the_rest_of_a_broken_line_is_read() {
    let context = TestContext::new().with_shipped_registry();
    let library = "ERROR    Could not load torch: [WinError 126] The specified module could not be found. Error loading\n";
    let text = format!(
        "{library}                         \"D:\\v\\lib\\site-packages\\torch\\lib\\fbgemm.dll\" or one of its dependencies.\n"
    );
    let json = diagnose(&context, &text, &["--json"]).json();
    assert!(json["causes"][0]["message"].as_str().unwrap().contains("libomp140"), "{json:#}");
    // A new line of a log, and the frame of a traceback, are not the rest of another.
    for next in [
        "fbgemm.dll is a file of torch",
        "  fbgemm.dll of the same block",
        "    File \"D:\\v\\fbgemm.dll.py\", line 3",
    ] {
        let json = diagnose(&context, &format!("{library}{next}\n"), &["--json"]).json();
        assert!(!json.to_string().contains("libomp140"), "{next}: {json:#}");
    }
}

#[test]
fn cudnn_as_the_program_found_it() {
    let context = TestContext::new().with_shipped_registry();
    for (text, expected) in [
        ("but found runtime version (8, 3, 3). cuDNN version incompatibility", Some("8.3.3")),
        ("Loaded runtime CuDNN library: 8.9.2 but source was compiled with: 9.1.0", Some("8.9.2")),
        ("torch.backends.cudnn.version(): 91002", Some("9.10.2")),
        ("cuDNN version mismatch: PyTorch was compiled against 7102 but linked against 7600", Some("7.6.0")),
        // The system's copies are nobody's.
        ("cuDNN version: Probably one of the following:\n/usr/lib/libcudnn.so.8.2.0", None),
    ] {
        let json = diagnose(&context, text, &["--json"]).json();
        assert_eq!(json["facts"]["cudnn"].as_str(), expected, "{text}");
    }
}

#[test]
fn each_text_has_its_component() {
    let context = TestContext::new().with_shipped_registry();
    for (text, expected) in TABLE {
        // Colours, carriage returns, the prefix of a log collector and another script's colon change nothing.
        let dressed: String = text
            .lines()
            .map(|line| format!("\u{1b}[31m{}\u{1b}[0m\r\n", line.replace(": ", "： ")))
            .collect();
        let logged: String = text.lines().map(|line| format!("web-1  | {line}\n")).collect();
        for input in [(*text).to_owned(), dressed, logged] {
            let run = diagnose(&context, &input, &["--json"]);
            let json = run.json();
            let found = json["causes"][0]["component"].as_str();
            assert_eq!(found, *expected, "{input:?}: {json:#}");
            let code = match json["verdict"].as_str() {
                Some("problem") => 1,
                Some("healthy") => 0,
                _ => 3,
            };
            assert_eq!(run.code, code, "{input:?}");
        }
    }
}

#[test]
fn an_answer_as_a_person_reads_it() {
    let context = TestContext::new().with_shipped_registry();
    let text = "Collecting environment information...\nPyTorch version: 2.9.1+cu128\nIs CUDA available: True\n\
                GPU models and configuration: GPU 0: NVIDIA GeForce GTX 1080 Ti\nNvidia driver version: 535.54.03\n\
                RuntimeError: CUDA error: no kernel image is available for execution on the device\n";
    insta::assert_snapshot!("diagnose_gtx", diagnose(&context, text, &[]).expect(1).shown());
    insta::assert_snapshot!("diagnose_unknown", diagnose(&context, "hello\n", &[]).expect(3).shown());
}

#[test]
fn nothing_of_the_text_becomes_a_command_or_a_secret() {
    let context = TestContext::new().with_shipped_registry();
    let text = "GPU 0: NVIDIA $(rm -rf ~) GeForce\ntorch==2.9.1+cu128;reboot\n\
                https://me:hunter2@example.org/x no kernel image is available token=abcdef \u{7}\u{9b}31m\n";
    let run = diagnose(&context, text, &["--json"]);
    let json = run.json();
    let fixes = json["causes"].as_array().unwrap().iter().map(|c| c["fix"].to_string()).collect::<String>();
    assert!(!fixes.contains("rm -rf") && !fixes.contains("reboot"), "{fixes}");
    let quoted = json["causes"].to_string();
    assert!(!quoted.contains("hunter2") && !quoted.contains("abcdef"), "{quoted}");
    assert!(!run.stdout.contains('\u{7}'), "{}", run.shown());
}

#[test]
fn long_and_binary_input() {
    let context = TestContext::new().with_shipped_registry();
    let path = context.project().join("log");
    let mut bytes = vec![b'x'; 20 << 20];
    bytes.extend(b"\n\xff\xfe\0binary\nError 802: system not yet initialized\n");
    std::fs::write(&path, bytes).unwrap();
    let json = context.run(&["diagnose", "log", "--json"]).expect(1).json();
    assert_eq!(json["causes"][0]["evidence"][0]["line"], 3, "{json:#}");
    context.run(&["diagnose", "nowhere"]).expect(2);
    context.run(&["diagnose", "."]).expect(2);
}

/// What people say of a run that gives no error.
#[test]
fn complaints_without_an_error() {
    let context = TestContext::new().with_shipped_registry();
    for (text, id, component) in [
        ("PyTorch version: 1.7.1+cpu\n\n(CUDA is not available)", "cuda-not-available-said", "torch-build"),
        ("docker run img\n\ntraining is not using the GPU", "cuda-not-available-said", "container"),
        ("macOS 14, M2\n\nWarning: CUDA is not available", "cuda-not-available-said", "other"),
        ("RTX 2080\n\nmodel.cuda() takes 5 minutes, the first CUDA operation", "first-use-slow", "gpu-arch"),
        ("The GPU utilization is very low, mostly 1%", "gpu-waits", "other"),
    ] {
        let json = diagnose(&context, text, &["--json"]).json();
        assert_eq!(json["causes"][0]["code"], id, "{text}: {json:#}");
        assert_eq!(json["causes"][0]["component"], component, "{text}: {json:#}");
    }
    // A line of a package that does without a GPU is no complaint where an error follows.
    let text =
        "CUDA is not available, falling back to CPU\nRuntimeError: CUDA error: no kernel image is available";
    let json = diagnose(&context, text, &["--json"]).json();
    assert_eq!(json["causes"][0]["component"], "gpu-arch", "{json:#}");
}

#[test]
fn what_a_code_means() {
    let context = TestContext::new().with_shipped_registry();
    insta::assert_snapshot!(context.run(&["diagnose", "--explain", "tensorflow-xla-only-uses-driver"]).shown(), @r"
    exit 0
    --- stdout
    tensorflow-xla-only-uses-driver

    the driver is too old for XLA's code and no ptxas was found (driver or cuda-runtime)
      Update the driver, or install the toolkit's ptxas

    found by a line with
      xla only uses the driver jit if it cannot find ptxas

    documented:
      messages in the public sources and wheels of frameworks and libraries
    --- stderr
    ");
    // As C writes it; of a finding of verify; derived from facts.
    for (code, expected) in [
        ("CUBLAS_STATUS_ARCH_MISMATCH", "(gpu-arch)"),
        ("CUDNN_STATUS_ARCH_MISMATCH", "no-kernel-image"),
        ("persistence-off", "nvidia-persistenced"),
        ("driver-of-other-gpus", "(driver)"),
    ] {
        let said = context.run(&["diagnose", "--explain", code]).expect(0);
        assert!(said.stdout.contains(expected), "{}", said.shown());
    }
    // What stands in brackets behind a cause is its component, which has several.
    let said = context.run(&["diagnose", "--explain", "GPU_arch"]).expect(0);
    assert!(said.stdout.contains("\nno-kernel-image: "), "{}", said.shown());
    let said = context.run(&["diagnose", "--explain", "no-kernel"]).expect(1);
    assert!(said.flat().contains("near it: `no-kernel-image`"), "{}", said.shown());
    // Every rule can be explained, each placeholder as it is written.
    let registry = envlock::registry::Registry::embedded();
    for rule in registry.errors() {
        let text = envlock::registry::explain::text(&registry, rule);
        assert!(text.contains(&rule.answer.cause) && text.lines().count() > 5, "{text}");
    }
}

#[test]
fn here_is_a_witness_too() {
    let Some(mut env) = super::native::Environment::new() else { return };
    let prefix = env.context.dir.path().join("env").display().to_string();
    env.context.set("VIRTUAL_ENV", &prefix);
    env.context.shipped_registry = true;
    let well = env.context.run(&["diagnose", "--here", "--json"]).expect(0).json();
    assert_eq!(well["verdict"], "healthy", "{well:#}");
    assert_eq!(well["facts"]["torch"], "2.9.1+cu128", "{well:#}");
    std::fs::remove_file(env.site.join("nvidia/cudnn/lib/libcudnn_ops.so.9")).unwrap();
    let broken = env.context.run(&["diagnose", "--here", "--json"]).expect(1).json();
    assert_eq!(broken["causes"][1]["code"], "missing-library", "{broken:#}");
    // What the log says comes first, and a fault of another kind is not told with its lines.
    let log = "OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized.\n";
    let both = diagnose(&env.context, log, &["--here", "-", "--json"]).json();
    let causes = both["causes"].as_array().unwrap();
    assert_eq!(causes[0]["code"], "openmp-twice", "{both:#}");
    let missing = causes.iter().find(|cause| cause["code"] == "missing-file").unwrap();
    assert_eq!(missing["evidence"].as_array().unwrap().len(), 0, "{both:#}");
    assert!(missing["confidence"].as_f64() < causes[0]["confidence"].as_f64(), "{both:#}");
    // A log that is piped is read without `-` too.
    let piped = diagnose(&env.context, "Error 802: system not yet initialized\n", &["--here", "--json"]);
    assert!(piped.json().to_string().contains("fabric-manager"), "{}", piped.shown());
    // Beside a log both speak.
    let both = diagnose(&env.context, "Error 802: system not yet initialized\n", &["--here", "-", "--json"]);
    let codes: Vec<String> =
        both.json()["causes"].as_array().unwrap().iter().map(|c| c["code"].to_string()).collect();
    assert!(codes.contains(&"\"fabric-manager\"".to_owned()), "{codes:?}");
    assert!(codes.contains(&"\"missing-library\"".to_owned()), "{codes:?}");
}

#[test]
fn tensorflow_says_which_libraries_it_opens() {
    let context = TestContext::new().with_shipped_registry();
    for (version, expected, fix) in [
        (
            "2.9.1",
            "built with CUDA 11.2 and cuDNN 8.1",
            "conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1",
        ),
        ("2.16.1", "built with CUDA 12.3 and cuDNN 8.9", "pip install \"tensorflow[and-cuda]==2.16.1\""),
    ] {
        let text = format!(
            "tensorflow=={version}\nCannot dlopen some GPU libraries. Skipping registering GPU devices...\n"
        );
        let json = diagnose(&context, &text, &["--json"]).json();
        let cause = &json["causes"][0];
        assert!(cause["message"].to_string().contains(expected), "{json:#}");
        assert!(
            cause["fix"].as_array().unwrap().iter().any(|f| f.as_str().is_some_and(|f| f.starts_with(fix))),
            "{json:#}"
        );
        assert_eq!(cause["evidence"][0]["line"], 1, "{json:#}");
    }
}

#[test]
fn tables_and_interactive_sessions_are_read() {
    let context = TestContext::new().with_shipped_registry();
    let table = "| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4     |\n\
                 |   0  Tesla K80           Off  | 00000000:05:00.0 Off |                    0 |\n\
                 RuntimeError: CUDA error: no kernel image is available for execution on the device\n";
    let json = diagnose(&context, table, &["--json"]).json();
    assert_eq!(json["facts"]["gpus"][0], "Tesla K80", "{json:#}");
    assert!(
        json["causes"][0]["fix"][0].to_string().contains("code for 3.7, runs on driver 470.129.06"),
        "{json:#}"
    );
    for text in
        [">>> torch.__version__\n'2.4.0+cu121'\n", "2.4.0+cu121\n", "print(torch.__version__)\n2.4.0+cu121\n"]
    {
        let json = diagnose(&context, text, &["--json"]).json();
        assert_eq!(json["facts"]["torch"], "2.4.0+cu121", "{text}");
    }
}

#[test]
fn no_build_is_offered_where_none_can_be_chosen() {
    let context = TestContext::new().with_shipped_registry();
    let old = "CUDA driver version is insufficient for CUDA runtime version";
    for text in
        [old.to_owned(), format!("tensorflow.python.framework: {old}"), format!("jaxlib/cuda/x.cc: {old}")]
    {
        let json = diagnose(&context, &text, &["--json"]).json();
        let fixes = json["causes"][0]["fix"].to_string();
        assert!(!fixes.contains("pip install torch"), "{text}: {fixes}");
        assert!(fixes.contains("nvidia-smi"), "{text}: {fixes}");
    }
    let jax = "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.8.0\njaxlib.xla_extension.XlaRuntimeError\n";
    let json = diagnose(&context, jax, &["--json"]).json();
    assert!(json["causes"][0]["fix"][0].to_string().contains("jax["), "{json:#}");
}

#[test]
fn commands_have_nothing_that_the_registry_does_not_know() {
    let context = TestContext::new().with_shipped_registry();
    for (text, never) in [
        ("PyTorch version: 2.9.1+cu6660\nundefined symbol: ncclFoo\n", "cu666"),
        ("PyTorch version: 1.12.1+cu102\nlibcudnn.so.9: cannot open shared object file\n", "cu10"),
        (
            "nvidia-nccl-cu666==1.0\nnvidia-nccl-cu12==2.27.0\ntorch==2.9.1+cu128\nundefined symbol: ncclFoo\n",
            "cu666",
        ),
        ("tensorflow version: 2.15.0+evil.pkg\nSkipping registering GPU devices\n", "evil"),
        ("PyTorch version: 0.0.1rc1\noperator torchvision::nms does not exist\n", "0.0.1"),
        (
            "GPU 0: NVIDIA H100\nDriver Version: 535.abc  CUDA Version: 3foo\nno kernel image is available\n",
            "foo",
        ),
    ] {
        let json = diagnose(&context, text, &["--json"]).json();
        let causes = json["causes"].as_array().unwrap();
        assert!(!causes.is_empty(), "{text}");
        for cause in causes {
            assert!(!cause["fix"].to_string().contains(never), "{never}: {json:#}");
        }
    }
}

#[test]
fn secrets_are_masked_and_late_lines_are_seen() {
    let context = TestContext::new().with_shipped_registry();
    let text = "loading tokenizer with hf_token=hf_ABC on cuda: no kernel image is available AWS_SECRET_ACCESS_KEY=AKIA1 --password hunter2 Authorization: Bearer xyz\n";
    let quoted = diagnose(&context, text, &["--json"]).json()["causes"].to_string();
    assert!(quoted.contains("tokenizer") && quoted.contains("no kernel image"), "{quoted}");
    for secret in ["hf_ABC", "AKIA1", "hunter2", "xyz"] {
        assert!(!quoted.contains(secret), "{secret}: {quoted}");
    }
    let many = format!("{}no kernel image is available\n", "cudnn_status_internal_error\n".repeat(2_000));
    let json = diagnose(&context, &many, &["--json"]).json();
    assert_eq!(json["causes"][0]["component"], "gpu-arch", "{json:#}");
    // Many GPUs of no known product take no time worth speaking of.
    let gpus: String = (0..64).map(|i| format!("GPU {i}: NVIDIA {}{i}\n", "a ".repeat(36))).collect();
    let lines: String = RULES.iter().map(|(_, line)| format!("{line}\n")).collect();
    let start = std::time::Instant::now();
    diagnose(&context, &format!("{gpus}{lines}"), &["--json"]);
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

/// xformers names the torch that it was built for before the installed one, which the fix is for.
#[test]
fn the_installed_torch_is_the_one_that_you_have() {
    let context = TestContext::new().with_shipped_registry();
    let text = "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n    \
                PyTorch 2.4.0+cu121 with CUDA 1201 (you have 2.3.1+cu121)\n";
    let run = diagnose(&context, text, &[]).expect(1);
    assert!(run.stdout.contains("xformers==0.0.27 --index-url"), "{}", run.shown());
    assert!(!run.stdout.contains("==2.4.0"), "{}", run.shown());
}

/// Where two components fit nearly as well, neither answer is sure.
#[test]
fn a_rival_takes_the_sureness() {
    let context = TestContext::new().with_shipped_registry();
    let sure = "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n";
    let run = diagnose(&context, sure, &[]).expect(1);
    assert!(run.stdout.contains("sure)"), "{}", run.shown());
    let run = diagnose(
        &context,
        &format!("{sure}ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'\n"),
        &[],
    );
    let run = run.expect(1);
    assert!(!run.stdout.contains("sure)") && run.stdout.contains("probable)"), "{}", run.shown());
}

/// In a project with a lock, the fix is what brings the lock's environment to it: what it locks may fit already.
#[test]
fn the_fix_in_a_project_with_a_lock() {
    let wheels = ["1.26.4", "2.0.2"].map(|version| ("pypi", wheel("numpy", version)));
    let server =
        IndexServer::start(wheels.to_vec(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server).with_shipped_registry();
    let numpy = "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.2 as it may crash.\n";
    let gpu = "NVIDIA H100 80GB HBM3 with CUDA capability sm_90 is not compatible with the current PyTorch installation.\n";
    for (locked, text, expected) in [
        ("2.0.2", numpy, "`envlock add 'numpy<2'`, then `envlock sync`"),
        ("1.26.4", numpy, "it has a release that fits, which `envlock sync` installs"),
        (
            "1.26.4",
            gpu,
            "`envlock resolve --dry-run --only-index pypi` with `--gpu` and `--driver` of that machine",
        ),
    ] {
        context.write("envlock.toml", &format!("[project]\ndependencies = [\"numpy=={locked}\"]\n"));
        context.run(&["resolve", "--gpu", "none", "--only-index", "pypi", "--python", "3.12"]).expect(0);
        let run = diagnose(&context, text, &[]);
        assert!(run.flat().contains(&format!("this project has a lock: {expected}")), "{}", run.shown());
    }
}
