//! What is read of channels: the records that a request can reach.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Session;
use crate::conda::{Records, Repodata};
use crate::index::ChannelFolder;
use crate::model::platform::Platform;
use crate::model::request::Request;
use crate::model::solution::Note;
use crate::model::source::CondaPackage;
use crate::model::text::{channel_without_secrets, clean};
use crate::registry::COMPANIONS;
use crate::registry::conda_builds::PYTORCH;
use crate::session::failure::Failure;
use crate::session::settings;

/// What records were read from, and for which names.
pub(in crate::session::fetch) struct Reach {
    platform: Platform,
    channels: Vec<String>,
    names: BTreeSet<String>,
}

impl Reach {
    /// Whether everything that another one reaches is in the records of this one.
    fn includes(&self, other: &Reach) -> bool {
        self.platform == other.platform
            && self.channels == other.channels
            && self.names.is_superset(&other.names)
    }
}

impl Session<'_> {
    /// The records that the request can reach, read once for the requests of all targets and of their ways out.
    pub(super) fn records(&mut self, request: &Request, platform: Platform) -> Result<Rc<Records>, Failure> {
        let names = request.conda.specs.iter().map(|spec| spec.name().to_owned());
        let names = names.chain(["python".to_owned(), "pip".to_owned()]);
        let of_stack = [PYTORCH].into_iter().chain(COMPANIONS).map(str::to_owned);
        let names = names.chain(of_stack.filter(|_| request.conda.stack.is_some()));
        let reach = Reach { platform, channels: request.conda.channels.clone(), names: names.collect() };
        if let Some((_, known)) = self.records.iter().find(|(known, _)| known.includes(&reach)) {
            return Ok(Rc::clone(known));
        }
        let alias = settings::conda_channel_alias();
        let bar = self.interface.progress("reading the channels");
        let mut channels = Vec::new();
        let mut has_platform = false;
        for channel in &request.conda.channels {
            let before = channels.len();
            let (mut is_of_platform, mut is_refused) = (false, false);
            for folder in [platform.conda_subdir(), "noarch"] {
                bar.set_message(format!("reading {channel}/{folder}"));
                let text = self.client.repodata(&alias, channel, folder);
                let text = text.map_err(|error| {
                    Failure::network(error.to_string()).hint(format!(
                        "channels are below `{}`; `ENVLOCK_CONDA_CHANNEL_ALIAS` names a mirror",
                        clean(&channel_without_secrets(&alias), 100)
                    ))
                })?;
                let text = match text {
                    ChannelFolder::Records(text) => text,
                    ChannelFolder::Absent => continue,
                    ChannelFolder::Refused => {
                        is_refused = true;
                        continue;
                    }
                };
                is_of_platform |= folder != "noarch";
                let parsed = Repodata::parse(channel, folder, text);
                channels.push(parsed.map_err(|why| {
                    Failure::input(format!(
                        "the records of the channel `{channel}` ({folder}) cannot be read: {why}"
                    ))
                })?);
            }
            has_platform |= is_of_platform;
            if channels.len() == before {
                bar.finish_and_clear();
                if is_refused {
                    let text = format!("the server of the channel `{channel}` refuses access (403)");
                    return Err(Failure::network(text).hint(
                        "is the channel's name right, and is there a login for its host in `~/.netrc`?",
                    ));
                }
                return Err(Failure::input(format!("there is no channel `{channel}` for {platform}"))
                    .hint("`channels` under `[conda]` names channels as conda does: `conda-forge`"));
            }
        }
        bar.finish_and_clear();
        if !has_platform {
            let names = request.conda.channels.join(", ");
            return Err(Failure::input(format!("{names} has no packages for {platform}, only `noarch` ones"))
                .hint("`channels` under `[conda]` must name a channel with that platform, Python among its packages"));
        }
        let records = Records::reachable(&channels, reach.names.iter().cloned());
        let records = Rc::new(records.map_err(|why| Failure::input(why.to_string()))?);
        self.records.push((reach, Rc::clone(&records)));
        Ok(records)
    }
}

/// That a channel lists records of what is asked for that cannot be locked.
pub(super) fn unread_records(request: &Request, records: &Records) -> Option<Note> {
    let names = request.conda.specs.iter().map(|spec| spec.name()).filter(|name| records.is_unread(name));
    let names: BTreeSet<&str> = names.collect();
    let text = format!(
        "some records of {} are left out: they have no SHA-256 or no size, or another form",
        names.iter().copied().collect::<Vec<_>>().join(", ")
    );
    (!names.is_empty()).then_some(Note { text, source: None })
}

/// The files of Pythons that PyPI's wheels are not chosen for: PyPy, and those without the global interpreter lock.
pub(super) fn other_interpreters(records: &Records) -> BTreeMap<String, String> {
    let is_other = |package: &CondaPackage| {
        let build = package.build.as_str();
        let is_free = build.split('_').any(|part| part.starts_with("cp3") && part.ends_with('t'));
        is_free || build.contains("pypy") || build.contains("graalpy")
    };
    let others = records.of("python").into_iter().filter(|package| is_other(package));
    others.map(|package| (package.file, format!("python {} is another interpreter", package.build))).collect()
}
