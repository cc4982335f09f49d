//! The layers below the framework: driver, and the environment's CUDA runtime, cuBLAS and cuDNN, each called by its C
//! API. They run only in a child process, because these libraries may abort.

mod cublas;
mod cudart;
mod cudnn_api;
mod driver_api;
mod kernels;

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};

use libloading::{Library, Symbol};

use super::{Document, Reached};
use crate::model::smoke_test::Check;

/// The hidden subcommand that runs a layer.
pub const COMMAND: &str = "__smoke";

/// Runs a layer in the child process. `arguments` are those after [`COMMAND`]: the layer, the file for the checks,
/// libcudart and the library that the layer tests.
///
/// # Errors
/// One line about the call that failed.
pub fn run(arguments: &[std::ffi::OsString]) -> Result<(), String> {
    let [layer, out, libraries @ ..] = arguments else { return Err("no layer".to_owned()) };
    let paths: Vec<PathBuf> = libraries.iter().map(PathBuf::from).collect();
    let mut log = Log { out: PathBuf::from(out), document: Document::default() };
    match (layer.to_str(), paths.as_slice()) {
        (Some("driver"), _) => driver_api::run(&mut log),
        (Some("kernels"), _) => kernels::run(&mut log),
        (Some("runtime"), [runtime, ..]) => cudart::run(&mut log, runtime),
        (Some("cublas"), [runtime, cublas]) => cublas::run(&mut log, runtime, cublas),
        (Some("cudnn"), [runtime, cudnn]) => cudnn_api::run(&mut log, runtime, cudnn),
        _ => Err("no such layer".to_owned()),
    }?;
    log.layer("done", None);
    Ok(())
}

/// The checks so far. They are written to disk after each step, so that a crash preserves them.
struct Log {
    out: PathBuf,
    document: Document,
}

impl Log {
    fn layer(&mut self, layer: &str, device: Option<&str>) {
        self.document.reached = Reached { layer: layer.to_owned(), device: device.map(str::to_owned) };
        self.save();
    }

    fn check(&mut self, name: &str, device: &str, passed: bool, detail: String) {
        let layer = self.document.reached.layer.clone();
        self.document.checks.push(Check {
            name: name.to_owned(),
            layer,
            device: device.to_owned(),
            passed,
            detail,
            figure: None,
        });
        self.save();
    }

    fn save(&self) {
        if let Ok(text) = serde_json::to_vec(&self.document) {
            let _ = std::fs::write(&self.out, text);
        }
    }
}

/// A loaded library.
struct Opened {
    library: Library,
    name: String,
}

impl Opened {
    fn new(path: &Path) -> Result<Opened, String> {
        // SAFETY: loading runs the library's constructors. This child process exists only for that.
        let library = unsafe { Library::new(path) }
            .map_err(|error| format!("cannot load `{}`: {error}", path.display()))?;
        Ok(Opened { library, name: path.display().to_string() })
    }

    /// A function by name. The caller states its type.
    fn function<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: callers use the types of the vendor's headers, unchanged since CUDA 8 and cuDNN 7.
        unsafe { self.library.get(name.as_bytes()) }
            .map_err(|error| format!("`{}` has no function `{name}`: {error}", self.name))
    }
}

/// The library's text for a status, from `fn(status) -> const char *`.
fn status_text(library: &Opened, function: &str, status: c_int) -> String {
    let Ok(describe) = library.function::<unsafe extern "C" fn(c_int) -> *const c_char>(function) else {
        return String::new();
    };
    // SAFETY: the function accepts any number and returns a constant string or null.
    let text = unsafe { describe(status) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and a NUL-terminated C string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    format!(" ({})", crate::model::text::clean(&text, 120))
}

/// Calls a function of a library with the given C types. A nonzero status becomes an error that names the function.
macro_rules! call {
    ($library:expr, $describe:literal, $name:ident ( $($argument:expr => $kind:ty),* )) => {{
        let function = $library.function::<unsafe extern "C" fn($($kind),*) -> std::ffi::c_int>(stringify!($name))?;
        // SAFETY: the types are those of the vendor's header; pointers are valid during the call.
        let status = unsafe { function($($argument),*) };
        if status == 0 {
            Ok(())
        } else {
            let text = $crate::smoke::native::status_text(&$library, $describe, status);
            Err(format!("{} returned {status}{text}", stringify!($name)))
        }
    }};
}
use call;
