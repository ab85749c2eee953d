//! Metrics as values: families with their points. `/metrics` is a text of them, and telemetry sends them as OTLP.
//!
//! Owns what a metric is. Must not know which there are, nor a format: what writes one is a [`Sink`].

use std::fmt;

/// The metrics of one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family<'a> {
    /// Without its unit, and without what a format appends.
    name: &'a str,
    pub(crate) help: &'a str,
    pub(crate) kind: Kind,
    pub(crate) unit: Option<Unit>,
}

/// What the values of a family are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A value now.
    Gauge,
    /// A count since the start of the process.
    Counter,
    /// Counts by size, since the start of the process.
    Histogram,
    /// 1, with labels that say something.
    Info,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

/// The value of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Whole(u64),
    Real(f64),
    Histogram(Buckets<'a>),
}

/// The value of a histogram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets<'a> {
    /// Of all that was counted.
    pub(crate) sum: f64,
    /// How much was counted.
    pub(crate) count: u64,
    /// Upper bounds with the counts between each and the one before; the last bound is infinite.
    pub(crate) counts: &'a [(f64, u64)],
}

/// Names and values.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Takes families, each followed by its points.
pub(crate) trait Sink {
    /// A family begins.
    fn family(&mut self, family: Family<'_>);
    /// A point of the family that was begun last.
    fn point(&mut self, labels: Labels<'_>, value: Value<'_>);
}

impl<'a> Family<'a> {
    pub(crate) fn gauge(name: &'a str, help: &'a str) -> Family<'a> {
        Family { name, help, kind: Kind::Gauge, unit: None }
    }

    pub(crate) fn counter(name: &'a str, help: &'a str) -> Family<'a> {
        Family { kind: Kind::Counter, ..Family::gauge(name, help) }
    }

    pub(crate) fn histogram(name: &'a str, help: &'a str) -> Family<'a> {
        Family { kind: Kind::Histogram, ..Family::gauge(name, help) }
    }

    pub(crate) fn info(name: &'a str, help: &'a str) -> Family<'a> {
        Family { kind: Kind::Info, ..Family::gauge(name, help) }
    }

    pub(crate) fn in_unit(self, unit: Unit) -> Family<'a> {
        Family { unit: Some(unit), ..self }
    }

    pub(crate) fn in_seconds(self) -> Family<'a> {
        self.in_unit(Unit::Seconds)
    }

    /// Its name, which ends in the unit.
    pub(crate) fn name(&self) -> String {
        self.unit.map_or_else(|| self.name.to_owned(), |unit| format!("{}_{unit}", self.name))
    }
}

impl dyn Sink + '_ {
    /// A family of one point without labels.
    pub(crate) fn single<'a>(&mut self, family: Family<'_>, value: impl Into<Value<'a>>) {
        self.family(family);
        self.point(&[], value.into());
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
        })
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Whole(value.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Value::Whole(value.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Whole(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Real(value)
    }
}
