//! `weir top --statements`: the statements of a running Weir that take the most time, from `GET /api/v1/statements`.

use std::path::Path;

use serde_json::Value;
use weir_base::Printable;
use weir_terminal::columns;

use crate::events::Stream;
use crate::milliseconds::time;

/// Where the statements come from.
pub(crate) struct Statements(Stream);

impl Statements {
    /// At most this many of the API at `base`.
    pub(crate) fn new(base: &str, ca_file: Option<&Path>, most: u16) -> Result<Statements, String> {
        let url = format!("{}/api/v1/statements?limit={most}", base.trim_end_matches('/'));
        Stream::new(&url, ca_file).map(Statements)
    }

    /// The statements at this moment, as lines of at most this width.
    pub(crate) fn lines(&self, width: usize) -> Result<Vec<String>, String> {
        let answer: Value = serde_json::from_reader(self.0.open()?).map_err(|error| error.to_string())?;
        Ok(lines(&answer, width))
    }
}

/// An answer as lines: a table, in which the statement comes last and is cut.
fn lines(answer: &Value, width: usize) -> Vec<String> {
    if answer["tracking"] == Value::Bool(false) {
        return vec!["no statements are counted: set track_statements, such as to 1000".to_owned()];
    }
    let titles = ["pool", "share", "calls", "errors", "mean", "p95", "p99", "waited", "rows", "statement"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let statements = answer["statements"].as_array().map_or(&[][..], Vec::as_slice);
    rows.extend(statements.iter().map(|statement| {
        let number = |key: &str| statement[key].as_u64().unwrap_or_default().to_string();
        let time = |key: &str| time(statement[key].as_f64());
        let text = |key: &str| Printable(statement[key].as_str().unwrap_or_default()).to_string();
        let share = format!("{:.1} %", statement["share"].as_f64().unwrap_or_default() * 100.0);
        let (pool, sql) = (text("pool"), text("statement"));
        let times = (time("mean_ms"), time("p95_ms"), time("p99_ms"), time("wait_ms"));
        vec![pool, share, number("calls"), number("errors"), times.0, times.1, times.2, times.3, number("rows"), sql]
    }));
    let lines = columns(&rows, &(1..=8).collect::<Vec<_>>());
    let mut lines: Vec<String> = lines.iter().map(|line| line.chars().take(width).collect()).collect();
    if statements.is_empty() {
        lines.push("nothing was executed yet".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statements_are_a_table_that_is_cut_at_its_width() {
        let statement = json!({"pool": "app", "share": 0.625, "calls": 3, "errors": 1, "mean_ms": 1.25, "p95_ms": 2.0,
            "p99_ms": 2.0, "wait_ms": 0.0, "rows": 9, "statement": "select * from t where id = ?\u{1b}[2J"});
        let answer = json!({"tracking": true, "statements": [statement]});
        let lines = lines(&answer, 200);
        assert!(lines[0].starts_with("pool") && lines[0].contains("waited"), "{lines:#?}");
        assert!(
            lines[1].contains("62.5 %") && lines[1].contains("1.2 ms") && lines[1].contains("id = ?"),
            "{lines:#?}"
        );
        assert!(!lines[1].contains('\u{1b}'));
        assert!(super::lines(&answer, 20).iter().all(|line| line.chars().count() <= 20));
        assert!(super::lines(&json!({"tracking": false}), 80)[0].contains("track_statements"));
        assert_eq!(super::lines(&json!({"tracking": true, "statements": []}), 80).len(), 2);
    }
}
