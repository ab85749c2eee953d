//! A configuration from the disk: gives the reader of settings its files and environment.

use std::fs;
use std::path::Path;

use weir_config::{Config, ConfigError, Facts};

/// Reads a configuration and the files it names.
pub(crate) fn load(file: &Path) -> Result<Config, ConfigError> {
    weir_config::load(file, &|path| fs::read_to_string(path), &|name| std::env::var(name).ok())
}

/// What this machine allows; the hard limit of descriptors, because serving raises the soft one to it.
pub(crate) fn facts() -> Facts {
    let (_, descriptors) = weir_runtime::descriptors();
    Facts { descriptors, cores: std::thread::available_parallelism().map_or(1, usize::from) }
}
