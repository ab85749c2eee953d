//! Refusals as the network sees them, against what the engines have counted: the checker "refusals are counted".
//!
//! Every refusal that is sent to a client must have been counted once, under the class that its words stand for, and a pool
//! that is said to be full must have had all its servers. Must not know how the engines count; the table of words here is
//! its own.

use weir_admin::Refusals;
use weir_pgwire::backend::error_fields;

/// How the log's line about a refusal begins.
pub(crate) const LOGGED: &str = "pooler error: ";

/// What a refusal says that lies behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    PoolFull,
    ServerSlow,
    LimitReached,
    /// The words of a server, of the network, or about the client.
    DownOrOther,
}

/// What was told, and how often the log said so.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    full: u64,
    slow: u64,
    limit: u64,
    rest: u64,
    /// Requests that failed because of a limit on statements, which the log does not repeat.
    requests: u64,
    logged: u64,
}

impl Refused {
    /// A client is told this.
    pub(crate) fn told(&mut self, says: Says) {
        *match says {
            Says::PoolFull => &mut self.full,
            Says::ServerSlow => &mut self.slow,
            Says::LimitReached => &mut self.limit,
            Says::DownOrOther => &mut self.rest,
        } += 1;
    }

    /// A client is told that one of its requests is refused.
    pub(crate) fn told_of_a_request(&mut self) {
        self.requests += 1;
    }

    /// The log has a line.
    pub(crate) fn logged(&mut self, text: &str) {
        self.logged += u64::from(text.starts_with(LOGGED));
    }

    /// What does not add up with the engines' counters, all of them together. Whoever is in the middle of a server's message
    /// is cut off without a word, and counted all the same.
    pub(crate) fn differs(&self, counted: &Refusals) -> Option<String> {
        let fits = counted.pool_full >= self.full
            && counted.server_slow >= self.slow
            && counted.limit_reached >= self.limit + self.requests
            && counted.server_down + counted.other >= self.rest
            && counted.total() == self.logged + self.requests;
        (!fits).then(|| format!("{self:?}, but {counted:?}"))
    }
}

/// What bytes for a client say, if they are a fatal error, and its message.
pub(crate) fn says(bytes: &[u8]) -> Option<(Says, String)> {
    let [b'E', _, _, _, _, body @ ..] = bytes else { return None };
    let fields = error_fields(body).ok()?;
    let field = |code| String::from_utf8_lossy(fields.get(code).unwrap_or_default());
    if field(b'S') != "FATAL" {
        return None;
    }
    let paused = field(b'D').starts_with("The pool is paused.");
    let (message, sqlstate) = (field(b'M'), field(b'C'));
    let says = match (&*message, &*sqlstate) {
        ("query_wait_timeout", "57014") if paused => Says::DownOrOther,
        ("query_wait_timeout", "57014") => Says::PoolFull,
        ("query timeout", _) | (_, "08001") => Says::ServerSlow,
        (_, "53300") => Says::LimitReached,
        (_, "54000") if !message.starts_with("message too long") => Says::LimitReached,
        _ => Says::DownOrOther,
    };
    Some((says, message.into_owned()))
}

/// Whether bytes for a client say that a request of its is refused, and its connection goes on.
pub(crate) fn refuses_a_request(bytes: &[u8]) -> bool {
    let [b'E', _, _, _, _, body @ ..] = bytes else { return false };
    let Ok(fields) = error_fields(body) else { return false };
    fields.get(b'S') == Some(&b"ERROR"[..]) && fields.get(b'C') == Some(&b"54000"[..])
}

#[cfg(test)]
mod tests {
    use weir_pgwire::{ErrorFields, put_back};

    use super::*;

    fn error(severity: &str, sqlstate: &str, message: &str, detail: Option<&str>) -> Option<Says> {
        let mut bytes = Vec::new();
        put_back::error(&mut bytes, &ErrorFields { severity, sqlstate, message, detail, hint: None });
        says(&bytes).map(|(says, _)| says)
    }

    #[test]
    fn words_are_told_apart() {
        assert_eq!(error("FATAL", "57014", "query_wait_timeout", None), Some(Says::PoolFull));
        assert_eq!(
            error("FATAL", "57014", "query_wait_timeout", Some("The pool is paused. x")),
            Some(Says::DownOrOther)
        );
        assert_eq!(error("FATAL", "53300", "query_wait_timeout", None), Some(Says::LimitReached));
        assert_eq!(error("FATAL", "08001", "query_wait_timeout", None), Some(Says::ServerSlow));
        assert_eq!(error("FATAL", "57014", "query timeout", None), Some(Says::ServerSlow));
        assert_eq!(error("FATAL", "08006", "Connection refused", None), Some(Says::DownOrOther));
        assert_eq!(error("ERROR", "22012", "division by zero", None), None);
        assert_eq!(says(b"Z\0\0\0\x05I"), None);
    }

    #[test]
    fn a_refusal_that_is_not_counted_or_counted_twice_is_caught() {
        let mut refused = Refused::default();
        refused.told(Says::PoolFull);
        refused.logged("pooler error: query_wait_timeout");
        let counted = Refusals { pool_full: 1, ..Refusals::default() };
        assert_eq!(refused.differs(&counted), None);
        assert!(refused.differs(&Refusals::default()).is_some());
        assert!(refused.differs(&Refusals { pool_full: 2, ..counted }).is_some());
        assert!(refused.differs(&Refusals { server_down: 1, ..Refusals::default() }).is_some());
    }
}
