//! `selftest`: the driver loads every prebuilt kernel on every GPU and runs those that it takes.
//!
//! The driver API only, so neither a CUDA runtime nor Python is needed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

use super::driver_api::{MAJOR, MINOR, named};
use super::{Log, Opened, call};
use crate::model::kernel_outcome::{DriverDevice, Outcome};
use crate::smoke::kernels::{self, ENTRY, THREADS, answer};

pub(super) fn run(log: &mut Log) -> Result<(), String> {
    log.layer("driver", None);
    let driver = Opened::new(Path::new("libcuda.so.1"))?;
    let kernels = kernels::all()?;
    let codes = kernels.iter().map(kernels::Prebuilt::code).collect::<Result<Vec<_>, _>>()?;
    call!(driver, "none", cuInit(0 => u32)).map_err(|why| named(&driver, why))?;
    let mut count: c_int = 0;
    call!(driver, "none", cuDeviceGetCount(&raw mut count => *mut c_int))
        .map_err(|why| named(&driver, why))?;
    for index in 0..count.min(64) {
        let name = format!("cuda:{index}");
        log.layer("device", Some(&name));
        let device = described(&driver, index).map_err(|why| named(&driver, why))?;
        log.document.devices.push(device);
        let mut context = Context::new(&driver, index).map_err(|why| named(&driver, why))?;
        for (code, prebuilt) in codes.iter().zip(&kernels) {
            log.layer(&prebuilt.kernel.to_string(), Some(&name));
            let outcome = context.tries(code);
            let spoiled = matches!(outcome, Outcome::Failed(_));
            if let Some(device) = log.document.devices.last_mut() {
                device.outcomes.push(outcome);
            }
            if spoiled {
                // A launch that failed leaves a context in which every call fails.
                context.reset().map_err(|why| named(&driver, why))?;
            }
        }
    }
    Ok(())
}

/// A GPU as the driver API describes it.
fn described(driver: &Opened, index: c_int) -> Result<DriverDevice, String> {
    let (mut handle, mut version): (c_int, c_int) = (0, 0);
    call!(driver, "none", cuDeviceGet(&raw mut handle => *mut c_int, index => c_int))?;
    call!(driver, "none", cuDriverGetVersion(&raw mut version => *mut c_int))?;
    let mut name = [0 as c_char; 128];
    call!(driver, "none", cuDeviceGetName(name.as_mut_ptr() => *mut c_char, 127 => c_int, handle => c_int))?;
    // SAFETY: the last byte is never written, so the text ends inside the array.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let part = |attribute: c_int| -> Result<c_int, String> {
        let mut value: c_int = 0;
        call!(driver, "none", cuDeviceGetAttribute(&raw mut value => *mut c_int, attribute => c_int, handle => c_int))?;
        Ok(value)
    };
    let mut bytes: usize = 0;
    call!(driver, "none", cuDeviceTotalMem_v2(&raw mut bytes => *mut usize, handle => c_int))?;
    Ok(DriverDevice {
        index: u32::try_from(index).unwrap_or_default(),
        name: crate::model::text::clean(&name, 96),
        capability: format!("{}.{}", part(MAJOR)?, part(MINOR)?),
        memory_mib: (bytes >> 20) as u64,
        uuid: uuid(driver, handle),
        cuda: format!("{}.{}", version / 1000, version % 1000 / 10),
        outcomes: Vec::new(),
    })
}

/// The identifier of a GPU as hexadecimal digits. The second version of the call, since CUDA 11.4, tells a MIG device
/// from its GPU.
fn uuid(driver: &Opened, handle: c_int) -> Option<String> {
    type Uuid = unsafe extern "C" fn(*mut u8, c_int) -> c_int;
    let newer = driver.function::<Uuid>("cuDeviceGetUuid_v2");
    let function = newer.or_else(|_| driver.function::<Uuid>("cuDeviceGetUuid")).ok()?;
    let mut bytes = [0u8; 16];
    // SAFETY: the type of cuda.h: `CUuuid` is 16 bytes, which the call fills.
    let status = unsafe { function(bytes.as_mut_ptr(), handle) };
    (status == 0).then_some(())?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A GPU's primary context, with memory for the result.
struct Context<'d> {
    driver: &'d Opened,
    device: c_int,
    memory: u64,
}

impl<'d> Context<'d> {
    fn new(driver: &'d Opened, index: c_int) -> Result<Context<'d>, String> {
        let mut device: c_int = 0;
        call!(driver, "none", cuDeviceGet(&raw mut device => *mut c_int, index => c_int))?;
        let mut context = Context { driver, device, memory: 0 };
        context.enter()?;
        Ok(context)
    }

    fn enter(&mut self) -> Result<(), String> {
        let driver = self.driver;
        let mut handle: *mut c_void = null_mut();
        call!(driver, "none", cuDevicePrimaryCtxRetain(&raw mut handle => *mut *mut c_void, self.device => c_int))?;
        call!(driver, "none", cuCtxSetCurrent(handle => *mut c_void))?;
        let bytes = THREADS as usize * 4;
        call!(driver, "none", cuMemAlloc_v2(&raw mut self.memory => *mut u64, bytes => usize))
    }

    fn reset(&mut self) -> Result<(), String> {
        let driver = self.driver;
        call!(driver, "none", cuDevicePrimaryCtxReset_v2(self.device => c_int))?;
        self.enter()
    }

    /// Loads and runs a kernel.
    fn tries(&self, code: &[u8]) -> Outcome {
        let driver = self.driver;
        let status = |why: String| named(driver, why);
        let mut module: *mut c_void = null_mut();
        let text = code.as_ptr().cast::<c_void>();
        let loaded = || -> Result<*mut c_void, String> {
            let mut function: *mut c_void = null_mut();
            call!(driver, "none", cuModuleLoadData(&raw mut module => *mut *mut c_void, text => *const c_void))?;
            let name = ENTRY.as_ptr().cast::<c_char>();
            // With lazy loading, code is read here.
            call!(driver, "none", cuModuleGetFunction(&raw mut function => *mut *mut c_void, module => *mut c_void, name => *const c_char))?;
            Ok(function)
        };
        let outcome = match { loaded }().map_err(status) {
            Err(why) => Outcome::Refused(why),
            Ok(function) => match self.launch(function).map_err(status) {
                Err(why) => Outcome::Failed(why),
                Ok(result) if result.iter().zip(0..).all(|(value, i)| *value == answer(i)) => Outcome::Ran,
                Ok(_) => Outcome::Wrong,
            },
        };
        if !module.is_null() {
            let _: Result<(), String> = (|| call!(driver, "none", cuModuleUnload(module => *mut c_void)))();
        }
        outcome
    }

    /// What the kernel writes.
    fn launch(&self, function: *mut c_void) -> Result<Vec<u32>, String> {
        let driver = self.driver;
        let count = THREADS as usize;
        call!(driver, "none", cuMemsetD32_v2(self.memory => u64, u32::MAX => c_uint, count => usize))?;
        let mut address = self.memory;
        let mut arguments = [(&raw mut address).cast::<c_void>()];
        call!(driver, "none", cuLaunchKernel(
            function => *mut c_void,
            1 => c_uint, 1 => c_uint, 1 => c_uint,
            THREADS => c_uint, 1 => c_uint, 1 => c_uint,
            0 => c_uint,
            null_mut() => *mut c_void,
            arguments.as_mut_ptr() => *mut *mut c_void,
            null_mut() => *mut *mut c_void
        ))?;
        call!(driver, "none", cuCtxSynchronize())?;
        let mut result = vec![0u32; count];
        let out = result.as_mut_ptr().cast::<c_void>();
        call!(driver, "none", cuMemcpyDtoH_v2(out => *mut c_void, self.memory => u64, count * 4 => usize))?;
        Ok(result)
    }
}
