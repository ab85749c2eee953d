//! A server that has logged in: its pending replies, what is prepared on it, and what clients left on it.
//!
//! Owns the proof that a server may be given to another client. Must not know pools, sockets, or how it logged in. What
//! it may send is in `from_server`.

use std::sync::Arc;

use weir_pgwire::{Dirty, Effects, Malformed, TxStatus};

use crate::cancelled::FailsAt;
use crate::closes::Closes;
use crate::custom_names::NamedByTexts;
use crate::descriptions::Descriptions;
use crate::drawn_values::ServerSequences;
use crate::dropping::Dropping;
use crate::expected::Expected;
use crate::frame_reader::FrameReader;
use crate::function_bodies::AskedBodies;
use crate::hidden_effects::{Due, DueText};
use crate::kept_request::Repeatable;
use crate::left_state::Found;
use crate::out::Out;
use crate::params::{Has, ParamTable, Params};
use crate::pending::PendingReplies;
use crate::prepared::ServerStatements;
use crate::replaced::Replaced;
use crate::resets::Resets;
use crate::server_error::ServerError;
use crate::session_state::{SessionState, StreamingText};
use crate::shape::Shape;
use crate::state_messages;
use crate::statements::PoolStatements;
use crate::suspects::Suspects;
use crate::undo_log::UndoLog;
use crate::watched::Watched;

/// One server's state.
#[derive(Debug)]
pub struct Server {
    pub(crate) pending: PendingReplies,
    /// What the requests in `pending` have changed.
    pub(crate) undo_log: UndoLog,
    /// Our own Close messages in `pending`.
    pub(crate) closes: Closes,
    pub(crate) statements: ServerStatements,
    /// All statements are being dropped.
    pub(crate) dropping_all: Option<Box<Dropping>>,
    /// The commands of the query under way in whose place the server was sent others.
    pub(crate) replaced: Option<Box<Replaced>>,
    /// Whose unnamed statement is in the server's unnamed slot, if it is known to be good.
    pub(crate) unnamed: Option<(u64, u32)>,
    /// The segment in which we put it there ourselves.
    pub(crate) unnamed_at: u32,
    /// Which preparation the statement there is of, 0 while it has not been described there, and its shape.
    pub(crate) slot: (u64, Shape),
    pub(crate) descriptions: Descriptions,
    /// What may be sent to the server again.
    pub(crate) repeatable: Option<Box<Repeatable>>,
    pub(crate) status: TxStatus,
    /// The client's progress in sending when its use of the server began, and after its last query that may be more
    /// than a plain command.
    use_began: u32,
    pub(crate) unusual_at: u32,
    /// What clients left on the server.
    pub(crate) state: SessionState,
    pub(crate) sequences: ServerSequences,
    /// The first name since ReadyForQuery that the client used for a statement that it does not have, if the name
    /// begins like ours.
    pub(crate) unknown_name: Option<Box<[u8]>>,
    /// The transaction under way has changed definitions.
    pub(crate) schema_changed: bool,
    /// And functions.
    pub(crate) functions_changed: bool,
    /// How often the question of now was cancelled.
    pub(crate) cancelled_questions: u8,
    /// The server's client has changed functions: the next question is about their bodies.
    pub(crate) reads_bodies: bool,
    pub(crate) params: Arc<Params>,
    /// What the server has where no client has set anything, and which of these values its connect_query has set, a bit
    /// each.
    pub(crate) base: Arc<Params>,
    pub(crate) base_is_set: u64,
    /// What the requests under way reset.
    pub(crate) resets: Resets,
    /// The client's values are to be set again, before its next request.
    pub(crate) resync: bool,
    /// Which of them: those that were reset, a bit each.
    pub(crate) was_reset: u64,
    /// The parameters before they were last set to a client's, if one of them is not tracked.
    params_before: Option<Arc<Params>>,
    pub(crate) stream: FrameReader,
    /// An event that forbids another use: an unsolicited message, a violated guarantee.
    pub(crate) unusable: bool,
    /// The result so far of our own query under way, if it failed.
    pub(crate) own_error: Option<ServerError>,
    /// What a query of our own has found of the state that the client left, while it runs.
    pub(crate) found: Option<Box<Found>>,
    /// The texts after which that is to be asked.
    pub(crate) due: Due,
    /// What may have left the state that is asked for.
    pub(crate) suspects: Suspects,
    /// The settings with names of two parts that its texts may have set.
    pub(crate) custom: NamedByTexts,
    /// The client's progress when that was last asked.
    pub(crate) asked_at: Option<u32>,
    /// Whether it is asked for what the bodies of functions say.
    pub(crate) bodies_asked: AskedBodies,
    /// How often functions that leave state had been found changed when clients first used it; `None`: nobody has, whose
    /// texts are asked about.
    pub(crate) functions_found: Option<u64>,
    /// The client was not sent the ReadyForQuery of its last transaction yet.
    pub(crate) ready_withheld: bool,
    /// The server has shown a notification that its client has sent, and that comes by the shared connection.
    pub(crate) own_notified: bool,
    /// The other results of our own last query.
    pub(crate) own: OwnSeen,
    /// Which statements the server's portals and requests run, where they are counted.
    pub(crate) watched: Watched,
    role: ReplicationRole,
    key: CancelKey,
    started: Option<u64>,
}

/// The contents of the answers to our own query.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnSeen {
    /// A SELECT found one row.
    row: bool,
    /// The session's whole state was discarded.
    discarded: bool,
}

/// What a server reports about its replication role (PostgreSQL 14 and later report both; `None` if it does not).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplicationRole {
    /// Whether the server is in recovery, as it last reported (`in_hot_standby`).
    pub standby: Option<bool>,
    /// Whether transactions were read-only by default when we logged in (`default_transaction_read_only`).
    pub read_only: Option<bool>,
}

/// The parameter by which PostgreSQL 14 and later report that they are in recovery.
pub(crate) const IN_HOT_STANDBY: &str = "in_hot_standby";

/// What a cancel request must name (PostgreSQL documentation, "Canceling Requests in Progress").
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CancelKey {
    /// The server's process id.
    pub pid: u32,
    /// The server's secret: 4 bytes in protocol 3.0, up to 256 in 3.2.
    pub secret: Box<[u8]>,
}

/// The server sent something that no request explains, or an invalid message: close it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolViolation(pub &'static str);

impl From<Malformed> for ProtocolViolation {
    fn from(malformed: Malformed) -> ProtocolViolation {
        ProtocolViolation(malformed.0)
    }
}

/// Proof that a server is clean: its transaction is idle, nothing is outstanding, no message is incomplete, and no
/// state that the pool cares about was left on it. Only [`Server::prove_clean`] makes one.
#[derive(Debug)]
pub struct Clean(());

impl Server {
    /// A server that has just reported that it is ready for its first query.
    pub fn new(params: Arc<Params>, key: CancelKey) -> Self {
        Server {
            pending: PendingReplies::default(),
            undo_log: UndoLog::default(),
            closes: Closes::default(),
            statements: ServerStatements::default(),
            dropping_all: None,
            replaced: None,
            unnamed: None,
            unnamed_at: 0,
            slot: Default::default(),
            descriptions: Descriptions::default(),
            repeatable: None,
            status: TxStatus::Idle,
            use_began: 0,
            unusual_at: 0,
            state: SessionState::default(),
            sequences: ServerSequences::default(),
            unknown_name: None,
            schema_changed: false,
            functions_changed: false,
            cancelled_questions: 0,
            reads_bodies: false,
            base: params.clone(),
            base_is_set: 0,
            resets: Resets::default(),
            resync: false,
            was_reset: 0,
            params,
            params_before: None,
            stream: FrameReader::default(),
            unusable: false,
            own_error: None,
            found: None,
            due: Due::default(),
            suspects: Suspects::default(),
            custom: NamedByTexts::default(),
            asked_at: None,
            bodies_asked: AskedBodies::Known,
            ready_withheld: false,
            own_notified: false,
            functions_found: None,
            own: OwnSeen::default(),
            watched: Watched::default(),
            role: ReplicationRole::default(),
            key,
            started: None,
        }
    }

    /// The proof that a release needs; `None` if any condition is not met.
    #[inline]
    pub fn prove_clean(&self) -> Option<Clean> {
        (self.is_quiet() && !self.is_unusable()).then_some(Clean(()))
    }

    /// Whether nothing is under way: no transaction, no pending reply, no incomplete message.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.status == TxStatus::Idle && self.pending.is_clean() && self.stream.is_between()
    }

    /// Whether the server must not be used again, even if nothing is under way.
    pub fn is_unusable(&self) -> bool {
        self.unusable || self.pending.is_doubtful()
    }

    /// Whether a part of a message has been sent to the server's client, and the rest is still to come: nothing else
    /// may be sent to the client, which would read it as that rest.
    pub fn is_mid_message(&self) -> bool {
        self.stream.is_forwarding()
    }

    /// Whether the client must wait before it sends more requests: too much is outstanding. All that was sent is
    /// answered in time, without another message from the client, once the answers are flushed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending.is_full() || self.undo_log.is_full() || self.descriptions.is_full()
    }

    /// Whether a reply is pending.
    #[inline]
    pub fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the server answers something although the client sends nothing more.
    pub fn owes_answers(&self) -> bool {
        self.pending.will_answer()
    }

    /// Whether the server works on a request that its client has sent completely.
    #[inline]
    pub fn is_working(&self) -> bool {
        self.pending.is_working()
    }

    /// Whether the server sends nothing more before its client has sent something.
    #[inline]
    pub fn awaits_client(&self) -> bool {
        self.pending.awaits_client()
    }

    /// The client's progress in sending; differs from an earlier value if the client has sent something.
    #[inline]
    pub fn progress(&self) -> u32 {
        self.pending.progress()
    }

    /// How many of the client's segments (up to a Sync each, or a simple query) the server has yet to answer, if it
    /// will do so without another message from the client; otherwise 0.
    #[inline]
    pub fn pending_segments(&self) -> u32 {
        if self.pending.will_be_ready() { self.pending.ahead() } else { 0 }
    }

    /// The transaction's status, as of the server's last ReadyForQuery.
    #[inline]
    pub fn status(&self) -> TxStatus {
        self.status
    }

    /// The state that clients left and that has not been cleaned.
    #[inline]
    pub fn dirty(&self) -> Dirty {
        // A client that has gone is not asked about any more.
        if self.due.is_none() { self.state.dirty() } else { Dirty::ALL }
    }

    /// The state that the client left is not cleaned: the next client takes it over, as with PgBouncer.
    #[inline]
    pub fn clear_dirty(&mut self) {
        self.end_use();
        self.state.clear_dirty();
    }

    /// The client has released the server. Statements that the client has used may have plans, and constants, that were
    /// made with its settings: they are prepared again before their next use.
    #[inline]
    fn end_use(&mut self) {
        self.use_began = self.pending.progress();
        self.own_notified = false;
        self.custom.forget();
        self.sequences.end_use();
        self.statements.end_use(self.state.end_use());
    }

    /// Where the next request of the server's client fails if it is cancelled.
    pub(crate) fn fails_at(&self) -> FailsAt {
        if self.pending.is_skipping() || self.pending.in_copy_in() {
            return FailsAt::Nowhere;
        }
        match self.status {
            _ if self.is_busy() || !self.pending.is_at_boundary() => FailsAt::Server,
            TxStatus::Idle => FailsAt::Weir,
            TxStatus::InTransaction => FailsAt::Server,
            TxStatus::Failed => FailsAt::Nowhere,
        }
    }

    /// An Execute is sent. One that succeeds in a failed transaction has ended that, before the ReadyForQuery that says so;
    /// after any other the server skips what follows.
    #[inline]
    pub(crate) fn executes(&mut self) {
        if self.status == TxStatus::Failed {
            self.status = TxStatus::InTransaction;
        }
    }

    /// Whether the client has a transaction block open in which nothing was done yet: the only request of its use was a
    /// query of one plain command, which must have been a BEGIN without options. Where that is in doubt, it has not.
    pub(crate) fn has_only_begun(&self) -> bool {
        self.status == TxStatus::InTransaction
            && self.unusual_at != self.use_began.wrapping_add(1)
            && self.pending.follows_one_since(self.use_began)
    }

    /// A cancel request for the server's client, which was sent, has ended.
    pub fn cancel_ended(&mut self) {
        if let Some(kept) = self.repeatable.as_deref_mut() {
            kept.cancelled = true;
        }
    }

    /// The key for cancelling the server's query.
    pub fn cancel_key(&self) -> &CancelKey {
        &self.key
    }

    /// When the server's backend began, in microseconds since 1970 by the server's clock; `None`: not known. With the
    /// process id, which the server uses again, it identifies the backend.
    pub fn started(&self) -> Option<u64> {
        self.started
    }

    /// The server's backend began then.
    pub fn set_started(&mut self, started: Option<u64>) {
        self.started = started;
    }

    /// The server's part in replication, as the server reports it.
    pub fn role(&self) -> ReplicationRole {
        self.role
    }

    /// Whether the last query of our own was a SELECT that found one row.
    pub fn found_row(&self) -> bool {
        self.own.row
    }

    /// Takes in what the server reported about itself at its login.
    pub(crate) fn set_role(&mut self, reported: &[(String, String)]) {
        let says = |name: &str| reported.iter().find(|(n, _)| n == name).map(|(_, value)| value == "on");
        self.role = ReplicationRole { standby: says(IN_HOT_STANDBY), read_only: says("default_transaction_read_only") };
    }

    /// The server's replication role, as another process knew it.
    pub(crate) fn restore_role(&mut self, role: ReplicationRole) {
        self.role = role;
    }

    /// The server was promoted, or reports a changed role for another reason.
    pub(crate) fn reports(&mut self, name: &str, value: &str) {
        if name == IN_HOT_STANDBY {
            self.role.standby = Some(value == "on");
        }
    }

    /// The effect of our own query, according to its command tag. Nothing else is under way then.
    #[cold]
    pub(crate) fn own_tag(&mut self, tag: &[u8], table: &ParamTable) {
        match tag {
            b"SELECT 1" => self.own.row = true,
            b"DEALLOCATE ALL" => self.statements.clear(),
            b"DISCARD SEQUENCES" => self.sequences.discarded_by_us(),
            b"DISCARD ALL" => {
                self.sequences.discarded_by_us();
                self.own.discarded = true;
                self.statements.clear();
                table.after_reset(&mut self.params);
                self.state.cleaned();
            }
            _ => {}
        }
    }

    /// The server's tracked parameters, and its defaults.
    pub(crate) fn has(&mut self) -> Has<'_> {
        Has { params: &mut self.params, base: &self.base, base_is_set: self.base_is_set }
    }

    /// The server's tracked parameters.
    pub fn params(&self) -> &Arc<Params> {
        &self.params
    }

    /// The server is ready for its first client: what it has now is what it has without one.
    pub fn begin(&mut self) {
        self.base_is_set = self.params.differs(&self.base);
        self.base = self.params.clone();
    }

    /// A parameter has its default now, as it is no client's own.
    pub fn is_default(&mut self, table: &ParamTable, name: &str) {
        let Some(place) = table.place_of_reported(&self.params, name) else { return };
        if self.base_is_set >> place & 1 == 0 && self.base.at(place) != self.params.at(place) {
            ParamTable::copy(&mut self.base, &self.params, place);
        }
    }

    /// Whether the only state on the server is what Weir has made for its client there.
    pub fn is_dirty_by_weir(&self) -> bool {
        !self.state.shared().is_empty() && self.dirty() == self.state.shared()
    }

    /// The query after which the server may be used by others although the state that its client has left stays there:
    /// it acts as its own user, and listens on nothing for a client that has another connection for that.
    pub fn leave_query(&self, table: &ParamTable) -> Option<String> {
        let unlisten = self.state.shared().contains(Dirty::LISTEN).then_some("UNLISTEN *");
        let commands: Vec<&str> = self.own_identity(table).into_iter().chain(unlisten).collect();
        (!commands.is_empty()).then(|| commands.join(";"))
    }

    /// The command by which the server acts as its own user again, if its client has made it act as another one.
    pub(crate) fn own_identity(&self, table: &ParamTable) -> Option<&'static str> {
        table.own_identity(&self.params, &self.base)
    }

    /// The server has its client's parameters: if it acts as another user, it is to be cleaned of that before it does
    /// anything else.
    pub(crate) fn note_identity(&mut self, table: &ParamTable) {
        if self.own_identity(table).is_some() {
            self.state.leave(Dirty::SETTINGS);
        }
    }

    /// Shares the server's parameters with others that have equal ones, so that comparing them is comparing pointers.
    pub fn share_params(&mut self, known: &Arc<Params>) {
        if *self.params == **known {
            self.params = known.clone();
        }
    }

    /// How many statements of ours are prepared on the server.
    pub fn prepared(&self) -> usize {
        self.statements.len()
    }

    /// What keeps the client at the server, as that has said when it was asked last.
    pub fn keeps(&self) -> Dirty {
        self.state.kept()
    }

    /// Why the server stays with its client, as a text; `None` if nothing holds it.
    pub fn hold_reason(&self) -> Option<&'static str> {
        if self.pending.in_copy_in() {
            Some("copy")
        } else if !self.pending.is_empty() {
            Some("replies outstanding")
        } else if self.status == TxStatus::Failed {
            Some("failed transaction")
        } else if self.status == TxStatus::InTransaction {
            Some("in transaction")
        } else if !self.is_quiet() {
            Some("waiting for Sync")
        } else {
            self.state.kept().kinds().next().map(state_messages::name)
        }
    }

    /// Sends a query of our own; its replies are swallowed, and `from_server` reports its end.
    pub fn own_query(&mut self, query: &str, scratch: &mut Vec<u8>, out: &mut impl Out) {
        scratch.clear();
        weir_pgwire::put_front::query(scratch, query.as_bytes());
        self.unnamed = None;
        self.own_error = None;
        self.own = OwnSeen::default();
        self.pending.request(Expected::OwnQuery);
        self.use_began = self.pending.progress();
        out.server(scratch);
    }

    /// The query that removes the state recorded in `dirty`; it is followed by [`Server::was_reset`].
    pub fn reset_query(dirty: Dirty) -> String {
        if dirty.contains(Dirty::STATEMENTS) {
            return "DISCARD ALL".into();
        }
        // One batch, so one round trip. A function may have taken advisory locks unseen; they are released too.
        let mut query = String::from("SELECT pg_catalog.pg_advisory_unlock_all()");
        let steps = [
            (Dirty::SETTINGS, ";SET SESSION AUTHORIZATION DEFAULT;RESET ALL"),
            (Dirty::LISTEN, ";UNLISTEN *"),
            (Dirty::CURSORS, ";CLOSE ALL"),
            (Dirty::TEMP, ";DISCARD TEMP"),
            (Dirty::SEQUENCES, ";DISCARD SEQUENCES"),
        ];
        steps.iter().filter(|(bit, _)| dirty.contains(*bit)).for_each(|(_, step)| query.push_str(step));
        query
    }

    /// Notes that [`Server::reset_query`] succeeded.
    pub fn was_reset(&mut self, table: &ParamTable) {
        if self.state.dirty().contains(Dirty::SETTINGS) {
            table.after_reset(&mut self.params);
        }
        self.cleaned();
    }

    /// The server's parameters are about to be set to those of a client, which the server may refuse.
    pub(crate) fn remember_params(&mut self) {
        self.params_before = Some(self.params.clone());
    }

    /// Notes that the server has refused a client's parameters: it has those from before, since the query was one
    /// transaction.
    pub fn params_rejected(&mut self, table: &ParamTable) {
        match self.params_before.take() {
            Some(before) => table.assume(&mut self.params, &before, 0),
            None => table.doubt(&mut self.params),
        }
    }

    /// Notes that the operator's own query (`server_reset_query`) has run, and should have cleaned up. Its effect on
    /// parameters that the server does not report is known only if it discarded everything.
    pub fn was_cleaned(&mut self, table: &ParamTable) {
        if !self.own.discarded {
            table.doubt(&mut self.params);
        }
        self.cleaned();
    }

    fn cleaned(&mut self) {
        self.due.take();
        self.end_use();
        if self.state.cleaned() {
            // Statements prepared while temporary objects were present may refer to them.
            self.statements.invalidate_all();
        }
    }

    /// A text with these effects is sent: what is parsed after it may refer to the objects that it creates.
    #[inline]
    pub(crate) fn text_sent(&mut self, effects: Effects) {
        if effects.may_leave.has_any(Dirty::TEMP.union(Dirty::STATEMENTS)) {
            self.state.may_prepare(effects.may_leave);
            if self.state.may_be_temporary(effects.may_leave) {
                self.statements.invalidate_all();
            }
        }
    }

    /// A client of the pool uses the server whose texts are asked about (`mode = "auto"`).
    #[inline]
    pub fn note_functions_found(&mut self, texts: &PoolStatements) {
        self.state.plan_by_custom(texts.custom_is_planned);
        if self.functions_found.is_none() {
            self.functions_found = Some(texts.functions_found());
        }
    }

    /// Whether texts may have left something on the server that nobody asked about: functions that
    /// leave state were found changed since it was used first.
    #[inline]
    pub fn is_doubtful(&self, texts: &PoolStatements) -> bool {
        self.functions_found.is_some_and(|found| found != texts.functions_found())
    }

    /// When the use of the server by its client began.
    pub(crate) fn use_began(&self) -> u32 {
        self.use_began
    }

    /// A text is sent that may leave these kinds of state; `due`: the server is to be asked after it, whatever it says.
    #[inline]
    pub(crate) fn may_leave(&mut self, text: &[u8], kinds: Dirty, due: Option<DueText>) {
        let kinds = kinds.without(Dirty::SEQUENCE_VALUES);
        if let Some(due) = due {
            self.due.add(due);
            self.suspects.add(text, if kinds.is_empty() { Dirty::ALL } else { kinds }, self.use_began);
        } else if !kinds.is_empty() {
            self.suspects.add(text, kinds, self.use_began);
        }
    }

    /// A text with these effects is sent. Where it tells which settings with names of two parts it may set, the server is
    /// asked for them, and nothing of them counts as left.
    pub(crate) fn may_set(&mut self, effects: Effects, custom: Option<&[Box<str>]>) -> Effects {
        match custom {
            Some(names) if self.custom.add(names) => effects.without(Dirty::CUSTOM),
            _ => effects,
        }
    }

    /// A portal is bound to a text with these effects.
    #[inline]
    pub(crate) fn bind(&mut self, portal: &[u8], effects: Effects) {
        self.text_sent(effects);
        self.state.bind(portal, effects);
    }

    /// A portal whose name is not known is bound to any of the statements whose names are not known.
    pub(crate) fn bind_any(&mut self) {
        let effects = self.state.parsed();
        self.bind(b"", effects);
        self.bind(b"?", effects);
    }

    /// A piece of a message's rest is sent to the server. `last`: the message ends with it.
    #[inline]
    pub(crate) fn request_streams(&mut self, piece: &[u8], last: bool) {
        self.state.more_text(piece);
        self.pending.streamed(piece.len());
        if !last {
            return;
        }
        self.pending.set_half(false);
        let Some((what, found)) = self.state.end_text() else { return };
        let before = match what {
            StreamingText::Query => self.pending.add_to_newest(found),
            StreamingText::Parse => self.state.add_to_parsed(found),
        };
        if self.state.may_be_temporary(found.without(before)) {
            self.statements.invalidate_all();
        }
    }

    /// Sends the client the local replies that are due. In the middle of a message from the server none is: they follow
    /// its end.
    #[inline]
    pub(crate) fn emit_local_replies(&mut self, scratch: &mut Vec<u8>, out: &mut impl Out) {
        if self.pending.has_local_next() && !self.stream.is_forwarding() {
            self.pending.emit_local(&mut self.undo_log, self.status, scratch, out);
        }
    }
}
