//! What is watched of the workers: figures and their history, health, incidents, alerts, metrics, and exports.
//!
//! Owns one question to the workers a second ([`Watch`]), what is kept of the answers, in memory and in the folder of
//! `[web] history`, and what follows from them. Knows the workers only through [`Control`](weir_admin::Control), and
//! database servers through [`ServerProbes`](weir_admin::ServerProbes). Must not know HTTP, nor who asks: requests to other
//! machines are sent by the caller's function ([`SendHttp`]).
//!
//! Invariants: however many look, the workers are asked once a second, and a server at most once in some seconds. Every
//! list is bounded. A disk or a server that is slow delays a thread for blocking work, and nothing else.
//!
//! - `ask`: requests to the workers, as futures. `journal`: lists that survive a restart.
//! - `watch`: the second's task, the history, the streams of events. `figures`, `pool_health`, `log_line`, `pinned`: shapes
//!   that several answers have.
//! - `alerts`, `advice`, `faults`, `fault_watch`, `incident`: what follows from the figures.
//! - `activity_probe`, `capacities`: questions to database servers, bounded. `metrics`, `telemetry`: for other programs.

mod activity_probe;
mod advice;
mod alerts;
mod ask;
mod capacities;
mod clock;
mod cpu;
mod error;
mod export_counts;
mod fault_watch;
mod faults;
mod figures;
mod files;
mod incident;
mod journal;
mod lock;
mod log_line;
mod metrics;
mod named;
mod pinned;
mod pool_health;
mod pool_server;
mod reference;
mod telemetry;
mod watch;
mod whole;
mod words;

pub use activity_probe::ActivityProbe;
pub use advice::{Advice, FreeConnections, Measured, Moment, advise};
pub use alerts::{AlertWatch, NewSilence, PastAlert, Silence, TargetReport, TestResult};
pub use ask::Workers;
pub use capacities::{Answered, Capacities, Question};
pub use clock::now;
pub use error::MonitorError;
pub use export_counts::ExportCounter;
pub use fault_watch::FaultWatch;
pub use faults::{FaultView, Faults, Retry};
pub use figures::{Clients, Servers, seconds, seconds_of};
pub use files::read_regular;
pub use incident::{Incident, IncidentCause, ProcessKey, current};
pub use journal::{Journal, JournalBounds};
pub use lock::lock;
pub use log_line::Line;
pub use metrics::{LastFigures, MetricsFormat};
pub use pinned::Pinned;
pub use pool_health::{Affected, HealthView};
pub use reference::resolve;
pub use telemetry::TelemetryExport;
pub use watch::{
    Events, Findings, IncidentLog, Past, PastIncident, SERIES, Sample, Scale, Selection, Series, TakeDeeds, Watch,
    WatchAround, merged, number, place,
};
pub use weir_fetch::{HttpAnswer, HttpRequest, SendHttp};
pub use whole::{whole, whole_or_none};
pub use words::span;
