//! A cancel request whose sender has waited for `cancel_wait_timeout`.
//!
//! The end of the sender's connection says that its request has no effect any more, as with PostgreSQL. So a request
//! that is not sent by then is dropped, and one that is sent keeps its sender until the server or peer has closed.

use weir_base::{ConnId, Time};

use crate::cancel::peering::ForwardSlot;
use crate::cancel::state::{CancelSlot, CancelStage};
use crate::cancel::{forward, request};
use crate::client::slot::ClientSlot;
use crate::conns::Conn;
use crate::core::Core;
use crate::link::leave;
use crate::port::Io;

/// What a connection of ours that carries a request is to a sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// It carries others' requests, too, or only others'.
    Others,
    /// It has sent the sender's request.
    Sent,
    /// It carries this sender's request alone, and has not sent it.
    Unsent,
}

/// The time of a sender is over.
pub(crate) fn sender_due<I: Io>(core: &mut Core, now: Time, client: Box<ClientSlot>, io: &mut I) {
    let sender = client.conn;
    core.peering.drop_requests_of(sender);
    core.moves.drop_requests_of(sender);
    let mut carriers: Vec<ConnId> = core.peering.under_way().collect();
    for ix in core.pools.indices() {
        let cancels = &mut core.pools.get_mut(ix).cancels;
        cancels.drop_requests_of(sender);
        carriers.extend_from_slice(cancels.under_way());
    }
    for carrier in carriers {
        match carries(core, carrier, sender) {
            Carries::Others => {}
            Carries::Sent => return core.conns.put_client(client),
            Carries::Unsent => give_up(core, carrier, io),
        }
    }
    leave::client_leaves(core, now, client, io);
}

/// What a connection is to a sender, which it no longer waits for if others wait, too.
fn carries(core: &mut Core, carrier: ConnId, sender: ConnId) -> Carries {
    if let Some(cancel) = core.conns.get_mut::<CancelSlot>(carrier).filter(|c| c.requesters.contains(&sender)) {
        if cancel.stage == CancelStage::Sent {
            return Carries::Sent;
        }
        cancel.requesters.retain(|other| *other != sender);
        let alone = cancel.requesters.is_empty() && !cancel.without_sender;
        return if alone { Carries::Unsent } else { Carries::Others };
    }
    match core.conns.get::<ForwardSlot>(carrier).filter(|slot| slot.forward.requester == Some(sender)) {
        Some(slot) if slot.sent => Carries::Sent,
        Some(_) => Carries::Unsent,
        None => Carries::Others,
    }
}

fn give_up<I: Io>(core: &mut Core, carrier: ConnId, io: &mut I) {
    io.close(carrier);
    match core.conns.take_any(carrier) {
        Conn::Cancel(cancel) => request::over(core, &cancel, io),
        Conn::Forward(slot) => forward::over(core, &slot, io),
        _ => {}
    }
}
