//! io_uring as a safe interface: what a worker's loop needs of it, and no more. With `heap` and `pam` one of the
//! crates that may be unsafe.
//!
//! A [`Ring`] receives from sockets into buffers of its own, sends bytes that it is given, accepts, and watches
//! descriptors. What happened comes out of [`Ring::next`] after each [`Ring::wait`], which also hands in whatever was
//! requested meanwhile: one system call a turn of the loop.
//!
//! Why it is sound, in four sentences that the `unsafe` blocks refer to:
//!
//! 1. *Memory that the kernel may touch is the ring's own.* Receives go into provided buffers only, sends come from
//!    vectors that were moved into the ring; nothing refers to memory of a caller.
//! 2. *It is not touched meanwhile.* A buffer belongs to the kernel from its publication until a completion names it, a
//!    vector from its entry's push until its completion, or, if only a failure has one ([`SendReport::Later`]), until
//!    the kernel has taken all entries and all completions are collected: such a send ends within the call that hands
//!    it in; a lent buffer is published again only when the borrow is over.
//! 3. *It is not freed meanwhile.* Dropping the ring cancels what is in flight and waits for its end; what does not end
//!    is leaked.
//! 4. *One thread.* A ring is neither `Send` nor `Sync`; the kernel knows it (`SINGLE_ISSUER`), and completes work only
//!    within our calls (`DEFER_TASKRUN`). So between two calls of [`Ring::wait`] or [`Ring::submit`] it reads no byte
//!    from any socket.
//!
//! An entry names its descriptor by number until the kernel has taken it, and the kernel may take fewer than it is
//! given. Whoever closes a descriptor with a request under way calls [`Ring::submit`] first, and keeps it open as
//! long as [`Ring::has_unsubmitted`] says that some entries are left; otherwise the entry is for whatever has that
//! number then. That is wrong, but touches no memory.
//!
//! Beside it there are an option of a listener ([`defer_accept`]) and a question to a connection ([`unacknowledged`]),
//! which do not concern a ring.
//!
//! Source: io_uring_setup(2), io_uring_enter(2), io_uring_register(2); Linux 6.1 at least.

mod acknowledged;
mod buffers;
mod defer_accept;
mod enter;
mod ring;

pub use acknowledged::unacknowledged;
pub use defer_accept::defer_accept;
pub use enter::Limit;
pub use ring::{Completion, Ended, Key, Ring, RingError, RingSize, SendReport};
