//! The last lines of the log, for those who look from elsewhere: which are kept, and which of them a reader selects.
//!
//! Bounded in bytes: the oldest lines go first. Lines about clients without a login have bytes of their own, so that
//! they displace no others; of them the older half of the address with the most goes, and is counted in a line that
//! stays. Pure: the runtime fills the list, under a lock of its own.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// The levels by rank, the least first, as the log names them in JSON.
pub const LOG_LEVELS: [&str; 6] = ["noise", "debug", "log", "warning", "error", "fatal"];

/// Bytes of the lines that are kept, and of those about clients without a login.
const MOST_BYTES: usize = 640 << 10;
const MOST_OF_STRANGERS: usize = 192 << 10;
/// What the allocator takes for a line's texts at most, besides their length.
const ALLOCATED: usize = 24;
/// The list has room for an eighth more lines than it has, and for this many.
const ROOM: usize = 64;

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogLine {
    /// The line's number since the start; the first is 1.
    pub number: u64,
    /// When the line was written: microseconds since 1970.
    pub at: u64,
    /// The rank of the line's level in [`LOG_LEVELS`].
    pub rank: u8,
    /// `client` or `server`, and the peer's number in SHOW CLIENTS and SHOW SERVERS; none for the process.
    pub peer: Option<(&'static str, u64)>,
    /// Whether the peer has logged in.
    pub logged_in: bool,
    /// All texts, one after the other: an allocation of their length.
    texts: Box<str>,
    /// Where the first three end.
    ends: [u32; 3],
}

/// The texts of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogTexts<'a> {
    /// The peer's pool; empty for the process.
    pub database: &'a str,
    /// The peer's user; empty for the process.
    pub user: &'a str,
    /// The peer's address; empty for the process.
    pub address: &'a str,
    /// What the line says.
    pub text: &'a str,
}

/// The lines that a reader wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogQuery {
    /// The lowest rank.
    pub rank: u8,
    /// Only lines about this pool.
    pub pool: Option<String>,
    /// Only lines about the client with this number.
    pub client: Option<u64>,
    /// Only lines with this text in any field, in any case.
    pub search: String,
    /// Only lines after the line with this number.
    pub after: u64,
    /// Only lines before the line with this number.
    pub before: Option<u64>,
    /// The most lines: the last ones.
    pub most: usize,
}

/// The lines for a reader, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogPage {
    /// The lines that the reader wants.
    pub lines: Vec<LogLine>,
    /// The number of the last line, wanted or not: where a reader continues.
    pub last: u64,
    /// The number of the oldest line that is kept.
    pub oldest: u64,
}

/// The last lines.
#[derive(Debug, Default)]
pub struct RecentLog {
    lines: Lines,
    strangers: Strangers,
    last: u64,
}

/// Lines in the order of their numbers.
#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<LogLine>,
    bytes: usize,
}

/// Lines about clients without a login.
#[derive(Debug, Default)]
struct Strangers {
    lines: Lines,
    /// How many lines a line stands for, by its number, if it only counts them.
    left_out: HashMap<u64, u64>,
}

impl Lines {
    fn push(&mut self, line: LogLine) {
        self.bytes += line.bytes();
        if self.lines.len() == self.lines.capacity() {
            self.lines.reserve_exact(self.lines.len() / 8 + ROOM);
        }
        self.lines.push_back(line);
    }

    fn pop_front(&mut self) -> Option<LogLine> {
        let line = self.lines.pop_front()?;
        self.bytes -= line.bytes();
        Some(line)
    }

    /// The lines after the line with this number, the newest first.
    fn newest_first(&self, after: u64) -> impl Iterator<Item = &LogLine> {
        let skipped = self.lines.partition_point(|line| line.number <= after);
        self.lines.iter().skip(skipped).rev()
    }
}

impl Strangers {
    fn push(&mut self, line: LogLine) {
        self.lines.push(line);
        if self.lines.bytes > MOST_OF_STRANGERS {
            self.make_room();
        }
    }

    /// Removes an eighth of the lines at least, so that a line costs a look at few others however many addresses there
    /// are: of the addresses with the most, the older half but for one that counts them; then the oldest.
    fn make_room(&mut self) {
        let mut origins: HashMap<IpAddr, (usize, usize)> = HashMap::new();
        for line in &self.lines.lines {
            let (bytes, count) = origins.entry(origin(line.texts().address)).or_default();
            (*bytes, *count) = (*bytes + line.bytes(), *count + 1);
        }
        let mut busiest: Vec<_> = origins.into_iter().filter(|(_, (_, count))| *count >= 4).collect();
        busiest.sort_unstable_by_key(|(_, (bytes, _))| Reverse(*bytes));
        let (wanted, mut removed) = (self.lines.lines.len() / 8, 0);
        // How many lines of each address are still to go, and how many lines those stand for that are gone.
        let mut halved: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (address, (_, count)) in busiest {
            if removed < wanted {
                removed += count / 2 - 1;
                halved.insert(address, (count / 2, 0));
            }
        }
        for mut line in std::mem::take(&mut self.lines).lines {
            if let Some((left, merged)) = halved.get_mut(&origin(line.texts().address)).filter(|(left, _)| *left > 0) {
                *left -= 1;
                *merged += self.left_out.remove(&line.number).unwrap_or(1);
                if *left > 0 {
                    continue;
                }
                let text = format!("{merged} earlier lines about clients of this address without a login are left out");
                line = LogTexts { address: line.texts().address, text: &text, ..LogTexts::default() }.of(line.clone());
                self.left_out.insert(line.number, *merged);
            }
            self.lines.push(line);
        }
        while self.lines.bytes > MOST_OF_STRANGERS / 8 * 7 {
            let Some(gone) = self.lines.pop_front() else { return };
            self.left_out.remove(&gone.number);
        }
    }
}

/// The address of a peer; one that is not known counts as the same. An IPv6 network counts as one.
fn origin(address: &str) -> IpAddr {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V6(ip)) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        Ok(ip) => ip,
        Err(_) => IpAddr::from([0; 4]),
    }
}

impl LogLine {
    /// A line about the process, without a number yet.
    pub fn new(at: u64, rank: u8, texts: LogTexts<'_>) -> LogLine {
        texts.of(LogLine { at, rank, ..LogLine::default() })
    }

    /// The line's texts.
    pub fn texts(&self) -> LogTexts<'_> {
        let [database, user, address] = self.ends.map(|end| end as usize);
        LogTexts {
            database: &self.texts[..database],
            user: &self.texts[database..user],
            address: &self.texts[user..address],
            text: &self.texts[address..],
        }
    }

    /// What the line takes, with its share of the list's free room.
    fn bytes(&self) -> usize {
        size_of::<LogLine>() / 8 * 9 + ALLOCATED + self.texts.len()
    }
}

impl LogTexts<'_> {
    /// A line with these texts in place of its own.
    fn of(self, line: LogLine) -> LogLine {
        let mut texts = String::with_capacity(self.all().iter().map(|text| text.len()).sum());
        let mut ends = [0; 3];
        for (number, text) in self.all().into_iter().enumerate() {
            texts.push_str(text);
            if let Some(end) = ends.get_mut(number) {
                *end = texts.len() as u32;
            }
        }
        LogLine { texts: texts.into(), ends, ..line }
    }

    fn all(&self) -> [&str; 4] {
        [self.database, self.user, self.address, self.text]
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
        line.texts().all().into_iter().any(|text| text.to_lowercase().contains(&search))
    }
}

/// Whether a line is about a pool: of one of its peers, or of the process with the pool's name in front, as in
/// `app/owner: health: …` or `pool app was changed …`.
fn is_about(line: &LogLine, pool: &str) -> bool {
    let named = |rest: Option<&str>, end: char| rest.is_some_and(|rest| rest.starts_with(end));
    let LogTexts { database, text, .. } = line.texts();
    match line.peer {
        Some(_) => database == pool,
        None => {
            named(text.strip_prefix(pool), '/')
                || named(text.strip_prefix("pool ").and_then(|text| text.strip_prefix(pool)), ' ')
        }
    }
}

impl RecentLog {
    /// Adds a line; gives it its number.
    pub fn push(&mut self, mut line: LogLine) {
        self.last += 1;
        line.number = self.last;
        if line.peer.is_some() && !line.logged_in {
            return self.strangers.push(line);
        }
        self.lines.push(line);
        while self.lines.bytes > MOST_BYTES && self.lines.pop_front().is_some() {}
    }

    /// The lines that a reader wants. Costs a look at all that are kept.
    pub fn select(&self, query: &LogQuery) -> LogPage {
        let oldest = [&self.lines, &self.strangers.lines].into_iter().filter_map(|lines| lines.lines.front());
        let oldest = oldest.map(|line| line.number).min().unwrap_or(self.last + 1);
        let mut known = self.lines.newest_first(query.after).peekable();
        let mut strangers = self.strangers.lines.newest_first(query.after).peekable();
        let newest_first = std::iter::from_fn(|| match (known.peek(), strangers.peek()) {
            (Some(one), Some(other)) if one.number < other.number => strangers.next(),
            (None, _) => strangers.next(),
            _ => known.next(),
        });
        let wanted = newest_first.filter(|line| query.wants(line)).take(query.most);
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
        let line = LogLine { rank, peer, logged_in: true, ..LogLine::default() };
        LogTexts { database, text, ..LogTexts::default() }.of(line)
    }

    fn numbers(log: &RecentLog, query: &LogQuery) -> Vec<u64> {
        log.select(query).lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn lines_are_selected_by_level_pool_client_and_text() {
        let log = log([
            line(2, 0, "", "process up"),
            line(3, 0, "", "app/owner: health: stalled"),
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
        assert!(log.lines.bytes <= MOST_BYTES && log.lines.lines.len() > 100);
        let page = log.select(&LogQuery { most: 1, ..LogQuery::default() });
        assert_eq!((page.last, page.lines[0].number), (3_000, 3_000));
        assert_eq!(page.oldest as usize, 3_001 - log.lines.lines.len());
        assert_eq!(
            numbers(
                &log,
                &LogQuery { after: page.oldest + 5, before: Some(page.oldest + 7), most: 9, ..LogQuery::default() }
            ),
            [page.oldest + 6]
        );
    }

    #[test]
    fn a_flood_without_a_login_displaces_no_line_with_one_and_none_of_other_addresses() {
        let stranger = |host: u32, text: &str| {
            let address = format!("10.0.{}.{}:4000", host / 250, host % 250);
            let texts = LogTexts { database: "app", address: &address, text, ..LogTexts::default() };
            texts.of(LogLine { logged_in: false, ..line(2, 7, "", "") })
        };
        let mut log = log([line(2, 0, "", "process up"), line(2, 8, "app", "login attempt"), stranger(1, "one")]);
        (0..20_000).for_each(|number| log.push(stranger(2, &format!("flood {number}"))));
        assert!(log.strangers.lines.bytes <= MOST_OF_STRANGERS && log.strangers.left_out.len() == 1);
        let page = log.select(&LogQuery { most: 99_999, ..LogQuery::default() });
        let texts: Vec<&str> = page.lines.iter().map(|line| line.texts().text).collect();
        assert_eq!(texts[..3], ["process up", "login attempt", "one"]);
        let kept = page.lines.len() - 4;
        let left_out = format!("{} earlier lines about clients", 20_000 - kept);
        assert!(texts[3].starts_with(&left_out), "{} of {kept}", texts[3]);
        assert!(texts[4..].iter().all(|text| text.starts_with("flood")));
        assert!(page.lines.is_sorted_by_key(|line| line.number));
        // From many addresses it displaces itself too.
        (10..20_000).for_each(|host| log.push(stranger(host, "flood")));
        assert!(log.strangers.lines.bytes <= MOST_OF_STRANGERS);
        assert_eq!(numbers(&log, &LogQuery { most: 2, before: Some(3), ..LogQuery::default() }), [1, 2]);
    }
}
