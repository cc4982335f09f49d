//! The text of a source with links: what is at a commit, a thread or an address is linked instead of spelled out.

use serde::Serialize;

/// A part of a source's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Piece {
    Text(String),
    /// A text and where it leads.
    Link(String, String),
}

/// Where repositories are that are named `OWNER/NAME`.
const REPOSITORIES: &str = "https://github.com";

/// The pieces of a text: `OWNER/NAME, PATH, REF at COMMIT` is a file, `OWNER/NAME#7` a thread, `OWNER/NAME@COMMIT` a tree,
/// `OWNER/NAME:PATH@COMMIT` a file, `docs.example.org/page` a page.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    if let Some(piece) = file_at_commit(text) {
        return vec![piece];
    }
    let mut out = Vec::new();
    let mut plain = String::new();
    for word in text.split_inclusive(' ') {
        let core = word.trim_matches(|c| " ,;:()\"".contains(c));
        let Some(address) = address(core) else {
            plain.push_str(word);
            continue;
        };
        let (before, after) = word.split_once(core).expect("a part of the word");
        plain.push_str(before);
        out.extend((!plain.is_empty()).then(|| Piece::Text(std::mem::take(&mut plain))));
        let shown = core.split_once('@').map_or(core, |(shown, _)| shown);
        out.push(Piece::Link(shown.to_owned(), address));
        plain.push_str(after);
    }
    out.extend((!plain.is_empty()).then_some(Piece::Text(plain)));
    out
}

/// `OWNER/NAME, PATH, REF at COMMIT` as one link.
fn file_at_commit(text: &str) -> Option<Piece> {
    let (place, commit) = text.rsplit_once(" at ")?;
    let mut parts = place.split(", ");
    let (repository, path, at) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && is_repository(repository) && is_commit(commit);
    let is_path = !path.is_empty() && path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    (is_whole && is_path).then(|| {
        let address = format!("{REPOSITORIES}/{repository}/blob/{commit}/{path}");
        Piece::Link(format!("{repository}, {path}, {at}"), address)
    })
}

/// Where a word leads; `None` if it is only a word.
fn address(word: &str) -> Option<String> {
    if let Some((place, commit)) = word.split_once('@').filter(|(_, commit)| is_commit(commit)) {
        return match place.split_once(':') {
            Some((repository, path)) => {
                is_repository(repository).then(|| format!("{REPOSITORIES}/{repository}/blob/{commit}/{path}"))
            }
            None => is_repository(place).then(|| format!("{REPOSITORIES}/{place}/tree/{commit}")),
        };
    }
    if let Some((repository, number)) = word.split_once('#') {
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        // The number of a request leads there too.
        return (is_number && is_repository(repository))
            .then(|| format!("{REPOSITORIES}/{repository}/issues/{number}"));
    }
    let (host, path) = word.split_once('/')?;
    let is_host = host.contains('.')
        && host.rsplit('.').next().is_some_and(|top| ["com", "org", "io", "ai"].contains(&top))
        && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    let is_path = !path.is_empty() && path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    (is_host && is_path).then(|| format!("https://{word}"))
}

/// `OWNER/NAME`.
fn is_repository(text: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name) && !owner.contains('.'))
}

/// An abbreviated commit id.
fn is_commit(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_source() {
        let shown = |text: &str| {
            let pieces = pieces(text).into_iter().map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::Link(text, address) => format!("[{text}]({address})"),
            });
            pieces.collect::<String>()
        };
        for (text, expected) in [
            (
                "pytorch/test-infra, tools/matrix.py, release/2.14 at c840391a1",
                "[pytorch/test-infra, tools/matrix.py, release/2.14](https://github.com/pytorch/test-infra/blob/c840391a1/tools/matrix.py)",
            ),
            (
                "pytorch/pytorch#190385, pytorch/test-infra#8739 (merged): torch 2.15",
                "[pytorch/pytorch#190385](https://github.com/pytorch/pytorch/issues/190385), [pytorch/test-infra#8739](https://github.com/pytorch/test-infra/issues/8739) (merged): torch 2.15",
            ),
            (
                "a page (copy in PyTorchKorea/pytorch.kr@9d7312fb)",
                "a page (copy in [PyTorchKorea/pytorch.kr](https://github.com/PyTorchKorea/pytorch.kr/tree/9d7312fb))",
            ),
            (
                "pytorch/pytorch:.ci/build.sh@00c7a380 (main)",
                "[pytorch/pytorch:.ci/build.sh](https://github.com/pytorch/pytorch/blob/00c7a380/.ci/build.sh) (main)",
            ),
            (
                "docs.nvidia.com/deploy/x.html",
                "[docs.nvidia.com/deploy/x.html](https://docs.nvidia.com/deploy/x.html)",
            ),
            // Words that only look so.
            ("torch/version.py inside the wheel", "torch/version.py inside the wheel"),
            ("#177027 and a@b, x/y#z, 1/2", "#177027 and a@b, x/y#z, 1/2"),
            ("javascript:alert(1)/x, a b, c at deadbee", "javascript:alert(1)/x, a b, c at deadbee"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
