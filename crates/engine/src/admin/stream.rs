//! Tables on their way to a console, in pieces: a table is as long as there are connections, and nobody waits for it.
//!
//! Owns how far a table has come. Records of connections are asked for page by page, from one worker after the other; each
//! page is a turn of its own there and here, so what others ask is served in between. The next page is asked for only while
//! the console reads: at most one page is on its way, and one more may wait for the console's socket.
//!
//! Invariant: no turn makes more than [`PAGE`] rows of a table that lists connections, or looks at more than [`LOOKS`] slots.
//! A table is no snapshot: each row is true at the moment when its page was made.

use weir_admin::{Column, Connections, Row, Show, SocketRecord, Table};
use weir_base::{Peer, WorkerId};
use weir_pgwire::put_back;

use crate::Engine;
use crate::admin::console_state::{Place, Rest, Streaming};
use crate::cluster::messages::{Message, Payload};
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::Io;

/// The most rows of a piece.
pub(crate) const PAGE: usize = 256;
/// The most slots that are looked at for a piece.
const LOOKS: u32 = 4096;

/// A question for a page, and its answer.
#[derive(Debug)]
pub(crate) enum Paging {
    /// Some connections, from a slot on.
    Wanted { console: Peer, id: u64, of: Connections, slot: u32 },
    /// Here they are, and where to go on; `None`: there are no more.
    Page { console: Peer, id: u64, records: Vec<SocketRecord>, next: Option<u32> },
    /// The next rows of a table that is made already.
    GoOn { console: Peer, id: u64 },
    /// The same question, of the control plane's.
    Asked { number: u64, of: Connections, slot: u32 },
    /// And its answer.
    Told { number: u64, records: Vec<SocketRecord>, next: Option<u32> },
}

impl Engine {
    /// Begins to send a table that lists connections.
    pub(crate) fn begin_listing<I: Io>(&mut self, client: &mut ClientSlot, show: Show, io: &mut I) {
        let mut buffer = Vec::new();
        put_columns(&mut buffer, weir_admin::columns(show));
        io.send(client.peer, &buffer);
        self.pause_client(client, io);
        let id = self.common.next_id();
        let place = Place { list: 0, worker: 0, slot: 0 };
        let mut stream = Box::new(Streaming { id, show, rest: Rest::Connections(place), asked: false });
        self.ask_for_more(client.peer, &mut stream, io);
        if let ClientPhase::Console(console) = &mut client.phase {
            console.stream = Some(stream);
        }
    }

    /// Sends a table to a console that waits for it.
    pub(crate) fn send_table<I: Io>(&mut self, console: Peer, show: Show, table: Table, io: &mut I) {
        let id = self.common.next_id();
        let stream = Streaming { id, show, rest: Rest::Rows(table.rows.into_iter()), asked: true };
        // Its operator may have left while the workers were asked.
        let Some(client) = self.peers.client(console) else { return };
        let ClientPhase::Console(state) = &mut client.phase else { return };
        state.stream = Some(Box::new(stream));
        let mut buffer = Vec::new();
        put_columns(&mut buffer, table.columns);
        io.send(console, &buffer);
        self.more_rows(console, id, io);
    }

    /// A question or an answer about a table.
    pub(crate) fn paging<I: Io>(&mut self, from: WorkerId, paging: Paging, io: &mut I) {
        match paging {
            Paging::Wanted { console, id, of, slot } => {
                let (records, next) = self.page(of, slot);
                io.post(from, Message(Payload::Paging(Paging::Page { console, id, records, next })), None);
            }
            Paging::Page { console, id, records, next } => self.page_came(console, id, &records, next, io),
            Paging::GoOn { console, id } => self.more_rows(console, id, io),
            Paging::Asked { number, of, slot } => {
                let (records, next) = self.page(of, slot);
                io.post(from, Message(Payload::Paging(Paging::Told { number, records, next })), None);
            }
            Paging::Told { number, records, next } => self.page_for_control(from, number, records, next, io),
        }
    }

    /// The records of some connections of this worker, and where to go on.
    fn page(&self, of: Connections, from: u32) -> (Vec<SocketRecord>, Option<u32>) {
        let mut records = Vec::new();
        let end = from.saturating_add(LOOKS).min(self.peers.slots());
        for slot in from..end {
            if records.len() == PAGE {
                return (records, Some(slot));
            }
            match of {
                Connections::Clients => {
                    records.extend(self.peers.client_at(slot).map(|client| self.client_record(client)));
                }
                Connections::Servers => {
                    records.extend(self.peers.server_at(slot).map(|server| self.server_record(server)));
                }
            }
        }
        (records, (end < self.peers.slots()).then_some(end))
    }

    fn page_came<I: Io>(&mut self, console: Peer, id: u64, records: &[SocketRecord], next: Option<u32>, io: &mut I) {
        let workers = self.common.workers();
        let Some(mut stream) = self.take_stream(console, id) else { return };
        let Rest::Connections(place) = &mut stream.rest else { return };
        let of = stream.show.lists()[place.list];
        let rows: Vec<Row> = records.iter().filter_map(|r| weir_admin::connection_row(stream.show, of, r)).collect();
        *place = match next {
            Some(slot) => Place { slot, ..*place },
            None if place.worker + 1 < workers => Place { worker: place.worker + 1, slot: 0, ..*place },
            None => Place { list: place.list + 1, worker: 0, slot: 0 },
        };
        let over = place.list == stream.show.lists().len();
        self.send_piece(console, stream, &rows, over, io);
    }

    fn more_rows<I: Io>(&mut self, console: Peer, id: u64, io: &mut I) {
        let Some(mut stream) = self.take_stream(console, id) else { return };
        let Rest::Rows(rest) = &mut stream.rest else { return };
        let rows: Vec<Row> = rest.by_ref().take(PAGE).collect();
        let over = rest.as_slice().is_empty();
        self.send_piece(console, stream, &rows, over, io);
    }

    fn take_stream(&mut self, console: Peer, id: u64) -> Option<Box<Streaming>> {
        let ClientPhase::Console(state) = &mut self.peers.client(console)?.phase else { return None };
        if state.stream.as_ref()?.id == id { state.stream.take() } else { None }
    }

    fn send_piece<I: Io>(&mut self, console: Peer, mut stream: Box<Streaming>, rows: &[Row], over: bool, io: &mut I) {
        let mut buffer = Vec::new();
        for row in rows {
            put_back::data_row_of(&mut buffer, row.iter().map(|value| value.as_deref()));
        }
        if over {
            put_back::command_complete(&mut buffer, "SHOW");
            put_back::ready(&mut buffer, b'I');
            return self.reply(console, &buffer, io);
        }
        if !buffer.is_empty() {
            io.send(console, &buffer);
        }
        stream.asked = false;
        let full = self.peers.get_client(console).is_some_and(|client| client.pause.full);
        if !full {
            self.ask_for_more(console, &mut stream, io);
        }
        if let Some(client) = self.peers.client(console)
            && let ClientPhase::Console(state) = &mut client.phase
        {
            state.stream = Some(stream);
        }
    }

    /// A console's socket has room again.
    pub(crate) fn console_reads<I: Io>(&mut self, console: Peer, io: &mut I) {
        let Some(client) = self.peers.client(console) else { return };
        let ClientPhase::Console(state) = &mut client.phase else { return };
        let Some(mut stream) = state.stream.take() else { return };
        if !stream.asked {
            self.ask_for_more(console, &mut stream, io);
        }
        if let Some(client) = self.peers.client(console)
            && let ClientPhase::Console(state) = &mut client.phase
        {
            state.stream = Some(stream);
        }
    }

    fn ask_for_more<I: Io>(&mut self, console: Peer, stream: &mut Streaming, io: &mut I) {
        let id = stream.id;
        let (to, paging) = match stream.rest {
            Rest::Rows(_) => (self.common.worker(), Paging::GoOn { console, id }),
            Rest::Connections(place) => {
                let of = stream.show.lists()[place.list];
                (WorkerId(place.worker), Paging::Wanted { console, id, of, slot: place.slot })
            }
        };
        stream.asked = true;
        io.post(to, Message(Payload::Paging(paging)), None);
    }
}

fn put_columns(buffer: &mut Vec<u8>, columns: &[Column]) {
    // RowDescription by hand: a table's kinds carry their own type ids.
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for column in columns {
        body.extend_from_slice(column.name.as_bytes());
        body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&column.kind.oid().to_be_bytes());
        body.extend_from_slice(&column.kind.size().to_be_bytes());
        body.extend_from_slice(&(-1i32).to_be_bytes());
        body.extend_from_slice(&[0, 0]);
    }
    put_back::raw(buffer, weir_pgwire::tag::back::ROW_DESCRIPTION, &body);
}
