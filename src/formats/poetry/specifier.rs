//! Poetry's version specifiers.

/// Converts poetry's specifiers to PEP 440: `^1.2` is `>=1.2,<2`, `~1.2` is `>=1.2,<1.3`, a bare version is exact.
pub fn specifier(text: &str) -> String {
    let parts: Vec<String> = text.split(',').map(|part| one(part.trim())).filter(|p| !p.is_empty()).collect();
    parts.join(",")
}

fn one(part: &str) -> String {
    let numbers = |version: &str| -> Vec<u64> { version.split('.').map_while(|n| n.parse().ok()).collect() };
    // The exclusive upper bound: the component at `place`, plus one.
    let below = |list: &[u64], place: usize| {
        let mut upper: Vec<u64> = list[..=place].to_vec();
        upper[place] += 1;
        upper.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
    };
    if let Some(version) = part.strip_prefix('^') {
        let list = numbers(version.trim());
        let place = list.iter().position(|n| *n != 0).unwrap_or(list.len().saturating_sub(1));
        return match list.is_empty() {
            true => String::new(),
            false => format!(">={},<{}", version.trim(), below(&list, place)),
        };
    }
    if let Some(version) = part.strip_prefix('~').filter(|rest| !rest.starts_with('=')) {
        let list = numbers(version.trim());
        return match list.is_empty() {
            true => String::new(),
            false => format!(">={},<{}", version.trim(), below(&list, 1.min(list.len() - 1))),
        };
    }
    match part {
        "" | "*" => String::new(),
        bare if bare.starts_with(|c: char| c.is_ascii_digit()) => format!("=={bare}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poetry_specifiers() {
        for (theirs, ours) in [
            ("^1.2.3", ">=1.2.3,<2"),
            ("^0.2.3", ">=0.2.3,<0.3"),
            ("^0.0.3", ">=0.0.3,<0.0.4"),
            ("^0", ">=0,<1"),
            ("~1.2.3", ">=1.2.3,<1.3"),
            ("~1", ">=1,<2"),
            ("~=1.2", "~=1.2"),
            ("1.2", "==1.2"),
            ("1.*", "==1.*"),
            ("*", ""),
            (">=1, <3", ">=1,<3"),
            ("^", ""),
        ] {
            assert_eq!(specifier(theirs), ours, "{theirs}");
        }
    }
}
