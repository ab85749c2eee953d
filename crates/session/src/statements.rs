//! Prepared statements: their identity, and the texts that a worker holds.
//!
//! Owns the identity of a statement (its text, its parameter types, and its parse environment), the texts of a worker,
//! each held once, and the statements of a pool. What clients call them is in `names`, what a server has of them in
//! `prepared`, and how much there may be of them in `budget`. Must not know messages on the wire.
//!
//! A *parse environment* is the context in which PostgreSQL parses a text: the parameters that decide what a literal or
//! a name is (encoding, date style, time zone, search path and so on), and the definitions of what the text names. The
//! same text of clients that differ in these, and the same text before and after a definition has changed, are two
//! statements. So are a text before and after PostgreSQL could not analyse it again with the types of its parameters:
//! whoever prepares it then gets what it means by then, and who holds the first gets PostgreSQL's error.
//!
//! A statement's name on servers comes from a keyed 128-bit hash of its identity. The key is random for the process, so
//! no client can prepare a collision, and a name means the same on every worker. The full text is compared nevertheless
//! when a statement is interned. Texts are held once a worker, not once a process: most processes have one worker, and
//! a table for all would need a lock. Servers can be lent nevertheless, as names are the same everywhere.
//!
//! A text is charged to its worker once, and to each pool that uses it. It is dropped, with its charges, as soon as it
//! has no holder: no search for unused texts ever runs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use siphasher::sip128::{Hasher128, SipHasher13};
use weir_base::shrink;
use weir_pgwire::sql::{Judgement, reads_clock};
use weir_pgwire::{Dirty, Effects};

use crate::budget::{Account, Admission, Charge, NoRoom, StatementMemory};
use crate::custom_names::CustomNames;
use crate::drawn_values::Askers;
use crate::function_bodies::FunctionBodies;
use crate::hidden_effects::TextCounts;
use crate::judged::{Judged, Kept, text_in};
use crate::key_hasher::KeyHasher;
use crate::leaving_functions::LeavingFunctions;
use crate::long_text::{LONG_TEXT, LongText};
use crate::parameter_types::ParameterTypes;
use crate::params::{ParamTable, Params};

/// The prefix of every name of ours on a server.
pub const NAME_PREFIX: &[u8] = b"weir_";

/// What the prefix becomes where a client's SQL gives a name to a statement that begins so: as long, and in no name
/// that people use.
pub(crate) const HIDDEN_PREFIX: &[u8; NAME_PREFIX.len()] = b"weir\x01";

/// A name of ours that no statement has. An error that shows it shows the client's name in its place.
pub(crate) const UNKNOWN_NAME: &[u8; NAME_LEN] = b"weir_of_nobody_0000000000000000000000";

/// Length of a name of ours: the prefix and 32 hexadecimal digits.
pub const NAME_LEN: usize = 37;

/// What a statement takes in addition to its text, in each table that lists it.
const ENTRY: u64 = 192;

/// The most bytes of texts that are kept although they may have no holder, for clients that return; an eighth of the
/// limit, if that is less.
const MAX_RECENT: u64 = 128 << 10;

/// The identity of a statement within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u128);

impl Key {
    /// The statement's name on servers.
    pub(crate) fn name(self) -> [u8; NAME_LEN] {
        name_of(self)
    }

    /// The statement that servers know by this name, if it is a name of ours.
    pub(crate) fn of_name(name: &[u8]) -> Option<Key> {
        let digits = name.strip_prefix(NAME_PREFIX).filter(|digits| digits.len() == 32)?;
        let digit = |key: u128, digit: &u8| Some(key << 4 | u128::from(char::from(*digit).to_digit(16)?));
        digits.iter().try_fold(0, digit).map(Key)
    }
}

/// A keyed hash of the parameters by which texts are read, and of the count of changed definitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParseEnvironment(pub(crate) u64);

impl ParseEnvironment {
    /// The environment after the analysis of a text has failed; `at`: when, by the number of a preparation.
    fn after_failure(self, at: u64) -> ParseEnvironment {
        ParseEnvironment(self.0 ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The identity of the statement with this text, in this environment.
    fn key_of(self, text: Key) -> Key {
        // The multiplier is odd, so no two environments are one. Both factors are keyed hashes.
        const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        Key(text.0 ^ u128::from(self.0).wrapping_mul(SPREAD))
    }
}

/// What is known of a text that a client sent, once it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRead {
    pub(crate) key: Key,
    /// What is known of a long text.
    long: Option<Judgement>,
}

/// What follows the name in a Parse message, held once a worker.
#[derive(Debug)]
struct Text {
    key: Key,
    /// The text, its NUL, the count and the types, as in the message.
    rest: Box<[u8]>,
    judged: Judged,
    /// What the text certainly leaves, once that was needed.
    kept: OnceLock<Kept>,
    /// The table that lists the text, from which the last holder removes it.
    listed: Arc<Table<Text>>,
    _charge: Charge,
}

/// One statement of a pool: a text, and its parse environment.
#[derive(Debug)]
pub(crate) struct Statement {
    key: Key,
    environment: ParseEnvironment,
    name: [u8; NAME_LEN],
    text: Arc<Text>,
    /// PostgreSQL could not analyse it again.
    is_unanalysed: AtomicBool,
    listed: Arc<Table<Statement>>,
    /// The pool's share of the text, and the statement's own size.
    _charges: (Charge, Charge),
}

impl Statement {
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The name on servers.
    pub(crate) fn name(&self) -> &[u8; NAME_LEN] {
        &self.name
    }

    pub(crate) fn environment(&self) -> ParseEnvironment {
        self.environment
    }

    /// The identity of its text.
    pub(crate) fn text_key(&self) -> Key {
        self.text.key
    }

    /// Whether PostgreSQL could not analyse the statement again: who prepares its text now gets another one.
    #[inline]
    pub(crate) fn is_unanalysed(&self) -> bool {
        self.is_unanalysed.load(Ordering::Relaxed)
    }

    /// What is known of the statement's text.
    pub(crate) fn judged(&self) -> &Judged {
        &self.text.judged
    }

    pub(crate) fn effects(&self) -> Effects {
        self.text.judged.effects
    }

    /// What running the statement certainly leaves, as far as its client loses it with a server.
    pub(crate) fn certainly_left(&self, table: &ParamTable, server: &Params) -> Dirty {
        if self.text.judged.harmless || self.text.judged.is_long() {
            return Dirty::NONE;
        }
        self.text.kept.get_or_init(|| Kept::of(self.text(), table)).lost_with(server)
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.text.judged.text(&self.text.rest)
    }

    pub(crate) fn rest(&self) -> &[u8] {
        &self.text.rest
    }

    /// What a client that holds the statement is charged, as if it were the only holder.
    pub(crate) fn cost(&self) -> u64 {
        cost(self.rest())
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.listed.forget(self.key);
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        self.listed.forget(self.key);
    }
}

/// Why a statement was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotInterned {
    /// A limit on memory.
    NoRoom(NoRoom),
    /// Another text has the same hash. With 128 keyed bits this is a broken invariant rather than chance.
    Collision,
}

/// What has a holder, by its key. Entries keep nothing alive.
#[derive(Debug)]
struct Table<T>(Mutex<HashMap<Key, Weak<T>, BuildHasherDefault<KeyHasher>>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table(Mutex::default())
    }
}

impl<T> Table<T> {
    /// The caller drops the result after it has released the lock: dropping the last reference takes the lock.
    fn find(&self, key: Key) -> Option<Arc<T>> {
        self.lock().get(&key).and_then(Weak::upgrade)
    }

    fn insert(&self, key: Key, entry: &Arc<T>) {
        self.lock().insert(key, Arc::downgrade(entry));
    }

    fn forget(&self, key: Key) {
        let mut table = self.lock();
        if table.get(&key).is_some_and(|entry| entry.strong_count() == 0) {
            table.remove(&key);
        }
        shrink(&mut *table, 1024);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Weak<T>, BuildHasherDefault<KeyHasher>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The texts of a worker, each held once.
#[derive(Debug)]
pub struct Interner {
    hash_key: [u8; 16],
    texts: Arc<Table<Text>>,
    memory: StatementMemory,
    account: Arc<Account>,
    limit: u64,
    /// The newest texts, and their bytes: kept for later holders as long as there is room.
    recent: VecDeque<Arc<Text>>,
    recent_bytes: u64,
    /// How many statements were new so far.
    stored: u64,
    pub(crate) parameter_types: ParameterTypes,
}

impl Interner {
    /// An interner for a process whose random hash key is `hash_key`. All workers of the process together hold at most
    /// `limit` bytes in `memory`.
    pub fn new(hash_key: [u8; 16], memory: &StatementMemory, limit: u64) -> Self {
        Interner {
            hash_key,
            texts: Arc::default(),
            memory: memory.clone(),
            account: memory.worker(limit),
            limit,
            recent: VecDeque::new(),
            recent_bytes: 0,
            stored: 0,
            parameter_types: ParameterTypes::default(),
        }
    }

    /// This worker's part of the statements of a pool, which may take `limit` bytes on all workers.
    pub fn pool(&self, database: &str, user: &str, limit: u64) -> PoolStatements {
        PoolStatements {
            statements: Arc::default(),
            account: self.memory.pool((database, user), limit, &self.account),
            keys: HashSet::default(),
            shared: PoolShared::default(),
            outdated: HashMap::default(),
            all_outdated: 0,
            unanalysed: HashMap::default(),
            are_dropped: false,
            texts: TextCounts::default(),
            custom: CustomNames::default(),
            leaving: LeavingFunctions::default(),
            custom_is_planned: false,
            bodies: FunctionBodies::default(),
            is_calm: true,
        }
    }

    /// A new limit, for texts that are taken from here on.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        self.account.set_limit(limit);
        self.trim();
    }

    /// Bytes that this worker holds of statements.
    pub fn used(&self) -> u64 {
        self.account.used()
    }

    /// How many statements were new so far.
    #[inline]
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// The key of the hashes of shapes.
    pub(crate) fn hash_key(&self) -> &[u8; 16] {
        &self.hash_key
    }

    /// A name of ours that no statement has, and that no client can give to one.
    pub(crate) fn unused_name(&self) -> [u8; NAME_LEN] {
        name_of(self.text_key(b"nobody's"))
    }

    /// The parse environment of a session with these values ([`crate::ParamTable`] says which), after this many schema
    /// changes.
    pub(crate) fn environment<'p>(
        &self,
        values: impl Iterator<Item = &'p str>,
        schema_changes: u64,
    ) -> ParseEnvironment {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write_u64(schema_changes);
        for value in values {
            hasher.write(value.as_bytes());
            hasher.write(&[0]);
        }
        ParseEnvironment(hasher.finish128().as_u128() as u64)
    }

    /// The statement of a pool that a client has prepared.
    #[cfg(test)]
    pub(crate) fn intern(
        &mut self,
        pool: &PoolStatements,
        rest: &[u8],
        environment: ParseEnvironment,
    ) -> Result<Arc<Statement>, NotInterned> {
        let read = self.read(rest, None);
        self.intern_read(pool, rest, read, environment)
    }

    /// The statement that a client has held elsewhere: no limit refuses it.
    pub(crate) fn restore(
        &mut self,
        pool: &PoolStatements,
        rest: &[u8],
        environment: ParseEnvironment,
    ) -> Result<Arc<Statement>, NotInterned> {
        let read = self.read(rest, None);
        self.statement(pool, rest, read, environment, Admission::Granted)
    }

    /// What is known of what follows the name in a Parse; `begun`: what is known of its beginning, if it is long.
    pub(crate) fn read(&self, rest: &[u8], begun: Option<&mut LongText>) -> TextRead {
        if rest.len() <= LONG_TEXT {
            return TextRead { key: self.text_key(rest), long: None };
        }
        let (key, judgement) = match begun {
            Some(begun) => begun.finish(rest),
            None => LongText::new(&self.hash_key).finish(rest),
        };
        TextRead { key: Key(key), long: Some(judgement) }
    }

    /// The same text in another parse environment. Its client holds it already, so that no limit refuses it.
    pub(crate) fn intern_again(
        &mut self,
        pool: &PoolStatements,
        known: &Statement,
        environment: ParseEnvironment,
    ) -> Result<Arc<Statement>, NotInterned> {
        let read = TextRead { key: known.text.key, long: None };
        self.statement(pool, known.rest(), read, environment, Admission::Granted)
    }

    /// The statement of a pool that a client has prepared, whose text was read.
    pub(crate) fn intern_read(
        &mut self,
        pool: &PoolStatements,
        rest: &[u8],
        read: TextRead,
        environment: ParseEnvironment,
    ) -> Result<Arc<Statement>, NotInterned> {
        self.statement(pool, rest, read, environment, Admission::Limited)
    }

    fn statement(
        &mut self,
        pool: &PoolStatements,
        rest: &[u8],
        read: TextRead,
        environment: ParseEnvironment,
        admission: Admission,
    ) -> Result<Arc<Statement>, NotInterned> {
        let key = environment.key_of(read.key);
        if let Some(known) = pool.statements.find(key) {
            let same = is_same(known.rest(), rest) && known.environment == environment;
            return if same { Ok(known) } else { Err(NotInterned::Collision) };
        }
        let share = Charge::share(&pool.account, cost(rest), admission).map_err(NotInterned::NoRoom)?;
        let text = self.text(rest, read, admission)?;
        let own = self.charge(&pool.account, ENTRY, admission)?;
        let statement = Arc::new(Statement {
            key,
            environment,
            name: name_of(key),
            text,
            is_unanalysed: AtomicBool::new(false),
            listed: pool.statements.clone(),
            _charges: (share, own),
        });
        pool.statements.insert(key, &statement);
        self.stored += 1;
        Ok(statement)
    }

    /// The statement with this identity, if its text is present.
    pub(crate) fn find(
        &mut self,
        pool: &PoolStatements,
        rest: &[u8],
        read: TextRead,
        environment: ParseEnvironment,
    ) -> Option<Arc<Statement>> {
        let known = pool.statements.find(environment.key_of(read.key));
        if known.is_some() || self.texts.find(read.key).is_none() {
            return known.filter(|known| known.rest() == rest && known.environment == environment);
        }
        self.intern_read(pool, rest, read, environment).ok()
    }

    fn text(&mut self, rest: &[u8], read: TextRead, admission: Admission) -> Result<Arc<Text>, NotInterned> {
        let key = read.key;
        if let Some(known) = self.texts.find(key) {
            return if is_same(&known.rest, rest) { Ok(known) } else { Err(NotInterned::Collision) };
        }
        let account = self.account.clone();
        let charge = self.charge(&account, cost(rest), admission)?;
        let mut judged = match read.long {
            Some(judgement) => Judged::of_long(judgement, text_in(rest)),
            None => Judged::in_parse(rest),
        };
        // A long text is read once only, as it arrives.
        judged.reads_clock = !judged.is_long() && reads_clock(judged.text(rest));
        let listed = self.texts.clone();
        let text = Arc::new(Text { key, rest: rest.into(), judged, kept: OnceLock::new(), listed, _charge: charge });
        self.texts.insert(key, &text);
        self.recent_bytes += cost(rest);
        self.recent.push_back(text.clone());
        self.trim();
        Ok(text)
    }

    /// Takes room; texts without a holder are dropped for it.
    fn charge(&mut self, account: &Arc<Account>, bytes: u64, admission: Admission) -> Result<Charge, NotInterned> {
        loop {
            match Charge::real(account, bytes) {
                Err(NoRoom::Process) if self.drop_oldest() => {}
                Err(_) if admission == Admission::Granted => return Ok(Charge::anyway(account, bytes)),
                taken => return taken.map_err(NotInterned::NoRoom),
            }
        }
    }

    fn trim(&mut self) {
        while self.recent_bytes > MAX_RECENT.min(self.limit / 8) && self.drop_oldest() {}
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.recent.pop_front() else { return false };
        self.recent_bytes -= cost(&oldest.rest);
        shrink(&mut self.recent, 64);
        true
    }

    fn text_key(&self, rest: &[u8]) -> Key {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write(rest);
        Key(hasher.finish128().as_u128())
    }
}

/// Whether two texts are equal. One that is stored is not read again to see that it is itself.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    std::ptr::eq(one, other) || one == other
}

/// The memory of a statement: its text and the tables' share.
pub(crate) fn cost(rest: &[u8]) -> u64 {
    rest.len() as u64 + ENTRY
}

fn name_of(key: Key) -> [u8; NAME_LEN] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut name = [0; NAME_LEN];
    name[..NAME_PREFIX.len()].copy_from_slice(NAME_PREFIX);
    for (i, digit) in name[NAME_PREFIX.len()..].iter_mut().enumerate() {
        *digit = HEX[(key.0 >> (124 - 4 * i) & 15) as usize];
    }
    name
}

/// One worker's part of the statements of a pool: those that its clients hold, the account of their memory, and those
/// that its servers have accepted. A Parse of an accepted one can be answered without a server. That it would still be
/// accepted is not certain, as with any statement prepared earlier; the Bind shows it.
#[derive(Debug)]
pub struct PoolStatements {
    statements: Arc<Table<Statement>>,
    account: Arc<Account>,
    keys: HashSet<Key, BuildHasherDefault<KeyHasher>>,
    /// Definitions are changed by clients of the pool, as far as command tags report it.
    shared: PoolShared,
    /// Statements that a server refused to plan again, and the number of the next preparation then: what was prepared
    /// before is not used again.
    outdated: HashMap<Key, u64, BuildHasherDefault<KeyHasher>>,
    /// The number of the next preparation when all statements were last outdated; 0: never.
    all_outdated: u64,
    /// Texts of which PostgreSQL could not analyse a statement again since definitions have last changed here, and the
    /// number of a preparation then.
    unanalysed: HashMap<Key, u64, BuildHasherDefault<KeyHasher>>,
    /// A function has dropped statements of ours on a server, and may do so again.
    are_dropped: bool,
    /// How often texts were sent, where servers are asked what they leave.
    pub(crate) texts: TextCounts,
    /// The settings with names of two parts that functions may set.
    pub(crate) custom: CustomNames,
    /// The functions whose bodies say that they leave state.
    pub(crate) leaving: LeavingFunctions,
    /// Whether a function that is IMMUTABLE reads such settings: PostgreSQL makes a constant of it in a plan.
    pub(crate) custom_is_planned: bool,
    /// Whether the bodies of functions are still those that were read.
    pub(crate) bodies: FunctionBodies,
    /// There is nothing to look up: none is in `outdated`, and none was dropped.
    is_calm: bool,
}

/// What the pool knows of a preparation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PreparationState {
    /// The preparation is as good as any.
    Good,
    /// The preparation may have been dropped.
    Unsure,
    /// A server has refused to plan the statement again since.
    Outdated,
}

/// What all workers that have servers of a pool share: the counts of changed definitions, of changed functions and of
/// preparations, and the applications that ask for what they have drawn of sequences.
#[derive(Clone, Debug, Default)]
pub struct PoolShared {
    changes: Arc<AtomicU64>,
    functions: Arc<AtomicU64>,
    /// How often functions that leave state were found changed, and what they are, as a hash.
    found: Arc<AtomicU64>,
    sources: Arc<Mutex<Option<Box<str>>>>,
    preparations: Arc<AtomicU64>,
    askers: Arc<Askers>,
}

/// The most statements that are remembered as outdated; when it is reached, all are outdated once.
const MAX_OUTDATED: usize = 1024;

/// The most texts that are remembered as not analysed; when it is reached, every text becomes another statement once.
const MAX_UNANALYSED: usize = 1024;

/// The most statements that are remembered as accepted; when it is reached, all are forgotten.
const MAX_ACCEPTED: usize = 8192;

impl PoolStatements {
    /// A new limit of the pool's memory, for what is taken from here on.
    pub fn set_limit(&mut self, limit: u64) {
        self.account.set_limit(limit);
    }

    /// Bytes of statements that clients of the pool hold on this worker.
    pub fn used(&self) -> u64 {
        self.account.used()
    }

    /// The account that the pool's clients are charged to.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(crate) fn has_accepted(&self, key: Key) -> bool {
        self.keys.contains(&key)
    }

    pub(crate) fn insert(&mut self, key: Key) {
        if self.keys.len() >= MAX_ACCEPTED {
            self.keys = HashSet::default();
        }
        self.keys.insert(key);
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.keys.remove(&key);
    }

    /// How often definitions have changed.
    pub fn schema_changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// A definition has changed, or the change was rolled back: a text that is parsed from here on is another
    /// statement, so that it does not use a plan made before.
    pub(crate) fn schema_changed(&mut self) {
        self.shared.changes.fetch_add(1, Ordering::AcqRel);
        self.keys.clear();
        self.unanalysed = HashMap::default();
    }

    /// PostgreSQL could not analyse this statement again: whoever prepares its text from here on gets another one. `None`:
    /// it is not known which statement, so that all texts become others.
    #[cold]
    pub(crate) fn note_unanalysed(&mut self, key: Option<Key>) {
        let Some(key) = key else { return self.schema_changed() };
        let Some(statement) = self.statements.find(key) else { return };
        // Its holders may try again and again: that says nothing of what was prepared since.
        if statement.is_unanalysed.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.unanalysed.len() >= MAX_UNANALYSED {
            return self.schema_changed();
        }
        let now = self.next_preparation();
        self.unanalysed.insert(statement.text.key, now);
    }

    /// The environment of a text that is prepared now, whose other parts are `environment`.
    #[inline]
    pub(crate) fn environment_of(&self, text: Key, environment: ParseEnvironment) -> ParseEnvironment {
        if self.unanalysed.is_empty() {
            return environment;
        }
        self.unanalysed.get(&text).map_or(environment, |at| environment.after_failure(*at))
    }

    /// How often functions have changed, as any worker of the pool has seen.
    pub(crate) fn function_changes(&self) -> u64 {
        self.shared.functions.load(Ordering::Acquire)
    }

    /// Functions, triggers or policies have changed: all workers read them, and judge texts, again.
    pub(crate) fn functions_changed(&mut self) {
        self.shared.functions.fetch_add(1, Ordering::AcqRel);
    }

    /// How often functions that leave state were found changed, by any worker.
    pub(crate) fn functions_found(&self) -> u64 {
        self.shared.found.load(Ordering::Acquire)
    }

    /// A server says what leaves state, as a hash. Returns whether it is other than any worker knew: servers are replaced, on
    /// which texts may have left what nobody asked about.
    pub(crate) fn sources_are_news(&mut self, sources: &str) -> bool {
        let known = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner).replace(sources.into());
        let are_news = known.is_some_and(|known| *known != *sources);
        self.shared.found.fetch_add(u64::from(are_news), Ordering::AcqRel);
        are_news
    }

    /// Whether the pool's idle servers are to be closed, as texts may have left there what nobody asked about: functions that
    /// leave state were found changed, by any worker. True once for each time.
    #[inline]
    pub fn take_outdated_servers(&mut self) -> bool {
        let found = self.functions_found();
        self.bodies.take_outdated_servers(found)
    }

    /// Whether functions have changed past the pool is asked with the next text (`mode = "auto"`). Called every few seconds.
    pub fn ask_for_functions(&mut self) {
        self.bodies.ask_soon();
    }

    /// How many preparations there were, on any server.
    pub(crate) fn preparations(&self) -> u64 {
        self.shared.preparations.load(Ordering::Acquire)
    }

    /// The number of a preparation that is made now, on any server.
    pub(crate) fn next_preparation(&mut self) -> u64 {
        self.shared.preparations.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// There were this many preparations at least, in another process.
    pub(crate) fn raise_preparations(&self, count: u64) {
        self.shared.preparations.fetch_max(count, Ordering::AcqRel);
    }

    /// A server has refused to plan a statement again: it is prepared again on every server before its next use.
    pub(crate) fn outdate(&mut self, key: Key) {
        let now = self.next_preparation();
        self.keys.remove(&key);
        if self.outdated.len() >= MAX_OUTDATED {
            self.outdated = HashMap::default();
            self.all_outdated = now;
        }
        self.outdated.insert(key, now);
        self.is_calm = false;
    }

    /// Something that is not seen here drops statements of ours.
    pub(crate) fn note_dropped(&mut self) {
        (self.are_dropped, self.is_calm) = (true, false);
    }

    /// What is known of this preparation of a statement.
    #[inline]
    pub(crate) fn preparation_state(&self, key: Key, of: u64) -> PreparationState {
        let own = if self.is_calm { None } else { self.outdated.get(&key) };
        match of < own.copied().unwrap_or(self.all_outdated) {
            true => PreparationState::Outdated,
            false if self.are_dropped => PreparationState::Unsure,
            false => PreparationState::Good,
        }
    }

    /// Forgets which statements servers accept.
    pub fn forget_accepted(&mut self) {
        self.keys.clear();
    }

    /// What another worker's part of the pool is to share with this one.
    pub fn shared(&self) -> PoolShared {
        self.shared.clone()
    }

    /// The applications that ask for what they have drawn of sequences.
    #[inline]
    pub(crate) fn askers(&self) -> &Askers {
        &self.shared.askers
    }

    /// Raises the count to at least that of another process.
    pub fn raise_schema_version(&mut self, count: u64) {
        if self.shared.changes.fetch_max(count, Ordering::AcqRel) < count {
            self.keys.clear();
        }
    }

    /// Shares what the others have from now on.
    pub fn share(&mut self, shared: PoolShared) {
        self.shared = shared;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interner(limit: u64) -> (Interner, PoolStatements) {
        let interner = Interner::new([7; 16], &StatementMemory::default(), limit);
        let pool = interner.pool("app", "joe", limit);
        (interner, pool)
    }

    #[test]
    fn equal_statements_are_held_once_and_are_gone_with_the_last_who_holds_them() {
        let (mut interner, pool) = interner(0);
        interner.set_limit(2 * ENTRY + 100);
        let mut pool = pool;
        pool.set_limit(1 << 20);
        let a = interner.intern(&pool, b"select 1\0\0\0", ParseEnvironment(0)).unwrap();
        let used = (interner.used(), pool.used());
        let b = interner.intern(&pool, b"select 1\0\0\0", ParseEnvironment(0)).unwrap();
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!((interner.used(), pool.used()), used);
        assert!(a.name().starts_with(NAME_PREFIX) && a.name().len() == NAME_LEN);
        assert_eq!(Key::of_name(a.name()), Some(a.key()));
        drop((a, b));
        assert_eq!((interner.used(), pool.used()), (0, 0), "there is no room to keep it in");
        assert!(interner.texts.lock().is_empty() && pool.statements.lock().is_empty());
    }

    #[test]
    fn a_text_is_charged_to_the_worker_once_and_to_each_pool_that_uses_it() {
        let (mut interner, one) = interner(1 << 20);
        let other = interner.pool("app", "ann", 1 << 20);
        let rest = [b'x'; 10_000];
        let held = interner.intern(&one, &rest, ParseEnvironment(0)).unwrap();
        let also = interner.intern(&other, &rest, ParseEnvironment(1)).unwrap();
        assert_ne!(held.name(), also.name(), "it is read differently");
        assert!(one.used() > 10_000 && other.used() > 10_000 && interner.used() < 11_000);
        drop(held);
        assert_eq!(one.used(), 0);
        assert!(other.used() > 10_000 && interner.used() > 10_000);
    }

    #[test]
    fn the_memory_of_statements_is_bounded_and_what_is_let_go_makes_room() {
        let (mut interner, pool) = interner(4_000);
        let text = |i: u32| [i.to_be_bytes(), [1; 4]].concat();
        let held: Vec<_> = (0..100).map_while(|i| interner.intern(&pool, &text(i), ParseEnvironment(0)).ok()).collect();
        assert!((5..20).contains(&held.len()), "{}", held.len());
        let full = Err(NotInterned::NoRoom(NoRoom::Pool));
        assert_eq!(interner.intern(&pool, b"one more", ParseEnvironment(0)).map(|_| ()), full);
        drop(held);
        assert!(interner.intern(&pool, b"one more", ParseEnvironment(0)).is_ok());
    }

    #[test]
    fn one_pool_leaves_room_for_others() {
        let (mut interner, mut greedy) = interner(100_000);
        greedy.set_limit(50_000);
        let other = interner.pool("other", "joe", 50_000);
        let text = |i: u32| [&i.to_be_bytes()[..], &[1; 5_000]].concat();
        let held: Vec<_> =
            (0..100).map_while(|i| interner.intern(&greedy, &text(i), ParseEnvironment(0)).ok()).collect();
        assert!(held.len() > 5 && held.len() < 10);
        assert!(interner.intern(&other, &text(1000), ParseEnvironment(0)).is_ok());
    }

    fn find(interner: &mut Interner, pool: &PoolStatements) -> Option<Arc<Statement>> {
        let read = interner.read(&[1; 3_000], None);
        interner.find(pool, &[1; 3_000], read, ParseEnvironment(0))
    }

    #[test]
    fn the_newest_texts_are_kept_for_who_comes_back_until_others_need_the_room() {
        let (mut interner, pool) = interner(80_000);
        drop(interner.intern(&pool, &[1; 3_000], ParseEnvironment(0)).unwrap());
        assert!(find(&mut interner, &pool).is_some());
        drop(interner.intern(&pool, &[2; 9_000], ParseEnvironment(0)).unwrap());
        assert!(find(&mut interner, &pool).is_none(), "the newer one takes its place");
        let (mut interner, pool) = self::interner(10_000);
        drop(interner.intern(&pool, &[1; 1_000], ParseEnvironment(0)).unwrap());
        assert!(interner.used() > 1_000);
        assert!(interner.intern(&pool, &[2; 9_400], ParseEnvironment(0)).is_ok(), "texts without a holder are dropped");
    }
}
