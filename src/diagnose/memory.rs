//! What a report of full memory says in numbers: what was asked for, what the card has, and who holds it.

use super::facts::Event;

/// The amounts of one report, in MiB.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// What was asked for.
    asked: Option<f64>,
    /// What the card has.
    total: Option<f64>,
    /// What this process holds.
    own: Option<f64>,
    /// What of it torch uses.
    used: Option<f64>,
    /// What torch has reserved and does not use.
    unused: Option<f64>,
    /// What other processes hold.
    others: f64,
}

/// The unused part of what torch has reserved, against the used one, from which on pieces are the cause.
const SIZEABLE: f64 = 0.05;

impl Report {
    /// Reads the first line with amounts.
    pub fn of(events: &[&Event]) -> Option<Report> {
        events.iter().map(|event| Report::read(&event.text)).find(|report| report.asked.is_some())
    }

    fn read(line: &str) -> Report {
        let lower = line.to_lowercase();
        let behind = |words: &str| amount(lower.split_once(words)?.1);
        let before = |words: &str| amount_at_end(lower.split_once(words)?.0);
        // `Process 344 has 184.00 MiB memory in use. Including non-PyTorch memory, this process has 8.1 GiB memory in use.`
        let processes = lower.split("process ").skip(1).filter_map(|rest| {
            let (number, rest) = rest.split_once(" has ")?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| amount(rest)).flatten()
        });
        Report {
            asked: behind("tried to allocate "),
            // torch 2.1 writes `capacty`.
            total: behind("total capacity of ")
                .or_else(|| behind("total capacty of "))
                .or_else(|| before(" total capacity")),
            own: behind("this process has "),
            used: before(" is allocated by pytorch"),
            unused: before(" is reserved by pytorch but unallocated"),
            others: processes.sum(),
        }
    }

    /// Whether one allocation is larger than the card.
    pub fn is_beyond_card(&self) -> bool {
        matches!((self.asked, self.total), (Some(asked), Some(total)) if asked > total)
    }

    /// Whether other processes hold more than this one, and enough for what was asked for.
    pub fn is_held_by_others(&self) -> bool {
        let enough = self.asked.is_some_and(|asked| self.others >= asked);
        enough && self.others > self.own.unwrap_or(f64::INFINITY)
    }

    /// Whether torch has reserved enough and cannot use it: it is in pieces. A little is always unused.
    pub fn is_in_pieces(&self) -> bool {
        let share = |unused: f64| self.used.is_none_or(|used| unused >= used * SIZEABLE);
        matches!((self.asked, self.unused), (Some(asked), Some(unused)) if unused >= asked && share(unused))
    }

    /// Whether other processes hold memory, and enough for what was asked for, though less than this one.
    pub fn is_shared(&self) -> bool {
        self.asked.is_some_and(|asked| self.others >= asked) && !self.is_held_by_others()
    }
}

/// The share of a card's memory that is free, `0.14` for `Free memory on device (3.41/23.55 GiB)`, rounded down; `None` if it is
/// too little to start with.
pub(super) fn free_share(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let (_, rest) = lower.split_once("free memory on device")?;
    let (_, rest) = rest.split_once('(')?;
    let (amounts, _) = rest.split_once(" gib)")?;
    let (free, total) = amounts.split_once('/')?;
    let (free, total): (f64, f64) = (free.parse().ok()?, total.parse().ok()?);
    let share = (free / total * 100.0).floor() / 100.0;
    (0.05..1.0).contains(&share).then(|| format!("{share:.2}"))
}

/// `1226.00 GiB` at the start of a text, in MiB.
fn amount(text: &str) -> Option<f64> {
    let (number, rest) = text.trim_start().split_once(' ')?;
    let unit: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
    let factor = match unit.as_str() {
        "kib" | "kb" => 1.0 / 1024.0,
        "mib" | "mb" => 1.0,
        "gib" | "gb" => 1024.0,
        "tib" | "tb" => 1024.0 * 1024.0,
        _ => return None,
    };
    number.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * factor)
}

/// The same at its end.
fn amount_at_end(text: &str) -> Option<f64> {
    let mut words = text.rsplit(' ');
    let (unit, number) = (words.next()?, words.next()?);
    amount(&format!("{} {unit}", number.trim_start_matches('(')))
}

#[cfg(test)]
mod tests {
    use super::{Report, free_share};

    #[test]
    fn what_is_free_at_the_start() {
        for (line, share) in [
            ("Free memory on device (3.41/23.55 GiB) on startup is less", Some("0.14")),
            ("Free memory on device cuda:0 (70.1/79.15 GiB) on startup", Some("0.88")),
            ("Free memory on device (0.10/23.55 GiB) on startup", None),
            ("Free memory on device (x/0 GiB) on startup", None),
            ("Free memory on device (1/0 GiB) on startup", None),
        ] {
            assert_eq!(free_share(line).as_deref(), share, "{line}");
        }
    }

    #[test]
    fn the_numbers_say_whose_memory_is_full() {
        let of = |line: &str| {
            let report = Report::read(line);
            (report.is_beyond_card(), report.is_held_by_others(), report.is_in_pieces())
        };
        let beyond = "CUDA out of memory. Tried to allocate 1226.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which 60.00 GiB is free.";
        assert_eq!(of(beyond), (true, false, false));
        let others = "CUDA out of memory. Tried to allocate 384.00 MiB. GPU 0 has a total capacity of 22.06 GiB of which 12.00 MiB is free. Process 101 has 14.79 GiB memory in use. Including non-PyTorch memory, this process has 7.10 GiB memory in use. Of the allocated memory 6.79 GiB is allocated by PyTorch, and 20.05 MiB is reserved by PyTorch but unallocated.";
        assert_eq!(of(others), (false, true, false));
        let pieces = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.00 GiB already allocated). Of the allocated memory 14.00 GiB is allocated by PyTorch, and 5.25 GiB is reserved by PyTorch but unallocated.";
        assert_eq!(of(pieces), (false, false, true));
        let beyond = "Tried to allocate 55.57 GiB. GPU 0 has a total capacty of 12.00 GiB of which 9.02 GiB is free. Of the allocated memory 984.52 MiB is allocated by PyTorch, and 463.48 MiB is reserved by PyTorch but unallocated.";
        assert_eq!(of(beyond), (true, false, false));
        let shared = "Tried to allocate 26.00 MiB. GPU 0 has a total capacity of 11.66 GiB of which 9.81 MiB is free. Process 3893521 has 618.00 MiB memory in use. Process 1493972 has 1.28 GiB memory in use. Including non-PyTorch memory, this process has 9.74 GiB memory in use. Of the allocated memory 9.30 GiB is allocated by PyTorch, and 163.19 MiB is reserved by PyTorch but unallocated.";
        assert_eq!(of(shared), (false, false, false));
        assert!(Report::read(shared).is_shared() && !Report::read(others).is_shared());
        assert_eq!(of("CUDA out of memory."), (false, false, false));
    }
}
