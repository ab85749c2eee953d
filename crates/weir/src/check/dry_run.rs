//! `weir check --dry-run`: what other modes would do with the traffic that a running Weir has recorded, from
//! `GET /api/v1/dry-run`.

use std::path::Path;

use serde_json::Value;
use weir_base::{Printable, plural};
use weir_terminal::{Term, columns, print_line};

use crate::api_address;
use crate::events::Stream;
use crate::failure::Failure;

/// Which pools are shown, and whom to trust.
pub(super) struct Wanted<'a> {
    pub(super) pool: Option<&'a str>,
    pub(super) ca_file: Option<&'a Path>,
}

/// Prints the result for each recorded pool. Fails if none was recorded.
pub(super) fn run(file: &Path, wanted: &Wanted<'_>, json: bool, term: Term) -> Result<(), Failure> {
    let base = api_address::url(&file.to_string_lossy())?;
    let answer = fetch(&base, wanted).map_err(|error| Failure::at(&base, error))?;
    let all = answer["pools"].as_array().map_or(&[][..], Vec::as_slice);
    let is_wanted = |run: &&Value| wanted.pool.is_none_or(|pool| run["pool"] == pool);
    let runs: Vec<&Value> = all.iter().filter(is_wanted).collect();
    if json {
        print_line(format_args!("{:#}", serde_json::json!({ "pools": runs })));
    } else {
        for (number, run) in runs.iter().enumerate() {
            if number > 0 {
                print_line("");
            }
            lines(run, term).iter().for_each(print_line);
        }
    }
    match (runs.is_empty(), wanted.pool) {
        (false, _) => Ok(()),
        (true, Some(pool)) => Err(Failure::Message(format!(
            "no traffic of {} was recorded: begin with START_RECORD {pool} at the console, or in the panel",
            Printable(pool)
        ))),
        (true, None) => Err(Failure::Message(
            "no traffic was recorded: begin with START_RECORD at the console, or in the panel".into(),
        )),
    }
}

fn fetch(base: &str, wanted: &Wanted<'_>) -> Result<Value, String> {
    let stream = Stream::new(&format!("{base}/api/v1/dry-run"), wanted.ca_file)?;
    serde_json::from_reader(stream.open()?).map_err(|error| error.to_string())
}

/// The result for one pool as lines.
fn lines(run: &Value, term: Term) -> Vec<String> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let text = |value: &Value| Printable(value.as_str().unwrap_or_default()).to_string();
    let seconds = run["until"].as_f64().unwrap_or_default() - run["since"].as_f64().unwrap_or_default();
    let state = if run["recording"] == true { "being recorded" } else { "recorded" };
    let first = format!("{}: {state} in mode {} for {seconds:.0} s", text(&run["pool"]), text(&run["mode"]));
    let mut lines = vec![term.bold(&first)];
    let titles = ["application", "statement", "does", "in transaction", "in auto", "times", "clients"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for line in run["statements"].as_array().into_iter().flatten() {
        let application = match line["application"].as_str() {
            Some("") => "(none)".to_owned(),
            Some(name) => name.to_owned(),
            None => "(others)".to_owned(),
        };
        let does = match (line["does"].as_str(), line["kind"].as_str()) {
            (Some("may leave"), _) => "can't be judged".to_owned(),
            (verb, kind) => format!("{} {}", verb.unwrap_or_default(), kind.unwrap_or_default()),
        };
        let kept = line["in_transaction"] == "kept";
        let transaction = if kept { "kept (follows)".to_owned() } else { text(&line["in_transaction"]) };
        let auto = match line["in_auto"].as_str() {
            Some("pinned") => format!("pinned ({})", text(&line["kind"])),
            Some("refused") => "refused (pin_refuse)".to_owned(),
            _ => text(&line["in_auto"]),
        };
        let counts = [number(&line["times"]).to_string(), number(&line["clients"]).to_string()];
        let [times, clients] = counts;
        rows.push(vec![
            application,
            cut(line["statement"].as_str().unwrap_or_default()),
            does,
            transaction,
            auto,
            times,
            clients,
        ]);
    }
    match rows.len() {
        1 => lines.push("no statement leaves session state, or needs it".to_owned()),
        _ => lines.extend(columns(&rows, &[5, 6])),
    }
    let level = |name: &str| (number(&run["levels"][name]["peak"]), number(&run["levels"][name]["p99"]));
    let sizes = &run["sizes"];
    let ((transactions, transactions99), (holders, _)) = (level("transactions"), level("holders"));
    lines.push(format!(
        "size: session {}, transaction {}, auto {}; at most {} in a transaction at the same time \
         ({transactions99} in 99 % of the time), and {holders} held state that keeps a server in auto",
        number(&sizes["session"]),
        number(&sizes["transaction"]),
        number(&sizes["auto"]),
        plural(transactions, "client was", "clients were")
    ));
    let (missed, unfollowed) = (number(&run["missed"]), number(&run["unfollowed"]));
    if missed + unfollowed > 0 {
        lines.push(term.yellow(&format!(
            "the record was full: {} and {} are missing; the sizes may be too small",
            plural(missed, "execution", "executions"),
            plural(unfollowed, "client", "clients")
        )));
    }
    lines.push(format!("advice: {}", text(&run["advice"])));
    lines
}

/// The longest statement in a line, in characters.
const LONGEST: usize = 80;

fn cut(text: &str) -> String {
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_a_table_with_the_sizes_and_the_advice() {
        let line = |statement: &str, does: &str, kind: &str, transaction: &str, auto: &str| {
            json!({"application": "", "statement": statement, "does": does, "kind": kind, "in_transaction": transaction,
                "in_auto": auto, "times": 3, "clients": 1})
        };
        let level = json!({"peak": 4, "p99": 2});
        let mut run = json!({
            "pool": "app", "mode": "session", "recording": false, "since": 10.0, "until": 70.0,
            "sizes": {"session": 9, "transaction": 4, "auto": 5},
            "levels": {"sessions": level, "transactions": level, "holders": level, "either": level},
            "statements": [
                line("listen a", "leaves", "listen", "lost", "pinned"),
                line("select f(?)", "may leave", "unknown", "unknown", "asked"),
                line("set timezone = ?", "leaves", "settings", "kept", "kept"),
            ],
            "missed": 0, "unfollowed": 0, "advice": "do it"
        });
        let shown = lines(&run, Term::plain());
        assert_eq!(
            shown,
            [
                "app: recorded in mode session for 60 s",
                "application  statement         does             in transaction  in auto          times  clients",
                "(none)       listen a          leaves listen    lost            pinned (listen)      3        1",
                "(none)       select f(?)       can't be judged  unknown         asked                3        1",
                "(none)       set timezone = ?  leaves settings  kept (follows)  kept                 3        1",
                "size: session 9, transaction 4, auto 5; at most 4 clients were in a transaction at the same time (2 in 99 % of \
             the time), and 4 held state that keeps a server in auto",
                "advice: do it",
            ]
        );
        (run["statements"], run["missed"]) = (json!([]), json!(7));
        run["levels"]["transactions"]["peak"] = json!(1);
        let shown = lines(&run, Term::plain());
        assert!(shown[2].contains("at most 1 client was in a transaction"), "{}", shown[2]);
        assert!(shown[3].contains("7 executions and 0 clients are missing"), "{}", shown[3]);
        assert_eq!(shown[1], "no statement leaves session state, or needs it");
        assert!(shown[3].starts_with("the record was full: 7 executions"), "{shown:#?}");
        assert_eq!(cut(&"x".repeat(100)).chars().count(), LONGEST);
    }
}
