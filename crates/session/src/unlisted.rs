//! Parameters that a server reports although the table of tracked ones does not list them: those of newer versions, of
//! extensions, and of servers that are made from PostgreSQL's source.
//!
//! Owns their names and their values at the server's login, for one server. Must not know what clients do with them.
//!
//! Bounded: [`MOST`] parameters of a server, each with a value that could be set again.

use std::sync::Arc;

use crate::untracked::is_name;

/// Reported, and never a client's: nobody can set them (PostgreSQL's documentation, "Preset Options").
const OF_SERVERS: [&str; 5] =
    ["in_hot_standby", "integer_datetimes", "is_superuser", "server_encoding", "server_version"];

/// The most parameters of a server.
const MOST: usize = 16;

/// The longest value, in bytes.
const MAX_VALUE: usize = 1_000;

/// See the head of the file. Shared between all that know the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Unlisted(Option<Arc<Vec<ServerDefault>>>);

/// A parameter, and its value where no client has set it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ServerDefault {
    name: Box<str>,
    value: Box<str>,
}

impl Unlisted {
    /// A server reports a parameter of its own.
    pub(crate) fn report(&mut self, name: &str, value: &str) {
        if OF_SERVERS.contains(&name) || !is_name(name) || !fits(value) {
            return;
        }
        let all = Arc::make_mut(self.0.get_or_insert_default());
        if let Some(at) = all.iter().position(|known| *known.name == *name) {
            all[at].value = value.into();
        } else if all.len() < MOST {
            all.push(ServerDefault { name: name.into(), value: value.into() });
        }
    }

    /// What the server has where no client has set the parameter of this name; `None` if it does not report that.
    pub(crate) fn default_of(&self, name: &str) -> Option<&str> {
        let all = self.0.as_deref()?;
        all.iter().find(|known| known.name.eq_ignore_ascii_case(name)).map(|known| &*known.value)
    }
}

/// Whether a value may be kept for a client, and set on another server whatever the encoding there.
pub(crate) fn fits(value: &str) -> bool {
    value.len() <= MAX_VALUE && value.bytes().all(|b| (b' '..=b'~').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_set_and_what_is_too_much_is_not_remembered() {
        let mut unlisted = Unlisted::default();
        unlisted.report("is_superuser", "on");
        unlisted.report("a b", "on");
        unlisted.report("long", &"x".repeat(MAX_VALUE + 1));
        assert_eq!(unlisted, Unlisted::default());
        (0..100).for_each(|n| unlisted.report(&format!("p{n}"), "1"));
        unlisted.report("p3", "2");
        let known = |name| unlisted.default_of(name);
        assert_eq!((known("P3"), known("p15"), known("p16")), (Some("2"), Some("1"), None));
    }
}
