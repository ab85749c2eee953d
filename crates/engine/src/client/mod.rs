//! Clients, in any phase.
//!
//! - `table`: they are added, and become ready for queries. `pause`: which of them are not read from.

pub(crate) mod slot;
pub(crate) mod table;
