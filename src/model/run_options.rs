//! The limits of a request that an option of one run can set: which they are, and what a later run does with them.

use super::request::{Limit, Origin, PythonAllowed, Request};

/// A limit that an option can set.
pub struct RunOption {
    /// The option: `--only-index`.
    pub flag: &'static str,
    /// Its key in the request of a lock: `only-index`.
    pub key: &'static str,
    /// Where the limit comes from, if it is set.
    origin: fn(&Request) -> Option<&Origin>,
    /// Takes the limit of another request.
    take: fn(&mut Request, &Request),
    /// Its value as it follows the option; empty for an option without one.
    value: fn(&Request) -> Option<String>,
    /// Whether a request leaves it as an earlier one has it.
    leaves: fn(&Request, &Request) -> bool,
}

/// A row of the table: option, key, field, and the value as a text.
macro_rules! option {
    ($flag:literal, $key:literal, $($field:ident).+, $shown:expr) => {
        RunOption {
            flag: $flag,
            key: $key,
            origin: |request| request.$($field).+.as_ref().map(|limit| &limit.origin),
            take: |own, other| own.$($field).+.clone_from(&other.$($field).+),
            value: |request| request.$($field).+.as_ref().map($shown),
            leaves: |own, _| own.$($field).+.is_none(),
        }
    };
}

/// Every such limit, in the order in which they are told.
pub static RUN_OPTIONS: [RunOption; 7] = [
    RunOption {
        leaves: admits_python_of,
        ..option!("--python", "python", python, |python| python.text.clone())
    },
    option!("--only-index", "only-index", only_index, |limit| limit.value.to_string()),
    option!("--variant", "variant", variant, |limit| limit.value.clone()),
    option!("--cuda", "cuda", cuda, |limit| limit.value.to_string()),
    option!("--no-sources", "sources", no_sources, |_: &Limit<()>| String::new()),
    option!("--strict-metadata", "metadata", strict_metadata, |_: &Limit<()>| String::new()),
    option!("--exclude-newer", "exclude-newer", exclude_newer.general, |limit| limit.value.text.clone()),
];

impl RunOption {
    /// Whether a request has the limit by the option, and not by a manifest.
    fn is_set(&self, request: &Request) -> bool {
        (self.origin)(request).is_some_and(Origin::is_option)
    }

    /// The option as it is given: `--only-index pypi`.
    fn shown(&self, request: &Request) -> String {
        let value = (self.value)(request).unwrap_or_default();
        format!("{} {value}", self.flag).trim_end().to_owned()
    }
}

/// Whether an earlier request has one Python, which this one allows and does not name by an option of its own: a Python that was
/// chosen stays where the manifest only bounds it.
fn admits_python_of(request: &Request, earlier: &Request) -> bool {
    earlier.python.as_ref().is_some_and(|python| {
        let PythonAllowed::Exact(exact) = python.allowed else { return false };
        request.python.as_ref().is_none_or(|own| !own.origin.is_option() && own.allows(exact))
    })
}

impl Request {
    /// Overrides this request with the command-line options of another one.
    #[must_use]
    pub fn with_options_of(mut self, other: &Request) -> Request {
        for option in RUN_OPTIONS.iter().filter(|option| option.is_set(other)) {
            (option.take)(&mut self, other);
        }
        self
    }

    /// This request with those command-line options of an earlier one that it says nothing about, and these options as they are
    /// given: `--only-index pypi`.
    pub fn keeping_options_of(mut self, earlier: &Request) -> (Request, Vec<String>) {
        let mut kept = Vec::new();
        for option in RUN_OPTIONS.iter().filter(|option| option.is_set(earlier)) {
            if (option.leaves)(&self, earlier) {
                (option.take)(&mut self, earlier);
                kept.push(option.shown(earlier));
            }
        }
        (self, kept)
    }

    /// The request without command-line options, which apply only to one run.
    #[must_use]
    pub fn without_options(mut self) -> Request {
        let none = Request::default();
        for option in &RUN_OPTIONS {
            if option.is_set(&self) {
                (option.take)(&mut self, &none);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::PythonRequest;

    #[test]
    fn options_come_and_go() {
        let python = |text, origin| Some(PythonRequest::parse(text, origin).unwrap());
        let variant = |origin| Some(Limit { value: "cu128".to_owned(), origin });
        let manifest = || Origin::from("envlock.toml");
        let run = Request {
            python: python("3.12", Origin::Option("--python")),
            variant: variant(Origin::Option("--variant")),
            no_sources: Some(Limit { value: (), origin: Origin::Option("--no-sources") }),
            ..Request::default()
        };
        assert_eq!(run.clone().without_options(), Request::default());
        assert_eq!(Request::default().with_options_of(&run), run);
        let stated = Request {
            python: python(">=3.11", manifest()),
            variant: variant(manifest()),
            ..Request::default()
        };
        assert_eq!(stated.clone().without_options(), stated);
        // What the manifest states stays, and a Python within its bounds is kept.
        let (kept, told) = stated.clone().keeping_options_of(&run);
        assert_eq!(told, ["--python 3.12", "--no-sources"]);
        assert_eq!((kept.python, kept.variant), (run.python.clone(), stated.variant));
        let (_, told) =
            Request { python: python("3.13", manifest()), ..Request::default() }.keeping_options_of(&run);
        assert_eq!(told, ["--variant cu128", "--no-sources"]);
    }
}
