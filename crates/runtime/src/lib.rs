//! Threads, epoll, sockets, name look-ups, helpers, signals and the log: all of the data plane's I/O, and no decisions.
//!
//! A worker is a thread with its own epoll and its own brain (see [`Handler`]; in production an engine). The brain is told
//! what happened and asks for what it wants through [`weir_engine::port`]; this crate keeps that port's rules. Workers
//! share nothing on the path of a query; they write letters to each other.
//!
//! | file | its one job |
//! |---|---|
//! | `serve` | a configuration's engines as brains |
//! | `start` | binding, starting and ending everything |
//! | `worker` | the loop: events in, turns, deadlines |
//! | `port` | what a brain asks for, done with sockets |
//! | `slots`, `socket`, `output` | the peers, one socket, what is to be written and what was refused |
//! | `ahead` | what an io_uring does besides: reading ahead, writing at the round's end |
//! | `connect`, `listen` | connections that we begin, and those that we accept |
//! | `tls` | encryption: what is agreed on with whom, handshakes, sessions |
//! | `mailbox`, `helpers`, `signals`, `log` | letters between threads, slow work, the operator's signals, lines |
//! | `files` | files that an operator names |
//! | `supervisor` | what systemd is told |

mod ahead;
mod clock;
mod connect;
mod descriptors;
mod desk;
mod files;
mod handler;
mod helpers;
mod listen;
mod load;
mod log;
mod mailbox;
mod names;
mod output;
mod port;
mod serve;
mod shared;
mod signals;
mod slots;
mod socket;
mod start;
mod supervisor;
mod tls;
mod worker;

pub use ahead::MakeRing;
pub use descriptors::descriptors;
pub use files::read_ordinary;
pub use handler::{Handler, WorkerSetup};
pub use helpers::{Change, Fit, Reload};
pub use listen::{Bound, Inherited};
pub use log::{LogTarget, log_start_error};
pub use serve::{Options, Ready, VERSION, serve, start_engines};
pub use signals::Signals;
pub use start::{Handle, Plan, Running, StartError, start};
pub use tls::{ServerTls, TlsFiles, TlsFinding, check_tls};
