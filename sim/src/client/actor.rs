//! A common interface to all kinds of clients.

use super::hostile::Hostile;
use super::operator::Operator;
use super::user::Client;
use super::{Identity, Kind};
use crate::context::Context;
use crate::network::{End, SocketEvent};
use crate::postgres::core::Reporting;
use crate::rng::Rng;

/// A client of any kind.
pub(crate) enum Actor {
    /// Uses a database and compares the replies.
    User(Box<Client>),
    /// Breaks the protocol.
    Hostile(Hostile),
    /// Uses the console.
    Operator(Operator),
}

macro_rules! each {
    ($actor:expr, $client:ident => $body:expr) => {
        match $actor {
            Actor::User($client) => $body,
            Actor::Hostile($client) => $body,
            Actor::Operator($client) => $body,
        }
    };
}

impl Actor {
    /// A client that connects after [`Actor::schedule_arrival`].
    pub(crate) fn new(identity: Identity, reporting: Reporting, rng: Rng) -> Actor {
        match identity.kind {
            Kind::Hostile => Actor::Hostile(Hostile::new(identity, rng)),
            Kind::Operator => Actor::Operator(Operator::new(identity, rng)),
            Kind::User | Kind::WrongPassword => Actor::User(Box::new(Client::new(identity, reporting, rng))),
        }
    }

    /// Schedules its first connection, within `latest` microseconds.
    pub(crate) fn schedule_arrival(&mut self, ctx: &mut Context, latest: u64) {
        each!(self, client => client.schedule_arrival(ctx, latest));
    }

    /// Whether the client has finished.
    pub(crate) fn is_done(&self) -> bool {
        each!(self, client => client.is_done())
    }

    /// Faults stop.
    pub(crate) fn stop_faults(&mut self) {
        each!(self, client => client.stop_faults());
    }

    /// The client's state, for a report.
    pub(crate) fn describe(&mut self) -> String {
        each!(self, client => client.describe())
    }

    /// An event of the client's connection.
    pub(crate) fn socket_event(&mut self, ctx: &mut Context, event: &SocketEvent, bytes: &[u8]) {
        each!(self, client => client.socket_event(ctx, event, bytes));
    }

    /// An event of a connection that carries a cancel request of the client.
    pub(crate) fn canceller_event(&mut self, ctx: &mut Context, end: End, event: &SocketEvent) {
        if let Actor::User(client) = self {
            client.canceller_event(ctx, end, event);
        }
    }

    /// The pooler has read the client's cancel request on this connection.
    pub(crate) fn cancel_arrived(&mut self, ctx: &mut Context, end: End) {
        if let Actor::User(client) = self {
            client.cancel_arrived(ctx, end);
        }
    }

    /// One of the client's timers has fired.
    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        each!(self, client => client.woken(ctx, reason));
    }
}
