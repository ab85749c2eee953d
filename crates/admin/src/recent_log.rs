//! The last lines of the log, for those who look from elsewhere: which are kept, and which of them a reader selects.
//!
//! Bounded in bytes: the oldest lines go first. Pure: the runtime fills the list, under a lock of its own.

use std::collections::VecDeque;

/// The levels by rank, the least first, as the log names them in JSON.
pub const LOG_LEVELS: [&str; 6] = ["noise", "debug", "log", "warning", "error", "fatal"];

/// Bytes of all lines that are kept.
const MOST_BYTES: usize = 1 << 20;
/// What a line takes besides its texts.
const OWN_BYTES: usize = 160;

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogLine {
    /// Its number since the start; the first is 1.
    pub number: u64,
    /// Microseconds since 1970.
    pub at: u64,
    /// The rank of its level in [`LOG_LEVELS`].
    pub rank: u8,
    /// `client` or `server`, and its number in SHOW CLIENTS and SHOW SERVERS; none for the process.
    pub peer: Option<(&'static str, u64)>,
    /// The peer's pool and user, and its address; empty for the process.
    pub database: String,
    /// See `database`.
    pub user: String,
    /// See `database`.
    pub address: String,
    /// What the line says.
    pub text: String,
}

/// The lines that a reader wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogQuery {
    /// The least rank.
    pub rank: u8,
    /// Only of this pool.
    pub pool: Option<String>,
    /// Only of the client with this number.
    pub client: Option<u64>,
    /// Only with this text in any field, in any case.
    pub search: String,
    /// Only later lines than that of this number.
    pub after: u64,
    /// Only earlier lines than that of this number.
    pub before: Option<u64>,
    /// The most lines: the last ones.
    pub most: usize,
}

/// The lines for a reader, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogPage {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// The number of the last line, wanted or not: where a reader continues.
    pub last: u64,
    /// The number of the oldest line that is kept.
    pub oldest: u64,
}

/// The last lines.
#[derive(Debug, Default)]
pub struct RecentLog {
    lines: VecDeque<LogLine>,
    bytes: usize,
    last: u64,
}

impl LogLine {
    fn bytes(&self) -> usize {
        OWN_BYTES + self.database.len() + self.user.len() + self.address.len() + self.text.len()
    }
}

impl LogQuery {
    fn wants(&self, line: &LogLine) -> bool {
        line.rank >= self.rank
            && line.number > self.after
            && self.before.is_none_or(|before| line.number < before)
            && self.pool.as_deref().is_none_or(|pool| is_about(line, pool))
            && self.client.is_none_or(|client| line.peer == Some(("client", client)))
            && (self.search.is_empty() || self.finds(line))
    }

    fn finds(&self, line: &LogLine) -> bool {
        let search = self.search.to_lowercase();
        [&line.text, &line.database, &line.user, &line.address]
            .into_iter()
            .any(|text| text.to_lowercase().contains(&search))
    }
}

/// Whether a line is about a pool: of one of its peers, or of the process with the pool's name in front, as in
/// `app/owner: health is …` or `pool app was changed …`.
fn is_about(line: &LogLine, pool: &str) -> bool {
    let named = |rest: Option<&str>, end: char| rest.is_some_and(|rest| rest.starts_with(end));
    match line.peer {
        Some(_) => line.database == pool,
        None => {
            named(line.text.strip_prefix(pool), '/')
                || named(line.text.strip_prefix("pool ").and_then(|text| text.strip_prefix(pool)), ' ')
        }
    }
}

impl RecentLog {
    /// Adds a line; gives it its number.
    pub fn push(&mut self, mut line: LogLine) {
        self.last += 1;
        line.number = self.last;
        self.bytes += line.bytes();
        self.lines.push_back(line);
        while self.bytes > MOST_BYTES {
            let Some(gone) = self.lines.pop_front() else { return };
            self.bytes -= gone.bytes();
        }
    }

    /// The lines that a reader wants. Costs a look at all that are kept.
    pub fn select(&self, query: &LogQuery) -> LogPage {
        // Numbers are without gaps, so the first wanted line is found at once.
        let oldest = self.lines.front().map_or(self.last + 1, |line| line.number);
        let skipped = query.after.saturating_add(1).saturating_sub(oldest) as usize;
        let wanted = self.lines.iter().skip(skipped).rev().filter(|line| query.wants(line)).take(query.most);
        let mut lines: Vec<LogLine> = wanted.cloned().collect();
        lines.reverse();
        LogPage { lines, last: self.last, oldest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: impl IntoIterator<Item = LogLine>) -> RecentLog {
        let mut log = RecentLog::default();
        lines.into_iter().for_each(|line| log.push(line));
        log
    }

    fn line(rank: u8, client: u64, database: &str, text: &str) -> LogLine {
        let peer = (client > 0).then_some(("client", client));
        LogLine { rank, peer, database: database.to_owned(), text: text.to_owned(), ..LogLine::default() }
    }

    fn numbers(log: &RecentLog, query: &LogQuery) -> Vec<u64> {
        log.select(query).lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn lines_are_selected_by_level_pool_client_and_text() {
        let log = log([
            line(2, 0, "", "process up"),
            line(3, 0, "", "app/owner: health is stalled"),
            line(2, 7, "app", "login attempt"),
            line(4, 8, "apple", "no such user"),
            line(2, 0, "", "pool app was changed by the control plane"),
        ]);
        let all = LogQuery { most: 99, ..LogQuery::default() };
        assert_eq!(numbers(&log, &all), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(&log, &LogQuery { rank: 3, ..all.clone() }), [2, 4]);
        assert_eq!(numbers(&log, &LogQuery { pool: Some("app".into()), ..all.clone() }), [2, 3, 5]);
        assert_eq!(numbers(&log, &LogQuery { client: Some(8), ..all.clone() }), [4]);
        assert_eq!(numbers(&log, &LogQuery { search: "LOGIN".into(), ..all.clone() }), [3]);
        assert_eq!(numbers(&log, &LogQuery { after: 3, ..all.clone() }), [4, 5]);
        assert_eq!(numbers(&log, &LogQuery { before: Some(4), most: 2, ..all }), [2, 3]);
    }

    #[test]
    fn bytes_are_bounded_and_numbers_go_on() {
        let log = log((0..3_000).map(|i| line(2, 0, "", &"x".repeat(i))));
        assert!(log.bytes <= MOST_BYTES && log.lines.len() > 100);
        let page = log.select(&LogQuery { most: 1, ..LogQuery::default() });
        assert_eq!((page.last, page.lines[0].number), (3_000, 3_000));
        assert_eq!(page.oldest as usize, 3_001 - log.lines.len());
        assert_eq!(
            numbers(
                &log,
                &LogQuery { after: page.oldest + 5, before: Some(page.oldest + 7), most: 9, ..LogQuery::default() }
            ),
            [page.oldest + 6]
        );
    }
}
