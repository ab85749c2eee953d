//! The article's figures, in seconds.

/// One kind of connection.
pub(super) struct Published {
    pub(super) one: f64,
    pub(super) series: f64,
    pub(super) parallel: f64,
}

pub(super) const ARTICLE: &str =
    "“Tiếp tục test về hiệu suất connection pooling trong nodejs” (more tests of connection pooling in Node.js)";

pub(super) const ONE_CONNECTION: Published = Published { one: 1.756, series: 8.579, parallel: 8.168 };

pub(super) const POOL: Published = Published { one: 1.763, series: 8.192, parallel: 2.311 };

impl Published {
    /// The factor by which five parallel queries were faster than five in series.
    pub(super) fn gain(&self) -> f64 {
        self.series / self.parallel
    }
}
