//! The files of rules that type `hba` goes by: fetched, read, and checked against each other.

use std::path::Path;
use std::sync::Arc;

use weir_auth::{Hba, IdentMaps, Method, RuleError};

use crate::error::ConfigError;
use crate::load::ReadFile;
use crate::model::Config;
use crate::origin::Face;
use crate::wording;

/// Fetches the rules, if the method goes by them.
pub(crate) fn load(config: &mut Config, read: ReadFile<'_>) -> Result<(), ConfigError> {
    if config.auth.method != Method::Hba {
        return Ok(());
    }
    if let Some(file) = config.auth.ident_file.clone() {
        let text = fetch(config, "auth.ident_file", &file, read)?;
        let maps = IdentMaps::parse(&text).map_err(|errors| of_rules(&file, errors))?;
        config.auth.ident = Arc::new(maps);
    }
    let Some(file) = config.auth.hba_file.clone() else {
        let name = if config.face == Face::Ini { "auth_hba_file" } else { "hba_file" };
        let hint = format!("name the file of rules as {name}, or use another type");
        return Err(wording::error_at(
            &config.source,
            config.lines.near("auth.type"),
            "type hba needs a file of rules",
            Some(hint),
        ));
    };
    let text = fetch(config, "auth.hba_file", &file, read)?;
    let beside = |name: &str| {
        let path = file.parent().map_or_else(|| Path::new(name).to_owned(), |folder| folder.join(name));
        read(&path).map_err(|e| e.to_string())
    };
    let rules = Hba::parse(&text, &beside).map_err(|errors| of_rules(&file, errors))?;
    rules.check_maps(&config.auth.ident).map_err(|errors| of_rules(&file, errors))?;
    config.auth.hba = Some(Arc::new(rules));
    Ok(())
}

fn fetch(config: &Config, key: &str, file: &Path, read: ReadFile<'_>) -> Result<String, ConfigError> {
    read(file).map_err(|e| {
        let message = format!("the file of rules {} can't be read: {e}", file.display());
        let hint = "create it, or name another".to_owned();
        wording::error_at(&config.source, config.lines.near(key), &message, Some(hint))
    })
}

/// The first of the errors; the others are counted.
fn of_rules(file: &Path, errors: Vec<RuleError>) -> ConfigError {
    let more = errors.len().saturating_sub(1);
    let hint = (more > 0).then(|| format!("{more} more lines can't be used either"));
    match errors.first() {
        Some(error) => ConfigError::new(file, Some(error.line), &error.message, hint),
        None => ConfigError::new(file, None, "can't be used", hint),
    }
}
