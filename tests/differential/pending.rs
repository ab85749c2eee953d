//! Which ReadyForQuery are still to come, as far as PostgreSQL's own answers tell.
//!
//! Owns the order of what was sent and not yet answered. Source: PostgreSQL's documentation, "Message Flow".

use std::collections::VecDeque;

use weir_pgwire::Of;
use weir_pgwire::tag::back;

use crate::message::Message;

/// What was sent and is not answered.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    queue: VecDeque<Due>,
    /// The server reads COPY data.
    in_copy: bool,
    /// After an error of the extended protocol the server skips what it reads, up to a Sync.
    skipping: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// Answered by ReadyForQuery in any case.
    Query,
    Sync,
    /// A request of the extended protocol, ended by one of these messages.
    Request(&'static [u8]),
    /// CopyDone or CopyFail, which end a COPY that may begin before them.
    CopyEnd,
}

/// What ends an Execute.
const EXECUTED: &[u8] = &[back::COMMAND_COMPLETE, back::EMPTY_QUERY, back::PORTAL_SUSPENDED];

impl Owed {
    pub(crate) fn sent(&mut self, message: &Message) {
        let due = match message {
            Message::Startup { .. } | Message::Query(_) | Message::FunctionCall { .. } => Due::Query,
            // The server reads it as a part of the COPY, and ignores it.
            Message::Sync if self.in_copy => return,
            Message::Sync => Due::Sync,
            Message::CopyDone | Message::CopyFail(_) if self.in_copy => {
                self.in_copy = false;
                return;
            }
            Message::CopyDone | Message::CopyFail(_) => Due::CopyEnd,
            Message::Parse { .. } => Due::Request(&[back::PARSE_COMPLETE]),
            Message::Bind { .. } => Due::Request(&[back::BIND_COMPLETE]),
            Message::Describe(Of::Statement | Of::Portal, _) => Due::Request(&[back::ROW_DESCRIPTION, back::NO_DATA]),
            Message::Close(..) => Due::Request(&[back::CLOSE_COMPLETE]),
            Message::Execute { .. } => Due::Request(EXECUTED),
            _ => return,
        };
        if due == Due::Sync {
            self.skipping = false;
        }
        if !self.skipping {
            self.queue.push_back(due);
        }
    }

    pub(crate) fn heard(&mut self, tag: u8) {
        while self.queue.front() == Some(&Due::CopyEnd) {
            self.queue.pop_front();
        }
        match (tag, self.queue.front().copied()) {
            (back::READY, _) => {
                self.in_copy = false;
                self.queue.pop_front();
            }
            (back::ERROR, Some(Due::Request(_))) => {
                self.in_copy = false;
                while self.queue.front().is_some_and(|due| *due != Due::Sync) {
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
                        Some(Due::CopyEnd) => self.in_copy = false,
                        Some(_) => {}
                        None => break,
                    }
                }
                self.queue.push_front(copies);
            }
            (_, Some(Due::Request(ends))) if ends.contains(&tag) => drop(self.queue.pop_front()),
            _ => {}
        }
    }

    /// Whether an answer of any kind is still to come.
    pub(crate) fn anything(&self) -> bool {
        self.queue.iter().any(|due| *due != Due::CopyEnd)
    }

    /// Whether a ReadyForQuery is still to come.
    pub(crate) fn ready(&self) -> bool {
        self.queue.iter().any(|due| matches!(due, Due::Query | Due::Sync))
    }
}

#[test]
fn an_error_takes_what_follows_with_it_up_to_the_sync() {
    let mut owed = Owed::default();
    let execute = Message::Execute { portal: Vec::new(), max_rows: 0 };
    for message in [&execute, &Message::Query(Vec::new()), &Message::Sync, &Message::Query(Vec::new())] {
        owed.sent(message);
    }
    owed.heard(back::ERROR);
    owed.heard(back::READY);
    assert!(owed.ready(), "the query behind the Sync counts");
    owed.heard(back::ERROR);
    owed.heard(back::READY);
    assert!(!owed.ready());
}

#[test]
fn a_sync_within_copy_is_a_part_of_it() {
    let mut owed = Owed::default();
    for message in [Message::Execute { portal: Vec::new(), max_rows: 0 }, Message::Sync] {
        owed.sent(&message);
    }
    owed.heard(back::COPY_IN);
    assert!(!owed.ready());
    owed.sent(&Message::CopyDone);
    owed.heard(back::COMMAND_COMPLETE);
    owed.sent(&Message::Sync);
    assert!(owed.ready());
}
