//! The console's commands and replies, and the tables that the console, the HTTP API and the metrics show.
//!
//! Owns the console's grammar ([`parse`]), a worker's report about itself ([`Report`]) and every table made of it
//! ([`show`]). Does no I/O and knows no wire protocol: a table is columns with a type and rows of text, and the engine
//! encodes them. The names, their order and their types are PgBouncer's, since monitoring reads columns by position.

mod activity;
mod alerts;
mod applications;
mod certificate;
mod change;
mod client_names;
mod clock;
mod cluster;
mod command;
mod console;
mod control;
mod error;
mod failing;
mod fault;
mod finding;
mod health;
mod health_rule;
mod health_watch;
mod histogram;
mod lost;
mod near;
mod one_line;
mod pins;
mod pool_counters;
mod primaries;
mod probes;
mod recent_log;
mod records;
mod refusals;
mod refused_clients;
mod refused_logins;
mod shared_servers;
mod show;
mod statements;
mod stats;
mod tables;
mod token;
mod traffic;

pub use activity::{Activity, Backend, BackendKey, BackendSignal, LookedAt, RoleConnections, ServerCapacity};
pub use alerts::{AlertKey, AlertNotice, AlertState, AlertStates, Condition, FiredAlert, ListedAlert};
pub use applications::{Applications, SeenApplication, gives_way, stem};
pub use certificate::{CertificateExpiry, CertificateUse};
pub use change::{
    Adopted, Author, ChangeError, ChangePreview, ChangeRequest, ChangeSource, ConfigAccess, ConfigHistory, ConsoleDeed,
    LastReload, Persisted,
};
pub use client_names::{ClientNames, NamedClients};
pub use clock::timestamp;
pub use cluster::{ClusterNode, ClusterPool, ClusterShare, ClusterView};
pub use command::{Command, ConsoleRole, RECORD_SECONDS, ShutdownMode, parse};
pub use console::{CONSOLE_DATABASE, CONSOLE_NAMES, help_text, is_console};
pub use control::{
    BusyWorker, Control, ControlReply, ControlRequest, Cursor, Deliver, NodePeers, Response, SharedLimit, SharedLimits,
};
pub use error::{ALL_DATABASES, CommandError};
pub use failing::{FailingOf, FailingQueries, is_grave, is_grave_class, is_on_purpose};
pub use fault::{FAULT_KINDS, Fault};
pub use finding::{Finding, LockWait, SlowQueries};
pub use health::{Health, LoginFailure, MOTIONLESS, PoolHealth, Symptoms, UNREAD, UnresponsiveHost, is_rejection};
pub use health_rule::LONG_WAIT;
pub use health_watch::{HealthChange, HealthWatch};
pub use histogram::{Histogram, Times};
pub use lost::{LostCounts, LostState};
pub use one_line::{identifier, quoted};
pub use pins::{PinCounts, PinReason, PinRecord};
pub use pool_counters::{Errors, PoolCounters, SqlState};
pub use primaries::{PatroniRecord, PrimaryRecord, PrimaryState, PrimaryWaits};
pub use probes::{PlannedPool, PoolTestResult, ProbeError, ServerProbes, UserTestError, UserTestResult};
pub use recent_log::{LOG_LEVELS, LogLine, LogPage, LogQuery, LogTexts, RecentLog};
pub use records::{
    DnsRecord, DrainPhase, DrainRecord, MemoryRecord, PeerPoolRecord, PoolRecord, Report, ServiceState, SocketRecord,
    UserClients,
};
pub use refusals::{RefusalRecord, Refusals};
pub use refused_clients::RefusedClients;
pub use refused_logins::{RefusedLogin, RefusedLogins, TLS_NOT_OFFERED};
pub use shared_servers::shared_servers;
pub use show::{Connections, Parameter, Show};
pub use statements::{ApplicationUse, MAX_APPLICATIONS, SpanRecord, StatementCounts, StatementRecord, StatementTotals};
pub use stats::{DatabaseStats, Stats};
pub use tables::{Column, ColumnType, Row, Snapshot, Table, columns, columns_with, connection_row, show};
pub use traffic::{DryRun, ModeOutcome, ModeRules, RecordedUse, TrafficLevels, TrafficLine, TrafficRecord, UseLevel};
