//! `envlock image`: what is in a container image, and whether it runs on a machine, without running it.

mod report;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use crate::cli::args::ImageArgs;
use crate::cli::printer::Printer;
use crate::image::{self, Choice, Format, Image, ImageError};
use crate::inspect::{self, Environments, FileTree as _};
use crate::model::finding::Severity;
use crate::model::solution::Envelope;
use crate::model::text::clean;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::image::{program, whole};
use crate::session::lock::{self, AnyLock};
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::verify::{self, Against, Judged, Place, Question};
use crate::verify::{Area, AreaKind, Verdict, envelope_of_installed, smoke::frameworks};

/// Variables of an image that decide which GPUs and libraries its programs see.
const TOLD: [&str; 9] = [
    "CUDA_HOME",
    "CUDA_VERSION",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTHONPATH",
];
/// Maximum number of environments that are judged.
const MAX_JUDGED: usize = 20;

pub(super) fn run(global: &Global, args: &ImageArgs, printer: &Printer) -> Result<u8, Failure> {
    let registry = settings::registry_here(global)?;
    let lock = args.lock.as_deref().map(lock::read_any).transpose()?;
    let image = read(args, printer)?;
    let place =
        Place::rooted(&image.tree, with_defaults(&image), PathBuf::from(&image.config.working_folder));
    let command = &image.config.command;
    let found = inspect::environments(&image.tree);
    let mut judged = Vec::new();
    let chosen: Vec<PathBuf> = match &args.prefix {
        Some(prefix) => vec![Path::new("/").join(prefix)],
        // A lock describes one environment: the one that the image's programs run in.
        None if lock.is_some() => main_environment(&place, command, &found).into_iter().collect(),
        None => {
            // First the one of the image's `python`, then those with a framework.
            let main = main_environment(&place, command, &found);
            let mut all: Vec<&PathBuf> =
                found.found.keys().filter(|prefix| Some(*prefix) != main.as_ref()).collect();
            all.sort_by_key(|prefix| !found.found[*prefix].has_framework);
            main.iter().chain(all).take(MAX_JUDGED).cloned().collect()
        }
    };
    let project = Project {
        folder: args.lock.as_deref().and_then(Path::parent).unwrap_or(Path::new(".")).to_path_buf(),
        manifest: None,
        reads: Vec::new(),
        is_all_read: false,
    };
    for prefix in &chosen {
        let question = Question {
            place: &place,
            prefix,
            read: None,
            host: args.host.as_deref(),
            target: args.target.as_deref(),
            deep: false,
            require_gpu: false,
            parts: None,
            without_machine: args.host.is_none(),
        };
        let against = match (&lock, &args.lock) {
            (Some(AnyLock::Own(lock)), _) => Against::Lock(lock),
            (Some(AnyLock::Foreign(lock)), Some(path)) => Against::Foreign(lock, path),
            _ => Against::Nothing,
        };
        let mut one = verify::judge(&question, &project, against, &registry)?;
        if args.host.is_none() {
            one.areas.retain(|area| ![AreaKind::Host, AreaKind::GpuCode].contains(&area.kind));
        }
        let platform = one.machine.system.platform;
        let needs = envelope_of_installed(&registry, &one.installed, platform);
        judged.push(InImage { prefix: prefix.clone(), judged: one, needs });
    }
    // Without a framework there is nothing that this tool knows more of than others.
    if judged.iter().any(|one| !frameworks(&one.judged.installed).is_empty()) && args.prefix.is_none() {
        judged.retain(|one| lock.is_some() || !frameworks(&one.judged.installed).is_empty());
    }
    let own = match &lock {
        Some(AnyLock::Own(lock)) => Some(lock),
        _ => None,
    };
    let machine = args.host.as_deref().map(|path| whole::machine(path, &registry)).transpose()?;
    let closed = chosen.first().and_then(|prefix| closed_to_user(&place, &image, prefix));
    let python = chosen.first().and_then(|prefix| place.system(prefix)).map(|system| system.platform);
    let is_open = args.prefix.is_none()
        && lock.is_some()
        && found.found.len() > 1
        && !command.is_empty()
        && !program::is_followed(&place, command);
    let taken = chosen.first().filter(|_| is_open).cloned();
    let is_searched = found.is_complete || args.prefix.is_some();
    let doubts = whole::Doubts { closed, python, is_searched, taken };
    let whole = whole::judge(&image, own, args.target.as_deref(), machine.as_ref(), doubts, &registry)?;
    let answer = Answer { image: &image, found: &found, whole, judged: &judged, has_lock: lock.is_some() };
    match printer.json {
        true => printer.json(&answer.json()),
        false => answer.text(&args.path, printer),
    }
    Ok(match answer.verdict() {
        Verdict::Ok => exit::YES,
        Verdict::Differs => exit::NO,
        Verdict::Unknown => exit::NOT_KNOWN,
    })
}

/// The variables of an image's programs, with those that a runtime sets where the image does not.
fn with_defaults(image: &Image) -> BTreeMap<String, String> {
    let config = &image.config;
    let mut variables = config.variables.clone();
    let path = || "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    variables.entry("PATH".to_owned()).or_insert_with(path);
    let user = match config.user.split(':').next().unwrap_or_default() {
        "" => "0",
        user => user,
    };
    // `name:x:uid:gid:comment:home:shell`, passwd(5); runtimes take the home from it.
    let users = image.tree.text(Path::new("/etc/passwd"), 1 << 20).unwrap_or_default();
    let home = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.len() >= 6 && [fields[0], fields[2]].contains(&user)).then(|| fields[5].to_owned())
    });
    let home = home.or_else(|| ["root", "0"].contains(&user).then(|| "/root".to_owned()));
    if let Some(home) = home.filter(|_| image.format == Format::Layers) {
        variables.entry("HOME".to_owned()).or_insert(home);
    }
    variables
}

/// A folder on the way to an environment's interpreter that only its owner may enter, where programs run as a user whose
/// folders are not known: the owners of an image's files are not kept.
fn closed_to_user(place: &Place<'_>, image: &Image, prefix: &Path) -> Option<PathBuf> {
    let user = image.config.user.split(':').next().unwrap_or_default();
    if image.format != Format::Layers || ["", "0", "root"].contains(&user) {
        return None;
    }
    let home = place.variable("HOME").filter(|home| home != "/").map(PathBuf::from);
    let python = ["bin/python", "bin/python3"].map(|name| prefix.join(name));
    let real = python.iter().find_map(|python| place.tree.real(python).ok())?;
    let mut folders: Vec<&Path> = python[0].ancestors().skip(1).chain(real.ancestors().skip(1)).collect();
    folders.sort();
    let is_closed = |folder: &&&Path| {
        let is_own = home.as_ref().is_some_and(|home| folder.starts_with(home));
        !is_own && place.tree.about(folder).is_ok_and(|about| about.mode & 0o001 == 0)
    };
    folders.iter().find(is_closed).map(|folder| folder.to_path_buf())
}

/// An environment of an image.
struct InImage {
    /// Its folder, as the image's programs see it.
    prefix: PathBuf,
    judged: Judged,
    /// What its frameworks need from a machine.
    needs: Option<Envelope>,
}

/// What was found in an image.
struct Answer<'a> {
    image: &'a Image,
    /// Every environment.
    found: &'a Environments,
    /// The verdict on the image as a whole.
    whole: Option<Area>,
    judged: &'a [InImage],
    /// Whether it was compared with a lock.
    has_lock: bool,
}

impl Answer<'_> {
    /// Everything that was judged.
    fn areas(&self) -> impl Iterator<Item = &Area> {
        self.whole.iter().chain(self.judged.iter().flat_map(|one| &one.judged.areas))
    }

    fn verdict(&self) -> Verdict {
        let mut areas = self.areas();
        match self.judged.is_empty() {
            true => Verdict::Unknown,
            false if areas.any(|area| area.findings.iter().any(|f| f.severity == Severity::Error)) => {
                Verdict::Differs
            }
            false => Verdict::Ok,
        }
    }
}

/// The environment that the image's program runs in. Where it runs in none, the one with most packages.
fn main_environment(place: &Place<'_>, command: &[String], found: &Environments) -> Option<PathBuf> {
    let python = program::python_of(place, command);
    // The search may have passed it over: it is below a folder that is not searched, or the search ended at its limit.
    let has_packages = |prefix: &PathBuf| {
        let read = || inspect::read(place.tree, prefix, inspect::Depth::Sizes);
        found.found.contains_key(prefix) || read().is_ok_and(|own| !own.distributions.is_empty())
    };
    let own = |python: &PathBuf| prefixes_of(place, python).into_iter().find(has_packages);
    if let Some(prefix) = python.as_ref().and_then(own) {
        return Some(prefix);
    }
    // A Python without packages of its own may have those of PYTHONPATH or of the user.
    let sees_others = |prefix: &PathBuf| {
        let installed = inspect::read(place.tree, prefix, inspect::Depth::Sizes).ok();
        let variable = |name: &str| place.variable(name);
        installed.is_some_and(|own| !inspect::visible(place.tree, &own, &place.root, &variable).is_empty())
    };
    if let Some(prefix) = python.and_then(|python| prefixes_of(place, &python).into_iter().find(sees_others))
    {
        return Some(prefix);
    }
    found
        .found
        .iter()
        .max_by_key(|(_, one)| (one.has_framework, one.packages))
        .map(|(prefix, _)| prefix.clone())
}

/// The folders whose packages an interpreter may have: of a venv its own, else those of the file that it leads to, and what
/// Debian's Python has in `/usr/local`.
fn prefixes_of(place: &Place<'_>, python: &Path) -> Vec<PathBuf> {
    let above = |file: &Path| file.parent().and_then(Path::parent).map(Path::to_path_buf);
    let mut out = Vec::new();
    let Some(own) = above(python) else { return out };
    let is_venv = place.tree.exists(&own.join("pyvenv.cfg"));
    let real_folder = python.parent().and_then(|folder| place.tree.real(folder).ok());
    out.extend(real_folder.and_then(|folder| folder.parent().map(Path::to_path_buf)));
    out.push(own);
    if !is_venv && let Some(real) = place.tree.real(python).ok().and_then(|file| above(&file)) {
        out.push(real.join("local"));
        out.push(real);
    }
    out
}

/// Reads the image, with a progress bar.
fn read(args: &ImageArgs, printer: &Printer) -> Result<Image, Failure> {
    let text = args.path.to_string_lossy();
    if !args.path.exists() {
        let shown = clean(&text, 200);
        let word = crate::model::text::shell_word(&shown);
        return Err(Failure::input(format!("`{shown}` does not exist")).hint(format!(
            "an image in a registry or a daemon is saved to a file first: `docker save {word} -o image.tar`, `skopeo copy docker://{word} oci-archive:image.tar`"
        )));
    }
    let choice = Choice { tag: args.tag.clone(), platform: args.platform };
    let bar = Bar { bar: printer.progress("layer"), done: Cell::new(0) };
    let image = image::read(&args.path, &choice, &bar);
    bar.bar.finish_and_clear();
    image.map_err(|error| {
        let hint = match &error {
            ImageError::Several(..) => Some("`--tag NAME` or `--platform linux-aarch64` chooses one"),
            ImageError::NotAnImage(..) => {
                Some("`docker save NAME -o image.tar` and `skopeo copy docker://NAME oci:FOLDER` write one")
            }
            _ => None,
        };
        let error = Failure::input(clean(&error.to_string(), 1_000));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

/// The progress of an image, in MiB of its layer.
struct Bar {
    bar: ProgressBar,
    done: Cell<u64>,
}

impl image::Progress for Bar {
    fn layer(&self, number: usize, of: usize, size: u64) {
        self.bar.set_message(format!("layer {number} of {of}, MiB"));
        self.bar.set_length(size >> 20);
        self.done.set(0);
    }

    fn read(&self, bytes: u64) {
        // The bar is slower than the layer.
        if bytes >> 20 != self.done.get() {
            self.done.set(bytes >> 20);
            self.bar.set_position(bytes >> 20);
        }
    }
}
