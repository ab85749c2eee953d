//! Tables for operators and the control plane; long ones in pieces.

use weir_admin::{ControlReply, Cursor, Show, SocketRecord, Table};
use weir_base::{ConnId, WorkerId};

use crate::admin::console::Console;
use crate::admin::paging::Paging;
use crate::admin::report::Tables;
use crate::admin::stream::{Piece, TableStream};
use crate::admin::{operators, stream};
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::core::Core;
use crate::lending::messages;
use crate::port::Io;
use crate::reading::Reason;
use crate::workers::messages::{Message, Payload};

/// Calls `make` with the input of reports.
pub(crate) fn with_tables<R>(core: &Core, make: impl FnOnce(&Tables<'_>) -> R) -> R {
    make(&Tables {
        common: &core.common,
        params: &core.sessions.params,
        conns: &core.conns,
        pools: &core.pools,
        queries: &core.auth_queries,
        throttle: &core.hosts.throttle,
        is_lent: &|server| messages::is_lent(core, server),
    })
}

/// Begins to send a table that lists connections.
pub(crate) fn list_connections<I: Io>(core: &mut Core, client: &mut ClientSlot, show: Show, io: &mut I) {
    let columns = weir_admin::columns_with(show, core.common.config().format);
    io.send(client.conn, &stream::columns(columns));
    client.pause(Reason::Waits, io);
    let mut table = TableStream::of_connections(core.common.next_id(), show, columns.len());
    ask_for_piece(&mut table, client.conn, core.common.worker(), io);
    if let ClientPhase::Console(console) = client.phase_mut() {
        console.set_table(table);
    }
}

/// The table of this number that is being sent to a console.
fn table(core: &mut Core, console: ConnId, id: u64) -> Option<&mut TableStream> {
    operators::console(core, console)?.table().filter(|table| table.id() == id)
}

fn send_piece<I: Io>(core: &mut Core, console: ConnId, piece: Option<Piece>, io: &mut I) {
    let Some(Piece { messages, last }) = piece else { return };
    if last {
        return operators::answer_console(core, console, &messages, io);
    }
    if !messages.is_empty() {
        io.send(console, &messages);
    }
    if core.conns.get::<ClientSlot>(console).is_some_and(|client| !client.reading.has(Reason::OwnFull)) {
        console_reads(core, console, io);
    }
}

fn next_rows<I: Io>(core: &mut Core, console: ConnId, id: u64, io: &mut I) {
    let piece = table(core, console, id).and_then(TableStream::rows);
    send_piece(core, console, piece, io);
}

/// Sends a table to a waiting console.
pub(crate) fn send_table<I: Io>(core: &mut Core, conn: ConnId, show: Show, table: Table, io: &mut I) {
    let id = core.common.next_id();
    // The operator may have disconnected meanwhile.
    let Some(console) = operators::console(core, conn) else { return };
    let columns = table.columns;
    console.set_table(TableStream::of_rows(id, show, table));
    io.send(conn, &stream::columns(columns));
    next_rows(core, conn, id, io);
}

/// A console has read its output: requests the next piece of its table, or goes on with its next command.
pub(crate) fn console_reads<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    let here = core.common.worker();
    if operators::console(core, conn).is_some_and(|console| console.set_unread(false)) {
        return operators::turn(core, conn, io);
    }
    if let Some(table) = operators::console(core, conn).and_then(Console::table).filter(|table| !table.is_asked()) {
        ask_for_piece(table, conn, here, io);
    }
}

fn page_for_control<I: Io>(
    core: &mut Core,
    worker: WorkerId,
    number: u64,
    records: Vec<SocketRecord>,
    next: Option<u32>,
    io: &mut I,
) {
    let next = match next {
        Some(slot) => Some(Cursor { worker, slot }),
        None if worker.0 + 1 < core.common.workers() => Some(Cursor { worker: WorkerId(worker.0 + 1), slot: 0 }),
        None => None,
    };
    io.answer(number, Ok(ControlReply::Connections(records, next)));
}

/// Handles a request or reply about a list of connections.
pub(crate) fn paging<I: Io>(core: &mut Core, from: WorkerId, paging: Paging, io: &mut I) {
    let answer = match paging {
        Paging::Wanted { console, id, of, slot } => {
            let (records, next) = with_tables(core, |tables| tables.page(of, slot));
            Paging::Page { console, id, records, next }
        }
        Paging::WantedByControl { number, of, slot } => {
            let (records, next) = with_tables(core, |tables| tables.page(of, slot));
            Paging::PageForControl { number, records, next }
        }
        Paging::Page { console, id, records, next } => {
            let workers = core.common.workers();
            let piece = table(core, console, id).and_then(|table| table.page(&records, next, workers));
            return send_piece(core, console, piece, io);
        }
        Paging::Rows { console, id } => return next_rows(core, console, id, io),
        Paging::Next { console } => return operators::turn(core, console, io),
        Paging::PageForControl { number, records, next } => {
            return page_for_control(core, from, number, records, next, io);
        }
    };
    io.post(from, Message(Payload::Paging(answer)), None);
}

fn ask_for_piece<I: Io>(table: &mut TableStream, console: ConnId, here: WorkerId, io: &mut I) {
    let (to, paging) = table.ask(console, here);
    io.post(to, Message(Payload::Paging(paging)), None);
}
