//! The layers of the smoke test below the framework, on stub libraries that compute on the CPU: no GPU is needed to
//! see that each layer calls what it should, checks what it gets, and ends the chain when it fails.

use std::process::Command;

use super::native::{Build, Environment};

/// A driver with one GPU; `FAIL_INIT` makes cuInit fail. Built without a C library: it is loaded from an
/// environment whose machine has none.
const DRIVER: &str = r#"
static void copy(char *to, const char *from) { while ((*to++ = *from++)); }
#ifdef FAIL_INIT
int cuInit(unsigned f) { return 802; }
#else
int cuInit(unsigned f) { return 0; }
#endif
int cuGetErrorName(int s, const char **t) { *t = s == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : 0; return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { copy(s, "NVIDIA H200"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
int cuModuleLoadData(void **m, const void *text) { *m = (void *)text; return ((char *)text)[0] != '.'; }
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = m; return name[0] != 'a'; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                   void *q, void **a, void **e) {
  float *data = *(float **)a[0];
  for (unsigned i = 0; i < gx * bx; i++) data[i] += ADD;
  return 0;
}
"#;

/// A runtime whose device memory is an arena of its own.
const RUNTIME: &str = r#"
typedef unsigned long size;
static char arena[1 << 20]; static size used;
const char *cudaGetErrorString(int s) { return "an error"; }
int cudaRuntimeGetVersion(int *v) { *v = 12080; return 0; }
int cudaGetDeviceCount(int *n) { *n = 1; return 0; }
int cudaSetDevice(int d) { return 0; }
int cudaMalloc(void **p, size n) { if (used + n > sizeof arena) return 2; *p = arena + used; used += (n + 63) & ~63ul; return 0; }
int cudaMemcpy(void *to, const void *from, size n, int kind) {
  volatile char *t = to; const char *f = from; for (size i = 0; i < n; i++) t[i] = f[i]; return 0;
}
int cudaDeviceSynchronize(void) { return 0; }
"#;

/// A cuDNN whose convolution is right, or not.
const CUDNN: &str = r#"
typedef unsigned long size;
static char any;
size cudnnGetVersion(void) { return 91002; }
const char *cudnnGetErrorString(int s) { return "CUDNN_STATUS_NOT_SUPPORTED"; }
int cudnnCreate(void **h) { *h = &any; return 0; }
int cudnnCreateTensorDescriptor(void **h) { *h = &any; return 0; }
int cudnnCreateFilterDescriptor(void **h) { *h = &any; return 0; }
int cudnnCreateConvolutionDescriptor(void **h) { *h = &any; return 0; }
int cudnnSetTensor4dDescriptor(void *d, int f, int t, int n, int c, int h, int w) { return 0; }
int cudnnSetFilter4dDescriptor(void *d, int t, int f, int k, int c, int h, int w) { return 0; }
int cudnnSetConvolution2dDescriptor(void *d, int a, int b, int c, int e, int f, int g, int m, int t) { return 0; }
int cudnnSetConvolutionMathType(void *d, int m) { return 0; }
int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *c, void *y, int a, size *n) { *n = 0; return 0; }
int cudnnConvolutionForward(void *h, const void *one, void *xd, const float *x, void *wd, const float *w, void *cd, int a,
                            void *s, size n, const void *zero, void *yd, float *y) {
  if (STATUS) return STATUS;
  for (int f = 0; f < 8; f++) for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) {
    float sum = 0;
    for (int c = 0; c < 3; c++) for (int k = 0; k < 3; k++) for (int l = 0; l < 3; l++) {
      int p = i + k - 1, q = j + l - 1;
      if (p >= 0 && q >= 0 && p < 32 && q < 32) sum += x[(c * 32 + p) * 32 + q] * w[((f * 3 + c) * 3 + k) * 3 + l];
    }
    y[(f * 32 + i) * 32 + j] = sum * FACTOR;
  }
  return 0;
}
"#;

/// A cuBLAS that adds.
const CUBLAS: &str = r#"
static char any;
const char *cublasGetStatusString(int s) { return "the library was not initialized"; }
int cublasCreate_v2(void **h) { *h = &any; return CREATE; }
int cublasGetVersion_v2(void *h, int *v) { *v = 120804; return 0; }
int cublasSaxpy_v2(void *h, int n, const float *a, const float *x, int sx, float *y, int sy) {
  for (int i = 0; i < n; i++) y[i] += *a * x[i] * FACTOR;
  return 0;
}
"#;

/// Plays the environment's Python: says that the framework's layer went well.
const PYTHON: &str = r#"
#include <stdio.h>
int main(int c, char **v) {
  FILE *f = fopen(v[c - 2], "w");
  fputs("{\"checks\": [{\"name\": \"conv-fp32\", \"layer\": \"torch\", \"device\": \"cuda:0\", \"passed\": true, \"detail\": \"fine\"}], \"reached\": {\"layer\": \"done\", \"device\": null}}", f);
  return fclose(f);
}
"#;

/// An environment with stubs in place of the driver, the runtime and cuDNN. `defines` go before their sources.
fn environment(defines: &str) -> Option<Environment> {
    let mut env = Environment::new()?;
    let text = |source: &str| {
        let defines =
            format!("#define ADD {}\n{defines}\n", if defines.contains("WRONG_KERNEL") { 2 } else { 1 });
        let status = if defines.contains("REFUSES") { 9 } else { 0 };
        let create = if defines.contains("NO_HANDLE") { 1 } else { 0 };
        let factor = if defines.contains("WRONG_SUM") { "1.01f" } else { "1.0f" };
        format!(
            "{defines}#define STATUS {status}\n#define CREATE {create}\n#define FACTOR {factor}\n{source}"
        )
    };
    let driver = env.context.dir.path().join("driver/libcuda.so.1").display().to_string();
    env.library(&driver, &Build { source: &text(DRIVER), ..Build::default() });
    env.context.set("LD_LIBRARY_PATH", &env.context.dir.path().join("driver").display().to_string());
    let runtime = "nvidia/cuda_runtime/lib/libcudart.so.12";
    env.library(runtime, &Build { source: &text(RUNTIME), ..Build::default() });
    env.record("nvidia-cuda-runtime-cu12", "12.8.90", &[]);
    let cublas = "nvidia/cublas/lib/libcublas.so.12";
    let exact = text(CUBLAS).replace("FACTOR 1.01f", "FACTOR 1.0f");
    let exact = if defines.contains("WRONG_AXPY") { exact.replace("1.0f", "1.5f") } else { exact };
    env.library(cublas, &Build { source: &exact, ..Build::default() });
    env.record("nvidia-cublas-cu12", "12.8.4.1", &[]);
    // As the real one does: what torch's libraries need is what is loaded.
    let deps = Build {
        needs: &["libcudart.so.12", "libcublas.so.12"],
        rpath: Some("$ORIGIN/../../nvidia/cuda_runtime/lib:$ORIGIN/../../nvidia/cublas/lib"),
        ..Build::default()
    };
    env.library("torch/lib/libtorch_global_deps.so", &deps);
    env.record("torch", "2.9.1", &[]);
    let cudnn = "nvidia/cudnn/lib/libcudnn.so.9";
    env.library(cudnn, &Build { source: &text(CUDNN), runpath: Some("$ORIGIN"), ..Build::default() });
    env.record("nvidia-cudnn-cu12", "9.10.2.21", &[]);
    let source = env.context.write("python.c", PYTHON);
    let python = env.context.dir.path().join("env/bin/python");
    std::fs::remove_file(&python).unwrap();
    let built = Command::new("gcc").args(["-static", "-o"]).arg(&python).arg(source).output().unwrap();
    if !built.status.success() {
        super::context::skipped("no static C library here");
        return None;
    }
    Some(env)
}

fn smoke(env: &Environment) -> serde_json::Value {
    let prefix = env.context.dir.path().join("env").display().to_string();
    env.context.run(&["verify", "--prefix", &prefix, "--smoke", "cuda", "--json"]).json()
}

fn names(json: &serde_json::Value) -> Vec<String> {
    let checks = json["smoke"]["checks"].as_array().unwrap_or_else(|| panic!("{json:#}"));
    checks
        .iter()
        .map(|c| format!("{} {}", c["layer"].as_str().unwrap(), c["name"].as_str().unwrap()))
        .collect()
}

#[test]
fn every_layer_in_order() {
    let Some(env) = environment("") else { return };
    let json = smoke(&env);
    let expected = [
        "driver init",
        "driver device",
        "runtime version",
        "runtime copy",
        "runtime ptx",
        "cublas axpy",
        "cudnn version",
        "cudnn conv-native",
        "torch conv-fp32",
    ];
    assert_eq!(names(&json), expected, "{json:#}");
    assert_eq!((&json["smoke"]["passed"], &json["verdict"]), (&true.into(), &"ok".into()), "{json:#}");
    assert_eq!(json["smoke"]["checks"][1]["detail"], "NVIDIA H200 (9.0)");
}

#[test]
fn the_first_layer_that_fails_ends_the_chain() {
    // What is wrong, the last layer that runs, a word of the message.
    let table = [
        ("#define FAIL_INIT", "driver", "cuInit returned 802 (CUDA_ERROR_SYSTEM_NOT_READY)"),
        ("#define WRONG_KERNEL", "runtime", "ptx on cuda:0"),
        (
            "#define NO_HANDLE",
            "runtime",
            "stopped at cublas on cuda:0: cublasCreate_v2 returned 1 (the library was not initialized)",
        ),
        ("#define WRONG_AXPY", "cublas", "axpy on cuda:0: cuBLAS 12.8.4"),
        ("#define REFUSES", "cudnn", "cudnnConvolutionForward returned 9 (CUDNN_STATUS_NOT_SUPPORTED)"),
        ("#define WRONG_SUM", "cudnn", "conv-native on cuda:0: relative error 1.0e-2"),
    ];
    for (defines, layer, message) in table {
        let Some(env) = environment(defines) else { return };
        let json = smoke(&env);
        assert_eq!(json["verdict"], "differs", "{defines}: {json:#}");
        let findings = json["findings"].to_string();
        assert!(findings.contains(message), "{defines}: {findings}");
        assert!(names(&json).iter().all(|n| !n.starts_with("torch")), "{defines}: {json:#}");
        assert!(names(&json).last().is_none_or(|n| n.starts_with(layer)), "{defines}: {json:#}");
    }
}

#[test]
fn a_driver_that_is_not_there_is_a_finding() {
    let Some(mut env) = environment("") else { return };
    env.context.set("LD_LIBRARY_PATH", "");
    let json = smoke(&env);
    let findings = json["findings"].to_string();
    assert!(findings.contains("the smoke test stopped at driver: cannot load `libcuda.so.1`"), "{findings}");
}

/// Lets a script play the environment's Python. It is given `-P SCRIPT OUT cuda`.
#[cfg(unix)]
fn python_is(env: &Environment, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let python = env.context.dir.path().join("env/bin/python");
    std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[cfg(unix)]
fn a_cudnn_that_is_on_and_does_nothing() {
    let Some(env) = environment("") else { return };
    let document = |case: &str| {
        format!(
            r#"printf '%s' '{{"checks": [{{"name": "import", "layer": "import", "device": "cpu", "passed": true,
              "detail": "torch 2.9.1+cu128"}}, {{"name": "conv-fp32", "layer": "conv-fp32", "device": "cuda:0",
              "passed": true, "detail": "relative error 3.1e-06, allowed 1e-04", "figure": 3.1e-06}}],
              "compared": [{{"case": "training", "device": "cuda:0", {case}}}],
              "reached": {{"layer": "done", "device": null}}}}' > "$3""#
        )
    };
    // The same kernels in the same time.
    let own = r#"["void at::native::im2col_kernel<float>(long)", "ampere_sgemm_128x64_nn"]"#;
    python_is(
        &env,
        &document(&format!(
            r#""with": [0.09, 0.091], "without": [0.09, 0.092], "kernels_with": {own}, "kernels_without": {own}"#
        )),
    );
    let json = smoke(&env);
    assert_eq!(json["verdict"], "differs", "{json:#}");
    let found = json["findings"].as_array().unwrap();
    let finding = found.iter().find(|f| f["code"] == "cudnn-not-used").unwrap_or_else(|| panic!("{json:#}"));
    let message = finding["message"].as_str().unwrap();
    assert!(message.contains("cuDNN changes nothing") && message.contains("im2col_kernel"), "{message}");
    assert!(finding["fix"].as_str().unwrap().contains("torch.backends.cudnn.enabled"), "{finding}");

    // Other kernels: it is used, and by how much it is faster is told.
    python_is(
        &env,
        &document(&format!(
            r#""with": [0.01, 0.011], "without": [0.041, 0.042], "kernels_with": ["sm80_xmma_fprop"], "kernels_without": {own}"#
        )),
    );
    let prefix = env.context.dir.path().join("env").display().to_string();
    let run = env.context.run(&["verify", "--prefix", &prefix, "--smoke", "cuda"]).expect(0);
    let told = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "torch 2.9.1+cu128: conv forward+backward on cuda:0, fp32 error 3e-6, cuDNN 4.0x";
    assert!(told.contains(expected), "{}", run.shown());

    // Times that are none say nothing, and break nothing.
    for case in [
        r#""with": [], "without": [1]"#,
        r#""with": [0], "without": [1]"#,
        r#""with": [-1e308], "without": [1]"#,
    ] {
        python_is(&env, &document(case));
        assert_eq!(smoke(&env)["verdict"], "ok", "{case}");
    }
}

/// A gradient that is no number has to fail, wherever in the list it stands.
#[test]
fn no_number_is_no_small_error() {
    let folder = tempfile::tempdir().unwrap();
    let (script, out) = (folder.path().join("s.py"), folder.path().join("out.json"));
    let skeleton = include_str!("../../src/smoke/scripts/skeleton.py");
    let steps = "nan = float('nan')\nlayer('x', 'cpu')\n\
                 for errors in ([0.1, nan], [nan, 0.1], [0.1, 0.3, 0.2]):\n    judged('e', 'cpu', largest(errors), 0.3)\n";
    std::fs::write(&script, format!("{skeleton}\n{steps}")).unwrap();
    let Ok(run) = Command::new("python3").arg(&script).arg(&out).arg("cpu").output() else {
        return super::context::skipped("no python3 here");
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let passed: Vec<bool> =
        json["checks"].as_array().unwrap().iter().map(|c| c["passed"].as_bool().unwrap()).collect();
    assert_eq!(passed, [false, false, true]);
}

/// The branch of torch's script for GPUs, on the real torch of the environment that `ENVLOCK_TEST_TORCH` names: the
/// GPU is the CPU and cuDNN is oneDNN (tests/fixtures/torch_on_no_gpu.py). Minutes.
#[test]
#[cfg(unix)]
#[ignore = "needs an installed torch"]
fn torchs_branch_for_gpus() {
    let Some(prefix) = std::env::var_os("ENVLOCK_TEST_TORCH").map(std::path::PathBuf::from) else {
        return super::context::skipped("ENVLOCK_TEST_TORCH names no environment");
    };
    let python = prefix.join("bin/python").display().to_string();
    let harness = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/torch_on_no_gpu.py");
    for (mode, verdict) in [("used", "ok"), ("unused", "differs")] {
        let Some(mut env) = environment("") else { return };
        env.context.set("ENVLOCK_SMOKE_TIMEOUT", "1800");
        python_is(&env, &format!("exec '{python}' -W ignore '{}' {mode} \"$2\" \"$3\"", harness.display()));
        let json = smoke(&env);
        assert_eq!(json["verdict"], verdict, "{mode}: {json:#}");
        let checks = json["smoke"]["checks"].as_array().unwrap();
        let torch: Vec<&str> =
            checks.iter().filter(|c| c["layer"] == "torch").map(|c| c["name"].as_str().unwrap()).collect();
        let expected = "import device cudnn name conv-fp32 conv-channels-last conv-without-cudnn matmul-fp32 \
                        conv-fp16 conv-bf16 conv-tf32 speed-first-layer speed-training";
        assert_eq!(torch.join(" "), expected, "{mode}: {json:#}");
        let speeds = checks.iter().filter(|c| c["name"].as_str().unwrap().starts_with("speed-"));
        assert!(speeds.into_iter().all(|c| c["passed"] == (mode == "used")), "{mode}: {json:#}");
    }
}

/// The C types and constants of the native layers, held against the headers in NVIDIA's wheels of the environment that
/// `ENVLOCK_TEST_CUDA13` names (JAX's with CUDA 13 has them all).
#[test]
#[ignore = "needs NVIDIA's headers"]
fn the_vendors_own_headers_and_assembler() {
    let Some(prefix) = std::env::var_os("ENVLOCK_TEST_CUDA13").map(std::path::PathBuf::from) else {
        return super::context::skipped("ENVLOCK_TEST_CUDA13 names no environment");
    };
    let entries = std::fs::read_dir(prefix.join("lib")).unwrap().flatten();
    let nvidia =
        entries.map(|e| e.path().join("site-packages/nvidia")).find(|folder| folder.is_dir()).unwrap();
    let includes =
        ["cu13/include", "cudnn/include"].map(|folder| format!("-I{}", nvidia.join(folder).display()));
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vendor_prototypes.c");
    let out = Command::new("gcc")
        .args(["-Werror", "-Wincompatible-pointer-types", "-Wno-deprecated-declarations", "-fsyntax-only"])
        .args(includes)
        .arg(source)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // The kernel in PTX is one that NVIDIA's assembler takes, for every generation that it knows.
    let layer = include_str!("../../src/smoke/native/cudart.rs");
    let ptx = &layer[layer.find(".version").unwrap()..];
    let kernel = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kernel.path(), &ptx[..ptx.find("\\0").unwrap()]).unwrap();
    for target in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
        let mut assembler = Command::new(nvidia.join("cu13/bin/ptxas"));
        let out = assembler.args(["-arch", target, "-o", "/dev/null"]).arg(kernel.path()).output().unwrap();
        assert!(out.status.success(), "{target}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// A driver that takes what that of CUDA 13.0 takes on a GPU of compute capability 9.0, and computes on the CPU.
const LOADER: &str = r#"
typedef unsigned long size;
static char arena[4096];
static void copy(char *to, const char *from) { while ((*to++ = *from++)); }
int cuInit(unsigned f) { return INIT; }
int cuGetErrorName(int s, const char **t) {
  *t = s == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : s == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" :
       s == 218 ? "CUDA_ERROR_INVALID_PTX" : s == 100 ? "CUDA_ERROR_NO_DEVICE" : 0;
  return 0;
}
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { copy(s, "NVIDIA H100 PCIe"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
int cuDeviceTotalMem_v2(size *n, int d) { *n = 80ul << 30; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = arena; return 0; }
int cuDevicePrimaryCtxReset_v2(int d) { return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(size *p, size n) { *p = (size)arena; return 0; }
int cuMemsetD32_v2(size p, unsigned v, size n) { for (size i = 0; i < n; i++) ((unsigned *)p)[i] = v; return 0; }
int cuMemcpyDtoH_v2(void *to, size p, size n) { for (size i = 0; i < n; i++) ((char *)to)[i] = ((char *)p)[i]; return 0; }
int cuModuleUnload(void *m) { return 0; }
static int number(const char **t) { int n = 0; while (**t >= '0' && **t <= '9') n = n * 10 + *(*t)++ - '0'; return n; }
int cuModuleLoadData(void **m, const void *code) {
  const char *t = code;
  *m = arena;
  if (*t == '.') {
    t += 9; int major = number(&t); t++; int minor = number(&t);
    while (*t != '_') t++;
    t++; int target = number(&t);
    if (major * 10 + minor > 90) return 222;
    return target > 90 || (target < 90 && *t != '\n') ? 218 : 0;
  }
  unsigned flags = *(unsigned *)(t + 48), sm = (unsigned char)t[8] == 8 ? flags >> 8 & 255 : flags & 255;
  return sm == 90 ? 0 : 209;
}
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = m; return name[0] != 'a'; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                   void *q, void **a, void **e) {
  unsigned *data = *(unsigned **)a[0];
  LAUNCH
  for (unsigned i = 0; i < gx * bx; i++) data[i] = i * 3 + 7;
  return 0;
}
"#;

/// A machine with that driver.
fn with_loader(launch: &str, init: u32) -> Option<Environment> {
    let mut env = Environment::new()?;
    let driver = env.context.dir.path().join("driver/libcuda.so.1").display().to_string();
    let source = LOADER.replace("LAUNCH", launch).replace("INIT", &init.to_string());
    env.library(&driver, &Build { source: &source, ..Build::default() });
    env.context.set("LD_LIBRARY_PATH", &env.context.dir.path().join("driver").display().to_string());
    for (file, text) in [
        ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue\n"),
        ("proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: NVIDIA H100 PCIe\nGPU UUID: GPU-000\n"),
    ] {
        let path = env.context.dir.path().join("sysroot").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    Some(env)
}

#[test]
fn the_selftest_compares_what_a_driver_loads() {
    let Some(env) = with_loader("", 0) else { return };
    insta::assert_snapshot!(env.context.run(&["selftest", "--gpu"]).shown(), @r#"
    exit 0
    --- stdout
    GPU 0: NVIDIA H100 PCIe, compute capability 9.0, driver 580.159.04

      form  expected     seen                     for
      PTX   runs         ran                      3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2
                                                  7.0 7.2 7.5 (CUDA 11.7 to 13.0)
                                                  8.0 8.6 8.7 8.8 8.9 9.0 9.0a
      PTX   no code      INVALID_PTX              10.0 10.0f 10.0a 10.1 10.1f 10.1a
                                                  10.3 10.3f 10.3a 11.0 11.0f 11.0a
                                                  12.0 12.0f 12.0a 12.1 12.1f 12.1a
      PTX   no code      UNSUPPORTED_PTX_VERSION  10.7 10.7f 10.7a
      PTX   PTX too new  UNSUPPORTED_PTX_VERSION  7.5 (CUDA 13.1 to 13.5)
      SASS  runs         ran                      9.0 9.0a
      SASS  no code      NO_BINARY_FOR_GPU        3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2
                                                  7.0 7.2 7.5 8.0 8.6 8.7 8.8 8.9
                                                  10.0 10.0f 10.0a 10.1 10.1f 10.1a
                                                  10.3 10.3f 10.3a 10.7 10.7f 10.7a
                                                  11.0 11.0f 11.0a 12.0 12.0f 12.0a
                                                  12.1 12.1f 12.1a

    same: 182 facts and kernels are as the data says
    --- stderr
    "#);
    let json = env.context.run(&["selftest", "--gpu", "--json"]).expect(0).json();
    assert_eq!((&json["differences"], &json["stopped"]), (&0.into(), &serde_json::Value::Null), "{json:#}");
    let kernels = json["gpus"][0]["kernels"].as_array().unwrap();
    assert!(kernels.len() > 100 && kernels.iter().all(|kernel| kernel["agrees"] == true), "{json:#}");
}

#[test]
fn the_selftest_sees_wrong_results_crashes_and_no_gpu() {
    let Some(env) = with_loader("data[5] = 1; return 0;", 0) else { return };
    let run = env.context.run(&["selftest", "--gpu"]).expect(1);
    assert!(run.stdout.contains("x SASS  runs         wrong result"), "{}", run.shown());
    let Some(env) = with_loader("*(volatile int *)0 = 1;", 0) else { return };
    let run = env.context.run(&["selftest", "--gpu"]).expect(1);
    let text = "error: the test ended early: PTX 7.5 of CUDA 11.7 on cuda:0";
    assert!(run.stderr.contains(text), "{}", run.shown());
    let Some(env) = with_loader("", 100) else { return };
    let run = env.context.run(&["selftest", "--gpu"]).expect(3);
    let text = "error: no kernel was loaded: driver: cuInit returned 100 (CUDA_ERROR_NO_DEVICE)";
    assert!(run.stderr.contains(text), "{}", run.shown());
    // One document, also then.
    let json = env.context.run(&["selftest", "--gpu", "--json"]).expect(3).json();
    assert_eq!(json["error"]["code"], "no-gpu", "{json:#}");
}

/// The script for a machine with a GPU, on a stub and on none.
#[test]
#[cfg(unix)]
fn the_script_for_gpus() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/on-gpu.sh");
    let run = |env: &Environment, steps: &[&str]| {
        let mut command = env.context.command_of("/bin/sh");
        let out = env.context.project().display().to_string();
        command.args([script, env!("CARGO_BIN_EXE_envlock"), "python3", &out]).args(steps);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    if !Command::new("python3").arg("--version").output().is_ok_and(|done| done.status.success()) {
        return super::context::skipped("no python3 here");
    }
    let Some(env) = with_loader("", 0) else { return };
    let (code, text) = run(&env, &["selftest", "mig"]);
    assert!(
        code == Some(0) && text.contains("ok    selftest   kernels") && text.contains("not shown here"),
        "{text}"
    );
    let table = std::fs::read_to_string(env.context.project().join("on-gpu.json")).unwrap();
    let table: serde_json::Value = serde_json::from_str(&table).unwrap();
    assert_eq!(table["differences"], 0, "{table:#}");
    let Some(env) = with_loader("data[5] = 1; return 0;", 0) else { return };
    let (code, text) = run(&env, &["selftest"]);
    assert!(code == Some(1) && text.contains("DIFF  selftest   SASS 9.0 of CUDA 11.8"), "{text}");
    let Some(env) = Environment::new() else { return };
    assert_eq!(run(&env, &["selftest"]).0, Some(3));
}
