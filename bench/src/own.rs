//! `weir-bench own`: what Weir's own code costs a transaction, without a kernel: bytes in, bytes out, no sockets.
//!
//! One engine with its port played in memory, and servers that answer at once. Nanoseconds are those of this machine at
//! this moment; instructions are counted by callgrind and are the same everywhere for one build, so they are what one
//! release is compared with the next by. Only what happens within the engine's turns is counted, and what its port
//! does: a copy of the bytes.

mod world;

use std::process::Command;

use clap::Args;

use serde_json::{Value, json};
use weir_base::PoolMode;

use crate::budgets::{Finding, Findings, budget};
use crate::error::{Error, Outcome};
use crate::options::{Group, Output};
use crate::out::{Out, print_line};
use world::{Habit, World};

/// Instructions a transaction change by this much for no reason, as tables grow; a smaller difference says nothing.
const GRAIN: u64 = 5;

/// The options of `own`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How many transactions of each kind are counted
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(100..))]
    transactions: u32,
    /// Without callgrind
    #[arg(long)]
    quick: bool,
    /// Only runs this kind so often, and prints nothing: what callgrind looks at
    #[arg(long, hide = true)]
    only: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// A kind of traffic.
struct Case {
    name: &'static str,
    about: &'static str,
    habit: Habit,
    clients: usize,
    servers: u32,
    /// `track_statements`.
    statements: u32,
    mode: PoolMode,
}

const CASES: &[Case] = &[
    Case {
        name: "simple",
        about: "a Query; one client, one server",
        habit: Habit::Simple,
        clients: 1,
        servers: 1,
        statements: 0,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "simple-50",
        about: "50 clients on 20 servers: 30 wait",
        habit: Habit::Simple,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "simple-1000",
        about: "1,000 clients on 20 servers",
        habit: Habit::Simple,
        clients: 1000,
        servers: 20,
        statements: 0,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "transaction",
        about: "BEGIN, a query, COMMIT",
        habit: Habit::Transaction,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "extended",
        about: "Parse, Bind, Describe, Execute, Sync",
        habit: Habit::Extended,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "prepared",
        about: "Bind, Execute, Sync of a named statement",
        habit: Habit::Prepared,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "simple-stat",
        about: "simple, and statements are counted",
        habit: Habit::Simple,
        clients: 1,
        servers: 1,
        statements: 1000,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "literal-stat",
        about: "the same with another value each time",
        habit: Habit::Literal,
        clients: 1,
        servers: 1,
        statements: 1000,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "prepared-stat",
        about: "prepared, and statements are counted",
        habit: Habit::Prepared,
        clients: 50,
        servers: 20,
        statements: 1000,
        mode: PoolMode::Transaction,
    },
    Case {
        name: "simple-auto",
        about: "simple, with `mode = \"auto\"`",
        habit: Habit::Simple,
        clients: 1,
        servers: 1,
        statements: 0,
        mode: PoolMode::Auto,
    },
    Case {
        name: "transaction-auto",
        about: "transaction, with `mode = \"auto\"`",
        habit: Habit::Transaction,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Auto,
    },
    Case {
        name: "extended-auto",
        about: "extended, with `mode = \"auto\"`",
        habit: Habit::Extended,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Auto,
    },
    Case {
        name: "prepared-auto",
        about: "prepared, with `mode = \"auto\"`",
        habit: Habit::Prepared,
        clients: 50,
        servers: 20,
        statements: 0,
        mode: PoolMode::Auto,
    },
];

impl Group for Options {
    const NAME: &'static str = "own";

    fn output(&self) -> &Output {
        &self.output
    }

    /// Measures and prints a line a case.
    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let mut found = Findings { budgets: Vec::new(), json: Value::Null };
        if let Some(name) = &self.only {
            let case =
                CASES.iter().find(|case| case.name == name).ok_or_else(|| Error::new("there is no such case"))?;
            case.play(self.transactions);
            return Ok(found);
        }
        print_line!(out, "{:<16} {:>8} {:>14}   what a transaction is", "case", "ns", "instructions");
        let mut lines = Vec::new();
        for case in CASES {
            let nanoseconds = case.play(self.transactions);
            let instructions = if self.quick { None } else { Some(case.instructions()?) };
            let shown = instructions.map_or_else(|| "–".to_owned(), |count| count.to_string());
            print_line!(out, "{:<16} {nanoseconds:>8.0} {shown:>14}   {}", case.name, case.about);
            if case.name == "simple" {
                found.budgets.push(Finding::new("own", nanoseconds));
            }
            lines.push(json!({
                "case": case.name,
                "nanoseconds": nanoseconds,
                "instructions": instructions,
            }));
        }
        print_line!(
            out,
            "\nWithin the engine and a port that copies; no sockets, no kernel. Budget of simple: {} ns.",
            budget("own").limit()
        );
        if !self.quick {
            print_line!(out, "Instructions are callgrind's, and the same from run to run within {GRAIN}.");
        }
        found.json = Value::Array(lines);
        Ok(found)
    }
}

impl Case {
    /// Plays at least this many transactions; nanoseconds a transaction.
    fn play(&self, transactions: u32) -> f64 {
        let mut world = World::new(self.habit, self.mode, self.clients, self.servers, self.statements);
        let rounds = transactions.div_ceil(u32::try_from(self.clients).unwrap_or(1));
        (0..rounds.div_ceil(10)).for_each(|_| world.round());
        world.reset_clock();
        (0..rounds).for_each(|_| world.round());
        // As the optimiser made it, which no other test runs.
        assert!(self.habit != Habit::Prepared || world.most_parses() == 1, "a prepared statement is prepared again");
        world.nanoseconds_a_transaction()
    }

    /// Instructions a transaction: the difference of two runs, so that what happens once is left out.
    fn instructions(&self) -> Outcome<u64> {
        let (few, many) = (2_000, 12_000);
        let counted = count(self.name, many)?.saturating_sub(count(self.name, few)?);
        // A tenth more is played before the clock begins.
        let transactions = world::played(many, self.clients) - world::played(few, self.clients);
        Ok(counted / transactions)
    }
}

/// Instructions within the engine's turns, by callgrind.
fn count(case: &str, transactions: u32) -> Outcome<u64> {
    let program = std::env::current_exe().map_err(|e| Error::at("find this program", e))?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*own*world*turn*"]);
    command.arg(program).args(["own", "--only", case, "--transactions", &transactions.to_string()]);
    let output = command.output().map_err(|e| {
        Error::at("valgrind was not found (Debian: apt-get install valgrind), or leave it out with --quick", e)
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :")).map(|(_, count)| count.trim());
    let collected = collected.and_then(|count| count.parse().ok()).filter(|count| *count > 0);
    collected.ok_or_else(|| Error::new(format!("callgrind counted nothing:\n{said}")))
}
