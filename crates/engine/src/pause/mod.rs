//! PAUSE, RESUME, SUSPEND, KILL and WAIT_CLOSE; and a drain, which closes clients.
//!
//! - `state`: what is stopped. `commands`: the commands are carried out. `hold`: a connection is not read from during a
//!   SUSPEND. `watch`: what a command or a shutdown waits for. `drain`: which clients a drain closes.

pub(crate) mod commands;
pub(crate) mod drain;
pub(crate) mod hold;
pub(crate) mod state;
pub(crate) mod waiting_command;
pub(crate) mod watch;
