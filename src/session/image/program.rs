//! Which Python an image's program runs in: from its entry point, its command and its PATH.

use std::path::{Component, Path, PathBuf};

use crate::session::verify::Place;

/// Programs that start the one that their arguments name.
const STARTERS: [&str; 9] =
    ["catatonit", "docker-init", "dumb-init", "env", "exec", "gosu", "nice", "su-exec", "tini"];
/// Those whose first argument is a user.
const WITH_USER: [&str; 2] = ["gosu", "su-exec"];
/// Programs whose argument behind `-c` is a script.
const SHELLS: [&str; 4] = ["ash", "bash", "dash", "sh"];
/// Maximum length of the first line of a script, in bytes.
const MAX_LINE: u64 = 256;
/// Maximum number of folders of PATH that are searched.
const MAX_FOLDERS: usize = 1_000;
/// Maximum number of scripts that start each other.
const MAX_DEPTH: usize = 4;

/// The `python` that a command runs in; of what is no Python and starts none, the first one on PATH.
pub(crate) fn python_of(place: &Place<'_>, command: &[String]) -> Option<PathBuf> {
    of_command(place, command, MAX_DEPTH).or_else(|| on_path(place, &["python", "python3"]))
}

/// Whether it is known which `python` a command runs in: of a longer script it is not.
pub(crate) fn is_followed(place: &Place<'_>, command: &[String]) -> bool {
    of_command(place, command, MAX_DEPTH).is_some()
}

/// The `python` that a command certainly runs in.
fn of_command(place: &Place<'_>, command: &[String], depth: usize) -> Option<PathBuf> {
    let depth = depth.checked_sub(1)?;
    let (first, rest) = command.split_first()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    if STARTERS.contains(&name) {
        let mut rest = rest;
        if WITH_USER.contains(&name) {
            rest = rest.split_first()?.1;
        }
        while let Some((word, behind)) =
            rest.split_first().filter(|(word, _)| word.starts_with('-') || word.contains('='))
        {
            rest = behind;
            if word == "--" {
                break;
            }
        }
        return of_command(place, rest, depth);
    }
    if SHELLS.contains(&name) {
        let script = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
        let script = rest.get(script? + 1)?;
        // Of a longer script, what it runs is not known.
        if script.contains(['&', '|', ';', '\n', '`', '(']) {
            return None;
        }
        let words = shlex::split(script)?;
        let words = words.into_iter().skip_while(|word| word.contains('=')).collect::<Vec<_>>();
        return of_command(place, &words, depth);
    }
    let file = match first.contains('/') {
        true => plain(&place.working_folder.join(first)),
        false => on_path(place, &[first])?,
    };
    if name.starts_with("python") {
        return place.tree.exists(&file).then_some(file);
    }
    of_script(place, &file).or_else(|| {
        // A script that is an entry point starts the command behind it, as all those of images do.
        let is_script = place.tree.start(&file, 2).is_some_and(|start| start == b"#!");
        is_script.then(|| of_command(place, rest, depth)).flatten()
    })
}

/// The `python` of an installed script, from its first line.
fn of_script(place: &Place<'_>, file: &Path) -> Option<PathBuf> {
    let start = place.tree.start(file, MAX_LINE)?;
    let text = String::from_utf8_lossy(&start);
    let line = text.strip_prefix("#!")?.lines().next()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let (program, name) = match words[..] {
        ["/usr/bin/env", "-S", name, ..] | ["/usr/bin/env", name, ..]
            if !name.contains('/') && name.starts_with("python") =>
        {
            return on_path(place, &[name]);
        }
        ["/usr/bin/env", "-S", program, ..] => (program, program.rsplit('/').next()?),
        [program, ..] => (program, program.rsplit('/').next()?),
        [] => return None,
    };
    (name.starts_with("python") && place.tree.exists(Path::new(program))).then(|| PathBuf::from(program))
}

/// The first of these programs on PATH.
fn on_path(place: &Place<'_>, names: &[&str]) -> Option<PathBuf> {
    let path = place.variable("PATH").unwrap_or_default();
    let folders = path.split(':').filter(|folder| folder.starts_with('/')).map(Path::new);
    // No file has a longer name, and no image so many folders.
    let names: Vec<&str> = names.iter().copied().filter(|name| name.len() <= 255).collect();
    folders
        .take(MAX_FOLDERS)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|file| place.tree.is_file(file) && !is_shim(place, file))
}

/// Whether a file is a script that finds out which program to start (pyenv's).
fn is_shim(place: &Place<'_>, file: &Path) -> bool {
    let is_named = file.parent().is_some_and(|folder| folder.ends_with("shims"));
    is_named && place.tree.start(file, 2).is_some_and(|start| start == b"#!")
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(part) => out.push(part),
            Component::ParentDir => drop(out.pop()),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::inspect::Rooted;

    #[test]
    fn the_python_of_a_command() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("usr/bin/python3", "ELF"),
            ("usr/bin/tini", "ELF"),
            ("opt/venv/bin/python", "ELF"),
            ("opt/venv/bin/uvicorn", "#!/opt/venv/bin/python\nimport x\n"),
            ("opt/venv/bin/other", "#!/usr/bin/env python3\n"),
            ("usr/bin/start.sh", "#!/bin/sh\nexec \"$@\"\n"),
            ("srv/shims/python", "#!/usr/bin/env bash\n"),
            ("srv/bin/server", "ELF"),
        ] {
            let path = dir.path().join(file);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        fs_err::create_dir_all(dir.path().join("app")).unwrap();
        std::os::unix::fs::symlink("/opt/venv", dir.path().join("app/.venv")).unwrap();
        let tree = Rooted::new(dir.path()).unwrap();
        let variables = BTreeMap::from([("PATH".to_owned(), "/srv/shims:/usr/bin".to_owned())]);
        let place = Place::rooted(&tree, variables, PathBuf::from("/app"));
        let (system, venv) = ("/usr/bin/python3", "/opt/venv/bin/python");
        for (command, expected) in [
            ("", system),
            ("python3 x.py", system),
            ("/opt/venv/bin/python x.py", venv),
            ("/opt/venv/bin/uvicorn app:app", venv),
            ("/opt/venv/bin/other", system),
            (".venv/bin/python train.py", "/app/.venv/bin/python"),
            ("/usr/bin/tini -- /opt/venv/bin/python train.py", venv),
            ("tini -s -- env A=1 /opt/venv/bin/python", venv),
            ("gosu app /opt/venv/bin/python", venv),
            ("/bin/sh -c '/opt/venv/bin/python train.py'", venv),
            ("/bin/bash -lc 'A=1 exec /opt/venv/bin/python train.py'", venv),
            ("start.sh /opt/venv/bin/python x", venv),
            ("start.sh", system),
            // What a longer script runs, or a program that is none of Python's, is not looked into.
            ("/bin/sh -c 'cd /x && /opt/venv/bin/python x'", system),
            ("/srv/bin/server", system),
            ("/nowhere/python", system),
        ] {
            let words = shlex::split(command).unwrap();
            let found = python_of(&place, &words);
            assert_eq!(found.as_deref(), Some(Path::new(expected)), "{command}");
        }
    }
}
