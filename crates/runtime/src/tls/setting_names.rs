//! The names of settings of TLS in errors.

use std::fmt;

use weir_config::{Config, FileFormat};

/// The names of one side's settings, in the words of the configuration's file.
#[derive(Clone, Copy)]
pub(super) struct SettingNames {
    format: FileFormat,
    /// `client` or `server`.
    side: &'static str,
}

impl SettingNames {
    /// `side`: `client` or `server`.
    pub(super) fn new(config: &Config, side: &'static str) -> SettingNames {
        SettingNames { format: config.format, side }
    }

    /// The name of the setting that is `key` in a table of a `weir.toml`.
    pub(super) fn of(self, key: &str) -> String {
        let side = self.side;
        match self.format {
            FileFormat::Toml => format!("{key} in [tls.{side}]"),
            FileFormat::Ini if key == "mode" => format!("{side}_tls_sslmode"),
            FileFormat::Ini => format!("{side}_tls_{key}"),
        }
    }

    /// The error of a file or a value, with its setting before it.
    pub(super) fn error(self, key: &str, error: impl fmt::Display) -> TlsFault {
        self.fault(key, format!("{}: {error}", self.of(key)))
    }

    /// An error about a setting.
    pub(super) fn fault(self, key: &str, text: String) -> TlsFault {
        TlsFault { key: format!("tls.{}.{key}", self.side), text }
    }
}

/// Why settings of TLS or their files can't be used.
#[derive(Debug)]
pub(crate) struct TlsFault {
    /// The setting, by its dotted name.
    pub(crate) key: String,
    /// A line with the setting, the file and what to do.
    pub(crate) text: String,
}

impl From<TlsFault> for String {
    fn from(fault: TlsFault) -> String {
        fault.text
    }
}
