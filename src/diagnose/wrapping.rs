//! What log collectors put around the lines of a program: ranks, workers, timestamps, JSON objects, quotes.

use std::borrow::Cow;

/// How many layers are taken off a line.
const MAX_LAYERS: usize = 4;
/// The keys of a JSON log record that hold the program's text.
const TEXT_KEYS: [&str; 13] = [
    "log",
    "msg",
    "message",
    "text",
    "error",
    "err",
    "event",
    "exc_info",
    "exception",
    "stack_trace",
    "stack",
    "error.message",
    "error.stack_trace",
];

/// The lines of the program in a line of a log.
pub(super) fn unwrapped(line: &str) -> Vec<Cow<'_, str>> {
    let mut rest = line;
    for _ in 0..MAX_LAYERS {
        let trimmed = rest.trim_start();
        let Some(inner) = [rank, worker, timestamp, syslog, quote].iter().find_map(|layer| layer(trimmed))
        else {
            break;
        };
        rest = inner;
    }
    let rest = rest.trim_end();
    match json_texts(rest.trim()) {
        Some(texts) => texts.into_iter().map(Cow::Owned).collect(),
        // A progress bar rewrites its line: each state is a line of its own.
        None => rest.split('\r').filter(|piece| !piece.trim().is_empty()).map(Cow::Borrowed).collect(),
    }
}

/// `[rank3]: text` of torchrun, `[default0]:text`, `[1,0]<stderr>:text` of mpirun.
fn rank(line: &str) -> Option<&str> {
    let (name, tail) = line.strip_prefix('[')?.split_once(']')?;
    let tail = tail.strip_prefix("<stderr>").or_else(|| tail.strip_prefix("<stdout>")).unwrap_or(tail);
    let is_rank = name.starts_with("rank") || name.starts_with("default");
    let is_mpi = name.split(',').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    tail.strip_prefix(':').filter(|_| is_rank || is_mpi)
}

/// `(VllmWorker rank=1 pid=4021) text` of vLLM and Ray.
fn worker(line: &str) -> Option<&str> {
    let (name, tail) = line.strip_prefix('(')?.split_once(')')?;
    (name.len() < 80 && (name.contains("pid=") || name.contains("rank="))).then_some(tail)
}

/// `2026-01-02T03:04:05.678Z text` of Docker and CI, `2026-01-02T03:04:05.678Z stderr F text` of Kubernetes.
fn timestamp(line: &str) -> Option<&str> {
    let (stamp, tail) = line.split_once(' ')?;
    let bytes = stamp.as_bytes();
    let is_stamp = bytes.len() >= 19
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes[..4].iter().all(u8::is_ascii_digit);
    let streams = ["stderr F ", "stdout F ", "stderr P ", "stdout P "];
    is_stamp.then(|| streams.iter().find_map(|stream| tail.strip_prefix(stream)).unwrap_or(tail))
}

/// `Jan  2 03:04:05 node7 kernel: text` of syslog and journald.
fn syslog(line: &str) -> Option<&str> {
    let month = line.get(..4)?;
    let is_month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec ".contains(month) && month.ends_with(' ');
    let time = line.get(7..15)?.as_bytes();
    let is_time = time[2] == b':' && time[5] == b':' && time[0].is_ascii_digit();
    let tail = line.get(15..).filter(|_| is_month && is_time)?;
    let (head, text) = tail.split_once(": ")?;
    (head.len() < 120).then_some(text)
}

/// `> text` of a mail or an issue.
fn quote(line: &str) -> Option<&str> {
    line.strip_prefix("> ")
}

/// The lines in a long JSON log record; `None` if it is none.
pub(super) fn record(line: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(line).ok()?.trim();
    text.starts_with('{').then(|| json_texts(text)).flatten()
}

/// The texts of a JSON log record, and of a line of a notebook's source: `"text\n",`.
fn json_texts(line: &str) -> Option<Vec<String>> {
    if line.starts_with('{') && line.ends_with('}') {
        let record: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
        let texts: Vec<&str> = TEXT_KEYS
            .iter()
            .filter_map(|key| record.get(*key))
            // pino nests an error.
            .flat_map(|value| [Some(value), value.get("message"), value.get("stack")])
            .filter_map(|value| value?.as_str())
            .collect();
        return (!texts.is_empty())
            .then(|| texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect());
    }
    let quoted = line.strip_suffix(',').unwrap_or(line);
    if quoted.len() > 2 && quoted.starts_with('"') && quoted.ends_with('"') {
        let text: String = serde_json::from_str(quoted).ok()?;
        return Some(text.lines().map(str::to_owned).collect());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::unwrapped;

    #[test]
    fn layers_are_taken_off() {
        let text = "RuntimeError: CUDA error: x";
        for line in [
            text.to_owned(),
            format!("[rank3]: {text}"),
            format!("[1,0]<stderr>: {text}"),
            format!("(VllmWorker rank=1 pid=4021) {text}"),
            format!("(RayWorker pid=4021, ip=10.0.0.1) [rank0]: {text}"),
            format!("2026-01-02T03:04:05.678901234Z {text}"),
            format!("2026-01-02T03:04:05.678901234Z stderr F {text}"),
            format!("Jan  2 03:04:05 node7 python[123]: {text}"),
            format!("> {text}"),
            format!("{{\"log\": \"{text}\\n\", \"stream\": \"stderr\"}}"),
            format!("    \"{text}\\n\","),
        ] {
            let found = unwrapped(&line);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].trim(), text, "{line}");
        }
        assert_eq!(unwrapped(" 10%|#|\r 20%|#|\rValueError: x").len(), 3);
        assert_eq!(unwrapped("[0] not a rank: x"), ["[0] not a rank: x"]);
        assert_eq!(unwrapped("{broken"), ["{broken"]);
    }
}
