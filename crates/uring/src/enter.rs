//! The calls to the kernel: how many entries of the submission queue it takes, how long it waits.
//!
//! Owns the kernel's two queues, and whether a call failed for a reason that passes. Knows nothing of what entries are
//! about. The kernel may take fewer entries than it is given, or none (io_uring_enter(2)): for a lack of memory, for a
//! full completion queue, after a signal. What it has not taken stays in the queue, in order, until a later call.

use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};
use rustix::io::Errno;

/// What stands between a ring and its kernel in a test: given how many entries are to be handed in, it answers how many
/// are, or with what error the call fails without reaching the kernel. See [`crate::Ring::with_limit`].
pub type Limit = Box<dyn FnMut(u32) -> io::Result<u32>>;

/// The queues that are shared with the kernel.
pub(crate) struct Queues {
    uring: IoUring,
    limit: Option<Limit>,
    /// The flag by which a thread that sleeps in a wait counts as idle, and not as waiting for a disk; empty where the
    /// kernel does not know it.
    no_iowait: EnterFlags,
}

impl Queues {
    pub(crate) fn new(uring: IoUring) -> Queues {
        let known = uring.params().is_feature_no_iowait();
        let no_iowait = if known { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        Queues { uring, limit: None, no_iowait }
    }

    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = Some(limit);
    }

    pub(crate) fn uring(&mut self) -> &mut IoUring {
        &mut self.uring
    }

    /// Entries that the kernel has not taken yet.
    #[inline]
    pub(crate) fn waiting(&mut self) -> u32 {
        self.uring.submission().len() as u32
    }

    /// How many more entries fit.
    #[inline]
    pub(crate) fn room(&mut self) -> u32 {
        let queue = self.uring.submission();
        (queue.capacity() - queue.len()) as u32
    }

    /// Puts an entry at the queue's end; `false` if it is full.
    ///
    /// # Safety
    ///
    /// What the entry refers to must live, and not be touched, until its last completion.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    /// The completions that the kernel has written.
    #[inline]
    pub(crate) fn completed(&mut self) -> impl Iterator<Item = cqueue::Entry> + '_ {
        self.uring.completion()
    }

    /// Offers all entries to the kernel, without waiting and without having it do deferred work. Returns whether it
    /// took all.
    pub(crate) fn submit(&mut self) -> io::Result<bool> {
        self.offer(0, EnterFlags::empty(), None)
    }

    /// Offers all entries, and waits until something has been completed or the time is over; `None` is for as long as
    /// it takes. Returns whether the kernel took all; it does not wait where it took fewer.
    #[inline]
    pub(crate) fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        if timeout == Some(Duration::ZERO) {
            // A wait for one completion would set a timer and put the thread to sleep until it fires.
            return self.offer(0, EnterFlags::GETEVENTS, None);
        }
        self.offer(1, EnterFlags::GETEVENTS | self.no_iowait, timeout)
    }

    /// Offers nothing, and waits for completions: they may be what the kernel has no room for.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        self.enter(0, 1, EnterFlags::GETEVENTS, Some(timeout)).map(drop)
    }

    #[inline]
    fn offer(&mut self, want: u32, flags: EnterFlags, timeout: Option<Duration>) -> io::Result<bool> {
        let waiting = self.waiting();
        let limit = self.limit.as_mut().map(|limit| limit(waiting));
        let taken = match limit {
            None => self.enter(waiting, want, flags, timeout)?,
            // As the kernel does not wait if it takes fewer.
            Some(Ok(some)) if some < waiting => self.enter(some, 0, EnterFlags::empty(), None)?,
            Some(Ok(_)) => self.enter(waiting, want, flags, timeout)?,
            Some(Err(error)) => passed(Err(error))?,
        };
        Ok(taken == waiting)
    }

    /// One call; returns how many entries were taken.
    #[inline]
    fn enter(&mut self, entries: u32, want: u32, flags: EnterFlags, timeout: Option<Duration>) -> io::Result<u32> {
        let timeout = timeout.map(Timespec::from);
        let args = SubmitArgs::new();
        let args = timeout.as_ref().map_or(args, |timeout| args.timespec(timeout));
        let flags = flags | EnterFlags::EXT_ARG;
        // SAFETY: `args` is what EXT_ARG says it is, and lives until the call returns, as does the time it refers to.
        passed(unsafe { self.uring.submitter().enter(entries, want, flags.bits(), Some(&args)) })
    }
}

/// A call that is over for a reason that passes has taken nothing, and is no failure: the time is over, a signal came,
/// there is something to tell first, or no memory just now.
fn passed(entered: io::Result<usize>) -> io::Result<u32> {
    match entered.map_err(|error| Errno::from_io_error(&error).ok_or(error)) {
        Ok(taken) => Ok(taken as u32),
        Err(Ok(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN)) => Ok(0),
        Err(Ok(errno)) => Err(errno.into()),
        Err(Err(error)) => Err(error),
    }
}
