//! Queries that carry a `traceparent` in a comment (W3C Trace Context, in the form of sqlcommenter), until they have
//! ended.
//!
//! A trace is remembered with the statement and the server that it was sent to, and ends with the first execution of
//! that statement there. What a server has not executed when it is idle was skipped. Everything is bounded; what does
//! not fit is counted.

use std::collections::HashMap;
use std::sync::Arc;

use weir_admin::SpanRecord;
use weir_base::{ConnId, Time};
use weir_pgwire::sql;
use weir_session::{Executed, StatementId};

/// Spans that have ended and wait to be taken.
const MAX_ENDED: usize = 1024;
/// Traced requests that a server has not answered.
const MAX_PENDING: usize = 64;
/// What a comment with a trace contains before its value.
const KEY: &[u8] = b"traceparent='";

/// The trace of a client, and its span there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TraceContext {
    trace: u128,
    parent: u64,
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Spans {
    /// Whether spans have texts.
    texts: bool,
    /// The traces of the client that is fed.
    asked: Vec<(StatementId, TraceContext)>,
    /// The traces that each server was sent, in order.
    pending: HashMap<ConnId, Vec<(StatementId, TraceContext)>>,
    ended: Vec<(Time, SpanRecord)>,
    dropped: u64,
}

impl Spans {
    /// These spans, with texts or without.
    pub(super) fn with(self, texts: bool) -> Spans {
        Spans { texts, ..self }
    }

    /// Another session is fed; what was asked before and not sent will be asked again.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.asked.clear();
    }

    /// A client has sent this text.
    pub(super) fn asked(&mut self, statement: StatementId, text: &[u8]) {
        if let Some(context) = trace_context(&text[..text.len().min(sql::MAX_READ)]) {
            if self.asked.len() < MAX_PENDING {
                self.asked.push((statement, context));
            } else {
                self.dropped += 1;
            }
        }
    }

    /// The requests of the client that is fed go to this server.
    pub(super) fn sent_to(&mut self, server: ConnId) {
        if self.asked.is_empty() {
            return;
        }
        let pending = self.pending.entry(server).or_default();
        let room = MAX_PENDING.saturating_sub(pending.len());
        self.dropped += self.asked.len().saturating_sub(room) as u64;
        pending.extend(self.asked.drain(..).take(room));
    }

    /// A server has nothing more to answer.
    pub(super) fn is_idle(&mut self, server: ConnId) {
        if !self.pending.is_empty() {
            self.pending.remove(&server);
        }
    }

    /// A server has executed a statement: it ended at `now`, ran for `run` and waited for `waited` microseconds.
    pub(super) fn executed(
        &mut self,
        server: ConnId,
        what: Executed,
        (now, run, waited): (Time, u64, u64),
        names: &(Arc<str>, Arc<str>),
        fingerprint: Option<(u64, &str)>,
    ) {
        let Some(pending) = self.pending.get_mut(&server) else { return };
        let Some(at) = pending.iter().position(|(statement, _)| *statement == what.statement) else { return };
        // The statements before this one were skipped.
        let Some((_, TraceContext { trace, parent })) = pending.drain(..=at).next_back() else { return };
        if self.ended.len() >= MAX_ENDED {
            self.dropped += 1;
            return;
        }
        let text = fingerprint.filter(|_| self.texts).map(|(_, text)| text.into());
        let (fingerprint, Executed { failed, rows, .. }) = (fingerprint.map_or(0, |(id, _)| id), what);
        let (database, user) = names.clone();
        let record =
            SpanRecord { trace, parent, sent_at: 0, waited, run, database, user, fingerprint, text, failed, rows };
        self.ended.push((now, record));
    }

    /// Takes what has ended, and how many were left out.
    pub(super) fn take(&mut self, wall: impl Fn(Time) -> u64) -> (Vec<SpanRecord>, u64) {
        let ended = std::mem::take(&mut self.ended);
        let timed =
            |(now, record): (Time, SpanRecord)| SpanRecord { sent_at: wall(now).saturating_sub(record.run), ..record };
        (ended.into_iter().map(timed).collect(), std::mem::take(&mut self.dropped))
    }
}

/// The sampled trace in a comment of a text.
fn trace_context(text: &[u8]) -> Option<TraceContext> {
    // At the end, where libraries put it.
    let at =
        (0..text.len().checked_sub(KEY.len())?).rev().find(|at| text[*at] == b't' && text[*at..].starts_with(KEY))?;
    let before = &text[..at];
    let opened = before.windows(2).rposition(|pair| pair == b"/*")?;
    if before[opened..].windows(2).skip(1).any(|pair| pair == b"*/") {
        return None;
    }
    let value = text.get(at + KEY.len()..at + KEY.len() + 55)?;
    let value = std::str::from_utf8(value).ok()?;
    let mut parts = value.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = (version.len(), trace.len(), parent.len(), flags.len()) == (2, 32, 16, 2);
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !lengths || version == "ff" || ![version, trace, parent, flags].into_iter().all(is_hex) {
        return None;
    }
    let context =
        TraceContext { trace: u128::from_str_radix(trace, 16).ok()?, parent: u64::from_str_radix(parent, 16).ok()? };
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    (sampled && context.trace != 0 && context.parent != 0).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn context(text: &str) -> Option<TraceContext> {
        trace_context(text.as_bytes())
    }

    #[test]
    fn a_sampled_trace_in_a_comment_is_found() {
        let wanted =
            Some(TraceContext { trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, parent: 0x00f0_67aa_0ba9_02b7 });
        assert_eq!(context(&format!("SELECT 1 /*traceparent='{VALUE}'*/")), wanted);
        assert_eq!(context(&format!("/* a='b',traceparent='{VALUE}',tracestate='x' */ SELECT 1")), wanted);
        assert_eq!(context(&format!("/* x */ SELECT 1 /*traceparent='{VALUE}'*/;")), wanted);
    }

    #[test]
    fn what_is_not_sampled_or_not_in_a_comment_or_malformed_is_none() {
        for text in [
            "SELECT 1".to_owned(),
            String::new(),
            format!("SELECT 'traceparent=''{VALUE}'"),
            format!("SELECT traceparent='{VALUE}'"),
            format!("/* x */ SELECT traceparent='{VALUE}'"),
            format!("/*traceparent='{}'*/", VALUE.replace("-01", "-00")),
            format!("/*traceparent='{}'*/", VALUE.replace("00-4", "ff-4")),
            format!("/*traceparent='{}'*/", VALUE.to_uppercase()),
            format!("/*traceparent='{}'*/", VALUE.replace("00f067aa0ba902b7", "0000000000000000")),
            "/*traceparent='00-4bf9'*/".to_owned(),
        ] {
            assert_eq!(context(&text), None, "{text}");
        }
    }

    fn executed(spans: &mut Spans, server: u32, statement: u32) {
        let what = Executed { statement: StatementId(statement), failed: false, rows: 1, bytes: 9, rolled_back: false };
        let names = ("app".into(), "ann".into());
        spans.executed(conn(server), what, (Time::START, 10, 5), &names, Some((7, "select ?")));
    }

    fn conn(number: u32) -> ConnId {
        ConnId { slot: number, generation: 1 }
    }

    #[test]
    fn a_trace_ends_with_its_statement_on_its_server() {
        let mut spans = Spans::default().with(true);
        let text = format!("/*traceparent='{VALUE}'*/");
        spans.asked(StatementId(1), text.as_bytes());
        spans.asked(StatementId(2), text.as_bytes());
        spans.sent_to(conn(1));
        executed(&mut spans, 2, 2);
        executed(&mut spans, 1, 3);
        assert_eq!(spans.take(|_| 100), (Vec::new(), 0));
        executed(&mut spans, 1, 2);
        executed(&mut spans, 1, 1);
        let (found, dropped) = spans.take(|_| 100);
        assert_eq!((found.len(), dropped, found[0].sent_at, found[0].waited, found[0].run), (1, 0, 90, 5, 10));
        assert_eq!(found[0].text.as_deref(), Some("select ?"));
        spans.asked(StatementId(1), text.as_bytes());
        spans.sent_to(conn(1));
        spans.is_idle(conn(1));
        executed(&mut spans, 1, 1);
        assert_eq!(spans.take(|_| 100).0.len(), 0, "what an idle server has not executed was skipped");
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let mut spans = Spans::default();
        let text = format!("/*traceparent='{VALUE}'*/");
        for _ in 0..2 * MAX_ENDED {
            spans.asked(StatementId(1), text.as_bytes());
            spans.sent_to(conn(1));
            executed(&mut spans, 1, 1);
        }
        let (found, dropped) = spans.take(|_| 100);
        assert_eq!((found.len(), dropped, found[0].text.as_deref()), (MAX_ENDED, MAX_ENDED as u64, None));
        for _ in 0..2 * MAX_PENDING {
            spans.asked(StatementId(1), text.as_bytes());
            spans.sent_to(conn(1));
        }
        assert_eq!((spans.pending[&conn(1)].len(), spans.take(|_| 0).1), (MAX_PENDING, MAX_PENDING as u64));
    }
}
