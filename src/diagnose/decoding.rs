//! The encoding and the container of a text: UTF-16 as PowerShell writes it, notebooks.

use std::io::{BufRead, Read};

use serde::Deserialize;

/// Size limit of a notebook, in bytes. A larger one is read line by line.
const MAX_NOTEBOOK: u64 = 16 << 20;

/// A reader whose bytes are UTF-8, or unknown bytes with ASCII in them.
///
/// # Errors
/// If the start of the input cannot be read.
pub fn decoded(mut input: impl BufRead + 'static) -> std::io::Result<Box<dyn BufRead>> {
    let start = input.fill_buf()?;
    let big = match start {
        [0xff, 0xfe, ..] => Some(false),
        [0xfe, 0xff, ..] => Some(true),
        [a, 0, b, 0, ..] if *a != 0 && *b != 0 => Some(false),
        [0, a, 0, b, ..] if *a != 0 && *b != 0 => Some(true),
        _ => None,
    };
    if let Some(big) = big {
        return Ok(Box::new(std::io::BufReader::new(Utf16 { input, big, left: Vec::new() })));
    }
    if start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        let mut text = Vec::new();
        input.by_ref().take(MAX_NOTEBOOK).read_to_end(&mut text)?;
        let text = notebook(&text).unwrap_or(text);
        return Ok(Box::new(std::io::Cursor::new(text).chain(input)));
    }
    Ok(Box::new(input))
}

/// The part of a notebook that is read: what its cells printed.
#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    text: Option<Lines>,
    data: Option<Data>,
    traceback: Option<Lines>,
    evalue: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "text/plain")]
    plain: Option<Lines>,
}

/// A text, or its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    One(String),
    Many(Vec<String>),
}

/// What the cells of a notebook printed; `None` if the text is none.
fn notebook(text: &[u8]) -> Option<Vec<u8>> {
    let book: Notebook = serde_json::from_slice(text).ok()?;
    let mut out = String::new();
    for output in book.cells.into_iter().flat_map(|cell| cell.outputs) {
        let parts = [
            output.text,
            output.data.and_then(|data| data.plain),
            output.traceback,
            output.evalue.map(Lines::One),
        ];
        for part in parts.into_iter().flatten() {
            let lines = match part {
                Lines::One(text) => vec![text],
                Lines::Many(lines) => lines,
            };
            for line in lines {
                out.push_str(&line);
                if !line.ends_with('\n') {
                    out.push('\n');
                }
            }
        }
    }
    Some(out.into_bytes())
}

/// Reads UTF-16 as UTF-8. Invalid units become replacement characters.
struct Utf16<R> {
    input: R,
    /// Whether the high byte comes first.
    big: bool,
    /// Bytes of UTF-8 that are not handed out yet, in reverse order.
    left: Vec<u8>,
}

impl<R: Read> Utf16<R> {
    fn unit(&mut self) -> std::io::Result<Option<u16>> {
        let mut pair = [0; 2];
        match self.input.read_exact(&mut pair) {
            Ok(()) if self.big => Ok(Some(u16::from_be_bytes(pair))),
            Ok(()) => Ok(Some(u16::from_le_bytes(pair))),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn character(&mut self) -> std::io::Result<Option<char>> {
        let Some(first) = self.unit()? else { return Ok(None) };
        let units = match first {
            0xd800..=0xdbff => vec![first, self.unit()?.unwrap_or(0)],
            _ => vec![first],
        };
        Ok(Some(char::decode_utf16(units).next().and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if let Some(byte) = self.left.pop() {
                buffer[filled] = byte;
                filled += 1;
                continue;
            }
            match self.character()? {
                None => break,
                Some('\u{feff}') => {}
                Some(c) => self.left.extend(c.encode_utf8(&mut [0; 4]).bytes().rev()),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: Vec<u8>) -> String {
        let mut out = Vec::new();
        decoded(std::io::Cursor::new(bytes)).unwrap().read_to_end(&mut out).unwrap();
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn encodings() {
        let text = "Torch é 😀\nline\n";
        let le = |bom: bool| -> Vec<u8> {
            let start: &[u16] = if bom { &[0xfeff] } else { &[] };
            start.iter().copied().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
        };
        let be: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        for bytes in [text.as_bytes().to_vec(), le(true), le(false), be] {
            assert_eq!(read(bytes), text);
        }
        assert_eq!(read(Vec::new()), "");
        assert_eq!(read(vec![0xff, 0xfe, 0x41]), "");
        assert_eq!(read(vec![0xff, 0xfe, 0x00, 0xd8]), "\u{fffd}");
    }

    #[test]
    fn notebooks() {
        let book = r#"{"cells": [{"outputs": [{"text": ["a\n", "b\n"]}, {"evalue": "no kernel", "traceback": ["t"]}]}, {}]}"#;
        assert_eq!(read(book.into()), "a\nb\nt\nno kernel\n");
        assert_eq!(read(b"{\"log\": \"x\"}\n".to_vec()), "{\"log\": \"x\"}\n");
        assert_eq!(read(b" {broken".to_vec()), " {broken");
    }
}
