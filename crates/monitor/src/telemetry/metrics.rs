//! Metrics as OTLP in JSON (OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding"): those of `/metrics`.
//!
//! Counters and histograms are cumulative, since the start of the process. An attribute is a label; a metric has the
//! name of its family.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::metrics::{Family, Kind, Labels, Scrape, Sink, Unit, Value};

/// Metrics in the form of OTLP; times in nanoseconds since 1970.
struct OtlpSink {
    start: String,
    now: String,
    metrics: Vec<Json>,
    /// The family that was begun last, and its points.
    open: Option<(Json, &'static str, Vec<Json>)>,
}

/// All metrics that have points; `start`: when the process started.
pub(super) fn metrics(scrape: &Scrape, start: u128, now: u128) -> Vec<Json> {
    let mut sink = OtlpSink::new(start, now);
    scrape.write(&mut sink);
    sink.finish()
}

impl OtlpSink {
    fn new(start: u128, now: u128) -> OtlpSink {
        OtlpSink { start: start.to_string(), now: now.to_string(), metrics: Vec::new(), open: None }
    }

    fn finish(mut self) -> Vec<Json> {
        self.close();
        self.metrics
    }

    /// Ends the family.
    fn close(&mut self) {
        if let Some((mut metric, data, points)) = self.open.take().filter(|(.., points)| !points.is_empty()) {
            metric[data]["dataPoints"] = points.into();
            self.metrics.push(metric);
        }
    }
}

impl Sink for OtlpSink {
    fn family(&mut self, family: Family<'_>) {
        self.close();
        let unit = match family.unit {
            Some(Unit::Seconds) => "s",
            Some(Unit::Bytes) => "By",
            None => "",
        };
        let (data, shape) = match family.kind {
            Kind::Counter => ("sum", json!({"aggregationTemporality": 2, "isMonotonic": true})),
            Kind::Histogram => ("histogram", json!({"aggregationTemporality": 2})),
            Kind::Gauge | Kind::Info => ("gauge", json!({})),
        };
        let metric = json!({"name": family.name(), "description": family.help, "unit": unit, data: shape});
        self.open = Some((metric, data, Vec::new()));
    }

    fn point(&mut self, labels: Labels<'_>, value: Value<'_>) {
        let Some((.., points)) = &mut self.open else { return };
        let attributes: Vec<Json> = labels.iter().map(|(name, value)| attribute(name, value)).collect();
        let mut json = json!({"attributes": attributes, "startTimeUnixNano": self.start, "timeUnixNano": self.now});
        match value {
            Value::Whole(value) => json["asInt"] = value.to_string().into(),
            Value::Real(value) => json["asDouble"] = value.into(),
            Value::Histogram(buckets) => {
                json["bucketCounts"] = buckets.counts.iter().map(|(_, count)| Json::from(count.to_string())).collect();
                let bounds = buckets.counts.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
                json["explicitBounds"] = bounds.map(Json::from).collect();
                json["count"] = buckets.count.to_string().into();
                json["sum"] = buckets.sum.into();
            }
        }
        points.push(json);
    }
}

/// An attribute with a text.
pub(super) fn attribute(name: &str, value: &str) -> Json {
    json!({"key": name, "value": {"stringValue": value}})
}

/// The attributes of this Weir: those of the configuration, and what they leave out.
pub(super) fn resource(configured: &[String], version: &str) -> Json {
    let usual = [("service.name", "weir"), ("service.version", version)];
    let mut all: BTreeMap<&str, &str> = usual.into_iter().collect();
    all.extend(configured.iter().filter_map(|attribute| attribute.split_once('=')));
    let all: Vec<Json> = all.into_iter().map(|(name, value)| attribute(name.trim(), value.trim())).collect();
    json!({"attributes": all})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Buckets;

    #[test]
    fn each_kind_of_metric_has_its_shape() {
        let mut sink = OtlpSink::new(1, 2);
        let to: &mut dyn Sink = &mut sink;
        to.family(Family::counter("a", "Counts"));
        to.point(&[("d", "x\"y"), ("u", "b,c")], 3_u64.into());
        to.point(&[("d", "z"), ("u", "")], 4_u64.into());
        to.family(Family::histogram("t", "Time").in_seconds());
        let counts = &[(0.5, 2), (1.0, 2), (f64::INFINITY, 1)];
        to.point(&[("d", "x")], Value::Histogram(Buckets { sum: 2.5, count: 5, counts }));
        to.single(Family::gauge("g", "G"), 1.5);
        to.family(Family::gauge("empty", "E"));
        let found = sink.finish();
        assert_eq!(found.len(), 3);
        let sum = &found[0]["sum"];
        assert_eq!((&sum["isMonotonic"], &sum["aggregationTemporality"]), (&json!(true), &json!(2)));
        assert_eq!(sum["dataPoints"][0]["asInt"], "3");
        assert_eq!(sum["dataPoints"][0]["attributes"], json!([attribute("d", "x\"y"), attribute("u", "b,c")]));
        assert_eq!(sum["dataPoints"][1]["attributes"], json!([attribute("d", "z"), attribute("u", "")]));
        let point = &found[1]["histogram"]["dataPoints"][0];
        assert_eq!((&found[1]["name"], &found[1]["unit"]), (&json!("t_seconds"), &json!("s")));
        assert_eq!((&point["bucketCounts"], &point["explicitBounds"]), (&json!(["2", "2", "1"]), &json!([0.5, 1.0])));
        assert_eq!((&point["count"], &point["sum"]), (&json!("5"), &json!(2.5)));
        assert_eq!((&point["startTimeUnixNano"], &point["timeUnixNano"]), (&json!("1"), &json!("2")));
        assert_eq!(found[2]["gauge"]["dataPoints"][0]["asDouble"], 1.5);
    }

    #[test]
    fn configured_attributes_replace_the_usual_ones() {
        let resource = resource(&["service.name=eu".to_owned(), "a = b=c".to_owned()], "1");
        let wanted = [attribute("a", "b=c"), attribute("service.name", "eu"), attribute("service.version", "1")];
        assert_eq!(resource["attributes"], json!(wanted));
    }
}
