//! The kinds of clients behind one face.

use super::hostile::Hostile;
use super::operator::Operator;
use super::user::Client;
use super::{Identity, Kind};
use crate::context::Context;
use crate::network::Happening;
use crate::postgres::core::Reporting;
use crate::rng::Rng;

/// A client of any kind.
pub(crate) enum Actor {
    /// One that uses a database, and compares what it gets.
    User(Box<Client>),
    /// One that breaks the protocol.
    Hostile(Hostile),
    /// One that uses the console.
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
    /// A client that will come when it is invited.
    pub(crate) fn new(identity: Identity, reporting: Reporting, rng: Rng) -> Actor {
        match identity.kind {
            Kind::Hostile => Actor::Hostile(Hostile::new(identity, rng)),
            Kind::Operator => Actor::Operator(Operator::new(identity, rng)),
            Kind::User | Kind::Impostor => Actor::User(Box::new(Client::new(identity, reporting, rng))),
        }
    }

    /// Lets it come within a while.
    pub(crate) fn invite(&mut self, ctx: &mut Context, latest: u64) {
        each!(self, client => client.invite(ctx, latest));
    }

    /// Whether it will not come back.
    pub(crate) fn is_done(&self) -> bool {
        each!(self, client => client.is_done())
    }

    /// Faults stop.
    pub(crate) fn calm_down(&mut self) {
        each!(self, client => client.calm_down());
    }

    /// Where it stands, for a report.
    pub(crate) fn describe(&mut self) -> String {
        each!(self, client => client.describe())
    }

    /// Something happened to its connection.
    pub(crate) fn happened(&mut self, ctx: &mut Context, happening: &Happening, bytes: &[u8]) {
        each!(self, client => client.happened(ctx, happening, bytes));
    }

    /// Something happened to the connection of its cancel request.
    pub(crate) fn canceller_happened(&mut self, ctx: &mut Context, happening: &Happening) {
        if let Actor::User(client) = self {
            client.canceller_happened(ctx, happening);
        }
    }

    /// What it asked to be woken for has come.
    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        each!(self, client => client.woken(ctx, reason));
    }
}
