//! The operator and the accidents: commands on the console at random, and servers that are ended under their clients.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use weir_pgclient::Connection;

use super::tally::{Tally, add};
use super::world::{POOLS, Presence, World};
use crate::rng::{pick, seeded};
use crate::setup::{Configuration, Mode, USER};

/// Tables that the operator looks at.
const TABLES: [&str; 9] =
    ["POOLS", "STATS", "CLIENTS", "SERVERS", "DATABASES", "CONFIG", "LISTS", "VERSION", "STATS_TOTALS"];
/// The longest that a PAUSE may take: transactions are short here.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(20);
/// The actor's number for its choices: beyond all clients.
const ACTOR: u64 = 1 << 40;

/// Until it is all over. `superuser` is a connection straight to PostgreSQL.
pub(super) fn reign(world: &World, mut configuration: Option<Configuration>, superuser: &mut Connection) {
    let mut rng = seeded(world.seed, ACTOR);
    let mut console = None;
    while world.gate.pass(|| ()) {
        world.gate.nap(Duration::from_millis(rng.random_range(50..=700)));
        if world.gate.is_closing() {
            continue;
        }
        if !world.promises.console || rng.random_ratio(40, 100) {
            end_a_server(&world.tally, superuser);
        } else if let Err(text) = command(world, &mut rng, &mut console, configuration.as_mut()) {
            world.tally.uneven(&format!("console: {text}"));
            console = None;
        }
    }
}

/// Ends one server, whatever it does; not one that is just logging in, because then every waiting client would get its
/// error.
fn end_a_server(tally: &Tally, superuser: &mut Connection) {
    let sql = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = '{USER}' and state is not null \
         and backend_start < now() - interval '300 ms' order by random() limit 1"
    );
    if matches!(superuser.value(&sql), Ok(Some(value)) if value == "t") {
        add(&tally.counts.ended);
    }
}

fn command<'w>(
    world: &'w World,
    rng: &mut SmallRng,
    console: &mut Option<Console<'w>>,
    configuration: Option<&mut Configuration>,
) -> Result<(), String> {
    let (console, _) = match console {
        Some(console) => console,
        None => console.insert(open(world)?),
    };
    let pool = pick(rng, &POOLS);
    let name = pool.name;
    let mut say = |text: &str| {
        console.query(text).map_err(|error| format!("{text}: {error}"))?;
        add(&world.tally.counts.commands);
        Ok(())
    };
    match rng.random_range(0..=9) {
        0 | 1 => {
            // Never more than the plan, which the counts are compared to.
            let size = u32::try_from(rng.random_range(1..=u64::from(pool.size))).unwrap_or(1);
            if let Some(configuration) = configuration {
                configuration.resize(name, size).map_err(|error| error.to_string())?;
            }
            say("RELOAD")
        }
        2 | 3 => say(&format!("RECONNECT {name}")),
        // A PAUSE of a pool of sessions waits for all of them to leave; here, none of them does.
        4 | 5 if pool.mode != Mode::Session => {
            let paused = pause(world, rng, name);
            say(&format!("RESUME {name}"))?;
            paused
        }
        _ => say(&format!("SHOW {}", pick(rng, &TABLES))),
    }
}

/// A connection to the console, and its place in the count of them.
type Console<'w> = (Connection, Presence<'w>);

fn open(world: &World) -> Result<Console<'_>, String> {
    let connection = Connection::connect(&world.console().clone().timeout(PAUSE_TIMEOUT));
    Ok((connection.map_err(|error| format!("login: {error}"))?, world.enter_console()))
}

/// PAUSE on a console of its own, and a moment of it.
fn pause(world: &World, rng: &mut SmallRng, name: &str) -> Result<(), String> {
    let (mut console, _presence) = open(world)?;
    console.query(&format!("PAUSE {name}")).map_err(|error| format!("PAUSE {name}: {error}"))?;
    add(&world.tally.counts.commands);
    world.gate.nap(Duration::from_millis(rng.random_range(1..=300)));
    Ok(())
}
