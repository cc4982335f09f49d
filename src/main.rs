//! The program `envlock`: everything is in the library.

fn main() -> std::process::ExitCode {
    envlock::cli::run()
}
