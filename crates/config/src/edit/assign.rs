//! A setting that is one for all, given another value: by the name and in the form of the console's SET.
//!
//! An [`Assignment`] is one that may be: there is such a setting, it may change while Weir runs, and the value suits
//! it. What only the whole configuration shows is found when that is read.

use std::fmt;

use crate::field::FieldMut;
use crate::model::Config;
use crate::set::{SetError, find, find_changeable};
use crate::table::{Effect, Setting};

use super::Value;

/// A setting and its next value.
#[derive(Clone)]
pub struct Assignment {
    setting: &'static Setting,
    text: String,
}

/// Whether the setting that SHOW CONFIG calls `name` can be given another value while Weir runs.
pub fn is_settable(name: &str) -> bool {
    find(name).is_ok_and(|setting| setting.effect != Effect::Restart && !setting.is_inert() && !names_file(setting))
}

/// Whether a setting names a file that is read or written: which those are, only the settings' file says.
fn names_file(setting: &Setting) -> bool {
    matches!(setting.field_mut(&mut Config::default()), Some(FieldMut::Path(_)))
}

impl Assignment {
    /// Gives the setting `name` the value `text`, both as SET takes them.
    ///
    /// # Errors
    ///
    /// There is no such setting, it can't be changed while Weir runs, it names a file, it does nothing, or the value
    /// does not suit it.
    pub fn new(name: &str, text: &str) -> Result<Assignment, SetError> {
        let setting = find_changeable(name)?;
        if setting.is_inert() {
            return Err(SetError::Fixed(format!("{name} does nothing here: {}", setting.doc)));
        }
        if names_file(setting) {
            return Err(SetError::Fixed(format!("{name} names a file: change the settings' file, and RELOAD")));
        }
        let assign = Assignment { setting, text: text.trim().to_owned() };
        let mut scratch = Config::default();
        match setting.field_mut(&mut scratch).map(|field| setting.write_ini(field, &assign.text)) {
            Some(Err(why)) => Err(SetError::Unfit(format!("{name} {why}"))),
            Some(Ok(())) | None => Ok(assign),
        }
    }

    /// The name that SHOW CONFIG gives the setting.
    pub fn name(&self) -> &'static str {
        self.setting.shown_name()
    }

    pub(super) fn setting(&self) -> &'static Setting {
        self.setting
    }

    /// The value as SET takes it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The setting's dotted name.
    pub(super) fn place(&self) -> String {
        self.setting.key()
    }

    /// The value as a file has it; without one the key is taken out.
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
