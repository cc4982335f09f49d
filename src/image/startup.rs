//! What programs are started with in the images of Apptainer and Enroot, which keep it in files of their file system.
//!
//! Sources: apptainer/apptainer, `conveyorPacker_oci.go` (`/.singularity.d/env/*.sh` are sourced in the order of their names);
//! NVIDIA/enroot, `doc/image-format.md` (`/etc/environment`) and `src/docker.sh` (`/etc/rc` begins with a change of folder).

use std::collections::BTreeMap;
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
            let mut variables = BTreeMap::new();
            scripts.iter().for_each(|name| source(&text(&format!("{SCRIPTS}/{name}")), &mut variables));
            (variables, "/".to_owned())
        }
        false => (listed(&text(ENROOT_VARIABLES)), folder_of(&text(ENROOT_START)).unwrap_or("/".to_owned())),
    };
    // Both start programs as the user who asks for it.
    let user = "$USER".to_owned();
    Config { architecture, os: "linux".to_owned(), variables, working_folder, user, command: Vec::new() }
}

/// The variables that a script sets. What only a shell can tell (a command's output, a branch) leaves a variable unset.
fn source(script: &str, variables: &mut BTreeMap<String, String>) {
    for line in script.lines() {
        // Indented lines belong to a branch or a function.
        let line = line.trim_end();
        let assignment = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = assignment.split_once('=') else { continue };
        if !is_name(name) {
            continue;
        }
        match expanded(value, variables).filter(|value| value.len() <= MAX_VALUE) {
            Some(value) => drop(variables.insert(name.to_owned(), value)),
            None => drop(variables.remove(name)),
        }
    }
}

/// The value of an assignment: quotes removed, references to variables replaced. `None` if it is more than that.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> Option<String> {
    let mut scan = Scan { rest: text, variables };
    let value = scan.word(None)?;
    let rest = scan.rest.trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

/// Reads a word of a shell script.
struct Scan<'t> {
    rest: &'t str,
    variables: &'t BTreeMap<String, String>,
}

impl Scan<'_> {
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
            ("A=1\nexport A=\"$(cat x)\"", None),
            ("export A=${A%%:*}", None),
            ("if test -d /x; then\n    export A=1\nfi", None),
            ("export A=\"unfinished", None),
            ("A=1 python x.py", None),
            ("export 1A=2", None),
        ] {
            let mut variables = BTreeMap::new();
            source(script, &mut variables);
            let last = variables.iter().map(|(name, value)| format!("{name}={value}")).next_back();
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
