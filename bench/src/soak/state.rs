//! Acts about state: what must follow a client from server to server, and what must follow no client.

use std::thread;
use std::time::Duration;

use rand::Rng;
use weir_pgwire::{TxStatus, put_front};

use super::batch::Batch;
use super::session::{Actor, Session, TRACKED, error, row};
use super::tally::{Trouble, add};
use crate::rng::pick;
use crate::setup::Mode;

/// Values of tracked parameters, in the server's own spelling.
const VALUES: [(&str, &[&str]); 4] = [
    ("application_name", &["soak one", "it's", "soak-two"]),
    ("TimeZone", &["UTC", "Europe/Berlin", "Asia/Tokyo", "America/Lima"]),
    ("DateStyle", &["ISO, MDY", "German, DMY", "SQL, DMY", "Postgres, YMD"]),
    ("IntervalStyle", &["postgres", "iso_8601", "sql_standard"]),
];

/// PostgreSQL's default, which every client finds that did not change it on a server of its own.
const WORK_MEM: &str = "4MB";

/// SET of a parameter that must follow its client; within a transaction that is rolled back, now and then.
pub(super) fn set_tracked(actor: &mut Actor<'_>, session: &mut Session<'_>) -> Result<(), Trouble> {
    let known = TRACKED.len() - usize::from(!actor.world.promises.interval_style);
    let (name, values) = VALUES[actor.rng.random_range(0..known)];
    let value = (*pick(&mut actor.rng, values)).to_owned();
    let sql = format!("set {name} = '{}'", value.replace('\'', "''"));
    let may_begin = actor.world.mode(actor.pool) != Mode::Statement;
    if may_begin && actor.rng.random_ratio(30, 100) {
        let mut batch = Batch::new();
        batch.turn("begin", "BEGIN", TxStatus::InTransaction);
        batch.command(&sql, "SET");
        batch.turn("rollback", "ROLLBACK", TxStatus::Idle);
        return session.run_one(actor, batch);
    }
    let mut batch = Batch::new();
    batch.command(&sql, "SET");
    session.run_one(actor, batch)?;
    session.parameters.insert(name, value);
    Ok(())
}

/// Checks that all state is as this client left it, and that no other client has changed it.
pub(super) fn look(actor: &mut Actor<'_>, session: &mut Session<'_>) -> Result<(), Trouble> {
    let (token, promises) = (actor.token(), actor.world.promises);
    let mut columns = vec![format!("'{token}'")];
    let mut expected = vec![token];
    for name in &TRACKED[..TRACKED.len() - usize::from(!promises.interval_style)] {
        columns.push(format!("current_setting('{name}')"));
        expected.push(session.parameters.get(name).cloned().unwrap_or_default());
    }
    if promises.clean || actor.world.mode(actor.pool) == Mode::Session {
        columns.push("current_setting('work_mem')".to_owned());
        expected.push(session.work_mem.clone().unwrap_or_else(|| WORK_MEM.to_owned()));
        for left in LEFT_BEHIND {
            columns.push(format!("({left})"));
            expected.push("0".to_owned());
        }
    }
    let mut batch = Batch::new();
    batch.row(&format!("select {}", columns.join(", ")), expected);
    session.run_one(actor, batch)
}

/// State that others may have left on this server: none of it may be found.
const LEFT_BEHIND: [&str; 4] = [
    "select count(*) from pg_class where relnamespace = pg_my_temp_schema() and relname like 'left%'",
    "select count(*) from pg_listening_channels() c where c like 'left%'",
    "select count(*) from pg_prepared_statements where from_sql and name like 'left%'",
    "select count(*) from pg_cursors where name like 'left%'",
];

/// Leaves state behind that no pooler carries over. Where clients keep their servers, the client drops the state again,
/// except for a setting; elsewhere the next client must not find it.
pub(super) fn leave_state(actor: &mut Actor<'_>, session: &mut Session<'_>) -> Result<(), Trouble> {
    let keeps = actor.world.mode(actor.pool) == Mode::Session;
    let name = format!("left{}", actor.rng.random_range(1..=9));
    let mut batch = Batch::new();
    match actor.rng.random_range(0..=3) {
        _ if keeps => {
            let value = format!("{}MB", actor.rng.random_range(5..=60));
            batch.command(&format!("set work_mem = '{value}'"), "SET");
            session.work_mem = Some(value);
        }
        0 => batch.command(&format!("set work_mem = '{}MB'", actor.rng.random_range(5..=60)), "SET"),
        1 => batch.command(&format!("create temporary table {name} (n int)"), "CREATE TABLE"),
        2 => batch.command(&format!("listen {name}"), "LISTEN"),
        _ => batch.command(&format!("prepare {name} as select 1"), "PREPARE"),
    }
    session.run_one(actor, batch)
}

/// A cancel of the client's own long query: it may or may not arrive, but it never hits another client.
pub(super) fn cancel(actor: &mut Actor<'_>, session: &mut Session<'_>) -> Result<(), Trouble> {
    let token = actor.token();
    let mut message = Vec::new();
    put_front::query(&mut message, format!("select '{token}', pg_sleep(0.7)"));
    session.send(&mut actor.rng, &message)?;
    thread::sleep(Duration::from_micros(actor.rng.random_range(0..=60_000)));
    let sent = session.connection.canceller().cancel();
    let counts = &actor.world.tally.counts;
    let outcome = read_cancelled(session, &token);
    match &outcome {
        Ok(true) => add(&counts.cancelled),
        Ok(false) => add(&counts.missed),
        // A client that waits for a server can cancel only its wait.
        Err(Trouble::Lost(text)) if text.contains("cancel") => add(&counts.excused),
        Err(_) => {}
    }
    outcome?;
    // One that could not be sent may have been lost with its server; the query's answer was right nevertheless.
    sent.or_else(|error| if super::session::is_end(&error) { Ok(()) } else { Err(error) })?;
    Ok(())
}

/// `true` for an error of cancelling, `false` for the whole answer.
fn read_cancelled(session: &mut Session<'_>, token: &str) -> Result<bool, Trouble> {
    let mut hit = None;
    loop {
        let frame = session.reply()?;
        match frame.tag {
            b'Z' => return hit.ok_or_else(|| Trouble::Wrong("neither an answer nor an error".to_owned())),
            b'D' if row(&frame).first().map(String::as_str) == Some(token) => hit = Some(false),
            b'D' => return Err(Trouble::Wrong(format!("another client's row {:?} instead of {token}", row(&frame)))),
            b'E' => match error(&frame) {
                Some(error) if error.sqlstate == "57014" => hit = Some(true),
                Some(error) => return Err(error.into()),
                None => return Err(Trouble::Wrong("an error that can't be read".to_owned())),
            },
            _ => {}
        }
    }
}
