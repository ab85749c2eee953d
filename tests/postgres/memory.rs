//! Bounds on the memory and time of one client: statements and pipelines at their limits, with a real server.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::Connection;
use weir_pgwire::tag;
use weir_tests::{Batch, Bulk, Mode, Setup, Site, User, ask, eventually, users};

fn setup() -> Setup {
    Setup::new(Mode::Transaction).auth("plain").no_server_user().size(3)
}

fn connect(site: &Site, user: &User) -> Connection {
    let params = site.weir().params(user.name, "app").password(user.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{}: {error}", user.name))
}

/// A unique text of this many bytes.
fn text(size: usize, number: usize) -> String {
    format!("SELECT {number}, length('{}')", "x".repeat(size))
}

/// Parses a named statement; whether it was accepted.
#[track_caller]
fn prepares(client: &mut Connection, name: &str, sql: &str) -> bool {
    let transcript = ask(client, &Batch::new().parse(name, sql).sync(), 1);
    match &transcript.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ParseComplete", "Ready I"] => true,
        [error, "Ready I"] if error.starts_with("Error 54000 ") => false,
        other => panic!("{other:?}"),
    }
}

/// Kilobytes of statements, as the process reports them.
fn held(site: &Site) -> u64 {
    let rows = site.weir().show("MEM").rows;
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some("statement_memory"));
    row.and_then(|row| row[2].as_deref()?.parse().ok()).expect("SHOW MEM has a row for statements")
}

fn refused(site: &Site) -> u64 {
    let rows = site.weir().show("REFUSALS").rows;
    rows.iter().filter_map(|row| row[5].as_deref()?.parse::<u64>().ok()).sum()
}

#[test]
fn one_client_does_not_take_the_memory_for_statements_of_others() {
    let site = Site::with(setup(), Mode::Transaction);
    let (mut greedy, mut other) = (connect(&site, &users::APP), connect(&site, &users::APP));
    let kept = (0..17).filter(|n| prepares(&mut greedy, &format!("s{n}"), &text(15 << 20, *n))).count();
    assert_eq!(kept, 2, "an eighth of 256 MiB");
    assert_eq!(refused(&site), 15);
    assert!((30 << 10..33 << 10).contains(&held(&site)), "{} kB", held(&site));
    for number in 0..100 {
        assert!(prepares(&mut other, &format!("s{number}"), &text(1000, number)));
    }
    let transcript = ask(&mut greedy, &Batch::new().bind("", "s1", &[]).execute("", 0).sync(), 1);
    assert_eq!(transcript[1], format!("Row 1,{}", 15 << 20), "it keeps its statements");
    drop(greedy);
    eventually("its memory is freed", || if held(&site) < 2_000 { Ok(()) } else { Err(held(&site)) });
}

#[test]
fn one_pool_does_not_take_the_memory_for_statements_of_others() {
    let site = Site::with(setup().limit("statement_memory = \"16MiB\""), Mode::Transaction);
    let mut holders = Vec::new();
    let mut all = 0;
    for client in 0..12 {
        let mut greedy = connect(&site, &users::APP);
        all += (0..4).filter(|n| prepares(&mut greedy, &format!("s{n}"), &text(900_000, client * 4 + n))).count();
        holders.push(greedy);
    }
    assert_eq!(all, 9, "of 24 that the clients may hold: half of 16 MiB");
    let mut other = connect(&site, &users::OTHER);
    assert!(prepares(&mut other, "s", &text(900_000, 1_000)), "another user has another pool");
    holders.pop();
    drop(holders);
    let mut late = connect(&site, &users::APP);
    eventually("there is free memory again", || {
        if prepares(&mut late, "s", &text(900_000, 2_000)) { Ok(()) } else { Err("refused") }
    });
}

#[test]
fn a_limit_on_statements_takes_effect_on_reload() {
    let site = Site::with(setup(), Mode::Transaction);
    let mut client = connect(&site, &users::APP);
    assert!(prepares(&mut client, "large", &text(1 << 20, 0)));
    for (limit, fits) in [("1MiB", false), ("64MiB", true)] {
        let changed = setup().limit(&format!("statement_memory = \"{limit}\""));
        site.weir().rewrite(&changed.toml(site.database()), &changed.userlist());
        site.weir().command("RELOAD").unwrap();
        assert_eq!(prepares(&mut client, limit, &text(1 << 20, 1)), fits, "{limit}");
        let transcript = ask(&mut client, &Batch::new().bind("", "large", &[]).execute("", 0).sync(), 1);
        assert_eq!(transcript[1], format!("Row 0,{}", 1 << 20), "statements in memory stay");
    }
}

#[test]
fn a_refused_parse_fails_its_transaction_as_any_error_does() {
    let site = Site::with(setup().pool("client_statements = 1"), Mode::Transaction);
    let mut client = connect(&site, &users::APP);
    client.query("CREATE TABLE IF NOT EXISTS kept (n int)").unwrap();
    assert!(prepares(&mut client, "one", "SELECT 1"));
    // An implicit transaction, up to the Sync.
    let batch = Batch::new().run("INSERT INTO kept VALUES (1)", &[]).parse("two", "SELECT 2").bind("", "two", &[]);
    let transcript = ask(&mut client, &batch.execute("", 0).sync(), 1);
    let limit = "Error 54000 too many prepared statements (client_statements)";
    assert_eq!(transcript[4..], [limit, "Ready I"], "{transcript:?}");
    // A block.
    client.query("BEGIN; INSERT INTO kept VALUES (2)").unwrap();
    let transcript = ask(&mut client, &Batch::new().parse("two", "SELECT 2").sync(), 1);
    assert_eq!(transcript, [limit, "Ready E"]);
    let transcript = ask(&mut client, &Batch::new().query("COMMIT"), 1);
    assert_eq!(transcript, ["Complete ROLLBACK", "Ready I"]);
    assert_eq!(client.value("SELECT count(*) FROM kept").unwrap().as_deref(), Some("0"));
    let transcript = ask(&mut client, &Batch::new().bind("", "one", &[]).execute("", 0).sync(), 1);
    assert_eq!(transcript[1], "Row 1");
}

#[test]
fn a_pipeline_of_two_hundred_thousand_closes_does_not_delay_others() {
    let site = Site::with(Setup::new(Mode::Transaction).auth("trust").size(3), Mode::Transaction);
    let mut other = site.connect();
    other.query("SELECT 1").unwrap();
    let before = site.weir().memory().now;
    let mut client = Bulk::connect(&site);
    let mut batch = Batch::new().run("SELECT pg_sleep(3)", &[]);
    for number in 0..200_000 {
        batch = batch.close_statement(&format!("weir_{number}"));
    }
    let began = Instant::now();
    let mut socket = client.socket();
    let sent = thread::spawn(move || socket.write_all(batch.sync().bytes()));
    let mut answered = 0;
    while began.elapsed() < Duration::from_secs(2) {
        assert_eq!(other.value("SELECT 1").unwrap().as_deref(), Some("1"));
        answered += 1;
    }
    assert!(answered > 50, "{answered} queries beside it");
    let grown = site.weir().memory().now.saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} kB more");
    let mut closed = 0;
    client.skim(|tag, _| closed += u32::from(tag == tag::back::CLOSE_COMPLETE));
    sent.join().unwrap().unwrap();
    assert_eq!(closed, 200_000);
}

/// Named statements, unnamed ones, Parse messages without an end, and pipelines: the maximum of each, from forty
/// clients of one pool. The resident size of the process grows by no more than the sum on the page of limits.
#[test]
fn the_memory_of_the_process_stays_below_the_sum_of_its_bounds() {
    let site = Site::with(setup().limit("statement_memory = \"64MiB\""), Mode::Transaction);
    let mut other = connect(&site, &users::OTHER);
    other.query("SELECT 1").unwrap();
    let before = site.weir().memory();
    let clients = 40;
    let mut holders = Vec::new();
    for number in 0..clients {
        let mut client = connect(&site, &users::APP);
        for statement in 0..6 {
            prepares(&mut client, &format!("s{statement}"), &text(500_000, number * 10 + statement));
        }
        let unnamed = Batch::new().parse("", &text(900_000, number)).sync();
        assert_eq!(ask(&mut client, &unnamed, 1), ["ParseComplete", "Ready I"]);
        let endless = Batch::new().parse("endless", &text(4 << 20, number));
        client.send_bytes(&endless.bytes()[..3 << 20]).unwrap();
        holders.push(client);
    }
    eventually("all of it has arrived", || {
        other.query("SELECT 1").map_err(|error| error.to_string())?;
        let limit = 32 << 10;
        // A refused statement takes no memory, and the accepted ones stay below the pool's half.
        if held(&site) <= limit + 1024 { Ok(()) } else { Err(format!("{} kB are held", held(&site))) }
    });
    let after = site.weir().memory();
    // The pool's half, once more for what grows while it is copied; the clients' input; the servers' pending replies.
    let bound = 2 * (32 << 10) + clients as u64 * 64 + 3 * 2048;
    let grown = after.peak.saturating_sub(before.now);
    assert!(grown < bound, "{grown} kB more at most; the bounds add up to {bound} kB");
    assert!(prepares(&mut other, "s", &text(500_000, 5_000)), "another pool has its share");
    drop(holders);
    eventually("all of it is free", || if held(&site) < 2_000 { Ok(()) } else { Err(held(&site)) });
}

/// What may stay of a flood, in KiB: texts and keys that are kept for the next client, tables, lines of the log, and pages
/// with something else on them. What stays in bytes is counted by `crates/engine/tests/floods.rs`.
const STAYS: u64 = 3 << 10;

type Flood<'a> = &'a dyn Fn(&mut Connection);

#[test]
fn the_memory_of_a_flood_is_returned_to_the_system() {
    let site = Site::with(setup(), Mode::Transaction);
    let mut other = connect(&site, &users::OTHER);
    other.query("SELECT 1").unwrap();
    let large = |client: &mut Connection| {
        (0..2).for_each(|number| assert!(prepares(client, &format!("s{number}"), &text(12 << 20, number))));
    };
    let many = |client: &mut Connection| {
        for number in 0..9_000 {
            assert!(prepares(client, &format!("s{number}"), &text(2_000, number)));
        }
    };
    let unnamed = |client: &mut Connection| {
        (0..20).for_each(|number| assert!(prepares(client, "", &text(900_000, number))));
    };
    let closed = |client: &mut Connection| {
        for number in 0..40 {
            let batch = (0..250).fold(Batch::new(), |batch, name| {
                batch.parse("s", &text(100, number * 250 + name)).close_statement("s")
            });
            ask(client, &batch.sync(), 1);
        }
    };
    let garbage = |_: &mut Connection| {
        for _ in 0..1_500 {
            let mut stranger = TcpStream::connect(("127.0.0.1", site.weir().port())).unwrap();
            stranger.write_all(&[b'x'; 4_000]).unwrap();
        }
    };
    let logins = |_: &mut Connection| (0..600).for_each(|_| drop(connect(&site, &users::APP)));
    let floods: [(&str, Flood<'_>); 6] = [
        ("two large statements", &large),
        ("many statements", &many),
        ("unnamed statements", &unnamed),
        ("statements that are closed again", &closed),
        ("garbage before a login", &garbage),
        ("logins", &logins),
    ];
    for (what, flood) in floods {
        let before = site.weir().memory().now;
        let mut client = connect(&site, &users::APP);
        flood(&mut client);
        drop(client);
        eventually(what, || {
            let kept = site.weir().memory().now.saturating_sub(before);
            if kept <= STAYS { Ok(()) } else { Err(format!("{kept} KiB are kept after {what}")) }
        });
    }
}
