//! The command line: the only module that prints and that ends the program. It reads the arguments, calls `session` and prints what it
//! returns.

mod args;
mod commands;
mod conflict;
mod help;
mod markdown;
mod printer;
mod progress;
mod report;
mod schema;
mod view;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::session::{cache_folder, data_folder, exit, failure, files, settings, signals};

/// Runs the program on the process's arguments and environment.
pub fn run() -> ExitCode {
    signals::limits_are_errors();
    // A layer of the smoke test, which envlock starts itself, so its arguments are not user input.
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == crate::smoke::native::COMMAND) {
        return match crate::smoke::native::run(&arguments[2..]) {
            Ok(()) => ExitCode::from(exit::YES),
            Err(why) => {
                // One line without formatting: the parent process reads the last line.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes());
                ExitCode::from(exit::NO)
            }
        };
    }
    let asks_version = arguments.iter().any(|word| word == "--version" || word == "-V");
    let version = if asks_version { version() } else { env!("CARGO_PKG_VERSION").to_owned() };
    let command = help::command().version(version);
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version go to stdout and are not failures. A closed pipe is not one either.
            if error.use_stderr() && std::env::args_os().any(|a| a == "--json") {
                let text = error.render().to_string();
                // The message may continue on the next lines with the missing arguments.
                let lines =
                    text.lines().take_while(|l| !l.is_empty() && !l.starts_with("Usage")).map(str::trim);
                let message = lines.collect::<Vec<_>>().join(" ");
                let failure = failure::Failure::usage(message.trim_start_matches("error: "))
                    .hint("see `envlock --help`");
                printer::Printer::for_json().failure(&failure);
                return ExitCode::from(exit::CANNOT_ANSWER);
            }
            let is_control = |arg: &std::ffi::OsString| arg.to_string_lossy().chars().any(char::is_control);
            if error.use_stderr() && arguments.iter().any(is_control) {
                // clap repeats arguments as they are, and a terminal would obey them.
                let text = printer::visible(&error.render().to_string(), false).into_owned();
                let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            } else {
                let _ = error.print();
            }
            return ExitCode::from(if error.use_stderr() { exit::CANNOT_ANSWER } else { exit::YES });
        }
    };
    let mut args = match args::Args::from_arg_matches(&matches) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(exit::CANNOT_ANSWER);
        }
    };
    args.talk.json |= args.command.has_json_format();
    let printer =
        printer::Printer::new(&args.talk, args.global.project.as_deref(), files::has_shared_manifest);
    let chosen = match args.command.needs_cache() {
        true => cache_folder::choose(&mut args.global, &printer),
        false => {
            cache_folder::if_trusted(&mut args.global);
            Ok(())
        }
    };
    match chosen.and_then(|()| commands::dispatch(&args, &printer)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            printer.failure(&error);
            ExitCode::from(error.exit)
        }
    }
}

/// The version of the program and the date of the compatibility data that it answers from.
fn version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    match data_folder::registry() {
        Ok(_) if asks_for_embedded() => {
            format!("{own} (registry {})", crate::registry::Registry::embedded().meta().date)
        }
        Ok(registry) => format!("{own} (registry {})", data_folder::named(&registry)),
        Err(error) => format!("{own} (registry: {})", error.message),
    }
}

/// Whether the arguments have `--registry embedded`: clap prints the version before it has read them all.
fn asks_for_embedded() -> bool {
    let words: Vec<_> = std::env::args_os().collect();
    let joined = format!("--registry={}", settings::EMBEDDED);
    words.windows(2).any(|pair| pair[0] == "--registry" && pair[1] == settings::EMBEDDED)
        || words.iter().any(|word| *word == *joined)
}
