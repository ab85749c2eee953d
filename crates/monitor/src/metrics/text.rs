//! The two output formats: OpenMetrics for clients that request it, else Prometheus's own text format (its "Exposition
//! formats", version 0.0.4), which every scraper reads.
//!
//! They differ little: in Prometheus's format a counter's family has the name of its samples, there are no units and
//! no end marker, and an info metric is a gauge.

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

    /// Converts OpenMetrics text to this format.
    pub fn of(self, text: String) -> String {
        match self {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::Plain => plain(&text),
        }
    }
}

fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (Some(help), Some(kind)) = (line.strip_prefix("# HELP "), lines.peek().and_then(|next| kind(next))) else {
            if !line.starts_with("# ") {
                plain.push_str(line);
                plain.push('\n');
            }
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            kind => ("", kind),
        };
        plain.push_str(&format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"));
    }
    plain
}

/// The type in a `# TYPE` line.
fn kind(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.rsplit(' ').next()
}

#[cfg(test)]
mod tests {
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
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total{b=\"# c\"} 1\n\
                    # HELP d What.\n# TYPE d info\nd_info{v=\"1\"} 1\n# HELP e E.\n# TYPE e gauge\ne 2\n# EOF\n";
        let older = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{b=\"# c\"} 1\n\
                     # HELP d_info What.\n# TYPE d_info gauge\nd_info{v=\"1\"} 1\n# HELP e E.\n# TYPE e gauge\ne 2\n";
        assert_eq!(plain(open), older);
    }
}
