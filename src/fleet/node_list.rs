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

/// The names of a list in that notation: `n[1-3,07],login1`. `None` where it is no such list, or of too many names.
pub fn expanded(list: &str) -> Option<Vec<String>> {
    /// Maximum number of names.
    const MOST: usize = 100_000;
    let mut out = Vec::new();
    for item in items(list)? {
        // Each bracket multiplies the names: `rack[1-2]n[1-4]`.
        let mut names = vec![String::new()];
        let mut rest = item;
        while let Some((stem, tail)) = rest.split_once('[') {
            let (ranges, after) = tail.split_once(']')?;
            let numbers = numbers(ranges, MOST)?;
            if names.len().saturating_mul(numbers.len()) > MOST {
                return None;
            }
            let longer = |name: &String| {
                let name = name.clone();
                numbers.iter().map(move |number| format!("{name}{stem}{number}")).collect::<Vec<_>>()
            };
            names = names.iter().flat_map(longer).collect();
            rest = after;
        }
        names.iter_mut().for_each(|name| name.push_str(rest));
        out.extend(names);
        if out.len() > MOST {
            return None;
        }
    }
    Some(out)
}

/// The numbers of ranges as they are written: `1-3,07`. `None` where they are none, or more than `most`.
fn numbers(ranges: &str, most: usize) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let width = if from.starts_with('0') { from.len() } else { 1 };
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        if to < from || to - from >= most as u64 {
            return None;
        }
        out.extend((from..=to).map(|number| format!("{number:0width$}")));
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

/// The items of a list, which commas outside of brackets separate.
fn items(list: &str) -> Option<Vec<&str>> {
    let (mut out, mut start, mut is_open) = (Vec::new(), 0, false);
    for (place, c) in list.char_indices() {
        match c {
            '[' if is_open => return None,
            '[' => is_open = true,
            ']' => is_open = false,
            ',' if !is_open => {
                out.push(list[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    out.push(list[start..].trim());
    (!is_open && out.iter().all(|item| !item.is_empty())).then_some(out)
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

    #[test]
    fn what_is_folded_is_expanded() {
        for names in [
            vec!["n1", "n2", "n3", "n7", "login1", "head"],
            vec!["n08", "n09", "n10", "n100"],
            vec!["rack0-node1-gpu"],
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let mut found = expanded(&node_list(&names)).unwrap();
            let mut expected = names.clone();
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
        assert_eq!(expanded("v1, v2").unwrap(), ["v1", "v2"]);
        assert_eq!(expanded("r[1-2]n[08-09]-ib").unwrap(), ["r1n08-ib", "r1n09-ib", "r2n08-ib", "r2n09-ib"]);
        for list in ["", "a,,b", "n[1-", "n[3-1]", "n[1-999999999]", "n[x]", "n[[1]]"] {
            assert_eq!(expanded(list), None, "{list}");
        }
    }
}
