//! The console's SET: changes one setting while Weir runs.
//!
//! Pools follow the global value, unless the file gives them their own. A setting that requires reading a file can't
//! be changed this way, since this crate does no I/O.

use std::fmt;
use std::sync::Arc;

use weir_auth::{Ldap, Method, Oauth};

use crate::edit::find_exposure_by_set;
use crate::kind::Kind;
use crate::model::{Config, PoolConfig};
use crate::origin::FileFormat;
use crate::settings;
use crate::suggest::nearest;
use crate::table::{Effect, Field, Section, Setting};
use crate::tls;

/// Why a setting can't be changed. Holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetError {
    /// There is no such setting.
    Unknown(String),
    /// The setting can't be changed this way.
    Fixed(String),
    /// The value is invalid.
    Unfit(String),
    /// The change would send a stored secret to a new target, or in a way in which the secret is not sent now.
    Exposes(String),
}

impl SetError {
    /// The reason, in one line.
    pub fn reason(&self) -> &str {
        let (SetError::Unknown(why) | SetError::Fixed(why) | SetError::Unfit(why) | SetError::Exposes(why)) = self;
        why
    }
}

/// The message, which begins with PgBouncer's text.
impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SET failed: {}", self.reason())
    }
}

impl std::error::Error for SetError {}

/// The configuration with `key` set to `value`. `key` is the name that SHOW CONFIG shows, or TOML's with its section
/// (`limits.size`); `value` is written as in an ini. Settings of encryption become `pending_tls`: a key and its
/// certificate are two settings, so they take effect when their files can be used together ([`apply_tls`]).
///
/// # Errors
///
/// There is no such setting, it can't be changed while Weir runs, the value is invalid, or it exposes a stored secret.
/// Under an ini an administrator may expose one, as with PgBouncer.
pub fn set(config: &Config, key: &str, value: &str) -> Result<Config, SetError> {
    let after = changed(config, key, value)?;
    if config.format == FileFormat::Ini {
        return Ok(after);
    }
    match find_exposure_by_set(config, &after) {
        None => Ok(after),
        Some(exposure) => Err(SetError::Exposes(format!("{}: change the file, and RELOAD", exposure.message))),
    }
}

fn changed(config: &Config, key: &str, value: &str) -> Result<Config, SetError> {
    let setting = find_changeable(key)?;
    if ["auth.file", "auth.hba_file", "auth.ident_file"].contains(&setting.key().as_str()) {
        return Err(SetError::Fixed(format!(
            "{key} names a file that has to be read: change the settings' file, and RELOAD"
        )));
    }
    let refused = |e: String| SetError::Unfit(format!("{key} {e}"));
    if is_of_tls(setting) {
        let mut pending = with_pending_tls(config);
        if let Some(field) = setting.field_mut(&mut pending) {
            setting.write_ini(field, value.trim()).map_err(refused)?;
        }
        return Ok(Config { pending_tls: Some(Box::new(pending.tls)), ..config.clone() });
    }
    let mut config = config.clone();
    if let Some(field) = setting.field_mut(&mut config) {
        setting.write_ini(field, value.trim()).map_err(refused)?;
    }
    if config.auth.method == Method::Hba && config.auth.hba.is_none() {
        return Err(SetError::Unfit(
            "type hba needs rules that have to be read: change the settings' file, and RELOAD".into(),
        ));
    }
    config.auth.ldap = None;
    if config.auth.method == Method::Ldap {
        let options = config.auth.ldap_options.as_deref();
        let options =
            options.ok_or_else(|| SetError::Unfit("type ldap needs auth_ldap_options: set it first".into()))?;
        config.auth.ldap = Some(Ldap::parse(options).map_err(refused)?);
    }
    config.auth.oauth = None;
    if config.auth.method == Method::Oauth {
        let options = config.auth.oauth_options.as_deref();
        let options =
            options.ok_or_else(|| SetError::Unfit("type oauth needs auth_oauth_options: set it first".into()))?;
        let oauth = Oauth::parse(options).map_err(refused)?;
        oauth.check_map(&config.auth.ident).map_err(refused)?;
        config.auth.oauth = Some(oauth);
    }
    if config.auth.method != Method::Hba {
        config.auth.hba = None;
    }
    let follow = |pool: &Arc<PoolConfig>| followed(setting, &config, pool, value.trim());
    let pools = config.pools.iter().map(|(name, pool)| (name.clone(), follow(pool))).collect();
    let fallback = config.fallback.as_ref().map(follow);
    Ok(Config { pools, fallback, ..config })
}

/// Whether a setting that may change while Weir runs is one of encryption, whose files [`apply_tls`] reads.
pub fn is_about_tls(key: &str) -> bool {
    find_changeable(key).is_ok_and(is_of_tls)
}

fn is_of_tls(setting: &Setting) -> bool {
    matches!(setting.section, Section::TlsClient | Section::TlsServer)
}

/// The configuration with its pending settings of encryption in force.
///
/// # Errors
///
/// Why these settings can't work together, in a line.
pub fn apply_tls(config: &Config) -> Result<Config, String> {
    let config = with_pending_tls(config);
    let unfit = tls::check(&config).next();
    unfit.map_or(Ok(config), |unfit| Err(unfit.message))
}

fn with_pending_tls(config: &Config) -> Config {
    let mut config = config.clone();
    if let Some(tls) = config.pending_tls.take() {
        config.tls = *tls;
    }
    config
}

/// The setting `key`, which has a global value and may change while Weir runs.
pub(crate) fn find_changeable(key: &str) -> Result<&'static Setting, SetError> {
    let setting = find(key)?;
    if setting.effect == Effect::Restart {
        let why = format!("{key} can't be changed while Weir runs: change the file, and start it again");
        return Err(SetError::Fixed(why));
    }
    Ok(setting)
}

/// The setting `key`, which has a global value: a key of a section with a name has none.
pub(crate) fn find(key: &str) -> Result<&'static Setting, SetError> {
    let mut blank = Config::default();
    let mut is_one_for_all = |s: &&Setting| s.field_mut(&mut blank).is_some() && s.kind != Kind::Users;
    if let Some(named) = settings::all().filter(&mut is_one_for_all).find(|s| s.shown_name() == key || s.key() == key) {
        return Ok(named);
    }
    let others = settings::all().filter(|s| !is_one_for_all(s) && (s.name == key || s.key() == key));
    let places: Vec<String> = others.map(|setting| setting.section.title()).collect();
    if !places.is_empty() {
        let places = places.join(" or ");
        return Err(SetError::Fixed(format!("{key} belongs in {places}: change the file, and RELOAD")));
    }
    let known = settings::all().filter(&mut is_one_for_all).map(Setting::shown_name);
    let near = nearest(key, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let shown: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    Err(SetError::Unknown(format!("unknown parameter \"{shown}\"{near}")))
}

/// A pool after the global `setting` has changed.
fn followed(setting: &Setting, config: &Config, pool: &Arc<PoolConfig>, value: &str) -> Arc<PoolConfig> {
    // In TOML a pool's setting has the name of the global one.
    if config.locations.contains(&format!("pools.{}.{}", pool.name, setting.name)) {
        return pool.clone();
    }
    let mut own = PoolConfig::clone(pool);
    let field = match setting.field {
        Field::Limits(field) => field(&mut own.limits),
        Field::Policy(field) => field(&mut own.policy),
        _ => return pool.clone(),
    };
    let written = setting.write_ini(field, value);
    debug_assert!(written.is_ok(), "it suited the one for all");
    Arc::new(own)
}
