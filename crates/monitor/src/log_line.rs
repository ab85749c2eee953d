//! A line of the log in JSON: the same object in the API and in events.

use serde::Serialize;
use weir_admin::{LOG_LEVELS, LogLine};
use weir_base::Printable;

use crate::figures::seconds_of;

/// A line of the log. Text from clients is escaped.
#[derive(Serialize)]
pub struct Line {
    number: u64,
    /// Seconds since 1970.
    at: f64,
    level: &'static str,
    /// `client`, `server`, or none for a line about the process.
    side: Option<&'static str>,
    /// The number of the client or server in the lists of clients and servers.
    id: Option<u64>,
    pool: String,
    user: String,
    address: String,
    text: String,
}

impl From<LogLine> for Line {
    fn from(of: LogLine) -> Line {
        let shown = |text: &str| Printable(text).to_string();
        let texts = of.texts();
        Line {
            number: of.number,
            at: seconds_of(of.at),
            level: LOG_LEVELS.get(usize::from(of.rank)).copied().unwrap_or_default(),
            side: of.peer.map(|(side, _)| side),
            id: of.peer.map(|(_, id)| id),
            pool: shown(texts.database),
            user: shown(texts.user),
            address: shown(texts.address),
            text: shown(texts.text),
        }
    }
}
