//! `weir-bench bulk`: what large results cost: 400 MB of rows by a plain SELECT, a gigabyte out by COPY and one in, by
//! psql, in the clear and encrypted; and what memory it takes while they stream. In the clear the bare forwarder is the
//! limit: one copy in and one out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use weir_pglocal::proc;

use crate::budgets::{Finding, Findings, budget};
use crate::contender::Role;
use crate::error::{Error, Outcome};
use crate::meter::{self, Meter};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::pgbench::{clear_libpq, wait};
use crate::setup::USER;
use crate::stage::{Pooler, Stage};
use crate::stats::{Ratio, Spread};

/// Nothing that is measured here takes so long, unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(120);
/// A row of COPY, with its line's end.
const ROW: usize = 1000;
/// The table for what comes in. None of it is kept (WHERE false): the disk is not what is measured.
const SINK: &str = "create unlogged table bulk_sink (line text); grant all on bulk_sink to bench";

/// The options of `bulk`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How often each pooler is measured, interleaved
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Megabytes by COPY; rows are two fifths of it
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..))]
    megabytes: u32,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

/// What is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Rows,
    CopyOut,
    CopyIn,
}

impl Work {
    fn title(self) -> &'static str {
        match self {
            Work::Rows => "rows",
            Work::CopyOut => "COPY out",
            Work::CopyIn => "COPY in",
        }
    }

    fn sql(self, megabytes: u32) -> String {
        match self {
            // 200 bytes and a number: 2,000 of them are 0.4 MB and a little more.
            Work::Rows => format!("select g, repeat('y', 200) from generate_series(1, {}) g", megabytes * 2000),
            Work::CopyOut => {
                let lines = megabytes * 1000;
                format!("copy (select repeat('x', {}) from generate_series(1, {lines})) to stdout", ROW - 1)
            }
            Work::CopyIn => "copy bulk_sink from stdin where false".to_owned(),
        }
    }
}

/// One transfer through one pooler.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    cpu: f64,
    wall: f64,
    /// The most that was seen while it streamed, in megabytes.
    memory: f64,
}

impl Group for Options {
    const NAME: &'static str = "bulk";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let stage = self.rig.bare_stage()?;
        stage.server().execute(USER, SINK)?;
        let kinds = self.rig.kinds(out)?;
        let poolers = self.rig.start(&stage, self.rig.with_limits(kinds, out), out)?;
        let psql = Psql::of(&stage)?;
        let folder = weir_pglocal::TempFolder::new()?;
        let data = folder.path().join("lines");
        write_lines(&data, self.megabytes)?;
        print_line!(
            out,
            "{} MB by COPY, {} MB of rows; medians of {} rounds",
            self.megabytes,
            self.megabytes * 2 / 5,
            self.rounds
        );
        print_line!(
            out,
            "{:<14} {:<17} {:>9} {:<14} {:>5} {:<14} {:>7} {:>10}",
            "what",
            "pooler",
            "CPU s/GB",
            "(min..max)",
            "×",
            "(rounds)",
            "wall s",
            "memory MB"
        );
        let (mut lines, mut found) = (Vec::new(), Vec::new());
        for tls in [false, true] {
            let mut worst: Option<(f64, Ratio)> = None;
            for work in [Work::Rows, Work::CopyOut, Work::CopyIn] {
                let all = self.measure(&psql, &poolers, work, tls, &data)?;
                let ratios = self.print(&poolers, work, tls, &all, out);
                let ours = poolers.iter().zip(&ratios).filter(|(pooler, _)| pooler.kind.role() == Role::Ours);
                for ratio in ours.filter_map(|(_, ratio)| *ratio) {
                    let larger = worst.is_none_or(|(figure, _)| ratio.of_medians > figure);
                    worst = if larger { Some((ratio.of_medians, ratio)) } else { worst };
                }
                lines.extend(
                    poolers
                        .iter()
                        .zip(&all)
                        .zip(&ratios)
                        .map(|((pooler, transfers), ratio)| json(work, tls, &pooler.name, transfers, *ratio)),
                );
            }
            let id = if tls { "bulk-tls" } else { "bulk-plain" };
            found.push(match worst {
                Some((figure, ratio)) => {
                    print_line!(
                        out,
                        "{}, the dearest of the three: {figure:.2}: {}\n",
                        budget(id).what,
                        budget(id).verdict(figure)
                    );
                    Finding::new(id, figure).within(ratio.min, ratio.max)
                }
                None => Finding::none(id, "PgBouncer is not here to compare with"),
            });
        }
        Ok(Findings { budgets: found, json: Value::Array(lines) })
    }
}

impl Options {
    fn measure(
        &self,
        psql: &Psql,
        poolers: &[Pooler],
        work: Work,
        tls: bool,
        data: &Path,
    ) -> Outcome<Vec<Vec<Transfer>>> {
        let mut all = vec![Vec::new(); poolers.len()];
        for round in 0..self.rounds as usize {
            for step in 0..poolers.len() {
                let at = (round + step) % poolers.len();
                if tls && poolers[at].kind.role() == Role::Limit {
                    continue;
                }
                let input = (work == Work::CopyIn).then_some(data);
                match psql.transfer(&poolers[at], &work.sql(self.megabytes), tls, input) {
                    Ok(transfer) => all[at].push(transfer),
                    Err(error) if poolers[at].kind.role() == Role::Rival => eprintln!("  {error}"),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    /// A line a pooler; returns their ratios to the base.
    fn print(
        &self,
        poolers: &[Pooler],
        work: Work,
        tls: bool,
        all: &[Vec<Transfer>],
        out: &mut Out,
    ) -> Vec<Option<Ratio>> {
        let gigabytes = f64::from(self.megabytes) / if work == Work::Rows { 2500.0 } else { 1000.0 };
        let cpu = |transfers: &[Transfer]| transfers.iter().map(|one| one.cpu / gigabytes).collect::<Vec<_>>();
        let base = poolers.iter().position(|pooler| pooler.kind.role() == Role::Base);
        let mut ratios = Vec::new();
        for (pooler, transfers) in poolers.iter().zip(all) {
            let ratio = base.and_then(|base| Ratio::of(&cpu(transfers), &cpu(&all[base])));
            let title = format!("{}{}", work.title(), if tls { ", TLS" } else { "" });
            let Some(spread) = Spread::of(cpu(transfers)) else {
                if pooler.kind.role() == Role::Limit {
                    ratios.push(None);
                    continue;
                }
                print_line!(out, "{title:<14} {:<17} – it can't do this", pooler.name);
                ratios.push(None);
                continue;
            };
            let median = |part: fn(&Transfer) -> f64| Spread::of(transfers.iter().map(part)).map_or(0.0, |s| s.median);
            let (wall, memory) = (median(|one| one.wall), median(|one| one.memory));
            let (times, rounds) = ratio.map_or_else(
                || ("–".to_owned(), String::new()),
                |ratio| (format!("{:.2}", ratio.of_medians), format!("({:.2}..{:.2})", ratio.min, ratio.max)),
            );
            let within = format!("({:.2}..{:.2})", spread.min, spread.max);
            print_line!(
                out,
                "{title:<14} {:<17} {:>9.2} {within:<14} {times:>5} {rounds:<14} {wall:>7.2} {memory:>10.1}",
                pooler.name,
                spread.median
            );
            ratios.push(ratio);
        }
        ratios
    }
}

fn json(work: Work, tls: bool, pooler: &str, transfers: &[Transfer], ratio: Option<Ratio>) -> Value {
    let list = |part: fn(&Transfer) -> f64| -> Value { transfers.iter().map(part).collect() };
    json!({
        "what": work.title(),
        "tls": tls,
        "pooler": pooler,
        "cpu_seconds": list(|one| one.cpu),
        "wall_seconds": list(|one| one.wall),
        "memory_mb": list(|one| one.memory),
        "cpu_ratio": ratio.map(|ratio| ratio.of_medians),
    })
}

/// This many megabytes of lines for COPY.
fn write_lines(path: &Path, megabytes: u32) -> Outcome<()> {
    let failed = |e: std::io::Error| Error::at(format!("write {}", path.display()), e);
    let mut file = File::create(path).map_err(failed)?;
    let mut line = vec![b'x'; ROW - 1];
    line.push(b'\n');
    let megabyte = line.repeat(1000);
    (0..megabytes).try_for_each(|_| std::io::Write::write_all(&mut file, &megabyte)).map_err(failed)
}

/// psql of this stage's PostgreSQL.
struct Psql {
    path: PathBuf,
}

impl Psql {
    fn of(stage: &Stage) -> Outcome<Psql> {
        let missing = || Error::new("psql was not found: it comes with PostgreSQL (Debian: postgresql-client)");
        Ok(Psql { path: stage.server().programs().psql().ok_or_else(missing)? })
    }

    /// Runs one statement, with this file as its input.
    fn transfer(&self, pooler: &Pooler, sql: &str, tls: bool, input: Option<&Path>) -> Outcome<Transfer> {
        let pid = pooler.pid().ok_or_else(|| Error::new("PostgreSQL alone has no pooler to measure"))?;
        let look = || Meter::of(pid).ok_or_else(|| pooler.gone());
        let stdin = match input {
            Some(path) => File::open(path).map_err(|e| Error::at(format!("read {}", path.display()), e))?.into(),
            None => Stdio::null(),
        };
        let mut command = Command::new(&self.path);
        clear_libpq(&mut command);
        command.args(["-X", "-qAt", "-h", &pooler.host, "-p", &pooler.port.to_string(), "-U", &pooler.account.user]);
        command.args(["-v", "ON_ERROR_STOP=1", "-v", "FETCH_COUNT=0", "-c", sql]).arg(pooler.database());
        command.env("PGPASSWORD", &pooler.account.password).env("PGSSLMODE", if tls { "require" } else { "disable" });
        let (before, begin) = (look()?, Instant::now());
        let child = command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|e| Error::at("run psql", e))?;
        let (status, memory) = watch(child, pid)?;
        let wall = begin.elapsed().as_secs_f64();
        match status {
            Some(status) if status.success() => {}
            Some(status) => return Err(Error::new(format!("{}: psql ended with {status}", pooler.name))),
            None => return Err(Error::new(format!("{}: psql hangs", pooler.name))),
        }
        Ok(Transfer { cpu: look()?.since(&before).total(), wall, memory })
    }
}

/// Waits for psql, and looks at the pooler's memory meanwhile; the most of it, in megabytes.
fn watch(child: std::process::Child, pid: u32) -> Outcome<(Option<std::process::ExitStatus>, f64)> {
    let (tell, done) = std::sync::mpsc::channel::<()>();
    let looks = thread::spawn(move || {
        let mut most = 0;
        // One look at a single process is cheap, one at a family is not.
        let family = meter::members(pid) > 1;
        loop {
            let memory = if family { meter::memory(pid) } else { proc::rss(pid) };
            most = most.max(memory.unwrap_or(0));
            let pause = Duration::from_millis(if family { 500 } else { 50 });
            if done.recv_timeout(pause) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return most;
            }
        }
    });
    let status = wait(child, TIMEOUT);
    drop(tell);
    let most = looks.join().map_err(|_| Error::new("the look at the memory failed"))?;
    #[allow(clippy::cast_precision_loss)]
    Ok((status?, most as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_many_megabytes_as_asked_for() {
        let folder = weir_pglocal::TempFolder::new().unwrap();
        let path = folder.path().join("lines");
        write_lines(&path, 3).unwrap();
        let text = std::fs::read(&path).unwrap();
        assert_eq!((text.len(), text.iter().filter(|byte| **byte == b'\n').count()), (3_000_000, 3000));
    }

    #[test]
    fn a_gigabyte_out_is_as_much_as_one_in() {
        assert!(Work::CopyOut.sql(1000).contains("repeat('x', 999) from generate_series(1, 1000000)"));
        assert!(Work::Rows.sql(1000).contains("generate_series(1, 2000000)"));
    }

    #[test]
    fn memory_is_looked_at_while_a_child_runs() {
        let child = Command::new("sleep").arg("0.1").spawn().unwrap();
        let (status, most) = watch(child, std::process::id()).unwrap();
        assert!(status.unwrap().success() && most > 0.1, "{most}");
    }
}
