//! `envlock registry pack`: the data of `registry update`, to sign and as a wheel.

use std::path::Path;

use serde_json::json;

use crate::cli::args::PackArgs;
use crate::cli::printer::Printer;
use crate::registry::Registry;
use crate::registry::signed::{self, DataWheel};
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::Global;
use crate::session::registry_update;
use crate::session::settings;
use crate::session::write;

pub(super) fn run(global: &Global, args: &PackArgs, printer: &Printer) -> Result<u8, Failure> {
    // Not what `update` stored: who packs data packs those of a folder, or of a build.
    let registry = match &global.registry {
        Some(_) => settings::registry(global)?,
        None => Registry::embedded(),
    };
    let (payload, statement) = signed::to_sign(&registry);
    let out = &args.output;
    let Some(signature) = &args.signature else {
        if out.extension().is_some_and(|extension| extension == "whl") || out.is_dir() {
            return Err(Failure::usage("a data wheel has a signature").hint(
                "write the data first: `envlock registry pack -o registry.json`, sign them, and pass `--signature FILE`",
            ));
        }
        refuse_existing(out, args.force)?;
        write::write_bytes(out, &payload)?;
        let command = format!(
            "minisign -Sm {} -t '{statement}'",
            shlex::try_quote(&out.to_string_lossy()).unwrap_or_default()
        );
        if printer.json {
            printer.json(&json!({ "file": out, "statement": statement.to_string() }));
        } else {
            printer.out(&format!("wrote the data of {} to {}; sign them:", statement.date, out.display()));
            printer.out(&format!("  {command}"));
        }
        return Ok(exit::YES);
    };
    let signature = files::read(signature)?
        .ok_or_else(|| Failure::input(format!("there is no file `{}`", signature.display())))?;
    let wheel = DataWheel { payload, signature };
    let refused = |why: String| {
        Failure::input(format!("the signature is not one of these data: {why}")).hint(
            "sign what `envlock registry pack -o registry.json` writes, with the statement that it prints",
        )
    };
    let keys = match &args.key {
        Some(path) => vec![registry_update::key(path)?],
        None => signed::release_keys(),
    };
    if keys.is_empty() {
        return Err(Failure::usage(
            "this build of envlock has no keys of releases to check the signature with",
        )
        .hint("name the public key: `--key FILE`"));
    }
    // Who packs sees what `update` would say.
    let stated = wheel.verified(&keys).map_err(|why| refused(why.to_string()))?;
    wheel.registry(&stated).map_err(|why| refused(why.to_string()))?;
    let bytes = signed::write(&wheel, &statement)
        .map_err(|e| Failure::internal(format!("cannot make the wheel: {e}")))?;
    let out = if out.is_dir() { out.join(signed::file_name(&statement)) } else { out.clone() };
    refuse_existing(&out, args.force)?;
    write::write_bytes(&out, &bytes)?;
    match printer.json {
        true => printer.json(&json!({ "file": out, "statement": statement.to_string() })),
        false => printer.out(&format!("wrote {}", out.display())),
    }
    Ok(exit::YES)
}

/// Refuses to replace a file: it may be the signature, or what was signed.
fn refuse_existing(out: &Path, force: bool) -> Result<(), Failure> {
    match !force && out.symlink_metadata().is_ok() {
        false => Ok(()),
        true => Err(Failure::files(format!("`{}` is there", out.display()))
            .hint("name another file, or replace it with `--force`")),
    }
}
