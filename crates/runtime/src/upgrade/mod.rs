//! One process takes over from another, over a Unix socket, without a client noticing.
//!
//! The new process connects, and says which format it understands. The old one offers its listening sockets; it serves
//! on until the new one, which accepts nobody before, has said that it serves, too, and has answered. But operators change
//! nothing from the offer on, since the new process has read the file. Then the old process accepts no more, and gives its clients and idle servers, each as a value of the engine's with the socket
//! (SCM_RIGHTS), as they come between two transactions; when it has none left, it ends. Whatever fails before leaves
//! the old process serving, with all that is not given yet; a new process that sends nothing meanwhile has failed, and
//! ends when it notices. A third process that asks meanwhile waits until the new one knows what the old one has, or is
//! gone. Both sides believe only processes of the same user, or root's (SO_PEERCRED).
//!
//! - `wire`: the frames. `socket`: where the two meet. `listeners`: which sockets are passed, and what for.
//! - `export`: the old process's side. `export_queue`: what its workers send to it. `import`: the new process's side.
//! - `old_process_link`: the new process's connection to the old one. `liveness`: when the other process hangs.
//! - `drain`: the command to drain, over the same connection. `process`: whether a process lives. `participant`: what has a part in an upgrade beside the workers.
//!   `control_plane`: what accepts connections beside them.

mod control_plane;
mod drain;
mod export;
mod export_queue;
mod import;
mod listeners;
mod liveness;
mod old_process_link;
mod participant;
mod process;
mod socket;
mod wire;

pub use control_plane::ControlPlane;
pub(crate) use control_plane::ControlPlaneSlot;
pub use drain::DrainingProcess;
pub(crate) use export::{ExportThread, Exporter};
pub(crate) use export_queue::{ExportMessage, ExportSender};
pub use import::{NoOldProcess, OldProcess};
pub(crate) use listeners::{ListenerKind, Offered};
pub(crate) use old_process_link::OldProcessLink;
pub(crate) use participant::ParticipantSlot;
pub use participant::UpgradeParticipant;
pub use process::OtherProcess;
pub use socket::{UpgradeSocket, upgrade_socket};
