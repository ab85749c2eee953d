//! What crosses parts: each function here asks one part, and gives what it returns to another. No rule lives here.
//!
//! - `lending`: pools that span several workers.
//! - `quotas`: clients and servers under limits that hold for the process.

pub(crate) mod lending;
mod quotas;
