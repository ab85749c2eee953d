//! A statement whose tables change between its Describe and its Bind: what clients get directly, and over few servers.

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, ask, users};

/// A change of what a statement names.
struct Change {
    what: &'static str,
    before: &'static str,
    statement: &'static str,
    values: &'static [&'static str],
    change: &'static str,
}

const CHANGES: [Change; 11] = [
    Change {
        what: "drop and create with other columns",
        before: "CREATE TABLE t (id int, email text); INSERT INTO t VALUES (1, 'a@b.c')",
        statement: "SELECT * FROM t",
        values: &[],
        change: "DROP TABLE t; CREATE TABLE t (email text, name text, id int); INSERT INTO t VALUES ('b', 'Ann', 555)",
    },
    Change {
        what: "drop and create with the same columns",
        before: "CREATE TABLE t (id int, email text); INSERT INTO t VALUES (1, 'a@b.c')",
        statement: "SELECT * FROM t",
        values: &[],
        change: "DROP TABLE t; CREATE TABLE t (id int, email text); INSERT INTO t VALUES (2, 'd')",
    },
    Change {
        what: "a column more",
        before: "CREATE TABLE t (id int); INSERT INTO t VALUES (1)",
        statement: "SELECT * FROM t",
        values: &[],
        change: "ALTER TABLE t ADD COLUMN name text DEFAULT 'x'",
    },
    Change {
        what: "a column less",
        before: "CREATE TABLE t (id int, name text, mail text); INSERT INTO t VALUES (1, 'Ann', 'm')",
        statement: "SELECT * FROM t WHERE id = $1",
        values: &["1"],
        change: "ALTER TABLE t DROP COLUMN name",
    },
    Change {
        what: "another type",
        before: "CREATE TABLE t (id int, name text); INSERT INTO t VALUES (1, '7')",
        statement: "SELECT name FROM t",
        values: &[],
        change: "ALTER TABLE t ALTER COLUMN name TYPE int USING name::int",
    },
    Change {
        what: "another modifier",
        before: "CREATE TABLE t (name varchar(10)); INSERT INTO t VALUES ('7')",
        statement: "SELECT name FROM t",
        values: &[],
        change: "ALTER TABLE t ALTER COLUMN name TYPE varchar(20)",
    },
    Change {
        what: "another name",
        before: "CREATE TABLE t (name text); INSERT INTO t VALUES ('7')",
        statement: "SELECT * FROM t",
        values: &[],
        change: "ALTER TABLE t RENAME COLUMN name TO title",
    },
    Change {
        what: "a replaced view",
        before: "CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 2); CREATE VIEW v AS SELECT a FROM t",
        statement: "SELECT * FROM v",
        values: &[],
        change: "CREATE OR REPLACE VIEW v AS SELECT a, b FROM t",
    },
    Change {
        what: "another type of the same name",
        before: "CREATE TYPE mood AS ENUM ('ok'); CREATE TABLE t (m mood); INSERT INTO t VALUES ('ok')",
        statement: "SELECT m FROM t",
        values: &[],
        change: "DROP TABLE t; DROP TYPE mood; CREATE TYPE mood AS ENUM ('ok', 'bad'); CREATE TABLE t (m mood); \
                 INSERT INTO t VALUES ('bad')",
    },
    Change {
        what: "the columns that an INSERT returns",
        before: "CREATE TABLE t (id int)",
        statement: "INSERT INTO t VALUES (5) RETURNING *",
        values: &[],
        change: "ALTER TABLE t ADD COLUMN name text DEFAULT 'x'",
    },
    Change {
        what: "an index and a default only",
        before: "CREATE TABLE t (id int); INSERT INTO t VALUES (1)",
        statement: "SELECT * FROM t",
        values: &[],
        change: "CREATE INDEX i ON t (id); ALTER TABLE t ALTER COLUMN id SET DEFAULT 7",
    },
];

/// Changes of what PostgreSQL takes a parameter for, which it knows from the Parse on.
const PARAMETERS: [Change; 2] = [
    Change {
        what: "the type of a parameter",
        before: "CREATE TABLE t (id int, name text)",
        statement: "INSERT INTO t (name, id) VALUES ($2, $1)",
        values: &["5", "x"],
        change: "ALTER TABLE t ALTER COLUMN id TYPE bigint",
    },
    Change {
        what: "the type of a parameter that is compared",
        before: "CREATE TABLE t (id int, name text); INSERT INTO t VALUES (5, 'x')",
        statement: "SELECT name FROM t WHERE id = $1",
        values: &["5"],
        change: "ALTER TABLE t ALTER COLUMN id TYPE bigint",
    },
];

const CLEAR: &str = "DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS t; DROP TYPE IF EXISTS mood";

/// How a client uses its statement.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Uses {
    /// The client describes the statement once, and executes it then.
    Once,
    /// The client has the description of its first portal, and describes none later.
    FirstPortal,
    /// The client describes every portal.
    EveryPortal,
    /// The client uses its unnamed statement as in `Once`.
    Unnamed,
}

const ALL: [Uses; 4] = [Uses::Once, Uses::FirstPortal, Uses::EveryPortal, Uses::Unnamed];

impl Uses {
    fn name(self) -> &'static str {
        if self == Uses::Unnamed { "" } else { "s" }
    }

    fn prepare(self, change: &Change) -> Batch {
        let batch = Batch::new().parse(self.name(), change.statement);
        match self {
            Uses::Once | Uses::Unnamed => batch.describe_statement(self.name()).sync(),
            Uses::FirstPortal | Uses::EveryPortal => {
                batch.bind("", "s", change.values).describe_portal("").execute("", 0).sync()
            }
        }
    }

    fn run(self, change: &Change) -> Batch {
        let batch = Batch::new().bind("", self.name(), change.values);
        if self == Uses::EveryPortal {
            batch.describe_portal("").execute("", 0).sync()
        } else {
            batch.execute("", 0).sync()
        }
    }
}

/// Who makes a change.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    /// A client of the pool.
    Client,
    /// A connection past the pool.
    Other,
}

fn past_the_pool(site: &Site) -> Connection {
    let database = site.database();
    Connection::connect(&database.postgres().params(users::APP, database.name())).unwrap()
}

/// What every client receives before a change and after it, with this many servers taken by others meanwhile.
fn play(site: &Site, change: &Change, by: By, taken: [usize; 3]) -> Vec<String> {
    site.connect().query_all(CLEAR).unwrap();
    site.connect().query_all(change.before).unwrap();
    let mut seen = Vec::new();
    let mut clients: Vec<(Uses, Connection)> = ALL.into_iter().map(|uses| (uses, site.connect())).collect();
    for (uses, client) in &mut clients {
        seen.extend(ask(client, &uses.prepare(change), 1));
    }
    match by {
        By::Client => site.connect().query_all(change.change).unwrap(),
        By::Other => past_the_pool(site).query_all(change.change).unwrap(),
    };
    let mut new: Vec<(Uses, Connection)> = Vec::new();
    for (round, taken) in taken.into_iter().enumerate() {
        let others: Vec<_> = (0..taken).map(|_| site.connect()).collect();
        let others: Vec<_> = others.into_iter().map(|mut other| other.query("BEGIN").map(|_| other).unwrap()).collect();
        for (uses, client) in clients.iter_mut().chain(&mut new) {
            seen.push(format!("round {round} {uses:?}"));
            seen.extend(ask(client, &uses.run(change), 1));
        }
        // Clients that come later know the new definition only.
        for uses in ALL {
            let mut client = site.connect();
            seen.push(format!("round {round}, new {uses:?}"));
            seen.extend(ask(&mut client, &uses.prepare(change), 1));
            seen.extend(ask(&mut client, &uses.run(change), 1));
            new.push((uses, client));
        }
        drop(others);
    }
    seen
}

#[test]
fn a_client_gets_no_rows_of_another_shape_than_it_was_given() {
    let (direct, pooled) = (Site::direct(), Site::transaction(3));
    for change in &CHANGES {
        for (by, taken) in [(By::Client, [2, 0, 1]), (By::Other, [0, 1, 2])] {
            let expected = play(&direct, change, by, taken);
            let seen = play(&pooled, change, by, taken);
            assert_eq!(seen, expected, "{} by {by:?}, {taken:?}", change.what);
        }
    }
}

#[test]
fn a_parameter_keeps_the_type_that_its_client_was_told() {
    let (direct, pooled) = (Site::direct(), Site::transaction(3));
    for change in &PARAMETERS {
        for taken in [[2, 0, 1], [0, 1, 2]] {
            let expected = play(&direct, change, By::Client, taken);
            let seen = play(&pooled, change, By::Client, taken);
            assert_eq!(seen, expected, "{}, {taken:?}", change.what);
            assert!(!seen.iter().any(|line| line.starts_with("Error")), "{seen:?}");
        }
    }
}

/// What clients receive that come after a change past the pool, where servers have the statement from before it.
fn come_later(site: &Site, change: &Change) -> Vec<String> {
    site.connect().query_all(CLEAR).unwrap();
    site.connect().query_all(change.before).unwrap();
    let mut seen = Vec::new();
    let mut old = site.connect();
    ask(&mut old, &Uses::Once.prepare(change), 1);
    for uses in ALL {
        ask(&mut old, &Uses::Once.run(change), 1);
        past_the_pool(site).query_all(change.change).unwrap();
        let mut new = site.connect();
        seen.push(format!("{uses:?}"));
        seen.extend(ask(&mut new, &uses.prepare(change), 1));
        seen.extend(ask(&mut new, &uses.run(change), 1));
        // Another new client sends all in one piece, with a Flush in it.
        let mut new = site.connect();
        let batch = Batch::new().parse("f", change.statement).describe_statement("f").flush();
        seen.extend(ask(&mut new, &batch.bind("", "f", change.values).execute("", 0).sync(), 1));
        site.connect().query_all(CLEAR).unwrap();
        site.connect().query_all(change.before).unwrap();
        old = site.connect();
        ask(&mut old, &Uses::Once.prepare(change), 1);
    }
    seen
}

#[test]
fn who_comes_after_a_change_past_the_pool_gets_no_error_for_it() {
    let (direct, pooled) = (Site::direct(), Site::transaction(1));
    for change in &CHANGES {
        let seen = come_later(&pooled, change);
        assert_eq!(seen, come_later(&direct, change), "{}", change.what);
        assert!(!seen.iter().any(|line| line.starts_with("Error")), "{seen:?}");
    }
}

/// Changes after which PostgreSQL can't analyse a statement again with the first types of its parameters, which take the
/// values nevertheless: it reads these first.
const UNANALYSED: [Change; 4] = [
    Change {
        what: "another type of a column",
        before: "CREATE TABLE t (id int); INSERT INTO t VALUES (5)",
        statement: "SELECT id FROM t WHERE id = $1",
        values: &["5"],
        change: "ALTER TABLE t ALTER COLUMN id TYPE text",
    },
    Change {
        what: "another function of the same name",
        before: "CREATE FUNCTION ours(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        statement: "SELECT ours($1)",
        values: &["5"],
        change: "ALTER FUNCTION ours(int) RENAME TO theirs; \
                 CREATE FUNCTION ours(text) RETURNS int LANGUAGE sql AS 'SELECT 2'",
    },
    Change {
        what: "a view in the place of a table",
        before: "CREATE TABLE t (id int, more int); INSERT INTO t VALUES (5, 6)",
        statement: "SELECT more FROM t WHERE id = $1",
        values: &["5"],
        change: "DROP TABLE t; CREATE VIEW t AS SELECT '5'::text AS id, 6 AS more",
    },
    Change {
        what: "a column that takes other values",
        before: "CREATE TABLE t (id text)",
        statement: "INSERT INTO t VALUES ($1) RETURNING id",
        values: &["5"],
        change: "DROP TABLE t; CREATE TABLE t (id int)",
    },
];

const CLEAR_UNANALYSED: &str = "DO 'BEGIN DROP VIEW t; EXCEPTION WHEN OTHERS THEN NULL; END'; \
     DO 'BEGIN DROP TABLE t; EXCEPTION WHEN OTHERS THEN NULL; END'; \
     DROP FUNCTION IF EXISTS ours(int); DROP FUNCTION IF EXISTS theirs(int); DROP FUNCTION IF EXISTS ours(text)";

/// What clients receive that come after such a change past the pool, and one that has the statement from before.
fn come_after(site: &Site, change: &Change, way: u32) -> Vec<String> {
    site.connect().query_all(CLEAR_UNANALYSED).unwrap();
    site.connect().query_all(change.before).unwrap();
    let run = || Batch::new().bind("", "s", change.values).execute("", 0);
    let mut old = site.connect();
    ask(&mut old, &Uses::Once.prepare(change), 1);
    let mut seen = ask(&mut old, &Uses::Once.run(change), 1);
    past_the_pool(site).query_all(change.change).unwrap();
    for _ in 0..2 {
        let mut new = site.connect();
        let parse = || Batch::new().parse("s", change.statement);
        let batches = match way {
            0 => vec![parse().sync()],
            1 => vec![parse().describe_statement("s").sync()],
            2 => vec![parse().bind("", "s", change.values).describe_portal("").execute("", 0).sync()],
            _ => vec![Batch::new().query("BEGIN"), parse().sync(), run().sync(), Batch::new().query("COMMIT")],
        };
        batches.iter().for_each(|batch| seen.extend(ask(&mut new, batch, 1)));
        (0..2).for_each(|_| seen.extend(ask(&mut new, &run().sync(), 1)));
        seen.push("old".into());
        seen.extend(ask(&mut old, &Uses::Once.run(change), 1));
    }
    seen
}

#[test]
fn who_comes_after_a_change_past_the_pool_gets_what_the_text_means_by_then() {
    let direct = Site::direct();
    let pooled = [Site::transaction(1), Site::with(Setup::new(Mode::Auto).size(1), Mode::Auto)];
    for (change, way) in UNANALYSED.iter().flat_map(|change| (0..4).map(move |way| (change, way))) {
        let expected = come_after(&direct, change, way);
        let failures = expected.iter().filter(|line| line.starts_with("Error")).count();
        assert_eq!(failures, 2, "only who has the statement from before gets errors: {expected:?}");
        for site in &pooled {
            assert_eq!(come_after(site, change, way), expected, "{}, {way}", change.what);
        }
    }
}

/// The first use of a statement comes behind that of another one, which was executed.
#[test]
fn who_comes_after_such_a_change_gets_at_most_one_error_wherever_the_statement_is_used() {
    let site = Site::transaction(1);
    for change in &UNANALYSED {
        site.connect().query_all(CLEAR_UNANALYSED).unwrap();
        site.connect().query_all(change.before).unwrap();
        ask(&mut site.connect(), &Uses::Once.prepare(change), 1);
        past_the_pool(&site).query_all(change.change).unwrap();
        let come = || {
            let batch = Batch::new().parse("o", "SELECT 1").bind("", "o", &[]).execute("", 0);
            let batch = batch.parse("s", change.statement).bind("", "s", change.values).execute("", 0).sync();
            ask(&mut site.connect(), &batch, 1).iter().any(|line| line.starts_with("Error"))
        };
        assert_eq!([come(), come(), come()], [true, false, false], "{}", change.what);
    }
}

/// What clients receive that come after a change past the pool, in blocks, and by a long Bind.
fn come_later_in_a_block(site: &Site, begin: &str, length: usize) -> Vec<String> {
    let change = &Change {
        what: "",
        before: "CREATE TABLE t (id int); INSERT INTO t VALUES (1)",
        statement: "SELECT *, length($1::text) FROM t",
        values: &[""],
        change: "ALTER TABLE t ADD COLUMN more int DEFAULT 5",
    };
    let long = "v".repeat(length);
    let run = || Batch::new().bind("", "f", &[&long]).execute("", 0);
    let mut seen = Vec::new();
    // The statement is prepared before the block, in it, or in one piece with its first use.
    for way in 0..3 {
        site.connect().query_all(CLEAR).unwrap();
        site.connect().query_all(change.before).unwrap();
        let mut old = site.connect();
        ask(&mut old, &Uses::Once.prepare(change), 1);
        ask(&mut old, &Uses::Once.run(change), 1);
        past_the_pool(site).query_all(change.change).unwrap();
        let mut new = site.connect();
        let parse = || Batch::new().parse("f", change.statement).describe_statement("f");
        let mut batches = vec![Batch::new().query(begin)];
        match way {
            0 => batches.insert(0, parse().sync()),
            1 => batches.push(parse().sync()),
            _ => {}
        }
        batches.push(if way == 2 {
            parse().flush().bind("", "f", &[&long]).execute("", 0).sync()
        } else {
            run().sync()
        });
        batches.extend([run().sync(), Batch::new().query("COMMIT")]);
        batches.iter().for_each(|batch| seen.extend(ask(&mut new, batch, 1)));
    }
    seen
}

#[test]
fn who_comes_after_a_change_past_the_pool_gets_no_error_in_a_block_either() {
    let (direct, pooled) = (Site::direct(), Site::transaction(1));
    for (begin, length) in [("BEGIN", 1), ("begin;", 20_000), ("SELECT 1", 20_000)] {
        let seen = come_later_in_a_block(&pooled, begin, length);
        assert_eq!(seen, come_later_in_a_block(&direct, begin, length), "{begin} {length}");
        assert!(!seen.iter().any(|line| line.starts_with("Error")), "{seen:?}");
    }
}

#[test]
fn a_search_path_of_ones_own_is_not_a_change_for_others() {
    let site = Site::transaction(1);
    let set = "CREATE SCHEMA IF NOT EXISTS apart; CREATE TABLE t (id int); CREATE TABLE apart.t (id int, name text)";
    site.connect().query_all(set).unwrap();
    let change = &Change { what: "", before: "", statement: "SELECT * FROM t", values: &[], change: "" };
    let mut others: Vec<_> = (0..3).map(|_| site.connect()).collect();
    for other in &mut others {
        ask(other, &Uses::Once.prepare(change), 1);
    }
    let mut client = site.connect();
    ask(&mut client, &Uses::Once.prepare(change), 1);
    let batch = Batch::new().query("BEGIN").query("SET LOCAL search_path = apart");
    ask(&mut client, &batch, 2);
    assert!(ask(&mut client, &Uses::Once.run(change), 1)[0].starts_with("Error 0A000"));
    ask(&mut client, &Batch::new().query("ROLLBACK"), 1);
    others.push(client);
    for other in &mut others {
        assert_eq!(ask(other, &Uses::Once.run(change), 1), ["BindComplete", "Complete SELECT 0", "Ready I"]);
    }
}
