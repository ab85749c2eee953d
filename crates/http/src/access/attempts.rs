//! Limits attempts to log in: counts them by the pair of address and user, in a table of bounded size.
//!
//! An attempt counts when its check begins, so parallel attempts count, too; its success removes it. What is tried
//! under other names, or from other addresses, never counts for a pair, so nobody can lock out another one. The check
//! itself is slow, and one is done at a time: that limits guesses from many addresses, and how fast the table fills.
//! When it is full, the pair with the fewest attempts makes room, of the address with the most pairs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::secrets::{Digest, digest};
use crate::admission::network;

/// Attempts of a pair within [`WINDOW`].
const MOST_ATTEMPTS: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Pairs that are counted.
const MOST: usize = 4096;

/// An address, and the hash of what it claims to be: texts of clients are not kept.
type Pair = (IpAddr, Digest);

#[derive(Clone, Copy, Debug)]
struct Count {
    attempts: u32,
    since: Instant,
}

/// Recent attempts.
#[derive(Debug, Default)]
pub(super) struct Attempts(HashMap<Pair, Count>);

impl Attempts {
    /// An error if this pair must wait, with the time. Counts nothing.
    pub(super) fn check(&self, address: IpAddr, claim: &str, now: Instant) -> Result<(), Duration> {
        let count = self.0.get(&pair(address, claim)).filter(|count| now < count.since + WINDOW);
        match count {
            Some(count) if count.attempts >= MOST_ATTEMPTS => Err(count.since + WINDOW - now),
            _ => Ok(()),
        }
    }

    /// Counts an attempt, or returns how long the client must wait before it.
    pub(super) fn begin(&mut self, address: IpAddr, claim: &str, now: Instant) -> Result<(), Duration> {
        self.check(address, claim, now)?;
        let pair = pair(address, claim);
        if !self.0.contains_key(&pair) {
            self.make_room(now);
        }
        let count = self.0.entry(pair).or_insert(Count { attempts: 0, since: now });
        if now >= count.since + WINDOW {
            *count = Count { attempts: 0, since: now };
        }
        count.attempts += 1;
        Ok(())
    }

    /// Removes the pair's count: its password was right.
    pub(super) fn succeed(&mut self, address: IpAddr, claim: &str) {
        self.0.remove(&pair(address, claim));
    }

    fn make_room(&mut self, now: Instant) {
        if self.0.len() < MOST {
            return;
        }
        self.0.retain(|_, count| now < count.since + WINDOW);
        if self.0.len() < MOST {
            return;
        }
        let mut pairs: HashMap<IpAddr, usize> = HashMap::new();
        self.0.keys().for_each(|(address, _)| *pairs.entry(*address).or_default() += 1);
        let busiest = pairs.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address);
        let of_busiest = self.0.iter().filter(|((address, _), _)| Some(*address) == busiest);
        if let Some(pair) = of_busiest.min_by_key(|(_, count)| (count.attempts, count.since)).map(|(pair, _)| *pair) {
            self.0.remove(&pair);
        }
    }
}

fn pair(address: IpAddr, claim: &str) -> Pair {
    (network(address), digest(claim))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn address(last: u16) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, last, 0, 0, 0, 1))
    }

    #[test]
    fn a_pair_waits_when_it_has_tried_too_often_and_no_other_one_does() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..MOST_ATTEMPTS {
            assert_eq!(attempts.begin(address(1), "ann", now), Ok(()));
        }
        let neighbour = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9));
        assert_eq!(attempts.begin(neighbour, "ann", now), Err(WINDOW), "a network is one address");
        assert_eq!(attempts.begin(address(1), "bob", now), Ok(()), "behind the same proxy");
        assert_eq!(attempts.begin(address(2), "ann", now), Ok(()));
        attempts.succeed(address(1), "bob");
        assert_eq!(attempts.begin(address(1), "ann", now), Err(WINDOW), "another's success does not help");
        assert_eq!(attempts.begin(address(1), "ann", now + WINDOW), Ok(()));
    }

    #[test]
    fn the_right_password_ends_the_count() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..3 * MOST_ATTEMPTS {
            assert_eq!(attempts.begin(address(1), "ann", now), Ok(()));
            attempts.succeed(address(1), "ann");
        }
    }

    #[test]
    fn a_flood_of_names_displaces_itself_only() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..MOST_ATTEMPTS {
            assert_eq!(attempts.begin(address(1), "ann", now), Ok(()));
            assert_eq!(attempts.begin(address(2), "ann", now), Ok(()));
        }
        for name in 0..2 * MOST {
            assert_eq!(attempts.begin(address(1), &name.to_string(), now), Ok(()));
        }
        assert_eq!(attempts.0.len(), MOST);
        for last in [1, 2] {
            assert_eq!(attempts.begin(address(last), "ann", now), Err(WINDOW), "{last}");
        }
    }
}
