//! Facts from `nvidia-smi`. Running and parsing are separate, so that tests can use captured outputs.

use std::path::Path;
use std::process::Command;

use super::{NvidiaFacts, Surroundings, ask, trusted};
use crate::child::{SHORT, Silent};
use crate::model::host::{Driver, Gpu};
use crate::model::text::clean;

const QUERY: &str = "--query-gpu=index,name,uuid,memory.total,driver_version,pci.device_id,compute_cap";
/// The query without `compute_cap`, which drivers before 510 do not support.
const OLD_QUERY: &str = "--query-gpu=index,name,uuid,memory.total,driver_version,pci.device_id";

/// Runs `nvidia-smi`. `Err` is the reason why it failed; empty if it is not installed.
pub(super) fn look(around: &Surroundings<'_>) -> Result<NvidiaFacts, String> {
    let wsl = around.root.join("usr/lib/wsl/lib/nvidia-smi");
    let program = match trusted::is_trusted(around, &wsl) {
        true => wsl,
        false => trusted::program(around, "nvidia-smi").ok_or_else(String::new)?,
    };
    let run = |arguments: &[&str]| run(&program, arguments);
    let banner = match run(&[])? {
        (true, text) => text,
        (false, text) => {
            return Err(format!("nvidia-smi: {}", clean(text.lines().next().unwrap_or("failed"), 120)));
        }
    };
    let csv = ["--format=csv,noheader,nounits"];
    let table = match run(&[QUERY, csv[0]]) {
        Ok((true, text)) => Some(text),
        _ => run(&[OLD_QUERY, csv[0]]).ok().filter(|(ok, _)| *ok).map(|(_, text)| text),
    };
    Ok(parse(&banner, table.as_deref()))
}

fn run(program: &Path, arguments: &[&str]) -> Result<(bool, String), String> {
    let mut command = Command::new(program);
    command.args(arguments);
    ask(command).map_err(|silent| match silent {
        Silent::NotStarted(_) => String::new(),
        // With a broken driver it hangs.
        Silent::Late(_) => format!("nvidia-smi did not answer in {} seconds", SHORT.time.as_secs()),
    })
}

/// Parses the banner (its labels changed with driver 610) and the CSV rows.
fn parse(banner: &str, table: Option<&str>) -> NvidiaFacts {
    let after = |labels: &[&str]| {
        labels.iter().find_map(|label| {
            let rest = &banner[banner.find(label)? + label.len()..];
            rest.trim_start().split([' ', '|', '\n']).next().map(str::to_owned)
        })
    };
    let cuda = after(&["CUDA Version:", "CUDA UMD Version:"]).and_then(|v| v.parse().ok());
    let version = after(&["Driver Version:", "KMD Version:"]).and_then(|v| v.parse().ok());
    let gpus: Option<Vec<Gpu>> = table.map(|t| t.lines().filter_map(row).map(|(gpu, _)| gpu).collect());
    let version = version.or_else(|| table?.lines().find_map(row)?.1.parse().ok());
    NvidiaFacts {
        driver: version.map(|version| Driver { version, cuda, compat: None, found_by: "nvidia-smi".into() }),
        gpus,
        notes: Vec::new(),
    }
}

/// Parses a CSV row: the GPU and the driver version.
fn row(line: &str) -> Option<(Gpu, String)> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let known = |text: &str| (!text.is_empty() && !text.starts_with('[')).then(|| clean(text, 96));
    let gpu = Gpu {
        index: fields.first()?.parse().ok()?,
        name: known(fields.get(1)?),
        uuid: known(fields.get(2)?),
        memory_mib: fields.get(3)?.parse().ok(),
        pci_id: fields
            .get(5)
            .and_then(|f| f.strip_prefix("0x"))
            .filter(|f| f.len() == 8 && f.is_ascii())
            .map(|f| f[..4].to_ascii_lowercase()),
        capability: fields.get(6).and_then(|f| f.parse().ok()),
        found_by: "nvidia-smi".into(),
    };
    Some((gpu, (*fields.get(4)?).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+";
    const NEW: &str = "\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 615.31.01    KMD Version: 615.31.01    CUDA UMD Version: 13.4                |
+-----------------------------------------+------------------------+----------------------+";

    #[test]
    fn banners_of_both_ages() {
        let old = parse(OLD, None).driver.unwrap();
        assert_eq!((old.version.as_str(), old.cuda.unwrap().as_str()), ("470.129.06", "11.4"));
        let new = parse(NEW, None).driver.unwrap();
        assert_eq!((new.version.as_str(), new.cuda.unwrap().as_str()), ("615.31.01", "13.4"));
        assert_eq!(parse("NVIDIA-SMI has failed because it couldn't communicate", None).driver, None);
    }

    #[test]
    fn rows_with_and_without_capability() {
        let table = "0, NVIDIA A100-SXM4-80GB, GPU-1, 81920, 535.129.03, 0x20B210DE, 8.0\n\
                     1, NVIDIA T4, GPU-2, [N/A], 535.129.03, 0x1EB810DE, [N/A]\nnot a row\n";
        let facts = parse("", Some(table));
        let gpus = facts.gpus.unwrap();
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].capability.unwrap().to_string(), "8.0");
        assert_eq!(gpus[0].pci_id.as_deref(), Some("20b2"));
        assert_eq!((gpus[1].capability, gpus[1].memory_mib), (None, None));
        assert_eq!(facts.driver.unwrap().version.as_str(), "535.129.03");
    }
}
