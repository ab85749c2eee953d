//! Commands of operators: sent to all workers, executed by each, and answered; and reloads of the configuration.

use std::sync::Arc;

use weir_admin::{
    Adopted, Author, ChangeError, Command, CommandError, DatabaseStats, Persisted, Reply, Report, ServiceState, Show,
    Snapshot,
};
use weir_base::{Peer, Time, WorkerId};
use weir_config::Config;
use weir_session::Refusal;

use crate::admin::console;
use crate::admin::gather::{Caller, Gathered, Undo};
use crate::admin::halt::{Until, Watch};
use crate::admin::reload::{self, Reload, SetTls};
use crate::admin::report::{self, Tables};
use crate::cluster::messages::{Drain, Message, Payload, WorkerAnswer, WorkerCommand};
use crate::common::{Job, cx};
use crate::engine::Engine;
use crate::log::log;
use crate::port::{Io, Level, Reread, Work};

/// How the error of a configuration begins whose certificates can't be used.
const TLS_FAULT: &str = "TLS setup failed: ";

/// The result of a command on this worker.
enum Outcome {
    Done,
    Report(Box<Report>),
    /// It is answered when this condition holds.
    Wait(Option<String>, Until),
    /// It is not answered.
    Silent,
}

/// From one worker to all and back.
impl Engine {
    /// Sends a command to all workers; returns its number.
    pub(crate) fn scatter<I: Io>(
        &mut self,
        now: Time,
        caller: Caller,
        command: Command,
        to_workers: &WorkerCommand,
        io: &mut I,
    ) -> u64 {
        if let WorkerCommand::Adopt(config) = to_workers {
            self.admin.reloads.set_newest(config.clone());
        }
        self.admin.gatherings.scatter(cx!(self, now, io), caller, command, to_workers)
    }

    /// Withdraws a command that waits: what it stopped continues. Returns whether there was one.
    pub(super) fn take_back<I: Io>(&mut self, now: Time, id: u64, io: &mut I) -> bool {
        let cx = cx!(self, now, io);
        match self.admin.gatherings.take_back(cx, id) {
            None => return false,
            Some(Undo::Nothing) => {}
            Some(Undo::Resume(name)) => {
                self.scatter(now, Caller::Engine, Command::Resume(name.clone()), &WorkerCommand::Resume(name), io);
            }
        }
        true
    }

    /// Executes a command from a worker, and answers it, at once, or when its condition holds.
    pub(crate) fn carry_out<I: Io>(&mut self, now: Time, from: WorkerId, id: u64, command: WorkerCommand, io: &mut I) {
        match self.outcome(now, command, io) {
            Ok(Outcome::Done) => answer(from, id, WorkerAnswer::Done, io),
            Ok(Outcome::Report(report)) => answer(from, id, WorkerAnswer::Report(report), io),
            Ok(Outcome::Silent) => {}
            Ok(Outcome::Wait(name, until)) => {
                // First the follow-ups of the command in the pools.
                self.work_off(now, io);
                self.admin.halt.watch(Watch { from, id, name, until });
                self.check_watches(io);
            }
            Err(error) => answer(from, id, WorkerAnswer::Failed(error), io),
        }
    }

    fn outcome<I: Io>(&mut self, now: Time, command: WorkerCommand, io: &mut I) -> Result<Outcome, CommandError> {
        match command {
            WorkerCommand::Report { counts } => {
                self.look_for_silence(now, io);
                return Ok(Outcome::Report(Box::new(self.report(counts))));
            }
            WorkerCommand::Statements => return Ok(Outcome::Report(Box::new(self.statements_report()))),
            WorkerCommand::Spans => {
                let (spans, spans_dropped) = self.sessions.statements.take_spans(|at| self.common.wall(at));
                return Ok(Outcome::Report(Box::new(Report { spans, spans_dropped, ..Report::default() })));
            }
            WorkerCommand::ResetStatements => self.sessions.statements.reset(),
            WorkerCommand::Health => {
                self.look_for_silence(now, io);
                return Ok(Outcome::Report(Box::new(self.health_report())));
            }
            WorkerCommand::Pause(name) => {
                self.pause_databases(now, name.as_deref(), io);
                return Ok(Outcome::Wait(name, Until::Quiet));
            }
            WorkerCommand::Suspend => {
                self.suspend(now, io);
                return Ok(Outcome::Wait(None, Until::Flushed));
            }
            WorkerCommand::WaitClose(name) => return Ok(Outcome::Wait(name, Until::Closed)),
            WorkerCommand::Forget(id) => {
                self.admin.halt.unwatch(id);
                return Ok(Outcome::Silent);
            }
            WorkerCommand::Adopt(config) => {
                io.adopt(&config);
                self.adopt(now, config, io);
                self.count_uncounted(io);
                self.admin.halt.adopt(self.common.config());
            }
            WorkerCommand::Resume(name) => self.resume_databases(now, name.as_deref(), io)?,
            WorkerCommand::Reconnect(name) => self.pools_reconnect(now, name.as_deref(), io),
            WorkerCommand::Retry(name) => self.retry_pools(now, name.as_deref(), io),
            WorkerCommand::Kill(name) => self.kill_databases(now, name.as_deref(), io),
            WorkerCommand::KillClient(id) => self.kill_client(now, id, io)?,
            WorkerCommand::Disable(name) => self.admin.halt.disable(name),
            WorkerCommand::Enable(name) => self.admin.halt.enable(&name),
            WorkerCommand::Drain(drain) => self.drain(now, drain, io),
        }
        Ok(Outcome::Done)
    }

    fn kill_client<I: Io>(&mut self, now: Time, id: u64, io: &mut I) -> Result<(), CommandError> {
        let client = self.peers.clients().find(|client| client.id == id && client.has_logged_in());
        let peer = client.map(|client| client.peer).ok_or(CommandError::ClientNotFound)?;
        self.refuse_handle(now, peer, Refusal::Killed, io);
        Ok(())
    }

    /// A worker has answered.
    pub(crate) fn answered<I: Io>(&mut self, now: Time, id: u64, answer: WorkerAnswer, io: &mut I) {
        if let Some(gathered) = self.admin.gatherings.answered(id, answer) {
            self.gathered(now, gathered, io);
        }
    }

    /// Not all workers have answered in time; the others' answers are used.
    pub(crate) fn gathered_too_late<I: Io>(&mut self, now: Time, id: u64, io: &mut I) {
        if let Some(gathered) = self.admin.gatherings.finish(id) {
            log(Level::Warning, format_args!("{} of the workers did not answer in time", gathered.left), io);
            self.gathered(now, gathered, io);
        }
    }

    fn gathered<I: Io>(&mut self, now: Time, mut gathered: Gathered, io: &mut I) {
        if matches!(gathered.command, Command::Show(_)) && gathered.left == 0 {
            self.observe_health(now, &mut gathered.report, io);
        }
        match gathered.caller {
            Caller::Engine => self.gathered_for_engine(now, &gathered, io),
            Caller::Console(peer) => self.gathered_for_console(now, peer, gathered, io),
            Caller::Control(number) => {
                let reply = match (&gathered.command, self.admin.reloads.take_persisted(number)) {
                    (_, Some(persisted)) => Reply::Changed(Ok(persisted)),
                    (Command::Show(_), None) => {
                        Reply::Report(Box::new(gathered.report), self.admin.reloads.newest().clone())
                    }
                    _ => Reply::Done,
                };
                io.answer(number, gathered.result.map(|()| reply));
            }
        }
    }

    fn gathered_for_console<I: Io>(&mut self, now: Time, peer: Peer, gathered: Gathered, io: &mut I) {
        let answer = match (gathered.result, &gathered.command) {
            (Err(error), _) => {
                log(Level::Error, format_args!("{error}"), io);
                console::failure(&error)
            }
            (Ok(()), Command::Show(what)) => {
                let hides_queries = self.console(peer).is_none_or(|console| !console.is_admin());
                let config = self.common.config();
                let snapshot = Snapshot {
                    report: &gathered.report,
                    config,
                    version: self.admin.version(config.format),
                    now_wall: self.common.wall(now),
                    hides_queries,
                };
                return self.send_table(peer, *what, weir_admin::show(*what, &snapshot), io);
            }
            (Ok(()), command) => console::complete(command.tag().as_bytes()),
        };
        self.answer_console(peer, &answer, io);
    }

    /// A command of the engine itself: the figures for the log, or whether an operator is connected.
    fn gathered_for_engine<I: Io>(&mut self, now: Time, gathered: &Gathered, io: &mut I) {
        let Gathered { command, report, left, .. } = gathered;
        match command {
            Command::Show(Show::Stats) => {
                let line = DatabaseStats::sum(&report.stats).averages().line();
                log(Level::Info, format_args!("{line}"), io);
            }
            Command::Show(Show::State) if *left == 0 && report.console_clients == 0 => self.resume_deserted(now, io),
            _ => {}
        }
    }
}

/// Reloads.
impl Engine {
    /// RELOAD.
    pub(crate) fn begin_reload<I: Io>(&mut self, now: Time, caller: Caller, author: Author, io: &mut I) {
        log(Level::Info, format_args!("RELOAD: reading {}", self.common.config().source.display()), io);
        let cx = cx!(self, now, io);
        self.admin.reloads.enqueue(cx, Reload::Read(caller, author, Reread::All));
    }

    /// A watched file has changed.
    pub(crate) fn begin_reread<I: Io>(&mut self, now: Time, reread: Reread, io: &mut I) {
        log(Level::Info, format_args!("a watched file has changed: reading it again"), io);
        let cx = cx!(self, now, io);
        self.admin.reloads.enqueue(cx, Reload::Read(Caller::Engine, Author::watch(), reread));
    }

    /// A helper has reread the configuration.
    pub(crate) fn config_read<I: Io>(&mut self, now: Time, read: Result<Arc<Config>, String>, io: &mut I) {
        let (caller, author) = match self.admin.reloads.finish() {
            Some(Reload::Read(caller, author, _)) => (caller, author),
            Some(Reload::SetTls(set)) => return self.tls_was_set(now, set, read, io),
            Some(Reload::Change(..)) | None => return,
        };
        match read {
            Ok(config) => {
                config.warnings.iter().for_each(|text| log(Level::Warning, format_args!("{text}"), io));
                let id = self.take_over(now, caller, ("RELOAD", author), config, io);
                self.caller_waits(caller, id);
            }
            Err(why) => {
                if why.starts_with(TLS_FAULT) {
                    // PgBouncer's line begins like this.
                    log(Level::Error, format_args!("{why}"), io);
                }
                for line in why.lines() {
                    log(Level::Error, format_args!("RELOAD failed, the old configuration stays: {line}"), io);
                }
                let error = CommandError::ReloadFailed(why);
                match caller {
                    Caller::Engine => {}
                    Caller::Console(peer) => self.answer_console(peer, &console::failure(&error), io),
                    Caller::Control(number) => io.answer(number, Err(error)),
                }
            }
        }
        self.admin.reloads.start(cx!(self, now, io));
    }

    fn caller_waits(&mut self, caller: Caller, id: u64) {
        if let Caller::Console(peer) = caller
            && let Some(console) = self.console(peer)
        {
            console.wait_for(Some(id));
        }
    }

    /// SET of encryption: a helper reads its files.
    pub(super) fn begin_set_tls<I: Io>(&mut self, now: Time, set: SetTls, io: &mut I) {
        let cx = cx!(self, now, io);
        self.admin.reloads.enqueue(cx, Reload::SetTls(set));
    }

    /// A helper has read the files of a SET of encryption. If they can't be used, the SET stands, without effect until
    /// another one makes them fit.
    fn tls_was_set<I: Io>(&mut self, now: Time, set: SetTls, read: Result<Arc<Config>, String>, io: &mut I) {
        let mut next = Config::clone(&self.admin.reloads.with_set(&set));
        match read {
            Ok(config) => (next.tls, next.pending_tls) = (config.tls.clone(), None),
            Err(why) => {
                let notice = "TLS settings could not be applied, still using old configuration";
                log(Level::Error, format_args!("{notice}: {why}"), io);
                if let Caller::Console(peer) = set.caller {
                    io.send(peer, &console::notice(notice, Some(&why)));
                }
            }
        }
        let SetTls { caller, author, key, value } = set;
        let next = Arc::new(next);
        self.record_config(now, ("SET", author), next.clone(), io);
        let id = self.scatter(now, caller, Command::Set { key, value }, &WorkerCommand::Adopt(next), io);
        self.caller_waits(caller, id);
        self.admin.reloads.start(cx!(self, now, io));
    }

    /// A helper has made a change of the control plane's, or has not.
    pub(crate) fn config_changed<I: Io>(
        &mut self,
        now: Time,
        made: Result<(Arc<Config>, Persisted), ChangeError>,
        io: &mut I,
    ) {
        let Some(Reload::Change(number, wanted, author)) = self.admin.reloads.finish() else { return };
        match made {
            Ok((config, persisted)) => {
                let edit = &wanted.edit;
                match &persisted {
                    Persisted::InFile => log(Level::Info, format_args!("{edit} was changed by the control plane"), io),
                    Persisted::InMemory(why) => {
                        let text = format_args!("{edit} was changed by the control plane until the restart: {why}");
                        log(Level::Warning, text, io);
                    }
                }
                self.admin.reloads.set_persisted(number, persisted);
                self.take_over(now, Caller::Control(number), ("CHANGE", author), config, io);
            }
            Err(why) => io.answer(number, Ok(Reply::Changed(Err(why)))),
        }
        self.admin.reloads.start(cx!(self, now, io));
    }

    fn take_over<I: Io>(
        &mut self,
        now: Time,
        caller: Caller,
        by: (&'static str, Author),
        config: Arc<Config>,
        io: &mut I,
    ) -> u64 {
        let config = reload::without_fixed(self.common.config(), config, io);
        self.record_config(now, by, config.clone(), io);
        self.scatter(now, caller, Command::Reload, &WorkerCommand::Adopt(config), io)
    }
}

/// The history of the configuration.
impl Engine {
    /// Has a configuration added to the history that the workers are about to adopt, by a command and its author.
    pub(super) fn record_config<I: Io>(
        &mut self,
        now: Time,
        (command, author): (&'static str, Author),
        after: Arc<Config>,
        io: &mut I,
    ) {
        let before = self.admin.reloads.newest().clone();
        let cx = cx!(self, now, io);
        let job = cx.common.begin_job(Job::RecordConfig);
        cx.io.help(job, Work::RecordConfig(Box::new(Adopted { author, command, before, after })));
    }
}

/// This worker's report.
impl Engine {
    /// A snapshot of everything but connections; with `by_user`, clients are counted by user.
    fn report(&self, by_user: bool) -> Report {
        let admin = &self.admin;
        let state = match admin.shutdown.draining() {
            Some(Drain::Servers) => ServiceState::Paused,
            _ => admin.halt.state(),
        };
        let mut console_stats = DatabaseStats::default();
        admin.console_counts.add_to(&mut console_stats, self.common.now());
        let report = Report {
            console_stats,
            refusals: admin.refusals.records(&self.pools),
            memory: report::memory(admin.client_counts, &self.sessions),
            statement_totals: self.sessions.statements.totals(),
            serving: state,
            draining: admin.shutdown.is_draining() || admin.shutdown.is_announced(),
            paused: admin.halt.paused().clone(),
            disabled: admin.halt.disabled().clone(),
            dns: self.backends.dns.records(self.common.now()),
            peers: self.peer_pools(),
            cluster: self.cluster.budget.view(),
            faults: admin.faults.clone(),
            findings: admin.findings.clone(),
            silent: self.backends.silence.report(|at| self.common.wall(at)),
            console_clients: admin.client_counts.consoles(),
            login_clients: self.clients_logging_in(),
            ..Report::default()
        };
        self.with_tables(|tables| report::with_tables(report, tables, by_user))
    }

    /// The same with the statistics of statements, which are large.
    fn statements_report(&self) -> Report {
        let (statements, pools) = self.sessions.statements.records(|at| self.common.wall(at));
        let mut report = self.report(false);
        report.statements = statements;
        pools
            .into_iter()
            .for_each(|(database, user, run)| *report.statement_time.entry((database, user)).or_default() += run);
        report
    }

    /// Calls `make` with the input of reports.
    pub(super) fn with_tables<R>(&self, make: impl FnOnce(&Tables<'_>) -> R) -> R {
        make(&Tables {
            common: &self.common,
            params: &self.sessions.params,
            peers: &self.peers,
            pools: &self.pools,
            queries: &self.entry.queries,
            throttle: &self.backends.throttle,
            is_lent: &|server| self.is_lent(server),
        })
    }

    /// Clients that are not logged in yet.
    fn clients_logging_in(&self) -> u32 {
        self.admin.client_counts.logging_in(self.pools.iter().map(|slot| slot.clients).sum())
    }

    /// Asserts that the counts of clients are right. Walks over all of them.
    pub(crate) fn check_client_counts(&self) {
        let (mut counts, mut logging_in) = (crate::admin::client_counts::ClientCounts::default(), 0);
        for client in self.peers.clients() {
            counts.add(&client.phase);
            logging_in += u32::from(client.phase.is_unauthenticated());
        }
        let expected = (self.admin.client_counts, self.clients_logging_in());
        assert_eq!(expected, (counts, logging_in), "clients are miscounted");
    }
}

/// Sends an answer to a worker.
pub(super) fn answer<I: Io>(to: WorkerId, id: u64, answer: WorkerAnswer, io: &mut I) {
    io.post(to, Message(Payload::CommandAnswer { id, answer }), None);
}
