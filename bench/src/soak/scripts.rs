//! Acts that are scripts: what to send and what must come, with no other state than the client's prepared statements.
//!
//! Victims send the same scripts and die in the middle of them.

use rand::Rng;
use weir_pgwire::TxStatus;

use super::batch::{Batch, Script};
use super::session::{Actor, Statements};
use crate::setup::Mode;

/// Rows in `soak_account`, each of which begins with this amount.
pub(super) const ACCOUNTS: u64 = 100;
pub(super) const AMOUNT: u64 = 1000;

/// One or a few statements in one query.
pub(super) fn simple(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let several = actor.world.mode(actor.pool) != Mode::Statement && actor.rng.random_ratio(30, 100);
    let count = if several { actor.rng.random_range(2..=5) } else { 1 };
    let mut batch = Batch::new();
    batch.select(&actor.tokens(count));
    vec![batch]
}

/// Queries sent without waiting for the answers, with an empty one and an error among them.
pub(super) fn hasty(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut batch = Batch::new();
    for _ in 0..actor.rng.random_range(2..=12) {
        match actor.rng.random_range(0..=9) {
            0 => batch.empty(),
            1 => batch.error(&actor.token()),
            2 => batch.call_plus(actor.rng.random_range(0..=9999), actor.rng.random_range(0..=9999)),
            _ => batch.select(&actor.tokens(1)),
        }
    }
    vec![batch]
}

/// An unnamed statement: prepared, described, bound, executed.
pub(super) fn extended(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let (constant, token) = (actor.token(), actor.token());
    let mut batch = Batch::new();
    batch.parse("", &constant);
    if actor.rng.random_ratio(30, 100) {
        batch.describe_statement("");
    }
    batch.bind("", &token);
    if actor.rng.random_ratio(50, 100) {
        batch.describe_portal();
    }
    batch.execute(&constant, &token);
    batch.sync();
    vec![batch]
}

/// Many statements before one Sync, or a few, with errors that skip to it; several Syncs in flight.
pub(super) fn pipeline(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut batch = Batch::new();
    for _ in 0..actor.rng.random_range(1..=6) {
        for _ in 0..actor.rng.random_range(1..=12) {
            match actor.rng.random_range(0..=19) {
                0 => batch.bind_nonsense(&actor.token()),
                1 => batch.parse_nonsense("", &actor.token()),
                2 => batch.portal_in_two_goes(&actor.token()),
                _ => batch.once(&actor.token(), &actor.token()),
            }
        }
        batch.sync();
    }
    vec![batch]
}

/// A pipeline in two parts: the first ends in Flush, and its answers are read before the second is sent.
pub(super) fn flushed(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut first = Batch::new();
    first.once(&actor.token(), &actor.token());
    first.flush();
    let mut second = Batch::new();
    second.once(&actor.token(), &actor.token());
    second.sync();
    vec![first, second]
}

/// The unnamed statement, used again after a Sync.
pub(super) fn unnamed_kept(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let constant = actor.token();
    let mut prepare = Batch::new();
    prepare.parse("", &constant);
    prepare.sync();
    let mut script = vec![prepare];
    for _ in 0..actor.rng.random_range(1..=3) {
        let token = actor.token();
        let mut batch = Batch::new();
        batch.bind("", &token);
        batch.execute(&constant, &token);
        batch.sync();
        script.push(batch);
    }
    script
}

/// Statements by name. All clients use the same few names, and some texts are shared: names must stay a client's own.
pub(super) fn named(actor: &mut Actor<'_>, statements: &mut Statements) -> Script {
    let mut batch = Batch::new();
    for _ in 0..actor.rng.random_range(1..=4) {
        let name = format!("s{}", actor.rng.random_range(1..=6));
        match statements.get(&name).cloned() {
            None => prepare(actor, &mut batch, statements, &name),
            Some(_) if actor.rng.random_ratio(8, 100) => {
                batch.close_statement(&name);
                statements.remove(&name);
                continue;
            }
            Some(_) if actor.rng.random_ratio(4, 100) => {
                batch.parse_again(&name);
                batch.sync();
            }
            Some(_) => {}
        }
        let (constant, token) = (statements.get(&name).cloned().unwrap_or_default(), actor.token());
        if actor.rng.random_ratio(20, 100) {
            batch.describe_statement(&name);
        }
        batch.bind(&name, &token);
        batch.execute(&constant, &token);
        if actor.rng.random_ratio(40, 100) {
            batch.sync();
        }
    }
    batch.sync();
    vec![batch]
}

fn prepare(actor: &mut Actor<'_>, batch: &mut Batch, statements: &mut Statements, name: &str) {
    if actor.rng.random_ratio(15, 100) {
        batch.parse_nonsense(name, &actor.token());
        batch.sync();
    }
    let shared = actor.rng.random_ratio(50, 100);
    let constant = if shared { format!("shared-{}", actor.rng.random_range(1..=9)) } else { actor.token() };
    batch.parse(name, &constant);
    statements.insert(name.to_owned(), constant);
}

/// DEALLOCATE, of one or all.
pub(super) fn deallocate(actor: &mut Actor<'_>, statements: &mut Statements) -> Script {
    let mut batch = Batch::new();
    match statements.pop_first() {
        Some((name, _)) if actor.rng.random_ratio(70, 100) => {
            batch.command(&format!("deallocate {name}"), "DEALLOCATE")
        }
        _ => {
            statements.clear();
            batch.command("deallocate all", "DEALLOCATE ALL");
        }
    }
    vec![batch]
}

/// A transaction of several round trips, on one server from its begin to its end; money moves and none is made.
pub(super) fn transaction(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut script = vec![step(TxStatus::Idle, |batch| batch.turn("begin", "BEGIN", TxStatus::InTransaction))];
    let open = TxStatus::InTransaction;
    for _ in 0..actor.rng.random_range(1..=4) {
        let token = actor.token();
        script.push(match actor.rng.random_range(0..=3) {
            0 => {
                let constant = actor.token();
                step(open, |batch| {
                    batch.once(&constant, &token);
                    batch.sync();
                })
            }
            _ => step(open, |batch| batch.pinned(token)),
        });
    }
    script.extend(transfer(actor));
    script.push(step(open, |batch| batch.pinned(actor.token())));
    if actor.rng.random_ratio(20, 100) {
        script.push(step(open, |batch| batch.error(&actor.token())));
        script.push(step(TxStatus::Failed, |batch| {
            batch.refused("select 1", "25P02", "current transaction is aborted");
        }));
        // A failed transaction's COMMIT rolls back.
        let end = if actor.rng.random_ratio(50, 100) { "commit" } else { "rollback" };
        script.push(step(TxStatus::Failed, |batch| batch.turn(end, "ROLLBACK", TxStatus::Idle)));
    } else {
        let (end, tag) = if actor.rng.random_ratio(75, 100) { ("commit", "COMMIT") } else { ("rollback", "ROLLBACK") };
        script.push(step(open, |batch| batch.turn(end, tag, TxStatus::Idle)));
    }
    script
}

fn step(status: TxStatus, write: impl FnOnce(&mut Batch)) -> Batch {
    let mut batch = Batch::within(status);
    write(&mut batch);
    batch
}

/// From one account to another; always the smaller number first, so that no two transfers wait for each other.
fn transfer(actor: &mut Actor<'_>) -> Vec<Batch> {
    let (a, b) = (actor.rng.random_range(1..=ACCOUNTS / 2), actor.rng.random_range(ACCOUNTS / 2 + 1..=ACCOUNTS));
    let amount = actor.rng.random_range(-20_i64..=20);
    let move_by = |id: u64, amount: i64| {
        let sql = format!("update soak_account set amount = amount + {amount} where id = {id}");
        step(TxStatus::InTransaction, |batch| batch.command(&sql, "UPDATE 1"))
    };
    vec![move_by(a, amount), move_by(b, -amount)]
}

/// Errors that name a token, by both protocols.
pub(super) fn errors(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut batch = Batch::new();
    match actor.rng.random_range(0..=2) {
        0 => batch.error(&actor.token()),
        1 => {
            batch.bind_nonsense(&actor.token());
            batch.sync();
        }
        _ => {
            batch.parse_nonsense("", &actor.token());
            batch.sync();
        }
    }
    vec![batch]
}

/// COPY FROM STDIN: done, given up, refused, or nonsense; the data at once or after the server requested them.
pub(super) fn copy_in(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let (token, rows) = (actor.token(), actor.rng.random_range(1..=400));
    let mut batch = Batch::new();
    match actor.rng.random_range(0..=9) {
        0 => batch.copy_into_nothing(&token),
        1 => batch.copy_nonsense(&token),
        2 => {
            batch.copy_begin();
            batch.copy_rows(&token, rows);
            batch.copy_fail(&token);
        }
        _ => return copy_all(actor, &token, rows),
    }
    vec![batch]
}

fn copy_all(actor: &mut Actor<'_>, token: &str, rows: u64) -> Script {
    let mut begin = Batch::new();
    begin.copy_begin();
    let mut data = if actor.rng.random_ratio(50, 100) { Batch::new() } else { begin.clone() };
    let waits = data.bytes.is_empty();
    data.copy_rows(token, rows);
    data.copy_done(rows);
    let mut remove = Batch::new();
    remove.command(&format!("delete from soak_copy where token = '{token}'"), &format!("DELETE {rows}"));
    if waits { vec![begin, data, remove] } else { vec![data, remove] }
}

/// COPY TO STDOUT.
pub(super) fn copy_out(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut batch = Batch::new();
    batch.copy_out(&actor.token(), actor.rng.random_range(0..=1500));
    vec![batch]
}

/// A result of up to some megabytes, now and then read slowly.
pub(super) fn big(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut batch = Batch::new();
    let (rows, width) = match actor.rng.random_range(0..=4) {
        0 => (actor.rng.random_range(1..=3), 1_000_000),
        _ => (actor.rng.random_range(100..=4000), 700),
    };
    batch.stream(&actor.token(), rows, width, actor.rng.random_ratio(20, 100));
    vec![batch]
}

/// A NOTICE that names the token.
pub(super) fn notice(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let mut batch = Batch::new();
    batch.command(&format!("do $$begin raise notice 'note {}'; end$$", actor.token()), "DO");
    vec![batch]
}

/// LISTEN and NOTIFY on a channel of one's own; where a client keeps its server.
pub(super) fn listen(actor: &mut Actor<'_>, _: &mut Statements) -> Script {
    let channel = format!("soak_{}", actor.id);
    let mut batch = Batch::new();
    batch.command(&format!("listen {channel}"), "LISTEN");
    batch.command(&format!("notify {channel}, '{}'", actor.token()), "NOTIFY");
    batch.command(&format!("unlisten {channel}"), "UNLISTEN");
    vec![batch]
}
