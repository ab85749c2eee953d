//! Names as keys of TOML.

/// A name as a key of TOML.
pub(crate) fn toml_key(name: &str) -> String {
    toml_edit::Key::new(name).to_string()
}
