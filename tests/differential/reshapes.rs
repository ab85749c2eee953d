//! Sessions of several clients whose tables, views and types change between Parse and Bind: by clients of the pool and
//! by connections past it, with servers that are idle or taken.
//!
//! A client gets rows of the shape that it was given, or the error for a statement that has changed; and it gets that
//! error only if it had prepared the statement before the change. That is what PostgreSQL does, so answers are compared
//! as elsewhere.
//!
//! Never drawn: a Parse of what does not exist any more, which Weir answers itself where the statement was accepted
//! before (docs/pooling.md); a first use within a transaction block; a second Bind of an unnamed statement of which
//! only a portal was described.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use weir_pgwire::Of;
use weir_tests::{Mode, Rng, Setup};

use crate::message::Message;
use crate::play::{End, PAST_THE_POOL, Stage, TIMEOUT, play};
use crate::run::{self, Failure, Plan, Pool, apart, explain, make_schema};
use crate::script::{Script, Step, Wait};

/// What every session begins with.
const BEFORE: [&str; 4] = [
    "CREATE TYPE @.kind AS ENUM ('ok')",
    "CREATE TABLE @.shaped (id int, a int DEFAULT 1, b text DEFAULT 'x', k @.kind DEFAULT 'ok')",
    "INSERT INTO @.shaped VALUES (1), (2)",
    "CREATE VIEW @.seen AS SELECT id, a FROM @.shaped",
];

/// Statements, and whether they have a parameter.
const TEXTS: [(&str, bool); 9] = [
    ("SELECT * FROM @.shaped ORDER BY id", false),
    ("SELECT * FROM @.shaped WHERE id = $1", true),
    ("SELECT * FROM @.seen ORDER BY id", false),
    ("SELECT s, id FROM @.shaped s ORDER BY id", false),
    ("SELECT id FROM @.shaped ORDER BY id", false),
    ("INSERT INTO @.shaped (id) VALUES (3) RETURNING *", false),
    ("DELETE FROM @.shaped WHERE id = 3 RETURNING *", false),
    ("UPDATE @.shaped SET id = id WHERE id = $1 RETURNING *", true),
    ("TABLE @.seen", false),
];

/// Changes after which each statement can be parsed. Some fail, as what they need has been changed before.
const CHANGES: [&str; 17] = [
    "ALTER TABLE @.shaped ADD COLUMN c int DEFAULT 9",
    "ALTER TABLE @.shaped DROP COLUMN c",
    "ALTER TABLE @.shaped DROP COLUMN b",
    "ALTER TABLE @.shaped ADD COLUMN b text DEFAULT 'y'",
    "ALTER TABLE @.shaped RENAME COLUMN b TO renamed",
    "ALTER TABLE @.shaped RENAME COLUMN renamed TO b",
    "ALTER TABLE @.shaped ALTER COLUMN b TYPE varchar(9)",
    "ALTER TABLE @.shaped ALTER COLUMN b TYPE varchar(20)",
    "DROP VIEW @.seen; ALTER TABLE @.shaped ALTER COLUMN a TYPE bigint; CREATE VIEW @.seen AS SELECT id, a FROM @.shaped",
    "DROP VIEW @.seen; ALTER TABLE @.shaped ALTER COLUMN a TYPE int; CREATE VIEW @.seen AS SELECT a, id FROM @.shaped",
    "CREATE OR REPLACE VIEW @.seen AS SELECT id, a, 1 AS more FROM @.shaped",
    "DROP VIEW @.seen; CREATE VIEW @.seen AS SELECT id, a FROM @.shaped",
    "DROP TABLE @.shaped CASCADE; CREATE TABLE @.shaped (b text, id int, a int); INSERT INTO @.shaped VALUES ('n', 7, 8); \
     CREATE VIEW @.seen AS SELECT id, a FROM @.shaped",
    "DROP TABLE @.shaped CASCADE; CREATE TABLE @.shaped (id int, a int DEFAULT 1, b text DEFAULT 'x'); \
     INSERT INTO @.shaped VALUES (1), (2); CREATE VIEW @.seen AS SELECT id, a FROM @.shaped",
    "ALTER TABLE @.shaped ADD COLUMN k @.kind DEFAULT 'ok'",
    "ALTER TABLE @.shaped DROP COLUMN IF EXISTS k; DROP TYPE @.kind; CREATE TYPE @.kind AS ENUM ('ok', 'bad'); \
     ALTER TABLE @.shaped ADD COLUMN k @.kind DEFAULT 'bad'",
    "CREATE INDEX ON @.shaped (id); ALTER TABLE @.shaped ALTER COLUMN id SET DEFAULT 7; ANALYZE @.shaped",
];

/// Clients that prepare and run statements, and the names that they give.
const CLIENTS: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 3] = ["s0", "s1", ""];

/// Clients that take servers.
const HOLDERS: [&str; 2] = ["busy0", "busy1"];

struct Author {
    rng: Rng,
    steps: Vec<Step>,
    /// How many servers may be taken, and which clients have one.
    holders: usize,
    holds: [bool; HOLDERS.len()],
    /// What each client has prepared by each name.
    prepared: [[Option<usize>; NAMES.len()]; CLIENTS.len()],
}

/// A session for this seed, over a pool where this many servers may be taken.
fn session(seed: u64, holders: usize) -> Script {
    let mut author = Author {
        rng: Rng::new(seed),
        steps: Vec::new(),
        holders,
        holds: Default::default(),
        prepared: Default::default(),
    };
    author.client(CLIENTS[0]);
    BEFORE.iter().for_each(|sql| author.query(sql));
    for _ in 0..author.rng.below(24) + 6 {
        author.turn();
    }
    Script { modes: vec![Mode::Transaction], steps: author.steps }.with_logins()
}

impl Author {
    fn client(&mut self, name: &str) {
        self.steps.push(Step::Client(name.to_owned()));
    }

    fn send(&mut self, message: Message) {
        self.steps.push(Step::Send(message));
    }

    fn sync(&mut self) {
        self.send(Message::Sync);
        self.steps.push(Step::Wait(Wait::Ready));
    }

    fn query(&mut self, sql: &str) {
        self.send(Message::query(sql));
        self.steps.push(Step::Wait(Wait::Ready));
    }

    fn turn(&mut self) {
        match self.rng.below(10) {
            0..=2 => self.prepare(),
            3..=6 => self.run(),
            7 if self.holders > 0 => self.take_or_leave(),
            _ => self.change(),
        }
    }

    fn prepare(&mut self) {
        let (client, name, text) =
            (self.rng.below(CLIENTS.len()), self.rng.below(NAMES.len()), self.rng.below(TEXTS.len()));
        self.client(CLIENTS[client]);
        let bytes = NAMES[name].as_bytes().to_vec();
        self.send(Message::Close(Of::Statement, bytes.clone()));
        self.send(Message::Parse { name: bytes.clone(), text: TEXTS[text].0.as_bytes().to_vec(), types: Vec::new() });
        self.prepared[client][name] = Some(text);
        // As JDBC, which describes the portal; or as most others, which describe the statement.
        if self.rng.one_in(3) {
            self.bind_and_execute(client, name, true);
            if bytes.is_empty() {
                self.prepared[client][name] = None;
            }
            return;
        }
        self.send(Message::Describe(Of::Statement, bytes));
        if self.rng.one_in(3) {
            self.send(Message::Flush);
            self.steps.push(Step::Wait(Wait::For(vec![b'T', b'n'])));
            return self.bind_and_execute(client, name, false);
        }
        self.sync();
    }

    fn run(&mut self) {
        let client = self.rng.below(CLIENTS.len());
        let known: Vec<usize> = (0..NAMES.len()).filter(|name| self.prepared[client][*name].is_some()).collect();
        if known.is_empty() {
            return;
        }
        let name = *self.rng.pick(&known);
        self.client(CLIENTS[client]);
        let describes = self.rng.one_in(2);
        self.bind_and_execute(client, name, describes);
    }

    fn bind_and_execute(&mut self, client: usize, name: usize, describes: bool) {
        let with_value = self.prepared[client][name].is_some_and(|text| TEXTS[text].1);
        let values = if with_value { vec![Some(b"1".to_vec())] } else { Vec::new() };
        self.send(Message::bind(b"", NAMES[name].as_bytes(), values));
        if describes {
            self.send(Message::Describe(Of::Portal, Vec::new()));
        }
        self.send(Message::execute(b"", 0));
        self.sync();
    }

    fn take_or_leave(&mut self) {
        let holder = self.rng.below(self.holders);
        self.client(HOLDERS[holder]);
        self.query(if self.holds[holder] { "COMMIT" } else { "BEGIN" });
        self.holds[holder] = !self.holds[holder];
    }

    fn change(&mut self) {
        let change = *self.rng.pick(&CHANGES);
        if self.rng.one_in(2) {
            self.client(PAST_THE_POOL);
        } else {
            let client = self.rng.below(CLIENTS.len());
            self.client(CLIENTS[client]);
            // A simple query drops the unnamed statement.
            self.prepared[client][NAMES.len() - 1] = None;
        }
        self.query(change);
    }
}

/// Pools, and how many of their servers may be taken.
fn pools() -> Vec<(Pool, usize)> {
    let pool = |name, change: fn(Setup) -> Setup| run::pool(name, Mode::Transaction, change);
    vec![
        (pool("three servers", |setup| setup.size(3)), 2),
        (pool("one server", |setup| setup.size(1)), 0),
        (pool("two servers, two workers", |setup| setup.size(2).workers(2)), 1),
        (pool("two statements a server", |setup| setup.size(2).pool("max_prepared_statements = 2")), 1),
    ]
}

#[test]
fn a_statement_that_changes_is_answered_alike_directly_and_through_weir() {
    let direct = apart();
    let (pools, holders): (Vec<Pool>, Vec<usize>) = pools().into_iter().unzip();
    let plan = Plan::asked(Duration::from_secs(if cfg!(feature = "long") { 120 } else { 10 }));
    let failures = Mutex::new(Vec::new());
    let sessions = thread::scope(|scope| {
        // One session at a time in front of each pool: clients of two could wait for each other's servers.
        let play_all = |pool: usize| {
            let number = 60 + pool;
            let mut played_sessions = 0_u64;
            for seed in plan.first..plan.first.saturating_add(plan.count) {
                let over = plan.until.is_some_and(|until| Instant::now() >= until) && played_sessions > 0;
                if over || !failures.lock().expect("no thread panics while it holds it").is_empty() {
                    break;
                }
                let script = session(seed, holders[pool]);
                let site = &pools[pool].site;
                make_schema(&direct, number);
                make_schema(site, number);
                let played = play(&script, Stage { direct: &direct, weir: site, number, timeout: TIMEOUT }, seed);
                played_sessions += 1;
                if played.end != End::Alike {
                    let failure = Failure { seed, pool, number, script, played };
                    failures.lock().expect("no thread panics while it holds it").push(failure);
                }
            }
            played_sessions
        };
        let threads: Vec<_> = (0..pools.len()).map(|pool| scope.spawn(move || play_all(pool))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum::<u64>()
    });
    let failures = failures.into_inner().expect("no thread panicked while it held it");
    println!("reshapes: seeds from {}: {sessions} sessions", plan.first);
    assert!(failures.is_empty(), "{}", failures.iter().map(|it| explain(&direct, &pools, it)).collect::<String>());
    assert!(sessions > 0);
}
