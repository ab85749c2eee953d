//! What a client calls its prepared statements.
//!
//! Owns the names that one client gave, what it is charged for them, and the way back from a statement to a name. Must
//! not know messages on the wire, or what of it is still under way ([`crate::undo_log`]).
//!
//! Every change of a client's names has a number, which grows; a name carries that of the change that gave it. So a
//! statement that drops all names drops those of before, and none that was given behind it in the same pipeline, at a
//! cost of what it drops.

use std::borrow::Borrow;
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem;
use std::sync::Arc;

use weir_base::shrink;

use crate::budget::{Account, Charge, NoRoom};
use crate::judged::has_columns_of_cursor;
use crate::shape::{GivenShape, Shape};
use crate::statements::{Key, Statement};

/// How many bytes of a statement's name PostgreSQL uses: names that agree so far are one (`NAMEDATALEN`, less its
/// NUL).
const SIGNIFICANT: usize = 63;

/// What a name takes beside its bytes.
const ENTRY: u64 = 256;

/// The number of a change of a client's names.
pub(crate) type ChangeNumber = u64;

/// A name that a client gave: equal if PostgreSQL takes the two for one.
#[derive(Clone, Debug)]
pub(crate) struct Name(Arc<[u8]>);

/// The part of a client's name that PostgreSQL uses.
fn significant(name: &[u8]) -> &[u8] {
    &name[..name.len().min(SIGNIFICANT)]
}

impl Name {
    pub(crate) fn new(name: &[u8]) -> Name {
        Name(name.into())
    }

    /// What the name is looked up by.
    fn key(&self) -> &[u8] {
        significant(&self.0)
    }

    /// All of the name, as the client gave it.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        significant(&self.0) == significant(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        significant(&self.0).hash(state);
    }
}

/// For looking a name up by [`key_of`].
impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        significant(&self.0)
    }
}

/// What a name is looked up by, in a map of [`Name`]s.
pub(crate) fn key_of(name: &[u8]) -> &[u8] {
    significant(name)
}

/// The hash of one name, under a key of its map's own.
#[derive(Clone, Debug, Default)]
struct NameHash(RandomState);

/// See [`NameHash`].
struct NameHasher(DefaultHasher);

impl BuildHasher for NameHash {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0.build_hasher())
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, name: &[u8]) {
        self.0.write(name);
    }

    /// The length comes before a name, to separate it from what follows. Nothing follows.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// A statement of a client's, and the change that gave it its name.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) statement: Arc<Statement>,
    pub(crate) by: ChangeNumber,
    /// The shape that the client was given of it.
    pub(crate) shape: GivenShape,
}

/// The statements that one client has prepared, by the names it gave them.
#[derive(Debug, Default)]
pub(crate) struct ClientStatements {
    by_name: HashMap<Name, Given, NameHash>,
    /// The names by age, then the ages by statement.
    by_age: BTreeMap<ChangeNumber, Name>,
    by_key: BTreeSet<(Key, ChangeNumber)>,
    /// The client's charge: names, and all texts as if it shared none of them.
    cost: u64,
    /// What the names themselves take.
    own: u64,
    charge: Option<Charge>,
    /// One of them could not be analysed again, it is not known which, since the client has prepared the last one.
    is_doubted: bool,
}

impl ClientStatements {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.given(name).map(|given| &given.statement)
    }

    pub(crate) fn given(&self, name: &[u8]) -> Option<&Given> {
        self.by_name.get(key_of(name))
    }

    /// One of them could not be analysed again, it is not known which. Returns whether that is new: a client that tries the
    /// same requests again and again learns nothing, and costs the others of its pool their statements once.
    pub(crate) fn doubt(&mut self) -> bool {
        !mem::replace(&mut self.is_doubted, true)
    }

    /// The client was given a shape of the statement that this change gave it, in that preparation.
    pub(crate) fn learn_shape(&mut self, by: ChangeNumber, shape: Shape, of: u64) {
        if let Some(given) = self.by_age.get(&by).and_then(|name| self.by_name.get_mut(name.key()))
            && !has_columns_of_cursor(given.statement.text())
        {
            given.shape.learn(shape, of);
        }
    }

    /// What the client is charged for one more.
    pub(crate) fn cost_of(name: &[u8], text: u64) -> u64 {
        name.len() as u64 + ENTRY + text
    }

    /// The sum of the costs of all.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Sees to it that the account has room for one more name.
    pub(crate) fn make_room(&mut self, name: &[u8], account: &Arc<Account>) -> Result<(), NoRoom> {
        let wanted = self.own + Self::cost_of(name, 0);
        match &mut self.charge {
            Some(charge) if charge.bytes() >= wanted => Ok(()),
            Some(charge) => charge.resize(wanted),
            None => {
                self.charge = Some(Charge::real(account, wanted)?);
                Ok(())
            }
        }
    }

    /// Charges what there is, whether there is room for it or not.
    pub(crate) fn charge_anyway(&mut self, account: &Arc<Account>) {
        self.charge.get_or_insert_with(|| Charge::anyway(account, 0)).resize_anyway(self.own);
    }

    /// Gives a name, whether there is room for it ([`Self::make_room`]) or not.
    pub(crate) fn insert(&mut self, name: Name, given: Given) {
        self.is_doubted = false;
        self.remove(name.whole());
        self.own += Self::cost_of(name.whole(), 0);
        self.cost += Self::cost_of(name.whole(), given.statement.cost());
        self.by_age.insert(given.by, name.clone());
        self.by_key.insert((given.statement.key(), given.by));
        self.by_name.insert(name, given);
        if let Some(charge) = self.charge.as_mut().filter(|charge| charge.bytes() < self.own) {
            charge.resize_anyway(self.own);
        }
    }

    /// What a name means becomes another statement, as if it had meant that from the beginning.
    pub(crate) fn replace(&mut self, name: &[u8], statement: Arc<Statement>) {
        if let Some((name, given)) = self.by_name.remove_entry(key_of(name)) {
            self.taken(&name, &given);
            self.insert(name, Given { statement, ..given });
        }
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Given> {
        let (name, given) = self.by_name.remove_entry(key_of(name))?;
        self.taken(&name, &given);
        shrink(&mut self.by_name, 64);
        Some(given)
    }

    /// Records that a name is out of the first map.
    fn taken(&mut self, name: &Name, given: &Given) {
        self.by_age.remove(&given.by);
        self.by_key.remove(&(given.statement.key(), given.by));
        self.own -= Self::cost_of(name.whole(), 0);
        self.cost -= Self::cost_of(name.whole(), given.statement.cost());
        if let Some(charge) = self.charge.as_mut().filter(|charge| charge.bytes() > self.own) {
            charge.resize_anyway(self.own);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All of them, by the age of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Given)> {
        self.by_age.values().filter_map(|name| Some((name.whole(), self.by_name.get(name.key())?)))
    }

    /// A name that the client has for a statement.
    pub(crate) fn name_of(&self, key: Key) -> Option<&[u8]> {
        let (_, change) = self.by_key.range((key, 0)..=(key, ChangeNumber::MAX)).next()?;
        Some(self.by_age.get(change)?.whole())
    }

    /// Forgets what was given before a change.
    pub(crate) fn forget_before(&mut self, change: ChangeNumber) {
        while let Some(oldest) = self.by_age.first_entry().filter(|oldest| *oldest.key() < change) {
            let name = oldest.get().clone();
            self.remove(name.whole());
        }
    }
}
