//! What is known of a text that is stored: read once, when it is stored.
//!
//! A message of a few bytes may refer to a text of megabytes, again and again, so no message reads a stored text: it
//! finds here what it needs to know. A text is only read again to be sent.

use std::ffi::CStr;

use weir_pgwire::sql::{self, Judgement, Naming, Resetting, RewrittenCommand, Verb};
use weir_pgwire::{Dirty, Effects};

use crate::long_text::{self, LONG_TEXT, SEARCHED};
use crate::params::{ParamTable, Params};

/// What is known of a stored text.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// What running it may leave on a server.
    pub(crate) effects: Effects,
    /// The text certainly leaves nothing beyond its transaction.
    pub(crate) harmless: bool,
    /// The text drops all prepared statements.
    pub(crate) drops_all: bool,
    /// The settings with names of two parts that the text may set; `None`: it does not tell, or does not matter.
    pub(crate) custom: Option<Box<[Box<str>]>>,
    /// What the text asks for of the values that were drawn of sequences.
    pub(crate) question: Question,
    /// What the text returns to the value that its client's session began with. The text is a single command.
    pub(crate) reset: Option<Box<Resetting>>,
    /// Which statement the text names. It can name only one: a prepared statement is a single command.
    pub(crate) naming: Option<Box<Naming>>,
    /// The text has a literal that PostgreSQL reads by the clock, once, when it is parsed. Known of stored texts that
    /// are not long.
    pub(crate) reads_clock: bool,
    /// The length of the text in what follows the name in a Parse, of which no more than 16 MiB is stored.
    len: u32,
}

/// What a text asks for of the values that were drawn of sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Question {
    /// For nothing. Nearly all texts do.
    #[default]
    Nothing,
    /// For what it has drawn itself.
    Own,
    /// For what was drawn before it.
    Earlier,
}

impl Question {
    /// That of a text with these effects, as far as it is there. Reads the text: once where it is stored.
    #[inline]
    pub(crate) fn of(effects: Effects, text: &[u8]) -> Question {
        match effects.may_leave.contains(Dirty::SEQUENCE_VALUES) {
            false => Question::Nothing,
            true if sql::asks_for_own_value(text) => Question::Own,
            true => Question::Earlier,
        }
    }
}

impl Judged {
    /// Judges the text in what follows the name in a Parse.
    pub(crate) fn in_parse(rest: &[u8]) -> Judged {
        Judged::of(text_in(rest))
    }

    /// Judges a text.
    #[inline]
    pub(crate) fn of(text: &[u8]) -> Judged {
        let len = text.len() as u32;
        if text.len() > LONG_TEXT {
            return Judged::of_long(long_text::judge(text), text);
        }
        if sql::is_harmless(text) { Judged { harmless: true, len, ..Judged::default() } } else { Judged::unusual(text) }
    }

    /// What is known of a long text once it was read. Which statement it names is at its beginning, if anywhere.
    pub(crate) fn of_long(judgement: Judgement, text: &[u8]) -> Judged {
        let Judgement { effects, harmless, .. } = judgement;
        let naming = naming_in(&text[..text.len().min(SEARCHED)], true);
        let drops_all = naming.as_ref().is_some_and(|naming| naming.verb == Verb::DropAll);
        let naming = naming.filter(|_| !drops_all).map(Box::new);
        let question = Question::of(effects, text);
        Judged { effects, harmless, drops_all, question, naming, len: text.len() as u32, ..Judged::default() }
    }

    /// Whether the text is so long that no part of it is looked for: it certainly leaves nothing, as far as is known.
    pub(crate) fn is_long(&self) -> bool {
        self.len as usize > LONG_TEXT
    }

    fn unusual(text: &[u8]) -> Judged {
        let Judgement { effects, harmless, drops_all, names } = Judgement::of(text, &sql::head(text));
        let naming = if names { naming_in(text, false) } else { None };
        let naming = naming.filter(|naming| naming.verb != Verb::DropAll).map(Box::new);
        let reset = reset_of(text).map(Box::new);
        let custom = effects.may_leave.contains(Dirty::CUSTOM).then(|| sql::custom_settings(text)).flatten();
        let custom = custom.map(Vec::into_boxed_slice);
        let question = Question::of(effects, text);
        Judged {
            effects,
            harmless,
            drops_all,
            custom,
            question,
            reset,
            naming,
            len: text.len() as u32,
            ..Judged::default()
        }
    }

    /// The text in the bytes that were judged.
    pub(crate) fn text<'r>(&self, rest: &'r [u8]) -> &'r [u8] {
        rest.get(..self.len as usize).unwrap_or(rest)
    }

    /// Whether the text concerns no prepared statement: nearly all texts.
    #[inline]
    pub(crate) fn concerns_no_statement(&self) -> bool {
        self.naming.is_none() && !self.drops_all
    }

    /// Whether a Bind of the text is not the server's alone to carry out.
    pub(crate) fn is_about_session(&self) -> bool {
        !self.concerns_no_statement() || self.reset.is_some()
    }
}

/// The statement that a single command names, or that it drops all; `cut`: the text continues.
pub(crate) fn naming_in(text: &[u8], cut: bool) -> Option<Naming> {
    // Only options of an EXPLAIN or of a table are strings in front of the name: no backslash matters in them.
    let naming = sql::names(text, cut, true, 1).into_iter().next()?;
    (naming.verb == Verb::DropAll || !naming.name.is_empty()).then_some(naming)
}

/// Whether a text has the columns of a cursor, which it finds each time that it is described or executed: PostgreSQL
/// analyses no FETCH before, and has no "cached plan must not change result type" for it.
pub(crate) fn has_columns_of_cursor(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"fetch"))
}

/// The text in what follows the name in a Parse.
pub(crate) fn text_in(rest: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes)
}

/// Whether a text is worth reading for what it resets: it begins with such a command, or is more than one.
#[inline]
pub(crate) fn may_reset(text: &[u8]) -> bool {
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    let alone = text.first().is_some_and(|first| first.is_ascii_alphabetic())
        && text.iter().position(|byte| *byte == b';').is_none_or(|at| at + 1 == text.len());
    !alone || begins(b"reset") || begins(b"discard") || begins(b"set")
}

/// What a text resets that is a single command.
pub(crate) fn reset_of(text: &[u8]) -> Option<Resetting> {
    let resets = |command| if let RewrittenCommand::Resets(reset) = command { Some(reset) } else { None };
    if may_reset(text) { sql::commands(text, false, true, 1).into_iter().find_map(resets) } else { None }
}

/// The most settings of a text that are not tracked and whose names are kept; one more is taken for lost.
const MOST_OTHERS: usize = 4;

/// The state that a text certainly leaves, for any server.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    leaves: Dirty,
    /// Tracked settings that the text changes for good, by their places: they follow the client from servers that
    /// report them.
    settings: u64,
    /// The same of settings that are not tracked.
    others: Vec<Box<str>>,
}

impl Kept {
    pub(crate) fn of(text: &[u8], table: &ParamTable) -> Kept {
        let (settings, others) = (std::cell::Cell::new(0), std::cell::RefCell::new(Vec::new()));
        let leaves = sql::kept(text, |name| {
            let Ok(name) = std::str::from_utf8(name) else { return false };
            match table.place(name) {
                Some(place) => settings.set(settings.get() | 1 << place),
                None if others.borrow().len() < MOST_OTHERS => others.borrow_mut().push(name.into()),
                None => return false,
            }
            true
        });
        Kept { leaves, settings: settings.get(), others: others.into_inner() }
    }

    /// What of this state the client loses with a server.
    pub(crate) fn lost_with(&self, server: &Params) -> Dirty {
        if server.reports_all(self.settings, &self.others) { self.leaves } else { self.leaves.union(Dirty::SETTINGS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_leaves_depends_on_what_its_server_reports() {
        let table = ParamTable::new([]);
        let (mut reports, unreported) = (table.unknown(), table.unknown());
        table.take_report(&mut reports, "TimeZone", "UTC");
        let lost = |text: &str, server: &Params| Kept::of(text.as_bytes(), &table).lost_with(server);
        assert_eq!(lost("set timezone = 'UTC'", &reports), Dirty::NONE);
        assert_eq!(lost("set timezone = 'UTC'", &unreported), Dirty::SETTINGS);
        assert_eq!(lost("select set_config('TimeZone', 'UTC', true)", &unreported), Dirty::NONE);
        assert_eq!(lost("set timezone = 'UTC'; set work_mem = '1MB'", &reports), Dirty::SETTINGS);
        assert_eq!(lost("listen a", &unreported), Dirty::LISTEN);
        table.take_report(&mut reports, "scram_iterations", "4096");
        assert_eq!(lost("set scram_iterations = 5000", &reports), Dirty::NONE);
        assert_eq!(lost("set scram_iterations = 5000", &unreported), Dirty::SETTINGS);
        assert_eq!(lost("set scram_iterations = 1; set work_mem = 1", &reports), Dirty::SETTINGS);
        assert_eq!(lost("set session authorization x", &unreported), Dirty::SETTINGS);
        assert_eq!(lost("select 1; listen a; set x = 1", &reports), Dirty::SETTINGS.union(Dirty::LISTEN));
    }
}
