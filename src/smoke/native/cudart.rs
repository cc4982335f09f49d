//! Layer 2, the environment's CUDA runtime: copies memory to the device and back, and runs a kernel from PTX.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

use super::{Log, Opened, call};

/// Number of floats that are copied and incremented.
const COUNT: usize = 4096;
const THREADS: c_uint = 256;
/// `cudaMemcpyHostToDevice`, `cudaMemcpyDeviceToHost`.
pub(super) const TO_DEVICE: c_int = 1;
pub(super) const TO_HOST: c_int = 2;

/// Adds one to each float. The PTX version and target are old: every driver from CUDA 9 on compiles it for every GPU
/// that it supports, including Kepler. (`ptxas` of 12.8, 12.9 and 13.5 compiles it for 7.5 to 12.1.)
const PTX: &[u8] = b".version 6.0
.target sm_30
.address_size 64
.visible .entry add_one(.param .u64 data)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [data];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.s32 %rd3, %r4, 4;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd2];
    add.f32 %f2, %f1, 0f3F800000;
    st.global.f32 [%rd2], %f2;
    ret;
}
\0";

pub(super) fn run(log: &mut Log, runtime: &Path) -> Result<(), String> {
    log.layer("runtime", None);
    let runtime = Opened::new(runtime)?;
    let (mut version, mut count): (c_int, c_int) = (0, 0);
    call!(runtime, "cudaGetErrorString", cudaRuntimeGetVersion(&raw mut version => *mut c_int))?;
    call!(runtime, "cudaGetErrorString", cudaGetDeviceCount(&raw mut count => *mut c_int))?;
    let text = format!("runtime {}.{}", version / 1000, version % 1000 / 10);
    log.check("version", "cuda", true, text);
    for index in 0..count.min(64) {
        let device = format!("cuda:{index}");
        log.layer("runtime", Some(&device));
        call!(runtime, "cudaGetErrorString", cudaSetDevice(index => c_int))?;
        let data: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
        let memory = Memory::of(&runtime, &data)?;
        let back = memory.read(COUNT)?;
        log.check("copy", &device, back == data, format!("{} KiB to the device and back", (COUNT * 4) >> 10));
        log.layer("ptx", Some(&device));
        compiled(&memory)?;
        call!(runtime, "cudaGetErrorString", cudaDeviceSynchronize())?;
        let added = memory.read(COUNT)?;
        let right = added.iter().zip(&data).all(|(a, b)| *a == b + 1.0);
        log.check("ptx", &device, right, "a kernel compiled from PTX by the driver".to_owned());
    }
    Ok(())
}

/// Makes the driver compile the PTX, and launches the kernel on the memory.
fn compiled(memory: &Memory<'_>) -> Result<(), String> {
    let driver = Opened::new(Path::new("libcuda.so.1"))?;
    let (mut module, mut function): (*mut c_void, *mut c_void) = (null_mut(), null_mut());
    let text = PTX.as_ptr().cast::<c_void>();
    call!(driver, "none", cuModuleLoadData(&raw mut module => *mut *mut c_void, text => *const c_void))?;
    let name = c"add_one".as_ptr();
    call!(driver, "none", cuModuleGetFunction(&raw mut function => *mut *mut c_void, module => *mut c_void, name => *const c_char))?;
    let mut address = memory.address;
    let mut arguments = [(&raw mut address).cast::<c_void>()];
    let blocks = COUNT as c_uint / THREADS;
    call!(driver, "none", cuLaunchKernel(
        function => *mut c_void,
        blocks => c_uint, 1 => c_uint, 1 => c_uint,
        THREADS => c_uint, 1 => c_uint, 1 => c_uint,
        0 => c_uint,
        null_mut() => *mut c_void,
        arguments.as_mut_ptr() => *mut *mut c_void,
        null_mut() => *mut *mut c_void
    ))
}

/// Device memory; freed when the process ends.
pub(super) struct Memory<'r> {
    runtime: &'r Opened,
    pub address: *mut c_void,
}

impl<'r> Memory<'r> {
    /// Allocates memory of this size.
    pub fn new(runtime: &'r Opened, bytes: usize) -> Result<Memory<'r>, String> {
        let mut address: *mut c_void = null_mut();
        call!(runtime, "cudaGetErrorString", cudaMalloc(&raw mut address => *mut *mut c_void, bytes.max(1) => usize))?;
        Ok(Memory { runtime, address })
    }

    /// Allocates memory and copies `data` to it.
    pub fn of(runtime: &'r Opened, data: &[f32]) -> Result<Memory<'r>, String> {
        let memory = Memory::new(runtime, size_of_val(data))?;
        call!(runtime, "cudaGetErrorString", cudaMemcpy(
            memory.address => *mut c_void,
            data.as_ptr().cast::<c_void>() => *const c_void,
            size_of_val(data) => usize,
            TO_DEVICE => c_int
        ))?;
        Ok(memory)
    }

    /// Copies the first `count` floats to the host.
    pub fn read(&self, count: usize) -> Result<Vec<f32>, String> {
        let mut out = vec![0f32; count];
        call!(self.runtime, "cudaGetErrorString", cudaMemcpy(
            out.as_mut_ptr().cast::<c_void>() => *mut c_void,
            self.address.cast_const() => *const c_void,
            count * 4 => usize,
            TO_HOST => c_int
        ))?;
        Ok(out)
    }
}
