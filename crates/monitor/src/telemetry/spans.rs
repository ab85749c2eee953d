//! Spans as OTLP in JSON: of each query *wait*, if it waited for a server, and *execute*.
//!
//! Names and attributes follow OpenTelemetry's semantic conventions for databases where they have one. A statement has
//! its fingerprint, which never holds a value, and only where statements are tracked.

use serde_json::{Value, json};
use weir_admin::SpanRecord;

use super::metrics::attribute;

/// The kinds of a span: within Weir, and of a client of the server.
const INTERNAL: u32 = 1;
const CLIENT: u32 = 3;
/// The status of a span that failed.
const ERROR: u32 = 2;

/// The spans of queries. `id` makes numbers for them.
pub(super) fn spans(records: &[SpanRecord], mut id: impl FnMut() -> u64) -> Vec<Value> {
    let mut all = Vec::with_capacity(2 * records.len());
    for record in records {
        let mut attributes = vec![
            attribute("db.system.name", "postgresql"),
            attribute("db.namespace", &record.database),
            attribute("weir.pool.user", &record.user),
        ];
        if record.fingerprint != 0 {
            attributes.push(attribute("weir.statement.fingerprint", &format!("{:016x}", record.fingerprint)));
        }
        if record.waited > 0 {
            let times = (record.sent_at.saturating_sub(record.waited), record.sent_at);
            all.push(span(record, "wait", INTERNAL, times, id(), attributes.clone()));
        }
        attributes.extend(record.text.as_deref().map(|text| attribute("db.query.text", text)));
        attributes.push(json!({"key": "weir.rows", "value": {"intValue": record.rows.to_string()}}));
        let times = (record.sent_at, record.sent_at + record.run);
        let mut execute = span(record, "execute", CLIENT, times, id(), attributes);
        if record.failed {
            execute["status"] = json!({"code": ERROR, "message": "the server answered with an error"});
        }
        all.push(execute);
    }
    all
}

fn span(
    record: &SpanRecord,
    name: &str,
    kind: u32,
    (begin, end): (u64, u64),
    id: u64,
    attributes: Vec<Value>,
) -> Value {
    let nanoseconds = |micros: u64| (u128::from(micros) * 1000).to_string();
    json!({
        "traceId": format!("{:032x}", record.trace),
        "spanId": format!("{id:016x}"),
        "parentSpanId": format!("{:016x}", record.parent),
        "name": name,
        "kind": kind,
        "flags": 1,
        "startTimeUnixNano": nanoseconds(begin),
        "endTimeUnixNano": nanoseconds(end),
        "attributes": attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_waited_has_two_spans_and_another_one() {
        let record = SpanRecord {
            trace: 0xab,
            parent: 0xcd,
            sent_at: 1_000,
            waited: 200,
            run: 300,
            database: "app".into(),
            user: "ann".into(),
            fingerprint: 7,
            text: Some("select ?".into()),
            failed: true,
            rows: 2,
        };
        let direct = SpanRecord { waited: 0, failed: false, text: None, fingerprint: 0, ..record.clone() };
        let mut last = 0;
        let found = spans(&[record, direct], || {
            last += 1;
            last
        });
        let text = |at: usize, key: &str| found[at][key].as_str().unwrap_or_default().to_owned();
        assert_eq!(found.iter().map(|span| span["name"].clone()).collect::<Vec<_>>(), ["wait", "execute", "execute"]);
        assert_eq!((text(0, "startTimeUnixNano"), text(0, "endTimeUnixNano")), ("800000".into(), "1000000".into()));
        assert_eq!((text(1, "startTimeUnixNano"), text(1, "endTimeUnixNano")), ("1000000".into(), "1300000".into()));
        assert_eq!((text(0, "traceId"), text(0, "parentSpanId")), (format!("{:032x}", 0xab), format!("{:016x}", 0xcd)));
        assert!(found[1]["status"]["code"] == 2 && found[2].get("status").is_none());
        let has = |at: usize, name: &str| {
            found[at]["attributes"].as_array().is_some_and(|all| all.iter().any(|one| one["key"] == name))
        };
        assert!(has(1, "db.query.text") && !has(0, "db.query.text") && !has(2, "db.query.text"));
        assert!(!has(2, "weir.statement.fingerprint") && text(0, "spanId") != text(1, "spanId"));
    }
}
