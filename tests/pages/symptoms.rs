//! The symptoms of `docs/troubleshooting.md`, made to happen: what the page tells to look at shows what the page says.

use std::thread;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_tests::{Mode, Setup, Site, eventually, users};

const PAGE: &str = include_str!("../../docs/troubleshooting.md");

/// That the page has a text, however its lines are broken.
#[track_caller]
fn page_says(text: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(PAGE).contains(&words(text)), "the page does not say {text:?}");
}

/// What a client gets when it logs in and runs a query.
fn outcome(params: &ConnectParams) -> Result<(), Error> {
    Connection::connect(params)?.query("SELECT 1").map(|_| ())
}

/// That a client gets an error whose message the page quotes.
#[track_caller]
fn is_refused(params: &ConnectParams, quoted: &str) {
    page_says(quoted);
    let error = outcome(params).expect_err(quoted);
    let message = error.server().unwrap_or_else(|| panic!("{error:?}")).message.clone();
    assert!(message.contains(quoted), "{message:?} is not {quoted:?}");
}

/// That the log has, or soon has, a text which the page quotes.
#[track_caller]
fn is_logged(site: &Site, quoted: &str) {
    page_says(quoted);
    eventually(quoted, || {
        let log = site.weir().log();
        if log.contains(quoted) { Ok(()) } else { Err(log) }
    });
}

/// The sum of a column of SHOW REFUSALS or SHOW LOST_STATE, over the rows of a kind if one is named.
fn count(site: &Site, table: &str, column: &str, kind: Option<&str>) -> i64 {
    page_says(&format!("SHOW {table}"));
    let answer = site.weir().show(table);
    let rows = (0..answer.rows.len()).filter(|row| kind.is_none() || answer.get(*row, "kind") == kind);
    rows.map(|row| answer.get(row, column).expect(column).parse::<i64>().expect("a number")).sum()
}

fn setup() -> Setup {
    Setup::new(Mode::Transaction)
}

#[test]
fn clients_that_can_not_log_in_get_the_errors_of_the_page_and_the_log_has_the_reason() {
    let site = Site::with(setup(), Mode::Transaction);
    is_refused(&site.params().password("wrong"), "SASL authentication failed");
    page_says("a line `login refused: …` with `wrong password`");
    is_logged(&site, "wrong password");
    is_refused(&site.weir().params("unknown", "app").password("x"), "SASL authentication failed");
    is_logged(&site, "no such user");
    assert!(site.weir().log().contains("login refused: no such user"));
    is_refused(&site.weir().params(users::APP.name, "nowhere").password(users::APP.password), "no such database");
    is_refused(&site.params().option("no_such_setting", "1"), "unsupported startup parameter");
    is_refused(&site.weir().params(users::APP.name, "weir").password(users::APP.password), "not allowed");
    // The answer to a request for TLS, which libpq turns into the text on the page.
    page_says("`mode` in `[tls.client]` is `disable`, the default");
    assert!(!Connection::open(&site.params()).unwrap().ask_for_encryption().unwrap());
}

#[test]
fn a_server_that_refuses_weir_or_is_down_is_named_with_its_own_error() {
    let down = weir_pglocal::free_port().unwrap();
    let pools = "[pools.bad]\nhost = \"127.0.0.1\"\nport = PORT\ndatabase = \"postgres\"\nuser = \"app\"\npassword = \"wrong\"\n\
                 [pools.missing]\nhost = \"127.0.0.1\"\nport = PORT\nuser = \"truster\"\n\
                 [pools.down]\nhost = \"127.0.0.1\"\nport = DOWN\nuser = \"app\"\npassword = \"x\"\n";
    let port = weir_tests::Postgres::shared().port();
    let pools = pools.replace("PORT", &port.to_string()).replace("DOWN", &down.to_string());
    let site = Site::with(setup().more(&pools).limit("query_wait_timeout = 2"), Mode::Transaction);
    let client = |pool: &str| site.weir().params(users::APP.name, pool).password(users::APP.password);
    is_refused(&client("bad"), "password authentication failed");
    page_says("with a DETAIL that names the login: `The pooler could not log in for pool \"shop\"");
    let error = outcome(&client("bad")).expect_err("the password is still wrong");
    let detail = error.server().and_then(|error| error.detail.clone()).unwrap_or_default();
    assert!(detail.starts_with("The pooler could not log in for pool \"bad\": server 127.0.0.1:"), "{error:?}");
    is_logged(&site, "server login failed: FATAL password authentication failed for user \"app\"");
    page_says("database \"…\" does not exist");
    assert!(outcome(&client("missing")).unwrap_err().to_string().contains("database \"missing\" does not exist"));
    let error = outcome(&client("down")).expect_err("nothing listens there");
    let error = error.server().expect("an error of Weir");
    page_says("the client waits, and gets `query_wait_timeout` with the last error of the logins in its DETAIL");
    page_says("| `Connection refused`, `Connection timed out` |");
    assert_eq!(error.message, "query_wait_timeout");
    assert!(error.detail.as_ref().is_some_and(|detail| detail.contains("Connection refused")), "{error:?}");
    let log = site.weir().log();
    assert!(log.contains(&format!("WARNING down/app@127.0.0.1:{down}: server login failed: ")), "{log}");
}

#[test]
fn a_pool_that_is_held_by_an_idle_transaction_shows_its_client() {
    let site = Site::with(setup().size(1).limit("query_wait_timeout = 2"), Mode::Transaction);
    let mut idle = Connection::connect(&site.params().option("application_name", "culprit")).unwrap();
    idle.query("BEGIN").unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| outcome(&site.params()));
        page_says("is `cl_waiting` above 0, and does `maxwait` grow?");
        site.weir().await_pool("a client waits, for a second", |pool| {
            pool.get("cl_waiting") == 1 && pool.get("maxwait") >= 1 && pool.get("sv_active") == 1
        });
        page_says(
            "Its `link` is the `ptr` of the client in SHOW CLIENTS, where `application_name` and `addr` identify the program.",
        );
        let (servers, clients) = (site.weir().show("SERVERS"), site.weir().show("CLIENTS"));
        let held =
            (0..servers.rows.len()).find(|row| servers.get(*row, "state") == Some("active")).expect("a held one");
        let link = servers.get(held, "link").expect("a client");
        let client = (0..clients.rows.len()).find(|row| clients.get(*row, "ptr") == Some(link)).expect("the client");
        assert_eq!(clients.get(client, "application_name"), Some("culprit"));
        let error = waits.join().unwrap().expect_err("no client releases the server");
        let error = error.server().expect("an error of Weir");
        assert_eq!(error.message, "query_wait_timeout");
        let detail = error.detail.as_deref().unwrap_or_default();
        page_says("servers are in use: 18 by clients that idle in a transaction, for up to 61 s;");
        assert!(
            detail.contains("1 of 1 servers are in use: 1 by clients that idle in a transaction, for up to "),
            "{detail}"
        );
    });
    assert_eq!(count(&site, "REFUSALS", "pool_full", None), 1);
    idle.query("COMMIT").unwrap();
}

#[test]
fn what_a_client_loses_is_warned_of_and_counted() {
    let site = Site::with(setup().size(1), Mode::Transaction);
    let mut client = site.connect();
    client.query("PREPARE one AS SELECT 1").unwrap();
    page_says("Weir sends the client a WARNING");
    assert!(client.take_notices().iter().any(|notice| notice.severity == "WARNING"));
    page_says("`prepared statement \"…\" does not exist`");
    let error = client.query("EXECUTE one").unwrap_err().to_string();
    assert!(error.contains("prepared statement \"one\" does not exist"), "{error}");
    assert_eq!(count(&site, "LOST_STATE", "lost", Some("statements")), 1);
}

#[test]
fn a_client_beyond_max_clients_is_refused_and_counted() {
    let site = Site::with(setup().general("max_clients = 3"), Mode::Transaction);
    let clients: Vec<Connection> = (0..3).map(|_| site.connect()).collect();
    is_refused(&site.params(), "no more connections allowed (max_client_conn)");
    drop(clients);
    // The console is a client, too, and comes in as soon as the others have left.
    eventually("the refusal is counted", || {
        thread::sleep(Duration::from_millis(50));
        Connection::connect(&site.weir().console_params()).map(|_| ())
    });
    assert!(count(&site, "REFUSALS", "limit_reached", None) >= 1);
    assert!(site.weir().log().contains("no more connections allowed"));
}
