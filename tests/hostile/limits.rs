//! SECURITY.md states limits; each figure there is that of a constant.

use std::path::Path;

/// The first cell of a row of SECURITY.md, and each figure of the second with the file and the name of its constant.
const ROWS: [(&str, &[(&str, &str, &str)]); 17] = [
    (
        "A project page",
        &[
            ("64 MiB", "index/simple.rs", "MAX_PAGE"),
            ("100,000 files", "index/simple.rs", "MAX_FILES"),
            ("48 MiB of names", "index/simple.rs", "MAX_TEXTS"),
        ],
    ),
    ("A wheel that is downloaded", &[("4 GiB", "index/remote_wheel.rs", "MAX_WHEEL")]),
    ("A source distribution", &[("1 GiB", "index/sdists.rs", "MAX_SOURCE")]),
    (
        "A run",
        &[
            ("5,000 pages", "index/reads.rs", "MAX_PAGES"),
            ("512 MiB of pages", "index/reads.rs", "MAX_PAGE_BYTES"),
            ("100,000 METADATA", "index/reads.rs", "MAX_METADATA_FILES"),
        ],
    ),
    (
        "METADATA",
        &[
            ("16 MiB", "index/remote_wheel.rs", "MAX_METADATA"),
            ("20,000 requirements", "model/metadata.rs", "MAX_REQUIRES"),
        ],
    ),
    (
        "A file that `init --from` and `-r` read",
        &[
            ("64 MiB", "session/files.rs", "MAX_INPUT"),
            ("50,000 requirements", "formats/imported/mod.rs", "MAX_REQUIREMENTS"),
        ],
    ),
    (
        "A requirement or marker",
        &[
            ("16 KiB", "model/requirement.rs", "MAX_LENGTH"),
            ("nesting of 64", "model/requirement.rs", "MAX_DEPTH"),
            ("48 comparisons", "model/requirement.rs", "MAX_COMPARISONS"),
            ("35,000 as the sum", "model/requirement.rs", "MAX_SQUARES"),
        ],
    ),
    (
        "An environment",
        &[
            ("10,000 packages", "inspect/dist_info.rs", "MAX_DISTRIBUTIONS"),
            ("200,000 requirements", "inspect/dist_info.rs", "MAX_REQUIREMENTS"),
        ],
    ),
    (
        "A lock of another tool",
        &[
            ("64 MiB", "session/files.rs", "MAX_INPUT"),
            ("50,000 packages", "formats/error.rs", "MAX_PACKAGES"),
            ("24 MiB", "formats/error.rs", "MAX_TOML"),
            ("400,000 requirements", "formats/error.rs", "MAX_PARTS"),
            ("3,000,000 values", "model/text.rs", "MAX_VALUES"),
            ("500,000 packages", "formats/pylock/lock.rs", "MAX_TIMES"),
        ],
    ),
    (
        "An image",
        &[
            ("1,000 layers", "image/documents.rs", "MAX_LAYERS"),
            ("10,000 images", "image/documents.rs", "MAX_DESCRIPTORS"),
            ("255 bytes", "image/merged.rs", "MAX_NAME"),
            ("256 MiB", "image/merged.rs", "MAX_TEXT"),
            ("40,000,000 steps", "image/merged.rs", "MAX_STEPS"),
            ("400 times", "image/layer.rs", "MAX_RATIO"),
            ("4 GiB", "image/layer.rs", "GRACE"),
        ],
    ),
    ("Nodes of a cluster", &[("100,000", "slurm/mod.rs", "MAX_NODES")]),
    (
        "A `setup.py`",
        &[
            ("512 KiB", "sdist/slice/parse.rs", "MAX_TEXT"),
            ("50,000 calls", "sdist/slice/parse.rs", "MAX_CALLS"),
            ("100,000 steps", "sdist/evaluate/mod.rs", "MAX_STEPS"),
        ],
    ),
    (
        "Solves of conda channels",
        &[
            ("60 s", "session/fetch/with_conda/purpose.rs", "SOLVING"),
            ("30 s", "session/fetch/with_conda/purpose.rs", "EXPLAINING"),
        ],
    ),
    (
        "The data of `registry update`",
        &[
            ("32 MiB", "registry/signed/payload.rs", "MAX_PAYLOAD"),
            ("2,000 files", "registry/signed/payload.rs", "MAX_FILES"),
        ],
    ),
    (
        "A lock",
        &[
            ("64 MiB", "session/files.rs", "MAX_INPUT"),
            ("256 targets", "lockfile/parse.rs", "MAX_TARGETS"),
            ("5,000 packages", "lockfile/parse.rs", "MAX_PACKAGES"),
            ("100,000 requirements", "lockfile/parse.rs", "MAX_REQUIREMENTS"),
        ],
    ),
    ("Headers, and each read of a body", &[]),
    ("A body", &[("1 kB/s", "index/http.rs", "SLOWEST")]),
];

/// `64 MiB` and `5,000` as numbers.
fn figure(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let unit = text.split(' ').nth(1).unwrap_or_default();
    let times = match unit.trim_end_matches("/s") {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        _ => 1,
    };
    digits.parse::<u64>().unwrap() * times
}

/// The value of a constant: a number, a product, or a shift.
fn constant(file: &str, name: &str) -> u64 {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let text = std::fs::read_to_string(&source).unwrap_or_else(|e| panic!("{file}: {e}"));
    let line = text.lines().find(|line| line.contains(&format!("const {name}: ")));
    let line = line.unwrap_or_else(|| panic!("{file} has no {name}"));
    let value = line.split_once(" = ").unwrap().1.trim_end_matches(';').replace('_', "");
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{name}: {value}"));
    match (value.split_once("<<"), value.split_once('*')) {
        (Some((a, b)), _) => number(a) << number(b),
        (_, Some((a, b))) => number(a) * number(b),
        _ => number(&value),
    }
}

#[test]
fn security_md_states_the_limits_that_hold() {
    let text = include_str!("../../SECURITY.md");
    let table = text.split("## Limits").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| What"))
        .filter_map(|line| line.trim_matches(['|', ' ']).split_once(" | "))
        .collect();
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ROWS.map(|(name, _)| name), "a row without a constant, or the other way round");
    for ((name, stated), (_, figures)) in rows.iter().zip(ROWS) {
        for (shown, file, of) in figures {
            assert!(stated.contains(shown), "{name}: `{stated}` does not say `{shown}`");
            let number =
                shown.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap();
            let unit = shown.split(number).nth(1).unwrap_or_default().trim();
            assert_eq!(figure(&format!("{number} {unit}")), constant(file, of), "{name}: {of} in {file}");
        }
    }
}
