//! Commands in the form of the place that the text is from: Windows, uv, distributions without apt.

use super::situation::Situation;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;

/// Said of what `uv pip` installs in a project.
const UNDONE: &str = "the project's next `uv run` undoes it: require the same in pyproject.toml, with its index in [tool.uv.sources]";

/// A pip command in the syntax of the installer in use.
pub(super) fn for_setup(situation: &Situation<'_>, fix: Fix) -> Fix {
    let on_windows = is_on_windows(situation);
    match fix {
        // Windows looks for DLLs in PATH.
        Fix::Command { command, .. } if on_windows && command.contains("LD_LIBRARY_PATH") => Fix::advice(
            "remove other folders with CUDA or cuDNN DLLs from PATH, or put the right one before them",
        ),
        Fix::Command { command, why } if is_of_apt(&command) && situation.facts.is_in(Surrounding::Rpm) => {
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            Fix::advice(format!(
                "with the system's own package manager, if it is not apt (names may differ): `{command}`{why}"
            ))
        }
        Fix::Command { command, why } => {
            let is_undone =
                command.starts_with("pip install") && situation.facts.is_in(Surrounding::UvProject);
            let why = why.map(|why| if on_windows { why.replace("LD_LIBRARY_PATH", "PATH") } else { why });
            let why = match (is_undone, why) {
                (true, Some(why)) => Some(format!("{why}; {UNDONE}")),
                (true, None) => Some(UNDONE.to_owned()),
                (false, why) => why,
            };
            Fix::Command { command: installer_syntax(situation, command), why }
        }
        advice => advice,
    }
}

/// Whether a command installs packages of Debian or Ubuntu.
fn is_of_apt(command: &str) -> bool {
    let words = ["apt-get ", "apt install ", "apt-cache ", "dpkg "];
    words.iter().any(|word| command.contains(word))
}

/// Whether commands are typed in Windows, and not in WSL.
fn is_on_windows(situation: &Situation<'_>) -> bool {
    situation.facts.is_in(Surrounding::Windows) && !situation.facts.is_in(Surrounding::Wsl)
}

fn installer_syntax(situation: &Situation<'_>, command: String) -> String {
    let on_windows = is_on_windows(situation);
    // `python3.11 -m venv .venv && . .venv/bin/activate`
    if on_windows && let Some(rest) = command.strip_prefix("python3.") {
        let rest = rest.replace(" && . .venv/bin/activate", "; .venv\\Scripts\\activate");
        return format!("py -3.{rest}");
    }
    if !command.starts_with("pip ") {
        return command;
    }
    if situation.facts.is_in(Surrounding::Uv) {
        let command = command.replace("pip ", "uv pip ");
        // uv does not ask for confirmation, and `--force-reinstall` is `--reinstall`.
        return command.replace(" -y ", " ").replace("--force-reinstall", "--reinstall");
    }
    if on_windows {
        return command.replacen("pip ", "python -m pip ", 1).replace(" && pip ", " && python -m pip ");
    }
    command
}
