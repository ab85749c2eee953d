//! What takes several parts: each flow leads a client, a command or a query from one part to the next.
//!
//! A part says by the values it returns what must be done next; here is who does it. Owns no state and no rule.
//!
//! - `arrival`: from accept to the worker where a client logs in. `login`: its login there. `auth_query`: a query for a
//!   user's secret, in the pool whose server is asked.
//! - `console`: operators and the control plane. `commands`: what all workers carry out. `halt`: what is stopped and ended.
//! - `quotas`: clients and servers under limits that hold for the process. `lending`: pools that span several workers.
//! - `waits`: who is told why he waits. `counts`: refusals, and session state that was lost.

mod arrival;
mod auth_query;
mod commands;
mod console;
mod counts;
mod halt;
pub(crate) mod lending;
mod login;
mod quotas;
mod waits;
