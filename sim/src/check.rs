//! The checkers' names and the violation that ends a run.
//!
//! The checkers themselves are where they observe: in the modelled servers, in the modelled clients, and in the port.

use std::fmt;

/// A rule that every run must keep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checker {
    /// No byte of one client's result reaches another.
    ResultsReachTheirOwner,
    /// A client gets exactly the replies of a direct connection.
    AnsweredAsDirect,
    /// From the beginning to the end of a transaction or pipeline a server serves one client.
    OneOwnerAServer,
    /// Pools, clients and buffers stay within their limits.
    LimitsHold,
    /// No client finds another's state on its server, unless the settings say so.
    NextOwnerSeesCleanServer,
    /// A cancel request stops a query of its own client, or none.
    CancelHitsItsOwn,
    /// A cancel request stops the query of its client that runs or is next, unless that has ended.
    CancelIsNotLost,
    /// A waiting client is served, refused or timed out in time.
    WaitersAreAnswered,
    /// No client waits at one worker while a server of the pool idles at another, except while a few messages are in
    /// transit.
    NoWaitBesideIdle,
    /// No client is passed over by clients that came later to another worker, except while a few messages are in
    /// transit.
    WaitsAreFair,
    /// A pool below its guarantee gets a server before those above theirs go on, except while a few messages are in
    /// transit.
    GuaranteesHold,
    /// When faults stop, all clients finish.
    AllFinishes,
    /// No connection or server process remains at the end.
    NoConnLeaks,
    /// No client gets an error without a fault.
    NoErrorWithoutFault,
    /// A pool that wants a primary never writes to two hosts at once.
    OnePrimary,
    /// A drain closes a client between two transactions, with an error.
    DrainsBetweenTransactions,
    /// No client is refused because the server of its pool is merely away, before its wait has timed out.
    AwayServersAreWaitedFor,
    /// Each refusal is counted once, under its cause.
    RefusalsAreCounted,
    /// A turn of a worker reads texts in proportion to what arrived.
    TurnsAreShort,
    /// The engine keeps the port's rules.
    PortIsKept,
    /// The engine's own invariants.
    Invariant,
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checker::ResultsReachTheirOwner => "results reach their owner",
            Checker::AnsweredAsDirect => "answered as by a direct connection",
            Checker::OneOwnerAServer => "one owner a server",
            Checker::LimitsHold => "limits hold",
            Checker::NextOwnerSeesCleanServer => "the next owner sees a clean server",
            Checker::CancelHitsItsOwn => "a cancel hits its own query",
            Checker::CancelIsNotLost => "a cancel is not lost",
            Checker::WaitersAreAnswered => "waiters are answered in time",
            Checker::NoWaitBesideIdle => "no client waits while a server idles",
            Checker::WaitsAreFair => "waits are fair",
            Checker::GuaranteesHold => "guarantees hold",
            Checker::AllFinishes => "all clients finish when faults stop",
            Checker::NoConnLeaks => "no connection leaks",
            Checker::NoErrorWithoutFault => "no error without a fault",
            Checker::OnePrimary => "one primary at a time",
            Checker::DrainsBetweenTransactions => "a drain closes clients between transactions",
            Checker::AwayServersAreWaitedFor => "servers that are away are waited for",
            Checker::RefusalsAreCounted => "refusals are counted",
            Checker::TurnsAreShort => "turns are short",
            Checker::PortIsKept => "the port's rules are kept",
            Checker::Invariant => "the engine's invariants",
        })
    }
}

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which rule.
    pub checker: Checker,
    /// What happened, and to which client or server.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.checker, self.what)
    }
}
