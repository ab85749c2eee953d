//! What a server sends in an exchange of Weir's own, of which no client gets anything: message by message.

use weir_pgwire::{Head, Malformed, backend};

use crate::frame_reader::{Disposition, Piece};
use crate::params::ParamTable;
use crate::server::{ProtocolViolation, Server};

/// Calls `take` for each message in `input`, with as much of it as `need` requires, or more; the rest is dropped.
///
/// # Errors
/// When the server can't be trusted any more.
pub(crate) fn messages(
    server: &mut Server,
    input: &[u8],
    need: impl Fn(Head) -> usize,
    mut take: impl FnMut(&mut Server, &[u8], Head) -> Result<(), ProtocolViolation>,
) -> Result<(), ProtocolViolation> {
    let mut at = 0;
    loop {
        match server.stream.next(input, &mut at, |_, head| need(head))? {
            Piece::End => return Ok(()),
            Piece::Rest(..) => {}
            Piece::Here(here, head) => {
                at = here + head.total().min(input.len() - here);
                server.stream.rest(head.total() - (at - here), Disposition::Discard);
                take(server, &input[here..at], head)?;
            }
            Piece::Held(head) => {
                let held = server.stream.take_held();
                server.stream.rest(head.total() - held.len(), Disposition::Discard);
                take(server, &held, head)?;
                server.stream.give_back(held);
            }
        }
    }
}

/// Takes in the body of a ParameterStatus. Returns whether its text could be read.
///
/// # Errors
/// The body is not one of a ParameterStatus.
pub(crate) fn take_report(server: &mut Server, body: &[u8], table: &ParamTable) -> Result<bool, Malformed> {
    let (name, value) = backend::parameter_status(body)?;
    let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else { return Ok(false) };
    table.report(&mut server.params, name, value);
    Ok(true)
}
