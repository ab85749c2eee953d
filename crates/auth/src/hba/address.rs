//! The addresses of a rule: a network of either family, or all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::fields::shown;

/// The addresses that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Any,
    /// Addresses that equal `base` in the bits of `mask`; all other bits of `base` are 0.
    V4 {
        base: u32,
        mask: u32,
    },
    /// Like `V4`.
    V6 {
        base: u128,
        mask: u128,
    },
}

impl Address {
    /// `address/bits`.
    pub(super) fn with_bits(address: &str, bits: &str) -> Result<Address, String> {
        let base = number(address)?;
        let width: u32 = if base.is_ipv4() { 32 } else { 128 };
        let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|&bits: &u32| digits && bits <= width);
        let bits = bits.ok_or_else(|| format!("a number from 0 to {width} must follow the / of an address"))?;
        Ok(Address::new(base, bits))
    }

    /// An address whose mask is in a separate column.
    pub(super) fn with_mask(base: IpAddr, mask: &str) -> Result<Address, String> {
        let wrong = || format!("{} is no mask for the address before it: write ADDRESS/BITS", shown(mask));
        match (base, mask.parse().map_err(|_| wrong())?) {
            (IpAddr::V4(base), IpAddr::V4(mask)) => Ok(Address::v4(base.to_bits(), mask.to_bits())),
            (IpAddr::V6(base), IpAddr::V6(mask)) => Ok(Address::v6(base.to_bits(), mask.to_bits())),
            _ => Err(wrong()),
        }
    }

    fn new(base: IpAddr, bits: u32) -> Address {
        match base {
            IpAddr::V4(base) => Address::v4(base.to_bits(), u32::MAX.checked_shl(32 - bits).unwrap_or(0)),
            IpAddr::V6(base) => Address::v6(base.to_bits(), u128::MAX.checked_shl(128 - bits).unwrap_or(0)),
        }
    }

    /// As in PostgreSQL, address bits outside the mask are ignored.
    fn v4(base: u32, mask: u32) -> Address {
        Address::V4 { base: base & mask, mask }
    }

    /// A network of IPv4-mapped IPv6 addresses becomes the IPv4 network: clients' addresses are compared in the IPv4
    /// form.
    fn v6(base: u128, mask: u128) -> Address {
        const MAPPED: u128 = u128::MAX << 32;
        match Ipv6Addr::from_bits(base).to_ipv4_mapped() {
            Some(base) if mask & MAPPED == MAPPED => Address::v4(base.to_bits(), (mask & !MAPPED) as u32),
            _ => Address::V6 { base: base & mask, mask },
        }
    }

    /// `all`, `address/bits`, or an address and a mask that is no prefix.
    pub(super) fn shown(&self) -> String {
        let with = |base: IpAddr, mask: IpAddr, prefix: Option<u32>| match prefix {
            Some(bits) => format!("{base}/{bits}"),
            None => format!("{base} {mask}"),
        };
        match *self {
            Address::Any => "all".to_owned(),
            Address::V4 { base, mask } => {
                let prefix = (mask.leading_ones() == mask.count_ones()).then_some(mask.count_ones());
                with(Ipv4Addr::from_bits(base).into(), Ipv4Addr::from_bits(mask).into(), prefix)
            }
            Address::V6 { base, mask } => {
                let prefix = (mask.leading_ones() == mask.count_ones()).then_some(mask.count_ones());
                with(Ipv6Addr::from_bits(base).into(), Ipv6Addr::from_bits(mask).into(), prefix)
            }
        }
    }

    /// Whether `from` matches.
    pub(super) fn holds(&self, from: IpAddr) -> bool {
        match (self, from.to_canonical()) {
            (Address::Any, _) => true,
            (Address::V4 { base, mask }, IpAddr::V4(from)) => from.to_bits() & mask == *base,
            (Address::V6 { base, mask }, IpAddr::V6(from)) => from.to_bits() & mask == *base,
            _ => false,
        }
    }
}

/// A numeric address.
pub(super) fn number(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!("{} is no address in numbers, and host names are not supported: write ADDRESS/BITS or all", shown(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Address {
        let (address, bits) = text.split_once('/').unwrap();
        Address::with_bits(address, bits).unwrap()
    }

    fn holds(address: &Address, from: &str) -> bool {
        address.holds(from.parse().unwrap())
    }

    #[test]
    fn a_network_holds_the_addresses_that_share_its_bits() {
        let table = [
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("199.199.199.199/32", "199.199.199.199", true),
            ("199.199.199.199/32", "199.199.199.198", false),
            ("128.0.0.0/1", "254.1.1.1", true),
            ("128.0.0.0/1", "127.1.1.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "face::1", true),
            ("::/0", "1.2.3.4", false),
            ("ff20::/12", "ff22:3::1", true),
            ("ff20::/12", "ff32:3::1", false),
            ("::1/128", "::1", true),
            ("::1/128", "::2", false),
        ];
        for (rule, from, expected) in table {
            assert_eq!(holds(&network(rule), from), expected, "{rule} {from}");
        }
    }

    #[test]
    fn bits_beyond_the_mask_do_not_count() {
        assert_eq!(network("192.168.1.5/24"), network("192.168.1.0/24"));
        assert_eq!(network("fe80::1/10"), network("fe80::/10"));
    }

    #[test]
    fn mapped_addresses_are_the_ipv4_addresses_that_they_map() {
        assert_eq!(network("::ffff:10.0.0.0/104"), network("10.0.0.0/8"));
        assert_eq!(network("::ffff:0.0.0.0/96"), network("0.0.0.0/0"));
        assert!(holds(&network("10.0.0.0/8"), "::ffff:10.1.2.3"));
        let mask = "ffff:ffff:ffff:ffff:ffff:ffff:ff00:0";
        assert_eq!(Address::with_mask("::ffff:10.0.0.0".parse().unwrap(), mask), Ok(network("10.0.0.0/8")));
        assert!(matches!(network("::ffff:10.0.0.0/95"), Address::V6 { .. }));
    }

    #[test]
    fn a_mask_may_be_a_separate_field_and_need_not_be_a_prefix() {
        let mask = |base: &str, mask| Address::with_mask(base.parse().unwrap(), mask);
        assert_eq!(mask("127.0.0.0", "255.255.255.0"), Ok(network("127.0.0.0/24")));
        assert_eq!(mask("ff20::", "fff0::"), Ok(network("ff20::/12")));
        let odd = mask("10.0.0.7", "255.0.0.255").unwrap();
        assert!(holds(&odd, "10.9.9.7") && !holds(&odd, "10.9.9.8"));
        for (base, wrong) in [("10.0.0.0", "ffff::"), ("ff20::", "255.0.0.0"), ("10.0.0.0", "24"), ("10.0.0.0", "md5")]
        {
            assert!(mask(base, wrong).unwrap_err().contains("is no mask"), "{base} {wrong}");
        }
    }

    #[test]
    fn an_invalid_network_is_refused() {
        for (address, bits) in [("10.0.0.0", "33"), ("::", "129"), ("10.0.0.0", ""), ("10.0.0.0", "+8"), ("::", "-1")] {
            assert!(Address::with_bits(address, bits).unwrap_err().contains("must follow the /"), "{address}/{bits}");
        }
        for name in ["example.org", ".example.org", "10.0.0", "10.0.0.256", "fe80::1%eth0", "localhost", "010.0.0.1"] {
            assert!(number(name).unwrap_err().contains("host names are not supported"), "{name}");
        }
    }
}
