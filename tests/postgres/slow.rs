//! Pools whose queries take far longer than they did before, with a real server: what is told, and what is not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_pgclient::Connection;
use weir_tests::{Api, Mode, Receiver, Setup, Site, within};

/// Until a pool's past is known: twelve windows of five seconds, and a busy machine.
const LEARNS: Duration = Duration::from_secs(75);
/// Until slow queries are seen, and seen no more.
const SEEN: Duration = Duration::from_secs(45);

fn named(site: &Site, name: &str) -> Connection {
    let params = site.params().option("application_name", name).timeout(Duration::from_secs(120));
    Connection::connect(&params).unwrap()
}

/// Runs `then` while two clients of the application `web` call a function one after the other, with a pause between two
/// calls.
fn while_web_works<T>(site: &Site, then: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let works = || {
        let mut client = named(site, "web");
        while !over.load(Ordering::Relaxed) {
            client.query("SELECT work(1)").unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    };
    thread::scope(|scope| {
        let both = [scope.spawn(works), scope.spawn(works)];
        let ends = Ends(&over);
        let found = then();
        drop(ends);
        both.into_iter().for_each(|client| client.join().unwrap());
        found
    })
}

/// Ends the work, also where a check fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pool(api: Api) -> Value {
    api.get("/api/v1/pools/app")["health"].clone()
}

#[track_caller]
fn becomes(api: Api, state: &str) -> Value {
    within(SEEN, state, || {
        let health = pool(api);
        if health["state"] == state { Ok(health) } else { Err(health.to_string()) }
    })
}

#[test]
fn a_pool_whose_queries_take_far_longer_is_slow_until_they_do_not_and_a_batch_beside_it_is_not() {
    let (api, receiver) = (Api::default(), Receiver::start());
    let more = format!("{}[alerts]\nfor = 1\nwebhook = \"{}\"\n", api.section(), receiver.url("hook"));
    let setup = Setup::new(Mode::Transaction).size(8).general("track_statements = 50").more(&more);
    let site = Site::with(setup, Mode::Transaction);
    let mut operator = named(&site, "operator");
    operator.query("CREATE TABLE pace AS SELECT 0.001::float8 AS seconds").unwrap();
    let body = "SELECT pg_sleep(seconds) FROM pace; SELECT $1";
    operator.query(&format!("CREATE FUNCTION work(int) RETURNS int LANGUAGE sql AS '{body}'")).unwrap();
    while_web_works(&site, || {
        let (begun, mut batch) = (Instant::now(), named(&site, "nightly"));
        while begun.elapsed() < LEARNS {
            batch.query("SELECT pg_sleep(0.9)").unwrap();
            assert_eq!(pool(api)["state"], "healthy");
        }
        operator.query("UPDATE pace SET seconds = 0.12").unwrap();
        let slow = becomes(api, "slow");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let since = slow["since"].as_f64().unwrap_or_default();
        assert!(slow["problem"] == true && now - since < 60.0, "{slow}");
        let told = |health: &Value| health["cause"].as_str().unwrap_or_default().to_owned();
        let words = ["Queries take ", " instead of ", "of \"web\" of app"];
        let slow = within(SEEN, "its cause, with the statement", || {
            let health = pool(api);
            let cause = told(&health);
            match words.iter().all(|words| cause.contains(words)) && cause.contains("select work(?)") {
                true => Ok(health),
                false => Err(health.to_string()),
            }
        });
        assert!(slow["clients"].as_u64() > Some(0) && slow["affected"][0]["application_name"] == "web", "{slow}");
        let incident = within(SEEN, "an incident", || {
            let found = api.get("/api/v1/incidents?pool=app")["incidents"][0].clone();
            if found["cause"] == "slow" { Ok(found) } else { Err(found.to_string()) }
        });
        assert_eq!((&incident["title"], &incident["text"]), (&"slow".into(), &slow["cause"]), "{incident}");
        let sent = receiver.find("hook", |body| body["status"] == "firing");
        assert_eq!((&sent["rule"], &sent["severity"]), (&"slow".into(), &"warning".into()), "{sent}");
        operator.query("UPDATE pace SET seconds = 0.001").unwrap();
        becomes(api, "healthy");
        let ended = within(SEEN, "the incident's end", || {
            let past = api.get("/api/v1/incidents/past")["incidents"][0].clone();
            if past["until"].is_null() { Err(past.to_string()) } else { Ok(past) }
        });
        assert_eq!((&ended["what"], &ended["pools"]), (&"slow".into(), &serde_json::json!(["app"])), "{ended}");
    });
}
