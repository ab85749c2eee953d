//! Statements that a client names in SQL: PREPARE, EXECUTE and DEALLOCATE, in a query of any number of statements or
//! prepared itself.
//!
//! Owns what the server is sent in place of such a text. To the client its statements exist under the names that it
//! gave them by Parse; on the server they have ours, and are shared. So EXECUTE and PREPARE name the shared statement,
//! which is prepared first; a DEALLOCATE becomes a statement of the same length that does nothing, and whose command
//! tag shows when it has run. A name that begins like ours and is not the client's becomes one that no statement of
//! ours has, so that SQL reaches none of others.
//!
//! A text grows by less than [`NAME_LEN`] and two quotes for each statement that it names.

use std::collections::{HashSet, VecDeque};

use weir_pgwire::sql::{self, Naming, RewrittenCommand, Verb};
use weir_pgwire::{Dirty, Effects, Of, put_front};

use crate::edit::{Edit, EditedText};
use crate::expected::Expected;
use crate::link::{Link, MAX_COMPOSED};
use crate::long_text::SEARCHED;
use crate::names::Name;
use crate::prepared::OnServer;
use crate::replaced::{NOTHING, Nothing, Replaced};
use crate::statements::{HIDDEN_PREFIX, NAME_LEN, NAME_PREFIX};
use crate::stop::StopReason;

/// A text with the names of servers.
pub(crate) struct Edited {
    pub(crate) text: Vec<u8>,
    /// What the statements do that the text executes.
    pub(crate) effects: Effects,
    /// Statements are prepared for the text: a Sync must follow.
    pub(crate) prepares: bool,
}

/// What a statement is called on the server.
enum Called {
    /// As in the text.
    Alike,
    /// This, and what its text does.
    Otherwise(Vec<u8>, Effects),
}

/// What a text does with statements, as far as it was read.
#[derive(Default)]
struct Gone {
    /// Names that are not those of the client's Parse any more when a statement runs.
    names: HashSet<Name>,
    all: bool,
}

impl Link<'_, '_> {
    /// What is sent in place of the beginning of a simple query that may name statements, or reset parameters; `None`:
    /// itself. `cut`: the query continues behind it. `names`: it may name statements.
    pub(crate) fn edit_query(&mut self, text: &[u8], cut: bool, names: bool) -> Result<Option<Edited>, StopReason> {
        if names {
            // What the names mean, and where strings end, depends on all that is under way.
            self.must_know_status()?;
        }
        let conforming = self.ctx.params.get(&self.client.params, "standard_conforming_strings") != Some("off");
        let commands = sql::commands(text, cut, conforming, SEARCHED);
        if commands.iter().any(|command| matches!(command, RewrittenCommand::Resets(reset) if self.is_edited(reset))) {
            self.must_know_status()?;
        }
        let (mut edit, mut gone, mut effects) = (Edit::new(text), Gone::default(), Effects::NONE);
        let mut replaced = VecDeque::new();
        for command in commands {
            match command {
                RewrittenCommand::Names(Naming { verb: Verb::Unlisten, .. }) => replaced.push_back(Nothing::Unlisten),
                RewrittenCommand::Names(naming) if names => {
                    let does = self.edit_naming(naming, cut, &mut edit, &mut gone, &mut replaced)?;
                    effects = effects.either(does);
                }
                RewrittenCommand::Names(_) => {}
                RewrittenCommand::Resets(reset) => self.edit_reset(&reset, &mut edit, &mut replaced),
            }
        }
        if gone.all || !gone.names.is_empty() {
            self.drop_all(None);
        }
        let utf8 = self.ctx.params.get(&self.client.params, "client_encoding") == Some("UTF8");
        let Some(EditedText { text, shifts }) = edit.finish(utf8) else { return Ok(None) };
        self.server.replaced = Some(Box::new(Replaced::new(replaced, shifts, self.ctx.statements.account())));
        Ok(Some(Edited { text, effects, prepares: !self.ctx.scratch.is_empty() }))
    }

    /// A text names a statement. Returns what that does, if it is executed.
    fn edit_naming(
        &mut self,
        Naming { verb, name, at }: Naming,
        cut: bool,
        edit: &mut Edit<'_>,
        gone: &mut Gone,
        replaced: &mut VecDeque<Nothing>,
    ) -> Result<Effects, StopReason> {
        let known = !gone.all && !gone.names.contains(&Name::new(&name)) && self.given(&name).is_some();
        if verb == Verb::Prepare {
            self.server.state.may_prepare(Dirty::STATEMENTS);
        }
        match verb {
            Verb::DropAll => gone.all = true,
            Verb::Deallocate if known => {
                edit.replace_by_nothing(at);
                replaced.push_back(Nothing::Deallocate(Name::new(&name)));
                gone.names.insert(Name::new(&name));
            }
            _ => {
                if let Called::Otherwise(called, does) = self.called(&name, known, cut)? {
                    edit.rename(verb, at, &called);
                    return Ok(if verb == Verb::Execute { does } else { Effects::NONE });
                }
            }
        }
        Ok(Effects::NONE)
    }

    /// What a statement is called on the server, which is prepared there if it must be. `known`: the client has it by
    /// this name.
    fn called(&mut self, name: &[u8], known: bool, cut: bool) -> Result<Called, StopReason> {
        if !known {
            return Ok(if name.starts_with(NAME_PREFIX) {
                Called::Otherwise(hidden(name), Effects::NONE)
            } else {
                Called::Alike
            });
        }
        let Some(mut given) = self.given(name).cloned() else { return Ok(Called::Alike) };
        let ready = self.server.statements.touch(given.statement.key()) == OnServer::Ready;
        // A Parse fails in a failed transaction, and it must be followed by a Sync. A text that needs more than that is
        // rare: it gets the server's error for a name that it does not know.
        if !ready && (cut || self.has_failed()? || *self.composed > MAX_COMPOSED) {
            return Ok(Called::Alike);
        }
        self.ensure(name, &mut given)?;
        let effects = self.server.may_set(given.statement.effects(), given.statement.judged().custom.as_deref());
        Ok(Called::Otherwise(given.statement.name().to_vec(), effects))
    }

    /// What the server calls a statement that is named by another, and what it does where that executes it. `None`: as
    /// in the text.
    pub(crate) fn called_by_server(&mut self, naming: &Naming) -> Result<Option<(Vec<u8>, Effects)>, StopReason> {
        let known = self.given(&naming.name).is_some();
        if naming.verb == Verb::Prepare {
            self.server.state.may_prepare(Dirty::STATEMENTS);
        }
        if naming.verb == Verb::Deallocate && known {
            return Ok(None);
        }
        Ok(match self.called(&naming.name, known, false)? {
            Called::Otherwise(called, does) if naming.verb == Verb::Execute => Some((called, does)),
            Called::Otherwise(called, _) => Some((called, Effects::NONE)),
            Called::Alike => None,
        })
    }

    /// Prepares an edited text as the unnamed statement, for a Bind or Describe. `rest`: with what follows it in a
    /// Parse.
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
pub(crate) fn hidden(name: &[u8]) -> Vec<u8> {
    [HIDDEN_PREFIX, &name[NAME_PREFIX.len()..]].concat()
}

/// A text that names a statement, with another name for it.
pub(crate) fn renamed(text: &[u8], naming: &Naming, name: &[u8]) -> Vec<u8> {
    let mut edit = Edit::new(text);
    edit.rename(naming.verb, naming.at.clone(), name);
    edit.finish(true).map_or_else(Vec::new, |edited| edited.text)
}

/// An edited text is not longer than its own and so much for each name.
const _: () = assert!(HIDDEN_PREFIX.len() <= NAME_LEN && NOTHING.len() <= b"DEALLOCATE s".len());
