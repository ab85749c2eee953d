//! Replies reach the client that sent the request, and no other, also when that client disconnects.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_pgwire::tag;
use weir_tests::{
    Batch, FaultProxy, Ini, Mode, Plan, Postgres, Rng, Setup, Site, Way, ask, line_of, lines_of, read_until_ready,
};

use crate::report::{Report, size};

/// A server whose bytes arrive slowly, in small pieces with a delay each.
fn slow_plan() -> Plan {
    let pieces = Some((97, Duration::from_micros(300)));
    let way = Way { jitter: Duration::from_millis(2), trickle: pieces, ..Way::default() };
    Plan { forth: way, back: way, ..Plan::default() }
}

/// The results of a run's clients.
#[derive(Default)]
struct Counts {
    answered: AtomicU32,
    timed_out: AtomicU32,
    left: AtomicU32,
}

/// Many clients send pipelines of Parse, Bind and Execute in two pieces with a pause between them, during which the
/// server waits for its client; the other clients wait for a server only a moment, and some disconnect during their
/// answers. Each row has a tag that only its client knows. A pooler that keeps the rest of a pipeline after a failed
/// checkout, or reuses a server with pending replies, shows a row with another client's tag.
#[test]
fn a_split_pipeline_never_delivers_the_rows_of_another() {
    let report = Report::begin();
    let counts = Counts::default();
    for servers in [1, 2] {
        let slow = FaultProxy::scripted(Postgres::shared().port(), |_| slow_plan());
        // PgBouncer counts whole seconds in an ini; Weir accepts fractions.
        let ini = Ini::transaction(servers).set("query_wait_timeout", "0.04").through(slow.port());
        let site = Site::ini(&ini);
        let end = Instant::now() + Duration::from_secs(size(4, 60));
        thread::scope(|scope| {
            for client in 0..12 {
                let (site, counts) = (&site, &counts);
                scope.spawn(move || tagged_pipelines(site, client, end, counts));
            }
        });
    }
    let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
    let (answered, timed_out, left) = (count(&counts.answered), count(&counts.timed_out), count(&counts.left));
    assert!(answered > 0 && timed_out > 0 && left > 0, "{answered}, {timed_out}, {left}: not all cases occurred");
    report.figure(format!(
        "{answered} pipelines answered, {timed_out} refused by the wait's time-out, {left} disconnected in the middle; no row at another client"
    ));
}

fn tagged_pipelines(site: &Site, client: usize, end: Instant, counts: &Counts) {
    let mut rng = Rng::new(client as u64);
    let mut connection = None;
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        // A login waits for the first server too, and no longer than a query.
        let Ok(mut own) = connection.take().map_or_else(|| Connection::connect(&site.params()), Ok) else {
            counts.timed_out.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let tag = format!("tag-{client}-{round}");
        let mut batch = Batch::new();
        for part in 0..4 {
            batch = batch.run("SELECT $1::text, pg_sleep(0.002)", &[&format!("{tag}-{part}")]);
            batch = if part % 2 == 1 { batch.sync() } else { batch.flush() };
        }
        let (first, second) = batch.bytes().split_at(rng.below(batch.bytes().len()));
        let sent = own.send_bytes(first).and_then(|()| {
            thread::sleep(Duration::from_millis(rng.below(60) as u64));
            own.send_bytes(second)
        });
        if sent.is_ok() && rng.one_in(5) {
            let _ = own.read_frame(Duration::from_millis(rng.below(10) as u64 + 1));
            counts.left.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if answered(&mut own, &tag) {
            counts.answered.fetch_add(1, Ordering::Relaxed);
            connection = Some(own);
        } else {
            counts.timed_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads the answer of a pipeline; false if the client got no server.
fn answered(connection: &mut Connection, tag: &str) -> bool {
    let mut transcript = Vec::new();
    let mut ready = 0;
    while ready < 2 {
        match connection.read_frame(Duration::from_secs(30)) {
            Ok(frame) => {
                ready += usize::from(frame.tag == tag::back::READY);
                transcript.push(line_of(&frame));
            }
            Err(Error::Timeout) => panic!("{tag}: no reply after {transcript:?}"),
            Err(_) => break,
        }
        let last = transcript.last().expect("one was read");
        assert!(!last.starts_with("Row ") || last.starts_with(&format!("Row {tag}-")), "{tag} received {transcript:?}");
        let error = last.starts_with("Error ");
        assert!(!error || last.starts_with("Error 08P01 query_wait_timeout"), "{tag}: {transcript:?}");
    }
    let rows: Vec<_> = transcript.iter().filter(|line| line.starts_with("Row")).cloned().collect();
    let wanted: Vec<_> = (0..4).map(|part| format!("Row {tag}-{part},")).collect();
    if ready == 2 {
        assert_eq!(rows, wanted, "{transcript:?}");
    } else {
        assert!(wanted.starts_with(&rows), "{transcript:?}");
    }
    ready == 2
}

/// A few requests of every kind, with errors among them, and perhaps without an end.
fn mix(rng: &mut Rng) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..rng.below(6) + 1 {
        batch = match rng.below(12) {
            0 => batch.query("SELECT 'left over'; SELECT 1/0; SELECT 'never'"),
            1 => batch.query("SELEC nonsense"),
            2 => batch.run("SELECT 1/$1::int", &["0"]),
            3 => batch.run("SELECT $1::text FROM generate_series(1, 50)", &["left over"]).flush(),
            4 => batch.parse("", "SELECT 'left over'").describe_statement(""),
            5 => batch.bind("", "", &[]).execute("", 1),
            6 => batch.sync(),
            7 => batch.flush(),
            8 => batch.query("COPY mixed FROM STDIN").copy_data("1\n").copy_data("left over\n").copy_done(),
            9 => batch.sync().query("COPY mixed FROM STDIN").copy_data("2\n").copy_fail("left over"),
            10 => batch.query("COPY (SELECT 'left over' FROM generate_series(1, 20)) TO STDOUT"),
            _ => batch.query("DO $$ BEGIN RAISE NOTICE 'left over'; END $$"),
        };
    }
    batch
}

/// The answer to a finished mix: all messages up to the ReadyForQuery after the mark.
fn whole(connection: &mut Connection, batch: &Batch, mark: &str) -> Vec<String> {
    // One Sync, in case extended messages wait for it, then one that no COPY can consume.
    let batch = batch.clone().sync().query("ROLLBACK").query(&format!("SELECT '{mark}'"));
    connection.send_bytes(batch.bytes()).unwrap_or_else(|error| panic!("send: {error}"));
    let mut transcript = Vec::new();
    while !transcript.contains(&format!("Row {mark}")) {
        transcript.extend(lines_of(&read_until_ready(connection, 1)));
    }
    transcript
}

/// The exact answers to the next client.
fn assert_clean(site: &Site, number: usize) {
    let mut clean = site.connect();
    let tag = format!("clean {number}");
    let batch = Batch::new().run("SELECT $1::text", &[&tag]).sync().query("SELECT 'simple'").sync();
    let transcript = ask(&mut clean, &batch, 3);
    let extended =
        ["ParseComplete", "BindComplete", "Columns text", &format!("Row {tag}"), "Complete SELECT 1", "Ready I"];
    let simple = ["Columns ?column?", "Row simple", "Complete SELECT 1", "Ready I", "Ready I"];
    assert_eq!(transcript, [&extended[..], &simple[..]].concat(), "after mix {number}");
}

/// Random mixes of simple and extended queries, Flush, Sync, COPY and errors run directly and pooled, and must get the
/// same answers. Then one more mix is sent and abandoned at a random point, and a clean client uses the only server of
/// the pool: if the pooler counted replies wrongly, this client receives the surplus error or reply.
#[test]
fn a_left_over_reply_never_surfaces_in_the_next_clients_query() {
    let report = Report::begin();
    let seed = Rng::seeded("replies").bits();
    for mode in [Mode::Transaction, Mode::Session] {
        let (direct, pooled) = (Site::direct(), Site::with(Setup::new(mode).size(1), mode));
        let mut alone = direct.connect();
        for site in [&direct, &pooled] {
            site.connect().query("CREATE TABLE mixed (n int)").unwrap();
        }
        let mut rng = Rng::new(seed);
        let rounds = size(150, 5000);
        for number in 0..rounds {
            let batch = mix(&mut rng);
            let mark = format!("end of {number}");
            let mut through = pooled.connect();
            let (wanted, got) = (whole(&mut alone, &batch, &mark), whole(&mut through, &batch, &mark));
            assert_eq!(got, wanted, "mix {number} of seed {seed}");
            // The client sends another mix, without its end.
            through.send_bytes(mix(&mut rng).bytes()).unwrap();
            if rng.one_in(2) {
                let _ = through.read_frame(Duration::from_millis(rng.below(4) as u64 + 1));
            }
            drop(through);
            assert_clean(&pooled, number);
        }
        report.figure(format!("{rounds} mixes alike in {mode} mode"));
    }
}
