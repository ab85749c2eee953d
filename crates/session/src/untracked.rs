//! Untracked parameters that a client has set: at its login, if Weir is configured to set them for it, or later, if its
//! server reports them or is asked.
//!
//! Owns their values of one client or one server, by name, and which names are possible. A server has the value that
//! was last set there for a client, and its default before.

use std::sync::Arc;

/// The most untracked parameters that a client may set.
const MAX: usize = 64;

/// Parameters that RESET ALL leaves unchanged (guc_tables.c, GUC_NO_RESET_ALL), whose values could reach another
/// client, or that no client can set.
const NEVER: [&str; 7] = [
    "is_superuser",
    "role",
    "seed",
    "session_authorization",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// Why a parameter can't follow a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadParam {
    /// The name is not tracked, or can't follow a client.
    Unknown,
    /// The value is too long, or holds bytes that can't be quoted safely in every encoding.
    Value,
}

/// See the head of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Untracked {
    /// By name, which is in lower case.
    values: Vec<(Box<str>, Arc<str>)>,
}

impl Untracked {
    /// Sets a parameter, whose value is known to be possible.
    ///
    /// # Errors
    /// The name is not a parameter's, or one that can't follow a client; or there are too many.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), BadParam> {
        self.set_within(MAX, name, value)
    }

    /// Sets a parameter that was set elsewhere, however many there are.
    ///
    /// # Errors
    /// The name is one that can't follow a client.
    pub(crate) fn restore(&mut self, name: &str, value: &str) -> Result<(), BadParam> {
        self.set_within(usize::MAX, name, value)
    }

    fn set_within(&mut self, most: usize, name: &str, value: &str) -> Result<(), BadParam> {
        let name = name.to_ascii_lowercase();
        if !is_name(&name) || NEVER.contains(&&*name) {
            return Err(BadParam::Unknown);
        }
        match self.values.binary_search_by(|(known, _)| (**known).cmp(&name)) {
            Ok(at) => self.values[at].1 = value.into(),
            Err(_) if self.values.len() >= most => return Err(BadParam::Value),
            Err(at) => self.values.insert(at, (name.into(), value.into())),
        }
        Ok(())
    }

    /// Sets a parameter if it is possible, or takes it back.
    pub(crate) fn put(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => drop(self.set(name, value)),
            None => self.values.retain(|(known, _)| !known.eq_ignore_ascii_case(name)),
        }
    }

    /// Every parameter with its value, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What makes a server agree with a client: the names that it has and the client has not, which return to their
    /// defaults, and the values that differ.
    pub(crate) fn differences<'a>(
        client: &'a Untracked,
        server: &'a Untracked,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        let gone = server.iter().filter(|(name, _)| client.get(name).is_none()).map(|(name, _)| (name, None));
        let new = client.iter().filter(|(name, value)| server.get(name) != Some(value));
        gone.chain(new.map(|(name, value)| (name, Some(value))))
    }

    /// The values are unknown: `value` is one that no client can have.
    pub(crate) fn doubt(&mut self, value: &str) {
        self.values.iter_mut().for_each(|(_, known)| *known = value.into());
    }

    /// The value of a parameter; its name is in lower case where it was set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let at = self.values.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&*self.values[at].1)
    }
}

/// Whether `name` is a parameter's name: identifiers with dots between them (guc.c, valid_custom_variable_name), so
/// that it needs no escape in a query.
pub(crate) fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
    };
    name.len() < 64 && name.split('.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, &str)]) -> Untracked {
        let mut set = Untracked::default();
        values.iter().for_each(|(name, value)| set.set(name, value).unwrap());
        set
    }

    #[test]
    fn what_a_server_lacks_is_set_and_what_it_has_too_much_is_reset() {
        let client = of(&[("Work_Mem", "1MB"), ("my.own", "x")]);
        let server = of(&[("work_mem", "1MB"), ("my.own", "y"), ("jit_above_cost", "1")]);
        let differences: Vec<_> = Untracked::differences(&client, &server).collect();
        assert_eq!(differences, [("jit_above_cost", None), ("my.own", Some("x"))]);
        assert_eq!(Untracked::differences(&client, &client.clone()).count(), 0);
    }

    #[test]
    fn names_that_need_an_escape_or_outlive_a_reset_are_refused() {
        let mut set = Untracked::default();
        let long = "x".repeat(64);
        for name in ["", ".", "a.", ".a", "1a", "a b", "a\"b", "a'b", "a;b", "a-b", "é", &long, "ROLE", "seed"] {
            assert_eq!(set.set(name, "1"), Err(BadParam::Unknown), "{name}");
        }
        assert!(set.is_empty());
        for name in ["a.b.c", "_a", "a$1"] {
            set.set(name, "1").unwrap();
        }
    }
}
