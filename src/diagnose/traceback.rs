//! The folders of Python installations in a traceback.

/// The Python series whose folders the modules of one traceback are in: `3.7` in `/usr/lib/python3.7/site-packages`.
#[derive(Debug, Default)]
pub(super) struct Traceback {
    first: Option<String>,
    /// The next traceback is about the same error.
    goes_on: bool,
}

impl Traceback {
    /// Reads a line. The series of the code that runs and of the module that it found, if they differ: a compiled module of
    /// one series cannot be loaded by another.
    pub fn read(&mut self, line: &str) -> Option<(String, String)> {
        if line.starts_with("Traceback (most recent call last)") {
            if !std::mem::take(&mut self.goes_on) {
                self.first = None;
            }
        } else if line.starts_with("During handling of the above exception")
            || line.starts_with("The above exception was the direct cause")
        {
            self.goes_on = true;
        }
        let series = series_in(line.strip_prefix("File \"")?)?;
        match &self.first {
            Some(first) => (*first != series).then(|| (first.clone(), series)),
            None => {
                self.first = Some(series);
                None
            }
        }
    }
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
        lines.iter().filter_map(|line| traceback.read(line)).next()
    }

    #[test]
    fn two_series_in_one_chain_of_tracebacks_are_told() {
        let begin = "Traceback (most recent call last):";
        let of_user =
            "File \"/home/u/.local/lib/python3.7/site-packages/numpy/__init__.py\", line 1, in <module>";
        let running =
            "File \"/opt/hub/lib/python3.6/site-packages/IPython/core/interactiveshell.py\", line 2, in run";
        let two = Some(("3.7".to_owned(), "3.6".to_owned()));
        assert_eq!(of(&[begin, of_user, running]), two);
        assert_eq!(
            of(&[
                begin,
                of_user,
                "During handling of the above exception, another exception occurred:",
                begin,
                running
            ]),
            two
        );
        // Two runs.
        assert_eq!(of(&[begin, of_user, begin, running]), None);
        assert_eq!(of(&[begin, of_user, of_user]), None);
        assert_eq!(of(&["File \"/usr/lib/python3/dist-packages/x.py\", line 1", of_user]), None);
    }
}
