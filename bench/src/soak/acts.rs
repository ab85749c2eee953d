//! The table of acts, and the life of a client, which is one act after the other.

use std::thread;
use std::time::Duration;

use rand::Rng;

use super::batch::Script;
use super::session::{Actor, Session, Statements};
use super::tally::Trouble;
use super::world::World;
use super::{scripts, state, victim};
use crate::setup::Mode;

/// What an act does.
#[derive(Clone, Copy)]
enum Deed {
    Script(fn(&mut Actor<'_>, &mut Statements) -> Script),
    Own(fn(&mut Actor<'_>, &mut Session<'_>) -> Result<(), Trouble>),
    /// A second connection that is cut.
    Victim,
    /// Leaves in order, and comes back.
    Leave,
    /// Leaves without a word, and comes back.
    Vanish,
    /// Does nothing for a moment.
    Idle,
}

/// Where an act is possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Anywhere,
    /// Not where a transaction is an error.
    Transactions,
    /// Where prepared statements outlive a transaction.
    Statements,
    /// Where a client keeps its server.
    OwnServer,
    /// Where what a client leaves behind is removed, or stays its own.
    Clean,
}

struct Act {
    name: &'static str,
    /// How often, in relation to the others.
    weight: u64,
    place: Where,
    deed: Deed,
}

const fn act(name: &'static str, weight: u64, place: Where, deed: Deed) -> Act {
    Act { name, weight, place, deed }
}

const ACTS: [Act; 22] = [
    act("simple", 16, Where::Anywhere, Deed::Script(scripts::simple)),
    act("hasty", 6, Where::Anywhere, Deed::Script(scripts::hasty)),
    act("extended", 12, Where::Anywhere, Deed::Script(scripts::extended)),
    act("pipeline", 8, Where::Anywhere, Deed::Script(scripts::pipeline)),
    act("flushed", 3, Where::Anywhere, Deed::Script(scripts::flushed)),
    act("unnamed kept", 4, Where::Statements, Deed::Script(scripts::unnamed_kept)),
    act("named", 12, Where::Statements, Deed::Script(scripts::named)),
    act("deallocate", 1, Where::Statements, Deed::Script(scripts::deallocate)),
    act("transaction", 12, Where::Transactions, Deed::Script(scripts::transaction)),
    act("errors", 4, Where::Anywhere, Deed::Script(scripts::errors)),
    act("copy in", 5, Where::Anywhere, Deed::Script(scripts::copy_in)),
    act("copy out", 3, Where::Anywhere, Deed::Script(scripts::copy_out)),
    act("big", 2, Where::Anywhere, Deed::Script(scripts::big)),
    act("notice", 2, Where::Anywhere, Deed::Script(scripts::notice)),
    act("listen", 2, Where::OwnServer, Deed::Script(scripts::listen)),
    act("set", 5, Where::Anywhere, Deed::Own(state::set_tracked)),
    act("look", 8, Where::Anywhere, Deed::Own(state::look)),
    act("leave state", 3, Where::Clean, Deed::Own(state::leave_state)),
    act("cancel", 1, Where::Anywhere, Deed::Own(state::cancel)),
    act("victim", 6, Where::Anywhere, Deed::Victim),
    act("leave", 2, Where::Anywhere, Deed::Leave),
    act("vanish", 1, Where::Anywhere, Deed::Vanish),
];

/// Done instead of an act in this many of a hundred cases.
const IDLE_PERCENT: u32 = 10;
const IDLE: Act = act("idle", 0, Where::Anywhere, Deed::Idle);
/// After a connection that failed, before the next.
const PAUSE: Duration = Duration::from_millis(50);

/// The names of all acts.
pub(super) fn names() -> Vec<&'static str> {
    ACTS.iter().map(|act| act.name).collect()
}

fn possible(actor: &Actor<'_>, place: Where) -> bool {
    let (world, pool) = (actor.world, actor.pool);
    match place {
        Where::Anywhere => true,
        Where::Transactions => world.mode(pool) != Mode::Statement,
        Where::Statements => world.keeps_statements(pool),
        Where::OwnServer => world.mode(pool) == Mode::Session,
        Where::Clean => world.promises.clean || world.mode(pool) == Mode::Session,
    }
}

fn choose(actor: &mut Actor<'_>) -> &'static Act {
    if actor.rng.random_ratio(IDLE_PERCENT, 100) {
        return &IDLE;
    }
    let wanted = |act: &Act| actor.world.only.is_empty() || actor.world.only.iter().any(|name| name == act.name);
    let fitting: Vec<_> = ACTS.iter().filter(|act| wanted(act) && possible(actor, act.place)).collect();
    let all: u64 = fitting.iter().map(|act| act.weight).sum();
    let Some(last) = all.checked_sub(1) else { return &IDLE };
    let mut at = actor.rng.random_range(0..=last);
    for act in fitting {
        match at.checked_sub(act.weight) {
            Some(rest) => at = rest,
            None => return act,
        }
    }
    &IDLE
}

/// One client, until it is all over.
pub(super) fn live(world: &World, id: u64) {
    let mut actor = Actor::new(world, id);
    let mut session = None;
    // One that kept its server through a moment of quiet would keep another from coming to rest.
    let leaves = world.mode(actor.pool) == Mode::Session;
    while world.gate.pass(|| {
        if leaves {
            leave(session.take())
        }
    }) {
        session = step(&mut actor, session.take());
        rest(&mut actor);
    }
    leave(session);
}

/// The pause after an act, where acts have a rate.
fn rest(actor: &mut Actor<'_>) {
    let most = u64::try_from(2 * actor.world.pause.as_micros()).unwrap_or(u64::MAX);
    if most > 0 {
        let pause = actor.rng.random_range(0..=most);
        actor.world.gate.nap(Duration::from_micros(pause));
    }
}

fn leave(session: Option<Session<'_>>) {
    if let Some(session) = session {
        session.close();
    }
}

/// One act, or a login. What went wrong is counted, and costs the session.
fn step<'w>(actor: &mut Actor<'w>, session: Option<Session<'w>>) -> Option<Session<'w>> {
    let Some(mut session) = session else {
        return match Session::open(actor) {
            Ok(session) => Some(session),
            Err(trouble) => {
                actor.world.tally.note(&actor.name(), "login", &Err(trouble));
                thread::sleep(PAUSE);
                None
            }
        };
    };
    let act = choose(actor);
    let outcome = match act.deed {
        Deed::Script(write) => {
            let script = write(actor, &mut session.statements);
            session.run(actor, script)
        }
        Deed::Own(perform) => perform(actor, &mut session),
        Deed::Victim => victim::die(actor),
        Deed::Idle => {
            thread::sleep(Duration::from_micros(actor.rng.random_range(0..=30_000)));
            Ok(())
        }
        Deed::Leave => {
            session.close();
            return None;
        }
        Deed::Vanish => return None,
    };
    let outcome = outcome.and_then(|()| session.check_rest(actor));
    let lives = outcome.is_ok();
    actor.world.tally.note(&actor.name(), act.name, &outcome);
    lives.then_some(session)
}
