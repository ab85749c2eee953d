//! One process takes over from another, over a Unix socket, without a client noticing.
//!
//! The new process connects, and says which format it understands. The old one offers its listening sockets; it serves
//! on as if nothing had happened until the new one has said that it serves, too, and has answered. Then the old process
//! accepts no more, and gives its clients and idle servers, each as a value of the engine's with the socket
//! (SCM_RIGHTS), as they come between two transactions; when it has none left, it ends. Whatever fails before leaves
//! the old process serving, with all that is not given yet; a new process that is silent meanwhile has failed, and ends
//! when it notices. Both sides believe only processes of the same user, or root's (SO_PEERCRED).
//!
//! - `wire`: the frames. `socket`: where the two meet. `listeners`: which sockets were given, and what for.
//! - `give`: the old process's side. `given`: what its workers send to it. `take`: the new process's side.
//! - `inflow`: what the new process knows of the old one meanwhile. `silence`: when the new one hangs.
//! - `process`: whether a process lives. `beside`: what has a part in a take-over beside the workers.

mod beside;
mod give;
mod given;
mod inflow;
mod listeners;
mod process;
mod silence;
mod socket;
mod take;
mod wire;

pub use beside::Beside;
pub(crate) use beside::BesideSlot;
pub(crate) use give::{GiveThread, Giving};
pub(crate) use given::{Given, Giver};
pub(crate) use inflow::Inflow;
pub(crate) use listeners::{ListenerKind, Offered};
pub use process::OtherProcess;
pub use socket::{UpgradeSocket, upgrade_socket};
pub use take::{NotTaken, Predecessor};
