//! When a server is asked what a text has left there although the text says nothing of it (`mode = "auto"`): functions,
//! triggers, views, operators and policies may do anything.
//!
//! Owns how often each text of a pool was sent, and whether it may draw a value of a sequence, by a hash of its shape: without numbers, quoted values and comments. A
//! text is asked about after its first executions and then ever more rarely, each time after twice as many; and always,
//! once it has left something, or if it names a function whose body says that it leaves state. A changed definition makes
//! it a new text.
//!
//! Bounded: [`MOST`] texts a pool and worker. Beyond that the counts begin again, and more is asked.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::key_hasher::KeyHasher;
use crate::leaving_functions::Leaving;
use crate::long_text::SEARCHED;

/// The most texts that are counted.
const MOST: usize = 4096;

/// How much of a text is read.
pub(crate) const READ: usize = SEARCHED;

/// How often a text was sent of which it is known that it leaves something.
const ALWAYS: u32 = u32::MAX;

/// The most texts of one transaction that are remembered until the answer.
const MOST_DUE: usize = 32;

/// The most texts of a client for which it is remembered that they have changed nothing.
const MOST_QUIET: usize = 32;

/// The identity of a text's shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ShapeKey(pub(crate) u64);

/// How often the texts of a pool were sent.
#[derive(Debug, Default)]
pub(crate) struct TextCounts(HashMap<ShapeKey, Sent, BuildHasherDefault<KeyHasher>>);

/// What is known of a text.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// How often it was sent.
    count: u32,
    /// What it says; `None`: it is to be read when it is sent again.
    look: Option<FirstLook>,
}

impl Sent {
    /// What the text says, which `look` reads if that is not known, or if it is not the same for all texts of the shape.
    #[inline]
    fn says(&mut self, look: impl FnOnce() -> FirstLook) -> FirstLook {
        match self.look {
            Some(known) if !known.by_values => known,
            _ => self.read(look()),
        }
    }

    #[cold]
    fn read(&mut self, look: FirstLook) -> FirstLook {
        self.look = Some(look);
        if look.names > Leaving::Nothing {
            self.count = ALWAYS;
        }
        look
    }
}

/// What a text itself says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstLook {
    /// It may draw a value of a sequence.
    pub(crate) draws: bool,
    /// What functions that it names leave, as their bodies say.
    pub(crate) names: Leaving,
    /// Another text of the same shape may say something else: it runs what is in its quoted values.
    pub(crate) by_values: bool,
}

/// What follows from a text that is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    /// The server is to be asked after it.
    pub(crate) due: Option<DueText>,
    /// It may draw a value of a sequence.
    pub(crate) draws: bool,
    /// What functions that it names leave, as their bodies say.
    pub(crate) names: Leaving,
}

impl TextCounts {
    /// A text is sent, which `look` reads if it is new. If the server is to be asked after it, it is again, until
    /// [`TextCounts::left_nothing`]: a client may leave before the answer. `asks_anyway`: the server is asked, whatever is
    /// known of the text.
    #[inline]
    pub(crate) fn count(&mut self, text: ShapeKey, asks_anyway: bool, look: impl FnOnce() -> FirstLook) -> Counted {
        if self.0.len() >= MOST && !self.0.contains_key(&text) {
            self.make_room();
        }
        let sent = self.0.entry(text).or_insert(Sent { count: 0, look: None });
        let seen = sent.says(look);
        let Sent { count, .. } = sent;
        let is_due = is_due_at(*count);
        let unasked = *count != ALWAYS && *count > 1;
        *count += u32::from(!is_due);
        let due = DueText { text, unasked, says_so: seen.names > Leaving::Nothing };
        Counted { due: (is_due || asks_anyway).then_some(due), draws: seen.draws, names: seen.names }
    }

    /// What functions and triggers do may have changed: texts are asked about as if they were new, but for those of which
    /// it is known that they leave something.
    #[cold]
    pub(crate) fn judge_again(&mut self) {
        self.0.retain(|_, sent| sent.count == ALWAYS);
        self.0.values_mut().for_each(|sent| sent.look = None);
    }

    #[cold]
    fn make_room(&mut self) {
        self.0.retain(|_, sent| sent.count == ALWAYS);
        if self.0.len() > MOST / 2 {
            self.0.clear();
        }
    }

    /// A text has left something.
    pub(crate) fn leaves(&mut self, text: ShapeKey) {
        self.0.entry(text).or_insert(Sent { count: 0, look: None }).count = ALWAYS;
    }

    /// A text after which the server was asked has left nothing.
    pub(crate) fn left_nothing(&mut self, text: ShapeKey) {
        if let Some(Sent { count, .. }) = self.0.get_mut(&text) {
            *count += u32::from(*count != ALWAYS && is_due_at(*count));
        }
    }
}

/// Whether the server is asked after the next execution of a text that was executed so often.
fn is_due_at(count: u32) -> bool {
    count.checked_add(1).is_none_or(u32::is_power_of_two)
}

/// The texts of a client that has left state, after which its server was asked, and nothing was changed: for them it is
/// asked ever more rarely again, although their counts say nothing of it while there is state that may be theirs.
#[derive(Debug, Default)]
pub(crate) struct QuietTexts(Vec<(ShapeKey, u32)>);

impl QuietTexts {
    /// A text is sent. Returns whether the server need not be asked after it.
    pub(crate) fn can_wait(&mut self, due: DueText) -> bool {
        let Some((_, count)) = self.0.iter_mut().find(|(text, _)| *text == due.text) else { return false };
        *count = count.saturating_add(1);
        !count.is_power_of_two()
    }

    /// The server was asked after a text, which has changed nothing.
    pub(crate) fn changed_nothing(&mut self, text: ShapeKey) {
        if self.0.len() < MOST_QUIET && !self.0.iter().any(|(known, _)| *known == text) {
            self.0.push((text, 1));
        }
    }

    /// What the client has left is something else now, or nothing.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A text after which the server is to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DueText {
    text: ShapeKey,
    /// The text was executed before without a question, and has left nothing as far as is known.
    unasked: bool,
    /// It names a function that leaves state.
    pub(crate) says_so: bool,
}

/// Texts that a server has got since it was asked last, and after which it is to be asked.
#[derive(Debug, Default)]
pub(crate) struct Due {
    texts: Vec<ShapeKey>,
    /// One of them is new, or known to leave something.
    explained: bool,
    /// There was one that can wait for the next question.
    put_off: bool,
}

impl Due {
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.texts.is_empty() && !self.put_off
    }

    /// Whether the server is to be asked now.
    #[inline]
    pub(crate) fn presses(&self) -> bool {
        !self.texts.is_empty()
    }

    /// A text after which the server is to be asked only if it is asked anyway.
    pub(crate) fn put_off(&mut self) {
        (self.put_off, self.explained) = (true, true);
    }

    pub(crate) fn add(&mut self, due: DueText) {
        if self.texts.len() < MOST_DUE {
            self.texts.push(due.text);
        }
        self.explained |= !due.unasked;
    }

    /// Whether each of them was executed before without a question, and none is known to leave something.
    pub(crate) fn is_unasked(&self) -> bool {
        !self.explained
    }

    pub(crate) fn take(&mut self) -> Vec<ShapeKey> {
        std::mem::take(self).texts
    }
}

/// Where in a text a byte is, as far as its shape depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Between words.
    Between,
    /// In a word or name, whose digits count.
    Word,
    /// In a quoted value, which does not count.
    Value,
    /// In a quoted name.
    Name,
    /// In a comment up to the end of the line. Comments do not count.
    Line,
    /// In a comment in brackets.
    Comment,
    /// Behind something whose end depends on more than is known here: each byte counts.
    Unclear,
}

impl Place {
    /// The place behind this byte, and whether the byte counts. A wrong place must never hide what a text calls.
    const fn after(self, byte: u8, before: u8) -> (Place, bool) {
        let next = match (self, byte) {
            // A backslash may escape the quote. A comment may have another one within.
            (Place::Unclear, _) | (Place::Value, b'\\') => Place::Unclear,
            (Place::Comment, b'*') if before == b'/' => Place::Unclear,
            (Place::Value, b'\'') => Place::Between,
            (Place::Value, _) => return (Place::Value, false),
            (Place::Name, b'"') | (Place::Line, b'\n' | b'\r') => Place::Between,
            (Place::Comment, b'/') if before == b'*' => Place::Between,
            (Place::Line | Place::Comment, _) => return (self, false),
            (Place::Name, _) => self,
            (_, b'\'') => Place::Value,
            (_, b'"') => Place::Name,
            (_, b'-') if before == b'-' => Place::Line,
            (_, b'*') if before == b'/' => Place::Comment,
            (Place::Word, b'0'..=b'9' | b'$') => Place::Word,
            (_, b'0'..=b'9') => return (Place::Between, false),
            // A value in dollar quotes: no number of a parameter follows.
            (Place::Between, b'$' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..) if before == b'$' => Place::Unclear,
            (_, b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..) => Place::Word,
            _ => Place::Between,
        };
        (next, true)
    }
}

/// Bytes that are alike in each place and behind each other byte: one of each kind stands here for all.
const KINDS: [u8; 11] = *b" '\"\\*/-$0a\n";

/// The kind of a byte, by its place in [`KINDS`].
const fn kind_of(byte: u8) -> usize {
    match byte {
        b'\'' => 1,
        b'"' => 2,
        b'\\' => 3,
        b'*' => 4,
        b'/' => 5,
        b'-' => 6,
        b'$' => 7,
        b'0'..=b'9' => 8,
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => 9,
        b'\n' | b'\r' => 10,
        _ => 0,
    }
}

/// The kind of each byte.
static KIND: [u8; 256] = {
    let (mut kinds, mut byte) = ([0; 256], 0);
    while byte < 256 {
        kinds[byte] = kind_of(byte as u8) as u8;
        byte += 1;
    }
    kinds
};

/// As many states as [`State::number`] may give, and kinds, rounded up to powers of two.
const STATES: usize = 128;
const COLUMNS: usize = 16;

/// The bit of a step whose byte counts.
const COUNTS: u8 = 0x80;

/// A place and the kind of the byte before.
#[derive(Clone, Copy)]
struct State {
    place: Place,
    before: usize,
}

const PLACES: [Place; 7] =
    [Place::Between, Place::Word, Place::Value, Place::Name, Place::Line, Place::Comment, Place::Unclear];

impl State {
    const fn number(self) -> usize {
        self.place as usize * COLUMNS + self.before
    }

    /// The state behind a byte, and whether the byte counts.
    const fn after(self, byte: u8) -> (State, bool) {
        let (place, counts) = self.place.after(byte, KINDS[self.before]);
        // The star of `/*` ends no comment: `/*/` is the beginning of one.
        let begins = matches!(place, Place::Comment) && !matches!(self.place, Place::Comment);
        (State { place, before: if begins { 0 } else { kind_of(byte) } }, counts)
    }
}

/// For each state and kind of byte the next state, and [`COUNTS`] if the byte counts.
static STEPS: [[u8; COLUMNS]; STATES] = {
    let mut steps = [[0; COLUMNS]; STATES];
    let mut place = 0;
    while place < PLACES.len() {
        let mut before = 0;
        while before < KINDS.len() {
            let state = State { place: PLACES[place], before };
            let mut kind = 0;
            while kind < KINDS.len() {
                let (next, counts) = state.after(KINDS[kind]);
                steps[state.number()][kind] = next.number() as u8 | if counts { COUNTS } else { 0 };
                kind += 1;
            }
            before += 1;
        }
        place += 1;
    }
    steps
};

/// The kinds of bytes of which each counts between and in words, whatever is before it but a `$`: most of a text.
const fn is_plain(kind: usize) -> bool {
    matches!(KINDS[kind], b' ' | b'a')
}

/// Whether each byte is plain.
static PLAIN: [bool; 256] = {
    let (mut plain, mut byte) = ([false; 256], 0);
    while byte < 256 {
        plain[byte] = is_plain(kind_of(byte as u8));
        byte += 1;
    }
    plain
};

/// The state behind a run of plain bytes with this one at its end.
fn behind_plain(last: u8) -> State {
    let before = kind_of(last);
    State { place: if KINDS[before] == b'a' { Place::Word } else { Place::Between }, before }
}

/// Whether a run of plain bytes may follow a state.
const fn precedes_plain(state: usize) -> bool {
    let (place, before) = (state / COLUMNS, state % COLUMNS);
    (place == Place::Between as usize || place == Place::Word as usize) && KINDS[before] != b'$'
}

/// The beginning of a text, and whether it continues.
pub(crate) fn first_of(text: &[u8], most: usize) -> (&[u8], bool) {
    (&text[..text.len().min(most)], text.len() > most)
}

/// The shape of a text, under a key. Cost: a few instructions a byte, of the first [`READ`].
pub(crate) fn shape(text: &[u8], key: &[u8; 16]) -> ShapeKey {
    let (low, high) = key.split_at(8);
    let number = |half: &[u8]| half.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (mut hash, factor) = (number(low), number(high) | 1);
    let mut add = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(factor);
    let mut state = (State { place: Place::Between, before: 0 }).number();
    let mut rest = &text[..text.len().min(READ)];
    loop {
        if precedes_plain(state) {
            let end = rest.iter().position(|byte| !PLAIN[usize::from(*byte)]);
            let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
            // A run begins behind a byte that counts or behind what does not, whatever that is: so it is the same in all
            // texts of one shape.
            let (words, last) = run.as_chunks::<8>();
            words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
            if !last.is_empty() {
                add(last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
            }
            state = run.last().map_or(state, |last| behind_plain(*last).number());
            rest = after;
        }
        let Some((byte, after)) = rest.split_first() else { break };
        let step = STEPS[state & (STATES - 1)][usize::from(KIND[usize::from(*byte)]) & (COLUMNS - 1)];
        state = usize::from(step & !COUNTS);
        if step & COUNTS != 0 {
            add(u64::from(*byte));
        }
        rest = after;
    }
    ShapeKey(hash ^ hash >> 32)
}

/// Whether a text is one command that begins or ends a transaction: it runs nothing but triggers, whose own texts are
/// counted.
pub(crate) fn runs_nothing(text: &[u8]) -> bool {
    let begins = |word: &[u8]| {
        text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
            && text.get(word.len()).is_none_or(|next| matches!(next, b' ' | b'\n' | b';'))
    };
    let words: [&[u8]; 7] = [b"begin", b"commit", b"rollback", b"start transaction", b"end", b"savepoint", b"release"];
    words.into_iter().any(begins) && text.iter().position(|byte| *byte == b';').is_none_or(|at| at + 1 == text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> FirstLook {
        FirstLook { draws: false, names: Leaving::Nothing, by_values: false }
    }

    fn draws() -> FirstLook {
        FirstLook { draws: true, names: Leaving::Nothing, by_values: false }
    }

    #[test]
    fn bytes_of_one_kind_are_alike_in_each_place() {
        for place in PLACES {
            for before in 0..=255 {
                for byte in 0..=255 {
                    let alike = place.after(KINDS[kind_of(byte)], KINDS[kind_of(before)]);
                    assert_eq!(place.after(byte, before), alike, "{place:?}, {before}, {byte}");
                }
            }
        }
        assert!(PLACES.into_iter().enumerate().all(|(at, place)| place as usize == at));
    }

    #[test]
    fn a_run_of_plain_bytes_ends_where_each_of_its_bytes_leads() {
        for place in PLACES {
            for before in 0..KINDS.len() {
                let state = State { place, before };
                for byte in (0..=255).filter(|byte| is_plain(kind_of(*byte)) && precedes_plain(state.number())) {
                    let (next, counts) = state.after(byte);
                    assert!(counts && next.number() == behind_plain(byte).number(), "{place:?}, {before}, {byte}");
                    assert!(precedes_plain(next.number()));
                }
            }
        }
    }

    #[test]
    fn a_text_is_asked_about_ever_more_rarely_until_it_leaves_something() {
        let mut counts = TextCounts::default();
        let text = ShapeKey(7);
        let mut execute = |count: u32| {
            let due = counts.count(text, false, nothing).due?;
            counts.left_nothing(text);
            Some((count, due.unasked))
        };
        let asked: Vec<(u32, bool)> = (1..=100).filter_map(&mut execute).collect();
        assert_eq!(asked, [(1, false), (2, false), (4, true), (8, true), (16, true), (32, true), (64, true)]);
        counts.leaves(text);
        assert!(
            (0..100)
                .all(|_| counts.count(text, false, nothing).due
                    == Some(DueText { text, unasked: false, says_so: false }))
        );
    }

    #[test]
    fn a_text_that_names_a_function_that_leaves_state_is_asked_about_each_time() {
        let mut counts = TextCounts::default();
        let text = ShapeKey(7);
        for _ in 0..100 {
            let due =
                counts.count(text, false, || FirstLook { draws: false, names: Leaving::Askable, by_values: false }).due;
            assert_eq!(due, Some(DueText { text, unasked: false, says_so: true }));
            counts.left_nothing(text);
        }
    }

    #[test]
    fn a_text_that_runs_its_values_or_was_judged_before_a_change_is_read_again() {
        let mut counts = TextCounts::default();
        let says = |names: Leaving, by_values| move || FirstLook { draws: false, names, by_values };
        let sets = |counts: &mut TextCounts, text, names, by_values| {
            counts.count(ShapeKey(text), false, says(names, by_values)).names == Leaving::Unknown
        };
        assert!(!sets(&mut counts, 7, Leaving::Askable, true), "its own values show nothing");
        assert!(sets(&mut counts, 7, Leaving::Unknown, true) && !sets(&mut counts, 7, Leaving::Askable, true));
        assert!(!sets(&mut counts, 8, Leaving::Askable, false) && !sets(&mut counts, 8, Leaving::Unknown, false));
        counts.judge_again();
        assert!(sets(&mut counts, 8, Leaving::Unknown, false), "what it names is another function");
        counts.leaves(ShapeKey(9));
        assert!(sets(&mut counts, 9, Leaving::Unknown, false));
    }

    #[test]
    fn texts_are_one_that_differ_in_values_only() {
        let key = |text: &str| shape(text.as_bytes(), &[7; 16]);
        assert_eq!(key("select f(1, 'a')"), key("select f(23, 'it is')"));
        assert_eq!(key("/* it's 1 */ select f('a') -- it's"), key("/* its 2* */ select f('b') --its"));
        assert_eq!(key("select $1, x'1', \"it's\", 'a', 1.5"), key("select $2, x'2', \"it's\", 'b', 2.5"));
        assert_ne!(key("select f(1)"), key("select g(1)"));
        assert_ne!(key("select f(1)"), shape(b"select f(1)", &[8; 16]));
    }

    #[test]
    fn nothing_that_a_text_may_call_is_left_out_of_its_shape() {
        let key = |text: String| shape(text.as_bytes(), &[7; 16]);
        let long = format!("select {}", "column_of_a_long_list, ".repeat(100));
        for begin in [
            "select ",
            "select a1, ",
            "select 'a', ",
            r"select E'\'', ",
            r"select 'a\', ",
            r"select U&'\0061', ",
            "select $$it's$$, ",
            "select $a$it's$a$, ",
            "select $é$it's$é$, ",
            "select 1 as \"it's\", ",
            "/* it's */ select ",
            "/* /* */ it's */ select ",
            "/*/ it's */ select ",
            "-- it's\nselect ",
            "select 1--'\n, ",
            "select 'a' 'b', '''', ",
            "select x$it, ",
            &long,
        ] {
            for (one, other) in [
                ("f()", "g()"),
                ("f1()", "f2()"),
                ("f$1()", "f$2()"),
                ("é1()", "é2()"),
                ("\"f1\"()", "\"f2\"()"),
                ("\"a 1\".f()", "\"a 2\".f()"),
            ] {
                assert_ne!(key(format!("{begin}{one}")), key(format!("{begin}{other}")), "{begin}{one}");
            }
        }
    }

    #[test]
    fn only_what_is_nothing_but_a_transactions_begin_or_end_runs_nothing() {
        for text in ["begin", "BEGIN;", "commit and chain", "Rollback to a", "start transaction read only", "end"] {
            assert!(runs_nothing(text.as_bytes()), "{text}");
        }
        for text in ["begin; select f()", "commit;select f();", "beginner()", "end/**/;call p()", "select f()", ""] {
            assert!(!runs_nothing(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_text_stays_due_until_an_answer() {
        let mut counts = TextCounts::default();
        let text = ShapeKey(7);
        assert!((0..9).all(|_| counts.count(text, false, nothing).due.is_some()));
        counts.left_nothing(text);
        assert!((0..9).all(|_| counts.count(text, false, nothing).due.is_some()), "the second execution");
        counts.left_nothing(text);
        assert!(counts.count(text, false, nothing).due.is_none(), "the third");
        assert!(counts.count(text, true, nothing).due.is_some_and(|due| due.unasked), "asked anyway");
    }

    #[test]
    fn more_texts_than_are_counted_are_asked_about_again_and_take_no_more_room() {
        let mut counts = TextCounts::default();
        counts.leaves(ShapeKey(1));
        (0..MOST as u64 * 3).for_each(|text| _ = counts.count(ShapeKey(text << 8 | 255), false, draws));
        assert!(
            counts.0.len() <= MOST
                && counts.count(ShapeKey(1), false, nothing).due.is_some()
                && counts.count(ShapeKey(1), false, nothing).due.is_some()
        );
    }

    #[test]
    fn a_text_that_has_changed_nothing_for_a_client_that_keeps_its_server_can_wait_between_powers_of_two() {
        let due = |text| DueText { text: ShapeKey(text), unasked: false, says_so: false };
        let mut quiet = QuietTexts::default();
        assert!(!quiet.can_wait(due(1)), "it was never asked about");
        quiet.changed_nothing(ShapeKey(1));
        let waits: Vec<bool> = (2..=9).map(|_| quiet.can_wait(due(1))).collect();
        assert_eq!(waits, [false, true, false, true, true, true, false, true]);
        (2..100).for_each(|text| quiet.changed_nothing(ShapeKey(text)));
        assert!(!quiet.can_wait(due(99)), "beyond those that are remembered the server is asked");
        quiet.clear();
        assert!(!quiet.can_wait(due(1)));
    }
}
