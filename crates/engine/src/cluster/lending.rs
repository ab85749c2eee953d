//! One pool over several workers, as engines carry it out: letters between a pool's home and its guests, and servers that move.
//!
//! Which letter says what when is decided in `weir_pool::lending`; here it is written and read, and the servers, with all
//! that is known of them, go along with their sockets. A server moves only between two links, clean, so that what moves is a
//! value, and the worker that gets it goes on as if it had always had it.
//!
//! Always true: a server is in the table of one worker, or in one letter; whatever becomes of it at a guest, the home hears of
//! it once, because what is borrowed is compared with what is there at each settling of the guest's pool.

use std::fmt;
use std::sync::Arc;

use weir_auth::Secret;
use weir_base::{Peer, Time, WorkerId};
use weir_pool::lending::BorrowRequest;
use weir_pool::{Acquire, Ages, Release};
use weir_session::login::LearnedCredentials;
use weir_session::{Cause, SchemaVersion, ServerError};

use crate::Engine;
use crate::cluster::messages::{Message, Payload};
use crate::cluster::permits::PoolId;
use crate::cluster::state::{Asker, Away, Part};
use crate::common::FollowUp;
use crate::entry::reported::Welcome;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{Entry, ServerPhase, ServerSlot};
use crate::pools::PoolSlot;
use crate::port::{Io, Level};
use crate::traffic::reading::ServerReading;

/// A letter about one pool.
#[derive(Debug)]
pub(crate) struct Loan {
    pool: PoolId,
    says: Says,
}

#[derive(Debug)]
enum Says {
    /// To the home: a server is wanted, for a client that has waited since then.
    Want { id: u32, since: Time },
    /// To the home: not any more.
    Withdraw,
    /// To the home: a server that was lent has come to its end.
    Gone(Peer),
    /// To the home: a server that was lent; its socket travels along.
    Back { lent: Peer, server: Moved },
    /// To the home: there are clients here, or none any more.
    Inhabited(bool),
    /// To the home: what a client's login taught, for the logins at the server.
    Taught(Box<Taught>),
    /// To the home: why do its clients wait?
    Why,
    /// To a guest: why those wait for whom it asked.
    Because(Cause, String),
    /// To a guest: a server in answer to an ask; its socket travels along.
    Lend(Box<Lent>),
    /// To a guest: the server that was on its way in answer to this ask is lost.
    Missed(u32),
    /// To a guest: no server for this ask.
    Refused { id: u32, why: weir_pool::RefuseReason, error: Option<(ServerError, bool)>, retry_at: Time },
    /// To a guest: since when somebody elsewhere waits; never: nobody.
    OldestWaiter(Time),
    /// To a guest: what it has by now is closed as it becomes free.
    Recall,
}

/// What is lent.
#[derive(Debug)]
struct Lent {
    id: u32,
    /// The server's handle at home.
    lent: Peer,
    server: Moved,
    ages: Ages,
    /// It has been unused for so long that it is checked first.
    check: bool,
    welcome: Option<Welcome>,
    definitions: SchemaVersion,
}

/// What a login taught.
pub(crate) struct Taught {
    pub(crate) learnt: LearnedCredentials,
    pub(crate) asked: Option<Secret>,
}

/// A server between two tables.
struct Moved(Box<ServerSlot>);

impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-{:#x}", self.0.id)
    }
}

impl fmt::Debug for Taught {
    // Nothing secret reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taught")
    }
}

/// What is said of a pool, on its way.
fn of_pool(pool: PoolId, says: Says) -> Message {
    Message(Payload::Loan(Box::new(Loan { pool, says })))
}

impl PoolSlot {
    /// Whether somebody waits for one of its servers, here or, as far as is known, at another worker; or an operator does.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let elsewhere = || matches!(&self.part, Part::Guest(guest) if guest.borrower.is_wanted_elsewhere());
        self.pool.oldest_wait().is_some() || self.pool.is_paused() || elsewhere()
    }

    fn loan(&self, says: Says) -> Message {
        of_pool(self.id(), says)
    }
}

/// What a worker shows of a pool.
#[derive(Debug)]
pub struct Line<'a> {
    /// The pool's name.
    pub database: &'a Arc<str>,
    /// Its user on the server.
    pub user: &'a Arc<str>,
    /// Who of this worker's is next to be served, and since when they wait.
    pub head: Option<(Peer, Time)>,
    /// Since when a server idles here.
    pub idle: Option<Time>,
    /// It hands nothing out now, or is to go.
    pub stopped: bool,
}

/// For tests and the simulator.
impl Engine {
    /// The pools of this worker.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.pools.iter().map(|slot| Line {
            database: &slot.name,
            user: &slot.user,
            head: slot.pool.waiting().find(|(peer, _)| BorrowRequest::from_handle(*peer).is_none()),
            idle: slot.pool.longest_idle(),
            stopped: slot.removed || slot.pool.is_paused(),
        })
    }

    /// Whether a client has a server now.
    pub fn is_served(&self, client: Peer) -> bool {
        self.peers.get_client(client).is_some_and(|client| client.link.is_some())
    }
}

/// At the home.
impl Engine {
    /// The pool has given a server to a guest's ask: it moves.
    pub(crate) fn lend<I: Io>(&mut self, ask: BorrowRequest, server: Peer, check: bool, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.link = None;
        let ix = slot.pool;
        let Some((_, phase)) = slot.up() else { return };
        *phase = ServerPhase::Lending { ask, check };
        if let Some(lender) = self.pools.get_mut(ix).part.lender() {
            lender.answered(ask, true);
        }
        io.detach(server);
    }

    /// The socket of a server that is lent is free to travel.
    fn lent<I: Io>(&mut self, mut server: Box<ServerSlot>, ask: BorrowRequest, check: bool, io: &mut I) {
        let (lent, ix) = (server.peer, server.pool);
        let on = server.connection.on().map(|(name, address)| (name.into(), address));
        self.packed(&mut server);
        let slot = self.pools.get(ix);
        let unwanted = slot.pool.is_unwanted(lent) || server.marked_for_close;
        let says = Lent {
            id: ask.id,
            lent,
            server: Moved(server),
            ages: slot.pool.ages(lent),
            check,
            welcome: slot.welcome.clone(),
            definitions: slot.accepted.schema_version(),
        };
        let letter = slot.loan(Says::Lend(Box::new(says)));
        self.cluster.lent.insert(lent, Away { pool: ix, guest: ask.from, on });
        io.post(ask.from, letter, Some(lent));
        if unwanted {
            // Guests were told before this one was among them.
            self.recall_from(ix, ask.from, io);
        }
    }

    /// The server for a guest's ask is gone before it left.
    pub(crate) fn loan_missed<I: Io>(&mut self, ix: PoolIx, ask: BorrowRequest, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.part.lender() {
            lender.server_ended(ask.from);
        }
        let letter = slot.loan(Says::Missed(ask.id));
        io.post(ask.from, letter, None);
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// The pool refuses a guest's ask.
    pub(crate) fn refuse_ask<I: Io>(
        &mut self,
        now: Time,
        ix: PoolIx,
        ask: BorrowRequest,
        why: weir_pool::RefuseReason,
        io: &mut I,
    ) {
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.part.lender() {
            lender.answered(ask, false);
        }
        let retry_at = slot.pool.snapshot(now).retry_at.unwrap_or(now);
        let error = slot.failures.last().map(|(error, too_slow)| (error.clone(), too_slow));
        let letter = slot.loan(Says::Refused { id: ask.id, why, error, retry_at });
        io.post(ask.from, letter, None);
    }

    /// Whatever is lent is not to be used again once it is free.
    pub(crate) fn recall<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        if let Part::Home(lender) = &self.pools.get(ix).part {
            lender.with_servers().for_each(|guest| self.recall_from(ix, guest, io));
        }
    }

    /// The same, of what this guest has.
    pub(crate) fn recall_from<I: Io>(&self, ix: PoolIx, guest: WorkerId, io: &mut I) {
        io.post(guest, self.pools.get(ix).loan(Says::Recall), None);
    }

    fn wanted<I: Io>(&mut self, now: Time, ask: BorrowRequest, pool: &PoolId, since: Time, io: &mut I) {
        let config = self.common.config().pool(&pool.database).filter(|config| self.fits(config, &pool.user));
        let Some(config) = config else {
            // A reload has taken it away, or has not brought it yet; the guest will hear of it, too.
            let (why, error, retry_at) = (weir_pool::RefuseReason::ShuttingDown, None, now);
            let says = Says::Refused { id: ask.id, why, error, retry_at };
            return io.post(ask.from, of_pool(pool.clone(), says), None);
        };
        let ix = self.pool_of(&pool.database, &config, &pool.user, now);
        let slot = self.pools.get_mut(ix);
        let Part::Home(lender) = &mut slot.part else { return };
        match lender.request(&mut slot.pool, ask, since, now) {
            Acquire::Granted { server, check } => self.lend(ask, server, check, io),
            Acquire::Queued => {}
            Acquire::Refused(why) => self.refuse_ask(now, ix, ask, why, io),
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A guest's clients want to know why they wait. There is always an answer: they are told nothing before.
    fn asked_why<I: Io>(&mut self, now: Time, from: WorkerId, pool: PoolId, io: &mut I) {
        let (cause, detail) = match self.pools.find(&pool.database, &pool.user) {
            Some(ix) => self.cause_of_wait(now, ix),
            None => (Cause::ServerDown, "A reload has taken the pool away.".to_owned()),
        };
        let says = Says::Because(cause, detail);
        io.post(from, of_pool(pool, says), None);
    }

    /// Whether a handle of a pool that lives here names a server that is with a guest.
    pub(crate) fn is_lent(&self, server: Peer) -> bool {
        self.cluster.lent.contains_key(&server)
    }

    /// A server that was lent is gone, or its socket has not come with it.
    fn lent_gone(&mut self, now: Time, lent: Peer) {
        let Some(Away { pool: ix, guest, .. }) = self.cluster.lent.remove(&lent) else { return };
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.part.lender() {
            lender.server_ended(guest);
        }
        slot.pool.lost(lent, now);
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A server that was lent is back.
    fn back<I: Io>(&mut self, now: Time, lent: Peer, mut server: Box<ServerSlot>, peer: Peer, io: &mut I) {
        let Some(&Away { pool: ix, guest, .. }) = self.cluster.lent.get(&lent) else { return io.close(peer) };
        let Some(proof) = self.unpacked(&mut server, peer, ix) else {
            io.close(peer);
            return self.lent_gone(now, lent);
        };
        self.cluster.lent.remove(&lent);
        server.marked_for_close |= self.backends.dns.has_vanished(&server);
        let slot = self.pools.get_mut(ix);
        if let Some(lender) = slot.part.lender() {
            lender.server_ended(guest);
        }
        self.peers.put(peer, Entry::Server(server));
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
        let answer = self.pools.get_mut(ix).pool.returned(lent, peer, proof, now);
        self.passed_on(now, ix, peer, answer, io);
    }
}

/// At a guest.
impl Engine {
    /// The guest's pool wants a server.
    pub(crate) fn ask_home<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        let Part::Guest(guest) = &mut slot.part else { return };
        let (id, since) = guest.borrower.request(&slot.pool, now);
        let home = guest.home;
        io.post(home, slot.loan(Says::Want { id, since }), None);
    }

    /// Whether a server that is clean goes home instead of to the next client here.
    #[inline]
    pub(crate) fn goes_home(&self, ix: PoolIx, server: Peer) -> bool {
        let slot = self.pools.get(ix);
        match &slot.part {
            Part::Home(_) => false,
            Part::Guest(guest) => {
                guest.borrower.returns_to_owner(&slot.pool, server) && !self.admin.halt.is_suspended()
            }
        }
    }

    /// A clean server, which the guest's pool counts as somebody's, begins its way home.
    pub(crate) fn send_home<I: Io>(&mut self, server: Peer, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        let Some((_, phase)) = slot.up() else { return };
        *phase = ServerPhase::Returning;
        io.detach(server);
    }

    /// The socket of a server that goes home is free to travel.
    fn returned<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let slot = self.pools.get_mut(ix);
        let Part::Guest(guest) = &mut slot.part else { return };
        let home = guest.home;
        let Some(lent) = guest.borrower.returned(&mut slot.pool, peer, now) else { return };
        self.packed(&mut server);
        let letter = self.pools.get(ix).loan(Says::Back { lent, server: Moved(server) });
        io.post(home, letter, Some(peer));
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A server has come.
    fn borrowed<I: Io>(&mut self, now: Time, from: WorkerId, pool: PoolId, lent: Lent, peer: Peer, io: &mut I) {
        let Lent { id, lent, server: Moved(mut server), ages, check, welcome, definitions } = lent;
        let ix = self.guest_of(&pool);
        let proof = ix.and_then(|ix| self.unpacked(&mut server, peer, ix).map(|proof| (ix, proof)));
        let Some((ix, proof)) = proof else {
            // The pool is gone here, or the server said something when it was about to leave.
            io.close(peer);
            return self.not_taken(from, pool, id, lent, io);
        };
        let slot = self.pools.get_mut(ix);
        let Part::Guest(guest) = &mut slot.part else { return };
        slot.accepted.share_schema_version(definitions);
        slot.welcome = welcome.or(slot.welcome.take());
        slot.failures.clear();
        self.peers.put(peer, Entry::Server(server));
        let mut answer = guest.borrower.received(&mut slot.pool, id, (peer, lent), ages, proof, now);
        if let Release::Next { check: checked, .. } = &mut answer {
            *checked |= check;
        }
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
        self.passed_on(now, ix, peer, answer, io);
    }

    /// A server that has come is of no use: the home hears that it is gone, and another one is asked for.
    fn not_taken<I: Io>(&mut self, home: WorkerId, pool: PoolId, id: u32, lent: Peer, io: &mut I) {
        if let Some(ix) = self.guest_of(&pool) {
            let slot = self.pools.get_mut(ix);
            if let Part::Guest(guest) = &mut slot.part {
                guest.borrower.request_failed(&mut slot.pool, id);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
        io.post(home, of_pool(pool, Says::Gone(lent)), None);
    }

    pub(crate) fn is_guest(&self, ix: PoolIx) -> bool {
        self.pools.get(ix).part.is_guest()
    }

    /// Somebody is to be told why there is no server; the home is asked when the pool is settled.
    pub(crate) fn ask_why(&mut self, ix: PoolIx, asker: Asker) {
        if let Part::Guest(guest) = &mut self.pools.get_mut(ix).part {
            guest.askers.push(asker);
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// The home has said why.
    fn heard_why<I: Io>(&mut self, now: Time, pool: &PoolId, why: (Cause, String), io: &mut I) {
        let Some(ix) = self.guest_of(pool) else { return };
        let Part::Guest(guest) = &mut self.pools.get_mut(ix).part else { return };
        guest.asked_why = false;
        // Within a suspension nobody is told anything; RESUME asks again.
        if !self.admin.halt.is_suspended() {
            let askers = std::mem::take(&mut guest.askers);
            self.wait_explained(now, ix, &askers, why, io);
        }
    }

    /// Those who waited at a guest for a pool that is gone are not told by the home any more.
    fn refuse_askers<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        let Part::Guest(guest) = &mut slot.part else { return };
        if !slot.removed || guest.askers.is_empty() {
            return;
        }
        for asker in std::mem::take(&mut guest.askers) {
            if let Asker::Refused(client) = asker {
                let refusal = self.refusal(ix, weir_pool::RefuseReason::ShuttingDown);
                self.refuse_handle(now, client, refusal, io);
            }
        }
    }

    fn guest_of(&self, pool: &PoolId) -> Option<PoolIx> {
        self.pools.find(&pool.database, &pool.user).filter(|ix| self.pools.get(*ix).part.is_guest())
    }

    /// Tells the home what a client's login has taught.
    pub(crate) fn teach<I: Io>(&mut self, ix: PoolIx, taught: Taught, io: &mut I) {
        let slot = self.pools.get(ix);
        if let Part::Guest(guest) = &slot.part {
            io.post(guest.home, slot.loan(Says::Taught(Box::new(taught))), None);
        }
    }
}

/// On both sides.
impl Engine {
    /// A letter about a pool of which this worker is the home or a guest.
    pub(crate) fn heard_loan<I: Io>(&mut self, now: Time, from: WorkerId, loan: Loan, peer: Option<Peer>, io: &mut I) {
        let Loan { pool, says } = loan;
        match (says, peer) {
            (Says::Want { id, since }, _) => self.wanted(now, BorrowRequest { from, id }, &pool, since, io),
            (Says::Why, _) => self.asked_why(now, from, pool, io),
            (Says::Because(cause, detail), _) => self.heard_why(now, &pool, (cause, detail), io),
            (Says::Gone(lent), _) => self.lent_gone(now, lent),
            (Says::Back { lent, server }, Some(peer)) => self.back(now, lent, server.0, peer, io),
            (Says::Lend(lent), Some(peer)) => self.borrowed(now, from, pool, *lent, peer, io),
            (Says::Back { lent, .. }, None) => {
                log(Level::Error, format_args!("a server arrived without its socket"), io);
                self.lent_gone(now, lent);
            }
            (Says::Lend(lent), None) => {
                log(Level::Error, format_args!("a server arrived without its socket"), io);
                self.not_taken(from, pool, lent.id, lent.lent, io);
            }
            (says, _) => self.told_of_loan(now, from, &pool, says, io),
        }
    }

    /// A pool whose first clients live with a guest begins at home with what their logins have taught.
    fn found_by_guest(&mut self, now: Time, pool: &PoolId, says: &Says) -> Option<PoolIx> {
        if !matches!(says, Says::Taught(_) | Says::Inhabited(true)) {
            return None;
        }
        let config = self.common.config().pool(&pool.database).filter(|config| self.fits(config, &pool.user))?;
        Some(self.pool_of(&pool.database, &config, &pool.user, now))
    }

    /// What is said to a pool that is there; what is said to none needs no answer.
    fn told_of_loan<I: Io>(&mut self, now: Time, from: WorkerId, pool: &PoolId, says: Says, io: &mut I) {
        let Some(ix) = self.pools.find(&pool.database, &pool.user).or_else(|| self.found_by_guest(now, pool, &says))
        else {
            return;
        };
        let slot = self.pools.get_mut(ix);
        match (&mut slot.part, says) {
            (Part::Home(lender), Says::Withdraw) => lender.withdraw(&mut slot.pool, from, now),
            (Part::Home(lender), Says::Inhabited(yes)) => {
                lender.set_has_clients(from, yes);
                self.count_client(ix, 0);
            }
            (Part::Home(_), Says::Taught(taught)) => slot.credentials.learn(&taught.learnt, &taught.asked),
            (Part::Guest(guest), Says::Missed(id)) => guest.borrower.request_failed(&mut slot.pool, id),
            (Part::Guest(guest), Says::Refused { id, why, error, retry_at }) => {
                guest.borrower.request_refused(&mut slot.pool, id, why, retry_at, now);
                error.into_iter().for_each(|(error, too_slow)| slot.failures.add(error, too_slow, now));
            }
            (Part::Guest(guest), Says::OldestWaiter(since)) => guest.borrower.set_waiting_elsewhere(since),
            (Part::Guest(_), Says::Recall) => {
                slot.pool.reconnect(now);
                self.recheck_linked(ix);
            }
            _ => log(Level::Error, format_args!("a letter about a loan reached the wrong worker"), io),
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A server's socket is free to travel, as it was asked to be.
    pub(crate) fn server_detached<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, io: &mut I) {
        match server.phase() {
            Some(ServerPhase::Lending { ask, check }) => self.lent(server, ask, check, io),
            Some(ServerPhase::Returning) => self.returned(now, server, io),
            _ => self.peers.put(server.peer, Entry::Server(server)),
        }
    }

    /// Takes a server's ties to this worker off it.
    fn packed(&mut self, server: &mut ServerSlot) {
        if std::mem::replace(&mut server.armed, Time::NEVER) != Time::NEVER {
            self.common.timers().forget();
            self.tidy_timers();
        }
        server.reading = ServerReading::default();
    }

    /// Ties a server to its new handle and pool, with the proof that it is clean.
    fn unpacked(&mut self, server: &mut ServerSlot, peer: Peer, ix: PoolIx) -> Option<weir_session::Clean> {
        (server.peer, server.pool) = (peer, ix);
        let welcome = self.pools.get(ix).welcome.as_ref().map(|welcome| welcome.params.clone());
        let (up, phase) = server.up()?;
        *phase = ServerPhase::Idle;
        welcome.iter().for_each(|known| up.share_params(known));
        up.prove_clean()
    }

    /// What is due between the workers of a pool, which has nothing to do by itself; and when something will be, if nothing
    /// happens before.
    pub(crate) fn settle_loans<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Time {
        match &self.pools.get(ix).part {
            Part::Home(lender) if lender.lent_count() == 0 => Time::NEVER,
            Part::Home(_) => self.tell_guests(now, ix, io),
            Part::Guest(_) => self.settle_guest(now, ix, io),
        }
    }

    fn tell_guests<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Time {
        let slot = self.pools.get_mut(ix);
        let Part::Home(lender) = &mut slot.part else { return Time::NEVER };
        let (news, again) = lender.updates(&slot.pool, now);
        for (guest, since) in news {
            io.post(guest, slot.loan(Says::OldestWaiter(since)), None);
        }
        again
    }

    /// The home hears at once of what has ended at a guest, within a suspension too: it counts it until then.
    pub(crate) fn tell_ended<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        let Part::Guest(guest) = &mut slot.part else { return };
        let (home, ended) = (guest.home, guest.borrower.take_ended(&slot.pool));
        for lent in ended {
            io.post(home, slot.loan(Says::Gone(lent)), None);
        }
    }

    fn settle_guest<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Time {
        self.refuse_askers(now, ix, io);
        self.tell_ended(ix, io);
        // Under a limit that crosses pools nothing may idle where it can't be taken from.
        let keep = !self.common.config().is_limited(&self.pools.get(ix).name, &self.pools.get(ix).user);
        loop {
            let slot = self.pools.get_mut(ix);
            let Part::Guest(guest) = &mut slot.part else { return Time::NEVER };
            let Some(server) = guest.borrower.take_to_return(&mut slot.pool, keep, now) else { break };
            self.send_home(server, io);
        }
        let slot = self.pools.get_mut(ix);
        let Part::Guest(guest) = &mut slot.part else { return Time::NEVER };
        let (home, mut says) = (guest.home, Vec::new());
        if guest.borrower.withdraw(&mut slot.pool) {
            says.push(Says::Withdraw);
        }
        let (anew, again) = guest.borrower.renew_request(&slot.pool, now);
        says.extend(anew.map(|(id, since)| Says::Want { id, since }));
        if !guest.askers.is_empty() && !std::mem::replace(&mut guest.asked_why, true) {
            says.push(Says::Why);
        }
        let inhabited = slot.clients > 0;
        if guest.borrower.clients_changed(inhabited) {
            says.push(Says::Inhabited(inhabited));
        }
        let again = again.min(guest.borrower.return_due(&slot.pool));
        for says in says {
            io.post(home, slot.loan(says), None);
        }
        again
    }
}
