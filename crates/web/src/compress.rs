//! Compression of answers for clients that accept it: the panel's files, and long lists.
//!
//! Gzip only, which every browser and scraper accepts, at a fast level: each answer is compressed anew, on the control
//! plane's one thread. Events are not compressed, so that no event waits in a compressor for the next.

use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, DefaultPredicate, NotForContentType, Predicate, SizeAbove};

/// Below this size, in bytes, an answer fits into one packet anyway.
const SMALL: u16 = 1024;

/// Compresses large answers, and sets `Vary`.
pub(crate) fn layer() -> CompressionLayer<And<And<DefaultPredicate, NotForContentType>, SizeAbove>> {
    // The default leaves out events, pictures, and compressed types.
    let large = DefaultPredicate::new().and(NotForContentType::const_new("font/")).and(SizeAbove::new(SMALL));
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(large)
}
