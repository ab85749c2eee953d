//! The kinds of session state that a client may leave on a server, and which of them a command tag implies.

/// A set of kinds of session state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Dirty(u16);

impl Dirty {
    /// No state.
    pub const NONE: Dirty = Dirty(0);
    /// Settings changed with SET or `set_config()`.
    pub const SETTINGS: Dirty = Dirty(1);
    /// LISTEN registrations.
    pub const LISTEN: Dirty = Dirty(1 << 1);
    /// Statements prepared with SQL's PREPARE.
    pub const STATEMENTS: Dirty = Dirty(1 << 2);
    /// Cursors that may outlive their transaction.
    pub const CURSORS: Dirty = Dirty(1 << 3);
    /// Temporary tables, views, sequences and the like.
    pub const TEMP: Dirty = Dirty(1 << 4);
    /// Advisory locks of the session.
    pub const LOCKS: Dirty = Dirty(1 << 5);
    /// The values that the session has drawn of sequences, of which `currval()` and `lastval()` tell.
    pub const SEQUENCES: Dirty = Dirty(1 << 6);
    /// Settings with names of two parts, which a server does not list: with [`Dirty::SETTINGS`] only.
    pub const CUSTOM: Dirty = Dirty(1 << 7);
    /// The setting `default_transaction_read_only`, which a text names; no state by itself.
    pub const READ_ONLY: Dirty = Dirty(1 << 8);
    /// `currval` or `lastval`, which a text names; no state by itself.
    pub const SEQUENCE_VALUES: Dirty = Dirty(1 << 9);
    /// Every kind.
    pub const ALL: Dirty = Dirty((1 << 7) - 1);

    /// Each kind alone, in the order of the bits.
    pub const KINDS: [Dirty; 7] = [
        Dirty::SETTINGS,
        Dirty::LISTEN,
        Dirty::STATEMENTS,
        Dirty::CURSORS,
        Dirty::TEMP,
        Dirty::LOCKS,
        Dirty::SEQUENCES,
    ];

    /// The union.
    #[must_use]
    pub const fn union(self, other: Dirty) -> Dirty {
        Dirty(self.0 | other.0)
    }

    /// The difference: `self` without the other.
    #[must_use]
    pub const fn without(self, other: Dirty) -> Dirty {
        Dirty(self.0 & !other.0)
    }

    /// Whether `other` is a subset.
    pub const fn contains(self, other: Dirty) -> bool {
        self.0 & other.0 == other.0
    }

    /// The intersection.
    #[must_use]
    pub const fn common(self, other: Dirty) -> Dirty {
        Dirty(self.0 & other.0)
    }

    /// Whether the sets have a kind in common.
    pub const fn has_any(self, other: Dirty) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds all of `other`.
    pub fn insert(&mut self, other: Dirty) {
        *self = self.union(other);
    }

    /// The kinds in the set, each alone.
    pub fn kinds(self) -> impl Iterator<Item = Dirty> {
        Dirty::KINDS.into_iter().filter(move |kind| self.contains(*kind))
    }

    /// The kinds of state in the set as bits, and back from [`Dirty::from_bits`].
    pub const fn bits(self) -> u8 {
        (self.0 & Dirty::ALL.union(Dirty::CUSTOM).0) as u8
    }

    /// The set that [`Dirty::bits`] gave; unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Dirty {
        Dirty(bits as u16)
    }
}

/// The state that a command with this CommandComplete tag may have left behind. Source: PostgreSQL's list of
/// command tags. The tag of `SET LOCAL` is that of SET. Any CREATE may be temporary: `search_path` or the name's schema
/// may be `pg_temp`.
#[inline]
pub fn left_by_tag(tag: &[u8]) -> Dirty {
    match tag {
        b"SET" => Dirty::SETTINGS,
        b"LISTEN" => Dirty::LISTEN,
        b"PREPARE" => Dirty::STATEMENTS,
        b"DECLARE CURSOR" => Dirty::CURSORS,
        _ if tag.starts_with(b"CREATE ") => Dirty::TEMP,
        _ => Dirty::NONE,
    }
}
