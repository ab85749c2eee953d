//! The incidents of a running Weir as lines of text, for `weir top`, from `GET /api/v1/incidents`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_base::Printable;
use weir_monitor::span;

use crate::events::Stream;

/// The pause between two requests: each may ask the servers of slow pools.
const PAUSE: Duration = Duration::from_secs(3);
/// How long `--once` waits for incidents.
const PATIENCE: Duration = Duration::from_secs(2);
/// The line if that is not enough.
const LATE: &str = "What holds the servers is unknown: a database server does not show it in time.";
/// The most blocked queries that are shown of a holder, and holders of a pool.
const MOST: usize = 5;

/// Causes that are states of a pool.
const STATES: [&str; 3] = ["server_down", "failing", "paused"];

/// The latest incidents, which a thread requests; an API that has none of them shows none.
pub(crate) struct Slow(Arc<Mutex<Vec<String>>>);

impl Slow {
    /// Requests them from now on, until the process ends.
    pub(crate) fn watch(base: &str, ca_file: Option<&Path>) -> Result<Slow, String> {
        let stream = source(base, ca_file)?;
        let latest: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = latest.clone();
        thread::spawn(move || {
            loop {
                let now = request(&stream);
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = now;
                thread::sleep(PAUSE);
            }
        });
        Ok(Slow(latest))
    }

    /// The lines of the latest answer.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The incidents at this moment; a line that says so if the API needs long for them.
pub(crate) fn now(base: &str, ca_file: Option<&Path>) -> Result<Vec<String>, String> {
    let stream = source(base, ca_file)?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(request(&stream)));
    Ok(receive.recv_timeout(PATIENCE).unwrap_or_else(|_| vec![LATE.to_owned()]))
}

fn source(base: &str, ca_file: Option<&Path>) -> Result<Stream, String> {
    Stream::new(&format!("{}/api/v1/incidents", base.trim_end_matches('/')), ca_file)
}

fn request(stream: &Stream) -> Vec<String> {
    let answer = stream.open().ok().and_then(|body| serde_json::from_reader(body).ok());
    lines(&answer.unwrap_or(Value::Null))
}

/// An answer as lines: the cause, then its holders with what they block; the longest first, as the API sorts them.
fn lines(answer: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for incident in list(&answer["incidents"]) {
        let text = |key: &str| incident[key].as_str().unwrap_or_default().to_owned();
        let (pool, holders) = (text("pool"), list(&incident["holders"]));
        // Where nothing is held, the list of problems has the same.
        if holders.is_empty() && STATES.contains(&text("cause").as_str()) {
            continue;
        }
        lines.push(format!("{pool}: {}", text("text")));
        for holder in holders.iter().take(MOST) {
            lines.push(format!("  {}", process(holder)));
            let blocks = list(&holder["blocks"]);
            lines.extend(blocks.iter().take(MOST).map(|blocked| format!("    behind it: {}", process(blocked))));
            if blocks.len() > MOST {
                lines.push(format!("    and {} more", blocks.len() - MOST));
            }
        }
    }
    // Names are their clients' own words.
    lines.iter().map(|line| Printable(line).to_string()).collect()
}

fn process(process: &Value) -> String {
    let client = if process["client"].is_object() { &process["client"] } else { process };
    let said = |value: &Value, otherwise: &str| match value.as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => otherwise.to_owned(),
    };
    let seconds =
        process["state_seconds"].as_f64().map(|seconds| format!(" for {}", span(seconds.round()))).unwrap_or_default();
    format!(
        "{} {} of {}: {}{seconds}: {}",
        process["process_id"],
        said(&client["application_name"], "-"),
        said(&client["user"], "-"),
        said(&process["state"], "state hidden"),
        said(&process["statement"], "-")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_that_waits_for_a_database_server_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        // The kernel accepts the connection, and nobody answers.
        assert_eq!(now(&url, None), Ok(vec![LATE.to_owned()]));
    }

    #[test]
    fn an_incident_is_its_cause_its_holder_and_what_is_behind_it() {
        let process = |pid: u32, state: &str| {
            json!({"process_id": pid, "state": state, "state_seconds": 12.3, "statement": "update t set a = ?",
                   "application_name": "weir", "user": "app", "client": {"application_name": "web", "user": "joe"}})
        };
        let mut holder = process(7, "idle in transaction");
        holder["blocks"] = json!((1..=7).map(|_| process(8, "active")).collect::<Vec<_>>());
        let answer = json!({"incidents": [{"pool": "app", "text": "Blocked.", "holders": [holder]}]});
        let lines = lines(&answer);
        assert_eq!(lines[0], "app: Blocked.");
        assert_eq!(lines[1], "  7 web of joe: idle in transaction for 12 s: update t set a = ?");
        assert_eq!(lines[2], "    behind it: 8 web of joe: active for 12 s: update t set a = ?");
        assert_eq!((lines.len(), lines[7].as_str()), (8, "    and 2 more"));
        assert!(super::lines(&Value::Null).is_empty());
        let down = json!({"incidents": [{"pool": "app", "cause": "server_down", "text": "Down.", "holders": []}]});
        assert!(super::lines(&down).is_empty(), "its state says it");
    }
}
