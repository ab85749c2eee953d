//! The shapes of messages: Alertmanager's API v2, Slack's incoming webhooks, PagerDuty's Events API v2, and plain JSON.
//!
//! Pure: it takes notices, and returns bodies. A body never has the address of its target, but PagerDuty's has the
//! routing key, as that API wants it.

use serde_json::{Value, json};
use weir_admin::AlertNotice;
use weir_config::Alerts;

/// The kinds of targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetKind {
    Alertmanager,
    Slack,
    PagerDuty,
    Webhook,
}

/// How long Alertmanager takes an alert as firing without hearing of it: four refreshes.
const ALERTMANAGER_ENDS: u64 = 240_000_000;

impl TargetKind {
    pub(crate) const ALL: [TargetKind; 4] =
        [TargetKind::Alertmanager, TargetKind::Slack, TargetKind::PagerDuty, TargetKind::Webhook];

    /// The setting that configures the target.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TargetKind::Alertmanager => "alertmanager",
            TargetKind::Slack => "slack",
            TargetKind::PagerDuty => "pagerduty",
            TargetKind::Webhook => "webhook",
        }
    }

    /// The secret of the target as it is configured; none: there is no such target.
    pub(super) fn configured(self, alerts: &Alerts) -> Option<&str> {
        let value = match self {
            TargetKind::Alertmanager => &alerts.alertmanager,
            TargetKind::Slack => &alerts.slack,
            TargetKind::PagerDuty => &alerts.pagerduty_key,
            TargetKind::Webhook => &alerts.webhook,
        };
        value.as_deref().filter(|value| !value.is_empty())
    }

    /// The address for a resolved secret.
    pub(super) fn url(self, secret: &str, pagerduty: &str) -> String {
        match self {
            TargetKind::Alertmanager => format!("{}/api/v2/alerts", secret.trim_end_matches('/')),
            TargetKind::PagerDuty => pagerduty.to_owned(),
            TargetKind::Slack | TargetKind::Webhook => secret.to_owned(),
        }
    }

    /// The body of one message. `secret`: PagerDuty's routing key.
    pub(super) fn body(self, notice: &AlertNotice, source: &str, secret: &str, now: u64) -> Value {
        match self {
            TargetKind::Alertmanager => json!([alertmanager(notice, source, now)]),
            TargetKind::Slack => slack(notice, source),
            TargetKind::PagerDuty => pagerduty(notice, source, secret),
            TargetKind::Webhook => plain(notice, source),
        }
    }
}

/// The alert's fingerprint, which stays the same over repeats and restarts.
fn fingerprint(notice: &AlertNotice, source: &str) -> String {
    let key = &notice.condition.key;
    format!("{source}/{}/{}", key.pool.as_deref().unwrap_or_default(), key.rule)
}

fn severity(notice: &AlertNotice) -> &'static str {
    if notice.condition.critical { "critical" } else { "warning" }
}

fn alertmanager(notice: &AlertNotice, source: &str, now: u64) -> Value {
    let key = &notice.condition.key;
    let words: String = key.rule.split([' ', '_']).map(capital).collect();
    let mut labels = json!({
        "alertname": format!("Weir{words}"), "rule": key.rule, "source": source, "severity": severity(notice),
    });
    if let Some(pool) = &key.pool {
        labels["pool"] = json!(pool);
    }
    let ends = notice.ended.unwrap_or(now + ALERTMANAGER_ENDS);
    json!({
        "labels": labels,
        "annotations": {"summary": notice.condition.summary, "description": notice.condition.advice},
        "startsAt": rfc3339(notice.started),
        "endsAt": rfc3339(ends),
    })
}

fn slack(notice: &AlertNotice, source: &str) -> Value {
    let condition = &notice.condition;
    let about = condition.key.pool.as_ref().map_or(String::new(), |pool| format!(" {pool}"));
    let word = if notice.ended.is_some() { "Resolved" } else { "Alert" };
    let mut text = format!(
        "*{word}: {}{}* ({})\n{}",
        condition.key.rule,
        escaped(&about),
        escaped(source),
        escaped(&condition.summary)
    );
    if condition.clients > 0 {
        text += &format!(" Clients affected: {}.", condition.clients);
    }
    if notice.ended.is_none() && !condition.advice.is_empty() {
        text += &format!("\n{}", escaped(&condition.advice));
    }
    json!({ "text": text })
}

/// Slack's control characters (api.slack.com, "Formatting text"): a server's error text must not mention a channel.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn pagerduty(notice: &AlertNotice, source: &str, routing_key: &str) -> Value {
    let condition = &notice.condition;
    let resolved = notice.ended.is_some();
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": if resolved { "resolve" } else { "trigger" },
        "dedup_key": fingerprint(notice, source),
    });
    if !resolved {
        event["payload"] = json!({
            "summary": condition.summary.chars().take(1024).collect::<String>(),
            "source": source,
            "severity": severity(notice),
            "timestamp": rfc3339(notice.started),
            "component": condition.key.pool,
            "class": condition.key.rule,
            "custom_details": {"advice": condition.advice, "clients": condition.clients},
        });
    }
    event
}

fn plain(notice: &AlertNotice, source: &str) -> Value {
    let condition = &notice.condition;
    json!({
        "version": 1,
        "status": if notice.ended.is_some() { "resolved" } else { "firing" },
        "fingerprint": fingerprint(notice, source),
        "source": source,
        "rule": condition.key.rule,
        "pool": condition.key.pool,
        "severity": severity(notice),
        "summary": condition.summary,
        "advice": condition.advice,
        "clients": condition.clients,
        "started_at": rfc3339(notice.started),
        "ended_at": notice.ended.map(rfc3339),
    })
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Microseconds since 1970 as in RFC 3339, to the second.
fn rfc3339(micros: u64) -> String {
    // `2026-07-01 12:34:56 UTC`
    weir_admin::timestamp(micros.max(1)).replace(" UTC", "Z").replacen(' ', "T", 1)
}

#[cfg(test)]
mod tests {
    use weir_admin::{AlertKey, Condition};

    use super::*;

    fn notice(ended: Option<u64>) -> AlertNotice {
        let key = AlertKey { rule: "cannot connect".to_owned(), pool: Some("app".to_owned()) };
        let (summary, advice) = ("Pool app <!channel>".to_owned(), "Check.".to_owned());
        let condition = Condition { key, critical: true, summary, advice, clients: 3, since: 0, server: None };
        AlertNotice { condition, started: 1_000_000, ended }
    }

    fn body(kind: TargetKind, ended: Option<u64>) -> Value {
        kind.body(&notice(ended), "db1", "KEY", 2_000_000)
    }

    #[test]
    fn each_target_gets_its_own_shape() {
        let sent = body(TargetKind::Alertmanager, None);
        assert_eq!(sent[0]["labels"]["alertname"], "WeirCannotConnect");
        assert_eq!(
            (&sent[0]["startsAt"], &sent[0]["endsAt"]),
            (&"1970-01-01T00:00:01Z".into(), &"1970-01-01T00:04:02Z".into())
        );
        assert_eq!(body(TargetKind::Alertmanager, Some(5_000_000))[0]["endsAt"], "1970-01-01T00:00:05Z");
        let text = body(TargetKind::Slack, None)["text"].clone();
        assert!(
            text.as_str().unwrap().starts_with("*Alert: cannot connect app* (db1)\nPool app &lt;!channel&gt;"),
            "{text}"
        );
        let event = body(TargetKind::PagerDuty, None);
        assert_eq!(
            (&event["event_action"], &event["dedup_key"]),
            (&"trigger".into(), &"db1/app/cannot connect".into())
        );
        assert_eq!((&event["routing_key"], &event["payload"]["severity"]), (&"KEY".into(), &"critical".into()));
        let resolved = body(TargetKind::PagerDuty, Some(5_000_000));
        assert!(resolved["event_action"] == "resolve" && resolved["payload"].is_null());
        let plain = body(TargetKind::Webhook, Some(5_000_000));
        assert_eq!((&plain["status"], &plain["ended_at"]), (&"resolved".into(), &"1970-01-01T00:00:05Z".into()));
        assert!(!plain.to_string().contains("KEY"));
    }
}
