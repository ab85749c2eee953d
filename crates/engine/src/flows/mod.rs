//! What crosses parts: each function here asks one part, and gives what it returns to another. No rule lives here.
//!
//! - `quotas`: clients and servers under limits that hold for the process.

mod quotas;
