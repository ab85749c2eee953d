//! What one client sets does not decide what PostgreSQL makes of a shared statement for others: its constants, columns
//! and plan are those of a fresh server, whichever setting was changed, and however.

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Rng, Setup, Site, ask, users};

/// A text whose constants are read and folded by settings, and whose plan depends on others.
const PROBE: &str = "SELECT 0.1::float8 + 0.2::float8 AS float, (0.1::float8)::text AS text, '{1,NULL}'::text[] AS list, \
     (NULL::int = NULL) AS nulls, '1.2.2020'::date::text AS date, interval '1 day 2:03'::text AS span, \
     '2020-01-01 12:00'::timestamptz = '2020-01-01 12:00+00' AS zone, '\\x4142'::bytea::text AS bytes, \
     (SELECT count(*) FROM probe a JOIN probe b ON a.i = b.i + 1 WHERE a.i = $1) AS number, \
     (SELECT count(*) FROM probe WHERE v > 'x') AS rest FROM probe p WHERE p.i = $1";

/// As many executions as make PostgreSQL plan for all values.
const UNTIL_GENERIC: usize = 8;

/// How many settings are changed in a usual run, beside those of [`ALWAYS`]. With `WEIR_ALL_SETTINGS` all are.
const SAMPLE: usize = 25;

/// Settings of which each decides something about [`PROBE`].
const ALWAYS: [&str; 12] = [
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "array_nulls",
    "bytea_output",
    "enable_bitmapscan",
    "enable_indexonlyscan",
    "enable_indexscan",
    "extra_float_digits",
    "plan_cache_mode",
    "search_path",
    "transform_null_equals",
];

/// How a setting is changed. `$n` and `$v` stand for its name and value.
const WAYS: [&str; 6] = [
    "BEGIN; SET LOCAL $n = $v",
    "SET $n = $v",
    "SELECT set_config('$n', $v, true)",
    "SELECT set_config('$n', $v, false)",
    "SELECT set_config(lower('$n'), $v, true), 1",
    "UPDATE pg_settings SET setting = $v WHERE name = '$n'",
];

fn prepare(site: &Site) -> Connection {
    let mut client = site.connect();
    assert_eq!(ask(&mut client, &Batch::new().parse("p", PROBE).sync(), 1)[0], "ParseComplete");
    client
}

fn executions(count: usize) -> Batch {
    (0..count).fold(Batch::new(), |batch, _| batch.bind("", "p", &["5"]).execute("", 0)).sync()
}

/// The columns, the result and the plan of the statement. Whether the plan is for this value or for all does not count.
fn seen(client: &mut Connection) -> Vec<String> {
    let batch = Batch::new().describe_statement("p").bind("", "p", &["5"]).describe_portal("").execute("", 0).sync();
    let mut replies = ask(client, &batch, 1);
    let plan = ask(client, &Batch::new().query("EXPLAIN (COSTS OFF) EXECUTE p(5)"), 1);
    replies.extend(plan.into_iter().map(|line| line.replace("= $1)", "= 5)")));
    replies
}

/// Every setting that a user may change, and another value for it than its own.
fn settings(site: &Site) -> Vec<(String, String)> {
    let mut direct = site.superuser();
    let sql = "SELECT name, CASE
            WHEN name = 'DateStyle' THEN 'SQL, DMY'
            WHEN name = 'TimeZone' THEN 'Asia/Kolkata'
            WHEN name = 'search_path' THEN 'pg_catalog, public, pg_temp'
            WHEN vartype = 'bool' THEN CASE setting WHEN 'on' THEN 'off' ELSE 'on' END
            WHEN vartype = 'enum' THEN (SELECT v FROM unnest(enumvals) v WHERE v <> setting LIMIT 1)
            WHEN vartype IN ('integer', 'real') THEN CASE setting WHEN min_val THEN max_val ELSE min_val END
        END FROM pg_settings WHERE context = 'user' AND name NOT IN ('client_encoding', 'exit_on_error') ORDER BY name";
    let rows = direct.query(sql).unwrap();
    let found = rows.rows.into_iter().filter_map(|row| {
        let mut values = row.into_iter();
        Some((values.next()??, values.next()??))
    });
    found.collect()
}

/// A client changes a setting and uses the statement until its plan stays. Whether the change was accepted.
fn change(site: &Site, way: &str, name: &str, value: &str) -> bool {
    let mut client = prepare(site);
    let sql = way.replace("$n", name).replace("$v", &format!("'{value}'"));
    let replies = ask(&mut client, &Batch::new().query(&format!("BEGIN; {}", sql.trim_start_matches("BEGIN; "))), 1);
    if replies.iter().any(|line| line.starts_with("Error")) {
        ask(&mut client, &Batch::new().query("ROLLBACK"), 1);
        return false;
    }
    ask(&mut client, &executions(UNTIL_GENERIC), 1);
    // A setting may make the statement itself fail: then there is no plan.
    ask(&mut client, &Batch::new().query("COMMIT"), 1);
    true
}

fn create(site: &Site) {
    let mut client = site.connect();
    for sql in [
        "CREATE TABLE probe (i int PRIMARY KEY, v text)",
        "INSERT INTO probe SELECT i, md5(i::text) FROM generate_series(1, 3000) i",
        "CREATE INDEX ON probe (v)",
    ] {
        client.query(sql).unwrap();
    }
    site.superuser().query("VACUUM ANALYZE probe").unwrap();
}

#[test]
fn a_setting_of_one_client_decides_nothing_for_another() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    create(&site);
    let all = settings(&site);
    assert!(all.len() > 80, "{}", all.len());
    let (mut wanted, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(name, _)| ALWAYS.contains(&name.as_str()));
    assert_eq!(wanted.len(), ALWAYS.len());
    let mut rng = Rng::seeded("shared plans");
    let count = if std::env::var_os("WEIR_ALL_SETTINGS").is_some() { others.len() } else { SAMPLE };
    wanted.extend((0..count).map(|_| others.swap_remove(rng.below(others.len()))));
    let mut victim = prepare(&site);
    let fresh = seen(&mut victim);
    assert!(fresh.iter().any(|line| line.contains("Index")), "{fresh:#?}");
    let (mut tried, mut differ) = (0, Vec::new());
    for (name, value) in &wanted {
        for way in WAYS {
            tried += usize::from(change(&site, way, name, value));
            let now = seen(&mut victim);
            if now != fresh {
                differ.push(format!("{}: {now:#?}", way.replace("$n", name).replace("$v", value)));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ from {fresh:#?}\n{}", differ.len(), differ.join("\n"));
    assert!(tried > 3 * wanted.len(), "{tried} of {} settings", wanted.len());
}

/// Settings that follow their client from its login on.
#[test]
fn a_setting_of_a_clients_login_decides_nothing_for_another() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    create(&site);
    let mut victim = prepare(&site);
    let fresh = seen(&mut victim);
    for (name, value) in [
        ("extra_float_digits", "-5"),
        ("bytea_output", "escape"),
        ("DateStyle", "SQL, DMY"),
        ("IntervalStyle", "iso_8601"),
        ("TimeZone", "Asia/Kolkata"),
        ("geqo", "off"),
        ("jit", "off"),
        ("search_path", "pg_catalog, public"),
    ] {
        let mut params = site.params();
        params.options.push((name.into(), value.into()));
        let mut client = Connection::connect(&params).unwrap();
        ask(&mut client, &Batch::new().parse("p", PROBE).sync(), 1);
        ask(&mut client, &executions(UNTIL_GENERIC), 1);
        assert_eq!(seen(&mut victim), fresh, "{name}");
    }
}

/// The probe shows a difference: within a session, a plan that was made with other settings stays.
#[test]
fn a_plan_stays_with_its_statement_in_postgresql_itself() {
    let site = Site::direct();
    create(&site);
    let mut client = prepare(&site);
    let fresh = seen(&mut client);
    ask(
        &mut client,
        &Batch::new().query("BEGIN; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off"),
        1,
    );
    ask(&mut client, &executions(UNTIL_GENERIC), 1);
    ask(&mut client, &Batch::new().query("COMMIT"), 1);
    assert_ne!(seen(&mut client), fresh);
}

/// The table of the new path has other columns.
#[test]
fn a_text_that_is_prepared_again_after_a_set_in_its_transaction_is_read_by_what_was_set() {
    const TABLES: &str = "CREATE TABLE public.shown (a int); CREATE SCHEMA other; CREATE TABLE other.shown (b text, c int); \
         GRANT USAGE ON SCHEMA other TO PUBLIC; GRANT ALL ON public.shown, other.shown TO PUBLIC";
    const SETS: [&str; 4] = [
        "SET LOCAL search_path = other",
        "SET search_path = other",
        "SELECT set_config('search_path', 'other', true)",
        "DO $$ BEGIN SET search_path = other; END $$",
    ];
    let prepared = |batch: Batch, name: &str| {
        let batch = batch.parse(name, "SELECT * FROM shown").describe_statement(name);
        batch.bind("", name, &[]).execute("", 0).sync()
    };
    for mode in [Mode::Transaction, Mode::Auto] {
        let site = Site::with(Setup::new(mode).size(2).pool("on_dirty = \"reset\""), mode);
        site.superuser().query_all(TABLES).unwrap();
        let seen = |mut client: Connection, set: &str, at_once: bool| {
            let begun = prepared(Batch::new().query("BEGIN"), "one");
            let changed = Batch::new().query(set);
            let again = |batch: Batch| prepared(prepared(batch.close_statement("one"), "one"), "two");
            let mut seen = ask(&mut client, &begun, 2);
            if at_once {
                seen.extend(ask(&mut client, &again(changed), 3));
            } else {
                seen.extend(ask(&mut client, &changed, 1));
                seen.extend(ask(&mut client, &again(Batch::new()), 2));
            }
            seen.extend(ask(&mut client, &prepared(Batch::new().query("ROLLBACK"), "three"), 2));
            seen
        };
        let (postgres, name) = (site.database().postgres(), site.database().name());
        let direct = || Connection::connect(&postgres.params(users::APP, name)).unwrap();
        for (set, at_once) in SETS.iter().flat_map(|set| [(set, false), (set, true)]) {
            let expected = seen(direct(), set, at_once);
            for _ in 0..3 {
                assert_eq!(seen(site.connect(), set, at_once), expected, "{mode:?}, {set}, at once: {at_once}");
            }
        }
    }
}

/// PostgreSQL reads `'now'` once, when the statement is parsed: for each client that prepares it.
#[test]
fn a_literal_that_is_read_by_the_clock_is_read_when_its_client_prepares_it() {
    for (mode, size) in [(Mode::Transaction, 1), (Mode::Transaction, 3), (Mode::Auto, 1), (Mode::Auto, 3)] {
        let setup = Setup::new(mode).size(size).limit("server_round_robin = true");
        let site = Site::with(setup, mode);
        let mut clock = site.superuser();
        for round in 0..4 {
            let since = clock.value("SELECT clock_timestamp()::text").unwrap().unwrap();
            let mut client = site.connect();
            let sql = "SELECT 'Now '::timestamptz >= $1::timestamptz";
            let parse = ask(&mut client, &Batch::new().parse("s", sql).sync(), 1);
            assert_eq!(parse, ["ParseComplete", "Ready I"]);
            for _ in 0..3 {
                let lines = ask(&mut client, &Batch::new().bind("", "s", &[&since]).execute("", 0).sync(), 1);
                assert_eq!(lines[1], "Row t", "{mode:?}, {size} servers, round {round}");
            }
        }
    }
}
