//! Statements that a client names in SQL: PREPARE, EXECUTE and DEALLOCATE, in a query of any number of statements or prepared itself.
//!
//! Owns what the server is sent in place of such a text. To the client its statements exist under the names that it gave them by
//! Parse; on the server they have ours, and are shared. So EXECUTE and PREPARE name the shared statement, which is prepared first;
//! a DEALLOCATE becomes a statement of the same length that does nothing, and whose command tag shows when it has run. A name that
//! begins like ours and is not the client's becomes one that no statement of ours has, so that SQL reaches none of others.
//!
//! A text is edited in one pass, and grows by less than [`NAME_LEN`] and two quotes for each statement that it names.

use std::collections::{HashSet, VecDeque};

use weir_pgwire::sql::{self, Naming, Verb};
use weir_pgwire::{Effects, Of, TxStatus, put_front};

use crate::deallocating::{Deallocating, NOTHING};
use crate::expected::Expected;
use crate::link::{Link, MAX_COMPOSED};
use crate::names::Name;
use crate::prepared::OnServer;
use crate::statements::{HIDDEN_PREFIX, NAME_LEN, NAME_PREFIX};
use crate::stop::StopReason;
use crate::text::SEARCHED;

/// A text with the names of servers.
pub(crate) struct Edited {
    pub(crate) text: Vec<u8>,
    /// What the statements do that it executes.
    pub(crate) effects: Effects,
    /// Statements are prepared for it: a Sync must follow.
    pub(crate) prepares: bool,
}

/// What a statement is called on the server.
enum Called {
    /// As in the text.
    Alike,
    /// This, and what its text does.
    Otherwise(Vec<u8>, Effects),
}

impl Link<'_, '_> {
    /// What is sent in place of the beginning of a simple query that may name statements; `None`: itself. `cut`: the query
    /// continues behind it.
    pub(crate) fn edit_query(&mut self, text: &[u8], cut: bool) -> Result<Option<Edited>, StopReason> {
        // What the names mean, and where strings end, depends on all that is under way.
        self.must_know_status()?;
        let conforming = self.ctx.params.get(&self.client.params, "standard_conforming_strings") != Some("off");
        let mut edit = Edit { text, upto: 0, edited: Vec::new() };
        let mut effects = Effects::NONE;
        // Names that are not those of the client's Parse any more when a statement runs.
        let (mut gone, mut all_gone) = (HashSet::new(), false);
        let mut dropped = VecDeque::new();
        for Naming { verb, name, at } in sql::names(text, cut, conforming, SEARCHED) {
            let known = !all_gone && !gone.contains(&Name::new(&name)) && self.client.has_statement(&name);
            match verb {
                Verb::DropAll => all_gone = true,
                Verb::Unlisten => dropped.push_back(None),
                Verb::Deallocate if known => {
                    edit.replace_by_nothing(at);
                    dropped.push_back(Some(Name::new(&name)));
                    gone.insert(Name::new(&name));
                }
                _ => {
                    if let Called::Otherwise(called, does) = self.called(&name, known, cut)? {
                        edit.rename(verb, at, &called);
                        effects = if verb == Verb::Execute { effects.either(does) } else { effects };
                    }
                }
            }
        }
        let deallocates = dropped.iter().any(Option::is_some);
        if all_gone || deallocates {
            self.drop_all();
        }
        if deallocates {
            self.server.deallocating = Deallocating::new(dropped, self.ctx.statements.account());
        }
        let prepares = !self.ctx.scratch.is_empty();
        Ok(edit.finish().map(|text| Edited { text, effects, prepares }))
    }

    /// What a statement is called on the server, which is prepared there if it must be. `known`: the client has it by this name.
    fn called(&mut self, name: &[u8], known: bool, cut: bool) -> Result<Called, StopReason> {
        if !known {
            return Ok(if name.starts_with(NAME_PREFIX) {
                Called::Otherwise(hidden(name), Effects::NONE)
            } else {
                Called::Alike
            });
        }
        let Some(mut given) = self.client.given(name).cloned() else { return Ok(Called::Alike) };
        let ready = self.server.statements.touch(given.statement.key()) == OnServer::Ready;
        // A Parse fails in a failed transaction, and it must be followed by a Sync. A text that needs more than that is rare: it
        // gets the server's error for a name that it does not know.
        if !ready && (cut || self.server.status == TxStatus::Failed || *self.composed > MAX_COMPOSED) {
            return Ok(Called::Alike);
        }
        match self.ensure(name, &mut given) {
            Ok(_) => Ok(Called::Otherwise(given.statement.name().to_vec(), given.statement.effects())),
            // There is no memory for it.
            Err(StopReason::Refuse(_)) => Ok(Called::Alike),
            Err(stop) => Err(stop),
        }
    }

    /// What the server calls a statement that is named by another, and what it does where that executes it. `None`: as in the text.
    pub(crate) fn called_by_server(&mut self, naming: &Naming) -> Result<Option<(Vec<u8>, Effects)>, StopReason> {
        let known = self.client.has_statement(&naming.name);
        if naming.verb == Verb::Deallocate && known {
            return Ok(None);
        }
        Ok(match self.called(&naming.name, known, false)? {
            Called::Otherwise(called, does) if naming.verb == Verb::Execute => Some((called, does)),
            Called::Otherwise(called, _) => Some((called, Effects::NONE)),
            Called::Alike => None,
        })
    }

    /// Prepares an edited text as the unnamed statement, for a Bind or Describe. `rest`: with what follows it in a Parse.
    pub(crate) fn prepare_edited(&mut self, rest: &[u8]) {
        // The unnamed slot is not the client's own from here on.
        self.server.unnamed = None;
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.compose_parse(b"", rest);
    }

    /// Describes the statement that was prepared last by [`Link::prepare_edited`].
    pub(crate) fn describe_edited(&mut self) {
        self.server.pending.request(Expected::DescribeStatement);
        put_front::describe(self.ctx.scratch, Of::Statement, b"");
    }
}

/// A name that begins like ours, as one that none of ours is.
fn hidden(name: &[u8]) -> Vec<u8> {
    [HIDDEN_PREFIX, &name[NAME_PREFIX.len()..]].concat()
}

/// A text that names a statement, with another name for it.
pub(crate) fn renamed(text: &[u8], naming: &Naming, name: &[u8]) -> Vec<u8> {
    let mut edit = Edit { text, upto: 0, edited: Vec::new() };
    edit.rename(naming.verb, naming.at.clone(), name);
    edit.finish().unwrap_or_default()
}

/// A text that is being edited, from its beginning to its end.
struct Edit<'t> {
    text: &'t [u8],
    upto: usize,
    edited: Vec<u8>,
}

impl Edit<'_> {
    fn put(&mut self, at: &std::ops::Range<usize>) {
        self.edited.extend_from_slice(&self.text[self.upto..at.start]);
        self.upto = at.end;
    }

    fn replace_by_nothing(&mut self, at: std::ops::Range<usize>) {
        self.put(&at);
        self.edited.extend_from_slice(NOTHING);
        // So that positions in the server's errors stay right.
        self.edited.extend(std::iter::repeat_n(b' ', at.len().saturating_sub(NOTHING.len())));
    }

    fn rename(&mut self, verb: Verb, at: std::ops::Range<usize>, name: &[u8]) {
        self.put(&at);
        let begin: &[u8] = if verb == Verb::Deallocate { b"DEALLOCATE " } else { b"" };
        self.edited.extend_from_slice(begin);
        self.edited.push(b'"');
        for byte in name {
            self.edited.extend(std::iter::repeat_n(*byte, if *byte == b'"' { 2 } else { 1 }));
        }
        self.edited.push(b'"');
    }

    /// The whole text; `None` if nothing was edited.
    fn finish(mut self) -> Option<Vec<u8>> {
        if self.upto == 0 {
            return None;
        }
        self.edited.extend_from_slice(&self.text[self.upto..]);
        Some(self.edited)
    }
}

/// An edited text is not longer than its own and so much for each name.
const _: () = assert!(HIDDEN_PREFIX.len() <= NAME_LEN && NOTHING.len() <= b"DEALLOCATE s".len());
