//! Writes a manifest: a new envlock.toml, of what a file or an environment has, or envlock's tables beside the packages that
//! another manifest states.

use std::path::{Path, PathBuf};

use super::Interface;
use super::failure::Failure;
use super::importing::import;
use super::options::Global;
use super::{files, from_prefix, manifest, manifest_text, owner, settings, write};
use crate::formats::{self, CondaPart, Imported, Optional};
use crate::model::owner::Owner;
use crate::model::text::{shell_word, toml_string};
use crate::model::wheel::Python;
use crate::probe::pythons;
use crate::registry::Registry;

/// What the manifest is made of.
pub(crate) struct InitOptions {
    /// The specifier of torch.
    pub torch: Option<String>,
    /// The specifier of Python.
    pub python: Option<String>,
    /// The file whose requirements are taken.
    pub from: Option<PathBuf>,
    /// The environment whose packages are taken.
    pub from_prefix: Option<PathBuf>,
    /// Which parts of the file are taken.
    pub optional: Optional,
    /// Whether an envlock.toml that is there is replaced.
    pub force: bool,
}

/// What was written.
pub(crate) enum Initialized {
    /// envlock's tables in a manifest that has the packages: its path and name, and the tool that holds them.
    Added { path: PathBuf, name: String, owner: Option<Owner> },
    /// An envlock.toml.
    Written(NewFile),
}

/// An envlock.toml.
pub(crate) struct NewFile {
    /// Its folder.
    pub folder: PathBuf,
    pub path: PathBuf,
    pub text: String,
    /// A file of requirements in the folder, which was not asked for.
    pub unread: Option<String>,
    /// Whether an environment.yml of somebody else is in the way of `resolve`.
    pub has_other_environment: bool,
}

/// Writes a manifest.
///
/// # Errors
/// When there is one, or what it is made of cannot be read.
pub(crate) fn init(
    global: &Global,
    options: &InitOptions,
    interface: &dyn Interface,
) -> Result<Initialized, Failure> {
    let folder = match &global.project {
        Some(folder) => folder.clone(),
        None => std::env::current_dir()?,
    };
    let is_plain = options.from.is_none() && options.from_prefix.is_none();
    if let Some((name, owner)) = files::owned_manifest(&folder).filter(|_| is_plain) {
        return beside(&folder.join(name), Some(owner), options);
    }
    if let Some(root) = owner::workspace_with_lock(&folder).filter(|_| is_plain) {
        let shown = shell_word(&root.display().to_string());
        return Err(Failure::files(format!("uv holds the packages of this workspace: `{}`", root.join("uv.lock").display()))
            .hint(format!("`envlock --project {shown} init` adds `[tool.envlock]` beside it; `--from pyproject.toml` gives envlock this member")));
    }
    if is_plain && files::states_packages(&folder) && files::manifest_in(&folder).is_none() {
        return beside(&folder.join(files::PYPROJECT), None, options);
    }
    if let Some(name) = files::manifest_in(&folder).filter(|name| is_plain && *name != files::MANIFEST) {
        return Err(Failure::files(format!("`{name}` has `[tool.envlock]` already"))
            .hint("edit it and run `envlock resolve`; `envlock init --from FILE` writes an envlock.toml, which then counts instead"));
    }
    let path = folder.join(files::MANIFEST);
    if path.exists() && !options.force {
        return Err(Failure::files(format!("`{}` already exists", path.display()))
            .hint("edit it, or pass `--force` to replace it"));
    }
    let from = match (&options.from, &options.from_prefix) {
        (Some(file), _) => import(file, &folder, &options.optional, &settings::registry(global)?)?,
        (None, Some(folder)) => from_prefix::read(folder)?,
        (None, None) => Imported::default(),
    };
    manifest_text::warn(&from, interface);
    let before = if options.force { files::read(&path)?.unwrap_or_default() } else { String::new() };
    // What is imported may need an older one.
    let python = match &options.python {
        None if is_plain && before.is_empty() => python_here(&folder, &settings::registry(global)?),
        own => own.clone(),
    };
    let own =
        manifest_text::Own { torch: options.torch.as_deref(), python: python.as_deref(), is_new: is_plain };
    let has_name = from.name.is_some();
    let mut text = manifest_text::of(from, &folder, &own);
    // A file of conda's says what comes from conda.
    let states_conda = options.optional.conda == CondaPart::Pypi
        || options.from.as_deref().is_some_and(formats::is_of_conda);
    let kept = keep_tables(&mut text, &before, has_name, states_conda);
    if states_conda {
        let lost = conda_tables(&before);
        if !lost.is_empty() {
            interface.note(&format!("not kept from the envlock.toml before: {}", lost.join(", ")));
        }
    }
    if !kept.is_empty() {
        interface.note(&format!("kept from the envlock.toml before: {}", kept.join(", ")));
    }
    // The written manifest must be readable.
    manifest::parse(&text, files::MANIFEST)?;
    write::write(&path, &text)?;
    Ok(Initialized::Written(NewFile {
        unread: files::requirements_in(&folder).filter(|_| is_plain).map(str::to_owned),
        // One that cannot be read is told by `resolve`.
        has_other_environment: has_other_environment(&folder).unwrap_or(false),
        folder,
        path,
        text,
    }))
}

/// The Pythons of a new project: from the one that its `.python-version` names, else that `resolve` takes of those installed here.
fn python_here(folder: &Path, registry: &Registry) -> Option<String> {
    let is_known = |python: &Python| registry.pythons().contains(&python.minor);
    let installed: Vec<Python> =
        owner::with_places(pythons::series).into_iter().map(Python::new).filter(is_known).collect();
    let settled = installed.iter().copied().filter(|python| registry.is_settled(*python)).max();
    let pinned = owner::pinned_python(folder).filter(is_known);
    let python = pinned.or(settled).or_else(|| installed.iter().copied().min())?;
    Some(format!(">=3.{}", python.minor))
}

/// Whether a folder has an environment.yml that envlock did not write, and will not overwrite.
fn has_other_environment(folder: &Path) -> Result<bool, Failure> {
    let text = files::read_bytes(&folder.join(files::ENVIRONMENT))?;
    // Another program may have written it in UTF-16.
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(text.is_some_and(|text| !text.contains(formats::write::ENVIRONMENT_MARK)))
}

/// Adds envlock's tables to a manifest that has the packages: that of the tool which holds them, or a pyproject.toml.
fn beside(path: &Path, owner: Option<Owner>, options: &InitOptions) -> Result<Initialized, Failure> {
    let before = files::read(path)?.unwrap_or_default();
    let mut text = before.trim_end().to_owned();
    text.push_str("\n\n[tool.envlock]\n");
    if let Some(python) = &options.python {
        text.push_str(&format!("python = {}\n", toml_string(python.trim())));
    }
    if let Some(torch) = &options.torch {
        text.push_str(&format!("\n[tool.envlock.stack]\ntorch = {}\n", toml_string(torch.trim())));
    }
    // The written manifest must be readable.
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    manifest::parse(&text, &name)?;
    write::write(path, &text)?;
    Ok(Initialized::Added { path: path.to_path_buf(), name, owner })
}

/// What a manifest says of conda channels.
fn conda_tables(manifest: &str) -> Vec<&'static str> {
    let Ok(old) = manifest.parse::<toml_edit::DocumentMut>() else { return Vec::new() };
    let has_source = old.get("stack").is_some_and(|stack| stack.get("source").is_some());
    let parts = [("[conda]", old.contains_key("conda")), ("`source`", has_source)];
    parts.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

/// Adds what an earlier manifest says beyond the packages, which are read anew: its machines, indexes and settings. Returns
/// what was kept.
fn keep_tables(text: &mut String, before: &str, has_name: bool, states_conda: bool) -> Vec<String> {
    // Of `[stack]`, what is no package and no bound that a file may state.
    const OF_STACK: [&str; 4] = ["driver-policy", "ignore-gpus", "same", "source"];
    let (Ok(mut new), Ok(old)) =
        (text.parse::<toml_edit::DocumentMut>(), before.parse::<toml_edit::DocumentMut>())
    else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    for (key, item) in old.iter().filter(|(key, _)| !["project", "stack"].contains(key)) {
        if key == "conda" && states_conda {
            continue;
        }
        if !new.contains_key(key) {
            new.insert(key, item.clone());
            let names = item.as_table().filter(|_| key == "target");
            match names {
                Some(targets) => kept.extend(targets.iter().map(|(name, _)| format!("[target.{name}]"))),
                None => kept.push(format!("[{key}]")),
            }
        }
    }
    // A file of requirements names neither the project nor a Python.
    let of_project = old.get("project").and_then(toml_edit::Item::as_table_like);
    if let (Some(before), Some(project)) =
        (of_project, new.get_mut("project").and_then(toml_edit::Item::as_table_like_mut))
    {
        for (key, is_stated) in [("name", has_name), ("python", project.contains_key("python"))] {
            if let Some(item) = before.get(key).filter(|_| !is_stated) {
                project.insert(key, item.clone());
                kept.push(format!("`{key}`"));
            }
        }
    }
    let of_stack = old.get("stack").and_then(toml_edit::Item::as_table_like);
    for key in OF_STACK.into_iter().filter(|key| *key != "source" || !states_conda) {
        let Some(item) = of_stack.and_then(|stack| stack.get(key)) else { continue };
        if let Some(stack) = new.get_mut("stack").and_then(toml_edit::Item::as_table_like_mut)
            && !stack.contains_key(key)
        {
            stack.insert(key, item.clone());
            kept.push(format!("`{key}`"));
        }
    }
    if !kept.is_empty() {
        *text = new.to_string();
    }
    kept
}
