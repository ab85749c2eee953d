//! State that one client leaves on a server is gone for the next client.

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{Batch, Ini, Mode, PgBouncer, Postgres, Setup, Site, ask, users};

use crate::report::Report;

/// A kind of state and the SQL that leaves it; `SEEN` if tags and first words show it, `HIDDEN` if a function does it
/// whose body is elsewhere.
const KINDS: [(&str, &str, bool); 16] = [
    ("a setting", "SET work_mem = '77MB'", SEEN),
    ("a role", "SET ROLE leftover_role", SEEN),
    ("an authorization", "SET SESSION AUTHORIZATION app; SET ROLE leftover_role", SEEN),
    ("characteristics", "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", SEEN),
    ("a search path", "SET search_path = pg_catalog", SEEN),
    ("a channel", "LISTEN leftover", SEEN),
    ("a temporary table", "CREATE TEMP TABLE leftover_t (n int)", SEEN),
    ("a temporary table of a query", "CREATE TEMP TABLE leftover_q AS SELECT 1 AS n", SEEN),
    ("a temporary view", "CREATE TEMP VIEW leftover_v AS SELECT 1 AS n", SEEN),
    ("a temporary sequence", "CREATE TEMP SEQUENCE leftover_s", SEEN),
    ("a statement", "PREPARE leftover_p AS SELECT 1", SEEN),
    ("a cursor", "DECLARE leftover_c CURSOR WITH HOLD FOR SELECT 1", SEEN),
    ("a setting by a function", "SELECT set_config('work_mem', '77MB', false)", SEEN),
    ("an advisory lock", "SELECT pg_advisory_lock(4711)", SEEN),
    ("a temporary table of SELECT INTO", "SELECT 1 AS n INTO TEMP leftover_i", SEEN),
    ("a setting by our own function", "SELECT leftover_set()", HIDDEN),
];

const SEEN: bool = true;
const HIDDEN: bool = false;

/// The ways of leaving it. `@` is the statement.
const WAYS: [&str; 6] = [
    "@",
    "BEGIN; @; COMMIT",
    "BEGIN; @; ROLLBACK",
    "SELECT 1; @; SELECT 2",
    "BEGIN; @; COMMIT; SELECT 1/0",
    "SELECT 'first'; @; COMMIT; BEGIN; SELECT 2; ROLLBACK",
];

/// All state that a session can have, as one text.
const SNAPSHOT: &str = "
    SELECT concat_ws(' | ', current_user, session_user,
        (SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings
          WHERE name NOT IN ('application_name') AND source NOT IN ('default', 'configuration file', 'command line')),
        (SELECT string_agg(locktype || objid, ',') FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
        (SELECT string_agg(name, ',') FROM pg_prepared_statements WHERE from_sql),
        (SELECT string_agg(channel, ',') FROM pg_listening_channels() AS channel),
        (SELECT string_agg(name, ',') FROM pg_cursors WHERE is_holdable),
        (SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = pg_my_temp_schema()))";

/// Leaves each kind in each way, then inspects the same server as the next client. Returns the state that was not there
/// at first.
fn found(params: &ConnectParams, kinds: impl Fn(bool) -> bool) -> (u32, Vec<String>) {
    let connect = || Connection::connect(params).unwrap_or_else(|error| panic!("{error}"));
    let look = |client: &mut Connection| client.value(SNAPSHOT).unwrap_or_else(|error| panic!("{error}")).unwrap();
    let clean = look(&mut connect());
    let mut found = Vec::new();
    let mut tried = 0;
    for (what, leave, _) in KINDS.iter().filter(|(_, _, seen)| kinds(*seen)) {
        for way in WAYS {
            // By the simple protocol, and, if it is one statement, by the extended one.
            let sql = way.replace('@', leave);
            for extended in [false, true] {
                if extended && (way != "@" || leave.contains(';')) {
                    continue;
                }
                tried += 1;
                let batch = if extended { Batch::new().run(&sql, &[]).sync() } else { Batch::new().query(&sql) };
                let transcript = ask(&mut connect(), &batch, 1);
                let only = way.contains("1/0");
                let failed =
                    transcript.iter().find(|line| line.starts_with("Error") && !(only && line.contains("zero")));
                assert_eq!(failed, None, "{what}: {sql}");
                let mut next = connect();
                let now = look(&mut next);
                if now != clean {
                    let extended = if extended { ", extended" } else { "" };
                    let what = format!("{what}, as {sql:?}{extended}:\n    {now}\n  instead of\n    {clean}");
                    found.push(what);
                    // The next kind starts with a clean server.
                    let _ = next.query("DISCARD ALL");
                }
            }
        }
    }
    (tried, found)
}

/// The role that is left behind.
fn prepare(site: &Site) {
    prepare_on(&mut site.superuser());
}

fn prepare_on(superuser: &mut Connection) {
    // Two tests may do this at once.
    let _ = superuser.query("CREATE ROLE leftover_role");
    superuser.query("GRANT leftover_role TO app").unwrap();
    let sets = "CREATE OR REPLACE FUNCTION leftover_set() RETURNS text LANGUAGE sql AS \
                $$SELECT set_config('work_mem', '77MB', false)$$";
    let _ = superuser.query(sets);
}

fn site(mode: Mode, on_dirty: &str) -> Site {
    let site = Site::with(Setup::new(mode).size(1).pool(&format!("on_dirty = \"{on_dirty}\"")), mode);
    prepare(&site);
    site
}

/// Each kind of session state is left on the only server of a pool: plainly, committed, rolled back, between other
/// statements, before an error. The next client compares its role, all its settings, its locks, statements, channels,
/// cursors and temporary tables with the initial ones. Session mode covers everything; in the other modes, changes by a
/// function whose body is not in the text can't be seen, and are documented as not guaranteed.
#[test]
fn state_that_a_client_leaves_is_not_there_for_the_next() {
    let report = Report::begin();
    for on_dirty in ["reset", "close"] {
        let (tried, leaks) = found(&site(Mode::Transaction, on_dirty).params(), |seen| seen == SEEN);
        assert!(leaks.is_empty(), "on_dirty = {on_dirty}, transaction mode: {}", leaks.join("\n"));
        report.figure(format!("transaction mode, {on_dirty}: {tried} left, 0 found"));
        let (tried, leaks) = found(&site(Mode::Session, on_dirty).params(), |_| true);
        assert!(leaks.is_empty(), "on_dirty = {on_dirty}, session mode: {}", leaks.join("\n"));
        report.figure(format!("session mode, {on_dirty}: {tried} left, 0 found"));
    }
}

/// The check with the guard off, and through PgBouncer in transaction mode: it finds nearly all of the left state.
#[test]
fn without_a_reset_the_next_client_finds_what_was_left() {
    let report = Report::begin();
    let (tried, leaks) = found(&site(Mode::Transaction, "keep").params(), |_| true);
    assert!(leaks.len() > KINDS.len(), "{} of {tried}: {}", leaks.len(), leaks.join("\n"));
    report.figure(format!("on_dirty = keep: {tried} left, {} found", leaks.len()));
    let database = Postgres::shared().database();
    prepare_on(&mut database.superuser());
    let ini = Ini::transaction(1).forced(users::APP);
    if let Some(pgbouncer) = PgBouncer::start(&ini, &database) {
        let (tried, leaks) = found(&pgbouncer.params(users::APP), |_| true);
        assert!(leaks.len() > KINDS.len(), "{} of {tried}: {}", leaks.len(), leaks.join("\n"));
        report.figure(format!("PgBouncer 1.18: {tried} left, {} found", leaks.len()));
    }
}
