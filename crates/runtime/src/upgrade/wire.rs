//! The frames between two processes: a kind, a length, bytes, and descriptors.
//!
//! The first frame, and a refusal, are the same in every version; the format of all others follows from the first one.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use weir_engine::port::OfferedState;

use super::listeners::ListenerKind;
use crate::tls::SealedState;

/// The most descriptors of a frame.
pub(super) const MOST_DESCRIPTORS: usize = 128;
/// The most bytes of a frame: more than any client may hold.
const MOST_BYTES: usize = 1 << 30;
const HEAD: usize = 5;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// From the new process: the format that it understands, four bytes, and its version as a text.
    Hello = 1,
    /// From the old one: why it refuses, as a text.
    Refused = 2,
    /// From the old one: [`Offer`], with the listening sockets.
    Offer = 3,
    /// From the new one: [`Serving`].
    Serving = 4,
    /// From the old one: [`Item`], perhaps with a socket.
    Item = 5,
    /// From the old one: everything has been sent.
    Done = 6,
    /// From the new one: everything has been received.
    Bye = 7,
    /// From the new one, between [`Kind::Serving`] and [`Kind::Bye`]: [`CancelRequest`].
    Cancel = 8,
    /// From either, after [`Kind::Serving`]: what those beside the workers say to each other, see
    /// [`UpgradeParticipant`](super::UpgradeParticipant). The old process begins, and gives nothing before it has the
    /// answer.
    Participant = 9,
    /// From the new one, several times a second between [`Kind::Serving`] and [`Kind::Bye`]: it runs.
    Alive = 10,
    /// From the old one, once: what it has sent about its pools covers all of them.
    Known = 11,
    /// In place of [`Kind::Hello`]: the process is to drain. Its answer: the same, with its number in four bytes.
    Drain = 12,
    /// From the new one, as long as the old one lasts: it shuts down. The old process does, too.
    Leaves = 13,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Alive, Bye, Cancel, Done, Drain, Hello, Item, Known, Leaves, Offer, Participant, Refused, Serving};
        [Hello, Refused, Offer, Serving, Item, Done, Bye, Cancel, Participant, Alive, Known, Drain, Leaves]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// The content of [`Kind::Offer`]: what the new process begins with.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Offer {
    /// The old process, and where its number is one ([`namespace`](super::process::namespace)).
    pub(super) pid: u32,
    pub(super) namespace: Option<String>,
    /// The process's key, by which statements have their names.
    pub(super) process_key: [u8; 32],
    /// The old process's clock: the wall clock at its beginning, and the time since then, in microseconds.
    pub(super) wall_at_start: u64,
    pub(super) now: u64,
    /// What its engines say.
    pub(super) prepared: OfferedState,
    /// What the descriptors of the frame are.
    pub(super) listeners: Vec<ListenerKind>,
}

/// The content of [`Kind::Serving`]: the new process serves.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Serving {
    pub(super) pid: u32,
}

/// A request to cancel that came to the new process.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct CancelRequest {
    pub(super) pid: u32,
    pub(super) secret: Vec<u8>,
}

/// One client or server; or something of a pool, without a socket.
#[derive(Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) route: u64,
    /// The engine's value.
    pub(super) value: Vec<u8>,
    /// Bytes that came from the socket before it left.
    pub(super) held: Vec<u8>,
    pub(super) tls: Option<SealedState>,
    pub(super) is_tcp: bool,
}

/// A frame that came.
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Sends a frame.
pub(super) fn send(stream: &UnixStream, kind: Kind, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if bytes.len() > MOST_BYTES || descriptors.len() > MOST_DESCRIPTORS {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut head = [kind as u8, 0, 0, 0, 0];
    head[1..].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut stream = stream;
    stream.write_all(&head[sent..])?;
    stream.write_all(bytes)
}

/// Sends a value as a frame.
pub(super) fn send_value<T: Serialize>(
    stream: &UnixStream,
    kind: Kind,
    value: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send(stream, kind, &postcard::to_stdvec(value).map_err(io::Error::other)?, descriptors)
}

/// A value as a whole frame without descriptors.
pub(super) fn frame<T: Serialize>(kind: Kind, value: &T) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(|_| ErrorKind::InvalidInput)?;
    Ok([&[kind as u8][..], &length.to_be_bytes(), &bytes].concat())
}

/// Receives a frame; fails with `UnexpectedEof` where none comes any more.
pub(super) fn receive(stream: &UnixStream) -> io::Result<Frame> {
    let (mut head, mut at, mut descriptors) = ([0; HEAD], 0, Vec::new());
    while at < HEAD {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut head[at..])];
        let got = match recvmsg(stream.as_fd(), &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?.bytes,
        };
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        at += got;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                descriptors.extend(came);
            }
        }
    }
    let kind = Kind::of(head[0]).ok_or(ErrorKind::InvalidData)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > MOST_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    // Grows with what comes, not with what is announced.
    if stream.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Frame { kind, bytes, descriptors })
}

/// Reads a frame's value.
pub(super) fn value<T: for<'a> Deserialize<'a>>(frame: &Frame) -> io::Result<T> {
    postcard::from_bytes(&frame.bytes).map_err(|_| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_brings_its_bytes_and_its_descriptors_however_large_it_is() {
        let (one, two) = UnixStream::pair().unwrap();
        let (left, right) = UnixStream::pair().unwrap();
        let large = vec![7; 3 << 20];
        let sent = large.clone();
        let sender = std::thread::spawn(move || {
            send(&one, Kind::Item, &sent, &[left.as_fd()]).unwrap();
            send(&one, Kind::Done, b"", &[]).unwrap();
        });
        let frame = receive(&two).unwrap();
        assert_eq!((frame.kind, frame.bytes == large, frame.descriptors.len()), (Kind::Item, true, 1));
        let frame = receive(&two).unwrap();
        assert_eq!((frame.kind, frame.bytes.len(), frame.descriptors.len()), (Kind::Done, 0, 0));
        sender.join().unwrap();
        assert_eq!(receive(&two).err().map(|e| e.kind()), Some(ErrorKind::UnexpectedEof));
        drop(right);
    }
}
