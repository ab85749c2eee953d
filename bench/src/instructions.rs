//! `weir-bench instructions`: the instructions of the whole process a transaction, counted by callgrind.
//!
//! `own` counts the engine in a program of its own, which the compiler may treat differently; this counts the programs that are
//! shipped. A count does not depend on what else the machine does. It has the process's own code and no kernel: system calls
//! are counted by `syscalls`, and what both cost together is measured by `rounds`.

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

/// The options of `instructions`.
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
        print_line!(out, "{:<14} {:<18} {:>24}", "case", "pooler", "instructions");
        let mut lines = Vec::new();
        for case in &cases {
            for kind in rig.both_kinds(out)? {
                let arguments = case.arguments(case.protocol_for(kind, &rig.pgbouncer_version()));
                let short = count(&stage, kind, &pgbench, folder.path(), &arguments, RUNS[0])?;
                let long = count(&stage, kind, &pgbench, folder.path(), &arguments, RUNS[1])?;
                let each = long.0.saturating_sub(short.0) / long.1.saturating_sub(short.1).max(1);
                print_line!(out, "{:<14} {:<18} {each:>24}", case.name, kind.to_string());
                lines.push(json!({ "case": case.name, "pooler": kind.to_string(), "instructions": each }));
            }
        }
        Ok(Findings { budgets: Vec::new(), json: Value::Array(lines) })
    }
}

/// Runs a pooler for so long; returns the instructions of its process and the transactions.
fn count(
    stage: &Stage,
    kind: Kind,
    pgbench: &Pgbench,
    folder: &Path,
    arguments: &[String],
    seconds: u32,
) -> Outcome<(u64, u64)> {
    let pooler = stage.pooler(kind)?;
    let pid = pooler.pid().ok_or_else(|| Error::new("PostgreSQL alone has no pooler to count"))?;
    let run = pgbench.run(&pooler, seconds, arguments)?;
    drop(pooler);
    let file = folder.join(format!("out.{pid}"));
    let text = fs::read_to_string(&file).map_err(|e| Error::at("read what callgrind counted", e))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    let total = total.ok_or_else(|| {
        Error::new(format!("callgrind was ended before it had counted: {} bytes in {}", text.len(), file.display()))
    })?;
    Ok((total, run.transactions))
}

/// A script that runs a pooler under callgrind. To be asked for its version it runs as it is. valgrind creates the file of the counts
/// as it starts, and PgBouncer fills it as the user that it has become.
fn wrapper(folder: &Path, name: &str, program: &Path) -> Outcome<PathBuf> {
    let (path, program, folder) = (folder.join(name), program.display(), folder.display());
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec \"{program}\" --version\n\
         out=\"{folder}/out.$$\"\n\
         (for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; chmod 666 \"$out\" && break; done) >/dev/null 2>&1 &\n\
         exec valgrind --tool=callgrind --callgrind-out-file=\"$out\" \"{program}\" \"$@\"\n"
    );
    fs::write(&path, script).map_err(|e| Error::at(format!("write {}", path.display()), e))?;
    open_to_all(&path)?;
    Ok(path)
}

fn open_to_all(path: &Path) -> Outcome<()> {
    let opened = fs::set_permissions(path, fs::Permissions::from_mode(0o777));
    opened.map_err(|e| Error::at(format!("change the mode of {}", path.display()), e))
}
