//! Figures that the API and the metrics share: their names, and how they are computed from the workers' reports.
//!
//! States have PgBouncer's names, but all states of a cancel are one. Times are in seconds.

use serde::Serialize;
use weir_admin::PoolRecord;
use weir_base::Span;

/// Clients of a pool.
#[derive(Serialize)]
pub struct Clients {
    /// Linked to a server, or idle.
    active: u32,
    waiting: u32,
    canceling: u32,
}

/// Connections of a pool to its server.
#[derive(Serialize)]
pub struct Servers {
    active: u32,
    idle: u32,
    used: u32,
    tested: u32,
    login: u32,
    canceling: u32,
}

impl Clients {
    /// A pool's clients.
    pub fn of(pool: &PoolRecord) -> Clients {
        let canceling = pool.cl_active_cancel_req + pool.cl_waiting_cancel_req;
        Clients { active: pool.cl_active, waiting: pool.cl_waiting, canceling }
    }

    pub(crate) fn named(&self) -> [(&'static str, u32); 3] {
        [("active", self.active), ("waiting", self.waiting), ("canceling", self.canceling)]
    }
}

impl Servers {
    /// A pool's servers.
    pub fn of(pool: &PoolRecord) -> Servers {
        Servers {
            active: pool.sv_active,
            idle: pool.sv_idle,
            used: pool.sv_used,
            tested: pool.sv_tested,
            login: pool.sv_login,
            canceling: pool.sv_active_cancel + pool.sv_being_canceled,
        }
    }

    pub(crate) fn named(&self) -> [(&'static str, u32); 6] {
        [
            ("active", self.active),
            ("idle", self.idle),
            ("used", self.used),
            ("tested", self.tested),
            ("login", self.login),
            ("canceling", self.canceling),
        ]
    }
}

/// A span in seconds.
pub fn seconds(span: Span) -> f64 {
    seconds_of(span.micros())
}

/// Converts microseconds to seconds.
pub fn seconds_of(micros: u64) -> f64 {
    micros as f64 / 1e6
}
