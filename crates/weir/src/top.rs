//! `weir top`: the overview of a running Weir in a terminal, from its HTTP API.
//!
//! Owns what is shown of an event, and when the screen is repainted. The figures come from `GET /api/v1/events`.

use std::io::{BufRead, IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::api_address;
use crate::color::Color;
use crate::events::Stream;
use crate::failure::Failure;
use crate::milliseconds::time;
use crate::slow::{self, Slow};
use crate::top_cluster::Cluster;
use crate::top_statements::Statements;
use weir_monitor::span;
use weir_terminal::{Output, Term, columns, print_line};

/// The pause before reconnecting, when a stream has ended.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause between two requests for statements, or for the cluster.
const REQUEST_PAUSE: Duration = Duration::from_secs(2);

/// The arguments of `weir top`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Where the API is: its URL, or the file of its Weir
    #[arg(value_name = "URL|FILE", default_value = "http://127.0.0.1:8432")]
    url: String,
    /// The authority of its certificate, PEM [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Print the figures once, and exit; without a terminal it always does
    #[arg(long)]
    once: bool,
    /// At most this many pools, the busiest ones
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pools: u16,
    /// Show the statements that take the most time (20, or --pools), not pools
    #[arg(long)]
    statements: bool,
    /// Show the nodes of the cluster, and who has how much of each pool
    #[arg(long, conflicts_with = "statements")]
    cluster: bool,
    #[command(flatten)]
    color: Color,
}

/// Shows figures until Ctrl-C, or once.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let term = arguments.color.term();
    let once = arguments.once || !stdout().is_terminal();
    let paints = term.output == Output::Terminal && !once;
    let (base, ca_file) = (&api_address::url(&arguments.url)?, arguments.ca_file.as_deref());
    if arguments.statements {
        let source = Statements::new(base, ca_file, arguments.pools).map_err(Failure::Message)?;
        return repeat(base, paints, once, |width| source.lines(width));
    }
    if arguments.cluster {
        let source = Cluster::new(base, ca_file, arguments.pools).map_err(Failure::Message)?;
        return repeat(base, paints, once, |width| source.lines(width));
    }
    let url = format!("{base}/api/v1/events?limit={}", arguments.pools);
    let stream = Stream::new(&url, arguments.ca_file.as_deref()).map_err(Failure::Message)?;
    let slow = paints.then(|| Slow::watch(base, arguments.ca_file.as_deref())).transpose();
    let slow = slow.map_err(Failure::Message)?;
    let mut shown = false;
    loop {
        let problem = match stream.open() {
            Ok(stream) => {
                let mut received = false;
                for event in events(stream) {
                    let incidents = slow.as_ref().map(Slow::lines).unwrap_or_default();
                    show(&with_incidents(&event, &incidents, term, room(paints)), paints);
                    if slow.is_none() {
                        // Each may ask the server of a pool, which may not answer: what is known does not wait for it.
                        let incidents = slow::now(base, arguments.ca_file.as_deref()).unwrap_or_default();
                        show(&below(&incidents, term, usize::MAX), paints);
                    }
                    (shown, received) = (true, true);
                    if once {
                        return Ok(());
                    }
                }
                if received {
                    // The control plane closes a connection after some minutes.
                    continue;
                }
                "the connection has ended".to_owned()
            }
            Err(error) => error,
        };
        // After the first figures it retries; before them an error, such as a wrong address, ends it.
        if !shown || once {
            return Err(api_address::unreachable(base, &problem));
        }
        show(&[term.yellow(&format!("{base}: {problem}; trying again"))], paints);
        sleep(RETRY_PAUSE);
    }
}

/// Shows the lines of a source, which gets the width, until Ctrl-C, or once.
fn repeat(
    url: &str,
    paints: bool,
    once: bool,
    source: impl Fn(usize) -> Result<Vec<String>, String>,
) -> Result<(), Failure> {
    let mut shown = false;
    loop {
        let (width, height) = room(paints).unwrap_or((usize::MAX, usize::MAX));
        match source(width) {
            Ok(mut lines) => {
                lines.truncate(height.saturating_sub(1));
                show(&lines, paints);
                shown = true;
            }
            Err(problem) if !shown || once => return Err(api_address::unreachable(url, &problem)),
            Err(problem) => show(&[format!("{url}: {problem}; trying again")], paints),
        }
        if once {
            return Ok(());
        }
        sleep(REQUEST_PAUSE);
    }
}

/// The data of each event named `figures`, until the stream ends.
fn events(stream: impl BufRead) -> impl Iterator<Item = Value> {
    let lines = stream.lines().map_while(Result::ok);
    let mut name = String::new();
    lines.filter_map(move |line| {
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        }
        let data = line.strip_prefix("data: ").filter(|_| name == "figures")?;
        serde_json::from_str(data).ok()
    })
}

fn show(lines: &[String], paints: bool) {
    if !paints {
        return lines.iter().for_each(print_line);
    }
    // Overwrites the old lines, so that nothing flickers; then clears the rest.
    let lines: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
    let mut out = stdout();
    let _ = write!(out, "\x1b[H{lines}\x1b[J").and_then(|()| out.flush());
}

/// The columns and lines of the terminal, if it is repainted.
fn room(paints: bool) -> Option<(usize, usize)> {
    let size = paints.then(|| rustix::termios::tcgetwinsize(stdout()).ok()).flatten()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// A column of the table.
struct Column {
    /// Where there is no room for all, columns with the largest value are dropped first.
    spare: u8,
    title: &'static str,
    of: fn(&Value) -> String,
}

/// Columns that are shown at any width.
const FEWEST_COLUMNS: usize = 3;

/// The most problems that have a line of their own.
const MOST_PROBLEMS: usize = 5;
/// The most moves to another primary shown above the table.
const MOST_MOVES: usize = 3;

const COLUMNS: [Column; 15] = [
    Column { spare: 0, title: "health", of: |pool| state(pool).to_owned() },
    Column { spare: 0, title: "tx/s", of: |pool| whole(&pool["transactions_per_second"]) },
    Column { spare: 8, title: "queries/s", of: |pool| whole(&pool["queries_per_second"]) },
    Column { spare: 6, title: "active", of: |pool| whole(&pool["clients_active"]) },
    Column { spare: 1, title: "waiting", of: |pool| whole(&pool["clients_waiting"]) },
    Column { spare: 9, title: "idle", of: |pool| whole(&pool["clients_idle"]) },
    Column { spare: 2, title: "servers", of: |pool| whole(&pool["servers_active"]) },
    Column { spare: 5, title: "free", of: |pool| whole(&pool["servers_idle"]) },
    Column { spare: 7, title: "in tx", of: |pool| whole(&pool["servers_idle_in_transaction"]) },
    Column { spare: 7, title: "pinned", of: |pool| whole(&pool["servers_pinned"]) },
    Column {
        spare: 4,
        title: "oldest",
        of: |pool| time(pool["oldest_wait_seconds"].as_f64().map(|seconds| seconds * 1e3)),
    },
    Column { spare: 3, title: "wait p95", of: |pool| time(pool["wait_ms"]["p95"].as_f64()) },
    Column { spare: 10, title: "query p95", of: |pool| time(pool["query_ms"]["p95"].as_f64()) },
    Column { spare: 11, title: "tx p95", of: |pool| time(pool["transaction_ms"]["p95"].as_f64()) },
    Column { spare: 0, title: "errors/s", of: |pool| whole(&pool["errors_per_second"]) },
];

/// The screen with the incidents below, which take at most half of it.
fn with_incidents(event: &Value, incidents: &[String], term: Term, room: Option<(usize, usize)>) -> Vec<String> {
    let most = room.map_or(usize::MAX, |(_, height)| height / 2);
    let shown = &incidents[..incidents.len().min(most)];
    let rest = room.map(|(width, height)| (width, height - if shown.is_empty() { 0 } else { shown.len() + 1 }));
    let mut lines = screen(event, term, rest);
    lines.extend(below(shown, term, room.map_or(usize::MAX, |(width, _)| width)));
    lines
}

/// The lines of incidents, after an empty one.
fn below(incidents: &[String], term: Term, width: usize) -> Vec<String> {
    let cut = |line: &String| line.chars().take(width).collect::<String>();
    let painted = |line: &String| match line.starts_with(' ') {
        true => cut(line),
        false => term.yellow(&cut(line)),
    };
    let space = (!incidents.is_empty()).then(String::new);
    space.into_iter().chain(incidents.iter().map(painted)).collect()
}

/// An event as text: a line about the whole, the titles, and a line for each pool; as much as fits.
fn screen(event: &Value, term: Term, room: Option<(usize, usize)>) -> Vec<String> {
    let mut pools: Vec<(&String, &Value)> = event["pools"].as_object().into_iter().flatten().collect();
    pools.sort_by(|(_, a), (_, b)| is_broken(b).cmp(&is_broken(a)).then(load(b).total_cmp(&load(a))));
    let (mut problems, mut moves) = (problems(event), moves(event));
    if let Some((_, height)) = room {
        problems =
            problems.iter().flat_map(|line| wrapped(line, room.map_or(usize::MAX, |(width, _)| width))).collect();
        // Four other lines are shown, and the cursor takes another.
        problems.truncate(height.saturating_sub(6));
        moves.truncate(height.saturating_sub(6 + problems.len()));
        pools.truncate(height.saturating_sub(5 + problems.len() + moves.len()).max(1));
    }
    let (width, waiting) =
        (room.map_or(usize::MAX, |(width, _)| width), |pool: &Value| pool["clients_waiting"].as_f64());
    let cut = |line: String| line.chars().take(width).collect::<String>();
    let mut lines = table(&pools, &event["all"], width).into_iter().map(cut);
    let mut screen = vec![cut(workers(event))];
    screen.extend(problems.into_iter().map(|line| term.red(&cut(line))));
    screen.extend(moves.into_iter().map(|line| term.yellow(&cut(line))));
    screen.push(String::new());
    screen.extend(lines.next().map(|titles| term.bold(&titles)));
    let painted = |(line, (_, pool)): (String, &(_, &Value))| match (is_broken(pool), waiting(pool) > Some(0.0)) {
        (true, _) => term.red(&line),
        (false, true) => term.yellow(&line),
        (false, false) => line,
    };
    screen.extend(lines.by_ref().take(pools.len()).zip(&pools).map(painted));
    screen.extend(lines);
    screen
}

/// A line in lines of this width, broken between words; those that follow are indented.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "  ";
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("a line");
        let is_first = last.trim().is_empty();
        if !is_first && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("{INDENT}{word}"));
        } else if last.is_empty() {
            last.push_str(word);
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines
}

/// A line for each fault of Weir itself, then one for each problem of a pool: what, since when, for whom, the last
/// error, and what to do.
fn problems(event: &Value) -> Vec<String> {
    let at = event["at"].as_f64().unwrap_or(0.0);
    let all = event["problems"].as_array().map_or(&[][..], Vec::as_slice);
    let faults = event["faults"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = faults.iter().take(MOST_PROBLEMS).map(fault).collect();
    lines.extend(all.iter().take(MOST_PROBLEMS).map(|problem| self::problem(problem, at)));
    if all.len() > MOST_PROBLEMS {
        lines.push(format!("… and {} more pools with a problem", all.len() - MOST_PROBLEMS));
    }
    lines
}

/// A line for each pool that has moved to another primary lately.
fn moves(event: &Value) -> Vec<String> {
    let text = |moved: &Value, key: &str| moved[key].as_str().unwrap_or_default().to_owned();
    let moves = event["moves"].as_array().map_or(&[][..], Vec::as_slice);
    moves.iter().take(MOST_MOVES).map(|moved| format!("{}: {}", text(moved, "pool"), text(moved, "said"))).collect()
}

/// What is or will be wrong with Weir itself.
fn fault(fault: &Value) -> String {
    let text = |key| fault[key].as_str().unwrap_or_default();
    let of = fault["pool"].as_str().unwrap_or("weir");
    format!("{of}: {}: {} {}", text("kind").replace('_', " "), text("summary"), text("advice"))
}

fn problem(problem: &Value, at: f64) -> String {
    let (name, health) = (problem["pool"].as_str().unwrap_or_default(), &problem["health"]);
    let mut line = format!("{name}: {}", state(problem));
    if let Some(since) = health["since"].as_f64() {
        line += &format!(" for {}", span((at - since).max(0.0).floor()));
    }
    if let Some(seen) = health["not_seen_since"].as_f64() {
        line += &format!(", not seen for {}", span((at - seen).max(0.0).floor()));
    }
    line += &format!(", clients affected: {}", health["clients"]);
    if let Some(refused) = health["refused"].as_u64().filter(|refused| *refused > 0) {
        line += &format!(", refused tries: {refused}");
    }
    if let Some(message) = health["error"]["message"].as_str() {
        line += &format!(". {message}");
    }
    if let Some(cause) = health["cause"].as_str() {
        line += &format!(". {}", cause.trim_end_matches('.'));
    }
    format!("{line}. {}", health["advice"].as_str().unwrap_or_default())
}

/// The word for a pool's health; a dash for all pools together.
fn state(pool: &Value) -> &str {
    pool["health"]["state"].as_str().unwrap_or("–")
}

fn is_broken(pool: &Value) -> bool {
    pool["health"]["problem"] == Value::Bool(true)
}

fn workers(event: &Value) -> String {
    let busy = |worker: &Value| Some(format!("{} {:.0} %", worker["worker"], worker["cpu"].as_f64()? * 100.0));
    let workers: Vec<String> = event["workers"].as_array().into_iter().flatten().filter_map(busy).collect();
    format!("CPU of workers: {}", workers.join(", "))
}

/// Titles, pools, and the sum: with every column, or those that fit into this width.
fn table(pools: &[(&String, &Value)], all: &Value, width: usize) -> Vec<String> {
    let mut shown: Vec<&Column> = COLUMNS.iter().collect();
    loop {
        let row = |name: &str, pool: &Value| {
            std::iter::once(name.to_owned()).chain(shown.iter().map(|column| (column.of)(pool))).collect::<Vec<_>>()
        };
        let titles = shown.iter().map(|column| column.title.to_owned());
        let mut rows = vec![std::iter::once("pool".to_owned()).chain(titles).collect::<Vec<_>>()];
        rows.extend(pools.iter().map(|(name, pool)| row(name, pool)));
        rows.push(row("(all)", all));
        let lines = columns(&rows, &(1..=shown.len()).collect::<Vec<_>>());
        let widest = lines.iter().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        if widest <= width || shown.len() <= FEWEST_COLUMNS {
            return lines;
        }
        let spare = shown.iter().map(|column| column.spare).max();
        shown.retain(|column| Some(column.spare) != spare);
    }
}

/// The sort key of pools: waiting clients first, then transactions.
fn load(pool: &Value) -> f64 {
    let figure = |name: &str| pool[name].as_f64().unwrap_or(0.0);
    figure("clients_waiting") * 1e9 + figure("transactions_per_second")
}

/// A count or a rate; small values have a decimal, and unknown ones are a dash.
fn whole(value: &Value) -> String {
    match value.as_f64() {
        None => "–".to_owned(),
        Some(value) if value > 0.0 && value < 9.95 && value.fract() > 0.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_taken_from_a_stream_and_trouble_is_not() {
        let stream =
            "retry: 1000\n\nevent: problem\ndata: {\"error\": \"no\"}\n\nevent: figures\ndata: {\"at\": 5}\n\n";
        assert_eq!(events(stream.as_bytes()).collect::<Vec<_>>(), [json!({"at": 5})]);
    }

    #[test]
    fn pools_that_wait_come_first_and_all_of_them_last() {
        let pool = |waiting: u32, rate: f64| json!({"clients_waiting": waiting, "transactions_per_second": rate});
        let event = json!({
            "pools": {"a": pool(0, 7.25), "b": pool(2, 1.0), "c": pool(0, 900.0)}, "all": pool(2, 908.25),
            "workers": [{"worker": 0, "cpu": 0.314}]
        });
        let lines = screen(&event, Term::plain(), None);
        let names: Vec<_> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["CPU", "pool", "b", "c", "a", "(all)"]);
        assert_eq!(lines[0], "CPU of workers: 0 31 %");
        assert!(lines[2].contains("queries/s") && lines[5].contains(" 7.2 "), "{lines:#?}");
    }

    #[test]
    fn what_is_broken_comes_first_with_since_when_for_whom_and_what_to_do() {
        let health = json!({
            "state": "cannot connect", "problem": true, "since": 90.0, "clients": 4, "advice": "Check it.",
            "error": {"sqlstate": "08006", "message": "Connection refused", "at": 99.0}
        });
        let fine = json!({"clients_waiting": 3, "health": {"state": "waiting", "problem": false}});
        let event = json!({
            "at": 100.0, "pools": {"a": fine, "b": {"health": health}}, "all": {}, "workers": [],
            "problems": [{"pool": "b", "health": health}]
        });
        let lines = screen(&event, Term::plain(), None);
        assert_eq!(lines[1], "b: cannot connect for 10 s, clients affected: 4. Connection refused. Check it.");
        assert!(lines[4].starts_with("b ") && lines[4].contains("cannot connect"), "{lines:#?}");
        assert!(lines[5].starts_with("a ") && lines[5].contains("waiting"), "{lines:#?}");
    }

    #[test]
    fn what_is_broken_and_what_to_do_is_broken_between_words_where_the_terminal_is_narrow() {
        let advice = "Check that the database server runs and is reachable from here.";
        let health = json!({
            "state": "cannot connect", "problem": true, "since": 90.0, "clients": 1, "refused": 370, "advice": advice,
            "not_seen_since": 98.0, "error": {"sqlstate": "08006", "message": "Connection refused", "at": 99.0}
        });
        let event = json!({
            "at": 1060.0, "pools": {"b": {"health": health}}, "all": {}, "workers": [],
            "problems": [{"pool": "b", "health": health}]
        });
        let lines = screen(&event, Term::plain(), Some((80, 24)));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].starts_with("b: cannot connect for 16 min 10 s, not seen for 16 min 2 s, "), "{lines:#?}");
        let said: String = lines[1..4].iter().map(|line| format!("{} ", line.trim())).collect();
        assert!(said.contains(advice), "{lines:#?}");
    }

    #[test]
    fn a_move_to_another_primary_is_shown_below_what_is_broken() {
        let said = "primary moved from a:5432 to b:5432 12 s ago; 212 clients waited, longest 1.4 s";
        let health = json!({"state": "full", "problem": true, "clients": 4, "advice": "Check it."});
        let event = json!({
            "at": 100.0, "pools": {"app": {"health": health}}, "all": {}, "workers": [],
            "problems": [{"pool": "app", "health": health}], "moves": [{"pool": "app", "said": said}]
        });
        let lines = screen(&event, Term::plain(), None);
        assert!(lines[1].starts_with("app: full") && lines[2] == format!("app: {said}"), "{lines:#?}");
        let few = screen(&event, Term::plain(), Some((200, 7)));
        assert!(few.len() < 7 && few[1].starts_with("app: full"), "{few:#?}");
    }

    #[test]
    fn what_has_no_room_is_left_out_the_least_telling_first() {
        let pool = json!({"clients_waiting": 1, "transactions_per_second": 12345.0, "wait_ms": {"p95": 1234.0}});
        let pools: serde_json::Map<_, _> = (0..50).map(|n| (format!("pool{n:02}"), pool.clone())).collect();
        let event = json!({"pools": pools, "all": pool, "workers": []});
        for (width, height) in [(200, 60), (80, 24), (40, 10), (12, 2)] {
            let lines = screen(&event, Term::plain(), Some((width, height)));
            assert!(lines.len() < height.max(6), "{width}x{height}: {lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}x{height}: {lines:#?}");
        }
        let lines = screen(&event, Term::plain(), Some((80, 24)));
        assert!(["tx/s", "waiting", "servers", "wait p95", "errors/s"].iter().all(|title| lines[2].contains(title)));
        assert!(!lines[2].contains("tx p95") && lines.iter().any(|line| line.contains("(all)")), "{lines:#?}");
    }
}
