//! Clients, in any phase.
//!
//! - `slot`: a client, and its phases. `table`: clients are added to the table, and become ready for queries.
//!   `reading`: clients are not read from.

pub(crate) mod slot;
pub(crate) mod table;
