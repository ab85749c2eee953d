//! The ReadyForQuery messages that are pending, derived from PostgreSQL's own answers.
//!
//! Owns the order of sent messages without a full answer. Source: PostgreSQL's documentation, "Message Flow".

use std::collections::VecDeque;

use weir_pgwire::Of;
use weir_pgwire::tag::back;

use crate::message::Message;

/// The sent messages without a full answer.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies {
    queue: VecDeque<Expected>,
    /// The server reads COPY data.
    in_copy: bool,
    /// After an error of the extended protocol the server skips messages up to a Sync.
    skipping: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    /// Answered by ReadyForQuery in any case.
    Query,
    Sync,
    /// A request of the extended protocol, ended by one of these messages.
    Request(&'static [u8]),
    /// CopyDone or CopyFail, which end a COPY that may begin before them.
    CopyEnd,
}

/// The messages that end an Execute.
const EXECUTED: &[u8] = &[back::COMMAND_COMPLETE, back::EMPTY_QUERY, back::PORTAL_SUSPENDED];

impl PendingReplies {
    pub(crate) fn sent(&mut self, message: &Message) {
        let due = match message {
            Message::Startup { .. } | Message::Query(_) | Message::FunctionCall { .. } => Expected::Query,
            // The server reads it as a part of the COPY, and ignores it.
            Message::Sync if self.in_copy => return,
            Message::Sync => Expected::Sync,
            Message::CopyDone | Message::CopyFail(_) if self.in_copy => {
                self.in_copy = false;
                return;
            }
            Message::CopyDone | Message::CopyFail(_) => Expected::CopyEnd,
            Message::Parse { .. } => Expected::Request(&[back::PARSE_COMPLETE]),
            Message::Bind { .. } => Expected::Request(&[back::BIND_COMPLETE]),
            Message::Describe(Of::Statement | Of::Portal, _) => {
                Expected::Request(&[back::ROW_DESCRIPTION, back::NO_DATA])
            }
            Message::Close(..) => Expected::Request(&[back::CLOSE_COMPLETE]),
            Message::Execute { .. } => Expected::Request(EXECUTED),
            _ => return,
        };
        if due == Expected::Sync {
            self.skipping = false;
        }
        if !self.skipping {
            self.queue.push_back(due);
        }
    }

    pub(crate) fn received(&mut self, tag: u8) {
        while self.queue.front() == Some(&Expected::CopyEnd) {
            self.queue.pop_front();
        }
        match (tag, self.queue.front().copied()) {
            (back::READY, _) => {
                self.in_copy = false;
                self.queue.pop_front();
            }
            (back::ERROR, Some(Expected::Request(_))) => {
                self.in_copy = false;
                while self.queue.front().is_some_and(|due| *due != Expected::Sync) {
                    self.queue.pop_front();
                }
                self.skipping = self.queue.is_empty();
            }
            (back::ERROR, _) => self.in_copy = false,
            (back::COPY_IN, Some(copies)) => {
                self.queue.pop_front();
                self.in_copy = true;
                while self.in_copy {
                    match self.queue.pop_front() {
                        Some(Expected::CopyEnd) => self.in_copy = false,
                        Some(_) => {}
                        None => break,
                    }
                }
                self.queue.push_front(copies);
            }
            (_, Some(Expected::Request(ends))) if ends.contains(&tag) => drop(self.queue.pop_front()),
            _ => {}
        }
    }

    /// Whether any answer is pending.
    pub(crate) fn anything(&self) -> bool {
        self.queue.iter().any(|due| *due != Expected::CopyEnd)
    }

    /// Whether a ReadyForQuery is pending.
    pub(crate) fn ready(&self) -> bool {
        self.queue.iter().any(|due| matches!(due, Expected::Query | Expected::Sync))
    }
}

#[test]
fn an_error_discards_all_requests_up_to_the_sync() {
    let mut pending = PendingReplies::default();
    let execute = Message::Execute { portal: Vec::new(), max_rows: 0 };
    for message in [&execute, &Message::Query(Vec::new()), &Message::Sync, &Message::Query(Vec::new())] {
        pending.sent(message);
    }
    pending.received(back::ERROR);
    pending.received(back::READY);
    assert!(pending.ready(), "the query after the Sync counts");
    pending.received(back::ERROR);
    pending.received(back::READY);
    assert!(!pending.ready());
}

#[test]
fn a_sync_within_copy_is_a_part_of_it() {
    let mut pending = PendingReplies::default();
    for message in [Message::Execute { portal: Vec::new(), max_rows: 0 }, Message::Sync] {
        pending.sent(&message);
    }
    pending.received(back::COPY_IN);
    assert!(!pending.ready());
    pending.sent(&Message::CopyDone);
    pending.received(back::COMMAND_COMPLETE);
    pending.sent(&Message::Sync);
    assert!(pending.ready());
}
