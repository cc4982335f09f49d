//! conda's match specs as files write them, and their versions as specifiers of PyPI.

/// A match specification: `channel::name version build`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spec<'t> {
    /// The channel as written: a name, or an address.
    pub channel: Option<&'t str>,
    pub package: &'t str,
    /// The version's expression, without the `=` or `==` before it.
    version: &'t str,
    /// What stands before the version.
    operator: Operator,
    /// The build, which may be a pattern.
    pub build: Option<&'t str>,
}

/// What stands between name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// `==1.2`, or `1.2` after a space.
    Exact,
    /// `=1.2`: 1.2 and what begins with it.
    Prefix,
}

impl<'t> Spec<'t> {
    /// Reads a match spec. What is none has a name that no package has.
    pub fn of(spec: &'t str) -> Spec<'t> {
        let (channel, rest) = match spec.rsplit_once("::") {
            Some((channel, rest)) => (Some(channel.trim()), rest),
            None => (None, spec),
        };
        let (rest, keys) = rest.trim().split_once('[').unwrap_or((rest, ""));
        let rest = rest.trim();
        let end = rest.find([' ', '=', '<', '>', '!', '~']).unwrap_or(rest.len());
        let (package, after) = (rest[..end].trim(), rest[end..].trim());
        let (operator, after) = match (after.strip_prefix("=="), after.strip_prefix('=')) {
            (Some(after), _) => (Operator::Exact, after),
            (None, Some(after)) => (Operator::Prefix, after),
            (None, None) => (Operator::Exact, after),
        };
        let (version, build) = parted(after.trim());
        Spec {
            channel,
            package,
            version: value_of(keys, "version").unwrap_or(version).trim(),
            operator,
            build: value_of(keys, "build").or(build).map(str::trim).filter(|build| !build.is_empty()),
        }
    }

    /// The version as a specifier of PEP 440, empty for any; `None` for what PEP 440 does not have: alternatives (`|`), patterns.
    pub fn specifier(&self) -> Option<String> {
        if self.version.contains('|') {
            return None;
        }
        let bounds: Vec<&str> =
            self.version.split(',').map(str::trim).filter(|bound| !bound.is_empty()).collect();
        let is_alone = bounds.len() == 1;
        // `=1.2=build` is 1.2 alone.
        let is_prefix = is_alone && self.operator == Operator::Prefix && self.build.is_none();
        let of = |bound: &&str| bound_of(bound, is_prefix).map(|bound| bound.unwrap_or_default());
        let all: Option<Vec<String>> = bounds.iter().map(of).collect();
        Some(all?.into_iter().filter(|bound| !bound.is_empty()).collect::<Vec<_>>().join(","))
    }

    /// The version as written.
    pub fn written(&self) -> &'t str {
        self.version
    }
}

/// The version and the build of what follows a name: `1.2=b`, `1.2 b`, `>=1, <2 b`.
fn parted(after: &str) -> (&str, Option<&str>) {
    let begins_with_operator = |text: &str| text.starts_with(['<', '>', '!', '~', '=']);
    if !begins_with_operator(after)
        && let Some((version, build)) = after.split_once('=')
        && !version.contains([' ', ',', '<', '>', '!', '~', '|'])
    {
        return (version, Some(build));
    }
    // A space ends the version, but not after an operator or beside a comma or `|`.
    let ends = |at: usize| {
        let (before, behind) = (after[..at].trim_end(), after[at..].trim_start());
        !before.is_empty()
            && !before.ends_with(['<', '>', '!', '~', '=', ',', '|'])
            && !behind.starts_with([',', '|'])
            && !begins_with_operator(behind)
    };
    let end = after.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| at).find(|at| ends(*at));
    end.map_or((after, None), |at| (&after[..at], Some(after[at..].trim_start())))
}

/// A key in brackets: `>=1.26,<2` of `version='>=1.26,<2', build=py*`. Quoted, since a version has commas.
fn value_of<'t>(keys: &'t str, key: &str) -> Option<&'t str> {
    let mut from = 0;
    let stated = loop {
        let at = from + keys[from..].find(key)?;
        let is_word = keys[..at].chars().next_back().is_none_or(|c| c == ',' || c.is_whitespace());
        if let Some(value) = keys[at + key.len()..].trim_start().strip_prefix('=').filter(|_| is_word) {
            break value.trim_start();
        }
        from = at + key.len();
    };
    let quote = stated.chars().next().filter(|c| ['\'', '"'].contains(c));
    Some(match quote {
        Some(quote) => stated[1..].split(quote).next().unwrap_or(""),
        None => stated.split([',', ']']).next().unwrap_or(stated),
    })
}

/// One bound as a specifier: `Some(None)` for any version, `None` for a pattern.
fn bound_of(bound: &str, is_prefix: bool) -> Option<Option<String>> {
    let end = bound.find(|c: char| !"<>=!~".contains(c)).unwrap_or(bound.len());
    let (operator, version) = (&bound[..end], bound[end..].trim());
    let plain = version.trim_end_matches('*').trim_end_matches('.');
    if plain.is_empty() && matches!(operator, "" | "=" | "==") && version.contains('*') {
        return Some(None);
    }
    let has_star = version != plain;
    // PEP 440 has no prefix of a post-release.
    let can_be_prefix = !plain.contains(|c: char| c.is_alphabetic());
    if plain.contains('*') || plain.is_empty() || has_star && !can_be_prefix {
        return None;
    }
    Some(Some(match operator {
        "" | "=" | "==" if has_star || (is_prefix || operator == "=") && can_be_prefix => {
            format!("=={plain}.*")
        }
        "" | "=" | "==" => format!("=={plain}"),
        "!=" if has_star => format!("!={plain}.*"),
        // `>=1.2.*` is `>=1.2`.
        operator => format!("{operator}{plain}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As py-rattler 0.27 reads them.
    #[test]
    fn match_specifications() {
        for (theirs, package, ours, build) in [
            ("numpy", "numpy", Some(""), None),
            ("numpy=1.26", "numpy", Some("==1.26.*"), None),
            ("numpy=1.26.*", "numpy", Some("==1.26.*"), None),
            ("numpy=1.26.4=py311_0", "numpy", Some("==1.26.4"), Some("py311_0")),
            ("scipy=1.11.*=py311*", "scipy", Some("==1.11.*"), Some("py311*")),
            ("pytorch=2.5.*=*cuda*", "pytorch", Some("==2.5.*"), Some("*cuda*")),
            ("h5py=3.*=mpi*", "h5py", Some("==3.*"), Some("mpi*")),
            ("pytorch=*=cuda*", "pytorch", Some(""), Some("cuda*")),
            ("numpy=*", "numpy", Some(""), None),
            ("numpy==1.26.*", "numpy", Some("==1.26.*"), None),
            ("pytz=2023.3.post1=pyhd8ed1ab_0", "pytz", Some("==2023.3.post1"), Some("pyhd8ed1ab_0")),
            ("pytz=2023.3.post1", "pytz", Some("==2023.3.post1"), None),
            ("numpy==1.26.4", "numpy", Some("==1.26.4"), None),
            ("numpy==1.26.4=py311_0", "numpy", Some("==1.26.4"), Some("py311_0")),
            ("conda-forge::numpy >=1.26,<2", "numpy", Some(">=1.26,<2"), None),
            ("numpy >=1.26, <2 py311*", "numpy", Some(">=1.26,<2"), Some("py311*")),
            ("numpy >= 1.26", "numpy", Some(">=1.26"), None),
            ("numpy>=1.26.*", "numpy", Some(">=1.26"), None),
            ("numpy >=1.20,!=1.21.*", "numpy", Some(">=1.20,!=1.21.*"), None),
            ("numpy ~=1.26", "numpy", Some("~=1.26"), None),
            ("numpy 1.26.*", "numpy", Some("==1.26.*"), None),
            ("numpy 1.26 py311_0", "numpy", Some("==1.26"), Some("py311_0")),
            ("numpy >=1.20 py311*", "numpy", Some(">=1.20"), Some("py311*")),
            ("numpy * py311*", "numpy", Some(""), Some("py311*")),
            ("numpy>=1.26|<1", "numpy", None, None),
            ("numpy 1.*.3", "numpy", None, None),
            ("pytorch[version='>=2,<3', build=cuda*]", "pytorch", Some(">=2,<3"), Some("cuda*")),
            ("numpy [version=\"1.26.*\"]", "numpy", Some("==1.26.*"), None),
            ("numpy[version=1.26,build=py311_0]", "numpy", Some("==1.26"), Some("py311_0")),
            ("numpy[version='", "numpy", Some(""), None),
            ("numpy[build_number=1]", "numpy", Some(""), None),
            ("numpy[build=py311_0]", "numpy", Some(""), Some("py311_0")),
        ] {
            let spec = Spec::of(theirs);
            let found = (spec.package, spec.specifier(), spec.build);
            assert_eq!(found, (package, ours.map(str::to_owned), build), "{theirs}");
        }
    }

    #[test]
    fn any_text_is_read() {
        for text in
            ["", "::", "[", "=", "==", "a=", "a==", "a=*=", "a [version=]", "\u{e9}=\u{e9}=\u{e9}", "a,,|"]
        {
            let _ = Spec::of(text).specifier();
        }
    }
}
