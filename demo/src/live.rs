//! The live view: the pool in a table that is repainted each second, or in plain lines where there is no terminal.

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use weir_terminal::{Output, Term, columns, print_line};

use crate::bars::sparkline;
use crate::console::{Console, Sample};
use crate::failure::Failure;
use crate::servers::{POOL, Servers};
use crate::stop::Stop;
use crate::traffic::Traffic;

/// How often the table is renewed.
const INTERVAL: Duration = Duration::from_secs(1);
/// How many seconds of the past the curve shows.
const PAST: usize = 60;

/// Two samples of the pool, and what lies between them.
struct Second {
    now: Sample,
    /// Transactions in a second.
    tps: f64,
    /// The average wait for a server, in milliseconds.
    wait: f64,
}

/// Shows the pool until the time is over or a signal comes.
pub(super) fn watch(
    servers: &mut Servers,
    console: &mut Console,
    term: Term,
    stop: &Stop,
    time: Option<Duration>,
) -> Result<(), Failure> {
    let traffic = Traffic::start(&servers.pooled());
    let begin = Instant::now();
    let (mut before, mut at) = (console.sample()?, begin);
    let mut past = Vec::new();
    let mut painted = 0;
    while time.is_none_or(|time| begin.elapsed() < time) && stop.sleep(INTERVAL) {
        servers.check_weir()?;
        let (now, seen) = (console.sample()?, Instant::now());
        let second = compare(&before, now, seen - at);
        (before, at) = (now, seen);
        past.push(now.waiting);
        if past.len() > PAST {
            past.remove(0);
        }
        match term.output {
            Output::Plain => print_line(format_args!("  {}", plain(&second, begin.elapsed()))),
            Output::Terminal => painted = paint(&table(term, &second, &past), painted),
        }
    }
    drop(traffic);
    Ok(())
}

fn compare(before: &Sample, now: Sample, time: Duration) -> Second {
    let transactions = now.transactions.saturating_sub(before.transactions);
    let assignments = now.assignments.saturating_sub(before.assignments);
    let wait = now.wait.saturating_sub(before.wait);
    Second {
        now,
        tps: transactions as f64 / time.as_secs_f64().max(0.001),
        wait: wait as f64 / 1000.0 / assignments.max(1) as f64,
    }
}

fn plain(second: &Second, age: Duration) -> String {
    let Second { now, tps, wait } = second;
    format!(
        "{:>3} s  clients: {:>3} active, {:>3} waiting  servers: {:>2} active, {:>2} idle  {:>5.0} TPS  wait {:.1} ms",
        age.as_secs(),
        now.active,
        now.waiting,
        now.servers_active,
        now.servers_idle,
        tps,
        wait
    )
}

fn table(term: Term, second: &Second, past: &[usize]) -> Vec<String> {
    let Second { now, tps, wait } = second;
    let header = ["pool", "clients active", "waiting", "servers active", "idle", "TPS", "average wait"];
    let row = vec![
        POOL.to_owned(),
        now.active.to_string(),
        now.waiting.to_string(),
        now.servers_active.to_string(),
        now.servers_idle.to_string(),
        format!("{tps:.0}"),
        format!("{wait:.1} ms"),
    ];
    let lines = columns(&[header.map(str::to_owned).to_vec(), row], &[1, 2, 3, 4, 5, 6]);
    let most = past.iter().max().copied().unwrap_or(0);
    let curve = term.yellow(&sparkline(past));
    vec![term.dim(&lines[0]), term.bold(&lines[1]), format!("{} {curve}", term.dim(&format!("waiting (≤ {most:>3})")))]
}

/// Paints lines over those of the last time; answers how many there are now.
fn paint(lines: &[String], last: usize) -> usize {
    let mut text = String::new();
    if last > 0 {
        text.push_str(&format!("\x1b[{last}A"));
    }
    for line in lines {
        text.push_str(&format!("\r\x1b[2K  {line}\n"));
    }
    // A terminal that is gone sends SIGHUP, too.
    let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_second_between_two_samples() {
        let before = Sample { transactions: 100, assignments: 100, wait: 1_000, ..Sample::default() };
        let now = Sample { transactions: 300, assignments: 200, wait: 201_000, ..Sample::default() };
        let second = compare(&before, now, Duration::from_secs(2));
        assert!((second.tps - 100.0).abs() < 0.01);
        assert!((second.wait - 2.0).abs() < 0.01);
    }

    #[test]
    fn a_restart_of_the_counters_is_no_negative_rate() {
        let before = Sample { transactions: 100, ..Sample::default() };
        let second = compare(&before, Sample::default(), Duration::from_secs(1));
        assert!(second.tps.abs() < 0.01);
    }
}
