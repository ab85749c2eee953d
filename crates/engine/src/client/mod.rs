//! Clients, in any phase.
//!
//! - `slot`: one of them, and its phases. `table`: they are added, and become ready for queries. `reading`: they are
//!   not read from.

mod reading;
pub(crate) mod slot;
pub(crate) mod table;
