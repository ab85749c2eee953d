//! Limits attempts to log in: counts them by address and by user, in a table of bounded size.
//!
//! An attempt counts when it begins, so parallel attempts count, too; its success removes it. A user's limit is higher
//! than an address's: guesses from one address do not lock the user out elsewhere.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::admission::network;

/// Attempts of an address, and for a user, within [`WINDOW`].
const OF_ADDRESS: u32 = 10;
const FOR_USER: u32 = 50;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses and users that are counted; beyond that, the oldest are dropped.
const MOST: usize = 4096;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Counted {
    Address(IpAddr),
    User(String),
}

#[derive(Clone, Copy, Debug)]
struct Count {
    attempts: u32,
    since: Instant,
}

/// Recent attempts.
#[derive(Debug, Default)]
pub(super) struct Attempts(HashMap<Counted, Count>);

impl Attempts {
    /// Counts an attempt, or returns how long the client must wait before it. Without a user only the address counts.
    pub(super) fn begin(&mut self, address: IpAddr, user: Option<&str>, now: Instant) -> Result<(), Duration> {
        let both: Vec<_> = keys(address, user).collect();
        let waits = both.iter().filter_map(|(who, most)| {
            let count = self.0.get(who).filter(|count| now < count.since + WINDOW && count.attempts >= *most)?;
            Some(count.since + WINDOW - now)
        });
        if let Some(wait) = waits.max() {
            return Err(wait);
        }
        for (who, _) in both {
            self.make_room(now);
            let count = self.0.entry(who).or_insert(Count { attempts: 0, since: now });
            if now >= count.since + WINDOW {
                *count = Count { attempts: 0, since: now };
            }
            count.attempts += 1;
        }
        Ok(())
    }

    /// Removes the attempt from the counts: its password was right.
    pub(super) fn succeed(&mut self, address: IpAddr, user: Option<&str>) {
        for (who, _) in keys(address, user) {
            self.0.remove(&who);
        }
    }

    fn make_room(&mut self, now: Instant) {
        if self.0.len() < MOST {
            return;
        }
        self.0.retain(|_, count| now < count.since + WINDOW);
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, count)| count.since).map(|(who, _)| who.clone());
            if let Some(oldest) = oldest {
                self.0.remove(&oldest);
            }
        }
    }
}

fn keys(address: IpAddr, user: Option<&str>) -> impl Iterator<Item = (Counted, u32)> {
    let user = user.map(|user| (Counted::User(user.to_owned()), FOR_USER));
    [(Counted::Address(network(address)), OF_ADDRESS)].into_iter().chain(user)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn address(last: u16) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, last, 0, 0, 0, 1))
    }

    #[test]
    fn an_address_and_a_user_wait_when_they_have_tried_too_often() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..OF_ADDRESS {
            assert_eq!(attempts.begin(address(1), Some("ann"), now), Ok(()));
        }
        let neighbour = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9));
        assert_eq!(attempts.begin(neighbour, Some("bob"), now), Err(WINDOW));
        assert_eq!(attempts.begin(address(2), Some("ann"), now), Ok(()), "the user is not locked out by one address");
        for last in 3..100 {
            let _ = attempts.begin(address(last), Some("ann"), now);
        }
        assert!(attempts.begin(address(200), Some("ann"), now).is_err(), "many addresses are counted together");
        assert_eq!(attempts.begin(address(1), Some("ann"), now + WINDOW), Ok(()));
    }

    #[test]
    fn the_right_password_ends_the_count_and_the_table_is_bounded() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..3 * OF_ADDRESS {
            assert_eq!(attempts.begin(address(1), Some("ann"), now), Ok(()));
            attempts.succeed(address(1), Some("ann"));
        }
        for number in 0..3 * MOST as u16 {
            let _ = attempts.begin(address(number), Some(&number.to_string()), now);
        }
        assert!(attempts.0.len() <= MOST + 1);
    }
}
