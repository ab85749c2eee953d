//! What a TCP socket's other end has acknowledged (TCP_INFO), which no crate offers that is safe.

use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The words of `struct tcp_info` up to `tcpi_last_ack_recv` (linux/tcp.h): the first eight fields are bytes.
type Info = [u32; 15];
/// The byte of `tcpi_retransmits` in the first word.
const RETRANSMITS: usize = 2;
const UNACKNOWLEDGED: usize = 6;
const LAST_ACKNOWLEDGED: usize = 14;
/// After so many times in a row without an answer it is no single loss: the first follows after 200 ms or more, each
/// other one after twice the time.
const IN_A_ROW: u8 = 3;

/// For how long the other end has acknowledged nothing, if bytes were sent again and again meanwhile; `None` if it owes
/// nothing. One that takes no bytes, since its program reads none, owes nothing: it answers to probes. One system call.
pub fn unacknowledged(socket: impl AsFd) -> Option<Duration> {
    let mut info = Info::default();
    let mut size = size_of_val(&info) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let value = (&raw mut info).cast();
    // SAFETY: `value` points to `size` bytes of plain numbers that live until the call returns; the kernel writes no more.
    let failed = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut size) } != 0;
    let owes = info[UNACKNOWLEDGED] > 0 && info[0].to_ne_bytes()[RETRANSMITS] >= IN_A_ROW;
    (!failed && owes).then(|| Duration::from_millis(info[LAST_ACKNOWLEDGED].into()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_end_that_reads_nothing_owes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _two = listener.accept().unwrap();
        assert_eq!(unacknowledged(&one), None);
        one.set_nonblocking(true).unwrap();
        while one.write(&[0; 65_536]).is_ok() {}
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(unacknowledged(&one), None);
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(unacknowledged(&unix), None);
    }
}
