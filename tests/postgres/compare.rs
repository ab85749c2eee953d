//! Random traffic, direct and pooled side by side: every answer is the same, byte by byte.
//!
//! Left out are what must differ (object ids of tables) and the few errors in which the server names a statement by the
//! name that Weir gave it. What a turn asks is chosen at random; the seed is printed, and `WEIR_SEED` repeats it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::client::{Connection, Frame};
use weir_pgwire::{backend, tag};
use weir_tests::{Batch, Mode, Rng, Setup, Site, tale};

/// Texts with the number of their parameters; `@` is the table of the pair.
const TEXTS: [(&str, usize); 31] = [
    ("SELECT 1 AS one, NULL, 'x'", 0),
    ("SELECT $1::int + 1", 1),
    ("SELECT $1::text, generate_series(1, 7)", 1),
    ("SELECT 10 / $1::int", 1),
    ("SELECT repeat($1::text, 3000)", 1),
    ("INSERT INTO @ VALUES ($1::int) RETURNING n", 1),
    ("UPDATE @ SET n = n + 1", 0),
    ("DELETE FROM @ WHERE n > $1::int", 1),
    ("SELECT count(*), sum(n) FROM @", 0),
    ("SELECT n FROM @ ORDER BY n", 0),
    ("SELEC nonsense", 0),
    ("SELECT * FROM missing_table", 0),
    ("", 0),
    ("BEGIN", 0),
    ("BEGIN", 0),
    ("COMMIT", 0),
    ("COMMIT", 0),
    ("ROLLBACK", 0),
    ("SAVEPOINT s", 0),
    ("ROLLBACK TO s", 0),
    ("RELEASE s", 0),
    ("SET TimeZone = 'Asia/Tokyo'", 0),
    ("SET LOCAL TimeZone = 'Europe/Berlin'", 0),
    ("RESET TimeZone", 0),
    ("SHOW TimeZone", 0),
    ("SELECT '2024-02-01 00:00+00'::timestamptz", 0),
    ("SET application_name = 'somebody'", 0),
    ("SHOW application_name", 0),
    ("DECLARE c CURSOR FOR SELECT generate_series(1, 5)", 0),
    ("FETCH 2 FROM c", 0),
    ("DO $$ BEGIN RAISE NOTICE 'noted'; END $$", 0),
];

/// More than one statement at once, for simple queries.
const MANY: [&str; 7] = [
    "SELECT 1; SELECT 2",
    "SELECT 1; SELECT 1/0; SELECT 2",
    "BEGIN; INSERT INTO @ VALUES (5); COMMIT",
    "BEGIN; INSERT INTO @ VALUES (6); SELECT 1/0; COMMIT",
    "INSERT INTO @ VALUES (7); ROLLBACK",
    "SET TimeZone = 'Asia/Tokyo'; SELECT 1/0",
    ";;",
];

/// The ends of statements, a turn of their own: Weir learns of them by the answer.
const ENDS: [&str; 4] = ["DEALLOCATE a", "DEALLOCATE b", "DEALLOCATE ALL", "DISCARD ALL"];

const STATEMENTS: [&str; 5] = ["", "", "a", "b", "a name with \"quotes\""];
const PORTALS: [&str; 3] = ["", "", "p"];
const VALUES: [&str; 5] = ["0", "1", "7", "x", "2147483647"];

/// One client's program, chosen as it goes.
struct Author {
    rng: Rng,
    table: String,
}

impl Author {
    fn text(&mut self) -> (String, usize) {
        let (text, parameters) = *self.rng.pick(&TEXTS);
        (text.replace('@', &self.table), parameters)
    }

    /// Something a client may say, as a driver would say it or as none would.
    fn more(&mut self, batch: Batch) -> Batch {
        let statement = *self.rng.pick(&STATEMENTS);
        let portal = *self.rng.pick(&PORTALS);
        let value = *self.rng.pick(&VALUES);
        match self.rng.below(20) {
            0..=3 => {
                let text = if self.rng.one_in(4) { self.many() } else { self.text().0.replace("$1", "7") };
                batch.query(&text)
            }
            4..=8 => {
                let (text, parameters) = self.text();
                let values = &[value][..parameters];
                let batch = batch.parse(statement, &text).bind(portal, statement, values).describe_portal(portal);
                let max_rows = *self.rng.pick(&[0, 0, 0, 2]);
                let batch = batch.execute(portal, max_rows);
                if statement.is_empty() || self.rng.one_in(3) { batch } else { batch.close_statement(statement) }
            }
            9 => batch.parse(statement, &self.text().0),
            // A Describe alone would differ in a failed transaction, where a server can't be taught the statement; see
            // `statements` for it.
            10 => batch.parse(statement, &self.text().0).describe_statement(statement),
            11 => batch.bind(portal, statement, &[value][..self.rng.below(2)]).execute(portal, 1),
            // Only of a portal that was just bound: PostgreSQL 15.18 itself crashes now and then (a segmentation fault, also
            // without a pooler) on an Execute of one that an aborted transaction has left behind.
            12 => {
                let batch = batch.bind(portal, statement, &[value][..self.rng.below(2)]).execute(portal, 1);
                batch.execute(portal, *self.rng.pick(&[0, 1]))
            }
            13 => batch.close_statement(statement),
            14 => batch.close_portal(portal),
            15 => batch.sync(),
            16 => batch.flush(),
            17 => self.copy_in(batch, value),
            18 => batch.query(&format!("COPY (SELECT n FROM {} ORDER BY n) TO STDOUT", self.table)),
            _ => batch.function(177, &["1", value]),
        }
    }

    fn many(&mut self) -> String {
        self.rng.pick(&MANY).replace('@', &self.table)
    }

    fn copy_in(&mut self, batch: Batch, value: &str) -> Batch {
        let sql = format!("COPY {} FROM STDIN", self.table);
        let extended = self.rng.one_in(2);
        let batch = if extended {
            batch.sync().parse("", &sql).bind("", "", &[]).execute("", 0)
        } else {
            batch.sync().query(&sql)
        };
        let batch = batch.copy_data("1\n").copy_data(value).copy_data("\n");
        let batch = if self.rng.one_in(4) { batch.copy_fail("given up") } else { batch.copy_done() };
        // A COPY that stays the unnamed statement would be run again by a later Bind, without its data.
        if extended { batch.sync().close_statement("").sync() } else { batch }
    }

    /// A few requests, then the end of whatever transaction is open, and a mark by which all ends are known.
    fn turn(&mut self, mark: &str) -> Batch {
        let mut batch = Batch::new();
        if self.rng.one_in(12) {
            let end: &str = self.rng.pick::<&str>(&ENDS);
            batch = batch.query(end);
        } else {
            for _ in 0..self.rng.below(6) + 1 {
                batch = self.more(batch);
            }
        }
        batch.sync().query("COMMIT").query(&format!("DO $$ BEGIN RAISE NOTICE '{mark}'; END $$"))
    }
}

/// Reads to the end of a turn: the Ready after the mark.
fn answers(connection: &mut Connection, mark: &str, sent: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut marked = false;
    loop {
        let frame = connection
            .read_frame(Duration::from_secs(30))
            .unwrap_or_else(|error| panic!("{error} after {:?}\nsent: {sent}", tale(&frames)));
        marked |= frame.tag == tag::back::NOTICE && frame.body.windows(mark.len()).any(|part| part == mark.as_bytes());
        let ended = marked && frame.tag == tag::back::READY;
        frames.push(frame);
        if ended {
            return frames;
        }
    }
}

/// Takes out what must differ.
fn comparable(frame: &Frame) -> Frame {
    let mut frame = frame.clone();
    if frame.tag == tag::back::ROW_DESCRIPTION {
        forget_tables(&mut frame.body);
    }
    if frame.tag == tag::back::ERROR {
        frame.body = told_to_people(&frame.body);
    }
    frame
}

/// The fields of an error that people and programs go by; not the place in PostgreSQL's source, which differs where a
/// statement had to be prepared first.
fn told_to_people(body: &[u8]) -> Vec<u8> {
    let Ok(view) = backend::error_fields(body) else { return body.to_vec() };
    // A name that is taken, a text that can't be read, a Bind that does not fit, and each of them within a failed
    // transaction: which of these is told first depends on whether this server knew the statement.
    if view.sqlstate().is_some_and(|state| [b"42P05", b"42601", b"08P01", b"25P02"].iter().any(|one| state == *one)) {
        return b"statement".to_vec();
    }
    let fields = view.fields().filter(|(code, _)| !b"FLR".contains(code));
    fields.flat_map(|(code, text)| [&[code][..], text, b"\0"].concat()).collect()
}

/// The object id of a column's table stands behind the column's name.
fn forget_tables(body: &mut [u8]) {
    let mut at = 2;
    while let Some(end) = body.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) {
        let oid = at + end + 1;
        if let Some(oid) = body.get_mut(oid..oid + 4) {
            oid.fill(0);
        }
        at = oid + 18;
    }
}

/// What a client sends, message by message.
fn readable(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while let Ok(Some(head)) = weir_pgwire::Head::parse(bytes) {
        let body = &bytes[weir_pgwire::HEAD..head.total()];
        text += &format!("{} {}; ", char::from(head.tag), body.escape_ascii().to_string().replace("\\x00", "_"));
        bytes = &bytes[head.total()..];
    }
    text
}

/// In pieces, as a network might deliver them.
fn send_in_pieces(connection: &mut Connection, bytes: &[u8], rng: &mut Rng) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let cut = if rng.one_in(2) { rest.len() } else { rng.below(rest.len()) + 1 };
        connection.send_bytes(&rest[..cut]).unwrap();
        rest = &rest[cut..];
        if rng.one_in(8) {
            thread::sleep(Duration::from_micros(300));
        }
    }
}

/// The same random program on both sides until the time is over.
fn side_by_side(direct: &Site, pooled: &Site, seed: u64, end: Instant) {
    let mut rng = Rng::new(seed);
    let table = format!("t{seed}");
    let mut author = Author { rng: Rng::new(rng.bits()), table: table.clone() };
    let (mut alone, mut through) = (direct.connect(), pooled.connect());
    for connection in [&mut alone, &mut through] {
        connection.query(&format!("CREATE TABLE {table} (n int)")).unwrap();
    }
    let mut turn = 0;
    let mut before = String::new();
    while Instant::now() < end {
        turn += 1;
        let mark = format!("end of turn {turn} of {seed}");
        let batch = author.turn(&mark);
        let sent = format!("{before}\n  and then {}", readable(batch.bytes()));
        before = readable(batch.bytes());
        alone.send_bytes(batch.bytes()).unwrap();
        send_in_pieces(&mut through, batch.bytes(), &mut rng);
        let wanted = answers(&mut alone, &mark, &sent);
        let got = answers(&mut through, &mark, &sent);
        if wanted.iter().map(comparable).ne(got.iter().map(comparable)) {
            panic!(
                "turn {turn} of seed {seed} differs\nsent:   {sent}\ndirect: {:#?}\npooled: {:#?}",
                tale(&wanted),
                tale(&got)
            );
        }
    }
    println!("seed {seed}: {turn} turns alike");
}

fn run(mode: Mode, setup: Setup) {
    let direct = Site::direct();
    let pooled = Site::with(setup, mode);
    let base = Rng::seeded("compare").bits() % 1_000_000;
    let end = Instant::now() + Duration::from_secs(8);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let pairs: Vec<_> = (0..4)
            .map(|number| {
                let (direct, pooled) = (&direct, &pooled);
                scope.spawn(move || side_by_side(direct, pooled, base * 10 + number, end))
            })
            .collect();
        if mode == Mode::Transaction {
            // Others who make servers change hands.
            for number in 0..3 {
                let (pooled, stop) = (&pooled, &stop);
                scope.spawn(move || noise(pooled, stop, number));
            }
        }
        let outcomes: Vec<_> = pairs.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

fn noise(site: &Site, stop: &AtomicBool, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut client = site.connect();
    while !stop.load(Ordering::Relaxed) {
        let sql = *rng.pick(&["SELECT 1", "SELECT pg_sleep(0.001)", "SET TimeZone = 'America/Lima'", "SELECT 1/0"]);
        let _ = client.query(sql);
        if rng.one_in(3) {
            client.query("BEGIN").unwrap();
            thread::sleep(Duration::from_millis(1));
            client.query("ROLLBACK").unwrap();
        }
        if rng.one_in(20) {
            client = site.connect();
        }
    }
}

#[test]
fn random_traffic_is_answered_alike_directly_and_directly() {
    // The suite itself must not see differences where there are none.
    let site = Site::direct();
    let again = Site::direct();
    let seed = Rng::seeded("compare").bits() % 1_000_000;
    side_by_side(&site, &again, seed, Instant::now() + Duration::from_secs(3));
}

#[test]
fn random_traffic_is_answered_alike_in_session_mode() {
    run(Mode::Session, Setup::new(Mode::Session).size(4));
}

#[test]
fn random_traffic_is_answered_alike_in_transaction_mode() {
    run(Mode::Transaction, Setup::new(Mode::Transaction).size(3));
}

#[test]
fn random_traffic_is_answered_alike_over_one_server() {
    run(Mode::Transaction, Setup::new(Mode::Transaction).size(1));
}

#[test]
fn random_traffic_is_answered_alike_with_room_for_two_statements_on_a_server() {
    let setup = Setup::new(Mode::Transaction).size(2).workers(2).pool("max_prepared_statements = 2");
    run(Mode::Transaction, setup);
}
