//! The three modes: how long a client keeps its server.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, ask, until_quiet};

fn site(mode: Mode, size: u32) -> Site {
    Site::with(Setup::new(mode).size(size), mode)
}

fn server(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").unwrap().unwrap()
}

#[test]
fn in_session_mode_a_server_stays_with_its_client_until_it_leaves() {
    let site = site(Mode::Session, 2);
    let (mut a, mut b) = (site.connect(), site.connect());
    let (of_a, of_b) = (server(&mut a), server(&mut b));
    assert_ne!(of_a, of_b);
    for _ in 0..5 {
        assert_eq!((server(&mut a), server(&mut b)), (of_a.clone(), of_b.clone()));
    }
    site.weir().await_pool("two are active", |pool| pool.get("sv_active") == 2 && pool.get("cl_active") == 2);
    drop(a);
    assert_eq!(server(&mut site.connect()), of_a, "the server that was released");
}

#[test]
fn in_transaction_mode_a_server_is_free_between_transactions() {
    let site = site(Mode::Transaction, 1);
    let mut clients: Vec<_> = (0..10).map(|_| site.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.query("BEGIN").unwrap();
            client.query("SELECT 1").unwrap();
            assert_eq!(site.weir().pool("app").get("sv_active"), 1);
            client.query("COMMIT").unwrap();
        }
    }
    site.weir().await_pool("one idles", |pool| pool.get("sv_idle") == 1 && pool.get("sv_active") == 0);
    assert_eq!(site.database().backends().len(), 1);
}

#[test]
fn in_transaction_mode_a_server_stays_for_a_whole_transaction() {
    let site = site(Mode::Transaction, 3);
    let mut client = site.connect();
    let mut others: Vec<_> = (0..5).map(|_| site.connect()).collect();
    client.query("BEGIN").unwrap();
    let own = server(&mut client);
    for other in &mut others {
        assert_ne!(server(other), own);
        assert_eq!(server(&mut client), own);
    }
    assert!(client.query("SELECT 1/0").is_err());
    assert_ne!(server(&mut others[0]), own, "also when it has failed");
    client.query("ROLLBACK").unwrap();
}

#[test]
fn in_statement_mode_a_server_is_free_after_each_statement() {
    let site = site(Mode::Statement, 1);
    let mut clients: Vec<_> = (0..5).map(|_| site.connect()).collect();
    for round in 0..5 {
        for (number, client) in clients.iter_mut().enumerate() {
            let sql = format!("SELECT {}", round * number);
            assert_eq!(client.value(&sql).unwrap(), Some((round * number).to_string()));
            let transcript = ask(client, &Batch::new().run("SELECT $1::int", &["7"]).sync(), 1);
            assert_eq!(transcript[3], "Row 7");
        }
    }
    let mut client = site.connect();
    ask(&mut client, &Batch::new().parse("s", "SELECT 's'").sync(), 1);
    let transcript = ask(&mut client, &Batch::new().bind("", "s", &[]).execute("", 0).sync(), 1);
    assert_eq!(transcript[1], "Row s");
    assert_eq!(site.database().backends().len(), 1);
}

#[test]
fn in_statement_mode_a_transaction_is_an_error_that_closes_both_sides() {
    let site = site(Mode::Statement, 2);
    for batch in [
        Batch::new().query("BEGIN"),
        Batch::new().query("START TRANSACTION"),
        Batch::new().query("SELECT 1; BEGIN"),
        Batch::new().run("BEGIN", &[]).sync(),
    ] {
        let mut client = site.connect();
        client.send_bytes(batch.bytes()).unwrap();
        let transcript = until_quiet(&mut client, Duration::from_secs(20));
        let reported = "Error 08P01 transaction blocks not allowed in statement pooling mode";
        assert!(transcript.iter().any(|line| line == reported), "{transcript:?}");
        assert_eq!(transcript.last().unwrap(), "Closed");
        assert!(!transcript.iter().any(|line| line == "Ready T"), "{transcript:?}");
    }
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
    let backends = site.database().backends();
    assert!(backends.iter().all(|(_, state)| state != "idle in transaction"), "{backends:?}");
}

#[test]
fn in_statement_mode_a_whole_transaction_in_one_query_is_one_statement() {
    let site = site(Mode::Statement, 1);
    let mut client = site.connect();
    client.query_all("BEGIN; CREATE TABLE made (n int); COMMIT").unwrap();
    assert_eq!(client.value("SELECT count(*) FROM made").unwrap().as_deref(), Some("0"));
}

#[test]
fn each_pool_has_its_own_mode() {
    let postgres = weir_tests::Postgres::shared();
    let more = format!(
        "[pools.sessions]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\nuser = \"truster\"\n\
         mode = \"session\"\nsize = 2\n",
        postgres.port()
    );
    let site = Site::with(Setup::new(Mode::Transaction).size(1).more(&more), Mode::Transaction);
    let params = site.weir().params("app", "sessions").password(weir_tests::users::APP.password);
    let mut session = Connection::connect(&params).unwrap();
    let mut transaction = site.connect();
    session.query("SET work_mem = '77MB'").unwrap();
    transaction.query("SELECT 1").unwrap();
    assert_eq!(session.value("SHOW work_mem").unwrap().as_deref(), Some("77MB"));
    let pools = site.weir().show("POOLS");
    let mode = |name: &str| {
        let row = (0..pools.rows.len()).find(|row| pools.get(*row, "database") == Some(name)).unwrap();
        (pools.get(row, "pool_mode").unwrap().to_owned(), pools.get(row, "sv_active").unwrap().to_owned())
    };
    assert_eq!(mode("sessions"), ("session".to_owned(), "1".to_owned()));
    assert_eq!(mode("app"), ("transaction".to_owned(), "0".to_owned()));
}
