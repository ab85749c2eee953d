//! The flags that several commands share.

use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Outcome};
use crate::find;
use crate::pgbench::Pgbench;
use crate::setup::{Certificate, Kind, Link, Login, Mode, Pool, SOCKET_POOL, Setup, USER};
use crate::stage::{Pooler, Stage};

/// Whom to measure, and how they are set up.
#[derive(Args, Clone, Debug)]
pub(crate) struct Rig {
    /// Whom to measure; `direct` is PostgreSQL without a pooler
    #[arg(long, value_delimiter = ',', default_value = "pgbouncer,weir")]
    pub(crate) poolers: Vec<Kind>,
    /// Weir's program [default: the release build beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) weir: Option<PathBuf>,
    /// PgBouncer's program [default: from PATH or /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pub(crate) pgbouncer: Option<PathBuf>,
    /// The pool's size, of each pooler
    #[arg(long, default_value_t = 20)]
    pub(crate) pool_size: u32,
    /// How clients and poolers log in, on both sides alike
    #[arg(long, value_enum, default_value_t = Login::Trust)]
    pub(crate) auth: Login,
    /// Worker threads of a pooler that has them
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: u32,
    /// Where the results are written as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl Rig {
    /// Starts PostgreSQL with pgbench's tables.
    pub(crate) fn stage(&self, scale: u32) -> Outcome<(Stage, Pgbench)> {
        let stage = Stage::start(self.setup()?, &[])?;
        let pgbench = Pgbench::of(&stage)?;
        pgbench.initialize(&stage, scale)?;
        Ok((stage, pgbench))
    }

    /// Starts PostgreSQL and nothing else.
    pub(crate) fn bare_stage(&self) -> Outcome<Stage> {
        Stage::start(self.setup()?, &[])
    }

    /// Whom to measure, without the PgBouncer that is not there, which is said.
    pub(crate) fn kinds(&self) -> Outcome<Vec<Kind>> {
        let mut kinds = self.poolers.clone();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.contains(&Kind::Pgbouncer) && find::pgbouncer(self.pgbouncer.as_deref()).is_none() {
            kinds.retain(|kind| *kind != Kind::Pgbouncer);
            println!("{}\nGoing on without it; ratios are absent.\n", find::GET_PGBOUNCER);
        }
        if kinds.is_empty() { Err(Error::new("there is no pooler to measure")) } else { Ok(kinds) }
    }

    /// The same, and the bare forwarder, which marks the limit; it knows no passwords.
    pub(crate) fn kinds_and_limit(&self) -> Outcome<Vec<Kind>> {
        let mut kinds = self.kinds()?;
        if self.auth == Login::Trust && !kinds.contains(&Kind::Forwarder) {
            kinds.push(Kind::Forwarder);
        }
        Ok(kinds)
    }

    /// Starts all of them.
    pub(crate) fn poolers(&self, stage: &Stage) -> Outcome<Vec<Pooler>> {
        Rig::start(stage, self.kinds()?)
    }

    /// Starts these.
    pub(crate) fn start(stage: &Stage, kinds: Vec<Kind>) -> Outcome<Vec<Pooler>> {
        kinds.into_iter().map(|kind| stage.pooler(kind)).collect()
    }

    /// PgBouncer's version; without one, the newest rules hold.
    pub(crate) fn pgbouncer_version(&self) -> String {
        let program = find::pgbouncer(self.pgbouncer.as_deref());
        program.map_or_else(|| "1.25".to_owned(), |program| program.version)
    }

    /// Writes results where the caller wants them.
    pub(crate) fn write_json(&self, json: &crate::json::Json) -> Outcome<()> {
        let Some(path) = &self.json else { return Ok(()) };
        std::fs::write(path, format!("{json}\n")).map_err(|e| Error::at(format!("write {}", path.display()), e))?;
        println!("Written to {}.", path.display());
        Ok(())
    }

    fn pool(&self, name: &'static str, server: Link) -> Pool {
        Pool { name, mode: Mode::Transaction, size: self.pool_size, server }
    }

    fn setup(&self) -> Outcome<Setup> {
        Ok(Setup {
            pools: vec![self.pool(USER, Link::Tcp), self.pool(SOCKET_POOL, Link::UnixSocket)],
            login: self.auth,
            workers: self.workers,
            certificate: Some(Certificate::new()?),
            weir: self.weir.clone(),
            pgbouncer: self.pgbouncer.clone(),
        })
    }
}
