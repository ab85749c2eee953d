//! Commands of our own between a client's requests, on its server and in its transaction: nothing of the client's changes
//! but what the command says.

use weir_pgwire::{Of, put_front};

use crate::expected::Expected;
use crate::server::Server;

/// The statement and portal by which a command is carried out. No client's statement has such a name.
const COMMAND: &[u8] = b"weir\x01set";

/// Carries out a command within a segment; a Sync must follow. What the client has in unnamed statements and portals stays.
pub(crate) fn send(server: &mut Server, command: &str, scratch: &mut Vec<u8>) {
    let segment = server.pending.segment();
    put_front::parse(scratch, COMMAND, &[command.as_bytes(), b"\0\0\0"].concat());
    put_front::bind_no_params(scratch, COMMAND, COMMAND);
    put_front::execute(scratch, COMMAND, 0);
    for what in [Expected::OwnParseUnnamed, Expected::OwnBind, Expected::OwnExecute] {
        server.pending.request(what);
    }
    for of in [Of::Portal, Of::Statement] {
        put_front::close(scratch, of, COMMAND);
        server.closes.push(segment, None);
        server.pending.request(Expected::OwnClose);
    }
}

/// Ends a segment of ours. Where a command of it fails, no client sees that.
pub(crate) fn end(server: &mut Server, scratch: &mut Vec<u8>) {
    server.pending.request(Expected::OwnSync);
    put_front::sync(scratch);
}
