//! Refusals on the network, compared with the engines' counters: the checker "refusals are counted".
//!
//! Every refusal that is sent to a client must have been counted once, in the class that its error fields imply, and a
//! pool reported as full must have had all its servers. Must not know how the engines count; the mapping from error
//! fields to classes here is independent of theirs.

use weir_admin::Refusals;
use weir_pgwire::backend::error_fields;

/// How the log's line about a refusal begins.
pub(crate) const LOGGED: &str = "pooler error: ";

/// The cause that a refusal's error fields imply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    PoolFull,
    ServerSlow,
    LimitReached,
    /// An error of a server or of the network, or one about the client.
    DownOrOther,
}

/// Refusals sent, by class, and refusals logged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    full: u64,
    slow: u64,
    limit: u64,
    rest: u64,
    /// Requests that failed because of a limit on statements, which are not logged.
    requests: u64,
    logged: u64,
}

impl Refused {
    /// A client is refused.
    pub(crate) fn count(&mut self, class: Class) {
        *match class {
            Class::PoolFull => &mut self.full,
            Class::ServerSlow => &mut self.slow,
            Class::LimitReached => &mut self.limit,
            Class::DownOrOther => &mut self.rest,
        } += 1;
    }

    /// One of a client's requests is refused.
    pub(crate) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// The log reports a refusal.
    pub(crate) fn logged(&mut self) {
        self.logged += 1;
    }

    /// A difference from the sum of all engines' counters, if there is one. A client in the middle of a server's
    /// message is disconnected without an error, and counted all the same.
    pub(crate) fn differs(&self, counted: &Refusals) -> Option<String> {
        let fits = counted.pool_full >= self.full
            && counted.server_slow >= self.slow
            && counted.limit_reached >= self.limit + self.requests
            && counted.server_down + counted.other >= self.rest
            && counted.total() == self.logged + self.requests;
        (!fits).then(|| format!("{self:?}, but {counted:?}"))
    }
}

/// The class and the message of a fatal error; `None` if the bytes are not one.
pub(crate) fn classify(bytes: &[u8]) -> Option<(Class, String)> {
    let [b'E', _, _, _, _, body @ ..] = bytes else { return None };
    let fields = error_fields(body).ok()?;
    let field = |code| String::from_utf8_lossy(fields.get(code).unwrap_or_default());
    if field(b'S') != "FATAL" {
        return None;
    }
    let paused = field(b'D').starts_with("The pool is paused.");
    let (message, sqlstate) = (field(b'M'), field(b'C'));
    let class = match (&*message, &*sqlstate) {
        ("query_wait_timeout", "57014") if paused => Class::DownOrOther,
        ("query_wait_timeout", "57014") => Class::PoolFull,
        ("query timeout", _) | (_, "08001") => Class::ServerSlow,
        (_, "53300") => Class::LimitReached,
        (_, "54000") if !message.starts_with("message too long") => Class::LimitReached,
        _ => Class::DownOrOther,
    };
    Some((class, message.into_owned()))
}

/// Whether an error says that a server is away: it can't be reached, does not answer, or starts up or shuts down. With
/// `on_server_down = "wait"` no client may get it.
pub(crate) fn names_an_away_server(message: &str) -> bool {
    let away = [
        "could not connect to server",
        "did not finish the login within server_connect_timeout",
        "server closed the connection during the login",
        "the database system is starting up",
        "the database system is shutting down",
    ];
    away.iter().any(|words| message.contains(words))
}

/// Whether the bytes refuse a request while the connection continues.
pub(crate) fn refuses_a_request(bytes: &[u8]) -> bool {
    let [b'E', _, _, _, _, body @ ..] = bytes else { return false };
    let Ok(fields) = error_fields(body) else { return false };
    fields.get(b'S') == Some(&b"ERROR"[..]) && fields.get(b'C') == Some(&b"54000"[..])
}

#[cfg(test)]
mod tests {
    use weir_pgwire::{ErrorFields, put_back};

    use super::*;

    fn error(severity: &str, sqlstate: &str, message: &str, detail: Option<&str>) -> Option<Class> {
        let mut bytes = Vec::new();
        put_back::error(&mut bytes, &ErrorFields { severity, sqlstate, message, detail, hint: None });
        classify(&bytes).map(|(class, _)| class)
    }

    #[test]
    fn each_error_has_its_class() {
        assert_eq!(error("FATAL", "57014", "query_wait_timeout", None), Some(Class::PoolFull));
        assert_eq!(
            error("FATAL", "57014", "query_wait_timeout", Some("The pool is paused. x")),
            Some(Class::DownOrOther)
        );
        assert_eq!(error("FATAL", "53300", "query_wait_timeout", None), Some(Class::LimitReached));
        assert_eq!(error("FATAL", "08001", "query_wait_timeout", None), Some(Class::ServerSlow));
        assert_eq!(error("FATAL", "57014", "query timeout", None), Some(Class::ServerSlow));
        assert_eq!(error("FATAL", "08006", "Connection refused", None), Some(Class::DownOrOther));
        assert_eq!(error("ERROR", "22012", "division by zero", None), None);
        assert_eq!(classify(b"Z\0\0\0\x05I"), None);
    }

    #[test]
    fn an_error_of_a_server_that_is_away_is_recognised_among_those_of_other_hosts() {
        assert!(names_an_away_server(
            "10.0.0.1: could not connect to server 10.0.0.1: refused; 10.0.0.2: wrong password"
        ));
        assert!(!names_an_away_server("query_wait_timeout") && !names_an_away_server("password authentication failed"));
    }

    #[test]
    fn a_refusal_that_is_not_counted_or_counted_twice_is_caught() {
        let mut refused = Refused::default();
        refused.count(Class::PoolFull);
        refused.logged();
        let counted = Refusals { pool_full: 1, ..Refusals::default() };
        assert_eq!(refused.differs(&counted), None);
        assert!(refused.differs(&Refusals::default()).is_some());
        assert!(refused.differs(&Refusals { pool_full: 2, ..counted }).is_some());
        assert!(refused.differs(&Refusals { server_down: 1, ..Refusals::default() }).is_some());
    }
}
