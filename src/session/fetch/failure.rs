//! A failure of an index as the user sees it.

use crate::index::IndexError;
use crate::model::only::Only;
use crate::model::request::Request;
use crate::model::text::shell_word;
use crate::session::failure::Failure;

/// The hint of a command that could not read the pytorch index: the command that works without it.
fn without_pytorch(arguments: &[String], channels: &[String]) -> String {
    let solves = |word: &String| ["resolve", "add", "remove"].contains(&word.as_str());
    let command = match arguments.iter().any(solves) {
        true => {
            let (mut kept, mut words) = (Vec::new(), arguments.iter().map(String::as_str).peekable());
            while let Some(word) = words.next() {
                // PyPI's wheels of torch for Linux on x86-64 are built for CUDA, and run without a GPU.
                match (word, words.peek()) {
                    ("--variant=cpu", _) => {}
                    ("--variant", Some(&"cpu")) => drop(words.next()),
                    _ => kept.push(shell_word(word)),
                }
            }
            kept.join(" ")
        }
        // `why` and `outdated` ask about the lock.
        false => "resolve".to_owned(),
    };
    format!("without the pytorch index: `envlock {command} --only-index {}`", Only::pypi().with(channels))
}

/// A failure of the index as the user sees it. `request`: that of a command which could solve it with fewer indexes.
pub(crate) fn index_error(error: &IndexError, request: Option<&Request>) -> Failure {
    let pytorch = error.index().is_some_and(|i| i.starts_with("pytorch"));
    let hint = match error {
        IndexError::Offline { .. } => "run once without `--offline`".to_owned(),
        IndexError::Limit(_) => "name versions in the request, or lock fewer packages at once".to_owned(),
        IndexError::NoAddress(_) => "name the index in envlock.toml, or pass `--index-url`".to_owned(),
        _ if let Some(request) = request.filter(|request| pytorch && request.only_index.is_none()) => {
            without_pytorch(&std::env::args().skip(1).collect::<Vec<_>>(), &request.conda.channels)
        }
        _ if let Some(own) = error.index().filter(|index| *index != "pypi" && !pytorch) => match error {
            IndexError::Local { .. } => {
                format!("the `[[index]]` table of `{own}` in envlock.toml says where they are: `url`")
            }
            _ => format!("check the network and the `url` of the index `{own}` in envlock.toml"),
        },
        _ if pytorch => {
            "check the network and the URL of the pytorch index (`ENVLOCK_PYTORCH_INDEX_URL`)".to_owned()
        }
        _ => "check the network and the URL of the index (`--index-url`, `ENVLOCK_INDEX_URL`)".to_owned(),
    };
    match error {
        // A missing URL is a configuration error, which a retry does not fix.
        IndexError::NoAddress(_) => Failure::usage(error.to_string()),
        IndexError::Limit(_) | IndexError::Local { .. } => Failure::input(error.to_string()),
        _ => Failure::network(error.to_string()),
    }
    .hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_without_the_pytorch_index() {
        for (typed, told) in [
            ("resolve --gpu none", "resolve --gpu none --only-index pypi"),
            // PyPI has no CPU build of torch for Linux on x86-64.
            ("resolve --variant cpu --dry-run", "resolve --dry-run --only-index pypi"),
            ("resolve --variant=cpu torch", "resolve torch --only-index pypi"),
            ("resolve --variant cu126", "resolve --variant cu126 --only-index pypi"),
            ("resolve cpu", "resolve cpu --only-index pypi"),
            ("why --not torch", "resolve --only-index pypi"),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(without_pytorch(&words, &[]), format!("without the pytorch index: `envlock {told}`"));
        }
    }

    #[test]
    fn each_index_has_its_own_variable() {
        let hint = |index: &str| {
            let (what, why) = ("`torch`".to_owned(), "no route".to_owned());
            index_error(&IndexError::Request { what, index: index.to_owned(), why }, None).hint.unwrap()
        };
        assert!(hint("pypi").contains("`ENVLOCK_INDEX_URL`"));
        assert!(hint("pytorch/cu126").contains("`ENVLOCK_PYTORCH_INDEX_URL`"));
    }
}
