//! `[schedule]`: what a site states of its nodes, because a scheduler does not publish it.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::Source;
use super::target::TargetTable;
use crate::model::text::clean;
use crate::model::version::{DottedVersion, InvalidVersion};
use crate::session::failure::Failure;

/// `[schedule]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSchedule {
    /// The lowest glibc of all nodes.
    glibc: Option<Spanned<String>>,
    /// The lowest driver of all nodes with a GPU.
    driver: Option<Spanned<String>>,
    /// Kinds of nodes of a Slurm cluster, by name.
    #[serde(default)]
    slurm: BTreeMap<String, Spanned<RawNodes>>,
}

/// `[schedule.slurm.NAME]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNodes {
    /// The GRES type, as in `gpu:TYPE:4`.
    r#type: Option<String>,
    /// A feature that all nodes of the kind have, and no other ones.
    feature: Option<String>,
    gpus: Vec<String>,
    driver: Option<String>,
    glibc: Option<String>,
    platform: Option<String>,
}

/// What a site states of its nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SiteNodes {
    /// The lowest glibc of all nodes.
    pub glibc: Option<DottedVersion>,
    /// The lowest driver of all nodes with a GPU.
    pub driver: Option<DottedVersion>,
    /// The kinds of nodes of a Slurm cluster, by name.
    pub kinds: Vec<NodeKind>,
}

/// Nodes of a Slurm cluster that are alike.
#[derive(Debug, Clone)]
pub(crate) struct NodeKind {
    /// The name of the table.
    pub name: String,
    /// Their GRES type.
    pub gres: Option<String>,
    /// Their feature.
    pub feature: Option<String>,
    /// What they are.
    pub machine: TargetTable,
    /// Where the table begins, for messages: `envlock.toml:12`.
    pub place: String,
}

/// Whether Slurm takes a text as the type of a GRES or a feature, and a shell takes it for one word.
fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let starts = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    starts && text.len() <= 60 && text.bytes().all(allowed)
}

/// Reads the table.
///
/// # Errors
/// A value that is not valid, with its line.
pub(super) fn read(raw: &RawSchedule, source: &Source<'_>) -> Result<SiteNodes, Failure> {
    let lowest = |value: &Option<Spanned<String>>| {
        let parsed = value.as_ref().map(|text| {
            let wrong = |error: InvalidVersion| source.error(text.span().start, &error.to_string());
            text.as_ref().parse::<DottedVersion>().map_err(wrong)
        });
        parsed.transpose()
    };
    let mut nodes = SiteNodes { glibc: lowest(&raw.glibc)?, driver: lowest(&raw.driver)?, kinds: Vec::new() };
    let mut tables: Vec<_> = raw.slurm.iter().collect();
    // In the order of the file.
    tables.sort_by_key(|(_, table)| table.span().start);
    for (name, table) in tables {
        let start = table.span().start;
        let own = table.as_ref();
        if let Some(wrong) = own.r#type.iter().chain(&own.feature).find(|text| !is_word(text)) {
            let shown = clean(wrong, 60);
            let text = format!(
                "`{shown}` is not the name of a GRES type or feature: letters, digits, `_`, `-`, `.`"
            );
            return Err(source.error(start, &text));
        }
        if own.r#type.is_none() && own.feature.is_none() {
            return Err(source.error(start, "a kind of node has a GRES `type`, a `feature` or both"));
        }
        nodes.kinds.push(NodeKind {
            name: clean(name, 60),
            gres: own.r#type.clone(),
            feature: own.feature.clone(),
            machine: TargetTable::of_machine(
                &own.gpus,
                [own.driver.as_ref(), own.glibc.as_ref(), own.platform.as_ref()],
            ),
            place: source.place(start),
        });
    }
    Ok(nodes)
}
