//! conda's `environment.yml` (CEP 24): Python from conda-forge, all locked packages through pip, by hash.

use std::fmt::Write as _;

use crate::formats::written::ENVIRONMENT_MARK;
use crate::formats::written::{
    ExportError, beside_conda, channels, extra_indexes, in_two_steps, index_option, open_indexes, pinned,
    without_hash,
};
use crate::formats::yaml;
use crate::lockfile::Target;
use crate::model::solution::Framework;
use crate::model::version::cuda_short;

/// The environment file of a target. `name` is the name of the environment; `loose` leaves out the builds of conda packages.
///
/// # Errors
/// See [`ExportError`].
pub fn conda_environment(
    target: &Target,
    name: &str,
    addresses: &[(String, String)],
    loose: bool,
) -> Result<String, ExportError> {
    let packages = beside_conda(target)?;
    let mut out = heading(target, name);
    let channels = channels(target);
    let _ = writeln!(out, "name: {}\nchannels:", yaml::value(&environment_name(name)));
    for channel in &channels {
        let _ = writeln!(out, "  - {}", yaml::value(channel));
    }
    out.push_str("dependencies:\n");
    match target.conda.is_empty() {
        true => {
            let python = match target.patches.is_all() {
                true => format!("={}", target.python),
                false => target.patches.of_series(target.python.minor),
            };
            let _ = writeln!(out, "  - python{python}");
        }
        false => {
            for package in &target.conda {
                // Of several channels the one with the build is named.
                let channel =
                    if channels.len() > 1 { format!("{}::", package.channel) } else { String::new() };
                let (name, version) = (&package.name, &package.version);
                // Other systems have other builds of the version.
                let build = if loose { String::new() } else { format!("={}", package.build) };
                let _ = writeln!(out, "  - {channel}{name}={version}{build}");
            }
        }
    }
    let mut libraries: Vec<&String> = target.frameworks.iter().flat_map(|x| &x.conda).collect();
    libraries.sort();
    libraries.dedup();
    for library in libraries {
        let _ = writeln!(out, "  - {library}");
    }
    if !target.conda.iter().any(|package| package.name == "pip") {
        out.push_str("  - pip\n");
    }
    if packages.is_empty() {
        return Ok(out);
    }
    let (first, built) = in_two_steps(&packages);
    for package in built {
        // pip cannot build against a torch that the same file installs.
        let from = match target.conda.is_empty() {
            true => "from requirements-build.txt",
            false => "by `envlock sync --build`",
        };
        let _ = writeln!(out, "  # after this environment, {from}: {}", package.name);
    }
    if first.is_empty() {
        return Ok(out);
    }
    let unhashed = without_hash(&first);
    if !unhashed.is_empty() {
        let _ = writeln!(out, "  # no hashes: {} has none, and pip checks all or none", unhashed.join(", "));
        open_indexes(&mut out, &packages, "  #");
    }
    out.push_str("  - pip:\n");
    for (index, package) in extra_indexes(&packages) {
        if let Some(option) = index_option(addresses, index, package)? {
            let _ = writeln!(out, "      - {option}");
        }
    }
    for package in first {
        let (requirement, hashes) = pinned(package, addresses)?;
        let hashes: String = hashes
            .iter()
            .filter(|_| unhashed.is_empty())
            .map(|hash| format!(" --hash=sha256:{hash}"))
            .collect();
        let _ = writeln!(out, "      - {requirement}{hashes}");
    }
    Ok(out)
}

/// The comments at the top: how the file is used, and what it is for.
fn heading(target: &Target, name: &str) -> String {
    let mut out = format!("{}; change the manifest and run `envlock resolve`.\n", ENVIRONMENT_MARK);
    // conda adds its `defaults` channel to those of a file, unless it is told not to.
    let _ = writeln!(
        out,
        "# conda >= 26.3: conda create -n {} --override-channels{} --file FILE\n\
         # conda before, mamba: conda env create -f FILE",
        environment_name(name),
        channels(target).iter().map(|channel| format!(" -c {channel}")).collect::<String>()
    );
    if let Some(stack) = &target.stack {
        let _ = writeln!(out, "# torch {} {} for {}", stack.version, stack.variant, target.platform);
    }
    for framework in &target.frameworks {
        let cuda = cuda_short(&framework.cuda);
        let _ = writeln!(
            out,
            "# {} {} with CUDA {cuda} for {}",
            framework.package, framework.version, target.platform
        );
        if framework.cuda_from_system {
            out.push_str(&by_name(framework));
        }
    }
    if let Some(driver) = &target.envelope.driver {
        let _ = writeln!(out, "# needs an NVIDIA driver >= {driver}");
    }
    out
}

/// The comment about a framework that opens CUDA's libraries by name.
fn by_name(framework: &Framework) -> String {
    let cuda = cuda_short(&framework.cuda);
    let cudnn = framework.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
    if framework.conda.is_empty() {
        return format!("# it opens CUDA {cuda}{cudnn} by name: install them on the system\n");
    }
    format!(
        "# it opens CUDA {cuda}{cudnn} by name; run this once in the active environment, then activate it again:\n\
         #   conda env config vars set LD_LIBRARY_PATH=\"$CONDA_PREFIX/lib\"\n"
    )
}

/// A name that conda accepts: no `/`, space, `:`, `#`, and not `base` or `root`.
pub fn environment_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' })
        .collect();
    match clean.trim_matches('-') {
        "" | "base" | "root" => "envlock".to_owned(),
        good => good.to_owned(),
    }
}

/// Whether two environment files install the same: their names and the lines that are comments may differ. One that has
/// another end of line than `\n` or `\r\n` is never the same: YAML ends a line, and so a comment, at more characters.
pub fn same_environment(a: &str, b: &str) -> bool {
    fn installs(text: &str) -> impl Iterator<Item = &str> {
        let lines = text.split('\n').map(str::trim_end);
        lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with('#') && !is_name(line))
    }
    fn is_name(line: &str) -> bool {
        line.strip_prefix("name: ")
            .map(|name| name.trim_matches('"'))
            .is_some_and(|name| environment_name(name) == name)
    }
    fn is_plain(text: &str) -> bool {
        text.replace("\r\n", "\n").split(['\n', '\t']).all(crate::model::text::is_line)
    }
    is_plain(a) && is_plain(b) && installs(a).eq(installs(b))
}

#[cfg(test)]
mod tests {
    use super::{environment_name, same_environment};

    #[test]
    fn names_and_comments_do_not_count() {
        let text = "# by envlock\nname: a\ndependencies:\n  - pip:\n      - --extra-index-url https://x/simple\n      \
                    - t @ https://x/whl/t-1.whl --hash=sha256:00\n      - n==1\n";
        for (from, to, same) in [
            ("name: a", "name: b", true),
            ("https://x/", "https://mirror/y/", false),
            ("n==1", "n==1 # - --extra-index-url x", false),
            ("      - n==1", "      - evil==6.6 # - --extra-index-url x\n      - n==1", false),
            ("# by envlock", "# by envlock 2", true),
            ("# by envlock", "# by envlock\r      - evil==6.6", false),
            ("# by envlock", "# by envlock\u{85}prefix: /x", false),
            ("# by envlock", "# by envlock\u{2028}prefix: /x", false),
            ("name: a", "name: a\rprefix: /x", false),
            ("name: a", "name: !x b", false),
            ("dependencies:\n", "dependencies:\r\n", true),
            ("t-1.whl", "t-2.whl", false),
            ("sha256:00", "sha256:01", false),
            ("n==1", "n==2", false),
            ("      - n==1\n", "", false),
        ] {
            assert_eq!(same_environment(text, &text.replace(from, to)), same, "{from} -> {to}");
        }
    }

    #[test]
    fn names() {
        for (given, expected) in
            [("demo", "demo"), ("a b/c", "a-b-c"), ("base", "envlock"), ("", "envlock"), ("#x", "x")]
        {
            assert_eq!(environment_name(given), expected);
        }
    }
}
