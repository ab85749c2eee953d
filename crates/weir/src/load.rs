//! A configuration from the disk: gives the reader of settings its files and environment.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use weir_config::{Config, ConfigError, Edits, Facts};

/// Reads a configuration and the files it names.
pub(crate) fn load(file: &Path) -> Result<Config, ConfigError> {
    weir_config::load(file, &|path| fs::read_to_string(path), &env)
}

/// The same, with the text of the file.
pub(crate) fn load_text(file: &Path) -> Result<(String, Config), ConfigError> {
    let text = RefCell::new(String::new());
    let read = |path: &Path| {
        let read = fs::read_to_string(path)?;
        if path == file {
            text.borrow_mut().clone_from(&read);
        }
        Ok(read)
    };
    let config = weir_config::load(file, &read, &env)?;
    Ok((text.into_inner(), config))
}

/// The configuration that the file would be with this text, with changes laid over it.
pub(crate) fn load_changed(file: &Path, text: &str, edits: &Edits) -> Result<Config, ConfigError> {
    let read = |path: &Path| if path == file { Ok(text.to_owned()) } else { fs::read_to_string(path) };
    weir_config::load_with(file, &read, &env, edits)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What this machine allows; the hard limit of descriptors, because serving raises the soft one to it.
pub(crate) fn facts() -> Facts {
    let (_, descriptors) = weir_runtime::descriptors();
    Facts { descriptors, cores: std::thread::available_parallelism().map_or(1, usize::from) }
}
