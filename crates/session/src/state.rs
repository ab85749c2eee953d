//! Session state that clients leave on a server outside session mode: what may be there, and what its client loses.
//!
//! Owns what is known of one server's session state ([`SessionState`]) and the words in which a client is warned or refused.
//! What a text may leave is decided in `weir_pgwire::sql`; it is kept with the request in the queue of replies, and counts
//! from the moment the server answers it. Must not know what the pool does about it.

use weir_pgwire::sql::{self, Mentions};
use weir_pgwire::{Dirty, Effects, ErrorFields, HEAD, Head, SqlHead, put_back, put_front};

use crate::client::Unnamed;
use crate::frame_reader::Disposition;
use crate::from_client::{Step, StopReason};
use crate::out::{Out, View};
use crate::params::{ParamTable, Params};
use crate::pending::Expected;
use crate::statements::text_in;
use crate::undo_log::Change;

/// What is done about requests whose state is lost when their transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatePolicy {
    /// The client gets a WARNING, once for each kind (`warn_on_dirty`).
    pub warn: bool,
    /// The client gets an ERROR instead (`on_dirty = refuse`).
    pub refuse: bool,
}

/// What is known of a server's session state beside its parameters.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// What may be on it.
    pub(crate) dirty: Dirty,
    /// What the transaction under way has certainly left.
    lost: Dirty,
    /// A temporary object may be there, or may just have been dropped.
    temporary: bool,
    /// What the text in the unnamed statement does.
    pub(crate) unnamed: Effects,
    /// What the text bound to the unnamed portal does, and what those bound to named ones do.
    portal: Effects,
    named_portals: Effects,
    /// What the texts do that were parsed under names which are not known here.
    parsed: Effects,
    /// The text that is streaming to the server.
    streaming: Option<(Streaming, Mentions)>,
}

/// What a text belongs to that is read while it streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Streaming {
    Query,
    Parse,
}

/// Built-in functions for large objects, which leave nothing (`pg_proc.dat`). FunctionCall is used for little else.
const LARGE_OBJECT_FUNCTIONS: [u32; 13] = [715, 764, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171];

/// Sent where the pool refuses a text, so that the transaction fails at the server as it does after any other error.
const REFUSED_TEXT: &str = "refused by the connection pooler (on_dirty = refuse)";

impl SessionState {
    /// A command of the client's has ended with this tag; none where it ended otherwise.
    pub(crate) fn answered(&mut self, effects: Effects, tag: Option<&[u8]>) {
        self.dirty.insert(effects.after(tag));
        if tag.is_some() {
            self.lost.insert(effects.leaves);
        }
    }

    /// A command failed: what it did within its transaction is undone.
    pub(crate) fn failed(&mut self, effects: Effects) {
        self.dirty.insert(effects.after(None));
        self.rolled_back();
    }

    fn rolled_back(&mut self) {
        let survives = Dirty::STATEMENTS.union(Dirty::LOCKS);
        self.lost = self.lost.without(Dirty::ALL.without(survives));
    }

    /// The client took state back itself, as a command tag says.
    pub(crate) fn taken_back(&mut self, tag: &[u8]) {
        let gone = match tag {
            b"ROLLBACK" => return self.rolled_back(),
            b"RESET" => Dirty::SETTINGS,
            b"UNLISTEN" => Dirty::LISTEN,
            b"DEALLOCATE" | b"DEALLOCATE ALL" => Dirty::STATEMENTS,
            b"CLOSE CURSOR" | b"CLOSE CURSOR ALL" => Dirty::CURSORS,
            b"DROP TABLE" | b"DROP VIEW" | b"DROP SEQUENCE" | b"DISCARD TEMP" => Dirty::TEMP,
            b"DISCARD ALL" => {
                self.dirty = Dirty::NONE;
                Dirty::ALL
            }
            _ => return,
        };
        self.lost = self.lost.without(gone);
    }

    /// The transaction has ended. Returns what its client loses with the server, and whether names may mean something else
    /// now, since temporary objects came or went.
    pub(crate) fn transaction_ended(&mut self) -> (Dirty, bool) {
        self.portal = Effects::NONE;
        self.named_portals = Effects::NONE;
        (std::mem::take(&mut self.lost), self.temporary)
    }

    /// The server was cleaned. Returns whether temporary objects may have gone with it.
    pub(crate) fn cleaned(&mut self) -> bool {
        self.dirty = Dirty::NONE;
        self.lost = Dirty::NONE;
        self.parsed = Effects::NONE;
        std::mem::take(&mut self.temporary)
    }

    /// What is left is not to be cleaned: the next client takes it over.
    pub(crate) fn clear_dirty(&mut self) {
        self.dirty = Dirty::NONE;
        self.parsed = Effects::NONE;
    }

    /// More of the text that streams to the server.
    #[inline]
    pub(crate) fn more_text(&mut self, piece: &[u8]) {
        if let Some((_, mentions)) = &mut self.streaming {
            mentions.feed(piece);
        }
    }
}

impl<O: Out> Step<'_, '_, O> {
    /// A simple query of a pool that does not rename statements.
    pub(crate) fn watched_query(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        let (text, whole) = crate::from_client::text_seen(view, head);
        let what = if whole { sql::head(text) } else { sql::head_of_prefix(text) };
        let effects = self.effects_of(text, (!whole).then(|| &view.bytes[HEAD..]), &what);
        if self.refuses(effects) {
            return Ok(self.refuse_query(view, head, effects));
        }
        self.sends(effects);
        Ok(self.plain_with(view, head, Expected::Query, effects))
    }

    /// A Parse of a pool that does not rename statements. Its text is known in part only; any Bind may be of it.
    pub(crate) fn watched_parse(&mut self, view: View<'_>, head: Head) -> usize {
        let text = view.bytes[HEAD..].splitn(3, |byte| *byte == 0).nth(1).unwrap_or_default();
        let whole = view.bytes.len() == head.total();
        let what = if whole { sql::head(text) } else { sql::head_of_prefix(text) };
        let effects = self.effects_of(text, (!whole).then(|| &view.bytes[HEAD..]), &what);
        if self.refuses(effects) {
            return self.refuse_parse(view, head, effects, Change::None);
        }
        self.sends(effects);
        if let Some(server) = self.server.as_deref_mut() {
            let parsed = &mut server.state.parsed;
            *parsed = if *parsed == Effects::NONE { effects } else { parsed.either(effects) };
        }
        self.plain(view, head, Expected::Parse)
    }

    /// What any statement of a pool that does not rename them may do.
    pub(crate) fn parsed_effects(&self) -> Effects {
        self.server.as_deref().map_or(Effects::NONE, |server| server.state.parsed)
    }

    /// What a text does, or the beginning of one of which more follows: `seen` is then what there is of its message.
    pub(crate) fn effects_of(&self, text: &[u8], seen: Option<&[u8]>, head: &SqlHead<'_>) -> Effects {
        let mut effects = match seen {
            None => Effects::with_head(text, head),
            Some(seen) => Effects { may_leave: Mentions::of(seen), ..Effects::NONE },
        };
        let policy = self.ctx.state;
        if policy.warn || policy.refuse {
            effects.leaves = self.kept(text, effects);
        }
        effects
    }

    /// What a text certainly leaves, as far as its client loses it.
    fn kept(&self, text: &[u8], effects: Effects) -> Dirty {
        let Some(server) = self.server.as_deref() else { return Dirty::NONE };
        let first = text.first().map_or(b' ', u8::to_ascii_lowercase);
        let plain = first.is_ascii_alphabetic() && !matches!(first, b's' | b'l' | b'p' | b'd' | b'c');
        let select = text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"select"));
        let one = text.trim_ascii_end();
        let one = one.strip_suffix(b";").unwrap_or(one);
        if effects.may_leave.is_empty() && (plain || select) && !one.contains(&b';') {
            return Dirty::NONE;
        }
        sql::kept(text, |name| follows(self.ctx.params, &server.params, name))
    }

    /// The effects of a prepared statement that is about to be bound. `rest` is what follows its name in the Parse.
    pub(crate) fn bound_effects(&self, rest: &[u8], mut effects: Effects) -> Effects {
        if self.ctx.state.warn {
            effects.leaves = self.kept(text_in(rest), effects);
        }
        effects
    }

    /// A text with these effects is sent: what is parsed behind it may mean what it makes.
    pub(crate) fn sends(&mut self, effects: Effects) {
        if effects.may_leave.contains(Dirty::TEMP)
            && let Some(server) = self.server.as_deref_mut()
        {
            server.state.temporary = true;
            server.statements.distrust();
        }
    }

    /// A portal is bound to a text with these effects.
    pub(crate) fn binds(&mut self, portal: &[u8], effects: Effects) {
        self.sends(effects);
        let Some(server) = self.server.as_deref_mut() else { return };
        let state = &mut server.state;
        if portal.is_empty() {
            state.portal = effects;
        } else if effects != Effects::NONE {
            let named = state.named_portals;
            state.named_portals = if named == Effects::NONE { effects } else { named.either(effects) };
        }
    }

    /// A portal whose name is not known is bound to a text with these effects.
    pub(crate) fn binds_any(&mut self, effects: Effects) {
        self.binds(b"", effects);
        self.binds(b"?", effects);
    }

    /// An Execute: what it may leave is what the text of its portal may.
    pub(crate) fn execute(&mut self, view: View<'_>, head: Head) -> usize {
        let unnamed = view.bytes.get(HEAD) == Some(&0);
        let state = self.server.as_deref().map(|server| &server.state);
        let effects = state.map_or(Effects::NONE, |state| if unnamed { state.portal } else { state.named_portals });
        self.plain_with(view, head, Expected::Execute, effects)
    }

    /// A FunctionCall: any function may be called by its number.
    pub(crate) fn function_call(&mut self, view: View<'_>, head: Head) -> usize {
        let function = view.bytes.get(HEAD..HEAD + 4).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
        let harmless = function.is_some_and(|id| LARGE_OBJECT_FUNCTIONS.contains(&id));
        let effects = if harmless { Effects::NONE } else { Effects::UNKNOWN };
        self.plain_with(view, head, Expected::FunctionCall, effects)
    }

    /// A Query or Parse goes on to the server whose rest is still to come.
    pub(crate) fn begin_text(&mut self, view: View<'_>, what: u8) {
        let streaming = if what == weir_pgwire::tag::front::QUERY { Streaming::Query } else { Streaming::Parse };
        if let Some(server) = self.server.as_deref_mut() {
            server.state.streaming = Some((streaming, Mentions::begin(&view.bytes[HEAD..])));
        }
    }

    /// Whether the pool refuses a text.
    pub(crate) fn refuses(&self, effects: Effects) -> bool {
        self.ctx.state.refuse && !effects.leaves.is_empty()
    }

    /// Sends a query that fails in place of the client's.
    pub(crate) fn refuse_query(&mut self, view: View<'_>, head: Head, effects: Effects) -> usize {
        self.pending().request_with(Expected::QueryRefused, effects);
        self.ctx.scratch.clear();
        put_front::query(self.ctx.scratch, REFUSED_TEXT.as_bytes());
        self.out.server(self.ctx.scratch);
        self.rest(view, head, Disposition::Discard)
    }

    /// Sends a Parse that fails in place of the client's. `change` is what the client's Parse would have changed.
    pub(crate) fn refuse_parse(&mut self, view: View<'_>, head: Head, effects: Effects, change: Change) -> usize {
        if let Some(server) = self.server.as_deref_mut() {
            server.unnamed = None;
        }
        self.note(Expected::ParseRefused, None, change);
        self.pending().set_newest(effects);
        self.ctx.scratch.clear();
        put_front::parse(self.ctx.scratch, b"", &[REFUSED_TEXT.as_bytes(), &[0, 0, 0]].concat());
        self.out.server(self.ctx.scratch);
        self.rest(view, head, Disposition::Discard)
    }

    /// The change of the client's unnamed statement by a Parse that is refused.
    pub(crate) fn unnamed_change(&mut self) -> Change {
        Change::Unnamed { before: self.client.replace_unnamed(Unnamed::None) }
    }
}

/// The text that streamed to a server has come to its end.
pub(crate) fn end_text(server: &mut crate::Server) {
    let Some((streaming, mentions)) = server.state.streaming.take() else { return };
    let found = mentions.found();
    let before = match streaming {
        Streaming::Query => server.pending.add_to_newest(found),
        Streaming::Parse => {
            let parsed = &mut server.state.parsed.may_leave;
            std::mem::replace(parsed, parsed.union(found))
        }
    };
    if found.without(before).contains(Dirty::TEMP) {
        server.state.temporary = true;
        server.statements.distrust();
    }
}

/// Whether a setting goes with a client to its next server.
fn follows(table: &ParamTable, server: &Params, name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| table.follows(server, name))
}

/// Warns a client of what it loses, once for each kind; `warned` holds the kinds it was warned of before.
pub(crate) fn warn(lost: Dirty, warned: &mut Dirty, buffer: &mut Vec<u8>) {
    for kind in lost.without(*warned).kinds() {
        let (what, hint) = words(kind);
        let message = format!("{what} is lost: it belongs to a server connection that other clients use now");
        put_back::notice(
            buffer,
            &ErrorFields { severity: "WARNING", sqlstate: "01000", message: &message, detail: None, hint: Some(hint) },
        );
    }
    warned.insert(lost);
}

/// The error for a refused request.
pub(crate) fn refusal(effects: Effects, buffer: &mut Vec<u8>) {
    let (what, hint) = effects.leaves.kinds().next().map_or(("session state", ""), words);
    let message = format!("{what} is not supported by this pool: it would be lost when the transaction ends");
    put_back::error(
        buffer,
        &ErrorFields { severity: "ERROR", sqlstate: "0A000", message: &message, detail: None, hint: Some(hint) },
    );
}

/// What a kind of state is called in messages, and what its client can do instead.
fn words(kind: Dirty) -> (&'static str, &'static str) {
    match kind {
        Dirty::SETTINGS => (
            "a setting changed with SET or set_config()",
            "Use SET LOCAL in a transaction, give the setting at startup, or use a pool in session mode.",
        ),
        Dirty::LISTEN => ("LISTEN", "Use a pool in session mode for notifications."),
        Dirty::STATEMENTS => (
            "a statement prepared with SQL's PREPARE",
            "Use the prepared statements of your driver's protocol, or a pool in session mode.",
        ),
        Dirty::CURSORS => {
            ("a cursor WITH HOLD", "Read the cursor within its transaction, or use a pool in session mode.")
        }
        Dirty::TEMP => (
            "a temporary table or other object",
            "Create it ON COMMIT DROP within the transaction that uses it, or use a pool in session mode.",
        ),
        _ => (
            "an advisory lock of the session",
            "Use pg_advisory_xact_lock(), which is released with its transaction, or a pool in session mode.",
        ),
    }
}
