//! Names of databases with a special meaning.

/// Database names that belong to the console.
pub const RESERVED_DATABASES: [&str; 2] = ["weir", "pgbouncer"];

/// The name of the pool for every database without its own.
pub(crate) const FALLBACK: &str = "*";
