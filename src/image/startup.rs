//! What programs are started with in the images of Apptainer and Enroot, which keep it in files of their file system.
//!
//! Sources: apptainer/apptainer, `conveyorPacker_oci.go` (`/.singularity.d/env/*.sh` are sourced in the order of their names);
//! NVIDIA/enroot, `doc/image-format.md` (`/etc/environment`) and `src/docker.sh` (`/etc/rc` begins with a change of folder).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Config;
use crate::inspect::FileTree;

/// Apptainer's scripts.
const SCRIPTS: &str = "/.singularity.d/env";
/// Enroot's list of variables, and the script that it starts.
const ENROOT_VARIABLES: &str = "/etc/environment";
const ENROOT_START: &str = "/etc/rc";
/// Maximum size of a file, and maximum number of scripts.
const MAX_FILE: u64 = 1 << 20;
const MAX_SCRIPTS: usize = 100;
/// Maximum length of a value, in bytes: one that contains itself grows.
const MAX_VALUE: usize = 64 << 10;

/// What the files of a file system say of the start of its programs.
pub(super) fn config(tree: &dyn FileTree, architecture: String) -> Config {
    let is_apptainer = tree.is_folder(Path::new(SCRIPTS));
    let text = |path: &str| tree.text(Path::new(path), MAX_FILE).unwrap_or_default();
    let (variables, working_folder) = match is_apptainer {
        true => {
            let mut scripts = tree.names(Path::new(SCRIPTS), MAX_SCRIPTS);
            scripts.retain(|name| name.ends_with(".sh"));
            scripts.sort();
            let mut shell = Shell::new();
            scripts.iter().for_each(|name| shell.source(&text(&format!("{SCRIPTS}/{name}"))));
            (shell.variables(), "/".to_owned())
        }
        false => (listed(&text(ENROOT_VARIABLES)), folder_of(&text(ENROOT_START)).unwrap_or("/".to_owned())),
    };
    // Both start programs as the user who asks for it.
    let user = "$USER".to_owned();
    Config { architecture, os: "linux".to_owned(), variables, working_folder, user, command: Vec::new() }
}

/// The variables of a shell: those that it exports are its programs'.
#[derive(Default)]
struct Shell {
    values: BTreeMap<String, String>,
    exported: BTreeSet<String>,
}

/// Words that begin a block, and those that end one.
const BLOCKS: [&str; 6] = ["if", "case", "for", "while", "until", "select"];
const ENDS: [&str; 5] = ["fi", "esac", "done", "}", ")"];

impl Shell {
    fn new() -> Shell {
        // It is a variable of the process before any script runs.
        Shell { exported: BTreeSet::from(["PATH".to_owned()]), ..Shell::default() }
    }

    /// Runs a script, as far as it consists of assignments. What only a shell can tell (a command's output, a branch) leaves
    /// the variables that it may set unset.
    fn source(&mut self, script: &str) {
        let script = script.replace("\\\n", "");
        let mut depth = 0_usize;
        let mut heredoc: Option<String> = None;
        for line in script.lines() {
            let line = line.trim();
            if let Some(end) = &heredoc {
                if line == end {
                    heredoc = None;
                }
                continue;
            }
            if line.starts_with('#') {
                continue;
            }
            heredoc = end_of_heredoc(line);
            let Some(statements) = statements(line).filter(|_| heredoc.is_none()) else {
                self.forget(line);
                continue;
            };
            for statement in statements {
                let words = ["then ", "else ", "do "];
                let inner =
                    words.iter().find_map(|word| statement.strip_prefix(word)).unwrap_or(statement).trim();
                let first = inner.split_whitespace().next().unwrap_or_default();
                let opens = BLOCKS.contains(&first) || inner.ends_with('{') || inner.ends_with('(');
                if depth > 0 || opens || !self.assign(inner) {
                    self.forget(inner);
                }
                if opens {
                    depth += 1;
                } else if ENDS.contains(&first) {
                    depth = depth.saturating_sub(1);
                }
            }
        }
    }

    /// Runs a statement: assignments, `export`, `unset`. `false` if it is another one, or cannot be read.
    fn assign(&mut self, statement: &str) -> bool {
        if let Some(names) = statement.strip_prefix("unset ") {
            for name in names.split_whitespace() {
                self.values.remove(name);
            }
            return true;
        }
        let (is_export, mut rest) = match statement.strip_prefix("export ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, statement),
        };
        let mut names = Vec::new();
        while !rest.is_empty() && !rest.starts_with('#') {
            let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            if !is_name(name) {
                return false;
            }
            rest = match behind.strip_prefix('=') {
                Some(value) => {
                    let mut scan = Scan { rest: value, variables: &self.values };
                    let Some(value) = scan.word(None).filter(|value| value.len() <= MAX_VALUE) else {
                        return false;
                    };
                    let left = scan.rest.trim_start();
                    self.values.insert(name.to_owned(), value);
                    left
                }
                // `export NAME`; without `export` it is a command.
                None if is_export => behind.trim_start(),
                None => return false,
            };
            names.push(name.to_owned());
        }
        if is_export {
            self.exported.extend(names);
        }
        true
    }

    /// What a statement that is not run may set is no longer known.
    fn forget(&mut self, statement: &str) {
        for (at, _) in statement.match_indices('=') {
            let before = &statement[..at];
            let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
            self.values.remove(&before[start..]);
        }
        if let Some((_, names)) = statement.split_once("unset ") {
            names.split_whitespace().for_each(|name| drop(self.values.remove(name)));
        }
    }

    /// The variables of its programs.
    fn variables(mut self) -> BTreeMap<String, String> {
        self.values.retain(|name, _| self.exported.contains(name));
        self.values
    }
}

/// The statements of a line, at `;`. `None` for one whose statements depend on each other or run in a shell of their own.
fn statements(line: &str) -> Option<Vec<&str>> {
    let mut out = Vec::new();
    let (mut start, mut quote) = (0, None);
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            (';', None) => {
                out.push(line[start..at].trim());
                start = at + 1;
            }
            ('&' | '|', None) => return None,
            _ => {}
        }
    }
    out.push(line[start..].trim());
    out.retain(|statement| !statement.is_empty());
    Some(out)
}

/// The word that ends the here-document which a line begins.
fn end_of_heredoc(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<")?;
    let word = rest.trim_start_matches('-').trim_start();
    let end: String = word
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!end.is_empty()).then_some(end)
}

/// Reads a word of a shell script.
struct Scan<'t, 'v> {
    rest: &'t str,
    variables: &'v BTreeMap<String, String>,
}

impl Scan<'_, '_> {
    /// A word up to white space or a character that ends it, which stays.
    fn word(&mut self, end: Option<char>) -> Option<String> {
        let mut out = String::new();
        let mut is_quoted = false;
        while let Some(char) = self.rest.chars().next() {
            if !is_quoted && (Some(char) == end || (end.is_none() && char.is_whitespace())) {
                break;
            }
            self.rest = &self.rest[char.len_utf8()..];
            match char {
                '"' => is_quoted = !is_quoted,
                '\'' if !is_quoted => {
                    let (text, rest) = self.rest.split_once('\'')?;
                    out.push_str(text);
                    self.rest = rest;
                }
                '\\' => {
                    let next = self.rest.chars().next()?;
                    self.rest = &self.rest[next.len_utf8()..];
                    // In quotes it is for these alone (POSIX, Shell Command Language, 2.2.3).
                    if is_quoted && !['$', '`', '"', '\\'].contains(&next) {
                        out.push('\\');
                    }
                    out.push(next);
                }
                '$' => out.push_str(&self.reference()?),
                '`' | ';' | '|' | '&' | '(' | ')' | '<' | '>' if !is_quoted || char == '`' => return None,
                char => out.push(char),
            }
        }
        (!is_quoted).then_some(out)
    }

    /// A reference behind its `$`: `NAME`, `{NAME}`, and with a word for the case that it is unset or set.
    fn reference(&mut self) -> Option<String> {
        let Some(inner) = self.rest.strip_prefix('{') else {
            let length = self.rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
            let (name, rest) = self.rest.split_at(length.unwrap_or(self.rest.len()));
            self.rest = rest;
            return is_name(name).then(|| self.variables.get(name).cloned().unwrap_or_default());
        };
        let length = inner.find(|char: char| !char.is_ascii_alphanumeric() && char != '_')?;
        let (name, rest) = inner.split_at(length);
        if !is_name(name) {
            return None;
        }
        let value = self.variables.get(name).filter(|value| !value.is_empty()).cloned();
        self.rest = rest;
        if let Some(rest) = rest.strip_prefix('}') {
            self.rest = rest;
            return Some(value.unwrap_or_default());
        }
        // With the colon an empty value counts as unset; without it the difference is not kept here.
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let is_default = rest.starts_with('-');
        self.rest = rest.strip_prefix(['-', '+'])?;
        let word = self.word(Some('}'))?;
        self.rest = self.rest.strip_prefix('}')?;
        Some(match is_default {
            true => value.unwrap_or(word),
            false => value.map(|_| word).unwrap_or_default(),
        })
    }
}

/// The variables of Enroot's list. One that is taken from the host (`${NAME}`) is not known.
fn listed(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let known = lines.filter(|(name, value)| is_name(name) && !value.contains("${"));
    known.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect()
}

/// The folder that Enroot's start script changes to: `cd "/workspace" && ...`.
fn folder_of(script: &str) -> Option<String> {
    let line = script.lines().find_map(|line| line.strip_prefix("cd \""))?;
    let (folder, _) = line.split_once('"')?;
    folder.starts_with('/').then(|| folder.to_owned())
}

fn is_name(text: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !text.is_empty() && !text.starts_with(|char: char| char.is_ascii_digit()) && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_set() {
        for (script, expected) in [
            (r#"export CUDA_VERSION="${CUDA_VERSION:-"12.8.1"}""#, Some("CUDA_VERSION=12.8.1")),
            (r#"export CUDA_VERSION="${CUDA_VERSION:-12.8.1}""#, Some("CUDA_VERSION=12.8.1")),
            ("export PATH=\"/opt/conda/bin:/bin\"", Some("PATH=/opt/conda/bin:/bin")),
            ("PATH=/usr/bin\nexport PATH=/opt/conda/bin:$PATH", Some("PATH=/opt/conda/bin:/usr/bin")),
            ("export A=1 # why", Some("A=1")),
            (r#"export A='a $B "c"'"#, Some(r#"A=a $B "c""#)),
            (r#"export A="a \$B \n""#, Some(r"A=a $B \n")),
            ("export L=/cuda/lib64${L:+:$L}", Some("L=/cuda/lib64")),
            ("L=/x\nexport L=/cuda/lib64${L:+:${L}}", Some("L=/cuda/lib64:/x")),
            ("export A=\"\"", Some("A=")),
            // What only a shell can tell.
            ("export A=$(date)", None),
            ("export A=`date`", None),
            ("export A=1\nexport A=\"$(cat x)\"", None),
            ("export A=${A%%:*}", None),
            ("if test -d /x; then\n    export A=1\nfi", None),
            ("if test -d /x; then\nexport A=1\nfi", None),
            ("export A=0\nif test -d /x; then export A=1; fi\nexport B=2", Some("B=2")),
            ("f() {\nexport A=1\n}", None),
            ("export A=1\nunset A", None),
            ("cat <<EOF\nexport A=1\nEOF\nexport B=2", Some("B=2")),
            ("A=1", None),
            ("A=1; export A", Some("A=1")),
            ("export A=1\n[ -d /x ] && export A=2", None),
            ("    export A=1", Some("A=1")),
            ("export B=1 A=2", Some("B=1")),
            ("export A=1\\\n2", Some("A=12")),
            ("export A=\"unfinished", None),
            ("A=1 python x.py", None),
            ("export 1A=2", None),
        ] {
            let mut shell = Shell::new();
            shell.source(script);
            let last = shell.variables().iter().map(|(name, value)| format!("{name}={value}")).next_back();
            assert_eq!(last.as_deref(), expected, "{script}");
        }
    }

    #[test]
    fn what_enroot_lists() {
        let listed = listed("PATH=/opt/bin:/bin\nDISPLAY=${DISPLAY}\n# no variable\nLD_LIBRARY_PATH=\n");
        assert_eq!(
            listed.into_iter().collect::<Vec<_>>(),
            [("LD_LIBRARY_PATH".to_owned(), String::new()), ("PATH".to_owned(), "/opt/bin:/bin".to_owned())]
        );
        let start = "# enroot-provenance: docker://x\n\nmkdir -p \"/workspace\" 2> /dev/null\ncd \"/workspace\" && unset OLDPWD || exit 1\n";
        assert_eq!(folder_of(start).as_deref(), Some("/workspace"));
    }
}
