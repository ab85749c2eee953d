//! What must hold, whatever happens: the names of the checkers, and the first rule that was broken.
//!
//! The checkers themselves sit where they can see: at the modelled servers, at the modelled clients, at the port.

use std::fmt;

/// A rule that a run keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checker {
    /// No byte of one client's result reaches another.
    ResultsReachTheirOwner,
    /// A client is answered exactly as by a server of its own.
    AnsweredAsDirect,
    /// Between the beginning and the end of its transaction or pipeline a server serves one client.
    OneOwnerAServer,
    /// Pools, clients and buffers stay within their limits.
    LimitsHold,
    /// No client finds another's state on its server, unless the settings say so.
    NextOwnerSeesCleanServer,
    /// A cancel stops a query of its own client, or none.
    CancelHitsItsOwn,
    /// Who waits is served, refused or timed out in time.
    WaitersAreAnswered,
    /// Nobody waits at one worker while a server of the pool idles at another, but for as long as a few messages take.
    NobodyWaitsBesideIdle,
    /// Nobody is passed over by those who came later to another worker, but for as long as a few messages take.
    WaitsAreFair,
    /// When faults stop, all clients come to their end.
    AllFinishes,
    /// Nothing stays open when all is over.
    NoPeerLeaks,
    /// Nobody is failed when nothing is at fault.
    NoErrorWithoutFault,
    /// Each refusal is counted once, under what lay behind it.
    RefusalsAreCounted,
    /// The engine keeps to the port's rules.
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
            Checker::WaitersAreAnswered => "waiters are answered in time",
            Checker::NobodyWaitsBesideIdle => "nobody waits beside an idle server",
            Checker::WaitsAreFair => "waits are fair",
            Checker::AllFinishes => "all finishes when faults stop",
            Checker::NoPeerLeaks => "no peer leaks",
            Checker::NoErrorWithoutFault => "no error without a fault",
            Checker::RefusalsAreCounted => "refusals are counted",
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
    /// By whom, and how.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.checker, self.what)
    }
}
