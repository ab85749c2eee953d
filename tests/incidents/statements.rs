//! A prepared statement is the one that its client prepared, on every server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_pgwire::tag;
use weir_tests::{Batch, Ini, PgBouncer, Postgres, Rng, Setup, Site, line_of, users};
use weir_tests::{Database, Mode};

use crate::report::{Report, size};

/// How drivers use prepared statements.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Habit {
    /// Parse and Describe together, once, then Bind and Execute (pgx, tokio-postgres, sqlx).
    DescribesOnce,
    /// Parse and Describe, then Flush instead of Sync (asyncpg, postgres.js).
    Flushes,
    /// Parse, Bind, Describe, Execute together the first time, and no Parse after that (node-postgres, pgjdbc).
    AllAtOnce,
    /// Parse without Describe, and a Describe alone before each use (libpq's PQprepare and PQdescribePrepared).
    DescribesAlone,
    /// Prepares after a few uses of the unnamed statement, and drops old ones by DEALLOCATE (psycopg 3).
    Deallocates,
    /// Closes each statement after its use and prepares it again under the same name (database/sql with lib/pq).
    ClosesEachTime,
    /// A Parse that fails comes first, under the name that a valid one uses afterwards.
    FailsFirst,
}

const HABITS: [Habit; 7] = [
    Habit::DescribesOnce,
    Habit::Flushes,
    Habit::AllAtOnce,
    Habit::DescribesAlone,
    Habit::Deallocates,
    Habit::ClosesEachTime,
    Habit::FailsFirst,
];

/// Statements of each client: more than a server may keep.
const STATEMENTS: usize = 5;

/// A client with a habit, and the statements that it has prepared.
struct Driver {
    habit: Habit,
    number: usize,
    client: Connection,
    prepared: [bool; STATEMENTS],
    uses: [u32; STATEMENTS],
}

impl Driver {
    fn name(statement: usize) -> String {
        // All clients use the same names for different statements.
        format!("stmt_{statement}")
    }

    fn sql(&self, statement: usize) -> String {
        format!("SELECT wide.*, 'client {} statement {statement}', $1::text FROM wide", self.number)
    }

    fn send(&mut self, batch: &Batch) -> Result<(), String> {
        self.client.send_bytes(batch.bytes()).map_err(|error| error.to_string())
    }

    /// Reads up to this message.
    fn read_to(&mut self, last: u8) -> Result<Vec<String>, String> {
        let mut transcript = Vec::new();
        loop {
            match self.client.read_frame(Duration::from_secs(20)) {
                Ok(frame) => {
                    transcript.push(line_of(&frame));
                    // After an error nothing follows before the next Sync.
                    if frame.tag == last || (last != tag::back::READY && frame.tag == tag::back::ERROR) {
                        return Ok(transcript);
                    }
                }
                Err(error) => return Err(format!("{error} after {transcript:?}")),
            }
        }
    }

    fn ask(&mut self, batch: &Batch) -> Result<Vec<String>, String> {
        self.send(batch)?;
        self.read_to(tag::back::READY)
    }

    /// Prepares the statement according to the habit, and returns the messages before the Bind.
    fn prepare(&mut self, statement: usize) -> Result<Batch, String> {
        let (name, sql) = (Driver::name(statement), self.sql(statement));
        if self.prepared[statement] && self.habit != Habit::DescribesAlone {
            return Ok(Batch::new());
        }
        match self.habit {
            Habit::DescribesOnce => {
                let transcript = self.ask(&Batch::new().parse(&name, &sql).describe_statement(&name).sync())?;
                if transcript.iter().any(|line| line.starts_with("Error")) {
                    return Err(format!("{transcript:?}"));
                }
            }
            Habit::Flushes => {
                self.send(&Batch::new().parse(&name, &sql).describe_statement(&name).flush())?;
                let transcript = self.read_to(tag::back::ROW_DESCRIPTION)?;
                if transcript.iter().any(|line| line.starts_with("Error")) {
                    self.ask(&Batch::new().sync())?;
                    return Err(format!("{transcript:?}"));
                }
                expect(&transcript, "ParseComplete")?;
            }
            Habit::AllAtOnce => return Ok(Batch::new().parse(&name, &sql)),
            Habit::DescribesAlone => {
                if !self.prepared[statement] {
                    expect(&self.ask(&Batch::new().parse(&name, &sql).sync())?, "ParseComplete")?;
                }
                let transcript = self.ask(&Batch::new().describe_statement(&name).sync())?;
                let described = transcript.iter().any(|line| line.starts_with("Columns a,"));
                if !described {
                    return Err(format!("a Describe of statement {statement} is answered {transcript:?}"));
                }
            }
            Habit::Deallocates => {
                if let Some(old) = (0..STATEMENTS).find(|old| self.prepared[*old]) {
                    let transcript = self.ask(&Batch::new().query(&format!("DEALLOCATE {}", Driver::name(old))))?;
                    expect(&transcript, "Complete DEALLOCATE")?;
                    self.prepared[old] = false;
                }
                expect(&self.ask(&Batch::new().parse(&name, &sql).sync())?, "ParseComplete")?;
            }
            Habit::ClosesEachTime => return Ok(Batch::new().close_statement(&name).parse(&name, &sql)),
            Habit::FailsFirst => {
                let wrong = Batch::new().parse(&name, "SELECT * FROM no_such_table").sync();
                expect(&self.ask(&wrong)?, "Error 42P01 relation \"no_such_table\" does not exist")?;
                expect(&self.ask(&Batch::new().parse(&name, &sql).sync())?, "ParseComplete")?;
            }
        }
        Ok(Batch::new())
    }

    /// Uses a statement once: its own row is returned, or the one error that a changed table may cause.
    fn use_once(&mut self, statement: usize, value: &str) -> Result<Use, String> {
        let before = match self.prepare(statement) {
            Ok(before) => before,
            Err(error) if error.contains(CHANGED) => return Ok(self.forget(statement, error)),
            Err(error) => return Err(error),
        };
        self.uses[statement] += 1;
        let named = self.habit != Habit::Deallocates || self.uses[statement] > 2;
        let name = if named { Driver::name(statement) } else { String::new() };
        let before = if named { before } else { before.parse("", &self.sql(statement)) };
        let mut batch = before.bind("", &name, &[value]);
        if self.habit == Habit::AllAtOnce {
            batch = batch.describe_portal("");
        }
        let transcript = self.ask(&batch.execute("", 0).sync())?;
        self.prepared[statement] = self.habit != Habit::ClosesEachTime;
        let row = transcript.iter().find(|line| line.starts_with("Row"));
        let own = format!(",client {} statement {statement},{value}", self.number);
        match row {
            Some(row) if row.ends_with(&own) => Ok(Use::Answered { changed: !row.contains("Row 1,client") }),
            Some(row) => Err(format!("{:?} of client {} got {row} instead of …{own}", self.habit, self.number)),
            None if transcript.iter().any(|line| line.contains(CHANGED)) => {
                Ok(self.forget(statement, format!("{transcript:?}")))
            }
            None => Err(format!("{:?}, statement {statement}: {transcript:?}", self.habit)),
        }
    }

    /// What drivers do after 0A000: they drop the statement, to prepare it again.
    fn forget(&mut self, statement: usize, reported: String) -> Use {
        let _ = self.ask(&Batch::new().close_statement(&Driver::name(statement)).sync());
        self.prepared[statement] = false;
        Use::Changed(reported)
    }
}

/// PostgreSQL's error after a table has changed, once for each plan and connection.
const CHANGED: &str = "Error 0A000 cached plan must not change result type";

enum Use {
    /// The row; whether the table had its new column.
    Answered { changed: bool },
    /// The error that reported the table's change.
    Changed(String),
}

fn expect(transcript: &[String], first: &str) -> Result<(), String> {
    if transcript.first().is_some_and(|line| line == first) {
        Ok(())
    } else {
        Err(format!("{transcript:?}, not {first}"))
    }
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicU32,
    changed: AtomicU32,
}

/// All habits at once, each with its own clients, and an ALTER TABLE after half of the rounds.
fn run(params: &ConnectParams, database: &Database, rounds: usize) -> Result<Tally, String> {
    let tally = Tally::default();
    let mut owner = database.superuser();
    owner.query_all("CREATE TABLE wide AS SELECT 1 AS a; GRANT ALL ON wide TO PUBLIC").unwrap();
    let halfway = AtomicU32::new(0);
    let clients = HABITS.len() * 2;
    thread::scope(|scope| {
        let all: Vec<_> = (0..clients)
            .map(|number| {
                let (tally, halfway) = (&tally, &halfway);
                scope.spawn(move || one_client(params, number, rounds, halfway, tally))
            })
            .collect();
        while halfway.load(Ordering::Relaxed) < clients as u32 && all.iter().any(|client| !client.is_finished()) {
            thread::sleep(Duration::from_millis(2));
        }
        owner.query("ALTER TABLE wide ADD COLUMN b int DEFAULT 2").unwrap();
        let outcomes: Vec<_> =
            all.into_iter().map(|client| client.join().expect("the thread does not panic")).collect();
        outcomes.into_iter().collect::<Result<Vec<()>, String>>()
    })?;
    Ok(tally)
}

fn one_client(
    params: &ConnectParams,
    number: usize,
    rounds: usize,
    halfway: &AtomicU32,
    tally: &Tally,
) -> Result<(), String> {
    let client = Connection::connect(params).map_err(|error: Error| error.to_string())?;
    let habit = HABITS[number % HABITS.len()];
    let mut driver = Driver { habit, number, client, prepared: Default::default(), uses: Default::default() };
    let mut rng = Rng::new(number as u64);
    let mut seen_change = false;
    for round in 0..rounds {
        if round == rounds / 2 {
            halfway.fetch_add(1, Ordering::Relaxed);
        }
        let statement = rng.below(STATEMENTS);
        match driver.use_once(statement, &format!("round {round}"))? {
            Use::Answered { changed } => {
                seen_change |= changed;
                tally.answered.fetch_add(1, Ordering::Relaxed);
            }
            Use::Changed(_) => drop(tally.changed.fetch_add(1, Ordering::Relaxed)),
        }
        thread::sleep(Duration::from_micros(rng.below(500) as u64));
    }
    // A client that continues long enough sees the change; on a busy machine the table may not be altered yet.
    let mut last = String::new();
    let begun = Instant::now();
    for round in 0.. {
        if seen_change {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(60) {
            break;
        }
        for statement in 0..STATEMENTS {
            match driver.use_once(statement, &format!("after {round}"))? {
                Use::Answered { changed } => seen_change |= changed,
                Use::Changed(reported) => last = reported,
            }
        }
    }
    Err(format!("{habit:?}: a statement never saw the table's new column: {last}"))
}

/// Clients with the habits of many drivers share two or three servers, each of which keeps two statements; all use the
/// same names for different statements, and their table is altered after half of the rounds. Every row names the client
/// and the statement that made it. A pooler that loses track of what is prepared where runs another statement, or none;
/// the only permitted error is PostgreSQL's own about the changed table, after which the statement works again.
#[test]
fn a_prepared_statement_is_the_one_its_client_prepared() {
    let report = Report::begin();
    for servers in [2, 3] {
        let setup = Setup::new(Mode::Transaction).size(servers).pool("max_prepared_statements = 2");
        let site = Site::with(setup, Mode::Transaction);
        let tally = run(&site.params(), site.database(), size(120, 4000)).unwrap_or_else(|error| panic!("{error}"));
        report.figure(format!(
            "{servers} servers: {} correct uses, {} errors 0A000 of the altered table",
            tally.answered.into_inner(),
            tally.changed.into_inner()
        ));
    }
}

/// PgBouncer 1.18 moves clients to servers without their statements: the same run fails there.
#[test]
fn through_pgbouncer_1_18_a_statement_is_missing_or_anothers() {
    let report = Report::begin();
    let database = Postgres::shared().database();
    let ini = Ini::transaction(2).forced(users::APP);
    if let Some(pgbouncer) = PgBouncer::start(&ini, &database) {
        let error = run(&pgbouncer.params(users::APP), &database, 120)
            .map(drop)
            .expect_err("PgBouncer 1.18 tracks no statements");
        report.figure(format!("PgBouncer 1.18: {}", error.chars().take(90).collect::<String>()));
    }
}
