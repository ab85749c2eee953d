//! An operator's session waits for an answer, and gets it.

use weir_admin::{ALL_DATABASES, Author, ChangeSource, CommandError};
use weir_base::ConnId;

use crate::admin::broadcasts::Caller;
use crate::admin::console;
use crate::admin::console::Console;
use crate::admin::paging::Paging;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::FollowUp;
use crate::core::Core;
use crate::port::Io;
use crate::reading::Reason;
use crate::workers::messages::{Message, Payload};

/// An operator's session, if the operator is connected.
pub(crate) fn console(core: &mut Core, conn: ConnId) -> Option<&mut Console> {
    match core.conns.get_mut::<ClientSlot>(conn)?.phase_mut() {
        ClientPhase::Console(console) => Some(console),
        _ => None,
    }
}

/// A command is answered, or some messages are handled: the next ones have a turn of their own.
pub(crate) fn goes_on<I: Io>(core: &Core, client: &mut ClientSlot, io: &mut I) {
    if client.waiting.is_empty() {
        return client.resume(Reason::Waits, io);
    }
    client.pause(Reason::Waits, io);
    let next = Paging::Next { console: client.conn };
    io.post(core.common.worker(), Message(Payload::Paging(next)), None);
}

/// A console's next turn; it waits while the console does not read its output.
pub(crate) fn turn<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    let Some(client) = core.conns.get_mut::<ClientSlot>(conn) else { return };
    let full = client.reading.has(Reason::OwnFull);
    let ClientPhase::Console(console) = client.phase_mut() else { return };
    console.set_unread(full);
    if !full {
        client.resume(Reason::Waits, io);
        core.common.follow_up(FollowUp::Feed(conn));
    }
}

/// Sends a reply to a waiting console, and lets it go on.
pub(crate) fn answer_console<I: Io>(core: &mut Core, conn: ConnId, answer: &[u8], io: &mut I) {
    let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { return };
    if let ClientPhase::Console(console) = client.phase_mut() {
        console.answered();
        io.send(conn, answer);
        goes_on(core, &mut client, io);
    }
    core.conns.put_client(client);
}

/// The operator who gave a command waits for its answer, by its number.
pub(crate) fn caller_waits(core: &mut Core, caller: Caller, id: u64) {
    if let Caller::Console(conn) = caller
        && let Some(console) = console(core, conn)
    {
        console.wait_for(Some(id));
    }
}

/// An operator's next command waits until this one is answered; `command`: its number, once it has one.
pub(crate) fn console_waits<I: Io>(client: &mut ClientSlot, command: Option<u64>, io: &mut I) {
    client.pause(Reason::Waits, io);
    if let ClientPhase::Console(console) = client.phase_mut() {
        console.wait_for(command);
    }
}

/// Says before the answer to a SET that the other nodes of a cluster don't get it.
pub(crate) fn note_local_set<I: Io>(core: &Core, client: &ClientSlot, io: &mut I) {
    if !core.common.config().cluster.etcd.is_empty() {
        io.send(client.conn, &console::set_is_local());
    }
}

/// The operator of a console, as the author of a change.
pub(crate) fn operator(core: &Core, client: &ClientSlot) -> Author {
    let from = client.addr.with_port(core.common.config().listen.port);
    Author { user: Some(client.user.to_string()), from, via: ChangeSource::Console, comment: None, request: 0 }
}

/// Whether a configured pool has this name. `*` is none, though it stands for databases in a file, and the fallback
/// would have any name.
pub(crate) fn check_name(core: &Core, name: Option<&str>) -> Result<(), CommandError> {
    match name {
        Some(name) if name == ALL_DATABASES || core.common.config().pool(name).is_none() => {
            Err(CommandError::NoSuchDatabase(name.to_owned()))
        }
        _ => Ok(()),
    }
}
