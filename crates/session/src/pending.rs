//! The accounting of replies: the queue of requests whose replies are pending.
//!
//! Owns the queue of requests that were sent to one server (or answered by us in their place) and not yet answered.
//! Must not know pools, or what requests changed: it receives the tag of each reply and returns the request that it
//! answers.
//!
//! Invariants: a reply to no request is an [`UnexpectedReply`]; a local reply is emitted exactly when everything before
//! it has been answered; after an error in the extended protocol everything up to the next Sync is dropped, as the
//! server drops it (PostgreSQL documentation, "Message Flow", Extended Query; `ignore_till_sync` in `postgres.c`).
//!
//! A local reply is one that Weir makes itself, as the ParseComplete of a statement that the server has already. During
//! a COPY from the client a server ignores a Sync within the data. Where it is not known whether it has ignored one,
//! the count is doubtful, and the server is closed in place of being given to another client.

use std::collections::VecDeque;

use weir_pgwire::tag::back;
use weir_pgwire::{Dirty, Effects, TxStatus, put_back};

use crate::expected::Expected;
use crate::out::Out;
use crate::undo_log::UndoLog;
use crate::watched::StatementId;

/// The most runs of equal requests in the queue; beyond it the client is not read from until the server has answered
/// some. A pipeline of Parse, Bind, Describe, Execute, Close, Sync is six runs, so this holds ten thousand of them.
const MAX_RUNS: usize = 65_536;

/// How much of a message must be sent to count as progress: single bytes do not.
const PORTION: u32 = 8 << 10;

/// A reply to no request: the server can't be trusted any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnexpectedReply;

/// The request of a reply, and what the reply completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    /// The request that the reply answers.
    pub(crate) to: Expected,
    /// Whether the request is now fully answered.
    pub(crate) last: bool,
    /// What the request may leave on the server.
    pub(crate) effects: Effects,
}

/// Equal requests, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    what: Expected,
    effects: Effects,
    /// The statement that the requests run, where statements are counted.
    statement: StatementId,
    count: u32,
}

/// The queue. `Default` is the state of a server that has just logged in.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies {
    runs: VecDeque<Run>,
    /// Where the extended protocol is.
    extended: Extended,
    /// Where the newest COPY from the client is.
    copy: CopyIn,
    /// Whether the replies can still be counted.
    count: Count,
    /// The newest request has been sent in part only: only an error can answer it yet.
    half: bool,
    /// Counts the ends of segments that were sent: what is skipped after an error lies within one.
    segment: u32,
    /// Segments whose ReadyForQuery is pending.
    ends: u32,
    /// Requests in `runs` that no reply of the server's answers ([`Expected::is_unanswered`]).
    unanswered: u32,
    /// How many requests are in `runs`, and how many of them were sent since the client last requested answers: the
    /// server may keep those answers back until then (PostgreSQL documentation, "Message Flow", Flush).
    length: u32,
    unflushed: u32,
    /// What `unflushed` was before the newest request.
    unflushed_before: u32,
    /// Nothing was sent since we requested all answers.
    flushed: bool,
    /// Grows with what the client sends: by each request, each message of COPY data that the server reads, and each
    /// [`PORTION`] of a longer message. Wraps around.
    progress: u32,
    /// `progress` after the last of the requests that are the first of their segment, and do nothing, with the Sync
    /// behind them.
    idle_until: u32,
    /// `progress` before those, and the ones before them of which the same is true.
    idle_from: u32,
    /// What was sent of a longer message since `progress` grew, in bytes.
    streamed: u32,
}

/// Where the extended protocol is, by what was sent and which errors came.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Extended {
    /// All requests that were sent are followed by a Sync, or are simple queries.
    #[default]
    Synced,
    /// Requests were sent and no Sync after them: the server has an implicit transaction open.
    Unsynced,
    /// An error came, and no Sync has been sent since: the server discards what it reads.
    SkippingToSync,
}

/// Where a COPY from the client is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
enum CopyIn {
    /// There is no COPY, or it has ended.
    #[default]
    None = 0,
    /// The client has ended a COPY in which it had sent such a Sync.
    EndedPastSync = 1,
    /// The server reads the COPY's data, and the client has not ended it.
    Reading = READS,
    /// The server reads the COPY's data, and a Sync was sent, which the server may have swallowed as a part of the
    /// data.
    ReadingPastSync = READS | 1,
}

/// The bit of the states in which the server reads the COPY's data. Each reply is matched with it.
const READS: u8 = 2;

/// Whether replies can be counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Count {
    #[default]
    Exact,
    /// COPY failed and it is not known whether a Sync was swallowed by it: one ReadyForQuery more may come.
    Doubtful,
    /// A request was sent while the server reads COPY data: its answers to that can't be counted.
    Breached,
}

impl PendingReplies {
    /// Nothing is pending and nothing is open.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.runs.is_empty() && self.extended == Extended::Synced && !self.in_copy_in()
    }

    /// Whether an earlier segment is unanswered: its outcome, and the transaction status after it, are unknown.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        self.ends > 0
    }

    /// How many earlier segments are unanswered.
    #[inline]
    pub(crate) fn ahead(&self) -> u32 {
        self.ends
    }

    /// Whether the next request begins a segment: all before it are followed by a Sync, or are simple queries.
    #[inline]
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.extended == Extended::Synced
    }

    /// Whether the server works on something: a request that was sent completely is not answered.
    #[inline]
    pub(crate) fn is_working(&self) -> bool {
        !(self.runs.is_empty() || self.half && self.only_half_is_pending())
    }

    /// Whether nothing more arrives before the client has sent something: nothing is pending, or only replies that the
    /// server may keep back until a Flush or Sync; or it waits for COPY data, or for the rest of the only request.
    #[inline]
    pub(crate) fn awaits_client(&self) -> bool {
        self.in_copy_in() || self.length == self.unflushed || (self.half && self.only_half_is_pending())
    }

    /// A message of COPY data is being sent.
    #[inline]
    pub(crate) fn copy_data(&mut self) {
        self.progress = self.progress.wrapping_add(1);
    }

    /// This many bytes of a message's rest were sent.
    #[inline]
    pub(crate) fn streamed(&mut self, bytes: usize) {
        self.streamed = self.streamed.saturating_add(bytes as u32);
        if self.streamed >= PORTION {
            self.streamed = 0;
            self.progress = self.progress.wrapping_add(1);
        }
    }

    /// The client's progress; comparable with an earlier value.
    #[inline]
    pub(crate) fn progress(&self) -> u32 {
        self.progress
    }

    /// Whether a ReadyForQuery is certain, without another message from the client. Where the count is in doubt, one
    /// more may come.
    pub(crate) fn will_be_ready(&self) -> bool {
        self.is_ahead() && !self.in_copy_in() && self.count != Count::Breached
    }

    /// Whether an answer is certain, without another message from the client: all up to the last Query, Sync or Flush.
    pub(crate) fn will_answer(&self) -> bool {
        self.will_be_ready() || !(self.awaits_client() || self.count == Count::Breached)
    }

    /// Whether one ReadyForQuery more may arrive: the server must not be used again.
    #[inline]
    pub(crate) fn is_doubtful(&self) -> bool {
        self.count == Count::Doubtful
    }

    /// Whether the client sent a request where only COPY data is allowed.
    #[inline]
    pub(crate) fn is_breached(&self) -> bool {
        self.count == Count::Breached
    }

    /// The segment that is being sent: after an error in it the server skips no request of another.
    #[inline]
    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// Whether no reply is pending.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the client must wait before it sends more.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.runs.len() >= MAX_RUNS
    }

    /// Whether the server discards requests up to the next Sync.
    #[inline]
    pub(crate) fn is_skipping(&self) -> bool {
        self.extended == Extended::SkippingToSync
    }

    /// Whether the server is reading COPY data from the client.
    #[inline]
    pub(crate) fn in_copy_in(&self) -> bool {
        self.copy as u8 & READS != 0
    }

    /// The request to be answered next.
    #[inline]
    pub(crate) fn head(&self) -> Option<Expected> {
        self.runs.front().map(|run| run.what)
    }

    /// What the request to be answered next may leave on the server.
    #[inline]
    pub(crate) fn head_effects(&self) -> Effects {
        self.runs.front().map_or(Effects::NONE, |run| run.effects)
    }

    /// Notes a request that leaves nothing on the server. See [`PendingReplies::request_with`].
    #[inline]
    pub(crate) fn request(&mut self, what: Expected) -> bool {
        self.request_with(what, Effects::NONE)
    }

    /// Notes a request that is being sent (or answered by us), and what it may leave on the server. Returns whether it
    /// will be answered: not while the server skips to a Sync.
    #[inline]
    pub(crate) fn request_with(&mut self, what: Expected, effects: Effects) -> bool {
        match what {
            Expected::Sync => return self.sync(),
            Expected::CopyEnd => return self.copy_end(),
            _ if self.is_skipping() => return false,
            Expected::Query
            | Expected::QueryLogged
            | Expected::QueryRefused
            | Expected::FunctionCall
            | Expected::OwnQuery
            | Expected::OwnSet
            | Expected::OwnSync
            | Expected::OwnBegin => {
                self.extended = Extended::Synced;
                self.segment = self.segment.wrapping_add(1);
            }
            Expected::LocalDeallocate | Expected::LocalForget => {}
            _ if what.does_nothing() => return self.push_idle(what),
            _ => self.extended = Extended::Unsynced,
        }
        self.push(what, effects);
        true
    }

    /// A request that does nothing in its transaction.
    fn push_idle(&mut self, what: Expected) -> bool {
        let first = self.has_done_nothing();
        if self.idle_until != self.progress {
            self.idle_from = self.progress;
        }
        self.extended = Extended::Unsynced;
        self.push(what, Effects::NONE);
        if first {
            self.idle_until = self.progress;
        }
        true
    }

    /// Whether all requests of the segment that is being sent do nothing in its transaction.
    fn has_done_nothing(&self) -> bool {
        self.extended == Extended::Synced || self.idle_until == self.progress
    }

    /// Whether the next request is the first that does anything in its transaction, and all segments before it are
    /// answered.
    pub(crate) fn begins_transaction(&self) -> bool {
        let idle = self.runs.iter().all(|run| run.what.does_nothing());
        idle && !self.is_skipping() && !self.in_copy_in() && self.has_done_nothing()
    }

    /// Whether the next request is the first that does anything since `since`, where the client sent one request, and
    /// all segments before it are answered.
    pub(crate) fn follows_one_since(&self, since: u32) -> bool {
        let idle_since = if self.idle_until == self.progress { self.idle_from } else { self.progress };
        self.begins_transaction() && idle_since == since.wrapping_add(1)
    }

    /// The newest request is kept by [`crate::repeat`]. Describes are noted anyway.
    pub(crate) fn newest_is_kept(&mut self) {
        if let Some(run) = self.runs.back_mut().filter(|run| run.what == Expected::Bind && run.count == 1) {
            run.what = Expected::BindKept;
        }
    }

    /// The segment whose oldest request has failed is answered to us: its Sync is ours from here on. Returns whether
    /// one must be sent for that.
    pub(crate) fn end_unseen(&mut self) -> bool {
        if let Some(run) = self.runs.front_mut().filter(|run| run.what == Expected::Sync && run.count == 1) {
            run.what = Expected::OwnSync;
            return false;
        }
        self.extended = Extended::Synced;
        self.request(Expected::OwnSync)
    }

    /// What the newest request may leave on the server is known now.
    pub(crate) fn set_newest(&mut self, effects: Effects) {
        let Some(run) = self.runs.back_mut().filter(|run| run.effects != effects) else { return };
        if run.count == 1 {
            run.effects = effects;
        } else {
            run.count -= 1;
            let (what, statement) = (run.what, run.statement);
            self.runs.push_back(Run { what, effects, statement, count: 1 });
        }
    }

    /// The newest request runs this statement.
    pub(crate) fn set_newest_statement(&mut self, statement: StatementId) {
        let Some(run) = self.runs.back_mut() else { return };
        if run.count == 1 {
            run.statement = statement;
        } else {
            run.count -= 1;
            let newest = Run { statement, count: 1, ..*run };
            self.runs.push_back(newest);
        }
    }

    /// The request to be answered next, and the statement that it runs.
    pub(crate) fn head_watched(&self) -> Option<(Expected, StatementId)> {
        self.runs.front().map(|run| (run.what, run.statement))
    }

    /// The text of the newest request has been read to its end, and may leave this, too. Returns what was known before.
    pub(crate) fn add_to_newest(&mut self, may_leave: Dirty) -> Dirty {
        let Some(effects) = self.runs.back().map(|run| run.effects) else { return Dirty::NONE };
        self.set_newest(effects.with(may_leave));
        effects.may_leave
    }

    /// Whether the rest of the newest request's message is still to be sent.
    #[inline]
    pub(crate) fn set_half(&mut self, half: bool) {
        if half {
            // A message that requests answers does so once it is complete.
            self.unflushed = (self.unflushed_before + 1).min(self.length);
        } else if self.half && self.runs.back().is_some_and(|run| run.what.ends_with_ready()) {
            self.unflushed = 0;
        }
        self.half = half;
        self.streamed = 0;
    }

    /// Whether the only pending reply is to a request that the server has in part.
    fn only_half_is_pending(&self) -> bool {
        self.runs.len() == 1 && self.runs[0].count == 1
    }

    /// A Flush was sent. It has no reply, and opens no transaction: libpq sends one behind a Sync.
    pub(crate) fn flush(&mut self) {
        self.unflushed = 0;
    }

    /// Whether a Flush must be sent to get all answers without another request. Once, until there is more to answer.
    pub(crate) fn needs_flush(&mut self) -> bool {
        !std::mem::replace(&mut self.flushed, true)
    }

    /// Whether the next reply is a local one, or there is none.
    #[inline]
    pub(crate) fn has_local_next(&self) -> bool {
        self.unanswered > 0 && self.head().is_some_and(Expected::is_unanswered)
    }

    /// Sends the client the local replies that are due. `status` is the transaction's.
    #[cold]
    pub(crate) fn emit_local(
        &mut self,
        undo_log: &mut UndoLog,
        status: TxStatus,
        scratch: &mut Vec<u8>,
        out: &mut impl Out,
    ) {
        while let Some(local) = self.take_local() {
            undo_log.done();
            scratch.clear();
            match local {
                Expected::LocalParse => put_back::parse_complete(scratch),
                Expected::LocalDeallocate => {
                    put_back::command_complete(scratch, "DEALLOCATE");
                    put_back::ready(scratch, status.as_byte());
                }
                Expected::LocalClose => put_back::close_complete(scratch),
                _ => continue,
            }
            out.client(scratch);
        }
    }

    /// Takes the local reply at the head, if there is one.
    fn take_local(&mut self) -> Option<Expected> {
        while let Some(head) = self.head() {
            if head == Expected::CopyEnd {
                self.pop();
            } else if head.is_local() {
                self.pop();
                return Some(head);
            } else {
                break;
            }
        }
        None
    }

    /// Whether a DataRow would answer the request at the head, and change nothing.
    #[inline]
    pub(crate) fn expects_row(&self) -> bool {
        matches!(self.head(), Some(Expected::Query | Expected::QueryLogged | Expected::Execute))
            && !self.in_copy_in()
            && !(self.half && self.only_half_is_pending())
    }

    /// Matches a reply other than an error, a notice, a notification or a parameter's status with its request.
    #[inline(always)]
    pub(crate) fn reply(&mut self, tag: u8) -> Result<Reply, UnexpectedReply> {
        // The usual replies, decided as below.
        if let Some(&Run { what: to @ Expected::Query, effects, .. }) = self.runs.front()
            && matches!(tag, back::ROW_DESCRIPTION | back::DATA_ROW | back::COMMAND_COMPLETE | back::READY)
            && self.copy == CopyIn::None
            && !self.half
        {
            let last = tag == back::READY;
            if last {
                self.pop();
            }
            return Ok(Reply { to, last, effects });
        }
        self.reply_to_any(tag)
    }

    /// See [`PendingReplies::reply`].
    #[inline(never)]
    fn reply_to_any(&mut self, tag: u8) -> Result<Reply, UnexpectedReply> {
        // Until the client ends the COPY, or its message, only an error can arrive.
        if self.in_copy_in() || (self.half && self.only_half_is_pending()) {
            return Err(UnexpectedReply);
        }
        if tag == back::COMMAND_COMPLETE {
            // The COPY has read all of its data, with what was swallowed.
            self.copy = CopyIn::None;
        }
        let Some(&Run { what: to, effects, .. }) = self.runs.front() else {
            // After a COPY that failed in doubt, a second ReadyForQuery is possible and harmless.
            let spare = tag == back::READY && self.is_doubtful();
            let reply = Reply { to: Expected::Sync, last: true, effects: Effects::NONE };
            return if spare { Ok(reply) } else { Err(UnexpectedReply) };
        };
        if tag == back::PARAMETER_DESCRIPTION
            && let Some(rows) = to.after_parameters()
        {
            let unflushed = self.unflushed;
            self.pop();
            self.push_front(rows);
            self.unflushed = unflushed;
            return Ok(Reply { to, last: false, effects });
        }
        let last = match (to, tag) {
            (_, back::READY) if to.ends_with_ready() => true,
            (
                Expected::Query | Expected::QueryLogged | Expected::OwnQuery | Expected::OwnSet | Expected::OwnBegin,
                back::ROW_DESCRIPTION
                | back::DATA_ROW
                | back::COMMAND_COMPLETE
                | back::EMPTY_QUERY
                | back::COPY_OUT
                | back::COPY_DATA
                | back::COPY_DONE,
            ) => false,
            (Expected::Query | Expected::QueryLogged | Expected::Execute, back::COPY_IN) => {
                self.enter_copy_in();
                false
            }
            (Expected::FunctionCall, back::FUNCTION_RESULT) => false,
            (_, back::PARSE_COMPLETE) if to.is_parse() => true,
            (Expected::Bind | Expected::BindLogged | Expected::BindKept | Expected::OwnBind, back::BIND_COMPLETE) => {
                true
            }
            (Expected::OwnExecute, back::COMMAND_COMPLETE) => true,
            (_, back::ROW_DESCRIPTION | back::NO_DATA) if to.is_of_rows() => true,
            (Expected::Execute, back::DATA_ROW | back::COPY_OUT | back::COPY_DATA | back::COPY_DONE) => false,
            (Expected::Execute, back::COMMAND_COMPLETE | back::EMPTY_QUERY | back::PORTAL_SUSPENDED) => true,
            (Expected::Close | Expected::CloseUnnamed | Expected::OwnClose, back::CLOSE_COMPLETE) => true,
            _ => return Err(UnexpectedReply),
        };
        if last {
            self.pop();
        }
        Ok(Reply { to, last, effects })
    }

    /// An error answers the request at the head. Returns that request, after calling `dropped` for every request that
    /// the server will not answer because of it (the failed one included); `None` if nothing was pending.
    pub(crate) fn error(&mut self, mut dropped: impl FnMut(Expected)) -> Option<Expected> {
        let head = self.head()?;
        let past_sync = matches!(self.copy, CopyIn::ReadingPastSync | CopyIn::EndedPastSync);
        if past_sync && self.count == Count::Exact {
            self.count = Count::Doubtful;
        }
        self.copy = CopyIn::None;
        if head.ends_with_ready() {
            return Some(head);
        }
        let mut ours = true;
        while let Some(next) = self.head() {
            if next == Expected::Sync || (next == Expected::OwnSync && ours) {
                return Some(head);
            }
            if let Some(run) = self.runs.front_mut().filter(|run| run.what == Expected::OwnSync) {
                // The query in front of it is skipped: the reply to our Sync ends it for the client.
                run.what = Expected::Sync;
                return Some(head);
            }
            ours &= next.is_own();
            self.pop();
            dropped(next);
        }
        self.extended = Extended::SkippingToSync;
        Some(head)
    }

    fn sync(&mut self) -> bool {
        if self.in_copy_in() {
            // The server ignores Sync while it reads COPY data (PostgreSQL documentation, "COPY Operations").
            self.copy = CopyIn::ReadingPastSync;
            return false;
        }
        let idle = self.extended != Extended::Synced && self.idle_until == self.progress;
        self.extended = Extended::Synced;
        self.segment = self.segment.wrapping_add(1);
        self.push(Expected::Sync, Effects::NONE);
        if idle {
            self.idle_until = self.progress;
        }
        true
    }

    fn copy_end(&mut self) -> bool {
        if self.in_copy_in() {
            self.end_copy();
        } else if !self.runs.is_empty() {
            self.push(Expected::CopyEnd, Effects::NONE);
        }
        false
    }

    /// The client has ended its COPY.
    fn end_copy(&mut self) {
        self.copy = if self.copy == CopyIn::ReadingPastSync { CopyIn::EndedPastSync } else { CopyIn::None };
    }

    /// The server begins to read COPY data: Syncs that already follow in the stream are a part of it, up to the
    /// client's CopyDone or CopyFail if that was sent ahead.
    fn enter_copy_in(&mut self) {
        self.copy = CopyIn::Reading;
        if self.runs.front().is_some_and(|run| run.count > 1) {
            self.count = Count::Breached;
            return;
        }
        while let Some(&Run { what: next, count, .. }) = self.runs.get(1) {
            match next {
                Expected::Sync | Expected::OwnSync => {
                    self.copy = CopyIn::ReadingPastSync;
                    if self.extended == Extended::Synced
                        && self.head() == Some(Expected::Execute)
                        && self.runs.len() == 2
                    {
                        self.extended = Extended::Unsynced;
                    }
                    self.ends -= count;
                    self.shorten(count);
                    self.runs.remove(1);
                }
                Expected::CopyEnd => {
                    self.end_copy();
                    self.take_second();
                    return;
                }
                _ => {
                    // The server will treat the request as a violation of the COPY, and its answers then can't be
                    // counted.
                    self.count = Count::Breached;
                    return;
                }
            }
        }
    }

    /// Takes one CopyEnd out of the second run.
    fn take_second(&mut self) {
        self.shorten(1);
        self.unanswered -= 1;
        match self.runs.get_mut(1) {
            Some(run) if run.count > 1 => run.count -= 1,
            _ => drop(self.runs.remove(1)),
        }
    }

    #[inline]
    fn push(&mut self, what: Expected, effects: Effects) {
        let ends = what.ends_with_ready();
        self.ends += u32::from(ends);
        self.unanswered += u32::from(what.is_unanswered());
        self.flushed = false;
        self.length += 1;
        self.progress = self.progress.wrapping_add(1);
        self.unflushed_before = self.unflushed;
        self.unflushed = if ends { 0 } else { self.unflushed + 1 };
        match self.runs.back_mut() {
            Some(last) if last.what == what && last.effects == effects && last.statement == StatementId::NONE => {
                last.count += 1;
            }
            _ => self.runs.push_back(Run { what, effects, statement: StatementId::NONE, count: 1 }),
        }
    }

    fn push_front(&mut self, what: Expected) {
        self.length += 1;
        match self.runs.front_mut() {
            Some(first) if first.what == what => first.count += 1,
            _ => self.runs.push_front(Run { what, effects: Effects::NONE, statement: StatementId::NONE, count: 1 }),
        }
    }

    /// This many requests, the oldest ones, are answered.
    #[inline]
    fn shorten(&mut self, by: u32) {
        self.length -= by;
        self.unflushed = self.unflushed.min(self.length);
    }

    #[inline]
    fn pop(&mut self) {
        if let Some(run) = self.runs.front_mut() {
            self.ends -= u32::from(run.what.ends_with_ready());
            self.unanswered -= u32::from(run.what.is_unanswered());
            run.count -= 1;
            if run.count == 0 {
                self.runs.pop_front();
            }
            self.shorten(1);
        }
        if self.runs.is_empty() && self.runs.capacity() > 1024 {
            // A deep pipeline does not keep its memory at the server permanently.
            self.runs.shrink_to(16);
        }
    }
}

#[cfg(test)]
mod tests;
