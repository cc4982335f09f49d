//! The command line: the only module that sees core and edges both. It gathers, calls, prints, writes
//! and exits.

mod args;
mod commands;
mod error;
pub mod exit;
mod fetch;
mod files;
mod host;
mod import;
mod kept;
mod learning;
mod lock;
mod manifest;
mod printer;
mod report;
mod settings;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

/// Runs the program on the process's arguments and environment.
pub fn run() -> ExitCode {
    // A layer of the smoke test, started by ourselves: no argument of it is a person's.
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == crate::smoke::native::COMMAND) {
        return match crate::smoke::native::run(&arguments[2..]) {
            Ok(()) => ExitCode::from(exit::YES),
            Err(why) => {
                // One line as it is: whoever started this reads the last one.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes());
                ExitCode::from(exit::NO)
            }
        };
    }
    let version = format!("{} (registry {})", env!("CARGO_PKG_VERSION"), registry_date());
    let command = args::Args::command().version(version);
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version go to stdout and are no failure; a closed pipe is none either.
            if error.use_stderr() && std::env::args_os().any(|a| a == "--json") {
                let text = error.render().to_string();
                // The sentence may go on below: the arguments that are missing.
                let lines =
                    text.lines().take_while(|l| !l.is_empty() && !l.starts_with("Usage")).map(str::trim);
                let message = lines.collect::<Vec<_>>().join(" ");
                let failure = error::CliError::usage(message.trim_start_matches("error: "))
                    .hint("see `envlock --help`");
                failure.print(&printer::Printer::for_json());
                return ExitCode::from(exit::CANNOT_ANSWER);
            }
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::CANNOT_ANSWER } else { exit::YES });
        }
    };
    let args = match args::Args::from_arg_matches(&matches) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(exit::CANNOT_ANSWER);
        }
    };
    let printer = printer::Printer::new(&args.global);
    match commands::dispatch(&args, &printer) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            error.print(&printer);
            ExitCode::from(error.exit)
        }
    }
}

/// The embedded registry's date, without parsing the registry.
fn registry_date() -> &'static str {
    let text = include_str!("../../registry/registry.toml");
    text.lines().find_map(|l| l.strip_prefix("date = \"")?.strip_suffix('"')).unwrap_or("unknown")
}
