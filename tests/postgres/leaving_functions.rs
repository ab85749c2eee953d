//! `mode = "auto"`: functions whose bodies say that they leave state, and that leave it in some of their executions.

use weir_tests::{Batch, Mode, Setup, Site, ask, eventually};

use crate::dirty::{LISTENING, LOCKED, PREPARED, SETTING, TEMPORARY};

/// Clients call a function that leaves something where its argument is 1, and another client asks whether it is there.
fn leaves_now_and_then(site: &Site, name: &str, question: &str) {
    text_leaves_now_and_then(site, &format!("SELECT {name}(?)"), question);
}

/// The same of a text with a `?` for the argument.
pub(crate) fn text_leaves_now_and_then(site: &Site, text: &str, question: &str) {
    let mut other = site.connect();
    for turn in 0..30 {
        let leaves = turn % 7 == 5;
        let mut client = site.connect();
        client.query(&text.replace('?', if leaves { "1" } else { "0" })).unwrap();
        for _ in 0..3 {
            let others = other.value(question).unwrap();
            assert_eq!(others.as_deref(), Some("0"), "{text}, {turn}: another client has it");
            let own = client.value(question).unwrap();
            assert_eq!(own.as_deref() != Some("0"), leaves, "{text}, {turn}: {own:?}");
        }
        if leaves {
            drop(client);
            // The next one could not take the lock before.
            eventually("the lock is released", || match site.superuser().value(LOCKS).unwrap() {
                Some(locks) if locks != "0" => Err(locks),
                _ => Ok(()),
            });
        }
    }
}

const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = \
     (SELECT oid FROM pg_database WHERE datname = current_database())";

/// How often functions, triggers and policies have changed, as the server has counted.
const CHANGES: &str = "SELECT sum(pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)) FROM pg_class \
     WHERE relname IN ('pg_proc', 'pg_trigger', 'pg_policy')";

/// As a migration does that connects to the database itself, after functions were read.
#[test]
fn in_auto_functions_and_triggers_that_change_past_the_pool_are_found_once_the_server_has_counted_them() {
    for workers in [1, 2] {
        let setup =
            Setup::new(Mode::Auto).size(4).workers(workers).limit("server_round_robin = true\nmax_pinned = 100");
        let site = Site::with(setup, Mode::Auto);
        let past = |sql: &str| {
            let before = site.superuser().value(CHANGES).unwrap();
            // A session's counts are there at the latest when it ends.
            site.superuser().query_all(sql).unwrap();
            eventually("the change is counted", || {
                let now = site.superuser().value(CHANGES).unwrap();
                if now == before { Err(now) } else { Ok(()) }
            });
            // Some question sees it: as many as there are workers.
            (0..8).for_each(|n| drop(site.connect().query(&format!("SELECT abs({n}), '{}'", sql.len())).unwrap()));
        };
        let body = |does: &str| format!("BEGIN IF $1 = 1 THEN {does}; END IF; RETURN 1; END");
        let function = |name: &str, does: &str| {
            format!("CREATE OR REPLACE FUNCTION {name}(int) RETURNS int LANGUAGE plpgsql AS $$ {} $$", body(does))
        };
        past(&function("job", "NULL"));
        for _ in 0..40 {
            site.connect().query("SELECT job(0)").unwrap();
        }
        // The text was judged, and its function leaves something from now on.
        past(&function("job", "PERFORM pg_try_advisory_lock(42)"));
        leaves_now_and_then(&site, "job", LOCKED);
        past(
            "CREATE TABLE watched (n int); GRANT ALL ON watched TO PUBLIC; CREATE FUNCTION watches() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM set_config('my.trigger', 'ran', false); RETURN NEW; END $$; \
             CREATE TRIGGER watches AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION watches()",
        );
        for turn in 0..12 {
            let (mut client, mut other) = (site.connect(), site.connect());
            client.query(&format!("INSERT INTO watched VALUES ({turn})")).unwrap();
            for _ in 0..3 {
                let theirs = other.value("SELECT current_setting('my.trigger', true)").unwrap();
                assert!(theirs.is_none_or(|value| value.is_empty()), "{turn}: another client has it");
                let own = client.value("SELECT current_setting('my.trigger', true)").unwrap();
                assert_eq!(own.as_deref(), Some("ran"), "{turn}");
            }
        }
    }
}

/// A steady load whose texts were sent so often that nothing would be asked about them for as many executions again.
#[test]
fn in_auto_functions_that_change_past_the_pool_are_found_although_no_text_is_new() {
    let site = Site::with(Setup::new(Mode::Auto).size(2).limit("server_round_robin = true"), Mode::Auto);
    let function = |does: &str| {
        format!("CREATE OR REPLACE FUNCTION job(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN {does}; RETURN 1; END $$")
    };
    site.superuser().query_all(&function("NULL")).unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    // Two servers, which are used in turn.
    for command in ["BEGIN", "COMMIT"] {
        client.query(command).unwrap();
        other.query(command).unwrap();
    }
    let own = "SELECT current_setting('my.job', true)";
    for n in 0..1100 {
        client.query(&format!("SELECT job({n})")).unwrap();
        client.query(own).unwrap();
    }
    site.superuser().query_all(&function("PERFORM set_config('my.job', $1::text, false)")).unwrap();
    // Fewer than the 948 after which the text is asked about anyway.
    let mut sent = 0..900;
    eventually("the change is found", || {
        let n = sent.next().expect("it was not found");
        client.query(&format!("SELECT job({n})")).unwrap();
        // Whose text happens to ask, and is not what left it.
        for _ in 0..2 {
            other.query(own).unwrap();
        }
        let own = client.value(own).unwrap();
        if own.as_deref() == Some(&n.to_string()) { Ok(()) } else { Err(own) }
    });
    for n in 0..20 {
        client.query(&format!("SELECT job({n})")).unwrap();
        let theirs = other.value(own).unwrap();
        assert!(theirs.is_none_or(|value| value.is_empty()), "{n}: another client has it");
    }
}

/// As one that takes a job with its lock, or finds none. Its texts are not asked about ever more rarely.
#[test]
fn in_auto_what_a_function_leaves_now_and_then_is_found_where_its_body_says_so() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let function = |name: &str, does: &str| {
        format!(
            "CREATE FUNCTION {name}(int) RETURNS int LANGUAGE plpgsql AS \
             $$ BEGIN IF $1 = 1 THEN {does}; END IF; RETURN 1; END $$"
        )
    };
    let functions = [
        ("locks", "PERFORM pg_try_advisory_lock(42)", LOCKED),
        ("listens", "LISTEN gossip", LISTENING),
        ("keeps", "CREATE TEMP TABLE scratch (n int)", TEMPORARY),
        ("sets", "PERFORM set_config('work_mem', '77MB', false)", SETTING),
        ("assigns", "SET work_mem = '77MB'", SETTING),
        ("prepares", "EXECUTE 'PREPARE mine AS SELECT 1'", PREPARED),
    ];
    functions.iter().for_each(|(name, does, _)| drop(site.superuser().query_all(&function(name, does)).unwrap()));
    let calls = |name: &str, question: &str| leaves_now_and_then(&site, name, question);
    functions.iter().for_each(|(name, _, question)| calls(name, question));
    // One that is created later, by a client.
    site.connect().query_all(&function("locks_later", "PERFORM pg_advisory_lock(43)")).unwrap();
    calls("locks_later", LOCKED);
    // A client that listens keeps no server, but it is asked about such a text, too.
    let (mut client, mut other) = (site.connect(), site.connect());
    client.query("LISTEN gossip").unwrap();
    for turn in 0..30 {
        client.query(&format!("SELECT locks({})", i32::from(turn == 29))).unwrap();
        assert_eq!(other.value(LOCKED).unwrap().as_deref(), Some("0"), "{turn}");
    }
    assert_eq!(client.value(LOCKED).unwrap().as_deref(), Some("1"));
}

/// No text names the function: what depends on it, or has its name in a body, does.
#[test]
fn in_auto_what_calls_a_function_that_leaves_state_is_found_by_what_depends_on_it() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let takes = "IF n = 1 THEN PERFORM pg_try_advisory_lock(42); END IF; RETURN n; END";
    let function = |name: &str| {
        format!("CREATE FUNCTION {name}(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN {takes} $$; ")
    };
    let table = |name: &str, columns: &str| format!("CREATE TABLE {name} ({columns}); GRANT ALL ON {name} TO PUBLIC; ");
    let fires = |name: &str, on: &str| {
        format!(
            "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n int := NEW.n; BEGIN \
             IF n = 1 THEN PERFORM pg_try_advisory_lock(42); END IF; RETURN NEW; END $$; \
             CREATE TRIGGER fires BEFORE INSERT OR UPDATE ON {on} FOR EACH ROW EXECUTE FUNCTION {name}(); "
        )
    };
    let ways = [
        (table("t1", "n int") + &fires("f1", "t1"), "INSERT INTO t1 VALUES (?)"),
        (function("f2") + "CREATE FUNCTION g2(n int) RETURNS int LANGUAGE sql AS 'SELECT f2(n)'", "SELECT g2(?)"),
        (function("f3") + &table("t3", "n int, CHECK (f3(n) >= 0)"), "INSERT INTO t3 VALUES (?)"),
        (function("f4") + &table("t4", "n int, m int GENERATED ALWAYS AS (f4(n)) STORED"), "INSERT INTO t4 VALUES (?)"),
        (function("f5") + "CREATE DOMAIN d5 AS int CHECK (f5(value) >= 0)", "SELECT '?'::d5"),
        (function("f6") + "CREATE OPERATOR === (rightarg = int, function = f6)", "SELECT === ?"),
        (
            function("f7")
                + &table("t7", "n int")
                + "INSERT INTO t7 VALUES (0), (1); \
                   CREATE VIEW v7 AS SELECT n, f7(n) FROM t7 OFFSET 0; GRANT ALL ON v7 TO PUBLIC",
            "SELECT * FROM (SELECT * FROM v7 LIMIT ? + 1) AS v",
        ),
        (
            function("f8") + &table("t8", "n int") + "CREATE RULE r8 AS ON INSERT TO t8 DO ALSO SELECT f8(NEW.n)",
            "INSERT INTO t8 VALUES (?)",
        ),
        (
            table("t9", "n int UNIQUE")
                + "INSERT INTO t9 VALUES (2); "
                + &table("u9", "n int REFERENCES t9 (n) ON UPDATE CASCADE")
                + "INSERT INTO u9 VALUES (2); "
                + &fires("f9", "u9"),
            "UPDATE t9 SET n = ?",
        ),
        (
            format!(
                "CREATE FUNCTION f10(s int, n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN {takes} $$; \
                 CREATE AGGREGATE a10(int) (sfunc = f10, stype = int, initcond = '0')"
            ),
            "SELECT a10(n) FROM (VALUES (?)) AS v(n)",
        ),
        (
            "CREATE FUNCTION f11(n int) RETURNS text LANGUAGE sql BEGIN ATOMIC \
             SELECT CASE WHEN n = 1 THEN pg_try_advisory_lock(42)::text END; END"
                .to_owned(),
            "SELECT f11(?)",
        ),
        (
            format!("CREATE FUNCTION \"take it\"(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN {takes} $$"),
            "SELECT \"take it\"(?)",
        ),
        // Over a function of PostgreSQL.
        (
            "CREATE OPERATOR @@@! (rightarg = int8, function = pg_try_advisory_lock)".to_owned(),
            "SELECT CASE WHEN ? = 1 THEN @@@! 42::int8 END",
        ),
        (
            "CREATE FUNCTION other_name(int8) RETURNS bool LANGUAGE internal AS 'pg_try_advisory_lock_int8'".to_owned(),
            "SELECT CASE WHEN ? = 1 THEN other_name(42) END",
        ),
        // A command that only begins as one of rows.
        (
            table("t15", "n text")
                + "CREATE FUNCTION f15(s text) RETURNS int LANGUAGE plpgsql AS \
                   $$ BEGIN EXECUTE 'INSERT INTO t15 SELECT ' || s; RETURN 1; END $$",
            "SELECT f15('CASE WHEN ? = 1 THEN pg_try_adv' || 'isory_lock(42)::text END')",
        ),
        (
            table("t16", "n text")
                + "CREATE FUNCTION f16(s text) RETURNS int LANGUAGE plpgsql AS \
                   $$ BEGIN EXECUTE format('INSERT INTO t16 VALUES (%s)', s); RETURN 1; END $$",
            "SELECT f16('1); SELECT CASE WHEN ? = 1 THEN pg_try_adv' || 'isory_lock(42) END; SELECT (1')",
        ),
        (
            String::new(),
            "SELECT * FROM ts_stat('SELECT ''a''::tsvector WHERE ? = 1 AND pg_try_adv' || 'isory_lock(42)')",
        ),
        (
            "CREATE FUNCTION f18(s text) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM ts_stat(s)'".to_owned(),
            "SELECT f18('SELECT ''a''::tsvector WHERE ? = 1 AND pg_try_adv' || 'isory_lock(42)')",
        ),
    ];
    for (prepare, text) in &ways {
        site.superuser().query_all(prepare).unwrap();
        // A function that is created by a client of the pool is noticed at once.
        site.connect().query_all("CREATE OR REPLACE FUNCTION news() RETURNS int LANGUAGE sql AS 'SELECT 1'").unwrap();
        text_leaves_now_and_then(&site, text, LOCKED);
    }
}

/// The same of one whose function sets what nobody can name.
#[test]
fn in_auto_a_statement_that_sql_executes_keeps_its_client_if_it_may_set_what_nobody_can_name() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let create =
        "CREATE FUNCTION set_ctx(k text, v text) RETURNS text LANGUAGE sql AS 'SELECT set_config(k, v, false)'";
    site.superuser().query_all(create).unwrap();
    let mut other = site.connect();
    for turn in 0..6 {
        let mut client = site.connect();
        ask(&mut client, &Batch::new().parse("mine", "SELECT set_ctx($1, $2)").sync(), 1);
        client.query("EXECUTE mine('my.tenant', 'ann')").unwrap();
        for _ in 0..4 {
            let tenant = "SELECT coalesce(current_setting('my.tenant', true), '')";
            assert_eq!(other.value(tenant).unwrap().as_deref(), Some(""), "{turn}: another client has it");
            let own = client.value(tenant).unwrap();
            // What the pool's first text names is not known when it is sent.
            assert!(own.as_deref() == Some("ann") || turn == 0, "{turn}: {own:?}");
        }
    }
}

/// As of a domain by itself: the types are made by a client of the pool, after functions were read.
#[test]
fn in_auto_a_type_that_a_client_makes_of_a_domain_is_asked_about_each_time() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let create = "CREATE FUNCTION takes(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \
         $$ BEGIN IF n = 1 THEN PERFORM pg_try_advisory_lock(42); END IF; RETURN n; END $$; \
         CREATE DOMAIN checked AS int CHECK (takes(value) >= 0); GRANT CREATE ON SCHEMA public TO PUBLIC";
    site.superuser().query_all(create).unwrap();
    let ways = [
        ("CREATE TYPE pair AS (a checked)", "SELECT '(?)'::pair"),
        ("CREATE TABLE pairs (a pair)", "INSERT INTO pairs VALUES ('(?)')"),
        ("CREATE TYPE span AS RANGE (subtype = checked)", "SELECT '[?,2]'::span"),
        ("CREATE TYPE later AS (a int); ALTER TYPE later ADD ATTRIBUTE b checked", "SELECT '(7,?)'::later"),
    ];
    for (create, text) in ways {
        let mut maker = site.connect();
        (0..5).for_each(|n| drop(maker.query(&format!("SELECT {n}")).unwrap()));
        maker.query_all(create).unwrap();
        text_leaves_now_and_then(&site, text, LOCKED);
    }
}

/// Where nothing else leaves state, no definition is of interest but those that give a function another name.
#[test]
fn in_auto_an_operator_that_a_client_makes_over_a_function_of_postgresql_is_asked_about_each_time() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    (0..40).for_each(|n| drop(site.connect().query(&format!("SELECT CASE WHEN {n} = 1 THEN @ 42::int8 END")).unwrap()));
    site.connect().query_all("CREATE OPERATOR @@@! (rightarg = int8, function = pg_try_advisory_lock)").unwrap();
    text_leaves_now_and_then(&site, "SELECT CASE WHEN ? = 1 THEN @@@! 42::int8 END", LOCKED);
}

/// Nor those whose text names no such function.
#[test]
fn in_auto_a_view_that_a_client_makes_over_a_function_of_postgresql_is_asked_about_each_time() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let mut maker = site.connect();
    let create = "CREATE TABLE numbers (n int); INSERT INTO numbers VALUES (0), (1); GRANT ALL ON numbers TO PUBLIC";
    site.superuser().query_all(create).unwrap();
    (0..5).for_each(|n| drop(maker.query(&format!("SELECT count(*) FROM numbers WHERE n = {n}")).unwrap()));
    let create = "CREATE VIEW locks AS SELECT n, CASE WHEN n = 1 THEN pg_try_advisory_lock(42) END FROM numbers";
    maker.query(create).unwrap();
    maker.query("GRANT ALL ON locks TO PUBLIC").unwrap();
    drop(maker);
    text_leaves_now_and_then(&site, "SELECT * FROM locks WHERE n = ?", LOCKED);
}

/// SET and `set_config()` in forms that are rare in a body.
#[test]
fn in_auto_a_setting_that_a_body_writes_in_a_rare_form_is_found_each_time() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let forms = [
        "-- why\n SET work_mem = '77MB'",
        "/* why */ SET/**/work_mem = '77MB'",
        "PERFORM \"set_config\"('work_mem', '77MB', false)",
        "PERFORM set_config /* name */ ('work_mem', '77MB', false)",
        "EXECUTE $q$SET work_mem = '77MB'$q$",
        "EXECUTE 's' || 'et work_mem = ''77MB'''",
        "UPDATE pg_settings SET setting = '78848' WHERE name = 'work_mem'",
    ];
    for (n, does) in forms.iter().enumerate() {
        let body = format!("BEGIN IF $1 = 1 THEN {does}; END IF; RETURN 1; END");
        let function = format!("CREATE FUNCTION sets{n}(int) RETURNS int LANGUAGE plpgsql AS $f$ {body} $f$");
        site.superuser().query_all(&function).unwrap();
        site.connect().query_all("CREATE OR REPLACE FUNCTION news() RETURNS int LANGUAGE sql AS 'SELECT 1'").unwrap();
        leaves_now_and_then(&site, &format!("sets{n}"), SETTING);
    }
}

/// Texts that begin alike for longer than what their counts depend on.
#[test]
fn in_auto_a_function_that_a_long_text_names_at_its_end_is_asked_about_each_time() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let body = "BEGIN IF $1 = 1 THEN PERFORM pg_try_advisory_lock(42); END IF; RETURN 1; END";
    let create = format!("CREATE FUNCTION locks(int) RETURNS int LANGUAGE plpgsql AS $$ {body} $$");
    site.superuser().query_all(&create).unwrap();
    for filling in [4000, 5000, 12_000] {
        let comment = format!("/* {} */", "x".repeat(filling));
        // The same without the function is known as harmless.
        (0..40).for_each(|_| drop(site.connect().query(&format!("{comment} SELECT abs(0)")).unwrap()));
        text_leaves_now_and_then(&site, &format!("{comment} SELECT locks(?)"), LOCKED);
    }
}

/// SQL's EXECUTE of a statement that the client has prepared by the protocol.
#[test]
fn in_auto_a_statement_that_sql_executes_is_asked_about_each_time_if_there_are_functions_that_leave_state() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let body = "BEGIN IF $1 = 1 THEN PERFORM pg_try_advisory_lock(42); END IF; RETURN 1; END";
    let create = format!("CREATE FUNCTION locks(int) RETURNS int LANGUAGE plpgsql AS $$ {body} $$");
    site.superuser().query_all(&create).unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    ask(&mut client, &Batch::new().parse("mine", "SELECT locks($1::int)").sync(), 1);
    for turn in 0..40 {
        let has_left = turn >= 37;
        client.query(&format!("EXECUTE mine({})", i32::from(turn == 37))).unwrap();
        for _ in 0..3 {
            assert_eq!(other.value(LOCKED).unwrap().as_deref(), Some("0"), "{turn}: another client has it");
            assert_eq!(client.value(LOCKED).unwrap().as_deref() != Some("0"), has_left, "{turn}");
        }
    }
}

/// As Vault's dynamic roles have it.
#[test]
fn in_auto_a_role_that_sessions_begin_with_is_no_state() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(2).limit("server_round_robin = true\nmax_pinned = 50"), Mode::Auto);
    let superuser = |sql: &str| drop(site.superuser().query_all(sql).unwrap());
    let user = site.connect().value("SELECT current_user").unwrap().unwrap();
    superuser(&format!("CREATE ROLE readers; CREATE ROLE writers; GRANT readers, writers TO {user}"));
    let database = site.superuser().value("SELECT current_database()").unwrap().unwrap();
    superuser(&format!("ALTER ROLE {user} IN DATABASE \"{database}\" SET role = readers"));
    // Servers from before are replaced.
    eventually("new servers have the role", || {
        let role = site.connect().value(&format!("SELECT current_user, '{}'", "x")).unwrap();
        if role.as_deref() == Some("readers") { Ok(()) } else { Err(role) }
    });
    for n in 0..20 {
        let (mut one, mut other) = (site.connect(), site.connect());
        for client in [&mut one, &mut other] {
            assert_eq!(client.value(&format!("SELECT current_role, abs({n})")).unwrap().as_deref(), Some("readers"));
        }
        // Another one is.
        for role in ["none", "writers"] {
            one.query(&format!("SET ROLE {role}")).unwrap();
            let name = if role == "none" { &user } else { role };
            for _ in 0..3 {
                assert_eq!(other.value("SELECT current_user").unwrap().as_deref(), Some("readers"));
                assert_eq!(one.value("SELECT current_user").unwrap().as_deref(), Some(name));
            }
        }
    }
}

/// As a helper for tenants has it: the name of the setting is an argument, so no server can be asked for it.
#[test]
fn in_auto_a_setting_whose_name_no_body_tells_keeps_its_client_and_reaches_no_other() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let composed = "'SELECT ''a''::tsvector WHERE set_' || 'config(''my.tenant'', ''ann'', false) IS NOT NULL'";
    let by_function = |name: &str, does: &str| {
        let function =
            format!("CREATE FUNCTION {name}() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN {does}; RETURN 1; END $f$");
        (function, format!("SELECT {name}()"))
    };
    let ways = [
        (
            "CREATE FUNCTION set_ctx(k text, v text) RETURNS void LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM set_config(k, v, false); END $$"
                .to_owned(),
            "SELECT set_ctx('my.tenant', 'ann')".to_owned(),
        ),
        (
            "CREATE FUNCTION ctx(text) RETURNS text LANGUAGE sql AS \
             $$ SELECT set_config('my.' || 'tenant', $1, false) $$; \
             CREATE FUNCTION calls(v text) RETURNS text LANGUAGE sql AS 'SELECT ctx(v)'"
                .to_owned(),
            "SELECT calls('ann')".to_owned(),
        ),
        by_function("e1", "PERFORM set_config(E'my.tenant', 'ann', false)"),
        by_function("e2", "SET \"my\".tenant = 'ann'"),
        by_function("e3", "EXECUTE format('SET %s = %L', 'my.tenant', 'ann')"),
        by_function("e4", "EXECUTE 'set ' || 'my.tenant = ''ann'''"),
        (
            "CREATE VIEW v5 AS SELECT set_config('my.tenant', 'ann', false); GRANT ALL ON v5 TO PUBLIC".to_owned(),
            "SELECT * FROM v5".to_owned(),
        ),
        (
            "CREATE TABLE t6 (n int, m text DEFAULT set_config('my.tenant', 'ann', false)); GRANT ALL ON t6 TO PUBLIC".to_owned(),
            "INSERT INTO t6 (n) VALUES (1)".to_owned(),
        ),
        (
            "CREATE DOMAIN d7 AS int CHECK (set_config('my.tenant', 'ann', false) IS NOT NULL)".to_owned(),
            "SELECT 1::d7".to_owned(),
        ),
        (
            "CREATE FUNCTION f8(n text DEFAULT set_config('my.tenant', 'ann', false)) RETURNS text LANGUAGE sql AS 'SELECT n'"
                .to_owned(),
            "SELECT f8()".to_owned(),
        ),
        // In a text that a function runs.
        (String::new(), format!("SELECT count(*) FROM ts_stat({composed})")),
        (String::new(), format!("SELECT length(query_to_xml({composed}, true, true, '')::text)")),
        (String::new(), "SELECT ts_rewrite('a', 'SELECT ''a''::tsquery, ''b''::tsquery WHERE set_' || \
             'config(''my.tenant'', ''ann'', false) IS NOT NULL')".to_owned()),
        by_function("f9", &format!("PERFORM * FROM ts_stat({composed})")),
        (
            format!("CREATE VIEW v10 AS SELECT * FROM ts_stat({composed}); GRANT ALL ON v10 TO PUBLIC"),
            "SELECT count(*) FROM v10".to_owned(),
        ),
        (
            "CREATE AGGREGATE sets(text, bool) (sfunc = set_config, stype = text, initcond = 'my.tenant')".to_owned(),
            "SELECT sets('ann', false)".to_owned(),
        ),
        (
            "CREATE FUNCTION other_name(text, text, bool) RETURNS text LANGUAGE internal AS 'set_config_by_name'".to_owned(),
            "SELECT other_name('my.' || 'tenant', 'ann', false)".to_owned(),
        ),
    ];
    const TENANT: &str = "SELECT coalesce(current_setting('my.tenant', true), '')";
    for (prepare, text) in &ways {
        site.superuser().query_all(prepare).unwrap();
        site.connect().query_all("CREATE OR REPLACE FUNCTION news() RETURNS int LANGUAGE sql AS 'SELECT 1'").unwrap();
        let mut other = site.connect();
        for turn in 0..6 {
            let mut client = site.connect();
            client.query(text).unwrap();
            for _ in 0..4 {
                assert_eq!(other.value(TENANT).unwrap().as_deref(), Some(""), "{text}, {turn}: another client has it");
                assert_eq!(client.value(TENANT).unwrap().as_deref(), Some("ann"), "{text}, {turn}");
            }
        }
    }
}

/// A question switches the compiler off for itself: what the client has set of it is the client's all the same.
#[test]
fn in_auto_a_client_with_settings_of_the_planner_is_asked_as_any_other() {
    let site = Site::with(Setup::new(Mode::Auto).size(2).limit("server_round_robin = true"), Mode::Auto);
    let mut other = site.connect();
    let default = other.value("SHOW jit").unwrap().unwrap();
    let mut client = site.connect();
    client.query("SET enable_seqscan = off").unwrap();
    let create = "CREATE FUNCTION compile(how text) RETURNS text LANGUAGE plpgsql AS $f$
        BEGIN RETURN set_config('jit', how, false); END $f$";
    client.query(create).unwrap();
    for how in [if default == "on" { "off" } else { "on" }, &default] {
        client.query(&format!("SELECT compile('{how}')")).unwrap();
        for _ in 0..3 {
            let own = ["jit", "enable_seqscan"].map(|name| client.value(&format!("SHOW {name}")).unwrap().unwrap());
            assert_eq!(own, [how, "off"]);
            assert_eq!(other.value("SHOW jit").unwrap().as_deref(), Some(&*default));
            assert_eq!(other.value("SHOW enable_seqscan").unwrap().as_deref(), Some("on"));
        }
    }
}

/// Nobody can name what the command sets, as its text comes from elsewhere.
#[test]
fn in_auto_what_a_composed_command_sets_reaches_no_other_client() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(2).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let prepare = "CREATE TABLE rows (n text); GRANT ALL ON rows TO PUBLIC; \
         CREATE FUNCTION runs(s text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE s; END $$; \
         CREATE FUNCTION adds(s text) RETURNS void LANGUAGE plpgsql AS \
         $$ BEGIN EXECUTE 'INSERT INTO rows SELECT ' || s; END $$";
    site.superuser().query_all(prepare).unwrap();
    let mut other = site.connect();
    let texts = [
        "SELECT runs('SET my.ten' || 'ant = ''ann''')",
        "SELECT adds('set_' || 'config(''my.tenant'', ''ann'', false)')",
        "SELECT adds('1; SET my.ten' || 'ant = ''ann''')",
    ];
    for (turn, text) in texts.into_iter().cycle().take(9).enumerate() {
        let mut client = site.connect();
        client.query("SET my.own = 'mine'").unwrap();
        client.query("SET work_mem = '77MB'").unwrap();
        client.query(text).unwrap();
        for _ in 0..4 {
            let tenant = other.value("SELECT coalesce(current_setting('my.tenant', true), '')").unwrap();
            assert_eq!(tenant.as_deref(), Some(""), "{text}, {turn}: another client has it");
            let own = client.value("SELECT current_setting('my.own') || current_setting('work_mem')").unwrap();
            assert_eq!(own.as_deref(), Some("mine77MB"), "{text}, {turn}: what is known follows the client");
        }
    }
}

/// A function that runs a text shows what it runs, and commands are composed of names only, as in many triggers.
#[test]
fn in_auto_texts_that_show_what_they_run_keep_no_client() {
    let site = Site::with(Setup::new(Mode::Auto).size(1).limit("max_pinned = 100\nquery_wait_timeout = 5"), Mode::Auto);
    let prepare = "CREATE TABLE parts (n int, made date DEFAULT now()); CREATE TABLE parts_a (LIKE parts); \
         GRANT ALL ON parts, parts_a TO PUBLIC; \
         CREATE FUNCTION moves() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         EXECUTE format('INSERT INTO %I VALUES ($1.*)', TG_TABLE_NAME || '_a') USING NEW; RETURN NULL; END $$; \
         CREATE TRIGGER moves BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION moves(); \
         CREATE FUNCTION sets_any(k text) RETURNS text LANGUAGE sql AS $$ SELECT set_config(k, 'ann', false) $$";
    site.superuser().query_all(prepare).unwrap();
    let (mut client, mut other) = (site.connect(), site.connect());
    for text in [
        "INSERT INTO parts VALUES (1)",
        "SELECT count(*) FROM ts_stat('SELECT ''a''::tsvector')",
        "SELECT count(*) FROM ts_stat($$SELECT 'a'::tsvector$$, 'ab')",
        "SELECT ts_rewrite('a'::tsquery, 'b', 'c')",
    ] {
        for _ in 0..3 {
            client.query(text).unwrap();
            assert_eq!(other.value("SELECT 1").unwrap().as_deref(), Some("1"), "{text} keeps its client");
        }
    }
    assert_eq!(other.value("SELECT count(*) FROM parts_a").unwrap().as_deref(), Some("3"));
    // The same text with another value is not the same.
    let text = "SELECT count(*) FROM ts_stat('SELECT ''a''::tsvector WHERE sets_any(''my.tenant'') IS NOT NULL')";
    client.query(text).unwrap();
    assert!(other.query("SELECT 1").is_err(), "the client does not keep the only server");
}
