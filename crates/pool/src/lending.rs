//! One pool over several workers: who lends a server to whom, and when it comes back.
//!
//! A pool has a *home*, whose [`Pool`] owns the limit, opens and closes servers, and keeps the one line of all who wait. Other
//! workers are its *guests*: each has a [`Pool`] of its own for its clients, which opens nothing but asks the home instead
//! ([`Borrower::ask`]). The ask stands in the home's queue under a handle of its own kind, with the age of the guest's oldest
//! wait, so it takes its turn like a client. A server that is given to it is *lent*: for the home's pool it is linked to the
//! ask, and counts, until it comes back ([`Pool::returned`]) or is told to be gone.
//!
//! A guest keeps a server as long as it has work for it. It sends it home
//!
//! - at its release, when somebody elsewhere has waited longer than its own oldest by more than [`SLACK`], or when nobody waits
//!   here and somebody does elsewhere;
//! - when it has idled here for [`IDLE_KEEP`].
//!
//! So that a guest knows of those elsewhere, the home tells it of the oldest: at once when there had been nobody, otherwise at
//! most once in [`UPDATE_INTERVAL`]; and as seldom an ask is made anew when another client of the guest's has become the oldest. Therefore,
//! letters' time apart: no server idles at one worker while somebody waits at another; and whoever gives a server on knows who
//! was first in line at every worker [`UPDATE_INTERVAL`] ago, and passes none of them over for one who came later by more than [`SLACK`].
//!
//! Pure: letters are values here, and somebody else carries them. They must arrive in the order in which they were sent. Knows
//! no sockets and no sessions.

use std::collections::BTreeMap;

use weir_base::{Peer, Span, Time, WorkerId};

use crate::words::{Acquire, Ages, Release, Settings};
use crate::{Pool, RefuseReason};

#[cfg(test)]
mod small_world;

/// By how much longer somebody elsewhere must have waited to be served before a guest's own. It keeps servers from going to and
/// fro between workers that are equally busy.
pub const SLACK: Span = Span::from_millis(2);

/// How seldom a guest is told anew how long others have waited.
pub const UPDATE_INTERVAL: Span = Span::from_millis(2);

/// How long a guest keeps a server that nobody wants. Sockets move at a cost, and whoever asked for one soon asks again.
pub const IDLE_KEEP: Span = Span::from_secs(1);

/// The first slot of the handles under which guests' asks wait. Sockets stay far below.
const FIRST_ASK: u32 = u32::MAX - (1 << 16);

/// An ask of a guest's: whose, and its number with that guest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BorrowRequest {
    /// The guest.
    pub from: WorkerId,
    /// Its number there.
    pub id: u32,
}

impl BorrowRequest {
    /// Its handle in the home's queue.
    pub fn handle(self) -> Peer {
        Peer::new(FIRST_ASK + u32::from(self.from.0), self.id)
    }

    /// The ask that waits under a handle, if it is one.
    pub fn from_handle(peer: Peer) -> Option<BorrowRequest> {
        let from = peer.slot.checked_sub(FIRST_ASK).filter(|_| peer != Peer::NONE)?;
        Some(BorrowRequest { from: WorkerId(from as u16), id: peer.generation })
    }
}

/// The home's side of a pool.
#[derive(Clone, Debug, Default)]
pub struct Lender {
    borrowers: BTreeMap<WorkerId, BorrowerRecord>,
}

/// What the home knows of a guest.
#[derive(Clone, Copy, Debug)]
struct BorrowerRecord {
    /// The number of its ask that has no answer yet.
    ask: Option<u32>,
    /// How many servers are lent to it, or on their way.
    lent: u32,
    /// Whether it has clients.
    has_clients: bool,
    /// Since when somebody elsewhere waits, as it was told last; never: nobody. And when that was.
    told: Time,
    told_at: Time,
}

impl Default for BorrowerRecord {
    fn default() -> Self {
        BorrowerRecord { ask: None, lent: 0, has_clients: false, told: Time::NEVER, told_at: Time::START }
    }
}

impl Lender {
    /// A guest asks for a server, for a client that has waited since then. An older ask of its is forgotten.
    pub fn request<P>(&mut self, pool: &mut Pool<P>, ask: BorrowRequest, since: Time, now: Time) -> Acquire {
        self.withdraw(pool, ask.from, now);
        let answer = pool.requeue(ask.handle(), since, now);
        if answer == Acquire::Queued {
            self.borrowers.entry(ask.from).or_default().ask = Some(ask.id);
        }
        answer
    }

    /// A guest wants nothing any more.
    pub fn withdraw<P>(&mut self, pool: &mut Pool<P>, from: WorkerId, now: Time) {
        let ask = self.borrowers.get_mut(&from).and_then(|guest| guest.ask.take());
        if let Some(id) = ask {
            pool.leave(BorrowRequest { from, id }.handle(), now);
        }
    }

    /// An ask waits no longer: it was refused, or has a server, which is `lent` from now on.
    pub fn answered(&mut self, ask: BorrowRequest, lent: bool) {
        let guest = self.borrowers.entry(ask.from).or_default();
        guest.ask = guest.ask.filter(|id| *id != ask.id);
        guest.lent += u32::from(lent);
    }

    /// A server that was lent is back, or gone.
    pub fn server_ended(&mut self, from: WorkerId) {
        let guest = self.borrowers.get_mut(&from).expect("whoever was lent something is a guest");
        guest.lent -= 1;
    }

    /// A guest has clients, or none any more.
    pub fn set_has_clients(&mut self, from: WorkerId, yes: bool) {
        self.borrowers.entry(from).or_default().has_clients = yes;
    }

    /// How many asks wait.
    pub fn waiting_requests(&self) -> u32 {
        self.borrowers.values().filter(|guest| guest.ask.is_some()).count() as u32
    }

    /// Whether no guest uses the pool.
    pub fn is_unused(&self) -> bool {
        self.borrowers.values().all(|guest| !guest.has_clients && guest.ask.is_none())
    }

    /// Whether a guest has clients.
    pub fn has_clients(&self) -> bool {
        self.borrowers.values().any(|guest| guest.has_clients)
    }

    /// Those who have servers of the pool.
    pub fn with_servers(&self) -> impl Iterator<Item = WorkerId> {
        self.borrowers.iter().filter(|(_, guest)| guest.lent > 0).map(|(worker, _)| *worker)
    }

    /// How many servers are lent.
    pub fn lent_count(&self) -> u32 {
        self.borrowers.values().map(|guest| guest.lent).sum()
    }

    /// What is to be told to guests now: since when somebody elsewhere waits, or never. To be called whenever the pool has
    /// nothing to do; the second value is when to call again if nothing happens before.
    pub fn updates<P>(&mut self, pool: &Pool<P>, now: Time) -> (Vec<(WorkerId, Time)>, Time) {
        let (mut updates, mut again) = (Vec::new(), Time::NEVER);
        for (worker, guest) in self.borrowers.iter_mut().filter(|(_, guest)| guest.lent > 0) {
            let elsewhere = |peer: &Peer| BorrowRequest::from_handle(*peer).is_none_or(|ask| ask.from != *worker);
            let oldest = pool.waiting().find(|(peer, _)| elsewhere(peer)).map_or(Time::NEVER, |(_, since)| since);
            if oldest == guest.told {
                continue;
            }
            let due = if guest.told == Time::NEVER { now } else { guest.told_at + UPDATE_INTERVAL };
            if due <= now {
                (guest.told, guest.told_at) = (oldest, now);
                updates.push((*worker, oldest));
            } else {
                again = again.min(due);
            }
        }
        (updates, again)
    }
}

/// A guest's side of a pool.
#[derive(Clone, Debug)]
pub struct Borrower {
    /// Since when somebody elsewhere waits, as far as is known; never: nobody.
    waiting_elsewhere: Time,
    /// The number of the ask under way.
    asking: Option<u32>,
    last_ask: u32,
    /// The age that the last ask named, and when.
    asked: (Time, Time),
    /// What is borrowed: the handle here, and the one that the home knows.
    borrowed: BTreeMap<Peer, Peer>,
    /// The home was told that there are clients here.
    told_has_clients: bool,
}

impl Default for Borrower {
    fn default() -> Self {
        let borrowed = BTreeMap::new();
        let asked = (Time::NEVER, Time::START);
        Borrower { waiting_elsewhere: Time::NEVER, asking: None, last_ask: 0, asked, borrowed, told_has_clients: false }
    }
}

/// What a guest's pool goes by, where the whole pool has these settings: it opens nothing, keeps nothing open, and leaves it
/// to the home to close what idles.
pub fn borrower_settings(settings: Settings) -> Settings {
    Settings {
        size: if settings.size == 0 { 0 } else { settings.most(settings.reserve_size) },
        min_size: 0,
        reserve_size: 0,
        reserve_timeout: Span::ZERO,
        server_idle_timeout: Span::ZERO,
        server_connect_timeout: Span::ZERO,
        connects_per_second: 0,
        ..settings
    }
}

impl Borrower {
    /// The guest's pool wants a server: the number of the ask, and for whom.
    pub fn request<P>(&mut self, pool: &Pool<P>, now: Time) -> (u32, Time) {
        self.last_ask = self.last_ask.wrapping_add(1);
        self.asking = Some(self.last_ask);
        let since = pool.oldest_wait().unwrap_or(now);
        self.asked = (since, now);
        (self.last_ask, since)
    }

    /// The ask that is to take the place of the one under way, because another client has become the oldest; and when to call
    /// again if nothing happens before.
    pub fn renew_request<P>(&mut self, pool: &Pool<P>, now: Time) -> (Option<(u32, Time)>, Time) {
        let (since, at) = self.asked;
        match (self.asking, pool.oldest_wait()) {
            (Some(_), Some(oldest)) if oldest != since && at + UPDATE_INTERVAL <= now => {
                (Some(self.request(pool, now)), Time::NEVER)
            }
            (Some(_), Some(oldest)) if oldest != since => (None, at + UPDATE_INTERVAL),
            _ => (None, Time::NEVER),
        }
    }

    /// Whether an ask is under way that is of no use any more; it is over here then, and must be taken back.
    pub fn withdraw<P>(&mut self, pool: &mut Pool<P>) -> bool {
        if self.asking.is_none() || pool.wants_server() {
            return false;
        }
        self.asking = None;
        pool.cancel_open();
        true
    }

    /// A server has come, in answer to this ask or to one that was taken back.
    pub fn received<P>(
        &mut self,
        pool: &mut Pool<P>,
        id: u32,
        (server, home): (Peer, Peer),
        ages: Ages,
        proof: P,
        now: Time,
    ) -> Release {
        if self.asking == Some(id) {
            self.asking = None;
            pool.cancel_open();
        }
        // Whom another ask is for may be served by this one.
        self.asked.1 = Time::START;
        self.borrowed.insert(server, home);
        pool.borrowed(server, ages, proof, now)
    }

    /// An ask was refused. A server that is down refuses those who wait, as at home; otherwise it is asked for again, after a
    /// pause where the home has no such pool (any more).
    pub fn request_refused<P>(&mut self, pool: &mut Pool<P>, id: u32, why: RefuseReason, retry_at: Time, now: Time) {
        if self.asking == Some(id) {
            self.asking = None;
            match why {
                RefuseReason::ServerDown => pool.mark_down(retry_at),
                RefuseReason::ShuttingDown => pool.open_declined(retry_at, now),
                RefuseReason::WaitTimeout | RefuseReason::TooManyWaiting => pool.cancel_open(),
            }
        }
    }

    /// The server that was on its way in answer to this ask was lost: another one is asked for.
    pub fn request_failed<P>(&mut self, pool: &mut Pool<P>, id: u32) {
        if self.asking == Some(id) {
            self.asking = None;
            pool.cancel_open();
        }
    }

    /// The home tells since when somebody elsewhere waits.
    pub fn set_waiting_elsewhere(&mut self, waiting_elsewhere: Time) {
        self.waiting_elsewhere = waiting_elsewhere;
    }

    /// Whether somebody elsewhere waits for a server, as far as is known.
    pub fn is_wanted_elsewhere(&self) -> bool {
        self.waiting_elsewhere != Time::NEVER
    }

    /// Whether a server that is released now goes home instead of being handed on here. One that is to be closed is not: it
    /// need not have been cleaned.
    pub fn returns_to_owner<P>(&self, pool: &Pool<P>, server: Peer) -> bool {
        if self.waiting_elsewhere == Time::NEVER {
            return false;
        }
        pool.oldest_wait().is_none_or(|own| self.waiting_elsewhere + SLACK < own) && !pool.is_unwanted(server)
    }

    /// An idle server that is to go home now, taken out of the idle ones; `keep`: as long as a guest may. Called until it
    /// is `None`.
    pub fn take_to_return<P>(&self, pool: &mut Pool<P>, keep: bool, now: Time) -> Option<Peer> {
        let due = !keep || self.waiting_elsewhere != Time::NEVER || self.return_due(pool) <= now;
        if due { pool.take_idle() } else { None }
    }

    /// When the server that has idled longest here goes home.
    pub fn return_due<P>(&self, pool: &Pool<P>) -> Time {
        pool.longest_idle().map_or(Time::NEVER, |since| since + IDLE_KEEP)
    }

    /// A server has left for home; what the home knows it by. `None`: it is not borrowed.
    pub fn returned<P>(&mut self, pool: &mut Pool<P>, server: Peer, now: Time) -> Option<Peer> {
        let home = self.borrowed.remove(&server)?;
        pool.lost(server, now);
        Some(home)
    }

    /// What was borrowed and has come to its end here, as the home knows it: it must be told.
    pub fn take_ended<P>(&mut self, pool: &Pool<P>) -> Vec<Peer> {
        if self.borrowed.len() == pool.len() {
            return Vec::new();
        }
        let mut ended = Vec::new();
        self.borrowed.retain(|server, home| {
            let there = pool.contains(*server);
            if !there {
                ended.push(*home);
            }
            there
        });
        ended
    }

    /// Whether the home is to be told anew whether there are clients here; it is taken as told.
    pub fn clients_changed(&mut self, has_clients: bool) -> bool {
        std::mem::replace(&mut self.told_has_clients, has_clients) != has_clients
    }

    /// Whether nothing is borrowed or asked for.
    pub fn is_vacant(&self) -> bool {
        self.borrowed.is_empty() && self.asking.is_none()
    }

    /// Asserts that exactly what is borrowed is in the guest's pool.
    pub fn check<P>(&self, pool: &Pool<P>) {
        assert_eq!(self.borrowed.len(), pool.len(), "a guest's pool has servers of its own, or has lost some");
        assert!(self.borrowed.keys().all(|server| pool.contains(*server)));
    }
}
