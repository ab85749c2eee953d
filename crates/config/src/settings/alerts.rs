//! Settings of alerts: where messages go, and what they are about.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::names::HEALTH_STATES;
use crate::table::{Field, Section::Alerts, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Alerts,
        "alertmanager",
        Kind::Url,
        "",
        Field::Config(|c| FieldMut::Concealed(&mut c.alerts.alertmanager)),
        "The address of an Alertmanager, as in `http://127.0.0.1:9093`; its API v2 gets the alerts. This and the other targets \
         may be `env:NAME` or `file:/PATH`, which are read for each message, and are never shown.",
    )
    .ini_own("alert_alertmanager"),
    Setting::new(
        Alerts,
        "slack",
        Kind::Url,
        "",
        Field::Config(|c| FieldMut::Concealed(&mut c.alerts.slack)),
        "The address of an incoming webhook of Slack, or of a chat that accepts the same.",
    )
    .ini_own("alert_slack"),
    Setting::new(
        Alerts,
        "pagerduty_key",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Concealed(&mut c.alerts.pagerduty_key)),
        "The routing key of a PagerDuty service (Events API v2).",
    )
    .ini_own("alert_pagerduty_key"),
    Setting::new(
        Alerts,
        "pagerduty_url",
        Kind::Url,
        "https://events.pagerduty.com/v2/enqueue",
        Field::Config(|c| FieldMut::Line(&mut c.alerts.pagerduty_url)),
        "The address of PagerDuty's Events API.",
    )
    .ini_own("alert_pagerduty_url"),
    Setting::new(
        Alerts,
        "webhook",
        Kind::Url,
        "",
        Field::Config(|c| FieldMut::Concealed(&mut c.alerts.webhook)),
        "The address of any receiver of JSON.",
    )
    .ini_own("alert_webhook"),
    Setting::new(
        Alerts,
        "source",
        Kind::Text,
        "weir",
        Field::Config(|c| FieldMut::Line(&mut c.alerts.source)),
        "The name of this Weir in messages.",
    )
    .ini_own("alert_source"),
    Setting::new(
        Alerts,
        "states",
        Kind::Words(&HEALTH_STATES),
        "paused, slow, cannot grow, saturated, stalled, blocked, failing, not answering, cannot connect, login rejected",
        Field::Config(|c| FieldMut::Names(&mut c.alerts.states)),
        "The states of a pool's health that are alerts; see [health.md](health.md).",
    )
    .ini_own("alert_states"),
    Setting::new(
        Alerts,
        "for",
        Kind::ANY_TIME,
        "30",
        Field::Config(|c| FieldMut::Span(&mut c.alerts.hold)),
        "How long a condition lasts before it is an alert.",
    )
    .ini_own("alert_for"),
    Setting::new(
        Alerts,
        "repeat",
        Kind::ANY_TIME,
        "14400",
        Field::Config(|c| FieldMut::Span(&mut c.alerts.repeat)),
        "After how long an alert that lasts is sent again; 0 is never. Alertmanager repeats by itself.",
    )
    .ini_own("alert_repeat"),
    Setting::new(
        Alerts,
        "clients_waiting",
        Kind::Number { min: 0, max: u32::MAX as u64 },
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.alerts.clients_waiting)),
        "Alert when this many clients of a pool wait for a server; 0 is off.",
    )
    .ini_own("alert_clients_waiting"),
    Setting::new(
        Alerts,
        "wait_p95",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.alerts.wait_p95)),
        "Alert when 95 % of a pool's waits for a server are not shorter than this; 0 is off.",
    )
    .ini_own("alert_wait_p95"),
    Setting::new(
        Alerts,
        "errors_per_second",
        Kind::Number { min: 0, max: u32::MAX as u64 },
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.alerts.errors_per_second)),
        "Alert when a pool's servers send this many errors a second; 0 is off.",
    )
    .ini_own("alert_errors_per_second"),
    Setting::new(
        Alerts,
        "clients_percent",
        Kind::Number { min: 0, max: 100 },
        "90",
        Field::Config(|c| FieldMut::U32(&mut c.alerts.clients_percent)),
        "Alert when this many per cent of `max_clients` are connected; 0 is off.",
    )
    .ini_own("alert_clients_percent"),
];
