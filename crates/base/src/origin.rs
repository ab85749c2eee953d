//! The origin of clients without a login.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addr::ClientAddr;

/// The unit by which failed logins, and connections without a login, are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// An IPv4 address.
    V4(u32),
    /// The first half of an IPv6 address: a client usually has all addresses with the same first half.
    V6(u64),
    /// The operating system's user, over the Unix socket.
    Local(u32),
}

impl Origin {
    /// The origin of a client at this address.
    pub fn of(address: &ClientAddr) -> Origin {
        match address {
            ClientAddr::Tcp(from) => match from.ip().to_canonical() {
                IpAddr::V4(ip) => Origin::V4(ip.to_bits()),
                IpAddr::V6(ip) => Origin::V6((ip.to_bits() >> 64) as u64),
            },
            ClientAddr::Unix { uid, .. } => Origin::Local(*uid),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::V4(bits) => Ipv4Addr::from_bits(*bits).fmt(f),
            Origin::V6(half) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*half) << 64)),
            Origin::Local(uid) => write!(f, "user {uid} of this machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(&ClientAddr::Tcp(text.parse().unwrap()))
    }

    #[test]
    fn an_origin_is_an_address_or_half_of_a_long_one_or_a_local_user() {
        assert_eq!(origin("10.0.0.1:1"), origin("[::ffff:10.0.0.1]:2"));
        assert_ne!(origin("10.0.0.1:1"), origin("10.0.0.2:1"));
        assert_eq!(origin("[2001:db8::1]:1"), origin("[2001:db8::ffff:1]:1"));
        assert_ne!(origin("[2001:db8::1]:1"), origin("[2001:db8:0:1::1]:1"));
        let local = |uid| Origin::of(&ClientAddr::Unix { pid: 1, uid });
        assert!(local(5) == local(5) && local(5) != local(6));
        let shown = [origin("10.0.0.1:1"), origin("[2001:db8::1]:1"), local(5)].map(|origin| origin.to_string());
        assert_eq!(shown, ["10.0.0.1", "2001:db8::/64", "user 5 of this machine"]);
    }
}
