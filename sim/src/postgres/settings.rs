//! A session's settings: present values, values to restore, values reported to the client.
//!
//! Owns the spelling of values and transactional semantics: SET is undone by a rollback, SET LOCAL by any end of a
//! transaction (PostgreSQL's documentation, "SET").

use std::array;
use std::borrow::Cow;

/// The settings whose changes a server reports, with their defaults (documentation, "Asynchronous Operations").
pub(crate) const REPORTED: [(&str, &str); 13] = [
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "Etc/UTC"),
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("is_superuser", "off"),
    ("scram_iterations", "4096"),
    ("server_encoding", "UTF8"),
    ("server_version", "17.2"),
    ("standard_conforming_strings", "on"),
];

/// The settings that a pooler applies for its client on each server.
pub(crate) const TRACKED: [&str; 8] = [
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "application_name",
    "client_encoding",
    "standard_conforming_strings",
    "default_transaction_read_only",
    "scram_iterations",
];

/// Settings that a server never reports. One of two parts is in no view either.
pub(crate) const UNREPORTED: [(&str, &str); 4] =
    [("app.tenant", ""), ("lock_timeout", "0"), ("statement_timeout", "0"), ("work_mem", "4096")];

/// Known, but neither reported nor compared: drivers set it at startup, and poolers may apply it on servers.
const QUIET: (&str, &str) = ("extra_float_digits", "1");

/// How many settings are known.
const KNOWN: usize = REPORTED.len() + UNREPORTED.len() + 1;

/// Name and default of a setting by index: first the reported ones, then the unreported ones, then the quiet one.
fn place(place: usize) -> (&'static str, &'static str) {
    let unreported = REPORTED.len() + UNREPORTED.len();
    match place {
        _ if place < REPORTED.len() => REPORTED[place],
        _ if place < unreported => UNREPORTED[place - REPORTED.len()],
        _ => QUIET,
    }
}

/// All values by index. Borrowed while unchanged, because there are many sessions and few changed values.
type Values = [Cow<'static, str>; KNOWN];

/// The settings of one session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The values that RESET restores: the defaults and the startup message's parameters.
    startup: Values,
    session: Values,
    /// The values of SET LOCAL, by index.
    local: Vec<(usize, String)>,
    in_transaction: bool,
    /// The session's values at the beginning of the transaction, once it has changed one.
    saved: Option<Values>,
    /// The values last reported to the client.
    reported: Values,
    /// A value may have changed since the last report.
    changed_since_report: bool,
}

impl Settings {
    /// The settings of a session that began with these parameters; unknown names are ignored.
    pub(crate) fn new<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Settings {
        let mut startup: Values = array::from_fn(|at| Cow::Borrowed(place(at).1));
        for (name, value) in parameters {
            if let Some(at) = known(name)
                && let Some(value) = canonical(place(at).0, value, &startup[at])
            {
                startup[at] = value.into();
            }
        }
        let (session, reported, local) = (startup.clone(), startup.clone(), Vec::new());
        Settings { startup, session, local, in_transaction: false, saved: None, reported, changed_since_report: false }
    }

    /// The value of a setting.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        known(name).map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> &str {
        let local = self.local.iter().find(|(place, _)| *place == at);
        local.map_or(&*self.session[at], |(_, value)| value)
    }

    /// All reported settings with their values.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.iter().enumerate().map(|(at, (name, _))| (*name, self.at(at)))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 22023 for a value it can't have, 55P02 for a setting that can't be changed.
    pub(crate) fn set(&mut self, name: &str, value: &str, local: bool) -> Result<(), &'static str> {
        let at = known(name).ok_or("42704")?;
        let name = place(at).0;
        if at < REPORTED.len() && !TRACKED.contains(&name) {
            return Err("55P02");
        }
        let value = canonical(name, value, self.at(at)).ok_or("22023")?;
        self.note_change();
        self.local.retain(|(place, _)| *place != at);
        if local {
            self.local.push((at, value));
        } else {
            self.session[at] = value.into();
        }
        Ok(())
    }

    /// RESET of one setting.
    pub(crate) fn reset(&mut self, name: &str) -> Result<(), &'static str> {
        let at = known(name).ok_or("42704")?;
        self.note_change();
        self.local.retain(|(place, _)| *place != at);
        self.session[at] = self.startup[at].clone();
        Ok(())
    }

    /// RESET ALL.
    pub(crate) fn reset_all(&mut self) {
        self.note_change();
        self.local.clear();
        self.session = self.startup.clone();
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        self.in_transaction = true;
    }

    /// The transaction is committed.
    pub(crate) fn commit(&mut self) {
        self.in_transaction = false;
        self.saved = None;
        self.local.clear();
    }

    /// The transaction is rolled back.
    pub(crate) fn rollback(&mut self) {
        self.in_transaction = false;
        if let Some(saved) = self.saved.take() {
            self.session = saved;
        }
        self.local.clear();
    }

    fn note_change(&mut self) {
        self.changed_since_report = true;
        if self.in_transaction && self.saved.is_none() {
            self.saved = Some(self.session.clone());
        }
    }

    /// The reported settings that changed since the last call.
    pub(crate) fn changes(&mut self) -> Vec<(String, String)> {
        if !self.changed_since_report {
            return Vec::new();
        }
        // The end of a transaction drops local values without a call of `note_change`.
        self.changed_since_report = !self.local.is_empty() || self.saved.is_some();
        let changed: Vec<(String, String)> = self
            .reported()
            .enumerate()
            .filter(|(at, (_, value))| self.reported[*at] != *value)
            .map(|(_, (name, value))| (name.to_owned(), value.to_owned()))
            .collect();
        for at in 0..REPORTED.len() {
            if self.reported[at] != *self.at(at) {
                self.reported[at] = self.at(at).to_owned().into();
            }
        }
        changed
    }

    /// The unreported settings that do not have the values they began with, as text.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let differs = |at: &usize| *self.at(*at) != *self.startup[*at];
        unreported().filter(differs).map(|at| format!("{}={}", place(at).0, self.at(at))).collect()
    }

    /// The settings that the session has set, with their values: those of two parts, too.
    pub(crate) fn of_session(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let differs = |at: &usize| *self.session[*at] != *self.startup[*at];
        (0..KNOWN).filter(differs).map(|at| (place(at).0, &*self.session[at]))
    }

    /// Resets the unreported settings, as a pooler that resets or replaces servers guarantees.
    pub(crate) fn forget_unreported(&mut self) {
        for at in unreported() {
            self.session[at] = self.startup[at].clone();
        }
    }
}

/// Whether two spellings of a setting's value mean the same.
pub(crate) fn same_value(name: &str, a: &str, b: &str) -> bool {
    a == b || canonical(name, a, a) == canonical(name, b, a)
}

fn known(name: &str) -> Option<usize> {
    (0..KNOWN).find(|at| place(*at).0.eq_ignore_ascii_case(name))
}

fn unreported() -> std::ops::Range<usize> {
    REPORTED.len()..REPORTED.len() + UNREPORTED.len()
}

/// The spelling in which a server shows a value that is given where `before` is in force; `None` if the setting can't have it.
fn canonical(name: &str, value: &str, before: &str) -> Option<String> {
    let lower = value.to_ascii_lowercase();
    Some(match name {
        "client_encoding" => {
            let plain: String = lower.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            match plain.as_str() {
                "utf8" | "unicode" => "UTF8".to_owned(),
                "latin1" => "LATIN1".to_owned(),
                "sqlascii" => "SQL_ASCII".to_owned(),
                _ => return None,
            }
        }
        "DateStyle" => {
            let mut parts = lower.split(',').map(str::trim);
            let (style, given) = (parts.next()?, parts.next());
            let before = before.rsplit(", ").next().unwrap_or_default().to_ascii_lowercase();
            let order = given.unwrap_or(if style == "german" { "dmy" } else { &before });
            let style = match style {
                "iso" => "ISO",
                "german" => "German",
                "sql" => "SQL",
                _ => return None,
            };
            matches!(order, "mdy" | "dmy" | "ymd").then(|| format!("{style}, {}", order.to_ascii_uppercase()))?
        }
        "IntervalStyle" => matches!(lower.as_str(), "postgres" | "iso_8601" | "sql_standard").then_some(lower)?,
        "standard_conforming_strings" | "default_transaction_read_only" => match lower.as_str() {
            "on" | "true" | "1" | "yes" => "on".to_owned(),
            "off" | "false" | "0" | "no" => "off".to_owned(),
            _ => return None,
        },
        "TimeZone" => (!value.is_empty() && value != "Nowhere").then(|| value.to_owned())?,
        "scram_iterations" | "work_mem" | "lock_timeout" | "statement_timeout" => {
            value.parse::<u32>().ok()?.to_string()
        }
        _ => value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_undoes_a_set_and_is_reported() {
        let mut settings = Settings::new([("APPLICATION_NAME", "a"), ("unknown", "x")]);
        settings.begin();
        settings.set("application_name", "b", false).unwrap();
        assert_eq!(settings.changes(), [("application_name".to_owned(), "b".to_owned())]);
        settings.rollback();
        assert_eq!(settings.changes(), [("application_name".to_owned(), "a".to_owned())]);
        assert_eq!(settings.changes(), []);
    }

    #[test]
    fn a_local_set_ends_with_its_transaction() {
        let mut settings = Settings::new([]);
        settings.begin();
        settings.set("work_mem", "1", true).unwrap();
        assert_eq!(settings.leftovers(), ["work_mem=1"]);
        settings.commit();
        assert!(settings.leftovers().is_empty());
        settings.set("work_mem", "2", false).unwrap();
        assert_eq!(settings.leftovers(), ["work_mem=2"]);
        settings.reset_all();
        assert!(settings.leftovers().is_empty());
    }

    #[test]
    fn values_are_shown_in_the_server_s_spelling() {
        let mut settings = Settings::new([]);
        settings.set("datestyle", "iso, dmy", false).unwrap();
        settings.set("CLIENT_ENCODING", "utf-8", false).unwrap();
        assert_eq!((settings.get("DateStyle"), settings.get("client_encoding")), (Some("ISO, DMY"), Some("UTF8")));
        assert_eq!(settings.set("client_encoding", "klingon", false), Err("22023"));
        assert_eq!(settings.set("nonsense", "1", false), Err("42704"));
        assert_eq!(settings.set("server_version", "1", false), Err("55P02"));
    }
}
