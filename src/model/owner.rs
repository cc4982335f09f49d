//! The tool whose lock holds the packages of a project.

use sha2::{Digest, Sha256};

/// A tool that resolves and installs a project's packages itself. envlock chooses the stack for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// uv, with `uv.lock` beside `pyproject.toml`.
    Uv,
    /// pixi, with `pixi.lock` beside `pixi.toml` or `pyproject.toml`.
    Pixi,
}

impl Owner {
    /// Every tool.
    pub const ALL: [Owner; 2] = [Owner::Uv, Owner::Pixi];

    /// The name of its lock.
    pub fn file(self) -> &'static str {
        match self {
            Owner::Uv => "uv.lock",
            Owner::Pixi => "pixi.lock",
        }
    }

    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Owner::Uv => "uv",
            Owner::Pixi => "pixi",
        }
    }

    /// The tool of a lock by the lock's name.
    pub fn of_file(name: &str) -> Option<Owner> {
        Owner::ALL.into_iter().find(|owner| owner.file() == name)
    }
}

/// The lock of the tool that holds the packages, as it was when the stack was chosen for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageLock {
    /// The tool.
    pub owner: Owner,
    /// SHA-256 of the file's text, with `\n` at the ends of lines.
    pub sha256: String,
}

impl PackageLock {
    /// The lock with this text.
    pub fn of(owner: Owner, text: &str) -> PackageLock {
        // git may change the ends of lines on checkout.
        let unix = text.replace("\r\n", "\n");
        PackageLock { owner, sha256: hex::encode(Sha256::digest(unix.as_bytes())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_does_not_depend_on_the_ends_of_lines() {
        let unix = PackageLock::of(Owner::Uv, "version = 1\n");
        assert_eq!(unix, PackageLock::of(Owner::Uv, "version = 1\r\n"));
        assert_ne!(unix, PackageLock::of(Owner::Uv, "version = 2\n"));
        assert_ne!(unix, PackageLock::of(Owner::Pixi, "version = 1\n"));
    }
}
