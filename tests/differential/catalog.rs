//! The texts and values that the generator draws from.
//!
//! No answer may depend on the clock, on chance, or on other clients: no now(), no process ids, no order that is left
//! to the server. `@.` is the client's schema, `@#` its number.

/// The contents of each client's schema at the start.
pub(crate) const SCHEMA: &str = "
CREATE TABLE @.t (id serial PRIMARY KEY, a int, b text, c numeric(8,2) CHECK (c < 1000), d timestamptz DEFAULT '2024-02-29 12:00+00');
INSERT INTO @.t (a, b, c) VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3), (4, E'fo\\tur\\\\n', 4.25);
CREATE TABLE @.parent (n int PRIMARY KEY);
INSERT INTO @.parent VALUES (1), (2);
CREATE TABLE @.child (n int REFERENCES @.parent DEFERRABLE INITIALLY DEFERRED, note text);
CREATE TABLE @.copied (n int, s text);
CREATE TABLE @.wide (x int);
INSERT INTO @.wide VALUES (7);
CREATE TYPE @.pair AS (x int, y text);
CREATE TYPE @.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN @.even AS int CHECK (VALUE % 2 = 0);
CREATE SEQUENCE @.numbers;
CREATE TABLE @.drawn (id serial, n int);
CREATE FUNCTION @.draw() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''@.numbers'')';
CREATE VIEW @.v AS SELECT id, a FROM @.t WHERE a > 1;
CREATE FUNCTION @.fail(code text, what text) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION '%', what USING ERRCODE = code, DETAIL = 'in detail', HINT = 'a hint', TABLE = 'tt', CONSTRAINT = 'cc'; END $$;
CREATE FUNCTION @.note(n int) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN RAISE NOTICE 'noted %', n; RAISE WARNING 'warned %', n USING ERRCODE = '01234'; RAISE INFO 'replies'; RETURN n; END $$;
CREATE FUNCTION @.caught(n int) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN RETURN (10 / n)::text; EXCEPTION WHEN division_by_zero THEN RETURN SQLSTATE; END $$;
CREATE FUNCTION @.many(n int) RETURNS SETOF @.pair LANGUAGE sql AS
  $$ SELECT i, repeat('r', i) FROM generate_series(1, n) AS i $$;
CREATE FUNCTION @.sets(name text, value text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN RETURN set_config(name, value, false); END $$;
CREATE FUNCTION @.locks() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(5@#); RETURN 1; END $$;
CREATE FUNCTION @.listens() RETURNS int LANGUAGE plpgsql AS $$ BEGIN LISTEN hidden@#; RETURN 1; END $$;
CREATE FUNCTION @.makes() RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN CREATE TEMP TABLE IF NOT EXISTS hidden (n int); RETURN 1; END $$;
CREATE FUNCTION @.watches() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM set_config('my.trigger', 'ran', false), set_config('lock_timeout', '16s', false); RETURN NEW; END $$;
CREATE TABLE @.watched (n int);
CREATE TRIGGER watches AFTER INSERT ON @.watched FOR EACH ROW EXECUTE FUNCTION @.watches();
CREATE VIEW @.locking AS SELECT pg_advisory_lock_shared(6@#) IS NULL AS got;
CREATE PROCEDURE @.proc(INOUT n int) LANGUAGE plpgsql AS $$ BEGIN n := n * 2; RAISE NOTICE 'doubled'; END $$;
";

/// Statements without parameters that leave the transaction state unchanged, in every mode.
pub(crate) const PLAIN: [&str; 72] = [
    "SELECT 1 AS one, NULL AS nothing, 'x'::text AS x",
    "SELECT",
    "SELECT FROM generate_series(1, 3)",
    "SELECT id, a, b, c, d FROM @.t ORDER BY id",
    "SELECT * FROM @.v ORDER BY id",
    "SELECT count(*), sum(a) FROM @.t",
    "SELECT * FROM @.many(4)",
    "SELECT m FROM @.many(2) AS m",
    "SELECT ROW(1, 'x', NULL), ROW(1, 'y')::@.pair",
    "SELECT 'ok'::@.mood, 'sad' < 'happy'::@.mood",
    "SELECT 4::@.even",
    "SELECT 5::@.even",
    "SELECT 'glum'::@.mood",
    "VALUES (1, 'a'), (2, NULL)",
    "TABLE @.parent ORDER BY n",
    "SELECT repeat('wide', 5000)",
    "SELECT i, repeat('r', i * 7) FROM generate_series(1, 40) AS i",
    "SELECT 1/0",
    "SELECT 1/(3 - i) FROM generate_series(1, 5) AS i",
    "SELEC nonsense",
    "SELECT * FROM @.missing",
    "SELECT missing FROM @.t",
    "SELECT no_such_function(1)",
    "SELECT 'x'::int",
    "SELECT @.fail('P0042', 'of its own')",
    "SELECT @.fail('40001', 'try again')",
    "SELECT @.note(3)",
    "SELECT @.caught(0), @.caught(5)",
    "CALL @.proc(21)",
    "DO $$ BEGIN RAISE NOTICE 'from do'; END $$",
    "DO $$ BEGIN PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN RAISE WARNING 'caught'; END $$",
    "DO $$ BEGIN RAISE EXCEPTION 'from do' USING ERRCODE = 'ZZ001'; END $$",
    "INSERT INTO @.t (a, b) VALUES (10, 'ten') RETURNING id, a",
    "INSERT INTO @.t (a, b) SELECT i, 'many' FROM generate_series(20, 22) AS i",
    "INSERT INTO @.t (id) VALUES (1)",
    "INSERT INTO @.t (id, a) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a RETURNING id, a",
    "INSERT INTO @.t (c) VALUES (5000)",
    "INSERT INTO @.child VALUES (1, 'fine')",
    "INSERT INTO @.child VALUES (99, 'an orphan')",
    "UPDATE @.t SET a = a + 1 WHERE id = 2 RETURNING a",
    "UPDATE @.t SET b = upper(b) WHERE id <= 3",
    "DELETE FROM @.t WHERE id = 4 RETURNING b",
    "DELETE FROM @.t WHERE a > 15",
    "WITH gone AS (DELETE FROM @.t WHERE id = 3 RETURNING id) SELECT count(*) FROM gone",
    "TRUNCATE @.copied",
    "SELECT count(*) FROM @.copied",
    "SELECT n, s FROM @.copied ORDER BY n, s",
    "EXPLAIN (COSTS OFF) SELECT * FROM @.t WHERE id = 1",
    "EXPLAIN (COSTS OFF, FORMAT JSON) SELECT 1",
    "SELECT nextval('@.numbers')",
    "SELECT pg_advisory_xact_lock(@#)",
    "SELECT '{1,2,NULL}'::int[], ARRAY[[1,2],[3,4]]",
    "SELECT int4range(1, 5), '[2024-01-01,2024-02-01)'::daterange",
    "SELECT '{\"a\": [1, null]}'::jsonb, '<a>b</a>'::xml",
    "SELECT '\\x00ff'::bytea, E'\\u00e4\\u20ac'",
    "SELECT 'NaN'::float8, 'Infinity'::float4, 1e300, 0.1::float4, 12345678901234567890.123",
    "SELECT '2024-02-29 12:00+00'::timestamptz, '1 year 2 mons -3 days'::interval",
    "SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, '10.0.0.1/8'::inet, B'101'",
    "SELECT true, false, 'c'::\"char\", 'n'::name",
    "NOTIFY somebody, 'else'",
    "SHOW server_encoding",
    "SHOW TimeZone",
    "SHOW application_name",
    "SHOW DateStyle",
    "",
    "-- nothing but a comment",
    "/* a comment */ SELECT /* inside */ 1",
    "LOCK TABLE @.t",
    "SELECT id FROM @.t WHERE id = 1 FOR UPDATE",
    "SELECT shared FROM contended WHERE shared = 1 FOR SHARE",
    "CREATE TABLE @.t (n int)",
    "DROP TABLE IF EXISTS @.never_there",
];

/// CREATE, ALTER and DROP; each may fail, since the order is drawn.
pub(crate) const DDL: [&str; 34] = [
    "CREATE TABLE @.extra (n int, s text DEFAULT 'x')",
    "CREATE TABLE IF NOT EXISTS @.extra (n int, s text)",
    "DROP TABLE @.extra",
    "DROP TABLE IF EXISTS @.extra CASCADE",
    "ALTER TABLE @.extra ADD COLUMN more int DEFAULT 5",
    "ALTER TABLE @.extra DROP COLUMN IF EXISTS more",
    "ALTER TABLE @.extra RENAME TO other_name",
    "ALTER TABLE @.other_name RENAME TO extra",
    "CREATE TABLE @.made AS SELECT i, i * i AS square FROM generate_series(1, 4) AS i",
    "SELECT 1 AS x INTO @.into_table",
    "DROP TABLE @.made",
    "DROP TABLE IF EXISTS @.into_table",
    "INSERT INTO @.extra (n) VALUES (1), (2) RETURNING n, s",
    "SELECT n, s FROM @.extra ORDER BY n",
    "SELECT i, square FROM @.made ORDER BY i",
    "CREATE INDEX t_a ON @.t (a)",
    "CREATE UNIQUE INDEX t_b ON @.t (b)",
    "CREATE INDEX IF NOT EXISTS t_a ON @.t (a)",
    "DROP INDEX @.t_a",
    "REINDEX TABLE @.t",
    "CREATE VIEW @.view2 AS SELECT a FROM @.t",
    "CREATE OR REPLACE VIEW @.view2 AS SELECT a, b FROM @.t",
    "DROP VIEW @.view2",
    "CREATE MATERIALIZED VIEW @.mat AS SELECT count(*) AS n FROM @.t",
    "REFRESH MATERIALIZED VIEW @.mat",
    "DROP MATERIALIZED VIEW IF EXISTS @.mat",
    "CREATE SEQUENCE @.seq2 START 5",
    "DROP SEQUENCE @.seq2",
    "CREATE TYPE @.kind AS ENUM ('a', 'b')",
    "DROP TYPE IF EXISTS @.kind",
    "CREATE OR REPLACE FUNCTION @.plus(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'",
    "SELECT @.plus(1)",
    "DROP FUNCTION @.plus(int)",
    "COMMENT ON TABLE @.t IS 'a table'",
];

/// Several statements in one text.
pub(crate) const MANY: [&str; 24] = [
    "SELECT 1; SELECT 2",
    "SELECT 1; SELECT 1/0; SELECT 2",
    ";;",
    "; SELECT 1;",
    "INSERT INTO @.t (a) VALUES (50); INSERT INTO @.t (id) VALUES (1)",
    "INSERT INTO @.t (a) VALUES (51); SELECT count(*) FROM @.t",
    "SELECT @.note(1); SELECT @.fail('P0001', 'second')",
    "CREATE TABLE @.brief (n int); INSERT INTO @.brief VALUES (1) RETURNING n; DROP TABLE @.brief",
    "SELECT 1; SELEC 2",
    "UPDATE contended SET n = n WHERE shared = 1; SELECT 1",
    "SELECT 1; ROLLBACK; SELECT 2",
    "INSERT INTO @.t (a) VALUES (52); ROLLBACK",
    "INSERT INTO @.t (a) VALUES (53); COMMIT; SELECT 1/0",
    "SELECT 1; VACUUM @.t",
    "SET LOCAL TimeZone = 'Asia/Tokyo'; SHOW TimeZone",
    "SELECT 1; SAVEPOINT s",
    "COPY (SELECT generate_series(1, 3)) TO STDOUT; SELECT 'after'",
    "SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO @.child VALUES (98, 'x')",
    "RESET ALL; SHOW TimeZone; SHOW DateStyle",
    "RESET TimeZone; SHOW TimeZone; SELECT 1/0",
    "SET TimeZone = 'UTC'; SET TimeZone TO DEFAULT; SHOW TimeZone; UNLISTEN nobody",
    "RESET application_name; COMMIT; SHOW application_name; SELECT 1/0",
    "SET LOCAL DateStyle TO DEFAULT; SHOW DateStyle",
    "SELECT E'\\';'; RESET IntervalStyle; SELECT interval '1 day'",
];

/// Several statements in one text, with transaction blocks in them.
pub(crate) const MANY_BLOCKS: [&str; 9] = [
    "BEGIN; INSERT INTO @.t (a) VALUES (60); COMMIT",
    "BEGIN; INSERT INTO @.t (a) VALUES (61); SELECT 1/0; COMMIT",
    "INSERT INTO @.t (a) VALUES (62); BEGIN; SELECT 1/0",
    "BEGIN; SELECT 1; COMMIT; BEGIN; SELECT 2",
    "BEGIN; SAVEPOINT a; INSERT INTO @.t (id) VALUES (1)",
    "SELECT 1; BEGIN; SELECT 2; ROLLBACK; SELECT 3",
    "BEGIN; INSERT INTO @.child VALUES (97, 'deferred'); COMMIT; SELECT 'not reached'",
    "BEGIN; SET LOCAL TimeZone = 'UTC'; SET LOCAL TIME ZONE DEFAULT; SHOW TimeZone; COMMIT; SHOW TimeZone",
    "BEGIN; RESET ALL; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SHOW TimeZone; ROLLBACK; SHOW TimeZone",
];

/// Changes of parameters that follow the client in every mode.
pub(crate) const PARAMETERS: [&str; 16] = [
    "SET TimeZone = 'Asia/Tokyo'",
    "SET TIME ZONE 'Europe/Berlin'",
    "SET SESSION TimeZone TO 'UTC'",
    "RESET TimeZone",
    "SET application_name = 'somebody'",
    "SET application_name TO 'it''s \"quoted\" \\ back'",
    "RESET application_name",
    "SET DateStyle = 'German, DMY'",
    "RESET DateStyle",
    "SET IntervalStyle = 'iso_8601'",
    "SET IntervalStyle TO DEFAULT",
    "SET client_encoding = 'LATIN1'",
    "SET NAMES 'UTF8'",
    "SET standard_conforming_strings = on",
    "SET TimeZone = 'No/Where'",
    "SELECT set_config('TimeZone', 'America/Lima', false)",
];

/// Statements that need the same server for the whole session.
pub(crate) const SESSION: [(&str, crate::guarantees::Guarantee); 37] = {
    use crate::guarantees::Guarantee::*;
    [
        ("SET work_mem = '3MB'", Settings),
        ("SHOW work_mem", Settings),
        ("RESET work_mem", Settings),
        ("SET extra_float_digits = 0", Settings),
        ("SET bytea_output = 'escape'", Settings),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", Settings),
        ("RESET ALL", Settings),
        ("SET search_path = public", Settings),
        ("SET lc_messages = 'C'", Settings),
        ("LISTEN mine@#", Channels),
        ("NOTIFY mine@#, 'a payload'", Channels),
        ("NOTIFY mine@#", Channels),
        ("UNLISTEN mine@#", Channels),
        ("UNLISTEN *", Channels),
        ("CREATE TEMP TABLE tt (n int)", TemporaryTables),
        ("INSERT INTO tt VALUES (1) RETURNING n", TemporaryTables),
        ("DROP TABLE tt", TemporaryTables),
        ("PREPARE sqlp (int) AS SELECT $1 + 1", SqlStatements),
        ("EXECUTE sqlp(41)", SqlStatements),
        ("DEALLOCATE sqlp", SqlStatements),
        ("EXECUTE a(1)", SharedNames),
        ("EXECUTE b", SharedNames),
        ("PREPARE a (int) AS SELECT $1 + 2", SharedNames),
        ("PREPARE b AS SELECT 'prepared'", SharedNames),
        ("DEALLOCATE a", SharedNames),
        ("SELECT name, statement FROM pg_prepared_statements ORDER BY name", ListedStatements),
        ("DECLARE held CURSOR WITH HOLD FOR SELECT generate_series(1, 5)", HoldableCursors),
        ("FETCH 2 FROM held", HoldableCursors),
        ("CLOSE held", HoldableCursors),
        ("SELECT pg_advisory_lock(7@#)", SessionLocks),
        ("SELECT pg_advisory_unlock(7@#)", SessionLocks),
        ("SELECT currval('@.numbers')", SequenceValues),
        ("SELECT lastval()", SequenceValues),
        ("ALTER TABLE @.wide ADD COLUMN y int DEFAULT 3", StalePlans),
        ("ALTER TABLE @.wide DROP COLUMN y", StalePlans),
        ("SELECT * FROM @.wide", StalePlans),
        ("INSERT INTO @.extra (n) VALUES (3) RETURNING *", StalePlans),
    ]
};

/// What draws values of sequences.
pub(crate) const DRAWS: [&str; 9] = [
    "SELECT nextval('@.numbers')",
    "SELECT setval('@.numbers', 70)",
    "SELECT setval('@.numbers', 80, false)",
    "INSERT INTO @.drawn DEFAULT VALUES RETURNING id",
    "INSERT INTO @.drawn (n) VALUES (5), (6)",
    "UPDATE @.drawn SET id = DEFAULT WHERE n = 5",
    "WITH new AS (INSERT INTO @.drawn (n) VALUES (7) RETURNING id) SELECT id FROM new",
    "SELECT nextval('@.numbers') / 0",
    "SELECT @.draw()",
];

/// What asks for them.
pub(crate) const ASKS: [&str; 5] = [
    "SELECT lastval()",
    "SELECT currval('@.numbers')",
    "SELECT currval(pg_get_serial_sequence('@.drawn', 'id'))",
    "INSERT INTO @.drawn (n) VALUES (lastval()) RETURNING n",
    "SELECT currval('@.numbers'), lastval()",
];

/// Texts with parameters, and a valid value for each.
pub(crate) const WITH_VALUES: [(&str, &[&str]); 22] = [
    ("SELECT $1::int + 1 AS sum", &["41"]),
    ("SELECT $1::text, generate_series(1, 7)", &["x"]),
    ("SELECT 10 / $1::int", &["0"]),
    ("SELECT 10 / $1::int", &["5"]),
    ("SELECT repeat($1::text, 3000)", &["ab"]),
    ("SELECT $1, $2", &["unknown", "types"]),
    ("SELECT $1 || $2", &["a", "b"]),
    ("SELECT $1::int, $1::int * 2, $3::text, $2::bool", &["1", "t", "z"]),
    ("INSERT INTO @.t (a, b) VALUES ($1, $2) RETURNING id, a, b", &["5", "five"]),
    ("INSERT INTO @.t (id, a) VALUES ($1, 0)", &["1"]),
    ("INSERT INTO @.child VALUES ($1, 'maybe an orphan')", &["77"]),
    ("UPDATE @.t SET b = $2 WHERE id = $1", &["2", "changed"]),
    ("DELETE FROM @.t WHERE a > $1", &["55"]),
    ("SELECT id, b FROM @.t WHERE id = $1", &["1"]),
    ("SELECT id FROM @.t WHERE id = ANY($1) ORDER BY id", &["{1,2,3}"]),
    ("SELECT $1::@.pair, $2::@.mood", &["(1,x)", "ok"]),
    ("SELECT ($1::@.pair).x", &["(5,)"]),
    ("SELECT @.fail($1, 'by a parameter')", &["22012"]),
    ("SELECT i FROM generate_series(1, $1) AS i", &["9"]),
    ("SELECT $1::date + 1, $2::timestamptz", &["2024-02-28", "2024-01-01 00:00+00"]),
    ("SELECT $1::jsonb -> 'a', $2::numeric", &["{\"a\": 1}", "1.50"]),
    ("SELECT @.note($1)", &["9"]),
];

/// Values that are invalid for most types, or out of range.
pub(crate) const ODD_VALUES: [&str; 6] = ["x", "", "2147483648", "-1", "{", "\u{00e4}\u{1f600}"];

/// A type with the same value as text and as PostgreSQL sends it in binary.
pub(crate) struct Typed {
    pub(crate) name: &'static str,
    pub(crate) oid: u32,
    pub(crate) text: &'static str,
    pub(crate) binary: &'static [u8],
}

const fn typed(name: &'static str, oid: u32, text: &'static str, binary: &'static [u8]) -> Typed {
    Typed { name, oid, text, binary }
}

/// Types in both formats.
pub(crate) const TYPES: [Typed; 18] = [
    typed("int2", 21, "-2", b"\xff\xfe"),
    typed("int4", 23, "258", b"\0\0\x01\x02"),
    typed("int8", 20, "-1", b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    typed("bool", 16, "t", b"\x01"),
    typed("float8", 701, "1.5", b"\x3f\xf8\0\0\0\0\0\0"),
    typed("text", 25, "t\u{00e9}xt", "t\u{00e9}xt".as_bytes()),
    typed("bytea", 17, "\\x00ff10", b"\0\xff\x10"),
    typed(
        "uuid",
        2950,
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
        b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
    ),
    typed("timestamptz", 1184, "2000-01-01 00:00:01+00", b"\0\0\0\0\0\x0f\x42\x40"),
    typed("date", 1082, "2000-01-02", b"\0\0\0\x01"),
    typed("numeric", 1700, "12.5", b"\0\x02\0\0\0\0\0\x01\0\x0c\x13\x88"),
    typed("jsonb", 3802, "{\"a\": 1}", b"\x01{\"a\": 1}"),
    typed("json", 114, "[1, 2]", b"[1, 2]"),
    typed(
        "int4[]",
        1007,
        "{1,2}",
        b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x02",
    ),
    typed("text[]", 1009, "{}", b"\0\0\0\0\0\0\0\0\0\0\0\x19"),
    typed("int4range", 3904, "[1,5)", b"\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x05"),
    typed("interval", 1186, "1 day", b"\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0"),
    typed("inet", 869, "10.0.0.1", b"\x02\x20\0\x04\x0a\0\0\x01"),
];

/// Functions for FunctionCall, by object id, with their arguments as text; those of large objects need a transaction.
pub(crate) const FUNCTIONS: [(u32, &[&str]); 6] =
    [(177, &["1", "2"]), (177, &["1"]), (1397, &["-5"]), (154, &["1", "0"]), (870, &["LOWER"]), (999_999, &[])];

/// What is done to the large object 90@# in a transaction, by SQL or FunctionCall: (object id, arguments).
pub(crate) const LARGE_OBJECT: [(u32, &[&str]); 8] = [
    (952, &["90@#", "393216"]),
    (955, &["0", "\\x776569720001ff"]),
    (956, &["0", "2", "0"]),
    (954, &["0", "4"]),
    (958, &["0"]),
    (1004, &["0", "3"]),
    (954, &["9", "4"]),
    (953, &["0"]),
];

/// SQL commands that drop statements.
pub(crate) const ENDS: [&str; 7] = [
    "DEALLOCATE a",
    "DEALLOCATE b",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "DISCARD PLANS",
    "DEALLOCATE PREPARE \"Odd \"\"name\"\"\"",
    "DEALLOCATE never",
];

/// Names of statements; the last ones have the form of Weir's names on servers.
pub(crate) const STATEMENTS: [&str; 11] = [
    "",
    "a",
    "b",
    "c",
    "Odd \"name\"",
    "n\u{00e4}me \u{1f418}",
    "a_name_that_is_longer_than_the_sixty_three_bytes_that_an_identifier_of_sql_may_have",
    "%s\\n'; DROP",
    "weir_0123456789abcdef0123456789abcdef",
    "weir_gone",
    "weir_",
];

/// Names of portals.
pub(crate) const PORTALS: [&str; 5] = ["", "", "p", "P \"q\" \u{00fc}", "weir_portal"];

/// Data for COPY of two columns, good and bad.
pub(crate) const COPY_DATA: [&str; 6] =
    ["1\tone\n", "2\t\\N\n", "3\tthree\\tfold\n4\tfour\n", "x\tno number\n", "5\n", "6\ttoo\tmany\n"];

/// A role that clients may take.
pub(crate) const ROLE: &str = "drawn";

/// Statements about state that outlives a transaction; each may fail, since the order is drawn.
pub(crate) const STATE: [&str; 82] = [
    "SET work_mem = '3MB'",
    "SET LOCAL work_mem = '5MB'",
    "RESET work_mem",
    "SET search_path = c@#, public",
    "SET LOCAL search_path = pg_catalog",
    "SET search_path TO DEFAULT",
    "SET my.own = 'one'",
    "SET LOCAL my.own = 'two'",
    "RESET my.own",
    "SET my.other TO 'with \"quotes\" and it''s'",
    "SELECT set_config('my.own', 'three', false)",
    "SELECT set_config('work_mem', '6MB', true)",
    "SELECT set_config('work_mem', '6MB', false), set_config('my.own', 'four', true)",
    "BEGIN; SET LOCAL my.own = 'five'; SELECT 1.5; COMMIT",
    "SET my.own = '1'; SET \"My\".\"Other\" = '2'; RESET my.own",
    "SET my.other = 'lost'; SELECT 1/0",
    "SELECT set_config('MY.other', 'six', false) FROM generate_series(1, 2)",
    "SELECT set_config('my.' || 'own', 'seven', false)",
    "SET my.own = 'é'",
    "SET my.other = ''",
    "DO 'BEGIN SET my.own TO ''eight''; RESET my.other; END'",
    "PREPARE sqlp (int) AS SELECT set_config('my.own', 'prepared', false)",
    "RESET ALL",
    "SET ROLE drawn",
    "SET LOCAL ROLE drawn",
    "SET ROLE NONE",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION truster",
    "SET SESSION AUTHORIZATION DEFAULT",
    "RESET SESSION AUTHORIZATION",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET default_transaction_read_only = on",
    "SET DateStyle = 'SQL'",
    "SET DateStyle = 'DMY'",
    "SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE",
    "SET LOCAL TIME ZONE 'Asia/Tokyo'",
    "SET statement_timeout = '39s'",
    "SET plan_cache_mode = force_generic_plan",
    "SET constraint_exclusion = off",
    "SET no_such_setting = 1",
    "CREATE TEMP TABLE tt (n int)",
    "CREATE TEMP TABLE td (n int) ON COMMIT DELETE ROWS",
    "CREATE TEMP TABLE tc (n int) ON COMMIT DROP",
    "CREATE TEMP TABLE ta ON COMMIT PRESERVE ROWS AS SELECT 1 AS n",
    "CREATE TEMP VIEW tv AS SELECT 1 AS one",
    "CREATE TEMP SEQUENCE ts",
    "SELECT nextval('ts')",
    "INSERT INTO tt VALUES (1) RETURNING n",
    "INSERT INTO td VALUES (2)",
    "SELECT n FROM ta",
    "DROP TABLE IF EXISTS tt, td, tc, ta",
    "DROP VIEW IF EXISTS tv",
    "DROP SEQUENCE IF EXISTS ts",
    "CREATE OR REPLACE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 7'; SELECT pg_temp.f()",
    "CREATE OR REPLACE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 8'; DROP FUNCTION pg_temp.f()",
    "DISCARD TEMP",
    "DECLARE held CURSOR WITH HOLD FOR SELECT generate_series(1, 5)",
    "DECLARE short CURSOR FOR SELECT 1",
    "FETCH 2 FROM held",
    "CLOSE held",
    "CLOSE ALL",
    "SELECT pg_advisory_lock(7@#)",
    "SELECT pg_advisory_lock_shared(7@#)",
    "SELECT pg_advisory_lock(7, @#)",
    "SELECT pg_advisory_xact_lock_shared(9@#)",
    "SELECT pg_advisory_unlock(7@#)",
    "SELECT pg_advisory_unlock_shared(7@#)",
    "SELECT pg_advisory_unlock_all()",
    "PREPARE sqlp (int) AS SELECT $1 + 1",
    "EXECUTE sqlp(41)",
    "DEALLOCATE sqlp",
    "PREPARE sqlw AS SELECT x FROM @.wide",
    "EXECUTE sqlw",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "LISTEN mine@#",
    "NOTIFY mine@#, 'of my own'",
    "UNLISTEN mine@#",
    "DO $$ BEGIN PERFORM set_config('work_mem', '7MB', false); PERFORM set_config('my.own', 'done', false); END $$",
    "DO $$ BEGIN SET LOCAL work_mem = '8MB'; CREATE TEMP TABLE IF NOT EXISTS tt (n int); END $$",
];

/// Statements that leave state although their text does not say so, whenever they succeed.
pub(crate) const HIDDEN: [&str; 6] = [
    "SELECT @.sets('work_mem', '9MB')",
    "SELECT @.locks()",
    "SELECT @.listens()",
    "SELECT @.makes()",
    "INSERT INTO @.watched VALUES (1)",
    "SELECT * FROM @.locking",
];

/// What a client can see of its state.
pub(crate) const SHOWN: [&str; 9] = [
    "SELECT current_setting('work_mem'), translate(current_setting('search_path'), '\" ', ''), current_setting('lock_timeout'), \
     current_setting('statement_timeout'), current_setting('constraint_exclusion'), current_setting('plan_cache_mode')",
    "SELECT nullif(current_setting('my.own', true), ''), nullif(current_setting('my.other', true), ''), \
     nullif(current_setting('my.trigger', true), '')",
    "SELECT current_setting('TimeZone'), current_setting('DateStyle'), current_setting('transaction_isolation'), \
     current_setting('transaction_read_only'), current_setting('default_transaction_isolation')",
    "SELECT current_user, session_user, current_setting('role'), current_setting('session_authorization')",
    "SELECT classid, objid, mode FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() ORDER BY 1, 2, 3",
    "SELECT relname, relkind FROM pg_class WHERE relnamespace = pg_my_temp_schema() ORDER BY 1",
    "SELECT proname FROM pg_proc WHERE pronamespace = pg_my_temp_schema()",
    "SELECT name, is_holdable FROM pg_cursors WHERE name <> '' ORDER BY name",
    "SELECT channel FROM pg_listening_channels() AS channel ORDER BY channel",
];
