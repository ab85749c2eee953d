//! Folders of files that exist in memory only.
#![allow(dead_code, reason = "each test reads files of one format or of both")]

use std::io;
use std::path::Path;

use weir_config::{Config, ConfigErrors, load};

/// Loads `/etc/weir/weir.toml` with this text; `files` are beside it.
pub(crate) fn load_with(text: &str, files: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let find = |pairs: &[(&str, &str)], name: &str| pairs.iter().find(|(n, _)| *n == name).map(|p| p.1.to_owned());
    let read = |path: &Path| match path.strip_prefix("/etc/weir") {
        Ok(name) if name == Path::new("weir.toml") => Ok(text.to_owned()),
        Ok(name) => find(files, name.to_str().unwrap()).ok_or_else(|| io::Error::other("No such file")),
        Err(_) => Err(io::Error::other("outside of the folder")),
    };
    load(Path::new("/etc/weir/weir.toml"), &read, &|name| find(env, name))
}

/// Loads `pgbouncer.ini`, a file of the working directory, with this text; other files are found by their names.
pub(crate) fn load_ini(text: &str, files: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let read = |path: &Path| match path.to_str() {
        Some("pgbouncer.ini") => Ok(text.to_owned()),
        Some(name) => {
            let found = files.iter().find(|(n, _)| *n == name);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::Error::other("No such file or directory"))
        }
        None => Err(io::Error::other("no name")),
    };
    load(Path::new("pgbouncer.ini"), &read, &|_| None)
}
