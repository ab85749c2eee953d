//! `weir lab`: hands over to `weir-lab`, a program of its own, so that its libraries stay out of this one.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

const MISSING: &str = "the lab is a program of its own, weir-lab, which is neither beside this one nor in PATH; \
                       in the source tree `make build` makes both (or: cargo build --release -p weir-lab)";

/// Becomes `weir-lab`; returns only if that can't be.
pub(crate) fn run(arguments: &[OsString]) -> Result<(), Failure> {
    let program = find().ok_or_else(|| Failure::Because(MISSING.to_owned()))?;
    let error = Command::new(&program).args(arguments).exec();
    Err(Failure::at(program.display(), error))
}

/// Beside this program, then in PATH.
fn find() -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join("weir-lab")).find(|file| file.is_file())
}
