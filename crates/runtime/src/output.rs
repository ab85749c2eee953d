//! The output of a turn, and the bytes that sockets refused.
//!
//! Owns the segments of the current turn (ranges of its input or of the arena, in order, a list for each connection)
//! and the backlogs. Decides nothing: the engine decides whether a connection's sender must pause. All memory is
//! reused, so that in steady state a turn allocates nothing. Invariant: all output of a connection with a backlog goes
//! through the backlog, so bytes are never reordered.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;

use weir_base::{ConnId, Slab, Spares, shrink};

use crate::slots::{NONE, Slot};
use crate::socket::Socket;

/// Segments of one gathered write.
const GATHER: usize = 16;
/// More segments than that, and together no larger than this, are copied into one: a client may send thousands of
/// messages in a turn, each of which is forwarded in pieces, and a system call for every few of them would block the
/// worker.
const COPIED: usize = 16 * 1024;
/// A larger arena is freed after its turn.
const KEEP: usize = 256 * 1024;
/// Segments and connections of a turn for which there is room in the next one.
const KEPT_PLACES: usize = 2048;
/// The bytes of spare buffers for the next backlogs, and of one.
const SPARES: usize = 256 * 1024;
const SPARE: usize = 128 * 1024;
/// The limit of a connection's backlog; beyond it the connection fails. The most that an engine produces in one turn (a
/// large table of the console) is far below.
pub(crate) const BACKLOG_LIMIT: usize = 256 * 1024 * 1024;

/// The source of a segment's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The turn's input.
    Input,
    /// The arena: bytes that Weir made.
    Arena,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    source: Source,
    start: u32,
    end: u32,
    next: u32,
}

/// A connection with output in this turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    /// The connection.
    pub(crate) conn: ConnId,
    first: u32,
    last: u32,
}

/// The output of one turn.
#[derive(Debug, Default)]
pub(crate) struct Output {
    arena: Vec<u8>,
    segments: Vec<Segment>,
    touched: Vec<Touched>,
}

impl Output {
    #[inline]
    pub(crate) fn forward(&mut self, conn: ConnId, slot: &mut Slot, range: Range<usize>) {
        self.queue(conn, slot, Source::Input, range);
    }

    #[inline]
    pub(crate) fn send(&mut self, conn: ConnId, slot: &mut Slot, bytes: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.queue(conn, slot, Source::Arena, start..self.arena.len());
    }

    #[inline]
    fn queue(&mut self, conn: ConnId, slot: &mut Slot, source: Source, range: Range<usize>) {
        let (Ok(start), Ok(end)) = (u32::try_from(range.start), u32::try_from(range.end)) else {
            unreachable!("a turn's input and output stay below 4 GiB");
        };
        if start >= end {
            return;
        }
        let index = self.segments.len() as u32;
        if slot.touched == NONE {
            slot.touched = self.touched.len() as u32;
            self.touched.push(Touched { conn, first: index, last: index });
        } else {
            let touched = &mut self.touched[slot.touched as usize];
            let last = &mut self.segments[touched.last as usize];
            if last.source == source && last.end == start {
                last.end = end;
                return;
            }
            last.next = index;
            touched.last = index;
        }
        self.segments.push(Segment { source, start, end, next: NONE });
    }

    /// The `i`th connection with output.
    #[inline]
    pub(crate) fn touched(&self, i: usize) -> Option<Touched> {
        self.touched.get(i).copied()
    }

    /// Clears the output.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.touched.clear();
        self.segments.clear();
        self.arena.clear();
        shrink(&mut self.touched, KEPT_PLACES);
        shrink(&mut self.segments, KEPT_PLACES);
        if self.arena.capacity() > KEEP {
            self.arena = Vec::new();
        }
    }

    /// Writes a connection's output directly to its socket.
    #[inline]
    pub(crate) fn write<'a>(&'a self, touched: Touched, input: &'a [u8], socket: &mut Socket) -> io::Result<Rest<'a>> {
        let mut rest = Rest { output: self, input, next: touched.first, skip: 0 };
        if touched.first != touched.last {
            rest.gather(socket)?;
            return Ok(rest);
        }
        let piece = rest.pieces().next().unwrap_or_default();
        let taken = take(|| socket.write(piece))?;
        rest.advance(taken);
        Ok(rest)
    }

    /// All output of a connection, before anything is written.
    pub(crate) fn unwritten<'a>(&'a self, touched: Touched, input: &'a [u8]) -> Rest<'a> {
        Rest { output: self, input, next: touched.first, skip: 0 }
    }
}

/// The unwritten part of a connection's output.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    output: &'a Output,
    input: &'a [u8],
    next: u32,
    skip: usize,
}

impl<'a> Rest<'a> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.next == NONE
    }

    #[inline]
    pub(crate) fn pieces(&self) -> Pieces<'a> {
        Pieces(*self)
    }

    /// Skips `taken` bytes.
    #[inline]
    fn advance(&mut self, mut taken: usize) {
        while self.next != NONE {
            let segment = &self.output.segments[self.next as usize];
            let length = (segment.end - segment.start) as usize - self.skip;
            if taken < length {
                self.skip += taken;
                return;
            }
            taken -= length;
            self.skip = 0;
            self.next = segment.next;
        }
    }

    /// Writes the next small segments as one.
    #[cold]
    fn copy(&mut self, socket: &mut Socket) -> io::Result<Copied> {
        let mut buffer = [0; COPIED];
        let mut length = 0;
        for piece in self.pieces() {
            let Some(room) = buffer[length..].get_mut(..piece.len()) else { break };
            room.copy_from_slice(piece);
            length += piece.len();
        }
        let taken = take(|| socket.write(&buffer[..length]))?;
        self.advance(taken);
        Ok(if taken == length { Copied::All } else { Copied::Part })
    }

    fn gather(&mut self, socket: &mut Socket) -> io::Result<()> {
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); GATHER];
            let (mut count, mut length) = (0, 0);
            for piece in self.pieces().take(GATHER) {
                slices[count] = IoSlice::new(piece);
                count += 1;
                length += piece.len();
            }
            if count == GATHER && length < COPIED {
                let Copied::All = self.copy(socket)? else { break };
                continue;
            }
            let taken = take(|| socket.write_vectored(&slices[..count]))?;
            self.advance(taken);
            if taken < length {
                break;
            }
        }
        Ok(())
    }
}

/// How much of a copied part a socket accepted.
enum Copied {
    All,
    Part,
}

/// The segments of a [`Rest`], in order.
#[derive(Clone)]
pub(crate) struct Pieces<'a>(Rest<'a>);

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &mut self.0;
        let segment = rest.output.segments.get(rest.next as usize)?;
        let from = match segment.source {
            Source::Input => rest.input,
            Source::Arena => &rest.output.arena,
        };
        let piece = &from[segment.start as usize + rest.skip..segment.end as usize];
        rest.skip = 0;
        rest.next = segment.next;
        Some(piece)
    }
}

/// The result of a write: 0 where the socket has no room.
#[inline]
pub(crate) fn take(mut write: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match write() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Bytes that a socket refused.
#[derive(Debug)]
struct Backlog {
    bytes: Vec<u8>,
    taken: usize,
}

/// The backlogs of a worker, and buffers for the next ones.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    all: Slab<Backlog>,
    spares: Spares<SPARES, SPARE>,
}

/// The result of writing a backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// All was accepted.
    Drained,
    /// A part is left.
    Waits,
}

impl Backlogs {
    /// Appends bytes to the backlog of the connection in `slot`. `false` if that exceeds the limit.
    pub(crate) fn keep<'a>(&mut self, slot: &mut Slot, pieces: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
        if slot.backlog == NONE {
            let bytes = self.spares.take();
            slot.backlog = self.all.insert(Backlog { bytes, taken: 0 });
        }
        let backlog = self.all.get_mut(slot.backlog).expect("a slot's backlog exists");
        if backlog.taken > backlog.bytes.len() / 2 {
            backlog.bytes.drain(..backlog.taken);
            backlog.taken = 0;
        }
        backlog.bytes.reserve(pieces.clone().map(<[u8]>::len).sum());
        pieces.for_each(|piece| backlog.bytes.extend_from_slice(piece));
        backlog.bytes.len() - backlog.taken <= BACKLOG_LIMIT
    }

    /// Puts bytes before the backlog of the connection in `slot`. `false` if that exceeds the limit.
    pub(crate) fn keep_first(&mut self, slot: &mut Slot, bytes: &[u8]) -> bool {
        if let Some(backlog) = self.all.get_mut(slot.backlog) {
            backlog.bytes.splice(..backlog.taken, bytes.iter().copied());
            backlog.taken = 0;
            return backlog.bytes.len() <= BACKLOG_LIMIT;
        }
        self.keep(slot, std::iter::once(bytes))
    }

    /// How many bytes of the connection in `slot` wait.
    pub(crate) fn length(&self, slot: &Slot) -> usize {
        self.all.get(slot.backlog).map_or(0, |backlog| backlog.bytes.len() - backlog.taken)
    }

    /// Writes the backlog to the socket; drops the backlog when it is empty.
    pub(crate) fn offer(&mut self, slot: &mut Slot) -> io::Result<Offer> {
        let (Some(backlog), Some(socket)) = (self.all.get_mut(slot.backlog), slot.socket.as_mut()) else {
            return Ok(Offer::Drained);
        };
        backlog.taken += take(|| socket.write(&backlog.bytes[backlog.taken..]))?;
        if backlog.taken < backlog.bytes.len() {
            return Ok(Offer::Waits);
        }
        self.drop(std::mem::replace(&mut slot.backlog, NONE));
        Ok(Offer::Drained)
    }

    /// Drops the backlog at `index`; [`NONE`] is none.
    pub(crate) fn drop(&mut self, index: u32) {
        if let Some(backlog) = self.all.remove(index) {
            self.spares.keep(backlog.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A turn's output for one connection: every other piece of `input` of this many bytes, and bytes of our own
    /// between them.
    fn output(input: &[u8], piece: usize) -> (Output, Vec<u8>) {
        let (mut output, mut whole) = (Output::default(), Vec::new());
        let mut conns = crate::slots::ConnSlots::new();
        let conn = conns.insert(None, crate::slots::Stage::Open);
        let slot = conns.get(conn).expect("it was put in");
        for start in (0..input.len() - piece).step_by(2 * piece) {
            output.send(conn, slot, b"own");
            output.forward(conn, slot, start..start + piece);
            whole.extend_from_slice(b"own");
            whole.extend_from_slice(&input[start..start + piece]);
        }
        (output, whole)
    }

    #[test]
    fn many_pieces_arrive_in_order_whether_they_are_copied_or_gathered() {
        let input: Vec<u8> = (0..64 << 10).map(|i: u32| (i % 251) as u8).collect();
        for piece in [1, 7, 100, 900, 2000, 20_000] {
            let (output, whole) = output(&input, piece);
            let (near, mut far) = UnixStream::pair().expect("a pair");
            near.set_nonblocking(true).expect("it can");
            let mut socket = Socket::Unix(mio::net::UnixStream::from_std(near));
            let mut received = Vec::new();
            let mut rest = output.unwritten(output.touched(0).expect("a connection has output"), &input);
            while !rest.is_empty() {
                rest.gather(&mut socket).expect("it is open");
                let mut some = [0; 4096];
                let length = far.read(&mut some).expect("something came");
                received.extend_from_slice(&some[..length]);
            }
            drop(socket);
            far.read_to_end(&mut received).expect("all came");
            assert_eq!(received, whole, "in pieces of {piece}");
        }
    }
}
