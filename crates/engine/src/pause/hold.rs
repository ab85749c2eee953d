//! A connection is not read from until RESUME.

use weir_base::ConnId;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::core::Core;
use crate::port::Io;
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// Pauses a connection until RESUME, except for consoles and logins of ours at servers.
pub(crate) fn hold<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    if let Some(client) = core.conns.get_mut::<ClientSlot>(conn) {
        let exempt = matches!(
            client.phase,
            ClientPhase::Console(_) | ClientPhase::Moving(_) | ClientPhase::Canceller | ClientPhase::Gone
        );
        if !exempt {
            client.pause(Reason::Suspended, io);
        }
    } else if let Some(server) = core.conns.get_mut::<ServerSlot>(conn)
        && matches!(server.state, ServerState::Up(..))
        && !matches!(server.phase(), Some(ServerPhase::Lending { .. } | ServerPhase::Returning | ServerPhase::Leaving))
    {
        server.pause(Reason::Suspended, io);
    }
}
