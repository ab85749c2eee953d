//! A client that has logged in: its state with or without a server.
//!
//! Owns its position in its stream, its prepared statements, its unnamed statement and its parameters. Must not know
//! pools, sockets, or how it logged in. What it may send is in `from_client`.

use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::Dirty;
use weir_pgwire::tag::front;

use crate::budget::{Account, Charge};
use crate::cancelled::Cancelled;
use crate::channels::Channels;
use crate::drawn_values::{ClientSequences, Values};
use crate::frame_reader::FrameReader;
use crate::hidden_effects::{self, QuietTexts, ShapeKey};
use crate::judged::{Judged, has_columns_of_cursor};
use crate::long_text::LongText;
use crate::names::{ChangeNumber, ClientStatements, Given};
use crate::params::{ParamTable, Params, Wanted};
use crate::resets::StartValues;
use crate::shape::{GivenShape, Shape};
use crate::statements::Statement;

/// One client's state between and within requests.
#[derive(Debug)]
pub struct Client {
    /// A number that is unique within the process for the process's life; it tells the client's unnamed statement from
    /// those of others.
    pub id: u64,
    pub(crate) mode: PoolMode,
    /// The kinds of state of which its server is asked behind each transaction that may have left some.
    pub(crate) asks: Dirty,
    pub(crate) params: Arc<Params>,
    /// What the client's session began with.
    pub(crate) start: StartValues,
    pub(crate) stream: FrameReader,
    pub(crate) statements: Option<Box<ClientStatements>>,
    pub(crate) unnamed: Unnamed,
    /// Counts the client's unnamed statements.
    pub(crate) unnamed_count: u32,
    /// The kinds of session state whose loss the client was warned of.
    pub(crate) warned: Dirty,
    /// What is known of the long Parse that is held in part.
    pub(crate) arriving: Option<Box<LongText>>,
    /// The request that is being discarded fails at its last byte, with this message.
    pub(crate) fails: Option<&'static str>,
    /// Counts the changes of the client's names.
    changes: ChangeNumber,
    /// What a cancel request has ended.
    pub(crate) cancelled: Cancelled,
    /// The channels on which the client listens through the shared connection of its pool.
    pub(crate) channels: Option<Box<Channels>>,
    /// Texts after which its server need not be asked, since they have changed nothing of what the client has left.
    pub(crate) quiet: QuietTexts,
    pub(crate) sequences: ClientSequences,
    /// The client's next message was looked at, and waits for the replies to all earlier segments: it is not looked at
    /// again before.
    pub(crate) waits_for_segments: bool,
}

/// The longest unnamed statement that is a part of its client's own memory; a longer one is charged.
const UNCHARGED: usize = 1 << 10;

/// The client's unnamed statement.
#[derive(Debug, Default)]
pub(crate) enum Unnamed {
    /// The client has no unnamed statement.
    #[default]
    None,
    /// What follows the (empty) name in its Parse.
    Held(HeldText),
    /// The statement was too large to hold: it exists only on the server where it was parsed.
    Streamed,
}

/// A text that only its client uses.
#[derive(Debug)]
pub(crate) struct HeldText {
    bytes: Vec<u8>,
    judged: Judged,
    charge: Option<Charge>,
    /// The shape that the client was given of the statement.
    shape: GivenShape,
    /// The shape of the text, once it was asked for.
    text_shape: Option<ShapeKey>,
}

impl HeldText {
    /// Holds `bytes`, of which `judged` is known, charged to `account`; `None` if there is no room.
    pub(crate) fn new(bytes: Vec<u8>, judged: Judged, account: &Arc<Account>) -> Option<HeldText> {
        let size = bytes.capacity();
        let charge = if size > UNCHARGED { Some(Charge::real(account, size as u64).ok()?) } else { None };
        Some(HeldText { bytes, judged, charge, shape: GivenShape::default(), text_shape: None })
    }

    /// Holds `bytes` whether there is room or not.
    pub(crate) fn anyway(bytes: Vec<u8>, judged: Judged, account: &Arc<Account>) -> HeldText {
        let size = bytes.capacity();
        let charge = (size > UNCHARGED).then(|| Charge::anyway(account, size as u64));
        HeldText { bytes, judged, charge, shape: GivenShape::default(), text_shape: None }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The shape that the client was given of the statement.
    pub(crate) fn shape(&self) -> GivenShape {
        self.shape
    }

    /// The client has this shape of the statement.
    pub(crate) fn set_shape(&mut self, shape: GivenShape) {
        self.shape = shape;
    }

    /// From here on the text is one whose parameters have these types, as they are named in a Parse. Returns whether it
    /// was not.
    pub(crate) fn set_types(&mut self, types: &[u8]) -> bool {
        let end = self.text().len() + 1;
        if self.bytes.get(end..) == Some(types) {
            return false;
        }
        self.bytes.truncate(end);
        self.bytes.extend_from_slice(types);
        let size = self.bytes.capacity() as u64;
        self.charge.iter_mut().for_each(|charge| charge.resize_anyway(size));
        true
    }

    /// The shape of the text, under the worker's key. Read once, however often the statement is bound.
    pub(crate) fn text_shape(&mut self, key: &[u8; 16]) -> ShapeKey {
        let text = self.judged.text(&self.bytes);
        *self.text_shape.get_or_insert_with(|| hidden_effects::shape(text, key))
    }

    pub(crate) fn judged(&self) -> &Judged {
        &self.judged
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.judged.text(&self.bytes)
    }
}

impl Unnamed {
    /// Bytes that the statement holds.
    pub(crate) fn size(&self) -> usize {
        if let Unnamed::Held(text) = self { text.bytes.capacity() } else { 0 }
    }

    /// The client was given a description of the statement, of this preparation.
    pub(crate) fn learn_shape(&mut self, shape: Shape, of: u64) {
        if let Unnamed::Held(held) = self
            && !has_columns_of_cursor(held.text())
        {
            held.shape.learn(shape, of);
        }
    }

    /// The statement's buffer, to be reused.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        if let Unnamed::Held(HeldText { bytes, charge, .. }) = self {
            drop(charge);
            Some(bytes)
        } else {
            None
        }
    }
}

impl Client {
    /// A client of a pool in `mode` that requested `params`.
    pub fn new(id: u64, mode: PoolMode, params: Arc<Params>) -> Self {
        let asked = params.clone();
        Client::logged_in(id, mode, params, asked)
    }

    /// A client that requested the parameters `asked`, and received `params` at its login.
    pub fn logged_in(id: u64, mode: PoolMode, params: Arc<Params>, asked: Arc<Params>) -> Self {
        Client {
            id,
            mode,
            asks: if mode == PoolMode::Auto { Dirty::ALL } else { Dirty::NONE },
            params,
            start: StartValues::new(asked),
            stream: FrameReader::default(),
            statements: None,
            unnamed: Unnamed::None,
            unnamed_count: 0,
            warned: Dirty::NONE,
            arriving: None,
            fails: None,
            changes: 0,
            cancelled: Cancelled::Nothing,
            channels: None,
            quiet: QuietTexts::default(),
            sequences: ClientSequences::default(),
            waits_for_segments: false,
        }
    }

    /// The client listens through a connection that it shares with others of its pool, if that has one. Where it keeps
    /// its server for what it has left, that is known.
    pub fn share_channels(&mut self, shared: bool) {
        if self.mode == PoolMode::Transaction {
            self.asks = if shared { Dirty::LISTEN } else { Dirty::NONE };
        }
    }

    /// The kinds of state of which its server is asked behind each transaction that may have left some.
    #[inline]
    pub fn asks(&self) -> Dirty {
        self.asks
    }

    /// The channels on which the client listens through the shared connection of its pool.
    pub fn channels(&self) -> Option<&Channels> {
        self.channels.as_deref()
    }

    /// The same, for what arrives.
    pub fn channels_mut(&mut self) -> Option<&mut Channels> {
        self.channels.as_deref_mut()
    }

    /// The client listens on these channels through the shared connection from now on; on no other one.
    pub fn listen(&mut self, names: Vec<Arc<str>>) {
        if names.is_empty() {
            self.channels = None;
        } else {
            self.channels.get_or_insert_default().set(names);
        }
    }

    /// The request that waits for a server is cancelled: once it is fed, an error answers it instead.
    pub fn cancel(&mut self) {
        if self.cancelled == Cancelled::Nothing {
            self.cancelled = Cancelled::Next;
        }
    }

    /// Whether a request of the client begins in what it has sent and Weir has not handled; `waiting` are the bytes of
    /// that that are not held here.
    pub fn begins_request(&self, waiting: &[u8]) -> bool {
        if self.stream.is_in_rest() {
            return false;
        }
        let first = self.stream.held().first().or(waiting.first());
        self.fails.is_some() || first.is_some_and(|tag| front::is_request(*tag))
    }

    /// Whether the request that waits for a server is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled == Cancelled::Next
    }

    /// The values of its tracked parameters that it requested.
    pub fn params(&self) -> &Arc<Params> {
        &self.params
    }

    /// Whether the client asked for a parameter of this name, or has changed it.
    pub fn owns(&self, table: &ParamTable, name: &str) -> bool {
        match table.place(name) {
            Some(place) => self.start.own >> place & 1 == 1,
            None => self.params.sets_untracked(name),
        }
    }

    /// What the client wants of its server.
    #[inline]
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted { params: &self.params, own: self.start.own }
    }

    /// The mode of the client's pool.
    pub fn mode(&self) -> PoolMode {
        self.mode
    }

    /// How many statements the client has prepared by name.
    pub fn prepared(&self) -> usize {
        self.statements.as_ref().map_or(0, |s| s.len())
    }

    /// The statement that the client calls `name`.
    #[inline]
    pub(crate) fn statement(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.statements.as_ref()?.get(name)
    }

    /// The statement that the client calls `name`, with what the client was given of it.
    #[inline]
    pub(crate) fn given(&self, name: &[u8]) -> Option<&Given> {
        self.statements.as_ref()?.given(name)
    }

    /// The text that the client has prepared by this name; the empty one is that of the unnamed statement.
    pub(crate) fn text_of(&self, name: &[u8]) -> Option<&[u8]> {
        match &self.unnamed {
            Unnamed::Held(held) if name.is_empty() => Some(held.text()),
            _ => Some(self.statement(name)?.text()),
        }
    }

    /// Whether the client has prepared a statement by this name.
    pub(crate) fn has_statement(&self, name: &[u8]) -> bool {
        self.statement(name).is_some()
    }

    /// The name is no longer the client's.
    pub(crate) fn forget_statement(&mut self, name: &[u8]) {
        if let Some(statements) = &mut self.statements {
            statements.remove(name);
        }
    }

    /// Whether the stream is between two messages, with nothing of one held.
    pub fn is_between_messages(&self) -> bool {
        self.stream.is_between()
    }

    /// Whether the client has sent nothing that is not handled, and nothing waits for it here.
    pub fn is_at_rest(&self) -> bool {
        let notified = self.channels().is_some_and(|channels| channels.is_waiting() || channels.awaits_own());
        self.is_between_requests() && !notified
    }

    /// Whether the client may move to another worker: it is at rest, and nothing of it is known here that would not move.
    pub fn may_move(&self) -> bool {
        self.is_at_rest() && self.channels().is_none() && self.sequences.values == Values::None
    }

    /// Whether the next byte begins a message, and nothing is to be done before that message is read.
    #[inline]
    pub(crate) fn is_between_requests(&self) -> bool {
        self.stream.is_between() && self.fails.is_none() && self.cancelled == Cancelled::Nothing
    }

    /// Whether a part of a message has been sent to the client's server, and the rest is still to come.
    #[inline]
    pub fn is_mid_message(&self) -> bool {
        self.stream.is_forwarding()
    }

    /// A name for the client's current unnamed statement, unique in the process.
    pub(crate) fn unnamed_id(&self) -> (u64, u32) {
        (self.id, self.unnamed_count)
    }

    /// Replaces the client's unnamed statement; returns what was before.
    pub(crate) fn replace_unnamed(&mut self, unnamed: Unnamed) -> Unnamed {
        self.unnamed_count = self.unnamed_count.wrapping_add(1);
        std::mem::replace(&mut self.unnamed, unnamed)
    }

    /// The client's unnamed statement is the previous one again.
    pub(crate) fn put_unnamed(&mut self, unnamed: Unnamed) {
        self.replace_unnamed(unnamed);
    }

    /// The client has no unnamed statement any more.
    pub(crate) fn drop_unnamed(&mut self) {
        if !matches!(self.unnamed, Unnamed::None) {
            self.replace_unnamed(Unnamed::None);
        }
    }

    /// The number of the next change of the client's names.
    pub(crate) fn next_change(&self) -> ChangeNumber {
        self.changes
    }

    /// The number of a change of the client's names that is made now.
    pub(crate) fn count_change(&mut self) -> ChangeNumber {
        self.changes += 1;
        self.changes - 1
    }

    /// Bytes of statements that are charged to the client: what `client_statement_memory` limits.
    pub(crate) fn statement_bytes(&self) -> u64 {
        self.statements.as_ref().map_or(0, |statements| statements.cost()) + self.unnamed.size() as u64
    }

    pub(crate) fn statements_mut(&mut self) -> &mut ClientStatements {
        self.statements.get_or_insert_default()
    }
}
