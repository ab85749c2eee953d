//! How the system notices that the other end of a TCP connection has vanished, and what of it is for servers.

use weir_base::Span;

/// How the kernel detects that the other end of a connection has vanished. Zero: the kernel's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Keepalive {
    /// Whether keepalive is on.
    pub on: bool,
    /// Idle time before the first probe (TCP_KEEPIDLE).
    pub idle: Span,
    /// The interval between probes (TCP_KEEPINTVL).
    pub interval: Span,
    /// Unanswered probes before the connection fails (TCP_KEEPCNT).
    pub count: u32,
    /// How long sent bytes may stay unacknowledged (TCP_USER_TIMEOUT).
    pub user_timeout: Span,
    /// How long the host of a server may acknowledge nothing; zero: as the other fields say.
    pub server: Span,
    /// The size of each socket's kernel buffers, in bytes (SO_SNDBUF, SO_RCVBUF).
    pub buffer: u32,
}

impl Keepalive {
    /// The settings of connections to servers. TCP_USER_TIMEOUT is not among them: Linux also ends a connection by it whose
    /// other end reads nothing for as long, as a server does behind a lock (its window is zero), although its host is well.
    #[must_use]
    pub fn of_servers(self) -> Keepalive {
        const SECOND: u64 = 1_000_000;
        if !self.on || self.server.is_zero() {
            return self;
        }
        let or = |own: Span, usual: Span| if own.is_zero() { usual } else { own };
        let fifths = |count: u64| Span::from_secs((self.server.micros() * count / 5 / SECOND).max(1));
        Keepalive {
            idle: or(self.idle, fifths(2)),
            interval: or(self.interval, fifths(1)),
            count: if self.count == 0 { 3 } else { self.count },
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(server: u64, own: Keepalive) -> (u64, u64, u32, u64) {
        let of = Keepalive { on: true, server: Span::from_secs(server), ..own }.of_servers();
        let seconds = |span: Span| span.micros() / 1_000_000;
        (seconds(of.idle), seconds(of.interval), of.count, seconds(of.user_timeout))
    }

    #[test]
    fn the_last_probe_is_due_when_the_time_is_over_and_settings_of_all_connections_come_first() {
        assert_eq!(of(5, Keepalive::default()), (2, 1, 3, 0));
        assert_eq!(of(60, Keepalive::default()), (24, 12, 3, 0));
        assert_eq!(of(1, Keepalive::default()), (1, 1, 3, 0), "the system counts in seconds");
        let own = Keepalive { idle: Span::from_secs(30), user_timeout: Span::from_secs(9), ..Keepalive::default() };
        assert_eq!(of(5, own), (30, 1, 3, 9));
        assert_eq!(of(0, own), (30, 0, 0, 9));
        let off = Keepalive { server: Span::from_secs(5), ..Keepalive::default() };
        assert_eq!(off.of_servers(), off);
    }
}
