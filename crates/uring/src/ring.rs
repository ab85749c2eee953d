//! The ring: requests and completions.
//!
//! Owns the kernel's two queues, the provided buffers, the vectors that are being sent, and the count of what is in
//! flight. Knows nothing of what the bytes are. The four sentences at the top of the crate are kept here.

use std::fmt;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, sockopt};
use weir_base::Slab;

use crate::buffers::Buffers;
use crate::enter::{Limit, Queues};

/// The one group of provided buffers.
const GROUP: u16 = 0;
/// There is something to read (poll(2)).
const READABLE: u32 = 0x001;
/// How often, and how long each time, the end of what is in flight is waited for by a ring that is dropped.
const LAST_WAITS: u32 = 200;
const LAST_WAIT: Duration = Duration::from_millis(10);
/// How often, and how long each time, completions are waited for by a call whose entries the kernel does not take.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of the send that a new ring tries; its socket takes a part of them.
const TRIAL: usize = 64 * 1024;
/// A longer send is reported at once: one call of the kernel takes 2 GiB at most.
const MOST_LATER: usize = 1 << 30;

/// How large a ring is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSize {
    /// Entries that can be requested between two calls to the kernel without one more; a power of two.
    pub entries: u32,
    /// Completions that the kernel keeps for us without an allocation of its own; a power of two.
    pub completions: u32,
    /// Buffers to receive into, a power of two up to 32,768.
    pub buffers: u16,
    /// Bytes of each buffer, up to 1 MiB.
    pub buffer_size: u32,
}

/// Why there is no ring: one line.
#[derive(Debug)]
pub struct RingError(String);

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RingError {}

/// What a request is about, in the caller's own numbers; below 2^60.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(u64);

impl Key {
    /// The bits of a key.
    pub const BITS: u32 = 60;

    /// A key with this value. Panics if it has more than [`Key::BITS`] bits.
    #[inline]
    pub fn new(value: u64) -> Key {
        assert!(value >> Key::BITS == 0, "a key has 60 bits");
        Key(value)
    }

    /// The key's value.
    #[inline]
    pub fn value(self) -> u64 {
        self.0
    }
}

/// What has happened.
#[derive(Debug)]
pub enum Completion<'r> {
    /// Bytes came; their buffer goes back to the ring by itself.
    Received {
        /// The key of the receive.
        key: Key,
        /// The bytes; never empty, and as long as a buffer at most.
        bytes: &'r [u8],
        /// Whether the receive continues.
        more: bool,
    },
    /// A receive is over.
    ReceiveEnded {
        /// The key of the receive.
        key: Key,
        /// How the receive ended.
        ended: Ended,
    },
    /// A send is over.
    Sent {
        /// The key of the send.
        key: Key,
        /// The vector that was given, for the next use.
        bytes: Vec<u8>,
        /// How many of its bytes the socket took; `WouldBlock` is none, for it was full.
        taken: io::Result<usize>,
    },
    /// A client has connected.
    Accepted {
        /// The key of the listener.
        key: Key,
        /// The new socket, non-blocking.
        socket: OwnedFd,
        /// Whether accepting continues.
        more: bool,
    },
    /// Accepting is over.
    AcceptEnded {
        /// The key of the listener.
        key: Key,
        /// Why accepting is over.
        error: io::Error,
    },
    /// A descriptor that is watched may be read.
    Readable {
        /// The key of the descriptor.
        key: Key,
        /// Whether watching continues.
        more: bool,
    },
}

/// How a receive ended.
#[derive(Debug)]
pub enum Ended {
    /// The other side has closed, or shut down.
    Eof,
    /// No buffer was free. Received bytes wait in the socket.
    NoBuffers,
    /// [`Ring::cancel_receive`] requested the end.
    Cancelled,
    /// The connection broke.
    Error(io::Error),
}

/// When the end of a send is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendReport {
    /// The end of the send ends a wait.
    AtOnce,
    /// If the socket takes all bytes, the next wait that ends for another reason reports it. So a wait that hands in a
    /// send does not end because of it, and a loop with one message a turn needs one call a turn.
    Later,
}

/// The kinds of requests, in the four highest bits of what the kernel keeps for us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive = 1,
    Send = 2,
    Accept = 3,
    Watch = 4,
    Cancel = 5,
    /// A send that is reported later: a completion means that the socket did not take all.
    SendLater = 6,
}

impl Kind {
    fn mark(self, value: u64) -> u64 {
        (self as u64) << Key::BITS | value
    }

    fn of(mark: u64) -> Kind {
        match mark >> Key::BITS {
            1 => Kind::Receive,
            2 => Kind::Send,
            3 => Kind::Accept,
            4 => Kind::Watch,
            5 => Kind::Cancel,
            6 => Kind::SendLater,
            other => unreachable!("no request of ours has the kind {other}"),
        }
    }
}

/// A vector that is being sent.
struct Sending {
    key: Key,
    bytes: Vec<u8>,
}

/// A completion as the kernel wrote it.
#[derive(Clone, Copy)]
struct Done {
    mark: u64,
    result: i32,
    flags: u32,
}

impl Done {
    fn key(self) -> Key {
        Key(self.mark & ((1 << Key::BITS) - 1))
    }

    fn more(self) -> bool {
        cqueue::more(self.flags)
    }

    /// A result as a number, or the error that it stands for.
    fn result(self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// One io_uring; see the crate's top.
pub struct Ring {
    queues: Queues,
    /// `None` only while the ring is dropped.
    buffers: Option<Box<Buffers>>,
    sends: Slab<Sending>,
    /// Sends to be reported later, by their index: of unknown end, without a completion so far; taken whole, and not
    /// reported yet.
    later: Vec<u32>,
    whole: Vec<u32>,
    /// Requests that were made and whose last completion has not been seen.
    in_flight: usize,
    /// Completions taken from the kernel's queue; those below `at` have been returned.
    done: Vec<Done>,
    at: usize,
    /// The buffer that is lent to the caller.
    lent: Option<u16>,
    /// The ring is bound to its thread.
    _thread: PhantomData<*const ()>,
}

impl Ring {
    /// Makes a ring for this thread, if the kernel supports and permits it.
    pub fn new(shape: RingSize) -> Result<Ring, RingError> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
        builder.setup_cqsize(shape.completions).dontfork();
        let uring = builder.build(shape.entries).map_err(refused)?;
        if !uring.params().is_feature_nodrop() || !uring.params().is_feature_ext_arg() {
            return Err(RingError(
                "this kernel's io_uring is too old; Linux 6.1 is the oldest that will do".to_owned(),
            ));
        }
        let mut buffers = Box::new(Buffers::new(shape.buffers, shape.buffer_size as usize));
        let (address, count) = (buffers.address(), buffers.count());
        // SAFETY: the descriptors stay where they are, within the box, until `drop` has unregistered them; if that
        // fails they are leaked.
        let registered = unsafe { uring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0) };
        registered.map_err(|e| RingError(format!("io_uring's provided buffers are refused: {e}")))?;
        (0..count).for_each(|id| buffers.publish(id));
        let mut ring = Ring {
            queues: Queues::new(uring),
            buffers: Some(buffers),
            sends: Slab::new(),
            later: Vec::with_capacity(shape.entries as usize),
            whole: Vec::with_capacity(shape.entries as usize),
            in_flight: 0,
            done: Vec::with_capacity(shape.completions as usize),
            at: 0,
            lent: None,
            _thread: PhantomData,
        };
        if ring.reports_short_sends().map_err(refused)? {
            return Ok(ring);
        }
        Err(RingError("this kernel's io_uring does not report that a socket took a part of a send".to_owned()))
    }

    /// Whether a send that is reported later has a completion if the socket takes a part of it. Without one, bytes
    /// would be lost without a trace, so each ring tries it.
    fn reports_short_sends(&mut self) -> io::Result<bool> {
        let (near, _far) = UnixStream::pair()?;
        sockopt::set_socket_send_buffer_size(&near, TRIAL / 16)?;
        self.send(near.as_fd(), Key::new(0), vec![0; TRIAL], SendReport::Later)?;
        self.wait(Some(Duration::ZERO))?;
        Ok(matches!(self.next(), Some(Completion::Sent { taken: Ok(taken), .. }) if taken < TRIAL))
    }

    /// A ring with a limit to what each call hands in: for tests of what a kernel that is short of memory may do.
    pub fn with_limit(shape: RingSize, limit: Limit) -> Result<Ring, RingError> {
        let mut ring = Ring::new(shape)?;
        ring.queues.set_limit(limit);
        Ok(ring)
    }

    /// How many requests can be made now, each of them one call of the methods below. Hands in what was requested if
    /// there would be none; it is none only while the kernel takes nothing.
    pub fn room(&mut self) -> io::Result<u32> {
        if self.queues.room() == 0 {
            self.submit()?;
        }
        Ok(self.queues.room())
    }

    /// Whether the kernel has yet to take some of the requests. As long as that is so, no descriptor may be closed that
    /// a request names.
    #[inline]
    pub fn has_unsubmitted(&mut self) -> bool {
        self.queues.waiting() > 0
    }

    /// Receives from a socket, again and again, until that ends by itself or by [`Ring::cancel_receive`].
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.ask(entry.user_data(Kind::Receive.mark(key.0)))
    }

    /// Has a receive end. [`Completion::ReceiveEnded`] follows, with what came first before it.
    pub fn cancel_receive(&mut self, key: Key) -> io::Result<()> {
        self.cancel(Kind::Receive.mark(key.0))
    }

    /// Sends bytes, as many as the socket takes at once. Two sends to one socket may overtake each other: the second
    /// one waits for the first one's completion. Without [`Ring::room`] it fails and the bytes are gone.
    #[inline]
    pub fn send(&mut self, socket: BorrowedFd<'_>, key: Key, bytes: Vec<u8>, report: SendReport) -> io::Result<()> {
        let (start, length) = (bytes.as_ptr(), u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let later = report == SendReport::Later && bytes.len() <= MOST_LATER;
        // The vector is moved; its bytes are not.
        let index = self.sends.insert(Sending { key, bytes });
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), start, length);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let entry = if later {
            // WAITALL makes a short send a failure, which is not skipped; DONTWAIT still ends it within the call.
            let flags = flags | SendFlags::from_bits_retain(libc::MSG_WAITALL.cast_unsigned());
            let entry = entry.flags(flags.bits().cast_signed()).build().flags(squeue::Flags::SKIP_SUCCESS);
            entry.user_data(Kind::SendLater.mark(u64::from(index)))
        } else {
            entry.flags(flags.bits().cast_signed()).build().user_data(Kind::Send.mark(u64::from(index)))
        };
        let asked = self.ask(entry);
        match &asked {
            Ok(()) if later => self.later.push(index),
            Ok(()) => {}
            // Never pushed, so the kernel has not seen it.
            Err(_) => drop(self.sends.remove(index)),
        }
        asked
    }

    /// Accepts at a listener, again and again, until that ends by itself or by [`Ring::cancel_accept`].
    pub fn accept(&mut self, listener: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        let flags = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).bits().cast_signed();
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build();
        self.ask(entry.user_data(Kind::Accept.mark(key.0)))
    }

    /// Has accepting end. [`Completion::AcceptEnded`] follows.
    pub fn cancel_accept(&mut self, key: Key) -> io::Result<()> {
        self.cancel(Kind::Accept.mark(key.0))
    }

    /// Tells each time that a descriptor has become readable.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), READABLE).multi(true).build();
        self.ask(entry.user_data(Kind::Watch.mark(key.0)))
    }

    /// Hands in what was requested, and does not wait, unless the kernel takes none of it: then for a moment at most.
    /// What it has not taken by then is handed in by a later call.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.queues.submit()? { Ok(()) } else { self.submit_rest() }
    }

    /// Hands in what was requested, and waits until something has happened or the time is over; `None` is for as long
    /// as it takes. While the kernel does not take what was requested, this waits for a moment at most.
    #[inline]
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.give_back();
        if self.at < self.done.len() || !self.whole.is_empty() {
            // There is something to tell already.
            self.submit()?;
        } else {
            self.done.clear();
            self.at = 0;
            if !self.queues.submit_and_wait(timeout)? {
                self.submit_rest()?;
            }
        }
        self.collect();
        Ok(())
    }

    /// Offers the kernel what it has not taken, until it has taken all or does not go on. Meanwhile completions are
    /// collected: they may be what it has no room for.
    #[cold]
    fn submit_rest(&mut self) -> io::Result<()> {
        let mut tries = 0;
        while tries < TRIES {
            let before = self.queues.waiting();
            if self.queues.submit()? {
                break;
            }
            if self.queues.waiting() < before {
                continue;
            }
            tries += 1;
            let (known, began) = (self.done.len(), Instant::now());
            self.queues.wait(PAUSE)?;
            self.collect();
            if self.done.len() == known {
                // The kernel may have refused that wait as well.
                thread::sleep(PAUSE.saturating_sub(began.elapsed()));
            }
        }
        Ok(())
    }

    /// Moves what the kernel has completed to `done`.
    #[inline]
    fn collect(&mut self) {
        let Ring { queues, done, later, .. } = self;
        done.extend(queues.completed().map(|e| {
            let done = Done { mark: e.user_data(), result: e.result(), flags: e.flags() };
            if Kind::of(done.mark) == Kind::SendLater {
                // The socket did not take all. Removed now: `next` frees the index for another send.
                let index = done.key().0 as u32;
                let at = later.iter().rposition(|other| *other == index).expect("its end was unknown");
                later.swap_remove(at);
            }
            done
        }));
        if !self.later.is_empty() && self.queues.waiting() == 0 && !self.queues.uring().submission().cq_overflow() {
            self.settle();
        }
    }

    /// The kernel has taken all requests, and all completions have been collected: a send that is reported later and
    /// has no completion was taken whole.
    #[inline]
    fn settle(&mut self) {
        self.in_flight -= self.later.len();
        self.whole.append(&mut self.later);
    }

    /// Whether more has happened than the last wait has brought: the kernel brings so much at once, and no more.
    pub fn has_more(&mut self) -> bool {
        let uring = self.queues.uring();
        uring.submission().taskrun() || !uring.completion().is_empty()
    }

    /// Whether some of what the kernel has done for us is still to be brought by further waits, because there was no
    /// room for its completions. Until then, what is read from a socket by other means may overtake what the ring has
    /// received.
    pub fn is_behind(&mut self) -> bool {
        let uring = self.queues.uring();
        uring.submission().cq_overflow() || !uring.completion().is_empty()
    }

    /// The next thing that has happened.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows the ring, as no iterator's items may")]
    pub fn next(&mut self) -> Option<Completion<'_>> {
        self.give_back();
        if let Some(index) = self.whole.pop() {
            let Sending { key, bytes } = self.sends.remove(index).expect("a send is reported once");
            let taken = Ok(bytes.len());
            return Some(Completion::Sent { key, bytes, taken });
        }
        while let Some(done) = self.done.get(self.at).copied() {
            self.at += 1;
            let kind = Kind::of(done.mark);
            if kind == Kind::Cancel {
                // The cancelled request has a completion of its own, or had ended already.
                continue;
            }
            if !done.more() {
                self.in_flight -= 1;
            }
            return Some(match kind {
                Kind::Receive => self.received(done),
                Kind::Send | Kind::SendLater => self.sent(done),
                Kind::Accept => accepted(done),
                Kind::Watch | Kind::Cancel => Completion::Readable { key: done.key(), more: done.more() },
            });
        }
        None
    }

    /// The size of a buffer in bytes: if one arrives full, more bytes may follow.
    pub fn buffer_size(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.size())
    }

    #[inline]
    fn received(&mut self, done: Done) -> Completion<'_> {
        let key = done.key();
        let buffers = self.buffers.as_mut().expect("there until the ring is dropped");
        if let Some(id) = cqueue::buffer_select(done.flags) {
            buffers.take_back(id);
            self.lent = Some(id);
        }
        let ended = match (done.result(), self.lent) {
            (Ok(length @ 1..), Some(id)) => {
                return Completion::Received { key, bytes: buffers.bytes(id, length), more: done.more() };
            }
            (Ok(_), _) => Ended::Eof,
            (Err(error), _) => match Errno::from_io_error(&error) {
                Some(Errno::NOBUFS) => Ended::NoBuffers,
                Some(Errno::CANCELED) => Ended::Cancelled,
                _ => Ended::Error(error),
            },
        };
        Completion::ReceiveEnded { key, ended }
    }

    #[inline]
    fn sent(&mut self, done: Done) -> Completion<'static> {
        let index = done.key().0 as u32;
        let Sending { key, bytes } = self.sends.remove(index).expect("a send has one completion");
        Completion::Sent { key, bytes, taken: done.result() }
    }

    /// The buffer that was lent is the kernel's again.
    #[inline]
    fn give_back(&mut self) {
        if let (Some(id), Some(buffers)) = (self.lent.take(), self.buffers.as_mut()) {
            buffers.publish(id);
        }
    }

    fn cancel(&mut self, mark: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(mark).build();
        self.push(&entry.user_data(Kind::Cancel.mark(0)).flags(squeue::Flags::SKIP_SUCCESS))
    }

    #[inline]
    fn ask(&mut self, entry: squeue::Entry) -> io::Result<()> {
        self.push(&entry)?;
        self.in_flight += 1;
        Ok(())
    }

    #[inline]
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..2 {
            // SAFETY: the entries made above refer to no memory but that of `sends`, which moves and is freed only
            // after its completion (see `sent`, `settle`, `drop`), and to the provided buffers, which are leaked rather
            // than freed before everything has ended.
            if unsafe { self.queues.push(entry) } {
                return Ok(());
            }
            self.submit()?;
        }
        Err(io::Error::new(ErrorKind::WouldBlock, "the kernel takes no requests for now"))
    }

    /// Cancels everything and waits for its end; `false` if that did not come.
    fn quiet(&mut self) -> bool {
        let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(Kind::Cancel.mark(0));
        if self.in_flight > 0 && self.push(&all).is_err() {
            return false;
        }
        for _ in 0..LAST_WAITS {
            // Sockets that were accepted are closed on the way.
            while self.next().is_some() {}
            if self.in_flight == 0 {
                return true;
            }
            if self.wait(Some(LAST_WAIT)).is_err() {
                return false;
            }
        }
        false
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let quiet = self.quiet() && self.queues.uring().submitter().unregister_buf_ring(GROUP).is_ok();
        if !quiet {
            // Some memory is lost, and nothing is written to where it was.
            mem::forget(self.buffers.take());
            mem::forget(mem::take(&mut self.sends));
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

fn accepted(done: Done) -> Completion<'static> {
    let (key, more) = (done.key(), done.more());
    match done.result() {
        // SAFETY: the kernel has just opened this descriptor for this completion alone; each completion is returned
        // once.
        Ok(_) => Completion::Accepted { key, socket: unsafe { OwnedFd::from_raw_fd(done.result) }, more },
        Err(error) => Completion::AcceptEnded { key, error },
    }
}

/// Why a kernel refuses a ring, in words that say what can be done about it.
fn refused(error: io::Error) -> RingError {
    RingError(match Errno::from_io_error(&error) {
        Some(Errno::NOSYS) => "this kernel has no io_uring".to_owned(),
        Some(Errno::PERM) => {
            "io_uring is forbidden here, by the kernel's setting io_uring_disabled or by a filter of system calls"
                .to_owned()
        }
        Some(Errno::NOMEM) => {
            "there is no memory for an io_uring, or less may be locked than it takes (ulimit -l, LimitMEMLOCK)"
                .to_owned()
        }
        Some(Errno::INVAL) => "this kernel's io_uring is too old; Linux 6.1 is the oldest that will do".to_owned(),
        _ => format!("io_uring is refused: {error}"),
    })
}
