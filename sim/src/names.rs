//! A model of DNS: server names whose addresses change.
//!
//! Owns each name's current address and the answers that each engine's port has cached. An answer is valid for its TTL;
//! the next one may be another address, or a failure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Span, Time};

use crate::rng::Rng;

/// A DNS answer for a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DnsAnswer {
    pub(crate) name: Arc<str>,
    /// Empty: the lookup failed.
    pub(crate) addresses: Vec<IpAddr>,
    /// How long the answer is valid.
    pub(crate) ttl: Span,
}

/// All names.
pub(crate) struct Names {
    /// All possible addresses.
    addresses: Vec<IpAddr>,
    /// The current address of each name.
    current: BTreeMap<Arc<str>, IpAddr>,
    /// What each engine's port has cached, and until when it is valid.
    known: BTreeMap<(u16, Arc<str>), (IpAddr, Time)>,
    rng: Rng,
}

impl Names {
    /// Names with one of these addresses each.
    pub(crate) fn new(addresses: Vec<IpAddr>, rng: Rng) -> Names {
        Names { addresses, current: BTreeMap::new(), known: BTreeMap::new(), rng }
    }

    /// The address for a connect, and the new answer for the engine unless its port had one cached. `None` if there are
    /// no addresses.
    pub(crate) fn resolve(&mut self, now: Time, worker: u16, name: &str) -> Option<(IpAddr, Option<DnsAnswer>)> {
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

    /// Looks a name up for an engine that needs a new answer.
    pub(crate) fn look_up(&mut self, now: Time, worker: u16, name: Arc<str>) -> DnsAnswer {
        let fails = self.rng.chance(100);
        match self.ask(&name).filter(|_| !fails) {
            Some(address) => self.found(now, worker, name, address),
            None => DnsAnswer { name, addresses: Vec::new(), ttl: self.ttl() },
        }
    }

    fn found(&mut self, now: Time, worker: u16, name: Arc<str>, address: IpAddr) -> DnsAnswer {
        let ttl = self.ttl();
        self.known.insert((worker, name.clone()), (address, now + ttl));
        DnsAnswer { name, addresses: vec![address], ttl }
    }

    fn ttl(&mut self) -> Span {
        self.rng.span(0, 20_000_000)
    }

    /// Asks the name server, which sometimes changes the address.
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
    fn an_answer_is_valid_for_its_ttl_and_the_next_may_differ() {
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
