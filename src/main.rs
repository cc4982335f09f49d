//! The program `envlock`: everything is in the library.

// A solve makes many small allocations. Measured with benches/projects.sh: 10 to 13 % less time than with the allocator of
// glibc, for 3 s more of build.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    envlock::cli::run()
}
