//! The provided buffers: a ring of descriptors that the kernel takes from, and the memory that they describe.
//!
//! Owns both, and which of the buffers are published. Invariant: a buffer is either the kernel's (published, and not
//! yet named by a completion) or ours; only what is ours is read or published.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// The alignment of a page; the kernel requires it for the descriptors.
const PAGE: usize = 4096;
/// Added to each buffer's length, so that their beginnings do not all fall on the same lines of the cache.
const STAGGER: usize = 64;

/// Buffers of one size.
pub(crate) struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    count: u16,
    size: usize,
    tail: u16,
    /// Whether each buffer is the kernel's, by buffer.
    published: Box<[bool]>,
}

impl Buffers {
    /// Makes `count` buffers, a power of two, of `size` bytes each; all of them ours.
    pub(crate) fn new(count: u16, size: usize) -> Buffers {
        assert!(count.is_power_of_two() && count <= 1 << 15 && size > 0 && size <= 1 << 20, "an odd ring of buffers");
        let entries = allocate(entries_layout(count)).cast();
        let memory = allocate(memory_layout(count, size));
        let published = vec![false; count as usize].into();
        Buffers { entries, memory, count, size, tail: 0, published }
    }

    /// Where the descriptors lie, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Gives a buffer to the kernel.
    pub(crate) fn publish(&mut self, id: u16) {
        let published = &mut self.published[id as usize];
        assert!(!*published, "a buffer is published once");
        *published = true;
        let at = (self.tail & (self.count - 1)) as usize;
        // SAFETY: `at` is below `count`, the number of entries allocated. The kernel only reads entries, and only those
        // below the tail that it sees; this one is beyond it until the store below.
        let mut entry = unsafe { self.entries.add(at) };
        // SAFETY: allocated and zeroed, so an entry of zeros at least; nothing else of ours refers to it.
        let entry = unsafe { entry.as_mut() };
        // The memory never moves: the address is good as long as this value lives.
        entry.set_addr(self.place(id).as_ptr() as u64);
        entry.set_len(self.size as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the first entry was allocated with all others, and zeroed.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the tail is two aligned bytes within the first entry, valid as long as `self`; the kernel reads it
        // while we write, which is why it is written atomically. Nothing else of ours refers to it now.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        // Behind the entry itself: who sees the tail sees the entry.
        tail.store(self.tail, Ordering::Release);
    }

    /// The kernel has given a buffer back.
    pub(crate) fn take_back(&mut self, id: u16) {
        let published = &mut self.published[id as usize];
        assert!(*published, "a completion names a buffer that the kernel had");
        *published = false;
    }

    /// The first bytes of a buffer of ours.
    pub(crate) fn bytes(&self, id: u16, length: usize) -> &[u8] {
        assert!(!self.published[id as usize] && length <= self.size, "bytes of a buffer that is ours");
        // SAFETY: `place` is the beginning of `size` bytes that were zeroed when allocated. The buffer is ours, so
        // nothing writes to it before `publish`, which takes `&mut self` and so ends this borrow.
        unsafe { std::slice::from_raw_parts(self.place(id).as_ptr(), length) }
    }

    fn place(&self, id: u16) -> NonNull<u8> {
        assert!(id < self.count);
        // SAFETY: `id` is below `count`, so this is within the one allocation of `count * (size + STAGGER)` bytes.
        unsafe { self.memory.add(id as usize * (self.size + STAGGER)) }
    }
}

impl Drop for Buffers {
    /// The caller has made sure that the kernel has forgotten them.
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and freed nowhere else.
        unsafe { dealloc(self.entries.as_ptr().cast(), entries_layout(self.count)) };
        // SAFETY: the same.
        unsafe { dealloc(self.memory.as_ptr(), memory_layout(self.count, self.size)) };
    }
}

fn entries_layout(count: u16) -> Layout {
    Layout::from_size_align(count as usize * size_of::<BufRingEntry>(), PAGE).expect("a small layout")
}

fn memory_layout(count: u16, size: usize) -> Layout {
    Layout::from_size_align(count as usize * (size + STAGGER), PAGE).expect("a layout below 64 GiB")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here has a length of zero: `new` asks for a count and a size above it.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_the_kernel_s_or_ours() {
        let mut buffers = Buffers::new(2, 100);
        assert!(buffers.bytes(1, 100).iter().all(|byte| *byte == 0));
        buffers.publish(1);
        let refused = |act: fn(&mut Buffers)| {
            let mut again = Buffers::new(2, 100);
            again.publish(1);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&mut again))).is_err()
        };
        assert!(
            refused(|b| b.publish(1))
                && refused(|b| b.take_back(0))
                && refused(|b| {
                    b.bytes(1, 1);
                })
        );
        buffers.take_back(1);
        assert_eq!(buffers.bytes(1, 7).len(), 7);
        assert!(
            refused(|b| {
                b.bytes(0, 101);
            }) && refused(|b| {
                b.bytes(2, 1);
            })
        );
    }

    #[test]
    fn entries_go_round_and_describe_their_buffers() {
        let mut buffers = Buffers::new(2, 100);
        for round in 0..5_u16 {
            let id = round % 2;
            buffers.publish(id);
            // SAFETY: two entries were allocated.
            let entry = unsafe { buffers.entries.add(round as usize % 2) };
            // SAFETY: both were zeroed, and no kernel knows of them.
            let entry = unsafe { entry.as_ref() };
            assert_eq!((entry.bid(), entry.len(), entry.addr()), (id, 100, buffers.place(id).as_ptr() as u64));
            buffers.take_back(id);
        }
        assert_eq!(buffers.tail, 5);
    }
}
