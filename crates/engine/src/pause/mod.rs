//! PAUSE, RESUME, SUSPEND, KILL and WAIT_CLOSE.
//!
//! - `state`: what is stopped. `commands`: the commands are carried out. `hold`: a connection is not read from during a
//!   SUSPEND. `watch`: what a command or a shutdown waits for.

pub(crate) mod commands;
pub(crate) mod hold;
pub(crate) mod state;
pub(crate) mod waiting_command;
pub(crate) mod watch;
