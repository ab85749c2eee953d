//! A change of one global setting: by the name and in the form of the console's SET.
//!
//! An [`Assignment`] is valid by itself: the setting exists, may change while Weir runs, and accepts the value. Errors
//! that concern several settings are found when the whole configuration is read.

use std::fmt;

use crate::elsewhere;
use crate::field::FieldMut;
use crate::model::Config;
use crate::names::BLANK_PANEL;
use crate::set::{SetError, find, find_changeable};
use crate::table::{Effect, Section, Setting};

use super::{Edit, Value};

/// A setting and its new value.
#[derive(Clone)]
pub struct Assignment {
    setting: &'static Setting,
    text: String,
}

impl Assignment {
    /// The setting's name, if the value is a reference to the environment or a file.
    pub(super) fn refers(&self) -> Option<&'static str> {
        let refers = self.text.split(',').any(|part| elsewhere::is_reference(part.trim_start_matches([' ', '[', '"'])));
        (refers && elsewhere::may_refer(self.setting)).then_some(self.setting.name)
    }
}

/// Whether the setting with this name in SHOW CONFIG can change while Weir runs.
pub fn is_settable(name: &str) -> bool {
    find(name).is_ok_and(|setting| setting.effect != Effect::Restart && !setting.is_inert() && !names_file(setting))
}

/// Whether a setting names a file that is read or written, the LDAP server that clients' passwords are sent to, the
/// issuer whose tokens are accepted, or a target of alerts, which may name a file, or says who may log in, or where figures go: only the settings' file may
/// change that.
fn names_file(setting: &Setting) -> bool {
    let of_alerts = setting.section == Section::Alerts;
    if matches!(setting.section, Section::WebOidc | Section::Telemetry) || setting.name == "oauth_options" {
        return true;
    }
    match setting.field_mut(&mut Config::default()) {
        Some(FieldMut::Path(_) | FieldMut::Concealed(_)) => true,
        Some(FieldMut::Line(_)) => of_alerts,
        _ => false,
    }
}

/// The address of the panel, as a setting: a file that had none gets it with its first one, so that the panel that
/// wrote it is there after a restart too.
pub fn panel_address() -> Edit {
    let setting = Section::Web.find("address").expect("a setting");
    Edit::Setting(Assignment { setting, text: BLANK_PANEL.to_string() })
}

impl Assignment {
    /// Sets the setting `name` to `text`, both as SET accepts them.
    ///
    /// # Errors
    ///
    /// There is no such setting, it can't be changed while Weir runs, it names a file, it has no effect, or the value
    /// is invalid.
    pub fn new(name: &str, text: &str) -> Result<Assignment, SetError> {
        let setting = find_changeable(name)?;
        if setting.is_inert() {
            return Err(SetError::Fixed(format!("{name} does nothing here: {}", setting.doc)));
        }
        if names_file(setting) {
            return Err(SetError::Fixed(format!(
                "{name} names a file or a target: change the settings' file, and RELOAD"
            )));
        }
        let assign = Assignment { setting, text: text.trim().to_owned() };
        let mut scratch = Config::default();
        match setting.field_mut(&mut scratch).map(|field| setting.write_ini(field, &assign.text)) {
            Some(Err(why)) => Err(SetError::Unfit(format!("{name} {why}"))),
            Some(Ok(())) | None => Ok(assign),
        }
    }

    /// The setting's name in SHOW CONFIG.
    pub fn name(&self) -> &'static str {
        self.setting.shown_name()
    }

    pub(super) fn setting(&self) -> &'static Setting {
        self.setting
    }

    /// The value in the form of SET.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The setting's dotted name.
    pub(super) fn place(&self) -> String {
        self.setting.key()
    }

    /// The value in the form of a file; none: the key is removed.
    pub(super) fn value(&self) -> Option<Value> {
        let mut scratch = Config::default();
        let written = self.setting.write_ini(self.setting.field_mut(&mut scratch)?, &self.text);
        debug_assert!(written.is_ok(), "it was tried when this was made");
        Value::of_field(&self.setting.field_mut(&mut scratch)?, self.setting.kind)
    }
}

impl PartialEq for Assignment {
    fn eq(&self, other: &Assignment) -> bool {
        (self.place(), &self.text) == (other.place(), &other.text)
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Assignment").field(&self.place()).finish()
    }
}
