//! Decodes versions that CUDA's libraries and messages give as integers: `12080` is CUDA 12.8, `91002` cuDNN 9.10.2.

use crate::model::version::cudnn_of_integer;

/// A CUDA version: `1000 * major + 10 * minor` (`cudaDriverGetVersion`, `cudaRuntimeGetVersion`).
pub(super) fn cuda(number: u32) -> Option<String> {
    let (major, minor) = (number / 1000, number % 1000 / 10);
    ((5..100).contains(&major) && number.is_multiple_of(10) && minor < 10).then(|| format!("{major}.{minor}"))
}

/// An NCCL version: `1000 * major + 100 * minor + patch` up to 2.8, `10000 * major + 100 * minor + patch` from 2.9 on.
pub(super) fn nccl(number: u32) -> Option<String> {
    let (major, rest) = match number {
        2_000..2_900 => (2, number - 2_000),
        20_900..100_000 => (number / 10_000, number % 10_000),
        _ => return None,
    };
    Some(format!("{major}.{}.{}", rest / 100, rest % 100))
}

/// Decodes the integers in a line, by the library named before them: `11040 is CUDA 11.4`.
pub(super) fn explained(line: &str) -> Vec<String> {
    let lower = line.to_lowercase();
    let mut out = Vec::new();
    let mut start = 0;
    while let Some((at, digits)) = next_integer(&lower, start) {
        start = at + digits.len();
        let Ok(number) = digits.parse::<u32>() else { continue };
        let before = &lower[..at];
        let place = |word: &str| before.rfind(word);
        // The nearest word before the number names the library.
        let readings = [
            (place("cudnn"), "cuDNN", cudnn_of_integer(number)),
            (place("nccl"), "NCCL", nccl(number)),
            (place("cuda").max(place("driver")).max(place("found version")), "CUDA", cuda(number)),
        ];
        let nearest =
            readings.into_iter().filter(|(place, ..)| place.is_some()).max_by_key(|(place, ..)| *place);
        if let Some((_, library, Some(version))) = nearest {
            let text = format!("{digits} is {library} {version}");
            if !out.contains(&text) {
                out.push(text);
            }
        }
    }
    out
}

/// The next separate integer of four to six digits at or after `start`, with its position.
fn next_integer(text: &str, mut start: usize) -> Option<(usize, &str)> {
    let bytes = text.as_bytes();
    loop {
        let at = start + bytes.get(start..)?.iter().position(u8::is_ascii_digit)?;
        let length = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let end = at + length;
        let joined = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b"._-/".contains(b));
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        // A full stop ends a sentence unless a digit follows.
        let after = match bytes.get(end) {
            Some(b'.') => bytes.get(end + 1).filter(|b| b.is_ascii_digit()),
            other => other,
        };
        if (4..=6).contains(&length)
            && !joined(before)
            && !matches!(before, Some(b':' | b'<'))
            && !joined(after)
        {
            return Some((at, &text[at..end]));
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_versions() {
        for (number, expected) in
            [(11040, Some("11.4")), (12080, Some("12.8")), (9000, Some("9.0")), (11041, None), (124, None)]
        {
            assert_eq!(cuda(number).as_deref(), expected, "CUDA {number}");
        }
        for (number, expected) in [
            (7102, Some("7.1.2")),
            (8907, Some("8.9.7")),
            (90100, Some("9.1.0")),
            (91002, Some("9.10.2")),
            (92800, Some("9.28.0")),
            (9000, None),
        ] {
            assert_eq!(cudnn_of_integer(number).as_deref(), expected, "cuDNN {number}");
        }
        for (number, expected) in [(2708, Some("2.7.8")), (22005, Some("2.20.5")), (1000, None)] {
            assert_eq!(nccl(number).as_deref(), expected, "NCCL {number}");
        }
    }

    #[test]
    fn a_line_says_whose_integer_it_is() {
        for (line, expected) in [
            ("The NVIDIA driver on your system is too old (found version 11040).", "11040 is CUDA 11.4"),
            (
                "PyTorch was compiled against cuDNN 8907 but linked against 91002",
                "8907 is cuDNN 8.9.7; 91002 is cuDNN 9.10.2",
            ),
            ("NCCL version 22005 with CUDA 12080", "22005 is NCCL 2.20.5; 12080 is CUDA 12.8"),
            ("cuda took 11040ms, id 0x12080, port :8080, file cuda-12080.log", ""),
            ("nothing of the kind, 12080", ""),
            ("NCCL WARN Connect to 10.0.0.4<45763> failed : No route to host", ""),
            ("torch.backends.cudnn.version() 90100.", "90100 is cuDNN 9.1.0"),
        ] {
            assert_eq!(explained(line).join("; "), expected, "{line}");
        }
    }
}
