//! Layer 1, the driver: `cuInit`, version, devices.

use std::ffi::{c_char, c_int};
use std::path::Path;

use super::{Log, Opened, call};

/// The attributes of `cuDeviceGetAttribute` for the compute capability.
pub(super) const MAJOR: c_int = 75;
pub(super) const MINOR: c_int = 76;

pub(super) fn run(log: &mut Log) -> Result<(), String> {
    log.layer("driver", None);
    let driver = Opened::new(Path::new("libcuda.so.1"))?;
    call!(driver, "none", cuInit(0 => u32)).map_err(|why| named(&driver, why))?;
    let (mut version, mut count): (c_int, c_int) = (0, 0);
    call!(driver, "none", cuDriverGetVersion(&raw mut version => *mut c_int))
        .map_err(|why| named(&driver, why))?;
    call!(driver, "none", cuDeviceGetCount(&raw mut count => *mut c_int))
        .map_err(|why| named(&driver, why))?;
    let cuda = format!("CUDA {}.{}, {count} visible", version / 1000, version % 1000 / 10);
    log.check("init", "cuda", count > 0, cuda);
    for index in 0..count.min(64) {
        let device = format!("cuda:{index}");
        log.layer("driver", Some(&device));
        let mut handle: c_int = 0;
        call!(driver, "none", cuDeviceGet(&raw mut handle => *mut c_int, index => c_int))
            .map_err(|why| named(&driver, why))?;
        let mut name = [0 as c_char; 128];
        call!(driver, "none", cuDeviceGetName(name.as_mut_ptr() => *mut c_char, 127 => c_int, handle => c_int))
            .map_err(|why| named(&driver, why))?;
        let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        let part = |attribute: c_int| -> Result<c_int, String> {
            let mut value: c_int = 0;
            call!(driver, "none", cuDeviceGetAttribute(&raw mut value => *mut c_int, attribute => c_int, handle => c_int))
                .map_err(|why| named(&driver, why))?;
            Ok(value)
        };
        let capability = format!("{}.{}", part(MAJOR)?, part(MINOR)?);
        let name = crate::model::text::clean(&String::from_utf8_lossy(&bytes), 96);
        log.check("device", &device, true, format!("{name} ({capability})"));
    }
    Ok(())
}

/// Adds the name of the status. Unlike the other libraries, the driver returns it through an output pointer.
pub(super) fn named(driver: &Opened, why: String) -> String {
    let Some(status) = why.rsplit(' ').next().and_then(|n| n.parse::<c_int>().ok()) else { return why };
    type GetName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    let Ok(function) = driver.function::<GetName>("cuGetErrorName") else { return why };
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: `text` is a valid output pointer; the function stores a constant string or nothing.
    let found = unsafe { function(status, &raw mut text) };
    if found != 0 || text.is_null() {
        return why;
    }
    // SAFETY: not null, and a NUL-terminated C string.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy();
    format!("{why} ({})", crate::model::text::clean(&text, 100))
}
