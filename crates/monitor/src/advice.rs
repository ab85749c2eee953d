//! Advice: which size a pool needs by Little's law, and what its signs say about the cause.
//!
//! Owns the arithmetic and the table of signs, as pure functions of measured figures. Little's law: if λ transactions
//! arrive a second and each holds a server for W seconds, λ·W servers are in use on average. So a pool needs the peak
//! of λ·W over minutes, and a quarter more for chance. A full pool hides its demand, since no more can arrive than are
//! served: then the law gives the pool's own size, the quarter is a step, and the next measurement says whether
//! another is needed.
//!
//! Only work that has ended counts, and no pool grows for which the law, with the quarter, needs no more servers than
//! there are: where clients wait although little ends, servers are held up, which `incident` explains.

use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_base::PoolMode;

use crate::words::span;

/// Servers beyond the average need, as a factor.
const ROOM: f64 = 1.25;
/// Waits that a client notices: half the time that a fast query takes over a network.
const FELT_MS: f64 = 5.0;
/// A pool is busy from this share of its size on.
const BUSY: f64 = 0.9;
/// From this share on, the time in transactions is mostly the application's.
const IDLE: f64 = 0.5;
/// Moments of the recent past that must be known before there is advice about waits: half a minute.
const ENOUGH: usize = 30;
/// Minutes that must be known before a pool is called too large: two days, less an hour for restarts.
const DAYS: usize = 2 * 24 * 60 - 60;
/// No pool is made smaller than this: two clients at the same time are common.
const LEAST: u32 = 2;

/// A pool's figures at one moment, or on average in a minute; `None` where a figure is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Transactions in a second.
    pub transactions_per_second: Option<f64>,
    /// Milliseconds of a transaction, on average.
    pub transaction_ms_mean: Option<f64>,
    /// Milliseconds of a wait for a server: 95 of 100 were shorter.
    pub wait_ms_p95: Option<f64>,
    /// Clients that wait for a server.
    pub clients_waiting: f64,
    /// Servers in use.
    pub servers_active: f64,
    /// Servers that are free.
    pub servers_idle: f64,
    /// Servers in a transaction whose client asks nothing.
    pub servers_idle_in_transaction: f64,
    /// Servers that clients keep for what they have left there.
    pub servers_pinned: f64,
    /// Of the time of transactions, the part without a query; 0 to 1.
    pub idle_in_transaction_share: Option<f64>,
}

/// The input of advice.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub pool: String,
    /// The most servers that it may have.
    pub size: u32,
    /// Its mode.
    pub mode: PoolMode,
    /// The last minutes, one moment a second.
    pub recent: Vec<Moment>,
    /// The last days, one moment a minute.
    pub past: Vec<Moment>,
    /// The free connections of the database, where they were requested.
    pub room: Option<FreeConnections>,
}

/// The limit of a database's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeConnections {
    /// The server's `max_connections`.
    pub max_connections: u32,
    /// How many more connections it would accept now from users who are not superusers.
    pub free: u32,
}

/// What to change, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    pool: String,
    sign: Sign,
    cause: &'static str,
    evidence: Map<String, Value>,
    /// Keys of the pool and their new values; none where no setting helps.
    change: Option<Map<String, Value>>,
    text: String,
}

/// The observed condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Sign {
    WaitsAndServersBusy,
    WaitsAndServersIdleInTransaction,
    WaitsAndServersPinned,
    WaitsAndDatabaseAtItsLimit,
    NobodyWaitsAndServersIdle,
}

/// The figures of Little's law at the busiest moment.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    per_second: f64,
    held_ms: f64,
    needed: f64,
}

/// The advice for a pool; mostly none.
pub fn advise(of: &Measured) -> Option<Advice> {
    waits(of).or_else(|| idles(of))
}

/// Advice for a pool whose clients wait.
fn waits(of: &Measured) -> Option<Advice> {
    if of.recent.len() < ENOUGH {
        return None;
    }
    let wait = mean(of.recent.iter().filter_map(|moment| moment.wait_ms_p95)).unwrap_or(0.0);
    let waiting = mean_of(&of.recent, |moment| moment.clients_waiting);
    // Either many waits have ended, or none ends and the queue does not move.
    if waiting < 0.5 || (wait < FELT_MS && waiting < 1.0) {
        return None;
    }
    let active = mean_of(&of.recent, |moment| moment.servers_active);
    let servers = active + mean_of(&of.recent, |moment| moment.servers_idle);
    let idle_share = mean(of.recent.iter().filter_map(|moment| moment.idle_in_transaction_share)).unwrap_or(0.0);
    let held_idle = mean_of(&of.recent, |moment| moment.servers_idle_in_transaction);
    let pinned = mean_of(&of.recent, |moment| moment.servers_pinned);
    let peak = peak(of.mode, of.recent.iter().chain(&of.past));
    // What ends while clients wait: servers that are blocked or held end nothing.
    let now =
        mean(of.recent.iter().filter(|moment| moment.clients_waiting >= 0.5).map(|moment| needed(of.mode, moment)));
    let mut evidence = figures(&[
        ("wait_ms_p95", wait),
        ("clients_waiting", waiting),
        ("size", of.size.into()),
        ("servers_active", active),
        ("servers", servers),
        ("servers_idle_in_transaction", held_idle),
        ("servers_pinned", pinned),
        ("idle_in_transaction_share", idle_share),
    ]);
    if let Some(FreeConnections { max_connections, free }) = of.room {
        evidence.extend(figures(&[("max_connections", max_connections.into()), ("connections_free", free.into())]));
    }
    let (sign, size) =
        if of.mode != PoolMode::Session && (idle_share >= IDLE || held_idle >= active * IDLE) && active > 0.0 {
            (Sign::WaitsAndServersIdleInTransaction, None)
        } else if active > 0.0 && pinned >= active * IDLE {
            (Sign::WaitsAndServersPinned, None)
        } else if servers < f64::from(of.size) * BUSY {
            (Sign::WaitsAndDatabaseAtItsLimit, None)
        } else if active >= f64::from(of.size) * BUSY && with_room(now.unwrap_or(0.0)) > of.size {
            match of.room {
                Some(FreeConnections { free: 0, .. }) => (Sign::WaitsAndDatabaseAtItsLimit, None),
                room => (Sign::WaitsAndServersBusy, Some(grown(of.size, peak.needed, room))),
            }
        } else {
            return None;
        };
    Some(Advice::new(of, sign, evidence, peak, size))
}

/// A larger size: what the law requires, but at least a quarter more, at most twice as many, and no more than the
/// database accepts.
fn grown(size: u32, needed: f64, room: Option<FreeConnections>) -> u32 {
    let step = with_room(f64::from(size));
    let wanted = with_room(needed).clamp(step, size.saturating_mul(2).max(step));
    room.map_or(wanted, |room| wanted.min(size.saturating_add(room.free)))
}

/// Advice for a pool whose clients did not wait for days, while most servers were unused.
fn idles(of: &Measured) -> Option<Advice> {
    let known = of.past.len();
    let no_waits = of.past.iter().chain(&of.recent).all(|moment| moment.clients_waiting < 0.5);
    let peak = peak(of.mode, &of.past);
    let size = with_room(peak.needed).max(LEAST);
    if known < DAYS || !no_waits || size > of.size / 2 {
        return None;
    }
    let most = of.past.iter().map(|moment| moment.servers_active).fold(0.0, f64::max);
    let evidence = figures(&[("days", known as f64 / 1440.0), ("size", of.size.into()), ("servers_active_most", most)]);
    Some(Advice::new(of, Sign::NobodyWaitsAndServersIdle, evidence, peak, Some(size)))
}

/// The busiest moment by the law. In session mode a client holds its server as long as it is connected, so the servers
/// in use are counted there.
fn peak<'a>(mode: PoolMode, moments: impl IntoIterator<Item = &'a Moment>) -> Peak {
    let of = |moment: &Moment| {
        let per_second = moment.transactions_per_second.unwrap_or(0.0);
        let held_ms = moment.transaction_ms_mean.unwrap_or(0.0);
        Peak { per_second, held_ms, needed: needed(mode, moment) }
    };
    moments.into_iter().map(of).max_by(|a, b| a.needed.total_cmp(&b.needed)).unwrap_or_default()
}

/// The servers that a moment needed. Long transactions that end together are work of the time before, so no more are
/// needed than were open.
fn needed(mode: PoolMode, moment: &Moment) -> f64 {
    let law = moment.transactions_per_second.zip(moment.transaction_ms_mean).map_or(0.0, |(rate, ms)| rate * ms / 1e3);
    if mode == PoolMode::Session { moment.servers_active } else { law.min(moment.servers_active + moment.servers_idle) }
}

fn with_room(needed: f64) -> u32 {
    (needed * ROOM).ceil() as u32
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn mean_of(moments: &[Moment], of: fn(&Moment) -> f64) -> f64 {
    mean(moments.iter().map(of)).unwrap_or(0.0)
}

/// A figure for a sentence: whole from ten on, with one decimal below ten where it is not zero.
fn in_words(value: f64) -> String {
    let digits = usize::from(value < 9.95);
    let text = format!("{value:.digits$}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn figures(named: &[(&str, f64)]) -> Map<String, Value> {
    named.iter().map(|(name, value)| ((*name).to_owned(), json!((value * 100.0).round() / 100.0))).collect()
}

impl Advice {
    /// The keys to change and their new values.
    pub fn into_change(self) -> Option<Map<String, Value>> {
        self.change
    }

    /// Whether the advice makes the pool larger: then the database's free connections matter.
    pub fn grows(&self) -> bool {
        self.sign == Sign::WaitsAndServersBusy
    }

    fn new(of: &Measured, sign: Sign, mut evidence: Map<String, Value>, peak: Peak, size: Option<u32>) -> Advice {
        evidence.extend(figures(&[
            ("peak_transactions_per_second", peak.per_second),
            ("peak_transaction_ms_mean", peak.held_ms),
            ("servers_needed", peak.needed),
        ]));
        let change = size.map(|size| [("size".to_owned(), json!(size))].into_iter().collect());
        let text = sign.text(of, &evidence, size.unwrap_or(of.size));
        Advice { pool: of.pool.clone(), sign, cause: sign.cause(), evidence, change, text }
    }
}

impl Sign {
    fn cause(self) -> &'static str {
        match self {
            Sign::WaitsAndServersBusy => "the pool is smaller than its load",
            Sign::WaitsAndServersIdleInTransaction => "the application holds servers without using them",
            Sign::WaitsAndServersPinned => "clients keep servers for what they have left there",
            Sign::WaitsAndDatabaseAtItsLimit => "the database gives the pool fewer servers than it may have",
            Sign::NobodyWaitsAndServersIdle => "the pool is larger than its load",
        }
    }

    fn text(self, of: &Measured, evidence: &Map<String, Value>, size: u32) -> String {
        let figure = |name: &str| evidence.get(name).and_then(Value::as_f64).map(in_words).unwrap_or_default();
        let time = |name: &str| span(evidence.get(name).and_then(Value::as_f64).unwrap_or(0.0) / 1e3);
        let counted = |name: &str, one: &str, many: &str| {
            let figure = figure(name);
            format!("{figure} {}", if figure == "1" { one } else { many })
        };
        let law = format!(
            "{} a second of {} need {}",
            counted("peak_transactions_per_second", "transaction", "transactions"),
            time("peak_transaction_ms_mean"),
            counted("servers_needed", "server", "servers")
        );
        let waits = format!(
            "{}, 95 % of them under {}",
            counted("clients_waiting", "client waits", "clients wait"),
            time("wait_ms_p95")
        );
        match self {
            Sign::WaitsAndServersBusy => format!(
                "{waits}, and {} of {} servers are busy. At the peak {law}. Try size {size}{}, and look again: when its \
                 CPU or disks are the limit, more servers make all of them slower.",
                figure("servers_active"),
                of.size,
                match of.room {
                    Some(room) => format!(", as the database has room for {} more connections", room.free),
                    None => format!(", if the database's max_connections allows {} more", size.saturating_sub(of.size)),
                }
            ),
            Sign::WaitsAndServersIdleInTransaction => format!(
                "{waits}, while {} of {} servers in use idle in transactions: of the time in transactions, the share {} \
                 is the application's own. A larger pool would be held as well. Find who does it: \
                 GET /api/v1/servers?pool={} shows each server's client; end transactions sooner, or set \
                 idle_transaction_timeout.",
                figure("servers_idle_in_transaction"),
                figure("servers_active"),
                figure("idle_in_transaction_share"),
                of.pool
            ),
            Sign::WaitsAndServersPinned => format!(
                "{waits}, while clients keep {} of {} servers in use between transactions, for session state that they have \
                 left there. Find which ones: GET /api/v1/servers?pool={} shows the kinds of state and the statements \
                 (pinned). Remove such state when it is not used, use pg_advisory_xact_lock() and ON COMMIT DROP, give that \
                 application a pool of its own in session mode, or raise the size.",
                figure("servers_pinned"),
                figure("servers_active"),
                of.pool
            ),
            Sign::WaitsAndDatabaseAtItsLimit if of.room.is_some() => format!(
                "{waits}, and {} of {} servers are busy, but the database has as many connections as its \
                 max_connections of {} allows. A larger pool could not log in. Make other pools smaller, see what else \
                 is connected (pg_stat_activity), or raise max_connections.",
                figure("servers_active"),
                of.size,
                figure("max_connections")
            ),
            Sign::WaitsAndDatabaseAtItsLimit => format!(
                "{waits}, and the pool has {} of the {} servers that are allowed: the database, or a limit that pools share, \
                 gives no more. A larger size changes nothing. Look at max_connections, at what else is connected, and \
                 in the log for failed logins.",
                figure("servers"),
                of.size
            ),
            Sign::NobodyWaitsAndServersIdle => format!(
                "Nobody has waited for {}, and no more than {} of {} servers were in use. At the peak {law}. With \
                 size {size} there is room for a quarter more, and the database has connections to spare for others.",
                counted("days", "day", "days"),
                figure("servers_active_most"),
                of.size
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of 20 that is full: 1,000 transactions of 20 ms a second.
    fn full() -> Moment {
        Moment {
            transactions_per_second: Some(1_000.0),
            transaction_ms_mean: Some(20.0),
            wait_ms_p95: Some(80.0),
            clients_waiting: 30.0,
            servers_active: 20.0,
            idle_in_transaction_share: Some(0.1),
            ..Moment::default()
        }
    }

    /// The pool of `full` with few transactions.
    fn quiet() -> Moment {
        Moment {
            transactions_per_second: Some(40.0),
            transaction_ms_mean: Some(50.0),
            wait_ms_p95: Some(0.0),
            servers_active: 2.0,
            servers_idle: 18.0,
            idle_in_transaction_share: Some(0.1),
            ..Moment::default()
        }
    }

    fn measured(recent: Moment, past: Moment, minutes: usize) -> Measured {
        let (recent, past) = (vec![recent; 300], vec![past; minutes]);
        Measured { pool: "app".into(), size: 20, mode: PoolMode::Transaction, recent, past, room: None }
    }

    #[test]
    fn each_sign_has_its_cause_and_a_size_only_where_a_size_helps() {
        let kept = Moment { servers_pinned: 16.0, ..full() };
        let held = Moment { idle_in_transaction_share: Some(0.8), servers_idle_in_transaction: 16.0, ..full() };
        let starved = Moment { servers_active: 7.0, ..full() };
        let stuck = Moment { wait_ms_p95: None, transactions_per_second: None, ..full() };
        let harmless = Moment { wait_ms_p95: Some(0.2), clients_waiting: 0.6, ..full() };
        let longer = Moment { transaction_ms_mean: Some(60.0), servers_active: 60.0, ..full() };
        let released = Moment { transactions_per_second: Some(4.0), transaction_ms_mean: Some(60_000.0), ..full() };
        let table = [
            ("full", full(), quiet(), 0, Some((Sign::WaitsAndServersBusy, Some(25)))),
            ("full, once needed more", full(), longer, 60, Some((Sign::WaitsAndServersBusy, Some(40)))),
            ("kept by clients", kept, quiet(), 0, Some((Sign::WaitsAndServersPinned, None))),
            ("held by the application", held, quiet(), 0, Some((Sign::WaitsAndServersIdleInTransaction, None))),
            ("not as many as allowed", starved, quiet(), 0, Some((Sign::WaitsAndDatabaseAtItsLimit, None))),
            ("nothing ends at all", stuck, quiet(), 0, None),
            ("little ends", Moment { transactions_per_second: Some(500.0), ..full() }, quiet(), 0, None),
            ("what was blocked ends together", quiet(), released, 60, None),
            ("waits that nobody feels", harmless, quiet(), 0, None),
            ("quiet for an hour", quiet(), quiet(), 60, None),
            ("quiet for three days", quiet(), quiet(), 4_320, Some((Sign::NobodyWaitsAndServersIdle, Some(3)))),
            ("quiet, but not always", quiet(), full(), 4_320, None),
            ("nothing is known", Moment::default(), Moment::default(), 0, None),
        ];
        for (name, recent, past, minutes, wanted) in table {
            let advice = advise(&measured(recent, past, minutes));
            let size = |advice: &Advice| Some(advice.change.as_ref()?.get("size")?.as_u64()? as u32);
            assert_eq!(advice.as_ref().map(|advice| (advice.sign, size(advice))), wanted, "{name}");
        }
    }

    #[test]
    fn the_evidence_has_the_figures_of_the_law_and_the_text_says_them() {
        let advice = advise(&measured(full(), quiet(), 0)).expect("advice");
        assert_eq!(advice.evidence["servers_needed"], json!(20.0));
        assert_eq!(
            (&advice.evidence["wait_ms_p95"], &advice.evidence["clients_waiting"]),
            (&json!(80.0), &json!(30.0))
        );
        assert!(advice.text.contains("1000 transactions a second of 20 ms need 20 servers"), "{}", advice.text);
        assert_eq!(serde_json::to_value(&advice).expect("JSON")["sign"], "waits_and_servers_busy");
    }

    #[test]
    fn a_pool_grows_no_further_than_its_database_has_room() {
        let asked = |free| Measured {
            room: Some(FreeConnections { max_connections: 100, free }),
            ..measured(full(), quiet(), 0)
        };
        let size = |free| advise(&asked(free)).expect("advice").change.map(|change| change["size"].clone());
        assert_eq!((size(50), size(3), size(0)), (Some(json!(25)), Some(json!(23)), None));
        let full = advise(&asked(0)).expect("advice");
        assert_eq!((full.sign, &full.evidence["connections_free"]), (Sign::WaitsAndDatabaseAtItsLimit, &json!(0.0)));
        assert!(full.text.contains("max_connections of 100 "), "{}", full.text);
        assert!(advise(&asked(3)).expect("advice").text.contains("room for 3 more"));
    }

    #[test]
    fn a_sentence_has_no_more_digits_than_one_reads() {
        assert_eq!([244.51, 10.94, 9.96, 2.57, 1.03, 0.0].map(in_words), ["245", "11", "10", "2.6", "1", "0"]);
    }

    #[test]
    fn a_session_holds_its_server_whether_it_asks_anything_or_not() {
        let idle = Moment { idle_in_transaction_share: Some(0.9), servers_idle_in_transaction: 20.0, ..full() };
        let advice = advise(&Measured { mode: PoolMode::Session, ..measured(idle, quiet(), 0) }).expect("advice");
        assert_eq!((advice.sign, advice.change.is_some()), (Sign::WaitsAndServersBusy, true));
    }

    #[test]
    fn after_a_start_nothing_is_said_before_something_is_known() {
        let mut early = measured(full(), quiet(), 0);
        early.recent.truncate(ENOUGH - 1);
        assert!(advise(&early).is_none());
    }
}
