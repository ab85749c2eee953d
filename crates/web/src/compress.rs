//! Answers made smaller for who takes them so: the panel's files, and lists of many things.
//!
//! With gzip alone, which every browser and scraper takes, and quickly rather than well: it is done anew for each
//! answer, on the control plane's one thread. Events are sent as they are, so that none waits in a compressor for the
//! next.

use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, DefaultPredicate, Predicate, SizeAbove};

/// Bytes below which an answer fits into a packet anyway.
const SMALL: u16 = 1024;

/// Compresses what is large, and says what an answer depends on (`Vary`).
pub(crate) fn layer() -> CompressionLayer<And<DefaultPredicate, SizeAbove>> {
    // The default leaves out events, pictures, and what is compressed already.
    let large = DefaultPredicate::new().and(SizeAbove::new(SMALL));
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(large)
}
