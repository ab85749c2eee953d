//! Threads, epoll and io_uring, sockets, name look-ups, helpers, signals and the log: all of the data plane's I/O, and
//! no decisions.
//!
//! A worker is a thread with its own epoll, its own io_uring ([`weir_uring`]) where the kernel allows one, and its own
//! handler (see [`Handler`]; in production an engine). The handler gets inputs and calls [`weir_engine::port`], whose
//! rules this crate keeps. Workers share nothing on the path of a query; they send each other messages.
//!
//! | file | its one job |
//! |---|---|
//! | `serve` | starts the runtime with engines as handlers |
//! | `start` | binding, starting and ending everything |
//! | `worker` | the loop: events in, turns, deadlines |
//! | `dns` | look-ups of names, on helpers |
//! | `port` | a handler's requests, executed with sockets: its own, connects, accepts, the ring, encryption |
//! | `slots`, `socket`, `output` | the connections, one socket, what is to be written and what was refused |
//! | `listen`, `socket_file` | the listeners: binding, accepting; files of Unix sockets |
//! | `control_queue` | the control plane's requests |
//! | `tls` | encryption: negotiated parameters, handshakes, sessions |
//! | `mailbox`, `helpers`, `signals`, `log` | messages between threads, slow work, the operator's signals, lines |
//! | `passwords` | passwords that LDAP or PAM checks, or a program prints; tokens of clients |
//! | `upgrade` | one process takes over from another: listening sockets, clients, servers |
//! | `supervisor` | notifications to systemd |

mod clock;
mod control_queue;
mod descriptors;
mod dns;
mod freed;
mod handler;
mod helpers;
mod listen;
mod load;
mod log;
mod mailbox;
mod output;
mod passwords;
mod port;
mod port_owner;
mod rounds;
mod serve;
mod shared;
mod signals;
mod slots;
mod socket;
mod socket_file;
mod start;
mod start_error;
mod supervisor;
mod timed;
mod tls;
mod upgrade;
mod work;
mod worker;

pub use descriptors::descriptors;
pub use handler::{Handler, WorkerSetup};
pub use helpers::{AskPatroni, ChangeConfig, Fit, Record, Reload};
pub use listen::{AddressProblem, Bound, Inherited, address_problems};
pub use log::{LogTarget, check_log_file, log_start_error};
pub use passwords::{PAM_HELPER, PamRequest, check_issuers, made_password};
pub use port::MakeRing;
pub use port_owner::is_served;
pub use serve::{Ready, ServeOptions, VERSION, serve, start_engines};
pub use signals::Signals;
pub use start::{Handle, Running, RuntimeOptions, start};
pub use start_error::StartError;
pub use tls::{ServerTls, TlsFiles, certificate_expiries, check_tls};
pub use upgrade::{
    ControlPlane, DrainingProcess, NoOldProcess, OldProcess, OtherProcess, UpgradeParticipant, UpgradeSocket,
    upgrade_socket,
};
pub use weir_engine::port::{Reread, Signal};
pub use weir_fetch::read_ordinary;
