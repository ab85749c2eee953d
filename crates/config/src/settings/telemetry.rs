//! Settings of what an OpenTelemetry collector gets.

use weir_base::Span;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::{Field, Section::Telemetry, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Telemetry,
        "otlp_endpoint",
        Kind::Url,
        "",
        Field::Config(|c| FieldMut::Text(&mut c.telemetry.endpoint)),
        "The collector's address for OTLP over HTTP, as in `http://127.0.0.1:4318`; `/v1/metrics` and `/v1/traces` are added. \
         Without one nothing is sent.",
    )
    .ini_own("otlp_endpoint"),
    Setting::new(
        Telemetry,
        "otlp_headers",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut c.telemetry.headers)),
        "Headers of each request, `NAME=env:VARIABLE` or `NAME=file:/PATH`, as in `[\"Authorization=file:/etc/weir/otlp\"]`; \
         over `https` only, or on this machine.",
    )
    .ini_own("otlp_headers"),
    Setting::new(
        Telemetry,
        "metrics",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.telemetry.metrics)),
        "Send the metrics of `/metrics`.",
    )
    .ini_own("otlp_metrics"),
    Setting::new(
        Telemetry,
        "interval",
        Kind::Time { min: Span::from_secs(1) },
        "60",
        Field::Config(|c| FieldMut::Span(&mut c.telemetry.interval)),
        "The time between two exports of metrics.",
    )
    .ini_own("otlp_interval"),
    Setting::new(
        Telemetry,
        "spans",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.telemetry.spans)),
        "Make spans *wait* and *execute* of queries with a sampled `traceparent` in a comment. Counts 100 statements if \
         `track_statements` counts fewer.",
    )
    .ini_own("otlp_spans"),
    Setting::new(
        Telemetry,
        "resource",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut c.telemetry.resource)),
        "Attributes of this Weir, `KEY=VALUE` each, as in `[\"service.name=weir-eu\", \"deployment.environment=prod\"]`.",
    )
    .ini_own("otlp_resource"),
    Setting::new(
        Telemetry,
        "ca_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.telemetry.ca_file)),
        "The authorities for the collector's certificate, PEM. Without it, those that this machine trusts.",
    )
    .ini_own("otlp_ca_file"),
];
