//! The keys of a pool's section, for programs that show them to a person.

use crate::kind::Kind;
use crate::table::{Section, Setting};

/// A key of a pool's section, from the table of settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolKey {
    /// The key's name in TOML.
    pub key: &'static str,
    /// The kind of the key's values: `number`, `time`, `size`, `flag`, `word`, `text`, `query`, `secret`, `list`, or
    /// `numbers` (one or a list of them).
    pub kind: &'static str,
    /// The accepted words of kind `word`; none for the others.
    pub words: &'static [&'static str],
    /// The global setting that applies to pools without this key, by its name in SHOW CONFIG.
    pub setting: Option<&'static str>,
    /// The key's name in a pgbouncer.ini, in a line of `[databases]` or else in `[pgbouncer]`; none if PgBouncer has
    /// none.
    pub pgbouncer: Option<&'static str>,
    /// What the key does, in Markdown.
    pub description: &'static str,
}

/// All keys of a pool, in the order of the reference.
pub fn pool_key_table() -> impl Iterator<Item = PoolKey> {
    let key = |setting: &'static Setting| PoolKey {
        key: setting.name,
        kind: setting.kind.name(),
        words: if let Kind::Word(words) = setting.kind { words } else { &[] },
        setting: (setting.section != Section::Pool).then(|| setting.shown_name()),
        pgbouncer: setting
            .ini_database
            .first()
            .copied()
            .or(setting.ini)
            .filter(|_| setting.origin == crate::table::Origin::PgBouncer),
        description: setting.doc,
    };
    Section::Pool.settings().map(key)
}
