//! Names of machines as Slurm writes them: `n[1-64],login1`.

use std::collections::{BTreeMap, HashSet};

/// A name's parts by which names are sorted as people count: `n2` before `n10`.
pub fn natural(name: &str) -> (String, u64, String) {
    let (stem, digits) = split(name);
    (stem.to_owned(), digits.parse().unwrap_or(0), name.to_owned())
}

/// A name without the number at its end, and that number as written. A number that does not fit stays with the name.
fn split(name: &str) -> (&str, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    if digits.len() > 18 { (name, "") } else { (stem, digits) }
}

/// A list of names, folded: names that differ only in the number at their end become a range. Numbers with leading zeros
/// keep their width.
pub fn node_list(names: &[String]) -> String {
    // `n09` and `n10` are of one width.
    let padded: HashSet<(&str, usize)> = names
        .iter()
        .map(|name| split(name))
        .filter(|(_, digits)| digits.len() > 1 && digits.starts_with('0'))
        .map(|(stem, digits)| (stem, digits.len()))
        .collect();
    // Names of one form: the stem, and the width of the number if it has leading zeros.
    let mut forms: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    for name in names {
        let (stem, digits) = split(name);
        let width = match (digits.is_empty(), padded.contains(&(stem, digits.len()))) {
            (true, _) => 0,
            (false, true) => digits.len(),
            (false, false) => 1,
        };
        forms.entry((stem, width)).or_default().push(digits.parse().unwrap_or(0));
    }
    let mut out: Vec<String> = Vec::new();
    for ((stem, width), mut numbers) in forms {
        if width == 0 {
            out.push(stem.to_owned());
            continue;
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let shown = |number: u64| format!("{number:0width$}");
        let parts: Vec<String> = ranges
            .iter()
            .map(|(first, last)| match first == last {
                true => shown(*first),
                false => format!("{}-{}", shown(*first), shown(*last)),
            })
            .collect();
        out.push(match parts.as_slice() {
            [one] if !one.contains('-') => format!("{stem}{one}"),
            several => format!("{stem}[{}]", several.join(",")),
        });
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded() {
        for (names, expected) in [
            (vec![], ""),
            (vec!["n1"], "n1"),
            (vec!["n1", "n2", "n3", "n5"], "n[1-3,5]"),
            (vec!["n08", "n09", "n10", "n11"], "n[08-11]"),
            (vec!["n1", "n01"], "n1,n01"),
            (vec!["login", "a-1-2", "a-1-3"], "a-1-[2-3],login"),
            (vec!["n1", "n1"], "n1"),
            (vec!["x99999999999999999999"], "x99999999999999999999"),
            (vec!["7", "8"], "[7-8]"),
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(node_list(&names), expected);
        }
    }

    #[test]
    fn as_people_count() {
        let mut names = ["n10", "n2", "m3", "n1", "login"].map(str::to_owned);
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["login", "m3", "n1", "n2", "n10"]);
    }
}
