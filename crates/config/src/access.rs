//! What a type of login goes by beside the settings: the files of rules of `hba`, fetched, read and checked against
//! each other, and the options of `ldap` and `oauth`.

use std::path::Path;
use std::sync::Arc;

use weir_auth::{Hba, IdentMaps, Ldap, Method, Oauth, RuleError};

use crate::error::{ConfigError, Found};
use crate::model::Config;
use crate::origin::FileFormat;
use crate::origin::ReadFile;
use crate::wording;

/// Reads what the method goes by, if that is not in the settings' own fields: rules, or the options of LDAP or OAuth.
pub(crate) fn load(config: &mut Config, read: ReadFile<'_>, found: &mut Found) {
    match config.auth.method {
        Method::Ldap => ldap(config, found),
        Method::Oauth => oauth(config, read, found),
        Method::Hba => rules(config, read, found),
        _ => {}
    }
}

/// Reads the options of type `ldap`.
fn ldap(config: &mut Config, found: &mut Found) {
    let name = if config.format == FileFormat::Ini { "auth_ldap_options" } else { "ldap_options" };
    let Some(options) = &config.auth.ldap_options else {
        let hint = format!("say where and how in {name}, as in ldapurl=\"ldap://HOST/BASE?uid?sub\"");
        let place = config.locations.nearest("auth.type");
        return found.note(wording::error_at(&config.source, place, "type ldap needs options", Some(hint)));
    };
    match Ldap::parse(options) {
        Ok(ldap) => config.auth.ldap = Some(ldap),
        Err(why) => {
            let place = config.locations.nearest("auth.ldap_options");
            found.note(wording::error_at(&config.source, place, &why, None));
        }
    }
}

/// Reads the options of type `oauth`, and the maps that they may name.
fn oauth(config: &mut Config, read: ReadFile<'_>, found: &mut Found) {
    let name = if config.format == FileFormat::Ini { "auth_oauth_options" } else { "oauth_options" };
    let Some(options) = config.auth.oauth_options.clone() else {
        let hint =
            format!("say which tokens in {name}, as in issuer=\"https://HOST\" scope=\"openid\" audience=\"weir\"");
        let place = config.locations.nearest("auth.type");
        return found.note(wording::error_at(&config.source, place, "type oauth needs options", Some(hint)));
    };
    let Some(maps) = maps(config, read, found) else { return };
    match Oauth::parse(&options).and_then(|oauth| oauth.check_map(&maps).map(|()| oauth)) {
        Ok(oauth) => {
            config.auth.ident = Arc::new(maps);
            config.auth.oauth = Some(oauth);
        }
        Err(why) => {
            let place = config.locations.nearest("auth.oauth_options");
            found.note(wording::error_at(&config.source, place, &why, None));
        }
    }
}

/// The maps of the ident file, if there is one; none: the file has a mistake, which is noted.
fn maps(config: &Config, read: ReadFile<'_>, found: &mut Found) -> Option<IdentMaps> {
    let Some(file) = config.auth.ident_file.clone() else { return Some(IdentMaps::default()) };
    let text = found.take(fetch(config, "auth.ident_file", &file, read))?;
    IdentMaps::parse(&text).map_err(|errors| note(&file, errors, found)).ok()
}

/// Fetches the rules of type `hba`.
fn rules(config: &mut Config, read: ReadFile<'_>, found: &mut Found) {
    let maps = maps(config, read, found);
    let Some(file) = config.auth.hba_file.clone() else {
        let name = if config.format == FileFormat::Ini { "auth_hba_file" } else { "hba_file" };
        let hint = format!("name the file of rules as {name}, or use another type");
        let place = config.locations.nearest("auth.type");
        return found.note(wording::error_at(&config.source, place, "type hba needs a file of rules", Some(hint)));
    };
    let Some(text) = found.take(fetch(config, "auth.hba_file", &file, read)) else { return };
    let beside = |name: &str| {
        let path = file.parent().map_or_else(|| Path::new(name).to_owned(), |folder| folder.join(name));
        read(&path).map_err(|e| e.to_string())
    };
    let Ok(rules) = Hba::parse(&text, &beside).map_err(|errors| note(&file, errors, found)) else { return };
    // No report about a missing map where the file of maps is invalid.
    let Some(maps) = maps else { return };
    if let Err(errors) = rules.check_maps(&maps) {
        note(&file, errors, found);
    }
    config.auth.ident = Arc::new(maps);
    config.auth.hba = Some(Arc::new(rules));
}

fn fetch(config: &Config, key: &str, file: &Path, read: ReadFile<'_>) -> Result<String, ConfigError> {
    read(file).map_err(|e| {
        let message = format!("the file of rules {} can't be read: {e}", file.display());
        let hint = "create it, or name another".to_owned();
        wording::error_at(&config.source, config.locations.nearest(key), &message, Some(hint))
    })
}

fn note(file: &Path, errors: Vec<RuleError>, found: &mut Found) {
    errors.into_iter().for_each(|error| found.note(ConfigError::new(file, Some(error.line), &error.message, None)));
}
