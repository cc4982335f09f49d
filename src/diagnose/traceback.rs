//! The folders of Python installations in a traceback.

/// The Python series whose folders the modules of one traceback are in: `3.7` in `/usr/lib/python3.7/site-packages`.
#[derive(Debug, Default)]
pub(super) struct Traceback {
    first: Option<String>,
    /// The other series, if there are two.
    other: Option<String>,
    is_open: bool,
    /// The next traceback is about the same error.
    goes_on: bool,
}

/// What ends a traceback says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The series of the first module.
    Python(String),
    /// The series of the code that runs and of the module that it found: a compiled module of one series cannot be loaded by
    /// another.
    Two(String, String),
}

/// The exceptions of an import that fails.
const OF_IMPORTS: [&str; 4] = ["ImportError", "ModuleNotFoundError", "SyntaxError", "AttributeError"];

impl Traceback {
    /// Reads a line.
    pub fn read(&mut self, line: &str) -> Option<Told> {
        if line.starts_with("Traceback (most recent call last)") {
            if !std::mem::take(&mut self.goes_on) {
                *self = Traceback::default();
            }
            self.is_open = true;
            return None;
        }
        if line.starts_with("During handling of the above exception")
            || line.starts_with("The above exception was the direct cause")
        {
            self.goes_on = true;
            return None;
        }
        // Another process, or paths of the machine where a model was saved: of TorchScript, of an exported program.
        if line.contains("raceback") || line.starts_with("ray::") {
            *self = Traceback::default();
            return None;
        }
        if !self.is_open {
            return None;
        }
        let Some(path) = line.strip_prefix("File \"") else {
            let is_of_import = OF_IMPORTS.iter().any(|name| line.starts_with(name));
            let (first, other) = (self.first.clone()?, self.other.clone()?);
            return is_of_import.then_some(Told::Two(first, other));
        };
        let series = series_in(path)?;
        match &self.first {
            Some(first) if *first != series => {
                self.other = Some(series);
                None
            }
            Some(_) => None,
            None => {
                self.first = Some(series.clone());
                Some(Told::Python(series))
            }
        }
    }
}

/// The series of the Python that torch was imported from, in a line that names a file of it: `3.10` of
/// `/opt/conda/lib/python3.10/site-packages/torch/cuda/__init__.py:235: UserWarning`.
pub(super) fn series_of_torch(line: &str) -> Option<String> {
    let at = ["/site-packages/torch/", "/dist-packages/torch/"].iter().find_map(|name| line.find(name))?;
    series_in(&line[..at + 1])
}

/// The series in a path of a module: `/opt/a/lib/python3.10/site-packages/x.py`.
fn series_in(path: &str) -> Option<String> {
    let path = path.split('"').next()?;
    let mut found = None;
    for (at, name) in path.match_indices("/python3.") {
        let digits = &path[at + name.len()..];
        let end = digits.find(|c: char| !c.is_ascii_digit())?;
        // The innermost one: `/usr/lib/python3.8/venv/lib/python3.10/...`.
        if (1..=2).contains(&end) && digits[end..].starts_with('/') {
            found = Some(format!("3.{}", &digits[..end]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Option<(String, String)> {
        let mut traceback = Traceback::default();
        lines.iter().find_map(|line| match traceback.read(line)? {
            Told::Two(one, other) => Some((one, other)),
            Told::Python(_) => None,
        })
    }

    #[test]
    fn the_python_of_a_warning() {
        let of = |line: &str| series_of_torch(line);
        let warning = "/opt/conda/lib/python3.10/site-packages/torch/cuda/__init__.py:235: UserWarning:";
        assert_eq!(of(warning), Some("3.10".to_owned()));
        assert_eq!(of("/opt/conda/lib/python3.10/site-packages/numpy/x.py"), None);
        assert_eq!(of("/usr/lib/python3/dist-packages/torch/x.py"), None);
    }

    #[test]
    fn two_series_in_one_chain_of_tracebacks_are_told() {
        let begin = "Traceback (most recent call last):";
        let of_user =
            "File \"/home/u/.local/lib/python3.7/site-packages/numpy/__init__.py\", line 1, in <module>";
        let running =
            "File \"/opt/hub/lib/python3.6/site-packages/IPython/core/interactiveshell.py\", line 2, in run";
        let end = "ImportError: x";
        let again = "During handling of the above exception, another exception occurred:";
        let two = Some(("3.7".to_owned(), "3.6".to_owned()));
        assert_eq!(of(&[begin, of_user, running, end]), two);
        assert_eq!(of(&[begin, of_user, end, again, begin, running, end]), two);
        assert_eq!(of(&[begin, of_user, running, "RuntimeError: CUDA out of memory"]), None);
        // Two runs, and a path of the machine where a model was saved.
        assert_eq!(of(&[begin, of_user, begin, running, end]), None);
        assert_eq!(of(&[begin, of_user, of_user, end]), None);
        let script = "Traceback of TorchScript, original code (most recent call last):";
        assert_eq!(of(&[begin, of_user, script, running, end]), None);
        assert_eq!(of(&["File \"/usr/lib/python3/dist-packages/x.py\", line 1", of_user, end]), None);
    }
}
