//! Names of databases with a meaning of their own.

/// Database names that belong to the console.
pub const RESERVED_DATABASES: [&str; 2] = ["weir", "pgbouncer"];

/// The name of the pool that stands for every database without one.
pub(crate) const FALLBACK: &str = "*";
