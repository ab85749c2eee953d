//! Runs pgbench, as a user would.

use std::process::{Command, Output};

use weir_pgclient::Address;
use weir_pgclient::ConnectParams;

use crate::postgres::Postgres;

/// A run of pgbench.
#[derive(Clone, Debug)]
pub struct Bench<'a> {
    /// Where pgbench connects.
    pub target: &'a ConnectParams,
    /// pgbench's own arguments.
    pub arguments: &'a [&'a str],
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct BenchRun {
    /// Whether the run succeeded.
    pub succeeded: bool,
    /// All output of the run.
    pub output: String,
}

impl Bench<'_> {
    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// When there is no pgbench, or the target has no TCP address.
    pub fn run(&self) -> BenchRun {
        let Address::Tcp { host, port } = &self.target.address else { panic!("pgbench is run over TCP") };
        let output = Command::new(program())
            .args(["-h", host, "-p", &port.to_string(), "-U", &self.target.user])
            .args(self.arguments)
            .arg(&self.target.database)
            .env("PGPASSWORD", self.target.password.as_deref().unwrap_or_default())
            .output()
            .expect("pgbench runs");
        BenchRun { succeeded: output.status.success(), output: text(&output) }
    }
}

impl BenchRun {
    /// The number after a label at the beginning of a line, such as `number of failed transactions:`.
    pub fn figure(&self, label: &str) -> Option<f64> {
        let line = self.output.lines().find_map(|line| line.trim().strip_prefix(label))?;
        line.trim().split(|c: char| !c.is_ascii_digit() && c != '.').find(|word| !word.is_empty())?.parse().ok()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// pgbench of the PostgreSQL under test, or else the one in PATH.
fn program() -> std::path::PathBuf {
    let beside = Postgres::shared().server().programs().bin().join("pgbench");
    if beside.exists() { beside } else { "pgbench".into() }
}
