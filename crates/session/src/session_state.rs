//! What clients may have left on a server beside its parameters and prepared statements.
//!
//! Owns the kinds of session state ([`Dirty`]) of one server, and which texts its portals run. Texts and command
//! tags say together what may be left: a text when it is sent, its tag when the server has answered it. It errs on the
//! side of "may". `lost` errs the other way: what the transaction under way certainly leaves, of which its client is
//! warned.

use weir_pgwire::sql::Mentions;
use weir_pgwire::{Dirty, Effects};

/// What is known of a server's session state.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// What may be on the server.
    dirty: Dirty,
    /// What of it the server has said since that it has, and that its client keeps by keeping the server.
    known: Dirty,
    /// What keeps its client at the server, as the server has said.
    kept: Dirty,
    /// What of it does not keep its client at the server, and is removed when the client leaves.
    shared: Dirty,
    /// What the transaction under way has certainly left.
    lost: Dirty,
    /// A text may have run a command that a function has composed, since the server was cleaned.
    composed: bool,
    /// A temporary object may be there, or may just have been dropped.
    temporary: bool,
    /// A text was sent that may prepare a statement by SQL.
    prepares: bool,
    /// A setting was changed on which plans depend, if only for a transaction.
    plans_changed: bool,
    /// Plans may depend on settings with names of two parts: a function of the database reads them that is IMMUTABLE.
    custom_is_planned: bool,
    /// A text was executed that may have set `default_transaction_read_only`, if only for a transaction.
    read_only_set: bool,
    /// What the text in the unnamed statement does.
    unnamed: Effects,
    /// What the text bound to the unnamed portal does.
    portal: Effects,
    /// What the texts bound to named portals do.
    named_portals: Effects,
    /// What the texts do that were parsed under names which are not known here.
    parsed: Effects,
    /// The text that is streaming to the server.
    streaming: Option<(StreamingText, Mentions)>,
}

/// What a text belongs to that is read while it streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamingText {
    /// A simple query: the newest pending request.
    Query,
    /// A Parse.
    Parse,
}

/// What the end of a transaction means for its client, and for statements that were prepared.
pub(crate) struct TransactionEnd {
    /// What the client loses with the server.
    pub(crate) lost: Dirty,
    /// Temporary objects came or went: names may mean something else.
    pub(crate) temporary: bool,
}

/// The effects of the texts before, and of one more.
fn joined(before: Effects, effects: Effects) -> Effects {
    if before == Effects::NONE { effects } else { before.either(effects) }
}

impl SessionState {
    /// What may be on the server.
    #[inline]
    pub(crate) fn dirty(&self) -> Dirty {
        self.dirty
    }

    /// What may be on the server, and was not asked about.
    #[inline]
    pub(crate) fn unknown(&self) -> Dirty {
        self.dirty.without(self.known)
    }

    /// The server has this, as it has said itself; `known`: so much of it stays as it is until a command says otherwise.
    pub(crate) fn found(&mut self, there: Dirty, known: Dirty) {
        (self.dirty, self.known, self.kept, self.shared) = (there, known, there, Dirty::NONE);
        self.prepares = there.contains(Dirty::STATEMENTS);
    }

    /// This is there, and does not keep the client at the server: what it is for comes by another connection.
    pub(crate) fn share(&mut self, kinds: Dirty) {
        self.dirty.insert(kinds);
        self.known.insert(kinds);
        self.shared.insert(kinds);
        self.kept = self.kept.without(kinds);
    }

    /// A text may run a command that a function composes: the server's settings are reset when its client leaves.
    pub(crate) fn may_compose(&mut self) {
        self.composed = true;
    }

    /// Whether a text may have run such a command.
    pub(crate) fn has_composed(&self) -> bool {
        self.composed
    }

    /// What is there of these kinds does not keep the client.
    pub(crate) fn forgo(&mut self, kinds: Dirty) {
        (self.dirty, self.kept) = (self.dirty.without(kinds), self.kept.without(kinds));
    }

    /// The server listens on no channel, as it has said.
    pub(crate) fn no_channels(&mut self) {
        self.dirty = self.dirty.without(Dirty::LISTEN);
        self.shared = self.shared.without(Dirty::LISTEN);
    }

    /// What is there for Weir itself, and is removed when the client leaves, whatever becomes of the rest.
    pub(crate) fn shared(&self) -> Dirty {
        self.shared
    }

    /// What may keep the client at the server.
    #[inline]
    pub(crate) fn keeping(&self) -> Dirty {
        self.dirty.without(self.shared)
    }

    /// What keeps the client at the server, as that has said when it was asked last.
    pub(crate) fn kept(&self) -> Dirty {
        self.kept
    }

    /// Whether a temporary object may be there.
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// A temporary object may be there, as another process knew.
    pub(crate) fn set_temporary(&mut self, temporary: bool) {
        self.temporary = temporary;
    }

    /// Something may be on the server now.
    pub(crate) fn leave(&mut self, kinds: Dirty) {
        self.dirty.insert(kinds);
        self.known = self.known.without(kinds);
        self.shared = self.shared.without(kinds);
    }

    /// A text is in the unnamed statement now that does this.
    #[inline]
    pub(crate) fn set_unnamed(&mut self, effects: Effects) {
        self.unnamed = effects;
    }

    /// What the text in the unnamed statement does.
    #[inline]
    pub(crate) fn unnamed(&self) -> Effects {
        self.unnamed
    }

    /// A text was parsed under a name that is not known here.
    pub(crate) fn add_parsed(&mut self, effects: Effects) {
        self.parsed = joined(self.parsed, effects);
    }

    /// What any statement whose name is not known here may do.
    pub(crate) fn parsed(&self) -> Effects {
        self.parsed
    }

    /// A portal is bound to a text with these effects.
    #[inline]
    pub(crate) fn bind(&mut self, portal: &[u8], effects: Effects) {
        if portal.is_empty() {
            self.portal = effects;
        } else if effects != Effects::NONE {
            self.named_portals = joined(self.named_portals, effects);
        }
    }

    /// What running a portal may do.
    #[inline]
    pub(crate) fn portal(&self, unnamed: bool) -> Effects {
        if unnamed { self.portal } else { self.named_portals }
    }

    /// A temporary object may come or go: returns whether a text with these effects was sent.
    #[inline]
    pub(crate) fn may_be_temporary(&mut self, effects: Dirty) -> bool {
        let temporary = effects.contains(Dirty::TEMP);
        // Not by `|=`, of which rustc 1.95 makes an unconditional `true` where this is inlined (`weir-bench own` shows
        // it).
        if temporary {
            self.temporary = true;
        }
        temporary
    }

    /// A text is sent that may leave these kinds.
    pub(crate) fn may_prepare(&mut self, kinds: Dirty) {
        self.prepares |= kinds.contains(Dirty::STATEMENTS);
    }

    /// Whether a statement may be there that SQL has prepared.
    #[inline]
    pub(crate) fn may_have_prepared(&self) -> bool {
        self.prepares || self.dirty.contains(Dirty::STATEMENTS)
    }

    /// A text continues to the server of which `piece` is the beginning.
    pub(crate) fn begin_text(&mut self, what: StreamingText, piece: &[u8]) {
        self.streaming = Some((what, Mentions::begin(piece)));
    }

    /// Reads more of the text that streams to the server.
    #[inline]
    pub(crate) fn more_text(&mut self, piece: &[u8]) {
        if let Some((_, mentions)) = &mut self.streaming {
            mentions.feed(piece);
        }
    }

    /// The streamed text has ended. Returns its kind, and what it may leave.
    #[inline]
    pub(crate) fn end_text(&mut self) -> Option<(StreamingText, Dirty)> {
        self.streaming.take().map(|(what, mentions)| (what, mentions.found()))
    }

    /// What a Parse may do of which more was read. Returns what was known before.
    pub(crate) fn add_to_parsed(&mut self, may_leave: Dirty) -> Dirty {
        let before = self.parsed;
        self.parsed = before.with(may_leave);
        before.may_leave
    }

    /// A command of the client's has ended with this tag; none where it ended otherwise.
    pub(crate) fn answered(&mut self, effects: Effects, tag: Option<&[u8]>) {
        self.leave(effects.after(tag));
        self.plans_changed |= effects.changes_plans(tag, self.custom_is_planned);
        if let Some(tag) = tag {
            self.lost.insert(effects.leaves);
            self.read_only_set |= effects.sets_read_only(tag);
        }
    }

    /// A command failed: what it did within its transaction is undone.
    pub(crate) fn failed(&mut self, effects: Effects) {
        self.leave(effects.after(None));
        self.plans_changed |= effects.changes_plans(None, self.custom_is_planned);
        self.rolled_back();
    }

    fn rolled_back(&mut self) {
        let survives = Dirty::STATEMENTS.union(Dirty::LOCKS);
        self.lost = self.lost.without(Dirty::ALL.without(survives));
    }

    /// The client may have removed state itself, as a command tag says.
    pub(crate) fn removed_by(&mut self, tag: &[u8]) {
        let gone = match tag {
            b"ROLLBACK" => return self.rolled_back(),
            b"RESET" => Dirty::SETTINGS,
            b"UNLISTEN" => Dirty::LISTEN,
            b"DEALLOCATE" | b"DEALLOCATE ALL" => Dirty::STATEMENTS,
            b"CLOSE CURSOR" | b"CLOSE CURSOR ALL" => Dirty::CURSORS,
            b"DROP TABLE" | b"DROP VIEW" | b"DROP SEQUENCE" | b"DISCARD TEMP" => Dirty::TEMP,
            b"DISCARD SEQUENCES" => Dirty::SEQUENCES,
            b"DISCARD ALL" => {
                self.dirty = Dirty::NONE;
                Dirty::ALL
            }
            _ => return,
        };
        self.lost = self.lost.without(gone);
        self.known = self.known.without(gone);
        self.shared = self.shared.without(gone);
    }

    /// The transaction has ended, and its portals with it. Without `nothing_is_pending`, those that are known may be
    /// the next one's: a client may send its Bind before this reply. Each Bind replaces the unnamed one.
    #[inline]
    pub(crate) fn end_transaction(&mut self, nothing_is_pending: bool) -> TransactionEnd {
        if nothing_is_pending {
            self.portal = Effects::NONE;
            self.named_portals = Effects::NONE;
        }
        TransactionEnd { lost: std::mem::take(&mut self.lost), temporary: self.temporary }
    }

    /// Whether plans may depend on settings with names of two parts.
    pub(crate) fn plan_by_custom(&mut self, may: bool) {
        self.custom_is_planned = may;
    }

    /// A text may have set something that it does not show, as a function does.
    pub(crate) fn may_set_custom(&mut self) {
        self.plans_changed |= self.custom_is_planned;
    }

    /// Whether a setting was changed in this use of the server on which plans depend, if only for a transaction.
    pub(crate) fn have_plans_changed(&self) -> bool {
        self.plans_changed
    }

    /// Whether a text of this use of the server may have set something, if only for a transaction.
    pub(crate) fn may_have_set(&self) -> bool {
        self.plans_changed || self.dirty.contains(Dirty::SETTINGS)
    }

    /// Whether a text of this use of the server may have set `default_transaction_read_only`.
    pub(crate) fn may_have_set_read_only(&self) -> bool {
        self.read_only_set
    }

    /// The use of the server ends. Returns whether a setting was changed on which plans depend.
    #[inline]
    pub(crate) fn end_use(&mut self) -> bool {
        self.read_only_set = false;
        self.prepares = false;
        std::mem::take(&mut self.plans_changed)
    }

    /// The server was cleaned. Returns whether temporary objects may have gone with it.
    pub(crate) fn cleaned(&mut self) -> bool {
        self.found(Dirty::NONE, Dirty::NONE);
        (self.lost, self.composed) = (Dirty::NONE, false);
        self.parsed = Effects::NONE;
        std::mem::take(&mut self.temporary)
    }

    /// What is left is not to be cleaned: the next client takes it over.
    pub(crate) fn clear_dirty(&mut self) {
        self.found(Dirty::NONE, Dirty::NONE);
        self.composed = false;
        self.parsed = Effects::NONE;
    }
}
