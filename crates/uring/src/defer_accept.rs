//! TCP_DEFER_ACCEPT of a listening socket, which no crate offers that is safe.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel report a client when it has sent something; one that sends nothing is reported after a second or so
/// (tcp(7), TCP_DEFER_ACCEPT). Called for each listener of TCP.
///
/// # Errors
/// The kernel's; `listener` may be no TCP socket.
pub fn defer_accept(listener: impl AsFd, on: bool) -> io::Result<()> {
    let seconds = libc::c_int::from(on);
    let size = size_of_val(&seconds) as libc::socklen_t;
    let fd = listener.as_fd().as_raw_fd();
    let value = (&raw const seconds).cast();
    // SAFETY: `value` points to `size` bytes that live until the call returns; the kernel only reads them.
    let failed = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, value, size) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
