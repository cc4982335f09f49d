//! Runs the installer.

use std::time::Instant;

use super::target_environment::{AtWork, MARK, OWN_FOLDER, is_unfinished, making, mark_of};
use super::types::{Plan, counted};
use super::work::Work;
use crate::session::Interface;
use crate::session::failure::Failure;
use crate::session::installers::{command, isolate, run};
use crate::session::write;
use crate::sync::env_allowlist::{self, EnvAllowlist};
use crate::sync::{Purpose, Step};

impl Work<'_> {
    /// Runs the commands.
    pub fn execute(&self, start: Instant, interface: &dyn Interface) -> Result<(), Failure> {
        let (texts, steps) = self.prepared()?;
        let prefix = &self.found.place.prefix;
        let making = making(prefix);
        let lists = |marked: bool| -> Result<(), Failure> {
            let folder = self.found.place.prefix.join(OWN_FOLDER);
            fs_err::create_dir_all(&folder)?;
            if marked {
                write::replace(&folder.join(MARK), &mark_of(self.folder))?;
                let _ = fs_err::remove_file(&making);
            }
            texts.iter().try_for_each(|(path, text)| write::replace_private(path, text))
        };
        let (make, others): (Vec<&Step>, Vec<&Step>) =
            steps.iter().partition(|step| step.purpose == Purpose::MakeEnvironment);
        if !make.is_empty() {
            // An interruption leaves a folder that is no environment yet, or not marked: the next run makes it again.
            // Where the folder above cannot be written, that is not noticed.
            if let Some(folder) = making.parent() {
                let _ = fs_err::create_dir_all(folder);
            }
            let _ = write::replace(&making, "");
            // What an interruption left: uv clears no folder that is no environment yet.
            let replaces = self.found.place.make.as_ref().is_some_and(|make| make.replaces);
            if replaces && prefix.is_dir() && !prefix.join("pyvenv.cfg").is_file() && is_unfinished(prefix) {
                fs_err::remove_dir_all(prefix)?;
            }
        }
        for step in &make {
            self.start(step, interface)?;
        }
        lists(!make.is_empty())?;
        let at_work = AtWork::begin(prefix, self.changes)?;
        self.remove_leftovers()?;
        let done = others.into_iter().try_for_each(|step| self.start(step, interface));
        at_work.end(&done);
        done?;
        self.tell(start, interface);
        Ok(())
    }

    /// Removes what pip and uv cannot: a package without RECORD, or one of two.
    fn remove_leftovers(&self) -> Result<(), Failure> {
        let site = self.found.installed.as_ref().map(|installed| &installed.site_packages);
        for path in self.changes.leftovers.iter().filter_map(|name| Some(site?.join(name))) {
            // An `.egg-info` may be a file.
            match path.is_dir() && !path.is_symlink() {
                true => fs_err::remove_dir_all(path)?,
                false if path.exists() => fs_err::remove_file(path)?,
                false => {}
            }
        }
        Ok(())
    }

    fn tell(&self, start: Instant, interface: &dyn Interface) {
        let mut parts = counted(self.changes);
        if self.project.is_some() {
            parts.push("the project itself".to_owned());
        }
        let seconds = start.elapsed().as_secs_f64();
        let what = if parts.is_empty() { "made".to_owned() } else { parts.join(", ") };
        interface.done(&format!("{what} with {} in {seconds:.1} s", self.installer.name()));
    }

    /// What is to be done.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let (_, steps) = self.prepared()?;
        let folder = self.found.place.prefix.join(OWN_FOLDER);
        Ok(Plan {
            installer: Some(self.installer.name()),
            writes: Some(format!("the lists of packages to `{}`", folder.display())),
            commands: steps.into_iter().map(|step| step.command).collect(),
            changes: self.changes.clone(),
            ..self.found.plan()
        })
    }

    fn start(&self, step: &Step, interface: &dyn Interface) -> Result<(), Failure> {
        let mut command = command(&step.command);
        let builds = !matches!(step.purpose, Purpose::MakeEnvironment | Purpose::Remove);
        let passing = EnvAllowlist { purpose: env_allowlist::Purpose::Install, builds, more: self.passed };
        isolate(&mut command, passing, self.addresses.1.as_ref(), interface);
        let repositories = self.wheelhouse.map(|own| &own.repositories).into_iter().flatten();
        for (i, (address, place)) in repositories.enumerate() {
            // git reads the bundle's repository in place of the one at the address, which the packages keep.
            command
                .env("GIT_CONFIG_COUNT", (i + 1).to_string())
                .env(format!("GIT_CONFIG_KEY_{i}"), format!("url.file://{}.insteadOf", place.display()))
                .env(format!("GIT_CONFIG_VALUE_{i}"), address);
        }
        run(command, step, self.installer.name(), interface)
    }
}
