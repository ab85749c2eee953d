//! Metrics as OTLP in JSON (OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding"), made of the text of `/metrics`: a
//! metric is defined once, there.
//!
//! Reads what this program has written (OpenMetrics), so an odd line is left out. Counters and histograms are
//! cumulative, since the start of the process. An attribute is a label; a metric has the name of its family.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A family of the text.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    unit: &'a str,
    /// By the labels without `le`, in the order of the text.
    points: Vec<(Vec<(&'a str, String)>, Point)>,
}

#[derive(Default)]
struct Point {
    value: Option<Number>,
    sum: f64,
    /// Bounds with the count below each.
    buckets: Vec<(f64, u64)>,
}

#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Real(f64),
}

/// The metrics of a text; times in nanoseconds since 1970, `start` that of the process.
pub(super) fn metrics(text: &str, start: u128, now: u128) -> Vec<Value> {
    families(text).iter().filter(|family| !family.points.is_empty()).map(|family| family.json(start, now)).collect()
}

fn families(text: &str) -> Vec<Family<'_>> {
    let mut all: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (Some(what), Some(name), Some(value)) = (words.next(), words.next(), words.next()) else { continue };
            if all.last().is_none_or(|family| family.name != name) {
                all.push(Family { name, ..Family::default() });
            }
            let Some(family) = all.last_mut() else { continue };
            match what {
                "HELP" => family.help = value.trim_end_matches('.'),
                "TYPE" => family.kind = value,
                "UNIT" => family.unit = value,
                _ => {}
            }
        } else if let Some(family) = all.last_mut() {
            family.sample(line);
        }
    }
    all
}

impl<'a> Family<'a> {
    /// Reads a line with a value.
    fn sample(&mut self, line: &'a str) -> Option<()> {
        let (head, value) = line.rsplit_once(' ')?;
        let (name, labels) = head.split_once('{').map_or((head, ""), |(name, labels)| (name, labels));
        let mut labels = labels_of(labels.strip_suffix('}').unwrap_or(labels));
        let bound = labels.iter().position(|(name, _)| *name == "le").map(|at| labels.remove(at).1);
        let suffix = name.strip_prefix(self.name)?;
        let value = number(value)?;
        let point = match self.points.iter().rposition(|(known, _)| *known == labels) {
            // Lines of a histogram are neighbours.
            Some(at) if at + 1 == self.points.len() => &mut self.points[at].1,
            _ => {
                self.points.push((labels, Point::default()));
                &mut self.points.last_mut()?.1
            }
        };
        match (suffix, bound) {
            ("_bucket", Some(bound)) => {
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
                point.buckets.push((bound, value.whole()));
            }
            ("_sum", _) if self.kind == "histogram" => point.sum = value.real(),
            ("_count", _) if self.kind == "histogram" => {}
            _ => point.value = Some(value),
        }
        Some(())
    }

    fn json(&self, start: u128, now: u128) -> Value {
        let points: Vec<Value> = self.points.iter().map(|(labels, point)| point.json(labels, start, now)).collect();
        let data = match self.kind {
            "counter" => ("sum", json!({"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points})),
            "histogram" => ("histogram", json!({"aggregationTemporality": 2, "dataPoints": points})),
            _ => ("gauge", json!({"dataPoints": points})),
        };
        let unit = match self.unit {
            "seconds" => "s",
            "bytes" => "By",
            unit => unit,
        };
        let mut metric = json!({"name": self.name, "description": self.help, "unit": unit});
        metric[data.0] = data.1;
        metric
    }
}

impl Point {
    fn json(&self, labels: &[(&str, String)], start: u128, now: u128) -> Value {
        let attributes: Vec<Value> = labels.iter().map(|(name, value)| attribute(name, value)).collect();
        let mut json = json!({
            "attributes": attributes,
            "startTimeUnixNano": start.to_string(),
            "timeUnixNano": now.to_string(),
        });
        match self.value {
            Some(Number::Whole(value)) => json["asInt"] = value.to_string().into(),
            Some(Number::Real(value)) => json["asDouble"] = value.into(),
            None => {
                let before = std::iter::once(0).chain(self.buckets.iter().map(|(_, count)| *count));
                let counts = self.buckets.iter().zip(before).map(|((_, count), before)| count.saturating_sub(before));
                json["bucketCounts"] = counts.map(|count| Value::from(count.to_string())).collect();
                let bounds = self.buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
                json["explicitBounds"] = bounds.map(Value::from).collect();
                json["count"] = self.buckets.last().map_or(0, |(_, count)| *count).to_string().into();
                json["sum"] = self.sum.into();
            }
        }
        json
    }
}

impl Number {
    fn whole(self) -> u64 {
        match self {
            Number::Whole(value) => value.max(0) as u64,
            Number::Real(value) => value as u64,
        }
    }

    fn real(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

fn number(text: &str) -> Option<Number> {
    text.parse().map(Number::Whole).or_else(|_| text.parse().map(Number::Real)).ok()
}

/// Names and values of labels, unescaped.
fn labels_of(text: &str) -> Vec<(&str, String)> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((name, quoted)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        let mut end = quoted.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c)) => value.push(c),
                    None => {}
                },
                c => value.push(c),
            }
        }
        all.push((name.trim_start_matches(','), value));
        rest = &quoted[end..];
    }
    all
}

/// An attribute with a text.
pub(super) fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

/// The attributes of this Weir: those of the configuration, and what they leave out.
pub(super) fn resource(configured: &[String], version: &str) -> Value {
    let usual = [("service.name", "weir"), ("service.version", version)];
    let mut all: BTreeMap<&str, &str> = usual.into_iter().collect();
    all.extend(configured.iter().filter_map(|attribute| attribute.split_once('=')));
    let all: Vec<Value> = all.into_iter().map(|(name, value)| attribute(name.trim(), value.trim())).collect();
    json!({"attributes": all})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_metric_has_its_shape() {
        let text = "# HELP a Counts.\n# TYPE a counter\na_total{d=\"x\\\"y\",u=\"b,c\"} 3\na_total{d=\"z\",u=\"\"} 4\n\
                    # HELP t_seconds Time.\n# TYPE t_seconds histogram\n# UNIT t_seconds seconds\n\
                    t_seconds_sum{d=\"x\"} 2.5\nt_seconds_count{d=\"x\"} 5\nt_seconds_bucket{le=\"0.5\",d=\"x\"} 2\n\
                    t_seconds_bucket{le=\"1.0\",d=\"x\"} 4\nt_seconds_bucket{le=\"+Inf\",d=\"x\"} 5\n\
                    # HELP g G.\n# TYPE g gauge\ng 1.5\n# HELP empty E.\n# TYPE empty gauge\n# EOF\n";
        let found = metrics(text, 1, 2);
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
