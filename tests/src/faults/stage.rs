//! The phases of one fault: calm, the fault, recovery, and the final checks.
//!
//! Invariants: a mix-up fails with either pooler. Weir must also recover for each of its clients, send them only errors
//! that are allowed for this fault, leave no backend busy, and lose no acknowledged write.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::load::Load;
use super::pooler::{Kind, Pooler};
use super::report::{Figures, Report};
use super::{Form, Trial};
use crate::fault::FaultProxy;
use crate::ini::Ini;
use crate::postgres::{Database, Postgres};
use crate::watch::eventually;
use crate::weir::Launch;

/// Servers of the pool.
pub(super) const POOL: u32 = 8;
/// A recovery that takes longer counts as none.
const RECOVERY_LIMIT: Duration = Duration::from_secs(40);

/// Where the proxy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    ClientsAndPooler,
    PoolerAndServer,
}

/// The preparation of a fault.
pub(super) struct Scene<'t> {
    trial: &'t Trial,
    postgres: Postgres,
    ini: Ini,
    wire: Option<Between>,
    launch: Launch,
    due: &'static [&'static str],
    loses_writes: bool,
}

impl<'t> Scene<'t> {
    /// On this server, with the usual file: a pool of [`POOL`] in transaction mode, and timeouts of seconds.
    pub(super) fn on(trial: &'t Trial, postgres: &Postgres) -> Scene<'t> {
        let ini = Ini::transaction(POOL)
            .set("server_login_retry", 1)
            .set("server_connect_timeout", 3)
            .set("query_wait_timeout", 10)
            .set("max_client_conn", 400)
            .set("auth_type", "trust");
        let (wire, launch) = (None, Launch::default());
        Scene { trial, postgres: postgres.clone(), ini, wire, launch, due: &[], loses_writes: false }
    }

    /// With this change to the file.
    pub(super) fn ini(mut self, change: impl FnOnce(Ini) -> Ini) -> Self {
        self.ini = change(self.ini);
        self
    }

    /// With a fault proxy.
    pub(super) fn wire(mut self, between: Between) -> Self {
        self.wire = Some(between);
        self
    }

    /// Starts the pooler like this.
    pub(super) fn launch(mut self, launch: Launch) -> Self {
        self.launch = launch;
        self
    }

    /// The SQLSTATEs that clients may get because of this fault; any other fails.
    pub(super) fn due(mut self, codes: &'static [&'static str]) -> Self {
        self.due = codes;
        self
    }

    /// The new server may lack acknowledged writes of the old one.
    pub(super) fn loses_writes(mut self) -> Self {
        self.loses_writes = true;
        self
    }

    /// Starts everything, and the load.
    pub(super) fn open(self) -> Stage<'t> {
        let database = self.postgres.database();
        let mut superuser = database.superuser();
        superuser
            .query_all("CREATE TABLE ledger (token text); GRANT ALL ON ledger TO PUBLIC")
            .unwrap_or_else(|error| panic!("the ledger: {error}"));
        let mut ini = self.ini;
        let mut wire = None;
        if self.wire == Some(Between::PoolerAndServer) {
            let proxy = FaultProxy::before(self.postgres.port());
            ini = ini.through(proxy.port());
            wire = Some(proxy);
        }
        let pooler = Pooler::start(self.trial.kind, &ini, &database, &self.launch);
        if self.wire == Some(Between::ClientsAndPooler) {
            wire = Some(FaultProxy::before(pooler.port()));
        }
        let port = match (&wire, self.wire) {
            (Some(proxy), Some(Between::ClientsAndPooler)) => proxy.port(),
            _ => pooler.port(),
        };
        let (clients, pace) = match self.trial.form {
            Form::Quick => (12, Duration::from_millis(30)),
            Form::Full => (32, Duration::from_millis(40)),
        };
        let load = Load::start(&pooler.params(port), clients, pace);
        let (began, began_wall) = (Instant::now(), SystemTime::now());
        Stage {
            pooler,
            load,
            database,
            logs: vec![self.postgres.clone()],
            postgres: self.postgres,
            wire,
            trial: self.trial,
            due: self.due,
            loses_writes: self.loses_writes,
            began,
            began_wall,
            struck: began,
            over: began,
            note: String::new(),
        }
    }
}

/// All running parts.
pub(super) struct Stage<'t> {
    // Dropped in this order: the pooler's final checks need the database.
    pub(super) pooler: Pooler,
    load: Load,
    pub(super) database: Database,
    pub(super) postgres: Postgres,
    /// The servers whose logs show logins.
    pub(super) logs: Vec<Postgres>,
    wire: Option<FaultProxy>,
    pub(super) trial: &'t Trial,
    due: &'static [&'static str],
    loses_writes: bool,
    began: Instant,
    began_wall: SystemTime,
    struck: Instant,
    over: Instant,
    /// A figure that only this fault has.
    pub(super) note: String,
}

impl Stage<'_> {
    /// The fault proxy.
    pub(super) fn wire(&self) -> &FaultProxy {
        self.wire.as_ref().expect("this scene has a wire")
    }

    /// How long a fault of some duration lasts.
    pub(super) fn last(&self) {
        thread::sleep(self.trial.lasts());
    }

    /// After a calm period the fault is applied; it is over when `blow` returns.
    pub(super) fn strike<T>(&mut self, blow: impl FnOnce(&Self) -> T) -> T {
        thread::sleep(self.trial.calm());
        assert!(self.load.events_from(0).iter().any(|event| event.failed.is_none()), "nothing works\n{}", self.log());
        self.struck = Instant::now();
        let outcome = blow(self);
        self.over = Instant::now();
        outcome
    }

    /// The end of the pooler's log.
    pub(super) fn log(&self) -> String {
        let log = self.pooler.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Waits for recovery, ends the load, and runs the final checks.
    pub(super) fn finish(mut self) -> Report {
        let recovered = self.await_recovery();
        if self.trial.kind == Kind::Weir {
            assert!(recovered, "not every client was served again {RECOVERY_LIMIT:?} after the fault\n{}", self.log());
        }
        thread::sleep(self.trial.calm());
        let stopped = Instant::now();
        let load = std::mem::replace(&mut self.load, Load::start(&self.pooler.params(1), 0, Duration::ZERO));
        let harvest = load.stop();
        assert!(harvest.mixed_up.is_empty(), "mixed up: {:?}\n{}", harvest.mixed_up, self.log());
        let mut errors = BTreeMap::new();
        for code in harvest.events.iter().filter_map(|event| event.failed.clone()) {
            *errors.entry(code).or_insert(0) += 1;
        }
        if self.trial.kind == Kind::Weir {
            let undue: Vec<_> = errors.iter().filter(|(code, _)| !self.due.contains(&code.as_str())).collect();
            assert!(undue.is_empty(), "clients got errors that this fault does not allow: {undue:?}\n{}", self.log());
            self.assert_servers_rest();
        }
        self.assert_ledger(&harvest.written);
        let figures = Figures {
            began: self.began,
            struck: self.struck,
            over: self.over,
            stopped,
            logins: self.logins(),
            errors,
            note: std::mem::take(&mut self.note),
        };
        let report = Report::of(self.trial, &harvest.events, figures);
        if self.trial.kind == Kind::Weir {
            self.assert_weir_rests();
        }
        report
    }

    /// Whether each client was served after the fault, and the goodput is near the one before.
    fn await_recovery(&self) -> bool {
        let end = Instant::now() + RECOVERY_LIMIT;
        let mut served = vec![false; self.load.clients()];
        let (mut seen, mut all) = (0, false);
        let mut recent: Vec<Instant> = Vec::new();
        let mut before = 0;
        while Instant::now() < end {
            for event in self.load.events_from(seen) {
                seen += 1;
                if event.failed.is_some() {
                    continue;
                }
                before += usize::from(event.at < self.struck);
                if event.at > self.over {
                    served[event.client] = true;
                    recent.push(event.at);
                }
            }
            all = all || served.iter().all(|served| *served);
            let half = Duration::from_millis(500);
            recent.retain(|at| at.elapsed() < half);
            let usual = before as f64 / (self.struck - self.began).as_secs_f64() / 2.0;
            if all && (self.trial.form == Form::Quick || recent.len() as f64 >= 0.9 * usual) {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        all
    }

    /// No backend is busy or in a transaction, and there are no more than the pool may have.
    fn assert_servers_rest(&self) {
        eventually("no backend is left busy", || {
            let backends = self.last_server_backends();
            let busy = backends.iter().any(|state| state != "idle");
            if busy || backends.len() > POOL as usize { Err(backends) } else { Ok(()) }
        });
    }

    fn last_server_backends(&self) -> Vec<String> {
        let server = self.logs.last().unwrap_or(&self.postgres);
        let sql = format!(
            "SELECT state FROM pg_stat_activity WHERE datname = '{}' AND usename <> 'postgres'",
            self.database.name()
        );
        let answer = server.superuser("postgres").query(&sql).unwrap_or_else(|error| panic!("{error}"));
        answer.rows.into_iter().map(|row| row.into_iter().next().flatten().unwrap_or_default()).collect()
    }

    /// Each acknowledged write is there, and no write is there twice.
    fn assert_ledger(&self, written: &BTreeSet<String>) {
        let server = self.logs.last().unwrap_or(&self.postgres);
        let answer = server.superuser(self.database.name()).query("SELECT token, count(*) FROM ledger GROUP BY 1");
        let answer = answer.unwrap_or_else(|error| panic!("the ledger: {error}"));
        let mut there = BTreeSet::new();
        for row in &answer.rows {
            let token = row[0].clone().unwrap_or_default();
            assert_eq!(row[1].as_deref(), Some("1"), "{token} was written more than once");
            there.insert(token);
        }
        let lost: Vec<_> = written.difference(&there).collect();
        assert!(self.loses_writes || lost.is_empty(), "acknowledged and lost: {lost:?}");
    }

    /// SHOW POOLS is as at the start.
    fn assert_weir_rests(&self) {
        if let Pooler::Weir(weir) = &self.pooler {
            weir.assert_at_rest();
        }
    }

    /// The times of the servers' logins, in seconds from the load's beginning.
    fn logins(&self) -> Vec<f64> {
        let began = self.began_wall.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let mark = format!("database={} ", self.database.name());
        let mut logins = Vec::new();
        for server in &self.logs {
            for line in server.server().log().lines() {
                if line.contains("connection authorized: user=app") && format!("{line} ").contains(&mark) {
                    let at = line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
                    logins.extend(at.map(|at| at - began));
                }
            }
        }
        logins
    }
}
