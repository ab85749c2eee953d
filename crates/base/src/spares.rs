//! Buffers that are free, for the next user of one.
//!
//! Invariant: what is kept is bounded in bytes, whatever its users had: a flood of clients leaves no more than that
//! behind. The allocator is nearly as fast, so the bound may be small.

/// What a kept buffer takes beside its bytes.
const OWN: usize = 32;
/// A smaller buffer saves its next user nothing, and keeps a whole page of the heap in use.
pub const SMALLEST_SPARE: usize = 256;
/// For the same reason there are no more buffers.
const COUNT: usize = 128;

/// Free buffers: `MOST` bytes and [`COUNT`] buffers at most, of 256 to `LARGEST` bytes each.
#[derive(Debug, Default)]
pub struct Spares<const MOST: usize, const LARGEST: usize> {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl<const MOST: usize, const LARGEST: usize> Spares<MOST, LARGEST> {
    /// An empty buffer, of any capacity.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else { return Vec::new() };
        self.bytes -= OWN + buffer.capacity();
        buffer
    }

    /// Keeps a buffer, without its content, as far as there is room.
    #[inline]
    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        let bytes = OWN + buffer.capacity();
        let fits = self.buffers.len() < COUNT && self.bytes + bytes <= MOST;
        if fits && (SMALLEST_SPARE..=LARGEST).contains(&buffer.capacity()) {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_taken_again_empty() {
        let mut spares = Spares::<1000, 400>::default();
        spares.keep(Vec::new());
        assert_eq!(spares.take().capacity(), 0, "nothing is not kept");
        spares.keep(vec![1; 401]);
        assert_eq!(spares.take().capacity(), 0, "too large");
        spares.keep(vec![1; SMALLEST_SPARE - 1]);
        assert_eq!(spares.take().capacity(), 0, "too small");
        (0..9).for_each(|_| spares.keep(vec![1; 300]));
        assert!(spares.bytes <= 1000);
        let taken: Vec<Vec<u8>> = (0..4).map(|_| spares.take()).collect();
        assert!(taken.iter().all(Vec::is_empty));
        assert_eq!(taken.iter().map(Vec::capacity).collect::<Vec<_>>(), [300, 300, 300, 0]);
        assert_eq!(spares.bytes, 0);
    }

    #[test]
    fn what_is_kept_is_bounded_in_number() {
        let mut spares = Spares::<{ 1 << 30 }, 400>::default();
        (0..2 * COUNT).for_each(|_| spares.keep(vec![1; 300]));
        assert_eq!(spares.buffers.len(), COUNT);
    }
}
