//! Replies reach who asked, and nobody else, whatever becomes of the asker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_pgwire::tag;
use weir_tests::{Batch, FaultProxy, Ini, Mode, Plan, Postgres, Rng, Setup, Site, Way, ask, readies, tale, tell};

use crate::report::{Report, size};

/// A server whose bytes crawl, in small pieces and each a little late.
fn slowly() -> Plan {
    let pieces = Some((97, Duration::from_micros(300)));
    let way = Way { jitter: Duration::from_millis(2), trickle: pieces, ..Way::default() };
    Plan { forth: way, back: way, ..Plan::default() }
}

/// What the clients of a run went through.
#[derive(Default)]
struct Counts {
    answered: AtomicU32,
    timed_out: AtomicU32,
    left: AtomicU32,
}

/// Many clients send pipelines of Parse, Bind and Execute in two pieces with a pause within, which makes a server wait for
/// its client; the others wait for a server no longer than a moment, and some leave in the middle of their answers. Each
/// row carries a tag that only its client knows. A pooler that keeps the rest of a pipeline behind a failed checkout, or
/// hands on a server that still owes answers, shows a row with another's tag.
#[test]
fn a_split_pipeline_never_delivers_the_rows_of_another() {
    let report = Report::begin();
    let counts = Counts::default();
    for servers in [1, 2] {
        let slow = FaultProxy::scripted(Postgres::shared().port(), |_| slowly());
        // An ini counts whole seconds, but takes fractions.
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
    assert!(answered > 0 && timed_out > 0 && left > 0, "{answered}, {timed_out}, {left}: not all was tried");
    report.figure(format!(
        "{answered} pipelines answered, {timed_out} refused by the wait's time-out, {left} left in the middle; no row astray"
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

/// Reads the answer of a pipeline; false if the client was refused a server.
fn answered(connection: &mut Connection, tag: &str) -> bool {
    let mut story = Vec::new();
    let mut ready = 0;
    while ready < 2 {
        match connection.read_frame(Duration::from_secs(30)) {
            Ok(frame) => {
                ready += usize::from(frame.tag == tag::back::READY);
                story.push(tell(&frame));
            }
            Err(Error::Timeout) => panic!("{tag}: nothing comes after {story:?}"),
            Err(_) => break,
        }
        let last = story.last().expect("one was read");
        assert!(!last.starts_with("Row ") || last.starts_with(&format!("Row {tag}-")), "{tag} was told {story:?}");
        let error = last.starts_with("Error ");
        // In so short a wait a login of the crawling server comes to no end either.
        let refused = ["57014", "08001"].map(|state| format!("Error {state} query_wait_timeout"));
        assert!(!error || refused.iter().any(|told| last.starts_with(told)), "{tag}: {story:?}");
    }
    let rows: Vec<_> = story.iter().filter(|line| line.starts_with("Row")).cloned().collect();
    let wanted: Vec<_> = (0..4).map(|part| format!("Row {tag}-{part},")).collect();
    if ready == 2 {
        assert_eq!(rows, wanted, "{story:?}");
    } else {
        assert!(wanted.starts_with(&rows), "{story:?}");
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

/// The answer to a mix that is brought to its end: everything up to the Ready after the mark.
fn whole(connection: &mut Connection, batch: &Batch, mark: &str) -> Vec<String> {
    // A Sync, in case extended messages wait for one, then one that no COPY can swallow.
    let batch = batch.clone().sync().query("ROLLBACK").query(&format!("SELECT '{mark}'"));
    connection.send_bytes(batch.bytes()).unwrap_or_else(|error| panic!("send: {error}"));
    let mut story = Vec::new();
    while !story.contains(&format!("Row {mark}")) {
        story.extend(tale(&readies(connection, 1)));
    }
    story
}

/// What a client that comes after is told, word for word.
fn assert_clean(site: &Site, number: usize) {
    let mut clean = site.connect();
    let tag = format!("clean {number}");
    let batch = Batch::new().run("SELECT $1::text", &[&tag]).sync().query("SELECT 'simple'").sync();
    let story = ask(&mut clean, &batch, 3);
    let extended =
        ["ParseComplete", "BindComplete", "Columns text", &format!("Row {tag}"), "Complete SELECT 1", "Ready I"];
    let simple = ["Columns ?column?", "Row simple", "Complete SELECT 1", "Ready I", "Ready I"];
    assert_eq!(story, [&extended[..], &simple[..]].concat(), "after mix {number}");
}

/// Random mixes of simple and extended queries, Flush, Sync, COPY and errors run directly and pooled side by side, and
/// are answered alike. Then one more mix is sent and abandoned wherever it stands, and a clean client follows on the only
/// server of the pool: whatever a pooler counted wrongly, an error or a reply too many, is the first thing it sees.
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
            // The same client goes on with a mix that it does not end.
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
