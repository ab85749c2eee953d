//! Names of servers, whose addresses change.
//!
//! Owns what a name stands for at the moment, and what each engine's port has been told of it. An answer holds for a
//! while; the next one may be another address, or none at all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Span, Time};

use crate::rng::Rng;

/// What a port hears of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) name: Arc<str>,
    /// Empty: the name server is in trouble.
    pub(crate) addresses: Vec<IpAddr>,
    /// How long the answer holds.
    pub(crate) ttl: Span,
}

/// All names.
pub(crate) struct Names {
    /// What a name may stand for.
    addresses: Vec<IpAddr>,
    /// What each stands for now.
    current: BTreeMap<Arc<str>, IpAddr>,
    /// What each engine's port knows, and how long it holds.
    known: BTreeMap<(u16, Arc<str>), (IpAddr, Time)>,
    rng: Rng,
}

impl Names {
    /// Names that stand for one of these addresses each.
    pub(crate) fn new(addresses: Vec<IpAddr>, rng: Rng) -> Names {
        Names { addresses, current: BTreeMap::new(), known: BTreeMap::new(), rng }
    }

    /// Where a connect goes to, and what the engine has to hear of it first unless its port knew. `None` if there are no
    /// addresses.
    pub(crate) fn resolve(&mut self, now: Time, worker: u16, name: &str) -> Option<(IpAddr, Option<Found>)> {
        let name: Arc<str> = name.into();
        if let Some((address, until)) = self.known.get(&(worker, name.clone()))
            && now < *until
        {
            return Some((*address, None));
        }
        let address = self.ask(&name)?;
        let found = self.found(now, worker, name, address);
        Some((address, Some(found)))
    }

    /// Looks a name up for an engine that has grown tired of its last answer.
    pub(crate) fn look_up(&mut self, now: Time, worker: u16, name: Arc<str>) -> Found {
        let trouble = self.rng.chance(100);
        match self.ask(&name).filter(|_| !trouble) {
            Some(address) => self.found(now, worker, name, address),
            None => Found { name, addresses: Vec::new(), ttl: self.ttl() },
        }
    }

    fn found(&mut self, now: Time, worker: u16, name: Arc<str>, address: IpAddr) -> Found {
        let ttl = self.ttl();
        self.known.insert((worker, name.clone()), (address, now + ttl));
        Found { name, addresses: vec![address], ttl }
    }

    fn ttl(&mut self) -> Span {
        self.rng.span(0, 20_000_000)
    }

    /// What the name server says: now and then another address.
    fn ask(&mut self, name: &Arc<str>) -> Option<IpAddr> {
        if self.addresses.is_empty() {
            return None;
        }
        if self.rng.chance(300) || !self.current.contains_key(name) {
            self.current.insert(name.clone(), *self.rng.pick(&self.addresses));
        }
        self.current.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_answer_holds_for_its_time_and_then_may_be_another() {
        let addresses = [1, 2].map(|last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last)));
        let mut names = Names::new(addresses.to_vec(), Rng::new(3));
        let mut seen = Vec::new();
        let mut now = Time::START;
        for _ in 0..200 {
            let (address, found) = names.resolve(now, 0, "db").expect("there are addresses");
            if let Some(found) = found {
                assert_eq!(found.addresses, [address]);
                let before = Time::from_micros((now + found.ttl).micros().saturating_sub(1)).max(now);
                let again = names.resolve(before, 0, "db").expect("there are addresses");
                assert!(found.ttl.is_zero() || again == (address, None));
                now = now + found.ttl;
            } else {
                now = now + Span::from_secs(1);
            }
            seen.push(address);
        }
        assert!(addresses.iter().all(|address| seen.contains(address)));
    }

    #[test]
    fn without_addresses_there_is_no_answer() {
        let mut names = Names::new(Vec::new(), Rng::new(3));
        assert_eq!(names.resolve(Time::START, 0, "db"), None);
        assert!(names.look_up(Time::START, 0, "db".into()).addresses.is_empty());
    }
}
