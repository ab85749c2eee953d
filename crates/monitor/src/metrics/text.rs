//! The two output formats: OpenMetrics for clients that request it, else Prometheus's own text format (its "Exposition
//! formats", version 0.0.4), which every scraper reads.
//!
//! They differ little: in Prometheus's format a counter's family has the name of its samples, there are no units and
//! no end marker, and an info metric is a gauge.

use std::fmt::{self, Write as _};

use super::family::{Family, Kind, Labels, Sink, Value};

/// The format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own.
    Plain,
}

impl MetricsFormat {
    /// The format that a client requests with these media types (`Accept`).
    pub fn wanted<'a>(accepts: impl Iterator<Item = &'a str>) -> MetricsFormat {
        let mut kinds = accepts.flat_map(|value| value.split(','));
        let open = |kind: &str| kind.trim_start().starts_with("application/openmetrics-text");
        if kinds.any(open) { MetricsFormat::OpenMetrics } else { MetricsFormat::Plain }
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The text of metrics.
pub(super) struct TextSink {
    format: MetricsFormat,
    text: String,
    /// The name of the samples of this family.
    sample: String,
}

impl TextSink {
    pub(super) fn new(format: MetricsFormat) -> TextSink {
        TextSink { format, text: String::new(), sample: String::new() }
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, suffix: &str, bound: Option<f64>, labels: Labels<'_>, value: Value<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{}{suffix}{} {}", self.sample, Braces(bound, labels), Figure(value));
    }
}

impl Sink for TextSink {
    fn family(&mut self, family: Family<'_>) {
        let is_open = self.format == MetricsFormat::OpenMetrics;
        let name = family.name();
        let (suffix, kind) = match family.kind {
            Kind::Gauge => ("", "gauge"),
            Kind::Counter => ("_total", "counter"),
            Kind::Histogram => ("", "histogram"),
            Kind::Info => ("_info", if is_open { "info" } else { "gauge" }),
        };
        self.sample = format!("{name}{suffix}");
        let title = if is_open { &name } else { &self.sample };
        let _ = write!(self.text, "# HELP {title} {}\n# TYPE {title} {kind}\n", family.help);
        if let Some(unit) = family.unit.filter(|_| is_open) {
            let _ = writeln!(self.text, "# UNIT {title} {unit}");
        }
    }

    fn point(&mut self, labels: Labels<'_>, value: Value<'_>) {
        let Value::Histogram(buckets) = value else { return self.line("", None, labels, value) };
        self.line("_sum", None, labels, Value::Real(buckets.sum));
        self.line("_count", None, labels, Value::Whole(buckets.count));
        let mut below = 0;
        for (bound, count) in buckets.counts {
            below += count;
            self.line("_bucket", Some(*bound), labels, Value::Whole(below));
        }
    }
}

/// A value; one that is not whole by its kind has a point.
struct Figure<'a>(Value<'a>);

impl fmt::Display for Figure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Whole(value) => write!(f, "{value}"),
            Value::Real(value) if value == f64::INFINITY => f.write_str("+Inf"),
            Value::Real(value) if value.fract() == 0.0 => write!(f, "{value:.1}"),
            Value::Real(value) => write!(f, "{value}"),
            Value::Histogram(buckets) => write!(f, "{}", buckets.count),
        }
    }
}

/// The bound of a bucket and labels, in braces.
struct Braces<'a>(Option<f64>, Labels<'a>);

impl fmt::Display for Braces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = '{';
        if let Some(bound) = self.0 {
            write!(f, "{{le=\"{}\"", Figure(Value::Real(bound)))?;
            before = ',';
        }
        for (name, value) in self.1 {
            write!(f, "{before}{name}=\"")?;
            escape(value, f)?;
            f.write_char('"')?;
            before = ',';
        }
        if before == ',' { f.write_char('}') } else { Ok(()) }
    }
}

/// Writes a label's value (OpenMetrics, "ABNF"): the name of a database must not add lines to the output.
fn escape(value: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for part in value.split_inclusive(['\\', '"', '\n']) {
        let plain = part.trim_end_matches(['\\', '"', '\n']);
        f.write_str(plain)?;
        f.write_str(match &part[plain.len()..] {
            "\\" => r"\\",
            "\"" => "\\\"",
            "\n" => r"\n",
            _ => "",
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::family::Buckets;
    use super::*;

    #[test]
    fn open_metrics_is_for_who_accepts_it() {
        let wanted = |accept: &str| MetricsFormat::wanted([accept].into_iter());
        assert_eq!(
            wanted("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"),
            MetricsFormat::OpenMetrics
        );
        assert_eq!(wanted("text/plain;q=0.3, application/openmetrics-text"), MetricsFormat::OpenMetrics);
        assert_eq!(wanted("text/plain"), MetricsFormat::Plain);
        assert_eq!(MetricsFormat::wanted([].into_iter()), MetricsFormat::Plain);
    }

    #[test]
    fn the_older_format_has_the_samples_names_and_no_more_than_it_knows() {
        let text = |format| {
            let mut text = TextSink::new(format);
            let to: &mut dyn Sink = &mut text;
            to.family(Family::counter("a", "Time").in_seconds());
            to.point(&[("b", "# c\\\"\n")], 1.0.into());
            to.family(Family::info("d", "What"));
            to.point(&[("v", "1")], 1_u32.into());
            to.single(Family::gauge("e", "E"), 0.000_064);
            to.family(Family::histogram("h", "H"));
            let counts = &[(0.5, 2), (1.0, 1), (f64::INFINITY, 0)];
            to.point(&[("b", "")], Value::Histogram(Buckets { sum: 1.25, count: 3, counts }));
            text.finish()
        };
        let histogram = "# HELP h H\n# TYPE h histogram\nh_sum{b=\"\"} 1.25\nh_count{b=\"\"} 3\nh_bucket{le=\"0.5\",b=\"\"} 2\n\
                         h_bucket{le=\"1.0\",b=\"\"} 3\nh_bucket{le=\"+Inf\",b=\"\"} 3\n";
        let open = "# HELP a_seconds Time\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                    a_seconds_total{b=\"# c\\\\\\\"\\n\"} 1.0\n\
                    # HELP d What\n# TYPE d info\nd_info{v=\"1\"} 1\n# HELP e E\n# TYPE e gauge\ne 0.000064\n";
        let older = "# HELP a_seconds_total Time\n# TYPE a_seconds_total counter\na_seconds_total{b=\"# c\\\\\\\"\\n\"} 1.0\n\
                     # HELP d_info What\n# TYPE d_info gauge\nd_info{v=\"1\"} 1\n# HELP e E\n# TYPE e gauge\ne 0.000064\n";
        assert_eq!(text(MetricsFormat::OpenMetrics), format!("{open}{histogram}# EOF\n"));
        assert_eq!(text(MetricsFormat::Plain), format!("{older}{histogram}"));
    }
}
