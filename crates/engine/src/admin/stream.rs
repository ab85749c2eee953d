//! Tables that are sent to a console in pieces: a table may have a row for each connection, and must not block the
//! worker.
//!
//! Owns the progress of a table. Records of connections are requested page by page, from one worker after the other;
//! each page is an input of its own there and here, so other work is done in between. The next page is requested only
//! while the console reads: at most one page is under way, and one more may wait for the console's socket.
//!
//! Invariant: no input makes more than [`PAGE`] rows of a table that lists connections, or visits more than
//! [`MAX_LOOKS`] slots. A table is not a snapshot: each row is true at the moment when its page was made.

use weir_admin::{Column, Row, Show, SocketRecord, Table};
use weir_base::{ConnId, WorkerId};
use weir_pgwire::put_back;

use crate::admin::paging::Paging;

/// The most rows of a piece: queries of clients wait behind one for about a tenth of a millisecond.
pub(crate) const PAGE: usize = 16;
/// The most slots that are visited for a piece.
pub(crate) const MAX_LOOKS: u32 = 4096;

/// A table that is being sent.
pub(crate) struct TableStream {
    /// Replies for an earlier table of the same console have another id.
    id: u64,
    show: Show,
    /// The number of columns: a row may have more.
    columns: usize,
    rest: Rest,
    /// The next piece is requested.
    asked: bool,
}

/// The rest of a table.
enum Rest {
    /// Finished rows.
    Rows(std::vec::IntoIter<Row>),
    /// Connections, from a position on.
    Connections(Position),
}

/// Where the next page of connections begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    /// How many of the table's lists are done.
    list: usize,
    worker: u16,
    slot: u32,
}

/// Messages for the console.
pub(crate) struct Piece {
    pub(crate) messages: Vec<u8>,
    /// Whether the piece is the table's last.
    pub(crate) last: bool,
}

impl TableStream {
    /// A table that lists connections.
    pub(crate) fn of_connections(id: u64, show: Show, columns: usize) -> TableStream {
        let begin = Position { list: 0, worker: 0, slot: 0 };
        TableStream { id, show, columns, rest: Rest::Connections(begin), asked: false }
    }

    /// A finished table.
    pub(crate) fn of_rows(id: u64, show: Show, table: Table) -> TableStream {
        let columns = table.columns.len();
        TableStream { id, show, columns, rest: Rest::Rows(table.rows.into_iter()), asked: true }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the next piece is requested already.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// The request for the next piece, and the worker that answers it; `here` is the console's.
    pub(crate) fn ask(&mut self, console: ConnId, here: WorkerId) -> (WorkerId, Paging) {
        self.asked = true;
        match self.rest {
            Rest::Rows(_) => (here, Paging::Rows { console, id: self.id }),
            Rest::Connections(Position { list, worker, slot }) => {
                let of = self.show.lists()[list];
                (WorkerId(worker), Paging::Wanted { console, id: self.id, of, slot })
            }
        }
    }

    /// A page of connections has arrived from one of `workers`; its list continues at slot `next` there, or ends.
    pub(crate) fn page(&mut self, records: &[SocketRecord], next: Option<u32>, workers: u16) -> Option<Piece> {
        let Rest::Connections(at) = &mut self.rest else { return None };
        let of = self.show.lists()[at.list];
        let rows = records.iter().filter_map(|record| weir_admin::connection_row(self.show, of, record));
        let mut rows: Vec<Row> = rows.collect();
        rows.iter_mut().for_each(|row| row.truncate(self.columns));
        *at = match next {
            Some(slot) => Position { slot, ..*at },
            None if at.worker + 1 < workers => Position { worker: at.worker + 1, slot: 0, ..*at },
            None => Position { list: at.list + 1, worker: 0, slot: 0 },
        };
        self.asked = false;
        Some(piece(&rows, at.list == self.show.lists().len()))
    }

    /// The next rows of a finished table.
    pub(crate) fn rows(&mut self) -> Option<Piece> {
        let Rest::Rows(rest) = &mut self.rest else { return None };
        let rows: Vec<Row> = rest.by_ref().take(PAGE).collect();
        self.asked = false;
        Some(piece(&rows, rest.as_slice().is_empty()))
    }
}

fn piece(rows: &[Row], last: bool) -> Piece {
    let mut messages = Vec::new();
    for row in rows {
        put_back::data_row_of(&mut messages, row.iter().map(|value| value.as_deref()));
    }
    if last {
        put_back::command_complete(&mut messages, "SHOW");
        put_back::ready(&mut messages, b'I');
    }
    Piece { messages, last }
}

/// RowDescription.
pub(crate) fn columns(columns: &[Column]) -> Vec<u8> {
    // Encoded here, since a table's columns have their own type OIDs.
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for column in columns {
        body.extend_from_slice(column.name.as_bytes());
        body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&column.kind.oid().to_be_bytes());
        body.extend_from_slice(&column.kind.size().to_be_bytes());
        body.extend_from_slice(&(-1i32).to_be_bytes());
        body.extend_from_slice(&[0, 0]);
    }
    let mut buffer = Vec::new();
    put_back::raw(&mut buffer, weir_pgwire::tag::back::ROW_DESCRIPTION, &body);
    buffer
}
