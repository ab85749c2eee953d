//! Changes of the configuration while Weir runs: what a change is, and the sum of several changes.
//!
//! A change names a pool or a user and some of its keys, as a file has them, or a global setting (`assign`). Changes
//! are made on a file's text (`rewrite`), with its comments and its order kept; where a file can't be written, they
//! are applied to what is read from it (`overlay`). Either way the result is read and checked like any other file.
//! Values may be secret, so no `Debug` here shows one. `exposure` checks where a change would send a stored secret.

mod assign;
mod changes;
mod exposure;
mod outline;
mod overlay;
mod rewrite;
mod shared;
mod stored_secret;
mod written;

use std::collections::BTreeMap;
use std::fmt;

use toml_edit::{Array, Table};

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::Section;

pub use assign::{Assignment, is_settable, panel_address};
pub use changes::{KeyChange, changes};
pub(crate) use exposure::find_exposure_by_set;
pub use exposure::{Exposure, find_exposure, find_source};
pub use outline::{NotRestored, Restore, hide_queries, outline, outline_changes, restore};
pub(crate) use overlay::lay_over;
pub use rewrite::{is_blank, rewrite};
pub use shared::{
    ENCRYPTED, Replace, concerns_cluster, find_of_node, find_plain_secret, merge, node_part, replace_secrets,
    shared_part, shared_sections,
};
pub use stored_secret::{SALT, SecretForm, secret_form, with_verifiers};
pub use written::{ShownValue, pool_keys, user_keys};

/// The key of a user's secret.
const SECRET: &str = "password";

/// A value, in the form of a file.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// Text; also a time or a size with its unit.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A number with a fraction.
    Fraction(f64),
    /// Yes or no.
    Flag(bool),
    /// A list.
    List(Vec<Value>),
}

/// The kinds of sections that have a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum EntryKind {
    /// A pool: `[pools.NAME]`.
    #[default]
    Pool,
    /// A user: the rules in `[users.NAME]`, and as `password` the secret in `[auth.users]`.
    User,
}

/// Keys of a pool or a user by their names in TOML, each with its value; none: the key is removed, so that its default
/// holds.
#[derive(Clone, PartialEq, Default)]
pub struct Keys {
    about: EntryKind,
    keys: BTreeMap<String, Option<Value>>,
}

/// What a change does to a pool or a user.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation {
    /// Creates the pool or the user, with these keys.
    Create(Keys),
    /// Sets or removes these keys.
    Alter(Keys),
    /// Deletes the pool or the user.
    Drop,
}

/// A change.
#[derive(Clone, PartialEq, Debug)]
pub enum Edit {
    /// A change of one pool, by name.
    Pool(String, Operation),
    /// A change of one user, by name.
    User(String, Operation),
    /// A change of a global setting.
    Setting(Assignment),
    /// A return of the whole file to an earlier version of it.
    Restore(Restore),
}

/// A sequence of changes, summed up for each pool, user and setting.
#[derive(Clone, PartialEq, Default)]
pub struct Edits {
    sections: BTreeMap<(EntryKind, String), Sum>,
    /// Users' secrets, set or removed.
    secrets: BTreeMap<String, Option<String>>,
    /// Global settings, by their dotted names.
    settings: BTreeMap<String, Assignment>,
}

/// The sum of the changes of one section.
#[derive(Clone, PartialEq, Debug)]
enum Sum {
    /// The file's section, with these keys set or removed. If the file has no such pool any more, no effect; a user is
    /// listed in another section, and may have had no rules before.
    Altered(Keys),
    /// A new section with these keys; `hides`: it replaces one that the file may have.
    Made { keys: Keys, hides: bool },
    /// The section is deleted.
    Gone,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EntryKind::Pool => "pool",
            EntryKind::User => "user",
        })
    }
}

impl EntryKind {
    fn section(self) -> Section {
        match self {
            EntryKind::Pool => Section::Pool,
            EntryKind::User => Section::User,
        }
    }
}

impl Keys {
    /// No keys.
    pub fn of(about: EntryKind) -> Keys {
        Keys { about, keys: BTreeMap::new() }
    }

    /// Sets or removes a key; accepts PgBouncer's names as the file does. Returns whether the key was new here.
    pub fn set(&mut self, name: &str, value: Option<Value>) -> bool {
        // Unknown keys are reported when the result is read.
        let name = self.about.section().find(name).map_or(name, |setting| setting.name);
        self.keys.insert(name.to_owned(), value).is_none()
    }

    /// Whether a key gets a value.
    pub fn gives(&self, name: &str) -> bool {
        self.keys.get(name).is_some_and(Option::is_some)
    }

    /// The keys as a table of the file, without the removed ones.
    fn table(&self) -> Table {
        let mut table = Table::new();
        for (name, value) in &self.keys {
            if let Some(value) = value {
                table.insert(name, toml_edit::Item::Value(value.toml()));
            }
        }
        table
    }

    fn add(&mut self, later: Keys) {
        self.keys.extend(later.keys);
    }

    /// Removes a user's secret from the keys: the file has it in another section.
    fn take_secret(&mut self) -> Option<Option<String>> {
        let text = |value| if let Value::Text(text) = value { Some(text) } else { None };
        let is_secret =
            self.about == EntryKind::User && matches!(self.keys.get(SECRET), Some(None | Some(Value::Text(_))));
        is_secret.then(|| self.keys.remove(SECRET).flatten().and_then(text))
    }
}

impl Value {
    /// The value for a reader: text without quotes, anything else as in a file.
    fn words(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            value => value.toml().to_string().trim().to_owned(),
        }
    }

    fn toml(&self) -> toml_edit::Value {
        match self {
            Value::Text(text) => text.as_str().into(),
            Value::Number(number) => (*number).into(),
            Value::Fraction(number) => (*number).into(),
            Value::Flag(flag) => (*flag).into(),
            Value::List(items) => items.iter().map(Value::toml).collect::<Array>().into(),
        }
    }

    /// The value from a file; none for dates and tables, which no setting accepts.
    fn of(value: &toml_edit::Value) -> Option<Value> {
        Some(match value {
            toml_edit::Value::String(text) => Value::Text(text.value().clone()),
            toml_edit::Value::Integer(number) => Value::Number(*number.value()),
            toml_edit::Value::Float(number) => Value::Fraction(*number.value()),
            toml_edit::Value::Boolean(flag) => Value::Flag(*flag.value()),
            toml_edit::Value::Array(items) => Value::List(items.iter().map(Value::of).collect::<Option<_>>()?),
            toml_edit::Value::Datetime(_) | toml_edit::Value::InlineTable(_) => return None,
        })
    }

    /// A field's value in the form of a file; `None` if nothing has to be written.
    fn of_field(field: &FieldMut<'_>, kind: Kind) -> Option<Value> {
        Value::of(&field.toml(kind)?.parse().ok()?)
    }
}

impl Edits {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.secrets.is_empty() && self.settings.is_empty()
    }

    /// Whether one of the changes sets a user's secret.
    pub fn list_users(&self) -> bool {
        self.secrets.values().any(Option::is_some)
    }

    /// The users' secrets that are set or removed.
    pub fn secrets(&self) -> &BTreeMap<String, Option<String>> {
        &self.secrets
    }

    /// Takes the users' secrets out of the changes: those set, and those removed. For a list of users in a file of its
    /// own.
    pub fn take_secrets(&mut self) -> BTreeMap<String, Option<String>> {
        std::mem::take(&mut self.secrets)
    }

    /// Puts secrets back, which could not be written.
    pub fn put_secrets(&mut self, secrets: BTreeMap<String, Option<String>>) {
        self.secrets.extend(secrets);
    }

    /// Appends a change.
    pub fn add(&mut self, edit: Edit) {
        match edit {
            Edit::Pool(name, act) => self.add_to_section((EntryKind::Pool, name), act),
            Edit::User(name, act) => self.add_to_user(name, act),
            Edit::Setting(assign) => drop(self.settings.insert(assign.place(), assign)),
            // A return replaces the file's text, and is in no sum.
            Edit::Restore(_) => {}
        }
    }

    fn add_to_user(&mut self, name: String, mut act: Operation) {
        let secret = match &mut act {
            Operation::Create(keys) | Operation::Alter(keys) => keys.take_secret(),
            Operation::Drop => Some(None),
        };
        let listed = matches!(secret, Some(Some(_)));
        self.secrets.extend(secret.map(|secret| (name.clone(), secret)));
        match &act {
            // A listed user needs no section without rules.
            Operation::Create(keys) if keys.keys.is_empty() && listed => {}
            Operation::Alter(keys) if keys.keys.is_empty() => {}
            _ => self.add_to_section((EntryKind::User, name), act),
        }
    }

    fn add_to_section(&mut self, of: (EntryKind, String), act: Operation) {
        let before = self.sections.remove(&of);
        let sum = match (act, before) {
            (Operation::Create(keys), before) => Sum::Made { keys, hides: before.is_some() },
            (Operation::Alter(keys), None | Some(Sum::Gone)) => Sum::Altered(keys),
            (Operation::Alter(later), Some(Sum::Altered(mut keys))) => {
                keys.add(later);
                Sum::Altered(keys)
            }
            (Operation::Alter(later), Some(Sum::Made { mut keys, hides })) => {
                keys.add(later);
                keys.keys.retain(|_, value| value.is_some());
                Sum::Made { keys, hides }
            }
            // A section that existed only in the changes leaves nothing.
            (Operation::Drop, Some(Sum::Made { hides: false, .. })) => return,
            (Operation::Drop, _) => Sum::Gone,
        };
        self.sections.insert(of, sum);
    }
}

/// The subject of a change, for a sentence.
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Pool(name, _) => write!(f, "pool {}", name.escape_debug()),
            Edit::User(name, _) => write!(f, "user {}", name.escape_debug()),
            Edit::Setting(assign) => f.write_str(assign.name()),
            Edit::Restore(_) => f.write_str("the configuration"),
        }
    }
}

impl From<Edit> for Edits {
    fn from(edit: Edit) -> Edits {
        let mut edits = Edits::default();
        edits.add(edit);
        edits
    }
}

impl fmt::Debug for Edits {
    // A secret must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets: Vec<_> = self.secrets.keys().collect();
        f.debug_tuple("Edits").field(&self.sections).field(&secrets).field(&self.settings).finish()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
