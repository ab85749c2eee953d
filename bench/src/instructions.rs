//! `weir-bench instructions`: the instructions of the whole process a transaction, counted by callgrind, and the cache
//! lines that it has to fetch.
//!
//! `own` counts the engine in a program of its own, which the compiler may treat differently; this counts the programs
//! that are shipped. A count does not depend on what else the machine does. It has the process's own code and no
//! kernel: system calls are counted by `syscalls`, and what both cost together is measured by `rounds`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use weir_pglocal::TempFolder;

use crate::budgets::Findings;
use crate::cases::{self, Case};
use crate::contender::Kind;
use crate::error::{Error, Outcome};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::pgbench::Pgbench;
use crate::stage::Stage;

/// Seconds of the two runs whose difference is counted, so that start and end of the process are not.
const RUNS: [u32; 2] = [1, 4];

/// The first-level caches that callgrind simulates: those of most processors of the last years. The kernel does not run
/// in the simulation, so what it displaces from real caches is not counted.
const CACHES: &str = "--cache-sim=yes --I1=32768,8,64 --D1=32768,8,64";

/// What callgrind counts in one run, or the difference of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    instructions: u64,
    /// Lines of 64 bytes that were not in the cache of code.
    code: u64,
    /// Lines of 64 bytes that were not in the cache of data, read or written.
    data: u64,
}

impl Counts {
    /// Reads the file that callgrind writes: the names of the events, and their totals in the same order.
    fn read(text: &str) -> Option<Counts> {
        let line = |name| text.lines().find_map(|line| line.strip_prefix(name));
        let events: Vec<&str> = line("events: ")?.split(' ').collect();
        let totals: Vec<u64> = line("totals: ")?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let of = |event: &str| totals.get(events.iter().position(|name| *name == event)?).copied();
        Some(Counts { instructions: of("Ir")?, code: of("I1mr")?, data: of("D1mr")? + of("D1mw")? })
    }

    /// What a transaction takes, of a run and a shorter one.
    fn each(self, short: Counts, transactions: u64) -> Counts {
        let each = |long: u64, short: u64| long.saturating_sub(short) / transactions.max(1);
        Counts {
            instructions: each(self.instructions, short.instructions),
            code: each(self.code, short.code),
            data: each(self.data, short.data),
        }
    }
}

/// The options of `instructions`. Weir is counted with epoll.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The cases, as `rounds` names them
    #[arg(long, value_delimiter = ',', default_values = ["simple-20", "simple-50", "extended-50", "prepared-50", "connect-10"])]
    only: Vec<String>,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

impl Group for Options {
    const NAME: &'static str = "instructions";

    fn output(&self) -> &Output {
        &self.output
    }

    /// Counts and prints a line a case and pooler.
    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let cases: Vec<Case> = cases::table().into_iter().filter(|case| self.only.contains(&case.name)).collect();
        if cases.is_empty() {
            return Err(Error::new("no such case: `weir-bench rounds --help` explains their names"));
        }
        let folder = TempFolder::new()?;
        // PgBouncer writes its count as another user.
        open_to_all(folder.path())?;
        let rig = self.rig.wrapped(|name, program| wrapper(folder.path(), name, program))?;
        let (stage, pgbench) = rig.stage(1)?;
        print_line!(
            out,
            "{:<14} {:<18} {:>14} {:>12} {:>12}",
            "case",
            "pooler",
            "instructions",
            "code lines",
            "data lines"
        );
        let mut lines = Vec::new();
        for case in &cases {
            // valgrind delivers no signal to a thread that waits in a ring, so such a process is ended before it has
            // counted.
            for kind in rig.both_kinds(out)?.into_iter().filter(|kind| *kind != Kind::Weir) {
                let arguments = case.arguments(case.protocol_for(kind, &rig.pgbouncer_version()));
                let short = count(&stage, kind, &pgbench, folder.path(), &arguments, RUNS[0])?;
                let long = count(&stage, kind, &pgbench, folder.path(), &arguments, RUNS[1])?;
                let Counts { instructions, code, data } = long.0.each(short.0, long.1.saturating_sub(short.1));
                print_line!(out, "{:<14} {:<18} {instructions:>14} {code:>12} {data:>12}", case.name, kind.to_string());
                lines.push(json!({
                    "case": case.name, "pooler": kind.to_string(),
                    "instructions": instructions, "code_lines": code, "data_lines": data,
                }));
            }
        }
        print_line!(out, "a transaction; lines: of 64 bytes, fetched into caches of 32 KiB");
        Ok(Findings { budgets: Vec::new(), json: Value::Array(lines) })
    }
}

/// Runs a pooler for so long; returns what callgrind counted of its process, and the transactions.
fn count(
    stage: &Stage,
    kind: Kind,
    pgbench: &Pgbench,
    folder: &Path,
    arguments: &[String],
    seconds: u32,
) -> Outcome<(Counts, u64)> {
    let pooler = stage.pooler(kind)?;
    let pid = pooler.pid().ok_or_else(|| Error::new("PostgreSQL alone has no pooler to count"))?;
    let run = pgbench.run(&pooler, seconds, arguments)?;
    drop(pooler);
    let file = folder.join(format!("out.{pid}"));
    let text = fs::read_to_string(&file).map_err(|e| Error::at("read what callgrind counted", e))?;
    let counts = Counts::read(&text).ok_or_else(|| {
        Error::new(format!("callgrind was ended before it had counted: {} bytes in {}", text.len(), file.display()))
    })?;
    Ok((counts, run.transactions))
}

/// A script that runs a pooler under callgrind. To be asked for its version it runs as it is. valgrind creates the file
/// of the counts as it starts, and PgBouncer fills it as the user that it has become.
fn wrapper(folder: &Path, name: &str, program: &Path) -> Outcome<PathBuf> {
    let (path, program, folder) = (folder.join(name), program.display(), folder.display());
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec \"{program}\" --version\n\
         out=\"{folder}/out.$$\"\n\
         (for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; chmod 666 \"$out\" && break; done) >/dev/null 2>&1 &\n\
         exec valgrind --tool=callgrind {CACHES} --callgrind-out-file=\"$out\" \"{program}\" \"$@\"\n"
    );
    fs::write(&path, script).map_err(|e| Error::at(format!("write {}", path.display()), e))?;
    open_to_all(&path)?;
    Ok(path)
}

fn open_to_all(path: &Path) -> Outcome<()> {
    let opened = fs::set_permissions(path, fs::Permissions::from_mode(0o777));
    opened.map_err(|e| Error::at(format!("change the mode of {}", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_by_the_names_of_their_events() {
        let text = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\nfn=(1) x\n3 1\ntotals: 900 300 200 40 20 10 3 2 1\n";
        let long = Counts { instructions: 900, code: 40, data: 30 };
        assert_eq!(Counts::read(text), Some(long));
        let short = Counts { instructions: 100, code: 20, data: 10 };
        assert_eq!(long.each(short, 10), Counts { instructions: 80, code: 2, data: 2 });
        assert_eq!(Counts::read("events: Ir\ntotals: 5\n"), None);
    }
}
