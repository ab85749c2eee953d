//! `weir demo` and `weir lab`: separate programs, so that the pooler does not contain what only they need.
//!
//! Owns where they are found: beside this program, then in PATH.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

/// A program that is installed with Weir, by its name, which is also its package's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Companion(pub(crate) &'static str);

/// `weir demo`.
pub(crate) const DEMO: Companion = Companion("weir-demo");
/// `weir lab`.
pub(crate) const LAB: Companion = Companion("weir-lab");

impl Companion {
    /// Replaces this process by the program; returns only if that fails.
    pub(crate) fn exec(self, arguments: &[OsString]) -> Result<(), Failure> {
        let program = self.find().ok_or_else(|| Failure::Message(self.missing()))?;
        let error = Command::new(&program).args(arguments).exec();
        Err(Failure::at(program.display(), error))
    }

    fn find(self) -> Option<PathBuf> {
        let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = beside.into_iter().chain(env::split_paths(&path));
        folders.map(|folder| folder.join(self.0)).find(|file| file.is_file())
    }

    fn missing(self) -> String {
        let name = self.0;
        format!(
            "{name} is a program of its own, and is neither beside this one nor in PATH: copy it from where weir came \
             from, or build it in the source tree: cargo build --release -p {name} (make build builds all)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_how_to_get_it() {
        let Err(Failure::Message(text)) = Companion("weir-nothing").exec(&[]) else {
            panic!("there is no such program")
        };
        assert!(text.starts_with("weir-nothing is a program of its own") && text.contains("-p weir-nothing"), "{text}");
    }
}
