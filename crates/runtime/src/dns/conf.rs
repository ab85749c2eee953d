//! The system's configuration of look-ups: resolv.conf (resolv.conf(5)) and the hosts file (hosts(5)).
//!
//! Owns the parsing of both texts, and the search list. Opens no file.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// glibc's own limits.
const MAX_SERVERS: usize = 3;
const MAX_SEARCH: usize = 6;
const MAX_NDOTS: usize = 15;
const MAX_ATTEMPTS: u32 = 5;
/// The longest timeout, in seconds. A look-up occupies a helper thread, so a longer timeout would delay all others.
const MAX_TIMEOUT: u64 = 5;

/// The settings of resolv.conf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Conf {
    pub(crate) servers: Vec<SocketAddr>,
    search: Vec<String>,
    ndots: usize,
    /// The timeout for each server.
    pub(crate) timeout: Duration,
    /// How often each server is tried.
    pub(crate) attempts: u32,
}

impl Conf {
    /// Parses resolv.conf; skips what it does not understand, as the C library does. A server may have a port, as
    /// `[address]:port` (OpenBSD's form).
    pub(crate) fn parse(text: &str) -> Conf {
        let mut conf =
            Conf { servers: vec![], search: vec![], ndots: 1, timeout: Duration::from_secs(MAX_TIMEOUT), attempts: 2 };
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(words.next().and_then(server)),
                Some("domain" | "search") => conf.search = words.take(MAX_SEARCH).map(str::to_owned).collect(),
                Some("options") => words.for_each(|option| conf.option(option)),
                _ => {}
            }
        }
        conf.servers.truncate(MAX_SERVERS);
        conf
    }

    fn option(&mut self, option: &str) {
        let Some((name, Ok(value))) = option.split_once(':').map(|(name, value)| (name, value.parse::<u64>())) else {
            return;
        };
        match name {
            "ndots" => self.ndots = (value as usize).min(MAX_NDOTS),
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, MAX_TIMEOUT)),
            "attempts" => self.attempts = (value as u32).clamp(1, MAX_ATTEMPTS),
            _ => {}
        }
    }

    /// The full names to query for a name, in order.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let completed = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let mut all = vec![name.to_owned()];
        if name.matches('.').count() >= self.ndots {
            all.extend(completed);
        } else {
            all.splice(0..0, completed);
        }
        all
    }
}

fn server(text: &str) -> Option<SocketAddr> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    let (address, port) = bracketed.map_or((text, Some(53)), |(address, port)| (address, port.parse().ok()));
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port?))
}

/// Whether the hosts file contains a name.
pub(crate) fn hosts_have(text: &str, name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let names = text.lines().flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace().skip(1));
    names.into_iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_read_as_its_manual_says() {
        let conf = Conf::parse(
            "# comment\nnameserver 10.0.0.1 ; near\nnameserver ::1\nnameserver nonsense\n\
             nameserver [127.0.0.1]:5353\nnameserver 10.0.0.4\nsearch a.example b.example\n\
             options ndots:2 timeout:99 attempts:1 rotate",
        );
        let servers = ["10.0.0.1:53", "[::1]:53", "127.0.0.1:5353"].map(|s| s.parse().unwrap());
        assert_eq!(conf.servers, servers);
        assert_eq!((conf.timeout, conf.attempts), (Duration::from_secs(5), 1));
        assert_eq!(conf.candidates("db"), ["db.a.example", "db.b.example", "db"]);
        assert_eq!(conf.candidates("a.b.c"), ["a.b.c", "a.b.c.a.example", "a.b.c.b.example"]);
        assert_eq!(conf.candidates("db."), ["db."]);
    }

    #[test]
    fn the_hosts_file_lists_names_behind_addresses() {
        let text = "127.0.0.1 localhost\n10.0.0.1 Db.Example db # old: gone\n";
        assert!(hosts_have(text, "db.example") && hosts_have(text, "db") && hosts_have(text, "localhost."));
        assert!(!hosts_have(text, "gone") && !hosts_have(text, "10.0.0.1"));
    }
}
